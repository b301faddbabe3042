"""Where the examples of a fit are: in one batch in this process, or in shards here or on the workers of a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.core.memory import require_weights
from latentstruct.core.oracles import TaskOracle
from latentstruct.core.protocols import Batch
from latentstruct.core.types import Indices
from latentstruct.data.sharded import ShardedData
from latentstruct.estimators.stored import stored_shards
from latentstruct.exceptions import InputError
from latentstruct.parallel.dask_transport import stored_recipes
from latentstruct.parallel.shards import LocalShards, Shards, data_recipes, length_of, shard_bounds
from latentstruct.tasks.base import BaseTask

if TYPE_CHECKING:
    from latentstruct.estimators.base import BaseStructuredEstimator, FitInputs


@dataclass
class DataPlacement:
    """The examples of a fit."""

    batch: Batch | Shards  # what an objective is composed of
    whole: Batch | None = None  # all examples in one batch in this process, if they are
    sample: Callable[[], Batch] | None = None  # opens the batch of the first shard here, where there is no whole
    chunk_bounds: Indices | None = None  # bounds of the shards that examples in memory are in, or would be in elsewhere


@contextmanager
def data_placement(estimator: "BaseStructuredEstimator", task: BaseTask, given: "FitInputs") -> Iterator[DataPlacement]:
    """Let a task learn, and put the examples where the estimator's executor says for as long as they are needed.

    The executor is "dask", a distributed.Client, "local" or None. None is this process; "local" is too, with the shards
    and so with the results of a cluster. Examples in memory are prepared here in any case: errors then name an example
    by its place, and initial latents may depend on all examples.
    """
    X, Y, executor = given.X, given.Y, estimator.executor
    local = isinstance(executor, str) and executor == "local"
    stored = isinstance(X, ShardedData)
    if stored or executor is not None:
        _require_divisible(estimator, task, X)
    if stored:
        shards = stored_shards(task, X, Y)
        require_weights(task.n_features)
        here = DataPlacement(shards, sample=partial(shards.batches.__getitem__, 0))
    else:
        task.learn(X, Y)
        require_weights(task.n_features)
        batch = task.prepare(X, Y)
        here = DataPlacement(batch, batch)
        if estimator.trains_in_shards and not task.tags.single_example:
            side = TaskOracle(task, batch, np.ones(batch.n_examples), "free", estimator._temperature())
            here.chunk_bounds = side.sum_bounds()
    if executor is None or (stored and local):
        yield here
        return
    recipes: list[Any] = stored_recipes(X) if stored else data_recipes(X, Y, shard_bounds(side, X))
    if local:
        batches, shared = [recipe(task) for recipe in recipes], here.chunk_bounds is not None
        yield replace(here, batch=LocalShards(task, batches, shared=shared))
        return
    from latentstruct.parallel.dask_shards import DaskShards, opened

    with opened(executor) as client:
        remote = DaskShards(client, task, recipes)
        try:
            yield replace(here, batch=remote)
        finally:
            remote.close()


def _require_divisible(estimator: "BaseStructuredEstimator", task: BaseTask, X: Any) -> None:
    """Raise if examples that must be in shards cannot be trained on there."""
    stored = isinstance(X, ShardedData)
    if not estimator.trains_in_shards:
        reason = f"{type(estimator).__name__}, which needs all examples in this process"
    elif task.tags.single_example:
        reason = f"{type(task).__name__}, which treats the whole data set as one example"
    elif not stored and length_of(X) == 1:
        reason = "a single example"
    else:
        return
    if stored:
        raise InputError("X", X, f"examples in memory for {reason}")
    raise InputError("executor", estimator.executor, f"None for {reason}")
