"""Training with a belief about unknown latents: alternating updates of the weights and the belief."""

import math
import time
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import optimize
from latentstruct.core.objective import Objective
from latentstruct.core.parameters import clone
from latentstruct.core.protocols import Iteration, Problem, Result, Starts
from latentstruct.core.types import Array, Vector, Weights
from latentstruct.core.validation import Constraint, instance, integer, options
from latentstruct.persistence.checkpoints import task_errors
from latentstruct.persistence.state_trees import CONTEXT, Numbers, Tree
from latentstruct.planes.store import PlaneStore
from latentstruct.solvers.base import LAST, BaseSolver, solving
from latentstruct.solvers.bundle import PlaneBundle
from latentstruct.solvers.cccp import CCCP
from latentstruct.solvers.dissimilarity import DissimilarityObjective, Function, latent_risk
from latentstruct.solvers.outer_loop import OuterLoop
from latentstruct.solvers.selection import choose_solver
from latentstruct.solvers.self_paced import SelfPaced
from latentstruct.solvers.starts import GivenPlanes, OneStart

W_SOLVER = instance("a CCCP solver", CCCP) | instance("a SelfPaced solver", SelfPaced) | None
CONVEX_SOLVER = (
    Constraint(
        lambda value: isinstance(value, BaseSolver) and "convex" in value.needs, "a convex solver such as Bundle()"
    )
    | None
)


@dataclass
class DissimilarityResult(Result):
    """Result of training with a distribution over latents: `Result` with the distribution's weights θ."""

    theta: Numbers = field(default_factory=lambda: np.zeros(0))

    __repr__ = short_repr


@dataclass
class Belief:
    """A distribution P over the latents, its weights θ, and the part of the objective that does not depend on w."""

    P: Annotated[Vector, Array(("states",))]
    theta: Numbers
    price: float


@dataclass
class Reached:
    """Weights and a belief, with their objective."""

    w: Weights
    belief: Belief
    value: float
    bound: float = -math.inf


class Kept(NamedTuple):
    """Initial state of a later call: θ, and the planes of single examples."""

    theta: Vector
    planes: PlaneStore | None


class Alternation(BaseSolver):
    """Base class of solvers that alternate between updates of w and of a belief about the latents.

    A start without weights first finds w by the loss of the outputs alone. Under the first belief, whether certain of
    guessed latents or of none, w would learn that belief, and the belief could not learn from w.

    Subclasses define `_begin` and `_improve`.
    """

    needs = frozenset({"difference"})
    has_restarts = True
    takes_latents = True
    constraints: ClassVar = {"max_iter": integer(1)}
    solver: Any

    def _begin(
        self, objective: DissimilarityObjective, attempt: int, w: Vector | None, theta: Vector | None
    ) -> tuple[Belief, Starts | None]:
        """Return the first belief, and the initial planes if no weights are given."""
        raise TypeError(f"{type(self).__name__} does not define _begin()")

    def _improve(self, objective: DissimilarityObjective, at: Reached, seconds: float) -> Reached:
        """Return the next belief at the same w; the same object if there is no better one."""
        raise TypeError(f"{type(self).__name__} does not define _improve()")

    def _prepared(self, problem: Objective, at: Reached) -> tuple[Any, Objective, Vector | None]:
        """Return the solver that improves w under the belief of `at`, its problem, and its initial weights."""
        return self._w_solver(), problem, None if math.isinf(at.value) else at.w

    def _keeps(self) -> bool:
        """Return whether the state of a bundle may be replaced by its kept planes of single examples."""
        cccp = self.solver.inner if isinstance(self.solver, SelfPaced) else self.solver
        return cccp is None or cccp.inner is None

    def _w_solver(self) -> Any:
        solver = clone(self.solver) if isinstance(self.solver, CCCP | SelfPaced) else CCCP()
        solver.cache_mb = self.cache_mb or solver.cache_mb
        solver.set_restarts(1)
        return solver

    def check(self, objective: Problem) -> None:
        super().check(objective)
        W_SOLVER.check(self.solver, "solver")

    def minimize(
        self, objective: Problem, w0: Vector | None = None, *, state: Any = None, **given: Any
    ) -> DissimilarityResult:
        """Minimize from w0, or from the initial latents if w0 is None; `state` is that of an earlier result.

        The other parameters are those of `BaseSolver.minimize`.
        """
        self.check(objective)
        assert isinstance(objective, DissimilarityObjective)
        theta, planes = (None, None) if state is None else state
        run = _Run(self, objective, planes, **given)
        run.theta = theta if run.theta is None else run.theta
        with solving():
            found: Any = run.run(w0)
        return replace(found, state=Kept(found.theta, run.state))


