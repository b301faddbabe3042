"""Features of boxes in images: gradients, optionally cached on disk, or given features; geometry and saliency."""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.core.parameters import Parametrized
from latentstruct.core.validation import array_of, integer, listed, options, real
from latentstruct.data.boxes import ASPECTS, LIMIT, SIZES, STEP, Boxes, check_boxes, check_grid, grid_boxes
from latentstruct.data.images import require_vision
from latentstruct.exceptions import Description, InputError
from latentstruct.features.geometry import N_GEOMETRY, box_geometry
from latentstruct.features.objectness import object_boxes
from latentstruct.features.regions import segment_boxes
from latentstruct.features.saliency import N_SALIENCY, box_saliency, saliency_map
from latentstruct.io.npz import load_arrays
from latentstruct.persistence.atomic_files import remove_left_over, replace_files
from latentstruct.persistence.saved_features import read_state
from latentstruct.progress.heartbeat import each
from latentstruct.tasks.detection import DetectionInput

__all__ = ["BoxFeatures"]

Values = NDArray[np.float64]
Progress = Callable[[int, int | None], Any]
Candidates = Literal["grid", "segments", "objects"]

ORIENTATIONS = 9
BLOCK = 2
"""Cells per side of the blocks within which strengths are normalized."""
CUT = 0.2
"""Largest entry of a normalized block before it is normalized again."""
SMALL = 1e-5
SHRINK = 2**0.5
SMALLEST = 16
"""Pixels on the shorter side below which an image is not downscaled further."""

_CACHE_VERSION = b"latentstruct boxes 1"
"""Part of every name in the cache: it changes whenever the same settings would yield other features."""


class _State(msgspec.Struct, forbid_unknown_fields=True, tag_field="format", tag="latentstruct.BoxFeatures 1"):
    """The saved form of the settings."""

    step: int
    sizes: list[float]
    aspects: list[float]
    limit: int
    window: int
    cell: int
    geometry: float
    candidates: Candidates = "grid"
    saliency: float = 0.0
    n_given: int = 0


def oriented_gradients(image: Any) -> Values:
    """Return the strength of the gradient of each pixel of an image (height, width, 3) in each of 9 directions.

    As in `skimage.feature.hog`: differences of neighbors, 0 at the border, of the channel where they are strongest, and
    directions from 0 to 180 degrees in equal parts. Each pixel of the result (height, width, 9) has strength in one
    direction only.
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
    """Return the mean strength of each direction in n_cells × n_cells equal parts of boxes, (m, n_cells, n_cells, 9).

    `planes` (height, width, 9) are the strengths. Boxes (m, 4) are inside the image; a pixel contributes in proportion
    to the part of it in the box.
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
    # Rounding may make differences of large sums negative.
    means: Values = np.maximum(inside, 0.0) / areas[:, None, None, None]
    return means


def normalized_blocks(histograms: Values) -> Values:
    """Return the histograms of blocks of 2 × 2 neighboring cells, (m, n − 1, n − 1, 2, 2, 9), given those of cells.

    They are normalized to length 1, clipped at 0.2 and normalized again ("L2-Hys").
    """
    blocks = np.lib.stride_tricks.sliding_window_view(histograms, (BLOCK, BLOCK), axis=(1, 2))
    blocks = blocks.transpose(0, 1, 2, 4, 5, 3)
    for most in (CUT, np.inf):
        lengths = np.sqrt((blocks**2).sum(axis=(3, 4, 5), keepdims=True) + SMALL**2)
        blocks = np.minimum(blocks / lengths, most)
    return blocks


def describe_cells(histograms: Values) -> NDArray[np.float32]:
    """Return a unit vector (9 n²,) per box: its cells, each the mean over the blocks it belongs to.

    They are in the order of the histograms (m, n, n, 9); zeros for a box without gradients.
    """
    blocks, n_cells = normalized_blocks(histograms), histograms.shape[1]
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


def map_features(values: Values, boxes: Boxes, width: float, height: float) -> NDArray[np.float32]:
    """Return the mean of a feature map of an image in each box, as a unit vector.

    Parameters
    ----------
    values : array of shape (h, w, d)
        The map, such as a layer of a network; it covers the whole image.
    boxes : array of shape (m, 4)
        Boxes inside the image; a cell of the map contributes in proportion to the part of it in the box.
    width, height : float
        Size of the image.

    Returns
    -------
    float32 array of shape (m, d)
        Zeros for a box in which the map is zero.
    """
    scale = np.tile([values.shape[1] / width, values.shape[0] / height], 2)
    low = values.min(axis=(0, 1))
    rows = cell_histograms(values - low, boxes * scale, 1).reshape(len(boxes), -1) + low
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    found: NDArray[np.float32] = (rows / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)
    return found


