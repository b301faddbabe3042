"""Significance of motifs: exact p-values of scores of sequences that were not trained on."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.types import Vector
from latentstruct.core.validation import array_of
from latentstruct.exceptions import Description, InputError

__all__ = ["BestScores", "Enrichment", "score_enrichment"]

MOST_COMPARED = 1000
"""Number of sequences of each class that are compared; more would change no conclusion."""
_CLOSE = 1e-9
"""Difference of log-probabilities that is due to rounding."""


@dataclass(frozen=True)
class Enrichment:
    """How much better positive sequences score than negative ones.

    Attributes
    ----------
    p_value : float
        Probability of such a difference, or a larger one, if the motif does not distinguish the classes.
    threshold : float
        The score from which on positive sequences are most enriched.
    n_positive, n_negative : int
        Number of sequences that were compared.
    positive_above, negative_above : int
        Number of these that score at least the threshold.
    """

    p_value: float
    threshold: float
    n_positive: int
    n_negative: int
    positive_above: int
    negative_above: int


def score_enrichment(positive: Any, negative: Any) -> Enrichment:
    """Test whether positive sequences score higher than negative ones.

    At each threshold, Fisher's exact test compares the numbers of positive and negative sequences that score at least
    the threshold. The statistic is the smallest of these probabilities. The p-value is the probability that the
    smallest one is as small or smaller if all orders of the sequences are equally likely, so that it includes the
    choice of the threshold. It is exact if no scores are equal, and an upper bound otherwise.

    Parameters
    ----------
    positive, negative : array of shape (n,)
        Scores of sequences that the model was not trained on. At most 1000 of each class, evenly spread over the given
        order, are compared.

    Returns
    -------
    Enrichment
        The p-value, and the threshold with the numbers of sequences above it.

    Examples
    --------
    >>> from latentstruct.tasks.motif.significance import score_enrichment
    >>> found = score_enrichment([2.0, 1.5, 1.2, 0.1], [0.3, 0.2, -0.4, -1.0])
    >>> found.positive_above, found.negative_above, round(found.p_value, 3)
    (3, 0, 0.114)
    """
    high, low = _compared(positive, "positive"), _compared(negative, "negative")
    scores = np.concatenate([high, low])
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(order < len(high))
    # A threshold between equal scores is none, and all sequences are no selection.
    drawn = np.flatnonzero(np.append(np.diff(scores[order]) != 0, False)) + 1
    if not len(drawn):
        return Enrichment(1.0, float(scores[order[-1]]), len(high), len(low), len(high), len(low))
    tails = _Tails(len(high), len(low))
    values = [tails.at(t)[hits[t - 1] - tails.least(t)] for t in drawn.tolist()]
    above = int(drawn[np.argmin(values)])
    found, p_value = int(hits[above - 1]), min(1.0, tails.probability(min(values)))
    return Enrichment(p_value, float(scores[order[above - 1]]), len(high), len(low), found, above - found)


class BestScores(NamedTuple):
    """Distribution of the best of n windows without a motif: P(at most s) = exp(−n exp(offset − decay · s)).

    It is the extreme value distribution of the scores of alignments (Karlin and Altschul 1990).

    See Also
    --------
    score_enrichment : Tests whether positive sequences score higher than negative ones.

    Examples
    --------
    >>> from latentstruct.tasks.motif.significance import BestScores
    >>> best = BestScores.fit([1.2, 2.0, 1.5, 2.9], [50, 50, 80, 80])
    >>> p_short, p_long = best.p_values([3.0, 3.0], [50, 500])  # the best of more windows scores higher by chance
    >>> bool(p_short < p_long)
    True
    """

    decay: float
    offset: float

    @classmethod
    def fit(cls, scores: Any, n_windows: Any) -> "BestScores":
        """Return the distribution of highest likelihood, given the best scores of sequences without a motif.

        Parameters
        ----------
        scores, n_windows : array of shape (n,)
            The best score of each sequence, and its number of windows. The scores must not all be equal.

        Returns
        -------
        BestScores
            The fitted distribution.
        """
        scores, logs = np.asarray(scores, dtype=np.float64), np.log(n_windows)
        center = float(scores.mean())
        if not scores.std() > 0:
            raise InputError("scores", Description("equal scores"), "scores that differ")

        def moments(decay: float) -> tuple[float, float]:
            """Return ln Σ n exp(−decay · (s − center)), and the mean of s − center with these weights."""
            exponents = logs - decay * (scores - center)
            shares = np.exp(exponents - exponents.max())
            mean = float(shares @ (scores - center) / shares.sum())
            return float(exponents.max() + np.log(shares.sum())), mean

        # The derivative 1/decay + weighted mean decreases in decay.
        low = high = math.pi / (math.sqrt(6.0) * float(scores.std()))
        while 1.0 / low + moments(low)[1] < 0:
            low /= 2
        while 1.0 / high + moments(high)[1] > 0:
            high *= 2
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if 1.0 / middle + moments(middle)[1] > 0 else (low, middle)
        return cls(low, math.log(len(scores)) - moments(low)[0] + low * center)

    def p_values(self, scores: Any, n_windows: Any) -> Vector:
        """Return the probabilities that the best of n windows without a motif scores as much or more."""
        expected: Vector = np.exp(np.log(n_windows) + self.offset - self.decay * np.asarray(scores))
        return -np.expm1(-expected)

    def excess(self, n_windows: Any, usual: int) -> Vector:
        """Return how much more than the best of `usual` windows the best of more windows scores by chance."""
        more: Vector = np.log(np.maximum(n_windows, usual) / usual) / self.decay
        return more


def _compared(scores: Any, name: str) -> Vector:
    values = np.asarray(array_of(scores, name), dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise InputError(name, Description(f"shape {values.shape}"), "finite scores of at least one sequence")
    chosen = np.linspace(0, len(values) - 1, min(len(values), MOST_COMPARED)).round().astype(np.int64)
    return values[chosen]


class _Tails:
    """Probabilities of the number of positive sequences among the first ones of a random order of all."""

    def __init__(self, n_positive: int, n_negative: int) -> None:
        self.n_positive, self.n_negative, self.n = n_positive, n_negative, n_positive + n_negative
        self.log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, self.n + 1)))])

    def _log_choices(self, n: int, k: Any) -> Any:
        return self.log_factorials[n] - self.log_factorials[k] - self.log_factorials[n - k]

    def least(self, drawn: int) -> int:
        """Return the least number of positive sequences among the first `drawn`."""
        return max(0, drawn - self.n_negative)

    def at(self, drawn: int) -> NDArray[np.float64]:
        """Return ln P(i or more positive sequences among the first `drawn`) from the least possible i on."""
        i = np.arange(self.least(drawn), min(self.n_positive, drawn) + 1)
        logs = self._log_choices(self.n_positive, i) + self._log_choices(self.n_negative, drawn - i)
        tails: NDArray[np.float64] = np.logaddexp.accumulate((logs - self._log_choices(self.n, drawn))[::-1])[::-1]
        return tails

    def probability(self, log_tail: float) -> float:
        """Return the probability that a tail of some threshold is at most exp(log_tail).

        The number of positive sequences is a Markov chain. Its paths end where a tail is small enough.
        """
        alive = np.zeros(self.n_positive + 1)
        alive[0] = 1.0
        i = np.arange(self.n_positive + 1)
        ended = 0.0
        for drawn in range(1, self.n):
            left = self.n - drawn + 1
            positive = alive * ((self.n_positive - i) / left)
            alive *= np.clip((self.n_negative - (drawn - 1 - i)) / left, 0.0, 1.0)
            alive[1:] += positive[:-1]
            small = self.least(drawn) + int(np.count_nonzero(self.at(drawn) > log_tail + _CLOSE))
            ended += math.fsum(alive[small:])
            alive[small:] = 0.0
        return ended
