"""Estimators for losses that compare latents too, where the true latents are not known."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.parameters import check_is_fitted
from latentstruct.core.protocols import Batch, Callback, LatentLossTask, LatentSites, Problem, Result
from latentstruct.core.types import Vector
from latentstruct.core.validation import check_shape, real
from latentstruct.estimators.base import Compose, FitInputs
from latentstruct.estimators.latent import LatentEstimator
from latentstruct.estimators.predicting import require_outputs
from latentstruct.estimators.stored import refuse_stored
from latentstruct.exceptions import Description, InputError
from latentstruct.solvers.alternation import Alternation, Dissimilarity, Imputation, Kept
from latentstruct.solvers.base import BaseSolver
from latentstruct.solvers.dissimilarity import DissimilarityObjective, LatentModel
from latentstruct.tasks.base import BaseTask
from latentstruct.tasks.inputs import check_matrix


def _require_latent_loss(estimator: LatentEstimator, task: BaseTask) -> None:
    """Raise unless the task has latents and can compare them."""
    name = type(estimator).__name__
    if not task.latent:
        raise InputError("task", task, f"one with latent variables for {name}", "Use StructuralSVM.")
    if not task.tags.latent_loss:
        hint = "Use LatentSSVM, LatentMulticlass with `latent_loss`, or a CandidateTask with pair_loss."
        raise InputError("task", task, f"one whose loss compares latents for {name}", hint)


def _example_sizes(sites: LatentSites, n_examples: int) -> Any:
    """Return how many states the sites of each example have together."""
    return np.bincount(sites.examples, np.diff(sites.offsets), minlength=n_examples).astype(np.int64)


@dataclass(eq=False, repr=False, kw_only=True)
class _Uncertain(LatentEstimator):
    """What both estimators share: their solver's parameters."""

    solver: BaseSolver | None = None
    tol: float | None = 1e-3
    trains_in_shards = online = False

    def _limits(self, solver: Alternation) -> BaseSolver:
        limits = {name: getattr(self, name) for name in ("tol", "max_iter", "max_seconds", "restarts", "cache_mb")}
        return solver.set_params(**{name: value for name, value in limits.items() if value is not None})


