"""Sub-symbols of known trees: the best ones, and sums over all of them.

A tree is given by its nodes in preorder, so that children come after their parents: kind, number of the rule, and place
of the right child. With k sub-symbols a symbol, the weight of binary rule r over sub-symbols a → b c is number
(r·k + a)·k² + b·k + c, that of a unary rule (r·k + a)·k + b and of a lexical entry r·k + a, each from the start of its
block.
"""

import math
from typing import NamedTuple

import numpy as np

from latentstruct._native.parsing import BINARY, LEXICAL
from latentstruct.kernels.jit import inlined, njit


class GoldTrees(NamedTuple):
    """Known trees as nodes in preorder, one sentence after the other."""

    offsets: np.ndarray  # (n + 1,)
    kind: np.ndarray
    rule: np.ndarray  # −1 for a word without a lexical entry
    symbol: np.ndarray
    right: np.ndarray  # flat place of the right child; its own place where there is none
    start: np.ndarray
    end: np.ndarray
    root: np.ndarray  # (n,) number of the root among the grammar's roots


@inlined
def parts(trees, v, k, blocks, w, below, a, found):
    """Write the scores of all sub-symbols of node v's children, given its own, a; return how many there are."""
    rule = trees.rule[v]
    if trees.kind[v] == LEXICAL:
        found[0] = w[blocks[1] + rule * k + a] if rule >= 0 else 0.0
        return 1
    left = below[v + 1]
    if trees.kind[v] != BINARY:
        for b in range(k):
            found[b] = w[blocks[0] + (rule * k + a) * k + b] + left[b]
        return k
    right = below[trees.right[v]]
    at = (rule * k + a) * k * k
    for b in range(k):
        for c in range(k):
            found[b * k + c] = w[at + b * k + c] + left[b] + right[c]
    return k * k


@inlined
def pooled(found, size, temperature):
    """Return smax_ε of the first scores."""
    high = -np.inf
    for q in range(size):
        high = max(high, found[q])
    if temperature == 0.0:
        return high
    total = 0.0
    for q in range(size):
        total += math.exp((found[q] - high) / temperature)
    return high + temperature * math.log(total)


@inlined
def divide(found, size, temperature, share):
    """Replace the first scores by their parts of a share: measured against the largest score, so that none is lost."""
    high, total = -np.inf, 0.0
    for q in range(size):
        high = max(high, found[q])
    for q in range(size):
        found[q] = math.exp((found[q] - high) / temperature)
        total += found[q]
    for q in range(size):
        found[q] *= share / total


@inlined
def pool_nodes(trees, m, k, blocks, w, temperature, below, found):
    """below[v, a] = smax_ε over the sub-symbols below node v with sub-symbol a; return the value with the root's."""
    first, stop = trees.offsets[m], trees.offsets[m + 1]
    for v in range(stop - 1, first - 1, -1):
        for a in range(k):
            size = parts(trees, v, k, blocks, w, below, a, found)
            below[v, a] = pooled(found, size, temperature)
    for a in range(k):
        found[a] = w[blocks[2] + trees.root[m] * k + a] + below[first, a]
    return pooled(found, k, temperature)


@njit
def best_annotations(trees, rows, k, blocks, w, values, chosen):
    """Write the best sub-symbol of each node of the rows' trees, at the trees' own places, and the scores."""
    below, found = np.empty((trees.kind.shape[0], k)), np.empty(k * k)
    for at in range(rows.shape[0]):
        m = rows[at]
        values[at] = pool_nodes(trees, m, k, blocks, w, 0.0, below, found)
        chosen[trees.offsets[m]] = np.argmax(found[:k])
        for v in range(trees.offsets[m], trees.offsets[m + 1]):
            size = parts(trees, v, k, blocks, w, below, chosen[v], found)
            best = np.argmax(found[:size])
            if trees.kind[v] == BINARY:
                chosen[v + 1], chosen[trees.right[v]] = best // k, best % k
            elif trees.kind[v] != LEXICAL:
                chosen[v + 1] = best


@inlined
def share_parts(trees, v, k, blocks, a, share, weight, q, above, slope):
    """Give a share to choice q of the sub-symbols below node v, which has a."""
    rule = trees.rule[v]
    if trees.kind[v] == LEXICAL:
        if rule >= 0:
            slope[blocks[1] + rule * k + a] += weight * share
    elif trees.kind[v] != BINARY:
        above[v + 1, q] += share
        slope[blocks[0] + (rule * k + a) * k + q] += weight * share
    else:
        above[v + 1, q // k] += share
        above[trees.right[v], q % k] += share
        slope[(rule * k + a) * k * k + q] += weight * share


@njit
def pool_annotations(trees, rows, k, blocks, w, temperature, weights, together, values, slopes):
    """Pool all sub-symbols of the rows' trees at ε > 0; add weights times expected features to slopes.

    Expected features are added to slopes[at], or all to slopes[0] if `together`; spans' features, which do not depend
    on sub-symbols, are left out.
    """
    below, above = np.empty((trees.kind.shape[0], k)), np.zeros((trees.kind.shape[0], k))
    found = np.empty(k * k)
    for at in range(rows.shape[0]):
        m, weight = rows[at], weights[at]
        slope = slopes[0] if together else slopes[at]
        values[at] = pool_nodes(trees, m, k, blocks, w, temperature, below, found)
        first = trees.offsets[m]
        above[first : trees.offsets[m + 1]] = 0.0
        divide(found, k, temperature, 1.0)
        for a in range(k):
            above[first, a] = found[a]
            slope[blocks[2] + trees.root[m] * k + a] += weight * above[first, a]
        for v in range(first, trees.offsets[m + 1]):
            for a in range(k):
                size = parts(trees, v, k, blocks, w, below, a, found)
                divide(found, size, temperature, above[v, a])
                for q in range(size):
                    share_parts(trees, v, k, blocks, a, found[q], weight, q, above, slope)
