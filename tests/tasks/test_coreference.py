"""Coreference and correlation clustering against the enumeration of all forests and partitions."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import reference
from error_fields import raises
from latentstruct import LatentSSVM, StructuralSVM
from latentstruct._native import clustering
from latentstruct._native.pairs import distinct_rows
from latentstruct.core.protocols import Temperature
from latentstruct.data.documents import Document, Mention
from latentstruct.tasks import Coreference, CorrelationClustering
from latentstruct.testing import check_task
from latentstruct_papers import lssvm_coref
from latentstruct_papers.trials import Setup

MODES = ("free", "augmented", "clamped")
HARD = Temperature()
FORMS = ("dense", "indicators", "csr")


def partition_of(n_items, edges):
    """Component numbers by first appearance, by relabeling until nothing changes."""
    labels = list(range(n_items))
    for i, j in edges:
        old, new = max(labels[i], labels[j]), min(labels[i], labels[j])
        labels = [new if label == old else label for label in labels]
    return canonical(labels)


def canonical(labels):
    numbers = {}
    return tuple(numbers.setdefault(label, len(numbers)) for label in labels)


def all_forests(n_items):
    """All sets of edges without a circle, each with its components."""
    pairs = list(combinations(range(n_items), 2))
    for size in range(n_items):
        for edges in combinations(pairs, size):
            labels = partition_of(n_items, edges)
            if len(set(labels)) == n_items - size:
                yield edges, labels


def all_partitions(n_items):
    def grow(labels):
        if len(labels) == n_items:
            yield tuple(labels)
            return
        for label in range(max(labels, default=-1) + 2):
            yield from grow([*labels, label])

    return list(grow([]))


def forest_loss(truth, edges, penalty):
    """Equation (8) of Yu and Joachims, written down."""
    links = sum(1.0 if truth[i] == truth[j] else -penalty for i, j in edges)
    return len(truth) - len(set(truth)) - links


def list_forests(X, Y, penalty):
    listed = []
    for x, y in zip(X, Y, strict=True):
        n_items = len(y)
        row = {pair: p for p, pair in enumerate(combinations(range(n_items), 2))}
        items = list(all_forests(n_items))
        features = np.array([sum((x[row[e]] for e in edges), np.zeros(x.shape[1])) for edges, _ in items])
        losses = np.array([forest_loss(y, edges, penalty) for edges, _ in items])
        outputs = [labels for _, labels in items]
        numbers = {labels: k for k, labels in enumerate(dict.fromkeys(outputs))}
        listed.append(
            reference.Listed(
                features, losses, np.array([numbers[labels] for labels in outputs]), numbers[canonical(y)], items
            )
        )
    return listed


def list_partitions(X, Y):
    listed = []
    for x, y in zip(X, Y, strict=True):
        pairs = list(combinations(range(len(y)), 2))
        items = all_partitions(len(y))
        features, losses = np.zeros((len(items), x.shape[1])), np.zeros(len(items))
        for k, labels in enumerate(items):
            for p, (i, j) in enumerate(pairs):
                features[k] += (labels[i] == labels[j]) * x[p] / len(pairs)
                losses[k] += ((labels[i] == labels[j]) != (y[i] == y[j])) / len(pairs)
        listed.append(reference.Listed(features, losses, np.arange(len(items)), items.index(canonical(y)), items))
    return listed


def documents(seed, sizes=(3, 1, 5, 2, 4), d=4, form="dense"):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(m * (m - 1) // 2, d)) for m in sizes]
    if form == "indicators":
        X = [1.0 * (x > 0.3) for x in X]
    Y = [rng.integers(0, 3, m).tolist() for m in sizes]
    return rng, X, Y, [sparse.csr_array(x) for x in X] if form != "dense" else X


def compare(task, batch, listed, w, rows=None, ties=False):
    chosen = np.arange(len(listed)) if rows is None else rows
    for mode in MODES:
        planes = task.planes(batch, w, mode, HARD, rows)
        expected = [reference.pool(listed[i], w, mode) for i in chosen]
        np.testing.assert_allclose(planes.values, [e.value for e in expected], atol=1e-9)
        np.testing.assert_allclose(planes.offsets + planes.dot(w), planes.values, atol=1e-9)
        assert planes.all_exact
        # Where several are best, any of them will do, but it must be one that exists.
        for i, slope, offset in zip(chosen, planes.slopes().toarray(), planes.offsets, strict=True):
            example = listed[i]
            losses = example.losses if mode == "augmented" else np.zeros(len(example.losses))
            known = np.isclose(losses, offset) & np.isclose(example.features, slope).all(axis=1)
            assert known.any()
        if not ties:
            np.testing.assert_allclose(planes.slopes().toarray(), [e.features for e in expected], atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("penalty", [1.0, 0.01, 2.5])
def test_coreference_is_the_enumeration(form, penalty):
    rng, X, Y, given = documents(3, form=form)
    task = Coreference(penalty)
    task.learn(given, Y)
    batch = task.prepare(given, Y)
    listed = list_forests(X, Y, penalty)
    for scale in (0.0, 0.3, 1.0, 10.0):
        w = scale * rng.normal(size=4)
        ties = scale == 0.0 or form == "indicators"
        compare(task, batch, listed, w, ties=ties)
        compare(task, batch, listed, w, rows=np.array([4, 0, 2]), ties=ties)


@pytest.mark.parametrize("form", FORMS)
def test_clustering_is_the_enumeration(form):
    rng, X, Y, given = documents(4, sizes=(3, 1, 6, 2, 5), form=form)
    X[0][:] = 0.0
    task = CorrelationClustering()
    task.learn(given, Y)
    batch = task.prepare(X if form == "dense" else [sparse.csr_array(x) for x in X], Y)
    listed = list_partitions(X, Y)
    for scale in (0.0, 0.3, 1.0, 10.0):
        w = scale * rng.normal(size=4)
        compare(task, batch, listed, w, ties=True)
        compare(task, batch, listed, w, rows=np.array([4, 0, 2]), ties=True)


@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from(["normal", "few", "one"]))
@settings(deadline=None, max_examples=60)
def test_spanning_tree_is_that_of_kruskal(seed, n_items, kind):
    rng = np.random.default_rng(seed)
    n_pairs = n_items * (n_items - 1) // 2
    scores = {
        "normal": rng.normal(size=n_pairs),
        "few": rng.integers(-2, 3, n_pairs).astype(float),
        "one": np.ones(n_pairs),
    }[kind]
    link, height = np.empty(n_items, dtype=np.int64), np.empty(n_items)
    clustering.spanning_tree(scores, link, height)
    pairs = list(combinations(range(n_items), 2))
    taken, labels = [], list(range(n_items))
    for p in np.argsort(-scores, kind="stable"):
        i, j = pairs[p]
        if labels[i] != labels[j]:
            taken.append(scores[p])
            labels = [labels[i] if label == labels[j] else label for label in labels]
    np.testing.assert_allclose(sorted(height[1:]), sorted(taken))
    assert link[0] == -1
    found = [(v, int(link[v])) for v in range(1, n_items)]
    assert [scores[pairs.index((min(e), max(e)))] for e in found] == height[1:].tolist()
    assert set(partition_of(n_items, found)) == {0}


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=7),
    st.data(),
    st.sampled_from([1.0, 0.01, 3.0]),
)
@settings(deadline=None, max_examples=100)
def test_loss_is_zero_only_for_the_right_clusters(truth, data, penalty):
    n_items = len(truth)
    predicted = data.draw(st.lists(st.integers(0, 3), min_size=n_items, max_size=n_items))
    task = Coreference(penalty)
    batch_latents = task.random_latents(labeled_batch(task, predicted), np.random.default_rng(0))
    for forests in (None, batch_latents):
        loss = task.loss([truth], [predicted], forests)
        assert loss.shape == (1,)
        assert loss[0] >= -1e-12
        assert (abs(loss[0]) < 1e-12) == (canonical(truth) == canonical(predicted))
    expected = forest_loss(truth, batch_latents[0].tolist(), penalty)
    np.testing.assert_allclose(task.loss([truth], [predicted], batch_latents), expected)


def labeled_batch(task, *Y):
    X = [np.ones((len(y) * (len(y) - 1) // 2, 2)) for y in Y]
    task.learn(X, Y)
    return task.prepare(X, Y)


def test_contract():
    _, X, Y, _ = documents(0, sizes=(1, 2, 5, 4, 13, 3))
    for task in (Coreference(), Coreference(0.01), CorrelationClustering()):
        check_task(task, X, Y)
        check_task(task, X[:4], Y[:4])


@pytest.mark.parametrize("task", [Coreference(0.5), CorrelationClustering()])
def test_predictions(task):
    rng, X, Y, _ = documents(7, sizes=(4, 1, 5))
    task.learn(X, Y)
    listed = list_forests(X, Y, 0.5) if task.latent else list_partitions(X, Y)
    for _ in range(5):
        w = rng.normal(size=4)
        for example, found in zip(listed, task.decode(task.prepare(X), w, HARD), strict=True):
            best = reference.pool(example, w, "free")
            item = example.items[int(best.shares.argmax())]
            np.testing.assert_allclose(found.score, best.value)
            assert tuple(found.y) == (item[1] if task.latent else item)
            if task.latent:
                assert found.h.tolist() == [list(edge) for edge in sorted(item[0])]
            else:
                assert found.h is None


def test_completions():
    rng, X, Y, _ = documents(8)
    task = Coreference()
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    w = rng.normal(size=4)
    clamped = task.planes(batch, w, "clamped", HARD)
    best = task.completion_planes(batch, task.complete(batch, w))
    np.testing.assert_allclose(best.dot(w), clamped.values)
    assert best.rows is clamped.rows
    for latents in (
        task.random_latents(batch, rng),
        task.initial_latents(batch, rng, 0),
        [h[:, ::-1] for h in task.initial_latents(batch, rng, 3)],
    ):
        planes = task.completion_planes(batch, latents)
        assert (planes.dot(w) <= clamped.values + 1e-9).all()
        np.testing.assert_array_equal(planes.offsets, 0.0)


def test_first_latents_are_chronological():
    task = Coreference()
    batch = labeled_batch(task, ["a", "b", "a", "a", "b", "c"], ["x"])
    first, single = task.initial_latents(batch, np.random.default_rng(0), 0)
    assert first.tolist() == [[0, 2], [1, 4], [2, 3]]
    assert single.shape == (0, 2)


def test_random_trees_are_uniform():
    task = Coreference()
    batch = labeled_batch(task, [5, 5, 5, 5])
    rng = np.random.default_rng(1)
    counts = {}
    for _ in range(3200):
        (edges,) = task.random_latents(batch, rng)
        key = frozenset(frozenset(edge) for edge in edges.tolist())
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 16
    # 200 expected each: five standard deviations are 68.
    assert all(abs(count - 200) < 70 for count in counts.values())


def test_wrong_forests_are_refused():
    task = Coreference()
    batch = labeled_batch(task, ["a", "a", "a", "b"])
    for edges, got, expected in (
        ([[0, 1], [0, 3]], "[0, 3]", "edges between items of the same cluster"),
        ([[0, 1]], "1 edges", "2 edges, a spanning tree of each cluster"),
        ([[0, 1], [1, 0]], "2 edges with a cycle", "2 edges, a spanning tree of each cluster"),
        ([[0, 1], [2, 2]], "[2, 2]", "pairs of different items from 0 to 3"),
        ([0, 1], "of shape (2,)", "an integer array of shape (E, 2)"),
        ([[0.0, 1.0], [1.0, 2.0]], "float64 of shape (2, 2)", "an integer array of shape (E, 2)"),
    ):
        with raises("latents[0]", got=got, expected=expected):
            task.completion_planes(batch, [np.array(edges)])
    with raises("latents", got="2 latents", expected="a sequence of 1 latents"):
        task.completion_planes(batch, [[[0, 1], [1, 2]]] * 2)
    with raises("H_pred", got="2 forests", expected="a sequence of 1 forests"):
        task.loss([[0, 0]], [[0, 0]], [[[0, 1]]] * 2)


ONE = np.ones((1, 2))
TASKS = (Coreference(), CorrelationClustering())


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("X", "Y", "parameter", "got", "expected"),
    [
        ([ONE], [[0, 0, 1]], "Y[0]", "3 labels", "a sequence of 2 labels"),
        ([np.ones((2, 2))], [[0, 0]], "X[0]", "", "m(m − 1)/2 rows, one per pair of m items in"),
        ([ONE, np.ones((1, 3))], [[0, 0], [0, 1]], "X[1]", "", "rows with 2 features, as in training"),
        ([ONE], [[0, 0], [0, 1]], "Y", "2 outputs", "a sequence of 1 outputs"),
        ([ONE], [[]], "Y[0]", "", "a sequence of at least one cluster label"),
        ([ONE], ["ab"], "Y[0]", "", "a sequence of at least one cluster label"),
        ([ONE], [[[0], [1]]], "Y[0]", "", "hashable cluster labels"),
        ([ONE], [[0.0, np.nan]], "Y[0]", "", "cluster labels that are equal to themselves"),
        ([np.full((1, 2), np.inf)], [[0, 1]], "X[0]", "inf at row 0, column 0", "finite"),
        ([], [], "X", "none", "at least one example"),
    ],
)
def test_bad_documents(task, X, Y, parameter, got, expected):
    task.n_features = 2
    with raises(parameter, got=got, expected=expected):
        task.prepare(X, Y)


def test_bad_requests():
    _, X, Y, _ = documents(0)
    for penalty in (0.0, -1.0, np.inf, np.nan):
        with raises("penalty", expected="a finite number above 0"):
            Coreference(penalty).learn(X, Y)
    with raises("penalty", got="'r'", expected="a finite number above 0"):
        Coreference("r").learn(X, Y)
    for task in TASKS:
        task.learn(X, Y)
        with raises("temperature", got="(1.0, 0.0)", expected="(0, 0) for Cor"):
            task.planes(task.prepare(X, Y), np.zeros(4), "free", Temperature(1.0))
        with raises("mode", got="'augmented'", expected="'free' for a batch without true outputs"):
            task.planes(task.prepare(X), np.zeros(4), "augmented", HARD)
        with raises("Y_pred[0]", got="2 labels", expected="a sequence of 3 labels"):
            task.loss([[0, 0, 0]], [[0, 0]])


@given(st.integers(0, 10**6), st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_exact_partitions(seed, n_items):
    scores = np.random.default_rng(seed).normal(size=n_items * (n_items - 1) // 2)
    best = np.empty(n_items, dtype=np.int64)
    clustering.partition_exactly(scores, best)
    reached = clustering.partition_value(scores, best)
    if n_items <= 7:
        pairs = np.array(list(combinations(range(n_items), 2)), dtype=int).reshape(-1, 2)
        values = [
            scores[np.array(labels)[pairs[:, 0]] == np.array(labels)[pairs[:, 1]]].sum()
            for labels in all_partitions(n_items)
        ]
        np.testing.assert_allclose(reached, max(values))
    greedy = np.empty(n_items, dtype=np.int64)
    clustering.merge_greedily(scores, greedy)
    merged = clustering.partition_value(scores, greedy)
    clustering.move_items(scores, greedy)
    moved = clustering.partition_value(scores, greedy)
    assert 0.0 <= merged <= moved + 1e-9
    assert moved <= reached + 1e-9


@given(st.integers(0, 10**6), st.floats(0.0, 3.0))
@settings(deadline=None, max_examples=25)
def test_augmented_clustering_is_never_below_the_truth(seed, scale):
    rng, X, Y, _ = documents(seed, sizes=(14, 3, 20))
    task = CorrelationClustering()
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    w = scale * rng.normal(size=4)
    augmented = task.planes(batch, w, "augmented", HARD)
    assert not augmented.all_exact
    assert task.planes(batch, w, "augmented", HARD, np.array([1])).all_exact
    assert task.planes(batch, w, "clamped", HARD).all_exact
    assert augmented.each_exact.tolist() == [False, True, False]
    assert (augmented.values >= task.planes(batch, w, "clamped", HARD).values - 1e-9).all()
    np.testing.assert_allclose(augmented.offsets + augmented.dot(w), augmented.values, atol=1e-9)


def test_large_clusters_are_summed_up():
    _, X, _, _ = documents(5, sizes=(12,))
    task = CorrelationClustering()
    task.learn(X, [[0] * 12])
    batch = task.prepare(X, [[0] * 12])
    planes = task.planes(batch, np.ones(4), "clamped", HARD)
    assert planes.pointers.tolist() == [0, 4]
    np.testing.assert_allclose(planes.slopes().toarray()[0], X[0].mean(axis=0))


@given(st.integers(0, 10**6), st.booleans())
@settings(deadline=None, max_examples=40)
def test_equal_rows_are_kept_once(seed, ones):
    rng = np.random.default_rng(seed)
    matrix = 1.0 * (rng.random((30, 3)) < 0.4) if ones else rng.integers(0, 3, (30, 3)).astype(float)
    rows = sparse.csr_array(matrix)
    numbers, first = np.empty(30, dtype=np.int32), np.empty(30, dtype=np.int32)
    bits = np.zeros(0, dtype=np.uint64) if ones else rows.data.view(np.uint64)
    n_rows = distinct_rows(rows.indptr.astype(np.int64), rows.indices.astype(np.uint32), bits, numbers, first)
    assert n_rows == len(np.unique(matrix, axis=0))
    np.testing.assert_array_equal(matrix[first[:n_rows]][numbers], matrix)


def planted(seed, n_documents=12, d=6):
    """Documents whose strongest link of an item to an earlier one of its cluster shows in feature 0."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n_documents):
        y = rng.integers(0, 4, 9)
        i, j = np.triu_indices(9, 1)
        x = 0.3 * rng.normal(size=(36, d))
        x[:, 1] = 1.0
        for b in range(1, 9):
            earlier = np.flatnonzero(y[:b] == y[b])
            if len(earlier):
                x[(i == rng.choice(earlier)) & (j == b), 0] += 3.0
        X.append(x)
        Y.append(y)
    return X, Y


