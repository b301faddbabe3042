"""All sites of a motif matrix in long sequences, with exact p-values."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import motif as kernels
from latentstruct.core.types import Vector
from latentstruct.core.validation import integer, real
from latentstruct.exceptions import InputError
from latentstruct.io.fasta import STRANDS, SequenceBlock
from latentstruct.io.meme import MemeMotif

__all__ = ["Hit", "MatrixScanner", "score_distribution"]

LEVELS = 200
"""Number of integer scores per position."""
PSEUDO_SITES = 0.1
"""Sites of the background's letters that are added to the matrix, so that no letter is impossible."""
CAPACITY = 1 << 16
"""Number of hits that are found at a time."""


class Hit(NamedTuple):
    """A site of a motif.

    Attributes
    ----------
    sequence : str
        Name of the sequence.
    start, end : int
        The site has the letters start … end − 1, counted from 0 on the given strand.
    strand : int
        +1 if the motif is read on the given strand, −1 if on the other one; 0 for proteins.
    score : float
        Log-odds of the motif against the background in bits.
    p_value : float
        Probability that a random word of the background scores as much or more.
    q_value : float
        Smallest false discovery rate at which the site is found.
    site : str
        The letters as the motif reads them.
    """

    sequence: str
    start: int
    end: int
    strand: int
    score: float
    p_value: float
    q_value: float
    site: str

    @property
    def sign(self) -> str:
        """The strand in files."""
        return STRANDS[self.strand]


def score_distribution(scores: NDArray[np.int64], background: Vector) -> Vector:
    """Return the probabilities of all sums of one score per position, by dynamic programming.

    Parameters
    ----------
    scores : array of shape (width, letters)
        Scores from 0 of the letters at each position.
    background : array of shape (letters,)
        Probabilities of the letters.

    Returns
    -------
    array of shape (m,)
        Entry s is the probability of the sum s.
    """
    found = np.ones(1)
    for row in scores.tolist():
        longer = np.zeros(len(found) + max(row))
        for score, probability in zip(row, background, strict=True):
            longer[score : score + len(found)] += probability * found
        found = longer
    return found


class MatrixScanner:
    """Finds all sites of a motif whose p-values are small enough.

    Scores are rounded to integers, so that their distribution over random words of the background is exact.

    Parameters
    ----------
    motif : MemeMotif
        The motif and the background.
    p_value : float, default=1e-4
        Largest p-value of a site.
    strands : 1 or 2, optional
        Number of strands to scan, by default those of the alphabet: 2 for DNA, 1 for proteins.
    """

    def __init__(self, motif: MemeMotif, p_value: float = 1e-4, strands: int | None = None) -> None:
        real(0.0, 1.0).check(p_value, "p_value")
        self.motif, self.alphabet, self.width = motif, motif.alphabet, len(motif.matrix)
        self.strands = strands = self.alphabet.strands if strands is None else strands
        integer(1, self.alphabet.strands).check(strands, "strands")
        background = np.asarray(motif.background, dtype=np.float64)
        if strands == 2:
            background = (background + background[::-1]) / 2
        if (background <= 0).any():
            raise InputError("background", background.tolist(), "probabilities above 0")
        smoothed = (motif.matrix * motif.n_sites + PSEUDO_SITES * background) / (motif.n_sites + PSEUDO_SITES)
        bits = np.log2(smoothed / background)
        low = bits.min(axis=1, keepdims=True)
        self.scale = LEVELS / max(float((bits - low).max()), 1e-9)
        self.scores = np.round((bits - low) * self.scale).astype(np.int64)
        self.lowest = float(low.sum())
        tails = np.cumsum(score_distribution(self.scores, background)[::-1])[::-1]
        self.p_values = np.minimum(tails, 1.0)
        # Rounding must not exclude a score whose p-value is the limit.
        self.least = int(np.count_nonzero(self.p_values > p_value * (1 + 1e-9)))
        self.tables = [self._table(self.scores), self._table(self.scores[::-1, ::-1])]
        self.n_tested = 0
        self.counts = np.zeros(len(tails), dtype=np.int64)

    def _table(self, scores: NDArray[Any]) -> NDArray[np.int32]:
        return kernels.fold_matrix(np.ascontiguousarray(scores, dtype=np.float64)).astype(np.int32)

    def find(self, block: SequenceBlock) -> "FoundHits":
        """Return the hits of one block, and count its windows for `q_values`."""
        starts, strands = np.empty(CAPACITY, dtype=np.int64), np.empty(CAPACITY, dtype=np.int8)
        scores = np.empty(CAPACITY, dtype=np.int32)
        reverse = self.tables[1] if self.strands == 2 else self.tables[1][:0]
        found: list[tuple[NDArray[Any], ...]] = []
        # Windows that are in the block before too have been read.
        first = begin = max(0, block.overlap - self.width + 1)
        size = self.alphabet.size
        n_windows = len(block.letters) - self.width + 1
        while begin < n_windows and self.least < len(self.p_values):
            given = (block.letters, size, self.tables[0], reverse, self.width, self.least, begin)
            begin, n = kernels.scan_hits(*given, starts, strands, scores)
            found.append((starts[:n].copy(), strands[:n].copy(), scores[:n].copy()))
        unknown = np.flatnonzero(block.letters[first:] == size)
        runs = np.diff(np.concatenate([[-1], unknown, [len(block.letters) - first]])) - self.width
        self.n_tested += self.strands * int(runs[runs > 0].sum())
        joined = [np.concatenate(parts) for parts in zip(*found, strict=True)] or [starts[:0], strands[:0], scores[:0]]
        np.add.at(self.counts, joined[2], 1)
        words = block.letters[joined[0][:, None] + np.arange(self.width)]
        words = np.where(joined[1][:, None] > 0, words, size - 1 - words[:, ::-1]).astype(np.uint8)
        return FoundHits(block.name, joined[0] + block.begin, joined[1], joined[2], words)

    def q_values(self) -> Vector:
        """Return the q-value of each integer score, after all blocks have been scanned (Benjamini and Hochberg)."""
        hits = np.cumsum(self.counts[::-1])[::-1]
        rates = np.where(hits > 0, self.p_values * self.n_tested / np.maximum(hits, 1), 1.0)
        return np.minimum(np.minimum.accumulate(rates), 1.0)

    def hits(self, found: "Iterable[FoundHits]") -> Iterator[Hit]:
        """Yield the hits of all blocks."""
        q_values, sided = self.q_values(), int(self.alphabet.strands == 2)
        for name, starts, strands, scores, words in found:
            texts = self.alphabet.text(words)
            for k, (start, strand, score) in enumerate(
                zip(starts.tolist(), strands.tolist(), scores.tolist(), strict=True)
            ):
                bits = self.lowest + score / self.scale
                site = texts[k * self.width : (k + 1) * self.width]
                values = float(self.p_values[score]), float(q_values[score])
                yield Hit(name, start, start + self.width, sided * strand, bits, *values, site)

    def scan(self, blocks: Iterable[SequenceBlock]) -> Iterator[Hit]:
        """Yield all hits; blocks of a sequence must overlap by at least one letter less than the width."""
        return self.hits([self.find(block) for block in blocks])


class FoundHits(NamedTuple):
    """Hits of one block: starts in the sequence, strands, integer scores, and letters as the motif reads them."""

    name: str
    starts: NDArray[np.int64]
    strands: NDArray[np.int8]
    scores: NDArray[np.int32]
    words: NDArray[np.uint8]
