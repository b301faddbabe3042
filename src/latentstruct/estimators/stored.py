"""Estimators on examples that are stored in files: opened part by part, never all at once."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import wraps
from typing import Any, NamedTuple, cast

import numpy as np

from latentstruct.core.formatting import show
from latentstruct.core.protocols import Batch, StateWeights
from latentstruct.core.validation import copied
from latentstruct.data.sharded import ShardedData
from latentstruct.exceptions import InputError
from latentstruct.parallel.shards import LocalShards
from latentstruct.parallel.threads import effective_jobs, one_blas_thread, thread_map
from latentstruct.persistence.fingerprint import digest
from latentstruct.tasks.base import BaseTask


class StoredPart(NamedTuple):
    """Examples that are prepared already, in the place of X."""

    batch: Batch


class StoredExamples:
    """What estimators do with `ShardedData` in the place of X and Y."""

    task_: BaseTask
    n_jobs: int | None

    def _prepared(self, X: Any, Y: Any = None) -> Batch:
        """Return examples as a batch of the trained task."""
        return X.batch if isinstance(X, StoredPart) else self.task_.prepare(X, Y)

    def _stored_batches(self, data: ShardedData) -> Sequence[Batch]:
        """Return the batches of a data set for the trained task, each opened when it is read."""
        task = copied(self.task_)
        with_states = task.tags.state_weights and type(task) is type(data.task)
        if with_states and _states(task) is not None and _states(data.task) is None:
            raise InputError(
                f"{data.folder} was prepared for all states, but the model was pruned, or trained, with states="
                f"{show(_states(task))}; expected data for these: prepare them with task=model.task_, or use the model "
                "that is not pruned"
            )
        adopt(task, data)
        if task.learned_state() != self.task_.learned_state():
            raise InputError(
                f"{data.folder} was prepared by a {type(task).__name__} that had learned something else than the model "
                "has; expected the same labels and features: prepare the data with task=model.task_"
            )
        return data.batches_for(self.task_)

    def _stored_answers(self, data: ShardedData, answer: Callable[[StoredPart], Any]) -> list[Any]:
        """Return what a function that decodes answers for each part; threads share the parts where that serves."""
        batches, threaded = self._stored_batches(data), self.task_.tags.threaded_decoding
        n_jobs = effective_jobs(self.n_jobs) if threaded else 1
        with one_blas_thread() if threaded else nullcontext():
            return thread_map(lambda number: answer(StoredPart(batches[number])), range(len(batches)), n_jobs)

    def _stored_outputs(self, data: ShardedData, Y: Any) -> Any:
        """Return the outputs that are stored with the examples."""
        require_outputs(data, Y, "compare with")
        return joined([self.task_.true_outputs(batch) for batch in self._stored_batches(data)])


def require_outputs(data: ShardedData, Y: Any, purpose: str) -> None:
    """Raise unless the outputs are those that are stored with the examples."""
    if Y is not None:
        raise InputError(
            f"Y is {show(Y)}, but outputs are stored with the examples; expected none: leave out Y, or prepare the "
            "data with it"
        )
    if not data.labelled:
        raise InputError(f"{data.folder} has no outputs; expected some to {purpose}: prepare the data with Y")


def by_parts(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a method of estimators that answers example by example take stored examples too."""

    @wraps(method)
    def answer(self: Any, X: Any) -> Any:
        if not isinstance(X, ShardedData):
            return method(self, X)
        return joined([method(self, StoredPart(batch)) for batch in self._stored_batches(X)])

    return answer


def joined(answers: Sequence[Any]) -> Any:
    """Return answers of several parts as one: an array of arrays, else a list."""
    if all(isinstance(answer, np.ndarray) for answer in answers):
        return np.concatenate(answers)
    return [item for answer in answers for item in answer]


def stored_shards(task: BaseTask, data: ShardedData, Y: Any) -> LocalShards:
    """Return the shards that a task, which takes over what that of the data learned, is trained on."""
    require_outputs(data, Y, "train on")
    adopt(task, data)
    return LocalShards(task, data.batches_for(task), data.sizes, divided=True)


def adopt(task: BaseTask, data: ShardedData) -> None:
    """Let a task take over what that of the data learned, if their parameters allow that."""
    known = data.task
    if type(task) is not type(known):
        raise InputError(
            f"{data.folder} was prepared for {type(known).__name__}, but the task is {show(task)}: use task=data.task"
        )
    given, prepared = task.get_params(deep=False), known.get_params(deep=False)
    for name in sorted(given.keys() - set(task.tags.refit_parameters)):
        if not _alike(given[name], prepared[name]):
            raise InputError(
                f"{data.folder} was prepared with {name}={show(prepared[name])}, but the task has {show(given[name])}: "
                "use task=data.task, or prepare the data again"
            )
    state = known.state()
    if state is not None:
        task.adopt(state)


def _alike(one: Any, other: Any) -> bool:
    """Tell whether two values of a parameter mean the same, whether lists or tuples, plain numbers or numpy's."""
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
        raise InputError(
            f"X is {show(X)}, but {type(estimator).__name__} needs all examples in memory: give X and Y, or use "
            "StructuralSVM, CRF or LatentSSVM"
        )


def _states(task: BaseTask) -> Any:
    """Return which latent states a task with `tags.state_weights` has, None for all."""
    return cast(StateWeights, task).states
