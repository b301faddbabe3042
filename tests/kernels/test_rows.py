"""Products of rows, compressed matrices and the best class of each example, against NumPy."""

import numpy as np
import pytest
from scipy import sparse

from latentstruct._native.candidates import best_candidates, best_classes
from latentstruct._native.rows import (
    add_pairs_transposed,
    add_rows_transposed,
    compress_matrix,
    rows_dot,
    rows_times_pairs,
    rows_times_weights,
)
from latentstruct.planes.plane import Rows
from latentstruct.tasks.chain.seen import SeenPairs


def random_rows(seed, unit):
    rng = np.random.default_rng(seed)
    dense = (rng.random((7, 30)) < 0.3) * (1.0 if unit else rng.normal(size=(7, 30)))
    dense[3] = 0.0
    return rng, dense


@pytest.mark.parametrize("unit", [True, False])
def test_compressed_matrices_are_those_of_scipy(unit):
    _, dense = random_rows(0, unit)
    pointers, features, data = compress_matrix(dense)
    matrix = sparse.csr_array(dense)
    np.testing.assert_array_equal(pointers, matrix.indptr)
    np.testing.assert_array_equal(features, matrix.indices)
    np.testing.assert_array_equal(data, [] if unit else matrix.data)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 3)])
def test_matrices_of_zeros_have_no_entries(shape):
    pointers, features, data = compress_matrix(np.zeros(shape))
    assert pointers.tolist() == [0] * (shape[0] + 1)
    assert len(features) == len(data) == 0


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("n_labels", [1, 2, 3, 5, 11, 31])
def test_products_are_those_of_dense_rows(unit, n_labels):
    rng, dense = random_rows(n_labels, unit)
    compressed, selected = compress_matrix(dense), np.array([6, 3, 0, 0, 5])
    weights, out = rng.normal(size=(30, n_labels)), np.empty((5, n_labels))
    rows_times_weights(compressed, selected, weights, out)
    np.testing.assert_allclose(out, dense[selected] @ weights, atol=1e-12)
    total = np.ones((30, n_labels))
    add_rows_transposed(compressed, selected, out, total)
    np.testing.assert_allclose(total, 1.0 + dense[selected].T @ out, atol=1e-12)


@pytest.mark.parametrize("unit", [True, False])
def test_products_with_one_vector_are_those_of_dense_rows(unit):
    rng, dense = random_rows(1, unit)
    pointers, features, data = compress_matrix(dense)
    vector, out = rng.normal(size=30), np.empty(3)
    rows_dot(Rows(pointers, features.astype(np.uint32), data), np.array([2, 3, 6]), vector, out)
    np.testing.assert_allclose(out, dense[[2, 3, 6]] @ vector, atol=1e-12)


def test_rows_that_do_not_exist_are_refused():
    compressed = compress_matrix(np.eye(3))
    for selected in ([3], [-1]):
        with pytest.raises(ValueError, match="selected rows must exist"):
            rows_times_weights(compressed, np.array(selected), np.zeros((3, 2)), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="lengths"):
        rows_times_weights(compressed, np.arange(3), np.zeros((3, 2)), np.zeros((1, 2)))
    with pytest.raises(TypeError):
        rows_times_weights(compressed, np.arange(3), np.zeros((2, 3)).T, np.zeros((3, 2)))


def test_best_classes_are_the_first_of_the_highest():
    scores = np.array([[0.0, 2.0, 2.0], [1.0, 0.0, 0.0], [0.0, np.nan, 5.0]])
    extra = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 2.0]])
    best, values, losses = np.empty(3, dtype=np.int64), np.empty(3), np.empty(3)
    best_classes(scores, extra, np.array([0, 1, 0]), best, values, losses)
    assert best.tolist() == [1, 2, 1]
    np.testing.assert_array_equal(values, [2.0, 2.0, np.nan])
    assert losses.tolist() == [0.0, 2.0, 0.0]


def test_best_candidates_are_the_first_of_the_highest():
    rng = np.random.default_rng(0)
    scores, extra = rng.integers(3, size=(6, 40)).astype(float), rng.integers(3, size=(4, 3)).astype(float)
    labels, truth = np.array([0, 0, 1, 1, 2, 2]), rng.integers(4, size=40)
    winners, values = np.empty(40, dtype=np.int64), np.empty(40)
    best_candidates(scores, labels, extra, truth, winners, values)
    heights = scores + extra[truth][:, labels].T
    np.testing.assert_array_equal(winners, heights.argmax(axis=0))
    np.testing.assert_array_equal(values, heights.max(axis=0))


@pytest.mark.parametrize("n", [1, 3, 8, 11, 22])
@pytest.mark.parametrize("unit", [True, False])
def test_products_with_weights_of_some_pairs_are_those_of_a_dense_matrix(n, unit):
    rng = np.random.default_rng(n)
    matrix = (rng.random((9, 6)) < 0.5) * (1.0 if unit else rng.normal(size=(9, 6)))
    compressed, seen = compress_matrix(matrix), rng.random((6, n)) < 0.4
    seen[[0, 3]] = True
    pairs = SeenPairs(np.append(0, np.cumsum(seen.sum(axis=1))), np.nonzero(seen)[1].astype(np.int32))
    weights, coefficients = rng.normal(size=seen.sum()), rng.normal(size=(4, n))
    dense, selected = np.zeros((6, n)), np.array([8, 0, 0, 3])
    dense[seen] = weights
    out, sums = np.empty((4, n)), np.zeros(len(weights))
    rows_times_pairs(compressed, selected, pairs, weights, out)
    add_pairs_transposed(compressed, selected, pairs, coefficients, sums)
    assert np.allclose(out, matrix[selected] @ dense)
    assert np.allclose(sums, (matrix[selected].T @ coefficients)[seen])


def test_pairs_that_do_not_fit_are_refused():
    compressed = compress_matrix(np.ones((2, 3)))
    pairs = SeenPairs(np.array([0, 2, 3, 4]), np.array([0, 1, 1, 0], np.int32))
    out, weights = np.empty((2, 2)), np.zeros(4)
    rows_times_pairs(compressed, np.arange(2), pairs, weights, out)
    labels = pairs.labels + 2, pairs.labels - 1
    starts = (pairs.at + 1, pairs.at[::-1].copy(), np.array([0, 9, 3, 4]))
    for wrong in (*(pairs._replace(labels=one) for one in labels), *(pairs._replace(at=one) for one in starts)):
        with pytest.raises(ValueError):
            rows_times_pairs(compressed, np.arange(2), wrong, weights, out)
