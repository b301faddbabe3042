"""Sequences of tokens laid end to end, and soft pooling of their labelings: values, marginals and pair marginals."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, Vector, members, offsets_from_lengths, positions
from latentstruct.core.unknown import UNKNOWN
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.forests import GraphForests
from latentstruct.inference.structure import FactorGraphs, pairwise_graphs
from latentstruct.kernels import chain as kernels
from latentstruct.kernels import half_chain
from latentstruct.planes.plane import Slopes
from latentstruct.tasks.inputs import InputRows

# exp(−600) is the smallest share a linear-domain message may lose without reaching denormal numbers.
LINEAR_DOMAIN_SPREAD = 600.0


@dataclass
class ChainBatch:
    """All tokens of all sequences, flat: inputs (N, d), offsets (n + 1,), label numbers (N,), −1 where unknown."""

    inputs: InputRows
    offsets: Indices
    truth: NDArray[np.int64] | None
    known_slopes: Slopes | None = None  # features of the true labels
    by_costs: dict[bytes, GraphForests | None] = field(default_factory=dict)  # all labelings, once they are needed

    def __post_init__(self) -> None:
        self.n_examples, self.cards = len(self.offsets) - 1, self.inputs.n_labels
        self.labelled = self.truth is not None
        self.half_labelled = self.truth is not None and bool((self.truth == UNKNOWN).any())

    @cached_property
    def tables(self) -> list[NDArray[np.float64]]:
        """Three tables (N, S) that every sum over sequences overwrites: new memory costs as much as the work on it."""
        return [np.empty((self.inputs.shape[0], self.inputs.n_labels)) for _ in range(3)]

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
        return Elimination(self.structure, self.known(None) == UNKNOWN, max_entries=self.cards**3)

    def forests(self, costs: NDArray[np.float64]) -> GraphForests | None:
        """Return all labelings by their costs (true, predicted), None if these have no common unit."""
        key = costs.tobytes()
        if key not in self.by_costs:
            losses = costs[self.known(None)].ravel()
            self.by_costs[key] = GraphForests.of(self.structure, losses, max_entries=self.cards**2)
        return self.by_costs[key]

    def known(self, rows: Indices | None) -> NDArray[np.int64]:
        """Return the true labels of some sequences of a labeled batch, None for all."""
        assert self.truth is not None
        return self.truth if rows is None else self.truth[positions(self.offsets, rows)[0]]


class Selection(NamedTuple):
    """Some sequences of a batch with their scores, compact: what the kernels work on.

    `tokens` are their positions in the batch, None for all. `spare` are two tables (N, S) to work in, if there are.
    """

    rows: Indices
    tokens: Indices | None
    offsets: Indices
    truth: NDArray[np.int64] | None
    scores: NDArray[np.float64]
    spare: list[NDArray[np.float64]] | None


class ChainSums(NamedTuple):
    """Soft pooling of sequences: ε log Z, marginals (N, S) and pair marginals."""

    values: Vector
    marginals: NDArray[np.float64]
    pairs: NDArray[np.float64]


def pool(
    chosen: Selection, transitions: NDArray[np.float64], temperature: Temperature, weights: Vector, by: int
) -> ChainSums:
    """Pool sequences; marginals and pairs are times the weights if pairs are summed over all (`by` is TOGETHER).

    Weights must be 1 otherwise. Marginals may overwrite the scores.
    """
    if temperature.output == temperature.latent > 0 and by != half_chain.BY_TOKEN:
        return _pool_alike(chosen, transitions, temperature.output, weights, by == half_chain.TOGETHER)
    return pool_latents_first(chosen, transitions, temperature, weights, by)


def pool_latents_first(
    chosen: Selection, transitions: NDArray[np.float64], temperature: Temperature, weights: Vector, by: int
) -> ChainSums:
    """Pool unknown tokens at ε_h and then the others at ε_y; pairs are (1, S, S), (k, S, S) or (N, S, S)."""
    n, scores = len(transitions), chosen.scores
    labels = np.zeros(len(scores), dtype=np.int64) if chosen.truth is None else chosen.truth
    unknown = np.flatnonzero(labels == UNKNOWN)
    tokens, centers, highs = scores[unknown], np.empty(len(unknown)), np.zeros(len(scores))
    widest = kernels.center_rows(tokens, centers)
    hidden = half_chain.make_steps(transitions, temperature.latent, widest, LINEAR_DOMAIN_SPREAD)
    if hidden.linear:
        highs[unknown] = centers
        scores[unknown] = np.exp(np.divide(tokens, temperature.latent, out=tokens), out=tokens)
    gains = np.empty((n, n))
    half_chain.largest_gains(transitions, gains)
    outputs = half_chain.make_steps(transitions, temperature.output, 0.0, LINEAR_DOMAIN_SPREAD)
    tail = hidden._replace(matrix=hidden.turned, turned=hidden.matrix, ahead=True)
    pooling = half_chain.Pooling(scores, highs, labels, outputs, hidden, tail, gains)
    values, marginals = (
        np.empty(len(chosen.rows)),
        np.empty_like(scores) if chosen.spare is None else chosen.spare[0],
    )
    marginals.fill(0.0)
    sizes = {half_chain.TOGETHER: 1, half_chain.BY_SEQUENCE: len(values), half_chain.BY_TOKEN: len(scores)}
    pairs = np.zeros((sizes[by], n, n))
    half_chain.pool_half_labelled(pooling, chosen.offsets, weights, values, marginals, pairs, by)
    return ChainSums(values, marginals, pairs)


def _pool_alike(
    chosen: Selection, transitions: NDArray[np.float64], temperature: float, weights: Vector, together: bool
) -> ChainSums:
    """Pool all tokens at one temperature above 0; marginals overwrite the scores."""
    n = len(transitions)
    scores, offsets, values = chosen.scores, chosen.offsets, np.empty(len(chosen.rows))
    highs, pairs = np.empty(len(scores)), np.zeros((1 if together else len(values), n, n))
    widest = kernels.center_rows(scores, highs) + float(np.ptp(transitions))
    if widest >= LINEAR_DOMAIN_SPREAD * temperature:
        kernels.forward_backward_log(scores, highs, offsets, transitions, temperature, weights, pairs, together, values)
        if together:
            kernels.scale_rows(scores, offsets, weights)
        return ChainSums(values, scores, pairs)
    top = float(transitions.max())
    pairwise = np.exp((transitions - top) / temperature)
    if temperature != 1.0:
        scores /= temperature
    potentials = np.exp(scores, out=scores)
    forward, arrive = chosen.spare or (np.empty_like(scores), np.empty_like(scores))
    transposed = np.ascontiguousarray(pairwise.T)
    kernels.forward_backward(
        potentials, highs, offsets, pairwise, transposed, top, temperature, forward, arrive, values
    )
    if together:
        kernels.scale_rows(potentials, offsets, weights)
        kernels.scale_rows(arrive, offsets, weights)
        # Rows of first tokens are zero, so that no pair reaches across two sequences.
        pairs[0] = (forward[:-1].T @ arrive[1:]) * pairwise
    else:
        kernels.pair_marginals(forward, arrive, offsets, pairwise, pairs)
    return ChainSums(values, potentials, pairs)
