"""The folder that holds the data sets."""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import FormatError, InputError
from latentstruct.formats.npz import load_arrays
from latentstruct.short_repr import show

__all__ = ["ENVIRONMENT_VARIABLE", "data_home", "dataset_file", "read_whole_numbers"]

ENVIRONMENT_VARIABLE = "LATENTSTRUCT_DATA"


def data_home(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that holds the data sets.

    Parameters
    ----------
    path : str or path, optional
        The folder; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    Path
        The existing folder.

    Raises
    ------
    InputError
        If no folder is given or it does not exist.
    """
    if path is not None and not isinstance(path, str | os.PathLike):
        raise InputError(f"data_home is {show(path)}; expected a string or a path: give the folder's name")
    given = os.environ.get(ENVIRONMENT_VARIABLE) if path is None else os.fspath(path)
    if not given:
        raise InputError(
            f"no data home is given and the environment variable {ENVIRONMENT_VARIABLE} is not set; expected "
            f"the folder that holds the data sets: give data_home or set {ENVIRONMENT_VARIABLE}"
        )
    home = Path(os.path.expanduser(given))
    if not os.path.isdir(home):
        source = f"the environment variable {ENVIRONMENT_VARIABLE}" if path is None else "data_home"
        raise InputError(
            f"the data home {show(given, 200)} is not a folder; expected the folder that holds the data sets: correct "
            f"{source}"
        )
    return home


def dataset_file(home: str | os.PathLike[str] | None, relative: str) -> Path:
    """Return the path of a file of a data set.

    Parameters
    ----------
    home : str, path or None
        The data home, as for `data_home`.
    relative : str
        The path of the file in it.

    Returns
    -------
    Path
        The existing file.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    """
    path = data_home(home) / relative
    if not os.path.isfile(path):
        raise InputError(f"{path} does not exist; expected the data set there: put the file {relative} there")
    return path


def read_whole_numbers(
    path: str | Path, names: Iterable[str], expected: str, cure: str
) -> dict[str, NDArray[np.int64]]:
    """Return the named arrays of a numpy archive of whole numbers.

    Parameters
    ----------
    path : str or path
        The archive.
    names : iterable of str
        The arrays to read.
    expected, cure : str
        What the archive should hold, and what to do if it does not, for the error.

    Raises
    ------
    FormatError
        If the archive cannot be read or an array is missing or of another type.
    """
    arrays: dict[str, NDArray[np.int64]] = {}
    try:
        for name, stored in load_arrays(path, names).items():
            if stored.dtype.kind not in "iu":
                raise ValueError(f"{name} has the type {stored.dtype}, not whole numbers")
            arrays[name] = stored.astype(np.int64)
    except Exception as error:
        # A damaged archive fails in as many ways as the zip and the array format have parts.
        raise FormatError(
            f"{path} cannot be read ({type(error).__name__}: {error}); expected a numpy archive with whole numbers in "
            f"{expected}: {cure}"
        ) from error
    return arrays
