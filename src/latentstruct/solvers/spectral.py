"""Proximal gradient steps of spectral length for smooth objectives with any regulariser."""

from collections import deque
from dataclasses import dataclass, field

from latentstruct.core.objective import Objective
from latentstruct.ragged import Vector, Weights
from latentstruct.solvers.base import Monitor

# A step is accepted if it lowers the highest of the last values by this share of what its length promises.
SUFFICIENT = 1e-3
REMEMBERED_VALUES = 5
MAX_TRIALS = 40
# Rounds over which a decrease is judged, and between two looks at the hard objective.
SPAN = 10


@dataclass
class Point:
    """Ω + f⁺ − f⁻ at w, with the gradient of f⁺ − f⁻ alone."""

    w: Weights
    value: float
    gradient: Weights
    exact: bool
    stiffness: float = 0.0
    """Curvature met on the way here; a proximal step has the length 1/stiffness."""


def evaluate(objective: Objective, w: Vector) -> Point:
    """Ask both sides of the objective at w."""
    plus, minus = objective.plus.total(w), objective.minus.total(w)
    value = objective.regularizer.value(w) + (plus(w) - minus(w))
    return Point(w, value, plus.slope - minus.slope, plus.exact and minus.exact)


def first_stiffness(point: Point) -> float:
    """Return the curvature at which a plain step would bring the value to about zero."""
    return max(float(point.gradient @ point.gradient) / max(abs(point.value), 1e-300), 1e-12)


@dataclass
class Descent:
    """Points that proximal steps of spectral length lead to.

    The curvature along the last step, s·y/s·s (Barzilai & Borwein), sets the length of the next: as fast as accelerated
    schemes without asking a second point a step. A point may lie above the one before it, not above all of the last
    five (Wright, Nowak & Figueiredo 2009).

    Attributes
    ----------
    point : Point
        The present point, with the curvature that the next step begins with.
    recent : deque of float
        Values of the last points.
    """

    point: Point
    recent: deque[float]

    def __post_init__(self) -> None:
        self.recent = deque(self.recent, maxlen=REMEMBERED_VALUES)

    @classmethod
    def begun(cls, objective: Objective, w: Vector, stiffness: float | None = None) -> "Descent":
        """Return the descent from w."""
        point = evaluate(objective, w)
        point.stiffness = first_stiffness(point) if stiffness is None else stiffness
        return cls(point, deque([point.value]))

    def advance(self, objective: Objective) -> bool:
        """Go to the next point; tell whether there is one."""
        point = self.point
        new = _step(objective, point, max(self.recent))
        if new is None:
            return False
        moved = new.w - point.w
        bend = float(moved @ (new.gradient - point.gradient))
        square = float(moved @ moved)
        # A concave stretch tells no length: the next step may be longer.
        new.stiffness = bend / square if bend > 0 else new.stiffness / 4.0
        self.recent.append(new.value)
        self.point = new
        return True


@dataclass
class Stage:
    """A descent at one temperature, with the lowest point so far.

    Attributes
    ----------
    temperature : float
        That of the soft objective.
    descent : Descent
        The descent.
    best : Point
        The lowest point so far.
    values : list of float
        The lowest value after each iteration.
    finished : bool
        Whether the last iterations brought little.
    """

    temperature: float
    descent: Descent
    best: Point
    values: list[float] = field(default_factory=list)
    finished: bool = False

    def close_round(self, hard: Objective, monitor: Monitor, tol: float) -> None:
        """Note the present point; look at the hard objective now and then, and see whether ten rounds brought much."""
        point, values = self.descent.point, self.values
        if point.value < self.best.value:
            self.best = point
        values.append(self.best.value)
        if len(values) % SPAN == 0:
            monitor.offer(self.best.w, *hard.evaluate(self.best.w))
        self.finished = len(values) > SPAN and values[-1 - SPAN] - values[-1] <= 10.0 * tol * abs(values[-1])
        monitor.close_round()


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
