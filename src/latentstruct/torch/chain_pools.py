"""Pooled labelings of chains as differentiable functions of emissions and transitions.

A loss of chains is a difference of pools, f(s) = Σ_p ±pool_p(s + l_p) − ⟨q, s⟩: labelings with costs l pooled at two
temperatures, minus the known ones, which are pooled too or, where all labels are known, linear in the scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from latentstruct._native.chain import viterbi
from latentstruct._native.chain_distributions import covariances, pool_labelings
from latentstruct.core.protocols import HARD, Temperature
from latentstruct.core.types import Indices, Vector, members, offsets_from_lengths, sums_by
from latentstruct.exceptions import Description, InputError
from latentstruct.parallel.threads import chunk_by_work, thread_map
from latentstruct.tasks.chain.batch import BY_SEQUENCE, LINEAR_DOMAIN_SPREAD, NO_LABELS
from latentstruct.torch.tensors import loss_dtype, to_array, to_tensor

Table = NDArray[np.float64]


@dataclass
class Layout:
    """The tokens that count of a padded batch (B, T), end to end."""

    shape: tuple[int, int]  # B and T
    offsets: Indices  # (B + 1,) where the tokens of each sequence begin
    places: Indices | None  # (N,) the place of each token in the padded batch; None if all are tokens

    def __post_init__(self) -> None:
        self.n_tokens = int(self.offsets[-1])
        filled = np.diff(self.offsets) > 0
        self.firsts, self.lasts = self.offsets[:-1][filled], self.offsets[1:][filled] - 1

    @classmethod
    def of(cls, shape: tuple[int, int], kept: NDArray[np.bool_] | None) -> "Layout":
        """Lay out the tokens for which `kept` (B, T) is true, by default all."""
        if kept is None or kept.all():
            return cls(shape, np.arange(shape[0] + 1) * shape[1], None)
        return cls(shape, offsets_from_lengths(kept.sum(axis=1)), np.flatnonzero(kept))

    def gather(self, padded: NDArray[Any]) -> NDArray[Any]:
        """Return the entries (N, …) of tokens of a padded array (B, T, …)."""
        flat = padded.reshape(self.shape[0] * self.shape[1], *padded.shape[2:])
        return flat if self.places is None else flat[self.places]

    def scatter(self, values: NDArray[Any], fill: float = 0) -> NDArray[Any]:
        """Return entries (N, …) of tokens as a padded array (B, T, …)."""
        if self.places is None:
            return values.reshape(*self.shape, *values.shape[1:])
        padded = np.full((self.shape[0] * self.shape[1], *values.shape[1:]), fill, dtype=values.dtype)
        padded[self.places] = values
        return padded.reshape(*self.shape, *values.shape[1:])

    @cached_property
    def owners(self) -> Indices:
        """The sequence of each token."""
        return members(self.offsets)[0]

    @cached_property
    def later(self) -> Indices:
        """The tokens that have one before them in their sequence."""
        first = np.zeros(self.n_tokens, dtype=bool)
        first[self.firsts] = True
        return np.flatnonzero(~first)


def shared(shares: Table, scores: Table) -> Table:
    """Return the products of shares with scores, 0 where there is no share of what may be forbidden (−inf)."""
    return np.multiply(shares, scores, out=np.zeros_like(shares), where=shares != 0)


class Solved(NamedTuple):
    """Values (B,), and their derivatives with respect to scores (N, S) and transitions (B, S, S)."""

    values: Vector
    tokens: Table
    pairs: Table


@dataclass
class Pool:
    """Labelings pooled at two temperatures, with scores `added` to those of labels: costs, or −inf for forbidden ones.

    `known` (N,) is −1 for hidden tokens, which are pooled at ε_h; without it none is hidden.
    """

    temperature: Temperature
    sign: float = 1.0
    added: Table | None = None
    known: Indices = field(default_factory=lambda: NO_LABELS)

    def with_added(self, scores: Table) -> Table:
        """Return the scores of the labelings, a copy."""
        return scores.copy() if self.added is None else scores + self.added

    def run(self, scores: Table, transitions: Table, offsets: Indices) -> Solved:
        """Pool the labelings of all sequences."""
        tokens, (n_tokens, n), count = self.with_added(scores), scores.shape, len(offsets) - 1
        values, pairs = np.empty(count), np.zeros((count, n, n))
        hard = self.temperature == HARD
        best = np.empty(n_tokens if hard else 0, dtype=np.int64)
        weights = np.full(count, self.sign)

        def part(bounds: tuple[int, int]) -> None:
            some, own = slice(*bounds), offsets[bounds[0] : bounds[1] + 1]
            if hard:
                viterbi(tokens, own, transitions, best, values[some])
            else:
                problem = tokens, own, self.known, transitions, *self.temperature, LINEAR_DOMAIN_SPREAD
                pool_labelings(*problem, weights[some], BY_SEQUENCE, values[some], pairs[some])

        work = np.diff(offsets) * float(n * n)
        thread_map(part, list(pairwise(chunk_by_work(work).tolist())), torch.get_num_threads())
        if hard:
            tokens = np.zeros_like(tokens)
            Labels(best).add(self.sign, tokens, pairs, Layout((count, 0), offsets, None))
        return Solved(self.sign * values, tokens, pairs)


@dataclass
class Labels:
    """Known labels (N,) of all tokens, whose score is linear."""

    labels: Indices

    def score(self, scores: Table, transitions: Table, layout: Layout) -> Vector:
        """Return the score of each sequence."""
        own, later = scores[np.arange(len(scores)), self.labels], layout.later
        own[later] += transitions[self.labels[later - 1], self.labels[later]]
        return sums_by(layout.owners, own, layout.shape[0])

    def add(self, weight: float, tokens: Table, pairs: Table, layout: Layout) -> None:
        """Add weight times the counts of labels to `tokens`, and of their pairs to `pairs`."""
        labels, later, n = self.labels, layout.later, tokens.shape[1]
        tokens[np.arange(len(tokens)), labels] += weight
        places = (layout.owners[later] * n + labels[later - 1]) * n + labels[later]
        pairs += weight * np.bincount(places, minlength=pairs.size).reshape(pairs.shape)


@dataclass
class SoftLabels:
    """Independent distributions (N, S) of the labels of tokens, whose expected score is linear."""

    shares: Table

    def score(self, scores: Table, transitions: Table, layout: Layout) -> Vector:
        """Return the expected score of each sequence."""
        own, later = shared(self.shares, scores).sum(axis=1), layout.later
        before, here = self.shares[later - 1], self.shares[later]
        if np.isfinite(transitions).all():
            own[later] += ((before @ transitions) * here).sum(axis=1)
        else:
            joint = before[:, :, None] * here[:, None, :]
            own[later] += shared(joint, transitions).sum(axis=(1, 2))
        return sums_by(layout.owners, own, layout.shape[0])

    def add(self, weight: float, tokens: Table, pairs: Table, layout: Layout) -> None:
        """Add weight times the expected counts of labels to `tokens`, and of their pairs to `pairs`."""
        tokens += weight * self.shares
        for k, (start, end) in enumerate(pairwise(layout.offsets.tolist())):
            if end > start:
                pairs[k] += weight * (self.shares[start : end - 1].T @ self.shares[start + 1 : end])


@dataclass
class ChainProblem:
    """A sum of pools, minus the score of labels if they are all known."""

    layout: Layout
    pools: Sequence[Pool]
    known: Labels | SoftLabels | None = None

    def solve(self, scores: Table, transitions: Table) -> Solved:
        """Return the values and their first derivatives."""
        layout = self.layout
        total, *others = [pool.run(scores, transitions, layout.offsets) for pool in self.pools]
        for other in others:
            for sum_, part in zip(total, other, strict=True):
                sum_ += part
        if self.known is not None:
            total.values[:] -= self.known.score(scores, transitions, layout)
            self.known.add(-1.0, total.tokens, total.pairs, layout)
        for k in np.flatnonzero(~np.isfinite(total.values))[:1].tolist():
            got = Description(f"nothing in sequence {k} that labels, transitions and emissions allow together")
            raise InputError("tags", got, "labels that are not forbidden")
        return total

    def curve(
        self, scores: Table, transitions: Table, weights: Vector, tokens: Table, pairs: Table
    ) -> tuple[Table, Table]:
        """Return second derivatives, weighted, times directions (N, S) and (S, S)."""
        out, out_pairs = np.zeros_like(tokens), np.zeros_like(pairs)
        for pool in self.pools:
            output, latent = pool.temperature
            if output == 0 or (output != latent and len(pool.known)):
                raise NotImplementedError(
                    f"Second derivatives of chain losses are implemented for a single temperature above 0, not for "
                    f"{tuple(pool.temperature)}."
                )
            problem = pool.with_added(scores), self.layout.offsets, transitions, output, LINEAR_DOMAIN_SPREAD
            covariances(*problem, pool.sign * weights, tokens, pairs, out, out_pairs)
        return out, out_pairs


def _spread(layout: Layout, tokens: Table, pairs: Table, blocks: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the numbers of tokens and pairs as tensors like emissions, transitions, start and end."""
    ends = (tokens[places].sum(axis=0) for places in (layout.firsts, layout.lasts))
    found = (layout.scatter(tokens), pairs, *ends)
    return [None if like is None else to_tensor(part, like) for like, part in zip(blocks, found, strict=True)]