@dataclass(eq=False, repr=False, kw_only=True)
class ModLat(_Uncertain):
    """Learning with modeled latent uncertainty: one model predicts (y, h), another says what h may have been.

    ½‖w‖² + (J/2)‖θ‖² + C Σ_i [ξ_i(w, θ) − β H_i(θ)], where P_θ(h | x_i, y_i) ∝ exp θ·Φ(x_i, y_i, h),
    ξ_i = max_{y,h} [s(y, h) + Δ_i(y, h; θ)] − max_h s(y_i, h) with the expected loss Δ_i(y, h; θ) =
    Σ_{h'} P_θ(h') Δ(y_i, h', y, h), and H_i = Σ_{h,h'} P_θ(h) P_θ(h') Δ(y_i, h, y_i, h') is the diversity of P_θ.
    Predictions are the joint argmax of s(y, h) = w·φ(x, y, h). Where the loss ignores h this is `LatentSSVM`.

    Parameters
    ----------
    task : Task
        A structure whose loss compares latents: `LatentMulticlass` with `latent_loss`, `Detection`, `Graph`, or a
        `CandidateTask` with `pair_loss`.
    J : float, default=0.1
        Weight of ‖θ‖².
    beta : float, default=0.1
        β, between 0 and 1: how much diversity is worth.
    latent_solver : {"lbfgs", "subgradient"}, default="lbfgs"
        Solver for θ; see `Dissimilarity`.
    init, restarts, random_state
        Where training begins; see `LatentSSVM`. From there weights are found by the loss of the outputs alone, and θ
        begins in their direction; see `Dissimilarity`.
    solver : CCCP or SelfPaced, optional
        Solver for w, by default `CCCP`.
    tol : float, default=1e-3
        Training stops when one iteration lowers the objective by less than tol·C·(sum of the sample weights).
    max_iter, max_seconds : number, optional
        Limits: iterations of each start (100 by default), seconds of all together.
    warm_start : bool, default=False
        Make one start, from w and θ of the previous fit (w not if ``H`` is given).
    C, verbose, n_jobs, executor, cache_mb
        See `StructuredEstimator`.

    Attributes
    ----------
    theta_ : ndarray of shape (k,)
        θ; k = d unless features Φ of your own are given. The other attributes are those of all estimators.

    Notes
    -----
    Kumar, Packer & Koller (2012), whose C/n is the C here.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import LatentMulticlass, ModLat
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 2))  # 60 examples with 5 latent states each
    >>> y, h = rng.integers(0, 2, 60), rng.integers(0, 5, 60)
    >>> X[np.arange(60), h] += 6.0 * (2 * y[:, None] - 1)  # one of them depends on the class
    >>> model = ModLat(LatentMulticlass(latent_loss="zero_one"), C=1.0, restarts=3).fit(X, y)
    >>> bool(np.mean(model.predict_latent(X) == h) > 0.9)
    True
    >>> float(model.latent_distribution(X[:1], y[:1])[0].sum().round(6))
    1.0
    """

    J: float = 0.1
    beta: float = 0.1
    latent_solver: str = "lbfgs"
    constraints: ClassVar = {
        "J": real(0.0),
        "beta": real(0.0, 1.0),
        "latent_solver": Dissimilarity.constraints["latent_solver"],
    }

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        callback: Callback | None = None,
        H: Any = None,
        coef_init: Any = None,
        latent_features: Any = None,
        checkpoint: Any = None,
        groups: Any = None,
    ) -> Self:
        """Train on examples X with outputs y.

        Parameters
        ----------
        X, y, sample_weight, callback, H, coef_init, checkpoint, groups
            As in the other estimators; `coef_init` is w.
        latent_features : sequence of n matrices (H_i, k), optional
            Φ(x_i, y_i, h) of each latent of the known output, in the task's order; by default φ(x_i, y_i, h).

        Returns
        -------
        self
            Also after Ctrl-C, with the best weights so far.
        """
        given = FitInputs(X, y, sample_weight, callback, H, coef_init, checkpoint, None, latent_features, groups)
        return self._fit(self._read(given))

    def _composer(self, given: FitInputs) -> Compose:
        return partial(self._dissimilarity, given)

    def _dissimilarity(self, given: FitInputs, task: BaseTask, batch: Batch, weights: Vector) -> DissimilarityObjective:
        _require_latent_loss(self, task)
        X, Y, features = given.X, given.Y, given.latent_features
        model = self._model(task, batch, features)

        def split() -> list[LatentModel]:
            one = [slice(i, i + 1) for i in range(batch.n_examples)]
            return [self._model(task, task.prepare(X[i], Y[i]), None if features is None else features[i]) for i in one]

        return DissimilarityObjective(model, weights, float(self.J), float(self.beta), split=split)

    @staticmethod
    def _model(task: BaseTask, batch: Batch, latent_features: Any) -> LatentModel:
        """Return P_θ with the given features Φ, checked."""
        model = LatentModel(cast(LatentLossTask, task), batch)
        if latent_features is None:
            return model
        sizes = _example_sizes(model.sites, batch.n_examples)
        if not hasattr(latent_features, "__len__") or len(latent_features) != batch.n_examples:
            got = Description(f"{len(latent_features)}") if hasattr(latent_features, "__len__") else latent_features
            raise InputError("latent_features", got, f"a list of {batch.n_examples} matrices (one per example)")
        matrices = [check_matrix(matrix, f"latent_features[{i}]") for i, matrix in enumerate(latent_features)]
        for i, (matrix, size) in enumerate(zip(matrices, sizes, strict=True)):
            meaning = "one row per latent of the known output, and the same columns for all examples"
            check_shape(matrix, (int(size), matrices[0].shape[1]), f"latent_features[{i}]", meaning)
        any_sparse = any(issparse(matrix) for matrix in matrices)
        model.features = sparse.vstack(matrices, format="csr") if any_sparse else np.concatenate(matrices)
        return model

    def _solver(self, objective: Problem) -> BaseSolver:
        return self._limits(Dissimilarity(self.solver, self.latent_solver, random_state=self.random_state))

    def _warm_weights(self, task: BaseTask, fingerprint: str) -> tuple[Vector | None, Any]:
        w0, state = super()._warm_weights(task, fingerprint)
        # θ serves other data too, unlike the planes.
        return w0, Kept(self.theta_, None) if w0 is not None and state is None else state

    def _store_result(self, result: Result) -> None:
        super()._store_result(result)
        self.theta_: Vector = result.theta  # type: ignore[attr-defined]

    def _saved_parts(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what a model file needs in addition to weights: θ, and whether it is that of other features Φ."""
        return {"theta": self.theta_}, {"own_latent_features": len(self.theta_) != len(self.coef_)}

    def _restore_parts(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Restore what `_saved_parts` returned; raise InputError unless it fits the weights."""
        theta = np.asarray(arrays["theta"])
        fits = theta.ndim == 1 and (values["own_latent_features"] is True or len(theta) == len(self.coef_))
        if not fits or theta.dtype != np.float64 or not np.isfinite(theta).all():
            got = Description(f"{theta.dtype} of shape {theta.shape}")
            raise InputError("theta", got, f"{len(self.coef_)} finite weights, unless Φ are features of your own")
        self.theta_ = theta

    def latent_distribution(self, X: Any, y: Any, latent_features: Any = None) -> list[Vector]:
        """Return P_θ(h | x_i, y_i) of each example, shape (H_i,).

        Where an example has several latents that are independent given y_i, their distributions follow each other.

        Parameters
        ----------
        X, y : collections of length n
            As the task describes them.
        latent_features : sequence of n matrices (H_i, k), optional
            Φ, if the model was trained with features of your own.
        """
        check_is_fitted(self, "theta_")
        refuse_stored(self, X)
        require_outputs(y)
        batch = self._prepared(X, y)
        model = self._model(self.task_, batch, latent_features)
        if model.n_weights != len(self.theta_):
            got, expected = f"{model.n_weights} features", f"those of training, with {len(self.theta_)} features"
            raise InputError("latent_features", Description(got), expected)
        ends = np.cumsum(_example_sizes(model.sites, batch.n_examples))
        return np.split(model.distribution(self.theta_), ends[:-1])


@dataclass(eq=False, repr=False, kw_only=True)
class IterativeLSVM(_Uncertain):
    """Iterative latent SVM: impute the latents, then train with a loss against these, and so on.

    With h_i = argmax_h s(y_i, h) of the previous iteration, an iteration minimizes
    ½‖w‖² + C Σ_i (max_{y,h} [s(y, h) + Δ(y_i, h_i, y, h)] − max_h s(y_i, h)). It is `ModLat` with distributions that
    have one latent for certain. Imputing may raise the objective, so the best iteration is kept.

    Parameters
    ----------
    task : Task
        A structure whose loss compares latents; see `ModLat`.
    inner : {"cccp", "convex"}, default="cccp"
        With "convex" the right output has the imputed latent, s(y_i, h_i) instead of max_h s(y_i, h), so that each
        iteration is one convex problem: what Kumar, Packer & Koller (2012) compare with as LSVM.
    init, restarts, random_state
        Where training begins; see `LatentSSVM`. From there weights are found by the loss of the outputs alone, and the
        latents imputed by them.
    solver : solver, optional
        `CCCP` (the default) or `SelfPaced`; for inner "convex" a convex solver, by default the fastest that fits.
    tol : float, default=1e-3
        Training stops when the latents stay as they are, or when an iteration is not below the best one before it by
        tol·C·(sum of the sample weights).
    C, max_iter, max_seconds, warm_start, verbose, n_jobs, executor, cache_mb
        See `ModLat`.

    Notes
    -----
    Kumar, Turki, Preston & Koller (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import IterativeLSVM, LatentMulticlass
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 2))  # 60 examples with 5 latent states each
    >>> y, h = rng.integers(0, 2, 60), rng.integers(0, 5, 60)
    >>> X[np.arange(60), h] += 6.0 * (2 * y[:, None] - 1)  # one of them depends on the class
    >>> model = IterativeLSVM(LatentMulticlass(latent_loss="zero_one"), C=1.0, restarts=3).fit(X, y)
    >>> bool(np.mean(model.predict_latent(X) == h) > 0.9)
    True
    """

    inner: str = "cccp"

    def _objective(self, task: BaseTask, batch: Batch, weights: Vector) -> Any:
        _require_latent_loss(self, task)
        return DissimilarityObjective(LatentModel(cast(LatentLossTask, task), batch), weights)

    def _solver(self, objective: Problem) -> BaseSolver:
        return self._limits(Imputation(self.solver, self.inner))
