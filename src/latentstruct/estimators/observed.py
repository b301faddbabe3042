"""Estimators for structures without latent variables."""

from dataclasses import dataclass

from latentstruct.core.objective import Objective, Rescaling
from latentstruct.core.protocols import Batch, Temperature
from latentstruct.core.types import Vector
from latentstruct.estimators.base import BaseStructuredEstimator, RegularizedEstimator, SparseEstimator
from latentstruct.estimators.folds import AutoC
from latentstruct.exceptions import InputError
from latentstruct.tasks.base import BaseTask


def _refuse_latents(estimator: BaseStructuredEstimator, task: BaseTask, cure: str) -> None:
    if task.latent:
        raise InputError("task", task, f"one without latent variables for {type(estimator).__name__}", f"Use {cure}.")


@dataclass(eq=False, repr=False, kw_only=True)
class StructuralSVM(RegularizedEstimator):
    """Structural SVM: ½‖w‖² + C Σ_i max_y [Δ(y_i, y) + w·φ(x_i, y) − w·φ(x_i, y_i)].

    Parameters
    ----------
    task : Task
        The structure.
    C : float, "auto" or AutoC, default=0.1
        Weight of each example (there is no 1/n); "auto" chooses it by folds (`AutoC`). The default was the best
        of 0.01, 0.1, 1 and 10 on text and on handwriting, and training is about four times as fast as with 1; see
        :doc:`/speed`.
    rescaling : {"margin", "slack"}, default="margin"
        Slack rescaling is C Σ_i max_y Δ(y_i, y)·[1 + w·φ(x_i, y) − w·φ(x_i, y_i)].
    solver, tol, max_iter, max_seconds
        See `StructuredEstimator`; tol is the relative duality gap to certify.
    warm_start : bool, default=False
        Start from the previous fit; on the same data its planes are kept, so that a path over C is cheap.
    verbose, n_jobs, executor, cache_mb
        See `StructuredEstimator`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import Multiclass, StructuralSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuralSVM(Multiclass(bias=1.0), C=1.0).fit(X, y)
    >>> bool(model.relative_gap_ < 1e-3)
    True
    """

    C: float | str | AutoC = 0.1
    rescaling: Rescaling = "margin"

    def _objective(self, task: BaseTask, batch: Batch, weights: Vector) -> Objective:
        _refuse_latents(self, task, "LatentSSVM or MarginalSSVM")
        return super()._objective(task, batch, weights)


class CRF(SparseEstimator):
    """Conditional random field: ½‖w‖² − C Σ_i log P(y_i | x_i), P(y | x) ∝ exp w·φ(x, y).

    Parameters
    ----------
    task : Task
        A structure with soft inference, such as `Chain` or `Multiclass`.
    l1 : float, default=0.0
        Weight of ‖w‖₁ beside ½‖w‖² (`ElasticNet`); above 0, many weights are exactly zero.
    seen_only : bool, default=False
        Whether only pairs of a feature and a label that occur together in the training data have weights. Features that
        occur with more than a fifth of the labels keep weights for all labels. Only for `Chain`. Training is then
        faster and takes less memory (``python -m benchmarks sparse_chunking``).
    solver, tol, max_iter, max_seconds
        See `StructuredEstimator`; "auto" is L-BFGS, and tol the relative gap to certify.
    C, warm_start, verbose, n_jobs, executor, cache_mb
        See `StructuredEstimator`.

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

    margin = False

    def _temperature(self) -> Temperature:
        return Temperature(1.0, 0.0)

    def _objective(self, task: BaseTask, batch: Batch, weights: Vector) -> Objective:
        _refuse_latents(self, task, "HiddenCRF")
        return super()._objective(task, batch, weights)
