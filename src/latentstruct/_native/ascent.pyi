from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Vector = NDArray[np.float64]

def ascend(
    wiring: Any,
    selected: Any,
    wanted: Flags,
    unary: Vector,
    tables: Vector,
    messages: Vector,
    rounds: int,
    uppers: Vector,
    reach: Vector,
) -> None:
    """Reduce upper bounds of the maxima of the graphs `wanted` by passes forth and back over their variables.

    Parameters
    ----------
    unary, tables : ndarray
        Finite potentials of the selected graphs, factors of one variable folded into `unary`, none of no variable.
    messages : ndarray
        Any finite messages, overwritten by better ones.
    uppers : ndarray of shape (k,)
        The bound of each graph, not below its maximum.
    reach : ndarray of the shape of `unary`
        For each state of a variable an upper bound of the scores of all assignments with it.
    """
