"""Short explanations of models and of the result of training."""

import math
from typing import Any

from latentstruct.progress.display import show_number

MODELS = {
    "StructuralSVM": "a structural SVM: true outputs score higher than all others by a margin that grows with the loss",
    "LatentSSVM": "a latent structural SVM: true outputs with their best latent values score higher than all others by "
    "a margin",
    "MarginalSSVM": "a marginal structured SVM: true outputs, summed over latent values, score higher than all others "
    "by a margin",
    "MinEntropySSVM": "a max-margin min-entropy model: a latent SVM that prefers latent values of low entropy",
    "CRF": "a conditional random field: true outputs have high probability",
    "HiddenCRF": "a hidden conditional random field: true outputs, summed over latent values, have high probability",
    "StructuredPerceptron": "an averaged perceptron: weights are corrected after each error, and averaged",
    "KernelStructuralSVM": "a structural SVM with a kernel",
    "ModLat": "a model with separate distributions for predictions and for latent values",
    "IterativeLSVM": "a latent SVM that alternates between inferring latent values and training",
}
STOPS = {
    "converged": "because the tolerance was reached",
    "max_iter": "at the maximum number of iterations",
    "max_seconds": "at the time limit",
    "stalled": "because no step decreased the objective, due to rounding or inexact inference",
    "interrupted": "because it was interrupted",
    "callback": "because a callback returned True",
    "early_stopping": "because the validation score no longer improved",
}


def model_in_words(estimator: Any) -> str:
    """Return a short description of an estimator."""
    name = type(estimator).__name__
    return f"{name}, {MODELS[name]}" if name in MODELS else name


def training_in_words(estimator: Any) -> list[str]:
    """Return sentences on the result of training and its optimality."""
    if is_perceptron(estimator):
        return [
            "A perceptron corrects its weights after each error. The objective is the sum of the amounts by which "
            "other outputs score higher than the true ones; at 0 all training examples are predicted correctly. "
            f"The final objective is {show_number(estimator.objective_)}.",
            _stop(estimator),
        ]
    goal = (
        "Training minimizes the objective: the loss on the training data plus a regularizer that keeps the weights "
        "small."
    )
    return [goal, *_trust(estimator), _stop(estimator)]


def is_perceptron(estimator: Any) -> bool:
    """Return whether an estimator has no bound but the trivial one, 0."""
    return type(estimator).__name__ == "StructuredPerceptron"


def why_not_certified(estimator: Any) -> str:
    """Return why a bound is not certified."""
    if estimator.task_.latent:
        return "the objective with latent variables is not convex"
    if getattr(estimator, "sampled_", False):
        return "each step uses only a sample of the examples"
    if getattr(estimator, "max_basis", None) is not None:
        return "max_basis may have truncated the kernel"
    return "inference is approximate"


def _trust(estimator: Any) -> list[str]:
    latent = estimator.task_.latent
    found = show_number(estimator.objective_)
    if latent:
        return _trust_latent(estimator, found)
    if not math.isfinite(estimator.lower_bound_):
        return [f"The final objective is {found}. This solver has no lower bound, so optimality is not certified."]
    bound = show_number(estimator.lower_bound_)
    if not estimator.certified_:
        return [
            f"The final objective is {found}, and the estimated minimum is at least {bound}. This bound is not "
            f"certified, because {why_not_certified(estimator)}."
        ]
    return [
        f"The final objective is {found}, and the minimum is certified to be at least {bound}: the weights are within "
        f"{_percent(estimator.relative_gap_)} of the optimum."
    ]


def _trust_latent(estimator: Any, found: str) -> list[str]:
    """Return sentences on a nonconvex objective with latent variables."""
    sentences = [
        f"The final objective is {found}. With latent variables the objective is not convex, so it may be a local "
        "minimum."
    ]
    if math.isfinite(estimator.lower_bound_):
        sentences.append(
            "Each iteration infers the latent values with the current weights and solves the convex problem that "
            "remains (CCCP); with exact inference the objective never increases. The last convex problem was solved "
            f"to within {_percent(estimator.relative_gap_)} of its optimum (the gap)."
        )
    n_starts = len(estimator.restart_objectives_)
    if n_starts > 1:
        sentences.append(f"The best of {n_starts} starts was kept.")
    return sentences


def _percent(relative: float) -> str:
    return f"{show_number(100 * max(relative, 0.0), 2)} %"


def _stop(estimator: Any) -> str:
    n_iter = estimator.n_iter_
    reason = STOPS.get(estimator.stop_reason_, f"({estimator.stop_reason_})")
    if len(estimator.restart_objectives_) > 1:
        return f"Training stopped {reason}."
    return f"Training stopped after {n_iter} iteration{'' if n_iter == 1 else 's'} {reason}."
