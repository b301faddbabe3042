"""Shared by all commands: errors as one line and an exit code, output folders and streams."""

import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from latentstruct.cli.interrupts import NOTHING_WRITTEN, exit_code, on_interrupt, remember
from latentstruct.exceptions import Description, FormatError, InputError, rename_parameters
from latentstruct.persistence.atomic_files import PREFIX, is_temporary, probe_folder, write_output
from latentstruct.progress.display import say

STANDARD_STREAM = "-"
BAD_INPUT = 2
MANIFEST = "data.json"
NOTHING = Description("nothing")
"""What an error shows for an option that was not given."""


OptionName = Callable[[str], str | None]
_option_name: ContextVar[OptionName] = ContextVar("option_name", default=lambda parameter: None)


@contextmanager
def reported_errors(option_name: OptionName) -> Iterator[None]:
    """Turn errors of the input and of the system into one line and an exit code.

    `option_name` returns the option that sets a parameter, None if there is none. Errors and warnings name it.
    """
    token = _option_name.set(option_name)
    try:
        yield
    except BrokenPipeError:
        # The reader of a pipe went away; typer ends the command without a message.
        raise
    except InputError as error:
        say(f"error: {error.render(option_name)}")
        raise typer.Exit(BAD_INPUT) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"error: {where}{error.strerror or error}")
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as error:
        say(NOTHING_WRITTEN)
        raise typer.Exit(exit_code()) from error
    finally:
        _option_name.reset(token)


def say_warnings(texts: Iterable[str]) -> None:
    """Print warnings of the library; parameters in backticks become options."""
    for text in texts:
        say(f"warning: {rename_parameters(text, _option_name.get())}")


class _Ended(BaseException):
    """Ctrl-C where training must not stop early and return its weights."""


@contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the block even during training, which would otherwise stop early and return its weights."""

    def end(number: int, frame: FrameType | None) -> None:
        remember(number, frame)
        raise _Ended

    try:
        with on_interrupt(end):
            yield
    except _Ended as error:
        raise KeyboardInterrupt from error


def check_folder(folder: Path, mark: str | None = None, parameter: str = "output") -> None:
    """Raise unless results can be written to the folder later on.

    `mark` is a file that must be there if the folder is not empty; `parameter` is named in errors.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(parameter, str(folder), "a folder", "This is a file.")
    others = (path for path in folder.iterdir() if not is_temporary(path.name)) if folder.exists() else ()
    if mark is not None and not (folder / mark).exists() and any(others):
        raise InputError(parameter, str(folder), f"a new or empty folder, or one with {mark}")
    ancestor = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not ancestor.is_dir():
        raise InputError(parameter, str(folder), "a folder that can be created", f"{ancestor} is a file.")
    try:
        # Permissions are not enough: some file systems are read-only or take no folders.
        os.rmdir(tempfile.mkdtemp(prefix=PREFIX, dir=ancestor))
        probe_folder(ancestor)
    except OSError as error:
        why = f"Nothing can be created in {ancestor} ({error.strerror or error})."
        raise InputError(parameter, str(folder), "a place that can be written", why) from error


def check_output(output: str, inputs: Iterable[str | Path], parameter: str = "output") -> None:
    """Raise if a file to be written is one of those that are read."""
    if output == STANDARD_STREAM or not os.path.isfile(output):
        return
    for name in inputs:
        if str(name) != STANDARD_STREAM and os.path.exists(name) and os.path.samefile(name, output):
            raise InputError(parameter, output, "another file than the input", f"{name} would be overwritten.")


def check_one_stream(**files: str | None) -> None:
    """Raise if more than one of the files that are read is standard input."""
    _, *again = [name for name, file in files.items() if file == STANDARD_STREAM] or [""]
    for name in again:
        raise InputError(name, STANDARD_STREAM, "a file", "Standard input (-) can be read only once.")


def is_prepared(name: str | Path) -> bool:
    """Return whether data are a folder of `latentstruct prepare`."""
    return os.path.isfile(os.path.join(name, MANIFEST))


def refuse_prepared(**files: str | None) -> None:
    """Raise if one of the files to be read is a folder of prepared data."""
    for name, file in files.items():
        if file is not None and is_prepared(file):
            raise InputError(name, file, "a plain file", "This is a folder of prepared data.")


def write_lines(name: str, lines: Sequence[str]) -> None:
    """Write lines to a file or to standard output."""
    text = "".join(f"{line}\n" for line in lines)
    if name == STANDARD_STREAM:
        sys.stdout.write(text)
    else:
        write_output(name, text.encode())


def located(error: InputError, where: str) -> FormatError:
    """Return an error of the library about an example as the error of its place in a file."""
    return FormatError(where, error.got, error.expected, error.hint)


def unknown_label(where: str, label: Any, known: Set[Any], mark: str | None = None) -> FormatError:
    """Return the error of a label that was not in the training data; `mark` marks unknown labels."""
    marked = "" if mark is None else f" or {mark!r}"
    hint = "Correct it, train on data with this label, or count it as wrong with --allow-unknown."
    return FormatError(where, label, f"a label of the model ({list_labels(known)}){marked}", hint)


def list_labels(labels: Iterable[Any]) -> str:
    """Return labels for a message: the first 30, sorted as numbers if all of them are numbers."""
    shown = sorted({str(label) for label in labels})
    try:
        values = {text: float(text) for text in shown}
    except ValueError:
        values = {}
    if all(map(math.isfinite, values.values())):
        shown.sort(key=lambda text: values.get(text, 0.0))
    return ", ".join(shown[:30]) + (f", … ({len(shown)} in all)" if len(shown) > 30 else "")
