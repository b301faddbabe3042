"""Classes with a finite set of latent states: rotations, boxes, positions, mixture components."""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning as NotConverged

from latentstruct.exceptions import InputError
from latentstruct.kernels.candidates import pool_candidates, pool_renyi
from latentstruct.kernels.planes import Atoms
from latentstruct.planes import Plane, Planes
from latentstruct.protocols import Mode, Prediction, Temperature
from latentstruct.ragged import Indices, Vector, offsets_from_lengths, positions
from latentstruct.tasks.base import BaseTask, check_examples, require_labels, require_one_latent_each
from latentstruct.tasks.inputs import InputRows, check_matrix
from latentstruct.tasks.labels import LabelSet
from latentstruct.tasks.multiclass import Multiclass


@dataclass
class Cells:
    """Candidates (y, h) of some examples, class by class: y, h, and the place of the example among those asked."""

    example: Indices
    y: Indices
    h: Indices
    groups: Indices
    examples: Indices

    @classmethod
    def of(cls, sizes: Indices, n_labels: int) -> "Cells":
        """List the candidates of examples with so many states."""
        n = len(sizes)
        group_sizes = np.repeat(sizes, n_labels)
        groups = offsets_from_lengths(group_sizes)
        h = np.arange(groups[-1]) - np.repeat(groups[:-1], group_sizes)
        y = np.repeat(np.tile(np.arange(n_labels), n), group_sizes)
        example = np.repeat(np.arange(n), n_labels * sizes)
        return cls(example, y, h, groups, n_labels * np.arange(n + 1))


@dataclass
class StateBatch:
    """Inputs x(h) of all examples, flat, and class numbers (n,).

    Attributes
    ----------
    inputs : InputRows
        All rows x(h); the stride of the weights is the number of weight vectors.
    sizes : ndarray of shape (n,)
        H_i, the number of states of each example.
    shared : bool
        Whether all states of an example see one row; else state h of example i has the row offsets[i] + h.
    truth : ndarray of shape (n,) or None
        Numbers of the true classes.
    cells : Cells
        All candidates.
    losses : ndarray of shape (number of candidates,), optional
        The loss of each candidate, where it is not the cost of its class.
    """

    inputs: InputRows
    sizes: Indices
    shared: bool
    truth: NDArray[np.int64] | None
    cells: Cells
    losses: Vector | None = None

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.sizes)

    @property
    def labelled(self) -> bool:
        """Whether the true classes are known."""
        return self.truth is not None

    @cached_property
    def offsets(self) -> Indices:
        """First row of each example."""
        return np.arange(len(self.sizes) + 1) if self.shared else offsets_from_lengths(self.sizes)


