"""One-slack cutting planes and the proximal bundle method."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.simplex_qp import solve_simplex_qp
from latentstruct.core.objective import Objective
from latentstruct.core.oracles import BaseOracle
from latentstruct.core.types import Array, Vector, Weights
from latentstruct.core.validation import Constraint, boolean, integer, is_integer, real
from latentstruct.exceptions import InputError
from latentstruct.persistence.state_trees import (
    CONTEXT,
    Numbers,
    Range,
    load_state_dict,
    state_dict,
)
from latentstruct.planes.memory import MEGABYTE
from latentstruct.planes.plane import Plane
from latentstruct.planes.store import PlaneStore
from latentstruct.solvers import solver_state  # noqa: F401 - registers how plane stores are stored
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.plane_model import TotalPlanes

# Precision of the QP over the planes, relative to the wanted gap.
QP_SHARE = 1e-3
# Iterations between two exact oracle calls that may use cached planes.
MOST_CACHED_ITERATIONS = 10
STALLED_ITERATIONS = 200
# The proximal term is kept while the predicted decrease of a step is between these fractions of the gap.
LEAST_PREDICTED, MOST_PREDICTED = 0.2, 0.5
PROXIMITY_FACTOR = 1.5
PROXIMITY_RANGE = (0.1, 1e8)
# Memory of a bundle by default, and its largest number of planes.
BUNDLE_BYTES, MOST_PLANES = 1e9, 200
# Minimum number of dense planes of a bundle: two combinations of earlier ones, for steps and bound, and a new one.
LEAST_PLANES = 3


class Shares(NamedTuple):
    """Limits of a bundle: dense planes, and megabytes of the planes of single examples (None: no limit)."""

    planes: int
    store_mb: float | None


def plane_bytes(n_features: int, most: int) -> int:
    """Return the bytes of one of `most` dense planes, with its row of the Gram matrix and its numbers."""
    return 8 * (n_features + most + 4)


def affordable_planes(n_features: int) -> int:
    """Return the number of dense planes that a bundle keeps by default."""
    return int(min(MOST_PLANES, max(10, BUNDLE_BYTES / (8 * n_features))))


def dense_planes(cache_mb: float | None, n_features: int, most: int, least: int = LEAST_PLANES, copies: int = 1) -> int:
    """Return the number of dense planes that fit, at most `most`, or raise if too few fit.

    `copies` is the number of simultaneous arrays of them.
    """
    if cache_mb is None:
        return most
    one = copies * plane_bytes(n_features, most)
    least = min(least, most)
    if cache_mb * MEGABYTE < least * one:
        expected = f"at least {least * one / MEGABYTE:.3g}, for {least} planes of {n_features} weights"
        raise InputError("cache_mb", cache_mb, expected, "Or use a solver that keeps no planes, such as Subgradient.")
    return min(most, int(cache_mb * MEGABYTE / one))


def shared_out(cache_mb: float | None, n_features: int, most: int) -> Shares:
    """Divide the memory between dense planes, up to half of it, and planes of single examples."""
    if cache_mb is None:
        return Shares(most, None)
    one = plane_bytes(n_features, most)
    fewest = min(LEAST_PLANES, most)
    planes = min(dense_planes(cache_mb, n_features, most), max(fewest, int(0.5 * cache_mb * MEGABYTE / one)))
    return Shares(planes, cache_mb - planes * one / MEGABYTE)


@dataclass
class Progress:
    """Detects a gap that no longer decreases because of rounding."""

    best: float = math.inf
    idle: int = 0

    def stalled(self, gap: float) -> bool:
        """Return whether the gap has not decreased by a thousandth for many iterations."""
        if gap < 0.999 * self.best:
            self.best, self.idle = gap, 0
        else:
            self.idle += 1
        return self.idle >= STALLED_ITERATIONS


@dataclass
class PlaneBundle(TotalPlanes):
    """Total planes of the plus side, their Gram matrix, and multipliers of the model's minimum.

    The model is ½‖w‖² + max_k (b_k + g_k·w) − l·w − m. Its minimizer near a center v, with the term
    ρ/2‖w − v‖² added, is w = (l + ρv − Σ α_k g_k)/(1 + ρ) for the α in the simplex that solves a small QP. The
    minimum without that term (ρ = 0) is the best bound from the planes, so both are kept, as `near` and `far`.
    """

    most: Annotated[int, Range(2)]
    proximity: float = 0.0
    gram: Annotated[NDArray[np.float64], Array(("k", "k"))] = field(default_factory=lambda: np.zeros((0, 0)))
    far: Numbers = field(default_factory=lambda: np.zeros(0))
    near: Numbers = field(default_factory=lambda: np.zeros(0))
    remembered: PlaneStore | None = None
    """Planes of single examples, if the solver keeps these too."""
    pace: float = 0.0
    """Decrease of log(gap) per oracle pass of the solver that found the first planes; 0 if unknown."""
    linear: Plane = field(default=None, metadata=CONTEXT)  # type: ignore[assignment]
    """l and m, set by each run."""

    def __post_init__(self) -> None:
        if self.most < self.size:
            raise ValueError(f"there are {self.size} planes, more than {self.most}")
        if self.remembered is not None:
            self.remembered.weights = self.weights

    def rescale(self, weights: Vector) -> bool:
        factor = weights.sum() / self.weights.sum()
        if not super().rescale(weights):
            return False
        self.gram *= factor * factor
        return True

    def add(self, plane: Plane) -> None:
        """Add a plane; if the bundle is full, the longest unused one is dropped."""
        self.below = self.below and plane.below
        if self.size == self.most and self.idle.max() == 0:
            self._aggregate()
        if self.size < self.most:
            k, first = self.size, float(self.size == 0)
            self._resize(k + 1)
            self.far[k] = self.near[k] = first
        else:
            k = int(self.idle.argmax())
        self.slopes[k], self.offsets[k], self.idle[k] = plane.slope, plane.offset, 0
        self.gram[k] = self.gram[:, k] = self.slopes @ plane.slope

    def _resize(self, k: int) -> None:
        """Keep the first k planes, or allocate space for k."""
        # In place: the slopes use most of the memory, and there is no space for a copy.
        self.slopes.resize((k, self.slopes.shape[1]), refcheck=False)
        for name in ("offsets", "idle", "far", "near"):
            setattr(self, name, np.resize(getattr(self, name), k))
        gram, kept = np.zeros((k, k)), min(k, len(self.gram))
        gram[:kept, :kept] = self.gram[:kept, :kept]
        self.gram = gram

    def _aggregate(self) -> None:
        """Replace the lighter half of the planes by the combinations of all: for the steps, and for the bound."""
        chosen = [self.near, self.far] if self.proximity > 0 and self.most > 2 else [self.near]
        combined, size = [self.combination(alpha) for alpha in chosen], self.size
        kept = np.sort(np.argsort(-np.maximum(self.near, self.far), kind="stable")[: (size - len(chosen)) // 2])
        k = len(kept)
        for array in (self.slopes, self.offsets, self.idle):
            array[:k] = array[kept]
        self._resize(k + len(chosen))
        for place, plane in enumerate(combined, k):
            self.slopes[place], self.offsets[place], self.idle[place] = plane.slope, plane.offset, 0
        self.gram = self.slopes @ self.slopes.T
        self.near, self.far = np.eye(self.size)[k], np.eye(self.size)[-1]

    def solve(self, center: Vector, precision: float) -> None:
        """Find the multipliers of the model's minimum to a precision, with and without the proximal term."""
        self.far = self._solved(self.far, 0.0, center, precision)
        self.near = self._solved(self.near, self.proximity, center, precision) if self.proximity else self.far
        self.idle = np.where((self.far > 0) | (self.near > 0), 0, self.idle + 1)

    def _solved(self, alpha: Vector, proximity: float, center: Vector, precision: float) -> Vector:
        pull = (self.linear.slope + proximity * center) / (1.0 + proximity)
        gram, gains = self.gram / (1.0 + proximity), self.offsets + self.slopes @ pull
        alpha = alpha.copy()
        scale = max(np.abs(gains).max(), np.diag(gram).max(), 1e-300)
        solve_simplex_qp(gram, gains, alpha, min(1e-10 * scale, precision), 100 * self.size + 1000)
        return alpha

    def adapt(self, predicted: float, kept: bool) -> None:
        """Change the proximal term by the predicted decrease of a step relative to the gap, and by its success."""
        lowest, highest = PROXIMITY_RANGE
        if predicted < LEAST_PREDICTED and self.proximity > lowest:
            self.proximity = max(self.proximity / PROXIMITY_FACTOR, lowest)
        elif predicted > MOST_PREDICTED and not kept and 0.0 < self.proximity < highest:
            self.proximity = min(self.proximity * PROXIMITY_FACTOR, highest)

    def combination(self, alpha: Vector) -> Plane:
        """Return Σ α_k (b_k + g_k·w) as one plane."""
        return Plane(alpha @ self.slopes, float(alpha @ self.offsets))

    def point(self, center: Vector) -> Vector:
        """Return the model's minimizer near the center."""
        pull = self.linear.slope + self.proximity * center
        return (pull - self.combination(self.near).slope) / (1.0 + self.proximity)

    def bound(self) -> float:
        """Return the minimum of the model, which is below the objective."""
        combined = self.combination(self.far)
        w = self.linear.slope - combined.slope
        return -0.5 * float(w @ w) + combined.offset - self.linear.offset

    def model(self, w: Vector) -> float:
        """Return the model's value at w."""
        top = float((self.offsets + self.slopes @ w).max())
        return 0.5 * float(w @ w) + top - self.linear(w)


