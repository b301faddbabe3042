"""Rankings: tasks against enumeration, measures against all orders of ties, files and the LETOR loader."""

import gzip
import io
import os
import sys
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import reference
from error_fields import raises
from latentstruct import LatentSSVM, PairwiseRanking, PrecisionAtK, StructuralSVM, load
from latentstruct.core.protocols import Temperature
from latentstruct.exceptions import FormatError
from latentstruct.io import read_queries, write_scores
from latentstruct.metrics import average_precision, ndcg_at_k, precision_at_k, ranking_scores
from latentstruct.testing import check_task
from latentstruct_papers import lssvm_iterations, lssvm_precision, run_experiment
from latentstruct_papers.datasets import load_letor_mq2008, load_letor_ohsumed

HARD = Temperature()
MODES = ("free", "augmented", "clamped")
needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# ---- the first k documents ---------------------------------------------------------------------------------


def list_choices(X, Y, k):
    """All sets of min(k, n) documents; those with as many relevant ones as possible fit the grades."""
    listed = []
    for x, y in zip(X, Y, strict=True):
        relevant = np.asarray(y) > 0
        sets = list(combinations(range(len(x)), min(k, len(x))))
        hits = np.array([relevant[list(chosen)].sum() for chosen in sets])
        most = min(k, relevant.sum())
        features = np.array([x[list(chosen)].sum(axis=0) / k for chosen in sets])
        losses = min(1, relevant.sum() / k) - hits / k
        listed.append(reference.Listed(features, losses, (hits < most).astype(int), 0, sets))
    return listed


