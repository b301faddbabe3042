"""Sequences laid end to end, with what is known of their segments; parts of segmentations and their losses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Query
from latentstruct.kernels.planes import Atoms
from latentstruct.planes import Slopes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths, positions
from latentstruct.tasks.inputs import InputRows
from latentstruct.tasks.semi_markov.kernels import SegmentCounts, SegmentScores
from latentstruct.unknown import UNKNOWN

Segment = tuple[int, int, int]
"""First token, token after the last, and number of the label."""


class Known(NamedTuple):
    """What is known of each token: its label, and whether a segment begins there (1 or 0); −1 where unknown."""

    label: NDArray[np.int64]
    begin: NDArray[np.int64]

    @classmethod
    def of(cls, segments: Sequence[Sequence[Segment]], offsets: Indices) -> "Known":
        """Return what segments tell, which need not cover their sequence."""
        label = np.full(offsets[-1], UNKNOWN, dtype=np.int64)
        begin = label.copy()
        begin[offsets[:-1][np.diff(offsets) > 0]] = 1
        for found, start, end in zip(segments, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            for first, stop, number in found:
                label[start + first : start + stop] = number
                begin[start + first + 1 : start + stop] = 0
                begin[start + first] = 1
                if start + stop < end:
                    begin[start + stop] = 1
        return cls(label, begin)


@dataclass
class SegmentBatch:
    """All tokens of all sequences, flat."""

    inputs: InputRows
    offsets: Indices
    known: Known | None

    @property
    def n_examples(self) -> int:
        """Number of sequences."""
        return len(self.offsets) - 1

    @property
    def labelled(self) -> bool:
        """Whether segments are given."""
        return self.known is not None

    def tokens(self, query: Query) -> tuple[Indices | None, Indices]:
        """Return the tokens of the sequences of a query (None for all), and the offsets of these sequences."""
        return (None, self.offsets) if query.rows is None else positions(self.offsets, query.rows)

    def known_of(self, query: Query) -> Known:
        """Return what is known of the tokens of a query."""
        assert self.known is not None
        tokens, _ = self.tokens(query)
        return self.known if tokens is None else Known(*(part[tokens] for part in self.known))


@dataclass
class SegmentParts:
    """Parts of segmentations: labels of tokens, beginnings, neighbors and lengths of segments.

    Weights are n·S of the tokens, S² of transitions (from, to) and L·S of lengths.
    """

    batch: SegmentBatch
    n_inputs: int
    n_labels: int
    longest: int

    @property
    def starts(self) -> tuple[int, int, int]:
        """Where the weights of transitions and lengths begin, and where those of lengths end."""
        transitions = self.n_inputs * self.n_labels
        lengths = transitions + self.n_labels**2
        return transitions, lengths, lengths + self.longest * self.n_labels

    def scores(self, query: Query) -> SegmentScores:
        """Return the scores of all parts."""
        (transitions, lengths, _), n = self.starts, self.n_labels
        token = self.batch.inputs.times(query.w[:transitions].reshape(-1, n), self.batch.tokens(query)[0])
        nothing = np.zeros(len(token))
        transition, length = query.w[transitions:lengths].reshape(n, n), query.w[lengths:].reshape(-1, n)
        return SegmentScores(token, nothing, nothing.copy(), transition, length)

    def empty_counts(self, query: Query) -> SegmentCounts:
        """Return counts of 0, of which those of a query with weights are summed over all sequences."""
        _, offsets = self.batch.tokens(query)
        k, n = 1 if query.weights is not None else len(offsets) - 1, self.n_labels
        shapes = (offsets[-1], n), offsets[-1], (k, n, n), (k, self.longest, n)
        return SegmentCounts(*map(np.zeros, shapes))

    def slopes(self, counts: SegmentCounts, query: Query) -> Slopes:
        """Return the features of each sequence."""
        tokens, offsets = self.batch.tokens(query)
        transitions, lengths, _ = self.starts
        token, label = np.nonzero(counts.token)
        neighbors, sizes = (part.reshape(len(part), -1) for part in (counts.transition, counts.length))
        example, pair = np.nonzero(neighbors)
        owner, size = np.nonzero(sizes)
        row = token if tokens is None else tokens[token]
        direct = np.full(len(pair) + len(size), -1)
        examples = np.concatenate([np.searchsorted(offsets, token, side="right") - 1, example, owner])
        order = np.argsort(examples, kind="stable")
        atoms = Atoms(
            np.concatenate([row, direct]).astype(np.int32)[order],
            np.concatenate([label, transitions + pair, lengths + size]).astype(np.int32)[order],
            np.concatenate([counts.token[token, label], neighbors[example, pair], sizes[owner, size]])[order],
        )
        pointers = offsets_from_lengths(np.bincount(examples, minlength=len(offsets) - 1))
        return Slopes(self.batch.inputs.rows, pointers, atoms)

    def pull_back(self, counts: SegmentCounts, query: Query) -> Vector:
        """Return the sum of the features, for counts that are weighted already."""
        transitions, lengths, end = self.starts
        slope = np.zeros(end)
        block = slope[:transitions].reshape(-1, self.n_labels)
        self.batch.inputs.transposed_times(counts.token, block, self.batch.tokens(query)[0])
        slope[transitions:lengths] = counts.transition.ravel()
        slope[lengths:] = counts.length.ravel()
        return slope


@dataclass
class SegmentLoss:
    """Costs of wrong labels, and 1 for each token at which a segment begins wrongly or fails to begin."""

    batch: SegmentBatch
    costs: NDArray[np.float64]

    def _label_costs(self, known: Known) -> NDArray[np.float64]:
        return np.vstack([self.costs, np.zeros(len(self.costs))])[known.label]

    def add_to(self, scores: SegmentScores, query: Query) -> SegmentScores:
        """Add the losses of parts to their scores."""
        known = self.batch.known_of(query)
        token = scores.token + self._label_costs(known)
        return scores._replace(token=token, begin=(known.begin == 0) * 1.0, inside=(known.begin == 1) * 1.0)

    def of(self, counts: SegmentCounts, query: Query) -> Vector | float:
        """Return the loss of each sequence, or the weighted sum of all."""
        known, (_, offsets) = self.batch.known_of(query), self.batch.tokens(query)
        by_token = np.einsum("ty,ty->t", counts.token, self._label_costs(known))
        # A token is the first of its segment or not; both counts carry the weight of the sequence.
        whole = counts.token.sum(axis=1)
        by_token += np.where(known.begin == 0, counts.begin, 0.0)
        by_token += np.where(known.begin == 1, whole - counts.begin, 0.0)
        if query.weights is not None:
            return float(by_token.sum())
        return np.diff(np.concatenate([[0.0], np.cumsum(by_token)])[offsets])


def restricted(scores: SegmentScores, known: Known) -> SegmentScores:
    """Return scores of −∞ for everything that contradicts what is known."""
    other = (known.label[:, None] != UNKNOWN) & (known.label[:, None] != np.arange(scores.token.shape[1]))
    forbidden = np.array([0.0, -np.inf])
    return scores._replace(
        token=np.where(other, -np.inf, scores.token),
        begin=forbidden[(known.begin == 0).astype(np.int64)],
        inside=forbidden[(known.begin == 1).astype(np.int64)],
    )
