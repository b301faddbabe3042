"""Structures written in Python: rows of features collected example by example, and parts that are such rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.protocols import Batch, LinearMap, PartLoss, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, joined_offsets, offsets_from_lengths, positions
from latentstruct.core.validation import can_be_stacked
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Atoms, Slopes
from latentstruct.tasks.base import BaseTask, by_rows, check_examples, require_labels, require_one_latent_each
from latentstruct.tasks.inputs import SPARSE_BELOW, Compressed, InputRows, check_matrix, compress, share_of_nonzeros
from latentstruct.tasks.rows import check_rows

BLOCK = 2**18
"""Values that are collected before they are checked and, if few of them differ from 0, compressed."""


@dataclass
class FlatBatch:
    """Examples laid out one after the other; example i has the items offsets[i] … offsets[i + 1].

    `truth` is what is known of the outputs, None if they are unknown.
    """

    offsets: Indices
    truth: Any

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.offsets) - 1

    @property
    def labeled(self) -> bool:
        """Whether the true outputs are known."""
        return self.truth is not None


def require_latents(batch: Batch, latents: Any) -> None:
    """Raise unless outputs are known and there is one latent per output."""
    require_labels(batch, "clamped")
    require_one_latent_each(batch, latents)


def stack_examples(X: Any, n_features: int, n_labels: int) -> tuple[InputRows, Indices]:
    """Return the rows of matrices with this number of features, one after the other, and their offsets."""
    matrices = [check_rows(x, n_features, f"X[{i}]") for i, x in enumerate(X)]
    stack = sparse.vstack if any(map(issparse, matrices)) else np.concatenate
    offsets = offsets_from_lengths(matrix.shape[0] for matrix in matrices)
    return InputRows(check_matrix(stack(matrices), "X"), n_labels), offsets


def is_plain(values: Any) -> bool:
    """Return whether values are an ordinary array of real numbers, which needs no conversion."""
    return type(values) is np.ndarray and values.dtype.kind in "fiub"


class RowStack:
    """Rows of features that a task returns example by example, copied immediately and checked by blocks.

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
        return InputRows.of_compressed(join_compressed(pieces), self.n_features, 1)


def join_compressed(parts: Sequence[Compressed]) -> Compressed:
    """Put the rows of several CSR forms one after the other; no values if all are 1."""
    if len(parts) == 1:
        return parts[0]
    pointers = joined_offsets([part[0] for part in parts]) if parts else np.zeros(1, dtype=np.int64)
    columns = np.concatenate([np.zeros(0, dtype=np.int32), *(part[1] for part in parts)])
    if all(len(part[2]) == 0 for part in parts):
        return pointers, columns, np.zeros(0)
    return pointers, columns, np.concatenate([part[2] if len(part[2]) else np.ones(len(part[1])) for part in parts])


@dataclass
class RowParts(LinearMap):
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

    def sum(self, coefficients: Vector, query: Query) -> Vector:
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
        return self.inputs.times(query.w[:, None], self.chosen)[:, 0]

    def slopes(self, counts: Vector, query: Query) -> Slopes:
        kept = np.flatnonzero(counts)
        row = (kept if self.chosen is None else self.chosen[kept]).astype(np.int32)
        atoms = Atoms(row, np.zeros(len(kept), dtype=np.int32), counts[kept])
        return Slopes(self.inputs.rows, np.searchsorted(kept, self.offsets), atoms)

    def pull_back(self, counts: Vector, query: Query) -> Vector:
        assert query.weights is not None
        return self.sum(counts * np.repeat(query.weights, np.diff(self.offsets)), query)


@dataclass
class RowLoss(PartLoss):
    """The loss a_i + Σ_p u_p l_p of the examples of a query: constants (k,) or 0, and losses of parts (P,)."""

    parts: RowParts
    losses: Vector
    constants: Vector | float = 0.0

    def add_to(self, scores: Vector, query: Query) -> Vector:
        scores += self.losses
        return scores

    def of(self, counts: Vector, query: Query) -> Vector:
        return self.constants + self.parts.sums(counts * self.losses)


def checked_losses(found: Sequence[Any], source: str, name: Callable[[int], Any] = int) -> Vector:
    """Return losses that a task returned, or raise InputError for the first that is not a finite number ≥ 0.

    `name` returns the number of the example that a loss belongs to, or more to name it by.
    """
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
            raise InputError(f"{source} of example {name(k)}", loss, "a finite number of at least 0")
    return np.array([float(loss) for loss in found])


