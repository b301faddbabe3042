"""Subgradient descent, stochastic and alternating with completions of latents, and the averaged perceptron.

`OnlineSolver` is the base of those that make single passes over examples that come in parts.
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.types import Indices, Vector, Weights
from latentstruct.core.validation import boolean, integer, options, real
from latentstruct.exceptions import InputError
from latentstruct.persistence.state_trees import state_dict
from latentstruct.solvers.base import BaseSolver, Monitor


class OnlineSolver(BaseSolver, ABC):
    """Base of solvers whose weights change step by step, so that training continues on further examples.

    The state of a run is a dataclass with weights `w` and other vectors, which `vectors` names.
    """

    vectors: ClassVar[tuple[str, ...]]

    @abstractmethod
    def begin(self, w: Vector, continued: bool = False) -> Any:
        """Return the state of a run from given weights, which `continued` says are those of another training."""

    @abstractmethod
    def one_pass(self, objective: Objective, run: Any, n_earlier: int = 0) -> None:
        """Change the state by one pass over the examples of an objective.

        `n_earlier` is the number of examples of earlier passes, which belong to the objective that is minimized.
        """

    @abstractmethod
    def reached(self, run: Any) -> Vector:
        """Return the weights that a run has reached."""

    def moved(self, run: Any, convert: Callable[[Vector], Vector]) -> Any:
        """Return the state with its vectors converted to those of other weights."""
        return replace(run, **{name: convert(getattr(run, name)) for name in self.vectors})


@dataclass
class Steps:
    """The state of `Subgradient`: random generator, w, the mean of the iterates, number of steps, best objectives."""

    rng: np.random.Generator
    w: Weights
    mean: Weights
    t: int = 0
    best_values: deque[float] = field(default_factory=deque)


@dataclass(eq=False, repr=False)
class Subgradient(OnlineSolver):
    """Stochastic or full subgradient descent; without a bound, so it stops when the objective no longer decreases.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when the relative decrease of the best objective over `patience` iterations is less.
    max_iter, max_seconds : number
        Limits; an iteration queries about n examples.
    step : {"pegasos", "plain", "fixed"}, default="pegasos"
        η_t = 1/t, suitable for ½‖w‖²; η_t = learning_rate/√t; or η_t = learning_rate.
    learning_rate : float, default=1.0
        For plain and fixed steps.
    batch_size : int, optional
        Examples per step, drawn without replacement; by default n/20. n itself gives the full subgradient. If
        examples are in shards on other machines, each step waits for their results, so large batches are faster.
    average : bool, default=True
        Report the average of the iterates with weights growing as t.
    patience : int, default=20
        See `tol`.
    random_state : int, default=0
        Seed.
    """

    bounds = False
    vectors = ("w", "mean")
    constraints: ClassVar = {
        "step": options("pegasos", "plain", "fixed"),
        "learning_rate": real(0.0),
        "batch_size": integer(1) | None,
        "average": boolean,
        "patience": integer(1),
    }

    tol: float = 1e-4
    max_iter: int = 500
    max_seconds: float = float("inf")
    step: Literal["pegasos", "plain", "fixed"] = "pegasos"
    learning_rate: float = 1.0
    batch_size: int | None = None
    average: bool = True
    patience: int = 20
    random_state: int = 0

    def check(self, objective: Objective) -> None:
        super().check(objective)
        in_parts = objective.plus.divisible and objective.minus.divisible
        if self._size(objective) < objective.n_examples and not in_parts:
            expected = f"{objective.n_examples} (all examples) for an objective that provides sums only"
            raise InputError("batch_size", self.batch_size, expected, "Or set `solver` to 'bundle'.")

    def _size(self, objective: Objective) -> int:
        """Return the number of examples per step."""
        n = objective.n_examples
        return min(n, self.batch_size or max(1, n // 20))

    def _rate(self, t: int) -> float:
        if self.step == "fixed":
            return self.learning_rate
        return 1.0 / t if self.step == "pegasos" else self.learning_rate / np.sqrt(t)

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        run = monitor.resumed_state(Steps)
        if run is None:
            run = self.begin(w)
            monitor.offer(w, *objective.evaluate(w))
        run.best_values = best_values = deque(run.best_values, maxlen=self.patience + 1)
        monitor.snapshot = partial(state_dict, run)
        while not monitor.reason:
            self.one_pass(objective, run)
            monitor.current, reported = run.w, self.reached(run)
            monitor.offer(reported, *objective.evaluate(reported))
            best_values.append(monitor.objective)
            if len(best_values) > self.patience:
                before = best_values[0]
                if before - monitor.objective <= self.tol * abs(before):
                    monitor.reason = "stalled"
            monitor.close_iteration()

    def begin(self, w: Vector, continued: bool = False) -> Steps:
        if continued and self.step == "pegasos":
            expected = "one with `step` 'plain' or 'fixed' for a model from `fit` or `load`"
            raise InputError("solver", self, expected, "The first step of 'pegasos' removes all earlier weights.")
        return Steps(np.random.default_rng(self.random_state), w, w.copy())

    def one_pass(self, objective: Objective, run: Steps, n_earlier: int = 0) -> None:
        """Make steps for the examples of an objective in random order."""
        n, weights = objective.n_examples, objective.plus.weights
        w, mean, size = run.w, run.mean, self._size(objective)
        for rows in np.array_split(run.rng.permutation(n), max(1, n // size)):
            run.t += 1
            rate = self._rate(run.t)
            # The planes of the batch represent those of all examples.
            scale = rate * (n_earlier + n) / len(rows)
            gradient = objective.regularizer.gradient(w)
            if "planes" in objective.properties:
                plus, minus = objective.plus.planes(w, rows), objective.minus.planes(w, rows)
                w = w - rate * gradient
                plus.add_to(w, -scale * weights[rows])
                minus.add_to(w, scale * weights[rows])
            else:
                w = w - rate * gradient - scale * _slope_of_part(objective, w, rows)
            mean += (2.0 / (run.t + 1)) * (w - mean)
        run.w = w

    def reached(self, run: Steps) -> Vector:
        """Return the mean of the iterates, or the last one."""
        return run.mean if self.average else run.w


def _slope_of_part(objective: Objective, w: Vector, rows: Indices) -> Vector:
    """Return the slope of the sum of some examples' f⁺ − f⁻, if the planes of single ones are unknown."""
    sides = (objective.plus, objective.minus)
    if len(rows) == objective.n_examples:
        plus, minus = (side.total(w) for side in sides)
    else:
        plus, minus = (side.part_total(w, rows) for side in sides)
    return plus.slope - minus.slope


