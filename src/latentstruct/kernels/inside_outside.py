"""Sums over all parse trees: ε log Z and expected features, by inside scores and their derivatives.

The chart is that of `latentstruct.kernels.parsing` with smax_ε for max. Derivatives of ε log Z by the scores of cells
are the probabilities of symbols; they are handed down from the root, each derivation getting its share. Spans are
summed up by `latentstruct.kernels.linear_inside` where that loses nothing, and by logarithms elsewhere; of the latter,
shares below e^−MOST of the largest one are left out, which changes sums by less than rounding.
"""

import math
from typing import NamedTuple

import numpy as np

from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.linear_inside import (
    Linear,
    is_coarse,
    make_linear,
    record_linear,
    share_products,
    split_scales,
    sum_products,
)
from latentstruct.kernels.parsing import (
    Chart,
    add_labels,
    cell_of,
    chain_score,
    choose_tags,
    clear_chart,
    fill,
    fill_extra,
    longest_sentence,
    make_chart,
    record,
    splits_of,
)

MOST = 60.0
LEAST_PROBABILITY = 1e-30


class Room(NamedTuple):
    """Arrays that are written anew for each span or sentence."""

    pairs: np.ndarray  # (Q,) pooled scores of pairs
    factors: np.ndarray  # (n + 1,) of each split
    shares: np.ndarray  # (n + 1,) of each split
    left_above: np.ndarray  # (n, S, n + 1) probabilities as left children, and of the root
    right_above: np.ndarray  # (n + 1, S, n + 1) probabilities as right children


class Workspace(NamedTuple):
    """All that the sums over the trees of one sentence are written to."""

    chart: Chart
    linear: Linear
    room: Room
    top: np.ndarray  # (S,) scores of symbols
    sums: np.ndarray  # (S,) of exponentials
    extra: np.ndarray  # (cells, L) what labels add to scores
    labels: np.ndarray  # (cells, L) probabilities of labels


@inlined
def pool_pair(left, right, low, high, temperature, shares):
    """Return smax_ε over splits low … high of left + right; shares[k] becomes each split's share."""
    best = -np.inf
    for k in range(low, high + 1):
        shares[k] = left[k] + right[k]
        best = shares[k] if shares[k] > best else best
    if best == -np.inf:
        return best
    total = 0.0
    for k in range(low, high + 1):
        gap = (shares[k] - best) / temperature
        shares[k] = math.exp(gap) if gap > -MOST else 0.0
        total += shares[k]
    for k in range(low, high + 1):
        shares[k] /= total
    return best + temperature * math.log(total)


@njit
def pool_pairs(rules, scores, chart, i, j, temperature, pairs, shares, row):
    """pairs[q] = smax_ε over splits, and row[A] = smax_ε over rules, without what the label adds; −inf for none."""
    for at in range(chart.n_starters[i]):
        b = chart.starters[i, at]
        for pair in range(rules.left_start[b], rules.left_start[b + 1]):
            low, high = splits_of(chart, i, j, b, rules.pair_right[pair])
            right = chart.from_end[j, rules.pair_right[pair]]
            pairs[pair] = pool_pair(chart.from_start[i, b], right, low, high, temperature, shares)
            if pairs[pair] > -np.inf:
                for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                    row[rules.parent[r]] = max(row[rules.parent[r]], pairs[pair] + scores.rule[r])


@njit
def sum_bases(rules, scores, chart, i, j, temperature, pairs, row, sums):
    """row[A] = smax_ε over the rules of pooled pairs; row holds the maxima before."""
    weigh_bases(rules, scores, chart, i, j, temperature, pairs, row, sums)
    for a in range(row.shape[0]):
        if row[a] > -np.inf:
            row[a] += temperature * math.log(sums[a])


@njit
def weigh_bases(rules, scores, chart, i, j, temperature, pairs, row, sums):
    """sums[A] = Σ over the rules of pooled pairs of exponentials, measured against the maxima in `row`."""
    fill(sums, 0.0)
    for at in range(chart.n_starters[i]):
        b = chart.starters[i, at]
        for pair in range(rules.left_start[b], rules.left_start[b + 1]):
            if pairs[pair] == -np.inf:
                continue
            for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                gap = (pairs[pair] + scores.rule[r] - row[rules.parent[r]]) / temperature
                if gap > -MOST:
                    sums[rules.parent[r]] += math.exp(gap)


@njit
def sum_chains(rules, scores, temperature, row, extra_row, top, sums):
    """top[A] = smax_ε of the base A and of all chains below A."""
    weigh_chains(rules, scores, temperature, row, extra_row, top, sums)
    for a in range(row.shape[0]):
        if top[a] > -np.inf:
            top[a] += temperature * math.log(sums[a])


