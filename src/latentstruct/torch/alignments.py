"""Global alignments of two sequences with affine gaps, on scores of a network."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices
from latentstruct.exceptions import Description, InputError
from latentstruct.inference.forests import Forests
from latentstruct.tasks.alignment.paths import ANY, DELETE, FREE, INSERT, MATCH, all_paths
from latentstruct.torch.distributions import PartDistribution
from latentstruct.torch.forest_structure import ForestStructure
from latentstruct.torch.losses import named_part_loss
from latentstruct.torch.parts import structured_loss
from latentstruct.torch.tensors import check_lengths, check_tensor, integers, reduce_losses

UNKNOWN, GAP, PADDING = -1, -2, -100
_all_paths = lru_cache(maxsize=128)(all_paths)


class AlignmentStructure(ForestStructure):
    """Global alignments with affine gaps.

    Parts are the matches, in the order of scores (B, M, N), then the first positions of gaps, (B,), and their further
    positions, (B,).

    Parameters
    ----------
    partners : ndarray of int of shape (B, M)
        What is known: the position of the second sequence that each one of the first is matched with, −2 if none, −1 if
        unknown.
    first, second : ndarray of int of shape (B,)
        Lengths of the sequences.
    width : int
        N, at least all of `second`.
    """

    def __init__(self, partners: NDArray[np.int64], first: Indices, second: Indices, width: int) -> None:
        count, height = partners.shape
        paths = [_all_paths(m, n) for m, n in zip(first.tolist(), second.tolist(), strict=True)]
        if not paths:
            raise InputError("scores", Description("an empty batch"), "at least one pair of sequences")
        example = np.repeat(np.arange(count), [len(path.state) for path in paths])
        state, row, column, gap = (np.concatenate([path[k] for path in paths]) for k in (1, 2, 3, 4))
        matched, gapped = np.flatnonzero((state == MATCH) & (row >= 0)), np.flatnonzero(gap != FREE)
        self.matches_at = (example * height + row)[matched], column[matched]
        size = count * height * width
        known = np.where(row >= 0, partners[example, row], UNKNOWN)
        wrong = (known != UNKNOWN) & np.where(state == MATCH, known != column, (state == DELETE) & (known != GAP))
        wrong[(state == INSERT) | (state == ANY)] = False
        super().__init__(
            Forests.joined([path.forest for path in paths]),
            np.concatenate([matched, gapped]),
            np.concatenate(
                [self.matches_at[0] * width + self.matches_at[1], size + gap[gapped] * count + example[gapped]]
            ),
            np.concatenate([np.repeat(np.arange(count), height * width), np.tile(np.arange(count), 2)]),
            wrong.astype(np.float64),
            ~wrong,
        )
        self.matched = matched


class AlignmentDistribution(PartDistribution):
    """Distribution p(y) ∝ exp s(y) of global alignments of two sequences.

    The score of an alignment is the sum of those of its matches, and for each gap of k positions
    gap_open + (k − 1)·gap_extend.

    Parameters
    ----------
    scores : Tensor of shape (B, M, N)
        Scores of matches; −inf forbids one.
    gap_open, gap_extend : Tensor of shape () or (B,)
        Scores of the first position of a gap and of each further one, usually negative.
    first, second : Tensor of int of shape (B,), optional
        Lengths of the sequences, by default M and N.

    See Also
    --------
    AlignmentLoss : Losses with learned gap scores.

    Notes
    -----
    An alignment is a tensor (M,) with the partner of each position of the first sequence, −2 for those without one and
    −100 beyond its length. `log_prob` takes −1 for what is unknown.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import AlignmentDistribution
    >>> pair = AlignmentDistribution(torch.eye(3)[None] * 4, torch.tensor(-2.0), torch.tensor(-1.0))
    >>> pair.argmax
    tensor([[0, 1, 2]])
    """

    def __init__(
        self,
        scores: Tensor,
        gap_open: Tensor,
        gap_extend: Tensor,
        first: Tensor | None = None,
        second: Tensor | None = None,
    ) -> None:
        self._blocks, self._gaps = scores, (gap_open, gap_extend)
        self._lengths = _lengths(scores, first, second)
        _parts(scores, gap_open, gap_extend)
        unknown = np.full(self._blocks.shape[:2], UNKNOWN)
        self._structure = AlignmentStructure(unknown, *self._lengths, self._blocks.shape[2])

    @property
    def _scores(self) -> Tensor:
        return _parts(self._blocks, *self._gaps)

    @property
    def marginals(self) -> Tensor:
        """Return the probabilities of matches, (B, M, N)."""
        return self._part_marginals[: self._blocks.numel()].reshape(self._blocks.shape)

    def _outputs(self, used: NDArray[np.uint8]) -> Tensor:
        assert isinstance(self._structure, AlignmentStructure)
        shape = self._blocks.shape[:2]
        found = np.full((len(used), *shape), GAP, dtype=np.int64)
        found[:, np.arange(shape[1]) >= self._lengths[0][:, None]] = PADDING
        places, columns = self._structure.matches_at
        draw, edge = np.nonzero(used[:, self._structure.matched])
        found.reshape(len(used), -1)[draw, places[edge]] = columns[edge]
        return torch.from_numpy(found).to(self._scores.device)

    def _known(self, outputs: Tensor) -> ForestStructure:
        known = _known_partners(outputs, self._blocks, self._lengths[0])
        return AlignmentStructure(known, *self._lengths, self._blocks.shape[2])

    def _per_output(self, flags: Tensor) -> Tensor:
        return flags[:, None]

    def _same_outputs(self, other: Any) -> bool:
        return self._blocks.shape == other._blocks.shape and np.array_equal(self._lengths, other._lengths)


class AlignmentLoss(nn.Module):
    """Loss of global alignments on scores of matches, with learned scores of gaps.

    Parameters
    ----------
    loss : {"crf", "hinge", "latent_hinge"} or Temperature, default="crf"
        As in `ChainLoss`; both temperatures must be equal.
    margin : float, optional
        Cost of a position of the first sequence with a wrong partner; by default 1, and 0 for "crf".

    Attributes
    ----------
    gap_open, gap_extend : Parameter of shape ()
        Scores of the first position of a gap and of each further one.

    See Also
    --------
    AlignmentDistribution : Marginals, samples, the k best alignments and entropy.
    latentstruct.Alignment : The same structure on features.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import AlignmentLoss
    >>> scores = torch.zeros(1, 3, 4, requires_grad=True)
    >>> partners = torch.tensor([[0, -1, 3]])  # −1 is unknown, −2 would be a gap
    >>> AlignmentLoss()(scores, partners).backward()
    """

    def __init__(self, loss: str | Temperature = "crf", margin: float | None = None) -> None:
        super().__init__()
        self.loss = loss
        self.temperature, self.margin = named_part_loss(loss, margin)
        self.gap_open, self.gap_extend = nn.Parameter(torch.tensor(-1.0)), nn.Parameter(torch.tensor(-0.5))

    def forward(
        self,
        scores: Tensor,
        partners: Tensor,
        first: Tensor | None = None,
        second: Tensor | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        scores : Tensor of shape (B, M, N)
            Scores of matches.
        partners : Tensor of int of shape (B, M)
            The position of the second sequence that each one of the first is matched with, −2 if none, −1 if unknown.
        first, second : Tensor of int of shape (B,), optional
            Lengths of the sequences, by default M and N.
        reduction : {"none", "sum", "mean", "token_mean"}, default="mean"
            As in `ChainLoss`; tokens are positions of the first sequence.
        """
        lengths = _lengths(scores, first, second)
        known = _known_partners(partners, scores, lengths[0])
        if self.loss == "hinge" and (known == UNKNOWN).any():
            raise InputError(
                "partners", Description("unknown partners"), "known for loss='hinge'", "Use 'latent_hinge'."
            )
        structure = AlignmentStructure(known, *lengths, scores.shape[2])
        losses = structured_loss(
            structure, _parts(scores, self.gap_open, self.gap_extend), self.temperature, self.margin
        )
        return reduce_losses(losses, reduction, int(lengths[0].sum()))

    def distribution(
        self, scores: Tensor, first: Tensor | None = None, second: Tensor | None = None
    ) -> AlignmentDistribution:
        """Return the distribution of alignments at temperature 1; its `argmax` is the prediction."""
        return AlignmentDistribution(scores, self.gap_open, self.gap_extend, first, second)


