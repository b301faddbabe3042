"""A model of the plus side by total planes, with steps for any regularizer that has a proximal map."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.regularizers import BaseRegularizer
from latentstruct.core.types import Array, Vector
from latentstruct.persistence.state_trees import Counts, Numbers, PerExample, Range
from latentstruct.planes.plane import Plane

# Iterations without dual mass after which a plane is dropped.
IDLE = 20
INNER_STEPS = 1000
# Inner steps between two checks of the gap.
SPAN = 10
# Largest squared slope of planes that are treated as constant.
FLAT = 1e-200


def project_to_simplex(point: Vector) -> Vector:
    """Return the nearest point whose entries are ≥ 0 and sum to 1."""
    descending = np.sort(point)[::-1]
    # A shift of all entries changes nothing, but avoids rounding errors with large entries.
    highest = descending[0]
    descending = descending - highest
    excess = (descending.cumsum() - 1.0) / np.arange(1, len(point) + 1)
    last = np.count_nonzero(descending > excess) - 1
    return np.maximum(point - highest - excess[last], 0.0)


@dataclass
class TotalPlanes:
    """Total planes (g_k, b_k) of the plus side, valid for all w, for examples with the weights c_i."""

    most: Annotated[int, Range(1)]  # largest number of planes
    weights: PerExample
    slopes: Annotated[NDArray[np.float64], Array(("k", "d"))]
    offsets: Numbers = field(default_factory=lambda: np.zeros(0))
    idle: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # steps without dual mass
    below: bool = True  # whether all planes are known to be below the plus side

    @property
    def size(self) -> int:
        """Number of planes."""
        return len(self.offsets)

    def rescale(self, weights: Vector) -> bool:
        """Rescale to weights c_i that are a multiple of the earlier ones; return whether they are."""
        factor = weights.sum() / self.weights.sum()
        if len(weights) != len(self.weights) or not np.allclose(weights, factor * self.weights, rtol=1e-12, atol=0.0):
            return False
        self.slopes *= factor
        self.offsets *= factor
        self.weights = weights
        return True


@dataclass
class PlaneModel(TotalPlanes):
    """Total planes of the plus side, and multipliers α of the last proximal step.

    The step minimizes Ω(w) + max_k (b_k + g_k·w) − l·w + ρ/2‖w − v‖². For α in the simplex its solution is
    w(α) = prox_{Ω/ρ}(v − (Σ α_k g_k − l)/ρ); the α that maximizes the dual is found by accelerated projected ascent,
    whose gradient is b + G w(α). So any Ω with a proximal map is supported.
    """

    alpha: Numbers = field(default_factory=lambda: np.zeros(0))

    def add(self, plane: Plane) -> None:
        """Add a plane. Long unused planes are dropped, and light ones are merged if there are too many."""
        self.below = self.below and plane.below
        self._drop()
        self.alpha, self.idle = np.append(self.alpha, float(self.size == 0)), np.append(self.idle, 0)
        self.slopes, self.offsets = np.vstack([self.slopes, plane.slope]), np.append(self.offsets, plane.offset)

    def _drop(self) -> None:
        kept = self.idle <= IDLE
        if kept.sum() >= self.most:
            # The heaviest half is kept, and the combination of all, on which the last step is based.
            kept = np.zeros(len(self.alpha), dtype=bool)
            kept[np.argsort(-self.alpha, kind="stable")[: self.most // 2]] = True
        if kept.all():
            return
        slopes, offsets, alpha, idle = self.slopes[kept], self.offsets[kept], self.alpha[kept], self.idle[kept]
        lost = float(self.alpha[~kept].sum())
        if lost > 0:
            combined = self.combination()
            slopes, offsets = np.vstack([slopes, combined.slope]), np.append(offsets, combined.offset)
            alpha, idle = np.append(alpha, lost), np.append(idle, 0)
        self.slopes, self.offsets, self.alpha, self.idle = slopes, offsets, alpha, idle

    def combination(self) -> Plane:
        """Return Σ α_k (b_k + g_k·w) as one plane."""
        return Plane(self.alpha @ self.slopes, float(self.alpha @ self.offsets))

    def height(self, w: Vector) -> float:
        """Return max_k (b_k + g_k·w)."""
        return float((self.offsets + self.slopes @ w).max())

    def step(
        self, regularizer: BaseRegularizer, linear: Vector, center: Vector, proximity: float, gap: float
    ) -> Vector:
        """Return the minimizer of the model near the center, with its value known to this gap."""
        slopes, offsets = self.slopes, self.offsets
        pull = center + linear / proximity

        def minimizer(alpha: Vector) -> Vector:
            return regularizer.prox(pull - (alpha @ slopes) / proximity, 1.0 / proximity)

        bend = float(np.linalg.eigvalsh(slopes @ slopes.T)[-1])
        if bend < FLAT:
            # Constant planes: the highest is the model everywhere.
            alpha = np.zeros(len(offsets))
            alpha[offsets.argmax()] = 1.0
            return self._settle(alpha, minimizer)
        length = proximity / bend
        alpha, ahead, momentum = self.alpha, self.alpha, 1.0
        w = minimizer(alpha)
        for number in range(INNER_STEPS):
            heights = offsets + slopes @ minimizer(ahead)
            new = project_to_simplex(ahead + length * heights)
            grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            if float(heights @ (new - alpha)) < 0:
                # The momentum points uphill: restart it.
                ahead, momentum = new, 1.0
            else:
                ahead, momentum = new + (momentum - 1.0) / grown * (new - alpha), grown
            alpha = new
            if number % SPAN == SPAN - 1:
                w = minimizer(alpha)
                heights = offsets + slopes @ w
                if heights.max() - float(alpha @ heights) <= gap:
                    break
        return self._settle(alpha, minimizer)

    def _settle(self, alpha: Vector, minimizer: Callable[[Vector], Vector]) -> Vector:
        """Keep the multipliers, and return their weights."""
        self.alpha = alpha
        self.idle = np.where(alpha > 0, 0, self.idle + 1)
        return minimizer(alpha)
