"""Candidate boxes from the segments of an image, which are grouped by similarity (as in selective search)."""

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import integer
from latentstruct.data.boxes import LIMIT, Boxes
from latentstruct.data.images import require_vision

__all__ = ["segment_boxes"]

SIDE = 160
"""Pixels of the longer side to which images are shrunk before they are segmented."""
SCALES = (50.0, 150.0)
"""Scales of the segmentation: the larger, the fewer segments."""
SMOOTHING, SMALLEST = 0.8, 20
"""Standard deviation of the smoothing in pixels, and fewest pixels of a segment."""
BINS = 12
"""Bins per channel of the color histograms."""
LAB_LOW, LAB_HIGH = np.array([0.0, -60.0, -60.0]), np.array([100.0, 60.0, 60.0])
SMALLEST_BOX = 0.02
"""Smallest area of a box relative to that of the image."""


def segment_boxes(image: Any, limit: int = LIMIT) -> Boxes:
    """Return the whole image and the extents of its segments and of groups of neighboring segments.

    The image is divided into segments of similar color (Felzenszwalb & Huttenlocher 2004). The two most similar
    neighbors are joined until one segment remains (Uijlings et al. 2013): similar in color, small, and filling their
    common box. All segments and groups are candidates, if their box has at least 2 % of the image. They are at most
    `limit` distinct boxes (m, 4) of whole pixels, the whole image first, large groups before small ones, which are
    omitted first.
    """
    integer(1).check(limit, "limit")
    require_vision()
    from skimage.color import rgb2lab
    from skimage.segmentation import felzenszwalb
    from skimage.transform import resize

    height, width = image.shape[:2]
    factor = min(1.0, SIDE / max(height, width))
    size = max(round(height * factor), 1), max(round(width * factor), 1)
    small = resize(image, size, anti_aliasing=True)
    colors = rgb2lab(small)
    found = []
    for scale in SCALES:
        segments = felzenszwalb(small, scale=scale, sigma=SMOOTHING, min_size=SMALLEST)
        found.append(_Groups(segments, colors).boxes())
    # The last groups of each segmentation are the largest; both take turns.
    longest = max(map(len, found))
    padded = [boxes[::-1] + [boxes[0]] * (longest - len(boxes)) for boxes in found]
    extents = np.array(list(chain.from_iterable(zip(*padded, strict=True))), dtype=np.float64)
    ratio = np.tile([width / size[1], height / size[0]], 2)
    scaled = np.round(extents * ratio).clip(0, [width, height, width, height])
    areas = np.prod(scaled[:, 2:] - scaled[:, :2], axis=1)
    kept = np.vstack([[[0.0, 0.0, width, height]], scaled[areas >= max(SMALLEST_BOX * width * height, 1.0)]])
    _, first = np.unique(kept, axis=0, return_index=True)
    boxes: Boxes = kept[np.sort(first)[:limit]]
    return boxes


class _Groups:
    """Segments that are joined in pairs, given the segment of each pixel (h, w), from 0, and Lab colors (h, w, 3)."""

    def __init__(self, segments: NDArray[Any], colors: NDArray[Any]) -> None:
        flat = segments.ravel()
        n, self.total = int(flat.max()) + 1, flat.size
        counts = np.bincount(flat, minlength=n)
        levels = ((colors - LAB_LOW) / (LAB_HIGH - LAB_LOW) * BINS).astype(np.int64).clip(0, BINS - 1).reshape(-1, 3)
        histograms = [np.bincount(flat * BINS + levels[:, c], minlength=n * BINS).reshape(n, BINS) for c in range(3)]
        rows, columns = (grid.ravel() for grid in np.indices(segments.shape))
        extents = np.empty((n, 4), dtype=np.int64)
        for k, values in enumerate((columns, rows)):
            low, high = np.full(n, segments.size), np.zeros(n, dtype=np.int64)
            np.minimum.at(low, flat, values)
            np.maximum.at(high, flat, values + 1)
            extents[:, k], extents[:, k + 2] = low, high
        self.sizes = counts.tolist()
        self.colors = list(np.hstack(histograms) / (3.0 * counts[:, None]))
        self.extents = extents.tolist()
        self.neighbors: dict[int, set[int]] = {k: set() for k in range(n)}
        self.similar: dict[tuple[int, int], float] = {}
        pairs = [(segments[:, :-1], segments[:, 1:]), (segments[:-1], segments[1:])]
        touching = np.concatenate([np.stack([a[a != b], b[a != b]], axis=1) for a, b in pairs])
        for u, v in np.unique(np.sort(touching, axis=1), axis=0).tolist():
            self._link(u, v)

    def boxes(self) -> list[list[int]]:
        """Join all and return the extents of segments and groups in the order in which they were formed."""
        while self.similar:
            self._join(*max(self.similar, key=self.similar.__getitem__))
        return self.extents

    def _link(self, u: int, v: int) -> None:
        self.neighbors[u].add(v)
        self.neighbors[v].add(u)
        self.similar[u, v] = self._similarity(u, v)

    def _similarity(self, u: int, v: int) -> float:
        """Return the sum of the intersection of histograms, 1 − size and 1 − the empty part of the common box."""
        x0, y0, x1, y1 = self._around(u, v)
        both = self.sizes[u] + self.sizes[v]
        empty = (x1 - x0) * (y1 - y0) - both
        return float(np.minimum(self.colors[u], self.colors[v]).sum()) + 2.0 - (both + empty) / self.total

    def _around(self, u: int, v: int) -> list[int]:
        a, b = self.extents[u], self.extents[v]
        return [min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])]

    def _join(self, u: int, v: int) -> None:
        new, size = len(self.sizes), self.sizes[u] + self.sizes[v]
        self.extents.append(self._around(u, v))
        self.colors.append((self.sizes[u] * self.colors[u] + self.sizes[v] * self.colors[v]) / size)
        self.sizes.append(size)
        around = (self.neighbors.pop(u) | self.neighbors.pop(v)) - {u, v}
        self.similar = {pair: value for pair, value in self.similar.items() if not {u, v} & set(pair)}
        self.neighbors[new] = set()
        for other in sorted(around):
            self.neighbors[other] -= {u, v}
            self._link(other, new)
