"""Chains with weights for seen pairs of a feature and a label only, as CRFsuite has them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.rows import add_pairs_transposed, rows_times_pairs
from latentstruct.core.protocols import Query
from latentstruct.core.types import Indices, offsets_from_lengths
from latentstruct.planes.plane import Plane
from latentstruct.tasks.inputs import Compressed

MOST_LABELS = 0.3
"""Share of the labels from which a feature has weights for all: dense rows are faster, and these are few features."""
BLOCK = 10_000
"""Number of rows or features that are looked at together."""


class SeenPairs(NamedTuple):
    """Which labels features have weights for: labels[at[f]:at[f + 1]], ascending, for feature f."""

    at: Indices
    labels: NDArray[np.int32]


def seen_pairs(rows: Compressed, allowed: NDArray[np.bool_], numbers: Indices, n_inputs: int) -> SeenPairs:
    """Return the features and labels that occur together.

    Row r has the labels allowed[numbers[r]]. Features with more than `MOST_LABELS` of the labels get all.
    """
    pointers, features, values = rows
    seen = np.zeros((n_inputs, allowed.shape[1]), dtype=bool)
    # Block by block, as arrays with one number per entry of all rows would take much memory.
    for first in range(0, len(numbers), BLOCK):
        lengths = np.diff(pointers[first : first + BLOCK + 1])
        inside = slice(pointers[first], pointers[first] + lengths.sum())
        own, possible = features[inside], allowed[numbers[first : first + BLOCK]]
        for y in range(allowed.shape[1]):
            chosen = np.repeat(possible[:, y], lengths)
            # Zeros are stored in the rows of dense matrices.
            seen[own[chosen & (values[inside] != 0) if len(values) else chosen], y] = True
    seen[seen.sum(axis=1) > MOST_LABELS * seen.shape[1]] = True
    at = offsets_from_lengths(seen.sum(axis=1))
    labels = np.empty(at[-1], dtype=np.int32)
    for first in range(0, n_inputs, BLOCK):
        block = slice(first, first + BLOCK)
        labels[at[first] : at[min(first + BLOCK, n_inputs)]] = np.nonzero(seen[block])[1]
    return SeenPairs(at, labels)


@dataclass
class SeenWeights:
    """The weights of seen pairs, and all of those that do not depend on inputs; see `core.selected.Selection`.

    `rest` is a task of the same kind without inputs, which knows the other weights by their places after the inputs'.
    """

    task: Any
    rest: Any
    pairs: SeenPairs

    def __post_init__(self) -> None:
        at, labels = self.pairs
        own = np.repeat(len(self.task.labels_) * np.arange(len(at) - 1), np.diff(at)) + labels
        self.places = np.concatenate([own, np.arange(self.task.transitions_at_, self.task.n_features)])

    def total(self, batch: Any, query: Query) -> Plane:
        """Return the weighted sum of the planes of a query, which is computed block by block to save memory."""
        n_pairs, rows = len(self.pairs.labels), batch.inputs.compressed
        weights, rest = query.w[:n_pairs], query.w[n_pairs:]
        slope = np.zeros(len(query.w))
        inputs, others = slope[:n_pairs], slope[n_pairs:]

        def products(tokens: Indices | None) -> NDArray[np.float64]:
            assert tokens is not None
            out = np.empty((len(tokens), batch.inputs.n_labels))
            rows_times_pairs(rows, tokens, self.pairs, weights, out)
            return out

        def add_transposed(marginals: NDArray[np.float64], tokens: Indices | None) -> None:
            assert tokens is not None
            add_pairs_transposed(rows, tokens, self.pairs, marginals, inputs)

        assert query.weights is not None
        chosen, value, loss = query.examples(batch), 0.0, 0.0
        ends = np.cumsum(batch.offsets[chosen + 1] - batch.offsets[chosen]) // BLOCK
        for block in np.split(np.arange(len(chosen)), np.flatnonzero(np.diff(ends)) + 1):
            own = Query(rest, query.mode, query.temperature, chosen[block], query.weights[block], query.chunks)
            values = self.rest.add_products(batch, own, products, add_transposed, others)
            value, loss = value + values[0], loss + values[1]
        offset = value - float(slope @ query.w)
        return Plane(slope, offset, offset - loss)
