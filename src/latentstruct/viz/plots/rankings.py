"""Rankings of documents, and benefits of words for diverse subsets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.core.validation import check_shape, finite_of, numbers_of
from latentstruct.exceptions import InputError
from latentstruct.viz.plots.axes import hide_frame, new_axes, on_axes
from latentstruct.viz.plots.colors import SINGLE, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DOCUMENTS = 40


@on_axes
def plot_ranking(scores: Any, grades: Any, k: int | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the scores of a query's documents, the highest first; relevant ones are filled and have their grade above.

    Parameters
    ----------
    scores : array of shape (n,)
        The score of each document, in any order. Of more than 40 documents the first 40 are shown.
    grades : array of shape (n,)
        Their grades; above 0 is relevant.
    k : int, optional
        Number of documents before the dashed line.
    """
    values = finite_of(scores, "scores", (np.size(scores),))
    relevance = numbers_of(grades, "grades")
    check_shape(relevance, values.shape, "grades", "one grade per document")
    if not len(values):
        raise InputError("scores", scores, "at least one score")
    ax = new_axes(2.4) if ax is None else ax
    order = np.argsort(-values, kind="stable")[:MOST_DOCUMENTS]
    places = np.arange(1, len(order) + 1)
    relevant = relevance[order] > 0
    # Bars begin below the lowest score, because only differences of scores matter.
    bottom = float(values[order].min() - 0.15 * (np.ptp(values[order]) or 1.0))
    for chosen, filled in ((relevant, True), (~relevant, False)):
        if chosen.any():
            heights = values[order][chosen] - bottom
            ax.bar(places[chosen], heights, 0.75, bottom, color="C0" if filled else "none", edgecolor="C0")
    for place, document in zip(places[relevant].tolist(), order[relevant].tolist(), strict=True):
        ax.annotate(f"{relevance[document]:g}", (place, values[document]), ha="center", va="bottom", fontsize="small")
    if k is not None and k < len(order):
        ax.axvline(k + 0.5, color=SINGLE, linestyle="--", linewidth=1.0)
    ax.set_xlim(0.3, len(order) + 0.7)
    ax.set_ylim(bottom, float(values.max()) + 0.12 * (float(values.max()) - bottom))
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("place")
    ax.set_ylabel("score")
    hide_frame(ax)
    return ax


@on_axes
def plot_benefits(shares: Any, benefits: Any, names: Sequence[str] | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the benefit of covering a word by the fraction of candidate documents that contain it.

    Parameters
    ----------
    shares : array of shape (T,)
        Ascending thresholds of the fraction.
    benefits : array of shape (B, T)
        The benefit of a word between a threshold and the next, at each level of counting words.
    names : sequence of B str, optional
        Names of the levels.
    """
    thresholds, values = np.atleast_1d(numbers_of(shares, "shares")), np.atleast_2d(numbers_of(benefits, "benefits"))
    called = [str(b) for b in range(len(values))] if names is None else list(names)
    finite_of(values, "benefits", (len(called), len(thresholds)), "one row per name, one column per threshold")
    ax = new_axes(2.6) if ax is None else ax
    edges = np.append(100.0 * thresholds, 100.0)
    for b, (name, row) in enumerate(zip(called, values, strict=True)):
        ax.stairs(
            row,
            edges,
            baseline=None,
            color=shade(b),
            linewidth=1.8,
            linestyle=("-", "--", ":", "-.")[b % 4],
            label=name,
        )
    ax.axhline(0.0, color=SINGLE, linewidth=0.8)
    ax.set_xlabel("documents that contain the word (%)")
    ax.set_ylabel("benefit")
    if len(called) > 1:
        ax.legend(frameon=False, fontsize="small")
    hide_frame(ax)
    return ax