@njit
def weigh_chains(rules, scores, temperature, row, extra_row, top, sums):
    """top[A] = the maximum of the base A and of all chains below A, sums[A] = Σ of exponentials measured against it."""
    for a in range(row.shape[0]):
        top[a] = row[a]
    for b in range(row.shape[0]):
        if row[b] > -np.inf:
            for chain in range(rules.bottom_start[b], rules.bottom_start[b + 1]):
                found = row[b] + chain_score(rules, scores, chain, extra_row)
                if found > top[rules.top[chain]]:
                    top[rules.top[chain]] = found
    for a in range(row.shape[0]):
        sums[a] = math.exp((row[a] - top[a]) / temperature) if row[a] > -np.inf else 0.0
    for b in range(row.shape[0]):
        if row[b] > -np.inf:
            for chain in range(rules.bottom_start[b], rules.bottom_start[b + 1]):
                found = row[b] + chain_score(rules, scores, chain, extra_row)
                sums[rules.top[chain]] += math.exp((found - top[rules.top[chain]]) / temperature)


@njit
def sum_splits(rules, scores, chart, linear, i, j, temperature, room, row, sums):
    """row[A] = smax_ε over splits and binary rules, without what the label adds."""
    high, tame = split_scales(linear, i, j, temperature, room.factors)
    if tame:
        sum_products(rules, linear, chart, i, j, high, temperature, room.factors, room.shares, row, sums)
    else:
        pool_pairs(rules, scores, chart, i, j, temperature, room.pairs, room.shares, row)
        sum_bases(rules, scores, chart, i, j, temperature, room.pairs, row, sums)


@njit
def inside_sum(sentences, rules, scores, k, temperature, extra, chart, linear, top, sums, room):
    """Fill the chart of sentence k with pooled scores."""
    first = sentences.offsets[k]
    n = sentences.offsets[k + 1] - first
    clear_chart(chart, n)
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            c = cell_of(i, j, n)
            row = chart.base[c]
            fill(row, -np.inf)
            if length == 1:
                choose_tags(sentences, scores, first + i, row)
            else:
                sum_splits(rules, scores, chart, linear, i, j, temperature, room, row, sums)
                add_labels(rules, row, extra[c])
            sum_chains(rules, scores, temperature, row, extra[c], top, sums)
            record(chart, i, j, top)
            record_linear(linear, chart, i, j, top, temperature)


@njit
def share_chains(rules, scores, temperature, weight, row, extra_row, top, sums, above, below, labels, slope):
    """Hand the probabilities of full symbols, `above`, down to bases, `below`, and to the labels of chains.

    `top`, the symbols' scores, and `above` are changed where rounding hides what scores differ by.
    """
    if is_coarse(0.0, top, temperature):
        weigh_chains(rules, scores, temperature, row, extra_row, top, sums)
        for a in range(row.shape[0]):
            above[a] = above[a] / sums[a] if top[a] > -np.inf else 0.0
    for a in range(row.shape[0]):
        if above[a] > LEAST_PROBABILITY and row[a] > -np.inf:
            below[a] += above[a] * math.exp((row[a] - top[a]) / temperature)
    for b in range(row.shape[0]):
        if row[b] == -np.inf:
            continue
        for chain in range(rules.bottom_start[b], rules.bottom_start[b + 1]):
            upper = rules.top[chain]
            if above[upper] <= LEAST_PROBABILITY:
                continue
            found = row[b] + chain_score(rules, scores, chain, extra_row)
            share = above[upper] * math.exp((found - top[upper]) / temperature)
            below[b] += share
            for s in range(rules.step_start[chain], rules.step_start[chain + 1]):
                slope[rules.step_weight[s]] += weight * share
                labels[rules.label[rules.step_symbol[s]]] += share


@njit
def share_bases(rules, scores, chart, i, j, temperature, weight, room, row, below, sums, slope):
    """Hand the probabilities of bases, `below`, down to rules and to the symbols of smaller spans.

    `row` becomes the maxima of the bases' scores without what labels add: scores less what labels add would not be
    precise enough where they are large.
    """
    shares, left_above, right_above = room.shares, room.left_above, room.right_above
    fill(row, -np.inf)
    pool_pairs(rules, scores, chart, i, j, temperature, room.pairs, shares, row)
    weigh_bases(rules, scores, chart, i, j, temperature, room.pairs, row, sums)
    for at in range(chart.n_starters[i]):
        b = chart.starters[i, at]
        for pair in range(rules.left_start[b], rules.left_start[b + 1]):
            wanted = False
            for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                wanted |= below[rules.parent[r]] > LEAST_PROBABILITY
            c = rules.pair_right[pair]
            low, high = splits_of(chart, i, j, b, c)
            if not wanted or low > high:
                continue
            pooled = pool_pair(chart.from_start[i, b], chart.from_end[j, c], low, high, temperature, shares)
            if pooled == -np.inf:
                continue
            taken = 0.0
            for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                parent = rules.parent[r]
                gap = (pooled + scores.rule[r] - row[parent]) / temperature
                if below[parent] > LEAST_PROBABILITY and gap > -MOST:
                    share = below[parent] * math.exp(gap) / sums[parent]
                    taken += share
                    slope[rules.weight[r]] += weight * share
            for k in range(low, high + 1):
                left_above[i, b, k] += taken * shares[k]
                right_above[j, c, k] += taken * shares[k]


