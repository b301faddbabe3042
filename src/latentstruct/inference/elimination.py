"""Exact inference by eliminating variables, for graphs whose elimination needs no table above a limit."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latentstruct._native import elimination as kernels
from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, positions, split
from latentstruct.core.validation import check_shape, integer, real
from latentstruct.exceptions import Description, InputError
from latentstruct.inference import program_columns as columns
from latentstruct.inference.structure import MOST_ENTRIES, Beliefs, FactorGraphs, as_indices

MOST_TOTAL = 2**26
"""Largest number of entries of all tables of a graph, whatever the limit (half a gigabyte)."""

TABLES_OF_LIMIT = 64
"""Ratio of the largest number of entries of all tables of a graph to that of one table."""

STEP_COST = 64
"""Overhead of a step, in entries; measured."""


class Excess(NamedTuple):
    """Why a graph is not feasible."""

    found: str  # what its elimination needs, and the limit that this exceeds
    needed: int  # value of `max_entries` that suffices, or a lower bound if later tables are larger still


class Elimination:
    """Exact pooling of factor graphs at any pair of temperatures.

    The value of a graph with score s is smax_{ε_y, y} smax_{ε_h, h} s(y, h), smax_ε = ε·log Σ exp(·/ε), at ε = 0 the
    maximum. Hidden variables are eliminated before outputs, in the cheapest of some orders: greedy ones (fewest edges
    added, smallest tables), that of the variables' numbers and its reverse. At ε_y = ε_h any order is right, and a
    cheaper one is used if there is one. Graphs with the same structure and the same hidden variables share one
    program.

    If nothing is possible (every assignment has score −inf), the value is −inf and derivatives and states are 0.

    Parameters
    ----------
    structure : FactorGraphs
        The graphs.
    hidden : array-like of bool, shape (V,)
        Which variables are pooled first, at ε_h; the others are pooled after them at ε_y.
    max_entries : int
        Maximum number of entries of a table. All tables of one graph together may have 64 times as many, and 2**26
        in any case.

    Attributes
    ----------
    widths : ndarray of shape (G,)
        Maximum number of variables that remain in the table of an eliminated one: 1 for chains and trees.
    entries, totals : ndarray of shape (G,)
        Entries of the largest table and of all tables. If the largest exceeds the limit, these and the width are
        those at which the best attempt was stopped.
    feasible : ndarray of bool, shape (G,)
        Whether the graph can be eliminated within the limit at any pair of temperatures. At equal temperatures more
        may be, because hidden variables need not be eliminated first.
    """

    def __init__(self, structure: FactorGraphs, hidden: ArrayLike, max_entries: int = 2**20) -> None:
        self.structure = structure
        self.hidden = as_flags("hidden", hidden, len(structure.cards))
        integer(1).check(max_entries, "max_entries")
        self.max_entries = max_entries
        self._programs = _Programs(structure, self.hidden, max_entries, any_order=False)
        self.widths = self._programs.widths
        self.entries = self._programs.entries
        self.totals = self._programs.totals
        self.feasible = self._programs.feasible

    def excess(self, graph: int, name: str = "max_entries") -> Excess:
        """Return which limit an infeasible graph exceeds; `name` is the user's name of `max_entries`."""
        return self._programs.excess(graph, self.max_entries, name)

    def run(
        self, unary: ArrayLike, tables: ArrayLike, temperature: Temperature, graphs: ArrayLike | None = None
    ) -> Beliefs:
        """Return values, derivatives and decoded states of the selected graphs (None: all), exactly.

        Parameters
        ----------
        unary, tables : array-like
            Potentials of the selected graphs, one graph after the other; finite or −inf.
        temperature : Temperature
            (ε_y, ε_h), both at least 0.
        graphs : array-like of int, shape (k,)
            The selected graphs, in any order, possibly repeated.
        """
        output, latent = float(temperature[0]), float(temperature[1])
        check_temperature(output, latent)
        selected = selected_graphs(self.structure, graphs)
        programs = self._programs_at(output, latent)
        self._refuse_infeasible(programs, selected, "use belief propagation, as Inference does")
        beliefs = self._pool(programs, unary, tables, output, latent, 0.0, selected)
        if programs is not self._programs and latent > 0:
            self._complete(programs, beliefs, unary, tables, latent, selected)
        return beliefs

    def run_renyi(
        self,
        unary: ArrayLike,
        tables: ArrayLike,
        alpha: float,
        output_temperature: float,
        graphs: ArrayLike | None = None,
    ) -> Beliefs:
        """Pool the outputs' scores G_α(y) = [lse_h(α·s(y, h)) − lse_h(s(y, h))] / (α − 1) at ε_y.

        G_α(y) is lse_h(s(y, h)) minus the Rényi entropy of order α of P(h | y), the score of max-margin min-entropy
        models; its limit for α → ∞ is max_h s(y, h). Derivatives by potentials of hidden variables,
        Σ_y b(y)·[α·p_α(h | y) − p_1(h | y)]/(α − 1), can be negative. Decoded hidden states are the most probable ones
        given the decoded outputs. Potentials and graphs are as for `run`; α is above 0 and not 1.
        """
        check_temperature(output_temperature)
        if not (0 < alpha < np.inf) or alpha == 1:
            raise InputError(
                "alpha", alpha, "a finite number above 0 other than 1", "Use a temperature of 1 for the sum."
            )
        selected = selected_graphs(self.structure, graphs)
        self._refuse_infeasible(self._programs, selected, "use MarginalSSVM, which uses belief propagation")
        return self._pool(self._programs, unary, tables, float(output_temperature), 1.0, float(alpha), selected)

    @cached_property
    def _programs_in_any_order(self) -> "_Programs":
        return _Programs(self.structure, self.hidden, self.max_entries, any_order=True)

    def _programs_at(self, output: float, latent: float) -> "_Programs":
        if output != latent or not self.hidden.any():
            return self._programs
        free = self._programs_in_any_order
        # Decoding hidden states needs a second pass if ε > 0.
        passes = 2 if latent > 0 else 1
        gained = (free.feasible & ~self.feasible).any() or passes * free.costs.sum() < self._programs.costs.sum()
        return free if gained else self._programs

    def _complete(
        self,
        programs: "_Programs",
        beliefs: Beliefs,
        unary: ArrayLike,
        tables: ArrayLike,
        temperature: float,
        selected: Indices,
    ) -> None:
        """Write the most probable hidden states given the decoded outputs into `beliefs`."""
        variables, _ = positions(self.structure.variables_at, selected)
        cards, hidden = self.structure.cards[variables], self.hidden[variables]
        state = np.arange(cards.sum()) - np.repeat(np.cumsum(cards) - cards, cards)
        possible = np.repeat(hidden, cards) | (state == np.repeat(beliefs.states, cards))
        given = np.where(possible, np.asarray(unary, dtype=np.float64), -np.inf)
        again = self._pool(programs, given, tables, temperature, temperature, 0.0, selected)
        beliefs.states[hidden] = again.states[hidden]

    def _pool(
        self,
        programs: "_Programs",
        unary: ArrayLike,
        tables: ArrayLike,
        output_temperature: float,
        latent_temperature: float,
        alpha: float,
        selected: Indices,
    ) -> Beliefs:
        layout = Layout.of(self.structure, selected)
        unary, tables = layout.check(unary, tables)
        beliefs = Beliefs(
            np.empty(len(selected)),
            np.zeros(len(unary)),
            np.zeros(len(tables)),
            np.zeros(int(layout.variables_at[-1]), dtype=np.int64),
            np.ones(len(selected), dtype=np.bool_),
            np.ones(len(selected), dtype=np.bool_),
        )
        kernels.pool_graphs(
            *programs.arrays,
            programs.program_of[selected],
            unary,
            layout.unary_at,
            tables,
            layout.tables_at,
            layout.variables_at,
            output_temperature,
            latent_temperature,
            alpha,
            beliefs.values,
            beliefs.unary,
            beliefs.tables,
            beliefs.states,
        )
        return beliefs

    def _refuse_infeasible(self, programs: "_Programs", selected: Indices, other_way: str) -> None:
        for g in selected[~programs.feasible[selected]][:1]:
            found, needed = programs.excess(g, self.max_entries, "`max_entries`")
            hint = f"For elimination {found}. Use fewer states, or {other_way}."
            raise InputError("max_entries", self.max_entries, f"at least {needed} for graph {g}", hint)


