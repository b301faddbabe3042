"""The estimator that the others are settings of: any temperatures, margin and regularizer of the one objective."""

from dataclasses import dataclass
from typing import Any

from latentstruct.core.objective import Rescaling
from latentstruct.core.protocols import Temperature
from latentstruct.core.regularizers import BaseRegularizer
from latentstruct.core.validation import Constraint, is_ordered, real
from latentstruct.estimators.base import RegularizedEstimator


@dataclass(eq=False, repr=False, kw_only=True)
class StructuredEstimator(RegularizedEstimator):
    """The general estimator: Ω(w) + C Σ_i [f⁺_i(w) − f⁻_i(w)] at any temperatures.

    f⁺_i pools s(y, h) + Δ_i(y, h) over y at ε_y and over h at ε_h; f⁻_i pools s(y_i, h) over h at ε_h.

    Parameters
    ----------
    task : Task
        The structure.
    C : float, "auto" or AutoC, default=1.0
        Weight of each example against the regularizer (there is no 1/n); "auto" chooses it by folds (`AutoC`).
    temperature : tuple (ε_y, ε_h), default=(0, 0)
        Exactly 0 is the hard max.
    margin : bool, default=True
        Whether the loss enters.
    rescaling : {"margin", "slack"}, default="margin"
        How it enters.
    regularizer : BaseRegularizer, optional
        Ω, by default ½‖w‖².
    solver : "auto", name or solver, default="auto"
        "auto" chooses the solver that was fastest in benchmarks; names are block_ascent, bundle, cutting_plane,
        frank_wolfe, subgradient, lbfgs, owlqn and proximal.
    init, restarts, random_state
        Where training with latent variables begins; see `LatentSSVM`.
    tol, max_iter, max_seconds : number, optional
        Override the solver's own.
    warm_start : bool, default=False
        Start from the previous fit.
    verbose : bool, default=False
        Print one line per iteration.
    n_jobs : int, optional
        Number of threads used for inference. None means one per core. Results do not depend on it.
    executor : "dask", "local" or distributed.Client, optional
        Where inference runs: on the workers of a Dask cluster, or in this process but divided as on a cluster. None
        means in this process, undivided. See :doc:`/scale`.
    cache_mb : float, optional
        Megabytes of memory for cached planes. None means the limit of the solver.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import Multiclass, StructuredEstimator
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuredEstimator(Multiclass(bias=1.0), temperature=(0.5, 0)).fit(X, y)  # between an SVM and a CRF
    >>> model.score(X, y) > 0.95
    True
    """

    temperature: tuple[float, float] = (0.0, 0.0)
    margin: bool = True
    rescaling: Rescaling = "margin"
    regularizer: BaseRegularizer | None = None
    init: str = "task"
    restarts: int | None = None
    random_state: int | None = 0

    def _temperature(self) -> Temperature:
        TEMPERATURES.check(self.temperature, "temperature")
        output, latent = self.temperature
        return Temperature(float(output), float(latent))


def _is_temperature(value: Any) -> bool:
    return is_ordered(value) and len(value) == 2 and all(map(real(0.0, closed="left").accepts, value))


TEMPERATURES = Constraint(_is_temperature, "a pair (output, latent) of finite numbers of at least 0")
