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

def read_out(
    wiring: Any,
    selected: Any,
    unary: Vector,
    tables: Vector,
    messages: Vector,
    hidden: Flags,
    weights: tuple[float, float],
    values: Vector,
    marginals: Vector,
    table_marginals: Vector,
) -> None:
    """Beliefs of all variables and factors, and the Bethe value, at positive temperatures.

    With b_v = unary + Σ m, n_{v→f} = b_v − m_{f→v}/ρ_f and t_f = θ_f/ρ_f + Σ n, the value is
    Σ_f ρ_f·smax_{ε_y} smax_{ε_h} t_f − Σ_v (Σ_f ρ_f − 1)·smax_{ε_v} b_v: at a fixed point the Bethe form (ρ = 1) of
    ⟨θ, τ⟩ + ε_h·H(h | y) + ε_y·H(y), and stationary in the messages, so small errors in these have little effect.
    Values hold the constants on entry; a graph without a possible state gets −inf and beliefs 0.
    """

def most_probable(wiring: Any, selected: Any, marginals: Vector, states: Indices) -> None:
    """Write the argmax of each variable's marginals to `states`, the lowest state for ties."""

def run_factors(
    wiring: Any,
    selected: Any,
    wanted: Flags,
    unary: Vector,
    tables: Vector,
    messages: Vector,
    hidden: Flags,
    weights: tuple[float, float],
    limits: tuple[int, float, float],
    once: Flags,
    sweeps: Indices,
    residuals: Vector,
) -> None:
    """Sweep over each of the graphs `wanted` until its messages converge; arguments as in `run_pairwise`."""
