"""Graphs with labeled nodes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import csgraph, sparse
from latentstruct.core.validation import array_of, check_length, check_lists, finite_of
from latentstruct.exceptions import Description, InputError
from latentstruct.viz.plots.axes import new_axes, on_axes
from latentstruct.viz.plots.colors import SINGLE, WRONG, shade
from latentstruct.viz.plots.features import drawn_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NODES = 300
"""Maximum number of nodes for a layout."""
NODES_WITH_TEXT = 120
SHORT = 3
"""Maximum characters of a label inside a node."""
LABELS_IN_LEGEND = 16
STEPS = 60


def lay_out_graph(n_nodes: int, edges: Any) -> NDArray[np.float64]:
    """Return positions of nodes whose distances approximate the numbers of edges between them.

    The stress Σ_{i<j} (‖p_i − p_j‖ − d_ij)² / d_ij² is reduced by majorization, starting from classical
    scaling. Connected components are placed side by side.

    Parameters
    ----------
    n_nodes : int
        Number of nodes, at most 300.
    edges : int array of shape (E, 2)
        The two nodes of each edge.

    Returns
    -------
    array of shape (n_nodes, 2)
        The positions, deterministic.
    """
    pairs = check_graph(n_nodes, edges)
    if n_nodes > MOST_NODES:
        raise InputError("n_nodes", n_nodes, f"at most {MOST_NODES}", "Draw a part of the graph, or set `places`.")
    if n_nodes < 3:
        return np.column_stack([np.arange(n_nodes, dtype=np.float64), np.zeros(n_nodes)])
    ones = np.ones(len(pairs))
    distances = csgraph.shortest_path(
        sparse.csr_array((ones, (pairs[:, 0], pairs[:, 1])), (n_nodes, n_nodes)), directed=False
    )
    reached = np.isfinite(distances)
    apart = max(2.0, float(distances[reached].max()) / 2 + 1.0)
    distances = np.where(reached, distances, apart)
    places = _scaled(distances)
    np.fill_diagonal(distances, 1.0)
    # Majorization would not separate nodes that classical scaling puts at the same position.
    places += 1e-3 * np.random.default_rng(0).normal(size=places.shape)
    return _turned(_settled(places, distances), pairs)


def _turned(places: NDArray[np.float64], pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return positions rotated so that perpendicular edges, as in a grid, are parallel to the axes."""
    if not len(pairs):
        return places
    along = places[pairs[:, 1]] - places[pairs[:, 0]]
    angle = -np.angle(np.exp(4j * np.arctan2(along[:, 1], along[:, 0])).sum()) / 4
    turned: NDArray[np.float64] = places @ [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return turned


def _scaled(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positions by classical scaling in the plane."""
    squares = distances**2
    centerd = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    values, vectors = np.linalg.eigh(centerd)
    places: NDArray[np.float64] = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.0))
    return places


def _settled(places: NDArray[np.float64], distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positions after steps of majorization, each a linear system."""
    weights = distances**-2.0
    np.fill_diagonal(weights, 0.0)
    system = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(system, hermitian=True)
    for _ in range(STEPS):
        differences = places[:, None] - places[None]
        lengths = np.sqrt((differences**2).sum(axis=2))
        ratios = weights * distances / np.maximum(lengths, 1e-9)
        places = inverse @ (ratios.sum(axis=1)[:, None] * places - ratios @ places)
    return places


def check_graph(n_nodes: int, edges: Any, what: str = "node") -> NDArray[np.int64]:
    """Return edges as an array (E, 2) of existing nodes (or other items), or raise."""
    pairs = array_of(edges, "edges")
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        got, expected = f"{pairs.dtype} of shape {pairs.shape}", f"integers of shape (E, 2), two {what}s per edge"
        raise InputError("edges", Description(got), expected)
    if pairs.min() < 0 or pairs.max() >= n_nodes:
        wrong = int(pairs.min() if pairs.min() < 0 else pairs.max())
        raise InputError("edges", wrong, f"{what}s from 0 to {n_nodes - 1}")
    return pairs.astype(np.int64)


@on_axes
def plot_graph(
    edges: Any,
    labels: Sequence[Any],
    truth: Sequence[Any] | None = None,
    hidden: Sequence[bool] | None = None,
    places: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a graph: nodes with their labels, wrong ones ringed, those without a true label dotted, hidden ones square.

    Labels of up to three characters are written in the nodes, longer ones are numbered in the legend; of
    hidden states the first characters are written. Graphs of more than 120 nodes have the legend only.

    Parameters
    ----------
    edges : int array of shape (E, 2)
        The two nodes of each edge.
    labels : sequence of n hashables
        The label, or hidden state, of each node.
    truth : sequence of n labels, optional
        The true labels, None if unknown.
    hidden : sequence of n bool, optional
        Which nodes are never observed; they have no truth.
    places : array of shape (n, 2), optional
        Positions of the nodes, y upwards; by default those of `lay_out_graph`.
    """
    check_lists(labels=labels)
    n_nodes = len(labels)
    if not n_nodes:
        raise InputError("labels", labels, "at least one label")
    pairs = check_graph(n_nodes, edges)
    for name, given in (("truth", truth), ("hidden", hidden)):
        if given is not None:
            check_length(given, n_nodes, name, "nodes")
    points = lay_out_graph(n_nodes, pairs) if places is None else finite_of(places, "places", (n_nodes, 2), "x and y")
    square = np.zeros(n_nodes, dtype=bool) if hidden is None else np.asarray(hidden, dtype=bool)
    ax = new_axes(5.0) if ax is None else ax
    _draw_edges(ax, points, pairs)
    _draw_nodes(ax, points, list(labels), square)
    if truth is not None:
        _ring(ax, points, list(labels), list(truth), square)
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.06)
    ax.set_axis_off()
    return ax


def _draw_edges(ax: "Axes", points: NDArray[np.float64], pairs: NDArray[np.int64]) -> None:
    from matplotlib.collections import LineCollection

    ax.add_collection(LineCollection(list(points[pairs]), colors=SINGLE, linewidths=0.9, alpha=0.7, zorder=1))


def _size(n_nodes: int) -> float:
    """Return the area of a node's marker in square points."""
    return float(np.clip(9000.0 / n_nodes, 40.0, 330.0))


def _draw_nodes(ax: "Axes", points: NDArray[np.float64], labels: list[Any], square: NDArray[np.bool_]) -> None:
    """Draw the nodes of each label in its color, with its name or number in them."""
    named = sorted(dict.fromkeys(label for label, hid in zip(labels, square, strict=True) if not hid), key=str)
    states = sorted(dict.fromkeys(label for label, hid in zip(labels, square, strict=True) if hid), key=str)
    fit = all(len(str(label)) <= SHORT for label in named)
    legend = []
    for k, (label, hid) in enumerate([(label, False) for label in named] + [(state, True) for state in states]):
        members = np.array([one == label for one in labels]) & (square if hid else ~square)
        text = drawn_text(label, SHORT) if fit or hid else str(k + 1)
        _draw_alike(ax, points[members], shade(k), "s" if hid else "o", text, len(labels))
        if not hid:
            legend.append((shade(k), drawn_text(label) if fit else f"{k + 1}  {drawn_text(label)}"))
    if legend and (not fit or len(labels) > NODES_WITH_TEXT):
        _draw_legend(ax, legend)


def _draw_alike(ax: "Axes", points: NDArray[np.float64], color: str, marker: str, text: str, n_nodes: int) -> None:
    """Draw nodes of one color with one text, unless the graph has too many nodes for texts."""
    from matplotlib.colors import to_rgba

    look: dict[str, Any] = {"facecolors": [to_rgba(color, 0.25)], "edgecolors": color, "linewidths": 1.4}
    ax.scatter(points[:, 0], points[:, 1], s=_size(n_nodes), marker=marker, zorder=2, clip_on=False, **look)
    if n_nodes <= NODES_WITH_TEXT:
        small = "x-small" if n_nodes > 40 else "small"
        for x, y in points.tolist():
            ax.text(x, y, text, ha="center", va="center", fontsize=small, zorder=3)


def _draw_legend(ax: "Axes", entries: list[tuple[str, str]]) -> None:
    from matplotlib.lines import Line2D

    shown = entries[:LABELS_IN_LEGEND]
    handles = [Line2D([], [], marker="o", linestyle="", color=color, label=text) for color, text in shown]
    columns = 1 if len(handles) < 3 else 3
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=columns, frameon=False)


def _ring(
    ax: "Axes", points: NDArray[np.float64], labels: list[Any], truth: list[Any], square: NDArray[np.bool_]
) -> None:
    """Draw a ring around nodes with a wrong label, and a dotted one around those without a true label."""
    known = np.array([one is not None for one in truth])
    wrong = known & ~square & np.array([a != b for a, b in zip(labels, truth, strict=True)])
    size = 2.1 * _size(len(labels))
    for chosen, color, width, style in ((wrong, WRONG, 2.2, "-"), (~known & ~square, SINGLE, 1.0, ":")):
        if chosen.any():
            look: dict[str, Any] = {"edgecolors": color, "linewidths": width, "linestyles": style}
            ax.scatter(
                points[chosen, 0], points[chosen, 1], s=size, facecolors="none", zorder=2.5, clip_on=False, **look
            )
