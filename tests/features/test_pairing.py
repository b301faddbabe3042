from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from error_fields import raises
from latentstruct import CorrelationClustering, StructuralSVM
from latentstruct.features.pairs import RELATIONS, pair_feature_names, pair_features
from latentstruct.metrics import cluster_scores


def by_definition(items, relations, bias):
    rows = []
    for a, b in combinations(np.asarray(items, dtype=float), 2):
        lengths = np.sqrt((a @ a) * (b @ b))
        parts = {
            "difference": np.abs(a - b),
            "product": a * b,
            "cosine": [a @ b / lengths if lengths else 0.0],
            "distance": [np.sqrt(((a - b) ** 2).sum())],
        }
        rows.append(np.concatenate([*(parts[relation] for relation in relations), [1.0] if bias else []]))
    return np.array(rows)


@settings(deadline=None)
@given(
    st.integers(2, 6),
    st.integers(1, 4),
    st.lists(st.sampled_from(RELATIONS), min_size=1, unique=True),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_features_by_their_definition(m, d, relations, bias, seed):
    items = np.random.default_rng(seed).integers(-2, 3, (m, d)).astype(float)
    expected = by_definition(items, relations, bias)
    assert_allclose(pair_features(items, relations, bias=bias), expected, atol=1e-12)
    found = pair_features(sparse.csr_array(items), relations, bias=bias)
    assert sparse.issparse(found)
    assert_allclose(found.toarray(), expected, atol=1e-12)
    assert len(pair_feature_names(d, relations, bias=bias)) == expected.shape[1]


def test_names():
    assert pair_feature_names(["age", "height"], ["product", "cosine"]) == [
        "product of age",
        "product of height",
        "cosine",
        "bias",
    ]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_single_item_has_no_pairs(form):
    assert pair_features(form(np.ones((1, 3)))).shape == (0, 5)


def groups(seed, n_groups, form):
    """Groups of items around their clusters' centers, which are new in each group."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n_groups):
        clusters = rng.integers(0, 3, 9)
        noise = rng.normal(size=(9, 2))
        items = np.concatenate([4 * rng.normal(size=(3, 2))[clusters] + 0.2 * noise, rng.normal(size=(9, 2))], axis=1)
        X.append(pair_features(form(items)))
        Y.append(clusters)
    return X, Y


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_clustering_learns_which_features_tell(form):
    model = StructuralSVM(CorrelationClustering(), C=100.0).fit(*groups(0, 30, form))
    X, Y = groups(1, 20, form)
    scores = cluster_scores(Y, model.predict(X))
    assert scores.pairs.f1 > 0.8


@pytest.mark.parametrize(
    ("items", "options", "parameter", "expected"),
    [
        (np.zeros((0, 2)), {}, "items", "at least one item"),
        (np.ones((2, 2)), {"relations": ["sum"]}, "relations", "distinct values of"),
        (np.ones((2, 2)), {"relations": ["cosine", "cosine"]}, "relations", "distinct values of"),
        (np.ones((2, 2)), {"relations": [], "bias": False}, "relations", "at least one relation if `bias` is False"),
        (np.ones((2000, 200)), {}, "most_bytes", "at least 3.2e+09 for 1999000 pairs with 202"),
        (sparse.csr_array(np.ones((2000, 200))), {}, "most_bytes", "at least"),
        (np.array([[1e200], [-1e200]]), {"relations": "product"}, "items", "small enough"),
        (sparse.csr_array([[1e200], [-1e200]]), {"relations": "distance"}, "items", "small enough"),
    ],
)
def test_bad_input(items, options, parameter, expected):
    with raises(parameter, expected=expected):
        pair_features(items, **options)


@pytest.mark.parametrize(
    ("items", "expected"), [(np.ones(3), "two-dimensional (items, features)"), ([[np.nan]], "finite")]
)
def test_items_are_finite_rows(items, expected):
    with raises("items", expected=expected):
        pair_features(items)


def test_one_relation_needs_no_list():
    assert_allclose(pair_features([[1.0, 0.0], [1.0, 1.0]], "distance", bias=False), [[1.0]])
