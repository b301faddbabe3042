"""Block-coordinate Frank-Wolfe."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.ragged import Array, Indices, Vector
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.caches import in_bytes
from latentstruct.solvers.dual import DualPoint, StoredPoint
from latentstruct.state_trees import state_dict


@dataclass
class Stored:
    """The state of `FrankWolfe`: dual point, gaps of the examples, and the average of the iterates.

    `due` tells whether the last iteration ended with a certificate.
    """

    point: StoredPoint
    rng: np.random.Generator
    gaps: Annotated[Vector, Array(("n",), finite=False)]
    due: bool
    mean_w: Annotated[Vector, Array(("d",), finite=False)]
    mean_offset: float
    steps: int


@dataclass(eq=False, repr=False)
class FrankWolfe(BaseSolver):
    """Block-coordinate Frank-Wolfe with exact line search (Lacoste-Julien et al. 2013, Osokin et al. 2016).

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap (P − D)/P to certify.
    max_rounds, max_seconds : number
        Limits; a round asks n examples.
    step : {"pairwise", "away", "plain"}, default="pairwise"
        Move mass to the new plane from the worst one; away from the worst plane where that promises more; or from
        all planes alike.
    gap_sampling : bool, default=False
        Choose examples in proportion to the gap they last had, instead of a random order.
    average : bool, default=False
        Report the average of the iterates (weights growing with time), which converges faster for plain steps.
    batches : int, default=8
        Parts in which a round asks the oracle.
    certify_every : int, default=10
        Rounds between two certificates (each asks all examples at one w).
    max_planes : int, default=50
        Planes kept for an example.
    random_state : int, default=0
        Seed.
    cache_mb : float, optional
        Megabytes that kept planes may take. Where there is no room for `max_planes` the least useful ones are given
        up, which costs rounds; with two or three an example the gap may stay open. By default there is no bound.
    """

    needs = frozenset({"convex", "planes", "l2"})
    flags = ("gap_sampling", "average")
    least: ClassVar = {"batches": 1, "certify_every": 1, "max_planes": 2}
    choices: ClassVar = {"step": ("pairwise", "away", "plain")}

    tol: float = 1e-3
    max_rounds: int = 2000
    max_seconds: float = float("inf")
    step: Literal["pairwise", "away", "plain"] = "pairwise"
    gap_sampling: bool = False
    average: bool = False
    batches: int = 8
    certify_every: int = 10
    max_planes: int = 50
    random_state: int = 0
    cache_mb: float | None = None

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        saved = monitor.resumed_state(Stored)
        if saved is None:
            point = DualPoint(objective, monitor, w, state, self.max_planes, in_bytes(self.cache_mb))
            gaps, rng = point.certify(), np.random.default_rng(self.random_state)
            run = Stored(point.state(), rng, gaps, True, point.w.copy(), point.offset, 0)
        else:
            run, point = saved, DualPoint.restored(objective, monitor, saved.point)
        gaps, rng = run.gaps, run.rng
        monitor.snapshot = lambda: state_dict(replace(run, point=point.state()))
        while not monitor.reason:
            point.store.tick()
            for rows in self._parts(point, rng, gaps):
                point.ask(rows)
                gaps[rows], _ = point.ascend(rows, self.step)
                run.steps += 1
                if self.average:
                    share = 2.0 / (run.steps + 1)
                    run.mean_w += share * (point.w - run.mean_w)
                    run.mean_offset += share * (point.offset - run.mean_offset)
            gap = float(gaps.sum())
            monitor.bound(point.value, point.store.below)
            run.due = (len(monitor.history) + 1) % self.certify_every == 0 or gap <= self.tol * abs(point.value + gap)
            if run.due:
                self._certify(objective, monitor, point, run)
            monitor.close_round()
        if not run.due:
            self._certify(objective, monitor, point, run)

    def _certify(self, objective: Objective, monitor: Monitor, point: DualPoint, run: Stored) -> None:
        run.gaps[:] = point.certify()
        if self.average:
            # An average of dual points is a dual point, and w is linear in it.
            w = run.mean_w
            monitor.bound(-0.5 * float(w @ w) + run.mean_offset - point.linear.offset, point.store.below)
            monitor.offer(w, *objective.evaluate(w))
            point.refresh()

    def _parts(self, point: DualPoint, rng: np.random.Generator, gaps: Vector) -> list[Indices]:
        if not self.gap_sampling or not np.isfinite(gaps).all() or gaps.sum() <= 0:
            return point.shuffled_parts(rng, self.batches)
        size = max(1, len(gaps) // self.batches)
        # A floor keeps every example in reach: its gap may have grown since it was last asked.
        shares = np.maximum(gaps, 0.0) + 0.1 * gaps.mean()
        shares /= shares.sum()
        return [rng.choice(len(gaps), size, replace=False, p=shares) for _ in range(self.batches)]
