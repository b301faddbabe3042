"""Inference for users of factor graphs: exact if the width allows, otherwise by belief propagation."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, offsets_from_lengths
from latentstruct.inference.elimination import Elimination, selected_graphs
from latentstruct.inference.propagation import Counting, Propagated, Propagation, run_split
from latentstruct.inference.structure import FactorGraphs


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
    ) -> None:
        self.structure = structure
        self.elimination = Elimination(structure, hidden, max_entries)
        self.exact = self.elimination.feasible
        self.propagation: Propagation | None = None
        self.message_at: Indices = np.zeros(structure.n_graphs + 1, dtype=np.int64)
        if not self.exact.all():
            self.propagation = Propagation(
                structure, hidden, max_iterations, damping, tol, anneal, max_entries, counting
            )
            lengths = np.diff(self.propagation.message_at)
            self.message_at = offsets_from_lengths(np.where(self.exact, 0, lengths))

    def run(
        self,
        unary: ArrayLike,
        tables: ArrayLike,
        temperature: Temperature,
        graphs: ArrayLike | None = None,
        warm: ArrayLike | None = None,
    ) -> Propagated:
        """Return values, derivatives and decoded states of the selected graphs (None: all), and messages.

        Parameters
        ----------
        unary, tables, temperature, graphs
            As for `Elimination.run`.
        warm : array-like
            `messages` of an earlier run over the same graphs, to start from. Messages of graph g lie at message_at[g] …
            message_at[g + 1] if all graphs were selected. If those of a graph are all 0, it has none.
        """
        selected = selected_graphs(self.structure, graphs)
        return run_split(self.elimination, self.propagation, unary, tables, temperature, selected, warm)

    def describe(self, graph: int = 0) -> str:
        """Return a description of how one graph is pooled."""
        (g,) = selected_graphs(self.structure, [graph])
        if self.exact[g]:
            return f"exact, width {self.elimination.widths[g]}"
        return f"belief propagation: {self.elimination.excess(g).found}"
