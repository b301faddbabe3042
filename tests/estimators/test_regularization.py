import gc
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latentstruct import (
    CRF,
    Chain,
    ConvergenceWarning,
    GroupNorm,
    InputError,
    KernelStructuralSVM,
    LatentMulticlass,
    LatentSSVM,
    ModLat,
    Multiclass,
    StructuralSVM,
    regularization_path,
)
from latentstruct.core.objective import build_objective
from latentstruct.core.protocols import Temperature
from latentstruct.planes.store import PlaneStore

# Rounding of sums, and of bounds that another order of operations gives.
ROUNDING = 1e-9


def classes(seed, n=30, spread=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return np.eye(3)[y] + rng.normal(scale=spread, size=(n, 3)), y


def chains(seed, n=12):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, 3, rng.integers(1, 5)).repeat(2) for _ in range(n)]
    return [np.eye(3)[y] + rng.normal(size=(len(y), 3)) for y in Y], Y


DATA = {"classes": (Multiclass(bias=1.0), classes), "chains": (Chain(), chains)}


def objective_at(model, X, Y):
    task = model.task_
    weights = np.full(len(X), model.C)
    return build_objective(task, task.prepare(X, Y), weights, Temperature()).value(model.coef_)


@pytest.mark.parametrize("name", DATA)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**16), where=st.lists(st.floats(0, 1), min_size=1, max_size=3))
def test_the_guarantee_holds_at_every_C(name, seed, where):
    task, make = DATA[name]
    X, Y = make(seed)
    path = regularization_path(StructuralSVM(task), X, Y, C_min=0.01, C_max=10.0, tol=0.01)
    assert path.certified
    assert path.Cs[0] == 0.01
    assert path.Cs[-1] == 10.0
    assert (np.diff(path.Cs) > 0).all()
    assert path.segment_gaps.max() <= 0.01
    loosest = int(path.segment_gaps.argmax())
    between = float(np.sqrt(path.Cs[loosest] * path.Cs[loosest + 1]))
    for C in (between, *(float(np.clip(0.01 * 1000.0**share, 0.01, 10.0)) for share in where)):
        model, fitted = path.model(C), StructuralSVM(task, C=C, tol=1e-5).fit(X, Y)
        assert model.C == C
        assert model.relative_gap_ <= 0.01
        # What is reported bounds the true objective of the weights, and the bound is below the minimum.
        assert objective_at(model, X, Y) <= model.objective_ * (1 + ROUNDING)
        assert model.lower_bound_ <= fitted.objective_ * (1 + ROUNDING)
        assert fitted.lower_bound_ <= model.objective_ * (1 + ROUNDING)
        assert model.predict(X[:2]) is not None


@settings(max_examples=8)
@given(seed=st.integers(0, 2**16))
def test_minima_grow_with_C_and_grow_less_and_less(seed):
    X, Y = classes(seed)
    path = regularization_path(StructuralSVM(Multiclass()), X, Y, C_min=0.01, C_max=10.0)
    low, high = path.lower_bounds, path.objectives
    assert (low[:-1] <= high[1:] * (1 + ROUNDING)).all()
    # P*(C)/C falls, because P* is concave and 0 at C = 0.
    assert (low[1:] / path.Cs[1:] <= high[:-1] / path.Cs[:-1] * (1 + ROUNDING)).all()


def test_given_strengths_are_trained_and_compared():
    X, Y = classes(1)
    scores = []
    path = regularization_path(
        StructuralSVM(Multiclass()),
        X,
        Y,
        Cs=[1.0, 0.1, 10.0],
        score=lambda model: scores.append(model.C) or model.C == 1.0,
    )
    assert path.Cs.tolist() == scores == [0.1, 1.0, 10.0]
    assert path.best_C == 1.0
    for k, C in enumerate(path.Cs):
        fitted = StructuralSVM(Multiclass(), C=C, tol=1e-6).fit(X, Y)
        assert path.gaps[k] <= 1e-3
        assert path.lower_bounds[k] * (1 - ROUNDING) <= fitted.objective_ <= path.objectives[k] * (1 + ROUNDING)
        np.testing.assert_array_equal(path.model(C).coef_, path.coefs[k])


def test_weights_of_examples_are_factors_of_C():
    X, Y = classes(2)
    weights = np.linspace(0.0, 2.0, len(X))
    path = regularization_path(StructuralSVM(Multiclass()), X, Y, Cs=[0.5], sample_weight=weights)
    fitted = StructuralSVM(Multiclass(), C=0.5, tol=1e-6).fit(X, Y, sample_weight=weights)
    assert path.lower_bounds[0] * (1 - ROUNDING) <= fitted.objective_ <= path.objectives[0] * (1 + ROUNDING)


