"""Batches of graphs: flat arrays, and the inference on them in each mode."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Mode, Temperature
from latentstruct.inference.conditioning import Conditioned
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.engine import Inference
from latentstruct.inference.propagation import Counting
from latentstruct.inference.structure import Beliefs, FactorGraphs
from latentstruct.kernels import graph as kernels
from latentstruct.kernels.planes import Rows
from latentstruct.ragged import Indices, Vector, positions
from latentstruct.state_trees import Saved, Tree
from latentstruct.tasks.base import require_labels
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
    """Messages of all graphs (0 for those that were not asked), and the weights at which the first of them began."""

    weights: Vector
    messages: Vector


@dataclass
class GraphBatch:
    """Graphs laid out for inference.

    Attributes
    ----------
    structure : FactorGraphs
        Nodes as variables, edges as factors.
    rows : Rows
        Features of all nodes, then of all edges.
    edge_blocks : ndarray of shape (E,) or (0,)
        Block of weights of each edge; none if edges have features.
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
    kinds: Indices
    of_hidden_type: NDArray[np.bool_]
    truth: Indices | None
    losses: Vector | None
    limits: dict[str, Any]
    made: dict[str, Any] = field(default_factory=dict)
    remembers = True
    """Whether an answer may depend on the answers before it, because messages are kept."""
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

    @cached_property
    def everything(self) -> Indices:
        """Numbers of all graphs."""
        return np.arange(self.n_examples)

    @cached_property
    def room(self) -> tuple[Vector, Vector]:
        """Scores of all nodes and edges, which every evaluation of the whole batch writes anew."""
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
            {"engine": engine, "mode": mode, "temperature": list(temperature), **vars(kept)}
            for (engine, mode, temperature), kept in self.kept.items()
        ]

    def recall(self, memory: list[Tree]) -> None:
        """Put back what `memory` returned; raise LookupError, TypeError or ValueError for anything else."""
        found = {}
        for part in map(Saved, memory):
            output, latent = part.tree["temperature"]
            place: Any = (part.text("engine"), part.text("mode"), Temperature(float(output), float(latent)))
            found[place] = Kept(part.vector("weights"), part.array("messages", np.float64, None))
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

    def conditioned(self) -> Conditioned:
        """Return the graphs of what is not known."""
        assert self.truth is not None
        known = self.truth != UNKNOWN
        return self.once("conditioned", lambda: Conditioned(self.structure, known))

    def states_of(self, rows: Indices | None) -> Indices:
        """Return the true states of the asked graphs."""
        assert self.truth is not None
        return self.truth if rows is None else self.truth[positions(self.structure.variables_at, rows)[0]]

    def scores(self, w: Vector, mode: Mode, rows: Indices | None = None) -> tuple[Vector, Vector]:
        """Return the compact scores of the asked graphs' nodes and edges, with the losses in augmented mode."""
        structure = self.structure
        graphs = self.everything if rows is None else rows
        if rows is None:
            unary, tables = self.room
        else:
            ends = (structure.state_at, structure.variables_at), (structure.table_at, structure.factors_at)
            unary, tables = (np.empty(int((at[items[rows + 1]] - at[items[rows]]).sum())) for at, items in ends)
        kernels.score_items(self.rows, graphs, structure.variables_at, 0, structure.state_at, w, unary)
        shift = len(structure.cards)
        kernels.score_items(self.rows, graphs, structure.factors_at, shift, structure.table_at, w, tables)
        if mode == "augmented":
            kernels.add_losses(graphs, structure.variables_at, structure.state_at, self.losses, unary)
        return unary, tables

    def pull_back(
        self, unary: Vector, tables: Vector, weights: Vector, n_features: int, rows: Indices | None = None
    ) -> Vector:
        """Return Σ weight of the graph · belief · features over all states of nodes and pairs of states of edges."""
        structure, slope = self.structure, np.zeros(n_features)
        graphs = self.everything if rows is None else rows
        for items_at, shift, entries_at, beliefs in (
            (structure.variables_at, 0, structure.state_at, unary),
            (structure.factors_at, len(structure.cards), structure.table_at, tables),
        ):
            kernels.add_expected(self.rows, graphs, items_at, shift, entries_at, beliefs, weights, slope)
        return slope

    def expected_losses(self, found: Beliefs, rows: Indices | None = None) -> Vector:
        """Return the expected loss of each asked graph under its nodes' beliefs."""
        structure, graphs = self.structure, self.everything if rows is None else rows
        out = np.empty(len(graphs))
        kernels.expected_losses(graphs, structure.variables_at, structure.state_at, self.losses, found.unary, out)
        return out

    def beliefs(
        self, w: Vector, mode: Mode, temperature: Temperature, rows: Indices | None = None, predicting: bool = False
    ) -> Beliefs:
        """Pool the asked graphs; `predicting` maximises over unknown labels instead of summing them out.

        In training the true outputs are always among those pooled, so that f⁺ ≥ f⁻. Where an approximation ends below
        what they alone give, it is replaced by that: else training would make use of its errors.
        """
        require_labels(self, mode)
        unary, tables = self.scores(w, mode, rows)
        if mode == "clamped":
            conditioned, truth = self.conditioned(), self.states_of(rows)
            rest, rest_tables, constants = conditioned.reduce(unary, tables, truth, rows)
            nothing = np.zeros(len(conditioned.rest.cards), dtype=bool)
            equal = Temperature(temperature.latent, temperature.latent)
            # Sums over what is unknown are counted on both sides alike.
            decoding = temperature.output == 0 and self.limits["counting"] == "auto"
            engine = self._engine("clamped", conditioned.rest, nothing, "bethe" if decoding else None)
            found = self._run(w, (engine, mode), rest, rest_tables, equal, rows)
            return conditioned.spread(found, truth, rows, constants=constants)
        found = self._pool(w, mode, temperature, rows, predicting, unary, tables)
        if self.labelled and not predicting and not found.exact.all():
            known = self.beliefs(w, "clamped", temperature, rows)
            if mode == "augmented":
                known.values += self.expected_losses(known, rows)
            found = self._at_least(found, known, rows)
        return found

    def _at_least(self, found: Beliefs, known: Beliefs, rows: Indices | None) -> Beliefs:
        """Take what is known wherever its value is the larger one."""
        structure, graphs = self.structure, self.everything if rows is None else rows
        worse = found.values < known.values
        for name, at, items_at in (
            ("unary", structure.state_at, structure.variables_at),
            ("tables", structure.table_at, structure.factors_at),
            ("states", np.arange(len(structure.cards) + 1), structure.variables_at),
        ):
            lengths = at[items_at[graphs + 1]] - at[items_at[graphs]]
            getattr(found, name)[:] = np.where(np.repeat(worse, lengths), getattr(known, name), getattr(found, name))
        found.values[worse] = known.values[worse]
        return found

    def _pool(
        self,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        rows: Indices | None,
        predicting: bool,
        unary: Vector,
        tables: Vector,
    ) -> Beliefs:
        """Pool outputs and hidden nodes of the asked graphs."""
        name, temperature = self._pooling(temperature, predicting)
        return self._run(w, (name, mode), unary, tables, temperature, rows)

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

    def _run(
        self,
        w: Vector,
        place: tuple[str, Mode],
        unary: Vector,
        tables: Vector,
        temperature: Temperature,
        rows: Indices | None,
    ) -> Beliefs:
        """Ask the engine of one place, beginning with the messages that were left there by nearby weights."""
        engine = self.made[place[0]]
        if engine.exact.all():
            return engine.run(unary, tables, temperature, rows)
        with MAKING:
            kept = self.kept.get((*place, temperature))
            n_messages = int(engine.message_at[-1])
            fits = kept is not None and (len(kept.weights), len(kept.messages)) == (len(w), n_messages)
            if kept is None or not fits or not _is_near(w, kept.weights):
                kept = self.kept[(*place, temperature)] = Kept(w.copy(), np.zeros(n_messages))
        chosen = slice(None) if rows is None else positions(engine.message_at, rows)[0]
        found = engine.run(unary, tables, temperature, rows, kept.messages[chosen])
        kept.messages[chosen] = found.messages
        return found

    def renyi(
        self,
        w: Vector,
        mode: Mode,
        alpha: float,
        output_temperature: float,
        rows: Indices | None = None,
        predicting: bool = False,
    ) -> Beliefs:
        """Pool latents by Rényi entropy of order α, then outputs at ε_y; graphs must be narrow enough for this."""
        require_labels(self, mode)
        unary, tables = self.scores(w, mode, rows)
        most = self.limits["max_entries"]
        if mode == "clamped":
            conditioned, truth = self.conditioned(), self.states_of(rows)
            rest = conditioned.rest
            everything = np.ones(len(rest.cards), dtype=bool)
            plan = self.once("clamped elimination", lambda: Elimination(rest, everything, most))
            *potentials, constants = conditioned.reduce(unary, tables, truth, rows)
            found = plan.run_renyi(*potentials, alpha, output_temperature, rows)
            return conditioned.spread(found, truth, rows, constants=constants)
        hidden, name = self.hidden(predicting), f"{self._roles(predicting)} elimination"
        plan = self.once(name, lambda: Elimination(self.structure, hidden, most))
        return plan.run_renyi(unary, tables, alpha, output_temperature, rows)
