"""Proximal descent for nonsmooth regularizers such as group norms, with exact zeros, with or without latents."""

import math
from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.types import Vector, Weights
from latentstruct.core.validation import Constraint, boolean, integer, is_ordered, real
from latentstruct.exceptions import InputError
from latentstruct.persistence.state_trees import CONTEXT, Range, load_state_dict, state_dict
from latentstruct.planes.plane import Plane
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.bundle import dense_planes
from latentstruct.solvers.lbfgs import FALL, MAX_TRIALS, SPAN, descend
from latentstruct.solvers.plane_model import PlaneModel

# Ratio of successive temperatures, and where the hard objective takes over.
COOLING = 1.0 / 3.0
COLDEST = 0.003
# Minimum fraction of the predicted decrease for a serious step; with half of it, steps become longer.
SERIOUS, GOOD = 0.1, 0.5
# Null steps after which steps become shorter.
NULL_STEPS = 4
# The proximal term is treated as zero at this fraction of its first weight.
LOOSEST = 1e-3
# The bundle ends when the predicted decrease is less than this fraction of the tolerance.
PRECISION = 0.1
# A step is accepted if it decreases the highest of the last values by this fraction of the prediction.
SUFFICIENT = 1e-3
REMEMBERED_VALUES = 5


@dataclass
class Point:
    """Ω + f⁺ − f⁻ at w, with the gradient of f⁺ − f⁻ alone."""

    w: Weights
    value: float
    gradient: Weights
    exact: bool
    stiffness: float = 0.0
    """Estimated curvature; a proximal step has the length 1/stiffness."""


def evaluate(objective: Objective, w: Vector) -> Point:
    """Evaluate both sides of the objective at w."""
    plus, minus = objective.plus.total(w), objective.minus.total(w)
    value = objective.regularizer.value(w) + (plus(w) - minus(w))
    return Point(w, value, plus.slope - minus.slope, plus.exact and minus.exact)


@dataclass
class Descent:
    """Descent by proximal steps of spectral length.

    The curvature along the last step, s·y/s·s (Barzilai & Borwein), sets the length of the next. It is as fast as
    accelerated schemes without a second evaluation per step. A point may be above the previous one, but not above all
    of the last five (Wright, Nowak & Figueiredo 2009).

    """

    point: Point  # with the initial curvature of the next step
    recent: deque[float]  # values of the last points
    values: deque[float] = field(default_factory=deque)  # the lowest values so far, see `descend`

    def __post_init__(self) -> None:
        self.recent = deque(self.recent, maxlen=REMEMBERED_VALUES)
        self.values = deque(self.values, maxlen=SPAN)

    @classmethod
    def begun(cls, objective: Objective, w: Vector, stiffness: float | None = None) -> "Descent":
        """Return the descent from w."""
        point = evaluate(objective, w)
        # By default, a plain step would bring the value to about zero.
        steepness = float(point.gradient @ point.gradient) / max(abs(point.value), 1e-300)
        point.stiffness = max(steepness, 1e-12) if stiffness is None else stiffness
        return cls(point, deque([point.value]))

    def advance(self, objective: Objective) -> bool:
        """Go to the next point; return whether there is one."""
        point = self.point
        new = _step(objective, point, max(self.recent))
        if new is None:
            return False
        moved = new.w - point.w
        bend = float(moved @ (new.gradient - point.gradient))
        square = float(moved @ moved)
        # Negative curvature gives no length: the next step may be longer.
        new.stiffness = bend / square if bend > 0 else new.stiffness / 4.0
        self.recent.append(new.value)
        self.point = new
        return True


@dataclass
class Stage:
    """A descent at one temperature of the soft objective."""

    temperature: float
    descent: Descent
    best: Point  # the lowest so far
    values: list[float] = field(default_factory=list)  # the lowest after each iteration
    finished: bool = False  # whether the last iterations gained little

    def close_iteration(self, hard: Objective, monitor: Monitor, tol: float) -> None:
        """Store the current point; evaluate the hard objective regularly, and check the gain of ten iterations."""
        point, values = self.descent.point, self.values
        if point.value < self.best.value:
            self.best = point
        values.append(self.best.value)
        if len(values) % SPAN == 0:
            monitor.offer(self.best.w, *hard.evaluate(self.best.w))
        self.finished = len(values) > SPAN and values[-1 - SPAN] - values[-1] <= 10.0 * tol * abs(values[-1])
        monitor.close_iteration()


