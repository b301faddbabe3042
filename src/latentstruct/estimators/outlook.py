"""What is known of a training before it begins, for callbacks that foresee its end."""

import math
from typing import Any

import numpy as np

from latentstruct.solvers import CCCP, LBFGS, AlternatingSubgradient, Perceptron, SelfPaced, Subgradient
from latentstruct.solvers.base import BaseSolver
from latentstruct.solvers.dissimilarity import Alternation
from latentstruct.time_left import Outlook, Rule

# Solvers whose bounds, if they have any, do not come near the objective.
UNBOUNDED = (AlternatingSubgradient, Perceptron, Subgradient)
# The rule by which L-BFGS ends where there is no bound.
FALL, SPAN = 0.01, 10


def announce(callback: Any, solver: BaseSolver, objective: Any, several: bool) -> None:
    """Tell a callback that has a method ``begin`` what is known of the training; `several` if starts may differ."""
    begin = getattr(callback, "begin", None)
    if begin is not None:
        begin(foresee(solver, objective, several))


def foresee(solver: BaseSolver, objective: Any, several: bool) -> Outlook:
    """Return what ends the training of an objective by a solver."""
    convex = "convex" in objective.properties and not isinstance(solver, Alternation)
    inner = getattr(solver, "inner", None) if isinstance(solver, SelfPaced) else solver
    # The solver checks what was handed in, but later.
    restarts = getattr(inner, "restarts", 1)
    n_starts = int(restarts) if several and not convex and isinstance(restarts, int | np.integer) else 1
    rule, goal, span = _ending(solver, objective, convex)
    # Solvers of the user's own need not have limits.
    rounds, seconds = (getattr(solver, name, math.inf) for name in ("max_rounds", "max_seconds"))
    if isinstance(solver, SelfPaced):
        # It counts paces, each of which has many rounds.
        rounds = math.inf
    return Outlook(rule, goal, span, rounds, seconds, n_starts)


def _ending(solver: BaseSolver, objective: Any, convex: bool) -> tuple[Rule, float, int]:
    tol = getattr(solver, "tol", None)
    if tol is None or isinstance(solver, UNBOUNDED):
        return "", 0.0, 1
    if convex:
        return "gap", tol, 1
    if isinstance(solver, LBFGS) and "smooth" in objective.properties:
        return "fall", FALL * tol, SPAN
    return ("round" if isinstance(solver, CCCP) else ""), tol, 1
