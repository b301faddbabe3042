import numpy as np
from numpy.typing import NDArray

from latentstruct.inference.forests import Forests

Vector = NDArray[np.float64]

def pool_derivations(forests: Forests, scores: Vector, temperature: float, values: Vector, counts: Vector, /) -> None:
    """Pool the derivations of each forest: values (n,), −inf if there is none, and derivatives by edge scores (E,)."""

def covariances(
    forests: Forests, scores: Vector, temperature: float, weights: Vector, direction: Vector, out: Vector, /
) -> None:
    """Add weights·(second derivatives of the pooled values)·direction to `out`, (E,)."""

def sample_derivations(
    forests: Forests, scores: Vector, temperature: float, seed: int, used: NDArray[np.uint8], /
) -> None:
    """Mark the edges (draws, E) of independent derivations of each forest."""

def best_derivations(forests: Forests, scores: Vector, values: Vector, used: NDArray[np.uint8], /) -> None:
    """Mark the edges (k, E) of the k best derivations of each forest; values (k, n) are −inf where there are fewer."""
