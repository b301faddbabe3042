"""Classifiers trained for a measure: optima, thresholds, scikit-learn and models on disk."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measure_reference import HARD, close, jaccard, learned, small_sets, two_clouds, uneven
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning as NotConverged
from sklearn.metrics import average_precision_score, f1_score, fbeta_score, get_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from latentstruct import (
    Bundle,
    KernelStructuralSVM,
    StructuralSVM,
    load,
    suggest_C,
)
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.tasks.measure.set_losses import cuts_after
from latentstruct.tasks.measure.task import MEASURES, Measure


@pytest.mark.parametrize("C", [10.0, 1000.0])
def test_error_is_the_linear_svm(C):
    X, y = two_clouds(n=200, d=4)
    ours = StructuralSVM(Measure("error"), C=C, tol=1e-4).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        peer = LinearSVC(loss="hinge", C=C / len(y), tol=1e-6, max_iter=200_000, dual=True).fit(X, y)
    w, b = peer.coef_[0], peer.intercept_[0]
    hinge = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * (X @ w + b))
    expected = 0.5 * (w @ w + b * b) + C * hinge.mean()
    assert ours.certified_
    assert ours.objective_ == pytest.approx(expected, rel=1e-3)
    assert ours.lower_bound_ <= expected * (1 + 1e-9)


@pytest.mark.parametrize("loss", [*MEASURES, jaccard])
def test_training_is_certified_and_sparse_equals_dense(loss):
    X, y = two_clouds(n=120, d=4, apart=2.5)
    model = StructuralSVM(Measure(loss, k=30), C=100.0).fit(X, y)
    assert model.stop_reason_ == "converged"
    assert model.certified_
    assert model.n_oracle_calls_ == model.n_iter_
    thin = StructuralSVM(Measure(loss, k=30), C=100.0).fit(sparse.csr_array(X), y)
    assert thin.objective_ == pytest.approx(model.objective_, rel=2e-3)
    close(model.decision_function(sparse.csr_array(X)), model.decision_function(X))
    assert model.loss(X, y)[0] <= min(0.25, model.objective_ / 100.0 + 1e-9)


def test_each_measure_is_best_on_itself():
    """With labels turned iteration at random, a trained table differs by what it was trained for."""
    rng = np.random.default_rng(3)
    X, y = two_clouds(n=600, d=5, apart=3.0, share=0.15)
    y = np.where(rng.random(600) < 0.03, 1 - y, y)
    recall = StructuralSVM(Measure("fbeta", beta=4.0), C=1e3).fit(X, y)
    precision = StructuralSVM(Measure("fbeta", beta=0.25), C=1e3).fit(X, y)
    assert recall.predict(X).sum() > precision.predict(X).sum()
    assert recall.score(X, y) > fbeta_score(y, precision.predict(X), beta=4.0)


def test_score_is_the_measure():
    X, y = two_clouds(n=150, d=3)
    for loss, expected in (
        ("f1", lambda m: f1_score(y, m.predict(X))),
        ("error", lambda m: (m.predict(X) == y).mean()),
        ("rocarea", lambda m: roc_auc_score(y, m.decision_function(X))),
        ("average_precision", lambda m: average_precision_score(y, m.decision_function(X))),
        ("prbep", lambda m: y[np.argsort(-m.decision_function(X))[: y.sum()]].mean()),
        ("precision@k", lambda m: y[np.argsort(-m.decision_function(X))[:50]].mean()),
        ("recall@k", lambda m: y[np.argsort(-m.decision_function(X))[:50]].sum() / y.sum()),
        (jaccard, lambda m: (y & m.predict(X)).sum() / (y | m.predict(X)).sum()),
    ):
        model = StructuralSVM(Measure(loss, k=50), C=1e3).fit(X, y)
        assert model.coef_.any()
        assert model.score(X, y) == pytest.approx(expected(model))


@pytest.mark.parametrize(
    ("loss", "k", "count"),
    [
        ("rocarea", None, 24),
        ("average_precision", None, 24),
        ("prbep", None, 24),
        ("precision@k", 7, 7),
        ("recall@k", 0.5, 30),
        ("precision@k", 60, 60),
    ],
)
def test_rankings_get_a_threshold(loss, k, count):
    X, y = two_clouds(n=60, d=3)
    model = StructuralSVM(Measure(loss, k=k), C=100.0).fit(X + 100.0, y)
    assert model.coef_.shape == (3,)
    assert (model.predict(X + 100.0) == 1).sum() == count
    np.testing.assert_array_equal(model.predict(X + 100.0) == 1, model.decision_function(X + 100.0) > 0)


def test_a_threshold_among_ties():
    X, y = np.zeros((6, 2)), np.array([0, 1, 0, 1, 0, 0])
    for loss in MEASURES:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "training ended at w = 0", ConvergenceWarning)
            model = StructuralSVM(Measure(loss, k=2), C=1.0).fit(X, y)
        assert not model.coef_[:2].any()
        assert set(model.predict(X).tolist()) <= {0, 1}


@settings(max_examples=80, deadline=None)
@given(small_sets(10), st.sampled_from(["f1", "fbeta", jaccard, uneven]))
def test_tables_get_the_threshold_of_the_lowest_loss(data, loss):
    X, truth, w = data
    task, batch = learned(Measure(loss, beta=2.0), X, truth)
    scores = task.row_scores(batch, w)
    task.finalize(batch, w)
    lost = task.loss(truth, scores > task.threshold_)[0]
    values = np.unique(np.append(scores, [scores.min() - 1.0, 0.0]))
    others = [task.loss(truth, scores > value)[0] for value in values]
    close(lost, min(others))
    if task.loss(truth, scores > 0)[0] <= min(others):
        assert task.threshold_ == 0.0


def test_rows_without_positives_lose_nothing():
    X, y = two_clouds(n=40, d=3)
    for loss in ("f1", "average_precision", "prbep", jaccard):
        model = StructuralSVM(Measure(loss, threshold=1e6), C=100.0).fit(X, y)
        assert model.loss(X[:5], np.zeros(5, dtype=int))[0] == 0.0


def test_a_threshold_may_be_given():
    X, y = two_clouds(n=100, d=3, apart=2.0, share=0.1)
    for loss in ("f1", "rocarea", "error"):
        model = StructuralSVM(Measure(loss, threshold=0.0), C=100.0).fit(X, y)
        close(model.decision_function(X), model.task_.row_scores(model.task_.prepare(X), model.coef_))
    own = StructuralSVM(Measure("f1"), C=100.0).fit(X, y)
    assert own.task_.threshold_ > 0.0
    assert own.score(X, y) > StructuralSVM(Measure("f1", threshold=0.0), C=100.0).fit(X, y).score(X, y)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=8),
    st.sampled_from([1e-310, 1e-9, 1.0, 1e9, 1e307]),
    st.sampled_from(["steps", "neighbors"]),
)
def test_cuts_take_as_many_scores_as_asked(numbers, scale, kind):
    """Also where nothing lies between two scores, and where none or all are to be taken."""
    scores = np.array(numbers) * scale
    if kind == "neighbors":
        for _ in range(3):
            # The sum of the largest scores would not be finite.
            mean = (scores / len(scores)).sum()
            scores = np.where(scores > mean, np.nextafter(scores[0], np.inf), scores[0])
    descending = -np.sort(-scores)
    counts = np.arange(len(scores) + 1)
    cuts = cuts_after(descending, counts)
    for count, cut in zip(counts, cuts, strict=True):
        assert cuts_after(descending, int(count)) == cut
        tied = 0 < count < len(scores) and descending[count - 1] == descending[count]
        expected = (scores > descending[count]).sum() if tied else count
        assert (scores > cut).sum() == expected
    if abs(scale) >= 1e-9 and np.any(scores):
        # All and none are taken whatever the rounding of scores that are computed again.
        again = scores * (1 + 1e-12)
        assert ((again > cuts[0]).sum(), (again > cuts[-1]).sum()) == (0, len(scores))


def test_weights_that_stay_zero_are_warned_of(tmp_path):
    X, y = two_clouds(n=200, d=4)
    for model in (StructuralSVM(Measure("prbep"), C=1e-6), KernelStructuralSVM(Measure("f1"), C=1e-6, cuts=10)):
        with pytest.warns(ConvergenceWarning, match="ended at w = 0: C=1e-06 is too small for a loss of all rows"):
            model.fit(X, y)
    strength = suggest_C("prbep", len(y), int(y.sum()))
    assert StructuralSVM(Measure("prbep"), C=strength).fit(X, y).coef_.any()
    # There is nothing to learn if all rows are selected.
    assert StructuralSVM(Measure("precision@k", k=len(y)), C=1.0).fit(X, y).objective_ == 0.0


def test_overlapping_classes_leave_nothing_but_an_order():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = (X[:, 0] + 2.0 * rng.normal(size=1500) > 3.3).astype(int)
    for loss in ("f1", "prbep"):
        with pytest.warns(ConvergenceWarning, match="or the classes overlap too much for this loss"):
            model = StructuralSVM(Measure(loss), C=1e8).fit(X, y)
        assert model.objective_ == pytest.approx(1e8)
        assert model.certified_
    assert StructuralSVM(Measure("rocarea"), C=1e2).fit(X, y).score(X, y) > 0.7


def test_the_positive_class_may_be_the_first():
    X, y = two_clouds(n=120, d=3, apart=2.5, share=0.2)
    names = np.where(y == 1, "good", "zero")
    for loss in MEASURES:
        one = StructuralSVM(Measure(loss, k=20), C=100.0).fit(X, y)
        two = StructuralSVM(Measure(loss, k=20, positive="good"), C=100.0).fit(X, names)
        assert two.classes_.tolist() == ["good", "zero"]
        close(two.coef_, one.coef_)
        close(two.decision_function(X), -one.decision_function(X))
        np.testing.assert_array_equal(two.predict(X) == "good", one.predict(X) == 1)
        assert two.score(X, names) == one.score(X, y)
        assert two.loss(X, names) == one.loss(X, y)


@pytest.mark.parametrize("loss", ["f1", "average_precision", "recall@k"])
def test_solvers_agree(loss):
    X, y = two_clouds(n=80, d=3)
    found = [
        StructuralSVM(Measure(loss, k=20), C=100.0, solver=solver).fit(X, y)
        for solver in ("auto", "cutting_plane", "block_ascent", "frank_wolfe")
    ]
    for model in found[1:]:
        assert model.objective_ == pytest.approx(found[0].objective_, rel=2e-3)
        assert model.lower_bound_ <= found[0].objective_


@pytest.mark.parametrize(("loss", "iterations"), [("f1", 0.7), ("rocarea", 0.5), ("error", 0.7)])
def test_an_adaptive_bundle_needs_fewer_iterations(loss, iterations):
    X, y = two_clouds(n=1500, d=25, apart=2.0, share=0.15)
    chosen = StructuralSVM(Measure(loss), C=3e4).fit(X, y)
    fixed = StructuralSVM(Measure(loss), C=3e4, solver=Bundle(adaptive=False)).fit(X, y)
    assert chosen.objective_ == pytest.approx(fixed.objective_, rel=2e-3)
    assert chosen.n_iter_ < iterations * fixed.n_iter_
    plain = Bundle(proximity=0.0)
    counts = [
        StructuralSVM(Measure(loss), C=30.0, solver=clone(plain).set_params(adaptive=adaptive)).fit(X, y).n_iter_
        for adaptive in (False, True)
    ]
    assert counts[0] == counts[1]


def test_pipelines_and_searches():
    X, y = two_clouds(n=120, d=4, share=0.25, apart=2.5)
    names = np.where(y == 1, "yes", "no")
    model = make_pipeline(StandardScaler(), StructuralSVM(Measure("f1"), C=100.0))
    assert is_classifier(model)
    search = GridSearchCV(
        model, {"structuralsvm__C": [1.0, 100.0], "structuralsvm__task__loss": ["f1", "rocarea", "error"]}, cv=3
    )
    search.fit(X, names)
    assert search.best_estimator_[-1].classes_.tolist() == ["no", "yes"]
    assert search.predict(X).dtype == names.dtype
    assert len(cross_val_score(model, X, names, cv=4)) == 4
    scores = cross_val_predict(model, X, names, method="decision_function", cv=4)
    assert scores.shape == (120,)
    assert roc_auc_score(names, scores) > 0.8
    fitted = model.fit(X, names)
    assert get_scorer("roc_auc")(fitted, X, names) == pytest.approx(roc_auc_score(names, fitted.decision_function(X)))
    flipped = StructuralSVM(Measure("rocarea", positive="no"), C=100.0).fit(X, names)
    assert get_scorer("roc_auc")(flipped, X, names) == pytest.approx(flipped.score(X, names))


def test_parameters_and_clones():
    task = Measure("fbeta", beta=2.0)
    assert task.get_params() == {
        "loss": "fbeta",
        "beta": 2.0,
        "k": None,
        "positive": None,
        "bias": 1.0,
        "threshold": None,
    }
    assert clone(task).get_params() == task.get_params()
    assert task.set_params(loss="f1", bias=0.0).chosen_loss == "f1"
    assert "loss='prbep'" in repr(Measure("prbep"))
    model = StructuralSVM(Measure("f1")).set_params(task__loss="rocarea")
    assert clone(model).task.chosen_loss == "rocarea"
    X, y = two_clouds()
    fitted = pickle.loads(pickle.dumps(model.fit(X, y)))
    close(fitted.decision_function(X), model.decision_function(X))


def test_lists_of_rows_are_predicted_in_blocks():
    X, y = two_clouds(n=700)
    model = StructuralSVM(Measure("prbep"), C=10.0).fit(X.tolist(), y.tolist())
    np.testing.assert_array_equal(model.predict(X.tolist()), model.predict(X))
    assert model.n_features_in_ == 3
    decoded = model.task_.decode(model.task_.prepare(X), model.coef_, HARD)
    assert [p.y for p in decoded[3:5]] == model.predict(X)[3:5].tolist()
    assert decoded[3].score == pytest.approx(model.decision_function(X)[3])


@pytest.mark.parametrize("loss", ["f1", "rocarea"])
def test_a_path_over_c_keeps_the_planes(loss):
    X, y = two_clouds(n=300, d=8, apart=2.0)
    kept = StructuralSVM(Measure(loss), C=100.0, warm_start=True).fit(X, y)
    kept.set_params(C=200.0).fit(X, y)
    fresh = StructuralSVM(Measure(loss), C=200.0).fit(X, y)
    assert kept.objective_ == pytest.approx(fresh.objective_, rel=2e-3)
    assert kept.n_oracle_calls_ < fresh.n_oracle_calls_


@pytest.mark.parametrize("loss", ["f1", "rocarea", "precision@k"])
def test_models_are_saved_with_their_threshold(loss, tmp_path):
    X, y = two_clouds()
    names = np.where(y == 1, "yes", "no")
    model = StructuralSVM(Measure(loss, k=5), C=10.0, solver=Bundle()).fit(X + 3.0, names)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    close(again.decision_function(X + 3.0), model.decision_function(X + 3.0))
    assert again.predict(X + 3.0).tolist() == model.predict(X + 3.0).tolist()
    assert again.score(X + 3.0, names) == model.score(X + 3.0, names)
