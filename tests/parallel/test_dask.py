"""Training on a Dask cluster of two worker processes: the same objective as in one process, whoever dies."""

import os
import signal
import sys
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import parent_process
from pathlib import Path

import cloudpickle
import dask
import distributed
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.protocol import deserialize, serialize
from distributed.utils import get_mp_context
from sklearn.base import clone

import latentstruct
from error_fields import raises
from latentstruct import CRF, Chain, LatentSSVM, Motif, StructuralSVM
from latentstruct.data.sharded import ShardedData
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.parallel import dask_shards
from latentstruct.parallel.dask_shards import DaskShards, WorkerHandle, _same, connect, opened
from latentstruct.parallel.shards import DataRecipe, data_recipes
from latentstruct.solvers import CCCP, Bundle, Subgradient

RNG = np.random.default_rng(3)
LETTERS = [RNG.integers(0, 3, n) for n in RNG.integers(1, 7, 60)]
ROWS = [np.eye(3)[y] + RNG.normal(size=(len(y), 3)) for y in LETTERS]
SITES = ["".join(RNG.choice(list("ACGT"), 20)) for _ in range(30)]
SITES = [site[:5] + "TATAAT" + site[11:] if k % 2 else site for k, site in enumerate(SITES)]
BOUND = [k % 2 for k in range(30)]

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class DeadlyChain(Chain):
    """A chain that kills the worker it runs on, once for each file that it finds in a folder."""

    folder = ""

    def pool_batch(self, batch, query):
        for file in Path(self.folder).iterdir() if parent_process() is not None else ():
            # Two workers may find the same file: the one that removes it dies.
            with suppress(FileNotFoundError):
                file.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().pool_batch(batch, query)


@contextmanager
def limited(seconds=200):
    """Fail where something hangs."""

    def fail(*_):
        # Not a TimeoutError, which those who wait in steps expect.
        raise AssertionError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def client():
    # Workers are copies of a process that has imported all they need, which takes most of the time otherwise.
    by_copying = dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    modules = ["distributed", "latentstruct.parallel.dask_shards", "latentstruct.estimators"]
    get_mp_context().set_forkserver_preload(modules)
    with (
        by_copying,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


@pytest.fixture
def empty():
    """Connect to a cluster in this process that has no workers."""
    cluster = LocalCluster(n_workers=0, processes=False, dashboard_address=":0")
    with cluster, Client(cluster, set_as_default=False) as connected:
        yield connected


def shards_of_rows(client):
    task = Chain()
    task.learn(ROWS, LETTERS)
    return DaskShards(client, task, data_recipes(ROWS, LETTERS, np.linspace(0, len(ROWS), 9).astype(int)))


def size_of(task, batch):
    return batch.n_examples


@pytest.mark.parametrize(
    ("model", "X", "Y"),
    [
        (CRF(Chain()), ROWS, LETTERS),
        (StructuralSVM(Chain(), solver="bundle", tol=0.05), ROWS, LETTERS),
        (StructuralSVM(Chain(), solver=Subgradient(batch_size=20, patience=1, tol=0.1)), ROWS, LETTERS),
        (LatentSSVM(Motif(width=6), C=0.1, solver=CCCP(Bundle()), tol=0.1), SITES, BOUND),
    ],
    ids=["crf", "svm", "subgradient", "motif"],
)
def test_same_objective_as_one_process(client, many_pieces, model, X, Y):
    here = clone(model).set_params(executor="local").fit(X, Y)
    futures = []
    with limited():
        there = (
            clone(model).set_params(executor=client).fit(X, Y, callback=lambda _: futures.append(len(client.futures)))
        )
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-12)
    assert there.n_iter_ == here.n_iter_
    # What is kept: the task, the shards, and what the last call left until the client was notified.
    assert max(futures) <= 100
    if not isinstance(model.solver, Subgradient):
        assert there.coef_.tobytes() == clone(model).fit(X, Y).coef_.tobytes()


def test_dead_workers_change_nothing(client, many_pieces, tmp_path):
    model = CRF(DeadlyChain(), tol=1e-10)
    here = clone(model).set_params(executor="local").fit(ROWS, LETTERS)
    DeadlyChain.folder = str(tmp_path)
    killed = []

    def kill(line):
        if line.iteration == 4:
            # Between two questions, with all that the workers know: for a moment there is none.
            client.wait_for_workers(2)
            killed.extend(client.run(os.getpid).values())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
        elif line.iteration in (2, 6):
            # In the middle of an answer.
            (tmp_path / str(line.iteration)).touch()

    with limited():
        there = clone(model).set_params(executor=client).fit(ROWS, LETTERS, callback=kill)
    assert there.n_iter_ > 6
    assert len(killed) == 2
    assert not list(tmp_path.iterdir())
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-12)


