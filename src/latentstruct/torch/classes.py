"""Losses of classes whose evidence is one of several instances, boxes or parts."""

import numpy as np
import torch
from torch import Tensor, nn

from latentstruct.core.protocols import Temperature
from latentstruct.exceptions import Description, InputError
from latentstruct.torch.losses import named_part_loss
from latentstruct.torch.tensors import HALVES, check_tensor, integers, reduce_losses


def pool_instances(scores: Tensor, bags: Tensor, n_bags: int, temperature: float) -> Tensor:
    """Return the maximum at a temperature of the scores (N, C) of the instances of each bag, (B, C)."""
    index = bags[:, None].expand_as(scores)
    empty = scores.new_full((n_bags, scores.shape[1]), -np.inf)
    highest = empty.scatter_reduce(0, index, scores, "amax")
    if temperature == 0:
        return highest
    # The derivative does not depend on what is subtracted; −inf − −inf is not a number.
    shift = highest.detach().clamp(min=torch.finfo(scores.dtype).min)
    exponentials = ((scores - shift[bags]) / temperature).exp()
    return shift + temperature * torch.zeros_like(shift).index_add(0, bags, exponentials).log()


class LatentClassLoss(nn.Module):
    """Loss of classes of bags of instances, of which an unknown one carries the evidence.

    The score of a class is the maximum of its scores over the instances of the bag, or their log-sum. Instances may be
    those of multiple-instance learning, boxes of an image, or states of a part.

    Parameters
    ----------
    loss : {"crf", "latent_hinge", "marginal"} or Temperature, default="crf"
        Pools at (ε_y, ε_h) over classes and instances: "crf" (1, 1) is a hidden CRF, "latent_hinge" (0, 0) a latent
        SVM, "marginal" (0, 1) sums over instances and maximizes over classes. Temperature(1, 0) without a margin is
        cross-entropy on maxima.
    margin : float, optional
        Cost of a wrong class; by default 1, and 0 for "crf".

    See Also
    --------
    latentstruct.LatentMulticlass : The same structure on features.

    Notes
    -----
    All operations are those of torch, on any device, and differentiable any number of times.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import LatentClassLoss
    >>> scores = torch.zeros(5, 3, requires_grad=True)  # five instances, three classes
    >>> bags = torch.tensor([0, 0, 0, 1, 1])
    >>> LatentClassLoss()(scores, bags, torch.tensor([2, 0])).backward()
    """

    def __init__(self, loss: str | Temperature = "crf", margin: float | None = None) -> None:
        super().__init__()
        if loss == "hinge":
            raise InputError("loss", loss, "one for latent variables", "Use 'latent_hinge'.")
        self.loss = loss
        self.temperature, self.margin = named_part_loss(loss, margin, two_temperatures=True)

    def forward(self, scores: Tensor, bags: Tensor, classes: Tensor, reduction: str = "mean") -> Tensor:
        """Return the loss.

        Parameters
        ----------
        scores : Tensor of shape (N, C)
            Scores of classes of all instances; −inf excludes an instance from a class.
        bags : Tensor of int of shape (N,)
            The bag of each instance, from 0 to B − 1.
        classes : Tensor of int of shape (B,)
            The class of each bag.
        reduction : {"none", "sum", "mean", "token_mean"}, default="mean"
            One loss per bag, their sum or mean, or the sum divided by the number of instances.
        """
        n_bags = classes.shape[0] if isinstance(classes, Tensor) and classes.dim() == 1 else 0
        known = integers(classes, "classes", (n_bags,), 0, scores.shape[-1], "")
        pooled = self.class_scores(scores, bags, n_bags)
        truth = torch.from_numpy(known).to(pooled.device)
        rows = torch.arange(n_bags, device=pooled.device)
        costs = torch.full_like(pooled, self.margin)
        costs[rows, truth] = 0.0
        output, everything = self.temperature.output, pooled + costs
        if output == 0:
            best = everything.max(dim=1).values
        else:
            best = output * torch.logsumexp(everything / output, dim=1)
        losses = best - pooled[rows, truth]
        if not torch.isfinite(losses).all():
            raise InputError(
                "scores", Description("no instance for the class of a bag"), "finite for one instance each"
            )
        return reduce_losses(losses, reduction, len(scores))

    def class_scores(self, scores: Tensor, bags: Tensor, n_bags: int) -> Tensor:
        """Return the pooled scores of classes of bags, (B, C), of which the highest one is the prediction."""
        check_tensor(scores, "scores", (None, None), "of shape (N, C)")
        if torch.isnan(scores).any() or (scores == np.inf).any():
            raise InputError("scores", Description("NaN or infinite scores"), "finite, or −inf for what is excluded")
        given = integers(bags, "bags", (len(scores),), 0, max(n_bags, 1), "")
        for empty in np.flatnonzero(np.bincount(given, minlength=n_bags) == 0)[:1].tolist():
            raise InputError("bags", Description(f"no instance of bag {empty}"), "at least one instance per bag")
        # Sums of exponentials need the range of float32.
        real = scores.float() if scores.dtype in HALVES else scores
        return pool_instances(real, torch.from_numpy(given).to(scores.device), n_bags, self.temperature.latent)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"loss={self.loss!r}, margin={self.margin}"
