"""Dual ascent inside an example, over the planes that are kept for it; symbols as in `plane_store`."""

import numpy as np

from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.plane_store import add_slots, gram_of, score_slots

PLAIN, AWAY, PAIRWISE, SMO = 0, 1, 2, 3


@inlined
def block_gap(count, alpha, heights):
    """Return max_p s_p − Σ_p α_p s_p, the example's duality gap over its kept planes (per unit weight)."""
    best = heights[0]
    mean = 0.0
    for p in range(count):
        best = max(best, heights[p])
        mean += alpha[p] * heights[p]
    return best - mean


@inlined
def move_mass(count, source, target, weight, limit, alpha, heights, gram):
    """Move the best part (≤ limit) of dual mass from plane `source` to `target`; return the gain."""
    slope = heights[target] - heights[source]
    to_target, to_source = gram[target], gram[source]
    curvature = weight * (to_target[target] - 2.0 * to_target[source] + to_source[source])
    # Two planes of equal slope: the higher one takes all.
    moved = limit if slope >= curvature * limit else slope / curvature
    if moved <= 0.0:
        return 0.0
    # Exact zeros matter: a plane without weight may be dropped.
    alpha[source] = alpha[source] - moved if moved < alpha[source] else 0.0
    alpha[target] += moved
    step = weight * moved
    for p in range(count):
        heights[p] -= step * (to_target[p] - to_source[p])
    return step * (slope - 0.5 * curvature * moved)


@inlined
def best_and_worst(count, alpha, heights):
    """Return the highest plane and the lowest one that has weight."""
    best, worst = 0, -1
    highest, lowest = heights[0], np.inf
    for p in range(count):
        height = heights[p]
        # No branch: which planes these are cannot be predicted.
        higher = height > highest
        best, highest = p if higher else best, height if higher else highest
        lower = (alpha[p] > 0.0) & (height < lowest)
        worst, lowest = p if lower else worst, height if lower else lowest
    return best, worst


@njit
def toward_vertex(count, vertex, away, weight, alpha, heights, gram):
    """Make a Frank-Wolfe step with exact line search toward a plane, or away from it; return the gain."""
    cross, square, mean = 0.0, 0.0, 0.0
    for p in range(count):
        if alpha[p] == 0.0:
            continue
        mean += alpha[p] * heights[p]
        cross += alpha[p] * gram[vertex, p]
        for q in range(count):
            square += alpha[p] * alpha[q] * gram[p, q]
    sign = -1.0 if away else 1.0
    slope = sign * (heights[vertex] - mean)
    limit = 1.0
    if away:
        limit = alpha[vertex] / (1.0 - alpha[vertex]) if alpha[vertex] < 1.0 else 0.0
    curvature = weight * (gram[vertex, vertex] - 2.0 * cross + square)
    step = limit if slope >= curvature * limit else slope / curvature
    if step <= 0.0:
        return 0.0
    for p in range(count):
        alpha[p] *= 1.0 - sign * step
    alpha[vertex] += sign * step
    if (away and step == limit) or alpha[vertex] < 0.0:
        alpha[vertex] = 0.0
    if not away and step == 1.0:
        alpha[:count] = 0.0
        alpha[vertex] = 1.0
    return weight * step * (slope - 0.5 * curvature * step)


@inlined
def update_block(rule, count, weight, steps, alpha, heights, gram):
    """Raise the dual over one example's kept planes by the given rule; return the gain."""
    if rule == SMO:
        first, total = 0.0, 0.0
        for step in range(steps):
            best, source = best_and_worst(count, alpha, heights)
            if heights[best] <= heights[source]:
                return total
            gain = move_mass(count, source, best, weight, alpha[source], alpha, heights, gram)
            total += gain
            if step == 0:
                first = gain
            # More precision on planes that will soon be joined by better ones is wasted.
            elif gain < 0.1 * first:
                return total
        return total
    best, worst = best_and_worst(count, alpha, heights)
    if rule == PAIRWISE:
        if heights[best] > heights[worst]:
            return move_mass(count, worst, best, weight, alpha[worst], alpha, heights, gram)
        return 0.0
    mean = 0.0
    for p in range(count):
        mean += alpha[p] * heights[p]
    if rule == AWAY and mean - heights[worst] > heights[best] - mean:
        return toward_vertex(count, worst, True, weight, alpha, heights, gram)
    return toward_vertex(count, best, False, weight, alpha, heights, gram)


@njit
def ascend(rule, steps, examples, weights, w, rows, tables, slots, scratch, gaps):
    """Update the listed examples one after the other; `w` follows.

    gaps[k] is the weighted gap of example k over its kept planes, before its own update. Returns the change of
    Σ_i c_i Σ_p α_ip b_ip and the gain of the dual value.
    """
    size = slots.start.shape[1]
    heights = np.empty(size)
    before = np.empty(size)
    memo = np.empty(tables.length.max())
    now = scratch.clock[0]
    change, gain = 0.0, 0.0
    for k in range(examples.shape[0]):
        example = examples[k]
        weight = weights[example]
        count = slots.count[example]
        alpha = slots.alpha[example]
        if weight == 0.0 or count == 1:
            gaps[k] = 0.0
            continue
        score_slots(example, tables.varied[example], w, rows, tables, slots, memo, heights)
        for p in range(count):
            heights[p] += slots.offset[example, p]
            before[p] = alpha[p]
        gaps[k] = weight * block_gap(count, alpha, heights)
        if gaps[k] <= 0.0:
            continue
        gain += update_block(rule, count, weight, steps, alpha, heights, gram_of(example, slots))
        moved = False
        for p in range(count):
            if alpha[p] > 0.0:
                slots.used[example, p] = now
            # The change of w is −c (α − α_before).
            before[p] = weight * (before[p] - alpha[p])
            change -= before[p] * slots.offset[example, p]
            moved = moved or before[p] != 0.0
        if moved:
            add_slots(example, tables.varied[example], before, weight, w, rows, tables, slots, memo)
    return change, gain
