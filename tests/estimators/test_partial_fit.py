"""Training on examples that come in parts."""

import pickle

import numpy as np
import pytest

from error_fields import raises
from latentstruct import (
    CRF,
    AnnotatorCRF,
    Chain,
    DictFeatures,
    FeaturePipeline,
    HiddenCRF,
    Multiclass,
    PairwiseRanking,
    StructuralSVM,
    StructuredPerceptron,
    Subgradient,
    WindowFeatures,
)


def draw(seed, n=60, n_labels=3):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, n_labels, 5).tolist() for _ in range(n)]
    return [np.eye(4)[y] + 0.3 * rng.normal(size=(5, 4)) for y in Y], Y


def in_parts(model, X, Y, size):
    for first in range(0, len(X), size):
        model.partial_fit(X[first : first + size], Y[first : first + size])
    return model


def averaged_perceptron(X, y, n_classes, parts):
    """The mean of the weights before all steps but the first, and after the last one."""
    rng, w, total, t = np.random.default_rng(0), np.zeros((X.shape[1], n_classes)), 0.0, 0
    for part in parts:
        for i in rng.permutation(len(part)):
            x, truth = X[part[i]], y[part[i]]
            found = int(np.argmax(x @ w))
            w = w.copy()
            w[:, truth] += x
            w[:, found] -= x
            total, t = total + w, t + 1
    return total / t


@pytest.mark.parametrize("size", [1, 7, 60])
def test_the_perceptron_continues_its_steps_and_its_mean(size):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 60)
    X = np.eye(4)[y] + 0.8 * rng.normal(size=(60, 4))
    model = StructuredPerceptron(Multiclass())
    parts = [np.arange(60)[first : first + size] for first in range(0, 60, size)]
    for number, part in enumerate(parts):
        model.partial_fit(X[part], y[part], classes=None if number else [0, 1, 2])
    expected = averaged_perceptron(X, y, 3, parts)
    np.testing.assert_allclose(model.coef_.reshape(4, 3), expected, atol=1e-12)


@pytest.mark.parametrize("estimator", [CRF, StructuralSVM, HiddenCRF])
def test_one_part_is_one_iteration(estimator):
    X, Y = draw(0)
    model = estimator(Chain(), solver="subgradient").partial_fit(X, Y)
    with pytest.warns(match="max_iter"):
        expected = estimator(Chain(), solver="subgradient", max_iter=1).fit(X, Y)
    np.testing.assert_allclose(model.coef_, expected.coef_)
    assert model.objective_ == pytest.approx(expected.objective_)


def test_a_stream_comes_close_to_training_on_all_of_it():
    X, Y = draw(1, n=600)
    model = in_parts(CRF(Chain(), solver="subgradient"), X, Y, 20)
    whole = CRF(Chain()).fit(X, Y)
    task = whole.task_
    objective = 0.5 * model.coef_ @ model.coef_ - model.log_probability(X, Y).sum()
    assert task.learned_state() == model.task_.learned_state()
    assert objective < 1.1 * whole.objective_
    assert not np.isfinite(model.gap_)
    assert not model.certified_


def test_each_example_counts_once():
    X, Y = draw(2, n=40)
    solver = Subgradient(batch_size=10, random_state=1)
    parts = in_parts(CRF(Chain(), solver=solver), X, Y, 10)
    # A step per part, each with the weight of the examples so far.
    w, mean = np.zeros(parts.task_.n_features), np.zeros(parts.task_.n_features)
    task = CRF(Chain()).fit(X, Y).task_
    for t in range(1, 5):
        batch = task.prepare(X[10 * t - 10 : 10 * t], Y[10 * t - 10 : 10 * t])
        soft = parts._temperature()
        ones = np.full(10, float(t))
        slope = task.total(batch, w, "free", soft, ones).slope - task.total(batch, w, "clamped", soft, ones).slope
        w = w - (w + slope) / t
        mean += 2 / (t + 1) * (w - mean)
    np.testing.assert_allclose(parts.coef_, mean, atol=1e-10)