def loss_of_latents() -> InputError:
    """Return the error of Rényi pooling with a loss that depends on latents."""
    got = Description("a loss that depends on latents")
    return InputError("output_loss", got, "independent of latents for Rényi pooling", "Use LatentSSVM.")


@dataclass
class ExampleBatch:
    """Examples as the user gave them, arrays or lists."""

    X: Any
    Y: Any

    def __post_init__(self) -> None:
        self.n_examples, self.labeled = len(self.X), self.Y is not None


E = TypeVar("E", bound=ExampleBatch)


class WrittenTask(BaseTask[E]):
    """What tasks share that users write as functions of one example."""

    tags = TaskTags(latent="possible")
    exact: bool = True
    feature_method: str
    """The method that returns features."""
    _first_features: Callable[..., Any]
    """Check the methods that the user wrote, and return features of the first example of (X, Y)."""
    _predictions: Callable[..., list[Prediction]]
    """Return the best outputs of all examples of (batch, query)."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.tags = replace(cls.tags, exact=cls.exact)

    def output_loss(self, y: Any, y_hat: Any, *h_hat: Any) -> float:
        """Return Δ(y, ŷ[, ĥ]) ≥ 0."""
        raise TypeError(f"{type(self).__name__} does not define output_loss()")

    def random_latent(self, x: Any, y: Any, rng: np.random.Generator) -> Any:
        """Return some latent that fits y."""
        raise TypeError(f"{type(self).__name__} does not define random_latent()")

    def learn(self, X: Any, Y: Any) -> None:
        """Find the number of features from the first example."""
        check_examples(X, Y, rows=True)
        features = self._first_features(by_rows(X)[:1], Y[:1])
        self.n_features = check_matrix(features, f"{self.feature_method} of example 0").shape[1]

    def state(self) -> dict[str, Any] | None:
        """Return what `learn` found, for saving; None if a subclass learns more without defining its state."""
        learned = {"n_features": int(self.n_features), "latent": bool(self.latent)}
        return learned if type(self).learn is WrittenTask.learn else None

    def restore(self, state: dict[str, Any]) -> None:
        self.n_features, self.latent = int(state["n_features"]), bool(state["latent"])

    def _pair(self, answer: Any, source: str, i: int) -> tuple[Any, Any]:
        """Return y and h of an answer for example i; h is None without latents."""
        if not self.latent and answer is not None:
            return answer, None
        if isinstance(answer, tuple) and len(answer) == 2:
            return answer
        expected = "a pair (y, h) because `latent` is True" if self.latent else "an output"
        raise InputError(f"{type(self).__name__}.{source} of example {i}", answer, expected)

    def decode(self, batch: E, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best output of each example (latents pooled at ε_h, where they can be), and its best latent."""
        return self._predictions(batch, Query(w, "free", Temperature(0.0, temperature.latent)))

    def decode_augmented(self, batch: E, w: Vector) -> list[Prediction]:
        """Return the output of each example, and its latent, that maximizes s + Δ."""
        return self._predictions(batch, Query(w, "augmented"))

    def complete(self, batch: E, w: Vector) -> list[Any]:
        """Return the best latent of each known output."""
        require_labels(batch, "clamped")
        return [prediction.h for prediction in self._predictions(batch, Query(w, "clamped"))]

    def random_latents(self, batch: E, rng: np.random.Generator) -> list[Any]:
        """Return what `random_latent` gives for each example."""
        require_labels(batch, "clamped")
        return [self.random_latent(x, y, rng) for x, y in zip(batch.X, batch.Y, strict=True)]

    def _losses(self, Y: Any, *answers: Any, name: Callable[[int], Any] = int) -> Vector:
        """Return the losses of answers (Ŷ,) or (Ŷ, Ĥ)."""
        found = [self.output_loss(*one) for one in zip(Y, *answers, strict=True)]
        return checked_losses(found, "output_loss", name)

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ŷ_i[, ĥ_i]) for each example; latents that are not given are None."""
        hidden = [[None] * len(Y_true) if H_pred is None else H_pred] if self.latent else []
        return self._losses(Y_true, Y_pred, *hidden)
