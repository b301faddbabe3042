"""Losses of outputs that are found by a program: any solver of max_y ⟨s, y⟩."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from latentstruct.core.types import Vector
from latentstruct.exceptions import Description, InputError
from latentstruct.inference.sparse_map import sparse_mixture
from latentstruct.torch.tensors import check_tensor, loss_dtype, reduce_losses, to_array, to_tensor

Table = NDArray[np.float64]
Program = Callable[[Vector], Any]
"""Returns a maximizer y (d,) of ⟨s, y⟩ among the outputs, given s (d,)."""


def _answer(program: Program, scores: Vector) -> Vector:
    """Return the output that a program chooses; raise InputError if it has another shape."""
    found = np.asarray(program(scores.copy()), dtype=np.float64)
    if found.shape != scores.shape or not np.isfinite(found).all():
        raise InputError(
            "program", Description(f"an output of shape {found.shape}"), f"one that returns {scores.shape}"
        )
    return found


class _Linear(torch.autograd.Function):
    """Values with known derivatives by the scores, (B,) and (B, d)."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, values: Vector, slopes: Table) -> Tensor:
        ctx.save_for_backward(to_tensor(slopes, scores))
        return torch.from_numpy(values).to(scores.device, loss_dtype(scores))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        (slopes,) = ctx.saved_tensors
        return weights.to(slopes.dtype)[:, None] * slopes, None, None


