"""Threads that share the examples of a batch. The division depends on the work only, not on the number of threads."""

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from multiprocessing import parent_process
from typing import Any, TypeVar

import numpy as np

from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import Constraint, integer, is_integer

N_JOBS = integer(1) | Constraint(lambda value: is_integer(value) and value == -1, "-1") | None
STEPS_OF_PIECE = 5e5
"""Elementary steps of the smallest chunk, half a millisecond. Passing a chunk to a thread and calling the function
takes about a tenth of that."""
MOST_PIECES = 64
"""Maximum number of chunks of a batch."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Threads:
    """The threads of this process, created at the first use."""

    pool: ThreadPoolExecutor | None = None
    size = 0
    lock = threading.Lock()
    here = threading.local()


def _forget_threads() -> None:
    """Reset in a forked process, which has no threads of its parent."""
    _Threads.pool, _Threads.size = None, 0
    _Threads.lock, _Threads.here = threading.Lock(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def effective_jobs(n_jobs: Any) -> int:
    """Return the number of threads for `n_jobs`, or raise InputError.

    None and −1 mean one thread per core that this process may use, but one in a worker process, whose siblings use the
    others; k ≥ 1 means k threads.
    """
    N_JOBS.check(n_jobs, "n_jobs")
    if n_jobs is None or n_jobs == -1:
        return 1 if in_worker_process() else available_cores()
    return int(n_jobs)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    allowed = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return _available_cores(allowed, os.environ.get("LOKY_MAX_CPU_COUNT"))


@lru_cache(maxsize=4)
def _available_cores(allowed: frozenset[int] | None, most: str | None) -> int:
    """Return the number of cores, kept while what may change it is the same: joblib reads several files for it."""
    from joblib import cpu_count

    return int(cpu_count())


def in_worker_process() -> bool:
    """Return whether this process is a worker of another one, as in joblib, multiprocessing or Dask."""
    return parent_process() is not None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread.

    Threads of BLAS wait for each other by spinning: on busy cores this is twelve times slower than one thread.
    """
    with _thread_pools(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> Any:
    """Return the thread pools of this process, searched again once more modules are imported.

    The search takes milliseconds, as long as a small training.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def chunk_by_work(work: Vector, least: float = 0.0) -> Indices:
    """Return the bounds 0 = b_0 < b_1 < … < b_p = n of consecutive chunks of about equal work.

    `work` (n,) are elementary steps of each example, of about a nanosecond; 0 for those that threads cannot share. A
    chunk has at least `least` and `STEPS_OF_PIECE` steps. With more work there are more and larger chunks: their number
    grows as the square root of the work.

    Sums over examples are computed per chunk and added in the order of the chunks. Because the bounds do not depend on
    the number of threads, neither do the results, to the last bit.
    """
    n, total = len(work), float(work.sum())
    wanted = min(math.sqrt(2.0 * total / STEPS_OF_PIECE), total / max(STEPS_OF_PIECE, least), n, MOST_PIECES)
    if wanted < 2:
        return np.array([0, n]) if n else np.zeros(1, dtype=np.int64)
    # A power of two divides evenly among two or four threads.
    wanted = 2 ** int(math.log2(wanted))
    done, bounds = np.cumsum(work, dtype=np.float64), [0]
    for end in (np.searchsorted(done, total * np.arange(1, wanted) / wanted) + 1).tolist():
        if bounds[-1] < end < n:
            bounds.append(end)
    return np.array([*bounds, n])


def thread_map(function: Callable[[Item], Answer], items: Sequence[Item], n_jobs: int = 1) -> list[Answer]:
    """Return the results of the function for all items, in their order, computed by up to `n_jobs` threads.

    Nested calls inside such a thread run serially. The first error in the order of the items is raised, and so is
    Ctrl-C, as soon as running items are done. No further items are started. The function should release the interpreter
    lock most of the time.
    """
    answers: list[Answer] = []
    _share(function, items, answers.append, n_jobs, len(items))
    return answers


@dataclass(frozen=True)
class Chunks:
    """Consecutive items of a task that splits its work among threads itself.

    For functions that write into preallocated arrays: no results are joined, and little is done
    under the interpreter lock.
    """

    bounds: tuple[int, ...] = ()  # 0 = b_0 < b_1 < … < b_p = n; empty for one chunk
    n_jobs: int = 1  # maximum number of threads

    def run(self, work: Callable[[int, int], None], n_items: int) -> None:
        """Call ``work(first, last)`` for each chunk of n items, in several threads."""
        if len(self.bounds) < 3:
            work(0, n_items)
            return
        ends = list(pairwise(self.bounds))
        _share(lambda chunk: work(*chunk), ends, lambda _: None, self.n_jobs, len(ends))


def thread_fold(
    function: Callable[[Item], Answer], items: Sequence[Item], take: Callable[[Answer], None], n_jobs: int = 1
) -> None:
    """Pass the results of the function for all items to `take`, in the order of the items and one at a time.

    As `thread_map`, but at most two results per thread are held at a time.
    """
    _share(function, items, take, n_jobs, 2 * n_jobs)


def _share(
    function: Callable[[Any], Any], items: Sequence[Any], take: Callable[[Any], None], n_jobs: int, ahead: int
) -> None:
    """Run threads on items; at most the first `ahead` items whose results are pending may be started."""
    helpers = min(n_jobs, len(items)) - 1
    if helpers < 1 or getattr(_Threads.here, "busy", False):
        for item in items:
            take(function(item))
        return
    _Shared(function, items, take, ahead).run(helpers)


class _Shared:
    """Items processed by several threads, whose results are taken in the order of the items."""

    def __init__(
        self, function: Callable[[Any], Any], items: Sequence[Any], take: Callable[[Any], None], ahead: int
    ) -> None:
        self.function, self.items, self.take, self.ahead = function, items, take, ahead
        self.waiting: dict[int, Any] = {}
        """Pending results by the number of the item."""
        self.errors: dict[int, BaseException] = {}
        self.begun = self.taken = self.active = 0
        self.stopped = self.taking = False
        self.changed = threading.Condition()

    def run(self, helpers: int) -> None:
        """Run with this many additional threads until all results are taken."""
        try:
            _submit(self._help, helpers)
            self._take_items()
        finally:
            self._wait_for_helpers()
        interrupts = [error for error in self.errors.values() if not isinstance(error, Exception)]
        if self.errors:
            raise interrupts[0] if interrupts else self.errors[min(self.errors)]

    def _help(self) -> None:
        """Process items in an additional thread, which no interrupt reaches."""
        with self.changed:
            if self.stopped:
                return
            self.active += 1
        try:
            self._take_items()
        finally:
            with self.changed:
                self.active -= 1
                self.changed.notify_all()

    def _take_items(self) -> None:
        """Process items until none is left or one has failed."""
        try:
            _Threads.here.busy = True
            while (k := self._next()) is not None:
                try:
                    self._hand_over(k, self.function(self.items[k]))
                except BaseException as error:
                    with self.changed:
                        self.errors[k] = error
                        self.stopped = True
                        self.changed.notify_all()
        finally:
            _Threads.here.busy = False

    def _next(self) -> int | None:
        """Return the next item as soon as it may be started; None if there is none."""
        with self.changed:
            self.changed.wait_for(lambda: self._is_over() or self.begun < self.taken + self.ahead)
            if self._is_over():
                return None
            self.begun += 1
            return self.begun - 1

    def _is_over(self) -> bool:
        return self.stopped or self.begun >= len(self.items)

    def _hand_over(self, k: int, answer: Any) -> None:
        """Take a result as soon as all before it are taken, and then those after it that are ready."""
        with self.changed:
            self.waiting[k] = answer
            if self.taking:
                return
            self.taking = True
        del answer
        while True:
            with self.changed:
                if self.taken not in self.waiting:
                    self.taking = False
                    return
                first = self.waiting.pop(self.taken)
            self.take(first)
            del first
            with self.changed:
                self.taken += 1
                self.changed.notify_all()

    def _wait_for_helpers(self) -> None:
        """Wait for running threads, and keep others from starting.

        A thread that continued would write into memory that the next call uses, so an interrupt waits for all of them.
        """
        interrupt: KeyboardInterrupt | None = None
        while True:
            try:
                with self.changed:
                    self.stopped = True
                    self.changed.notify_all()
                    self.changed.wait_for(lambda: self.active == 0)
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


def _submit(work: Callable[[], None], helpers: int) -> None:
    """Start this many threads of the pool, each in a copy of the caller's context."""
    with _Threads.lock:
        if _Threads.pool is None or _Threads.size < helpers:
            if _Threads.pool is not None:
                _Threads.pool.shutdown(wait=False)
            _Threads.pool, _Threads.size = ThreadPoolExecutor(helpers, "latentstruct"), helpers
        for _ in range(helpers):
            _Threads.pool.submit(copy_context().run, work)
