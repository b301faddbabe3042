"""Inference of parsing, against all trees of small sentences."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing_reference import (
    BANK,
    SENTENCES,
    derivations,
    features_of,
    learned,
    list_trees,
    nodes_of,
    plain_tree,
    require_few,
    trees,
    twin_constituents,
    unshared,
)
from test_tasks import close, compare

import reference
from error_fields import raises
from latentstruct import CRF, HiddenCRF, StructuralSVM
from latentstruct.core.oracles import SlackOracle
from latentstruct.core.protocols import Query, Temperature
from latentstruct.data.trees import Constituent, tagged_words, words
from latentstruct.tasks.parsing.batch import probable_constituents
from latentstruct.tasks.parsing.task import LEAST_PROBABILITY, Parsing
from latentstruct.testing import check_task


@given(
    st.lists(trees(), min_size=1, max_size=3),
    st.sampled_from(["rules", "spans"]),
    st.sampled_from([None, 0, 1]),
    st.booleans(),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.sampled_from([0.0, 1.0, 40.0, 200.0]),
    st.integers(0, 2**31),
)
@settings(max_examples=60, deadline=None)
def test_task_is_the_enumeration(Y, features, markov, tagged, temperature, scale, seed):
    case = learned(Parsing(features, markov=markov, rare=0), Y, tagged)
    listed = list_trees(case.task, case.X, Y)
    assert all(len({item[0] for item in one.items}) == len(one.items) for one in listed)
    w = scale * np.random.default_rng(seed).normal(size=case.task.n_features)
    if scale or temperature:
        compare(case.task, case.batch, listed, w, Temperature(temperature, temperature))
    for found, one in zip(case.task.decode(case.batch, w, Temperature()), listed, strict=True):
        scores = one.features @ w
        close(found.score, scores.max())
        close(scores[[item[0] for item in one.items].index(found.y)], scores.max())


@given(
    st.lists(trees(most_words=3, labels=("A",)), min_size=1, max_size=2),
    st.sampled_from(["rules", "spans"]),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.sampled_from([(2, True), (2, False), (3, True)]),
    st.integers(0, 2**31),
)
@settings(max_examples=30, deadline=None)
def test_split_symbols_are_the_enumeration(Y, features, temperature, splits_and_tagged, seed):
    splits, tagged = splits_and_tagged
    case = learned(Parsing(features, splits=splits, rare=0), Y, tagged)
    listed = list_trees(case.task, case.X, Y)
    w = np.random.default_rng(seed).normal(size=case.task.n_features)
    compare(case.task, case.batch, listed, w, Temperature(temperature, temperature))
    for latent, one in zip(case.task.complete(case.batch, w), listed, strict=True):
        known = one.outputs == one.true_output
        scores = np.where(known, one.features @ w, -np.inf)
        assert one.items[int(scores.argmax())][1] == tuple(latent)


@given(
    st.lists(trees(), min_size=1, max_size=3),
    st.lists(
        st.sampled_from(["u", "v", "w", "unknown", "7", ("u", "x"), ("unknown", "y"), ("w", "unseen")]),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["rules", "spans"]),
    st.integers(0, 1),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(1, 2),
    st.integers(0, 2**31),
)
@settings(max_examples=60, deadline=None)
def test_sentences_that_were_not_trained_on_are_the_enumeration(Y, tokens, features, rare, temperature, splits, seed):
    case = learned(Parsing(features, splits=splits, rare=rare), Y, tagged=False)
    w = np.random.default_rng(seed).normal(size=case.task.n_features)
    # The second sentence has a chart of its own after that of the longer first one.
    batch = case.task.prepare([["u"] * 5, tokens])
    planes = case.task.planes(batch, w, "free", Temperature(temperature, temperature))
    found = case.task.decode(batch, w, Temperature())[1]
    nodes = [unshared(node) for node in derivations(case.task, tokens)]
    require_few(sum(splits ** len(nodes_of(node)) for node in nodes))
    if not nodes:
        assert planes.values[1] == found.score == -np.inf
        assert words(found.y) == [token if isinstance(token, str) else token[0] for token in tokens]
        assert not planes.slopes().toarray()[1].any()
        return
    chosen = [(node, subs) for node in nodes for subs in product(range(splits), repeat=len(nodes_of(node)))]
    phi = np.array([features_of(case.task, node, subs, tokens) for node, subs in chosen])
    scores = phi @ w
    best = scores.max()
    shares = np.exp((scores - best) / temperature) if temperature else (scores == best).astype(float)
    close(planes.values[1], best + temperature * np.log(shares.sum()))
    close(found.score, best)
    equally_good = [node for (node, _), score in zip(chosen, scores, strict=True) if score > best - 1e-9]
    assert found.y in [plain_tree(case.task, node, tokens) for node in equally_good]
    if temperature:
        close(planes.slopes().toarray()[1], shares @ phi / shares.sum())


@given(st.lists(trees(), min_size=1, max_size=3), st.integers(0, 2**31), st.sampled_from([0.1, 1.0]))
@settings(max_examples=40, deadline=None)
def test_f1_search_answers_with_trees_and_at_most_the_maximum(Y, seed, scale):
    case = learned(Parsing(loss="f1", rare=0), Y, tagged=False)
    w = scale * np.random.default_rng(seed).normal(size=case.task.n_features)
    planes = case.task.planes(case.batch, w, "augmented", Temperature())
    assert not planes.all_exact
    assert len(case.task.planes(case.batch, w, "augmented", Temperature(), np.zeros(0, dtype=np.int64))) == 0
    for k, one in enumerate(list_trees(case.task, case.X, Y)):
        best = reference.pool(one, w, "augmented")
        floor = reference.pool(one, w, "clamped").value
        assert floor - 1e-9 <= planes.values[k] <= best.value + 1e-9
        slope = planes.slopes().toarray()[k]
        same = np.abs(one.features - slope).max(axis=1) + np.abs(one.losses - planes.offsets[k])
        assert same.min() < 1e-9


@given(st.lists(trees(), min_size=1, max_size=3), st.integers(0, 2**31), st.sampled_from([0.1, 1.0]), st.integers(1, 2))
@settings(max_examples=25, deadline=None)
def test_f1_of_short_sentences_is_the_maximum(Y, seed, scale, splits):
    case = learned(Parsing("spans", loss="f1", rare=0, exact_words=4, splits=splits), Y, tagged=splits == 2)
    listed = list_trees(case.task, case.X, Y)
    w = scale * np.random.default_rng(seed).normal(size=case.task.n_features)
    assert case.task.planes(case.batch, w, "augmented", Temperature()).all_exact
    compare(case.task, case.batch, listed, w, Temperature())


def test_f1_is_exact_for_each_short_sentence():
    case = learned(Parsing(loss="f1", exact_words=3), BANK, tagged=False)
    w = 0.3 * np.random.default_rng(0).normal(size=case.task.n_features)
    rows = np.array([1, 0, 5, 3])
    found = case.task.pool_batch(case.batch, Query(w, "augmented", rows=rows))
    np.testing.assert_array_equal(found.exact, [len(SENTENCES[k]) <= 3 for k in rows])
    assert not case.task.planes(case.batch, w, "augmented", Temperature(), rows).all_exact
    assert case.task.planes(case.batch, w, "augmented", Temperature(), rows[found.exact]).all_exact
    # Answers are in the order of the rows, whichever way they were found.
    for value, loss, k in zip(found.values, found.losses, rows, strict=True):
        alone = case.task.pool_batch(case.batch, Query(w, "augmented", rows=np.array([k])))
        close([value, loss], [alone.values[0], alone.losses[0]])


@given(st.lists(trees(), min_size=1, max_size=3), st.sampled_from(["hamming", "f1"]), st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_slack_rescaled_planes_are_those_of_trees(Y, loss, seed):
    case = learned(Parsing(loss=loss, rare=0), Y, tagged=False)
    listed = list_trees(case.task, case.X, Y)
    oracle = SlackOracle(case.task, case.batch, np.ones(len(Y)))
    for scale in (0.0, 0.1, 1.0):
        w = scale * np.random.default_rng(seed).normal(size=case.task.n_features)
        reference.check_slack_planes(oracle.planes(w), listed, w)


def test_f1_search_mostly_finds_the_maximum():
    hits = 0
    for seed in range(20):
        case = learned(Parsing(loss="f1"), BANK[:4], tagged=False)
        w = 0.3 * np.random.default_rng(seed).normal(size=case.task.n_features)
        values = case.task.planes(case.batch, w, "augmented", Temperature()).values
        best = [reference.pool(one, w, "augmented").value for one in list_trees(case.task, case.X, BANK[:4])]
        hits += int((values > np.array(best) - 1e-9).sum())
    assert hits >= 70


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize(
    "task",
    [
        Parsing(),
        Parsing("spans", markov=None),
        Parsing(loss="f1"),
        Parsing(splits=2),
        Parsing("spans", splits=3, markov=0),
        Parsing(loss="f1", splits=2),
        Parsing(loss="f1", exact_words=4),
        Parsing("spans", loss="f1", exact_words=9),
    ],
)
def test_contract(task, tagged):
    check_task(task, [tagged_words(tree) for tree in BANK] if tagged else SENTENCES, BANK)


# ---- probabilities of constituents ---------------------------------------------------------------------------


def twin_marginals(listed, w, temperature):
    """The probabilities of constituents by summing up all trees and their sub-symbols."""
    scores = listed.features @ w / temperature
    shares = np.exp(scores - scores.max())
    found = {}
    for (tree, _), share in zip(listed.items, shares / shares.sum(), strict=True):
        for one in twin_constituents(tree)[0]:
            found[one] = found.get(one, 0.0) + share
    return found


@given(
    st.lists(trees(), min_size=1, max_size=3),
    st.sampled_from([("rules", None), ("spans", 0), ("spans", 1)]),
    st.booleans(),
    st.sampled_from([0.4, 1.0]),
    st.sampled_from([0.0, 1.0, 10.0, 200.0]),
    st.integers(0, 2**31),
)
@settings(max_examples=30, deadline=None)
def test_marginals_are_those_of_all_trees(Y, features_and_markov, tagged, temperature, scale, seed):
    features, markov = features_and_markov
    case = learned(Parsing(features, markov=markov, rare=0), Y, tagged)
    w = scale * np.random.default_rng(seed).normal(size=case.task.n_features)
    check_marginals(case, w, temperature)


@given(
    st.lists(trees(most_words=3, labels=("A",)), min_size=1, max_size=2),
    st.sampled_from([(2, True), (2, False), (3, True)]),
    st.sampled_from([0.4, 1.0]),
    st.integers(0, 2**31),
)
@settings(max_examples=30, deadline=None)
def test_marginals_of_sub_symbols_are_summed_up(Y, splits_and_tagged, temperature, seed):
    splits, tagged = splits_and_tagged
    case = learned(Parsing("spans", splits=splits, rare=0), Y, tagged)
    check_marginals(case, np.random.default_rng(seed).normal(size=case.task.n_features), temperature)


def check_marginals(case, w, temperature):
    """Compare the probabilities of constituents with those by all trees."""
    reported = case.task.marginals(case.batch, w, Temperature(temperature, temperature))
    for found, listed in zip(reported, list_trees(case.task, case.X, case.Y), strict=True):
        expected = twin_marginals(listed, w, temperature)
        assert set(found) <= set(expected)
        assert {one for one, share in expected.items() if share > 1.001 * LEAST_PROBABILITY} <= set(found)
        for one, share in found.items():
            assert isinstance(one, Constituent)
            assert LEAST_PROBABILITY < share <= 1.0
            close(share, expected[one])


def test_marginals_of_trained_models():
    X = [*SENTENCES, ["barks", "the"], ["dogs"]]
    for model in (CRF(Parsing("spans"), C=0.3), HiddenCRF(Parsing(splits=2), C=0.3, restarts=1)):
        model.fit(SENTENCES, BANK)
        *known, underivable, single = model.marginals(X)
        assert underivable == {}
        close(single[Constituent("NP", 0, 1)], 1.0)
        for sentence, found in zip(SENTENCES, known, strict=True):
            # One of the two root labels spans all words.
            close(sum(found.get(Constituent(label, 0, len(sentence)), 0.0) for label in ("S", "NP")), 1.0)
            places = [(one.start, -one.end) for one in found]
            assert places == sorted(places)
        assert any(0.01 < share < 0.99 for found in known for share in found.values())


def test_marginals_need_a_temperature():
    case = learned(Parsing(), BANK, tagged=False)
    with raises("temperature", got="0.0", expected="above 0 for marginals"):
        case.task.marginals(case.batch, np.zeros(case.task.n_features), Temperature())
    split = learned(Parsing(splits=2), BANK, tagged=False)
    with raises("temperature", got="(0.0, 1.0)", expected="the same for outputs and latents"):
        split.task.marginals(split.batch, np.zeros(split.task.n_features), Temperature(0.0, 1.0))
    with raises("temperature", expected="above 0 for probabilities"):
        StructuralSVM(Parsing(), max_iter=200).fit(SENTENCES, BANK).marginals(SENTENCES)


@given(st.integers(1, 12))
def test_cells_are_numbered_by_first_words_and_ends(n):
    spans = [(i, j) for i in range(n) for j in range(i + 1, n + 1)]
    cells = np.arange(len(spans))
    found = probable_constituents(["A"], n, cells, np.zeros(len(spans), dtype=int), cells / len(spans))
    assert found == {Constituent("A", *span): cell / len(spans) for cell, span in enumerate(spans)}
    assert list(found) == sorted(found, key=lambda one: (one.start, -one.end))
