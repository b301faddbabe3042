"""Pairwise alignment with affine gaps: the best one of each pair, and the features of given ones.

A path visits states M (letters i and j matched), D (letter i of a against a gap) and I (letter j of b against a gap):

    M(i, j) = s(i, j) + max(M, D, I, start)(i−1, j−1)
    D(i, j) = max(M(i−1, j) − open, D(i−1, j) − extend)
    I(i, j) = max(M(i, j−1) − open, D(i, j−1) − open, I(i, j−1) − extend)

I is never followed by D, so that a set of matches has exactly one path. Global paths lead from corner to corner; local
ones start and end with a match anywhere, or are empty with score 0.

Row i of M and of D needs row i−1 only, and I is a running maximum of max(M, D) + extend·j: all loops but that one are
free of dependencies and run over several columns at once.
"""

from typing import NamedTuple

import numpy as np

from latentstruct.kernels.jit import inlined, njit

START, MATCH, DELETE, INSERT = 0, 1, 2, 3
DELETION_GOES_ON, INSERTION_GOES_ON, INSERTION_AFTER_DELETION = 4, 8, 16


class Pairs(NamedTuple):
    """Pairs of sequences laid end to end; the k-th has positions first_a[k] … first_a[k+1] and the same of b.

    The score of a match is Σ_g tables[starts[g, i] + codes[g, j]] + Σ_q dense[q]·left[i, q]·right[q, j].
    """

    starts: np.ndarray  # (G, A) uint64
    codes: np.ndarray  # (G, B) uint32
    left: np.ndarray  # (A, Q)
    right: np.ndarray  # (Q, B)
    first_a: np.ndarray  # (n + 1,)
    first_b: np.ndarray  # (n + 1,)
    partner: np.ndarray  # (A,): the position of b that the reference matches with this one of a, −1 if none


class Scoring(NamedTuple):
    """What a path scores: tables of matches, weights of dense features, costs of gaps.

    `floor` is the score of starting before any match, 0 if alignments are local and −inf if they are global.
    """

    tables: np.ndarray  # (cells,)
    dense: np.ndarray  # (Q,)
    open: float
    extend: float
    floor: float
    tolerance: int


@inlined
def match_row(pairs, scoring, k, i, gain, out):
    """Write s(i, j) of all j; matches within the tolerance of the reference lose `gain`."""
    first, width = pairs.first_b[k], pairs.first_b[k + 1] - pairs.first_b[k]
    for g in range(pairs.starts.shape[0]):
        start, codes, tables = pairs.starts[g, i], pairs.codes[g, first : first + width], scoring.tables
        if g == 0:
            for j in range(width):
                out[j] = tables[start + codes[j]]
        else:
            for j in range(width):
                out[j] += tables[start + codes[j]]
    for q in range(scoring.dense.shape[0]):
        factor = scoring.dense[q] * pairs.left[i, q]
        if factor != 0.0:
            right = pairs.right[q, first : first + width]
            for j in range(width):
                out[j] += factor * right[j]
    partner = pairs.partner[i]
    if gain != 0.0 and partner >= 0:
        for j in range(max(0, partner - scoring.tolerance), min(width, partner + scoring.tolerance + 1)):
            out[j] -= gain


@inlined
def first_row(scoring, matched, deleted, top):
    """Write row 0: nothing of a is read yet; what a global path has read of b is a gap."""
    for j in range(top.shape[0]):
        matched[j], deleted[j] = -np.inf, -np.inf
        top[j] = -np.inf
    if scoring.floor == -np.inf:
        matched[0], top[0] = 0.0, 0.0
        for j in range(1, top.shape[0]):
            top[j] = -scoring.open - (j - 1) * scoring.extend


