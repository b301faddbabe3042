"""Kernels: coordinates whose inner products are the kernel's, and expansions in rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_data import X, Y
from scipy import sparse
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.svm import SVC

from latentstruct.estimators import kernel_maps as maps
from latentstruct.estimators.kernel_maps import (
    Coordinates,
    FeatureRows,
    GramRows,
    Kernel,
    expand,
    factorize,
    resolve_gamma,
)

KERNELS = st.sampled_from(
    [
        Kernel("linear"),
        Kernel("rbf", 0.7),
        Kernel("rbf", 1e-3),
        Kernel("poly", 0.5, 2, 1.0),
        Kernel("poly", 1.0, 3, 0.0),
    ]
)


def matrices(most_rows=40):
    """Return random rows, some of them equal to others."""

    def build(n, d, seed, repeated):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n, d))
        return rows[rng.integers(0, n, n)] if repeated else rows

    return st.builds(build, st.integers(1, most_rows), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans())


@settings(max_examples=30, deadline=None)
@given(matrices(150), KERNELS, st.sampled_from([0.0, 1e-10, 1e-3, 0.1]), st.sampled_from([None, 1, 3, 70]))
def test_coordinates_have_the_inner_products_of_the_kernel(rows, kernel, tolerance, most):
    gram = kernel.between(rows, rows)
    found = factorize(FeatureRows(rows, kernel), tolerance, most)
    scale, rank = gram.diagonal().max(), len(found.pivots)
    allowed = 1e-6 * scale
    left = gram - found.rows @ found.rows.T
    assert np.abs(left[found.pivots]).max(initial=0.0) <= allowed
    assert np.abs(np.triu(found.rows[found.pivots], 1)).max(initial=0.0) == 0.0
    np.testing.assert_allclose(found.remainders, left.diagonal(), atol=allowed)
    assert found.error == pytest.approx(np.trace(left), abs=len(rows) * allowed)
    assert rank == most or found.remainders.max() <= max(tolerance, maps.LEAST_REMAINDER) * scale
    assert rank <= min(len(rows), most or len(rows))
    assert len(set(found.pivots.tolist())) == rank


@settings(max_examples=30, deadline=None)
@given(matrices(), st.integers(0, 2**32 - 1))
def test_weights_in_coordinates_are_functions_of_the_pivots(rows, seed):
    kernel = Kernel("rbf", 0.5)
    found = factorize(FeatureRows(rows, kernel), 1e-6)
    weights = np.random.default_rng(seed).normal(size=(len(found.pivots), 2))
    coefficients = found.expansion(weights)
    np.testing.assert_allclose(expand(kernel, rows, rows[found.pivots], coefficients), found.rows @ weights, atol=1e-4)
    squares = np.einsum("iv,ij,jv->v", coefficients, kernel.between(*2 * [rows[found.pivots]]), coefficients)
    np.testing.assert_allclose(squares, (weights**2).sum(axis=0), rtol=1e-4)


def test_a_linear_kernel_has_as_many_coordinates_as_inputs():
    rows = np.random.default_rng(0).normal(size=(300, 7))
    coordinates = factorize(FeatureRows(rows, Kernel("linear")), 1e-10).rows
    assert coordinates.shape == (300, 7)
    np.testing.assert_allclose(coordinates @ coordinates.T, rows @ rows.T, atol=1e-8)


def test_products_are_made_block_by_block(monkeypatch):
    monkeypatch.setattr(maps, "ROWS_TOGETHER", 7)
    kernel, coefficients = Kernel("rbf", 1.0), np.random.default_rng(0).normal(size=(9, 3))
    chosen = np.arange(9) * 5
    rows = FeatureRows(X, kernel)
    np.testing.assert_allclose(rows.products(chosen, coefficients), rows.columns(chosen) @ coefficients)
    gram = GramRows.checked(kernel.between(X, X))
    np.testing.assert_allclose(gram.products(chosen, coefficients), rows.columns(chosen) @ coefficients)


@pytest.mark.parametrize("matrix", [X, sparse.csr_array(X * (X > 0))])
def test_gamma_is_that_of_svc(matrix):
    model = SVC().fit(sparse.csr_matrix(matrix) if sparse.issparse(matrix) else matrix, Y)
    assert resolve_gamma("scale", matrix) == pytest.approx(model._gamma)
    assert resolve_gamma("auto", matrix) == 0.5
    assert resolve_gamma("scale", np.ones((3, 2))) == 1.0


def test_coordinates_without_pivots_are_empty():
    empty = Coordinates(np.zeros((3, 0)), np.zeros(0, dtype=np.int64), np.zeros(3))
    assert empty.expansion(np.zeros((0, 2))).shape == (0, 2)


def test_the_polynomial_kernel_is_that_of_scikit_learn():
    expected = polynomial_kernel(X, degree=3, gamma=0.2, coef0=0.5)
    np.testing.assert_allclose(Kernel("poly", 0.2, 3, 0.5).between(X, X), expected)
    np.testing.assert_allclose(Kernel("poly", 0.2, 3, 0.5).diagonal(X), expected.diagonal())
