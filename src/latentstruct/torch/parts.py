"""Losses on scores of parts, for all structures: values forward, expected parts backward."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, Vector, sums_by
from latentstruct.exceptions import Description, InputError
from latentstruct.torch.tensors import check_tensor, loss_dtype, to_array, to_tensor

ONE = Temperature(1.0, 1.0)


class PartSums(NamedTuple):
    """Values (n,) of examples, and their derivatives by the scores of parts, (P,)."""

    values: Vector
    counts: Vector


class PartStructure(Protocol):
    """Examples whose outputs are sets of parts; the score of an output is the sum of those of its parts.

    `owners` (P,) is the example of each part. Implementations are `AlignmentStructure`, `GraphStructure` and
    `TreeStructure`.
    """

    n_examples: int
    owners: Indices

    def pool(self, scores: Vector, temperature: Temperature, margin: float, known: bool) -> PartSums:
        """Pool all outputs, with margin times their losses, or those that agree with what is known."""

    def curve(
        self, scores: Vector, temperature: Temperature, margin: float, known: bool, weights: Vector, direction: Vector
    ) -> Vector:
        """Return the weighted second derivatives of a pool times a direction (P,); NotImplementedError if unknown."""


class _Pools(NamedTuple):
    """What is pooled: everything, and minus what agrees with what is known if that is `compared`."""

    structure: PartStructure
    temperature: Temperature
    margin: float
    compared: bool

    def solve(self, scores: Vector) -> PartSums:
        values, counts = self.structure.pool(scores, self.temperature, self.margin, False)
        if self.compared:
            known = self.structure.pool(scores, self.temperature, 0.0, True)
            values, counts = values - known.values, counts - known.counts
        for k in np.flatnonzero(~np.isfinite(values))[:1].tolist():
            got = Description(f"no output of example {k} that scores and known parts allow")
            raise InputError("scores", got, "scores that allow an output")
        return PartSums(values, counts)

    def curve(self, scores: Vector, weights: Vector, direction: Vector) -> Vector:
        found = self.structure.curve(scores, self.temperature, self.margin, False, weights, direction)
        if self.compared:
            found -= self.structure.curve(scores, self.temperature, 0.0, True, weights, direction)
        return found


def _along(pools: _Pools, counts: Vector, direction: Vector) -> Vector:
    """Return the derivative of each value in a direction; parts without a share may be forbidden."""
    products = np.multiply(counts, direction, out=np.zeros_like(counts), where=counts != 0)
    return sums_by(pools.structure.owners, products, pools.structure.n_examples)


class _Slopes(torch.autograd.Function):
    """Derivatives of weighted values."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, scores: Tensor, pools: _Pools, counts: Vector) -> Tensor:
        ctx.pools, ctx.counts = pools, counts
        ctx.save_for_backward(weights, scores)
        return to_tensor(counts * to_array(weights, "grad_output")[pools.structure.owners], scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, direction: Tensor) -> tuple[Tensor | None, ...]:
        weights, scores = ctx.saved_tensors
        along = to_array(direction, "direction")
        curved = ctx.pools.curve(to_array(scores, "scores", True), to_array(weights, "grad_output"), along)
        return to_tensor(_along(ctx.pools, ctx.counts, along), weights), to_tensor(curved, scores), None, None


class _Values(torch.autograd.Function):
    """Values of pools."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, pools: _Pools) -> Tensor:
        values, ctx.counts = pools.solve(to_array(scores, "scores", forbidding=True))
        ctx.pools = pools
        ctx.save_for_backward(scores)
        return torch.from_numpy(values).to(scores.device, loss_dtype(scores))

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        return _Slopes.apply(weights, *ctx.saved_tensors, ctx.pools, ctx.counts), None


class _Expectations(torch.autograd.Function):
    """Expected sums over parts; their derivatives by the scores are covariances."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, function: Tensor, pools: _Pools) -> Tensor:
        ctx.counts, ctx.pools = pools.solve(to_array(scores, "scores", forbidding=True)).counts, pools
        ctx.save_for_backward(scores, function)
        values = _along(pools, ctx.counts, to_array(function, "function", forbidding=True))
        return torch.from_numpy(values).to(scores.device, loss_dtype(scores, function))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        scores, function = ctx.saved_tensors
        scale, along = to_array(weights, "grad_output"), to_array(function, "function", forbidding=True)
        # What is forbidden has no covariance.
        along[~np.isfinite(along)] = 0.0
        curved = ctx.pools.curve(to_array(scores, "scores", True), scale, along)
        return to_tensor(curved, scores), to_tensor(ctx.counts * scale[ctx.pools.structure.owners], function), None


def structured_loss(
    structure: PartStructure, scores: Tensor, temperature: Temperature = ONE, margin: float = 0.0
) -> Tensor:
    """Return the pool of all outputs, with their losses, minus that of those that agree with what is known.

    Parameters
    ----------
    structure : PartStructure
        The examples and what is known of them, such as `TreeStructure`.
    scores : Tensor of shape (P,)
        Scores of all parts; −inf forbids a part.
    temperature : Temperature, default=(1, 1)
        ε_y and ε_h; (1, 1) is the negative log-likelihood, (0, 0) with a margin the (latent) hinge loss. Only
        `GraphStructure` supports two different ones.
    margin : float, default=0
        Factor of the losses of outputs.

    Returns
    -------
    Tensor of shape (n,)
        Losses, at least 0 where inference is exact. They are differentiable twice where the structure has a single
        temperature above 0; otherwise a second derivative raises NotImplementedError.

    See Also
    --------
    ChainLoss, TreeLoss, AlignmentLoss, GraphLoss : Modules of the structures.
    """
    _check(structure, scores, temperature, margin)
    return _Values.apply(scores, _Pools(structure, Temperature(*temperature), float(margin), True))


def pooled(structure: PartStructure, scores: Tensor) -> Tensor:
    """Return the log-sum of all outputs of each example, (n,)."""
    _check(structure, scores, ONE, 0.0)
    return _Values.apply(scores, _Pools(structure, ONE, 0.0, False))


def expected(structure: PartStructure, scores: Tensor, function: Tensor) -> Tensor:
    """Return the expectation of a sum over parts of each example, (n,)."""
    _check(structure, scores, ONE, 0.0)
    return _Expectations.apply(scores, function, _Pools(structure, ONE, 0.0, False))


def _check(structure: PartStructure, scores: Tensor, temperature: Temperature, margin: float) -> None:
    check_tensor(scores, "scores", (len(structure.owners),), f"of shape {(len(structure.owners),)}")
    if len(temperature) != 2 or not all(0 <= one < np.inf for one in temperature):
        raise InputError("temperature", tuple(temperature), "a pair of numbers of at least 0")
    if not 0 <= margin < np.inf:
        raise InputError("margin", margin, "a number of at least 0")
