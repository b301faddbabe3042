"""Examples in shards: sums that equal those of one batch, solvers that need no more, and refusals of all others."""

import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from error_fields import raises
from latentstruct import (
    CRF,
    Chain,
    ExampleTask,
    HiddenCRF,
    LatentMulticlass,
    LatentSSVM,
    MarginalSSVM,
    Measure,
    MinEntropySSVM,
    Multiclass,
    StructuralSVM,
    load,
)
from latentstruct.core.objective import build_objective
from latentstruct.core.oracles import TaskOracle
from latentstruct.core.protocols import Cost, Temperature
from latentstruct.core.regularizers import GroupNorm
from latentstruct.parallel.shards import (
    LEAST_SHARDS,
    LENGTH_OF_SHARD,
    MOST_SHARDS,
    LocalShards,
    ShardedOracle,
    Shards,
    block_length,
    part_of,
    places_of_blocks,
    shard_bounds,
)
from latentstruct.planes.plane import Plane
from latentstruct.planes.summation import add_up, group_size
from latentstruct.solvers import CCCP, LBFGS, BlockAscent, Bundle, Proximal, SelfPaced, Subgradient
from latentstruct.solvers.selection import choose_solver
from latentstruct.solvers.starts import LatentStarts, SampledStarts, SummedStarts
from latentstruct.tasks.base import BaseTask

RNG = np.random.default_rng(7)
LABELS = RNG.integers(0, 3, 40)
POINTS = np.eye(3)[LABELS] + RNG.normal(size=(40, 3))
LETTERS = [RNG.integers(0, 3, n) for n in RNG.integers(1, 7, 40)]
ROWS = [np.eye(3)[y] + RNG.normal(size=(len(y), 3)) for y in LETTERS]
STATES = RNG.normal(size=(40, 4, 2))
STATES[np.arange(40), RNG.integers(0, 4, 40)] += 3.0 * (2 * (LABELS[:, None] > 0) - 1)
SIGNS = (LABELS > 0).astype(int)

PROBLEMS = {
    "classes": (Multiclass(bias=1.0), POINTS, LABELS, [(0, 0), (1, 0)]),
    "sparse": (Multiclass(), sparse.coo_array(POINTS), LABELS, [(0, 0)]),
    "chains": (Chain(), ROWS, LETTERS, [(0, 0), (0.5, 0)]),
    "sparse chains": (Chain(), [sparse.csr_array(x) for x in ROWS], LETTERS, [(1, 0)]),
    "latent": (LatentMulticlass(), STATES, SIGNS, [(0, 0), (0, 1), (1, 1)]),
}


def learned(name):
    task, X, Y, temperatures = PROBLEMS[name]
    task = clone(task)
    task.learn(X, Y)
    return task, X, Y, temperatures


def cut(task, X, Y, bounds):
    return LocalShards(task, [task.prepare(part_of(X, a, b), part_of(Y, a, b)) for a, b in pairwise(bounds)])


def sharded(name, temperature=(0, 0), margin=True, regularizer=None, bounds=(0, 7, 8, 30, 40)):
    task, X, Y, _ = learned(name)
    weights = np.full(40, 0.3)
    made = [cut(task, X, Y, bounds), task.prepare(X, Y)]
    return [
        build_objective(task, part, weights, Temperature(*temperature), margin, regularizer=regularizer)
        for part in made
    ]


