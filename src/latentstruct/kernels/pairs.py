"""Scores of the pairs of a document's items.

Pairs i < j of n items are numbered in condensed order (0,1), (0,2), …, (1,2), …; pair p has the input row row_of[p] and
the score s_p = w·x_{row_of[p]}.
"""

import numpy as np

from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.modes import AUGMENTED, CLAMPED, FREE
from latentstruct.kernels.planes import row_dot


@inlined
def pair_number(i, j, n_items):
    """Return the number of the pair i < j."""
    return i * n_items - i * (i + 1) // 2 + j - i - 1


@njit
def score_pairs(rows, known, w, row_of, n_items, labels, mode, penalty, scores):
    """Write the score of each pair of one document, as its mode wants it, into `scores`.

    `known` are the scores of all rows, or nothing where too few pairs are asked for these to be worth while. Free: s_p;
    augmented: s_p − l with l = 1 inside a true cluster and −penalty across; clamped: s_p inside and −inf across, where
    nothing may be linked.
    """
    p = 0
    for i in range(n_items):
        for j in range(i + 1, n_items):
            inside = mode != FREE and labels[i] == labels[j]
            if mode == CLAMPED and not inside:
                scores[p] = -np.inf
            else:
                row = row_of[p]
                if len(known):
                    scores[p] = known[row]
                else:
                    scores[p] = row_dot(rows.indptr, rows.places, rows.data, row, 0, w)
                if mode == AUGMENTED:
                    scores[p] += -1.0 if inside else penalty
            p += 1
