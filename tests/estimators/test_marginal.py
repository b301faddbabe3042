"""Marginal SVM, hidden CRF and min-entropy model: one objective, its limits, and the ways to train it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from error_fields import raises
from latentstruct import (
    CCCP,
    CRF,
    LBFGS,
    CandidateTask,
    Chain,
    ConvergenceWarning,
    HiddenCRF,
    LatentMulticlass,
    LatentSSVM,
    MarginalSSVM,
    MinEntropySSVM,
    Motif,
    Multiclass,
    SemiMarkov,
    StructuralSVM,
    StructuredEstimator,
    Subgradient,
    load,
)
from latentstruct.core.protocols import Temperature


def views(seed=0, n=40, states=4, d=5):
    """Each example has several views, one of which tells its class."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, states, d)), rng.integers(0, 3, n)
    X[np.arange(n), rng.integers(0, states, n), y] += 2.0
    return X, y


def half_labeled(seed=0, n=12, length=8):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, 3, length) for _ in range(n)]
    X = [np.eye(3)[y] + rng.normal(size=(length, 3)) for y in Y]
    return X, [np.where(rng.random(length) < 0.5, -1, y) for y in Y]


class Listed(CandidateTask):
    """Candidates with features of their own, so that the reference can list them again."""

    def candidates(self, x):
        return x["y"], x["h"], x["features"]

    def output_loss(self, y, y_hat, h_hat):
        return 0.7 * abs(y - y_hat)


def listed_examples(seed, n=4, d=3):
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        y = np.sort(rng.integers(0, 3, rng.integers(1, 8))).tolist()
        X.append({"y": y, "h": list(range(len(y))), "features": rng.normal(size=(len(y), d))})
        Y.append(int(rng.choice(y)))
    return X, Y


def objective_of(model, X, Y):
    task = model.task
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    return model._objective(task, batch, np.full(batch.n_examples, float(model.C)))


def renyi(scores, order):
    """G_α by its definition."""
    if order == 1.0:
        p = np.exp(scores - scores.max())
        return float(p @ scores / p.sum())
    return (np.logaddexp.reduce(order * scores) - np.logaddexp.reduce(scores)) / (order - 1.0)


def renyi_objective(X, Y, w, order, C, cold=0.0):
    value = 0.5 * w @ w
    for x, y_true in zip(X, Y, strict=True):
        scores, outputs = x["features"] @ w, np.array(x["y"])
        pooled = {y: renyi(scores[outputs == y], order) for y in set(x["y"])}
        augmented = np.array([0.7 * abs(y_true - y) + g for y, g in pooled.items()])
        top = augmented.max() if cold == 0 else cold * np.logaddexp.reduce(augmented / cold)
        value += C * (top - pooled[y_true])
    return value


# ---- Rényi pooling ---------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), order=st.sampled_from([0.5, 1.0, 1.5, 2.0, 20.0]), cold=st.sampled_from([0.0, 0.3]))
def test_renyi_pooling_is_its_definition(seed, order, cold):
    X, Y = listed_examples(seed)
    objective = objective_of(MinEntropySSVM(Listed(), C=0.5, alpha=order), X, Y)
    soft = objective.smoothed(cold) if cold else objective
    w = np.random.default_rng(seed).normal(size=3)
    assert soft.value(w) == pytest.approx(renyi_objective(X, Y, w, order, 0.5, cold), rel=1e-9)
    if cold:
        gradient = soft.value_and_gradient(w)[1]
        error = check_grad(soft.value, lambda v: soft.value_and_gradient(v)[1], w, epsilon=1e-6)
        assert error <= 1e-4 * max(1.0, np.linalg.norm(gradient))


