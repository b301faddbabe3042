"""Chains with hidden tokens, pooled at two temperatures: hidden tokens at ε_h first, the others, outputs, at ε_y.

A run of hidden tokens between two outputs a and b is pooled into M(a, b), for which one forward message is kept for
each a; a run before the first output is one message, one after the last is a message backwards. What remains is a
chain of outputs. On the way back the mass of each label is divided among the labels of its neighbour by
P(neighbour | label), which needs the messages of the way forward only and is a choice of one where ε = 0.

Scores are flat, as in `latentstruct.kernels.chain`. Messages of outputs are scores. Messages of hidden tokens are
scores too, or their exponentials where steps are `linear` (which is faster, and in range if the scores are), less
what is added up in scales. Loops are written out, because array expressions take long to compile.
"""

import math
from typing import NamedTuple

import numpy as np

from latentstruct.kernels.chain import best_previous, mix_rows
from latentstruct.kernels.jit import njit

# A share of exp(−40) of the largest is lost in rounding.
NEGLIGIBLE = 40.0
NOTHING = math.exp(-NEGLIGIBLE)

# From so many rows on, a product of matrices is faster than one row after the other.
ROWS_FOR_PRODUCT = 4

TOGETHER, BY_SEQUENCE, BY_TOKEN = 0, 1, 2


class Steps(NamedTuple):
    """Steps from labels z of one token to labels y of its neighbour, pooled at ε."""

    matrix: np.ndarray  # (S, S) exp((A − top)/ε) if linear, else A; transposed if ahead
    turned: np.ndarray  # (S, S) its transpose
    top: float  # max A if linear, else 0
    temperature: float
    linear: bool
    ahead: bool  # whether the neighbour y stands before, so that pairs are (y, z)


class Pooling(NamedTuple):
    """What is pooled at which temperatures."""

    tokens: np.ndarray  # (N, S) scores; of hidden tokens exp((u − max u)/ε_h) if their steps are linear
    highs: np.ndarray  # (N,) what was taken out of the tokens' scores
    labels: np.ndarray  # (N,): −1 for hidden tokens
    outputs: Steps  # between outputs
    hidden: Steps  # from or to hidden tokens
    tail: Steps  # the same backwards, for the run that ends a sequence
    gains: np.ndarray  # (S, S): the most that any continuation gives after a more than after b


class Room(NamedTuple):
    """Work space for one sequence at a time."""

    best: np.ndarray  # (T, S) scores of all beginnings that end in an output's label, less their largest
    sources: np.ndarray  # (T, S) the output label before a run that is best for each label after it
    messages: np.ndarray  # (longest run, S, S): token, row, label
    shares: np.ndarray  # (runs, S, S): of labels before a run in each label after it, if ε_y > 0
    rows: np.ndarray  # (S,) output labels before a run that count
    scales: np.ndarray  # (S,) what was taken out of each row's messages
    joint: np.ndarray  # (S, S) row, label: scores or masses
    ratios: np.ndarray  # (S, S) row, label
    products: np.ndarray  # (S, S) label, label
    mass: np.ndarray  # (S,)
    other: np.ndarray  # (S,)
    message: np.ndarray  # (1, S)
    work: np.ndarray  # (S,)


def make_steps(transitions, temperature, widest, limit):
    """Return the steps by transitions at one temperature, linear if the spread of all scores is below limit·ε.

    `widest` is the spread of the tokens' own scores.
    """
    linear = widest + float(np.ptp(transitions)) < limit * temperature
    top = float(transitions.max()) if linear else 0.0
    matrix = np.exp((transitions - top) / temperature) if linear else transitions
    return Steps(matrix, np.ascontiguousarray(matrix.T), top, float(temperature), linear, False)


@njit
def largest_gains(transitions, out):
    """out[a, b] = max_z A[a, z] − A[b, z]."""
    for a in range(out.shape[0]):
        for b in range(out.shape[0]):
            out[a, b] = -np.inf
            for z in range(out.shape[0]):
                out[a, b] = max(out[a, b], transitions[a, z] - transitions[b, z])


@njit
def position_of_largest(values):
    """Return the first position of the largest value."""
    best = 0
    for k in range(1, values.shape[0]):
        best = k if values[k] > values[best] else best
    return best


@njit
def total_of(values):
    """Return the sum of the values."""
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k]
    return total


