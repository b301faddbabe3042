"""Where the examples of a fit are: in one batch in this process, or in shards here or on the workers of a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from latentstruct.core.oracles import TaskOracle
from latentstruct.exceptions import InputError
from latentstruct.held_values import stored_recipes
from latentstruct.ragged import Indices
from latentstruct.sharded_data import ShardedData
from latentstruct.shards import LocalShards, data_recipes, length_of, shard_bounds
from latentstruct.short_repr import show


@dataclass
class Place:
    """The examples of a fit.

    Attributes
    ----------
    batch : Batch or Shards
        What an objective is composed of.
    whole : Batch, optional
        All examples in one batch in this process, if they are.
    sample : callable, optional
        Opens the batch of the first shard here, where there is no whole.
    cuts : ndarray of int, optional
        Bounds of the shards that examples in memory are in, or would be in elsewhere.
    """

    batch: Any
    whole: Any = None
    sample: Callable[[], Any] | None = None
    cuts: Indices | None = None

    @property
    def sharded(self) -> bool:
        """Whether the examples are in shards."""
        return self.batch is not self.whole


@contextmanager
def placed(estimator: Any, task: Any, examples: Any, X: Any, Y: Any) -> Iterator[Place]:
    """Put the examples of a fit where the estimator's executor says, for as long as they are needed.

    Parameters
    ----------
    estimator : estimator
        Its executor is "dask", a distributed.Client, "local" or None. None is this process; "local" is too, with the
        shards and so with the results of a cluster.
    task : Task
        A task that has learned its data.
    examples : Batch or LocalShards
        The examples in this process. Those in memory are prepared here in any case: errors then name an example by its
        place, and first latents may depend on all examples.
    X, Y : collections of length n, or ShardedData and None
        The examples as they were given.
    """
    executor = estimator.executor
    stored = examples.batches if isinstance(examples, LocalShards) else None
    bounds, shared = (None, False) if stored else _bounds(estimator, task, examples, X)
    here = Place(
        examples,
        None if stored else examples,
        partial(stored.__getitem__, 0) if stored else None,
        bounds if shared else None,
    )
    if executor is None or (stored and _is_local(executor)):
        yield here
        return
    recipes: list[Any] = stored_recipes(X) if bounds is None else data_recipes(X, Y, bounds)
    if _is_local(executor):
        yield replace(here, batch=LocalShards(task, [recipe(task) for recipe in recipes], shared=shared))
        return
    from latentstruct.dask_shards import DaskShards, opened

    with opened(executor) as client:
        shards = DaskShards(client, task, recipes)
        try:
            yield replace(here, batch=shards)
        finally:
            shards.close()


def _bounds(estimator: Any, task: Any, examples: Any, X: Any) -> tuple[Indices | None, bool]:
    """Return what examples in memory are cut at, if they are, and whether threads can share them."""
    if not estimator.trains_in_shards or task.tags.single_example:
        return None, False
    side = TaskOracle(task, examples, np.ones(examples.n_examples), "free", estimator._temperature())
    if not side.shared and estimator.executor is None:
        return None, False
    return shard_bounds(side, X), side.shared


def _is_local(executor: Any) -> bool:
    return isinstance(executor, str) and executor == "local"


def require_divisible(estimator: Any, task: Any, X: Any) -> None:
    """Raise where examples are to be in shards, but cannot be trained on there."""
    stored = isinstance(X, ShardedData)
    if estimator.executor is None and not stored:
        return
    given = "X is ShardedData" if stored else f"executor is {show(estimator.executor)}"
    cure = "give X and Y" if stored else "leave it out"
    if not estimator.trains_in_shards:
        raise InputError(f"{given}, but {type(estimator).__name__} needs all examples in this process: {cure}")
    if task.tags.single_example:
        raise InputError(
            f"{given}, but {type(task).__name__} takes the whole set for one example, which cannot be divided: {cure}"
        )
    if not stored and length_of(X) == 1:
        raise InputError(f"{given}, but there is only one example, which cannot be divided: {cure}")
