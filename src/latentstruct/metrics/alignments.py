"""Scores of predicted alignments: recall of the true matches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import check_length, check_lists, integer
from latentstruct.data.sequences import Matches, check_matches, count_hits
from latentstruct.exceptions import InputError

__all__ = ["alignment_scores", "modeler_scores", "q_scores"]


def _check_both(true: Sequence[Any], predicted: Sequence[Any]) -> list[tuple[Matches, Matches]]:
    """Return true and predicted matches of each pair."""
    check_lists(true=true, predicted=predicted)
    check_length(predicted, len(true), "predicted", "alignments")
    if not len(true):
        raise InputError("true", true, "at least one alignment")
    return [
        (check_matches(y, f"true[{i}]"), check_matches(found, f"predicted[{i}]"))
        for i, (y, found) in enumerate(zip(true, predicted, strict=True))
    ]


def q_scores(true: Sequence[Any], predicted: Sequence[Any], tolerance: int = 0) -> NDArray[np.float64]:
    """Return the Q-score of each pair: the fraction of true matches that were predicted up to a shift.

    A true match (i, j) is found if the predicted alignment has (i, j') with |j' − j| ≤ tolerance. Tolerance 4 gives
    the Q₄-score, 1 minus the loss that alignments are trained for.

    Parameters
    ----------
    true, predicted : sequences of n int arrays of shape (m, 2)
        The aligned positions of both sequences, both columns increasing.
    tolerance : int, default=0
        The largest shift, at least 0.

    Returns
    -------
    array of shape (n,)
        From 0 to 1; 1 if there is no true match.

    Raises
    ------
    InputError
        If the alignments do not match or are not of this form.

    Examples
    --------
    >>> q_scores([[(0, 0), (1, 1), (5, 2)]], [[(0, 0), (1, 3)]], tolerance=2).round(3).tolist()
    [0.667]
    """
    integer(0).check(tolerance, "tolerance")
    both = _check_both(true, predicted)
    return np.array([count_hits(y, found, tolerance) / len(y) if len(y) else 1.0 for y, found in both])


def modeler_scores(true: Sequence[Any], predicted: Sequence[Any]) -> NDArray[np.float64]:
    """Return the modeler's score of each pair: the fraction of predicted matches that are true.

    Parameters
    ----------
    true, predicted : sequences of n int arrays of shape (m, 2)
        The aligned positions of both sequences, both columns increasing. Matches at positions without a reference count
        as wrong.

    Returns
    -------
    array of shape (n,)
        From 0 to 1; 1 if nothing was predicted.

    Raises
    ------
    InputError
        If the alignments do not match or are not of this form.
    """
    both = _check_both(true, predicted)
    return np.array([count_hits(y, found, 0) / len(found) if len(found) else 1.0 for y, found in both])


def alignment_scores(
    true: Sequence[Any], predicted: Sequence[Any], tolerances: Sequence[int] = (0, 4)
) -> dict[str, Any]:
    """Compare predicted alignments with the true ones.

    Parameters
    ----------
    true, predicted : sequences of n int arrays of shape (m, 2)
        The aligned positions of both sequences, both columns increasing.
    tolerances : sequence of int, default=(0, 4)
        The largest shifts that count as correct.

    Returns
    -------
    dict
        "n_pairs" and "n_matches": the numbers of pairs and of true matches; "q": the mean Q-score over pairs at each
        tolerance; "modeler": the mean fraction of predicted matches that are true.

    Raises
    ------
    InputError
        If the alignments do not match or are not of this form.
    """
    pairs = _check_both(true, predicted)
    check_lists(tolerances=tolerances)
    return {
        "n_pairs": len(pairs),
        "n_matches": sum(len(matches) for matches, _ in pairs),
        "q": {int(shift): float(q_scores(true, predicted, shift).mean()) for shift in tolerances},
        "modeler": float(modeler_scores(true, predicted).mean()),
    }
