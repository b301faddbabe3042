"""What estimators say of their training: a line for each round, and warnings of what went wrong."""

import math
import warnings
from typing import Any

from latentstruct.callers import user_stacklevel
from latentstruct.checkpoints import FileCheckpointer, rounds_in
from latentstruct.core.protocols import Result, Round
from latentstruct.core.regularizers import L2
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.solvers.base import BaseSolver
from latentstruct.time_left import Outlook, TrainingTime

SECONDS_BETWEEN_OUTLOOKS = 1.0


class RoundPrinter:
    """Prints the rounds of a solver, and the time that is left where it can be foreseen."""

    def __init__(self) -> None:
        self._time = TrainingTime(Outlook())
        self._foreseen_at = -math.inf
        self._outlook = ""

    def begin(self, outlook: Outlook) -> None:
        """Take what is known of a training that begins now."""
        self._time = TrainingTime(outlook)

    def go_on(self, name: str, n_rounds: int) -> None:
        """Print that the training goes on from a checkpoint."""
        print(f"going on from {name}, {n_rounds} rounds are done", flush=True)

    def __call__(self, line: Round) -> None:
        """Print a round."""
        self._time.add(line)
        if line.seconds - self._foreseen_at >= SECONDS_BETWEEN_OUTLOOKS:
            self._foreseen_at, self._outlook = line.seconds, self._time.describe()
        about = "~" if line.estimate else " "
        start = f"start {line.start + 1}  " if line.start else ""
        score = "" if line.validation_score is None else f"validation score {line.validation_score:.4f}"
        ends = [f"{line.seconds:.1f} s", score, self._outlook]
        print(
            f"{start}round {line.round:4d}  objective {about}{line.objective:.6g}  bound {line.lower_bound:.6g}  "
            f"gap {line.gap:.3g}  oracle calls {line.oracle_calls}  {'  '.join(filter(None, ends))}",
            flush=True,
        )


def tell_of_checkpoint(callback: Any, checkpointer: FileCheckpointer | None) -> None:
    """Tell a callback that has a method ``go_on`` from which checkpoint training goes on, and after how many rounds."""
    go_on = getattr(callback, "go_on", None)
    if go_on is not None and checkpointer is not None and checkpointer.saved is not None:
        go_on(checkpointer.name, rounds_in(checkpointer.saved))


def warn_of(estimator: Any, result: Result, solver: BaseSolver) -> None:
    """Warn of a fitted estimator that learned nothing, or whose training stopped early."""
    if _learned_nothing(estimator, result):
        warnings.warn(
            f"training ended at w = 0: {_cause_of_zero(estimator)}", ConvergenceWarning, stacklevel=user_stacklevel()
        )
    wide = estimator.relative_gap_ > solver.tol if math.isfinite(result.gap) else solver.warns_if_stalled
    unfinished = result.reason == "stalled" and wide
    if unfinished or result.reason in ("max_rounds", "max_seconds", "interrupted"):
        gap = f"relative gap {estimator.relative_gap_:.2g}" if math.isfinite(result.gap) else "no bound"
        cure = "" if result.reason == "interrupted" else " Raise the limit, scale the features or lower C."
        warnings.warn(
            f"training stopped early ({result.reason}) after {result.n_rounds} rounds with {gap}; the best weights "
            f"so far are kept.{cure}",
            ConvergenceWarning,
            stacklevel=user_stacklevel(),
        )


def _learned_nothing(estimator: Any, result: Result) -> bool:
    """Tell whether all weights are zero where that is easily overlooked."""
    if estimator.task_.latent:
        # Against the objective, as weights are small where features are large; it may be 0 but for rounding.
        scale = max(abs(result.objective), 1e-12 * min(1.0, estimator.C))
        return result.reason == "converged" and bool(estimator.coef_ @ estimator.coef_ <= 1e-18 * scale)
    ended = result.reason in ("converged", "stalled") and result.objective > 0
    return ended and estimator.task_.tags.single_example and not estimator.coef_.any()


def _cause_of_zero(estimator: Any) -> str:
    """Return why all weights may be zero, and what to do."""
    task = estimator.task_
    if task.tags.single_example:
        return (
            f"C={estimator.C:g} is too small for a loss of all rows together (begin with comparable_strength, and try "
            "more), or the classes overlap too much for this loss (compare with 'rocarea')"
        )
    classes: Any = task.classes_ if task.tags.classifier else ()
    if len(classes) == 1:
        return f"all examples are of one class ({classes[0]}), which nothing is to be told from; give others too"
    better = "more restarts, better first latents (init, H or coef_init) or a larger C"
    regularizer = getattr(estimator, "regularizer", None)
    if regularizer is None or isinstance(regularizer, L2):
        return f"the first latents told nothing about the outputs; try {better}"
    return (
        f"{type(regularizer).__name__} outweighs the examples, or the first latents told nothing about the "
        f"outputs; try smaller weights of the regulariser, {better}"
    )
