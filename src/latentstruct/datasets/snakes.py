"""Snakes: small grids of coloured cells whose labels depend on a long way through the grid."""

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentstruct.datasets.home import dataset_file, read_whole_numbers
from latentstruct.exceptions import FormatError
from latentstruct.short_repr import short_repr

__all__ = ["Snakes", "load_snakes"]

N_LABELS = 11

_FILE = "snakes/snakes.npz"
_DIMENSIONS = {"shapes": 2, "pixels": 2, "label_shapes": 2, "labels": 1}
_CURE = "fetch the file again"


@dataclass(frozen=True, eq=False)
class Snakes:
    """Grids with a snake of ten cells each, whose colours tell the way to the next cell.

    Parameters
    ----------
    X_train, X_test : list of uint8 arrays of shape (height, width, 3)
        The colours of the cells; blue is the background.
    Y_train, Y_test : list of int64 arrays of shape (height, width)
        The labels: 0 for the background, 1 to 10 from one end of the snake to the other.
    """

    X_train: list[NDArray[np.uint8]]
    Y_train: list[NDArray[np.int64]]
    X_test: list[NDArray[np.uint8]]
    Y_test: list[NDArray[np.int64]]

    __repr__ = short_repr


def load_snakes(data_home: str | os.PathLike[str] | None = None) -> Snakes:
    """Load the snakes from ``snakes/snakes.npz`` in the data home.

    The file holds for train and test the arrays ``_shapes`` (n, 2) of the grids, ``_pixels`` (cells of all grids, 3),
    ``_label_shapes`` (n, 2) and ``_labels`` (all labels). Grids may be larger than their labels by the same number of
    cells on all sides; this border is dropped.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    Snakes
        200 grids to train on and 100 to test with.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If the file is damaged or its arrays do not fit together.
    """
    path = str(dataset_file(data_home, _FILE))
    names = [f"{part}_{name}" for part in ("train", "test") for name in _DIMENSIONS]
    arrays = read_whole_numbers(path, names, f"{', '.join(_DIMENSIONS)} of train and test", _CURE)
    return Snakes(*_cut(path, arrays, "train"), *_cut(path, arrays, "test"))


def _cut(
    path: str, arrays: dict[str, NDArray[np.int64]], part: str
) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.int64]]]:
    """Return the grids and labels of one part."""
    for name, dimensions in _DIMENSIONS.items():
        if arrays[f"{part}_{name}"].ndim != dimensions:
            found = arrays[f"{part}_{name}"].ndim
            raise FormatError(f"{path}: {part}_{name} has {found} dimensions; expected {dimensions}: {_CURE}")
    shapes, pixels, label_shapes, labels = (arrays[f"{part}_{name}"] for name in _DIMENSIONS)
    for name, sizes, cells in (("shapes", shapes, pixels), ("label_shapes", label_shapes, labels)):
        if sizes.shape[1] != 2 or len(sizes) == 0 or sizes.min() < 1 or sizes.max() > len(cells):
            raise FormatError(f"{path}: {part}_{name} is not a list of heights and widths: {_CURE}")
        if sizes.prod(axis=1).sum() != len(cells):
            raise FormatError(
                f"{path}: {part}_{name} has {sizes.prod(axis=1).sum()} cells in all; expected {len(cells)}: {_CURE}"
            )
    border = shapes - label_shapes if shapes.shape == label_shapes.shape else np.array([[-1, 0]])
    if (border < 0).any() or (border % 2).any():
        raise FormatError(
            f"{path}: {part}_label_shapes do not fit {part}_shapes; expected the same number of grids, larger by the "
            f"same border on all sides if at all: {_CURE}"
        )
    for name, values, top in (("pixels", pixels, 255), ("labels", labels, N_LABELS - 1)):
        if values.min() < 0 or values.max() > top:
            raise FormatError(
                f"{path}: {part}_{name} has values from {values.min()} to {values.max()}; expected 0 to {top}: {_CURE}"
            )
    if pixels.shape[1] != 3:
        raise FormatError(f"{path}: {part}_pixels has {pixels.shape[1]} channels; expected 3: {_CURE}")
    grids = np.split(pixels.astype(np.uint8), np.cumsum(shapes.prod(axis=1))[:-1])
    truths = np.split(labels, np.cumsum(label_shapes.prod(axis=1))[:-1])
    X = [
        grid.reshape(height, width, 3)[top // 2 : height - top // 2, left // 2 : width - left // 2]
        for grid, (height, width), (top, left) in zip(grids, shapes.tolist(), border.tolist(), strict=True)
    ]
    return X, [truth.reshape(shape) for truth, shape in zip(truths, label_shapes.tolist(), strict=True)]
