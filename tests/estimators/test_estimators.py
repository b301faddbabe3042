"""Estimators the way scikit-learn users meet them."""

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from latentstruct import (
    CRF,
    L2,
    LBFGS,
    BlockAscent,
    Bundle,
    CandidateTask,
    Chain,
    ConvergenceWarning,
    ExampleTask,
    FrankWolfe,
    KernelStructuralSVM,
    Multiclass,
    StructuralSVM,
    StructuredEstimator,
    StructuredPerceptron,
    Subgradient,
)

ESTIMATORS = [StructuralSVM, CRF, StructuredEstimator, StructuredPerceptron]
RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = RNG.normal(size=(60, 4)) + 1.5 * np.eye(3, 4)[Y]
SEQUENCES = [RNG.normal(size=(length, 2)) for length in RNG.integers(1, 7, size=30)]
LABELS = [np.where(x[:, 0] + 0.5 * RNG.normal(size=len(x)) > 0, "V", "N") for x in SEQUENCES]
LABELS[0][:], LABELS[1][:] = "N", "V"


class Signs(CandidateTask):
    def candidates(self, x):
        return [-1, 1], None, np.array([-x, x])


class Product(ExampleTask):
    def joint_feature(self, x, y):
        return y * x

    def output_loss(self, y, y_hat):
        return 2.0 * (y != y_hat)

    def argmax(self, x, w):
        return max((-1, 1), key=lambda y: y * (w @ x))

    def loss_augmented_argmax(self, x, y, w):
        return max((-1, 1), key=lambda v: v * (w @ x) + 2.0 * (v != y))


# --- fit and predict ---


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_classes(estimator):
    model = estimator(Multiclass(bias=1.0))
    assert model.fit(X, Y) is model
    predicted = model.predict(X)
    assert predicted.shape == (60,)
    assert predicted.dtype == Y.dtype
    assert model.score(X, Y) == np.mean(predicted == Y) > 0.7
    assert np.array_equal(model.loss(X, Y), predicted != Y)
    scores = model.decision_function(X)
    assert scores.shape == (60, 3)
    assert np.array_equal(scores.argmax(axis=1), predicted)
    np.testing.assert_allclose(scores, X @ model.coef_[:12].reshape(4, 3) + model.coef_[12:])
    assert model.coef_.shape == (15,)
    assert model.n_features_in_ == 4
    assert model.n_iter_ == len(model.history_)
    assert model.history_[-1].objective == pytest.approx(model.objective_)
    assert model.gap_ == model.objective_ - model.lower_bound_
    assert model.certified_


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_chains(estimator):
    model = estimator(Chain(start=True, end=True, bias=True)).fit(SEQUENCES, LABELS)
    predicted = model.predict(SEQUENCES)
    assert [len(y) for y in predicted] == [len(x) for x in SEQUENCES]
    right = np.concatenate(predicted) == np.concatenate(LABELS)
    assert model.score(SEQUENCES, LABELS) == right.mean() > 0.75
    wrong = [np.sum(y != truth) for y, truth in zip(predicted, LABELS, strict=True)]
    assert np.array_equal(model.loss(SEQUENCES, LABELS), wrong)
    assert model.coef_.shape == (2 * 2 + 4 + 3 * 2,)
    assert not hasattr(model, "decision_function")


@pytest.mark.parametrize("task", [Signs(), Product()])
@pytest.mark.parametrize("estimator", [StructuralSVM, StructuredEstimator, StructuredPerceptron])
def test_tasks_of_ones_own(task, estimator):
    signs = np.where(X[:, 0] > 0, 1, -1).tolist()
    model = estimator(task).fit(X, signs)
    assert set(model.predict(X)) == {-1, 1}
    mistakes = np.mean(np.array(model.predict(X)) != signs)
    assert mistakes < 0.1
    assert model.loss(X, signs).mean() == pytest.approx((2 if isinstance(task, Product) else 1) * mistakes)
    assert model.score(X, signs) == pytest.approx(1.0 - model.loss(X, signs).mean())
    assert hasattr(model, "marginals") == isinstance(task, CandidateTask)


