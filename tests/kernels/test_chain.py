"""Chain kernels against plain recursions, for all numbers of labels that differ in how rows are padded and summed."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import logsumexp

from latentstruct._native import chain as kernels
from latentstruct._native.chain_distributions import pool_labelings
from latentstruct.core.protocols import Temperature
from latentstruct.tasks.chain.batch import (
    BY_SEQUENCE,
    BY_TOKEN,
    LINEAR_DOMAIN_SPREAD,
    NO_LABELS,
    TOGETHER,
    Blocks,
    LabelScores,
)

SIZES = [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 26, 31, 33, 41]
LENGTHS = [5, 0, 1, 12, 2]


def sequences(n_labels, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    return rng, offsets, scale * rng.normal(size=(offsets[-1], n_labels)), scale * rng.normal(size=(n_labels, n_labels))


def best_labeling(scores, transitions):
    best, sources = scores[0], []
    for own in scores[1:]:
        joint = best[:, None] + transitions
        sources.append(joint.argmax(axis=0))
        best = joint.max(axis=0) + own
    labels = [int(best.argmax())]
    for source in sources[::-1]:
        labels.append(int(source[labels[-1]]))
    return labels[::-1], best.max()


def messages(scores, transitions, temperature):
    forward, backward = [scores[0]], [np.zeros(len(transitions))]
    for own in scores[1:]:
        forward.append(temperature * logsumexp((forward[-1][:, None] + transitions) / temperature, axis=0) + own)
    for own in scores[:0:-1]:
        backward.append(temperature * logsumexp((transitions + own + backward[-1]) / temperature, axis=1))
    return np.array(forward), np.array(backward[::-1])


def pool(scores, offsets, transitions, temperature, weights, by, labels=NO_LABELS, limit=LINEAR_DOMAIN_SPREAD):
    n, k = len(transitions), len(offsets) - 1
    marginals, values = scores.copy(), np.empty(k)
    pairs = np.zeros(({TOGETHER: 1, BY_SEQUENCE: k, BY_TOKEN: len(scores)}[by], n, n))
    pool_labelings(marginals, offsets, labels, transitions, *temperature, limit, weights, by, values, pairs)
    return values, marginals, pairs


@pytest.mark.parametrize("n_labels", SIZES)
def test_best_labelings(n_labels):
    _, offsets, scores, transitions = sequences(n_labels)
    labels, values = np.empty(len(scores), dtype=np.int64), np.empty(len(LENGTHS))
    kernels.viterbi(scores, offsets, transitions, labels, values)
    for k, (first, last) in enumerate(pairwise(offsets.tolist())):
        expected, value = best_labeling(scores[first:last], transitions) if last > first else ([], 0.0)
        assert labels[first:last].tolist() == expected
        np.testing.assert_allclose(values[k], value)


@pytest.mark.parametrize("n_labels", SIZES)
@pytest.mark.parametrize("limit", [LINEAR_DOMAIN_SPREAD, 0.0])
@pytest.mark.parametrize("temperature", [0.4, 1.0])
def test_marginals_of_labels_and_pairs(n_labels, limit, temperature):
    rng, offsets, scores, transitions = sequences(n_labels, seed=1)
    weights, both = rng.normal(size=len(LENGTHS)), Temperature(temperature, temperature)
    values, marginals, pairs = pool(scores, offsets, transitions, both, weights, BY_TOKEN, limit=limit)
    for k, (first, last) in enumerate(pairwise(offsets.tolist())):
        if first == last:
            assert values[k] == 0.0
            continue
        forward, backward = messages(scores[first:last], transitions, temperature)
        value = temperature * logsumexp(forward[-1] / temperature)
        np.testing.assert_allclose(values[k], value, rtol=1e-12)
        expected = weights[k] * np.exp((forward + backward - value) / temperature)
        np.testing.assert_allclose(marginals[first:last], expected, atol=1e-12)
        arriving = scores[first + 1 : last] + backward[1:]
        joint = forward[:-1, :, None] + transitions + arriving[:, None, :]
        assert not pairs[first].any()
        np.testing.assert_allclose(
            pairs[first + 1 : last], weights[k] * np.exp((joint - value) / temperature), atol=1e-12
        )
    for by, expected in (
        (TOGETHER, pairs.sum(axis=0)[None]),
        (BY_SEQUENCE, [pairs[a:b].sum(axis=0) for a, b in pairwise(offsets.tolist())]),
    ):
        found = pool(scores, offsets, transitions, both, weights, by, limit=limit)
        np.testing.assert_array_equal(found[0], values)
        np.testing.assert_array_equal(found[1], marginals)
        np.testing.assert_allclose(found[2], expected, atol=1e-12)


@pytest.mark.parametrize("n_labels", SIZES)
@pytest.mark.parametrize("limit", [LINEAR_DOMAIN_SPREAD, 0.0])
def test_hidden_tokens_first_at_nearly_equal_temperatures(n_labels, limit):
    """At equal temperatures it does not matter which tokens are hidden."""
    rng, offsets, scores, transitions = sequences(n_labels, seed=2)
    labels = np.where(rng.random(len(scores)) < 0.5, -1, 0)
    weights = rng.normal(size=len(LENGTHS))
    one = pool(scores, offsets, transitions, Temperature(1.0, 1.0), weights, BY_TOKEN)
    two = pool(scores, offsets, transitions, Temperature(1.0, np.nextafter(1.0, 2.0)), weights, BY_TOKEN, labels, limit)
    for found, expected in zip(two, one, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_a_wide_sequence_does_not_change_others():
    _, offsets, scores, transitions = sequences(5)
    weights, both = np.ones(len(LENGTHS)), Temperature(1.0, 1.0)
    alone = pool(scores, offsets, transitions, both, weights, BY_SEQUENCE)
    scores[: offsets[1]] *= 1e20
    values, marginals, pairs = pool(scores, offsets, transitions, both, weights, BY_SEQUENCE)
    np.testing.assert_array_equal(values[1:], alone[0][1:])
    np.testing.assert_array_equal(marginals[offsets[1] :], alone[1][offsets[1] :])
    np.testing.assert_array_equal(pairs[1:], alone[2][1:])
    # Of such scores one labeling has all the mass.
    np.testing.assert_allclose(np.sort(marginals[: offsets[1]], axis=1)[:, -1], 1.0)


def test_long_chains_neither_underflow_nor_overflow():
    rng = np.random.default_rng(3)
    scores, transitions = np.where(rng.random((4000, 3)) < 0.5, 290.0, 0.0), 290.0 * np.eye(3)
    both = Temperature(1.0, 1.0)
    problem = scores, np.array([0, len(scores)]), transitions, both, np.ones(1), TOGETHER
    for found, expected in zip(pool(*problem), pool(*problem, limit=0.0), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_labels", [1, 2, 5, 9])
def test_product_of_loss_and_margin(n_labels):
    """Every labeling of short sequences."""
    rng, offsets, scores, transitions = sequences(n_labels, seed=4)
    offsets, truth = np.array([0, 3, 3, 4, 6]), rng.integers(0, n_labels, 6)
    labels, (values, losses) = np.empty(6, dtype=np.int64), np.empty((2, 4))
    kernels.viterbi_by_errors(scores[:6], offsets, transitions, truth, labels, values, losses)

    def score(first, some):
        steps = sum(transitions[a, b] for a, b in pairwise(some))
        return sum(scores[first + t, y] for t, y in enumerate(some)) + steps

    for k, (first, last) in enumerate(pairwise(offsets.tolist())):
        own = truth[first:last]
        listed = list(product(range(n_labels), repeat=last - first))
        heights = [np.sum(some != own) * (1.0 + score(first, some) - score(first, own)) for some in listed]
        np.testing.assert_allclose(values[k], max(0.0, *heights), atol=1e-12)
        found = labels[first:last]
        assert losses[k] == (found != own).sum()
        np.testing.assert_allclose(losses[k] * (1.0 + score(first, found) - score(first, own)), values[k], atol=1e-12)


def test_arrays_that_do_not_fit_are_refused():
    _, offsets, scores, transitions = sequences(4)
    labels, values = np.empty(len(scores), dtype=np.int64), np.empty(len(LENGTHS))
    for problem, error in (
        ((scores, offsets + 1, transitions, labels, values), ValueError),
        ((scores, offsets[::-1].copy(), transitions, labels, values), ValueError),
        ((scores[:, :3].copy(), offsets, transitions, labels, values), ValueError),
        ((scores, offsets, transitions, labels[1:], values), ValueError),
        ((scores, offsets, transitions, labels, values[1:]), ValueError),
        ((scores[:, ::2], offsets, transitions, labels, values), TypeError),
        ((scores.astype(np.float32), offsets, transitions, labels, values), TypeError),
    ):
        with pytest.raises(error):
            kernels.viterbi(*problem)
    unknown = np.full(len(scores), -1)
    with pytest.raises(ValueError, match="known"):
        kernels.viterbi_by_errors(scores, offsets, transitions, unknown, labels, values, values.copy())
    added = LabelScores(np.zeros(3), np.zeros(0), np.zeros(0), np.zeros((5, 4)))
    with pytest.raises(TypeError):
        kernels.add_label_scores(scores, offsets, added, NO_LABELS)
    few = type("Few", (), {"row": np.empty(3, np.int32), "column": np.empty(3, np.int32), "value": np.ones(3)})
    with pytest.raises(ValueError, match="too short"):
        kernels.labeling_atoms(np.zeros(20, np.int64), offsets, offsets[:-1], 4, Blocks(9, -1, -1, -1), offsets, few)
