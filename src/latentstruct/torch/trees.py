"""Binary trees over words with labeled spans, on scores of a network."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, offsets_from_lengths
from latentstruct.exceptions import Description, InputError
from latentstruct.inference.forests import Forests
from latentstruct.torch.distributions import PartDistribution
from latentstruct.torch.forest_structure import ForestStructure
from latentstruct.torch.losses import named_part_loss
from latentstruct.torch.parts import structured_loss
from latentstruct.torch.tensors import check_lengths, check_tensor, integers, reduce_losses

UNKNOWN, ABSENT = -1, -2


class _Trees(NamedTuple):
    """All binary trees over n words with S labels, and the span (inclusive) and label of each edge."""

    forest: Forests
    start: Indices
    end: Indices
    label: Indices  # −1 for edges that divide a span


@lru_cache(maxsize=128)
def _all_trees(n: int, n_labels: int) -> _Trees:
    """Lay out two items per span, the shortest spans first: its label, and the label with the two parts of the span."""
    spans = [(i, i + width) for width in range(n) for i in range(n - width)]
    place = {span: k for k, span in enumerate(spans)}
    tails: list[int] = []
    lengths, counts, columns = [], [], []
    for i, j in spans:
        own = 2 * place[i, j]
        columns += [(i, j, label) for label in range(n_labels)]
        lengths += [0] * n_labels
        halves = [(2 * place[i, k] + 1, 2 * place[k + 1, j] + 1) for k in range(i, j)]
        parts: list[tuple[int, ...]] = [*halves] or [()]
        for part in parts:
            tails += (own, *part)
            lengths.append(1 + len(part))
            columns.append((i, j, -1))
        counts += [n_labels, len(parts)]
    start, end, label = np.array(columns, dtype=np.int64).reshape(-1, 3).T.copy()
    forest = Forests(
        np.array([0, 2 * len(spans)]),
        offsets_from_lengths(counts),
        offsets_from_lengths(lengths),
        np.array(tails, dtype=np.int64),
        np.zeros(len(label), dtype=np.int64),
    )
    return _Trees(forest, start, end, label)


class TreeStructure(ForestStructure):
    """Binary trees over words, whose spans have labels.

    Parts are the labels of spans, in the order of scores (B, T, T, S): words i … j, both inclusive, with a label.

    Parameters
    ----------
    spans : ndarray of int of shape (B, T, T)
        What is known: the label of the span i … j, −2 if there is none, −1 if unknown. Entries with i > j and beyond
        the lengths are not used.
    lengths : ndarray of int of shape (B,)
        Numbers of words.
    n_labels : int
        Number of labels, S.
    """

    def __init__(self, spans: NDArray[np.int64], lengths: NDArray[np.int64], n_labels: int) -> None:
        trees = [_all_trees(n, n_labels) for n in lengths.tolist()]
        if not trees:
            raise InputError("spans", Description("an empty batch"), "at least one sentence")
        size = spans.shape[1]
        example = np.repeat(np.arange(len(trees)), [len(tree.label) for tree in trees])
        start, end, label = (np.concatenate([tree[k] for tree in trees]) for k in (1, 2, 3))
        edges = np.flatnonzero(label >= 0)
        self.labels_at = ((example * size + start) * size + end)[edges], label[edges]
        known = _without_crossing(spans, lengths)[example, start, end]
        right = (known == UNKNOWN) | (known == label) | ((label < 0) & (known != ABSENT))
        super().__init__(
            Forests.joined([tree.forest for tree in trees]),
            edges,
            self.labels_at[0] * n_labels + self.labels_at[1],
            np.repeat(np.arange(len(trees)), size * size * n_labels),
            ((label >= 0) & ~right).astype(np.float64),
            right,
        )


def _without_crossing(spans: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the known labels of spans, where those that cross known spans are absent."""
    found = spans.copy()
    for b, n in enumerate(lengths.tolist()):
        if (spans[b, :n, :n] == UNKNOWN).any() or (spans[b, :n, :n] >= 0).any():
            i, j = np.triu_indices(n)
            own = spans[b, i, j]
            left, right, known = (i[own >= 0], j[own >= 0], own >= 0)
            crossing = ((i[:, None] < left) & (left <= j[:, None]) & (j[:, None] < right)) | (
                (left < i[:, None]) & (i[:, None] <= right) & (right < j[:, None])
            )
            crosses = crossing.any(axis=1)
            for k in np.flatnonzero(crosses & known)[:1].tolist():
                got = Description(f"the span {i[k]} … {j[k]}, which crosses another one")
                raise InputError(f"spans[{b}]", got, "spans of a tree")
            found[b, i[crosses], j[crosses]] = ABSENT
    return found


