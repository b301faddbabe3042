import numpy as np
from numpy.typing import NDArray

def add_scaled(x: NDArray[np.float64], factor: float, out: NDArray[np.float64], /) -> None:
    """Add factor·x to `out`, without a temporary vector."""

def exponentiate(x: NDArray[np.float64], /) -> None:
    """Replace numbers by their exponentials."""

def take_logarithms(x: NDArray[np.float64], /) -> None:
    """Replace numbers by their logarithms."""