@njit
def scale_and_shift(values, factor, shift):
    """Replace values by factor·values + shift."""
    for k in range(values.shape[0]):
        values[k] = factor * values[k] + shift


@njit
def add_to(out, values):
    """Add values to out."""
    for k in range(out.shape[0]):
        out[k] += values[k]


@njit
def copy_to(out, values):
    """Copy values to out."""
    for k in range(out.shape[0]):
        out[k] = values[k]


@njit
def pool_values(values, temperature):
    """Return ε log Σ exp(values/ε), the maximum at ε = 0."""
    high = values[position_of_largest(values)]
    if temperature == 0.0 or high == -np.inf:
        return high
    total = 0.0
    for k in range(values.shape[0]):
        gap = (values[k] - high) / temperature
        if gap > -NEGLIGIBLE:
            total += math.exp(gap)
    return high + temperature * math.log(total)


@njit
def divide_mass(values, temperature, mass):
    """Replace values by the mass each has of the pooled whole; return the pooled value.

    The first maximum has it all at ε = 0.
    """
    best, total = position_of_largest(values), 0.0
    high = values[best]
    for k in range(values.shape[0]):
        gap = (values[k] - high) / temperature if temperature > 0.0 else -np.inf
        values[k] = math.exp(gap) if gap > -NEGLIGIBLE else 0.0
        total += values[k]
    if temperature == 0.0:
        values[best] = mass
        return high
    scale_and_shift(values, mass / total, 0.0)
    return high + temperature * math.log(total)


@njit
def normalise(steps, message):
    """Scale a message and return the score that was taken out."""
    if steps.linear:
        total = total_of(message)
        scale_and_shift(message, 1.0 / total, 0.0)
        return steps.temperature * math.log(total)
    high = message[position_of_largest(message)]
    scale_and_shift(message, 1.0, -high)
    return high


@njit
def exponentials(steps, scores, out):
    """Messages for linear steps from outputs' scores, the largest of which is 0.

    What underflows is negligible after any step, because linear steps differ by less than what can be written.
    """
    for y in range(out.shape[0]):
        out[y] = math.exp(scores[y] / steps.temperature)


@njit
def step(steps, messages, work, out):
    """Messages (rows, S) of the next token before its own scores."""
    count, n = messages.shape
    if not steps.linear:
        for r in range(count):
            for y in range(n):
                for z in range(n):
                    work[z] = messages[r, z] + steps.turned[y, z]
                out[r, y] = pool_values(work, steps.temperature)
    elif count < ROWS_FOR_PRODUCT:
        for r in range(count):
            mix_rows(messages[r], steps.matrix, out[r])
    else:
        np.dot(messages, steps.matrix, out)


@njit
def step_to_scores(steps, messages, work, out):
    """As `step`, but the result are scores."""
    step(steps, messages, work, out)
    if steps.linear:
        for r in range(out.shape[0]):
            for y in range(out.shape[1]):
                out[r, y] = steps.temperature * math.log(out[r, y]) + steps.top


@njit
def add_token(steps, scores, message):
    """Add a hidden token's own scores to a message."""
    for y in range(message.shape[0]):
        message[y] = message[y] * scores[y] if steps.linear else message[y] + scores[y]


@njit
def extend(steps, scores, messages, work, scales, out):
    """Messages one hidden token on, whose scores are given; what is taken out of them is added to `scales`."""
    step(steps, messages, work, out)
    for r in range(out.shape[0]):
        add_token(steps, scores, out[r])
        scales[r] += steps.top + normalise(steps, out[r])


@njit
def divide(steps, masses, message, work, out, pairs):
    """Divide masses of a label y among labels z of its neighbour: out[z] = Σ_y masses[y] P(z | y).

    P(z | y) is proportional to message[z]·matrix[z, y], or its score is their sum. The masses of pairs are added to
    `pairs`.
    """
    n = out.shape[0]
    if not steps.linear:
        divide_scores(steps, masses, message, work, out, pairs)
        return
    mix_rows(message, steps.matrix, work)
    for y in range(n):
        work[y] = masses[y] / work[y] if masses[y] > 0.0 else 0.0
    mix_rows(work, steps.turned, out)
    for z in range(n):
        out[z] *= message[z]
    for first in range(n):
        factor = work[first] if steps.ahead else message[first]
        for second in range(n):
            if steps.ahead:
                pairs[first, second] += factor * steps.turned[first, second] * message[second]
            else:
                pairs[first, second] += factor * steps.matrix[first, second] * work[second]


