"""The readers: for each some good files, words of its format, and how a damaged file is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

MODULES = ("fuzz.texts", "fuzz.pictures", "fuzz.data_sets", "fuzz.stored", "fuzz.resumed")


@dataclass(frozen=True)
class Reader:
    """A reader of files.

    Parameters
    ----------
    name : str
        What reports call it.
    seeds : function
        Returns good files.
    read : function of a folder and bytes
        Reads a damaged file; the folder may be written to, and is the same for all.
    words : sequence of bytes
        What files of this format are made of.
    repair : function of bytes and a generator, optional
        Mends checksums of a damaged file, so that more than these is tried.
    beside : function, optional
        Returns further files by their names in the folder, which are whole.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[Path, bytes], Any]
    words: Sequence[bytes] = ()
    repair: Callable[[bytes, Random], bytes] | None = None
    beside: Callable[[], dict[str, bytes]] | None = None


def through_file(name: str, read: Callable[[Path], Any]) -> Callable[[Path, bytes], Any]:
    """Return a function that reads bytes by a function of a path, from a file of that name."""

    def read_bytes(folder: Path, data: bytes) -> Any:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return read(path)

    return read_bytes


@cache
def all_readers() -> dict[str, Reader]:
    """Return the readers by name."""
    return {reader.name: reader for module in MODULES for reader in import_module(module).READERS}


def find_reader(name: str) -> Reader:
    """Return the reader of a name, without loading more than it takes to find it."""
    return next(reader for module in MODULES for reader in import_module(module).READERS if reader.name == name)