def test_marginals():
    model = CRF(Multiclass()).fit(X, Y)
    marginals = model.marginals(X)
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0)
    scores = np.exp(model.decision_function(X))
    np.testing.assert_allclose(marginals, scores / scores.sum(axis=1, keepdims=True))
    warm = StructuredEstimator(Multiclass(), temperature=(2.0, 0.0)).fit(X, Y)
    scores = np.exp(warm.decision_function(X) / 2.0)
    np.testing.assert_allclose(warm.marginals(X), scores / scores.sum(axis=1, keepdims=True))
    chain = CRF(Chain()).fit(SEQUENCES, LABELS)
    for x, probabilities in zip(SEQUENCES, chain.marginals(SEQUENCES), strict=True):
        assert probabilities.shape == (len(x), 2)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_one_example_and_one_label():
    model = StructuralSVM(Multiclass()).fit(X[:1], ["only"])
    assert model.predict(X).tolist() == ["only"] * 60
    assert model.objective_ == 0.0
    chain = CRF(Chain()).fit(SEQUENCES[:1], LABELS[:1])
    assert chain.score(SEQUENCES[:1], LABELS[:1]) == 1.0


def test_sparse_inputs_give_the_same_model():
    dense = StructuralSVM(Multiclass(), tol=1e-6).fit(X, Y)
    for form in (sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.coo_array):
        model = StructuralSVM(Multiclass(), tol=1e-6).fit(form(X), Y)
        assert model.objective_ == pytest.approx(dense.objective_, rel=1e-5)
        assert np.array_equal(model.predict(form(X)), dense.predict(X))
    chain = StructuralSVM(Chain(), tol=1e-6).fit(SEQUENCES, LABELS)
    rows = StructuralSVM(Chain(), tol=1e-6).fit([sparse.csr_array(x) for x in SEQUENCES], LABELS)
    assert rows.objective_ == pytest.approx(chain.objective_, rel=1e-5)


def test_inputs_are_left_alone():
    before = X.copy(), Y.copy()
    weights = np.ones(60)
    StructuralSVM(Multiclass(), C=2.0).fit(X, Y, sample_weight=weights)
    assert np.array_equal(X, before[0])
    assert np.array_equal(Y, before[1])
    assert (weights == 1.0).all()


def test_costs_shift_predictions():
    plain = StructuralSVM(Multiclass(bias=1.0)).fit(X, Y)
    careful = StructuralSVM(Multiclass(bias=1.0, costs={2: 10.0})).fit(X, Y)
    assert (careful.predict(X) == 2).sum() > (plain.predict(X) == 2).sum()
    assert set(careful.loss(X, Y)) <= {0.0, 1.0, 10.0}


# --- labels ---


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([5, 1, 3], "i"),
        ([5.0, 2.0, -1.0], "f"),
        (["b", "a", "longer"], "U"),
        ([(0, "x"), (1, "y"), (2, "z")], "O"),
        ([("a",), ("a", "b"), ()], "O"),
        ([None, "a", 1], "O"),
        ([frozenset({1}), frozenset({2}), frozenset()], "O"),
        ([np.int64(4), np.int64(2), np.int64(9)], "i"),
        ([np.str_("p"), np.str_("q"), np.str_("r")], "U"),
    ],
)
def test_labels_of_any_kind(labels, kind):
    outputs = [labels[k] for k in Y]
    # None may be a label, but only if it is declared: it might as well have been meant for a missing one.
    model = StructuralSVM(Multiclass(labels=labels if None in labels else None)).fit(X, outputs)
    predicted = model.predict(X)
    assert predicted.shape == (60,)
    assert predicted.dtype.kind == kind
    assert set(predicted) <= set(labels)
    assert model.score(X, outputs) > 0.7
    sequences = [[labels[int(v == "V")] for v in y] for y in LABELS]
    chain = StructuralSVM(Chain(labels=labels[:2] if None in labels else None)).fit(SEQUENCES, sequences)
    assert all(y.shape == (len(x),) for x, y in zip(SEQUENCES, chain.predict(SEQUENCES), strict=True))
    assert chain.score(SEQUENCES, sequences) > 0.75