@dataclass(eq=False, repr=False)
class Bundle(BaseSolver):
    """One-slack cutting planes, by default with a proximal term.

    Each iteration adds one plane, the sum over all examples, and solves a small QP over all planes so far. The number
    of planes needed does not grow with the number of examples. Only totals of the oracle are used (unless planes
    are cached), so this also works for problems with one huge example or with distributed data.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative gap (P − D)/P to certify.
    max_iter, max_seconds : number
        Limits.
    proximity : float, default=10.0
        Weight ρ of the proximal term ρ/2‖w − v‖² in the first iteration; 0 gives plain 1-slack cutting planes. v moves
        to w when the objective decreases by a tenth of the prediction (a serious step), otherwise only the model
        improves. On handwritten words ρ = 10 halves the iterations.
    max_planes : int, optional
        Maximum planes in the bundle (memory max_planes · d). By default 200, or as many as 1 GB holds, at least 10.
    cached_planes : int, default=0
        Planes cached per example. If above 0, iterations use them instead of the oracle while that improves the model
        by a tenth of the gap, for at most 10 iterations before the next call of the exact oracle.
    adaptive : bool, optional
        Whether ρ changes between iterations. It grows if a step with a predicted decrease of more than half of the gap
        fails, and shrinks if the predicted decrease is less than a fifth. With F1 and the ROC
        area of 4000 rows as losses this saves more for larger C: 88 iterations against 136 and 44 against 159 at
        C = 1e4, 147 against 563 and 60 against more than 600 at 1e5. With many small structures it takes up to 1.8
        times the iterations (classes of digits at C = 100), so by default it is used only if there is a single example.
    cache_mb : float, optional
        Maximum megabytes of all kept planes; with `cached_planes` the bundle has at most half of them. Fewer planes
        are then kept, at least three in the bundle, which costs iterations. By default there is no limit.
    """

    needs = frozenset({"convex", "l2"})
    constraints: ClassVar = {
        "proximity": real(0.0, closed="left"),
        "max_planes": integer(2) | None,
        "cached_planes": integer(2) | Constraint(lambda value: is_integer(value) and value == 0, "0"),
        "adaptive": boolean | None,
    }

    tol: float = 1e-3
    max_iter: int = 5000
    max_seconds: float = float("inf")
    proximity: float = 10.0
    max_planes: int | None = None
    cached_planes: int = 0
    adaptive: bool | None = None
    cache_mb: float | None = None

    def check(self, objective: Objective) -> None:
        super().check(objective)
        if self.cached_planes and "planes" not in objective.properties:
            expected = "0 for an objective without planes of single examples (shards return sums only)"
            raise InputError("cached_planes", self.cached_planes, expected)

    def _run(
        self,
        objective: Objective,
        monitor: Monitor,
        w: Vector,
        state: Any,
        gives_up: Callable[["Descent"], bool] | None = None,
    ) -> None:
        bundle = self._bundle(objective, objective.minus.total(w), None if monitor.resumed else state)
        bundle.remembered = None if state is None else state.remembered
        run = Descent(self, objective, monitor, bundle, w)
        if not monitor.resumed:
            run.begin()
        while not monitor.reason and (gives_up is None or not gives_up(run)):
            run.step()

    def _shares(self, objective: Objective) -> Shares:
        """Return the maximum numbers of planes of both kinds."""
        d, most = objective.n_features, self.max_planes
        if most is None:
            most = affordable_planes(d) if self.cache_mb is None else MOST_PLANES
        if self.cached_planes:
            return shared_out(self.cache_mb, d, most)
        return Shares(dense_planes(self.cache_mb, d, most), None)

    def _bundle(self, objective: Objective, linear: Plane, state: PlaneBundle | None) -> PlaneBundle:
        """Continue with an earlier bundle if the examples' weights changed only by a factor, else start a new one."""
        weights = objective.plus.weights
        most = self._shares(objective).planes
        if state is None or state.most > most or not state.rescale(weights):
            state = PlaneBundle(most, weights, np.empty((0, objective.n_features)), proximity=self.proximity)
        state.linear = linear
        return state

    def inheriting(self, objective: Objective, store: PlaneStore) -> PlaneBundle:
        """Return the state of a bundle that starts from the dual point and the planes of single examples of a store."""
        bundle = self._bundle(objective, objective.minus.total(np.zeros(objective.n_features)), None)
        bundle.add(store.combination())
        bundle.remembered = store
        return bundle