@pytest.mark.parametrize("order", [0.5, 1.0, 2.0])
def test_renyi_pooling_of_states_and_of_candidates_agree(order):
    class Same(CandidateTask):
        def candidates(self, x):
            y, h = np.divmod(np.arange(12), 4)
            features = np.zeros((12, 15))
            for k in range(12):
                features[k, np.arange(5) * 3 + y[k]] = x[h[k]]
            return y.tolist(), h.tolist(), features

    X, y = views(n=10)
    states, same = MinEntropySSVM(LatentMulticlass(), alpha=order), MinEntropySSVM(Same(), alpha=order)
    one, other = objective_of(states, X, y), objective_of(same, list(X), y.tolist())
    w = np.random.default_rng(1).normal(size=15)
    assert one.value(w) == pytest.approx(other.value(w), rel=1e-9)
    np.testing.assert_allclose(one.value_and_gradient(w)[1], other.value_and_gradient(w)[1], atol=1e-9)
    rows = np.array([7, 2])
    np.testing.assert_allclose(one.plus.planes(w, rows).values, one.plus.planes(w).values[rows])
    decoded = [
        task.renyi_decode(task.prepare(inputs), w, order) for task, inputs in ((states.task, X), (same.task, list(X)))
    ]
    assert [(p.y, p.h) for p in decoded[0]] == [(p.y, p.h) for p in decoded[1]]
    np.testing.assert_allclose([p.score for p in decoded[0]], [p.score for p in decoded[1]])


def test_a_large_order_is_the_latent_svm():
    X, y = views()
    w = np.random.default_rng(0).normal(size=15)
    sharp = objective_of(MinEntropySSVM(LatentMulticlass(), alpha=1e6), X, y)
    assert sharp.value(w) == pytest.approx(objective_of(LatentSSVM(LatentMulticlass()), X, y).value(w), rel=1e-4)


def test_min_entropy_trains_and_predicts(tmp_path):
    X, y = views()
    model = MinEntropySSVM(LatentMulticlass(), C=1.0, alpha=3.0, restarts=2).fit(X, y)
    assert len(model.restart_objectives_) == 2
    assert min(model.restart_objectives_) == model.objective_
    assert not model.certified_
    assert model.score(X, y) > 0.8
    model.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(X), model.predict(X))
    slow = MinEntropySSVM(LatentMulticlass(), alpha=3.0, solver=Subgradient(tol=1e-3)).fit(X, y)
    assert slow.objective_ >= 0.9 * model.objective_


def test_min_entropy_refuses_what_it_cannot_do():
    X, y = views()
    with raises("alpha", got=0):
        MinEntropySSVM(LatentMulticlass(), alpha=0).fit(X, y)
    with raises("task", got="SemiMarkov", expected="NP-hard"):
        MinEntropySSVM(SemiMarkov()).fit([np.eye(2), np.eye(2)], [[(0, 1, 0)], [(0, 2, 1)]])
    with raises("solver", got="CCCP()", expected="a difference of convex functions"):
        MinEntropySSVM(LatentMulticlass(), solver=CCCP()).fit(X, y)

    class LossOfStates(Listed):
        def output_loss(self, y, y_hat, h_hat):
            return float(h_hat == 1)

    X = [{"y": [0, 0, 1], "h": [0, 1, 0], "features": np.eye(3)}] * 2
    with raises("output_loss", expected="independent of latents for Rényi pooling"):
        MinEntropySSVM(LossOfStates()).fit(X, [0, 1])


# ---- special cases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("estimator", "plain"), [(MarginalSSVM, StructuralSVM), (HiddenCRF, CRF)])
def test_without_latents_they_are_the_plain_models(estimator, plain):
    X, y = views()
    one = estimator(Multiclass(), C=0.3, tol=1e-6).fit(X[:, 0], y)
    other = plain(Multiclass(), C=0.3, tol=1e-6).fit(X[:, 0], y)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)
    assert one.certified_


def test_without_latents_min_entropy_is_the_structural_svm():
    X, y = views()
    one = MinEntropySSVM(Multiclass(), C=0.3).fit(X[:, 0], y)
    assert one.objective_ == StructuralSVM(Multiclass(), C=0.3).fit(X[:, 0], y).objective_
    assert one.score(X[:, 0], y) > 0.3


