import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]

def covariances(
    scores: Vector,
    offsets: Indices,
    transitions: Vector,
    temperature: float,
    limit: float,
    weights: Vector,
    unary: Vector,
    steps: Vector,
    out: Vector,
    out_steps: Vector,
    /,
) -> None:
    """Add weights·(second derivatives of ε log Z)·(unary, steps) to `out` (N, S) and, summed, to `out_steps` (S, S)."""

def sample_labelings(
    scores: Vector,
    offsets: Indices,
    transitions: Vector,
    temperature: float,
    limit: float,
    uniform: Vector,
    labels: Indices,
    /,
) -> None:
    """Draw labelings (draws, N) from numbers `uniform` (draws, N) in [0, 1)."""

def best_labelings(scores: Vector, offsets: Indices, transitions: Vector, labels: Indices, values: Vector, /) -> None:
    """Write the k best labelings (k, N) of each sequence and their scores (k, K), −inf where there are fewer."""
