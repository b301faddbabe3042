"""Factor graphs on flat arrays, many at once: the structure, without the values of the tables."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latentstruct.core.types import Indices, Vector, members, offsets_from_lengths
from latentstruct.exceptions import Description, InputError

MOST_ENTRIES = 2**62
"""Maximum number of table entries, so that positions never overflow."""


@dataclass(frozen=True)
class FactorGraphs:
    """The structure of one or more factor graphs.

    Potentials are separate arrays in the log domain (−inf is a hard zero): `unary` has one entry per state of each
    variable, `tables` one per joint state of each factor. The score of an assignment x is
    Σ_v unary_v(x_v) + Σ_f table_f(x_f).

    Attributes
    ----------
    cards : ndarray of shape (V,)
        Number of states of each variable, at least 1.
    scope_at, scopes : ndarray of shape (F + 1,) and (scope_at[-1],)
        The variables of factor f are scopes[scope_at[f] : scope_at[f + 1]], all different and of one graph; its table
        is in C order, the last variable changing fastest. A factor without variables is a constant.
    variables_at, factors_at : ndarray of shape (G + 1,)
        Graph g has variables variables_at[g] … variables_at[g + 1] and factors factors_at[g] … factors_at[g + 1].
    """

    cards: Indices
    scope_at: Indices
    scopes: Indices
    variables_at: Indices
    factors_at: Indices

    @property
    def n_graphs(self) -> int:
        """Number of graphs, G."""
        return len(self.variables_at) - 1

    @cached_property
    def state_at(self) -> Indices:
        """Start of each variable's entries of `unary`, shape (V + 1,)."""
        return offsets_from_lengths(self.cards)

    @cached_property
    def table_at(self) -> Indices:
        """Start of each factor's entries of `tables`, shape (F + 1,)."""
        return offsets_from_lengths(self._table_sizes())

    def check(self) -> "FactorGraphs":
        """Return the structure itself; raise InputError if it is invalid."""
        _check_offsets("variables_at", self.variables_at, "variables", len(self.cards))
        _check_offsets("scope_at", self.scope_at, "entries of scopes", len(self.scopes))
        _check_offsets("factors_at", self.factors_at, "factors", len(self.scope_at) - 1)
        if len(self.variables_at) != len(self.factors_at):
            got, n_graphs = Description(f"{len(self.factors_at)} offsets"), len(self.variables_at) - 1
            raise InputError("factors_at", got, f"{n_graphs + 1} offsets for {n_graphs} graphs, as `variables_at`")
        for v in np.flatnonzero(self.cards < 1)[:1]:
            raise InputError(f"cards[{v}]", self.cards[v], "at least 1, the number of states of the variable")
        self._check_scopes()
        self._table_sizes()
        return self

    def only(self, g: int) -> "FactorGraphs":
        """Return one graph as a structure of its own."""
        (first, last), (begin, end) = self.variables_at[g : g + 2], self.factors_at[g : g + 2]
        scope_at = self.scope_at[begin : end + 1]
        scopes = self.scopes[scope_at[0] : scope_at[-1]] - first
        ends = np.array([0, last - first]), np.array([0, end - begin])
        return FactorGraphs(self.cards[first:last], scope_at - scope_at[0], scopes, *ends)

    def _check_scopes(self) -> None:
        factors = np.repeat(np.arange(len(self.scope_at) - 1), np.diff(self.scope_at))
        graphs = np.repeat(np.arange(self.n_graphs), np.diff(self.factors_at))[factors]
        low, high = self.variables_at[graphs], self.variables_at[graphs + 1]
        for k in np.flatnonzero((self.scopes < low) | (self.scopes >= high))[:1]:
            expected = f"a variable of graph {graphs[k]} of its factor {factors[k]}, from {low[k]} to {high[k] - 1}"
            raise InputError(f"scopes[{k}]", self.scopes[k], expected)
        order = np.lexsort((self.scopes, factors))
        same = (np.diff(factors[order]) == 0) & (np.diff(self.scopes[order]) == 0)
        for k in order[1:][same][:1]:
            got = Description(f"variable {self.scopes[k]} twice")
            raise InputError("scopes", got, f"different variables for factor {factors[k]}")

    def _table_sizes(self) -> Indices:
        """Return the entries of each factor's table as integers; floats are used only to detect overflow."""
        arity = np.diff(self.scope_at)
        sizes = np.ones(len(arity), dtype=np.int64)
        estimates = np.ones(len(arity))
        for place in range(int(arity.max(initial=0))):
            longer = np.flatnonzero(arity > place)
            cards = self.cards[self.scopes[self.scope_at[longer] + place]]
            estimates[longer] *= cards
            sizes[longer] *= cards
        if estimates.sum() > MOST_ENTRIES:
            largest = int(estimates.argmax())
            got = f"about {estimates.sum():.3g}, of which {estimates[largest]:.3g} for factor {largest}"
            raise InputError("scopes", Description(got), "small enough for tables of 2**62 entries in all")
        return sizes


