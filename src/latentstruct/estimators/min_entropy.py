"""The estimator that pools latent variables by Rényi entropy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from latentstruct.core.capabilities import reasons
from latentstruct.core.objective import Objective
from latentstruct.core.oracles import RenyiOracle
from latentstruct.core.protocols import Batch, Mode, Prediction, RenyiTask
from latentstruct.core.regularizers import L2
from latentstruct.core.types import Vector
from latentstruct.core.validation import check_parameters, real
from latentstruct.estimators.latent import LatentEstimator
from latentstruct.exceptions import InputError
from latentstruct.tasks.base import BaseTask

SIDES: tuple[Mode, Mode] = ("augmented", "clamped")


@dataclass(eq=False, repr=False, kw_only=True)
class MinEntropySSVM(LatentEstimator):
    """Max-margin min-entropy model (M3E): latents are pooled by Rényi entropy, which favors certain ones.

    ½‖w‖² + C Σ_i (max_y [Δ(y_i, y) + G_α(y)] − G_α(y_i)),
    G_α(y) = [log Σ_h exp α s(y, h) − log Σ_h exp s(y, h)]/(α − 1).
    Predictions are argmax_y G_α(y). α → ∞ is `LatentSSVM`; α = 1 is the limit E[s(y, h)] under P(h | y) ∝ exp s(y, h).

    Parameters
    ----------
    task : Task
        `Graph` with exact inference, `Chain`, `LatentMulticlass`, `Motif`, a `CandidateTask`, or a `PartsTask` with
        `outputs`.
    alpha : float, default=2.0
        Order of the entropy, above 0; for `Graph`, `Chain` and `PartsTask` not 1.
    init, restarts, random_state
        Where training begins; see `LatentSSVM`.
    solver : "auto", name or solver, default="auto"
        "auto" is `LBFGS` with outputs pooled softly at a temperature that is lowered bit by bit. The objective is no
        difference of convex functions, so only it and "subgradient" serve.
    C, tol, max_iter, max_seconds, warm_start, verbose, n_jobs, executor, cache_mb
        See `StructuredEstimator`.

    Notes
    -----
    Miller, Kumar, Packer, Goodman & Koller (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import LatentMulticlass, MinEntropySSVM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 2))  # 60 examples with 5 latent states each
    >>> y = rng.integers(0, 2, 60)
    >>> X[np.arange(60), rng.integers(0, 5, 60)] += 6.0 * (2 * y[:, None] - 1)  # one of them depends on the class
    >>> model = MinEntropySSVM(LatentMulticlass(), C=1.0, alpha=2.0, restarts=3).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    alpha: float = 2.0

    constraints: ClassVar = {"alpha": real(0.0)}
    trains_in_shards = False

    def _order(self) -> float:
        check_parameters(self)
        return float(self.alpha)

    def _objective(self, task: BaseTask, batch: Batch, weights: Vector) -> Objective:
        order = self._order()
        if not task.latent:
            return super()._objective(task, batch, weights)
        if not task.tags.renyi:
            reason = reasons(task.tags).get("MinEntropySSVM", "")
            expected = f"one that supports Rényi entropies ({reason})"
            raise InputError("task", task, expected, "Use LatentSSVM, or define the structure as a CandidateTask.")
        pooled = cast(RenyiTask, task)
        plus, minus = (RenyiOracle(pooled, batch, weights, mode, order=order) for mode in SIDES)
        return Objective(L2(), plus, minus)

    def _scores(self, batch: Batch) -> Any:
        if not self.task_.latent:
            return super()._scores(batch)
        return self.task_.renyi_scores(batch, self.coef_, self._order())

    def _decode_block(self, X: Any) -> Sequence[Prediction]:
        if not self.task_.latent:
            return super()._decode_block(X)
        return list(self.task_.renyi_decode(self._prepared(X), self.coef_, self._order()))
