"""Features of pairs of items, for the clustering of anything that has feature vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import show
from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.types import Vector
from latentstruct.core.validation import boolean, is_real, listed
from latentstruct.exceptions import InputError
from latentstruct.tasks.inputs import check_matrix

__all__ = ["pair_feature_names", "pair_features"]

WIDE = ("difference", "product")
# As many as there are names for.
MOST_FEATURES = 100_000_000
NARROW = ("cosine", "distance")
RELATIONS = (*WIDE, *NARROW)


def pair_features(
    items: Any,
    relations: Sequence[str] = ("difference", "cosine"),
    *,
    bias: bool = True,
    most_bytes: float = 1e9,
) -> "NDArray[np.float64] | sparse.csr_array":
    """Return features of all pairs of a group's items, as `CorrelationClustering` and `Coreference` take them.

    Parameters
    ----------
    items : array or sparse array of shape (m, d)
        One row an item.
    relations : sequence of {"difference", "product", "cosine", "distance"}, default=("difference", "cosine")
        What to say of a pair, in this order: |x_i − x_j| of each feature (d columns), x_i x_j of each feature (d
        columns), the cosine of the angle (1 column; 0 if an item is all zeros), and the Euclidean distance (1 column).
    bias : bool, default=True
        Whether to add a last column of ones, whose weight says how alike two items must be to be put together.
    most_bytes : float, default=1e9
        The largest result that is made; a larger one is refused with its size before memory is taken.

    Returns
    -------
    array of shape (m(m − 1)/2, D), or csr_array if the items are sparse
        The pairs (0,1), (0,2), …, (1,2), …; no rows for a single item.

    Notes
    -----
    The result has m(m − 1)/2 rows: at d = 100, "difference" takes 4 GB for 3 200 items that are dense.

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
        raise InputError("items is empty; expected at least one item: leave out groups without items")
    width = len(pair_feature_names(matrix.shape[1], chosen, bias=bias))
    _check_size(matrix, chosen, bias, width, most_bytes)
    with np.errstate(over="ignore", invalid="ignore"):
        found = (_sparse_pairs if issparse(matrix) else _dense_pairs)(matrix, chosen, bias)
    if not np.isfinite(found.data if issparse(found) else found).all():
        raise InputError(
            f"items has values up to {abs(matrix).max():g}, too large for {', '.join(map(repr, chosen))} of a "
            f"pair; expected smaller ones: scale the features, for instance to the variance 1"
        )
    return found


def pair_feature_names(
    n_features: int | Sequence[str], relations: Sequence[str] = ("difference", "cosine"), *, bias: bool = True
) -> list[str]:
    """Return what each column of `pair_features` is.

    Parameters
    ----------
    n_features : int or sequence of str
        The number of an item's features, or their names.
    relations, bias
        As given to `pair_features`.
    """
    chosen = _checked_relations(relations)
    boolean.check(bias, "bias")
    if not isinstance(n_features, int | np.integer):
        own = listed(n_features, "n_features")
    elif not 0 <= n_features <= MOST_FEATURES:
        raise InputError(f"n_features is {show(n_features)}; expected 0 to {MOST_FEATURES}: give fewer")
    else:
        own = [f"feature {k}" for k in range(n_features)]
    names = [name for r in chosen for name in ([f"{r} of {feature}" for feature in own] if r in WIDE else [r])]
    return [*names, "bias"] if bias else names


def _checked_relations(relations: Sequence[str]) -> list[str]:
    chosen = [relations] if isinstance(relations, str) else listed(relations, "relations")
    for relation in chosen:
        if not isinstance(relation, str) or relation not in RELATIONS or chosen.count(relation) > 1:
            raise InputError(
                f"relations is {show(relations)}; expected some of {', '.join(map(repr, RELATIONS))}, each once: "
                "correct it"
            )
    return chosen


def _check_size(matrix: Any, relations: list[str], bias: bool, width: int, most_bytes: float) -> None:
    """Raise if there is nothing to make, or too much."""
    if width == 0:
        raise InputError("neither relations nor bias are given, so that pairs have no features: choose a relation")
    m, needed = matrix.shape[0], _bytes_needed(matrix, relations, bias)
    if not is_real(most_bytes):
        raise InputError(f"most_bytes must be a number, found {show(most_bytes)}: choose one such as 1e9")
    if needed > most_bytes:
        raise InputError(
            f"the {m * (m - 1) // 2} pairs of {m} items with {width} features would take about {needed / 1e9:.2g} GB, "
            f"more than most_bytes={most_bytes:g}: choose 'cosine' or 'distance' only, form smaller groups, or "
            "raise most_bytes"
        )


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
    """Write the relations of one item and those behind it; columns that are left remain as they are."""
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
