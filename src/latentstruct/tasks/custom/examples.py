"""A structure given by functions of one example."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from latentstruct.core.lazy import issparse
from latentstruct.core.pooling import latent_planes
from latentstruct.core.protocols import Pooled, Prediction, Query
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import check_shape, is_ordered
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Atoms, Planes, Slopes, no_rows
from latentstruct.tasks.base import by_rows, check_examples, require_hard_max, require_labels, require_methods
from latentstruct.tasks.inputs import InputRows, check_matrix
from latentstruct.tasks.row_parts import ExampleBatch, RowStack, WrittenTask, checked_losses, require_latents


def as_collection(values: Any) -> Any:
    """Return an array as it is and any other collection as a list."""
    return values if isinstance(values, np.ndarray) else list(values)


def chosen(values: Any, rows: Indices | None) -> Any:
    """Return some items of an array or a list, by default all."""
    if rows is None or values is None:
        return values
    return values[rows] if isinstance(values, np.ndarray) else [values[i] for i in rows.tolist()]


def as_row(vector: Any) -> Any:
    """Return a vector (d,) as one row (1, d), and anything else as it is."""
    if vector is None or issparse(vector):
        return vector
    try:
        array = vector if type(vector) is np.ndarray else np.asarray(vector)
    except ValueError:
        return vector
    return array[None] if array.ndim == 1 else array


def direct_slopes(inputs: InputRows) -> Slopes:
    """Return the rows as slopes that do not refer to input rows."""
    pointers, columns, values = inputs.compressed
    values = values if len(values) else np.ones(len(columns))
    return Slopes(no_rows(), pointers, Atoms(np.full(len(columns), -1, dtype=np.int32), columns, values))


class ExampleTask(WrittenTask[ExampleBatch]):
    """A structure given by the four functions of the structural SVM paper, one example at a time.

    Subclasses define `joint_feature`, `output_loss`, `argmax` and `loss_augmented_argmax`, or the method of a whole
    batch in place of any of them, such as `argmax_batch`. Only the hard max is available (temperature 0). If the argmax
    is approximate, set ``exact = False``: bounds are then reported as estimates, and nothing is certified.

    With ``latent = True`` both argmax functions return pairs (y, h), `joint_feature` and `output_loss` take h as a
    last argument, and `best_latent` and `random_latent` are defined as well.

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

    feature_method = "joint_feature"

    def joint_feature(self, x: Any, y: Any, *h: Any) -> Any:
        """Return Ψ(x, y[, h]): an array of shape (d,) or a sparse array of shape (1, d)."""
        raise TypeError(f"{type(self).__name__} does not define joint_feature()")

    def argmax(self, x: Any, w: Vector) -> Any:
        """Return argmax_y w·Ψ(x, y), or the best pair (y, h)."""
        raise TypeError(f"{type(self).__name__} does not define argmax()")

    def loss_augmented_argmax(self, x: Any, y: Any, w: Vector) -> Any:
        """Return argmax_ŷ Δ(y, ŷ) + w·Ψ(x, ŷ), or the best pair (ŷ, ĥ)."""
        raise TypeError(f"{type(self).__name__} does not define loss_augmented_argmax()")

    def best_latent(self, x: Any, y: Any, w: Vector) -> Any:
        """Return argmax_h w·Ψ(x, y, h) for the known y."""
        raise TypeError(f"{type(self).__name__} does not define best_latent()")

    def argmax_batch(self, X: Any, w: Vector) -> Sequence[Any]:
        """Return what `argmax` returns for each of several examples."""
        return [self.argmax(x, w) for x in X]

    def loss_augmented_argmax_batch(self, X: Any, Y: Any, w: Vector) -> Sequence[Any]:
        """Return what `loss_augmented_argmax` returns for each of several examples."""
        return [self.loss_augmented_argmax(x, y, w) for x, y in zip(X, Y, strict=True)]

    def joint_feature_batch(self, X: Any, Y: Any, *H: Any) -> Any:
        """Return Ψ(x, y[, h]) of several examples: an array or sparse array (n, d), or an iterator over vectors.

        Y is what a search returned, an array if it was one.
        """
        return (self.joint_feature(*one) for one in zip(X, Y, *H, strict=True))

    def output_loss_batch(self, Y: Any, Y_hat: Any, *H_hat: Any) -> Any:
        """Return Δ(y, ŷ[, ĥ]) of several examples, shape (n,)."""
        return [self.output_loss(*one) for one in zip(Y, Y_hat, *H_hat, strict=True)]

    def _first_features(self, X: Any, Y: Any) -> Any:
        searches = ("joint_feature", "output_loss", "argmax", "loss_augmented_argmax")
        single = [name for name in searches if not self._in_batches(name)]
        hidden: list[Any] = []
        require_methods(self, ExampleTask, *single, *(("best_latent", "random_latent") if self.latent else ()))
        if self.latent:
            hidden = [[self.random_latent(X[0], Y[0], np.random.default_rng(0))]]
        found = self.joint_feature_batch(X, Y, *hidden)
        if not isinstance(found, Iterator):
            return as_row(found)
        first = as_row(next(found))
        if first is None or (isinstance(first, np.ndarray) and first.ndim > 1 and len(first) != 1):
            got = None if first is None else Description(f"shape {first.shape}")
            raise InputError(f"{type(self).__name__}.joint_feature of example 0", got, "a vector of shape (d,)")
        return first

    def _in_batches(self, name: str) -> bool:
        """Return whether the method of a whole batch is defined in place of one for single examples."""
        return getattr(type(self), f"{name}_batch") is not getattr(ExampleTask, f"{name}_batch")

    def prepare(self, X: Any, Y: Any = None) -> ExampleBatch:
        """Keep the examples as they are."""
        check_examples(X, Y, rows=True)
        return ExampleBatch(as_collection(by_rows(X)), None if Y is None else as_collection(Y).copy())

    def _features(self, X: Any, answers: tuple[Any, ...], examples: Sequence[int]) -> InputRows:
        """Return the features of answers (Y,) or (Y, H), checked."""
        found = self.joint_feature_batch(X, *answers)
        if not isinstance(found, Iterator):
            matrix = check_matrix(found, "joint_feature_batch")
            check_shape(matrix, (len(examples), self.n_features), "joint_feature_batch")
            return InputRows(matrix, 1)
        stack = RowStack(self.n_features, self.feature_method, examples)
        for i, vector in zip(examples, found, strict=True):
            rows = stack.rows(as_row(vector))
            check_shape(rows, (1, self.n_features), f"joint_feature of example {i}")
            stack.append(rows)
        return stack.inputs()

    def _answers(self, found: Any, source: str, examples: Sequence[int]) -> tuple[Any, ...]:
        """Return the outputs that a search returned as (Y,), or outputs and latents as (Y, H)."""
        self._require_each(found, source, len(examples))
        if isinstance(found, np.ndarray) and not self.latent:
            return (found,)
        pairs = [self._pair(answer, source, i) for i, answer in zip(examples, found, strict=True)]
        return tuple(map(list, zip(*pairs, strict=True))) if self.latent else (found,)

    def _found(self, batch: ExampleBatch, query: Query) -> tuple[tuple[Any, ...], InputRows, Vector]:
        """Return the answers to a query, their features and losses."""
        examples = query.examples(batch).tolist()
        X, Y, w = chosen(batch.X, query.rows), chosen(batch.Y, query.rows), query.w
        losses = np.zeros(len(examples))
        if query.mode == "free":
            answers = self._answers(self.argmax_batch(X, w), "argmax", examples)
        elif query.augmented:
            found = self.loss_augmented_argmax_batch(X, Y, w)
            answers = self._answers(found, "loss_augmented_argmax", examples)
            losses = self._losses(Y, *answers, name=examples.__getitem__)
        else:
            answers = (Y, self._best_latents(X, Y, w)) if self.latent else (Y,)
        return answers, self._features(X, answers, examples), losses

    def _require_each(self, found: Any, source: str, n: int) -> None:
        if not is_ordered(found) or len(found) != n:
            raise InputError(f"{type(self).__name__}.{source}_batch", found, f"{n} values, one per example")

    def _best_latents(self, X: Any, Y: Any, w: Vector) -> list[Any]:
        return [self.best_latent(x, y, w) for x, y in zip(X, Y, strict=True)]

    def _losses(self, Y: Any, *answers: Any, name: Callable[[int], Any] = int) -> Vector:
        found = self.output_loss_batch(Y, *answers)
        self._require_each(found, "output_loss", len(Y))
        return checked_losses(found, "output_loss", name)

    def pool_batch(self, batch: ExampleBatch, query: Query) -> Pooled:
        require_hard_max(self, query.temperature)
        _, inputs, losses = self._found(batch, query)
        values = losses + inputs.times(query.w[:, None])[:, 0]
        if query.weights is None:
            return Pooled(values, direct_slopes(inputs), losses, exact=self.exact)
        slope = np.zeros(self.n_features)
        inputs.transposed_times(query.weights[:, None], slope[:, None])
        return Pooled(values, slope, losses, exact=self.exact)

    def _predictions(self, batch: ExampleBatch, query: Query) -> list[Prediction]:
        (outputs, *hidden), inputs, losses = self._found(batch, query)
        values = losses + inputs.times(query.w[:, None])[:, 0]
        outputs = outputs.tolist() if isinstance(outputs, np.ndarray) and outputs.ndim == 1 else outputs
        latents = hidden[0] if hidden else [None] * len(values)
        return [Prediction(*one) for one in zip(outputs, latents, values.tolist(), strict=True)]

    def complete(self, batch: ExampleBatch, w: Vector) -> list[Any]:
        """Return the best latent of each known output."""
        require_labels(batch, "clamped")
        return self._best_latents(batch.X, batch.Y, w)

    def completion_planes(self, batch: ExampleBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of the known outputs with the given latents as planes."""
        require_latents(batch, latents)
        inputs = self._features(batch.X, (batch.Y, latents), range(batch.n_examples))
        return latent_planes(self, direct_slopes(inputs), self.exact)
