"""Estimators for structures with latent variables, which are maximized or summed out."""

from dataclasses import dataclass
from typing import Any, ClassVar

from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Batch, Temperature
from latentstruct.core.ratios import EntityRatio
from latentstruct.core.regularizers import BaseRegularizer
from latentstruct.core.types import Vector
from latentstruct.core.validation import instance
from latentstruct.estimators.base import RegularizedEstimator, SparseEstimator
from latentstruct.tasks.base import BaseTask


@dataclass(eq=False, repr=False, kw_only=True)
class LatentEstimator(RegularizedEstimator):
    """Parameters of estimators with latent variables; see `LatentSSVM`."""

    init: str = "task"
    restarts: int | None = None
    random_state: int | None = 0


@dataclass(eq=False, repr=False, kw_only=True)
class PooledLatentEstimator(LatentEstimator):
    """Base of estimators that pool latents at a temperature, with any regularizer."""

    regularizer: BaseRegularizer | None = None


class LatentSSVM(PooledLatentEstimator):
    """Latent structural SVM: ½‖w‖² + C Σ_i (max_{y,h} [Δ(y_i, y, h) + s_i(y, h)] − max_h s_i(y_i, h)).

    s_i(y, h) = w·φ(x_i, y, h). Trained by CCCP: complete each example with its best latent, solve the convex rest,
    repeat; the objective never rises. Without latent variables this is `StructuralSVM`.

    Parameters
    ----------
    task : Task
        The structure, such as `Motif`, `Coreference`, `PrecisionAtK` or `LatentMulticlass`.
    init : {"task", "random", "marginal"}, default="task"
        Initial latents: by the task's own rule (enriched k-mers for motifs, chronological chains for coreference, a
        weighted classifier for precision at k), which is random where it has none; at random; or completed by weights
        that are trained loosely with outputs and latents summed out, for structures with soft inference. "marginal" is
        better where the task has no rule of its own; see :doc:`/theory`. `fit` takes latents (``H``) or weights
        (``coef_init``) of your own.
    restarts : int, optional
        Number of starts, 1 by default; the best objective is kept, all are in ``restart_objectives_``.
    random_state : int or None, default=0
        Seed of the first latents; None for other ones at each fit.
    solver : "auto", name or solver, default="auto"
        `CCCP` or `SelfPaced`, or what is to solve the convex problems inside CCCP: a solver, or its name (block_ascent,
        bundle, cutting_plane, frank_wolfe, lbfgs). "subgradient" does without CCCP.
    tol, max_iter, max_seconds : number, optional
        Override those of CCCP; tol is the relative decrease at which it stops.
    warm_start : bool, default=False
        Make one start, from the weights of the previous fit (unless ``H`` is given); on the same data keep its planes.
    regularizer : BaseRegularizer, optional
        Ω, by default ½‖w‖². `GroupNorm` chooses latent states; "auto" then trains by `Proximal`.
    C, verbose, n_jobs, executor, cache_mb
        See `StructuredEstimator`.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import LatentMulticlass, LatentSSVM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 2))  # 60 examples with 5 latent states each
    >>> y = rng.integers(0, 2, 60)
    >>> X[np.arange(60), rng.integers(0, 5, 60)] += 6.0 * (2 * y[:, None] - 1)  # one of them depends on the class
    >>> model = LatentSSVM(LatentMulticlass(), C=1.0, restarts=3).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """


