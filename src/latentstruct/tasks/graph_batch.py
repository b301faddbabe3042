"""Batches of graphs: flat arrays, and the inference on them in each mode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import RLock
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Mode, Query, Temperature
from latentstruct.inference.conditioning import Conditioned
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.engine import Inference
from latentstruct.inference.propagation import Counting
from latentstruct.inference.structure import Beliefs, FactorGraphs
from latentstruct.kernels import graph as kernels
from latentstruct.kernels.planes import Atoms, Rows
from latentstruct.planes import Slopes, empty_atoms
from latentstruct.ragged import Array, Indices, Vector, Weights, positions
from latentstruct.state_trees import Tree, from_state_dict
from latentstruct.unknown import UNKNOWN

NEARBY = 1e-3
"""Relative change of the weights up to which belief propagation begins with the messages of before.

Measured on 20 × 40 grids with 5 labels over several steps: with changes of 1e-3 each, temperatures (0, 1) take 0.4 of
the time and find no worse outputs; with 1e-2 little is saved and some outputs are missed; with 1e-1 messages stay
where they were and miss far better outputs.
"""

MESSAGE_ROUNDS = 30
"""Rounds of messages that belief propagation is taken to need when work is estimated."""

MAKING = RLock()
"""Held while something is made that all threads use."""


def _is_near(w: Vector, kept: Vector) -> bool:
    """Tell whether weights are within `NEARBY` of those that messages were kept for."""
    # Squares of weights may overflow.
    size = max(float(np.abs(w).max(initial=0.0)), float(np.abs(kept).max(initial=0.0))) or 1.0
    return bool(np.linalg.norm((w - kept) / size) <= NEARBY * np.linalg.norm(kept / size))


@dataclass
class Kept:
    """Messages of all graphs (0 for graphs not queried yet), and the weights at which the first of them began."""

    weights: Vector
    messages: Vector


@dataclass
class Remembered:
    """`Kept` messages as they are stored, with the engine, the mode and the temperatures they belong to."""

    engine: str
    mode: str
    output: float
    latent: float
    weights: Weights
    messages: Annotated[Vector, Array(("messages",), finite=False)]


@dataclass
class GraphBatch:
    """Graphs laid out for inference.

    Parts (see `LinearMap`) are the states of nodes and the pairs of states of edges: their scores are two arrays, and
    so are expected counts. The counts of one assignment per graph are the states of nodes.

    Attributes
    ----------
    structure : FactorGraphs
        Nodes as variables, edges as factors.
    rows : Rows
        Features of all nodes, then of all edges.
    edge_blocks : ndarray of shape (E,) or (0,)
        Block of weights of each edge; none if edges have features.
    edge_at : ndarray
        Where each block of weights of edges begins, and the number of weights.
    kinds : ndarray of shape (N,)
        Type number of each node.
    of_hidden_type : ndarray of bool, shape (N,)
        Nodes that are never observed.
    truth : ndarray of shape (N,) or None
        True states, −1 where unknown.
    losses : ndarray or None
        Δ of each state of each node, laid out as the nodes' scores.
    limits : dict
        Parameters of `Inference`.
    """

    structure: FactorGraphs
    rows: Rows
    edge_blocks: Indices
    edge_at: Indices
    kinds: Indices
    of_hidden_type: NDArray[np.bool_]
    truth: Indices | None
    losses: Vector | None
    limits: dict[str, Any]
    made: dict[str, Any] = field(default_factory=dict)
    kept: dict[tuple[str, Mode, Temperature], Kept] = field(default_factory=dict)

    @property
    def n_examples(self) -> int:
        """Number of graphs."""
        return self.structure.n_graphs

    @property
    def labelled(self) -> bool:
        """Whether true labels are given."""
        return self.truth is not None

    @cached_property
    def half_labelled(self) -> bool:
        """Whether something stays hidden when the labels are known."""
        return self.truth is not None and bool((self.truth == UNKNOWN).any())

    @property
    def offsets(self) -> Indices:
        """Where the nodes of each graph begin."""
        return self.structure.variables_at

    @property
    def cards(self) -> Indices:
        """Number of states of each node."""
        return self.structure.cards

    @cached_property
    def room(self) -> tuple[Vector, Vector]:
        """Scores of all nodes and edges, which every query about the whole batch overwrites."""
        return np.empty(int(self.structure.state_at[-1])), np.empty(int(self.structure.table_at[-1]))

    def work(self, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each graph takes, shape (n,)."""
        structure = self.structure
        states, pairs = structure.state_at[structure.variables_at], structure.table_at[structure.factors_at]
        entries = np.diff(states) + np.diff(pairs)
        if mode == "clamped":
            return (20.0 if self.half_labelled else 5.0) * entries
        engine = self.made[self._pooling(temperature, False)[0]]
        messages = MESSAGE_ROUNDS * entries
        return 5.0 * np.where(engine.exact, engine.elimination.totals, messages)

    def memory(self) -> list[Tree]:
        """Return the messages that later answers begin with."""
        return [
            {"engine": engine, "mode": mode, **temperature._asdict(), **vars(kept)}
            for (engine, mode, temperature), kept in self.kept.items()
        ]

    def recall(self, memory: list[Tree]) -> None:
        """Put back what `memory` returned; raise LookupError, TypeError or ValueError for anything else."""
        found = {}
        for part in memory:
            one = from_state_dict(Remembered, part)
            place: Any = (one.engine, one.mode, Temperature(one.output, one.latent))
            found[place] = Kept(one.weights, one.messages)
        self.kept.clear()
        self.kept.update(found)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` makes, the same each time."""
        with MAKING:
            if name not in self.made:
                self.made[name] = make()
            return self.made[name]

    def hidden(self, predicting: bool) -> NDArray[np.bool_]:
        """Nodes that are pooled at ε_h: those of hidden types, in training all that are not known."""
        if predicting or self.truth is None:
            return self.of_hidden_type
        return self.truth == UNKNOWN

    def states_of(self, rows: Indices | None) -> Indices:
        """Return the true states of some graphs, by default of all."""
        assert self.truth is not None
        return self.truth if rows is None else self.truth[positions(self.structure.variables_at, rows)[0]]

    def scores(self, query: Query) -> tuple[Vector, Vector]:
        """Return the scores of nodes and edges of the graphs of a query, compact."""
        structure, rows, graphs = self.structure, query.rows, query.examples(self)
        if rows is None:
            unary, tables = self.room
        else:
            ends = (structure.state_at, structure.variables_at), (structure.table_at, structure.factors_at)
            unary, tables = (np.empty(int((at[items[rows + 1]] - at[items[rows]]).sum())) for at, items in ends)
        for *items, out in ((*self._nodes, unary), (*self._edges, tables)):
            kernels.score_items(self.rows, graphs, *items, query.w, out)
        return unary, tables

    @property
    def _nodes(self) -> tuple[Indices, int, Indices]:
        """Where the nodes of each graph begin, the row of the first node, and where the states of each node begin."""
        return self.structure.variables_at, 0, self.structure.state_at

    @property
    def _edges(self) -> tuple[Indices, int, Indices]:
        """The same of edges and their pairs of states."""
        return self.structure.factors_at, len(self.structure.cards), self.structure.table_at

    def slopes(self, counts: Any, query: Query) -> Slopes:
        """Return the features of an assignment of each graph, or expected ones."""
        structure, graphs = self.structure, query.examples(self)
        nodes = graphs, structure.variables_at, structure.state_at, structure.factors_at
        pointers = np.empty(len(graphs) + 1, dtype=np.int64)
        if isinstance(counts, np.ndarray):
            atoms = empty_atoms(len(counts) + int(np.diff(structure.factors_at)[graphs].sum()))
            kernels.state_atoms(*nodes, structure.scopes, self.edge_blocks, self.edge_at, counts, pointers, atoms)
        else:
            atoms = empty_atoms(sum(map(np.count_nonzero, counts)))
            kernels.belief_atoms(*nodes, structure.table_at, self.edge_blocks, self.edge_at, *counts, pointers, atoms)
        return Slopes(self.rows, pointers, Atoms(*(part[: pointers[-1]] for part in atoms)))

    def pull_back(self, counts: tuple[Vector, Vector], query: Query) -> Vector:
        """Return the expected features times the weights of the query, summed over its graphs."""
        slope, graphs = np.zeros(int(self.edge_at[-1])), query.examples(self)
        for items, beliefs in zip((self._nodes, self._edges), counts, strict=True):
            kernels.add_expected(self.rows, graphs, *items, beliefs, query.weights, slope)
        return slope

    def beliefs(self, query: Query, predicting: bool = False) -> Beliefs:
        """Score and pool the graphs of a query; see `pool`."""
        scores = self.scores(query)
        return self.pool(NodeLoss(self).add_to(scores, query) if query.augmented else scores, query, predicting)

    def pool(self, scores: tuple[Vector, Vector], query: Query, predicting: bool = False) -> Beliefs:
        """Pool the graphs of a query; `predicting` maximizes over unknown labels instead of summing them out.

        In training the true outputs are always among those pooled, so that f⁺ ≥ f⁻. Where an approximation ends below
        what they alone give, it is replaced by that: else training would make use of its errors.
        """
        if query.mode == "clamped":
            return self._pool_known(scores, query)
        found = self._pool(scores, query, predicting)
        if self.labelled and not predicting and not found.exact.all():
            known = self.beliefs(replace(query, mode="clamped"))
            if query.augmented:
                known.values += NodeLoss(self).of((known.unary, known.tables), query)
            found = self._at_least(found, known, query.examples(self))
        return found

    def _pool_known(self, scores: tuple[Vector, Vector], query: Query) -> Beliefs:
        """Pool what is not known."""
        output, latent = query.temperature
        # Sums over what is unknown are counted on both sides alike.
        counting: Counting | None = "bethe" if output == 0 and self.limits["counting"] == "auto" else None

        def run(rest: FactorGraphs, potentials: Sequence[Vector]) -> Beliefs:
            engine = self._engine("clamped", rest, np.zeros(len(rest.cards), dtype=bool), counting)
            return self._run(engine, potentials, query, Temperature(latent, latent))

        return self._complete(scores, query, run)

    def _complete(
        self, scores: tuple[Vector, Vector], query: Query, run: Callable[[FactorGraphs, Sequence[Vector]], Beliefs]
    ) -> Beliefs:
        """Return beliefs of whole graphs from those of the graphs of what is not known, given the true outputs."""
        assert self.truth is not None
        conditioned: Conditioned = self.once("conditioned", lambda: Conditioned(self.structure, self.truth != UNKNOWN))
        truth = self.states_of(query.rows)
        *potentials, constants = conditioned.reduce(*scores, truth, query.rows)
        return conditioned.spread(run(conditioned.rest, potentials), truth, query.rows, constants=constants)

    def _at_least(self, found: Beliefs, known: Beliefs, graphs: Indices) -> Beliefs:
        """Take what is known wherever its value is the larger one."""
        structure, worse = self.structure, found.values < known.values
        for out, other, at, items_at in (
            (found.unary, known.unary, structure.state_at, structure.variables_at),
            (found.tables, known.tables, structure.table_at, structure.factors_at),
            (found.states, known.states, np.arange(len(structure.cards) + 1), structure.variables_at),
        ):
            chosen = np.repeat(worse, at[items_at[graphs + 1]] - at[items_at[graphs]])
            out[chosen] = other[chosen]
        found.values[worse] = known.values[worse]
        return found

    def _pool(self, scores: tuple[Vector, Vector], query: Query, predicting: bool) -> Beliefs:
        """Pool outputs and hidden nodes."""
        engine, temperature = self._pooling(query.temperature, predicting)
        return self._run(engine, scores, query, temperature)

    def is_approximate(self, temperature: Temperature) -> bool:
        """Tell whether some graph is too wide for exact pooling in training at these temperatures."""
        return not self.made[self._pooling(temperature, False)[0]].exact.all()

    def _pooling(self, temperature: Temperature, predicting: bool) -> tuple[str, Temperature]:
        """Return which engine pools outputs and hidden nodes, and at which temperatures."""
        hidden = self.hidden(predicting)
        if not hidden.any():
            temperature = Temperature(temperature.output, temperature.output)
        elif hidden.all():
            temperature = Temperature(temperature.latent, temperature.latent)
        if temperature.output == temperature.latent:
            # The order of pooling is then free, and tables are smaller without the rule that hidden nodes go first.
            return self._engine("together", self.structure, np.zeros(len(hidden), dtype=bool)), temperature
        return self._engine(self._roles(predicting), self.structure, hidden), temperature

    def _roles(self, predicting: bool) -> str:
        return "predicting" if predicting or not self.labelled else "training"

    def _engine(
        self, name: str, structure: FactorGraphs, hidden: NDArray[np.bool_], counting: Counting | None = None
    ) -> str:
        """Make an engine if it is not there yet, and return under which name it is kept."""
        limits = self.limits if counting is None else {**self.limits, "counting": counting}
        name = f"{name} by {limits['counting']}"
        self.once(name, lambda: Inference(structure, hidden, **limits))
        return name

    def _run(self, name: str, scores: Sequence[Vector], query: Query, temperature: Temperature) -> Beliefs:
        """Run an engine, beginning with the messages that were kept for nearby weights."""
        engine, w, rows = self.made[name], query.w, query.rows
        if engine.exact.all():
            return engine.run(*scores, temperature, rows)
        with MAKING:
            place = name, query.mode, temperature
            kept, n_messages = self.kept.get(place), int(engine.message_at[-1])
            fits = kept is not None and (len(kept.weights), len(kept.messages)) == (len(w), n_messages)
            if kept is None or not fits or not _is_near(w, kept.weights):
                kept = self.kept[place] = Kept(w.copy(), np.zeros(n_messages))
        chosen = slice(None) if rows is None else positions(engine.message_at, rows)[0]
        found = engine.run(*scores, temperature, rows, kept.messages[chosen])
        kept.messages[chosen] = found.messages
        return found

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
            scores,
            query,
            lambda rest, potentials: run("clamped", rest, np.ones(len(rest.cards), dtype=bool), potentials),
        )


@dataclass
class NodeLoss:
    """The loss as a sum over nodes, Δ(y, h) = Σ_v loss of v's state."""

    batch: GraphBatch

    def _places(self, query: Query) -> tuple[Indices, Indices, Indices, Vector | None]:
        structure = self.batch.structure
        return query.examples(self.batch), structure.variables_at, structure.state_at, self.batch.losses

    def add_to(self, scores: tuple[Vector, Vector], query: Query) -> tuple[Vector, Vector]:
        """Add the losses of states to the scores of nodes."""
        kernels.add_losses(*self._places(query), scores[0])
        return scores

    def of(self, counts: Any, query: Query) -> Vector:
        """Return the loss of each graph's assignment, or the expected one."""
        places = self._places(query)
        out = np.empty(len(places[0]))
        if isinstance(counts, np.ndarray):
            kernels.state_losses(*places, counts, out)
        else:
            kernels.expected_losses(*places, counts[0], out)
        return out
