"""Chains with rules of labels, their k best labelings, samples, and probabilities of parts of outputs."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from test_partial_labels import evidence_of

import reference
from error_fields import raises
from latentstruct import CRF, Chain, HiddenCRF, StructuralSVM, load
from latentstruct.tasks import TransitionRules, tagging_rules
from latentstruct.tasks.chain.rules import rules_of
from latentstruct.testing import check_task

LABELS = ["B-x", "I-x", "O"]
BIO = tagging_rules(LABELS)
LENGTHS = (3, 0, 1, 4)


def allows(rules, item):
    steps = all(rules.transitions[a, b] for a, b in pairwise(item))
    return not item or bool(steps and rules.start[item[0]] and rules.end[item[-1]])


def data(seed, rules=BIO, lengths=LENGTHS):
    """Sequences with labelings that the rules allow."""
    rng = np.random.default_rng(seed)
    every = {t: [item for item in product(range(3), repeat=t) if allows(rules, item)] for t in lengths}
    Y = [[LABELS[y] for y in every[t][rng.integers(len(every[t]))]] for t in lengths]
    return rng, [rng.normal(size=(t, 2)) for t in lengths], Y


def fitted(estimator, X, Y, w):
    model = estimator.fit(X, Y)
    model.coef_ = w(model.task_.n_features)
    return model


def enumerated(model, x, rules):
    """All allowed labelings of a sequence and their scores."""
    items = [item for item in product(range(3), repeat=len(x)) if allows(rules, item)]
    ends = {"start": model.task_.start, "end": model.task_.end, "bias": False}
    features = np.array([reference.chain_features(x, item, 3, x.shape[1], **ends) for item in items])
    return [[LABELS[y] for y in item] for item in items], features @ model.coef_


def log_sum(values):
    return np.logaddexp.reduce(values)


RULES = st.sampled_from((BIO, TransitionRules(np.ones((3, 3), dtype=bool), *np.ones((2, 3), dtype=bool))))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), rules=RULES, ends=st.booleans(), scale=st.sampled_from((0.5, 5.0)))
def test_answers_are_the_enumeration(seed, rules, ends, scale):
    rng, X, Y = data(seed, rules)
    task = Chain(labels=LABELS, start=ends, end=ends, rules=rules)
    model = fitted(CRF(task), X, Y, lambda d: scale * rng.normal(size=d))
    partial = [[-1 if rng.random() < 0.5 else one for one in y] for y in Y]
    found, best = model.predict(X), model.predict_topk(X, 4)
    probabilities, marginals = np.exp(model.log_probability(X, partial)), model.marginals(X)
    completed, fixed = model.complete(X, partial), model.predict_topk(X, 100, y=partial)
    drawn = model.sample(X, 50, random_state=seed, y=partial)
    for i, x in enumerate(X):
        items, scores = enumerated(model, x, rules)
        order = np.argsort(-scores, kind="stable")
        total = log_sum(scores)
        assert list(found[i]) == items[order[0]]
        assert [list(one.y) for one in best[i]] == [items[k] for k in order[:4]]
        np.testing.assert_allclose([one.score for one in best[i]], scores[order[:4]], atol=1e-9)
        agree = [all(known in (-1, one) for known, one in zip(partial[i], item, strict=True)) for item in items]
        np.testing.assert_allclose(probabilities[i], np.exp(log_sum(scores[agree]) - total), atol=1e-9)
        kept = [tuple(items[k]) for k in order if agree[k]]
        assert {tuple(one.y) for one in fixed[i]} == set(kept)
        np.testing.assert_allclose([one.score for one in fixed[i]], scores[order][np.array(agree)[order]], atol=1e-9)
        assert set(map(tuple, drawn[i])) <= set(kept)
        assert list(completed[i]) == items[max(np.flatnonzero(agree), key=lambda k: scores[k])]
        for t in range(len(x)):
            expected = [np.exp(scores[[item[t] == label for item in items]] - total).sum() for label in LABELS]
            np.testing.assert_allclose(marginals[i][t], expected, atol=1e-9)


def test_samples_have_the_probabilities_of_outputs():
    rng, X, Y = data(0)
    model = fitted(CRF(Chain(labels=LABELS, rules="BIO")), X, Y, lambda d: rng.normal(size=d))
    drawn = model.sample(X, 20_000, random_state=1)
    for x, samples in zip(X, drawn, strict=True):
        items, scores = enumerated(model, x, BIO)
        expected = np.exp(scores - log_sum(scores))
        numbers = {tuple(item): k for k, item in enumerate(items)}
        counts = np.bincount([numbers[tuple(one)] for one in samples], minlength=len(items)) / len(samples)
        # Five standard errors of a frequency.
        assert (np.abs(counts - expected) <= 5 * np.sqrt(expected / len(samples)) + 1e-12).all()
    again = model.sample(X, 20_000, random_state=1)
    assert all((a == b).all() for one, two in zip(drawn, again, strict=True) for a, b in zip(one, two, strict=True))


def test_samples_with_fixed_labels_have_their_conditional_probabilities():
    rng, X, Y = data(1, lengths=(4, 4))
    model = fitted(CRF(Chain(labels=LABELS, start=True, rules="BIO")), X, Y, lambda d: rng.normal(size=d))
    fixed = [[-1, Y[0][1], -1, -1], [-1, -1, -1, Y[1][3]]]
    drawn = model.sample(X, 20_000, random_state=2, y=fixed)
    for x, known, samples in zip(X, fixed, drawn, strict=True):
        items, scores = enumerated(model, x, BIO)
        agree = np.array([all(a in (-1, b) for a, b in zip(known, item, strict=True)) for item in items])
        expected = len(samples) * np.exp(scores[agree] - log_sum(scores[agree]))
        numbers = {tuple(items[k]): at for at, k in enumerate(np.flatnonzero(agree))}
        counts = np.bincount([numbers[tuple(one)] for one in samples], minlength=len(expected))
        # Rare labelings together, as the statistic needs some expected ones per bin.
        rare = expected < 5
        bins = [np.append(values[~rare], values[rare].sum() + 1e-9) for values in (counts, expected)]
        bins = [values[bins[1] > 1e-6] for values in bins]
        assert len(bins[1]) > 3
        assert chisquare(bins[0], bins[1] * bins[0].sum() / bins[1].sum()).pvalue > 1e-6


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), rules=RULES)
def test_training_with_rules_minimizes_the_sum_over_labelings_that_they_allow(seed, rules):
    """Rules together with unknown labels, sets and soft labels."""
    rng, X, Y = data(seed, rules)

    def given(label):
        others = {label, LABELS[rng.integers(3)]}
        soft = {one: rng.uniform(0.1, 1.0) for one in sorted(others)}
        return [label, -1, others, soft][rng.integers(4)]

    partly = [[given(label) for label in y] for y in Y]
    partly[0][0], partly[3][0] = Y[0][0], -1
    model = HiddenCRF(Chain(labels=LABELS, start=True, rules=rules), C=0.7).fit(X, partly)
    expected = 0.5 * model.coef_ @ model.coef_
    for x, y in zip(X, partly, strict=True):
        items, scores = enumerated(model, x, rules)
        evidence = np.array([sum(map(evidence_of, y, item)) for item in items], dtype=float)
        expected -= 0.7 * (log_sum(scores + evidence) - log_sum(scores))
    assert model.objective_ == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_contract_holds_with_rules(seed):
    rng, X, Y = data(seed)
    check_task(Chain(labels=LABELS, start=True, rules=BIO), X, Y)
    half = [[-1 if rng.random() < 0.4 else one for one in y] for y in Y]
    half[0][1] = -1
    check_task(Chain(labels=LABELS, rules="BIO"), X, half)


@pytest.mark.parametrize("estimator", [StructuralSVM, CRF, HiddenCRF])
def test_predictions_keep_the_rules(estimator, tmp_path):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 3)) for _ in range(30)]
    Y = [data(k, lengths=(6,))[2][0] for k in range(30)]
    if estimator is HiddenCRF:
        Y[0][2] = -1
    model = estimator(Chain(rules="BIO"), C=0.1).fit(X, Y)
    others = [rng.normal(size=(9, 3)) for _ in range(40)]
    assert all(allows(BIO, [LABELS.index(one) for one in y]) for y in model.predict(others))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert [list(y) for y in again.predict(others)] == [list(y) for y in model.predict(others)]
    explicit = estimator(Chain(labels=LABELS, rules=BIO), C=0.1).fit(X, Y)
    explicit.save(tmp_path / "explicit")
    assert [list(y) for y in load(tmp_path / "explicit").predict(others)] == [list(y) for y in explicit.predict(others)]


def test_schemes():
    labels = ["O", "B-x", "I-x", "E-x", "S-x", "B-y", "I-y", "E-y"]
    rules = tagging_rules(labels, "BIOES")

    def ok(text):
        return allows(rules, [labels.index(one) for one in text.split()])

    assert all(map(ok, ("O S-x O", "B-x E-x", "B-x I-x E-x B-y I-y E-y", "S-x S-x")))
    assert not any(map(ok, ("B-x O", "I-x E-x", "B-x I-y E-y", "B-x", "E-x", "O I-x E-x", "B-x B-x E-x")))


def test_refusals():
    X, Y = [np.eye(3)] * 2, [["O", "O", "B-x"], ["O", "I-x", "O"]]
    with raises("Y[1]", expected="labels that the rules allow"):
        CRF(Chain(rules="BIO")).fit(X, Y)
    half = [["O", "O", "B-x"], ["O", -1, {"I-x"}]]
    CRF(Chain(labels=LABELS, rules="BIO")).fit(X[:1], Y[:1])
    with raises("Y[1]"):
        HiddenCRF(Chain(labels=LABELS, rules="BIO")).fit(X, [half[0], ["I-x", -1, "O"]])
    HiddenCRF(Chain(labels=LABELS, rules="BIO")).fit(X, half)
    with raises("labels[0]"):
        CRF(Chain(rules="BIO")).fit(X, [["a", "b", "b"]] * 2)
    with raises("scheme"):
        CRF(Chain(rules="other")).fit(X, Y)
    nothing = TransitionRules(np.zeros((3, 3), dtype=bool), *np.ones((2, 3), dtype=bool))
    with raises("rules", got="no sequence of 2 labels"):
        CRF(Chain(labels=LABELS, rules=nothing)).fit(X, Y)
    model = CRF(Chain(labels=LABELS)).fit(X, Y)
    with raises("k"):
        model.predict_topk(X, 0)
    with raises("n_samples"):
        model.sample(X, 0)
    assert not hasattr(StructuralSVM(Chain()).fit(X, Y), "log_probability")
    assert model.task_.tags.topk


def test_forbidden_pairs_are_rules(tmp_path):
    pairs = [("O", "I-x"), (None, "I-x"), ("B-x", None)]
    expected = BIO._replace(end=np.array([False, True, True]))
    for found, known in zip(rules_of(pairs, LABELS), expected, strict=True):
        np.testing.assert_array_equal(found, known)
    rng, X, Y = data(2, expected)
    model = fitted(CRF(Chain(labels=LABELS, rules=pairs)), X, Y, lambda d: rng.normal(size=d))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for one in (model, again):
        for x, found in zip(X, one.predict_topk(X, 100), strict=True):
            assert {tuple(best.y) for best in found} == {tuple(item) for item in enumerated(model, x, expected)[0]}
    for wrong in ([("O", "I-y")], [(None, None)], [("O",)], ["O"], ({"O"}, 1)):
        with raises():
            CRF(Chain(labels=LABELS, rules=wrong)).fit(X, Y)


def test_rules_of_a_trained_model_change():
    rng, X, Y = data(3, BIO)
    model = fitted(CRF(Chain(labels=LABELS)), X, Y, lambda d: rng.normal(size=d))
    strict = model.with_task(rules="BIO")
    assert model.task_.rules is None
    assert strict.coef_ is model.coef_
    for x, found in zip(X, strict.predict_topk(X, 2), strict=True):
        items, scores = enumerated(model, x, BIO)
        assert list(found[0].y) == items[int(np.argmax(scores))]
    assert strict.task.rules == "BIO"
    with raises("labels"):
        model.with_task(labels=["a"])
    with raises("parameters"):
        model.with_task(start=True)
