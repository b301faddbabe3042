import numpy as np
from numpy.typing import NDArray

from latentstruct.tasks.semi_markov.kernels import SegmentCounts, SegmentScores

def pool(
    offsets: NDArray[np.int64],
    scores: SegmentScores,
    temperature: float,
    weights: NDArray[np.float64],
    together: bool,
    values: NDArray[np.float64],
    counts: SegmentCounts,
    /,
) -> None:
    """Write the values of sequences pooled at ε ≥ 0, and the counts times weights."""