@st.composite
def small_queries(draw, n_features=2):
    """Queries of 1 to 6 documents with small whole features, so that scores often tie."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    numbers = st.integers(-2, 2)
    X = [np.array([[draw(numbers) for _ in range(n_features)] for _ in range(n)], dtype=float) for n in sizes]
    Y = [np.array([draw(st.integers(0, 2)) for _ in range(n)]) for n in sizes]
    w = np.array([draw(numbers) for _ in range(n_features)], dtype=float)
    return X, Y, w


def learned(task, X, Y):
    task.learn(X, Y)
    return task, task.prepare(X, Y)


@settings(max_examples=150, deadline=None)
@given(small_queries(), st.integers(1, 8), st.booleans())
def test_first_k_is_the_enumeration(data, k, as_sparse):
    X, Y, w = data
    assume(any((y > 0).any() for y in Y))
    listed = list_choices(X, Y, k)
    task, batch = learned(PrecisionAtK(k), [sparse.csr_array(x) for x in X] if as_sparse else X, Y)
    for mode in MODES:
        planes = task.planes(batch, w, mode, HARD)
        expected = [reference.pool(e, w, mode) for e in listed]
        close(planes.values, [e.value for e in expected])
        close(planes.offsets + planes.dot(w), planes.values)
        for example, slope, offset in zip(listed, planes.slopes().toarray(), planes.offsets, strict=True):
            # Ties may be decided differently, but what was chosen must be a candidate with its own loss.
            same = np.abs(example.features - slope).max(axis=1) < 1e-9
            if mode == "augmented":
                same &= np.abs(example.losses - offset) < 1e-9
            if mode == "clamped":
                same &= example.outputs == 0
            assert same.any()
        weights = np.linspace(0.5, 2.0, len(X))
        close(task.total(batch, w, mode, HARD, weights).slope, weights @ planes.slopes().toarray())
        rows = np.arange(len(X))[::-1]
        close(task.planes(batch, w, mode, HARD, rows).slopes().toarray(), planes.slopes().toarray()[rows])


@settings(max_examples=150, deadline=None)
@given(small_queries(), st.integers(1, 8))
def test_ties_go_to_the_first_document(data, k):
    X, Y, w = data
    assume(any((y > 0).any() for y in Y))
    task, batch = learned(PrecisionAtK(k), X, Y)
    decoded = task.decode(batch, w, HARD)
    completed = task.complete(batch, w)
    for x, y, prediction, h in zip(X, Y, decoded, completed, strict=True):
        scores = x @ w
        assert prediction.h.tolist() == sorted(range(len(x)), key=lambda j: -scores[j])[:k]
        assert h.tolist() == sorted(range(len(x)), key=lambda j: (y[j] <= 0, -scores[j]))[:k]
        assert prediction.y.tolist() == [int(j in prediction.h) for j in range(len(x))]
        close(prediction.score, scores[prediction.h].sum() / k)
    completions = task.completion_planes(batch, completed)
    clamped = task.planes(batch, w, "clamped", HARD)
    close(completions.slopes().toarray(), clamped.slopes().toarray())
    assert completions.rows is clamped.rows
    assert not completions.offsets.any()


@settings(max_examples=60, deadline=None)
@given(small_queries(), st.integers(1, 8), st.integers(0, 5))
def test_starts_fit_the_grades(data, k, attempt):
    X, Y, w = data
    assume(any((y > 0).any() for y in Y))
    task, batch = learned(PrecisionAtK(k), X, Y)
    rng = np.random.default_rng(attempt)
    values = task.planes(batch, w, "clamped", HARD).values
    for latents in (task.random_latents(batch, rng), task.initial_latents(batch, rng, attempt)):
        planes = task.completion_planes(batch, latents)
        assert (planes.dot(w) <= values + 1e-9).all()
        assert [len(h) for h in latents] == [min(k, len(x)) for x in X]


def query_data(seed=0, sizes=(1, 3, 7, 5, 2, 6), d=3):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, d)) for n in sizes]
    Y = [rng.integers(0, 3, n) for n in sizes]
    Y[3][:] = 0
    return X, Y


@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_first_k_keeps_the_contract(k):
    check_task(PrecisionAtK(k), *query_data())


def test_a_query_without_relevant_documents_changes_nothing():
    X, Y = query_data()
    task, batch = learned(PrecisionAtK(2), X, Y)
    for seed in range(5):
        w = np.random.default_rng(seed).normal(size=3)
        plus, minus = (task.planes(batch, w, mode, HARD) for mode in ("augmented", "clamped"))
        close(plus.slopes().toarray()[3], minus.slopes().toarray()[3])
        assert plus.offsets[3] == 0
        # So does a list that is not longer than k.
        assert plus.values[0] == minus.values[0]


@settings(max_examples=100, deadline=None)
@given(small_queries(), st.integers(1, 8))
def test_loss_and_precision_of_the_first_k(data, k):
    X, Y, w = data
    assume(any((y > 0).any() for y in Y))
    task, batch = learned(PrecisionAtK(k), X, Y)
    decoded = task.decode(batch, w, HARD)
    marks, latents = [p.y for p in decoded], [p.h for p in decoded]
    hits = [(y[h] > 0).sum() for y, h in zip(Y, latents, strict=True)]
    close(task.loss(Y, marks), [min(1, (y > 0).sum() / k) - hit / k for y, hit in zip(Y, hits, strict=True)])
    close(task.loss(Y, marks, latents), task.loss(Y, marks))
    assert task.score(Y, marks) == pytest.approx(np.mean(hits) / k)
    assert task.score(Y, marks, np.eye(len(Y))[0]) == pytest.approx(hits[0] / k)
    assert not task.loss(Y, Y).any()


def test_start_weights_separate_what_can_be_separated():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 4)) for n in (8, 12, 5, 9)]
    Y = [(x[:, 1] > 0.3).astype(int) for x in X]
    task, batch = learned(PrecisionAtK(2), X, Y)
    w = task.initial_weights(batch)
    assert np.argmax(np.abs(w)) == 1
    assert np.array_equal(w, task.initial_weights(batch))
    assert not np.array_equal(w, task.initial_weights(batch, 1))
    assert not task.initial_weights(task.prepare(X, [np.ones(len(x)) for x in X])).any()


def test_small_queries_weigh_as_much_as_large_ones_in_the_start():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in [300, *[5] * 20]]
    Y = [(x[:, int(i > 0)] > 0).astype(int) for i, x in enumerate(X)]
    task, batch = learned(PrecisionAtK(2), X, Y)
    # The second feature decides in 20 of 21 queries, but in 100 of 400 documents only.
    for attempt in range(5):
        w = task.initial_weights(batch, attempt)
        assert w[1] > 2 * abs(w[0])


def test_first_k_learns(tmp_path):
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(n, 4)) for n in rng.integers(5, 15, 40)]
    Y = [(x[:, 0] - x[:, 2] + 0.1 * rng.normal(size=len(x)) > 0.8).astype(int) for x in X]
    model = LatentSSVM(PrecisionAtK(3), C=1.0).fit(X, Y)
    best = np.mean([min(3, y.sum()) / 3 for y in Y])
    assert model.score(X, Y) > best - 0.05
    scores = model.decision_function(X)
    assert ranking_scores(Y, scores, ks=[3]).precision[3] == pytest.approx(model.score(X, Y))
    objectives = [line.objective for line in model.history_]
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(objectives))
    assert model.score([x[:2] for x in X], [y[:2] for y in Y]) == pytest.approx(np.mean([y[:2].sum() / 3 for y in Y]))
    model.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(X)[0], model.predict(X)[0])


@pytest.mark.parametrize(
    ("X", "Y", "parameter", "got", "expected"),
    [
        ([np.ones((2, 3))], [[0, 1, 1]], "Y[0]", "shape (3,)", "an array of shape (2,)"),
        ([np.ones((2, 3)), np.ones((0, 3))], [[0, 1], []], "X[1]", "none", "at least one document"),
        ([np.ones((2, 3)), np.ones((1, 2))], [[0, 1], [1]], "X[1]", "2 features", "3 features, as in training"),
        ([np.full((2, 3), np.nan)], [[0, 1]], "X[0]", "nan at row 0, column 0", "finite"),
        ([np.ones((2, 3))], [[0, np.nan]], "Y[0]", "NaN or infinity", "finite"),
        ([np.ones((2, 3))], [["a", "b"]], "Y[0]", "text such as 'a'", "real numbers"),
        ([np.ones((2, 3))], [[[0, 1]]], "Y[0]", "shape (1, 2)", "an array of shape (2,)"),
        (np.ones((2, 3)), [0, 1], "X[0]", "shape (3,)", "two-dimensional (items, features)"),
        ([np.ones((2, 3))], [[0, 1], [1]], "Y", "2 outputs", "a sequence of 1 outputs"),
    ],
)
@pytest.mark.parametrize("task", [PrecisionAtK(2), PairwiseRanking()])
def test_bad_queries(task, X, Y, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        learned(task, X, Y)


@pytest.mark.parametrize(
    ("task", "got", "expected"),
    [
        (PrecisionAtK(2), "none", "grades with at least one relevant document"),
        (PairwiseRanking(), "no pairs to order", "grades that differ in at least one query"),
    ],
)
def test_queries_without_relevant_documents(task, got, expected):
    with raises("Y", got=got, expected=expected):
        learned(task, [np.ones((2, 3))], [[0, 0]])


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3", None])
def test_bad_k(k):
    with raises("k", expected="an integer from 1 to 2147483647"):
        PrecisionAtK(k).learn([np.ones((2, 3))], [[0, 1]])
    with raises("k", expected="an integer of at least 1"):
        precision_at_k([0, 1], [0, 1], k)


@pytest.mark.parametrize(
    ("latents", "parameter", "got", "expected"),
    [
        ([[1, 0]], "latents", "1 latents", "a sequence of 2 latents"),
        ([[1], [0, 1]], "latents[0]", "", "2 different positions from 0 to 2"),
        ([[1, 1], [0, 1]], "latents[0]", "", "2 different positions"),
        ([[1, 3], [0, 1]], "latents[0]", "", "2 different positions"),
        ([[1, -1], [0, 1]], "latents[0]", "", "2 different positions"),
        ([[0.0, 1.0], [0, 1]], "latents[0]", "", "2 different positions"),
        ([[0, 1], [0, 1]], "latents[0]", "", "positions of relevant documents before all"),
        ([[0, 2], [0, 1]], "latents[0]", "", "positions of relevant documents before all"),
    ],
)
def test_bad_latents(latents, parameter, got, expected):
    X, Y = [np.eye(3), np.ones((2, 3))], [[0, 1, 0], [1, 1]]
    task, batch = learned(PrecisionAtK(2), X, Y)
    with raises(parameter, got=got, expected=expected):
        task.completion_planes(batch, latents)


@pytest.mark.parametrize("task", [PrecisionAtK(2), PairwiseRanking()])
def test_only_the_hard_max(task):
    task, batch = learned(task, [np.eye(3)], [[0, 1, 0]])
    with raises("temperature", got="(1.0, 0.0)", expected="(0, 0) for P"):
        task.planes(batch, np.zeros(3), "augmented", Temperature(1.0))
    with raises("mode", got="'augmented'", expected="'free' for a batch without true outputs"):
        task.planes(task.prepare([np.eye(3)]), np.zeros(3), "augmented", HARD)


def test_marks_and_scores_must_fit_the_grades():
    with raises("Y_pred[0]", got="shape (3,)", expected="an array of shape (2,) (one number per document)"):
        PrecisionAtK(2).loss([[0, 1]], [[0, 1, 1]])
    with raises("Y_pred[0]", got="shape (3,)", expected="an array of shape (2,) (one number per document)"):
        PairwiseRanking().loss([[0, 1]], [[0, 1, 1]])


# ---- pairs ---------------------------------------------------------------------------------------------------


def pair_planes(x, y, w, margin):
    """Slope, offset and value of Σ max(0, margin − w·(x_a − x_b)) over the pairs with y_a > y_b, and their number."""
    slope, offset, n_pairs = np.zeros(len(w)), 0.0, 0
    for a in range(len(y)):
        for b in range(len(y)):
            if y[a] > y[b]:
                n_pairs += 1
                if w @ (x[a] - x[b]) < margin:
                    slope += x[b] - x[a]
                    offset += margin
    return slope, offset, n_pairs


@settings(max_examples=150, deadline=None)
@given(small_queries(), st.booleans())
def test_pairs_are_the_enumeration(data, normalize):
    X, Y, w = data
    assume(any(len(set(y.tolist())) > 1 for y in Y))
    task, batch = learned(PairwiseRanking(normalize), X, Y)
    weights = np.linspace(0.5, 2.0, len(X))
    for mode, margin in (("free", 0.0), ("augmented", 1.0)):
        planes = task.planes(batch, w, mode, HARD)
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            slope, offset, n_pairs = pair_planes(x, y, w, margin)
            scale = 1.0 / max(n_pairs, 1) if normalize else 1.0
            close(planes.slopes().toarray()[i], scale * slope)
            close(planes.offsets[i], scale * offset)
            close(planes.values[i], scale * (offset + slope @ w))
        rows = np.arange(len(X))[::-1]
        some = task.planes(batch, w, mode, HARD, rows)
        close(some.slopes().toarray(), planes.slopes().toarray()[rows])
        close(some.values, planes.values[rows])
        close(task.total(batch, w, mode, HARD, weights)(w), weights @ planes.values)
    clamped = task.planes(batch, w, "clamped", HARD)
    assert clamped.rows is planes.rows
    assert not clamped.slopes().toarray().any()
    assert not clamped.values.any()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 1), st.integers(0, 3)), min_size=2, max_size=30),
)
def test_no_pair_is_counted_by_half(bases, documents):
    """Rounding may move a pair across the margin, but never for one of its documents only.

    Documents lie just about the margin apart, where s_a − s_b < 1 and s_a < s_b + 1 differ.
    """
    x = np.array([bases[base % len(bases)] + shift for base, shift, _ in documents])
    y = np.array([grade / 2 for *_, grade in documents])
    assume(len(set(y.tolist())) > 1)
    task, batch = learned(PairwiseRanking(), [x[:, None]], [y])
    for w in (0.1, 1.0, 1 / 3):
        plane = task.planes(batch, np.array([w]), "augmented", HARD)
        # The coefficients of the documents sum to zero, and the value is the sum of the hinges.
        assert plane.atoms.value.sum() == 0
        hinges = np.maximum(0.0, 1.0 - (w * x[:, None] - w * x[None, :]))
        np.testing.assert_allclose(plane.values[0], hinges[y[:, None] > y[None, :]].sum(), rtol=1e-9, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(small_queries())
def test_share_of_swapped_pairs(data):
    X, Y, w = data
    scores = [x @ w for x in X]
    expected = []
    for y, s in zip(Y, scores, strict=True):
        pairs = [(a, b) for a in range(len(y)) for b in range(len(y)) if y[a] > y[b]]
        swapped = sum((s[a] < s[b]) + 0.5 * (s[a] == s[b]) for a, b in pairs)
        expected.append(swapped / max(len(pairs), 1))
    close(PairwiseRanking().loss(Y, scores), expected)


@pytest.mark.parametrize("normalize", [False, True])
def test_ranking_svm_reaches_the_pairwise_objective(normalize, tmp_path):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (5, 9, 2, 7)]
    Y = [np.clip(np.round(x[:, 0] + rng.normal(size=len(x))), 0, 2) for x in X]
    model = StructuralSVM(PairwiseRanking(normalize), C=0.5, tol=1e-6).fit(X, Y)
    hinges = 0.0
    for x, y in zip(X, Y, strict=True):
        slope, offset, n_pairs = pair_planes(x, y, model.coef_, 1.0)
        hinges += (offset + slope @ model.coef_) / (max(n_pairs, 1) if normalize else 1)
    assert model.objective_ == pytest.approx(0.5 * model.coef_ @ model.coef_ + 0.5 * hinges)
    assert model.relative_gap_ <= 1e-6
    assert model.score(X, Y) > 0.7
    close(model.predict(X)[1], X[1] @ model.coef_)
    close(model.decision_function(X)[1], X[1] @ model.coef_)
    model.save(tmp_path / "model")
    close(load(tmp_path / "model").predict(X)[2], model.predict(X)[2])


# ---- measures --------------------------------------------------------------------------------------------------


def sorted_orders(scores):
    """All orders of the documents by falling score."""
    for order in permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in pairwise(order)):
            yield list(order)


def plain_measures(grades, k):
    """P@k, NDCG@k and AP of grades in their ranked order, by the book."""
    n = len(grades)
    hits = [g > 0 for g in grades]
    gain = sum((2.0 ** grades[r] - 1) / np.log2(r + 2) for r in range(min(k, n)))
    best = sum((2.0**g - 1) / np.log2(r + 2) for r, g in enumerate(sorted(grades, reverse=True)[:k]))
    precisions = [sum(hits[: r + 1]) / (r + 1) for r in range(n) if hits[r]]
    return sum(hits[:k]) / k, gain / best if best else 0.0, np.mean(precisions) if precisions else 0.0


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 1)), min_size=1, max_size=6), st.integers(1, 8))
def test_measures_are_means_over_the_orders_of_ties(documents, k):
    y, scores = (np.array(part) for part in zip(*documents, strict=True))
    expected = np.mean([plain_measures(y[order].tolist(), k) for order in sorted_orders(scores)], axis=0)
    close([precision_at_k(y, scores, k), ndcg_at_k(y, scores, k), average_precision(y, scores)], expected)


def test_means_over_queries():
    Y = [np.array([0, 1, 2]), np.array([0, 0]), np.array([1])]
    scores = [np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0]), np.array([0.0])]
    found = ranking_scores(Y, scores, ks=(1, 2))
    assert (found.n_queries, found.n_without_relevant) == (3, 1)
    assert found.precision == {1: pytest.approx(1 / 3), 2: pytest.approx((0.5 + 0 + 0.5) / 3)}
    assert found.average_precision == pytest.approx(((1 / 2 + 2 / 3) / 2 + 0 + 1) / 3)
    assert found.ndcg[1] == pytest.approx(1 / 3)
    assert "3 queries, 1 without" in str(found)


@pytest.mark.parametrize(
    ("call", "parameter", "expected"),
    [
        (lambda: precision_at_k([0, 1], [0.0], 1), "scores", "an array of shape (2,)"),
        (lambda: average_precision([0, 1], [0.0, np.nan]), "scores", "finite"),
        (lambda: average_precision([0, 1], ["a", "b"]), "scores", "real numbers"),
        (lambda: ndcg_at_k([0, -1], [0.0, 1.0], 1), "y", "grades from 0 to 100"),
        (lambda: ndcg_at_k([0, 2000], [0.0, 1.0], 1), "y", "grades from 0 to 100"),
        (lambda: ranking_scores([[1]], []), "scores", "a sequence of 1 queries"),
        (lambda: ranking_scores([], []), "Y", "at least one"),
    ],
)
def test_bad_measures(call, parameter, expected):
    with raises(parameter, expected=expected):
        call()


# ---- files -----------------------------------------------------------------------------------------------------


def write(folder, text, name="queries.txt"):
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


TEXT = """# a remark of its own
2 qid:10 1:0.5 3:-1e-3 # docid = a
0 qid:10 2:1

