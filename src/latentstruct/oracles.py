"""Oracles: the two sides of a task as planes, and wrappers that fix, count and remember answers."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from latentstruct.exceptions import InputError
from latentstruct.planes import Plane, Planes, PlaneStore
from latentstruct.protocols import Mode, Oracle, Task, Temperature
from latentstruct.ragged import Indices, Vector

HARD = Temperature()


@dataclass
class TaskOracle:
    """One mode of a task on one batch, with the examples' weights c_i."""

    task: Task
    batch: Any
    weights: Vector
    mode: Mode
    temperature: Temperature = HARD

    def __post_init__(self) -> None:
        self.n_examples = self.batch.n_examples
        self.n_features = self.task.n_features

    @property
    def smooth(self) -> bool:
        """Whether the pooled function is differentiable."""
        hard_outputs = self.temperature.output == 0 and self.mode != "clamped"
        return not hard_outputs and (not self.task.latent or self.temperature.latent > 0)

    @property
    def half_smooth(self) -> bool:
        """Whether one of outputs and latents is pooled softly and the other one maximised."""
        return self.task.latent and (self.temperature.output > 0) != (self.temperature.latent > 0)

    def smoothed(self, output_temperature: float) -> "TaskOracle":
        """Return the same side with hard maxima over outputs and latents taken at this temperature."""
        latent = self.temperature.latent or (output_temperature if self.task.latent else 0.0)
        return replace(self, temperature=Temperature(self.temperature.output or output_temperature, latent))

    @property
    def approximate(self) -> bool:
        """Whether answers are known beforehand not to be exact."""
        tells = getattr(self.batch, "is_approximate", None)
        return tells is not None and tells(self.temperature)

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the supporting planes at w."""
        return self.task.total(self.batch, w, self.mode, self.temperature, self.weights)

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the supporting planes of the asked examples at w."""
        return self.task.planes(self.batch, w, self.mode, self.temperature, rows)


@dataclass
class RenyiOracle:
    """One mode of a task whose latents are pooled by Rényi entropy: smax_{ε_y} over y of Δ_i(y) + G_α(y).

    G_α(y) = [log Σ_h exp α s(y, h) − log Σ_h exp s(y, h)]/(α − 1) is no convex function of w, so that answers are
    tangents, not bounds: all are marked inexact, and no solver may rely on a difference of convex functions.
    """

    task: Any
    batch: Any
    weights: Vector
    mode: Mode
    order: float
    output_temperature: float = 0.0
    supporting = False

    def __post_init__(self) -> None:
        self.n_examples = self.batch.n_examples
        self.n_features = self.task.n_features

    @property
    def smooth(self) -> bool:
        """Whether the pooled function is differentiable."""
        return self.output_temperature > 0 or self.mode == "clamped"

    def smoothed(self, output_temperature: float) -> "RenyiOracle":
        """Return the same side with the outputs pooled at another temperature."""
        return replace(self, output_temperature=output_temperature)

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the tangents at w."""
        return self.planes(w).total(self.weights)

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the tangents of the asked examples at w."""
        return self.task.renyi_planes(self.batch, w, self.mode, self.order, self.output_temperature, rows)


@dataclass
class SlackOracle:
    """The augmented side with slack rescaling: f_i(w) = max_y Δ_i(y)·(1 + s(y) − s(y_i)) ≥ 0.

    A plane of f_i is Δ·(1 + (φ(y) − φ(y_i))·w). A task with a method `slack_planes` (returning φ(ŷ) with offset
    Δ(ŷ) for the maximiser ŷ) is asked directly. For any other the maximiser is searched among the answers of the
    margin oracle for scaled losses, argmax_y s(y) + λΔ(y); these cover only the convex hull of the pairs (Δ, s), so
    the answers are then marked inexact.
    """

    task: Task
    batch: Any
    weights: Vector
    scales: tuple[float, ...] = tuple(2.0**k for k in range(-6, 7))
    smooth: bool = False

    def __post_init__(self) -> None:
        self.n_examples = self.batch.n_examples
        self.n_features = self.task.n_features
        self.truth = self.task.planes(self.batch, np.zeros(self.n_features), "clamped", HARD)

    def _argmax(self, w: Vector, rows: Indices) -> Planes:
        direct = getattr(self.task, "slack_planes", None)
        if direct is not None:
            return direct(self.batch, w, rows)
        true_score = self.truth.take(rows).dot(w)
        best: Planes | None = None
        best_product = np.full(len(rows), -np.inf)
        for scale in self.scales:
            found = self.task.planes(self.batch, w / scale, "augmented", HARD, rows)
            product = found.offsets * (1.0 + found.dot(w) - true_score)
            better = product > best_product
            # A sum of the kept and the newly found planes, each with a factor of 0 or 1, chooses row by row.
            chosen = better.astype(np.float64)
            best = found if best is None else found.scaled(chosen) + best.scaled(1.0 - chosen)
            best_product = np.where(better, product, best_product)
        assert best is not None
        best.exact = False
        return best

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the supporting planes of the asked examples at w."""
        rows = np.arange(self.n_examples) if rows is None else rows
        found, truth = self._argmax(w, rows), self.truth.take(rows)
        loss = found.offsets
        slack = found.scaled(loss) + truth.scaled(-loss)
        slack.offsets = loss.copy()
        slack.values = slack.offsets + slack.dot(w)
        return slack

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the supporting planes at w."""
        return self.planes(w).total(self.weights)


