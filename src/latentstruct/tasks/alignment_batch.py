"""Pairs of sequences with their alignments, laid out for the kernels."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from latentstruct.kernels import alignment as kernels
from latentstruct.kernels.planes import Atoms
from latentstruct.planes import Planes, no_rows
from latentstruct.ragged import Indices, Vector, offsets_from_lengths
from latentstruct.sequences import Matches
from latentstruct.tasks.alignment_features import AlignmentFeatures


@dataclass
class AlignmentBatch:
    """Pairs of sequences in flat arrays; `truth` are the matches of each reference, if known."""

    pairs: kernels.Pairs
    truth: list[Matches] | None
    features: AlignmentFeatures
    local: bool

    @property
    def n_examples(self) -> int:
        """Number of pairs."""
        return len(self.pairs.first_a) - 1

    @property
    def labelled(self) -> bool:
        """Whether the references are known."""
        return self.truth is not None

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Lengths of both sequences of each pair."""
        pairs = self.pairs
        return list(zip(np.diff(pairs.first_a).tolist(), np.diff(pairs.first_b).tolist(), strict=True))

    @cached_property
    def gains(self) -> Vector:
        """1 / the number of matches of each reference, 0 if it has none."""
        assert self.truth is not None
        sizes = np.array([len(matches) for matches in self.truth])
        return np.divide(1.0, sizes, out=np.zeros(len(sizes)), where=sizes > 0)

    @cached_property
    def true_planes(self) -> Planes:
        """The features of the references, one plane a pair."""
        assert self.truth is not None
        nothing = np.zeros(self.n_examples)
        pointers = offsets_from_lengths(len(matches) for matches in self.truth)
        return self.path_planes(np.arange(self.n_examples), np.concatenate(self.truth), pointers, nothing, nothing)

    def longest(self, chosen: Indices) -> int:
        """Return how many matches the chosen pairs can have at most, added up."""
        return int(np.minimum(np.diff(self.pairs.first_a), np.diff(self.pairs.first_b))[chosen].sum())

    def path_planes(
        self, chosen: Indices, matches: Matches, pointers: Indices, offsets: Vector, values: Vector
    ) -> Planes:
        """Return the planes whose slopes are the features of given matches of the chosen pairs."""
        numbering = self.features.numbering
        each = int(numbering.each.sum()) + len(numbering.dense)
        atoms = empty_atoms(int(np.minimum(np.diff(pointers) * each + 2, numbering.n_weights).sum()))
        ends = np.empty(len(chosen) + 1, dtype=np.int64)
        kernels.path_atoms(self.pairs, numbering, chosen, matches, pointers, self.local, ends, atoms)
        return made_planes(ends, atoms, offsets, values, numbering.n_weights)


def empty_atoms(size: int) -> Atoms:
    """Return room for so many atoms."""
    return Atoms(np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32), np.empty(size))


def made_planes(ends: Indices, atoms: Atoms, offsets: Vector, values: Vector, n_features: int) -> Planes:
    """Return planes of the atoms that were filled."""
    return Planes(no_rows(), ends, Atoms(*(part[: ends[-1]] for part in atoms)), offsets, values, n_features)
