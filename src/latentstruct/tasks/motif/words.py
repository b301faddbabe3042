"""Words of sequences, with gaps, as features beside a motif."""

from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import words as kernels
from latentstruct.core.types import Indices
from latentstruct.planes.plane import Rows

__all__ = ["GappedWords"]

NORM = 4.0
"""Euclidean norm of the words of a sequence at weight 1, about that of the letters of a window."""


class _Patterns(NamedTuple):
    distances: NDArray[np.int64]
    """Distances of the letters of each pattern from its first one, shape (p, length)."""
    mirrors: NDArray[np.int64]
    """The pattern that each one becomes on the other strand; empty if there is none."""


class GappedWords:
    """Features of a sequence: how often each word occurs, as a vector of constant norm.

    Parameters
    ----------
    length : int
        Number of letters of a word; 0 for no features.
    gaps : int
        Most letters between the first and the last one that are not read. Each way to place up to this number of gaps
        is a pattern of its own.
    strands : 1 or 2
        2 to count each word together with its reverse complement.
    letters : str
        The alphabet; the complement of a letter is as far from the end as the letter is from the beginning.
    weight : float, default=1.0
        Scale of the features.
    """

    def __init__(self, length: int, gaps: int, strands: int, letters: str, weight: float = 1.0) -> None:
        self.length, self.gaps, self.strands, self.letters, self.weight = length, gaps, strands, letters, weight

    @cached_property
    def _patterns(self) -> _Patterns:
        chosen = combinations(range(1, self.length + self.gaps), self.length - 1) if self.length else []
        distances = [(0, *others) for others in chosen]
        number = {pattern: k for k, pattern in enumerate(distances)}
        mirrors = [number[tuple(p[-1] - d for d in p[::-1])] for p in distances] if self.strands == 2 else []
        return _Patterns(
            np.array(distances, dtype=np.int64).reshape(-1, self.length), np.array(mirrors, dtype=np.int64)
        )

    @property
    def n_features(self) -> int:
        """The number of features, unused ones included."""
        return len(self._patterns.distances) * len(self.letters) ** self.length if self.length else 0

    def rows(self, letters: NDArray[np.uint8], offsets: Indices) -> Rows:
        """Return the features of sequences given by the numbers of their letters."""
        patterns = self._patterns
        return Rows(*kernels.word_rows(letters, offsets, *patterns, len(self.letters), NORM * self.weight))

    def name(self, feature: int) -> str:
        """Return the word of a feature, with a dot for each letter that is not read."""
        pattern, code = divmod(feature, len(self.letters) ** self.length)
        distances = self._patterns.distances[pattern]
        word = ["."] * int(distances[-1] + 1)
        for distance in distances[::-1].tolist():
            code, letter = divmod(code, len(self.letters))
            word[distance] = self.letters[letter]
        return "".join(word)
