"""The frame of training with a belief about unknown latents: the weights and the belief are improved in turn."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from latentstruct.checkpoints import Holding, Keeper, asking, restoring
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Callback, Result, Round
from latentstruct.dissimilarity import DissimilarityObjective
from latentstruct.exceptions import InputError
from latentstruct.plane_store import PlaneStore
from latentstruct.planes import Planes
from latentstruct.ragged import Vector
from latentstruct.short_repr import short_repr, show
from latentstruct.solvers.base import ENDINGS, LAST, BaseSolver, run_solver, solving
from latentstruct.solvers.bundle import PlaneBundle
from latentstruct.solvers.caches import bounded
from latentstruct.solvers.cccp import CCCP
from latentstruct.solvers.kept import planes_at_zero, restored_store, store_tree
from latentstruct.solvers.self_paced import SelfPaced
from latentstruct.state_trees import Saved, Tree, history_tree, restored_history


@dataclass
class DissimilarityResult(Result):
    """What training with a distribution over latents returns: `Result`, and the distribution's weights θ."""

    theta: Vector = field(default_factory=lambda: np.zeros(0))

    __repr__ = short_repr


@dataclass
class Belief:
    """A distribution P over the latents, its weights θ, and the part of the objective that w has no share in."""

    P: Vector
    theta: Vector
    price: float


@dataclass
class Reached:
    """Weights and a belief, with their objective."""

    w: Vector
    belief: Belief
    value: float
    bound: float = -math.inf


# Where a start is before it has begun.
NOTHING = Reached(np.zeros(0), Belief(np.zeros(0), np.zeros(0), 0.0), math.inf)


class Start(NamedTuple):
    """What one start reached, in how many rounds, and why it stopped."""

    at: Reached
    rounds: int
    reason: str


class Kept(NamedTuple):
    """What a later call may begin with: θ, and the planes of single examples."""

    theta: Vector
    planes: PlaneStore | None


def reached_tree(at: Reached) -> Tree:
    """Return weights and a belief."""
    return {"w": at.w, "value": at.value, "bound": at.bound, **vars(at.belief)}


def restored_reached(saved: Saved, objective: DissimilarityObjective) -> Reached:
    """Undo `reached_tree`."""
    w, P, theta = saved.vector("w", objective.n_features), saved.vector("P"), saved.vector("theta")
    if len(P) != objective.model.sites.offsets[-1] or len(theta) not in (0, objective.model.n_weights):
        raise ValueError(f"a distribution of {len(P)} latents with {len(theta)} weights does not fit")
    return Reached(w, Belief(P, theta, saved.real("price")), saved.real("value"), saved.real("bound"))


def start_tree(start: Start) -> Tree:
    """Return what a start reached."""
    return {"at": reached_tree(start.at), "rounds": start.rounds, "reason": start.reason}


def restored_start(saved: Saved, objective: DissimilarityObjective) -> Start:
    """Undo `start_tree`."""
    return Start(restored_reached(saved.part("at"), objective), saved.whole("rounds"), saved.text("reason"))


