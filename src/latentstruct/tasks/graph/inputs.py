"""Graphs as people give them: examples, grids, and many graphs stacked into flat arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr, show
from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.types import Indices, offsets_from_lengths
from latentstruct.core.validation import array_of, check_unmasked, is_ordered, options
from latentstruct.exceptions import InputError
from latentstruct.tasks.inputs import check_matrix
from latentstruct.tasks.labels import as_list

TypeName = int | str
"""What names a type of nodes or edges."""


@dataclass(eq=False)
class GraphInput:
    """One graph with features.

    Attributes
    ----------
    features : array or CSR array of shape (V, d)
        Features of the nodes.
    edges : array of int, shape (E, 2)
        Pairs of different nodes; the order of the two matters where labels or types are not symmetric.
    edge_features : array or CSR array of shape (E, d_e), optional
        Features of the edges; a constant 1 if None.
    node_types : sequence of V ints or strings, optional
        Types of the nodes, which have weights of their own; all "node" if None.
    edge_types : sequence of E ints or strings, optional
        Types of the edges; all "edge" if None.
    """

    features: Any
    edges: Any
    edge_features: Any = None
    node_types: Any = None
    edge_types: Any = None

    __repr__ = short_repr


# Steps (down, right) to the neighbours that come later in row-major order.
STEPS = {"right": (0, 1), "down": (1, 0), "down-right": (1, 1), "down-left": (1, -1)}
AXES = {"right": "horizontal", "down": "vertical", "down-right": "diagonal", "down-left": "diagonal"}


def grid_edges(height: int, width: int, neighbours: int = 4) -> tuple[Indices, NDArray]:
    """Return the edges (E, 2) of a grid whose nodes are numbered row by row, and their directions (E,).

    Each pair comes once, the earlier node first: all edges to the "right", then "down", and, if there are 8
    `neighbours`, "down-right" and "down-left".
    """
    if not (isinstance(neighbours, int | np.integer) and neighbours in (4, 8)):
        raise InputError(f"neighbours must be 4 or 8, found {show(neighbours)}: choose one of these")
    numbers = np.arange(height * width, dtype=np.int64).reshape(height, width)
    edges, directions = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0, dtype="U10")]
    for direction, (down, right) in list(STEPS.items())[: neighbours // 2]:
        first = numbers[: height - down, max(0, -right) : width - max(0, right)]
        second = numbers[down:, max(0, right) : width + min(0, right)]
        edges.append(np.stack([first.ravel(), second.ravel()], axis=1))
        directions.append(np.full(first.size, direction, dtype="U10"))
    return np.concatenate(edges), np.concatenate(directions)


def grid_graph(
    features: Any,
    neighbours: int = 4,
    edge_types: Literal["direction", "axis"] | None = None,
    edge_features: Any = None,
    shape: tuple[int, int] | None = None,
) -> GraphInput:
    """Return a grid, such as the pixels or patches of an image, as a graph with nodes in row-major order.

    Parameters
    ----------
    features : array of shape (H, W, d), or array or CSR array of shape (H·W, d) with `shape`
        Features of the cells.
    neighbours : {4, 8}, default=4
        Whether diagonal neighbours are joined too.
    edge_types : {"direction", "axis"}, optional
        "direction": right, down, down-right and down-left edges have weights of their own; "axis": horizontal, vertical
        and diagonal ones; None: all edges share their weights.
    edge_features : array or CSR array of shape (E, d_e), optional
        In the order of `grid_edges`.
    shape : tuple (H, W), optional
        Shape of the grid if `features` is a matrix.
    """
    matrix = features if issparse(features) else array_of(features, "features")
    if shape is None:
        if matrix.ndim != 3:
            raise InputError(f"features of a grid must have shape (H, W, d), got {matrix.shape}: give shape=(H, W)")
        shape = matrix.shape[:2]
        matrix = matrix.reshape(-1, matrix.shape[2])
    if not (is_ordered(shape) and len(shape) == 2 and all(isinstance(side, int | np.integer) for side in shape)):
        raise InputError(f"shape must be two integers, got {show(shape)}: give the height and the width")
    height, width = shape
    if matrix.ndim != 2 or matrix.shape[0] != height * width:
        raise InputError(
            f"features have shape {matrix.shape}, but a grid of shape ({height}, {width}) needs a matrix with "
            f"{height * width} rows: give one row for each cell, row by row"
        )
    edges, directions = grid_edges(height, width, neighbours)
    if edge_types is None:
        return GraphInput(matrix, edges, edge_features)
    options("direction", "axis").check(edge_types, "edge_types")
    if edge_types == "axis":
        directions = np.array([AXES[str(direction)] for direction in directions], dtype="U10")
    return GraphInput(matrix, edges, edge_features, None, directions)


@dataclass
class StackedGraphs:
    """Many graphs in flat arrays: nodes of graph g are nodes_at[g] … nodes_at[g + 1], edges likewise.

    Edges (E, 2) number the nodes of the whole stack. Types are codes: places in the lists of names.
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
    nodes = [check_matrix(graph.features, f"features of X[{k}]") for k, graph in enumerate(graphs)]
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
            raise InputError(
                f"X[{k}] has the keys {show(list(x))}, expected 'features', 'edges' and perhaps "
                f"{', '.join(names[2:])}: rename or remove the others"
            )
        return GraphInput(**x)
    if isinstance(x, tuple) and len(x) in (2, 3):
        return GraphInput(*x)
    found = f"a tuple of {len(x)} items" if isinstance(x, tuple) else f"{type(x).__name__}"
    raise InputError(
        f"X[{k}] must be a graph, found {found}: give a GraphInput, a tuple (features, edges[, edge_features]) or dict"
    )