@inlined
def forced_rows(pairs, k, clamped):
    """Return the first and the last position of a, from 0, whose partner is to be kept; (A, −1) if none is."""
    start, size = pairs.first_a[k], pairs.first_a[k + 1] - pairs.first_a[k]
    first, last = size, -1
    if clamped:
        for i in range(size):
            if pairs.partner[start + i] >= 0:
                first, last = min(first, i), i
    return first, last


@inlined
def advance(scoring, floor, forced, scores, matched, deleted, top, keys, runs):
    """Replace a row of M, of D and of their maximum with I by the next one; runs[j] is the best key left of j.

    A row that is `forced` to a partner ≥ 0 is matched with it and with nothing else.
    """
    gap, more = scoring.open, scoring.extend
    width = scores.shape[0]
    for j in range(width + 1):
        a, b = matched[j] - gap, deleted[j] - more
        deleted[j] = a if a > b else b
    matched[0] = -np.inf
    for j in range(width):
        before = top[j] if top[j] > floor else floor
        matched[j + 1] = scores[j] + before
    if forced >= 0:
        kept = matched[forced + 1]
        matched[:] = -np.inf
        deleted[:] = -np.inf
        matched[forced + 1] = kept
    for j in range(width + 1):
        a = matched[j] if matched[j] > deleted[j] else deleted[j]
        top[j] = a
        keys[j] = a + more * j
    run = -np.inf
    for j in range(width + 1):
        runs[j] = run
        run = keys[j] if keys[j] > run else run
    for j in range(width + 1):
        inserted = runs[j] - gap - more * (j - 1)
        top[j] = inserted if inserted > top[j] else top[j]


@njit
def best_scores(pairs, scoring, chosen, values):
    """values[r] = the score of the best alignment of pair chosen[r]."""
    widest = 0
    for k in chosen:
        widest = max(widest, pairs.first_b[k + 1] - pairs.first_b[k])
    room = np.empty((7, widest + 1))
    for r in range(chosen.shape[0]):
        k = chosen[r]
        width = pairs.first_b[k + 1] - pairs.first_b[k]
        scores, highs = room[0, :width], room[6, :width]
        matched, deleted, top = room[1, : width + 1], room[2, : width + 1], room[3, : width + 1]
        keys, runs = room[4, : width + 1], room[5, : width + 1]
        first_row(scoring, matched, deleted, top)
        highs[:] = 0.0
        for i in range(pairs.first_a[k], pairs.first_a[k + 1]):
            match_row(pairs, scoring, k, i, 0.0, scores)
            advance(scoring, scoring.floor, -1, scores, matched, deleted, top, keys, runs)
            for j in range(width):
                highs[j] = matched[j + 1] if matched[j + 1] > highs[j] else highs[j]
        values[r] = highs.max() if scoring.floor == 0.0 else top[width]


@inlined
def mark_deletions(scoring, matched, deleted, marks):
    """Begin the marks of a row with the origin of D, from the row before."""
    gap, more = scoring.open, scoring.extend
    for j in range(marks.shape[0]):
        marks[j] = DELETION_GOES_ON if deleted[j] - more > matched[j] - gap else 0


@inlined
def mark_origins(floor, matched, deleted, top, keys, runs, marks):
    """Add the origin of I, and the best state here or that a path starts behind this cell instead."""
    for j in range(1, marks.shape[0]):
        goes_on = INSERTION_GOES_ON if runs[j - 1] > keys[j - 1] else 0
        marks[j] |= goes_on | (INSERTION_AFTER_DELETION if deleted[j - 1] > matched[j - 1] else 0)
    for j in range(marks.shape[0]):
        state = MATCH if matched[j] >= top[j] else (DELETE if deleted[j] >= top[j] else INSERT)
        marks[j] |= state if top[j] > floor else START


@inlined
def mark_first_row(scoring, marks):
    """Mark row 0, where a global path can only have inserted letters of b."""
    for j in range(marks.shape[0]):
        marks[j] = (INSERT if j > 0 else MATCH) if scoring.floor == -np.inf else START
        marks[j] |= INSERTION_GOES_ON if j > 1 else 0


