"""Kernels: coordinates, exact training against quadratic programs, sampled cuts, and models on disk."""

import doctest
import os
import pickle
from functools import partial

import numpy as np
import piqp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import latentstruct
from latentstruct import (
    CCCP,
    ConvergenceWarning,
    FormatError,
    InputError,
    KernelStructuralSVM,
    LatentMulticlass,
    LatentSSVM,
    Measure,
    Multiclass,
    StructuralSVM,
)
from latentstruct import kernel_maps as maps
from latentstruct.estimators import kernel
from latentstruct.kernel_maps import Coordinates, FeatureRows, GramRows, Kernel, expand, factorise, resolve_gamma
from latentstruct.objective import build_objective
from latentstruct.protocols import Temperature
from latentstruct.solvers.sampled_cuts import SampledCuts, sample_rows

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")
RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = RNG.normal(size=(60, 2)) + 1.5 * np.eye(3, 2)[Y]
TWO = (Y == 1).astype(int)
VIEWS = np.stack([X, RNG.normal(size=X.shape), RNG.normal(size=X.shape)], axis=1)
KERNELS = st.sampled_from(
    [
        Kernel("linear"),
        Kernel("rbf", 0.7),
        Kernel("rbf", 1e-3),
        Kernel("poly", 0.5, 2, 1.0),
        Kernel("poly", 1.0, 3, 0.0),
    ]
)


def matrices(most_rows=40):
    """Return random rows, some of them equal to others."""

    def build(n, d, seed, repeated):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n, d))
        return rows[rng.integers(0, n, n)] if repeated else rows

    return st.builds(build, st.integers(1, most_rows), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans())


def digits(n):
    data = load_digits()
    return data.data[:n] / 16.0, data.target[:n]


@settings(max_examples=30, deadline=None)
@given(matrices(150), KERNELS, st.sampled_from([0.0, 1e-10, 1e-3, 0.1]), st.sampled_from([None, 1, 3, 70]))
def test_coordinates_have_the_inner_products_of_the_kernel(rows, kernel, tolerance, most):
    gram = kernel.between(rows, rows)
    found = factorise(FeatureRows(rows, kernel), tolerance, most)
    scale, rank = gram.diagonal().max(), len(found.pivots)
    allowed = 1e-6 * scale
    left = gram - found.rows @ found.rows.T
    assert np.abs(left[found.pivots]).max(initial=0.0) <= allowed
    assert np.abs(np.triu(found.rows[found.pivots], 1)).max(initial=0.0) == 0.0
    np.testing.assert_allclose(found.remainders, left.diagonal(), atol=allowed)
    assert found.error == pytest.approx(np.trace(left), abs=len(rows) * allowed)
    assert rank == most or found.remainders.max() <= max(tolerance, maps.LEAST_REMAINDER) * scale
    assert rank <= min(len(rows), most or len(rows))
    assert len(set(found.pivots.tolist())) == rank


@settings(max_examples=30, deadline=None)
@given(matrices(), st.integers(0, 2**32 - 1))
def test_weights_in_coordinates_are_functions_of_the_pivots(rows, seed):
    kernel = Kernel("rbf", 0.5)
    found = factorise(FeatureRows(rows, kernel), 1e-6)
    weights = np.random.default_rng(seed).normal(size=(len(found.pivots), 2))
    coefficients = found.expansion(weights)
    np.testing.assert_allclose(expand(kernel, rows, rows[found.pivots], coefficients), found.rows @ weights, atol=1e-4)
    squares = np.einsum("iv,ij,jv->v", coefficients, kernel.between(*2 * [rows[found.pivots]]), coefficients)
    np.testing.assert_allclose(squares, (weights**2).sum(axis=0), rtol=1e-4)


def test_a_linear_kernel_has_as_many_coordinates_as_inputs():
    rows = RNG.normal(size=(300, 7))
    assert factorise(FeatureRows(rows, Kernel("linear")), 1e-10).rows.shape == (300, 7)


