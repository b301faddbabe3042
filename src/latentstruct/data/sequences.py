"""Sequences with tracks: letters, and what else is known of each position."""

from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.validation import as_reals, check_unmasked, is_ordered
from latentstruct.exceptions import InputError

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
        One letter for each position; lower case counts as upper case (in ASCII).
    structure : str, optional
        Secondary structure, one letter for each position (for instance H, E and L).
    accessibility : str, optional
        Class of solvent accessibility, one letter for each position.
    profile : ndarray of shape (L, P), optional
        Numbers for each position, as the scores of the 20 amino acids in a PSI-BLAST profile.
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
        The sequences; a plain string stands for one without further tracks.
    """

    a: SequenceTracks | str
    b: SequenceTracks | str

    def __repr__(self) -> str:
        return short_repr(self)


def check_sequence(value: Any, name: str) -> SequenceTracks:
    """Return a sequence with upper-case letters and checked tracks, or raise an error that names `name`."""
    tracks = SequenceTracks(value) if isinstance(value, str) else value
    if not isinstance(tracks, SequenceTracks) or not isinstance(tracks.letters, str):
        raise InputError(f"{name} is {type(value).__name__}, expected a string or SequenceTracks: give its letters")
    size = len(tracks.letters)
    if size == 0:
        raise InputError(f"{name} is empty, expected at least one letter: remove the pair")
    for track in ("structure", "accessibility"):
        found = getattr(tracks, track)
        if found is None:
            continue
        if not isinstance(found, str):
            raise InputError(f"the {track} of {name} is {type(found).__name__}, expected a string: give its letters")
        if len(found) != size:
            raise InputError(
                f"the {track} of {name} has {len(found)} letters but the sequence has {size}: give one letter for each "
                "position"
            )
    profile = None if tracks.profile is None else _check_profile(tracks.profile, size, name)
    return tracks._replace(letters=upper_letters(tracks.letters), profile=profile)


def upper_letters(letters: str) -> str:
    """Return letters in upper case, those outside ASCII as they are: some of these have several letters there."""
    return letters.translate(_UPPER)


def _check_profile(value: Any, size: int, name: str) -> NDArray[np.float64]:
    try:
        profile = as_reals(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the profile of {name} must be numbers of shape (L, P) ({error}): give one line for each position"
        ) from error
    if profile.ndim != 2 or len(profile) != size or profile.shape[1] == 0:
        raise InputError(
            f"the profile of {name} has shape {profile.shape}, expected ({size}, P): give one line for each position"
        )
    if not np.isfinite(profile).all():
        raise InputError(
            f"the profile of {name} contains NaN or infinity; expected finite numbers: replace or remove these values"
        )
    return profile


def check_pairs(X: Any) -> list[tuple[SequenceTracks, SequenceTracks]]:
    """Return checked pairs of sequences, or raise an error that names the pair and the sequence."""
    pairs = []
    for i, pair in enumerate(X):
        two = isinstance(pair, tuple | list | np.ndarray) and is_ordered(pair) and len(pair) == 2
        if not two or isinstance(pair, SequenceTracks):
            raise InputError(f"pair {i} of X is {type(pair).__name__}, expected two sequences: give a tuple (a, b)")
        a, b = (check_sequence(value, f"sequence {side} of pair {i}") for side, value in zip("ab", pair, strict=True))
        pairs.append((a, b))
    return pairs


def check_matches(y: Any, name: str, sizes: tuple[int, int] | None = None) -> Matches:
    """Return matches as an array (m, 2), or raise an error that names `name`; sizes are those of a and b, if known."""
    check_unmasked(y, name)
    try:
        matches = np.asarray(y)
    except ValueError as error:
        raise InputError(
            f"{name} must be pairs (i, j) of positions, shape (m, 2) ({error}): give the matched positions as whole "
            "numbers"
        ) from error
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


def count_hits(truth: Matches, found: Matches, tolerance: int) -> int:
    """Return how many matches (i, j) of the truth have a match (i, j') with |j' − j| ≤ tolerance among those found."""
    _, places, others = np.intersect1d(truth[:, 0], found[:, 0], assume_unique=True, return_indices=True)
    return int((np.abs(truth[places, 1] - found[others, 1]) <= tolerance).sum())