@njit
def divide_scores(steps, masses, message, work, out, pairs):
    """As `divide`, for messages that are scores and at any temperature."""
    n = out.shape[0]
    for z in range(n):
        out[z] = 0.0
    for y in range(n):
        if masses[y] > 0.0:
            for z in range(n):
                work[z] = message[z] + steps.turned[y, z]
            divide_mass(work, steps.temperature, masses[y])
            for z in range(n):
                out[z] += work[z]
                if steps.ahead:
                    pairs[y, z] += work[z]
                else:
                    pairs[z, y] += work[z]


@njit
def choose_rows(pooling, best, rows):
    """List the output labels before a run that can matter after it; return how many.

    A label a gives at most gains[a, b] more than b whatever follows; where even that leaves it behind b, it is never
    the best, and at ε_y > 0 its share is lost in rounding if it stays so far behind.
    """
    n, top, count = best.shape[0], position_of_largest(best), 0
    margin = NEGLIGIBLE * pooling.outputs.temperature
    for a in range(n):
        kept = True
        for b in range(n):
            if best[a] + pooling.gains[a, b] + margin < best[b]:
                kept = False
        if kept or a == top:
            rows[count] = a
            count += 1
    return count


@njit
def send_rows(pooling, first, last, count, room):
    """Messages of the hidden run first … last − 1 from each row's output label before it.

    A run that begins a sequence has a count of 0 and one row.
    """
    hidden, n_rows = pooling.hidden, max(count, 1)
    nothing = 1.0 if hidden.linear else 0.0
    for r in range(n_rows):
        message = room.messages[0, r]
        for y in range(message.shape[0]):
            message[y] = hidden.matrix[room.rows[r], y] if count > 0 else nothing
        add_token(hidden, pooling.tokens[first], message)
        room.scales[r] = normalise(hidden, message) + (hidden.top if count > 0 else 0.0)
    for t in range(first + 1, last):
        messages, ahead = room.messages[t - 1 - first, :n_rows], room.messages[t - first, :n_rows]
        extend(hidden, pooling.tokens[t], messages, room.work, room.scales, ahead)


@njit
def pool_rows(temperature, count, room, sources, shares, out):
    """Pool room.joint over its rows for each label after the run.

    At ε_y = 0 `sources` are the output labels of the best rows, else shares[a, y] the share of each output label a.
    """
    work = room.work[:count]
    for y in range(out.shape[0]):
        for r in range(count):
            work[r] = room.joint[r, y]
        if temperature == 0.0:
            r = position_of_largest(work)
            sources[y], out[y] = room.rows[r], work[r]
            continue
        out[y] = divide_mass(work, temperature, 1.0)
        for a in range(out.shape[0]):
            shares[a, y] = 0.0
        for r in range(count):
            shares[room.rows[r], y] = work[r]


@njit
def cross_run(pooling, first, last, before, number, room, sources, out):
    """Scores of the output at `last`, before its own, through the hidden run first … last − 1.

    `before` are the scores of the output before the run, and `number` counts such runs; it is −1 for a run that begins
    a sequence.
    """
    count = 0 if number < 0 else choose_rows(pooling, before, room.rows)
    n_rows = max(count, 1)
    send_rows(pooling, first, last, count, room)
    joint, messages = room.joint[:n_rows], room.messages[last - first - 1, :n_rows]
    step_to_scores(pooling.hidden, messages, room.work, joint)
    for r in range(n_rows):
        scale_and_shift(joint[r], 1.0, room.scales[r] + (before[room.rows[r]] if count > 0 else 0.0))
    if count > 0:
        shares = room.shares[number if pooling.outputs.temperature > 0.0 else 0]
        pool_rows(pooling.outputs.temperature, count, room, sources, shares, out)
    else:
        copy_to(out, joint[0])


