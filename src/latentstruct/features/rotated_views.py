"""Views of images under rotations, projected to a few dimensions: the latent states of digits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import linalg, sparse
from latentstruct.core.parameters import Transformer, check_is_fitted
from latentstruct.core.validation import array_of, integer, numbers_of, real
from latentstruct.exceptions import Description, InputError

Matrix = NDArray[np.float64]

__all__ = ["ANGLES", "RotatedViews", "rotation_matrix"]

ANGLES = tuple(float(angle) for angle in np.linspace(-60.0, 60.0, 11))
"""Eleven angles from −60° to 60°, 12° apart."""
CHUNK = 4096
"""Images that are converted to floating point at a time."""


def rotation_matrix(height: int, width: int, angle: float) -> "sparse.csr_array":
    """Return the matrix that rotates an image about its center, as a linear map of its pixels.

    The angle is in degrees, counterclockwise in the displayed image (rows run down). A pixel of the rotated image is
    interpolated between the four pixels around its origin; values outside the image are 0. R @ image.ravel() is the
    rotated image.
    """
    turn = np.deg2rad(angle)
    rows, columns = (axis.ravel() for axis in np.indices((height, width)))
    down, right = rows - (height - 1) / 2, columns - (width - 1) / 2
    # Rounding keeps integer positions exact, such as all positions at 0° and 90°.
    from_row = np.round(np.cos(turn) * down + np.sin(turn) * right + (height - 1) / 2, 9)
    from_column = np.round(-np.sin(turn) * down + np.cos(turn) * right + (width - 1) / 2, 9)
    top, left = np.floor(from_row).astype(np.int64), np.floor(from_column).astype(np.int64)
    below, beside = from_row - top, from_column - left
    rotated = sparse.csr_array((height * width, height * width))
    for step_down, row_share in ((0, 1 - below), (1, below)):
        for step_right, column_share in ((0, 1 - beside), (1, beside)):
            row, column, share = top + step_down, left + step_right, row_share * column_share
            kept = (row >= 0) & (row < height) & (column >= 0) & (column < width) & (share > 0)
            places = np.flatnonzero(kept), (row * width + column)[kept]
            rotated = rotated + sparse.csr_array((share[kept], places), shape=rotated.shape)
    return rotated


@dataclass(eq=False, repr=False)
class RotatedViews(Transformer):
    """Rotate images by several angles and project them on principal components: z(h) = s·(Vᵀ(R_h x − μ), b).

    μ and V, the mean and the first principal components, are those of all rotated copies of the training images. With
    S = Σ_i x_i x_iᵀ the second moments of all copies are Σ_h R_h S R_hᵀ, so that fitting rotates no image; and Vᵀ R_h
    is one matrix per angle, so that `transform` rotates none either. `rotate` and `project` are the two steps
    separately, for inspection and timing.

    Parameters
    ----------
    angles : sequence of float, default=`ANGLES`
        The angles in degrees, one per latent state h.
    n_components : int, default=10
        k, the number of principal components.
    scale : float, default=1.0
        s, a factor of all features. Under a norm of the weights it is equivalent to a factor of C, under ½‖w‖² its
        square is.
    constant : float, default=1.0
        b, the constant feature before scaling; 0 for none. It is scaled with the others so that the scale remains
        exchangeable with C.

    Attributes
    ----------
    components_ : ndarray of shape (k, height · width)
        Vᵀ, each row with its largest entry above 0.
    explained_variance_ratio_ : ndarray of shape (k,)
        Fraction of the variance of all copies along each component.
    mean_ : ndarray of shape (height · width,)
        μ.
    shape_ : (int, int)
        Height and width of the images.
    n_features_out_ : int
        k, plus 1 for the constant.

    Notes
    -----
    Images are arrays (n, height, width): uint8 from 0 to 255, which is scaled to [0, 1], or floating-point numbers,
    which are used unchanged. Nothing is random.
    """

    angles: Sequence[float] = ANGLES
    n_components: int = 10
    scale: float = 1.0
    constant: float = 1.0

    def fit(self, images: Any, y: Any = None) -> Self:
        """Find the principal components of all rotated copies of the images."""
        images = _check_images(images)
        shape = (images.shape[1], images.shape[2])
        angles = self._check_parameters(shape)
        total, second = _moments(images)
        rotations = [rotation_matrix(*shape, angle) for angle in angles]
        n_copies = len(images) * len(rotations)
        mean = sum(rotation @ total for rotation in rotations) / n_copies
        # R S Rᵀ = R (R S)ᵀ as S is symmetric.
        moments = sum(rotation @ (rotation @ second).T for rotation in rotations) / n_copies
        covariance = moments - np.outer(mean, mean)
        last = len(covariance) - 1
        variances, vectors = linalg.eigh(covariance, subset_by_index=(last + 1 - self.n_components, last))
        components = vectors.T[::-1]
        largest = np.abs(components).argmax(axis=1)
        components *= np.sign(components[np.arange(len(components)), largest])[:, None]
        variance = float(np.trace(covariance))
        self.shape_ = shape
        self.rotations_ = rotations
        self.mean_, self.components_ = mean, components
        self.explained_variance_ratio_ = np.maximum(variances[::-1], 0.0) / variance if variance > 0 else variances * 0
        self.n_features_out_ = self.n_components + bool(self.constant)
        self._folded = np.stack([rotation.T @ components.T for rotation in rotations])
        return self

    def _check_parameters(self, shape: tuple[int, int]) -> Matrix:
        """Return the angles."""
        angles = numbers_of(self.angles, "angles")
        if angles.ndim != 1 or len(angles) == 0 or not np.isfinite(angles).all():
            raise InputError("angles", self.angles, "at least one finite number, in degrees")
        integer(1, shape[0] * shape[1]).check(self.n_components, "n_components")
        real(0.0).check(self.scale, "scale")
        real().check(self.constant, "constant")
        return angles

    def transform(self, images: Any, states: Any = None) -> Matrix:
        """Return the features of the rotated images.

        Parameters
        ----------
        images : array of shape (n, height, width)
            The images.
        states : sequence of int, optional
            The states h to compute, in this order; all by default.

        Returns
        -------
        ndarray of shape (n, number of states, k + 1)
            z_i(h).
        """
        images, chosen = self._check_call(images, states)
        found = np.empty((len(images), len(chosen), self.n_features_out_))
        found[:, :, self.n_components :] = self.scale * self.constant
        matrix = np.concatenate(self._folded[chosen], axis=1) if len(chosen) else np.empty((self.mean_.size, 0))
        # Scaling the matrix instead of all pixels: reading these takes most of the time.
        matrix = matrix * (self.scale * _unit(images))
        offset = self.scale * (self.components_ @ self.mean_)
        for start in range(0, len(images), CHUNK):
            block = images[start : start + CHUNK].reshape(-1, self.mean_.size).astype(np.float64)
            projected = (block @ matrix).reshape(len(block), len(chosen), self.n_components)
            np.subtract(projected, offset, out=found[start : start + CHUNK, :, : self.n_components])
        return found

    def rotate(self, images: Any, state: int) -> Matrix:
        """Return the images rotated by the angle of one state: (n, height, width)."""
        images, (state,) = self._check_call(images, [state])
        return (self.rotations_[state] @ _to_rows(images).T).T.reshape(images.shape)

    def project(self, rotated: Any) -> Matrix:
        """Return the features of images that have been rotated: (n, k + 1)."""
        rotated, _ = self._check_call(rotated, None)
        projected = (_to_rows(rotated) - self.mean_) @ self.components_.T
        constants = np.full((len(rotated), self.n_features_out_ - self.n_components), self.constant)
        return self.scale * np.hstack([projected, constants])

    def _check_call(self, images: Any, states: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return checked images and state numbers."""
        check_is_fitted(self, "components_")
        images = _check_images(images)
        if images.shape[1:] != self.shape_:
            expected = f"images of shape {self.shape_} as in training"
            raise InputError("images", Description(f"shape {images.shape[1:]}"), expected)
        n_states = len(self.rotations_)
        chosen = np.arange(n_states) if states is None else np.asarray(states)
        if chosen.size == 0:
            return images, np.empty(0, dtype=np.int64)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or chosen.min() < 0 or chosen.max() >= n_states:
            raise InputError("states", states, f"integers from 0 to {n_states - 1}")
        return images, chosen.astype(np.int64)


