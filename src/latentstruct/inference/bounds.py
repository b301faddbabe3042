"""Upper and lower bounds of log-partition functions and maxima of graphs that are too wide for elimination."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from latentstruct.core.lazy import optimize
from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import integer, real
from latentstruct.exceptions import InputError
from latentstruct.inference.ascent import Ascent, Rest, is_proved
from latentstruct.inference.covers import Block, Cover, partition
from latentstruct.inference.elimination import Layout
from latentstruct.inference.propagation import Propagation
from latentstruct.inference.structure import Beliefs, FactorGraphs, assignment_entries, table_states

STAGES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
"""Temperatures by which a maximum is smoothed, as multiples of the mean range of the potentials of a variable."""

LEAST_SHARE = 1e-250
"""Probability below which rounding may be large."""

ROUNDING = 1e-9
"""Relative rounding error that bounds of single states allow for."""

EVALUATIONS = 2
"""Evaluations per iteration at most."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of the value of one graph.

    Attributes
    ----------
    lower, upper : float
        The value smax_ε of the scores is between them.
    states : ndarray of int, shape (V,)
        At ε = 0 an assignment with the score `lower`; otherwise the most probable state of each variable.
    """

    lower: float
    upper: float
    states: Indices

    @property
    def gap(self) -> float:
        """Upper − lower, 0 where both are −inf."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower


class BoundedInference:
    """Bounds of smax_ε of the scores of one graph, ε ≥ 0: log-partition functions (ε = 1) and maxima (ε = 0).

    The upper bound divides the potentials among narrow pieces that together have all factors. By Hölder's inequality
    the value is at most Σ_p w_p·smax_ε(θ_p/w_p) for any division θ = Σ_p θ_p; the division is optimized by L-BFGS, at
    ε = 0 at temperatures that decrease. For pieces that are trees this is tree-reweighted inference (Wainwright,
    Jaakkola & Willsky 2005) and, at ε = 0, the dual of the linear relaxation.

    The lower bound is the mean-field bound with a distribution for each of a few narrow blocks of variables, which are
    optimized in turn. At ε = 0 this is local search that replaces the states of a whole block by the best ones.

    Parameters
    ----------
    structure : FactorGraphs
        One graph.
    max_entries : int, default=2**10
        Largest table of pieces and blocks; larger ones make bounds tighter and slower.
    max_iter : int, default=50
        Maximum number of iterations of L-BFGS at each temperature, and of sweeps over the blocks.
    tol : float, default=1e-6
        A maximum is accepted if its relative gap to the upper bound is at most this.
    n_partitions : int, default=4
        Number of divisions into blocks that local search uses.
    max_rest_entries : int, default=2**20
        Largest table for the elimination of the states that bounds of a maximum do not exclude.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct.inference.bounds import BoundedInference
    >>> from latentstruct.inference.structure import pairwise_graphs
    >>> triangle = pairwise_graphs([2, 2, 2], [[0, 1], [1, 2], [0, 2]], [0, 3], [0, 3])
    >>> agree = np.tile([1.0, 0.0, 0.0, 1.0], 3)
    >>> bounds = BoundedInference(triangle, max_entries=4).run(np.zeros(6), agree, temperature=1.0)
    >>> bool(bounds.lower <= np.log(2 * np.exp(3) + 6 * np.exp(1)) <= bounds.upper)
    True
    """

    def __init__(
        self,
        structure: FactorGraphs,
        max_entries: int = 2**10,
        max_iter: int = 50,
        tol: float = 1e-6,
        n_partitions: int = 4,
        max_rest_entries: int = 2**20,
    ) -> None:
        integer(1).check(max_entries, "max_entries")
        integer(1).check(max_iter, "max_iter")
        real(0.0).check(tol, "tol")
        integer(1).check(n_partitions, "n_partitions")
        integer(1).check(max_rest_entries, "max_rest_entries")
        if structure.n_graphs != 1:
            raise InputError("structure", structure.n_graphs, "one graph")
        self.structure, self.max_entries, self.max_iter, self.tol = structure, max_entries, max_iter, tol
        self._layout = Layout.of(structure, np.zeros(1, dtype=np.int64))
        self._pieces = _Pieces(structure, max_entries)
        nothing = np.zeros(len(structure.cards), dtype=np.bool_)
        self._ascent = Ascent(Propagation(structure, nothing), tol, max(max_entries, max_rest_entries))
        self._n_partitions = min(n_partitions, len(structure.cards))
        self._partitions: list[list[Block]] = []

    def run(
        self,
        unary: ArrayLike,
        tables: ArrayLike,
        temperature: float = 0.0,
        starts: Iterable[ArrayLike] = (),
    ) -> Bounds:
        """Return bounds of smax_ε of the scores.

        Parameters
        ----------
        unary, tables : array-like
            Potentials of the graph; finite or −inf.
        temperature : float
            ε.
        starts : iterable of array-like
            Assignments from which lower bounds start, beside those that the upper bound suggests.

        Returns
        -------
        Bounds
            Lower and upper bound, and an assignment.
        """
        real(0.0, closed="left").check(temperature, "temperature")
        unary, tables = self._layout.check(unary, tables)
        given = [np.asarray(start, dtype=np.int64) for start in starts]
        division = _Division(self._pieces, unary, tables)
        if division.upper(0.0) == -np.inf:
            return Bounds(-np.inf, -np.inf, np.zeros(len(self.structure.cards), dtype=np.int64))
        if temperature > 0:
            upper = division.minimize(temperature, self.max_iter)
            return self._soft(unary, tables, temperature, upper, [*given, *division.decode()])
        return self._hard(unary, tables, division, given)

    def _hard(self, unary: Vector, tables: Vector, division: "_Division", starts: list[Indices]) -> Bounds:
        ascent = self._ascent.run(unary, tables)
        assert ascent.excess is not None
        value = float(ascent.values[0])
        upper = min(division.upper(0.0), value + float(ascent.excess[0]))
        if upper == value or is_proved(value, upper - value, self.tol):
            return Bounds(value, max(upper, value), ascent.states)
        scale = division.scale
        best = self._best(unary, tables, 0.0, [ascent.states, *starts])
        rest = Rest(self.structure, unary, tables, self._ascent.max_entries, self.tol)
        for stage in STAGES:
            division.minimize(stage * scale, self.max_iter)
            upper = min(upper, division.upper(0.0))
            best = max(best, self._best(unary, tables, 0.0, division.decode()), key=lambda found: found[0])
            value, states, upper = rest.search(division.reach(stage * scale), *best, upper)
            best = value, states
            if upper == best[0] or is_proved(best[0], upper - best[0], self.tol):
                break
        return Bounds(best[0], max(upper, best[0]), best[1])

    def _soft(self, unary: Vector, tables: Vector, temperature: float, upper: float, starts: list[Indices]) -> Bounds:
        hard = self._best(unary, tables, 0.0, starts)
        known = starts if hard[0] == -np.inf else [hard[1]]
        lower, states = self._best(unary, tables, temperature, known)
        return Bounds(lower, max(upper, lower), states)

    def _best(
        self, unary: Vector, tables: Vector, temperature: float, starts: Iterable[Indices]
    ) -> tuple[float, Indices]:
        """Return the best value that coordinate ascent reaches from some assignments, and its states."""
        best = -np.inf, np.zeros(len(self.structure.cards), dtype=np.int64)
        seen: set[bytes] = set()
        for start in starts:
            if start.tobytes() in seen:
                continue
            seen.add(start.tobytes())
            value, states = -np.inf, start
            if temperature == 0:
                value, states = self._search(unary, tables, start)
            else:
                for blocks in self._blocks():
                    found = _ascend(self.structure, blocks, unary, tables, temperature, start, self.max_iter)
                    if found[0] > value:
                        value, states = found
            if value > best[0]:
                best = value, states
        return best

    def _search(self, unary: Vector, tables: Vector, states: Indices) -> tuple[float, Indices]:
        """Improve an assignment by blocks until none changes it; one that is impossible first as if it only cost."""
        in_unary, in_tables = assignment_entries(self.structure, states)
        if np.isinf(unary[in_unary]).any() or np.isinf(tables[in_tables]).any():
            cost = 1.0 + _mean_range(self.structure, np.concatenate([unary, tables])) * len(self.structure.cards)
            states = self._climb(np.maximum(unary, -cost), np.maximum(tables, -cost), states)[1]
        return self._climb(unary, tables, states)

    def _climb(self, unary: Vector, tables: Vector, states: Indices) -> tuple[float, Indices]:
        """Improve an assignment by blocks of all partitions until none changes it."""
        value, idle, number = -np.inf, 0, 0
        partitions = self._blocks()
        while idle < len(partitions):
            blocks = partitions[number % len(partitions)]
            found, changed = _ascend(self.structure, blocks, unary, tables, 0.0, states, self.max_iter)
            idle = idle + 1 if found <= value else 0
            if found > value:
                value, states = found, changed
            elif value == -np.inf:
                states = changed
            number += 1
        return value, states

    def _blocks(self) -> list[list[Block]]:
        """Divide the graph into blocks in several ways, once."""
        if not self._partitions:
            roots = np.linspace(0, len(self.structure.cards) - 1, self._n_partitions - 1).astype(np.int64).tolist()
            self._partitions = [partition(self.structure, self.max_entries, root) for root in [None, *roots]]
        return self._partitions


