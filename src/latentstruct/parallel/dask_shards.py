"""Shards on the workers of a Dask cluster, which are built there again when a worker dies."""

import asyncio
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from latentstruct.core.formatting import show
from latentstruct.core.protocols import Task
from latentstruct.core.validation import options
from latentstruct.exceptions import Description, InputError, missing_package
from latentstruct.parallel.dask_transport import Held, StoredRecipe
from latentstruct.parallel.shards import Function, block_length, places_of_blocks
from latentstruct.parallel.threads import available_cores, one_blas_thread
from latentstruct.planes.plane import Plane
from latentstruct.planes.summation import add_up, group_size

ATTEMPTS = 4
"""How many times a question is put while no answer comes of it. Dask itself moves a task to other workers thrice."""
PATIENCE = 60.0
"""Seconds without any worker, or without the scheduler, after which training is given up."""
POLL = 0.5
CONNECT_SECONDS = 10.0
FETCHED = 4
"""Sums of workers that are added here; of more, workers add up pairs first."""


class AllWorkersGone(Exception):
    """None is left of the workers that a question was put to."""


class DaskShards:
    """Shards on the workers of a Dask cluster.

    What it takes to build a shard is kept by the scheduler, so that a shard whose worker died is built by another one;
    answers that were lost are asked for again.

    Parameters
    ----------
    client : distributed.Client
        The connection to the cluster; it is not closed.
    task : Task
        A task that has learned its data.
    recipes : sequence of callable
        What makes the batch of each shard, called with the task on a worker, or a `StoredRecipe`; each has an
        attribute ``n_examples``.
    """

    labelled = True

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
        """Let the workers forget the shards."""
        self._sent, self._batches = None, [None] * len(self.recipes)

    def map(
        self,
        function: Function,
        shared: tuple[Any, ...] = (),
        own: Sequence[tuple[Any, ...]] | None = None,
        chosen: Sequence[int] | None = None,
    ) -> list[Any]:
        """Return the answers in the order of the shards."""
        answers = self._ask(lambda: self._submit_blocks(_listed, function, shared, own, chosen))
        return [value for answer in answers for value in answer.value]

    def summed(
        self,
        function: Function,
        shared: tuple[Any, ...] = (),
        own: Sequence[tuple[Any, ...]] | None = None,
        chosen: Sequence[int] | None = None,
    ) -> Plane:
        """Return the sum of answers that are planes; a worker adds up those of its shards."""

        def submit() -> list[Any]:
            left = self._submit_blocks(_summed, function, shared, own, chosen)
            while len(left) > FETCHED:
                left = [self._submit(None, _added, *left[k : k + 2]) for k in range(0, len(left), 2)]
            return left

        sums = [held.value for held in self._ask(submit)]
        return add_up(sums, len(sums), 1)

    def _submit_blocks(
        self,
        collect: Callable[..., Any],
        function: Function,
        shared: tuple[Any, ...],
        own: Sequence[tuple[Any, ...]] | None,
        chosen: Sequence[int] | None,
    ) -> list[Any]:
        """Ask for the answers of blocks of shards, each collected where the shards are."""
        self._build()
        asked = list(range(len(self.sizes))) if chosen is None else list(chosen)
        size = group_size(len(asked))
        # All shards of a block are in one place; of some shards only the consecutive ones are likely to be.
        length = self._length if len(asked) == len(self.sizes) else size
        # What all shards are asked is sent once, as a task: the scheduler can give it to other workers again.
        question = self._submit(self._homes[asked[0]], _same, Held(shared))
        blocks = []
        for start in range(0, len(asked), length):
            block = asked[start : start + length]
            shares = Held([()] * len(block) if own is None else list(own[start : start + length]))
            batches = [self._batches[k] for k in block]
            blocks.append(
                self._submit(self._homes[block[0]], collect, function, size, self._sent, question, shares, *batches)
            )
        return blocks

    def _build(self) -> None:
        """Ask for the shards that were never built, or were lost with all that the scheduler knew of them."""
        from latentstruct import __version__

        self._find_homes()
        if _is_lost(self._sent):
            self._sent = self._submit(self._homes[0], _same, Held(self.task))
        for k, recipe in enumerate(self.recipes):
            if _is_lost(self._batches[k]):
                self._batches[k] = self._submit(self._homes[k], _built, Held(recipe), self._sent, __version__)

    def _find_homes(self) -> None:
        """Spread the shards over the workers there are, consecutive ones together; few move when a worker dies."""
        threads = self._threads_of_workers()
        if not threads.keys() & set(self._workers):
            # The scheduler does not give tasks with a home to newcomers if for a moment there was no worker at all.
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
        """Tell whether the scheduler and all workers have the same host, so that who reaches one reaches all."""
        from distributed.comm import get_address_host

        return len({get_address_host(address) for address in (self.client.scheduler.address, *workers)}) == 1

    def _submit(self, home: str | None, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a task, to a worker where there is reason to; it may die before, and another one do it then."""
        with warnings.catch_warnings():
            # Examples are sent once, and weights anew in each round, however many there are.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            where = {} if home is None else {"workers": [home], "allow_other_workers": True}
            return self.client.submit(function, *arguments, pure=False, **where)

    def _ask(self, submit: Callable[[], list[Any]]) -> list[Any]:
        """Return the answers to what is submitted, which is done again while answers are lost."""
        lost = _losses()
        for attempt in range(ATTEMPTS):
            self._require_connection()
            asked: list[Any] = []
            try:
                asked = submit()
                return self._awaited(self.client.gather(asked, direct=self._direct, asynchronous=True))
            except lost as error:
                if attempt == ATTEMPTS - 1:
                    raise InputError(
                        "executor",
                        Description(f"no answer from {self._address()} in {ATTEMPTS} attempts ({show(str(error))})"),
                        "a Dask cluster whose workers answer",
                        "See the logs of the workers. Give them more memory if they ran out of it.",
                    ) from error
            except BaseException:
                # Ctrl-C, or an error of the task: nobody waits for the other answers.
                self._cancel(asked)
                raise
        raise AssertionError

    def _awaited(self, waited_for: Any) -> Any:
        """Wait for a coroutine of the client while there are workers that may do it."""
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
        """Return how many threads each worker has, nothing while the scheduler cannot be reached."""
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
        """Cancel what was asked, where there is somebody to tell."""
        if futures and self.client.status == "running":
            self.client.cancel(futures)

    def _check_workers(self) -> None:
        """Raise if a worker cannot load this version of the library."""
        from latentstruct import __version__

        self._require_connection()
        found = self._awaited(self.client.run(_version, on_error="return", asynchronous=True))
        for worker, version in found.items():
            # A worker that dies is none, whether it does so now or later.
            if not isinstance(version, OSError) and version != __version__:
                raise _other_version(worker, version)

    def _address(self) -> str:
        scheduler = getattr(self.client, "scheduler", None)
        return getattr(scheduler, "address", "an address that is not known any more")


async def _as_coroutine(waited_for: Any) -> Any:
    return await waited_for


def _losses() -> tuple[type[BaseException], ...]:
    """Return the errors that say that an answer was lost, and nothing about the question."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError

    return CancelledError, FutureCancelledError, KilledWorker, CommClosedError, AllWorkersGone


def _is_lost(future: Any) -> bool:
    return future is None or future.status in ("error", "cancelled", "lost")


def _other_version(worker: str, found: Any) -> InputError:
    from latentstruct import __version__

    has = f"latentstruct {found}" if isinstance(found, str) else f"no latentstruct that loads ({show(str(found))})"
    return InputError(
        "executor",
        Description(f"{has} on {worker}"),
        f"a Dask cluster whose workers have latentstruct {__version__}",
        "Start the workers in the same environment.",
    )


def _version() -> str:
    from latentstruct import __version__

    return __version__


def _same(held: Held) -> Held:
    return held


def _built(recipe: Held, task: Held, version: str) -> Held:
    from latentstruct import __version__

    if version != __version__:
        raise InputError(
            "executor",
            Description(f"latentstruct {__version__} on a worker"),
            f"a Dask cluster whose workers have latentstruct {version}",
            "Start the workers in the same environment.",
        )
    made = recipe.value
    if isinstance(made, StoredRecipe):
        made.batch_for(task)
        return recipe
    return Held(made(task.value))


def _listed(function: Function, size: int, task: Held, question: Held, shares: Held, *batches: Held) -> Held:
    return Held(list(_answers(function, task, question, shares, batches)))


def _summed(function: Function, size: int, task: Held, question: Held, shares: Held, *batches: Held) -> Held:
    return Held(add_up(_answers(function, task, question, shares, batches), len(batches), size, ours=True))


def _answers(function: Function, task: Held, question: Held, shares: Held, batches: Sequence[Held]) -> Iterator[Any]:
    """Give the answers of shards, one after the other."""
    # Each worker has threads of its own, and so have its neighbours: those of BLAS would wait for each other.
    with one_blas_thread():
        for batch, own in zip(batches, shares.value, strict=True):
            examples = batch.value
            if isinstance(examples, StoredRecipe):
                examples = examples.batch_for(task)
            yield function(task.value, examples, *question.value, *own)


def _added(first: Held, *second: Held) -> Held:
    return Held(add_up([held.value for held in (first, *second)], 1 + len(second), 2))


@contextmanager
def opened(executor: Any) -> Iterator[Any]:
    """Give the client that an executor stands for; close what was made for it.

    Parameters
    ----------
    executor : "dask" or distributed.Client
        A client is used as it is. "dask" is the client of this process, or of the worker this runs on; without any, a
        cluster on this machine with one worker for each core, closed in the end.
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
        # Its thread is given back while it waits, else two such tasks would wait for each other.
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
        raise missing_package("distributed", f"use the executor {show(executor)}", "dask") from error
    return distributed


def _in_dask_task(distributed: Any) -> bool:
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


def connect(executor: str | None, scheduler: str | None) -> Any:
    """Return what estimators take as `executor`, of the words that somebody types.

    Parameters
    ----------
    executor : "dask" or None
        None is this process.
    scheduler : str, optional
        Address of a Dask scheduler, such as tcp://host:8786; a cluster on this machine without it.

    Returns
    -------
    "dask", distributed.Client or None
        A client is to be closed by who asked for it.
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
            Description(f"{show(scheduler)} ({show(str(error))})"),
            "the address of a running Dask scheduler",
            "Start one by dask scheduler, which prints its address.",
        ) from error
