"""Brute-force twin of inference in factor graphs: every assignment listed, and makers of random structures.

Nothing here uses the library's inference; only the layout of `FactorGraphs` is shared.
"""

from itertools import pairwise, product

import numpy as np

from latentstruct.inference.structure import FactorGraphs
from reference import smax


def make_graphs(parts):
    """Batch graphs given as (cards, scopes) with variables counted from 0 in each graph."""
    cards, scopes, variables_at, factors_at = [], [], [0], [0]
    for graph_cards, graph_scopes in parts:
        first = len(cards)
        scopes += [[first + v for v in scope] for scope in graph_scopes]
        cards += list(graph_cards)
        variables_at.append(len(cards))
        factors_at.append(len(scopes))
    scope_at = np.concatenate([[0], np.cumsum([len(scope) for scope in scopes])])
    flat = [v for scope in scopes for v in scope]
    return FactorGraphs(
        np.array(cards, dtype=np.int64),
        scope_at.astype(np.int64),
        np.array(flat, dtype=np.int64),
        np.array(variables_at, dtype=np.int64),
        np.array(factors_at, dtype=np.int64),
    )


class Assignments:
    """All assignments of graph g with their scores, and each factor's and variable's entry for each of them."""

    def __init__(self, structure, unary, tables, g):
        self.variables = range(structure.variables_at[g], structure.variables_at[g + 1])
        self.factors = range(structure.factors_at[g], structure.factors_at[g + 1])
        cards = [int(structure.cards[v]) for v in self.variables]
        self.states = np.array(list(product(*map(range, cards))), dtype=np.int64).reshape(-1, len(cards))
        self.unary_entries, self.table_entries = [], []
        self.scores = np.zeros(len(self.states))
        for i, v in enumerate(self.variables):
            self.unary_entries.append(sum(structure.cards[:v]) + self.states[:, i])
            self.scores += unary[self.unary_entries[-1]]
        scopes = [structure.scopes[a:b] for a, b in pairwise(structure.scope_at)]
        sizes = [int(np.prod(structure.cards[scope], dtype=np.int64)) for scope in scopes]
        for f in self.factors:
            entry = np.zeros(len(self.states), dtype=np.int64)
            for v in scopes[f]:
                entry = entry * structure.cards[v] + self.states[:, v - structure.variables_at[g]]
            self.table_entries.append(sum(sizes[:f]) + entry)
            self.scores += tables[self.table_entries[-1]]

    def spread(self, shares, unary_out, tables_out):
        """Add each assignment's share to the entries it uses."""
        for entries in self.unary_entries:
            np.add.at(unary_out, entries, shares)
        for entries in self.table_entries:
            np.add.at(tables_out, entries, shares)

    def groups(self, hidden):
        """Assignments grouped by their outputs, in lexicographic order of these."""
        seen = {}
        outputs = self.states[:, [not hidden[v] for v in self.variables]]
        for k, key in enumerate(map(tuple, outputs.tolist())):
            seen.setdefault(key, []).append(k)
        return [np.array(group) for group in seen.values()]


def enumerate_beliefs(structure, unary, tables, hidden, temperature):
    """Return values, derivatives by unary and by tables, and decoded states of all graphs.

    At temperature 0 all goes to the first maximizer; compare states and derivatives there only without ties. States of
    outputs are argmaxes of marginals where ε_y > 0, those of hidden variables argmaxes of P(h_v | ŷ) where ε_h > 0.
    """
    unary, tables = np.asarray(unary, dtype=float), np.asarray(tables, dtype=float)
    values = np.zeros(structure.n_graphs)
    unary_out, tables_out = np.zeros(len(unary)), np.zeros(len(tables))
    states = np.zeros(len(structure.cards), dtype=np.int64)
    for g in range(structure.n_graphs):
        listed = Assignments(structure, unary, tables, g)
        groups = listed.groups(hidden)
        inner = [smax(listed.scores[group], temperature.latent) for group in groups]
        values[g], outer = smax(np.array([top for top, _ in inner]), temperature.output)
        shares = np.zeros(len(listed.scores))
        if values[g] > -np.inf:
            for group, (_, within), share in zip(groups, inner, outer, strict=True):
                shares[group] = share * within
        listed.spread(shares, unary_out, tables_out)
        states[list(listed.variables)] = decode(structure, listed, hidden, temperature, shares)
    return values, unary_out, tables_out, states


