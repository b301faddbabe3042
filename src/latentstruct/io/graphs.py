"""Graphs with labeled nodes as JSON lines: one graph per line.

.. code-block:: json

    {"id": "s1",
     "nodes": [{"name": "cat", "type": "word", "features": {"length": 3, "suffix": "at"}, "label": "noun"},
               {"name": "sat", "type": "word", "features": {"length": 3, "past": true}, "label": null},
               {"type": "topic"}],
     "edges": [{"between": ["cat", "sat"], "type": "next", "features": {"distance": 1}}, [0, 2], [1, 2]]}

(on several lines here; in a file each graph is one line.) Only "nodes" is required, and a node may be empty.

- ``features`` are either named numbers, truth values (1 or 0) and texts (the feature ``suffix=at`` is 1), where missing
  names are 0, or a list of numbers of the same length throughout the file. All nodes of a file have the same form, and
  so have all edges; features may be omitted where there are none.
- ``type`` is a text; each type of nodes, and each type of edges, has its own weights. By default the types are "node"
  and "edge".
- ``label`` is a text or an integer, of the same type throughout the file; null, −1 or no label means unknown.
- An edge joins two nodes given by ``name``, or by number from 0; an edge without type and features may be written as
  the pair alone.

Predictions are written in the same format, with the predicted ``label`` and its ``confidence``, or the ``state`` of a
node that is never observed. Several predictions for a graph have a ``rank`` each, and a ``probability`` or ``score``.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np

from latentstruct.core.formatting import repr_short
from latentstruct.core.lazy import sparse
from latentstruct.core.types import Indices, Vector, offsets_from_lengths
from latentstruct.core.unknown import UNKNOWN
from latentstruct.exceptions import Description, InputError
from latentstruct.io.json_lines import read_records, write_records
from latentstruct.io.text import FilePath, Source
from latentstruct.persistence.saved_features import SavedFeatures, bad_state

if TYPE_CHECKING:
    from latentstruct.tasks.graph.inputs import GraphInput


Features = dict[str, float | bool | str] | list[float]


class GraphNode(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A node of a graph; `state` and `confidence` occur in predictions only and are not used."""

    name: str | None = None
    type: str = "node"
    features: Features | None = None
    label: str | int | None = None
    state: int | None = None
    confidence: float | None = None


