"""Training on examples that come in parts, by solvers that take single steps."""

import math
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from latentstruct.core.protocols import Result
from latentstruct.core.types import Vector
from latentstruct.core.validation import copied, is_ordered
from latentstruct.estimators.folds import AutoC
from latentstruct.exceptions import Description, InputError
from latentstruct.solvers.base import solving
from latentstruct.tasks.base import BaseTask

if TYPE_CHECKING:
    from latentstruct.estimators.base import BaseStructuredEstimator, FitInputs


def train_further(estimator: "BaseStructuredEstimator", given: "FitInputs", classes: Sequence[Any] | None) -> None:
    """Make one pass over examples, from what an estimator has reached; see its method `partial_fit`."""
    solver, begun = estimator._online_solver(), hasattr(estimator, "coef_")
    assert solver is not None
    if isinstance(estimator.C, str | AutoC):
        raise InputError("C", estimator.C, "a number for `partial_fit`")
    if begun:
        # Other features are errors.
        estimator._read_rows(given.X)
    unit, earlier = copy(estimator), copy(estimator) if begun else None
    if classes is not None:
        unit.task = _with_classes(estimator.task, classes)
    given = unit._read(given._replace(init=earlier))
    with unit._composed(given) as (task, data, objective), solving():
        if objective.places is not None:
            raise InputError("seen_only", True, "False for `partial_fit`, as later examples have other pairs")
        solver.check(objective)
        n_earlier = 0
        if earlier is None:
            run = solver.begin(solver._start(objective, 0))
        elif estimator._online is None:
            run = solver.begin(_converted(earlier, task, earlier.coef_), continued=True)
        else:
            state, n_earlier = estimator._online
            run = solver.moved(state, partial(_converted, earlier, task))
        solver.one_pass(objective, run, n_earlier)
        w = solver.reached(run).copy()
        value, _ = objective.evaluate(w)
        task.finalize(data.batch, w)
    for name in ("C_", "cv_results_", "feature_names_in_"):
        if name in vars(unit):
            setattr(estimator, name, getattr(unit, name))
    estimator.task_ = task
    n = objective.n_examples
    estimator._store_result(Result(w, value, -math.inf, 2 * n, 1, "max_iter", False, []))
    estimator._online = run, n_earlier + n


def _converted(earlier: "BaseStructuredEstimator", task: BaseTask, w: Vector) -> Vector:
    """Return weights of an earlier task as those of a task."""
    try:
        return task.weights_from(earlier.task_, w)
    except InputError as error:
        if error.parameter != "init":
            raise
        got, expected = Description("new labels or other features"), "examples with the labels and features so far"
        raise InputError("X", got, expected, "Declare all labels in the first call, as `classes`.") from error


def _with_classes(task: BaseTask, classes: Sequence[Any]) -> BaseTask:
    """Return a task with declared labels."""
    parameters = task.get_params(deep=False)
    if "labels" not in parameters or isinstance(classes, str) or not is_ordered(classes):
        raise InputError("classes", classes, "a list of all labels, for tasks with the parameter `labels`")
    return copied(task) if parameters["labels"] is not None else copied(task).set_params(labels=list(classes))
