"""Orthant-wise L-BFGS for smooth objectives with ‖w‖₁ in the regularizer."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.regularizers import ElasticNet
from latentstruct.core.types import Vector, Weights
from latentstruct.core.validation import integer
from latentstruct.exceptions import InputError
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.lbfgs import ARMIJO, FALL, MAX_TRIALS, SPAN, Descent, Pair, descend, find_direction


@dataclass
class OrthantPoint:
    """The objective at w, with value and gradient of the part without the regularizer."""

    w: Weights
    value: float
    loss: float
    slope: Weights
    exact: bool

    def pseudo_gradient(self, regularizer: ElasticNet) -> Vector:
        """Return the subgradient of smallest norm."""
        smooth, l1 = self.slope + regularizer.l2 * self.w, regularizer.l1
        at_zero = np.sign(smooth) * np.maximum(np.abs(smooth) - l1, 0.0)
        return np.where(self.w == 0.0, at_zero, smooth + l1 * np.sign(self.w))

    def bound(self, regularizer: ElasticNet) -> float:
        """Return a value below the minimum of a convex objective."""
        return self.loss - float(self.slope @ self.w) + regularizer.least(self.slope)


def evaluate(objective: Objective, w: Vector) -> OrthantPoint:
    """Evaluate both sides of the objective at w."""
    plus, minus = objective.plus.total(w), objective.minus.total(w)
    slope = plus.slope - minus.slope
    loss = plus.offset - minus.offset + float(slope @ w)
    return OrthantPoint(w, objective.regularizer.value(w) + loss, loss, slope, plus.exact and minus.exact)


@dataclass
class OrthantDescent(Descent):
    """Points with decreasing values."""

    point: OrthantPoint  # type: ignore[assignment]

    def advance(self, objective: Objective) -> bool:
        point, regularizer = self.point, objective.regularizer
        assert isinstance(regularizer, ElasticNet)
        gradient = point.pseudo_gradient(regularizer)
        direction = find_direction(gradient, self.pairs)
        direction[direction * gradient >= 0.0] = 0.0
        orthant = np.where(point.w == 0.0, -np.sign(gradient), np.sign(point.w))
        step = 1.0 if self.pairs else 1.0 / max(1e-12, float(np.linalg.norm(gradient)))
        for _ in range(MAX_TRIALS):
            w = point.w + step * direction
            w[np.sign(w) != orthant] = 0.0
            new, moved = evaluate(objective, w), w - point.w
            if new.value <= point.value + ARMIJO * float(gradient @ moved) and moved.any():
                break
            step *= 0.5
        else:
            return False
        bend = new.slope - point.slope + regularizer.l2 * moved
        curvature = float(moved @ bend)
        if curvature > 0.0:
            if len(self.pairs) == self.memory:
                self.pairs.popleft()
            self.pairs.append(Pair(moved, bend, 1.0 / curvature))
        self.point = new
        return True


@dataclass(eq=False, repr=False)
class OWLQN(BaseSolver):
    """Orthant-wise limited-memory quasi-Newton descent (Andrew & Gao 2007), for `ElasticNet` and smooth losses.

    Parameters
    ----------
    tol : float, default=0.01
        Relative gap (P − D)/P to certify if the objective is convex and l2 > 0. The bound D improves late: the
        objective may be much closer to the minimum than the gap states. If there is no bound, the solver stops when the
        relative decrease in ten iterations is less than 0.001·tol.
    max_iter, max_seconds : number
        Maximum number of iterations, and of seconds of elapsed time.
    memory : int, default=6
        Pairs of vectors kept.
    restarts : int, default=1
        Number of starts if latent variables make the objective nonconvex.

    See Also
    --------
    LBFGS : For smooth regularizers.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import CRF, OWLQN, Chain
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 2, 10) for _ in range(20)]
    >>> X = [np.column_stack([y, rng.normal(size=(10, 4))]) for y in Y]  # one of five features shows the label
    >>> model = CRF(Chain(), l1=5.0, solver=OWLQN(tol=0.001)).fit(X, Y)
    >>> bool(np.count_nonzero(model.coef_) < len(model.coef_))
    True
    """

    has_restarts = True
    warns_if_stalled = True
    needs = frozenset({"smooth"})
    constraints: ClassVar = {"memory": integer(1)}

    tol: float = 0.01
    max_iter: int = 2000
    max_seconds: float = float("inf")
    memory: int = 6
    restarts: int = 1

    def check(self, objective: Objective) -> None:
        super().check(objective)
        if not isinstance(objective.regularizer, ElasticNet):
            raise InputError("solver", self, "one for this regularizer; OWLQN is for ElasticNet", "Use 'auto'.")

    def ending(self, objective: Objective) -> tuple[str, float, int]:
        return super().ending(objective) if self._bounded(objective) else ("fall", 0.1 * FALL * self.tol, SPAN)

    @staticmethod
    def _bounded(objective: Objective) -> bool:
        return "convex" in objective.properties and objective.regularizer.l2 > 0  # type: ignore[attr-defined]

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        earlier, regularizer = monitor.resumed_state(OrthantDescent), objective.regularizer
        descent = earlier or OrthantDescent(evaluate(objective, w), self.memory)
        bound = (lambda point: point.bound(regularizer)) if self._bounded(objective) else None
        if not descend(objective, monitor, descent, earlier is not None, bound, 0.1 * FALL * self.tol):
            monitor.finish("converged" if bound is None else "stalled")
