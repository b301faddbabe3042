"""Sums over all alignments of a pair: log Z, the probability of each match, expected counts of gaps.

All scores are divided by the temperature beforehand. Two ways lead to the same numbers. In the *linear* domain a path
has the weight exp(score), and nothing is rescaled. Local paths may start and end at any match with weight 1, so that
whatever underflows beside them does not count; global paths are brought into the same situation by a gain of `extend`
for each letter read, after which a gap may go on for nothing (`Linear.gain` puts this right in log Z). Where weights
are too large for this, or a path is held to known matches, messages are kept as *logarithms*.
"""

import math
from typing import NamedTuple

import numpy as np

from latentstruct.kernels.alignment import add_feature, forced_rows, match_row
from latentstruct.kernels.jit import inlined, njit

LARGEST_SUM = 1e200
"""Largest Z of the linear domain. A step weighs exp(−100) at least, and no message is more than about two steps away
from a whole path, so that all messages are below 1e300 then."""
NEGLIGIBLE = 1e-20


class Linear(NamedTuple):
    """Weights of steps in the linear domain; `start` is 1 if alignments are local, else 0.

    `usable` is False where some weight is too large or too small for this domain.
    """

    tables: np.ndarray  # exp of Scoring.tables
    open: float
    extend: float
    start: float
    gain: float
    usable: bool


@inlined
def weight_row(pairs, scoring, linear, k, i, gain, out):
    """Write exp(s(i, j)) of all j; matches within the tolerance of the reference lose `gain`."""
    first, width = pairs.first_b[k], pairs.first_b[k + 1] - pairs.first_b[k]
    tables = linear.tables
    out[:] = 0.0
    for q in range(scoring.dense.shape[0]):
        factor = scoring.dense[q] * pairs.left[i, q]
        if factor != 0.0:
            right = pairs.right[q, first : first + width]
            for j in range(width):
                out[j] += factor * right[j]
    for j in range(width):
        out[j] = math.exp(out[j]) if scoring.dense.shape[0] > 0 else 1.0
    for g in range(pairs.starts.shape[0]):
        start, codes = pairs.starts[g, i], pairs.codes[g, first : first + width]
        for j in range(width):
            out[j] *= tables[start + codes[j]]
    partner = pairs.partner[i]
    if gain != 0.0 and partner >= 0:
        factor = math.exp(-gain)
        for j in range(max(0, partner - scoring.tolerance), min(width, partner + scoring.tolerance + 1)):
            out[j] *= factor


@njit
def forward_linear(pairs, scoring, linear, k, gain, height, width, M, D, I, weights):
    """Fill the sums of all paths into each state, flat tables of A + 1 rows of B + 1; return Z."""
    gap, more, start = linear.open, linear.extend, linear.start
    total, span = start, width + 1
    M[:span] = 0.0
    D[:span] = 0.0
    I[0], M[0] = 0.0, 1.0 - start
    for j in range(1, span):
        I[j] = gap * M[j - 1] + more * I[j - 1]
    for i in range(1, height + 1):
        weight_row(pairs, scoring, linear, k, pairs.first_a[k] + i - 1, gain, weights)
        here, behind = i * span, (i - 1) * span
        m, d, inserted = M[behind:here], D[behind:here], I[behind:here]
        matched, deleted, insert = M[here : here + span], D[here : here + span], I[here : here + span]
        for j in range(span):
            deleted[j] = gap * m[j] + more * d[j]
        matched[0] = 0.0
        for j in range(width):
            matched[j + 1] = weights[j] * (start + m[j] + d[j] + inserted[j])
        run = 0.0
        for j in range(span):
            insert[j] = run
            run = gap * (matched[j] + deleted[j]) + more * run
            total += start * matched[j]
    last = (height + 1) * span - 1
    return total if start > 0.0 else M[last] + D[last] + I[last]


