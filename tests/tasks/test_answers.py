"""The best outputs and samples of graphs, alignments and trees, compared with the list of all."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing_reference import BANK, SENTENCES, list_trees, trees
from parsing_reference import learned as learned_parser
from test_alignment import LETTERS, all_match_sets, letter_features, small_pairs
from test_graph import KINDS, STATES, hamming, in_labels, learned, list_assignments, random_data, random_graph

from error_fields import raises
from latentstruct import CRF, Alignment, Graph, GraphInput, Parsing, StructuralSVM
from latentstruct.core.protocols import Temperature
from latentstruct.tasks.alignment import task as alignment_module

SOFT = Temperature(1.0, 1.0)


def check_best(found, keys, scores, k, key):
    """The best outputs of each example against all outputs (keys) and their scores."""
    for best, listed, own in zip(found, keys, scores, strict=True):
        expected = np.sort(own)[::-1][:k]
        np.testing.assert_allclose([one.score for one in best], expected, rtol=1e-9, atol=1e-9)
        names = [key(one) for one in best]
        assert len(set(names)) == len(names)
        by_name = dict(zip(listed, own, strict=True))
        np.testing.assert_allclose([by_name[name] for name in names], expected, rtol=1e-9, atol=1e-9)


def check_samples(drawn, keys, scores, key):
    """Frequencies of samples against the probabilities of all outputs, within five standard errors."""
    for samples, listed, own in zip(drawn, keys, scores, strict=True):
        expected = Counter()
        for name, share in zip(listed, np.exp(own - np.logaddexp.reduce(own)), strict=True):
            expected[name] += share
        counts, n = Counter(map(key, samples)), len(samples)
        assert set(counts) <= set(expected)
        for name, share in expected.items():
            # Frequencies of rare outputs are not normal.
            assert abs(counts[name] / n - share) <= 5 * np.sqrt(share / n) + 10 / n


# ---- graphs --------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 10**6), st.sampled_from(KINDS), st.booleans(), st.sampled_from([1, 4, 200]), st.sampled_from([1, 30])
)
def test_the_best_labelings_of_graphs_are_those_of_the_list(seed, kind, shared, k, scale):
    rng, graphs, truth = random_data(seed, kind, shared, hidden=False, edge_features=1)
    task, _, _ = learned(graphs, truth, shared=shared)
    w = scale * rng.normal(size=task.n_features)
    listed = list_assignments(graphs, truth, STATES, shared, hamming)
    keys = [[tuple(in_labels(g, x)) for x in one.items] for g, one in zip(graphs, listed, strict=True)]
    found = task.topk(task.prepare(graphs), w, k)
    check_best(found, keys, [one.features @ w for one in listed], k, lambda one: tuple(one.y.tolist()))


@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_graphs_have_the_frequencies_of_the_model(kind):
    rng, graphs, truth = random_data(5, kind, share=0.0)
    task, _, _ = learned(graphs, truth)
    w = rng.normal(size=task.n_features)
    listed = list_assignments(graphs, truth, STATES, True, hamming)
    keys = []
    for graph, one in zip(graphs, listed, strict=True):
        shown = [np.where(graph.node_types == "h", -1, x) for x in one.items]
        keys.append([tuple(in_labels(graph, x)) for x in shown])
    drawn = task.sample(task.prepare(graphs), w, SOFT, 3000, np.random.default_rng(0))
    check_samples(drawn, keys, [one.features @ w for one in listed], lambda y: tuple(y.tolist()))


def test_graphs_that_have_no_exact_answers_are_refused():
    rng = np.random.default_rng(0)
    graph = random_graph(rng, "grid", hidden=False, second_type=False, max_size=6)
    graph = GraphInput(rng.normal(size=(4, 2)), np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))
    model = CRF(Graph(max_entries=4)).fit([graph], [["x", "y", "x", "z"]])
    for answer in (model.predict_topk, model.sample):
        with raises("X", got="too wide"):
            answer([graph])
    rng, graphs, truth = random_data(1, "tree", share=0.0)
    task, _, _ = learned(graphs, truth)
    assert task.layout_.hidden.any()
    with raises(got="hidden"):
        task.topk(task.prepare(graphs), np.zeros(task.n_features), 2)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(KINDS))
def test_answers_agree_with_fixed_labels(seed, kind):
    rng, graphs, truth = random_data(seed, kind, share=0.5, hidden=False)
    task, _, Y = learned(graphs, truth)
    w = rng.normal(size=task.n_features)
    listed = list_assignments(graphs, truth, STATES, True, hamming)
    keys, scores = [], []
    for graph, one, y in zip(graphs, listed, Y, strict=True):
        names = [tuple(in_labels(graph, x)) for x in one.items]
        kept = [k for k, x in enumerate(names) if all(a in (-1, b) for a, b in zip(y, x, strict=True))]
        keys.append([names[k] for k in kept])
        scores.append((one.features @ w)[kept])
    batch = task.prepare(graphs, Y)
    check_best(task.topk(batch, w, 300), keys, scores, 300, lambda one: tuple(one.y.tolist()))
    drawn = task.sample(batch, w, SOFT, 500, np.random.default_rng(seed))
    check_samples(drawn, keys, scores, lambda y: tuple(y.tolist()))


# ---- alignments ----------------------------------------------------------------------------------------------


def matches_of(y):
    return tuple(map(tuple, y.tolist()))


@settings(deadline=None, max_examples=40)
@given(small_pairs(), st.sampled_from(["local", "global"]), st.sampled_from([1, 3, 1000]))
def test_the_best_alignments_are_those_of_the_list(data, mode, k):
    X, Y, w = data
    task = Alignment(mode=mode, alphabet=LETTERS)
    task.learn(X, Y)
    keys = [all_match_sets(len(a), len(b)) for a, b in X]
    both = zip(X, keys, strict=True)
    scores = [np.array([letter_features(a, b, one, mode == "local") @ w for one in sets]) for (a, b), sets in both]
    found = task.topk(task.prepare(X), w, k)
    check_best(found, keys, scores, k, lambda one: matches_of(one.y))


@pytest.mark.parametrize("mode", ["local", "global"])
def test_samples_of_alignments_have_the_frequencies_of_the_model(mode):
    X, Y = [("ACD", "CDAA"), ("A", "CD")], [[(0, 0)], []]
    task = Alignment(mode=mode, alphabet=LETTERS)
    task.learn(X, Y)
    w = np.random.default_rng(3).normal(size=task.n_features)
    keys = [all_match_sets(len(a), len(b)) for a, b in X]
    both = zip(X, keys, strict=True)
    scores = [np.array([letter_features(a, b, one, mode == "local") @ w for one in sets]) for (a, b), sets in both]
    drawn = task.sample(task.prepare(X), w, SOFT, 4000, np.random.default_rng(0))
    check_samples(drawn, keys, scores, matches_of)


@settings(deadline=None, max_examples=40)
@given(small_pairs(), st.sampled_from(["local", "global"]))
def test_answers_agree_with_fixed_matches(data, mode):
    X, Y, w = data
    task = Alignment(mode=mode, alphabet=LETTERS)
    task.learn(X, Y)
    keys, scores = [], []
    for (a, b), y in zip(X, Y, strict=True):
        keys.append([one for one in all_match_sets(len(a), len(b)) if set(matches_of(y)) <= set(one)])
        scores.append(np.array([letter_features(a, b, one, mode == "local") @ w for one in keys[-1]]))
    batch = task.prepare(X, Y)
    check_best(task.topk(batch, w, 1000), keys, scores, 1000, lambda one: matches_of(one.y))


def test_long_pairs_have_their_best_alignment_first():
    rng = np.random.default_rng(0)
    X = [tuple("".join(rng.choice(list(LETTERS), n)) for n in sizes) for sizes in ((60, 80), (1, 90))]
    for mode in ("local", "global"):
        task = Alignment(mode=mode, alphabet=LETTERS)
        task.learn(X, [[(0, 0)], []])
        w = np.concatenate([rng.normal(size=task.n_features - 2), [1.5, 0.5]])
        batch = task.prepare(X)
        for best, one in zip(task.topk(batch, w, 3), task.decode(batch, w, Temperature()), strict=True):
            assert best[0].score == pytest.approx(one.score)
            assert best[0].score >= best[1].score >= best[2].score


def test_alignments_that_need_too_much_memory_are_refused(monkeypatch):
    monkeypatch.setattr(alignment_module, "MOST_DERIVED_CELLS", 5)
    model = StructuralSVM(Alignment(alphabet=LETTERS)).fit([("AC", "AC")], [[(0, 0), (1, 1)]])
    with raises("X[0]"):
        model.predict_topk([("ACD", "CD")])


# ---- trees ---------------------------------------------------------------------------------------------------


@given(
    st.lists(trees(), min_size=1, max_size=3),
    st.sampled_from([("rules", None, 1), ("spans", 0, 1), ("spans", 1, 1), ("rules", 1, 2)]),
    st.booleans(),
    st.sampled_from([1, 3, 3000]),
    st.integers(0, 2**31),
)
@settings(max_examples=40, deadline=None)
def test_the_best_trees_are_those_of_the_list(Y, parameters, tagged, k, seed):
    features, markov, splits = parameters
    case = learned_parser(Parsing(features, markov=markov, rare=0, splits=splits), Y, tagged)
    w = np.random.default_rng(seed).normal(size=case.task.n_features)
    listed = list_trees(case.task, case.X, Y)
    keys = [[(tree, subs if splits > 1 else None) for tree, subs in one.items] for one in listed]
    found = case.task.topk(case.task.prepare(case.X), w, k)

    def key(one):
        return one.y, None if one.h is None else tuple(one.h.tolist())

    check_best(found, keys, [one.features @ w for one in listed], k, key)


@pytest.mark.parametrize("splits", [1, 2])
def test_samples_of_trees_have_the_frequencies_of_the_model(splits):
    case = learned_parser(Parsing("spans", splits=splits, rare=0), BANK[:1] + BANK[3:4], tagged=True)
    w = 0.5 * np.random.default_rng(2).normal(size=case.task.n_features)
    listed = list_trees(case.task, case.X, case.Y)
    drawn = case.task.sample(case.task.prepare(case.X), w, SOFT, 3000, np.random.default_rng(0))
    keys = [[tree for tree, _ in one.items] for one in listed]
    check_samples(drawn, keys, [one.features @ w for one in listed], lambda tree: tree)


def test_answers_of_trained_parsers():
    model = CRF(Parsing("spans"), C=0.3).fit(SENTENCES, BANK)
    X = [*SENTENCES, ["barks", "the"]]
    best = model.predict_topk(X, 3)
    assert [one[0].y for one in best[:-1]] == list(model.predict(SENTENCES))
    # The grammar has no such sentence.
    assert best[-1] == []
    assert model.sample(X, 2, random_state=1) == model.sample(X, 2, random_state=1)
    shares = np.exp(model.log_probability([X[0]] * len(best[0]), [one.y for one in best[0]]))
    assert (np.diff(shares) <= 1e-12).all()
    assert shares.sum() <= 1 + 1e-9
