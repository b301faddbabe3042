"""The best parse trees by CKY over flat arrays.

Words are counted from 0; the span (i, j) holds the words i … j − 1. A derivation of a span is a *base*, made by a
binary rule or, for one word, by a tag, and then at most one unary *chain* above it. base[c, A] is the best score of
cell c before chains, and the best one after chains is kept twice, as from_start[i, A, j] and from_end[j, A, i], so
that all splits of a span lie side by side for both children; −inf where there is none. Rules with the same two
children form a *pair*, whose splits are searched once for all of them. A label l in the span (i, j) adds

    extra[c, l] = start[i, l] + end[j, l] + length[class of j − i, l] + cost − gain·[l is a gold label of (i, j)]

once for the base and for each node of the chain, where the first three come from features and the last two from the
loss, which is linear in the numbers of all constituents and of right ones.
"""

from typing import NamedTuple

import numpy as np

from latentstruct.kernels.jit import inlined, njit

LEXICAL, UNARY, BINARY = 0, 1, 2


class Rules(NamedTuple):
    """A grammar over S symbols: R binary rules sorted by left and right child, K chains sorted by bottom symbol."""

    left_start: np.ndarray  # (S + 1,) pairs with this left child
    pair_right: np.ndarray  # (Q,) right child of a pair
    pair_start: np.ndarray  # (Q + 1,) rules of a pair
    left: np.ndarray  # (R,)
    right: np.ndarray  # (R,)
    parent: np.ndarray  # (R,)
    weight: np.ndarray  # (R,) number of the rule's weight
    parent_start: np.ndarray  # (S + 1,)
    by_parent: np.ndarray  # (R,) rules sorted by parent
    bottom_start: np.ndarray  # (S + 1,) chains with this bottom
    bottom: np.ndarray  # (K,)
    top: np.ndarray  # (K,)
    top_start: np.ndarray  # (S + 1,)
    by_top: np.ndarray  # (K,) chains sorted by top
    step_start: np.ndarray  # (K + 1,) steps of a chain, from its bottom up
    step_weight: np.ndarray  # number of the weight of the unary rule
    step_symbol: np.ndarray  # the upper symbol of the step
    root: np.ndarray  # (S,) number of the weight of the symbol as root, −1 where it cannot be one
    label: np.ndarray  # (S,) number of the constituent label, −1 for tags and artificial symbols


class Sentences(NamedTuple):
    """Words of all sentences with the symbols they may have, and the gold constituents."""

    offsets: np.ndarray  # (n + 1,) words
    choice_start: np.ndarray  # (T + 1,)
    choice_symbol: np.ndarray
    choice_weight: np.ndarray  # number of the lexical weight, −1 if there is none
    gold_start: np.ndarray  # (n + 1,)
    gold_first: np.ndarray
    gold_stop: np.ndarray
    gold_label: np.ndarray


class Spans(NamedTuple):
    """Features of labelled spans: attributes of their ends and their length.

    Sentence k has the boundaries offsets[k] + k + p, p from 0 to its number of words.
    """

    starts: np.ndarray  # (boundaries, attributes each) attribute of a span that starts here, −1 if unknown
    ends: np.ndarray  # likewise of a span that ends here
    lengths: np.ndarray  # (C,) attribute of each class of lengths
    classes: np.ndarray  # class of each length; longer spans have the last
    label_start: np.ndarray  # (attributes + 1,)
    label: np.ndarray  # labels that have a weight with this attribute
    weight: np.ndarray  # its number


class Scores(NamedTuple):
    """What derivations are made of, scored."""

    rule: np.ndarray  # (R,)
    chain: np.ndarray  # (K,)
    root: np.ndarray  # (S,) −inf where a symbol cannot be the root
    choice: np.ndarray
    start: np.ndarray  # (boundaries, L), or (0, L) without span features
    end: np.ndarray
    length: np.ndarray  # (C, L)


class Derivations(NamedTuple):
    """Derivations as nodes in preorder, one sentence after the other."""

    offsets: np.ndarray  # (k + 1,)
    kind: np.ndarray
    symbol: np.ndarray
    weight: np.ndarray  # −1 where there is none
    start: np.ndarray
    end: np.ndarray


@inlined
def cell_of(i, j, n):
    """Return the number of the cell (i, j) among the n(n + 1)/2 of a sentence of n words."""
    return i * n - i * (i - 1) // 2 + j - i - 1


@inlined
def fill(row, value):
    """Set all of a row; an assignment to row[:] would take much longer to compile."""
    for a in range(row.shape[0]):
        row[a] = value


