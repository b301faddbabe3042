"""Proximal gradient steps of spectral length for smooth objectives with any regulariser."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.ragged import Vector
from latentstruct.solvers.base import Monitor
from latentstruct.state_trees import Saved, Tree

# A step is accepted if it lowers the highest of the last values by this share of what its length promises.
SUFFICIENT = 1e-3
REMEMBERED_VALUES = 5
MAX_TRIALS = 40
# Rounds over which a decrease is judged, and between two looks at the hard objective.
SPAN = 10


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
    value = objective.regularizer.value(w) + (plus(w) - minus(w))
    return Point(w, value, plus.slope - minus.slope, plus.exact and minus.exact)


def first_stiffness(point: Point) -> float:
    """Return the curvature at which a plain step would bring the value to about zero."""
    return max(float(point.gradient @ point.gradient) / max(abs(point.value), 1e-300), 1e-12)


class Descent:
    """Points that proximal steps of spectral length lead to.

    The curvature along the last step, s·y/s·s (Barzilai & Borwein), sets the length of the next: as fast as accelerated
    schemes without asking a second point a step. A point may lie above the one before it, not above all of the last
    five (Wright, Nowak & Figueiredo 2009).

    Parameters
    ----------
    objective : Objective
        What goes down.
    start : Point
        Where to begin, with the curvature to begin with.
    recent : iterable of float, optional
        Values of the last points, by default of the first one alone.
    """

    def __init__(self, objective: Objective, start: Point, recent: Iterable[float] | None = None) -> None:
        self.objective, self.point = objective, start
        self.recent = deque([start.value] if recent is None else recent, maxlen=REMEMBERED_VALUES)

    @classmethod
    def begun(cls, objective: Objective, w: Vector, stiffness: float | None = None) -> "Descent":
        """Return the descent from w."""
        point = evaluate(objective, w)
        point.stiffness = first_stiffness(point) if stiffness is None else stiffness
        return cls(objective, point)

    def advance(self) -> bool:
        """Go to the next point; tell whether there is one."""
        point = self.point
        new = _step(self.objective, point, max(self.recent))
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

    def tree(self) -> Tree:
        """Return where it is."""
        return {"point": dict(vars(self.point)), "recent": np.array(self.recent)}

    @classmethod
    def restored(cls, saved: Saved, objective: Objective) -> "Descent":
        """Undo `tree`."""
        return cls(objective, restored_point(saved.part("point"), objective.n_features), saved.numbers("recent"))


def restored_point(saved: Saved, n_features: int) -> Point:
    """Return the point whose fields were kept."""
    w, gradient = saved.vector("w", n_features), saved.vector("gradient", n_features)
    return Point(w, saved.real("value"), gradient, saved.flag("exact"), saved.real("stiffness"))


class Stage:
    """A descent at one temperature, with the lowest point so far.

    Parameters
    ----------
    temperature : float
        Of the soft objective.
    descent : Descent
        At its first point.
    """

    def __init__(self, temperature: float, descent: Descent) -> None:
        self.temperature, self.descent = temperature, descent
        self.best = descent.point
        self.values: list[float] = []
        """The lowest value after each round."""
        self.finished = False

    def close_round(self, hard: Objective, monitor: Monitor, tol: float) -> None:
        """Note the present point; look at the hard objective now and then, and see whether ten rounds brought much."""
        point, values = self.descent.point, self.values
        if point.value < self.best.value:
            self.best = point
        values.append(self.best.value)
        if len(values) % SPAN == 0:
            monitor.offer(self.best.w, hard.value(self.best.w))
        self.finished = len(values) > SPAN and values[-1 - SPAN] - values[-1] <= 10.0 * tol * abs(values[-1])
        monitor.close_round()

    def tree(self) -> Tree:
        """Return where it is."""
        return {
            "temperature": self.temperature,
            "descent": self.descent.tree(),
            "best": dict(vars(self.best)),
            "values": np.array(self.values),
            "finished": self.finished,
        }

    @classmethod
    def restored(cls, saved: Saved, soften: Callable[[float], Objective | None]) -> "Stage":
        """Undo `tree`; `soften` gives the soft objective of a temperature."""
        temperature = saved.real("temperature")
        soft = soften(temperature)
        if soft is None:
            raise ValueError("the task has no soft inference")
        stage = cls(temperature, Descent.restored(saved.part("descent"), soft))
        stage.best = restored_point(saved.part("best"), soft.n_features)
        stage.values, stage.finished = saved.numbers("values"), saved.flag("finished")
        return stage


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
