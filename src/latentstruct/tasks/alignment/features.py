"""Features of a match of two positions: tables of pairs of codes, and products of profiles.

Each position has *tracks*: its letter, its secondary structure, its accessibility, and codes of its neighborhood. A
table holds a weight for each code of some tracks at one position and each code of some tracks at the other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement, product
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.types import Indices, Vector, offsets_from_lengths
from latentstruct.data.sequences import Matches, SequenceTracks
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Atoms, Slopes, empty_atoms, no_rows

Codes = NDArray[np.int64]
SequencePairs = Sequence[tuple[SequenceTracks, SequenceTracks]]

ORDERS = {"simple": 1, "anova2": 2, "tensor": 3, "window": 3, "profile": 3}
LETTERS, STRUCTURE, ACCESSIBILITY, PATTERN, SURROUNDINGS = range(5)
TRACK_NAMES = ("letters", "structure", "accessibility")

MOST_WEIGHTS = 20_000_000
MOST_JOINT_NUMBERS = 4_000_000
"""Maximum number of weight indices in a table of joint codes; with more, each table is looked up separately."""

PATTERN_REACH = 2
STRUCTURE_REACH = 3
HYDROPATHY_REACH = 2

SCALES = "ARNDCQEGHILKMFPSTWYV"


def scale(numbers: str) -> dict[str, float]:
    """Return a scale of amino acids from its numbers in the order of `SCALES`."""
    return dict(zip(SCALES, map(float, numbers.split()), strict=True))


HYDROPATHY = scale("1.8 -4.5 -3.5 -3.5 2.5 -3.5 -3.5 -0.4 -3.2 4.5 3.8 -3.9 1.9 2.8 -1.6 -0.8 -0.7 -0.9 -1.3 4.2")
"""Hydropathy of the amino acids (Kyte & Doolittle 1982)."""
HELIX = scale("1.42 .98 .67 1.01 .70 1.11 1.51 .57 1.00 1.08 1.21 1.16 1.45 1.13 .57 .77 .83 1.08 .69 1.06")
STRAND = scale(".83 .93 .89 .54 1.19 1.10 .37 .75 .87 1.60 1.30 .74 1.05 1.38 .55 .75 1.19 1.37 1.47 1.70")
TURN = scale(".66 .95 1.56 1.46 1.19 .98 .74 1.56 .95 .47 .59 1.01 .60 .60 1.52 1.43 .96 .96 1.14 .50")
"""Propensities of the amino acids for helices, strands and turns (Chou & Fasman 1978)."""
BURIED_ABOVE, EXPOSED_BELOW = 0.5, -1.0
"""Mean hydropathy of a neighborhood; about a third of the positions of proteins lies on each side of both."""


class Pairs(NamedTuple):
    """Pairs of sequences laid end to end; the k-th has positions first_a[k] … first_a[k+1] and the same of b.

    The score of a match is Σ_g tables[starts[g, i] + codes[g, j]] + Σ_q dense[q]·left[i, q]·right[q, j].
    """

    starts: NDArray[np.uint64]  # (G, A)
    codes: NDArray[np.uint32]  # (G, B)
    left: NDArray[np.float64]  # (A, Q)
    right: NDArray[np.float64]  # (Q, B)
    first_a: Indices  # (n + 1,)
    first_b: Indices  # (n + 1,)
    partner: Indices  # (A,): the position of b that the reference matches with this one of a, −1 if none


class Scoring(NamedTuple):
    """Scores of paths: tables of matches, weights of dense features, costs of gaps.

    `linear` is whether the scores of all steps are small enough for sums over paths without logarithms.
    """

    tables: Vector  # (cells,)
    dense: Vector  # (Q,)
    open: float
    extend: float
    local: bool
    linear: bool
    tolerance: int


class Numbering(NamedTuple):
    """Weights of the cells of the tables.

    Cell c of group g, one of cells[g] … cells[g+1], adds up the weights numbers[at[g] + (c − cells[g])·each[g] + …],
    each[g] of them.
    """

    cells: Indices  # (G + 1,)
    at: Indices  # (G,)
    each: Indices  # (G,)
    numbers: NDArray[np.int32]
    dense: Indices  # (Q,)
    n_weights: int


def scale_values(letters: str, known: dict[str, float], other: float) -> Vector:
    """Return the value of each letter, `other` for those that are no amino acid."""
    return np.array([known.get(letter, other) for letter in letters])


def window_means(values: Vector, reach: int) -> Vector:
    """Return the mean over the positions of the sequence at most `reach` away."""
    sums, places = np.concatenate([[0.0], np.cumsum(values)]), np.arange(len(values))
    low, high = np.maximum(places - reach, 0), np.minimum(places + reach + 1, len(values))
    return (sums[high] - sums[low]) / (high - low)


def derived_structure(letters: str) -> str:
    """Return an estimate of the secondary structure: helix (H), strand (E) or turn (L) by propensities of neighbors."""
    propensities = [window_means(scale_values(letters, known, 1.0), STRUCTURE_REACH) for known in (HELIX, STRAND, TURN)]
    return "".join("HEL"[k] for k in np.argmax(propensities, axis=0))


def derived_accessibility(letters: str) -> str:
    """Return an estimate of the accessibility by hydropathy of neighbors: buried (b), intermediate (i), exposed (e)."""
    means = window_means(scale_values(letters, HYDROPATHY, 0.0), HYDROPATHY_REACH)
    return "".join("eib"[int(mean > EXPOSED_BELOW) + int(mean > BURIED_ABOVE)] for mean in means)


def with_derived(sequence: SequenceTracks) -> SequenceTracks:
    """Return a sequence with estimates of its missing tracks."""
    return sequence._replace(
        structure=sequence.structure or derived_structure(sequence.letters),
        accessibility=sequence.accessibility or derived_accessibility(sequence.letters),
    )


def sizes_of(pairs: SequencePairs) -> list[tuple[int, int]]:
    """Return the lengths of both sequences of each pair."""
    return [(len(a.letters), len(b.letters)) for a, b in pairs]


def neighbors(codes: Codes, reach: int, n_codes: int) -> Codes:
    """Return the codes of the positions at most `reach` away as one number; beyond the ends it is n_codes − 1."""
    windows = sliding_window_view(np.pad(codes, reach, constant_values=n_codes - 1), 2 * reach + 1)
    return windows @ n_codes ** np.arange(2 * reach, -1, -1)


def encode_letters(text: str, alphabet: str, name: str, hint: str | None = None) -> Codes:
    """Return the indices of letters in the alphabet, or raise an error that names `name`, position and letter."""
    places = {letter: place for place, letter in enumerate(alphabet)}
    codes = np.array([places.get(letter, -1) for letter in text], dtype=np.int64)
    for i in np.flatnonzero(codes < 0)[:1]:
        got = Description(f"{repr_short(text[i])} at position {i}")
        raise InputError(name, got, f"a string of the letters {repr_short(alphabet)}", hint)
    return codes


def find_alphabets(sequences: Sequence[SequenceTracks]) -> list[str | None]:
    """Return the letters of each track in alphabetical order, None for tracks that no sequence has."""
    tracks = [set().union(*(each[t] or "" for each in sequences)) for t in range(len(TRACK_NAMES))]
    return ["".join(sorted(letters)) or None for letters in tracks]


class TrackAlphabets(NamedTuple):
    """The letters of each track, in the order of their codes; None where there is no such track."""

    letters: str
    structure: str | None
    accessibility: str | None


class Lookup(NamedTuple):
    """A table as it is looked up: tracks of a position of a, tracks of one of b, first weight, and whether b leads."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    first: int
    turned: bool
    tied: bool