def chain_arrays(layout: Layout, blocks: Sequence[Tensor | None], name: str = "") -> tuple[Table, Table]:
    """Return the numbers (N, S) of tokens and (S, S) of pairs from emissions, transitions, start and end."""
    emissions, transitions, *ends = blocks
    assert emissions is not None
    assert transitions is not None
    tokens = layout.gather(to_array(emissions, name or "emissions", forbidding=True))
    for block_name, places, block in zip(("start", "end"), (layout.firsts, layout.lasts), ends, strict=True):
        if block is not None:
            tokens[places] += to_array(block, name or block_name, forbidding=True)
    return tokens, to_array(transitions, name or "transitions", forbidding=True)


def _weighted(solved: Solved, weights: Vector, layout: Layout) -> tuple[Table, Table]:
    """Return the derivatives of a weighted sum of values."""
    tokens = solved.tokens * np.repeat(weights, np.diff(layout.offsets))[:, None]
    return tokens, np.tensordot(weights, solved.pairs, 1)


def _expected(solved: Solved, tokens: Table, pairs: Table, layout: Layout) -> Vector:
    """Return the product of the derivatives of each sequence with numbers of tokens and pairs."""
    own, both = shared(solved.tokens, tokens).sum(axis=1), shared(solved.pairs, pairs).sum(axis=(1, 2))
    return both + sums_by(layout.owners, own, layout.shape[0])


