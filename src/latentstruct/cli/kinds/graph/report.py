"""Report of graphs: weights of nodes, of pairs of labels and of hidden states, and drawn graphs."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct import io
from latentstruct.cli.answers import has_probabilities
from latentstruct.cli.blocks import describe_confusions
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.graph.command import states_of, strongest_edge_weights, strongest_node_weights
from latentstruct.cli.kinds.graph.files import is_known
from latentstruct.viz.plots.features import can_write, plot_weights, shorten
from latentstruct.viz.plots.graphs import plot_graph
from latentstruct.viz.plots.matrices import plot_matrix
from latentstruct.viz.report.blocks import Block, Drawing, Examples, TableBlock, Text

TOP_WEIGHTS = 20
HEAT_MAPS = 4
MOST_LABELS = 25
NODES_DRAWN = 100
"""Number of nodes up to which a whole graph is drawn."""
NODES_OF_PART = 60
NODES_LISTED = 15
LONGEST_NAME = 40


def weight_blocks(model: Trained) -> list[Block]:
    """Return the strongest weights of nodes, heat maps of pairs of labels, and the norms of hidden states."""
    estimator = model.estimator
    rows: list[Any] = [
        [one["type"], shorten(one["feature"], LONGEST_NAME), shorten(one["label"]), one["weight"]]
        for one in strongest_node_weights(model, TOP_WEIGHTS)
    ]
    blocks: list[Block] = [
        TableBlock("Strongest weights of nodes", ("nodes", "feature", "label", "weight"), rows, n_text=3)
    ]
    if estimator.task_.layout_.fixed is None:
        return [*blocks, *_heat_maps(estimator, model.features), *_hidden_states(estimator)]
    rows = [
        [one["type"], shorten(one["feature"], LONGEST_NAME), f"{one['from']} – {one['to']}", one["weight"]]
        for one in strongest_edge_weights(model, TOP_WEIGHTS)
    ]
    return [*blocks, TableBlock("Strongest weights of edges", ("edge", "feature", "labels", "weight"), rows, n_text=3)]


def _edge_blocks(estimator: Any) -> list[tuple[str, int, int, NDArray[np.float64]]]:
    """Return the name of each type of edges, the types of its nodes, and its weights (d, S, T)."""
    layout = estimator.task_.layout_
    found = []
    for block, (name, p, q) in enumerate(layout.edge_types):
        values = estimator.coef_[layout.edge_at[block] : layout.edge_at[block + 1]]
        shown = f"{name} ({layout.node_types[p]} – {layout.node_types[q]})" if len(layout.node_types) > 1 else name
        found.append((shown, p, q, values.reshape(-1, *layout.edge_cards[block])))
    return found


def _heat_maps(estimator: Any, features: Any) -> list[Block]:
    """Return heat maps of the pairs of labels of edges, of many features those with the largest weights."""
    layout = estimator.task_.layout_
    names = ["bias"] if features.edges_ is None else features.edges_.labels()
    maps = [
        (shown if features.edges_ is None else f"{shown}, {names[f]}", p, q, weights[f])
        for shown, p, q, weights in _edge_blocks(estimator)
        for f in range(len(weights))
    ]
    maps = [one for one in maps if one[3].any()]
    maps.sort(key=lambda one: -float(np.abs(one[3]).max()))
    blocks: list[Block] = [
        _heat_map(title, weights, states_of(layout, p), states_of(layout, q))
        for title, p, q, weights in maps[:HEAT_MAPS]
    ]
    if len(maps) > HEAT_MAPS:
        blocks.append(Text(f"{HEAT_MAPS} of {len(maps)} tables of weights: those with the largest weights."))
    return blocks


def _heat_map(title: str, weights: NDArray[np.float64], rows: Sequence[Any], columns: Sequence[Any]) -> Drawing:
    values, first, second = weights[:MOST_LABELS, :MOST_LABELS], rows[:MOST_LABELS], columns[:MOST_LABELS]
    part = "" if values.shape == weights.shape else f" The first {MOST_LABELS} labels."
    return Drawing(
        lambda ax: plot_matrix(values, first, second, ax),
        f"Heat map of the weights of pairs of labels along the edges {title}.",
        f"Edges {title}: weights of the labels of the first node (row) and the second one (column); red is positive, "
        f"blue negative.{part}",
        height=min(1.6 + 0.26 * len(first), 6.2),
    )


def _hidden_states(estimator: Any) -> list[Block]:
    """Return the norms of the weights of each state of each hidden type of nodes."""
    layout, w = estimator.task_.layout_, estimator.coef_
    blocks: list[Block] = []
    for kind, (name, labels) in enumerate(zip(layout.node_types, layout.label_sets, strict=True)):
        if labels is not None:
            continue
        nodes = w[layout.node_at[kind] : layout.node_at[kind + 1]].reshape(-1, layout.node_cards[kind])
        squares = (nodes**2).sum(axis=0)
        for _, p, q, weights in _edge_blocks(estimator):
            for end, others in ((p, (0, 2)), (q, (0, 1))):
                squares = squares + (weights**2).sum(axis=others) if end == kind else squares
        blocks.append(_norms(name, states_of(layout, kind), np.sqrt(squares)))
    return blocks


def _norms(name: str, states: Sequence[str], norms: NDArray[np.float64]) -> Drawing:
    return Drawing(
        lambda ax: plot_weights(states, norms, ax, "norm"),
        f"Bars of the norms of the weights of {len(states)} hidden states of the type {name}.",
        f"Hidden nodes of the type {name}: the norm of all weights of each state. States of norm 0 are not used.",
        height=0.9 + 0.24 * len(states),
    )


@dataclass(frozen=True)
class _Labeled:
    """A graph with its prediction: the labels found, the true ones (None if unknown), and which nodes are hidden."""

    record: "io.GraphRecord"
    labels: list[Any]
    truth: list[Any]
    hidden: list[bool]

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Which nodes have a wrong predicted label."""
        pairs = zip(self.labels, self.truth, self.hidden, strict=True)
        return np.array([not hid and truth is not None and label != truth for label, truth, hid in pairs], dtype=bool)


