"""Blocks in the reports of several kinds: weights of named features, and confusions."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.cli.description import largest
from latentstruct.core.formatting import counted
from latentstruct.metrics.calibration import Reliability
from latentstruct.progress.display import show_percent
from latentstruct.viz.plots.calibration import plot_reliability
from latentstruct.viz.plots.features import can_write, plot_weights, shorten
from latentstruct.viz.report.blocks import Block, Drawing, TableBlock, Text

CONSTANT = "constant"
MOST_LABELS = 25
TOP_FOR, TOP_AGAINST = 6, 3
TOP_CONTRIBUTIONS = 10
TOP_CONFUSIONS = 12
LONGEST_NAME = 48
TOP_FEATURES = 20
FIRST_WORDS, LONGEST_WORD = 5, 40


def label_weights(estimator: Any) -> NDArray[np.float64]:
    """Return the weights (F, S) of the features of a chain or of classes, the constant one last if there is one."""
    task, size = estimator.task_, len(estimator.task_.labels_)
    weights = estimator.coef_[: task.n_inputs_ * size].reshape(-1, size)
    if getattr(task, "bias", 0) and task.bias_at_ >= 0:
        weights = np.vstack([weights, estimator.coef_[task.bias_at_ : task.bias_at_ + size]])
    return weights


def name_with_constant(name_of: Callable[[int], str], n_inputs: int) -> Callable[[int], str]:
    """Return a function that names features and, behind them, the constant one."""
    return lambda k: CONSTANT if k >= n_inputs else name_of(k)


def label_table(
    labels: Sequence[Any], weights: NDArray[np.float64], name_of: Callable[[int], str], note: str = ""
) -> TableBlock:
    """Return the features with the largest weights of each label; of many labels those with the largest weights."""
    strength = np.abs(weights).max(axis=0, initial=0.0)
    shown = sorted(np.argsort(-strength, kind="stable")[:MOST_LABELS].tolist())
    rows = []
    for label in shown:
        column = weights[:, label]
        found = [*largest(np.maximum(column, 0.0), TOP_FOR), *largest(np.minimum(column, 0.0), TOP_AGAINST)]
        shown_weights = [f"{shorten(name_of(k), LONGEST_NAME)} ({column[k]:+.3g})" for k in found]
        rows.append([shorten(labels[label]), " · ".join(shown_weights) or "none"])
    if len(shown) < len(labels):
        note = f"{note} {len(shown)} of {len(labels)} labels: those with the largest weights.".lstrip()
    title = "Features for (+) and against (−) each label"
    return TableBlock(title, ("label", "features with the largest weights"), rows, note, n_text=2)


def confusion_table(pairs: Sequence[tuple[Any, Any]], what: str) -> list[Block]:
    """Return the most frequent confusions of pairs (true, predicted)."""
    wrong = Counter((a, b) for a, b in pairs if a != b)
    if not wrong:
        return []
    n_true = Counter(a for a, _ in pairs)
    shown = wrong.most_common(TOP_CONFUSIONS)
    rows = [[shorten(a), shorten(b), n, f"{100 * n / n_true[a]:.1f} %"] for (a, b), n in shown]
    note = f"The first {len(rows)} of {len(wrong)} such pairs." if len(wrong) > len(rows) else ""
    columns = ("true", "predicted", "count", "of the true ones")
    return [TableBlock(f"Confused {what}", columns, rows, note, n_text=2)]


def contribution_table(
    title: str, names: Sequence[str], values: NDArray[np.float64], weights: NDArray[np.float64], note: str
) -> TableBlock:
    """Return the features of a sample with the largest contributions, which are values times weights."""
    total = weights * values
    shown = largest(total, TOP_CONTRIBUTIONS)
    rows: list[list[Any]] = [[shorten(names[k], LONGEST_NAME), f"{values[k]:.4g}", f"{total[k]:+.3g}"] for k in shown]
    n_more = int(np.count_nonzero(total)) - len(shown)
    if n_more:
        rest = float(total.sum() - total[shown].sum())
        rows.append([counted(n_more, "other"), None, f"{rest:+.3g}"])
    rows.append(["sum", None, f"{float(total.sum()):+.3g}"])
    return TableBlock(title, ("feature", "value", "contribution"), rows, note)


def row_of(X: Any, i: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the indices and values of the nonzero features of a sample."""
    row = X[[i]]
    if hasattr(row, "tocsr"):
        row = row.tocsr()
        return row.indices.astype(np.int64), row.data
    found = np.flatnonzero(row[0])
    return found, np.asarray(row[0][found], dtype=np.float64)


def strongest_bars(names: Sequence[str], coef: NDArray[np.float64], meaning: str) -> Block:
    """Return the strongest weights as bars, or as a table where the font of plots lacks letters of their names.

    The names are those of the first weights; `meaning` explains positive and negative ones.
    """
    shown = largest(coef[: len(names)], TOP_FEATURES)
    if not shown:
        return Text("All weights are 0.")
    called, values = [names[k] for k in shown], coef[shown]
    caption = f"The {len(shown)} strongest of {len(names)} weights: {meaning}."
    if not can_write(called):
        rows = [[name, value] for name, value in zip(called, values.tolist(), strict=True)]
        return TableBlock("Strongest weights", ("feature", "weight"), rows, caption)
    alt = f"Bars of the {len(shown)} strongest weights; the strongest is that of {called[0]}, {values[0]:+.3g}."
    return Drawing(lambda ax: plot_weights(called, values, ax), alt, caption, height=0.9 + 0.24 * len(shown))


def reliability_drawing(curve: Reliability) -> Drawing:
    """Return the reliability curve of the predictions."""
    caption = (
        "Share of right predictions against their probability; dots on the diagonal are calibrated. Expected "
        f"calibration error: {show_percent(curve.error)}."
    )
    alt = "Reliability curve of the probabilities of predictions."
    return Drawing(lambda ax: plot_reliability(curve, ax), alt, caption, width=4.2)


def sentence_name(number: int, words: Sequence[str]) -> str:
    """Return the name of a sentence: its number and first words."""
    shown = " ".join(shorten(word, LONGEST_WORD) for word in words[:FIRST_WORDS])
    return f"sentence {number}: {shown}" + " …" * (len(words) > FIRST_WORDS)


def outcome(truth: Any, guess: Any) -> str:
    """Return a predicted label next to the true one."""
    return f"{shorten(truth)}, correct" if truth == guess else f"predicted {shorten(guess)}, true {shorten(truth)}"


def describe_confusions(counts: Mapping[tuple[Any, Any], int], most: int) -> str:
    """Return the most frequent of pairs (true, predicted), with their counts."""
    often = Counter(counts).most_common(most)
    shown = [f"predicted {shorten(b, 16)}, true {shorten(a, 16)}" + f" ({n} times)" * (n > 1) for (a, b), n in often]
    return "; ".join(shown) + "; …" * (len(counts) > most)
