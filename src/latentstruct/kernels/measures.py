"""Outputs of the highest loss and score together, for losses that judge a whole set of examples at once.

A set has p positive and q negative examples. A labelling counts by its table: `a` positives and `b` negatives are
labelled positive, and the best ones to take are those of the highest scores. So ``positive_sums`` (p + 1,) and
``negative_sums`` (q + 1,) hold the sums of the 0, 1, 2, … highest scores of each class, scaled as they enter. A ranking
counts by the pairs of a positive and a negative example that it swaps.
"""

import numpy as np

from latentstruct.kernels.jit import inlined, njit


@njit
def best_f_table(positive_sums, negative_sums, beta_squared):
    """Return the table (a, b) of the highest 1 − (1 + β²)a / (β²p + a + b) + positive_sums[a] + negative_sums[b].

    For one `a` loss and sum are concave in b, so that the first b whose step up gains nothing is found by halving:
    O(p log q).
    """
    p, q = positive_sums.shape[0] - 1, negative_sums.shape[0] - 1
    best, best_a, best_b = -np.inf, 0, 0
    for a in range(p + 1):
        hits, fixed = (1.0 + beta_squared) * a, beta_squared * p + a
        low, high = 0, q
        while low < high:
            b = (low + high) // 2
            gain = hits / ((fixed + b) * (fixed + b + 1.0)) + negative_sums[b + 1] - negative_sums[b]
            if gain > 0.0:
                low = b + 1
            else:
                high = b
        value = 1.0 - hits / (fixed + low) + positive_sums[a] + negative_sums[low]
        if value > best:
            best, best_a, best_b = value, a, low
    return best_a, best_b


@njit
def best_selection(positive_sums, negative_sums, size, price):
    """Return the `a` of the highest positive_sums[a] + negative_sums[size − a] − price·a; size is from 0 to p + q."""
    p, q = positive_sums.shape[0] - 1, negative_sums.shape[0] - 1
    best, best_a = -np.inf, 0
    for a in range(max(0, size - q), min(size, p) + 1):
        value = positive_sums[a] + negative_sums[size - a] - price * a
        if value > best:
            best, best_a = value, a
    return best_a


@njit
def best_listed_table(losses, positive_sums, negative_sums):
    """Return the table (a, b) of the highest losses[a, b] + positive_sums[a] + negative_sums[b]."""
    best, best_a, best_b = -np.inf, 0, 0
    for a in range(losses.shape[0]):
        for b in range(losses.shape[1]):
            value = losses[a, b] + positive_sums[a] + negative_sums[b]
            if value > best:
                best, best_a, best_b = value, a, b
    return best_a, best_b


@njit
def label_highest(scores, rows, descending, count, high, low, coefficients):
    """coefficients[r] = high for the `count` rows r of the highest scores, low for the others; ties by their place.

    scores is (n,), rows (m,) lists the rows of one class, descending (m,) their scores in order.
    """
    lowest, tied = np.inf, 0
    if count > 0:
        lowest = descending[count - 1]
        while tied < count and descending[count - 1 - tied] == lowest:
            tied += 1
    for r in rows:
        taken = scores[r] > lowest
        if scores[r] == lowest and tied > 0:
            taken = True
            tied -= 1
        coefficients[r] = high if taken else low


@njit
def count_swapped(positives, negatives, margin, before, after):
    """before[i] = negatives, after[j] = positives with which i or j makes a pair p_i − q_j < margin; return their sum.

    Both lists of scores descend. Both sweeps decide by the same difference, which rounding leaves monotone in both
    scores: no pair is counted for one of its examples only.
    """
    p, q = positives.shape[0], negatives.shape[0]
    total, reached = 0, 0
    for i in range(p):
        while reached < q and positives[i] - negatives[reached] < margin:
            reached += 1
        before[i] = reached
        total += reached
    reached = p
    for j in range(q - 1, -1, -1):
        while reached > 0 and positives[reached - 1] - negatives[j] < margin:
            reached -= 1
        after[j] = p - reached
    return total


@inlined
def place_value(place, rank, positives, sums, score, harmonic, loss_weight, n_pairs):
    """Return what it is worth to put the negative number `rank` (from 1) before the positives `place`, …, p − 1.

    Before the k-th positive (from 1) it costs precision k/(k + rank − 1) − k/(k + rank), which is
    rank/(k + rank) − (rank − 1)/(k + rank − 1): over k a difference of harmonic numbers.
    """
    p = positives.shape[0]
    lost = rank * (harmonic[p + rank] - harmonic[place + rank])
    lost -= (rank - 1) * (harmonic[p + rank - 1] - harmonic[place + rank - 1])
    return loss_weight * lost + ((p - place) * score - (sums[p] - sums[place])) / n_pairs


@njit
def best_places(positives, negatives, harmonic, loss_weight, places):
    """places[j] = number of positives before the negative j in the ranking of the highest loss and score.

    Both lists of scores descend, harmonic (p + q + 1,) holds 0, 1, 1 + 1/2, …; loss_weight is 1/p, or 0 for the score
    alone. What a place before the k-th positive gains falls from each negative to the next: the best places ascend,
    each negative is placed without regard to the others, and those between two placed ones only look between them.
    """
    p, q = positives.shape[0], negatives.shape[0]
    sums = np.zeros(p + 1)
    for i in range(p):
        sums[i + 1] = sums[i] + positives[i]
    n_pairs = float(p) * q
    stride = 1
    while 2 * stride <= q:
        stride *= 2
    while stride > 0:
        for j in range(stride - 1, q, 2 * stride):
            low = places[j - stride] if j >= stride else 0
            high = places[j + stride] if j + stride < q else p
            best = -np.inf
            chosen = low
            for place in range(low, high + 1):
                value = place_value(place, j + 1, positives, sums, negatives[j], harmonic, loss_weight, n_pairs)
                if value > best:
                    best, chosen = value, place
            places[j] = chosen
        stride //= 2


@njit
def count_placed(places, before):
    """before[i] = number of negatives before the positive i; return the mean of (i + 1) / (i + 1 + before[i])."""
    p, q = before.shape[0], places.shape[0]
    precision, reached = 0.0, 0
    for i in range(p):
        while reached < q and places[reached] <= i:
            reached += 1
        before[i] = reached
        precision += (i + 1.0) / (i + 1.0 + reached)
    return precision / p


@njit
def add_selected_rows(matrix, rows, coefficients, out):
    """Out += Σ coefficients[r]·matrix[r] over the listed rows r; matrix is (n, d), coefficients (n,)."""
    for r in rows:
        factor, row = coefficients[r], matrix[r]
        for f in range(row.shape[0]):
            out[f] += factor * row[f]
