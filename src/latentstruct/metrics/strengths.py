"""How strong training for a measure must be to compare with a conventional SVM."""

from typing import Any, TypeGuard

import numpy as np

from latentstruct.core.formatting import show
from latentstruct.exceptions import InputError
from latentstruct.tasks.measure.task import MEASURES

__all__ = ["comparable_strength"]


def comparable_strength(loss: str, n_examples: int, n_positive: int, k: int | None = None) -> float:
    """Return the C of `Measure` that weighs a mistake as a conventional SVM with C = 1 does.

    A conventional SVM minimises ½‖u‖² + Σ_i hinge(y_i u·x_i). Where a wrong label costs about δ of the measure and
    moves the mean features by 1/n, the margin of the measure is nδ times that of the hinge: with w = nδ u,
    ½‖w‖² + C·δ Σ_i hinge is n²δ² (½‖u‖² + C/(n²δ) Σ_i hinge), so that C = n²δ compares with 1. Measures of the order
    of pairs have features of pairs, each with the same weight as in the loss; a positive example then weighs C/n₊.

    Parameters
    ----------
    loss : str
        A loss that `Measure` knows by name.
    n_examples, n_positive : int
        n, and n₊ ≥ 1.
    k : int, optional
        How many examples ``"precision@k"`` looks at.

    Returns
    -------
    float
        n for ``"error"``, n²/k for ``"precision@k"``, n₊ for ``"rocarea"`` and ``"average_precision"``, else n²/n₊.
    """
    if not (isinstance(loss, str) and loss in MEASURES):
        raise InputError(
            f"loss is {show(loss)}; expected one of {', '.join(MEASURES)}: choose one of these, f1 for a function of "
            "the table"
        )
    if not (_is_count(n_positive) and _is_count(n_examples) and n_positive <= n_examples):
        raise InputError(
            f"found {show(n_positive)} positive examples of {show(n_examples)}; expected whole numbers, at least one: "
            "give examples of both classes"
        )
    if loss == "error":
        return float(n_examples)
    if loss in ("rocarea", "average_precision"):
        return float(n_positive)
    if loss != "precision@k":
        return n_examples**2 / n_positive
    if not (_is_count(k) and k <= n_examples):
        raise InputError(
            f"k is {show(k)}; expected a whole number from 1 to {n_examples}: give how many examples count, a share "
            "times their number"
        )
    return n_examples**2 / k


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)