def test_boolean_labels():
    model = CRF(Multiclass()).fit(X, Y == 0)
    assert model.predict(X).dtype == bool


def test_declared_labels():
    names = np.array(["a", "b", "c"])[Y]
    model = CRF(Multiclass(labels=["d", "c", "b", "a"])).fit(X, names)
    assert model.marginals(X).shape == (60, 4)
    assert model.task_.labels_.labels == ["d", "c", "b", "a"]
    undeclared = CRF(Multiclass()).fit(X, names)
    assert undeclared.task_.labels_.labels == ["a", "b", "c"]
    assert model.score(X, ["d"] * 60) == np.mean(model.predict(X) == "d")
    array = StructuralSVM(Multiclass(labels=np.array(["a", "b", "c", "d"]))).fit(X, names)
    assert array.score(X, names) > 0.7


def test_label_absent_from_a_fold():
    order = np.argsort(Y, kind="stable")
    folds = KFold(3)
    declared = StructuralSVM(Multiclass(labels=[0, 1, 2]))
    scores = cross_val_score(declared, X[order], Y[order], cv=folds, error_score="raise")
    # Each fold holds exactly the class that its training data lacks, so little can be right.
    assert (scores < 0.5).all()
    absent = cross_val_score(StructuralSVM(Multiclass()), X[order], Y[order], cv=folds, error_score="raise")
    assert absent.tolist() == [0.0, 0.0, 0.0]


# --- scikit-learn's tools ---


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_clone_and_parameters(estimator):
    model = estimator(Multiclass(bias=1.0), warm_start=True)
    model.set_params(task__bias=2.0, max_iter=7)
    assert model.get_params()["task__bias"] == 2.0
    copied = clone(model)
    assert copied.task is not model.task
    assert copied.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert copied.task.bias == 2.0
    assert copied.max_iter == 7
    assert not hasattr(clone(StructuralSVM(Multiclass()).fit(X, Y)), "coef_")


def test_parameters_of_the_solver():
    model = StructuralSVM(Multiclass(), solver=BlockAscent())
    model.set_params(solver__steps=3, tol=1e-5)
    assert model.solver.steps == 3
    model.fit(X, Y)
    assert model.relative_gap_ <= 1e-5
    assert model.solver.tol == 1e-3


def test_fit_leaves_the_task_alone():
    task = Multiclass()
    model = StructuralSVM(task).fit(X, Y)
    assert not hasattr(task, "labels_")
    assert model.task_ is not task


def test_grid_search():
    search = GridSearchCV(
        StructuralSVM(Multiclass()), {"C": [0.01, 1.0], "task__bias": [0.0, 1.0]}, cv=KFold(3), n_jobs=1
    ).fit(X, Y)
    assert set(search.best_params_) == {"C", "task__bias"}
    assert search.best_score_ > 0.7
    assert search.predict(X).shape == (60,)
    chains = GridSearchCV(CRF(Chain()), {"C": [0.1, 1.0]}, cv=3).fit(SEQUENCES, LABELS)
    assert chains.best_score_ > 0.6


def test_cross_validation():
    assert cross_val_score(CRF(Multiclass()), X, Y, cv=KFold(3, shuffle=True, random_state=0)).min() > 0.6
    assert cross_val_score(StructuralSVM(Chain()), SEQUENCES, LABELS, cv=3).min() > 0.5
    assert cross_val_predict(StructuralSVM(Multiclass()), X, Y, cv=3).shape == (60,)


def test_pipeline():
    wide = X * np.array([1.0, 1e3, 1e-3, 1.0]) + 5.0
    model = make_pipeline(StandardScaler(), StructuralSVM(Multiclass(bias=1.0))).fit(wide, Y)
    alone = StructuralSVM(Multiclass(bias=1.0)).fit(StandardScaler().fit_transform(wide), Y)
    assert np.array_equal(model.predict(wide), alone.predict(StandardScaler().fit_transform(wide)))
    assert model.score(wide, Y) > 0.7
    model.set_params(structuralsvm__C=0.1, structuralsvm__task__bias=0.0).fit(wide, Y)


