"""Dynamic programming on chains: best labelling, log-partition function and marginals.

Scores are flat, (N, S) for all tokens of all sequences; sequence k has the rows offsets[k] … offsets[k+1]. All
unary terms (inputs, bias, start, end, loss) are already in the scores. u_t(y) is a unary score, A the (S, S)
transition scores, ε the temperature. A score of −inf forbids a label; at least one label of each token is allowed.
"""

import math
from typing import NamedTuple

import numpy as np

from latentstruct.kernels.jit import njit
from latentstruct.kernels.modes import AUGMENTED, FREE
from latentstruct.kernels.sparse import row_times_weights


class Blocks(NamedTuple):
    """Where the weights of labels begin; −1: there is no such block."""

    transitions: int
    bias: int
    start: int
    end: int


class LabelScores(NamedTuple):
    """What is added to products of inputs and weights, whatever the inputs are.

    `bias`, `start` and `end` are (S,), or empty if there is no such block. In the mode AUGMENTED costs[label, y] is
    added to the score of y, in the mode CLAMPED all y but the label are forbidden; a label of −1 adds and forbids
    nothing.
    """

    bias: np.ndarray
    start: np.ndarray
    end: np.ndarray
    costs: np.ndarray
    mode: int


@njit
def add_label_scores(scores, added, labels):
    """Add to the products (T, S) of one sequence what depends on label and place alone; `labels` (T,) if known."""
    length, n = scores.shape
    if added.bias.shape[0]:
        for t in range(length):
            for y in range(n):
                scores[t, y] += added.bias[y]
    if length:
        for y in range(added.start.shape[0]):
            scores[0, y] += added.start[y]
        for y in range(added.end.shape[0]):
            scores[length - 1, y] += added.end[y]
    if added.mode == FREE:
        return
    for t in range(length):
        if labels[t] < 0:
            continue
        if added.mode == AUGMENTED:
            for y in range(n):
                scores[t, y] += added.costs[labels[t], y]
        else:
            for y in range(n):
                if y != labels[t]:
                    scores[t, y] = -np.inf


@njit
def add_all_label_scores(scores, offsets, added, labels):
    """Add label scores to the products of all sequences."""
    for k in range(offsets.shape[0] - 1):
        part = slice(offsets[k], offsets[k + 1])
        add_label_scores(scores[part], added, labels[part])


@njit
def best_previous(previous, transitions, out):
    """out[y] = max_z previous[z] + A[z, y], four sources at a time so that loads are shared."""
    n = previous.shape[0]
    for y in range(n):
        out[y] = previous[0] + transitions[0, y]
    z = 1
    while z + 4 <= n:
        p0, p1, p2, p3 = previous[z], previous[z + 1], previous[z + 2], previous[z + 3]
        for y in range(n):
            a = p0 + transitions[z, y]
            b = p1 + transitions[z + 1, y]
            c = p2 + transitions[z + 2, y]
            d = p3 + transitions[z + 3, y]
            a = a if a > b else b
            c = c if c > d else d
            a = a if a > c else c
            out[y] = a if a > out[y] else out[y]
        z += 4
    while z < n:
        p0 = previous[z]
        for y in range(n):
            a = p0 + transitions[z, y]
            out[y] = a if a > out[y] else out[y]
        z += 1


@njit
def best_labelling(scores, transitions, best, arrive, labels):
    """Write the best labelling of one sequence; return its score, 0 if the sequence is empty.

    Only maxima are kept on the way forward; the source of each is found again on the way back, along one path
    only. Ties go to the lowest label. `best` (≥ T, S) and `arrive` (S,) are space to work in.
    """
    length, n = scores.shape
    if length == 0:
        return 0.0
    best[0] = scores[0]
    for t in range(1, length):
        best_previous(best[t - 1], transitions, arrive)
        for y in range(n):
            best[t, y] = arrive[y] + scores[t, y]
    y = 0
    for z in range(1, n):
        if best[length - 1, z] > best[length - 1, y]:
            y = z
    highest = best[length - 1, y]
    labels[length - 1] = y
    for t in range(length - 1, 0, -1):
        z_best, top = 0, best[t - 1, 0] + transitions[0, y]
        for z in range(1, n):
            value = best[t - 1, z] + transitions[z, y]
            if value > top:
                z_best, top = z, value
        y = z_best
        labels[t - 1] = y
    return highest


@njit
def longest_item(offsets):
    """Return the length of the longest item, 1 at least."""
    longest = 1
    for k in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[k + 1] - offsets[k])
    return longest