def _check_images(images: Any) -> NDArray[Any]:
    """Return the images as an array (n, height, width) of uint8 or floating-point numbers."""
    found = array_of(images, "images")
    if found.ndim != 3 or 0 in found.shape:
        expected = "images of shape (n, height, width), none of them 0"
        raise InputError("images", Description(f"shape {found.shape}"), expected)
    if found.dtype == np.uint8:
        return found
    if found.dtype.kind != "f":
        expected = "uint8 from 0 to 255 or floating-point numbers from 0 to 1"
        raise InputError("images", Description(f"{found.dtype} values"), expected)
    if not np.isfinite(found).all():
        raise InputError("images", Description("NaN or infinity"), "finite")
    return found


def _to_rows(images: NDArray[Any]) -> Matrix:
    """Return images as rows of floating-point numbers, uint8 scaled to [0, 1]."""
    rows = images.reshape(len(images), -1).astype(np.float64)
    return rows * _unit(images) if images.dtype == np.uint8 else rows


def _unit(images: NDArray[Any]) -> float:
    """Return the factor of pixel values."""
    return 1.0 / 255.0 if images.dtype == np.uint8 else 1.0


def _moments(images: NDArray[Any]) -> tuple[Matrix, Matrix]:
    """Return Σ_i x_i and Σ_i x_i x_iᵀ."""
    size = images.shape[1] * images.shape[2]
    total, second = np.zeros(size), np.zeros((size, size))
    for start in range(0, len(images), CHUNK):
        rows = _to_rows(images[start : start + CHUNK])
        total += rows.sum(axis=0)
        second += rows.T @ rows
    return total, second
