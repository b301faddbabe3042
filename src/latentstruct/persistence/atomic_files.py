"""Atomic file replacement, the only way in which the library writes its files.

A file is written under a temporary name in its folder, synchronized to the disk and then renamed. A reader sees the old
content or the new one, and a crash at any point keeps one of them.
"""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from latentstruct.exceptions import Description, FormatError, InputError

PREFIX, SUFFIX = ".latentstruct-", ".part"
"""Start of the names of temporary files and locks, and end of those of temporary files."""
PROBE_BYTES = 1 << 16
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of file systems without advisory locks."""


def is_temporary(name: str) -> bool:
    """Return whether a file is a temporary file or a lock of the library."""
    return name.startswith(PREFIX)


def check_regular(path: Path) -> None:
    """Raise OSError for anything but a regular file: reading a pipe or a device may never end."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no file")


def require_own_folder(
    folder: Path, parameter: str, mark: str, format: str, left_over: re.Pattern[str], expected: str
) -> None:
    """Raise unless a folder is new or empty, or a writer may replace what is in it.

    Each such folder has the JSON file `mark` with the value `format` of "format". An interrupted writer may leave files
    whose names match `left_over`. Errors name `parameter`, and `expected` as the expected folder.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(parameter, Description(f"the file {folder}"), "a folder")
    # Listed once, because another process may be writing. A dangling link is listed too.
    names = os.listdir(folder) if folder.is_dir() else []
    others = sorted(name for name in names if not (is_temporary(name) or left_over.fullmatch(name)))
    if mark in names and not _has_format(folder / mark, format):
        raise InputError(parameter, Description(f"{folder} with another {mark}, which would be lost"), expected)
    if mark not in names and others:
        raise InputError(parameter, Description(f"{folder} with other files such as {others[0]!r}"), expected)


def _has_format(path: Path, format: str) -> bool:
    """Return whether a JSON file states a format."""
    import msgspec

    try:
        check_regular(path)
        found: Any = msgspec.json.decode(path.read_bytes(), type=dict[str, Any]).get("format")
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return bool(found == format)


def replace_files(contents: Mapping[Path, Iterable[Any]]) -> None:
    """Write files, given as chunks, so that each appears complete. None is replaced unless all could be written.

    Files are replaced in this order, and each is on the disk before the next.
    """
    partial: dict[Path, Path] = {}
    with ExitStack() as stack:
        try:
            for path, chunks in contents.items():
                file = _temporary_file(path.parent, stack)
                partial[path] = Path(file.name)
                if path.exists():
                    shutil.copymode(path, file.name)
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            for path, written in partial.items():
                os.replace(written, path)
                _sync_folder(path.parent)
        except BaseException:
            for written in partial.values():
                with suppress(OSError):
                    written.unlink()
            raise


def write_output(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file that the user named. Links are followed, and pipes and devices are written to directly.

    If the file cannot be written, a FormatError is raised and an existing file is unchanged.
    """
    target = Path(os.path.realpath(path))
    with output_errors(path):
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        remove_left_over(target.parent)
        replace_files({target: [data]})


@contextmanager
def output_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of the file system to a FormatError of the output."""
    try:
        yield
    except OSError as error:
        raise output_error(path, error) from error


def output_error(path: str | os.PathLike[str], error: OSError, consequence: str = "") -> FormatError:
    """Return the error of an output that cannot be written."""
    got = Description(f"{error.strerror or error}{consequence}")
    return FormatError(path, got, "a writable path on a disk with free space")


def probe_folder(folder: Path) -> None:
    """Raise OSError unless a small file can be written to the folder."""
    remove_left_over(folder)
    with ExitStack() as stack:
        file = _temporary_file(folder, stack)
        try:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
        finally:
            os.unlink(file.name)


def remove_left_over(folder: Path) -> None:
    """Remove temporary files whose writers have died. A live writer holds a lock on its file."""
    for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
        # Another process may have renamed or removed it, or hold the lock.
        with suppress(OSError), open(path, "rb+") as file:
            if _lock(file, wait=False):
                path.unlink()


@contextmanager
def file_lock(path: Path, wait: bool) -> Iterator[bool]:
    """Hold an exclusive lock between processes and threads. The lock file exists only while it is held.

    Yields whether the file system has locks; raises BlockingIOError if the lock is held elsewhere and `wait` is False.
    The system releases the lock of a process that dies.
    """
    while True:
        with open(path, "ab") as file:
            held = _lock(file, wait)
            if held and not is_at(file, path):
                # The previous holder removed this file when it released the lock.
                continue
            try:
                yield held
            finally:
                path.unlink(missing_ok=True)
            return


def _temporary_file(folder: Path, stack: ExitStack) -> IO[bytes]:
    """Create a locked file with a unique name."""
    while True:
        path = folder / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
        file = stack.enter_context(path.open("xb"))
        _lock(file, wait=True)
        # Another process may have removed it as a stale file before it was locked.
        if os.path.lexists(file.name):
            return file


def _lock(file: IO[bytes], wait: bool) -> bool:
    """Lock an open file until it is closed. Return False if the system has no such locks."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


def is_at(file: IO[bytes], path: Path) -> bool:
    """Return whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    """Synchronize the names in a folder to the disk, if the system supports it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems synchronize files only.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)
