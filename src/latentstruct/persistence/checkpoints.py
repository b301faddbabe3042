"""Checkpoints: an interrupted training resumes from a file and reaches the same weights bit for bit.

The file is a safetensors file: arrays by their path in a state tree, all else as text in its header, with a checksum
over both. It appears complete or not at all, and nothing in it is executed.
"""

import errno
import hashlib
import json
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from latentstruct.core.callers import user_stacklevel
from latentstruct.core.formatting import repr_short
from latentstruct.core.protocols import Checkpointer
from latentstruct.core.validation import real
from latentstruct.exceptions import CheckpointError, Description, FormatError, InputError
from latentstruct.persistence.atomic_files import probe_folder, replace_files
from latentstruct.persistence.state_trees import Tree, checked_dict, join_tree, split_tree

FORMAT, VERSION = "latentstruct-checkpoint", 1
# Hexadecimal digits of the shortest checksum.
CHECKSUM_LETTERS = 32
NAMES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float32": "F32",
    "float64": "F64",
}
"""Types of arrays in safetensors files."""
LOST = (
    "the last good one is intact, but the iterations since it was written are lost",
    "there is no earlier one, so that the iterations so far are lost",
)
"""What is lost if a checkpoint of a running training cannot be written, with an earlier checkpoint and without."""
DAMAGES = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""Errors of reading an invalid tree."""


@dataclass
class NestedCheckpointer:
    """The checkpointer of an inner solver, whose state is stored with that of the outer one."""

    outer: Checkpointer  # that of the outer solver
    wrap: Callable[[Tree], Tree]  # returns the tree of both for the tree of the inner solver
    saved: Tree = None  # state of the inner solver
    # Whether the outer solver ends when the inner one does. Otherwise only reasons that end both are passed on.
    lasting: bool = False

    @property
    def name(self) -> str:
        """Where the state came from."""
        return self.outer.name

    def save(self, make_tree: Callable[[], Tree], ended: str = "") -> None:
        """Pass the state to the outer checkpointer."""
        self.outer.save(lambda: self.wrap(make_tree()), ended if self.lasting or ended in ENDING_BOTH else "")


ENDING_BOTH = ("callback", "max_seconds")
REMOVE_FILE = "Remove the file to start again."


class TaskError(Exception):
    """Carries an error that a task raised while a state was read."""


@contextmanager
def task_errors() -> Iterator[None]:
    """Mark errors of this block as not caused by the file, for `restoring`."""
    try:
        yield
    except DAMAGES as error:
        raise TaskError(error) from error


@contextmanager
def restoring(checkpointer: Checkpointer) -> Iterator[None]:
    """Convert errors of an invalid state to one that names the file."""
    try:
        yield
    except TaskError as carrier:
        error = carrier.args[0]
        raise error from error.__cause__
    except DAMAGES as error:
        got = Description(repr_short(error, 160))
        raise FormatError(checkpointer.name, got, "a state of this solver", REMOVE_FILE) from error


@dataclass(frozen=True)
class Checkpoint:
    """File and interval for storing the state of a training.

    ``fit(X, Y, checkpoint=path)`` is short for ``fit(X, Y, checkpoint=Checkpoint(path))``. If the file exists, training
    resumes from it and ends with the same weights as without the interruption, bit for bit; otherwise training starts
    and writes it. A file of other data or parameters raises InputError. `max_iter`, `max_seconds`, `n_jobs`,
    `executor`, `verbose` and `warm_start` may differ, so that a training that reached a limit continues with a larger
    one (`max_iter` of `SelfPaced` may not: its iterations precede the last one, on all examples). The file stays when
    training has ended: the same fit then returns immediately.

    With several starts the file holds the current one and the results of those before it. A larger
    `max_iter` therefore continues the last start only, even if earlier ones reached the old limit.

    Parameters
    ----------
    path : path
        The file; its folder must exist.
    every : float, default=30.0
        Minimum seconds between two checkpoints. One is also written when training ends by itself. After Ctrl-C, which
        may come in the middle of an iteration, the last one is kept.

    Notes
    -----
    A checkpoint that cannot be written, for instance on a full disk, ends the training with `CheckpointError`, and the
    last good one is kept. If training has already ended, a warning is issued instead, because the model is complete.
    """

    path: str | PathLike[str]
    every: float = 30.0

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | PathLike) or not str(self.path):
            raise InputError("checkpoint", self.path, "the path of a file")
        real(0.0, closed="both").check(self.every, "every")


@dataclass
class FileCheckpointer:
    """Stores the state of one training in a file."""

    checkpoint: Checkpoint  # file and interval
    identity: dict[str, dict[str, str]]  # description of the training: see `read_checkpoint`

    def __post_init__(self) -> None:
        path = Path(self.checkpoint.path)
        self.name = str(path)
        probe(path)
        self.saved: Tree = read_checkpoint(path, self.identity) if path.exists() else None
        self._written_at = time.monotonic()

    def save(self, make_tree: Callable[[], Tree], ended: str = "") -> None:
        """Write the state if it is due."""
        if not ended and time.monotonic() - self._written_at < self.checkpoint.every:
            return
        try:
            write_checkpoint(Path(self.checkpoint.path), make_tree(), self.identity, bool(ended))
        except CheckpointError as error:
            if not ended:
                raise
            message = f"training has ended, but its last state was not written: {error} Save the model."
            warnings.warn(message, UserWarning, stacklevel=user_stacklevel())
        self._written_at = time.monotonic()


def iterations_in(tree: Tree) -> int:
    """Return the number of iterations of a state."""
    found = 0
    while isinstance(tree, dict):
        before, history = tree.get("iterations_before"), tree.get("history")
        if isinstance(before, int):
            # Those of the inner solver come after them.
            found += before
        elif isinstance(history, dict):
            return found + np.size(history.get("iteration", ()))
        tree = tree.get("inner")
    return found


def probe(path: Path) -> None:
    """Raise unless the file can be written."""
    if path.is_dir():
        raise InputError("checkpoint", Description(f"{path}, which is a folder"), "the path of a file")
    if not path.parent.is_dir():
        raise InputError("checkpoint", Description(str(path)), f"a file in an existing folder, unlike {path.parent}")
    with _writing(path, "the last good one is intact", "training has not begun"):
        probe_folder(path.parent)


@contextmanager
def _writing(path: Path, with_earlier: str, without: str) -> Iterator[None]:
    """Convert errors of the disk to one that states what is lost, with an earlier checkpoint or without."""
    try:
        yield
    except OSError as error:
        left = with_earlier if path.exists() else without
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise CheckpointError(
            "checkpoint",
            Description(f"{path} ({error.strerror or error}); {left}"),
            "a file that can be written",
            f"{'Free disk space' if full else 'Make the folder writable'} and fit again.",
        ) from error


def write_checkpoint(path: Path, tree: Tree, identity: dict[str, dict[str, str]], ended: bool = False) -> None:
    """Write a state tree, the last one if training has ended; the file appears complete or not at all."""
    from latentstruct import __version__

    plain, found = split_tree(tree)
    arrays = {name: np.ascontiguousarray(array) for name, array in found.items()}
    facts = {"format": FORMAT, "version": str(VERSION), "library": __version__}
    facts |= {"identity": json.dumps(identity), "tree": json.dumps(plain)}
    facts["sha256"] = _checksum(facts, arrays)
    header: dict[str, Any] = {"__metadata__": facts}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype.name], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    lost = ("the last good one is intact", "there is none") if ended else LOST
    with _writing(path, *lost):
        replace_files({path: [struct.pack("<Q", len(text)), text, *map(_bytes_of, arrays.values())]})


def _bytes_of(array: NDArray[Any]) -> memoryview | bytes:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def _checksum(facts: dict[str, str], arrays: dict[str, NDArray[Any]]) -> str:
    sums = hashlib.sha256()
    for name in sorted(facts):
        sums.update(f"{name}={facts[name]}\n".encode())
    for name in sorted(arrays):
        sums.update(f"{name}:{arrays[name].dtype.name}:{arrays[name].shape}\n".encode())
        sums.update(_bytes_of(arrays[name]))
    return sums.hexdigest()


def read_checkpoint(path: Path, identity: dict[str, dict[str, str]]) -> Tree:
    """Read a state tree of the training that `identity` describes: what is unchanged, by subject ("data", …) and name.

    FormatError is raised for a damaged or foreign file, InputError for one of another training.
    """
    try:
        with safe_open(path, "np") as file:
            facts = dict(file.metadata() or {})
            _check_version(path, facts)
            _check_identity(path, json.loads(facts["identity"]), identity)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        claimed = facts.pop("sha256")
        if _checksum(facts, arrays) != claimed:
            raise ValueError("the checksum differs")
        return join_tree(json.loads(facts["tree"]), arrays)
    except InputError:
        raise
    except (OSError, SafetensorError, MemoryError, *DAMAGES) as error:
        raise FormatError(path, Description(repr_short(error, 160)), "an undamaged checkpoint", REMOVE_FILE) from error


def _check_version(path: Path, facts: dict[str, str]) -> None:
    if facts.get("format") != FORMAT:
        raise FormatError(path, facts.get("format"), f"the format {FORMAT!r} of checkpoints", "Use another file.")
    if facts.get("version") != str(VERSION):
        written_by = f"It was written by latentstruct {facts.get('library')}."
        raise FormatError(
            path, facts.get("version"), f"version {VERSION} of checkpoints", f"{written_by} {REMOVE_FILE}"
        )


def _check_identity(path: Path, found: Any, wanted: dict[str, dict[str, str]]) -> None:
    """Raise an error that names what has changed."""
    if found == wanted:
        return
    differences = []
    for subject, present in wanted.items():
        before = checked_dict(checked_dict(found)[subject])
        for name in sorted(before.keys() | present.keys()):
            old, new = before.get(name), present.get(name)
            if old != new:
                differences.append(f"{name} of the {subject}{_describe_change(old, new)}")
    shown = "; ".join(differences[:6]) or "no details"
    raise InputError(
        "checkpoint",
        Description(f"{path} of another training ({shown})"),
        "a checkpoint of this training",
        f"Use the data and parameters that it was started with. {REMOVE_FILE}",
    )


def _describe_change(old: Any, new: Any) -> str:
    """Return the old and new value as text; empty for checksums, which are not informative."""
    if any(value is not None and len(str(value)) >= CHECKSUM_LETTERS for value in (old, new)):
        return ""
    return f" (was {old or 'absent'}, is {new or 'absent'})"
