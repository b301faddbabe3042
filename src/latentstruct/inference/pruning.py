"""Factor graphs without states that are impossible, so that hard zeros make them narrower."""

from dataclasses import replace

import numpy as np

from latentstruct.core.types import Vector, members, offsets_from_lengths
from latentstruct.inference.structure import Beliefs, FactorGraphs, table_states


class Pruned:
    """One graph without impossible states, whose assignments all have score −inf, as far as single factors show it.

    A state is impossible if its unary potential is −inf, or if a factor is −inf at all entries with this state whose
    other states are possible.

    Parameters
    ----------
    structure : FactorGraphs
        One graph.
    unary, tables : ndarray
        Its potentials.

    Attributes
    ----------
    rest : FactorGraphs
        The graph with the possible states only, and the same variables and factors. If a variable has no possible
        state, all states are kept.
    unary, tables : ndarray
        Its potentials.

    See Also
    --------
    BoundedInference : Bounds for graphs that are still too wide for elimination.
    """

    def __init__(self, structure: FactorGraphs, unary: Vector, tables: Vector) -> None:
        state_at, cards = structure.state_at, structure.cards[structure.scopes]
        # A place is a state of a variable in the scope of a factor.
        place_at = offsets_from_lengths(cards)
        slot, state = members(place_at)
        state_of = state_at[structure.scopes[slot]] + state
        around = [(entries, place_at[slots] + states) for entries, slots, states in table_states(structure)]
        states, entries = np.isfinite(unary), np.isfinite(tables)
        n_states = -1
        while n_states != int(states.sum()):
            n_states = int(states.sum())
            supported = np.zeros(len(state_of), dtype=np.bool_)
            for at, place in around:
                entries[at] &= states[state_of[place]]
            for at, place in around:
                supported[place[entries[at]]] = True
            states[state_of[~supported]] = False
        # Impossible entries of possible states stay: tables are rectangular.
        entries[:] = True
        for at, place in around:
            entries[at] &= states[state_of[place]]
        owner = members(state_at)[0]
        counts = np.bincount(owner[states], minlength=len(structure.cards))
        if not counts.all():
            # Nothing is possible: inference has to find this itself.
            states[:], entries[:], counts = True, True, structure.cards
        self._states, self._entries, self._first_state = np.flatnonzero(states), np.flatnonzero(entries), state_at[:-1]
        self._sizes = len(unary), len(tables)
        self.rest = FactorGraphs(
            counts, structure.scope_at, structure.scopes, structure.variables_at, structure.factors_at
        )
        self.unary, self.tables = unary[states], tables[entries]

    def spread(self, beliefs: Beliefs) -> Beliefs:
        """Return the beliefs of the whole graph from those of `rest`."""
        unary, tables = np.zeros(self._sizes[0]), np.zeros(self._sizes[1])
        unary[self._states], tables[self._entries] = beliefs.unary, beliefs.tables
        states = self._states[self.rest.state_at[:-1] + beliefs.states] - self._first_state
        if beliefs.values[0] == -np.inf:
            states[:] = 0
        return replace(beliefs, unary=unary, tables=tables, states=states)
