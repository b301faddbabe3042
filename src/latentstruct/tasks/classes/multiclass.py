"""Classes: one weight vector a class."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.candidates import best_classes
from latentstruct.core.levels import LossLevels
from latentstruct.core.pooling import PooledParts, pool_linear, require_labels
from latentstruct.core.protocols import (
    Cost,
    LinearMap,
    Mode,
    PartLoss,
    Pooled,
    Prediction,
    Query,
    TaskTags,
    Temperature,
)
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import check_parameters
from latentstruct.planes.plane import Atoms, Slopes
from latentstruct.tasks.base import BaseTask, check_examples
from latentstruct.tasks.inputs import BIAS, InputRows, check_matrix, require_width
from latentstruct.tasks.labels import LabelSet, LearnedLabels, distinct_labels, label_list
from latentstruct.tasks.packing import Arrays, PackedArrays, optional


def pooled(scores: NDArray[np.float64], temperature: float) -> tuple[Vector, NDArray[np.float64]]:
    """Return smax_ε of each row of scores (n, S), and all shares of it, which sum to 1 however large scores are."""
    highs = scores.max(axis=1, keepdims=True)
    # A difference that is too large for its quotient has no share.
    with np.errstate(over="ignore"):
        shares = np.exp((scores - highs) / temperature)
    totals = shares.sum(axis=1, keepdims=True)
    return (highs + temperature * np.log(totals))[:, 0], shares / totals


@dataclass
class MulticlassBatch:
    """Inputs (n, d) and class numbers (n,)."""

    inputs: InputRows
    truth: NDArray[np.int64] | None

    def __post_init__(self) -> None:
        self.n_examples, self.labeled = self.inputs.shape[0], self.truth is not None

    def classes(self, rows: Indices | None = None) -> NDArray[np.int64]:
        """Return the true class numbers of some examples, by default of all."""
        require_labels(self, "clamped")
        assert self.truth is not None
        return self.truth if rows is None else self.truth[rows]


@dataclass
class ClassParts(LinearMap, PartLoss):
    """The classes of each example as parts: scores (k, S); counts are class numbers (k,), or shares (k, S)."""

    task: "Multiclass"
    batch: MulticlassBatch

    def scores(self, query: Query) -> NDArray[np.float64]:
        return self.task.products(self.batch.inputs, query.w, query.rows)

    def slopes(self, counts: NDArray, query: Query) -> Slopes:
        """Return the features of the chosen classes, or of all classes times their shares."""
        row, column, value, each = query.examples(self.batch), counts, np.ones(len(counts)), 1
        if counts.ndim == 2:
            each = counts.shape[1]
            row, column, value = np.repeat(row, each), np.tile(np.arange(each), len(counts)), counts.ravel()
        return self.task.slopes_of(self.batch.inputs, row, column, value, each * np.arange(len(counts) + 1))

    def pull_back(self, counts: NDArray[np.float64], query: Query) -> Vector:
        assert query.weights is not None
        return self.task.sum_of(self.batch.inputs, counts * query.weights[:, None], query.rows)

    def add_to(self, scores: NDArray[np.float64], query: Query) -> NDArray[np.float64]:
        scores += self.task.costs_[self.batch.classes(query.rows)]
        return scores

    def of(self, counts: NDArray, query: Query) -> Vector:
        """Return the expected cost of each example, or that of its chosen class."""
        truth = self.batch.classes(query.rows)
        if counts.ndim == 2:
            return np.einsum("ij,ij->i", counts, self.task.costs_[truth])
        return self.task.costs_[truth, counts]


ClassBatch = TypeVar("ClassBatch", bound=MulticlassBatch)


class ClassTask(LearnedLabels, BaseTask[ClassBatch]):
    """Base of tasks whose output is one class: labels, costs, and weight vectors of classes or of their states.

    Weight f·B + b belongs to feature f and vector b of B; the B bias weights come last.
    """

    constraints: ClassVar = {"bias": BIAS}
    labels: Sequence[Hashable] | None
    costs: Any
    bias: float
    _earlier_labels = cast("Sequence[Hashable]", ())  # no field of the structures that are data classes

    @property
    def biased_(self) -> bool:
        """Whether there is a constant feature."""
        return bool(self.bias)

    def learn_blocks(self, blocks: Iterable[tuple[Any, Any]]) -> None:
        """Find the classes and the sizes of the model from examples that come block by block."""
        seen: dict[Any, None] = {}
        sizes: tuple[Any, ...] = ()
        for X, Y in blocks:
            check_examples(X, Y, rows=True)
            seen.update(distinct_labels(label_list(Y)))
            sizes = sizes or self._sizes_of(X)
        self._set(LabelSet.learn(seen, self.labels, self._earlier_labels), *sizes)

    def follow(self, earlier: BaseTask) -> None:
        """Keep the classes of an earlier task, unless classes are declared."""
        assert isinstance(earlier, ClassTask)
        self._earlier_labels = earlier.labels_.labels

    def _sizes_of(self, X: Any) -> tuple[Any, ...]:
        """Return the sizes that `_set` takes, the number of features first."""
        return (check_matrix(X, "X").shape[1],)

    def _set(self, labels: LabelSet, n_inputs: int, *sizes: Any) -> None:
        """Fix the sizes of the model, by default with one weight vector per class."""
        self._set_vectors(labels, n_inputs, len(labels))

    def _set_vectors(self, labels: LabelSet, n_inputs: int, n_vectors: int) -> None:
        check_parameters(self)
        self.labels_, self.n_inputs_, self.n_vectors_ = labels, n_inputs, n_vectors
        self.costs_ = labels.costs(self.costs)
        self.bias_at_ = n_inputs * n_vectors if self.bias else -1
        self.n_features = (n_inputs + bool(self.bias)) * n_vectors

    def matrix_of(self, weights: Vector) -> NDArray[np.float64]:
        """Return the weights of the features as a matrix (d, B), a view."""
        return weights[: self.n_inputs_ * self.n_vectors_].reshape(-1, self.n_vectors_)

    def products(self, inputs: InputRows, w: Vector, rows: Indices | None) -> NDArray[np.float64]:
        """Return the scores of all weight vectors for some input rows."""
        scores = inputs.times(self.matrix_of(w), rows)
        if self.bias_at_ >= 0:
            scores += self.bias * w[self.bias_at_ :]
        return scores

    def slopes_of(self, inputs: InputRows, row: Indices, column: Indices, value: Vector, pointers: Indices) -> Slopes:
        """Return the slopes whose terms are an input row for a weight vector, times a value."""
        row, column, each = row.astype(np.int32), column.astype(np.int32), 1
        if self.bias_at_ >= 0:
            each = 2
            row = np.stack([row, np.full(len(row), -1, dtype=np.int32)], axis=1).ravel()
            column = np.stack([column, column + np.int32(self.bias_at_)], axis=1).ravel()
            value = np.stack([value, self.bias * value], axis=1).ravel()
        return Slopes(inputs.rows, each * pointers, Atoms(row, column, value))

    def sum_of(self, inputs: InputRows, counts: NDArray[np.float64], rows: Indices | None) -> Vector:
        """Return the sum of some input rows times counts of all weight vectors, shape (d,)."""
        slope = np.zeros(self.n_features)
        inputs.transposed_times(counts, self.matrix_of(slope), rows)
        if self.bias_at_ >= 0:
            slope[self.bias_at_ :] = self.bias * counts.sum(axis=0)
        return slope

    def true_outputs(self, batch: ClassBatch) -> NDArray:
        return self.labels_.decode(batch.classes())

    def collect(self, outputs: list[Any]) -> NDArray:
        return self.labels_.values[[self.labels_.index[y] for y in outputs]]

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return the costs Δ(y_i, ŷ_i); latents have no costs."""
        return self.costs_[self.labels_.encode(label_list(Y_true)), self.labels_.encode(label_list(Y_pred))]

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the accuracy; true classes that are not in the training data count as errors."""
        right = [true == predicted for true, predicted in zip(label_list(Y_true), label_list(Y_pred), strict=True)]
        return float(np.average(right, weights=sample_weight))


@dataclass(eq=False, repr=False)
class Multiclass(ClassTask[MulticlassBatch]):
    """Multiclass classification: s(y) = w_y·x [+ bias·b_y].

    Parameters
    ----------
    labels : sequence of hashable, optional
        All classes that may occur, in the order of the model; by default those of the training data.
    costs : None, mapping or array of shape (S, S), default=None
        Δ(y, ŷ): 0/1, the cost of missing each true class, or a matrix (true, predicted).
    bias : float, default=0.0
        Value of a constant feature; 0 for none. Its weights are regularized as all others.

    Notes
    -----
    Weight number f·S + y belongs to feature f and class y; the S bias weights come last.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import Multiclass, StructuralSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> careful = Multiclass(costs={2: 5.0}, bias=1.0)  # to miss class 2 is five times as bad
    >>> StructuralSVM(careful, C=1.0).fit(X, y).loss(X, y).shape
    (150,)
    """

    tags = TaskTags(
        soft=True, two_temperatures=True, classifier=True, row_examples=True, refit_parameters=("costs", "bias")
    )

    labels: Sequence[Hashable] | None = None
    costs: Any = None
    bias: float = 0.0

    def state(self) -> dict[str, Any]:
        return {"labels": self.labels_.labels, "n_inputs": self.n_inputs_}

    def restore(self, state: dict[str, Any]) -> None:
        self._set(LabelSet(state["labels"]), int(state["n_inputs"]))

    def prepare(self, X: Any, Y: Any = None) -> MulticlassBatch:
        check_examples(X, Y, rows=True)
        matrix = check_matrix(X, "X")
        require_width(matrix, self.n_inputs_, "X")
        inputs = InputRows(matrix, len(self.labels_))
        return MulticlassBatch(inputs, None if Y is None else self.labels_.encode(label_list(Y)))

    def pack(self, batch: MulticlassBatch) -> Arrays:
        return {**batch.inputs.packed(), **optional(truth=batch.truth)}

    def unpack(self, arrays: Arrays) -> MulticlassBatch:
        found, n_labels = PackedArrays(arrays), len(self.labels_)
        inputs = InputRows.unpacked(found, self.n_inputs_, n_labels)
        return MulticlassBatch(inputs, found.optional("truth", 0, n_labels, inputs.shape[0]))

    def scores(self, batch: MulticlassBatch, w: Vector) -> NDArray[np.float64]:
        """Return s(y) of all classes, shape (n, S)."""
        return self.products(batch.inputs, w, None)

    def pool_batch(self, batch: MulticlassBatch, query: Query) -> Pooled:
        parts, temperature = ClassParts(self, batch), query.temperature.output
        if query.mode == "clamped":
            slopes = parts.slopes(batch.classes(query.rows), query)
            values = slopes.dot(query.w)
            return Pooled(values, slopes, np.zeros(len(values)))
        if temperature > 0:
            return pool_linear(parts, parts, query, lambda scores: PooledParts(*pooled(scores, temperature), soft=True))
        scores = parts.scores(query)
        values, losses = np.empty((2, len(scores)))
        best = np.empty(len(scores), dtype=np.int64)
        if query.augmented:
            best_classes(scores, self.costs_, batch.classes(query.rows), best, values, losses)
        else:
            best_classes(scores, np.zeros((1, scores.shape[1])), np.zeros_like(best), best, values, losses)
        return Pooled(values, parts.slopes(best, query), losses)

    def cost(self, batch: MulticlassBatch, mode: Mode, temperature: Temperature) -> Cost:
        softness = 20.0 if temperature.output > 0 and mode != "clamped" else 5.0
        return Cost(np.full(batch.n_examples, len(self.labels_) * (batch.inputs.product_time + softness)))

    def loss_levels(self, batch: MulticlassBatch, query: Query) -> LossLevels:
        """Return all classes."""
        parts, costs, n = ClassParts(self, batch), self.costs_[batch.classes(query.rows)], len(self.labels_)
        offsets = n * np.arange(len(costs) + 1)
        return LossLevels(
            offsets, costs.ravel(), parts.scores(query).ravel(), lambda places: parts.slopes(places % n, query)
        )

    def decode(self, batch: MulticlassBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best class of each example."""
        scores = self.scores(batch, w)
        best = scores.argmax(axis=1)
        labels, tops = self.labels_.decode(best), scores[np.arange(len(best)), best].tolist()
        return [Prediction(label, None, top) for label, top in zip(labels, tops, strict=True)]

    def marginals(self, batch: MulticlassBatch, w: Vector, temperature: Temperature) -> NDArray[np.float64]:
        """Return the class probabilities (n, S) at ε_y."""
        return pooled(self.scores(batch, w), temperature.output)[1]
