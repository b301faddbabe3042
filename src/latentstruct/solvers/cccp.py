"""The concave-convex procedure: a non-convex difference as a sequence of convex problems."""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.parameters import clone
from latentstruct.core.protocols import Iteration, Result
from latentstruct.core.types import Vector, Weights
from latentstruct.core.validation import boolean, integer, real
from latentstruct.persistence.state_trees import CONTEXT
from latentstruct.solvers import solver_state  # noqa: F401 - registers how iterates are stored
from latentstruct.solvers.base import SOLVER, BaseSolver, least_scale, solving
from latentstruct.solvers.outer_loop import OuterLoop


@dataclass
class Iterate:
    """Weights with their true objective and the convex one that touches it there."""

    w: Weights
    value: float
    convex: Objective
    state: Any = field(default=None, metadata=CONTEXT)
    """Result of the inner solver."""


@dataclass(eq=False, repr=False)
class CCCP(BaseSolver):
    """Concave-convex procedure with kept planes.

    An iteration replaces f⁻ by its planes at the current w, which gives a convex problem that lies above the objective
    and touches it at w, and minimizes that. The objective never increases (exact inference). The plus side is the same
    in all iterations and starts, so the planes found by an inner solver stay valid and are reused: an iteration after
    the first needs few oracle calls.

    Parameters
    ----------
    inner : solver, optional
        Solver of the convex problems, such as `BlockAscent`, `Bundle`, `FrankWolfe` or `LBFGS`; by default the fastest
        for objectives of this kind.
    tol : float, default=1e-3
        Stop when the relative decrease of the objective in an iteration is less. Convex problems are solved to this
        relative gap at the end, and less precisely before, depending on the decrease of the last iteration.
    max_iter : int, default=200
        Maximum number of iterations per start.
    max_seconds : float
        Limit of all starts together.
    restarts : int, default=1
        Number of starts; the best objective is kept and all are reported. They differ only if the objective has
        several initial planes (`Objective.starts`), so not when w0 is given.
    first_tol : float, default=0.1
        Relative precision of the first convex problem.
    keep_planes : bool, default=True
        Whether inner solvers reuse the planes of earlier iterations and starts; False is for comparisons.
    cache_mb : float, optional
        Maximum megabytes of planes kept by the inner solver; by default its own limit.

    Notes
    -----
    Yuille & Rangarajan (2003); Yu & Joachims (2009), Algorithm 1.
    """

    needs = frozenset({"difference"})
    constraints: ClassVar = {
        "inner": SOLVER | None,
        "max_iter": integer(1),
        "first_tol": real(0.0, 1.0),
        "keep_planes": boolean,
    }
    has_restarts = True
    takes_latents = True

    inner: Any = None
    tol: float = 1e-3
    max_iter: int = 200
    max_seconds: float = float("inf")
    restarts: int = 1
    first_tol: float = 0.1
    keep_planes: bool = True
    cache_mb: float | None = None

    def minimize(self, objective: Objective, w0: Vector | None = None, **given: Any) -> Result:
        """Minimize from w0, or from the initial planes; an objective that is convex is passed to the inner solver.

        The parameters are those of `BaseSolver.minimize`.
        """
        self.check(objective)
        if "convex" in objective.properties:
            inner = self._convex_solver(objective, False).set_params(tol=self.tol, max_seconds=self.max_seconds)
            return inner.minimize(objective, w0, **given)
        with solving():
            return _Descent(self, objective, **given).run(w0)

    def ending(self, objective: Objective) -> tuple[str, float, int]:
        return super().ending(objective) if "convex" in objective.properties else ("iteration", self.tol, 1)

    def _convex_solver(self, convex: Objective, repeated: bool) -> Any:
        """Return the solver of a convex problem, or of one of many similar ones."""
        # Imported here, because the module of all solvers imports this one.
        from latentstruct.solvers.selection import choose_solver

        inner = choose_solver(convex, repeated) if self.inner is None else clone(self.inner)
        if self.cache_mb is not None:
            inner.cache_mb = self.cache_mb
        return inner


