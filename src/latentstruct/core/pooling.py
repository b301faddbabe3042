"""Planes and their sums from the result of a query, for all structures."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import (
    HARD,
    Batch,
    KnownBatch,
    LinearMap,
    Mode,
    PartLoss,
    Pooled,
    Query,
    Task,
    Temperature,
)
from latentstruct.core.types import Indices, Vector
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Plane, Planes, Slopes, checked_planes


def require_labels(batch: Batch, mode: str) -> None:
    """Raise if a mode that needs the true outputs is used with a batch without them."""
    if mode != "free" and not batch.labeled:
        raise InputError("mode", mode, "'free' for a batch without true outputs", "Prepare the batch with `Y`.")


def require_hard_max(task: Task, temperature: Temperature) -> None:
    """Raise if the temperature is above 0, for tasks without a soft max."""
    if temperature != HARD:
        raise InputError(
            "temperature",
            tuple(temperature),
            f"(0, 0) for {type(task).__name__}, which supports hard maxima only",
            "Use StructuralSVM or LatentSSVM, define pool() of a PartsTask, or use a CandidateTask.",
        )


def check_query(task: Task, batch: Batch, mode: Mode, temperature: Temperature) -> None:
    """Raise if queries need true outputs that are unknown, or temperatures that the task does not support."""
    require_labels(batch, mode)
    tags = task.tags
    if not tags.soft:
        require_hard_max(task, temperature)
    elif task.latent and not tags.two_temperatures and temperature.output != temperature.latent:
        reason = tags.reasons.get("MarginalSSVM", "")
        expected = f"the same for outputs and latents of {type(task).__name__}" + (f" ({reason})" if reason else "")
        raise InputError("temperature", tuple(temperature), expected, "Use LatentSSVM or HiddenCRF.")


def planes_of(task: Task, batch: Batch, query: Query) -> Planes:
    """Return one plane per example of a query: tight at w, and below the function everywhere if exact."""
    check_query(task, batch, query.mode, query.temperature)
    return as_planes(task, batch, query, task.pool_batch(batch, query))


def as_planes(task: Task, batch: Batch, query: Query, found: Pooled, method: str = "pool_batch") -> Planes:
    """Return the planes of the result of a method of a task, with one slope per example."""
    if not isinstance(found.slopes, Slopes) or not isinstance(found.losses, np.ndarray):
        given = f"{type(found.slopes).__name__} and {type(found.losses).__name__}"
        raise InputError(f"{type(task).__name__}.{method}", Description(given), "Slopes and an array of losses")
    planes = Planes(*found.slopes, found.losses, found.values, task.n_features, found.exact, excess=found.excess)
    checked_planes(planes, task, method, batch.n_examples if query.rows is None else len(query.rows))
    if found.soft:
        planes.offsets = found.values - planes.dot(query.w)
    return planes


def total_of(task: Task, batch: Batch, query: Query) -> Plane:
    """Return the weighted sum of the planes of the examples of a query with weights.

    Its entropy is the part of the offset that is not loss: Σ_i c_i (f_i − μ_i·(s_i + l_i) − a_i) for expected counts
    μ_i of parts with scores s_i, losses l_i and constants a_i.
    """
    check_query(task, batch, query.mode, query.temperature)
    assert query.weights is not None
    found = task.pool_batch(batch, query)
    if isinstance(found.slopes, Slopes) and not found.soft:
        return as_planes(task, batch, query, found).total(query.weights)
    loss = found.losses if isinstance(found.losses, float) else float(query.weights @ found.losses)
    if isinstance(found.slopes, Slopes):
        plane = as_planes(task, batch, query, found).total(query.weights)
    else:
        plane = Plane(found.slopes, loss, exact=found.all_exact)
        if found.soft:
            plane.offset = float(query.weights @ found.values) - float(plane.slope @ query.w)
    plane.entropy = plane.offset - loss if found.soft else 0.0
    return plane


class PooledParts(NamedTuple):
    """Values (k,) of a pool over parts and counts of the parts, in the layout of the structure.

    Counts that are `weighted` carry the weights of the query, so that only sums over all examples follow from them.
    `excess` is how far inexact hard maxima may be above the values.
    """

    values: Vector
    counts: Any
    soft: bool
    exact: bool | NDArray[np.bool_] = True
    weighted: bool = False
    excess: float | Vector = math.inf


def pool_scores(
    parts: LinearMap, losses: PartLoss | None, query: Query, pool: Callable[[Any], PooledParts]
) -> PooledParts:
    """Pool the scores of parts, with their losses in augmented mode."""
    scores = parts.scores(query)
    if query.augmented:
        assert losses is not None
        scores = losses.add_to(scores, query)
    return pool(scores)


def pool_linear(parts: LinearMap, losses: PartLoss | None, query: Query, pool: Callable[[Any], PooledParts]) -> Pooled:
    """Pool a structure whose score and loss are sums over parts, by a function that pools scores of parts.

    `parts` has these scores, and features of counts of parts; `losses` are needed in augmented mode.
    """
    values, counts, soft, exact, weighted, excess = pool_scores(parts, losses, query, pool)
    loss: Vector | float = np.zeros(len(values))
    if query.augmented:
        assert losses is not None
        loss = losses.of(counts, query)
    summed = weighted or (soft and query.weights is not None)
    slopes = parts.pull_back(counts, query) if summed else parts.slopes(counts, query)
    return Pooled(values, slopes, loss, soft, exact, excess)


def pool_known(batch: KnownBatch, query: Query, slopes_of: Callable[[Indices | None], Slopes]) -> Pooled:
    """Pool known outputs without latents, whose features (of some examples, None for all) are computed only once."""
    slopes = batch.known_slopes if query.rows is None else None
    if slopes is None:
        slopes = slopes_of(query.rows)
        if query.rows is None:
            batch.known_slopes = slopes
    values = slopes.dot(query.w)
    return Pooled(values, slopes, np.zeros(len(values)))


def latent_planes(task: Task, slopes: Slopes, exact: bool = True) -> Planes:
    """Return the planes φ(x_i, y_i, h_i)·w of known outputs and given latents."""
    offsets, values = np.zeros((2, len(slopes.pointers) - 1))
    return Planes(*slopes, offsets, values, task.n_features, exact)