@njit
def score_boundaries(attributes, spans, w, out):
    """out[b, l] = Σ of the weights of boundary b's attributes with label l."""
    for b in range(attributes.shape[0]):
        fill(out[b], 0.0)
        for a in attributes[b]:
            if a >= 0:
                for at in range(spans.label_start[a], spans.label_start[a + 1]):
                    out[b, spans.label[at]] += w[spans.weight[at]]


@njit
def score_chains(rules, w, out):
    """out[c] = Σ of the weights of the chain's unary rules."""
    for c in range(out.shape[0]):
        out[c] = 0.0
        for s in range(rules.step_start[c], rules.step_start[c + 1]):
            out[c] += w[rules.step_weight[s]]


@njit
def fill_extra(sentences, spans, scores, k, cost, gain, extra):
    """Fill in extra[c, l] of all cells of sentence k."""
    first = sentences.offsets[k]
    n = sentences.offsets[k + 1] - first
    n_labels = extra.shape[1]
    for i in range(n):
        for j in range(i + 1, n + 1):
            c = cell_of(i, j, n)
            if scores.start.shape[0] == 0:
                fill(extra[c], cost)
                continue
            size = spans.classes[min(j - i, spans.classes.shape[0] - 1)]
            for a in range(n_labels):
                extra[c, a] = (
                    cost + scores.start[first + k + i, a] + scores.end[first + k + j, a] + scores.length[size, a]
                )
    if gain != 0.0:
        for g in range(sentences.gold_start[k], sentences.gold_start[k + 1]):
            extra[cell_of(sentences.gold_first[g], sentences.gold_stop[g], n), sentences.gold_label[g]] -= gain


@inlined
def chain_score(rules, scores, chain, extra_row):
    """Return the score of a chain in a cell, with what its labels add there."""
    total = scores.chain[chain]
    for s in range(rules.step_start[chain], rules.step_start[chain + 1]):
        total += extra_row[rules.label[rules.step_symbol[s]]]
    return total


class Chart(NamedTuple):
    """Scores of all spans of a sentence, and where they are; see the head of this module."""

    base: np.ndarray  # (cells, S)
    from_start: np.ndarray  # (n, S, n + 1)
    from_end: np.ndarray  # (n + 1, S, n + 1)
    starters: np.ndarray  # (n, S) symbols that some span starting here has, in the order they were found
    n_starters: np.ndarray  # (n,)
    first_end: np.ndarray  # (n, S) the shortest and the longest such span found so far
    last_end: np.ndarray
    first_start: np.ndarray  # (n + 1, S) the longest and the shortest span ending here
    last_start: np.ndarray


@njit
def make_chart(longest, n_symbols):
    """Return room for the chart of a sentence of up to `longest` words."""
    cells = longest * (longest + 1) // 2
    return Chart(
        np.empty((cells, n_symbols)),
        np.empty((longest, n_symbols, longest + 1)),
        np.empty((longest + 1, n_symbols, longest + 1)),
        np.empty((longest, n_symbols), dtype=np.int64),
        np.empty(longest, dtype=np.int64),
        np.empty((longest, n_symbols), dtype=np.int64),
        np.empty((longest, n_symbols), dtype=np.int64),
        np.empty((longest + 1, n_symbols), dtype=np.int64),
        np.empty((longest + 1, n_symbols), dtype=np.int64),
    )


@njit
def clear_chart(chart, n):
    """Forget what was found in an earlier sentence; scores are read only where this one wrote them."""
    for i in range(n):
        chart.n_starters[i] = 0
        fill(chart.first_end[i], n + 1)
        fill(chart.last_end[i], -1)
    for j in range(n + 1):
        fill(chart.first_start[j], n + 1)
        fill(chart.last_start[j], -1)


@njit
def record(chart, i, j, top):
    """Keep the scores of the span (i, j), of symbols that it or a shorter span with the same start or end has.

    Spans come by their lengths, so that all from a symbol's shortest to its longest span are written.
    """
    for a in range(top.shape[0]):
        if top[a] > -np.inf:
            if chart.last_end[i, a] < 0:
                chart.starters[i, chart.n_starters[i]] = a
                chart.n_starters[i] += 1
                chart.first_end[i, a] = j
            chart.last_end[i, a] = j
            chart.first_start[j, a] = i
            if chart.last_start[j, a] < 0:
                chart.last_start[j, a] = i
        if chart.last_end[i, a] >= 0:
            chart.from_start[i, a, j] = top[a]
        if chart.last_start[j, a] >= 0:
            chart.from_end[j, a, i] = top[a]


