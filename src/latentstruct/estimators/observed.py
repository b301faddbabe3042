"""Estimators for structures without latent variables, of which all is known in training."""

from typing import Any

from latentstruct.checks import check_choice
from latentstruct.core.objective import Objective, Rescaling, build_objective
from latentstruct.core.protocols import Temperature
from latentstruct.estimators.base import BaseStructuredEstimator
from latentstruct.exceptions import InputError
from latentstruct.ragged import Vector


def _refuse_latents(estimator: Any, task: Any, cure: str) -> None:
    if task.latent:
        raise InputError(
            f"{type(task).__name__} has latent variables, for which {type(estimator).__name__} is not defined: "
            f"use {cure}"
        )


class StructuralSVM(BaseStructuredEstimator):
    """Structural SVM: ½‖w‖² + C Σ_i max_y [Δ(y_i, y) + w·φ(x_i, y) − w·φ(x_i, y_i)].

    Parameters
    ----------
    task : Task
        The structure.
    C : float, default=0.1
        Weight of each example (there is no 1/n). The default was the best of 0.01, 0.1, 1 and 10 on text and on
        handwriting, and training is about four times as fast as with 1; see :doc:`/speed`.
    rescaling : {"margin", "slack"}, default="margin"
        Slack rescaling is C Σ_i max_y Δ(y_i, y)·[1 + w·φ(x_i, y) − w·φ(x_i, y_i)].
    solver : "auto", name or solver, default="auto"
        See `StructuredEstimator`.
    tol, max_rounds, max_seconds : number, optional
        Override the solver's own; tol is the relative duality gap to certify.
    warm_start : bool, default=False
        Start from the previous fit; on the same data its planes are kept, so that a path over C is cheap.
    verbose : bool, default=False
        Print a line for each round.
    n_jobs : int, optional
        Threads that ask the oracle and decode, by default one for each core; results do not depend on their number.
    executor : "dask", "local" or distributed.Client, optional
        Where examples are put to the oracle: on the workers of a Dask cluster, or here but divided as on a cluster; by
        default here, all together. See :doc:`/scale`.
    cache_mb : float, optional
        Megabytes that a solver may keep planes in; by default its own limit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import Multiclass, StructuralSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuralSVM(Multiclass(bias=1.0), C=1.0).fit(X, y)
    >>> bool(model.relative_gap_ < 1e-3)
    True
    """

    def __init__(
        self,
        task: Any,
        C: float = 0.1,
        rescaling: Rescaling = "margin",
        solver: Any = "auto",
        tol: float | None = None,
        max_rounds: int | None = None,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: bool = False,
        n_jobs: int | None = None,
        executor: Any = None,
        cache_mb: float | None = None,
    ) -> None:
        self.task = task
        self.C = C
        self.rescaling = rescaling
        self.solver = solver
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.executor = executor
        self.cache_mb = cache_mb

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        check_choice(self.rescaling, ("margin", "slack"), "rescaling")
        _refuse_latents(self, task, "LatentSSVM or MarginalSSVM")
        return build_objective(task, batch, weights, Temperature(), rescaling=self.rescaling)


class CRF(BaseStructuredEstimator):
    """Conditional random field: ½‖w‖² − C Σ_i log P(y_i | x_i), P(y | x) ∝ exp w·φ(x, y).

    Parameters
    ----------
    task : Task
        A structure with soft inference, such as `Chain` or `Multiclass`.
    C : float, default=1.0
        Weight of each example (there is no 1/n).
    solver : "auto", name or solver, default="auto"
        See `StructuredEstimator`; "auto" is L-BFGS.
    tol, max_rounds, max_seconds : number, optional
        Override the solver's own; tol is the relative gap to certify.
    warm_start : bool, default=False
        Start from the previous fit.
    verbose : bool, default=False
        Print a line for each round.
    n_jobs : int, optional
        Threads that ask the oracle and decode, by default one for each core; results do not depend on their number.
    executor : "dask", "local" or distributed.Client, optional
        Where examples are put to the oracle: on the workers of a Dask cluster, or here but divided as on a cluster; by
        default here, all together. See :doc:`/scale`.
    cache_mb : float, optional
        Megabytes that a solver may keep planes in; by default its own limit.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import CRF, Chain
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 3, 5).repeat(2) for _ in range(40)]  # labels that come in pairs
    >>> X = [np.eye(3)[y] + rng.normal(size=(10, 3)) for y in Y]
    >>> model = CRF(Chain(), C=1.0).fit(X, Y)
    >>> model.marginals(X[:1])[0].shape  # the probability of each label of each token
    (10, 3)
    >>> model.certified_
    True
    """

    def __init__(
        self,
        task: Any,
        C: float = 1.0,
        solver: Any = "auto",
        tol: float | None = None,
        max_rounds: int | None = None,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: bool = False,
        n_jobs: int | None = None,
        executor: Any = None,
        cache_mb: float | None = None,
    ) -> None:
        self.task = task
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.executor = executor
        self.cache_mb = cache_mb

    def _temperature(self) -> Temperature:
        return Temperature(1.0, 0.0)

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        _refuse_latents(self, task, "HiddenCRF")
        return build_objective(task, batch, weights, self._temperature(), margin=False)
