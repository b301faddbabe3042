"""Layout of a graph model: types, labels, and the blocks of weights of each type."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.lazy import sparse
from latentstruct.core.types import Indices, Vector, locate, offsets_from_lengths, split
from latentstruct.core.unknown import UNKNOWN, is_unknown
from latentstruct.core.validation import integer, is_integer
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Rows
from latentstruct.tasks import item_labels
from latentstruct.tasks.graph.inputs import StackedGraphs, TypeName
from latentstruct.tasks.labels import HASHABLE, LabelSet

OTHER_TYPE = -2
"""State of a label that nodes of this type cannot have."""

MOST_WEIGHTS = 2**31
MOST_PAIRS = 10**7
"""Maximum number of pairs of states of an edge: 80 megabytes of scores."""
MOST_SHOWN = 10


def in_order(names: Iterable[Any]) -> list[Any]:
    """Return names sorted, or in their given order if they cannot be compared."""
    names = list(names)
    try:
        return sorted(names)
    except TypeError:
        return names


def shown(names: Sequence[Any]) -> str:
    """Return names as a list for a message, cut to a readable length."""
    return f"[{', '.join(map(repr_short, names[:MOST_SHOWN]))}{', …' if len(names) > MOST_SHOWN else ''}]"


def flat_labels(Y: Any, nodes_at: Indices, name: str) -> list[Any]:
    """Return the labels of all graphs as one list with one entry per node; raise for values that cannot be labels."""
    flat = item_labels.flat_labels(Y, nodes_at, name, "node")
    try:
        invalid = set(filter(_is_invalid, set(flat)))
    except TypeError:
        # Labels that are not hashable raise an error that names the node when they are numbered.
        return flat
    for i in [i for i, label in enumerate(flat) if label in invalid][:1] if invalid else []:
        k, node = locate(nodes_at, i)
        hint = "Count labels from 0, and use lists instead of arrays of strings."
        raise InputError(f"{name}[{k}][{node}]", flat[i], "a label, or the integer -1 if unknown", hint)
    return flat


def _is_invalid(label: Any) -> bool:
    """Return whether a value cannot be a label: None, NaN, the string "-1", and integers below -1."""
    if label is None or (isinstance(label, (float, np.floating)) and label != label):
        return True
    if isinstance(label, str):
        return label == str(UNKNOWN)
    integer = isinstance(label, (int, np.integer)) or (isinstance(label, float) and label.is_integer())
    return integer and label < UNKNOWN


def distinct_triples(codes: Indices, pairs: Indices, n_types: int) -> tuple[list[tuple[int, int, int]], Indices]:
    """Return the distinct (edge code, type, type) of edges, sorted, and each edge's position among them."""
    shape = int(codes.max(initial=0)) + 1, n_types, n_types
    found, inverse = np.unique(np.ravel_multi_index((codes, *pairs.T), shape), return_inverse=True)
    return list(zip(*(part.tolist() for part in np.unravel_index(found, shape)), strict=True)), inverse


@dataclass
class FixedGraph:
    """The graph of a model whose nodes and edges do not share weights."""

    kinds: Indices
    edges: Indices


class FixedState(TypedDict):
    """The graph that all examples share as plain lists."""

    types: list[int]
    edges: list[tuple[int, int]]


class GraphState(TypedDict):
    """A layout as plain lists, as stored in files."""

    node_types: list[Any]
    labels: list[list[Any] | None]
    states: list[int]
    edge_types: list[tuple[Any, int, int]]
    n_inputs: int
    n_edge_inputs: int
    graph: FixedState | None
    latent: bool


