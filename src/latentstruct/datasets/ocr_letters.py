"""Handwritten words as sequences of letter images."""

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentstruct.datasets.home import dataset_file, read_whole_numbers
from latentstruct.exceptions import FormatError
from latentstruct.short_repr import short_repr

__all__ = ["OcrLetters", "load_ocr_letters"]

N_PIXELS = 128
N_LETTERS = 26

_FILE = "ocr_letters/letters.npz"
_DIMENSIONS = {"pixels": 2, "labels": 1, "lengths": 1, "folds": 1}


@dataclass(frozen=True, eq=False)
class OcrLetters:
    """Handwritten words, each a sequence of binary images of its letters.

    Parameters
    ----------
    X : list of arrays of shape (n_letters, 128)
        The 16 x 8 pixels of the letters of each word, views of one array.
    Y : list of arrays of shape (n_letters,)
        The letters of each word, 0 for a to 25 for z, views of one array.
    folds : array of shape (n_words,)
        The fold of each word.
    """

    X: list[NDArray[np.float64]]
    Y: list[NDArray[np.int64]]
    folds: NDArray[np.int64]

    __repr__ = short_repr


def load_ocr_letters(data_home: str | os.PathLike[str] | None = None) -> OcrLetters:
    """Load the handwritten words from ``ocr_letters/letters.npz`` in the data home.

    The file holds the arrays ``pixels`` (n, 128), ``labels`` (n,), ``lengths`` (n_words,) and ``folds``
    (n_words,) of whole numbers; the letters of a word are consecutive rows.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    OcrLetters
        The words.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If the file is damaged or its arrays do not fit together.
    """
    path = dataset_file(data_home, _FILE)
    cure = "fetch the file again"
    arrays = read_whole_numbers(path, _DIMENSIONS, ", ".join(_DIMENSIONS), cure)
    for name, dimensions in _DIMENSIONS.items():
        if arrays[name].ndim != dimensions:
            raise FormatError(f"{path}: {name} has {arrays[name].ndim} dimensions; expected {dimensions}: {cure}")
    pixels, labels, lengths, folds = arrays.values()
    if pixels.shape != (len(labels), N_PIXELS):
        raise FormatError(
            f"{path}: pixels has the shape {pixels.shape}; expected {(len(labels), N_PIXELS)} for the "
            f"{len(labels)} labels: {cure}"
        )
    if len(lengths) == 0 or lengths.min() < 1 or lengths.max() > len(labels) or lengths.sum() != len(labels):
        raise FormatError(
            f"{path}: lengths does not divide the letters into words; expected {len(lengths)} positive "
            f"lengths with the sum {len(labels)}: {cure}"
        )
    if len(folds) != len(lengths):
        raise FormatError(f"{path}: folds has {len(folds)} entries; expected {len(lengths)}, one a word: {cure}")
    for name, values, top in (
        ("pixels", pixels, 1),
        ("labels", labels, N_LETTERS - 1),
        ("folds", folds, 127),
    ):
        if values.min() < 0 or values.max() > top:
            raise FormatError(
                f"{path}: {name} has values from {values.min()} to {values.max()}; expected 0 to {top}: {cure}"
            )
    ends = np.cumsum(lengths)[:-1]
    return OcrLetters(np.split(pixels.astype(np.float64), ends), np.split(labels, ends), folds)
