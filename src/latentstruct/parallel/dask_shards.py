"""Shards on the workers of a Dask cluster. The shards of a worker that dies are rebuilt on another."""

import asyncio
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from latentstruct.core.formatting import repr_short
from latentstruct.core.protocols import Task
from latentstruct.core.validation import options
from latentstruct.exceptions import Description, InputError, missing_package
from latentstruct.parallel.dask_transport import StoredRecipe, WorkerHandle
from latentstruct.parallel.shards import Arguments, Chosen, Function, Own, block_length, places_of_blocks
from latentstruct.parallel.threads import available_cores, one_blas_thread
from latentstruct.planes.plane import Plane
from latentstruct.planes.summation import add_up, group_size

ATTEMPTS = 4
"""Attempts without any progress before an error is raised. Dask itself moves a task to other workers three times."""
PATIENCE = 60.0
"""Seconds without any worker, or without the scheduler, after which training fails."""
POLL = 0.5
CONNECT_SECONDS = 10.0
FETCHED = 4
"""Sums of workers that are added here. If there are more, workers add up pairs first."""


class AllWorkersGone(Exception):
    """No worker that a call was submitted to is left."""


class DaskShards:
    """Shards on the workers of a Dask cluster.

    The scheduler keeps the recipe of each shard, so that another worker rebuilds a shard whose worker died. Calls whose
    results were lost are repeated. Recipes are functions that make the batch of a shard, called with the task on a
    worker, or `StoredRecipe`; each has an attribute ``n_examples``. The client is not closed.
    """

    labeled = True

    def __init__(self, client: Any, task: Task, recipes: Sequence[Any]) -> None:
        self.client, self.task, self.recipes = client, task, recipes
        self.sizes = [int(recipe.n_examples) for recipe in recipes]
        self.n_examples = sum(self.sizes)
        self.divided = any(isinstance(recipe, StoredRecipe) for recipe in recipes)
        self._sent: Any = None
        self._batches: list[Any] = [None] * len(recipes)
        self._workers: list[str] = []
        self._homes: list[str | None] = [None] * len(recipes)
        self._length = 1
        self._direct = False
        self._check_workers()

    def close(self) -> None:
        """Release the shards on the workers."""
        self._sent, self._batches = None, [None] * len(self.recipes)

    def map(self, function: Function, shared: Arguments = (), own: Own = None, chosen: Chosen = None) -> list[Any]:
        """Return the results in the order of the shards."""
        answers = self._gather(lambda: self._submit_blocks(_listed, function, shared, own, chosen))
        return [value for answer in answers for value in answer.value]

    def summed(self, function: Function, shared: Arguments = (), own: Own = None, chosen: Chosen = None) -> Plane:
        """Return the sum of results that are planes. A worker adds up those of its shards."""

        def submit() -> list[Any]:
            left = self._submit_blocks(_summed, function, shared, own, chosen)
            while len(left) > FETCHED:
                left = [self._submit(None, _added, *left[k : k + 2]) for k in range(0, len(left), 2)]
            return left

        sums = [held.value for held in self._gather(submit)]
        return add_up(sums, len(sums), 1)

    def _submit_blocks(
        self, collect: Callable[..., Any], function: Function, shared: Arguments, own: Own, chosen: Chosen
    ) -> list[Any]:
        """Submit the calls for blocks of shards. Results of a block are collected on its worker."""
        self._build()
        selected = list(range(len(self.sizes))) if chosen is None else list(chosen)
        size = group_size(len(selected))
        # All shards of a block are on one worker. Of a selection only consecutive shards are likely to be.
        length = self._length if len(selected) == len(self.sizes) else size
        # Arguments that all shards share are sent once, as a task: the scheduler can send it to other workers again.
        arguments = self._submit(self._homes[selected[0]], _same, WorkerHandle(shared))
        blocks = []
        for start in range(0, len(selected), length):
            block = selected[start : start + length]
            shares = WorkerHandle([()] * len(block) if own is None else list(own[start : start + length]))
            batches = [self._batches[k] for k in block]
            blocks.append(
                self._submit(self._homes[block[0]], collect, function, size, self._sent, arguments, shares, *batches)
            )
        return blocks

    def _build(self) -> None:
        """Submit the shards that were never built, or were lost together with their recipes."""
        from latentstruct import __version__

        self._find_homes()
        if _is_lost(self._sent):
            self._sent = self._submit(self._homes[0], _same, WorkerHandle(self.task))
        for k, recipe in enumerate(self.recipes):
            if _is_lost(self._batches[k]):
                self._batches[k] = self._submit(self._homes[k], _built, WorkerHandle(recipe), self._sent, __version__)

    def _find_homes(self) -> None:
        """Spread the shards over the workers, consecutive ones together. Few move when a worker dies."""
        threads = self._threads_of_workers()
        if not threads.keys() & set(self._workers):
            # The scheduler assigns no task with a home to new workers if at some moment there was no worker at all.
            self.close()
        newcomers = [worker for worker in threads if worker not in self._workers]
        survivors = [worker if worker in threads or not newcomers else newcomers.pop() for worker in self._workers]
        self._workers = [worker for worker in survivors if worker in threads] + newcomers
        places = [worker for worker in self._workers for _ in range(threads[worker])]
        self._direct = self._all_in_one_place(threads)
        n_shards = len(self.sizes)
        self._length = block_length(n_shards, max(len(places), 1))
        if places:
            self._homes = [places[k] for k in places_of_blocks(n_shards, self._length, len(places))]
        else:
            self._homes = [None] * n_shards

    def _all_in_one_place(self, workers: Iterable[str]) -> bool:
        """Return whether the scheduler and all workers have the same host, so that all of them can be reached."""
        from distributed.comm import get_address_host

        return len({get_address_host(address) for address in (self.client.scheduler.address, *workers)}) == 1

    def _submit(self, home: str | None, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a task, with a preferred worker if there is one. Another worker runs it if that one dies."""
        with warnings.catch_warnings():
            # Examples are sent once, weights in each iteration, whatever their size.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            where = {} if home is None else {"workers": [home], "allow_other_workers": True}
            return self.client.submit(function, *arguments, pure=False, **where)

    def _gather(self, submit: Callable[[], list[Any]]) -> list[Any]:
        """Return the results of what is submitted. It is submitted again while results are lost."""
        lost = _losses()
        for attempt in range(ATTEMPTS):
            self._require_connection()
            futures: list[Any] = []
            try:
                futures = submit()
                return self._awaited(self.client.gather(futures, direct=self._direct, asynchronous=True))
            except lost as error:
                if attempt == ATTEMPTS - 1:
                    raise InputError(
                        "executor",
                        Description(
                            f"no answer from {self._address()} in {ATTEMPTS} attempts ({repr_short(str(error))})"
                        ),
                        "a Dask cluster whose workers answer",
                        "See the logs of the workers. Give them more memory if they ran out of it.",
                    ) from error
            except BaseException:
                # Ctrl-C, or an error of the task: the other results are not needed.
                self._cancel(futures)
                raise
        raise AssertionError

    def _awaited(self, waited_for: Any) -> Any:
        """Wait for a coroutine of the client while there are workers."""
        running = asyncio.run_coroutine_threadsafe(_as_coroutine(waited_for), self.client.loop.asyncio_loop)
        alone_since: float | None = None
        try:
            while True:
                try:
                    return running.result(timeout=POLL)
                except TimeoutError:
                    if running.done():
                        raise
                self._require_connection()
                workers = self._threads_of_workers()
                if workers:
                    if self._workers and not workers.keys() & set(self._workers):
                        raise AllWorkersGone("all workers died")
                    alone_since = None
                    continue
                alone_since = time.monotonic() if alone_since is None else alone_since
                if time.monotonic() - alone_since > PATIENCE:
                    raise InputError(
                        "executor",
                        Description(f"no workers at {self._address()} for {PATIENCE:.0f} s"),
                        "a Dask cluster with at least one worker",
                        "Start workers by dask worker ADDRESS.",
                    )
        finally:
            running.cancel()

    def _threads_of_workers(self) -> dict[str, int]:
        """Return the number of threads of each worker; empty while the scheduler cannot be reached."""
        if self.client.status != "running":
            return {}
        try:
            return self.client.nthreads()
        except OSError:
            return {}

    def _require_connection(self) -> None:
        if self.client.status not in ("running", "connecting"):
            raise InputError(
                "executor",
                Description(f"a {self.client.status} connection to {self._address()}"),
                "connected to its Dask scheduler until training ends",
                "Create a new Client and train again.",
            )

    def _cancel(self, futures: list[Any]) -> None:
        """Cancel submitted tasks if the client is connected."""
        if futures and self.client.status == "running":
            self.client.cancel(futures)

    def _check_workers(self) -> None:
        """Raise if a worker cannot load this version of the library."""
        from latentstruct import __version__

        self._require_connection()
        found = self._awaited(self.client.run(_version, on_error="return", asynchronous=True))
        for worker, version in found.items():
            # A worker that dies now or later is no error.
            if not isinstance(version, OSError) and version != __version__:
                raise _other_version(worker, version)

    def _address(self) -> str:
        scheduler = getattr(self.client, "scheduler", None)
        return getattr(scheduler, "address", "an unknown address")


async def _as_coroutine(waited_for: Any) -> Any:
    return await waited_for


def _losses() -> tuple[type[BaseException], ...]:
    """Return the errors that mean that a result was lost, rather than that a call failed."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError

    return CancelledError, FutureCancelledError, KilledWorker, CommClosedError, AllWorkersGone


def _is_lost(future: Any) -> bool:
    return future is None or future.status in ("error", "cancelled", "lost")


def _other_version(worker: str, found: Any) -> InputError:
    from latentstruct import __version__

    has = (
        f"latentstruct {found}" if isinstance(found, str) else f"no latentstruct that loads ({repr_short(str(found))})"
    )
    return InputError(
        "executor",
        Description(f"{has} on {worker}"),
        f"a Dask cluster whose workers have latentstruct {__version__}",
        "Start the workers in the same environment.",
    )


def _version() -> str:
    from latentstruct import __version__

    return __version__


def _same(held: WorkerHandle) -> WorkerHandle:
    return held


def _built(recipe: WorkerHandle, task: WorkerHandle, version: str) -> WorkerHandle:
    from latentstruct import __version__

    if version != __version__:
        got, hint = Description(f"latentstruct {__version__} on a worker"), "Start the workers in the same environment."
        raise InputError("executor", got, f"a Dask cluster whose workers have latentstruct {version}", hint)
    made = recipe.value
    if isinstance(made, StoredRecipe):
        made.batch_for(task)
        return recipe
    return WorkerHandle(made(task.value))


def _listed(function: Function, size: int, *handles: WorkerHandle) -> WorkerHandle:
    return WorkerHandle(list(_results(function, handles)))


def _summed(function: Function, size: int, *handles: WorkerHandle) -> WorkerHandle:
    return WorkerHandle(add_up(_results(function, handles), len(handles) - 3, size, ours=True))


def _results(function: Function, handles: Sequence[WorkerHandle]) -> Iterator[Any]:
    """Yield the results of shards, given the handles of task, shared and own arguments, and batches."""
    task, arguments, shares, *batches = handles
    # Each worker has threads of its own. Those of BLAS would wait for each other.
    with one_blas_thread():
        for batch, own in zip(batches, shares.value, strict=True):
            examples = batch.value
            if isinstance(examples, StoredRecipe):
                examples = examples.batch_for(task)
            yield function(task.value, examples, *arguments.value, *own)


def _added(first: WorkerHandle, *second: WorkerHandle) -> WorkerHandle:
    return WorkerHandle(add_up([held.value for held in (first, *second)], 1 + len(second), 2))


@contextmanager
def opened(executor: Any) -> Iterator[Any]:
    """Yield the client of an executor, and close what was created for it.

    A client is used as it is. "dask" is the client of this process, or of the worker this runs on; without any, a
    cluster on this machine with one worker per core, closed at the end.
    """
    distributed = _import_distributed(executor)
    if isinstance(executor, distributed.Client):
        if executor.asynchronous:
            raise InputError("executor", executor, "a synchronous client", "Create it by Client(address).")
        yield executor
        return
    if not (isinstance(executor, str) and executor == "dask"):
        raise InputError("executor", executor, "'dask', 'local', a distributed.Client or None")
    if _in_dask_task(distributed):
        # The thread is released while it waits; otherwise two such tasks would wait for each other.
        with distributed.worker_client() as client:
            yield client
        return
    try:
        current = distributed.Client.current()
    except ValueError:
        cluster = distributed.LocalCluster(n_workers=available_cores(), threads_per_worker=1, dashboard_address=":0")
        with cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client
        return
    yield current


def _import_distributed(executor: Any) -> Any:
    try:
        import distributed
    except ImportError as error:
        raise missing_package("distributed", f"use the executor {repr_short(executor)}", "dask") from error
    return distributed


def _in_dask_task(distributed: Any) -> bool:
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


def connect(executor: str | None, scheduler: str | None) -> Any:
    """Return the `executor` of estimators for options of the command line; the caller must close a client.

    None is this process; "dask" without the address of a scheduler is a cluster on this machine.
    """
    if executor is None and scheduler is not None:
        raise InputError("executor", executor, "'dask' if `scheduler` is given")
    (options("dask") | None).check(executor, "executor")
    if scheduler is None:
        return executor
    distributed = _import_distributed(executor)
    try:
        return distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            "scheduler",
            Description(f"{repr_short(scheduler)} ({repr_short(str(error))})"),
            "the address of a running Dask scheduler",
            "Start one by dask scheduler, which prints its address.",
        ) from error