def remembered_total(oracle: BaseOracle, store: PlaneStore, w: Vector) -> Plane:
    """Query an oracle for the planes at w, keep them, and return their sum, using kept planes if it is not exact."""
    planes = oracle.planes(w)
    store.append(np.arange(oracle.n_examples), planes, np.zeros(oracle.n_features))
    return planes.total(oracle.weights) if planes.all_exact else store.highest(w)[0]


@dataclass
class Descent:
    """One run of `Bundle`: the center with its value, the next point w, and the planes."""

    settings: Bundle = field(metadata=CONTEXT)
    objective: Objective = field(metadata=CONTEXT)
    monitor: Monitor = field(metadata=CONTEXT)
    bundle: PlaneBundle
    center: Weights
    value: float = math.inf
    center_exact: bool = True
    w: Weights = field(default_factory=lambda: np.zeros(0))
    progress: Progress = field(default_factory=Progress)
    n_cached: int = 0
    first_call: int = 0
    """Oracle calls before this run."""

    def __post_init__(self) -> None:
        settings, objective, monitor = self.settings, self.objective, self.monitor
        self.adaptive = objective.n_examples == 1 if settings.adaptive is None else settings.adaptive
        if monitor.resumed:
            linear = self.bundle.linear
            with monitor.restoring():
                load_state_dict(self, monitor.solver, objective)
            self.bundle.linear = linear
        monitor.state, monitor.snapshot, monitor.model = self.bundle, partial(state_dict, self), self._model
        most, bundle = settings.cached_planes, self.bundle
        if most:
            store_mb, store = settings._shares(objective).store_mb, bundle.remembered
            most_bytes = None if store_mb is None else store_mb * MEGABYTE
            if store is None or store.most_bytes != most_bytes:
                first = objective.minus.planes(self.center)
                store = PlaneStore(first, objective.weights, most, most_bytes=most_bytes)
            store.weights, bundle.remembered = objective.weights, store

    def begin(self) -> None:
        """Query the oracle at the initial weights."""
        history = self.monitor.history
        self.first_call = history[-1].oracle_calls if history else 0
        plane, self.value = self._query(self.center)
        self.center_exact = plane.exact
        self._improve(plane)

    def _query(self, w: Vector) -> tuple[Plane, float]:
        """Return the plane at w and the objective there, using the model if that is higher than an inexact value."""
        plus, store = self.objective.plus, self.bundle.remembered
        plane = plus.total(w) if store is None else remembered_total(plus, store, w)
        value = self._value(plane, w) if plane.exact else max(self._value(plane, w), self._model(w))
        self.monitor.offer(w, value, plane.exact)
        return plane, value

    def _model(self, w: Vector) -> float:
        """Return the highest value below the objective that follows from the kept planes."""
        value = self.bundle.model(w) if self.bundle.size else -math.inf
        if self.bundle.remembered is None:
            return value
        return max(value, self._value(self.bundle.remembered.highest(w)[0], w))

    def _improve(self, plane: Plane) -> None:
        """End an iteration: add a plane and find the next point."""
        bundle, monitor = self.bundle, self.monitor
        bundle.add(plane)
        bundle.solve(self.center, QP_SHARE * self.settings.tol * abs(monitor.objective))
        monitor.current = self.w = bundle.point(self.center)
        monitor.bound(bundle.bound(), bundle.below)
        if self.progress.stalled(monitor.gap):
            monitor.reason = "stalled"
        monitor.close_iteration()

    def step(self) -> None:
        """Query at the next point, and move the center there if the decrease is near the prediction."""
        w, expected = self.w, self.bundle.model(self.w)
        self.monitor.require_finite(expected)
        if not self.center_exact:
            self.value = max(self.value, self._model(self.center))
        if self.settings.cached_planes and self.n_cached < MOST_CACHED_ITERATIONS:
            assert self.bundle.remembered is not None
            plane, _ = self.bundle.remembered.highest(w)
            if self._value(plane, w) - expected >= 0.1 * self.monitor.gap:
                self.n_cached += 1
                self._improve(plane)
                return
        self.n_cached = 0
        plane, reached = self._query(w)
        predicted, serious = self.value - expected, self.value - reached >= 0.1 * (self.value - expected)
        if self.adaptive:
            self.bundle.adapt(predicted / max(self.value - self.monitor.lower_bound, 1e-300), serious)
        if serious:
            self.center, self.value, self.center_exact = w, reached, plane.exact
        self._improve(plane)

    def _value(self, plane: Plane, w: Vector) -> float:
        return 0.5 * float(w @ w) + (plane(w) - self.bundle.linear(w))