def pairwise_graphs(cards: ArrayLike, edges: ArrayLike, variables_at: ArrayLike, edges_at: ArrayLike) -> FactorGraphs:
    """Return the checked structure of graphs with one factor per edge.

    Parameters
    ----------
    cards : array-like of shape (V,)
        Number of states of each variable.
    edges : array-like of shape (E, 2)
        The two variables of each edge, counted over all graphs; the table of edge (a, b) has shape (S_a, S_b).
    variables_at, edges_at : array-like of shape (G + 1,)
        Start of each graph's variables and edges.
    """
    pairs = as_indices("edges", edges)
    if pairs.size == 0:
        pairs = pairs.reshape(0, 2)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError("edges", Description(f"shape {pairs.shape}"), "an array of shape (number of edges, 2)")
    return FactorGraphs(
        as_indices("cards", cards),
        2 * np.arange(len(pairs) + 1, dtype=np.int64),
        pairs.ravel(),
        as_indices("variables_at", variables_at),
        as_indices("edges_at", edges_at),
    ).check()


def as_indices(name: str, values: ArrayLike) -> Indices:
    """Return an array as int64; raise InputError if its values are not integers."""
    array = np.asarray(values)
    if array.size == 0:
        return array.astype(np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(name, Description(f"numbers of type {array.dtype}"), "integers")
    return np.ascontiguousarray(array, dtype=np.int64)


def _check_offsets(name: str, offsets: Indices, items: str, count: int) -> None:
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != count or np.any(np.diff(offsets) < 0):
        expected = f"offsets that start with 0, do not decrease and end with {count}, the number of {items}"
        raise InputError(name, Description(np.array2string(offsets, threshold=8)), expected)


def table_strides(structure: FactorGraphs, counted: NDArray[np.bool_] | None = None) -> Indices:
    """Return the step in a factor's table per entry of `scopes`, in C order over all variables or the counted ones."""
    strides = np.ones(len(structure.scopes), dtype=np.int64)
    cards = structure.cards[structure.scopes]
    if counted is not None:
        cards = np.where(counted, cards, 1)
    last, arity = structure.scope_at[1:], np.diff(structure.scope_at)
    for place in range(1, int(arity.max(initial=0))):
        at = last[arity > place] - 1 - place
        strides[at] = strides[at + 1] * cards[at + 1]
    return strides


def table_states(structure: FactorGraphs) -> Iterator[tuple[Indices, Indices, Indices]]:
    """Yield for each place in scopes the entries of tables that have it, their positions in `scopes` and states."""
    strides = table_strides(structure)
    factor, entry = members(structure.table_at)
    arity = np.diff(structure.scope_at)
    for place in range(int(arity.max(initial=0))):
        entries = np.flatnonzero(arity[factor] > place)
        slots = structure.scope_at[factor[entries]] + place
        yield entries, slots, entry[entries] // strides[slots] % structure.cards[structure.scopes[slots]]


def assignment_entries(structure: FactorGraphs, states: Indices) -> tuple[Indices, Indices]:
    """Return the entries of the unary potentials and of the tables that an assignment of all variables has."""
    moved = states[structure.scopes] * table_strides(structure)
    steps = np.diff(np.concatenate([[0], np.cumsum(moved)])[structure.scope_at])
    return structure.state_at[:-1] + states, structure.table_at[:-1] + steps


@dataclass
class Beliefs:
    """Results of inference for the selected graphs, compact and in the order of the selection.

    Attributes
    ----------
    values : ndarray of shape (k,)
        smax over outputs at ε_y of smax over hidden variables at ε_h of the score; −inf if nothing is possible.
    unary, tables : ndarray
        Derivatives of the values by the potentials, laid out as these: marginals P(x_v) and P(x_f) of the distribution
        that the two temperatures define (indicators of one best assignment where a temperature is 0).
    states : ndarray of shape (variables of the selected graphs,)
        The decoded assignment: the best outputs, and for hidden variables the best (ε_h = 0) or most probable state
        given these.
    exact : ndarray of bool, shape (k,)
        Whether value, derivatives and outputs are those of the graph and not an approximation.
    converged : ndarray of bool, shape (k,)
        Whether messages converged; True if no iteration is needed.
    excess : ndarray of shape (k,), optional
        How far the true maxima may be above the values, if upper bounds are known.
    """

    values: Vector
    unary: Vector
    tables: Vector
    states: NDArray[np.int64]
    exact: NDArray[np.bool_]
    converged: NDArray[np.bool_]
    excess: Vector | None = field(default=None, kw_only=True)
