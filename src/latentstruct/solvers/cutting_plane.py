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
    """n-slack cutting planes (Algorithm 1 of the structural SVM paper): one working set per example.

    An iteration queries the oracle for every example, adds the planes violated by more than the example's part of the
    tolerated gap to the working sets, and solves the QP over all working sets again, by warm-started SMO over the
    blocks. Slack rescaling is supported through its planes.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative gap (P − D)/P to certify.
    max_iter, max_seconds : number
        Limits.
    inner_tol : float, default=0.1
        Precision of the QP, relative to the gap of the iteration.
    max_sweeps : int, default=1000
        Maximum sweeps over all working sets per QP.
    max_planes : int, default=500
        Size of an example's working set.
    cache_mb : float, optional
        Maximum megabytes of kept planes; see `BlockAscent`.
    """

    needs = frozenset({"convex", "planes", "l2"})
    constraints: ClassVar = {"inner_tol": real(0.0, 1.0), "max_sweeps": integer(1), "max_planes": integer(2)}

    tol: float = 1e-3
    max_iter: int = 1000
    max_seconds: float = float("inf")
    inner_tol: float = 0.1
    max_sweeps: int = 1000
    max_planes: int = 500
    cache_mb: float | None = None

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        point = WorkingSets(objective, monitor, w, state, self.max_planes, self.cache_mb)
        if not monitor.resumed:
            point.gap = float(point.certify().sum())
            monitor.close_iteration()
        while not monitor.reason:
            violated = np.flatnonzero(objective.weights > 0)
            for _ in range(self.max_sweeps):
                if point.ascend(violated, steps=100)[0].sum() <= self.inner_tol * point.gap:
                    break
            point.gap = float(point.certify().sum())
            monitor.close_iteration()
