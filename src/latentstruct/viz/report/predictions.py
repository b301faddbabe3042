"""Predictions on a page: their distribution, the largest errors, and selected examples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import check_shape
from latentstruct.progress.display import show_number
from latentstruct.viz.report.blocks import Block, Drawing, Examples, FactList, Group, TableBlock, Text

WORST_LISTED = 25
WORST_DRAWN = 4
MIDDLE_DRAWN = 2
RIGHT_DRAWN = 3
UNJUDGED_DRAWN = 6
LONGEST_OUTPUT = 400


def prediction_blocks(examples: Examples) -> list[Block]:
    """Return the blocks that show predictions."""
    n = len(examples.names)
    blocks: list[Block] = [FactList([("examples", str(n)), *examples.scores]), *examples.overview]
    if n == 0:
        return blocks
    if examples.losses is None:
        blocks.append(Text("True outputs are unknown, so no errors are shown."))
        return [*blocks, *_drawn(examples, "Selected predictions", range(min(n, UNJUDGED_DRAWN)))]
    losses = np.asarray(examples.losses, dtype=np.float64)
    check_shape(losses, (n,), "losses", "one loss per example")
    judged = np.flatnonzero(np.isfinite(losses))
    severity = np.zeros(n) if examples.severity is None else examples.severity
    order = judged[np.lexsort((-severity[judged], -losses[judged]))]
    if len(judged) < n:
        blocks.append(Text(f"True outputs of {n - len(judged)} examples are unknown; these are not counted below."))
    if not len(judged):
        return [*blocks, *_drawn(examples, "Selected predictions", range(min(n, UNJUDGED_DRAWN)))]
    return [*blocks, *_judged_blocks(examples, losses, order)]


def _judged_blocks(examples: Examples, losses: NDArray, order: NDArray) -> list[Block]:
    wrong, right = order[losses[order] > 0], order[losses[order] <= 0]
    blocks: list[Block] = []
    if not len(wrong):
        blocks.append(Text(f"All {len(order)} predictions have zero loss ({examples.loss_name})."))
    else:
        blocks += [_spread(examples, losses[order], len(right)), _table_of_worst(examples, losses, wrong)]
    middle = wrong[len(wrong) // 2 :][:MIDDLE_DRAWN] if len(wrong) > WORST_DRAWN + 1 else wrong[:0]
    middle = middle[~np.isin(middle, wrong[:WORST_DRAWN])]
    blocks += _drawn(examples, "Largest losses", wrong[:WORST_DRAWN], losses)
    blocks += _drawn(examples, "Median losses", middle, losses)
    # Spread over the data, because neighbors may be similar.
    chosen = np.sort(right)[np.linspace(0, len(right) - 1, min(RIGHT_DRAWN, len(right))).astype(int)]
    return blocks + _drawn(examples, "Zero loss", chosen, losses)


def _spread(examples: Examples, losses: NDArray, n_right: int) -> Block:
    """Return a histogram of the losses, or a sentence if all nonzero ones are equal."""
    mean, largest = show_number(float(losses.mean()), 3), show_number(float(losses.max()), 3)
    caption = f"Losses ({examples.loss_name}): {n_right} of {len(losses)} examples have zero loss, the mean is {mean}."
    if len(np.unique(losses[losses > 0])) < 2:
        return Text(caption)

    def draw(ax: Any) -> None:
        ax.hist(losses, bins=min(40, max(10, len(losses) // 5)))
        ax.set_xlabel(examples.loss_name)
        ax.set_ylabel("number of examples")
        ax.spines[["top", "right"]].set_visible(False)

    alt = (
        f"Histogram of the losses of {len(losses)} predictions: {n_right} are zero, the mean is {mean}, the largest "
        f"{largest}."
    )
    return Drawing(draw, alt, caption, height=2.4)


def _table_of_worst(examples: Examples, losses: NDArray, wrong: NDArray) -> TableBlock:
    listed = wrong[:WORST_LISTED].tolist()
    remarked = any(examples.remarks[i] for i in listed)
    rows = [[examples.names[i], *([examples.remarks[i]] if remarked else []), float(losses[i])] for i in listed]
    columns = ["example", *(["remark"] if remarked else []), "loss"]
    first = f"The first {len(listed)} of {len(wrong)}. " if len(wrong) > len(listed) else ""
    note = f"{first}Loss: {examples.loss_name}."
    return TableBlock("Errors by decreasing loss", columns, rows, note, len(columns) - 1)


def _drawn(examples: Examples, title: str, chosen: Sequence[int], losses: NDArray | None = None) -> list[Block]:
    """Return a group of drawn examples; an empty list if none is chosen."""
    if not len(chosen):
        return []
    groups = []
    for i in map(int, chosen):
        shown = [] if losses is None else [f"loss {show_number(float(losses[i]), 4)}"]
        shown += [examples.remarks[i]] if examples.remarks[i] else []
        text: list[Block] = [Text(": ".join(shown))] if shown else []
        groups.append(Group(examples.names[i], [*text, *examples.draw(i)]))
    return [Group(title, groups)]


def estimator_examples(estimator: Any, X: Any, Y: Any) -> Examples:
    """Return the predictions of a fitted estimator for examples of any task, shown as text; Y may be None."""
    predicted = estimator.predict(X)
    n = len(predicted)
    latents = estimator.predict_latent(X) if estimator.task_.latent else None
    losses, scores = None, []
    if Y is not None:
        scores.append(("score", show_number(estimator.score(X, Y), 4)))
        found = np.atleast_1d(estimator.loss(X, Y))
        if found.shape == (n,):
            losses = found
        else:
            scores.append(("loss of the whole set", ", ".join(show_number(value, 4) for value in found.ravel())))

    def draw(i: int) -> list[Block]:
        facts = [("predicted", _shown(predicted[i]))]
        facts += [] if Y is None else [("true", _shown(Y[i]))]
        facts += [] if latents is None else [("latent", _shown(latents[i]))]
        return [FactList(facts)]

    names = [f"example {i}" for i in range(n)]
    return Examples(names, losses, "loss", [""] * n, draw, source="the given examples", scores=scores)


def _shown(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST_OUTPUT else f"{text[: LONGEST_OUTPUT - 1]}…"
