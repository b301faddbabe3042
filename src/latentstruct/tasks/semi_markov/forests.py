"""All segmentations of sequences as derivations, for the best one of each loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.levels import LossLevels
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, split
from latentstruct.inference.forests import Forests
from latentstruct.planes.plane import Slopes
from latentstruct.tasks.semi_markov.kernels import SegmentScores


class SegmentEdges(NamedTuple):
    """The derivations of the segmentations of T tokens, and what their edges stand for.

    Items are the beginnings of segments at place b with label y, number 2nb + y for n labels, and the ends before
    place b with label y, number 2nb − n + y. The last item joins the ends before place T.
    """

    forest: Forests
    segments: tuple[Indices, ...]  # edges that are segments, with the first token, the one after the last, and label
    neighbors: tuple[Indices, ...]  # edges between segments, with the labels of both

    def values(self, parts: SegmentScores) -> Vector:
        """Return the values of the edges of one sequence by those of parts."""
        values = np.zeros(len(self.forest.losses))
        edges, first, stop, label = self.segments
        (token, no_token), (inside, no_inside) = map(_summed, (parts.token, parts.inside))
        values[edges] = token[stop, label] - token[first, label] + inside[stop] - inside[first + 1]
        blocked = (no_token[stop, label] > no_token[first, label]) | (no_inside[stop] > no_inside[first + 1])
        values[edges[blocked]] = -np.inf
        values[edges] += parts.begin[first] + parts.length[stop - first - 1, label]
        edges, before, after = self.neighbors
        values[edges] = parts.transition[before, after]
        return values


def _summed(values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the sums of all but the infinite values before each row, and the numbers of these."""
    blocked = np.isneginf(values)
    found = []
    for one in (np.where(blocked, 0.0, values), blocked.astype(np.float64)):
        found.append(np.zeros((len(one) + 1, *one.shape[1:])))
        np.cumsum(one, axis=0, out=found[-1][1:])
    return found


@lru_cache(maxsize=256)
def segment_edges(n_tokens: int, n: int, longest: int) -> SegmentEdges:
    """Return the derivations of the segmentations of a sequence with n labels."""
    # Edges are listed with their item, tail (−1: none), kind (1: segment, 2: neighbors), and what they stand for.
    label, blocks = np.arange(n), []
    if n_tokens:
        blocks.append(np.array([label, np.full(n, -1), *np.zeros((4, n), dtype=np.int64)]))
    for b in range(1, n_tokens + 1):
        y, size = (part.ravel() for part in np.meshgrid(label, np.arange(1, min(longest, b) + 1), indexing="ij"))
        ones, end = np.ones(len(y), dtype=np.int64), 2 * n * b - n
        blocks.append(np.array([end + y, 2 * n * (b - size) + y, ones, b - size, b * ones, y]))
        if b < n_tokens:
            after, before = (part.ravel() for part in np.meshgrid(label, label, indexing="ij"))
            nothing = np.zeros(n * n, dtype=np.int64)
            blocks.append(np.array([2 * n * b + after, end + before, nothing + 2, nothing, before, after]))
    last = 2 * n * n_tokens
    ends = last - n + label if n_tokens else np.array([-1])
    blocks.append(np.array([np.full(len(ends), last), ends, *np.zeros((4, len(ends)), dtype=np.int64)]))
    item, tail, kind, *meaning = np.concatenate(blocks, axis=1)
    forest = Forests(
        np.array([0, last + 1]),
        offsets_from_lengths(np.bincount(item, minlength=last + 1)),
        offsets_from_lengths(1 * (tail >= 0)),
        tail[tail >= 0],
        np.zeros(len(item), dtype=np.int64),
    )
    segments, neighbors = (np.flatnonzero(kind == wanted) for wanted in (1, 2))
    return SegmentEdges(
        forest,
        (segments, *(part[segments] for part in meaning)),
        (neighbors, *(part[neighbors] for part in meaning[1:])),
    )


@dataclass(frozen=True)
class SegmentForests:
    """The derivations of sequences laid end to end."""

    offsets: Indices
    edges: list[SegmentEdges]

    @classmethod
    def of(cls, offsets: Indices, n_labels: int, longest: int) -> "SegmentForests":
        """Return all segmentations of sequences with these offsets."""
        return cls(offsets, [segment_edges(length, n_labels, longest) for length in np.diff(offsets).tolist()])

    def scores_of(self, parts: SegmentScores) -> Vector:
        """Return the values of all edges by those of parts."""
        token, begin, inside = (split(part, self.offsets) for part in parts[:3])
        each = map(SegmentScores, token, begin, inside, repeat(parts.transition), repeat(parts.length))
        return np.concatenate([edges.values(own) for edges, own in zip(self.edges, each, strict=True)])

    def levels(
        self, scores: SegmentScores, losses: SegmentScores, unit: float, slopes: Callable[[Vector], Slopes]
    ) -> LossLevels:
        """Return the best segmentations of each loss; losses are integers, and `unit` is what 1 stands for."""
        forests = self.joined._replace(losses=np.rint(self.scores_of(losses)).astype(np.int64))
        most = losses.token.max(axis=1, initial=0.0) + np.maximum(losses.begin, losses.inside)
        n_levels = 1 + np.diff(np.append(0.0, np.cumsum(most))[self.offsets])
        rows = np.arange(len(self.edges))
        return forests.levels(rows, self.scores_of(scores), np.rint(n_levels).astype(np.int64), unit, slopes)

    @property
    def joined(self) -> Forests:
        """All forests together."""
        return Forests.joined([edges.forest for edges in self.edges])

    def shares(self, counts: Vector, segments: Sequence[Sequence[tuple[int, int, int]]]) -> list[Vector]:
        """Return the counts of the edges of given segments of each sequence, with numbers of labels."""
        sizes = offsets_from_lengths(len(edges.forest.losses) for edges in self.edges)
        found = []
        for edges, own, chosen in zip(self.edges, split(counts, sizes), segments, strict=True):
            places, *names = edges.segments
            by_name = dict(zip(zip(*(part.tolist() for part in names), strict=True), own[places].tolist(), strict=True))
            found.append(np.array([by_name[one] for one in chosen], dtype=np.float64))
        return found

    def tokens(self, used: NDArray[Any]) -> tuple[Indices, Indices]:
        """Return the label of each token and whether a segment begins there, by the edges that are used."""
        label, begin = np.zeros((2, self.offsets[-1]), dtype=np.int64)
        sizes = offsets_from_lengths(len(edges.forest.losses) for edges in self.edges)
        for edges, start, own in zip(self.edges, self.offsets[:-1], split(used, sizes), strict=True):
            taken = own[edges.segments[0]] > 0
            for first, stop, y in zip(*(part[taken].tolist() for part in edges.segments[1:]), strict=True):
                label[start + first : start + stop] = y
                begin[start + first] = 1
        return label, begin
