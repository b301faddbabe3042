"""Narrow parts of wide factor graphs that elimination can pool: covers for upper bounds, blocks for lower ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import csgraph, sparse
from latentstruct.core.types import Indices, Vector, members, offsets_from_lengths, positions, sums_by
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.structure import FactorGraphs, table_states, table_strides

Flags = NDArray[np.bool_]

WIDTHS = (32, 24, 16, 12, 10, 8, 7, 6, 5, 4, 3, 2)
"""Numbers of layers of a band that are tried."""


@dataclass(frozen=True)
class Cover:
    """Pieces of one graph: each has all of its variables, and each factor is in at least one piece."""

    n_pieces: int  # number of pieces, K
    # The entry of the whole potentials that each entry of the pieces' potentials is a copy of.
    unary: Indices
    tables: Indices
    elimination: Elimination  # pools the pieces, which are the graphs of its structure

    @classmethod
    def of(cls, structure: FactorGraphs, max_entries: int) -> "Cover":
        """Cover one graph by itself or by the widest bands that need no larger table, or else by forests of factors.

        A piece of bands leaves out the factors between two layers of breadth-first search in every k layers, each piece
        others, so that each factor is in all pieces but one.
        """
        layers = find_layers(structure)
        whole = [np.ones(len(structure.scope_at) - 1, dtype=np.bool_)]
        bands = (
            [inside_bands(structure, layers, width, shift) for shift in range(width)] for width in band_widths(layers)
        )
        for kept in chain([whole], bands):
            cover = cls._from(structure, kept, max_entries)
            if cover.elimination.feasible.all():
                return cover
        return cls._from(structure, list(_forests(structure)), largest_factor(structure))

    @classmethod
    def _from(cls, structure: FactorGraphs, kept: list[Flags], max_entries: int) -> "Cover":
        """Return the pieces with the given factors."""
        n, n_variables = len(kept), len(structure.cards)
        factors = np.concatenate([np.flatnonzero(part) for part in kept])
        factors_at = offsets_from_lengths(int(part.sum()) for part in kept)
        places, scope_at = positions(structure.scope_at, factors)
        piece = np.repeat(members(factors_at)[0], np.diff(scope_at))
        pieces = FactorGraphs(
            np.tile(structure.cards, n),
            scope_at,
            structure.scopes[places] + piece * n_variables,
            np.arange(n + 1) * n_variables,
            factors_at,
        )
        elimination = Elimination(pieces, np.zeros(n * n_variables, dtype=np.bool_), max_entries)
        unary = np.tile(np.arange(structure.state_at[-1]), n)
        return cls(n, unary, positions(structure.table_at, factors)[0], elimination)


class Block:
    """Some variables of one graph, pooled while the others have distributions of their own.

    `elimination` pools the variables `inside`, and the restriction of each factor to them if it has two or more.
    `states` are the entries of the whole unary potentials that belong to the block. `joint` has for each entry of the
    whole tables the entry of the block's potentials (its unary ones, then its tables) that it belongs to; −1 if its
    factor has no variable of the block.
    """

    def __init__(self, structure: FactorGraphs, inside: Flags, max_entries: int) -> None:
        self.variables = np.flatnonzero(inside)
        in_scope = inside[structure.scopes]
        factor, _ = members(structure.scope_at)
        n_factors = len(structure.scope_at) - 1
        n_inside = np.bincount(factor[in_scope], minlength=n_factors)
        kept = n_inside >= 2
        scopes = structure.scopes[in_scope & kept[factor]]
        rest = FactorGraphs(
            structure.cards[self.variables],
            offsets_from_lengths(n_inside[kept]),
            np.searchsorted(self.variables, scopes),
            np.array([0, len(self.variables)]),
            np.array([0, int(kept.sum())]),
        )
        self.elimination = Elimination(rest, np.zeros(len(self.variables), dtype=np.bool_), max_entries)
        self.states = positions(structure.state_at, self.variables)[0]
        self.n_unary = len(self.states)
        self.joint = self._joint(structure, in_scope, n_inside, rest)
        self.joined = np.flatnonzero(self.joint >= 0)

    def _joint(self, structure: FactorGraphs, in_scope: Flags, n_inside: Indices, rest: FactorGraphs) -> Indices:
        first = np.full(len(n_inside), -1, dtype=np.int64)
        first[n_inside >= 2] = self.n_unary + rest.table_at[:-1]
        factor = members(structure.scope_at)[0]
        single = in_scope & (n_inside == 1)[factor]
        first[factor[single]] = rest.state_at[np.searchsorted(self.variables, structure.scopes[single])]
        own = table_strides(structure, in_scope)
        joint = first[members(structure.table_at)[0]]
        for entries, slots, states in table_states(structure):
            inside = in_scope[slots]
            joint[entries[inside]] += states[inside] * own[slots[inside]]
        return joint

    def potentials(self, unary: Vector, tables: Vector, weights: Vector) -> Vector:
        """Return the block's potentials, where each entry of the whole tables has the given weight."""
        size = self.n_unary + int(self.elimination.structure.table_at[-1])
        chosen = tables[self.joined]
        # An impossible entry counts only where what surrounds it is possible.
        shares = np.where(
            weights[self.joined] > 0, weights[self.joined] * np.where(np.isinf(chosen), -1.0, chosen), 0.0
        )
        found = sums_by(self.joint[self.joined], shares, size)
        impossible = np.isinf(chosen) & (weights[self.joined] > 0)
        found[self.joint[self.joined][impossible]] = -np.inf
        found[: self.n_unary] += unary[self.states]
        return found