@dataclass
class GraphLayout:
    """Types with their labels and states, and the blocks of weights.

    A node block has d·S weights, number f·S + y for feature f and state y; an edge block has d_e·S_p·S_q, number
    (f·S_p + s)·S_q + t for feature f and states s of the first and t of the second node. Node blocks come first, then
    edge blocks, each in the order of their types, or of nodes and edges where these are fixed.
    """

    node_types: list[TypeName]
    label_sets: list[LabelSet | None]  # labels of each node type, None for types that are hidden
    cards: Indices  # number of states of each node type
    edge_types: list[tuple[TypeName, int, int]]  # edge type and numbers of the two node types, as seen in training
    n_inputs: int
    n_edge_inputs: int  # 0 for the constant 1
    fixed: FixedGraph | None  # the graph, if its nodes and edges do not share weights

    def __post_init__(self) -> None:
        self.node_cards = self.cards if self.fixed is None else self.cards[self.fixed.kinds]
        if self.fixed is None:
            pairs = np.array([(p, q) for _, p, q in self.edge_types], dtype=np.int64).reshape(-1, 2)
        else:
            pairs = self.fixed.kinds[self.fixed.edges]
        self.edge_cards = self.cards[pairs]
        for e in np.flatnonzero(self.edge_cards.astype(np.float64).prod(axis=1) > MOST_PAIRS)[:1]:
            (p, q), (s, t) = pairs[e].tolist(), self.edge_cards[e].tolist()
            raise InputError(
                "X",
                Description(f"{s} · {t} pairs for the node types {shown([self.node_types[p], self.node_types[q]])}"),
                f"graphs with at most {MOST_PAIRS} pairs of states per edge",
                "Use fewer states.",
            )
        self.node_at = offsets_from_lengths(self.n_inputs * self.node_cards)
        sizes = max(1, self.n_edge_inputs) * self.edge_cards.prod(axis=1)
        self.edge_at = self.node_at[-1] + offsets_from_lengths(sizes)
        self.n_features = int(self.edge_at[-1])
        if self.n_features >= MOST_WEIGHTS:
            got = Description(f"{self.n_features} weights")
            raise InputError("X", got, "features and types with fewer than 2**31 weights", "Use fewer features.")
        self.hidden = np.array([labels is None for labels in self.label_sets], dtype=bool)
        self.vocabulary = LabelSet(list(dict.fromkeys(one for each in self.label_sets if each for one in each.labels)))
        # Label of each state (0 where there is none), and state of each label; the last column is that of unknown ones.
        self.label_of = np.zeros((len(self.cards), int(self.cards.max())), dtype=np.int64)
        self.state_of = np.full((len(self.cards), len(self.vocabulary) + 1), OTHER_TYPE, dtype=np.int64)
        self.state_of[:, UNKNOWN] = UNKNOWN
        for p, labels in enumerate(self.label_sets):
            if labels is not None:
                numbers = self.vocabulary.encode(labels.labels)
                self.label_of[p, : len(labels)], self.state_of[p, numbers] = numbers, np.arange(len(labels))

    def state(self) -> dict[str, Any]:
        """Return everything as plain lists and numbers."""
        fixed = self.fixed
        return {
            "node_types": list(self.node_types),
            "labels": [None if labels is None else labels.labels for labels in self.label_sets],
            "states": self.cards.tolist(),
            "edge_types": [list(triple) for triple in self.edge_types],
            "n_inputs": int(self.n_inputs),
            "n_edge_inputs": int(self.n_edge_inputs),
            "graph": None if fixed is None else {"types": fixed.kinds.tolist(), "edges": fixed.edges.tolist()},
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> "GraphLayout":
        """Return the layout of a `state`; raise InputError if it is not consistent, as a file may be damaged."""
        graph, fixed = state["graph"], None
        if graph is not None:
            kinds, edges = (np.array(graph[name], dtype=np.int64) for name in ("types", "edges"))
            fixed = FixedGraph(kinds.reshape(-1), edges.reshape(-1, 2))
        node_types, states = list(state["node_types"]), list(state["states"])
        label_sets = [None if labels is None else LabelSet(labels) for labels in state["labels"]]
        edge_types = [(name, int(p), int(q)) for name, p, q in state["edge_types"]]
        sizes, known = (int(state["n_inputs"]), int(state["n_edge_inputs"])), range(len(states))
        # Names of types are looked up and must be hashable. Products must not exceed integers of 64 bits.
        sound = (
            len(set(node_types)) == len(label_sets) == len(node_types) == len(states)
            and len(set(edge_types)) == len(edge_types)
            and any(labels is not None for labels in label_sets)
            and all(1 <= card <= MOST_PAIRS for card in states)
            and all(each is None or len(each) == card for each, card in zip(label_sets, states, strict=True))
            and all(p in known and q in known for _, p, q in edge_types)
            and all(0 <= size < MOST_WEIGHTS for size in sizes)
            and (fixed is None or all(kind in known for kind in fixed.kinds.tolist()))
            and (fixed is None or bool(((fixed.edges >= 0) & (fixed.edges < len(fixed.kinds))).all()))
            and sizes[0] * sum(states) * (1 if fixed is None else len(fixed.kinds)) <= 2**62
        )
        if not sound:
            got = Description(f"{len(states)} node types that do not fit labels and edges")
            raise InputError("state", got, "consistent", "Train again.")
        return cls(node_types, label_sets, np.array(states, dtype=np.int64), edge_types, *sizes, fixed)

    def kinds(self, stacked: StackedGraphs) -> Indices:
        """Return the type number of each node."""
        numbers = {name: p for p, name in enumerate(self.node_types)}
        known = np.array([numbers.get(name, -1) for name in stacked.node_names], dtype=np.int64)
        kinds = known[stacked.node_codes]
        for i in np.flatnonzero(kinds < 0)[:1]:
            k, node = locate(stacked.nodes_at, i)
            got, expected = stacked.node_names[stacked.node_codes[i]], f"one of the types {shown(self.node_types)}"
            raise InputError(f"X[{k}].node_types[{node}]", got, f"{expected} of the training data")
        return kinds

    def blocks(self, stacked: StackedGraphs, kinds: Indices) -> tuple[Indices, Indices]:
        """Return the block of each node and of each edge."""
        found = stacked.features.shape[1], 0 if stacked.edge_features is None else stacked.edge_features.shape[1]
        wanted = self.n_inputs, self.n_edge_inputs if len(stacked.edges) else found[1]
        if found != wanted:
            got, expected = (f"{nodes} features of nodes and {edges} of edges" for nodes, edges in (found, wanted))
            raise InputError("X", Description(got), f"graphs with {expected}, as in training")
        if self.fixed is not None:
            self._check_fixed(stacked, kinds, self.fixed)
            n = len(stacked.nodes_at) - 1
            return np.tile(np.arange(len(self.fixed.kinds)), n), np.tile(np.arange(len(self.fixed.edges)), n)
        distinct, inverse = distinct_triples(stacked.edge_codes, kinds[stacked.edges], len(self.node_types))
        numbers = {triple: number for number, triple in enumerate(self.edge_types)}
        named = [(stacked.edge_names[code], p, q) for code, p, q in distinct]
        edge_blocks = np.array([numbers.get(triple, -1) for triple in named], dtype=np.int64)[inverse]
        for e in np.flatnonzero(edge_blocks < 0)[:1]:
            k, edge = locate(stacked.edges_at, e)
            name, p, q = named[inverse[e]]
            raise InputError(
                f"X[{k}].edges[{edge}]",
                (name, self.node_types[p], self.node_types[q]),
                "of an edge type and node types, in this order, of the training data",
            )
        return kinds, edge_blocks

    def _check_fixed(self, stacked: StackedGraphs, kinds: Indices, fixed: FixedGraph) -> None:
        nodes, pairs = split(kinds, stacked.nodes_at), split(stacked.edges, stacked.edges_at)
        for k, (found, edges) in enumerate(zip(nodes, pairs, strict=True)):
            edges = edges - stacked.nodes_at[k]
            if not (np.array_equal(found, fixed.kinds) and np.array_equal(edges, fixed.edges)):
                raise InputError(
                    f"X[{k}]",
                    Description(f"another graph with {len(found)} nodes and {len(edges)} edges"),
                    f"the graph of training with {len(fixed.kinds)} nodes and {len(fixed.edges)} edges",
                    "Set `shared` to True for different graphs.",
                )

    def rows(self, stacked: StackedGraphs, node_blocks: Indices, edge_blocks: Indices) -> Rows:
        """Return the features of all nodes, then of all edges, as rows whose columns begin at their block."""
        edges = np.ones((len(edge_blocks), 1)) if stacked.edge_features is None else stacked.edge_features
        parts = [
            _placed(stacked.features, self.node_at[node_blocks], self.node_cards[node_blocks]),
            _placed(edges, self.edge_at[edge_blocks], self.edge_cards[edge_blocks].prod(axis=1)),
        ]
        counts, places, data = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Rows(offsets_from_lengths(counts), places, np.zeros(0) if (data == 1.0).all() else data)

    def node_block(self, name: Any) -> int:
        """Return the block of a node type, or of a node of the fixed graph; None is the only one."""
        return _place(name, self.node_types if self.fixed is None else range(len(self.node_cards)), "node")

    def edge_block(self, name: Any) -> int:
        """Return the block of an edge type, a triple (edge type, node type, node type), or an edge's number."""
        named = [(edge, self.node_types[p], self.node_types[q]) for edge, p, q in self.edge_types]
        return _place(name, named if self.fixed is None else range(len(self.edge_cards)), "edge")

    def encode(self, flat: Sequence[Any], kinds: Indices, nodes_at: Indices, name: str) -> tuple[Indices, Indices]:
        """Return the label numbers in the vocabulary and the states of all nodes, −1 where unknown."""
        found = self.label_numbers(flat, nodes_at, name)
        states = self.state_of[kinds, found]
        for i in np.flatnonzero(states == OTHER_TYPE)[:1]:
            (k, node), labels = locate(nodes_at, i), self.label_sets[kinds[i]]
            wanted, hidden = ("-1", "hidden ") if labels is None else (f"one of {shown(labels.labels)}", "")
            kind = repr_short(self.node_types[kinds[i]])
            raise InputError(f"{name}[{k}][{node}]", flat[i], f"{wanted} for nodes of the {hidden}type {kind}")
        return found, states

    def label_numbers(self, flat: Sequence[Any], nodes_at: Indices, name: str) -> Indices:
        """Return the numbers of labels in the vocabulary, −1 where unknown."""
        return self.vocabulary.encode_items(flat, nodes_at, name)

    def encode_assignment(self, flat: Sequence[Any], kinds: Indices, nodes_at: Indices, name: str) -> Indices:
        """Return the states of whole assignments: labels at outputs, states at nodes of hidden types."""
        hidden = self.hidden[kinds]
        outputs = [UNKNOWN if known else label for label, known in zip(flat, hidden, strict=True)]
        _, states = self.encode(outputs, kinds, nodes_at, name)
        for i in np.flatnonzero(hidden).tolist():
            value, card = flat[i], self.cards[kinds[i]]
            if not (is_integer(value) and 0 <= value < card):
                k, node = locate(nodes_at, i)
                raise InputError(f"{name}[{k}][{node}]", value, f"a state from 0 to {card - 1} for a hidden node")
            states[i] = value
        return states

    def decode(self, states: Indices, kinds: Indices, hidden_as: Indices) -> NDArray:
        """Return the labels of states, and `hidden_as` at nodes of hidden types."""
        hidden = self.hidden[kinds]
        labels = self.vocabulary.decode(self.label_of[kinds, np.where(hidden, 0, states)])
        if not self.hidden.any():
            return labels
        mixed = labels.astype(labels.dtype if labels.dtype.kind in "if" else object)
        mixed[hidden] = hidden_as[hidden]
        return mixed


def _placed(matrix: Any, starts: Indices, strides: Indices) -> tuple[Indices, NDArray[np.uint32], Vector]:
    """Return the number of features of each row, the indices of their weights, and their values."""
    compressed = sparse.csr_array(matrix)
    counts = np.diff(compressed.indptr).astype(np.int64)
    places = np.repeat(starts, counts) + compressed.indices.astype(np.int64) * np.repeat(strides, counts)
    return counts, places.astype(np.uint32), np.array(compressed.data, dtype=np.float64)


def _place(name: Any, names: Sequence[Any], what: str) -> int:
    """Return the index of a name, or of the first part of a tuple, if it is unique; None matches all."""
    first = [known[0] if isinstance(known, tuple) else known for known in names]
    fitting = [k for k, known in enumerate(names) if name in (None, known, first[k])]
    if len(fitting) != 1:
        raise InputError("type", name, f"one of the {what} types {shown(names)}")
    return fitting[0]


def learn_layout(
    stacked: StackedGraphs, flat: Sequence[Any], labels: Any, hidden: Any, shared: bool
) -> tuple[GraphLayout, bool]:
    """Find types, labels and blocks in the training data, and whether anything is latent."""
    states, node_types = hidden_states(hidden, stacked.node_names), in_order(stacked.node_names)
    kinds = np.array([node_types.index(name) for name in stacked.node_names], dtype=np.int64)[stacked.node_codes]
    observed = _observed_labels(flat, kinds, [p for p, name in enumerate(node_types) if name not in states], stacked)
    unknown = [(seen, label) for seen in observed.values() for label in seen if is_unknown(label)]
    for seen, label in unknown:
        del seen[label]
    sets = _label_sets(observed, node_types, labels)
    order = in_order(stacked.edge_names)
    rank = np.array([order.index(name) for name in stacked.edge_names], dtype=np.int64)
    triples, _ = distinct_triples(rank[stacked.edge_codes], kinds[stacked.edges], len(node_types))
    layout = GraphLayout(
        node_types,
        [sets.get(p) for p in range(len(node_types))],
        np.array(
            [states[name] if name in states else len(sets[p]) for p, name in enumerate(node_types)], dtype=np.int64
        ),
        [(order[code], p, q) for code, p, q in triples],
        stacked.features.shape[1],
        0 if stacked.edge_features is None else stacked.edge_features.shape[1],
        None if shared else FixedGraph(kinds[: stacked.nodes_at[1]], stacked.edges[: stacked.edges_at[1]]),
    )
    return layout, bool(unknown or states)


def _observed_labels(
    flat: Sequence[Any], kinds: Indices, outputs: Sequence[int], stacked: StackedGraphs
) -> dict[int, dict[Any, None]]:
    """Return the labels of each output type in order of appearance."""
    observed: dict[int, dict[Any, None]] = {p: {} for p in outputs}
    for i, p in enumerate(kinds.tolist()):
        try:
            if p in observed:
                observed[p][flat[i]] = None
        except TypeError as error:
            k, node = locate(stacked.nodes_at, i)
            raise InputError(f"Y[{k}][{node}]", flat[i], HASHABLE) from error
    return observed


def hidden_states(hidden: Any, names: Sequence[TypeName]) -> dict[TypeName, int]:
    """Return the number of states of each hidden type, checked."""
    if hidden is None:
        return {}
    if not isinstance(hidden, Mapping):
        raise InputError("hidden", hidden, "a mapping of node types to numbers of states")
    for name, count in hidden.items():
        if name not in names:
            raise InputError("hidden", name, f"a mapping of the node types {shown(in_order(names))}")
        integer(1, MOST_PAIRS).check(count, f"hidden[{repr_short(name)}]")
    return {name: int(count) for name, count in hidden.items()}


def _label_sets(observed: dict[int, dict[Any, None]], node_types: list[TypeName], labels: Any) -> dict[int, LabelSet]:
    """Return the label set of each output type: one for all, or declared for each.

    Labels of the data that are not declared raise an error when they are encoded, node by node.
    """
    found = list(dict.fromkeys(label for seen in observed.values() for label in seen))
    if not found:
        raise InputError("Y", Description("-1 (unknown) only"), "labels with at least one known output")
    outputs = [node_types[p] for p in observed]
    if not isinstance(labels, Mapping):
        sets = dict.fromkeys(observed, LabelSet.learn(found) if labels is None else LabelSet(labels))
    elif set(labels) != set(outputs):
        raise InputError("labels", list(labels), f"a mapping of the output types {shown(outputs)}")
    else:
        sets = {p: LabelSet(labels[node_types[p]]) for p in observed}
    for p, declared in sets.items():
        for label in declared.labels:
            if is_unknown(label) or _is_invalid(label):
                raise InputError("labels", label, "labels without None, NaN and negative integers")
        if len(declared) == 0:
            got = Description(f"none for the node type {repr_short(node_types[p])}")
            raise InputError("labels", got, "at least one label per output type")
    return sets