class _Pieces:
    """The pieces of a graph, and which entries of their potentials are copies of the same one."""

    def __init__(self, structure: FactorGraphs, max_entries: int) -> None:
        self.structure = structure
        self.cover = Cover.of(structure, max_entries)
        n_unary = int(structure.state_at[-1])
        self.copy_of = np.concatenate([self.cover.unary, n_unary + self.cover.tables])
        self.n_entries = n_unary + int(structure.table_at[-1])
        self.n_copies = np.bincount(self.copy_of, minlength=self.n_entries).astype(np.float64)

    def centered(self, x: Vector) -> Vector:
        """Return x without the mean of the copies of each entry, so that copies sum to 0."""
        return x - (np.bincount(self.copy_of, x, self.n_entries) / self.n_copies)[self.copy_of]


class _Division:
    """A division of potentials among pieces: at first equal shares, plus `duals` whose copies sum to 0."""

    def __init__(self, pieces: _Pieces, unary: Vector, tables: Vector) -> None:
        self.pieces, potentials = pieces, np.concatenate([unary, tables])
        possible = np.isfinite(potentials)
        shares = np.where(possible, potentials, 0.0) / pieces.n_copies
        self.possible, self.shares = possible[pieces.copy_of], shares[pieces.copy_of]
        self.duals = np.zeros(len(pieces.copy_of))
        self.scale = _mean_range(pieces.structure, potentials)

    def _pool(self, duals: Vector, temperature: float) -> tuple[float, Vector, Beliefs]:
        """Return the bound for some duals, its gradient and the beliefs of the pieces."""
        cover = self.pieces.cover
        theta = np.where(self.possible, (self.shares + self.pieces.centered(duals)) * cover.n_pieces, -np.inf)
        n_unary = len(cover.unary)
        found = cover.elimination.run(theta[:n_unary], theta[n_unary:], Temperature(temperature, temperature))
        slope = np.concatenate([found.unary, found.tables])
        return float(found.values.sum()) / cover.n_pieces, self.pieces.centered(slope), found

    def minimize(self, temperature: float, max_iter: int) -> float:
        """Improve the division for a positive temperature, and return the bound."""
        options = {"maxiter": max_iter, "maxfun": EVALUATIONS * max_iter, "ftol": 1e-12, "gtol": 1e-9}
        found = optimize.minimize(
            lambda duals: self._pool(duals, temperature)[:2],
            self.duals,
            jac=True,
            method="L-BFGS-B",
            options=options,
        )
        self.duals[:] = found.x
        return self._pool(found.x, temperature)[0]

    def upper(self, temperature: float) -> float:
        """Return the bound of the present division."""
        return self._pool(self.duals, temperature)[0]

    def reach(self, temperature: float) -> Vector:
        """Return an upper bound of the scores of all assignments with each state."""
        value, _, found = self._pool(self.duals, temperature)
        # The pooled value of a piece with a state given is smax_ε + ε log p, and its maximum is not larger.
        logs = np.log(np.maximum(found.unary, LEAST_SHARE)).reshape(self.pieces.cover.n_pieces, -1)
        return np.asarray(value + ROUNDING * max(1.0, abs(value)) + temperature * logs.mean(axis=0))

    def decode(self) -> list[Indices]:
        """Return the best assignment of each piece."""
        states = self._pool(self.duals, 0.0)[2].states
        return list(states.reshape(self.pieces.cover.n_pieces, -1))