@njit
def viterbi(scores, offsets, transitions, labels, values):
    """Best labelling of each sequence and its score."""
    n = scores.shape[1]
    best, arrive = np.empty((longest_item(offsets), n)), np.empty(n)
    for k in range(offsets.shape[0] - 1):
        part = slice(offsets[k], offsets[k + 1])
        values[k] = best_labelling(scores[part], transitions, best, arrive, labels[part])


@njit
def viterbi_by_errors(scores, offsets, transitions, truth, labels, values, losses):
    """Maximise Δ(y)·(1 + s(y) − s(truth)) for the Hamming loss Δ, exactly.

    best[t, e, y] is the best score of the first t + 1 labels with e errors among them, ending in y; the product
    is then maximised over the number of errors. values[k] is the maximum (≥ 0, reached by the truth) and
    losses[k] the number of errors of its labelling.
    """
    n = scores.shape[1]
    for k in range(offsets.shape[0] - 1):
        first, length = offsets[k], offsets[k + 1] - offsets[k]
        values[k] = 0.0
        losses[k] = 0.0
        if length == 0:
            continue
        best = np.full((length, length + 1, n), -np.inf)
        true_score = 0.0
        for t in range(length):
            true_score += scores[first + t, truth[first + t]]
            if t > 0:
                true_score += transitions[truth[first + t - 1], truth[first + t]]
        for y in range(n):
            best[0, 0 if y == truth[first] else 1, y] = scores[first, y]
        for t in range(1, length):
            for y in range(n):
                wrong = 0 if y == truth[first + t] else 1
                for e in range(wrong, t + 2):
                    top = -np.inf
                    for z in range(n):
                        top = max(top, best[t - 1, e - wrong, z] + transitions[z, y])
                    best[t, e, y] = top + scores[first + t, y]
        errors, y = 0, truth[first + length - 1]
        for e in range(1, length + 1):
            for z in range(n):
                value = e * (1.0 + best[length - 1, e, z] - true_score)
                if value > values[k]:
                    values[k] = value
                    errors, y = e, z
        losses[k] = errors
        for t in range(length - 1, -1, -1):
            labels[first + t] = y
            if t > 0:
                if y != truth[first + t]:
                    errors -= 1
                top, z_best = -np.inf, 0
                for z in range(n):
                    value = best[t - 1, errors, z] + transitions[z, y]
                    if value > top:
                        top, z_best = value, z
                y = z_best


@njit
def center_rows(scores, highs):
    """Subtract each row's largest score, kept in `highs`; return the largest difference of allowed ones in a row."""
    widest = 0.0
    for t in range(scores.shape[0]):
        low, high = np.inf, scores[t, 0]
        for y in range(scores.shape[1]):
            low = min(low, scores[t, y] if scores[t, y] > -np.inf else np.inf)
            high = max(high, scores[t, y])
        for y in range(scores.shape[1]):
            scores[t, y] -= high
        highs[t] = high
        widest = max(widest, high - low)
    return widest


@njit
def mix_rows(masses, matrix, out):
    """out[y] = Σ_z masses[z] · matrix[z, y], four rows at a time so that the sums are loaded and stored less often."""
    n, width = masses.shape[0], out.shape[0]
    for y in range(width):
        out[y] = 0.0
    z = 0
    while z + 4 <= n:
        a, b, c, d = masses[z], masses[z + 1], masses[z + 2], masses[z + 3]
        for y in range(width):
            out[y] += (a * matrix[z, y] + b * matrix[z + 1, y]) + (c * matrix[z + 2, y] + d * matrix[z + 3, y])
        z += 4
    while z < n:
        a = masses[z]
        for y in range(width):
            out[y] += a * matrix[z, y]
        z += 1


