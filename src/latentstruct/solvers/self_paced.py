"""Self-paced learning: easy examples first."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from latentstruct.core.formatting import repr_short
from latentstruct.core.objective import Objective
from latentstruct.core.parameters import clone
from latentstruct.core.protocols import Iteration, Result
from latentstruct.core.types import Vector
from latentstruct.core.validation import instance, integer, real
from latentstruct.persistence.state_trees import Numbers, Tree
from latentstruct.solvers.base import LAST, BaseSolver, solving
from latentstruct.solvers.cccp import CCCP
from latentstruct.solvers.outer_loop import OuterLoop
from latentstruct.solvers.starts import OneStart

# Phases of a start: one loose iteration with all examples, iterations with some of them, and CCCP with all.
LOOSE, PACING, WHOLE = PHASES = ("loose", "pacing", "whole")


@dataclass(eq=False, repr=False)
class SelfPaced(BaseSolver):
    """Self-paced learning around `CCCP`: examples are included when their loss has become small.

    With v_i ∈ {0, 1} it alternates over Ω(w) + Σ_i v_i c_i [f⁺_i(w) − f⁻_i(w)] − (1/K) Σ_i v_i: given w, the example i
    is included if c_i [f⁺_i(w) − f⁻_i(w)] ≤ 1/K; given v, CCCP continues from w. 1/K grows by `growth` in each
    iteration until all examples are included; the last iteration is CCCP on the full objective, which is reported.
    Examples of small weight c_i are included early.

    Parameters
    ----------
    inner : CCCP, optional
        Solver of each iteration; its `tol` and `max_seconds` are replaced by those given here.
    tol : float, default=1e-3
        Relative decrease at which CCCP stops.
    max_seconds : float
        Time limit of all starts.
    max_iter : int, default=50
        Maximum iterations of self-pacing; then all examples are included.
    first_share : float, default=0.5
        Fraction of the examples with nonzero loss in the first iteration, in addition to those with zero loss.
    growth : float, default=1.3
        Factor of 1/K.
    cache_mb : float, optional
        Maximum megabytes of planes kept by the inner solver; by default its own limit.

    Notes
    -----
    Kumar, Packer & Koller (2010). The weights that choose the first examples come from one loosely solved problem with
    all of them, because all losses are equal at w = 0. Planes are kept between iterations.
    """

    needs = frozenset({"difference", "planes"})
    has_restarts = True
    takes_latents = True
    constraints: ClassVar = {
        "inner": instance("a CCCP solver", CCCP) | None,
        "max_iter": integer(1),
        "first_share": real(0.0, 1.0, closed="right"),
        "growth": real(1.0),
    }
    # More iterations of self-pacing would precede the last one, and lead to other weights.
    limits = ("max_seconds",)

    inner: Any = None
    tol: float = 1e-3
    max_iter: int = 50
    max_seconds: float = float("inf")
    first_share: float = 0.5
    growth: float = 1.3
    cache_mb: float | None = None

    def check(self, objective: Objective) -> None:
        """Raise unless the objective is supported and the parameters are valid."""
        super().check(objective)
        self._cccp().check(objective)

    def _cccp(self) -> CCCP:
        cccp = CCCP() if self.inner is None else clone(self.inner)
        return cccp.set_params(tol=self.tol, max_seconds=self.max_seconds, cache_mb=self.cache_mb or cccp.cache_mb)

    @property
    def n_starts(self) -> int:
        """Number of starts: that of the inner CCCP."""
        return self.inner.restarts if isinstance(self.inner, CCCP) else 1

    def set_restarts(self, restarts: int) -> None:
        """Set the number of starts of the inner CCCP."""
        self.set_params(inner=CCCP() if self.inner is None else self.inner)
        self.set_params(inner__restarts=restarts)

    def minimize(self, objective: Objective, w0: Vector | None = None, **given: Any) -> Result:
        """Minimize the objective; each restart of the inner CCCP is paced on its own.

        The parameters are those of `BaseSolver.minimize`.
        """
        self.check(objective)
        with solving():
            return _Pacing(self, objective, **given).run(w0)


@dataclass
class _Pacing(OuterLoop[Objective]):
    """One call of `SelfPaced.minimize`, whose iterations are those of CCCP."""

    phase: str = LOOSE
    paces: int = 0  # number of times 1/K has grown
    limit: float = 0.0  # 1/K
    losses: Numbers = field(default_factory=lambda: np.zeros(0))  # weighted losses of the examples, (0,) or (n,)
    reached_at: Result | None = None  # result of the last run of CCCP
    iterations_before: int = 0  # iterations of all finished runs of CCCP

    def _restore(self, tree: Tree) -> None:
        super()._restore(tree)
        begun = self.phase != LOOSE
        if self.phase not in PHASES or len(self.losses) != begun * self.objective.n_examples:
            raise ValueError(f"the phase is {repr_short(self.phase)}, with {len(self.losses)} losses")
        if begun != (self.reached_at is not None):
            raise ValueError(f"the phase is {repr_short(self.phase)}, but there are no weights")

    def _problem(self) -> Objective:
        return self.objective

    def _begin(self) -> None:
        self.phase, self.paces, self.limit, self.losses, self.reached_at = LOOSE, 0, 0.0, np.zeros(0), None

    def _found(self, reason: str) -> Result | None:
        objective, found = self.objective, self.reached_at
        if found is None and self.best is not None:
            return None
        if found is None or self.phase != WHOLE:
            # The objective of the chosen examples is not that of all of them.
            w = np.zeros(objective.n_features) if found is None else found.w
            value = objective.value(w)
            if self.iterations:
                self.history[-1] = replace(self.history[-1], objective=value, lower_bound=-math.inf, gap=math.inf)
            return Result(w, value, -math.inf, 0, self.iterations, reason, False, [])
        return replace(found, reason=reason, n_iter=self.iterations, history=[], start_objectives=[], state=None)

    def _reason(self) -> str:
        return self.solved

    def _round(self) -> None:
        """Run a whole start."""
        weights = self.objective.plus.weights
        if self.phase == LOOSE:
            self._run_cccp(self.objective, self.w0, max_iter=1)
            self._measure()
            positive = self.losses[self.losses > 0]
            self.limit = float(np.quantile(positive, self.settings.first_share)) if len(positive) else 0.0
            self.phase = PACING
        assert self.reached_at is not None
        while self.phase == PACING and self.paces < self.settings.max_iter:
            chosen = self.losses <= self.limit
            if chosen.all() or self.reached_at.reason in LAST:
                break
            if chosen.any() and (weights * chosen).any():
                self._run_cccp(self.objective.reweighted(weights * chosen), self.reached_at.w)
                self._measure()
            self.limit *= self.settings.growth
            self.paces += 1
        if self.reached_at.reason not in LAST:
            self.phase = WHOLE
            self._run_cccp(self.objective, self.reached_at.w)
        self.solved = self.reached_at.reason

    def _save_round(self) -> None:
        """Do nothing: the last state of CCCP was stored."""

    def _measure(self) -> None:
        assert self.reached_at is not None
        objective, w = self.objective, self.reached_at.w
        self.calls += objective.n_examples
        self.losses = objective.plus.weights * (objective.plus.planes(w).values - objective.minus.planes(w).values)

    def _run_cccp(self, objective: Objective, w: Vector | None, **limits: int) -> None:
        """Run CCCP, and store its result."""
        cccp = self.settings._cccp().set_params(restarts=1, **limits)
        iterations, calls = self.iterations, self.calls
        lasting = self.start + 1 == self.n_starts and self.phase == WHOLE

        def renumbered(line: Iteration) -> Iteration:
            # Objectives of chosen examples are not those of all of them.
            return replace(line, iteration=iterations + line.iteration, w=None if self.phase == PACING else line.w)

        if objective.starts is not None:
            objective = replace(objective, starts=OneStart(objective.starts, self.start))
        found = self._solve(cccp, objective, w, renumbered, lasting=lasting)
        # CCCP has already obeyed the callback.
        self._answer, self.state = None, found.state
        for line in found.history:
            n_calls, seconds = calls + line.oracle_calls, self.call_began + line.seconds
            self.history.append(replace(renumbered(line), start=self.start, oracle_calls=n_calls, seconds=seconds))
        self.iterations, self.iterations_before = iterations + found.n_iter, len(self.history)
        self.reached_at = replace(found, history=[], state=None)
