"""Shared parts of all readers and writers: opening files, decoding lines, raising errors of a line."""

import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.persistence.atomic_files import write_output

STANDARD_STREAM, STDIN = "-", "<stdin>"
BOM = b"\xef\xbb\xbf"
MAX_STREAM_BYTES = 2**31
"""Largest size of standard input where it is read into memory."""
MAX_LINE_BYTES = 2**28
"""Largest size of a line, which is read into memory."""
MAX_UNPACKED, MAX_GROWTH = 2**28, 200
"""A compressed file is rejected if its content exceeds both: a number of bytes, and a multiple of its size."""
GZIP_MAGIC = b"\x1f\x8b"
GZIP_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error)
INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII)

FilePath = str | os.PathLike[str]


def standard_input() -> IO[bytes]:
    """Return standard input, decompressed if it is a gzip file."""
    first = sys.stdin.buffer.read(len(GZIP_MAGIC))
    if first != GZIP_MAGIC:
        return io.BufferedReader(_Resumed(first, sys.stdin.buffer))
    packed = first + sys.stdin.buffer.read(MAX_STREAM_BYTES)
    return io.BufferedReader(_Unpacked(STDIN, len(packed), io.BytesIO(packed)), 1 << 16)


class _Resumed(io.RawIOBase):
    """A stream of which the first bytes have been read already."""

    def __init__(self, first: bytes, stream: IO[bytes]) -> None:
        self.first, self.stream = first, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.first or self.stream.read1(len(buffer))  # type: ignore[attr-defined]
        self.first = b""
        buffer[: len(found)] = found
        return len(found)


def read_standard_input() -> bytes:
    """Return the content of standard input, decompressed if it is a gzip file; raise if it is too large."""
    try:
        content = standard_input().read(MAX_STREAM_BYTES + 1)
    except GZIP_ERRORS as error:
        raise _damaged(STDIN, None, error) from error
    if len(content) > MAX_STREAM_BYTES:
        raise too_large(STDIN, MAX_STREAM_BYTES, "Use a file instead.")
    return content


def too_large(name: str, limit: int, hint: str | None = None) -> FormatError:
    """Return the error of a file of more than `limit` bytes."""
    return FormatError(name, Description("a larger one"), f"a file of at most {limit} bytes", hint)


class KeptInput(os.PathLike[str]):
    """Standard input that has been read, with the extension that a file with this content would have."""

    def __init__(self, content: bytes, suffix: str) -> None:
        self.content = content
        self.suffix = suffix

    def __fspath__(self) -> str:
        return STANDARD_STREAM

    def __str__(self) -> str:
        return source_name(self)


def kept_input(path: FilePath, suffix: Callable[[bytes], str]) -> FilePath:
    """Read standard input, with an extension determined from its content; return any other path unchanged."""
    if isinstance(path, KeptInput) or path_text(path) != STANDARD_STREAM:
        return path
    content = read_standard_input()
    return KeptInput(content, suffix(content.removeprefix(BOM)))


def fail(name: str, line: int, got: object, expected: str, hint: str | None = None) -> NoReturn:
    """Raise the error of a line of a file."""
    raise FormatError(name, got, expected, hint, line=line)


def path_text(path: object) -> str:
    """Return a path as text; integers, which `open` accepts as file descriptors, are rejected."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError("path", path, "a path without null characters")
    return text


def source_name(path: FilePath) -> str:
    """Return the name of a file in messages."""
    text = path_text(path)
    return STDIN if text == STANDARD_STREAM else text


def extension(path: FilePath) -> str:
    """Return the extension of a path in lower case, ignoring that of a compression."""
    if isinstance(path, KeptInput):
        return path.suffix
    text = path_text(path).lower()
    return Path(text.removesuffix(".gz")).suffix


@contextmanager
def opened(path: FilePath, unpack: bool = True) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed if its name ends in .gz and `unpack` is true; errors name the file."""
    text = path_text(path)
    try:
        with open_unpacked(text) if unpack else open(text, "rb") as handle:
            yield handle
    except GZIP_ERRORS as error:
        raise _damaged(text, None, error) from error
    except OSError as error:
        raise FormatError(text, Description(error.strerror or str(error)), "a readable file") from error


@contextmanager
def opened_stream(path: FilePath) -> Iterator[IO[bytes]]:
    """Open a file as `opened` does, or standard input."""
    if path_text(path) == STANDARD_STREAM:
        yield standard_input()
        return
    with opened(path) as handle:
        yield handle