@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_sums_are_those_of_one_batch(name, data):
    task, X, Y, temperatures = learned(name)
    inner = data.draw(st.sets(st.integers(1, 39), max_size=6))
    shards = cut(task, X, Y, [0, *sorted(inner), 40])
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    weights = np.full(40, 0.7) if data.draw(st.booleans()) else rng.random(40)
    w = rng.normal(size=task.n_features)
    rows = rng.permutation(40)[: data.draw(st.integers(1, 40))]
    for mode in ("free", "augmented", "clamped"):
        temperature = Temperature(*data.draw(st.sampled_from(temperatures)))
        one = TaskOracle(task, task.prepare(X, Y), weights, mode, temperature)
        many = ShardedOracle(shards, weights, mode, temperature)
        alike = [(many.total(w), one.total(w)), (many.part_total(w, rows), one.planes(w, rows).total(weights[rows]))]
        for found, expected in alike:
            np.testing.assert_allclose(found.slope, expected.slope, rtol=1e-10, atol=1e-10)
            assert found(w) == pytest.approx(expected(w), rel=1e-10, abs=1e-10)
            assert (found.entropy, found.exact) == (pytest.approx(expected.entropy, abs=1e-10), expected.exact)
        again, same = many.total(w), replace(one, chunk_bounds=np.array([0, *sorted(inner), 40])).total(w)
        assert again.slope.tobytes() == same.slope.tobytes()
        assert (again.offset, again.entropy) == (same.offset, same.entropy)
        assert (many.smooth, many.half_smooth, many.approximate) == (one.smooth, one.half_smooth, one.approximate)
        assert many.smoothed(0.2).temperature == one.smoothed(0.2).temperature


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 5 * MOST_SHARDS), n_parts=st.integers(1, 20), seed=st.integers(0, 99), ours=st.booleans())
def test_order_of_sums_does_not_depend_on_where_they_are_made(n, n_parts, seed, ours):
    rng = np.random.default_rng(seed)
    slopes, offsets = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-8, 8, (n, 1)), rng.normal(size=n)

    def planes():
        return [Plane(slope.copy(), offset) for slope, offset in zip(slopes, offsets, strict=True)]

    given_planes = planes()
    running = add_up(iter(given_planes), n, ours=ours)
    assert ours or np.array_equal(slopes, [plane.slope for plane in given_planes])
    length, size = block_length(n, n_parts), group_size(n)
    sums = [add_up(planes()[k : k + length], min(length, n - k), size, ours) for k in range(0, n, length)]
    found = add_up(sums, len(sums), 1)
    assert np.array_equal(running.slope, found.slope)
    assert running.offset == found.offset
    np.testing.assert_allclose(found.slope, slopes.sum(axis=0), rtol=1e-9, atol=1e-9 * abs(slopes).max())
    places = places_of_blocks(n, length, n_parts)
    assert (np.diff(places) >= 0).all()
    assert places[-1] < n_parts
    shares = np.bincount(places, minlength=n_parts)
    assert shares.max() <= max(1.25 * n / n_parts, size * -(-n // size // n_parts) + size)


class Worked(BaseTask):
    """A task that only says how much work its examples are."""

    n_features = 1

    def __init__(self, known):
        self.known = known

    def cost(self, batch, mode, temperature):
        return super().cost(batch, mode, temperature) if self.known is None else Cost(self.known)


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(0, 50), min_size=1, max_size=60), factor=st.sampled_from([1, 4000]))
def test_bounds_of_shards_of_unknown_work(lengths, factor):
    X = [range(n * factor) for n in lengths]
    plain = TaskOracle(Worked(None), SimpleNamespace(n_examples=len(X)), np.ones(len(X)), "free")
    bounds = shard_bounds(plain, X).tolist()
    assert bounds == shard_bounds(plain, [sparse.csr_array((len(x), 2)) for x in X]).tolist()
    assert (bounds[0], bounds[-1]) == (0, len(X))
    sizes = np.diff(bounds)
    assert (sizes > 0).all()
    assert len(sizes) <= MOST_SHARDS
    total = sum(lengths) * factor + len(X)
    most = min(len(X), max(LEAST_SHARDS, min(MOST_SHARDS, total // LENGTH_OF_SHARD)))
    assert len(sizes) <= most
    share = 2 * total / most
    longest = max(lengths) * factor + 1
    parts = [sum(len(x) + 1 for x in X[a:b]) for a, b in pairwise(bounds)]
    assert max(parts) <= share + longest


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.floats(1, 1e6), min_size=2, max_size=200), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_bounds_of_shards_of_known_work(steps, scale):
    work = scale * np.array(steps)
    bounds = shard_bounds(
        TaskOracle(Worked(work), SimpleNamespace(n_examples=len(work)), np.ones(len(work)), "free"), None
    )
    assert (bounds[0], bounds[-1]) == (0, len(work))
    assert len(bounds) - 1 <= MOST_SHARDS
    assert len(bounds) == 2 or work.sum() >= 1e6
    assert (np.diff(bounds) > 0).all()
    parts = np.add.reduceat(work, bounds[:-1])
    assert parts.max() <= 2 * work.sum() / (len(bounds) - 1) + work.max()


@pytest.mark.parametrize(
    ("solver", "name", "temperature", "precision"),
    [
        (Bundle(tol=1e-6), "chains", (0, 0), 1e-9),
        (LBFGS(tol=1e-6), "chains", (1, 0), 1e-9),
        (LBFGS(tol=1e-4), "classes", (0, 0), 1e-9),
        (Subgradient(max_iter=30), "classes", (0, 0), 1e-9),
        (Subgradient(batch_size=40, max_iter=30), "sparse", (0, 0), 1e-9),
        # Where a loosely solved problem ends depends on the last bit of sums; how precisely it is solved does not.
        (CCCP(Bundle()), "latent", (0, 0), 1e-3),
        (CCCP(Subgradient(batch_size=40, max_iter=20)), "latent", (0, 0), 1e-9),
        (LBFGS(), "latent", (1, 1), 1e-6),
        (Subgradient(max_iter=10), "latent", (0, 1), 1e-9),
    ],
    ids=repr,
)
def test_solvers_that_need_sums_only(solver, name, temperature, precision):
    many, one = sharded(name, temperature)
    w0 = np.random.default_rng(1).normal(size=one.n_features)
    found, expected = (clone(solver).minimize(objective, w0) for objective in (many, one))
    assert found.objective == pytest.approx(expected.objective, rel=precision)
    assert many.value(found.w) == pytest.approx(found.objective, rel=1e-12)
    if precision == 1e-9:
        assert found.oracle_calls == expected.oracle_calls


def test_proximal_descent_of_shards():
    many, one = sharded("classes", regularizer=GroupNorm(np.repeat([0, 1], [9, 3]), 0.5))
    found, expected = (Proximal().minimize(objective) for objective in (many, one))
    assert found.objective == pytest.approx(expected.objective, rel=1e-6)


def test_automatic_choice_is_one_that_needs_sums_only():
    hinge, _ = sharded("chains")
    assert isinstance(choose_solver(hinge), Bundle)
    assert isinstance(choose_solver(sharded("chains", (1, 0))[0]), LBFGS)
    latent, _ = sharded("latent")
    descent = choose_solver(latent)
    assert isinstance(descent, CCCP)
    assert isinstance(descent._convex_solver(latent.linearized_at(np.zeros(latent.n_features)), repeated=False), Bundle)
    assert {"planes"} & hinge.properties == set()
    assert {"convex", "difference", "l2"} <= hinge.properties


@pytest.mark.parametrize(
    ("solver", "parameter"),
    [
        (BlockAscent(), "solver"),
        (SelfPaced(), "solver"),
        (Bundle(cached_planes=5), "cached_planes"),
        (CCCP(Subgradient(batch_size=3)), "batch_size"),
    ],
)
def test_solvers_that_need_single_planes_refuse(solver, parameter):
    many, _ = sharded("latent" if isinstance(solver, CCCP | SelfPaced) else "classes")
    with raises(parameter):
        solver.minimize(many, np.zeros(many.n_features))


def test_first_latents_of_shards():
    many, one = sharded("latent")
    task, shards = many.plus.shards.task, many.plus.shards
    whole = one.plus.batch
    latents = [task.random_latents(whole, np.random.default_rng([3, k])) for k in range(2)]
    given = task.random_latents(whole, np.random.default_rng(5))

    def slopes(H):
        starts = SummedStarts(LatentStarts(task, whole, "random", H, seed=3), many.minus)
        return [starts.planes(attempt).slope for attempt in range(2)]

    def expected(H):
        return task.completion_planes(whole, H).total(one.plus.weights).slope

    np.testing.assert_allclose(slopes(None), [expected(latents[0]), expected(latents[1])], atol=1e-12)
    np.testing.assert_allclose(slopes(given), [expected(given), expected(latents[1])], atol=1e-12)

    def first_shard():
        batch = shards.batches[0]
        objective = build_objective(task, batch, one.plus.weights[: batch.n_examples], Temperature())
        return replace(objective, starts=LatentStarts(task, batch, "random"))

    # Completed by the weights of the first shard: a supporting plane of the clamped side, as good as some completion.
    plane = SampledStarts(many, first_shard).planes(0)
    for w in np.random.default_rng(2).normal(size=(5, one.n_features)):
        assert plane(w) <= one.minus.total(w)(w) + 1e-9


def test_shards_are_known_by_what_they_do():
    many, _ = sharded("classes")
    assert isinstance(many.plus.shards, Shards)
    assert many.plus.shards.map(
        lambda task, batch, a, b: (batch.n_examples, a, b), ("x",), [(k,) for k in range(4)]
    ) == [
        (7, "x", 0),
        (1, "x", 1),
        (22, "x", 2),
        (10, "x", 3),
    ]
    with raises("weights", got="3 weights", expected="40 weights"):
        replace(many.plus, weights=np.ones(3))


@pytest.mark.parametrize(
    ("model", "X", "Y", "expected"),
    [
        (StructuralSVM(Measure("f1"), executor="dask"), POINTS, SIGNS, "the whole data set as one example"),
        (CRF(Chain(), executor="dask"), ROWS[:1], LETTERS[:1], "a single example"),
        (MinEntropySSVM(LatentMulticlass(), executor="dask"), STATES, SIGNS, "needs all examples in this process"),
        (CRF(Chain(), executor="spark"), ROWS, LETTERS, "'dask', 'local', a distributed.Client"),
        (CRF(Chain(), executor=3), ROWS, LETTERS, "a distributed.Client"),
    ],
)
def test_executors_that_cannot_serve(model, X, Y, expected):
    with raises("executor", got=model.executor, expected=expected):
        model.fit(X, Y)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (CRF(Chain()), "chains"),
        (CRF(Chain()), "sparse chains"),
        (StructuralSVM(Chain(), solver="bundle"), "chains"),
        (StructuralSVM(Multiclass(), solver="bundle"), "classes"),
        (HiddenCRF(LatentMulticlass()), "latent"),
        (LatentSSVM(LatentMulticlass(), solver=CCCP(Bundle())), "latent"),
        (MarginalSSVM(LatentMulticlass(), solver=CCCP(Bundle())), "latent"),
    ],
    ids=repr,
)
def test_estimators_find_the_same_weights_on_shards_in_this_process(model, name, many_pieces):
    _, X, Y, _ = PROBLEMS[name]
    fits = [
        clone(model).set_params(executor=executor, n_jobs=n_jobs).fit(X, Y)
        for executor, n_jobs in ((None, 1), (None, 2), ("local", 1), ("local", 2))
    ]
    if isinstance(model, MarginalSSVM):
        # What CCCP makes linear is pooled softly: example by example here, as a sum there.
        np.testing.assert_allclose(fits[2].coef_, fits[0].coef_, rtol=1e-9)
        fits = fits[:2]
    assert len({fit.coef_.tobytes() for fit in fits}) == 1
    assert len({fit.objective_ for fit in fits}) == 1