@njit
def fill_marks(pairs, scoring, k, gain, clamped, room, marks):
    """Fill the marks of pair k, row after row; return the value of the best path and its last cell, (0, 0) if none."""
    width, height = pairs.first_b[k + 1] - pairs.first_b[k], pairs.first_a[k + 1] - pairs.first_a[k]
    scores = room[0, :width]
    matched, deleted, top = room[1, : width + 1], room[2, : width + 1], room[3, : width + 1]
    keys, runs = room[4, : width + 1], room[5, : width + 1]
    highs, where = room[6, : width + 1], room[7, : width + 1]
    first, last = forced_rows(pairs, k, clamped)
    first_row(scoring, matched, deleted, top)
    mark_first_row(scoring, marks[: width + 1])
    highs[:] = -np.inf
    where[:] = 0.0
    for i in range(1, height + 1):
        position = pairs.first_a[k] + i - 1
        match_row(pairs, scoring, k, position, gain, scores)
        line = marks[i * (width + 1) : (i + 1) * (width + 1)]
        mark_deletions(scoring, matched, deleted, line)
        floor = scoring.floor if i - 1 <= first else -np.inf
        forced = pairs.partner[position] if clamped else -1
        advance(scoring, floor, forced, scores, matched, deleted, top, keys, runs)
        mark_origins(scoring.floor if i <= first else -np.inf, matched, deleted, top, keys, runs, line)
        if i - 1 >= last:
            for j in range(width + 1):
                where[j] = i if matched[j] > highs[j] else where[j]
                highs[j] = matched[j] if matched[j] > highs[j] else highs[j]
    if scoring.floor == -np.inf:
        return top[width], height, width
    j = np.argmax(highs)
    if last < 0 and not highs[j] > 0.0:
        return 0.0, 0, 0
    return highs[j], int(where[j]), j


@njit
def trace(marks, width, i, j, local, path):
    """Write the matches of the path that ends in cell (i, j), last one first; return their number."""
    n = 0
    state = MATCH if local else marks[i * (width + 1) + j] & 3
    while i > 0 or j > 0:
        mark = marks[i * (width + 1) + j]
        if state == MATCH:
            i, j = i - 1, j - 1
            path[n, 0], path[n, 1] = i, j
            n += 1
            state = marks[i * (width + 1) + j] & 3
            if state == START:
                break
        elif state == DELETE:
            state = DELETE if mark & DELETION_GOES_ON else MATCH
            i -= 1
        else:
            opened = DELETE if mark & INSERTION_AFTER_DELETION else MATCH
            state = INSERT if mark & INSERTION_GOES_ON else opened
            j -= 1
    return n


@njit
def best_paths(pairs, scoring, chosen, gains, clamped, matches, pointers, values):
    """Find the best path of each pair chosen[r], where matches near the reference lose gains[r].

    Matches r are matches[pointers[r] : pointers[r+1]], ascending, and values[r] is the score of their path. With
    `clamped` a path must contain all matches of the reference.
    """
    widest, highest = 0, 0
    for k in chosen:
        widest = max(widest, pairs.first_b[k + 1] - pairs.first_b[k])
        highest = max(highest, pairs.first_a[k + 1] - pairs.first_a[k])
    room = np.empty((8, widest + 1))
    marks = np.empty((highest + 1) * (widest + 1), dtype=np.uint8)
    path = np.empty((min(highest, widest), 2), dtype=np.int64)
    pointers[0] = 0
    for r in range(chosen.shape[0]):
        k = chosen[r]
        width = pairs.first_b[k + 1] - pairs.first_b[k]
        values[r], i, j = fill_marks(pairs, scoring, k, gains[r], clamped, room, marks)
        n = trace(marks, width, i, j, scoring.floor == 0.0, path)
        pointers[r + 1] = pointers[r] + n
        for m in range(n):
            matches[pointers[r + 1] - 1 - m, 0], matches[pointers[r + 1] - 1 - m, 1] = path[m, 0], path[m, 1]


