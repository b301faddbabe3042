"""Handwritten digits: MNIST."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latentstruct.datasets.home import data_home as find_home
from latentstruct.datasets.home import dataset_file
from latentstruct.exceptions import FormatError
from latentstruct.formats.idx import read_idx
from latentstruct.short_repr import short_repr

__all__ = ["Mnist", "load_mnist"]

SIDE = 28

_FOLDER = "mnist"
_CURE = "fetch the file again"


@dataclass(frozen=True, eq=False)
class Mnist:
    """Images of handwritten digits, in the order of the files.

    Parameters
    ----------
    train_images, test_images : uint8 arrays of shape (n, 28, 28)
        Grey values, 0 for the ground and 255 for full ink.
    train_labels, test_labels : int64 arrays of shape (n,)
        The digits, 0 to 9.
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]

    __repr__ = short_repr


def load_mnist(data_home: str | os.PathLike[str] | None = None) -> Mnist:
    """Load MNIST from the four idx files in ``mnist`` in the data home.

    They are ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte`` and
    ``t10k-labels-idx1-ubyte``, each with ``.gz`` at the end or not.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    Mnist
        60 000 images to train on and 10 000 to test with.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If a file is damaged or images and labels do not fit together.
    """
    return Mnist(*_read_part(data_home, "train"), *_read_part(data_home, "t10k"))


def _read_part(home: str | os.PathLike[str] | None, part: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images and labels of one part."""
    image_file, label_file = _find(home, f"{part}-images-idx3-ubyte"), _find(home, f"{part}-labels-idx1-ubyte")
    images, labels = read_idx(image_file), read_idx(label_file)
    if images.dtype != np.uint8 or images.shape[1:] != (SIDE, SIDE) or len(images) == 0:
        raise FormatError(
            f"{image_file} holds {images.dtype} values of shape {images.shape}; expected uint8 of shape "
            f"(n, {SIDE}, {SIDE}): {_CURE}"
        )
    if labels.dtype != np.uint8 or labels.shape != (len(images),):
        raise FormatError(
            f"{label_file} holds {labels.dtype} values of shape {labels.shape}; expected uint8 of shape "
            f"({len(images)},) for the images: {_CURE}"
        )
    if labels.max() > 9:
        raise FormatError(f"{label_file} has the label {labels.max()}; expected 0 to 9: {_CURE}")
    return images, labels.astype(np.int64)


def _find(home: str | os.PathLike[str] | None, name: str) -> Path:
    """Return the path of a file that may be compressed."""
    plain = find_home(home) / _FOLDER / name
    return plain if plain.is_file() else dataset_file(home, f"{_FOLDER}/{name}.gz")