1 qid:b7
0 qid:11 1:1 2:2 3:3 #x # y
"""


@pytest.mark.parametrize("name", ["queries.txt", "queries.txt.gz", "-"])
def test_queries_are_read(tmp_path, monkeypatch, name):
    path = write(tmp_path, TEXT, "queries.txt" if name == "-" else name)
    if name == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    queries = read_queries("-" if name == "-" else path)
    assert queries.ids == ["10", "b7", "11"]
    assert len(queries) == 3
    assert [x.tolist() for x in queries.X] == [[[0.5, 0, -1e-3], [0, 1, 0]], [[0, 0, 0]], [[1, 2, 3]]]
    assert [y.tolist() for y in queries.Y] == [[2, 0], [1], [0]]
    assert queries.documents == [["docid = a", ""], [""], ["x # y"]]


def test_a_huge_index_makes_no_huge_array(tmp_path):
    queries = read_queries(write(tmp_path, "1 qid:1 1:1\n0 qid:1 2147483647:1\n"))
    assert queries.X[0].shape == (2, 2147483647)
    assert queries.X[0].nnz == 2
    assert read_queries(write(tmp_path, "1 qid:1\n"), n_features=2147483647).X[0].nnz == 0


@pytest.mark.parametrize(
    ("text", "line", "got", "expected"),
    [
        ("", 1, "", "lines such as 2 qid:7 1:0.5"),
        ("# only a remark\n\n", 1, "", "lines such as 2 qid:7 1:0.5"),
        ("1 qid:1\n0 qid:1\n", 1, "", "index:value pairs"),
        ("1 qid:1 1:1\n1 1:1\n", 2, "'1:1'", "the query after the grade"),
        ("1\n", 1, "''", "the query after the grade"),
        ("1 qid: 1:1\n", 1, "'qid:'", "the query after the grade"),
        ("qid:1 1:1\n", 1, "'qid:1'", "a grade, an integer from 0 to"),
        ("1.5 qid:1 1:1\n", 1, "'1.5'", "a grade, an integer from 0 to"),
        ("-1 qid:1 1:1\n", 1, "'-1'", "a grade, an integer from 0 to"),
        ("nan qid:1 1:1\n", 1, "'nan'", "a grade, an integer from 0 to"),
        ("99999999999 qid:1 1:1\n", 1, "'99999999999'", "a grade, an integer from 0 to"),
        ("1 qid:1 1:1\n1 qid:2 1:1\n1 qid:1 1:1\n", 3, "'qid:1'", "adjacent lines of each query"),
        ("1 qid:1 2:1 1:1\n", 1, "'1:1'", "an index above 2, as indices"),
        ("1 qid:1 1:1 1:1\n", 1, "'1:1'", "an index above 1, as indices"),
        ("1 qid:1 1:nan\n", 1, "'1:nan'", "a finite number as value"),
        ("1 qid:1 1:1e999\n", 1, "'1:1e999'", "a finite number as value"),
        ("1 qid:1 0:1\n", 1, "'0:1'", "an index of at least 1"),
        ("1 qid:1 2147483648:1\n", 1, "", "an index of at most 2147483647"),
        (f"1 qid:1 {'9' * 5000}:1\n", 1, "", "an index of at most 2147483647"),
        ("1 qid:1 1:1 2:\n", 1, "'2:'", "a finite number as value"),
        ("1 qid:1 1:1 2\n", 1, "'2'", "index:value such as 3:0.5"),
        ("1 qid:1 qid:2 1:1\n", 1, "'qid:2'", "index:value pairs only"),
    ],
)
def test_malformed_queries(tmp_path, text, line, got, expected):
    with raises(file="queries.txt", line=line, got=got, expected=expected):
        read_queries(write(tmp_path, text))


def test_bad_files_and_limits(tmp_path):
    with raises(expected="a readable file"):
        read_queries(tmp_path / "absent")
    with raises(got="'3:-1e-3'", expected="an index of at most 2", line=2, error=FormatError):
        read_queries(write(tmp_path, TEXT), n_features=2)
    with raises("n_features", got="0", expected="an integer from 1 to 2147483647 or None"):
        read_queries(write(tmp_path, TEXT), n_features=0)
    path = write(tmp_path, TEXT, "cut.gz")
    path.write_bytes(path.read_bytes()[:-12])
    with raises(expected="a complete gzip file", line=6, error=FormatError):
        read_queries(path)
    path.with_name("bytes.txt").write_bytes(b"1 qid:1 1:1 #\xff\n")
    with raises(expected="UTF-8 text", line=1, error=FormatError):
        read_queries(path.with_name("bytes.txt"))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60) | st.text("0123456789:.qid -#\n", max_size=60).map(str.encode))
def test_any_file_is_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "queries.txt"
    path.write_bytes(data)
    try:
        queries = read_queries(path)
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert len(queries.X) == len(queries.Y) == len(queries.documents) == len(queries.ids) > 0


@settings(max_examples=60, deadline=None)
@given(small_queries())
def test_queries_survive_the_way_through_a_file(tmp_path_factory, data):
    X, Y, _ = data
    assume(any(x[:, -1].any() for x in X))
    lines = [
        f"{grade} qid:{i} " + " ".join(f"{f + 1}:{v!r}" for f, v in enumerate(row.tolist()) if v)
        for i, (x, y) in enumerate(zip(X, Y, strict=True))
        for row, grade in zip(x, y, strict=True)
    ]
    path = tmp_path_factory.mktemp("way") / "queries.txt"
    path.write_text("\n".join(lines))
    found = read_queries(path)
    for x, y, x_found, y_found in zip(X, Y, found.X, found.Y, strict=True):
        assert np.array_equal(x_found if isinstance(x_found, np.ndarray) else x_found.toarray(), x)
        assert np.array_equal(y_found, y)
    write_scores(path, [x[:, 0] / 3 for x in X])
    assert np.array_equal(np.loadtxt(path, ndmin=1), np.concatenate(X)[:, 0] / 3)


def test_scores_of_all_documents_together(tmp_path):
    write_scores(tmp_path / "scores.gz", np.array([1.0, -0.25]))
    assert gzip.decompress((tmp_path / "scores.gz").read_bytes()) == b"1.0\n-0.25\n"
    with raises("scores", got="could not convert string to float: 'a'", expected="one array of numbers per query"):
        write_scores(tmp_path / "scores", ["a"])


# ---- LETOR -----------------------------------------------------------------------------------------------------


def test_ohsumed_is_scaled_within_queries(tmp_path):
    (tmp_path / "letor3_ohsumed").mkdir()
    for part in range(1, 6):
        lines = "".join(f"{j % 3} qid:{part} 1:{part + 2.0 * j} 2:7 45:{-j}\n" for j in range(5))
        write(tmp_path / "letor3_ohsumed", lines, f"S{part}.txt.gz")
    queries = load_letor_ohsumed(1, "train", tmp_path)
    assert queries.ids == ["1", "2", "3"]
    for x, y in zip(queries.X, queries.Y, strict=True):
        close(x[:, 0], np.linspace(0, 1, 5))
        close(x[:, 44], np.linspace(1, 0, 5))
        assert x.shape == (5, 45)
        assert not x[:, 1:44].any()
        assert y.tolist() == [0, 1, 2, 0, 1]


def test_letor_folds(tmp_path):
    (tmp_path / "letor_mq2008").mkdir()
    for part in range(1, 6):
        write(tmp_path / "letor_mq2008", f"{part % 3} qid:{part} 46:{part} #docid = {part}\n", f"S{part}.txt.gz")
    parts = {
        (fold, subset): "".join(load_letor_mq2008(fold, subset, tmp_path).ids)
        for fold in (1, 2, 5)
        for subset in ("train", "validation", "test")
    }
    assert list(parts.values()) == ["123", "4", "5", "234", "5", "1", "512", "3", "4"]
    queries = load_letor_mq2008(2, "test", tmp_path)
    assert queries.X[0].shape == (1, 46)
    assert (queries.Y[0].tolist(), queries.documents) == ([1], [["docid = 1"]])
    for fold in (0, 6, True, "1", None):
        with raises("fold", expected="an integer from 1 to 5"):
            load_letor_mq2008(fold, "train", tmp_path)
    with raises("subset", got="'valid'", expected="'train', 'validation' or 'test'"):
        load_letor_mq2008(1, "valid", tmp_path)


@pytest.mark.data
@needs_data
def test_real_letor():
    every = [load_letor_mq2008(fold, "test") for fold in range(1, 6)]
    assert sum(map(len, every)) == 784
    grades = np.concatenate([y for part in every for y in part.Y])
    assert np.bincount(grades).tolist() == [12279, 2001, 931]
    assert sum(not (y > 0).any() for part in every for y in part.Y) == 220
    train = load_letor_mq2008(1, "train")
    assert {x.shape[1] for x in train.X} == {46}
    assert train.ids[0] == "10002"
    assert train.documents[0][0].startswith("docid = GX008-86-4444840")


# ---- the experiments -----------------------------------------------------------------------------------------


def test_settings_are_chosen_by_validation_and_not_by_test():
    measured = [
        lssvm_precision.Measured(1, 3, "latent SSVM", "1", train=0.9, validation=0.2, test=0.9, norm=1.0),
        lssvm_precision.Measured(1, 3, "latent SSVM", "10", train=0.1, validation=0.3, test=0.1, norm=1.0),
        lssvm_precision.Measured(2, 3, "latent SSVM", "1", train=0.5, validation=0.4, test=0.5, norm=1.0),
        lssvm_precision.Measured(2, 3, "latent SSVM", "10", train=0.6, validation=0.3, test=0.7, norm=1.0),
        lssvm_precision.Measured(1, 3, "start", "", train=0.0, validation=0.9, test=0.2, norm=1.0),
        lssvm_precision.Measured(2, 3, "start", "", train=0.0, validation=0.9, test=0.3, norm=1.0),
    ]
    results = lssvm_precision.Results(measured, [3])
    assert [m.setting for m in results.rows(3, "latent SSVM")] == ["10", "1"]
    close(results.gains(3, None, "test"), [-0.1, 0.2])
    close(results.gains(3, "1", "test"), [0.7, 0.2])
    assert results.mean(3, "latent SSVM", None, "test") == pytest.approx(0.3)


def test_precision_experiment_on_made_up_queries(tmp_path, monkeypatch):
    # So few queries are separable, which takes long at the C of the real ones.
    monkeypatch.setattr(lssvm_precision, "REFERENCE", 10.0)
    monkeypatch.setattr(lssvm_precision, "QUICK_STRENGTHS", (1.0, 10.0))
    rng = np.random.default_rng(0)
    (tmp_path / "letor3_ohsumed").mkdir()
    for part in range(1, 6):
        lines = []
        for query in range(10):
            X = rng.random((8, 45))
            grades = (X[:, 0] + 0.5 * X[:, 1] + 0.2 * rng.normal(size=8) > 1.0).astype(int)
            for x, grade in zip(X.tolist(), grades, strict=True):
                pairs = " ".join(f"{f}:{v:.4f}" for f, v in enumerate(x, 1))
                lines.append(f"{grade} qid:{part}{query} {pairs}\n")
        write(tmp_path / "letor3_ohsumed", "".join(lines), f"S{part}.txt.gz")
    said = []
    findings = run_experiment("lssvm-precision", tmp_path, quick=True, say=said.append)
    assert len(said) == 5
    test, train, gains, random = findings.tables
    assert test.columns == ["model", "P@1", "P@3", "P@5", "paper P@1", "paper P@3", "paper P@5"]
    shown = {row[0]: row[1:] for row in test.rows}
    assert shown["ListNet"] == [None, None, None, 0.652, 0.602, 0.55]
    for row in (*train.rows, shown["Ranking SVM"][:3], shown["start"][:3]):
        assert all(0.0 <= value <= 1.0 for value in row if isinstance(value, float))
    # 46 features and 30 queries: training must get better than where it began.
    assert all(row[2] > 0 for row in gains.rows if row[0] == "10")
    assert len(random.rows) == 3
    assert len(findings.claims) == 3
    means = next(row[1:4] for row in test.rows if row[0] == "start")
    shown = " ".join(f"{value:.3f}".lstrip("0") for value in means)
    # Folds are of one size, so means over queries and over folds are equal.
    assert shown in findings.claims[1].found
    assert {path.suffix for path in findings.save(tmp_path / "out")} == {".json", ".txt", ".html", ".png"}


@pytest.mark.data
@needs_data
def test_latent_training_improves_on_its_start_on_real_queries():
    fold = lssvm_precision.load_fold(lssvm_precision.OHSUMED, 1, None)
    found = lssvm_precision.measure_latent(fold, 3, (1000.0,))
    *starts, latent, random = found
    assert {one.model for one in starts} == {"start"}
    assert [latent.model, random.model] == ["latent SSVM", "random start"]
    assert latent.train > max(one.train for one in starts)


@pytest.mark.data
@needs_data
def test_rounds_experiment_stays_within_the_papers_fifty_iterations(monkeypatch):
    monkeypatch.setattr(lssvm_iterations, "QUICK_STRENGTHS", (0.01,))
    findings = run_experiment("lssvm-iterations", quick=True, say=lambda line: None)
    iterations = [value for row in findings.tables[0].rows for value in row[1:]]
    assert len(iterations) == 3
    assert all(2 <= value <= 50 for value in iterations)