def _step(objective: Objective, point: Point, highest: float) -> Point | None:
    """Return the result of a proximal step, shortened until it descends; None if w is stationary up to rounding."""
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


@dataclass(eq=False, repr=False)
class Proximal(BaseSolver):
    """Proximal descent: for group norms and other Ω with a proximal map, on any objective, with exact zeros.

    A smooth objective (CRF, hidden CRF) is descended by proximal gradient steps of spectral length. A hard one is
    descended by a proximal bundle: all planes of f⁺ found so far, f⁻ replaced by its plane at the best point v, and
    ρ/2‖w − v‖² added; v moves, and f⁻ with it, whenever the true objective decreases by a tenth of the prediction. So
    each completion of the latents is used for one step, the planes of f⁺ for all.

    With latent variables several descents are run from each start, and the lowest result is kept: one per initial
    temperature, through soft objectives whose two sides are pooled at a decreasing temperature, and one
    by the bundle directly. The soft ones avoid many poor minima of the hard objective, but none is always best.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative gap to certify if the objective is convex and Ω gives a bound (`GroupNorm` without unpenalized weights,
        `L2`). Otherwise the predicted relative decrease of a step, or that of ten iterations, at which it stops.
    max_iter, max_seconds : number
        Limits; an iteration is a step.
    smoothing : tuple of float, default=(1.0, 0.1)
        Initial temperatures of the soft descents, for losses of about 1; empty for none. Not used for tasks without
        soft inference.
    max_planes : int, default=60
        Planes kept in the bundle (memory max_planes · d).
    restarts : int, default=1
        Number of starts if the objective is not convex; the best is kept. They differ by the initial latents
        (`Objective.starts`), so not when w0 is given.
    direct : bool, default=True
        Whether a direct descent by the bundle follows the soft ones. It takes most of the time, and is rarely
        the best if w0 comes from a similar objective.
    cache_mb : float, optional
        Maximum megabytes of kept planes; at least four are kept. By default there is no limit.

    Notes
    -----
    The bound of convex objectives: f⁺ − f⁻ is at least 0 and at least any combination b + g·w of planes, so at least
    t(b + g·w) for t in [0, 1]; for the largest t with t‖g^p‖ ≤ λ_p, Ω(w) + t·g·w ≥ 0 and t·b bounds the minimum.
    """

    needs = frozenset({"difference"})
    constraints: ClassVar = {
        "smoothing": Constraint(
            lambda value: is_ordered(value) and all(map(real(0.0).accepts, value)), "a tuple of finite numbers above 0"
        ),
        "direct": boolean,
        "max_planes": integer(4),
    }
    has_restarts = True
    takes_latents = True

    tol: float = 1e-3
    max_iter: int = 2000
    max_seconds: float = float("inf")
    smoothing: tuple[float, ...] = (1.0, 0.1)
    max_planes: int = 60
    restarts: int = 1
    direct: bool = True
    cache_mb: float | None = None

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        if "smooth" in objective.properties:
            self._descend_smooth(objective, monitor, w)
            return
        # Changing the number of planes reallocates all of them.
        most = dense_planes(self.cache_mb, objective.n_features, self.max_planes, least=4, copies=2)
        fits = isinstance(state, PlaneModel) and state.most <= most
        new = PlaneModel(most, objective.plus.weights, np.empty((0, objective.n_features)))
        model = state if fits and state.rescale(objective.plus.weights) else new
        _Run(self, objective, monitor, w, model, self.direct).run()
        if not monitor.reason:
            monitor.finish("stalled" if math.isfinite(monitor.gap) else "converged")

    def _descend_smooth(self, objective: Objective, monitor: Monitor, w: Vector) -> None:
        earlier, regularizer = monitor.resumed_state(Descent), objective.regularizer

        def bound(point: Point) -> float:
            """Return the bound from the tangent of f⁺ − f⁻."""
            height = point.value - regularizer.value(point.w) - float(point.gradient @ point.w)
            return regularizer.lower_bound(point.gradient, height)

        known = bound if "convex" in objective.properties else None
        descent = earlier or Descent.begun(objective, w)
        if not descend(objective, monitor, descent, earlier is not None, known, FALL * self.tol):
            monitor.finish("converged" if not math.isfinite(monitor.lower_bound) else "stalled")


