"""Weights in rows and columns."""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.exceptions import InputError
from latentstruct.plots.axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    ax = new_axes(6.2) if ax is None else ax
    largest = float(np.abs(scores).max()) or 1.0
    image = ax.imshow(scores, cmap="RdBu_r", vmin=-largest, vmax=largest)
    for side in (ax.xaxis, ax.yaxis):
        side.set_ticks(range(len(letters)), list(letters))
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelsize="small")
    ax.figure.colorbar(image, ax=ax, label="score", shrink=0.8)
    return ax
