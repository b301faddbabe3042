"""Chains with weights for seen pairs of a feature and a label only, as CRFsuite has them."""

from dataclasses import InitVar, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.rows import add_pairs_transposed, rows_times_pairs
from latentstruct.core.lazy import sparse
from latentstruct.core.protocols import Query
from latentstruct.core.types import Indices, Vector, offsets_from_lengths
from latentstruct.planes.plane import Plane
from latentstruct.tasks.inputs import Compressed

MOST_LABELS = 0.2
"""Share of the labels from which a feature has weights for all: dense rows are faster, and these are few features."""
BLOCK = 10_000
"""Number of rows whose features are looked at together."""


class SeenPairs(NamedTuple):
    """Which labels features have weights for: all S for the first `full` ones, labels[at[j]:at[j + 1]] for full + j."""

    full: int
    at: Indices
    labels: NDArray[np.int32]


def seen_table(rows: Compressed, marginals: NDArray[np.float64], n_inputs: int) -> NDArray[np.bool_]:
    """Return which features and labels (d, S) occur together in rows whose labels have some probability."""
    pointers, features, values = rows
    seen = np.zeros((n_inputs, marginals.shape[1]), dtype=bool)
    # Block by block, as arrays with one number per entry of all rows would take much memory.
    for first in range(0, len(marginals), BLOCK):
        lengths = np.diff(pointers[first : first + BLOCK + 1])
        inside = slice(pointers[first], pointers[first] + lengths.sum())
        own = features[inside]
        for y in range(marginals.shape[1]):
            chosen = np.repeat(marginals[first : first + BLOCK, y] > 0, lengths)
            # Zeros are stored in the rows of dense matrices.
            seen[own[chosen & (values[inside] != 0) if len(values) else chosen], y] = True
    return seen


def order_features(rows: Compressed, seen: NDArray[np.bool_]) -> tuple[Indices, SeenPairs, Compressed]:
    """Return features in a new order, their pairs, and rows with the new numbers, ascending in each row.

    Features with all labels come first, then frequent ones, whose weights then stay in the cache.
    """
    pointers, features, values = rows
    counts, n_labels = seen.sum(axis=1), seen.shape[1]
    all_labels = counts > MOST_LABELS * n_labels
    order = np.lexsort((-np.bincount(features, minlength=len(seen)), ~all_labels))
    full = int(all_labels.sum())
    at = offsets_from_lengths(counts[order[full:]])
    labels = np.nonzero(seen[order[full:]])[1].astype(np.int32)
    number = np.empty(len(seen), dtype=np.int32)
    number[order] = np.arange(len(seen), dtype=np.int32)
    matrix = sparse.csr_array(
        (values.copy() if len(values) else np.ones(len(features), dtype=np.int8), number[features], pointers),
        shape=(len(pointers) - 1, len(seen)),
    )
    matrix.sort_indices()
    sorted_rows = pointers, matrix.indices.astype(np.int32, copy=False), matrix.data if len(values) else values
    return order, SeenPairs(full, at, labels), sorted_rows


@dataclass
class SeenWeights:
    """The weights of seen pairs, and all of those that do not depend on inputs; see `core.selected.Selection`.

    `rest` is a task of the same kind without inputs, which knows the other weights by their places after the inputs'.
    """

    task: Any
    rest: Any
    rows: Compressed
    marginals: InitVar[NDArray[np.float64]]

    def __post_init__(self, marginals: NDArray[np.float64]) -> None:
        n, first = len(self.task.labels_), self.task.transitions_at_
        seen = seen_table(self.rows, marginals, self.task.n_inputs_)
        order, self.pairs, self.rows = order_features(self.rows, seen)
        full, at, labels = self.pairs
        every = order[:full, None] * n + np.arange(n)
        others = np.repeat(order[full:], np.diff(at)) * n + labels
        self.places = np.concatenate([every.ravel(), others, np.arange(first, self.task.n_features)])

    def total(self, batch: Any, query: Query) -> Plane:
        """Return the weighted sum of the planes of a query."""
        n_pairs = len(self.places) - self.rest.n_features
        weights, rest = query.w[:n_pairs], Query(query.w[n_pairs:], *_settings(query))

        def products(tokens: Indices | None, table: NDArray[np.float64] | None) -> NDArray[np.float64]:
            selected = np.arange(batch.inputs.shape[0]) if tokens is None else tokens
            out = np.empty((len(selected), batch.inputs.n_labels)) if table is None else table
            rows_times_pairs(self.rows, selected, self.pairs, weights, out)
            return out

        def transposed(marginals: NDArray[np.float64], tokens: Indices | None) -> Vector:
            slope = np.zeros(n_pairs)
            selected = np.arange(batch.inputs.shape[0]) if tokens is None else tokens
            add_pairs_transposed(self.rows, selected, self.pairs, marginals, slope)
            return slope

        return self.rest.total_of_products(batch, rest, products, transposed, query.w)


def _settings(query: Query) -> tuple[Any, ...]:
    return query.mode, query.temperature, query.rows, query.weights, query.chunks
