"""Views of images under rotations, projected to few dimensions: the latent states of digits."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import show
from latentstruct.core.lazy import linalg, sparse
from latentstruct.core.parameters import Transformer, check_is_fitted
from latentstruct.core.validation import as_reals, check_unmasked
from latentstruct.exceptions import InputError

Matrix = NDArray[np.float64]

__all__ = ["ANGLES", "RotatedViews", "rotation_matrix"]

ANGLES = tuple(float(angle) for angle in np.linspace(-60.0, 60.0, 11))
"""Eleven angles from −60° to 60°, 12° apart."""
CHUNK = 4096
"""Images that are turned to floating-point numbers at a time."""


def rotation_matrix(height: int, width: int, angle: float) -> "sparse.csr_array":
    """Return the matrix that rotates an image about its centre, as a linear map of its pixels.

    The value of a pixel of the rotated image is interpolated between the four pixels around the place it comes from;
    outside the image all is 0.

    Parameters
    ----------
    height, width : int
        Size of the image; the rotated one has the same.
    angle : float
        In degrees, counterclockwise as the image is looked at (rows run down).

    Returns
    -------
    csr_array of shape (height · width, height · width)
        R with at most four entries a row: R @ image.ravel() is the rotated image.
    """
    turn = np.deg2rad(angle)
    rows, columns = (axis.ravel() for axis in np.indices((height, width)))
    down, right = rows - (height - 1) / 2, columns - (width - 1) / 2
    # Rounding keeps places that are whole numbers whole, such as all at 0° and 90°.
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


class RotatedViews(Transformer):
    """Rotate images by each of some angles and project them on principal components: z(h) = s·(Vᵀ(R_h x − μ), b).

    μ and V, the mean and the first principal components, are those of all rotated copies of the training images. With
    S = Σ_i x_i x_iᵀ the second moments of all copies are Σ_h R_h S R_hᵀ, so that fitting rotates no image; and Vᵀ R_h
    is one matrix for each angle, so that `transform` rotates none either. `rotate` and `project` are the two steps one
    by one, for those who want to look at them or time them.

    Parameters
    ----------
    angles : sequence of float, default=`ANGLES`
        The angles in degrees, one for each latent state h.
    n_components : int, default=10
        k, the number of principal components.
    scale : float, default=1.0
        s, a factor of all features. Under a norm of the weights a factor of C does the same, under ½‖w‖² its square.
    constant : float, default=1.0
        b, the constant feature before scaling; 0 for none. It is scaled with the others so that the scale stays
        exchangeable for C.

    Attributes
    ----------
    components_ : ndarray of shape (k, height · width)
        Vᵀ, each row with its largest entry above 0.
    explained_variance_ratio_ : ndarray of shape (k,)
        Share of the variance of all copies along each component.
    mean_ : ndarray of shape (height · width,)
        μ.
    shape_ : (int, int)
        Height and width of the images.
    n_features_out_ : int
        k, and 1 for the constant.

    Notes
    -----
    Images are arrays (n, height, width): uint8 with 0 to 255, taken as 0 to 1, or floating-point numbers taken as they
    are. Nothing is random.
    """

    def __init__(
        self,
        angles: Sequence[float] = ANGLES,
        n_components: int = 10,
        scale: float = 1.0,
        constant: float = 1.0,
    ) -> None:
        self.angles = angles
        self.n_components = n_components
        self.scale = scale
        self.constant = constant

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
        try:
            angles = as_reals(self.angles)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"angles must be at least one finite number, found {show(self.angles)}: give a list of degrees"
            ) from error
        if angles.ndim != 1 or len(angles) == 0 or not np.isfinite(angles).all():
            raise InputError(
                f"angles must be at least one finite number, found {show(self.angles)}: give a list of degrees"
            )
        whole = isinstance(self.n_components, int | np.integer) and not isinstance(self.n_components, bool)
        if not (whole and 1 <= self.n_components <= shape[0] * shape[1]):
            raise InputError(
                f"n_components must be a whole number from 1 to {shape[0] * shape[1]}, the number of pixels, found "
                f"{show(self.n_components)}: choose one of these"
            )
        if not (_is_finite_number(self.scale) and self.scale > 0):
            raise InputError(f"scale must be a finite number above 0, found {show(self.scale)}: choose one such as 1.0")
        if not _is_finite_number(self.constant):
            raise InputError(
                f"constant must be a finite number, 0 for none, found {show(self.constant)}: choose one such as 1.0"
            )
        return angles

    def transform(self, images: Any, states: Any = None) -> Matrix:
        """Return the features of the rotated images.

        Parameters
        ----------
        images : array of shape (n, height, width)
            The images.
        states : sequence of int, optional
            The states h to compute, in this order; by default all. A model with few states needs no others.

        Returns
        -------
        ndarray of shape (n, number of states, k + 1)
            z_i(h).
        """
        images, chosen = self._check_call(images, states)
        found = np.empty((len(images), len(chosen), self.n_features_out_))
        found[:, :, self.n_components :] = self.scale * self.constant
        matrix = np.concatenate(self._folded[chosen], axis=1) if len(chosen) else np.empty((self.mean_.size, 0))
        # Scaled here, all pixels need no scaling: reading them is what the time does not fall below.
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
        """Return the features of images that are rotated already: (n, k + 1)."""
        rotated, _ = self._check_call(rotated, None)
        projected = (_to_rows(rotated) - self.mean_) @ self.components_.T
        constants = np.full((len(rotated), self.n_features_out_ - self.n_components), self.constant)
        return self.scale * np.hstack([projected, constants])

    def _check_call(self, images: Any, states: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return checked images and state numbers."""
        check_is_fitted(self, "components_")
        images = _check_images(images)
        if images.shape[1:] != self.shape_:
            raise InputError(
                f"the images have the shape {images.shape[1:]}; expected {self.shape_} as in training: resize them"
            )
        n_states = len(self.rotations_)
        chosen = np.arange(n_states) if states is None else np.asarray(states)
        if chosen.size == 0:
            return images, np.empty(0, dtype=np.int64)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or chosen.min() < 0 or chosen.max() >= n_states:
            raise InputError(
                f"states must be numbers from 0 to {n_states - 1}, found {show(states)}: count the angles from 0"
            )
        return images, chosen.astype(np.int64)


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value))


def _check_images(images: Any) -> NDArray[Any]:
    """Return the images as an array (n, height, width) of uint8 or floating-point numbers."""
    check_unmasked(images, "images")
    try:
        found = np.asarray(images)
    except ValueError as error:
        raise InputError(f"images must all have the same height and width: resize them ({error})") from error
    if found.ndim != 3 or 0 in found.shape[1:] or len(found) == 0:
        raise InputError(
            f"images have the shape {found.shape}; expected (n, height, width), none of them 0: give a stack of images"
        )
    if found.dtype == np.uint8:
        return found
    if found.dtype.kind != "f":
        raise InputError(
            f"images hold {found.dtype} values; expected uint8 from 0 to 255 or floating-point numbers from 0 to "
            "1: convert grey values up to 255 by images.astype('uint8'), others by images / images.max()"
        )
    if not np.isfinite(found).all():
        raise InputError("images hold values that are not finite; expected finite ones: leave these images out")
    return found


def _to_rows(images: NDArray[Any]) -> Matrix:
    """Return images as rows of floating-point numbers, those of bytes from 0 to 1."""
    rows = images.reshape(len(images), -1).astype(np.float64)
    return rows * _unit(images) if images.dtype == np.uint8 else rows


def _unit(images: NDArray[Any]) -> float:
    """Return what a pixel value is to be multiplied by."""
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
