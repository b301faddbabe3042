"""Features of aligned sequences: which letter, and which pair of neighbors, is at each position."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import sparse
from latentstruct.data.alphabets import DNA, PROTEIN
from latentstruct.exceptions import Description, InputError

__all__ = ["AlignedLetters"]

NEITHER = "X-."
"""Letters that say nothing of the alphabet."""


class AlignedLetters(NamedTuple):
    """Features of sequences of equal length, such as splice sites, each position of which means the same in all.

    There is one feature for each letter at each position and, with pairs, one for each pair of neighbors. Other
    letters, such as N, X and gaps, are no feature.

    Parameters
    ----------
    length : int
        Letters of each sequence.
    letters : str
        The alphabet.
    pairs : bool, default=True
        Whether pairs of neighbors are features too.

    Examples
    --------
    >>> from latentstruct.features.aligned_letters import AlignedLetters
    >>> found = AlignedLetters.of(["ACG", "AUN"])
    >>> found.letters, len(found.names())
    ('ACGT', 44)
    >>> [found.names()[k] for k in found.matrix(["AUN"]).indices.tolist()]
    ['A at 1', 'T at 2', 'AT at 1-2']
    """

    length: int
    letters: str
    pairs: bool = True

    @classmethod
    def of(cls, sequences: Sequence[str], pairs: bool = True) -> "AlignedLetters":
        """Return the features of sequences: DNA if they have no other letters than those of DNA or RNA."""
        used = set("".join(sequences).upper()) - set(NEITHER)
        return cls(len(sequences[0]), (DNA if used <= DNA.known else PROTEIN).letters, pairs)

    def matrix(self, sequences: Sequence[str]) -> "sparse.csr_array":
        """Return the features of sequences, shape (n, number of features)."""
        for i, sequence in enumerate(sequences):
            if len(sequence) != self.length:
                got = Description(f"{len(sequence)} letters")
                raise InputError(f"sequences[{i}]", got, f"{self.length} letters, as the other sequences have")
        size = len(self.letters)
        codes = self._codes("".join(sequences)).reshape(-1, self.length)
        known = codes < size
        columns = [np.where(known, np.arange(self.length) * size + codes, -1)]
        if self.pairs:
            both = known[:, 1:] & known[:, :-1]
            places = self.length * size + np.arange(self.length - 1) * size * size
            columns.append(np.where(both, places + codes[:, :-1] * size + codes[:, 1:], -1))
        joined = np.hstack(columns)
        indptr = np.concatenate([[0], np.cumsum((joined >= 0).sum(axis=1))])
        indices = joined[joined >= 0]
        return sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(joined), self.n_features))

    def _codes(self, text: str) -> NDArray[np.int64]:
        table = np.full(256, len(self.letters), dtype=np.int64)
        for code, letter in enumerate(self.letters):
            table[[ord(letter), ord(letter.lower())]] = code
        if self.letters == DNA.letters:
            table[[ord("U"), ord("u")]] = self.letters.index("T")
        return table[np.frombuffer(text.encode("latin-1", "replace"), dtype=np.uint8)]

    @property
    def n_features(self) -> int:
        """The number of features."""
        size = len(self.letters)
        return self.length * size + self.pairs * max(0, self.length - 1) * size * size

    def names(self) -> list[str]:
        """Return the names of the features; positions are counted from 1."""
        single = [f"{a} at {j}" for j in range(1, self.length + 1) for a in self.letters]
        if not self.pairs:
            return single
        return single + [
            f"{a}{b} at {j}-{j + 1}" for j in range(1, self.length) for a in self.letters for b in self.letters
        ]
