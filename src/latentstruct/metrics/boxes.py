"""Scores of predicted classes and boxes, by the conventions of object detection."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentstruct.core.validation import check_length, check_lists
from latentstruct.data.boxes import check_boxes, overlaps
from latentstruct.exceptions import Description, InputError

__all__ = ["box_scores"]

FOUND = 0.5
"""Minimum overlap of an object that counts as found."""


def box_scores(
    Y_true: Sequence[Any],
    true_boxes: Sequence[Any],
    Y_pred: Sequence[Any],
    predicted_boxes: Sequence[Any],
    candidate_boxes: Sequence[Any] | None = None,
) -> dict[str, float]:
    """Compare the predicted class and box of each image with the true ones.

    Parameters
    ----------
    Y_true, Y_pred : sequences of n classes
        The true and the predicted classes.
    true_boxes : sequence of n arrays of shape (4,) or (k, 4)
        The true box of each image, or those of several objects; the best overlap counts.
    predicted_boxes : array of shape (n, 4)
        The predicted box of each image.
    candidate_boxes : sequence of n arrays of shape (m, 4), optional
        The boxes that could have been predicted.

    Returns
    -------
    dict of str to float
        "zero_one": the fraction of images with a wrong class or box, where a correct box overlaps the true one as much
        as any candidate does, or equals it if there are none;
        "overlap": the mean of 1 − |h ∩ ĥ| / |h ∪ ĥ|, or 1 if the class is wrong;
        "corloc": the fraction of images whose box overlaps by at least 0.5, whatever the class;
        "accuracy": the fraction of correct classes.

    Raises
    ------
    InputError
        If there are no images, or their numbers differ.
    """
    given = {"Y_true": Y_true, "true_boxes": true_boxes, "Y_pred": Y_pred, "predicted_boxes": predicted_boxes}
    if candidate_boxes is not None:
        given["candidate_boxes"] = candidate_boxes
    check_lists(**given)
    n = len(Y_true)
    if n == 0:
        raise InputError("Y_true", Y_true, "at least one class")
    for name, values in given.items():
        check_length(values, n, name, "items")
    right = np.array([bool(a == b) for a, b in zip(Y_true, Y_pred, strict=True)])
    met, exact = np.empty(n), np.empty(n, dtype=bool)
    for i in range(n):
        predicted = check_boxes(predicted_boxes[i], f"predicted_boxes[{i}]")
        if len(predicted) != 1:
            raise InputError(f"predicted_boxes[{i}]", Description(f"{len(predicted)} boxes"), "one box")
        met[i], exact[i] = _meet(
            check_boxes(true_boxes[i], f"true_boxes[{i}]"),
            predicted,
            None if candidate_boxes is None else check_boxes(candidate_boxes[i], f"candidate_boxes[{i}]"),
        )
    return {
        "zero_one": float(np.mean(~(right & exact))),
        "overlap": float(np.mean(np.where(right, 1.0 - met, 1.0))),
        "corloc": float(np.mean(met >= FOUND)),
        "accuracy": float(np.mean(right)),
    }


def _meet(true: Any, predicted: Any, candidates: Any) -> tuple[float, bool]:
    """Return the best overlap of a predicted box with true ones, and whether no candidate has a larger one."""
    found = overlaps(predicted, true)[0]
    best = 1.0 if candidates is None else overlaps(candidates, true).max(axis=0)
    # Candidates that are mirror images of each other have the same overlap up to rounding.
    return float(found.max()), bool((found >= best - 1e-9).any())
