"""Forests of derivations: all outputs of an example, searched for the best one of each loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.derivations import best_derivations, pool_derivations, sample_derivations
from latentstruct._native.forests import best_by_loss, trace_losses
from latentstruct.core.levels import LossLevels, loss_steps
from latentstruct.core.types import Indices, Vector, joined_offsets, members, offsets_from_lengths, positions, sums_by
from latentstruct.inference.elimination import elimination_order
from latentstruct.inference.structure import FactorGraphs
from latentstruct.planes.plane import Slopes

MOST_LEVELS = 2**26
"""Maximum product of entries and levels of loss for exact search in a graph."""


class Forests(NamedTuple):
    """The forests of a batch; an output is a derivation of the last item of its forest.

    Items come after those below them. A derivation of an item takes one of its edges, and a derivation of each item at
    the tails of this edge. The loss of a derivation is the sum of those of its edges, which are integers.
    """

    items_at: Indices  # (n + 1,) where the items of each forest begin
    edge_at: Indices  # (I + 1,) where the edges of each item begin
    tail_at: Indices  # (E + 1,) where the tails of each edge begin
    tails: Indices  # items, counted from the first one of the forest
    losses: Indices  # (E,)

    @classmethod
    def joined(cls, parts: "Sequence[Forests]") -> "Forests":
        """Concatenate forests."""
        offsets = (joined_offsets(each) for each in list(zip(*parts, strict=True))[:3])
        return cls(*offsets, *(np.concatenate([part[k] for part in parts]) for k in (3, 4)))

    @property
    def edges_at(self) -> Indices:
        """Start of the edges of each forest, shape (n + 1,)."""
        return self.edge_at[self.items_at]

    def best(self, scores: Vector, k: int) -> tuple[Vector, NDArray[np.uint8]]:
        """Return the scores (k, n) of the k best outputs, −inf where there are fewer, and their edges (k, E)."""
        values, used = np.empty((k, len(self.items_at) - 1)), np.empty((k, len(self.losses)), dtype=np.uint8)
        best_derivations(self, scores, values, used)
        return values, used

    def pool(self, scores: Vector, temperature: float) -> tuple[Vector, Vector]:
        """Return the pooled scores (n,) of all outputs, and the expected counts of edges (E,)."""
        values, counts = np.empty(len(self.items_at) - 1), np.empty(len(self.losses))
        pool_derivations(self, scores, temperature, values, counts)
        return values, counts

    def sample(self, scores: Vector, temperature: float, n: int, seed: int) -> NDArray[np.uint8]:
        """Return the edges (n, E) of outputs drawn independently with probabilities ∝ exp(score / temperature)."""
        used = np.empty((n, len(self.losses)), dtype=np.uint8)
        sample_derivations(self, scores, temperature, seed, used)
        return used

    def levels(
        self, rows: Indices, scores: Vector, n_levels: Indices, unit: float, slopes: Callable[[Vector], Slopes]
    ) -> LossLevels:
        """Return the best outputs of each loss of the forests `rows` (k,), given scores of their edges.

        The losses of a forest are 0, 1, … times `unit`; `n_levels` (k,) are at least one more than the largest.
        `slopes` returns features of one output per forest, given 1 for each of its edges and 0 for others.
        """
        offsets = offsets_from_lengths(n_levels)
        values = np.empty(offsets[-1])
        best_by_loss(self, rows, scores, offsets, values)

        def chosen_slopes(places: Indices) -> Slopes:
            used = np.empty(len(scores))
            trace_losses(self, rows, scores, places - offsets[:-1], used)
            return slopes(used)

        return LossLevels(offsets, unit * members(offsets)[1].astype(np.float64), values, chosen_slopes)


@dataclass(frozen=True)
class EdgeEntries:
    """Entries of potentials that scores of edges are sums of; edges and entries are counted within each forest."""

    at: Indices  # (n + 1,)
    edges: Indices
    entries: Indices

    @classmethod
    def of(cls, parts: Sequence[tuple[Indices, Indices]]) -> "EdgeEntries":
        """Join the edges and entries of forests."""
        edges, entries = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        return cls(offsets_from_lengths(len(part[0]) for part in parts), edges, entries)

    def _of(self, rows: Indices, entry_at: Indices, edge_at: Indices) -> tuple[Indices, Indices]:
        """Return edges and entries of some forests, whose edges and entries begin at these offsets (k + 1,)."""
        flat, offsets = positions(self.at, rows)
        forest = members(offsets)[0]
        return self.edges[flat] + edge_at[forest], self.entries[flat] + entry_at[forest]

    def sums(self, rows: Indices, potentials: Vector, entry_at: Indices, edge_at: Indices) -> Vector:
        """Return the sum of each edge's potentials."""
        edges, entries = self._of(rows, entry_at, edge_at)
        return sums_by(edges, potentials[entries], edge_at[-1])

    def counts(self, rows: Indices, used: NDArray[Any], entry_at: Indices, edge_at: Indices) -> Vector:
        """Return the number of used edges of each entry."""
        edges, entries = self._of(rows, entry_at, edge_at)
        return sums_by(entries, used[edges], entry_at[-1])


