"""Examples that are the rows of a matrix with one class each, as the classifiers of scikit-learn read them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import issparse, sklearn
from latentstruct.core.validation import array_of, is_ordered, numbers_of
from latentstruct.data.sharded import ShardedData
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.base import BaseTask
from latentstruct.tasks.classes.multiclass import pooled
from latentstruct.tasks.labels import distinct_labels, label_list
from latentstruct.tasks.packing import all_finite


def are_rows(task: BaseTask, X: Any) -> bool:
    """Return whether X has one row of numbers per example.

    A latent task may have a matrix per example instead. What is empty or no collection is left to the task to refuse.
    """
    if not task.tags.row_examples or isinstance(X, ShardedData):
        return False
    if issparse(X) or (hasattr(X, "__array__") and not hasattr(X, "shape")):
        return True
    if not is_ordered(X) or not len(X):
        return False
    if not task.latent:
        return True
    return len(X.shape) == 2 if hasattr(X, "shape") and len(X.shape) > 1 else np.ndim(X[0]) != 2


def as_rows(X: Any, estimator: str, n_features: int | None = None) -> Any:
    """Return X as a float64 array or as the sparse matrix that it is; raise unless it has `n_features` columns.

    The messages contain what `sklearn.utils.estimator_checks` looks for.
    """
    matrix = X if issparse(X) else array_of(X, "X")
    if matrix.dtype.kind == "c":
        raise InputError("X", Description("complex numbers"), "real numbers", "Complex data not supported.")
    if not issparse(X):
        matrix = numbers_of(matrix, "X", "a matrix of real numbers")
    if matrix.ndim != 2:
        hint = "Reshape your data: x.reshape(-1, 1) for a single feature, x.reshape(1, -1) for a single example."
        raise InputError("X", Description(f"shape {matrix.shape}"), "two-dimensional (examples, features)", hint)
    found = matrix.shape[1]
    if not found:
        hint = f"Found 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required."
        raise InputError("X", Description("no features"), "a matrix with at least one feature", hint)
    if n_features not in (None, found):
        expected = f"rows with {n_features} features, as in training"
        hint = f"X has {found} features, but {estimator} is expecting {n_features} features as input."
        raise InputError("X", Description(f"{found} features"), expected, hint)
    if not issparse(X) and not all_finite(matrix):
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        got = f"{matrix[row, column]} at row {row}, column {column}"
        raise InputError("X", Description(got), "finite, neither NaN nor infinite")
    return matrix


def check_feature_names(estimator: Any, X: Any, reset: bool) -> None:
    """Set `feature_names_in_` of an estimator if `reset`, else compare it with the columns of X, by scikit-learn."""
    if hasattr(X, "columns") or (not reset and hasattr(estimator, "feature_names_in_")):
        # Without ensure_2d only the names are checked.
        sklearn.utils.validation.validate_data(estimator, X, reset=reset, skip_check_array=True, ensure_2d=False)
    elif reset:
        vars(estimator).pop("feature_names_in_", None)


def as_classes(task: BaseTask, y: Any) -> Any:
    """Return one class per row.

    Raises for numbers with fractions, unless they are declared as labels, and if a binary task has not two classes.
    """
    if hasattr(y, "__array__"):
        y = array_of(y, "y")
        if y.ndim == 2 and y.shape[1] == 1:
            y = sklearn.utils.column_or_1d(y, warn=True)
    if task.get_params(deep=False).get("labels") is None:
        _refuse_continuous(y)
    if task.tags.binary and is_ordered(y):
        n_classes = len(distinct_labels(label_list(y)))
        if n_classes != 2:
            got = Description("one class" if n_classes == 1 else f"{n_classes} classes")
            hint = "Only binary classification is supported. Use Multiclass for more classes."
            raise InputError("y", got, "labels of two classes", hint)
    return y


def _refuse_continuous(y: Any) -> None:
    """Raise if labels are numbers with fractions, which are no classes."""
    if isinstance(y, np.ndarray) and y.dtype.kind != "O":
        numbers = y.dtype.kind == "f"
    else:
        numbers = is_ordered(y) and all(isinstance(label, float) for label in y)
    values = np.ravel(y) if numbers else np.zeros(0)
    finite = np.isfinite(values)
    if not finite.all():
        raise InputError("y", Description(f"{values[~finite][0]}"), "finite classes, neither NaN nor infinite")
    fractions = values[values != np.floor(values)]
    if len(fractions):
        got = Description(f"continuous values such as {fractions[0]}")
        raise InputError("y", got, "classes", "Declare them in `labels` of the task if they are labels.")


def class_probabilities(scores: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return P(y | x) ∝ exp(s(y) / ε), shape (n, S); scores (n,) are those of the second of two classes."""
    if scores.ndim == 1:
        scores = np.stack([np.zeros(len(scores)), scores], axis=1)
    return pooled(scores, temperature)[1]
