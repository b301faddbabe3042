"""Distributions of outputs that are sets of parts."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latentstruct.exceptions import Description, InputError
from latentstruct.torch.chain_distribution import TopK
from latentstruct.torch.forest_structure import ForestStructure
from latentstruct.torch.parts import expected, pooled, structured_loss
from latentstruct.torch.tensors import to_array


class PartDistribution:
    """Distribution p(y) ∝ exp s(y) of outputs y, whose score is a sum over parts.

    Subclasses translate between outputs and parts.
    """

    _structure: ForestStructure

    @property
    def _scores(self) -> Tensor:
        """Return the scores of parts, (P,), a new tensor so that each result can be differentiated on its own."""
        raise NotImplementedError

    @property
    def log_partition(self) -> Tensor:
        """Return log Σ_y exp s(y) of each example, (B,)."""
        return pooled(self._structure, self._scores)

    @property
    def argmax(self) -> Tensor:
        """Return the most probable output of each example."""
        return self._best(1)[1][0]

    def topk(self, k: int) -> TopK:
        """Return the k most probable outputs, with a first dimension of k."""
        if not isinstance(k, int) or k < 1:
            raise InputError("k", k, "an integer of at least 1")
        missing, found = self._best(k)
        log_probs = []
        for one, absent in zip(found, missing, strict=True):
            # An output that does not exist is replaced by the best one, and masked.
            chosen = torch.where(self._per_output(absent), found[0], one)
            log_probs.append(self.log_prob(chosen).masked_fill(absent, -np.inf))
        return TopK(found, torch.stack(log_probs))

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Return independent outputs, with a first dimension of n."""
        if not isinstance(n, int) or n < 0:
            raise InputError("n", n, "an integer of at least 0")
        seed = int(torch.randint(2**62, (), generator=generator))
        return self._outputs(self._structure.sample(self._array(), n, seed))

    def log_prob(self, outputs: Tensor) -> Tensor:
        """Return the log-probability of outputs, summed over what is unknown (−1) in them; (B,)."""
        return -structured_loss(self._known(outputs), self._scores)

    @property
    def entropy(self) -> Tensor:
        """Return −Σ_y p(y) log p(y), (B,)."""
        return self.log_partition - expected(self._structure, self._scores, self._scores)

    def kl(self, other: Any) -> Tensor:
        """Return the divergence Σ_y p(y) log (p(y)/q(y)) from another distribution q of the same outputs, (B,)."""
        if type(other) is not type(self) or not self._same_outputs(other):
            raise InputError(
                "other", Description(f"a {type(other).__name__} of other outputs"), "one of the same outputs"
            )
        cross = expected(self._structure, self._scores, other._scores)
        return other.log_partition - cross - self.entropy

    @property
    def _part_marginals(self) -> Tensor:
        """Return the probability of each part, (P,)."""
        with torch.enable_grad():
            scores = self._scores if self._scores.requires_grad else self._scores.detach().requires_grad_()
            value = pooled(self._structure, scores).sum()
            return torch.autograd.grad(value, scores, create_graph=self._scores.requires_grad)[0]

    def _array(self) -> NDArray[np.float64]:
        return to_array(self._scores, "scores", forbidding=True)

    def _best(self, k: int) -> tuple[Tensor, Tensor]:
        """Return which of the k best outputs are missing, (k, B), and the outputs."""
        values, used = self._structure.best(self._array(), k)
        for example in np.flatnonzero(values[0] == -np.inf)[:1].tolist():
            raise InputError("scores", Description(f"no allowed output of example {example}"), "scores that allow one")
        return torch.from_numpy(values == -np.inf).to(self._scores.device), self._outputs(used)

    def _outputs(self, used: NDArray[np.uint8]) -> Tensor:
        """Return the outputs of used edges, (k, E)."""
        raise NotImplementedError

    def _known(self, outputs: Tensor) -> ForestStructure:
        """Return the structure in which outputs are known."""
        raise NotImplementedError

    def _per_output(self, flags: Tensor) -> Tensor:
        """Return flags (B,) of examples, to be broadcast with outputs."""
        raise NotImplementedError

    def _same_outputs(self, other: Any) -> bool:
        """Return whether another distribution of the same type has the same outputs."""
        raise NotImplementedError
