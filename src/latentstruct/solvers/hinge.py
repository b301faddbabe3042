"""Block ascent that switches to the bundle if blocks make no progress."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from latentstruct.core.objective import Objective
from latentstruct.core.types import Vector
from latentstruct.core.validation import boolean, integer
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.block_ascent import Ascent, BlockAscent
from latentstruct.solvers.bundle import MOST_PLANES, Bundle, PlaneBundle, affordable_planes

CACHED_PLANES = 50
# Number of periods of `patience` iterations, each as good as the last, that block ascent may still need.
MOST_SPELLS = 5
# Factor of the patience with more weights than examples, when a bundle may need as many planes as there are weights.
MORE_PATIENCE = 10
# Fraction of the patience with given weights, from which few iterations suffice if blocks make progress.
LESS = 4


@dataclass(eq=False, repr=False)
class HingeSolver(BaseSolver):
    """Default solver for the hinge: `BlockAscent`, followed by `Bundle` if that makes little progress.

    Block ascent is fastest if examples share few features. With strongly correlated examples of large scale (features
    in the thousands, a very large C) or few weights that all examples share (alignments) each example's step undoes
    those of the others; a bundle, which moves all at once and adapts its proximal term, then needs far fewer oracle
    calls. It continues from the weights, the dual point and the planes of block ascent, so that neither objective nor
    bound gets worse. If 200 dense planes take more than 1 GB, block ascent continues to the end.

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
        if not ("bundle" in monitor.solver if monitor.resumed else isinstance(state, PlaneBundle)):
            store_mb = bundle._shares(objective).store_mb
            patience = self.patience * (1 if objective.n_features <= objective.n_examples else MORE_PATIENCE)
            fits = affordable_planes(objective.n_features) == MOST_PLANES
            gives_up = partial(self._crawls, patience) if fits else None
            BlockAscent(self.tol, settle=self.settle, cache_mb=store_mb)._run(objective, monitor, w, state, gives_up)
            if monitor.reason:
                return
            assert monitor.best is not None
            monitor.solver, w, state = None, monitor.best, bundle.inheriting(objective, monitor.state)
        bundle._run(objective, monitor, w, state)

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
        return math.log(gap / goal) > MOST_SPELLS * math.log(history[-1 - patience].gap / gap)