def test_parallel_fits():
    models = joblib.Parallel(n_jobs=2, backend="threading")(
        joblib.delayed(StructuralSVM(Multiclass(), C=C).fit)(X, Y) for C in (0.1, 1.0)
    )
    for C, model in zip((0.1, 1.0), models, strict=True):
        assert np.array_equal(model.coef_, StructuralSVM(Multiclass(), C=C).fit(X, Y).coef_)


def test_representation():
    assert "Multiclass(bias=1.0)" in repr(StructuralSVM(Multiclass(bias=1.0)))
    assert "BlockAscent(tol=0.1)" in repr(StructuralSVM(Multiclass(), solver=BlockAscent(tol=0.1)))


# --- sample weights ---


@pytest.mark.parametrize("estimator", [StructuralSVM, CRF])
def test_weight_two_is_twice_and_zero_is_never(estimator):
    for task, inputs, outputs in (
        (Multiclass(), list(X), list(Y)),
        (Chain(), SEQUENCES, LABELS),
    ):
        weights = np.tile([1.0, 2.0, 0.0, 1.0, 2.0], len(inputs))[: len(inputs)]
        weights[:2] = 1.0
        repeated = np.repeat(np.arange(len(inputs)), weights.astype(int))
        weighted = estimator(task, tol=1e-7).fit(inputs, outputs, sample_weight=weights)
        copied = estimator(task, tol=1e-7).fit([inputs[i] for i in repeated], [outputs[i] for i in repeated])
        assert weighted.objective_ == pytest.approx(copied.objective_, rel=1e-5)
        np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=2e-3)


def test_weight_scales_like_C():
    one = CRF(Multiclass(), C=3.0, tol=1e-8).fit(X, Y)
    other = CRF(Multiclass(), C=1.0, tol=1e-8).fit(X, Y, sample_weight=np.full(60, 3.0))
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-7)


def test_score_with_weights():
    model = StructuralSVM(Multiclass()).fit(X, Y)
    weights = np.linspace(0.0, 1.0, 60)
    right = model.predict(X) == Y
    assert model.score(X, Y, sample_weight=weights) == pytest.approx(weights @ right / weights.sum())


# --- warm starts ---


@pytest.mark.parametrize("solver", ["block_ascent", "cutting_plane", "frank_wolfe", "bundle"])
def test_same_data_keeps_the_state(solver):
    cold = StructuralSVM(Multiclass(), C=1.2, solver=solver, tol=1e-4).fit(X, Y)
    model = StructuralSVM(Multiclass(), C=1.0, solver=solver, tol=1e-4, warm_start=True).fit(X, Y)
    model.fit(X, Y)
    assert model.n_oracle_calls_ < cold.n_oracle_calls_
    model.set_params(C=1.2).fit(X.copy(), Y.copy())
    assert model.n_oracle_calls_ < cold.n_oracle_calls_
    assert model.objective_ == pytest.approx(cold.objective_, rel=2e-4)
    assert model.lower_bound_ <= cold.objective_


def test_smooth_objectives_start_from_the_weights():
    model = CRF(Multiclass(), tol=1e-6, warm_start=True).fit(X, Y)
    first = model.n_iter_
    model.fit(X, Y)
    assert model.n_iter_ < first
    assert model.n_iter_ == 1


def test_other_data_starts_from_the_weights():
    model = StructuralSVM(Multiclass(), tol=1e-4, warm_start=True).fit(X, Y)
    cold = StructuralSVM(Multiclass(), tol=1e-4).fit(X + 0.01, Y)
    model.fit(X + 0.01, Y)
    assert model.objective_ == pytest.approx(cold.objective_, rel=2e-4)
    assert model.lower_bound_ <= cold.objective_