@njit
def backward_linear(pairs, scoring, linear, k, gain, height, width, total, M, D, I, room):
    """Replace M by the probability of each match; return the expected numbers of opened gaps and of further letters."""
    gap, more, start = linear.open, linear.extend, linear.start
    span, share = width + 1, 1.0 / total
    weights, ahead, after_m, after_d = room[0, :width], room[1, :span], room[2, :span], room[3, :span]
    after_i, opened, longer = room[4, : span + 1], room[5, :span], room[6, :span]
    for j in range(span):
        ahead[j], after_m[j], after_d[j], opened[j], longer[j] = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(height, -1, -1):
        if i < height:
            weight_row(pairs, scoring, linear, k, pairs.first_a[k] + i, gain, weights)
            for j in range(width):
                ahead[j] = weights[j] * after_m[j + 1]
        corner = 1.0 - start if i == height else 0.0
        after_i[span] = 0.0
        run = corner
        after_i[width] = run
        for j in range(width - 1, -1, -1):
            run = ahead[j] + more * run
            after_i[j] = run
        m, d, inserted = (M[i * span : (i + 1) * span], D[i * span : (i + 1) * span], I[i * span : (i + 1) * span])
        for j in range(span):
            opened[j] += m[j] * after_d[j] + (m[j] + d[j]) * after_i[j + 1]
            longer[j] += d[j] * after_d[j] + inserted[j] * after_i[j + 1]
        for j in range(span):
            after_m[j] = start + ahead[j] + gap * (after_d[j] + after_i[j + 1])
        for j in range(span):
            after_d[j] = ahead[j] + more * after_d[j] + gap * after_i[j + 1]
        after_m[width] += corner
        after_d[width] += corner
        for j in range(span):
            m[j] *= after_m[j] * share
    return gap * opened.sum() / total, more * longer.sum() / total


@njit
def log_add(a, b):
    """Return log(exp a + exp b)."""
    high, low = (a, b) if a > b else (b, a)
    return high + math.log1p(math.exp(low - high)) if low > -np.inf else high


@njit
def forward_log(pairs, scoring, k, gain, clamped, height, width, M, D, I, scores):
    """Fill the logarithms of the sums of all paths into each state; return log Z."""
    gap, more, local = scoring.open, scoring.extend, scoring.floor == 0.0
    first, last = forced_rows(pairs, k, clamped)
    span = width + 1
    for j in range(span):
        M[j], D[j], I[j] = -np.inf, -np.inf, -np.inf if local else -gap - (j - 1) * more
    if not local:
        M[0], I[0] = 0.0, -np.inf
    total = 0.0 if local and last < 0 else -np.inf
    for i in range(1, height + 1):
        position = pairs.first_a[k] + i - 1
        match_row(pairs, scoring, k, position, gain, scores)
        start = scoring.floor if i - 1 <= first else -np.inf
        here, behind = i * span, (i - 1) * span
        for j in range(span):
            D[here + j] = log_add(M[behind + j] - gap, D[behind + j] - more)
        M[here], I[here] = -np.inf, -np.inf
        for j in range(width):
            before = log_add(log_add(M[behind + j], D[behind + j]), log_add(I[behind + j], start))
            M[here + j + 1] = scores[j] + before
        if clamped and pairs.partner[position] >= 0:
            keep_forced(M[here : here + span], D[here : here + span], pairs.partner[position])
        for c in range(here, here + width):
            I[c + 1] = log_add(log_add(M[c], D[c]) - gap, I[c] - more)
        if local and i - 1 >= last:
            for c in range(here + 1, here + span):
                total = log_add(total, M[c])
    c = (height + 1) * span - 1
    return total if local else log_add(log_add(M[c], D[c]), I[c])


@inlined
def keep_forced(matched, deleted, forced):
    """Forbid all states of a row but the match with its partner."""
    kept = matched[forced + 1]
    matched[:] = -np.inf
    deleted[:] = -np.inf
    matched[forced + 1] = kept


@inlined
def divide_mass(mass, a, b, c):
    """Return the parts of a probability that go to three logarithms of weights, not all of them −inf."""
    high = max(a, b, c)
    x, y, z = math.exp(a - high), math.exp(b - high), math.exp(c - high)
    share = mass / (x + y + z)
    return share * x, share * y, share * z


@inlined
def weigh_ends(M, first, stop, empty):
    """Return the highest of the ends M[first:stop] of local paths, and the sum of all weights measured against it.

    `empty` tells whether the path without matches is among them. At 1e20 log Z itself would be too coarse for this.
    """
    high = 0.0 if empty else -np.inf
    for c in range(first, stop):
        high = max(high, M[c])
    total = math.exp(-high) if empty else 0.0
    for c in range(first, stop):
        total += math.exp(M[c] - high)
    return high, total


