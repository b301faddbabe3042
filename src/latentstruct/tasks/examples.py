"""A structure given by functions of one example."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from latentstruct.core.protocols import Mode, Prediction, Temperature
from latentstruct.exceptions import InputError
from latentstruct.planes import Planes
from latentstruct.ragged import Indices, Vector
from latentstruct.short_repr import show
from latentstruct.tasks.base import (
    BaseTask,
    by_rows,
    check_examples,
    require_hard_max,
    require_labels,
    require_one_latent_each,
)
from latentstruct.tasks.inputs import check_matrix


@dataclass
class ExampleBatch:
    """Examples as the user gave them."""

    X: list[Any]
    Y: list[Any] | None

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.X)

    @property
    def labelled(self) -> bool:
        """Whether the true outputs are known."""
        return self.Y is not None


class ExampleTask(BaseTask):
    """A structure given by the four functions of the structural SVM paper, one example at a time.

    Subclasses define `joint_feature`, `output_loss`, `argmax` and `loss_augmented_argmax`; plain Python is enough.
    Only the hard max is available (temperature 0). If the argmax is approximate, set ``exact = False``: bounds
    are then reported as estimates.

    With ``latent = True`` both argmax functions return pairs (y, h), `joint_feature` and `output_loss` take h as a
    last argument, and `best_latent` and `random_latent` are defined besides.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import ExampleTask, StructuralSVM
    >>> class Sign(ExampleTask):
    ...     def joint_feature(self, x, y):
    ...         return y * np.asarray(x)
    ...
    ...     def output_loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...
    ...     def argmax(self, x, w):
    ...         return max((-1, 1), key=lambda y: y * np.dot(x, w))
    ...
    ...     def loss_augmented_argmax(self, x, y, w):
    ...         return max((-1, 1), key=lambda y_hat: y_hat * np.dot(x, w) + (y != y_hat))
    >>> X = [[1.0, 0.0], [-1.0, 0.5], [2.0, 1.0]]
    >>> StructuralSVM(Sign(), C=10.0).fit(X, [1, -1, 1]).predict(X)
    [1, -1, 1]
    """

    exact: bool = True

    def joint_feature(self, x: Any, y: Any, *h: Any) -> Any:
        """Return Ψ(x, y[, h]): an array of shape (d,) or a sparse array of shape (1, d)."""
        raise TypeError(f"{type(self).__name__} does not define joint_feature()")

    def output_loss(self, y: Any, y_hat: Any, *h_hat: Any) -> float:
        """Return Δ(y, ŷ[, ĥ]) ≥ 0."""
        raise TypeError(f"{type(self).__name__} does not define output_loss()")

    def argmax(self, x: Any, w: Vector) -> Any:
        """Return argmax_y w·Ψ(x, y), or the best pair (y, h)."""
        raise TypeError(f"{type(self).__name__} does not define argmax()")

    def loss_augmented_argmax(self, x: Any, y: Any, w: Vector) -> Any:
        """Return argmax_ŷ Δ(y, ŷ) + w·Ψ(x, ŷ), or the best pair (ŷ, ĥ)."""
        raise TypeError(f"{type(self).__name__} does not define loss_augmented_argmax()")

    def best_latent(self, x: Any, y: Any, w: Vector) -> Any:
        """Return argmax_h w·Ψ(x, y, h) for the known y."""
        raise TypeError(f"{type(self).__name__} does not define best_latent()")

    def random_latent(self, x: Any, y: Any, rng: np.random.Generator) -> Any:
        """Return some latent that fits y."""
        raise TypeError(f"{type(self).__name__} does not define random_latent()")

    def learn(self, X: Any, Y: Any) -> None:
        """Find the number of features from the first example."""
        check_examples(X, Y, rows=True)
        X = by_rows(X)
        answer = (Y[0], self.random_latent(X[0], Y[0], np.random.default_rng(0))) if self.latent else (Y[0],)
        self.n_features = self._vector(X[0], answer, "example 0").shape[1]

    def state(self) -> dict[str, Any] | None:
        """Return what `learn` found, for saving; nothing if a subclass learns more and does not say what."""
        return {"n_features": int(self.n_features)} if type(self).learn is ExampleTask.learn else None

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        self.n_features = int(state["n_features"])

    def prepare(self, X: Any, Y: Any = None) -> ExampleBatch:
        """Keep the examples as they are."""
        check_examples(X, Y, rows=True)
        X = by_rows(X)
        return ExampleBatch(list(X), None if Y is None else list(Y))

    def _vector(self, x: Any, answer: tuple[Any, ...], name: str) -> sparse.csr_array:
        vector = self.joint_feature(x, *answer)
        if not sparse.issparse(vector):
            vector = np.asarray(vector)
            vector = vector[None] if vector.ndim == 1 else vector
        return sparse.csr_array(check_matrix(vector, f"joint_feature of {name}"))

    def _features(self, x: Any, answer: tuple[Any, ...], name: str) -> sparse.csr_array:
        line, expected = self._vector(x, answer, name), (1, self.n_features)
        if line.shape != expected:
            raise InputError(
                f"joint_feature of {name} has shape {line.shape}, expected {expected} as for the first example: give "
                "all examples the same features"
            )
        return line

    def _pair(self, answer: Any, source: str) -> tuple[Any, ...]:
        """Return (y,) or (y, h)."""
        if not self.latent:
            return (answer,)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise InputError(
                f"{type(self).__name__}.{source} returned {show(answer)}; expected a pair (y, h), as latent is True: "
                "return both, or set latent to False"
            )
        return answer

    def _answer(self, batch: ExampleBatch, i: int, w: Vector, mode: Mode) -> tuple[tuple[Any, ...], float]:
        x = batch.X[i]
        if mode == "free":
            return self._pair(self.argmax(x, w), "argmax"), 0.0
        assert batch.Y is not None
        y = batch.Y[i]
        if mode == "clamped":
            return ((y, self.best_latent(x, y, w)) if self.latent else (y,)), 0.0
        answer = self._pair(self.loss_augmented_argmax(x, y, w), "loss_augmented_argmax")
        return answer, float(self.output_loss(y, *answer))

    def planes(
        self,
        batch: ExampleBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        rows: Indices | None = None,
    ) -> Planes:
        """Return one supporting plane for each asked example."""
        require_labels(batch, mode)
        require_hard_max(self, temperature)
        lines, losses = [], []
        for i in range(batch.n_examples) if rows is None else rows:
            answer, loss = self._answer(batch, int(i), w, mode)
            lines.append(self._features(batch.X[i], answer, f"example {i}"))
            losses.append(loss)
        return self._stacked(lines, np.array(losses, dtype=np.float64), w)

    def _stacked(self, lines: list[sparse.csr_array], offsets: Vector, w: Vector) -> Planes:
        slopes = sparse.vstack([sparse.csr_array((0, self.n_features)), *lines], format="csr")
        return Planes.from_matrix(slopes, offsets, offsets + slopes @ w, self.exact)

    def complete(self, batch: ExampleBatch, w: Vector) -> list[Any]:
        """Return the best latent of each known output."""
        require_labels(batch, "clamped")
        assert batch.Y is not None
        return [self.best_latent(x, y, w) for x, y in zip(batch.X, batch.Y, strict=True)]

    def completion_planes(self, batch: ExampleBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of the known outputs with the given latents as planes."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        assert batch.Y is not None
        lines = [
            self._features(x, (y, h), f"example {i}")
            for i, (x, y, h) in enumerate(zip(batch.X, batch.Y, latents, strict=True))
        ]
        return self._stacked(lines, np.zeros(len(lines)), np.zeros(self.n_features))

    def random_latents(self, batch: ExampleBatch, rng: np.random.Generator) -> list[Any]:
        """Return what `random_latent` gives for each example."""
        require_labels(batch, "clamped")
        assert batch.Y is not None
        return [self.random_latent(x, y, rng) for x, y in zip(batch.X, batch.Y, strict=True)]

    def decode(self, batch: ExampleBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best output of each example, and its latent."""
        found = [(x, self._pair(self.argmax(x, w), "argmax")) for x in batch.X]
        return [
            Prediction(
                answer[0],
                answer[1] if self.latent else None,
                float((self._features(x, answer, f"example {i}") @ w)[0]),
            )
            for i, (x, answer) in enumerate(found)
        ]

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ŷ_i[, ĥ_i]) for each example; latents that are not given are None."""
        if not self.latent:
            return np.array([self.output_loss(y, y_hat) for y, y_hat in zip(Y_true, Y_pred, strict=True)])
        latents = [None] * len(Y_true) if H_pred is None else H_pred
        return np.array([self.output_loss(*triple) for triple in zip(Y_true, Y_pred, latents, strict=True)])
