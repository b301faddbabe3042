"""The concave-convex procedure: a non-convex difference as a sequence of convex problems."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from latentstruct.checkpoints import Keeper, Nested, restoring
from latentstruct.checks import is_real
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Callback, Result, Round
from latentstruct.exceptions import InputError
from latentstruct.ragged import Vector
from latentstruct.short_repr import show
from latentstruct.solvers.auto import HingeSolver, choose_solver
from latentstruct.solvers.base import (
    EARLY_STOPPING,
    ENDINGS,
    LAST,
    BaseSolver,
    least_scale,
    memory_of,
    recall,
    run_solver,
    solving,
)
from latentstruct.solvers.caches import bounded
from latentstruct.solvers.handed_on import is_known, restored_state, state_tree
from latentstruct.solvers.kept import linear_tree, restored_linear, restored_result, result_tree
from latentstruct.solvers.lbfgs import LBFGS
from latentstruct.solvers.proximal import Proximal, wants_proximal
from latentstruct.state_trees import Saved, Tree, history_tree, restored_history

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
    cache_mb : float, optional
        Megabytes that the inner solver may keep planes in; by default its own bound.

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
        cache_mb: float | None = None,
    ) -> None:
        self.inner = inner
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.restarts = restarts
        self.first_tol = first_tol
        self.keep_planes = keep_planes
        self.cache_mb = cache_mb

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
        self,
        objective: Objective,
        w0: Vector | None = None,
        *,
        state: Any = None,
        callback: Callback | None = None,
        keeper: Keeper | None = None,
    ) -> Result:
        """Minimise the objective from w0, or from its first planes where w0 is None; see `BaseSolver.minimize`.

        An objective that is convex already is handed to the inner solver as it is.
        """
        self.check(objective)
        if "convex" in objective.properties:
            inner = self._convex_solver(objective)
            inner.set_params(tol=self.tol, max_seconds=self.max_seconds)
            return run_solver(inner, objective, w0, keeper, state=state, callback=callback)
        with solving():
            return _Descent(self, objective.counted(), state, callback, keeper).run(w0)

    def _convex_solver(self, convex: Objective) -> Any:
        return bounded(choose_solver(convex) if self.inner is None else clone(self.inner), self.cache_mb)

    def _inner(self, convex: Objective) -> Any:
        inner = self._convex_solver(convex)
        if self.inner is None and isinstance(inner, HingeSolver):
            # With kept planes block ascent ends soon; where it does not, the bundle makes more of them.
            patience = PATIENCE if convex.n_features <= LONG else LONG_PATIENCE
            inner.set_params(patience=patience, hopeless=0.0)
        inner.check(convex)
        return inner


@dataclass
class Closed:
    """What a round has told that is over."""

    solved: str
    """Why the solver of its convex problem stopped."""
    bound: float
    decrease: float
    small: bool
    precise: bool

    def tree(self) -> Tree:
        """Return all of it."""
        return dict(vars(self))

    @classmethod
    def restored(cls, saved: Saved) -> "Closed":
        """Undo `tree`."""
        small, precise = saved.flag("small"), saved.flag("precise")
        return cls(saved.text("solved"), saved.real("bound"), saved.real("decrease"), small, precise)


class _Descent:
    """One call of `CCCP.minimize`: all starts, their history and the planes they share."""

    def __init__(
        self, settings: CCCP, objective: Objective, state: Any, callback: Callback | None, keeper: Keeper | None
    ) -> None:
        self.settings, self.objective, self.state, self.callback = settings, objective, state, callback
        self.keeper, self.least = keeper, least_scale(objective.plus.weights)
        self.stop_wanted = False
        self.began = time.perf_counter()
        self.history: list[Round] = []
        self.reached: list[float] = []
        self.best: Result | None = None
        self.n_starts, self.start, self.rounds = 1, 0, 0
        self.at: Iterate | None = None
        self.closed: Closed | None = None
        """Of the last round, as long as it is not known whether another one follows."""
        self.inner: Tree = None
        """The state of the solver of the present convex problem, if that is to go on."""
        self.answer: bool | str | None = None
        """Of the callback to the last round."""
        self.precision = self.sharper = self.at_zero = self.round_began = 0.0
        if keeper is not None and keeper.saved is not None:
            with restoring(keeper):
                self._restore(Saved(keeper.saved))

    def _tree(self) -> Tree:
        """Return the state, but for the planes that are handed on."""
        assert self.at is not None
        return {
            "at": {"w": self.at.w, "value": self.at.value, "linear": linear_tree(self.at.convex.minus)},
            "history": history_tree(self.history),
            "reached": np.array(self.reached),
            "best": None if self.best is None else result_tree(self.best),
            "start": self.start,
            "rounds": self.rounds,
            "numbers": np.array([self.precision, self.sharper, self.at_zero, self.round_began]),
            "calls": self.objective.plus.tally.calls,
            "seconds": self._seconds(),
        }

    def _closed_tree(self) -> Tree:
        """Return the state between two rounds."""
        assert self.closed is not None
        more = {"state": state_tree(self.state), "memory": memory_of(self.objective), "closed": self.closed.tree()}
        return {**self._tree(), **more}

    def _restore(self, saved: Saved) -> None:
        d, at = self.objective.n_features, saved.part("at")
        self.at = Iterate(at.vector("w", d), at.real("value"), restored_linear(at.part("linear"), self.objective))
        self.history, self.reached = restored_history(saved.part("history")), saved.numbers("reached")
        self.best = restored_result(saved.part("best"), d) if "best" in saved else None
        self.start, self.rounds = saved.whole("start", 0, self.settings.restarts - 1), saved.whole("rounds")
        self.precision, self.sharper, self.at_zero, self.round_began = saved.vector("numbers", 4).tolist()
        self.objective.plus.tally.calls = saved.whole("calls")
        self.began = time.perf_counter() - saved.real("seconds")
        if "closed" in saved:
            self.closed = Closed.restored(saved.part("closed"))
            self.state = restored_state(saved.tree["state"], self.at.convex)
            recall(self.objective, saved.tree["memory"])
        else:
            self.inner = saved.tree["inner"]

    def run(self, w0: Vector | None) -> Result:
        if w0 is None and self.objective.first is not None:
            self.n_starts = self.settings.restarts
        reason = ""
        for start in range(self.start, self.n_starts):
            if start > self.start:
                self.start, self.rounds, self.at = start, 0, None
            found = self._one_start(w0)
            self.reached.append(found.objective)
            if self.best is None or found.objective < self.best.objective:
                self.best = found
            if found.reason in LAST:
                reason = found.reason
                break
        assert self.best is not None
        return replace(
            self.best,
            reason=reason or self.best.reason,
            oracle_calls=self.objective.plus.tally.calls,
            history=self.history,
            state=self.state,
            start_objectives=self.reached,
        )

    def _one_start(self, w0: Vector | None) -> Result:
        rounds = len(self.history) - self.rounds
        try:
            if self.at is None:
                self._begin(w0)
            return self._descend()
        except KeyboardInterrupt:
            known = self.at is not None and math.isfinite(self.at.value)
            w = self.at.w if self.at is not None and known else np.zeros(self.objective.n_features)
            value = self.at.value if self.at is not None and known else self.objective.value(w)
            return Result(w, value, -math.inf, 0, len(self.history) - rounds, "interrupted", False, [])

    def _begin(self, w0: Vector | None) -> None:
        w = np.zeros(self.objective.n_features) if w0 is None else np.array(w0, dtype=np.float64)
        self.precision = max(self.settings.tol, self.settings.first_tol)
        if w0 is None and self.objective.first is not None:
            # Planes below f⁻ that touch it nowhere in particular: the objective is known after the first round.
            convex = self.objective.linearized_with(self.objective.first(self.start))
            self.at_zero, self.sharper = convex.value(w), self.precision
            self.at = Iterate(w, math.inf, convex)
        else:
            convex = self.objective.linearized_at(w)
            self.at = Iterate(w, convex.value(w), convex)

    def _descend(self) -> Result:
        """Go down from one start."""
        final = self.settings.tol
        while True:
            if self.closed is None:
                self._close(*self._solve())
            closed, at = self.closed, self.at
            assert closed is not None
            assert at is not None
            reason = self._reason(closed)
            if reason:
                self.closed = None
                # What was bounded is the convex problem, which lies above the objective.
                return Result(at.w, at.value, closed.bound, 0, self.rounds, reason, False, [])
            self.precision = self._next_precision(
                self.precision, final, closed.decrease / max(abs(at.value), self.least)
            )
            self.closed = None

    def _solve(self) -> tuple[Result, Iterate]:
        """Solve the convex problem of a round.

        The first one is solved until it is known to say more than w = 0. There all latents are equally good, so what
        the first ones told would be lost.
        """
        assert self.at is not None
        if math.isfinite(self.at.value):
            return self._round(self.at, self.precision)
        while True:
            solved, reached = self._round(self.at, self.sharper)
            told = self.at_zero - solved.objective >= solved.gap
            if told or self.sharper <= self.settings.tol or solved.reason != "converged":
                return solved, reached
            self.sharper = max(self.settings.tol, 0.3 * self.sharper)

    def _close(self, solved: Result, reached: Iterate) -> None:
        """End a round: go on from where its convex problem has led, if that is lower."""
        at, final = self.at, self.settings.tol
        assert at is not None
        self.rounds += 1
        decrease = at.value - reached.value
        small = math.isfinite(at.value) and decrease <= final * max(abs(at.value), self.least)
        # A loosely solved problem may end above where it began: then the same one is solved more precisely.
        self.at = at = reached if decrease > 0 else at
        bound = min(solved.lower_bound, at.value)
        self.closed = Closed(solved.reason, bound, decrease, small, self.precision <= final)
        self.answer = self._close_round(self.rounds, at, bound) or self.stop_wanted
        self.stop_wanted = False
        reason = self._reason(self.closed)
        # A convex problem that was cut short has been kept as it was then.
        cut_short = solved.reason in LAST and reason in LAST
        if self.keeper is not None and not cut_short and is_known(self.state):
            self.keeper.offer(self._closed_tree, reason if self._is_last(reason) else "")

    def _is_last(self, reason: str) -> bool:
        """Tell whether a reason to end a start ends all."""
        return bool(reason) and (reason in LAST or self.start + 1 == self.n_starts)

    def _reason(self, closed: Closed) -> str:
        """Return why to stop, or nothing."""
        if closed.solved in ENDINGS:
            return closed.solved
        if self.answer:
            return EARLY_STOPPING if self.answer == EARLY_STOPPING else "callback"
        if self.history[-1].seconds >= self.settings.max_seconds:
            return "max_seconds"
        # A problem that its solver gave up will not be solved by asking again.
        if closed.small and (closed.precise or closed.solved != "converged"):
            return closed.solved
        return "max_rounds" if self.rounds >= self.settings.max_rounds else ""

    @staticmethod
    def _next_precision(precision: float, final: float, share: float) -> float:
        """Follow the decrease of the last round; one that brought little asks for a third of the gap."""
        wanted = min(precision, 0.3 * precision if share <= precision else 0.5 * share)
        # A precision a little above the final one would cost nearly as much, and have to be followed by it.
        return final if wanted < 2.0 * final else wanted

    def _round(self, at: Iterate, precision: float) -> tuple[Result, Iterate]:
        inner, saved = self.settings._inner(at.convex), self.inner
        self.inner = None
        if saved is None:
            self.round_began = self._seconds()
        left = max(self.settings.max_seconds - self.round_began, 1e-3)
        inner.set_params(tol=precision, max_seconds=min(left, inner.max_seconds))
        state = self.state if self.settings.keep_planes else None
        keeper = None
        if self.keeper is not None:
            keeper = Nested(self.keeper, lambda tree: {**self._tree(), "inner": tree}, saved)
        solved = run_solver(inner, at.convex, at.w, keeper, state=state, callback=self._watch(at))
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
            shown = Round(number, value, line.lower_bound, line.gap, calls, self._seconds(), True, self.start)
            # The convex problem may be solved in this very iteration, and then does not end by the callback.
            self.stop_wanted = self.stop_wanted or bool(callback(shown))
            return self.stop_wanted

        return show

    def _close_round(self, number: int, at: Iterate, bound: float) -> bool | str | None:
        """Record a round; return the answer of the callback."""
        calls = self.objective.plus.tally.calls
        line = Round(number, at.value, bound, at.value - bound, calls, self._seconds(), False, self.start)
        self.history.append(line)
        return None if self.callback is None else self.callback(replace(line, w=at.w))

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
