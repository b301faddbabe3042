"""Contract checks of solvers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from latentstruct.core.objective import Objective, build_objective
from latentstruct.core.oracles import BaseOracle
from latentstruct.core.protocols import Iteration, Result, Task, Temperature
from latentstruct.core.regularizers import NoRegularizer
from latentstruct.core.types import Indices, Vector
from latentstruct.exceptions import InputError
from latentstruct.planes.plane import Plane
from latentstruct.solvers.base import BaseSolver
from latentstruct.tasks import CandidateTask, Chain, Multiclass
from latentstruct.testing.common import HARD, fail, rounding

REASONS = ("converged", "max_iter", "max_seconds", "stalled", "interrupted", "callback", "early_stopping")


def check_solver(solver: BaseSolver, *, objective: Objective | None = None, seed: int = 0) -> None:
    """Check that a solver satisfies the contract of `latentstruct.core.protocols.Solver`.

    Small random problems are minimized: multiclass and chain hinges, a multiclass CRF, and hard and soft
    latent candidates, as far as they have the properties that the solver `needs`. Objectives without these must
    raise `InputError`; a solver may reject others too, but not all.

    Parameters
    ----------
    solver : BaseSolver
        With limits that end a run on a dozen examples within seconds.
    objective : Objective, optional
        Check on this objective instead of the random problems, for solvers of other objectives.
    seed : int, default=0
        Seed of the problems and of the weights used to check bounds.

    Raises
    ------
    AssertionError
        The message names the failure, the problem, the values and a hint.

    Notes
    -----
    The checks are: shape and finiteness of w; the reported objective is that of w; the lower bound, if
    certified, is not above the objective at w, at zero or at random weights; "converged" means a gap within
    `tol` if there is a bound; the reason is a known one; the history has the iterations 1, 2, …, each passed to
    the callback, and ends with an entry that is no estimate and agrees with the result; a callback that returns True
    stops the solver; oracle calls are counted; the same call gives the same result; w0 is not modified; the returned
    state can be passed again.

    Examples
    --------
    >>> from latentstruct import BlockAscent
    >>> check_solver(BlockAscent())
    """
    problems = random_problems(seed) if objective is None else {"the given objective": objective}
    fitting = None
    for name, problem in problems.items():
        if not solver.needs <= problem.properties:
            check_refusal(solver, name, problem)
        elif accepts(solver, problem):
            SolverCheck(solver, name, problem, np.random.default_rng(seed)).run()
            fitting = problem if fitting is None else fitting
    if fitting is None:
        fail(
            solver,
            f"none of the problems ({', '.join(problems)}) has the properties that the solver needs, "
            f"{sorted(solver.needs)}, or it rejected them all",
            "pass a suitable objective: check_solver(solver, objective=…)",
        )
    for name, problem in without_one_property(fitting).items():
        if not solver.needs <= problem.properties:
            check_refusal(solver, name, problem)


def accepts(solver: BaseSolver, objective: Objective) -> bool:
    """Return whether a solver accepts an objective; it may reject more than `needs` states."""
    try:
        solver.minimize(objective, callback=lambda line: True)
    except InputError:
        return False
    return True


class _Candidates(CandidateTask):
    """Two outputs with three latents each, for nonconvex problems."""

    def candidates(self, x: Any) -> tuple[Sequence[Any], Sequence[Any] | None, Any]:
        features = np.zeros((6, 8))
        for c in range(6):
            features[c, 4 * (c // 3) : 4 * (c // 3) + 4] = np.roll(x, c % 3)
        return [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], features


def random_problems(seed: int) -> dict[str, Objective]:
    """Return small objectives of all kinds by name."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(12, 3)), np.arange(12) % 3
    lengths = [4, 1, 3, 2, 0, 3]
    sequences = [rng.normal(size=(length, 3)) for length in lengths]
    labels = [rng.integers(0, 3, length).tolist() for length in lengths]
    pictures, kinds = rng.normal(size=(10, 4)), np.arange(10) % 2
    weights = 1.0 + rng.random(12)
    soft = Temperature(1.0, 1.0)
    return {
        "multiclass hinge": problem_of(Multiclass(bias=1.0), X, Y, weights, HARD),
        "chain hinge": problem_of(Chain(labels=[0, 1, 2], start=True), sequences, labels, weights, HARD),
        "multiclass CRF": problem_of(Multiclass(), X, Y, weights, Temperature(1.0), margin=False),
        "hard latent candidates": problem_of(_Candidates(), pictures, kinds, weights, HARD),
        "soft latent candidates": problem_of(_Candidates(), pictures, kinds, weights, soft, margin=False),
    }