CASES = {"views": (LatentMulticlass(), views), "half-labeled": (Chain(), half_labeled)}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("special", "temperature", "margin"),
    [(LatentSSVM, (0, 0), True), (MarginalSSVM, (0, 1), True), (HiddenCRF, (1, 1), False)],
)
def test_models_are_settings_of_the_general_one(name, special, temperature, margin):
    task, make = CASES[name]
    X, Y = make()
    general = StructuredEstimator(task, C=0.7, temperature=temperature, margin=margin)
    one, other = objective_of(special(task, C=0.7), X, Y), objective_of(general, X, Y)
    w = np.random.default_rng(0).normal(size=one.n_features)
    assert one.value(w) == pytest.approx(other.value(w), rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_cold_latents_are_maximised(name):
    task, make = CASES[name]
    X, Y = make()
    w = np.random.default_rng(0).normal(size=objective_of(LatentSSVM(task), X, Y).n_features)
    for cold in (1e-3, 1e-5):
        soft = objective_of(StructuredEstimator(task, temperature=(0, cold)), X, Y).value(w)
        both = objective_of(StructuredEstimator(task, temperature=(cold, cold)), X, Y).value(w)
        hard = objective_of(LatentSSVM(task), X, Y).value(w)
        assert soft == pytest.approx(hard, abs=100 * cold * len(X))
        assert both == pytest.approx(hard, abs=100 * cold * len(X))


# ---- training --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("estimator", [MarginalSSVM, HiddenCRF])
def test_ways_of_training_reach_low_objectives(name, estimator):
    task, make = CASES[name]
    X, Y = make()
    found = {}
    for solver in ("auto", CCCP(), LBFGS(), Subgradient(tol=1e-4, max_iter=300)):
        model = estimator(task, C=0.5, solver=solver, random_state=3).fit(X, Y)
        value = objective_of(estimator(task, C=0.5), X, Y).value(model.coef_)
        assert model.objective_ == pytest.approx(value, rel=1e-9)
        found[str(solver)] = model.objective_
    zero = objective_of(estimator(task, C=0.5), X, Y).value(np.zeros(len(model.coef_)))
    assert max(found.values()) < 0.98 * zero
    assert found["auto"] <= min(found.values()) * 1.05


def test_lbfgs_is_not_for_problems_it_cannot_bound():
    X, y = views()
    for temperature in ((0.0, 1.0), (0.3, 0.0)):
        model = StructuredEstimator(LatentMulticlass(), temperature=temperature, solver=CCCP(LBFGS()))
        with raises("solver", got="LBFGS", hint="without CCCP"):
            model.fit(X, y)


def test_a_soft_output_stays_soft_when_latents_are_softened():
    X, y = views()
    objective = objective_of(StructuredEstimator(LatentMulticlass(), temperature=(0.3, 0.0)), X, y)
    w = np.random.default_rng(0).normal(size=15)
    assert objective.smoothed(1e-7).value(w) == pytest.approx(objective.value(w), rel=1e-4)


def test_w_zero_is_left():
    X, y = views()
    states = LatentMulticlass(weights="state")
    zero = np.zeros(objective_of(HiddenCRF(states), X, y).n_features)
    rng = np.random.default_rng(0)
    same = rng.normal(size=(40, 1, 5)) * np.ones((40, 4, 1))
    objective = objective_of(HiddenCRF(states), same, y)
    slope = objective.value_and_gradient(zero)[1].reshape(5, 3, 4)
    # At zero the gradient cannot tell the states apart, so that a descent from there never will.
    np.testing.assert_allclose(slope, slope[:, :, :1] * np.ones(4), atol=1e-12)
    model = HiddenCRF(states, init="random").fit(same, y)
    weights = model.coef_.reshape(5, 3, 4)
    assert np.ptp(weights, axis=2).max() > 1e-3


@pytest.mark.parametrize("estimator", [MarginalSSVM, HiddenCRF])
def test_restarts_keep_the_best(estimator):
    X, y = views(n=25)
    model = estimator(LatentMulticlass(weights="state"), C=1.0, restarts=3, init="random").fit(X, y)
    assert len(model.restart_objectives_) == 3
    assert model.objective_ == min(model.restart_objectives_)
    assert {line.start for line in model.history_} == {0, 1, 2}
    again = estimator(LatentMulticlass(weights="state"), C=1.0, restarts=3, init="random").fit(X, y)
    assert np.array_equal(model.coef_, again.coef_)
    one = estimator(LatentMulticlass(weights="state"), C=1.0, init="random").fit(X, y)
    assert one.objective_ == model.restart_objectives_[0]
    given = estimator(LatentMulticlass(weights="state"), C=1.0).fit(X, y, coef_init=model.coef_)
    assert given.objective_ <= model.objective_ * (1 + 1e-9)


def test_annealing_reports_the_hard_objective():
    X, Y = half_labeled()
    model = MarginalSSVM(Chain(), C=1.0).fit(X, Y)
    objective = objective_of(MarginalSSVM(Chain(), C=1.0), X, Y)
    known = [line for line in model.history_ if not line.estimate]
    values = [line.objective for line in known]
    assert all(np.diff(values) <= 1e-12)
    assert model.objective_ == pytest.approx(objective.value(model.coef_), rel=1e-12)
    assert model.lower_bound_ == -math.inf
    assert not model.certified_


def test_limits_and_interrupts_keep_the_best():
    X, Y = half_labeled()

    def interrupt(line):
        if line.iteration == 4:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = MarginalSSVM(Chain(), C=1.0).fit(X, Y, callback=interrupt)
    objective = objective_of(MarginalSSVM(Chain(), C=1.0), X, Y)
    assert model.objective_ == pytest.approx(objective.value(model.coef_))
    assert model.objective_ <= objective.value(np.zeros(len(model.coef_)))
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        MarginalSSVM(Chain(), C=1.0, max_iter=2).fit(X, Y)


# ---- probabilities ---------------------------------------------------------------------------------------


def test_marginals_and_confidence_of_a_marginal_svm():
    X, Y = half_labeled()
    model = MarginalSSVM(Chain(), C=0.5).fit(X, Y)
    marginals, predictions = model.marginals(X), model.predict(X)
    expected = model.task_.marginals(model.task_.prepare(X), model.coef_, Temperature(1.0, 1.0))
    for found, wanted, labels, confidence in zip(marginals, expected, predictions, model.confidence(X), strict=True):
        np.testing.assert_allclose(found, wanted)
        np.testing.assert_allclose(confidence, found[np.arange(len(labels)), labels])
    with raises("temperature", hint="LatentSSVM maximizes over outputs"):
        LatentSSVM(Chain(), C=0.5).fit(X, Y).marginals(X)


@pytest.mark.parametrize("estimator", [LatentSSVM, MarginalSSVM, HiddenCRF, MinEntropySSVM])
def test_decision_functions_decide_as_predictions_do(estimator):
    X, y = views(n=60)
    model = estimator(LatentMulticlass(), C=0.05).fit(X, y)
    assert np.array_equal(model.decision_function(X).argmax(axis=1), model.predict(X))
    np.testing.assert_allclose(model.decision_function(X).max(axis=1), [p.score for p in model._decoded(X)])


def test_the_discriminant_of_a_marginal_motif_decides():
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ACGT"), 30)) for _ in range(30)]
    X = [x[:10] + "GATTACA" + x[10:] if i % 2 else x for i, x in enumerate(X)]
    model = MarginalSSVM(Motif(5, background_order=0), C=0.05).fit(X, np.where(np.arange(30) % 2, 1, -1))
    assert np.array_equal(model.decision_function(X) > 0, np.array(model.predict(X)) == 1)


def test_pair_marginals_fit_the_marginals():
    X, Y = half_labeled()
    model = HiddenCRF(Chain(), C=0.5).fit(X, Y)
    for single, pairs in zip(model.marginals(X), model.pair_marginals(X), strict=True):
        np.testing.assert_allclose(pairs.sum(axis=2), single[:-1], atol=1e-9)
        np.testing.assert_allclose(pairs.sum(axis=1), single[1:], atol=1e-9)


def test_a_descent_that_got_stuck_is_told():
    class Liar(LatentMulticlass):
        """Its values and slopes disagree, as those of propagation that did not come to rest."""

        def pool_batch(self, batch, query):
            found = super().pool_batch(batch, query)
            excess = 10.0 * abs(query.w).sum() if query.mode != "clamped" else 0.0
            return replace(found, values=found.values + excess, exact=False)

    X, y = views()
    with pytest.warns(ConvergenceWarning, match="stopped early .stalled."):
        HiddenCRF(Liar()).fit(X, y)


@pytest.mark.parametrize("slip", [None, "-1"])
def test_slips_for_unknown_labels(slip):
    with raises("Y", expected="the integer -1 where a label is unknown"):
        MarginalSSVM(Chain()).fit([np.eye(2)], [["a", slip]])


def test_temperatures_are_a_pair():
    X, y = views()
    with raises("temperature", got=(1,), expected="a pair"):
        StructuredEstimator(LatentMulticlass(), temperature=(1,)).fit(X, y)


def test_saved_models_predict_the_same(tmp_path):
    X, y = views()
    for estimator in (MarginalSSVM, HiddenCRF):
        model = estimator(LatentMulticlass(), C=0.3).fit(X, y)
        model.save(tmp_path / estimator.__name__)
        loaded = load(tmp_path / estimator.__name__)
        assert type(loaded) is estimator
        assert np.array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.marginals(X), model.marginals(X))
