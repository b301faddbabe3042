from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]
Vector = NDArray[np.float64]

def traverse(
    variables_at: Indices,
    factors_at: Indices,
    scope_at: Indices,
    scopes: Indices,
    near_at: Indices,
    near: Indices,
    factor_of: Indices,
    order: Indices,
    factor_order: Indices,
    forest: Flags,
) -> None:
    """Reach the variables of each graph breadth first; forest[g] is whether no variable was reached twice."""

def fold(wiring: Any, selected: Any, tables: Vector, unary: Vector, constants: Vector) -> None:
    """Add factors of one variable to `unary` and those of none to constants[k]."""

def run_pairwise(
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
    sums: bool,
    sweeps: Indices,
    residuals: Vector,
) -> None:
    """Sweep over each of the graphs `wanted` until its messages converge.

    Parameters
    ----------
    unary, tables : ndarray
        Potentials of the selected graphs, factors of one variable folded into `unary`.
    messages : ndarray
        Initial messages, overwritten by the last ones.
    weights : tuple of float
        ε_y and ε_h; `hidden` is all False if they are equal.
    limits : tuple
        The largest number of sweeps, the damping used when sweeps no longer help, and the tolerance.
    once : ndarray of bool, shape (G,)
        Graphs for which one sweep is exact at these temperatures.
    sums : bool
        Whether sums may be taken in the linear domain if the potentials allow.
    sweeps, residuals : ndarray of shape (k,)
        Number of sweeps, added to the earlier value, and largest change of a message in the last: of its
        logarithm, or in the linear domain of the message as a distribution.
    """
