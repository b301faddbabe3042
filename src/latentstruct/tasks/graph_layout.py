"""What a graph model knows of its structure: types, labels, and where the weights of each type are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.exceptions import InputError
from latentstruct.kernels.planes import Rows
from latentstruct.ragged import Indices, Vector, locate, offsets_from_lengths
from latentstruct.short_repr import show
from latentstruct.tasks import item_labels
from latentstruct.tasks.graph_inputs import StackedGraphs, TypeName
from latentstruct.tasks.labels import LabelSet
from latentstruct.unknown import UNKNOWN, is_unknown

OTHER_TYPE = -2
"""State of a label that nodes of this type cannot have."""

MOST_WEIGHTS = 2**31
MOST_PAIRS = 10**7
"""Pairs of states of an edge: 80 megabytes of scores."""
MOST_SHOWN = 10


def in_order(names: Iterable[Any]) -> list[Any]:
    """Return names sorted, or as they came if they cannot be compared."""
    names = list(names)
    try:
        return sorted(names)
    except TypeError:
        return names


def shown(names: Sequence[Any]) -> str:
    """Return names as a list for a message, cut to a readable length."""
    rest = ", …" if len(names) > MOST_SHOWN else ""
    return f"[{', '.join(map(show, names[:MOST_SHOWN]))}{rest}]"


def flat_labels(Y: Any, nodes_at: Indices, name: str) -> list[Any]:
    """Return the labels of all graphs as one list, with one entry per node."""
    flat = item_labels.flat_labels(Y, nodes_at, name, "node")
    _refuse_slips(flat, nodes_at, name)
    return flat


def _refuse_slips(flat: list[Any], nodes_at: Indices, name: str) -> None:
    """Raise if a label is none, though it could be taken for one."""
    try:
        distinct = set(flat)
    except TypeError:
        # Labels that are not hashable are refused with their place where they are numbered.
        return
    slips = {label: cure for label in distinct if (cure := _slip(label))}
    if slips:
        i = next(i for i, label in enumerate(flat) if label in slips)
        k, node = locate(nodes_at, i)
        cure = slips[flat[i]]
        raise InputError(f"{name}[{k}] has {show(flat[i])} at node {node}, which is no label: {cure}")


def _slip(label: Any) -> str | None:
    """Return what to write in place of a label that is surely meant otherwise, or None."""
    if label is None or (isinstance(label, (float, np.floating)) and label != label):
        return "write the number -1 where the label is unknown"
    if isinstance(label, str) and label == str(UNKNOWN):
        return (
            "write the number -1 where the label is unknown, and labels as a list, for in an array of strings numpy "
            "turns -1 into '-1'"
        )
    whole = isinstance(label, (int, np.integer)) or (isinstance(label, float) and label.is_integer())
    if whole and label < UNKNOWN:
        return "write -1 where the label is unknown, and begin labels that are whole numbers at 0"
    return None


def distinct_triples(codes: Indices, pairs: Indices, n_types: int) -> tuple[list[tuple[int, int, int]], Indices]:
    """Return the distinct (edge code, type, type) of edges, sorted, and each edge's position among them."""
    packed = (codes * n_types + pairs[:, 0]) * n_types + pairs[:, 1]
    found, inverse = np.unique(packed, return_inverse=True)
    heads, second = np.divmod(found, n_types)
    code, first = np.divmod(heads, n_types)
    return list(zip(code.tolist(), first.tolist(), second.tolist(), strict=True)), inverse.astype(np.int64)


@dataclass
class FixedGraph:
    """The one graph of a model whose nodes and edges all have weights of their own."""

    kinds: Indices
    edges: Indices


class FixedState(TypedDict):
    """The graph that all examples share as plain lists."""

    types: list[int]
    edges: list[tuple[int, int]]


