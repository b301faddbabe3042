"""Examples in shards, in this process or elsewhere. The sides of an objective are sums over whole shards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log2
from typing import Any, Protocol, runtime_checkable

import numpy as np

from latentstruct.core.lazy import issparse
from latentstruct.core.oracles import HARD, BaseOracle, FixedTotal, TaskOracle
from latentstruct.core.protocols import Batch, LatentTask, Mode, Task, Temperature
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import check_length
from latentstruct.parallel.threads import thread_fold
from latentstruct.planes.plane import Plane, checked_planes
from latentstruct.planes.summation import MOST_GROUPS, PlaneTree, group_size

LEAST_SHARDS, MOST_SHARDS = 8, MOST_GROUPS
"""Number of shards of data in memory if the work is unknown, whatever the number of workers."""
LENGTH_OF_SHARD = 20_000
"""Minimum number of tokens, letters or other parts of the examples of a shard, within these limits."""
IMBALANCE = 0.25
"""Largest ratio of a worker's number of shards to the mean."""

Function = Callable[..., Any]
"""A function of a module, called with the task, the batch of a shard, and further arguments."""
Arguments = tuple[Any, ...]
Own = Sequence[Arguments] | None
Chosen = Sequence[int] | None


@runtime_checkable
class Shards(Protocol):
    """Labeled examples in shards, each of them a batch of the task, in any process.

    Functions must be importable by name, because other processes may call them. They are called as
    ``function(task, batch, *shared, *own[k])`` for each shard k, or for the `chosen` shards only. Then `own` has
    one tuple per chosen shard.
    """

    task: Task  # the task that has learned its data
    sizes: list[int]  # numbers of examples
    n_examples: int
    # Whether the examples of a shard are divided among threads, as for shards in large files. Otherwise a shard is one
    # chunk, and sums are those of one batch with the same chunk bounds, bit for bit.
    divided: bool

    def map(self, function: Function, shared: Arguments = (), own: Own = None, chosen: Chosen = None) -> list[Any]:
        """Return the results in the order of the shards."""

    def summed(self, function: Function, shared: Arguments = (), own: Own = None, chosen: Chosen = None) -> Plane:
        """Return the sum of results that are planes made for this call, added as in `add_up`."""


class LocalShards:
    """Shards whose batches are in this process, or are opened in it by a lazy sequence when they are accessed.

    If `shared`, threads share shards that are not divided, so that several are open at a time. The task must be
    thread-safe; Python functions of users are not.
    """

    labeled = True

    def __init__(
        self,
        task: Task,
        batches: Sequence[Any],
        sizes: Sequence[int] | None = None,
        divided: bool = False,
        shared: bool = False,
    ) -> None:
        self.task, self.batches, self.divided, self.shared = task, batches, divided, shared
        self.sizes = [batch.n_examples for batch in batches] if sizes is None else [int(size) for size in sizes]
        self.n_examples = sum(self.sizes)

    def map(self, function: Function, shared: Arguments = (), own: Own = None, chosen: Chosen = None) -> list[Any]:
        """Return the results in the order of the shards."""
        answers: list[Any] = []
        self._fold(function, shared, own, chosen, 1, answers.append)
        return answers

    def summed(
        self, function: Function, shared: Arguments = (), own: Own = None, chosen: Chosen = None, n_jobs: int = 1
    ) -> Plane:
        """Return the sum of results that are planes, computed by up to `n_jobs` threads."""
        tree = PlaneTree(group_size(len(self.sizes if chosen is None else chosen)))
        self._fold(function, shared, own, chosen, n_jobs, tree.add)
        return tree.total()

    def _fold(
        self, function: Function, shared: Arguments, own: Own, chosen: Chosen, n_jobs: int, take: Callable[[Any], None]
    ) -> None:
        """Pass the results to `take`, in the order of the shards."""
        selected = range(len(self.sizes)) if chosen is None else chosen

        def call(place: int) -> Any:
            return function(self.task, self.batches[selected[place]], *shared, *(() if own is None else own[place]))

        thread_fold(call, range(len(selected)), take, n_jobs)


