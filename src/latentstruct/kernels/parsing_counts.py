"""The tree that maximises s + 1 − F1, exactly, by a chart of counts.

base[c, A, h, p] and full[c, A, h, p] are the best scores of symbol A in cell c, before and after chains, among the
derivations that have p constituents, h of them right; −inf where there is none. With g gold constituents the loss of
the whole is Δ = 1 − 2h/(p + g). Time and memory grow fast with the number of words: for short sentences only.
"""

import numpy as np

from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.parsing import (
    BINARY,
    LEXICAL,
    UNARY,
    cell_of,
    chain_score,
    fill,
    fill_extra,
    put,
)


@inlined
def clear(tables):
    """Set all counts of all symbols, (S, h, p), to −inf."""
    for a in range(tables.shape[0]):
        for h in range(tables.shape[1]):
            fill(tables[a, h], -np.inf)


@inlined
def copy(table, out):
    """Copy the counts of one symbol."""
    for h in range(table.shape[0]):
        for p in range(table.shape[1]):
            out[h, p] = table[h, p]


@njit
def join(left, right, score, out):
    """out[h, p] = max over h = h₁ + h₂ and p = p₁ + p₂ of left[h₁, p₁] + right[h₂, p₂] + score, where that is more."""
    for h1 in range(left.shape[0]):
        for p1 in range(left.shape[1]):
            if left[h1, p1] == -np.inf:
                continue
            for h2 in range(left.shape[0] - h1):
                for p2 in range(left.shape[1] - p1):
                    found = left[h1, p1] + right[h2, p2] + score
                    if found > out[h1 + h2, p1 + p2]:
                        out[h1 + h2, p1 + p2] = found


@njit
def shift(table, hits, labels, score, out):
    """out[h + hits, p + labels] = table[h, p] + score, where that is more."""
    for h in range(table.shape[0] - hits):
        for p in range(table.shape[1] - labels):
            if table[h, p] + score > out[h + hits, p + labels]:
                out[h + hits, p + labels] = table[h, p] + score


@inlined
def chain_hits(rules, chain, gold_row):
    """Return how many labels of a chain are gold in a cell."""
    hits = 0
    for s in range(rules.step_start[chain], rules.step_start[chain + 1]):
        hits += gold_row[rules.label[rules.step_symbol[s]]]
    return hits


@njit
def fill_base(sentences, rules, scores, k, i, j, extra, gold, full, bare, base):
    """Fill in the bases of one cell; `bare` becomes what they are without their labels."""
    first = sentences.offsets[k]
    n = sentences.offsets[k + 1] - first
    c = cell_of(i, j, n)
    clear(bare)
    clear(base[c])
    if j - i == 1:
        for q in range(sentences.choice_start[first + i], sentences.choice_start[first + i + 1]):
            base[c, sentences.choice_symbol[q], 0, 0] = scores.choice[q]
        return
    for r in range(rules.left.shape[0]):
        for m in range(i + 1, j):
            left, right = full[cell_of(i, m, n), rules.left[r]], full[cell_of(m, j, n), rules.right[r]]
            join(left, right, scores.rule[r], bare[rules.parent[r]])
    for a in range(rules.root.shape[0]):
        label = rules.label[a]
        if label < 0:
            copy(bare[a], base[c, a])
        else:
            shift(bare[a], gold[c, label], 1, extra[c, label], base[c, a])


@njit
def fill_counts(sentences, rules, scores, k, extra, gold, base, full):
    """Fill the chart of sentence k."""
    n = sentences.offsets[k + 1] - sentences.offsets[k]
    bare = np.empty(base.shape[1:])
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            c = cell_of(i, i + length, n)
            fill_base(sentences, rules, scores, k, i, i + length, extra, gold, full, bare, base)
            for a in range(base.shape[1]):
                copy(base[c, a], full[c, a])
            for chain in range(rules.top.shape[0]):
                steps = rules.step_start[chain + 1] - rules.step_start[chain]
                score = chain_score(rules, scores, chain, extra[c])
                hits = chain_hits(rules, chain, gold[c])
                shift(base[c, rules.bottom[chain]], hits, steps, score, full[c, rules.top[chain]])


@njit
def chain_of(rules, scores, c, symbol, h, p, extra, gold, base):
    """Return the chain by which a symbol has its best score with these counts, −1 if it is the base itself."""
    chosen, best = -1, base[c, symbol, h, p]
    for at in range(rules.top_start[symbol], rules.top_start[symbol + 1]):
        chain = rules.by_top[at]
        rest_p = p - (rules.step_start[chain + 1] - rules.step_start[chain])
        rest_h = h - chain_hits(rules, chain, gold[c])
        if rest_p >= 0 and rest_h >= 0:
            found = base[c, rules.bottom[chain], rest_h, rest_p] + chain_score(rules, scores, chain, extra[c])
            if found > best:
                chosen, best = chain, found
    return chosen


