"""Base class of solvers: parameter checks, monitoring, the best weights so far, stopping rules."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.parameters import Parametrized
from latentstruct.core.protocols import Callback, Checkpointer, Iteration, Problem, Result
from latentstruct.core.types import Vector, Weights
from latentstruct.core.validation import Constraint, check_parameters, integer, real
from latentstruct.exceptions import Description, InputError
from latentstruct.parallel.threads import one_blas_thread
from latentstruct.persistence.checkpoints import restoring
from latentstruct.persistence.state_trees import (
    CONTEXT,
    Tree,
    checked_dict,
    from_state_dict,
    load_state_dict,
    state_dict,
)

MEANINGS = {
    "convex": "a convex objective (no latent variables, or a linearized clamped side)",
    "difference": "a difference of convex functions (latents that are maximized or summed out)",
    "smooth": "a smooth objective (an output temperature above 0)",
    "planes": "one plane per example (shards return sums only)",
    "l2": "the regularizer ½‖w‖²",
}

SHORTEST_FIRST_STEP = 1e-9
# Relative rounding error of a sum of many terms, and the largest meaningful one of an objective.
ROUNDING, NOISE = 1e4 * np.finfo(np.float64).eps, 0.01
# Largest ratio of Ω at the initial weights of a descent to the objective at zero.
FARTHEST_START = 100.0
# Reasons that end a solver's run, and those after which no other start is made.
ENDINGS = ("interrupted", "callback")
LAST = (*ENDINGS, "max_seconds")
# What a callback returns to end the present start: see `latentstruct.EarlyStopping`.
EARLY_STOPPING = "early_stopping"
S = TypeVar("S")
SOLVER = Constraint(
    lambda value: hasattr(value, "minimize") and not isinstance(value, type), "a solver such as BlockAscent()"
)


@dataclass
class Earlier:
    """Result of an earlier start, and the length of the history at its end."""

    objective: float
    w: Weights | None
    iterations: int


@dataclass
class Monitor:
    """Tracks the progress of a solver and decides when to stop."""

    problem: Objective = field(metadata=CONTEXT)
    tol: float = field(metadata=CONTEXT)  # relative gap (P − D)/|P| at which the solver has converged
    # Limits.
    max_iter: int = field(metadata=CONTEXT)
    max_seconds: float = field(metadata=CONTEXT)
    callback: Callback | None = field(default=None, metadata=CONTEXT)  # called after each iteration
    # Stores the state after each iteration. A solver adds its own part by setting `snapshot`.
    checkpointer: Checkpointer | None = field(default=None, metadata=CONTEXT)
    # The best weights and their objective.
    best: Weights | None = None
    objective: float = math.inf
    # The same for weights with exact inference, or an upper bound of their objective.
    proven_at: Weights | None = None
    proven: float = math.inf
    current: Weights | None = None
    # The best bound, and whether it is valid: it is based on planes that are below their functions.
    lower_bound: float = -math.inf
    bounded: bool = True
    history: list[Iteration] = field(default_factory=list)
    # Reason to stop found by the solver, and whether the last iteration met the tolerance; `reason` follows from these
    # and the limits.
    found: str = ""
    met: bool = False
    earlier: list[Earlier] = field(default_factory=list)
    seconds: float = 0.0
    calls: int = 0
    memory: Any = None
    solver: Any = None  # result of `snapshot`, if a solver continues an earlier run

    def __post_init__(self) -> None:
        self.tally, self.calls_before = self.problem.plus.tally, self.problem.plus.tally.calls
        # Objectives below this size are treated as 0.
        self.least = least_scale(self.problem.weights)
        # Returns a value below the objective at any weights, from the planes that a solver keeps.
        self.model: Callable[[Vector], float] | None = None
        self.reason = ""
        self.state: Any = None
        # Called on an interrupt, for instance for a last certificate.
        self.closing: Callable[[], Any] | None = None
        self.snapshot: Callable[[], Tree] = dict
        self.n_starts = 1
        self._began = time.perf_counter()
        if self.checkpointer is not None and self.checkpointer.saved is not None:
            with self.restoring():
                self._restore(self.checkpointer.saved)

    def state_dict(self) -> Tree:
        """Return the state after the last iteration, with that of the solver."""
        self.seconds = time.perf_counter() - self._began
        self.calls, self.memory = self.tally.calls - self.calls_before, memory_of(self.problem)
        proven_at = None if self.exact and self.proven == self.objective else self.proven_at
        return {**state_dict(self), "proven_at": proven_at, "solver": self.snapshot()}

    def _restore(self, tree: Tree) -> None:
        load_state_dict(self, tree, self.problem)
        if self.proven_at is None and self.proven == self.objective:
            self.proven_at = self.best
        for value, weights in ((self.objective, self.best), (self.proven, self.proven_at)):
            if weights is None and value != math.inf:
                raise ValueError(f"the objective is {value:g}, but there are no weights for it")
        if any(start.iterations > len(self.history) for start in self.earlier):
            raise ValueError(f"a start ended after more than {len(self.history)} iterations")
        checked_dict(self.solver)
        self._began, self.calls_before = time.perf_counter() - self.seconds, self.tally.calls - self.calls
        recall(self.problem, self.memory)
        self._judge(self.history[-1], self.found, self.met, False)

    @property
    def resumed(self) -> bool:
        """Whether the solver continues an earlier run."""
        return self.solver is not None

    def resumed_state(self, kind: type[S]) -> S | None:
        """Return the state of the solver that an earlier run had stored, or None."""
        if self.solver is None:
            return None
        with self.restoring():
            return from_state_dict(kind, self.solver, self.problem)

    def restoring(self) -> AbstractContextManager[None]:
        """Return the context in which a solver reads its state: errors then name the file."""
        assert self.checkpointer is not None
        return restoring(self.checkpointer)

    def begin_next_start(self) -> None:
        """Store the result of this start and begin another one."""
        self.earlier.append(Earlier(self.objective, self.best, len(self.history)))
        self.forget_best()
        self.solver, self.reason = None, ""

    def forget_best(self) -> None:
        """Accept the next offered weights, whatever their objective."""
        self.best = self.proven_at = None
        self.objective = self.proven = math.inf

    def require_finite(self, objective: float) -> None:
        """Raise if an objective, or a model of it, overflowed."""
        if not math.isfinite(objective):
            raise _scale_error(f"an objective of {objective}")

    def offer(self, w: Vector, objective: float, exact: bool, copy: bool = True) -> None:
        """Report the objective at w; the best w is kept (`copy=False` if w will never change).

        If inference was not exact, the value is only a lower bound of the objective. It is then compared
        by the largest known value: that of the oracle, or of the planes that the solver keeps.
        """
        self.require_finite(objective)
        if not exact and self.model is not None:
            objective = max(objective, self.model(w))
        self._revalue()
        if objective >= min(self.objective, self.proven if exact else math.inf):
            return
        w = w.copy() if copy else w
        if exact and objective < self.proven:
            self.proven, self.proven_at = objective, w
        if objective < self.objective:
            self.objective, self.best = objective, w

    @property
    def exact(self) -> bool:
        """Whether the best objective was found by exact inference."""
        return self.best is not None and self.best is self.proven_at

    @property
    def certified(self) -> bool:
        """Whether the minimum is proven to lie between the bound and the best objective."""
        return self.bounded and self.exact and math.isfinite(self.lower_bound)

    def _revalue(self) -> None:
        """Raise an inexact best objective to the value of planes found since then."""
        if self.best is not None and not self.exact and self.model is not None:
            self.objective = max(self.objective, self.model(self.best))

    def _prefer_proven(self) -> None:
        """Prefer weights that provably meet the tolerance to those that only seem to.

        Inexact weights are evaluated once more before they are accepted: inference may be better by now, or it may know
        an upper bound of the objective.
        """
        self._revalue()
        if self.exact or not self.bounded:
            return
        proven = self.is_small(self.proven - self.lower_bound, self.proven)
        if self.best is not None and not proven and self.is_small():
            value, upper, _ = self.problem.evaluate_with_bound(self.best)
            self.objective = max(self.objective, value)
            if upper < self.proven:
                self.proven, self.proven_at = upper, self.best if upper <= self.objective else self.best.copy()
        if self.is_small(self.proven - self.lower_bound, self.proven):
            self.objective, self.best = self.proven, self.proven_at

    def _prove(self) -> None:
        """Report an upper bound instead of an inexact objective, if inference knows one, so that the gap is proven."""
        if self.exact or not self.bounded or self.best is None or not self.problem.plus.bounded_above:
            return
        _, upper, _ = self.problem.evaluate_with_bound(self.best)
        if math.isfinite(upper):
            self.objective, self.proven, self.proven_at = upper, upper, self.best
            if self.reason == "converged" and not self.is_small():
                self.reason = "stalled"

    def bound(self, value: float, below: bool = True) -> None:
        """Report a value below the minimum, or an estimate if it is based on planes that may not be below."""
        self.bounded = self.bounded and below
        self.lower_bound = max(self.lower_bound, value)

    @property
    def gap(self) -> float:
        """Distance between the best objective and the best bound."""
        return self.objective - self.lower_bound

    def is_small(self, gap: float | None = None, objective: float | None = None) -> bool:
        """Return whether a gap meets the tolerance at an objective, by default the current ones."""
        value = self.objective if objective is None else objective
        gap = self.objective - self.lower_bound if gap is None else gap
        scale = abs(value) if math.isfinite(value) else abs(self.lower_bound) + gap
        return math.isfinite(gap) and gap <= self.tol * max(scale, self.least)

    def close_iteration(self, estimate: tuple[float, float] | None = None) -> bool:
        """Record an iteration and return whether to stop.

        `estimate` is an objective and a bound to report while the true ones are unknown.
        """
        seconds = time.perf_counter() - self._began
        self._prefer_proven()
        shown, bound = (self.objective, self.lower_bound) if estimate is None else estimate
        # A bound above the objective by rounding is shown as equal to it; `_check` raises if there is more to it.
        bound = min(max(bound, self.lower_bound), shown)
        start, calls = len(self.earlier), self.tally.calls - self.calls_before
        number = len(self.history) + 1 - (self.earlier[-1].iterations if start else 0)
        line = Iteration(number, shown, bound, shown - bound, calls, seconds, estimate is not None, start)
        self.history.append(line)
        answer = None
        if self.callback is not None:
            answer = self.callback(replace(line, w=self.best if estimate is None else None))
        found = EARLY_STOPPING if isinstance(answer, str) and answer == EARLY_STOPPING else self.reason
        self._judge(line, found, estimate is None and self.is_small(), bool(answer))
        self._save()
        return bool(self.reason)

    def finish(self, reason: str) -> None:
        """Stop for a reason found by the solver after its last iteration."""
        self.reason = self.found = reason
        self._save()

    def _save(self) -> None:
        """Store the state, with the reason unless another start follows."""
        if self.checkpointer is not None:
            last = len(self.earlier) + 1 >= self.n_starts or self.reason in LAST
            self.checkpointer.save(self.state_dict, self.reason if last else "")

    def _judge(self, last: Iteration, found: str, met: bool, stopped: bool) -> None:
        """Set the reason to stop: the tolerance is met, a limit is reached, or the reason found by the solver."""
        self.found, self.met = found, met
        if met:
            self.reason = "converged"
        elif found == EARLY_STOPPING or stopped:
            self.reason = found if found == EARLY_STOPPING else "callback"
        elif last.iteration >= self.max_iter:
            self.reason = "max_iter"
        elif last.seconds >= self.max_seconds:
            self.reason = "max_seconds"
        else:
            self.reason = found

    def result(self) -> Result:
        """Return the result; the last entry of the history is updated to agree with it."""
        assert self.best is not None
        self._prefer_proven()
        self._prove()
        self._check()
        calls, value, bound = self.tally.calls - self.calls_before, self.objective, self.lower_bound
        if self.history:
            last, gap = self.history[-1], value - bound
            last = replace(last, objective=value, lower_bound=bound, gap=gap, oracle_calls=calls, estimate=False)
            self.history[-1] = last
        w, certified = self.best, self.certified
        for start in self.earlier:
            if start.objective < value and start.w is not None:
                value, w = start.objective, start.w
        reached = [*(start.objective for start in self.earlier), self.objective] if self.earlier else []
        reason, n_iter = self.reason or "stalled", len(self.history)
        return Result(w, value, bound, calls, n_iter, reason, certified, self.history, self.state, reached)

    def _check(self) -> None:
        """Raise if the bound, or 0 for Ω = ½‖w‖², is above the objective; a bound above it by rounding is lowered.

        Without a certificate one of them is wrong if they cross: the objective if inference missed maxima,
        otherwise the bound.
        """
        if not self.certified:
            if self.bounded:
                self.objective = max(self.objective, self.lower_bound)
            self.lower_bound = min(self.lower_bound, self.objective)
            return
        if self.lower_bound >= self.objective and self.reason not in LAST:
            self.reason = "converged"
        self.lower_bound = checked_bound(self.problem, self.best, self.objective, self.lower_bound)
        negative = self.objective < 0.0 and "l2" in self.problem.properties
        if negative and self.objective < -_rounding(self.problem, self.best, self.objective):
            raise _scale_error(f"an objective of {self.objective:.6g}, which cannot be negative")


def checked_bound(objective: Objective, w: Vector | None, value: float, lower_bound: float) -> float:
    """Return a certified lower bound, or the objective at w if rounding has put the bound above it.

    Raises
    ------
    InputError
        If the bound exceeds the objective by more than rounding can explain: a plane that is marked exact does not
        support its function. Or if rounding errors are not small relative to the objective.
    """
    excess = lower_bound - value
    if excess <= 0.0:
        return lower_bound
    if excess <= ROUNDING * abs(value):
        # The larger terms need not be computed, which takes a pass over the data.
        return value
    if excess > _rounding(objective, w, value):
        raise InputError(
            "task",
            Description(f"a lower bound {lower_bound:.6g} above the objective {value:.6g}"),
            "one whose inference finds the maxima",
            "Check it with latentstruct.testing.check_task, or set `exact` to False if its inference is approximate.",
        )
    if excess > NOISE * abs(value) + 1e3 * least_scale(objective.plus.weights):
        raise _scale_error(f"a lower bound {lower_bound:.6g} above the objective {value:.6g} by rounding")
    return value


def _scale_error(got: str) -> InputError:
    expected = "small enough in scale for rounding errors not to dominate the objective"
    return InputError("X", Description(got), expected, "Standardize the features, or decrease `C`.")


def _rounding(objective: Objective, w: Vector | None, value: float) -> float:
    """Return the largest difference between objective and bound at w that rounding can explain.

    Both are sums whose terms nearly cancel: the totals of the two sides, and w·(l − Σ c α g). Their rounding errors
    grow with the terms, not with their sum.
    """
    assert w is not None
    size, scale = float(np.linalg.norm(w)), abs(value)
    for side in (objective.plus.total(w), objective.minus.total(w)):
        scale += abs(side.offset) + abs(side(w)) + size * float(np.linalg.norm(side.slope))
    return ROUNDING * scale + 1e3 * least_scale(objective.plus.weights)


def least_scale(weights: Vector) -> float:
    """Return the size below which an objective with these c_i is treated as 0; it scales with them."""
    return 1e-12 * min(1.0, float(weights.sum()))


@contextmanager
def solving() -> Iterator[None]:
    """Limit BLAS to one thread, and let `Monitor.offer` report overflows."""
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        yield


def memory_of(objective: Problem) -> Tree:
    """Return the state on which later results of an objective depend in addition to the weights, or None."""
    return [batch.memory() for batch in objective.remembering] or None


def recall(objective: Problem, memory: Tree) -> None:
    """Restore the state that `memory_of` returned."""
    for batch, part in zip(objective.remembering, memory or [], strict=True):
        batch.recall(part)


def initial_weights(objective: Objective, attempt: int = 0) -> Vector:
    """Return the initial weights of a direct descent.

    With latent variables w = 0, where all of them score the same, is a saddle point. So the initial ones are fixed, and
    a descent step from zero is made, with the best of some lengths for that convex objective. If Ω outweighs
    all of them, the step is that to zero linear losses, as far as Ω does not dominate the losses there.
    """
    w = np.zeros(objective.n_features)
    if "convex" in objective.properties or objective.starts is None:
        return w
    guessed = objective.linearized_with(objective.starts.planes(attempt))
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
        # Normalize the largest entry to 1 first: the square of a tiny gradient would underflow.
        size = float(np.abs(gradient).max())
        direction = gradient / size
        w = -best / size / float(direction @ direction) * direction
        while objective.regularizer.value(w) > FARTHEST_START * abs(best):
            w = shorter * w
    return w


class BaseSolver(Parametrized):
    """Base class of solvers; subclasses define `needs`, their parameters and `_run`.

    Subclasses have at least the parameters `tol`, `max_iter` and `max_seconds`.
    """

    needs: frozenset[str] = frozenset()
    # Parameters that limit a run: a run that reached them can continue with larger ones.
    limits: tuple[str, ...] = ("max_iter", "max_seconds")
    # Allowed values of parameters, in addition to those of base classes.
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "tol": real(0.0, closed="right"),
        "max_iter": real(0.0, closed="right"),
        "max_seconds": real(0.0, closed="right"),
        "restarts": integer(1),
        "random_state": integer(0) | None,
        "cache_mb": real(0.0) | None,
    }
    takes_latents: bool = False  # whether a start uses initial latents instead of weights derived from them
    has_restarts: bool = False  # whether `restarts` is a parameter
    bounds: bool = True  # whether lower bounds approach the objective if it is convex
    warns_if_stalled: bool = False  # whether a stalled run without a bound counts as not converged
    tol: float
    max_iter: int
    max_seconds: float
    restarts: int = 1
    random_state: int | None = None
    cache_mb: float | None = None

    @property
    def n_starts(self) -> int:
        """Number of starts if they may differ."""
        return self.restarts

    def set_restarts(self, restarts: int) -> None:
        """Set the number of starts."""
        if not self.has_restarts:
            expected = f"None for {type(self).__name__}"
            raise InputError("restarts", restarts, expected, "Solvers such as CCCP and LBFGS support restarts.")
        self.set_params(restarts=restarts)

    def ending(self, objective: Objective) -> tuple[str, float, int]:
        """Return the stopping rule of a run, its goal and its span; see `latentstruct.progress.eta.StoppingRule`."""
        if not self.bounds:
            return "", 0.0, 1
        return "gap" if "convex" in objective.properties else "", self.tol, 1

    def check(self, objective: Any) -> None:
        """Raise unless the objective has the properties that this solver needs and the parameters are valid."""
        missing = sorted(self.needs - objective.properties)
        if missing:
            lacking = " and ".join(MEANINGS[need] for need in missing)
            others = "'auto' or 'bundle'" if "planes" in missing else "'auto'"
            raise InputError("solver", self, f"one that does not need {lacking}", f"Use {others}.")
        check_parameters(self)

    def minimize(
        self,
        objective: Objective,
        w0: Vector | None = None,
        *,
        state: Any = None,
        callback: Callback | None = None,
        checkpointer: Checkpointer | None = None,
    ) -> Result:
        """Minimize the objective.

        Parameters
        ----------
        objective : Objective
            The objective.
        w0 : ndarray of shape (d,), optional
            Initial weights; by default zero, or weights that distinguish latents (`initial_weights`).
        state : object, optional
            `Result.state` of an earlier call on the same data.
        callback : callable, optional
            Called with an `Iteration` after each iteration. If it returns True, the solver stops.
        checkpointer : Checkpointer, optional
            Stores the state after each iteration; if it has one, the solver continues from there, regardless of w0 and
            `state`.

        Returns
        -------
        Result
            With the best weights so far, also after Ctrl-C.
        """
        self.check(objective)
        if objective.places is not None:
            return self._minimize_some(objective, w0, callback, state=state, checkpointer=checkpointer)
        with solving():
            monitor = Monitor(objective, self.tol, self.max_iter, self.max_seconds, callback, checkpointer)
            w = np.zeros(objective.n_features) if w0 is None else np.array(w0, dtype=np.float64)
            if w0 is None and objective.starts is not None and "convex" not in objective.properties:
                monitor.n_starts = self.restarts
            first = len(monitor.earlier)
            try:
                for attempt in range(first, monitor.n_starts):
                    if attempt > first:
                        monitor.begin_next_start()
                    if w0 is None and not monitor.resumed:
                        w = self._start(objective, attempt)
                    self._run(objective, monitor, w, state)
                    if monitor.reason in LAST:
                        break
            except KeyboardInterrupt:
                monitor.reason = "interrupted"
                if monitor.closing is not None:
                    monitor.closing()
            if monitor.best is None:
                last = w if monitor.current is None else monitor.current
                monitor.offer(last, *objective.evaluate(last))
            return monitor.result()

    def _minimize_some(
        self, objective: Objective, w0: Vector | None, callback: Callback | None, **given: Any
    ) -> Result:
        """Minimize an objective over some weights, and return all."""

        def inform(line: Iteration) -> Any:
            return callback and callback(replace(line, w=None if line.w is None else objective.in_full(line.w)))

        part = replace(objective, places=None)
        start = None if w0 is None else w0[objective.places]
        result = self.minimize(part, start, callback=inform, **given)
        return replace(result, w=objective.in_full(result.w))

    def _start(self, objective: Objective, attempt: int) -> Vector:
        """Return the initial weights of a start when none are given."""
        return initial_weights(objective, attempt)

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        raise TypeError(f"{type(self).__name__} does not define _run()")