@pytest.mark.parametrize(
    "change",
    [
        {"task__costs": {0: 3.0}},
        {"task__bias": 2.0},
        {"rescaling": "slack", "task__costs": {0: 3.0}},
        {"solver": "bundle"},
        {"solver": "frank_wolfe"},
        {"solver": "lbfgs"},
        {"margin": False, "temperature": (1.0, 0.0)},
        {"temperature": (0.5, 0.0), "solver": Bundle()},
    ],
)
def test_other_settings_do_not_keep_planes_that_no_longer_hold(change):
    settings = {"tol": 1e-4, "task": Multiclass(bias=1.0)}
    model = StructuredEstimator(**settings, warm_start=True).fit(X, Y)
    fresh = StructuredEstimator(**settings).set_params(**change).fit(X, Y)
    model.set_params(**change).fit(X, Y)
    assert model.objective_ == pytest.approx(fresh.objective_, rel=2e-4)
    assert model.lower_bound_ <= fresh.objective_ * (1 + 1e-9)


def test_other_weights_of_examples_keep_valid_bounds():
    weights = np.linspace(0.0, 2.0, 60)
    for solver in ("bundle", "block_ascent"):
        model = StructuralSVM(Multiclass(), solver=solver, tol=1e-4, warm_start=True).fit(X, Y)
        fresh = StructuralSVM(Multiclass(), solver=solver, tol=1e-4).fit(X, Y, sample_weight=weights)
        model.fit(X, Y, sample_weight=weights)
        assert model.objective_ == pytest.approx(fresh.objective_, rel=2e-4)
        assert model.lower_bound_ <= fresh.objective_


def test_other_structure_starts_anew():
    model = StructuralSVM(Multiclass(), warm_start=True).fit(X, Y)
    names = np.array(["a", "b", "c"])[Y]
    model.fit(X, names)
    fresh = StructuralSVM(Multiclass()).fit(X, names)
    assert np.array_equal(model.coef_, fresh.coef_)
    model.fit(X[:, :2], Y)
    assert np.array_equal(model.coef_, StructuralSVM(Multiclass()).fit(X[:, :2], Y).coef_)


def test_without_warm_start_fits_are_independent():
    model = StructuralSVM(Multiclass()).fit(X, Y)
    first = model.coef_.copy()
    model.fit(X[:30], Y[:30]).fit(X, Y)
    assert np.array_equal(model.coef_, first)


def test_perceptron_goes_on():
    model = StructuredPerceptron(Multiclass(), max_iter=2, average=False, warm_start=True).fit(X, Y)
    first = model.coef_.copy()
    model.fit(X, Y)
    fresh = StructuredPerceptron(Multiclass(), max_iter=2, average=False).fit(X, Y)
    assert np.array_equal(first, fresh.coef_)
    assert not np.array_equal(model.coef_, first)


# --- progress, limits, warnings ---


def test_verbose(capsys):
    StructuralSVM(Multiclass(), verbose=True).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all("objective" in line and "gap" in line and "oracle calls" in line for line in lines)
    StructuralSVM(Multiclass()).fit(X, Y)
    assert capsys.readouterr().out == ""


def test_callback():
    seen = []
    model = StructuralSVM(Multiclass(), tol=1e-9)
    model.fit(X, Y, callback=lambda line: seen.append(line) or len(seen) == 2)
    assert model.stop_reason_ == "callback"
    # The last line is completed with what was certified after it.
    assert seen[:-1] == model.history_[:-1]
    assert model.history_[-1].objective == model.objective_


@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"max_seconds": 1e-9}])
@pytest.mark.parametrize("estimator", [StructuralSVM, CRF])
def test_limits_warn(estimator, limit):
    (reason,) = limit
    with pytest.warns(ConvergenceWarning, match=rf"\({reason}\) after 1 iterations with .*Raise the limit"):
        model = estimator(Multiclass(), tol=1e-9, **limit).fit(X, Y)
    assert model.stop_reason_ == reason
    assert model.predict(X).shape == (60,)


def test_interrupt_keeps_a_usable_model():
    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = StructuralSVM(Multiclass(), tol=1e-9).fit(X, Y, callback=interrupt)
    assert model.stop_reason_ == "interrupted"
    assert model.score(X, Y) > 0.5


def test_no_bound_is_said():
    with pytest.warns(ConvergenceWarning, match="no bound"):
        StructuralSVM(Multiclass(), solver=Subgradient(), max_iter=3).fit(X, Y)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (StructuralSVM(Multiclass()), "HingeSolver"),
        (CRF(Multiclass()), "LBFGS"),
        (StructuredEstimator(Multiclass(), temperature=(0.5, 0.0)), "LBFGS"),
    ],
)
def test_choice_of_the_solver(model, expected):
    task = Multiclass()
    task.learn(X, Y)
    objective = model._objective(task, task.prepare(X, Y), np.ones(60))
    assert type(model._solver(objective)).__name__ == expected