@dataclass(frozen=True)
class Layout:
    """Positions of the potentials of the selected graphs, one graph after the other."""

    # (k + 1,) start of the entries and the variables of each selected graph.
    unary_at: Indices
    tables_at: Indices
    variables_at: Indices

    @classmethod
    def of(cls, structure: FactorGraphs, selected: Indices) -> "Layout":
        """Lay out the selected graphs."""
        first, last = structure.variables_at[selected], structure.variables_at[selected + 1]
        first_factor, last_factor = structure.factors_at[selected], structure.factors_at[selected + 1]
        return cls(
            offsets_from_lengths(structure.state_at[last] - structure.state_at[first]),
            offsets_from_lengths(structure.table_at[last_factor] - structure.table_at[first_factor]),
            offsets_from_lengths(last - first),
        )

    def check(self, unary: ArrayLike, tables: ArrayLike) -> tuple[Vector, Vector]:
        """Return unary and table potentials as arrays; raise InputError if their number is wrong."""
        first, second = (np.ascontiguousarray(values, dtype=np.float64) for values in (unary, tables))
        for name, array, at in (("unary", first, self.unary_at), ("tables", second, self.tables_at)):
            check_shape(array, (int(at[-1]),), name, "the potentials of one graph after the other")
        return first, second


def selected_graphs(structure: FactorGraphs, graphs: ArrayLike | None) -> Indices:
    """Return the numbers of the selected graphs; raise InputError if one does not exist."""
    if graphs is None:
        return np.arange(structure.n_graphs, dtype=np.int64)
    selected = as_indices("graphs", graphs).reshape(-1)
    for g in selected[(selected < 0) | (selected >= structure.n_graphs)][:1]:
        raise InputError("graphs", g, f"indices from 0 to {structure.n_graphs - 1}")
    return selected


