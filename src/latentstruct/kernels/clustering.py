"""Correlation clustering: the partition of n items with the largest sum of pair scores inside its clusters.

Pairs are in condensed order, as in `latentstruct.kernels.pairs`; a pair's score may be negative. The problem is
NP-hard: up to `EXACT_ITEMS` items it is solved by dynamic programming over subsets, above by greedy merging and
moves of single items.
"""

import numpy as np

from latentstruct.kernels.jit import njit
from latentstruct.kernels.modes import AUGMENTED
from latentstruct.kernels.pairs import score_pairs
from latentstruct.kernels.planes import row_add

EXACT_ITEMS = 10
MOST_SWEEPS = 100


@njit
def partition_value(scores, labels):
    """Return the sum of the scores of all pairs with equal labels."""
    total, p = 0.0, 0
    for i in range(len(labels)):
        for j in range(i + 1, len(labels)):
            if labels[i] == labels[j]:
                total += scores[p]
            p += 1
    return total


@njit
def square(scores, n_items):
    """Return the pair scores as a symmetric matrix (n, n) with zeros on the diagonal."""
    matrix = np.zeros((n_items, n_items))
    p = 0
    for i in range(n_items):
        for j in range(i + 1, n_items):
            matrix[i, j] = matrix[j, i] = scores[p]
            p += 1
    return matrix


@njit
def partition_exactly(scores, labels):
    """Find the best partition by dynamic programming over subsets, 3^n steps.

    best[S] = max over T ⊆ S with the lowest item of S in T of inside[T] + best[S without T].
    """
    n_items = len(labels)
    matrix = square(scores, n_items)
    n_sets = 1 << n_items
    inside, best = np.zeros(n_sets), np.zeros(n_sets)
    choice = np.zeros(n_sets, dtype=np.int64)
    for members in range(1, n_sets):
        low = 0
        while not members >> low & 1:
            low += 1
        rest = members ^ (1 << low)
        inside[members] = inside[rest]
        for v in range(low + 1, n_items):
            if rest >> v & 1:
                inside[members] += matrix[low, v]
        best[members] = -np.inf
        others = rest
        while True:
            # `others` runs through all subsets of `rest`, the largest first.
            value = inside[others | 1 << low] + best[rest ^ others]
            if value > best[members]:
                best[members] = value
                choice[members] = others | 1 << low
            if others == 0:
                break
            others = (others - 1) & rest
    members, number = n_sets - 1, 0
    while members:
        for v in range(n_items):
            if choice[members] >> v & 1:
                labels[v] = number
        members ^= choice[members]
        number += 1


@njit
def best_of_row(sums, alive, row):
    """Return the living column with the largest sum in a row, or −1 if there is no other."""
    best = -1
    for column in range(len(alive)):
        if alive[column] and column != row and (best < 0 or sums[row, column] > sums[row, best]):
            best = column
    return best


@njit
def merge_greedily(scores, labels):
    """Merge the two clusters with the largest positive sum between them, from single items until none is left.

    `bound` of a cluster is at least its largest sum with another. It is looked up anew only where it is the highest
    and may be too high: most clusters never get there.
    """
    n_items = len(labels)
    sums = square(scores, n_items)
    alive, sure = np.ones(n_items, dtype=np.bool_), np.zeros(n_items, dtype=np.bool_)
    bound, partner = np.full(n_items, np.inf), np.zeros(n_items, dtype=np.int64)
    labels[:] = np.arange(n_items)
    while True:
        keep = -1
        for v in range(n_items):
            if alive[v] and (keep < 0 or bound[v] > bound[keep]):
                keep = v
        if not bound[keep] > 0.0:
            return
        gone = partner[keep]
        if not sure[keep]:
            partner[keep] = best_of_row(sums, alive, keep)
            bound[keep] = sums[keep, partner[keep]] if partner[keep] >= 0 else -np.inf
            sure[keep] = True
            continue
        alive[gone] = False
        sure[keep] = False
        bound[keep] = np.inf
        for v in range(n_items):
            sums[keep, v] += sums[gone, v]
            sums[v, keep] = sums[keep, v]
            if labels[v] == gone:
                labels[v] = keep
            if not alive[v] or v == keep:
                continue
            if sums[keep, v] >= bound[v]:
                bound[v], partner[v], sure[v] = sums[keep, v], keep, True
            elif partner[v] == keep or partner[v] == gone:
                sure[v] = False


