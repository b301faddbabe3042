"""Files of prepared examples: a list of them, and arrays that are read into memory and checked."""

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

from latentstruct.core.formatting import show
from latentstruct.exceptions import FormatError, InputError

FORMAT, VERSION = "latentstruct-data", 1
MANIFEST, LOCK = "data.json", "data.lock"
SHARD_NAME = re.compile(r"shard-[0-9]{5,9}-[0-9a-f]{16}\.safetensors")
LEFT_OVER = re.compile(rf"{SHARD_NAME.pattern}|{re.escape(LOCK)}")
LARGEST_HEADER = 2**20
MOST_AXES = 8
LARGEST_MANIFEST = 2**30
# Types by their names in safetensors.
TYPES = {"F64": np.float64, "I64": np.int64, "I32": np.int32, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8}
CURE = "prepare the data again, or copy the whole folder again"
MEGABYTE = 2**20


class Shard(msgspec.Struct, forbid_unknown_fields=True):
    """One file of prepared examples as the manifest lists it."""

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
    labelled: bool
    shards: list[Shard]
    extra: Any = None


class _Mark(msgspec.Struct):
    """What tells our data.json from files of others that have this name."""

    format: str = ""


class _Entry(msgspec.Struct):
    """One array in the header of a safetensors file."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def checked_folder(folder: Any) -> Path:
    """Return the name of a folder as a path."""
    if not isinstance(folder, str | PathLike):
        raise InputError(f"the folder is {show(folder)}; expected the name of one: give that of the prepared data")
    return Path(folder)


def check_megabytes(value: Any, name: str, least: float) -> None:
    """Raise unless a size in megabytes is a number of at least `least`."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not (math.isfinite(value) and value >= least):
        raise InputError(f"{name} is {show(value)}; expected megabytes, a number of at least {least}: choose one")


def is_prepared(folder: str | PathLike[str]) -> bool:
    """Tell whether a folder holds prepared data."""
    return (Path(folder) / MANIFEST).is_file()


def is_ours(folder: Path) -> bool:
    """Tell whether the data.json of a folder says that it lists prepared data, so that it may be replaced."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Mark).format == FORMAT
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def opened(path: Path) -> Any:
    """Open a regular file, never a link, for reading."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        linked = "it is a link" if error.errno == errno.ELOOP else str(error.strerror)
        raise FormatError(f"{path} cannot be read ({linked}); expected a file of prepared data: {CURE}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FormatError(f"{path} is no regular file; expected one of prepared data: {CURE}")
    return os.fdopen(handle, "rb")


def read_manifest(folder: Path) -> Manifest:
    """Read and check data.json."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(
            f"there are no prepared data at {folder}, as {MANIFEST} is missing; expected a folder that latentstruct "
            "prepare or ShardedData.write wrote: give that"
        )
    try:
        with opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > LARGEST_MANIFEST:
                raise FormatError(f"{path} has {size} bytes; expected at most {LARGEST_MANIFEST}: {CURE}")
            raw = file.read(LARGEST_MANIFEST)
        manifest = msgspec.json.decode(raw, type=Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{path} is no list of prepared data ({show(error, 160)}): {CURE}") from error
    if manifest.format != FORMAT or manifest.version != VERSION:
        raise FormatError(
            f"{path} has format {show(manifest.format)} version {manifest.version}, but this version reads "
            f"{show(FORMAT)} version {VERSION}: prepare the data again, or use the version that wrote them "
            f"({manifest.library})"
        )
    names = [shard.file for shard in manifest.shards]
    for shard in manifest.shards:
        if not SHARD_NAME.fullmatch(shard.file) or shard.n_examples < 1 or shard.n_bytes < 8:
            raise FormatError(
                f"{path} lists the file {show(shard.file)} with {shard.n_examples} examples in {shard.n_bytes} bytes; "
                f"expected names such as shard-00000-0123456789abcdef.safetensors: {CURE}"
            )
    if not names or len(set(names)) < len(names):
        raise FormatError(
            f"{path} lists {len(names)} files, {len(set(names))} of them different; expected some, each once: {CURE}"
        )
    return manifest


def read_header(path: Path, content: NDArray[np.uint8]) -> tuple[Mapping[str, _Entry], int]:
    """Return what the bytes of a safetensors file tell of its arrays, and where the bytes of these begin."""
    length = int.from_bytes(content[:8].tobytes(), "little")
    if length > min(LARGEST_HEADER, len(content) - 8):
        raise FormatError(f"{path} announces a header of {length} bytes, which it does not have: {CURE}")
    try:
        found = msgspec.json.decode(content[8 : 8 + length].tobytes(), type=dict[str, Any])
        found.pop("__metadata__", None)
        return msgspec.convert(found, dict[str, _Entry]), 8 + length
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{path} is no safetensors file ({show(error, 160)}): {CURE}") from error


def array_of(path: Path, name: str, entry: _Entry, content: NDArray[np.uint8], begin: int) -> NDArray[Any]:
    """Return one array on the bytes of a file, having checked that it lies within them."""
    kind = TYPES.get(entry.dtype)
    first, stop = entry.data_offsets
    if kind is None or len(entry.shape) > MOST_AXES or not all(0 <= length <= len(content) for length in entry.shape):
        raise FormatError(
            f"{path}: array {show(name)} has type {entry.dtype} and shape {entry.shape}; expected numbers: {CURE}"
        )
    count, width = math.prod(entry.shape), np.dtype(kind).itemsize
    if first < 0 or stop - first != count * width or begin + stop > len(content) or (begin + first) % width:
        raise FormatError(
            f"{path}: array {show(name)} of shape {entry.shape} is said to lie at bytes {first} to {stop}, but there "
            f"are {len(content) - begin}: {CURE}"
        )
    return np.frombuffer(content, kind, count, begin + first).reshape(entry.shape)
