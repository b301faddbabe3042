"""Proximal descent for regularisers with kinks, such as group norms: exact zeros, with latent variables or without."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.checks import is_ordered, is_real
from latentstruct.exceptions import InputError
from latentstruct.objective import Objective
from latentstruct.planes import Plane
from latentstruct.protocols import Regularizer
from latentstruct.ragged import Vector
from latentstruct.regularizers import L2, NoRegularizer
from latentstruct.short_repr import show
from latentstruct.solvers.base import BaseSolver, Monitor, first_weights

# A step is accepted if it lowers the highest of the last values by this share of what its length promises.
SUFFICIENT = 1e-3
REMEMBERED_VALUES = 5
MAX_TRIALS = 40
# Rounds over which a decrease is judged, and between two looks at the hard objective.
SPAN = 10
# Share of the temperature that remains after each stage, and where the hard objective takes over.
COOLING = 1.0 / 3.0
COLDEST = 0.003
# A serious step brings at least this share of the promised decrease; one that brings half of it asks for longer ones.
SERIOUS, GOOD = 0.1, 0.5
# Null steps after which steps are made shorter.
NULL_STEPS = 4
# Rounds without dual mass after which a plane is dropped.
IDLE = 20
# The proximal term is taken for gone at this share of its first weight.
LOOSEST = 1e-3
INNER_STEPS = 1000
# The bundle ends when its model promises less than this share of the tolerance.
PRECISION = 0.1
# Largest squared slope of planes that are taken for level.
FLAT = 1e-200


@dataclass
class Point:
    """Ω + f⁺ − f⁻ at w, with the gradient of f⁺ − f⁻ alone."""

    w: Vector
    value: float
    gradient: Vector
    exact: bool
    stiffness: float = 0.0
    """Curvature met on the way here; a proximal step has the length 1/stiffness."""


def evaluate(objective: Objective, w: Vector) -> Point:
    """Ask both sides of the objective at w."""
    plus, minus = objective.plus.total(w), objective.minus.total(w)
    value = objective.regularizer.value(w) + plus(w) - minus(w)
    return Point(w, value, plus.slope - minus.slope, plus.exact and minus.exact)


def first_stiffness(point: Point) -> float:
    """Return the curvature at which a plain step would bring the value to about zero."""
    return max(float(point.gradient @ point.gradient) / max(abs(point.value), 1e-300), 1e-12)


def descend(objective: Objective, w: Vector, stiffness: float | None = None) -> Iterator[Point]:
    """Yield w and the points that proximal steps of spectral length lead to, until none goes on.

    The curvature along the last step, s·y/s·s (Barzilai & Borwein), sets the length of the next: as fast as accelerated
    schemes without asking a second point a step. A point may lie above the one before it, not above all of the last
    five (Wright, Nowak & Figueiredo 2009).
    """
    point = evaluate(objective, w)
    point.stiffness = first_stiffness(point) if stiffness is None else stiffness
    recent = deque([point.value], maxlen=REMEMBERED_VALUES)
    while True:
        yield point
        new = _step(objective, point, max(recent))
        if new is None:
            return
        moved = new.w - point.w
        bend = float(moved @ (new.gradient - point.gradient))
        square = float(moved @ moved)
        # A concave stretch tells no length: the next step may be longer.
        new.stiffness = bend / square if bend > 0 else new.stiffness / 4.0
        recent.append(new.value)
        point = new


def _step(objective: Objective, point: Point, highest: float) -> Point | None:
    """Return where a proximal step leads, shortened until it goes down; None if w is stationary, but for rounding."""
    stiffness = point.stiffness
    for _ in range(MAX_TRIALS):
        w = objective.regularizer.prox(point.w - point.gradient / stiffness, 1.0 / stiffness)
        moved = w - point.w
        square = float(moved @ moved)
        if square <= 1e-32 * float(point.w @ point.w):
            return None
        new = evaluate(objective, w)
        if new.value <= highest - 0.5 * SUFFICIENT * stiffness * square:
            new.stiffness = stiffness
            return new
        stiffness *= 3.0
    return None


def project_to_simplex(point: Vector) -> Vector:
    """Return the nearest point whose entries are ≥ 0 and sum to 1."""
    descending = np.sort(point)[::-1]
    # A shift of all entries changes nothing, but beside large ones the 1 would be lost in rounding.
    highest = descending[0]
    descending = descending - highest
    excess = (descending.cumsum() - 1.0) / np.arange(1, len(point) + 1)
    last = np.count_nonzero(descending > excess) - 1
    return np.maximum(point - highest - excess[last], 0.0)


class PlaneModel:
    """Total planes (g_k, b_k) of the plus side, valid for all w, and multipliers α of the last proximal step.

    The step minimises Ω(w) + max_k (b_k + g_k·w) − l·w + ρ/2‖w − v‖². For α in the simplex its answer is
    w(α) = prox_{Ω/ρ}(v − (Σ α_k g_k − l)/ρ); the α that maximises the dual is found by accelerated projected ascent,
    whose gradient is b + G w(α). So any Ω with a proximal map serves.
    """

    def __init__(self, most: int, weights: Vector) -> None:
        self.most, self.weights = most, weights
        self.slopes: NDArray[np.float64] | None = None
        self.offsets, self.alpha, self.idle = np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)

    def rescale(self, weights: Vector) -> bool:
        """Follow weights c_i that are a multiple of the earlier ones; tell whether they are."""
        factor = weights.sum() / self.weights.sum()
        if len(weights) != len(self.weights) or not np.allclose(weights, factor * self.weights, rtol=1e-12, atol=0.0):
            return False
        if self.slopes is not None:
            self.slopes *= factor
        self.offsets *= factor
        self.weights = weights
        return True

    def add(self, plane: Plane) -> None:
        """Add a plane; those long idle go, and all without mass are merged into one if there are too many."""
        if self.slopes is None:
            self.slopes, self.offsets = plane.slope[None].copy(), np.array([plane.offset])
            self.alpha, self.idle = np.ones(1), np.zeros(1, dtype=np.int64)
            return
        self._drop()
        self.slopes = np.vstack([self.slopes, plane.slope])
        self.offsets = np.append(self.offsets, plane.offset)
        self.alpha, self.idle = np.append(self.alpha, 0.0), np.append(self.idle, 0)

    def _drop(self) -> None:
        kept = self.idle <= IDLE
        if kept.sum() >= self.most:
            # The heaviest half stays, and with it the combination of all, which is what the last step rested on.
            kept = np.zeros(len(self.alpha), dtype=bool)
            kept[np.argsort(-self.alpha, kind="stable")[: self.most // 2]] = True
        if kept.all():
            return
        assert self.slopes is not None
        slopes, offsets, alpha, idle = self.slopes[kept], self.offsets[kept], self.alpha[kept], self.idle[kept]
        lost = float(self.alpha[~kept].sum())
        if lost > 0:
            combined = self.combination()
            slopes, offsets = np.vstack([slopes, combined.slope]), np.append(offsets, combined.offset)
            alpha, idle = np.append(alpha, lost), np.append(idle, 0)
        self.slopes, self.offsets, self.alpha, self.idle = slopes, offsets, alpha, idle

    def combination(self) -> Plane:
        """Return Σ α_k (b_k + g_k·w) as one plane."""
        assert self.slopes is not None
        return Plane(self.alpha @ self.slopes, float(self.alpha @ self.offsets))

    def height(self, w: Vector) -> float:
        """Return max_k (b_k + g_k·w)."""
        assert self.slopes is not None
        return float((self.offsets + self.slopes @ w).max())

    def step(self, regularizer: Regularizer, linear: Vector, centre: Vector, proximity: float, gap: float) -> Vector:
        """Return the minimiser of the model near the centre, where its value is known to this gap."""
        assert self.slopes is not None
        slopes, offsets = self.slopes, self.offsets
        pull = centre + linear / proximity

        def minimiser(alpha: Vector) -> Vector:
            return regularizer.prox(pull - (alpha @ slopes) / proximity, 1.0 / proximity)

        bend = float(np.linalg.eigvalsh(slopes @ slopes.T)[-1])
        if bend < FLAT:
            # Level planes: the highest is the model, wherever w goes.
            alpha = np.zeros(len(offsets))
            alpha[offsets.argmax()] = 1.0
            return self._settle(alpha, minimiser)
        length = proximity / bend
        alpha, ahead, momentum = self.alpha, self.alpha, 1.0
        w = minimiser(alpha)
        for number in range(INNER_STEPS):
            heights = offsets + slopes @ minimiser(ahead)
            new = project_to_simplex(ahead + length * heights)
            grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            if float(heights @ (new - alpha)) < 0:
                # The momentum leads down: begin anew.
                ahead, momentum = new, 1.0
            else:
                ahead, momentum = new + (momentum - 1.0) / grown * (new - alpha), grown
            alpha = new
            if number % SPAN == SPAN - 1:
                w = minimiser(alpha)
                heights = offsets + slopes @ w
                if heights.max() - float(alpha @ heights) <= gap:
                    break
        return self._settle(alpha, minimiser)

    def _settle(self, alpha: Vector, minimiser: Callable[[Vector], Vector]) -> Vector:
        """Keep the multipliers, and return the weights that follow from them."""
        self.alpha = alpha
        self.idle = np.where(alpha > 0, 0, self.idle + 1)
        return minimiser(alpha)


class Proximal(BaseSolver):
    """Proximal descent: for group norms and other Ω with a proximal map, on any objective, with exact zeros.

    A smooth objective (CRF, hidden CRF) is descended by proximal gradient steps of spectral length. A hard one is
    descended by a proximal bundle: all planes of f⁺ found so far, f⁻ replaced by its plane at the best point v, and
    ρ/2‖w − v‖² added; v moves, and f⁻ with it, whenever the true objective falls by a tenth of what was promised. So
    each completion of the latents serves for one step, while the planes of f⁺ serve for all.

    With latent variables several descents are made from each start, and the lowest result is kept: one for each first
    temperature, through soft objectives whose two sides are pooled at a temperature that is lowered bit by bit, and one
    by the bundle at once. The soft ones pass by many poor minima of the hard objective, but none is best always.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative gap to certify where the objective is convex and Ω gives a bound (`GroupNorm` without unpenalised
        weights, `L2`). Otherwise the relative decrease that a step promises, or ten rounds bring, when it stops.
    max_rounds, max_seconds : number
        Limits; a round is a step.
    smoothing : tuple of float, default=(1.0, 0.1)
        First temperatures of the soft descents, against losses of about 1; empty for none. Tasks without soft inference
        do without them.
    max_planes : int, default=60
        Planes kept in the bundle (memory max_planes · d).
    restarts : int, default=1
        Number of starts where the objective is not convex; the best is kept. They differ by the first latents
        (`Objective.first`), so not when w0 is given.
    direct : bool, default=True
        Whether a descent by the bundle at once follows the soft ones. It takes the most time, and is seldom the
        one that finds the lowest result where w0 comes from a similar objective.

    Notes
    -----
    The bound of convex objectives: f⁺ − f⁻ is at least 0 and at least any combination b + g·w of planes, so at least
    t(b + g·w) for t in [0, 1]; for the largest t with t‖g^p‖ ≤ λ_p, Ω(w) + t·g·w ≥ 0 and t·b bounds the minimum.
    """

    needs = frozenset({"difference"})

    def __init__(
        self,
        tol: float = 1e-3,
        max_rounds: int = 2000,
        max_seconds: float = float("inf"),
        smoothing: tuple[float, ...] = (1.0, 0.1),
        max_planes: int = 60,
        restarts: int = 1,
        direct: bool = True,
    ) -> None:
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.smoothing = smoothing
        self.max_planes = max_planes
        self.restarts = restarts
        self.direct = direct

    def check(self, objective: Objective) -> None:
        """Raise unless objective and parameters fit."""
        super().check(objective)
        self._check_at_least(1, "restarts")
        self._check_at_least(4, "max_planes")
        fine = is_ordered(self.smoothing) and all(is_real(value) and 0 < value < math.inf for value in self.smoothing)
        if not fine:
            raise InputError(
                "smoothing must be a tuple of temperatures above 0, such as (1.0,), or empty, found "
                f"{show(self.smoothing)}: give such a tuple"
            )

    def _start(self, objective: Objective, attempt: int) -> Vector:
        return first_weights(objective, attempt)

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        if "smooth" in objective.properties:
            self._descend_smooth(objective, monitor, w)
            return
        model = state if isinstance(state, PlaneModel) and state.rescale(objective.plus.weights) else None
        model = PlaneModel(self.max_planes, objective.plus.weights) if model is None else model
        monitor.state = model
        direct = self.direct
        for temperature in () if "convex" in objective.properties else self.smoothing:
            cooled = None if monitor.reason else self._cool(objective, monitor, w, temperature)
            direct = direct or cooled is None
            if cooled is not None and not monitor.reason:
                self._descend_hard(objective, monitor, cooled, model)
        if not monitor.reason and (direct or "convex" in objective.properties or not len(self.smoothing)):
            self._descend_hard(objective, monitor, w, model)
        monitor.reason = monitor.reason or ("stalled" if math.isfinite(monitor.gap) else "converged")

    def _bound(self, objective: Objective, monitor: Monitor, slope: Vector, offset: float, exact: bool) -> None:
        """Report what a plane below f⁺ − f⁻ says about the minimum of a convex objective."""
        bound = getattr(objective.regularizer, "lower_bound", None)
        if bound is not None and "convex" in objective.properties:
            monitor.bound(bound(slope, offset), exact)

    def _descend_smooth(self, objective: Objective, monitor: Monitor, w: Vector) -> None:
        recent: deque[float] = deque(maxlen=SPAN)
        for point in descend(objective, w):
            monitor.current = point.w
            monitor.offer(point.w, point.value, copy=False)
            height = point.value - objective.regularizer.value(point.w) - float(point.gradient @ point.w)
            self._bound(objective, monitor, point.gradient, height, point.exact)
            if monitor.close_round():
                return
            unbounded = not math.isfinite(monitor.lower_bound)
            recent.append(monitor.objective)
            if unbounded and len(recent) == SPAN and recent[0] - recent[-1] <= 0.01 * self.tol * abs(recent[-1]):
                break
        monitor.reason = "converged" if not math.isfinite(monitor.lower_bound) else "stalled"

    def _cool(self, hard: Objective, monitor: Monitor, w: Vector, temperature: float) -> Vector | None:
        """Descend soft objectives of falling temperature; None if the task has no soft inference."""
        if monitor.best is None:
            monitor.offer(w, hard.value(w))
        stiffness = None
        while temperature > COLDEST and not monitor.reason:
            soft = softened(hard, temperature)
            if soft is None:
                return None
            w, stiffness = self._stage(soft, hard, monitor, w, stiffness)
            temperature *= COOLING
            stiffness /= COOLING
        return w

    def _stage(
        self, soft: Objective, hard: Objective, monitor: Monitor, w: Vector, stiffness: float | None
    ) -> tuple[Vector, float]:
        """Descend at one temperature until ten rounds bring little; return the lowest point and its curvature."""
        values: list[float] = []
        best: Point | None = None
        for number, point in enumerate(descend(soft, w, stiffness), start=1):
            if best is None or point.value < best.value:
                best = point
            values.append(best.value)
            if number % SPAN == 0:
                monitor.offer(best.w, hard.value(best.w))
            if monitor.close_round():
                break
            if number > SPAN and values[-1 - SPAN] - values[-1] <= 10.0 * self.tol * abs(values[-1]):
                break
        assert best is not None
        monitor.offer(best.w, hard.value(best.w))
        return best.w, point.stiffness

    def _descend_hard(self, objective: Objective, monitor: Monitor, w: Vector, model: PlaneModel) -> None:
        """Descend the objective itself by a proximal bundle, until the model promises little."""
        _BundleDescent(self, objective, monitor, model).run(w)


def wants_proximal(objective: Objective) -> bool:
    """Tell whether Ω is one that the solvers for ½‖w‖² cannot serve."""
    return not isinstance(objective.regularizer, L2 | NoRegularizer)


def softened(objective: Objective, temperature: float) -> Objective | None:
    """Take hard maxima of both sides at this temperature; None if the task cannot."""
    soft = replace(objective.smoothed(temperature), minus=_soft_minus(objective.minus, temperature))
    try:
        soft.minus.total(np.zeros(objective.n_features))
    except InputError:
        return None
    return soft


def _soft_minus(minus: Any, temperature: float) -> Any:
    return minus.smoothed(temperature) if hasattr(minus, "smoothed") else minus


class _BundleDescent:
    """One descent by the bundle: the centre v with its value, and the plane of f⁻ there."""

    def __init__(self, settings: Proximal, objective: Objective, monitor: Monitor, model: PlaneModel) -> None:
        self.settings, self.objective, self.monitor, self.model = settings, objective, monitor, model

    def _ask(self, w: Vector) -> tuple[float, Plane]:
        """Add the plane of f⁺ at w; return the objective there and the plane of f⁻."""
        plus, minus = self.objective.plus.total(w), self.objective.minus.total(w)
        self.exact = plus.exact and minus.exact
        value = self.objective.regularizer.value(w) + plus(w) - minus(w)
        self.monitor.offer(w, value)
        self.model.add(plus)
        return value, minus

    def run(self, w: Vector) -> None:
        """Descend from w."""
        tol = PRECISION * self.settings.tol
        centre, nulls, quiet = w, 0, 0
        value, minus = self._ask(w)
        proximity = first = max(self._first_proximity(centre, value, minus), 1e-12)
        while True:
            w, promised = self._promise(centre, value, minus, proximity, 0.1 * tol * abs(value))
            if self._bound_closes(minus):
                return
            if promised <= tol * abs(value):
                if proximity > LOOSEST * first:
                    proximity *= 0.1
                    continue
                if not math.isfinite(self.monitor.lower_bound) or quiet == SPAN:
                    self.monitor.close_round()
                    return
                # Short steps, whose multipliers are found the most precisely, and more planes may close the bound.
                quiet, proximity = quiet + 1, first * 10.0**quiet
            reached, new_minus = self._ask(w)
            if self.monitor.close_round():
                return
            if value - reached >= SERIOUS * promised:
                proximity *= 0.5 if value - reached >= GOOD * promised else 1.0
                centre, value, minus, nulls = w, reached, new_minus, 0
                continue
            nulls += 1
            if reached - value > 2.0 * promised or nulls >= NULL_STEPS:
                proximity *= 2.0

    def _first_proximity(self, centre: Vector, value: float, minus: Plane) -> float:
        combined = self.model.combination()
        slope = combined.slope - minus.slope
        return float(slope @ slope) / max(abs(value), 1e-300)

    def _promise(
        self, centre: Vector, value: float, minus: Plane, proximity: float, gap: float
    ) -> tuple[Vector, float]:
        """Return the next point and how much lower than the present value the model is there."""
        regularizer = self.objective.regularizer
        w = self.model.step(regularizer, minus.slope, centre, proximity, gap)
        return w, value - (regularizer.value(w) + self.model.height(w) - minus(w))

    def _bound_closes(self, minus: Plane) -> bool:
        combined = self.model.combination()
        slope, offset = combined.slope - minus.slope, combined.offset - minus.offset
        self.settings._bound(self.objective, self.monitor, slope, offset, self.exact)
        closed = self.monitor.is_small(self.monitor.gap)
        return closed and self.monitor.close_round()