class Alternation(BaseSolver):
    """The frame of solvers that improve w under a belief about the latents, then the belief, and so on.

    A start without weights first finds w by the loss of the outputs alone. Under the first belief, be it certain of
    latents that are only guessed or of none, w would learn that belief, and the belief would then learn nothing from w.

    Subclasses define `_begin` and `_improve`.
    """

    needs = frozenset({"difference"})
    solver: Any
    cache_mb: float | None

    def _begin(
        self, objective: DissimilarityObjective, attempt: int, w: Vector | None, theta: Vector | None
    ) -> tuple[Belief, Callable[[int], Planes] | None]:
        """Return the first belief, and the planes to begin with where no weights are given."""
        raise TypeError(f"{type(self).__name__} does not define _begin()")

    def _improve(self, objective: DissimilarityObjective, at: Reached, seconds: float) -> Reached:
        """Return the next belief at the same w; the same object if there is none."""
        raise TypeError(f"{type(self).__name__} does not define _improve()")

    def _solve(self, problem: Objective, at: Reached, limits: dict[str, Any], **more: Any) -> Result:
        """Improve w under the belief of `at`, which the problem holds fixed."""
        begins = None if math.isinf(at.value) else at.w
        return run_solver(self._w_solver().set_params(**limits), problem, begins, **more)

    def _keeps(self) -> bool:
        """Tell whether the state of a bundle may be replaced by the planes of single examples it remembers."""
        cccp = self.solver.inner if isinstance(self.solver, SelfPaced) else self.solver
        return getattr(cccp, "inner", None) is None

    def _w_solver(self) -> Any:
        solver = bounded(clone(self.solver) if isinstance(self.solver, CCCP | SelfPaced) else CCCP(), self.cache_mb)
        name = "inner__restarts" if isinstance(solver, SelfPaced) else "restarts"
        if isinstance(solver, SelfPaced) and solver.inner is None:
            solver.set_params(inner=CCCP())
        return solver.set_params(**{name: 1})

    def check(self, objective: Any) -> None:
        """Raise unless the parameters make sense."""
        super().check(objective)
        self._check_at_least(1, "max_rounds", "restarts")
        if self.solver is not None and not isinstance(self.solver, CCCP | SelfPaced):
            raise InputError(
                f"solver must be CCCP() or SelfPaced(), which find w, or None, found {show(self.solver)}: give one of "
                "these"
            )

    def minimize(
        self,
        objective: Any,
        w0: Vector | None = None,
        *,
        state: Any = None,
        callback: Callback | None = None,
        keeper: Keeper | None = None,
    ) -> DissimilarityResult:
        """Minimise from w0, or from the first latents where w0 is None; `state` is that of an earlier result."""
        self.check(objective)
        with solving():
            return _Run(self, objective, state, callback, keeper).run(w0)


