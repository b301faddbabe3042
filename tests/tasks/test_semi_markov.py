"""Semi-Markov chains: against the list of all segmentations, and as a user meets them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import reference
from error_fields import raises
from latentstruct import CRF, HiddenCRF, LatentSSVM, SemiMarkov, StructuralSVM, load
from latentstruct.core.protocols import Temperature
from latentstruct.testing import check_task

LABELS = ["a", "b"]
TEMPERATURES = [0.0, 0.5, 1.0]


def cuts_of(length, longest):
    """List all ways to divide a sequence into segments of limited length."""
    if length == 0:
        return [[]]
    found = []
    for size in range(1, min(longest, length) + 1):
        found += [[*before, (length - size, length)] for before in cuts_of(length - size, longest)]
    return found


def segmentations(length, longest):
    """List all labeled segmentations."""
    return [
        [(first, stop, y) for (first, stop), y in zip(cuts, labels, strict=True)]
        for cuts in cuts_of(length, longest)
        for labels in product(range(len(LABELS)), repeat=len(cuts))
    ]


def features(x, segments, longest):
    """Write down φ from the documentation."""
    n_labels, n_inputs = len(LABELS), x.shape[1]
    tokens, transitions, lengths = (
        np.zeros((n_inputs, n_labels)),
        np.zeros((n_labels, n_labels)),
        np.zeros((longest, 2)),
    )
    for k, (first, stop, y) in enumerate(segments):
        tokens[:, y] += x[first:stop].sum(axis=0)
        lengths[stop - first - 1, y] += 1
        if k:
            transitions[segments[k - 1][2], y] += 1
    return np.concatenate([tokens.ravel(), transitions.ravel(), lengths.ravel()])


def fits(truth, segments, length):
    """Whether a segmentation agrees with known segments."""
    if not all(
        any((a, b) == (first, stop) and y in (-1, number) for first, stop, number in segments) for a, b, y in truth
    ):
        return False
    covered = {t for a, b, _ in truth for t in range(a, b)}
    borders = {t for a, b, _ in truth for t in (a, b)}
    return all(
        (first, stop) in {(a, b) for a, b, _ in truth}
        or not (covered & set(range(first, stop)) or borders & set(range(first + 1, stop)))
        for first, stop, _ in segments
    )


def loss(truth, segments, length, costs):
    """Write down the loss from the documentation."""
    label, begin = [None] * length, [None] * length
    if length:
        begin[0] = True
    for a, b, y in truth:
        for t in range(a, b):
            label[t] = None if y == -1 else y
            begin[t] = False
        begin[a] = True
    for _, b, _ in truth:
        if b < length:
            begin[b] = True
    total = 0.0
    for first, stop, y in segments:
        for t in range(first, stop):
            total += 0.0 if label[t] is None else costs[label[t], y]
            total += begin[t] is not None and begin[t] != (t == first)
    return total


def listed(x, truth, longest, costs):
    """List all segmentations of one sequence: outputs that agree with Y share the number 0."""
    every = segmentations(len(x), longest)
    fitting = [fits(truth, one, len(x)) for one in every]
    return reference.Listed(
        np.array([features(x, one, longest) for one in every]),
        np.array([loss(truth, one, len(x), costs) for one in every]),
        np.array([0 if fit else 1 + k for k, fit in enumerate(fitting)]),
        0,
        every,
    )


def data(seed, latent, n=4, n_inputs=2, longest=3):
    """Draw sequences with segments, of which some are unknown."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for k in range(n):
        length = int(rng.integers(1 if k < 2 else 0, 5))
        whole = segmentations(length, longest)
        truth = [(a, b, LABELS[y]) for a, b, y in whole[rng.integers(len(whole))]]
        if latent:
            truth = [(a, b, -1 if rng.random() < 0.3 else y) for a, b, y in truth if rng.random() < 0.7]
        X.append(rng.normal(size=(length, n_inputs)))
        Y.append(truth)
    X.append(rng.normal(size=(longest, n_inputs)))
    Y.append([(0, longest, "a")])
    return rng, X, Y


def numbered(y):
    return [(a, b, -1 if label == -1 else LABELS.index(label)) for a, b, label in y]


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    latent=st.booleans(),
    temperature=st.sampled_from(TEMPERATURES),
    mode=st.sampled_from(["free", "augmented", "clamped"]),
    form=st.sampled_from([np.asarray, sparse.csr_array]),
)
def test_pools_are_the_enumeration(seed, latent, temperature, mode, form):
    rng, X, Y = data(seed, latent)
    costs = np.array([[0.0, 2.0], [0.5, 0.0]])
    task = SemiMarkov(LABELS, max_length=3, costs=costs)
    task.learn(X, Y)
    batch = task.prepare([form(x) for x in X], Y)
    w = rng.normal(size=task.n_features)
    soft = Temperature(temperature, temperature)
    planes, weights = task.planes(batch, w, mode, soft), rng.random(len(X))
    slopes = planes.slopes().toarray()
    for k, (x, y) in enumerate(zip(X, Y, strict=True)):
        # One temperature pools outputs and latents together.
        one = listed(x, numbered(y), 3, costs)
        expected = reference.pool(one, w, mode, temperature, temperature)
        np.testing.assert_allclose(planes.values[k], expected.value, atol=1e-9)
        np.testing.assert_allclose(planes.offsets[k], expected.offset(w), atol=1e-9)
        if temperature or expected.shares.max() == 1.0:
            np.testing.assert_allclose(slopes[k], expected.features, atol=1e-9)
    total = task.total(batch, w, mode, soft, weights)
    np.testing.assert_allclose(total.slope, weights @ slopes, atol=1e-9)
    np.testing.assert_allclose(total.offset, weights @ planes.offsets, atol=1e-9)
    rows = rng.permutation(len(X))[:3]
    np.testing.assert_allclose(task.planes(batch, w, mode, soft, rows).slopes().toarray(), slopes[rows], atol=1e-12)