class GraphEdge(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An edge between two nodes, given by number or name."""

    between: tuple[int | str, int | str]
    type: str = "edge"
    features: Features | None = None


class GraphRecord(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A graph of a file; `rank`, `probability` and `score` occur in predictions only and are not used."""

    id: str | int | None = None
    rank: int | None = None
    probability: float | None = None
    score: float | None = None
    nodes: list[GraphNode]
    edges: list[GraphEdge | tuple[int | str, int | str]] = []

    def all_edges(self) -> list[GraphEdge]:
        """Return the edges, pairs included."""
        return [edge if isinstance(edge, GraphEdge) else GraphEdge(edge) for edge in self.edges]

    def pairs(self) -> Indices:
        """Return the numbers of the nodes that the edges join, shape (E, 2)."""
        numbers = {node.name: k for k, node in enumerate(self.nodes) if node.name is not None}
        ends = [numbers[end] if isinstance(end, str) else end for edge in self.all_edges() for end in edge.between]
        return np.array(ends, dtype=np.int64).reshape(-1, 2)


def read_graphs(path: FilePath) -> list[GraphRecord]:
    """Read graphs, one per line.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. Empty lines are skipped.

    Returns
    -------
    list of GraphRecord
        The graphs; edges join existing nodes, and features and labels have the same form throughout.
    """
    source = Source.open(path)
    records, alike = [], _Alike(source)
    for record in read_records(source, GraphRecord, "a graph without NaN or infinity"):
        _check_nodes(record, source)
        _check_edges(record, source)
        alike.check(record)
        records.append(record)
    if not records:
        source.fail(Description("no graph"), 'one graph per line, such as {"nodes": [{"label": "a"}]}', line=1)
    return records


def _check_nodes(record: GraphRecord, source: Source) -> None:
    if not record.nodes:
        source.fail(Description("none"), "at least one node")
    names = Counter(node.name for node in record.nodes if node.name is not None)
    for repeated in (one for one, times in names.items() if times > 1):
        source.fail(Description(f"{names[repeated]} nodes {repr_short(repeated)}"), "distinct names of nodes")
    for k, node in enumerate(record.nodes):
        if isinstance(node.label, int) and node.label < UNKNOWN:
            source.fail(node.label, f"a label of at least 0 of node {k}, or null if it is unknown")
        if node.label == str(UNKNOWN):
            source.fail(node.label, f"a label of node {k}, or null or the number -1 if it is unknown")


def _check_edges(record: GraphRecord, source: Source) -> None:
    n_nodes = len(record.nodes)
    numbers = {node.name: k for k, node in enumerate(record.nodes) if node.name is not None}
    for e, edge in enumerate(record.all_edges()):
        ends = [numbers.get(end, -1) if isinstance(end, str) else end for end in edge.between]
        for end, number in zip(edge.between, ends, strict=True):
            if not 0 <= number < n_nodes:
                expected = "the name of a node" if isinstance(end, str) else f"a number from 0 to {n_nodes - 1}"
                source.fail(end, f"{expected} as an end of edge {e}")
        if ends[0] == ends[1]:
            source.fail(edge.between, f"two different nodes as ends of edge {e}")


class _Alike:
    """The form that nodes, edges and labels of a file have in common, as found first."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.first: dict[str, tuple[str, int]] = {}

    def check(self, record: GraphRecord) -> None:
        """Raise if a graph has another form than those before it."""
        for k, node in enumerate(record.nodes):
            self._check("features of nodes", _form(node.features), f"node {k}")
            if node.label not in (None, UNKNOWN):
                form = "texts" if isinstance(node.label, str) else "integers"
                self._check("labels", form, f"{repr_short(node.label)} of node {k}")
        for e, edge in enumerate(record.all_edges()):
            self._check("features of edges", _form(edge.features), f"edge {e}")

    def _check(self, what: str, form: str | None, shown: str) -> None:
        if form is None:
            return
        expected, seen = self.first.setdefault(what, (form, self.source.line))
        if form != expected:
            got = Description(f"{form} ({shown})")
            self.source.fail(got, f"{expected} as {what}, as in line {seen}")


def _form(features: Features | None) -> str | None:
    if features is None:
        return None
    return "named values" if isinstance(features, dict) else f"a list of {len(features)}"


def graph_labels(records: Iterable[GraphRecord]) -> list[list[str | int]]:
    """Return the labels of the nodes of each graph, −1 where unknown."""
    return [[UNKNOWN if node.label is None else node.label for node in record.nodes] for record in records]


def write_graphs(path: FilePath, records: Iterable[GraphRecord]) -> None:
    """Write graphs, one per line.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    records : iterable of GraphRecord
        The graphs.
    """
    write_records(path, records)


def predicted_graphs(
    records: Sequence[GraphRecord],
    labels: Sequence[Any],
    states: Sequence[Any],
    confidences: Sequence[Any] | None = None,
    notes: Sequence[dict[str, float | int]] | None = None,
) -> list[GraphRecord]:
    """Return graphs with predictions.

    Parameters
    ----------
    records : sequence of n GraphRecord
        The graphs; their labels are replaced.
    labels : sequence of n sequences of V_i labels
        The predicted labels, −1 for a node of a type that is never observed.
    states : sequence of n sequences of V_i int
        The states of these nodes, −1 if they are not predicted; ignored for others.
    confidences : sequence of n sequences of V_i float, optional
        The probabilities of the predicted labels; ignored where there is no label.
    notes : sequence of n dicts, optional
        Further fields of the graphs: "rank", "probability" or "score".
    """
    found = []
    if confidences is None:
        confidences = [[None] * len(record.nodes) for record in records]
    for record, ys, hs, shares, note in zip(
        records, labels, states, confidences, notes or [{}] * len(records), strict=True
    ):
        nodes = []
        for node, y, h, share in zip(record.nodes, _plain(ys), _plain(hs), _plain(shares), strict=True):
            if y == UNKNOWN:
                predicted = {"label": None, "state": int(h) if h >= 0 else None, "confidence": None}
            else:
                predicted = {"label": y, "state": None, "confidence": None if share is None else round(share, 6)}
            nodes.append(msgspec.structs.replace(node, **predicted))
        found.append(msgspec.structs.replace(record, nodes=nodes, **note))
    return found


def _plain(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


class _Columns(msgspec.Struct, forbid_unknown_fields=True):
    """The columns of features: named ones, or a number of them, then optionally a constant 1."""

    names: list[str] | None
    width: int
    bias: bool

    @classmethod
    def learn(cls, features: list[Features | None], bias: bool, min_count: int) -> "_Columns":
        """Return the columns of features of one form."""
        given = [one for one in features if one is not None]
        if given and isinstance(given[0], list):
            return cls(None, len(given[0]), bias)
        counts = Counter(name for one in given if isinstance(one, dict) for name, _ in _named(one))
        names = [name for name, times in counts.items() if times >= min_count]
        return cls(names, len(names), bias)

    @property
    def n_columns(self) -> int:
        return self.width + self.bias

    def labels(self) -> list[str]:
        """Return the name of each column."""
        names = [f"feature {k}" for k in range(self.width)] if self.names is None else self.names
        return [*names, "bias"] if self.bias else list(names)

    def matrix(self, features: Sequence[Features | None], where: str, what: str) -> Any:
        """Return one row per node or edge, dense for lists and otherwise sparse; unknown names are ignored."""
        if self.names is None:
            return self._dense(features, where, what)
        numbers = {name: k for k, name in enumerate(self.names)}
        rows: list[dict[int, float]] = []
        for k, one in enumerate(features):
            if isinstance(one, list):
                raise _other_form(where, f"{what} {k}", one, "named values")
            cells = [(numbers[name], value) for name, value in _named(one or {}) if name in numbers and value]
            rows.append({**dict(sorted(cells)), **({self.width: 1.0} if self.bias else {})})
        return sparse.csr_array(
            (
                np.array([value for row in rows for value in row.values()], dtype=np.float64),
                np.array([column for row in rows for column in row], dtype=np.int64),
                offsets_from_lengths(map(len, rows)),
            ),
            shape=(len(rows), self.n_columns),
        )

    def _dense(self, features: Sequence[Features | None], where: str, what: str) -> Vector:
        matrix = np.zeros((len(features), self.n_columns))
        matrix[:, self.width :] = 1.0
        for k, one in enumerate(features):
            if isinstance(one, dict):
                raise _other_form(where, f"{what} {k}", one, f"a list of {self.width}")
            if one is not None and len(one) != self.width:
                got = Description(f"a list of {len(one)}")
                raise _other_form(where, f"{what} {k}", got, f"a list of {self.width}")
            if one is not None:
                matrix[k, : self.width] = one
        return matrix


def _other_form(where: str, what: str, got: object, expected: str) -> InputError:
    return InputError(where, got, f"{expected} as features of {what}, as in training")


def _named(features: dict[str, float | bool | str]) -> list[tuple[str, float]]:
    """Return names and numbers of features; a text becomes part of the name."""
    return [
        (f"{name}={value}", 1.0) if isinstance(value, str) else (name, float(value)) for name, value in features.items()
    ]


class _State(msgspec.Struct, forbid_unknown_fields=True, tag_field="format", tag="latentstruct.GraphFeatures 1"):
    """The saved form of fitted `GraphFeatures`."""

    nodes: _Columns
    edges: _Columns | None


@dataclass
class GraphFeatures(SavedFeatures):
    """Converts the features of graphs in files to inputs of the task.

    Parameters
    ----------
    bias : bool, default=True
        Whether to add a constant 1 to the features of nodes, and of edges that have features.
    min_count : int, default=1
        The number of nodes or edges of the training data in which a named feature must occur.

    Attributes
    ----------
    nodes_, edges_ : columns, or None for edges without features
        The columns learned by `fit`.
    """

    state_type = _State
    bias: bool = True
    min_count: int = 1

    nodes_: _Columns | None = None
    edges_: _Columns | None = None

    def fit(self, records: Iterable[GraphRecord]) -> "GraphFeatures":
        """Learn which features there are."""
        listed = list(records)
        nodes = [node.features for record in listed for node in record.nodes]
        edges = [edge.features for record in listed for edge in record.all_edges()]
        self.nodes_ = _Columns.learn(nodes, self.bias, self.min_count)
        columns = _Columns.learn(edges, self.bias, self.min_count)
        self.edges_ = columns if columns.width else None
        if not self.nodes_.n_columns:
            raise InputError("records", Description("no features"), "graphs with features of nodes if `bias` is False")
        return self

    def transform(self, records: Iterable[GraphRecord]) -> list["GraphInput"]:
        """Return the graphs as inputs of the task; named features that `fit` did not see are ignored."""
        from latentstruct.tasks.graph.inputs import GraphInput

        if self.nodes_ is None:
            raise InputError("GraphFeatures", Description("no features"), "fitted before `transform`")
        found = []
        for k, record in enumerate(records):
            where, edges = f"records[{k}]", record.all_edges()
            found.append(
                GraphInput(
                    features=self.nodes_.matrix([node.features for node in record.nodes], where, "node"),
                    edges=record.pairs(),
                    edge_features=self._edge_matrix([edge.features for edge in edges], where),
                    node_types=[node.type for node in record.nodes],
                    edge_types=[edge.type for edge in edges],
                )
            )
        return found

    def _edge_matrix(self, features: Sequence[Features | None], where: str) -> Any:
        if self.edges_ is not None:
            return self.edges_.matrix(features, where, "edge")
        odd = next((k for k, one in enumerate(features) if isinstance(one, list) and one), None)
        if odd is not None:
            raise _other_form(where, f"edge {odd}", Description(f"a list of {len(features[odd] or ())}"), "no list")
        return None

    @property
    def n_features_(self) -> int:
        """Number of features of nodes."""
        return 0 if self.nodes_ is None else self.nodes_.n_columns

    def _state(self) -> _State:
        assert self.nodes_ is not None
        return _State(self.nodes_, self.edges_)

    @classmethod
    def _restored(cls, saved: _State) -> Self:
        for columns in (saved.nodes, saved.edges):
            names = None if columns is None else columns.names
            if columns is not None and names is not None and not len(names) == len(set(names)) == columns.width:
                raise bad_state(_State, f"{len(set(names))} names for {columns.width} features")
        if saved.nodes.n_columns < 1:
            raise bad_state(_State, "no features of nodes")
        return cls(saved.nodes.bias, nodes_=saved.nodes, edges_=saved.edges)
