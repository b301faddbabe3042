"""The one objective of all methods: Ω(w) + Σ_i c_i [f⁺_i(w) − f⁻_i(w)]."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from latentstruct.core.oracles import CountingOracle, FixedOracle, FixedTotal, SlackOracle, TaskOracle
from latentstruct.core.protocols import Regularizer, Task, Temperature
from latentstruct.core.regularizers import L2
from latentstruct.exceptions import InputError
from latentstruct.planes import Plane, Planes
from latentstruct.ragged import Indices, Vector
from latentstruct.shards import ShardedOracle, Shards, sharded_truth
from latentstruct.short_repr import short_repr, show

Rescaling = Literal["margin", "slack"]


@dataclass
class Objective:
    """Ω(w) + Σ_i c_i [f⁺_i(w) − f⁻_i(w)], both sides convex and answered by planes.

    Attributes
    ----------
    regularizer : Regularizer
        Ω.
    plus, minus : Oracle
        The two sides; every plane of minus must also be below plus (f⁻_i ≤ f⁺_i).
    first : callable, optional
        Planes of minus to begin with when no weights are known, by the number of the attempt: those of the examples,
        or their sum.
    """

    regularizer: Regularizer
    plus: Any
    minus: Any
    first: Callable[[int], Planes | Plane] | None = None

    __repr__ = short_repr

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return self.plus.n_examples

    @property
    def n_features(self) -> int:
        """Number of weights, d."""
        return self.plus.n_features

    @property
    def properties(self) -> frozenset[str]:
        """What a solver may rely on: of {"convex", "difference", "smooth", "planes", "l2"}."""
        found = set()
        if getattr(self.plus, "supporting", True) and getattr(self.minus, "supporting", True):
            found.add("difference")
            if isinstance(self.minus, FixedOracle | FixedTotal):
                found.add("convex")
        if self.plus.smooth and self.minus.smooth:
            found.add("smooth")
        if all(getattr(side, "separable", hasattr(side, "planes")) for side in (self.plus, self.minus)):
            found.add("planes")
        if isinstance(self.regularizer, L2):
            found.add("l2")
        return frozenset(found)

    def value(self, w: Vector) -> float:
        """Return the objective at w."""
        # The sides first: both may be so large that Ω would be lost in one of them.
        return self.regularizer.value(w) + (self.plus.total(w)(w) - self.minus.total(w)(w))

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Return the objective and a (sub)gradient of it at w."""
        plus, minus = self.plus.total(w), self.minus.total(w)
        value = self.regularizer.value(w) + (plus(w) - minus(w))
        return value, self.regularizer.gradient(w) + plus.slope - minus.slope

    def linearized_at(self, w: Vector) -> "Objective":
        """Replace f⁻ by its planes at w: a convex upper bound that touches the objective at w."""
        separable = getattr(self.minus, "separable", True)
        return self.linearized_with(self.minus.planes(w) if separable else self.minus.total(w))

    def linearized_with(self, planes: Planes | Plane) -> "Objective":
        """Replace f⁻ by planes below it, one for each example or their sum: a convex upper bound of the objective."""
        weights = self.minus.weights
        if isinstance(planes, Plane):
            return replace(self, minus=FixedTotal(planes, weights))
        return replace(self, minus=FixedOracle(planes, weights, cuts=getattr(self.minus, "cuts", None)))

    def reweighted(self, weights: Vector) -> "Objective":
        """Return the same objective with other weights c_i."""
        if isinstance(self.plus, FixedTotal) or isinstance(self.minus, FixedTotal):
            raise InputError(
                f"the weights of {len(weights)} examples are to change, but of one side only the sum over all of them "
                "is known; expected planes of single examples: make the objective anew with these weights"
            )
        return replace(self, plus=replace(self.plus, weights=weights), minus=replace(self.minus, weights=weights))

    def smoothed(self, output_temperature: float) -> "Objective":
        """Take hard maxima of the plus side at this temperature."""
        return replace(self, plus=self.plus.smoothed(output_temperature))

    def in_threads(self, n_jobs: int) -> "Objective":
        """Return the same objective with its sides asked by so many threads, where they can be."""
        return replace(self, plus=_in_threads(self.plus, n_jobs), minus=_in_threads(self.minus, n_jobs))

    def cut_at(self, cuts: Indices) -> "Objective":
        """Return the same objective with its sums made of those between consecutive cuts; see `TaskOracle`."""
        return replace(self, plus=_cut_at(self.plus, cuts), minus=_cut_at(self.minus, cuts))

    def counted(self) -> "Objective":
        """Return the same objective with the calls of its plus side counted from zero."""
        return replace(self, plus=CountingOracle(self.plus))


