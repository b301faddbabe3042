"""Pairs of sequences with their alignments, laid out for the kernels."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import InputError
from latentstruct.kernels import alignment as kernels
from latentstruct.kernels.planes import Atoms
from latentstruct.planes import Planes, no_rows
from latentstruct.ragged import Indices, Vector, offsets_from_lengths
from latentstruct.tasks.alignment_features import AlignmentFeatures

Matches = NDArray[np.int64]


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


def check_matches(y: Any, name: str, sizes: tuple[int, int] | None = None) -> Matches:
    """Return matches as an array (m, 2), or raise an error that names `name`; sizes are those of a and b, if known."""
    try:
        matches = np.asarray(y)
    except ValueError as error:
        raise InputError(f"{name} must be pairs (i, j) of positions, shape (m, 2): {error}") from error
    if matches.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if matches.ndim != 2 or matches.shape[1] != 2 or matches.dtype.kind not in "iu":
        raise InputError(
            f"{name} has shape {matches.shape} and type {matches.dtype}, expected whole numbers of shape (m, 2): give "
            "the matched positions (i, j), from 0"
        )
    matches = matches.astype(np.int64)
    wrong = np.flatnonzero((np.diff(matches, axis=0) <= 0).any(axis=1))
    if len(wrong):
        first, second = (tuple(matches[wrong[0] + t].tolist()) for t in (0, 1))
        raise InputError(
            f"{name} has the match {second} behind {first}, expected both positions to increase: order the matches and "
            "remove those that cross"
        )
    for side, size in enumerate(sizes or ()):
        if matches[0, side] < 0 or matches[-1, side] >= size:
            found = matches[0, side] if matches[0, side] < 0 else matches[-1, side]
            raise InputError(
                f"{name} matches position {found} of sequence {'ab'[side]}, which has {size} letters; expected 0 to "
                f"{size - 1}: check that the alignment belongs to these sequences"
            )
    if sizes is None and (matches[0] < 0).any():
        raise InputError(f"{name} has the match {tuple(matches[0].tolist())}, expected positions from 0: count from 0")
    return matches
