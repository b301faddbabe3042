"""Inference for users of factor graphs: exact if the width allows, otherwise by belief propagation."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, offsets_from_lengths
from latentstruct.inference.ascent import Ascent, is_proved
from latentstruct.inference.elimination import Elimination, Layout, selected_graphs
from latentstruct.inference.propagation import Counting, Propagated, Propagation, run_split
from latentstruct.inference.structure import FactorGraphs, assignment_entries
from latentstruct.inference.toulbar2 import maximize

Wide = Literal["propagation", "bounds", "toulbar2"]

BOUND_TOL = 1e-5
"""Relative gap of bounded maxima."""


class Inference:
    """Pooling of factor graphs at two temperatures, each graph by the best available method.

    The value of a graph with score s is smax_{ε_y, y} smax_{ε_h, h} s(y, h). Graphs whose elimination needs no table of
    more than `max_entries` entries, and not too many together, are pooled exactly at any temperatures, the others by
    belief propagation.

    Parameters
    ----------
    structure : FactorGraphs
        The graphs.
    hidden : array-like of bool, shape (V,)
        Which variables are pooled first, at ε_h; the others are pooled after them at ε_y.
    max_entries : int
        Maximum number of entries of a table. All together may have 64 times as many, and 2**26 in any case.
    max_iterations, damping, tol, anneal, counting :
        See `Propagation`.
    wide : {"propagation", "bounds", "toulbar2"}
        How maxima of graphs beyond the limit are found where all temperatures are 0. "bounds" also computes upper
        bounds, see `Ascent`; "toulbar2" searches by branch and bound (extra ``toulbar2``).

    Attributes
    ----------
    exact : ndarray of bool, shape (G,)
        Which graphs are pooled by elimination.
    message_at : ndarray of shape (G + 1,)
        Start of each graph's messages among those of all graphs; exact graphs have none.
    """

    def __init__(
        self,
        structure: FactorGraphs,
        hidden: ArrayLike,
        max_entries: int = 2**20,
        max_iterations: int = 200,
        damping: float = 0.5,
        tol: float = 1e-7,
        anneal: Sequence[float] = (1.0, 0.3, 0.1),
        counting: Counting = "bethe",
        wide: Wide = "propagation",
    ) -> None:
        self.structure, self.wide = structure, wide
        self.elimination = Elimination(structure, hidden, max_entries)
        self.exact = self.elimination.feasible
        self.propagation: Propagation | None = None
        self.ascent: Ascent | None = None
        self.message_at: Indices = np.zeros(structure.n_graphs + 1, dtype=np.int64)
        if not self.exact.all():
            self.propagation = Propagation(
                structure, hidden, max_iterations, damping, tol, anneal, max_entries, counting
            )
            lengths = np.diff(self.propagation.message_at)
            self.message_at = offsets_from_lengths(np.where(self.exact, 0, lengths))
            if wide == "bounds":
                self.ascent = Ascent(self.propagation, BOUND_TOL, max_entries)

    def run(
        self,
        unary: ArrayLike,
        tables: ArrayLike,
        temperature: Temperature,
        graphs: ArrayLike | None = None,
        warm: ArrayLike | None = None,
    ) -> Propagated:
        """Return values, derivatives and decoded states of the selected graphs (None: all), and messages.

        Arguments are those of `Elimination.run`; `warm` are `messages` of an earlier run over the same graphs to start
        from. Those of graph g lie at message_at[g] … message_at[g + 1] if all graphs were selected; if all are 0, it
        has none.
        """
        selected = selected_graphs(self.structure, graphs)
        method = self.ascent if self.ascends(temperature) else self.propagation
        found = run_split(self.elimination, method, unary, tables, temperature, selected, warm)
        if self.propagation is not None and self.wide == "toulbar2" and self.bounds_maxima(temperature):
            self._search(found, unary, tables, selected)
        return found

    def bounds_maxima(self, temperature: Temperature) -> bool:
        """Return whether maxima of wide graphs have upper bounds at these temperatures."""
        hidden = self.elimination.hidden
        return (
            self.wide != "propagation"
            and not (temperature.output > 0 and not hidden.all())
            and not (temperature.latent > 0 and hidden.any())
        )

    def _search(self, found: Propagated, unary: ArrayLike, tables: ArrayLike, selected: Indices) -> None:
        """Replace the assignments of wide graphs by those that toulbar2 finds."""
        layout = Layout.of(self.structure, selected)
        unary, tables = layout.check(unary, tables)
        found.excess = np.zeros(len(selected))
        for k in np.flatnonzero(~self.exact[selected]).tolist():
            in_unary, in_tables, in_states = (
                slice(*at[k : k + 2]) for at in (layout.unary_at, layout.tables_at, layout.variables_at)
            )
            one = self.structure.only(selected[k])
            bounds = maximize(one, unary[in_unary], tables[in_tables])
            if bounds.lower > found.values[k]:
                found.values[k], found.states[in_states] = bounds.lower, bounds.states
                chosen = assignment_entries(one, bounds.states)
                for beliefs, entries in zip((found.unary[in_unary], found.tables[in_tables]), chosen, strict=True):
                    beliefs[:] = 0.0
                    beliefs[entries] = 1.0
            # Belief propagation may have found the better assignment.
            value = float(found.values[k])
            found.excess[k] = 0.0 if bounds.upper <= value else bounds.upper - value
            found.exact[k] = is_proved(value, found.excess[k])

    def ascends(self, temperature: Temperature) -> bool:
        """Return whether messages are those of `Ascent`, for which those of any other potentials are a good start."""
        return self.ascent is not None and self.bounds_maxima(temperature)

    def describe(self, graph: int = 0) -> str:
        """Return a description of how one graph is pooled."""
        (g,) = selected_graphs(self.structure, [graph])
        if self.exact[g]:
            return f"exact, width {self.elimination.widths[g]}"
        return f"belief propagation: {self.elimination.excess(g).found}"
