"""Estimators on examples in files, which are read part by part."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import wraps
from typing import Any, NamedTuple, cast

import numpy as np

from latentstruct.core.formatting import repr_short
from latentstruct.core.protocols import Batch, StateWeights
from latentstruct.core.validation import copied
from latentstruct.data.sharded import ShardedData
from latentstruct.estimators.rows import are_rows, as_rows, check_feature_names
from latentstruct.exceptions import InputError
from latentstruct.parallel.shards import LocalShards
from latentstruct.parallel.threads import effective_jobs, one_blas_thread, thread_map
from latentstruct.persistence.fingerprint import digest
from latentstruct.tasks.base import BaseTask


class StoredPart(NamedTuple):
    """Examples that are prepared already, in the place of X."""

    batch: Batch


USE_DATA_TASK = "Use task=data.task, or prepare the data again."


class StoredExamples:
    """The part of estimators that reads `ShardedData` instead of X and y."""

    task_: BaseTask
    n_jobs: int | None

    @property
    def n_features_in_(self) -> int:
        """Number of features of each row of X, where X has rows of features."""
        if not (hasattr(self, "task_") and self.task_.n_inputs_):
            raise AttributeError(f"{type(self).__name__} has no n_features_in_: it is not fitted, or X has no features")
        return self.task_.n_inputs_

    def _prepared(self, X: Any, Y: Any = None) -> Batch:
        """Return examples as a batch of the trained task."""
        return X.batch if isinstance(X, StoredPart) else self.task_.prepare(self._read_rows(X), Y)

    def _read_rows(self, X: Any) -> Any:
        """Return X as an array or a sparse matrix with the features seen in training, where examples are its rows."""
        if not are_rows(self.task_, X):
            return X
        check_feature_names(self, X, reset=False)
        return as_rows(X, type(self).__name__, self.n_features_in_)

    def _stored_batches(self, data: ShardedData) -> Sequence[Batch]:
        """Return the batches of a data set for the trained task, each opened when it is read."""
        task = copied(self.task_)
        with_states = task.tags.state_weights and type(task) is type(data.task)
        if with_states and _states(task) is not None and _states(data.task) is None:
            raise InputError(
                "X",
                data,
                f"prepared for the states of the model, states={repr_short(_states(task))}",
                "Prepare the data with task=model.task_, or use the model that is not pruned.",
            )
        adopt(task, data)
        if task.learned_state() != self.task_.learned_state():
            expected = "prepared by a task with the labels and features of the model"
            raise InputError("X", data, expected, "Prepare the data with task=model.task_.")
        return data.batches_for(self.task_)

    def _stored_answers(self, data: ShardedData, answer: Callable[[StoredPart], Any]) -> list[Any]:
        """Return the results of a decoding function for each part; threads share the parts if decoding is threaded."""
        batches, threaded = self._stored_batches(data), self.task_.tags.threaded_decoding
        n_jobs = effective_jobs(self.n_jobs) if threaded else 1
        with one_blas_thread() if threaded else nullcontext():
            return thread_map(lambda number: answer(StoredPart(batches[number])), range(len(batches)), n_jobs)

    def _stored_outputs(self, data: ShardedData, Y: Any) -> Any:
        """Return the outputs that are stored with the examples."""
        require_stored_outputs(data, Y)
        return joined([self.task_.true_outputs(batch) for batch in self._stored_batches(data)])


def require_stored_outputs(data: ShardedData, Y: Any) -> None:
    """Raise unless the outputs are those that are stored with the examples."""
    if Y is not None:
        raise InputError("y", Y, "None for stored examples, which include their outputs")
    if not data.labeled:
        raise InputError("X", data, "prepared with outputs", "Prepare the data with `Y`.")


def by_parts(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Decorate a method with one result per example, so that it also accepts stored examples."""

    @wraps(method)
    def answer(self: Any, X: Any) -> Any:
        if not isinstance(X, ShardedData):
            return method(self, X)
        return joined([method(self, StoredPart(batch)) for batch in self._stored_batches(X)])

    return answer


def joined(answers: Sequence[Any]) -> Any:
    """Return the results of several parts as one: an array if all are arrays, else a list."""
    if all(isinstance(answer, np.ndarray) for answer in answers):
        return np.concatenate(answers)
    return [item for answer in answers for item in answer]


def stored_shards(task: BaseTask, data: ShardedData, Y: Any) -> LocalShards:
    """Return the shards that a task, which takes over what that of the data learned, is trained on."""
    require_stored_outputs(data, Y)
    adopt(task, data)
    return LocalShards(task, data.batches_for(task), data.sizes, divided=True)


def adopt(task: BaseTask, data: ShardedData) -> None:
    """Let a task take over what that of the data learned, if their parameters allow that."""
    known = data.task
    if type(task) is not type(known):
        raise InputError("task", task, f"{type(known).__name__}, for which {data.folder} was prepared", USE_DATA_TASK)
    given, prepared = task.get_params(deep=False), known.get_params(deep=False)
    for name in sorted(given.keys() - set(task.tags.refit_parameters)):
        if not _alike(given[name], prepared[name]):
            expected = f"{repr_short(prepared[name])}, with which {data.folder} was prepared"
            raise InputError(name, given[name], expected, USE_DATA_TASK)
    state = known.state()
    if state is not None:
        task.adopt(state)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two values of a parameter mean the same, whether lists or tuples, plain numbers or numpy's."""
    if digest(one) == digest(other):
        return True
    from latentstruct.persistence.models import encode

    try:
        return _plain(encode(_plain(one), "")) == _plain(encode(_plain(other), ""))
    except InputError:
        return False


def _plain(value: Any) -> Any:
    """Return arrays, tuples and what stands for them in a file as lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        listed = value.keys() & {"$array", "$tuple"}
        return _plain(value[listed.pop()]) if listed else {key: _plain(item) for key, item in value.items()}
    return value


def refuse_stored(estimator: StoredExamples, X: Any) -> None:
    """Raise if an estimator that needs all examples at once is given stored ones."""
    if isinstance(X, ShardedData):
        expected = f"examples in memory for {type(estimator).__name__}"
        raise InputError("X", X, expected, "StructuralSVM, CRF and LatentSSVM support stored examples.")


def _states(task: BaseTask) -> Any:
    """Return which latent states a task with `tags.state_weights` has, None for all."""
    return cast(StateWeights, task).states
