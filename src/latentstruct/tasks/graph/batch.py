"""Batches of graphs: flat arrays, and the inference on them in each mode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import RLock
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import graph as kernels
from latentstruct.core.protocols import LatentSites, LinearMap, PartLoss, Query, Temperature
from latentstruct.core.types import Array, Indices, Vector, Weights, locate, members, offsets_from_lengths, positions
from latentstruct.core.unknown import UNKNOWN
from latentstruct.exceptions import Description, InputError
from latentstruct.inference.conditioning import Conditioned
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.engine import Inference
from latentstruct.inference.forests import GraphForests
from latentstruct.inference.propagation import Counting
from latentstruct.inference.structure import Beliefs, FactorGraphs
from latentstruct.persistence.state_trees import Tree, from_state_dict
from latentstruct.planes.plane import Atoms, Rows, Slopes, empty_atoms

NEARBY = 1e-3
"""Relative change of the weights up to which belief propagation begins with the messages of before.

On 20 × 40 grids with 5 labels, changes of 1e-3 take 0.4 of the time at temperatures (0, 1) and find no worse outputs;
with 1e-2 little is saved and some outputs are missed; with 1e-1 far better outputs are missed.
"""

MAKING = RLock()
"""Held while something is made that all threads use."""


def _is_near(w: Vector, kept: Vector) -> bool:
    """Return whether weights are within `NEARBY` of those of cached messages."""
    # Squares of weights may overflow.
    size = max(float(np.abs(w).max(initial=0.0)), float(np.abs(kept).max(initial=0.0))) or 1.0
    return bool(np.linalg.norm((w - kept) / size) <= NEARBY * np.linalg.norm(kept / size))


@dataclass
class Remembered:
    """Messages of all graphs (0 for graphs not queried yet), and the weights at which the first of them began."""

    engine: str
    mode: str
    output: float
    latent: float
    weights: Weights
    messages: Annotated[Vector, Array(("messages",), finite=False)]


@dataclass
class GraphBatch(LinearMap, PartLoss):
    """Graphs laid out for inference.

    Parts (see `LinearMap`) are the states of nodes and the pairs of states of edges: their scores are two arrays, and
    so are expected counts. The counts of one assignment per graph are the states of nodes. The loss (see `PartLoss`) is
    a sum over nodes.
    """

    structure: FactorGraphs  # nodes as variables, edges as factors
    rows: Rows  # features of all nodes, then of all edges
    edge_blocks: Indices  # (E,) block of weights of each edge, or (0,) if edges have features
    edge_at: Indices  # where each block of weights of edges begins, and the number of weights
    kinds: Indices  # (N,) type number of each node
    of_hidden_type: NDArray[np.bool_]  # (N,) nodes that are never observed
    truth: Indices | None  # (N,) true states, −1 where unknown
    losses: Vector | None  # Δ of each state of each node, laid out as the nodes' scores
    limits: dict[str, Any]  # parameters of `Inference`
    made: dict[Any, Any] = field(default_factory=dict)
    kept: dict[tuple[str, str, Temperature], Remembered] = field(default_factory=dict)
    known_slopes: Slopes | None = None  # features of the true states

    def __post_init__(self) -> None:
        structure = self.structure
        self.n_examples, self.offsets, self.cards = structure.n_graphs, structure.variables_at, structure.cards
        self.labeled = self.truth is not None
        self.half_labeled = self.truth is not None and bool((self.truth == UNKNOWN).any())
        self.every_graph = np.arange(self.n_examples)
        # First node or edge of each graph, row of the first of all, first entry of each node or edge and of each graph.
        nodes = structure.variables_at, 0, structure.state_at
        self.items = nodes, (structure.factors_at, len(self.cards), structure.table_at)
        self.entries_at = structure.state_at[structure.variables_at], structure.table_at[structure.factors_at]

    @cached_property
    def workspace(self) -> list[Vector]:
        """Scores of all nodes and edges, which every query about the whole batch overwrites."""
        return [np.empty(int(at[-1])) for at in self.entries_at]

    def memory(self) -> list[Tree]:
        """Return the messages that later answers begin with."""
        return [dict(vars(kept)) for kept in self.kept.values()]

    def recall(self, memory: list[Tree]) -> None:
        """Put back what `memory` returned; raise LookupError, TypeError or ValueError for anything else."""
        found = [from_state_dict(Remembered, part) for part in memory]
        self.kept.clear()
        self.kept.update({(one.engine, one.mode, Temperature(one.output, one.latent)): one for one in found})

    def once(self, name: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` makes, the same each time."""
        with MAKING:
            if name not in self.made:
                self.made[name] = make()
            return self.made[name]

    def hidden(self, predicting: bool) -> NDArray[np.bool_]:
        """Nodes that are pooled at ε_h: those of hidden types, in training all that are not known."""
        return self.of_hidden_type if predicting or self.truth is None else self.truth == UNKNOWN

    def states_of(self, rows: Indices | None) -> Indices:
        """Return the true states of some graphs, by default of all."""
        assert self.truth is not None
        return self.truth if rows is None else self.truth[positions(self.offsets, rows)[0]]

    def graphs(self, query: Query) -> Indices:
        """Return the graphs of a query."""
        return self.every_graph if query.rows is None else query.rows

    def scores(self, query: Query) -> tuple[Vector, Vector]:
        rows, graphs, outs = query.rows, self.graphs(query), self.workspace
        if rows is not None:
            outs = [np.empty(int((at[rows + 1] - at[rows]).sum())) for at in self.entries_at]
        for items, out in zip(self.items, outs, strict=True):
            kernels.score_items(self.rows, graphs, *items, query.w, out)
        return outs[0], outs[1]

    def slopes(self, counts: Any, query: Query) -> Slopes:
        structure, graphs = self.structure, self.graphs(query)
        nodes = graphs, structure.variables_at, structure.state_at, structure.factors_at
        pointers = np.empty(len(graphs) + 1, dtype=np.int64)
        if isinstance(counts, np.ndarray):
            atoms = empty_atoms(len(counts) + int(np.diff(structure.factors_at)[graphs].sum()))
            kernels.state_atoms(*nodes, structure.scopes, self.edge_blocks, self.edge_at, counts, pointers, atoms)
        else:
            unary, tables = counts
            atoms = empty_atoms(int(np.count_nonzero(unary) + np.count_nonzero(tables)))
            blocks = structure.table_at, self.edge_blocks, self.edge_at
            kernels.belief_atoms(*nodes, *blocks, unary, tables, pointers, atoms)
        return Slopes(self.rows, pointers, Atoms(*(part[: pointers[-1]] for part in atoms)))

    def pull_back(self, counts: tuple[Vector, Vector], query: Query) -> Vector:
        slope, graphs = np.zeros(int(self.edge_at[-1])), self.graphs(query)
        assert query.weights is not None
        for items, beliefs in zip(self.items, counts, strict=True):
            kernels.add_expected(self.rows, graphs, *items, beliefs, query.weights, slope)
        return slope

    def add_to(self, scores: tuple[Vector, Vector], query: Query) -> tuple[Vector, Vector]:
        assert self.losses is not None
        kernels.add_losses(self.graphs(query), self.offsets, self.structure.state_at, self.losses, scores[0])
        return scores

    def of(self, counts: Any, query: Query) -> Vector:
        graphs = self.graphs(query)
        assert self.losses is not None
        places, out = (graphs, self.offsets, self.structure.state_at), np.empty(len(graphs))
        if isinstance(counts, np.ndarray):
            kernels.state_losses(*places, self.losses, counts, out)
        else:
            kernels.expected_losses(*places, self.losses, counts[0], out)
        return out

    def beliefs(self, query: Query, predicting: bool = False) -> Beliefs:
        """Score and pool the graphs of a query; see `pool`."""
        scores = self.scores(query)
        return self.pool(self.add_to(scores, query) if query.augmented else scores, query, predicting)

    def pool(self, scores: tuple[Vector, Vector], query: Query, predicting: bool = False) -> Beliefs:
        """Pool the graphs of a query; `predicting` maximizes over unknown labels instead of summing them out.

        In training the true outputs are always among those pooled, so that f⁺ ≥ f⁻. Where an approximation ends below
        what they alone give, it is replaced by that: else training would make use of its errors.
        """
        if query.mode == "clamped":
            return self._pool_known(scores, query)
        engine, temperature = self.pooling(query.temperature, predicting)
        found = self._run(engine, scores, query, temperature)
        inexact = self.made[engine].propagation is not None and not found.exact.all()
        if inexact and self.labeled and not predicting:
            known = self.beliefs(replace(query, mode="clamped"))
            if query.augmented:
                known.values += self.of((known.unary, known.tables), query)
            self._replace_worse(found, known, self.graphs(query))
        return found

    def _pool_known(self, scores: tuple[Vector, Vector], query: Query) -> Beliefs:
        """Pool what is not known."""
        output, latent = query.temperature
        # Sums over what is unknown are counted on both sides alike.
        counting: Counting | None = "bethe" if output == 0 and self.limits["counting"] == "auto" else None

        def run(rest: FactorGraphs, potentials: Sequence[Vector]) -> Beliefs:
            engine = self.once(("clamped", counting), lambda: self._engine("clamped", rest, None, counting))
            return self._run(engine, potentials, query, Temperature(latent, latent))

        return self._complete(scores, query, run)

    def _complete(
        self, scores: tuple[Vector, Vector], query: Query, run: Callable[[FactorGraphs, Sequence[Vector]], Beliefs]
    ) -> Beliefs:
        """Return beliefs of whole graphs from those of the graphs of what is not known, given the true outputs."""
        conditioned: Conditioned = self.once("conditioned", lambda: Conditioned(self.structure, self.truth != UNKNOWN))
        truth = self.states_of(query.rows)
        *potentials, constants = conditioned.reduce(*scores, truth, query.rows)
        return conditioned.spread(run(conditioned.rest, potentials), truth, query.rows, constants=constants)

    def _replace_worse(self, found: Beliefs, known: Beliefs, graphs: Indices) -> None:
        """Take what is known wherever its value is the larger one."""
        worse = found.values < known.values
        pairs = (found.unary, known.unary), (found.tables, known.tables), (found.states, known.states)
        for (out, other), at in zip(pairs, (*self.entries_at, self.offsets), strict=True):
            chosen = np.repeat(worse, np.diff(at)[graphs])
            out[chosen] = other[chosen]
        if found.excess is not None:
            found.excess = np.maximum(0.0, found.excess + found.values - np.maximum(found.values, known.values))
        found.values[worse] = known.values[worse]

    def is_approximate(self, temperature: Temperature) -> bool:
        """Return whether some graph is too wide for exact or bounded pooling in training at these temperatures."""
        name, used = self.pooling(temperature, False)
        engine: Inference = self.made[name]
        return not (engine.exact.all() or engine.bounds_maxima(used))

    def pooling(self, temperature: Temperature, predicting: bool) -> tuple[str, Temperature]:
        """Return which engine pools outputs and hidden nodes, and at which temperatures."""

        def choose() -> tuple[str, Temperature]:
            hidden, (output, latent) = self.hidden(predicting), temperature
            if not hidden.any():
                latent = output
            elif hidden.all():
                output = latent
            # At one temperature the order is free, and tables are smaller without the rule that hidden nodes go first.
            together = output == latent
            roles = ("together", self.structure) if together else (self._roles(predicting), self.structure, hidden)
            return self._engine(*roles), Temperature(output, latent)

        return self.once((temperature, predicting), choose)

    def _roles(self, predicting: bool) -> str:
        return "predicting" if predicting or not self.labeled else "training"

    def _engine(
        self, name: str, structure: FactorGraphs, hidden: NDArray | None = None, counting: Counting | None = None
    ) -> str:
        """Make an engine if it is not there yet, and return under which name it is kept."""
        limits = self.limits if counting is None else {**self.limits, "counting": counting}
        name = f"{name} by {limits['counting']}"
        flags = hidden if hidden is not None else np.zeros(len(structure.cards), dtype=bool)
        self.once(name, lambda: Inference(structure, flags, **limits))
        return name

    def _run(self, name: str, scores: Sequence[Vector], query: Query, temperature: Temperature) -> Beliefs:
        """Run an engine, beginning with the messages that were kept for nearby weights."""
        engine, w, rows = self.made[name], query.w, query.rows
        if engine.propagation is None:
            return engine.run(*scores, temperature, rows)
        with MAKING:
            place = name, query.mode, temperature
            kept, n_messages = self.kept.get(place), int(engine.message_at[-1])
            fits = kept is not None and (len(kept.weights), len(kept.messages)) == (len(w), n_messages)
            if kept is None or not fits or not (engine.ascends(temperature) or _is_near(w, kept.weights)):
                kept = self.kept[place] = Remembered(name, query.mode, *temperature, w.copy(), np.zeros(n_messages))
        chosen = slice(None) if rows is None else positions(engine.message_at, rows)[0]
        found = engine.run(*scores, temperature, rows, kept.messages[chosen])
        kept.messages[chosen] = found.messages
        return found

    def forests(self) -> GraphForests | None:
        """Return all assignments by their loss, None where graphs are too wide or losses have no common unit."""
        assert self.losses is not None
        losses, limit = self.losses, self.limits["max_entries"]
        return self.once("forests", lambda: GraphForests.of(self.structure, losses, limit))

    def pool_renyi(
        self, scores: tuple[Vector, Vector], query: Query, alpha: float, predicting: bool = False
    ) -> Beliefs:
        """Pool latents by Rényi entropy of order α, then outputs at ε_y; graphs must be narrow enough for this."""

        def run(name: str, structure: FactorGraphs, hidden: NDArray[np.bool_], potentials: Sequence[Vector]) -> Beliefs:
            plan = self.once(f"{name} elimination", lambda: Elimination(structure, hidden, self.limits["max_entries"]))
            return plan.run_renyi(*potentials, alpha, query.temperature.output, query.rows)

        if query.mode != "clamped":
            return run(self._roles(predicting), self.structure, self.hidden(predicting), scores)
        return self._complete(
            scores, query, lambda rest, left: run("clamped", rest, np.ones(len(rest.cards), dtype=bool), left)
        )


