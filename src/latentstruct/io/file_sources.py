"""Where several files come from at once: a folder, a zip archive, a zip archive on standard input, or a single file."""

import os
import stat
import sys
import tempfile
import weakref
import zipfile
from pathlib import Path
from typing import IO, Any

from latentstruct.exceptions import FormatError, InputError
from latentstruct.io.text import MAX_STREAM_BYTES, STANDARD_STREAM, FilePath, path_text, show, source_name

__all__ = ["FileSource"]

_CHUNK = 2**20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Others take as much memory as a file asks for."""
_LITTER = "__MACOSX"
"""The folder that some systems add to archives, with files that are no images though they are called so."""


class FileSource:
    """The files of a folder or of a zip archive, or a single one, read when they are asked for.

    Folders within the folder are not looked into; within an archive all are. Nothing is unpacked to disk.

    Parameters
    ----------
    path : path
        The folder, the archive or the file; ``-`` is a zip archive on standard input.

    Attributes
    ----------
    path : Path
        What messages call it.
    packed : bool
        Whether it is an archive.
    several : bool
        Whether it is a folder or an archive.
    members : list of str
        The files, sorted, by their paths within the folder or archive; hidden ones are left out.
    """

    def __init__(self, path: FilePath) -> None:
        text = path_text(path)
        self.path = self._file = Path(source_name(text))
        self._archive: zipfile.ZipFile | None = None
        self._stream: IO[bytes] | None = None
        if text == STANDARD_STREAM:
            self._stream = _keep_standard_input()
        elif not os.path.exists(text):
            raise InputError(f"{text} does not exist; expected a folder or zip archive of images: check the path")
        folder = self._stream is None and self.path.is_dir()
        self.packed = self._stream is not None or (not folder and self.path.suffix.lower() == ".zip")
        self.several = folder or self.packed
        found = self._list_archive() if self.packed else [self.path.name]
        if folder:
            found = [entry.name for entry in self.path.iterdir() if entry.is_file()]
        self.members = sorted(member for member in found if not _is_hidden(member))
        odd = next((member for member in self.members if not member.isprintable()), None)
        if odd is not None:
            # Names go into tables and onto terminals, where they must not be anything but names.
            raise FormatError(
                f"{self._file} has a file named {show(odd)}; expected names without tabs, line breaks and other signs "
                "that cannot be printed: rename it"
            )

    def __getstate__(self) -> dict[str, Any]:
        # An open file cannot be pickled; it is opened again when a file is asked for.
        return {**self.__dict__, "_archive": None}

    def within(self, folder: str) -> "FileSource | None":
        """Return the files of a folder in the folder or archive, at any depth of an archive; None if there is none."""
        if not self.packed:
            inner = self.path / folder
            return FileSource(inner) if self.several and inner.is_dir() else None
        found = {member[: -len(rest) - 1] for member in self.members for rest in _below(member, folder)}
        if len(found) > 1:
            first, second = sorted(found)[:2]
            raise FormatError(
                f"{self.path} has the folders {first} and {second}; expected one that is called {folder}: rename one"
            )
        if not found:
            return None
        inside = object.__new__(FileSource)
        inside.__dict__.update(self.__dict__)
        place = found.pop()
        inside.path = Path(self.shown(place))
        inside.members = [member for member in self.members if member.startswith(f"{place}/")]
        return inside

    def find(self, name: str) -> str | None:
        """Return the file of a name, in whatever folder of an archive, None if there is none."""
        found = [member for member in self.members if member.rpartition("/")[2] == name] if self.several else []
        if len(found) > 1:
            raise FormatError(
                f"{self.path} has {found[0]} and {found[1]}; expected one file that is called {name}: remove or rename "
                "one"
            )
        return found[0] if found else None

    def shown(self, member: str) -> str:
        """Return a file as messages show it."""
        if self.packed:
            return f"{self._file}:{member}"
        return str(self.path / member if self.several else self.path)

    def read(self, member: str, limit: int) -> bytes:
        """Return the contents of a file; raise if there are more bytes than `limit`."""
        if not self.packed:
            file = self.shown(member)
            self._check_size(member, os.path.getsize(file), limit)
            return Path(file).read_bytes()
        try:
            archive = self._open_archive()
            info = archive.getinfo(member)
            self._check_size(member, info.file_size, limit)
            if info.compress_type not in _METHODS:
                raise FormatError(
                    f"{self.shown(member)} is packed by method {info.compress_type}; expected files that are stored or "
                    "deflated: make the archive again"
                )
            with archive.open(info) as handle:
                # The announced size can be a lie.
                data = handle.read(limit + 1)
        except FormatError:
            raise
        except Exception as error:
            # A damaged archive fails in as many ways as the format and its compressions have parts.
            raise self._broken(error) from error
        self._check_size(member, len(data), limit)
        return data

    def _check_size(self, member: str, n_bytes: int, limit: int) -> None:
        if n_bytes > limit:
            raise FormatError(
                f"{self.shown(member)} has {n_bytes} bytes; expected at most {limit}: make the file smaller"
            )

    def _open_archive(self) -> zipfile.ZipFile:
        if self._archive is None:
            self._archive = zipfile.ZipFile(self._stream or self._file)
            if self._stream is not None:
                weakref.finalize(self._archive, self._stream.close)
        return self._archive

    def _list_archive(self) -> list[str]:
        try:
            infos = [info for info in self._open_archive().infolist() if not info.is_dir()]
        except Exception as error:
            if self._stream is not None:
                self._stream.close()
            raise self._broken(error) from error
        for info in infos:
            # Nothing is unpacked, but what is called so was not packed by a friend.
            if info.filename.startswith("/") or ".." in info.filename.split("/") or "\\" in info.filename:
                raise FormatError(
                    f"{self._file} has a file named {show(info.filename)}, which leads out of the archive; expected "
                    "names within it: make the archive again"
                )
            if stat.S_ISLNK(info.external_attr >> 16):
                raise FormatError(
                    f"{self._file} has the link {show(info.filename)}; expected files: put in what it leads to"
                )
        return [info.filename for info in infos]

    def _broken(self, error: Exception) -> FormatError:
        return FormatError(
            f"{self._file} cannot be read ({type(error).__name__}: {show(str(error), 120)}); expected a complete zip "
            "archive of images: fetch it again"
        )


def _is_hidden(member: str) -> bool:
    return member.rpartition("/")[2].startswith(".") or _LITTER in member


def _below(member: str, folder: str) -> list[str]:
    """Return what follows the folders of a name in the path of a file."""
    parts = member.split("/")
    return ["/".join(parts[k + 1 :]) for k, part in enumerate(parts[:-1]) if part == folder][:1]


def _keep_standard_input() -> IO[bytes]:
    """Return standard input as a file in which one can go back and forth, as archives ask for."""
    # It lives as long as the images that are read from it.
    kept = tempfile.TemporaryFile()  # noqa: SIM115
    size = 0
    while part := sys.stdin.buffer.read(_CHUNK):
        size += len(part)
        if size > MAX_STREAM_BYTES:
            kept.close()
            raise FormatError(
                f"standard input has more than {MAX_STREAM_BYTES} bytes; expected a zip archive of at most that many: "
                "write it to a file and give its name"
            )
        kept.write(part)
    if not size:
        kept.close()
        raise FormatError("standard input is empty; expected a zip archive of images: give a file, or fill the pipe")
    return kept