def partition(structure: FactorGraphs, max_entries: int, root: int | None = None) -> list[Block]:
    """Divide the variables of one graph into blocks that elimination can pool within a limit.

    Bands of breadth-first search from `root` (by default a variable far from the others), the even and the odd ones; if
    even single layers are too wide, variables whose factors form forests.
    """
    layers = find_layers(structure, root)
    for width in (int(layers.max(initial=0)) + 1, *band_widths(layers), 1):
        odd = layers // width % 2 == 1
        blocks = [Block(structure, inside, max_entries) for inside in (~odd, odd) if inside.any()]
        if all(block.elimination.feasible.all() for block in blocks):
            return blocks
    limit = largest_factor(structure)
    return [Block(structure, inside, limit) for inside in _induced_forests(structure, layers)]


def find_layers(structure: FactorGraphs, root: int | None = None) -> Indices:
    """Return the distance of each variable of one graph from a root, in other components from one of their variables.

    By default the root is a variable that is far from the others.
    """
    n, factor = len(structure.cards), members(structure.scope_at)[0]
    size = len(structure.scope_at) - 1, n
    contains = sparse.csr_array((np.ones(len(factor)), (factor, structure.scopes)), shape=size)
    graph = sparse.csr_array(contains.T @ contains)
    label = csgraph.connected_components(graph, directed=False)[1]
    roots = np.unique(label, return_index=True)[1]
    if root is None:
        depth = _depths(graph, roots)
        deepest = np.lexsort((depth, label))
        roots = deepest[np.searchsorted(label[deepest], np.arange(len(roots)), side="right") - 1]
    else:
        roots[label[root]] = root
    return _depths(graph, roots)


def _depths(graph: "sparse.csr_array", roots: Indices) -> Indices:
    """Return the distance of each variable from the nearest root."""
    depth = np.full(graph.shape[0], -1, dtype=np.int64)
    front, level = roots, 0
    while len(front):
        depth[front] = level
        around = graph.indices[positions(graph.indptr.astype(np.int64), front)[0]]
        front, level = np.unique(around[depth[around] < 0]), level + 1
    return depth


def band_widths(layers: Indices) -> list[int]:
    """Return numbers of layers per band that divide a graph into two bands or more, the largest first."""
    return [width for width in WIDTHS if width <= layers.max(initial=0)]


def inside_bands(structure: FactorGraphs, layers: Indices, width: int, shift: int) -> Flags:
    """Return which factors have all variables in one band of layers."""
    bands = ((layers + shift) // width)[structure.scopes]
    factor = members(structure.scope_at)[0]
    n_factors = len(structure.scope_at) - 1
    first = np.zeros(n_factors, dtype=np.int64)
    first[factor[::-1]] = bands[::-1]
    crossed = np.bincount(factor[bands != first[factor]], minlength=n_factors)
    return np.asarray(crossed == 0)


def largest_factor(structure: FactorGraphs) -> int:
    """Return the number of entries of the largest table that a forest of factors needs."""
    return int(max(np.diff(structure.table_at).max(initial=1), structure.cards.max(initial=1)))


def _forests(structure: FactorGraphs) -> Iterator[Flags]:
    """Yield forests of factors, each of which joins variables that were not connected, until each factor is in one."""
    scopes = [structure.scopes[a:b].tolist() for a, b in pairwise(structure.scope_at.tolist())]
    missing = np.ones(len(scopes), dtype=np.bool_)
    while True:
        kept, leaders = np.zeros(len(scopes), dtype=np.bool_), list(range(len(structure.cards)))
        for f in np.argsort(~missing, kind="stable").tolist():
            kept[f] = _join(leaders, scopes[f])
        missing &= ~kept
        yield kept
        if not missing.any():
            return


def _induced_forests(structure: FactorGraphs, layers: Indices) -> Iterator[Flags]:
    """Yield sets of variables among which the factors form forests, until each variable is in one."""
    factors: list[list[int]] = [[] for _ in structure.cards]
    scopes = [structure.scopes[a:b].tolist() for a, b in pairwise(structure.scope_at.tolist())]
    for f, scope in enumerate(scopes):
        for v in scope:
            factors[v].append(f)
    missing = np.ones(len(structure.cards), dtype=np.bool_)
    while missing.any():
        inside, leaders = np.zeros(len(structure.cards), dtype=np.bool_), list(range(len(structure.cards)))
        for v in np.argsort(layers, kind="stable").tolist():
            near = [next(u for u in scopes[f] if inside[u]) for f in factors[v] if inside[scopes[f]].any()]
            inside[v] = missing[v] and _join(leaders, [v, *near])
        missing &= ~inside
        yield inside


def _join(leaders: list[int], items: Sequence[int]) -> bool:
    """Connect items if all of them are in different sets; return whether they are."""
    roots = {_leader(leaders, item) for item in items}
    if len(roots) < len(items):
        return False
    for root in roots:
        leaders[root] = min(roots)
    return True


def _leader(leaders: list[int], item: int) -> int:
    while leaders[item] != item:
        leaders[item] = leaders[leaders[item]]
        item = leaders[item]
    return item
