"""Losses of a set that a function of the contingency table gives, with an exact search for the worst table."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.checks import as_reals
from latentstruct.exceptions import InputError
from latentstruct.kernels.measures import best_listed_table
from latentstruct.metrics.measures import contingency
from latentstruct.ragged import Indices, Vector
from latentstruct.tasks.set_losses import Ordered, TableBased, Truth, TwoClasses

# Up to so many tables all losses are listed (32 MB); beyond, rectangles of tables are bounded.
LISTED_TABLES = 4_000_000
# Each side of the grid of tables on which a function is looked at before it is trusted.
LOOKED_AT = 33
# Rectangles that are bounded at once, those of the highest bounds first.
TOGETHER = 100_000


def halves(rectangles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cut rectangles of tables in two, along their longer sides.

    A rectangle is a column (4,): tables with `a` from a_low to a_high and b from b_low to b_high, both included.
    """
    a_low, a_high, b_low, b_high = rectangles
    wide = a_high - a_low >= b_high - b_low
    a_cut = np.where(wide, (a_low + a_high) // 2, a_high)
    b_cut = np.where(wide, b_high, (b_low + b_high) // 2)
    first = np.stack([a_low, a_cut, b_low, b_cut])
    second = np.stack([np.where(wide, a_cut + 1, a_low), a_high, np.where(wide, b_low, b_cut + 1), b_high])
    return np.concatenate([first, second], axis=1)


@dataclass(frozen=True)
class TableLoss(TableBased):
    """Δ = function(a, b, c, d) of true and false positives, false and true negatives.

    The function is given arrays if it can take them, else one table at a time. It must be finite, at least 0, and 0 for
    the true labels. On sets with many tables it must not rise with `a` nor fall with b, as every sensible loss does:
    the worst table is then found by bounding rectangles of tables, without asking for most of them.
    """

    function: Callable[..., Any]

    def prepared(self, classes: TwoClasses) -> TwoClasses:
        """Look at the function's values on this set, and list them if they are few."""
        p, q = classes.p, classes.q
        if (p + 1) * (q + 1) <= LISTED_TABLES:
            return replace(classes, listed=self._grid(np.arange(p + 1), np.arange(q + 1), p, q))
        a = np.unique(np.linspace(0, p, LOOKED_AT).astype(np.int64))
        b = np.unique(np.linspace(0, q, LOOKED_AT).astype(np.int64))
        looked_at = self._grid(a, b, p, q)
        slack = 1e-12 * (1.0 + np.abs(looked_at).max())
        if (np.diff(looked_at, axis=0) > slack).any() or (np.diff(looked_at, axis=1) < -slack).any():
            raise InputError(
                f"the loss rises with true positives or falls with false positives somewhere on the {p} positive and "
                f"{q} negative examples; expected a loss that does neither, because more than {LISTED_TABLES} tables "
                "are not all tried: change the function, or train on fewer examples"
            )
        return classes

    def _grid(self, a: Indices, b: Indices, p: int, q: int) -> NDArray[np.float64]:
        """Return the losses (len(a), len(b)), whose last row and first column belong to the true labels."""
        losses = self.values(np.repeat(a, len(b)), np.tile(b, len(a)), p, q).reshape(len(a), len(b))
        if losses[-1, 0] != 0.0:
            raise InputError(
                f"the loss of the true labels (a={p}, b=0, c=0, d={q}) is {losses[-1, 0]:g}; expected 0: subtract it"
            )
        if losses.min() < 0.0:
            i, j = np.unravel_index(int(losses.argmin()), losses.shape)
            raise InputError(
                f"the loss of the table (a={a[i]}, b={b[j]}, c={p - a[i]}, d={q - b[j]}) is {losses.min():g}; expected "
                "at least 0: give a loss, not a quality, such as 1 − F1"
            )
        return losses

    def values(self, a: Indices, b: Indices, p: int, q: int) -> Vector:
        """Return the losses of tables, (m,) from `a` and b of shape (m,)."""
        tables = [part.astype(np.float64) for part in (a, b, p - a, q - b)]
        losses = self._of_arrays(tables)
        if losses is None:
            losses = np.array([self._of_one(table) for table in zip(*(part.tolist() for part in tables), strict=True)])
        if not np.isfinite(losses).all():
            i = int(np.flatnonzero(~np.isfinite(losses))[0])
            raise InputError(
                f"the loss of the table (a={a[i]}, b={b[i]}, c={p - a[i]}, d={q - b[i]}) is {losses[i]}; expected a "
                "finite number for every table: say what the loss is where a denominator is 0"
            )
        return losses

    def tables(self, a: Indices, b: Indices, classes: TwoClasses) -> Vector:
        """Return the losses of tables."""
        return self.values(a, b, classes.p, classes.q)

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
            raise InputError(
                f"the loss function cannot be asked for a table (a, b, c, d) = {table}: {error}; expected a function "
                "of four numbers that returns one: correct it"
            ) from error

    def augmented(self, classes: TwoClasses, scores: Vector) -> tuple[Vector, float]:
        """Try all listed tables, or bound rectangles of them."""
        ordered = Ordered.of(classes, scores)
        if classes.listed is not None:
            a, b = best_listed_table(classes.listed, ordered.positive_sums, ordered.negative_sums)
        else:
            a, b = self._search(classes, ordered.positive_sums, ordered.negative_sums)
        loss = self.values(np.array([a]), np.array([b]), classes.p, classes.q)[0]
        return ordered.labelled(classes, scores, a, b), float(loss)

    def _search(self, classes: TwoClasses, positive_sums: Vector, negative_sums: Vector) -> tuple[int, int]:
        """Return the table of the highest loss and sums.

        No loss in a rectangle is above that of its lowest `a` and highest b, and the sums, being concave, are highest
        as near to their peaks as the rectangle allows.
        """
        p, q = classes.p, classes.q
        a_peak, b_peak = int(positive_sums.argmax()), int(negative_sums.argmax())
        best, table = -np.inf, (0, 0)
        waiting, bounds = np.array([[0], [p], [0], [q]]), np.array([np.inf])
        while len(bounds):
            order = np.argsort(-bounds)
            now, later = waiting[:, order[:TOGETHER]], waiting[:, order[TOGETHER:]]
            later_bounds, (a_low, a_high, b_low, b_high) = bounds[order[TOGETHER:]], now
            a, b = np.clip(a_peak, a_low, a_high), np.clip(b_peak, b_low, b_high)
            sums = positive_sums[a] + negative_sums[b]
            highest = self.values(a_low, b_high, p, q)
            # Two tables of each rectangle are tried: that of the highest loss and that of the highest sums.
            for loss, i, j in ((highest, a_low, b_high), (self.values(a, b, p, q), a, b)):
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
        """Return Δ; there is none if all predictions are right, whatever the table."""
        a, b, c, d = contingency(truth, found)
        return 0.0 if b + c == 0 else float(self.values(np.array([a]), np.array([b]), a + c, b + d)[0])