class GraphState(TypedDict):
    """A layout as plain lists, as files have it."""

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

    Attributes
    ----------
    node_types : list
        Names of the P node types.
    label_sets : list of LabelSet or None
        Labels of each node type; None for types that are hidden.
    cards : ndarray of shape (P,)
        Number of states of each node type.
    edge_types : list of tuple (name, p, q)
        Edge type and numbers of the two node types, as seen in training.
    n_inputs, n_edge_inputs : int
        d and d_e; 0 edge features stand for the constant 1.
    fixed : FixedGraph or None
        The graph, if its nodes and edges do not share weights.
    """

    node_types: list[TypeName]
    label_sets: list[LabelSet | None]
    cards: Indices
    edge_types: list[tuple[TypeName, int, int]]
    n_inputs: int
    n_edge_inputs: int
    fixed: FixedGraph | None

    def __post_init__(self) -> None:
        if self.fixed is None:
            node_cards = self.cards
            pairs = np.array([(p, q) for _, p, q in self.edge_types], dtype=np.int64).reshape(-1, 2)
        else:
            node_cards = self.cards[self.fixed.kinds]
            pairs = self.fixed.kinds[self.fixed.edges]
        self.node_cards = node_cards
        self.edge_cards = self.cards[pairs]
        self._refuse_many_pairs(pairs)
        self.node_at = offsets_from_lengths(self.n_inputs * node_cards)
        self.edge_at = self.node_at[-1] + offsets_from_lengths(
            max(1, self.n_edge_inputs) * self.edge_cards.prod(axis=1)
        )
        if self.n_features >= MOST_WEIGHTS:
            raise InputError(
                f"{self.n_inputs} features and {int(node_cards.sum())} states of node types make {self.n_features} "
                "weights with those of edges; expected at most 2**31: use fewer features"
            )

    def _refuse_many_pairs(self, pairs: Indices) -> None:
        sizes = self.edge_cards.astype(np.float64).prod(axis=1)
        for e in np.flatnonzero(sizes > MOST_PAIRS)[:1]:
            (first, second), (s, t) = pairs[e].tolist(), self.edge_cards[e].tolist()
            raise InputError(
                f"edges between nodes of the types {show(self.node_types[first])} and {show(self.node_types[second])} "
                f"join {s} and {t} states, which makes {s * t} pairs; expected at most {MOST_PAIRS}: take fewer "
                "hidden states or labels"
            )

    @property
    def n_features(self) -> int:
        """Number of weights."""
        return int(self.edge_at[-1])

    @cached_property
    def hidden(self) -> NDArray[np.bool_]:
        """Which node types are hidden, shape (P,)."""
        return np.array([labels is None for labels in self.label_sets], dtype=bool)

    @cached_property
    def vocabulary(self) -> LabelSet:
        """The labels of all node types together."""
        return LabelSet(list(dict.fromkeys(label for labels in self.label_sets if labels for label in labels.labels)))

    @cached_property
    def label_of(self) -> Indices:
        """Number of the label of each state, shape (P, most states); 0 where there is none."""
        table = np.zeros((len(self.cards), int(self.cards.max())), dtype=np.int64)
        for p, labels in enumerate(self.label_sets):
            if labels is not None:
                table[p, : len(labels)] = self.vocabulary.encode(labels.labels)
        return table

    @cached_property
    def state_of(self) -> Indices:
        """State of each label, shape (P, U + 1); the last column, number −1, is that of unknown labels."""
        table = np.full((len(self.cards), len(self.vocabulary) + 1), OTHER_TYPE, dtype=np.int64)
        table[:, UNKNOWN] = UNKNOWN
        for p, labels in enumerate(self.label_sets):
            if labels is not None:
                table[p, self.vocabulary.encode(labels.labels)] = np.arange(len(labels))
        return table

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
        """Undo `state`; raise InputError if its numbers do not fit together, as a file may have any."""
        graph = state["graph"]
        fixed = None
        if graph is not None:
            edges = np.array(graph["edges"], dtype=np.int64).reshape(-1, 2)
            fixed = FixedGraph(np.array(graph["types"], dtype=np.int64).reshape(-1), edges)
        node_types = list(state["node_types"])
        label_sets = [None if labels is None else LabelSet(labels) for labels in state["labels"]]
        cards = np.array(state["states"], dtype=np.int64).reshape(-1)
        edge_types = [(name, int(p), int(q)) for name, p, q in state["edge_types"]]
        n_inputs, n_edge_inputs = int(state["n_inputs"]), int(state["n_edge_inputs"])
        known = range(len(cards))
        # Names of types are looked up, so that they must be hashable.
        sound = bool(known) and len(set(edge_types)) == len(edge_types)
        sound = sound and len(set(node_types)) == len(label_sets) == len(node_types) == len(cards)
        sound = sound and any(labels is not None for labels in label_sets)
        sound = sound and all(1 <= card <= MOST_PAIRS for card in cards.tolist())
        sound = sound and all(
            labels is None or len(labels) == card for labels, card in zip(label_sets, cards.tolist(), strict=True)
        )
        sound = sound and all(p in known and q in known for _, p, q in edge_types)
        sound = sound and 0 <= n_inputs < MOST_WEIGHTS and 0 <= n_edge_inputs < MOST_WEIGHTS
        if fixed is not None:
            sound = sound and all(kind in known for kind in fixed.kinds.tolist())
            sound = sound and bool(((fixed.edges >= 0) & (fixed.edges < len(fixed.kinds))).all())
        # Whole numbers of 64 bits do not tell that a product is beyond them.
        if not sound or float(n_inputs) * float(cards.sum()) * (1 if fixed is None else len(fixed.kinds)) > 2.0**62:
            raise InputError(
                f"the {len(cards)} node types, their labels and the {len(edge_types)} edge types do not fit together; "
                "expected what a layout was saved with: the state is damaged, train again"
            )
        return cls(node_types, label_sets, cards, edge_types, n_inputs, n_edge_inputs, fixed)

    # ---- blocks ------------------------------------------------------------------------------------------

    def kinds(self, stacked: StackedGraphs) -> Indices:
        """Return the type number of each node."""
        numbers = {name: p for p, name in enumerate(self.node_types)}
        known = np.array([numbers.get(name, -1) for name in stacked.node_names], dtype=np.int64)
        kinds = known[stacked.node_codes]
        strange = np.flatnonzero(kinds < 0)
        if len(strange):
            k, node = locate(stacked.nodes_at, strange[0])
            name = stacked.node_names[stacked.node_codes[strange[0]]]
            raise InputError(
                f"node {node} of X[{k}] has type {show(name)}, but training had the types {shown(self.node_types)}: "
                "train with graphs that have all types"
            )
        return kinds

    def blocks(self, stacked: StackedGraphs, kinds: Indices) -> tuple[Indices, Indices]:
        """Return the block of each node and of each edge."""
        self._check_widths(stacked)
        if self.fixed is not None:
            self._check_fixed(stacked, kinds, self.fixed)
            n = len(stacked.nodes_at) - 1
            return np.tile(np.arange(len(self.fixed.kinds)), n), np.tile(np.arange(len(self.fixed.edges)), n)
        distinct, inverse = distinct_triples(stacked.edge_codes, kinds[stacked.edges], len(self.node_types))
        numbers = {triple: number for number, triple in enumerate(self.edge_types)}
        named = [(stacked.edge_names[code], p, q) for code, p, q in distinct]
        known = np.array([numbers.get(triple, -1) for triple in named], dtype=np.int64)
        edge_blocks = known[inverse]
        strange = np.flatnonzero(edge_blocks < 0)
        if len(strange):
            k, edge = locate(stacked.edges_at, strange[0])
            name, p, q = named[inverse[strange[0]]]
            raise InputError(
                f"edge {edge} of X[{k}] has type {show(name)} between nodes of types {show(self.node_types[p])} and "
                f"{show(self.node_types[q])} in this order, which training did not have: swap the two nodes, or train "
                "with such edges"
            )
        return kinds, edge_blocks

    def _check_widths(self, stacked: StackedGraphs) -> None:
        if stacked.features.shape[1] != self.n_inputs:
            raise InputError(
                f"the nodes of X[0] have {stacked.features.shape[1]} features but the model has {self.n_inputs}: "
                "every graph needs the same features as in training; give these"
            )
        found = 0 if stacked.edge_features is None else stacked.edge_features.shape[1]
        if len(stacked.edges) and found != self.n_edge_inputs:
            raise InputError(
                f"the edges of X have {found or 'no'} features but those of training had "
                f"{self.n_edge_inputs or 'none'}: every graph needs the same edge features as in training; give these"
            )

    def _check_fixed(self, stacked: StackedGraphs, kinds: Indices, fixed: FixedGraph) -> None:
        for k in range(len(stacked.nodes_at) - 1):
            first, last = stacked.nodes_at[k : k + 2]
            edges = stacked.edges[stacked.edges_at[k] : stacked.edges_at[k + 1]] - first
            if not (np.array_equal(kinds[first:last], fixed.kinds) and np.array_equal(edges, fixed.edges)):
                raise InputError(
                    f"X[{k}] has {last - first} nodes and {len(edges)} edges that are not those of the one graph of "
                    f"training, with {len(fixed.kinds)} nodes and {len(fixed.edges)} edges: shared=False needs the "
                    "same nodes, types and edges in each example; use shared=True for graphs that differ"
                )

    def rows(self, stacked: StackedGraphs, node_blocks: Indices, edge_blocks: Indices) -> Rows:
        """Return the features of all nodes, then of all edges, as rows whose places begin at their block."""
        parts = [
            self._placed(stacked.features, self.node_at[node_blocks], self.node_cards[node_blocks]),
            self._placed_edges(stacked, edge_blocks),
        ]
        counts, places, data = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Rows(offsets_from_lengths(counts), places, np.zeros(0) if (data == 1.0).all() else data)

    def _placed_edges(self, stacked: StackedGraphs, blocks: Indices) -> tuple[Indices, NDArray[np.uint32], Vector]:
        if stacked.edge_features is None:
            return np.ones(len(blocks), dtype=np.int64), self.edge_at[blocks].astype(np.uint32), np.ones(len(blocks))
        return self._placed(stacked.edge_features, self.edge_at[blocks], self.edge_cards[blocks].prod(axis=1))

    @staticmethod
    def _placed(matrix: Any, starts: Indices, strides: Indices) -> tuple[Indices, NDArray[np.uint32], Vector]:
        compressed = sparse.csr_array(matrix)
        counts = np.diff(compressed.indptr).astype(np.int64)
        places = np.repeat(starts, counts) + compressed.indices.astype(np.int64) * np.repeat(strides, counts)
        return counts, places.astype(np.uint32), np.array(compressed.data, dtype=np.float64)

    def node_block(self, name: Any) -> int:
        """Return the block of a node type, or of a node of the fixed graph; None is the only one."""
        if self.fixed is not None:
            return _numbered(name, len(self.node_cards), "node")
        if name is None and len(self.node_types) == 1:
            return 0
        if name not in self.node_types:
            raise InputError(f"there is no node type {show(name)}: choose among {shown(self.node_types)}")
        return self.node_types.index(name)

    def edge_block(self, name: Any) -> int:
        """Return the block of an edge type, a triple (edge type, node type, node type), or an edge's number."""
        if self.fixed is not None:
            return _numbered(name, len(self.edge_cards), "edge")
        named = [(edge, self.node_types[p], self.node_types[q]) for edge, p, q in self.edge_types]
        fitting = [number for number, triple in enumerate(named) if name in (None, triple, triple[0])]
        if len(fitting) != 1:
            raise InputError(
                f"edge type {show(name)} fits {len(fitting)} of the types (edge, first node, second node); expected "
                f"one: choose one of {shown(named)}"
            )
        return fitting[0]

    # ---- labels ------------------------------------------------------------------------------------------

    def encode(self, flat: Sequence[Any], kinds: Indices, nodes_at: Indices, name: str) -> tuple[Indices, Indices]:
        """Return the label numbers in the vocabulary and the states of all nodes, −1 where unknown."""
        found = self.label_numbers(flat, nodes_at, name)
        states = self.state_of[kinds, found]
        wrong = np.flatnonzero(states == OTHER_TYPE)
        if len(wrong):
            k, node = locate(nodes_at, wrong[0])
            kind = kinds[wrong[0]]
            labels = self.label_sets[kind]
            wanted = "-1, as these are never observed" if labels is None else f"one of {shown(labels.labels)}"
            hidden = "hidden " if labels is None else ""
            raise InputError(
                f"{name}[{k}] has {show(flat[wrong[0]])} at node {node} of the {hidden}type "
                f"{show(self.node_types[kind])}, expected {wanted}: correct it, or train with this label"
            )
        return found, states

    def label_numbers(self, flat: Sequence[Any], nodes_at: Indices, name: str) -> Indices:
        """Return the numbers of labels in the vocabulary, −1 where unknown."""
        return self.vocabulary.encode_items(flat, nodes_at, name, "node")

    def encode_assignment(self, flat: Sequence[Any], kinds: Indices, nodes_at: Indices, name: str) -> Indices:
        """Return the states of whole assignments: labels at outputs, states at nodes of hidden types."""
        hidden = self.hidden[kinds]
        shown = [UNKNOWN if known else label for label, known in zip(flat, hidden, strict=True)]
        _, states = self.encode(shown, kinds, nodes_at, name)
        for i in np.flatnonzero(hidden).tolist():
            value = flat[i]
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not (whole and 0 <= value < self.cards[kinds[i]]):
                k, node = locate(nodes_at, i)
                raise InputError(
                    f"{name}[{k}] has {show(value)} at node {node} of the hidden type "
                    f"{show(self.node_types[kinds[i]])}, expected a state from 0 to {self.cards[kinds[i]] - 1}: count "
                    "the states from 0"
                )
            states[i] = value
        return states

    def decode(self, states: Indices, kinds: Indices, hidden_as: Indices) -> NDArray:
        """Return the labels of states, and `hidden_as` at nodes of hidden types."""
        labels = self.vocabulary.decode(self.label_of[kinds, np.where(self.hidden[kinds], 0, states)])
        if not self.hidden.any():
            return labels
        mixed = labels.astype(labels.dtype if labels.dtype.kind in "if" else object)
        hidden = self.hidden[kinds]
        mixed[hidden] = hidden_as[hidden]
        return mixed


