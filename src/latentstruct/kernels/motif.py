"""Windows of DNA: scores of all of them in one pass, the best one, expected counts, random ones, enriched words.

Letters are A 0, C 1, G 2, T 3, N 4, so that 3 − a is the complement of a. The score of the window at h is

    Σ_j PSM_j(x_{h+j}) − Σ_{h ≤ i < h+l} BG(x_{i−o} … x_i)

with l the width and o the order of the background. Four letters are looked up at once: table c holds the summed
position-specific scores of the letters at h + 4c … h + 4c + 3. The other strand has tables of its own, made from the
reversed and complemented matrix, and shares everything else.
"""

import math
from typing import NamedTuple

import numpy as np

from latentstruct.kernels.candidates import pool, pool_entropy
from latentstruct.kernels.jit import inlined, njit

UNKNOWN = 4


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


@njit
def number_letters(bases, offsets, order, quads, contexts):
    """Fill in the numbers of the four letters that begin, and of the order + 1 letters that end, at each position."""
    size = bases.shape[0]
    code = 0
    for i in range(size - 1, -1, -1):
        letter = bases[i] if bases[i] < UNKNOWN else 0
        code = (code >> 2) | (letter << 6)
        quads[i] = code
    states = 1 << (2 * (order + 1))
    for k in range(offsets.shape[0] - 1):
        code, known = 0, 0
        for i in range(offsets[k], offsets[k + 1]):
            if bases[i] < UNKNOWN:
                code = ((code << 2) | bases[i]) & (states - 1)
                known += 1
            else:
                known = 0
            contexts[i] = code if known > order else states