class LatentMulticlass(BaseTask):
    """Multiclass classification with a latent state: s(y, h) = w_y·x(h), or w_{y,h}·x(h).

    Parameters
    ----------
    n_states : int, optional
        H. Needed where X has one row an example; else a check of what X holds.
    weights : {"class", "state"}, default="class"
        One weight vector a class (states are views of the input: rotations, boxes, positions), or one for each class
        and state (parts of a mixture).
    labels : sequence of hashable, optional
        All classes that may occur, in the order of the model; by default those of the training data.
    costs : None, mapping or array of shape (S, S), default=None
        Δ(y, ŷ): 0/1, the cost of missing each true class, or a matrix (true, predicted). States cost nothing.
    bias : float, default=0.0
        Value of a constant feature of each weight vector; 0 for none.

    Notes
    -----
    X is an array (n, H, d) of the inputs x_i(h); or a sequence of matrices (H_i, d), which may have different numbers
    of states if weights is "class"; or, with n_states given and weights "state", a matrix (n, d) whose rows all states
    see. Y is a sequence of n classes. Latents are state numbers, counted from 0.

    There are B = S weight vectors for weights "class" and B = S·H for "state". Weight f·B + b belongs to feature f and
    vector b, where b = y or b = y·H + h; the B bias weights come last. All temperatures are exact.
    """

    latent = True
    classifies = True

    def __init__(
        self,
        n_states: int | None = None,
        weights: Literal["class", "state"] = "class",
        labels: Sequence[Hashable] | None = None,
        costs: Any = None,
        bias: float = 0.0,
    ) -> None:
        self.n_states = n_states
        self.weights = weights
        self.labels = labels
        self.costs = costs
        self.bias = bias

    def learn(self, X: Any, Y: Any) -> None:
        """Find the classes, the number of states and the number of inputs."""
        check_examples(X, Y)
        self._check_parameters()
        matrix, sizes, shared = self._rows(X)
        n_states = int(sizes[0]) if self.weights == "state" else None
        self._set(LabelSet.learn(Multiclass._labels(Y), self.labels), matrix.shape[1], n_states, shared)

    def _check_parameters(self) -> None:
        if self.weights not in ("class", "state"):
            raise InputError(f"weights must be 'class' or 'state', found {self.weights!r}")
        whole = isinstance(self.n_states, int | np.integer) and not isinstance(self.n_states, bool)
        if self.n_states is not None and not (whole and self.n_states >= 1):
            raise InputError(f"n_states must be a whole number of at least 1, found {self.n_states!r}")
        if not np.isfinite(self.bias):
            raise InputError(f"bias must be finite, found {self.bias!r}")

    def _set(self, labels: LabelSet, n_inputs: int, n_states: int | None, shared: bool) -> None:
        self.labels_, self.n_inputs_, self.n_states_, self.shared_ = labels, n_inputs, n_states, shared
        self.costs_ = labels.costs(self.costs)
        self.n_vectors_ = len(labels) * (1 if n_states is None else n_states)
        self.bias_at_ = n_inputs * self.n_vectors_ if self.bias else -1
        self.n_features = (n_inputs + bool(self.bias)) * self.n_vectors_

    def state(self) -> dict[str, Any]:
        """Return what `learn` found, for saving."""
        return {
            "labels": self.labels_.labels,
            "n_inputs": self.n_inputs_,
            "n_states": self.n_states_,
            "shared": self.shared_,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        self._check_parameters()
        n_states = None if state["n_states"] is None else int(state["n_states"])
        self._set(LabelSet(state["labels"]), int(state["n_inputs"]), n_states, bool(state["shared"]))

    def _rows(self, X: Any) -> tuple[Any, Indices, bool]:
        """Return all rows of X as one matrix, the number of states of each example, and whether states share rows."""
        first = X if sparse.issparse(X) else X[0]
        if sparse.issparse(X) or (not sparse.issparse(first) and np.ndim(first) < 2):
            matrix = check_matrix(X, "X")
            if self.weights != "state" or self.n_states is None:
                raise InputError(
                    f"X has one row an example (shape {matrix.shape}), which needs weights='state' and n_states, found "
                    f"weights={self.weights!r} and n_states={self.n_states!r}: give these, or X of shape (n, H, d)"
                )
            return matrix, np.full(matrix.shape[0], self.n_states), True
        matrices = [check_matrix(x, f"example {i} of X") for i, x in enumerate(X)]
        sizes = np.array([matrix.shape[0] for matrix in matrices])
        expected = self.n_states if self.n_states is not None or self.weights == "class" else sizes[0]
        for i, matrix in enumerate(matrices):
            if matrix.shape[0] == 0 or (expected is not None and matrix.shape[0] != expected):
                wanted = "at least one" if expected is None else f"{expected} as n_states or the first example says"
                raise InputError(
                    f"example {i} of X has {matrix.shape[0]} states, expected {wanted}: give one row for each state"
                )
            if matrix.shape[1] != matrices[0].shape[1]:
                raise InputError(
                    f"example {i} of X has {matrix.shape[1]} features, but example 0 has {matrices[0].shape[1]}: use "
                    "the same features for all"
                )
        any_sparse = any(sparse.issparse(matrix) for matrix in matrices)
        return sparse.vstack(matrices, format="csr") if any_sparse else np.concatenate(matrices), sizes, False

    def prepare(self, X: Any, Y: Any = None) -> StateBatch:
        """Validate inputs, lay them out flat and number the classes."""
        check_examples(X, Y)
        matrix, sizes, shared = self._rows(X)
        if matrix.shape[1] != self.n_inputs_:
            raise InputError(
                f"X has {matrix.shape[1]} features but the model has {self.n_inputs_}: use the same features as in "
                "training"
            )
        if shared != self.shared_ or (self.n_states_ is not None and sizes[0] != self.n_states_):
            found, wanted = (
                "one row an example" if one else f"{number} rows an example"
                for one, number in ((shared, sizes[0]), (self.shared_, self.n_states_ or "several"))
            )
            raise InputError(f"X has {found}, but the model was trained with {wanted}: give X in the same form")
        truth = None if Y is None else self.labels_.encode(Multiclass._labels(Y))
        cells = Cells.of(sizes, len(self.labels_))
        return StateBatch(InputRows(matrix, self.n_vectors_), sizes, shared, truth, cells)

    def _columns(self, y: Indices, h: Indices) -> Indices:
        """Return the weight vectors of candidates (y, h)."""
        return y if self.n_states_ is None else y * self.n_states_ + h

    def _input_rows(self, batch: StateBatch, examples: Indices, h: Indices) -> Indices:
        """Return the input rows of states h of the given examples."""
        return batch.offsets[examples] + (0 if batch.shared else h)

    def _scores(self, batch: StateBatch, w: Vector, rows: Indices | None, cells: Cells) -> Vector:
        """Return s(y, h) of the candidates of the asked examples."""
        matrix = w[: self.n_inputs_ * self.n_vectors_].reshape(-1, self.n_vectors_)
        if batch.shared:
            scores = batch.inputs.times(matrix, rows).ravel()
        elif self.n_states_ is None:
            asked, starts = (None, batch.offsets) if rows is None else positions(batch.offsets, rows)
            products = batch.inputs.times(matrix, asked)
            scores = products[starts[cells.example] + cells.h, cells.y]
        else:
            # Only the weight vectors of its own state meet a row: one product a state, not one with all vectors.
            n = batch.n_examples if rows is None else len(rows)
            by_state = np.empty((n, len(self.labels_), self.n_states_))
            for h in range(self.n_states_):
                by_state[:, :, h] = self._rows_of_state(batch, h, rows) @ matrix[:, h :: self.n_states_]
            scores = by_state.ravel()
        if self.bias_at_ >= 0:
            scores += self.bias * w[self.bias_at_ + self._columns(cells.y, cells.h)]
        return scores

    def _rows_of_state(self, batch: StateBatch, h: int, rows: Indices | None) -> Any:
        if rows is None:
            return batch.inputs.matrix[h :: self.n_states_]
        return batch.inputs.matrix[batch.offsets[rows] + h]

    def _pooled(
        self, batch: StateBatch, w: Vector, mode: Mode, temperature: Temperature, rows: Indices | None
    ) -> tuple[Cells, Vector, Vector]:
        """Return the candidates, the pooled value of each example and each candidate's share of it."""
        require_labels(batch, mode)
        cells = batch.cells if rows is None else Cells.of(batch.sizes[rows], len(self.labels_))
        scores = self._scores(batch, w, rows, cells)
        if mode == "augmented":
            scores += self._losses(batch, cells, rows)
        elif mode == "clamped":
            assert batch.truth is not None
            truth = batch.truth if rows is None else batch.truth[rows]
            scores[cells.y != truth[cells.example]] = -np.inf
        values, shares = np.empty(len(cells.examples) - 1), np.empty(len(scores))
        pool_candidates(scores, cells.groups, cells.examples, temperature.output, temperature.latent, values, shares)
        return cells, values, shares

    def _losses(self, batch: StateBatch, cells: Cells, rows: Indices | None) -> Vector:
        if batch.losses is not None:
            if rows is None:
                return batch.losses
            return batch.losses[positions(batch.cells.groups[batch.cells.examples], rows)[0]]
        assert batch.truth is not None
        truth = batch.truth if rows is None else batch.truth[rows]
        return self.costs_[truth[cells.example], cells.y]

    def _planes_of(
        self, batch: StateBatch, examples: Indices, y: Indices, h: Indices, shares: Vector, counts: Indices
    ) -> Planes:
        """Return planes through the origin from candidates; the first counts[0] make the first plane, and so on."""
        row = self._input_rows(batch, examples, h).astype(np.int32)
        column, value, per_candidate = self._columns(y, h).astype(np.int32), shares, 1
        if self.bias_at_ >= 0:
            per_candidate = 2
            row = np.stack([row, np.full(len(row), -1, dtype=np.int32)], axis=1).ravel()
            column = np.stack([column, (self.bias_at_ + column).astype(np.int32)], axis=1).ravel()
            value = np.stack([shares, self.bias * shares], axis=1).ravel()
        pointers = per_candidate * offsets_from_lengths(counts)
        nothing = np.zeros(len(counts))
        atoms = Atoms(row, column, value)
        return Planes(batch.inputs.rows, pointers, atoms, nothing, nothing.copy(), self.n_features)

    def planes(
        self,
        batch: StateBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        rows: Indices | None = None,
    ) -> Planes:
        """Return one supporting plane for each asked example: its mean candidate."""
        cells, values, shares = self._pooled(batch, w, mode, temperature, rows)
        kept = shares > 0.0
        example, y, h = cells.example[kept], cells.y[kept], cells.h[kept]
        asked = example if rows is None else rows[example]
        planes = self._planes_of(batch, asked, y, h, shares[kept], np.bincount(example, minlength=len(values)))
        planes.values = values
        if temperature != Temperature():
            planes.offsets = values - planes.dot(w)
        elif mode == "augmented":
            planes.offsets = self._losses(batch, cells, rows)[kept]
        return planes

    def renyi_planes(
        self,
        batch: StateBatch,
        w: Vector,
        mode: Mode,
        order: float,
        output_temperature: float = 0.0,
        rows: Indices | None = None,
    ) -> Planes:
        """Return the tangents of smax over y of Δ_i(y) + G_α(y), states pooled by Rényi entropy of order α."""
        require_labels(batch, mode)
        cells = batch.cells if rows is None else Cells.of(batch.sizes[rows], len(self.labels_))
        scores, first = self._scores(batch, w, rows, cells), cells.groups[:-1]
        losses = np.zeros(len(first))
        if mode == "augmented":
            losses = self._losses(batch, cells, rows)[first]
        elif mode == "clamped":
            assert batch.truth is not None
            truth = batch.truth if rows is None else batch.truth[rows]
            losses[cells.y[first] != truth[cells.example[first]]] = -np.inf
        values, shares = np.empty(len(cells.examples) - 1), np.empty(len(scores))
        pool_renyi(scores, losses, cells.groups, cells.examples, output_temperature, order, values, shares)
        kept = shares != 0.0
        example, y, h = cells.example[kept], cells.y[kept], cells.h[kept]
        asked = example if rows is None else rows[example]
        planes = self._planes_of(batch, asked, y, h, shares[kept], np.bincount(example, minlength=len(values)))
        planes.values, planes.offsets, planes.exact = values, values - planes.dot(w), False
        return planes

    def renyi_decode(self, batch: StateBatch, w: Vector, order: float) -> list[Prediction]:
        """Return argmax_y G_α(y) of each example, and its best state."""
        values, cells = self.renyi_scores(batch, w, order), batch.cells
        best, scores = values.argmax(axis=1), self._scores(batch, w, None, cells)
        starts, ends = (cells.groups[best + cells.examples[:-1] + k] for k in (0, 1))
        states = [int(scores[a:b].argmax()) for a, b in zip(starts, ends, strict=True)]
        found = zip(self.labels_.decode(best), states, values.max(axis=1).tolist(), strict=True)
        return [Prediction(label, state, value) for label, state, value in found]

    def renyi_scores(self, batch: StateBatch, w: Vector, order: float) -> NDArray[np.float64]:
        """Return G_α(y) of all classes, shape (n, S)."""
        cells, n_groups = batch.cells, batch.n_examples * len(self.labels_)
        scores, values = self._scores(batch, w, None, cells), np.empty(n_groups)
        each = np.arange(n_groups + 1)
        pool_renyi(scores, np.zeros(n_groups), cells.groups, each, 0.0, order, values, np.empty(len(scores)))
        return values.reshape(-1, len(self.labels_))

    def total(self, batch: StateBatch, w: Vector, mode: Mode, temperature: Temperature, weights: Vector) -> Plane:
        """Return the weighted sum of all examples' planes."""
        if temperature == Temperature():
            return super().total(batch, w, mode, temperature, weights)
        cells, values, shares = self._pooled(batch, w, mode, temperature, None)
        shares *= weights[cells.example]
        slope = self._weighted_features(batch, cells, shares)
        offset = float(weights @ values) - float(slope @ w)
        loss = float(shares @ self._losses(batch, cells, None)) if mode == "augmented" else 0.0
        return Plane(slope, offset, entropy=offset - loss)

    def _weighted_features(self, batch: StateBatch, cells: Cells, shares: Vector) -> Vector:
        """Return the sum of the features of all candidates, each times its share."""
        slope = np.zeros(self.n_features)
        block = slope[: self.n_inputs_ * self.n_vectors_].reshape(-1, self.n_vectors_)
        if batch.shared:
            batch.inputs.transposed_times(shares.reshape(-1, self.n_vectors_), out=block)
        elif self.n_states_ is None:
            coefficients = np.empty((batch.inputs.shape[0], self.n_vectors_))
            coefficients[batch.offsets[cells.example] + cells.h, cells.y] = shares
            batch.inputs.transposed_times(coefficients, out=block)
        else:
            by_state = shares.reshape(-1, len(self.labels_), self.n_states_)
            for h in range(self.n_states_):
                block[:, h :: self.n_states_] = self._rows_of_state(batch, h, None).T @ by_state[:, :, h]
        if self.bias_at_ >= 0:
            columns = self._columns(cells.y, cells.h)
            slope[self.bias_at_ :] = self.bias * np.bincount(columns, shares, minlength=self.n_vectors_)
        return slope

    def scores(self, batch: StateBatch, w: Vector, latent_temperature: float = 0.0) -> NDArray[np.float64]:
        """Return smax_{ε_h} over h of s(y, h) for all classes, shape (n, S)."""
        cells, n_groups = batch.cells, batch.n_examples * len(self.labels_)
        scores, values = self._scores(batch, w, None, cells), np.empty(n_groups)
        each, shares = np.arange(n_groups + 1), np.empty(len(scores))
        pool_candidates(scores, cells.groups, each, 0.0, latent_temperature, values, shares)
        return values.reshape(-1, len(self.labels_))

    def marginals(self, batch: StateBatch, w: Vector, temperature: Temperature) -> NDArray[np.float64]:
        """Return the class probabilities (n, S) at the given temperatures."""
        cells, _, shares = self._pooled(batch, w, "free", temperature, None)
        return np.add.reduceat(shares, cells.groups[:-1]).reshape(-1, len(self.labels_))

    def decode(self, batch: StateBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best class of each example (states pooled at ε_h), and its best state."""
        y, h, values = self._best(batch, w, "free", Temperature(0.0, temperature.latent))
        found = zip(self.labels_.decode(y), h.tolist(), values.tolist(), strict=True)
        return [Prediction(label, state, value) for label, state, value in found]

    def _best(
        self, batch: StateBatch, w: Vector, mode: Mode, temperature: Temperature
    ) -> tuple[Indices, Indices, Vector]:
        """Return the candidate with the largest share of each example, and the pooled value."""
        cells, values, shares = self._pooled(batch, w, mode, temperature, None)
        whole = cells.groups[cells.examples]
        winners = np.empty(len(shares))
        pool_candidates(shares, whole, np.arange(len(whole)), 0.0, 0.0, np.empty(len(values)), winners)
        best = np.flatnonzero(winners)
        return cells.y[best], cells.h[best], values

    @property
    def classes_(self) -> NDArray:
        """The classes in the order of the model."""
        return self.labels_.values

    def collect(self, outputs: list[Any]) -> NDArray:
        """Return predicted classes as an array (n,)."""
        return self.labels_.values[[self.labels_.index[y] for y in outputs]]

    def complete(self, batch: StateBatch, w: Vector) -> list[int]:
        """Return the best state of each example's true class."""
        return self._best(batch, w, "clamped", Temperature())[1].tolist()

    def completion_planes(self, batch: StateBatch, latents: Sequence[Any]) -> Planes:
        """Return the planes φ(x_i, y_i, h_i)·w of given states."""
        require_labels(batch, "clamped")
        assert batch.truth is not None
        require_one_latent_each(batch, latents)
        states, n = np.asarray(latents), batch.n_examples
        if states.shape != (n,) or states.dtype.kind not in "iu":
            raise InputError(
                f"latents must be {n} state numbers, one for each example, found {states.dtype} of shape {states.shape}"
            )
        beyond = np.flatnonzero((states < 0) | (states >= batch.sizes))
        if len(beyond):
            i = beyond[0]
            raise InputError(
                f"the latent of example {i} is {states[i]}; expected a state from 0 to {batch.sizes[i] - 1}: count the "
                "states from 0"
            )
        once = np.ones(n, dtype=np.int64)
        return self._planes_of(batch, np.arange(n), batch.truth, states.astype(np.int64), np.ones(n), once)

    def random_latents(self, batch: StateBatch, rng: np.random.Generator) -> list[int]:
        """Return a random state for each example."""
        return rng.integers(0, batch.sizes).tolist()

    def initial_latents(self, batch: StateBatch, rng: np.random.Generator, attempt: int) -> list[int]:
        """Return states to begin with: clusters of the inputs within each class where states share them, else random.

        The first attempt keeps the best of ten clusterings; later ones take the first they find, for variety.
        """
        if not batch.shared:
            return self.random_latents(batch, rng)
        # Loading it takes longer than most predictions.
        from sklearn.cluster import KMeans

        require_labels(batch, "clamped")
        assert batch.truth is not None
        assert self.n_states_ is not None
        states = np.zeros(batch.n_examples, dtype=np.int64)
        for y in range(len(self.labels_)):
            members = np.flatnonzero(batch.truth == y)
            seed = (int(rng.integers(2**31)) + attempt) % 2**31
            if len(members) == 0:
                continue
            n_clusters = min(self.n_states_, len(members))
            means = KMeans(n_clusters, n_init=10 if attempt == 0 else 1, random_state=seed)
            with warnings.catch_warnings():
                # Equal inputs may leave fewer clusters than asked for, which is no harm here.
                warnings.simplefilter("ignore", NotConverged)
                states[members] = means.fit_predict(batch.inputs.matrix[members])
        return states.tolist()

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return the costs Δ(y_i, ŷ_i); states cost nothing."""
        truth, predicted = (self.labels_.encode(Multiclass._labels(Y)) for Y in (Y_true, Y_pred))
        return self.costs_[truth, predicted]

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the accuracy."""
        truth, predicted = (self.labels_.encode(Multiclass._labels(Y)) for Y in (Y_true, Y_pred))
        return float(np.average(truth == predicted, weights=sample_weight))