def _cut_at(side: Any, cuts: Indices) -> Any:
    return replace(side, cuts=cuts) if isinstance(side, TaskOracle | FixedOracle) else side


def _in_threads(side: Any, n_jobs: int) -> Any:
    if not hasattr(side, "n_jobs"):
        return side
    threaded = copy(side)
    threaded.n_jobs = n_jobs
    return threaded


def build_objective(
    task: Task,
    batch: Any,
    weights: Vector,
    temperature: Temperature,
    margin: bool = True,
    rescaling: Rescaling = "margin",
    regularizer: Regularizer | None = None,
) -> Objective:
    """Compose the objective of a task on a labelled batch.

    Parameters
    ----------
    task : Task
        A task that has learned its data.
    batch : Batch or Shards
        Examples with their outputs, in one batch or in shards.
    weights : ndarray of shape (n,)
        c_i.
    temperature : Temperature
        ε_y and ε_h.
    margin : bool
        Whether the loss enters (m = 1) or not (m = 0).
    rescaling : {"margin", "slack"}
        How it enters.
    regularizer : Regularizer
        Ω, by default ½‖w‖². One with a method `bind` is asked for its form for this task's weights.
    """
    regularizer = _check_regularizer(L2() if regularizer is None else regularizer)
    if hasattr(regularizer, "bind"):
        regularizer = regularizer.bind(task)
    if isinstance(batch, Shards):
        return _sharded_objective(batch, weights, temperature, margin, rescaling, regularizer)
    if rescaling == "slack":
        if temperature != Temperature() or not margin or task.latent:
            raise InputError(
                f"rescaling='slack' is defined for the hard max with a margin and without latents, but temperature is "
                f"{tuple(temperature)}, margin is {margin} and latent is {task.latent}; use rescaling='margin'"
            )
        plus: Any = SlackOracle(task, batch, weights)
        nothing = Planes.zero(batch.n_examples, task.n_features)
        # The rows must be those of the plus side, because its first planes are taken from here.
        nothing.rows = plus.truth.rows
        return Objective(regularizer, plus, FixedOracle(nothing, weights))
    plus = TaskOracle(task, batch, weights, "augmented" if margin else "free", temperature)
    clamped = TaskOracle(task, batch, weights, "clamped", temperature)
    if task.latent:
        return Objective(regularizer, plus, clamped)
    known = clamped.planes(np.zeros(task.n_features))
    return Objective(regularizer, plus, FixedOracle(known, weights))


def _sharded_objective(
    shards: Shards, weights: Vector, temperature: Temperature, margin: bool, rescaling: Rescaling, regularizer: Any
) -> Objective:
    """Compose the objective of examples in shards, whose sides are known by their sums only."""
    if rescaling == "slack":
        raise InputError(
            "rescaling='slack' is given, but needs one plane for each example, and shards give their sums only: "
            "use rescaling='margin', or train in one process"
        )
    plus = ShardedOracle(shards, weights, "augmented" if margin else "free", temperature)
    clamped = ShardedOracle(shards, weights, "clamped", temperature)
    return Objective(regularizer, plus, clamped if shards.task.latent else sharded_truth(clamped))


def _check_regularizer(regularizer: Any) -> Any:
    """Return the regulariser, if it is one."""
    methods = ("value", "gradient", "prox")
    if isinstance(regularizer, type) or not all(callable(getattr(regularizer, name, None)) for name in methods):
        raise InputError(
            f"regularizer must be an object such as GroupNorm() or L2(), found {show(regularizer)}: give one, or None "
            "for ½‖w‖²"
        )
    return regularizer
