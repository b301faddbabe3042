"""Features of boxes in images: histograms of oriented gradients, computed once and kept on disk, and geometry."""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Sequence, Sized
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import show
from latentstruct.core.parameters import Parametrized
from latentstruct.data.boxes import ASPECTS, LIMIT, SIZES, STEP, Boxes, check_boxes, check_grid, grid_boxes
from latentstruct.data.images import require_vision
from latentstruct.exceptions import FormatError, InputError
from latentstruct.io.npz import load_arrays
from latentstruct.persistence.atomic_files import remove_left_over, replace_files
from latentstruct.progress.heartbeat import each
from latentstruct.tasks.detection import DetectionInput

__all__ = ["BoxFeatures"]

Values = NDArray[np.float64]
Progress = Callable[[int, int | None], Any]

ORIENTATIONS = 9
BLOCK = 2
"""Cells on a side of the blocks within which strengths are compared."""
CUT = 0.2
"""Largest entry of a normalised block before it is normalised again."""
SMALL = 1e-5
SHRINK = 2**0.5
SMALLEST = 16
"""Pixels on the shorter side below which an image is not shrunk further."""

N_GEOMETRY = 14
"""Place, size and shape of a box, and the products of any two of these four."""

_STATE_FORMAT = "latentstruct.BoxFeatures"
_STATE_VERSION = 1
_CACHE_VERSION = b"latentstruct boxes 1"
"""Part of every name in the cache: it changes whenever the same settings would give other features."""


class _State(msgspec.Struct, forbid_unknown_fields=True):
    """The saved form of the settings."""

    format: str
    version: int
    step: int
    sizes: list[float]
    aspects: list[float]
    limit: int
    window: int
    cell: int
    geometry: float


def oriented_gradients(image: Any) -> Values:
    """Return the strength of the gradient of each pixel in each of 9 directions.

    As `skimage.feature.hog` has it: differences of neighbours, 0 at the border, of the channel where they are
    strongest, and directions from 0 to 180 degrees in equal parts.

    Parameters
    ----------
    image : float array of shape (height, width, 3)
        The image.

    Returns
    -------
    array of shape (height, width, 9)
        All of a pixel's strength is in one direction.
    """
    down, across = np.zeros_like(image), np.zeros_like(image)
    down[1:-1] = image[2:] - image[:-2]
    across[:, 1:-1] = image[:, 2:] - image[:, :-2]
    strength = np.hypot(down, across)
    height, width = strength.shape[:2]
    rows, columns = np.ogrid[:height, :width]
    chosen = rows, columns, strength.argmax(axis=2)
    angle = np.rad2deg(np.arctan2(down[chosen], across[chosen])) % 180.0
    # Just below 0 degrees the remainder rounds to 180.
    part = np.minimum((angle * (ORIENTATIONS / 180.0)).astype(np.int64), ORIENTATIONS - 1)
    planes = np.zeros((height, width, ORIENTATIONS))
    planes[rows, columns, part] = strength[chosen]
    return planes


def cell_histograms(planes: Values, boxes: Boxes, n_cells: int) -> Values:
    """Return the mean strength of each direction in n_cells × n_cells equal parts of each box.

    Parameters
    ----------
    planes : array of shape (height, width, 9)
        The strengths.
    boxes : array of shape (m, 4)
        Boxes inside, not necessarily of whole pixels: a pixel counts by the part of it that is inside.
    n_cells : int
        Cells on a side.

    Returns
    -------
    array of shape (m, n_cells, n_cells, 9)
        The means, rows before columns.
    """
    height, width, n_planes = planes.shape
    sums = np.zeros((height + 1, width + 1, n_planes))
    np.cumsum(planes, axis=0, out=sums[1:, 1:])
    np.cumsum(sums, axis=1, out=sums)
    share = np.linspace(0.0, 1.0, n_cells + 1)
    x, y = (boxes[:, k, None] + share * (boxes[:, k + 2] - boxes[:, k])[:, None] for k in (0, 1))
    left, top = x.astype(np.int64).clip(0, width - 1), y.astype(np.int64).clip(0, height - 1)
    right_part, lower_part = (x - left)[:, None, :, None], (y - top)[:, :, None, None]
    corners = [[sums[top[:, :, None] + j, left[:, None, :] + k] for k in (0, 1)] for j in (0, 1)]
    upper, lower = (a + right_part * (b - a) for a, b in corners)
    below = upper + lower_part * (lower - upper)
    inside = np.diff(np.diff(below, axis=1), axis=2)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) / n_cells**2
    # Differences of large sums may fall below 0 by rounding.
    means: Values = np.maximum(inside, 0.0) / areas[:, None, None, None]
    return means


