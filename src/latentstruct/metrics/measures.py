"""Quality of a two-class classifier as a whole: by its contingency table, or by the order of its scores.

Examples with equal scores have no order. Every measure of scores is its exact mean over all orders of
tied examples, so that the order of a file has no effect. An example at the threshold is negative.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.types import Vector
from latentstruct.core.validation import Constraint, array_of, check_length, check_shape, numbers_of, real
from latentstruct.exceptions import Description, InputError
from latentstruct.metrics.ranking import average_precision, precision_at_k

__all__ = ["Contingency", "contingency", "error_rate", "f_beta", "measure_scores", "prbep", "recall_at_k", "roc_area"]


class Contingency(NamedTuple):
    """Counts of each true class with each predicted class.

    Parameters
    ----------
    a, b, c, d : int
        True positives, false positives (predicted positive, truly negative), false negatives, true negatives.
    """

    a: int
    b: int
    c: int
    d: int

    @property
    def precision(self) -> float:
        """The fraction a / (a + b) of the predicted positives that are positive; 0 if there are none."""
        return self.a / (self.a + self.b) if self.a + self.b else 0.0

    @property
    def recall(self) -> float:
        """The fraction a / (a + c) of the positives that are found; 0 if there are none."""
        return self.a / (self.a + self.c) if self.a + self.c else 0.0

    @property
    def error_rate(self) -> float:
        """The fraction (b + c) / n of wrong predictions; 0 of none."""
        return (self.b + self.c) / sum(self) if sum(self) else 0.0

    def f_beta(self, beta: float = 1.0) -> float:
        """Return (1 + β²) a / ((1 + β²) a + b + β² c), 0 if there are no true or predicted positives."""
        square = check_beta(beta) ** 2
        total = (1.0 + square) * self.a + self.b + square * self.c
        return (1.0 + square) * self.a / total if total else 0.0


def check_beta(beta: Any) -> float:
    """Return β; raise unless it is positive and finite."""
    # The square must be positive and finite as well.
    Constraint(real(1e-150, 1e150).accepts, "a finite number above 0").check(beta, "beta")
    return float(beta)


def _positives(y: Any, name: str) -> NDArray[np.bool_]:
    """Return truth or prediction as booleans."""
    found = array_of(y, name)
    if found.ndim != 1 or (found.dtype.kind != "b" and not np.isin(found, (0, 1)).all()):
        got, expected = (
            Description(f"{found.dtype} of shape {found.shape}"),
            "one boolean per example, True if positive",
        )
        raise InputError(name, got, expected, "Compare labels with the positive one, such as y == 'spam'.")
    return found.astype(bool)


def _truth_and_scores(y: Any, scores: Any) -> tuple[NDArray[np.bool_], Vector]:
    """Return truth and scores of the same length."""
    truth, values = _positives(y, "y"), numbers_of(scores, "scores")
    check_shape(values, truth.shape, "scores", "one score per example")
    for wrong in np.flatnonzero(~np.isfinite(values))[:1]:
        raise InputError(f"scores[{wrong}]", values[wrong], "finite")
    return truth, values


def contingency(y_true: Any, y_pred: Any) -> Contingency:
    """Count the examples of each true class with each predicted class.

    Parameters
    ----------
    y_true, y_pred : bool array of shape (n,)
        Whether an example is positive, and whether it is predicted to be; 0 and 1 are accepted.

    Returns
    -------
    Contingency
        (a, b, c, d): true positives, false positives, false negatives, true negatives.
    """
    truth, predicted = _positives(y_true, "y_true"), _positives(y_pred, "y_pred")
    check_length(predicted, len(truth), "y_pred", "labels")
    a, n_positive, n_predicted = int((truth & predicted).sum()), int(truth.sum()), int(predicted.sum())
    return Contingency(a, n_predicted - a, n_positive - a, len(truth) - n_positive - n_predicted + a)


def f_beta(y_true: Any, y_pred: Any, beta: float = 1.0) -> float:
    """Return F_β = (1 + β²) a / ((1 + β²) a + b + β² c).

    Parameters
    ----------
    y_true, y_pred : bool array of shape (n,)
        Whether an example is positive, and whether it is predicted to be.
    beta : float, default=1.0
        Weight of recall relative to precision.

    Returns
    -------
    float
        In [0, 1]; 0 if there are no true and no predicted positives.
    """
    return contingency(y_true, y_pred).f_beta(beta)


def error_rate(y_true: Any, y_pred: Any) -> float:
    """Return the fraction (b + c) / n of wrong predictions.

    Parameters
    ----------
    y_true, y_pred : bool array of shape (n,)
        Whether an example is positive, and whether it is predicted to be.

    Returns
    -------
    float
        In [0, 1].
    """
    return contingency(y_true, y_pred).error_rate


def recall_at_k(y: Any, scores: Any, k: int) -> float:
    """Return the fraction of all positives that is among the k examples of the highest scores.

    Parameters
    ----------
    y : bool array of shape (n,)
        Whether an example is positive.
    scores : array of shape (n,)
        Higher is more likely positive; ties are averaged over all orders.
    k : int
        Number of highest-scored examples; all of them if there are fewer.

    Returns
    -------
    float
        In [0, 1]; 0 without positives.
    """
    truth, values = _truth_and_scores(y, scores)
    found = precision_at_k(truth, values, k) * k
    return float(min(found / truth.sum(), 1.0)) if truth.any() else 0.0


def prbep(y: Any, scores: Any) -> float:
    """Return the break-even point of precision and recall: the precision of the n₊ examples of the highest scores.

    The numbers of predicted and true positives are equal, so that precision and recall are the same.

    Parameters
    ----------
    y : bool array of shape (n,)
        Whether an example is positive; n₊ are.
    scores : array of shape (n,)
        Higher is more likely positive; ties are averaged over all orders.

    Returns
    -------
    float
        In [0, 1]; 0 without positives.
    """
    truth, values = _truth_and_scores(y, scores)
    return precision_at_k(truth, values, int(truth.sum())) if truth.any() else 0.0


def roc_area(y: Any, scores: Any) -> float:
    """Return the area under the ROC curve: the fraction of (positive, negative) pairs in the right order, ties as half.

    With the mean ranks r of tied scores it is (Σ_{i positive} r_i − n₊(n₊ + 1)/2) / (n₊ n₋).

    Parameters
    ----------
    y : bool array of shape (n,)
        Whether an example is positive.
    scores : array of shape (n,)
        Higher is more likely positive.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InputError
        If there are no positives or no negatives, so that there is no pair.
    """
    truth, values = _truth_and_scores(y, scores)
    if truth.all() or not truth.any():
        got = Description(f"{truth.sum()} positive examples of {len(truth)}")
        raise InputError("y", got, "examples of both classes for the ROC area")
    return ordered_share(truth, values)


def ordered_share(truth: NDArray[np.bool_], values: Vector) -> float:
    """Return `roc_area` of examples of both classes, without validation."""
    n_positive = int(truth.sum())
    n_pairs = n_positive * (len(truth) - n_positive)
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * (counts - 1)
    return float(ranks[place[truth]].sum() - n_positive * (n_positive + 1) / 2) / n_pairs


def measure_scores(
    y_true: Any, scores: Any, threshold: float = 0.0, beta: float = 1.0, k: int | None = None
) -> dict[str, Any]:
    """Return all measures of a classifier by its scores.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        Whether an example is positive.
    scores : array of shape (n,)
        Higher is more likely positive.
    threshold : float, default=0.0
        Examples above it are predicted positive.
    beta : float, default=1.0
        A further F_β is given as ``fbeta`` if this is not 1.
    k : int, optional
        ``precision@k`` and ``recall@k`` are given if it is set.

    Returns
    -------
    dict
        ``n_examples``, ``contingency`` (a dict of a, b, c, d), ``error``, ``precision``, ``recall``, ``f1``,
        ``fbeta``, ``prbep``, ``rocarea``, ``average_precision``, ``precision@k``, ``recall@k`` with the number for k.
        What is not defined without positives, or without negatives, is None.
    """
    truth, values = _truth_and_scores(y_true, scores)
    real(closed="both").check(threshold, "threshold")
    table = contingency(truth, values > threshold)
    some = bool(truth.any())
    found: dict[str, Any] = {
        "n_examples": len(truth),
        "contingency": table._asdict(),
        "error": table.error_rate,
        "precision": table.precision,
        "recall": table.recall if some else None,
        "f1": table.f_beta() if some else None,
    }
    if check_beta(beta) != 1.0:
        found["fbeta"] = table.f_beta(beta) if some else None
    found["prbep"] = prbep(truth, values) if some else None
    found["rocarea"] = roc_area(truth, values) if some and not truth.all() else None
    found["average_precision"] = average_precision(truth, values) if some else None
    if k is not None:
        found[f"precision@{k}"] = precision_at_k(truth, values, k)
        found[f"recall@{k}"] = recall_at_k(truth, values, k) if some else None
    return found
