"""Belief propagation at two temperatures: approximate inference for graphs that are too wide for elimination."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latentstruct._native import factors, propagation
from latentstruct._native.factors import run_factors
from latentstruct._native.propagation import run_pairwise
from latentstruct.core.lazy import csgraph, sparse
from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, positions
from latentstruct.core.validation import integer, options, real
from latentstruct.exceptions import Description, InputError
from latentstruct.inference.conditioning import Conditioned
from latentstruct.inference.elimination import Elimination, Layout, as_flags, check_temperature, selected_graphs
from latentstruct.inference.structure import Beliefs, FactorGraphs
from latentstruct.inference.wiring import Selected, Wiring

Flags = NDArray[np.bool_]
Counting = Literal["bethe", "trees", "auto"]

COLD = 1e-3
"""If ε_h = 0 < ε_y, hidden variables are pooled at this fraction of ε_y: derivatives at 0 need more than messages."""

STAGE_SWEEPS, STAGE_TOL = 20, 1e-3
"""Maximum sweeps and tolerance of annealing stages, which only have to come near their fixed points."""

LOOKS = 4
"""Number of times outputs are decoded while messages at ε_y = 0 do not converge."""

CLIMBS = 50
"""Largest number of sweeps of coordinate ascent over a decoded assignment."""

TREES = 64
"""Number of spanning trees drawn to estimate how often each factor is in one."""


@dataclass
class Propagated(Beliefs):
    """Beliefs, and messages from which a later run can start."""

    messages: Vector  # the last ones of the selected graphs, one graph after the other
    sweeps: NDArray[np.int64]  # (k,) number of sweeps over each graph, including all annealing stages
    updates: NDArray[np.int64]  # (k,) number of messages sent in each graph: sweeps times messages per sweep


class MessagePassing(Protocol):
    """Pools wide graphs by messages."""

    def run(
        self,
        unary: ArrayLike,
        tables: ArrayLike,
        temperature: Temperature,
        graphs: ArrayLike | None = None,
        messages: ArrayLike | None = None,
    ) -> Propagated:
        """Return beliefs of the selected graphs."""


@dataclass
class Work:
    """Potentials and messages of the selected graphs; factors of one variable are folded into `folded`."""

    selected: Selected
    unary: Vector
    tables: Vector
    folded: Vector
    constants: Vector
    messages: Vector
    sweeps: NDArray[np.int64]
    residuals: Vector


class Propagation:
    """Mixed-product belief propagation: sum-product, max-product and everything between.

    The value maximizes ⟨θ, τ⟩ + ε_h·H(h | y) + ε_y·H(y) in its Bethe form over beliefs τ that agree on single
    variables. It is exact on forests at equal temperatures, and at any where each connected set of hidden variables
    shares only one factor with outputs. For ε_y > 0, value and derivatives are those of the Bethe form. For
    ε_y = 0 < ε_h, outputs ŷ are decoded several times, the best is kept, and value and derivatives are those of the
    hidden variables given ŷ: below the true maximum wherever this inner sum is exact. At (0, 0) the best assignment
    seen is kept, improved one variable at a time. ε_h = 0 < ε_y is approximated by ε_h = ε_y/1000.

    Parameters
    ----------
    structure : FactorGraphs
        The graphs.
    hidden : array-like of bool, shape (V,)
        Which variables are pooled first, at ε_h; the others are pooled after them at ε_y.
    max_iterations : int
        Maximum number of sweeps over a graph (each sends every message once), without annealing stages.
    damping : float
        Fraction of the old message in the new one, used once sweeps no longer reduce the largest change.
    tol : float
        Messages have converged if no entry changes by more in a sweep.
    anneal : sequence of float
        Temperatures that replace those that are 0, one after the other, before ε_y = 0 itself; only for
        graphs that are not exact and have no messages to start from.
    max_entries : int
        Largest table for summing exactly over hidden variables given outputs.
    counting : {"bethe", "trees", "auto"}
        How entropies of joined variables are counted. "bethe" counts each factor once. "trees" counts factors of two
        variables by their fraction ρ of the graph's spanning trees (Wainwright, Jaakkola & Willsky 2005): at positive
        equal temperatures the value is then an upper bound, a convex and smooth function of the potentials with one
        fixed point, where Bethe's may jump between several. It takes more sweeps and is less precise where couplings
        are weak. "auto" counts by trees for ε_y > 0, and by Bethe where outputs are decoded. Graphs with larger factors
        are always counted by Bethe.

    Attributes
    ----------
    forest : ndarray of bool, shape (G,)
        Whether the graph has no cycle.
    message_at : ndarray of shape (G + 1,)
        Start of each graph's messages among those of all graphs.
    n_messages : ndarray of shape (G,)
        Number of messages of each graph, from factors of at least two variables to each of these.
    decoding_counting : {"bethe", "trees"}
        How entropies are counted when outputs are decoded, also those of hidden variables given them.

    Notes
    -----
    States of outputs where ε_y > 0, and those of hidden variables where ε_y > 0, are the most probable ones of
    their own beliefs.
    """

    def __init__(
        self,
        structure: FactorGraphs,
        hidden: ArrayLike,
        max_iterations: int = 200,
        damping: float = 0.5,
        tol: float = 1e-7,
        anneal: Sequence[float] = (1.0, 0.3, 0.1),
        max_entries: int = 2**20,
        counting: Counting = "bethe",
    ) -> None:
        options("bethe", "trees", "auto").check(counting, "counting")
        integer(1).check(max_iterations, "max_iterations")
        real(0.0, 1.0, closed="left").check(damping, "damping")
        real(0.0, closed="right").check(tol, "tol")
        for stage in anneal:
            real(0.0).check(stage, "anneal")
        self.structure = structure
        self.hidden = as_flags("hidden", hidden, len(structure.cards))
        self.max_iterations, self.damping, self.tol = max_iterations, damping, tol
        self.anneal, self.max_entries, self.counting = tuple(anneal), max_entries, counting
        self.decoding_counting: Counting = "trees" if counting == "trees" else "bethe"
        self.wiring, self.forest = wire(structure)
        self._soft_wiring = self.wiring
        if counting != "bethe":
            self._soft_wiring = self.wiring._replace(shares=tree_shares(structure))
        if self.decoding_counting == "trees":
            self.wiring = self._soft_wiring
        self.message_at = self.wiring.message_at[structure.scope_at[structure.factors_at]]
        self.n_messages = _count_messages(structure)
        self._pairwise = _largest_arity(structure) <= 2
        self._separable = _separable(structure, self.hidden)
        self._nothing_hidden = np.zeros(len(structure.cards), dtype=np.bool_)
        self._given: _Given | None = None

    def run(
        self,
        unary: ArrayLike,
        tables: ArrayLike,
        temperature: Temperature,
        graphs: ArrayLike | None = None,
        messages: ArrayLike | None = None,
    ) -> Propagated:
        """Return values, derivatives, decoded states and messages of the selected graphs (None: all).

        Arguments are those of `Elimination.run`; `messages` are those of an earlier run over the same graphs to start
        from. If those of a graph are all 0, it has none.
        """
        check_temperature(*temperature)
        task = self.begin(unary, tables, selected_graphs(self.structure, graphs), messages)
        weights = self._weights(temperature)
        if weights[0] > 0:
            beliefs = self._pooled(task, weights)
        else:
            beliefs = self._searched(task, weights)
        if temperature[1] == 0 < weights[1] and self.hidden.any():
            beliefs.exact[:] = False
        return beliefs

    def _weights(self, temperature: Temperature) -> tuple[float, float]:
        """Temperatures in use: both equal if there is only one kind of variable, and ε_h never 0 alone."""
        output, latent = float(temperature[0]), float(temperature[1])
        if not self.hidden.any():
            return output, output
        if self.hidden.all():
            return latent, latent
        return output, COLD * output if latent == 0 else latent

    def begin(self, unary: ArrayLike, tables: ArrayLike, graphs: Indices, messages: ArrayLike | None) -> Work:
        """Return the checked potentials of the selected graphs, and messages to start from."""
        layout = Layout.of(self.structure, graphs)
        unary, tables = layout.check(unary, tables)
        lengths = self.message_at[graphs + 1] - self.message_at[graphs]
        selected = Selected(
            graphs, layout.unary_at, layout.tables_at, offsets_from_lengths(lengths), layout.variables_at
        )
        begin = np.zeros(int(selected.messages_at[-1]))
        if messages is not None:
            given = np.asarray(messages, dtype=np.float64)
            if given.shape != begin.shape:
                raise InputError(
                    "messages", Description(f"shape {given.shape}"), f"those of an earlier run, of shape {begin.shape}"
                )
            # What was impossible under other potentials may be possible under these.
            begin[:] = np.where(np.isfinite(given), given, 0.0)
        folded, constants = unary.copy(), np.zeros(len(graphs))
        propagation.fold(self.wiring, selected, tables, folded, constants)
        nothing = np.zeros(len(graphs), dtype=np.int64)
        return Work(selected, unary, tables, folded, constants, begin, nothing, np.zeros(len(graphs)))

    def _sweep(
        self,
        task: Work,
        weights: tuple[float, float],
        wanted: Flags,
        max_sweeps: int,
        tol: float,
        pooled: bool = False,
    ) -> None:
        """Send messages over the graphs `wanted`, numbered among the selected ones; `pooled` if for values."""
        equal = weights[0] == weights[1]
        hidden = self._nothing_hidden if equal else self.hidden
        once = self.forest if equal else np.zeros_like(self.forest)
        limits = (max_sweeps, float(self.damping), float(tol))
        wiring = self._soft_wiring if pooled else self.wiring
        pairwise = self._pairwise[task.selected.graphs]
        shared = (task.folded, task.tables, task.messages, hidden, weights, limits, once)
        found = (task.sweeps, task.residuals)
        if (wanted & pairwise).any():
            run_pairwise(wiring, task.selected, wanted & pairwise, *shared, True, *found)
        if (wanted & ~pairwise).any():
            run_factors(wiring, task.selected, wanted & ~pairwise, *shared, *found)

    def _is_exact(self, graphs: Indices, weights: tuple[float, float]) -> Flags:
        return self.forest[graphs] & (weights[0] == weights[1] or self._separable[graphs])

    def _pooled(self, task: Work, weights: tuple[float, float]) -> Propagated:
        """Values and beliefs at ε_y > 0."""
        everything = np.ones(len(task.selected.graphs), dtype=np.bool_)
        self._sweep(task, weights, everything, self.max_iterations, self.tol, pooled=True)
        hidden = self._nothing_hidden if weights[0] == weights[1] else self.hidden
        values, marginals, tables = task.constants.copy(), np.empty_like(task.unary), np.empty_like(task.tables)
        factors.read_out(
            self._soft_wiring,
            task.selected,
            task.folded,
            task.tables,
            task.messages,
            hidden,
            weights,
            values,
            marginals,
            tables,
        )
        states = np.empty(int(task.selected.variables_at[-1]), dtype=np.int64)
        factors.most_probable(self.wiring, task.selected, marginals, states)
        converged = task.residuals <= self.tol
        exact = converged & self._is_exact(task.selected.graphs, weights)
        updates = task.sweeps * self.n_messages[task.selected.graphs]
        return Propagated(values, marginals, tables, states, exact, converged, task.messages, task.sweeps, updates)

    def _searched(self, task: Work, weights: tuple[float, float]) -> Propagated:
        """The best outputs that were decoded at ε_y = 0 or on the way there, with their values and beliefs."""
        search = Search(self, task, weights)
        exact = self._is_exact(task.selected.graphs, weights)
        annealed = ~exact & ~_has_messages(task)
        if annealed.any():
            for stage in self.anneal:
                self._sweep(task, (stage, weights[1] or stage), annealed, STAGE_SWEEPS, STAGE_TOL)
                search.look(annealed)
        restless = np.ones(len(task.selected.graphs), dtype=np.bool_)
        for _ in range(LOOKS):
            self._sweep(task, weights, restless, -(-self.max_iterations // LOOKS), self.tol)
            search.look(restless)
            restless = task.residuals > self.tol
            if not restless.any():
                break
        beliefs = search.result()
        beliefs.converged = beliefs.converged & ~restless
        beliefs.exact = beliefs.exact & exact & beliefs.converged
        updates = task.sweeps * self.n_messages[task.selected.graphs]
        return Propagated(**vars(beliefs), messages=task.messages, sweeps=task.sweeps, updates=updates)

    def given_outputs(self) -> "_Given":
        """Return the object that sums over hidden variables given outputs, created at the first use."""
        if self._given is None:
            self._given = _Given(self)
        return self._given


class Search:
    """The best assignment of each selected graph decoded so far, at ε_y = 0."""

    def __init__(self, owner: Propagation, task: Work, weights: tuple[float, float]) -> None:
        self.owner, self.task, self.latent = owner, task, weights[1]
        self.hidden = owner._nothing_hidden if weights[1] == 0 else owner.hidden
        self.states = np.zeros(int(task.selected.variables_at[-1]), dtype=np.int64)
        self.values = np.full(len(task.selected.graphs), -np.inf)

    def look(self, wanted: Flags) -> None:
        """Decode the graphs `wanted` from the current messages and keep assignments that are better."""
        task, wiring = self.task, self.owner.wiring
        states = self.states.copy()
        factors.decode(
            wiring, task.selected, wanted, task.folded, task.tables, task.messages, self.hidden, self.latent, states
        )
        if self.latent == 0:
            factors.climb(wiring, task.selected, wanted, task.folded, task.tables, states, CLIMBS)
            values = task.constants.copy()
            factors.score(wiring, task.selected, task.folded, task.tables, states, values)
        else:
            values = self.owner.given_outputs().values(task, states, self.latent)
        better = wanted & (values > self.values)
        changed, _ = positions(task.selected.variables_at, np.flatnonzero(better))
        self.states[changed] = states[changed]
        self.values[better] = values[better]

    def result(self) -> Beliefs:
        """Return values, derivatives and states of the best assignments."""
        task = self.task
        if self.latent > 0:
            return self.owner.given_outputs().beliefs(task, self.states, self.latent)
        unary, tables = np.zeros_like(task.unary), np.zeros_like(task.tables)
        factors.indicate(self.owner.wiring, task.selected, self.states, self.values, unary, tables)
        sure = np.ones(len(self.values), dtype=np.bool_)
        return Beliefs(self.values, unary, tables, self.states, sure, sure.copy())


class _Given:
    """Sums over the hidden variables given the outputs: by elimination where feasible, else by propagation."""

    def __init__(self, owner: Propagation) -> None:
        self.conditioned = Conditioned(owner.structure, ~owner.hidden)
        rest = self.conditioned.rest
        everything = np.ones(len(rest.cards), dtype=np.bool_)
        self.elimination = Elimination(rest, everything, owner.max_entries)
        self.propagation = None
        if not self.elimination.feasible.all():
            self.propagation = Propagation(
                rest, everything, owner.max_iterations, owner.damping, owner.tol, counting=owner.decoding_counting
            )

    def _run(self, task: Work, states: NDArray[np.int64], latent: float) -> tuple[Beliefs, Vector]:
        graphs = task.selected.graphs
        unary, tables, constants = self.conditioned.reduce(task.unary, task.tables, states, graphs)
        temperature = Temperature(latent, latent)
        return run_split(self.elimination, self.propagation, unary, tables, temperature, graphs, None), constants

    def values(self, task: Work, states: NDArray[np.int64], latent: float) -> Vector:
        """Return smax_{ε_h} over h of s(ŷ, h), shape (k,)."""
        beliefs, constants = self._run(task, states, latent)
        return beliefs.values + constants

    def beliefs(self, task: Work, states: NDArray[np.int64], latent: float) -> Beliefs:
        """Return beliefs of the whole graphs given ŷ."""
        beliefs, constants = self._run(task, states, latent)
        return self.conditioned.spread(beliefs, states, task.selected.graphs, constants)


def run_split(
    elimination: Elimination,
    propagation: MessagePassing | None,
    unary: ArrayLike,
    tables: ArrayLike,
    temperature: Temperature,
    graphs: Indices,
    messages: ArrayLike | None,
) -> Propagated:
    """Eliminate the selected graphs that are feasible and pass messages on the others.

    `messages`, given and returned, are those of the others only, one graph after the other; `propagation` may be None
    if there are none.
    """
    feasible = elimination.feasible[graphs]
    if feasible.all():
        found = elimination.run(unary, tables, temperature, graphs)
        none = np.zeros(len(graphs), dtype=np.int64)
        return Propagated(**vars(found), messages=np.zeros(0), sweeps=none, updates=none.copy())
    assert propagation is not None
    if not feasible.any():
        return propagation.run(unary, tables, temperature, graphs, messages)
    layout = Layout.of(elimination.structure, graphs)
    unary, tables = layout.check(unary, tables)
    n = len(graphs)
    merged = Propagated(
        np.empty(n),
        np.empty_like(unary),
        np.empty_like(tables),
        np.empty(int(layout.variables_at[-1]), dtype=np.int64),
        np.empty(n, dtype=np.bool_),
        np.empty(n, dtype=np.bool_),
        np.zeros(0),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
    )
    for kind in (True, False):
        chosen = np.flatnonzero(feasible == kind)
        in_unary, in_tables = positions(layout.unary_at, chosen)[0], positions(layout.tables_at, chosen)[0]
        potentials = unary[in_unary], tables[in_tables]
        if kind:
            part = elimination.run(*potentials, temperature, graphs[chosen])
        else:
            part = propagation.run(*potentials, temperature, graphs[chosen], messages)
            merged.messages, merged.sweeps[chosen], merged.updates[chosen] = part.messages, part.sweeps, part.updates
            if part.excess is not None:
                merged.excess = np.zeros(n)
                merged.excess[chosen] = part.excess
        merged.values[chosen], merged.exact[chosen], merged.converged[chosen] = part.values, part.exact, part.converged
        merged.unary[in_unary], merged.tables[in_tables] = part.unary, part.tables
        merged.states[positions(layout.variables_at, chosen)[0]] = part.states
    return merged


def wire(structure: FactorGraphs) -> tuple[Wiring, Flags]:
    """Return the structure in the layout of the kernels, and which graphs are forests."""
    arity = np.diff(structure.scope_at)
    factor_of = np.repeat(np.arange(len(arity)), arity)
    entries = np.flatnonzero(arity[factor_of] >= 2)
    n_variables = len(structure.cards)
    near = entries[np.argsort(structure.scopes[entries], kind="stable")]
    near_at = offsets_from_lengths(np.bincount(structure.scopes[entries], minlength=n_variables))
    order, factor_order = np.empty(n_variables, dtype=np.int64), np.empty(len(arity), dtype=np.int64)
    forest = np.empty(structure.n_graphs, dtype=np.bool_)
    propagation.traverse(
        structure.variables_at,
        structure.factors_at,
        structure.scope_at,
        structure.scopes,
        near_at,
        near,
        factor_of,
        order,
        factor_order,
        forest,
    )
    rank = np.empty(n_variables, dtype=np.int64)
    rank[order] = np.arange(n_variables)
    # Only factors of two variables need the entry of the other one.
    partner = np.arange(len(factor_of))
    paired = np.flatnonzero(arity[factor_of] == 2)
    partner[paired] = 2 * structure.scope_at[factor_of[paired]] + 1 - paired
    own, other = structure.scopes[near], structure.scopes[partner[near]]
    earlier = np.bincount(own, weights=rank[other] < rank[own], minlength=n_variables).astype(np.int64)
    near = near[np.lexsort((rank[other], own))]
    place_of = np.zeros(len(factor_of), dtype=np.int64)
    place_of[near] = np.arange(len(near))
    return Wiring(
        structure.cards,
        structure.scope_at,
        structure.scopes,
        structure.variables_at,
        structure.factors_at,
        structure.state_at,
        structure.table_at,
        offsets_from_lengths(structure.cards[structure.scopes]),
        factor_of,
        near_at,
        near,
        near_at[:-1] + earlier,
        place_of[partner[near]],
        order,
        factor_order,
        np.ones(len(arity)),
    ), forest


def tree_shares(structure: FactorGraphs) -> Vector:
    """Return the fraction of spanning trees that contain each factor of two variables, 1 for all others, shape (F,).

    The trees are drawn at random with a fixed seed, until each factor is in at least one of them.
    """
    first = structure.scope_at[:-1]
    pairwise = np.repeat(_largest_arity(structure) <= 2, np.diff(structure.factors_at))
    pairs = np.flatnonzero(pairwise & (np.diff(structure.scope_at) == 2))
    ends = np.sort(structure.scopes[np.stack([first[pairs], first[pairs] + 1])], axis=0)
    size = len(structure.cards)
    rng, held, n_trees = np.random.default_rng(0), np.zeros(len(pairs)), 0
    while len(pairs) and (n_trees < TREES or not held.all()):
        # Lengths of 1 to 2, or 0 to 1 for factors that are in no tree yet, so that the tree prefers these.
        lengths = rng.random(len(pairs)) + np.where(held > 0, 1.0, 1e-9)
        order = np.lexsort((lengths, *ends))
        # Of factors that join the same two variables, a tree may contain the shortest only.
        new = np.concatenate([[True], (np.diff(ends[:, order]) != 0).any(axis=0)])
        shortest = order[new]
        graph = sparse.csr_array((lengths[shortest], ends[:, shortest]), shape=(size, size))
        number = sparse.csr_array((np.arange(1, len(shortest) + 1), ends[:, shortest]), shape=(size, size))
        tree = csgraph.minimum_spanning_tree(graph).tocoo()
        held[shortest[number[tree.row, tree.col] - 1]] += 1
        n_trees += 1
    shares = np.ones(len(first))
    shares[pairs] = held / max(n_trees, 1)
    return shares


def _count_messages(structure: FactorGraphs) -> Indices:
    """Return the number of messages of each graph, shape (G,)."""
    arity = np.diff(structure.scope_at)
    graphs = np.repeat(np.arange(structure.n_graphs), np.diff(structure.factors_at))
    sent = np.bincount(graphs, weights=np.where(arity > 1, arity, 0), minlength=structure.n_graphs)
    return sent.astype(np.int64)


def _largest_arity(structure: FactorGraphs) -> Indices:
    """Return the largest number of variables of a factor in each graph, shape (G,)."""
    most = np.zeros(structure.n_graphs, dtype=np.int64)
    graphs = np.repeat(np.arange(structure.n_graphs), np.diff(structure.factors_at))
    np.maximum.at(most, graphs, np.diff(structure.scope_at))
    return most


def _separable(structure: FactorGraphs, hidden: Flags) -> Flags:
    """Return for each graph whether each connected set of hidden variables shares only one factor with outputs.

    Summing it out then adds no table that spans several factors, so that Bethe entropies of a forest stay exact.
    """
    n_variables, n_factors = len(structure.cards), len(structure.scope_at) - 1
    factor_of = np.repeat(np.arange(n_factors), np.diff(structure.scope_at))
    is_hidden = hidden[structure.scopes]
    links = (structure.scopes[is_hidden], n_variables + factor_of[is_hidden])
    size = n_variables + n_factors
    joined = sparse.coo_array((np.ones(len(links[0]), dtype=np.int8), links), shape=(size, size))
    _, component = csgraph.connected_components(joined, directed=False)
    with_hidden = np.bincount(factor_of, weights=is_hidden, minlength=n_factors) > 0
    with_outputs = np.bincount(factor_of, weights=~is_hidden, minlength=n_factors) > 0
    mixed = np.flatnonzero(with_hidden & with_outputs)
    counts = np.bincount(component[n_variables + mixed], minlength=size)
    graphs = np.repeat(np.arange(structure.n_graphs), np.diff(structure.factors_at))
    separable = np.ones(structure.n_graphs, dtype=np.bool_)
    separable[graphs[mixed[counts[component[n_variables + mixed]] > 1]]] = False
    return separable


def _has_messages(task: Work) -> Flags:
    """Return which selected graphs have messages to start from."""
    given = np.zeros(len(task.selected.graphs), dtype=np.bool_)
    given[np.searchsorted(task.selected.messages_at, np.flatnonzero(task.messages), side="right") - 1] = True
    return given
