"""Weights of features, and distributions of scores."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.core.validation import array_of, check_lists, check_shape, finite_of, is_ordered
from latentstruct.exceptions import InputError
from latentstruct.viz.plots.axes import hide_frame, new_axes, on_axes
from latentstruct.viz.plots.colors import AGAINST, FOR, SINGLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_NAME = 32
BINS = 40


def shorten(text: Any, longest: int = LONGEST_NAME) -> str:
    """Return a text shortened by …, with ␣ for spaces and invisible characters."""
    shown = "".join(character if character.isprintable() else "␣" for character in str(text))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def drawn_text(text: Any, longest: int = LONGEST_NAME) -> str:
    """Return a shortened text with dollar signs escaped, which matplotlib would interpret as formulas."""
    from matplotlib import rcParams

    shown = shorten(text, longest)
    return shown.replace("$", r"\$") if rcParams["text.parse_math"] else shown


def can_write(texts: Iterable[Any]) -> bool:
    """Return whether the font of plots has all characters of the texts."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont("DejaVu Sans"))
    return all(font.get_char_index(ord(sign)) for text in texts for sign in set(shorten(text)))


@on_axes
def plot_weights(names: Sequence[Any], values: Any, ax: "Axes | None" = None, name: str = "weight") -> "Axes":
    """Draw weights as bars, the first on top, red to the right for those above 0 and blue to the left.

    Parameters
    ----------
    names : sequence of length K
        Labels of the bars; long ones are shortened.
    values : array of shape (K,)
        The weights.
    name : str, default="weight"
        Label of the axis of values.
    """
    check_lists(names=names)
    if not len(names):
        raise InputError("names", names, "at least one name")
    weights = finite_of(values, "values", (len(names),), "one number per name")
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


@on_axes
def plot_scores(scores: Any, positive: Any, names: tuple[Any, Any], ax: "Axes | None" = None) -> "Axes":
    """Draw histograms of the scores of two classes, each as a fraction of its class, with the threshold at 0.

    Parameters
    ----------
    scores : array of shape (n,)
        Scores, above 0 for samples that are predicted positive.
    positive : array of n bool
        Whether each is truly positive.
    names : pair
        The positive and the negative label.
    """
    values, truth = finite_of(scores, "scores", (np.size(scores),)), array_of(positive, "positive")
    check_shape(truth, values.shape, "positive", "one truth value per score")
    if not len(values):
        raise InputError("scores", scores, "at least one score")
    if not is_ordered(names) or len(names) != 2:
        raise InputError("names", names, "two names, of the positive and the negative class")
    truth = truth.astype(bool)
    ax = new_axes(3.0) if ax is None else ax
    # A few outliers would leave one bar for all other samples.
    low, high = np.quantile(values, [0.002, 0.998])
    edges = np.linspace(min(low, 0.0), max(high, 0.0, low + 1e-9), BINS + 1).tolist()
    for chosen, label, color in ((truth, names[0], FOR), (~truth, names[1], AGAINST)):
        if chosen.any():
            shares = np.full(int(chosen.sum()), 1.0 / chosen.sum())
            inside = np.clip(values[chosen], edges[0], edges[-1])
            shown = f"truly {drawn_text(label)} ({int(chosen.sum())})"
            ax.hist(inside, edges, weights=shares, color=color, alpha=0.25, histtype="stepfilled")
            ax.hist(inside, edges, weights=shares, color=color, histtype="step", label=shown, linewidth=1.6)
    ax.axvline(0.0, color=SINGLE, linestyle="--", linewidth=1.0, label="threshold")
    ax.set_xlabel("score")
    ax.set_ylabel("fraction of the class")
    ax.legend(frameon=False, fontsize="small")
    hide_frame(ax)
    return ax
