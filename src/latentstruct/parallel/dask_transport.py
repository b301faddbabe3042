"""Values on the workers of a cluster, and stored examples that workers open."""

import pickle
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ALIGNMENT = 16
"""Alignment of arrays in bytes."""

_UNPICKLING = threading.RLock()


class WorkerHandle:
    """A value on a worker. It reports its true size to Dask and is unpickled into writable memory.

    Dask assumes that objects of unknown types are small, and would move a whole shard to the weights. A received value
    is unpickled at its first use: the scheduler only forwards it, and errors are raised by the call that uses it.
    """

    def __init__(self, value: Any, n_bytes: int | None = None) -> None:
        self._value = value
        self._sent: tuple[bytes, list[Any]] | None = None
        self.n_bytes = _n_bytes(value) if n_bytes is None else n_bytes
        self.opened: dict[str, Sequence[Any]] = {}
        """Batches of stored data, by their checksums, that are open for this task."""

    @property
    def value(self) -> Any:
        """The value."""
        with _UNPICKLING:
            if self._sent is not None:
                pickled, buffers = self._sent
                self._value = pickle.loads(pickled, buffers=[_own_memory(buffer) for buffer in buffers])
                self._sent = None
        return self._value

    def __sizeof__(self) -> int:
        return self.n_bytes

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        import cloudpickle

        if self._sent is not None:
            pickled, received = self._sent
            again = [pickle.PickleBuffer(buffer) if protocol >= 5 else bytes(buffer) for buffer in received]
            return _hold_again, (pickled, again, self.n_bytes)
        # Arrays are sent out of band, without a copy. Only what the scheduler forwards is copied into the pickle.
        buffers: list[Any] = []
        beside = {"protocol": 5, "buffer_callback": buffers.append} if protocol >= 5 else {}
        return _hold_again, (cloudpickle.dumps(self.value, **beside), buffers, self.n_bytes)


def _hold_again(pickled: bytes, buffers: list[Any], n_bytes: int) -> WorkerHandle:
    held = WorkerHandle(None, n_bytes)
    held._sent = pickled, buffers
    return held


def _own_memory(buffer: Any) -> Any:
    """Return a writable and aligned buffer, as kernels need it."""
    array = np.frombuffer(buffer, dtype=np.uint8)
    if array.flags.writeable and array.ctypes.data % ALIGNMENT == 0:
        return buffer
    return array.copy()


def _n_bytes(value: Any) -> int:
    """Return about how many bytes a value takes, without copying its arrays."""
    import cloudpickle

    buffers: list[Any] = []
    rest = len(cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append))
    return rest + sum(buffer.raw().nbytes for buffer in buffers)


@dataclass
class StoredRecipe:
    """A shard of stored data that a worker opens. It stays in its file, so that it uses no memory of Dask."""

    data: Any
    number: int
    n_examples: int

    def batch_for(self, task: WorkerHandle) -> Any:
        """Return the batch for a task. The data limit how many bytes of batches stay open."""
        with _UNPICKLING:
            if self.data.digest not in task.opened:
                task.opened[self.data.digest] = self.data.batches_for(task.value)
        return task.opened[self.data.digest][self.number]


def stored_recipes(data: Any) -> list[StoredRecipe]:
    """Return the recipes of the shards of `ShardedData`, in a folder with the same path on all workers."""
    return [StoredRecipe(data, number, size) for number, size in enumerate(data.sizes)]
