"""A structure given by functions of one example."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from latentstruct.checks import is_ordered
from latentstruct.core.protocols import Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.exceptions import InputError
from latentstruct.kernels.planes import Atoms
from latentstruct.planes import Planes, Slopes, no_rows
from latentstruct.ragged import Indices, Vector
from latentstruct.short_repr import show
from latentstruct.tasks.base import (
    BaseTask,
    by_rows,
    check_examples,
    require_hard_max,
    require_labels,
    require_methods,
    require_one_latent_each,
)
from latentstruct.tasks.inputs import InputRows, check_matrix
from latentstruct.tasks.row_parts import RowStack, checked_losses


@dataclass
class ExampleBatch:
    """Examples as the user gave them, arrays or lists."""

    X: Any
    Y: Any

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.X)

    @property
    def labelled(self) -> bool:
        """Whether the true outputs are known."""
        return self.Y is not None


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
    if vector is None or sparse.issparse(vector):
        return vector
    try:
        array = vector if type(vector) is np.ndarray else np.asarray(vector)
    except ValueError:
        return vector
    return array[None] if array.ndim == 1 else array


def direct_slopes(inputs: InputRows) -> Slopes:
    """Return the rows as slopes that stand for themselves."""
    pointers, columns, values = inputs.compressed
    values = values if len(values) else np.ones(len(columns))
    return Slopes(no_rows(), pointers, Atoms(np.full(len(columns), -1, dtype=np.int32), columns, values))


class ExampleTask(BaseTask):
    """A structure given by the four functions of the structural SVM paper, one example at a time.

    Subclasses define `joint_feature`, `output_loss`, `argmax` and `loss_augmented_argmax`; plain Python is enough. In
    place of any of them a subclass may define the method of a whole batch, such as `argmax_batch`. Only the hard max is
    available (temperature 0). If the argmax is approximate, set ``exact = False``: the objective is then only known not
    to be below the value reported, and nothing is certified.

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

    tags = TaskTags(latent="possible")

    exact: bool = True

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.tags = replace(cls.tags, exact=cls.exact)

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

    def learn(self, X: Any, Y: Any) -> None:
        """Find the number of features from the first example."""
        for name in ("joint_feature", "output_loss", "argmax", "loss_augmented_argmax"):
            if getattr(type(self), f"{name}_batch") is getattr(ExampleTask, f"{name}_batch"):
                require_methods(self, ExampleTask, name)
        if self.latent:
            require_methods(self, ExampleTask, "best_latent", "random_latent")
        check_examples(X, Y, rows=True)
        x, y = by_rows(X)[:1], Y[:1]
        hidden = [[self.random_latent(x[0], y[0], np.random.default_rng(0))]] if self.latent else []
        found = self.joint_feature_batch(x, y, *hidden)
        first = next(iter(found)) if isinstance(found, Iterator) else found
        self.n_features = check_matrix(as_row(first), "joint_feature of example 0").shape[1]

    def state(self) -> dict[str, Any] | None:
        """Return what `learn` found, for saving; nothing if a subclass learns more and does not say what."""
        return {"n_features": int(self.n_features)} if type(self).learn is ExampleTask.learn else None

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        self.n_features = int(state["n_features"])

    def prepare(self, X: Any, Y: Any = None) -> ExampleBatch:
        """Keep the examples as they are."""
        check_examples(X, Y, rows=True)
        return ExampleBatch(as_collection(by_rows(X)), None if Y is None else as_collection(Y).copy())

    def _features(self, X: Any, answers: tuple[Any, ...], examples: Sequence[int]) -> InputRows:
        """Return the features of answers (Y,) or (Y, H), checked."""
        found = self.joint_feature_batch(X, *answers)
        if not isinstance(found, Iterator):
            matrix = check_matrix(found, "joint_feature_batch")
            if matrix.shape != (len(examples), self.n_features):
                raise InputError(
                    f"joint_feature_batch has shape {matrix.shape}, expected {(len(examples), self.n_features)}: "
                    "give one line for each example"
                )
            return InputRows(matrix, 1)
        stack = RowStack(self.n_features, "joint_feature", examples)
        for i, vector in zip(examples, found, strict=True):
            rows = stack.rows(as_row(vector))
            if rows.shape != (1, self.n_features):
                raise InputError(
                    f"joint_feature of example {i} has shape {rows.shape}, expected {(1, self.n_features)} as for the "
                    "first example: give all examples the same features"
                )
            stack.append(rows)
        return stack.inputs()

    def _answers(self, found: Any, source: str, examples: Sequence[int]) -> tuple[Any, ...]:
        """Return the outputs that a search returned as (Y,), or outputs and latents as (Y, H)."""
        title = f"{type(self).__name__}.{source}"
        if not is_ordered(found) or len(found) != len(examples):
            raise InputError(
                f"{title}_batch returned {show(found)}; expected {len(examples)} answers, one for each example: give "
                "a list of them"
            )
        if isinstance(found, np.ndarray) and not self.latent:
            return (found,)
        for i, answer in zip(examples, found, strict=True):
            if answer is None:
                raise InputError(f"{title} of example {i} returned None; expected an output: add a return statement")
            if self.latent and not (isinstance(answer, tuple) and len(answer) == 2):
                raise InputError(
                    f"{title} returned {show(answer)}; expected a pair (y, h), as latent is True: return both, or set "
                    "latent to False"
                )
        return tuple(map(list, zip(*found, strict=True))) if self.latent else (found,)

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
            losses = self._losses(Y, *answers, examples=examples)
        else:
            answers = (Y, [self.best_latent(x, y, w) for x, y in zip(X, Y, strict=True)]) if self.latent else (Y,)
        return answers, self._features(X, answers, examples), losses

    def _losses(self, Y: Any, *answers: Any, examples: Sequence[int] | None = None) -> Vector:
        found = self.output_loss_batch(Y, *answers)
        if not is_ordered(found) or len(found) != len(Y):
            raise InputError(
                f"{type(self).__name__}.output_loss_batch returned {show(found)}; expected {len(Y)} losses, one for "
                "each example: give an array of them"
            )
        return checked_losses(found, "output_loss", examples)

    def pool_batch(self, batch: ExampleBatch, query: Query) -> Pooled:
        """Return the best outputs of the examples of a query."""
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

    def decode(self, batch: ExampleBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best output of each example, and its latent."""
        return self._predictions(batch, Query(w, "free"))

    def decode_augmented(self, batch: ExampleBatch, w: Vector) -> list[Prediction]:
        """Return the output of each example, and its latent, that `loss_augmented_argmax` finds."""
        return self._predictions(batch, Query(w, "augmented"))

    def complete(self, batch: ExampleBatch, w: Vector) -> list[Any]:
        """Return the best latent of each known output."""
        require_labels(batch, "clamped")
        assert batch.Y is not None
        return [self.best_latent(x, y, w) for x, y in zip(batch.X, batch.Y, strict=True)]

    def completion_planes(self, batch: ExampleBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of the known outputs with the given latents as planes."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        inputs = self._features(batch.X, (batch.Y, latents), range(batch.n_examples))
        nothing = np.zeros(batch.n_examples)
        return Planes(*direct_slopes(inputs), nothing, nothing, self.n_features, exact=self.exact)

    def random_latents(self, batch: ExampleBatch, rng: np.random.Generator) -> list[Any]:
        """Return what `random_latent` gives for each example."""
        require_labels(batch, "clamped")
        assert batch.Y is not None
        return [self.random_latent(x, y, rng) for x, y in zip(batch.X, batch.Y, strict=True)]

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ŷ_i[, ĥ_i]) for each example; latents that are not given are None."""
        hidden = [[None] * len(Y_true) if H_pred is None else H_pred] if self.latent else []
        return self._losses(Y_true, Y_pred, *hidden)