@njit
def forward_backward(potentials, highs, offsets, pairwise, transposed, top, temperature, forward, arrive, values):
    """Pool all labellings at ε in the linear domain, normalised at each step.

    `potentials` is exp((u − highs)/ε) with highs the row maxima, `pairwise` exp((A − top)/ε) with top = max A. On
    return `potentials` holds the marginals μ_t(y), `forward` the normalised forward messages α_t, and `arrive` the
    vectors v_t with P(z, y at t−1, t) = α_{t−1}(z)·pairwise(z, y)·v_t(y) (zero at first tokens);
    values[k] = ε log Z. An entry of α for an allowed label is at least exp(−spread/ε)/S of the largest, so nothing
    underflows while spread(u) + spread(A) < 600 ε. The exponentials are the caller's because numpy has vectorised ones.
    """
    n = potentials.shape[1]
    backward = np.empty(n)
    for k in range(offsets.shape[0] - 1):
        first, last = offsets[k], offsets[k + 1]
        log_z = 0.0
        for t in range(first, last):
            if t == first:
                forward[t] = potentials[t]
            else:
                mix_rows(forward[t - 1], pairwise, forward[t])
                for y in range(n):
                    forward[t, y] *= potentials[t, y]
                log_z += top / temperature
            total = 0.0
            for y in range(n):
                total += forward[t, y]
            scale = 1.0 / total
            for y in range(n):
                forward[t, y] *= scale
                arrive[t, y] = potentials[t, y] * scale
            log_z += math.log(total) + highs[t] / temperature
        values[k] = temperature * log_z
        backward[:] = 1.0
        for t in range(last - 1, first - 1, -1):
            for y in range(n):
                potentials[t, y] = forward[t, y] * backward[y]
                arrive[t, y] *= backward[y]
            if t > first:
                mix_rows(arrive[t], transposed, backward)
            else:
                arrive[t] = 0.0


@njit
def pool_scores(scores, temperature, shares):
    """Return smax_ε of the scores, −inf if all are; shares[y] becomes each one's share of it.

    Shares are measured against the largest score and sum to 1 however large scores are: at 1e20 the pooled value
    itself is too coarse for that.
    """
    high = scores.max()
    if high == -np.inf:
        shares[:] = 0.0
        return high
    total = 0.0
    for y in range(scores.shape[0]):
        shares[y] = math.exp((scores[y] - high) / temperature)
        total += shares[y]
    for y in range(scores.shape[0]):
        shares[y] /= total
    return high + temperature * math.log(total)


@njit
def forward_backward_log(scores, highs, offsets, transitions, temperature, weights, pairs, together, values):
    """Pool all labellings at ε with messages kept as scores: slower, for any range of them.

    On return `scores` holds the marginals; weights[k] times the pair marginals are added to pairs[0] if
    `together`, else to pairs[k]. On the way back each label hands its probability on to those before it.
    """
    n = scores.shape[1]
    work, shares = np.empty(n), np.empty(n)
    for k in range(offsets.shape[0] - 1):
        first, last = offsets[k], offsets[k + 1]
        values[k] = 0.0
        if last == first:
            continue
        forward = scores[first:last].copy()
        for t in range(1, last - first):
            for y in range(n):
                for z in range(n):
                    work[z] = forward[t - 1, z] + transitions[z, y]
                forward[t, y] += pool_scores(work, temperature, shares)
        masses = scores[first:last]
        values[k] = pool_scores(forward[-1], temperature, masses[-1]) + highs[first:last].sum()
        masses[:-1] = 0.0
        out = pairs[0] if together else pairs[k]
        for t in range(last - first - 1, 0, -1):
            for y in range(n):
                if masses[t, y] == 0.0:
                    continue
                for z in range(n):
                    work[z] = forward[t - 1, z] + transitions[z, y]
                pool_scores(work, temperature, shares)
                for z in range(n):
                    masses[t - 1, z] += masses[t, y] * shares[z]
                    out[z, y] += weights[k] * masses[t, y] * shares[z]


@njit
def expected_costs(marginals, truth, offsets, costs, out):
    """out[k] = Σ marginals[t, s] costs[truth[t], s] over the tokens t of sequence k and labels s.

    The last row of costs is that of unknown labels, −1.
    """
    for k in range(offsets.shape[0] - 1):
        out[k] = 0.0
        for t in range(offsets[k], offsets[k + 1]):
            line = costs[truth[t]]
            own = 0.0
            for s in range(marginals.shape[1]):
                own += marginals[t, s] * line[s]
            out[k] += own


@njit
def scale_rows(matrix, offsets, weights):
    """Multiply the rows of sequence k by weights[k]."""
    for k in range(offsets.shape[0] - 1):
        for t in range(offsets[k], offsets[k + 1]):
            for y in range(matrix.shape[1]):
                matrix[t, y] *= weights[k]


@njit
def pair_marginals(forward, arrive, offsets, pairwise, out):
    """out[k, z, y] = Σ_t P(z, y at t−1, t) in sequence k, from the messages of `forward_backward`."""
    for k in range(offsets.shape[0] - 1):
        for t in range(offsets[k] + 1, offsets[k + 1]):
            for z in range(pairwise.shape[0]):
                for y in range(pairwise.shape[1]):
                    out[k, z, y] += forward[t - 1, z] * pairwise[z, y] * arrive[t, y]


