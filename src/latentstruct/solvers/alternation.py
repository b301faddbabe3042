"""The frame of training with a belief about unknown latents: the weights and the belief are improved in turn."""

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone

from latentstruct.checkpoints import task_errors
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Result, Round, Starts
from latentstruct.dissimilarity import DissimilarityObjective
from latentstruct.exceptions import InputError
from latentstruct.plane_store import PlaneStore
from latentstruct.ragged import Array, Vector, Weights
from latentstruct.short_repr import short_repr, show
from latentstruct.solvers.base import LAST, BaseSolver
from latentstruct.solvers.bundle import PlaneBundle
from latentstruct.solvers.caches import bounded
from latentstruct.solvers.cccp import CCCP
from latentstruct.solvers.outer_loop import OuterLoop
from latentstruct.solvers.self_paced import SelfPaced
from latentstruct.state_trees import CONTEXT, Numbers, Tree


@dataclass
class DissimilarityResult(Result):
    """What training with a distribution over latents returns: `Result`, and the distribution's weights θ."""

    theta: Numbers = field(default_factory=lambda: np.zeros(0))

    __repr__ = short_repr


@dataclass
class Belief:
    """A distribution P over the latents, its weights θ, and the part of the objective that w has no share in."""

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
    has_restarts = True
    takes_latents = True
    least: ClassVar = {"max_rounds": 1}
    solver: Any

    def _begin(
        self, objective: DissimilarityObjective, attempt: int, w: Vector | None, theta: Vector | None
    ) -> tuple[Belief, Starts | None]:
        """Return the first belief, and the initial planes where no weights are given."""
        raise TypeError(f"{type(self).__name__} does not define _begin()")

    def _improve(self, objective: DissimilarityObjective, at: Reached, seconds: float) -> Reached:
        """Return the next belief at the same w; the same object if there is none."""
        raise TypeError(f"{type(self).__name__} does not define _improve()")

    def _prepared(self, problem: Objective, at: Reached) -> tuple[Any, Objective, Vector | None]:
        """Return the solver that improves w under the belief of `at`, its problem, and where it begins."""
        return self._w_solver(), problem, None if math.isinf(at.value) else at.w

    def _keeps(self) -> bool:
        """Tell whether the state of a bundle may be replaced by the planes of single examples it remembers."""
        cccp = self.solver.inner if isinstance(self.solver, SelfPaced) else self.solver
        return cccp is None or cccp.inner is None

    def _w_solver(self) -> Any:
        solver = bounded(clone(self.solver) if isinstance(self.solver, CCCP | SelfPaced) else CCCP(), self.cache_mb)
        solver.set_restarts(1)
        return solver

    def check(self, objective: Any) -> None:
        """Raise unless the parameters make sense."""
        super().check(objective)
        if self.solver is not None and not isinstance(self.solver, CCCP | SelfPaced):
            raise InputError(
                f"solver must be CCCP() or SelfPaced(), which find w, or None, found {show(self.solver)}: give one of "
                "these"
            )

    def _minimize(self, objective: Any, w0: Vector | None, state: Any, *given: Any) -> DissimilarityResult:
        """Minimize from w0, or from the initial latents if w0 is None; `state` is that of an earlier result."""
        theta, planes = (None, None) if state is None else state
        run = _Run(self, objective, planes, *given)
        run.theta = theta if run.theta is None else run.theta
        found: Any = run.run(w0)
        return replace(found, state=Kept(found.theta, run.state))


@dataclass
class _Run(OuterLoop):
    """One call of `Alternation.minimize`.

    Attributes
    ----------
    theta : ndarray, optional
        Weights of the first belief.
    at : Reached
        Where the present iteration begins; its objective is +∞ until it is known.
    lowest : Reached
        The best of the present start.
    before : float
        The objective that the last iteration reached.
    is_blind : bool
        Whether w is being found by the loss of the outputs alone.
    """

    best: DissimilarityResult | None = None
    theta: Numbers | None = None
    at: Reached | None = None
    lowest: Reached | None = None
    before: float = math.inf
    is_blind: bool = False
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
        """Return where a start begins, with the objective if weights are given, and note its initial planes."""
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
                # It was interrupted before it reached anything, and has nothing to add to earlier ones.
                return None
            at = self._begun()
            at = replace(at, value=self._value(at.w, at.belief)) if math.isinf(at.value) else at
        theta = at.belief.theta
        return DissimilarityResult(at.w, at.value, at.bound, 0, self.rounds, reason, False, [], theta=theta)

    def _value(self, w: Vector, belief: Belief) -> float:
        return self.objective.given(belief.P).value(w) + belief.price

    def _round(self) -> None:
        """Improve the weights, then the belief."""
        assert self.at is not None
        if math.isinf(self.at.value) and self._inner is not None:
            # Only a start that knows no weights yet looks at its initial planes.
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
            # At w = 0 all latents are alike, and the initial ones would be forgotten.
            if solved.w.any() or solved.reason in LAST:
                return solved, Reached(solved.w, at.belief, self._value(solved.w, at.belief))
        problem = self.objective.given(at.belief.P, self.starts)
        # Another belief changes only the heights of planes, where the task tells their losses.
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
        """Run a solver for w, whose iterations are shown as estimates of the present one."""

        def shown(line: Round) -> Round:
            value = min(at.value, line.objective + at.belief.price)
            return self._estimate(line, value, min(line.lower_bound + at.belief.price, value))

        solver.set_params(tol=self.settings.tol, max_seconds=self.settings.max_seconds)
        return self._solve(solver, problem, w0, shown, **more)

    def _offer(self, at: Reached) -> None:
        if self.lowest is None or at.value < self.lowest.value:
            self.lowest = at
