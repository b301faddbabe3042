"""A matrix by expectation maximization with at most one site per sequence, without negatives in its objective."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from latentstruct.core.types import Vector
from latentstruct.tasks.motif.starts import MotifGrower, enriched_words
from latentstruct.tasks.motif.task import Motif

__all__ = ["PwmEM"]


@dataclass
class PwmEM:
    """Position weight matrix with at most one site in each positive sequence (Bailey and Elkan 1995).

    Each of the words that are most enriched in positive sequences becomes a matrix, which expectation maximization
    refines against a Markov background. The matrix of highest likelihood is taken.

    Parameters
    ----------
    task : Motif
        Width, background order and strands.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Logarithms of matrix and background as weights of the task, so that a window's score is its likelihood ratio.
    """

    task: Motif

    def fit(self, X: Any, Y: Any) -> "PwmEM":
        """Refine matrices on the positive sequences; negative ones choose the words and give the background."""
        task = self.task
        task.learn(X, Y)
        batch = task.prepare(X, Y)
        positive, negative = np.flatnonzero(batch.truth()), np.flatnonzero(~batch.truth())
        grower = MotifGrower(task, batch.layout, positive, negative)
        best = -np.inf
        for word in enriched_words(task, batch.layout, positive, negative):
            motif = grower.grow(word)
            ratios = grower.ratios(motif.weights, grower.sites) + motif.log_odds
            likelihood = float(np.logaddexp(0.0, ratios).sum() - len(ratios) * np.logaddexp(0.0, motif.log_odds))
            if likelihood > best:
                best, self.coef_ = likelihood, motif.weights
        return self

    def scores(self, X: Any) -> Vector:
        """Return the log likelihood ratio of the best window of each sequence."""
        return self.task.scores(self.task.prepare(X), self.coef_)
