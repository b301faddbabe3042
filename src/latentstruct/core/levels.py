"""Outputs by their loss, for slack rescaling."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.candidates import pool_candidates, pool_renyi
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


def pool_groups(
    scores: Vector,
    groups: Indices,
    ends: Indices,
    output: float,
    latent: float,
    order: float | None = None,
    heights: Vector | None = None,
) -> tuple[Vector, Vector]:
    """Return the pooled values (k,) of groups of candidates, and the share of each candidate.

    Candidates groups[g] … groups[g + 1] are pooled at ε_h, or by Rényi entropy of an order; then the groups ends[i] …
    ends[i + 1], at ε_y. `heights` are added to the values of groups with an order, 0 by default.
    """
    values, shares = np.empty(len(ends) - 1), np.empty(len(scores))
    if order is None:
        pool_candidates(scores, groups, ends, output, latent, values, shares)
    else:
        heights = np.zeros(len(groups) - 1) if heights is None else heights
        pool_renyi(scores, heights, groups, ends, output, order, values, shares)
    return values, shares


def highest(scores: Vector, offsets: Indices) -> tuple[Vector, Indices]:
    """Return the highest score of each item, and its index; −1 if all are −∞."""
    values, shares = pool_groups(scores, offsets, np.arange(len(offsets)), 0.0, 0.0)
    places = np.full(len(values), -1)
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
