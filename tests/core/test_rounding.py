"""Rounding errors are no errors of the user, and wrong answers of a task are not taken for rounding."""

import warnings

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct import CRF, Motif, Multiclass, StructuralSVM
from latentstruct.core.objective import build_objective
from latentstruct.core.protocols import Temperature
from latentstruct.estimators import LatentSSVM
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.progress.display import stop_text
from latentstruct.solvers.base import Monitor, checked_bound
from latentstruct.tasks import ExampleTask

POWERS = st.floats(-8.0, 8.0)
SOLVERS = ["auto", "block_ascent", "bundle", "cutting_plane", "frank_wolfe"]


def fit(model, X, Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, Y)


def check_certificate(model):
    assert model.lower_bound_ <= model.objective_
    assert model.gap_ >= 0.0
    assert model.relative_gap_ >= 0.0
    assert model.history_[-1].gap >= 0.0


@settings(max_examples=60)
@given(POWERS, POWERS, st.sampled_from(SOLVERS), st.integers(0, 1000), st.sampled_from([1e-3, 1e-12]))
@example(0.0, 8.0, "auto", 0, 1e-12)
@example(8.0, 8.0, "bundle", 1, 1e-12)
def test_no_scale_of_features_and_losses_ends_in_an_error(size, strength, solver, seed, tol):
    rng = np.random.default_rng(seed)
    X, y = 10.0**size * rng.normal(size=(12, 3)), rng.permutation(np.arange(12) % 3)
    model = StructuralSVM(Multiclass(), C=10.0**strength, solver=solver, tol=tol, max_iter=30)
    check_certificate(fit(model, X, y))


@settings(max_examples=20)
@given(POWERS, POWERS, st.integers(0, 1000))
def test_no_scale_of_a_smooth_objective_ends_in_an_error(size, strength, seed):
    rng = np.random.default_rng(seed)
    X, y = 10.0**size * rng.normal(size=(12, 3)), rng.permutation(np.arange(12) % 3)
    check_certificate(fit(CRF(Multiclass(), C=10.0**strength, max_iter=30), X, y))


@settings(max_examples=10)
@given(POWERS, st.integers(0, 1000))
@example(8.0, 0)
def test_no_strength_of_a_latent_model_ends_in_an_error(strength, seed):
    rng = np.random.default_rng(seed)
    X = ["".join(rng.choice(list("ACGT"), 8)) for _ in range(4)]
    check_certificate(
        fit(LatentSSVM(Motif(width=3, background_order=1), C=10.0**strength, max_iter=3), X, [1, -1, 1, -1])
    )


class Careless(ExampleTask):
    """Two classes whose search for the worst output finds it at w = 0 only."""

    def joint_feature(self, x, y):
        return np.kron(np.eye(2)[y], x)

    def output_loss(self, y, other):
        return float(y != other)

    def argmax(self, x, w):
        return int(np.argmax(w.reshape(2, -1) @ x))

    def loss_augmented_argmax(self, x, y, w):
        return y if w.any() else 1 - y


@settings(max_examples=20)
@given(st.floats(-6.0, 6.0), st.floats(-6.0, 1.0))
def test_answers_that_are_no_maxima_are_found_at_every_scale(size, strength):
    """The planes of w = 0 prove a loss that later answers deny."""
    rng = np.random.default_rng(0)
    y, X = [0, 1] * 6, list(10.0**size * rng.normal(size=(12, 1)))
    weight = 10.0 ** (strength - 2 * size)
    with raises("task", got="above the objective"):
        fit(StructuralSVM(Careless(), C=weight, solver="block_ascent", tol=1e-6, max_iter=50), X, y)


class Side:
    def __init__(self, weights, slope, offset):
        self.weights, self.slope, self.offset = weights, slope, offset

    def total(self, w):
        return self

    def __call__(self, w):
        return float(self.slope @ w) + self.offset


class Pair:
    def __init__(self, size):
        weights = np.full(4, size)
        self.plus, self.minus = Side(weights, np.full(2, size), size), Side(weights, np.full(2, size), size - 1.0)


@given(POWERS, st.floats(-3.0, 3.0))
def test_the_limit_of_rounding_follows_the_terms(power, objective):
    size, w = 10.0**power, np.ones(2)
    noise = min(1e-14 * size, 1e-3 * abs(objective))
    assert checked_bound(Pair(size), w, objective, objective + noise) == objective
    assert checked_bound(Pair(size), w, objective, objective - noise) == objective - noise
    with raises("task", got="above the objective"):
        checked_bound(Pair(size), w, objective, objective + 1e-9 * (size + abs(objective) + 1.0))


def test_an_objective_that_is_all_rounding_is_refused():
    with raises("X", got="by rounding"):
        checked_bound(Pair(1e20), np.ones(2), 44.7, 49.3)


def test_lines_of_progress_have_no_negative_gap():
    """A bound may be above the objective by rounding before the result is checked."""
    task, X, y = Multiclass(), np.eye(2), np.array([0, 1])
    task.learn(X, y)
    objective = build_objective(task, task.prepare(X, y), np.ones(2), Temperature())
    monitor = Monitor(objective, 1e-3, 10, 10.0)
    monitor.offer(np.zeros(task.n_features), 1.0, True)
    monitor.bound(1.0 + 1e-15)
    assert monitor.close_iteration()
    assert monitor.history[-1].gap == 0.0
    assert monitor.history[-1].lower_bound == monitor.history[-1].objective == 1.0


def test_a_gap_of_zero_is_said_to_be_rounding():
    assert stop_text("converged", 3, 0.0, True) == "converged to machine precision after 3 iterations"
    assert stop_text("converged", 3, 1e-4, True) == "converged after 3 iterations"
    assert stop_text("max_iter", 3, 0.0, True) == "max_iter after 3 iterations"