@pytest.mark.parametrize("latent", [False, True])
def test_the_contract_holds(latent):
    _, X, Y = data(3, latent, n=6)
    check_task(SemiMarkov(LABELS), X, Y)


def test_marginals_are_the_enumeration():
    rng, X, Y = data(5, latent=False)
    task = SemiMarkov(LABELS, max_length=3)
    task.learn(X, Y)
    w = rng.normal(size=task.n_features)
    for x, y, found in zip(X, Y, task.marginals(task.prepare(X), w, Temperature(1.0, 1.0)), strict=True):
        shares = reference.pool(listed(x, numbered(y), 3, 1 - np.eye(2)), w, "free", 1.0, 1.0).shares
        expected = np.zeros((len(x), 2))
        for share, segments in zip(shares, segmentations(len(x), 3), strict=True):
            for first, stop, label in segments:
                expected[first:stop, label] += share
        np.testing.assert_allclose(found, expected, atol=1e-9)


def lengths_matter(n=120, seed=0):
    """Draw segments that only their lengths tell apart: "a" has one token, "b" three."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        at, y = 0, []
        for label in rng.integers(2, size=4):
            size = 3 if label else 1
            y.append((at, at + size, LABELS[label]))
            at += size
        begins = np.zeros((at, 1))
        begins[[first for first, *_ in y]] = 1.0
        X.append(np.hstack([begins, 0.1 * rng.normal(size=(at, 1))]))
        Y.append(y)
    return X, Y


def test_lengths_tell_labels_apart_where_tokens_do_not():
    X, Y = lengths_matter()
    model = StructuralSVM(SemiMarkov(), C=1.0).fit(X[:60], Y[:60])
    assert model.certified_
    assert model.score(X[60:], Y[60:]) > 0.8


@pytest.mark.parametrize("estimator", [LatentSSVM, HiddenCRF])
def test_unknown_segments_and_labels_are_completed(estimator):
    X, Y = lengths_matter()
    half = [[(a, b, -1 if k == 1 else y) for k, (a, b, y) in enumerate(y) if k != 2] for y in Y[:60]]
    model = estimator(SemiMarkov(max_length=3), C=1.0).fit(X[:60], half)
    assert model.score(X[60:], Y[60:]) > 0.6
    batch = model.task_.prepare(X[:60], half)
    completed = model.task_.complete(batch, model.coef_)
    for known, whole in zip(half, completed, strict=True):
        assert {segment for segment in known if segment[2] != -1} <= set(whole)
        assert {segment[:2] for segment in known} <= {segment[:2] for segment in whole}


def test_a_saved_model_predicts_the_same(tmp_path):
    X, Y = lengths_matter(10)
    model = CRF(SemiMarkov(), C=1.0).fit(X, Y)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").predict(X) == model.predict(X)


@pytest.mark.parametrize(
    ("Y", "expected"),
    [
        ([[(0, 2, "a"), (1, 3, "b")]], "do not overlap"),
        ([[(0, 4, "a")]], "segments within the 3 tokens of the sequence"),
        ([[(2, 1, "a")]], "first < stop"),
        ([["a", "b", "a"]], "list of segments"),
        ([[(0, 3, "a")]], "at most 2"),
    ],
)
def test_wrong_segments_are_refused(Y, expected):
    X = [np.ones((3, 1))]
    with raises("Y[0]", expected=expected):
        StructuralSVM(SemiMarkov(LABELS, max_length=2)).fit(X, Y)


def test_latents_that_contradict_what_is_known_are_refused():
    X, Y = [np.ones((3, 1)), np.ones((2, 1))], [[(0, 2, "a")], [(0, 1, "b"), (1, 2, -1)]]
    good = [[(0, 2, "a"), (2, 3, "b")], [(0, 1, "b"), (1, 2, "a")]]
    LatentSSVM(SemiMarkov()).fit(X, Y, H=good)
    for wrong in ([(0, 1, "a"), (1, 3, "a")], [(0, 2, "b"), (2, 3, "b")], [(0, 2, "a")]):
        with raises("latents[0]", expected="segments that cover the sequence and contain those of `Y`"):
            LatentSSVM(SemiMarkov()).fit(X, Y, H=[wrong, good[1]])


def test_two_temperatures_are_refused():
    _, X, Y = data(3, latent=True)
    task = SemiMarkov(LABELS)
    task.learn(X, Y)
    with raises("temperature", expected="the same for outputs and latents"):
        task.planes(task.prepare(X, Y), np.zeros(task.n_features), "free", Temperature(1.0, 0.0))
