"""Pairs of a document's items: equal rows are kept once, and scored once.

Pairs i < j of n items are numbered in condensed order (0,1), (0,2), …, (1,2), …; pair p has the input row row_of[p] and
the score s_p = w·x_{row_of[p]}. Indicator features give millions of pairs a few ten thousand distinct rows.
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
def distinct_rows(indptr, places, bits, row_of, first):
    """Number the distinct rows by first appearance.

    row_of[r] is the number of row r, and first[u] the first row with number u; `bits` are the values as integers, none
    if all are 1. Returns how many there are.
    """
    n_rows = len(indptr) - 1
    size = 1
    while size < 2 * n_rows:
        size *= 2
    table = np.full(size, -1, dtype=np.int32)
    found = 0
    for r in range(n_rows):
        code = np.uint64(indptr[r + 1] - indptr[r])
        for k in range(indptr[r], indptr[r + 1]):
            code = (code ^ np.uint64(places[k])) * np.uint64(0x9E3779B97F4A7C15)
            if len(bits):
                code = (code ^ bits[k]) * np.uint64(0xC2B2AE3D27D4EB4F)
            code ^= code >> np.uint64(29)
        slot = np.int64(code & np.uint64(size - 1))
        while table[slot] >= 0 and not same_row(indptr, places, bits, first[table[slot]], r):
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot] = found
            first[found] = r
            found += 1
        row_of[r] = table[slot]
    return found


@njit
def same_row(indptr, places, bits, a, b):
    """Tell whether two rows are equal, bit by bit."""
    length = indptr[a + 1] - indptr[a]
    if indptr[b + 1] - indptr[b] != length:
        return False
    for k in range(length):
        if places[indptr[a] + k] != places[indptr[b] + k]:
            return False
        if len(bits) and bits[indptr[a] + k] != bits[indptr[b] + k]:
            return False
    return True


@njit
def score_rows(rows, w, out):
    """out[r] = w·x_r."""
    for r in range(len(out)):
        out[r] = row_dot(rows.indptr, rows.places, rows.data, r, 0, w)


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
