"""Oracles: the two sides of a task as planes, and wrappers that fix, count and remember answers."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from latentstruct.core.pooling import as_planes, planes_of, total_of
from latentstruct.core.protocols import (
    HARD,
    ApproximateBatch,
    Mode,
    Oracle,
    Query,
    RememberingBatch,
    Task,
    Temperature,
)
from latentstruct.exceptions import InputError
from latentstruct.executors import Chunks, pieces, thread_fold, thread_map
from latentstruct.plane_store import PlaneStore
from latentstruct.plane_sums import PlaneTree, group_size
from latentstruct.planes import Plane, Planes
from latentstruct.ragged import Indices, Vector

WORTH = 10.0
"""How many times its own overhead a piece of work takes at least."""


class BaseOracle:
    """Defaults of oracles; see `latentstruct.core.protocols.Oracle`."""

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
    batch: Any = None
    cuts: Indices | None = None
    n_jobs: int = 1

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the planes at w."""
        return self.planes(w).total(self.weights)

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the planes of the asked examples at w."""
        raise TypeError(f"{type(self).__name__} does not define planes()")

    def part_total(self, w: Vector, rows: Indices) -> Plane:
        """Return the weighted sum of the planes of some examples at w."""
        return self.planes(w, rows).total(self.weights[rows])

    def latents_total(self, latents: Sequence[Any]) -> Plane:
        """Return the weighted sum of the planes of given latents."""
        raise TypeError(f"{type(self).__name__} does not define latents_total()")

    def plane_losses(self) -> Any:
        """Return the losses that planes found with other losses have now; None, as here, if they are not known."""
        return None

    def smoothed(self, output_temperature: float) -> Any:
        """Return the same side with hard maxima taken at this temperature."""
        raise InputError(
            f"{type(self).__name__} has no soft form, so a solver for smooth objectives cannot serve it; use "
            "solver='auto'"
        )

    def reweighted(self, weights: Vector) -> Any:
        """Return the same side with other weights c_i."""
        return replace(self, weights=weights)  # type: ignore[type-var]

    def in_threads(self, n_jobs: int) -> Any:
        """Return the same side, evaluated by several threads where possible."""
        threaded = copy(self)
        threaded.n_jobs = n_jobs
        return threaded

    def cut_at(self, cuts: Indices) -> Any:
        """Return the same side with its sums made of those between consecutive cuts, where it can."""
        return self


class DividedOracle(BaseOracle):
    """An oracle whose examples are put to a task piece by piece, by several threads.

    Pieces are the same for any number of threads, and so are answers.
    """

    task: Any
    mode: Mode

    def _temperatures(self) -> Temperature:
        """Return the temperatures of the pooling, by which work is estimated."""
        raise TypeError(f"{type(self).__name__} does not define _temperatures()")

    def _planes(self, w: Vector, rows: Indices | None) -> Planes:
        """Ask the task for the planes of some examples."""
        raise TypeError(f"{type(self).__name__} does not define _planes()")

    def _total(self, w: Vector, rows: Indices | None) -> Plane:
        """Ask the task for the weighted sum of the planes of some examples."""
        return self._planes(w, rows).total(self.weights if rows is None else self.weights[rows])

    @cached_property
    def work(self) -> Vector:
        """Elementary steps that each example takes, shape (n,); 0 where threads cannot share them."""
        return self.task.work(self.batch, self.mode, self._temperatures())

    @cached_property
    def overhead(self) -> float:
        """Elementary steps that each piece takes besides those of its examples."""
        return float(self.task.overhead(self.batch))

    @cached_property
    def shared(self) -> bool:
        """Whether threads can share the examples."""
        return bool(self.work.any())

    @property
    def least_summed(self) -> float:
        """Elementary steps of the least piece that is worth a slope of its own, which is added to the others."""
        return WORTH * (self.overhead + self.n_features)

    def _bounds(self, rows: Indices | None, least: float) -> Indices:
        """Return the bounds of the pieces that the asked examples are divided into."""
        if rows is not None and len(rows) < 2:
            return np.array([0, len(rows)])
        bounds = pieces(self.work if rows is None else self.work[rows], least)
        if len(bounds) > 2 and rows is not None and isinstance(self.batch, RememberingBatch):
            # An example that is asked twice would leave what the last of two threads has found.
            return bounds if len(np.unique(rows)) == len(rows) else bounds[[0, -1]]
        return bounds

    def _parts(self, rows: Indices | None, bounds: Indices) -> list[Indices]:
        """Return the asked examples piece by piece."""
        asked = np.arange(self.n_examples) if rows is None else rows
        return [asked[start:end] for start, end in pairwise(bounds)]

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the planes at w."""
        if self.cuts is not None and self.shared:
            bounds, size = self.cuts, group_size(len(self.cuts) - 1)
        else:
            bounds = self._bounds(None, self.least_summed)
            size = len(bounds)
        if len(bounds) < 3:
            return self._total(w, None)
        tree = PlaneTree(size)
        thread_fold(lambda rows: self._total(w, rows), self._parts(None, bounds), tree.add, self.n_jobs)
        return tree.total()

    def _chunked_planes(self, w: Vector, rows: Indices | None, chunks: Chunks) -> Planes | None:
        """Return the planes, if the task splits the work among threads itself."""
        return None

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the planes of the asked examples at w."""
        bounds = self._bounds(rows, WORTH * self.overhead)
        if len(bounds) < 3:
            return self._planes(w, rows)
        found = self._chunked_planes(w, rows, Chunks(tuple(bounds.tolist()), self.n_jobs))
        if found is not None:
            return found
        return Planes.joined(thread_map(lambda part: self._planes(w, part), self._parts(rows, bounds), self.n_jobs))


@dataclass
class TaskOracle(DividedOracle):
    """One mode of a task on one batch, with the examples' weights c_i.

    `cuts` are the bounds 0 = b_0 < b_1 < … = n of consecutive examples whose sums are added in pairs, as those of
    shards are: then an objective is the same in one process and in shards, to the last bit. Tasks whose examples
    threads cannot share are asked as a whole all the same.
    """

    task: Any
    batch: Any = field()
    weights: Vector
    mode: Mode
    temperature: Temperature = HARD
    n_jobs: int = 1
    cuts: Indices | None = None

    def __post_init__(self) -> None:
        self.n_examples = self.batch.n_examples
        self.n_features = self.task.n_features

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether the pooled function is differentiable."""
        hard_outputs = self.temperature.output == 0 and self.mode != "clamped"
        return not hard_outputs and (not self.task.latent or self.temperature.latent > 0)

    @property
    def half_smooth(self) -> bool:  # type: ignore[override]
        """Whether one of outputs and latents is pooled softly and the other one maximised."""
        return self.task.latent and (self.temperature.output > 0) != (self.temperature.latent > 0)

    def smoothed(self, output_temperature: float) -> "TaskOracle":
        """Return the same side with hard maxima over outputs and latents taken at this temperature."""
        latent = self.temperature.latent or (output_temperature if self.task.latent else 0.0)
        return replace(self, temperature=Temperature(self.temperature.output or output_temperature, latent))

    @property
    def approximate(self) -> bool:  # type: ignore[override]
        """Whether answers are known beforehand not to be exact."""
        return isinstance(self.batch, ApproximateBatch) and self.batch.is_approximate(self.temperature)

    def plane_losses(self) -> Any:
        """Return the losses that planes found with other losses have now; None if they are not known."""
        return self.task.plane_losses(self.batch)

    def cut_at(self, cuts: Indices) -> "TaskOracle":
        """Return the same side with its sums made of those between consecutive cuts."""
        return replace(self, cuts=cuts)

    def _temperatures(self) -> Temperature:
        return self.temperature

    def _chunked_planes(self, w: Vector, rows: Indices | None, chunks: Chunks) -> Planes | None:
        if not self.task.chunked(self.batch, self.mode, self.temperature):
            return None
        query = Query(w, self.mode, self.temperature, rows, chunks=chunks)
        return self._at_least_truth(planes_of(self.task, self.batch, query), w, rows)

    @property
    def _hard(self) -> bool:
        """Whether outputs and latents are maximized, so that even the plane of a missed maximum is below."""
        hard_outputs = self.temperature.output == 0 or self.mode == "clamped"
        return hard_outputs and (self.temperature.latent == 0 or not self.task.latent)

    @property
    def _floored(self) -> bool:
        """Whether the true output may be better than an inexact answer, and is known."""
        return self._hard and self.mode != "clamped" and self.batch.labelled and not self.task.tags.above_truth

    def _marked(self, found: Any) -> Any:
        """Return a plane or planes with the knowledge of whether they are below."""
        if self.mode == "clamped" and not self.task.latent:
            return replace(found, exact=True)
        return replace(found, below=self._hard or bool(np.all(found.exact)))

    def _planes(self, w: Vector, rows: Indices | None) -> Planes:
        query = Query(w, self.mode, self.temperature, rows)
        return self._at_least_truth(planes_of(self.task, self.batch, query), w, rows)

    def _at_least_truth(self, found: Planes, w: Vector, rows: Indices | None) -> Planes:
        """Replace inexact answers by the plane of the true output where that is higher."""
        found = self._marked(found)
        if found.all_exact or not self._floored:
            return found
        inexact = np.flatnonzero(~found.each_exact)
        asked = inexact if rows is None else rows[inexact]
        truth = planes_of(self.task, self.batch, Query(w, "clamped", self.temperature, asked))
        higher = np.flatnonzero(truth.values > found.values[inexact])
        if not len(higher):
            return found
        return found.replaced(inexact[higher], replace(truth.take(higher), exact=False))

    def _total(self, w: Vector, rows: Indices | None) -> Plane:
        weights = self.weights if rows is None else self.weights[rows]
        if self.task.tags.exact or not self._floored:
            found = total_of(self.task, self.batch, Query(w, self.mode, self.temperature, rows, weights))
            if found.exact or not self._floored:
                return self._marked(found)
        return self._planes(w, rows).total(weights)