class _Slopes(torch.autograd.Function):
    """Derivatives of weighted values; their own derivatives are products with second derivatives."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, *arguments: Any) -> tuple[Tensor | None, ...]:
        *blocks, ctx.problem, ctx.solved = arguments
        ctx.save_for_backward(weights, *blocks)
        layout = ctx.problem.layout
        return tuple(_spread(layout, *_weighted(ctx.solved, to_array(weights, "grad_output"), layout), blocks))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *directions: Tensor | None) -> tuple[Tensor | None, ...]:
        weights, *blocks = ctx.saved_tensors
        layout, scores = ctx.problem.layout, chain_arrays(ctx.problem.layout, blocks)
        along = chain_arrays(layout, directions, "direction")
        tokens, pairs = ctx.problem.curve(*scores, to_array(weights, "grad_output"), *along)
        slope = to_tensor(_expected(ctx.solved, *along, layout), weights)
        return slope, *_spread(layout, tokens, pairs, blocks), None, None


class _Values(torch.autograd.Function):
    """Values of a problem; their derivatives are differentiable once more."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *blocks, ctx.problem = arguments
        ctx.solved = ctx.problem.solve(*chain_arrays(ctx.problem.layout, blocks))
        ctx.save_for_backward(*blocks)
        return torch.from_numpy(ctx.solved.values).to(blocks[0].device, loss_dtype(*blocks))

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        return *_Slopes.apply(weights, *ctx.saved_tensors, ctx.problem, ctx.solved), None


class _Expectations(torch.autograd.Function):
    """Expectations of functions of labelings; their derivatives by the scores are covariances."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *blocks, ctx.problem = arguments
        layout = ctx.problem.layout
        ctx.solved = ctx.problem.solve(*chain_arrays(layout, blocks[:4]))
        ctx.save_for_backward(*blocks)
        values = _expected(ctx.solved, *chain_arrays(layout, blocks[4:], "function"), layout)
        return torch.from_numpy(values).to(blocks[0].device, loss_dtype(*blocks))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        blocks, layout = ctx.saved_tensors, ctx.problem.layout
        scale, scores = to_array(weights, "grad_output"), chain_arrays(layout, blocks[:4])
        # Labels and transitions that are forbidden have no covariance.
        along = (np.where(np.isfinite(part), part, 0.0) for part in chain_arrays(layout, blocks[4:], "function"))
        tokens, pairs = ctx.problem.curve(*scores, scale, *along)
        counts = _weighted(ctx.solved, scale, layout)
        return *_spread(layout, tokens, pairs, blocks[:4]), *_spread(layout, *counts, blocks[4:]), None


Blocks = tuple[Tensor, Tensor, Tensor | None, Tensor | None]
"""Emissions (B, T, S), transitions (S, S), and scores (S,) of the first and of the last label."""


def chain_values(blocks: Blocks, problem: ChainProblem) -> Tensor:
    """Return the values (B,) of a problem, differentiable twice at a single temperature above 0."""
    return _Values.apply(*blocks, problem)


def chain_expectations(blocks: Blocks, function: Blocks, layout: Layout) -> Tensor:
    """Return E[f(y)] (B,) of functions f like the score, for p(y) ∝ exp s(y)."""
    return _Expectations.apply(*blocks, *function, ChainProblem(layout, [Pool(Temperature(1.0, 1.0))]))
