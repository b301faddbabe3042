"""The estimator that is trained online and has no regularizer."""

import math
from dataclasses import dataclass, field

from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Result
from latentstruct.core.regularizers import NoRegularizer
from latentstruct.estimators.base import BaseStructuredEstimator
from latentstruct.solvers import Perceptron
from latentstruct.solvers.base import BaseSolver
from latentstruct.tasks.base import BaseTask


@dataclass(eq=False, repr=False, kw_only=True)
class StructuredPerceptron(BaseStructuredEstimator):
    """Averaged structured perceptron: online, no margin, no regularizer; its only bound is 0.

    That bound is reached where all training examples are predicted rightly, and says nothing elsewhere.

    Parameters
    ----------
    task : Task
        The structure.
    max_iter : int, default=20
        Passes over the data.
    average : bool, default=True
        Average the weights over all steps.
    max_seconds : float, optional
        Limit.
    random_state : int, default=0
        Seed of the order of examples.
    warm_start : bool, default=False
        Start from the previous fit's weights.
    verbose : bool, default=False
        Print one line per pass.
    n_jobs : int, optional
        Number of threads used for prediction. None means one per core. Training is online and uses one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import Multiclass, StructuredPerceptron
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuredPerceptron(Multiclass(bias=1.0)).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    C = 1.0
    margin = False
    regularizer = NoRegularizer()
    solver = None
    tol = None

    task: BaseTask = field(kw_only=False)
    max_iter: int | None = 20
    average: bool = True
    max_seconds: float | None = None
    random_state: int = 0
    warm_start: bool = False
    verbose: bool = False
    n_jobs: int | None = None

    def _online_solver(self) -> Perceptron:
        return Perceptron(average=self.average, random_state=self.random_state)

    def _solver(self, objective: Objective) -> BaseSolver:
        seconds = math.inf if self.max_seconds is None else self.max_seconds
        iterations = 20 if self.max_iter is None else self.max_iter
        return Perceptron(iterations, seconds, self.average, random_state=self.random_state)

    def _warn(self, result: Result, solver: BaseSolver) -> None:
        # Ending at max_iter is the ordinary way for a perceptron.
        if result.reason != "max_iter":
            super()._warn(result, solver)
