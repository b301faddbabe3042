"""L-BFGS for smooth objectives, and for the hinge through smoothing."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy

from latentstruct.exceptions import InputError
from latentstruct.objective import Objective
from latentstruct.ragged import Vector
from latentstruct.solvers.base import BaseSolver, Monitor

ARMIJO, CURVATURE = 1e-4, 0.9
MAX_TRIALS = 40
# Below it the smoothed objective is as hard for L-BFGS as the hinge itself.
SMALLEST_TEMPERATURE = 1e-5


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


class LBFGS(BaseSolver):
    """Limited-memory BFGS on the whole objective.

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
        then lowered by thirds until the hard gap is certified. Objective and bound reported are those of the hard
        objective: the marginals give a dual point of it.

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
    ) -> None:
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.memory = memory
        self.smoothing = smoothing

    def check(self, objective: Objective) -> None:
        """Raise unless objective and parameters fit."""
        super().check(objective)
        if not objective.properties & {"smooth", "convex"}:
            raise InputError(
                "LBFGS needs a smooth objective (all temperatures above 0) or a convex one (no latent "
                "variables), and this one is neither: give all temperatures a value above 0"
            )
        self._check_at_least(1, "memory")
        if not self.smoothing > 0:
            raise InputError(f"smoothing must be a temperature above 0, found {self.smoothing!r}")

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        if "smooth" in objective.properties:
            self._descend(objective, monitor, w)
            return
        temperature = self.smoothing
        while not monitor.reason and temperature > SMALLEST_TEMPERATURE:
            w = self._descend(objective.smoothed(temperature), monitor, w, hard=objective)
            temperature /= 3.0

    def _descend(self, objective: Objective, monitor: Monitor, w: Vector, hard: Objective | None = None) -> Vector:
        point = evaluate(objective, w)
        pairs: deque[tuple[Vector, Vector, float]] = deque(maxlen=self.memory)
        recent: deque[float] = deque(maxlen=10)
        while True:
            done = (
                self._report(objective, monitor, point, recent)
                if hard is None
                else self._report_hard(hard, monitor, point)
            )
            if done:
                return point.w
            direction = find_direction(point.gradient, pairs)
            step = 1.0 if pairs else 1.0 / max(1e-12, float(np.linalg.norm(point.gradient)))
            new = search_line(objective, point, direction, step)
            if new is None:
                # No better point is left within rounding.
                if hard is not None:
                    monitor.offer(point.w, hard.value(point.w))
                return point.w
            # The oldest pair's memory serves the newest: fresh vectors of this size cost more than the subtraction.
            room = pairs.popleft() if len(pairs) == self.memory else (None, None, 0.0)
            s = np.subtract(new.w, point.w, out=room[0])
            y = np.subtract(new.gradient, point.gradient, out=room[1])
            curvature = float(s @ y)
            if curvature > 0:
                pairs.append((s, y, 1.0 / curvature))
            point = new

    def _report(self, objective: Objective, monitor: Monitor, point: Point, recent: deque[float]) -> bool:
        monitor.current = point.w
        monitor.offer(point.w, point.value, copy=False)
        if "convex" in objective.properties:
            monitor.bound(point.bound, point.exact)
        elif len(recent) == 10 and recent[0] - point.value <= 0.01 * self.tol * abs(point.value):
            monitor.reason = "stalled"
        recent.append(point.value)
        return monitor.close_round() or bool(monitor.reason)

    def _report_hard(self, hard: Objective, monitor: Monitor, point: Point) -> bool:
        """Report a point of the smoothed objective; tell whether to stop or to lower the temperature.

        The soft objective is above the hard one, and without its entropy the soft dual point is a hard one. A stage
        ends when what is left to gain in it is small against the entropy, the price of its smoothness.
        """
        monitor.current = point.w
        monitor.bound(point.bound - point.entropy, point.exact)
        finished = point.value - point.bound <= 0.1 * point.entropy
        if finished or monitor.is_small(point.value - monitor.lower_bound):
            monitor.offer(point.w, hard.value(point.w))
            return monitor.close_round() or finished
        if monitor.close_round((point.value, monitor.lower_bound)):
            monitor.offer(point.w, hard.value(point.w))
            return True
        return False
