"""Classes: one weight vector a class."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.pooling import PooledParts, pool_linear
from latentstruct.core.protocols import Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.exceptions import InputError
from latentstruct.kernels.planes import Atoms
from latentstruct.planes import Slopes
from latentstruct.ragged import Indices, Vector
from latentstruct.tasks.base import BaseTask, check_examples
from latentstruct.tasks.inputs import InputRows, check_bias, check_matrix
from latentstruct.tasks.labels import LabelSet, distinct_labels, label_list
from latentstruct.tasks.packing import Arrays, PackedArrays


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

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return self.inputs.shape[0]

    @property
    def labelled(self) -> bool:
        """Whether the true classes are known."""
        return self.truth is not None

    def classes(self, rows: Indices) -> NDArray[np.int64]:
        """Return the true class numbers of the chosen examples."""
        assert self.truth is not None
        return self.truth[rows]


@dataclass
class ClassParts:
    """The classes of each example as parts: scores (k, S); counts are class numbers (k,), or shares (k, S)."""

    task: "Multiclass"
    batch: MulticlassBatch

    def scores(self, query: Query) -> NDArray[np.float64]:
        """Return s(y) of all classes."""
        task, w = self.task, query.w
        n_labels = len(task.labels_)
        scores = self.batch.inputs.times(w[: task.n_inputs_ * n_labels].reshape(-1, n_labels), query.rows)
        if task.bias_at_ >= 0:
            scores += task.bias * w[task.bias_at_ :]
        return scores

    def slopes(self, counts: NDArray, query: Query) -> Slopes:
        """Return the features of the chosen classes, or of all classes times their shares."""
        row, column, value, each = query.examples(self.batch), counts, np.ones(len(counts)), 1
        if counts.ndim == 2:
            each = counts.shape[1]
            row, column, value = np.repeat(row, each), np.tile(np.arange(each), len(counts)), counts.ravel()
        if self.task.bias_at_ >= 0:
            each *= 2
            row = np.stack([row, np.full(len(row), -1)], axis=1).ravel()
            column = np.stack([column, self.task.bias_at_ + column], axis=1).ravel()
            value = np.stack([value, self.task.bias * value], axis=1).ravel()
        atoms = Atoms(row.astype(np.int32), column.astype(np.int32), value)
        return Slopes(self.batch.inputs.rows, each * np.arange(len(counts) + 1), atoms)

    def pull_back(self, counts: NDArray[np.float64], query: Query) -> Vector:
        """Return the features of all classes times shares and weights, summed over the examples."""
        assert query.weights is not None
        task, n_labels, shares = self.task, len(self.task.labels_), counts * query.weights[:, None]
        slope = np.zeros(task.n_features)
        block = slope[: task.n_inputs_ * n_labels].reshape(-1, n_labels)
        self.batch.inputs.transposed_times(shares, block, query.rows)
        if task.bias_at_ >= 0:
            slope[task.bias_at_ :] = task.bias * shares.sum(axis=0)
        return slope


@dataclass
class ClassLoss:
    """The costs Δ(y_i, y) of classes."""

    costs: NDArray[np.float64]
    batch: MulticlassBatch

    def _costs(self, query: Query) -> NDArray[np.float64]:
        assert self.batch.truth is not None
        return self.costs[self.batch.truth if query.rows is None else self.batch.truth[query.rows]]

    def add_to(self, scores: NDArray[np.float64], query: Query) -> NDArray[np.float64]:
        """Add the costs of all classes."""
        scores += self._costs(query)
        return scores

    def of(self, counts: NDArray, query: Query) -> Vector:
        """Return the expected cost of each example, or that of its chosen class."""
        if counts.ndim == 2:
            return np.einsum("ij,ij->i", counts, self._costs(query))
        return self._costs(query)[np.arange(len(counts)), counts]


class Multiclass(BaseTask):
    """Multiclass classification: s(y) = w_y·x [+ bias·b_y].

    Parameters
    ----------
    labels : sequence of hashable, optional
        All classes that may occur, in the order of the model; by default those of the training data.
    costs : None, mapping or array of shape (S, S), default=None
        Δ(y, ŷ): 0/1, the cost of missing each true class, or a matrix (true, predicted).
    bias : float, default=0.0
        Value of a constant feature; 0 for none. Its weights are regularised as all others.

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
        soft=True,
        two_temperatures=True,
        exact_slack=True,
        classifier=True,
        marginals=True,
        scores=True,
        storable=True,
        refit_parameters=("costs", "bias"),
    )
    classifies = True
    late_parameters = ("costs", "bias")

    def __init__(self, labels: Sequence[Hashable] | None = None, costs: Any = None, bias: float = 0.0) -> None:
        self.labels = labels
        self.costs = costs
        self.bias = bias

    def learn(self, X: Any, Y: Any) -> None:
        """Find the classes and the number of inputs."""
        self.learn_blocks([(X, Y)])

    def learn_blocks(self, blocks: Iterable[tuple[Any, Any]]) -> None:
        """Find the classes and the number of inputs of examples that come block by block."""
        seen: dict[Any, None] = {}
        n_inputs = -1
        for X, Y in blocks:
            check_examples(X, Y, rows=True)
            seen.update(distinct_labels(self._labels(Y)))
            n_inputs = check_matrix(X, "X").shape[1] if n_inputs < 0 else n_inputs
        self._set(LabelSet.learn(seen, self.labels), n_inputs)

    def _set(self, labels: LabelSet, n_inputs: int) -> None:
        check_bias(self.bias)
        self.labels_, self.n_inputs_ = labels, n_inputs
        self.costs_ = labels.costs(self.costs)
        self.bias_at_ = n_inputs * len(labels) if self.bias else -1
        self.n_features = (n_inputs + bool(self.bias)) * len(labels)

    def state(self) -> dict[str, Any]:
        """Return what `learn` found, for saving."""
        return {"labels": self.labels_.labels, "n_inputs": self.n_inputs_}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        self._set(LabelSet(state["labels"]), int(state["n_inputs"]))

    _labels = staticmethod(label_list)

    def prepare(self, X: Any, Y: Any = None) -> MulticlassBatch:
        """Validate inputs and number the classes."""
        check_examples(X, Y, rows=True)
        matrix = check_matrix(X, "X")
        if matrix.shape[1] != self.n_inputs_:
            raise InputError(
                f"X has {matrix.shape[1]} features but the model has {self.n_inputs_}: use the same features as in "
                "training"
            )
        inputs = InputRows(matrix, len(self.labels_))
        return MulticlassBatch(inputs, None if Y is None else self.labels_.encode(self._labels(Y)))

    def pack(self, batch: MulticlassBatch) -> Arrays:
        """Return a batch as arrays that can be stored."""
        return {**batch.inputs.packed(), **({} if batch.truth is None else {"truth": batch.truth})}

    def unpack(self, arrays: Arrays) -> MulticlassBatch:
        """Return the batch of stored arrays, which are checked and not copied."""
        found, n_labels = PackedArrays(arrays), len(self.labels_)
        inputs = InputRows.unpacked(found, self.n_inputs_, n_labels)
        truth = found.numbers("truth", 0, n_labels, inputs.shape[0]) if "truth" in found else None
        return MulticlassBatch(inputs, truth)

    def true_outputs(self, batch: MulticlassBatch) -> NDArray:
        """Return the classes that a batch was prepared with."""
        return self.labels_.decode(batch.classes(np.arange(batch.n_examples)))

    def scores(self, batch: MulticlassBatch, w: Vector, rows: Indices | None = None) -> NDArray[np.float64]:
        """Return s(y) of all classes, shape (n, S)."""
        return ClassParts(self, batch).scores(Query(w, "free", rows=rows))

    def pool_batch(self, batch: MulticlassBatch, query: Query) -> Pooled:
        """Pool the classes of the examples of a query."""
        parts, temperature = ClassParts(self, batch), query.temperature.output

        def pool_classes(scores: NDArray[np.float64]) -> PooledParts:
            if query.mode != "clamped" and temperature > 0:
                return PooledParts(*pooled(scores, temperature), soft=True)
            best = batch.classes(query.examples(batch)) if query.mode == "clamped" else scores.argmax(axis=1)
            return PooledParts(scores[np.arange(len(best)), best], best, soft=False)

        return pool_linear(parts, ClassLoss(self.costs_, batch), query, pool_classes)

    def work(self, batch: MulticlassBatch, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each example takes, shape (n,)."""
        softness = 20.0 if temperature.output > 0 and mode != "clamped" else 5.0
        return np.full(batch.n_examples, len(self.labels_) * (batch.inputs.product_time + softness))

    def slack(self, batch: MulticlassBatch, query: Query) -> Pooled:
        """Return the classes that maximize Δ·(1 + s − s_i)."""
        parts, truth = ClassParts(self, batch), batch.classes(query.examples(batch))
        scores, every = parts.scores(query), np.arange(len(truth))
        costs = self.costs_[truth]
        product = costs * (1.0 + scores - scores[every, truth][:, None])
        best = product.argmax(axis=1)
        return Pooled(product[every, best], parts.slopes(best, query), costs[every, best])

    def decode(self, batch: MulticlassBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best class of each example."""
        scores = self.scores(batch, w)
        best = scores.argmax(axis=1)
        tops = scores[np.arange(len(best)), best].tolist()
        labels = self.labels_.decode(best)
        return [Prediction(label, None, top) for label, top in zip(labels, tops, strict=True)]

    @property
    def classes_(self) -> NDArray:
        """The classes in the order of the model."""
        return self.labels_.values

    def collect(self, outputs: list[Any]) -> NDArray:
        """Return predicted classes as an array (n,)."""
        return self.labels_.values[[self.labels_.index[y] for y in outputs]]

    def marginals(self, batch: MulticlassBatch, w: Vector, temperature: Temperature) -> NDArray[np.float64]:
        """Return the class probabilities (n, S) at ε_y."""
        return pooled(self.scores(batch, w), temperature.output)[1]

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return the costs Δ(y_i, ŷ_i)."""
        return self.costs_[self.labels_.encode(self._labels(Y_true)), self.labels_.encode(self._labels(Y_pred))]

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the accuracy."""
        right = self.labels_.encode(self._labels(Y_true)) == self.labels_.encode(self._labels(Y_pred))
        return float(np.average(right, weights=sample_weight))