def test_one_example_needs_no_blocks():
    task = Chain()
    task.learn(SEQUENCES[-1:], LABELS[-1:])
    model = StructuralSVM(task)
    objective = model._objective(task, task.prepare(SEQUENCES[-1:], LABELS[-1:]), np.ones(1))
    assert type(model._solver(objective)).__name__ == "Bundle"


@pytest.mark.parametrize(
    "solver",
    ["block_ascent", "bundle", "cutting_plane", "frank_wolfe", "lbfgs", FrankWolfe(step="away"), LBFGS()],
)
def test_solvers_by_name(solver):
    model = StructuralSVM(Multiclass(), solver=solver, tol=5e-4).fit(X, Y)
    assert model.objective_ == pytest.approx(StructuralSVM(Multiclass(), tol=1e-6).fit(X, Y).objective_, rel=1e-3)


# --- special cases of the general estimator ---


def test_presets_are_special_cases():
    tol = {"tol": 1e-6}
    hinge = StructuralSVM(Multiclass(), C=0.5, **tol).fit(X, Y)
    general = StructuredEstimator(Multiclass(), C=0.5, regularizer=L2(), **tol).fit(X, Y)
    assert np.array_equal(hinge.coef_, general.coef_)
    field = CRF(Chain(), **tol).fit(SEQUENCES, LABELS)
    general = StructuredEstimator(Chain(), temperature=(1.0, 0.0), margin=False, **tol).fit(SEQUENCES, LABELS)
    assert np.array_equal(field.coef_, general.coef_)


@pytest.mark.parametrize(("task", "inputs", "outputs"), [(Multiclass(), X, Y), (Chain(), SEQUENCES, LABELS)])
def test_cold_soft_maximum_is_the_hinge(task, inputs, outputs):
    hinge = StructuralSVM(task, C=0.1, tol=1e-6).fit(inputs, outputs)
    cold = StructuredEstimator(task, C=0.1, temperature=(1e-3, 0.0), tol=1e-4).fit(inputs, outputs)
    # ε log Σ exp lies above the max by at most ε times the log of the number of outputs.
    allowance = 0.1 * 1e-3 * sum(np.log(3) if np.ndim(x) == 1 else len(x) * np.log(2) for x in inputs)
    assert hinge.lower_bound_ <= cold.objective_ <= hinge.objective_ * (1 + 1e-4) + allowance
    soft = StructuredEstimator(task, C=0.1, temperature=(1.0, 0.0)).fit(inputs, outputs)
    assert soft.objective_ > cold.objective_


def test_logistic_regression():
    for C in (0.1, 1.0, 10.0):
        ours = CRF(Multiclass(), C=C, tol=1e-8).fit(X, Y)
        theirs = LogisticRegression(C=C, fit_intercept=False, tol=1e-9, max_iter=5000).fit(X, Y)
        logs = theirs.predict_log_proba(X)[np.arange(60), Y]
        value = 0.5 * (theirs.coef_**2).sum() - C * logs.sum()
        assert ours.objective_ == pytest.approx(value, rel=1e-4)
        np.testing.assert_allclose(ours.marginals(X), theirs.predict_proba(X), atol=1e-3)


def test_chains_of_one_token_are_classes():
    sequences, labels = [x[None] for x in X], [[y] for y in Y]
    for estimator in (StructuralSVM, CRF):
        chain = estimator(Chain(), tol=1e-6).fit(sequences, labels)
        classes = estimator(Multiclass(), tol=1e-6).fit(X, Y)
        assert chain.objective_ == pytest.approx(classes.objective_, rel=1e-5)


def test_all_parameters_but_the_task_are_keywords():
    with pytest.raises(TypeError, match="positional"):
        StructuralSVM(Multiclass(), 1.0)
    assert KernelStructuralSVM(Multiclass(), "poly").kernel == "poly"
