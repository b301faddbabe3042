"""Scores of clusterings against their definitions, against published examples, and for what must not matter."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.metrics import ClusterScore, cluster_scores

MEASURES = ("muc", "b_cubed", "ceaf_entity", "ceaf_mention", "lea", "pairs")


def sets_of(labels):
    return [{k for k, other in enumerate(labels) if other == label} for label in dict.fromkeys(labels)]


def muc_counts(key, response):
    """Vilain et al.: Σ |S| − |p(S)| over Σ |S| − 1, where p(S) is the partition of S by the response."""
    hits = sum(len(S) - sum(bool(S & R) for R in response) for S in key)
    return hits, sum(len(S) - 1 for S in key)


def b_cubed_counts(key, response):
    total = 0.0
    for S in key:
        for item in S:
            (R,) = (R for R in response if item in R)
            total += len(S & R) / len(S)
    return total, sum(map(len, key))


def ceaf_counts(key, response, similarity):
    short, long = sorted((key, response), key=len)
    best = max(
        sum(similarity(a, b) for a, b in zip(short, order, strict=True)) for order in permutations(long, len(short))
    )
    return best, sum(similarity(S, S) for S in key)


def pair_counts(key, response):
    together = [{frozenset(pair) for S in sets for pair in combinations(S, 2)} for sets in (key, response)]
    return len(together[0] & together[1]), len(together[0])


def lea_counts(key, response):
    """Moosavi and Strube: |S| times the fraction of its links in the response; an item alone has a link to itself."""
    total = 0.0
    for S in key:
        links = {frozenset(pair) for pair in combinations(S, 2)} or {frozenset(S)}
        found = {frozenset(pair) for R in response for pair in (combinations(R, 2) if len(R) > 1 else [tuple(R)])}
        total += len(S) * len(links & found) / len(links)
    return total, sum(map(len, key))


def phi3(a, b):
    return len(a & b)


def phi4(a, b):
    return 2 * len(a & b) / (len(a) + len(b))


COUNTS = {
    "muc": muc_counts,
    "b_cubed": b_cubed_counts,
    "ceaf_entity": lambda key, response: ceaf_counts(key, response, phi4),
    "ceaf_mention": lambda key, response: ceaf_counts(key, response, phi3),
    "lea": lea_counts,
    "pairs": pair_counts,
}


def expected_score(measure, documents):
    """Precision, recall and F1 with counts added up over documents; 1 if nothing was there on either side."""
    recall, precision = np.zeros(2), np.zeros(2)
    for truth, found in documents:
        key, response = sets_of(truth), sets_of(found)
        recall += COUNTS[measure](key, response)
        precision += COUNTS[measure](response, key)
    if precision[1] == recall[1] == 0:
        return 1.0, 1.0, 1.0
    p = precision[0] / precision[1] if precision[1] else 0.0
    r = recall[0] / recall[1] if recall[1] else 0.0
    return p, r, 2 * p * r / (p + r) if p and r else 0.0


def as_tuple(score):
    return score.precision, score.recall, score.f1


@st.composite
def clusterings(draw):
    documents = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 7))
        labels = st.lists(st.integers(0, 4), min_size=size, max_size=size)
        documents.append((draw(labels), draw(labels)))
    return documents


@given(clusterings())
@settings(deadline=None, max_examples=150)
def test_scores_are_their_definitions(documents):
    truth, found = zip(*documents, strict=True)
    scores = cluster_scores(truth, found)
    for measure in MEASURES:
        np.testing.assert_allclose(as_tuple(getattr(scores, measure)), expected_score(measure, documents), atol=1e-12)
    losses, wrong = [], []
    for y, y_hat in documents:
        losses.append(1.0 - expected_score("muc", [(y, y_hat)])[2])
        pairs = list(combinations(range(len(y)), 2))
        errors = sum((y[i] == y[j]) != (y_hat[i] == y_hat[j]) for i, j in pairs)
        wrong.append(errors / len(pairs) if pairs else 0.0)
    np.testing.assert_allclose(scores.mitre_loss, np.mean(losses), atol=1e-12)
    np.testing.assert_allclose(scores.pair_loss, np.mean(wrong), atol=1e-12)
    f1 = [getattr(scores, measure).f1 for measure in ("muc", "b_cubed", "ceaf_entity")]
    np.testing.assert_allclose(scores.conll_f1, np.mean(f1))
    assert scores.n_documents == len(documents)
    assert scores.n_items == sum(map(len, truth))


@given(clusterings(), st.permutations("abcde"))
@settings(deadline=None, max_examples=50)
def test_names_and_order_do_not_matter(documents, names):
    truth, found = zip(*documents, strict=True)
    renamed = [[names[label] for label in y] for y in found]
    assert cluster_scores(truth, renamed) == cluster_scores(truth, found)
    swapped, scores = cluster_scores(found, truth), cluster_scores(truth, found)
    reversed_order = cluster_scores([y[::-1] for y in reversed(truth)], [np.array(y[::-1]) for y in reversed(found)])
    for measure in MEASURES:
        one, other, back = (getattr(which, measure) for which in (scores, swapped, reversed_order))
        np.testing.assert_allclose(as_tuple(one), (other.recall, other.precision, other.f1), atol=1e-12)
        np.testing.assert_allclose(as_tuple(one), as_tuple(back), atol=1e-12)


@given(clusterings())
@settings(deadline=None, max_examples=50)
def test_equal_clusterings_are_perfect(documents):
    truth = [y for y, _ in documents]
    scores = cluster_scores(truth, truth)
    for measure in MEASURES:
        np.testing.assert_allclose(as_tuple(getattr(scores, measure)), 1.0)
    assert (scores.mitre_loss, scores.pair_loss) == (0.0, 0.0)


# The example of Bagga and Baldwin (1998) with the responses and figures of Luo (2005), Table 1.
KEY = [0] * 5 + [1] * 2 + [2] * 5
RESPONSES = {
    "two larger clusters joined": ([0] * 5 + [2] * 7, 0.947, 0.865, 0.833, 0.733),
    "two large clusters joined": ([0] * 5 + [1] * 2 + [0] * 5, 0.947, 0.737, 0.583, 0.667),
    "all joined": ([0] * 12, 0.900, 0.545, 0.417, 0.294),
    "nothing joined": (list(range(12)), 0.0, 0.400, 0.250, 0.178),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_published_example(name):
    response, *figures = RESPONSES[name]
    scores = cluster_scores([KEY], [response])
    found = [getattr(scores, measure).f1 for measure in ("muc", "b_cubed", "ceaf_mention", "ceaf_entity")]
    np.testing.assert_allclose(found, figures, atol=6e-4)


def test_published_precision():
    scores = cluster_scores([KEY], [RESPONSES["two larger clusters joined"][0]])
    np.testing.assert_allclose(as_tuple(scores.muc)[:2], (0.9, 1.0))
    np.testing.assert_allclose(as_tuple(scores.b_cubed)[:2], (16 / 21, 1.0))


def test_weights_count_documents():
    one, two = ([0, 0, 1, 1], [0, 0, 0, 0]), ([0, 1, 2], [0, 1, 1])
    truth, found = zip(one, two, two, strict=True)
    weighted = cluster_scores([one[0], two[0]], [one[1], two[1]], [1.0, 2.0])
    repeated = cluster_scores(truth, found)
    for measure in MEASURES:
        np.testing.assert_allclose(as_tuple(getattr(weighted, measure)), as_tuple(getattr(repeated, measure)))
    np.testing.assert_allclose(weighted.mitre_loss, repeated.mitre_loss)
    np.testing.assert_allclose(weighted.pair_loss, repeated.pair_loss)


def test_ratios_without_a_denominator():
    assert cluster_scores([[0, 1]], [[0, 1]]).muc == ClusterScore(1.0, 1.0, 1.0)
    assert cluster_scores([[0, 1]], [[0, 0]]).muc == ClusterScore(0.0, 0.0, 0.0)
    assert cluster_scores([[0, 0]], [[0, 1]]).pairs == ClusterScore(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("truth", "found", "parameter", "expected"),
    [
        ([[0]], [[0], [1]], "Y_pred", "a sequence of 1 documents"),
        ([[0, 1]], [[0]], "Y_pred[0]", "a sequence of 2 labels"),
        ([], [], "Y_true", "at least one document"),
        ([[]], [[]], "Y_true[0]", "a sequence of at least one cluster label"),
        ([[0]], [3], "Y_pred[0]", "a sequence of at least one cluster label"),
        ([["a"]], ["a"], "Y_pred[0]", "a sequence of at least one cluster label"),
    ],
)
def test_bad_input(truth, found, parameter, expected):
    with raises(parameter, expected=expected):
        cluster_scores(truth, found)


@pytest.mark.parametrize("weights", [[1.0], [0.0, 0.0], [-1.0, 1.0], [np.nan, 1.0]])
def test_bad_weights(weights):
    with raises("sample_weight", expected="2 finite weights ≥ 0 (one per document), not all 0"):
        cluster_scores([[0], [0]], [[0], [0]], weights)