def test_slack_rescaling_and_other_solvers_are_certified():
    X, Y = classes(3)
    for estimator in (
        StructuralSVM(Multiclass(), rescaling="slack"),
        StructuralSVM(Multiclass(), solver="bundle"),
        StructuralSVM(Multiclass(), solver="cutting_plane"),
    ):
        path = regularization_path(estimator, X, Y, C_min=0.1, C_max=1.0, tol=0.01)
        assert path.certified
        assert path.segment_gaps.max() <= 0.01
        model, fitted = path.model(0.4), estimator.set_params(C=0.4).fit(X, Y)
        assert fitted.certified_
        assert model.lower_bound_ <= fitted.objective_ * (1 + ROUNDING)
        assert fitted.lower_bound_ <= model.objective_ * (1 + ROUNDING)


def test_few_features_of_large_scale_need_fewer_calls_than_separate_fits():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 100)
    X = 100.0 + 10.0 * (rng.normal(size=(4, 5))[y] + rng.normal(size=(100, 5)))
    Cs = np.geomspace(1e-2, 1e2, 5)
    path = regularization_path(StructuralSVM(Multiclass(bias=1.0)), X, y, Cs=Cs)
    assert path.gaps.max() <= 1e-3
    calls = [StructuralSVM(Multiclass(bias=1.0), C=C).fit(X, y).n_oracle_calls_ for C in Cs]
    assert path.n_oracle_calls < sum(calls)


def test_a_whole_path_needs_half_the_oracle_calls_of_three_fits():
    X, Y = chains(3, n=60)
    path = regularization_path(StructuralSVM(Chain()), X, Y, C_min=0.1, C_max=10.0)
    assert path.certified
    calls = [StructuralSVM(Chain(), C=C).fit(X, Y).n_oracle_calls_ for C in (0.1, 1.0, 10.0)]
    assert path.n_oracle_calls < 0.5 * sum(calls)


def test_likelihood_is_certified_at_each_trained_C():
    X, Y = classes(4)
    path = regularization_path(CRF(Multiclass()), X, Y, C_min=0.01, C_max=1.0)
    assert len(path) == 11
    assert path.gaps.max() <= 1e-3
    model = path.model(path.Cs[3])
    assert model.certified_
    assert model.marginals(X).shape == (len(X), 3)


def test_latent_models_keep_the_better_of_two_starts():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(30, 4, 2)), rng.integers(0, 2, 30)
    X[np.arange(30), rng.integers(0, 4, 30)] += 3.0 * (2 * y[:, None] - 1)
    path = regularization_path(LatentSSVM(LatentMulticlass()), X, y, Cs=[0.1, 1.0, 10.0])
    assert not path.certified
    # At least one pass for each C.
    assert path.n_oracle_calls >= 3 * 30
    assert (path.spreads >= 0).all()
    assert np.isnan(path.segment_gaps).all()
    assert not path.model(1.0).certified_
    for k, C in enumerate(path.Cs):
        direct = LatentSSVM(LatentMulticlass(), C=C).fit(X, y)
        assert path.objectives[k] <= direct.objective_ * (1 + ROUNDING)
    with pytest.raises(InputError) as caught:
        path.model(0.5)
    assert caught.value.parameter == "C"


def test_models_of_latent_uncertainty_keep_all_their_weights():
    rng = np.random.default_rng(0)
    X, y, h = rng.normal(size=(30, 3, 2)), rng.integers(0, 2, 30), rng.integers(0, 3, 30)
    X[np.arange(30), h] += 6.0 * (2 * y[:, None] - 1)
    scores = []
    estimator = ModLat(LatentMulticlass(latent_loss="zero_one"))
    path = regularization_path(estimator, X, y, Cs=[0.1, 1.0], score=lambda model: model.score(X, y))
    for C in path.Cs:
        model = path.model(float(C))
        assert model.C == C
        scores.append(model.score(X, y))
        np.testing.assert_allclose([p.sum() for p in model.latent_distribution(X, y)], 1.0)
    assert scores == path.scores.tolist()


