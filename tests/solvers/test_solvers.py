"""All solvers on the same small problems, against the quadratic program with every constraint written out."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

import numpy as np
import piqp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.svm import LinearSVC

from error_fields import raises
from latentstruct import (
    LBFGS,
    BlockAscent,
    Bundle,
    CandidateTask,
    Chain,
    CuttingPlane,
    ExampleTask,
    FrankWolfe,
    HingeSolver,
    Multiclass,
    Perceptron,
    StructuralSVM,
    Subgradient,
    Temperature,
    build_objective,
)
from latentstruct.core.protocols import Iteration
from latentstruct.core.regularizers import NoRegularizer
from latentstruct.planes.plane import Plane
from latentstruct.solvers.base import Monitor
from latentstruct.solvers.bundle import PlaneBundle
from latentstruct.solvers.dual import DualPoint

HARD = Temperature()


class Ranks(ExampleTask):
    """Ordinal outputs 0 … 3, |y − ŷ| as loss, in plain Python."""

    outputs = range(4)

    def joint_feature(self, x, y):
        return np.concatenate([y * x, [y, y * y / 4.0]])

    def output_loss(self, y, y_hat):
        return float(abs(y - y_hat))

    def argmax(self, x, w):
        return max(self.outputs, key=lambda y: w @ self.joint_feature(x, y))

    def loss_augmented_argmax(self, x, y, w):
        return max(self.outputs, key=lambda v: w @ self.joint_feature(x, v) + self.output_loss(y, v))


class RoughRanks(Ranks):
    """The same, with answers that claim no exactness."""

    exact = False


class Options(CandidateTask):
    """A different number of candidates for each example, and a loss that is not symmetric."""

    def candidates(self, x):
        outputs = list(range(2 + len(x) % 3))
        return outputs, None, np.array([self.feature(x, y) for y in outputs])

    @staticmethod
    def feature(x, y):
        return np.concatenate([np.roll(x[:3], y), [math.sin(y * x[0]), float(y == 0)]])

    def output_loss(self, y, y_hat, h_hat=None):
        return 1.5 * max(y - y_hat, 0) + 0.5 * max(y_hat - y, 0)


class Hidden(CandidateTask):
    """Two outputs with two latent completions each."""

    def candidates(self, x):
        rows = [np.r_[x, 0 * x], np.r_[-x, 0 * x], np.r_[0 * x, x], np.r_[0 * x, 2 * x]]
        return [0, 0, 1, 1], ["a", "b", "a", "b"], np.array(rows)


@dataclass(frozen=True)
class Problem:
    """Data, the c_i, and features, outputs and loss once more, independent of the library."""

    task: object
    X: object = field(repr=False)
    Y: object = field(repr=False)
    weights: np.ndarray = field(repr=False)
    outputs: Callable
    feature: Callable
    loss: Callable
    rescaling: str = "margin"

    def objective(self, weights=None):
        self.task.learn(self.X, self.Y)
        weights = self.weights if weights is None else weights
        batch = self.task.prepare(self.X, self.Y)
        return build_objective(self.task, batch, weights, HARD, rescaling=self.rescaling)

    def planes(self):
        """Return slope, offset and example of every constraint."""
        for i, (x, y) in enumerate(zip(self.X, self.Y, strict=True)):
            true = self.feature(x, y)
            for y_hat in self.outputs(x):
                loss = self.loss(y, y_hat)
                scale = loss if self.rescaling == "slack" else 1.0
                yield scale * (self.feature(x, y_hat) - true), loss, i

    def value(self, w):
        """Return the primal objective by enumeration."""
        slacks = np.zeros(len(self.Y))
        for slope, offset, i in self.planes():
            slacks[i] = max(slacks[i], offset + slope @ w)
        return 0.5 * w @ w + self.weights @ slacks


def solve_quadratic_program(problem):
    """Return min ½‖w‖² + Σ c_i ξ_i subject to every constraint, by an interior-point method."""
    slopes, offsets, examples = map(np.array, zip(*problem.planes(), strict=True))
    n, d = len(problem.Y), slopes.shape[1]
    solver = piqp.DenseSolver()
    for name in ("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"):
        setattr(solver.settings, name, 1e-10)
    solver.setup(
        np.asfortranarray(np.diag(np.r_[np.ones(d), np.zeros(n)])),
        np.r_[np.zeros(d), problem.weights],
        G=np.asfortranarray(np.hstack([slopes, -np.eye(n)[examples]])),
        h_u=-offsets,
        # A slack of weight zero would be free to grow.
        x_u=np.r_[np.full(d, np.inf), np.full(n, 1e3)],
    )
    assert solver.solve() == piqp.PIQP_SOLVED
    return problem.value(solver.result.x[:d])


def some_weights(n, C=1.0):
    weights = np.tile([1.0, 0.0, 2.0, 0.5, 1.0], n)[:n]
    return C * weights


def multiclass_problem(seed=0, n=24, d=3, n_classes=3, C=1.0, costs=None, rescaling="margin"):
    rng = np.random.default_rng(seed)
    Y = rng.permutation(np.arange(n) % n_classes)
    X = rng.normal(size=(n, d)) + 0.7 * np.eye(n_classes, d)[Y]
    matrix = 1.0 - np.eye(n_classes) if costs is None else costs

    def feature(x, y):
        return np.outer(x, np.arange(n_classes) == y).ravel()

    def loss(y, y_hat):
        return matrix[y, y_hat]

    task = Multiclass(costs=costs)
    return Problem(task, X, Y, some_weights(n, C), lambda x: range(n_classes), feature, loss, rescaling)


def chain_problem(seed=0, n=10, C=0.5, rescaling="margin"):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, 2)) for length in rng.integers(1, 5, size=n)]
    Y = [(x.sum(axis=1) + rng.normal(size=len(x)) > 0).astype(int) for x in X]
    Y[0][:], Y[1][:] = 0, 1

    def feature(x, y):
        inputs, transitions, start = np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2)
        for t, label in enumerate(y):
            inputs[:, label] += x[t]
            if t:
                transitions[y[t - 1], label] += 1
        start[y[0]] = 1
        return np.r_[inputs.ravel(), transitions.ravel(), start]

    def loss(y, y_hat):
        return float((np.asarray(y) != np.asarray(y_hat)).sum())

    task = Chain(start=True)
    return Problem(task, X, Y, some_weights(n, C), lambda x: product(range(2), repeat=len(x)), feature, loss, rescaling)


def rank_problem(task=None):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(10, 2))
    Y = list(np.clip(np.round(1.5 + X @ [1.0, -1.0] + 0.5 * rng.normal(size=10)), 0, 3).astype(int))
    task = Ranks() if task is None else task
    return Problem(task, X, Y, some_weights(10), lambda x: range(4), task.joint_feature, task.output_loss)


def option_problem(rescaling="margin"):
    rng = np.random.default_rng(4)
    X = [rng.normal(size=3 + k % 3) for k in range(12)]
    Y = [int(rng.integers(2 + len(x) % 3)) for x in X]
    task = Options()
    return Problem(
        task,
        X,
        Y,
        some_weights(12),
        lambda x: range(2 + len(x) % 3),
        task.feature,
        task.output_loss,
        rescaling,
    )


COSTS = np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 2.0], [1.0, 4.0, 0.0]])
PROBLEMS = {
    "multiclass": multiclass_problem,
    "multiclass-slack": lambda: multiclass_problem(costs=COSTS, rescaling="slack"),
    "chain": chain_problem,
    "chain-slack": lambda: chain_problem(rescaling="slack"),
    "ranks": rank_problem,
    "options": option_problem,
    "options-slack": lambda: option_problem("slack"),
}
TOL = 5e-4
SOLVERS = {
    "block": BlockAscent(TOL),
    "block-one-sweep": BlockAscent(TOL, max_sweeps=0, steps=1),
    "cutting": CuttingPlane(TOL),
    "fw-pairwise": FrankWolfe(TOL, step="pairwise"),
    "fw-away": FrankWolfe(TOL, step="away"),
    "fw-gap-sampling": FrankWolfe(TOL, gap_sampling=True),
    "fw-average": FrankWolfe(TOL, average=True),
    "bundle": Bundle(TOL),
    "bundle-plain": Bundle(TOL, proximity=0),
    "bundle-cached": Bundle(TOL, cached_planes=5),
    "bundle-few-planes": Bundle(TOL, max_planes=3),
    "bundle-two-planes": Bundle(TOL, max_planes=2),
    "bundle-plain-few-planes": Bundle(TOL, proximity=0, max_planes=3),
    "lbfgs": LBFGS(TOL),
}
# Plain steps converge slowly, and a working set too small for the optimum may never reach it: here only what
# they report is tested.
SLOW = {
    "block-few-planes": BlockAscent(1e-4, 40, max_planes=2),
    "cutting-few-planes": CuttingPlane(1e-4, 40, max_planes=2, max_sweeps=10),
    "fw-plain": FrankWolfe(1e-4, 150, step="plain"),
    "fw-plain-average": FrankWolfe(1e-4, 150, step="plain", average=True),
    "fw-plain-few-planes": FrankWolfe(1e-4, 150, step="plain", average=True, max_planes=2),
    "fw-few-planes": FrankWolfe(1e-4, 40, average=True, max_planes=2, gap_sampling=True),
}


@lru_cache
def known(name):
    """Return a problem and its optimum."""
    problem = PROBLEMS[name]()
    return problem, solve_quadratic_program(problem)


def solved(solver, objective, **options):
    result = solver.minimize(objective, **options)
    assert result.objective == pytest.approx(objective.value(result.w), rel=1e-9)
    return result


@pytest.mark.parametrize("name", PROBLEMS)
def test_objective_is_the_enumerated_one(name):
    problem, _ = known(name)
    objective = problem.objective()
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.1, 1.0, 10.0):
        w = scale * rng.normal(size=objective.n_features)
        assert objective.value(w) == pytest.approx(problem.value(w), rel=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_reaches_the_optimum_and_certifies_it(name, solver):
    problem, optimum = known(name)
    if solver == "lbfgs" and (problem.rescaling == "slack" or name == "ranks"):
        parameter, reason = ("temperature", "hard maxima only") if name == "ranks" else ("solver", "no soft form")
        with raises(parameter, expected=reason):
            SOLVERS[solver].minimize(problem.objective())
        return
    result = solved(SOLVERS[solver], problem.objective())
    assert result.reason == "converged"
    assert result.certified
    assert optimum * (1 - 1e-6) <= result.objective <= optimum * (1 + 1e-3)
    assert optimum * (1 - 1e-3) <= result.lower_bound <= optimum * (1 + 1e-6)
    assert result.gap == result.objective - result.lower_bound
    assert result.n_iter == len(result.history)
    assert result.oracle_calls > 0


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("solver", SLOW)
def test_slow_solvers_stay_honest(name, solver):
    problem, optimum = known(name)
    result = solved(SLOW[solver], problem.objective())
    for line in [line for line in result.history if not line.estimate] + [result]:
        assert line.lower_bound <= optimum * (1 + 1e-6)
        assert line.objective >= optimum * (1 - 1e-6)
    assert result.objective <= (2.0 if "few" in solver else 1.1) * optimum


def test_plain_steps_reach_the_optimum():
    problem, optimum = known("multiclass")
    for average in (False, True):
        solver = FrankWolfe(TOL, 5000, step="plain", average=average)
        result = solved(solver, problem.objective())
        assert result.reason == "converged"
        assert result.objective <= optimum * (1 + 1e-3)


@pytest.mark.parametrize("name", PROBLEMS)
def test_subgradient_reaches_the_optimum(name):
    problem, optimum = known(name)
    # Its error falls as 1/t times the squared length of the planes, which slack rescaling multiplies by Δ.
    slow = "slack" in name or name == "ranks"
    solver = Subgradient(1e-9, 300 if slow else 3000, batch_size=3, patience=1000)
    result = solved(solver, problem.objective())
    assert optimum * (1 - 1e-6) <= result.objective <= optimum * (1 + (3e-2 if slow else 1e-3))
    assert result.lower_bound == -math.inf


def test_full_plain_subgradient_comes_near():
    problem, optimum = known("multiclass")
    solver = Subgradient(1e-9, 1000, step="plain", learning_rate=0.05, batch_size=24, patience=500)
    assert solved(solver, problem.objective()).objective <= 1.01 * optimum
    last = Subgradient(1e-9, 500, average=False, batch_size=6, patience=500)
    assert solved(last, problem.objective()).objective <= 1.05 * optimum


def test_high_precision():
    for name in ("multiclass", "chain-slack", "options"):
        problem, optimum = known(name)
        result = solved(BlockAscent(1e-8, 5000), problem.objective())
        assert result.objective == pytest.approx(optimum, rel=1e-6)
        assert result.gap <= 1e-8 * optimum


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    n_classes=st.integers(2, 4),
    C=st.sampled_from([1e-3, 0.1, 1.0, 30.0]),
    rescaling=st.sampled_from(["margin", "slack"]),
)
@settings(max_examples=15, deadline=None)
def test_random_problems(seed, n, n_classes, C, rescaling):
    n = max(n, n_classes)
    costs = np.random.default_rng(seed).uniform(0.1, 2.0, size=(n_classes, n_classes))
    np.fill_diagonal(costs, 0.0)
    problem = multiclass_problem(seed, n, 2, n_classes, C, costs, rescaling)
    optimum = solve_quadratic_program(problem)
    for solver in (BlockAscent(TOL), CuttingPlane(TOL), FrankWolfe(TOL), Bundle(TOL)):
        result = solved(solver, problem.objective())
        assert result.lower_bound <= optimum * (1 + 1e-6)
        # Frank-Wolfe's gap falls as one over the iterations: a bad problem may end at its limit with an honest gap.
        slow = isinstance(solver, FrankWolfe) and result.reason == "max_iter"
        assert result.objective <= optimum * (1 + (0.05 if slow else 1e-3))


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_certified_bound_is_below_and_the_best_is_kept(solver):
    problem, optimum = known("multiclass")
    result = SOLVERS[solver].minimize(problem.objective())
    lines = [line for line in result.history if not line.estimate]
    assert all(line.lower_bound <= optimum * (1 + 1e-6) for line in lines)
    assert all(line.objective >= optimum * (1 - 1e-6) for line in lines)
    objectives = [line.objective for line in lines]
    assert objectives == sorted(objectives, reverse=True)
    assert [line.iteration for line in result.history] == list(range(1, result.n_iter + 1))
    calls = [line.oracle_calls for line in result.history]
    assert calls == sorted(calls)


def test_slack_equals_margin_rescaling_for_zero_one_loss():
    margin, slack = multiclass_problem(), multiclass_problem(rescaling="slack")
    tight = BlockAscent(1e-7, 5000)
    one, other = solved(tight, margin.objective()), solved(tight, slack.objective())
    assert one.objective == pytest.approx(other.objective, rel=1e-6)
    np.testing.assert_allclose(one.w, other.w, atol=1e-3)


def test_zero_weight_is_absence():
    problem, optimum = known("multiclass")
    kept = np.flatnonzero(problem.weights)
    fewer = Problem(
        problem.task,
        problem.X[kept],
        problem.Y[kept],
        problem.weights[kept],
        problem.outputs,
        problem.feature,
        problem.loss,
    )
    assert solved(BlockAscent(1e-6), fewer.objective()).objective == pytest.approx(optimum, rel=1e-5)


def test_small_C_is_the_first_step():
    # With a single most costly wrong class, w = C Σ (φ(y_i) − φ(ŷ_i)) as long as no other plane overtakes it.
    problem = multiclass_problem(costs=COSTS, C=1e-3)
    worst = [max(range(3), key=lambda y_hat: COSTS[y, y_hat]) for y in problem.Y]
    w = sum(
        c * (problem.feature(x, y) - problem.feature(x, y_hat))
        for c, x, y, y_hat in zip(problem.weights, problem.X, problem.Y, worst, strict=True)
    )
    losses = problem.weights @ COSTS.max(axis=1)[problem.Y]
    for solver in (BlockAscent(1e-12), Bundle(1e-12), CuttingPlane(1e-12)):
        result = solved(solver, problem.objective())
        np.testing.assert_allclose(result.w, w, atol=1e-4 * np.abs(w).max())
        assert result.objective == pytest.approx(losses - 0.5 * w @ w, rel=1e-6)
        tiny = solved(solver, problem.objective(1e-6 * problem.weights))
        assert tiny.objective == pytest.approx(1e-6 * losses, rel=1e-6)


def test_crammer_singer_agrees_with_liblinear():
    problem = multiclass_problem(n=60, d=4, n_classes=4)
    C = 0.7
    ours = StructuralSVM(Multiclass(), C=C, tol=1e-5).fit(problem.X, problem.Y)
    theirs = LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, tol=1e-8, max_iter=200_000).fit(
        problem.X, problem.Y
    )
    scores = problem.X @ theirs.coef_.T
    margins = 1.0 + scores - scores[np.arange(60), problem.Y][:, None]
    margins[np.arange(60), problem.Y] = 0.0
    value = 0.5 * (theirs.coef_**2).sum() + C * margins.max(axis=1).sum()
    assert ours.objective_ == pytest.approx(value, rel=1e-3)
    np.testing.assert_allclose(ours.coef_.reshape(4, 4).T, theirs.coef_, atol=0.02)


def smooth_objective(name, temperature=1.0, margin=False):
    problem = PROBLEMS[name]()
    problem.task.learn(problem.X, problem.Y)
    batch = problem.task.prepare(problem.X, problem.Y)
    return build_objective(problem.task, batch, problem.weights, Temperature(temperature, 0.0), margin)


@pytest.mark.parametrize("name", ["multiclass", "chain", "options"])
@pytest.mark.parametrize("margin", [False, True])
@given(seed=st.integers(0, 10**6), temperature=st.sampled_from([0.2, 1.0, 3.0]))
@settings(max_examples=8, deadline=None)
def test_soft_gradient_is_that_of_finite_differences(name, margin, seed, temperature):
    objective = smooth_objective(name, temperature, margin)
    w = np.random.default_rng(seed).normal(size=objective.n_features)
    gradient = objective.value_and_gradient(w)[1]
    error = check_grad(objective.value, lambda v: objective.value_and_gradient(v)[1], w, epsilon=1e-6)
    assert error <= 1e-4 * max(1.0, np.linalg.norm(gradient))


@pytest.mark.parametrize("name", ["multiclass", "chain", "options"])
def test_lbfgs_certifies_smooth_objectives(name):
    objective = smooth_objective(name)
    tight = solved(LBFGS(1e-10), objective)
    assert tight.reason == "converged"
    loose = solved(LBFGS(1e-3), objective)
    assert all(line.lower_bound <= tight.objective for line in loose.history)
    assert loose.lower_bound <= tight.objective <= loose.objective <= tight.objective * (1 + 1e-3)
    assert np.linalg.norm(objective.value_and_gradient(tight.w)[1]) < 1e-4


def test_lbfgs_descends_a_smooth_objective_that_is_not_convex():
    rng = np.random.default_rng(0)
    X, Y, task = rng.normal(size=(20, 2)), rng.integers(0, 2, size=20), Hidden()
    task.learn(X, Y)
    objective = build_objective(task, task.prepare(X, Y), np.ones(20), Temperature(1.0, 1.0), margin=False)
    result = solved(LBFGS(), objective, w0=0.1 * rng.normal(size=4))
    assert result.reason == "converged"
    assert result.lower_bound == -math.inf
    assert np.linalg.norm(objective.value_and_gradient(result.w)[1]) < 0.1


# --- perceptron ---


def perceptron_objective(X, Y):
    task = Multiclass()
    task.learn(X, Y)
    return build_objective(task, task.prepare(X, Y), np.ones(len(Y)), HARD, False, regularizer=NoRegularizer())


def separable(n=40):
    rng = np.random.default_rng(7)
    Y = np.arange(n) % 3
    return rng.normal(size=(n, 3)) * 0.3 + 3.0 * np.eye(3)[Y], Y


def test_perceptron_converges_on_separable_data():
    X, Y = separable()
    for average in (True, False):
        result = Perceptron(average=average).minimize(perceptron_objective(X, Y))
        assert result.reason == "converged"
        assert result.objective == 0.0
        assert ((X @ result.w.reshape(3, 3)).argmax(axis=1) == Y).all()


def test_perceptron_does_not_mistake_ties_for_success():
    # At w = 0 all scores are equal, so the objective is 0 though nothing has been learned.
    X, Y = np.array([[1.0], [-1.0]]), np.array([0, 1])
    result = Perceptron().minimize(perceptron_objective(X, Y))
    assert (X @ result.w.reshape(1, 2)).argmax(axis=1).tolist() == [0, 1]


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("start", [None, np.linspace(-1, 1, 9)])
def test_perceptron_is_the_naive_one(average, start):
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(15, 3)), rng.integers(0, 3, size=15)
    Y[:3] = 0, 1, 2
    result = Perceptron(4, average=average, random_state=5).minimize(perceptron_objective(X, Y), start)
    w, seen = np.zeros((3, 3)) if start is None else start.reshape(3, 3).copy(), []
    order = np.random.default_rng(5)
    for _ in range(4):
        for i in order.permutation(15):
            y_hat = int((X[i] @ w).argmax())
            w[:, Y[i]] += X[i]
            w[:, y_hat] -= X[i]
            seen.append(w.copy())
    assert result.reason == "max_iter"
    expected = np.mean(seen, axis=0) if average else seen[-1]
    np.testing.assert_allclose(result.w.reshape(3, 3), expected, atol=1e-9)


# --- stopping ---

STOPPABLE = {
    "block": BlockAscent(1e-12),
    "cutting": CuttingPlane(1e-12),
    "fw": FrankWolfe(1e-12),
    "fw-average": FrankWolfe(1e-12, average=True),
    "bundle": Bundle(1e-12),
    "bundle-cached": Bundle(1e-12, cached_planes=5),
    "lbfgs": LBFGS(1e-12),
    "subgradient": Subgradient(1e-12),
    "perceptron": Perceptron(),
}


@pytest.mark.parametrize("solver", STOPPABLE)
@pytest.mark.parametrize("iterations", [1, 3])
def test_interrupt_keeps_the_best_weights(solver, iterations):
    problem, optimum = known("multiclass")

    def interrupt(line):
        if line.iteration == iterations:
            raise KeyboardInterrupt

    objective = problem.objective()
    result = solved(STOPPABLE[solver], objective, callback=interrupt)
    assert result.reason == "interrupted"
    assert result.n_iter == iterations
    assert math.isfinite(result.objective)
    assert np.isfinite(result.w).all()
    assert result.lower_bound <= optimum * (1 + 1e-6)
    if solver not in ("perceptron", "subgradient"):
        assert result.objective <= objective.value(np.zeros_like(result.w))


@pytest.mark.parametrize("solver", sorted(STOPPABLE.keys() - {"lbfgs"}))
def test_interrupt_inside_the_oracle(solver, monkeypatch):
    problem, _ = known("ranks")
    objective, calls = problem.objective(), []
    honest = problem.task.loss_augmented_argmax

    def interrupted_once(x, y, w):
        calls.append(1)
        if len(calls) == 37:
            raise KeyboardInterrupt
        return honest(x, y, w)

    monkeypatch.setattr(problem.task, "loss_augmented_argmax", interrupted_once)
    result = STOPPABLE[solver].minimize(objective)
    assert result.reason == "interrupted"
    assert result.objective == pytest.approx(problem.value(result.w))


@pytest.mark.parametrize("solver", STOPPABLE)
def test_callback_stops(solver):
    problem, _ = known("multiclass")
    seen = []
    result = solved(
        STOPPABLE[solver], problem.objective(), callback=lambda line: seen.append(line) or line.iteration == 2
    )
    assert result.reason == "callback"
    assert result.n_iter == 2
    # The last line is completed with what was certified after it.
    assert seen[:-1] == result.history[:-1]
    assert seen[-1].iteration == result.history[-1].iteration
    assert result.history[-1].objective == result.objective
    assert result.history[-1].lower_bound == result.lower_bound
    assert not result.history[-1].estimate


@pytest.mark.parametrize("solver", STOPPABLE)
def test_limits(solver):
    problem, optimum = known("multiclass")
    few = STOPPABLE[solver].__class__(**{**STOPPABLE[solver].get_params(), "max_iter": 2})
    result = solved(few, problem.objective())
    assert (result.reason, result.n_iter) == ("max_iter", 2)
    assert result.lower_bound <= optimum * (1 + 1e-6)
    short = STOPPABLE[solver].__class__(**{**STOPPABLE[solver].get_params(), "max_seconds": 1e-9})
    result = solved(short, problem.objective())
    assert (result.reason, result.n_iter) == ("max_seconds", 1)


@pytest.mark.parametrize("solver", STOPPABLE)
def test_two_runs_are_identical(solver):
    problem, _ = known("chain")
    runs = []
    for _ in range(2):
        few = STOPPABLE[solver].__class__(**{**STOPPABLE[solver].get_params(), "max_iter": 15})
        runs.append(few.minimize(problem.objective()))
    assert np.array_equal(runs[0].w, runs[1].w)
    assert runs[0].objective == runs[1].objective
    assert runs[0].lower_bound == runs[1].lower_bound
    assert runs[0].oracle_calls == runs[1].oracle_calls


# --- warm starts ---


@pytest.mark.parametrize("name", ["block", "cutting", "fw-pairwise", "bundle", "bundle-plain"])
@pytest.mark.parametrize("factor", [1.0, 1.5, 0.2])
def test_state_saves_oracle_calls(name, factor):
    problem = multiclass_problem(n=40, C=2.0)
    weights = factor * problem.weights
    cold = solved(SOLVERS[name], problem.objective(weights))
    first = solved(SOLVERS[name], problem.objective())
    warm = solved(SOLVERS[name], problem.objective(weights), w0=first.w, state=first.state)
    exact = solved(BlockAscent(1e-7, 5000), problem.objective(weights)).objective
    assert warm.reason == "converged"
    assert warm.lower_bound <= exact * (1 + 1e-6)
    assert warm.objective <= exact * (1 + 1e-3)
    if factor >= 1.0:
        assert warm.oracle_calls < cold.oracle_calls


@pytest.mark.parametrize("name", ["block", "fw-pairwise", "bundle", "bundle-cached"])
def test_state_with_other_example_weights(name):
    problem = multiclass_problem(n=40)
    other = np.roll(problem.weights, 1)
    exact = solved(BlockAscent(1e-7, 5000), problem.objective(other)).objective
    first = solved(SOLVERS[name], problem.objective())
    warm = solved(SOLVERS[name], problem.objective(other), state=first.state)
    assert warm.lower_bound <= exact * (1 + 1e-6)
    assert warm.objective <= exact * (1 + 1e-3)


@pytest.mark.parametrize("name", SOLVERS)
def test_any_start_leads_to_the_optimum(name):
    problem, optimum = known("multiclass")
    objective = problem.objective()
    w0 = np.random.default_rng(1).normal(size=objective.n_features)
    result = solved(SOLVERS[name], objective, w0=w0.copy())
    assert result.objective <= optimum * (1 + 1e-3)
    assert result.lower_bound <= optimum * (1 + 1e-6)


# --- refusals and honesty ---


@pytest.mark.parametrize("solver", [BlockAscent(), CuttingPlane(), FrankWolfe(), Bundle()])
def test_latents_are_refused_where_convexity_is_needed(solver):
    X, Y, task = np.ones((4, 2)), [0, 1, 0, 1], Hidden()
    task.learn(X, Y)
    objective = build_objective(task, task.prepare(X, Y), np.ones(4), HARD)
    with raises("solver", got=solver, expected="a convex objective", hint="'auto'"):
        solver.minimize(objective)


@pytest.mark.parametrize("temperature", [HARD, Temperature(1.0, 0.0)])
def test_lbfgs_refuses_latents_that_are_maximised(temperature):
    X, Y, task = np.ones((4, 2)), [0, 1, 0, 1], Hidden()
    task.learn(X, Y)
    objective = build_objective(task, task.prepare(X, Y), np.ones(4), temperature)
    with raises("solver", expected="latents are maximized", hint="a latent `temperature` above 0"):
        LBFGS().minimize(objective)


@pytest.mark.parametrize("solver", [BlockAscent(), CuttingPlane(), FrankWolfe(), Bundle(), LBFGS()])
def test_regularizer_is_checked(solver):
    objective = perceptron_objective(*separable())
    with raises("solver", got=solver, expected="the regularizer ½‖w‖²"):
        solver.minimize(objective)


def test_slack_rescaling_needs_the_hard_max():
    problem = multiclass_problem()
    problem.task.learn(problem.X, problem.Y)
    batch = problem.task.prepare(problem.X, problem.Y)
    with raises("rescaling", got="slack", expected="'margin' for soft maxima"):
        build_objective(problem.task, batch, problem.weights, Temperature(1.0, 0.0), rescaling="slack")


@pytest.mark.parametrize(
    ("kind", "parameter", "value", "expected"),
    [
        (BlockAscent, "tol", 0, "a number above 0"),
        (BlockAscent, "tol", math.nan, "a number above 0"),
        (BlockAscent, "tol", "tight", "a number above 0"),
        (BlockAscent, "max_iter", -1, "a number above 0"),
        (Bundle, "max_seconds", 0, "a number above 0"),
        (BlockAscent, "max_planes", 1, "an integer of at least 2 or None"),
        (BlockAscent, "steps", 0, "an integer of at least 1"),
        (BlockAscent, "max_sweeps", -1, "an integer of at least 0"),
        (CuttingPlane, "max_planes", 1, "an integer of at least 2"),
        (CuttingPlane, "inner_tol", 0, "a number above 0 and below 1"),
        (FrankWolfe, "max_planes", 1, "an integer of at least 2"),
        (FrankWolfe, "batches", 2.5, "an integer of at least 1"),
        (FrankWolfe, "certify_every", 0, "an integer of at least 1"),
        (FrankWolfe, "step", "long", "'pairwise', 'away' or 'plain'"),
        (Bundle, "proximity", -1, "a finite number of at least 0"),
        (Bundle, "max_planes", 1, "an integer of at least 2 or None"),
        (Bundle, "cached_planes", 1, "an integer of at least 2 or 0"),
        (LBFGS, "memory", 0, "an integer of at least 1"),
        (LBFGS, "smoothing", 0, "a finite number above 0"),
        (Subgradient, "step", "long", "'pegasos', 'plain' or 'fixed'"),
        (Subgradient, "learning_rate", 0, "a finite number above 0"),
        (Subgradient, "batch_size", 0, "an integer of at least 1 or None"),
    ],
)
def test_parameters_are_checked(kind, parameter, value, expected):
    problem, _ = known("multiclass")
    with raises(parameter, got=repr(value), expected=expected):
        kind(**{parameter: value}).minimize(problem.objective())


@pytest.mark.parametrize("solver", [BlockAscent(), CuttingPlane(), FrankWolfe(), Bundle(), Bundle(cached_planes=5)])
def test_inexact_answers_are_never_certified(solver):
    problem = rank_problem(RoughRanks())
    assert not solver.minimize(problem.objective()).certified
    rough_slack = Problem(
        Ranks(),
        problem.X,
        problem.Y,
        problem.weights,
        problem.outputs,
        problem.feature,
        problem.loss,
        "slack",
    )
    # Slack rescaling of a task without its own search is answered approximately.
    assert not solver.minimize(rough_slack.objective()).certified


def test_too_large_inputs_are_named():
    X, Y = np.array([[1e200], [-1e200]]), [0, 1]
    task = Multiclass()
    task.learn(X, Y)
    objective = build_objective(task, task.prepare(X, Y), np.ones(2), HARD)
    with (
        np.errstate(all="ignore"),
        raises("X", got="an objective of", hint="Standardize the features"),
    ):
        Bundle().minimize(objective)


def test_a_solver_without_a_run_says_so():
    from latentstruct.solvers.base import BaseSolver

    class Nothing(BaseSolver):
        def __init__(self, tol=1.0, max_iter=1, max_seconds=1.0):
            self.tol, self.max_iter, self.max_seconds = tol, max_iter, max_seconds

    problem, _ = known("multiclass")
    with pytest.raises(TypeError, match=r"Nothing does not define _run\(\)"):
        Nothing().minimize(problem.objective())


# ---- what the default promises ---------------------------------------------------------------------------


def correlated_problem(scale):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(134, 4))
    y = np.where(rng.random(134) < 0.2, rng.integers(0, 3, 134), X[:, :3].argmax(axis=1))
    task = Multiclass()
    task.learn(X, y)
    return build_objective(task, task.prepare(scale * X, y), np.ones(134), Temperature())


def test_the_default_hands_over_where_blocks_crawl():
    objective = correlated_problem(scale=100.0)
    result = HingeSolver().minimize(objective)
    assert result.reason == "converged"
    assert result.gap <= 1e-3 * result.objective
    assert result.objective == pytest.approx(71.15, rel=2e-3)
    assert [line.iteration for line in result.history] == list(range(1, result.n_iter + 1))
    assert result.history[-1].oracle_calls == result.oracle_calls
    calls = [line.oracle_calls for line in result.history]
    assert calls == sorted(calls)
    again = HingeSolver().minimize(objective, result.w, state=result.state)
    assert again.oracle_calls < result.oracle_calls


def test_the_default_needs_few_passes_where_C_is_very_large():
    # About 75 passes over the data; with a fixed proximal term the bundle takes 300.
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 5, 500)
    X = 0.3 * rng.normal(size=(5, 20))[Y] + rng.normal(size=(500, 20))
    task = Multiclass()
    task.learn(X, Y)
    objective = build_objective(task, task.prepare(X, Y), np.full(500, 1e4), HARD)
    result = HingeSolver(tol=0.01).minimize(objective, callback=lambda line: line.oracle_calls >= 150 * 500)
    assert result.reason == "converged"
    assert result.gap <= 0.01 * result.objective


def separable_problem(scale):
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 5, 500)
    X = scale * (rng.normal(size=(5, 20))[Y] + rng.normal(size=(500, 20)))
    task = Multiclass()
    task.learn(X, Y)
    return build_objective(task, task.prepare(X, Y), np.ones(500), HARD)


def test_the_default_needs_few_passes_where_losses_outweigh_everything():
    # About 110 passes. Losses of separable examples vanish at the minimum. Imprecise block ascent takes 1100.
    objective = separable_problem(300.0)
    result = HingeSolver(tol=0.01).minimize(objective, callback=lambda line: line.oracle_calls >= 400 * 500)
    assert result.reason == "converged"
    assert result.gap <= 0.01 * result.objective


def test_the_default_returns_to_blocks_if_the_bundle_stalls():
    objective, bundles = separable_problem(300.0), []
    solver = HingeSolver(tol=0.01, patience=20, hopeless=0.0)
    result = solver.minimize(objective, callback=lambda line: bundles.append(line.oracle_calls))
    assert result.reason == "converged"
    assert result.gap <= 0.01 * result.objective
    # Most iterations of a bundle use kept planes.
    assert bundles[-1] - bundles[-2] >= 500


@pytest.mark.parametrize("most", [6, 12, 30])
def test_a_full_bundle_loses_no_bound(most):
    objective = correlated_problem(scale=3.0)
    bounds = []
    solver = Bundle(tol=1e-4, max_planes=most, max_iter=200)
    result = solver.minimize(objective, callback=lambda line: bounds.append(line.lower_bound))
    model = result.state
    model.solve(result.w, 1e-12)
    assert model.size <= most
    assert model.bound() >= bounds[-1] - 1e-6 * result.objective
    assert model.model(result.w) <= result.objective + 1e-9 * result.objective
    reference = Bundle(tol=1e-6).minimize(objective)
    assert model.bound() <= reference.objective * (1.0 + 1e-9)


def test_given_weights_that_are_good_are_certified_in_few_passes():
    # About 5 passes against 40. One does not suffice: several outputs of an example are best at the minimum, and a pass
    # finds one of them.
    objective = correlated_problem(scale=3.0)
    cold = HingeSolver().minimize(objective)
    warm = HingeSolver().minimize(objective, cold.w)
    assert warm.reason == "converged"
    assert warm.objective <= cold.objective * (1.0 + 1e-9)
    assert 2 * warm.oracle_calls <= cold.oracle_calls


def smooth_optimum(kind, seed):
    """Return a problem whose examples each have one best output at the minimum: that of the largest loss."""
    rng = np.random.default_rng(seed)
    n, C = int(rng.integers(2, 12)), 1e-4
    if kind == "chain":
        lengths = rng.integers(1, 5, n)
        task, X = Chain(), [rng.normal(size=(length, 3)) for length in lengths]
        Y = [rng.permutation(np.arange(length) % 2) for length in lengths]
        Y[0], X[0] = np.array([0, 1]), rng.normal(size=(2, 3))
    elif kind == "candidates":
        task, X, Y = Distances(), [rng.normal(size=(3, 2)) for _ in range(n)], rng.integers(0, 3, n).tolist()
    else:
        task, X, Y = Multiclass(), rng.normal(size=(n, 3)), np.arange(n) % 2
    task.learn(X, Y)
    return build_objective(task, task.prepare(X, Y), np.full(n, C), HARD)


class Distances(CandidateTask):
    """Three outputs per example, whose losses differ."""

    def candidates(self, x):
        return [0, 1, 2], None, x

    def output_loss(self, y_true, y_pred, h_pred):
        return ((y_pred - y_true) % 3) / 2.0


@pytest.mark.parametrize("solver", [HingeSolver, BlockAscent, Bundle])
@pytest.mark.parametrize("kind", ["classes", "chain", "candidates"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_one_pass_proves_given_weights_where_the_objective_is_smooth(kind, solver, seed):
    objective = smooth_optimum(kind, seed)
    optimum = solver(tol=1e-9).minimize(objective)
    found = solver(tol=1e-6).minimize(objective, optimum.w)
    assert (found.reason, found.oracle_calls) == ("converged", objective.n_examples)
    np.testing.assert_array_equal(found.w, optimum.w)


@pytest.mark.parametrize(
    ("fall", "objective", "crawls"),
    [(0.5, 1.0, False), (0.999, 1.0, True), (1.001, 1.0, True), (0.999, 1e6, False)],
)
def test_slow_block_ascent_is_given_up(fall, objective, crawls):
    # The gap falls by this factor an iteration; at the larger objective the goal is reached.
    solver = HingeSolver(tol=1e-3, patience=10)
    gaps = [0.2 * fall**k for k in range(20)]
    history = [Iteration(k + 1, objective, objective - gap, gap, k, float(k)) for k, gap in enumerate(gaps)]
    for listed, expected in ((history, crawls), (history[:19], False)):
        assert solver._is_slow(10, listed) is expected


@pytest.mark.parametrize("solver", [BlockAscent, FrankWolfe, Subgradient, Bundle, HingeSolver, CuttingPlane])
@pytest.mark.parametrize("iterations", [1, 3, 10])
def test_no_solver_ends_above_its_start(solver, iterations):
    objective = correlated_problem(scale=1e3)
    result = solver(max_iter=iterations).minimize(objective)
    assert result.objective <= objective.value(np.zeros(objective.n_features))


@pytest.mark.parametrize("solver", [BlockAscent(tol=1e-9), FrankWolfe(tol=1e-9), HingeSolver(tol=1e-9)], ids=repr)
def test_an_interrupted_dual_solver_keeps_its_bound(solver):
    def interrupt(line):
        if line.iteration == 3:
            raise KeyboardInterrupt

    result = solver.minimize(correlated_problem(scale=1.0), callback=interrupt)
    assert result.reason == "interrupted"
    assert np.isfinite(result.lower_bound)
    assert result.w.any()


def test_planes_that_support_nothing_are_found_out():
    class Forgetful(ExampleTask):
        def joint_feature(self, x, y):
            return y * x

        def output_loss(self, y, y_hat):
            return float(y != y_hat)

        def argmax(self, x, w):
            return 1 if x @ w >= 0 else -1

        def loss_augmented_argmax(self, x, y, w):
            return self.argmax(x, w)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = np.where(X[:, 0] + rng.normal(size=40) > 0, 1, -1).tolist()
    task = Forgetful()
    task.learn(X, Y)
    objective = build_objective(task, task.prepare(X, Y), np.ones(40), Temperature())
    with raises("task", hint="check_task"):
        BlockAscent().minimize(objective)


def test_rescaled_bundles_hold_the_planes_of_the_new_weights():
    bundle = PlaneBundle(10, np.ones(3), np.empty((0, 2)), proximity=1.0)
    bundle.add(Plane(np.array([1.0, 2.0]), 3.0))
    assert bundle.rescale(np.full(3, 2.0))
    assert (bundle.slopes[0].tolist(), bundle.offsets[0], bundle.gram[0, 0]) == ([2.0, 4.0], 6.0, 20.0)


@settings(max_examples=30)
@given(
    solver=st.sampled_from(
        [
            BlockAscent(max_iter=15),
            BlockAscent(max_iter=15, max_planes=2),
            BlockAscent(max_iter=15, cache_mb=0.06),
            HingeSolver(max_iter=15, patience=4, hopeless=0.0),
            HingeSolver(max_iter=60, patience=2, hopeless=0.0),
            CuttingPlane(max_iter=8),
            FrankWolfe(max_iter=15),
            FrankWolfe(max_iter=15, average=True, max_planes=2),
            Bundle(max_iter=15),
            Bundle(max_iter=15, cached_planes=3),
            LBFGS(max_iter=15),
        ]
    ),
    scale=st.sampled_from([1e-2, 1.0, 30.0]),
)
def test_bounds_never_fall_and_never_exceed_an_objective(solver, scale):
    lines = []
    result = clone(solver).minimize(correlated_problem(scale), callback=lines.append)
    for history in (lines, result.history):
        bounds = [line.lower_bound for line in history]
        assert bounds == sorted(bounds)
    assert result.lower_bound == max(line.lower_bound for line in result.history)
    assert result.lower_bound <= min(line.objective for line in result.history if not line.estimate)


def test_the_tracked_dual_value_is_that_of_the_store():
    """After each oracle call and each ascent, also where planes with dual mass must go."""
    objective = correlated_problem(1.0)
    for most, cache_mb in ((2, None), (3, 0.06), (None, None)):
        monitor = Monitor(objective, 1e-3, 10, 10.0)
        point = DualPoint(objective, monitor, np.zeros(objective.n_features), None, most, cache_mb)
        rng = np.random.default_rng(0)
        for _ in range(12):
            before = point.value
            point.query_rows(point.every)
            check_tracked(point, objective)
            if cache_mb is None:
                assert point.value >= before - 1e-9 * abs(before)
            before = point.value
            _, gain = point.ascend(rng.permutation(point.every))
            check_tracked(point, objective)
            assert point.value == pytest.approx(before + gain, rel=1e-9, abs=1e-9)


def check_tracked(point, objective):
    combined = point.store.combination()
    w = objective.minus.total(point.w).slope - combined.slope
    np.testing.assert_allclose(point.w, w, rtol=1e-9, atol=1e-9)
    assert point.offset == pytest.approx(combined.offset, rel=1e-9, abs=1e-9)
