"""The outer loop of solvers that solve a sequence of simpler problems: CCCP, self-paced learning, ModLat."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Callback, Checkpointer, Iteration, Problem, Result
from latentstruct.core.types import Vector
from latentstruct.persistence.checkpoints import NestedCheckpointer, restoring
from latentstruct.persistence.state_trees import CONTEXT, Tree, from_state_dict, load_state_dict, state_dict
from latentstruct.planes.store import PlaneStore
from latentstruct.solvers.base import EARLY_STOPPING, ENDINGS, LAST, memory_of, recall
from latentstruct.solvers.bundle import PlaneBundle
from latentstruct.solvers.plane_model import PlaneModel

O = TypeVar("O", bound=Problem)
PLANES = (PlaneStore, PlaneBundle, PlaneModel)


@dataclass
class SolverState:
    """The planes of an inner solver."""

    planes: PlaneStore | PlaneBundle | PlaneModel | None


@dataclass
class OuterLoop(ABC, Generic[O]):
    """All starts of one call of `minimize`: history, clock, callback, checkpoints and the best result.

    Subclasses add their own state as fields.
    """

    # The solver, and the arguments of `minimize`.
    settings: Any = field(metadata=CONTEXT)
    objective: O = field(metadata=CONTEXT)
    state: Any = field(default=None, metadata=CONTEXT)  # planes of inner solvers, passed from one to the next
    callback: Callback | None = field(default=None, metadata=CONTEXT)
    checkpointer: Checkpointer | None = field(default=None, metadata=CONTEXT)
    # One entry per iteration, the final objective of each start, and the best result so far.
    history: list[Iteration] = field(default_factory=list)
    reached: list[float] = field(default_factory=list)
    best: Result | None = None
    # Number of the current start, from 0, and of its finished iterations.
    start: int = 0
    iterations: int = 0
    calls: int = 0  # oracle calls of all finished inner solvers
    call_began: float = 0.0  # start of the current inner solver, in seconds since the beginning of training
    solved: str = ""  # why the inner solver of the last iteration ended; empty during an iteration
    small: bool = False  # whether the last iteration gained so little that its start ends

    def __post_init__(self) -> None:
        self._began, self._inner, self._under_way = time.perf_counter(), None, False
        self._answer: bool | str | None = None
        saved = None if self.checkpointer is None else self.checkpointer.saved
        if self.checkpointer is not None and saved is not None:
            with restoring(self.checkpointer):
                self._restore(saved)

    @abstractmethod
    def _begin(self) -> None:
        """Set the initial state of the current start."""

    @abstractmethod
    def _round(self) -> None:
        """Run one iteration: solve inner problems, call `_close`, set `solved` and `small`."""

    @abstractmethod
    def _found(self, reason: str) -> Result | None:
        """Return the result of the current start; None if it was interrupted before it had one."""

    @abstractmethod
    def _problem(self) -> Objective:
        """Return an objective of the examples whose planes are in `state`."""

    def run(self, w0: Vector | None) -> Result:
        """Run all remaining starts, and return the best result."""
        self.w0, several = w0, w0 is None and self.objective.starts is not None
        self.n_starts = self.settings.n_starts if several else 1
        reason, first = "", self.start
        for start in range(first, self.n_starts):
            if start > first:
                self.start, self.iterations, self.solved, self._under_way, self._answer = start, 0, "", False, None
            try:
                if not self._under_way:
                    self._begin()
                while True:
                    if not self.solved:
                        self._round()
                        self._save_round()
                    reason = self._reason()
                    if reason:
                        break
                    self.solved = ""
            except KeyboardInterrupt:
                reason = "interrupted"
            found = self._found(reason)
            if found is not None:
                self.reached.append(found.objective)
                if self.best is None or found.objective < self.best.objective:
                    self.best = found
            if reason in LAST:
                break
        assert self.best is not None
        return replace(
            self.best,
            reason=reason if reason in LAST else self.best.reason,
            oracle_calls=self.calls,
            history=self.history,
            # Planes are valid for all starts; any other state belongs to the weights it was found with.
            state=self.state if isinstance(self.state, PLANES) else self.best.state,
            start_objectives=self.reached,
        )

    def _reason(self) -> str:
        """Return why the current start ends after the last iteration; empty if it does not."""
        if self.solved in ENDINGS:
            return self.solved
        if self._answer:
            return EARLY_STOPPING if self._answer == EARLY_STOPPING else "callback"
        if self.history[-1].seconds >= self.settings.max_seconds:
            return "max_seconds"
        if self.small:
            return self.solved
        return "max_iter" if self.iterations >= self.settings.max_iter else ""

    def _seconds(self) -> float:
        return time.perf_counter() - self._began

    def _close(self, value: float, bound: float, w: Vector | None = None) -> None:
        """Record an iteration with the best objective so far, its bound and its weights, and call the callback."""
        self.iterations += 1
        line = Iteration(self.iterations, value, bound, value - bound, self.calls, self._seconds(), False, self.start)
        self.history.append(line)
        answer = None if self.callback is None else self.callback(replace(line, w=w))
        # An inner solver may end by itself in the iteration in which the callback returned True.
        self._answer = answer or self._answer

    def _solve(
        self,
        solver: Any,
        problem: Objective,
        w0: Vector | None,
        shown: Callable[[Iteration], Iteration],
        with_state: bool = True,
        **wrapping: Any,
    ) -> Result:
        """Run an inner solver in the remaining time.

        `shown` returns the entry to report for an iteration of the solver, to which calls, seconds and start are added.
        `state` is passed to the solver, or stored with the solver's own state. `wrapping` are further arguments of
        `NestedCheckpointer`.
        """
        resumed, self._inner = self._inner, None
        if resumed is None:
            self.call_began = self._seconds()
        left = max(self.settings.max_seconds - self.call_began, 1e-3)
        solver.max_seconds = min(left, solver.max_seconds)
        checkpointer = None
        if self.checkpointer is not None:
            kept = None if with_state else self.state
            checkpointer = NestedCheckpointer(
                self.checkpointer, lambda tree: self._state_dict(kept, tree), resumed, **wrapping
            )
        callback = None if self.callback is None else self._watch(self.callback, shown)
        state = self.state if with_state else None
        found = solver.minimize(problem, w0, state=state, callback=callback, checkpointer=checkpointer)
        self.calls += found.oracle_calls
        return found

    def _watch(self, callback: Callback, shown: Callable[[Iteration], Iteration]) -> Callback:
        """Return the callback of an inner solver that reports and can stop long iterations."""

        def show(line: Iteration) -> bool | str | None:
            calls = self.calls + line.oracle_calls
            answer = callback(replace(shown(line), oracle_calls=calls, seconds=self._seconds(), start=self.start))
            self._answer = answer or self._answer
            return self._answer

        return show

    def _estimate(self, line: Iteration, value: float, bound: float) -> Iteration:
        """Return an iteration of an inner solver as an estimate of the current one."""
        return replace(
            line,
            iteration=self.iterations + 1,
            objective=value,
            lower_bound=bound,
            gap=value - bound,
            estimate=True,
            w=None,
        )

    def _save_round(self) -> None:
        """Store the state between two iterations."""
        reason = self._reason()
        # An interrupted inner problem has already been stored.
        cut_short = self.solved in LAST and reason in LAST
        known = self.state is None or isinstance(self.state, PLANES)
        if self.checkpointer is not None and known and not cut_short:
            last = reason in LAST or self.start + 1 == self.n_starts
            self.checkpointer.save(lambda: self._state_dict(self.state, None), reason if last else "")

    def _state_dict(self, state: Any, inner: Tree) -> Tree:
        """Return the state of the loop, with planes and the state of the inner solver that is running."""
        return {
            **state_dict(self),
            **state_dict(SolverState(state)),
            "memory": memory_of(self.objective),
            "seconds": self._seconds(),
            "inner": inner,
        }

    def _restore(self, tree: Tree) -> None:
        load_state_dict(self, tree, self.objective)
        if self.start >= self.settings.n_starts:
            raise ValueError(f"start is {self.start}, but there are {self.settings.n_starts} starts")
        seconds = tree["seconds"]
        if not isinstance(seconds, float) or not math.isfinite(seconds):
            raise TypeError(f"seconds is {seconds!r}, not a number")
        self._began, self._under_way = time.perf_counter() - seconds, True
        if tree["planes"] is not None:
            self.state = from_state_dict(SolverState, tree, self._problem()).planes
        recall(self.objective, tree["memory"])
        self._inner = tree["inner"]
