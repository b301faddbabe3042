"""Graphs as people give them: examples, grids, and many graphs stacked into flat arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.checks import array_of, check_unmasked, is_ordered
from latentstruct.exceptions import InputError
from latentstruct.ragged import Indices, offsets_from_lengths
from latentstruct.short_repr import short_repr, show
from latentstruct.tasks.inputs import check_matrix
from latentstruct.tasks.labels import as_list

TypeName = int | str
"""What names a type of nodes or edges."""

NODE, EDGE = "node", "edge"
"""The types of nodes and edges that are given none."""


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
    """Return the edges of a grid whose nodes are numbered row by row.

    Parameters
    ----------
    height, width : int
        H and W.
    neighbours : {4, 8}, default=4
        Whether the diagonals are edges too.

    Returns
    -------
    edges : ndarray of shape (E, 2)
        Each pair once, the earlier node first: all edges to the right, then down, then down-right and down-left.
    directions : ndarray of str, shape (E,)
        "right", "down", "down-right" or "down-left".
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
    matrix = features if sparse.issparse(features) else array_of(features, "features")
    if shape is None:
        if matrix.ndim != 3:
            raise InputError(
                f"features of a grid must have shape (H, W, d), found {matrix.shape}: add a last axis, or give a "
                "matrix (H·W, d) and shape=(H, W)"
            )
        shape = matrix.shape[:2]
        matrix = matrix.reshape(-1, matrix.shape[2])
    whole = is_ordered(shape) and len(shape) == 2 and all(isinstance(side, int | np.integer) for side in shape)
    if not whole:
        raise InputError(f"shape is {show(shape)}; expected two whole numbers: give the height and the width")
    height, width = shape
    if matrix.ndim != 2 or matrix.shape[0] != height * width:
        raise InputError(
            f"features have shape {matrix.shape}, but a grid of shape ({height}, {width}) needs a matrix with "
            f"{height * width} rows: give one row for each cell, row by row"
        )
    edges, directions = grid_edges(height, width, neighbours)
    if edge_types is not None and not (isinstance(edge_types, str) and edge_types in ("direction", "axis")):
        raise InputError(
            f"edge_types must be 'direction', 'axis' or None, found {show(edge_types)}: choose one of these"
        )
    types = None if edge_types is None else directions
    if edge_types == "axis":
        types = np.array([AXES[str(direction)] for direction in directions], dtype="U10")
    return GraphInput(matrix, edges, edge_features, None, types)