def examples(model: Trained, records: "list[io.GraphRecord]", predicted: list[list[Any]]) -> Examples:
    """Return predicted labels of graphs, with the states of hidden nodes."""
    hidden = model.estimator.task_.hidden or {}
    graphs = [
        _Labeled(
            record,
            labels,
            [node.label if is_known(node) else None for node in record.nodes],
            [node.type in hidden for node in record.nodes],
        )
        for record, labels in zip(records, predicted, strict=True)
    ]
    known = np.array([sum(truth is not None for truth in one.truth) for one in graphs])
    wrong = np.array([one.wrong.sum() for one in graphs], dtype=np.float64)
    losses = np.divide(wrong, known, out=np.full(len(graphs), np.nan), where=known > 0)
    return Examples(
        [f"graph {i}" + ("" if one.id is None else f": {shorten(one.id)}") for i, one in enumerate(records, 1)],
        losses,
        "fraction of wrong labels",
        [_remark(one) for one in graphs],
        lambda i: _draw(model, graphs[i]),
    )


def _remark(one: _Labeled) -> str:
    pairs = Counter((one.truth[v], one.labels[v]) for v in np.flatnonzero(one.wrong).tolist())
    nothing = "all known labels correct" if any(truth is not None for truth in one.truth) else "no label is known"
    return f"{len(one.labels)} nodes: {describe_confusions(pairs, 2) or nothing}"


