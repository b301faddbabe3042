"""Quality of rankings: precision and NDCG of the first k documents, average precision.

Documents with equal scores have no order. Every measure here is its exact mean over all orders of tied
documents, so that the order of a file has no effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.types import Vector
from latentstruct.core.validation import check_length, check_lists, check_shape, integer, numbers_of
from latentstruct.exceptions import Description, InputError

__all__ = ["RankingScores", "average_precision", "ndcg_at_k", "precision_at_k", "ranking_scores"]

HIGHEST_GRADE = 100


def _checked(y: Any, scores: Any) -> tuple[Vector, Vector]:
    """Return grades and scores of one query as arrays of the same length."""
    grades, values = numbers_of(y, "y"), numbers_of(scores, "scores")
    if grades.ndim != 1:
        raise InputError("y", Description(f"shape {grades.shape}"), "one-dimensional")
    check_shape(values, grades.shape, "scores", "one score per document")
    for name, numbers in (("y", grades), ("scores", values)):
        if not np.isfinite(numbers).all():
            raise InputError(name, Description("NaN or infinity"), "finite")
    return grades, values


def _check_k(k: Any) -> int:
    integer(1).check(k, "k")
    return int(k)


def _expected_at_ranks(values: Vector, scores: Vector) -> Vector:
    """Return the mean value found at each rank, over all orders of tied documents."""
    order = np.argsort(-scores, kind="stable")
    _, group = np.unique(-scores[order], return_inverse=True)
    return (np.bincount(group, values[order]) / np.bincount(group))[group] if len(order) else np.zeros(0)


def precision_at_k(y: Any, scores: Any, k: int) -> float:
    """Return the fraction of relevant documents among the first k.

    Parameters
    ----------
    y : array of shape (n,)
        Grades; a document is relevant if its grade is above 0.
    scores : array of shape (n,)
        Higher is better; ties are averaged over all orders.
    k : int
        Number of documents. A shorter list is padded with irrelevant ones: the sum is always divided by k.

    Returns
    -------
    float
        In [0, 1]; 0 for a query without relevant documents.
    """
    grades, values = _checked(y, scores)
    return float(_expected_at_ranks((grades > 0).astype(np.float64), values)[: _check_k(k)].sum() / k)


def ndcg_at_k(y: Any, scores: Any, k: int) -> float:
    """Return the normalized discounted cumulative gain of the first k: DCG / the best possible DCG.

    DCG = Σ_{r ≤ k} (2^{grade of the r-th} − 1) / log₂(1 + r).

    Parameters
    ----------
    y : array of shape (n,)
        Grades from 0 to 100.
    scores : array of shape (n,)
        Higher is better; ties are averaged over all orders.
    k : int
        Number of documents.

    Returns
    -------
    float
        In [0, 1]; 0 for a query without relevant documents.

    Notes
    -----
    The evaluation script of LETOR 3.0 and 4.0 does not discount the second document and divides the r-th by log₂ r;
    its figures are therefore not comparable with these. It also gives 0 for a query without relevant documents.
    """
    grades, values = _checked(y, scores)
    beyond = grades[(grades < 0) | (grades > HIGHEST_GRADE)]
    if len(beyond):
        raise InputError("y", beyond[0], f"grades from 0 to {HIGHEST_GRADE}, whose gains are 2^grade − 1")
    gains = np.exp2(grades) - 1.0
    discounts = 1.0 / np.log2(2.0 + np.arange(min(_check_k(k), len(gains))))
    best = float(discounts @ np.sort(gains)[::-1][: len(discounts)])
    return float(discounts @ _expected_at_ranks(gains, values)[: len(discounts)]) / best if best > 0 else 0.0


def average_precision(y: Any, scores: Any) -> float:
    """Return the mean, over the relevant documents, of the precision at their ranks.

    Parameters
    ----------
    y : array of shape (n,)
        Grades; a document is relevant if its grade is above 0.
    scores : array of shape (n,)
        Higher is better; ties are averaged over all orders.

    Returns
    -------
    float
        In [0, 1]; 0 for a query without relevant documents.

    Notes
    -----
    Of m tied documents, r relevant, with p documents (R of them relevant) before them, the i-th is relevant with
    probability r/m, and then (i − 1)(r − 1)/(m − 1) of those before it in the tie are on average.
    """
    grades, values = _checked(y, scores)
    relevant = grades > 0
    if not relevant.any():
        return 0.0
    _, group = np.unique(-values, return_inverse=True)
    sizes, hits = np.bincount(group), np.bincount(group, relevant)
    before = np.cumsum(sizes) - sizes
    place = np.arange(len(values)) - np.repeat(before, sizes)
    m, r, earlier = (np.repeat(part, sizes) for part in (sizes, hits, np.cumsum(hits) - hits))
    within = place * (r - 1) / np.maximum(m - 1, 1)
    return float((r / m * (earlier + 1 + within) / np.arange(1, len(values) + 1)).sum() / relevant.sum())


@dataclass(frozen=True)
class RankingScores:
    """Means over all queries, including those without relevant documents.

    Attributes
    ----------
    precision, ndcg : dict of int to float
        By k.
    average_precision : float
        MAP.
    n_queries, n_without_relevant : int
        Numbers of all queries and of those without a relevant document, which count 0 in every mean (as in LETOR).
    """

    precision: dict[int, float]
    ndcg: dict[int, float]
    average_precision: float
    n_queries: int
    n_without_relevant: int

    def __str__(self) -> str:
        lines = [f"{'k':>4}  {'P@k':>7}  {'NDCG@k':>7}"]
        lines += [f"{k:4d}  {self.precision[k]:7.4f}  {self.ndcg[k]:7.4f}" for k in self.precision]
        return "\n".join(
            [
                *lines,
                f"MAP {self.average_precision:.4f}",
                f"{self.n_queries} queries, {self.n_without_relevant} without a relevant document (these count 0)",
            ]
        )


def ranking_scores(
    Y: Sequence[NDArray[Any]], scores: Sequence[NDArray[Any]], ks: Sequence[int] = (1, 3, 5, 10)
) -> RankingScores:
    """Return precision and NDCG at several k and MAP, as means over queries.

    Parameters
    ----------
    Y : sequence of n arrays
        The grades of each query's documents.
    scores : sequence of n arrays
        Their scores.
    ks : sequence of int, default=(1, 3, 5, 10)
        Numbers of documents.

    Returns
    -------
    RankingScores
        The means and the numbers of queries.
    """
    check_lists(Y=Y, scores=scores, ks=ks)
    if len(Y) == 0:
        raise InputError("Y", Y, "the grades of at least one query")
    check_length(scores, len(Y), "scores", "queries")
    pairs = list(zip(Y, scores, strict=True))
    return RankingScores(
        {k: float(np.mean([precision_at_k(y, s, k) for y, s in pairs])) for k in ks},
        {k: float(np.mean([ndcg_at_k(y, s, k) for y, s in pairs])) for k in ks},
        float(np.mean([average_precision(y, s) for y, s in pairs])),
        len(pairs),
        sum(not (np.asarray(y) > 0).any() for y in Y),
    )