@dataclass(frozen=True)
class HiddenNodes:
    """The G nodes whose states are unknown, each adjacent to known nodes only, with M states in total."""

    nodes: Indices  # (G,) their numbers in the batch
    sites: LatentSites  # their graphs, and where their states lie among all M
    own: Indices  # (M,) the entry of each state among the scores of nodes
    entries: Indices  # entries of edges' tables that join a hidden and a known node
    targets: Indices  # the state of 0 … M−1 that each of these belongs to

    @classmethod
    def of(cls, batch: GraphBatch) -> "HiddenNodes":
        """List the hidden nodes of a labeled batch; raise InputError if two of them are joined by an edge."""
        assert batch.truth is not None
        structure, cards, truth, hidden = batch.structure, batch.cards, batch.truth, batch.truth == UNKNOWN
        ends = structure.scopes.reshape(-1, 2)
        for pair in ends[hidden[ends].all(axis=1)][:1]:
            (k, first), (_, second) = (locate(batch.offsets, node) for node in pair)
            raise InputError(
                f"X[{k}].edges",
                Description(f"an edge between the unknown nodes {first} and {second}"),
                "edges with at least one known label for a loss on hidden nodes",
                "Remove such edges, or use LatentSSVM, MarginalSSVM or HiddenCRF.",
            )
        nodes = np.flatnonzero(hidden)
        offsets = offsets_from_lengths(cards[nodes])
        places = np.zeros(len(hidden), dtype=np.int64)
        places[nodes] = offsets[:-1]
        entries, targets = [], []
        for here in (0, 1):
            edges = np.flatnonzero(hidden[ends[:, here]])
            node, known = ends[edges, here], ends[edges, 1 - here]
            # The states of the second node are next to each other in a table.
            step, fixed = (cards[known], truth[known]) if here == 0 else (1, truth[known] * cards[node])
            entries.append(_steps(structure.table_at[edges] + fixed, cards[node], step))
            targets.append(_steps(places[node], cards[node]))
        graphs = np.searchsorted(batch.offsets, nodes, side="right") - 1
        own = _steps(structure.state_at[nodes], cards[nodes])
        return cls(nodes, LatentSites(graphs, offsets), own, np.concatenate(entries), np.concatenate(targets))

    def others(self, P: Vector) -> Vector:
        """Return how much P gives to the other states of the site of each state, 1 − P for a distribution."""
        starts = self.sites.offsets[:-1]
        return np.add.reduceat(P, starts)[members(self.sites.offsets)[0]] - P if len(starts) else np.zeros(0)


def _steps(first: Indices, lengths: Indices, step: Indices | int = 1) -> Indices:
    """first[0], first[0] + step[0], … (lengths[0] of them), first[1], …"""
    item, number = members(offsets_from_lengths(lengths))
    return first[item] + number * np.broadcast_to(step, len(first))[item]
