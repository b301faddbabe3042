import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from error_fields import raises
from latentstruct.metrics import (
    Contingency,
    average_precision,
    contingency,
    error_rate,
    f_beta,
    measure_scores,
    prbep,
    precision_at_k,
    recall_at_k,
    roc_area,
)


@st.composite
def judged(draw, min_size=2, max_size=30, tied=True, both=True):
    """Truth and scores, by choice with ties and with examples of both classes."""
    n = draw(st.integers(min_size, max_size))
    truth = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    if both:
        truth[:2] = [True, False]
        truth = truth[draw(st.permutations(range(n)))]
    levels = st.integers(-2, 2) if tied else st.floats(-1, 1)
    scores = draw(st.lists(levels, min_size=n, max_size=n, unique=not tied))
    return truth, np.array(scores, dtype=np.float64)


betas = st.sampled_from([0.5, 1.0, 2.0])


@given(judged(both=False), betas)
def test_labels_as_scikit_learn(data, beta):
    truth, scores = data
    predicted = scores > 0
    d, b, c, a = sklearn_metrics.confusion_matrix(truth, predicted, labels=[False, True]).ravel()
    table = contingency(truth, predicted)
    assert table == Contingency(a, b, c, d)
    assert f_beta(truth, predicted, beta) == pytest.approx(
        sklearn_metrics.fbeta_score(truth, predicted, beta=beta, zero_division=0)
    )
    assert table.precision == pytest.approx(sklearn_metrics.precision_score(truth, predicted, zero_division=0))
    assert table.recall == pytest.approx(sklearn_metrics.recall_score(truth, predicted, zero_division=0))
    assert error_rate(truth, predicted) == pytest.approx(1 - sklearn_metrics.accuracy_score(truth, predicted))


@given(judged())
def test_roc_area_as_scikit_learn_and_by_pairs(data):
    truth, scores = data
    pairs = np.sign(scores[truth][:, None] - scores[~truth])
    assert roc_area(truth, scores) == pytest.approx((pairs.mean() + 1) / 2)
    assert roc_area(truth, scores) == pytest.approx(sklearn_metrics.roc_auc_score(truth, scores))


@given(judged(tied=False))
def test_without_ties_as_scikit_learn(data):
    truth, scores = data
    assert average_precision(truth, scores) == pytest.approx(sklearn_metrics.average_precision_score(truth, scores))
    precision, recall, _ = sklearn_metrics.precision_recall_curve(truth, scores)
    # Where as many are predicted as are positive, both are the same; elsewhere they differ or are 0.
    assert prbep(truth, scores) == pytest.approx(
        max((p for p, r in zip(precision, recall, strict=True) if math.isclose(p, r)), default=0.0)
    )


@given(judged(max_size=6), st.integers(1, 8))
def test_ties_count_by_the_mean_over_all_orders(data, k):
    truth, scores = data
    found = {"prbep": [], "recall": [], "precision": []}
    for order in itertools.permutations(range(len(scores))):
        ranked = truth[list(order)]
        if (np.diff(scores[list(order)]) <= 0).all():
            found["prbep"].append(ranked[: truth.sum()].mean())
            found["recall"].append(ranked[:k].sum() / truth.sum())
            found["precision"].append(ranked[:k].sum() / k)
    assert prbep(truth, scores) == pytest.approx(np.mean(found["prbep"]))
    assert recall_at_k(truth, scores, k) == pytest.approx(np.mean(found["recall"]))
    assert precision_at_k(truth, scores, k) == pytest.approx(np.mean(found["precision"]))


@given(judged(both=False), st.integers(1, 9), betas)
def test_all_measures_at_once(data, k, beta):
    truth, scores = data
    threshold = 0.5
    found = measure_scores(truth, scores, threshold, beta, k)
    table = Contingency(**found["contingency"])
    assert table == contingency(truth, scores > threshold)
    assert (found["n_examples"], found["error"]) == (len(truth), error_rate(truth, scores > threshold))
    assert found["precision"] == table.precision
    assert found[f"precision@{k}"] == precision_at_k(truth, scores, k)
    assert ("fbeta" in found) == (beta != 1.0)
    expected = {
        "recall": table.recall,
        "f1": table.f_beta(),
        "prbep": prbep(truth, scores),
        "average_precision": average_precision(truth, scores),
        f"recall@{k}": recall_at_k(truth, scores, k),
        **({"fbeta": table.f_beta(beta)} if beta != 1.0 else {}),
    }
    for name, value in expected.items():
        assert found[name] == (value if truth.any() else None)
    assert found["rocarea"] == (roc_area(truth, scores) if truth.any() and not truth.all() else None)
    assert not any(name.startswith(("precision@", "recall@")) for name in measure_scores(truth, scores))


def test_at_the_threshold_is_negative():
    assert measure_scores([True, False], [0.0, 1.0])["contingency"] == {"a": 0, "b": 1, "c": 1, "d": 0}


@pytest.mark.parametrize("beta", [0, -1.0, math.inf, math.nan, "1", None, True, 1e200, 1e-200])
def test_bad_beta(beta):
    with raises("beta", expected="a finite number above 0"):
        f_beta([True], [True], beta)


@pytest.mark.parametrize(
    ("call", "parameter", "got", "expected"),
    [
        (lambda: contingency([1, 2], [1, 0]), "y_true", "", "one boolean per example"),
        (lambda: contingency([True], ["spam"]), "y_pred", "", "one boolean per example"),
        (
            lambda: contingency([[True]], [True]),
            "y_true",
            "bool of shape (1, 1)",
            "one boolean per example, True if positive",
        ),
        (lambda: contingency([True], [True, False]), "y_pred", "", "a sequence of 1 labels"),
        (lambda: prbep([True], [1.0, 2.0]), "scores", "", "an array of shape (1,) (one score per example"),
        (lambda: roc_area([True, False], [1.0, math.nan]), "scores[1]", "", "finite"),
        (lambda: roc_area([True, False], ["a", "b"]), "scores", "", "real numbers"),
        (lambda: roc_area([True, True], [1.0, 2.0]), "y", "2 positive examples of 2", "both classes"),
        (lambda: roc_area([], []), "y", "0 positive examples of 0", "both classes"),
        (lambda: recall_at_k([True, False], [1.0, 2.0], 0), "k", "0", "an integer of at least 1"),
        (lambda: measure_scores([True, False], [1.0, 2.0], k=1.5), "k", "1.5", "an integer of at least 1"),
    ],
)
def test_bad_input(call, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        call()