class OwnPool(Multiclass):
    """A task of the user's own, with planes of single examples only."""

    def pool_batch(self, batch, query):
        return super().pool_batch(batch, replace(query, weights=None))


class Alone(ExampleTask):
    """A task in Python that must not be called by two threads at a time."""

    busy = False

    def joint_feature(self, x, y):
        return np.outer(np.eye(3)[y], x).ravel()

    def output_loss(self, y, y_hat):
        return float(y != y_hat)

    def argmax(self, x, w):
        return int(np.argmax(w.reshape(3, -1) @ x))

    def loss_augmented_argmax(self, x, y, w):
        assert not Alone.busy
        Alone.busy = True
        time.sleep(1e-4)
        Alone.busy = False
        return int(np.argmax(w.reshape(3, -1) @ x + (np.arange(3) != y)))


@pytest.mark.parametrize("executor", [None, "local"])
def test_tasks_of_users_are_asked_as_they_can_be(executor, many_pieces):
    whole, own = (
        StructuralSVM(task, solver="bundle", executor=executor, n_jobs=2).fit(POINTS, LABELS)
        for task in (Multiclass(), OwnPool())
    )
    alone = StructuralSVM(Alone(), solver="bundle", tol=0.05, executor=executor, n_jobs=2).fit(POINTS, LABELS)
    # One problem, whose optimum is between the bounds of each.
    for model, tol in ((whole, 1e-3), (own, 1e-3), (alone, 0.05)):
        assert model.certified_
        assert model.relative_gap_ <= tol
        assert model.lower_bound_ <= min(whole.objective_, own.objective_, alone.objective_) * (1 + 1e-9)


def test_latents_of_shards_in_this_process(many_pieces):
    weights = 0.5 + SIGNS
    models = [LatentSSVM(LatentMulticlass(), solver=CCCP(Bundle()), executor=executor) for executor in (None, "local")]
    one, many = (model.fit(STATES, SIGNS, sample_weight=weights) for model in models)
    assert many.objective_ == one.objective_
    H = one.complete(STATES, SIGNS)
    again = models[1].fit(STATES, SIGNS, sample_weight=weights, H=H)
    assert again.objective_ <= one.objective_ * (1 + 1e-2)


def test_slack_rescaling_is_refused():
    task, X, Y, _ = learned("classes")
    with raises("rescaling", got="slack"):
        build_objective(task, cut(task, X, Y, [0, 20, 40]), np.ones(40), Temperature(), rescaling="slack")


def test_executor_is_shared_by_clones_and_left_out_of_files(tmp_path):
    model = LatentSSVM(LatentMulticlass()).fit(STATES, SIGNS)
    model.executor = SimpleNamespace(wire=(line for line in "a"))  # as little to be copied as a client is
    assert clone(model).executor is model.executor
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").executor is None