def problem_of(task: Task, X: Any, Y: Any, weights: Vector, temperature: Temperature, margin: bool = True) -> Objective:
    """Return the objective of a task on some examples."""
    task.learn(X, Y)
    return build_objective(task, task.prepare(X, Y), weights[: len(Y)], temperature, margin)


@dataclass
class _TotalOnly(BaseOracle):
    """An oracle without planes of single examples."""

    oracle: BaseOracle
    separable = False
    divisible = False

    def __post_init__(self) -> None:
        self.n_examples, self.n_features = self.oracle.n_examples, self.oracle.n_features
        self.weights, self.smooth = self.oracle.weights, self.oracle.smooth

    def _total(self, w: Vector, rows: Indices | None) -> Plane:
        return self.oracle.total(w)


def without_one_property(objective: Objective) -> dict[str, Objective]:
    """Return variants of an objective that each lack a property."""
    return {
        "an objective without ½‖w‖²": replace(objective, regularizer=NoRegularizer()),
        "an objective without planes": replace(objective, plus=_TotalOnly(objective.plus)),
    }


def check_refusal(solver: Any, name: str, objective: Objective) -> None:
    """Raise unless the solver rejects an objective without the properties it needs."""
    missing = sorted(solver.needs - objective.properties)
    try:
        solver.minimize(objective)
    except InputError:
        return
    except Exception as error:
        raise AssertionError(
            f"{type(solver).__name__}: {name} lacks {missing}, which the solver needs, and minimize() "
            f"raised {error!r} instead of InputError. Look at: needs must be checked before the first iteration"
        ) from error
    fail(
        solver,
        f"{name} lacks {missing}, which the solver needs, and did not raise InputError",
        "needs must be checked before the first iteration",
    )


