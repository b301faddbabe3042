"""What a checkpoint belongs to, so that it is refused in another training."""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.persistence.fingerprint import digest
from latentstruct.solvers.base import BaseSolver
from latentstruct.tasks.base import BaseTask

if TYPE_CHECKING:
    from latentstruct.estimators.base import BaseStructuredEstimator, FitInputs

Identity = dict[str, dict[str, str]]
# Parameters of estimators that do not change the weights which training goes through, or are parameters of the solver.
FREE = ("n_jobs", "executor", "verbose", "warm_start")
OF_THE_SOLVER = ("task", "solver", "tol", "max_iter", "max_seconds", "restarts", "cache_mb")


def training_identity(
    estimator: "BaseStructuredEstimator", solver: BaseSolver, task: BaseTask, given: "FitInputs", sharded: bool
) -> Identity:
    """Return, by subject and name, all that decides which weights a training goes through."""
    names = ("X", "Y", "sample_weight", "H", "coef_init", "latent_features")
    data = {name: getattr(given, name) for name in names} | {"division": "in shards" if sharded else "as a whole"}
    params, limits = estimator.get_params(deep=False), solver.limits
    settings = {name: as_text(value) for name, value in params.items() if name not in FREE + OF_THE_SOLVER}
    settings |= {"C": repr(estimator.C_)} if "C" in settings else {}
    return {
        "data": {name: digest(value) for name, value in data.items() if value is not None},
        "task": {**described(task), "learned state": digest(task.learned_state())},
        "estimator": {"kind": type(estimator).__name__, **settings},
        "solver": {name: text for name, text in described(solver).items() if name not in limits},
    }


def described(part: BaseTask | BaseSolver) -> dict[str, str]:
    """Return the kind and all parameters of a task or solver, those of the parts inside it too."""
    params = part.get_params(deep=True) if hasattr(part, "get_params") else {}
    return {"kind": type(part).__name__, **{name: as_text(value) for name, value in params.items()}}


def as_text(value: Any) -> str:
    """Return a parameter as a short text that differs where it does."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if hasattr(value, "get_params"):
        return type(value).__name__
    return digest(value)
