"""Sequences with tracks: letters and further data per position."""

from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.validation import array_of, check_length, is_ordered, numbers_of
from latentstruct.exceptions import Description, InputError

AMINO_ACIDS = "ARNDCQEGHILKMFPSTWYVBZX"
"""The letters of proteins in the order of NCBI's matrices; B is D or N, Z is E or Q, X is any."""
_UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)

Matches = NDArray[np.int64]
"""Matched positions (i, j) of two sequences, shape (m, 2), both increasing."""


class SequenceTracks(NamedTuple):
    """A sequence of L letters and further tracks of the same length.

    Attributes
    ----------
    letters : str
        One letter per position; case is ignored (in ASCII).
    structure : str, optional
        Secondary structure, one letter per position (for instance H, E and L).
    accessibility : str, optional
        Class of solvent accessibility, one letter per position.
    profile : ndarray of shape (L, P), optional
        Numbers per position, such as the scores of the 20 amino acids in a PSI-BLAST profile.
    """

    letters: str
    structure: str | None = None
    accessibility: str | None = None
    profile: NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        return short_repr(self)


class AlignmentInput(NamedTuple):
    """Two sequences to align.

    Attributes
    ----------
    a, b : SequenceTracks or str
        The sequences; a plain string is a sequence without further tracks.
    """

    a: SequenceTracks | str
    b: SequenceTracks | str

    def __repr__(self) -> str:
        return short_repr(self)


def check_sequence(value: Any, name: str) -> SequenceTracks:
    """Return a sequence with upper-case letters and checked tracks, or raise an error that names `name`."""
    tracks = SequenceTracks(value) if isinstance(value, str) else value
    if not isinstance(tracks, SequenceTracks) or not isinstance(tracks.letters, str):
        raise InputError(name, value, "a string or SequenceTracks")
    size = len(tracks.letters)
    if size == 0:
        raise InputError(name, value, "at least one letter")
    for track in ("structure", "accessibility"):
        found = getattr(tracks, track)
        if found is None:
            continue
        if not isinstance(found, str):
            raise InputError(f"{name}.{track}", found, "a string")
        check_length(found, size, f"{name}.{track}", "letters")
    profile = None if tracks.profile is None else _check_profile(tracks.profile, size, name)
    return tracks._replace(letters=upper_letters(tracks.letters), profile=profile)


def upper_letters(letters: str) -> str:
    """Return letters in upper case, those outside ASCII unchanged, because some have several letters in upper case."""
    return letters.translate(_UPPER)


def _check_profile(value: Any, size: int, name: str) -> NDArray[np.float64]:
    profile = numbers_of(value, f"{name}.profile")
    if profile.ndim != 2 or len(profile) != size or profile.shape[1] == 0:
        expected = f"an array of shape ({size}, P) (one row per position)"
        raise InputError(f"{name}.profile", Description(f"shape {profile.shape}"), expected)
    if not np.isfinite(profile).all():
        raise InputError(f"{name}.profile", Description("NaN or infinity"), "finite")
    return profile


def check_pairs(X: Any) -> list[tuple[SequenceTracks, SequenceTracks]]:
    """Return checked pairs of sequences, or raise an error that names the pair and the sequence."""
    pairs = []
    for i, pair in enumerate(X):
        two = isinstance(pair, tuple | list | np.ndarray) and is_ordered(pair) and len(pair) == 2
        if not two or isinstance(pair, SequenceTracks):
            raise InputError(f"X[{i}]", pair, "a tuple of two sequences")
        a, b = (check_sequence(value, f"X[{i}][{side}]") for side, value in enumerate(pair))
        pairs.append((a, b))
    return pairs


def check_matches(y: Any, name: str, sizes: tuple[int, int] | None = None) -> Matches:
    """Return matches as an array (m, 2), or raise an error that names `name`; sizes are those of a and b, if known."""
    matches = array_of(y, name)
    if matches.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if matches.ndim != 2 or matches.shape[1] != 2 or matches.dtype.kind not in "iu":
        got = Description(f"{matches.dtype} of shape {matches.shape}")
        raise InputError(name, got, "pairs (i, j) of matched positions, integers of shape (m, 2)")
    matches = matches.astype(np.int64)
    wrong = np.flatnonzero((np.diff(matches, axis=0) <= 0).any(axis=1))
    if len(wrong):
        first, second = (tuple(matches[wrong[0] + t].tolist()) for t in (0, 1))
        got = Description(f"{second} after {first}")
        raise InputError(name, got, "matches with increasing positions in both sequences, without crossings")
    for side, size in enumerate(sizes or ()):
        if matches[0, side] < 0 or matches[-1, side] >= size:
            found = matches[0, side] if matches[0, side] < 0 else matches[-1, side]
            raise InputError(name, found, f"positions from 0 to {size - 1} of sequence {'ab'[side]}")
    if sizes is None and (matches[0] < 0).any():
        raise InputError(name, tuple(matches[0].tolist()), "positions of at least 0")
    return matches


def count_hits(truth: Matches, found: Matches, tolerance: int) -> int:
    """Count the true matches (i, j) with a predicted match (i, j') and |j' − j| ≤ tolerance."""
    _, places, others = np.intersect1d(truth[:, 0], found[:, 0], assume_unique=True, return_indices=True)
    return int((np.abs(truth[places, 1] - found[others, 1]) <= tolerance).sum())
