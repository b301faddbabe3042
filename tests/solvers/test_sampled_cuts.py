"""Sampled cuts: near the exact optimum without a square matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_data import VIEWS, X, Y, digits
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from error_fields import raises
from latentstruct import (
    ConvergenceWarning,
    KernelStructuralSVM,
    LatentMulticlass,
    Measure,
    Multiclass,
)
from latentstruct.core.objective import build_objective
from latentstruct.core.protocols import Temperature
from latentstruct.estimators import kernel_maps as maps
from latentstruct.estimators.kernel_maps import FeatureRows, Kernel
from latentstruct.solvers.sampled_cuts import SampledCuts, sample_rows


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 30), st.integers(1, 3), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_sampled_rows_are_right_on_average(n, width, count, seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, width)) * (rng.random((n, 1)) < 0.7) * rng.choice([0.1, 1.0, 5.0], (n, 1))
    mean, filled = np.zeros_like(table), np.count_nonzero(table.any(axis=1))
    for k in range(200):
        rows, values = sample_rows(table, count, np.random.default_rng([seed, k]))
        assert len(rows) == len(set(rows.tolist())) <= max(count + 1, 0 if filled > count else filled)
        np.add.at(mean, rows, values / 200)
    if filled <= count:
        np.testing.assert_allclose(mean, table, atol=1e-12)
    # The sum of the rows' norms divided by the count is the largest step by which a sample can miss.
    step = np.linalg.norm(table, axis=1).sum() / count
    assert np.abs(mean - table).max() <= 0.5 * step + 1e-9


@pytest.mark.parametrize("C", [1.0, 5.0])
@pytest.mark.parametrize("cuts", [50, 300])
def test_sampled_cuts_come_near_the_exact_objective(C, cuts):
    inputs, truth = digits(250)
    exact = KernelStructuralSVM(Multiclass(bias=1.0), C=C, tol=1e-4).fit(inputs, truth)
    model = KernelStructuralSVM(Multiclass(bias=1.0), C=C, cuts=cuts).fit(inputs, truth)
    assert exact.lower_bound_ <= model.objective_ <= 1.1 * exact.objective_
    assert model.sampled_
    assert not model.certified_
    assert model.stop_reason_ == "converged"
    assert model.gap_ >= 0
    every = np.arange(len(truth))
    scores = model.decision_function(inputs)
    losses = (1.0 - np.eye(10)[truth] + scores).max(axis=1) - scores[every, truth]
    gram = rbf_kernel(model.support_vectors_, gamma=model.gamma_)
    square = np.vdot(model.dual_coef_, gram @ model.dual_coef_) + (model.coef_[model.dual_coef_.size :] ** 2).sum()
    assert 0.5 * square + C * losses.sum() == pytest.approx(model.objective_, rel=1e-6)


@pytest.mark.parametrize("loss", ["error", "f1", "rocarea", "average_precision"])
def test_sampled_cuts_train_measures(loss):
    inputs, truth = digits(250)
    exact = KernelStructuralSVM(Measure(loss), C=200.0).fit(inputs, truth == 8)
    model = KernelStructuralSVM(Measure(loss), C=200.0, cuts=200).fit(inputs, truth == 8)
    assert exact.lower_bound_ <= model.objective_ <= 1.1 * exact.objective_
    assert model.score(inputs, truth == 8) >= exact.score(inputs, truth == 8) - 0.1
    assert (model.predict(inputs) == (model.decision_function(inputs) > 0)).all()


@pytest.mark.parametrize("task", [Multiclass(), Measure("f1")])
def test_cuts_without_rows_are_level(task):
    """Where all examples keep their margin, as with a large C on separable rows, no row has a slope."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0.3).astype(int)
    model = KernelStructuralSVM(task, C=1e6, cuts=20, max_iter=400).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.stop_reason_ == "converged"


def test_full_cuts_reach_the_optimum():
    exact = KernelStructuralSVM(Multiclass(bias=1.0), tol=1e-4).fit(X, Y)
    model = KernelStructuralSVM(Multiclass(bias=1.0), cuts=len(X), tol=1e-2).fit(X, Y)
    assert model.objective_ == pytest.approx(exact.objective_, rel=2e-2)
    assert model.lower_bound_ <= exact.objective_


def test_sampled_cuts_hold_no_square_matrix(monkeypatch):
    n, sizes = 9000, []
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, n)
    inputs = rng.normal(size=(n, 2)) + truth[:, None]
    between = Kernel.between

    def watched(self, A, B):
        sizes.append((A.shape[0], B.shape[0]))
        return between(self, A, B)

    monkeypatch.setattr(Kernel, "between", watched)
    model = KernelStructuralSVM(Multiclass(), C=0.1, max_iter=5, random_state=3)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(inputs, truth)
    assert model.sampled_
    assert model.n_iter_ == 5
    assert max(a for a, _ in sizes) <= maps.ROWS_TOGETHER
    assert max(b for _, b in sizes) <= 501
    with pytest.warns(ConvergenceWarning):
        again = clone(model).fit(inputs, truth)
    np.testing.assert_array_equal(model.coef_, again.coef_)


def test_a_callback_stops_sampled_cuts():
    lines = []
    model = KernelStructuralSVM(Multiclass(), cuts=20).fit(X, Y, callback=lambda line: lines.append(line) or True)
    assert model.stop_reason_ == "callback"
    assert len(lines) == 1
    latent = KernelStructuralSVM(LatentMulticlass(), cuts=20, restarts=2).fit(VIEWS, Y, callback=lambda line: True)
    assert latent.stop_reason_ == "callback"
    assert latent.n_iter_ == 1


def test_sampled_cuts_go_on_from_a_state():
    unit = sparse.eye_array(len(X), format="csr")
    task = Multiclass()
    task.learn(unit, Y)
    objective = build_objective(task, task.prepare(unit, Y), np.ones(len(X)), Temperature())
    solver = SampledCuts(FeatureRows(X, Kernel("rbf", 0.5)), 10)
    result = solver.minimize(objective)
    function = result.state
    assert result.objective == pytest.approx(
        function.half_square + objective.value(result.w) - 0.5 * result.w @ result.w
    )
    assert result.lower_bound <= result.objective
    further = clone(solver).minimize(objective, state=result.state)
    assert further.objective <= result.objective
    with raises("w0", expected="without a `state`"):
        solver.minimize(objective, result.w)
    for bad in ({"sample": 0}, {"proximity": -1.0}, {"tol": 0.0}):
        with raises(*bad):
            clone(solver).set_params(**bad).minimize(objective)