class _BlackBox(torch.autograd.Function):
    """Outputs of a program; derivatives are differences of outputs at interpolated scores."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, program: Program, strength: float) -> Tensor:
        ctx.program, ctx.strength, ctx.scores = program, strength, to_array(scores, "scores")
        ctx.found = np.stack([_answer(program, row) for row in ctx.scores])
        return to_tensor(ctx.found, scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        moved = ctx.scores - ctx.strength * to_array(slopes, "grad_output")
        others = np.stack([_answer(ctx.program, row) for row in moved])
        return to_tensor((ctx.found - others) / ctx.strength, slopes), None, None


class ProgramLoss(nn.Module):
    """Loss of outputs that are chosen by a program, a solver of max_y ⟨s, y⟩ for scores s of a network.

    Parameters
    ----------
    program : callable
        Returns a maximizer y (d,) of ⟨s, y⟩ among the outputs, given an array s (d,).
    method : {"sparsemap", "perturbed", "spo+", "blackbox"}, default="sparsemap"
        - "sparsemap": max_{y in the convex hull} ⟨s, y⟩ − ½|y|², minus the same of the true output;
        - "perturbed": the Fenchel–Young loss of perturbed scores, E max_y ⟨s + σZ, y⟩ − ⟨s, y_true⟩ up to a constant;
        - "spo+": an upper bound of the regret of decisions by s, where targets are the true *scores*;
        - "blackbox": half of the squared distance of the chosen output, differentiated by interpolation.
    sigma : float, default=1.0
        Standard deviation of the normal perturbations of "perturbed".
    n_samples : int, default=16
        Number of perturbations per example.
    strength : float, default=10.0
        Interpolation λ of "blackbox".
    tolerance : float, default=1e-6
        Relative gap at which "sparsemap" stops.
    max_outputs : int, default=1000
        Maximum number of calls of the program per example for "sparsemap".

    See Also
    --------
    latentstruct.ExampleTask : Structural SVMs with such a program.

    References
    ----------
    V. Niculae, A. Martins, M. Blondel, C. Cardie: SparseMAP: differentiable sparse structured inference, ICML 2018.
    Q. Berthet et al.: Learning with differentiable perturbed optimizers, NeurIPS 2020.
    A. Elmachtoub, P. Grigas: Smart "predict, then optimize", Management Science 2022.
    M. Vlastelica et al.: Differentiation of blackbox combinatorial solvers, ICLR 2020.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from latentstruct.torch import ProgramLoss
    >>> def two_highest(scores):
    ...     return (scores >= np.sort(scores)[-2]).astype(float)
    >>> scores = torch.tensor([[1.0, 2.0, 0.0, 0.5]], requires_grad=True)
    >>> ProgramLoss(two_highest)(scores, torch.tensor([[1.0, 0.0, 1.0, 0.0]])).backward()
    """

    def __init__(
        self,
        program: Program,
        method: str = "sparsemap",
        sigma: float = 1.0,
        n_samples: int = 16,
        strength: float = 10.0,
        tolerance: float = 1e-6,
        max_outputs: int = 1000,
    ) -> None:
        super().__init__()
        methods = ("sparsemap", "perturbed", "spo+", "blackbox")
        if method not in methods:
            raise InputError("method", method, f"one of {', '.join(map(repr, methods))}")
        if not callable(program):
            raise InputError("program", program, "a function of scores (d,)")
        for name, value in (("sigma", sigma), ("strength", strength), ("tolerance", tolerance)):
            if not 0 < value < np.inf:
                raise InputError(name, value, "a number above 0")
        for name, value in (("n_samples", n_samples), ("max_outputs", max_outputs)):
            if not isinstance(value, int) or value < 1:
                raise InputError(name, value, "an integer of at least 1")
        self.program, self.method, self.sigma, self.n_samples = program, method, sigma, n_samples
        self.strength, self.tolerance, self.max_outputs = strength, tolerance, max_outputs

    def forward(
        self, scores: Tensor, targets: Tensor, reduction: str = "mean", generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        scores : Tensor of shape (B, d)
            Scores of parts of outputs.
        targets : Tensor of shape (B, d)
            The true outputs, or the true scores for "spo+".
        reduction : {"none", "sum", "mean", "token_mean"}, default="mean"
            One loss per example, their sum or mean, or the sum divided by the number of parts.
        generator : torch.Generator, optional
            Source of the perturbations, by default that of torch.
        """
        check_tensor(scores, "scores", (None, None), "of shape (B, d)")
        check_tensor(targets, "targets", tuple(scores.shape), f"of shape {tuple(scores.shape)}")
        truth = to_array(targets, "targets")
        if self.method == "blackbox":
            found = _BlackBox.apply(scores, self.program, self.strength)
            losses = 0.5 * (found - targets.to(found)).square().sum(dim=1)
        else:
            given = to_array(scores, "scores")
            values, slopes = np.empty(len(given)), np.empty_like(given)
            for k, (row, own) in enumerate(zip(given, truth, strict=True)):
                values[k], slopes[k] = self._value_and_slope(row, own, generator)
            losses = _Linear.apply(scores, values, slopes)
        return reduce_losses(losses, reduction, scores.numel())

    def _value_and_slope(
        self, scores: Vector, truth: Vector, generator: torch.Generator | None
    ) -> tuple[float, Vector]:
        """Return the loss of one example and its derivatives."""
        if self.method == "sparsemap":
            point = sparse_mixture(lambda s: _answer(self.program, s), scores, self.tolerance, self.max_outputs)
            value = scores @ (point - truth) - 0.5 * (point @ point - truth @ truth)
            return float(value), point - truth
        if self.method == "spo+":
            best, other = _answer(self.program, truth), _answer(self.program, 2.0 * scores - truth)
            value = (2.0 * scores - truth) @ (other - best)
            return float(value), 2.0 * (other - best)
        size = (self.n_samples, len(scores))
        moved = scores + self.sigma * torch.randn(size, dtype=torch.float64, generator=generator).numpy()
        outputs = np.stack([_answer(self.program, row) for row in moved])
        return float((moved * outputs).sum() / self.n_samples - scores @ truth), outputs.mean(axis=0) - truth

    def predict(self, scores: Tensor) -> Tensor:
        """Return the outputs (B, d) that the program chooses."""
        check_tensor(scores, "scores", (None, None), "of shape (B, d)")
        return to_tensor(np.stack([_answer(self.program, row) for row in to_array(scores, "scores")]), scores)
