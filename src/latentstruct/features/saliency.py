"""Saliency: how much parts of an image differ from its border, and how well boxes enclose them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.data.boxes import Boxes
from latentstruct.data.images import require_vision

__all__ = ["N_SALIENCY", "box_saliency", "saliency_map"]

Values = NDArray[np.float64]

SIDE = 160
"""Pixels of the longer side to which images are shrunk."""
SEGMENTS, COMPACTNESS, SMOOTHING = 150, 10.0, 0.5
COLOR, BORDER, SPACE = 10.0, 1.0, 0.25
"""Scales of color differences, of the share of the border, and of distances relative to the image."""
BACKGROUND, SMOOTH = 5.0, 0.1
"""Weight of the background, and the least weight of neighbors."""
SHARES = (0.1, 0.2, 0.3, 0.5)
CENTER, THRESHOLD = 0.25, 0.3
"""Width of the preference for the center, and the part of the mean that salient pixels exceed."""
SURROUND = 1.4
"""Sides of the surrounding box relative to the box."""
N_SALIENCY = 4 + len(SHARES)


def saliency_map(image: Any) -> Values:
    """Return how likely each pixel belongs to the object, from 0 to 1.

    Segments of similar color that touch the border for much of their outline are background. A segment is salient if
    its color differs from the background near it (Zhu, Liang, Wei & Sun 2014).

    Parameters
    ----------
    image : uint8 array of shape (height, width, 3)
        The image.

    Returns
    -------
    array of shape (h, w)
        The saliency of the image, shrunk to 160 pixels; zeros if all of it looks alike.
    """
    require_vision()
    from skimage.color import rgb2lab
    from skimage.segmentation import slic
    from skimage.transform import resize

    factor = min(1.0, SIDE / max(image.shape[:2]))
    height, width = (max(round(side * factor), 1) for side in image.shape[:2])
    small = resize(image, (height, width), anti_aliasing=True)
    parts = slic(small, SEGMENTS, COMPACTNESS, sigma=SMOOTHING, start_label=0)
    parts = np.unique(parts, return_inverse=True)[1].reshape(height, width)
    flat, count = parts.ravel(), np.bincount(parts.ravel())
    rows, columns = (grid.ravel() for grid in np.indices((height, width)))
    values = np.column_stack([rgb2lab(small).reshape(-1, 3), columns / width, rows / height])
    means = np.stack([np.bincount(flat, values[:, k]) / count for k in range(5)], axis=1)
    colors, places = (np.sqrt(((m[:, None] - m) ** 2).sum(axis=2)) for m in (means[:, :3], means[:, 3:]))
    found: Values = _part_saliency(colors, places, *_outline(parts, len(count)))[parts]
    return found


def _outline(parts: NDArray[Any], n: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which of n segments touch each other, and which touch the border of the image."""
    touching, border = np.zeros((n, n), dtype=bool), np.zeros(n, dtype=bool)
    for a, b in ((parts[:, :-1], parts[:, 1:]), (parts[:-1], parts[1:])):
        touching[a, b] = touching[b, a] = True
    np.fill_diagonal(touching, False)
    for side in (parts[0], parts[-1], parts[:, 0], parts[:, -1]):
        border[side] = True
    return touching, border


def _part_saliency(colors: Values, places: Values, touching: NDArray[np.bool_], border: NDArray[np.bool_]) -> Values:
    """Return the saliency of segments from their distances in color and place."""
    from scipy.sparse.csgraph import shortest_path

    # All segments at the border are neighbors: the background may be cut in pieces.
    linked = touching | (border[:, None] & border)
    np.fill_diagonal(linked, False)
    nearest = np.where(touching, colors, np.inf).min(axis=1)
    usual = float(np.median(nearest[np.isfinite(nearest)])) if np.isfinite(nearest).any() else 0.0
    steps = np.where(linked, np.maximum(colors - usual, 1e-6), 0.0)
    alike = np.exp(-(shortest_path(steps, directed=False) ** 2) / (2 * COLOR**2))
    background = 1.0 - np.exp(-(alike[:, border].sum(axis=1) ** 2 / alike.sum(axis=1)) / (2 * BORDER**2))
    contrast = (colors * np.exp(-(places**2) / (2 * SPACE**2))) @ background
    contrast /= max(float(contrast.max()), 1e-9)
    weights = touching * (np.exp(-(colors**2) / (2 * COLOR**2)) + SMOOTH)
    system = np.diag(BACKGROUND * background + contrast + weights.sum(axis=1) + 1e-9) - weights
    found = np.linalg.solve(system, contrast)
    return np.asarray((found - found.min()) / max(float(np.ptp(found)), 1e-9))


def box_saliency(saliency: Values, boxes: Boxes, width: float, height: float) -> Values:
    """Return how well boxes enclose what is salient, relative to the other boxes of the image.

    The values of a box are: the mean saliency in it; that around it; the part of all saliency S that it has;
    s/(S + q(a − s)) for q = 0.1, 0.2, 0.3, 0.5, where a is its area and s the saliency in it; and the saliency above
    30 % of the mean, where the center counts more. The last one is largest for the most salient box.

    Parameters
    ----------
    saliency : array of shape (h, w)
        As `saliency_map` returns it.
    boxes : array of shape (m, 4)
        Boxes inside the image.
    width, height : float
        Size of the image.

    Returns
    -------
    array of shape (m, 8)
        The values with mean 0 and, unless all are equal, variance 1 over the boxes, divided by √8.
    """
    rows, columns = saliency.shape
    scale, ends = np.tile([columns / width, rows / height], 2), np.tile([columns, rows], 2)
    inner = np.round(boxes * scale).clip(0, ends).astype(np.int64)
    middle, reach = 0.5 * (inner[:, :2] + inner[:, 2:]), 0.5 * SURROUND * (inner[:, 2:] - inner[:, :2])
    outer = np.round(np.hstack([middle - reach, middle + reach])).clip(0, ends).astype(np.int64)
    area, around = (np.maximum(np.prod(b[:, 2:] - b[:, :2], axis=1), 1) for b in (inner, outer))
    total, within = max(float(saliency.sum()), 1e-9), _sums(saliency, inner)
    near = (_sums(saliency, outer) - within) / np.maximum(around - area, 1)
    y, x = np.ogrid[:rows, :columns]
    off = (x / columns - 0.5) ** 2 + (y / rows - 0.5) ** 2
    central = saliency * np.exp(-off / (2 * CENTER**2))
    enclosed = [within / (total + q * (area - within)) for q in SHARES]
    score = _sums(central - THRESHOLD * central.mean(), inner)
    values = np.column_stack([within / area, near, within / total, *enclosed, score])
    values -= values.mean(axis=0)
    spread = values.std(axis=0)
    found: Values = values / np.where(spread > 1e-12, spread, 1.0) / np.sqrt(N_SALIENCY)
    return found


def _sums(values: Values, boxes: NDArray[np.int64]) -> Values:
    """Return the sums of pixels in boxes."""
    sums = np.zeros((values.shape[0] + 1, values.shape[1] + 1))
    sums[1:, 1:] = values.cumsum(axis=0).cumsum(axis=1)
    x0, y0, x1, y1 = boxes.T
    found: Values = sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]
    return found