@njit
def send_outputs(pooling, first, last, room):
    """Go forward to the last output of a sequence, tokens first … last − 1.

    room.best holds the outputs' scores, pooled over all before them. Returns the place of the last output (first − 1
    if there is none), the number of hidden runs between outputs, and what was taken out of the scores.
    """
    outputs, before, n_runs, taken = pooling.outputs, first - 1, 0, 0.0
    for t in range(first, last):
        if pooling.labels[t] < 0:
            continue
        here, there = t - first, max(before - first, 0)
        best = room.best[here]
        if before < t - 1:
            number = n_runs if before >= first else -1
            cross_run(pooling, before + 1, t, room.best[there], number, room, room.sources[here], best)
            n_runs = number + 1
        elif t == first:
            best[:] = 0.0
        elif outputs.temperature == 0.0:
            best_previous(room.best[there], outputs.matrix, best)
        else:
            message = room.best[there : there + 1]
            if outputs.linear:
                exponentials(outputs, message[0], room.message[0])
                message = room.message
            step_to_scores(outputs, message, room.work, room.best[here : here + 1])
        add_to(best, pooling.tokens[t])
        high = best[position_of_largest(best)]
        scale_and_shift(best, 1.0, -high)
        taken += high
        before = t
    return before, n_runs, taken


@njit
def send_back(pooling, first, last, room, out):
    """Messages backwards through the last hidden run, tokens first … last − 1.

    Returns what was taken out of them; out[0, a] is the rest of the score of the run after the output label a.
    """
    tail, taken = pooling.tail, room.scales[:1]
    messages = room.messages[last - first - 1, :1]
    copy_to(messages[0], pooling.tokens[last - 1])
    taken[0] = normalise(tail, messages[0])
    for t in range(last - 2, first - 1, -1):
        ahead = room.messages[t - first, :1]
        extend(tail, pooling.tokens[t], messages, room.work, taken, ahead)
        messages = ahead
    step_to_scores(tail, messages, room.work, out)
    return taken[0]


@njit
def pairs_of(pairs, by, k, t):
    """Return where the pair of tokens t − 1 and t of sequence k is added."""
    if by == TOGETHER:
        return pairs[0]
    return pairs[k] if by == BY_SEQUENCE else pairs[t]


@njit
def divide_tail(pooling, origin, first, last, k, room, marginals, pairs, by):
    """Divide the mass of token first − 1 among the hidden tokens from `first` to the end of the sequence.

    Their messages are those of `send_back` from token `origin`.
    """
    mass = room.mass
    for t in range(first, last):
        divide(pooling.tail, mass, room.messages[t - origin, 0], room.work, marginals[t], pairs_of(pairs, by, k, t))
        mass = marginals[t]


@njit
def divide_rows(hidden, messages, masses, room, pairs):
    """Divide the masses (rows, S) of each row among the labels of the hidden token before, whose messages are given."""
    count, n = masses.shape
    if count < ROWS_FOR_PRODUCT or not hidden.linear:
        for r in range(count):
            divide(hidden, masses[r], messages[r], room.work, room.other, pairs)
            copy_to(masses[r], room.other)
        return
    ratios = room.ratios[:count]
    np.dot(messages, hidden.matrix, ratios)
    for r in range(count):
        for y in range(n):
            ratios[r, y] = masses[r, y] / ratios[r, y] if masses[r, y] > 0.0 else 0.0
    np.dot(ratios, hidden.turned, masses)
    np.dot(messages.T, ratios, room.products)
    for r in range(count):
        for z in range(n):
            masses[r, z] *= messages[r, z]
    for z in range(n):
        for y in range(n):
            pairs[z, y] += hidden.matrix[z, y] * room.products[z, y]


@njit
def spread_over_rows(temperature, shares, sources, room):
    """Divide room.mass, that of an output after a run, into rows for the output labels before; return their number.

    Labels whose part is lost in rounding have no row. On return room.mass is that of the output before.
    """
    n, count = room.mass.shape[0], 0
    if temperature == 0.0:
        y = position_of_largest(room.mass)
        copy_to(room.joint[0], room.mass)
        room.rows[0] = sources[y]
        room.mass[y], room.mass[sources[y]] = 0.0, room.mass[y]
        return 1
    least = NOTHING * total_of(room.mass)
    for a in range(n):
        whole = 0.0
        for y in range(n):
            room.joint[count, y] = shares[a, y] * room.mass[y]
            whole += room.joint[count, y]
        room.work[a] = whole
        if whole > least:
            room.rows[count] = a
            count += 1
    copy_to(room.mass, room.work)
    return count


