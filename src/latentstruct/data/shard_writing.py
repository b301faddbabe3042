"""Preparing examples block by block into files."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.validation import check_sparse
from latentstruct.data import shard_files as files
from latentstruct.exceptions import Description, InputError
from latentstruct.parallel.shards import length_of, part_of
from latentstruct.persistence.atomic_files import (
    file_lock,
    output_errors,
    remove_left_over,
    replace_files,
    require_own_folder,
)
from latentstruct.tasks.base import BaseTask, defines

Blocks = Iterable[tuple[Any, Any]]


def folder_to_write(folder: Any) -> Path:
    """Return a folder that is new, empty, or holds an earlier data set."""
    path = files.checked_folder(folder)
    require_own_folder(path, "folder", files.MANIFEST, files.FORMAT, files.LEFT_OVER, files.OWN_FOLDER)
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against concurrent writers, if the file system has locks."""
    with ExitStack() as stack:
        try:
            stack.enter_context(file_lock(folder / files.LOCK, wait=False))
        except BlockingIOError as error:
            raise InputError(
                "folder", Description(str(folder)), "a folder to which no other process is writing"
            ) from error
        yield


def require_storable(task: BaseTask) -> None:
    """Raise unless a task can write its examples to files, and can be restored from what it learned."""
    if not (isinstance(task, BaseTask) and defines(task, "pack") and task.tags.storable):
        expected = f"one whose examples can be stored in files ({', '.join(packing_tasks())})"
        raise InputError("task", task, expected, "A custom task must define pack and unpack.")
    if defines(task, "state") and not defines(task, "restore"):
        got = Description(f"{type(task).__name__} with state only")
        raise InputError("task", got, "one that defines both state and restore")


def require_small_tables(task: BaseTask) -> None:
    """Raise if what a task learned is too large to be opened again."""
    from latentstruct.persistence.models import check_tables

    try:
        check_tables(None if is_own(task) else task.state())
    except ValueError as error:
        hint = "Merge labels, or train on examples in memory."
        raise InputError("task", Description(str(error)), "small enough to be stored", hint) from error


def packing_tasks() -> list[str]:
    """Return the names of the built-in tasks that can be stored."""
    from latentstruct import tasks

    return [name for name in tasks.__all__ if getattr(tasks, name).tags.storable]


def is_own(task: BaseTask) -> bool:
    """Return whether a task is defined by the user, so that no file can name it."""
    from latentstruct.persistence.models import in_library

    return not in_library(task)


def has_learned(task: BaseTask) -> bool:
    """Return whether a task knows its labels and number of features."""
    try:
        return hasattr(task, "n_features") and (not defines(task, "state") or task.state() is not None)
    except AttributeError:
        return False


def repeatable(blocks: Any) -> Callable[[], Iterator[tuple[Any, Any]]]:
    """Return a function that iterates over the checked blocks each time it is called."""
    if isinstance(blocks, str | bytes | Mapping) or not (callable(blocks) or hasattr(blocks, "__iter__")):
        raise InputError("blocks", blocks, "an iterable of pairs (X, Y), or a function that returns one")
    once = not callable(blocks) and iter(blocks) is blocks
    used = False

    def again() -> Iterator[tuple[Any, Any]]:
        nonlocal used
        if once and used:
            expected = "a list or a function that returns an iterator, for a task that has not learned"
            raise InputError("blocks", blocks, expected, "They are read twice.")
        used = True
        found, empty = False, None
        for number, block in enumerate(blocks() if callable(blocks) else blocks):
            if not isinstance(block, tuple | list) or len(block) != 2:
                raise InputError(f"blocks[{number}]", block, "a pair (X, Y)")
            X, Y = block
            if issparse(X):
                check_sparse(X, f"X of block {number}")
            if length_of(X) == 0 and (Y is None or length_of(Y) == 0):
                empty = X, Y
                continue
            found = True
            yield X, Y
        if not found:
            if empty is None:
                raise InputError("blocks", blocks, "at least one pair (X, Y)")
            # The task raises the error for an empty data set.
            yield empty

    return again


def learn(task: BaseTask, again: Callable[[], Iterator[tuple[Any, Any]]]) -> None:
    """Let a task learn from all blocks."""
    if defines(task, "learn_blocks"):
        task.learn_blocks(_with_outputs(again()))
        return
    hint = f"{type(task).__name__} cannot learn from blocks. Call its learn(X, Y) with representative examples first."
    raise InputError("task", task, "one that has learned", hint)


