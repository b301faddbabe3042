"""The n-slack cutting plane algorithm of the structural SVM paper."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.types import Vector
from latentstruct.core.validation import integer, real
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.dual import DualPoint


@dataclass
class WorkingSets(DualPoint):
    """The state of `CuttingPlane`: a dual point and its gap."""

    gap: float = 0.0


@dataclass(eq=False, repr=False)
class CuttingPlane(BaseSolver):
    """n-slack cutting planes (Algorithm 1 of the structural SVM paper): a working set for each example.

    A round asks the oracle for every example, adds the planes violated by more than the examples' share of the
    tolerated gap to the working sets, and solves the QP over all working sets again, by warm-started SMO over the
    blocks. Slack rescaling needs nothing special: its planes are planes.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative gap (P − D)/P to certify.
    max_rounds, max_seconds : number
        Limits.
    inner_tol : float, default=0.1
        The QP is solved to this share of the gap that the round found.
    max_sweeps : int, default=1000
        Sweeps over all working sets for one QP at most.
    max_planes : int, default=500
        Size of an example's working set.
    cache_mb : float, optional
        Megabytes that kept planes may take. Where there is no room for `max_planes` the least useful ones are given
        up, which costs rounds; with two or three an example the gap may stay open. By default there is no bound.
    """

    needs = frozenset({"convex", "planes", "l2"})
    constraints: ClassVar = {"inner_tol": real(0.0, 1.0), "max_sweeps": integer(1), "max_planes": integer(2)}

    tol: float = 1e-3
    max_rounds: int = 1000
    max_seconds: float = float("inf")
    inner_tol: float = 0.1
    max_sweeps: int = 1000
    max_planes: int = 500
    cache_mb: float | None = None

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        point = WorkingSets(objective, monitor, w, state, self.max_planes, self.cache_mb)
        if not monitor.resumed:
            point.gap = float(point.certify().sum())
            monitor.close_round()
        while not monitor.reason:
            violated = np.flatnonzero(objective.weights > 0)
            for _ in range(self.max_sweeps):
                if point.ascend(violated, steps=100)[0].sum() <= self.inner_tol * point.gap:
                    break
            point.gap = float(point.certify().sum())
            monitor.close_round()
