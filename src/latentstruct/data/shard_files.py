"""Files of prepared examples: their manifest, and arrays that are read into memory and validated."""

import errno
import math
import os
import re
import stat
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.validation import real
from latentstruct.exceptions import Description, FormatError, InputError

FORMAT, VERSION = "latentstruct-data", 1
MANIFEST, LOCK = "data.json", "data.lock"
SHARD_NAME = re.compile(r"shard-[0-9]{5,9}-[0-9a-f]{16}\.safetensors")
LEFT_OVER = re.compile(rf"{SHARD_NAME.pattern}|{re.escape(LOCK)}")
LARGEST_HEADER = 2**20
MOST_AXES = 8
LARGEST_MANIFEST = 2**30
# Types by their names in safetensors.
TYPES = {"F64": np.float64, "I64": np.int64, "I32": np.int32, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8}
CURE = "Prepare the data again, or copy the whole folder again."
OWN_FOLDER = "a new or empty folder, or one with prepared data"
MEGABYTE = 2**20


class Shard(msgspec.Struct, forbid_unknown_fields=True):
    """One file of prepared examples as listed in the manifest."""

    file: str
    n_examples: int
    n_bytes: int
    sha256: str


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """Contents of data.json."""

    format: str
    version: int
    library: str
    task: str
    params: Any
    state: Any
    labeled: bool
    shards: list[Shard]
    extra: Any = None


class _Entry(msgspec.Struct):
    """One array in the header of a safetensors file."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def checked_folder(folder: Any) -> Path:
    """Return the name of a folder as a path."""
    if not isinstance(folder, str | PathLike):
        raise InputError("folder", folder, "the path of a folder")
    return Path(folder)


def check_megabytes(value: Any, name: str, least: float) -> None:
    """Raise unless a size in megabytes is at least `least`."""
    real(least, closed="left").check(value, name)


def is_prepared(folder: str | PathLike[str]) -> bool:
    """Return whether a folder holds prepared data."""
    return (Path(folder) / MANIFEST).is_file()


def opened(path: Path) -> Any:
    """Open a regular file, never a link, for reading."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        got = Description("a link" if error.errno == errno.ELOOP else str(error.strerror))
        raise FormatError(path, got, "a readable file of prepared data", CURE) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FormatError(path, Description("no regular file"), "a readable file of prepared data", CURE)
    return os.fdopen(handle, "rb")


def read_manifest(folder: Path) -> Manifest:
    """Read and check data.json."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError("folder", Description(f"{folder} without {MANIFEST}"), "a folder of prepared data")
    try:
        with opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > LARGEST_MANIFEST:
                raise FormatError(path, Description(f"{size} bytes"), f"at most {LARGEST_MANIFEST} bytes", CURE)
            raw = file.read(LARGEST_MANIFEST)
        manifest = msgspec.json.decode(raw, type=Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(path, Description(repr_short(error, 160)), "a list of prepared data", CURE) from error
    if manifest.format != FORMAT or manifest.version != VERSION:
        got = Description(f"{repr_short(manifest.format)} version {manifest.version}")
        hint = f"Prepare the data again, or use latentstruct {manifest.library}, which wrote them."
        raise FormatError(path, got, f"format {FORMAT!r} version {VERSION}", hint)
    names = [shard.file for shard in manifest.shards]
    for shard in manifest.shards:
        if not SHARD_NAME.fullmatch(shard.file) or shard.n_examples < 1 or shard.n_bytes < 8:
            got = Description(f"{repr_short(shard.file)} with {shard.n_examples} examples in {shard.n_bytes} bytes")
            raise FormatError(path, got, "files such as shard-00000-0123456789abcdef.safetensors", CURE)
    if not names or len(set(names)) < len(names):
        got = Description(f"{len(names)} files, {len(set(names))} of them different")
        raise FormatError(path, got, "at least one file, each listed once", CURE)
    return manifest


def read_header(path: Path, content: NDArray[np.uint8]) -> tuple[Mapping[str, _Entry], int]:
    """Return the header of a safetensors file, and the start of the arrays in bytes."""
    length = int.from_bytes(content[:8].tobytes(), "little")
    if length > min(LARGEST_HEADER, len(content) - 8):
        got, expected = f"a length of {length} bytes", f"a header within the {len(content)} bytes of the file"
        raise FormatError(path, Description(got), expected, CURE)
    try:
        found = msgspec.json.decode(content[8 : 8 + length].tobytes(), type=dict[str, Any])
        found.pop("__metadata__", None)
        return msgspec.convert(found, dict[str, _Entry]), 8 + length
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(path, Description(repr_short(error, 160)), "a safetensors file", CURE) from error


def array_of(path: Path, name: str, entry: _Entry, content: NDArray[np.uint8], begin: int) -> NDArray[Any]:
    """Return one array as a view of the bytes of a file, after checking its bounds."""
    kind = TYPES.get(entry.dtype)
    first, stop = entry.data_offsets
    if kind is None or len(entry.shape) > MOST_AXES or not all(0 <= length <= len(content) for length in entry.shape):
        got = Description(f"{entry.dtype} of shape {entry.shape}")
        raise FormatError(path, got, f"an array {name!r} of numbers", CURE)
    count, width = math.prod(entry.shape), np.dtype(kind).itemsize
    if first < 0 or stop - first != count * width or begin + stop > len(content) or (begin + first) % width:
        got = Description(f"shape {entry.shape} at bytes {first} to {stop}")
        raise FormatError(path, got, f"an array {name!r} within {len(content) - begin} bytes", CURE)
    return np.frombuffer(content, kind, count, begin + first).reshape(entry.shape)