@dataclass
class RenyiOracle(DividedOracle):
    """One mode of a task whose latents are pooled by Rényi entropy: smax_{ε_y} over y of Δ_i(y) + G_α(y).

    G_α(y) = [log Σ_h exp α s(y, h) − log Σ_h exp s(y, h)]/(α − 1) is no convex function of w, so that answers are
    tangents, not bounds: all are marked inexact, and no solver may rely on a difference of convex functions.
    """

    task: Any
    batch: Any = field()
    weights: Vector
    mode: Mode
    order: float
    output_temperature: float = 0.0
    n_jobs: int = 1
    supporting = False

    def __post_init__(self) -> None:
        self.n_examples = self.batch.n_examples
        self.n_features = self.task.n_features

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether the pooled function is differentiable."""
        return self.output_temperature > 0 or self.mode == "clamped"

    def smoothed(self, output_temperature: float) -> "RenyiOracle":
        """Return the same side with the outputs pooled at another temperature."""
        return replace(self, output_temperature=output_temperature)

    def _temperatures(self) -> Temperature:
        return Temperature(self.output_temperature, 1.0)

    def _planes(self, w: Vector, rows: Indices | None) -> Planes:
        query = Query(w, self.mode, self._temperatures(), rows)
        pooled = self.task.renyi_pool(self.batch, query, self.order)
        found = as_planes(self.task, self.batch, query, pooled, "renyi_pool")
        return replace(found, exact=False, below=False)


@dataclass
class SlackOracle(DividedOracle):
    """The augmented side with slack rescaling: f_i(w) = max_y Δ_i(y)·(1 + s(y) − s(y_i)) ≥ 0.

    A plane of f_i is Δ·(1 + (φ(y) − φ(y_i))·w). A task may find the maximizer ŷ itself, see `BaseTask.slack`.
    Otherwise it is searched among the answers of the margin oracle for scaled losses, argmax_y s(y) + λΔ(y). These
    cover only the convex hull of the pairs (Δ, s), so the answers are then marked inexact: their planes are below f_i,
    but may not be tight.
    """

    task: Task
    batch: Any = field()
    weights: Vector
    scales: tuple[float, ...] = tuple(2.0**k for k in range(-6, 7))
    n_jobs: int = 1
    mode: Mode = "augmented"

    def __post_init__(self) -> None:
        self.n_examples = self.batch.n_examples
        self.n_features = self.task.n_features
        self.truth = planes_of(self.task, self.batch, Query(np.zeros(self.n_features), "clamped"))

    def _argmax(self, w: Vector, rows: Indices) -> Planes:
        query = Query(w, "augmented", rows=rows)
        direct = self.task.slack(self.batch, query)
        if direct is not None:
            return as_planes(self.task, self.batch, query, direct, "slack")
        # The true output, whose product is 0, is always among those that are compared.
        best, best_product = self.truth.take(rows), np.zeros(len(rows))
        true_score = best.dot(w)
        for scale in self.scales:
            found = planes_of(self.task, self.batch, Query(w / scale, "augmented", rows=rows))
            product = found.offsets * (1.0 + found.dot(w) - true_score)
            better = np.flatnonzero(product > best_product)
            best = best.replaced(better, found.take(better))
            best_product[better] = product[better]
        return replace(best, exact=False)

    def _temperatures(self) -> Temperature:
        return HARD

    def _planes(self, w: Vector, rows: Indices | None) -> Planes:
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
    """A linear side: the same planes whatever w is (a known output, or a side linearised by CCCP).

    `cuts` are as in `TaskOracle`.
    """

    fixed: Planes
    weights: Vector
    cuts: Indices | None = None
    smooth = True
    linear = True

    def __post_init__(self) -> None:
        self.n_examples = len(self.fixed)
        self.n_features = self.fixed.n_features

    @cached_property
    def _total(self) -> Plane:
        cuts = np.array([0, self.n_examples]) if self.cuts is None else self.cuts
        tree = PlaneTree(group_size(len(cuts) - 1))
        for begin, end in pairwise(cuts):
            tree.add(self.fixed.between(begin, end).total(self.weights[begin:end]))
        return tree.total()

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the planes."""
        return self._total

    def cut_at(self, cuts: Indices) -> "FixedOracle":
        """Return the same side with its sums made of those between consecutive cuts."""
        return replace(self, cuts=cuts)

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the planes of the asked examples, with their values at w."""
        chosen = self.fixed if rows is None else self.fixed.take(rows)
        return replace(chosen, values=chosen.offsets + chosen.dot(w))


@dataclass
class FixedTotal(BaseOracle):
    """A linear side of which only the sum over all examples is known: data that are elsewhere send no more."""

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
        """Raise: the planes of single examples are not known."""
        raise InputError(
            f"the weights of {len(weights)} examples are to change, but of one side only the sum over all of them "
            "is known; expected planes of single examples: make the objective anew with these weights"
        )


@dataclass
class Tally:
    """A number of oracle calls, shared by all oracles that are counted together."""

    calls: int = 0


@dataclass
class CountingOracle(BaseOracle):
    """Counts how many examples are put to the wrapped oracle."""

    oracle: Oracle
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        side = self.oracle
        self.n_examples, self.n_features, self.weights = side.n_examples, side.n_features, side.weights
        self.smooth, self.half_smooth, self.supporting = side.smooth, side.half_smooth, side.supporting
        self.separable, self.divisible, self.batch = side.separable, side.divisible, side.batch

    def smoothed(self, output_temperature: float) -> "CountingOracle":
        """Return the smoothed oracle, counted together with this one."""
        return CountingOracle(self.oracle.smoothed(output_temperature), self.tally)

    def total(self, w: Vector) -> Plane:
        """Ask all examples for the sum of their planes."""
        self.tally.calls += self.n_examples
        return self.oracle.total(w)

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Ask the listed examples for their planes."""
        self.tally.calls += self.n_examples if rows is None else len(rows)
        return self.oracle.planes(w, rows)

    def part_total(self, w: Vector, rows: Indices) -> Plane:
        """Ask the listed examples for the sum of their planes."""
        self.tally.calls += len(rows)
        return self.oracle.part_total(w, rows)