@dataclass
class _Run(OuterLoop[DissimilarityObjective]):
    """One call of `Alternation.minimize`."""

    best: DissimilarityResult | None = None
    theta: Numbers | None = None  # weights of the first belief
    at: Reached | None = None  # state at the beginning of the iteration; its objective is +∞ until it is known
    lowest: Reached | None = None  # the best state of the current start
    before: float = math.inf  # the objective after the last iteration
    is_blind: bool = False  # whether w is being found by the loss of the outputs alone
    starts: Starts | None = field(default=None, metadata=CONTEXT)

    def _restore(self, tree: Tree) -> None:
        super()._restore(tree)
        model = self.objective.model
        for one in (self.at, self.lowest):
            if one is None or len(one.belief.P) != model.sites.offsets[-1]:
                raise ValueError("a distribution over latents does not fit")
            if len(one.belief.theta) not in (0, model.n_weights):
                raise ValueError(f"a distribution with {len(one.belief.theta)} weights does not fit")

    def _problem(self) -> Objective:
        assert self.at is not None
        with task_errors():
            return self.objective.given(self.at.belief.P)

    def _begun(self) -> Reached:
        """Return the initial state of a start, with the objective if weights are given; store its initial planes."""
        belief, self.starts = self.settings._begin(self.objective, self.start, self.w0, self.theta)
        if self.w0 is None:
            return Reached(np.zeros(self.objective.n_features), belief, math.inf)
        w = np.array(self.w0, dtype=np.float64)
        return Reached(w, belief, self._value(w, belief))

    def _begin(self) -> None:
        self.lowest, self.before = None, math.inf
        self.at = self.lowest = self._begun()

    def _found(self, reason: str) -> DissimilarityResult | None:
        at = self.lowest
        if at is None or math.isinf(at.value):
            if self.best is not None:
                # It was interrupted before it had a result.
                return None
            at = self._begun()
            at = replace(at, value=self._value(at.w, at.belief)) if math.isinf(at.value) else at
        theta = at.belief.theta
        return DissimilarityResult(at.w, at.value, at.bound, 0, self.iterations, reason, False, [], theta=theta)

    def _value(self, w: Vector, belief: Belief) -> float:
        return self.objective.given(belief.P).value(w) + belief.price

    def _round(self) -> None:
        """Improve the weights, then the belief."""
        assert self.at is not None
        if math.isinf(self.at.value) and self._inner is not None:
            # Only a start without weights uses its initial planes.
            self._begun()
        solved, at = self._improve_weights(self.at)
        self._offer(at)
        left = max(self.settings.max_seconds - self._seconds(), 0.0)
        improved = at if solved.reason in LAST else self.settings._improve(self.objective, at, left)
        self._offer(improved)
        reached = min(at.value, improved.value)
        self.small = improved is at or self.before - reached <= self.settings.tol * float(self.objective.weights.sum())
        assert self.lowest is not None
        self._close(self.lowest.value, self.lowest.bound)
        self.at, self.before, self.solved = improved, reached, solved.reason

    def _improve_weights(self, at: Reached) -> tuple[Result, Reached]:
        """Return the result of a search for w, and what it reached."""
        if self.is_blind or (math.isinf(at.value) and self._inner is None):
            self.is_blind = True
            problem, solver = self.objective.blind(self.starts), self.settings._w_solver()
            solved = self._search(solver, problem, None, at, with_state=False)
            self.is_blind = False
            # At w = 0 all latents score the same, and the initial ones would be forgotten.
            if solved.w.any() or solved.reason in LAST:
                return solved, Reached(solved.w, at.belief, self._value(solved.w, at.belief))
        problem = self.objective.given(at.belief.P, self.starts)
        # Another belief changes only the heights of planes, if the task knows their losses.
        losses = problem.plus.plane_losses()
        if losses is None:
            self.state = None
        elif self.state is not None:
            self.state.change_offsets(losses)
        solver, problem, w0 = self.settings._prepared(problem, at)
        solved = self._search(solver, problem, w0, at)
        found = solved.state
        if isinstance(found, PlaneBundle) and self.settings._keeps():
            found = found.remembered
        self.state = found if isinstance(found, PlaneStore) else None
        value = solved.objective + at.belief.price
        bound = min(solved.lower_bound + at.belief.price, value, at.value)
        return solved, Reached(solved.w, at.belief, value, bound) if value < at.value else replace(at, bound=bound)

    def _search(self, solver: Any, problem: Objective, w0: Vector | None, at: Reached, **more: Any) -> Result:
        """Run a solver for w, whose iterations are reported as estimates of the current one."""

        def shown(line: Iteration) -> Iteration:
            value = min(at.value, line.objective + at.belief.price)
            return self._estimate(line, value, min(line.lower_bound + at.belief.price, value))

        solver.set_params(tol=self.settings.tol, max_seconds=self.settings.max_seconds)
        return self._solve(solver, problem, w0, shown, **more)

    def _offer(self, at: Reached) -> None:
        if self.lowest is None or at.value < self.lowest.value:
            self.lowest = at