@njit
def count_hits(pairs, chosen, matches, pointers, tolerance, hits):
    """hits[r] = how many matches of pair chosen[r] are within the tolerance of the reference."""
    for r in range(chosen.shape[0]):
        hits[r] = 0.0
        for m in range(pointers[r], pointers[r + 1]):
            partner = pairs.partner[pairs.first_a[chosen[r]] + matches[m, 0]]
            if partner >= 0 and abs(matches[m, 1] - partner) <= tolerance:
                hits[r] += 1.0


@inlined
def gap_counts(matches, height, width, local):
    """Return how many gaps are opened and how many letters they go on for."""
    opened, longer = 0.0, 0.0
    i, j = -1, -1
    for m in range(matches.shape[0] + 1):
        ends = m == matches.shape[0]
        after_i, after_j = (height, width) if ends else (matches[m, 0], matches[m, 1])
        if not (local and (m == 0 or ends)):
            for letters in (after_i - i - 1, after_j - j - 1):
                if letters > 0:
                    opened += 1.0
                    longer += letters - 1.0
        i, j = after_i, after_j
    return opened, longer


class Numbering(NamedTuple):
    """Which weights a cell of the tables stands for.

    Cell c of group g, one of cells[g] … cells[g+1], adds up the weights numbers[at[g] + (c − cells[g])·each[g] + …],
    each[g] of them.
    """

    cells: np.ndarray  # (G + 1,)
    at: np.ndarray  # (G,)
    each: np.ndarray  # (G,)
    numbers: np.ndarray  # int32
    dense: np.ndarray  # (Q,)
    n_weights: int


@inlined
def add_feature(column, value, counts, seen, stamp, columns, n):
    """Add to a sparse sum of features; return how many columns it has."""
    if seen[column] != stamp:
        seen[column], counts[column] = stamp, 0.0
        columns[n] = column
        n += 1
    counts[column] += value
    return n


@njit
def path_atoms(pairs, numbering, chosen, matches, pointers, local, ends, atoms):
    """Write the features of each pair's path as atoms ends[r] … ends[r+1]; gaps count negatively, costs positively."""
    counts, seen = np.empty(numbering.n_weights), np.full(numbering.n_weights, -1)
    columns = np.empty(numbering.n_weights, dtype=np.int64)
    ends[0] = 0
    for r in range(chosen.shape[0]):
        k, n = chosen[r], 0
        first_a, first_b = pairs.first_a[k], pairs.first_b[k]
        for m in range(pointers[r], pointers[r + 1]):
            i, j = first_a + matches[m, 0], first_b + matches[m, 1]
            for g in range(numbering.each.shape[0]):
                cell = np.int64(pairs.starts[g, i]) + np.int64(pairs.codes[g, j]) - numbering.cells[g]
                first = numbering.at[g] + cell * numbering.each[g]
                for t in range(first, first + numbering.each[g]):
                    n = add_feature(numbering.numbers[t], 1.0, counts, seen, r, columns, n)
            for q in range(numbering.dense.shape[0]):
                n = add_feature(numbering.dense[q], pairs.left[i, q] * pairs.right[q, j], counts, seen, r, columns, n)
        height, width = pairs.first_a[k + 1] - first_a, pairs.first_b[k + 1] - first_b
        opened, longer = gap_counts(matches[pointers[r] : pointers[r + 1]], height, width, local)
        n = add_feature(numbering.n_weights - 2, -opened, counts, seen, r, columns, n)
        n = add_feature(numbering.n_weights - 1, -longer, counts, seen, r, columns, n)
        end = ends[r]
        for c in columns[:n]:
            if counts[c] != 0.0:
                atoms.row[end], atoms.column[end], atoms.value[end] = -1, c, counts[c]
                end += 1
        ends[r + 1] = end
