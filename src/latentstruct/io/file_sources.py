"""Sources of several files: a folder, a zip archive, a zip archive on standard input, or a single file."""

import os
import stat
import sys
import tempfile
import weakref
import zipfile
from pathlib import Path
from typing import IO, Any

from latentstruct.core.formatting import repr_short
from latentstruct.exceptions import Description, FormatError
from latentstruct.io.text import MAX_STREAM_BYTES, STANDARD_STREAM, STDIN, FilePath, path_text, source_name, too_large

__all__ = ["FileSource"]

_CHUNK = 2**20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Other methods allocate as much memory as the file states."""
_LITTER = "__MACOSX"
"""A folder that some systems add to archives, with files that are not images despite their names."""


class FileSource:
    """The files of a folder or of a zip archive, or a single one, read on demand.

    Subfolders of a folder are ignored; those of an archive are included. Nothing is unpacked to disk. ``-`` is a zip
    archive on standard input. `path` is the name in messages; it is `packed` if it is an archive, and has `several`
    files if it is a folder or an archive. `members` are the files, sorted, by their paths within the folder or archive,
    without hidden ones.
    """

    def __init__(self, path: FilePath) -> None:
        text = path_text(path)
        self.path = self._file = Path(source_name(text))
        self._archive: zipfile.ZipFile | None = None
        self._stream: IO[bytes] | None = None
        if text == STANDARD_STREAM:
            self._stream = _keep_standard_input()
        elif not os.path.exists(text):
            raise FormatError(text, Description("no such file"), "a folder or zip archive of images")
        folder = self._stream is None and self.path.is_dir()
        self.packed = self._stream is not None or (not folder and self.path.suffix.lower() == ".zip")
        self.several = folder or self.packed
        found = self._list_archive() if self.packed else [self.path.name]
        if folder:
            found = [entry.name for entry in self.path.iterdir() if entry.is_file()]
        self.members = sorted(member for member in found if not _is_hidden(member))
        odd = next((member for member in self.members if not member.isprintable()), None)
        if odd is not None:
            # Names are written to tables and terminals.
            raise FormatError(self._file, odd, "file names without tabs, line breaks and unprintable characters")

    def __getstate__(self) -> dict[str, Any]:
        # An open file cannot be pickled; it is opened again on demand.
        return {**self.__dict__, "_archive": None}

    def within(self, folder: str) -> "FileSource | None":
        """Return the files of a subfolder, at any depth of an archive; None if there is none."""
        if not self.packed:
            inner = self.path / folder
            return FileSource(inner) if self.several and inner.is_dir() else None
        found = {member[: -len(rest) - 1] for member in self.members for rest in _below(member, folder)}
        if len(found) > 1:
            first, second = sorted(found)[:2]
            raise FormatError(self.path, Description(f"{first} and {second}"), f"one folder {folder}")
        if not found:
            return None
        inside = object.__new__(FileSource)
        inside.__dict__.update(self.__dict__)
        place = found.pop()
        inside.path = Path(self.shown(place))
        inside.members = [member for member in self.members if member.startswith(f"{place}/")]
        return inside

    def find(self, name: str) -> str | None:
        """Return the file with a name, in any folder of an archive; None if there is none."""
        found = [member for member in self.members if member.rpartition("/")[2] == name] if self.several else []
        if len(found) > 1:
            raise FormatError(self.path, Description(f"{found[0]} and {found[1]}"), f"one file {name}")
        return found[0] if found else None

    def shown(self, member: str) -> str:
        """Return the name of a file in messages."""
        if self.packed:
            return f"{self._file}:{member}"
        return str(self.path / member if self.several else self.path)

    def read(self, member: str, limit: int) -> bytes:
        """Return the content of a file; raise if it has more than `limit` bytes."""
        if not self.packed:
            file = self.shown(member)
            self._check_size(member, os.path.getsize(file), limit)
            return Path(file).read_bytes()
        try:
            archive = self._open_archive()
            info = archive.getinfo(member)
            self._check_size(member, info.file_size, limit)
            if info.compress_type not in _METHODS:
                got = Description(f"compression method {info.compress_type}")
                raise FormatError(self.shown(member), got, "a stored or deflated file")
            with archive.open(info) as handle:
                # The stated size can be wrong.
                data = handle.read(limit + 1)
        except FormatError:
            raise
        except Exception as error:
            # A damaged archive raises exceptions of many types.
            raise self._broken(error) from error
        self._check_size(member, len(data), limit)
        return data

    def _check_size(self, member: str, n_bytes: int, limit: int) -> None:
        if n_bytes > limit:
            raise too_large(self.shown(member), limit)

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
            # Nothing is unpacked, but such names indicate a malicious archive.
            if info.filename.startswith("/") or ".." in info.filename.split("/") or "\\" in info.filename:
                raise FormatError(self._file, info.filename, "file names within the archive")
            if stat.S_ISLNK(info.external_attr >> 16):
                raise FormatError(self._file, Description(f"the link {repr_short(info.filename)}"), "files")
        return [info.filename for info in infos]

    def _broken(self, error: Exception) -> FormatError:
        got = Description(f"{type(error).__name__}: {repr_short(str(error), 120)}")
        return FormatError(self._file, got, "a complete zip archive of images")


def _is_hidden(member: str) -> bool:
    return member.rpartition("/")[2].startswith(".") or _LITTER in member


def _below(member: str, folder: str) -> list[str]:
    """Return what follows the folder in the path of a file."""
    parts = member.split("/")
    return ["/".join(parts[k + 1 :]) for k, part in enumerate(parts[:-1]) if part == folder][:1]


def _keep_standard_input() -> IO[bytes]:
    """Return standard input as a file with random access, which archives need."""
    # It is closed with the archive that is read from it.
    kept = tempfile.TemporaryFile()  # noqa: SIM115
    size = 0
    while part := sys.stdin.buffer.read(_CHUNK):
        size += len(part)
        if size > MAX_STREAM_BYTES:
            kept.close()
            raise too_large(STDIN, MAX_STREAM_BYTES, "Use a file instead.")
        kept.write(part)
    if not size:
        kept.close()
        raise FormatError(STDIN, Description("nothing"), "a zip archive of images")
    return kept
