"""Outputs by their loss, for slack rescaling."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.candidates import pool_candidates
from latentstruct.core.types import Indices, Vector
from latentstruct.planes.plane import Slopes

FINEST_STEP = 10
"""Largest multiple of the unit that the smallest cost may be."""


@dataclass(frozen=True)
class LossLevels:
    """Outputs of k examples, among them the best one of each loss that can maximize Δ·(1 + s − s_i)."""

    offsets: Indices  # (k + 1,) the outputs of example i are offsets[i] … offsets[i + 1] of M in all, at least one each
    # (M,) their losses and scores; the score −∞ means that no output has this loss.
    losses: Vector
    scores: Vector
    # Returns the features of one output per example, given their indices among all M.
    slopes: Callable[[Indices], Slopes]

    def best(self, true_scores: Vector) -> tuple[Vector, Slopes, Vector]:
        """Return scores, features and losses of the outputs that maximize Δ·(1 + s − s_i)."""
        gains = 1.0 + self.scores - np.repeat(true_scores, np.diff(self.offsets))
        # A loss of 0 times a score of −∞ is NaN.
        products = np.where(self.scores > -np.inf, self.losses, 1.0) * gains
        places = highest(products, self.offsets)[1]
        return self.scores[places], self.slopes(places), self.losses[places]


def highest(scores: Vector, offsets: Indices) -> tuple[Vector, Indices]:
    """Return the highest score of each item, and its index; −1 if all are −∞."""
    n = len(offsets) - 1
    values, shares, places = np.empty(n), np.empty(len(scores)), np.full(n, -1)
    pool_candidates(scores, offsets, np.arange(n + 1), 0.0, 0.0, values, shares)
    found = np.flatnonzero(shares)
    places[np.searchsorted(offsets, found, side="right") - 1] = found
    return values, places


def loss_steps(costs: NDArray[np.float64]) -> tuple[float, NDArray[np.int64]] | None:
    """Return the unit that all costs are multiples of, and the multiples; None if there is no such unit."""
    smallest = costs[costs > 0].min(initial=np.inf)
    if smallest == np.inf:
        return 1.0, np.zeros(costs.shape, dtype=np.int64)
    for divisor in range(1, FINEST_STEP + 1):
        unit = float(smallest / divisor)
        steps = np.rint(costs / unit)
        if np.allclose(steps * unit, costs, rtol=1e-12, atol=0.0):
            return unit, steps.astype(np.int64)
    return None