class Group(NamedTuple):
    """Lookups that share joint codes of some tracks on each side."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    lookups: list[Lookup]


@dataclass
class AlignmentFeatures:
    """The features of matches by the `kind` of combination of tracks and the width of profiles, 0 for none."""

    kind: str
    alphabets: TrackAlphabets
    n_profile: int
    symmetric: bool

    def __post_init__(self) -> None:
        present = [t for t, letters in enumerate(self.alphabets) if letters is not None]
        self.sizes = {t: len(self.alphabets[t] or "") for t in present}
        windows = []
        if ORDERS[self.kind] > len(present) and self.kind in ("anova2", "tensor"):
            tracks = ", ".join(TRACK_NAMES[t] for t in present)
            expected = f"a combination of at most {len(present)} tracks ({tracks})"
            raise InputError("features", self.kind, expected, "Add tracks to the sequences, or set `derived` to True.")
        if self.kind in ("window", "profile"):
            self.sizes[PATTERN] = 2 ** (2 * PATTERN_REACH + 1)
            windows.append((PATTERN,))
            if STRUCTURE in present:
                self.sizes[SURROUNDINGS] = (self.sizes[STRUCTURE] + 1) ** 3
                windows.append((SURROUNDINGS,))
        self.joint = tuple(present)
        self.n_table_weights = 0
        self._dense = self._dense_numbers()
        orders = (list(combinations(present, order)) for order in range(1, ORDERS[self.kind] + 1))
        self.groups = self._grouped([lookup for subsets in orders for lookup in self._lookups(subsets)])
        self.groups += [Group(window, window, self._lookups([window])) for window in windows]
        n_dense = int(self._dense.max()) + 1 if len(self._dense) else 0
        # Tables, profiles, and the costs of opening and of extending a gap.
        self.n_weights = self.n_table_weights + n_dense + 2

    def _size(self, tracks: Iterable[int]) -> int:
        return int(np.prod([self.sizes[t] for t in tracks]))

    def _lookups(self, subsets: list[tuple[int, ...]]) -> list[Lookup]:
        """Lay out a table for each pair of subsets of tracks."""
        choose = combinations_with_replacement(subsets, 2) if self.symmetric else product(subsets, repeat=2)
        lookups = []
        for left, right in choose:
            tied = self.symmetric and left == right
            size, other = self._size(left), self._size(right)
            lookups.append(Lookup(left, right, self.n_table_weights, False, tied))
            if self.symmetric and not tied:
                lookups.append(Lookup(right, left, self.n_table_weights, True, False))
            self.n_table_weights += size * (size + 1) // 2 if tied else size * other
            if self.n_table_weights > MOST_WEIGHTS:
                raise InputError(
                    "features", self.kind, f"features with at most {MOST_WEIGHTS} weights", "Use fewer letters."
                )
        return lookups

    def _grouped(self, lookups: list[Lookup]) -> list[Group]:
        """Take all tables of tracks together if their joint codes are few enough."""
        if self._size(self.joint) ** 2 * len(lookups) <= MOST_JOINT_NUMBERS:
            return [Group(self.joint, self.joint, lookups)]
        return [Group(lookup.left, lookup.right, [lookup]) for lookup in lookups]

    def _dense_numbers(self) -> Indices:
        """Number the weights of profiles: columns with columns, then columns of one side with letters of the other."""
        columns, letters = np.arange(self.n_profile), self.alphabets.letters
        of_letters = self.n_profile == len(letters) or letters[: self.n_profile] == SCALES
        if self.n_profile == 0 or not of_letters:
            return columns
        one_side = columns + self.n_profile
        return np.concatenate([columns, one_side, one_side + (0 if self.symmetric else self.n_profile)])

    def _projected(self, tracks: tuple[int, ...], joint: tuple[int, ...]) -> Codes:
        """Return the code of some tracks for each joint code."""
        each = np.unravel_index(np.arange(self._size(joint)), [self.sizes[t] for t in joint])
        return self._joined(dict(zip(joint, each, strict=True)), tracks)

    def _joined(self, codes: dict[int, Codes], tracks: tuple[int, ...]) -> Codes:
        """Return the codes of several tracks as one number."""
        return np.ravel_multi_index([codes[t] for t in tracks], [self.sizes[t] for t in tracks])

    def _numbers(self, lookup: Lookup, group: Group) -> NDArray[np.int32]:
        """Return the weight that a table adds to each cell of its group, shape (cells of a, cells of b)."""
        a = self._projected(lookup.left, group.left)[:, None]
        b = self._projected(lookup.right, group.right)[None, :]
        if lookup.tied:
            high, low = np.maximum(a, b), np.minimum(a, b)
            return (lookup.first + high * (high + 1) // 2 + low).astype(np.int32)
        lead, other, width = (b, a, self._size(lookup.left)) if lookup.turned else (a, b, self._size(lookup.right))
        return (lookup.first + lead * width + other).astype(np.int32)

    @cached_property
    def numbering(self) -> Numbering:
        """Which weights the cells of the groups add up."""
        blocks = []
        for group in self.groups:
            numbers = np.stack([self._numbers(lookup, group) for lookup in group.lookups], axis=-1)
            blocks.append(numbers.reshape(-1, len(group.lookups)))
        return Numbering(
            offsets_from_lengths(len(block) for block in blocks),
            offsets_from_lengths(block.size for block in blocks)[:-1],
            np.array([block.shape[1] for block in blocks]),
            np.concatenate([block.ravel() for block in blocks]),
            self.n_table_weights + self._dense,
            self.n_weights,
        )

    @cached_property
    def _blocks(self) -> list[NDArray[np.int32]]:
        """Return the weights of the cells of each group, shape (cells, tables)."""
        parts = zip(np.split(self.numbering.numbers, self.numbering.at[1:]), self.groups, strict=True)
        return [part.reshape(-1, len(group.lookups)) for part, group in parts]

    def cells(self, w: Vector) -> Vector:
        """Return the score that each cell of the groups adds to a match."""
        return np.concatenate([w[numbers].sum(axis=1) for numbers in self._blocks])

    def no_counts(self) -> tuple[Vector, Vector, Vector]:
        """Return zeros for the counts of cells, of dense features, and of opened gaps and further letters."""
        return np.zeros(self.numbering.cells[-1]), np.zeros(len(self._dense)), np.zeros(2)

    def pull_back(self, cells: Vector, dense: Vector, gaps: Vector) -> Vector:
        """Return the features that belong to counts."""
        slope = np.zeros(self.n_weights)
        for numbers, counts in zip(self._blocks, np.split(cells, self.numbering.cells[1:-1]), strict=True):
            slope += np.bincount(numbers.ravel(), np.repeat(counts, numbers.shape[1]), minlength=len(slope))
        np.add.at(slope, self.numbering.dense, dense)
        slope[-2:] = -gaps
        return slope

    def slopes(self, n_matches: Indices, write: Callable[[Indices, Atoms], None]) -> Slopes:
        """Return the slopes of examples with at most `n_matches` matches; `write` fills their ends and atoms."""
        each = int(self.numbering.each.sum()) + len(self._dense)
        size = int(np.minimum(n_matches * each + 2, self.n_weights).sum())
        ends = np.empty(len(n_matches) + 1, dtype=np.int64)
        atoms = empty_atoms(size)
        write(ends, atoms)
        return Slopes(no_rows(), ends, Atoms(*(part[: ends[-1]] for part in atoms)))

    def _codes(self, sequence: SequenceTracks, name: str) -> dict[int, Codes]:
        """Return the code of each track at each position."""
        codes = {}
        for t in self.joint:
            track, alphabet = TRACK_NAMES[t], self.alphabets[t]
            text = getattr(sequence, track)
            if text is None:
                raise InputError(f"{name}.{track}", None, "a string because the model uses this track")
            hint = "Add the letter to `alphabet`, or replace it (X is any amino acid)." if t == LETTERS else None
            codes[t] = encode_letters(text, alphabet or "", f"{name}.{track}", hint)
        if PATTERN in self.sizes:
            oily = scale_values(sequence.letters, HYDROPATHY, 0.0) > 1.0
            codes[PATTERN] = neighbors(np.where(oily, 0, 1), PATTERN_REACH, 2)
        if SURROUNDINGS in self.sizes:
            codes[SURROUNDINGS] = neighbors(codes[STRUCTURE], 1, self.sizes[STRUCTURE] + 1)
        return codes

    def _profile(self, sequence: SequenceTracks, name: str, letters: Codes, leads: bool) -> NDArray[np.float64]:
        """Return the factors of the dense features at each position, shape (L, Q)."""
        if self.n_profile == 0:
            return np.zeros((len(letters), 0))
        profile = sequence.profile
        if profile is None:
            raise InputError(f"{name}.profile", None, "an array because `features` is 'profile'")
        if profile.shape[1] != self.n_profile:
            got = Description(f"{profile.shape[1]} columns")
            raise InputError(f"{name}.profile", got, f"an array with {self.n_profile} columns")
        if len(self._dense) == self.n_profile:
            return profile
        marks = (letters[:, None] == np.arange(self.n_profile)).astype(np.float64)
        return np.concatenate([profile, profile, marks] if leads else [profile, marks, profile], axis=1)

    def lay_out(self, pairs: SequencePairs, truth: Sequence[Matches]) -> Pairs:
        """Encode pairs and lay them end to end, with the references if there are any."""
        sides = []
        for side in range(2):
            codes, factors = [], []
            for k, pair in enumerate(pairs):
                name = f"X[{k}][{side}]"
                found = self._codes(pair[side], name)
                codes.append(np.stack([self._joined(found, (group.left, group.right)[side]) for group in self.groups]))
                factors.append(self._profile(pair[side], name, found[LETTERS], side == 0))
            sides.append((np.concatenate(codes, axis=1), np.concatenate(factors)))
        (left, left_factors), (right, right_factors) = sides
        first_a, first_b = (offsets_from_lengths(lengths) for lengths in zip(*sizes_of(pairs), strict=True))
        partner = np.full(first_a[-1], -1, dtype=np.int64)
        for start, matches in zip(first_a.tolist(), truth, strict=False):
            partner[start + matches[:, 0]] = matches[:, 1]
        widths = np.array([[self._size(group.right)] for group in self.groups])
        return Pairs(
            (self.numbering.cells[:-1, None] + left * widths).astype(np.uint64, order="C"),
            right.astype(np.uint32, order="C"),
            np.ascontiguousarray(left_factors),
            np.ascontiguousarray(right_factors.T),
            first_a,
            first_b,
            partner,
        )

    def letter_numbers(self) -> NDArray[np.int32]:
        """Return the weights of letters against letters, shape (S, S)."""
        letters = (LETTERS,)
        first = next(lookup for group in self.groups for lookup in group.lookups)
        return self._numbers(first, Group(letters, letters, [first]))