def normalised_blocks(histograms: Values) -> Values:
    """Return the histograms of blocks of 2 × 2 neighbouring cells, normalised within each: "L2-Hys".

    Parameters
    ----------
    histograms : array of shape (m, n, n, 9)
        The histograms of the cells.

    Returns
    -------
    array of shape (m, n − 1, n − 1, 2, 2, 9)
        Normalised to length 1, cut at 0.2 and normalised again.
    """
    blocks = np.lib.stride_tricks.sliding_window_view(histograms, (BLOCK, BLOCK), axis=(1, 2))
    blocks = blocks.transpose(0, 1, 2, 4, 5, 3)
    for most in (CUT, np.inf):
        lengths = np.sqrt((blocks**2).sum(axis=(3, 4, 5), keepdims=True) + SMALL**2)
        blocks = np.minimum(blocks / lengths, most)
    return blocks


def describe_cells(histograms: Values) -> NDArray[np.float32]:
    """Return one vector of length 1 for each box: its cells, each the mean of what it is in the blocks it belongs to.

    Parameters
    ----------
    histograms : array of shape (m, n, n, 9)
        The histograms of the cells.

    Returns
    -------
    float32 array of shape (m, 9 n²)
        Cells row by row, directions within; zeros for a box without any gradient.
    """
    blocks, n_cells = normalised_blocks(histograms), histograms.shape[1]
    total, count = np.zeros_like(histograms), np.zeros((n_cells, n_cells, 1))
    last = n_cells - BLOCK + 1
    for j in range(BLOCK):
        for k in range(BLOCK):
            total[:, j : j + last, k : k + last] += blocks[:, :, :, j, k]
            count[j : j + last, k : k + last] += 1.0
    rows = (total / count).reshape(len(histograms), -1)
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    found: NDArray[np.float32] = (rows / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)
    return found


def box_geometry(boxes: Boxes, width: float, height: float) -> Values:
    """Return place, size and shape of boxes relative to their image, and the products of these.

    With the middle (c_x, c_y), the width w and the height h of a box in an image of W × H,
    g = (2c_x/W − 1, 2c_y/H − 1, ½log₂(wh/WH), log₂(w/h)), and a row is (g_j, …, g_j g_k for j ≤ k, …)/√14. Weights of
    these can prefer any place, size and shape, more or less strictly. Rows of usual candidates have about length 1.

    Parameters
    ----------
    boxes : array of shape (m, 4)
        Boxes inside the image.
    width, height : float
        Size of the image.

    Returns
    -------
    array of shape (m, 14)
        A row for each box; it stays the same if the image and the box change by the same scale.
    """
    sides = boxes[:, 2:] - boxes[:, :2]
    size = np.array([width, height], dtype=np.float64)
    places = (boxes[:, :2] + boxes[:, 2:]) / size - 1.0
    scale = 0.5 * np.log2(sides / size).sum(axis=1)
    shape = np.log2(sides[:, 0] / sides[:, 1])
    single = np.column_stack([places, scale, shape])
    first, second = np.triu_indices(single.shape[1])
    rows: Values = np.hstack([single, single[:, first] * single[:, second]]) / np.sqrt(N_GEOMETRY)
    return rows