def test_products_are_made_block_by_block(monkeypatch):
    monkeypatch.setattr(maps, "ROWS_TOGETHER", 7)
    kernel, coefficients = Kernel("rbf", 1.0), RNG.normal(size=(9, 3))
    chosen = np.arange(9) * 5
    rows = FeatureRows(X, kernel)
    np.testing.assert_allclose(rows.products(chosen, coefficients), rows.columns(chosen) @ coefficients)
    gram = GramRows.checked(kernel.between(X, X))
    np.testing.assert_allclose(gram.products(chosen, coefficients), rows.columns(chosen) @ coefficients)


@pytest.mark.parametrize("matrix", [X, sparse.csr_array(X * (X > 0))])
def test_gamma_is_that_of_svc(matrix):
    model = SVC().fit(sparse.csr_matrix(matrix) if sparse.issparse(matrix) else matrix, Y)
    assert resolve_gamma("scale", matrix) == pytest.approx(model._gamma)
    assert resolve_gamma("auto", matrix) == 0.5
    assert resolve_gamma("scale", np.ones((3, 2))) == 1.0


def multiclass_dual(gram, truth, costs, C):
    """Return the dual's maximum by a quadratic program over all classes of all examples."""
    n, n_labels = len(truth), len(costs)
    # Variable (i, y) is the mass α_iy; the coefficient of row i in class y is C (1[y = y_i] − α_iy).
    H = np.kron(C * C * gram, np.eye(n_labels))
    known = C * np.eye(n_labels)[truth]
    linear = -(C * gram @ known).ravel() - C * costs[truth].ravel()
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-9
    sums = np.kron(np.eye(n), np.ones(n_labels))
    solver.setup(
        H + 1e-10 * np.eye(len(H)), linear, sums, np.ones(n), None, None, None, np.zeros(len(H)), np.ones(len(H))
    )
    solver.solve()
    masses = solver.result.x
    constant = 0.5 * np.vdot(known, gram @ known)
    return -(0.5 * masses @ H @ masses + linear @ masses + constant)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1.3]),
    st.sampled_from([0.3, 5.0]),
    st.sampled_from(["rbf", "poly", "linear"]),
)
def test_training_reaches_the_quadratic_program(seed, bias, C, kernel):
    rng = np.random.default_rng(seed)
    rows, truth = rng.normal(size=(14, 3)), np.r_[0, 1, 2, rng.integers(0, 3, 11)]
    costs = 1.0 - np.eye(3)
    costs[0, 2] = 2.0
    task = Multiclass(costs=costs, bias=bias)
    model = KernelStructuralSVM(task, kernel, gamma=0.8, degree=2, C=C, tol=1e-7).fit(rows, truth)
    gram = Kernel(kernel, 0.8, 2, 1.0).between(rows, rows) + bias**2
    expected = multiclass_dual(gram, truth, costs, C)
    assert model.objective_ == pytest.approx(expected, rel=1e-5)
    assert model.lower_bound_ == pytest.approx(expected, rel=1e-5)
    assert model.certified_
    # The objective is that of the function that predictions are made with.
    scores = model.decision_function(rows)
    every = np.arange(len(rows))
    losses = (costs[truth] + scores).max(axis=1) - scores[every, truth]
    support = Kernel(kernel, 0.8, 2, 1.0).between(model.support_vectors_, model.support_vectors_)
    square = np.vdot(model.dual_coef_, support @ model.dual_coef_) + (model.coef_[model.dual_coef_.size :] ** 2).sum()
    assert 0.5 * square + C * losses.sum() == pytest.approx(model.objective_, rel=1e-6)


