"""Multi-plane block-coordinate dual ascent."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from latentstruct._native.vectors import add_scaled
from latentstruct.core.objective import Objective
from latentstruct.core.types import Indices, Vector, Weights
from latentstruct.core.validation import boolean, integer
from latentstruct.planes.store import Masses
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.dual import DualPoint

# Number of parts of the passes over the data before the first iteration: without updates of w first planes are poor.
FIRST_PASSES, PARTS = 2, 8
# Weight of the newest w in the average at which the oracle is queried.
AVERAGE = 0.5
# Iterations after which w is recomputed from the dual variables.
REFRESH_EVERY = 10
# Cost of an oracle call in visits of an example's kept planes, for the rule that ends the sweeps. From 0.5 to 2.5 the
# time of whole trainings on text, handwriting and digits hardly changed.
ORACLE_VISITS = 1.0
# Examples with less than this fraction of the mean gap are skipped in the next sweep.
LEAST_SHARE = 0.1
# Iterations before dual variables are extrapolated, which costs as much as a visit of each example: in short runs most
# of the time is spent on new planes. The same from given weights.
PATIENCE, WARM_PATIENCE, NEVER = 40, 10, 2**62
# Weights per example above which neither extrapolation nor precise solutions over the kept planes pay: most planes that
# are needed are still unknown.
MANY_WEIGHTS = 100
# Maximum sweeps for the problem over the kept planes, and its precision relative to the tolerance or the gap.
SETTLING_SWEEPS, SETTLED = 100, 0.3
# The same, and the weight of the newest w, from nearly optimal dual variables: most planes are known, so that few
# queries suffice. On digits and handwriting 15 to 30 sweeps need a third of the oracle calls of imprecise iterations.
NEAR_SWEEPS, NEAR_AVERAGE = 30, 0.8


def has_many_weights(objective: Objective) -> bool:
    """Return whether there are so few examples for the weights that finding planes takes most of the time."""
    return objective.n_features > MANY_WEIGHTS * objective.n_examples


@dataclass
class Ascent(DualPoint):
    """The state of `BlockAscent`: a dual point, and the average of the iterates at which the oracle is queried."""

    rng: np.random.Generator = field(init=False)
    average: Weights = field(init=False)
    warm: bool = False
    """Whether it starts from given weights."""
    earlier: Masses | None = None
    """The dual variables when they were last extrapolated, before that."""
    visits: int = 0
    """Visits of examples since then."""
    patience: int = PATIENCE
    """Iterations before the first extrapolation."""
    after_bundle: bool = False
    """Whether a bundle has stalled before."""
    near: bool = False
    """Whether it continues from nearly optimal dual variables."""
    precise: bool = False
    """Whether each iteration solves the problem over the kept planes."""
    began: int = 0
    """Iterations before it became precise."""

    def certifies(self) -> bool:
        """Return whether the dual value proves the best weights so far, which then needs no further oracle call."""
        if not self.monitor.is_small(self.monitor.objective - self.value):
            return False
        self.refresh()
        self.monitor.bound(self.value, self.store.below)
        return self.monitor.is_small()

    def sweep(self, rows: Indices, steps: int) -> tuple[Vector, float]:
        """Improve the listed examples one by one; return their gaps before, and the gain of the dual value.

        Steps of single examples undo parts of each other's, so that many sweeps drift slowly in the same directions.
        After as many visits as there are examples, all dual variables are therefore extrapolated along the line from
        those of the last time.
        """
        gaps, gain = self.ascend(rows, steps=steps)
        self.visits += len(rows)
        if self.visits < len(self.every) or len(self.monitor.history) < self.patience:
            return gaps, gain
        latest, self.visits = self.store.masses(), 0
        if self.earlier is not None:
            change, further = self.store.extrapolate(self.earlier, self.w)
            self.offset += change
            gain += further
        self.earlier = latest
        return gaps, gain


@dataclass(eq=False, repr=False)
class BlockAscent(BaseSolver):
    """Block-coordinate ascent of the dual over several planes per example.

    An iteration improves each example's dual variables over all its kept planes by SMO steps, in sweeps over the
    examples, as long as a sweep gains more per visit than the oracle call did. Then the oracle is queried
    for all examples at an average of the recent w, which gives the exact objective there and new planes. The dual value
    is a lower bound at any time, so every iteration ends with a certified gap. Before the first iteration two passes
    over the data query the oracle in parts. From given weights there are no such passes; the problem over the kept
    planes is solved in each iteration, and the oracle is queried halfway between its solution and the best weights. If
    these weights are optimal, training ends after the first pass as soon as its planes prove it; several outputs of
    equal score per example need a pass for each, as the oracle finds one of them only.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap (P − D)/P to certify.
    max_iter, max_seconds : number
        Limits.
    max_sweeps : int, default=10
        Maximum sweeps over kept planes per iteration. With a costly oracle or large C, 50 may be faster.
    steps : int, default=50
        Maximum SMO steps per visit of an example.
    max_planes : int, optional
        Maximum planes kept per example. If an example needs more, the two with the least dual mass are replaced by
        their mean. By default as many as keep the Gram matrices of all examples below 1 GB, from 50 to 1000.
    settle : bool, default=True
        Whether a run that continues from planes of an earlier call first solves the problem over these. Not needed if
        their dual variables are nearly optimal, as with slightly different weights of the examples: each iteration then
        solves that problem.
    random_state : int, default=0
        Seed of the order of examples.
    cache_mb : float, optional
        Maximum megabytes of kept planes. The least useful planes are dropped if there is no space, which
        costs iterations; with two or three per example the gap may not close. By default there is no limit.

    Notes
    -----
    The objective at w itself lags far behind the dual value: it follows errors of w in first order, the dual value
    in second order. An exponential average of the iterates has a smaller gap in the last iterations.

    See Also
    --------
    HingeSolver : The default for the hinge, which switches to `Bundle` if blocks make no progress.
    """

    needs = frozenset({"convex", "planes", "l2"})
    # One plane carries the mass, so a second is needed to move it to.
    constraints: ClassVar = {
        "steps": integer(1),
        "max_sweeps": integer(0),
        "max_planes": integer(2) | None,
        "settle": boolean,
    }

    tol: float = 1e-3
    max_iter: int = 10000
    max_seconds: float = float("inf")
    max_sweeps: int = 10
    steps: int = 50
    max_planes: int | None = None
    settle: bool = True
    random_state: int = 0
    cache_mb: float | None = None

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        self._ascend(objective, monitor, w, state)

    def _ascend(
        self,
        objective: Objective,
        monitor: Monitor,
        w: Vector,
        state: Any,
        gives_up: Callable[[Ascent], bool] = lambda point: False,
        after_bundle: bool = False,
    ) -> Ascent:
        """Run until a limit or the tolerance is reached, or until it gives up."""
        point = Ascent(objective, monitor, w, state, self.max_planes, self.cache_mb)
        # The best weights so far are always known.
        monitor.closing = None
        if not monitor.resumed:
            self._prepare(point, w, state is None, after_bundle)
        if not (monitor.resumed or point.warm):
            if state is not None and self.settle:
                self._settle(point)
            if state is None or self.settle:
                point.average = point.w.copy()
            point.query(point.average)
            for _ in range(FIRST_PASSES if state is None else 0):
                # Each part is queried at the w that results from the earlier ones.
                for rows in np.array_split(point.rng.permutation(point.every), min(PARTS, len(point.every))):
                    point.query_rows(rows)
                    point.ascend(rows, steps=self.steps)
            if state is not None and monitor.is_small():
                monitor.close_iteration()
        while not (monitor.reason or gives_up(point)):
            if not self._advance(point):
                point.query(point.average)
            monitor.close_iteration()
        return point

    def _prepare(self, point: Ascent, w: Vector, cold: bool, after_bundle: bool) -> None:
        """Set how a new run proceeds; `cold` if there are no kept planes."""
        point.rng, point.average = np.random.default_rng(self.random_state), w
        point.began, point.warm = len(point.monitor.history), cold and bool(w.any())
        point.near, many = not cold and not self.settle, has_many_weights(point.objective)
        point.after_bundle = after_bundle
        # After a bundle has stalled, only precise iterations may still gain something.
        point.precise = after_bundle or (point.near and not many)
        if point.near:
            # Only the slow last part remains.
            point.patience = 0
        elif many:
            point.patience = NEVER
        elif point.warm:
            point.patience = WARM_PATIENCE

    def _advance(self, point: Ascent) -> bool:
        """Improve the dual variables, and move the average to query at; return whether no further query is needed."""
        point.store.tick()
        iterations, share = len(point.monitor.history) + 1, AVERAGE
        if not (point.precise or point.warm):
            self._sweep(point)
        else:
            self._settle(point)
            if point.certifies():
                return True
        if point.warm:
            # The objective is low at the best weights, but the planes that are active near them are missing.
            assert point.monitor.best is not None
            point.average = point.monitor.best
        else:
            share = max(NEAR_AVERAGE if point.near and point.precise else AVERAGE, 2.0 / (iterations + 1))
        point.average = (1.0 - share) * point.average
        add_scaled(point.w, share, point.average)
        if iterations % REFRESH_EVERY == 0:
            point.refresh()
        return False

    def _sweep(self, point: Ascent) -> None:
        """Increase the dual over the kept planes while that gains more per visit than new planes did."""
        rows = point.rng.permutation(point.every)
        gaps, gain = point.sweep(rows, self.steps)
        least = gain / ((1.0 + ORACLE_VISITS) * len(rows))
        for _ in range(self.max_sweeps):
            # Examples with a small gap are not visited again before they get new planes. The order stays random:
            # neighbors in the data are often similar, and in sequence they undo each other's steps.
            rows = point.rng.permutation(rows[gaps >= LEAST_SHARE * gaps.mean()])
            if len(rows) == 0:
                # The gaps are not finite, which the next query reports.
                return
            gaps, gain = point.sweep(rows, self.steps)
            if gain <= least * len(rows):
                return

    def _settle(self, point: Ascent) -> None:
        """Solve the problem over the kept planes, which costs no oracle calls.

        The masses of an earlier call belong to another linear part or other weights, so w is far from any
        useful point. Most of the gap soon lies in a few examples: these are visited ten times per visit of all.
        """
        sweeps = NEAR_SWEEPS if point.near else SETTLING_SWEEPS
        visits, objective = sweeps * len(point.every), point.monitor.objective
        while visits > 0:
            rows = point.rng.permutation(point.every)
            gaps, _ = point.sweep(rows, self.steps)
            visits -= len(rows)
            value = point.value
            goal = SETTLED * max(self.tol * abs(value), objective - value if math.isfinite(objective) else 0.0)
            if gaps.sum() <= goal:
                return
            for _ in range(10):
                rows = point.rng.permutation(rows[gaps > 0.3 * gaps.mean()])
                gaps, _ = point.sweep(rows, self.steps)
                visits -= len(rows)
                if gaps.sum() <= 0.3 * goal:
                    break
