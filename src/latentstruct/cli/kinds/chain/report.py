"""Report of chains: transitions, features of labels, and sentences with their labels."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from latentstruct.cli.answers import has_probabilities
from latentstruct.cli.blocks import (
    LONGEST_WORD,
    confusion_table,
    describe_confusions,
    label_table,
    label_weights,
    sentence_name,
)
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.chain.annotations import ANNOTATOR_ERRORS, annotator_errors, annotator_recall
from latentstruct.cli.kinds.chain.command import compare_chains
from latentstruct.cli.kinds.chain.files import LabeledChains, resolved
from latentstruct.progress.display import show_percent
from latentstruct.viz.plots.features import can_write, shorten
from latentstruct.viz.plots.matrices import MOST_LABELS, plot_transitions, strongest_transition_rows
from latentstruct.viz.report.blocks import Block, Drawing, Examples, Mark, TableBlock, Token, Tokens

MOST_TOKENS = 400
SURE = 0.9
"""Probability from which it is not shown."""
CHUNKS_SHOWN = 15
ERRORS_SHOWN = 30
POSITIONS = "Positions are relative to the token: “at −1” is the token before, “edge” the end of the sentence."
PLACED = re.compile(r"(\d+)\[([-\d,]+)\]=(.*)", re.DOTALL)
AFFIX = re.compile(r"(prefix|suffix)\d+=(.*)", re.DOTALL)
EDGE = re.compile(r"\\[BE]\d+")
PARTS = re.compile(r"((?:[^|\\]|\\.)*)(?:\||$)", re.DOTALL)


def weight_blocks(model: Trained) -> list[Block]:
    """Return the transitions, and the strongest features of each label."""
    estimator = model.estimator
    labels, names = list(estimator.task_.labels_.labels), model.features.get_feature_names_out().tolist()
    columns = model.record.columns
    table = label_table(labels, label_weights(estimator), lambda k: show_feature(names[k], columns), POSITIONS)
    errors = [list(one.values()) for one in annotator_errors(estimator, ERRORS_SHOWN)]
    if not errors:
        return [transition_block(estimator, labels), table]
    recall = annotator_recall(estimator)["annotator_recall"]
    shown = ", ".join(f"{number}: {show_percent(share)}" for number, share in enumerate(recall, 1))
    rows = [[annotator, shorten(true), shorten(given), show_percent(share)] for annotator, true, given, share in errors]
    note = f"Shares of the tokens with the true label. Mean recall of the annotators: {shown}."
    confused = TableBlock("Most frequent errors of annotators", ANNOTATOR_ERRORS, rows, note, n_text=3)
    return [transition_block(estimator, labels), table, confused]


def transition_block(estimator: Any, labels: list[Any]) -> Block:
    """Return a heat map of the transitions, or a table where the font of plots lacks letters of the labels."""
    if not can_write(labels):
        rows = [[shorten(a), shorten(b), f"{weight:+.4g}"] for a, b, weight in strongest_transition_rows(estimator)]
        return TableBlock("Strongest transitions", ("from", "to", "weight"), rows, n_text=2)
    n_shown = min(len(labels), MOST_LABELS)
    some = f" {n_shown} of {len(labels)} labels: those with the largest weights." if n_shown < len(labels) else ""
    return Drawing(
        lambda ax: plot_transitions(estimator, ax),
        f"Heat map of the weights of the transitions between {n_shown} labels.",
        f"Weights of a label (row) followed by another (column): red is positive, blue negative.{some}",
        height=2.2 + 0.18 * n_shown,
    )


def show_feature(name: str, columns: list[int]) -> str:
    """Return the readable name of a feature: ``0[-1]=the`` is “word at −1: the”; `columns` are those it uses."""
    if name == "bias":
        return "any token"
    affix, placed = AFFIX.fullmatch(name), PLACED.fullmatch(name)
    if affix:
        return f"{affix[1]}: {_unescaped(affix[2])}"
    if not placed:
        return name.replace("=", ": ", 1)
    column, offsets = int(placed[1]), placed[2].split(",")
    what = "word" if column == 0 else f"column {columns[column]}"
    where = "" if offsets == ["0"] else " at " + ", ".join(offset.replace("-", "−") for offset in offsets)
    values = PARTS.findall(placed[3])[: len(offsets)]
    return f"{what}{where}: {' '.join('edge' if EDGE.fullmatch(one) else _unescaped(one) for one in values)}"


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def examples(model: Trained, data: LabeledChains, guessed: list[list[str]]) -> Examples:
    """Return predictions for sentences, with the fractions of wrong labels among the known ones."""
    unknown = model.record.unknown
    scores = compare_chains(model.estimator, data.Y, guessed, unknown)
    data = replace(data, Y=resolved(data.Y, guessed))
    pairs = (zip(truth, guess, strict=True) for truth, guess in zip(data.Y, guessed, strict=True))
    wrong = [Counter((a, b) for a, b in labels if a not in (b, unknown)) for labels in pairs]
    known = np.array([sum(label != unknown for label in truth) for truth in data.Y])
    counts = np.array([errors.total() for errors in wrong], dtype=np.float64)
    losses = np.divide(counts, known, out=np.full(len(counts), np.nan), where=known > 0)
    return Examples(
        [sentence_name(i, words) for i, words in enumerate(data.words, 1)],
        losses,
        "fraction of wrong labels",
        [_remark(*one) for one in zip(wrong, known.tolist(), data.Y, strict=True)],
        lambda i: [_sentence(model.estimator, data, guessed, i, unknown)],
        _overview(scores, data.Y, guessed, unknown),
    )


def _overview(scores: dict[str, Any], Y: list[Any], guessed: list[Any], unknown: str | None) -> list[Block]:
    """Return the scores of chunks, if labels are of chunks, and the confused labels."""
    blocks: list[Block] = []
    if "chunks" in scores:
        by_type = sorted(scores["chunks"]["by_type"].items(), key=lambda item: -item[1]["n_true"])[:CHUNKS_SHOWN]
        ratios = ("precision", "recall", "f1")
        rows = [[name, *(show_percent(one[key]) for key in ratios), one["n_true"]] for name, one in by_type]
        blocks.append(TableBlock("Chunks by type", ("type", "precision", "recall", "F1", "true"), rows))
    pairs = [pair for y, found in zip(Y, guessed, strict=True) for pair in zip(y, found, strict=True)]
    return blocks + confusion_table([pair for pair in pairs if pair[0] != unknown], "labels")


def _remark(errors: Counter[tuple[str, str]], n_known: int, truth: list[str]) -> str:
    shown = describe_confusions(errors, 3)
    if n_known == len(truth):
        return shown
    return f"{n_known} of {len(truth)} labels are known" + (f": {shown}" if shown else "")


def _sentence(estimator: Any, data: LabeledChains, guessed: list[list[Any]], i: int, unknown: str | None) -> Tokens:
    """Return the words of a sentence with their labels, and the probabilities of these if the model has them."""
    sure, caption = [1.0] * len(guessed[i]), ""
    if has_probabilities(estimator):
        sure = estimator.confidence([data.X[i]])[0].tolist()
        caption = f"Percentages are probabilities of labels below {SURE:.0%}."
    if len(sure) > MOST_TOKENS:
        caption = f"{caption} {len(sure) - MOST_TOKENS} further words are not shown.".lstrip()
    rows = zip(data.words[i], data.Y[i], guessed[i], sure, strict=True)
    return Tokens([_token(*row, unknown) for row in list(rows)[:MOST_TOKENS]], caption)


def _token(word: str, truth: Any, guess: Any, probability: float, unknown: str | None) -> Token:
    mark: Mark = "" if truth == guess else "wrong"
    text, label = shorten(word, LONGEST_WORD), shorten(guess)
    if probability < SURE:
        label = f"{label} {probability:.0%}"
    if truth == unknown:
        return Token(text, label, "", "unknown")
    return Token(text, label, "" if truth == guess else shorten(truth), mark)
