"""Values on the workers of a cluster, and examples that these open themselves."""

import pickle
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ALIGNMENT = 16
"""Bytes at whose multiples arrays begin."""

_UNPICKLING = threading.RLock()


class Held:
    """A value on a worker, which tells Dask its true size and travels as a copy that may be written to.

    Dask takes objects of unknown kinds for small, and would carry a whole shard to where the weights are. What was sent
    is made a value when it is first asked for: the scheduler only hands it on, and an error is one of the question.
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
        # Arrays are sent beside the pickle, from where they are; only what the scheduler hands on is copied into it.
        buffers: list[Any] = []
        beside = {"protocol": 5, "buffer_callback": buffers.append} if protocol >= 5 else {}
        return _hold_again, (cloudpickle.dumps(self.value, **beside), buffers, self.n_bytes)


def _hold_again(pickled: bytes, buffers: list[Any], n_bytes: int) -> Held:
    held = Held(None, n_bytes)
    held._sent = pickled, buffers
    return held


def _own_memory(buffer: Any) -> Any:
    """Return a buffer that may be written to and begins where a number may, as kernels were compiled for such."""
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
    """A shard of stored data, which a worker opens itself; it stays in its file, so that Dask need not make room."""

    data: Any
    number: int
    n_examples: int

    def batch_for(self, task: Held) -> Any:
        """Return the batch for a task, of which so many bytes stay open for it as the data say."""
        with _UNPICKLING:
            if self.data.digest not in task.opened:
                task.opened[self.data.digest] = self.data.batches_for(task.value)
        return task.opened[self.data.digest][self.number]


def stored_recipes(data: Any) -> list[StoredRecipe]:
    """Return the recipes of the shards of `ShardedData`, in a folder that workers find by the same name."""
    return [StoredRecipe(data, number, size) for number, size in enumerate(data.sizes)]