def _lengths(scores: Tensor, first: Tensor | None, second: Tensor | None) -> tuple[Indices, Indices]:
    """Return the lengths of both sequences; raise InputError if they or the scores cannot be used."""
    check_tensor(scores, "scores", (None, None, None), "of shape (B, M, N)")
    count, height, width = scores.shape
    return check_lengths(first, count, height, "first"), check_lengths(second, count, width, "second")


def _parts(scores: Tensor, gap_open: Tensor, gap_extend: Tensor) -> Tensor:
    """Return the scores of matches, and of first and further positions of gaps of each pair."""
    gaps, count = [], scores.shape[0]
    for name, gap in (("gap_open", gap_open), ("gap_extend", gap_extend)):
        if not isinstance(gap, Tensor) or gap.shape not in ((), (count,)) or not gap.is_floating_point():
            raise InputError(name, gap, f"a floating-point tensor of shape () or {(count,)}")
        gaps.append(gap.to(scores.device).expand(count))
    return torch.cat([scores.reshape(-1), *gaps])


def _known_partners(partners: Any, scores: Tensor, first: Indices) -> NDArray[np.int64]:
    """Return the known partners, those beyond the first sequence as gaps."""
    expected = "−2 (no partner), −1 (unknown), −100 (beyond the sequence)"
    given = integers(partners, "partners", tuple(scores.shape[:2]), PADDING, scores.shape[2], expected).copy()
    given[np.arange(given.shape[1]) >= first[:, None]] = GAP
    for wrong in given[given < GAP][:1].tolist():
        raise InputError("partners", wrong, f"numbers from 0 to {scores.shape[2] - 1}, or {expected}")
    return given
