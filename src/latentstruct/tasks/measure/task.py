"""Two classes, trained for a measure of the whole set: F1, ROC area, precision at k and others."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.measures import add_selected_rows
from latentstruct._native.rows import add_rows_transposed
from latentstruct.core.formatting import repr_short
from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.protocols import ArrayPredictions, Mode, Pooled, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import check_parameters, function, options, real
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Slopes
from latentstruct.tasks.base import check_examples, require_hard_max, require_labels
from latentstruct.tasks.chosen_loss import ChosenLossTask
from latentstruct.tasks.inputs import BIAS, check_matrix, with_own_indices
from latentstruct.tasks.labels import LabelSet, LearnedLabels, label_list
from latentstruct.tasks.measure import set_losses
from latentstruct.tasks.measure.set_losses import SetLoss, Truth, TwoClasses
from latentstruct.tasks.rows import check_rows

MEASURES: dict[str, Callable[[Any, Any], SetLoss]] = {
    "f1": lambda beta, k: set_losses.FBeta(),
    "fbeta": lambda beta, k: set_losses.FBeta(beta),
    "prbep": lambda beta, k: set_losses.Selection(),
    "precision@k": lambda beta, k: set_losses.Selection(k),
    "recall@k": lambda beta, k: set_losses.Selection(k, of_positives=True),
    "rocarea": lambda beta, k: set_losses.RocArea(),
    "average_precision": lambda beta, k: set_losses.AveragePrecision(),
    "error": lambda beta, k: set_losses.ErrorRate(),
}
"""Losses by name, as functions of β and k."""
# Share of rows that differ from the true labels below which only these are added up.
FEW_ROWS = 0.5
# Weights, and the planes of training, are dense: 0.8 GB each.
MOST_INPUTS = 100_000_000


@dataclass
class MeasureBatch:
    """Inputs (n, d) and which of them are positive. All rows together are one example."""

    matrix: "NDArray[np.float64] | sparse.csr_array"
    loss: SetLoss
    classes: TwoClasses | None
    n_examples: int = 1

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.matrix.shape[0]

    @property
    def labeled(self) -> bool:
        """Whether the classes are known."""
        return self.classes is not None

    @cached_property
    def truth(self) -> tuple[Vector, Vector]:
        """Coefficients (n,) of the true output, and their product with the inputs (d,)."""
        assert self.classes is not None
        coefficients = self.loss.clamped(self.classes)
        return coefficients, self.matrix.T @ coefficients

    @cached_property
    def compressed(self) -> tuple[Indices, NDArray[np.int32], Vector]:
        """Row pointers, features and values of a sparse matrix, in the types that kernels are compiled for."""
        matrix: Any = self.matrix
        return matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False), matrix.data

    def transposed_times(self, coefficients: Vector) -> Vector:
        """Return Xᵀ coefficients, (d,); few rows differ from the true output once something is learned."""
        if self.classes is None:
            return self.matrix.T @ coefficients
        known, product = self.truth
        difference = coefficients - known
        chosen = np.flatnonzero(difference)
        if len(chosen) > FEW_ROWS * len(difference):
            return self.matrix.T @ coefficients
        slope = product.copy()
        if issparse(self.matrix):
            add_rows_transposed(self.compressed, chosen, difference[chosen, None], slope[:, None])
        else:
            add_selected_rows(self.matrix, chosen, difference, slope)
        return slope


class MeasureState(TypedDict):
    """What `Measure` learns, as stored in files."""

    labels: tuple[Any, Any]
    n_inputs: int
    threshold: float


class Measure(LearnedLabels, ChosenLossTask):
    """Two classes, trained for a measure of the whole set: SVM^perf.

    All rows together are one example: x = (x_1, …, x_n), y ∈ {−1, +1}^n, and the loss Δ(y, ȳ) may be any function of
    the contingency table, or of the ranking. With `StructuralSVM` the objective is

        ½‖w‖² + C · max_ȳ [Δ(y, ȳ) + w·Ψ(x, ȳ) − w·Ψ(x, y)],    Ψ(x, ȳ) = (1/2n) Σ_i ȳ_i x_i,

    so that ``loss="error"`` is the linear SVM with the mean hinge loss: its C is n times that of scikit-learn's. The
    result is an ordinary two-class classifier with `decision_function`, `predict` and `classes_`.

    Parameters
    ----------
    loss : str or callable, default="f1"
        With a, b, c, d the true and false positives, the false and true negatives:

        - "f1" and "fbeta": 1 − (1 + β²)a / ((1 + β²)a + b + β²c);
        - "error": (b + c)/n;
        - "prbep", the break-even point of precision and recall: 1 − a/n₊ over the outputs with a + b = n₊;
        - "precision@k" and "recall@k": (min(k, n₊) − a) / k or / n₊ over the outputs with a + b = k;
        - "rocarea": the share of pairs of a positive and a negative row that are swapped;
        - "average_precision": 1 − average precision;
        - a function of (a, b, c, d), numbers or arrays of them, that is 0 for the true labels and never below 0. On
          more than four million tables it must not increase with a nor decrease with b. Such a model cannot be saved.
    beta : float, default=1.0
        β of "fbeta": weight of recall relative to precision.
    k : int or float, optional
        Number of selected rows of "precision@k" and "recall@k"; a number between 0 and 1 is a share of all rows.
    positive : label, optional
        The positive class; by default the second of the two in their order, as in scikit-learn.
    bias : float, default=1.0
        Value of a constant feature; 0 for none. Its weight is the last one, regularized as all others. Losses of
        rankings ("prbep", "precision@k", "recall@k", "rocarea", "average_precision") have none, see below.
    threshold : float, optional
        Score above which a row is predicted positive. By default it is set after training, see below; 0 is that of
        SVM^perf.

    Notes
    -----
    X is a matrix (n, d), dense or sparse; Y has one of two labels per row. Only the hard max is available. Rows cannot
    be weighted: the set is one example.

    The worst output is found exactly, in O(n log n) except for functions. For rankings
    Ψ = (1/(2 n₊ n₋)) Σ_{i positive, j negative} ±(x_i − x_j), + where i is ranked before j. Where k is not n₊ no output
    of "precision@k" and "recall@k" is the true one, and the mean of all outputs without loss takes its place. For
    k far below n₊ `PrecisionAtK` with `LatentSSVM` is better: training chooses which positives come first.

    After training a threshold is set by the scores of the training rows. For rankings the number of positive
    predictions is that of the loss: k, or else n₊, where precision and recall are the same. F_β and functions of the
    table use the threshold of the lowest loss, and 0 if it is as good: if positives are rare, 0 predicts far too many
    rows. For "error" it is 0.

    C weights the loss of the whole set, in [0, 1] for all named ones, so that it must grow with the set:
    `suggest_C` returns an initial value, n²/n₊ for F1. If C is far too small all weights stay 0, with a
    warning. With few positives and overlapping classes they stay 0 for any C: the slack of F_β is at least 1, that of
    w = 0, unless the scores of all positives sum to more than those of the negatives above 0 (for "prbep", of the n₊
    highest negatives). "rocarea" has no such condition.

    `score` is the measure itself, computed from scores for rankings and from predictions otherwise.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from latentstruct import Measure, StructuralSVM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), StructuralSVM(Measure("f1"), C=1e3)).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    state_type = MeasureState
    tags = TaskTags(classifier=True, binary=True, row_examples=True, single_example=True)
    constraints: ClassVar = {"bias": BIAS, "threshold": real() | None}

    def __init__(
        self,
        loss: str | Callable[..., Any] = "f1",
        beta: float = 1.0,
        k: int | float | None = None,
        positive: Any = None,
        bias: float = 1.0,
        threshold: float | None = None,
    ) -> None:
        self.chosen_loss = loss
        self.beta = beta
        self.k = k
        self.positive = positive
        self.bias = bias
        self.threshold = threshold

    def _make_loss(self) -> SetLoss:
        if callable(self.chosen_loss):
            return set_losses.TableLoss(self.chosen_loss)
        (options(*MEASURES) | function).check(self.chosen_loss, "loss")
        if self.chosen_loss in ("precision@k", "recall@k") and self.k is None:
            raise InputError("k", None, f"a number or a share of rows for `loss`={repr_short(self.chosen_loss)}")
        return MEASURES[self.chosen_loss](self.beta, self.k)

    def learn(self, X: Any, Y: Any) -> None:
        """Find the two classes and the number of inputs."""
        check_examples(X, Y, rows=True)
        labels = LabelSet.learn(label_list(Y))
        if len(labels) != 2:
            hint = "Compare with one class such as y == 'spam', or use Multiclass." if len(labels) > 2 else None
            raise InputError("Y", labels.labels, "labels of two classes", hint)
        n_inputs = check_matrix(X, "X").shape[1]
        if not 1 <= n_inputs <= MOST_INPUTS:
            raise InputError("X", Description(f"{n_inputs} features"), f"rows with 1 to {MOST_INPUTS} features")
        self._set(labels, n_inputs, 0.0)

    def _set(self, labels: LabelSet, n_inputs: int, threshold: float) -> None:
        check_parameters(self)
        self.labels_, self.n_inputs_, self.threshold_ = labels, n_inputs, threshold
        self.loss_ = self._make_loss()
        try:
            self.positive_ = 1 if self.positive is None else labels.number(self.positive)
        except InputError as error:
            known = " or ".join(map(repr_short, labels.labels))
            raise InputError("positive", self.positive, f"one of the labels {known}") from error
        self.biased_ = bool(self.bias) and not self.loss_.ranks
        self.n_features = n_inputs + self.biased_

    def learned_state(self) -> dict[str, Any]:
        """Return what `learn` found, which fixes the meaning of the weights."""
        return {"labels": self.labels_.labels, "n_inputs": self.n_inputs_}

    def state(self) -> dict[str, Any]:
        """Return what `learn` and `finalize` found, for saving."""
        return {**self.learned_state(), "threshold": self.threshold_}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` and `finalize` found."""
        self._set(LabelSet(state["labels"]), int(state["n_inputs"]), float(state["threshold"]))

    def comparable_C(self, Y: Any) -> float:
        """Return the C that `suggest_C` suggests."""
        from latentstruct.metrics.strengths import suggest_C

        labels = label_list(Y)
        positive = max(labels) if self.positive is None else self.positive
        n, n_positive = len(labels), sum(label == positive for label in labels)
        k = None if self.k is None else min(n, self.k if isinstance(self.k, int) else max(1, round(self.k * n)))
        return suggest_C("f1" if callable(self.chosen_loss) else self.chosen_loss, n, max(n_positive, 1), k)

    def _truth(self, Y: Any) -> Truth:
        return self.labels_.encode(label_list(Y)) == self.positive_

    def prepare(self, X: Any, Y: Any = None) -> MeasureBatch:
        check_examples(X, Y, rows=True)
        matrix = with_own_indices(check_rows(X, self.n_inputs_, "X"))
        if Y is None:
            return MeasureBatch(matrix, self.loss_, None)
        truth = self._truth(Y)
        if truth.all() or not truth.any():
            raise InputError("Y", Description(f"{len(truth)} labels of one class"), "labels of both classes")
        return MeasureBatch(matrix, self.loss_, self.loss_.prepared(TwoClasses.of(truth)))

    def row_scores(self, batch: MeasureBatch, w: Vector) -> Vector:
        """Return w·x_i of each row, (n,), above 0 for the positive class; the threshold of rankings is not used."""
        scores = batch.matrix @ w[: self.n_inputs_]
        if self.biased_:
            scores += self.bias * w[-1]
        return scores

    def finalize(self, batch: MeasureBatch, w: Vector) -> None:
        """Set the threshold once the weights are trained."""
        self.settle_scores(batch, self.row_scores(batch, w))

    def settle_scores(self, batch: MeasureBatch, scores: Vector) -> None:
        """Set the threshold by the scores of the training rows, (n,)."""
        require_labels(batch, "clamped")
        assert batch.classes is not None
        given = self.threshold
        self.threshold_ = self.loss_.threshold(batch.classes, scores) if given is None else float(given)

    def scores(self, batch: MeasureBatch, w: Vector) -> Vector:
        """Return the scores (n,) above the threshold: above 0 for the second of `classes_`, as in scikit-learn."""
        return self._turned(self.row_scores(batch, w) - self.threshold_)

    def _turned(self, scores: Vector) -> Vector:
        """Turn scores of the second class into those of the positive class, or back."""
        return scores if self.positive_ == 1 else -scores

    def answer(self, batch: MeasureBatch, scores: Vector, mode: Mode) -> tuple[Vector, float]:
        """Return the coefficients c (n,) of the rows and the loss of the output that a mode chooses.

        Its features are Ψ = Σ_i c_i x_i, and Σ_i c_i·bias for the constant feature; `scores` are those of `row_scores`.
        """
        require_labels(batch, mode)
        if mode == "free":
            return self.loss_.free(batch.classes, scores), 0.0
        assert batch.classes is not None
        if mode == "clamped":
            return self.loss_.clamped(batch.classes), 0.0
        return self.loss_.augmented(batch.classes, scores)

    def pool_batch(self, batch: MeasureBatch, query: Query) -> Pooled:
        scores = self.row_scores(batch, query.w)
        coefficients, loss = self.answer(batch, scores, query.mode)
        slope, times = batch.transposed_times(coefficients), np.ones(len(query.examples(batch)))
        if self.biased_:
            slope = np.append(slope, self.bias * coefficients.sum())
        if query.weights is not None:
            slopes: Any = float(query.weights.sum()) * slope
        else:
            slopes = Slopes.from_matrix(np.outer(times, slope) if len(times) != 1 else slope[None])
        return Pooled((loss + float(coefficients @ scores)) * times, slopes, loss * times)

    def decode(self, batch: MeasureBatch, w: Vector, temperature: Temperature) -> ArrayPredictions:
        """Return the class of each row: the positive one if its score is above the threshold."""
        require_hard_max(self, temperature)
        scores = self.row_scores(batch, w) - self.threshold_
        numbers = np.where(scores > 0.0, self.positive_, 1 - self.positive_)
        return ArrayPredictions(self.labels_.decode(numbers), None, scores)

    def collect(self, outputs: list[Any]) -> NDArray:
        return self.labels_.values[self.labels_.encode(outputs)]

    @property
    def scores_ranking(self) -> bool:
        """Whether `loss` and `score` are computed from scores (those of `scores`) and not from predicted classes."""
        return self.loss_.ranks

    def _found(self, Y_true: Any, Y_pred: Any) -> tuple[Truth, Any]:
        check_examples(Y_true, Y_pred)
        truth = self._truth(Y_true)
        if not self.scores_ranking:
            return truth, self._truth(Y_pred)
        return truth, self._turned(check_matrix(np.asarray(Y_pred)[:, None], "scores")[:, 0])

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return Δ of the set, (1,), by true and predicted classes, or by scores where `scores_ranking`."""
        return np.array([self.loss_.lost(*self._found(Y_true, Y_pred))])

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the measure itself: 1 − loss, or precision and recall at k as they are; see `loss`."""
        if sample_weight is not None:
            raise InputError("sample_weight", sample_weight, "None because the whole set is one example")
        return self.loss_.quality(*self._found(Y_true, Y_pred))
