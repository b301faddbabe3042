"""Pooling of segmentations: all ways to divide sequences into labeled segments, in time O(T·(S² + S·L)).

A segment of tokens a … b − 1 with label y scores
begin[a] + Σ_{a<t<b} inside[t] + Σ_{a≤t<b} token[t, y] + length[b − a − 1, y],
and two neighbors score transition[y', y]. Any of these may be −∞.
"""

import math
from typing import NamedTuple

import numpy as np

from latentstruct.kernels.jit import inlined, njit


class SegmentScores(NamedTuple):
    """Scores of the parts of segmentations, of sequences laid end to end."""

    token: np.ndarray  # (N, S)
    begin: np.ndarray  # (N,)
    inside: np.ndarray  # (N,)
    transition: np.ndarray  # (S, S)
    length: np.ndarray  # (L, S)


class SegmentCounts(NamedTuple):
    """Counts of the parts; those of transitions and lengths are summed by sequence, or over all (k = 1)."""

    token: np.ndarray  # (N, S)
    begin: np.ndarray  # (N,)
    transition: np.ndarray  # (k, S, S)
    length: np.ndarray  # (k, L, S)


@inlined
def add(total, high, best, score, item, temperature):
    """Add a score to a maximum at ε ≥ 0; return the sum of exp((score − high)/ε), the highest score and its item."""
    if score <= high:
        if temperature > 0.0 and score > -np.inf:
            total += math.exp((score - high) / temperature)
        return total, high, best
    if temperature > 0.0:
        total = total * math.exp((high - score) / temperature) + 1.0
    return total, score, item


@inlined
def pooled(total, high, temperature):
    """Return the maximum at ε ≥ 0 that `add` made."""
    return high + temperature * math.log(total) if total > 0.0 else high


@njit
def sum_forward(first, last, scores, temperature, ends, into, size, before):
    """Pool all beginnings of a sequence; return the value of the sequence and the best last label.

    `ends` has their values by their ends and last labels, `into` by the label that begins there, whose own score is
    left out; `size` and `before` are the best last size and the best last label.
    """
    n, longest = scores.token.shape[1], scores.length.shape[0]
    for b in range(1, last - first + 1):
        for y in range(n):
            into[b - 1, y] = 0.0
            if b > 1:
                total, high, best = 0.0, -np.inf, 0
                for x in range(n):
                    reached = ends[b - 1, x] + scores.transition[x, y]
                    total, high, best = add(total, high, best, reached, x, temperature)
                into[b - 1, y], before[b - 1, y] = pooled(total, high, temperature), best
        for y in range(n):
            total, high, best, inner = 0.0, -np.inf, 1, 0.0
            for length in range(1, min(longest, b) + 1):
                t = first + b - length
                inner += scores.token[t, y]
                reached = into[b - length, y] + inner + scores.begin[t] + scores.length[length - 1, y]
                total, high, best = add(total, high, best, reached, length, temperature)
                inner += scores.inside[t]
                if inner == -np.inf:
                    break
            ends[b, y], size[b, y] = pooled(total, high, temperature), best
    total, high, best = 0.0, -np.inf, 0
    for y in range(n):
        total, high, best = add(total, high, best, ends[last - first, y], y, temperature)
    return pooled(total, high, temperature), best


@inlined
def share_of(score, value, best, temperature):
    """Return the share of a score in a maximum at ε ≥ 0."""
    if temperature > 0.0:
        return math.exp((score - value) / temperature)
    return 1.0 if best else 0.0


@njit
def count_backward(first, last, scores, temperature, place, ends, into, size, before, of_end, of_start, counts):
    """Add the counts of one sequence: shares `of_end` of `ends` and `of_start` of `into`, from those at its end."""
    n, longest = scores.token.shape[1], scores.length.shape[0]
    shares = np.empty(longest)
    for b in range(last - first, 0, -1):
        for y in range(n):
            if of_start[b, y] != 0.0:
                for x in range(n):
                    reached = ends[b, x] + scores.transition[x, y]
                    share = of_start[b, y] * share_of(reached, into[b, y], x == before[b, y], temperature)
                    counts.transition[place, x, y] += share
                    of_end[b, x] += share
        for y in range(n):
            if of_end[b, y] == 0.0:
                continue
            inner, stop, limit = 0.0, 0, min(longest, b) if temperature > 0.0 else size[b, y]
            while stop < limit and inner > -np.inf:
                stop += 1
                t = first + b - stop
                inner += scores.token[t, y]
                reached = into[b - stop, y] + inner + scores.begin[t] + scores.length[stop - 1, y]
                shares[stop - 1] = of_end[b, y] * share_of(reached, ends[b, y], stop == size[b, y], temperature)
                of_start[b - stop, y] += shares[stop - 1]
                counts.length[place, stop - 1, y] += shares[stop - 1]
                counts.begin[t] += shares[stop - 1]
                inner += scores.inside[t]
            covered = 0.0
            for length in range(stop, 0, -1):
                covered += shares[length - 1]
                counts.token[first + b - length, y] += covered


@njit
def pool(offsets, scores, temperature, weights, together, values, counts):
    """Write the values of sequences pooled at ε ≥ 0, and the counts times weights."""
    n = scores.token.shape[1]
    most = 1
    for k in range(len(offsets) - 1):
        most = max(most, offsets[k + 1] - offsets[k])
    tables, choices = np.zeros((4, most + 1, n)), np.zeros((2, most + 1, n), dtype=np.int64)
    ends, into, of_end, of_start = tables[0], tables[1], tables[2], tables[3]
    size, before = choices[0], choices[1]
    for k in range(len(offsets) - 1):
        first, last = offsets[k], offsets[k + 1]
        values[k] = 0.0
        if first == last:
            continue
        values[k], best = sum_forward(first, last, scores, temperature, ends, into, size, before)
        of_end[: last - first + 1], of_start[: last - first + 1] = 0.0, 0.0
        for y in range(n):
            if ends[last - first, y] > -np.inf:
                share = share_of(ends[last - first, y], values[k], y == best, temperature)
                of_end[last - first, y] = weights[k] * share
        place = 0 if together else k
        count_backward(first, last, scores, temperature, place, ends, into, size, before, of_end, of_start, counts)
