"""The one objective of all methods: Ω(w) + Σ_i c_i [f⁺_i(w) − f⁻_i(w)]."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from latentstruct.core.oracles import CountingOracle, FixedOracle, FixedTotal, SlackOracle, TaskOracle
from latentstruct.core.protocols import Oracle, Regularizer, RememberingBatch, Starts, Task, Temperature
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
    starts : Starts, optional
        Initial planes of minus, when no weights are known.
    """

    regularizer: Regularizer
    plus: Oracle
    minus: Oracle
    starts: Starts | None = None

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
    def weights(self) -> Vector:
        """c_i."""
        return self.plus.weights

    @property
    def properties(self) -> frozenset[str]:
        """What a solver may rely on: of {"convex", "difference", "smooth", "planes", "l2"}."""
        plus, minus = self.plus, self.minus
        supporting = plus.supporting and minus.supporting
        named = {
            "difference": supporting,
            "convex": supporting and minus.linear,
            "smooth": plus.smooth and minus.smooth,
            "planes": plus.separable and minus.separable,
            "l2": self.regularizer.half_square,
        }
        return frozenset(name for name, holds in named.items() if holds)

    @property
    def remembering(self) -> list[RememberingBatch]:
        """The batches whose answers depend on earlier ones, each once."""
        found = {id(side.batch): side.batch for side in (self.plus, self.minus)}
        return [batch for batch in found.values() if isinstance(batch, RememberingBatch)]

    def value(self, w: Vector) -> float:
        """Return the objective at w."""
        return self.evaluate(w)[0]

    def evaluate(self, w: Vector) -> tuple[float, bool]:
        """Return the objective at w, and whether inference was exact."""
        plus, minus = self.plus.total(w), self.minus.total(w)
        # The sides first: both may be so large that Ω would be lost in one of them.
        return self.regularizer.value(w) + (plus(w) - minus(w)), plus.exact and minus.exact

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Return the objective and a (sub)gradient of it at w."""
        plus, minus = self.plus.total(w), self.minus.total(w)
        value = self.regularizer.value(w) + (plus(w) - minus(w))
        return value, self.regularizer.gradient(w) + plus.slope - minus.slope

    def linearized_at(self, w: Vector) -> "Objective":
        """Replace f⁻ by its planes at w: a convex upper bound that touches the objective at w."""
        return self.linearized_with(self.minus.planes(w) if self.minus.separable else self.minus.total(w))

    def linearized_with(self, planes: Planes | Plane) -> "Objective":
        """Replace f⁻ by planes below it, one for each example or their sum: a convex upper bound of the objective."""
        weights = self.minus.weights
        if isinstance(planes, Plane):
            return replace(self, minus=FixedTotal(planes, weights))
        return replace(self, minus=FixedOracle(planes, weights, cuts=self.minus.cuts))

    def reweighted(self, weights: Vector) -> "Objective":
        """Return the same objective with other weights c_i."""
        return replace(self, plus=self.plus.reweighted(weights), minus=self.minus.reweighted(weights))

    def smoothed(self, output_temperature: float) -> "Objective":
        """Take hard maxima of the plus side at this temperature."""
        return replace(self, plus=self.plus.smoothed(output_temperature))

    def in_threads(self, n_jobs: int) -> "Objective":
        """Return the same objective, evaluated by several threads where possible."""
        return replace(self, plus=self.plus.in_threads(n_jobs), minus=self.minus.in_threads(n_jobs))

    def cut_at(self, cuts: Indices) -> "Objective":
        """Return the same objective with its sums made of those between consecutive cuts; see `TaskOracle`."""
        return replace(self, plus=self.plus.cut_at(cuts), minus=self.minus.cut_at(cuts))

    def counted(self) -> "Objective":
        """Return the same objective with the calls of its plus side counted from zero."""
        return replace(self, plus=CountingOracle(self.plus))


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
        Ω, by default ½‖w‖². It is bound to the weights of the task.
    """
    regularizer = _check_regularizer(L2() if regularizer is None else regularizer).bind(task)
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
    """Return the regularizer, if it is one."""
    methods = ("value", "gradient", "prox", "bind", "lower_bound")
    if isinstance(regularizer, type) or not all(callable(getattr(regularizer, name, None)) for name in methods):
        raise InputError(
            f"regularizer must be an object such as GroupNorm() or L2(), found {show(regularizer)}: give one, or None "
            "for ½‖w‖²"
        )
    return regularizer