def test_latent_links_are_learned():
    X, Y = planted(0)
    model = LatentSSVM(Coreference(), C=10.0).fit(X, Y)
    assert model.score(X, Y) > 0.97
    test_X, test_Y = planted(1)
    assert model.score(test_X, test_Y) > 0.9
    for y, h, completed in zip(test_Y, model.predict_latent(test_X), model.complete(test_X, test_Y), strict=True):
        assert h.shape[1] == 2
        assert len(completed) == len(y) - len(set(y.tolist()))


def test_clusters_that_no_pair_contradicts_are_learned():
    rng = np.random.default_rng(2)
    Y = [rng.integers(0, 3, 8) for _ in range(10)]
    i, j = np.triu_indices(8, 1)
    X = [np.stack([1.0 * (y[i] == y[j]), np.ones(28)], axis=1) for y in Y]
    for model in (LatentSSVM(Coreference(), C=10.0), StructuralSVM(CorrelationClustering(), C=1000.0)):
        assert model.fit(X, Y).score(X, Y) == 1.0


def test_state_is_kept():
    _, X, Y, _ = documents(1)
    for task in (Coreference(), CorrelationClustering()):
        task.learn(X, Y)
        other = type(task)()
        other.restore(task.state())
        assert other.n_features == 4


def small_corpus(n_documents=8):
    """Documents of a few sentences in which two persons are named and then meant by pronouns."""
    rng = np.random.default_rng(3)
    made = []
    for k in range(n_documents):
        sentences, mentions = [], []
        for s in range(4):
            person = int(rng.integers(2))
            word = ("Mr. Brown", "Mrs. White")[person] if s < 2 or rng.random() < 0.5 else ("he", "she")[person]
            words = word.split()
            sentences.append([*words, "saw", "it", "."])
            mentions += [
                Mention(s, 0, len(words), f"p{person}", "PER"),
                Mention(s, len(words) + 1, len(words) + 2, f"it{s}", "LOC"),
            ]
        made.append(Document(f"d{k}", sentences, mentions))
    return made


