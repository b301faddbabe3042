"""Pictures of trained models; matplotlib is loaded when the first one is drawn."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.exceptions import InputError
from latentstruct.formats.meme import check_probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["can_plot", "plot_logo", "plot_path", "plot_states", "plot_substitutions", "require_plots"]

COLOURS = {"A": "#2a9d3f", "C": "#2464c4", "G": "#e8a317", "T": "#cc2b2b"}
THINNEST = 1e-3
"""Height in bits below which a letter could not be seen."""


def can_plot() -> bool:
    """Tell whether pictures can be drawn."""
    return find_spec("matplotlib") is not None


def require_plots() -> None:
    """Raise unless pictures can be drawn."""
    if not can_plot():
        raise InputError('the picture needs matplotlib, which is not installed: pip install "latentstruct[plot]"')


def _new_axes(height: float = 2.6) -> "Axes":
    require_plots()
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(7.2, height), layout="constrained")[1]


def plot_logo(matrix: Any, background: Any = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the sequence logo of letter probabilities.

    The stack at position j has the height Σ_a p_ja log₂(p_ja / b_a) bits, of which letter a takes the share p_ja, the
    likeliest on top.

    Parameters
    ----------
    matrix : array of shape (width, 4)
        Probabilities p of A, C, G and T at each position.
    background : array of shape (4,), optional
        Frequencies b of the letters elsewhere, uniform by default.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.
    """
    rows = check_probabilities(matrix, "matrix")
    letters = np.full(4, 0.25)
    if background is not None:
        letters = check_probabilities(np.asarray(background)[None], "background", 1)[0]
        if (letters == 0).any():
            raise InputError(f"background is {letters.tolist()}; expected values above 0: add pseudo-counts")
    ax = _new_axes() if ax is None else ax
    logarithms = np.log2(np.maximum(rows, 1e-300) / letters)
    bits = (rows * logarithms).sum(axis=1)
    for j, (row, height) in enumerate(zip(rows, bits, strict=True)):
        bottom = 0.0
        for a in np.argsort(row, kind="stable"):
            _draw_letter(ax, "ACGT"[a], j + 1, bottom, float(row[a] * height))
            bottom += float(row[a] * height)
    ax.set_xlim(0.4, len(rows) + 0.6)
    ax.set_ylim(0.0, max(float(bits.max()) * 1.05, 0.1) if background is not None else 2.0)
    step = max(1, -(-len(rows) // 20))
    ax.set_xticks(range(1, len(rows) + 1, step))
    ax.set_xlabel("position")
    ax.set_ylabel("information (bits)")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _draw_letter(ax: "Axes", letter: str, position: float, bottom: float, height: float) -> None:
    """Draw a letter's outline stretched to one position's width and the given height."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    if height < THINNEST:
        return
    outline = TextPath((0, 0), letter, size=1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = outline.get_extents()
    place = Affine2D().translate(-box.x0, -box.y0).scale(0.92 / box.width, height / box.height)
    place = place.translate(position - 0.46, bottom)
    ax.add_patch(PathPatch(place.transform_path(outline), facecolor=COLOURS[letter], linewidth=0))


def plot_states(model: Any, names: Any = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the norm of the weights of each latent state, one bar a class.

    Parameters
    ----------
    model : estimator
        Fitted, with ``states_``: its task has weights for each state.
    names : sequence of length H, optional
        What to write under the states, such as angles; by default their numbers.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.
    """
    norms = getattr(model, "states_", None)
    if norms is None:
        raise InputError(
            f"model must be fitted with a task whose states have weights of their own, such as "
            f"LatentMulticlass(weights='state'), found {model!r}"
        )
    n_labels, n_states = norms.shape
    shown = list(range(n_states)) if names is None else list(names)
    if len(shown) != n_states:
        raise InputError(f"names has {len(shown)} entries for {n_states} states: give one for each")
    ax = _new_axes(3.2) if ax is None else ax
    width, places = 0.8 / n_labels, np.arange(n_states)
    for y, label in enumerate(model.classes_):
        ax.bar(places + (y - (n_labels - 1) / 2) * width, norms[y], width, label=str(label))
    ax.set_xticks(places, [_short(name) for name in shown])
    ax.set_xlabel("state")
    ax.set_ylabel("norm of the weights")
    _legend_of_classes(ax, n_labels)
    return ax


def plot_path(path: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw the norm of each state's weights against the strength λ of the group norm, and how many states are kept.

    Parameters
    ----------
    path : GroupNormPath
        Of `latentstruct.paths.groupnorm_path`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default. The number of states has an axis of its own on the right.

    Returns
    -------
    matplotlib Axes
        The axes that the norms are drawn on.
    """
    if not all(hasattr(path, name) for name in ("strengths", "norms", "n_states", "model")):
        raise InputError(f"path must be a GroupNormPath, as groupnorm_path returns it, found {path!r}")
    ax = _new_axes(3.6) if ax is None else ax
    norms, classes = path.norms, path.model(0).classes_
    for y, label in enumerate(classes):
        lines = ax.plot(path.strengths, norms[:, y], color=f"C{y % 10}", linewidth=1.0)
        lines[0].set_label(str(label))
    ax.set_xscale("log")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("strength λ of the group norm")
    ax.set_ylabel("norm of each state's weights")
    _legend_of_classes(ax, len(classes))
    counts = ax.twinx()
    counts.plot(path.strengths, path.n_states, color="black", linestyle="--", drawstyle="steps-mid")
    counts.set_ylim(0.0, norms.shape[1] * norms.shape[2] + 0.5)
    counts.locator_params(axis="y", integer=True)
    counts.set_ylabel("states kept (dashed)")
    counts.spines["top"].set_visible(False)
    return ax


def plot_substitutions(matrix: Any, letters: str, ax: "Axes | None" = None) -> "Axes":
    """Draw a substitution matrix, red for letters that may replace each other and blue for those that may not.

    Parameters
    ----------
    matrix : array of shape (K, K)
        The score of each pair of letters.
    letters : str of length K
        The letters of rows and columns.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.
    """
    scores = np.asarray(matrix, dtype=np.float64)
    if not letters or scores.shape != (len(letters), len(letters)) or not np.isfinite(scores).all():
        raise InputError(
            f"matrix has the shape {scores.shape}; expected finite numbers ({len(letters)}, {len(letters)}), a row and "
            f"a column for each of the letters {letters!r}: give the scores of these letters"
        )
    ax = _new_axes(6.2) if ax is None else ax
    largest = float(np.abs(scores).max()) or 1.0
    image = ax.imshow(scores, cmap="RdBu_r", vmin=-largest, vmax=largest)
    for side in (ax.xaxis, ax.yaxis):
        side.set_ticks(range(len(letters)), list(letters))
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelsize="small")
    ax.figure.colorbar(image, ax=ax, label="score", shrink=0.8)
    return ax


def _short(name: Any) -> str:
    return f"{name:g}" if isinstance(name, float | np.floating) else str(name)


def _legend_of_classes(ax: "Axes", n_labels: int) -> None:
    ax.legend(title="class", frameon=False, ncols=1 if n_labels <= 4 else 2, fontsize="small")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
