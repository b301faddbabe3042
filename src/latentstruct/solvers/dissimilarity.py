"""Training with a distribution over unknown latents: the weights and the distribution are improved in turn."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize as minimize_smooth
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from latentstruct.checks import check_choice
from latentstruct.dissimilarity import DissimilarityObjective, Function, latent_risk
from latentstruct.exceptions import InputError
from latentstruct.objective import Objective
from latentstruct.planes import Planes, PlaneStore
from latentstruct.protocols import Callback, Result, Round
from latentstruct.ragged import Vector
from latentstruct.short_repr import short_repr, show
from latentstruct.solvers.auto import choose_solver
from latentstruct.solvers.base import ENDINGS, LAST, BaseSolver
from latentstruct.solvers.bundle import PlaneBundle
from latentstruct.solvers.cccp import CCCP
from latentstruct.solvers.self_paced import SelfPaced

# Of the distribution's weights θ: steps of L-BFGS in one block, and passes over the data of the stochastic subgradient.
LATENT_STEPS, LATENT_PASSES = 100, 10
# The share of the tolerance at which L-BFGS stops.
LATENT_PRECISION = 1e-2
# Multiples of w that θ may begin with: the distribution then favours the latents that w does.
FIRST_MULTIPLES = (1.0, 4.0, 16.0, 64.0)


class OutOfTime(Exception):
    """Ends a block whose time is over."""


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


class Alternation(BaseSolver):
    """The frame of solvers that improve w under a belief about the latents, then the belief, and so on.

    A start without weights first finds w by the loss of the outputs alone. Under the first belief, be it certain of
    latents that are only guessed or of none, w would learn that belief, and the belief would then learn nothing from w.

    Subclasses define `_begin` and `_improve`.
    """

    needs = frozenset({"difference"})
    solver: Any

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
        return self._w_solver().set_params(**limits).minimize(problem, begins, **more)

    def _keeps(self) -> bool:
        """Tell whether the state of a bundle may be replaced by the planes of single examples it remembers."""
        cccp = self.solver.inner if isinstance(self.solver, SelfPaced) else self.solver
        return getattr(cccp, "inner", None) is None

    def _w_solver(self) -> Any:
        solver = clone(self.solver) if isinstance(self.solver, CCCP | SelfPaced) else CCCP()
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
    ) -> DissimilarityResult:
        """Minimise from w0, or from the first latents where w0 is None; `state` is that of an earlier result."""
        self.check(objective)
        # As in all solvers: threads of BLAS that wait for each other cost more than they bring.
        with threadpool_limits(limits=1, user_api="blas"):
            return _Run(self, objective, state, callback).run(w0)


class _Run:
    """One call of `Alternation.minimize`: all starts and their history."""

    def __init__(
        self, settings: Alternation, objective: DissimilarityObjective, state: Kept | None, callback: Callback | None
    ) -> None:
        self.settings, self.objective, self.callback = settings, objective, callback
        self.theta: Vector | None = None if state is None else state.theta
        self.planes: PlaneStore | None = None if state is None else state.planes
        self.began = time.perf_counter()
        self.history: list[Round] = []
        self.calls = self.start = 0

    def run(self, w0: Vector | None) -> DissimilarityResult:
        several = w0 is None and self.objective.first is not None
        best: Start | None = None
        reached: list[float] = []
        for start in range(self.settings.restarts if several else 1):
            self.start = start
            found = self._one_start(w0)
            if math.isinf(found.at.value) and best is None:
                at, _ = self._begun(w0)
                value = self._value(at.w, at.belief) if w0 is None else at.value
                found = found._replace(at=replace(at, value=value))
            # One that was interrupted before it reached anything has nothing to add to earlier ones.
            if math.isfinite(found.at.value):
                reached.append(found.at.value)
            if best is None or found.at.value < best.at.value:
                best = found
            if found.reason in LAST:
                best = best._replace(reason=found.reason)
                break
        assert best is not None
        return self._result(best, reached)

    def _result(self, best: Start, reached: list[float]) -> DissimilarityResult:
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
            reached,
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
        before = len(self.history)
        self.best = NOTHING
        try:
            self.best, first = self._begun(w0)
            reason = self._descend(self.best, first)
        except KeyboardInterrupt:
            reason = "interrupted"
        return Start(self.best, len(self.history) - before, reason)

    def _value(self, w: Vector, belief: Belief) -> float:
        return self.objective.given(belief.P).value(w) + belief.price

    def _descend(self, at: Reached, first: Callable[[int], Planes] | None) -> str:
        """Alternate until a round brings little; return why it stopped."""
        least = self.settings.tol * float(self.objective.weights.sum())
        number, before = 0, math.inf
        while True:
            number += 1
            solved, at = self._improve_weights(at, first, number)
            self._offer(at)
            improved = at if solved.reason in LAST else self.settings._improve(self.objective, at, self._left())
            self._offer(improved)
            reached = min(at.value, improved.value)
            small = improved is at or before - reached <= least
            asked_to_stop = self._close_round(number)
            reason = self._reason(solved.reason, small, asked_to_stop, number)
            if reason:
                return reason
            at, before = improved, reached

    def _improve_weights(
        self, at: Reached, first: Callable[[int], Planes] | None, number: int
    ) -> tuple[Result, Reached]:
        """Return the result of a search for w, and what it reached."""
        if math.isinf(at.value):
            limits = {"tol": self.settings.tol, "max_seconds": max(self._left(), 1e-3)}
            solver = self.settings._w_solver().set_params(**limits)
            solved = solver.minimize(self.objective.blind(first), callback=self._watch(at, number))
            self.calls += solved.oracle_calls
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
        limits = {"tol": self.settings.tol, "max_seconds": max(self._left(), 1e-3)}
        callback = self._watch(at, number)
        solved = self.settings._solve(problem, at, limits, state=self.planes, callback=callback)
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


class Dissimilarity(Alternation):
    """Block coordinate descent over w and θ, as `ModLat` needs it.

    A round improves w by `CCCP` at fixed θ, then θ at fixed w; either is taken only if it lowers the objective, which
    therefore never rises (exact inference). It stops when a round lowers the objective by less than tol·Σ_i c_i, or
    leaves θ as it was. Where the task tells the losses of planes (`plane_losses`), these are kept from round to round.

    A start without weights first finds w by the loss of the outputs alone. θ begins with the multiple of w (0 among
    them) that makes the objective lowest, if both have the same features.

    Parameters
    ----------
    solver : CCCP or SelfPaced, optional
        Solver for w; its tol, max_seconds and restarts are replaced by those given here.
    latent_solver : {"lbfgs", "subgradient"}, default="lbfgs"
        Solver for θ: L-BFGS, or the stochastic subgradient with steps 1/(λt), λ = J/Σ_i c_i.
    tol : float, default=1e-3
        Decrease of a round at which to stop, as a share of Σ_i c_i, and the relative precision of CCCP.
    max_rounds, max_seconds : number
        Limits: rounds of each start, seconds of all together.
    restarts : int, default=1
        Number of starts; the best objective is kept.
    random_state : int or None, default=0
        Seed of the order of examples for the stochastic subgradient.

    Notes
    -----
    Kumar, Packer & Koller (2012). The objective is descended as written there in (11); the subgradient that the paper
    prints for θ has another sign and no β at its last term.
    """

    def __init__(
        self,
        solver: Any = None,
        latent_solver: str = "lbfgs",
        tol: float = 1e-3,
        max_rounds: int = 100,
        max_seconds: float = float("inf"),
        restarts: int = 1,
        random_state: int | None = 0,
    ) -> None:
        self.solver = solver
        self.latent_solver = latent_solver
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.restarts = restarts
        self.random_state = random_state

    def check(self, objective: Any) -> None:
        """Raise unless the parameters make sense."""
        super().check(objective)
        check_choice(self.latent_solver, ("lbfgs", "subgradient"), "latent_solver")

    def _begin(
        self, objective: DissimilarityObjective, attempt: int, w: Vector | None, theta: Vector | None
    ) -> tuple[Belief, Callable[[int], Planes] | None]:
        if theta is None or len(theta) != objective.model.n_weights:
            theta = np.zeros(objective.model.n_weights) if w is None else first_theta(objective, w)
        first = objective.first
        return self._belief(objective, theta), None if first is None else lambda _: first(attempt)

    @staticmethod
    def _belief(objective: DissimilarityObjective, theta: Vector) -> Belief:
        P = objective.model.distribution(theta)
        return Belief(P, theta, objective.price(P, theta))

    def _improve(self, objective: DissimilarityObjective, at: Reached, seconds: float) -> Reached:
        search = _Search(objective.of_theta(at.w), at.belief.theta, float(objective.weights.sum()), seconds)
        before = search.value
        if not at.belief.theta.any():
            search.consider(first_theta(objective, at.w))
        try:
            if self.latent_solver == "lbfgs":
                descend_by_lbfgs(search, LATENT_PRECISION * self.tol)
            else:
                descend_by_subgradient(search, objective, at.w, np.random.default_rng(self.random_state))
        except OutOfTime:
            pass
        if search.value >= before:
            return at
        value = search.value * search.scale + 0.5 * float(at.w @ at.w)
        # The bound was that of a problem with another belief.
        return Reached(at.w, self._belief(objective, search.theta), value)


class _Search:
    """A function of θ divided by Σ_i c_i, which remembers the best θ it was asked at."""

    def __init__(self, function: Function, theta: Vector, scale: float, seconds: float) -> None:
        self.function, self.scale = function, scale
        self.ends = time.perf_counter() + seconds
        self.theta, self.value = theta, function(theta)[0] / scale

    def consider(self, theta: Vector) -> None:
        """Go on from these weights if they are better."""
        value = self.function(theta)[0] / self.scale
        if value < self.value:
            self.theta, self.value = theta, value

    def __call__(self, theta: Vector) -> tuple[float, Vector]:
        value, gradient = self.function(theta)
        if value / self.scale < self.value:
            self.value, self.theta = value / self.scale, theta.copy()
        if time.perf_counter() >= self.ends:
            raise OutOfTime
        return value / self.scale, gradient / self.scale


def first_theta(objective: DissimilarityObjective, w: Vector) -> Vector:
    """Return the multiple of w, 0 included, that makes the objective lowest as θ; 0 if Φ are features of their own."""
    nothing = np.zeros(objective.model.n_weights)
    if objective.model.features is not None or not w.any():
        return nothing
    function = objective.of_theta(w)
    return min((nothing, *(multiple * w for multiple in FIRST_MULTIPLES)), key=lambda theta: function(theta)[0])


def descend_by_lbfgs(search: _Search, precision: float) -> None:
    """Go down by L-BFGS until a step lowers the function by less than the precision."""
    options = {"maxiter": LATENT_STEPS, "ftol": precision, "gtol": 1e-9}
    minimize_smooth(search, search.theta, jac=True, method="L-BFGS-B", options=options)


def descend_by_subgradient(
    search: _Search, objective: DissimilarityObjective, w: Vector, rng: np.random.Generator
) -> None:
    """Go down by stochastic subgradients of λ/2‖θ‖² + E_i[ξ_i − β H_i], the example i drawn in proportion to c_i.

    λ = J/Σ_i c_i and the step is 1/(λt); the whole function is asked after each pass over the data.
    """
    risks = [latent_risk(model, np.ones(1), objective.beta, w) for model in objective.singles]
    rate, shares = objective.J / search.scale, objective.weights / search.scale
    theta, t = search.theta.copy(), 0
    for _ in range(LATENT_PASSES):
        for i in rng.choice(len(risks), size=len(risks), p=shares / shares.sum()):
            t += 1
            _, gradient = risks[i](theta)
            theta = (1.0 - 1.0 / t) * theta - gradient / (rate * t)
        search(theta)


class Imputation(Alternation):
    """Iterative LSVM: impute the latents, then train with a loss measured against them, and so on.

    The belief is one latent for certain: argmax_h s(y_i, h). As imputing may raise the objective, the best of all
    rounds is kept. It stops when the latents stay as they are or a round is not below the best one by tol·Σ_i c_i.

    Parameters
    ----------
    solver : solver, optional
        `CCCP` or `SelfPaced`, or a convex solver for inner "convex".
    inner : {"cccp", "convex"}, default="cccp"
        Whether training is a latent SVM, whose right output may have any latent, or a convex problem in which it has
        the imputed one.
    tol, max_rounds, max_seconds, restarts
        See `Dissimilarity`.
    """

    def __init__(
        self,
        solver: Any = None,
        inner: str = "cccp",
        tol: float = 1e-3,
        max_rounds: int = 100,
        max_seconds: float = float("inf"),
        restarts: int = 1,
    ) -> None:
        self.solver = solver
        self.inner = inner
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.restarts = restarts

    def check(self, objective: Any) -> None:
        """Raise unless the parameters make sense."""
        check_choice(self.inner, ("cccp", "convex"), "inner")
        if self.inner == "cccp":
            super().check(objective)
            return
        BaseSolver.check(self, objective)
        self._check_at_least(1, "max_rounds", "restarts")
        wrong = isinstance(self.solver, type) or "convex" not in getattr(self.solver, "needs", ())
        if self.solver is not None and wrong:
            raise InputError(
                f"solver must be a convex solver such as Bundle(), or None, found {show(self.solver)}: give one of "
                "these"
            )

    def _begin(
        self, objective: DissimilarityObjective, attempt: int, w: Vector | None, theta: Vector | None
    ) -> tuple[Belief, Callable[[int], Planes] | None]:
        task, batch, nothing = objective.model.task, objective.model.batch, np.zeros(0)
        if w is not None or objective.first is None:
            begins = np.zeros(objective.n_features) if w is None else w
            return Belief(objective.model.imputed(begins), nothing, 0.0), None
        latents = objective.first(attempt)
        planes = task.completion_planes(batch, latents)
        return Belief(task.point_distribution(batch, latents), nothing, 0.0), lambda _: planes

    def _solve(self, problem: Objective, at: Reached, limits: dict[str, Any], **more: Any) -> Result:
        if self.inner == "cccp":
            return super()._solve(problem, at, limits, **more)
        guessed = problem.first if math.isinf(at.value) else None
        convex = problem.linearized_at(at.w) if guessed is None else problem.linearized_with(guessed(0))
        solver = choose_solver(convex) if self.solver is None else clone(self.solver)
        return solver.set_params(**limits).minimize(convex, at.w, **more)

    def _keeps(self) -> bool:
        return self.solver is None if self.inner == "convex" else super()._keeps()

    def _improve(self, objective: DissimilarityObjective, at: Reached, seconds: float) -> Reached:
        P = objective.model.imputed(at.w)
        if np.array_equal(P, at.belief.P):
            return at
        value = objective.given(P).value(at.w)
        return Reached(at.w, Belief(P, at.belief.theta, 0.0), value)
