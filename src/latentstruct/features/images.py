"""Features of the patches of images: texture words and color histograms."""

import base64
import math
import warnings
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import sklearn, sparse
from latentstruct.core.parameters import Parametrized, check_is_fitted
from latentstruct.core.unknown import UNKNOWN
from latentstruct.core.validation import integer, real
from latentstruct.data.images import require_vision
from latentstruct.exceptions import Description, InputError
from latentstruct.persistence.saved_features import SavedFeatures, bad_state
from latentstruct.progress.heartbeat import each

Matrix = NDArray[np.float64]

__all__ = ["PatchFeatures", "PatchGrid", "patch_labels", "patch_shape", "single_patch_weights", "spread_patches"]

CELLS, ORIENTATIONS = 4, 8
N_TEXTURE = CELLS * CELLS * ORIENTATIONS
N_BINS = 16
N_COLORS = 3 * N_BINS
SAMPLES_PER_WORD = 100
"""Patches per word from which the codebook is learned."""
MAX_ITERATIONS = 20
CHUNK = 8192


class PatchGrid(NamedTuple):
    """The patches of an image: `features` (rows · columns, d), row by row, and the `shape` (rows, columns)."""

    features: "sparse.csr_array"
    shape: tuple[int, int]


class _State(msgspec.Struct, forbid_unknown_fields=True, tag_field="format", tag="latentstruct.PatchFeatures 1"):
    """The saved form of a fitted `PatchFeatures`; the codebook as base64 of little-endian float32."""

    patch: int
    step: int
    words: int
    n_words: int
    codebook: str