@njit
def split_of(rules, scores, i, j, n, symbol, h, p, full):
    """Return rule, split, and the left child's counts by which a base has its best score, label not counted."""
    best, chosen = -np.inf, (-1, -1, 0, 0)
    for at in range(rules.parent_start[symbol], rules.parent_start[symbol + 1]):
        r = rules.by_parent[at]
        for m in range(i + 1, j):
            left, right = full[cell_of(i, m, n), rules.left[r]], full[cell_of(m, j, n), rules.right[r]]
            for h1 in range(h + 1):
                for p1 in range(p + 1):
                    found = left[h1, p1] + right[h - h1, p - p1] + scores.rule[r]
                    if found > best:
                        best, chosen = found, (r, m, h1, p1)
    return chosen


@inlined
def push(stack, at, i, j, symbol, h, p):
    """Keep for later that a symbol of a span is to be traced with these counts."""
    stack[at, 0], stack[at, 1], stack[at, 2], stack[at, 3], stack[at, 4] = i, j, symbol, h, p


@njit
def trace_counts(sentences, rules, scores, k, root, h, p, extra, gold, base, full, at, out):
    """Write the nodes of the best derivation with these counts in preorder; return the place after it."""
    first = sentences.offsets[k]
    n = sentences.offsets[k + 1] - first
    stack = np.empty((n + 1, 5), dtype=np.int64)
    push(stack, 0, 0, n, root, h, p)
    depth = 1
    while depth > 0:
        depth -= 1
        i, j, symbol, h, p = stack[depth]
        c = cell_of(i, j, n)
        chain = chain_of(rules, scores, c, symbol, h, p, extra, gold, base)
        if chain >= 0:
            for s in range(rules.step_start[chain + 1] - 1, rules.step_start[chain] - 1, -1):
                put(out, at, UNARY, rules.step_symbol[s], rules.step_weight[s], i, j)
                at += 1
            symbol = rules.bottom[chain]
            h -= chain_hits(rules, chain, gold[c])
            p -= rules.step_start[chain + 1] - rules.step_start[chain]
        if j - i == 1:
            for q in range(sentences.choice_start[first + i], sentences.choice_start[first + i + 1]):
                if sentences.choice_symbol[q] == symbol:
                    put(out, at, LEXICAL, symbol, sentences.choice_weight[q], i, j)
            at += 1
            continue
        if rules.label[symbol] >= 0:
            h -= gold[c, rules.label[symbol]]
            p -= 1
        rule, m, h1, p1 = split_of(rules, scores, i, j, n, symbol, h, p, full)
        put(out, at, BINARY, symbol, rules.weight[rule], i, j)
        at += 1
        push(stack, depth, m, j, rules.right[rule], h - h1, p - p1)
        push(stack, depth + 1, i, m, rules.left[rule], h1, p1)
        depth += 2
    return at


@njit
def best_f1_trees(sentences, spans, rules, scores, rows, most_steps, out):
    """Write the derivation of each row that maximises s + 1 − 2h/(p + g); `most_steps` is that of all chains."""
    at = 0
    n_symbols, n_labels = rules.root.shape[0], scores.length.shape[1]
    for m in range(rows.shape[0]):
        k = rows[m]
        out.offsets[m] = at
        n = sentences.offsets[k + 1] - sentences.offsets[k]
        g = sentences.gold_start[k + 1] - sentences.gold_start[k]
        cells = n * (n + 1) // 2
        extra, gold = np.empty((cells, n_labels)), np.zeros((cells, n_labels), dtype=np.int64)
        fill_extra(sentences, spans, scores, k, 0.0, 0.0, extra)
        for one in range(sentences.gold_start[k], sentences.gold_start[k + 1]):
            gold[cell_of(sentences.gold_first[one], sentences.gold_stop[one], n), sentences.gold_label[one]] = 1
        size = (cells, n_symbols, g + 1, n + (2 * n - 1) * most_steps)
        base, full = np.empty(size), np.empty(size)
        fill_counts(sentences, rules, scores, k, extra, gold, base, full)
        top = full[cell_of(0, n, n)]
        best, root, h, p = -np.inf, -1, 0, 0
        for a in range(n_symbols):
            for right in range(top.shape[1]):
                for predicted in range(top.shape[2]):
                    loss = 1.0 - 2.0 * right / (predicted + g) if predicted + g > 0 else 0.0
                    if top[a, right, predicted] + scores.root[a] + loss > best:
                        best = top[a, right, predicted] + scores.root[a] + loss
                        root, h, p = a, right, predicted
        if root >= 0:
            at = trace_counts(sentences, rules, scores, k, root, h, p, extra, gold, base, full, at, out)
    out.offsets[rows.shape[0]] = at