@njit
def fold_matrix(matrix):
    """Return tables (⌈l/4⌉, 256) of the summed scores of four letters at a time of a matrix (l, 4)."""
    tables = np.zeros(((matrix.shape[0] + 3) // 4, 256))
    for j in range(matrix.shape[0]):
        shift = 6 - 2 * (j % 4)
        for code in range(256):
            tables[j // 4, code] += matrix[j, (code >> shift) & 3]
    return tables


@inlined
def scan(layout, tables, width, example, sums, scores):
    """Write the scores of an example's windows, the forward strand's first; return how many each strand has."""
    count = layout.windows[example + 1] - layout.windows[example]
    done = 0
    for run in range(layout.runs[example], layout.runs[example + 1]):
        first = layout.first[run]
        size = layout.stop[run] - first
        sums[0] = 0.0
        for t in range(size + width - 1):
            sums[t + 1] = sums[t] + tables.background[layout.contexts[first + t]]
        for t in range(size):
            scores[done + t] = sums[t] - sums[t + width]
        if tables.reverse.shape[0] > 0:
            for t in range(size):
                scores[count + done + t] = scores[done + t]
            for c in range(tables.reverse.shape[0]):
                for t in range(size):
                    scores[count + done + t] += tables.reverse[c, layout.quads[first + 4 * c + t]]
        for c in range(tables.forward.shape[0]):
            for t in range(size):
                scores[done + t] += tables.forward[c, layout.quads[first + 4 * c + t]]
        done += size
    return count


@inlined
def window_start(layout, example, number):
    """Return the flat position of an example's window by its number on the strand."""
    run = layout.runs[example]
    while number >= layout.stop[run] - layout.first[run]:
        number -= layout.stop[run] - layout.first[run]
        run += 1
    return layout.first[run] + number


@inlined
def room(layout, width):
    """Return space for the running sums of the longest run and for the scores of both strands of any example."""
    return np.empty(layout.most[0] + width + 1), np.empty(2 * layout.most[1])


@inlined
def exact_score(layout, tables, width, start, strand):
    """Return one window's score without the rounding of running sums."""
    side = tables.forward if strand > 0 else tables.reverse
    score = 0.0
    for c in range(side.shape[0]):
        score += side[c, layout.quads[start + 4 * c]]
    for i in range(start, start + width):
        score -= tables.background[layout.contexts[i]]
    return score


@inlined
def best_window(layout, tables, width, example, sums, scores):
    """Return value, flat start and strand of an example's highest window; of equal ones the first, forward first."""
    count = scan(layout, tables, width, example, sums, scores)
    best = 0
    for t in range(2 * count if tables.reverse.shape[0] > 0 else count):
        if scores[t] > scores[best]:
            best = t
    strand = 1 if best < count else -1
    start = window_start(layout, example, best if best < count else best - count)
    return exact_score(layout, tables, width, start, strand), start, strand


@njit
def best_windows(layout, tables, width, rows, values, starts, strands):
    """Find value, flat start and strand of the highest window of each row."""
    sums, scores = room(layout, width)
    for k in range(rows.shape[0]):
        values[k], starts[k], strands[k] = best_window(layout, tables, width, rows[k], sums, scores)


@inlined
def pool_windows(layout, tables, width, example, temperature, order, sums, scores, sharp, shares):
    """Pool an example's windows at a temperature, or by Rényi entropy if an order above 0 is given."""
    count = scan(layout, tables, width, example, sums, scores)
    size = 2 * count if tables.reverse.shape[0] > 0 else count
    if order > 0.0:
        return pool_entropy(scores, 0, size, order, sharp, shares)
    return pool(scores, 0, size, temperature, shares)


@njit
def pooled_windows(layout, tables, width, rows, temperature, order, values):
    """Pool the scores of each row's windows, see `pool_windows`."""
    sums, scores = room(layout, width)
    sharp, shares = np.empty(scores.shape[0]), np.empty(scores.shape[0])
    for k in range(rows.shape[0]):
        values[k] = pool_windows(layout, tables, width, rows[k], temperature, order, sums, scores, sharp, shares)


@njit
def all_scores(layout, tables, width, example, starts):
    """Return the scores (strands, windows) of one example and leave the windows' flat starts in `starts`."""
    sums, scores = room(layout, width)
    count = scan(layout, tables, width, example, sums, scores)
    for t in range(count):
        starts[t] = window_start(layout, example, t)
    strands = 2 if tables.reverse.shape[0] > 0 else 1
    return scores[: strands * count].copy().reshape(strands, count)


@njit
def window_atoms(layout, width, states, starts, strands, factors, pointers, column, value):
    """Write the features of one window a plane times a factor, equal columns merged; a factor of 0 gives no atoms.

    Weight 4j + a belongs to letter a at position j, weight 4l + m to background (o+1)-mer m; there are `states` of
    these.
    """
    end = 0
    for k in range(starts.shape[0]):
        pointers[k] = end
        if factors[k] == 0.0:
            continue
        start = starts[k]
        for j in range(width):
            letter = layout.bases[start + j] if strands[k] > 0 else 3 - layout.bases[start + width - 1 - j]
            column[end] = 4 * j + letter
            value[end] = factors[k]
            end += 1
        background = end
        for i in range(start, start + width):
            if layout.contexts[i] == states:
                continue
            wanted = 4 * width + layout.contexts[i]
            at = background
            while at < end and column[at] != wanted:
                at += 1
            if at == end:
                column[at] = wanted
                value[at] = 0.0
                end += 1
            value[at] -= factors[k]
    pointers[starts.shape[0]] = end
    return end


@inlined
def pool_classes(negative, positive, temperature):
    """Return smax_ε of the two labels' scores and the positive label's share; the negative one wins a tie."""
    high = max(negative, positive)
    if temperature == 0.0:
        return high, 1.0 if positive > negative else 0.0
    low_share = math.exp((negative - high) / temperature)
    share = math.exp((positive - high) / temperature)
    return high + temperature * math.log(low_share + share), share / (low_share + share)


@njit
def pool_best_windows(layout, tables, width, rows, bonus, temperature, values, positive, starts, strands):
    """Find the highest window of each row and pool its label with the negative one; arguments as in `soft_total`."""
    sums, scores = room(layout, width)
    for k in range(rows.shape[0]):
        score, starts[k], strands[k] = -np.inf, 0, 1
        if bonus[k, 1] > -np.inf:
            score, starts[k], strands[k] = best_window(layout, tables, width, rows[k], sums, scores)
        values[k], positive[k] = pool_classes(bonus[k, 0], bonus[k, 1] + score, temperature)


@inlined
def add_window(layout, width, start, strand, share, expected):
    """Add a share of one window's position-specific features."""
    if strand > 0:
        for j in range(width):
            expected[4 * j + layout.bases[start + j]] += share
    else:
        for j in range(width):
            expected[4 * j + 3 - layout.bases[start + width - 1 - j]] += share


@inlined
def add_expected(layout, width, example, shares, count, both, factor, expected):
    """Add factor times the expected features of an example's windows."""
    done = 0
    for run in range(layout.runs[example], layout.runs[example + 1]):
        first = layout.first[run]
        size = layout.stop[run] - first
        for t in range(size):
            if shares[done + t] != 0.0:
                add_window(layout, width, first + t, 1, factor * shares[done + t], expected)
            if both and shares[count + done + t] != 0.0:
                add_window(layout, width, first + t, -1, factor * shares[count + done + t], expected)
        covering = 0.0
        for t in range(size + width - 1):
            if t < size:
                covering += shares[done + t] + (shares[count + done + t] if both else 0.0)
            if t >= width:
                covering -= shares[done + t - width] + (shares[count + done + t - width] if both else 0.0)
            expected[4 * width + layout.contexts[first + t]] -= factor * covering
        done += size


@inlined
def pool_example(layout, tables, width, example, bonus, temperatures, order, sums, scores, sharp, shares):
    """Return an example's pooled value and its positive label's share; leave the windows' shares in `shares`."""
    if bonus[1] == -np.inf:
        return bonus[0], 0.0
    pooled = pool_windows(layout, tables, width, example, temperatures[1], order, sums, scores, sharp, shares)
    return pool_classes(bonus[0], bonus[1] + pooled, temperatures[0])


@njit
def soft_total(layout, tables, width, rows, bonus, temperatures, factors, values, positive, expected):
    """Pool windows and labels of each row and add factors[k] times its expected features to `expected`.

    `bonus` (k, 2) is added to the scores of the negative and of the positive label, `temperatures` are (ε_y, ε_h);
    `positive` becomes the positive label's share. The last entry of `expected` (d + 1,) collects what is no feature.
    """
    sums, scores = room(layout, width)
    shares = np.empty(scores.shape[0])
    both = tables.reverse.shape[0] > 0
    for k in range(rows.shape[0]):
        i = rows[k]
        values[k], positive[k] = pool_example(
            layout, tables, width, i, bonus[k], temperatures, 0.0, sums, scores, shares, shares
        )
        factor = factors[k] * positive[k]
        if factor != 0.0:
            count = layout.windows[i + 1] - layout.windows[i]
            add_expected(layout, width, i, shares, count, both, factor, expected)


@njit
def soft_atoms(layout, tables, width, rows, bonus, temperatures, order, values, positive, pointers, column, value):
    """Pool windows and labels of each row and write its expected features as atoms; return how many there are.

    Windows are pooled by Rényi entropy if `order` is above 0, at ε_h otherwise.
    """
    features = 4 * width + tables.background.shape[0] - 1
    expected = np.zeros(features + 1)
    sums, scores = room(layout, width)
    sharp, shares = np.empty(scores.shape[0]), np.empty(scores.shape[0])
    both = tables.reverse.shape[0] > 0
    end = 0
    for k in range(rows.shape[0]):
        pointers[k] = end
        i = rows[k]
        # A constant order lets the compiler drop the other way of pooling from the loop that is used most.
        if order > 0.0:
            values[k], positive[k] = pool_example(
                layout, tables, width, i, bonus[k], temperatures, order, sums, scores, sharp, shares
            )
        else:
            values[k], positive[k] = pool_example(
                layout, tables, width, i, bonus[k], temperatures, 0.0, sums, scores, shares, shares
            )
        if positive[k] == 0.0:
            continue
        count = layout.windows[i + 1] - layout.windows[i]
        add_expected(layout, width, i, shares, count, both, positive[k], expected)
        for f in range(features):
            if expected[f] != 0.0:
                column[end] = f
                value[end] = expected[f]
                end += 1
        expected[:] = 0.0
    pointers[rows.shape[0]] = end
    return end


@njit
def flank_counts(layout, tables, width, rows, margin, counts):
    """Add the expected letters around each row's window to `counts` (l + 2·margin, 4); return Σ_k ln Σ_h exp(score).

    Line margin + j belongs to position j of the window, read on the window's strand.
    """
    sums, scores = room(layout, width)
    shares = np.empty(scores.shape[0])
    both = tables.reverse.shape[0] > 0
    total = 0.0
    for k in range(rows.shape[0]):
        example = rows[k]
        count = scan(layout, tables, width, example, sums, scores)
        total += pool(scores, 0, 2 * count if both else count, 1.0, shares)
        low, high = layout.offsets[example], layout.offsets[example + 1]
        for t in range(2 * count if both else count):
            # What is lost below this share changes no count by more than a hundredth of a letter.
            if shares[t] < 1e-6:
                continue
            start = window_start(layout, example, t if t < count else t - count)
            for j in range(-margin, width + margin):
                i = start + j if t < count else start + width - 1 - j
                if i < low or i >= high or layout.bases[i] >= UNKNOWN:
                    continue
                letter = layout.bases[i] if t < count else 3 - layout.bases[i]
                counts[margin + j, letter] += shares[t]
    return total


@njit
def word_counts(bases, offsets, rows, length, both, once, counts):
    """Count the words of a length: all of them, or each once a sequence; with `both`, together with their mirror.

    A word and its mirror image on the other strand are counted at the smaller of their two numbers.
    """
    size = 1 << (2 * length)
    seen = np.full(size, -1, dtype=np.int64)
    for k in range(rows.shape[0]):
        code, mirror, known = 0, 0, 0
        for i in range(offsets[rows[k]], offsets[rows[k] + 1]):
            if bases[i] >= UNKNOWN:
                known = 0
                continue
            code = ((code << 2) | bases[i]) & (size - 1)
            mirror = (mirror >> 2) | ((3 - bases[i]) << (2 * (length - 1)))
            known += 1
            if known < length:
                continue
            word = min(code, mirror) if both else code
            if not once or seen[word] != k:
                counts[word] += 1
                seen[word] = k


@inlined
def change_counts(layout, width, start, strand, change, counts):
    """Add or take away the letters of one window."""
    for j in range(width):
        letter = layout.bases[start + j] if strand > 0 else 3 - layout.bases[start + width - 1 - j]
        counts[j, letter] += change


@inlined
def posterior_scores(layout, background, width, both, example, matrix, sums, scores):
    """Write the scores of an example's windows under a matrix; return how many each strand has."""
    count = layout.windows[example + 1] - layout.windows[example]
    done = 0
    for run in range(layout.runs[example], layout.runs[example + 1]):
        first = layout.first[run]
        size = layout.stop[run] - first
        sums[0] = 0.0
        for t in range(size + width - 1):
            sums[t + 1] = sums[t] + background[layout.contexts[first + t]]
        for t in range(size):
            outside = sums[t] - sums[t + width]
            forward, reverse = outside, outside
            for j in range(width):
                letter = layout.bases[first + t + j]
                forward += matrix[j, letter]
                reverse += matrix[width - 1 - j, 3 - letter]
            scores[done + t] = forward
            if both:
                scores[count + done + t] = reverse
        done += size
    return count


@inlined
def draw(scores, size, uniform):
    """Return the number of a window drawn with probabilities proportional to exp(score)."""
    high = scores[0]
    for t in range(size):
        high = max(high, scores[t])
    total = 0.0
    for t in range(size):
        total += math.exp(scores[t] - high)
    left = uniform * total
    for t in range(size):
        left -= math.exp(scores[t] - high)
        if left < 0.0:
            return t
    return size - 1


@njit
def gibbs_sweep(layout, background, width, both, rows, pseudo, uniforms, starts, strands, counts):
    """Draw each row's window anew from its posterior given the windows of all others, and return Σ_k score.

    `counts` (l, 4) are the letters of all present windows and follow them; `pseudo` (4,) is added to each position;
    `uniforms` (k,) are the random numbers. Of the returned sum the scores are those at the time of drawing.
    """
    sums, scores = room(layout, width)
    matrix = np.empty((width, 4))
    total = 0.0
    for k in range(rows.shape[0]):
        change_counts(layout, width, starts[k], strands[k], -1.0, counts)
        for j in range(width):
            size = 0.0
            for a in range(4):
                size += counts[j, a] + pseudo[a]
            for a in range(4):
                matrix[j, a] = math.log((counts[j, a] + pseudo[a]) / size)
        count = posterior_scores(layout, background, width, both, rows[k], matrix, sums, scores)
        drawn = draw(scores, 2 * count if both else count, uniforms[k])
        total += scores[drawn]
        strands[k] = 1 if drawn < count else -1
        starts[k] = window_start(layout, rows[k], drawn if drawn < count else drawn - count)
        change_counts(layout, width, starts[k], strands[k], 1.0, counts)
    return total
