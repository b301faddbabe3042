"""Losses of a whole set of two-class examples, each with its loss-augmented argmax.

All results have one form: coefficients (n,) of the examples and a loss. The feature vector of the chosen output is
Σ_i coefficients[i]·x_i, so that its score is the product of coefficients and scores. A table of an output has a true
and b false positives; p − a and q − b are false and true negatives.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import measures as kernels
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import as_reals, integer, real
from latentstruct.exceptions import Description, InputError
from latentstruct.metrics.measures import check_beta, contingency, error_rate, f_beta, prbep, recall_at_k, roc_area
from latentstruct.metrics.ranking import average_precision, precision_at_k

Truth = NDArray[np.bool_]
LISTED_TABLES = 4_000_000
"""Number of tables up to which all losses are listed (32 MB); for more, rectangles of tables are bounded."""
CHECKED = 33
"""Number of values per side of the grid of tables on which a function is checked."""
TOGETHER = 100_000
"""Number of rectangles that are bounded together, those of the highest bounds first."""
SELECTED = integer(1) | real(0.0, 1.0) | None
"""Values of k: a number of examples, a share of them, or None for the number of positives."""


@dataclass(frozen=True)
class TwoClasses:
    """Rows of the positive (p,) and the negative (q,) examples, and losses (p + 1, q + 1) where a loss lists them."""

    positives: Indices
    negatives: Indices
    listed: NDArray[np.float64] | None = None

    p = property(lambda self: len(self.positives), doc="Number of positive examples.")
    q = property(lambda self: len(self.negatives), doc="Number of negative examples.")
    n = property(lambda self: self.p + self.q, doc="Number of examples.")

    @classmethod
    def of(cls, truth: Truth) -> "TwoClasses":
        """Split the rows by their class."""
        return cls(np.flatnonzero(truth), np.flatnonzero(~truth))

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


def cuts_after(descending: Vector, counts: Any) -> Any:
    """Return thresholds between the `counts` highest scores and the others; among tied scores, the tied score itself.

    Thresholds above and below all scores keep a distance from them, because scores that are computed again, for
    instance row by row, may be rounded differently.
    """
    distance = max(1e-9 * float(np.abs(descending[[0, -1]]).max()), 1e-300)
    taken = np.append(descending[0] + 2.0 * distance, descending)[counts]
    left = np.append(descending, descending[-1] - 2.0 * distance)[counts]
    middle = left + 0.5 * (taken - left)
    # The middle of two neighboring numbers may be rounded to the upper one, which would then be left out.
    return np.where(middle < taken, middle, left)


def unknown_classes() -> InputError:
    """Return the error of a loss that needs the true classes."""
    return InputError("batch", Description("none"), "a batch with the true classes", "Prepare it with `Y`.")


class SetLoss:
    """A loss Δ of a whole set, by default a function of the table."""

    ranks = False
    """Whether only the order of the scores counts, so that a constant added to all of them changes nothing."""
    cut_at_zero = False
    """Whether 0 is the threshold of scores."""

    def prepared(self, classes: TwoClasses) -> TwoClasses:
        """Return the classes of a set to train on; raise InputError if the loss cannot be used on it."""
        self.size(classes)
        return classes

    def tables(self, a: Any, b: Any, classes: TwoClasses) -> Any:
        """Return the losses (m,) of tables with `a` and b of shape (m,)."""
        raise TypeError(f"{type(self).__name__} does not define tables()")

    def worst(self, classes: TwoClasses, positive_sums: Vector, negative_sums: Vector) -> tuple[int, int]:
        """Return the table of the highest loss and sums, those of the highest scores of each class over n."""
        raise TypeError(f"{type(self).__name__} does not define worst()")

    def augmented(self, classes: TwoClasses, scores: Vector) -> tuple[Vector, float]:
        """Return coefficients and loss of the output of the highest loss and score together."""
        both = classes.positives, classes.negatives
        ordered = [np.ascontiguousarray(np.sort(scores[rows])[::-1]) for rows in both]
        table = self.worst(classes, *(np.append(0.0, np.cumsum(values)) / classes.n for values in ordered))
        coefficients, half = np.empty(classes.n), 0.5 / classes.n
        for rows, values, count in zip(both, ordered, table, strict=True):
            kernels.label_highest(scores, rows, values, count, half, -half, coefficients)
        return coefficients, float(self.tables(np.array(table[:1]), np.array(table[1:]), classes)[0])

    def free(self, classes: TwoClasses | None, scores: Vector) -> Vector:
        """Return the coefficients of the output of the highest score."""
        return np.where(scores > 0.0, 0.5, -0.5) / len(scores)

    def clamped(self, classes: TwoClasses) -> Vector:
        """Return the coefficients of the true output."""
        return classes.spread(0.5 / classes.n, -0.5 / classes.n)

    def size(self, classes: TwoClasses) -> int:
        """Return the number of examples that a ranking predicts positive."""
        return classes.p

    def threshold(self, classes: TwoClasses, scores: Vector) -> float:
        """Return the threshold of scores for positive predictions, from the scores of the training examples.

        It has the lowest loss; if there are several, it is the one nearest to 0, or 0 itself.
        """
        if self.cut_at_zero:
            return 0.0
        order = np.argsort(-scores, kind="stable")
        descending = scores[order]
        if self.ranks:
            return float(cuts_after(descending, self.size(classes)))
        a = np.append(0, np.cumsum(classes.spread(1, 0)[order].astype(np.int64)))
        counts = np.flatnonzero(np.append(np.append(True, descending[:-1] > descending[1:]), True))
        losses = self.tables(a[counts], counts - a[counts], classes)
        best = counts[losses <= losses.min() + 1e-12]
        if int((scores > 0.0).sum()) in best:
            return 0.0
        cuts = cuts_after(descending, best)
        return float(cuts[np.abs(cuts).argmin()])

    def quality(self, truth: Truth, found: Any) -> float:
        """Return the measure of predicted marks (n,), or of scores (n,) where `ranks`."""
        raise TypeError(f"{type(self).__name__} does not define quality()")

    def lost(self, truth: Truth, found: Any) -> float:
        """Return Δ of predicted marks (n,), or of scores (n,) where `ranks`."""
        return 1.0 - self.quality(truth, found)


@dataclass(frozen=True)
class FBeta(SetLoss):
    """Δ = 1 − F_β = 1 − (1 + β²)a / (β²p + a + b); the worst b of each `a` is tried in O(n log n)."""

    beta: float = 1.0

    def __post_init__(self) -> None:
        check_beta(self.beta)

    def worst(self, classes: TwoClasses, positive_sums: Vector, negative_sums: Vector) -> tuple[int, int]:
        return kernels.best_f_table(positive_sums, negative_sums, float(self.beta) ** 2)

    def tables(self, a: Any, b: Any, classes: TwoClasses) -> Any:
        square = float(self.beta) ** 2
        return 1.0 - (1.0 + square) * a / (square * classes.p + a + b)

    def quality(self, truth: Truth, found: Any) -> float:
        """Return F_β."""
        return f_beta(truth, found, self.beta)

    def lost(self, truth: Truth, found: Any) -> float:
        """Return Δ, which is 0 if there are neither positives nor positive predictions."""
        return 1.0 - self.quality(truth, found) if truth.any() or np.any(found) else 0.0


@dataclass(frozen=True)
class ErrorRate(SetLoss):
    """Δ = (b + c)/n: the sum over the examples is the mean hinge loss."""

    cut_at_zero = True

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
    """Losses of the outputs with exactly K positive predictions: Δ = (min(K, p) − a) / (K or p).

    K is k, or the share k of all examples, or p for the break-even point. Where K differs from p no output is the true
    one: the mean of all outputs without loss then takes its place in clamped mode. A constant added to all scores
    therefore changes nothing, the slack is never negative, and it bounds the loss from above.
    """

    k: int | float | None = None
    of_positives: bool = False
    ranks = True

    def __post_init__(self) -> None:
        SELECTED.check(self.k, "k")

    def size(self, classes: TwoClasses) -> int:
        """Return K."""
        return classes.p if self.k is None else self._size(classes.n)

    def _size(self, n: int) -> int:
        assert self.k is not None
        size = max(1, round(self.k * n)) if isinstance(self.k, (float, np.floating)) else int(self.k)
        if size > n:
            raise InputError("k", self.k, f"at most {n}, the number of examples")
        return size

    def tables(self, a: Any, b: Any, classes: TwoClasses) -> Any:
        """Return the losses of tables with a + b = K."""
        size = self.size(classes)
        return (min(size, classes.p) - a) * (1.0 / (classes.p if self.of_positives else size))

    def worst(self, classes: TwoClasses, positive_sums: Vector, negative_sums: Vector) -> tuple[int, int]:
        """Try each `a` with b = K − a."""
        size = self.size(classes)
        a = kernels.best_selection(positive_sums, negative_sums, size, 1.0 / (classes.p if self.of_positives else size))
        return a, size - a

    def free(self, classes: TwoClasses | None, scores: Vector) -> Vector:
        """Return the coefficients of the K highest scores."""
        if classes is None and self.k is None:
            raise unknown_classes()
        size = self._size(len(scores)) if classes is None else self.size(classes)
        coefficients = np.full(len(scores), -0.5 / len(scores))
        coefficients[np.argsort(-scores, kind="stable")[:size]] *= -1.0
        return coefficients

    def clamped(self, classes: TwoClasses) -> Vector:
        """Return the mean coefficients of the outputs without loss."""
        size = self.size(classes)
        positives, negatives = min(1.0, size / classes.p), max(0.0, (size - classes.p) / max(classes.q, 1))
        return classes.spread(positives - 0.5, negatives - 0.5) / classes.n

    def quality(self, truth: Truth, found: Any) -> float:
        """Return the share of positives among the K highest scores, or of the K highest scores among positives."""
        if self.k is None:
            return prbep(truth, found)
        measure = recall_at_k if self.of_positives else precision_at_k
        return measure(truth, found, self._size(len(truth)))

    def lost(self, truth: Truth, found: Any) -> float:
        """Return the difference from the quality of the best ranking."""
        return max(0.0, self.quality(truth, truth.astype(np.float64)) - self.quality(truth, found))


@dataclass(frozen=True)
class RocArea(SetLoss):
    """Δ = swapped pairs / pq, with the features (1/2pq) Σ_{pairs} ±(x_i − x_j): the mean hinge loss of the pairs."""

    ranks = True

    def _coefficients(self, classes: TwoClasses, scores: Vector, margin: float) -> tuple[Vector, int]:
        ranked = classes.sorted(scores)
        before, after = np.empty(ranked.p, dtype=np.int64), np.empty(ranked.q, dtype=np.int64)
        swapped = kernels.count_swapped(scores[ranked.positives], scores[ranked.negatives], margin, before, after)
        return ranked.pair_coefficients(before, after), swapped

    def augmented(self, classes: TwoClasses, scores: Vector) -> tuple[Vector, float]:
        """Swap each pair that is apart by less than 1: O(n log n)."""
        coefficients, swapped = self._coefficients(classes, scores, 1.0)
        return coefficients, swapped / (classes.p * classes.q)

    def free(self, classes: TwoClasses | None, scores: Vector) -> Vector:
        """Return the coefficients of the order by scores."""
        if classes is None:
            raise unknown_classes()
        return self._coefficients(classes, scores, 0.0)[0]

    def clamped(self, classes: TwoClasses) -> Vector:
        """Return the coefficients of all positives before all negatives."""
        return classes.spread(0.5 / classes.p, -0.5 / classes.q)

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
        # Summed with more digits, because differences of harmonic numbers are multiplied by up to n.
        harmonic = np.append(0.0, np.cumsum(1.0 / np.arange(1, classes.n + 1, dtype=np.longdouble))).astype(np.float64)
        kernels.best_places(scores[ranked.positives], scores[ranked.negatives], harmonic, 1.0 / ranked.p, places)
        precision = kernels.count_placed(places, before)
        return ranked.pair_coefficients(before, ranked.p - places), 1.0 - precision

    def quality(self, truth: Truth, found: Any) -> float:
        """Return the average precision."""
        return average_precision(truth, found)

    def lost(self, truth: Truth, found: Any) -> float:
        """Return Δ, which is 0 if there are no positives, so that no order is better than another."""
        return 1.0 - self.quality(truth, found) if truth.any() else 0.0


def halves(rectangles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cut rectangles of tables, columns (a_low, a_high, b_low, b_high), in two along their longer sides."""
    a_low, a_high, b_low, b_high = rectangles
    wide = a_high - a_low >= b_high - b_low
    a_cut = np.where(wide, (a_low + a_high) // 2, a_high)
    b_cut = np.where(wide, b_high, (b_low + b_high) // 2)
    first = np.stack([a_low, a_cut, b_low, b_cut])
    second = np.stack([np.where(wide, a_cut + 1, a_low), a_high, np.where(wide, b_low, b_cut + 1), b_high])
    return np.concatenate([first, second], axis=1)


@dataclass(frozen=True)
class TableLoss(SetLoss):
    """Δ = function(a, b, c, d) of true and false positives, false and true negatives.

    The function is called with arrays if it supports them, else with one table at a time. It must be finite, at least
    0, and 0 for the true labels. On sets with many tables it must not increase with `a` nor decrease with b: the worst
    table is then found by bounding rectangles of tables, without evaluating most of them.
    """

    function: Callable[..., Any]

    def prepared(self, classes: TwoClasses) -> TwoClasses:
        """Check the function's values on this set, and list them if they are few."""
        p, q = classes.p, classes.q
        if (p + 1) * (q + 1) <= LISTED_TABLES:
            return replace(classes, listed=self._grid(np.arange(p + 1), np.arange(q + 1), classes))
        a, b = (np.unique(np.linspace(0, most, CHECKED).astype(np.int64)) for most in (p, q))
        grid = self._grid(a, b, classes)
        slack = 1e-12 * (1.0 + np.abs(grid).max())
        if (np.diff(grid, axis=0) > slack).any() or (np.diff(grid, axis=1) < -slack).any():
            raise InputError(
                "loss",
                self.function,
                "a function that does not increase with true positives nor decrease with false positives on sets with "
                f"more than {LISTED_TABLES} tables",
            )
        return classes

    def _grid(self, a: Indices, b: Indices, classes: TwoClasses) -> NDArray[np.float64]:
        """Return the losses (len(a), len(b)), whose last row and first column belong to the true labels."""
        all_a, all_b = np.repeat(a, len(b)), np.tile(b, len(a))
        losses = self.tables(all_a, all_b, classes)
        if losses[-len(b)] != 0.0:
            got = Description(f"{losses[-len(b)]:g} for (a={classes.p}, b=0, c=0, d={classes.q})")
            raise InputError("loss", got, "0 for the true labels")
        self._require(losses >= 0.0, all_a, all_b, classes, losses, "at least 0 for all tables")
        return losses.reshape(len(a), len(b))

    @staticmethod
    def _require(
        right: NDArray[np.bool_], a: Indices, b: Indices, classes: TwoClasses, losses: Vector, expected: str
    ) -> None:
        """Raise for the lowest loss that is not valid."""
        wrong = np.flatnonzero(~right)
        if len(wrong):
            i = wrong[losses[wrong].argmin()]
            table = f"(a={a[i]}, b={b[i]}, c={classes.p - a[i]}, d={classes.q - b[i]})"
            raise InputError("loss", Description(f"{losses[i]:g} for {table}"), expected)

    def tables(self, a: Any, b: Any, classes: TwoClasses) -> Any:
        given = [part.astype(np.float64) for part in (a, b, classes.p - a, classes.q - b)]
        losses = self._of_arrays(given)
        if losses is None:
            losses = np.array([self._of_one(table) for table in zip(*(part.tolist() for part in given), strict=True)])
        self._require(np.isfinite(losses), a, b, classes, losses, "finite for all tables")
        return losses

    def _of_arrays(self, tables: list[Vector]) -> Vector | None:
        """Return the losses if the function takes arrays."""
        try:
            with np.errstate(all="ignore"):
                found = as_reals(self.function(*tables))
        except (TypeError, ValueError, ArithmeticError):
            return None
        return found if found.shape == tables[0].shape else None

    def _of_one(self, table: tuple[float, ...]) -> float:
        try:
            return float(self.function(*table))
        except ArithmeticError:
            return float("nan")
        except (TypeError, ValueError) as error:
            raise InputError("loss", Description(f"{error} for {table}"), "a number for all tables") from error

    def worst(self, classes: TwoClasses, positive_sums: Vector, negative_sums: Vector) -> tuple[int, int]:
        """Try all listed tables, or bound rectangles of them.

        No loss in a rectangle is above that of its lowest `a` and highest b, and the sums, being concave, are highest
        as near to their peaks as the rectangle allows.
        """
        if classes.listed is not None:
            return kernels.best_listed_table(classes.listed, positive_sums, negative_sums)
        a_peak, b_peak = int(positive_sums.argmax()), int(negative_sums.argmax())
        best, table = -np.inf, (0, 0)
        waiting, bounds = np.array([[0], [classes.p], [0], [classes.q]]), np.array([np.inf])
        while len(bounds):
            order = np.argsort(-bounds)
            now, later = waiting[:, order[:TOGETHER]], waiting[:, order[TOGETHER:]]
            later_bounds, (a_low, a_high, b_low, b_high) = bounds[order[TOGETHER:]], now
            a, b = np.clip(a_peak, a_low, a_high), np.clip(b_peak, b_low, b_high)
            sums = positive_sums[a] + negative_sums[b]
            highest = self.tables(a_low, b_high, classes)
            # Two tables of each rectangle are tried: that of the highest loss and that of the highest sums.
            for loss, i, j in ((highest, a_low, b_high), (self.tables(a, b, classes), a, b)):
                reached = loss + positive_sums[i] + negative_sums[j]
                top = int(reached.argmax())
                if reached[top] > best:
                    best, table = float(reached[top]), (int(i[top]), int(j[top]))
            open_ones = highest + sums > best + 1e-13 * (1.0 + abs(best))
            waiting = np.concatenate([halves(now[:, open_ones]), later], axis=1)
            bounds = np.append(np.tile((highest + sums)[open_ones], 2), later_bounds)
            kept = bounds > best + 1e-13 * (1.0 + abs(best))
            waiting, bounds = waiting[:, kept], bounds[kept]
        return table

    def quality(self, truth: Truth, found: Any) -> float:
        """Return 1 − Δ."""
        return 1.0 - self.lost(truth, found)

    def lost(self, truth: Truth, found: Any) -> float:
        """Return Δ, which is 0 if all predictions are right."""
        a, b, c, _ = contingency(truth, found)
        return 0.0 if b + c == 0 else float(self.tables(np.array([a]), np.array([b]), TwoClasses.of(truth))[0])