@dataclass
class StackedGraphs:
    """Many graphs in flat arrays: nodes of graph g are nodes_at[g] … nodes_at[g + 1], edges likewise.

    Attributes
    ----------
    features : ndarray or csr_array of shape (N, d)
        Node features.
    edges : ndarray of shape (E, 2)
        Pairs of nodes in the numbering of the whole stack.
    edge_features : ndarray or csr_array of shape (E, d_e) or None
        Edge features.
    node_names, edge_names : list
        Distinct types, in the order in which they were first seen.
    node_codes, edge_codes : ndarray of shape (N,) and (E,)
        Types as positions in these lists.
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
    edges_at = offsets_from_lengths(len(edges) for edges in pairs)
    edges = np.concatenate(pairs) + np.repeat(nodes_at[:-1], np.diff(edges_at))[:, None]
    node_names, node_codes = _stacked_types([graph.node_types for graph in graphs], nodes_at, "node", NODE)
    edge_names, edge_codes = _stacked_types([graph.edge_types for graph in graphs], edges_at, "edge", EDGE)
    return StackedGraphs(
        _stacked_matrices(nodes, "features"),
        edges,
        _stacked_edge_features(graphs, edges_at),
        nodes_at,
        edges_at,
        node_names,
        node_codes,
        edge_names,
        edge_codes,
    )


def _as_graph(x: Any, k: int) -> GraphInput:
    if isinstance(x, GraphInput):
        return x
    names = [field.name for field in fields(GraphInput)]
    if isinstance(x, Mapping):
        odd = [key for key in x if key not in names]
        if odd or not {"features", "edges"} <= set(x):
            raise InputError(
                f"X[{k}] has the keys {show(list(x))}, expected 'features' and 'edges' and perhaps "
                f"{', '.join(names[2:])}: rename or remove the others"
            )
        return GraphInput(**x)
    if isinstance(x, tuple) and len(x) in (2, 3):
        return GraphInput(*x)
    shown = f"a tuple of {len(x)} items" if isinstance(x, tuple) else f"{type(x).__name__}"
    raise InputError(
        f"X[{k}] must be a graph, found {shown}: give a GraphInput, a tuple (features, edges) or (features, edges, "
        "edge_features), or a dict with these names"
    )


def _checked_edges(edges: Any, k: int, n_nodes: int) -> Indices:
    check_unmasked(edges, f"edges of X[{k}]")
    try:
        pairs = np.asarray(edges)
    except ValueError as error:
        raise InputError(
            f"edges of X[{k}] must be pairs of node numbers ({error}): give an array (E, 2) of whole numbers"
        ) from error
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"edges of X[{k}] must be whole numbers of shape (E, 2), found {pairs.dtype} of shape {pairs.shape}: give "
            "the two node numbers of each edge"
        )
    outside = np.flatnonzero(((pairs < 0) | (pairs >= n_nodes)).any(axis=1))
    if len(outside):
        e = outside[0]
        raise InputError(
            f"edge {e} of X[{k}] joins {tuple(pairs[e].tolist())}, but the graph has {n_nodes} nodes, numbered from 0: "
            "correct the edge or add the missing node"
        )
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise InputError(
            f"edge {loops[0]} of X[{k}] joins node {pairs[loops[0], 0]} with itself; expected two different nodes: "
            "remove it, and put what it says into the node's features"
        )
    return pairs.astype(np.int64)


def _stacked_matrices(matrices: Sequence[Any], what: str) -> Any:
    """Return matrices of equal width as one, sparse if one of them is."""
    width = matrices[0].shape[1]
    odd = next((k for k, matrix in enumerate(matrices) if matrix.shape[1] != width), None)
    if odd is not None:
        raise InputError(
            f"{what} of X[{odd}] have {matrices[odd].shape[1]} columns, but those of X[0] have {width}: every graph "
            "needs the same features; give these"
        )
    if any(sparse.issparse(matrix) for matrix in matrices):
        return sparse.vstack([sparse.csr_array(matrix) for matrix in matrices], format="csr")
    return np.concatenate(matrices)


def _stacked_edge_features(graphs: Sequence[GraphInput], edges_at: Indices) -> Any:
    """Return the features of all edges, or None if there are none; graphs without edges need not say."""
    sizes = np.diff(edges_at)
    given = [k for k, graph in enumerate(graphs) if graph.edge_features is not None and sizes[k]]
    silent = [k for k, graph in enumerate(graphs) if graph.edge_features is None and sizes[k]]
    if not given:
        return None
    if silent:
        raise InputError(
            f"X[{silent[0]}] has no edge_features, but X[{given[0]}] has: give them for all graphs or for none"
        )
    matrices = [check_matrix(graphs[k].edge_features, f"edge_features of X[{k}]") for k in given]
    for k, matrix in zip(given, matrices, strict=True):
        if matrix.shape[0] != sizes[k]:
            raise InputError(
                f"edge_features of X[{k}] have {matrix.shape[0]} rows, but the graph has {sizes[k]} edges: give one "
                "row for each edge"
            )
    return _stacked_matrices(matrices, "edge_features")


def _stacked_types(
    given: Sequence[Any], offsets: Indices, what: str, default: TypeName
) -> tuple[list[TypeName], Indices]:
    """Return the distinct types of all graphs' nodes or edges, and each one's position among them."""
    numbers: dict[TypeName, int] = {}
    codes = np.empty(offsets[-1], dtype=np.int64)
    for k, types in enumerate(given):
        span = slice(offsets[k], offsets[k + 1])
        size = int(offsets[k + 1] - offsets[k])
        if types is None:
            codes[span] = numbers.setdefault(default, len(numbers)) if size else 0
            continue
        names, inverse = _distinct(types, f"{what}_types of X[{k}]")
        if len(inverse) != size:
            raise InputError(
                f"{what}_types of X[{k}] has {len(inverse)} entries, but the graph has {size} {what}s: give one type "
                f"for each {what}"
            )
        known = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
        codes[span] = known[inverse]
    return list(numbers), codes


def _distinct(types: Any, name: str) -> tuple[list[TypeName], Indices]:
    if isinstance(types, np.ndarray) and types.ndim == 1 and types.dtype.kind in "iuU":
        found, inverse = np.unique(types, return_inverse=True)
        return found.tolist(), inverse.astype(np.int64)
    if isinstance(types, str) or not hasattr(types, "__len__") or getattr(types, "ndim", 1) != 1:
        raise InputError(
            f"{name} must be a sequence of whole numbers or strings, found {show(types)}: give a list of them"
        )
    numbers: dict[TypeName, int] = {}
    codes = np.empty(len(types), dtype=np.int64)
    for i, value in enumerate(as_list(types)):
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, bool) or not isinstance(plain, (int, str)):
            raise InputError(f"{name} has {show(value)} at {i}, expected a whole number or a string: convert it")
        codes[i] = numbers.setdefault(plain, len(numbers))
    return list(numbers), codes