@njit
def share_splits(rules, scores, chart, linear, i, j, temperature, weight, room, row, below, sums, slope):
    """Hand the probabilities of bases down, in the way in which the span was summed up."""
    left, right = room.left_above, room.right_above
    high, tame = split_scales(linear, i, j, temperature, room.factors)
    if tame:
        share_products(
            rules, linear, chart, i, j, high, temperature, weight, room, row, below, sums, left, right, slope
        )
    else:
        share_bases(rules, scores, chart, i, j, temperature, weight, room, row, below, sums, slope)


@njit
def share_labels(spans, first, i, j, labels, weight, slope):
    """Add the features of the labels of a span, by their probabilities."""
    size = spans.classes[min(j - i, spans.classes.shape[0] - 1)]
    for a in spans.starts[first + i]:
        add_attribute(spans, a, labels, weight, slope)
    for a in spans.ends[first + j]:
        add_attribute(spans, a, labels, weight, slope)
    add_attribute(spans, spans.lengths[size], labels, weight, slope)


@inlined
def add_attribute(spans, attribute, labels, weight, slope):
    """Add one attribute's features with all labels."""
    if attribute >= 0:
        for q in range(spans.label_start[attribute], spans.label_start[attribute + 1]):
            slope[spans.weight[q]] += weight * labels[spans.label[q]]


@njit
def outside(sentences, spans, rules, scores, k, temperature, weight, extra, chart, linear, room, labels, slope):
    """Hand probabilities down from the root's, which room.left_above holds; add weight·E[φ] to `slope`.

    The probability of symbol A in the span (i, j) is left_above[i, A, j] + right_above[j, A, i], as a left and as a
    right child. labels[c, l] becomes the probability of label l in cell c.
    """
    first = sentences.offsets[k]
    n = sentences.offsets[k + 1] - first
    n_symbols = chart.base.shape[1]
    above, below, top, sums = np.empty(n_symbols), np.empty(n_symbols), np.empty(n_symbols), np.empty(n_symbols)
    for length in range(n, 0, -1):
        for i in range(n - length + 1):
            j = i + length
            c = cell_of(i, j, n)
            row = chart.base[c]
            for a in range(n_symbols):
                there = chart.last_end[i, a] >= 0 and chart.last_start[j, a] >= 0
                above[a] = room.left_above[i, a, j] + room.right_above[j, a, i] if there else 0.0
                below[a] = 0.0
                # Where nothing comes from above, the chart need not hold a score for this very span.
                top[a] = chart.from_start[i, a, j] if above[a] > 0.0 else -np.inf
            fill(labels[c], 0.0)
            share_chains(rules, scores, temperature, weight, row, extra[c], top, sums, above, below, labels[c], slope)
            if length == 1:
                for q in range(sentences.choice_start[first + i], sentences.choice_start[first + i + 1]):
                    if sentences.choice_weight[q] >= 0:
                        slope[sentences.choice_weight[q]] += weight * below[sentences.choice_symbol[q]]
            else:
                for a in range(n_symbols):
                    if rules.label[a] >= 0 and row[a] > -np.inf:
                        labels[c, rules.label[a]] += below[a]
                        row[a] -= extra[c, rules.label[a]]
                share_splits(rules, scores, chart, linear, i, j, temperature, weight, room, row, below, sums, slope)
            if spans.starts.shape[0] > 0:
                share_labels(spans, first + k, i, j, labels[c], weight, slope)


