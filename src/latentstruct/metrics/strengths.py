"""Initial values of C for training with a measure."""

from latentstruct.core.validation import integer, options
from latentstruct.tasks.measure.task import MEASURES

__all__ = ["suggest_C"]


def suggest_C(loss: str, n_examples: int, n_positive: int, k: int | None = None) -> float:
    """Return the C of `Measure` that is comparable to C = 1 of a conventional SVM.

    A conventional SVM minimizes ½‖u‖² + Σ_i hinge(y_i u·x_i). If a wrong label costs about δ of the measure and
    moves the mean features by 1/n, the margin of the measure is nδ times that of the hinge: with w = nδ u,
    ½‖w‖² + C·δ Σ_i hinge is n²δ² (½‖u‖² + C/(n²δ) Σ_i hinge), so that C = n²δ is comparable to 1. Measures of the order
    of pairs have features of pairs, each with the same weight as in the loss; a positive example then weighs C/n₊.

    Parameters
    ----------
    loss : str
        Name of a loss of `Measure`.
    n_examples, n_positive : int
        n, and n₊ ≥ 1.
    k : int, optional
        Number of examples of ``"precision@k"``.

    Returns
    -------
    float
        n for ``"error"``, n²/k for ``"precision@k"``, n₊ for ``"rocarea"`` and ``"average_precision"``, else n²/n₊.
    """
    options(*MEASURES).check(loss, "loss", "Use 'f1' for a function of the contingency table.")
    integer(1).check(n_examples, "n_examples")
    integer(1, n_examples).check(n_positive, "n_positive")
    if loss == "error":
        return float(n_examples)
    if loss in ("rocarea", "average_precision"):
        return float(n_positive)
    if loss != "precision@k":
        return n_examples**2 / n_positive
    integer(1, n_examples).check(k, "k")
    assert k is not None
    return n_examples**2 / k