def block_length(n_results: int, n_parts: int) -> int:
    """Return how many results are summed in one place, so that the work is balanced among the places.

    Blocks are whole nodes of the tree of `add_up`, as large as they can be; consecutive blocks share a place.
    """
    least = length = group_size(n_results)
    while length < n_results:
        length *= 2
    fair = (1 + IMBALANCE) * n_results / n_parts
    while length > least and np.bincount(places_of_blocks(n_results, length, n_parts)).max() > fair:
        length //= 2
    return length


def places_of_blocks(n_results: int, length: int, n_places: int) -> Indices:
    """Return the place of each result if blocks of this length are spread evenly over places."""
    n_blocks = -(-n_results // length)
    return np.arange(n_results) // length * n_places // n_blocks


def shard_bounds(side: TaskOracle, X: Any) -> Indices:
    """Return the bounds 0 = b_0 < b_1 < … = n of shards in memory, given the free side of all examples X.

    They depend on task and data only. Shards have about equal work; small data are one shard. If the work of a task is
    unknown, as in Python, an example counts by its length if it has one, otherwise as 1.
    """
    bounds = side.sum_bounds()
    if bounds is not None:
        return bounds
    n = length_of(X)
    done = np.cumsum(np.ones(n) if hasattr(X, "shape") else [1.0 + length_of(x) for x in X])
    # A power of two divides evenly among two or four workers.
    wanted = min(n, 2 ** int(log2(np.clip(done[-1] / LENGTH_OF_SHARD, LEAST_SHARDS, MOST_SHARDS))))
    ends = np.searchsorted(done, done[-1] * np.arange(1, wanted) / wanted) + 1
    return np.unique(np.concatenate([[0], np.minimum(ends, n), [n]]))


def length_of(items: Any) -> int:
    """Return the number of items of a collection or rows of a matrix; 1 for anything else."""
    if hasattr(items, "shape"):
        return int(items.shape[0]) if len(items.shape) else 1
    return len(items) if hasattr(items, "__len__") else 1


def part_of(items: Any, begin: int, end: int) -> Any:
    """Return the items from begin to end of a list, an array or a sparse matrix."""
    if issparse(items):
        return items.tocsr()[begin:end]
    try:
        return items[begin:end]
    except TypeError:
        # A collection type of the user need not support slices.
        return [items[k] for k in range(begin, end)]


@dataclass(frozen=True)
class DataRecipe:
    """Examples that are sent to a worker and prepared there."""

    X: Any
    Y: Any
    n_examples: int

    def __call__(self, task: Task) -> Batch:
        """Return the batch."""
        return task.prepare(self.X, self.Y)


def data_recipes(X: Any, Y: Any, bounds: Indices) -> list[DataRecipe]:
    """Return the recipes of shards of examples."""
    return [
        DataRecipe(part_of(X, begin, end), part_of(Y, begin, end), end - begin)
        for begin, end in pairwise(bounds.tolist())
    ]


@dataclass
class ShardedOracle(BaseOracle):
    """One mode of a task on examples in shards, with the examples' weights c_i.

    Planes of single examples are not available, only sums over all or some of them. `n_jobs` threads are for shards in
    this process; elsewhere each shard has one.
    """

    shards: Any  # the examples
    weights: Vector = field()  # (n,) c_i, in the order of the shards
    mode: Mode  # see `Task`
    temperature: Temperature = HARD  # ε_y and ε_h
    separable = False

    def __post_init__(self) -> None:
        self.n_examples = self.shards.n_examples
        self.n_features = self.shards.task.n_features
        check_length(self.weights, self.n_examples, "weights", "weights")

    @property
    def _side(self) -> TaskOracle:
        """The same side of one batch, which knows what does not depend on the examples."""
        return TaskOracle(self.shards.task, self.shards, self.weights, self.mode, self.temperature)

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether the pooled function is differentiable."""
        return self._side.smooth

    @property
    def half_smooth(self) -> bool:  # type: ignore[override]
        """Whether one of outputs and latents is pooled softly and the other one maximized."""
        return self._side.half_smooth

    def smoothed(self, output_temperature: float) -> "ShardedOracle":
        """Return the same side with hard maxima over outputs and latents taken at this temperature."""
        return replace(self, temperature=self._side.smoothed(output_temperature).temperature)

    @property
    def approximate(self) -> bool:  # type: ignore[override]
        """Whether answers are known beforehand not to be exact."""
        return any(self.shards.map(_is_approximate, (self.temperature,)))

    def _total(self, w: Vector, rows: Indices | None) -> Plane:
        if rows is not None:
            return self._part_total(w, rows)
        own = [(short_weights(part),) for part in self._parts(self.weights)]
        here = isinstance(self.shards, LocalShards)
        if self.shards.divided:
            n_jobs = self.n_jobs if here else 1
            return self.shards.summed(_divided_total, (w, self.mode, self.temperature, n_jobs), own)
        threads = {"n_jobs": self.n_jobs} if here and self.shards.shared else {}
        return self.shards.summed(_total, (w, self.mode, self.temperature), own, **threads)

    def _part_total(self, w: Vector, rows: Indices) -> Plane:
        starts = np.cumsum([0, *self.shards.sizes])
        places = np.searchsorted(starts, rows, side="right") - 1
        chosen = np.unique(places)
        selected = [rows[places == k] for k in chosen]
        own = [(part - starts[k], short_weights(self.weights[part])) for k, part in zip(chosen, selected, strict=True)]
        return self.shards.summed(_part_total, (w, self.mode, self.temperature), own, chosen.tolist())

    def latents_total(self, latents: Sequence[Any]) -> Plane:
        """Return the weighted sum of the planes of given latents, one per example."""
        own = [
            (short_weights(weights), part)
            for weights, part in zip(self._parts(self.weights), self._parts(latents), strict=True)
        ]
        return self.shards.summed(_latents_total, (), own)

    def _parts(self, items: Any) -> list[Any]:
        """Return the items of each shard."""
        starts = np.cumsum([0, *self.shards.sizes]).tolist()
        return [part_of(items, begin, end) for begin, end in pairwise(starts)]


@dataclass
class ShardedTruth(FixedTotal):
    """The linear side of known outputs in shards: its sum is known, sums over some examples are computed."""

    side: Any = None
    divisible = True

    def part_total(self, w: Vector, rows: Indices) -> Plane:
        """Return the weighted sum of the planes of the selected examples."""
        return self.side.part_total(w, rows)

    def reweighted(self, weights: Vector) -> "ShardedTruth":
        """Return the same side with other weights c_i; the sum is computed by the shards."""
        return sharded_truth(self.side.reweighted(weights))


def sharded_truth(clamped: ShardedOracle) -> ShardedTruth:
    """Return the clamped side of a task without latent variables, whose planes are the same at all weights."""
    return ShardedTruth(clamped.total(np.zeros(clamped.n_features)), clamped.weights, side=clamped)


def short_weights(weights: Vector) -> Any:
    """Return the weights of a shard, as one number if all are equal."""
    return float(weights[0]) if len(weights) and (weights == weights[0]).all() else weights


def _total(task: Task, batch: Batch, w: Vector, mode: Mode, temperature: Temperature, weights: Any) -> Plane:
    weights = np.broadcast_to(weights, batch.n_examples).copy()
    return TaskOracle(task, batch, weights, mode, temperature)._total(w, None)


def _divided_total(
    task: Task, batch: Batch, w: Vector, mode: Mode, temperature: Temperature, n_jobs: int, weights: Any
) -> Plane:
    weights = np.broadcast_to(weights, batch.n_examples).copy()
    return TaskOracle(task, batch, weights, mode, temperature, n_jobs=n_jobs).total(w)


def _part_total(
    task: Task, batch: Batch, w: Vector, mode: Mode, temperature: Temperature, rows: Indices, weights: Any
) -> Plane:
    planes = TaskOracle(task, batch, np.zeros(batch.n_examples), mode, temperature)._planes(w, rows)
    return planes.total(np.broadcast_to(weights, len(rows)).copy())


def _latents_total(task: LatentTask, batch: Batch, weights: Any, latents: Sequence[Any]) -> Plane:
    planes = checked_planes(task.completion_planes(batch, latents), task, "completion_planes", batch.n_examples)
    return planes.total(np.broadcast_to(weights, batch.n_examples).copy())


def _is_approximate(task: Task, batch: Batch, temperature: Temperature) -> bool:
    return TaskOracle(task, batch, np.zeros(0), "free", temperature).approximate
