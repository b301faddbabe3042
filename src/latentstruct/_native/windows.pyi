import numpy as np
from numpy.typing import NDArray

class FeatureNames:
    """Names of features of tokens, with consecutive numbers.

    The template has groups of adjacent offsets, rows (column, first offset, number of offsets), with what their names
    begin with, the length of the longest affix, and the shape of each token, empty for none. The tokens of all
    sentences are in columns of texts; sentence s has the tokens offsets[s] to offsets[s + 1].
    """

    def __init__(self, names: list[str], /) -> None: ...
    def count(
        self,
        groups: NDArray[np.int64],
        prefixes: list[str],
        affixes: int,
        shapes: list[str],
        columns: list[list[str]],
        offsets: NDArray[np.int64],
        window: int,
        /,
    ) -> None:
        """Count the features of tokens, and number new ones."""

    def find(
        self,
        groups: NDArray[np.int64],
        prefixes: list[str],
        affixes: int,
        shapes: list[str],
        columns: list[list[str]],
        offsets: NDArray[np.int64],
        window: int,
        found: NDArray[np.int32],
        pointers: NDArray[np.int64],
        /,
    ) -> int:
        """Write the sorted numbers of the known features of each token, and where those of each token begin.

        Returns how many there are.
        """

    def frequent(self, least: int, /) -> FeatureNames:
        """Return the names that were counted often enough, sorted by frequency and then by name."""

    def names(self, /) -> list[str]:
        """Return the names in the order of their numbers."""

    def __len__(self) -> int: ...