@njit
def expected_cost(sentences, k, cost, gain, labels):
    """Return the expected cost·(constituents) − gain·(right ones) of sentence k."""
    n = sentences.offsets[k + 1] - sentences.offsets[k]
    total = 0.0
    if cost != 0.0:
        for c in range(n * (n + 1) // 2):
            for a in range(labels.shape[1]):
                total += cost * labels[c, a]
    if gain != 0.0:
        for g in range(sentences.gold_start[k], sentences.gold_start[k + 1]):
            c = cell_of(sentences.gold_first[g], sentences.gold_stop[g], n)
            total -= gain * labels[c, sentences.gold_label[g]]
    return total


@njit
def clear_probabilities(chart, n, left_above, right_above):
    """Set the probabilities of all symbols to 0, where spans have them as first or last part."""
    for i in range(n):
        for at in range(chart.n_starters[i]):
            fill(left_above[i, chart.starters[i, at]], 0.0)
    for j in range(1, n + 1):
        for a in range(chart.last_start.shape[1]):
            if chart.last_start[j, a] >= 0:
                fill(right_above[j, a], 0.0)


@njit
def pool_roots(top, temperature):
    """Return smax_ε of the scores of all symbols as roots; they become each root's share of it."""
    high = top.max()
    if high == -np.inf:
        return high
    total = 0.0
    for a in range(top.shape[0]):
        top[a] = math.exp((top[a] - high) / temperature)
        total += top[a]
    for a in range(top.shape[0]):
        top[a] /= total
    return high + temperature * math.log(total)


@njit
def make_workspace(longest, rules, scores, temperature):
    """Return room for the charts of sentences of at most this many words."""
    n_symbols, n_labels = rules.root.shape[0], scores.length.shape[1]
    cells = longest * (longest + 1) // 2
    chart = make_chart(longest, n_symbols)
    left, right = np.empty_like(chart.from_start), np.empty_like(chart.from_end)
    return Workspace(
        chart,
        make_linear(longest, n_symbols, scores.rule, temperature),
        Room(np.empty(rules.pair_right.shape[0]), np.empty(longest + 1), np.empty(longest + 1), left, right),
        np.empty(n_symbols),
        np.empty(n_symbols),
        np.empty((cells, n_labels)),
        np.empty((cells, n_labels)),
    )


@njit
def pool_sentence(sentences, spans, rules, scores, k, cost, gain, temperature, weight, work, slope):
    """Return ε log Z of all trees of sentence k, −inf if there is none; add weight·E[φ] to `slope`.

    work.labels[c, l] becomes the probability of label l in cell c, if there is a tree.
    """
    n = sentences.offsets[k + 1] - sentences.offsets[k]
    chart, linear, room, top = work.chart, work.linear, work.room, work.top
    fill_extra(sentences, spans, scores, k, cost, gain, work.extra)
    inside_sum(sentences, rules, scores, k, temperature, work.extra, chart, linear, top, work.sums, room)
    for a in range(top.shape[0]):
        top[a] += scores.root[a]
    value = pool_roots(top, temperature)
    if value == -np.inf:
        return value
    clear_probabilities(chart, n, room.left_above, room.right_above)
    for a in range(top.shape[0]):
        if top[a] > 0.0:
            room.left_above[0, a, n] = top[a]
            slope[rules.root[a]] += weight * top[a]
    outside(
        sentences, spans, rules, scores, k, temperature, weight, work.extra, chart, linear, room, work.labels, slope
    )
    return value


@njit
def pool_trees(
    sentences, spans, rules, scores, rows, cost, gain, temperature, weights, together, values, expected, slopes
):
    """Pool all trees of each row: values = ε log Z, −inf if there is none, and the expected loss terms.

    Expected features times weights are added to slopes[m], or all to slopes[0] if `together`.
    """
    work = make_workspace(longest_sentence(sentences, rows), rules, scores, temperature)
    for m in range(rows.shape[0]):
        k, slope = rows[m], slopes[0] if together else slopes[m]
        values[m] = pool_sentence(sentences, spans, rules, scores, k, cost, gain, temperature, weights[m], work, slope)
        expected[m] = expected_cost(sentences, k, cost, gain, work.labels) if values[m] > -np.inf else 0.0


@njit
def probable_labels(sentences, spans, rules, scores, k, temperature, least, slope):
    """Return (cells, labels, probabilities) of what is more probable than `least` in the trees of sentence k.

    All are empty if there is no tree. `slope` (d,) stays as it is.
    """
    work = make_workspace(sentences.offsets[k + 1] - sentences.offsets[k], rules, scores, temperature)
    value = pool_sentence(sentences, spans, rules, scores, k, 0.0, 0.0, temperature, 0.0, work, slope)
    # Without a tree, no probabilities were written.
    least = least if value > -np.inf else np.inf
    cells, labels = np.nonzero(work.labels > least)
    probabilities = np.empty(cells.shape[0])
    for q in range(cells.shape[0]):
        probabilities[q] = work.labels[cells[q], labels[q]]
    return cells, labels, probabilities
