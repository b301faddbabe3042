"""Maximum coverage: k documents of a query whose elements (words, subtopics) together have the largest benefit.

An element counts once, however many of the chosen documents hold it, and its benefit may be negative. The problem is
NP-hard: it is answered greedily, or exactly by branch and bound where that was asked for.
"""

from typing import NamedTuple

import numpy as np

from latentstruct.kernels.jit import njit


class Coverage(NamedTuple):
    """Which documents hold which elements, of all queries one after the other.

    An element is a set of documents: all words that the same documents hold are one element, with how many they are;
    a subtopic is an element of its own. Elements of an index e have the benefit Σ_b counts[e, b]·v[b, bins[e]] for a
    table v, besides the part that comes from `losses`.
    """

    documents: np.ndarray  # (n + 1,) query i has the documents documents[i] … documents[i + 1]
    elements: np.ndarray  # (n + 1,) and the elements elements[i] … elements[i + 1]
    covers_at: np.ndarray  # (N + 1,)
    covers: np.ndarray  # elements of document j: covers[covers_at[j]] … covers[covers_at[j + 1]]
    holders_at: np.ndarray  # (E + 1,)
    holders: np.ndarray  # documents of element e: holders[holders_at[e]] … holders[holders_at[e + 1]]
    counts: np.ndarray  # (E, B) normalised number of words in each block of features, 0 for subtopics
    bins: np.ndarray  # (E,) how many thresholds the element's share of documents reaches
    losses: np.ndarray  # (E,) weight of a subtopic, 0 for words


@njit
def element_benefits(coverage, query, table, loss_factor, benefit):
    """Write the benefit of each element of one query."""
    first = coverage.elements[query]
    for k in range(len(benefit)):
        e = first + k
        total = loss_factor * coverage.losses[e]
        for b in range(table.shape[0]):
            total += coverage.counts[e, b] * table[b, coverage.bins[e]]
        benefit[k] = total


@njit
def covered_sum(coverage, query, chosen, values):
    """Return the sum of `values` over the elements that the chosen documents hold, each counted once."""
    first, start = coverage.elements[query], coverage.documents[query]
    covered = np.zeros(len(values), dtype=np.bool_)
    total = 0.0
    for j in np.sort(chosen):
        for p in range(coverage.covers_at[start + j], coverage.covers_at[start + j + 1]):
            e = coverage.covers[p] - first
            if not covered[e]:
                covered[e] = True
                total += values[e]
    return total


@njit
def choose_greedily(coverage, query, benefit, allowed, chosen):
    """Choose again and again the allowed document that adds most; of equal ones the first.

    The gains of all documents are kept up to date: every element is covered once, so that all updates together take
    as many steps as there are pairs of a document and an element. This also holds for negative benefits, with which
    gains may rise, so that old gains are no bounds.
    """
    first, start = coverage.elements[query], coverage.documents[query]
    n_documents = len(allowed)
    gain, open_ = np.zeros(n_documents), allowed.copy()
    for j in range(n_documents):
        for p in range(coverage.covers_at[start + j], coverage.covers_at[start + j + 1]):
            gain[j] += benefit[coverage.covers[p] - first]
    covered = np.zeros(len(benefit), dtype=np.bool_)
    for rank in range(len(chosen)):
        best = -1
        for j in range(n_documents):
            if open_[j] and (best < 0 or gain[j] > gain[best]):
                best = j
        chosen[rank] = best
        open_[best] = False
        for p in range(coverage.covers_at[start + best], coverage.covers_at[start + best + 1]):
            e = coverage.covers[p]
            if covered[e - first]:
                continue
            covered[e - first] = True
            for q in range(coverage.holders_at[e], coverage.holders_at[e + 1]):
                gain[coverage.holders[q] - start] -= benefit[e - first]


@njit
def order_greedily(coverage, query, benefit, chosen):
    """Put chosen documents into the order in which they would be chosen greedily."""
    allowed = np.zeros(coverage.documents[query + 1] - coverage.documents[query], dtype=np.bool_)
    for j in chosen:
        allowed[j] = True
    choose_greedily(coverage, query, benefit, allowed, chosen)