@dataclass(frozen=True)
class GraphForests:
    """The assignments of factor graphs as derivations: an edge gives a state to the next variable to be eliminated."""

    structure: FactorGraphs
    forests: Forests
    entries: tuple[EdgeEntries, EdgeEntries]  # of states and of tables
    n_levels: Indices
    unit: float

    @classmethod
    def of(cls, structure: FactorGraphs, losses: Vector, max_entries: int) -> "GraphForests | None":
        """Lay out all assignments with the losses of states; None if there are too many losses or a graph is too wide.

        Factors must have variables.
        """
        steps = loss_steps(losses)
        if steps is None:
            return None
        parts = []
        for g in range(structure.n_graphs):
            parts.append(_eliminated(structure, g, steps[1], max_entries))
            if parts[-1] is None:
                return None
        forests, unary, tables, n_levels = zip(*parts, strict=True)
        entries = EdgeEntries.of(unary), EdgeEntries.of(tables)
        return cls(structure, Forests.joined(forests), entries, np.array(n_levels), steps[0])

    def _spans(self, rows: Indices) -> tuple[list[tuple[EdgeEntries, Indices]], Indices]:
        """Return the entries of states and of tables of some graphs with their offsets, and those of edges."""
        structure, edge_at = self.structure, offsets_from_lengths(np.diff(self.forests.edges_at)[rows])
        firsts = structure.state_at[structure.variables_at], structure.table_at[structure.factors_at]
        offsets = [offsets_from_lengths(np.diff(first)[rows]) for first in firsts]
        return list(zip(self.entries, offsets, strict=True)), edge_at

    def scores(self, rows: Indices, potentials: tuple[Vector, Vector]) -> Vector:
        """Return the scores of the edges of some graphs, given their potentials."""
        both, edge_at = self._spans(rows)
        unary, tables = (
            entries.sums(rows, values, at, edge_at) for values, (entries, at) in zip(potentials, both, strict=True)
        )
        return unary + tables

    def counts(self, rows: Indices, used: NDArray[Any]) -> tuple[Vector, Vector]:
        """Return how often the edges of some graphs use each state and each entry of tables."""
        both, edge_at = self._spans(rows)
        states, tables = (entries.counts(rows, used, at, edge_at) for entries, at in both)
        return states, tables

    def levels(
        self, rows: Indices, potentials: tuple[Vector, Vector], slopes: Callable[[tuple[Vector, Vector]], Slopes]
    ) -> LossLevels:
        """Return the best assignments of each loss of some graphs, given their potentials.

        `slopes` returns the features of counts of states and of entries of tables.
        """
        scores = self.scores(rows, potentials)
        return self.forests.levels(
            rows, scores, self.n_levels[rows], self.unit, lambda used: slopes(self.counts(rows, used))
        )


def _eliminated(
    structure: FactorGraphs, g: int, losses: Indices, max_entries: int
) -> tuple[Forests, tuple[Indices, Indices], tuple[Indices, Indices], int] | None:
    """Return the forest of one graph, edges and entries of states and of tables, and the number of losses."""
    order = elimination_order(structure, g, max_entries)
    first, last = structure.variables_at[g : g + 2].tolist()
    cards, states = structure.cards[first:last], structure.state_at[first : last + 1]
    own = losses[states[0] : states[-1]]
    n_levels = 1 + int(np.maximum.reduceat(own, states[:-1] - states[0]).sum()) if last > first else 1
    if order is None or n_levels * sum(int(np.prod(cards[[v, *around]])) for v, around in order) > MOST_LEVELS:
        return None
    factors = range(*structure.factors_at[g : g + 2].tolist())
    scopes = {f: structure.scopes[structure.scope_at[f] : structure.scope_at[f + 1]] - first for f in factors}
    messages: list[tuple[int, list[int]]] = []
    n_items = n_edges = 0
    edge_at, tail_at, tails, edge_losses = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], [], []
    unary: list[tuple[Indices, Indices]] = []
    tables: list[tuple[Indices, Indices]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for v, around in order:
        scope = [*around, v]
        shape = cards[scope].tolist()
        state = dict(zip(scope, np.indices(shape).reshape(len(scope), -1), strict=True))
        edges, size = n_edges + np.arange(len(state[v])), shape[-1]
        entries = states[v] - states[0] + state[v]
        unary.append((edges, entries))
        edge_losses.append(own[entries])
        for f in [f for f, variables in scopes.items() if v in variables]:
            inside = np.ravel_multi_index([state[u] for u in scopes[f]], cards[scopes[f]])
            tables.append((edges, structure.table_at[f] - structure.table_at[factors.start] + inside))
            del scopes[f]
        below = [message for message in messages if v in message[1]]
        messages = [message for message in messages if v not in message[1]]
        for item, others in below:
            tails.append((edges, item + np.ravel_multi_index([state[u] for u in others], cards[others])))
        tail_at.append(np.full(len(edges), len(below)))
        edge_at.append(np.full(len(edges) // size, size))
        messages.append((n_items, list(around)))
        n_items, n_edges = n_items + len(edges) // size, n_edges + len(edges)
    # The root joins the components of the graph.
    roots = np.array([item for item, _ in messages], dtype=np.int64)
    tails.append((np.full(len(roots), n_edges), roots))
    tail_edges, tail_items = (np.concatenate(part) for part in zip(*tails, strict=True))
    forest = Forests(
        np.array([0, n_items + 1]),
        np.cumsum(np.concatenate([*edge_at, [1]])),
        np.cumsum(np.concatenate([*tail_at, [len(roots)]])),
        tail_items[np.argsort(tail_edges, kind="stable")],
        np.concatenate([*edge_losses, [0]]).astype(np.int64),
    )
    each = [tuple(np.concatenate(part) for part in zip(*found, strict=True)) for found in (unary or tables, tables)]
    return forest, each[0], each[1], n_levels  # type: ignore[return-value]