def _numbered(number: Any, count: int, what: str) -> int:
    if isinstance(number, (int, np.integer)) and 0 <= number < count:
        return int(number)
    raise InputError(f"{what} {show(number)} is not in the graph: give a number from 0 to {count - 1}")


# ---- learning --------------------------------------------------------------------------------------------


def learn_layout(
    stacked: StackedGraphs, flat: Sequence[Any], labels: Any, hidden: Any, shared: bool
) -> tuple[GraphLayout, bool]:
    """Find types, labels and blocks in the training data, and whether anything is latent."""
    states = hidden_states(hidden, stacked.node_names)
    node_types = in_order(stacked.node_names)
    place = {name: p for p, name in enumerate(node_types)}
    kinds = np.array([place[name] for name in stacked.node_names], dtype=np.int64)[stacked.node_codes]
    is_hidden = np.array([name in states for name in node_types], dtype=bool)
    observed, unknown = _observed_labels(flat, kinds, is_hidden, stacked.nodes_at)
    sets = _label_sets(observed, node_types, labels)
    cards = np.array([states[name] if name in states else len(sets[p]) for p, name in enumerate(node_types)])
    order = in_order(stacked.edge_names)
    rank = np.array([order.index(name) for name in stacked.edge_names], dtype=np.int64)
    triples, _ = distinct_triples(rank[stacked.edge_codes], kinds[stacked.edges], len(node_types))
    edge_types = [(order[code], p, q) for code, p, q in triples]
    fixed = None
    if not shared:
        count, n_edges = stacked.nodes_at[1], stacked.edges_at[1]
        fixed = FixedGraph(kinds[:count], stacked.edges[:n_edges])
    n_edge_inputs = 0 if stacked.edge_features is None else stacked.edge_features.shape[1]
    layout = GraphLayout(
        node_types,
        [sets.get(p) for p in range(len(node_types))],
        cards.astype(np.int64),
        edge_types,
        stacked.features.shape[1],
        n_edge_inputs,
        fixed,
    )
    return layout, unknown or bool(is_hidden.any())


