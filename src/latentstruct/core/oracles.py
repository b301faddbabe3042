"""Oracles: the two sides of an objective, represented by planes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from latentstruct.core.pooling import as_planes, check_query, planes_of, total_of
from latentstruct.core.protocols import (
    HARD,
    ONE_CHUNK,
    ApproximateBatch,
    Batch,
    Cost,
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
from latentstruct.planes.summation import PlaneTree, add_up, group_size

WORTH = 10.0
"""Minimum ratio of the work of a chunk to its overhead."""
SUMMED_LATENTS = Temperature(0.0, 1.0)
P = TypeVar("P", Plane, Planes)


@dataclass(kw_only=True)
class BaseOracle:
    """One side of an objective: a weighted sum of convex functions, represented by planes.

    Requires w of shape (n_features,), finite. Ensures planes that are tight at w and below everywhere, except for
    those marked otherwise: ``exact`` is False where inference may have missed the maximum, ``below`` where a plane may
    exceed the function somewhere. Planes of missed maxima are still below, and bound the minimum.

    Subclasses have `weights`, and define `_total`, and `_planes` if they know the planes of single examples.
    """

    n_jobs: int = 1  # number of threads
    chunk_bounds: Indices | None = None  # bounds of consecutive examples whose sums are added in pairs
    # Number of queried examples, shared with all oracles that are derived from this one.
    tally: Tally = field(default_factory=Tally, repr=False)
    n_examples: int = field(init=False, repr=False)
    n_features: int = field(init=False, repr=False)
    # Without annotations, so that these are no fields.
    smooth = False  # whether the function is differentiable
    half_smooth = False  # whether one of outputs and latents is pooled softly and the other one maximized
    linear = False  # whether the planes are the same at all w
    approximate = False  # whether results are known in advance to be inexact
    bounded_above = False  # whether inexact maxima come with upper bounds
    supporting = True  # whether exact planes are below the function everywhere
    separable = True  # whether planes of single examples are known
    divisible = True  # whether sums over some of the examples are known
    batch = cast("Batch | None", None)  # the examples, if they are in one batch in this process
    weights = cast("Vector", None)  # (n,) c_i

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the planes at w."""
        self.tally.calls += self.n_examples
        return self._total(w, None)

    def part_total(self, w: Vector, rows: Indices) -> Plane:
        """Return the weighted sum of the planes of some examples at w."""
        self.tally.calls += len(rows)
        return self._total(w, rows)

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the planes of some examples at w."""
        self.tally.calls += self.n_examples if rows is None else len(rows)
        return self._planes(w, rows)

    def _planes(self, w: Vector, rows: Indices | None) -> Planes:
        raise TypeError(f"{type(self).__name__} does not define _planes()")

    def _total(self, w: Vector, rows: Indices | None) -> Plane:
        raise TypeError(f"{type(self).__name__} does not define _total()")

    def latents_total(self, latents: Sequence[Any]) -> Plane:
        """Return the weighted sum of the planes of given latents."""
        raise TypeError(f"{type(self).__name__} does not define latents_total()")

    def plane_losses(self) -> Any:
        """Return the current losses of planes found with other losses; None, as here, if unknown."""
        return None

    def smoothed(self, output_temperature: float) -> Any:
        """Return the same side with hard maxima taken at this temperature."""
        expected = f"one for piecewise linear objectives with {type(self).__name__}, which has no soft form"
        raise InputError("solver", Description("one for smooth objectives"), expected, "Use 'auto'.")

    def reweighted(self, weights: Vector) -> Any:
        """Return the same side with other weights c_i."""
        return replace(self, weights=weights)  # type: ignore[call-arg]

    def divided(self, n_jobs: int, chunk_bounds: Indices | None = None) -> Any:
        """Return the same side, evaluated by several threads, and with sums over the chunks between these bounds."""
        return replace(self, n_jobs=n_jobs, chunk_bounds=chunk_bounds)


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
    weights: Vector = field()
    mode: Mode
    temperature: Temperature = HARD
    pools: ClassVar[bool] = True
    """Whether planes and sums are those of `Task.pool_batch`; otherwise sums follow from planes."""

    def __post_init__(self) -> None:
        self.n_examples = self.batch.n_examples
        self.n_features = self.task.n_features
        check_query(self.task, self.batch, self.mode, self.temperature)
        soft_outputs, soft_latents = self.temperature.output > 0, self.temperature.latent > 0
        latent, clamped = self.task.latent, self.mode == "clamped"
        self.smooth = (soft_outputs or clamped) and (soft_latents or not latent)
        self.half_smooth = latent and soft_outputs != soft_latents
        # Whether results depend on earlier calls; the check of a protocol takes longer than a small query.
        self._remembering = isinstance(self.batch, RememberingBatch)
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
        return self.task.plane_losses(self.batch)

    @cached_property
    def planes_at_zero(self) -> Planes:
        """The planes of all examples at w = 0."""
        return self.planes(np.zeros(self.n_features))

    @cached_property
    def cost(self) -> Cost:
        """Approximate cost of the task."""
        return self.task.cost(self.batch, self.mode, self.temperature)

    def sum_bounds(self) -> Indices | None:
        """Return the bounds of chunks large enough to have slopes of their own, which are added.

        None if threads cannot share the examples.
        """
        work, overhead, _ = self.cost
        return chunk_by_work(work, WORTH * (overhead + self.n_features)) if work.any() else None

    def total(self, w: Vector) -> Plane:
        self.tally.calls += self.n_examples
        bounds = self.sum_bounds()
        given = bounds is not None and self.chunk_bounds is not None
        bounds = self.chunk_bounds if given else bounds
        if bounds is None or len(bounds) < 3:
            return self._total(w, None)
        tree = PlaneTree(group_size(len(bounds) - 1) if given else len(bounds))
        parts = [np.arange(start, end) for start, end in pairwise(bounds)]
        thread_fold(lambda rows: self._total(w, rows), parts, tree.add, self.n_jobs)
        return tree.total()

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        self.tally.calls += self.n_examples if rows is None else len(rows)
        work, overhead, chunked = self.cost
        bounds = chunk_by_work(work if rows is None else work[rows], WORTH * overhead)
        # The result of an example that is queried twice would depend on the order of threads.
        repeated = rows is not None and self._remembering and len(np.unique(rows)) < len(rows)
        if len(bounds) < 3 or repeated:
            return self._planes(w, rows)
        if self.pools and chunked:
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
        if self.pools and (self.task.tags.exact or not self._floored):
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
    pools = False

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
    pools = bounded_above = False
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
    """A linear side: the same planes at all w (a side linearized by CCCP, or those of an oracle of known outputs)."""

    source: Planes | TaskOracle
    weights: Vector = field()
    smooth = True
    linear = True

    def __post_init__(self) -> None:
        self.n_examples, self.n_features = len(self.weights), self.source.n_features
        self._sum: Plane | None = None

    @property
    def fixed(self) -> Planes:
        """The planes, one per example."""
        return self.source.planes_at_zero if isinstance(self.source, TaskOracle) else self.source

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the planes, which is computed only once."""
        bounds, weights = self.chunk_bounds, self.weights
        if self._sum is not None:
            return self._sum
        if bounds is None or len(bounds) < 3:
            self._sum = self.fixed.total(weights)
        else:
            chunks = (self.fixed.between(begin, end).total(weights[begin:end]) for begin, end in pairwise(bounds))
            self._sum = add_up(chunks, len(bounds) - 1, ours=True)
        return self._sum

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the planes of some examples, with their values at w."""
        chosen = self.fixed if rows is None else self.fixed.take(rows)
        return replace(chosen, values=chosen.offsets + chosen.dot(w))


@dataclass
class FixedTotal(BaseOracle):
    """A linear side with a known sum over all examples only, for data in other processes."""

    plane: Plane
    weights: Vector = field()
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
        expected = "those of the objective, which provides only the sum over all examples"
        raise InputError("weights", weights, expected, "Build a new objective with these weights.")
