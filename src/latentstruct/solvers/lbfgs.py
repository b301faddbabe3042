"""L-BFGS for smooth objectives, and for the hinge through smoothing."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from latentstruct._native.vectors import add_scaled
from latentstruct.core.objective import Objective
from latentstruct.core.types import Vector, Weights
from latentstruct.core.validation import integer, real
from latentstruct.exceptions import InputError
from latentstruct.persistence.state_trees import state_dict
from latentstruct.solvers.base import BaseSolver, Monitor

ARMIJO, CURVATURE = 1e-4, 0.9
MAX_TRIALS = 40
# Trials of ordinary steps, and the ratio of two steps above which they are bisected by order of magnitude.
PATIENT_TRIALS, FAR_APART = 12, 1e3
# Relative decrease predicted by the gradient below which annealing has converged.
HOPELESS = 1e6
# Smallest temperature: below it the smoothed objective is as hard for L-BFGS as the hinge itself.
SMALLEST_TEMPERATURE = 4e-6
# Iterations between two evaluations of the hard objective, if no bound measures the progress of a stage.
LOOKS = 5
# Without a bound it ends when this many iterations decrease the objective by less than this fraction of the tolerance.
FALL, SPAN = 0.01, 10


@dataclass
class Pair:
    """Differences s of points and y of gradients, with 1/s·y."""

    s: Weights
    y: Weights
    inverse: float


Pairs = deque[Pair]
"""Oldest first."""


@dataclass
class Point:
    """A smooth objective at w: value, gradient, and the entropy part of the value."""

    w: Weights
    value: float
    gradient: Weights
    entropy: float
    exact: bool

    @property
    def bound(self) -> float:
        """A value below the minimum of a convex objective with ½‖w‖²: P(w) − ½‖∇P(w)‖²."""
        return self.value - 0.5 * float(self.gradient @ self.gradient)


def evaluate(objective: Objective, w: Vector) -> Point:
    """Evaluate both sides of the objective at w."""
    plus, minus = objective.plus.total(w), objective.minus.total(w)
    # In the order that reads each long vector the fewest times.
    gradient = plus.slope
    gradient -= minus.slope
    value = objective.regularizer.value(w) + (plus.offset - minus.offset + float(gradient @ w))
    gradient += objective.regularizer.gradient(w)
    return Point(w, value, gradient, plus.entropy, plus.exact and minus.exact)


def find_direction(gradient: Vector, pairs: Pairs) -> Vector:
    """Return −H∇ by the two-loop recursion."""
    direction = -gradient
    factors = []
    for pair in reversed(pairs):
        factors.append(pair.inverse * float(pair.s @ direction))
        add_scaled(pair.y, -factors[-1], direction)
    if pairs:
        direction *= 1.0 / (pairs[-1].inverse * float(pairs[-1].y @ pairs[-1].y))
    for pair, factor in zip(pairs, reversed(factors), strict=True):
        add_scaled(pair.s, factor - pair.inverse * float(pair.y @ direction), direction)
    return direction


def search_line(objective: Objective, start: Point, direction: Vector, step: float) -> Point | None:
    """Return a point along the direction that satisfies the Wolfe conditions; None if rounding prevents that."""
    slope = float(start.gradient @ direction)
    low, low_value, low_slope = 0.0, start.value, slope
    high, high_value = np.inf, np.inf
    for trial_number in range(MAX_TRIALS):
        # A first step that is wrong by many orders of magnitude is corrected by growing factors.
        haste = 2.0 ** min(max(0, trial_number - PATIENT_TRIALS), 6)
        w = step * direction
        w += start.w
        trial = evaluate(objective, w)
        value, trial_slope = trial.value, float(trial.gradient @ direction)
        if not value <= start.value + ARMIJO * step * slope:
            high, high_value = step, value
        elif trial_slope < CURVATURE * slope:
            low, low_value, low_slope = step, value, trial_slope
        else:
            return trial
        # The next trial reuses the memory.
        del w, trial
        if not np.isfinite(high):
            step *= 2.0**haste
            continue
        if high > FAR_APART * low and trial_number >= PATIENT_TRIALS:
            step = math.sqrt(low) * math.sqrt(high) if low > 0 else 0.1**haste * high
            continue
        width = high - low
        bend = high_value - low_value - low_slope * width
        # The quotient first: a product of three such numbers may overflow.
        inner = (-low_slope * width / (2.0 * bend) if np.isfinite(bend) and bend > 0 else 0.5) * width
        step = low + min(max(inner, 0.1 * width), 0.9 * width)
    return None


@dataclass
class Descent:
    """Points of a smooth objective, with decreasing values."""

    point: Point
    memory: int  # maximum number of pairs
    pairs: Pairs = field(default_factory=deque)  # curvature along the last steps
    values: deque[float] = field(default_factory=deque)  # the last ones, see `descend`

    def __post_init__(self) -> None:
        self.values = deque(self.values, maxlen=SPAN)
        if len(self.pairs) > self.memory:
            raise ValueError(f"there are {len(self.pairs)} pairs, more than {self.memory}")
        if not all(pair.inverse * float(pair.y @ pair.y) > 0 for pair in self.pairs):
            raise ValueError("there is a pair without curvature")

    def advance(self, objective: Objective) -> bool:
        """Go to the next point; return whether there is one, which rounding may prevent."""
        point, pairs = self.point, self.pairs
        direction = find_direction(point.gradient, pairs)
        step = 1.0 if pairs else 1.0 / max(1e-12, float(np.linalg.norm(point.gradient)))
        new = search_line(objective, point, direction, step)
        if new is None:
            return False
        # The memory of the oldest pair is reused: allocating vectors of this size costs more than the subtraction.
        oldest = pairs.popleft() if len(pairs) == self.memory else None
        s = np.subtract(new.w, point.w, out=None if oldest is None else oldest.s)
        y = np.subtract(new.gradient, point.gradient, out=None if oldest is None else oldest.y)
        curvature = float(s @ y)
        if curvature > 0:
            pairs.append(Pair(s, y, 1.0 / curvature))
        self.point = new
        return True


def descend(
    objective: Objective, monitor: Monitor, descent: Any, begun: bool, bound: Callable[[Any], float] | None, fall: float
) -> bool:
    """Advance until there is a reason to stop; return False if no further point is found.

    `descent` has a point, the last values, and a method `advance`; `begun` is whether its point is reported already. If
    no `bound` of the minimum is known, the descent ends when ten iterations gain less than the fraction `fall`.
    """
    monitor.snapshot = partial(state_dict, descent)
    while not monitor.reason:
        if begun and not descent.advance(objective):
            return False
        begun, point, values = True, descent.point, descent.values
        monitor.current = point.w
        monitor.offer(point.w, point.value, point.exact, copy=False)
        if bound is not None:
            monitor.bound(bound(point), point.exact)
        value = monitor.objective
        unbounded = not math.isfinite(monitor.lower_bound)
        if unbounded and len(values) == SPAN and values[0] - value <= fall * abs(value):
            monitor.reason = "converged"
        values.append(value)
        monitor.close_iteration()
    return True


@dataclass
class Stage:
    """A descent at one temperature, with the results of its iterations."""

    temperature: float
    descent: Descent
    number: int = 0
    looked: bool = False
    """Whether the hard objective is known at the current point."""
    finished: bool = False
    before: float = math.inf
    price: float = 0.0


@dataclass(eq=False, repr=False)
class LBFGS(BaseSolver):
    """Limited-memory BFGS on the whole objective, convex or not.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative gap (P − D)/P to certify. With ½‖w‖² and a convex rest, P(w) − ½‖∇P(w)‖² bounds the minimum; otherwise
        the solver stops when the relative decrease in ten iterations is less than 0.01·tol.
    max_iter, max_seconds : number
        Limits.
    memory : int, default=6
        Pairs of vectors kept; about 2·memory + 6 vectors of length d are needed.
    smoothing : float, default=0.3
        If the objective has a hard max over outputs, it is replaced by a soft one at this temperature, which is
        then divided by 3 until the hard gap is certified or, without convexity, until the soft objective is within
        `tol` of the hard one. Objective and bound reported are those of the hard objective: the marginals give a dual
        point of it.
    restarts : int, default=1
        Number of starts if latent variables make the objective nonconvex; the best is kept and all are reported.
        They differ by the initial latents (`Objective.starts`), so not when w0 is given.

    Notes
    -----
    Not based on SciPy: the certificate is checked after each iteration, Ctrl-C and callbacks
    keep the best weights, and vectors of millions of weights are not copied.
    """

    needs = frozenset({"l2"})
    has_restarts = True
    warns_if_stalled = True
    constraints: ClassVar = {"memory": integer(1), "smoothing": real(0.0)}

    tol: float = 1e-3
    max_iter: int = 1000
    max_seconds: float = float("inf")
    memory: int = 6
    smoothing: float = 0.3
    restarts: int = 1

    def check(self, objective: Objective) -> None:
        super().check(objective)
        if not objective.minus.smooth:
            expected = "one for objectives whose latents are maximized"
            raise InputError("solver", self, expected, "Use CCCP(LBFGS()), or a latent `temperature` above 0.")
        if "convex" in objective.properties and objective.plus.half_smooth:
            expected = "one for convex problems in which either outputs or latents are summed out, but not both"
            raise InputError("solver", self, expected, "Use CCCP(), or LBFGS() without CCCP.")

    def ending(self, objective: Objective) -> tuple[str, float, int]:
        falls = "smooth" in objective.properties and "convex" not in objective.properties
        return ("fall", FALL * self.tol, SPAN) if falls else super().ending(objective)

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        if "smooth" in objective.properties:
            self._descend(objective, monitor, w)
        else:
            self._cool(objective, monitor, w)

    def _descend(self, objective: Objective, monitor: Monitor, w: Vector) -> None:
        """Descend a smooth objective."""
        earlier, convex = monitor.resumed_state(Descent), "convex" in objective.properties
        descent = earlier or Descent(evaluate(objective, w), self.memory)
        bound = (lambda point: point.bound) if convex else None
        if not descend(objective, monitor, descent, earlier is not None, bound, FALL * self.tol):
            # With approximate answers, whose values and slopes need not agree, a search may also fail far from any
            # minimum.
            point = descent.point
            flat = point.value - point.bound <= self.tol * max(abs(point.value), monitor.least)
            monitor.finish("converged" if not convex and point.exact and flat else "stalled")

    def _cool(self, hard: Objective, monitor: Monitor, w: Vector) -> None:
        """Descend soft forms of a hard objective at decreasing temperatures.

        The soft objective is above the hard one; their difference is the smoothing error. A stage ends when the
        possible gain is small relative to that error. If the objective is convex, the temperature decreases until the
        gap is certified: without its entropy the soft dual point is a hard one. Otherwise it decreases until the error
        is within `tol`.
        """
        convex, stage = "convex" in hard.properties, monitor.resumed_state(Stage)
        close = self._close_bounded if convex else self._close_priced
        pairs: Pairs = deque() if stage is None else stage.descent.pairs
        temperature = self.smoothing if stage is None else stage.temperature
        if stage is None and not convex:
            monitor.offer(w, *hard.evaluate(w))
        while stage is not None or (not monitor.reason and temperature > SMALLEST_TEMPERATURE):
            soft = hard.smoothed(temperature)
            begun = stage is not None
            if stage is None:
                descent = Descent(evaluate(soft, w), self.memory, deque() if convex else pairs)
                stage = Stage(temperature, descent)
            monitor.snapshot = partial(state_dict, stage)
            if not begun:
                close(hard, monitor, stage)
            while not (monitor.reason or stage.finished) and stage.descent.advance(soft):
                close(hard, monitor, stage)
            point = stage.descent.point
            if not stage.looked:
                self._look(hard, monitor, stage)
            if not convex:
                if point.value - point.bound > HOPELESS * max(abs(point.value), monitor.least):
                    # No step decreases the objective despite a large gradient: rounding hides the minimum.
                    break
                if abs(stage.price) <= self.tol * abs(monitor.objective) and not monitor.reason:
                    monitor.finish("converged")
            w, stage, temperature = point.w, None, temperature / 3.0
        if not monitor.reason:
            monitor.finish("stalled")

    def _close_bounded(self, hard: Objective, monitor: Monitor, stage: Stage) -> None:
        """End an iteration of a stage whose points give bounds."""
        point = stage.descent.point
        monitor.current = point.w
        monitor.bound(point.bound - point.entropy, point.exact)
        stage.finished = point.value - point.bound <= 0.1 * point.entropy
        stage.looked = stage.finished or monitor.is_small(point.value - monitor.lower_bound)
        if stage.looked:
            self._look(hard, monitor, stage)
        monitor.close_iteration(None if stage.looked else (point.value, monitor.lower_bound))

    def _close_priced(self, hard: Objective, monitor: Monitor, stage: Stage) -> None:
        """End an iteration of a stage; the hard objective is evaluated every few iterations."""
        stage.number += 1
        point = stage.descent.point
        monitor.current = point.w
        stage.looked = False
        if stage.number % LOOKS:
            monitor.close_iteration((point.value, -math.inf))
            return
        self._look(hard, monitor, stage)
        stage.finished = stage.before - point.value <= 0.1 * max(stage.price, self.tol * abs(point.value))
        stage.before = point.value
        monitor.close_iteration()

    @staticmethod
    def _look(hard: Objective, monitor: Monitor, stage: Stage) -> None:
        """Evaluate the hard objective, and store the smoothing error."""
        point = stage.descent.point
        value, exact = hard.evaluate(point.w)
        monitor.offer(point.w, value, exact)
        stage.price, stage.looked = point.value - value, True