class BoxFeatures(Parametrized):
    """Candidate boxes of images with a histogram of oriented gradients of each, and its place, size and shape.

    A box is described as if it had been brought to a square window and cut into cells, from one of several smaller
    copies of the image, in which the box is about as large as the window; boxes smaller than the window are not
    enlarged. The cells cut pixels into parts, so that boxes need not fit a raster and each copy is looked at once.

    Parameters
    ----------
    step, sizes, aspects, limit
        The candidates, as for `grid_boxes`.
    window : int, default=48
        Side of the window in pixels, a multiple of `cell` and at least twice as long.
    cell : int, default=8
        Side of a cell of the window in pixels.
    geometry : float, default=0.5
        Factor of 14 features of place, size and shape (see `box_geometry`); 0 leaves them out. Without them a model
        cannot learn that large boxes in the middle are likelier than others, whatever they show. The larger it is, the
        closer a model keeps to the boxes that training begins with: take 0 where objects may be anywhere.
    cache : path, optional
        A folder for features, made if needed. They are found again by the pixels, boxes and settings; damaged files
        are made again. Nothing is ever deleted from it.

    Notes
    -----
    Nothing is learned. The first (window / cell)² · 9 features, by default 324, are the gradients, of length 1 in all
    and none below 0. Those of geometry follow. The cache has the gradients alone, so that `geometry` may change.
    """

    def __init__(
        self,
        step: int = STEP,
        sizes: Sequence[float] = SIZES,
        aspects: Sequence[float] = ASPECTS,
        limit: int = LIMIT,
        window: int = 48,
        cell: int = 8,
        geometry: float = 0.5,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self.step = step
        self.sizes = sizes
        self.aspects = aspects
        self.limit = limit
        self.window = window
        self.cell = cell
        self.geometry = geometry
        self.cache = cache

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters; there is nothing to learn, so that neither images nor classes are looked at."""
        self.check()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def check(self) -> None:
        """Raise unless the parameters fit together."""
        check_grid(1, 1, self.step, self.sizes, self.aspects, self.limit)
        for name in ("window", "cell"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"{name} is {show(value)}; expected a whole number of at least 1: correct it")
        if self.window % self.cell or self.window < BLOCK * self.cell:
            raise InputError(
                f"window is {self.window}; expected a multiple of the cell {self.cell}, at least {BLOCK} times as "
                "long: correct one of them"
            )
        weight = self.geometry
        numeric = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not (numeric and 0 <= weight < np.inf):
            raise InputError(f"geometry is {show(weight)}; expected a finite number of at least 0: correct it")
        if self.cache is not None and (not isinstance(self.cache, str | os.PathLike) or not os.fspath(self.cache)):
            raise InputError(
                f"cache is {show(self.cache, 200)}; expected the path of a folder, or None for no cache: correct it"
            )

    @property
    def n_features_(self) -> int:
        """The number of features of a box."""
        return self._n_gradients + (N_GEOMETRY if self.geometry else 0)

    @property
    def _n_gradients(self) -> int:
        return (self.window // self.cell) ** 2 * ORIENTATIONS

    def describe(self, image: Any, boxes: Any = None, key: str | None = None) -> DetectionInput:
        """Return the candidates of an image and their features.

        Parameters
        ----------
        image : uint8 array of shape (height, width, 3)
            The image.
        boxes : array of shape (m, 4), optional
            Candidates of your own inside the image; by default those of `grid_boxes`.
        key : str, optional
            What messages call the image.

        Returns
        -------
        DetectionInput
            Boxes (m, 4) and float32 features (m, n_features_).
        """
        self.check()
        require_vision()
        pixels, name = _check_image(image, "the image" if key is None else key)
        height, width = pixels.shape[:2]
        if boxes is None:
            found = grid_boxes(width, height, self.step, self.sizes, self.aspects, self.limit)
        else:
            found = check_boxes(boxes, f"the boxes of {name}")
            outside = (found[:, :2] < 0).any(axis=1) | (found[:, 2] > width) | (found[:, 3] > height)
            if outside.any():
                k = int(outside.argmax())
                raise InputError(
                    f"box {k} of {name} is {found[k].tolist()}; expected it within 0, 0, {width}, {height}, the size "
                    "of the image: cut it to that"
                )
        features = self._kept_gradients(pixels, found)
        if self.geometry:
            rows = self.geometry * box_geometry(found, width, height)
            features = np.hstack([features, rows.astype(np.float32)])
        return DetectionInput(found, features)

    def _kept_gradients(self, pixels: NDArray[np.uint8], boxes: Boxes) -> NDArray[np.float32]:
        """Return the histograms from the cache, or compute them."""
        if self.cache is None:
            return self._features(pixels, boxes)
        file = _Cache(self.cache).file(_CACHE_VERSION, (self.window, self.cell), pixels, boxes)
        features = file.read((len(boxes), self._n_gradients))
        if features is None:
            features = self._features(pixels, boxes)
            file.write(features)
        return features

    def transform(
        self, images: Iterable[Any], boxes: Iterable[Any] | None = None, progress: Progress | None = None
    ) -> list[DetectionInput]:
        """Return the candidates of images and their features.

        Parameters
        ----------
        images : iterable of uint8 arrays of shape (height, width, 3)
            The images; a sequence that reads them when asked for will do.
        boxes : iterable of arrays of shape (m, 4), optional
            Candidates of your own for each image.
        progress : callable, optional
            Called with the number of images done and of all, None if that is not known.

        Returns
        -------
        list of DetectionInput
            One for each image.
        """
        for name, value in (("images", images), ("boxes", () if boxes is None else boxes)):
            if not isinstance(value, Iterable):
                raise InputError(
                    f"{name} are {show(value)}; expected one for each image: give a list, or an array of them"
                )
        total = len(images) if isinstance(images, Sized) else None
        given = None if boxes is None else list(boxes)
        if given is not None and total is not None and len(given) != total:
            raise InputError(f"boxes are given for {len(given)} images, but there are {total}: give them for each")
        found = []
        counted = images if total is None else each(images, total, "images described")
        for k, image in enumerate(counted):
            if given is not None and k >= len(given):
                raise InputError(f"boxes are given for {len(given)} images, but there are more: give them for each")
            found.append(self.describe(image, None if given is None else given[k], f"image {k}"))
            if progress is not None:
                progress(k + 1, total)
        return found

    def _features(self, pixels: NDArray[np.uint8], boxes: Boxes) -> NDArray[np.float32]:
        from skimage.transform import pyramid_gaussian

        sides = np.sqrt((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))
        shrunk = np.round(np.log(np.maximum(sides / self.window, 1.0)) / np.log(SHRINK)).astype(np.int64)
        deepest = int(np.log(max(1.0, min(pixels.shape[:2]) / SMALLEST)) / np.log(SHRINK))
        levels = np.minimum(shrunk, deepest)
        n_cells = self.window // self.cell
        found = np.empty((len(boxes), self._n_gradients), dtype=np.float32)
        size = np.array(pixels.shape[1::-1])
        copies = pyramid_gaussian(pixels, max_layer=int(levels.max()), downscale=SHRINK, channel_axis=-1)
        for level, copy in enumerate(copies):
            members = np.flatnonzero(levels == level)
            if len(members):
                scale = np.tile(np.array(copy.shape[1::-1]) / size, 2)
                histograms = cell_histograms(oriented_gradients(copy), boxes[members] * scale, n_cells)
                found[members] = describe_cells(histograms)
        return found

    def state(self) -> dict[str, Any]:
        """Return the settings as plain values, for `from_state`; the cache is not among them."""
        self.check()
        sizes, aspects = ([float(value) for value in np.atleast_1d(v)] for v in (self.sizes, self.aspects))
        kept = _State(
            _STATE_FORMAT,
            _STATE_VERSION,
            int(self.step),
            sizes,
            aspects,
            int(self.limit),
            int(self.window),
            int(self.cell),
            float(self.geometry),
        )
        return msgspec.to_builtins(kept)

    @classmethod
    def from_state(cls, state: Any, cache: str | os.PathLike[str] | None = None) -> Self:
        """Return the features whose settings `state` returned.

        Raises
        ------
        FormatError
            If the state is not of this class.
        """
        try:
            kept = msgspec.convert(state, _State)
        except msgspec.ValidationError as error:
            raise FormatError(f"the state of the box features cannot be read ({error}): train again") from error
        if (kept.format, kept.version) != (_STATE_FORMAT, _STATE_VERSION):
            raise FormatError(
                f"the state of the box features has the format {show(kept.format)} version {kept.version}; expected "
                f"{show(_STATE_FORMAT)} version {_STATE_VERSION}: train again"
            )
        sizes, aspects = tuple(kept.sizes), tuple(kept.aspects)
        found = cls(kept.step, sizes, aspects, kept.limit, kept.window, kept.cell, kept.geometry, cache)
        found.check()
        return found


def _check_image(image: Any, name: str) -> tuple[NDArray[np.uint8], str]:
    shape, kind = getattr(image, "shape", None), getattr(image, "dtype", None)
    if shape is None or len(shape) != 3 or shape[2] != 3 or not min(shape) or kind != np.uint8:
        raise InputError(
            f"{name} has the shape {shape} and the type {kind}; expected (height, width, 3) and uint8: convert it to "
            "red, green and blue from 0 to 255"
        )
    return np.ascontiguousarray(image), name


class _Cache:
    """A folder of features."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_left_over(self.folder)
        except OSError as error:
            raise InputError(
                f"cache is {show(str(folder), 200)}, which cannot be made ({error}); expected a folder: choose "
                "another or None"
            ) from error

    def file(self, version: bytes, settings: tuple[int, ...], pixels: NDArray[np.uint8], boxes: Boxes) -> "_CacheFile":
        """Return the place of the features of boxes in an image."""
        digest = hashlib.sha256(version)
        for values in (np.array(settings, dtype="<i8"), np.array(pixels.shape, dtype="<i8"), pixels):
            digest.update(values.tobytes())
        digest.update(boxes.astype("<f8").tobytes())
        return _CacheFile(self.folder / f"{digest.hexdigest()}.npz")


class _CacheFile:
    """One array of features; the archive's checksums tell whether it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, shape: tuple[int, int]) -> NDArray[np.float32] | None:
        """Return the features, or None if there are none that can be used."""
        try:
            features = load_arrays(self.path, ["features"])["features"]
        except Exception:
            # A damaged archive fails in as many ways as the zip and the array format have parts.
            return None
        fits = features.shape == shape and features.dtype == np.float32 and np.isfinite(features).all()
        return features if fits else None

    def write(self, features: NDArray[np.float32]) -> None:
        """Put the features in place, whole or not at all."""
        buffer = io.BytesIO()
        np.savez(buffer, features=features)
        try:
            replace_files({self.path: [buffer.getbuffer()]})
        except OSError as error:
            raise InputError(
                f"the cache {self.path.parent} cannot be written ({error}): free some room, or choose another folder "
                "or None"
            ) from error
