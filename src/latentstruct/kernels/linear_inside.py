"""Sums over the splits and rules of a span as products of exponentials, where these stay far from underflow.

Beside the chart's scores each span (i, j) has their exponentials exp((score − scale[i, j])/ε), where the scale is the
highest score. Sums over splits are then dot products instead of many exponentials. A span is *tame* if all its
exponentials are at least e^−LIMIT. If all parts of all splits are tame, and the scales of different splits lie within
LIMIT·ε of each other, then the least of all products is e^(−4·LIMIT), still a normal number, and nothing is lost.
"""

import math
from typing import NamedTuple

import numpy as np

from latentstruct.kernels.jit import njit
from latentstruct.kernels.parsing import fill

LIMIT = 170.0
# Sums are made again where rounding changes the logarithm of a share by more than this.
ROUNDING = 1e-10


class Linear(NamedTuple):
    """Exponentials of a chart's scores and of rules."""

    from_start: np.ndarray  # (n, S, n + 1) like the chart's; 0 where there is no derivation
    from_end: np.ndarray  # (n + 1, S, n + 1)
    scale: np.ndarray  # (n + 1, n + 1) highest score of a span, −inf if it has no derivation
    tame: np.ndarray  # (n + 1, n + 1)
    rule: np.ndarray  # (R,) exp((score − highest)/ε)
    highest: float
    rules_tame: bool


@njit
def is_coarse(size, row, temperature):
    """Tell whether scores of this size, or those of a row, are too large to find sums of exponentials from them."""
    for score in row:
        if score > -np.inf:
            size = max(size, abs(score))
    return size * np.finfo(np.float64).eps > ROUNDING * temperature


@njit
def make_linear(longest, n_symbols, rules, temperature):
    """Return room for the sentences' spans, and the exponentials of the rules' scores."""
    low, high = np.inf, -np.inf
    for score in rules:
        low, high = min(low, score), max(high, score)
    return Linear(
        np.empty((longest, n_symbols, longest + 1)),
        np.empty((longest + 1, n_symbols, longest + 1)),
        np.empty((longest + 1, longest + 1)),
        np.empty((longest + 1, longest + 1), dtype=np.bool_),
        np.exp((rules - high) / temperature),
        high,
        (high - low) / temperature <= LIMIT,
    )


@njit
def record_linear(linear, chart, i, j, top, temperature):
    """Keep the exponentials of the scores of the span (i, j), where the chart keeps these."""
    high = top.max()
    linear.scale[i, j] = high
    linear.tame[i, j] = True
    for a in range(top.shape[0]):
        share = 0.0
        if top[a] > -np.inf:
            gap = (top[a] - high) / temperature
            share = math.exp(gap)
            if gap < -LIMIT:
                linear.tame[i, j] = False
        if chart.last_end[i, a] >= 0:
            linear.from_start[i, a, j] = share
        if chart.last_start[j, a] >= 0:
            linear.from_end[j, a, i] = share


@njit
def split_scales(linear, i, j, temperature, factors):
    """factors[k] = exp((scale of split k − the highest)/ε); return the highest one, and whether all is tame."""
    high = -np.inf
    for k in range(i + 1, j):
        high = max(high, linear.scale[i, k] + linear.scale[k, j])
    for k in range(i + 1, j):
        both = linear.scale[i, k] + linear.scale[k, j]
        factors[k] = 0.0
        if both > -np.inf:
            gap = (both - high) / temperature
            if gap < -LIMIT or not (linear.tame[i, k] and linear.tame[k, j]):
                return high, False
            factors[k] = math.exp(gap)
    return high, linear.rules_tame


@njit
def add_products(rules, linear, chart, i, j, factors, scaled, sums):
    """sums[A] = Σ over splits and binary rules of products of exponentials."""
    fill(sums, 0.0)
    for at in range(chart.n_starters[i]):
        b = chart.starters[i, at]
        first, last = max(chart.first_end[i, b], i + 1), min(chart.last_end[i, b], j - 1)
        for k in range(first, last + 1):
            scaled[k] = linear.from_start[i, b, k] * factors[k]
        for pair in range(rules.left_start[b], rules.left_start[b + 1]):
            c = rules.pair_right[pair]
            right = linear.from_end[j, c]
            total = 0.0
            for k in range(max(first, chart.first_start[j, c]), min(last, chart.last_start[j, c]) + 1):
                total += scaled[k] * right[k]
            if total > 0.0:
                for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                    sums[rules.parent[r]] += total * linear.rule[r]


@njit
def sum_products(rules, linear, chart, i, j, high, temperature, factors, scaled, row, sums):
    """row[A] = smax_ε over splits and binary rules, without what the label adds."""
    add_products(rules, linear, chart, i, j, factors, scaled, sums)
    for a in range(row.shape[0]):
        if sums[a] > 0.0:
            row[a] = high + linear.highest + temperature * math.log(sums[a])


@njit
def share_products(
    rules, linear, chart, i, j, high, temperature, weight, room, row, below, sums, left_above, right_above, slope
):
    """Hand the probabilities of bases, `below`, down to rules and to the symbols of smaller spans.

    `row` holds the bases' scores without what labels add; `below` is changed.
    """
    factors, scaled = room.factors, room.shares
    coarse = is_coarse(abs(high) + abs(linear.highest), row, temperature)
    if coarse:
        add_products(rules, linear, chart, i, j, factors, scaled, sums)
    for a in range(row.shape[0]):
        if below[a] > 0.0:
            below[a] /= sums[a] if coarse else math.exp((row[a] - high - linear.highest) / temperature)
    for at in range(chart.n_starters[i]):
        b = chart.starters[i, at]
        first, last = max(chart.first_end[i, b], i + 1), min(chart.last_end[i, b], j - 1)
        for k in range(first, last + 1):
            scaled[k] = linear.from_start[i, b, k] * factors[k]
        for pair in range(rules.left_start[b], rules.left_start[b + 1]):
            c = rules.pair_right[pair]
            low, stop = max(first, chart.first_start[j, c]), min(last, chart.last_start[j, c]) + 1
            if low >= stop:
                continue
            taken = 0.0
            for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                taken += below[rules.parent[r]] * linear.rule[r]
            if taken == 0.0:
                continue
            right, total = linear.from_end[j, c], 0.0
            for k in range(low, stop):
                product = scaled[k] * right[k]
                total += product
                left_above[i, b, k] += taken * product
                right_above[j, c, k] += taken * product
            for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                slope[rules.weight[r]] += weight * total * below[rules.parent[r]] * linear.rule[r]