@dataclass
class _Descent(OuterLoop[Objective]):
    """One call of `CCCP.minimize`."""

    at: Iterate | None = None  # the best weights of the current start
    bound: float = -math.inf  # lower bound of the last convex problem
    # Relative gaps to which the next convex problem is solved, and the first one of a start.
    precision: float = 0.0
    sharper: float = 0.0
    at_zero: float = 0.0  # the first convex problem at w = 0

    def _problem(self) -> Objective:
        assert self.at is not None
        return self.at.convex

    def _begin(self) -> None:
        self.at, objective, w0 = None, self.objective, self.w0
        w = np.zeros(objective.n_features) if w0 is None else np.array(w0, dtype=np.float64)
        self.precision = self.sharper = max(self.settings.tol, self.settings.first_tol)
        starts = objective.starts if w0 is None else None
        known = starts is None
        convex = objective.linearized_at(w) if starts is None else objective.linearized_with(starts.planes(self.start))
        self.calls += objective.n_examples
        self.at_zero = convex.value(w)
        # Initial planes touch f⁻ nowhere in particular: the objective is known after the first iteration.
        self.at = Iterate(w, self.at_zero if known else math.inf, convex)

    def _found(self, reason: str) -> Result | None:
        at = self.at
        if at is None or math.isinf(at.value):
            if self.best is not None:
                return None
            w = np.zeros(self.objective.n_features)
            return Result(w, self.objective.value(w), -math.inf, 0, self.iterations, reason, False, [])
        # The bound is that of the convex problem, which lies above the objective.
        bound = -math.inf if reason == "interrupted" else self.bound
        return Result(at.w, at.value, bound, 0, self.iterations, reason, False, [], at.state)

    def _round(self) -> None:
        at, final, objective = self.at, self.settings.tol, self.objective
        assert at is not None
        known, least = math.isfinite(at.value), least_scale(objective.plus.weights)
        # The first convex problem is solved until its value is below that at w = 0. There all latents score the same,
        # so the initial ones would be lost.
        while True:
            inner = self.settings._convex_solver(at.convex, True)
            inner.tol = self.precision if known else self.sharper
            solved = self._solve(inner, at.convex, at.w, partial(self._shown, at=at), self.settings.keep_planes)
            self.state, w = solved.state, solved.w
            improves = known or self.at_zero - solved.objective >= solved.gap
            if improves or self.sharper <= final or solved.reason != "converged":
                break
            self.sharper = max(final, 0.3 * self.sharper)
        touching = objective.linearized_at(w)
        # Both functions have the same regularizer and plus side at w.
        value = solved.objective + at.convex.minus.total(w)(w) - touching.minus.total(w)(w)
        decrease = at.value - value
        little = known and decrease <= final * max(abs(at.value), least)
        # A loosely solved problem may end above its start: then it is solved again more precisely, unless its solver
        # has stalled.
        self.small = little and (self.precision <= final or solved.reason != "converged")
        self.at = at = Iterate(w, value, touching, solved.state) if decrease > 0 else at
        self.bound = min(solved.lower_bound, at.value)
        # Follow the decrease of the last iteration; after a small one the gap is reduced to a third.
        share = decrease / max(abs(at.value), least)
        wanted = min(self.precision, 0.3 * self.precision if share <= self.precision else 0.5 * share)
        # A precision slightly above the final one would cost nearly as much, and still require the final one.
        self.precision = final if wanted < 2.0 * final else wanted
        self._close(at.value, self.bound, at.w)
        self.solved = solved.reason

    def _shown(self, line: Iteration, at: Iterate) -> Iteration:
        return replace(self._estimate(line, min(at.value, line.objective), line.lower_bound), gap=line.gap)
