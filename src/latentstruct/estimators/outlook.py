"""What is known of a training before it begins, for callbacks that foresee its end."""

import math
from typing import Any

import numpy as np

from latentstruct.solvers.base import BaseSolver
from latentstruct.time_left import Outlook


def announce(callback: Any, solver: BaseSolver, objective: Any, several: bool) -> None:
    """Tell a callback that has a method ``begin`` what is known of the training; `several` if starts may differ."""
    begin = getattr(callback, "begin", None)
    if begin is not None:
        begin(foresee(solver, objective, several))


def foresee(solver: BaseSolver, objective: Any, several: bool) -> Outlook:
    """Return what ends the training of an objective by a solver."""
    several = several and "convex" not in objective.properties
    # The solver checks its parameters later.
    n_starts = solver.n_starts if several and isinstance(solver.n_starts, int | np.integer) else 1
    # Parameters that are no limits count something else than iterations.
    rounds = solver.max_rounds if "max_rounds" in solver.limits else math.inf
    rule, goal, span = solver.ending(objective)
    return Outlook(rule, goal, span, rounds, solver.max_seconds, int(n_starts))  # type: ignore[arg-type]