@njit
def optimistic_gain(coverage, query, benefit, times, document, n_left):
    """Return a share of the gain of `n_left` documents that no choice with this document can go above.

    A benefit above 0 is counted in full for every document that holds the element, though it counts once. A benefit
    below 0 is divided by the number of documents that may share it: the parts of all that do are no more than the
    whole. With one document left this is its gain.
    """
    first, start = coverage.elements[query], coverage.documents[query]
    total = 0.0
    for p in range(coverage.covers_at[start + document], coverage.covers_at[start + document + 1]):
        e = coverage.covers[p]
        if times[e - first] == 0:
            value = benefit[e - first]
            if value < 0.0:
                value /= min(n_left, coverage.holders_at[e + 1] - coverage.holders_at[e])
            total += value
    return total


@njit
def change_cover(coverage, query, benefit, times, document, step):
    """Add (step 1) or remove (step −1) a document; return the benefit of the elements it alone holds."""
    first, start = coverage.elements[query], coverage.documents[query]
    alone = 0 if step > 0 else 1
    total = 0.0
    for p in range(coverage.covers_at[start + document], coverage.covers_at[start + document + 1]):
        e = coverage.covers[p] - first
        if times[e] == alone:
            total += benefit[e]
        times[e] += step
    return total


@njit
def fill_level(coverage, query, benefit, times, documents, n_left, ordered, gains):
    """Write documents with the largest optimistic gain first, and these gains."""
    n = len(documents)
    found = np.empty(n)
    for k in range(n):
        found[k] = optimistic_gain(coverage, query, benefit, times, documents[k], n_left)
    order = np.argsort(-found, kind="mergesort")
    for k in range(n):
        ordered[k] = documents[order[k]]
        gains[k] = found[order[k]]


class Search(NamedTuple):
    """Where branch and bound stands, so that it can be left and taken up again."""

    times: np.ndarray  # (E,) how many of the documents of this branch hold each element
    ordered: np.ndarray  # (k, N) documents to choose from at each depth, the largest optimistic gain first
    gains: np.ndarray  # (k, N) these gains
    sizes: np.ndarray  # (k,) how many documents there are at each depth
    places: np.ndarray  # (k,) how many of them have been tried
    current: np.ndarray  # (k,) benefit of the documents above each depth
    depth: np.ndarray  # (1,) below 0 once no branch is left
    best: np.ndarray  # (1,) benefit of the best choice so far


@njit
def begin_search(coverage, query, benefit, chosen):
    """Return the beginning of a search for a choice better than `chosen`."""
    k = len(chosen)
    n_documents = coverage.documents[query + 1] - coverage.documents[query]
    search = Search(
        np.zeros(len(benefit), dtype=np.int64),
        np.empty((k, n_documents), dtype=np.int64),
        np.empty((k, n_documents)),
        np.zeros(k, dtype=np.int64),
        np.zeros(k, dtype=np.int64),
        np.zeros(k),
        np.zeros(1, dtype=np.int64),
        np.full(1, covered_sum(coverage, query, chosen, benefit)),
    )
    search.sizes[0] = n_documents
    every = np.arange(n_documents)
    fill_level(coverage, query, benefit, search.times, every, k, search.ordered[0], search.gains[0])
    return search


@njit
def go_on(coverage, query, benefit, search, most_nodes, chosen):
    """Replace `chosen` by a better choice of as many documents while there is one: branch and bound, depth first.

    A node has chosen some documents and chooses the next among those that come after them in the order of their
    optimistic gains; the largest of these gains bound what all further documents can add. Returns whether the search
    was finished within the given number of nodes, so that no choice is better; if not, a next call goes on with it.
    """
    times, ordered, gains, sizes, places, current, _, best = search
    k, n_documents = len(chosen), ordered.shape[1]
    # What rounding can make of equal choices is no improvement.
    least = 1e-12 * np.abs(benefit).sum()
    depth, n_nodes = search.depth[0], 0
    while depth >= 0:
        place, n_left = places[depth], k - depth
        if place > 0:
            change_cover(coverage, query, benefit, times, ordered[depth, place - 1], -1)
        bound = current[depth] + gains[depth, place : min(place + n_left, n_documents)].sum()
        if place + n_left > sizes[depth] or bound <= best[0] + least:
            depth -= 1
            continue
        if n_left == 1:
            best[0] = bound
            for d in range(depth):
                chosen[d] = ordered[d, places[d] - 1]
            chosen[depth] = ordered[depth, place]
            depth -= 1
            continue
        if n_nodes == most_nodes:
            if place > 0:
                # The next call begins with taking it away again.
                change_cover(coverage, query, benefit, times, ordered[depth, place - 1], 1)
            break
        n_nodes += 1
        document = ordered[depth, place]
        places[depth] += 1
        current[depth + 1] = current[depth] + change_cover(coverage, query, benefit, times, document, 1)
        rest = ordered[depth, place + 1 : sizes[depth]]
        depth += 1
        sizes[depth], places[depth] = len(rest), 0
        fill_level(coverage, query, benefit, times, rest, n_left - 1, ordered[depth], gains[depth])
    search.depth[0] = depth
    return depth < 0


