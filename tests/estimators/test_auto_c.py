import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from error_fields import raises
from latentstruct import (
    CRF,
    AutoC,
    Chain,
    ConvergenceWarning,
    FoldScores,
    Graph,
    GroupNorm,
    HiddenCRF,
    IterativeLSVM,
    KernelStructuralSVM,
    LatentMulticlass,
    LatentSSVM,
    MarginalSSVM,
    Measure,
    MinEntropySSVM,
    ModLat,
    Multiclass,
    StructuralSVM,
    StructuredPerceptron,
    assign_folds,
    compare_settings,
    load,
)
from latentstruct.core.unknown import UNKNOWN

# Of such small data any value may be the best.
pytestmark = pytest.mark.filterwarnings("ignore:the (smallest|largest) value C")
FEW = {"n_folds": 3, "n_values": 4}


def classes(seed=0, n=60):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return np.eye(3)[y] + rng.normal(scale=0.7, size=(n, 3)), y


def chains(seed=0, n=24):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, 3, rng.integers(1, 5)).repeat(2) for _ in range(n)]
    return [np.eye(3)[y] + rng.normal(size=(len(y), 3)) for y in Y], Y


def latents(seed=0, n=40):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 4, 2)), rng.integers(0, 2, n)
    X[np.arange(n), rng.integers(0, 4, n)] += 3.0 * (2 * y[:, None] - 1)
    return X, y