@dataclass
class _Run:
    """One start on a hard objective: descents through soft ones, the bundle after each, and the bundle directly.

    `place` is the index of the current initial temperature; after the last one, the bundle runs directly.
    """

    settings: Proximal = field(metadata=CONTEXT)
    objective: Objective = field(metadata=CONTEXT)
    monitor: Monitor = field(metadata=CONTEXT)
    w: Weights
    model: PlaneModel
    direct: bool
    place: int = 0
    stage: Stage | None = None
    bundle: "_BundleDescent | None" = None

    def __post_init__(self) -> None:
        monitor, smoothing = self.monitor, tuple(self.settings.smoothing)
        self.temperatures = () if "convex" in self.objective.properties else smoothing
        if monitor.resumed:
            with monitor.restoring():
                load_state_dict(self, monitor.solver, self.objective)
                if self.place > len(self.temperatures):
                    raise ValueError(f"place is {self.place}, past the {len(self.temperatures)} temperatures")
        if self.bundle is not None:
            self.bundle.join(self)
        monitor.state, monitor.snapshot = self.model, partial(state_dict, self)

    def run(self) -> None:
        """Run all remaining descents."""
        while self.place < len(self.temperatures) and (self.stage or self.bundle or not self.monitor.reason):
            w = self.w if self.bundle is not None else self._cool(self.temperatures[self.place])
            self.direct = self.direct or w is None
            if self.bundle is not None or (w is not None and not self.monitor.reason):
                self._descend_hard(w)
            self.place += 1
        convex = "convex" in self.objective.properties
        wanted = self.direct or convex or not len(self.settings.smoothing)
        if self.bundle is not None or (wanted and not self.monitor.reason):
            self._descend_hard(self.w)

    def _cool(self, temperature: float) -> Vector | None:
        """Descend soft objectives of decreasing temperature; None if the task has no soft inference."""
        hard, monitor, w, tol, stiffness = self.objective, self.monitor, self.w, self.settings.tol, None
        if self.stage is not None:
            temperature = self.stage.temperature
        elif monitor.best is None:
            monitor.offer(w, *hard.evaluate(w))
        while temperature > COLDEST and (self.stage is not None or not monitor.reason):
            minus = hard.minus if hard.minus.linear else hard.minus.smoothed(temperature)
            soft = replace(hard.smoothed(temperature), minus=minus)
            if self.stage is None:
                try:
                    minus.total(np.zeros(hard.n_features))
                except InputError:
                    return None
                descent = Descent.begun(soft, w, stiffness)
                self.stage = Stage(temperature, descent, descent.point)
                self.stage.close_iteration(hard, monitor, tol)
            # Until ten iterations gain little.
            while not (monitor.reason or self.stage.finished) and self.stage.descent.advance(soft):
                self.stage.close_iteration(hard, monitor, tol)
            w, stiffness = self.stage.best.w, self.stage.descent.point.stiffness / COOLING
            monitor.offer(w, *hard.evaluate(w))
            self.stage = None
            temperature *= COOLING
        return w

    def _descend_hard(self, w: Vector | None) -> None:
        """Descend the objective itself by a proximal bundle, until the predicted decrease is small."""
        if self.bundle is None:
            assert w is not None
            self.bundle = _BundleDescent(w)
            self.bundle.join(self)
            self.bundle.begin(w)
        self.bundle.run()
        self.bundle = None