def _with_outputs(blocks: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for number, (X, Y) in enumerate(blocks):
        if Y is None:
            hint = "Or use a task that has learned, such as that of a trained model."
            raise InputError(f"blocks[{number}]", Description("no outputs"), "a pair (X, Y) with outputs", hint)
        yield X, Y


def write_shards(
    folder: Path, task: BaseTask, blocks: Iterator[tuple[Any, Any]], goal: float
) -> tuple[list[files.Shard], bool]:
    """Write blocks, joined or divided, to files of about `goal` bytes; return whether they have outputs."""
    shards: list[files.Shard] = []
    waiting: list[tuple[Any, Any]] = []
    labeled: bool | None = None
    n_waiting, per_example = 0, math.nan
    for X, Y in blocks:
        if labeled not in (None, Y is not None):
            raise InputError(
                "blocks", Description("outputs in some blocks only"), "blocks that all have outputs, or none"
            )
        labeled = Y is not None
        n_examples = length_of(X)
        if math.isnan(per_example):
            packed = task.pack(task.prepare(X, Y))
            per_example = sum(array.nbytes for array in packed.values()) / n_examples
        waiting.append((X, Y))
        n_waiting += n_examples
        if n_waiting * per_example >= goal:
            made = _write_joined(folder, task, waiting, len(shards), goal / per_example)
            shards += made
            per_example = sum(one.n_bytes for one in made) / sum(one.n_examples for one in made)
            waiting, n_waiting = [], 0
    if waiting:
        shards += _write_joined(folder, task, waiting, len(shards), goal / per_example)
    return shards, bool(labeled)


def _write_joined(
    folder: Path, task: BaseTask, blocks: list[tuple[Any, Any]], first: int, examples_each: float
) -> list[files.Shard]:
    """Write the examples of some blocks to one or more files."""
    X = _joined([x for x, _ in blocks])
    Y = None if blocks[0][1] is None else _joined([y for _, y in blocks])
    n_examples = length_of(X)
    n_files = max(1, round(n_examples / max(examples_each, 1.0)))
    bounds = np.linspace(0, n_examples, n_files + 1).round().astype(int).tolist()
    shards = []
    for k, (start, stop) in enumerate(pairwise(bounds)):
        # Errors name examples by their position in the block that is prepared.
        batch = task.prepare(part_of(X, start, stop), None if Y is None else part_of(Y, start, stop))
        arrays = {name: np.ascontiguousarray(array) for name, array in task.pack(batch).items()}
        # Data that cannot be read again must fail here, not days later.
        task.unpack(arrays)
        shards.append(_write_shard(folder, arrays, first + k, batch.n_examples))
    return shards


def _joined(parts: list[Any]) -> Any:
    """Return the examples, or outputs, of several blocks as one collection."""
    if len(parts) == 1:
        return parts[0]
    if any(issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    # Tables of other libraries may iterate over columns instead of rows.
    parts = [np.asarray(part) if len(getattr(part, "shape", ())) > 1 else part for part in parts]
    arrays = all(isinstance(part, np.ndarray) for part in parts)
    if arrays and len({(part.shape[1:], part.dtype.kind) for part in parts}) == 1:
        return np.concatenate(parts)
    return [item for part in parts for item in part]


def _write_shard(folder: Path, arrays: dict[str, NDArray[Any]], number: int, n_examples: int) -> files.Shard:
    """Write one file. Its name contains its checksum, so that no file of an earlier data set is overwritten."""
    raw = save(arrays)
    digest = hashlib.sha256(raw).hexdigest()
    name = f"shard-{number:05d}-{digest[:16]}.safetensors"
    with output_errors(folder):
        replace_files({folder / name: [raw]})
    return files.Shard(name, n_examples, len(raw), digest)


def manifest_bytes(task: BaseTask, shards: list[files.Shard], labeled: bool, extra: Any) -> bytes:
    """Return the contents of data.json; raise if the task or `extra` cannot be written as JSON."""
    from latentstruct import __version__
    from latentstruct.persistence.models import encode

    params = None if is_own(task) else encode(task, "task")
    state = encode(task.state(), "state") if defines(task, "state") else None
    manifest = files.Manifest(
        files.FORMAT, files.VERSION, __version__, type(task).__name__, params, state, labeled, shards, extra
    )
    try:
        return msgspec.json.encode(manifest)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError("task", Description(str(error)), "made of labels and parameters that JSON can hold") from error


def finish(folder: Path, task: BaseTask, shards: list[files.Shard], labeled: bool, extra: Any) -> None:
    """Write the manifest, which makes the new data set replace an earlier one."""
    raw = manifest_bytes(task, shards, labeled, extra)
    with output_errors(folder):
        replace_files({folder / files.MANIFEST: [raw]})


def remove_others(folder: Path, kept: set[str]) -> None:
    """Remove files of earlier or unfinished data sets."""
    remove_left_over(folder)
    for entry in folder.iterdir():
        if files.LEFT_OVER.fullmatch(entry.name) and entry.name not in kept:
            entry.unlink()
