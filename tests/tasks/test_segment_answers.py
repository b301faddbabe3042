"""The best segmentations and samples of them, compared with the list of all."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_semi_markov import LABELS, features, segmentations

from error_fields import raises
from latentstruct import CRF, SemiMarkov, StructuralSVM

LONGEST = 3


def trained(seed, estimator=CRF):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(t, 2)) for t in (4, 0, 1, 3)]
    Y = [[(0, 3, "a"), (3, 4, "b")], [], [(0, 1, "a")], [(0, 1, "b"), (1, 3, "a")]]
    return rng, X, estimator(SemiMarkov()).fit(X, Y)


def scores_of(x, w):
    """Segmentations of a sequence and their scores, by enumeration."""
    listed = segmentations(len(x), LONGEST)
    found = [tuple((a, b, LABELS[y]) for a, b, y in one) for one in listed]
    return dict(zip(found, (features(x, one, LONGEST) @ w for one in listed), strict=True))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 3, 50]))
def test_the_best_segmentations_are_those_of_the_list(seed, k):
    _, X, model = trained(seed, StructuralSVM)
    for x, best in zip(X, model.predict_topk(X, k), strict=True):
        listed = scores_of(x, model.coef_)
        expected = sorted(listed.values(), reverse=True)[:k]
        assert np.allclose([one.score for one in best], expected)
        assert np.allclose([listed[tuple(one.y)] for one in best], expected)
        assert len({tuple(one.y) for one in best}) == len(best)


def test_samples_have_the_frequencies_of_the_model():
    _, X, model = trained(1)
    n = 4000
    drawn = model.sample(X, n, random_state=0)
    assert drawn[1] == [[]] * n
    for x, samples in zip(X, drawn, strict=True):
        listed = scores_of(x, model.coef_)
        total = np.logaddexp.reduce(list(listed.values()))
        counts = Counter(map(tuple, samples))
        for one, score in listed.items():
            share = np.exp(score - total)
            assert abs(counts[one] / n - share) < 5 * np.sqrt(share * (1 - share) / n) + 1e-9
    again = model.sample(X, 3, random_state=5)
    assert again == model.sample(X, 3, random_state=5)


def test_probabilities_of_parts_agree_with_the_list():
    _, X, model = trained(2)
    known = [[(1, 3, "a")], [], [], [(0, 1, "b")]]
    for x, part, found in zip(X, known, model.log_probability(X, known), strict=True):
        listed = scores_of(x, model.coef_)
        agree = [score for one, score in listed.items() if set(part) <= set(one)]
        expected = np.logaddexp.reduce(agree) - np.logaddexp.reduce(list(listed.values()))
        assert found == pytest.approx(expected, abs=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6))
def test_answers_agree_with_fixed_segments(seed):
    rng, X, model = trained(seed)
    # A part of some segmentation is fixed.
    known = []
    for x in X:
        every = list(scores_of(x, model.coef_))
        chosen = every[rng.integers(len(every))]
        known.append([(a, b, -1 if rng.random() < 0.3 else label) for a, b, label in chosen if rng.random() < 0.5])
    drawn = model.sample(X, 300, random_state=0, y=known)
    for x, part, best, samples in zip(X, known, model.predict_topk(X, 100, y=known), drawn, strict=True):
        listed = scores_of(x, model.coef_)
        agree = {}
        for one, score in listed.items():
            found = {(a, b): label for a, b, label in one}
            if all(found.get((a, b)) in ((label,) if label != -1 else LABELS) for a, b, label in part):
                agree[one] = score
        assert {tuple(one.y) for one in best} == set(sorted(agree, key=agree.get, reverse=True)[:100])
        assert np.allclose([one.score for one in best], sorted(agree.values(), reverse=True)[:100])
        assert set(map(tuple, samples)) <= set(agree)


def test_models_without_probabilities_do_not_draw():
    _, X, model = trained(3, StructuralSVM)
    with raises():
        model.sample(X)
