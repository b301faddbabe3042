"""Classes with a finite set of latent states: rotations, boxes, positions, mixture components."""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.lazy import issparse, sklearn
from latentstruct.core.levels import highest, pool_groups
from latentstruct.core.pooling import PooledParts, latent_planes, pool_linear
from latentstruct.core.protocols import HARD, ArrayPredictions, Cost, Mode, Pooled, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, positions
from latentstruct.core.validation import array_of, check_parameters, integer, options
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Planes
from latentstruct.tasks.base import check_examples, require_one_latent_each
from latentstruct.tasks.classes.multiclass import ClassTask
from latentstruct.tasks.classes.states import (
    ABSENT,
    Cells,
    Chosen,
    StateBatch,
    StateParts,
    StateTable,
    has_one_row,
    read_array,
    read_matrices,
    require_finite,
)
from latentstruct.tasks.inputs import InputRows, check_matrix, require_width, rescaled
from latentstruct.tasks.labels import LabelSet, label_list
from latentstruct.tasks.latent_losses import StateLatentLosses
from latentstruct.tasks.packing import Arrays, PackedArrays, optional

# More than any list of states, and few enough to be kept in memory.
MOST_STATES = 1_000_000


@dataclass(eq=False, repr=False)
class LatentMulticlass(StateLatentLosses, ClassTask[StateBatch]):
    """Multiclass classification with a latent state: s(y, h) = w_y·x(h), or w_{y,h}·x(h).

    Parameters
    ----------
    n_states : int, optional
        H. Required if X has one row per example, else used to check X.
    weights : {"class", "state"}, default="class"
        One weight vector per class (states are views of the input: rotations, boxes, positions), or one per class and
        state (parts of a mixture).
    labels : sequence of hashable, optional
        All classes that may occur, in the order of the model; by default those of the training data.
    costs : None, mapping or array of shape (S, S), default=None
        Δ(y, ŷ): 0/1, the cost of missing each true class, or a matrix (true, predicted). It does not depend on states.
    bias : float, default=0.0
        Value of a constant feature of each weight vector; 0 for none.
    latent_loss : None, "zero_one" or array of shape (H, H), default=None
        K(h, ĥ), the loss between states of the right class, for `ModLat` and `IterativeLSVM`, which train with
        Δ(y, h, ŷ, ĥ) = costs[y, ŷ] if y ≠ ŷ, else K(h, ĥ): none, 1 for different states, or a matrix (true,
        predicted). Other estimators do not compare states.
    states : array of shape (S, H), optional
        States of the classes, for weights "state": 1 for a state with weights, 0 for one whose score is always 0, −1
        for none. All have weights by default; `prune` of a fitted estimator computes such a table.

    Notes
    -----
    X is an array (n, H, d) of the inputs x_i(h); or a sequence of matrices (H_i, d), which may have different numbers
    of states if weights is "class"; or, with n_states given and weights "state", a matrix (n, d) whose rows all states
    share. Y is a sequence of n classes. Latents are indices of states, counted from 0.

    There are B = S weight vectors for weights "class" and B = S·H for "state". Weight f·B + b belongs to feature f and
    vector b, where b = y or b = y·H + h; the B bias weights come last. All temperatures are exact.

    With `states` only states with weights have a vector. They are numbered in the same order, and ``vector_of_``
    (S, H) contains their numbers, −1 for a state whose score is 0 and −2 for none. X may then have the rows of all H
    states, where others are ignored, or only those of ``needed_states_``, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import LatentMulticlass, LatentSSVM
    >>> rng = np.random.default_rng(0)
    >>> X, y, h = rng.normal(size=(60, 5, 2)), rng.integers(0, 2, 60), rng.integers(0, 5, 60)
    >>> X[np.arange(60), h] += 6.0 * (2 * y[:, None] - 1)  # one of five views shows the class
    >>> model = LatentSSVM(LatentMulticlass(), C=1.0, restarts=3).fit(X, y)
    >>> bool(np.mean(model.predict_latent(X) == h) > 0.9)
    True
    """

    tags = TaskTags(
        latent="always",
        soft=True,
        two_temperatures=True,
        classifier=True,
        row_examples=True,
        state_weights=True,
        refit_parameters=("costs", "bias", "latent_loss"),
    )
    constraints: ClassVar = {"weights": options("class", "state"), "n_states": integer(1, MOST_STATES) | None}
    latent = True
    table_ = None

    n_states: int | None = None
    weights: Literal["class", "state"] = "class"
    labels: Sequence[Hashable] | None = None
    costs: Any = None
    bias: float = 0.0
    latent_loss: Any = None
    states: Any = None

    def _sizes_of(self, X: Any) -> tuple[int, int | None, bool]:
        """Return the number of inputs, that of states where they have weights, and whether states share rows."""
        self._check_parameters()
        matrix, sizes, shared = self._rows(X)
        if not matrix.shape[1]:
            raise InputError("X", Description("none"), "rows with at least one feature")
        if self.weights != "state":
            return matrix.shape[1], None, shared
        n_states = self.n_states if shared else int(sizes[0])
        return matrix.shape[1], n_states if self.states is None else np.shape(self.states)[1], shared

    def _check_parameters(self) -> None:
        check_parameters(self)
        if self.states is None:
            return
        shape = array_of(self.states, "states").shape
        if self.weights != "state":
            raise InputError("states", self.states, "None unless `weights` is 'state'")
        if len(shape) != 2 or self.n_states not in (None, shape[1]):
            wanted = "H" if self.n_states is None else self.n_states
            raise InputError("states", Description(f"shape {shape}"), f"an array of shape (S, {wanted})")

    def _set(self, labels: LabelSet, n_inputs: int, *sizes: Any) -> None:
        self.n_states_, self.shared_ = sizes
        self.table_ = None
        if self.n_states_ is not None:
            self.table_ = StateTable.checked(self.states, len(labels), self.n_states_)
        self._set_vectors(labels, n_inputs, len(labels) if self.table_ is None else self.table_.n_vectors)
        self.latent_loss_ = self._checked_latent_loss()

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = {"labels": self.labels_.labels, "n_inputs": self.n_inputs_}
        found |= {"n_states": self.n_states_, "shared": self.shared_}
        # Not needed to restore a task, which has them as a parameter, but weights belong to states.
        return found if self.states is None else {**found, "vectors": self.vector_of_.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        self._check_parameters()
        n_states = None if state["n_states"] is None else int(state["n_states"])
        if n_states is None and state["shared"]:
            raise InputError("state['n_states']", None, "an integer if states share rows", "Train again.")
        self._set(LabelSet(state["labels"]), int(state["n_inputs"]), n_states, bool(state["shared"]))

    @property
    def vector_of_(self) -> NDArray[np.int64]:
        """Number of the weight vector of each class and state, (S, H); −1 for a score of 0, −2 for no such state."""
        return self._own_table("vector_of_").vector_of

    @property
    def needed_states_(self) -> NDArray[np.int64]:
        """The states whose inputs are read, ascending."""
        return self._own_table("needed_states_").needed

    def _own_table(self, name: str) -> StateTable:
        if self.table_ is None:
            raise AttributeError(f"{name} is only available after training with weights='state'")
        return self.table_

    def state_groups(self, shared: bool = False) -> NDArray[np.int64]:
        """Return the group of each weight, (d,): y·H + h, or h where the classes share the groups of states."""
        if self.table_ is None:
            raise InputError("weights", self.weights, "'state' for groups of states")
        y, h = np.nonzero(self.table_.vector_of >= 0)
        groups = h if shared else y * self.table_.vector_of.shape[1] + h
        return np.tile(groups, self.n_inputs_ + bool(self.bias))

    def n_state_groups(self, shared: bool = False) -> int:
        """Return the number of these groups, those of states without weights included."""
        n_labels, n_states = self.vector_of_.shape
        return n_states if shared else n_labels * n_states

    def _rows(self, X: Any, check: bool = True) -> tuple[Any, Indices, bool]:
        """Return all rows of X as one matrix, the number of rows of each example, and whether states share rows.

        Values of an array (n, H, d) are not checked if `check` is False.
        """
        n_states = self.n_states if self.states is None else np.shape(self.states)[1]
        needed = None if self.states is None else np.flatnonzero((np.asarray(self.states) > 0).any(axis=0))
        if isinstance(X, np.ndarray) and X.ndim == 3:
            fits = n_states is None or X.shape[1] in (n_states, n_states if needed is None else len(needed))
            if fits and X.shape[1] > 0 and X.dtype.kind in "biuf":
                matrix = read_array(X, needed)
                per_example = matrix.shape[0] // len(X)
                if check:
                    everything = needed is None or len(needed) == per_example
                    require_finite(matrix, per_example, None if everything else needed)
                return matrix, np.full(len(X), per_example), False
        if issparse(X) or has_one_row(X[0]):
            matrix = check_matrix(X, "X")
            if self.weights != "state" or n_states is None:
                raise InputError(
                    "X",
                    Description(f"shape {matrix.shape}"),
                    "an array of shape (n, H, d), one row per state",
                    "For one row per example, set `weights` to 'state' and `n_states`.",
                )
            return matrix, np.ones(matrix.shape[0], dtype=np.int64), True
        same = n_states is not None or self.weights == "state"
        return *read_matrices(X, n_states, needed, same), False

    def prepare(self, X: Any, Y: Any = None) -> StateBatch:
        check_examples(X, Y, rows=True)
        # Whether the values are finite follows from the scores; an extra pass takes as long as computing these.
        checked = Y is not None or self.table_ is None or not (isinstance(X, np.ndarray) and X.ndim == 3)
        matrix, sizes, shared = self._rows(X, checked)
        require_width(matrix, self.n_inputs_, "X")
        truth = None if Y is None else self.labels_.encode(label_list(Y))
        return self._batch(InputRows(matrix, self.n_vectors_), sizes, shared, truth, checked)

    def _batch(
        self, inputs: InputRows, sizes: Indices, shared: bool, truth: NDArray[np.int64] | None, checked: bool
    ) -> StateBatch:
        """Return the batch of examples that have `sizes` rows each."""
        table, place_of = self.table_, None
        n_states = 0 if table is None else table.vector_of.shape[1]
        fits = table is None or shared or sizes[0] in (n_states, len(table.needed))
        if shared != self.shared_ or not fits:
            got, wanted = (
                "one row per example" if one else f"{number} rows per example"
                for one, number in ((shared, sizes[0]), (self.shared_, self.n_states_ or "several"))
            )
            raise InputError("X", Description(got), f"an input with {wanted}, as in training")
        if table is not None:
            if not shared and sizes[0] != n_states:
                place_of = np.full(n_states, -1)
                place_of[table.needed] = np.arange(len(table.needed))
            sizes = np.full(len(sizes), n_states)
        self._check_latent_sizes(sizes)
        cells = Cells(sizes, len(self.labels_), None if table is None else table.listed)
        return StateBatch(inputs, truth, shared, cells, place_of=place_of, checked=checked)

    def pack(self, batch: StateBatch) -> Arrays:
        unread = None
        if self.table_ is not None and not batch.shared and batch.place_of is None:
            # The rows of states without weights may have any values.
            read = np.isin(np.arange(self.table_.vector_of.shape[1]), self.table_.needed)
            unread = None if read.all() else np.tile(~read, batch.n_examples)
        return {**batch.inputs.packed(unread), "row_offsets": batch.offsets, **optional(truth=batch.truth)}

    def unpack(self, arrays: Arrays) -> StateBatch:
        found = PackedArrays(arrays)
        inputs = InputRows.unpacked(found, self.n_inputs_, self.n_vectors_)
        sizes = np.diff(found.pointers("row_offsets", inputs.shape[0], least=1))
        if self.table_ is not None and len(sizes) and (sizes != sizes[0]).any():
            got = f"from {sizes.min()} to {sizes.max()} rows per example"
            raise found.error("row_offsets", got, "the same number of rows for each example")
        truth = found.optional("truth", 0, len(self.labels_), len(sizes))
        return self._batch(inputs, sizes, self.shared_, truth, checked=True)

    def cost(self, batch: StateBatch, mode: Mode, temperature: Temperature) -> Cost:
        candidates = len(self.labels_) * batch.sizes.astype(np.float64)
        softness = 5.0 if temperature == Temperature() else 40.0
        return Cost(candidates * (softness + batch.inputs.product_time))

    def _parts(self, batch: StateBatch, rows: Indices | None = None) -> StateParts:
        return StateParts(self, batch, batch.cells.take(rows))

    def pool_batch(self, batch: StateBatch, query: Query) -> Pooled:
        parts = self._parts(batch, query.rows)
        if query.temperature == HARD:
            values, chosen = parts.best(query)
            losses = parts.of(chosen, query) if query.augmented else np.zeros(len(values))
            summed = query.weights is not None
            return Pooled(values, parts.pull_back(chosen, query) if summed else parts.slopes(chosen, query), losses)

        def pool_cells(scores: Vector) -> PooledParts:
            if query.mode == "clamped":
                scores += parts.by_candidate(*parts.heights(query))
            values, shares = pool_groups(scores, parts.cells.groups, parts.cells.examples, *query.temperature)
            if query.weights is None:
                _require_numbers(values)
            return PooledParts(values, shares, soft=True)

        return pool_linear(parts, parts, query, pool_cells)

    def renyi_pool(self, batch: StateBatch, query: Query, order: float) -> Pooled:
        """Pool classes at ε_y by Δ_i(y) + G_α(y), where states are pooled by Rényi entropy of order α."""
        parts = self._parts(batch, query.rows)
        cells, scores, (lines, line) = parts.cells, parts.scores(query), parts.heights(query)
        groups, heights = (cells.groups, cells.examples), lines[line].ravel()
        values, shares = pool_groups(scores, *groups, *query.temperature, order, heights)
        losses = parts.of(shares, query) if query.augmented else np.zeros(len(values))
        return Pooled(values, parts.slopes(shares, query), losses, soft=True, exact=False)

    def _class_values(
        self, batch: StateBatch, scores: Vector, temperature: Temperature, order: float | None = None
    ) -> NDArray[np.float64]:
        """Return the pooled values of all classes, shape (n, S)."""
        groups = batch.cells.groups
        values, _ = pool_groups(scores, groups, np.arange(len(groups)), *temperature, order)
        return values.reshape(-1, len(self.labels_))

    def renyi_scores(self, batch: StateBatch, w: Vector, order: float) -> NDArray[np.float64]:
        """Return G_α(y) of all classes, shape (n, S)."""
        return self._class_values(batch, self._parts(batch).scores(Query(w, "free")), HARD, order)

    def scores(self, batch: StateBatch, w: Vector, latent_temperature: float = 0.0) -> NDArray[np.float64]:
        """Return smax_{ε_h} over h of s(y, h) for all classes, shape (n, S)."""
        parts, query = self._parts(batch), Query(w, "free")
        if self.table_ is None or latent_temperature > 0:
            return self._class_values(batch, parts.scores(query), Temperature(0.0, latent_temperature))
        best, distinct = np.empty((batch.n_examples, len(self.labels_))), self.table_.distinct
        for part, block in parts.score_blocks(query, distinct):
            best[part] = np.maximum.reduceat(block, distinct.first_of_class, axis=0).T
        return best

    def marginals(self, batch: StateBatch, w: Vector, temperature: Temperature) -> NDArray[np.float64]:
        """Return the class probabilities (n, S) at the given temperatures."""
        cells, scores = batch.cells, self._parts(batch).scores(Query(w, "free"))
        _, shares = pool_groups(scores, cells.groups, cells.examples, *temperature)
        return np.add.reduceat(shares, cells.groups[:-1]).reshape(-1, len(self.labels_))

    def decode(self, batch: StateBatch, w: Vector, temperature: Temperature) -> ArrayPredictions:
        """Return the best class of each example (states pooled at ε_h), and its best state.

        Among several states whose score is always 0, the first is returned.
        """
        if temperature.latent == 0:
            values, chosen = self._parts(batch).best(Query(w, "free"))
            return ArrayPredictions(self.labels_.decode(chosen.y), chosen.h, values)
        return self._decode(batch, w, temperature)

    def renyi_decode(self, batch: StateBatch, w: Vector, order: float) -> ArrayPredictions:
        """Return argmax_y G_α(y) of each example, and its best state."""
        return self._decode(batch, w, HARD, order)

    def _decode(self, batch: StateBatch, w: Vector, *pooling: Any) -> ArrayPredictions:
        """Return the classes of the highest pooled values, and their states of the highest scores."""
        cells, scores = batch.cells, self._parts(batch).scores(Query(w, "free"))
        by_class = self._class_values(batch, scores, *pooling)
        y, values = by_class.argmax(axis=1), by_class.max(axis=1)
        _require_numbers(values)
        places, starts = positions(cells.groups, cells.examples[:-1] + y)
        _, best = highest(scores[places], starts)
        return ArrayPredictions(self.labels_.decode(y), cells.h[places[best]], values)

    def complete(self, batch: StateBatch, w: Vector) -> list[int]:
        """Return the best state of each example's true class."""
        return self._parts(batch).best(Query(w, "clamped"))[1].h.tolist()

    def completion_planes(self, batch: StateBatch, latents: Sequence[Any]) -> Planes:
        """Return the planes φ(x_i, y_i, h_i)·w of given states."""
        chosen = Chosen(batch.classes(), self._checked_states(batch, latents))
        return latent_planes(self, self._parts(batch).slopes(chosen, Query(np.zeros(self.n_features), "clamped")))

    def _checked_states(self, batch: StateBatch, latents: Sequence[Any]) -> Indices:
        """Return checked states of the true classes, or raise InputError."""
        truth, n = batch.classes(), batch.n_examples
        require_one_latent_each(batch, latents)
        try:
            states = np.asarray(latents)
        except ValueError:
            states = np.empty(n, dtype=object)
        if states.shape != (n,) or states.dtype.kind not in "iu":
            raise InputError("latents", latents, f"{n} integers, the index of a state per example")
        beyond = np.flatnonzero((states < 0) | (states >= batch.sizes))
        if len(beyond):
            i = beyond[0]
            raise InputError(f"latents[{i}]", states[i], f"a state from 0 to {batch.sizes[i] - 1}")
        absent = np.flatnonzero(self.table_ is not None and self.table_.vector_of[truth, states] == ABSENT)
        if len(absent):
            i = absent[0]
            label = repr_short(self.labels_.labels[truth[i]])
            raise InputError(f"latents[{i}]", states[i], f"a state that class {label} has, see `vector_of_`")
        return states.astype(np.int64)

    def random_latents(self, batch: StateBatch, rng: np.random.Generator) -> list[int]:
        """Return a random state for each example, among those with weights if its class has some."""
        if self.table_ is None or self.table_.complete:
            return rng.integers(0, batch.sizes).tolist()
        choices, truth = self.table_.choices, batch.classes()
        numbers = rng.integers(0, np.array([len(states) for states in choices])[truth])
        return [int(choices[y][k]) for y, k in zip(truth, numbers, strict=True)]

    def initial_latents(self, batch: StateBatch, rng: np.random.Generator, attempt: int) -> list[int]:
        """Return initial states: clusters of the inputs within each class where states share them, else random.

        The first attempt uses the best of ten clusterings; later ones a single clustering, for variety.
        """
        if not batch.shared:
            return self.random_latents(batch, rng)
        assert self.table_ is not None
        states = np.zeros(batch.n_examples, dtype=np.int64)
        for y, choices in enumerate(self.table_.choices):
            members = np.flatnonzero(batch.classes() == y)
            seed = (int(rng.integers(2**31)) + attempt) % 2**31
            if len(members) == 0:
                continue
            n_clusters = min(len(choices), len(members))
            means = sklearn.cluster.KMeans(n_clusters, n_init=1 if attempt else 10, random_state=seed)
            with warnings.catch_warnings():
                # Equal inputs may have fewer clusters than there are states, which is harmless here.
                warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
                states[members] = choices[means.fit_predict(rescaled(batch.inputs.matrix[members]))]
        return states.tolist()


def _require_numbers(values: Vector) -> None:
    """Raise if the value of an example is NaN because its scores are."""
    for i in np.flatnonzero(~(values > -np.inf))[:1]:
        got = Description(f"{values[i]} at example {i}")
        raise InputError("scores", got, "finite", "Inputs or weights are too large. Standardize the features.")
