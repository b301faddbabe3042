"""What all readers and writers share: opening, decoding, naming the place of an error."""

import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from latentstruct.atomic_files import write_output
from latentstruct.exceptions import FormatError, InputError
from latentstruct.short_repr import show

STANDARD_STREAM = "-"
BOM = b"\xef\xbb\xbf"
MAX_STREAM_BYTES = 2**31
"""Bytes of standard input above which it is refused where it is read whole."""
MAX_LINE_BYTES = 2**28
"""Bytes above which a line is refused: it is held in memory whole."""
MAX_UNPACKED, MAX_GROWTH = 2**28, 200
"""A compressed file is refused once it has become larger than both: so many bytes, and so many times its own size."""
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
    """Standard input that was read whole, so that its content can tell its format and be read again.

    Parameters
    ----------
    content : bytes
        What was read.
    suffix : str
        The extension a file of this content would have.
    """

    def __init__(self, content: bytes, suffix: str) -> None:
        self.content = content
        self.suffix = suffix

    def __fspath__(self) -> str:
        return STANDARD_STREAM

    def __str__(self) -> str:
        return source_name(self)


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


def numbered_lines(path: FilePath) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, of its decompressed content or of standard input, counted from 1."""
    text = path_text(path)
    if text == STANDARD_STREAM:
        yield from _lines(io.BytesIO(path.content) if isinstance(path, KeptInput) else sys.stdin.buffer, "<stdin>")
        return
    if os.path.isdir(text):
        raise InputError(f"{text} is a directory; expected a file: give the path of one file in it")
    number = 0
    try:
        with open_unpacked(text) as handle:
            for number, line in _lines(handle, text):
                yield number, line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(
            f"{text}:{number + 1}: the gzip data cannot be read ({error}); expected a complete gzip file: "
            "fetch the file again, or drop .gz from the name if the file is not compressed"
        ) from error
    except FileNotFoundError as error:
        raise InputError(f"{text} does not exist; expected a readable file: check the path") from error
    except OSError as error:
        raise InputError(
            f"{text} cannot be read ({error.strerror or error}); expected a readable file: "
            "check its permissions and the disk"
        ) from error


def _lines(handle: IO[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stream, counted from 1."""
    for number, line in enumerate(iter(partial(handle.readline, MAX_LINE_BYTES + 1), b""), 1):
        if len(line) > MAX_LINE_BYTES:
            fail(
                name,
                number,
                f"the line has more than {MAX_LINE_BYTES} bytes; expected at most that many: check that this is text",
            )
        yield number, line.removeprefix(BOM) if number == 1 else line


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
        fail(
            name,
            line,
            f"found the byte 0x{raw[error.start]:02x}, which is not UTF-8; expected UTF-8 text: convert the "
            "file to UTF-8, or let its name end in .gz if it is compressed",
        )


def write_text(path: FilePath, content: str) -> None:
    """Write text to a file, a compressed file or standard output."""
    text = path_text(path)
    if text == STANDARD_STREAM:
        sys.stdout.write(content)
        return
    data = content.encode("utf-8")
    write_output(text, gzip.compress(data, mtime=0) if text.lower().endswith(".gz") else data)
