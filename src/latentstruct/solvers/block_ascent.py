"""Multi-plane block-coordinate dual ascent."""

from typing import Any

import numpy as np

from latentstruct.objective import Objective
from latentstruct.ragged import Vector
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.caches import in_bytes
from latentstruct.solvers.dual import DualPoint
from latentstruct.state_trees import generator_tree, restored_generator

# Rounds between two certificates at most, so that the best weights so far are known.
CERTIFY_EVERY = 25
# Over the planes of an earlier call: sweeps at most, and the share of the tolerance to which they are solved.
SETTLING_SWEEPS, SETTLED = 100, 0.3


class BlockAscent(BaseSolver):
    """Block-coordinate ascent of the dual over several planes for each example.

    A round asks the oracle for every example (in `batches` parts, the weights following after each), keeps the
    planes, and improves each example's dual variables over all its planes by a few SMO steps. Sweeps over the kept
    planes alone follow, while these still hold a good part of the gap. Then the gap is certified if it looks small
    enough.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap (P − D)/P to certify.
    max_rounds, max_seconds : number
        Limits.
    batches : int, default=4
        Parts in which a round asks the oracle: more parts need fewer rounds but smaller oracle calls, which threads
        share less well. With 8 parts 5 % fewer questions were needed on handwritten words and on CoNLL-2000.
    cached_sweeps : int, default=5
        Sweeps over kept planes after each round at most.
    steps : int, default=5
        SMO steps inside an example at most.
    max_planes : int, default=50
        Planes kept for an example; memory grows with n·max_planes².
    random_state : int, default=0
        Seed of the order of examples.
    cache_mb : float, optional
        Megabytes that kept planes may take. Where there is no room for `max_planes` the least useful ones are given
        up, which costs rounds; with two or three an example the gap may stay open. By default there is no bound.

    Notes
    -----
    The kept planes are not solved tightly: better planes come with the next round. On 100 handwritten words (C = 0.1,
    to 0.1 %) it asked each example 34 times, a proximal bundle 165 times and pairwise Frank-Wolfe 287 times.
    """

    needs = frozenset({"convex", "planes", "l2"})

    def __init__(
        self,
        tol: float = 1e-3,
        max_rounds: int = 10000,
        max_seconds: float = float("inf"),
        batches: int = 4,
        cached_sweeps: int = 5,
        steps: int = 5,
        max_planes: int = 50,
        random_state: int = 0,
        cache_mb: float | None = None,
    ) -> None:
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.batches = batches
        self.cached_sweeps = cached_sweeps
        self.steps = steps
        self.max_planes = max_planes
        self.random_state = random_state
        self.cache_mb = cache_mb

    def check(self, objective: Objective) -> None:
        """Raise unless objective and parameters fit."""
        super().check(objective)
        self._check_at_least(1, "batches", "steps")
        self._check_at_least(0, "cached_sweeps")
        # One plane carries the mass, so a second is needed to move it to.
        self._check_at_least(2, "max_planes")

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        rng = np.random.default_rng(self.random_state)
        promising = True
        if monitor.resumed is None:
            point = DualPoint(objective, monitor, w, state, self.max_planes, in_bytes(self.cache_mb))
            if self._begins(point, rng, monitor, state is not None):
                return
        else:
            point = DualPoint.restored(objective, monitor)
            with monitor.restoring():
                rng = restored_generator(monitor.resumed.tree["rng"])
                promising = monitor.resumed.flag("promising")
        monitor.snapshot = lambda: {"point": point.tree(), "rng": generator_tree(rng), "promising": promising}
        while not monitor.reason:
            gap = 0.0
            point.store.tick()
            for rows in point.shuffled_parts(rng, self.batches):
                point.ask(rows)
                gap += float(point.ascend(rows, steps=self.steps).sum())
            self._sweep_kept_planes(point, gap, rng)
            # The gap was summed while w moved; only a pass at one w certifies, so it is made when it may succeed.
            bound = point.value
            due = (len(monitor.history) + 1) % CERTIFY_EVERY == 0
            promising = due or gap <= self.tol * abs(bound + gap)
            if promising:
                point.certify()
            monitor.close_round(None if promising else (bound + gap, bound))
        if not promising:
            point.certify()

    def _begins(self, point: DualPoint, rng: np.random.Generator, monitor: Monitor, earlier: bool) -> bool:
        """Make the first steps; tell whether the planes of an earlier call were enough."""
        if earlier:
            self._settle(point, rng)
        # The weights reached later must at least be better than those at the start.
        point.certify()
        if earlier and monitor.is_small(monitor.gap):
            monitor.snapshot = lambda: {"point": point.tree(), "rng": generator_tree(rng), "promising": True}
            monitor.close_round()
            return True
        point.ascend(rng.permutation(point.every), steps=self.steps)
        return False

    def _settle(self, point: DualPoint, rng: np.random.Generator) -> None:
        """Solve the problem over the planes of an earlier call, which costs no oracle calls.

        The earlier masses belong to another linear part or other weights, so w is far from anywhere sensible. Most of
        the gap soon lies in a few examples: these are visited ten times for each time that all are.
        """
        target = SETTLED * self.tol
        visits = SETTLING_SWEEPS * len(point.every)
        while visits > 0:
            rows = rng.permutation(point.every)
            gaps = point.ascend(rows, steps=self.steps)
            visits -= len(rows)
            goal = target * abs(point.value)
            if gaps.sum() <= goal:
                return
            for _ in range(10):
                rows = rng.permutation(rows[gaps > 0.3 * gaps.mean()])
                gaps = point.ascend(rows, steps=self.steps)
                visits -= len(rows)
                if gaps.sum() <= 0.3 * goal:
                    break

    def _sweep_kept_planes(self, point: DualPoint, gap: float, rng: np.random.Generator) -> None:
        rows = rng.permutation(point.every)
        for _ in range(self.cached_sweeps):
            gaps = point.ascend(rows, steps=self.steps)
            if gaps.sum() < 0.5 * gap:
                return
            # Examples with little left are not visited again before they get new planes. The order stays random:
            # neighbours in the data are often alike, and in sequence they undo each other's steps.
            rows = rng.permutation(rows[gaps >= 0.3 * gaps.mean()])
            if len(rows) == 0:
                # Gaps that are no numbers, which the next certificate tells of.
                return
