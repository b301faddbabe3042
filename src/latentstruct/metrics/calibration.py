"""How often predictions are right at each level of their probability."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import check_length, integer, numbers_of
from latentstruct.exceptions import InputError

__all__ = ["Reliability", "reliability"]


class Reliability(NamedTuple):
    """Probabilities of predictions in bins of equal width, empty ones left out.

    Attributes
    ----------
    confidence : ndarray of shape (B,)
        Mean probability of the predictions of each bin.
    accuracy : ndarray of shape (B,)
        Share of right ones among them.
    n : ndarray of int of shape (B,)
        Their number.
    error : float
        The expected calibration error, the mean distance of accuracy and confidence over all predictions.
    """

    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    n: NDArray[np.int64]
    error: float


def reliability(right: Any, confidence: Any, n_bins: int = 10) -> Reliability:
    """Compare the probabilities of predictions with how often they are right.

    Parameters
    ----------
    right : array of bool of shape (n,)
        Whether each prediction is right.
    confidence : array of shape (n,)
        Its probability, from 0 to 1.
    n_bins : int, default=10
        Number of bins of equal width.

    Returns
    -------
    Reliability
        The reliability curve and the expected calibration error.

    See Also
    --------
    latentstruct.viz.plots.plot_reliability : Draws the curve.

    Examples
    --------
    >>> found = reliability([True, True, False, True], [0.95, 0.99, 0.55, 0.6])
    >>> found.confidence.round(3).tolist(), found.accuracy.tolist()
    ([0.55, 0.6, 0.97], [0.0, 1.0, 1.0])
    >>> round(found.error, 4)
    0.2525
    """
    integer(1).check(n_bins, "n_bins")
    shares, hits = numbers_of(confidence, "confidence"), np.asarray(right, dtype=bool).ravel()
    check_length(shares, len(hits), "confidence", "probabilities")
    for wrong in shares[~((shares >= 0) & (shares <= 1 + 1e-9))][:1].tolist():
        raise InputError("confidence", wrong, "probabilities from 0 to 1")
    bins = np.minimum((shares * n_bins).astype(np.int64), n_bins - 1)
    n = np.bincount(bins, minlength=n_bins)
    used = np.flatnonzero(n)
    means = (np.bincount(bins, values, n_bins)[used] / n[used] for values in (shares, hits.astype(np.float64)))
    mean_confidence, accuracy = means
    error = float(n[used] @ np.abs(accuracy - mean_confidence)) / max(len(hits), 1)
    return Reliability(mean_confidence, accuracy, n[used], error)