@njit
def choose(coverage, asked, table, loss_factor, most_nodes, known, chosen, proven):
    """Choose documents of each asked query, best first in the order of greedy choice.

    Parameters
    ----------
    coverage : Coverage
        All queries.
    asked : ndarray of shape (m,)
        Their numbers.
    table : ndarray of shape (B, T + 1)
        Benefit of a word in block b whose share of documents reaches t thresholds.
    loss_factor : float
        Benefit of covering a subtopic, times its weight.
    most_nodes : int
        Nodes to search for each query; 0 for the greedy choice.
    known : ndarray of shape (n, k) or (0, k)
        A choice of each query that the answer must not be below.
    chosen : ndarray of shape (m, k)
        Receives the documents, counted from 0 in their query.
    proven : ndarray of shape (m,)
        Receives whether no choice is better.
    """
    for row in range(len(asked)):
        query = asked[row]
        n_documents = coverage.documents[query + 1] - coverage.documents[query]
        benefit = np.empty(coverage.elements[query + 1] - coverage.elements[query])
        element_benefits(coverage, query, table, loss_factor, benefit)
        found = chosen[row]
        choose_greedily(coverage, query, benefit, np.ones(n_documents, dtype=np.bool_), found)
        if len(known) and covered_sum(coverage, query, known[query], benefit) > covered_sum(
            coverage, query, found, benefit
        ):
            found[:] = known[query]
        proven[row] = False
        if most_nodes > 0:
            search = begin_search(coverage, query, benefit, found)
            proven[row] = go_on(coverage, query, benefit, search, most_nodes, found)
        order_greedily(coverage, query, benefit, found)


def search_to_the_end(coverage, query, table, loss_factor, most_nodes, chosen):
    """Replace `chosen` by the best choice of a query, in portions of so many nodes, between which Ctrl-C is heard."""
    benefit = np.empty(coverage.elements[query + 1] - coverage.elements[query])
    element_benefits(coverage, query, table, loss_factor, benefit)
    search = begin_search(coverage, query, benefit, chosen)
    while not go_on(coverage, query, benefit, search, most_nodes, chosen):
        pass
    order_greedily(coverage, query, benefit, chosen)


@njit
def add_covered(coverage, query, chosen, weight, histogram):
    """Add the counts of the covered words, times a weight, by block and bin; return the subtopics' covered weight."""
    first, start = coverage.elements[query], coverage.documents[query]
    covered = np.zeros(coverage.elements[query + 1] - first, dtype=np.bool_)
    total = 0.0
    # In the order of the list, the same documents always make the same sums.
    for j in np.sort(chosen):
        for p in range(coverage.covers_at[start + j], coverage.covers_at[start + j + 1]):
            e = coverage.covers[p]
            if not covered[e - first]:
                covered[e - first] = True
                total += coverage.losses[e]
                for b in range(histogram.shape[0]):
                    histogram[b, coverage.bins[e]] += weight * coverage.counts[e, b]
    return total


@njit
def add_features(histogram, slope):
    """Add Σ over bins above t of a histogram (B, T + 1) to slope[b·T + t]."""
    n_thresholds = histogram.shape[1] - 1
    for b in range(histogram.shape[0]):
        above = 0.0
        for t in range(n_thresholds - 1, -1, -1):
            above += histogram[b, t + 1]
            slope[b * n_thresholds + t] += above


@njit
def choice_features(coverage, asked, chosen, n_blocks, slopes, covered):
    """Write Ψ(x, y) of each choice into slopes (m, d), and the weight of its subtopics into covered (m,)."""
    n_bins = slopes.shape[1] // n_blocks + 1
    for row in range(len(asked)):
        histogram = np.zeros((n_blocks, n_bins))
        covered[row] = add_covered(coverage, asked[row], chosen[row], 1.0, histogram)
        slopes[row] = 0.0
        add_features(histogram, slopes[row])