def test_copies_continue_alike_and_fit_starts_over():
    X, Y = draw(4)
    model = in_parts(CRF(Chain(), solver="subgradient"), X[:30], Y[:30], 10)
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        one.partial_fit(X[30:], Y[30:])
    np.testing.assert_array_equal(model.coef_, again.coef_)
    model.set_params(max_iter=3)
    with pytest.warns(match="max_iter"):
        model.fit(X, Y)
    with raises("solver", expected="'plain' or 'fixed'"):
        model.partial_fit(X, Y)
    model.set_params(solver=Subgradient(step="fixed", learning_rate=1e-3))
    before = model.coef_
    assert 0 < np.linalg.norm(model.partial_fit(X, Y).coef_ - before) < 1
    trained = StructuredPerceptron(Chain()).fit(X, Y)
    assert trained.partial_fit(X, Y).score(X, Y) > 0.9


def test_chains_have_new_labels_and_columns():
    X, Y = draw(5)
    names = [["a", "b", "c"][label] for label in range(3)]
    model = StructuredPerceptron(Chain()).partial_fit(X[:30], [[names[label] for label in y] for y in Y[:30]])
    wider = [np.column_stack([x, np.ones(5)]) for x in X[30:]]
    model.partial_fit(wider, [["new" if label == 2 else names[label] for label in y] for y in Y[30:]])
    assert model.classes_.tolist() == ["a", "b", "c", "new"]
    assert model.task_.n_inputs_ == 5
    # What no longer occurs is kept.
    model.partial_fit(wider[:1], [["a"] * 5])
    assert model.classes_.tolist() == ["a", "b", "c", "new"]
    with raises("X", got="4 columns"):
        model.partial_fit(X, Y)


@pytest.mark.parametrize("features", [WindowFeatures(), WindowFeatures(hashed=2**12), DictFeatures()])
def test_pipelines_add_features(features):
    tagger = FeaturePipeline(features, StructuredPerceptron(Chain()))
    for word, label in 3 * (("dog", "NOUN"), ("barks", "VERB"), ("the", "DET")):
        tagger.partial_fit([[word]] * 4, [[label]] * 4)
    found = tagger.predict([["dog"], ["barks"], ["the"]])
    assert [y.tolist() for y in found] == [["NOUN"], ["VERB"], ["DET"]]
    assert tagger.features_.n_features_ == tagger.model_.task_.n_inputs_


def test_refusals():
    X, Y = draw(6)
    for model in (CRF(Chain()), StructuralSVM(Chain(), solver="bundle"), AnnotatorCRF(Chain(), solver="subgradient")):
        assert not hasattr(model, "partial_fit")
    assert not hasattr(FeaturePipeline(WindowFeatures(), CRF(Chain())), "partial_fit")
    with raises("seen_only"):
        CRF(Chain(), solver="subgradient", seen_only=True).partial_fit(X, Y)
    with raises("C", expected="a number"):
        CRF(Chain(), solver="subgradient", C="auto").partial_fit(X, Y)
    rows = np.eye(3)
    model = StructuredPerceptron(Multiclass()).partial_fit(rows, [0, 1, 1])
    model.partial_fit(rows[:1], [0])
    before = model.coef_.copy()
    with raises("X", hint="Declare all labels in the first call, as `classes`."):
        model.partial_fit(rows, [0, 1, 2])
    with raises("X"):
        model.partial_fit(np.eye(4), [0, 1, 1, 1])
    np.testing.assert_array_equal(model.coef_, before)
    with raises("classes"):
        StructuredPerceptron(Multiclass()).partial_fit(rows, [0, 1, 1], classes="all")
    with raises("classes", expected="the parameter `labels`"):
        StructuredPerceptron(PairwiseRanking()).partial_fit(X, Y, classes=[0, 1])
