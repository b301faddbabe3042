"""The term for the expected share of entity tokens: enumeration, derivatives, training, storage and refusals."""

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from error_fields import raises
from latentstruct import CRF, Chain, EntityRatio, HiddenCRF, MarginalSSVM, load
from latentstruct.core.protocols import Temperature
from latentstruct.exceptions import ConvergenceWarning

LABELS = ["O", "A", "B"]


def draw(seed, lengths=(3, 0, 2, 4)):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(t, 2)) for t in lengths]
    Y = [[-1 if rng.random() < 0.5 else str(rng.choice(LABELS[1:])) for _ in range(t)] for t in lengths]
    Y[0][:2] = ["A", "B"]
    return rng, X, Y


def expected_count(X, w, weights, blocks):
    """Σ_i c_i E[number of tokens with another label than O] by enumeration."""
    total = 0.0
    for x, weight in zip(X, weights, strict=True):
        items = list(product(range(3), repeat=len(x)))
        scores = np.array([w @ reference.chain_features(x, y, 3, 2, **blocks) for y in items])
        shares = np.exp(scores - np.logaddexp.reduce(scores))
        total += weight * sum(s * sum(label > 0 for label in y) for s, y in zip(shares, items, strict=True))
    return total


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_counts_and_their_gradients_agree_with_enumeration(seed, ends):
    rng, X, Y = draw(seed)
    blocks = {"start": ends, "end": ends, "bias": ends}
    task = Chain(LABELS, **blocks)
    task.learn(X, Y)
    batch, w, weights = task.prepare(X, Y), rng.normal(size=task.n_features), rng.uniform(0.5, 2.0, len(X))
    soft = Temperature(1.0, 1.0)
    count, total, gradient = task.expected_count(batch, w, soft, ["O"], weights)
    assert count == pytest.approx(expected_count(X, w, weights, blocks))
    assert total == pytest.approx(weights @ [len(x) for x in X])
    direction = rng.normal(size=len(w))
    ahead, behind = (expected_count(X, w + step * direction, weights, blocks) for step in (1e-5, -1e-5))
    assert gradient @ direction == pytest.approx((ahead - behind) / 2e-5, rel=1e-5, abs=1e-7)


def test_the_objective_is_that_of_the_hidden_crf_and_the_term():
    _, X, Y = draw(1)
    ratio = EntityRatio(0.3, margin=0.02, strength=7.0)
    model = HiddenCRF(Chain(LABELS), C=0.5, entity_ratio=ratio).fit(X, Y)
    share = expected_count(X, model.coef_, np.ones(len(X)), {}) / 9
    term = 7.0 * 0.5 * 9 * max(0.0, abs(share - 0.3) - 0.02) ** 2
    likelihood = model.log_probability(X, Y).sum()
    assert model.objective_ == pytest.approx(0.5 * model.coef_ @ model.coef_ - 0.5 * likelihood + term)
    assert not model.certified_


def test_entities_alone_are_learned_with_the_ratio_only():
    rng = np.random.default_rng(0)
    truth = [rng.choice(["O", "B"], 12, p=[0.8, 0.2]).tolist() for _ in range(40)]
    X = [np.array([[y == "B", 1.0] for y in labels]) + 0.3 * rng.normal(size=(12, 2)) for labels in truth]
    Y = [[label if label == "B" and rng.random() < 0.7 else -1 for label in labels] for labels in truth]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plain = HiddenCRF(Chain(["O", "B"]), C=1.0).fit(X, Y)
    model = HiddenCRF(Chain(["O", "B"]), C=1.0, entity_ratio=EntityRatio(0.2)).fit(X, Y)
    assert any("no token has the label O" in str(one.message) for one in caught)
    assert plain.score(X, truth) < 0.5
    assert model.score(X, truth) > 0.9


def test_saving_and_loading(tmp_path):
    _, X, Y = draw(2)
    model = HiddenCRF(Chain(LABELS), entity_ratio=EntityRatio(0.3)).fit(X, Y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.entity_ratio.get_params() == model.entity_ratio.get_params()
    assert np.array_equal(again.coef_, model.coef_)


def test_refusals():
    _, X, Y = draw(3)
    with raises("ratio"):
        HiddenCRF(Chain(LABELS), entity_ratio=EntityRatio(1.0)).fit(X, Y)
    with raises("entity_ratio"):
        HiddenCRF(Chain(LABELS), entity_ratio=0.3).fit(X, Y)
    with raises("label", got="'O'"):
        HiddenCRF(Chain(), entity_ratio=EntityRatio(0.3)).fit(X, Y)
    with raises("entity_ratio"):
        HiddenCRF(Chain(LABELS), entity_ratio=EntityRatio(0.3), executor="local").fit(X, Y)
    assert "entity_ratio" not in CRF(Chain()).get_params()


@pytest.mark.parametrize("estimator", [HiddenCRF, MarginalSSVM])
@pytest.mark.parametrize(
    ("Y", "expected"),
    [
        ([["B-X", -1], ["B-X", "I-X"]], ["no token has the label O"]),
        ([["B-X", -1], ["B-X", "O"]], ["not missing at random"]),
        ([["B-X", -1, "O"], ["B-X", "O"]], []),
        ([["B-X", -1, {"O", "I-X"}], ["B-X", "O"]], []),
        ([["B-X", -1, {"O": 0.2, "I-X": 0.8}], ["B-X"]], []),
        ([["B-X", -1, -100], [-100]], ["no token has the label O"]),
        ([["B-X", "I-X"], ["B-X"]], []),
        ([["B-X", -1, "O"], [-1]], []),
        ([["B-X", "O"], *[]], []),
        ([["B-X", "O"], [], [-1, -1]], ["5 of 15 sequences have no known label"]),
        ([["NOUN", -1], ["VERB"]], []),
    ],
)
def test_labels_that_are_no_random_sample_are_warned_of(estimator, Y, expected):
    Y = 5 * Y
    X = [np.ones((len(labels), 1)) for labels in Y]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator(Chain(), max_iter=1).fit(X, Y)
    found = [one for one in caught if one.category is UserWarning]
    assert [text in str(one.message) for one, text in zip(found, expected, strict=True)] == [True] * len(expected)
    assert all(one.filename == __file__ for one in found)


def test_a_given_share_of_entities_needs_no_warning():
    X, Y = [np.ones((2, 1))] * 15, [["B-X", -1], ["B-X", "O"], [-1, -1]] * 5
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        HiddenCRF(Chain(), entity_ratio=EntityRatio(0.5), max_iter=1).fit(X, Y)


def test_few_sequences_may_be_chance():
    HiddenCRF(Chain()).fit([np.ones((2, 1))] * 5, [["B-X", -1]] * 4 + [["B-X", "I-X"]])


def test_weights_of_tokens_need_no_warning():
    X, Y = [np.ones((2, 1))] * 12, [["B-X", "O"], ["B-X", "O"]] * 6
    HiddenCRF(Chain()).fit(X, Y, sample_weight=[[2.0, 1.0], [1.0, 1.0]] * 6)
