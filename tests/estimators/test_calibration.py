"""Outputs of least expected loss, and probabilities that are calibrated on held-out data."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct import (
    CRF,
    Chain,
    FeaturePipeline,
    Graph,
    HiddenCRF,
    KernelStructuralSVM,
    LatentMulticlass,
    Multiclass,
    SemiMarkov,
    StructuralSVM,
    WindowFeatures,
    grid_graph,
    load,
)
from latentstruct.estimators.risk import least_risk
from latentstruct.metrics import chunk_f1_loss

LABELS = ["B-x", "I-x", "O"]


def chains(seed, n=40, noise=1.5):
    rng = np.random.default_rng(seed)
    Y = [rng.choice(LABELS, size=rng.integers(1, 5)).tolist() for _ in range(n)]
    X = [np.eye(3)[[LABELS.index(one) for one in y]] + noise * rng.normal(size=(len(y), 3)) for y in Y]
    return X, Y


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([None, "BIO"]))
def test_labelings_of_least_expected_cost_are_those_of_the_list(seed, rules):
    rng = np.random.default_rng(seed)
    costs = rng.random((3, 3)) * (1 - np.eye(3))
    X, _ = chains(seed, 6)
    model = CRF(Chain(labels=LABELS, costs=costs, rules=rules), C=0.1).fit(X, [["O"] * len(x) for x in X])
    model.coef_ = rng.normal(size=len(model.coef_))
    for x, found, marginals in zip(X, model.predict_min_risk(X), model.marginals(X), strict=True):
        risks = {}
        for item in product(range(3), repeat=len(x)):
            steps = all(b != 1 or a in (0, 1) for a, b in zip((2, *item), item, strict=False))
            if steps or rules is None:
                risks[item] = sum(marginals[t] @ costs[:, y] for t, y in enumerate(item))
        assert risks[tuple(LABELS.index(one) for one in found)] == pytest.approx(min(risks.values()), abs=1e-9)


def test_labels_of_graphs_are_those_of_least_expected_cost():
    rng = np.random.default_rng(0)
    costs = rng.random((3, 3)) * (1 - np.eye(3))
    X = [grid_graph(rng.normal(size=(2, 3, 2))) for _ in range(3)]
    model = CRF(Graph(costs=costs)).fit(X, [rng.integers(3, size=6) for _ in X])
    for found, marginals in zip(model.predict_min_risk(X), model.marginals(X), strict=True):
        assert found.tolist() == (marginals.nodes @ costs).argmin(axis=1).tolist()


def test_the_least_risk_among_samples_is_that_of_the_list():
    samples = [["B-x", "O"], ["O", "O"], ["B-x", "I-x"], ["B-x", "O"]]
    guesses = [["O", "B-x"], *samples]
    risks = [chunk_f1_loss(samples, [one] * 4).mean() for one in guesses]
    assert least_risk(samples, guesses[0], chunk_f1_loss) == guesses[int(np.argmin(risks))] == ["B-x", "O"]
    # The best output wins if it is as good.
    assert least_risk([("a",)], ("b",), lambda truth, _: np.zeros(len(truth))) == ("b",)


def test_losses_of_spans_decide():
    X, Y = chains(1)
    model = CRF(Chain(labels=LABELS)).fit(X, Y)
    found = model.predict_min_risk(X, chunk_f1_loss, n_samples=50)
    drawn = model.sample(X, 50, random_state=0)

    def risk(outputs):
        pairs = zip(drawn, outputs, strict=True)
        return np.array([chunk_f1_loss([y.tolist() for y in some], [list(one)] * 50).mean() for some, one in pairs])

    assert (risk(found) <= risk(model.predict(X)) + 1e-12).all()
    assert [list(y) for y in found] == [list(y) for y in model.predict_min_risk(X, chunk_f1_loss, n_samples=50)]


def test_segments_and_refusals():
    X, _ = chains(2, 8)
    Y = [[(0, len(x), "a")] if len(x) < 3 else [(0, 2, "b"), (2, len(x), "a")] for x in X]
    model = CRF(SemiMarkov()).fit(X, Y)
    assert len(model.predict_min_risk(X, n_samples=20)) == len(X)
    assert not hasattr(StructuralSVM(SemiMarkov()).fit(X, Y), "predict_min_risk")
    assert not hasattr(CRF(Multiclass()), "predict_min_risk")


# ---- calibration ---------------------------------------------------------------------------------------------


def surprise(model, X, Y):
    return -model.log_probability(X, Y).mean()


@pytest.mark.parametrize("estimator", [CRF, StructuralSVM])
def test_calibration_minimizes_the_surprise_of_held_out_data(estimator, tmp_path):
    X, Y = chains(3, 12)
    model = estimator(Chain(labels=LABELS), C=10.0).fit(X, Y)
    held_out = chains(4, 60)
    before, scores = model.predict(held_out[0]), [one.score for one in model._decoded(held_out[0])]
    assert model.calibrate(*held_out) is model
    after = model.predict(held_out[0])
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
    assert [one.score for one in model._decoded(held_out[0])] == scores
    found, tau = surprise(model, *held_out), model.calibrated_temperature_
    for factor in (0.5, 0.9, 1.1, 2.0):
        model.calibrated_temperature_ = factor * tau
        assert surprise(model, *held_out) >= found - 1e-9
    model.calibrated_temperature_ = tau
    # Dividing the weights by τ gives the same probabilities.
    scaled = CRF(Chain(labels=LABELS)).fit(X, Y)
    scaled.coef_ = model.coef_ / tau
    for a, b in zip(model.marginals(X), scaled.marginals(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").calibrated_temperature_ == tau
    assert model.fit(X, Y).calibrated_temperature_ is None


def test_probabilities_of_classes_follow_the_temperature():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    X = np.eye(3)[y] + rng.normal(size=(90, 3))
    model = StructuralSVM(Multiclass(), C=1.0).fit(X[:60], y[:60])
    assert not hasattr(model, "predict_proba")
    model.calibrate(X[60:], y[60:])
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    chosen = shares[np.arange(60, 90), y[60:]]
    assert -np.log(chosen).mean() == pytest.approx(surprise(model, X[60:], y[60:]))
    bags = [np.vstack([x, rng.normal(size=(1, 3))]) for x in X]
    latent = HiddenCRF(LatentMulticlass(), restarts=1).fit(bags[:60], y[:60])
    latent.calibrate(bags[60:], y[60:])
    chosen = latent.predict_proba(bags[60:])[np.arange(30), y[60:]]
    assert -np.log(chosen).mean() == pytest.approx(surprise(latent, bags[60:], y[60:]))


def test_pipelines_are_calibrated_and_others_refuse():
    words, tags = [["a", "b"], ["b", "c", "a"]] * 5, [["O", "B-x"], ["B-x", "I-x", "O"]] * 5
    model = FeaturePipeline(WindowFeatures(), CRF(Chain())).fit(words, tags)
    assert model.calibrate(words, tags) is model
    assert model.model_.calibrated_temperature_ < 1
    with raises("y"):
        model.calibrate(words, None)
    kernel = KernelStructuralSVM(Multiclass()).fit(np.eye(3), [0, 1, 2])
    with raises("temperature"):
        kernel.calibrate(np.eye(3), [0, 1, 2])
