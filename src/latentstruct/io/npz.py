"""Arrays of numbers in NumPy archives; every stated size is compared with the size of the file before it is used."""

import io
import math
import os
import warnings
import zipfile
from collections.abc import Iterable
from os import PathLike
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

KINDS = "biuf"
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MOST_GROWTH, HEAD = 1100, 1 << 16
"""Largest factor by which deflated data grow; values below the second size are allowed in any case."""


def load_arrays(path: str | PathLike[str], names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Return arrays of numbers, by name, from an archive that `numpy.savez` or `numpy.savez_compressed` wrote.

    A damaged archive raises exceptions of many types, as the zip and the array format have many parts. No memory is
    allocated for values that the archive states but cannot contain.
    """
    with open(path, "rb") as handle, zipfile.ZipFile(handle) as archive:
        size = os.fstat(handle.fileno()).st_size
        return {name: _load_array(archive, f"{name}.npy", size) for name in names}


def parse_arrays(raw: bytes, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Return those arrays of some names that the contents of an archive have, as `load_arrays` does."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        present = set(archive.namelist())
        return {name: _load_array(archive, f"{name}.npy", len(raw)) for name in names if f"{name}.npy" in present}


def _load_array(archive: zipfile.ZipFile, member: str, size: int) -> NDArray[Any]:
    info = archive.getinfo(member)
    if info.compress_type not in METHODS or info.compress_size > size:
        raise ValueError(f"{member} is compressed by method {info.compress_type} into {info.compress_size} bytes")
    if info.file_size > max(MOST_GROWTH * info.compress_size, HEAD):
        raise ValueError(f"{member} states {info.file_size} bytes, more than {info.compress_size} can expand to")
    with archive.open(info) as stream:
        shape, by_column, kind = _read_header(stream)
        n_bytes = math.prod(shape) * kind.itemsize
        if kind.kind not in KINDS or n_bytes != info.file_size - stream.tell():
            raise ValueError(f"{member} states {kind} of shape {shape} in {info.file_size} bytes")
        # One more byte than there is: the checksum is compared at the end of a file.
        values = stream.read(n_bytes + 1)
    return np.frombuffer(bytearray(values), dtype=kind).reshape(shape, order="F" if by_column else "C")


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with warnings.catch_warnings():
        # About headers that other versions wrote.
        warnings.simplefilter("ignore")
        found: tuple[tuple[int, ...], bool, np.dtype[Any]] = readers[version](stream)
    return found