class _Run:
    """One call of `Alternation.minimize`: all starts and their history."""

    def __init__(
        self,
        settings: Alternation,
        objective: DissimilarityObjective,
        state: Kept | None,
        callback: Callback | None,
        keeper: Keeper | None,
    ) -> None:
        self.settings, self.objective, self.callback, self.keeper = settings, objective, callback, keeper
        self.theta: Vector | None = None if state is None else state.theta
        self.planes: PlaneStore | None = None if state is None else state.planes
        self.began = time.perf_counter()
        self.history: list[Round] = []
        self.calls = self.start = self.number = 0
        self.before, self.call_began = math.inf, 0.0
        self.at = self.best = NOTHING
        self.chosen: Start | None = None
        """What the best of the earlier starts has reached."""
        self.reached: list[float] = []
        self.is_blind = False
        """Whether w is being found by the loss of the outputs alone."""
        self.resumed: Tree = None
        self.holder: Holding | None = None
        if keeper is not None and keeper.saved is not None:
            with restoring(keeper):
                self._restore(Saved(keeper.saved))

    def _tree(self, inner: Tree) -> Tree:
        """Return the state while w is being found by a solver whose own state is given."""
        memory = getattr(self.objective.model.batch, "memory", None)
        return {
            "at": reached_tree(self.at),
            "best": reached_tree(self.best),
            "chosen": None if self.chosen is None else start_tree(self.chosen),
            "reached": np.array(self.reached),
            "history": history_tree(self.history),
            "counts": [self.calls, self.start, self.number],
            "times": np.array([self.before, self.call_began, self._seconds()]),
            "theta": self.theta,
            "is_blind": self.is_blind,
            "planes": store_tree(self.planes) if self.is_blind and self.planes is not None else None,
            "memory": None if memory is None else memory(),
            "inner": inner,
        }

    def _restore(self, saved: Saved) -> None:
        objective = self.objective
        self.at, self.best = (restored_reached(saved.part(name), objective) for name in ("at", "best"))
        self.chosen = restored_start(saved.part("chosen"), objective) if "chosen" in saved else None
        self.reached, self.history = saved.numbers("reached"), restored_history(saved.part("history"))
        counts = Saved(dict(zip(("calls", "start", "number"), saved.tree["counts"], strict=True)))
        self.calls, self.number = counts.whole("calls"), counts.whole("number", 1)
        self.start = counts.whole("start", 0, self.settings.restarts - 1)
        self.before, self.call_began, seconds = saved.array("times", np.float64, 3).tolist()
        self.began = time.perf_counter() - seconds
        self.theta = saved.vector("theta") if "theta" in saved else None
        self.is_blind, self.planes = saved.flag("is_blind"), None
        if "planes" in saved:
            with asking():
                problem = objective.given(self.at.belief.P)
            self.planes = restored_store(saved.part("planes"), planes_at_zero(problem), objective.weights)
        if "memory" in saved:
            objective.model.batch.recall(saved.tree["memory"])
        self.resumed = saved.tree["inner"]

    def run(self, w0: Vector | None) -> DissimilarityResult:
        several = w0 is None and self.objective.first is not None
        for start in range(self.start, self.settings.restarts if several else 1):
            self.start = start
            found = self._one_start(w0)
            best = self.chosen
            if math.isinf(found.at.value) and best is None:
                at, _ = self._begun(w0)
                value = self._value(at.w, at.belief) if w0 is None else at.value
                found = found._replace(at=replace(at, value=value))
            # One that was interrupted before it reached anything has nothing to add to earlier ones.
            if math.isfinite(found.at.value):
                self.reached.append(found.at.value)
            if best is None or found.at.value < best.at.value:
                best = found
            if found.reason in LAST:
                self.chosen = best._replace(reason=found.reason)
                break
            self.chosen = best
        assert self.chosen is not None
        if self.keeper is not None and self.holder is not None and self.holder.held is not None:
            held = self.holder.held
            self.keeper.offer(lambda: held, self.chosen.reason)
        return self._result(self.chosen)

    def _result(self, best: Start) -> DissimilarityResult:
        at = best.at
        return DissimilarityResult(
            at.w,
            at.value,
            at.bound,
            self.calls,
            best.rounds,
            best.reason,
            False,
            self.history,
            Kept(at.belief.theta, self.planes),
            self.reached,
            at.belief.theta,
        )

    def _begun(self, w0: Vector | None) -> tuple[Reached, Callable[[int], Planes] | None]:
        """Return where a start begins, with the objective if weights are given, and the planes it begins with."""
        belief, first = self.settings._begin(self.objective, self.start, w0, self.theta)
        if w0 is None:
            return Reached(np.zeros(self.objective.n_features), belief, math.inf), first
        w = np.array(w0, dtype=np.float64)
        return Reached(w, belief, self._value(w, belief)), first

    def _one_start(self, w0: Vector | None) -> Start:
        """Go down from one start; its objective is +∞ if it was interrupted before it knew any."""
        before = len(self.history) - max(self.number - 1, 0)
        try:
            if self.resumed is None:
                self.number, self.before, self.best = 0, math.inf, NOTHING
                self.best, first = self._begun(w0)
                self.at = self.best
            else:
                # Only a start that knows no weights yet looks at its first planes.
                first = self._begun(w0)[1] if math.isinf(self.at.value) else None
            reason = self._descend(first)
        except KeyboardInterrupt:
            reason = "interrupted"
        rounds, self.number = len(self.history) - before, 0
        return Start(self.best, rounds, reason)

    def _value(self, w: Vector, belief: Belief) -> float:
        return self.objective.given(belief.P).value(w) + belief.price

    def _descend(self, first: Callable[[int], Planes] | None) -> str:
        """Alternate until a round brings little; return why it stopped."""
        least = self.settings.tol * float(self.objective.weights.sum())
        while True:
            self.number += self.resumed is None
            solved, at = self._improve_weights(self.at, first, self.number)
            self._offer(at)
            improved = at if solved.reason in LAST else self.settings._improve(self.objective, at, self._left())
            self._offer(improved)
            reached = min(at.value, improved.value)
            small = improved is at or self.before - reached <= least
            asked_to_stop = self._close_round(self.number)
            reason = self._reason(solved.reason, small, asked_to_stop, self.number)
            if reason:
                return reason
            self.at, self.before = improved, reached

    def _called(self) -> tuple[dict[str, Any], Holding | None]:
        """Return the limits and the keeper of a solver that is to find w now."""
        if self.resumed is None:
            self.call_began = self._seconds()
        limits = {"tol": self.settings.tol, "max_seconds": max(self.settings.max_seconds - self.call_began, 1e-3)}
        self.holder = None if self.keeper is None else Holding(self.keeper, self._tree, self.resumed)
        self.resumed = None
        return limits, self.holder

    def _improve_weights(
        self, at: Reached, first: Callable[[int], Planes] | None, number: int
    ) -> tuple[Result, Reached]:
        """Return the result of a search for w, and what it reached."""
        if self.is_blind or (math.isinf(at.value) and self.resumed is None):
            self.is_blind = True
            limits, keeper = self._called()
            solver, problem = self.settings._w_solver().set_params(**limits), self.objective.blind(first)
            solved = run_solver(solver, problem, None, keeper, callback=self._watch(at, number))
            self.calls += solved.oracle_calls
            self.is_blind = False
            # At w = 0 all latents are alike, and the first ones would be forgotten.
            if solved.w.any() or solved.reason in LAST:
                return solved, Reached(solved.w, at.belief, self._value(solved.w, at.belief))
        solved = self._solve(at, first, number)
        value = solved.objective + at.belief.price
        bound = min(solved.lower_bound + at.belief.price, value, at.value)
        return solved, Reached(solved.w, at.belief, value, bound) if value < at.value else replace(at, bound=bound)

    def _solve(self, at: Reached, first: Callable[[int], Planes] | None, number: int) -> Result:
        """Improve w, going on with the planes of earlier rounds: another belief changes their heights only."""
        problem = self.objective.given(at.belief.P, first)
        tells = getattr(problem.plus.task, "plane_losses", None)
        losses = None if tells is None else tells(problem.plus.batch)
        if losses is None:
            self.planes = None
        elif self.planes is not None:
            self.planes.change_offsets(losses)
        limits, keeper = self._called()
        callback = self._watch(at, number)
        solved = self.settings._solve(problem, at, limits, keeper=keeper, state=self.planes, callback=callback)
        self.calls += solved.oracle_calls
        found = solved.state
        if isinstance(found, PlaneBundle) and self.settings._keeps():
            found = found.remembered
        self.planes = found if isinstance(found, PlaneStore) else None
        return solved

    def _offer(self, at: Reached) -> None:
        if at.value < self.best.value:
            self.best = at

    def _reason(self, solved: str, small: bool, asked_to_stop: bool, number: int) -> str:
        """Return why to stop, or nothing."""
        if solved in ENDINGS:
            return solved
        if asked_to_stop:
            return "callback"
        if self._left() <= 0:
            return "max_seconds"
        if small:
            return solved
        return "max_rounds" if number >= self.settings.max_rounds else ""

    def _watch(self, at: Reached, number: int) -> Callback | None:
        """Show rounds of the search for w as estimates of the present round."""
        if self.callback is None:
            return None
        callback = self.callback

        def show(line: Round) -> bool:
            value = min(at.value, line.objective + at.belief.price)
            bound = min(line.lower_bound + at.belief.price, value)
            calls = self.calls + line.oracle_calls
            return bool(callback(Round(number, value, bound, value - bound, calls, self._seconds(), True, self.start)))

        return show

    def _close_round(self, number: int) -> bool:
        best = self.best
        gap = best.value - best.bound
        line = Round(number, best.value, best.bound, gap, self.calls, self._seconds(), False, self.start)
        self.history.append(line)
        return self.callback is not None and bool(self.callback(line))

    def _seconds(self) -> float:
        return time.perf_counter() - self.began

    def _left(self) -> float:
        return max(self.settings.max_seconds - self._seconds(), 0.0)
