"""Weights of image models: templates of gradients, and positions and sizes of boxes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import check_length, check_lists, finite_of, numbers_of
from latentstruct.exceptions import Description, InputError
from latentstruct.viz.plots.axes import new_axes, on_axes
from latentstruct.viz.plots.colors import AGAINST, FOR, SINGLE
from latentstruct.viz.plots.features import drawn_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP = 1.0
"""Cells between the two parts of a template."""
SHARES = (1 / 16, 1 / 4, 9 / 16)
"""Areas of the drawn boxes, relative to that of the image."""
PICTURE = (4.0, 3.0)
"""Aspect ratio of the image in which positions are shown."""
FAINTEST = 0.02
WIDTH_OF_SWATCH = 1.75
"""Width of a color and its name in inches."""
LONGEST_NAME = 22


@on_axes
def plot_template(weights: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw weights of histograms of oriented gradients: strokes along edges with positive and negative weight.

    Each cell has one stroke per direction, thicker and less transparent for larger weights. Positive weights
    are on the left and negative ones on the right, both on the same scale. A gradient from left to right is an
    vertical edge, so that strokes are perpendicular to the gradients.

    Parameters
    ----------
    weights : array of shape (rows, columns, directions)
        Direction o covers the angles from o to o + 1 parts of 180 degrees, from the x axis towards the y axis, which
        points down. Weights of a `BoxFeatures` of `n` × `n` cells are its first 9n² ones, reshaped to (n, n, 9).
    """
    cells = numbers_of(weights, "weights")
    if cells.ndim != 3 or 0 in cells.shape or not np.isfinite(cells).all():
        expected = "finite numbers of shape (rows, columns, directions)"
        raise InputError("weights", Description(f"shape {cells.shape}"), expected)
    ax = new_axes(3.2) if ax is None else ax
    n_rows, n_columns, _ = cells.shape
    largest = float(np.abs(cells).max()) or 1.0
    for sign, left, color, title in ((1.0, 0.0, FOR, "for"), (-1.0, n_columns + GAP, AGAINST, "against")):
        _draw_strokes(ax, np.maximum(sign * cells, 0.0) / largest, left, color)
        ax.text(left + n_columns / 2, -0.25, title, ha="center", va="bottom")
        frame = {"fill": False, "linewidth": 0.8, "edgecolor": color}
        ax.add_patch(_rectangle(left, 0.0, n_columns, n_rows, **frame))
    ax.set_xlim(-0.1, 2 * n_columns + GAP + 0.1)
    ax.set_ylim(n_rows + 0.1, -1.0)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _draw_strokes(ax: "Axes", cells: NDArray[np.float64], left: float, color: str) -> None:
    """Draw one stroke per direction and cell whose value, from 0 to 1, is visible."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    n_directions = cells.shape[2]
    rows, columns, parts = np.nonzero(cells > FAINTEST)
    angles = (parts + 0.5) * np.pi / n_directions + np.pi / 2
    middle = np.column_stack([left + columns + 0.5, rows + 0.5])
    half = 0.46 * np.column_stack([np.cos(angles), np.sin(angles)])
    values = cells[rows, columns, parts]
    colors = [to_rgba(color, float(0.25 + 0.75 * value)) for value in values]
    strokes = np.stack([middle - half, middle + half], axis=1)
    ax.add_collection(LineCollection(list(strokes), colors=colors, linewidths=0.4 + 2.6 * values))


def _rectangle(x: float, y: float, width: float, height: float, **look: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, **look)


@on_axes
def plot_swatches(names: Sequence[str], colors: Sequence[tuple[int, int, int]], ax: "Axes | None" = None) -> "Axes":
    """Draw names beside their colors, in as many columns as fit into the figure.

    Parameters
    ----------
    names : sequence of n str
        The names.
    colors : sequence of n triples of int
        Red, green and blue of each, from 0 to 255.
    """
    check_lists(names=names, colors=colors)
    if not len(names):
        raise InputError("names", names, "at least one name")
    check_length(colors, len(names), "colors", "colors")
    ax = new_axes(height_of_swatches(len(names))) if ax is None else ax
    n_columns = max(1, int(ax.figure.bbox.width / ax.figure.dpi / WIDTH_OF_SWATCH))
    for k, (name, color) in enumerate(zip(names, colors, strict=True)):
        row, column = divmod(k, n_columns)
        shade = [value / 255 for value in color]
        ax.add_patch(_rectangle(column, row + 0.2, 0.12, 0.6, facecolor=shade, linewidth=0))
        ax.text(column + 0.16, row + 0.5, drawn_text(name, LONGEST_NAME), ha="left", va="center", fontsize="small")
    ax.set_xlim(0.0, n_columns)
    ax.set_ylim(-(-len(names) // n_columns), 0.0)
    ax.set_axis_off()
    return ax


def height_of_swatches(n_names: int) -> float:
    """Return the height in inches that `plot_swatches` needs in a figure of the usual width."""
    return 0.25 * -(-n_names // int(7.2 / WIDTH_OF_SWATCH))


@on_axes
def plot_box_places(weights: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw the score of a small, a medium and a large box by its position.

    The three images share a color scale. A pixel shows the score of the box, outlined in the center, if its
    center is moved there. Positions where the box would leave the image are empty. Below each image is
    the area of the box in percent of the image.

    Parameters
    ----------
    weights : array of shape (14,)
        The weights of `latentstruct.features.geometry.box_geometry`.
    """
    from latentstruct.features.geometry import N_GEOMETRY, box_geometry

    values = finite_of(weights, "weights", (N_GEOMETRY,), "the weights of position and size, after the gradients")
    ax = new_axes(2.2) if ax is None else ax
    width, height = PICTURE
    maps = [_scores_of_places(values, np.sqrt(share), box_geometry) for share in SHARES]
    low, high = (float(f([f(part[~np.isnan(part)]) for part in maps])) for f in (np.min, np.max))
    image = None
    for k, (share, scores) in enumerate(zip(SHARES, maps, strict=True)):
        left, side = k * (width + 0.4), np.sqrt(share)
        extent = (left, left + width, height, 0.0)
        image = ax.imshow(scores, extent=extent, vmin=low, vmax=high, cmap="viridis", interpolation="nearest")
        ax.add_patch(_rectangle(left, 0.0, width, height, fill=False, linewidth=0.8, edgecolor=SINGLE))
        box = (left + width * (1 - side) / 2, height * (1 - side) / 2, width * side, height * side)
        ax.add_patch(_rectangle(*box, fill=False, linewidth=1.2, linestyle="--", edgecolor=SINGLE))
        ax.text(left + width / 2, height + 0.15, f"{100 * share:.0f} %", ha="center", va="top")
    ax.set_xlim(-0.1, 3 * width + 0.9)
    ax.set_ylim(height + 0.8, -0.1)
    ax.set_axis_off()
    if image is not None:
        ax.figure.colorbar(image, ax=ax, label="score", shrink=0.7, pad=0.01)
    return ax


def _scores_of_places(weights: NDArray[np.float64], side: float, geometry: Any) -> NDArray[np.float64]:
    """Return the score of a box with sides `side` times the image's by the position of its center; NaN outside."""
    width, height = PICTURE
    x, y = (np.arange(n) + 0.5 for n in (40, 30))
    middles = np.stack(np.meshgrid(x * width / 40, y * height / 30), axis=-1).reshape(-1, 2)
    half = 0.5 * side * np.array(PICTURE)
    boxes = np.hstack([middles - half, middles + half])
    inside = (boxes[:, :2] >= -1e-9).all(axis=1) & (boxes[:, 2:] <= np.array(PICTURE) + 1e-9).all(axis=1)
    scores = np.where(inside, geometry(boxes, width, height) @ weights, np.nan)
    found: NDArray[np.float64] = scores.reshape(30, 40)
    return found
