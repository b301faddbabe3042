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
def add_soft(total, high, score, temperature):
    """Add exp((score − high)/ε) to a sum; return the sum and its scale, the highest score so far."""
    if score == -np.inf:
        return total, high
    if score <= high:
        return total + math.exp((score - high) / temperature), high
    return total * math.exp((high - score) / temperature) + 1.0, score


@njit
def step_into(ends, scores, out):
    """Write the best score of a segment of each label that begins here, before its own score, and the label before."""
    n = len(ends)
    for y in range(n):
        best = 0
        for x in range(1, n):
            if ends[x] + scores.transition[x, y] > ends[best] + scores.transition[best, y]:
                best = x
        out[y] = best


@njit
def best_segments(first, last, scores, length, label, ends, into, before):
    """Fill in the best segment of each label that ends after each token; return the value and the last label."""
    n, longest = scores.token.shape[1], scores.length.shape[0]
    for b in range(1, last - first + 1):
        a = b - 1
        for y in range(n):
            into[a, y] = 0.0
        if a > 0:
            step_into(ends[a], scores, before[a])
            for y in range(n):
                into[a, y] = ends[a, before[a, y]] + scores.transition[before[a, y], y]
        for y in range(n):
            ends[b, y] = -np.inf
            length[b, y] = 1
            inner = 0.0
            for size in range(1, min(longest, b) + 1):
                t = first + b - size
                inner += scores.token[t, y]
                reached = into[b - size, y] + inner + scores.begin[t] + scores.length[size - 1, y]
                if reached > ends[b, y]:
                    ends[b, y] = reached
                    length[b, y] = size
                inner += scores.inside[t]
                if inner == -np.inf:
                    break
    best = 0
    for y in range(1, n):
        if ends[last - first, y] > ends[last - first, best]:
            best = y
    label[0] = best
    return ends[last - first, best]


@njit
def pool_hard(offsets, scores, weights, together, values, counts):
    """Write the values and the counts of the best segmentations."""
    n = scores.token.shape[1]
    most = 0
    for k in range(len(offsets) - 1):
        most = max(most, offsets[k + 1] - offsets[k])
    length, before = np.zeros((most + 1, n), dtype=np.int64), np.zeros((most + 1, n), dtype=np.int64)
    ends, into, label = np.zeros((most + 1, n)), np.zeros((most + 1, n)), np.zeros(1, dtype=np.int64)
    for k in range(len(offsets) - 1):
        first, last = offsets[k], offsets[k + 1]
        values[k] = 0.0
        if first == last:
            continue
        values[k] = best_segments(first, last, scores, length, label, ends, into, before)
        at, y, place, weight = last - first, label[0], 0 if together else k, weights[k]
        while at > 0:
            size = length[at, y]
            at -= size
            counts.length[place, size - 1, y] += weight
            counts.begin[first + at] += weight
            for t in range(first + at, first + at + size):
                counts.token[t, y] += weight
            if at > 0:
                counts.transition[place, before[at, y], y] += weight
                y = before[at, y]


@njit
def sum_forward(first, last, scores, temperature, ends, into):
    """Fill in the pooled scores of all beginnings; return that of the whole sequence."""
    n, longest = scores.token.shape[1], scores.length.shape[0]
    for b in range(1, last - first + 1):
        a = b - 1
        for y in range(n):
            into[a, y] = 0.0
            if a > 0:
                total, high = 0.0, -np.inf
                for x in range(n):
                    total, high = add_soft(total, high, ends[a, x] + scores.transition[x, y], temperature)
                into[a, y] = high + temperature * math.log(total) if total > 0.0 else -np.inf
        for y in range(n):
            total, high, inner = 0.0, -np.inf, 0.0
            for size in range(1, min(longest, b) + 1):
                t = first + b - size
                inner += scores.token[t, y]
                reached = into[b - size, y] + inner + scores.begin[t] + scores.length[size - 1, y]
                total, high = add_soft(total, high, reached, temperature)
                inner += scores.inside[t]
                if inner == -np.inf:
                    break
            ends[b, y] = high + temperature * math.log(total) if total > 0.0 else -np.inf
    total, high = 0.0, -np.inf
    for y in range(n):
        total, high = add_soft(total, high, ends[last - first, y], temperature)
    return high + temperature * math.log(total) if total > 0.0 else -np.inf


@njit
def sum_backward(first, last, scores, temperature, value, weight, place, ends, into, rest, ahead, counts):
    """Add the expected counts of one sequence, from its end; `rest` and `ahead` are as `ends` and `into`, mirrored."""
    n, longest = scores.token.shape[1], scores.length.shape[0]
    size_of_sequence = last - first
    shares = np.empty(longest)
    for y in range(n):
        rest[size_of_sequence, y] = 0.0
    for a in range(size_of_sequence - 1, -1, -1):
        for y in range(n):
            total, high, inner = 0.0, -np.inf, 0.0
            for size in range(1, min(longest, size_of_sequence - a) + 1):
                t = first + a + size - 1
                inner += scores.token[t, y] + (scores.inside[t] if size > 1 else scores.begin[t])
                if inner == -np.inf:
                    break
                reached = inner + scores.length[size - 1, y] + rest[a + size, y]
                total, high = add_soft(total, high, reached, temperature)
            ahead[a, y] = high + temperature * math.log(total) if total > 0.0 else -np.inf
            if ahead[a, y] == -np.inf or into[a, y] == -np.inf:
                continue
            inner, stop = 0.0, 0
            for size in range(1, min(longest, size_of_sequence - a) + 1):
                t = first + a + size - 1
                inner += scores.token[t, y] + (scores.inside[t] if size > 1 else scores.begin[t])
                if inner == -np.inf:
                    break
                reached = into[a, y] + inner + scores.length[size - 1, y] + rest[a + size, y]
                shares[size - 1] = weight * math.exp((reached - value) / temperature)
                counts.length[place, size - 1, y] += shares[size - 1]
                stop = size
            covered = 0.0
            for place_in_segment in range(stop - 1, -1, -1):
                covered += shares[place_in_segment]
                counts.token[first + a + place_in_segment, y] += covered
            counts.begin[first + a] += covered
        if a > 0:
            for x in range(n):
                total, high = 0.0, -np.inf
                for y in range(n):
                    reached = scores.transition[x, y] + ahead[a, y]
                    total, high = add_soft(total, high, reached, temperature)
                    if ends[a, x] > -np.inf and reached > -np.inf:
                        share = weight * math.exp((ends[a, x] + reached - value) / temperature)
                        counts.transition[place, x, y] += share
                rest[a, x] = high + temperature * math.log(total) if total > 0.0 else -np.inf


@njit
def pool_soft(offsets, scores, temperature, weights, together, values, counts):
    """Write the pooled values and the expected counts."""
    n = scores.token.shape[1]
    most = 0
    for k in range(len(offsets) - 1):
        most = max(most, offsets[k + 1] - offsets[k])
    ends, into = np.zeros((most + 1, n)), np.zeros((most + 1, n))
    rest, ahead = np.zeros((most + 1, n)), np.zeros((most + 1, n))
    for k in range(len(offsets) - 1):
        first, last = offsets[k], offsets[k + 1]
        values[k] = 0.0
        if first < last:
            values[k] = sum_forward(first, last, scores, temperature, ends, into)
            place, weight = 0 if together else k, weights[k]
            sum_backward(first, last, scores, temperature, values[k], weight, place, ends, into, rest, ahead, counts)