@inlined
def splits_of(chart, i, j, b, c):
    """Return the first and the last split of the span (i, j) at which both children, b and c, may be there."""
    low = max(chart.first_end[i, b], i + 1, chart.first_start[j, c])
    return low, min(chart.last_end[i, b], j - 1, chart.last_start[j, c])


@inlined
def add_labels(rules, row, extra_row):
    """Add what the label of each base symbol adds in this cell."""
    for a in range(row.shape[0]):
        if row[a] > -np.inf and rules.label[a] >= 0:
            row[a] += extra_row[rules.label[a]]


@njit
def best_bases(rules, scores, chart, i, j, row):
    """row[A] = max over splits and binary rules A → B C, without what the label adds."""
    for at in range(chart.n_starters[i]):
        b = chart.starters[i, at]
        left = chart.from_start[i, b]
        low, high = max(chart.first_end[i, b], i + 1), min(chart.last_end[i, b], j - 1)
        for pair in range(rules.left_start[b], rules.left_start[b + 1]):
            c = rules.pair_right[pair]
            right = chart.from_end[j, c]
            best = -np.inf
            for k in range(max(low, chart.first_start[j, c]), min(high, chart.last_start[j, c]) + 1):
                found = left[k] + right[k]
                best = found if found > best else best
            if best > -np.inf:
                for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                    found = best + scores.rule[r]
                    if found > row[rules.parent[r]]:
                        row[rules.parent[r]] = found


@njit
def best_chains(rules, scores, row, extra_row, top):
    """top[A] = max of the base A and of all chains below A."""
    for a in range(row.shape[0]):
        top[a] = row[a]
    for b in range(row.shape[0]):
        if row[b] > -np.inf:
            for chain in range(rules.bottom_start[b], rules.bottom_start[b + 1]):
                found = row[b] + chain_score(rules, scores, chain, extra_row)
                if found > top[rules.top[chain]]:
                    top[rules.top[chain]] = found


@inlined
def choose_tags(sentences, scores, position, row):
    """Fill in the scores of the tags of one word."""
    for q in range(sentences.choice_start[position], sentences.choice_start[position + 1]):
        row[sentences.choice_symbol[q]] = scores.choice[q]


@njit
def inside_max(sentences, rules, scores, k, extra, chart, top):
    """Fill the chart of sentence k with best scores."""
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
                best_bases(rules, scores, chart, i, j, row)
                add_labels(rules, row, extra[c])
            best_chains(rules, scores, row, extra[c], top)
            record(chart, i, j, top)


@inlined
def best_chain(rules, scores, c, symbol, extra, base):
    """Return the chain above the base by which a symbol is best in cell c, −1 if it is the base itself."""
    chosen, best = -1, base[c, symbol]
    for at in range(rules.top_start[symbol], rules.top_start[symbol + 1]):
        chain = rules.by_top[at]
        bottom = rules.bottom[chain]
        if base[c, bottom] > -np.inf:
            found = base[c, bottom] + chain_score(rules, scores, chain, extra[c])
            if found > best:
                chosen, best = chain, found
    return chosen


@inlined
def best_split(rules, scores, chart, i, j, symbol):
    """Return the binary rule and the split by which a symbol is best as a base."""
    rule, split, best = -1, -1, -np.inf
    for at in range(rules.parent_start[symbol], rules.parent_start[symbol + 1]):
        r = rules.by_parent[at]
        b, c = rules.left[r], rules.right[r]
        left, right = chart.from_start[i, b], chart.from_end[j, c]
        low, high = splits_of(chart, i, j, b, c)
        for k in range(low, high + 1):
            found = left[k] + right[k] + scores.rule[r]
            if found > best:
                rule, split, best = r, k, found
    return rule, split


@inlined
def put(out, at, kind, symbol, weight, i, j):
    """Write one node of a derivation."""
    out.kind[at] = kind
    out.symbol[at] = symbol
    out.weight[at] = weight
    out.start[at] = i
    out.end[at] = j