def check_temperature(*temperature: float) -> None:
    """Raise InputError unless 0 ≤ ε < ∞ for each value."""
    for value in temperature:
        real(0.0, closed="left").check(value, "temperature")


def as_flags(name: str, values: ArrayLike, count: int) -> NDArray[np.bool_]:
    """Return an array of bool; raise InputError if its shape or type is wrong."""
    flags = np.asarray(values)
    if flags.shape != (count,) or (flags.dtype != np.bool_ and count > 0):
        got = Description(f"{flags.dtype} of shape {flags.shape}")
        raise InputError(name, got, f"an array of {count} booleans (one per variable)")
    return np.ascontiguousarray(flags, dtype=np.bool_)


class _Programs:
    """The distinct programs of a batch of graphs, as flat arrays for the kernels."""

    def __init__(self, structure: FactorGraphs, hidden: NDArray[np.bool_], max_entries: int, any_order: bool) -> None:
        self.program_of = np.zeros(structure.n_graphs, dtype=np.int64)
        numbers: dict[tuple[bytes, ...], int] = {}
        built: list[_Program] = []
        for g in range(structure.n_graphs):
            one = structure.only(g)
            first, last = structure.variables_at[g : g + 2]
            parts = one.cards, hidden[first:last], one.scope_at, one.scopes
            key = tuple(part.tobytes() for part in parts)
            if key not in numbers:
                numbers[key] = len(built)
                built.append(_Program.build(*parts, max_entries, any_order))
            self.program_of[g] = numbers[key]
        self.widths = np.array([p.width for p in built], dtype=np.int64)[self.program_of]
        self.entries = np.array([p.entries for p in built], dtype=np.int64)[self.program_of]
        self.totals = np.array([p.total for p in built], dtype=np.int64)[self.program_of]
        self.feasible = np.array([p.feasible for p in built], dtype=np.bool_)[self.program_of]
        costs = [p.workspace + STEP_COST * len(p.steps) for p in built]
        self.costs = np.array(costs, dtype=np.float64)[self.program_of]
        self.arrays = _join(built)

    def excess(self, graph: int, max_entries: int, name: str) -> Excess:
        """Return which limit a graph exceeds."""
        width, entries, total = self.widths[graph], self.entries[graph], self.totals[graph]
        if entries > max_entries:
            found = f"the best order found reaches width {width} and a table of {entries} entries"
            return Excess(f"{found}, and {name} is {max_entries}", int(entries))
        found = f"the best order found has width {width} and tables of {total} entries together"
        allowed = f"at most {most_total(max_entries)} are allowed where {name} is {max_entries}"
        return Excess(f"{found}, and {allowed}", int(-(-total // TABLES_OF_LIMIT)))


def most_total(max_entries: int) -> int:
    """Return the maximum number of entries of all tables of a graph."""
    return max(MOST_TOTAL, TABLES_OF_LIMIT * max_entries)


@dataclass(frozen=True)
class _Program:
    """Steps of one structure, with positions relative to its start; no steps if it is infeasible."""

    feasible: bool
    width: int
    entries: int
    total: int
    n_hidden: int
    n_states: int
    workspace: int
    steps: Indices
    inputs: Indices
    index: NDArray[np.uint32]
    strides: Indices
    constants: Indices

    @classmethod
    def build(
        cls,
        cards: Indices,
        hidden: NDArray[np.bool_],
        scope_at: Indices,
        scopes: Indices,
        max_entries: int,
        any_order: bool,
    ) -> "_Program":
        """Choose the best of some orders, with hidden variables first unless any order is valid, and lay it out."""
        order, separator_at, separators, done, width, largest, total = _best_order(
            cards, hidden, scope_at, scopes, max_entries, any_order
        )
        feasible = done == len(cards) and total <= most_total(max_entries)
        n_first = 0 if any_order else int(hidden.sum())
        ends = np.array([0, len(cards)]), np.array([0, len(scope_at) - 1])
        table_at = FactorGraphs(cards, scope_at, scopes, *ends).table_at
        if not feasible:
            steps = np.zeros((0, columns.STEP_COLUMNS), dtype=np.int64)
            inputs = np.zeros((0, columns.INPUT_COLUMNS), dtype=np.int64)
            index, strides, workspace = np.zeros(0, dtype=np.uint32), np.zeros((0, 2), dtype=np.int64), 0
        else:
            steps, inputs, index, strides, workspace = kernels.lay_out(
                cards, scope_at, scopes, table_at, order, separator_at, separators
            )
        return cls(
            feasible=feasible,
            width=width,
            entries=int(min(largest, MOST_ENTRIES)),
            total=int(min(total, MOST_ENTRIES)),
            n_hidden=n_first,
            n_states=int(cards.sum()),
            workspace=workspace,
            steps=steps,
            inputs=inputs,
            index=index,
            strides=strides,
            constants=table_at[:-1][np.diff(scope_at) == 0],
        )


def _best_order(
    cards: Indices, hidden: NDArray[np.bool_], scope_at: Indices, scopes: Indices, max_entries: int, any_order: bool
) -> tuple[Indices, Indices, Indices, int, int, float, float]:
    """Return what `choose_order` does, for the order of fewest entries, or the one that got farthest."""
    best = None
    bound = np.inf
    for first in [hidden, np.zeros_like(hidden)] if any_order else [hidden]:
        for rule in (columns.BY_FILL, columns.BY_SIZE, columns.FORWARD, columns.BACKWARD):
            found = kernels.choose_order(cards, scope_at, scopes, first, rule, float(max_entries), bound)
            if best is None or (-found[3], found[6]) < (-best[3], best[6]):
                best = found
            if best[3] == len(cards):
                if best[4] <= 1:
                    # Nothing is narrower than a forest.
                    return best
                # Another order is stopped as soon as it needs more.
                bound = best[6]
    assert best is not None
    return best


def elimination_order(structure: FactorGraphs, g: int, max_entries: int) -> list[tuple[int, list[int]]] | None:
    """Return the variables of a graph in a good order of elimination, each with those that remain in its table.

    Variables are counted from the first one of the graph. None if a table would have more than `max_entries` entries.
    """
    one = structure.only(g)
    hidden = np.zeros(len(one.cards), dtype=np.bool_)
    order, separator_at, separators, done, *_ = _best_order(
        one.cards, hidden, one.scope_at, one.scopes, max_entries, False
    )
    if done < len(one.cards):
        return None
    around = split(separators, separator_at)
    return [(v, list(some)) for v, some in zip(order.tolist(), (part.tolist() for part in around), strict=True)]


def _join(built: list[_Program]) -> tuple[Indices, Indices, Indices, NDArray[np.uint32], Indices, Indices]:
    """Concatenate programs and shift their positions accordingly."""
    programs = np.zeros((len(built), columns.PROGRAM_COLUMNS), dtype=np.int64)
    steps_at = offsets_from_lengths(len(p.steps) for p in built)
    inputs_at = offsets_from_lengths(len(p.inputs) for p in built)
    index_at = offsets_from_lengths(len(p.index) for p in built)
    strides_at = offsets_from_lengths(len(p.strides) for p in built)
    constants_at = offsets_from_lengths(len(p.constants) for p in built)
    all_steps = [np.zeros((0, columns.STEP_COLUMNS), dtype=np.int64)]
    all_inputs = [np.zeros((0, columns.INPUT_COLUMNS), dtype=np.int64)]
    for i, program in enumerate(built):
        steps, inputs = program.steps.copy(), program.inputs.copy()
        steps[:, [columns.FACTORS, columns.MESSAGES, columns.INPUTS_END]] += inputs_at[i]
        steps[:, columns.SEPARATOR] += strides_at[i]
        steps[steps[:, columns.PARENT] >= 0, columns.PARENT] += steps_at[i]
        inputs[:, [columns.OUTER_INDEX, columns.INNER_INDEX]] += index_at[i]
        all_steps.append(steps)
        all_inputs.append(inputs)
        programs[i, columns.FIRST_STEP] = steps_at[i]
        programs[i, columns.FIRST_OUTPUT] = steps_at[i] + program.n_hidden
        programs[i, columns.LAST_STEP] = steps_at[i + 1] - 1
        programs[i, columns.WORKSPACE] = program.workspace
        programs[i, columns.WIDEST_BLOCK] = (steps[:, columns.INNER] * steps[:, columns.CARD]).max(initial=1)
        programs[i, columns.STATES] = program.n_states
        programs[i, columns.CONSTANTS : columns.CONSTANTS_END + 1] = constants_at[i : i + 2]
    return (
        programs,
        np.concatenate(all_steps),
        np.concatenate(all_inputs),
        np.concatenate([np.zeros(0, dtype=np.uint32)] + [p.index for p in built]),
        np.concatenate([np.zeros((0, 2), dtype=np.int64)] + [p.strides for p in built]),
        np.concatenate([np.zeros(0, dtype=np.int64)] + [p.constants for p in built]),
    )
