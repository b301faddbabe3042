"""Block-coordinate Frank-Wolfe."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.types import Array, Indices, Vector
from latentstruct.core.validation import boolean, integer, options
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.dual import DualPoint


@dataclass
class Blocks(DualPoint):
    """The state of `FrankWolfe`: dual point, gaps of the examples, and the average of the iterates.

    `due` is whether the last iteration ended with a certificate.
    """

    rng: np.random.Generator = field(init=False)
    gaps: Annotated[Vector, Array(("n",), finite=False)] = field(init=False)
    due: bool = True
    mean_w: Annotated[Vector, Array(("d",), finite=False)] = field(init=False)
    mean_offset: float = 0.0
    steps: int = 0


@dataclass(eq=False, repr=False)
class FrankWolfe(BaseSolver):
    """Block-coordinate Frank-Wolfe with exact line search (Lacoste-Julien et al. 2013, Osokin et al. 2016).

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap (P − D)/P to certify.
    max_iter, max_seconds : number
        Limits; an iteration queries n examples.
    step : {"pairwise", "away", "plain"}, default="pairwise"
        Move mass to the new plane from the worst one; away from the worst plane if that gains more; or from
        all planes equally.
    gap_sampling : bool, default=False
        Choose examples in proportion to the gap they last had, instead of a random order.
    average : bool, default=False
        Report the average of the iterates (weights growing with time), which converges faster for plain steps.
    batches : int, default=8
        Number of parts in which an iteration queries the oracle.
    certify_every : int, default=10
        Iterations between two certificates (each queries all examples at one w).
    max_planes : int, default=50
        Maximum planes kept per example.
    random_state : int, default=0
        Seed.
    cache_mb : float, optional
        Maximum megabytes of kept planes; see `BlockAscent`.
    """

    needs = frozenset({"convex", "planes", "l2"})
    constraints: ClassVar = {
        "step": options("pairwise", "away", "plain"),
        "gap_sampling": boolean,
        "average": boolean,
        "batches": integer(1),
        "certify_every": integer(1),
        "max_planes": integer(2),
    }

    tol: float = 1e-3
    max_iter: int = 2000
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
        point = Blocks(objective, monitor, w, state, self.max_planes, self.cache_mb)
        if not monitor.resumed:
            point.gaps, point.rng = point.certify(), np.random.default_rng(self.random_state)
            point.mean_w, point.mean_offset = point.w.copy(), point.offset
        while not monitor.reason:
            point.store.tick()
            for rows in self._parts(point):
                point.query_rows(rows)
                point.gaps[rows], _ = point.ascend(rows, self.step)
                point.steps += 1
                if self.average:
                    share = 2.0 / (point.steps + 1)
                    point.mean_w += share * (point.w - point.mean_w)
                    point.mean_offset += share * (point.offset - point.mean_offset)
            gap = float(point.gaps.sum())
            monitor.bound(point.value, point.store.below)
            certified = (len(monitor.history) + 1) % self.certify_every == 0
            point.due = certified or gap <= self.tol * abs(point.value + gap)
            if point.due:
                self._certify(point)
            monitor.close_iteration()
        if not point.due:
            self._certify(point)

    def _certify(self, point: Blocks) -> None:
        point.gaps[:] = point.certify()
        if self.average:
            # An average of dual points is a dual point, and w is linear in it.
            w, monitor = point.mean_w, point.monitor
            monitor.bound(-0.5 * float(w @ w) + point.mean_offset - point.linear.offset, point.store.below)
            monitor.offer(w, *point.objective.evaluate(w))
            point.refresh()

    def _parts(self, point: Blocks) -> list[Indices]:
        gaps, rng = point.gaps, point.rng
        if not self.gap_sampling or not np.isfinite(gaps).all() or gaps.sum() <= 0:
            return np.array_split(rng.permutation(point.every), min(self.batches, len(gaps)))
        size = max(1, len(gaps) // self.batches)
        # A minimum probability for every example: its gap may have grown since its last query.
        shares = np.maximum(gaps, 0.0) + 0.1 * gaps.mean()
        shares /= shares.sum()
        return [rng.choice(len(gaps), size, replace=False, p=shares) for _ in range(self.batches)]