# Fraction of the tolerance at which L-BFGS stops.
LATENT_PRECISION = 1e-2
# Steps of L-BFGS in one block, and passes over the data of the stochastic subgradient.
LATENT_STEPS, LATENT_PASSES = 100, 10
# Multiples of w that θ may start from: the distribution then favors the latents that w does.
FIRST_MULTIPLES = (1.0, 4.0, 16.0, 64.0)


class OutOfTime(Exception):
    """Raised when the time limit is reached inside a block."""


class Search:
    """A function of θ divided by Σ_i c_i, which stores the best θ it was evaluated at."""

    def __init__(self, function: Function, theta: Vector, scale: float, seconds: float) -> None:
        self.function, self.scale = function, scale
        self.ends = time.perf_counter() + seconds
        self.theta, self.value = theta, function(theta)[0] / scale

    def consider(self, theta: Vector) -> None:
        """Continue from these weights if they are better."""
        value = self.function(theta)[0] / self.scale
        if value < self.value:
            self.theta, self.value = theta, value

    def __call__(self, theta: Vector) -> tuple[float, Vector]:
        """Return the function and its gradient at θ; raise OutOfTime at the time limit."""
        value, gradient = self.function(theta)
        if value / self.scale < self.value:
            self.value, self.theta = value / self.scale, theta.copy()
        if time.perf_counter() >= self.ends:
            raise OutOfTime
        return value / self.scale, gradient / self.scale


def first_theta(objective: DissimilarityObjective, w: Vector) -> Vector:
    """Return the multiple of w, 0 included, that minimizes the objective as θ; 0 if Φ differs from φ."""
    nothing = np.zeros(objective.model.n_weights)
    if objective.model.features is not None or not w.any():
        return nothing
    function = objective.of_theta(w)
    return min((nothing, *(multiple * w for multiple in FIRST_MULTIPLES)), key=lambda theta: function(theta)[0])


def descend_by_lbfgs(search: Search, precision: float) -> None:
    """Minimize by L-BFGS until a step decreases the function by less than the precision."""
    options = {"maxiter": LATENT_STEPS, "ftol": precision, "gtol": 1e-9}
    optimize.minimize(search, search.theta, jac=True, method="L-BFGS-B", options=options)