def test_experiment(monkeypatch, tmp_path):
    monkeypatch.setattr(lssvm_coref, "load_litbank", lambda home: small_corpus())
    said = []
    lssvm_coref.load.cache_clear()
    findings = lssvm_coref.run(Setup(quick=True, say=said.append))
    lssvm_coref.load.cache_clear()
    losses, measures = findings.tables
    names = [row[0] for row in losses.rows]
    assert list(dict.fromkeys(names)) == [
        "SVM-cluster",
        "LSSVM",
        "LSSVM, r = 0.01",
        "every mention alone",
        "all mentions together",
    ]
    assert [row[0] for row in measures.rows] == names
    assert losses.rows[0][2:4] == [41.3, 2.89]
    assert any("test MITRE loss" in line for line in said)
    # Nobody links anything: all links are missed, and as many pairs are wrong as are together in truth.
    alone = next(row for row in losses.rows if row[0] == "every mention alone")
    assert alone[4] == "100.0 ± 0.0"
    learned = [float(row[4].partition(" ")[0]) for row in losses.rows if row[1] is not None]
    assert len(learned) >= 3
    assert max(learned) < 50
    files = findings.save(tmp_path)
    assert [path.name for path in files] == [
        "lssvm-coref.json",
        "lssvm-coref.txt",
        "lssvm-coref.html",
        "lssvm-coref-mitre.png",
        "lssvm-coref-pair.png",
    ]