def error_rate_dual(gram, signs, weight):
    """Return the minimum of ½‖w‖² + weight·Σ hinge by its dual over a box."""
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
    n = len(signs)
    H = np.outer(signs, signs) * gram + 1e-12 * np.eye(n)
    solver.setup(H, -np.ones(n), None, None, None, None, None, np.zeros(n), np.full(n, weight))
    solver.solve()
    return -(0.5 * solver.result.x @ H @ solver.result.x - solver.result.x.sum())


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("C", [20.0, 600.0])
def test_the_error_rate_gives_the_ordinary_svm(bias, C):
    model = KernelStructuralSVM(Measure("error", bias=bias), gamma=0.5, C=C, tol=1e-6).fit(X, TWO)
    expected = error_rate_dual(rbf_kernel(X, gamma=0.5) + bias**2, 2.0 * TWO - 1.0, C / len(X))
    assert model.objective_ == pytest.approx(expected, rel=1e-5)
    ordinary = SVC(C=C / len(X), gamma=0.5).fit(X, TWO)
    assert (model.predict(X) == ordinary.predict(X)).mean() > 0.9


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_a_linear_kernel_is_the_linear_model(bias):
    weights = RNG.uniform(0.2, 2.0, len(X))
    linear = StructuralSVM(Multiclass(bias=bias), C=2.0, tol=1e-7).fit(X, Y, weights)
    model = KernelStructuralSVM(Multiclass(bias=bias), "linear", C=2.0, tol=1e-7).fit(X, Y, weights)
    assert model.objective_ == pytest.approx(linear.objective_, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), linear.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(model.predict(X), linear.predict(X))
    assert model.score(X, Y) == linear.score(X, Y)
    np.testing.assert_array_equal(model.loss(X, Y), linear.loss(X, Y))
    assert model.n_basis_ == 2
    assert model.n_features_in_ == 2
    assert model.kernel_error_ < 1e-6
    assert not model.sampled_


@pytest.mark.parametrize("loss", ["f1", "rocarea", "prbep", "average_precision"])
def test_a_linear_kernel_is_the_linear_measure(loss):
    linear = StructuralSVM(Measure(loss), C=50.0, tol=1e-6).fit(X, TWO)
    model = KernelStructuralSVM(Measure(loss), "linear", C=50.0, tol=1e-6).fit(X, TWO)
    assert model.objective_ == pytest.approx(linear.objective_, rel=1e-5)
    assert model.decision_function(X).shape == (len(X),)
    np.testing.assert_allclose(model.decision_function(X), linear.decision_function(X), atol=2e-2)
    assert model.score(X, TWO) == pytest.approx(linear.score(X, TWO), abs=0.02)


def test_a_polynomial_kernel_is_that_of_its_features():
    a, b = X.T
    features = np.stack([np.ones(len(X)), *(np.sqrt(2.0) * X.T), a**2, b**2, np.sqrt(2.0) * a * b], axis=1)
    linear = StructuralSVM(Multiclass(), tol=1e-6).fit(features, Y)
    model = KernelStructuralSVM(Multiclass(), "poly", gamma=1.0, degree=2, coef0=1.0, tol=1e-6).fit(X, Y)
    assert model.n_basis_ == 6
    assert model.objective_ == pytest.approx(linear.objective_, rel=1e-5)
    np.testing.assert_allclose(model.decision_function(X), linear.decision_function(features), atol=5e-3)


@pytest.mark.parametrize("cuts", ["all", 30])
def test_all_ways_to_give_a_kernel_are_the_same(cuts):
    gram = rbf_kernel(X, gamma=0.5)
    model = KernelStructuralSVM(Multiclass(), gamma=0.5, cuts=cuts, tol=1e-8 if cuts == "all" else 1e-2)
    named = clone(model).fit(X[:50], Y[:50])
    called = clone(model).set_params(kernel=partial(rbf_kernel, gamma=0.5)).fit(X[:50], Y[:50])
    computed = clone(model).set_params(kernel="precomputed").fit(gram[:50, :50], Y[:50])
    compressed = clone(model).fit(sparse.csr_array(X[:50]), Y[:50])
    # Rounding may change what is sampled, but not how good it is.
    for other, inputs in ((called, X), (computed, gram[:, :50]), (compressed, sparse.csr_array(X))):
        assert other.objective_ == pytest.approx(named.objective_, rel=1e-6 if cuts == "all" else 0.03)
        difference = other.decision_function(inputs) - named.decision_function(X)
        assert np.abs(difference).max() < (1e-3 if cuts == "all" else 0.3)
    assert computed.support_vectors_ is None
    np.testing.assert_array_equal(named.support_vectors_, X[named.support_])
    np.testing.assert_array_equal(compressed.support_vectors_.toarray(), X[compressed.support_])


