"""Reports of a training: one line per iteration, and warnings."""

import math
import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from latentstruct.core.callers import user_stacklevel
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import BegunCallback, Classifier, Iteration, Result, ResumedCallback
from latentstruct.core.regularizers import L2
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.persistence.checkpoints import FileCheckpointer, iterations_in
from latentstruct.progress.display import iteration_text
from latentstruct.progress.eta import StoppingRule, TrainingTime
from latentstruct.solvers.base import BaseSolver

if TYPE_CHECKING:
    from latentstruct.estimators.base import BaseStructuredEstimator

SECONDS_BETWEEN_ESTIMATES = 1.0


class IterationPrinter:
    """Prints the iterations of a solver, and the estimated remaining time."""

    def __init__(self) -> None:
        self._time = TrainingTime(StoppingRule())
        self._estimated_at = -math.inf
        self._remaining = ""

    def begin(self, stopping: StoppingRule) -> None:
        """Take what is known of a training that begins now."""
        self._time = TrainingTime(stopping)

    def go_on(self, name: str, n_iter: int) -> None:
        """Print that training resumes from a checkpoint."""
        print(f"resuming from {name}, {n_iter} iterations are done", flush=True)

    def __call__(self, line: Iteration) -> None:
        """Print an iteration."""
        self._time.add(line)
        if line.seconds - self._estimated_at >= SECONDS_BETWEEN_ESTIMATES:
            self._estimated_at, self._remaining = line.seconds, self._time.describe()
        start = f"start {line.start + 1}" if line.start else ""
        print("  ".join(filter(None, (start, iteration_text(line), self._remaining))), flush=True)


def begin_callback(
    callback: Any, solver: BaseSolver, objective: Objective, several: bool, checkpointer: FileCheckpointer | None = None
) -> None:
    """Pass what is known of a training to a callback that takes it; see `Callback`."""
    if isinstance(callback, BegunCallback):
        callback.begin(estimate_end(solver, objective, several))
    if checkpointer is not None and checkpointer.saved is not None and isinstance(callback, ResumedCallback):
        callback.go_on(checkpointer.name, iterations_in(checkpointer.saved))


def estimate_end(solver: BaseSolver, objective: Objective, several: bool) -> StoppingRule:
    """Return what ends the training of an objective by a solver; `several` if starts may differ."""
    several = several and "convex" not in objective.properties
    # The solver checks its parameters later.
    n_starts = solver.n_starts if several and isinstance(solver.n_starts, int | np.integer) else 1
    # Parameters that are no limits count something else than iterations.
    iterations = solver.max_iter if "max_iter" in solver.limits else math.inf
    rule, goal, span = solver.ending(objective)
    return StoppingRule(rule, goal, span, iterations, solver.max_seconds, int(n_starts))  # type: ignore[arg-type]


def warn_about_training(estimator: "BaseStructuredEstimator", result: Result, solver: BaseSolver) -> None:
    """Warn if a fitted estimator learned nothing, or if its training stopped early."""
    task, w = estimator.task_, estimator.coef_
    if task.latent:
        # Against the objective, as weights are small where features are large; it may be 0 but for rounding.
        scale = max(abs(result.objective), 1e-12 * min(1.0, estimator.C_))
        learned_nothing = result.reason == "converged" and bool(w @ w <= 1e-18 * scale)
    else:
        ended = result.reason in ("converged", "stalled") and result.objective > 0
        learned_nothing = ended and task.tags.single_example and not w.any()
    if learned_nothing:
        warnings.warn(
            f"training ended at w = 0: {_cause_of_zero(estimator)}", ConvergenceWarning, stacklevel=user_stacklevel()
        )
    wide = estimator.relative_gap_ > solver.tol if math.isfinite(result.gap) else solver.warns_if_stalled
    unfinished = result.reason == "stalled" and wide
    if unfinished or result.reason in ("max_iter", "max_seconds", "interrupted"):
        gap = f"relative gap {estimator.relative_gap_:.2g}" if math.isfinite(result.gap) else "no bound"
        cure = "" if result.reason == "interrupted" else " Raise the limit, scale the features or lower `C`."
        warnings.warn(
            f"training stopped early ({result.reason}) after {result.n_iter} iterations with {gap}; the best weights "
            f"so far are kept.{cure}",
            ConvergenceWarning,
            stacklevel=user_stacklevel(),
        )


def _cause_of_zero(estimator: "BaseStructuredEstimator") -> str:
    """Return why all weights may be zero, and what to do."""
    task = estimator.task_
    if task.tags.single_example:
        return (
            f"C={estimator.C_:g} is too small for a loss of all rows together (begin with suggest_C, and try "
            "more), or the classes overlap too much for this loss (compare with 'rocarea')"
        )
    classes: Any = cast(Classifier, task).classes_ if task.tags.classifier else ()
    if len(classes) == 1:
        return f"all examples are of one class ({classes[0]}), so there is nothing to separate; give others too"
    better = "more restarts, better initial latents (init, H or coef_init) or a larger C"
    if estimator.regularizer is None or isinstance(estimator.regularizer, L2):
        return f"the initial latents are unrelated to the outputs; try {better}"
    return (
        f"{type(estimator.regularizer).__name__} outweighs the examples, or the initial latents are unrelated to the "
        f"outputs; try smaller weights of the regularizer, {better}"
    )