@dataclass
class Passes:
    """The state of `Perceptron`: random generator, w, the updates times the steps before each, number of steps."""

    rng: np.random.Generator
    w: Weights
    late: Weights
    t: int = 0


@dataclass(eq=False, repr=False)
class Perceptron(OnlineSolver):
    """Averaged structured perceptron (Collins 2002): online updates w += φ(x_i, y_i) − φ(x_i, ŷ).

    Its objective is Σ_i c_i [f⁺_i − f⁻_i] without a margin, which is 0 when all training
    examples are predicted correctly; it stops there or at `max_iter`.

    Parameters
    ----------
    max_iter, max_seconds : number
        Limits; an iteration is a pass over all examples.
    average : bool, default=True
        Return the average of the weights after each example instead of the last.
    tol : float, default=1e-12
        Objective treated as 0.
    random_state : int, default=0
        Seed of the order.
    """

    needs = frozenset({"planes"})
    constraints: ClassVar = {"average": boolean}
    bounds = False
    vectors = ("w", "late")

    max_iter: int = 20
    max_seconds: float = float("inf")
    average: bool = True
    tol: float = 1e-12
    random_state: int = 0

    def _start(self, objective: Objective, attempt: int) -> Vector:
        return np.zeros(objective.n_features)

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        monitor.bound(0.0)
        run = monitor.resumed_state(Passes) or self.begin(w)
        monitor.snapshot = partial(state_dict, run)
        while not monitor.reason:
            before = run.w.copy()
            total = self._pass(objective, run)
            monitor.current = run.w
            self._keep_last(monitor, self.reached(run), objective)
            # Equal scores alone do not make a prediction correct (all are equal at w = 0): w must not change any more.
            if total <= 0.0 and np.array_equal(run.w, before):
                monitor.reason = "converged"
            monitor.close_iteration()

    def begin(self, w: Vector, continued: bool = False) -> Passes:
        return Passes(np.random.default_rng(self.random_state), w, np.zeros_like(w))

    def one_pass(self, objective: Objective, run: Passes, n_earlier: int = 0) -> None:
        """Make a step for each example of an objective in random order."""
        self._pass(objective, run)

    @staticmethod
    def _pass(objective: Objective, run: Passes) -> float:
        """Make a step for each example in random order; return the objective that the steps met."""
        weights, w, late, total = objective.plus.weights, run.w, run.late, 0.0
        for i in run.rng.permutation(objective.n_examples):
            rows = np.array([i])
            plus, minus = objective.plus.planes(w, rows), objective.minus.planes(w, rows)
            total += weights[i] * float(plus.values[0] - minus.values[0])
            plus.add_to(w, -weights[rows])
            minus.add_to(w, weights[rows])
            plus.add_to(late, -run.t * weights[rows])
            minus.add_to(late, run.t * weights[rows])
            run.t += 1
        return total

    def reached(self, run: Passes) -> Vector:
        """Return the mean of w over time, w − late/t, or the last w."""
        return run.w - run.late / run.t if self.average else run.w

    @staticmethod
    def _keep_last(monitor: Monitor, w: Vector, objective: Objective) -> None:
        # Without a regularizer w = 0 has the lowest objective: later weights are preferred, not lower objectives.
        found = objective.evaluate(w)
        monitor.forget_best()
        monitor.offer(w, *found)


