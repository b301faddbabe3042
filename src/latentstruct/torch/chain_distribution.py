"""Distributions of labelings of chains."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latentstruct._native.chain import best_labelings, viterbi
from latentstruct._native.chain_distributions import sample_labelings
from latentstruct.core.protocols import Temperature
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.chain.batch import LINEAR_DOMAIN_SPREAD
from latentstruct.torch.chain_pools import (
    Blocks,
    ChainProblem,
    Layout,
    Pool,
    Table,
    chain_arrays,
    chain_expectations,
    chain_values,
)
from latentstruct.torch.chain_truth import SKIPPED, read_truth, without_skipped
from latentstruct.torch.tensors import check_mask, check_tensor

ONE = Temperature(1.0, 1.0)


class TopK(NamedTuple):
    """The k most probable outputs, best first, and their log-probabilities (k, B), −inf where there are fewer."""

    outputs: Tensor
    log_probs: Tensor


def best_labels(layout: Layout, scores: Table, transitions: Table) -> Tensor:
    """Return the best labels (B, T), −100 where there is no token."""
    labels, values = np.empty(layout.n_tokens, dtype=np.int64), np.empty(layout.shape[0])
    viterbi(scores, layout.offsets, transitions, labels, values)
    require_allowed(values)
    return torch.from_numpy(layout.scatter(labels, SKIPPED))


def require_allowed(values: NDArray[np.float64]) -> None:
    """Raise InputError if the best or pooled score of a sequence is −inf."""
    for k in np.flatnonzero(values == -np.inf)[:1].tolist():
        raise InputError("emissions", Description(f"no allowed labeling of sequence {k}"), "scores that allow one")


class ChainDistribution:
    """Distribution p(y) ∝ exp s(y) of labelings, s(y) = start(y_1) + Σ_t u_t(y_t) + Σ_t A[y_{t−1}, y_t] + end(y_T).

    Parameters
    ----------
    emissions : Tensor of shape (B, T, S)
        Scores of labels u; −inf forbids a label.
    transitions : Tensor of shape (S, S)
        Scores A of label pairs; −inf forbids a transition.
    start, end : Tensor of shape (S,), optional
        Scores of the first and of the last label.
    mask : Tensor of bool of shape (B, T), optional
        Where there are tokens, by default everywhere; it may have holes.

    See Also
    --------
    ChainLoss : Losses with learned transitions.

    Notes
    -----
    Log-partitions and log-probabilities are differentiable twice, marginals, entropies and divergences once.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import ChainDistribution
    >>> chain = ChainDistribution(torch.zeros(1, 3, 2), torch.zeros(2, 2))
    >>> round(chain.log_partition.exp().item(), 3)  # the number of labelings
    8.0
    >>> chain.topk(2).outputs.shape
    torch.Size([2, 1, 3])
    """

    def __init__(
        self,
        emissions: Tensor,
        transitions: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> None:
        check_tensor(emissions, "emissions", (None, None, None), "(B, T, S)")
        n = emissions.shape[2]
        check_tensor(transitions, "transitions", (n, n), f"of shape {(n, n)}")
        for name, block in (("start", start), ("end", end)):
            if block is not None:
                check_tensor(block, name, (n,), f"of shape {(n,)}")
        shape = (emissions.shape[0], emissions.shape[1])
        kept = None if mask is None else check_mask(mask, shape).cpu().numpy()
        self._kept, self._layout = kept, Layout.of(shape, kept)
        self._blocks: Blocks = emissions, transitions, start, end
        self._pool = ChainProblem(self._layout, [Pool(ONE)])

    @property
    def log_partition(self) -> Tensor:
        """Return log Σ_y exp s(y), (B,)."""
        return chain_values(self._blocks, self._pool)

    @property
    def marginals(self) -> Tensor:
        """Return the probabilities of the labels of each token, (B, T, S); 0 where there is no token."""
        emissions, *others = self._blocks
        with torch.enable_grad():
            if not emissions.requires_grad:
                emissions = emissions.detach().requires_grad_()
            value = chain_values((emissions, *others), self._pool).sum()  # type: ignore[arg-type]
            again = any(one is not None and one.requires_grad for one in self._blocks)
            return torch.autograd.grad(value, emissions, create_graph=again)[0]

    @property
    def argmax(self) -> Tensor:
        """Return the most probable labels, (B, T); −100 where there is no token."""
        return best_labels(self._layout, *chain_arrays(self._layout, self._blocks)).to(self._blocks[0].device)

    def topk(self, k: int) -> TopK:
        """Return the k most probable labelings (k, B, T), −100 where there is no token or no further labeling."""
        if not isinstance(k, int) or k < 1:
            raise InputError("k", k, "an integer of at least 1")
        layout = self._layout
        labels = np.full((k, layout.n_tokens), SKIPPED, dtype=np.int64)
        values = np.empty((k, layout.shape[0]))
        scores, transitions = chain_arrays(layout, self._blocks)
        best_labelings(scores, layout.offsets, transitions, labels, values)
        require_allowed(values[0])
        found, log_partition = self._padded(labels), self.log_partition
        missing = torch.from_numpy(values == -np.inf).to(log_partition.device)
        log_probs = [
            # A labeling that does not exist is replaced by the best one, and masked.
            self.log_prob(torch.where(absent[:, None], found[0], one)).masked_fill(absent, -np.inf)
            for one, absent in zip(found, missing, strict=True)
        ]
        return TopK(found, torch.stack(log_probs))

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Return n independent labelings (n, B, T), −100 where there is no token."""
        if not isinstance(n, int) or n < 0:
            raise InputError("n", n, "an integer of at least 0")
        layout = self._layout
        uniform = torch.rand(n, layout.n_tokens, dtype=torch.float64, generator=generator).numpy()
        labels = np.empty((n, layout.n_tokens), dtype=np.int64)
        scores, transitions = chain_arrays(layout, self._blocks)
        sample_labelings(scores, layout.offsets, transitions, 1.0, LINEAR_DOMAIN_SPREAD, uniform, labels)
        return self._padded(labels)

    def log_prob(self, labels: Tensor) -> Tensor:
        """Return the log-probability of labels (B, T), summed over those of unknown ones (−1); (B,)."""
        given = labels.detach().cpu().numpy()
        if given.shape != self._layout.shape:
            raise InputError("labels", Description(f"shape {given.shape}"), f"integers of shape {self._layout.shape}")
        layout = Layout.of(self._layout.shape, without_skipped(self._kept, given))
        if layout.n_tokens != self._layout.n_tokens:
            raise InputError(
                "labels", Description("−100 where there is a token"), "labels or −1 (unknown) for all tokens"
            )
        return -chain_values(self._blocks, read_truth(given, layout, self._blocks[0].shape[2]).problem(layout, ONE))

    @property
    def entropy(self) -> Tensor:
        """Return −Σ_y p(y) log p(y), (B,)."""
        return self.log_partition - chain_expectations(self._blocks, self._blocks, self._layout)

    def kl(self, other: "ChainDistribution") -> Tensor:
        """Return the divergence Σ_y p(y) log (p(y)/q(y)) from another distribution q of the same labelings, (B,)."""
        same = self._blocks[0].shape == other._blocks[0].shape
        if not same or not np.array_equal(self._layout.offsets, other._layout.offsets):
            got = Description(f"one of shape {tuple(other._blocks[0].shape)}")
            raise InputError("other", got, f"of shape {tuple(self._blocks[0].shape)} with the same mask")
        cross = chain_expectations(self._blocks, other._blocks, self._layout)
        return other.log_partition - cross - self.entropy

    def _padded(self, labels: NDArray[np.int64]) -> Tensor:
        rows = [self._layout.scatter(row, SKIPPED) for row in labels]
        found = np.stack(rows) if rows else np.empty((0, *self._layout.shape), dtype=np.int64)
        return torch.from_numpy(found).to(self._blocks[0].device)
