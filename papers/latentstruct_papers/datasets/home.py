"""The folder of the data sets, and shared parts of loaders: finding files, opening archives, checking arrays."""

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

from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.npz import load_arrays
from latentstruct.io.text import open_unpacked

ENVIRONMENT_VARIABLE = "LATENTSTRUCT_DATA"
LARGEST_ARCHIVE, MOST_FILES = 2**28, 10_000
"""Largest total size of the members that are read from an archive, and their largest number."""

Home = str | os.PathLike[str] | None
P = ParamSpec("P")
T = TypeVar("T", covariant=True)

_DATA_HOME = """
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA``.
"""
_RAISES = """
    Raises
    ------
    InputError
        If there is no data home.
    FormatError
        If a file is missing, damaged or of another format; for data that are decoded on access, also then.
    """


class Loader(Protocol[P, T]):
    """A function that loads a data set from the data home."""

    def __call__(self, data_home: Home = None, *args: P.args, **kwargs: P.kwargs) -> T: ...  # noqa: D102


def loader(*files: str) -> Callable[[Callable[Concatenate[list[Path], P], T]], Loader[P, T]]:
    """Make a loader from a function of the paths of files in the data home, and extend its docstring."""

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
    """Return the folder of the data sets.

    Parameters
    ----------
    path : str or path, optional
        The folder; by default the environment variable ``LATENTSTRUCT_DATA``.

    Returns
    -------
    Path
        The existing folder.

    Raises
    ------
    InputError
        If no folder is given or it does not exist.
    """
    given = os.environ.get(ENVIRONMENT_VARIABLE) if path is None else path
    home = Path(given).expanduser() if isinstance(given, str | os.PathLike) and given else None
    if home is None or not os.path.isdir(home):
        source = f"{ENVIRONMENT_VARIABLE}=" if path is None else ""
        got = given if home is None else Description(f"{source}{home}")
        raise InputError("data_home", got, f"a folder, or None if {ENVIRONMENT_VARIABLE} is the path of a folder")
    return home


def dataset_file(home: Home, relative: str) -> Path:
    """Return the path of a file in the data home; if its name ends in [.gz], of the file or its gzip."""
    folder, plain = data_home(home), relative.removesuffix("[.gz]")
    path = folder / plain
    if plain != relative and not path.is_file():
        path = folder / (plain := f"{plain}.gz")
    if not os.path.isfile(path):
        raise FormatError(path, Description("no such file"), "a file of the data set")
    return path


def read_archive(
    path: Path, wanted: Callable[[str], bool], expected: str, largest: int = LARGEST_ARCHIVE
) -> dict[str, bytes]:
    """Return the wanted members of a zip or gzip-compressed tar archive, sorted by name.

    Nothing is unpacked to disk. A member may have `largest` bytes; `expected` describes the members in errors.
    """
    files: dict[str, bytes] = {}
    total = 0
    try:
        for name, size, read in _members(path):
            if not wanted(name):
                continue
            total += size
            if size > largest or total > LARGEST_ARCHIVE or len(files) >= MOST_FILES:
                raise ValueError(f"{name} has {size} bytes and is number {len(files) + 1}")
            files[name] = read()
    except Exception as error:
        # A damaged archive raises exceptions of many types.
        kind = "zip" if path.suffix == ".zip" else "gzip-compressed tar"
        limits = f"up to {MOST_FILES} files of at most {largest} bytes"
        expected = f"a complete {kind} archive with {expected}, {limits}"
        raise FormatError(path, Description(f"{type(error).__name__}: {error}"), expected) from error
    return dict(sorted(files.items()))


def _members(path: Path) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Yield names and sizes of the files of an archive, and functions that read them."""
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


def read_integers(path: Path, dimensions: Mapping[str, int], expected: str) -> dict[str, NDArray[np.int64]]:
    """Return arrays of integers of a NumPy archive by name; `dimensions` are their numbers of dimensions."""
    arrays: dict[str, NDArray[np.int64]] = {}
    try:
        for name, stored in load_arrays(path, dimensions).items():
            if stored.dtype.kind not in "iu":
                raise ValueError(f"{name} has the type {stored.dtype}")
            arrays[name] = stored.astype(np.int64)
    except Exception as error:
        # A damaged archive raises exceptions of many types.
        got = Description(f"{type(error).__name__}: {error}")
        raise FormatError(path, got, f"a NumPy archive with integers in {expected}") from error
    for name, array in arrays.items():
        if array.ndim != dimensions[name]:
            raise FormatError(path, Description(f"{array.ndim}"), f"{dimensions[name]} dimensions of {name}")
    return arrays


def check_range(path: Path, name: str, values: NDArray[np.int64], top: int) -> None:
    """Raise unless values are between 0 and `top`."""
    if values.min() < 0 or values.max() > top:
        raise FormatError(path, Description(f"{values.min()} to {values.max()}"), f"{name} from 0 to {top}")
