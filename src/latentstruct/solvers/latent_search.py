"""The search for the weights θ of a distribution over unknown latents."""

import time

import numpy as np
from scipy.optimize import minimize as minimize_smooth

from latentstruct.dissimilarity import DissimilarityObjective, Function, latent_risk
from latentstruct.ragged import Vector

# Steps of L-BFGS in one block, and passes over the data of the stochastic subgradient.
LATENT_STEPS, LATENT_PASSES = 100, 10
# Multiples of w that θ may begin with: the distribution then favours the latents that w does.
FIRST_MULTIPLES = (1.0, 4.0, 16.0, 64.0)


class OutOfTime(Exception):
    """Ends a block whose time is over."""


class Search:
    """A function of θ divided by Σ_i c_i, which remembers the best θ it was asked at."""

    def __init__(self, function: Function, theta: Vector, scale: float, seconds: float) -> None:
        self.function, self.scale = function, scale
        self.ends = time.perf_counter() + seconds
        self.theta, self.value = theta, function(theta)[0] / scale

    def consider(self, theta: Vector) -> None:
        """Go on from these weights if they are better."""
        value = self.function(theta)[0] / self.scale
        if value < self.value:
            self.theta, self.value = theta, value

    def __call__(self, theta: Vector) -> tuple[float, Vector]:
        """Return the function and its gradient at θ; raise OutOfTime once the time is over."""
        value, gradient = self.function(theta)
        if value / self.scale < self.value:
            self.value, self.theta = value / self.scale, theta.copy()
        if time.perf_counter() >= self.ends:
            raise OutOfTime
        return value / self.scale, gradient / self.scale


def first_theta(objective: DissimilarityObjective, w: Vector) -> Vector:
    """Return the multiple of w, 0 included, that makes the objective lowest as θ; 0 if Φ are features of their own."""
    nothing = np.zeros(objective.model.n_weights)
    if objective.model.features is not None or not w.any():
        return nothing
    function = objective.of_theta(w)
    return min((nothing, *(multiple * w for multiple in FIRST_MULTIPLES)), key=lambda theta: function(theta)[0])


def descend_by_lbfgs(search: Search, precision: float) -> None:
    """Go down by L-BFGS until a step lowers the function by less than the precision."""
    options = {"maxiter": LATENT_STEPS, "ftol": precision, "gtol": 1e-9}
    minimize_smooth(search, search.theta, jac=True, method="L-BFGS-B", options=options)


def descend_by_subgradient(
    search: Search, objective: DissimilarityObjective, w: Vector, rng: np.random.Generator
) -> None:
    """Go down by stochastic subgradients of λ/2‖θ‖² + E_i[ξ_i − β H_i], the example i drawn in proportion to c_i.

    λ = J/Σ_i c_i and the step is 1/(λt); the whole function is asked after each pass over the data.
    """
    risks = [latent_risk(model, np.ones(1), objective.beta, w) for model in objective.singles]
    rate, shares = objective.J / search.scale, objective.weights / search.scale
    theta, t = search.theta.copy(), 0
    for _ in range(LATENT_PASSES):
        for i in rng.choice(len(risks), size=len(risks), p=shares / shares.sum()):
            t += 1
            _, gradient = risks[i](theta)
            theta = (1.0 - 1.0 / t) * theta - gradient / (rate * t)
        search(theta)
