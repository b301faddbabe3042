from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

def best_by_loss(forests: Any, rows: Indices, scores: Vector, level_at: Indices, values: Vector, /) -> None:
    """Values = the best scores of the derivations of forests with the losses 0, 1, …; −∞ if there is none.

    Scores are those of the edges of the chosen forests, one forest after the other.
    """

def trace_losses(forests: Any, rows: Indices, scores: Vector, losses: Indices, used: Vector, /) -> None:
    """Write 1 for each edge of the best derivation with the given loss, 0 for the others."""
