"""A structure whose outputs are made of parts that are scored one by one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from latentstruct.core.formatting import repr_short
from latentstruct.core.levels import LossLevels, highest, pool_groups
from latentstruct.core.pooling import PooledParts, latent_planes, pool_linear, pool_scores
from latentstruct.core.protocols import HARD, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import (
    Indices,
    Vector,
    locate,
    members,
    offsets_from_lengths,
    positions,
    split,
    sums_by,
)
from latentstruct.core.validation import as_reals
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Planes, Slopes
from latentstruct.tasks.base import OPTIONAL, by_rows, check_examples, require_methods
from latentstruct.tasks.inputs import InputRows, is_finite_number, require_width
from latentstruct.tasks.row_parts import (
    ExampleBatch,
    RowLoss,
    RowParts,
    RowStack,
    WrittenTask,
    is_plain,
    loss_of_latents,
    require_latents,
)


@dataclass
class PartsBatch(ExampleBatch):
    """The parts of all examples, flat, with the loss of each part in an output."""

    inputs: InputRows
    offsets: Indices
    constants: Vector
    losses: Vector
    listed: list[list[Any]] | None = None  # all outputs of each example, once they are needed


@dataclass
class _Returned:
    """Values that a method of a task returned for the examples of a query: vectors (P_i,), optionally with a number."""

    task: WrittenTask
    source: str
    offsets: Indices
    rows: Sequence[int]

    def _error(self, got: Any, expected: str, k: int) -> InputError:
        return InputError(f"{type(self.task).__name__}.{self.source} of example {self.rows[k]}", got, expected)

    def joined(self, given: Iterable[Any], numbers: Vector | None = None) -> Vector:
        """Return the vectors as one, copied and checked; write numbers that come with them into `numbers`."""
        bounds = self.offsets.tolist()
        flat = np.empty(bounds[-1])
        for k, one in enumerate(given):
            begin, end = bounds[k], bounds[k + 1]
            if numbers is not None:
                numbers[k], one = self._number_and_vector(one, k)
            if not is_plain(one):
                try:
                    one = as_reals(one)
                except TypeError as error:
                    raise self._error(one, f"{end - begin} numbers, one per part", k) from error
            if one.shape != (end - begin,):
                got = one if one.ndim == 0 else Description(f"shape {one.shape}")
                raise self._error(got, f"an array of shape ({end - begin},), one number per part", k)
            flat[begin:end] = one
        if not np.isfinite(flat).all():
            k, _ = locate(self.offsets, np.flatnonzero(~np.isfinite(flat))[0])
            raise self._error(Description("NaN or infinity"), "finite", k)
        return flat

    def _number_and_vector(self, given: Any, k: int) -> tuple[float, Any]:
        if not (isinstance(given, tuple | list) and len(given) == 2):
            raise self._error(given, "two values, a number and a vector with one number per part", k)
        number = given[0][()] if isinstance(given[0], np.ndarray) and given[0].ndim == 0 else given[0]
        if not is_finite_number(number):
            raise self._error(given[0], "two values, first a finite number", k)
        return float(number), given[1]


@dataclass
class ListedOutputs:
    """Listed outputs of the examples of a query, each with the parts of its example."""

    of_examples: Indices  # (k + 1,) the outputs of example i of the query are of_examples[i] … of_examples[i + 1] of M
    examples: list[int]  # (M,) the example in the batch
    outputs: list[Any]  # (M,)
    offsets: Indices  # (M + 1,) where the parts of each output begin
    places: Indices  # numbers of these parts in the query

    @classmethod
    def of(cls, listed: Sequence[Sequence[Any]], rows: Sequence[int], parts: Indices) -> "ListedOutputs":
        """Lay out the outputs of the examples `rows`, whose parts begin at the offsets `parts` (k + 1,)."""
        of_examples = offsets_from_lengths(map(len, listed))
        owner, _ = members(of_examples)
        places, offsets = positions(parts, owner)
        return cls(
            of_examples, [rows[k] for k in owner.tolist()], [y for some in listed for y in some], offsets, places
        )

    def sums(self, values: Vector) -> Vector:
        """Return the sum of the values of each output's parts."""
        return sums_by(members(self.offsets)[0], values, len(self.outputs))

    def pool(self, values: Vector, temperature: float) -> tuple[Vector, Vector]:
        """Return the pooled values of the examples, and the share of each output."""
        return pool_groups(values, self.of_examples, np.arange(len(self.of_examples)), temperature, temperature)

    def expected(self, counts: Vector, shares: Vector, n_parts: int) -> Vector:
        """Return the counts of the parts of the query, those of outputs times their shares."""
        return sums_by(self.places, np.repeat(shares, np.diff(self.offsets)) * counts, n_parts)


