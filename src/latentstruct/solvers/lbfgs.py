"""L-BFGS for smooth objectives, and for the hinge through smoothing."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy

from latentstruct.checks import is_real
from latentstruct.exceptions import InputError
from latentstruct.objective import Objective
from latentstruct.ragged import Vector
from latentstruct.short_repr import show
from latentstruct.solvers.base import BaseSolver, Monitor, first_weights

ARMIJO, CURVATURE = 1e-4, 0.9
MAX_TRIALS = 40
# Below it the smoothed objective is as hard for L-BFGS as the hinge itself.
SMALLEST_TEMPERATURE = 1e-5
# Rounds between two looks at the hard objective, where no bound says how far a stage has come.
LOOKS = 5


@dataclass
class Point:
    """A smooth objective at w: value, gradient, and the entropy part of the value."""

    w: Vector
    value: float
    gradient: Vector
    entropy: float
    exact: bool

    @property
    def bound(self) -> float:
        """A value below the minimum of a convex objective with ½‖w‖²: P(w) − ½‖∇P(w)‖²."""
        return self.value - 0.5 * float(self.gradient @ self.gradient)


def evaluate(objective: Objective, w: Vector) -> Point:
    """Ask both sides of the objective at w."""
    plus, minus = objective.plus.total(w), objective.minus.total(w)
    # In the order that reads each long vector the least often.
    gradient = plus.slope
    gradient -= minus.slope
    value = objective.regularizer.value(w) + plus.offset - minus.offset + float(gradient @ w)
    gradient += objective.regularizer.gradient(w)
    return Point(w, value, gradient, plus.entropy, plus.exact and minus.exact)


def find_direction(gradient: Vector, pairs: deque[tuple[Vector, Vector, float]]) -> Vector:
    """Return −H∇ by the two-loop recursion; pairs are (s, y, 1/s·y), the oldest first."""
    direction = -gradient
    factors = []
    for s, y, inverse in reversed(pairs):
        factors.append(inverse * float(s @ direction))
        daxpy(y, direction, a=-factors[-1])
    if pairs:
        s, y, inverse = pairs[-1]
        direction *= 1.0 / (inverse * float(y @ y))
    for (s, y, inverse), factor in zip(pairs, reversed(factors), strict=True):
        daxpy(s, direction, a=factor - inverse * float(y @ direction))
    return direction


def search_line(objective: Objective, start: Point, direction: Vector, step: float) -> Point | None:
    """Return a point along the direction that meets the Wolfe conditions; None if rounding forbids any."""
    slope = float(start.gradient @ direction)
    low, low_value, low_slope = 0.0, start.value, slope
    high, high_value = np.inf, np.inf
    for _ in range(MAX_TRIALS):
        w = step * direction
        w += start.w
        trial = evaluate(objective, w)
        trial_slope = float(trial.gradient @ direction)
        if not trial.value <= start.value + ARMIJO * step * slope:
            high, high_value = step, trial.value
        elif trial_slope < CURVATURE * slope:
            low, low_value, low_slope = step, trial.value, trial_slope
        else:
            return trial
        if not np.isfinite(high):
            step *= 2.0
            continue
        width = high - low
        bend = high_value - low_value - low_slope * width
        inner = -low_slope * width * width / (2.0 * bend) if np.isfinite(bend) and bend > 0 else 0.5 * width
        step = low + min(max(inner, 0.1 * width), 0.9 * width)
    return None


def descend(
    objective: Objective, w: Vector, memory: int, pairs: deque[tuple[Vector, Vector, float]] | None = None
) -> Iterator[Point]:
    """Yield w and the points after it, each lower than the one before, until rounding leaves no better one.

    `pairs` are differences of points and gradients to begin with; new ones are added to them.
    """
    pairs = deque() if pairs is None else pairs
    point = evaluate(objective, w)
    while True:
        yield point
        direction = find_direction(point.gradient, pairs)
        step = 1.0 if pairs else 1.0 / max(1e-12, float(np.linalg.norm(point.gradient)))
        new = search_line(objective, point, direction, step)
        if new is None:
            return
        # The oldest pair's memory serves the newest: fresh vectors of this size cost more than the subtraction.
        room = pairs.popleft() if len(pairs) == memory else (None, None, 0.0)
        s = np.subtract(new.w, point.w, out=room[0])
        y = np.subtract(new.gradient, point.gradient, out=room[1])
        curvature = float(s @ y)
        if curvature > 0:
            pairs.append((s, y, 1.0 / curvature))
        point = new


class LBFGS(BaseSolver):
    """Limited-memory BFGS on the whole objective, convex or not.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative gap (P − D)/P to certify. With ½‖w‖² and a convex rest, P(w) − ½‖∇P(w)‖² bounds the minimum; else
        the solver stops when the objective falls by less than 0.01·tol in ten rounds.
    max_rounds, max_seconds : number
        Limits; a round is an iteration.
    memory : int, default=6
        Pairs of vectors kept; about 2·memory + 6 vectors of length d are needed.
    smoothing : float, default=0.3
        If the objective has a hard max over outputs, it is replaced by a soft one at this temperature, which is
        then lowered by thirds until the hard gap is certified or, without convexity, until the soft objective is within
        `tol` of the hard one. Objective and bound reported are those of the hard objective: the marginals give a dual
        point of it.
    restarts : int, default=1
        Number of starts where latent variables make the objective non-convex; the best is kept and all are reported.
        They differ by the first latents (`Objective.first`), so not when w0 is given.

    Notes
    -----
    Written here rather than taken from scipy: the certificate is looked at after each iteration, Ctrl-C and callbacks
    keep the best weights, and vectors of millions of weights are not copied between the two.
    """

    needs = frozenset({"l2"})

    def __init__(
        self,
        tol: float = 1e-3,
        max_rounds: int = 1000,
        max_seconds: float = float("inf"),
        memory: int = 6,
        smoothing: float = 0.3,
        restarts: int = 1,
    ) -> None:
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.memory = memory
        self.smoothing = smoothing
        self.restarts = restarts

    def check(self, objective: Objective) -> None:
        """Raise unless objective and parameters fit."""
        super().check(objective)
        if not objective.minus.smooth:
            raise InputError(
                "LBFGS needs latents that are summed out or known, but here they are maximised: give the latent "
                "temperature a value above 0, or use CCCP(LBFGS())"
            )
        if "convex" in objective.properties and getattr(objective.plus, "half_smooth", False):
            raise InputError(
                "LBFGS cannot tell how far it is from the minimum of a convex problem in which latents are summed out "
                "and outputs maximised, or the other way round: use CCCP(), or LBFGS() without CCCP"
            )
        self._check_at_least(1, "memory", "restarts")
        if not (is_real(self.smoothing) and self.smoothing > 0):
            raise InputError(
                f"smoothing must be a temperature above 0, found {show(self.smoothing)}: choose one such as 0.3"
            )

    def _start(self, objective: Objective, attempt: int) -> Vector:
        return first_weights(objective, attempt)

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        if "smooth" in objective.properties:
            self._descend_smooth(objective, monitor, w)
        elif "convex" in objective.properties:
            self._certify_hard(objective, monitor, w)
        else:
            self._anneal(objective, monitor, w)

    def _descend_smooth(self, objective: Objective, monitor: Monitor, w: Vector) -> None:
        recent: deque[float] = deque(maxlen=10)
        for point in descend(objective, w, self.memory):
            monitor.current = point.w
            monitor.offer(point.w, point.value, copy=False)
            if "convex" in objective.properties:
                monitor.bound(point.bound, point.exact)
            elif len(recent) == 10 and recent[0] - point.value <= 0.01 * self.tol * abs(point.value):
                monitor.reason = "converged"
            recent.append(point.value)
            if monitor.close_round() or monitor.reason:
                return
        # With approximate answers, whose values and slopes need not agree, a search may also fail far from any minimum.
        if "convex" not in objective.properties and point.exact:
            monitor.reason = "converged"

    def _certify_hard(self, hard: Objective, monitor: Monitor, w: Vector) -> None:
        """Lower the temperature until the gap of a convex objective with a hard max is certified.

        The soft objective is above the hard one, and without its entropy the soft dual point is a hard one. A stage
        ends when what is left to gain in it is small against the entropy, the price of its smoothness.
        """
        temperature = self.smoothing
        while not monitor.reason and temperature > SMALLEST_TEMPERATURE:
            offered = False
            for point in descend(hard.smoothed(temperature), w, self.memory):
                w = monitor.current = point.w
                monitor.bound(point.bound - point.entropy, point.exact)
                finished = point.value - point.bound <= 0.1 * point.entropy
                offered = finished or monitor.is_small(point.value - monitor.lower_bound)
                if offered:
                    monitor.offer(w, hard.value(w))
                if monitor.close_round(None if offered else (point.value, monitor.lower_bound)) or finished:
                    break
            if not offered:
                monitor.offer(w, hard.value(w))
            temperature /= 3.0

    def _anneal(self, hard: Objective, monitor: Monitor, w: Vector) -> None:
        """Lower the temperature until the soft objective of a non-convex one is within `tol` of it.

        The difference of the two is the price of smoothness. A stage ends when `LOOKS` rounds bring little against it.
        """
        temperature = self.smoothing
        pairs: deque[tuple[Vector, Vector, float]] = deque()
        monitor.offer(w, hard.value(w))
        while not monitor.reason:
            w, price = self._stage(hard, monitor, w, temperature, pairs)
            if abs(price) <= self.tol * abs(monitor.objective):
                monitor.reason = monitor.reason or "converged"
            elif temperature <= SMALLEST_TEMPERATURE:
                return
            temperature /= 3.0

    def _stage(
        self,
        hard: Objective,
        monitor: Monitor,
        w: Vector,
        temperature: float,
        pairs: deque[tuple[Vector, Vector, float]],
    ) -> tuple[Vector, float]:
        """Descend at one temperature; return the last weights and the price of smoothness there."""

        def look(point: Point) -> float:
            value = hard.value(point.w)
            monitor.offer(point.w, value)
            return point.value - value

        before = math.inf
        for number, point in enumerate(descend(hard.smoothed(temperature), w, self.memory, pairs), start=1):
            monitor.current = point.w
            if number % LOOKS:
                if monitor.close_round((point.value, -math.inf)):
                    break
                continue
            price = look(point)
            finished = before - point.value <= 0.1 * max(price, self.tol * abs(point.value))
            before = point.value
            if monitor.close_round() or finished:
                return point.w, price
        return point.w, look(point)
