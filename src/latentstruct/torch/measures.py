"""Losses of a whole minibatch of two classes: F1, area under the ROC curve, average precision and others."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.measure.set_losses import SetLoss, TwoClasses
from latentstruct.tasks.measure.task import MEASURES
from latentstruct.torch.tensors import check_tensor, loss_dtype, shape_of, to_array, to_tensor


class _SetHinge(torch.autograd.Function):
    """The highest loss and score of an output of the set, minus the score of the true one."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, loss: SetLoss, classes: TwoClasses) -> Tensor:
        values = to_array(scores, "scores")
        coefficients, lost = loss.augmented(classes, values)
        slope = coefficients - loss.clamped(classes)
        ctx.save_for_backward(to_tensor(slope, scores))
        return torch.tensor(lost + float(slope @ values), dtype=loss_dtype(scores), device=scores.device)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return weight.to(slope.dtype) * slope, None, None


class MeasureLoss(nn.Module):
    """Structural hinge loss of a measure of a whole minibatch, an upper bound of 1 minus the measure.

    Parameters
    ----------
    measure : {"f1", "fbeta", "rocarea", "average_precision", "prbep", "precision@k", "recall@k", "error"}, default="f1"
        The measure.
    beta : float, default=1.0
        β of "fbeta".
    k : int or float, optional
        Number or share of the examples of "precision@k" and "recall@k".

    See Also
    --------
    latentstruct.Measure : The same losses on features, with certified optima.

    Notes
    -----
    The loss of a minibatch is not an unbiased estimate of that of all examples: use minibatches that are large enough
    to have several positive examples. The loss is piecewise linear; its second derivative raises an error.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import MeasureLoss
    >>> scores = torch.zeros(6, requires_grad=True)
    >>> MeasureLoss("rocarea")(scores, torch.tensor([1, 0, 0, 1, 0, 0])).backward()
    """

    def __init__(self, measure: str = "f1", beta: float = 1.0, k: float | None = None) -> None:
        super().__init__()
        if measure not in MEASURES:
            raise InputError("measure", measure, f"one of {', '.join(map(repr, MEASURES))}")
        if measure in ("precision@k", "recall@k") and k is None:
            raise InputError("k", None, f"a number or a share of examples for measure={measure!r}")
        self.measure, self._loss = measure, MEASURES[measure](beta, k)

    def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a minibatch.

        Parameters
        ----------
        scores : Tensor of shape (n,)
            Scores of the positive class.
        targets : Tensor of bool or int of shape (n,)
            Which examples are positive (1 or True).
        """
        check_tensor(scores, "scores", (None,), "of shape (n,)")
        if not isinstance(targets, Tensor) or targets.shape != scores.shape or targets.is_floating_point():
            raise InputError(
                "targets", shape_of(targets), f"a boolean or integer tensor of shape {tuple(scores.shape)}"
            )
        if not ((targets == 0) | (targets == 1)).all():
            raise InputError("targets", Description("other numbers"), "0 or 1")
        truth = targets.bool().cpu().numpy()
        if truth.all() or not truth.any():
            got = Description(f"{len(truth)} targets of one class")
            raise InputError("targets", got, "of both classes", "Use larger minibatches, or sample them by class.")
        return _SetHinge.apply(scores, self._loss, self._loss.prepared(TwoClasses.of(truth)))

    def extra_repr(self) -> str:
        """Return the arguments."""
        return repr(self.measure)