@njit
def move_items(scores, labels):
    """Move single items to the cluster they fit best, or to one of their own, while that raises the value.

    sums[c, v] is the sum of the scores between item v and the members of cluster c.
    """
    n_items = len(labels)
    matrix = square(scores, n_items)
    sums = np.zeros((n_items, n_items))
    size = np.zeros(n_items, dtype=np.int64)
    for v in range(n_items):
        size[labels[v]] += 1
        sums[labels[v]] += matrix[v]
    # A gain that rounding could have made might be made for ever.
    least = 1e-10 * (np.abs(scores).max() if len(scores) else 0.0)
    for _ in range(MOST_SWEEPS):
        moved = False
        for v in range(n_items):
            here = labels[v]
            best, empty, highest = -1, -1, sums[here, v] + least
            for c in range(n_items):
                if size[c] == 0:
                    empty = c
                elif c != here and sums[c, v] > highest:
                    best, highest = c, sums[c, v]
            if size[here] > 1 and highest < 0.0:
                best = empty
                sums[empty] = 0.0
            if best < 0:
                continue
            sums[here] -= matrix[v]
            sums[best] += matrix[v]
            size[here] -= 1
            size[best] += 1
            labels[v] = best
            moved = True
        if not moved:
            return


@njit
def number_labels(labels):
    """Renumber labels from 0 … n − 1 by first appearance, in place."""
    number = np.full(len(labels), -1, dtype=np.int64)
    used = 0
    for v in range(len(labels)):
        if number[labels[v]] < 0:
            number[labels[v]] = used
            used += 1
        labels[v] = number[labels[v]]


@njit
def cluster(scores, truth, labels):
    """Leave a good partition in `labels`, the best one up to `EXACT_ITEMS` items.

    A known `truth` (else of length 0) is a second start: what is found is then never worse than it.
    """
    if len(labels) <= EXACT_ITEMS:
        partition_exactly(scores, labels)
        number_labels(labels)
        return
    merge_greedily(scores, labels)
    move_items(scores, labels)
    if len(truth):
        rival = truth.copy()
        move_items(scores, rival)
        if partition_value(scores, rival) > partition_value(scores, labels):
            labels[:] = rival
    number_labels(labels)


@njit
def clusterings(rows, row_of, known, w, documents, pairs, items, truth, mode, labels, values, losses):
    """Cluster each listed document (modes free and augmented).

    Layout as in `latentstruct.kernels.forest.forests`. The documents' labels are left one after the other in
    `labels`; values[k] = (1/P) Σ_{p inside} w·x_p + losses[k], where losses[k] is the share of the P pairs that are
    wrong (0 if free).
    """
    most = 0
    for t in documents:
        most = max(most, items[t + 1] - items[t])
    scores = np.empty(most * (most - 1) // 2)
    start = 0
    for k in range(len(documents)):
        t = documents[k]
        n_items, n_pairs = items[t + 1] - items[t], pairs[t + 1] - pairs[t]
        right = truth[items[t] : items[t + 1]] if mode == AUGMENTED else truth[:0]
        found = labels[start : start + n_items]
        score_pairs(rows, known, w, row_of[pairs[t] : pairs[t + 1]], n_items, right, mode, 1.0, scores)
        cluster(scores[:n_pairs], right, found)
        wrong, p, value = 0, 0, 0.0
        for i in range(n_items):
            for j in range(i + 1, n_items):
                together = found[i] == found[j]
                if mode == AUGMENTED and together != (right[i] == right[j]):
                    wrong += 1
                if together:
                    value += scores[p]
                    if mode == AUGMENTED:
                        value += 1.0 if right[i] == right[j] else -1.0
                p += 1
        losses[k] = wrong / n_pairs if n_pairs else 0.0
        values[k] = value / n_pairs + losses[k] if n_pairs else 0.0
        start += n_items


@njit
def inside_pairs(documents, items, labels, out):
    """out[k] = number of pairs with equal labels in each listed document; labels as `clusterings` leaves them."""
    start = 0
    for k in range(len(documents)):
        n_items = items[documents[k] + 1] - items[documents[k]]
        size = np.zeros(n_items, dtype=np.int64)
        for v in range(start, start + n_items):
            size[labels[v]] += 1
        out[k] = (size * (size - 1) // 2).sum()
        start += n_items


@njit
def partition_atoms(rows, row_of, documents, pairs, items, labels, counts, n_features, pointers, atoms):
    """Write the slopes (1/P) Σ_{p inside} x_p: an atom for each pair, or for each weight if these are fewer."""
    slope = np.empty(n_features)
    pointers[0] = 0
    start = 0
    for k in range(len(documents)):
        t = documents[k]
        n_items, n_pairs = items[t + 1] - items[t], pairs[t + 1] - pairs[t]
        slope[:] = 0.0
        end, p = pointers[k], pairs[t]
        by_weights = counts[k] > n_features
        for i in range(start, start + n_items):
            for j in range(i + 1, start + n_items):
                if labels[i] == labels[j]:
                    if by_weights:
                        row_add(rows.indptr, rows.places, rows.data, row_of[p], 0, 1.0 / n_pairs, slope)
                    else:
                        atoms.row[end], atoms.column[end], atoms.value[end] = row_of[p], 0, 1.0 / n_pairs
                        end += 1
                p += 1
        if by_weights:
            for f in range(n_features):
                if slope[f] != 0.0:
                    atoms.row[end], atoms.column[end], atoms.value[end] = -1, f, slope[f]
                    end += 1
        pointers[k + 1] = end
        start += n_items