@dataclass
class _BundleDescent:
    """One descent by the bundle: the center v with its value, and the plane of f⁻ there."""

    center: Weights
    minus: Plane | None = None
    value: float = math.inf
    exact: bool = True
    proximity: float = 0.0
    first: float = 0.0
    nulls: int = 0
    quiet: Annotated[int, Range(0, SPAN)] = 0
    over: bool = False

    def join(self, run: _Run) -> None:
        """Set the objective, the monitor and the model of a run."""
        self.settings, self.objective, self.monitor, self.model = run.settings, run.objective, run.monitor, run.model
        self._watch()

    def _query(self, w: Vector) -> tuple[float, Plane, bool]:
        """Add the plane of f⁺ at w; return the objective there, the plane of f⁻, and whether both are exact."""
        plus, minus = self.objective.plus.total(w), self.objective.minus.total(w)
        self.model.add(plus)
        value = self.objective.regularizer.value(w) + (plus(w) - minus(w))
        if not plus.exact:
            value = max(value, self._modeled(w, minus))
        exact = plus.exact and minus.exact
        self.monitor.offer(w, value, exact)
        return value, minus, exact

    def _modeled(self, w: Vector, minus: Plane) -> float:
        """Return the objective at w with f⁺ replaced by the highest kept plane and f⁻ by a plane."""
        return self.objective.regularizer.value(w) + (self.model.height(w) - minus(w))

    def _watch(self) -> None:
        """Let the monitor compare inexact objectives by the kept planes, if f⁻ is linear."""
        minus = self.minus
        if "convex" in self.objective.properties and minus is not None:
            self.monitor.model = lambda w: self._modeled(w, minus)

    def begin(self, w: Vector) -> None:
        """Start from w."""
        self.value, self.minus, self.exact = self._query(w)
        self._watch()
        slope, _ = self._combined(self.minus)
        self.proximity = self.first = max(float(slope @ slope) / max(abs(self.value), 1e-300), 1e-12)

    def run(self) -> None:
        """Descend until there is a reason to stop, or the predicted decrease is small."""
        tol = PRECISION * self.settings.tol
        while not (self.over or self.monitor.reason):
            assert self.minus is not None
            if not self.exact:
                self.value = max(self.value, self._modeled(self.center, self.minus))
            value = self.value
            gap = 0.1 * tol * abs(value)
            w = self.model.step(self.objective.regularizer, self.minus.slope, self.center, self.proximity, gap)
            predicted = value - self._modeled(w, self.minus)
            slope, offset = self._combined(self.minus)
            if "convex" in self.objective.properties:
                self.monitor.bound(self.objective.regularizer.lower_bound(slope, offset), self.model.below)
            if self.monitor.is_small() and self.monitor.close_iteration():
                return
            if predicted <= tol * abs(value):
                if self.proximity > LOOSEST * self.first:
                    self.proximity *= 0.1
                    continue
                if not math.isfinite(self.monitor.lower_bound) or self.quiet == SPAN:
                    self.over = True
                    self.monitor.close_iteration()
                    return
                # Short steps, whose multipliers are the most precise, and more planes may close the gap.
                self.quiet, self.proximity = self.quiet + 1, self.first * 10.0**self.quiet
            self._move(w, predicted)
            self.monitor.close_iteration()

    def _move(self, w: Vector, predicted: float) -> None:
        """Query at w, and go there if the decrease is a sufficient fraction of the prediction."""
        reached, new_minus, exact = self._query(w)
        if self.value - reached >= SERIOUS * predicted:
            self.proximity *= 0.5 if self.value - reached >= GOOD * predicted else 1.0
            self.center, self.value, self.minus, self.exact, self.nulls = w, reached, new_minus, exact, 0
            return
        self.nulls += 1
        if reached - self.value > 2.0 * predicted or self.nulls >= NULL_STEPS:
            self.proximity *= 2.0

    def _combined(self, minus: Plane) -> tuple[Vector, float]:
        """Return slope and offset of the combination of the planes of f⁺, minus a plane of f⁻."""
        combined = self.model.combination()
        return combined.slope - minus.slope, combined.offset - minus.offset