class PartsTask(WrittenTask[PartsBatch]):
    """A structure whose outputs are made of parts that are scored one by one, such as edges, links or cells.

    An example x has P parts with features F (P, d), and an output has counts u(x, y) of parts, mostly 0 or 1. Then
    w·Ψ(x, y) = Σ_p u_p (F w)_p, and a loss that is a sum over parts as well, Δ(y, ŷ) = a(y) + Σ_p û_p l_p(y), only
    shifts the scores: one search for the best parts serves prediction and training.

    Subclasses define `parts`, `counts`, `best`, `output`, `output_loss` and `part_losses`, and `pool` for soft maxima
    (`CRF`, `marginals`). If `best` is approximate, set ``exact = False``: bounds are then reported as estimates.

    With ``latent = True`` `output` returns pairs (y, h), `counts` takes h as a last argument, and `best_completion` and
    `random_latent` are also defined. Soft maxima then pool pairs (y, h) at one temperature, and also need
    `pool_completion`.

    If an example has few outputs, ``outputs(x)`` may list them all, hashable and each once. Then latents can be pooled
    before outputs (`MarginalSSVM`, `MinEntropySSVM`, any two temperatures), and slack rescaling is exact.

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

    tags = TaskTags(
        latent="possible",
        soft=True,
        reasons=dict.fromkeys(
            ("StructuralSVM, slack rescaling", "MarginalSSVM", "MinEntropySSVM"),
            "needs the optional method outputs(), which lists the outputs of an example",
        ),
    )
    tag_methods: ClassVar[dict[str, str]] = {
        **OPTIONAL,
        **dict.fromkeys(("two_temperatures", "exact_slack", "renyi"), "outputs"),
    }

    feature_method = "parts"

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.tags = replace(cls.tags, soft=cls.pool is not PartsTask.pool)

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

    def part_losses(self, x: Any, y: Any) -> tuple[float, Any]:
        """Return a(y) and l(y) of shape (P,), with which Δ(y, ŷ) = a + Σ_p û_p l_p."""
        raise TypeError(f"{type(self).__name__} does not define part_losses()")

    def best_completion(self, x: Any, y: Any, scores: Vector) -> Any:
        """Return the counts (P,) of the best pair (y, h) with the known y."""
        raise TypeError(f"{type(self).__name__} does not define best_completion()")

    def pool(self, x: Any, scores: Vector, temperature: float) -> tuple[float, Any]:
        """Return ε log Σ_y exp(Σ_p u_p s_p / ε) and the expected counts (P,) under this distribution."""
        raise TypeError(f"{type(self).__name__} does not define pool()")

    def pool_completion(self, x: Any, y: Any, scores: Vector, temperature: float) -> tuple[float, Any]:
        """Return ε log Σ_h exp(Σ_p u_p s_p / ε) over the latents of the known y, and the expected counts (P,)."""
        expected = f"0 because {type(self).__name__} does not define pool_completion()"
        raise InputError("temperature", temperature, expected, "Define this method, or use LatentSSVM.")

    def _first_features(self, X: Any, Y: Any) -> Any:
        hidden = ("best_completion", "random_latent") if self.latent else ()
        written = ("parts", "counts", "best", "output", "output_loss", "part_losses", *hidden)
        require_methods(self, PartsTask, *written, optional=("pool", "pool_completion"))
        return self.parts(X[0])

    def prepare(self, X: Any, Y: Any = None) -> PartsBatch:
        """List the parts of all examples, and their losses."""
        check_examples(X, Y, rows=True)
        X, truth = list(by_rows(X)), None if Y is None else list(Y)
        stack = RowStack(self.n_features, self.feature_method)
        for i, x in enumerate(X):
            rows = stack.rows(self.parts(x))
            require_width(rows, self.n_features, f"{self.feature_method} of example {i}")
            stack.append(rows)
        offsets = offsets_from_lengths(stack.lengths)
        constants, losses = np.zeros(len(X)), np.zeros(offsets[-1])
        if truth is not None:
            given = (self.part_losses(x, y) for x, y in zip(X, truth, strict=True))
            losses = _Returned(self, "part_losses", offsets, range(len(X))).joined(given, constants)
        return PartsBatch(X, truth, stack.inputs(), offsets, constants, losses)

    def _list(self, batch: PartsBatch, rows: Sequence[int], parts: RowParts, known: bool = False) -> ListedOutputs:
        """Return all outputs of some examples, or only the known ones."""
        if batch.listed is None:
            batch.listed = [self._outputs(batch, i) for i in range(batch.n_examples)]
        found = [[batch.Y[i]] if known else batch.listed[i] for i in rows]
        return ListedOutputs.of(found, rows, parts.offsets)

    def _outputs(self, batch: PartsBatch, i: int) -> list[Any]:
        """Return the outputs of an example, checked to be different and to have the known one among them."""
        title, found = f"{type(self).__name__}.outputs of example {i}", self.outputs(batch.X[i])
        try:
            outputs = list(found)
            distinct = set(outputs)
        except TypeError as error:
            raise InputError(title, found, "a list of hashable outputs") from error
        if not outputs or len(distinct) < len(outputs):
            raise InputError(title, found, "a list of at least one output, without repetitions")
        if batch.Y is not None and batch.Y[i] not in distinct:
            raise InputError(title, found, f"a list with the known output {repr_short(batch.Y[i])}")
        return outputs

    def _complete_each(
        self, batch: PartsBatch, listed: ListedOutputs, scores: Vector, temperature: float
    ) -> tuple[Vector, Vector]:
        """Pool the latents of each listed output; return values (M,) and the counts of its parts."""
        source = "counts" if not self.latent else "pool_completion" if temperature else "best_completion"
        own = scores[listed.places]
        given = zip(
            [batch.X[i] for i in listed.examples], listed.outputs, split(own.copy(), listed.offsets), strict=True
        )
        returned = _Returned(self, source, listed.offsets, listed.examples)
        if source == "pool_completion":
            values = np.empty(len(listed.outputs))
            counts = returned.joined((self.pool_completion(*one, temperature) for one in given), values)
            return values, counts
        complete = self.best_completion if self.latent else lambda x, y, scores: self.counts(x, y)
        counts = returned.joined(complete(*one) for one in given)
        return listed.sums(own * counts), counts

    def _pool_listed(self, batch: PartsBatch, parts: RowParts, scores: Vector, query: Query) -> PooledParts:
        """Pool the latents of each output at ε_h, then outputs at ε_y."""
        rows = query.examples(batch)
        listed = self._list(batch, rows.tolist(), parts)
        values, counts = self._complete_each(batch, listed, scores, query.temperature.latent)
        pooled, shares = listed.pool(values, query.temperature.output)
        constants = batch.constants[rows] if query.augmented else 0.0
        expected = listed.expected(counts, shares, len(scores))
        return PooledParts(constants + pooled, expected, soft=True, exact=self.exact)

    def loss_levels(self, batch: PartsBatch, query: Query) -> LossLevels | None:
        """Return all outputs, if they can be listed."""
        if not self.tags.exact_slack:
            return None
        parts, loss, *_ = self._linear(batch, query)
        scores, rows = parts.scores(query), query.examples(batch)
        listed = self._list(batch, rows.tolist(), parts)
        values, counts = self._complete_each(batch, listed, scores, 0.0)
        losses = batch.constants[listed.examples] + listed.sums(counts * loss.losses[listed.places])

        def slopes(chosen: Indices) -> Slopes:
            shares = np.zeros(len(values))
            shares[chosen] = 1.0
            return parts.slopes(listed.expected(counts, shares, len(scores)), query)

        return LossLevels(listed.of_examples, losses, values, slopes)

    def _entropies(
        self, batch: PartsBatch, listed: ListedOutputs, scores: Vector, order: float
    ) -> tuple[Vector, Vector, Vector]:
        """Return G_α of each output, its derivatives by the scores of parts, and the expected counts of parts."""
        if order == 1.0:
            raise InputError("alpha", order, f"different from 1 for {type(self).__name__}")
        plain, p = self._complete_each(batch, listed, scores, 1.0)
        sharp, q = self._complete_each(batch, listed, order * scores, 1.0)
        return (sharp - plain) / (order - 1.0), (order * q - p) / (order - 1.0), p

    def renyi_pool(self, batch: PartsBatch, query: Query, order: float) -> Pooled:
        """Pool Δ_i(y) + G_α(y) over listed outputs, where latents are pooled by Rényi entropy of order α."""
        parts, loss, *_ = self._linear(batch, query)
        scores, rows = parts.scores(query), query.examples(batch).tolist()
        listed = self._list(batch, rows, parts, known=query.mode == "clamped")
        values, derivatives, counts = self._entropies(batch, listed, scores, order)
        losses = np.zeros(len(values))
        if query.augmented:
            of_parts = loss.losses[listed.places]
            losses, again = (listed.sums(each * of_parts) for each in (counts, derivatives))
            if not np.allclose(losses, again):
                raise loss_of_latents()
            losses += batch.constants[listed.examples]
        pooled, shares = listed.pool(values + losses, query.temperature.output)
        slopes = parts.slopes(listed.expected(derivatives, shares, len(scores)), query)
        expected = sums_by(members(listed.of_examples)[0], shares * losses, len(rows))
        return Pooled(pooled, slopes, expected, soft=True, exact=False)

    def renyi_decode(self, batch: PartsBatch, w: Vector, order: float) -> list[Prediction]:
        """Return argmax_y G_α(y) of each example, and its best h."""
        parts, _, query, _ = self._linear(batch, Query(w, "free"))
        scores = parts.scores(query)
        listed = self._list(batch, range(batch.n_examples), parts)
        return self._best_listed(batch, listed, scores, self._entropies(batch, listed, scores, order)[0])

    def _best_listed(
        self, batch: PartsBatch, listed: ListedOutputs, scores: Vector, values: Vector
    ) -> list[Prediction]:
        """Return the outputs of the largest values, each with its best latent."""
        tops, best = highest(values, listed.of_examples)
        rows, n_parts = range(batch.n_examples), batch.offsets
        chosen = ListedOutputs.of([[listed.outputs[c]] for c in best.tolist()], rows, n_parts)
        _, counts = self._complete_each(batch, chosen, scores, 0.0)
        found = zip(batch.X, chosen.outputs, split(counts, chosen.offsets), tops.tolist(), strict=True)
        return [
            Prediction(y, self._pair(self.output(x, own), "output", i)[1], value)
            for i, (x, y, own, value) in enumerate(found)
        ]

    def _pooled(self, batch: PartsBatch, parts: RowParts, scores: Vector, query: Query) -> PooledParts:
        """Pool scores, to which losses of parts are added in augmented mode."""
        rows, clamped = query.examples(batch).tolist(), query.mode == "clamped"
        if self.latent and not clamped and query.temperature.output != query.temperature.latent:
            return self._pool_listed(batch, parts, scores, query)
        temperature = query.temperature.latent if clamped and self.latent else query.temperature.output
        # Methods of the user may overwrite their arguments.
        views = split(scores.copy(), parts.offsets)
        known = [[batch.Y[i] for i in rows]] if clamped else []
        given = zip([batch.X[i] for i in rows], *known, views, strict=True)
        constants = batch.constants[rows] if query.augmented else np.zeros(len(rows))
        if temperature and (not clamped or self.latent):
            source, values = "pool_completion" if clamped else "pool", np.empty(len(rows))
            pool: Callable[..., Any] = self.pool_completion if clamped else self.pool
            found = (pool(*one, temperature) for one in given)
            counts = _Returned(self, source, parts.offsets, rows).joined(found, values)
            return PooledParts(constants + values, counts, soft=True, exact=self.exact)
        if clamped and not self.latent:
            source, found = "counts", (self.counts(x, y) for x, y, _ in given)
        else:
            source, search = ("best_completion", self.best_completion) if clamped else ("best", self.best)
            found = (search(*one) for one in given)
        counts = _Returned(self, source, parts.offsets, rows).joined(found)
        return PooledParts(constants + parts.sums(scores * counts), counts, soft=False, exact=self.exact)

    def _linear(self, batch: PartsBatch, query: Query) -> tuple[RowParts, RowLoss, Query, Any]:
        """Return the parts of a query, their losses and their pool."""
        parts = RowParts.of(batch.inputs, batch.offsets, query.rows)
        loss = RowLoss(parts, parts.of_all(batch.losses), batch.constants[query.examples(batch)])
        return parts, loss, query, lambda scores: self._pooled(batch, parts, scores, query)

    def pool_batch(self, batch: PartsBatch, query: Query) -> Pooled:
        return pool_linear(*self._linear(batch, query))

    def _predictions(self, batch: PartsBatch, query: Query) -> list[Prediction]:
        if query.temperature.latent and self.latent and query.mode != "clamped":
            if self.tags.two_temperatures:
                return self._marginal_predictions(batch, query)
            # The best pair (y, h): the sum over latents of the best output is not known.
            query = replace(query, temperature=HARD)
        values, counts, *_ = pool_scores(*self._linear(batch, query))
        found = zip(batch.X, split(counts, batch.offsets), values.tolist(), strict=True)
        return [
            Prediction(*self._pair(self.output(x, own), "output", i), value) for i, (x, own, value) in enumerate(found)
        ]

    def _marginal_predictions(self, batch: PartsBatch, query: Query) -> list[Prediction]:
        parts = RowParts.of(batch.inputs, batch.offsets, None)
        scores, listed = parts.scores(query), self._list(batch, range(batch.n_examples), parts)
        values, _ = self._complete_each(batch, listed, scores, query.temperature.latent)
        return self._best_listed(batch, listed, scores, values)

    def marginals(self, batch: PartsBatch, w: Vector, temperature: Temperature) -> list[Vector]:
        """Return the expected counts (P,) of each example's parts, which for counts of 0 or 1 are probabilities."""
        return split(pool_scores(*self._linear(batch, Query(w, "free", temperature))).counts, batch.offsets)

    def completion_planes(self, batch: PartsBatch, latents: Sequence[Any]) -> Planes:
        """Return the counts of the known outputs with the given latents as planes."""
        require_latents(batch, latents)
        found = (self.counts(*one) for one in zip(batch.X, batch.Y, latents, strict=True))
        counts = _Returned(self, "counts", batch.offsets, range(batch.n_examples)).joined(found)
        parts = RowParts.of(batch.inputs, batch.offsets, None)
        return latent_planes(self, parts.slopes(counts, Query(np.zeros(self.n_features), "clamped")), self.exact)
