"""Structures written in Python: rows of features collected example by example, and parts that are such rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.checks import can_be_stacked
from latentstruct.core.protocols import Batch, Query
from latentstruct.exceptions import InputError
from latentstruct.kernels.planes import Atoms
from latentstruct.planes import Slopes
from latentstruct.ragged import Indices, Vector, joined_offsets, offsets_from_lengths, positions
from latentstruct.short_repr import show
from latentstruct.tasks.base import require_labels, require_one_latent_each
from latentstruct.tasks.inputs import SPARSE_BELOW, Compressed, InputRows, check_matrix, compress, share_of_nonzeros

BLOCK = 2**18
"""Values that are collected before they are checked and, if few of them differ from 0, compressed."""


@dataclass
class FlatBatch:
    """Examples laid out one after the other, of which number i has the items offsets[i] … offsets[i + 1].

    `truth` is what is known of the outputs, None if they are unknown.
    """

    offsets: Indices
    truth: Any

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.offsets) - 1

    @property
    def labelled(self) -> bool:
        """Whether the true outputs are known."""
        return self.truth is not None


def require_latents(batch: Batch, latents: Any) -> None:
    """Raise unless outputs are known and there is one latent for each."""
    require_labels(batch, "clamped")
    require_one_latent_each(batch, latents)


def is_plain(values: Any) -> bool:
    """Tell whether values are an ordinary array of real numbers, which needs no conversion."""
    return type(values) is np.ndarray and values.dtype.kind in "fiub"


class RowStack:
    """Rows of features that a task returns example by example. They are copied at once and checked by blocks.

    Messages call them `name` and examples by the numbers `examples`, by default 0, 1, ….
    """

    def __init__(self, n_features: int, name: str, examples: Sequence[int] | None = None) -> None:
        self.n_features, self.name, self.examples = n_features, name, examples
        self.lengths: list[int] = []
        self._blocks: list[NDArray[np.float64] | Compressed] = []
        self._dense, self._used = np.empty((0, n_features)), 0
        self._sparse: list[Compressed] = []
        self._n_closed = self._n_values = 0

    def _title(self, k: int) -> str:
        return f"{self.name} of example {k if self.examples is None else self.examples[k]}"

    def rows(self, given: Any) -> Any:
        """Return the rows of the next example as an array or a CSR array; raise InputError if they are neither."""
        if (is_plain(given) and given.ndim == 2) or can_be_stacked(given):
            return given
        return check_matrix(given, self._title(len(self.lengths)))

    def append(self, rows: Any) -> None:
        """Add the rows of the next example, which have the right number of columns."""
        n_rows, is_sparse = rows.shape[0], type(rows) is not np.ndarray
        if self._n_values > BLOCK or (self._used if is_sparse else self._sparse):
            self._close_block()
        if is_sparse:
            arrays = (np.array(part) for part in (rows.indptr, rows.indices, rows.data))
            self._sparse.append(tuple(arrays))  # type: ignore[arg-type]
            self._n_values += rows.nnz
        else:
            end = self._used + n_rows
            if end > len(self._dense):
                self._close_block()
                end = n_rows
                # A few rows need no large block.
                n_values = BLOCK if self._n_closed else BLOCK // 32
                capacity = max(n_rows, n_values // max(1, self.n_features))
                if capacity > len(self._dense):
                    self._dense = np.empty((capacity, self.n_features))
            self._dense[self._used : end] = rows
            self._used = end
        self.lengths.append(n_rows)

    def _close_block(self) -> None:
        lengths, n = self.lengths[self._n_closed :], self.n_features
        if not lengths:
            return
        block: Any = self._dense[: self._used]
        if self._sparse:
            pointers, columns, data = zip(*self._sparse, strict=True)
            arrays = np.concatenate(data), np.concatenate(columns), joined_offsets(pointers)
            block = sparse.csr_array(arrays, shape=(sum(lengths), n))
        try:
            block = check_matrix(block, self.name)
        except InputError:
            # Named by the example; an error that only the block has is raised as it is.
            bounds = offsets_from_lengths(lengths)
            for k, length in enumerate(lengths):
                if self._sparse:
                    # SciPy would follow the invalid indices of the block.
                    one: Any = sparse.csr_array(self._sparse[k][::-1], shape=(length, n))
                else:
                    one = block[bounds[k] : bounds[k + 1]]
                check_matrix(one, self._title(self._n_closed + k))
            raise
        keep = not self._sparse and share_of_nonzeros(block) >= SPARSE_BELOW
        self._blocks.append(block if keep else compress(block))
        self._n_closed, self._used, self._n_values, self._sparse = len(self.lengths), 0, 0, []
        if keep:
            self._dense = self._dense[:0]

    def inputs(self) -> InputRows:
        """Return all rows."""
        self._close_block()
        if self._blocks and all(isinstance(block, np.ndarray) for block in self._blocks):
            return InputRows(self._blocks[0] if len(self._blocks) == 1 else np.concatenate(self._blocks), 1)
        pieces = [compress(block) if isinstance(block, np.ndarray) else block for block in self._blocks]
        if len(pieces) != 1:
            pointers = joined_offsets([piece[0] for piece in pieces]) if pieces else np.zeros(1, dtype=np.int64)
            columns = np.concatenate([np.zeros(0, dtype=np.int32), *(piece[1] for piece in pieces)])
            ones = [piece[2] if len(piece[2]) else np.ones(len(piece[1])) for piece in pieces]
            data = np.concatenate([np.zeros(0), *ones])
            pieces = [(pointers, columns, np.zeros(0) if (data == 1.0).all() else data)]
        return InputRows.of_compressed(pieces[0], self.n_features, 1)


@dataclass
class RowParts:
    """Parts of the examples of a query, each with a row of features. Scores and counts are flat, shape (P,)."""

    inputs: InputRows  # of all parts of the batch
    chosen: Indices | None  # numbers of the parts of the query, None for all
    offsets: Indices  # the parts of example i of the query are offsets[i] … offsets[i + 1] among them

    @classmethod
    def of(cls, inputs: InputRows, offsets: Indices, rows: Indices | None) -> "RowParts":
        """Return the parts of some examples of a batch."""
        return cls(inputs, None, offsets) if rows is None else cls(inputs, *positions(offsets, rows))

    def of_all(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return those of the values of all parts of the batch that belong to the query."""
        return values if self.chosen is None else values[self.chosen]

    def times(self, w: Vector) -> Vector:
        """Return the scores of the parts."""
        return self.inputs.times(w[:, None], self.chosen)[:, 0]

    def transposed_times(self, coefficients: Vector) -> Vector:
        """Return the sum of the features of the parts times coefficients (P,), shape (d,)."""
        total = np.zeros(self.inputs.shape[1])
        self.inputs.transposed_times(coefficients[:, None], total[:, None], self.chosen)
        return total

    def sums(self, values: Vector) -> Vector:
        """Return the sum of each example's values."""
        starts = self.offsets[:-1]
        sums = np.add.reduceat(np.append(values, 0.0), starts) if len(starts) else np.zeros(0)
        return np.where(self.offsets[1:] > starts, sums, 0.0)

    def scores(self, query: Query) -> Vector:
        """Return the scores of the parts."""
        return self.times(query.w)

    def slopes(self, counts: Vector, query: Query) -> Slopes:
        """Return the features of the parts times their counts, summed for each example."""
        kept = np.flatnonzero(counts)
        row = (kept if self.chosen is None else self.chosen[kept]).astype(np.int32)
        atoms = Atoms(row, np.zeros(len(kept), dtype=np.int32), counts[kept])
        return Slopes(self.inputs.rows, np.searchsorted(kept, self.offsets), atoms)

    def pull_back(self, counts: Vector, query: Query) -> Vector:
        """Return the features of the parts times their counts and the weights of the query, summed over all."""
        assert query.weights is not None
        return self.transposed_times(counts * np.repeat(query.weights, np.diff(self.offsets)))