@dataclass(eq=False, repr=False)
class BoxFeatures(Parametrized):
    """Candidate boxes of images with histograms of oriented gradients, or given features, and where they lie.

    A box is described as if it were resized to a square window and divided into cells, on the level of an image pyramid
    where the box is about as large as the window; boxes smaller than the window are not enlarged. Cells include
    fractions of pixels, so that boxes need not be aligned with pixels and each level is processed once.

    Parameters
    ----------
    step, sizes, aspects
        The grid of candidates, as for `grid_boxes`.
    limit : int, default=350
        Maximum number of candidates.
    window : int, default=48
        Side of the window in pixels, a multiple of `cell`, at least twice as large.
    cell : int, default=8
        Side of a cell of the window in pixels.
    geometry : float, default=0.5
        Factor of 14 features of position, size and shape (see `box_geometry`); 0 omits them. Without them a model
        cannot learn that large boxes in the center are more likely, whatever they show. The larger the
        factor, the closer a model remains to the boxes of the initialization: use 0 if objects may be anywhere.
    cache : path, optional
        A folder for features, created if needed. They are looked up by pixels, boxes and settings; damaged files are
        replaced. Nothing is ever deleted.
    candidates : {"grid", "segments", "objects"}, default="grid"
        Boxes in a grid; around segments of similar color and groups of them (see `segment_boxes`); or those of segments
        that most likely enclose an animal or a person, the best first (see `object_boxes`). With a `limit` of 1 no box
        is learned.
    saliency : float, default=0.0
        Factor of 8 features of how well a box encloses what differs from the border of the image (see `box_saliency`);
        0 omits them. With them, begin training at `most_salient`.
    n_given : int, default=0
        Number of features that are given in place of gradients, such as those of a network: rows of features of given
        boxes, or maps of features of whole images. 0 for gradients.

    Notes
    -----
    Nothing is learned. The first (window / cell)² · 9 features, by default 324, are the gradients, a nonnegative unit
    vector, or the `n_given` given ones. Those of geometry and saliency follow. The cache stores only the gradients, so
    that the factors may change.
    """

    step: int = STEP
    sizes: Sequence[float] = SIZES
    aspects: Sequence[float] = ASPECTS
    limit: int = LIMIT
    window: int = 48
    cell: int = 8
    geometry: float = 0.5
    cache: str | os.PathLike[str] | None = None
    candidates: Candidates = "grid"
    saliency: float = 0.0
    n_given: int = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters; nothing is learned, and images and classes are not used."""
        self.check()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def check(self) -> None:
        """Raise unless the parameters are valid."""
        check_grid(1, 1, self.step, self.sizes, self.aspects, self.limit)
        integer(1).check(self.window, "window")
        integer(1).check(self.cell, "cell")
        real(0.0, closed="left").check(self.geometry, "geometry")
        real(0.0, closed="left").check(self.saliency, "saliency")
        integer(0).check(self.n_given, "n_given")
        options(*get_args(Candidates)).check(self.candidates, "candidates")
        if self.window % self.cell or self.window < BLOCK * self.cell:
            expected = f"a multiple of `cell` ({self.cell}), at least {BLOCK} times as large"
            raise InputError("window", self.window, expected)
        if self.cache is not None and (not isinstance(self.cache, str | os.PathLike) or not os.fspath(self.cache)):
            raise InputError("cache", self.cache, "the path of a folder or None")

    @property
    def n_features_(self) -> int:
        """The number of features of a box."""
        placed = (N_GEOMETRY if self.geometry else 0) + (N_SALIENCY if self.saliency else 0)
        return self.n_appearance_ + placed

    @property
    def n_appearance_(self) -> int:
        """The number of features of a box that show what is in it, gradients or given ones: the first ones."""
        return self.n_given or (self.window // self.cell) ** 2 * ORIENTATIONS

    def describe(self, image: Any, boxes: Any = None, key: str | None = None, given: Any = None) -> DetectionInput:
        """Return the candidates of an image and their features.

        Parameters
        ----------
        image : uint8 array of shape (height, width, 3)
            The image.
        boxes : array of shape (m, 4), optional
            Custom candidates inside the image; by default those that `candidates` names.
        key : str, optional
            Name of the image in messages.
        given : array of shape (m, n_given) or (h, w, n_given), optional
            With `n_given`: features of the given boxes, or a map of features that covers the image, of which a box has
            the mean in it, as a unit vector.

        Returns
        -------
        DetectionInput
            Boxes (m, 4) and float32 features (m, n_features_).
        """
        self.check()
        require_vision()
        name = "image" if key is None else key
        pixels = _check_image(image, name)
        height, width = pixels.shape[:2]
        if boxes is None:
            found = self._candidates(pixels)
        else:
            found = check_boxes(boxes, f"boxes of {name}")
            outside = (found[:, :2] < 0).any(axis=1) | (found[:, 2] > width) | (found[:, 3] > height)
            if outside.any():
                k = int(outside.argmax())
                expected = f"boxes within the image, 0, 0, {width}, {height}"
                raise InputError(f"boxes of {name}", found[k].tolist(), expected)
        parts: list[NDArray[Any]] = [self._appearance(pixels, found, given, name)]
        if self.geometry:
            parts.append(self.geometry * box_geometry(found, width, height))
        if self.saliency:
            parts.append(self.saliency * box_saliency(saliency_map(pixels), found, width, height))
        return DetectionInput(found, np.hstack([part.astype(np.float32) for part in parts]))

    def _appearance(self, pixels: NDArray[np.uint8], boxes: Boxes, given: Any, name: str) -> NDArray[np.float32]:
        """Return the gradients of boxes, or what is given in place of them."""
        if not self.n_given:
            if given is not None:
                raise InputError(f"given of {name}", Description("an array"), "None, as `n_given` is 0")
            return self._cached_gradients(pixels, boxes)
        values = array_of(given, f"given of {name}") if given is not None else np.empty(0)
        rows, is_map = (len(boxes), self.n_given), values.ndim == 3 and values.size > 0
        fits = values.shape == rows or (is_map and values.shape[2] == self.n_given)
        if not fits or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
            got = Description("None" if given is None else f"{values.dtype} of shape {values.shape}")
            expected = f"finite numbers of shape {rows}, one row per box, or (h, w, {self.n_given})"
            raise InputError(f"given of {name}", got, expected)
        if is_map:
            return map_features(values.astype(np.float64), boxes, pixels.shape[1], pixels.shape[0])
        found: NDArray[np.float32] = values.astype(np.float32)
        return found

    def most_salient(self, X: Sequence[DetectionInput]) -> list[int]:
        """Return the number of the most salient candidate of each image, where training may begin.

        Parameters
        ----------
        X : sequence of n DetectionInput
            As `transform` returns them, with `saliency` above 0.

        Returns
        -------
        list of int
            To be passed as ``H`` to the fit of an estimator with latent variables.
        """
        if not self.saliency:
            raise InputError("saliency", self.saliency, "a number above 0")
        return [int(x.features[:, -1].argmax()) for x in X]

    def initial_latents(self, X: Sequence[DetectionInput]) -> list[int] | None:
        """Return the candidate of each image where training may begin, None for central ones.

        It is the first one with ``candidates="objects"``, otherwise the most salient one if there is `saliency`.

        Parameters
        ----------
        X : sequence of n DetectionInput
            As `transform` returns them.
        """
        if self.candidates == "objects":
            return [0] * len(X)
        return self.most_salient(X) if self.saliency else None

    def _candidates(self, pixels: NDArray[np.uint8]) -> Boxes:
        if self.candidates == "segments":
            return segment_boxes(pixels, self.limit)
        if self.candidates == "objects":
            return object_boxes(pixels, self.limit)
        return grid_boxes(pixels.shape[1], pixels.shape[0], self.step, self.sizes, self.aspects, self.limit)

    def _cached_gradients(self, pixels: NDArray[np.uint8], boxes: Boxes) -> NDArray[np.float32]:
        """Return the histograms from the cache, or compute them."""
        if self.cache is None:
            return self._features(pixels, boxes)
        file = _Cache(self.cache).file(_CACHE_VERSION, (self.window, self.cell), pixels, boxes)
        features = file.read((len(boxes), self.n_appearance_))
        if features is None:
            features = self._features(pixels, boxes)
            file.write(features)
        return features

    def transform(
        self,
        images: Iterable[Any],
        boxes: Iterable[Any] | None = None,
        progress: Progress | None = None,
        given: Iterable[Any] | None = None,
    ) -> list[DetectionInput]:
        """Return the candidates of images and their features.

        Parameters
        ----------
        images : iterable of uint8 arrays of shape (height, width, 3)
            The images; a sequence may read them on access.
        boxes : iterable of arrays of shape (m, 4), optional
            Custom candidates of each image.
        progress : callable, optional
            Called with the number of processed images and the total, None if unknown.
        given : iterable of arrays, optional
            The given features of each image; see `describe`.

        Returns
        -------
        list of DetectionInput
            One per image.
        """
        if not isinstance(images, Iterable):
            raise InputError("images", images, "a sequence of images")
        total = len(images) if isinstance(images, Sized) else None
        further = {"boxes": boxes, "given": given}
        lists = {name: listed(values, name) for name, values in further.items() if values is not None}
        found = []
        counted = images if total is None else each(images, total, "images described")
        for name, values in lists.items():
            if total is not None and len(values) != total:
                raise InputError(name, Description(f"{name} of {len(values)} images"), f"{name} of {total} images")
        for k, image in enumerate(counted):
            short = next((name for name, values in lists.items() if k >= len(values)), None)
            if short is not None:
                got = Description(f"{short} of {len(lists[short])} images")
                raise InputError(short, got, f"{short} of all images")
            found.append(self.describe(image, key=f"image {k}", **{name: values[k] for name, values in lists.items()}))
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
        found = np.empty((len(boxes), self.n_appearance_), dtype=np.float32)
        size = np.array(pixels.shape[1::-1])
        copies = pyramid_gaussian(pixels, max_layer=int(levels.max()), downscale=SHRINK, channel_axis=-1)
        for level, copy in enumerate(copies):
            members = np.flatnonzero(levels == level)
            if len(members):
                scale = np.tile(np.array(copy.shape[1::-1]) / size, 2)
                histograms = cell_histograms(oriented_gradients(copy), boxes[members] * scale, n_cells)
                found[members] = describe_cells(histograms)
        return found

    def to_state(self) -> dict[str, Any]:
        """Return the settings except the cache as JSON values, for `from_state`."""
        self.check()
        sizes, aspects = ([float(value) for value in np.atleast_1d(v)] for v in (self.sizes, self.aspects))
        numbers = int(self.limit), int(self.window), int(self.cell), float(self.geometry)
        further = self.candidates, float(self.saliency), int(self.n_given)
        return msgspec.to_builtins(_State(int(self.step), sizes, aspects, *numbers, *further))

    @classmethod
    def from_state(cls, state: Any, cache: str | os.PathLike[str] | None = None) -> Self:
        """Return features with the settings returned by `to_state`; raise an InputError if it is that of others."""
        kept = read_state(_State, state)
        sizes, aspects = tuple(kept.sizes), tuple(kept.aspects)
        numbers = kept.limit, kept.window, kept.cell, kept.geometry
        further = kept.candidates, kept.saliency, kept.n_given
        found = cls(kept.step, sizes, aspects, *numbers, cache, *further)
        found.check()
        return found


def _check_image(image: Any, name: str) -> NDArray[np.uint8]:
    shape, kind = getattr(image, "shape", None), getattr(image, "dtype", None)
    if shape is None or len(shape) != 3 or shape[2] != 3 or not min(shape) or kind != np.uint8:
        raise InputError(name, Description(f"{kind} of shape {shape}"), "uint8 of shape (height, width, 3)")
    return np.ascontiguousarray(image)


class _Cache:
    """A folder of features."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_left_over(self.folder)
        except OSError as error:
            raise InputError("cache", Description(str(error)), "a folder that can be created, or None") from error

    def file(self, version: bytes, settings: tuple[int, ...], pixels: NDArray[np.uint8], boxes: Boxes) -> "_CacheFile":
        """Return the file of the features of boxes in an image."""
        digest = hashlib.sha256(version)
        for values in (np.array(settings, dtype="<i8"), np.array(pixels.shape, dtype="<i8"), pixels):
            digest.update(values.tobytes())
        digest.update(boxes.astype("<f8").tobytes())
        return _CacheFile(self.folder / f"{digest.hexdigest()}.npz")


class _CacheFile:
    """An array of features; the checksums of the archive show whether it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, shape: tuple[int, int]) -> NDArray[np.float32] | None:
        """Return the features, or None if there are no valid ones."""
        try:
            features = load_arrays(self.path, ["features"])["features"]
        except Exception:
            # A damaged archive raises exceptions of many types.
            return None
        fits = features.shape == shape and features.dtype == np.float32 and np.isfinite(features).all()
        return features if fits else None

    def write(self, features: NDArray[np.float32]) -> None:
        """Write the features atomically."""
        buffer = io.BytesIO()
        np.savez(buffer, features=features)
        try:
            replace_files({self.path: [buffer.getbuffer()]})
        except OSError as error:
            expected = "a writable folder on a disk with free space, or None"
            raise InputError("cache", Description(str(error)), expected) from error