@njit
def divide_run(pooling, first, last, count, k, room, marginals, pairs, by):
    """Divide the masses of the output at `last`, room.joint by rows, among the hidden run first … last − 1 before it.

    A run that begins a sequence has a count of 0 and one row.
    """
    n_rows = max(count, 1)
    masses = room.joint[:n_rows]
    send_rows(pooling, first, last, count, room)
    for t in range(last - 1, first - 1, -1):
        divide_rows(pooling.hidden, room.messages[t - first, :n_rows], masses, room, pairs_of(pairs, by, k, t + 1))
        for r in range(n_rows):
            add_to(marginals[t], masses[r])
    for r in range(count):
        add_to(pairs_of(pairs, by, k, first)[room.rows[r]], masses[r])


@njit
def divide_outputs(pooling, first, end, n_runs, k, room, marginals, pairs, by):
    """Divide room.mass, that of the last output, among all tokens before it."""
    outputs, t = pooling.outputs, end
    while t >= first:
        copy_to(marginals[t], room.mass)
        before = t - 1
        while before >= first and pooling.labels[before] < 0:
            before -= 1
        if before < t - 1:
            count = 0
            copy_to(room.joint[0], room.mass)
            if before >= first:
                n_runs -= 1
                shares = room.shares[n_runs if outputs.temperature > 0.0 else 0]
                count = spread_over_rows(outputs.temperature, shares, room.sources[t - first], room)
            divide_run(pooling, before + 1, t, count, k, room, marginals, pairs, by)
        elif before >= first:
            message = room.best[before - first]
            if outputs.linear:
                exponentials(outputs, message, room.message[0])
                message = room.message[0]
            divide(outputs, room.mass, message, room.work, room.other, pairs_of(pairs, by, k, t))
            copy_to(room.mass, room.other)
        t = before


@njit
def make_room(pooling, offsets):
    """Return work space for the longest sequence, the longest run of hidden tokens and the most runs."""
    n = pooling.tokens.shape[1]
    longest, longest_run, most_runs = 1, 1, 1
    for k in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[k + 1] - offsets[k])
        run, n_runs = 0, 0
        for t in range(offsets[k], offsets[k + 1]):
            run = run + 1 if pooling.labels[t] < 0 else 0
            n_runs += run == 1
            longest_run = max(longest_run, run)
        most_runs = max(most_runs, n_runs)
    return Room(
        np.empty((longest, n)),
        np.empty((longest, n), dtype=np.int64),
        np.empty((longest_run, n, n)),
        np.empty((most_runs if pooling.outputs.temperature > 0.0 else 1, n, n)),
        np.empty(n, dtype=np.int64),
        np.empty(n),
        np.empty((n, n)),
        np.empty((n, n)),
        np.empty((n, n)),
        np.empty(n),
        np.empty(n),
        np.empty((1, n)),
        np.empty(n),
    )


@njit
def pool_half_labelled(pooling, offsets, weights, values, marginals, pairs, by):
    """Pool each sequence over its hidden tokens at ε_h and then over its outputs at ε_y.

    values[k] is the pooled value. `marginals` (N, S), zero before, are weights[k] times the derivatives of values[k]
    with respect to the tokens' scores; the derivatives with respect to the transitions are added to `pairs`: to
    pairs[0] if `by` is TOGETHER, pairs[k] if BY_SEQUENCE and pairs[t] if BY_TOKEN, for tokens t − 1 and t.
    """
    room = make_room(pooling, offsets)
    mass, rest = room.mass, room.message
    for k in range(offsets.shape[0] - 1):
        first, last = offsets[k], offsets[k + 1]
        values[k] = total_of(pooling.highs[first:last])
        if last == first:
            continue
        end, n_runs, taken = send_outputs(pooling, first, last, room)
        if end < last - 1:
            taken += send_back(pooling, end + 1, last, room, rest)
        if end >= first:
            for y in range(mass.shape[0]):
                mass[y] = room.best[end - first, y] + (rest[0, y] if end < last - 1 else 0.0)
            taken += divide_mass(mass, pooling.outputs.temperature, weights[k])
            divide_tail(pooling, end + 1, end + 1, last, k, room, marginals, pairs, by)
            divide_outputs(pooling, first, end, n_runs, k, room, marginals, pairs, by)
        else:
            copy_to(mass, room.messages[0, 0])
            if pooling.hidden.linear:
                # A message that was sent is normalised already.
                scale_and_shift(mass, weights[k], 0.0)
            else:
                taken += divide_mass(mass, pooling.hidden.temperature, weights[k])
            copy_to(marginals[first], mass)
            divide_tail(pooling, first, first + 1, last, k, room, marginals, pairs, by)
        values[k] += taken
