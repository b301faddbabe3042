"""Block ascent that switches to the bundle if blocks make little progress, and back if the bundle makes less."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Iteration
from latentstruct.core.types import Vector
from latentstruct.core.validation import boolean, integer
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.block_ascent import Ascent, BlockAscent
from latentstruct.solvers.bundle import MOST_PLANES, Bundle, Descent, PlaneBundle, affordable_planes

CACHED_PLANES = 50
# Number of periods of `patience` iterations, each as good as the last, that block ascent may still need.
MOST_SPELLS = 5
# Factor of the patience with more weights than examples, when a bundle may need as many planes as there are weights.
MORE_PATIENCE = 10
# Fraction of the patience with given weights, from which few iterations suffice if blocks make progress.
LESS = 4
# Fraction of the pace of block ascent below which the bundle is left: blocks slow down, and a bundle begins slowly.
LAG = 0.25


@dataclass(eq=False, repr=False)
class HingeSolver(BaseSolver):
    """Default solver for the hinge: `BlockAscent`, followed by `Bundle` if that makes little progress.

    Block ascent is fastest if examples share few features. With strongly correlated examples of large scale (features
    in the thousands, a very large C) or few weights that all examples share (alignments) each example's step undoes
    those of the others; a bundle, which moves all at once and adapts its proximal term, then needs far fewer oracle
    calls. It continues from the weights, the dual point and the planes of block ascent, so that neither objective nor
    bound gets worse. Block ascent continues to the end if the bundle stalls or gains far less per oracle call than
    blocks did before, or if 200 dense planes take more than 1 GB.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap (P − D)/P to certify.
    max_iter, max_seconds : number
        Limits of both together.
    patience : int, default=40
        Iterations of block ascent before its progress is checked, ten times as many with more weights than examples.
        After twice as many it is also stopped if the gap, decreasing as in the last `patience` iterations, would need
        five times as many more.
    hopeless : float, default=0.5
        Relative gap after `patience` iterations above which examples are assumed to undo each other's steps.
    settle : bool, default=True
        See `BlockAscent`.
    cache_mb : float, optional
        Maximum megabytes of all kept planes, up to half of them for the bundle. Less costs iterations. By default
        the limits are 1 GB for the bundle and 50 planes per example.
    """

    needs = BlockAscent.needs
    constraints: ClassVar = {"patience": integer(1), "settle": boolean}

    tol: float = 1e-3
    max_iter: int = 10000
    max_seconds: float = float("inf")
    patience: int = 40
    hopeless: float = 0.5
    settle: bool = True
    cache_mb: float | None = None

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        # Block ascent is slow if the loss outweighs ½‖w‖², so that no fixed proximal term is suitable.
        bundle = Bundle(self.tol, cached_planes=CACHED_PLANES, adaptive=True, cache_mb=self.cache_mb)
        blocks = BlockAscent(self.tol, settle=self.settle, cache_mb=bundle._shares(objective).store_mb)
        n, d = objective.n_examples, objective.n_features
        patience = self.patience * (1 if d <= n else MORE_PATIENCE)
        if not ("bundle" in monitor.solver if monitor.resumed else isinstance(state, PlaneBundle)):
            fits = affordable_planes(d) == MOST_PLANES
            blocks._run(objective, monitor, w, state, partial(self._crawls, patience) if fits else None)
            if monitor.reason:
                return
            assert monitor.best is not None
            monitor.solver, w, state = None, monitor.best, bundle.inheriting(objective, monitor.state)
            state.pace = _pace(monitor.history, patience)
        bundle._run(objective, monitor, w, state, partial(_falls_behind, patience * n))
        if monitor.reason in ("", "stalled"):
            assert monitor.best is not None
            monitor.solver, monitor.reason, monitor.found = None, "", ""
            blocks._run(objective, monitor, monitor.best, monitor.state.remembered)

    def _crawls(self, patience: int, point: Ascent) -> bool:
        """Return whether to stop block ascent: still far from the goal, or too slow to reach it."""
        history = point.monitor.history
        if point.warm:
            patience = max(1, patience // LESS)
        if len(history) < patience:
            return False
        gap, size = history[-1].gap, abs(history[-1].objective)
        if gap > self.hopeless * size:
            return True
        goal = self.tol * size
        if len(history) < 2 * patience or not gap > goal > 0:
            return False
        return math.log(gap / goal) > MOST_SPELLS * patience * _pace(history, patience)


def _pace(history: list[Iteration], span: int) -> float:
    """Return the decrease of log(gap) per iteration over the last ones, at most `span`."""
    first, last = history[-1 - min(span, len(history) - 1)], history[-1]
    return math.log(first.gap / last.gap) / span if 0.0 < last.gap < first.gap < math.inf else 0.0


def _falls_behind(span: int, run: Descent) -> bool:
    """Return whether the last `span` oracle calls of a bundle have gained less than block ascent did before."""
    history, n = run.monitor.history, run.objective.n_examples
    calls = history[-1].oracle_calls
    if calls - run.first_call < span:
        return False
    earlier = history[bisect_left(history, calls - span, key=lambda line: line.oracle_calls)]
    return math.log(earlier.gap / history[-1].gap) < LAG * run.bundle.pace * span / n
