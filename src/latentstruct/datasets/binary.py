"""Samples with a class each that are used to compare classifiers: handwritten digits and incomes of adults."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from latentstruct.datasets.home import dataset_file
from latentstruct.exceptions import FormatError
from latentstruct.formats.svmlight import read_svmlight
from latentstruct.formats.tables import read_csv
from latentstruct.short_repr import short_repr

__all__ = ["SplitSamples", "load_adult", "load_optdigits"]

DIGIT_FEATURES = 64
HIGHEST_COUNT = 16
ADULT_FEATURES = 122

_CURE = "fetch the file again"


@dataclass(frozen=True, eq=False)
class SplitSamples:
    """Samples to train on and samples to test with, in the order of the files.

    Parameters
    ----------
    train_X, test_X : float arrays or csr_arrays of shape (n, d)
        The features.
    train_y, test_y : int64 arrays of shape (n,)
        The classes.
    """

    train_X: NDArray[np.float64] | csr_array
    train_y: NDArray[np.int64]
    test_X: NDArray[np.float64] | csr_array
    test_y: NDArray[np.int64]

    __repr__ = short_repr


def load_optdigits(data_home: str | os.PathLike[str] | None = None) -> SplitSamples:
    """Load the handwritten digits from ``optdigits/optdigits.tra`` and ``optdigits/optdigits.tes`` in the data home.

    Both have a header line, then 64 counts of ink from 0 to 16 and the digit, separated by commas.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    SplitSamples
        3823 digits to train on and 1797 to test with, dense, with the classes 0 to 9.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If a file is damaged or not of this format.
    """
    return SplitSamples(*_read_digits(data_home, "tra"), *_read_digits(data_home, "tes"))


def _read_digits(home: str | os.PathLike[str] | None, part: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return counts and digits of one part."""
    path = dataset_file(home, f"optdigits/optdigits.{part}")
    X, y, _ = read_csv(path)
    if X.shape[1] != DIGIT_FEATURES:
        raise FormatError(f"{path}:1: found {X.shape[1]} features; expected {DIGIT_FEATURES}: {_CURE}")
    if X.min() < 0 or X.max() > HIGHEST_COUNT:
        raise FormatError(
            f"{path} holds counts from {X.min():g} to {X.max():g}; expected 0 to {HIGHEST_COUNT}: {_CURE}"
        )
    return X, _checked_classes(path, y, 9)


def load_adult(data_home: str | os.PathLike[str] | None = None) -> SplitSamples:
    """Load the incomes of adults from ``adult_a9a/a9a.gz`` and ``adult_a9a/a9a.t.gz`` in the data home.

    Both are svmlight files with 122 features that are 0 or 1 and the class 1 for an income above 50 000 dollars.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    SplitSamples
        32 560 people to train on and 16 281 to test with, sparse, with the classes 0 and 1.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If a file is damaged or not of this format.
    """
    return SplitSamples(*_read_adults(data_home, "a9a.gz"), *_read_adults(data_home, "a9a.t.gz"))


def _read_adults(home: str | os.PathLike[str] | None, name: str) -> tuple[csr_array, NDArray[np.int64]]:
    """Return features and classes of one part."""
    path = dataset_file(home, f"adult_a9a/{name}")
    X, y = read_svmlight(path, ADULT_FEATURES)
    return X, _checked_classes(path, y, 1)


def _checked_classes(path: Path, y: NDArray[Any], highest: int) -> NDArray[np.int64]:
    """Return classes that are whole numbers from 0 to the highest."""
    wrong = y[~np.isin(y, np.arange(highest + 1))] if y.dtype.kind == "i" else y
    if len(wrong):
        raise FormatError(f"{path} has the class {wrong[0]}; expected whole numbers from 0 to {highest}: {_CURE}")
    return y
