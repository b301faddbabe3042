"""Classes: one weight vector a class."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Mode, Prediction, Temperature
from latentstruct.exceptions import InputError
from latentstruct.kernels.planes import Atoms
from latentstruct.planes import Plane, Planes
from latentstruct.ragged import Indices, Vector
from latentstruct.tasks.base import BaseTask, check_examples, require_labels
from latentstruct.tasks.inputs import InputRows, check_bias, check_matrix
from latentstruct.tasks.labels import LabelSet, distinct_labels
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

    @staticmethod
    def _labels(Y: Any) -> list[Any]:
        if isinstance(Y, np.ndarray) and Y.ndim != 1:
            raise InputError(
                f"Y must have one dimension, one class for each example, found shape {Y.shape}: give a list of classes"
            )
        return Y.tolist() if isinstance(Y, np.ndarray) else list(Y)

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
        n_labels = len(self.labels_)
        scores = batch.inputs.times(w[: self.n_inputs_ * n_labels].reshape(-1, n_labels), rows)
        if self.bias_at_ >= 0:
            scores += self.bias * w[self.bias_at_ :]
        return scores

    def _mode_scores(self, batch: MulticlassBatch, w: Vector, mode: Mode, rows: Indices | None) -> NDArray:
        scores = self.scores(batch, w, rows)
        if mode == "augmented":
            assert batch.truth is not None
            scores += self.costs_[batch.truth if rows is None else batch.truth[rows]]
        return scores

    def _planes_of(
        self, batch: MulticlassBatch, rows: Indices, classes: NDArray[np.int64], offsets: Vector, values: Vector
    ) -> Planes:
        row, column = rows.astype(np.int32), classes.astype(np.int32)
        value = np.ones(len(rows))
        per_plane = 1
        if self.bias_at_ >= 0:
            per_plane = 2
            row = np.stack([row, np.full(len(rows), -1, dtype=np.int32)], axis=1).ravel()
            column = np.stack([column, (self.bias_at_ + classes).astype(np.int32)], axis=1).ravel()
            value = np.tile([1.0, float(self.bias)], len(rows))
        pointers = per_plane * np.arange(len(rows) + 1)
        return Planes(batch.inputs.rows, pointers, Atoms(row, column, value), offsets, values, self.n_features)

    def planes(
        self,
        batch: MulticlassBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        rows: Indices | None = None,
    ) -> Planes:
        """Return one supporting plane for each asked example."""
        require_labels(batch, mode)
        asked = np.arange(batch.n_examples) if rows is None else rows
        scores = self._mode_scores(batch, w, mode, rows)
        every = np.arange(len(asked))
        if mode == "clamped":
            truth = batch.classes(asked)
            return self._planes_of(batch, asked, truth, np.zeros(len(asked)), scores[every, truth])
        if temperature.output > 0:
            return self._soft_planes(batch, w, asked, scores, temperature.output)
        best = scores.argmax(axis=1)
        costs = self.costs_[batch.classes(asked), best] if mode == "augmented" else np.zeros(len(asked))
        return self._planes_of(batch, asked, best, costs, scores[every, best])

    def _soft_planes(
        self, batch: MulticlassBatch, w: Vector, asked: Indices, scores: NDArray, temperature: float
    ) -> Planes:
        n_labels = len(self.labels_)
        values, shares = pooled(scores, temperature)
        shares = shares.ravel()
        each = self._planes_of(
            batch,
            np.repeat(asked, n_labels),
            np.tile(np.arange(n_labels), len(asked)),
            np.zeros(len(shares)),
            np.zeros(len(shares)),
        ).scaled(shares)
        # The planes of one example's classes lie side by side: their sum only needs fewer pointers.
        each.pointers = each.pointers[::n_labels].copy()
        each.values = values
        each.offsets = np.zeros(len(asked))
        each.offsets = each.values - each.dot(w)
        return each

    def work(self, batch: MulticlassBatch, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each example takes, shape (n,)."""
        softness = 20.0 if temperature.output > 0 and mode != "clamped" else 5.0
        return np.full(batch.n_examples, len(self.labels_) * (batch.inputs.product_time + softness))

    def total(
        self,
        batch: MulticlassBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        weights: Vector,
        rows: Indices | None = None,
    ) -> Plane:
        """Return the weighted sum of the asked examples' planes."""
        if temperature.output == 0 or mode == "clamped":
            return super().total(batch, w, mode, temperature, weights, rows)
        values, shares = pooled(self._mode_scores(batch, w, mode, rows), temperature.output)
        shares *= weights[:, None]
        slope = np.zeros(self.n_features)
        block = slope[: self.n_inputs_ * len(self.labels_)].reshape(-1, len(self.labels_))
        batch.inputs.transposed_times(shares, block, rows)
        if self.bias_at_ >= 0:
            slope[self.bias_at_ :] = self.bias * shares.sum(axis=0)
        offset = float(weights @ values) - float(slope @ w)
        loss = 0.0
        if mode == "augmented":
            assert batch.truth is not None
            loss = float((shares * self.costs_[batch.truth if rows is None else batch.truth[rows]]).sum())
        return Plane(slope, offset, entropy=offset - loss)

    def slack_planes(self, batch: MulticlassBatch, w: Vector, rows: Indices) -> Planes:
        """Return the classes that maximise Δ·(1 + s − s_i), with offsets Δ."""
        scores, truth = self.scores(batch, w, rows), batch.classes(rows)
        every = np.arange(len(rows))
        costs = self.costs_[truth]
        product = costs * (1.0 + scores - scores[every, truth][:, None])
        best = product.argmax(axis=1)
        return self._planes_of(batch, rows, best, costs[every, best], product[every, best])

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