def test_a_path_keeps_no_planes():
    X, Y = classes(8)

    def stores():
        gc.collect()
        # `isinstance` would read `__class__` of deprecated objects of other packages, which warn.
        return sum(issubclass(type(one), PlaneStore) for one in gc.get_objects())

    before = stores()
    path = regularization_path(StructuralSVM(Multiclass()), X, Y, Cs=[0.1, 1.0, 10.0])
    assert stores() <= before
    assert path.model(0.5).certified_


def test_a_path_can_be_ended_by_its_callback_or_by_time():
    X, Y = classes(6)
    path = regularization_path(
        StructuralSVM(Multiclass()), X, Y, Cs=[0.1, 1.0, 10.0], callback=lambda C, model: C >= 1.0
    )
    assert path.Cs.tolist() == [0.1, 1.0]

    def interrupt(C, model):
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        path = regularization_path(StructuralSVM(Multiclass()), X, Y, Cs=[0.1, 1.0], callback=interrupt)
    assert path.Cs.tolist() == [0.1]
    for estimator in (StructuralSVM(Multiclass()), LatentSSVM(LatentMulticlass(weights="state", n_states=2))):
        with pytest.warns(ConvergenceWarning, match="max_seconds"):
            path = regularization_path(estimator, X, Y, max_seconds=1e-9)
        assert len(path) == 1


def test_lines_are_printed(capsys):
    X, Y = classes(7)
    regularization_path(StructuralSVM(Multiclass()), X, Y, Cs=[0.1, 1.0], verbose=True, score=lambda model: 0.5)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("C 0.1  objective ")
    assert "score 0.5000" in second


def test_it_can_be_drawn():
    X, Y = classes(8)
    path = regularization_path(StructuralSVM(Multiclass()), X, Y, C_min=0.1, C_max=1.0, score=lambda model: model.C)
    ax = path.plot()
    assert ax.get_xlabel().endswith("C")
    assert len(ax.figure.axes) == 2


@pytest.mark.parametrize(
    ("parameter", "settings"),
    [
        ("Cs", {"Cs": []}),
        ("Cs", {"Cs": [1.0, -1.0]}),
        ("Cs", {"Cs": "many"}),
        ("C_min", {"C_min": 0}),
        ("C_min", {"C_min": 10.0, "C_max": 1.0}),
        ("C_max", {"C_max": math.inf}),
        ("tol", {"tol": "small"}),
        ("max_seconds", {"max_seconds": 0}),
    ],
)
def test_bad_arguments_are_named(parameter, settings):
    with pytest.raises(InputError) as caught:
        regularization_path(StructuralSVM(Multiclass()), *classes(0), **settings)
    assert caught.value.parameter == parameter


def test_only_regularized_estimators_have_a_path():
    with pytest.raises(InputError) as caught:
        regularization_path(KernelStructuralSVM(Multiclass()), *classes(0))
    assert caught.value.parameter == "estimator"


def test_there_is_no_best_C_without_scores():
    path = regularization_path(StructuralSVM(Multiclass()), *classes(0), Cs=[1.0])
    with pytest.raises(InputError) as caught:
        _ = path.best_C
    assert caught.value.parameter == "score"
    with pytest.raises(InputError):
        path.model(2.0)


def test_other_regularizers_are_trained_on_the_grid():
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(20, 3, 2)), rng.integers(0, 2, 20)
    estimator = LatentSSVM(LatentMulticlass(weights="state"), regularizer=GroupNorm(weights=0.1))
    path = regularization_path(estimator, X, y, Cs=[0.1, 1.0])
    assert not path.certified


@pytest.mark.parametrize("estimator", [StructuralSVM(Multiclass()), CRF(Multiclass())])
def test_models_outlive_the_shards_they_were_trained_on(estimator):
    X, Y = classes(10)
    path = regularization_path(estimator.set_params(executor="local"), X, Y, Cs=[0.1, 1.0])
    direct = regularization_path(estimator.set_params(executor=None), X, Y, Cs=[0.1, 1.0])
    np.testing.assert_allclose(path.objectives, direct.objectives, rtol=2e-3)
    assert path.model(1.0).predict(X).shape == Y.shape


def test_latent_models_of_a_path_share_their_data(monkeypatch):
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(20, 3, 2)), rng.integers(0, 2, 20)
    prepared = []
    prepare = LatentMulticlass.prepare

    def counted(self, X, Y=None):
        prepared.append(len(X))
        return prepare(self, X, Y)

    monkeypatch.setattr(LatentMulticlass, "prepare", counted)
    regularization_path(LatentSSVM(LatentMulticlass()), X, y, Cs=[0.1, 1.0, 10.0])
    assert prepared == [20]
