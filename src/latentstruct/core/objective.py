"""The one objective of all methods: Ω(w) + Σ_i c_i [f⁺_i(w) − f⁻_i(w)]."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from latentstruct.core.formatting import short_repr
from latentstruct.core.oracles import BaseOracle, FixedOracle, FixedTotal, SlackOracle, TaskOracle
from latentstruct.core.protocols import Batch, RememberingBatch, Starts, Task, Temperature
from latentstruct.core.regularizers import L2, BaseRegularizer
from latentstruct.core.types import Indices, Vector
from latentstruct.exceptions import InputError
from latentstruct.parallel.shards import ShardedOracle, Shards, sharded_truth
from latentstruct.planes.plane import Plane, Planes

Rescaling = Literal["margin", "slack"]


@dataclass
class Objective:
    """Ω(w) + Σ_i c_i [f⁺_i(w) − f⁻_i(w)], both sides convex and represented by planes.

    Attributes
    ----------
    regularizer : BaseRegularizer
        Ω.
    plus, minus : BaseOracle
        The two sides; every plane of minus must also be below plus (f⁻_i ≤ f⁺_i).
    starts : Starts, optional
        Initial planes of minus if no weights are known.
    places, n_all : ndarray of int and int
        If this is an objective over some weights only, these weights among all `n_all`; the others are 0.
    n_examples, n_features, weights
        As in the plus side.
    properties : frozenset of str
        Properties for solvers: a subset of {"convex", "difference", "smooth", "planes", "l2"}.
    """

    regularizer: BaseRegularizer
    plus: BaseOracle
    minus: BaseOracle
    starts: Starts | None = None
    places: Indices | None = None
    n_all: int = 0

    __repr__ = short_repr

    def __post_init__(self) -> None:
        plus, minus = self.plus, self.minus
        self.n_examples, self.n_features, self.weights = plus.n_examples, plus.n_features, plus.weights
        supporting = plus.supporting and minus.supporting
        named = {
            "difference": supporting,
            "convex": supporting and minus.linear,
            "smooth": plus.smooth and minus.smooth,
            "planes": plus.separable and minus.separable,
            "l2": self.regularizer.half_square,
        }
        self.properties = frozenset(name for name, holds in named.items() if holds)

    @property
    def remembering(self) -> list[RememberingBatch]:
        """The batches whose results depend on earlier calls, each once."""
        plus, minus = self.plus.batch, self.minus.batch
        found: list[RememberingBatch] = [plus] if isinstance(plus, RememberingBatch) else []
        return [*found, minus] if isinstance(minus, RememberingBatch) and minus is not plus else found

    def in_full(self, w: Vector) -> Vector:
        """Return all weights, given those of an objective over some of them."""
        if self.places is None:
            return w
        full = np.zeros(self.n_all)
        full[self.places] = w
        return full

    def value(self, w: Vector) -> float:
        """Return the objective at w."""
        return self.evaluate_with_bound(w)[0]

    def evaluate(self, w: Vector) -> tuple[float, bool]:
        """Return the objective at w, and whether inference was exact."""
        value, _, exact = self.evaluate_with_bound(w)
        return value, exact

    def evaluate_with_bound(self, w: Vector) -> tuple[float, float, bool]:
        """Return the objective at w, an upper bound of it, and whether inference was exact, so that both are equal."""
        plus, minus = self.plus.total(w), self.minus.total(w)
        # Evaluate the sides first: both may be so large that Ω would be lost by rounding in one of them.
        value = self.regularizer.value(w) + (plus(w) - minus(w))
        # A missed maximum of f⁻ makes the value larger, which leaves it an upper bound.
        return value, value + (plus.slack if minus.below else math.inf), plus.exact and minus.exact

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Return the objective and a (sub)gradient of it at w."""
        plus, minus = self.plus.total(w), self.minus.total(w)
        value = self.regularizer.value(w) + (plus(w) - minus(w))
        return value, self.regularizer.gradient(w) + plus.slope - minus.slope

    def linearized_at(self, w: Vector) -> "Objective":
        """Replace f⁻ by its planes at w: a convex upper bound that touches the objective at w."""
        return self.linearized_with(self.minus.planes(w) if self.minus.separable else self.minus.total(w))

    def linearized_with(self, planes: Planes | Plane) -> "Objective":
        """Replace f⁻ by planes below it, one per example or their sum: a convex upper bound of the objective."""
        weights = self.minus.weights
        if isinstance(planes, Plane):
            return replace(self, minus=FixedTotal(planes, weights))
        return replace(self, minus=FixedOracle(planes, weights, chunk_bounds=self.minus.chunk_bounds))

    def reweighted(self, weights: Vector) -> "Objective":
        """Return the same objective with other weights c_i."""
        return replace(self, plus=self.plus.reweighted(weights), minus=self.minus.reweighted(weights))

    def smoothed(self, output_temperature: float) -> "Objective":
        """Take hard maxima of the plus side at this temperature."""
        return replace(self, plus=self.plus.smoothed(output_temperature))

    def divided(self, n_jobs: int, chunk_bounds: Indices | None = None) -> "Objective":
        """Return the same objective, evaluated by several threads, and with sums over chunks; see `TaskOracle`."""
        plus, minus = (side.divided(n_jobs, chunk_bounds) for side in (self.plus, self.minus))
        return replace(self, plus=plus, minus=minus)


def build_objective(
    task: Task,
    batch: Batch | Shards,
    weights: Vector,
    temperature: Temperature,
    margin: bool = True,
    rescaling: Rescaling = "margin",
    regularizer: BaseRegularizer | None = None,
) -> Objective:
    """Compose the objective of a task on a labeled batch.

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
        How the loss enters.
    regularizer : BaseRegularizer
        Ω, by default ½‖w‖². It is bound to the weights of the task.
    """
    regularizer = L2() if regularizer is None else regularizer
    if not isinstance(regularizer, BaseRegularizer):
        raise InputError("regularizer", regularizer, "a regularizer such as GroupNorm(), or None for ½‖w‖²")
    regularizer = regularizer.bind(task)
    if isinstance(batch, Shards):
        if rescaling == "slack":
            raise InputError(
                "rescaling", rescaling, "'margin' for examples in shards", "Slack rescaling needs a plane per example."
            )
        side = partial(ShardedOracle, batch, weights, temperature=temperature)
        sharded, truth = side("augmented" if margin else "free"), side("clamped")
        return Objective(regularizer, sharded, truth if task.latent else sharded_truth(truth))
    if rescaling == "slack":
        if temperature != Temperature() or not margin or task.latent:
            raise InputError(
                "rescaling", rescaling, "'margin' for soft maxima, objectives without a margin and tasks with latents"
            )
        plus: Any = SlackOracle(task, batch, weights)
        nothing = Planes.zero(batch.n_examples, task.n_features)
        # The rows must be those of the plus side, because its first planes are taken from these.
        nothing.rows = plus.truth.rows
        return Objective(regularizer, plus, FixedOracle(nothing, weights))
    plus = TaskOracle(task, batch, weights, "augmented" if margin else "free", temperature)
    clamped = TaskOracle(task, batch, weights, "clamped", temperature)
    if task.latent:
        return Objective(regularizer, plus, clamped)
    return Objective(regularizer, plus, FixedOracle(clamped, weights))
