"""Multi-plane block-coordinate dual ascent."""

from typing import Any

import numpy as np

from latentstruct.objective import Objective
from latentstruct.ragged import Vector
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.dual import DualPoint

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
    batches : int, default=8
        Parts in which a round asks the oracle: more parts need fewer rounds but smaller oracle calls.
    cached_sweeps : int, default=5
        Sweeps over kept planes after each round at most.
    steps : int, default=5
        SMO steps inside an example at most.
    max_planes : int, default=50
        Planes kept for an example; memory grows with n·max_planes².
    random_state : int, default=0
        Seed of the order of examples.

    Notes
    -----
    The kept planes are not solved tightly: better planes come with the next round. On 100 handwritten words (C = 0.1,
    to 0.1 %) it asked each example 39 times, a proximal bundle 192 times and pairwise Frank-Wolfe 440 times.
    """

    needs = frozenset({"convex", "planes", "l2"})

    def __init__(
        self,
        tol: float = 1e-3,
        max_rounds: int = 10000,
        max_seconds: float = float("inf"),
        batches: int = 8,
        cached_sweeps: int = 5,
        steps: int = 5,
        max_planes: int = 50,
        random_state: int = 0,
    ) -> None:
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.batches = batches
        self.cached_sweeps = cached_sweeps
        self.steps = steps
        self.max_planes = max_planes
        self.random_state = random_state

    def check(self, objective: Objective) -> None:
        """Raise unless objective and parameters fit."""
        super().check(objective)
        self._check_at_least(1, "batches", "steps")
        self._check_at_least(0, "cached_sweeps")
        # One plane carries the mass, so a second is needed to move it to.
        self._check_at_least(2, "max_planes")

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        rng = np.random.default_rng(self.random_state)
        point = DualPoint(objective, monitor, w, state, self.max_planes)
        if state is not None:
            self._settle(point, rng)
        # The weights reached later must at least be better than those at the start.
        point.certify()
        if state is not None and monitor.is_small(monitor.gap):
            monitor.close_round()
            return
        point.ascend(rng.permutation(point.every), steps=self.steps)
        while True:
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
            if monitor.close_round(None if promising else (bound + gap, bound)):
                break
        if not promising:
            point.certify()

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