@dataclass
class RowLoss:
    """The loss a_i + Σ_p u_p l_p of the examples of a query: constants (k,) or 0, and losses of parts (P,)."""

    parts: RowParts
    losses: Vector
    constants: Vector | float = 0.0

    def add_to(self, scores: Vector, query: Query) -> Vector:
        """Add the losses of parts."""
        scores += self.losses
        return scores

    def of(self, counts: Vector, query: Query) -> Vector:
        """Return the loss of each example."""
        return self.constants + self.parts.sums(counts * self.losses)


def checked_losses(found: Sequence[Any], source: str, examples: Sequence[int] | None = None) -> Vector:
    """Return losses that a task returned, or raise InputError for the first that is not a finite number ≥ 0."""
    try:
        losses = np.asarray(found)
    except ValueError:
        losses = np.empty(0, dtype=object)
    if losses.ndim == 1 and losses.dtype.kind in "biuf" and np.isfinite(losses).all() and (losses >= 0).all():
        return losses.astype(np.float64)
    for k, loss in enumerate(found):
        number = loss[()] if isinstance(loss, np.ndarray) and loss.ndim == 0 else loss
        real = isinstance(number, bool | int | float | np.bool_ | np.integer | np.floating)
        if not (real and 0 <= number < np.inf):
            i = k if examples is None else examples[k]
            raise InputError(
                f"{source} of example {i} must return a finite number ≥ 0, got {show(loss)}: correct {source}"
            )
    return np.array([float(loss) for loss in found])