@settings(max_examples=40)
@given(st.data())
def test_folds_divide_classes_evenly_and_groups_not_at_all(data):
    n_folds = data.draw(st.integers(2, 5))
    groups = data.draw(st.lists(st.integers(0, 12), min_size=n_folds, max_size=60))
    labels = [data.draw(st.sampled_from("abc")) for _ in groups]
    seed = data.draw(st.integers(0, 2**16))
    n = len(groups)
    plain = assign_folds(n, n_folds, labels=labels, random_state=seed)
    np.testing.assert_array_equal(plain, assign_folds(n, n_folds, labels=labels, random_state=seed))
    for chosen in (plain, plain[np.array(labels) == "a"], plain[np.array(labels) == "b"]):
        counts = np.bincount(chosen, minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    if len(set(groups)) < n_folds:
        with raises("n_folds", got=str(n_folds)):
            assign_folds(n, n_folds, groups=groups)
        return
    grouped = assign_folds(n, n_folds, labels=labels, groups=groups, random_state=seed)
    assert set(grouped.tolist()) == set(range(n_folds))
    for group in set(groups):
        assert len(set(grouped[np.array(groups) == group].tolist())) == 1


def test_folds_depend_on_the_seed_and_balance_groups():
    assert (assign_folds(100, 5, random_state=0) != assign_folds(100, 5, random_state=1)).any()
    groups = np.repeat(np.arange(20), np.arange(1, 21))
    assert np.ptp(np.bincount(assign_folds(210, 5, groups=groups))) <= 10
    with raises("groups", got="3 groups"):
        assign_folds(5, 2, groups=[1, 2, 3])


@pytest.mark.parametrize(
    ("estimator", "make"),
    [
        (StructuralSVM(Multiclass(bias=1.0)), classes),
        (StructuralSVM(Chain()), chains),
        (CRF(Chain()), chains),
        (KernelStructuralSVM(Multiclass()), classes),
        (LatentSSVM(LatentMulticlass(), restarts=2), latents),
        (MarginalSSVM(LatentMulticlass()), latents),
        (HiddenCRF(LatentMulticlass()), latents),
        (MinEntropySSVM(LatentMulticlass()), latents),
        (ModLat(LatentMulticlass(latent_loss="zero_one")), latents),
        (IterativeLSVM(LatentMulticlass(latent_loss="zero_one")), latents),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "task") else "",
)
def test_the_model_is_that_of_a_fit_at_the_chosen_C(estimator, make, tmp_path):
    X, Y = make()
    model = clone(estimator).set_params(C=AutoC(C_min=0.01, C_max=1.0, **FEW)).fit(X, Y)
    result = model.cv_results_
    assert result.scores.shape[1] == 3
    assert model.C_ == result.value == result.values[np.argmax(result.means)]
    direct = clone(estimator).set_params(C=model.C_).fit(X, Y)
    assert direct.C_ == direct.C
    assert direct.cv_results_ is None
    assert model.objective_ == pytest.approx(direct.objective_, rel=1e-9)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.C_ == model.C_
    assert loaded.C.get_params() == model.C.get_params()
    assert pickle.loads(pickle.dumps(model)).C_ == model.C_
    assert clone(model).C.n_folds == 3
    assert model.set_params(C__n_folds=4).C.n_folds == 4


def test_scores_are_those_of_independent_fits_on_the_folds():
    X, y = classes(3, 90)
    auto = AutoC(C_min=0.01, C_max=1.0, tol=1e-6, **FEW)
    model = StructuralSVM(Multiclass(bias=1.0), C=auto).fit(X, y)
    folds = assign_folds(len(y), 3, labels=y)
    for C, scores in zip(model.cv_results_.values, model.cv_results_.scores, strict=True):
        for k, score in enumerate(scores):
            direct = StructuralSVM(Multiclass(bias=1.0), C=C, tol=1e-6).fit(X[folds != k], y[folds != k])
            # Weights within the tolerance may decide an example at the boundary otherwise.
            assert abs(direct.score(X[folds == k], y[folds == k]) - score) <= 1 / 30


def test_results_depend_on_the_seed_only():
    X, Y = chains()
    few = {**FEW, "C_min": 0.01, "C_max": 1.0}
    first = StructuralSVM(Chain(), C=AutoC(**few), n_jobs=1).fit(X, Y).cv_results_
    again = StructuralSVM(Chain(), C=AutoC(**few), n_jobs=2).fit(X, Y).cv_results_
    other = StructuralSVM(Chain(), C=AutoC(**few, random_state=1)).fit(X, Y).cv_results_
    np.testing.assert_array_equal(first.scores, again.scores)
    assert (first.scores != other.scores).any()


def test_groups_scoring_and_weights_reach_the_folds():
    X, y = classes()
    groups = np.arange(len(y)) // 6
    seen = []

    def scoring(model, X_test, y_test):
        seen.append({tuple(x) for x in X_test})
        return -model.C_

    auto = AutoC(scoring=scoring, **FEW)
    model = StructuralSVM(Multiclass(), C=auto, n_jobs=1).fit(X, y, sample_weight=np.ones(len(y)), groups=groups)
    assert model.cv_results_.chosen == 0
    for members in seen:
        for group in range(10):
            together = {tuple(x) in members for x in X[groups == group]}
            assert len(together) == 1
    with raises("groups", expected="None unless `C` is chosen by folds"):
        StructuralSVM(Multiclass()).fit(X, y, groups=groups)
    with raises("scoring", got="nan"):
        StructuralSVM(Multiclass(), C=AutoC(scoring=lambda *_: np.nan, **FEW)).fit(X, y)


def test_measures_are_tried_around_their_usual_C():
    X, y = classes(1)
    task = Measure("f1")
    auto = AutoC(C_min=0.1, C_max=10.0, n_folds=2, n_values=3)
    model = StructuralSVM(task, C=auto).fit(X, y == 1)
    assert model.cv_results_.values[0] == pytest.approx(0.1 * task.comparable_C(y == 1))


@pytest.mark.parametrize(
    ("estimator", "make"),
    [
        (StructuralSVM(Multiclass()), classes),
        (CRF(Chain()), chains),
        (LatentSSVM(LatentMulticlass()), latents),
    ],
)
def test_finished_values_are_not_trained_again(estimator, make, tmp_path):
    X, y = make()
    calls = []

    def scoring(model, X_test, y_test):
        calls.append(model.C_)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return model.score(X_test, y_test)

    estimator = clone(estimator).set_params(C=AutoC(scoring=scoring, **FEW), n_jobs=1)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X, y, checkpoint=tmp_path / "state")
    model = estimator.fit(X, y, checkpoint=tmp_path / "state")
    # The first value is stored, the second one was interrupted.
    assert len(calls) == 5 + 3 * (len(model.cv_results_.values) - 1)
    n_calls = len(calls)
    estimator.fit(X, y, checkpoint=tmp_path / "state")
    assert len(calls) == n_calls
    with raises("checkpoint"):
        estimator.fit([x + 1.0 for x in X], y, checkpoint=tmp_path / "state")


