import numpy as np
from numpy.typing import NDArray

from latentstruct.tasks.alignment.features import Numbering, Pairs, Scoring

Indices = NDArray[np.int64]
Matches = NDArray[np.int64]
Columns = NDArray[np.int32]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

def best_scores(pairs: Pairs, scoring: Scoring, chosen: Indices, values: Vector, /) -> None:
    """Find the score of the best alignment of each pair chosen[r]."""

def best_paths(
    pairs: Pairs,
    scoring: Scoring,
    chosen: Indices,
    gains: Vector,
    clamped: bool,
    matches: Matches,
    pointers: Indices,
    values: Vector,
    /,
) -> None:
    """Find the best path of each pair chosen[r], where matches near the reference lose gains[r].

    Matches r are matches[pointers[r] : pointers[r+1]], ascending, and values[r] is the score of their path. With
    `clamped` a path must contain all matches of the reference.
    """

def count_hits(
    pairs: Pairs, chosen: Indices, matches: Matches, pointers: Indices, tolerance: int, hits: Vector, /
) -> None:
    """Count the matches of each pair chosen[r] that are within the tolerance of the reference."""

def path_atoms(
    pairs: Pairs,
    numbering: Numbering,
    chosen: Indices,
    matches: Matches,
    pointers: Indices,
    local: bool,
    ends: Indices,
    row: Columns,
    column: Columns,
    value: Vector,
    /,
) -> None:
    """Write the features of each pair's path as atoms ends[r] … ends[r+1]; gaps are negative, costs positive."""

def pool_together(
    pairs: Pairs,
    scoring: Scoring,
    chosen: Indices,
    gains: Vector,
    clamped: bool,
    hits: Vector,
    values: Vector,
    weights: Vector,
    cells: Vector,
    dense: Vector,
    gaps: Vector,
    /,
) -> None:
    """Pool all alignments of each pair, and add up expected counts times weights: cells, dense features, gaps.

    Values are log Z, and `hits` the expected numbers of matches within the tolerance of the reference.
    """

def pool_apart(
    pairs: Pairs,
    scoring: Scoring,
    chosen: Indices,
    gains: Vector,
    clamped: bool,
    hits: Vector,
    values: Vector,
    numbering: Numbering,
    ends: Indices,
    row: Columns,
    column: Columns,
    value: Vector,
    /,
) -> None:
    """Pool all alignments of each pair, and write expected features as atoms ends[r] … ends[r+1]."""

def pool_given(
    pairs: Pairs, scoring: Scoring, chosen: Indices, matches: Matches, pointers: Indices, out: Vector, /
) -> None:
    """Find the probability of each match; those of pair chosen[r] are matches[pointers[r] : pointers[r+1]]."""

def match_scores(pairs: Pairs, scoring: Scoring, k: int, out: Matrix, /) -> None:
    """Write the scores (A, B) of all matches of pair k."""

def pool_matches(pairs: Pairs, scoring: Scoring, chosen: Indices, out: Vector, /) -> None:
    """Write the match probabilities (A, B) of each chosen pair, one pair after the other."""