@njit
def labelling_cost(labels, truth, costs):
    """Return Σ_t costs[truth_t, label_t] of one sequence; a truth of −1 costs nothing."""
    total = 0.0
    for t in range(labels.shape[0]):
        if truth[t] >= 0:
            total += costs[truth[t], labels[t]]
    return total


@njit
def put_labelling(a, labels, token, n_labels, blocks, atoms):
    """Write the joint features of one sequence's labelling as atoms from a on; `token` is its first input row."""
    length = labels.shape[0]
    for t in range(length):
        atoms.row[a], atoms.column[a] = token + t, labels[t]
        a += 1
    for t in range(1, length):
        atoms.row[a], atoms.column[a] = -1, blocks.transitions + labels[t - 1] * n_labels + labels[t]
        a += 1
    if blocks.bias >= 0:
        for t in range(length):
            atoms.row[a], atoms.column[a] = -1, blocks.bias + labels[t]
            a += 1
    if blocks.start >= 0 and length:
        atoms.row[a], atoms.column[a] = -1, blocks.start + labels[0]
        a += 1
    if blocks.end >= 0 and length:
        atoms.row[a], atoms.column[a] = -1, blocks.end + labels[length - 1]


@njit
def labelling_atoms(labels, offsets, tokens, n_labels, blocks, pointers, atoms):
    """Write the joint features of all sequences' labellings, each from its pointer on.

    `tokens[k]` is the input row of the first token of sequence k.
    """
    for k in range(offsets.shape[0] - 1):
        put_labelling(pointers[k], labels[offsets[k] : offsets[k + 1]], tokens[k], n_labels, blocks, atoms)


@njit
def best_planes(
    first, last, products, inputs, weights, offsets, tokens, truth, added, transitions, blocks, pointers, atoms, found
):
    """Find the best labellings of the asked sequences first … last − 1, and write their values, losses and features.

    Everything that a sequence needs on the way stays in the cache. `products` (N, S) are those of the asked tokens, or
    empty: then they are made of `inputs`, a CSR matrix, and `weights`. `truth` has the labels of all tokens of the
    batch, or none in the mode FREE; `found` is (2, k): values and losses.
    """
    n = transitions.shape[0]
    longest = longest_item(offsets[first : last + 1])
    scores, best, arrive = np.empty((longest, n)), np.empty((longest, n)), np.empty(n)
    labels = np.empty(longest, np.int64)
    for k in range(first, last):
        length = offsets[k + 1] - offsets[k]
        own, labelling = scores[:length], labels[:length]
        if products.shape[0]:
            own[:] = products[offsets[k] : offsets[k + 1]]
        else:
            for t in range(length):
                row_times_weights(inputs[0], inputs[1], inputs[2], tokens[k] + t, weights, arrive)
                own[t] = arrive
        known = truth[tokens[k] : tokens[k] + length]
        add_label_scores(own, added, known)
        found[0, k] = best_labelling(own, transitions, best, arrive, labelling)
        found[1, k] = labelling_cost(labelling, known, added.costs) if added.mode == AUGMENTED else 0.0
        put_labelling(pointers[k], labelling, tokens[k], n, blocks, atoms)


@njit
def put_label_atoms(a, row, column, values, atoms):
    """Write one atom for each label y at column + y unless its value is zero; return the next free position."""
    for y in range(values.shape[0]):
        if values[y] != 0.0:
            atoms.row[a], atoms.column[a], atoms.value[a] = row, column + y, values[y]
            a += 1
    return a


@njit
def expected_atoms(marginals, pairs, offsets, tokens, blocks, pointers, atoms):
    """Write the expected joint features of each sequence as atoms, and the pointers; see `labelling_atoms`."""
    n = marginals.shape[1]
    a = 0
    for k in range(offsets.shape[0] - 1):
        pointers[k] = a
        first, last = offsets[k], offsets[k + 1]
        for t in range(first, last):
            a = put_label_atoms(a, tokens[k] + t - first, 0, marginals[t], atoms)
        for z in range(n):
            a = put_label_atoms(a, -1, blocks.transitions + z * n, pairs[k, z], atoms)
        if blocks.bias >= 0:
            for t in range(first, last):
                a = put_label_atoms(a, -1, blocks.bias, marginals[t], atoms)
        if blocks.start >= 0 and last > first:
            a = put_label_atoms(a, -1, blocks.start, marginals[first], atoms)
        if blocks.end >= 0 and last > first:
            a = put_label_atoms(a, -1, blocks.end, marginals[last - 1], atoms)
    pointers[offsets.shape[0] - 1] = a