def _mean_range(structure: FactorGraphs, potentials: Vector) -> float:
    """Return the mean over variables of the largest difference between the potentials of the factors around it."""
    at = np.concatenate([structure.state_at[:-1], structure.state_at[-1] + structure.table_at[:-1]])
    finite = np.isfinite(potentials)
    high = np.maximum.reduceat(np.where(finite, potentials, -np.inf), at)
    low = np.minimum.reduceat(np.where(finite, potentials, np.inf), at)
    ranges = np.where(high >= low, high - low, 0.0)
    return float(ranges.sum() / max(1, len(structure.cards))) or 1.0


def _ascend(
    structure: FactorGraphs,
    blocks: list[Block],
    unary: Vector,
    tables: Vector,
    temperature: float,
    start: Indices,
    max_iter: int,
    tol: float = 1e-7,
) -> tuple[float, Indices]:
    """Optimize the distributions of the blocks in turn, from an assignment; return the bound and the states."""
    both = Temperature(temperature, temperature)
    single = np.zeros(int(structure.state_at[-1]))
    single[structure.state_at[:-1] + start] = 1.0
    states = start.copy()
    factors = [_from_singles(block, single) for block in blocks]
    surround = [_weights(block, marginals) for block, marginals in zip(blocks, factors, strict=True)]
    entropies = np.zeros(len(blocks))
    value = -np.inf
    for _ in range(max_iter):
        for b, block in enumerate(blocks):
            weights = _product(surround[:b] + surround[b + 1 :], len(tables))
            potentials = block.potentials(unary, tables, weights)
            found = block.elimination.run(potentials[: block.n_unary], potentials[block.n_unary :], both)
            if found.values[0] == -np.inf:
                continue
            marginals = np.concatenate([found.unary, found.tables])
            surround[b] = _weights(block, marginals)
            entropies[b] = found.values[0] - _expected(potentials, marginals)
            single[block.states] = found.unary
            states[block.variables] = found.states
        last, value = value, _expected(unary, single) + _expected(tables, _product(surround, len(tables)))
        value += float(entropies.sum())
        if value <= last + tol * max(1.0, abs(value)):
            break
    return value, states


def _from_singles(block: Block, single: Vector) -> Vector:
    """Return the marginals of a block whose variables are independent."""
    rest = block.elimination.structure
    own, joint = single[block.states], np.ones(int(rest.table_at[-1]))
    for entries, slots, states in table_states(rest):
        joint[entries] *= own[rest.state_at[rest.scopes[slots]] + states]
    return np.concatenate([own, joint])


def _weights(block: Block, marginals: Vector) -> Vector:
    """Return the probability of each entry of the whole tables under the distribution of a block."""
    found = np.ones(len(block.joint))
    found[block.joined] = marginals[block.joint[block.joined]]
    return found


def _product(parts: list[Vector], size: int) -> Vector:
    found = np.ones(size)
    for part in parts:
        found *= part
    return found


def _expected(potentials: Vector, probabilities: Vector) -> float:
    """Return Σ p·θ, where impossible entries count only if they have positive probability."""
    possible = np.isfinite(potentials)
    if (probabilities[~possible] > 0).any():
        return -np.inf
    return float(potentials[possible] @ probabilities[possible])
