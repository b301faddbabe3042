import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]

# Symbols as in native/measures.cpp: sums are those of the 0, 1, 2, … highest scores of each class.

def best_f_table(positive_sums: Vector, negative_sums: Vector, beta_squared: float, /) -> tuple[int, int]:
    """Return the table (a, b) of the highest 1 − (1 + β²)a / (β²p + a + b) + positive_sums[a] + negative_sums[b]."""

def best_selection(positive_sums: Vector, negative_sums: Vector, size: int, price: float, /) -> int:
    """Return the `a` of the highest positive_sums[a] + negative_sums[size − a] − price·a; size is from 0 to p + q."""

def best_listed_table(losses: Vector, positive_sums: Vector, negative_sums: Vector, /) -> tuple[int, int]:
    """Return the table (a, b) of the highest losses[a, b] + positive_sums[a] + negative_sums[b]."""

def label_highest(
    scores: Vector,
    rows: Indices,
    descending: Vector,
    count: int,
    high: float,
    low: float,
    coefficients: Vector,
    /,
) -> None:
    """coefficients[r] = high for the `count` rows r of the highest scores, low for the others; ties by position.

    scores is (n,), rows (m,) lists the rows of one class, descending (m,) their scores in order.
    """

def count_swapped(positives: Vector, negatives: Vector, margin: float, before: Indices, after: Indices, /) -> int:
    """before[i] = negatives, after[j] = positives with which i or j makes a pair p_i − q_j < margin; return their sum.

    Both lists of scores descend.
    """

def best_places(positives: Vector, negatives: Vector, harmonic: Vector, loss_weight: float, places: Indices, /) -> None:
    """places[j] = number of positives before the negative j in the ranking of the highest loss and score.

    Both lists of scores descend, harmonic (p + q + 1,) holds 0, 1, 1 + 1/2, …; loss_weight is 1/p, or 0 for the score
    alone.
    """

def count_placed(places: Indices, before: Indices, /) -> float:
    """before[i] = number of negatives before the positive i; return the mean of (i + 1) / (i + 1 + before[i])."""

def add_selected_rows(matrix: Vector, rows: Indices, coefficients: Vector, out: Vector, /) -> None:
    """Out += Σ coefficients[r]·matrix[r] over the listed rows r; matrix is (n, d), coefficients (n,)."""

def select_first(scores: Vector, preferred: NDArray[np.bool_], offsets: Indices, chosen: Indices, /) -> None:
    """chosen[i] = the first documents of query i in their order, as flat positions; −1 after a short list.

    Query i holds the documents offsets[i] … offsets[i+1]. Preferred documents come before all others, then the higher
    score decides, then the position in the list. chosen is (n, k).
    """

def violated_pairs(
    scores: Vector, grades: Indices, offsets: Indices, margin: float, coefficients: Vector, counts: Vector, /
) -> None:
    """Count the pairs (a, b) of each query with grade_a > grade_b and s_a − s_b < margin.

    coefficients[j] = number of such pairs with document j as b minus those with j as a; counts[i] = number of
    such pairs. Grades are 0 … G − 1 within each query; the work is O(n log n + n·G).
    """

def overlap_table(A: Vector, B: Vector, out: Vector, /) -> None:
    """Write |A ∩ B| / |A ∪ B| of all pairs of boxes A (a, 4) and B (b, 4) to `out` (a, b)."""

def overlaps_with(boxes: Vector, others: Vector, out: Vector, /) -> None:
    """Write the overlap of each box (m, 4) with the other box of the same index (m, 4) to `out` (m,)."""