class MarginalSSVM(PooledLatentEstimator):
    """Marginal structured SVM: latents are summed out, not maximized, before outputs are compared.

    ½‖w‖² + C Σ_i (max_y [Δ(y_i, y) + log Σ_h exp s_i(y, h)] − log Σ_h exp s_i(y_i, h)), s_i(y, h) = w·φ(x_i, y, h).
    Predictions are marginal MAP: argmax_y log Σ_h exp s(y, h). Better than `LatentSSVM` where latents stay uncertain,
    as missing labels do. Without latent variables both are `StructuralSVM`.

    Parameters
    ----------
    task : Task
        A structure with soft inference, such as `Graph`, `Chain` with unknown labels, `LatentMulticlass` or `Motif`.
    init, restarts, random_state
        Where training begins; see `LatentSSVM`. w = 0, where all latents are alike, is a saddle.
    solver : "auto", name or solver, default="auto"
        "auto" is `LBFGS` on the difference itself, outputs pooled softly at a temperature that is lowered bit by bit,
        and `CCCP` where inference is approximate. `CCCP` solves convex problems in turn, "subgradient" takes plain
        steps (Algorithms 2 and 1 of the paper).
    warm_start : bool, default=False
        Start from the weights of the previous fit; CCCP also keeps its planes on the same data.
    regularizer : BaseRegularizer, optional
        Ω, by default ½‖w‖²; see `LatentSSVM`.
    C, tol, max_iter, max_seconds, verbose, n_jobs, executor, cache_mb
        See `StructuredEstimator`.

    Notes
    -----
    Ping, Liu & Ihler (2014). `marginals` are those of P(y, h | x) ∝ exp s(y, h), the model behind the prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import Chain, MarginalSSVM
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 3, 10) for _ in range(40)]
    >>> X = [np.eye(3)[y] + rng.normal(size=(10, 3)) for y in Y]
    >>> half = [np.where(rng.random(10) < 0.5, -1, y) for y in Y]  # −1: the label is unknown
    >>> model = MarginalSSVM(Chain(), C=0.1).fit(X, half)
    >>> model.score(X, Y) > 0.6
    True
    """

    def _temperature(self) -> Temperature:
        return Temperature(0.0, 1.0)


@dataclass(eq=False, repr=False, kw_only=True)
class HiddenCRF(SparseEstimator, PooledLatentEstimator):
    """Hidden conditional random field: ½‖w‖² − C Σ_i log Σ_h P(y_i, h | x_i), P(y, h | x) ∝ exp w·φ(x, y, h).

    Predictions are marginal MAP: argmax_y Σ_h P(y, h | x). Without latent variables this is `CRF`.

    Parameters
    ----------
    task : Task
        A structure with soft inference, such as `Graph`, `Chain` with unknown labels, `LatentMulticlass` or `Motif`.
    solver : "auto", name or solver, default="auto"
        "auto" is `LBFGS` on the difference itself; `CCCP` and "subgradient" are alternatives.
    l1, seen_only
        See `CRF`.
    entity_ratio : EntityRatio, optional
        Expected share of tokens in entities, for sequences in which only entities are labeled.
    init, restarts, random_state, warm_start, regularizer
        See `MarginalSSVM`.
    C, tol, max_iter, max_seconds, verbose, n_jobs, executor, cache_mb
        See `StructuredEstimator`.

    Notes
    -----
    Quattoni, Wang, Morency, Collins & Darrell (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import Chain, HiddenCRF
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 3, 5).repeat(2) for _ in range(40)]  # labels that come in pairs
    >>> X = [np.eye(3)[y] + rng.normal(size=(10, 3)) for y in Y]
    >>> half = [np.where(rng.random(10) < 0.5, -1, y) for y in Y]  # −1: the label is unknown
    >>> model = HiddenCRF(Chain(), C=0.1).fit(X, half)
    >>> model.score(X, Y) > 0.6
    True
    """

    entity_ratio: EntityRatio | None = None
    margin = False
    constraints: ClassVar = {"entity_ratio": instance("an EntityRatio object", EntityRatio) | None}

    def _temperature(self) -> Temperature:
        return Temperature(1.0, 1.0)

    def _objective(self, task: BaseTask, batch: Batch, weights: Vector) -> Objective:
        objective = super()._objective(task, batch, weights)
        return objective if self.entity_ratio is None else self.entity_ratio.added_to(objective)

    def _warn_about_labels(self, Y: Any) -> None:
        if self.entity_ratio is None:
            super()._warn_about_labels(Y)
