"""Shares of right cells over many images, with standard errors that take cells of one image as dependent."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Share", "difference", "pooled_share"]


class Share(NamedTuple):
    """A share and its standard error, which is None if there is only one image."""

    value: float
    error: float | None

    def percent(self) -> str:
        """Return both as percentages."""
        spread = "" if self.error is None else f" ± {100 * self.error:.1f}"
        return f"{100 * self.value:.1f}{spread}"


def _linearised(right: NDArray[np.float64], sizes: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return Σ right / Σ sizes and the influence of each image on it."""
    total = sizes.sum()
    value = float(right.sum() / total)
    return value, (right - value * sizes) / total


def _error(influence: NDArray[np.float64]) -> float | None:
    n = len(influence)
    return math.sqrt(n / (n - 1) * float((influence**2).sum())) if n > 1 else None


def pooled_share(right: Any, sizes: Any) -> Share:
    """Return Σ_i r_i / Σ_i n_i for r_i right of n_i cells in image i.

    The standard error is that of the ratio over images, by linearisation: √(m/(m−1) Σ_i (r_i − p n_i)²) / Σ_i n_i over
    the m images that have such cells.

    Parameters
    ----------
    right, sizes : arrays of shape (m,)
        r and n.

    Returns
    -------
    Share
        NaN if there are no cells at all.
    """
    r, n = np.asarray(right, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    used = n > 0
    if not used.any():
        return Share(math.nan, None)
    value, influence = _linearised(r[used], n[used])
    return Share(value, _error(influence))


def difference(right: Any, other: Any, sizes: Any) -> Share:
    """Return the difference of two pooled shares on the same cells, with the standard error of the paired difference.

    Parameters
    ----------
    right, other, sizes : arrays of shape (m,)
        Right cells of one model and of the other, and all cells, of each image.
    """
    r, q, n = (np.asarray(values, dtype=np.float64) for values in (right, other, sizes))
    used = n > 0
    if not used.any():
        return Share(math.nan, None)
    (a, first), (b, second) = _linearised(r[used], n[used]), _linearised(q[used], n[used])
    return Share(a - b, _error(first - second))
