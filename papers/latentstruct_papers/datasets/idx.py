"""Arrays in the idx format, the format of MNIST."""

import gzip
import math
import struct
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import Description, FormatError
from latentstruct.io.text import FilePath, opened, path_text

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""Types of values by the third byte of a file."""
MAX_DIMENSIONS = 32
MAX_BYTES = 1 << 31
CHUNK = 1 << 20
GZIP = b"\x1f\x8b"

Stream = IO[bytes] | gzip.GzipFile


def read_idx(path: FilePath, max_bytes: int = MAX_BYTES) -> NDArray[Any]:
    """Read an array of at most `max_bytes` from an idx file, which may be compressed by gzip.

    The file begins with two zero bytes, a byte for the type of the values, a byte with the number of dimensions and the
    length of each dimension in 4 big-endian bytes; the values follow in C order. No memory is allocated for values that
    the file states but does not contain. The array has the byte order of the machine.
    """
    name = path_text(path)
    with opened(name, unpack=False) as raw:
        compressed = raw.read(2) == GZIP
        raw.seek(0)
        if not compressed:
            return _read_array(raw, name, max_bytes)
        with gzip.open(raw, "rb") as stream:
            return _read_array(stream, name, max_bytes)


def _read_array(stream: Stream, name: str, max_bytes: int) -> NDArray[Any]:
    kind, shape = _read_header(stream, name)
    size = math.prod(shape) * kind.itemsize
    if size > max_bytes:
        raise FormatError(
            name, Description(f"shape {shape} and {size} bytes"), f"an array of at most {max_bytes} bytes"
        )
    values = _read_at_most(stream, size + 1)
    if len(values) != size:
        got = Description("more bytes" if len(values) > size else f"{len(values)} bytes")
        raise FormatError(name, got, f"{size} bytes, as the header states an array of shape {shape}")
    return np.frombuffer(values, dtype=kind).reshape(shape).astype(kind.newbyteorder("="), copy=False)


def _read_header(stream: Stream, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the type and the shape of the array."""
    start = stream.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in TYPES or not 1 <= start[3] <= MAX_DIMENSIONS:
        expected = f"an idx file: 00 00, the type of values (08, 09, 0b to 0e) and 1 to {MAX_DIMENSIONS} dimensions"
        raise FormatError(name, Description(start.hex(" ") or "an empty file"), expected)
    lengths = stream.read(4 * start[3])
    if len(lengths) < 4 * start[3]:
        raise FormatError(name, Description("the end of the file"), f"the lengths of {start[3]} dimensions")
    return np.dtype(TYPES[start[2]]), struct.unpack(f">{start[3]}I", lengths)


def _read_at_most(stream: Stream, size: int) -> bytearray:
    """Return up to `size` bytes; memory is allocated only for bytes that were read."""
    found = bytearray()
    while len(found) < size and (chunk := stream.read(min(CHUNK, size - len(found)))):
        found += chunk
    return found