@dataclass
class FullSteps:
    """The state of `AlternatingSubgradient`: w, a subgradient there, and the number of increases of the objective."""

    w: Weights
    gradient: Weights
    rises: int = 0
    before: float = math.inf


@dataclass(eq=False, repr=False)
class AlternatingSubgradient(BaseSolver):
    """Complete the latents at w, take one full subgradient step, repeat: w ← w − α_t(∇Ω(w) + Σ_i c_i m_i).

    m_i is the slope of f⁺_i minus that of f⁻_i at w, and α_t = α_0/(η_t + 1), where η_t is the number of
    iterations in which the objective increased. It gives no exact zeros and no bound, and depends on the scale of the
    features: `Proximal` is the solver to use.

    Parameters
    ----------
    tol : float, default=1e-5
        Stop when the relative change of the objective in an iteration is less.
    max_iter, max_seconds : number
        Limits; an iteration queries all examples once.
    learning_rate : float, default=1.0
        α_0.
    restarts : int, default=1
        Number of starts, as in `Proximal`.

    Notes
    -----
    Chen, Batra, Freeman & Johnson (2012), Algorithm 1. Their max{0, f⁺ − f⁻} needs no special case, because f⁺ ≥ f⁻ if
    the true output has no loss. The algorithm as printed ends with the last weights; here the best are kept.
    """

    has_restarts = True
    bounds = False
    constraints: ClassVar = {"learning_rate": real(0.0)}

    tol: float = 1e-5
    max_iter: int = 1000
    max_seconds: float = float("inf")
    learning_rate: float = 1.0
    restarts: int = 1

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Any) -> None:
        run = monitor.resumed_state(FullSteps) or FullSteps(w, np.zeros_like(w))
        monitor.snapshot = partial(state_dict, run)
        while not monitor.reason:
            run.w = w = run.w - self.learning_rate / (run.rises + 1) * run.gradient
            value, run.gradient = objective.value_and_gradient(w)
            monitor.offer(w, value, exact=False)
            monitor.current = w
            run.rises += int(value > run.before)
            if abs(value - run.before) < self.tol * abs(value):
                monitor.reason = "converged"
            run.before = value
            monitor.close_iteration()