class TreeDistribution(PartDistribution):
    """Distribution p(y) ∝ exp s(y) of binary trees, whose score is the sum of those of their labeled spans.

    Parameters
    ----------
    scores : Tensor of shape (B, T, T, S)
        Scores of labels of the words i … j, both inclusive; −inf forbids one. Entries with i > j are not used.
    lengths : Tensor of int of shape (B,), optional
        Numbers of words, by default T.

    See Also
    --------
    ParsingLoss : Losses of trees.

    Notes
    -----
    A tree is a tensor (T, T) with the label of each of its 2T − 1 spans, −2 for all other spans. `log_prob` takes −1
    for what is unknown.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import TreeDistribution
    >>> round(TreeDistribution(torch.zeros(1, 4, 4, 1)).log_partition.exp().item(), 3)  # the number of trees
    5.0
    """

    def __init__(self, scores: Tensor, lengths: Tensor | None = None) -> None:
        self._blocks, self._lengths = _checked(scores, lengths)
        self._structure = TreeStructure(np.full(scores.shape[:3], UNKNOWN), self._lengths, scores.shape[3])

    @property
    def _scores(self) -> Tensor:
        return self._blocks.reshape(-1)

    @property
    def marginals(self) -> Tensor:
        """Return the probabilities of labeled spans, (B, T, T, S)."""
        return self._part_marginals.reshape(self._blocks.shape)

    def _outputs(self, used: NDArray[np.uint8]) -> Tensor:
        assert isinstance(self._structure, TreeStructure)
        shape = self._blocks.shape[:3]
        found = np.full((len(used), int(np.prod(shape))), ABSENT, dtype=np.int64)
        places, labels = self._structure.labels_at
        draw, edge = np.nonzero(used[:, self._structure.edges])
        found[draw, places[edge]] = labels[edge]
        return torch.from_numpy(found.reshape(len(used), *shape)).to(self._scores.device)

    def _known(self, outputs: Tensor) -> ForestStructure:
        return TreeStructure(_known_spans(outputs, self._blocks), self._lengths, self._blocks.shape[3])

    def _per_output(self, flags: Tensor) -> Tensor:
        return flags[:, None, None]

    def _same_outputs(self, other: Any) -> bool:
        return self._blocks.shape == other._blocks.shape and np.array_equal(self._lengths, other._lengths)


class ParsingLoss(nn.Module):
    """Loss of binary trees on scores of labeled spans.

    Parameters
    ----------
    loss : {"crf", "hinge", "latent_hinge"} or Temperature, default="crf"
        As in `ChainLoss`; both temperatures must be equal.
    margin : float, optional
        Cost of a predicted span that is not in the tree or has another label; by default 1, and 0 for "crf".

    See Also
    --------
    TreeDistribution : Marginals, samples, the k best trees and entropy.
    latentstruct.Parsing : Grammars on features.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import ParsingLoss
    >>> scores = torch.zeros(1, 3, 3, 2, requires_grad=True)
    >>> spans = torch.full((1, 3, 3), -1)  # unknown
    >>> spans[0, 0, 1] = 1  # words 0 and 1 are a constituent
    >>> ParsingLoss()(scores, spans).backward()
    """

    def __init__(self, loss: str | Temperature = "crf", margin: float | None = None) -> None:
        super().__init__()
        self.loss = loss
        self.temperature, self.margin = named_part_loss(loss, margin)

    def forward(self, scores: Tensor, spans: Tensor, lengths: Tensor | None = None, reduction: str = "mean") -> Tensor:
        """Return the loss.

        Parameters
        ----------
        scores : Tensor of shape (B, T, T, S)
            Scores of labels of the words i … j, both inclusive.
        spans : Tensor of int of shape (B, T, T)
            The label of each span of the tree, −2 for all other spans, −1 where unknown.
        lengths : Tensor of int of shape (B,), optional
            Numbers of words, by default T.
        reduction : {"none", "sum", "mean", "token_mean"}, default="mean"
            As in `ChainLoss`; tokens are words.
        """
        checked, sizes = _checked(scores, lengths)
        known = _known_spans(spans, scores)
        rows, columns = np.triu_indices(scores.shape[1])
        inside = columns < sizes[:, None]
        if self.loss == "hinge" and (inside & (known[:, rows, columns] == UNKNOWN)).any():
            raise InputError("spans", Description("unknown spans"), "known for loss='hinge'", "Use 'latent_hinge'.")
        structure = TreeStructure(known, sizes, scores.shape[3])
        losses = structured_loss(structure, checked.reshape(-1), self.temperature, self.margin)
        return reduce_losses(losses, reduction, int(sizes.sum()))


def _checked(scores: Tensor, lengths: Tensor | None) -> tuple[Tensor, NDArray[np.int64]]:
    """Return scores and lengths; raise InputError if they cannot be used."""
    check_tensor(scores, "scores", (None, None, None, None), "of shape (B, T, T, S)")
    if scores.shape[1] != scores.shape[2]:
        raise InputError("scores", Description(f"shape {tuple(scores.shape)}"), "of shape (B, T, T, S)")
    return scores, check_lengths(lengths, scores.shape[0], scores.shape[1])


def _known_spans(spans: Any, scores: Tensor) -> NDArray[np.int64]:
    return integers(spans, "spans", tuple(scores.shape[:3]), ABSENT, scores.shape[3], "−2 (no span), −1 (unknown)")
