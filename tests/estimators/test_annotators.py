"""Several annotators: votes, Dawid & Skene, and the hidden CRF with confusions, against enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from error_fields import raises
from latentstruct import CRF, AnnotatorCRF, Chain, DawidSkene, HiddenCRF, load, majority_vote
from latentstruct.estimators.annotators import read_votes


def draw(seed, lengths=(3, 2, 4), n_annotators=3, n_labels=3):
    rng = np.random.default_rng(seed)
    truth = [rng.integers(0, n_labels, t) for t in lengths]
    X = [np.eye(n_labels)[y] + 0.5 * rng.normal(size=(len(y), n_labels)) for y in truth]
    right = [rng.random((len(y), n_annotators)) < 0.7 for y in truth]
    votes = [np.where(r, y[:, None], rng.integers(0, n_labels, r.shape)) for r, y in zip(right, truth, strict=True)]
    votes = [np.where(rng.random(v.shape) < 0.2, -1, v) for v in votes]
    votes[0][0, 0] = votes[-1][-1, 0] = n_labels - 1
    votes[0][1, 1] = 0
    votes[0][2, 2] = 1
    return rng, X, truth, votes


def test_majorities_and_their_ties():
    assert majority_vote([[["a", "b", "b"], ["a", -1, "b"], [-1, -1, -1]]])[0].tolist() == ["b", "b", "b"]
    assert majority_vote([[["a"]], []], labels=["b", "a"])[1].tolist() == []


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_dawid_skene_improves_its_posterior_and_agrees_with_bayes(seed):
    _, _, _, votes = draw(seed)
    model = DawidSkene(smoothing=0.5, tol=0.0, max_iter=30).fit(votes)
    assert (np.diff(model.objectives_) <= 1e-9 * np.abs(model.objectives_[1:])).all()
    assert np.allclose(model.confusions_.sum(axis=2), 1.0)
    for given_votes, found in zip(votes, model.marginals(votes), strict=True):
        for row, shares in zip(given_votes, found, strict=True):
            joint = model.prior_.copy()
            for a, vote in enumerate(row):
                joint *= model.confusions_[a, :, vote] if vote >= 0 else 1.0
            assert np.allclose(shares, joint / joint.sum())


def test_dawid_skene_trusts_good_annotators():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    liar, chance = 1 - truth, rng.integers(0, 2, (400, 2))
    good = np.where(rng.random((400, 4)) < 0.85, truth[:, None], liar[:, None])
    votes = [np.column_stack([good, liar, chance])]
    found = DawidSkene(smoothing=1.0).fit(votes).predict(votes)[0]
    assert (found == truth).mean() > (majority_vote(votes)[0] == truth).mean()


def enumerate_labelings(model, x, rows):
    """All labelings of a sequence with their scores and log-probabilities of the votes."""
    items = np.array(list(product(range(3), repeat=len(rows))))
    scores = np.array([model.coef_ @ reference.chain_features(x, y, 3, x.shape[1]) for y in items])
    evidence = np.zeros(len(items))
    for t, row in enumerate(rows):
        for a, vote in enumerate(row):
            evidence += np.log(model.confusions_[a, items[:, t], vote]) if vote >= 0 else 0.0
    return items, scores, evidence


def joint_objective(model, X, votes, C, smoothing):
    """½‖w‖² − C (Σ_i log Σ_y P(y | x) Π π(v | y) + Σ pseudo · log π) by enumeration."""
    found = read_votes(votes, [0, 1, 2])
    value = 0.5 * model.coef_ @ model.coef_ - C * (found.prior(smoothing) * np.log(model.confusions_)).sum()
    for x, rows in zip(X, votes, strict=True):
        _, scores, evidence = enumerate_labelings(model, x, rows)
        value -= C * (np.logaddexp.reduce(scores + evidence) - np.logaddexp.reduce(scores))
    return value


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6))
def test_the_objective_of_the_hidden_crf_is_that_of_the_joint_model(seed):
    _, X, _, votes = draw(seed)
    model = AnnotatorCRF(Chain(), C=0.5, smoothing=2.0, em_iter=4, em_tol=0.0)
    with pytest.warns(match="em_iter"):
        model.fit(X, votes)
    assert model.em_objectives_[-1] == pytest.approx(joint_objective(model, X, votes, 0.5, 2.0), rel=1e-8)
    assert (np.diff(model.em_objectives_) <= 1e-3 * np.abs(model.em_objectives_[1:])).all()


def test_posteriors_given_votes_agree_with_enumeration():
    _, X, _, votes = draw(7)
    model = AnnotatorCRF(Chain(), C=0.5).fit(X, votes)
    for x, rows, found, best in zip(
        X, votes, model.infer_marginals(X, votes), model.infer_labels(X, votes), strict=True
    ):
        items, scores, evidence = enumerate_labelings(model, x, rows)
        shares = np.exp(scores + evidence - np.logaddexp.reduce(scores + evidence))
        expected = np.array([[shares[items[:, t] == k].sum() for k in range(3)] for t in range(len(rows))])
        assert np.allclose(found, expected, atol=1e-9)
        assert best.tolist() == items[int((scores + evidence).argmax())].tolist()


def test_one_perfect_annotator_is_ordinary_training():
    _, X, truth, _ = draw(3, lengths=(6, 5, 7))
    votes = [y[:, None] for y in truth]
    model = AnnotatorCRF(Chain(), C=0.5, smoothing=1e-6, tol=1e-7).fit(X, votes)
    # One vote in a hundred is anything in the pseudo-counts, whose number is small.
    assert np.allclose(model.confusions_[0], np.eye(3), atol=1e-4)
    assert np.allclose(model.coef_, CRF(Chain(), C=0.5, tol=1e-7).fit(X, truth).coef_, atol=0.02)


def test_saving_and_loading(tmp_path):
    _, X, _, votes = draw(5)
    model = AnnotatorCRF(Chain(), C=0.5).fit(X, votes)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.confusions_, model.confusions_)
    assert all(map(np.array_equal, again.infer_labels(X, votes), model.infer_labels(X, votes)))


def test_soft_labels_of_dawid_skene_train_a_tagger():
    _, X, _, votes = draw(6)
    soft = DawidSkene().fit(votes).soft_labels(votes)
    assert HiddenCRF(Chain(labels=[0, 1, 2])).fit(X, soft).score(X, soft) == 1.0


def test_bad_votes_are_refused():
    _, X, _, votes = draw(8)
    with raises("votes"):
        majority_vote([])
    with raises("votes[0][1]"):
        majority_vote([[["a", "b"], ["a"]]])
    with raises("votes"):
        majority_vote([[[-1, -1]]])
    with raises("y"):
        AnnotatorCRF(Chain()).fit(X[:2], votes)
    with raises("task"):
        AnnotatorCRF(None).fit(X, votes)
    for missing in (None, float("nan")):
        with raises("votes[0][1]", expected="-1"):
            DawidSkene().fit([[["a", "b"], ["a", missing]]])
    with raises("C", expected="a number"):
        AnnotatorCRF(Chain(), C="auto").fit(X, votes)
    model = AnnotatorCRF(Chain()).fit(X, votes)
    with raises("votes[0][0]"):
        model.infer_labels(X, [rows[:, :2] for rows in votes])