@njit
def trace(sentences, rules, scores, k, root, extra, chart, at, stack, out):
    """Write the nodes of the best derivation from `root` in preorder, from place `at`; return the place after it."""
    first = sentences.offsets[k]
    n = sentences.offsets[k + 1] - first
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, root
    depth = 1
    while depth > 0:
        depth -= 1
        i, j, symbol = stack[depth]
        c = cell_of(i, j, n)
        chain = best_chain(rules, scores, c, symbol, extra, chart.base)
        if chain >= 0:
            for s in range(rules.step_start[chain + 1] - 1, rules.step_start[chain] - 1, -1):
                put(out, at, UNARY, rules.step_symbol[s], rules.step_weight[s], i, j)
                at += 1
            symbol = rules.bottom[chain]
        if j - i == 1:
            for q in range(sentences.choice_start[first + i], sentences.choice_start[first + i + 1]):
                if sentences.choice_symbol[q] == symbol:
                    put(out, at, LEXICAL, symbol, sentences.choice_weight[q], i, j)
            at += 1
            continue
        rule, split = best_split(rules, scores, chart, i, j, symbol)
        put(out, at, BINARY, symbol, rules.weight[rule], i, j)
        at += 1
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = split, j, rules.right[rule]
        stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = i, split, rules.left[rule]
        depth += 2
    return at


@njit
def longest_sentence(sentences, rows):
    """Return the number of words of the longest of the rows."""
    longest = 1
    for k in rows:
        longest = max(longest, sentences.offsets[k + 1] - sentences.offsets[k])
    return longest


@njit
def best_trees(sentences, spans, rules, scores, rows, costs, gains, values, out):
    """Write the best derivation of each row and its score, −inf and no nodes if there is none.

    `costs` and `gains` are those of the loss, for each row.
    """
    longest = longest_sentence(sentences, rows)
    cells, n_symbols = longest * (longest + 1) // 2, rules.root.shape[0]
    chart, top = make_chart(longest, n_symbols), np.empty(n_symbols)
    extra = np.empty((cells, scores.length.shape[1]))
    stack = np.empty((longest + 1, 3), dtype=np.int64)
    at = 0
    for m in range(rows.shape[0]):
        k = rows[m]
        out.offsets[m] = at
        fill_extra(sentences, spans, scores, k, costs[m], gains[m], extra)
        inside_max(sentences, rules, scores, k, extra, chart, top)
        best, root = -np.inf, -1
        for a in range(n_symbols):
            if top[a] + scores.root[a] > best:
                best, root = top[a] + scores.root[a], a
        values[m] = best
        if root >= 0:
            at = trace(sentences, rules, scores, k, root, extra, chart, at, stack, out)
    out.offsets[rows.shape[0]] = at


@inlined
def put_attributes(attributes, spans, label, at, column):
    """Write the weights that a label has with some attributes; return the place after them."""
    for a in attributes:
        if a >= 0:
            for q in range(spans.label_start[a], spans.label_start[a + 1]):
                if spans.label[q] == label:
                    column[at] = spans.weight[q]
                    at += 1
    return at


@njit
def derivation_atoms(derivations, sentences, spans, rules, rows, pointers, column):
    """Write the numbers of the weights that each derivation uses, as often as it uses them; return how many."""
    at = 0
    for m in range(rows.shape[0]):
        pointers[m] = at
        k = rows[m]
        first = sentences.offsets[k] + k
        for v in range(derivations.offsets[m], derivations.offsets[m + 1]):
            if v == derivations.offsets[m]:
                column[at] = rules.root[derivations.symbol[v]]
                at += 1
            if derivations.weight[v] >= 0:
                column[at] = derivations.weight[v]
                at += 1
            label = rules.label[derivations.symbol[v]]
            if label >= 0 and spans.starts.shape[0] > 0:
                i, j = derivations.start[v], derivations.end[v]
                size = spans.classes[min(j - i, spans.classes.shape[0] - 1)]
                at = put_attributes(spans.starts[first + i], spans, label, at, column)
                at = put_attributes(spans.ends[first + j], spans, label, at, column)
                at = put_attributes(spans.lengths[size : size + 1], spans, label, at, column)
    pointers[rows.shape[0]] = at
    return at


@njit
def count_constituents(derivations, sentences, rules, rows, predicted, right):
    """Count each derivation's constituents, and those that are gold."""
    for m in range(rows.shape[0]):
        k = rows[m]
        predicted[m] = 0
        right[m] = 0
        for v in range(derivations.offsets[m], derivations.offsets[m + 1]):
            label = rules.label[derivations.symbol[v]]
            if label < 0:
                continue
            predicted[m] += 1
            for g in range(sentences.gold_start[k], sentences.gold_start[k + 1]):
                if (
                    sentences.gold_label[g] == label
                    and sentences.gold_first[g] == derivations.start[v]
                    and sentences.gold_stop[g] == derivations.end[v]
                ):
                    right[m] += 1
