"""The folder that holds the data sets, and what all loaders do: find files, open archives, check arrays."""

import inspect
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import show
from latentstruct.exceptions import FormatError, InputError
from latentstruct.io.npz import load_arrays
from latentstruct.io.text import open_unpacked

ENVIRONMENT_VARIABLE = "LATENTSTRUCT_DATA"
CURE = "fetch the file again"
LARGEST_ARCHIVE, MOST_FILES = 2**28, 10_000
"""Bytes of all members that are read of an archive, and their number."""

Home = str | os.PathLike[str] | None
P = ParamSpec("P")
T = TypeVar("T", covariant=True)

_DATA_HOME = """
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.
"""
_RAISES = """
    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If a file is damaged or not of this format, also when what is decoded later is damaged.
    """


class Loader(Protocol[P, T]):
    """A function that loads a data set from the data home."""

    def __call__(self, data_home: Home = None, *args: P.args, **kwargs: P.kwargs) -> T: ...  # noqa: D102


def loader(*files: str) -> Callable[[Callable[Concatenate[list[Path], P], T]], Loader[P, T]]:
    """Make a loader of a function of the paths of files in the data home, and add to its docstring what all share."""

    def decorate(read: Callable[Concatenate[list[Path], P], T]) -> Loader[P, T]:
        @wraps(read)
        def load(data_home: Home = None, *args: P.args, **kwargs: P.kwargs) -> T:
            return read([dataset_file(data_home, file) for file in files], *args, **kwargs)

        signature = inspect.signature(read)
        first, *others = signature.parameters.values()
        own = first.replace(name="data_home", default=None, annotation=Home)
        load.__signature__ = signature.replace(parameters=[own, *others])  # type: ignore[attr-defined]
        head, title, rest = (read.__doc__ or "").partition("    Returns\n")
        section = "" if "    Parameters\n" in head else "    Parameters\n    ----------\n"
        head = (head + section).replace(
            "    Parameters\n    ----------\n", f"    Parameters\n    ----------{_DATA_HOME}"
        )
        load.__doc__ = f"{head}{chr(10) if section else ''}{title}{rest.rstrip()}\n{_RAISES}"
        return load

    return decorate


def data_home(path: Home = None) -> Path:
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
            f"no data home is given and the environment variable {ENVIRONMENT_VARIABLE} is not set; expected the "
            f"folder that holds the data sets: give data_home or set {ENVIRONMENT_VARIABLE}"
        )
    home = Path(os.path.expanduser(given))
    if not os.path.isdir(home):
        source = f"the environment variable {ENVIRONMENT_VARIABLE}" if path is None else "data_home"
        raise InputError(
            f"the data home {show(given, 200)} is not a folder; expected the folder that holds the data sets: correct "
            f"{source}"
        )
    return home


def dataset_file(home: Home, relative: str) -> Path:
    """Return the path of an existing file in the data home; if its name ends in [.gz], of the file or its gzip."""
    folder, plain = data_home(home), relative.removesuffix("[.gz]")
    path = folder / plain
    if plain != relative and not path.is_file():
        path = folder / (plain := f"{plain}.gz")
    if not os.path.isfile(path):
        raise InputError(f"{path} does not exist; expected the data set there: put the file {plain} there")
    return path


def read_archive(
    path: Path, wanted: Callable[[str], bool], expected: str, largest: int = LARGEST_ARCHIVE
) -> dict[str, bytes]:
    """Return the members of a zip or gzip-compressed tar archive that are wanted, in the order of their names.

    Nothing is unpacked to disk. A member may have `largest` bytes; `expected` says in errors what the members are.
    """
    files: dict[str, bytes] = {}
    total = 0
    try:
        for name, size, read in _members(path):
            if not wanted(name):
                continue
            total += size
            if size > largest or total > LARGEST_ARCHIVE or len(files) >= MOST_FILES:
                raise ValueError(f"{name} has {size} bytes and is number {len(files) + 1} of its kind")
            files[name] = read()
    except Exception as error:
        # A damaged archive fails in as many ways as the format and its compressions have parts.
        kind = "zip" if path.suffix == ".zip" else "gzip-compressed tar"
        raise FormatError(
            f"{path} cannot be read ({type(error).__name__}: {error}); expected a complete {kind} archive with "
            f"{expected}, up to {MOST_FILES} files of at most {largest} bytes: fetch it again"
        ) from error
    return dict(sorted(files.items()))


def _members(path: Path) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Yield names and sizes of the files of an archive, and functions that read them at once."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as packed:
            for info in packed.infolist():
                yield info.filename, info.file_size, lambda info=info: packed.read(info)  # type: ignore[misc]
        return
    with open_unpacked(str(path)) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.isfile():
                content = archive.extractfile(member)
                assert content is not None
                yield member.name.removeprefix("./"), member.size, content.read


def read_whole_numbers(path: Path, dimensions: Mapping[str, int], expected: str) -> dict[str, NDArray[np.int64]]:
    """Return arrays of whole numbers of a numpy archive, by name, with the numbers of dimensions they must have."""
    arrays: dict[str, NDArray[np.int64]] = {}
    try:
        for name, stored in load_arrays(path, dimensions).items():
            if stored.dtype.kind not in "iu":
                raise ValueError(f"{name} has the type {stored.dtype}, not whole numbers")
            arrays[name] = stored.astype(np.int64)
    except Exception as error:
        # A damaged archive fails in as many ways as the zip and the array format have parts.
        raise FormatError(
            f"{path} cannot be read ({type(error).__name__}: {error}); expected a numpy archive with whole numbers in "
            f"{expected}: {CURE}"
        ) from error
    for name, array in arrays.items():
        if array.ndim != dimensions[name]:
            raise FormatError(f"{path}: {name} has {array.ndim} dimensions; expected {dimensions[name]}: {CURE}")
    return arrays


def check_range(path: Path, name: str, values: NDArray[np.int64], top: int) -> None:
    """Raise if values are not within 0 and the top."""
    if values.min() < 0 or values.max() > top:
        found = f"{path}: {name} has values from {values.min()} to {values.max()}"
        raise FormatError(f"{found}; expected 0 to {top}: {CURE}")