def descend_by_subgradient(
    search: Search, objective: DissimilarityObjective, w: Vector, rng: np.random.Generator
) -> None:
    """Minimize by stochastic subgradients of λ/2‖θ‖² + E_i[ξ_i − β H_i], the example i drawn in proportion to c_i.

    λ = J/Σ_i c_i and the step is 1/(λt); the full function is evaluated after each pass over the data.
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


@dataclass(eq=False, repr=False)
class Dissimilarity(Alternation):
    """Block coordinate descent over w and θ, for `ModLat`.

    An iteration improves w by `CCCP` at fixed θ, then θ at fixed w; either is accepted only if it decreases the
    objective, which never increases (exact inference). It stops when an iteration decreases the objective by less than
    tol·Σ_i c_i or does not change θ. Planes are kept between iterations if the task has `plane_losses`.

    A start without weights first finds w by the loss of the outputs alone. θ starts from the multiple of w (including
    0) that minimizes the objective, if both have the same features.

    Parameters
    ----------
    solver : CCCP or SelfPaced, optional
        Solver for w; its tol, max_seconds and restarts are replaced by those given here.
    latent_solver : {"lbfgs", "subgradient"}, default="lbfgs"
        Solver for θ: L-BFGS, or the stochastic subgradient with steps 1/(λt), λ = J/Σ_i c_i.
    tol : float, default=1e-3
        Decrease per iteration at which to stop, relative to Σ_i c_i, and the relative precision of CCCP.
    max_iter, max_seconds : number
        Limits: iterations per start, seconds of all starts together.
    restarts : int, default=1
        Number of starts; the best objective is kept.
    random_state : int or None, default=0
        Seed of the order of examples for the stochastic subgradient.
    cache_mb : float, optional
        Maximum megabytes of planes kept by the solver for w; by default its own limit.

    Notes
    -----
    Kumar, Packer & Koller (2012). The objective is (11) of the paper; the subgradient that the paper
    prints for θ has another sign and no β at its last term.
    """

    constraints: ClassVar = {"solver": W_SOLVER, "latent_solver": options("lbfgs", "subgradient")}

    solver: Any = None
    latent_solver: str = "lbfgs"
    tol: float = 1e-3
    max_iter: int = 100
    max_seconds: float = float("inf")
    restarts: int = 1
    random_state: int | None = 0
    cache_mb: float | None = None

    def _begin(
        self, objective: DissimilarityObjective, attempt: int, w: Vector | None, theta: Vector | None
    ) -> tuple[Belief, Starts | None]:
        if theta is None or len(theta) != objective.model.n_weights:
            theta = np.zeros(objective.model.n_weights) if w is None else first_theta(objective, w)
        starts = objective.starts
        return self._belief(objective, theta), None if starts is None else OneStart(starts, attempt)

    @staticmethod
    def _belief(objective: DissimilarityObjective, theta: Vector) -> Belief:
        P = objective.model.distribution(theta)
        return Belief(P, theta, objective.price(P, theta))

    def _improve(self, objective: DissimilarityObjective, at: Reached, seconds: float) -> Reached:
        search = Search(objective.of_theta(at.w), at.belief.theta, float(objective.weights.sum()), seconds)
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


@dataclass(eq=False, repr=False)
class Imputation(Alternation):
    """Iterative LSVM: alternately impute the latents and train with a loss measured against them.

    The belief is a single latent value: argmax_h s(y_i, h). Because imputing may increase the objective, the best of
    all iterations is kept. It stops when the latents do not change or the decrease is less than tol·Σ_i c_i.

    Parameters
    ----------
    solver : solver, optional
        `CCCP` or `SelfPaced`, or a convex solver for inner "convex".
    inner : {"cccp", "convex"}, default="cccp"
        Whether training is a latent SVM, whose true output may have any latent, or a convex problem in which it has
        the imputed one.
    tol, max_iter, max_seconds, restarts, cache_mb
        See `Dissimilarity`.
    """

    constraints: ClassVar = {"inner": options("cccp", "convex")}

    solver: Any = None
    inner: str = "cccp"
    tol: float = 1e-3
    max_iter: int = 100
    max_seconds: float = float("inf")
    restarts: int = 1
    cache_mb: float | None = None

    def check(self, objective: Problem) -> None:
        if self.inner != "convex":
            super().check(objective)
            return
        BaseSolver.check(self, objective)
        CONVEX_SOLVER.check(self.solver, "solver")

    def _begin(
        self, objective: DissimilarityObjective, attempt: int, w: Vector | None, theta: Vector | None
    ) -> tuple[Belief, Starts | None]:
        task, batch, nothing = objective.model.task, objective.model.batch, np.zeros(0)
        if w is not None or objective.starts is None:
            begins = np.zeros(objective.n_features) if w is None else w
            return Belief(objective.model.imputed(begins), nothing, 0.0), None
        latents = objective.starts.latents(attempt)
        planes = GivenPlanes(objective.starts.complete(latents))
        return Belief(task.point_distribution(batch, latents), nothing, 0.0), planes

    def _prepared(self, problem: Objective, at: Reached) -> tuple[Any, Objective, Vector | None]:
        if self.inner == "cccp":
            return super()._prepared(problem, at)
        starts = problem.starts if math.isinf(at.value) else None
        convex = problem.linearized_at(at.w) if starts is None else problem.linearized_with(starts.planes(0))
        solver = choose_solver(convex) if self.solver is None else clone(self.solver)
        if self.cache_mb is not None:
            solver.cache_mb = self.cache_mb
        return solver, convex, at.w

    def _keeps(self) -> bool:
        return self.solver is None if self.inner == "convex" else super()._keeps()

    def _improve(self, objective: DissimilarityObjective, at: Reached, seconds: float) -> Reached:
        P = objective.model.imputed(at.w)
        if np.array_equal(P, at.belief.P):
            return at
        value = objective.given(P).value(at.w)
        return Reached(at.w, Belief(P, at.belief.theta, 0.0), value)
