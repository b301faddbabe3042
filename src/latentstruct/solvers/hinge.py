"""Block ascent that solves more precisely, and then switches to the bundle, if blocks make little progress."""

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
from latentstruct.solvers.block_ascent import Ascent, BlockAscent, has_many_weights
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

    Block ascent is fastest if examples share few features. For large C its iterations have to solve the problem
    over the kept planes more precisely, which then takes far fewer oracle calls. With strongly correlated examples
    of large scale (features in the thousands, a very large C) or few weights that all examples share (alignments)
    each example's step undoes those of the others; a bundle, which moves all at once and adapts its proximal term,
    then needs far fewer oracle calls. It continues from the weights, the dual point and the planes of block ascent,
    so that neither objective nor bound gets worse. Block ascent continues to the end if the bundle stalls or gains
    far less per oracle call than blocks did before, or if 200 dense planes take more than 1 GB.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap (P − D)/P to certify.
    max_iter, max_seconds : number
        Limits of both together.
    patience : int, default=40
        Iterations of block ascent before its progress is checked. After twice as many iterations, it counts as slow if
        the gap, decreasing as in the last `patience` iterations, would need five times as many more. Each further
        iteration then also solves the problem over the kept planes. If these iterations are slow by the same rule, with
        a quarter of the patience, the bundle follows. With more weights than examples, it follows after ten times as
        many iterations; with more than a hundred per example, iterations stay imprecise.
    hopeless : float, default=0.5
        Relative gap after `patience` iterations above which block ascent counts as slow in any case; with 0, the bundle
        follows without such precise iterations.
    settle : bool, default=True
        See `BlockAscent`.
    bundle : bool, default=True
        Whether the bundle may follow. It has no dual variables of single examples that another call could start from.
    cache_mb : float, optional
        Maximum megabytes of all kept planes, up to half of them for the bundle. Less costs iterations. By default
        the limits are 1 GB for the bundle and 50 planes per example.
    """

    needs = BlockAscent.needs
    constraints: ClassVar = {"patience": integer(1), "settle": boolean, "bundle": boolean}

    tol: float = 1e-3
    max_iter: int = 10000
    max_seconds: float = float("inf")
    patience: int = 40
    hopeless: float = 0.5
    settle: bool = True
    bundle: bool = True
    cache_mb: float | None = None

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        # Block ascent is slow if the loss outweighs ½‖w‖², so that no fixed proximal term is suitable.
        bundle = Bundle(self.tol, cached_planes=CACHED_PLANES, adaptive=True, cache_mb=self.cache_mb)
        blocks = BlockAscent(self.tol, settle=self.settle, cache_mb=bundle._shares(objective).store_mb)
        n, d = objective.n_examples, objective.n_features
        more = 1 if d <= n else MORE_PATIENCE
        follows = self.bundle and affordable_planes(d) == MOST_PLANES
        leaves = partial(self._leaves, more if follows else 0)
        if not ("bundle" in monitor.solver if monitor.resumed else isinstance(state, PlaneBundle)):
            point = blocks._ascend(objective, monitor, w, state, leaves)
            if monitor.reason or point.after_bundle:
                monitor.reason = monitor.reason or "stalled"
                return
            assert monitor.best is not None
            monitor.solver, w, state = None, monitor.best, bundle.inheriting(objective, monitor.state)
            state.pace = _pace(monitor.history, more * self.patience)
        bundle._run(objective, monitor, w, state, partial(_falls_behind, more * self.patience * n))
        if monitor.reason in ("", "stalled"):
            assert monitor.best is not None
            monitor.solver, monitor.reason, monitor.found = None, "", ""
            blocks._ascend(objective, monitor, monitor.best, monitor.state.remembered, leaves, after_bundle=True)
            monitor.reason = monitor.reason or "stalled"

    def _leaves(self, more: int, point: Ascent) -> bool:
        """Return whether to stop block ascent, which becomes precise first if it is slow.

        `more` is the factor of the patience before the bundle; 0 to continue to the end.
        """
        if point.after_bundle:
            return self._stands_still(point.monitor.history[point.began :])
        history, precise = point.monitor.history[point.began :], point.precise or point.warm
        patience = max(1, self.patience // LESS) if precise else self.patience
        slow, bundle_next = self._is_slow(patience, history), more and self.hopeless == 0.0
        if slow and not (precise or bundle_next or has_many_weights(point.objective)):
            point.precise, point.began = True, len(point.monitor.history)
            return False
        return slow and more > 0 and self._is_slow(more * patience, history)

    def _stands_still(self, history: list[Iteration]) -> bool:
        """Return whether, at the pace of the last iterations, the goal is out of reach within `max_iter`."""
        if len(history) < 2 * self.patience:
            return False
        gap, goal = history[-1].gap, self.tol * abs(history[-1].objective)
        return gap > goal > 0 and math.log(gap / goal) > self.max_iter * _pace(history, self.patience)

    def _is_slow(self, patience: int, history: list[Iteration]) -> bool:
        """Return whether the gap is still large, or decreases so slowly that the goal is far."""
        if len(history) < patience:
            return False
        gap, objective = history[-1].gap, abs(history[-1].objective)
        if gap > self.hopeless * objective:
            return True
        goal = self.tol * objective
        falls = len(history) >= 2 * patience and gap > goal > 0
        return falls and math.log(gap / goal) > MOST_SPELLS * patience * _pace(history, patience)


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
