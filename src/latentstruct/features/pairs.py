"""Features of pairs of items, for clustering items with feature vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.types import Vector
from latentstruct.core.validation import boolean, is_real, listed
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.inputs import check_matrix

__all__ = ["pair_feature_names", "pair_features"]

WIDE = ("difference", "product")
MOST_FEATURES = 100_000_000
"""Largest number of features for which names are generated."""
NARROW = ("cosine", "distance")
RELATIONS = (*WIDE, *NARROW)


def pair_features(
    items: Any, relations: Sequence[str] = ("difference", "cosine"), *, bias: bool = True, most_bytes: float = 1e9
) -> "NDArray[np.float64] | sparse.csr_array":
    """Return features of all pairs of items of a group, as inputs of `CorrelationClustering` and `Coreference`.

    Parameters
    ----------
    items : array or sparse array of shape (m, d)
        One row per item.
    relations : sequence of {"difference", "product", "cosine", "distance"}, default=("difference", "cosine")
        The features of a pair, in this order: |x_i − x_j| of each feature (d columns), x_i x_j of each feature (d
        columns), the cosine of the angle (1 column; 0 if an item is all zeros), and the Euclidean distance (1 column).
    bias : bool, default=True
        Whether to add a last column of ones, whose weight determines how similar two items of a cluster must be.
    most_bytes : float, default=1e9
        Largest size of the result; a larger one is rejected before memory is allocated.

    Returns
    -------
    array of shape (m(m − 1)/2, D), or csr_array if the items are sparse
        The pairs (0,1), (0,2), …, (1,2), …; no rows for a single item.

    Notes
    -----
    The result has m(m − 1)/2 rows: for d = 100, "difference" of 3 200 dense items takes 4 GB.

    Examples
    --------
    >>> pair_features([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
    array([[1., 1., 0., 1.],
           [2., 0., 1., 1.],
           [3., 1., 0., 1.]])
    """
    chosen = _checked_relations(relations)
    matrix = check_matrix(items, "items")
    m = matrix.shape[0]
    if m == 0:
        raise InputError("items", Description("no items"), "at least one item")
    width = len(pair_feature_names(matrix.shape[1], chosen, bias=bias))
    _check_size(matrix, chosen, bias, width, most_bytes)
    with np.errstate(over="ignore", invalid="ignore"):
        found = (_sparse_pairs if issparse(matrix) else _dense_pairs)(matrix, chosen, bias)
    if not np.isfinite(found.data if issparse(found) else found).all():
        got = Description(f"values up to {abs(matrix).max():g}")
        raise InputError("items", got, f"small enough for finite {', '.join(chosen)} of pairs", "Scale the features.")
    return found


def pair_feature_names(
    n_features: int | Sequence[str], relations: Sequence[str] = ("difference", "cosine"), *, bias: bool = True
) -> list[str]:
    """Return the names of the columns of `pair_features`.

    Parameters
    ----------
    n_features : int or sequence of str
        The number of features of an item, or their names.
    relations, bias
        As in `pair_features`.
    """
    chosen = _checked_relations(relations)
    boolean.check(bias, "bias")
    if not isinstance(n_features, int | np.integer):
        own = listed(n_features, "n_features")
    elif not 0 <= n_features <= MOST_FEATURES:
        raise InputError("n_features", n_features, f"at most {MOST_FEATURES} and at least 0")
    else:
        own = [f"feature {k}" for k in range(n_features)]
    names = [name for r in chosen for name in ([f"{r} of {feature}" for feature in own] if r in WIDE else [r])]
    return [*names, "bias"] if bias else names


def _checked_relations(relations: Sequence[str]) -> list[str]:
    chosen = [relations] if isinstance(relations, str) else listed(relations, "relations")
    for relation in chosen:
        if not isinstance(relation, str) or relation not in RELATIONS or chosen.count(relation) > 1:
            raise InputError("relations", relations, f"distinct values of {', '.join(map(repr, RELATIONS))}")
    return chosen


def _check_size(matrix: Any, relations: list[str], bias: bool, width: int, most_bytes: float) -> None:
    """Raise if the result would have no columns, or be too large."""
    if width == 0:
        raise InputError("relations", relations, "at least one relation if `bias` is False")
    m, needed = matrix.shape[0], _bytes_needed(matrix, relations, bias)
    if not is_real(most_bytes):
        raise InputError("most_bytes", most_bytes, "a number")
    if needed > most_bytes:
        expected = f"at least {needed:.2g} for {m * (m - 1) // 2} pairs with {width} features"
        raise InputError("most_bytes", most_bytes, expected, "Or use only 'cosine' and 'distance', or smaller groups.")


def _bytes_needed(matrix: Any, relations: list[str], bias: bool) -> float:
    m, d = matrix.shape
    n_pairs, n_wide = m * (m - 1) / 2, sum(relation in WIDE for relation in relations)
    n_narrow = len(relations) - n_wide + bias
    if not issparse(matrix):
        return 8.0 * n_pairs * (n_wide * d + n_narrow)
    # A value and its column each; a pair has at most the features of both items.
    return 12.0 * (n_wide * (m - 1) * matrix.nnz + n_pairs * n_narrow)


def _dense_pairs(matrix: NDArray[np.float64], relations: list[str], bias: bool) -> NDArray[np.float64]:
    m, d = matrix.shape
    found = np.ones((m * (m - 1) // 2, len(pair_feature_names(d, relations, bias=bias))))
    start = 0
    for i in range(m):
        stop = start + m - 1 - i
        _write_pairs(matrix[i], matrix[i + 1 :], relations, found[start:stop])
        start = stop
    return found


def _write_pairs(item: Vector, others: NDArray[np.float64], relations: list[str], out: NDArray[np.float64]) -> None:
    """Write the relations of one item and those after it; other columns remain unchanged."""
    d, at = len(item), 0
    for relation in relations:
        width = d if relation in WIDE else 1
        part = out[:, at : at + width]
        if relation == "difference":
            np.abs(others - item, out=part)
        elif relation == "product":
            np.multiply(others, item, out=part)
        elif relation == "cosine":
            lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(item)
            part[:, 0] = _ratio(others @ item, lengths)
        else:
            part[:, 0] = np.linalg.norm(others - item, axis=1)
        at += width


def _ratio(products: Vector, lengths: Vector) -> Vector:
    """Return products / lengths, 0 where a length is 0."""
    return np.divide(products, lengths, out=np.zeros(len(products)), where=lengths > 0)


def _sparse_pairs(matrix: "sparse.csr_array", relations: list[str], bias: bool) -> "sparse.csr_array":
    first, second = np.triu_indices(matrix.shape[0], 1)
    a, b = matrix[first], matrix[second]
    blocks = []
    for relation in relations:
        if relation == "difference":
            blocks.append(abs(a - b))
        elif relation == "product":
            blocks.append(a * b)
        elif relation == "cosine":
            lengths = np.sqrt(matrix.multiply(matrix).sum(axis=1))
            products = (a * b).sum(axis=1)
            blocks.append(sparse.csr_array(_ratio(products, lengths[first] * lengths[second])[:, None]))
        else:
            difference = a - b
            blocks.append(sparse.csr_array(np.sqrt(difference.multiply(difference).sum(axis=1))[:, None]))
    if bias:
        blocks.append(sparse.csr_array(np.ones((len(first), 1))))
    return sparse.csr_array(sparse.hstack(blocks, format="csr"))