def _draw(model: Trained, one: _Labeled) -> list[Block]:
    """Return the drawn graph, or its part with the most errors, and the wrong nodes."""
    X = model.features.transform([one.record])
    if any(one.hidden):
        states = model.estimator.predict_latent(X)[0].tolist()
        shown_labels = [f"h{h}" if hid else y for hid, y, h in zip(one.hidden, one.labels, states, strict=True)]
        one = replace(one, labels=shown_labels)
    n_nodes, pairs = len(one.labels), one.record.pairs()
    shown = np.arange(n_nodes) if n_nodes <= NODES_DRAWN else _part(n_nodes, pairs, one.wrong)
    blocks: list[Block] = []
    if len(shown) < n_nodes:
        blocks.append(Text(f"{len(shown)} of {n_nodes} nodes, those nearest to the one with the most errors."))
    if can_write([one.labels[v] for v in shown.tolist()]):
        blocks.append(_drawing(one, shown, pairs))
    confidence = model.estimator.confidence(X)[0] if has_probabilities(model.estimator) else None
    return [*blocks, *_node_table(one, confidence)]


def _drawing(one: _Labeled, shown: NDArray[np.int64], pairs: NDArray[np.int64]) -> Drawing:
    place = {v: k for k, v in enumerate(shown.tolist())}
    inner = np.array([[place[a], place[b]] for a, b in pairs.tolist() if a in place and b in place], dtype=np.int64)
    labels, truth, hidden = ([values[v] for v in place] for values in (one.labels, one.truth, one.hidden))
    n_wrong = int(one.wrong[shown].sum())
    n_unknown = sum(true is None and not hid for true, hid in zip(truth, hidden, strict=True))
    parts = [f"red rings: {n_wrong} wrong labels"] if n_wrong else ["no known label is wrong"]
    parts += [f"dotted rings: {n_unknown} unlabeled nodes"] if n_unknown else []
    parts += ["squares: hidden nodes with their latent states"] if any(hidden) else []
    return Drawing(
        lambda ax: plot_graph(inner, labels, truth, hidden, ax=ax),
        f"A graph of {len(labels)} nodes and {len(inner)} edges with predicted labels; {'; '.join(parts)}.",
        f"Predicted labels; {'; '.join(parts)}.",
        width=5.6,
        height=float(np.clip(1.6 + 0.4 * np.sqrt(len(labels)), 2.4, 5.4)),
    )


def _part(n_nodes: int, pairs: NDArray[np.int64], wrong: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the nodes nearest to the one with the most errors among itself and its neighbors."""
    neighbors: list[list[int]] = [[] for _ in range(n_nodes)]
    for a, b in pairs.tolist():
        neighbors[a].append(b)
        neighbors[b].append(a)
    errors = wrong.astype(np.int64)
    around = errors + np.array([sum(errors[u] for u in near) for near in neighbors])
    first = int(around.argmax())
    found, waiting = {first}, deque([first])
    while waiting and len(found) < NODES_OF_PART:
        for near in neighbors[waiting.popleft()]:
            if near not in found and len(found) < NODES_OF_PART:
                found.add(near)
                waiting.append(near)
    return np.array(sorted(found), dtype=np.int64)


def _node_table(one: _Labeled, confidence: Any) -> list[Block]:
    """Return the wrong nodes, the first of them if there are many."""
    wrong = np.flatnonzero(one.wrong).tolist()
    if not wrong:
        return []
    rows = []
    for v in wrong[:NODES_LISTED]:
        node = one.record.nodes[v]
        sure = [] if confidence is None else [f"{float(confidence[v]):.2f}"]
        name = f"{v}" if node.name is None else f"{v}: {shorten(node.name)}"
        rows.append([name, shorten(_features(node.features), 60), shorten(one.truth[v]), shorten(one.labels[v]), *sure])
    title = f"The first {len(rows)} of {len(wrong)} wrong nodes" if len(rows) < len(wrong) else "Wrong nodes"
    columns = ("node", "features", "true", "predicted", *([] if confidence is None else ["confidence"]))
    return [TableBlock(title, columns, rows, n_text=4)]


def _features(features: Any) -> str:
    if isinstance(features, dict):
        return ", ".join(f"{name} {value}" for name, value in features.items())
    return "" if features is None else ", ".join(f"{value:g}" for value in features)