def test_shards_that_the_scheduler_forgot_are_built_again(client):
    shards = shards_of_rows(client)
    with limited():
        assert shards.map(size_of) == shards.sizes
        client.cancel([shards._sent, *shards._batches])
        assert shards.map(size_of) == shards.sizes
        assert shards.map(size_of, chosen=[2, 5]) == [shards.sizes[2], shards.sizes[5]]


def test_arrays_travel_beside_the_pickle_and_may_be_written_to(client):
    held = WorkerHandle(np.arange(1001.0))
    header, frames = serialize(held)
    assert any(np.shares_memory(np.frombuffer(frame, dtype=np.uint8), held.value) for frame in frames[1:])
    for arrived in (
        deserialize(header, [memoryview(b"x" + bytes(frame))[1:] for frame in frames]),
        client.submit(_same, held).result(),
    ):
        assert arrived.value.flags.writeable
        assert arrived.value.flags.aligned
        assert np.array_equal(arrived.value, held.value)
        assert arrived.n_bytes >= held.value.nbytes


def test_errors_on_workers_are_told_as_they_are(client):
    shards = shards_of_rows(client)
    shards.recipes[3] = DataRecipe(ROWS[:2], LETTERS[:1], 1)
    with limited(), raises("Y", got="1 outputs", expected="2 outputs"):
        shards.map(size_of)


def test_interrupt_keeps_the_best_weights(client, many_pieces, monkeypatch):
    wait, calls, cancelled = DaskShards._awaited, [], []

    def interrupted(self, waited_for):
        calls.append(waited_for)
        if len(calls) == 8:
            waited_for.close()
            raise KeyboardInterrupt
        return wait(self, waited_for)

    monkeypatch.setattr(DaskShards, "_awaited", interrupted)
    monkeypatch.setattr(DaskShards, "_cancel", lambda self, futures: cancelled.extend(futures))
    model = CRF(Chain(), tol=1e-10, executor=client)
    with limited(), pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(ROWS, LETTERS)
    assert model.stop_reason_ == "interrupted"
    assert model.n_iter_ >= 1
    assert len(cancelled) == 2


def test_stored_shards_are_opened_by_workers(client, tmp_path):
    ShardedData.write(
        tmp_path / "data", Chain(), [(ROWS[:25], LETTERS[:25]), (ROWS[25:], LETTERS[25:])], shard_mb=0.001
    )
    data = ShardedData(tmp_path / "data")
    assert len(data.sizes) > 1
    with limited():
        here, there = (CRF(Chain(), tol=1e-10, executor=executor).fit(data) for executor in (None, client))
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-12)
    (shard,) = data.folder.glob("shard-00001-*")
    shard.unlink()
    with limited(), raises(file=shard.name, expected="a readable file"):
        CRF(Chain(), executor=client).fit(data)


def test_lost_answers_end_in_words(client, monkeypatch):
    shards = shards_of_rows(client)

    def lose(self, waited_for):
        waited_for.close()
        raise distributed.client.FutureCancelledError("key", "lost")

    monkeypatch.setattr(DaskShards, "_awaited", lose)
    with limited(), raises("executor", got="in 4 attempts"):
        shards.map(size_of)


def test_no_workers(empty, monkeypatch):
    monkeypatch.setattr(dask_shards, "PATIENCE", 0.2)
    monkeypatch.setattr(dask_shards, "POLL", 0.05)
    with limited(), raises("executor", got="no workers at"):
        CRF(Chain(), executor=empty).fit(ROWS, LETTERS)


def test_closed_connection(empty):
    empty.close()
    with limited(), raises("executor", got="a closed connection"):
        CRF(Chain(), executor=empty).fit(ROWS, LETTERS)


def test_workers_with_another_version(client, monkeypatch):
    monkeypatch.setattr(latentstruct, "__version__", "0.0")
    with limited(), raises("executor", got="on tcp://", expected="latentstruct 0.0"):
        CRF(Chain(), executor=client).fit(ROWS, LETTERS)


def test_current_client_is_used_and_not_closed(client):
    with client.as_current(), opened("dask") as found:
        assert found is client
    assert client.status == "running"


def test_cluster_of_its_own_is_closed(monkeypatch):
    monkeypatch.setattr(distributed, "LocalCluster", partial(LocalCluster, processes=False))
    with limited(), opened("dask") as made:
        assert len(made.scheduler_info()["workers"]) >= 1
    assert made.status == "closed"


def test_connections_that_are_typed(client, monkeypatch):
    assert connect(None, None) is None
    assert connect("dask", None) == "dask"
    with connect("dask", client.scheduler.address) as made:
        assert isinstance(made, Client)
    with raises("executor", expected="'dask' if `scheduler` is given"):
        connect(None, client.scheduler.address)
    monkeypatch.setattr(dask_shards, "CONNECT_SECONDS", 0.2)
    with raises("scheduler", got="tcp://127.0.0.1:9"):
        connect("dask", "tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with raises("distributed", hint="pip install 'latentstruct[dask]'"):
        connect("dask", "tcp://127.0.0.1:9")
