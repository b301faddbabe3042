"""Threads that share the examples of a batch; how work is divided depends on the work alone, never on their number."""

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
"""Elementary steps of the least piece of work that is handed to a thread, half a millisecond: to hand one over and to
call what works on it takes about a tenth of that."""
MOST_PIECES = 64
"""Pieces that a batch is cut into at most."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Threads:
    """The threads of this process, made when they are first needed."""

    pool: ThreadPoolExecutor | None = None
    size = 0
    lock = threading.Lock()
    here = threading.local()


def _forget_threads() -> None:
    """Begin anew in a forked process, which has none of the threads of its parent."""
    _Threads.pool, _Threads.size = None, 0
    _Threads.lock, _Threads.here = threading.Lock(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def effective_jobs(n_jobs: Any) -> int:
    """Return how many threads `n_jobs` stands for, or raise InputError.

    Parameters
    ----------
    n_jobs : int or None
        None and −1 are one thread for each core that this process may use, but one in a worker process, whose
        siblings use the others; k ≥ 1 is k threads.
    """
    N_JOBS.check(n_jobs, "n_jobs")
    if n_jobs is None or n_jobs == -1:
        return 1 if in_worker_process() else available_cores()
    return int(n_jobs)


def available_cores() -> int:
    """Return how many cores this process may use."""
    from joblib import cpu_count

    return int(cpu_count())


def in_worker_process() -> bool:
    """Tell whether this process was started by another one to work for it, as by joblib, multiprocessing or Dask."""
    return parent_process() is not None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread.

    Threads of BLAS wait for each other by spinning: on busy cores, twelve times slower than one thread.
    """
    with _thread_pools(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> Any:
    """Return the thread pools of this process, looked for again once more modules are imported.

    To look for them takes milliseconds, as long as a small training.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def pieces(work: Vector, least: float = 0.0) -> Indices:
    """Return the bounds 0 = b_0 < b_1 < … < b_p = n of consecutive pieces of about equal work.

    Parameters
    ----------
    work : ndarray of shape (n,)
        Elementary steps of each example, of about a nanosecond; 0 for those that threads cannot share.
    least : float
        Steps of a piece at least; `STEPS_OF_PIECE` if that is more.

    Notes
    -----
    With more work there are more pieces, and larger ones: their number grows as the square root of the work.

    Sums over examples are made piece by piece, and added in the order of the pieces. Because the bounds do not depend
    on the number of threads, neither do the results, to the last bit.
    """
    n, total = len(work), float(work.sum())
    wanted = min(math.sqrt(2.0 * total / STEPS_OF_PIECE), total / max(STEPS_OF_PIECE, least), n, MOST_PIECES)
    if wanted < 2:
        return np.array([0, n]) if n else np.zeros(1, dtype=np.int64)
    # A power of two comes out even among two or four threads.
    wanted = 2 ** int(math.log2(wanted))
    done, bounds = np.cumsum(work, dtype=np.float64), [0]
    for end in (np.searchsorted(done, total * np.arange(1, wanted) / wanted) + 1).tolist():
        if bounds[-1] < end < n:
            bounds.append(end)
    return np.array([*bounds, n])


def thread_map(function: Callable[[Item], Answer], items: Sequence[Item], n_jobs: int = 1) -> list[Answer]:
    """Return the function's answers for all items, in their order, worked out by up to `n_jobs` threads.

    Inside such a thread further calls work by themselves alone. The first error in the order of the items is raised,
    and so is Ctrl-C, as soon as items that were begun are done; no further ones are.

    Parameters
    ----------
    function : callable
        Called with one item; it should spend its time outside the interpreter's lock.
    items : sequence
        What to call it with.
    n_jobs : int
        Threads at most, that of the caller among them; see `effective_jobs`.
    """
    answers: list[Answer] = []
    _share(function, items, answers.append, n_jobs, len(items))
    return answers


@dataclass(frozen=True)
class Chunks:
    """Consecutive items of a task that splits its work among threads itself.

    For work that writes its results into arrays allocated beforehand: nothing has to be joined, and little is done
    under the interpreter lock.

    Attributes
    ----------
    bounds : tuple of int
        0 = b_0 < b_1 < … < b_p = n; empty for one chunk.
    n_jobs : int
        Threads at most.
    """

    bounds: tuple[int, ...] = ()
    n_jobs: int = 1

    def run(self, work: Callable[[int, int], None], n_items: int) -> None:
        """Call ``work(first, last)`` for each chunk of n items, in several threads at a time."""
        if len(self.bounds) < 3:
            work(0, n_items)
            return
        ends = list(pairwise(self.bounds))
        _share(lambda chunk: work(*chunk), ends, lambda _: None, self.n_jobs, len(ends))


def thread_fold(
    function: Callable[[Item], Answer], items: Sequence[Item], take: Callable[[Answer], None], n_jobs: int = 1
) -> None:
    """Hand the function's answers for all items to `take`, one after the other in the order of the items.

    As `thread_map`, but no more than two answers for each thread are there at a time.

    Parameters
    ----------
    function : callable
        Called with one item, by several threads at a time.
    items : sequence
        What to call it with.
    take : callable
        Called with one answer, by one thread at a time.
    n_jobs : int
        Threads at most.
    """
    _share(function, items, take, n_jobs, 2 * n_jobs)


def _share(
    function: Callable[[Any], Any], items: Sequence[Any], take: Callable[[Any], None], n_jobs: int, ahead: int
) -> None:
    """Let threads work on items of which the first `ahead` that are not taken yet may be begun."""
    helpers = min(n_jobs, len(items)) - 1
    if helpers < 1 or getattr(_Threads.here, "busy", False):
        for item in items:
            take(function(item))
        return
    _Shared(function, items, take, ahead).run(helpers)


class _Shared:
    """Items that several threads work on one after the other, whose answers are taken in their order."""

    def __init__(
        self, function: Callable[[Any], Any], items: Sequence[Any], take: Callable[[Any], None], ahead: int
    ) -> None:
        self.function, self.items, self.take, self.ahead = function, items, take, ahead
        self.waiting: dict[int, Any] = {}
        """Answers that are not taken yet, by the number of the item."""
        self.errors: dict[int, BaseException] = {}
        self.begun = self.taken = self.active = 0
        self.stopped = self.taking = False
        self.changed = threading.Condition()

    def run(self, helpers: int) -> None:
        """Work with so many helping threads until all answers are taken."""
        try:
            _submit(self._help, helpers)
            self._take_items()
        finally:
            self._wait_for_helpers()
        interrupts = [error for error in self.errors.values() if not isinstance(error, Exception)]
        if self.errors:
            raise interrupts[0] if interrupts else self.errors[min(self.errors)]

    def _help(self) -> None:
        """Take items in a helping thread, which no interrupt reaches."""
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
        """Work on items until there are none left, or one went wrong."""
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
        """Return the item to work on next, once it may be begun; None if there is none."""
        with self.changed:
            self.changed.wait_for(lambda: self._is_over() or self.begun < self.taken + self.ahead)
            if self._is_over():
                return None
            self.begun += 1
            return self.begun - 1

    def _is_over(self) -> bool:
        return self.stopped or self.begun >= len(self.items)

    def _hand_over(self, k: int, answer: Any) -> None:
        """Let an answer be taken when those before it are, with those after it that wait for it."""
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
        """Wait for the threads that have begun, and keep others from beginning.

        One that went on would write into memory that the next call writes into. So an interrupt waits for them too.
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
    """Let so many threads of the pool begin the work, each in a copy of the caller's context."""
    with _Threads.lock:
        if _Threads.pool is None or _Threads.size < helpers:
            if _Threads.pool is not None:
                _Threads.pool.shutdown(wait=False)
            _Threads.pool, _Threads.size = ThreadPoolExecutor(helpers, "latentstruct"), helpers
        for _ in range(helpers):
            _Threads.pool.submit(copy_context().run, work)
