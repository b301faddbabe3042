"""The logo of a motif."""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.exceptions import InputError
from latentstruct.io.meme import check_background, check_probabilities
from latentstruct.viz.plots.axes import hide_frame, new_axes, on_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THINNEST = 1e-3
"""Minimum visible height of a letter in bits."""
WIDTH, NARROWEST = 0.92, 0.45
"""Width of a letter, and the least width of the letters that are stretched to it: I would be a box."""


@on_axes
def plot_logo(matrix: Any, background: Any = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the sequence logo of letter probabilities.

    The stack at position j has the height Σ_a p_ja log₂(p_ja / b_a) bits. Letter a has the fraction p_ja of it, the
    most probable on top.

    Parameters
    ----------
    matrix : array of shape (width, 4) or (width, 20)
        Probabilities p of A, C, G and T, or of amino acids in alphabetical order of their letters, at each position.
    background : array of shape (4,) or (20,), optional
        Background frequencies b of the letters, uniform by default.
    """
    rows, alphabet = check_probabilities(matrix, "matrix")
    letters = np.full(alphabet.size, 1 / alphabet.size)
    if background is not None:
        letters = check_background(background, alphabet)
        if (letters == 0).any():
            raise InputError("background", letters.tolist(), "probabilities above 0", "Add pseudocounts.")
    ax = new_axes() if ax is None else ax
    logarithms = np.log2(np.maximum(rows, 1e-300) / letters)
    bits = (rows * logarithms).sum(axis=1)
    colors = {letter: color for color, group in alphabet.colors.items() for letter in group}
    for j, (row, height) in enumerate(zip(rows, bits, strict=True)):
        bottom = 0.0
        for a in np.argsort(row, kind="stable"):
            letter = alphabet.letters[a]
            _draw_letter(ax, letter, colors[letter], (j + 1, bottom), float(row[a] * height))
            bottom += float(row[a] * height)
    ax.set_xlim(0.4, len(rows) + 0.6)
    # One scale for all logos of an alphabet, so that a weak motif looks weak; rare letters can have more bits.
    ax.set_ylim(0.0, max(np.log2(alphabet.size), float(bits.max())))
    step = max(1, -(-len(rows) // 20))
    ax.set_xticks(range(1, len(rows) + 1, step))
    ax.set_xlabel("position")
    ax.set_ylabel("information (bits)")
    hide_frame(ax)
    return ax


def _draw_letter(ax: "Axes", letter: str, color: str, place: tuple[float, float], height: float) -> None:
    """Draw a letter's outline stretched to one position's width and the given height above a place."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    if height < THINNEST:
        return
    outline = TextPath((0, 0), letter, size=1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = outline.get_extents()
    centered = Affine2D().translate(-(box.x0 + box.x1) / 2, -box.y0)
    moved = centered.scale(WIDTH / max(box.width, NARROWEST), height / box.height).translate(*place)
    ax.add_patch(PathPatch(moved.transform_path(outline), facecolor=color, linewidth=0))