STATE_FORMS = {
    "views": (LatentMulticlass(bias=1.0), VIEWS),
    "lists": (LatentMulticlass(), [view[: 1 + i % 3] for i, view in enumerate(VIEWS)]),
    "states": (LatentMulticlass(weights="state", bias=0.5), VIEWS),
    "shared": (LatentMulticlass(n_states=2, weights="state"), X),
}


@pytest.mark.parametrize("form", ["views", "lists", "states"])
def test_a_linear_kernel_is_the_linear_latent_model(form):
    task, inputs = STATE_FORMS[form]
    H = np.zeros(len(Y), dtype=int)
    # Convex problems that are solved loosely at first would lead to different minima.
    solver = CCCP(first_tol=1e-6)
    linear = LatentSSVM(task, C=0.5, solver=solver, tol=1e-6).fit(inputs, Y, H=H)
    model = KernelStructuralSVM(task, "linear", C=0.5, solver=solver, tol=1e-6).fit(inputs, Y, H=H)
    assert model.objective_ == pytest.approx(linear.objective_, rel=1e-4)
    np.testing.assert_allclose(model.decision_function(inputs), linear.decision_function(inputs), atol=0.05)
    assert np.mean(np.array(model.complete(inputs, Y)) == linear.complete(inputs, Y)) > 0.95
    assert np.mean(np.array(model.predict_latent(inputs)) == linear.predict_latent(inputs)) > 0.95
    assert not model.certified_


@pytest.mark.parametrize("form", STATE_FORMS)
def test_all_forms_of_states_are_trained_on_both_roads(form):
    task, inputs = STATE_FORMS[form]
    H = (X[:, 0] > 0.5).astype(int) if form == "shared" else np.zeros(len(Y), dtype=int)
    linear = LatentSSVM(task, C=0.5).fit(inputs, Y, H=H)
    for cuts in ("all", 60):
        model = KernelStructuralSVM(task, "linear", C=0.5, cuts=cuts).fit(inputs, Y, H=H)
        # Minima that are reached from the same start may differ.
        assert model.objective_ <= 1.2 * linear.objective_
        assert model.score(inputs, Y) >= linear.score(inputs, Y) - 0.15
        losses = build_losses(model, inputs)
        square = 0.5 * np.vdot(model.dual_coef_, (gram_of(model)) @ model.dual_coef_)
        square += 0.5 * (model.coef_[model.dual_coef_.size :] ** 2).sum()
        assert square + 0.5 * losses == pytest.approx(model.objective_, rel=1e-6)


def gram_of(model):
    """Return the kernel between the support rows of a linear kernel."""
    return model.support_vectors_ @ model.support_vectors_.T


def build_losses(model, inputs):
    """Return the sum of the hinge losses of a model with 0/1 costs, by its scores alone."""
    scores = model.decision_function(inputs)
    return ((1.0 - np.eye(3)[Y] + scores).max(axis=1) - scores[np.arange(len(Y)), Y]).sum()


def test_latent_views_are_found_with_a_curved_kernel():
    rng = np.random.default_rng(1)
    truth = np.arange(80) % 2
    angle = rng.uniform(0, 2 * np.pi, 80)
    circles = (1.0 + truth)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    views = np.stack([np.full((80, 2), 9.0), circles], axis=1)
    task = LatentMulticlass(labels=[0, 1])
    model = KernelStructuralSVM(task, gamma=1.0, C=10.0, restarts=3).fit(views, truth)
    assert model.score(views, truth) == 1.0
    assert len(model.restart_objectives_) == 3
    assert LatentSSVM(task, C=10.0, restarts=3).fit(views, truth).score(views, truth) < 0.9