class CachedOracle(BaseOracle):
    """Remembers each example's planes, so that many questions need no inference.

    Parameters
    ----------
    oracle : Oracle
        The exact oracle.
    first : Planes
        A plane below each example's function, for instance of the clamped side.
    most : int
        Planes kept for an example.
    store : PlaneStore, optional
        Planes remembered by an earlier oracle for the same functions, whatever its weights were; left aside if it has
        another bound.
    most_bytes : float, optional
        Bytes that kept planes may take.
    """

    def __init__(
        self,
        oracle: Oracle,
        first: Planes,
        most: int = 10,
        store: PlaneStore | None = None,
        most_bytes: float | None = None,
    ) -> None:
        self.oracle = oracle
        self.n_examples = oracle.n_examples
        self.n_features = oracle.n_features
        self.weights = oracle.weights
        if store is None or store.most_bytes != most_bytes:
            store = PlaneStore(first, oracle.weights, most, most_bytes=most_bytes)
        self.store = store
        self.store.weights = oracle.weights

    def total(self, w: Vector) -> Plane:
        """Ask the oracle and remember its answers; return the highest planes known where these are not exact."""
        planes = self.planes(w)
        return planes.total(self.weights) if planes.all_exact else self.remembered_total(w)

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Ask the exact oracle and remember its answers."""
        planes = self.oracle.planes(w, rows)
        asked = np.arange(self.n_examples) if rows is None else rows
        self.store.append(asked, planes, np.zeros(self.n_features))
        return planes

    def remembered_total(self, w: Vector) -> Plane:
        """Return the sum of each example's highest remembered plane: below the true sum, without inference."""
        plane, _ = self.store.highest(w)
        return plane
