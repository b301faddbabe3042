"""The concave-convex procedure: a non-convex difference as a sequence of convex problems."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from latentstruct.checks import is_real
from latentstruct.exceptions import InputError
from latentstruct.objective import Objective
from latentstruct.protocols import Callback, Result, Round
from latentstruct.ragged import Vector
from latentstruct.short_repr import show
from latentstruct.solvers.auto import HingeSolver, choose_solver
from latentstruct.solvers.base import ENDINGS, LAST, BaseSolver
from latentstruct.solvers.lbfgs import LBFGS
from latentstruct.solvers.proximal import Proximal, wants_proximal

# Rounds of block ascent in one convex problem before a bundle takes over, and where its dense planes are long.
PATIENCE, LONG_PATIENCE = 40, 1000
LONG = 50_000


@dataclass
class Iterate:
    """Weights with their true objective and the convex one that touches it there."""

    w: Vector
    value: float
    convex: Objective


class CCCP(BaseSolver):
    """Concave-convex procedure with kept planes.

    A round replaces f⁻ by its planes at the present w, which gives a convex problem that lies above the objective and
    touches it at w, and minimises that. The objective never rises (exact inference). The plus side is the same in
    all rounds and all starts, so the planes an inner solver found stay valid and are handed on: a round after the
    first needs few new answers of the oracle.

    Parameters
    ----------
    inner : solver, optional
        Solver of the convex problems, such as `BlockAscent`, `Bundle`, `FrankWolfe` or `LBFGS`; by default the fastest
        for objectives of this kind.
    tol : float, default=1e-3
        Stop when a round lowers the objective by less than this share of it. Convex problems are solved to this
        relative gap in the end, and less precisely before, following the decrease of the last round.
    max_rounds : int, default=200
        Rounds of each start at most.
    max_seconds : float
        Limit of all starts together.
    restarts : int, default=1
        Number of starts; the best objective is kept and all are reported. They differ only if the objective has
        several first planes (`Objective.first`), so not when w0 is given.
    first_tol : float, default=0.1
        Relative precision of the first convex problem.
    keep_planes : bool, default=True
        Whether inner solvers go on with the planes of earlier rounds and starts; False serves comparisons.

    Notes
    -----
    Yuille & Rangarajan (2003); Yu & Joachims (2009), Algorithm 1.
    """

    needs = frozenset({"difference"})

    def __init__(
        self,
        inner: Any = None,
        tol: float = 1e-3,
        max_rounds: int = 200,
        max_seconds: float = float("inf"),
        restarts: int = 1,
        first_tol: float = 0.1,
        keep_planes: bool = True,
    ) -> None:
        self.inner = inner
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.restarts = restarts
        self.first_tol = first_tol
        self.keep_planes = keep_planes

    def check(self, objective: Objective) -> None:
        """Raise unless the inner solver fits the convex problems and the parameters make sense."""
        super().check(objective)
        self._check_at_least(1, "max_rounds", "restarts")
        if not (is_real(self.first_tol) and 0 < self.first_tol < 1):
            raise InputError(f"first_tol must be between 0 and 1, found {show(self.first_tol)}: choose one such as 0.1")
        if self.inner is not None and (isinstance(self.inner, type) or not hasattr(self.inner, "minimize")):
            raise InputError(
                f"inner must be a solver such as Bundle(), found {show(self.inner)}: give one, or leave it out"
            )

    def minimize(
        self, objective: Objective, w0: Vector | None = None, *, state: Any = None, callback: Callback | None = None
    ) -> Result:
        """Minimise the objective from w0, or from its first planes where w0 is None; see `BaseSolver.minimize`.

        An objective that is convex already is handed to the inner solver as it is.
        """
        self.check(objective)
        if "convex" in objective.properties:
            inner = self._convex_solver(objective)
            inner.set_params(tol=self.tol, max_seconds=self.max_seconds)
            return inner.minimize(objective, w0, state=state, callback=callback)
        # As in all solvers: threads of BLAS that wait for each other cost more than they bring.
        with threadpool_limits(limits=1, user_api="blas"):
            return _Descent(self, objective.counted(), state, callback).run(w0)

    def _convex_solver(self, convex: Objective) -> Any:
        return choose_solver(convex) if self.inner is None else clone(self.inner)

    def _inner(self, convex: Objective) -> Any:
        inner = self._convex_solver(convex)
        if self.inner is None and isinstance(inner, HingeSolver):
            # With kept planes block ascent ends soon; where it does not, the bundle makes more of them.
            patience = PATIENCE if convex.n_features <= LONG else LONG_PATIENCE
            inner.set_params(patience=patience, hopeless=0.0)
        inner.check(convex)
        return inner


class _Descent:
    """One call of `CCCP.minimize`: all starts, their history and the planes they share."""

    def __init__(self, settings: CCCP, objective: Objective, state: Any, callback: Callback | None) -> None:
        self.settings, self.objective, self.state, self.callback = settings, objective, state, callback
        self.began = time.perf_counter()
        self.history: list[Round] = []
        self.start = 0

    def run(self, w0: Vector | None) -> Result:
        several = w0 is None and self.objective.first is not None
        best: Result | None = None
        reached: list[float] = []
        for start in range(self.settings.restarts if several else 1):
            self.start = start
            found = self._one_start(w0)
            reached.append(found.objective)
            if best is None or found.objective < best.objective:
                best = found
            if found.reason in LAST:
                best = replace(best, reason=found.reason)
                break
        assert best is not None
        calls = self.objective.plus.tally.calls
        return replace(best, oracle_calls=calls, history=self.history, state=self.state, start_objectives=reached)

    def _one_start(self, w0: Vector | None) -> Result:
        self.at: Iterate | None = None
        rounds = len(self.history)
        try:
            return self._descend(self._begin(w0))
        except KeyboardInterrupt:
            w = np.zeros(self.objective.n_features) if self.at is None else self.at.w
            value = self.objective.value(w) if self.at is None else self.at.value
            return Result(w, value, -math.inf, 0, len(self.history) - rounds, "interrupted", False, [])

    def _begin(self, w0: Vector | None) -> Iterate:
        w = np.zeros(self.objective.n_features) if w0 is None else np.array(w0, dtype=np.float64)
        if w0 is None and self.objective.first is not None:
            # Planes below f⁻ that touch it nowhere in particular: the objective is known after the first round.
            return Iterate(w, math.inf, self.objective.linearized_with(self.objective.first(self.start)))
        convex = self.objective.linearized_at(w)
        return Iterate(w, convex.value(w), convex)

    def _descend(self, at: Iterate) -> Result:
        """Go down from one start."""
        rounds, final = 0, self.settings.tol
        precision = max(final, self.settings.first_tol)
        while True:
            known = math.isfinite(at.value)
            solved, reached = self._round(at, precision) if known else self._first_round(at, precision)
            rounds += 1
            decrease = at.value - reached.value
            small = known and decrease <= final * max(abs(at.value), 1e-12)
            # A loosely solved problem may end above where it began: then the same one is solved more precisely.
            self.at = at = reached if decrease > 0 else at
            bound = min(solved.lower_bound, at.value)
            asked_to_stop = self._close_round(rounds, at.value, bound)
            reason = self._reason(solved, small, precision <= final, asked_to_stop, rounds)
            if reason:
                # What was bounded is the convex problem, which lies above the objective.
                return Result(at.w, at.value, bound, 0, rounds, reason, False, [])
            precision = self._next_precision(precision, final, decrease / max(abs(at.value), 1e-12))

    def _reason(self, solved: Result, small: bool, precise: bool, asked_to_stop: bool, rounds: int) -> str:
        """Return why to stop, or nothing."""
        if solved.reason in ENDINGS:
            return solved.reason
        if asked_to_stop:
            return "callback"
        if self._seconds() >= self.settings.max_seconds:
            return "max_seconds"
        # A problem that its solver gave up will not be solved by asking again.
        if small and (precise or solved.reason != "converged"):
            return solved.reason
        return "max_rounds" if rounds >= self.settings.max_rounds else ""

    def _first_round(self, at: Iterate, precision: float) -> tuple[Result, Iterate]:
        """Solve the first convex problem until it is known to say more than w = 0.

        At w = 0 all latents are equally good, so what the first ones told would be lost.
        """
        at_zero = at.convex.value(np.zeros_like(at.w))
        while True:
            solved, reached = self._round(at, precision)
            told = at_zero - solved.objective >= solved.gap
            if told or precision <= self.settings.tol or solved.reason != "converged":
                return solved, reached
            precision = max(self.settings.tol, 0.3 * precision)

    @staticmethod
    def _next_precision(precision: float, final: float, share: float) -> float:
        """Follow the decrease of the last round; one that brought little asks for a third of the gap."""
        wanted = min(precision, 0.3 * precision if share <= precision else 0.5 * share)
        # A precision a little above the final one would cost nearly as much, and have to be followed by it.
        return final if wanted < 2.0 * final else wanted

    def _round(self, at: Iterate, precision: float) -> tuple[Result, Iterate]:
        inner = self.settings._inner(at.convex)
        left = max(self.settings.max_seconds - self._seconds(), 1e-3)
        inner.set_params(tol=precision, max_seconds=min(left, inner.max_seconds))
        state = self.state if self.settings.keep_planes else None
        solved = inner.minimize(at.convex, at.w, state=state, callback=self._watch(at))
        self.state = solved.state
        w = solved.w
        touching = self.objective.linearized_at(w)
        # Both functions have the same regulariser and plus side at w.
        value = solved.objective + at.convex.minus.total(w)(w) - touching.minus.total(w)(w)
        return solved, Iterate(w, value, touching)

    def _watch(self, at: Iterate) -> Callback | None:
        """Show inner rounds as estimates of the present round, so that a long one can be watched and stopped."""
        if self.callback is None:
            return None
        callback = self.callback

        def show(line: Round) -> bool:
            value = min(at.value, line.objective)
            number = 1 + sum(past.start == self.start for past in self.history)
            calls = self.objective.plus.tally.calls
            return bool(
                callback(Round(number, value, line.lower_bound, line.gap, calls, self._seconds(), True, self.start))
            )

        return show

    def _close_round(self, number: int, value: float, bound: float) -> bool:
        calls = self.objective.plus.tally.calls
        line = Round(number, value, bound, value - bound, calls, self._seconds(), False, self.start)
        self.history.append(line)
        return self.callback is not None and bool(self.callback(line))

    def _seconds(self) -> float:
        return time.perf_counter() - self.began


def choose_descent(objective: Objective) -> BaseSolver:
    """Return the solver that did best in measurements for objectives that are not convex.

    L-BFGS on the difference itself where the latents are summed out; CCCP where they are maximised, since there f⁻ has
    kinks that no smoothing of the outputs takes away. CCCP also where outputs are maximised by approximate inference:
    the planes of the outputs it finds are bounds wherever latents are summed exactly, while soft answers have other
    minima. `Proximal` for other regularisers than ½‖w‖².
    """
    if wants_proximal(objective):
        return Proximal()
    if not objective.minus.smooth:
        return CCCP()
    decoded = "smooth" not in objective.properties and "difference" in objective.properties
    return CCCP() if decoded and getattr(objective.plus, "approximate", False) else LBFGS()