def patch_shape(size: Sequence[int], patch: int, step: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of complete patches of an image of a size (height, width)."""
    height, width = size
    if min(height, width) < patch:
        expected = f"at least {patch} pixels, the size of a patch, on each side of an image"
        raise InputError("size", Description(f"{width} × {height} pixels"), expected)
    return (height - patch) // step + 1, (width - patch) // step + 1


def _patch_counts(values: Any, n_values: int, patch: int, step: int) -> NDArray[np.int64]:
    """Return the numbers of pixels of each patch with the values 0 to n_values − 1: (rows, columns, n_values)."""
    rows, columns = patch_shape(values.shape, patch, step)
    # Patches are unions of cells of this size, whose pixels are counted first.
    cell = math.gcd(patch, step)
    height, width = (rows - 1) * step + patch, (columns - 1) * step + patch
    down, across = height // cell, width // cell
    cells = (np.arange(height) // cell * across)[:, None] + np.arange(width) // cell
    codes = cells * n_values + values[:height, :width]
    counts = np.bincount(codes.ravel(), minlength=down * across * n_values).reshape(down, across, n_values)
    sums = np.zeros((down + 1, across + 1, n_values), dtype=np.int64)
    sums[1:, 1:] = counts.cumsum(axis=0).cumsum(axis=1)
    top, left = np.arange(rows) * (step // cell), np.arange(columns) * (step // cell)
    bottom, right = top + patch // cell, left + patch // cell
    found: NDArray[np.int64] = sums[np.ix_(top, left)] + sums[np.ix_(bottom, right)]
    return found - sums[np.ix_(bottom, left)] - sums[np.ix_(top, right)]


def patch_labels(labels: Any, n_labels: int, patch: int = 20, step: int = 10) -> NDArray[np.int64]:
    """Return the most frequent label of the pixels of each patch, row by row, (rows · columns,).

    `labels` (height, width) are from 0 to n_labels − 1, or −1 for unknown; `patch` is the side of a patch, `step` the
    distance of neighboring ones. A patch is −1 if more pixels are unknown than have any single label. In a tie the
    lowest label wins, and any label over unknown.
    """
    values = np.asarray(labels)
    if values.size and not UNKNOWN <= values.min() <= values.max() < n_labels:
        got = Description(f"{values.min()} to {values.max()}")
        raise InputError("labels", got, f"labels from −1 to {n_labels - 1}, as `n_labels` is {n_labels}")
    counts = _patch_counts(values + 1, n_labels + 1, patch, step).reshape(-1, n_labels + 1)
    if n_labels == 0:
        return np.full(len(counts), UNKNOWN)
    known = counts[:, 1:].argmax(axis=1)
    return np.where(counts[np.arange(len(counts)), 1 + known] >= counts[:, 0], known, UNKNOWN)


def spread_patches(values: Any, size: Sequence[int], patch: int = 20, step: int = 10) -> Any:
    """Return for each pixel of an image of `size` (height, width) the value of the patch with the nearest center.

    `values` are those of patches, row by row, (rows · columns,) or (rows, columns).
    """
    rows, columns = patch_shape(size, patch, step)
    nearest = [
        ((np.arange(length) - (patch - step) // 2) // step).clip(0, count - 1)
        for length, count in zip(size, (rows, columns), strict=True)
    ]
    return np.asarray(values).reshape(rows, columns)[np.ix_(*nearest)]


def color_histograms(image: Any, patch: int, step: int) -> Matrix:
    """Return the fractions of pixels of each patch in 16 ranges of red, of green and of blue, (rows · columns, 48)."""
    bins = np.asarray(image) // (256 // N_BINS)
    counts = [_patch_counts(bins[..., channel], N_BINS, patch, step) for channel in range(3)]
    shares: Matrix = np.concatenate(counts, axis=2).reshape(-1, N_COLORS) / float(patch * patch)
    return shares


def texture_descriptors(image: Any, patch: int, step: int) -> NDArray[np.float32]:
    """Return a histogram of oriented gradients of each patch: 4 × 4 cells with 8 orientations, (rows · columns, 128).

    They are normalized per patch, clipped at 0.2 and normalized again, as in SIFT.
    """
    require_vision()
    from skimage.feature import hog

    cell = patch // CELLS
    rows, columns = patch_shape(np.asarray(image).shape[:2], patch, step)
    blocks = hog(
        image,
        orientations=ORIENTATIONS,
        pixels_per_cell=(cell, cell),
        cells_per_block=(CELLS, CELLS),
        block_norm="L2-Hys",
        feature_vector=False,
        channel_axis=-1,
    )
    every = step // cell
    found: NDArray[np.float32] = blocks[::every, ::every][:rows, :columns].reshape(-1, N_TEXTURE).astype(np.float32)
    return found


@dataclass(eq=False, repr=False)
class PatchFeatures(SavedFeatures, Parametrized):
    """Features of patches in a grid over an image: texture words and colors.

    The texture of a patch is a 128-dimensional histogram of oriented gradients, replaced by the nearest word of a
    codebook that k-means learns from the patches of the images in `fit`. Features 0 to words − 1 indicate the word, the
    following 48 are the fractions of pixels in 16 ranges of red, of green and of blue.

    Parameters
    ----------
    patch : int, default=20
        Side of a patch in pixels, a multiple of 4.
    step : int, default=10
        Distance of neighboring centers, a multiple of patch / 4.
    words : int, default=500
        Words of the codebook; fewer if the images have fewer distinct patches.
    random_state : int, default=0
        Seed of the codebook.

    Attributes
    ----------
    codebook_ : float32 array of shape (n_words, 128)
        The words.
    n_features_ : int
        n_words + 48.
    """

    state_type = _State
    patch: int = 20
    step: int = 10
    words: int = 500
    random_state: int = 0

    def check(self) -> None:
        """Raise unless the parameters are valid."""
        for name, low in (("patch", 4), ("step", 1), ("words", 1)):
            integer(low).check(getattr(self, name), name)
        if self.patch % CELLS:
            raise InputError("patch", self.patch, f"a multiple of {CELLS}")
        if self.step % (self.patch // CELLS):
            raise InputError("step", self.step, f"a multiple of {self.patch // CELLS}, a quarter of `patch`")

    def fit(self, images: Iterable[Any], y: Any = None) -> Self:
        """Learn the codebook from images (height, width, 3)."""
        self.check()
        self._learn([texture_descriptors(image, self.patch, self.step) for image in _checked(images)])
        return self

    def _learn(self, descriptors: Sequence[NDArray[np.float32]]) -> None:
        if not descriptors:
            raise InputError("images", Description("no images"), "at least one image")
        every = np.concatenate(descriptors)
        rng = np.random.default_rng(self.random_state)
        n_used = min(len(every), SAMPLES_PER_WORD * self.words)
        used = every[np.sort(rng.choice(len(every), n_used, replace=False))]
        # Uniform patches are equal, and words with equal initial values would remain equal.
        different = np.unique(used, axis=0)
        n_words = min(self.words, len(different))
        first = different[rng.choice(len(different), n_words, replace=False)]
        with warnings.catch_warnings():
            # Nearly equal patches can leave a word without any, which is harmless.
            warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
            means = sklearn.cluster.KMeans(n_words, init=first, n_init=1, max_iter=MAX_ITERATIONS).fit(used)
        self.codebook_ = means.cluster_centers_.astype(np.float32)

    @property
    def n_features_(self) -> int:
        """The number of features of a patch."""
        return len(self.codebook_) + N_COLORS

    def transform(self, images: Iterable[Any]) -> list[PatchGrid]:
        """Return the features of the patches of images (height, width, 3): sparse, (rows · columns, n_words + 48)."""
        check_is_fitted(self, "codebook_")
        return [self._grid(*self._describe(image)) for image in _checked(images)]

    def fit_transform(self, images: Iterable[Any], y: Any = None) -> list[PatchGrid]:
        """Learn the codebook and return the features of the same images; each image is processed once."""
        self.check()
        seen = [self._describe(image) for image in _checked(images)]
        self._learn([texture for texture, _, _ in seen])
        return [self._grid(*one) for one in seen]

    def _describe(self, image: Any) -> "tuple[NDArray[np.float32], sparse.csr_array, tuple[int, int]]":
        """Return textures, colors and shape of the patches of an image."""
        colors = sparse.csr_array(color_histograms(image, self.patch, self.step))
        shape = patch_shape(image.shape[:2], self.patch, self.step)
        return texture_descriptors(image, self.patch, self.step), colors, shape

    def _grid(self, texture: NDArray[np.float32], colors: "sparse.csr_array", shape: tuple[int, int]) -> PatchGrid:
        words = self._nearest(texture)
        one_hot = sparse.csr_array(
            (np.ones(len(words)), (np.arange(len(words)), words)), (len(words), len(self.codebook_))
        )
        return PatchGrid(sparse.csr_array(sparse.hstack([one_hot, colors], format="csr")), shape)

    def _nearest(self, texture: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the nearest word of each patch."""
        half = 0.5 * (self.codebook_**2).sum(axis=1)
        parts = [
            (half - texture[start : start + CHUNK] @ self.codebook_.T).argmin(axis=1)
            for start in range(0, len(texture), CHUNK)
        ]
        return np.concatenate(parts)

    def feature_name(self, k: int) -> str:
        """Return the name of a feature."""
        n_words = len(self.codebook_)
        if k < n_words:
            return f"texture word {k}"
        channel, part = divmod(k - n_words, N_BINS)
        wide = 256 // N_BINS
        return f"{('red', 'green', 'blue')[channel]} {part * wide}–{part * wide + wide - 1}"

    def _state(self) -> _State:
        check_is_fitted(self, "codebook_")
        raw = self.codebook_.astype("<f4").tobytes()
        text = base64.b64encode(raw).decode("ascii")
        return _State(self.patch, self.step, self.words, len(self.codebook_), text)

    @classmethod
    def _restored(cls, saved: _State) -> Self:
        try:
            raw = base64.b64decode(saved.codebook, validate=True)
            codebook = np.frombuffer(raw, dtype="<f4").reshape(saved.n_words, N_TEXTURE).astype(np.float32)
        except ValueError as error:
            raise bad_state(_State, str(error)) from error
        if not len(codebook) or not np.isfinite(codebook).all():
            raise bad_state(_State, "NaN or infinity in the codebook" if len(codebook) else "0 words")
        found = cls(saved.patch, saved.step, saved.words)
        found.check()
        found.codebook_ = codebook
        return found


def _checked(images: Iterable[Any]) -> Iterable[Any]:
    """Yield images after checking their type and shape."""
    counted = each(images, len(images), "images described") if isinstance(images, Sized) else images
    for k, image in enumerate(counted):
        shape, kind = getattr(image, "shape", None), getattr(image, "dtype", None)
        if shape is None or len(shape) != 3 or shape[2] != 3 or kind != np.uint8:
            raise InputError(
                f"images[{k}]", Description(f"{kind} of shape {shape}"), "uint8 of shape (height, width, 3)"
            )
        yield image


def single_patch_weights(task: Any, X: Sequence[Any], Y: Sequence[Any], C: float = 1.0) -> Matrix:
    """Return initial weights for training: those of logistic regression on single patches, and 0 for edges.

    Belief propagation on grids is reliable if patches are informative by themselves. Training from other initial
    weights easily reaches weights of edges at which it fails, and an objective that is too low. `task` is a `Graph`,
    which learns from graphs X of patches and their labels Y; a linear combination of the features of X is constant, as
    for `PatchFeatures`. C is the weight of each patch relative to ½‖w‖².
    """
    real(0.0).check(C, "C")
    task.learn(X, Y)
    labels = np.concatenate([np.asarray(y) for y in Y])
    known = labels != UNKNOWN
    model = sklearn.linear_model.LogisticRegression(C=C, fit_intercept=False, max_iter=200)
    with warnings.catch_warnings():
        # Initial weights need not be precise.
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
        features = sparse.vstack([sparse.csr_array(graph.features) for graph in X], format="csr")
        model.fit(features[known], labels[known])
    found = model.coef_ if len(model.classes_) > 2 else np.vstack([-0.5 * model.coef_, 0.5 * model.coef_])
    weights = np.zeros(task.n_features)
    task.node_weights(weights)[:, task.layout_.vocabulary.encode(model.classes_.tolist())] = found.T
    return weights
