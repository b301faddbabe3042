"""Inputs of graph models: single graphs, grids, and many graphs stacked into flat arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.types import Indices, offsets_from_lengths
from latentstruct.core.validation import array_of, check_length, is_integer, is_ordered, options
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.inputs import check_matrix
from latentstruct.tasks.labels import as_list

TypeName = int | str
"""Name of a type of nodes or edges."""


@dataclass(eq=False)
class GraphInput:
    """One graph with features.

    Attributes
    ----------
    features : array or CSR array of shape (V, d)
        Features of the nodes.
    edges : array of int, shape (E, 2)
        Pairs of different nodes; their order matters where labels or types are not symmetric.
    edge_features : array or CSR array of shape (E, d_e), optional
        Features of the edges; a constant 1 if None.
    node_types : sequence of V ints or strings, optional
        Types of the nodes; each type has separate weights. All "node" if None.
    edge_types : sequence of E ints or strings, optional
        Types of the edges; all "edge" if None.
    """

    features: Any
    edges: Any
    edge_features: Any = None
    node_types: Any = None
    edge_types: Any = None

    __repr__ = short_repr


# Steps (down, right) to the neighbors that come later in row-major order.
STEPS = {"right": (0, 1), "down": (1, 0), "down-right": (1, 1), "down-left": (1, -1)}
AXES = {"right": "horizontal", "down": "vertical", "down-right": "diagonal", "down-left": "diagonal"}


def grid_edges(height: int, width: int, neighbors: int = 4) -> tuple[Indices, NDArray]:
    """Return the edges (E, 2) of a grid whose nodes are numbered row by row, and their directions (E,).

    Each pair comes once, the earlier node first: all edges to the "right", then "down", and, if there are 8
    `neighbors`, "down-right" and "down-left".
    """
    if not (is_integer(neighbors) and neighbors in (4, 8)):
        raise InputError("neighbors", neighbors, "4 or 8")
    numbers = np.arange(height * width, dtype=np.int64).reshape(height, width)
    edges, directions = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0, dtype="U10")]
    for direction, (down, right) in list(STEPS.items())[: neighbors // 2]:
        first = numbers[: height - down, max(0, -right) : width - max(0, right)]
        second = numbers[down:, max(0, right) : width + min(0, right)]
        edges.append(np.stack([first.ravel(), second.ravel()], axis=1))
        directions.append(np.full(first.size, direction, dtype="U10"))
    return np.concatenate(edges), np.concatenate(directions)


def grid_graph(
    features: Any,
    neighbors: int = 4,
    edge_types: Literal["direction", "axis"] | None = None,
    edge_features: Any = None,
    shape: tuple[int, int] | None = None,
) -> GraphInput:
    """Return a grid, such as the pixels or patches of an image, as a graph with nodes in row-major order.

    Parameters
    ----------
    features : array of shape (H, W, d), or array or CSR array of shape (H·W, d) with `shape`
        Features of the cells.
    neighbors : {4, 8}, default=4
        Number of neighbors of a cell; 8 includes diagonal ones.
    edge_types : {"direction", "axis"}, optional
        "direction": right, down, down-right and down-left edges have separate weights; "axis": horizontal, vertical and
        diagonal ones; None: all edges share their weights.
    edge_features : array or CSR array of shape (E, d_e), optional
        In the order of `grid_edges`.
    shape : tuple (H, W), optional
        Shape of the grid if `features` is a matrix.
    """
    matrix = features if issparse(features) else array_of(features, "features")
    if shape is None:
        if matrix.ndim != 3:
            got = Description(f"shape {matrix.shape}")
            raise InputError("features", got, "an array of shape (H, W, d)", "Pass `shape` for a matrix (H·W, d).")
        shape = matrix.shape[:2]
        matrix = matrix.reshape(-1, matrix.shape[2])
    if not (is_ordered(shape) and len(shape) == 2 and all(map(is_integer, shape))):
        raise InputError("shape", shape, "two integers (height, width)")
    height, width = shape
    if matrix.ndim != 2 or matrix.shape[0] != height * width:
        got = Description(f"shape {matrix.shape}")
        raise InputError("features", got, f"a matrix with {height * width} rows, one per cell in row-major order")
    edges, directions = grid_edges(height, width, neighbors)
    if edge_types is None:
        return GraphInput(matrix, edges, edge_features)
    options("direction", "axis").check(edge_types, "edge_types")
    if edge_types == "axis":
        directions = np.array([AXES[str(direction)] for direction in directions], dtype="U10")
    return GraphInput(matrix, edges, edge_features, None, directions)


@dataclass
class StackedGraphs:
    """Many graphs in flat arrays: nodes of graph g are nodes_at[g] … nodes_at[g + 1], edges likewise.

    Edges (E, 2) have node indices of the whole stack. Types are codes: indices in the lists of names.
    """

    features: Any
    edges: Indices
    edge_features: Any
    nodes_at: Indices
    edges_at: Indices
    node_names: list[TypeName]
    node_codes: Indices
    edge_names: list[TypeName]
    edge_codes: Indices


def stack_graphs(X: Any) -> StackedGraphs:
    """Check examples and lay them out in flat arrays."""
    graphs = [_as_graph(x, k) for k, x in enumerate(X)]
    nodes = [check_matrix(graph.features, f"X[{k}].features") for k, graph in enumerate(graphs)]
    nodes_at = offsets_from_lengths(matrix.shape[0] for matrix in nodes)
    pairs = [_checked_edges(graph.edges, k, nodes[k].shape[0]) for k, graph in enumerate(graphs)]
    edges_at = offsets_from_lengths(map(len, pairs))
    return StackedGraphs(
        _stacked_matrices(nodes, range(len(nodes)), "features"),
        np.concatenate(pairs) + np.repeat(nodes_at[:-1], np.diff(edges_at))[:, None],
        _stacked_edge_features(graphs, np.diff(edges_at)),
        nodes_at,
        edges_at,
        *_stacked_types([graph.node_types for graph in graphs], nodes_at, "node"),
        *_stacked_types([graph.edge_types for graph in graphs], edges_at, "edge"),
    )


def _as_graph(x: Any, k: int) -> GraphInput:
    if isinstance(x, GraphInput):
        return x
    if isinstance(x, Mapping):
        names = [field.name for field in fields(GraphInput)]
        if not {"features", "edges"} <= set(x) <= set(names):
            expected = f"a dict with the keys features and edges, and optionally {', '.join(names[2:])}"
            raise InputError(f"X[{k}]", list(x), expected)
        return GraphInput(**x)
    if isinstance(x, tuple) and len(x) in (2, 3):
        return GraphInput(*x)
    raise InputError(f"X[{k}]", x, "a GraphInput, a tuple (features, edges[, edge_features]) or a dict")


def _checked_edges(edges: Any, k: int, n_nodes: int) -> Indices:
    pairs = array_of(edges, f"X[{k}].edges")
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        got = Description(f"{pairs.dtype} of shape {pairs.shape}")
        raise InputError(f"X[{k}].edges", got, "integers of shape (E, 2)")
    wrong = ((pairs < 0) | (pairs >= n_nodes)).any(axis=1) | (pairs[:, 0] == pairs[:, 1])
    for e in np.flatnonzero(wrong)[:1]:
        expected = f"two different nodes from 0 to {n_nodes - 1}"
        raise InputError(f"X[{k}].edges[{e}]", tuple(pairs[e].tolist()), expected)
    return pairs.astype(np.int64)


def _stacked_matrices(matrices: Sequence[Any], numbers: Sequence[int], what: str) -> Any:
    """Return matrices of equal width as one, sparse if one of them is; `numbers` are those of their graphs."""
    width = matrices[0].shape[1]
    for k, matrix in zip(numbers, matrices, strict=True):
        if matrix.shape[1] != width:
            got, expected = Description(f"{matrix.shape[1]} columns"), f"a matrix with {width} columns"
            raise InputError(f"X[{k}].{what}", got, f"{expected}, as `X[{numbers[0]}].{what}`")
    if any(issparse(matrix) for matrix in matrices):
        return sparse.vstack([sparse.csr_array(matrix) for matrix in matrices], format="csr")
    return np.concatenate(matrices)


def _stacked_edge_features(graphs: Sequence[GraphInput], sizes: Indices) -> Any:
    """Return the features of all edges, or None if there are none; graphs without edges need not have any."""
    joined = np.flatnonzero(sizes).tolist()
    given = [k for k in joined if graphs[k].edge_features is not None]
    if not given:
        return None
    matrices = []
    for k in joined:
        if graphs[k].edge_features is None:
            raise InputError(f"X[{k}].edge_features", None, f"a matrix, as `X[{given[0]}].edge_features`")
        matrices.append(check_matrix(graphs[k].edge_features, f"X[{k}].edge_features"))
        if (n_rows := matrices[-1].shape[0]) != sizes[k]:
            got = Description(f"{n_rows} rows")
            raise InputError(f"X[{k}].edge_features", got, f"a matrix with {sizes[k]} rows, one per edge")
    return _stacked_matrices(matrices, given, "edge_features")


def _stacked_types(given: Sequence[Any], offsets: Indices, what: str) -> tuple[list[TypeName], Indices]:
    """Return the distinct types of the nodes or edges of all graphs, `what` if not given, and the indices of types."""
    numbers: dict[TypeName, int] = {}
    codes = []
    for k, (types, size) in enumerate(zip(given, np.diff(offsets).tolist(), strict=True)):
        if types is None:
            codes.append(np.full(size, numbers.setdefault(what, len(numbers)) if size else 0))
            continue
        name = f"X[{k}].{what}_types"
        if isinstance(types, str) or not hasattr(types, "__len__") or getattr(types, "ndim", 1) != 1:
            raise InputError(name, types, "a list of integers or strings")
        values = [value.item() if isinstance(value, np.generic) else value for value in as_list(types)]
        for i, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, (int, str)):
                raise InputError(f"{name}[{i}]", value, "an integer or a string")
        check_length(values, size, name, f"{what} types")
        codes.append(np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64))
    return list(numbers), np.concatenate(codes)
