"""Maxima of wide factor graphs with upper bounds: reweighted messages, then elimination of the states that remain."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latentstruct._native.ascent import ascend
from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Vector, members
from latentstruct.inference.elimination import Elimination, selected_graphs
from latentstruct.inference.propagation import Propagated, Propagation, Search, Work
from latentstruct.inference.pruning import Pruned
from latentstruct.inference.structure import FactorGraphs

ROUNDS, MOST_LOOKS = 5, 40
"""Rounds of messages between two decoded assignments, and the largest number of these."""

LEAST_GAIN = 0.05
"""Messages end when they reduce gaps by less than this fraction between two assignments."""

ROUNDING = 1e-11
"""Relative rounding error that upper bounds allow for."""

PROVED = 1e-9
"""Relative gap at which an assignment counts as the best."""

NOTHING = Temperature(0.0, 0.0)


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
        excess, below = np.zeros(len(uppers)), uppers > found.values
        excess[below] = uppers[below] - found.values[below]
        exact = excess <= PROVED * np.maximum(1.0, np.abs(found.values))
        updates = work.sweeps * owner.n_messages[work.selected.graphs]
        return Propagated(
            found.values,
            found.unary,
            found.tables,
            found.states,
            exact,
            exact.copy(),
            work.messages,
            work.sweeps,
            updates,
            excess=excess,
        )

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
            gap = found - np.maximum(search.values, -penalty - np.abs(found))
            gained, uppers[wanted] = uppers - found, np.minimum(uppers, found)[wanted]
            wanted = possible & wanted & self._is_open(search.values, found) & (gained > LEAST_GAIN * gap)
            wanted &= work.sweeps < 2 * ROUNDS * MOST_LOOKS
        margins = constants + ROUNDING * (np.where(possible, np.abs(uppers), 0.0) + penalty)
        reach += np.repeat(margins, np.diff(work.selected.unary_at))
        return np.where(possible, uppers, -np.inf), reach

    def _eliminate(
        self, structure: FactorGraphs, work: Work, search: Search, k: int, uppers: Vector, reach: Vector
    ) -> None:
        """Find the best assignment among the states that one better than the best so far can have, if feasible."""
        one, selected = structure.only(work.selected.graphs[k]), work.selected
        in_unary, in_tables, in_states = (
            slice(*at[k : k + 2]) for at in (selected.unary_at, selected.tables_at, selected.variables_at)
        )
        possible = reach[in_unary] > search.values[k]
        if not np.bincount(members(one.state_at)[0][possible], minlength=len(one.cards)).all():
            uppers[k] = search.values[k]
            return
        rest = Pruned(one, np.where(possible, work.unary[in_unary], -np.inf), work.tables[in_tables])
        elimination = Elimination(rest.rest, np.zeros(len(one.cards), dtype=np.bool_), self.max_entries)
        if not elimination.feasible[0]:
            return
        best = rest.spread(elimination.run(rest.unary, rest.tables, NOTHING))
        if best.values[0] > search.values[k]:
            search.values[k], search.states[in_states] = best.values[0], best.states
        uppers[k] = search.values[k]


def _finite(unary: Vector, tables: Vector) -> tuple[Vector, Vector, float]:
    """Return potentials in which what is impossible is worse than all that is possible, and how much worse."""
    if np.isfinite(unary).all() and np.isfinite(tables).all():
        return unary, tables, 0.0
    penalty = 1.0 + sum(2.0 * float(np.abs(part[np.isfinite(part)]).sum()) for part in (unary, tables))
    return np.maximum(unary, -penalty), np.maximum(tables, -penalty), penalty
