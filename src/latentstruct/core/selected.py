"""Objectives over some of the weights; the others are zero."""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.oracles import FixedTotal, TaskOracle
from latentstruct.core.protocols import Batch, Mode, Query, Starts, Tally, Temperature
from latentstruct.core.types import Indices, Vector
from latentstruct.exceptions import InputError
from latentstruct.planes.plane import Plane


class Selection(Protocol):
    """Some weights of a task, and sums that need these only."""

    places: Indices
    """The weights."""

    def total(self, batch: Batch, query: Query) -> Plane:
        """Return the weighted sum of the planes of a query whose `w`, like the slope, has these weights only."""


@runtime_checkable
class SelectsWeights(Protocol):
    """Further interface of tasks that need only some of their weights."""

    def seen_weights(self, batch: Batch) -> Selection:
        """Return the weights whose features occur in outputs that agree with the labels of a batch."""


@dataclass
class SelectedOracle(TaskOracle):
    """One mode of a task with some of its weights: sums over examples only."""

    selection: Selection = field(kw_only=True)
    separable = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.n_features = len(self.selection.places)

    def _total(self, w: Vector, rows: Indices | None) -> Plane:
        weights = self.weights if rows is None else self.weights[rows]
        query = Query(w, self.mode, self.temperature, rows, weights)
        return self._marked(self.selection.total(self.batch, query))


@dataclass
class SelectedStarts:
    """Initial planes, with the slopes of some weights."""

    starts: Starts
    places: Indices
    weights: Vector

    def planes(self, attempt: int) -> Plane:
        """Return the sum of the planes of a start."""
        found = self.starts.planes(attempt)
        return restricted(found if isinstance(found, Plane) else found.total(self.weights), self.places)


def restricted(plane: Plane, places: Indices) -> Plane:
    """Return a plane as a function of some of the weights."""
    return replace(plane, slope=plane.slope[places])


def with_seen_weights(objective: Objective) -> Objective:
    """Return an objective over the weights whose features occur together with labels of the training data."""
    plus, minus = objective.plus, objective.minus
    if not isinstance(plus, TaskOracle) or not isinstance(plus.task, SelectsWeights) or not plus.smooth:
        expected = "False for structures other than Chain, for examples in shards and for maximized outputs"
        raise InputError("seen_only", True, expected)
    selection = plus.task.seen_weights(plus.batch)
    places, weights = selection.places, plus.weights

    def selected(mode: Mode, temperature: Temperature, tally: Tally) -> SelectedOracle:
        options: dict[str, Any] = {"n_jobs": plus.n_jobs, "chunk_bounds": plus.chunk_bounds, "tally": tally}
        return SelectedOracle(plus.task, plus.batch, weights, mode, temperature, selection=selection, **options)

    if minus.linear:
        # Known outputs have the same planes at all temperatures and weights.
        known = selected("clamped", Temperature(1.0, 1.0), Tally())
        clamped: Any = FixedTotal(known.total(np.zeros(len(places))), weights)
    else:
        clamped = selected("clamped", plus.temperature, minus.tally)
    starts = objective.starts
    return replace(
        objective,
        plus=selected(plus.mode, plus.temperature, plus.tally),
        minus=clamped,
        starts=None if starts is None else SelectedStarts(starts, places, weights),
        places=places,
        n_all=plus.n_features,
    )