def _checked_edges(edges: Any, k: int, n_nodes: int) -> Indices:
    check_unmasked(edges, f"edges of X[{k}]")
    try:
        pairs = np.asarray(edges)
    except ValueError as error:
        raise InputError(f"edges of X[{k}] must be pairs of node numbers ({error}): give an array (E, 2)") from error
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"edges of X[{k}] must be whole numbers of shape (E, 2), found {pairs.dtype} of {pairs.shape}: give pairs"
        )
    for e in np.flatnonzero(((pairs < 0) | (pairs >= n_nodes)).any(axis=1))[:1]:
        pair = tuple(pairs[e].tolist())
        raise InputError(f"edge {e} of X[{k}] joins {pair}, but the graph has {n_nodes} nodes: count from 0")
    for e in np.flatnonzero(pairs[:, 0] == pairs[:, 1])[:1]:
        raise InputError(f"edge {e} of X[{k}] joins node {pairs[e, 0]} with itself; expected two nodes: remove it")
    return pairs.astype(np.int64)


def _stacked_matrices(matrices: Sequence[Any], numbers: Sequence[int], what: str) -> Any:
    """Return matrices of equal width as one, sparse if one of them is; `numbers` are those of their graphs."""
    width = matrices[0].shape[1]
    for k, matrix in zip(numbers, matrices, strict=True):
        if (found := matrix.shape[1]) != width:
            raise InputError(
                f"{what} of X[{k}] have {found} columns, but those of X[{numbers[0]}] have {width}: give the same"
            )
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
            raise InputError(f"X[{k}] has no edge_features, but X[{given[0]}] has: give them for all or for none")
        matrices.append(check_matrix(graphs[k].edge_features, f"edge_features of X[{k}]"))
        if (n_rows := matrices[-1].shape[0]) != sizes[k]:
            raise InputError(
                f"edge_features of X[{k}] have {n_rows} rows, but there are {sizes[k]} edges: give as many"
            )
    return _stacked_matrices(matrices, given, "edge_features")


def _stacked_types(given: Sequence[Any], offsets: Indices, what: str) -> tuple[list[TypeName], Indices]:
    """Return the distinct types of all graphs' nodes or edges, `what` if not given, and each one's place there."""
    numbers: dict[TypeName, int] = {}
    codes = []
    for k, (types, size) in enumerate(zip(given, np.diff(offsets).tolist(), strict=True)):
        if types is None:
            codes.append(np.full(size, numbers.setdefault(what, len(numbers)) if size else 0))
            continue
        name = f"{what}_types of X[{k}]"
        if isinstance(types, str) or not hasattr(types, "__len__") or getattr(types, "ndim", 1) != 1:
            raise InputError(f"{name} must be a sequence of whole numbers or strings, found {show(types)}: give a list")
        values = [value.item() if isinstance(value, np.generic) else value for value in as_list(types)]
        for i, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, (int, str)):
                raise InputError(f"{name} has {show(value)} at {i}, expected a whole number or a string: convert it")
        if len(values) != size:
            raise InputError(f"{name} has {len(values)} entries, but the graph has {size} {what}s: give one for each")
        codes.append(np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64))
    return list(numbers), np.concatenate(codes)
