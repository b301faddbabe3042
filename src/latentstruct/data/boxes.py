"""Boxes in images: candidates in a grid, and their overlaps.

A box is x0, y0, x1, y1 in pixels from the upper left corner; its right and bottom ends are exclusive.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.measures import overlap_table
from latentstruct.core.types import Vector
from latentstruct.core.validation import integer, numbers_of
from latentstruct.exceptions import Description, InputError

__all__ = ["ASPECTS", "LIMIT", "SIZES", "STEP", "check_boxes", "grid_boxes", "nearest_box", "overlaps"]

Boxes = NDArray[np.float64]

STEP = 8
SIZES: tuple[float, ...] = (0.3, 0.43, 0.62, 0.9)
"""Sides of the candidates relative to √(width · height) of the image."""
ASPECTS: tuple[float, ...] = (0.5, 1.0, 2.0)
"""Width over height of the candidates."""
LIMIT = 350


def check_boxes(boxes: Any, name: str) -> Boxes:
    """Return boxes, or one of shape (4,), as a float64 array (m, 4); errors name `name` and the box."""
    expected = "at least one box of four numbers x0, y0, x1, y1"
    found = np.ascontiguousarray(numbers_of(boxes, name, expected))
    if found.shape == (4,):
        found = found[None]
    if found.size == 0 or found.ndim != 2 or found.shape[1] != 4:
        raise InputError(name, Description(f"shape {found.shape}"), expected)
    fine = np.isfinite(found).all(axis=1) & (found[:, :2] < found[:, 2:]).all(axis=1)
    if not fine.all():
        k = int(np.argmin(fine))
        raise InputError(f"{name}[{k}]", found[k].tolist(), "a box with finite x0 < x1 and y0 < y1")
    return found


def overlaps(A: Any, B: Any) -> NDArray[np.float64]:
    """Return the overlap |A ∩ B| / |A ∪ B|, from 0 to 1, of all pairs of boxes (a, 4) and (b, 4)."""
    left, right = check_boxes(A, "A"), check_boxes(B, "B")
    table = np.empty((len(left), len(right)))
    overlap_table(left, right, table)
    return table


def nearest_box(boxes: Any, truth: Any) -> int:
    """Return the index of the first box (m, 4) that overlaps most with a true one; `truth` has one box or several.

    If none overlaps, it is the one with the nearest center.
    """
    found, true = check_boxes(boxes, "boxes"), check_boxes(truth, "truth")
    table = overlaps(found, true).max(axis=1)
    if table.max() > 0.0:
        return int(table.argmax())
    apart = (found[:, None, :2] + found[:, None, 2:]) - (true[None, :, :2] + true[None, :, 2:])
    return int((apart**2).sum(axis=2).min(axis=1).argmin())


def grid_boxes(
    width: int,
    height: int,
    step: int = STEP,
    sizes: Sequence[float] = SIZES,
    aspects: Sequence[float] = ASPECTS,
    limit: int = LIMIT,
) -> Boxes:
    """Return candidate boxes (m, 4): the whole image first, and a grid of boxes of several sizes and shapes.

    Parameters
    ----------
    width, height : int
        Size of the image in pixels.
    step : int, default=8
        Minimum distance between neighboring boxes of one shape in pixels.
    sizes, aspects : sequence of float
        √(width · height) of the boxes relative to that of the image, and width over height. Boxes that would be longer
        than the image are clipped to its length.
    limit : int, default=350
        Maximum number of boxes. If the grid has more, the distance grows to a fraction of width and height that is
        the same for all shapes: small boxes stay dense, large ones become few. If there are more shapes than
        that, some are omitted.
    """
    check_grid(width, height, step, sizes, aspects, limit)
    shapes = _shapes(width, height, sizes, aspects)
    if len(shapes) >= limit:
        shapes = shapes[np.linspace(0, len(shapes) - 1, limit - 1).round().astype(np.int64)]
    counts = _counts(width, height, step, shapes, limit - 1)
    parts = [np.array([[0.0, 0.0, width, height]])]
    for (w, h), (across, down) in zip(shapes, counts, strict=True):
        x0, y0 = (np.round(_spread(space, n)) for space, n in ((width - w, across), (height - h, down)))
        top, left = (grid.ravel() for grid in np.meshgrid(y0, x0, indexing="ij"))
        parts.append(np.stack([left, top, left + w, top + h], axis=1))
    return np.concatenate(parts)


def check_grid(width: Any, height: Any, step: Any, sizes: Any, aspects: Any, limit: Any) -> None:
    for name, value in (("width", width), ("height", height), ("step", step), ("limit", limit)):
        integer(1).check(value, name)
    for name, values, top in (("sizes", sizes, 1.0), ("aspects", aspects, np.inf)):
        try:
            numbers: Vector = np.atleast_1d(np.array(values, dtype=np.float64))
        except (TypeError, ValueError):
            numbers = np.full(1, np.nan)
        if numbers.ndim != 1 or not len(numbers) or not ((numbers > 0) & (numbers <= top) & (numbers < np.inf)).all():
            between = "above 0 and at most 1" if name == "sizes" else "finite and above 0"
            raise InputError(name, values, f"at least one number, all {between}")


def _shapes(width: int, height: int, sizes: Sequence[float], aspects: Sequence[float]) -> NDArray[np.int64]:
    """Return the distinct (width, height) of boxes smaller than the image, in the order given."""
    side = np.sqrt(float(width) * float(height))
    shapes = dict.fromkeys(
        (
            int(np.clip(round(side * size * np.sqrt(aspect)), 1, width)),
            int(np.clip(round(side * size / np.sqrt(aspect)), 1, height)),
        )
        for size in np.atleast_1d(sizes)
        for aspect in np.atleast_1d(aspects)
    )
    shapes.pop((width, height), None)
    return np.array(list(shapes), dtype=np.int64).reshape(-1, 2)


def _counts(width: int, height: int, step: int, shapes: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return the numbers of boxes of each shape (m, 2) across and down, at most `limit` in total."""
    free = np.array([width, height]) - shapes

    def fitting(share: float) -> NDArray[np.int64]:
        return np.floor(free / np.maximum(step, share * shapes)).astype(np.int64) + 1

    def total(share: float) -> int:
        return int(fitting(share).prod(axis=1).sum())

    if total(0.0) <= limit:
        return fitting(0.0)
    # Bisection for the smallest fraction of a box's side between neighbors; at `high` there is one box per shape.
    low, high = 0.0, float((free / shapes).max()) + 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if total(middle) <= limit else (middle, high)
    return fitting(high)


def _spread(space: int, count: int) -> Vector:
    """Return `count` positions from 0 to `space`; the middle if there is only one."""
    return np.array([space / 2.0]) if count == 1 else np.linspace(0.0, space, count)
