"""Report of parsers: the strongest rules, words and spans, and trees with their errors."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from latentstruct.cli.blocks import LONGEST_WORD, sentence_name
from latentstruct.cli.description import largest
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.parse.command import name_weight
from latentstruct.data.trees import (
    Constituent,
    Tree,
    binarize,
    constituents,
    is_artificial,
    is_preterminal,
    preorder,
    words,
)
from latentstruct.viz.plots.features import can_write, shorten
from latentstruct.viz.plots.trees import plot_tree, tree_height
from latentstruct.viz.report.blocks import Block, Drawing, Examples, Group, Letters, Mark, TableBlock, Text

TOP_WEIGHTS = 10
ROUNDING = 1e-9
"""Fraction of the largest weight below which others are rounding errors."""
MOST_DRAWN = 14
"""Number of words up to which a tree is drawn; larger ones are written line by line."""
MOST_LINES = 300
LONGEST_NAME = 60
Line = tuple[str, list[tuple[str, Mark]]]


def weight_blocks(model: Trained) -> list[Block]:
    """Return the strongest rules, words and features of spans."""
    task, w = model.estimator.task_, model.estimator.coef_
    layout = task.layout_
    parts = (
        ("Rules", "rule", [*range(layout.lexical), *range(layout.root, layout.end)]),
        ("Words", "tag and word", range(layout.lexical, layout.root)),
        ("Features of spans", "label and feature", range(layout.end, len(w))),
    )
    blocks: list[Block] = []
    # Where tags are given, the weights of words cancel up to rounding.
    smallest = ROUNDING * np.abs(w).max(initial=0.0)
    for title, column, numbers in parts:
        places = np.array(numbers, dtype=np.int64)
        for sign, meaning in ((1, "favored"), (-1, "avoided")):
            values = np.where(sign * w[places] > smallest, w[places], 0.0)
            shown = places[largest(values, TOP_WEIGHTS)].tolist()
            if shown:
                rows = [[shorten(name_weight(task, k), LONGEST_NAME), f"{w[k]:+.4g}"] for k in shown]
                note = f"The first {len(shown)} of {np.count_nonzero(values)}."
                blocks.append(TableBlock(f"{title} most {meaning}", (column, "weight"), rows, note))
    if task.splits > 1:
        blocks.append(Text(f"Each label has {task.splits} hidden variants, numbered after #."))
    return blocks or [Text("All weights are 0.")]


def examples(model: Trained, data: list[Tree], predicted: list[Tree]) -> Examples:
    """Return predicted trees, with wrong and missing constituents."""
    task, sentences = model.estimator.task_, model.record.sentences(data)
    return Examples(
        [sentence_name(i, words(tree)) for i, tree in enumerate(data, 1)],
        task.loss(data, predicted),
        "1 − F1 of constituents" if task.chosen_loss == "f1" else "wrong and missing constituents",
        [_remark(truth, guess) for truth, guess in zip(data, predicted, strict=True)],
        lambda i: _draw(model.estimator, sentences[i], data[i], predicted[i]),
    )


def _remark(truth: Tree, guess: Tree) -> str:
    wrong, missed = _differences(truth, guess)
    n = len(constituents(truth))
    if not wrong and not missed:
        return f"{len(words(truth))} words, all {n} constituents correct"
    return f"{len(words(truth))} words, {len(wrong)} constituents wrong, {len(missed)} of {n} missing"


def _differences(truth: Tree, guess: Tree) -> tuple[list[Constituent], list[Constituent]]:
    """Return the constituents that are only predicted, and those that are only true."""
    true, predicted = Counter(constituents(truth)), Counter(constituents(guess))
    return list((predicted - true).elements()), list((true - predicted).elements())


def _draw(estimator: Any, sentence: list[Any], truth: Tree, guess: Tree) -> list[Block]:
    wrong, missed = _differences(truth, guess)
    names = None
    if estimator.task_.latent:
        names = variant_names(estimator.task_, guess, estimator.predict_latent([sentence])[0])
    shown = _picture("Predicted tree", guess, wrong, "wrong", names)
    if not wrong and not missed:
        what = "correct" if guess == truth else "all constituents correct, but not all tags"
        return [Group(f"Predicted tree, {what}", [shown])]
    return [
        Group("Predicted tree", [shown]),
        Group("True tree", [_picture("True tree", truth, missed, "missed", None)]),
    ]


def variant_names(task: Any, tree: Tree, latent: Any) -> list[str] | None:
    """Return the labels of the nodes in preorder with the numbers of their hidden variants; None if there are none."""
    if latent is None:
        return None
    nodes = preorder(binarize(tree, task.markov))
    return [f"{one.label}#{h}" for one, h in zip(nodes, latent.tolist(), strict=True) if not is_artificial(one.label)]


def _picture(
    what: str, tree: Tree, marked: list[Constituent], mark: Mark, names: Sequence[str] | None
) -> Drawing | Letters:
    """Return a picture of a tree or, if it is too large or has letters that cannot be drawn, lines of text."""
    meaning = "wrong" if mark == "wrong" else "not predicted"
    texts = [*words(tree), *(names or (node.label for node in preorder(tree)))]
    if len(words(tree)) > MOST_DRAWN or not can_write(texts):
        lines = outline(tree, marked, mark, names)
        caption = "" if len(lines) <= MOST_LINES else f"{len(lines) - MOST_LINES} further lines are not shown."
        return Letters(lines[:MOST_LINES], caption)
    counted = f"{len(marked)} of its {len(constituents(tree))} constituents are {meaning}"
    described = counted if marked else "all its constituents are correct"
    return Drawing(
        lambda ax: plot_tree(tree, ax, marked, names),
        f"{what} of the sentence “{' '.join(words(tree))}”; {described}.",
        f"Framed constituents are {meaning}." if marked else "",
        height=tree_height(tree),
    )


def outline(tree: Tree, marked: Sequence[Constituent], mark: Mark, names: Sequence[str] | None = None) -> list[Line]:
    """Return a tree as lines of text with marked constituents; single children follow their parents."""
    left, spans = Counter(marked), iter(constituents(tree))
    texts = iter([node.label for node in preorder(tree)] if names is None else names)
    lines: list[Line] = []
    stack: list[tuple[Tree, str, str]] = [(tree, "", "")]
    while stack:
        node, here, below = stack.pop()
        runs: list[tuple[str, Mark]] = [(here, "")]
        while not is_preterminal(node):
            span = next(spans)
            found = left[span] > 0
            left[span] -= found
            runs += [(next(texts), mark if found else "")]
            children = [child for child in node.children if isinstance(child, Tree)]
            if len(children) > 1:
                ends = [("├ ", "│ ")] * (len(children) - 1) + [("└ ", "  ")]
                stack += [
                    (child, below + a, below + b) for child, (a, b) in zip(children[::-1], ends[::-1], strict=True)
                ]
                break
            node = children[0]
            runs += [(" › ", "")]
        else:
            runs += [(f"{next(texts)} {shorten(node.children[0], LONGEST_WORD)}", "")]
        lines.append(("", runs))
    return lines