def _observed_labels(
    flat: Sequence[Any], kinds: Indices, is_hidden: NDArray[np.bool_], nodes_at: Indices
) -> tuple[dict[int, dict[Any, None]], bool]:
    """Return the known labels of each output type in order of appearance, and whether there are unknown ones."""
    observed: dict[int, dict[Any, None]] = {p: {} for p in np.flatnonzero(~is_hidden).tolist()}
    for i, p in enumerate(kinds.tolist()):
        if p not in observed:
            continue
        try:
            observed[p][flat[i]] = None
        except TypeError as error:
            k, node = locate(nodes_at, i)
            raise InputError(
                f"Y[{k}] has {show(flat[i])} at node {node}, and labels must be hashable ({error}): use numbers, "
                "strings or tuples"
            ) from error
    unknown = False
    for labels in observed.values():
        for label in [label for label in labels if is_unknown(label)]:
            del labels[label]
            unknown = True
    return observed, unknown


def hidden_states(hidden: Any, names: Sequence[TypeName]) -> dict[TypeName, int]:
    """Return the number of states of each hidden type, checked."""
    if hidden is None:
        return {}
    if not isinstance(hidden, Mapping):
        raise InputError(
            f"hidden must map node types to their numbers of states, such as {{'h': 4}}, found {show(hidden)}: give "
            "such a dict, or None for no hidden nodes"
        )
    for name, count in hidden.items():
        if name not in names:
            raise InputError(
                f"hidden names the node type {show(name)}, but the graphs have the types {shown(in_order(names))}: "
                "give node_types with each graph, or leave the name out"
            )
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise InputError(
                f"hidden gives {show(count)} states to the node type {show(name)}, expected a whole number ≥ 1: "
                "choose such a number"
            )
        if count > MOST_PAIRS:
            raise InputError(
                f"hidden gives {count} states to the node type {show(name)}; expected at most {MOST_PAIRS}: take fewer"
            )
    return {name: int(count) for name, count in hidden.items()}


