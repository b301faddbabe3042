"""A structure whose outputs are made of parts that are scored one by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from latentstruct.checks import as_reals
from latentstruct.core.protocols import Mode, Prediction, Temperature
from latentstruct.exceptions import InputError
from latentstruct.kernels.planes import Atoms, Rows
from latentstruct.planes import Plane, Planes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths
from latentstruct.short_repr import show
from latentstruct.tasks.base import BaseTask, by_rows, check_examples, require_labels, require_one_latent_each
from latentstruct.tasks.inputs import check_matrix

HARD = Temperature()


@dataclass
class PartsBatch:
    """The parts of all examples, flat, with what each of them costs in a wrong output."""

    X: list[Any]
    Y: list[Any] | None
    features: sparse.csr_array
    rows: Rows
    bounds: Indices
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


@dataclass(frozen=True)
class Answer:
    """What inference returns for one example: its value, the (expected) counts of its parts, and their loss."""

    value: float
    counts: Vector
    loss: float


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
    `random_latent` are defined besides; only the hard max is then available.

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

    exact: bool = True

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

    def learn(self, X: Any, Y: Any) -> None:
        """Find the number of features from the first example."""
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
        X = by_rows(X)
        matrices = []
        for i, x in enumerate(X):
            matrix = sparse.csr_array(check_matrix(self.parts(x), f"parts of example {i}"))
            if matrix.shape[1] != self.n_features:
                raise InputError(
                    f"the parts of example {i} have {matrix.shape[1]} features; expected {self.n_features} as those "
                    "of the first example: give all parts the same features"
                )
            matrices.append(matrix)
        features = sparse.csr_array(sparse.vstack(matrices, format="csr"))
        bounds = offsets_from_lengths([matrix.shape[0] for matrix in matrices])
        rows = Rows(features.indptr.astype(np.int64), features.indices.astype(np.uint32), np.array(features.data))
        constants, losses = np.zeros(len(matrices)), np.zeros(bounds[-1])
        for i, y in enumerate([] if Y is None else Y):
            constant, costs = self.part_losses(X[i], y)
            constants[i] = constant
            losses[bounds[i] : bounds[i + 1]] = self._vector(costs, bounds[i + 1] - bounds[i], "part_losses", i)
            if not np.isfinite(constants[i]):
                raise InputError(
                    f"part_losses of example {i} has the constant {show(constant)}; expected a finite number: correct "
                    "part_losses of the task"
                )
        return PartsBatch(list(X), None if Y is None else list(Y), features, rows, bounds, constants, losses)

    def _vector(self, given: Any, n_parts: int, source: str, i: int) -> Vector:
        """Return numbers for the parts of an example, checked."""
        try:
            vector = as_reals(given)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{source} of example {i} must return numbers ({error}): correct {type(self).__name__}.{source}"
            ) from error
        if vector.shape != (n_parts,) or not np.isfinite(vector).all():
            shown = f"shape {vector.shape}" if vector.shape != (n_parts,) else "numbers that are not finite"
            raise InputError(
                f"{source} of example {i} returned {shown}; expected {n_parts} finite numbers, one for each part: "
                f"correct {type(self).__name__}.{source}"
            )
        return vector

    def _counts(self, batch: PartsBatch, i: int, *latent: Any) -> Vector:
        assert batch.Y is not None
        n_parts = int(batch.bounds[i + 1] - batch.bounds[i])
        return self._vector(self.counts(batch.X[i], batch.Y[i], *latent), n_parts, "counts", i)

    def _answer(self, batch: PartsBatch, i: int, scores: Vector, mode: Mode, temperature: float) -> Answer:
        """Return the best or expected parts of one example."""
        x, n_parts = batch.X[i], len(scores)
        if mode == "clamped":
            if self.latent:
                assert batch.Y is not None
                counts = self._vector(self.best_completion(x, batch.Y[i], scores), n_parts, "best_completion", i)
            else:
                counts = self._counts(batch, i)
            return Answer(float(scores @ counts), counts, 0.0)
        constant, losses = 0.0, np.zeros(n_parts)
        if mode == "augmented":
            constant, losses = float(batch.constants[i]), batch.losses[batch.bounds[i] : batch.bounds[i + 1]]
        if temperature:
            value, expected = self.pool(x, scores + losses, temperature)
            counts = self._vector(expected, n_parts, "pool", i)
            return Answer(constant + float(value), counts, constant + float(losses @ counts))
        counts = self._vector(self.best(x, scores + losses), n_parts, "best", i)
        loss = constant + float(losses @ counts)
        return Answer(loss + float(scores @ counts), counts, loss)

    def _answers(
        self, batch: PartsBatch, w: Vector, mode: Mode, temperature: Temperature, rows: Indices | None
    ) -> tuple[Indices, list[Answer]]:
        require_labels(batch, mode)
        if self.latent and temperature != HARD:
            raise InputError(
                f"{type(self).__name__} has latents and knows the hard max only, but temperature {tuple(temperature)} "
                "was asked: use LatentSSVM"
            )
        asked = np.arange(batch.n_examples) if rows is None else np.asarray(rows)
        scores = self._scores(batch, w, rows)
        return asked, [self._answer(batch, int(i), scores[int(i)], mode, temperature.output) for i in asked]

    def _scores(self, batch: PartsBatch, w: Vector, rows: Indices | None) -> dict[int, Vector]:
        """Return the scores of the parts of the asked examples."""
        b = batch.bounds
        if rows is None:
            scores = batch.features @ w
            return {i: scores[b[i] : b[i + 1]] for i in range(batch.n_examples)}
        return {int(i): batch.features[b[i] : b[i + 1]] @ w for i in rows}

    def planes(
        self, batch: PartsBatch, w: Vector, mode: Mode, temperature: Temperature, rows: Indices | None = None
    ) -> Planes:
        """Return one supporting plane for each asked example: the counts of its parts."""
        asked, answers = self._answers(batch, w, mode, temperature, rows)
        planes = self._planes(batch, asked, [answer.counts for answer in answers])
        planes.values = np.array([answer.value for answer in answers])
        if temperature.output and mode != "clamped":
            planes.offsets = planes.values - planes.dot(w)
        else:
            planes.offsets = np.array([answer.loss for answer in answers])
        return planes

    def _planes(self, batch: PartsBatch, asked: Sequence[int] | Indices, counts: Sequence[Vector]) -> Planes:
        """Return planes through the origin that have these counts of parts as slopes."""
        parts = [np.flatnonzero(count) for count in counts]
        row = [batch.bounds[i] + part for i, part in zip(asked, parts, strict=True)]
        value = [count[part] for count, part in zip(counts, parts, strict=True)]
        pointers = offsets_from_lengths([len(part) for part in parts])
        atoms = Atoms(
            np.concatenate([np.zeros(0, dtype=np.int64), *row]).astype(np.int32),
            np.zeros(pointers[-1], dtype=np.int32),
            np.concatenate([np.zeros(0), *value]),
        )
        nothing = np.zeros(len(counts))
        return Planes(batch.rows, pointers, atoms, nothing, nothing, self.n_features, exact=self.exact)

    def total(
        self,
        batch: PartsBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        weights: Vector,
        rows: Indices | None = None,
    ) -> Plane:
        """Return the weighted sum of the asked examples' planes."""
        asked, answers = self._answers(batch, w, mode, temperature, rows)
        planes = self._planes(batch, asked, [answer.counts for answer in answers])
        plane = planes.total(weights)
        values = np.array([answer.value for answer in answers])
        losses = float(weights @ [answer.loss for answer in answers])
        soft = bool(temperature.output) and mode != "clamped"
        plane.offset = float(weights @ (values - planes.dot(w))) if soft else losses
        plane.entropy = plane.offset - losses if soft else 0.0
        return plane

    def _pair(self, answer: Any) -> tuple[Any, Any]:
        """Return y and h, which is None without latents."""
        if not self.latent:
            return answer, None
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise InputError(
                f"{type(self).__name__}.output returned {show(answer)}; expected a pair (y, h), as latent is True: "
                "return both, or set latent to False"
            )
        return answer

    def decode(self, batch: PartsBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best output of each example, and its latent."""
        _, answers = self._answers(batch, w, "free", HARD, None)
        return [
            Prediction(*self._pair(self.output(x, answer.counts)), answer.value)
            for x, answer in zip(batch.X, answers, strict=True)
        ]

    def marginals(self, batch: PartsBatch, w: Vector, temperature: Temperature) -> list[Vector]:
        """Return the expected counts (P,) of each example's parts, which for counts of 0 or 1 are probabilities."""
        return [answer.counts for answer in self._answers(batch, w, "free", temperature, None)[1]]

    def complete(self, batch: PartsBatch, w: Vector) -> list[Any]:
        """Return the best latent of each known output."""
        _, answers = self._answers(batch, w, "clamped", HARD, None)
        return [self._pair(self.output(x, answer.counts))[1] for x, answer in zip(batch.X, answers, strict=True)]

    def completion_planes(self, batch: PartsBatch, latents: Sequence[Any]) -> Planes:
        """Return the counts of the known outputs with the given latents as planes."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        return self._planes(batch, range(batch.n_examples), [self._counts(batch, i, h) for i, h in enumerate(latents)])

    def random_latents(self, batch: PartsBatch, rng: np.random.Generator) -> list[Any]:
        """Return what `random_latent` gives for each example."""
        require_labels(batch, "clamped")
        assert batch.Y is not None
        return [self.random_latent(x, y, rng) for x, y in zip(batch.X, batch.Y, strict=True)]

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ŷ_i[, ĥ_i]) for each example; latents that are not given are None."""
        if not self.latent:
            return np.array([float(self.output_loss(*pair)) for pair in zip(Y_true, Y_pred, strict=True)])
        latents = [None] * len(Y_true) if H_pred is None else H_pred
        return np.array([float(self.output_loss(*triple)) for triple in zip(Y_true, Y_pred, latents, strict=True)])
