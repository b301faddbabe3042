"""What the commands share: errors as one line and an exit code, folders and streams."""

import math
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from latentstruct.cli.interrupts import NOTHING_WRITTEN, exit_code, on_interrupt, remember
from latentstruct.cli.wording import in_words_of_the_command
from latentstruct.exceptions import InputError
from latentstruct.persistence.atomic_files import PREFIX, is_temporary, probe_folder, write_output
from latentstruct.progress.display import say

STANDARD_STREAM = "-"
BAD_INPUT = 2


@contextmanager
def reported_errors() -> Iterator[None]:
    """Turn errors of the input and of the system into one line and an exit code."""
    try:
        yield
    except BrokenPipeError:
        # The reader of a pipe went away; typer ends the command without a word.
        raise
    except InputError as error:
        say(f"error: {in_words_of_the_command(str(error))}")
        raise typer.Exit(BAD_INPUT) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"error: {where}{error.strerror or error}")
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as error:
        say(NOTHING_WRITTEN)
        raise typer.Exit(exit_code()) from error


def say_warnings(texts: Iterable[str]) -> None:
    """Tell warnings of the library."""
    for text in texts:
        say(f"warning: {in_words_of_the_command(text)}")


class _Ended(BaseException):
    """Ctrl-C where training must not take it for a wish to go on with what it has."""


@contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the block even within training, which would otherwise stop early and hand back its weights."""

    def end(number: int, frame: FrameType | None) -> None:
        remember(number, frame)
        raise _Ended

    try:
        with on_interrupt(end):
            yield
    except _Ended as error:
        raise KeyboardInterrupt from error


def check_folder(folder: Path, mark: str | None, what: str) -> None:
    """Raise unless results can be written to the folder later on.

    `mark` is a file that must be there if the folder holds anything.
    """
    if folder.exists():
        if not folder.is_dir():
            raise InputError(f"{folder} is a file, but {what}: choose another name")
        others = (path for path in folder.iterdir() if not is_temporary(path.name))
        if mark is not None and any(others) and not (folder / mark).exists():
            raise InputError(f"{folder} holds other files and no {mark}: choose a new or empty folder")
    ancestor = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not ancestor.is_dir():
        raise InputError(f"{folder} cannot be made, as {ancestor} is a file: choose another name")
    try:
        # Permissions do not tell: some file systems are read-only or take no folders, whoever asks.
        os.rmdir(tempfile.mkdtemp(prefix=PREFIX, dir=ancestor))
        probe_folder(ancestor)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written, as nothing can be made in {ancestor} ({error.strerror or error}): choose "
            "another place"
        ) from error


def check_output(output: str, inputs: Iterable[str | Path]) -> None:
    """Raise if a file that is to be written is one of those that are read."""
    if output == STANDARD_STREAM or not os.path.isfile(output):
        return
    for name in inputs:
        if str(name) != STANDARD_STREAM and os.path.exists(name) and os.path.samefile(name, output):
            raise InputError(f"the output {output} is the input {name}, which would be lost: write to another file")


def check_one_stream(*files: str | None) -> None:
    """Raise if more than one of the files that are read is standard input."""
    if files.count(STANDARD_STREAM) > 1:
        raise InputError("- is given twice; expected it once, as standard input can be read once: give a file instead")


def write_lines(name: str, lines: Sequence[str]) -> None:
    """Write lines to a file or to standard output."""
    text = "".join(f"{line}\n" for line in lines)
    if name == STANDARD_STREAM:
        sys.stdout.write(text)
    else:
        write_output(name, text.encode())


def unknown_label(where: str, label: Any, known: Set[Any], mark: str | None = None) -> InputError:
    """Return the error of a label that was not in the training data; `mark` is what stands for unknown ones."""
    marked = "" if mark is None else f", or {mark!r} where it is not known"
    return InputError(
        f"{where} has the unknown label {label!r}; expected one of {list_labels(known)}{marked}: correct it, "
        "train on data that has it, or count it as wrong with --allow-unknown"
    )


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