def _label_sets(observed: dict[int, dict[Any, None]], node_types: list[TypeName], labels: Any) -> dict[int, LabelSet]:
    """Return the label set of each output type: one for all, or declared for each.

    Whether declared labels suffice is seen when the labels of the data are encoded, node by node.
    """
    found = list(dict.fromkeys(label for seen in observed.values() for label in seen))
    if not found:
        raise InputError(
            "all labels are -1, which marks unknown ones; expected at least one known label of an output node: label "
            "some of them"
        )
    if isinstance(labels, Mapping):
        for name in labels:
            if name not in node_types or node_types.index(name) not in observed:
                raise InputError(
                    f"labels names the node type {show(name)}, but the output types are "
                    f"{shown([node_types[p] for p in observed])}: leave it out or correct it"
                )
        silent = [node_types[p] for p in observed if node_types[p] not in labels]
        if silent:
            raise InputError(
                f"labels is silent about the node type {show(silent[0])}, but must name those of all: give labels for "
                "each output type"
            )
        sets = {p: LabelSet(labels[node_types[p]]) for p in observed}
    else:
        sets = dict.fromkeys(observed, LabelSet.learn(found) if labels is None else LabelSet(labels))
    for p, labels_of_type in sets.items():
        if UNKNOWN in labels_of_type.index:
            raise InputError(
                "labels has -1, which is reserved for nodes whose label is unknown, found "
                f"{shown(labels_of_type.labels)}: rename this label, or leave it out if it stands for unknown ones"
            )
        for label in labels_of_type.labels:
            if cure := _slip(label):
                raise InputError(f"labels has {show(label)}, which is no label: {cure}")
        if len(labels_of_type) == 0:
            raise InputError(
                f"labels of the node type {show(node_types[p])} are empty; expected at least one: give some, or leave "
                "out labels"
            )
    return sets