@dataclass
class SolverCheck:
    """One problem of `check_solver`."""

    solver: Any
    name: str
    objective: Objective
    rng: np.random.Generator

    def run(self) -> None:
        """Run all checks."""
        seen: list[Iteration] = []

        def note(line: Iteration) -> None:
            seen.append(line)

        result = self.solver.minimize(self.objective, callback=note)
        self._check_result(result)
        past = [(line.start, line.iteration) for line in result.history]
        # Long iterations may report estimates, which are not part of the history.
        shown = [
            (line.start, line.iteration) for line in seen if not line.estimate or "convex" in self.objective.properties
        ]
        if shown != past:
            self._fail(
                f"the callback saw {len(seen)} iterations, which differ from the {len(result.history)} of the history",
                "the callback must get each Iteration once",
            )
        self._check_repeatable(result)
        self._check_callback_stops()
        self._check_start()
        self._check_result(self.solver.minimize(self.objective, state=result.state))

    def _fail(self, what: str, look: str) -> NoReturn:
        fail(self.solver, f"on {self.name}, {what}", look)

    def _check_result(self, result: Result) -> None:
        d = self.objective.n_features
        if result.w.shape != (d,) or not np.isfinite(result.w).all():
            self._fail(f"w has shape {result.w.shape} or is not finite, expected ({d},)", "Result.w")
        value = self.objective.value(result.w)
        if not abs(value - result.objective) <= rounding(value):
            self._fail(
                f"the reported objective is {result.objective:.10g}, but objective.value(w) = {value:.10g}",
                "Result.objective must belong to Result.w",
            )
        if result.reason not in REASONS:
            self._fail(f"the reason is {result.reason!r}", f"Result.reason, one of {', '.join(REASONS)}")
        if not result.oracle_calls > 0:
            self._fail(f"oracle_calls is {result.oracle_calls}", "objective.plus.tally counts them")
        self._check_bound(result, value)
        self._check_history(result)

    def _check_bound(self, result: Result, value: float) -> None:
        bound = result.lower_bound
        tol = getattr(self.solver, "tol", None)
        # Only a convex objective always has a bound.
        judged = math.isfinite(bound) or "convex" in self.objective.properties
        if result.reason == "converged" and tol is not None and judged:
            allowed = tol * max(abs(result.objective), 1e-12)
            if not result.gap <= allowed + rounding(0.0):
                self._fail(
                    f"the reason is 'converged' but the gap {result.gap:.10g} is above tol·|objective| = "
                    f"{allowed:.10g}",
                    "the stopping rule",
                )
        if not bound <= value + rounding(value):
            self._fail(f"the lower bound {bound:.10g} is above the objective {value:.10g}", "Result.lower_bound")
        # Of a non-convex objective the bound is that of the last convex problem.
        if not result.certified or "convex" not in self.objective.properties:
            return
        for v in self._rivals(result.w):
            rival = self.objective.value(v)
            if not bound <= rival + rounding(rival):
                self._fail(
                    f"the lower bound {bound:.10g} is above the objective {rival:.10g} at other weights",
                    "the bound (a dual value is one only if the problem is convex), or certified must be False",
                )

    def _rivals(self, w: Vector) -> Iterator[Vector]:
        """Yield weights whose objective no bound may exceed: near w, at random, and along a descent path."""
        yield np.zeros_like(w)
        for scale in (0.01, 0.1, 1.0):
            for _ in range(5):
                yield w + scale * self.rng.normal(size=len(w))
                yield scale * self.rng.normal(size=len(w))
        for _ in range(3):
            v = self.rng.normal(size=len(w))
            for t in range(100):
                v = v - self.objective.value_and_gradient(v)[1] / (t + 2)
            yield v

    def _check_history(self, result: Result) -> None:
        numbers = [line.iteration for line in result.history]
        if not numbers or numbers != list(range(1, len(numbers) + 1)) or result.n_iter != len(numbers):
            self._fail(
                f"n_iter is {result.n_iter} and the iterations of the history are {numbers[:10]}",
                "the history must have the iterations 1, 2, …, n_iter",
            )
        for before, after in zip(result.history[:-1], result.history[1:], strict=True):
            if after.oracle_calls < before.oracle_calls or after.seconds < before.seconds:
                self._fail(f"oracle calls or seconds fall from {before} to {after}", "they count from the start")
        last = result.history[-1]
        if last.estimate:
            self._fail(f"the last iteration of the history is an estimate ({last})", "the last entry must be none")
        if (last.objective, last.lower_bound) != (result.objective, result.lower_bound):
            self._fail(
                f"the last iteration has {last.objective:.10g} and {last.lower_bound:.10g}, the result "
                f"{result.objective:.10g} and {result.lower_bound:.10g}",
                "the last entry of the history must agree with the result",
            )

    def _check_repeatable(self, first: Result) -> None:
        again = self.solver.minimize(self.objective)
        same = np.array_equal(first.w, again.w) and first.lower_bound == again.lower_bound
        if not same or (first.reason, first.n_iter) != (again.reason, again.n_iter):
            self._fail(
                f"the same call gave two results: objective {first.objective:.10g} and "
                f"{again.objective:.10g}, reason {first.reason!r} and {again.reason!r}, {first.n_iter} "
                f"and {again.n_iter} iterations",
                "the random generator must be created from its seed in each call, and no state be kept between calls",
            )

    def _check_callback_stops(self) -> None:
        result = self.solver.minimize(self.objective, callback=lambda line: True)
        self._check_result(result)
        if result.n_iter != 1 or result.reason not in ("callback", "converged"):
            self._fail(
                f"a callback that returned True led to {result.n_iter} iterations and reason {result.reason!r}",
                "the return value of the callback after each iteration",
            )

    def _check_start(self) -> None:
        w0 = self.rng.normal(size=self.objective.n_features)
        given = w0.copy()
        self._check_result(self.solver.minimize(self.objective, given))
        if not np.array_equal(given, w0):
            self._fail("w0 was changed in place", "copy w0 before the first step")