def test_paths_end_after_values_that_are_clearly_worse():
    X, y = classes()
    best = {1e-3: 0.9}
    noise = iter(np.random.default_rng(0).normal(scale=1e-3, size=1000))
    auto = AutoC(scoring=lambda model, *_: best.get(round(model.C_, 6), 0.5) + next(noise))
    with pytest.warns(UserWarning, match="smallest value"):
        model = StructuralSVM(Multiclass(), C=auto, n_jobs=1).fit(X, y)
    assert len(model.cv_results_.values) == 4


def noisy_chains(seed, unknown=0.0, n=40):
    """Chains of which many features are noise, so that large C fit it; some labels are wrong, some unknown."""
    rng = np.random.default_rng(seed)
    centers = 0.5 * rng.normal(size=(3, 20))
    Y = [rng.integers(0, 3, rng.integers(2, 5)).repeat(2) for _ in range(n)]
    X = [centers[y] + rng.normal(size=(len(y), 20)) for y in Y]
    Y = [np.where(rng.random(len(y)) < 0.1, rng.integers(0, 3, len(y)), y) for y in Y]
    return X, [np.where(rng.random(len(y)) < unknown, UNKNOWN, y) for y in Y]


def noisy_graphs(seed, n=30):
    """Pairs of triangles with nearly equal labels and noisy features."""
    rng = np.random.default_rng(seed)
    edges = [(i, j) for i in range(6) for j in range(i) if i // 3 == j // 3]
    Y = [np.repeat(rng.integers(0, 2, 2), 3) for _ in range(n)]
    X = [(0.3 * (2 * y - 1)[:, None] + rng.normal(size=(6, 15)), edges) for y in Y]
    return X, [np.where(rng.random(6) < 0.1, 1 - y, y) for y in Y]


OTHER_KINDS = [
    (StructuralSVM(Chain()), noisy_chains(0)),
    (StructuralSVM(Graph()), noisy_graphs(0)),
    (MarginalSSVM(Chain()), noisy_chains(0, unknown=0.5)),
    (LatentSSVM(Chain()), noisy_chains(0, unknown=0.5)),
]


@pytest.mark.parametrize(("estimator", "data"), OTHER_KINDS)
def test_the_early_end_hardly_changes_the_choice(estimator, data, monkeypatch):
    auto = AutoC(n_folds=4, n_values=11)
    early = clone(estimator).set_params(C=auto).fit(*data).cv_results_
    monkeypatch.setattr("latentstruct.estimators.folds.WORSE_VALUES", auto.n_values)
    whole = clone(estimator).set_params(C=auto).fit(*data).cv_results_
    assert len(whole.values) == auto.n_values
    # The values up to the end are the same models.
    np.testing.assert_allclose(early.scores, whole.scores[: len(early.values)])
    # What is not tried is no better than one standard error.
    assert early.means[early.best] >= whole.means[whole.best] - whole.standard_errors[whole.best]


@pytest.mark.parametrize(("estimator", "data"), OTHER_KINDS)
def test_folds_of_other_kinds_continue_after_an_interrupt(estimator, data, tmp_path):
    seen = []

    def scoring(model, X, y):
        seen.append(model.C_)
        if len(seen) == 8:
            raise KeyboardInterrupt
        return model.score(X, y)

    model = clone(estimator).set_params(C=AutoC(scoring=scoring, **FEW), n_jobs=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data, checkpoint=tmp_path / "state")
    n_before = len(seen)
    model.fit(*data, checkpoint=tmp_path / "state")
    values = model.cv_results_.values
    # Two values of three folds were finished.
    assert sorted(set(seen[n_before:])) == sorted(values[2:])
    direct = clone(estimator).set_params(C=model.C_).fit(*data)
    assert model.objective_ == pytest.approx(direct.objective_, rel=1e-9)


def test_the_rule_of_one_standard_error():
    scores = np.array([[0.5, 0.6], [0.7, 0.8], [0.72, 0.86], [0.5, 0.5]])
    plain = FoldScores("C", [1.0, 2.0, 3.0, 4.0], scores)
    assert plain.value == 3.0
    assert FoldScores("C", [1.0, 2.0, 3.0, 4.0], scores, one_standard_error=True).value == 2.0
    assert plain.standard_errors[0] == pytest.approx(0.05)
    assert "C 3: 0.7900 ± 0.0700 on 2 folds" in plain.describe()


def test_nested_use_in_scikit_learn():
    X, y = classes()
    model = StructuralSVM(Multiclass(), C=AutoC(**FEW))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.5


def test_wrong_settings_are_refused():
    X, y = classes()
    for wrong, name in (
        ({"n_folds": 1}, "n_folds"),
        ({"C_min": 2.0, "C_max": 1.0}, "C_min"),
        ({"tol": 0.0}, "tol"),
        ({"n_folds": 61}, "n_folds"),
    ):
        with raises(name):
            StructuralSVM(Multiclass(), C=AutoC(**wrong)).fit(X, y)
    with raises("C", got="'best'"):
        StructuralSVM(Multiclass(), C="best").fit(X, y)
    with raises("groups"):
        StructuredPerceptron(Multiclass()).fit(X, y, groups=y)


def test_progress_is_printed(capsys, monkeypatch):
    monkeypatch.setattr("latentstruct.estimators.folds.SECONDS_BETWEEN_LINES", 0.0)
    X, y = classes()
    StructuralSVM(Multiclass(), C=AutoC(**FEW), verbose=True).fit(X, y)
    assert "3 folds: 1 of 4 values of C" in capsys.readouterr().out


def test_a_plot_is_drawn():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    scores = np.array([[0.5, 0.6], [0.7, 0.8]])
    for values in ([0.1, 1.0], ["few", "many"]):
        found = FoldScores("C", values, scores, baseline=scores[0])
        ax = found.plot(Figure().add_subplot())
        mean, chosen, baseline = (
            next(np.asarray(line.get_data()) for line in ax.lines if line.get_label() == name)
            for name in ("_nolegend_", "chosen", "baseline")
        )
        assert mean[1].tolist() == found.means.tolist()
        assert ax.get_xlabel() == "C"
        assert chosen[0].tolist() == [mean[0][found.chosen]] * 2
        assert baseline[1].tolist() == [scores[0].mean()] * 2


def alternating_clusters(n=120):
    """Four clusters in a row, whose classes alternate: two states per class are needed."""
    rng = np.random.default_rng(0)
    center = np.arange(n) % 4
    return (2.0 * center + 0.3 * rng.normal(size=n))[:, None], center % 2


def test_settings_are_compared_with_each_other_and_with_a_baseline():
    X, y = alternating_clusters()
    model = LatentSSVM(LatentMulticlass(weights="state", n_states=2, bias=1.0), C=10.0)
    plain = StructuralSVM(Multiclass(bias=1.0), C=10.0)
    found = compare_settings(model, X, y, "task__n_states", [1, 2], baseline=plain, n_folds=3)
    assert found.parameter == "n_states"
    assert found.scores.shape == (2, 3)
    assert found.value == 2
    gain, error = found.gain
    assert gain == pytest.approx((found.scores[1] - found.baseline).mean())
    assert gain > 2.0 * error
    assert "clearly better" in found.describe()
    again = compare_settings(model, X, y, "task__n_states", [1, 2], baseline=plain, n_folds=3, random_state=0)
    assert (again.scores == found.scores).all()


def test_settings_are_chosen_from_the_strengths_of_a_group_norm_too():
    X, y = alternating_clusters(60)
    model = LatentSSVM(LatentMulticlass(weights="state", n_states=3, bias=1.0), C=10.0)
    norms = [GroupNorm(weights=1e3), GroupNorm(weights=0.1)]
    with pytest.warns(ConvergenceWarning):
        found = compare_settings(model, X, y, "regularizer", norms, n_folds=2)
    assert found.value is norms[int(np.argmax(found.means))]
    with raises("baseline"):
        _ = found.gain


def test_groups_stay_together_where_settings_are_compared():
    X, y = alternating_clusters(40)
    seen = []

    def scoring(model, X, y):
        seen.append(X[:, 0])
        return model.score(X, y)

    groups = np.arange(40) // 4
    model = StructuralSVM(Multiclass(bias=1.0), n_jobs=1)
    compare_settings(model, X, y, "C", [0.1], n_folds=2, groups=groups, scoring=scoring)
    for part in seen:
        held = np.isin(X[:, 0], part)
        assert all(len(set(held[groups == group])) == 1 for group in range(10))


def test_no_settings_are_refused():
    X, y = alternating_clusters(20)
    for values in ([], 1.0, "auto"):
        with raises("values"):
            compare_settings(StructuralSVM(Multiclass()), X, y, "C", values)
