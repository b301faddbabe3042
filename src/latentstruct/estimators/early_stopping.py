"""Early stopping on validation data."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from latentstruct.core.protocols import Callback, Iteration, Result
from latentstruct.core.types import Vector
from latentstruct.core.validation import Constraint, check_parameters, function, instance, integer, real
from latentstruct.exceptions import InputError
from latentstruct.solvers.base import EARLY_STOPPING, BaseSolver


@dataclass(frozen=True)
class EarlyStopping:
    """Stop training when a score on validation data no longer improves, and keep the best model seen.

    Pass it to ``fit`` as `early_stopping`. The estimator then keeps the weights with the best validation score, also if
    training ended for another reason. Of equal scores, the weights with the lower objective are kept.

    Parameters
    ----------
    score : callable
        Takes a fitted model and returns its validation score; higher is better.
    patience : int, default=5
        Number of evaluations in a row without improvement after which training stops.
    every : int, default=1
        Number of iterations between two evaluations. An iteration that did not change the best weights is not
        evaluated, and does not count for `patience`.
    min_delta : float, default=0.0
        A score counts as an improvement if it exceeds the best so far by more than this.

    Notes
    -----
    The model evaluated after an iteration has the weights with the lowest objective so far. With CCCP these are the
    weights after an outer iteration; `SelfPaced` is evaluated once all examples take part. An evaluation takes about as
    long as predicting the validation data: raise `every` if that is long compared with an iteration. With several
    restarts, `patience` is counted for each start on its own, and the next start follows a stop.

    A checkpoint does not hold the evaluations, so `checkpoint` is not accepted together with early stopping.

    See Also
    --------
    StructuralSVM.fit : Where early stopping is passed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import EarlyStopping, Multiclass, StructuralSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> stop = EarlyStopping(lambda model: model.score(X[::3], y[::3]), patience=3)
    >>> model = StructuralSVM(Multiclass(bias=1.0), tol=1e-6).fit(X[1::3], y[1::3], early_stopping=stop)
    >>> model.score(X[::3], y[::3]) == max(score for _, score in model.validation_scores_)
    True
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "score": function,
        "patience": integer(1),
        "every": integer(1),
        "min_delta": real(0.0, closed="left"),
    }

    score: Callable[[Any], float]
    patience: int = 5
    every: int = 1
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        check_parameters(self)


def check_early_stopping(early_stopping: Any, checkpoint: Any, solver: BaseSolver) -> None:
    """Raise unless a training can be stopped by validation scores."""
    instance("an EarlyStopping object", EarlyStopping).check(early_stopping, "early_stopping")
    if checkpoint is not None:
        raise InputError("checkpoint", checkpoint, "None with `early_stopping`, whose scores are not stored in it")
    if not isinstance(solver, BaseSolver):
        raise InputError("early_stopping", early_stopping, "None for solvers that are not derived from BaseSolver")


@dataclass(frozen=True)
class _Evaluated:
    """Weights with their objective and validation score."""

    w: Vector
    objective: float
    score: float

    def is_better(self, other: "_Evaluated | None") -> bool:
        return other is None or (self.score, -self.objective) > (other.score, -other.objective)


class Validation:
    """The callback that evaluates weights during training by the models with them, and calls that of the user."""

    def __init__(
        self, settings: EarlyStopping, model_at: Callable[[Vector], Any], callback: Callback | None = None
    ) -> None:
        self.settings, self.model_at, self.callback = settings, model_at, callback
        self.scores: list[tuple[int, float]] = []
        self._best: _Evaluated | None = None
        self._last: Vector | None = None
        self._start, self._evaluated_at, self._best_of_start, self._waited = 0, 0, -math.inf, 0

    def __call__(self, line: Iteration) -> bool | str | None:
        """Evaluate the weights of an iteration if they are due; stop the start if patience is exhausted."""
        if line.start != self._start:
            self._start, self._evaluated_at, self._best_of_start, self._waited = line.start, 0, -math.inf, 0
        score = None
        due = line.iteration - self._evaluated_at >= self.settings.every
        if due and line.w is not None and line.w is not self._last:
            score = self._evaluate(line.w, line.objective, line.iteration)
            improved = score > self._best_of_start + self.settings.min_delta
            self._waited = 0 if improved else self._waited + 1
            self._best_of_start = max(self._best_of_start, score)
            self._evaluated_at = line.iteration
        answer = None if self.callback is None else self.callback(replace(line, w=None, validation_score=score))
        exhausted = score is not None and self._waited >= self.settings.patience
        return answer or (EARLY_STOPPING if exhausted else None)

    def chosen(self, result: Result) -> Result:
        """Return the result with the best weights seen; the final ones are evaluated too unless interrupted."""
        known = [one for one in (self._last, None if self._best is None else self._best.w) if one is not None]
        if result.reason != "interrupted" and not any(np.array_equal(result.w, w) for w in known):
            try:
                self._evaluate(result.w, result.objective, result.n_iter)
            except KeyboardInterrupt:
                result = replace(result, reason="interrupted")
        best = self._best
        if best is None or np.array_equal(best.w, result.w):
            return result
        return replace(
            result,
            w=best.w,
            objective=best.objective,
            # With latent variables the bound is that of a convex problem, which may belong to another start.
            lower_bound=min(result.lower_bound, best.objective),
            start_objectives=result.start_objectives or [result.objective],
        )

    def _evaluate(self, w: Vector, objective: float, number: int) -> float:
        value = self.settings.score(self.model_at(w))
        real().check(value, "EarlyStopping.score", "Use validation data for which the score is defined.")
        self._last = w
        self.scores.append((number, float(value)))
        found = _Evaluated(w, objective, float(value))
        if found.is_better(self._best):
            self._best = found
        return float(value)
