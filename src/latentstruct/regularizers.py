"""Regularisers Ω(w)."""

from sklearn.base import BaseEstimator

from latentstruct.ragged import Vector


class L2(BaseEstimator):
    """Ω(w) = ½‖w‖²."""

    def value(self, w: Vector) -> float:
        """Return ½‖w‖²."""
        return 0.5 * float(w @ w)

    def gradient(self, w: Vector) -> Vector:
        """Return w."""
        return w

    def prox(self, w: Vector, step: float) -> Vector:
        """Return argmin_v ½‖v − w‖² + step·½‖v‖² = w / (1 + step)."""
        return w / (1.0 + step)


class NoRegularizer(BaseEstimator):
    """Ω(w) = 0, for the perceptron."""

    def value(self, w: Vector) -> float:
        """Return 0."""
        return 0.0

    def gradient(self, w: Vector) -> Vector:
        """Return the zero vector."""
        return 0.0 * w

    def prox(self, w: Vector, step: float) -> Vector:
        """Return w unchanged."""
        return w
