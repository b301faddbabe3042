"""What training reached, told to people who have not heard of objectives, bounds or CCCP."""

import math
from typing import Any

from latentstruct.progress.display import show_number

MODELS = {
    "StructuralSVM": "a structural SVM: true outputs are to score higher than all others, by a margin that grows with "
    "how wrong the other is",
    "LatentSSVM": "a latent structural SVM: true outputs are to score higher than others by a margin, with the best "
    "explanation of what was not told",
    "MarginalSSVM": "a marginal structured SVM: true outputs are to score higher than others by a margin, summed over "
    "what was not told",
    "MinEntropySSVM": "a max-margin min-entropy model: true outputs are to score higher than others by a margin, with "
    "explanations it is certain of",
    "CRF": "a conditional random field: true outputs are to be probable",
    "HiddenCRF": "a hidden conditional random field: true outputs are to be probable, summed over what was not told",
    "StructuredPerceptron": "an averaged perceptron: weights are corrected after each mistake, and averaged",
    "KernelStructuralSVM": "a structural SVM with a kernel: similar inputs are to have similar outputs",
    "ModLat": "a model with one distribution for predictions and another for what was not told",
    "IterativeLSVM": "a latent SVM that is trained again and again on its own explanations",
}
STOPS = {
    "converged": "because it was precise enough",
    "max_rounds": "early, at the limit of rounds",
    "max_seconds": "early, at the limit of seconds",
    "stalled": "because no step lowered the objective any more, by rounding or because inference is not exact",
    "interrupted": "early, as it was interrupted",
    "callback": "early, as it was told to stop",
    "early_stopping": "early, as the score on validation data no longer improved",
}


def model_in_words(estimator: Any) -> str:
    """Return what an estimator is, in a few words."""
    name = type(estimator).__name__
    return f"{name}, {MODELS[name]}" if name in MODELS else name


def training_in_words(estimator: Any) -> list[str]:
    """Return sentences on what training reached and how far that can be trusted."""
    if is_perceptron(estimator):
        return [
            "A perceptron goes through the examples and corrects its weights after each mistake. The objective is by "
            "how much other outputs score higher than the true ones, in sum; at 0 all training examples are right. "
            f"It reached {show_number(estimator.objective_)}.",
            _stop(estimator),
        ]
    goal = (
        "Training looks for the weights that make one number, the objective, as small as possible: what the model gets "
        "wrong on the training data, plus how large its weights are."
    )
    return [goal, *_trust(estimator), _stop(estimator)]


def is_perceptron(estimator: Any) -> bool:
    """Tell whether an estimator has no bound but the trivial one, 0."""
    return type(estimator).__name__ == "StructuredPerceptron"


def why_not_certified(estimator: Any) -> str:
    """Return why a bound is no proof."""
    if estimator.task_.latent:
        return "a part of the examples is hidden"
    if getattr(estimator, "sampled_", False):
        return "only a sample of the examples was looked at in each step"
    if getattr(estimator, "max_basis", None) is not None:
        return "max_basis may have cut the kernel short"
    return "the best outputs were searched for by a method that may miss them"


def _trust(estimator: Any) -> list[str]:
    latent = estimator.task_.latent
    found = show_number(estimator.objective_)
    if latent:
        return _trust_latent(estimator, found)
    if not math.isfinite(estimator.lower_bound_):
        return [
            f"It reached {found}. This solver gives no lower bound, so how far that is from the best is not proved."
        ]
    bound = show_number(estimator.lower_bound_)
    if not estimator.certified_:
        return [
            f"It reached {found}, and estimates that no weights reach less than {bound}. That is an estimate and no "
            f"proof, as {why_not_certified(estimator)}."
        ]
    return [
        f"It reached {found}, and it is proved that no weights whatsoever reach less than {bound}: what was found is "
        f"within {_share(estimator.relative_gap_)} of the best there is. That proof is the certificate."
    ]


def _trust_latent(estimator: Any, found: str) -> list[str]:
    """Return what can be said where a part of the examples is hidden and there is more than one valley."""
    sentences = [
        f"It reached {found}. As a part of each example is hidden, the objective has many valleys, and training "
        "cannot prove that it found the deepest."
    ]
    if math.isfinite(estimator.lower_bound_):
        sentences.append(
            "Training therefore goes in rounds: guess the hidden part with the present weights, then solve the problem "
            "that is left, which has one valley only (this is called CCCP). Where inference is exact, no round "
            "makes the objective worse. The "
            f"last of these problems was solved to within {_share(estimator.relative_gap_)} of its best, which is "
            "what the gap tells."
        )
    n_starts = len(estimator.restart_objectives_)
    if n_starts > 1:
        sentences.append(f"It began {n_starts} times in different places, and the lowest objective was kept.")
    return sentences


def _share(relative: float) -> str:
    return f"{show_number(100 * max(relative, 0.0), 2)} %"


def _stop(estimator: Any) -> str:
    n_rounds = estimator.n_rounds_
    reason = STOPS.get(estimator.stop_reason_, f"({estimator.stop_reason_})")
    if len(estimator.restart_objectives_) > 1:
        return f"Training stopped {reason}."
    return f"Training stopped after {n_rounds} round{'' if n_rounds == 1 else 's'} {reason}."
