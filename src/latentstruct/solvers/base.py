"""What all solvers share: checking needs, watching progress, keeping the best weights, stopping."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from latentstruct.checks import check_flag
from latentstruct.exceptions import InputError
from latentstruct.objective import Objective
from latentstruct.protocols import Callback, Result, Round
from latentstruct.ragged import Vector
from latentstruct.short_repr import show

# Parameters of solvers that are True or False.
FLAGS = ("average", "gap_sampling", "keep_planes", "direct")
MEANINGS = {
    "convex": "a convex objective (no latent variables, or a linearised clamped side)",
    "difference": "a difference of convex functions (latents that are maximised or summed out)",
    "smooth": "a smooth objective (an output temperature above 0)",
    "planes": "one plane for each example",
    "l2": "the regulariser ½‖w‖²",
}

SHORTEST_FIRST_STEP = 1e-9
# Reasons that end a solver's run.
ENDINGS = ("interrupted", "callback")
# Reasons after which no other start is made.
LAST = (*ENDINGS, "max_seconds")


class Monitor:
    """Keeps what a solver has reached and says when to stop.

    Parameters
    ----------
    objective : Objective
        Counted objective.
    tol : float
        Relative gap (P − D)/|P| at which the solver has converged.
    max_rounds, max_seconds : number
        Limits.
    callback : callable, optional
        Called with each round.
    """

    def __init__(
        self,
        objective: Objective,
        tol: float,
        max_rounds: int,
        max_seconds: float,
        callback: Callback | None = None,
    ) -> None:
        self.counted = objective.plus
        self.tol, self.max_rounds, self.max_seconds, self.callback = tol, max_rounds, max_seconds, callback
        self.best: Vector | None = None
        self.current: Vector | None = None
        self.objective = math.inf
        self.lower_bound = -math.inf
        self.certified = True
        self.history: list[Round] = []
        self.reason = ""
        self.state: Any = None
        self.closing: Callable[[], Any] | None = None
        """What a solver wants done when it is interrupted, for instance a last certificate."""
        self._began = time.perf_counter()
        self._earlier: list[tuple[float, Vector | None, int]] = []

    def begin_next_start(self) -> None:
        """Put what this start has reached aside, and count from zero again."""
        self._earlier.append((self.objective, self.best, len(self.history)))
        self.best, self.objective, self.reason = None, math.inf, ""

    def offer(self, w: Vector, objective: float, copy: bool = True) -> None:
        """Report the true objective at w; the best w is kept (`copy=False` if w will never change)."""
        if not math.isfinite(objective):
            raise InputError(
                f"the objective became {objective}, but must be finite: the inputs or C are too large in scale; "
                "standardise the features"
            )
        if objective < self.objective:
            self.objective, self.best = objective, w.copy() if copy else w

    def bound(self, value: float, exact: bool = True) -> None:
        """Report a value below the minimum."""
        self.certified = self.certified and exact
        self.lower_bound = max(self.lower_bound, value)

    @property
    def gap(self) -> float:
        """Distance between the best objective and the best bound."""
        return self.objective - self.lower_bound

    def is_small(self, gap: float) -> bool:
        """Tell whether a gap meets the tolerance at the present objective."""
        scale = abs(self.objective) if math.isfinite(self.objective) else abs(self.lower_bound) + gap
        return gap <= self.tol * max(scale, 1e-12)

    def close_round(self, estimate: tuple[float, float] | None = None) -> bool:
        """Record a round and tell whether to stop.

        `estimate` is an objective and a bound to show while the true ones are not known.
        """
        rounded = len(self.history) + 1 - (self._earlier[-1][2] if self._earlier else 0)
        seconds = time.perf_counter() - self._began
        shown, bound = (self.objective, self.lower_bound) if estimate is None else estimate
        calls = self.counted.tally.calls
        line = Round(
            rounded, shown, bound, shown - bound, calls, seconds, estimate is not None, start=len(self._earlier)
        )
        self.history.append(line)
        asked_to_stop = self.callback is not None and bool(self.callback(line))
        if estimate is None and self.is_small(self.gap):
            self.reason = "converged"
        elif asked_to_stop:
            self.reason = "callback"
        elif rounded >= self.max_rounds:
            self.reason = "max_rounds"
        elif seconds >= self.max_seconds:
            self.reason = "max_seconds"
        return bool(self.reason)

    def result(self) -> Result:
        """Return what was reached; the last line of the history is made to say so."""
        assert self.best is not None
        reached = [value for value, _, _ in self._earlier] + [self.objective]
        self._check_bound()
        if self.history:
            self.history[-1] = replace(
                self.history[-1],
                objective=self.objective,
                lower_bound=self.lower_bound,
                gap=self.gap,
                oracle_calls=self.counted.tally.calls,
                estimate=False,
            )
        for value, w, _ in self._earlier:
            if value < self.objective and w is not None:
                self.objective, self.best = value, w
        return Result(
            self.best,
            self.objective,
            self.lower_bound,
            self.counted.tally.calls,
            len(self.history),
            self.reason or "stalled",
            self.certified and math.isfinite(self.lower_bound),
            self.history,
            self.state,
            reached if self._earlier else [],
        )

    def _check_bound(self) -> None:
        """Raise if the bound is above the objective: then some plane that was called exact supports nothing."""
        slack = 1e-6 * max(abs(self.objective), abs(self.lower_bound)) + 1e-9
        if self.certified and self.lower_bound > self.objective + slack:
            raise InputError(
                f"the lower bound {self.lower_bound:.6g} is above the objective {self.objective:.6g}, so the task's "
                "answers are not maxima: look for the mistake with latentstruct.testing.check_task, or set "
                "exact = False if its inference is approximate"
            )


def first_weights(objective: Objective, attempt: int = 0) -> Vector:
    """Return weights to begin a direct descent with.

    With latent variables w = 0, where all of them are alike, is a saddle. So the first latents are taken for known, and
    the step down from zero is made whose length lowers that convex objective most, of those tried; where Ω outweighs
    them all, the step that brings the linear part of the losses to zero.
    """
    w = np.zeros(objective.n_features)
    if "convex" in objective.properties or objective.first is None:
        return w
    guessed = objective.linearized_with(objective.first(attempt))
    best, gradient = guessed.value_and_gradient(w)
    step, shorter = 1.0, 0.25
    while step > SHORTEST_FIRST_STEP:
        value = guessed.value(-step * gradient)
        if value < best:
            best, w = value, -step * gradient
        elif w.any():
            break
        step *= shorter
    if not w.any() and gradient.any():
        return -best / float(gradient @ gradient) * gradient
    return w


class BaseSolver(BaseEstimator):
    """A solver's frame; subclasses define `needs`, their parameters and `_run`.

    Subclasses have at least the parameters `tol`, `max_rounds` and `max_seconds`.
    """

    needs: frozenset[str] = frozenset()
    tol: float
    max_rounds: int
    max_seconds: float
    restarts: int = 1

    def check(self, objective: Objective) -> None:
        """Raise unless the objective has what this solver needs and the parameters make sense."""
        missing = sorted(self.needs - objective.properties)
        if missing:
            wanted = " and ".join(MEANINGS[need] for need in missing)
            raise InputError(
                f"{type(self).__name__} needs {wanted}, which this objective does not have; use solver='auto' or one "
                "that fits"
            )
        for name in ("tol", "max_rounds", "max_seconds"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float, np.number)) and value > 0):
                raise InputError(f"{name} must be a number above 0, found {show(value)}: choose such a number")
        if hasattr(self, "patience"):
            self._check_at_least(1, "patience")
        if getattr(self, "random_state", None) is not None:
            self._check_at_least(0, "random_state")
        for name in FLAGS:
            check_flag(getattr(self, name, False), name)

    def _check_at_least(self, least: int, *names: str) -> None:
        """Raise unless the named parameters are whole numbers not below `least`."""
        for name in names:
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise InputError(
                    f"{name} must be a whole number, at least {least}, found {show(value)}: choose such a number"
                )

    def minimize(
        self,
        objective: Objective,
        w0: Vector | None = None,
        *,
        state: Any = None,
        callback: Callback | None = None,
    ) -> Result:
        """Minimise the objective.

        Parameters
        ----------
        objective : Objective
            What to minimise.
        w0 : ndarray of shape (d,), optional
            Where to start; by default zero, or weights that tell latents apart (`first_weights`).
        state : object, optional
            `Result.state` of an earlier call on the same data.
        callback : callable, optional
            Called with a `Round` after each round; a true answer stops the solver.

        Returns
        -------
        Result
            With the best weights so far, also after Ctrl-C.
        """
        self.check(objective)
        counted = objective.counted()
        monitor = Monitor(counted, self.tol, self.max_rounds, self.max_seconds, callback)
        begins = np.zeros(objective.n_features) if w0 is None else np.array(w0, dtype=np.float64)
        several = w0 is None and objective.first is not None and "convex" not in objective.properties
        try:
            # BLAS threads wait for each other by spinning: on busy cores, twelve times slower than one thread.
            with threadpool_limits(limits=1, user_api="blas"):
                for attempt in range(self.restarts if several else 1):
                    if attempt > 0:
                        monitor.begin_next_start()
                    begins = begins if w0 is not None else self._start(counted, attempt)
                    self._run(counted, monitor, begins, state)
                    if monitor.reason in LAST:
                        break
        except KeyboardInterrupt:
            monitor.reason = "interrupted"
            if monitor.closing is not None:
                monitor.closing()
        if monitor.best is None:
            last = begins if monitor.current is None else monitor.current
            monitor.offer(last, counted.value(last))
        return monitor.result()

    def _start(self, objective: Objective, attempt: int) -> Vector:
        """Return the weights to begin with when none are given."""
        return np.zeros(objective.n_features)

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        raise TypeError(f"{type(self).__name__} does not define _run()")
