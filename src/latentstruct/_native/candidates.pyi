import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

def pool_candidates(
    scores: Vector,
    groups: Indices,
    examples: Indices,
    output_temperature: float,
    latent_temperature: float,
    values: Vector,
    shares: Vector,
    /,
) -> None:
    """values[i] = smax_{ε_y} over y of smax_{ε_h} over h; shares = the candidates' probabilities."""

def pool_renyi(
    scores: Vector,
    losses: Vector,
    groups: Indices,
    examples: Indices,
    output_temperature: float,
    order: float,
    values: Vector,
    shares: Vector,
    /,
) -> None:
    """Pool latents by Rényi entropy of order α: values[i] = smax_{ε_y} over y of losses (one per group) + G_α(y)."""

def best_candidates(
    scores: NDArray[np.float64],
    labels: Indices,
    extra: NDArray[np.float64],
    truth: Indices,
    winners: Indices,
    values: Vector,
    /,
) -> None:
    """values[i] = max_c scores[c, i] + extra[truth[i], labels[c]]; winners[i] is the first c that reaches it."""

def best_classes(
    scores: NDArray[np.float64],
    extra: NDArray[np.float64],
    lines: Indices,
    best: Indices,
    values: Vector,
    losses: Vector,
    /,
) -> None:
    """values[i] = max_y scores[i, y] + extra[lines[i], y]; best[i] is the first y that reaches it.

    losses[i] is its added value. NaN counts as the highest value.
    """
