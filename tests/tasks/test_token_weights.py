"""Skipped tokens and weights of tokens: training is compared with enumeration of what they mean."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from error_fields import raises
from latentstruct import CRF, Chain, HiddenCRF, StructuralSVM
from latentstruct.core.unknown import SKIPPED


def draw(seed, lengths=(3, 2, 4)):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(t, 2)) for t in lengths]
    return rng, X, [rng.integers(0, 3, t).tolist() for t in lengths]


def log_likelihood(x, labels, w):
    """log Σ P(y | x) over all labelings that agree with the known labels, by enumeration."""
    items = list(product(range(3), repeat=len(labels)))
    scores = np.array([w @ reference.chain_features(x, y, 3, 2) for y in items])
    agree = [all(b in (-1, a) for a, b in zip(y, labels, strict=True)) for y in items]
    return np.logaddexp.reduce(scores[agree]) - np.logaddexp.reduce(scores)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_the_objective_of_token_weights_is_the_sum_that_the_documentation_states(seed):
    rng, X, Y = draw(seed)
    weights = [rng.choice([0.0, 0.5, 1.0, 2.0], len(y)) for y in Y]
    weights[0][0], Y[0] = 1.0, [0, 1, 2]
    model = HiddenCRF(Chain(labels=[0, 1, 2]), C=0.7).fit(X, Y, sample_weight=weights)
    expected = 0.5 * model.coef_ @ model.coef_
    for x, y, c in zip(X, Y, weights, strict=True):
        levels = sorted({0.0, *c.tolist()})
        for below, level in pairwise(levels):
            known = [label if weight >= level else -1 for label, weight in zip(y, c, strict=True)]
            expected -= 0.7 * (level - below) * log_likelihood(x, known, model.coef_)
    assert model.objective_ == pytest.approx(expected, rel=1e-9)


def test_equal_token_weights_are_the_weight_of_the_sequence():
    _, X, Y = draw(1)
    by_token = CRF(Chain(), tol=1e-8).fit(X, Y, sample_weight=[np.full(len(y), 2.0) for y in Y])
    by_sequence = CRF(Chain(), tol=1e-8).fit(X, Y, sample_weight=[2.0] * 3)
    assert np.allclose(by_token.coef_, by_sequence.coef_, atol=1e-3)


def test_skipped_tokens_are_left_out_of_training():
    _, X, Y = draw(2)
    skipped = [[SKIPPED if t == 1 else label for t, label in enumerate(y)] for y in Y]
    shorter = [np.delete(x, 1, axis=0) for x in X], [np.delete(y, 1).tolist() for y in Y]
    model = CRF(Chain(labels=[0, 1, 2]), tol=1e-8).fit(X, skipped)
    expected = CRF(Chain(labels=[0, 1, 2]), tol=1e-8).fit(*shorter)
    assert np.allclose(model.coef_, expected.coef_, atol=1e-3)
    assert [len(y) for y in model.predict(X)] == [3, 2, 4]


def test_skipped_tokens_count_neither_in_scores_nor_in_losses():
    _, X, Y = draw(3)
    model = StructuralSVM(Chain(labels=[0, 1, 2])).fit(X, Y)
    predicted = [y.tolist() for y in model.predict(X)]
    truth = [[SKIPPED, *y[1:]] for y in predicted]
    assert model.score(X, truth) == 1.0
    assert model.loss(X, truth).tolist() == [0.0, 0.0, 0.0]
    # As unknown ones, they are summed out.
    assert np.allclose(CRF(Chain()).fit(X, Y).log_probability(X, [[SKIPPED] * len(y) for y in Y]), 0.0)


def test_arrays_of_labels_may_have_skipped_tokens():
    X = [np.eye(3), np.eye(3)]
    model = CRF(Chain()).fit(X, [np.array([0, SKIPPED, 1]), np.array([0, 1, 1])])
    assert model.task_.labels_.labels == [0, 1]


@pytest.mark.parametrize(
    ("weights", "parameter"),
    [
        ([[1.0], [1.0, 1.0], [1.0] * 4], "sample_weight[0]"),
        ([[1.0, -1.0, 1.0], [1.0, 1.0], [1.0] * 4], "sample_weight[0]"),
        ([[1.0, np.nan, 1.0], [1.0, 1.0], [1.0] * 4], "sample_weight[0]"),
        ([[0.0] * 3, [0.0] * 2, [0.0] * 4], "sample_weight"),
        ([[1.0] * 3, [1.0] * 2], "sample_weight"),
    ],
)
def test_bad_weights_are_refused(weights, parameter):
    _, X, Y = draw(4)
    with raises(parameter):
        HiddenCRF(Chain()).fit(X, Y, sample_weight=weights)


def test_initial_latents_cannot_be_given_for_other_examples():
    _, X, Y = draw(5)
    Y[0][0] = SKIPPED
    with raises("H"):
        HiddenCRF(Chain()).fit(X, Y, H=Y)
