"""The alternating coordinate and subgradient descent of Chen, Batra, Freeman and Johnson, to compare with."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.ragged import Vector, Weights
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.state_trees import state_dict


@dataclass
class Steps:
    """The state of `AlternatingSubgradient`: w, a subgradient there, and how often the objective has risen."""

    w: Weights
    gradient: Weights
    rises: int = 0
    before: float = math.inf


@dataclass(eq=False, repr=False)
class AlternatingSubgradient(BaseSolver):
    """Complete the latents at w, take one full subgradient step, repeat: w ← w − α_t(∇Ω(w) + Σ_i c_i m_i).

    m_i is the slope of f⁺_i less that of f⁻_i at w, and α_t = α_0/(η_t + 1), where η_t counts how many times the
    objective has risen from one round to the next. It gives no exact zeros, no bound, and depends on the scale of the
    features: `Proximal` is the solver to use.

    Parameters
    ----------
    tol : float, default=1e-5
        Stop when the objective changes by less than this share in a round.
    max_rounds, max_seconds : number
        Limits; a round asks about all examples once.
    learning_rate : float, default=1.0
        α_0.
    restarts : int, default=1
        Number of starts, as in `Proximal`.

    Notes
    -----
    Chen, Batra, Freeman & Johnson (2012), Algorithm 1. Their max{0, f⁺ − f⁻} needs no case of its own, as f⁺ ≥ f⁻ where
    the true output costs nothing. The algorithm as printed ends with the last weights; here the best are kept.
    """

    has_restarts = True
    bounds = False
    ranges: ClassVar = {"learning_rate": (0.0, math.inf, "a finite number above 0")}

    tol: float = 1e-5
    max_rounds: int = 1000
    max_seconds: float = float("inf")
    learning_rate: float = 1.0
    restarts: int = 1

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        run = monitor.resumed_state(Steps) or Steps(w, np.zeros_like(w))
        monitor.snapshot = partial(state_dict, run)
        while not monitor.reason:
            run.w = w = run.w - self.learning_rate / (run.rises + 1) * run.gradient
            value, run.gradient = objective.value_and_gradient(w)
            monitor.offer(w, value, exact=False)
            monitor.current = w
            run.rises += int(value > run.before)
            if abs(value - run.before) < self.tol * abs(value):
                monitor.reason = "converged"
            run.before = value
            monitor.close_round()