def test_a_limited_basis_is_marked_and_no_better_than_all():
    inputs, truth = digits(300)
    exact = KernelStructuralSVM(Multiclass(), C=5.0).fit(inputs, truth)
    limited = KernelStructuralSVM(Multiclass(), C=5.0, max_basis=60).fit(inputs, truth)
    assert exact.certified_
    assert not limited.certified_
    assert limited.n_basis_ <= 60
    assert limited.kernel_error_ > 1.0
    assert exact.lower_bound_ <= limited.objective_ <= 4.0 * exact.objective_
    assert KernelStructuralSVM(Multiclass(), "linear", max_basis=64).fit(inputs, truth).certified_


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
    """Where all examples keep their margin, as with a large C on rows that can be told apart, no row has a slope."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0.3).astype(int)
    model = KernelStructuralSVM(task, C=1e6, cuts=20, max_rounds=400).fit(X, y)
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
    model = KernelStructuralSVM(Multiclass(), C=0.1, max_rounds=5, random_state=3)
    with pytest.warns(ConvergenceWarning, match="max_rounds"):
        model.fit(inputs, truth)
    assert model.sampled_
    assert model.n_rounds_ == 5
    assert max(a for a, _ in sizes) <= maps.ROWS_TOGETHER
    assert max(b for _, b in sizes) <= 501
    with pytest.warns(ConvergenceWarning):
        again = clone(model).fit(inputs, truth)
    np.testing.assert_array_equal(model.coef_, again.coef_)


def test_memory_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("latentstruct.estimators.kernel.EXACT_BYTES", 1e5)
    inputs, truth = digits(300)
    with pytest.raises(InputError, match=r"300 rows need more than 128 coordinates .*cuts=500.*max_basis.*Nystroem"):
        KernelStructuralSVM(Multiclass()).fit(inputs, truth)


def test_a_callback_stops_sampled_cuts():
    lines = []
    model = KernelStructuralSVM(Multiclass(), cuts=20).fit(X, Y, callback=lambda line: lines.append(line) or True)
    assert model.stop_reason_ == "callback"
    assert len(lines) == 1
    latent = KernelStructuralSVM(LatentMulticlass(), cuts=20, restarts=2).fit(VIEWS, Y, callback=lambda line: True)
    assert latent.stop_reason_ == "callback"
    assert latent.n_rounds_ == 1


def test_sampled_cuts_go_on_from_a_state():
    unit = sparse.eye_array(len(X), format="csr")
    task = Multiclass()
    task.learn(unit, Y)
    objective = build_objective(task, task.prepare(unit, Y), np.ones(len(X)), Temperature())
    solver = SampledCuts(FeatureRows(X, Kernel("rbf", 0.5)), 10)
    function, result = solver.descend(objective)
    assert result.objective == pytest.approx(
        function.half_square + objective.value(result.w) - 0.5 * result.w @ result.w
    )
    assert result.lower_bound <= result.objective
    further = clone(solver).minimize(objective, state=result.state)
    assert further.objective <= result.objective
    with pytest.raises(InputError, match="w0 is given, but sampled cuts go on from a state only"):
        solver.minimize(objective, result.w)
    for bad in ({"sample": 0}, {"proximity": -1.0}, {"tol": 0.0}):
        with pytest.raises(InputError, match=next(iter(bad))):
            clone(solver).set_params(**bad).descend(objective)


def test_it_is_a_scikit_learn_classifier():
    model = KernelStructuralSVM(Multiclass(labels=[0, 1, 2]), C=2.0).fit(X, Y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert not hasattr(clone(model), "coef_")
    assert not hasattr(KernelStructuralSVM(Multiclass()), "complete")
    for name in ("dual_coef_", "n_basis_", "states_"):
        assert not hasattr(clone(model), name)
    search = GridSearchCV(KernelStructuralSVM(Multiclass()), {"C": [0.1, 1.0], "gamma": [0.1, 1.0]}, cv=3).fit(X, Y)
    gram = rbf_kernel(X, gamma=search.best_params_["gamma"])
    computed = GridSearchCV(KernelStructuralSVM(Multiclass(), "precomputed"), {"C": [0.1, 1.0]}, cv=3).fit(gram, Y)
    assert computed.best_score_ == pytest.approx(search.best_score_)
    measured = GridSearchCV(KernelStructuralSVM(Measure("f1")), {"C": [10.0, 100.0]}, cv=3).fit(X, TWO)
    assert measured.best_score_ > 0.3


def test_the_cheap_road_does_about_as_well():
    inputs, truth = digits(800)
    train, test = slice(0, 500), slice(500, 800)
    model = KernelStructuralSVM(Multiclass(), C=10.0).fit(inputs[train], truth[train])
    features = Nystroem(gamma=model.gamma_, n_components=250, random_state=0)
    cheap = make_pipeline(features, StructuralSVM(Multiclass(), C=10.0)).fit(inputs[train], truth[train])
    ordinary = SVC(C=10.0).fit(inputs[train], truth[train])
    score = model.score(inputs[test], truth[test])
    assert score >= ordinary.score(inputs[test], truth[test]) - 0.01
    assert abs(cheap.score(inputs[test], truth[test]) - score) <= 0.03


SAVED = {
    "dense": (KernelStructuralSVM(Multiclass(bias=1.0)), X, Y),
    "sparse": (KernelStructuralSVM(Multiclass(), "poly"), sparse.csr_array(X), Y),
    "precomputed": (KernelStructuralSVM(Multiclass(), "precomputed"), rbf_kernel(X), Y),
    "measure": (KernelStructuralSVM(Measure("prbep"), C=50.0), X, TWO),
    "latent": (KernelStructuralSVM(LatentMulticlass()), VIEWS, Y),
    "sampled": (KernelStructuralSVM(Multiclass(bias=1.0), cuts=20), X, Y),
}


@pytest.mark.parametrize("kind", SAVED)
def test_what_was_saved_comes_back(kind, tmp_path):
    model, inputs, truth = SAVED[kind]
    model = clone(model).fit(inputs, truth)
    model.save(tmp_path / "model")
    loaded = latentstruct.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(inputs), model.decision_function(inputs))
    np.testing.assert_array_equal(loaded.predict(inputs), model.predict(inputs))
    for name in ("support_", "dual_coef_", "gamma_", "n_basis_", "sampled_", "n_features_in_", "kernel_error_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / "model.json").read_bytes() == (tmp_path / "model" / "model.json").read_bytes()


@pytest.mark.parametrize("kind", ["dense", "sparse", "precomputed"])
def test_damaged_support_rows_are_noticed(kind, tmp_path):
    model, inputs, truth = SAVED[kind]
    clone(model).fit(inputs, truth).save(tmp_path)
    weights = load_file(tmp_path / "weights.safetensors")
    for name, array in weights.items():
        if not name.startswith("part."):
            continue
        others = {
            "gone": None,
            "shorter": array[:-1].copy(),
            "other numbers": array + 1,
            "other kind": array.astype(np.float32),
            "flat": array.ravel() if array.ndim > 1 else array[:, None],
        }
        for other in others.values():
            rest = {key: value for key, value in weights.items() if key != name}
            save_file(
                rest if other is None else {**rest, name: np.ascontiguousarray(other)}, tmp_path / "weights.safetensors"
            )
            with pytest.raises(FormatError, match="copy the model again or train again"):
                latentstruct.load(tmp_path)


def test_a_kernel_of_ones_own_is_not_saved(tmp_path):
    model = KernelStructuralSVM(Multiclass(), rbf_kernel).fit(X, Y)
    with pytest.raises(InputError, match=r"cannot save kernel=<function rbf_kernel"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


INDEFINITE = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
BAD = [
    ({"kernel": "gauss"}, "kernel must be one of linear, poly, rbf, sigmoid, precomputed or a function, found 'gauss'"),
    ({"kernel": None}, "or a function, found None"),
    ({"gamma": 0.0}, "gamma must be 'scale', 'auto' or a finite number above 0, found 0.0"),
    ({"gamma": "large"}, "gamma must be .* found 'large'"),
    ({"kernel": "poly", "degree": 2.5}, "degree must be a whole number of at least 1, found 2.5"),
    ({"kernel": "poly", "degree": 400, "gamma": 1e3}, "gave a value that is not finite: scale the inputs"),
    ({"coef0": np.nan}, "coef0 must be a finite number, found nan"),
    ({"basis_tol": -1.0}, "basis_tol must be a finite number, at least 0, found -1.0"),
    ({"cuts": 0}, "cuts must be 'auto', 'all' or a whole number of at least 1, found 0"),
    ({"cuts": "some"}, "cuts must be .* found 'some'"),
    ({"cuts": np.ones(2)}, "cuts must be .* found array"),
    ({"gamma": np.ones(2)}, "gamma must be 'scale', 'auto' or a finite number above 0, found array"),
    ({"max_basis": 1.5}, "max_basis must be None or a whole number of at least 1, found 1.5"),
    ({"cuts": 10, "solver": "bundle"}, "solver='bundle' is given, but sampled cuts are a solver of their own"),
    ({"kernel": "precomputed"}, r"as many rows as columns, found shape \(60, 2\)"),
    ({"kernel": "sigmoid", "gamma": 3.0, "coef0": -1.0}, "not positive semi-definite"),
    ({"kernel": "sigmoid", "gamma": 3.0, "coef0": -1.0, "cuts": 10}, "not positive semi-definite"),
    ({"kernel": lambda A, B: np.ones((2, 2))}, r"returned shape \(2, 2\) for 60 and 60 rows"),
    ({"kernel": lambda A, B: "kernel"}, "did not return a matrix of numbers"),
    ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "gave a value that is not finite"),
    ({"kernel": lambda A, B: A[:, :1] + 2.0 * B[:, :1].T + 9.0}, "not (symmetric|positive semi-definite)"),
    ({"kernel": lambda A, B: -rbf_kernel(A, B)}, "not positive semi-definite"),
    ({"restarts": 0}, "restarts must be None or a whole number of at least 1, found 0"),
    ({"cuts": 9, "random_state": "x"}, "random_state must be a whole number, at least 0, found 'x'"),
    ({"C": 0.0}, "C must be a finite number above 0"),
    ({"task": Multiclass}, "knows Multiclass, LatentMulticlass and Measure, found <class"),
    ({"task": latentstruct.Chain()}, r"knows Multiclass, LatentMulticlass and Measure, found Chain\(\)"),
    ({"solver": "simplex"}, "unknown solver 'simplex'"),
]


@pytest.mark.parametrize(("params", "message"), BAD)
def test_bad_parameters_are_refused(params, message):
    with pytest.raises(InputError, match=message):
        KernelStructuralSVM(**{"task": Multiclass(), **params}).fit(X, Y)


@pytest.mark.parametrize("cuts", ["all", 10])
def test_a_callback_must_be_a_function(cuts):
    with pytest.raises(InputError, match="callback must be a function of a Round, found 3"):
        KernelStructuralSVM(Multiclass(), cuts=cuts).fit(X, Y, callback=3)


def test_bad_inputs_are_refused():
    model = KernelStructuralSVM(Multiclass()).fit(X, Y)
    with pytest.raises(InputError, match="X has 3 features but the model has 2"):
        model.predict(np.ones((4, 3)))
    with pytest.raises(InputError, match="not finite at row 1, column 0"):
        model.predict([[0.0, 1.0], [np.nan, 1.0]])
    with pytest.raises(InputError, match="Y is missing"):
        model.fit(X, None)
    with pytest.raises(InputError, match="no latent variables: leave it out"):
        model.fit(X, Y, H=Y)
    with pytest.raises(InputError, match="no latent variables: leave it out"):
        clone(model).set_params(cuts=10).fit(X, Y, H=Y)
    with pytest.raises(InputError, match="takes the whole set for one example"):
        KernelStructuralSVM(Measure(), cuts=10).fit(X, TWO, np.ones(len(X)))
    with pytest.raises(InputError, match="no probabilities"):
        model.marginals(X)
    with pytest.raises(InputError, match="no states to prune"):
        model.prune()
    computed = KernelStructuralSVM(Multiclass(), "precomputed").fit(rbf_kernel(X), Y)
    with pytest.raises(InputError, match="X has 2 features but the model has 60"):
        computed.predict(X)
    with pytest.raises(InputError, match="precomputed' has no form for the states"):
        KernelStructuralSVM(LatentMulticlass(), "precomputed").fit(VIEWS, Y)
    latent = KernelStructuralSVM(LatentMulticlass()).fit(VIEWS, Y)
    with pytest.raises(InputError, match="Y is missing"):
        latent.complete(VIEWS, None)
    broken = VIEWS.copy()
    broken[3, 1, 0] = np.inf
    with pytest.raises(InputError, match="not finite"):
        latent.predict(broken)


@pytest.mark.parametrize("cuts", ["all", 2])
@pytest.mark.parametrize(
    ("gram", "message"),
    [
        (INDEFINITE, "not positive semi-definite"),
        (np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), "not positive semi-definite"),
        (np.diag([1.0, -1.0, 1.0]), "not positive semi-definite"),
        (np.triu(np.ones((3, 3))), "not symmetric: 1 at row 0, column 1, but 0 at row 1, column 0"),
        (np.eye(3) + np.diag([np.nan, 0, 0]), "not finite at row 0, column 0"),
    ],
)
def test_matrices_that_are_no_kernel_are_refused(gram, message, cuts):
    with pytest.raises(InputError, match=message):
        KernelStructuralSVM(Multiclass(), "precomputed", cuts=cuts).fit(gram, [0, 1, 2])


@pytest.mark.parametrize("cuts", ["all", 5])
def test_a_kernel_that_tells_nothing_apart_predicts_one_class(cuts):
    model = KernelStructuralSVM(Multiclass(), lambda A, B: np.zeros((len(A), len(B))), cuts=cuts).fit(X, Y)
    assert model.objective_ == pytest.approx(len(X), rel=1e-3)
    assert model.n_basis_ == 1
    assert len(set(model.predict(X))) == 1


def test_the_examples_of_the_documentation_run():
    found = doctest.testmod(kernel, extraglobs={"KernelStructuralSVM": KernelStructuralSVM})
    assert found.attempted >= 8
    assert found.failed == 0


def test_coordinates_without_pivots_are_empty():
    empty = Coordinates(np.zeros((3, 0)), np.zeros(0, dtype=np.int64), np.zeros(3))
    assert empty.expansion(np.zeros((0, 2))).shape == (0, 2)


def test_the_polynomial_kernel_is_that_of_scikit_learn():
    expected = polynomial_kernel(X, degree=3, gamma=0.2, coef0=0.5)
    np.testing.assert_allclose(Kernel("poly", 0.2, 3, 0.5).between(X, X), expected)
    np.testing.assert_allclose(Kernel("poly", 0.2, 3, 0.5).diagonal(X), expected.diagonal())


@needs_data
@pytest.mark.data
def test_optdigits_are_told_apart_as_well_as_by_svc():
    from latentstruct.datasets import load_optdigits

    data = load_optdigits()
    train, truth, test, expected = data.train_X, data.train_y, data.test_X, data.test_y
    ordinary = SVC(C=10.0).fit(train, truth).score(test, expected)
    for cuts in ("all", 500):
        model = KernelStructuralSVM(Multiclass(), C=10.0, cuts=cuts).fit(train, truth)
        assert model.score(test, expected) >= ordinary - 0.005
