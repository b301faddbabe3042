import numpy as np
from numpy.typing import NDArray

from latentstruct.tasks.motif.layout import Layout, Tables

Letters = NDArray[np.uint8]
Indices = NDArray[np.int64]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

def number_letters(
    bases: Letters, offsets: Indices, size: int, order: int, codes: Letters, contexts: NDArray[np.uint16], /
) -> None:
    """Fill in the numbers of the f letters that begin, and of the order + 1 letters that end, at each position.

    f is the largest number with size^f ≤ 256: that many letters are looked up at once.
    """

def fold_matrix(matrix: Matrix, /) -> Matrix:
    """Return tables (⌈l/f⌉, a^f) of the summed scores of f letters at a time of a matrix (l, a)."""

def best_windows(
    layout: Layout, tables: Tables, width: int, rows: Indices, values: Vector, starts: Indices, strands: Indices, /
) -> None:
    """Find value, flat start and strand of the highest window of each row."""

def pooled_windows(
    layout: Layout, tables: Tables, width: int, rows: Indices, temperature: float, order: float, values: Vector, /
) -> None:
    """Pool each row's windows at a temperature, or by Rényi entropy if an order above 0 is given."""

def all_scores(layout: Layout, tables: Tables, width: int, example: int, starts: Indices, /) -> Matrix:
    """Return the scores (strands, windows) of one example and leave the windows' flat starts in `starts`."""

def window_atoms(
    layout: Layout,
    width: int,
    states: int,
    starts: Indices,
    strands: Indices,
    factors: Vector,
    pointers: Indices,
    column: NDArray[np.int32],
    value: Vector,
    /,
) -> int:
    """Write the features of one window per plane times a factor; return the number of atoms."""

def pool_best_windows(
    layout: Layout,
    tables: Tables,
    width: int,
    rows: Indices,
    bonus: Matrix,
    temperature: float,
    values: Vector,
    positive: Vector,
    starts: Indices,
    strands: Indices,
    /,
) -> None:
    """Find the highest window of each row and pool its label with the negative one; arguments as in `soft_total`."""

def soft_total(
    layout: Layout,
    tables: Tables,
    width: int,
    rows: Indices,
    bonus: Matrix,
    temperatures: tuple[float, float],
    factors: Vector,
    values: Vector,
    positive: Vector,
    expected: Vector,
    /,
) -> None:
    """Pool windows and labels of each row and add factors[k] times its expected features to `expected` (d + 1,)."""

def soft_atoms(
    layout: Layout,
    tables: Tables,
    width: int,
    rows: Indices,
    bonus: Matrix,
    temperatures: tuple[float, float],
    order: float,
    values: Vector,
    positive: Vector,
    pointers: Indices,
    column: NDArray[np.int32],
    value: Vector,
    /,
) -> int:
    """Pool windows and labels of each row and write its expected features as atoms; return their number."""

def flank_counts(
    layout: Layout,
    tables: Tables,
    width: int,
    rows: Indices,
    log_odds: float,
    margin: int,
    counts: Matrix,
    carriers: Vector,
    /,
) -> float:
    """Add the expected letters around each row's window, if it has a site, to `counts` (l + 2·margin, a).

    `carriers` become the probabilities of a site. Return Σ_k ln(1 + odds · mean_h exp(score)).
    """

def word_counts(
    bases: Letters, offsets: Indices, rows: Indices, size: int, length: int, both: bool, once: bool, counts: Indices, /
) -> None:
    """Count the words of a length: all of them, or each once per sequence; with `both`, also reverse complements."""

def gibbs_sweep(
    layout: Layout,
    background: Vector,
    width: int,
    both: bool,
    rows: Indices,
    pseudo: Vector,
    uniforms: Vector,
    starts: Indices,
    strands: Indices,
    counts: Matrix,
    /,
) -> float:
    """Draw each row's window from its posterior given the windows of all others, and return Σ_k score."""

def shuffle_words(bases: Letters, offsets: Indices, size: int, length: int, seed: int, shuffled: Letters, /) -> None:
    """Shuffle each sequence such that its counts of words of a length are kept, uniformly among all such sequences."""

def scan_hits(
    letters: Letters,
    size: int,
    forward: NDArray[np.int32],
    reverse: NDArray[np.int32],
    width: int,
    least: int,
    begin: int,
    starts: Indices,
    strands: NDArray[np.int8],
    scores: NDArray[np.int32],
    /,
) -> tuple[int, int]:
    """Find windows that score `least` or more, from `begin` on; return where to go on, and the number of hits."""
