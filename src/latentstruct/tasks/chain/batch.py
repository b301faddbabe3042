"""Sequences of tokens laid end to end, and soft pooling of their labelings: values, marginals and pair marginals."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.chain_distributions import pool_labelings
from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, Vector, members, offsets_from_lengths, positions
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.forests import GraphForests
from latentstruct.inference.structure import FactorGraphs, pairwise_graphs
from latentstruct.planes.plane import Slopes
from latentstruct.tasks.inputs import InputRows
from latentstruct.tasks.labels import costs_with

# exp(−600) is the smallest share a linear-domain message may lose without reaching denormal numbers.
LINEAR_DOMAIN_SPREAD = 600.0

NO_LABELS = np.zeros(0, dtype=np.int64)

# What pair marginals are summed over.
TOGETHER, BY_SEQUENCE, BY_TOKEN = 0, 1, 2


class Blocks(NamedTuple):
    """Where the weights of labels begin; −1: there is no such block."""

    transitions: int
    bias: int
    start: int
    end: int


class LabelScores(NamedTuple):
    """What is added to products of inputs and weights, whatever the inputs are.

    `bias`, `start` and `end` are (S,), or empty if there is no such block. terms[label, y] is added to the score of y:
    the costs, or what the label allows, 0 or −inf; (S + P + 1, S), or (0, S) if nothing is added. Negative labels count
    from the last row; −1 adds nothing.
    """

    bias: Vector
    start: Vector
    end: Vector
    terms: NDArray[np.float64]


@dataclass
class ChainBatch:
    """All tokens of all sequences, flat: inputs (N, d), offsets (n + 1,), label numbers (N,), −1 where unknown.

    `partial` (P, S) is the table of sets of labels and of soft labels; label −2 is its last row.
    """

    inputs: InputRows
    offsets: Indices
    truth: NDArray[np.int64] | None
    partial: NDArray[np.float64]
    known_slopes: Slopes | None = None  # features of the true labels
    by_costs: dict[bytes, GraphForests | None] = field(default_factory=dict)  # all labelings, once they are needed
    cost_tables: dict[bytes, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.n_examples, self.cards = len(self.offsets) - 1, self.inputs.n_labels
        self.labeled = self.truth is not None
        self.half_labeled = self.truth is not None and bool((self.truth < 0).any())

    @cached_property
    def structure(self) -> FactorGraphs:
        """Tokens as variables, and neighbors as factors."""
        owner, place = members(self.offsets)
        second = np.flatnonzero(place > 0)
        pairs_at = offsets_from_lengths(np.bincount(owner[second], minlength=self.n_examples))
        edges = np.column_stack([second - 1, second])
        return pairwise_graphs(np.full(len(owner), self.cards), edges, self.offsets, pairs_at)

    @cached_property
    def elimination(self) -> Elimination:
        """Elimination of the unknown tokens of a labeled batch, then of the others."""
        return Elimination(self.structure, self.known(None) < 0, max_entries=self.cards**3)

    @cached_property
    def allowed(self) -> NDArray[np.float64]:
        """What each label number adds to the scores of labels that agree with it: (S + P + 1, S), −inf for others."""
        with np.errstate(divide="ignore"):
            return np.vstack([np.log(np.eye(self.cards)), self.partial, np.zeros(self.cards)])

    def costs(self, costs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the costs of all label numbers of the batch; see `costs_with`."""
        key = costs.tobytes()
        if key not in self.cost_tables:
            self.cost_tables[key] = costs_with(costs, self.partial)
        return self.cost_tables[key]

    def forests(self, costs: NDArray[np.float64]) -> GraphForests | None:
        """Return all labelings by their costs (true, predicted), None if these have no common unit."""
        key = costs.tobytes()
        if key not in self.by_costs:
            losses = self.costs(costs)[self.known(None)].ravel()
            self.by_costs[key] = GraphForests.of(self.structure, losses, max_entries=self.cards**2)
        return self.by_costs[key]

    def known(self, rows: Indices | None) -> NDArray[np.int64]:
        """Return the true labels of some sequences of a labeled batch, None for all."""
        assert self.truth is not None
        return self.truth if rows is None else self.truth[positions(self.offsets, rows)[0]]


class Selection(NamedTuple):
    """Some sequences of a batch with their scores, compact: what the kernels work on.

    `tokens` are their positions in the batch, None for all; `truth` is empty if there are no labels.
    """

    rows: Indices
    tokens: Indices | None
    offsets: Indices
    truth: NDArray[np.int64]
    scores: NDArray[np.float64]


class ChainSums(NamedTuple):
    """Soft pooling of sequences: ε log Z, marginals (N, S) and pair marginals."""

    values: Vector
    marginals: NDArray[np.float64]
    pairs: NDArray[np.float64]


def pool(
    chosen: Selection, transitions: NDArray[np.float64], temperature: Temperature, weights: Vector, by: int
) -> ChainSums:
    """Pool unknown tokens at ε_h and then the others at ε_y; marginals overwrite the scores.

    Marginals and pairs are times the weights; pairs are (1, S, S) if `by` is TOGETHER, (k, S, S) if BY_SEQUENCE and
    (N, S, S), for tokens t − 1 and t, if BY_TOKEN.
    """
    n, scores, n_rows = len(transitions), chosen.scores, len(chosen.rows)
    values, pairs = np.empty(n_rows), np.zeros(({TOGETHER: 1, BY_SEQUENCE: n_rows, BY_TOKEN: len(scores)}[by], n, n))
    problem = scores, chosen.offsets, chosen.truth, transitions, *temperature, LINEAR_DOMAIN_SPREAD
    pool_labelings(*problem, weights, by, values, pairs)
    return ChainSums(values, scores, pairs)
