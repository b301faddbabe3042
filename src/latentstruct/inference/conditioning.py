"""Factor graphs with some variables fixed: the smaller graphs that remain, and the conversion of their beliefs back."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latentstruct.core.types import Indices, Vector, offsets_from_lengths, positions, runs
from latentstruct.exceptions import Description, InputError
from latentstruct.inference.elimination import Layout, as_flags, selected_graphs
from latentstruct.inference.structure import Beliefs, FactorGraphs, as_indices, table_strides
from latentstruct.parallel.threads import MOST_PIECES

MOST_KNOWN = 2 * MOST_PIECES
"""Number of sets of fixed states whose positions are cached: enough for a batch that threads share."""


class Conditioned:
    """The graphs that remain when the variables marked `fixed` are given states.

    A factor whose variables are all fixed becomes a constant, one with a single other variable joins the unary
    potentials of that variable, any other keeps a table over the variables that are left, in their order. `rest` are
    as many graphs as before, of the other variables only, `free`; one may be empty.
    """

    def __init__(self, structure: FactorGraphs, fixed: ArrayLike) -> None:
        self.structure = structure
        self.fixed = as_flags("fixed", fixed, len(structure.cards))
        self.free: Indices = np.flatnonzero(~self.fixed)
        in_scope_free = ~self.fixed[structure.scopes]
        n_free = np.diff(np.concatenate([[0], np.cumsum(in_scope_free)])[structure.scope_at])
        self._n_free = n_free
        kept = n_free >= 2
        kept_scopes = np.repeat(kept, np.diff(structure.scope_at)) & in_scope_free
        self.rest = FactorGraphs(
            structure.cards[self.free],
            offsets_from_lengths(n_free[kept]),
            np.searchsorted(self.free, structure.scopes[kept_scopes]),
            np.searchsorted(self.free, structure.variables_at),
            np.concatenate([[0], np.cumsum(kept)])[structure.factors_at],
        )
        self._strides = table_strides(structure)
        self._list_entries(in_scope_free)
        self._known: dict[tuple[int, int], _Places] = {}

    def reduce(
        self, unary: ArrayLike, tables: ArrayLike, states: ArrayLike, graphs: ArrayLike | None = None
    ) -> tuple[Vector, Vector, Vector]:
        """Return unary and table potentials of `rest` and the constants (k,) that fixed variables contribute.

        `unary` and `tables` are potentials of the selected graphs (k,), by default of all, one graph after the other;
        `states` has one state per variable of these, of which only those of fixed variables are used.
        """
        places = self._places(states, graphs)
        unary, tables = places.layout.check(unary, tables)
        rest_unary = unary[places.free_states]
        np.add.at(rest_unary, places.single_targets, tables[places.singles])
        constants = np.zeros(len(places.selected))
        np.add.at(constants, places.fixed_graphs, unary[places.fixed_states])
        np.add.at(constants, places.constant_graphs, tables[places.constants])
        return rest_unary, tables[places.kept], constants

    def spread(
        self, beliefs: Beliefs, states: ArrayLike, graphs: ArrayLike | None = None, constants: Vector | None = None
    ) -> Beliefs:
        """Return the beliefs of the whole graphs from those of `rest`: derivatives by all potentials, all states.

        `states` and `graphs` are as for `reduce`, `constants` (k,) are what it returned. They are added to the values;
        derivatives are 0 where this makes the value −inf.
        """
        places = self._places(states, graphs)
        values = beliefs.values if constants is None else beliefs.values + constants
        unary = np.zeros(int(places.layout.unary_at[-1]))
        tables = np.zeros(int(places.layout.tables_at[-1]))
        unary[places.free_states] = beliefs.unary
        unary[places.fixed_states] = 1.0
        tables[places.kept] = beliefs.tables
        tables[places.singles] = beliefs.unary[places.single_targets]
        tables[places.constants] = 1.0
        for k in np.flatnonzero(values == -np.inf):
            unary[places.layout.unary_at[k] : places.layout.unary_at[k + 1]] = 0.0
            tables[places.layout.tables_at[k] : places.layout.tables_at[k + 1]] = 0.0
        joint = places.states.copy()
        joint[places.free_variables] = beliefs.states
        exact, converged = beliefs.exact.copy(), beliefs.converged.copy()
        return Beliefs(values.copy(), unary, tables, joint, exact, converged, excess=beliefs.excess)

    def _list_entries(self, in_scope_free: NDArray[np.bool_]) -> None:
        """List each factor's entries over its free variables: where they lie if all fixed variables had state 0."""
        structure = self.structure
        free_strides = table_strides(structure, in_scope_free)
        sizes = np.ones(len(structure.scope_at) - 1, dtype=np.int64)
        first, arity = structure.scope_at[:-1], np.diff(structure.scope_at)
        cards = np.where(in_scope_free, structure.cards[structure.scopes], 1)
        for place in range(int(arity.max(initial=0))):
            longer = np.flatnonzero(arity > place)
            sizes[longer] *= cards[first[longer] + place]
        self._entries_at = offsets_from_lengths(sizes)
        factor = np.repeat(np.arange(len(sizes)), sizes)
        number = np.arange(self._entries_at[-1]) - self._entries_at[factor]
        self._entries = structure.table_at[factor]
        for place in range(int(arity.max(initial=0))):
            longer = np.flatnonzero(arity[factor] > place)
            scope = first[factor[longer]] + place
            self._entries[longer] += number[longer] // free_strides[scope] % cards[scope] * self._strides[scope]

    def _places(self, states: ArrayLike, graphs: ArrayLike | None) -> "_Places":
        selected = selected_graphs(self.structure, graphs)
        given = as_indices("states", states).reshape(-1)
        # Training repeats the same states: the observed labels, of all graphs or of some of them.
        name = (len(selected), int(selected[0]) if len(selected) else 0)
        known = self._known.get(name)
        if known is None or not (np.array_equal(known.selected, selected) and np.array_equal(known.states, given)):
            known = self._find_places(selected, given.copy())
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[name] = known
        return known

    def _find_places(self, selected: Indices, states: Indices) -> "_Places":
        structure = self.structure
        layout = Layout.of(structure, selected)
        variables, _ = positions(structure.variables_at, selected)
        fixed = self.fixed[variables]
        self._check_states(variables, fixed, states)
        graph_of_variable = np.repeat(np.arange(len(selected)), np.diff(layout.variables_at))
        shift = layout.unary_at[:-1] - structure.state_at[structure.variables_at[selected]]
        state_from = structure.state_at[variables] + shift[graph_of_variable]
        rest_from = np.cumsum(np.where(fixed, 0, structure.cards[variables]))
        rest_from -= np.where(fixed, 0, structure.cards[variables])

        factors, factors_at = positions(structure.factors_at, selected)
        graph_of_factor = np.repeat(np.arange(len(selected)), np.diff(factors_at))
        scopes, scopes_at = positions(structure.scope_at, factors)
        shift = layout.variables_at[:-1] - structure.variables_at[selected]
        in_scope = structure.scopes[scopes] + np.repeat(shift[graph_of_factor], np.diff(scopes_at))
        moved = np.where(fixed[in_scope], states[in_scope] * self._strides[scopes], 0)
        shift = layout.tables_at[:-1] - structure.table_at[structure.factors_at[selected]]
        base = shift[graph_of_factor] + np.diff(np.concatenate([[0], np.cumsum(moved)])[scopes_at])
        entries, entries_at = positions(self._entries_at, factors)
        entry_of = self._entries[entries] + np.repeat(base, np.diff(entries_at))
        n_free = self._n_free[factors]
        kind = np.repeat(n_free, np.diff(entries_at))
        receiver = in_scope[np.repeat(n_free == 1, np.diff(scopes_at)) & ~fixed[in_scope]]
        return _Places(
            selected=selected,
            states=states,
            layout=layout,
            free_variables=np.flatnonzero(~fixed),
            free_states=runs(state_from[~fixed], structure.cards[variables[~fixed]])[0],
            fixed_states=(state_from + states)[fixed],
            fixed_graphs=graph_of_variable[fixed],
            kept=entry_of[kind >= 2],
            singles=entry_of[kind == 1],
            single_targets=runs(rest_from[receiver], structure.cards[variables[receiver]])[0],
            constants=entry_of[kind == 0],
            constant_graphs=graph_of_factor[n_free == 0],
        )

    def _check_states(self, variables: Indices, fixed: NDArray[np.bool_], states: Indices) -> None:
        if len(states) != len(variables):
            expected = f"a sequence of {len(variables)} states (one per variable, fixed or not)"
            raise InputError("states", Description(f"{len(states)} states"), expected)
        wrong = fixed & ((states < 0) | (states >= self.structure.cards[variables]))
        for i in np.flatnonzero(wrong)[:1]:
            v = variables[i]
            expected = f"a state from 0 to {self.structure.cards[v] - 1} of variable {v}"
            raise InputError(f"states[{i}]", states[i], expected)


@dataclass(frozen=True)
class _Places:
    """Where the potentials of the selected graphs go, given the states of fixed variables.

    `free_states`, `kept` and `singles` are entries of the whole potentials in the order of the rest's; `singles` belong
    to factors that join the rest's unary entries `single_targets`.
    """

    selected: Indices
    states: Indices
    layout: Layout
    free_variables: Indices
    free_states: Indices
    fixed_states: Indices
    fixed_graphs: Indices
    kept: Indices
    singles: Indices
    single_targets: Indices
    constants: Indices
    constant_graphs: Indices
