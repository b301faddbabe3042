"""The objective of learning with uncertain latents: weights w that predict, and a distribution P_θ of the latents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from latentstruct.core.objective import Objective, build_objective
from latentstruct.core.pooling import planes_of
from latentstruct.core.protocols import (
    Batch,
    LatentLossTask,
    LatentSites,
    LatentStart,
    Query,
    RememberingBatch,
    Starts,
    Temperature,
)
from latentstruct.core.types import Indices, Vector
from latentstruct.exceptions import InputError

Function = Callable[[Vector], tuple[float, Vector]]


@dataclass
class LatentModel:
    """P_θ(h | x_i, y_i) ∝ exp θ·Φ(x_i, y_i, h), independently at each site."""

    task: LatentLossTask
    batch: Batch  # examples with their outputs
    features: Any = None  # (M, k) Φ of each state; by default the task's own features φ, k = d
    sites: LatentSites = field(init=False)

    def __post_init__(self) -> None:
        self.sites = self.task.latent_sites(self.batch)

    @property
    def n_weights(self) -> int:
        """Number of weights, k."""
        return self.task.n_features if self.features is None else self.features.shape[1]

    def _over_sites(self, values: Vector) -> Vector:
        """Repeat the value of each site for its states."""
        return np.repeat(values, np.diff(self.sites.offsets))

    def scores(self, theta: Vector) -> Vector:
        """Return θ·Φ of each state, shape (M,)."""
        return self.task.latent_scores(self.batch, theta) if self.features is None else self.features @ theta

    def distribution(self, theta: Vector) -> Vector:
        """Return P_θ, shape (M,)."""
        starts, scores = self.sites.offsets[:-1], self.scores(theta)
        masses = np.exp(scores - self._over_sites(np.maximum.reduceat(scores, starts)))
        return masses / self._over_sites(np.add.reduceat(masses, starts))

    def gradient(self, P: Vector, derivatives: Vector) -> Vector:
        """Return the gradient by θ of a function of P_θ with these derivatives by P: Σ Cov_P(derivative, Φ), (k,)."""
        means = np.add.reduceat(P * derivatives, self.sites.offsets[:-1])
        coefficients = P * (derivatives - self._over_sites(means))
        if self.features is None:
            return self.task.latent_pull_back(self.batch, coefficients)
        return self.features.T @ coefficients

    def imputed(self, w: Vector) -> Vector:
        """Return the distribution concentrated on the best latents of the weights w, for the features φ."""
        scores, starts = self.task.latent_scores(self.batch, w), self.sites.offsets[:-1]
        places = np.arange(len(scores))
        best = scores == self._over_sites(np.maximum.reduceat(scores, starts))
        first = np.minimum.reduceat(np.where(best, places, len(scores)), starts)
        return (places == self._over_sites(first)).astype(np.float64)


@dataclass
class DissimilarityObjective:
    """½‖w‖² + (J/2)‖θ‖² + Σ_i c_i [ξ_i(w, θ) − β H_i(θ)].

    ξ_i = max_{y,h} [s(y, h) + Δ_i(y, h; θ)] − max_h s(y_i, h), Δ_i(y, h; θ) = E_{h' ~ P_θ}[Δ(y_i, h', y, h)] and
    H_i = E_{h, h' ~ P_θ}[Δ(y_i, h, y_i, h')].
    """

    model: LatentModel  # P_θ, with the task and the examples
    weights: Vector  # (n,) c_i
    # Weight of ‖θ‖², and of the diversity H_i.
    J: float = 0.1
    beta: float = 0.1
    starts: LatentStart | None = None  # initial latents, when no weights are known
    # Returns the model of each single example, for the stochastic subgradient.
    split: Callable[[], Sequence[LatentModel]] | None = None
    n_jobs: int = 1  # number of threads of the oracles
    properties = frozenset({"difference", "planes", "l2"})

    def __post_init__(self) -> None:
        self.n_examples = self.model.batch.n_examples
        self.n_features = self.model.task.n_features

    @property
    def remembering(self) -> list[RememberingBatch]:
        """The batches whose answers depend on earlier ones."""
        return [self.model.batch] if isinstance(self.model.batch, RememberingBatch) else []

    @cached_property
    def singles(self) -> Sequence[LatentModel]:
        """The model of each single example."""
        if self.split is None:
            raise InputError("split", None, "a function that returns the model of each example")
        return self.split()

    def reweighted(self, weights: Vector) -> "DissimilarityObjective":
        """Return the same objective with other weights c_i."""
        return replace(self, weights=weights)

    def divided(self, n_jobs: int, chunk_bounds: Indices | None = None) -> "DissimilarityObjective":
        """Return the same objective with oracles that use this many threads; its sums are not divided."""
        return replace(self, n_jobs=n_jobs)

    def given(self, P: Vector, starts: Starts | None = None) -> Objective:
        """Return ½‖w‖² + Σ_i c_i ξ_i(w) for a distribution P."""
        task, batch = self.model.task, self.model.batch
        objective = build_objective(task, task.with_expected_loss(batch, P), self.weights, Temperature())
        return replace(objective, starts=starts).divided(self.n_jobs)

    def blind(self, starts: Starts | None = None) -> Objective:
        """Return ½‖w‖² + Σ_i c_i ξ_i(w) for the task's loss of the outputs, which ignores the latents."""
        objective = build_objective(self.model.task, self.model.batch, self.weights, Temperature())
        return replace(objective, starts=starts).divided(self.n_jobs)

    def price(self, P: Vector, theta: Vector) -> float:
        """Return the part that does not depend on w: (J/2)‖θ‖² − β Σ_i c_i H_i."""
        diversity, _ = self.model.task.diversity(self.model.batch, P)
        return 0.5 * self.J * float(theta @ theta) - self.beta * float(self.weights @ diversity)

    def value(self, w: Vector, theta: Vector) -> float:
        """Return the objective."""
        P = self.model.distribution(theta)
        return self.given(P).value(w) + self.price(P, theta)

    def of_theta(self, w: Vector) -> Function:
        """Return Σ_i c_i [ξ_i − β H_i] + (J/2)‖θ‖² and its (sub)gradient as a function of θ: all but ½‖w‖².

        The maxima max_h s(y_i, h) are subtracted, although they do not depend on θ: with large scores, a
        solver whose precision is relative to the value would stop early.
        """
        task, batch = self.model.task, self.model.batch
        risk = latent_risk(self.model, self.weights, self.beta, w)
        right = float(self.weights @ planes_of(task, batch, Query(w, "clamped")).values)

        def function(theta: Vector) -> tuple[float, Vector]:
            value, gradient = risk(theta)
            return value - right + 0.5 * self.J * float(theta @ theta), gradient + self.J * theta

        return function


def latent_risk(model: LatentModel, weights: Vector, beta: float, w: Vector) -> Function:
    """Return θ → Σ_i c_i [max_{y,h} (s(y, h) + Δ_i(y, h; θ)) − β H_i(θ)] and its (sub)gradient, at fixed w.

    As Δ_i is linear and H_i quadratic in P_θ, the gradient is Σ_i c_i Cov_{P_θ}(Δ(y_i, h, ŷ, ĥ) − β (K_i + K_iᵀ)P_θ, Φ)
    at the maximizing pair (ŷ, ĥ).
    """
    worst, of_states = model.task.worst_losses(model.batch, w), model._over_sites(weights[model.sites.examples])

    def function(theta: Vector) -> tuple[float, Vector]:
        P = model.distribution(theta)
        values, derivatives = worst(P)
        diversity, by_P = model.task.diversity(model.batch, P)
        gradient = model.gradient(P, of_states * (derivatives - beta * by_P))
        return float(weights @ (values - beta * diversity)), gradient

    return function
