"""A structure whose outputs are made of parts that are scored one by one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from latentstruct.checks import as_reals
from latentstruct.core.pooling import PooledParts, pool_linear
from latentstruct.core.protocols import Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.exceptions import InputError
from latentstruct.planes import Planes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths
from latentstruct.short_repr import show
from latentstruct.tasks.base import (
    BaseTask,
    by_rows,
    check_examples,
    require_labels,
    require_methods,
    require_one_latent_each,
)
from latentstruct.tasks.inputs import InputRows, check_matrix, is_finite_number
from latentstruct.tasks.row_parts import RowLoss, RowParts, RowStack, checked_losses, is_plain


@dataclass
class PartsBatch:
    """The parts of all examples, flat, with what each of them costs in a wrong output."""

    X: list[Any]
    Y: list[Any] | None
    inputs: InputRows
    offsets: Indices
    constants: Vector
    losses: Vector

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.X)

    @property
    def labelled(self) -> bool:
        """Whether the true outputs are known."""
        return self.Y is not None


class _Vectors:
    """Vectors (P_i,) that a method of a task returns for one example after the other, copied into one."""

    def __init__(self, task: BaseTask, source: str, offsets: Indices, rows: Sequence[int]) -> None:
        self.task, self.source, self.rows = task, source, rows
        self.bounds, self.n = offsets.tolist(), 0
        self.flat = np.empty(self.bounds[-1])

    @classmethod
    def of(cls, given: Iterable[Any], task: BaseTask, source: str, offsets: Indices, rows: Sequence[int]) -> Vector:
        """Return one vector per example as one."""
        vectors = cls(task, source, offsets, rows)
        for one in given:
            vectors.append(one)
        return vectors.values()

    def _error(self, fault: str, wanted: str, k: int) -> InputError:
        return InputError(
            f"{self.source} of example {self.rows[k]} returned {fault}; expected {wanted}: correct "
            f"{type(self.task).__name__}.{self.source}"
        )

    def append(self, given: Any) -> None:
        """Copy the vector of the next example."""
        begin, end = self.bounds[self.n], self.bounds[self.n + 1]
        if not is_plain(given):
            try:
                given = as_reals(given)
            except (TypeError, ValueError) as error:
                raise self._error(f"{show(given)} ({error})", f"{end - begin} numbers", self.n) from error
        if given.shape != (end - begin,):
            wanted = f"shape ({end - begin},), one number for each part"
            raise self._error(show(given) if given.ndim == 0 else f"shape {given.shape}", wanted, self.n)
        self.flat[begin:end] = given
        self.n += 1

    def number_and_vector(self, given: Any) -> tuple[float, Any]:
        """Return the number and the vector that the method returned for the next example."""
        if not (isinstance(given, tuple | list) and len(given) == 2):
            raise self._error(show(given), "two values, a number and one number for each part", self.n)
        number = given[0][()] if isinstance(given[0], np.ndarray) and given[0].ndim == 0 else given[0]
        if not is_finite_number(number):
            raise self._error(show(given[0]), "a finite number as the first of two values", self.n)
        return float(number), given[1]

    def values(self) -> Vector:
        """Return all numbers, which must be finite."""
        if not np.isfinite(self.flat).all():
            k = int(np.searchsorted(self.bounds, np.flatnonzero(~np.isfinite(self.flat))[0], side="right")) - 1
            raise self._error("numbers that are not finite", "finite numbers", k)
        return self.flat


class PartsTask(BaseTask):
    """A structure whose outputs are made of parts that are scored one by one, such as edges, links or cells.

    An example x has P parts with features F (P, d), and an output has each part p so many times: counts u(x, y), mostly
    0 or 1. Then w·Ψ(x, y) = Σ_p u_p (F w)_p, and a loss that is a sum over parts as well,
    Δ(y, ŷ) = a(y) + Σ_p û_p l_p(y), only shifts the scores: one search for the best parts serves prediction and
    training. Features are multiplied with w once for all examples, and planes hold counts of parts, never Ψ.

    Subclasses define `parts`, `counts`, `best`, `output`, `output_loss` and `part_losses`. With `pool` there are soft
    maxima too, so that `CRF` can be trained and `marginals` asked for. If `best` is approximate, set ``exact = False``:
    bounds are then reported as estimates.

    With ``latent = True`` `output` returns pairs (y, h), `counts` takes h as a last argument, and `best_completion` and
    `random_latent` are defined too. Soft maxima then pool pairs (y, h) at one temperature, and also need
    `pool_completion`.

    Examples
    --------
    Which of n items to take, at most two of them:

    >>> import numpy as np
    >>> from latentstruct import PartsTask, StructuralSVM
    >>> class Pick(PartsTask):
    ...     def parts(self, x):
    ...         return x
    ...
    ...     def counts(self, x, y):
    ...         return np.isin(np.arange(len(x)), list(y))
    ...
    ...     def best(self, x, scores):
    ...         return (scores > 0) & (np.argsort(np.argsort(-scores)) < 2)
    ...
    ...     def output(self, x, counts):
    ...         return frozenset(np.flatnonzero(counts).tolist())
    ...
    ...     def output_loss(self, y, y_hat):
    ...         return len(y ^ y_hat)
    ...
    ...     def part_losses(self, x, y):
    ...         return len(y), np.where(self.counts(x, y), -1.0, 1.0)
    >>> X = [np.array([[1.0], [-1.0], [2.0], [0.5]]), np.array([[-1.0], [3.0], [-2.0], [-0.5]])]
    >>> Y = [frozenset({0, 2}), frozenset({1})]
    >>> [sorted(y) for y in StructuralSVM(Pick(), C=10.0).fit(X, Y).predict(X)]
    [[0, 2], [1]]
    """

    tags = TaskTags(latent="possible", soft=True)

    exact: bool = True

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.tags = replace(cls.tags, exact=cls.exact)

    def parts(self, x: Any) -> Any:
        """Return the features of the parts of one example: an array or sparse array of shape (P, d)."""
        raise TypeError(f"{type(self).__name__} does not define parts()")

    def counts(self, x: Any, y: Any, *h: Any) -> Any:
        """Return u(x, y[, h]) of shape (P,): how often an output has each part."""
        raise TypeError(f"{type(self).__name__} does not define counts()")

    def best(self, x: Any, scores: Vector) -> Any:
        """Return the counts (P,) of the output with the largest sum of scores."""
        raise TypeError(f"{type(self).__name__} does not define best()")

    def output(self, x: Any, counts: Vector) -> Any:
        """Return the output y that has these counts, or the pair (y, h)."""
        raise TypeError(f"{type(self).__name__} does not define output()")

    def output_loss(self, y: Any, y_hat: Any, *h_hat: Any) -> float:
        """Return Δ(y, ŷ[, ĥ]) ≥ 0."""
        raise TypeError(f"{type(self).__name__} does not define output_loss()")

    def part_losses(self, x: Any, y: Any) -> tuple[float, Any]:
        """Return a(y) and l(y) of shape (P,), with which Δ(y, ŷ) = a + Σ_p û_p l_p."""
        raise TypeError(f"{type(self).__name__} does not define part_losses()")

    def best_completion(self, x: Any, y: Any, scores: Vector) -> Any:
        """Return the counts (P,) of the best pair (y, h) with the known y."""
        raise TypeError(f"{type(self).__name__} does not define best_completion()")

    def random_latent(self, x: Any, y: Any, rng: np.random.Generator) -> Any:
        """Return some latent that fits y."""
        raise TypeError(f"{type(self).__name__} does not define random_latent()")

    def pool(self, x: Any, scores: Vector, temperature: float) -> tuple[float, Any]:
        """Return ε log Σ_y exp(Σ_p u_p s_p / ε) and the expected counts (P,) under this distribution."""
        raise InputError(
            f"{type(self).__name__} defines no pool(), so it knows the hard max only: define it, or use StructuralSVM"
        )

    def pool_completion(self, x: Any, y: Any, scores: Vector, temperature: float) -> tuple[float, Any]:
        """Return ε log Σ_h exp(Σ_p u_p s_p / ε) over the latents of the known y, and the expected counts (P,)."""
        raise InputError(
            f"{type(self).__name__} defines no pool_completion(), so it knows the hard max only where there are "
            "latents: define it, or use LatentSSVM"
        )

    def learn(self, X: Any, Y: Any) -> None:
        """Find the number of features from the first example."""
        hidden = ("best_completion", "random_latent") if self.latent else ()
        written = ("parts", "counts", "best", "output", "output_loss", "part_losses", *hidden)
        require_methods(self, PartsTask, *written)
        check_examples(X, Y, rows=True)
        X = by_rows(X)
        self.n_features = check_matrix(self.parts(X[0]), "parts of example 0").shape[1]

    def state(self) -> dict[str, Any] | None:
        """Return what `learn` found, for saving; nothing if a subclass learns more and does not say what."""
        return {"n_features": int(self.n_features)} if type(self).learn is PartsTask.learn else None

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        self.n_features = int(state["n_features"])

    def prepare(self, X: Any, Y: Any = None) -> PartsBatch:
        """List the parts of all examples, and what they cost."""
        check_examples(X, Y, rows=True)
        X, truth = list(by_rows(X)), None if Y is None else list(Y)
        stack = RowStack(self.n_features, "parts")
        for i, x in enumerate(X):
            rows = stack.rows(self.parts(x))
            if rows.shape[1] != self.n_features:
                raise InputError(
                    f"the parts of example {i} have {rows.shape[1]} features; expected {self.n_features} as those "
                    "of the first example: give all parts the same features"
                )
            stack.append(rows)
        offsets = offsets_from_lengths(stack.lengths)
        constants, losses = np.zeros(len(X)), np.zeros(offsets[-1])
        if truth is not None:
            given = _Vectors(self, "part_losses", offsets, range(len(X)))
            for i, y in enumerate(truth):
                constants[i], costs = given.number_and_vector(self.part_losses(X[i], y))
                given.append(costs)
            losses = given.values()
        return PartsBatch(X, truth, stack.inputs(), offsets, constants, losses)

    def _pooled(self, batch: PartsBatch, parts: RowParts, scores: Vector, query: Query) -> PooledParts:
        """Pool scores, to which losses of parts are added in augmented mode."""
        rows, bounds, truth = query.examples(batch).tolist(), parts.offsets.tolist(), batch.Y or []
        # The methods of the user may overwrite what they are given.
        given = scores.copy()
        views = [given[a:b] for a, b in pairwise(bounds)]
        pairs = [(batch.X[i], view) for i, view in zip(rows, views, strict=True)]
        temperature = query.temperature.output
        constants = batch.constants[rows] if query.augmented else np.zeros(len(rows))
        if temperature and (query.mode != "clamped" or self.latent):
            source = "pool_completion" if query.mode == "clamped" else "pool"
            expected, values = _Vectors(self, source, parts.offsets, rows), np.empty(len(rows))
            for k, (i, (x, view)) in enumerate(zip(rows, pairs, strict=True)):
                if query.mode == "clamped":
                    pooled = self.pool_completion(x, truth[i], view, temperature)
                else:
                    pooled = self.pool(x, view, temperature)
                values[k], counts = expected.number_and_vector(pooled)
                expected.append(counts)
            return PooledParts(constants + values, expected.values(), soft=True, exact=self.exact)
        if query.mode != "clamped":
            source, found = "best", (self.best(x, view) for x, view in pairs)
        elif self.latent:
            known = zip(rows, pairs, strict=True)
            source, found = "best_completion", (self.best_completion(x, truth[i], view) for i, (x, view) in known)
        else:
            source, found = "counts", (self.counts(batch.X[i], truth[i]) for i in rows)
        counts = _Vectors.of(found, self, source, parts.offsets, rows)
        return PooledParts(constants + parts.sums(scores * counts), counts, soft=False, exact=self.exact)

    def pool_batch(self, batch: PartsBatch, query: Query) -> Pooled:
        """Pool the outputs of the examples of a query."""
        if self.latent and query.temperature.output != query.temperature.latent:
            raise InputError(
                f"{type(self).__name__} pools outputs and latents at one temperature, but temperature is "
                f"{tuple(query.temperature)}: use LatentSSVM or HiddenCRF"
            )
        parts = RowParts.of(batch.inputs, batch.offsets, query.rows)
        loss = RowLoss(parts, parts.of_all(batch.losses), batch.constants[query.examples(batch)])
        return pool_linear(parts, loss, query, lambda scores: self._pooled(batch, parts, scores, query))

    def _pair(self, answer: Any) -> tuple[Any, Any]:
        """Return y and h, which is None without latents."""
        if answer is None:
            raise InputError(f"{type(self).__name__}.output returned None; expected an output: add a return statement")
        if not self.latent:
            return answer, None
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise InputError(
                f"{type(self).__name__}.output returned {show(answer)}; expected a pair (y, h), as latent is True: "
                "return both, or set latent to False"
            )
        return answer

    def _predictions(self, batch: PartsBatch, query: Query) -> list[Prediction]:
        """Return the best outputs of all examples."""
        parts = RowParts.of(batch.inputs, batch.offsets, None)
        scores = parts.scores(query)
        if query.augmented:
            scores += batch.losses
        values, counts, *_ = self._pooled(batch, parts, scores, query)
        found = zip(batch.X, pairwise(batch.offsets.tolist()), values.tolist(), strict=True)
        return [Prediction(*self._pair(self.output(x, counts[a:b])), value) for x, (a, b), value in found]

    def decode(self, batch: PartsBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best output of each example, and its latent."""
        return self._predictions(batch, Query(w, "free"))

    def decode_augmented(self, batch: PartsBatch, w: Vector) -> list[Prediction]:
        """Return the output of each example, and its latent, that maximizes s + Δ."""
        return self._predictions(batch, Query(w, "augmented"))

    def complete(self, batch: PartsBatch, w: Vector) -> list[Any]:
        """Return the best latent of each known output."""
        require_labels(batch, "clamped")
        return [prediction.h for prediction in self._predictions(batch, Query(w, "clamped"))]

    def marginals(self, batch: PartsBatch, w: Vector, temperature: Temperature) -> list[Vector]:
        """Return the expected counts (P,) of each example's parts, which for counts of 0 or 1 are probabilities."""
        parts, query = RowParts.of(batch.inputs, batch.offsets, None), Query(w, "free", temperature)
        counts = self._pooled(batch, parts, parts.scores(query), query).counts
        return [counts[a:b] for a, b in pairwise(batch.offsets.tolist())]

    def completion_planes(self, batch: PartsBatch, latents: Sequence[Any]) -> Planes:
        """Return the counts of the known outputs with the given latents as planes."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        known = zip(batch.X, batch.Y or [], latents, strict=True)
        found = (self.counts(x, y, h) for x, y, h in known)
        counts = _Vectors.of(found, self, "counts", batch.offsets, range(batch.n_examples))
        nothing = np.zeros(batch.n_examples)
        slopes = RowParts.of(batch.inputs, batch.offsets, None).slopes(
            counts, Query(np.zeros(self.n_features), "clamped")
        )
        return Planes(*slopes, nothing, nothing, self.n_features, exact=self.exact)

    def random_latents(self, batch: PartsBatch, rng: np.random.Generator) -> list[Any]:
        """Return what `random_latent` gives for each example."""
        require_labels(batch, "clamped")
        assert batch.Y is not None
        return [self.random_latent(x, y, rng) for x, y in zip(batch.X, batch.Y, strict=True)]

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ŷ_i[, ĥ_i]) for each example; latents that are not given are None."""
        hidden = [[None] * len(Y_true) if H_pred is None else H_pred] if self.latent else []
        return checked_losses(
            [self.output_loss(*one) for one in zip(Y_true, Y_pred, *hidden, strict=True)], "output_loss"
        )