@njit
def backward_log(pairs, scoring, k, clamped, height, width, M, D, I, room):
    """Replace M by the probability of each match; return the expected numbers of opened gaps and of further letters.

    From the ends of paths back to their beginnings each state hands its probability on to those before it.
    """
    gap, more, local = scoring.open, scoring.extend, scoring.floor == 0.0
    first, last = forced_rows(pairs, k, clamped)
    span, corner = width + 1, (height + 1) * (width + 1) - 1
    matched, deleted, inserted = room[1, :span], room[2, :span], room[3, :span]
    next_matched, next_deleted, next_inserted = room[4, :span], room[5, :span], room[6, :span]
    room[1:] = 0.0
    opened, longer, ends = 0.0, 0.0, max(last + 1, 1)
    high, total = weigh_ends(M, ends * span, corner + 1, last < 0) if local else (0.0, 1.0)
    if not local:
        matched[width], deleted[width], inserted[width] = divide_mass(1.0, M[corner], D[corner], I[corner])
    for i in range(height, -1, -1):
        here, behind = i * span, (i - 1) * span
        if local and i >= ends:
            for j in range(1, span):
                matched[j] += math.exp(M[here + j] - high) / total
        for j in range(width, 0, -1):
            if inserted[j] > 0.0:
                c = here + j - 1
                m, d, again = divide_mass(inserted[j], M[c] - gap, D[c] - gap, I[c] - more)
                matched[j - 1] += m
                deleted[j - 1] += d
                inserted[j - 1] += again
                opened += m + d
                longer += again
        M[here : here + span] = matched
        start = scoring.floor if i - 1 <= first else -np.inf
        next_matched[:] = 0.0
        next_deleted[:] = 0.0
        next_inserted[:] = 0.0
        for j in range(span if i > 0 else 0):
            c = behind + j
            if deleted[j] > 0.0:
                m, d, _ = divide_mass(deleted[j], M[c] - gap, D[c] - more, -np.inf)
                next_matched[j] += m
                next_deleted[j] += d
                opened += m
                longer += d
            if j < width and matched[j + 1] > 0.0:
                m, d, rest = divide_mass(matched[j + 1], M[c], D[c], log_add(I[c], start))
                next_matched[j] += m
                next_deleted[j] += d
                if I[c] > -np.inf:
                    next_inserted[j] += divide_mass(rest, I[c], start, -np.inf)[0]
        matched[:] = next_matched
        deleted[:] = next_deleted
        inserted[:] = next_inserted
    return opened, longer


@njit
def pool_pair(pairs, scoring, linear, k, gain, clamped, M, D, I, room, gaps):
    """Pool all alignments of pair k; return log Z.

    M becomes the probabilities of matches, flat with A + 1 rows of B + 1, and `gaps` the expected numbers of opened
    gaps and of further letters.
    """
    height, width = pairs.first_a[k + 1] - pairs.first_a[k], pairs.first_b[k + 1] - pairs.first_b[k]
    total = 0.0
    # A gap along a single letter leads nowhere, so that it may overflow without being seen in Z.
    if linear.usable and not clamped and min(height, width) > 1:
        total = forward_linear(pairs, scoring, linear, k, gain, height, width, M, D, I, room[0, :width])
    if 0.0 < total < LARGEST_SUM:
        gaps[0], gaps[1] = backward_linear(pairs, scoring, linear, k, gain, height, width, total, M, D, I, room)
        return math.log(total) - linear.gain * (height + width)
    value = forward_log(pairs, scoring, k, gain, clamped, height, width, M, D, I, room[0, :width])
    gaps[0], gaps[1] = backward_log(pairs, scoring, k, clamped, height, width, M, D, I, room)
    return value


@inlined
def make_room(pairs, chosen):
    """Return work space for the largest of the chosen pairs."""
    widest, largest = 0, 0
    for k in chosen:
        height, width = pairs.first_a[k + 1] - pairs.first_a[k], pairs.first_b[k + 1] - pairs.first_b[k]
        widest, largest = max(widest, width), max(largest, (height + 1) * (width + 1))
    return np.empty(largest), np.empty(largest), np.empty(largest), np.empty((7, widest + 2))


@inlined
def expected_hits(pairs, scoring, k, shares):
    """Return the expected number of matches within the tolerance of the reference."""
    hits, first = 0.0, pairs.first_a[k]
    span = pairs.first_b[k + 1] - pairs.first_b[k] + 1
    for i in range(pairs.first_a[k + 1] - first):
        partner = pairs.partner[first + i]
        if partner >= 0:
            for j in range(max(0, partner - scoring.tolerance), min(span - 1, partner + scoring.tolerance + 1)):
                hits += shares[(i + 1) * span + j + 1]
    return hits


