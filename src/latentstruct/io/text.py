"""What all readers and writers share: opening, decoding, naming the place of an error."""

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

from latentstruct.core.formatting import show
from latentstruct.exceptions import FormatError, InputError
from latentstruct.persistence.atomic_files import write_output

STANDARD_STREAM = "-"
BOM = b"\xef\xbb\xbf"
MAX_STREAM_BYTES = 2**31
"""Bytes of standard input above which it is refused where it is read whole."""
MAX_LINE_BYTES = 2**28
"""Bytes above which a line is refused: it is held in memory whole."""
MAX_UNPACKED, MAX_GROWTH = 2**28, 200
"""A compressed file is refused once it has become larger than both: so many bytes, and so many times its own size."""
GZIP_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error)
INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII)

FilePath = str | os.PathLike[str]


def read_standard_input() -> bytes:
    """Return all of standard input; raise if it does not end."""
    content = sys.stdin.buffer.read(MAX_STREAM_BYTES + 1)
    if len(content) > MAX_STREAM_BYTES:
        raise FormatError(
            f"standard input has more than {MAX_STREAM_BYTES} bytes; expected at most that many: give a file instead"
        )
    return content


class KeptInput(os.PathLike[str]):
    """Standard input that was read whole, with the extension that a file of this content would have."""

    def __init__(self, content: bytes, suffix: str) -> None:
        self.content = content
        self.suffix = suffix

    def __fspath__(self) -> str:
        return STANDARD_STREAM

    def __str__(self) -> str:
        return source_name(self)


def kept_input(path: FilePath, suffix: Callable[[bytes], str]) -> FilePath:
    """Return standard input read whole, with the extension that its content calls for; any other path as it is."""
    if isinstance(path, KeptInput) or path_text(path) != STANDARD_STREAM:
        return path
    content = read_standard_input()
    return KeptInput(content, suffix(content.removeprefix(BOM)))


def fail(name: str, line: int, problem: str) -> NoReturn:
    """Raise the error of one line of a file."""
    raise FormatError(f"{name}:{line}: {problem}")


def path_text(path: object) -> str:
    """Return the path as text, refusing what `open` would take for a file descriptor."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"the path is {show(path)}; expected a string or a path: give the file's name")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"the path is {show(text)}; expected text without null characters: give the file's name")
    return text


def source_name(path: FilePath) -> str:
    """Name the source of the text as messages show it."""
    text = path_text(path)
    return "<stdin>" if text == STANDARD_STREAM else text


def extension(path: FilePath) -> str:
    """Return the lower-case extension of a path, that of the compression left out."""
    if isinstance(path, KeptInput):
        return path.suffix
    text = path_text(path).lower()
    return Path(text.removesuffix(".gz")).suffix


@contextmanager
def opened(path: FilePath, unpack: bool = True) -> Iterator[IO[bytes]]:
    """Open a file to be read, decompressed if its name ends in .gz and `unpack`; errors name it."""
    text = path_text(path)
    if os.path.isdir(text):
        raise InputError(f"{text} is a directory; expected a file: give the path of one file in it")
    try:
        with open_unpacked(text) if unpack else open(text, "rb") as handle:
            yield handle
    except GZIP_ERRORS as error:
        raise _damaged(text, error) from error
    except FileNotFoundError as error:
        raise InputError(f"{text} does not exist; expected a readable file: check the path") from error
    except OSError as error:
        raise InputError(
            f"{text} cannot be read ({error.strerror or error}); expected a readable file: check its permissions and "
            "the disk"
        ) from error


def numbered_lines(path: FilePath) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, of its decompressed content or of standard input, counted from 1."""
    text = path_text(path)
    if text == STANDARD_STREAM:
        yield from _lines(io.BytesIO(path.content) if isinstance(path, KeptInput) else sys.stdin.buffer, "<stdin>")
        return
    with opened(text) as handle:
        yield from _lines(handle, text)


def read_limited(path: FilePath, limit: int, whole: bool = True) -> bytes:
    """Return the first bytes of a file; of a whole file, raise if it has more of them."""
    with opened(path) as handle:
        raw = handle.read(limit + 1)
    if whole and len(raw) > limit:
        raise FormatError(
            f"{path_text(path)} has more than {limit} bytes; expected at most that many: split it into smaller files"
        )
    return raw


def _lines(handle: IO[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stream, counted from 1."""
    number = 0
    try:
        for number, line in enumerate(iter(partial(handle.readline, MAX_LINE_BYTES + 1), b""), 1):
            if len(line) > MAX_LINE_BYTES:
                found = f"the line has more than {MAX_LINE_BYTES} bytes"
                fail(name, number, f"{found}; expected at most that many: check that this is text")
            yield number, line.removeprefix(BOM) if number == 1 else line
    except GZIP_ERRORS as error:
        raise _damaged(f"{name}:{number + 1}", error) from error


def _damaged(where: str, error: BaseException) -> FormatError:
    cure = "fetch the file again, or drop .gz from the name if the file is not compressed"
    return FormatError(f"{where}: the gzip data cannot be read ({error}); expected a complete gzip file: {cure}")


class Source:
    """Numbered lines of a text; errors name the line that was read last.

    Parameters
    ----------
    lines : iterable of (int, bytes)
        The lines and their numbers, counted from 1.
    name : str
        Name of the text in error messages.
    """

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

    def fail(self, problem: str, line: int | None = None) -> NoReturn:
        """Raise the error of the current line, or of another one."""
        fail(self.name, self.line if line is None else line, problem)


class _Unpacked(io.RawIOBase):
    """The contents of a compressed file; raises if they are far larger than any text would make them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.left = max(MAX_UNPACKED, MAX_GROWTH * os.path.getsize(path))
        # It is closed with this one.
        self.stream = gzip.open(path, "rb")  # noqa: SIM115

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.stream.read1(len(buffer))
        self.left -= len(found)
        if self.left < 0:
            raise FormatError(
                f"{self.path} unpacks to more than {MAX_UNPACKED} bytes and {MAX_GROWTH} times its size; expected "
                "text, which does not shrink like that: unpack the file and look at it"
            )
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self.stream.close()
        super().close()


def open_unpacked(path: str) -> IO[bytes]:
    """Open a file to be read, decompressed if its name ends in .gz."""
    return io.BufferedReader(_Unpacked(path), 1 << 16) if path.lower().endswith(".gz") else open(path, "rb")


def decode_line(raw: bytes, name: str, line: int) -> str:
    """Decode one line or field."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"found the byte 0x{raw[error.start]:02x}, which is not UTF-8"
        cure = "convert the file to UTF-8, or let its name end in .gz if it is compressed"
        fail(name, line, f"{found}; expected UTF-8 text: {cure}")


def write_text(path: FilePath, content: str) -> None:
    """Write text to a file, a compressed file or standard output."""
    text = path_text(path)
    if text == STANDARD_STREAM:
        sys.stdout.write(content)
        return
    data = content.encode("utf-8")
    write_output(text, gzip.compress(data, mtime=0) if text.lower().endswith(".gz") else data)
