import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

def word_rows(
    letters: NDArray[np.uint8], offsets: Indices, patterns: Indices, mirrors: Indices, size: int, norm: float, /
) -> tuple[Indices, NDArray[np.uint32], NDArray[np.float64]]:
    """Return row pointers, columns and values of the words of each sequence, of Euclidean norm `norm`.

    Line p of `patterns` has the distances of a word's letters from its first one; column p·size^k + code is the word
    with that number. If `mirrors` has the pattern of each one's reverse complement, both words count at the smaller
    column.
    """
