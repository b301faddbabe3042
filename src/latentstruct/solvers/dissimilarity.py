"""Training with a distribution over unknown latents: the weights and the distribution are improved in turn."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Starts
from latentstruct.dissimilarity import DissimilarityObjective
from latentstruct.exceptions import InputError
from latentstruct.ragged import Vector
from latentstruct.short_repr import show
from latentstruct.solvers.alternation import Alternation, Belief, Reached
from latentstruct.solvers.base import BaseSolver
from latentstruct.solvers.caches import bounded
from latentstruct.solvers.latent_search import (
    OutOfTime,
    Search,
    descend_by_lbfgs,
    descend_by_subgradient,
    first_theta,
)
from latentstruct.solvers.selection import choose_solver
from latentstruct.solvers.starts import GivenPlanes, OneStart

# The share of the tolerance at which L-BFGS stops.
LATENT_PRECISION = 1e-2


@dataclass(eq=False, repr=False)
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
    cache_mb : float, optional
        Megabytes that the solver for w may keep planes in; by default its own bound.

    Notes
    -----
    Kumar, Packer & Koller (2012). The objective is descended as written there in (11); the subgradient that the paper
    prints for θ has another sign and no β at its last term.
    """

    choices: ClassVar = {"latent_solver": ("lbfgs", "subgradient")}

    solver: Any = None
    latent_solver: str = "lbfgs"
    tol: float = 1e-3
    max_rounds: int = 100
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
    tol, max_rounds, max_seconds, restarts, cache_mb
        See `Dissimilarity`.
    """

    choices: ClassVar = {"inner": ("cccp", "convex")}

    solver: Any = None
    inner: str = "cccp"
    tol: float = 1e-3
    max_rounds: int = 100
    max_seconds: float = float("inf")
    restarts: int = 1
    cache_mb: float | None = None

    def check(self, objective: Any) -> None:
        """Raise unless the parameters make sense."""
        if self.inner != "convex":
            super().check(objective)
            return
        BaseSolver.check(self, objective)
        wrong = not isinstance(self.solver, BaseSolver) or "convex" not in self.solver.needs
        if self.solver is not None and wrong:
            raise InputError(
                f"solver must be a convex solver such as Bundle(), or None, found {show(self.solver)}: give one of "
                "these"
            )

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
        return bounded(solver, self.cache_mb), convex, at.w

    def _keeps(self) -> bool:
        return self.solver is None if self.inner == "convex" else super()._keeps()

    def _improve(self, objective: DissimilarityObjective, at: Reached, seconds: float) -> Reached:
        P = objective.model.imputed(at.w)
        if np.array_equal(P, at.belief.P):
            return at
        value = objective.given(P).value(at.w)
        return Reached(at.w, Belief(P, at.belief.theta, 0.0), value)
