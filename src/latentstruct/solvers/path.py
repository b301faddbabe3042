"""Minimizers of ½‖w‖² + C·R(w) for all C of an interval, with a bound of their gap at every C.

Let w_k have the risk R_k at C_k, and let b_k + g_k·w ≤ R(w) for all w be the plane that bounds the minimum there. For C
between two neighbors, C = (1 − t)C_1 + t C_2, the weights w = (1 − t)w_1 + t w_2 have an objective (R is convex) of
at most U = ½‖w‖² + C·[(1 − t)R_1 + t R_2]. The mean of the planes with masses (1 − t)C_1 and t C_2 bounds the minimum
from below by L = (1 − t)C_1 b_1 + t C_2 b_2 − ½‖(1 − t)C_1 g_1 + t C_2 g_2‖². Both are quadratic in t, so that the
largest value of U − L − tol·U can be computed exactly.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Result
from latentstruct.core.types import Vector
from latentstruct.planes.plane import Plane
from latentstruct.planes.store import Masses, PlaneStore
from latentstruct.solvers.bundle import PlaneBundle

# Ratio of the first two values of C, and the largest ratio of neighbors.
FIRST_RATIO, LARGEST_RATIO = 1.2, 10.0
# Neighbors closer than this are not separated further: the solver did not reach its tolerance.
SMALLEST_RATIO = 1.0 + 1e-4
# Fractions of the tolerance for values of C beyond the last, for those between two, and for planning steps. Between two
# the interpolated weights are good, and few iterations prove it; much better ones take as many as a value beyond.
SOLVED, BETWEEN, PLANNED = 0.6, 0.92, 0.8


@dataclass(frozen=True)
class PathPoint:
    """The minimizer at one C."""

    C: float
    w: Vector  # (d,)
    risk: float  # R(w)
    bound: Plane  # a plane below C·R whose slope and offset give the lower bound `offset` − ½‖`slope`‖²
    result: Result
    masses: Masses | None = None  # dual variables of planes of single examples, if the solver has them


class Products(NamedTuple):
    """The products of two vectors u and v."""

    first: float  # u·u
    mixed: float  # u·v
    second: float  # v·v

    @classmethod
    def of(cls, u: Vector, v: Vector) -> "Products":
        """Compute them."""
        return cls(float(u @ u), float(u @ v), float(v @ v))

    def square(self, t: float) -> float:
        """Return ‖(1 − t)u + tv‖²."""
        return (1.0 - t) ** 2 * self.first + 2.0 * t * (1.0 - t) * self.mixed + t * t * self.second


@dataclass(frozen=True)
class Segment:
    """The values of C between two neighbors. Of their planes it only keeps the offsets, and products of the slopes."""

    Cs: tuple[float, float]
    ws: tuple[Vector, Vector]
    risks: tuple[float, float]
    offsets: tuple[float, float]
    sizes: Products
    slopes: Products

    @classmethod
    def between(cls, low: PathPoint, high: PathPoint) -> "Segment":
        """Return the segment between two minimizers."""
        a, b = low.bound, high.bound
        slopes, offsets = Products.of(a.slope, b.slope), (a.offset, b.offset)
        sizes = Products.of(low.w, high.w)
        return cls((low.C, high.C), (low.w, high.w), (low.risk, high.risk), offsets, sizes, slopes)

    def at(self, C: float) -> tuple[Vector, float, float]:
        """Return the interpolated weights at C, an upper bound of their objective, and a lower bound of the minimum."""
        low, high = self.Cs
        t = (C - low) / (high - low)
        return _between(*self.ws, t), *self._bounds(t)

    def _bounds(self, t: float) -> tuple[float, float]:
        objective = 0.5 * self.sizes.square(t) + _between(*self.Cs, t) * _between(*self.risks, t)
        return objective, _between(*self.offsets, t) - 0.5 * self.slopes.square(t)

    def excess(self, tol: float) -> float:
        """Return the largest U − L − tol·U over the segment, relative to U; at most 0 if all gaps are small."""
        bounds = [self._bounds(t) for t in (0.0, 0.5, 1.0)]
        values = [upper - lower - tol * upper for upper, lower in bounds]
        first, middle, last = values
        # a t² + b t + first through the three values; its vertex, if it is a maximum inside.
        a, b = 2.0 * (first + last - 2.0 * middle), 4.0 * middle - 3.0 * first - last
        t = -b / (2.0 * a) if a < 0.0 else -1.0
        peak = first + b * t / 2.0 if 0.0 < t < 1.0 else -math.inf
        smallest = min(upper for upper, _ in bounds)
        return max(peak / smallest, *(value / upper for value, (upper, _) in zip(values, bounds, strict=True)))


def _between(u: Any, v: Any, t: float) -> Any:
    return (1.0 - t) * u + t * v


def bounding_plane(objective: Objective, result: Result) -> Plane:
    """Return the plane below Σ_i c_i (f⁺_i − f⁻_i) that bounds the minimum of a convex objective."""
    state = result.state
    if isinstance(state, PlaneStore):
        plane = state.combination()
    elif isinstance(state, PlaneBundle):
        plane = state.combination(state.far)
    else:
        plane = objective.plus.total(result.w)
    linear = objective.minus.total(result.w)
    return Plane(plane.slope - linear.slope, plane.offset - linear.offset, below=plane.below)


Solve = Callable[[float, Vector | None, float], PathPoint]
"""Minimizes at a C to a relative gap, from initial weights and the dual variables found last."""


def follow(solve: Solve, low: float, high: float, tol: float) -> Iterator[PathPoint]:
    """Yield minimizers from C = `low` to `high`, dense enough that interpolated weights have gaps of at most `tol`.

    Each step is so large that its segment has to be halved. Between two minimizers their means are good initial
    weights and dual variables; beyond, nothing is better than those of the last minimizer.

    If the solver does not reach the tolerance, gaps between neighbors may be larger.
    """
    point = solve(low, None, SOLVED * tol)
    yield point
    ratio, ahead = FIRST_RATIO, list[PathPoint]()
    while high > point.C:
        if not ahead:
            restore([(point, 1.0)], [point])
            ahead.append(solve(min(high, point.C * ratio**2), point.w, SOLVED * tol))
        following = ahead[-1]
        segment = Segment.between(point, following)
        excess, step = segment.excess(tol), following.C / point.C
        if excess > 0.0 and step > SMALLEST_RATIO:
            # The points beyond remain useful.
            C = math.sqrt(point.C * following.C)
            t = (C - point.C) / (following.C - point.C)
            restore([(point, (1.0 - t) * point.C / C), (following, t * following.C / C)], [point, *ahead])
            ahead.append(solve(C, segment.at(C)[0], BETWEEN * tol))
            continue
        # Between solved ends the gap grows with the square of the logarithm of the ratio.
        grown = max(excess + (1.0 - SOLVED) * tol, 1e-3 * tol) / ((1.0 - SOLVED) * tol)
        ratio = min(step ** min(1.5, math.sqrt(PLANNED / grown)), LARGEST_RATIO)
        point = ahead.pop()
        yield point


def restore(parts: Sequence[tuple[PathPoint, float]], kept: Sequence[PathPoint]) -> None:
    """Set the dual variables to a mean of those of some points, and keep the planes of others."""
    store = parts[0][0].result.state
    if isinstance(store, PlaneBundle):
        store = store.remembered
    if store is None:
        return
    found = [(point.masses, share) for point, share in parts if point.masses is not None]
    store.mix(found, [point.masses for point in kept if point.masses is not None])


def risk_of(result: Result, C: float) -> float:
    """Return R(w) of a result whose regularizer is ½‖w‖²."""
    return max(0.0, (result.objective - 0.5 * float(result.w @ result.w)) / C)