@dataclass
class FixedOracle:
    """A linear side: the same planes whatever w is (a known output, or a side linearised by CCCP)."""

    fixed: Planes
    weights: Vector
    smooth: bool = True

    def __post_init__(self) -> None:
        self.n_examples = len(self.fixed)
        self.n_features = self.fixed.n_features
        self._total = self.fixed.total(self.weights)

    def total(self, w: Vector) -> Plane:
        """Return the weighted sum of the planes."""
        return self._total

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Return the planes of the asked examples, with their values at w."""
        chosen = self.fixed if rows is None else self.fixed.take(rows)
        return replace(chosen, values=chosen.offsets + chosen.dot(w))


@dataclass
class FixedTotal:
    """A linear side of which only the sum over all examples is known: data that are elsewhere send no more than that."""

    plane: Plane
    weights: Vector
    smooth: bool = True
    separable = False

    def __post_init__(self) -> None:
        self.n_examples = len(self.weights)
        self.n_features = len(self.plane.slope)

    def total(self, w: Vector) -> Plane:
        """Return the sum of the planes."""
        return self.plane


@dataclass
class Tally:
    """A number of oracle calls, shared by all oracles that are counted together."""

    calls: int = 0


@dataclass
class CountingOracle:
    """Counts how many examples are put to the wrapped oracle."""

    oracle: Any
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.n_examples = self.oracle.n_examples
        self.n_features = self.oracle.n_features
        self.weights = self.oracle.weights
        self.smooth = self.oracle.smooth
        self.half_smooth = getattr(self.oracle, "half_smooth", False)
        self.supporting = getattr(self.oracle, "supporting", True)
        self.separable = getattr(self.oracle, "separable", True)

    def smoothed(self, output_temperature: float) -> "CountingOracle":
        """Return the smoothed oracle, counted together with this one."""
        if not hasattr(self.oracle, "smoothed"):
            raise InputError(
                f"{type(self.oracle).__name__} has no soft form, so a solver for smooth objectives cannot "
                "serve it; use solver='auto'"
            )
        return CountingOracle(self.oracle.smoothed(output_temperature), self.tally)

    def total(self, w: Vector) -> Plane:
        """Ask all examples for the sum of their planes."""
        self.tally.calls += self.n_examples
        return self.oracle.total(w)

    def planes(self, w: Vector, rows: Indices | None = None) -> Planes:
        """Ask the listed examples for their planes."""
        self.tally.calls += self.n_examples if rows is None else len(rows)
        return self.oracle.planes(w, rows)


class CachedOracle:
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
        Planes remembered by an earlier oracle for the same functions, whatever its weights were.
    """

    def __init__(self, oracle: Oracle, first: Planes, most: int = 10, store: PlaneStore | None = None) -> None:
        self.oracle = oracle
        self.n_examples = oracle.n_examples
        self.n_features = oracle.n_features
        self.weights = oracle.weights
        self.store = PlaneStore(first, oracle.weights, most) if store is None else store
        self.store.weights = oracle.weights

    def total(self, w: Vector) -> Plane:
        """Ask the exact oracle and remember its answers."""
        planes = self.planes(w)
        return planes.total(self.weights)

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