@inlined
def count_cells(pairs, k, shares, weight, cells, dense):
    """Add weight·P(i, j) to the cells that the match (i, j) looks up, and to the expected dense features."""
    first_a, first_b = pairs.first_a[k], pairs.first_b[k]
    width = pairs.first_b[k + 1] - first_b
    for i in range(pairs.first_a[k + 1] - first_a):
        line = shares[(i + 1) * (width + 1) + 1 : (i + 2) * (width + 1)]
        for g in range(pairs.starts.shape[0]):
            start, codes = pairs.starts[g, first_a + i], pairs.codes[g, first_b : first_b + width]
            for j in range(width):
                # Most matches are next to impossible; adding those would take most of the time.
                if line[j] > NEGLIGIBLE:
                    cells[start + codes[j]] += weight * line[j]
        for q in range(dense.shape[0]):
            if pairs.left[first_a + i, q] != 0.0:
                mass = 0.0
                for j in range(width):
                    mass += line[j] * pairs.right[q, first_b + j]
                dense[q] += weight * pairs.left[first_a + i, q] * mass


@njit
def pool_together(pairs, scoring, linear, chosen, gains, clamped, hits, values, weights, cells, dense, gaps):
    """Add up the expected counts of all chosen pairs, times their weights: cells of tables, dense features, gaps."""
    M, D, I, room = make_room(pairs, chosen)
    both = np.empty(2)
    for r in range(chosen.shape[0]):
        k = chosen[r]
        values[r] = pool_pair(pairs, scoring, linear, k, gains[r], clamped, M, D, I, room, both)
        count_cells(pairs, k, M, weights[r], cells, dense)
        gaps[0] += weights[r] * both[0]
        gaps[1] += weights[r] * both[1]
        hits[r] = expected_hits(pairs, scoring, k, M)


@njit
def pool_apart(pairs, scoring, linear, chosen, gains, clamped, hits, values, numbering, ends, atoms):
    """Write the expected features of each chosen pair as atoms ends[r] … ends[r+1]."""
    M, D, I, room = make_room(pairs, chosen)
    both, dense = np.empty(2), np.empty(numbering.dense.shape[0])
    cells = np.zeros(numbering.cells[-1])
    counts, seen = np.empty(numbering.n_weights), np.full(numbering.n_weights, -1)
    columns = np.empty(numbering.n_weights, dtype=np.int64)
    ends[0] = 0
    for r in range(chosen.shape[0]):
        values[r] = pool_pair(pairs, scoring, linear, chosen[r], gains[r], clamped, M, D, I, room, both)
        cells[:] = 0.0
        dense[:] = 0.0
        count_cells(pairs, chosen[r], M, 1.0, cells, dense)
        hits[r] = expected_hits(pairs, scoring, chosen[r], M)
        n = 0
        for g in range(numbering.each.shape[0]):
            for c in range(numbering.cells[g], numbering.cells[g + 1]):
                if cells[c] != 0.0:
                    first = numbering.at[g] + (c - numbering.cells[g]) * numbering.each[g]
                    for t in range(first, first + numbering.each[g]):
                        n = add_feature(numbering.numbers[t], cells[c], counts, seen, r, columns, n)
        for q in range(dense.shape[0]):
            n = add_feature(numbering.dense[q], dense[q], counts, seen, r, columns, n)
        for kind in range(2):
            n = add_feature(numbering.n_weights - 2 + kind, -both[kind], counts, seen, r, columns, n)
        for c in range(n):
            a = ends[r] + c
            atoms.row[a], atoms.column[a], atoms.value[a] = -1, columns[c], counts[columns[c]]
        ends[r + 1] = ends[r] + n


@njit
def pool_given(pairs, scoring, linear, chosen, matches, pointers, out):
    """out[m] = the probability of match m; those of pair chosen[r] are matches[pointers[r] : pointers[r+1]]."""
    M, D, I, room = make_room(pairs, chosen)
    both = np.empty(2)
    for r in range(chosen.shape[0]):
        k = chosen[r]
        pool_pair(pairs, scoring, linear, k, 0.0, False, M, D, I, room, both)
        span = pairs.first_b[k + 1] - pairs.first_b[k] + 1
        for m in range(pointers[r], pointers[r + 1]):
            out[m] = M[(matches[m, 0] + 1) * span + matches[m, 1] + 1]


@njit
def pool_matches(pairs, scoring, linear, chosen, pointers, out):
    """Write the match probabilities (A, B) of each chosen pair to out[pointers[r] : pointers[r+1]]."""
    M, D, I, room = make_room(pairs, chosen)
    both = np.empty(2)
    for r in range(chosen.shape[0]):
        k = chosen[r]
        pool_pair(pairs, scoring, linear, k, 0.0, False, M, D, I, room, both)
        width, at = pairs.first_b[k + 1] - pairs.first_b[k], pointers[r]
        for i in range(pairs.first_a[k + 1] - pairs.first_a[k]):
            for j in range(width):
                out[at + i * width + j] = M[(i + 1) * (width + 1) + j + 1]
