"""Examples on disk, prepared once and read one file at a time, so that they need not fit into memory."""

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.memory import require
from latentstruct.core.protocols import Batch
from latentstruct.core.validation import copied
from latentstruct.data import shard_files as files
from latentstruct.data import shard_writing as writing
from latentstruct.exceptions import Description, FormatError, InputError

if TYPE_CHECKING:
    from latentstruct.tasks.base import BaseTask

__all__ = ["ShardedData"]


class LazyBatches(Sequence[Any]):
    """The prepared batches of a data set, opened on access; at most `most_bytes` of them stay open if not in use."""

    def __init__(self, open_batch: Callable[[int], Any], n_bytes: Sequence[int], most_bytes: float) -> None:
        self._open, self._n_bytes, self._most_bytes = open_batch, n_bytes, most_bytes
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._n_bytes)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[k] for k in range(len(self))[place]]
        number = range(len(self))[place]
        with self._lock:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        batch = self._open(number)
        with self._lock:
            self._kept[number] = batch
            while sum(self._n_bytes[k] for k in self._kept) > self._most_bytes:
                self._kept.popitem(last=False)
        return batch


class ShardedData:
    """A folder of prepared examples that need not fit into memory.

    Estimators accept it instead of X and Y: ``model.fit(data)``, ``model.predict(data)``, ``model.score(data)``. The
    files are read into memory one after the other; a file of 16 MB needs a few times its size while it is processed.
    A file that was modified or truncated raises FormatError when it is read.

    Parameters
    ----------
    folder : path
        Folder written by `write` or ``latentstruct prepare``.
    task : Task, optional
        Needed for a custom task: an equal task that has learned or that defines ``restore``.
    open_mb : float, default=32
        Maximum megabytes of files that stay in memory between uses.

    Attributes
    ----------
    task : Task
        The task that prepared the examples, with what it learned.
    sizes : list of int
        Number of examples of each file.
    n_examples : int
        Their sum.
    labeled : bool
        Whether the true outputs are known.
    batches : sequence of batches
        Opened on access.
    digest : str
        A checksum of the task and of all examples.
    extra : object
        Additional data stored with the examples.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from latentstruct import CRF, Multiclass, ShardedData
    >>> def blocks():  # called twice: to learn the classes, and to write the examples
    ...     for seed in range(3):
    ...         X = np.random.default_rng(seed).normal(size=(50, 4))
    ...         yield X, np.where(X[:, 0] > 0, "right", "left")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = ShardedData.write(folder, Multiclass(), blocks)
    ...     model = CRF(data.task).fit(data)
    ...     data.n_examples, model.score(data) > 0.9
    (150, True)
    """

    def __init__(self, folder: str | PathLike[str], task: "BaseTask | None" = None, open_mb: float = 32.0) -> None:
        # Workers of a cluster have other working folders.
        self.folder, self.open_mb = files.checked_folder(folder).absolute(), open_mb
        files.check_megabytes(open_mb, "open_mb", least=0.0)
        manifest = files.read_manifest(self.folder)
        self._shards, self.labeled, self.extra = manifest.shards, manifest.labeled, manifest.extra
        self.task = _restored_task(self.folder, manifest, task)
        self.sizes = [shard.n_examples for shard in self._shards]
        self.n_examples = sum(self.sizes)
        known = (manifest.task, manifest.params, manifest.state, [shard.sha256 for shard in self._shards])
        self.digest = hashlib.sha256(msgspec.json.encode(known)).hexdigest()
        self.n_bytes = sum(shard.n_bytes for shard in self._shards)
        self._own_task = task
        self._verified: dict[int, tuple[int, ...]] = {}
        self.batches = self.batches_for(self.task)

    def __len__(self) -> int:
        return self.n_examples

    def __repr__(self) -> str:
        return (
            f"ShardedData({str(self.folder)!r}): {type(self.task).__name__}, {self.n_examples} examples in "
            f"{len(self.sizes)} files, {self.n_bytes / files.MEGABYTE:.1f} MB"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (type(self), self.folder, self._own_task, self.open_mb, self.digest)

    def open(self, number: int, task: "BaseTask | None" = None) -> Batch:
        """Return one batch of prepared examples, read from disk and validated.

        Parameters
        ----------
        number : int
            Index of the file.
        task : Task, optional
            The task that unpacks the arrays; by default that of the data.
        """
        shard = self._shards[number]
        path = self.folder / shard.file
        task = self.task if task is None else task
        arrays = self._read(number)
        try:
            batch = task.unpack(arrays)
            if batch.n_examples != shard.n_examples or batch.labeled != self.labeled:
                got = Description(f"{batch.n_examples} {'' if batch.labeled else 'un'}labeled examples")
                expected = f"{shard.n_examples} {'' if self.labeled else 'un'}labeled examples"
                raise FormatError(path, got, expected, files.CURE)
        except FormatError:
            raise
        except InputError as error:
            raise FormatError(path, Description(str(error)), "arrays that can be unpacked", files.CURE) from error
        return batch

    def batches_for(self, task: "BaseTask") -> LazyBatches:
        """Return the batches for another task that has learned the same.

        Parameters
        ----------
        task : Task
            A task that differs only in parameters on which prepared examples do not depend.
        """
        sizes = [shard.n_bytes for shard in self._shards]
        return LazyBatches(lambda number: self.open(number, task), sizes, self.open_mb * files.MEGABYTE)

    def verify(self) -> None:
        """Read all files and raise a FormatError if one of them was modified."""
        self._verified.clear()
        for number in range(len(self._shards)):
            self.open(number)

    def _read(self, number: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of one file, read into memory: truncating a memory-mapped file would crash the process."""
        shard = self._shards[number]
        path = self.folder / shard.file
        with files.opened(path) as file:
            found = os.fstat(file.fileno())
            if found.st_size != shard.n_bytes:
                raise FormatError(path, Description(f"{found.st_size} bytes"), f"{shard.n_bytes} bytes", files.CURE)
            identity = (found.st_dev, found.st_ino, found.st_mtime_ns)
            require(shard.n_bytes, str(path), f"{shard.n_bytes} bytes", "Prepare the data with a smaller `shard_mb`.")
            content = np.empty(shard.n_bytes, dtype=np.uint8)
            try:
                n_read = file.readinto(content.data)
            except OSError as error:
                raise FormatError(path, Description(str(error.strerror)), "a readable file", files.CURE) from error
        if n_read != shard.n_bytes:
            raise FormatError(path, Description(f"{n_read} bytes"), f"{shard.n_bytes} bytes", files.CURE)
        if self._verified.get(number) != identity:
            if hashlib.sha256(content.data).hexdigest() != shard.sha256:
                raise FormatError(
                    path, Description("another checksum"), f"the file listed in {files.MANIFEST}", files.CURE
                )
            self._verified[number] = identity
        header, begin = files.read_header(path, content)
        return {name: files.array_of(path, name, entry, content, begin) for name, entry in header.items()}

    @classmethod
    def write(
        cls,
        folder: str | PathLike[str],
        task: "BaseTask",
        blocks: writing.Blocks | Callable[[], writing.Blocks],
        shard_mb: float = 16.0,
        extra: Any = None,
    ) -> "ShardedData":
        """Prepare examples block by block and write them to a folder, never all of them in memory.

        Parameters
        ----------
        folder : path
            Created if needed. An earlier data set there is replaced when the new one is complete.
        task : Task
            The structure. A task that has not learned yet learns from all blocks first; it is not modified.
        blocks : iterable of pairs (X, Y), or function that returns one
            The examples, some hundreds or thousands at a time; Y is None if outputs are unknown. For a task that
            has not learned they are iterated over twice: pass a list, or a function such as a generator function.
        shard_mb : float, default=16
            Approximate megabytes of a file. Blocks are joined or divided accordingly.
        extra : JSON-able, optional
            Stored with the examples, for instance the state of a feature extractor.

        Returns
        -------
        ShardedData
            The data set, opened.
        """
        files.check_megabytes(shard_mb, "shard_mb", least=1e-3)
        path = writing.folder_to_write(folder)
        writing.require_storable(task)
        again = writing.repeatable(blocks)
        if not writing.has_learned(task):
            task = copied(task)
            writing.learn(task, again)
        writing.require_small_tables(task)
        # Fail before the work, not after it, if the manifest cannot be written.
        writing.manifest_bytes(task, [], False, extra)
        path.mkdir(parents=True, exist_ok=True)
        with writing.locked(path):
            try:
                shards, labeled = writing.write_shards(path, task, again(), shard_mb * files.MEGABYTE)
                writing.finish(path, task, shards, labeled, extra)
            finally:
                # The present manifest determines whether the new data set has replaced an earlier one.
                writing.remove_others(path, _files_in_use(path) | {files.LOCK})
        return cls(path, task if writing.is_own(task) else None)


def _reopened(
    cls: type[ShardedData], folder: Path, task: "BaseTask | None", open_mb: float, digest: str
) -> ShardedData:
    """Open data that were sent by their path, if they are unchanged."""
    data = cls(folder, task, open_mb)
    if data.digest != digest:
        got, expected = Description(f"the checksum {data.digest[:16]}"), f"the checksum {digest[:16]}"
        raise FormatError(folder, got, expected, "Other data were written there. Open ShardedData(folder) again.")
    return data


def _files_in_use(folder: Path) -> set[str]:
    """Return the files of the data set in the folder; all files if that is unknown."""
    if not files.is_prepared(folder):
        return set()
    try:
        return {shard.file for shard in files.read_manifest(folder).shards}
    except FormatError:
        return {entry.name for entry in folder.iterdir()}


def _restored_task(folder: Path, manifest: files.Manifest, task: "BaseTask | None") -> "BaseTask":
    """Return the task the examples were prepared with."""
    from latentstruct.persistence.models import MOST_STATES, check_state, check_tables, decode

    if task is None and manifest.params is None:
        expected = f"the task {repr_short(manifest.task)} of {folder}, which is not part of the library"
        raise InputError("task", None, expected)
    if task is not None and type(task).__name__ != manifest.task:
        raise InputError("task", task, f"the task {repr_short(manifest.task)} of {folder}")
    try:
        found = decode(manifest.params) if task is None else task
        if manifest.state is not None:
            state = decode(manifest.state)
            if task is None:
                check_state(state, MOST_STATES, found)
                check_tables(state)
            found.restore(state)
        if getattr(found, "n_features", None) is None:
            raise ValueError("its task has not learned")
        if type(found).__name__ != manifest.task or not found.tags.storable:
            raise ValueError(f"its task is {type(found).__name__}")
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        got, expected = Description(repr_short(error, 160)), "the description of data of this library"
        raise FormatError(folder / files.MANIFEST, got, expected, files.CURE) from error
    return found
