"""Precision, recall and F1 by counts."""

from collections import Counter
from dataclasses import dataclass
from typing import Self

__all__ = ["FoundScore"]


@dataclass(frozen=True)
class FoundScore:
    """Scores of a set of predicted items, such as the chunks of a text.

    The ratios lie between 0 and 1, and are 0 if the denominator is.
    """

    precision: float  # the fraction n_correct / n_predicted of the predicted items that are true
    recall: float  # the fraction n_correct / n_true of the true items that were predicted
    f1: float  # the harmonic mean 2 n_correct / (n_true + n_predicted) of precision and recall
    # The numbers of items.
    n_true: int
    n_predicted: int
    n_correct: int

    @classmethod
    def of_counts(cls, n_true: int, n_predicted: int, n_correct: int) -> Self:
        """Return the scores of these counts."""
        precision = n_correct / n_predicted if n_predicted else 0.0
        recall = n_correct / n_true if n_true else 0.0
        f1 = 2 * n_correct / (n_true + n_predicted) if n_correct else 0.0
        return cls(precision, recall, f1, n_true, n_predicted, n_correct)

    @classmethod
    def of_each(cls, n_true: Counter[str], n_predicted: Counter[str], n_correct: Counter[str]) -> dict[str, Self]:
        """Return the scores of each name in truth or prediction, in alphabetical order."""
        names = sorted(n_true.keys() | n_predicted.keys())
        return {name: cls.of_counts(n_true[name], n_predicted[name], n_correct[name]) for name in names}
