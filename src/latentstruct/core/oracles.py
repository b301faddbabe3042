"""Oracles: the two sides of an objective, represented by planes."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from latentstruct.core.pooling import as_planes, check_query, planes_of, total_of
from latentstruct.core.protocols import (
    HARD,
    ONE_CHUNK,
    ApproximateBatch,
    Batch,
    Mode,
    Pooled,
    Query,
    RememberingBatch,
    RenyiTask,
    Tally,
    Task,
    Temperature,
)
from latentstruct.core.types import Indices, Vector
from latentstruct.exceptions import Description, InputError
from latentstruct.parallel.threads import Chunks, chunk_by_work, thread_fold, thread_map
from latentstruct.planes.plane import Plane, Planes
from latentstruct.planes.summation import PlaneTree, group_size

WORTH = 10.0
"""Minimum ratio of the work of a chunk to its overhead."""
SUMMED_LATENTS = Temperature(0.0, 1.0)
P = TypeVar("P", Plane, Planes)


class BaseOracle:
    """Defaults of oracles; see `latentstruct.core.protocols.Oracle`.

    Subclasses define `_planes`, or `_total` if they do not know the planes of single examples.
    """

    n_examples: int
    n_features: int
    weights: Vector
    smooth: bool = False
    half_smooth: bool = False
    linear: bool = False
    supporting: bool = True
    separable: bool = True
    divisible: bool = True
    approximate: bool = False
    bounded_above: bool = False
    batch: Batch | None = None
    chunk_bounds: Indices | None = None
    n_jobs: int = 1
    tally: Tally | None = None

    def count(self, rows: Indices | None = None) -> None:
        """Add the number of queried examples to the tally, if there is one."""
        if self.tally is not None:
            self.tally.calls += self.n_examples if rows is None else len(rows)

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the planes at w."""
        self.count()
        return self._total(w, None)

    def part_total(self, w: Vector, rows: Indices) -> Plane:
        """Return the weighted sum of the planes of some examples at w."""
        self.count(rows)
        return self._total(w, rows)

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the planes of some examples at w."""
        self.count(rows)
        return self._planes(w, rows)

    def _planes(self, w: Vector, rows: Indices | None) -> Planes:
        raise TypeError(f"{type(self).__name__} does not define _planes()")

    def _total(self, w: Vector, rows: Indices | None) -> Plane:
        return self._planes(w, rows).total(self.weights if rows is None else self.weights[rows])

    def latents_total(self, latents: Sequence[Any]) -> Plane:
        """Return the weighted sum of the planes of given latents."""
        raise TypeError(f"{type(self).__name__} does not define latents_total()")

    def plane_losses(self) -> Any:
        """Return the current losses of planes found with other losses; None, as here, if unknown."""
        return None

    def smoothed(self, output_temperature: float) -> Any:
        """Return the same side with hard maxima taken at this temperature."""
        raise InputError(
            "solver",
            Description("one for smooth objectives"),
            f"one for piecewise linear objectives with {type(self).__name__}, which has no soft form",
            "Use 'auto'.",
        )

    def counted(self, tally: Tally | None = None) -> Any:
        """Return the same side with its calls added to a tally, by default a new one."""
        counted = copy(self)
        counted.tally = Tally() if tally is None else tally
        return counted

    def reweighted(self, weights: Vector) -> Any:
        """Return the same side with other weights c_i."""
        return replace(self, weights=weights)  # type: ignore[type-var]

    def in_threads(self, n_jobs: int) -> Any:
        """Return the same side, evaluated by several threads where possible."""
        threaded = copy(self)
        threaded.n_jobs = n_jobs
        return threaded

    def with_chunk_bounds(self, chunk_bounds: Indices) -> Any:
        """Return the same side with sums over the chunks between these bounds, if it supports them."""
        return self


@dataclass
class TaskOracle(BaseOracle):
    """One mode of a task on one batch, with the examples' weights c_i.

    The examples are divided into chunks, which threads share. Chunks are the same for any number of threads, and so are
    the results.

    `chunk_bounds` are the bounds 0 = b_0 < b_1 < … = n of chunks whose sums are added in pairs, as those of shards are.
    An objective is then the same in one process and in shards, bit for bit. Tasks whose examples threads cannot share
    are still queried as a whole.
    """

    task: Task
    batch: Batch = field()
    weights: Vector
    mode: Mode
    temperature: Temperature = HARD
    n_jobs: int = 1
    chunk_bounds: Indices | None = None
    takes_chunks = True

    def __post_init__(self) -> None:
        self.n_examples = self.batch.n_examples
        self.n_features = self.task.n_features
        check_query(self.task, self.batch, self.mode, self.temperature)
        soft_outputs, soft_latents = self.temperature.output > 0, self.temperature.latent > 0
        latent, clamped = self.task.latent, self.mode == "clamped"
        self.smooth = (soft_outputs or clamped) and (soft_latents or not latent)
        self.half_smooth = latent and soft_outputs != soft_latents
        # If both are maximized, even the plane of a missed maximum is below.
        self._hard = (not soft_outputs or clamped) and (not soft_latents or not latent)

    def smoothed(self, output_temperature: float) -> "TaskOracle":
        """Return the same side with hard maxima over outputs and latents taken at this temperature."""
        latent = self.temperature.latent or (output_temperature if self.task.latent else 0.0)
        return replace(self, temperature=Temperature(self.temperature.output or output_temperature, latent))

    @property
    def approximate(self) -> bool:  # type: ignore[override]
        """Whether results are known in advance to be inexact."""
        return isinstance(self.batch, ApproximateBatch) and self.batch.is_approximate(self.temperature)

    @property
    def bounded_above(self) -> bool:  # type: ignore[override]
        """Whether inexact maxima come with upper bounds."""
        return self.task.tags.upper_bounds and self._hard

    def plane_losses(self) -> Any:
        """Return the current losses of planes found with other losses; None if unknown."""
        return self.task.plane_losses(self.batch)

    def with_chunk_bounds(self, chunk_bounds: Indices) -> "TaskOracle":
        """Return the same side with sums over the chunks between these bounds."""
        return replace(self, chunk_bounds=chunk_bounds)

    @cached_property
    def work(self) -> Vector:
        """Elementary steps of each example, shape (n,); 0 if threads cannot share them."""
        return self.task.work(self.batch, self.mode, self.temperature)

    @cached_property
    def shared(self) -> bool:
        """Whether threads can share the examples."""
        return bool(self.work.any())

    @cached_property
    def overhead(self) -> float:
        """Elementary steps of each chunk in addition to those of its examples."""
        return float(self.task.overhead(self.batch))

    @property
    def least_summed(self) -> float:
        """Elementary steps of the smallest chunk that justifies its own slope, which is added to the others."""
        return WORTH * (self.overhead + self.n_features)

    def _bounds(self, rows: Indices | None, least: float) -> Indices:
        """Return the bounds of the chunks that some examples are divided into."""
        if rows is None:
            return chunk_by_work(self.work, least)
        bounds = chunk_by_work(self.work[rows], least) if len(rows) > 1 else np.array([0, len(rows)])
        if len(bounds) > 2 and isinstance(self.batch, RememberingBatch) and len(np.unique(rows)) < len(rows):
            # The result of an example that is queried twice would depend on the order of threads.
            return bounds[[0, -1]]
        return bounds

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the planes at w."""
        self.count()
        cut = self.chunk_bounds is not None and self.shared
        bounds = self.chunk_bounds if cut else self._bounds(None, self.least_summed)
        assert bounds is not None
        if len(bounds) < 3:
            return self._total(w, None)
        tree = PlaneTree(group_size(len(bounds) - 1) if cut else len(bounds))
        parts = [np.arange(start, end) for start, end in pairwise(bounds)]
        thread_fold(lambda rows: self._total(w, rows), parts, tree.add, self.n_jobs)
        return tree.total()

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the planes of some examples at w."""
        self.count(rows)
        bounds = self._bounds(rows, WORTH * self.overhead)
        if len(bounds) < 3:
            return self._planes(w, rows)
        if self.takes_chunks and self.task.chunked(self.batch, self.mode, self.temperature):
            return self._planes(w, rows, Chunks(tuple(bounds.tolist()), self.n_jobs))
        parts = np.split(np.arange(self.n_examples) if rows is None else rows, bounds[1:-1])
        return Planes.joined(thread_map(lambda part: self._planes(w, part), parts, self.n_jobs))

    def _marked(self, found: P) -> P:
        """Set whether a plane or planes, which are not shared, are below, and return them."""
        if self.mode == "clamped" and not self.task.latent:
            found.exact = True
        else:
            found.below = self._hard or bool(np.all(found.exact))
        return found

    @property
    def _floored(self) -> bool:
        """Whether the true output is known and may be better than an inexact result."""
        return self._hard and self.mode != "clamped" and self.batch.labeled and not self.task.tags.above_truth

    def _planes(self, w: Vector, rows: Indices | None, chunks: Chunks = ONE_CHUNK) -> Planes:
        """Query the task; replace inexact planes by that of the true output if it is higher."""
        query = Query(w, self.mode, self.temperature, rows, chunks=chunks)
        found = self._marked(as_planes(self.task, self.batch, query, self.task.pool_batch(self.batch, query)))
        if found.all_exact or not self._floored:
            return found
        inexact = np.flatnonzero(~found.each_exact)
        queried = inexact if rows is None else rows[inexact]
        truth = planes_of(self.task, self.batch, Query(w, "clamped", self.temperature, queried))
        higher = np.flatnonzero(truth.values > found.values[inexact])
        if not len(higher):
            return found
        # The upper bounds of the values stay as they are.
        left = (found.each_slack + found.values)[inexact[higher]] - truth.values[higher]
        return found.replaced(inexact[higher], replace(truth.take(higher), exact=False, excess=np.maximum(0.0, left)))

    def _total(self, w: Vector, rows: Indices | None) -> Plane:
        weights = self.weights if rows is None else self.weights[rows]
        if self.task.tags.exact or not self._floored:
            found = total_of(self.task, self.batch, Query(w, self.mode, self.temperature, rows, weights))
            if found.exact or not self._floored:
                return self._marked(found)
        return self._planes(w, rows).total(weights)


@dataclass
class RenyiOracle(TaskOracle):
    """One mode of a task whose latents are pooled by Rényi entropy: smax_{ε_y} over y of Δ_i(y) + G_α(y).

    G_α(y) = [log Σ_h exp α s(y, h) − log Σ_h exp s(y, h)]/(α − 1) is not convex in w, so that results are
    tangents, not bounds: all are marked inexact, and no solver may rely on a difference of convex functions.

    The latent temperature is 1.
    """

    task: RenyiTask
    temperature: Temperature = SUMMED_LATENTS
    order: float = 2.0
    supporting = False
    takes_chunks = False
    _total = BaseOracle._total

    def _planes(self, w: Vector, rows: Indices | None, chunks: Chunks = ONE_CHUNK) -> Planes:
        query = Query(w, self.mode, self.temperature, rows)
        pooled = self.task.renyi_pool(self.batch, query, self.order)
        found = as_planes(self.task, self.batch, query, pooled, "renyi_pool")
        return replace(found, exact=False, below=False)


@dataclass
class SlackOracle(TaskOracle):
    """The augmented side with slack rescaling: f_i(w) = max_y Δ_i(y)·(1 + s(y) − s(y_i)) ≥ 0.

    A plane of f_i is Δ·(1 + (φ(y) − φ(y_i))·w). The maximizer is among the best outputs of each loss, if a task
    knows these (`Task.loss_levels`). Otherwise it is searched among the results of the margin oracle for scaled losses,
    argmax_y s(y) + λΔ(y). These cover only the convex hull of the pairs (Δ, s), so the results are then marked inexact:
    their planes are below f_i, but may not be tight.
    """

    mode: Mode = "augmented"
    scales: tuple[float, ...] = tuple(2.0**k for k in range(-6, 7))
    truth: Planes = None  # type: ignore[assignment]
    """Planes of the true outputs, set after initialization."""
    takes_chunks = False
    bounded_above = False
    _total = BaseOracle._total
    smoothed = BaseOracle.smoothed

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.truth is None:
            self.truth = planes_of(self.task, self.batch, Query(np.zeros(self.n_features), "clamped"))

    def _argmax(self, w: Vector, rows: Indices) -> Planes:
        query = Query(w, "augmented", rows=rows)
        levels = self.task.loss_levels(self.batch, query)
        # The true output, whose product is 0, is always compared.
        best, best_product = self.truth.take(rows), np.zeros(len(rows))
        true_score = best.dot(w)
        if levels is not None:
            return as_planes(self.task, self.batch, query, Pooled(*levels.best(true_score)), "loss_levels")
        for scale in self.scales:
            found = planes_of(self.task, self.batch, Query(w / scale, "augmented", rows=rows))
            product = found.offsets * (1.0 + found.dot(w) - true_score)
            better = np.flatnonzero(product > best_product)
            best = best.replaced(better, found.take(better))
            best_product[better] = product[better]
        return replace(best, exact=False, excess=np.inf)

    def _planes(self, w: Vector, rows: Indices | None, chunks: Chunks = ONE_CHUNK) -> Planes:
        rows = np.arange(self.n_examples) if rows is None else rows
        found, truth = self._argmax(w, rows), self.truth.take(rows)
        # The true output, whose loss is 0, is at least as good as outputs with a negative product.
        loss = np.where(1.0 + found.dot(w) - truth.dot(w) > 0.0, found.offsets, 0.0)
        slack = found.scaled(loss) + truth.scaled(-loss)
        slack.offsets = loss.copy()
        slack.values = slack.offsets + slack.dot(w)
        return slack


@dataclass
class FixedOracle(BaseOracle):
    """A linear side: the same planes at all w (a known output, or a side linearized by CCCP)."""

    fixed: Planes
    weights: Vector
    chunk_bounds: Indices | None = None
    smooth = True
    linear = True

    def __post_init__(self) -> None:
        self.n_examples = len(self.fixed)
        self.n_features = self.fixed.n_features

    @cached_property
    def _sum(self) -> Plane:
        chunk_bounds = np.array([0, self.n_examples]) if self.chunk_bounds is None else self.chunk_bounds
        tree = PlaneTree(group_size(len(chunk_bounds) - 1))
        for begin, end in pairwise(chunk_bounds):
            tree.add(self.fixed.between(begin, end).total(self.weights[begin:end]))
        return tree.total()

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the planes."""
        return self._sum

    def with_chunk_bounds(self, chunk_bounds: Indices) -> "FixedOracle":
        """Return the same side with sums over the chunks between these bounds."""
        return replace(self, chunk_bounds=chunk_bounds)

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the planes of some examples, with their values at w."""
        chosen = self.fixed if rows is None else self.fixed.take(rows)
        return replace(chosen, values=chosen.offsets + chosen.dot(w))


@dataclass
class FixedTotal(BaseOracle):
    """A linear side with a known sum over all examples only, for data in other processes."""

    plane: Plane
    weights: Vector
    smooth = True
    linear = True
    separable = False
    divisible = False

    def __post_init__(self) -> None:
        self.n_examples = len(self.weights)
        self.n_features = len(self.plane.slope)

    def total(self, w: Vector) -> Plane:
        """Return the sum of the planes."""
        return self.plane

    def reweighted(self, weights: Vector) -> Any:
        """Raise, because planes of single examples are unknown."""
        raise InputError(
            "weights",
            weights,
            "those of the objective, which provides only the sum over all examples",
            "Build a new objective with these weights.",
        )
