"""What is reported where inference may miss the maximum, by a matching problem with greedy and exact inference."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from latentstruct import ExampleTask, GroupNorm, StructuralSVM
from latentstruct.core.objective import build_objective
from latentstruct.core.oracles import SlackOracle, TaskOracle
from latentstruct.core.protocols import HARD, Pooled, Prediction, Query, TaskTags
from latentstruct.planes.plane import Plane, Planes, Slopes
from latentstruct.planes.store import PlaneStore
from latentstruct.solvers import (
    CCCP,
    BlockAscent,
    Bundle,
    CuttingPlane,
    FrankWolfe,
    HingeSolver,
    Perceptron,
    Proximal,
    Subgradient,
)
from latentstruct.solvers.bundle import remembered_total
from latentstruct.tasks.base import BaseTask

ROUNDING = 1e-7


def assign(scores):
    """Return the permutation with the largest sum."""
    return linear_sum_assignment(scores, maximize=True)[1]


def assign_greedily(scores):
    """Take the largest entry whose row and column are free, until none is left: it may miss the largest sum."""
    left, found = scores.copy(), np.empty(len(scores), dtype=int)
    for _ in range(len(scores)):
        i, j = np.unravel_index(int(left.argmax()), left.shape)
        found[i], left[i, :], left[:, j] = j, -np.inf, -np.inf
    return found


@dataclass
class MatchingBatch:
    """Features (n, layers, k, k, d) of pairs, and permutations (n, k)."""

    X: np.ndarray
    Y: np.ndarray | None

    @property
    def n_examples(self):
        return len(self.X)

    @property
    def labeled(self):
        return self.Y is not None


class Matching(BaseTask):
    """Permutations of k items in one of several layers, the latent: s(y, h) = Σ_i w·x_h[i, y_i].

    `inference` is "exact"; "greedy", never claimed to be exact; "checked", greedy and marked exact for each example
    where it is; "late", greedy in the first `greedy_calls` augmented calls, then exact; or "wrong", any permutation.
    """

    def __init__(self, inference="exact", latent=False, greedy_calls=1):
        self.inference, self.latent, self.greedy_calls = inference, latent, greedy_calls
        self.calls = 0

    tags = TaskTags(exact=False)

    def learn(self, X, Y):
        self.n_features = np.shape(X)[-1]

    def prepare(self, X, Y=None):
        return MatchingBatch(np.asarray(X, dtype=float), None if Y is None else np.asarray(Y))

    def _best(self, tables, greedy):
        rule = assign_greedily if greedy else assign
        if self.inference == "wrong" and greedy:
            found = [np.arange(len(table))[::-1] for table in tables]
        else:
            found = [rule(table) for table in tables]
        values = [table[np.arange(len(table)), y].sum() for table, y in zip(tables, found, strict=True)]
        h = int(np.argmax(values))
        return found[h], h, values[h]

    def pool_batch(self, batch, query):
        self.calls += query.mode == "augmented"
        late = self.inference == "late" and self.calls > self.greedy_calls
        greedy = self.inference != "exact" and not late
        slopes, losses, values, exact = [], [], [], []
        for i in query.examples(batch):
            tables = batch.X[i] @ query.w
            k = tables.shape[-1]
            wrong = np.zeros((k, k)) if batch.Y is None else np.ones((k, k)) / k
            if batch.Y is not None:
                wrong[np.arange(k), batch.Y[i]] = 0.0
            if query.mode == "clamped":
                y = batch.Y[i]
                h = int(np.argmax([table[np.arange(k), y].sum() for table in tables]))
                value, right = tables[h][np.arange(k), y].sum(), True
            else:
                tables = tables + wrong * query.augmented
                y, h, value = self._best(tables, greedy)
                right = not greedy
                if greedy and self.inference == "checked":
                    right = bool(value >= self._best(tables, False)[2] - 1e-12)
            slopes.append(batch.X[i][h, np.arange(k), y].sum(axis=0))
            losses.append(wrong[np.arange(k), y].sum() * query.augmented)
            values.append(value)
            exact.append(right)
        matrix = np.reshape(slopes, (-1, self.n_features))
        return Pooled(np.array(values), Slopes.from_matrix(matrix), np.array(losses), exact=np.array(exact, dtype=bool))

    def decode(self, batch, w, temperature):
        found = [self._best(x @ w, self.inference != "exact") for x in batch.X]
        return [Prediction(y, h, float(value)) for y, h, value in found]

    def loss(self, Y_true, Y_pred):
        return np.mean(np.asarray(Y_true) != np.asarray(Y_pred), axis=1)

    def complete(self, batch, w):
        k = np.arange(batch.Y.shape[1])
        return [int(np.argmax([t[k, y].sum() for t in x @ w])) for x, y in zip(batch.X, batch.Y, strict=True)]

    def completion_planes(self, batch, latents):
        k = np.arange(batch.Y.shape[1])
        slopes = np.array([x[h, k, y].sum(axis=0) for x, y, h in zip(batch.X, batch.Y, latents, strict=True)])
        return Planes.from_matrix(slopes, np.zeros(len(slopes)), np.zeros(len(slopes)))

    def random_latents(self, batch, rng):
        return rng.integers(0, batch.X.shape[1], batch.n_examples).tolist()


def matching_data(seed, n=6, k=4, d=3, layers=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, layers, k, k, d))
    w = rng.normal(size=d)
    Y = np.array([assign((x @ w).max(axis=0) + 0.5 * rng.normal(size=(k, k))) for x in X])
    return X, Y


def objectives(inference, seed, strength, latent=False, regularizer=None, **more):
    """Return the objective with this inference, and the true one."""
    X, Y = matching_data(seed, layers=2 if latent else 1)
    found = []
    for one in (inference, "exact"):
        task = Matching(one, latent, **more)
        task.learn(X, Y)
        weights = np.full(len(X), strength / len(X))
        objective = build_objective(task, task.prepare(X, Y), weights, HARD, regularizer=regularizer)
        if latent:
            planes = task.completion_planes(task.prepare(X, Y), [0] * len(X))
            objective.first = lambda attempt, planes=planes: planes
        found.append(objective)
    return found


SOLVERS = {
    "block_ascent": BlockAscent(max_iter=60),
    "small_cache": BlockAscent(max_iter=60, max_planes=2),
    "hinge": HingeSolver(max_iter=60, patience=5, hopeless=1e-9),
    "bundle": Bundle(max_iter=60),
    "one_slack": Bundle(max_iter=60, proximity=0.0),
    "few_planes": Bundle(max_iter=60, max_planes=3),
    "cached_bundle": Bundle(max_iter=60, cached_planes=5),
    "cutting_plane": CuttingPlane(max_iter=30),
    "frank_wolfe": FrankWolfe(max_iter=30),
    "mean_frank_wolfe": FrankWolfe(max_iter=30, average=True, step="plain"),
    "subgradient": Subgradient(max_iter=30),
    "perceptron": Perceptron(max_iter=5),
}


def check_result(result, true, inference, lowest):
    """Compare what is reported with the true objective, and with its value at any good weights."""
    reached = true.value(result.w)
    allowance = ROUNDING * (1.0 + abs(reached))
    assert result.gap >= 0.0
    assert result.objective >= result.lower_bound
    assert result.objective <= reached + allowance
    assert result.lower_bound <= min(reached, lowest) + ROUNDING * (1.0 + abs(lowest))
    for line in result.history:
        assert line.gap >= -ROUNDING * (1.0 + abs(line.objective))
        assert line.objective >= line.lower_bound - ROUNDING * (1.0 + abs(line.objective))
    if result.certified:
        assert result.objective == pytest.approx(reached, rel=1e-6, abs=1e-9)
    if inference in ("greedy", "wrong"):
        assert not result.certified


@settings(deadline=None, max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    strength=st.sampled_from([0.1, 1.0, 10.0, 300.0]),
    inference=st.sampled_from(["greedy", "checked", "late", "wrong"]),
)
@pytest.mark.parametrize("name", SOLVERS)
def test_reports_are_bounds_of_the_true_objective(name, seed, strength, inference):
    objective, true = objectives(inference, seed, strength, greedy_calls=3)
    if name == "perceptron":
        lowest = np.inf
    else:
        lowest = Bundle(tol=1e-6, max_iter=200).minimize(true).objective
    check_result(SOLVERS[name].minimize(objective), true, inference, lowest)


@settings(deadline=None, max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    strength=st.sampled_from([1.0, 10.0, 100.0]),
    inference=st.sampled_from(["greedy", "checked", "late", "wrong"]),
)
def test_reports_with_other_regularizers_are_bounds(seed, strength, inference):
    objective, true = objectives(inference, seed, strength, regularizer=GroupNorm([0, 0, 1]), greedy_calls=3)
    check_result(Proximal(max_iter=60).minimize(objective), true, inference, np.inf)


@settings(deadline=None, max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    strength=st.sampled_from([1.0, 10.0, 100.0]),
    inference=st.sampled_from(["greedy", "checked", "late", "wrong"]),
)
@pytest.mark.parametrize("inner", [None, Bundle(max_iter=60), BlockAscent(max_iter=60)])
def test_latent_reports_are_not_above_the_true_objective(inner, seed, strength, inference):
    objective, true = objectives(inference, seed, strength, latent=True)
    check_result(CCCP(inner, max_iter=10).minimize(objective), true, inference, np.inf)


@pytest.mark.parametrize("name", ["block_ascent", "hinge", "bundle", "cached_bundle", "cutting_plane", "frank_wolfe"])
@pytest.mark.parametrize("seed", range(5))
def test_inference_that_becomes_exact_is_certified(name, seed):
    objective, true = objectives("late", seed, 10.0, greedy_calls=1)
    result = clone(SOLVERS[name]).set_params(max_iter=1000, tol=1e-2).minimize(objective)
    best = Bundle(tol=1e-6, max_iter=1000).minimize(true)
    assert best.certified
    assert result.certified
    assert result.reason == "converged"
    assert result.objective == pytest.approx(true.value(result.w), rel=1e-6)
    assert result.lower_bound <= best.objective * (1 + 1e-6)
    assert best.lower_bound * (1 - 1e-6) <= result.objective <= best.objective * (1 + 2e-2)


@pytest.mark.parametrize("inference", ["greedy", "wrong"])
@pytest.mark.parametrize("mode", ["free", "augmented"])
def test_inexact_answers_are_not_below_the_truth(inference, mode):
    X, Y = matching_data(0, n=8)
    task = Matching(inference)
    task.learn(X, Y)
    batch, weights = task.prepare(X, Y), np.linspace(1.0, 2.0, 8)
    oracle, truth = (TaskOracle(task, batch, weights, one) for one in (mode, "clamped"))
    rng = np.random.default_rng(1)
    for scale in (0.1, 1.0, 10.0):
        w = scale * rng.normal(size=3)
        planes, known, rows = oracle.planes(w), truth.planes(w), np.array([5, 0, 5])
        assert (planes.values >= known.values).all()
        np.testing.assert_allclose(planes.offsets + planes.dot(w), planes.values, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(oracle.planes(w, rows).values, planes.values[rows])
        total = oracle.total(w)
        assert total(w) == pytest.approx(float(weights @ planes.values))
        assert (planes.all_exact, planes.below, total.exact, total.below) == (False, True, False, True)
        assert known.all_exact


def test_exactness_is_that_of_each_plane():
    X, Y = matching_data(3, n=30, k=5)
    task, exact = Matching("checked"), Matching()
    for one in (task, exact):
        one.learn(X, Y)
    w, rows = np.random.default_rng(0).normal(size=3), np.arange(3, 30, 2)
    planes = TaskOracle(task, task.prepare(X, Y), np.ones(30), "augmented").planes(w)
    best = exact.planes(exact.prepare(X, Y), w, "augmented", HARD)
    assert 0 < planes.each_exact.sum() < 30
    np.testing.assert_allclose(planes.values[planes.each_exact], best.values[planes.each_exact])
    assert (planes.values[~planes.each_exact] < best.values[~planes.each_exact]).all()
    assert np.array_equal(planes.take(rows).each_exact, planes.each_exact[rows])
    assert np.array_equal(planes.between(4, 9).each_exact, planes.each_exact[4:9])
    assert np.array_equal((planes + best).each_exact, planes.each_exact)
    joined = Planes.joined([planes.take(rows), best.take(rows)])
    assert np.array_equal(joined.each_exact, np.append(planes.each_exact[rows], np.ones(len(rows), dtype=bool)))
    replaced = planes.replaced(rows, best.take(rows))
    np.testing.assert_allclose(replaced.values[rows], best.values[rows])
    assert replaced.each_exact[rows].all()
    assert not planes.total(np.ones(30)).exact
    assert planes.take(np.flatnonzero(planes.each_exact)).total(np.ones(planes.each_exact.sum())).exact


def test_slack_rescaling_by_search_is_not_below_zero():
    X, Y = matching_data(0, n=8)
    task = Matching("wrong")
    task.learn(X, Y)
    oracle = SlackOracle(task, task.prepare(X, Y), np.ones(8))
    rng = np.random.default_rng(0)
    points = [scale * rng.normal(size=3) for scale in (0.1, 1.0, 10.0)]
    for w in points:
        planes = oracle.planes(w)
        assert (planes.values >= 0.0).all()
        assert planes.below
        assert not planes.all_exact


def test_kept_planes_count_where_answers_are_inexact():
    X, Y = matching_data(0)
    task = Matching("late", greedy_calls=0)
    task.learn(X, Y)
    batch, weights = task.prepare(X, Y), np.ones(len(X))
    plus, minus = (TaskOracle(task, batch, weights, mode) for mode in ("augmented", "clamped"))
    store, w = PlaneStore(minus.planes(np.zeros(3)), weights, 10), np.random.default_rng(0).normal(size=3)
    exact = remembered_total(plus, store, w)
    task.inference = "wrong"
    again = remembered_total(plus, store, w)
    assert again(w) == pytest.approx(exact(w))
    assert (exact.exact, again.exact, again.below) == (True, False, True)


def test_sums_of_planes_are_below_only_if_all_are():
    below, other = Plane(np.ones(2), 1.0, exact=False), Plane(np.ones(2), 1.0, below=False)
    assert ((below + below).below, (below + other).below, (2.0 * other).below) == (True, False, False)


class GreedyMatching(ExampleTask):
    """The same problem by functions of one example."""

    exact = False

    def joint_feature(self, x, y):
        return x[0, np.arange(len(y)), y].sum(axis=0)

    def output_loss(self, y, y_hat):
        return float(np.sum(y != y_hat))

    def argmax(self, x, w):
        return assign_greedily(x[0] @ w)

    def loss_augmented_argmax(self, x, y, w):
        # Without the loss in the search, as careless authors have it: far from the maximum.
        return assign_greedily(x[0] @ w)


@pytest.mark.parametrize("solver", ["auto", "bundle", "cutting_plane", "frank_wolfe", "block_ascent"])
def test_a_greedy_example_task_claims_nothing(solver):
    X, Y = matching_data(1, n=20, k=5)
    X, Y = list(X), list(Y)
    model = StructuralSVM(GreedyMatching(), C=100.0, solver=solver).fit(X, Y)
    assert not model.certified_
    assert model.gap_ >= 0.0
    assert model.relative_gap_ >= 0.0
    assert model.objective_ >= max(model.lower_bound_, 0.0)


def test_the_truth_is_not_queried_where_it_is_unknown():
    X, Y = np.random.default_rng(3).normal(size=(2, 1, 3, 3, 2)), np.array([[0, 1, 2], [2, 0, 1]])
    task = Matching("greedy")
    task.learn(X, Y)
    w = np.array([1.0, -0.5])
    found = TaskOracle(task, task.prepare(X), np.ones(2), "free").planes(w)
    np.testing.assert_allclose(found.values, [one.score for one in task.decode(task.prepare(X), w, HARD)])
    assert not found.each_exact.any()


def test_a_sum_of_inexact_planes_is_not_below_the_truth():
    X, Y = np.random.default_rng(4).normal(size=(6, 1, 3, 3, 2)), np.tile([0, 1, 2], (6, 1))
    task = Matching("wrong")
    task.learn(X, Y)
    batch, w = task.prepare(X, Y), 3.0 * X[:, 0, range(3), range(3)].sum(axis=(0, 1))
    oracle, truth = (TaskOracle(task, batch, np.ones(6), mode) for mode in ("augmented", "clamped"))
    found, true = (total.offset + total.slope @ w for total in (oracle.total(w), truth.total(w)))
    assert found == pytest.approx(oracle.planes(w).values.sum())
    assert found >= true > task.pool_batch(batch, Query(w, "augmented", HARD)).values.sum()
