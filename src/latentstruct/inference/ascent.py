"""Maxima of wide factor graphs with upper bounds: reweighted messages, then elimination of the states that remain."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latentstruct._native.ascent import ascend
from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, Vector
from latentstruct.inference.elimination import Elimination, selected_graphs
from latentstruct.inference.propagation import Propagated, Propagation, Search, Work
from latentstruct.inference.pruning import Pruned
from latentstruct.inference.structure import Beliefs, FactorGraphs

ROUNDS, MOST_LOOKS = 5, 40
"""Rounds of messages between two decoded assignments, and the largest number of these."""

LEAST_GAIN = 0.05
"""Messages end when they reduce gaps by less than this fraction between two assignments."""

FIRST_STEP = 1 / 16, 1e-3
"""First distance from the upper bound of a value above which assignments are searched: of the gap, or of the bound."""

NO_VALUE = 0.01
"""Share of the bound that stands for the gap while no possible assignment is known."""

ROUNDING = 1e-11
"""Relative rounding error that upper bounds allow for."""

PROVED = 1e-9
"""Relative gap at which an assignment counts as the best."""

NOTHING = Temperature(0.0, 0.0)


def is_proved(values: ArrayLike, excess: ArrayLike, tol: float = PROVED) -> NDArray[np.bool_]:
    """Return whether values are maxima that are known to be exact; −inf is one only if nothing can be above it."""
    known, above = np.asarray(values), np.asarray(excess)
    size = np.abs(np.maximum(known, -np.finfo(float).max))
    return np.asarray(np.where(np.isfinite(known), above <= tol * np.maximum(1.0, size), above == 0.0))


class Ascent:
    """Best assignments of wide graphs, and upper bounds of their maxima.

    Sequential reweighted messages (TRW-S, and SRMP for larger factors) approximately solve the dual of the linear
    relaxation. Then all states are excluded that no better assignment can have. If elimination of the rest is feasible,
    the best assignment is known.

    Parameters
    ----------
    propagation : Propagation
        Propagation over the graphs. Messages have the same layout.
    max_entries : int, default=2**16
        Largest table for elimination of the rest.
    tol : float, default=1e-9
        Relative gap at which the search ends.

    References
    ----------
    V. Kolmogorov, Convergent tree-reweighted message passing for energy minimization, PAMI 28, 2006.

    V. Kolmogorov, A new look at reweighted message passing, PAMI 37, 2015.
    """

    def __init__(self, propagation: Propagation, tol: float = PROVED, max_entries: int = 2**16) -> None:
        self.propagation, self.max_entries, self.tol = propagation, max_entries, tol

    def run(
        self,
        unary: ArrayLike,
        tables: ArrayLike,
        temperature: Temperature = NOTHING,
        graphs: ArrayLike | None = None,
        messages: ArrayLike | None = None,
    ) -> Propagated:
        """Return values, assignments, bounds and messages of the selected graphs (None: all).

        Arguments are those of `Propagation.run`, at temperatures of 0.
        """
        owner = self.propagation
        work = owner.begin(unary, tables, selected_graphs(owner.structure, graphs), messages)
        search = Search(owner, work, NOTHING)
        uppers, reach = self._send(owner, work, search)
        for k in np.flatnonzero(self._is_open(search.values, uppers)):
            self._eliminate(owner.structure, work, search, int(k), uppers, reach)
        found = search.result()
        found.excess, below = np.zeros(len(uppers)), uppers > found.values
        found.excess[below] = uppers[below] - found.values[below]
        found.exact = is_proved(found.values, found.excess)
        found.converged = found.exact.copy()
        updates = work.sweeps * owner.n_messages[work.selected.graphs]
        return Propagated(**vars(found), messages=work.messages, sweeps=work.sweeps, updates=updates)

    def _is_open(self, values: Vector, uppers: Vector) -> NDArray[np.bool_]:
        """Return which gaps are too large."""
        return uppers > values + self.tol * np.maximum(1.0, np.abs(np.maximum(values, -1e300)))

    def _send(self, owner: Propagation, work: Work, search: Search) -> tuple[Vector, Vector]:
        """Send messages until gaps are small or no longer fall; return bounds of all assignments, and by state."""
        unary, tables, penalty = _finite(work.folded, work.tables)
        uppers, reach = np.full(len(search.values), np.inf), np.full(len(unary), np.inf)
        possible = np.isfinite(work.constants)
        constants, wanted = np.where(possible, work.constants, 0.0), possible
        while wanted.any():
            found = uppers - constants
            ascend(owner.wiring, work.selected, wanted, unary, tables, work.messages, ROUNDS, found, reach)
            search.look(wanted)
            work.sweeps[wanted] += 2 * ROUNDS
            if penalty > 0.0:
                # The best assignment of finite potentials uses what is impossible: all others are worse.
                possible &= found >= -0.5 * penalty
            found += constants + ROUNDING * (np.abs(found) + penalty)
            # Without any assignment, the size of the bound stands for the gap.
            gap = np.where(np.isfinite(search.values), found - search.values, NO_VALUE * np.abs(found))
            gained, uppers[wanted] = uppers - found, np.minimum(uppers, found)[wanted]
            wanted = possible & wanted & self._is_open(search.values, found) & (gained > LEAST_GAIN * gap)
            wanted &= work.sweeps < 2 * ROUNDS * MOST_LOOKS
        margins = constants + ROUNDING * (np.where(possible, np.abs(uppers), 0.0) + penalty)
        reach += np.repeat(margins, np.diff(work.selected.unary_at))
        return np.where(possible, uppers, -np.inf), reach

    def _eliminate(
        self, structure: FactorGraphs, work: Work, search: Search, k: int, uppers: Vector, reach: Vector
    ) -> None:
        """Search one graph by elimination."""
        selected = work.selected
        in_unary, in_tables, in_states = (
            slice(*at[k : k + 2]) for at in (selected.unary_at, selected.tables_at, selected.variables_at)
        )
        one, value, states = structure.only(selected.graphs[k]), float(search.values[k]), search.states[in_states]
        rest = Rest(one, work.unary[in_unary], work.tables[in_tables], self.max_entries, self.tol)
        found = rest.search(reach[in_unary], value, states, float(uppers[k]))
        search.values[k], search.states[in_states], uppers[k] = found


@dataclass(frozen=True)
class Rest:
    """One graph, of which elimination searches the states that bounds do not exclude.

    Attributes
    ----------
    structure : FactorGraphs
        The graph.
    unary, tables : ndarray
        Its potentials.
    max_entries : int
        Largest table.
    tol : float
        Relative gap at which the search ends.
    """

    structure: FactorGraphs
    unary: Vector
    tables: Vector
    max_entries: int
    tol: float

    def search(self, reach: Vector, value: float, states: Indices, upper: float) -> tuple[float, Indices, float]:
        """Return a better assignment than the given one, if one is found, and a lower upper bound of the value.

        All assignments above some value are searched: above the one given if elimination is feasible, or else higher.
        If there is none, the value is an upper bound, and a lower one is next.

        Parameters
        ----------
        reach : ndarray
            An upper bound of the values of all assignments with each state.
        value, states : float and ndarray of int
            The best assignment so far.
        upper : float
            An upper bound of all values.
        """
        gap = upper - value
        step = FIRST_STEP[0] * gap if np.isfinite(gap) else FIRST_STEP[1] * max(1.0, abs(upper))
        least, wide = value, False
        while True:
            found = self._best_above(reach, least)
            if found is None and wide:
                return value, states, upper
            if found is None:
                wide = True
            else:
                if found.values[0] > value:
                    value, states = float(found.values[0]), found.states
                upper = max(value, min(upper, least))
                if upper == value or is_proved(value, upper - value, self.tol):
                    return value, states, upper
                step *= 2.0
            least = max(upper - step, value)

    def _best_above(self, reach: Vector, value: float) -> Beliefs | None:
        """Return the best assignment among the states whose reach is above a value, None if elimination is too wide."""
        structure, possible = self.structure, reach > value
        if not np.logical_or.reduceat(possible, structure.state_at[:-1]).all():
            nowhere = np.zeros(len(self.unary)), np.zeros(len(self.tables)), np.zeros(len(structure.cards), np.int64)
            sure = np.ones(1, dtype=np.bool_)
            return Beliefs(np.full(1, -np.inf), *nowhere, sure, sure)
        rest = Pruned(structure, np.where(possible, self.unary, -np.inf), self.tables)
        elimination = Elimination(rest.rest, np.zeros(len(structure.cards), dtype=np.bool_), self.max_entries)
        if not elimination.feasible[0]:
            return None
        return rest.spread(elimination.run(rest.unary, rest.tables, NOTHING))


def _finite(unary: Vector, tables: Vector) -> tuple[Vector, Vector, float]:
    """Return potentials in which what is impossible is worse than all that is possible, and how much worse."""
    if np.isfinite(unary).all() and np.isfinite(tables).all():
        return unary, tables, 0.0
    penalty = 1.0 + sum(2.0 * float(np.abs(part[np.isfinite(part)]).sum()) for part in (unary, tables))
    return np.maximum(unary, -penalty), np.maximum(tables, -penalty), penalty
