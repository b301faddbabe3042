"""Pairs of sequences with their alignments, laid out for the kernels."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from latentstruct.core.protocols import Query
from latentstruct.kernels import alignment as kernels
from latentstruct.ragged import Indices, Vector, positions
from latentstruct.sequences import Matches, check_matches


def check_each(alignments: Any, name: str, sizes: Iterable[tuple[int, int]]) -> list[Matches]:
    """Return the checked matches of each pair; `name` is a format string for the number of the pair."""
    both = zip(alignments, sizes, strict=True)
    return [check_matches(matches, name.format(k), size) for k, (matches, size) in enumerate(both)]


def cut(matches: Matches, pointers: Indices) -> list[Matches]:
    """Return the matches of each pair as views."""
    return [matches[start:end] for start, end in pairwise(pointers.tolist())]


@dataclass
class AlignmentBatch:
    """Pairs of sequences in flat arrays.

    The reference of pair k, if known, has the matches truth[pointers[k] : pointers[k+1]].
    """

    pairs: kernels.Pairs
    truth: Matches | None
    pointers: Indices

    def __post_init__(self) -> None:
        self.heights, self.widths = np.diff(self.pairs.first_a), np.diff(self.pairs.first_b)
        self.n_examples = len(self.heights)

    @property
    def labelled(self) -> bool:
        """Whether the references are known."""
        return self.truth is not None

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Lengths of both sequences of each pair."""
        return list(zip(self.heights.tolist(), self.widths.tolist(), strict=True))

    def references(self, chosen: Indices) -> tuple[Matches, Indices]:
        """Return the matches of the chosen references, one reference after the other, and their pointers."""
        assert self.truth is not None
        places, pointers = positions(self.pointers, chosen)
        return self.truth[places], pointers

    @cached_property
    def _gains(self) -> Vector:
        counts = np.diff(self.pointers)
        return np.divide(1.0, counts, out=np.zeros(len(counts)), where=counts > 0)

    def gains(self, query: Query) -> Vector:
        """Return by how much a hit lowers the loss, 1 / |y|: 0 if y has no matches, and outside augmented mode."""
        if not query.augmented:
            return np.zeros(len(query.examples(self)))
        return self._gains if query.rows is None else self._gains[query.rows]
