"""Windows of DNA: scores of all of them in one pass, the best one, expected counts, random ones, enriched words.

Letters are A 0, C 1, G 2, T 3, N 4, so that 3 − a is the complement of a. The score of the window at h is

    Σ_j PSM_j(x_{h+j}) − Σ_{h ≤ i < h+l} BG(x_{i−o} … x_i)

with l the width and o the order of the background. Four letters are looked up at once: table c holds the summed
position-specific scores of the letters at h + 4c … h + 4c + 3. The other strand has its own tables, made from the
reversed and complemented matrix, and shares everything else.
"""

from typing import NamedTuple

import numpy as np

from latentstruct._native.motif import (
    UNKNOWN,
    all_scores,
    best_windows,
    flank_counts,
    fold_matrix,
    gibbs_sweep,
    number_letters,
    pool_best_windows,
    pooled_windows,
    soft_atoms,
    soft_total,
    window_atoms,
    word_counts,
)

__all__ = [
    "UNKNOWN",
    "Layout",
    "Tables",
    "all_scores",
    "best_windows",
    "flank_counts",
    "fold_matrix",
    "gibbs_sweep",
    "number_letters",
    "pool_best_windows",
    "pooled_windows",
    "soft_atoms",
    "soft_total",
    "window_atoms",
    "word_counts",
]


class Layout(NamedTuple):
    """Sequences laid end to end; sequence i holds the positions offsets[i] … offsets[i+1].

    Windows lie in runs of letters without N: run r has the windows that start at first[r] … stop[r] − 1, sequence i the
    runs runs[i] … runs[i+1] and windows[i+1] − windows[i] windows on each strand.
    """

    bases: np.ndarray  # (N,) uint8
    quads: np.ndarray  # (N,) uint8: the four letters from here on, N and letters past the end taken for A
    contexts: np.ndarray  # (N,) uint16: number of the (o+1)-mer that ends here, 4^(o+1) if it is not whole
    offsets: np.ndarray  # (n + 1,)
    runs: np.ndarray  # (n + 1,)
    first: np.ndarray
    stop: np.ndarray
    windows: np.ndarray  # (n + 1,)
    most: np.ndarray  # (2,): windows of the longest run, windows of the longest sequence


class Tables(NamedTuple):
    """Scores looked up while scanning; `reverse` has no rows if only one strand is read."""

    forward: np.ndarray  # (⌈l/4⌉, 256)
    reverse: np.ndarray  # (⌈l/4⌉, 256) or (0, 256)
    background: np.ndarray  # (4^(o+1) + 1,), the last is 0
