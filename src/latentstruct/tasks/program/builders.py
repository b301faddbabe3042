"""Programs of common outputs: assignments, label sets, intervals, spanning trees, tracks, coverings and knapsacks."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import sparse
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import check_shape, integers_of, numbers_of
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.inputs import check_matrix
from latentstruct.tasks.program.inputs import ProgramInput

__all__ = [
    "assignment",
    "covering",
    "intervals",
    "knapsack",
    "label_set",
    "label_set_output",
    "spanning_tree",
    "spanning_tree_output",
    "tracking",
    "tracking_output",
]


def _pairs(values: Any, name: str, n: int) -> NDArray[np.int64]:
    """Return pairs of different numbers from 0 to n − 1, shape (E, 2)."""
    found = integers_of(values, name).reshape(-1, 2)
    for wrong in np.flatnonzero((found < 0).any(axis=1) | (found >= n).any(axis=1) | (found[:, 0] == found[:, 1]))[:1]:
        raise InputError(f"{name}[{wrong}]", found[wrong].tolist(), f"two different numbers from 0 to {n - 1}")
    return found


def _ones(rows: Any, columns: Any, shape: tuple[int, int], values: Any = None) -> Any:
    """Return a sparse matrix with ones, or the given values."""
    rows, columns = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
    return sparse.csr_array((np.ones(len(rows)) if values is None else values, (rows, columns)), shape=shape)


def assignment(features: Any, optional: bool = False) -> ProgramInput:
    """Return the program that assigns n items to m others: each to one, or to at most one.

    Parameters
    ----------
    features : array of shape (n, m, d)
        Features of all pairs. Variable i·m + j is 1 if item i is assigned to j.
    optional : bool, default=False
        Whether items may stay single. If False, all items of the smaller side are assigned.
    """
    given = numbers_of(features, "features")
    if given.ndim != 3:
        raise InputError("features", Description(f"shape {given.shape}"), "an array of shape (n, m, d)")
    n, m, d = given.shape
    pair = np.arange(n * m)
    A = _ones(np.append(pair // m, n + pair % m), np.append(pair, pair), (n + m, n * m))
    lb = np.zeros(n + m) if optional else np.append(np.full(n, float(n <= m)), np.full(m, float(m <= n)))
    names = [*(f"row {i}" for i in range(n)), *(f"column {j}" for j in range(m))]
    return ProgramInput(given.reshape(n * m, d), A, lb, 1.0, constraint_names=names)


def label_set(features: Any, n_labels: int, pairs: Any) -> ProgramInput:
    """Return the program of a set of labels with scores of single labels and of pairs of labels.

    Parameters
    ----------
    features : array of shape (d,)
        Features of the example. Weight l·d + f belongs to label l and feature f, and then comes one weight per pair.
    n_labels : int
        Number of labels. Variable l is 1 if label l is in the set.
    pairs : array of int of shape (P, 2)
        Pairs of labels. Variable n_labels + p is 1 if both are in the set.

    See Also
    --------
    label_set_output : Values of all variables.
    """
    x = numbers_of(features, "features")
    check_shape(x, (x.size,), "features")
    both = _pairs(pairs, "pairs", n_labels)
    pair, n_pairs = n_labels + np.arange(len(both)), len(both)
    rows = np.arange(3 * n_pairs).reshape(3, n_pairs)
    # pair ≤ first, pair ≤ second, pair ≥ first + second − 1
    A = _ones(
        np.concatenate([rows[0], rows[0], rows[1], rows[1], rows[2], rows[2], rows[2]]),
        np.concatenate([pair, both[:, 0], pair, both[:, 1], both[:, 0], both[:, 1], pair]),
        (3 * n_pairs, n_labels + n_pairs),
        np.repeat([1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0], n_pairs),
    )
    blocks = sparse.block_diag([sparse.kron(sparse.eye_array(n_labels), x[None]), sparse.eye_array(n_pairs)])
    return ProgramInput(sparse.csr_array(blocks), A, ub=np.repeat([0.0, 0.0, 1.0], n_pairs))


def label_set_output(labels: Any, n_labels: int, pairs: Any) -> Vector:
    """Return the values of the variables of `label_set` for the labels of an example; −1 or NaN is unknown.

    Parameters
    ----------
    labels : array of shape (n_labels,)
        1 for labels in the set, 0 for others.
    n_labels, pairs
        As in `label_set`.
    """
    y = numbers_of(labels, "labels")
    check_shape(y, (n_labels,), "labels")
    y = np.where(y == -1, np.nan, y)
    first, second = y[_pairs(pairs, "pairs", n_labels).T]
    # A pair with a missing label is missing whether the other is known or not.
    return np.append(y, np.where((first == 0) | (second == 0), 0.0, first * second))


def intervals(features: Any, spans: Any, capacity: int = 1, cover: bool = False) -> ProgramInput:
    """Return the program that chooses intervals of which at most `capacity` overlap anywhere.

    Parameters
    ----------
    features : array or CSR array of shape (V, d)
        Features of the intervals.
    spans : array of shape (V, 2)
        Start and stop of each interval; the stop is excluded.
    capacity : int, default=1
        Number of intervals that may overlap.
    cover : bool, default=False
        Whether exactly `capacity` intervals overlap between the first start and the last stop: a segmentation if it
        is 1.
    """
    ends = numbers_of(spans, "spans")
    check_shape(ends, (check_matrix(features, "features").shape[0], 2), "spans", "start and stop of each interval")
    for wrong in np.flatnonzero(~(ends[:, 0] < ends[:, 1]))[:1]:
        raise InputError(f"spans[{wrong}]", ends[wrong].tolist(), "a start before its stop")
    marks = np.unique(ends)
    inside = (ends[:, 0] <= marks[:-1, None]) & (marks[:-1, None] < ends[:, 1])
    names = [f"{start:g} to {stop:g}" for start, stop in pairwise(marks)]
    low = float(capacity) if cover else 0.0
    return ProgramInput(features, sparse.csr_array(inside.astype(float)), low, capacity, constraint_names=names)


def spanning_tree(features: Any, edges: Any, n_nodes: int) -> ProgramInput:
    """Return the program of the spanning trees of a graph, whose linear relaxation is integral (Martin 1991).

    Parameters
    ----------
    features : array or CSR array of shape (E, d)
        Features of the edges. The first E variables are the edges; the others, 2·E·n_nodes, are auxiliary and have no
        features: their values in Y are unknown, see `spanning_tree_output`.
    edges : array of int of shape (E, 2)
        The edges.
    n_nodes : int
        Number of nodes.
    """
    matrix, ends = check_matrix(features, "features"), _pairs(edges, "edges", n_nodes)
    E, n = matrix.shape[0], n_nodes
    check_shape(ends, (E, 2), "edges", "one edge per row of features")
    # Directed towards root k, the tree has one arc out of each other node: arc (k, e, 0) leaves the first node of e.
    arc = E + np.arange(n * E * 2).reshape(n, E, 2)
    k, e = np.divmod(np.arange(n * E), E)
    pairs = np.arange(n * E)
    both = _ones(
        np.concatenate([pairs, pairs, pairs]),
        np.concatenate([arc[:, :, 0].ravel(), arc[:, :, 1].ravel(), e]),
        (n * E, E + 2 * n * E),
        np.repeat([1.0, 1.0, -1.0], n * E),
    )
    out = _ones(
        np.append(k * n + ends[e, 0], k * n + ends[e, 1]),
        np.append(arc[:, :, 0].ravel(), arc[:, :, 1].ravel()),
        (n * n, E + 2 * n * E),
    )
    total = _ones(np.zeros(E), np.arange(E), (1, E + 2 * n * E))
    leaves = 1.0 - np.eye(n).ravel()
    bounds = np.concatenate([np.zeros(n * E), leaves, [n - 1.0]])
    padded = sparse.vstack([sparse.csr_array(matrix), sparse.csr_array((2 * n * E, matrix.shape[1]))], format="csr")
    whole = np.arange(E + 2 * n * E) < E
    return ProgramInput(padded, sparse.vstack([both, out, total], format="csr"), bounds, bounds, integer=whole)


def spanning_tree_output(chosen: Any, n_nodes: int) -> Vector:
    """Return the values of the variables of `spanning_tree` for known edges (E,); −1 or NaN is unknown."""
    y = numbers_of(chosen, "chosen")
    return np.append(y, np.full(2 * n_nodes * len(y), np.nan))


def tracking(
    node_features: Any,
    edges: Any,
    edge_features: Any,
    appear_features: Any = None,
    disappear_features: Any = None,
    divisions: bool = False,
) -> ProgramInput:
    """Return the program of tracks: paths through detections, which may begin and end anywhere and may divide.

    Variables are, in this order, the N nodes, the E edges, the appearances and the disappearances of nodes and, with
    `divisions`, the divisions of nodes. A node in a track has one edge into it or appears, and one edge out of it, or
    two if it divides, or disappears. Each kind of variables has separate weights.

    Parameters
    ----------
    node_features : array or CSR array of shape (N, d)
        Features of detections.
    edges : array of int of shape (E, 2)
        Possible links, from the earlier detection to the later one.
    edge_features : array or CSR array of shape (E, d_e)
        Features of links.
    appear_features, disappear_features : array or CSR array of shape (N, …), optional
        Features of the first and the last detection of a track; a constant 1 if None.
    divisions : bool, default=False
        Whether tracks may divide in two; the feature of a division is a constant 1.

    See Also
    --------
    tracking_output : Values of all variables.
    """
    nodes, links = check_matrix(node_features, "node_features"), check_matrix(edge_features, "edge_features")
    N, E = nodes.shape[0], links.shape[0]
    ends = _pairs(edges, "edges", N)
    check_shape(ends, (E, 2), "edges", "one edge per row of `edge_features`")
    blocks = [nodes, links]
    for features, name in ((appear_features, "appear_features"), (disappear_features, "disappear_features")):
        blocks.append(check_matrix(np.ones((N, 1)) if features is None else features, name))
        if blocks[-1].shape[0] != N:
            raise InputError(name, Description(f"{blocks[-1].shape[0]} rows"), f"{N} rows, one per node")
    blocks += [np.ones((N, 1))] if divisions else []
    node, edge, columns = np.arange(N), N + np.arange(E), (4 if divisions else 3) * N + E
    appear, disappear = N + E + node, 2 * N + E + node
    inward = _ones(
        np.concatenate([ends[:, 1], node, node]),
        np.concatenate([edge, appear, node]),
        (N, columns),
        np.repeat([1.0, 1.0, -1.0], [E, N, N]),
    )
    split = 3 * N + E + node if divisions else np.zeros(0, dtype=np.int64)
    outward = _ones(
        np.concatenate([ends[:, 0], node, node, node[: len(split)]]),
        np.concatenate([edge, disappear, node, split]),
        (N, columns),
        np.repeat([1.0, 1.0, -1.0, -1.0], [E, N, N, len(split)]),
    )
    rows, names = [inward, outward], [f"{side} node {i}" for side in ("into", "out of") for i in range(N)]
    ub = np.zeros(2 * N)
    if divisions:
        # Only a node that goes on can divide: both edges are then taken.
        rows.append(
            _ones(
                np.concatenate([node, node, node]),
                np.concatenate([split, disappear, node]),
                (N, columns),
                np.repeat([1.0, 1.0, -1.0], N),
            )
        )
        # A track goes on by a link or ends. Integers satisfy this anyway, linear relaxations would be half divided.
        link = np.arange(E)
        rows.append(
            _ones(
                np.concatenate([link, link, link]),
                np.concatenate([edge, disappear[ends[:, 0]], ends[:, 0]]),
                (E, columns),
                np.repeat([1.0, 1.0, -1.0], E),
            )
        )
        names += [*(f"division of node {i}" for i in range(N)), *(f"start of edge {e}" for e in range(E))]
        ub = np.zeros(3 * N + E)
    lb = np.where(np.arange(len(ub)) < 2 * N, 0.0, -np.inf)
    kinds = [("node", N), ("edge", E), ("appear", N), ("disappear", N), ("divide", N if divisions else 0)]
    variables = [f"{kind} {i}" for kind, size in kinds for i in range(size)]
    features = sparse.block_diag([sparse.csr_array(block) for block in blocks], format="csr")
    A = sparse.vstack(rows, format="csr")
    return ProgramInput(sparse.csr_array(features), A, lb, ub, names=variables, constraint_names=names)


def tracking_output(nodes: Any, edges: Any, chosen: Any, divisions: bool = False) -> Vector:
    """Return the values of the variables of `tracking`; −1 or NaN is unknown.

    Appearances, disappearances and divisions follow from the edges of a node, where all of them are known.

    Parameters
    ----------
    nodes : array of shape (N,)
        1 for detections that are in a track, 0 for others.
    edges : array of int of shape (E, 2)
        As in `tracking`.
    chosen : array of shape (E,)
        1 for edges that are in a track, 0 for others.
    divisions : bool, default=False
        As in `tracking`.
    """
    y, links = (
        np.where(values == -1, np.nan, values) for values in (numbers_of(nodes, "nodes"), numbers_of(chosen, "chosen"))
    )
    ends = _pairs(edges, "edges", len(y))
    check_shape(links, (len(ends),), "chosen", "one value per edge")
    into, out = (_sums(ends[:, side], links, len(y)) for side in (1, 0))
    gone = y - np.minimum(out, 1.0)
    return np.concatenate([y, links, y - into, gone, *([out - np.minimum(out, 1.0)] if divisions else [])])


def _sums(at: Indices, values: Vector, n: int) -> Vector:
    sums = np.zeros(n)
    np.add.at(sums, at, values)
    return sums


def covering(features: Any, sets: Sequence[Sequence[int]], n_items: int) -> ProgramInput:
    """Return the program that chooses sets which together contain all items from 0 to n_items − 1.

    Parameters
    ----------
    features : array or CSR array of shape (V, d)
        Features of the sets.
    sets : sequence of V sequences of int
        The items of each set.
    n_items : int
        Number of items.
    """
    items = np.concatenate([integers_of(one, f"sets[{k}]").ravel() for k, one in enumerate(sets)])
    if len(items) and not 0 <= items.min() <= items.max() < n_items:
        raise InputError("sets", int(items[(items < 0) | (items >= n_items)][0]), f"items from 0 to {n_items - 1}")
    A = _ones(items, np.repeat(np.arange(len(sets)), [len(one) for one in sets]), (n_items, len(sets)))
    A.data[:] = 1.0
    return ProgramInput(features, A, 1.0, constraint_names=[f"item {i}" for i in range(n_items)])


def knapsack(features: Any, sizes: Any, capacities: Any) -> ProgramInput:
    """Return the program that chooses items whose sizes sum to at most the capacities.

    Parameters
    ----------
    features : array or CSR array of shape (V, d)
        Features of the items.
    sizes : array of shape (V,) or (m, V)
        Sizes of the items, for each of m capacities.
    capacities : float or array of shape (m,)
        The capacities.
    """
    return ProgramInput(features, np.atleast_2d(numbers_of(sizes, "sizes")), ub=np.atleast_1d(capacities))
