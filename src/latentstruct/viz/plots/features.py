"""Weights of features, and the scores that come of them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.core.formatting import show
from latentstruct.core.validation import array_of, check_lists, is_ordered, numbers_of
from latentstruct.exceptions import InputError
from latentstruct.viz.plots.axes import hide_frame, new_axes
from latentstruct.viz.plots.colours import AGAINST, FOR, SINGLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_NAME = 32
BINS = 40


def shorten(text: Any, longest: int = LONGEST_NAME) -> str:
    """Return a text with … in place of what is too much, and ␣ for spaces and signs that could not be seen."""
    shown = "".join(character if character.isprintable() else "␣" for character in str(text))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def drawn_text(text: Any, longest: int = LONGEST_NAME) -> str:
    """Return a shortened text as matplotlib writes it, which takes what stands between dollars for formulas."""
    from matplotlib import rcParams

    shown = shorten(text, longest)
    return shown.replace("$", r"\$") if rcParams["text.parse_math"] else shown


def can_write(texts: Iterable[Any]) -> bool:
    """Tell whether the font of plots has all signs of the texts."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont("DejaVu Sans"))
    return all(font.get_char_index(ord(sign)) for text in texts for sign in set(shorten(text)))


def plot_weights(names: Sequence[Any], values: Any, ax: "Axes | None" = None, name: str = "weight") -> "Axes":
    """Draw weights as bars, the first on top, red to the right for those above 0 and blue to the left.

    Parameters
    ----------
    names : sequence of length K
        What to write beside the bars, shortened where it is long.
    values : array of shape (K,)
        The weights.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    name : str, default="weight"
        What the values are.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.
    """
    check_lists(names=names)
    weights = numbers_of(values, "values")
    if weights.shape != (len(names),) or not len(names) or not np.isfinite(weights).all():
        raise InputError(
            f"values has the shape {weights.shape} for {len(names)} names; expected one finite number for each, and at "
            "least one: give as many of both"
        )
    ax = new_axes(0.8 + 0.24 * len(weights)) if ax is None else ax
    places = np.arange(len(weights))
    ax.barh(places, weights, color=np.where(weights > 0, FOR, AGAINST).tolist(), height=0.7)
    ax.set_yticks(places, [drawn_text(one) for one in names])
    ax.invert_yaxis()
    ax.axvline(0.0, color=SINGLE, linewidth=0.8)
    ax.set_xlabel(name)
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="x", nbins=5)
    hide_frame(ax, "top", "right", "left")
    return ax


def plot_scores(scores: Any, positive: Any, names: tuple[Any, Any], ax: "Axes | None" = None) -> "Axes":
    """Draw how the scores of two classes are spread, each as a share of its class, with the threshold at 0.

    Parameters
    ----------
    scores : array of shape (n,)
        Scores, above 0 for samples that are called positive.
    positive : array of n bool
        Which of them are positive in truth.
    names : pair
        The positive and the negative label.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.
    """
    values, truth = numbers_of(scores, "scores"), array_of(positive, "positive")
    if values.ndim != 1 or not len(values) or truth.shape != values.shape or not np.isfinite(values).all():
        raise InputError(
            f"scores has the shape {values.shape} and positive {truth.shape}; expected a finite score and a truth for "
            "each sample, and at least one: give as many of both"
        )
    if not is_ordered(names) or len(names) != 2:
        raise InputError(f"names is {show(names)}; expected two, of the positive and the negative: give both")
    truth = truth.astype(bool)
    ax = new_axes(3.0) if ax is None else ax
    # Few samples far away would leave one bar for all the others.
    low, high = np.quantile(values, [0.002, 0.998])
    edges = np.linspace(min(low, 0.0), max(high, 0.0, low + 1e-9), BINS + 1).tolist()
    for chosen, label, colour in ((truth, names[0], FOR), (~truth, names[1], AGAINST)):
        if chosen.any():
            shares = np.full(int(chosen.sum()), 1.0 / chosen.sum())
            inside = np.clip(values[chosen], edges[0], edges[-1])
            told = f"truly {drawn_text(label)} ({int(chosen.sum())})"
            ax.hist(inside, edges, weights=shares, color=colour, alpha=0.25, histtype="stepfilled")
            ax.hist(inside, edges, weights=shares, color=colour, histtype="step", label=told, linewidth=1.6)
    ax.axvline(0.0, color=SINGLE, linestyle="--", linewidth=1.0, label="threshold")
    ax.set_xlabel("score")
    ax.set_ylabel("share of the class")
    ax.legend(frameon=False, fontsize="small")
    hide_frame(ax)
    return ax
