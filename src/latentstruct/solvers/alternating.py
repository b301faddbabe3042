"""The alternating coordinate and subgradient descent of Chen, Batra, Freeman and Johnson, to compare with."""

import math
from typing import Any

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.exceptions import InputError
from latentstruct.ragged import Vector
from latentstruct.short_repr import show
from latentstruct.solvers.base import BaseSolver, Monitor, first_weights


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

    def __init__(
        self,
        tol: float = 1e-5,
        max_rounds: int = 1000,
        max_seconds: float = float("inf"),
        learning_rate: float = 1.0,
        restarts: int = 1,
    ) -> None:
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.learning_rate = learning_rate
        self.restarts = restarts

    def check(self, objective: Objective) -> None:
        """Raise unless objective and parameters fit."""
        super().check(objective)
        self._check_at_least(1, "restarts")
        rate = self.learning_rate
        if not (isinstance(rate, int | float | np.number) and 0 < rate < math.inf):
            raise InputError(
                f"learning_rate must be a finite number above 0, found {show(rate)}: choose one such as 0.1"
            )

    def _start(self, objective: Objective, attempt: int) -> Vector:
        return first_weights(objective, attempt)

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        rises, before = 0, math.inf
        if monitor.resumed is not None:
            with monitor.restoring():
                saved = monitor.resumed
                w, gradient = (saved.vector(name, objective.n_features) for name in ("w", "gradient"))
                rises, before = saved.whole("rises"), saved.real("before")
        else:
            gradient = np.zeros_like(w)
        monitor.snapshot = lambda: {"w": w, "gradient": gradient, "rises": rises, "before": before}
        while not monitor.reason:
            w = w - self.learning_rate / (rises + 1) * gradient
            value, gradient = objective.value_and_gradient(w)
            monitor.offer(w, value)
            monitor.current = w
            rises += value > before
            if abs(value - before) < self.tol * abs(value):
                monitor.reason = "converged"
            before = value
            monitor.close_round()