def numbered_lines(path: FilePath) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, of its decompressed content or of standard input, numbered from 1."""
    text = path_text(path)
    if text == STANDARD_STREAM:
        yield from _lines(io.BytesIO(path.content) if isinstance(path, KeptInput) else standard_input(), STDIN)
        return
    with opened(text) as handle:
        yield from _lines(handle, text)


def read_limited(path: FilePath, limit: int, whole: bool = True) -> bytes:
    """Return the first bytes of a file; if `whole`, raise if it has more than `limit`."""
    with opened(path) as handle:
        raw = handle.read(limit + 1)
    if whole and len(raw) > limit:
        raise too_large(path_text(path), limit)
    return raw


def _lines(handle: IO[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stream, numbered from 1."""
    number = 0
    try:
        for number, line in enumerate(iter(partial(handle.readline, MAX_LINE_BYTES + 1), b""), 1):
            if len(line) > MAX_LINE_BYTES:
                fail(name, number, Description("a longer one"), f"a line of text of at most {MAX_LINE_BYTES} bytes")
            yield number, line.removeprefix(BOM) if number == 1 else line
    except GZIP_ERRORS as error:
        raise _damaged(name, number + 1, error) from error


def _damaged(name: str, line: int | None, error: BaseException) -> FormatError:
    hint = "Remove .gz from the name if the file is not compressed."
    return FormatError(name, Description(str(error)), "a complete gzip file", hint, line=line)


class Source:
    """Numbered lines of a text, from 1; errors name the text, and the line that was read last."""

    def __init__(self, lines: Iterable[tuple[int, bytes]], name: str) -> None:
        self.lines, self.name, self.line = lines, name, 1

    @classmethod
    def open(cls, path: FilePath) -> "Source":
        """Return the lines of a file, of its decompressed content or of standard input."""
        return cls(numbered_lines(path), source_name(path))

    @classmethod
    def of(cls, content: bytes, name: str) -> "Source":
        """Return the lines of a text in memory."""
        return cls(enumerate(io.BytesIO(content), 1), name)

    def __iter__(self) -> Iterator[bytes]:
        for line, raw in self.lines:
            self.line = line
            yield raw

    def texts(self) -> Iterator[str]:
        """Yield the decoded lines without line ends."""
        return (self.decode(raw).rstrip("\r\n") for raw in self)

    def decode(self, raw: bytes) -> str:
        """Decode the current line or a field of it."""
        return decode_line(raw, self.name, self.line)

    def fail(self, got: object, expected: str, hint: str | None = None, *, line: int | None = None) -> NoReturn:
        """Raise the error of the current line, or of another one."""
        fail(self.name, self.line if line is None else line, got, expected, hint)


class _Unpacked(io.RawIOBase):
    """The content of a compressed file; raises if it is far larger than that of any text."""

    def __init__(self, path: str, size: int, packed: str | IO[bytes]) -> None:
        self.path = path
        self.left = max(MAX_UNPACKED, MAX_GROWTH * size)
        # Closed in `close`.
        self.stream = gzip.open(packed, "rb")  # noqa: SIM115

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.stream.read1(len(buffer))
        self.left -= len(found)
        if self.left < 0:
            got = f"more than {MAX_UNPACKED} bytes and {MAX_GROWTH} times the size of the file"
            raise FormatError(self.path, Description(got), "compressed text")
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self.stream.close()
        super().close()


def open_unpacked(path: str) -> IO[bytes]:
    """Open a file for reading, decompressed if its name ends in .gz."""
    if not path.lower().endswith(".gz"):
        return open(path, "rb")
    return io.BufferedReader(_Unpacked(path, os.path.getsize(path), path), 1 << 16)


def decode_line(raw: bytes, name: str, line: int) -> str:
    """Decode one line or field."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        hint = "Convert the file to UTF-8. The name of a compressed file must end in .gz."
        fail(name, line, Description(f"the byte 0x{raw[error.start]:02x}"), "UTF-8 text", hint)


def write_text(path: FilePath, content: str) -> None:
    """Write text to a file, a compressed file or standard output."""
    text = path_text(path)
    if text == STANDARD_STREAM:
        sys.stdout.write(content)
        return
    data = content.encode("utf-8")
    write_output(text, gzip.compress(data, mtime=0) if text.lower().endswith(".gz") else data)
