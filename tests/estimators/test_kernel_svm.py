"""Training with kernels: against quadratic programs, linear models and scikit-learn."""

import doctest
import os
import pickle
from functools import partial

import numpy as np
import piqp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_data import TWO, VIEWS, X, Y, digits
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from latentstruct import (
    CCCP,
    KernelStructuralSVM,
    LatentMulticlass,
    LatentSSVM,
    Measure,
    Multiclass,
    StructuralSVM,
)
from latentstruct.estimators import kernel
from latentstruct.estimators.kernel_maps import Kernel
from latentstruct.exceptions import ConvergenceWarning

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")


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
    weights = np.random.default_rng(0).uniform(0.2, 2.0, len(X))
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
    same_scores(model.decision_function(X), linear.decision_function(X), X, model, linear)
    assert model.score(X, TWO) == pytest.approx(linear.score(X, TWO), abs=0.02)


def test_a_polynomial_kernel_is_that_of_its_features():
    a, b = X.T
    features = np.stack([np.ones(len(X)), *(np.sqrt(2.0) * X.T), a**2, b**2, np.sqrt(2.0) * a * b], axis=1)
    linear = StructuralSVM(Multiclass(), C=1.0, tol=1e-6).fit(features, Y)
    model = KernelStructuralSVM(Multiclass(), "poly", gamma=1.0, degree=2, coef0=1.0, tol=1e-6).fit(X, Y)
    assert model.n_basis_ == 6
    assert model.objective_ == pytest.approx(linear.objective_, rel=1e-5)
    same_scores(model.decision_function(X), linear.decision_function(features), features, model, linear)


def same_scores(found, expected, features, *models):
    """Compare scores of two solutions, each of which is within √(2 gap) of the only minimum in the space of weights."""
    apart = sum(np.sqrt(2.0 * model.gap_) for model in models) * np.linalg.norm(features, axis=1).max()
    np.testing.assert_allclose(found, expected, atol=float(apart) + 1e-6)
    assert apart < 1.0


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
    solver = CCCP(first_tol=1e-6)
    models = (
        LatentSSVM(task, C=0.5, solver=solver, tol=1e-6),
        KernelStructuralSVM(task, "linear", C=0.5, solver=solver, tol=1e-6),
    )
    # The first convex problem has one minimum.
    with pytest.warns(ConvergenceWarning):
        linear, model = (clone(one).set_params(max_iter=1).fit(inputs, Y, H=H) for one in models)
    scores = model.decision_function(inputs)
    np.testing.assert_allclose(scores, linear.decision_function(inputs), atol=0.05)
    assert model.objective_ == pytest.approx(linear.objective_, rel=1e-3)
    if form != "states":
        # A view that is chosen has the score of its example also when it is the only one.
        rows = np.arange(len(Y))
        for labels, chosen in ((Y, model.complete(inputs, Y)), (model.predict(inputs), model.predict_latent(inputs))):
            alone = model.decision_function([views[h : h + 1] for views, h in zip(inputs, chosen, strict=True)])
            np.testing.assert_allclose(alone[rows, labels], scores[rows, labels], atol=1e-9)
    # Later ones may lead to different minima, but either model starts no worse from where the other has ended.
    linear, model = (clone(one).fit(inputs, Y, H=H) for one in models)
    for one, other in ((linear, model), (model, linear)):
        again = clone(one).fit(inputs, Y, H=other.complete(inputs, Y))
        assert again.objective_ <= other.objective_ * (1 + 1e-5)
    assert not model.certified_


@pytest.mark.parametrize("form", STATE_FORMS)
def test_all_forms_of_states_are_trained_on_both_roads(form):
    task, inputs = STATE_FORMS[form]
    H = (X[:, 0] > 0.5).astype(int) if form == "shared" else np.zeros(len(Y), dtype=int)
    for cuts in ("all", 60):
        model = KernelStructuralSVM(task, "linear", C=0.5, cuts=cuts).fit(inputs, Y, H=H)
        # Minima that are reached from the same start may differ; all are better than w = 0.
        assert model.objective_ < 0.5 * len(Y)
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
    # Both are solved to a tolerance, so that predictions near a boundary may differ.
    assert computed.best_score_ == pytest.approx(search.best_score_, abs=0.1)
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


@needs_data
@pytest.mark.data
def test_optdigits_are_told_apart_as_well_as_by_svc():
    from latentstruct_papers.datasets import load_optdigits

    data = load_optdigits()
    train, truth, test, expected = data.train_X[:600], data.train_y[:600], data.test_X, data.test_y
    ordinary = SVC(C=10.0).fit(train, truth).score(test, expected)
    for cuts in ("all", 300):
        model = KernelStructuralSVM(Multiclass(), C=10.0, cuts=cuts).fit(train, truth)
        assert model.score(test, expected) >= ordinary - 0.02