def decode(structure, listed, hidden, temperature, shares):
    """States of one graph's variables."""
    if shares.sum() == 0:
        return np.zeros(len(listed.variables), dtype=np.int64)
    if temperature.output == 0:
        marked = listed.states[np.argmax(shares)].copy()
    else:
        marked = np.array([_most(listed.states[:, i], shares) for i in range(len(listed.variables))], dtype=np.int64)
    is_output = np.array([not hidden[v] for v in listed.variables], dtype=bool)
    group = np.flatnonzero((listed.states[:, is_output] == marked[is_output]).all(axis=1))
    _, within = smax(listed.scores[group], temperature.latent)
    for i in np.flatnonzero(~is_output):
        marked[i] = _most(listed.states[group, i], within)
    return marked


def _most(states, shares):
    return int(np.argmax(np.bincount(states, weights=shares)))


def enumerate_renyi(structure, unary, tables, hidden, alpha, output_temperature):
    """Values and derivatives of smax over y of [lse_h(α s) − lse_h(s)]/(α − 1)."""
    values = np.zeros(structure.n_graphs)
    unary_out, tables_out = np.zeros(len(unary)), np.zeros(len(tables))
    for g in range(structure.n_graphs):
        listed = Assignments(structure, unary, tables, g)
        groups = listed.groups(hidden)
        tops, slopes = [], []
        for group in groups:
            sharp, p_sharp = smax(alpha * listed.scores[group], 1.0)
            plain, p_plain = smax(listed.scores[group], 1.0)
            tops.append(-np.inf if plain == -np.inf else (sharp - plain) / (alpha - 1.0))
            slopes.append((alpha * p_sharp - p_plain) / (alpha - 1.0))
        values[g], outer = smax(np.array(tops), output_temperature)
        shares = np.zeros(len(listed.scores))
        if values[g] > -np.inf:
            for group, slope, share in zip(groups, slopes, outer, strict=True):
                shares[group] = share * slope
        listed.spread(shares, unary_out, tables_out)
    return values, unary_out, tables_out


KINDS = ("chain", "alternating", "tree", "ab_tree", "loop", "grid", "ternary", "scattered")


def random_part(rng, kind, size=5, max_card=3):
    """Return (cards, scopes, hidden) of one small graph; cardinalities differ, some are 1."""
    n = int(rng.integers(1, size + 1))
    if kind == "grid":
        rows, columns = 2, int(rng.integers(1, 4))
        n = rows * columns
        scopes = [[i, i + 1] for i in range(n) if (i + 1) % columns]
        scopes += [[i + columns, i] for i in range(n - columns)]
    elif kind in ("chain", "alternating"):
        scopes = [[i, i + 1] for i in range(n - 1)]
    elif kind in ("tree", "ab_tree"):
        scopes = [[int(rng.integers(i)), i] for i in range(1, n)]
    elif kind == "loop":
        n = max(n, 3)
        scopes = [[i, (i + 1) % n] for i in range(n)]
    elif kind == "ternary":
        n = max(n, 3)
        scopes = [rng.permutation(n)[:3].tolist() for _ in range(int(rng.integers(1, 4)))]
    else:
        count = int(rng.integers(0, 6))
        scopes = [rng.permutation(n)[: int(rng.integers(0, min(n, 4) + 1))].tolist() for _ in range(count)]
    cards = rng.integers(1, max_card + 1, size=n)
    hidden = rng.random(n) < 0.5
    if kind == "alternating":
        hidden = np.arange(n) % 2 == 1
    elif kind == "ab_tree":
        # Outputs make a connected top of the tree; everything below the first hidden node is hidden.
        for child in range(1, n):
            hidden[child] = hidden[child] or hidden[scopes[child - 1][0]]
    return cards, scopes, hidden


def random_graphs(rng, kinds=KINDS, n_graphs=1, size=5, max_card=3):
    """Return (FactorGraphs, hidden) of several random graphs of the given kinds."""
    parts = [random_part(rng, kinds[int(rng.integers(len(kinds)))], size, max_card) for _ in range(n_graphs)]
    structure = make_graphs([(cards, scopes) for cards, scopes, _ in parts])
    return structure, np.concatenate([np.zeros(0, dtype=bool)] + [hidden for _, _, hidden in parts])


def random_potentials(rng, structure, scale=1.0, forbidden=0.0):
    """Normal potentials for all graphs; a share `forbidden` of the entries is −inf."""
    unary = scale * rng.standard_normal(int(structure.state_at[-1]))
    tables = scale * rng.standard_normal(int(structure.table_at[-1]))
    unary[rng.random(len(unary)) < forbidden] = -np.inf
    tables[rng.random(len(tables)) < forbidden] = -np.inf
    return unary, tables
