from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]
Vector = NDArray[np.float64]

def decode(
    wiring: Any,
    selected: Any,
    wanted: Flags,
    unary: Vector,
    tables: Vector,
    messages: Vector,
    hidden: Flags,
    eps_h: float,
    states: Indices,
) -> None:
    """Choose the outputs of the graphs `wanted` one after the other, each optimal given the earlier ones.

    An output takes the argmax of its unary term plus messages, where a factor with chosen variables sends the rest
    of it (maximized over other outputs, pooled at ε_h over hidden ones). On forests where max-product is exact this
    is exact even with ties. `states` of other graphs and of hidden variables are not changed.
    """

def climb(
    wiring: Any,
    selected: Any,
    wanted: Flags,
    unary: Vector,
    tables: Vector,
    states: Indices,
    max_sweeps: int,
) -> None:
    """Improve the assignments of the graphs `wanted`, one variable at a time, until no change improves it."""

def score(wiring: Any, selected: Any, unary: Vector, tables: Vector, states: Indices, values: Vector) -> None:
    """values[k] += the score of graph k's assignment, where `unary` has the factors of one variable folded in."""

def indicate(
    wiring: Any, selected: Any, states: Indices, values: Vector, marginals: Vector, table_marginals: Vector
) -> None:
    """Write the indicators of the assignments, none if the value is −inf; both outputs are zero on entry."""
