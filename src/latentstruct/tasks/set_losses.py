"""Losses that judge a whole set of two-class examples at once, each with its loss-augmented argmax.

All answers have one form: coefficients (n,) of the examples and a loss. The feature vector of the chosen output is
Σ_i coefficients[i]·x_i, so that its score is the product of coefficients and scores.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Mode
from latentstruct.exceptions import InputError
from latentstruct.kernels.measures import (
    best_f_table,
    best_places,
    best_selection,
    count_placed,
    count_swapped,
    label_highest,
)
from latentstruct.metrics.measures import check_beta, error_rate, f_beta, prbep, recall_at_k, roc_area
from latentstruct.metrics.ranking import average_precision, precision_at_k
from latentstruct.ragged import Indices, Vector
from latentstruct.short_repr import show

Truth = NDArray[np.bool_]


@dataclass(frozen=True)
class TwoClasses:
    """Which of n examples are positive.

    Attributes
    ----------
    positives : ndarray of shape (p,)
        Rows of the positive examples.
    negatives : ndarray of shape (q,)
        Rows of the others.
    listed : ndarray of shape (p + 1, q + 1), optional
        The losses of all tables, where a loss lists them.
    """

    positives: Indices
    negatives: Indices
    listed: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, truth: Truth) -> "TwoClasses":
        """Split the rows by their class."""
        return cls(np.flatnonzero(truth), np.flatnonzero(~truth))

    @property
    def p(self) -> int:
        """Number of positive examples."""
        return len(self.positives)

    @property
    def q(self) -> int:
        """Number of negative examples."""
        return len(self.negatives)

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.p + self.q

    def spread(self, positive: Any, negative: Any) -> Vector:
        """Return the coefficients (n,) from those of both classes, each a number or an array."""
        coefficients = np.empty(self.n)
        coefficients[self.positives], coefficients[self.negatives] = positive, negative
        return coefficients

    def sorted(self, scores: Vector) -> "TwoClasses":
        """Return the rows of each class in descending order of their scores."""
        positives, negatives = (rows[np.argsort(scores[rows])[::-1]] for rows in (self.positives, self.negatives))
        return TwoClasses(positives, negatives, self.listed)

    def pair_coefficients(self, before: Indices, after: Indices) -> Vector:
        """Return the coefficients (n,) of a ranking.

        Each positive has `before` negatives before it, and each negative `after` positives after it.
        """
        pairs = self.p * self.q
        return self.spread(0.5 / self.p - before / pairs, after / pairs - 0.5 / self.q)


class SetLoss:
    """A loss Δ of a whole set.

    `ranks` tells whether only the order of the scores counts, so that a constant added to all of them changes nothing.
    """

    ranks = False

    def prepared(self, classes: TwoClasses) -> TwoClasses:
        """Return the classes of a set to train on; raise InputError if the loss cannot be used on it."""
        return classes

    def augmented(self, classes: TwoClasses, scores: Vector) -> tuple[Vector, float]:
        """Return coefficients and loss of the output of the highest loss and score together."""
        raise TypeError(f"{type(self).__name__} does not define augmented()")

    def free(self, classes: TwoClasses | None, scores: Vector) -> Vector:
        """Return the coefficients of the output of the highest score."""
        return np.where(scores > 0.0, 0.5, -0.5) / len(scores)

    def clamped(self, classes: TwoClasses) -> Vector:
        """Return the coefficients of the true output."""
        return classes.spread(0.5 / classes.n, -0.5 / classes.n)

    def answer(self, classes: TwoClasses | None, scores: Vector, mode: Mode) -> tuple[Vector, float]:
        """Return coefficients and loss of the output that a mode chooses."""
        if mode == "free":
            return self.free(classes, scores), 0.0
        assert classes is not None
        return self.augmented(classes, scores) if mode == "augmented" else (self.clamped(classes), 0.0)

    def threshold(self, classes: TwoClasses, scores: Vector) -> float:
        """Return the score above which an example is to be called positive, by the scores of the training examples."""
        return 0.0

    def quality(self, truth: Truth, found: Any) -> float:
        """Return the measure of predicted marks (n,), or of scores (n,) where `ranks`."""
        raise TypeError(f"{type(self).__name__} does not define quality()")

    def lost(self, truth: Truth, found: Any) -> float:
        """Return Δ of predicted marks (n,), or of scores (n,) where `ranks`."""
        return 1.0 - self.quality(truth, found)


@dataclass(frozen=True)
class Ordered:
    """The scores of both classes in descending order, and the sums of the highest ones over n."""

    positives: Vector
    negatives: Vector
    positive_sums: Vector
    negative_sums: Vector

    @classmethod
    def of(cls, classes: TwoClasses, scores: Vector) -> "Ordered":
        """Sort the scores of each class."""
        lists = [np.ascontiguousarray(np.sort(scores[rows])[::-1]) for rows in (classes.positives, classes.negatives)]
        return cls(*lists, *(np.append(0.0, np.cumsum(values)) / classes.n for values in lists))

    def labelled(self, classes: TwoClasses, scores: Vector, a: int, b: int) -> Vector:
        """Return the coefficients ±1/2n of the labelling that takes the best `a` positives and `b` negatives."""
        coefficients, half = np.empty(classes.n), 0.5 / classes.n
        label_highest(scores, classes.positives, self.positives, a, half, -half, coefficients)
        label_highest(scores, classes.negatives, self.negatives, b, half, -half, coefficients)
        return coefficients


def cuts_after(descending: Vector, counts: Any) -> Any:
    """Return thresholds between the `counts` highest scores and the others; among tied scores, the tied score itself.

    Those above and below all scores keep a distance from them, because scores that are computed again, for instance
    row by row, may be rounded otherwise.
    """
    distance = max(1e-9 * float(np.abs(descending[[0, -1]]).max()), 1e-300)
    taken = np.append(descending[0] + 2.0 * distance, descending)[counts]
    left = np.append(descending, descending[-1] - 2.0 * distance)[counts]
    middle = left + 0.5 * (taken - left)
    # The middle of two neighbouring numbers may be rounded to the upper one, which would then be left out.
    return np.where(middle < taken, middle, left)


class TableBased(SetLoss):
    """A loss of the contingency table that every labelling has."""

    def tables(self, a: Indices, b: Indices, classes: TwoClasses) -> Vector:
        """Return the losses (m,) of tables with `a` and b of shape (m,)."""
        raise TypeError(f"{type(self).__name__} does not define tables()")

    def threshold(self, classes: TwoClasses, scores: Vector) -> float:
        """Return the threshold of the lowest loss; of several that which is nearest to 0, or 0 itself."""
        order = np.argsort(-scores, kind="stable")
        descending, hits = scores[order], classes.spread(1, 0)[order].astype(np.int64)
        a = np.append(0, np.cumsum(hits))
        counts = np.flatnonzero(np.append(np.append(True, descending[:-1] > descending[1:]), True))
        losses = self.tables(a[counts], counts - a[counts], classes)
        best = counts[losses <= losses.min() + 1e-12]
        if int((scores > 0.0).sum()) in best:
            return 0.0
        cuts = cuts_after(descending, best)
        return float(cuts[np.abs(cuts).argmin()])


@dataclass(frozen=True)
class FBeta(TableBased):
    """Δ = 1 − F_β = 1 − (1 + β²)a / (β²p + a + b)."""

    beta: float = 1.0

    def __post_init__(self) -> None:
        check_beta(self.beta)

    def augmented(self, classes: TwoClasses, scores: Vector) -> tuple[Vector, float]:
        """Try each `a` with its best b: O(n log n)."""
        ordered = Ordered.of(classes, scores)
        a, b = best_f_table(ordered.positive_sums, ordered.negative_sums, float(self.beta) ** 2)
        return ordered.labelled(classes, scores, a, b), float(self.tables(a, b, classes))

    def tables(self, a: Any, b: Any, classes: TwoClasses) -> Any:
        """Return the losses of tables."""
        square = float(self.beta) ** 2
        return 1.0 - (1.0 + square) * a / (square * classes.p + a + b)

    def quality(self, truth: Truth, found: Any) -> float:
        """Return F_β."""
        return f_beta(truth, found, self.beta)

    def lost(self, truth: Truth, found: Any) -> float:
        """Return Δ; there is none if nothing is and nothing is predicted positive."""
        return 1.0 - self.quality(truth, found) if truth.any() or np.any(found) else 0.0


@dataclass(frozen=True)
class ErrorRate(SetLoss):
    """Δ = (b + c)/n: the sum over the examples is the mean hinge loss."""

    def augmented(self, classes: TwoClasses, scores: Vector) -> tuple[Vector, float]:
        """Decide example by example, without sorting."""
        truth = classes.spread(1.0, -1.0)
        wrong = truth * scores < 1.0
        return np.where(wrong, -truth, truth) * (0.5 / classes.n), int(wrong.sum()) / classes.n

    def quality(self, truth: Truth, found: Any) -> float:
        """Return the accuracy."""
        return 1.0 - error_rate(truth, found)


@dataclass(frozen=True)
class Selection(SetLoss):
    """Losses of the outputs that call exactly K examples positive: Δ = (min(K, p) − a) / (K or p).

    K is k, or the share k of all examples, or p for the break-even point. Where K differs from p no output is the true
    one: all outputs without loss are equally true then, and their mean is the clamped side. So a constant added to all
    scores changes nothing, the slack is never negative, and it bounds the loss from above.
    """

    k: int | float | None = None
    of_positives: bool = False
    ranks = True

    def __post_init__(self) -> None:
        k = self.k
        whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool) and k >= 1
        share = isinstance(k, (float, np.floating)) and 0.0 < k < 1.0
        if not (k is None or whole or share):
            raise InputError(
                f"k is {show(k)}; expected a whole number of at least 1, or a share of all examples between 0 and 1: "
                "choose how many examples count"
            )

    def size(self, classes: TwoClasses) -> int:
        """Return K."""
        if self.k is None:
            return classes.p
        return self._size(classes.n)

    def _size(self, n: int) -> int:
        assert self.k is not None
        size = max(1, round(self.k * n)) if isinstance(self.k, (float, np.floating)) else int(self.k)
        if size > n:
            raise InputError(
                f"k is {self.k}, but there are {n} examples only; expected k of at most {n}: choose a smaller one, or "
                "a share such as k=0.1"
            )
        return size

    def prepared(self, classes: TwoClasses) -> TwoClasses:
        """Raise if there are fewer than K examples."""
        self.size(classes)
        return classes

    def _price(self, classes: TwoClasses) -> float:
        return 1.0 / (classes.p if self.of_positives else self.size(classes))

    def augmented(self, classes: TwoClasses, scores: Vector) -> tuple[Vector, float]:
        """Try each `a` with b = K − a."""
        ordered, size, price = Ordered.of(classes, scores), self.size(classes), self._price(classes)
        a = best_selection(ordered.positive_sums, ordered.negative_sums, size, price)
        return ordered.labelled(classes, scores, a, size - a), (min(size, classes.p) - a) * price

    def free(self, classes: TwoClasses | None, scores: Vector) -> Vector:
        """Return the coefficients of the K highest scores."""
        if classes is None and self.k is None:
            raise InputError(
                "the batch has no classes, but how many examples the break-even point takes is known from them only: "
                "prepare the batch with Y"
            )
        size = self._size(len(scores)) if classes is None else self.size(classes)
        coefficients = np.full(len(scores), -0.5 / len(scores))
        coefficients[np.argsort(-scores, kind="stable")[:size]] *= -1.0
        return coefficients

    def clamped(self, classes: TwoClasses) -> Vector:
        """Return the mean coefficients of the outputs without loss."""
        size = self.size(classes)
        positives, negatives = min(1.0, size / classes.p), max(0.0, (size - classes.p) / max(classes.q, 1))
        return classes.spread(positives - 0.5, negatives - 0.5) / classes.n

    def threshold(self, classes: TwoClasses, scores: Vector) -> float:
        """Return the threshold above which K examples are."""
        return float(cuts_after(-np.sort(-scores), self.size(classes)))

    def quality(self, truth: Truth, found: Any) -> float:
        """Return the share of positives among the K highest scores, or of the K highest scores among positives."""
        if self.k is None:
            return prbep(truth, found)
        measure = recall_at_k if self.of_positives else precision_at_k
        return measure(truth, found, self._size(len(truth)))

    def lost(self, truth: Truth, found: Any) -> float:
        """Return how much the best ranking would have more."""
        return max(0.0, self.quality(truth, truth.astype(np.float64)) - self.quality(truth, found))


@dataclass(frozen=True)
class RocArea(SetLoss):
    """Δ = swapped pairs / pq, with the features (1/2pq) Σ_{pairs} ±(x_i − x_j): the mean hinge loss of the pairs."""

    ranks = True

    def _coefficients(self, classes: TwoClasses, scores: Vector, margin: float) -> tuple[Vector, int]:
        ranked = classes.sorted(scores)
        before, after = np.empty(ranked.p, dtype=np.int64), np.empty(ranked.q, dtype=np.int64)
        swapped = count_swapped(scores[ranked.positives], scores[ranked.negatives], margin, before, after)
        return ranked.pair_coefficients(before, after), swapped

    def augmented(self, classes: TwoClasses, scores: Vector) -> tuple[Vector, float]:
        """Swap each pair that is apart by less than 1: O(n log n)."""
        coefficients, swapped = self._coefficients(classes, scores, 1.0)
        return coefficients, swapped / (classes.p * classes.q)

    def free(self, classes: TwoClasses | None, scores: Vector) -> Vector:
        """Return the coefficients of the order by scores."""
        if classes is None:
            raise InputError(
                "the batch has no classes, but the pairs of examples are known from them only: prepare the batch with Y"
            )
        return self._coefficients(classes, scores, 0.0)[0]

    def clamped(self, classes: TwoClasses) -> Vector:
        """Return the coefficients of all positives before all negatives."""
        return classes.spread(0.5 / classes.p, -0.5 / classes.q)

    def threshold(self, classes: TwoClasses, scores: Vector) -> float:
        """Return the threshold above which as many examples are as are positive."""
        return float(cuts_after(-np.sort(-scores), classes.p))

    def quality(self, truth: Truth, found: Any) -> float:
        """Return the area under the ROC curve."""
        return roc_area(truth, found)


@dataclass(frozen=True)
class AveragePrecision(RocArea):
    """Δ = 1 − average precision, with the features of `RocArea`."""

    def augmented(self, classes: TwoClasses, scores: Vector) -> tuple[Vector, float]:
        """Place each negative best among the positives: O(n log n)."""
        ranked = classes.sorted(scores)
        places, before = np.empty(ranked.q, dtype=np.int64), np.empty(ranked.p, dtype=np.int64)
        # Summed in more digits, because differences of harmonic numbers are multiplied by up to n.
        harmonic = np.append(0.0, np.cumsum(1.0 / np.arange(1, classes.n + 1, dtype=np.longdouble))).astype(np.float64)
        best_places(scores[ranked.positives], scores[ranked.negatives], harmonic, 1.0 / ranked.p, places)
        precision = count_placed(places, before)
        return ranked.pair_coefficients(before, ranked.p - places), 1.0 - precision

    def quality(self, truth: Truth, found: Any) -> float:
        """Return the average precision."""
        return average_precision(truth, found)

    def lost(self, truth: Truth, found: Any) -> float:
        """Return Δ; there is none if nothing is positive, so that no order is better than another."""
        return 1.0 - self.quality(truth, found) if truth.any() else 0.0
