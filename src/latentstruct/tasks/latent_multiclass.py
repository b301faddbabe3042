"""Classes with a finite set of latent states: rotations, boxes, positions, mixture components."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.checks import check_choice
from latentstruct.core.protocols import Mode, Temperature
from latentstruct.exceptions import InputError
from latentstruct.planes import Planes
from latentstruct.ragged import Indices, Vector
from latentstruct.short_repr import show
from latentstruct.tasks.base import BaseTask, check_examples, require_labels, require_one_latent_each
from latentstruct.tasks.inputs import InputRows, check_bias, check_matrix
from latentstruct.tasks.labels import LabelSet, distinct_labels
from latentstruct.tasks.latent_losses import StateLatentLosses
from latentstruct.tasks.multiclass import Multiclass
from latentstruct.tasks.packing import CURE, Arrays, PackedArrays
from latentstruct.tasks.state_pooling import StatePooling
from latentstruct.tasks.state_starts import clustered_states, random_states
from latentstruct.tasks.states import (
    ABSENT,
    Cells,
    StateBatch,
    StatePredictions,
    StateTable,
    as_table,
    has_one_row,
    read_array,
    read_matrices,
    require_finite,
)

# More than any list of states, and few enough to be laid out.
MOST_STATES = 1_000_000


class LatentMulticlass(StatePooling, StateLatentLosses, BaseTask):
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
    latent_loss : None, "zero_one" or array of shape (H, H), default=None
        K(h, ĥ), the loss between states of the right class, for `ModLat` and `IterativeLSVM`, which train with
        Δ(y, h, ŷ, ĥ) = costs[y, ŷ] if y ≠ ŷ, else K(h, ĥ): none, 1 for different states, or a matrix (true,
        predicted). Other estimators do not compare states.
    states : array of shape (S, H), optional
        Which states the classes have, for weights "state": 1 for one with weights, 0 for one that scores 0 whatever its
        input is, −1 for none. All have weights by default; `prune` of a fitted estimator makes such a table.

    Notes
    -----
    X is an array (n, H, d) of the inputs x_i(h); or a sequence of matrices (H_i, d), which may have different numbers
    of states if weights is "class"; or, with n_states given and weights "state", a matrix (n, d) whose rows all states
    see. Y is a sequence of n classes. Latents are state numbers, counted from 0.

    There are B = S weight vectors for weights "class" and B = S·H for "state". Weight f·B + b belongs to feature f and
    vector b, where b = y or b = y·H + h; the B bias weights come last. All temperatures are exact.

    With `states` only those with weights have a vector; they are counted in the same order, and ``vector_of_`` (S, H)
    holds their numbers, −1 for a state that scores 0 and −2 for none. X may then have the rows of all H states, of
    which the others are not looked at, or only those of ``needed_states_``, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import LatentMulticlass, LatentSSVM
    >>> rng = np.random.default_rng(0)
    >>> X, y, h = rng.normal(size=(60, 5, 2)), rng.integers(0, 2, 60), rng.integers(0, 5, 60)
    >>> X[np.arange(60), h] += 6.0 * (2 * y[:, None] - 1)  # one of five views tells the class
    >>> model = LatentSSVM(LatentMulticlass(), C=1.0, restarts=3).fit(X, y)
    >>> bool(np.mean(model.predict_latent(X) == h) > 0.9)
    True
    """

    latent = True
    classifies = True
    late_parameters = ("costs", "bias", "latent_loss")
    states: Any = None

    def __init__(
        self,
        n_states: int | None = None,
        weights: Literal["class", "state"] = "class",
        labels: Sequence[Hashable] | None = None,
        costs: Any = None,
        bias: float = 0.0,
        latent_loss: Any = None,
        states: Any = None,
    ) -> None:
        self.n_states = n_states
        self.weights = weights
        self.labels = labels
        self.costs = costs
        self.bias = bias
        self.latent_loss = latent_loss
        self.states = states

    def learn(self, X: Any, Y: Any) -> None:
        """Find the classes, the number of states and the number of inputs."""
        self.learn_blocks([(X, Y)])

    def learn_blocks(self, blocks: Iterable[tuple[Any, Any]]) -> None:
        """Find the classes, the number of states and the number of inputs of examples that come block by block."""
        seen: dict[Any, None] = {}
        found: tuple[int, int | None, bool] | None = None
        for X, Y in blocks:
            check_examples(X, Y, rows=True)
            seen.update(distinct_labels(Multiclass._labels(Y)))
            found = self._sizes_of(X) if found is None else found
        assert found is not None
        self._set(LabelSet.learn(seen, self.labels), *found)

    def _sizes_of(self, X: Any) -> tuple[int, int | None, bool]:
        """Return the number of inputs, that of states where they have weights, and whether states share rows."""
        self._check_parameters()
        matrix, sizes, shared = self._rows(X)
        if not matrix.shape[1]:
            raise InputError("X has no features; expected at least one: give what tells the classes apart")
        n_states = None
        if self.weights == "state":
            given = self.n_states if shared else int(sizes[0])
            n_states = given if self.states is None else np.shape(self.states)[1]
        return matrix.shape[1], n_states, shared

    def _check_parameters(self) -> None:
        check_choice(self.weights, ("class", "state"), "weights")
        whole = isinstance(self.n_states, int | np.integer) and not isinstance(self.n_states, bool)
        if self.n_states is not None and not (whole and 1 <= self.n_states <= MOST_STATES):
            raise InputError(
                f"n_states must be a whole number from 1 to {MOST_STATES}, found {show(self.n_states)}: choose such a "
                "number"
            )
        check_bias(self.bias)
        if self.states is None:
            return
        shape = as_table(self.states).shape
        if self.weights != "state" or len(shape) != 2 or self.n_states not in (None, shape[1]):
            raise InputError(
                f"states has shape {shape}, which needs weights='state' and an array (S, H) with H = n_states, found "
                f"weights={show(self.weights)} and n_states={show(self.n_states)}: give these, or leave out states"
            )

    def _set(self, labels: LabelSet, n_inputs: int, n_states: int | None, shared: bool) -> None:
        self.labels_, self.n_inputs_, self.n_states_, self.shared_ = labels, n_inputs, n_states, shared
        self.costs_, self.latent_loss_ = labels.costs(self.costs), self._checked_latent_loss()
        self.table_ = None if n_states is None else StateTable.checked(self.states, len(labels), n_states)
        self.n_vectors_ = len(labels) if self.table_ is None else self.table_.n_vectors
        self.bias_at_ = n_inputs * self.n_vectors_ if self.bias else -1
        self.n_features = (n_inputs + bool(self.bias)) * self.n_vectors_

    def state(self) -> dict[str, Any]:
        """Return what `learn` found, for saving."""
        found = {
            "labels": self.labels_.labels,
            "n_inputs": self.n_inputs_,
            "n_states": self.n_states_,
            "shared": self.shared_,
        }
        # Not needed to restore a task, which has them as a parameter, but weights belong to states.
        return found if self.states is None else {**found, "vectors": self.vector_of_.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        self._check_parameters()
        n_states = None if state["n_states"] is None else int(state["n_states"])
        if n_states is None and state["shared"]:
            raise InputError(
                "states share their rows, but their number is missing; expected it: the state is damaged, train again"
            )
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
        table = getattr(self, "table_", None)
        if table is None:
            raise AttributeError(f"there is no {name}: it is for weights='state', after training")
        return table

    def state_groups(self, shared: bool = False) -> NDArray[np.int64]:
        """Return the group of each weight, (d,): y·H + h, or h where the classes share the groups of states."""
        if self.table_ is None:
            raise InputError(
                f"states share their weights (weights={show(self.weights)}), so that there is no group for each: use "
                "weights='state'"
            )
        vectors = self.table_.every.vector >= 0
        y, h = self.table_.every.y[vectors], self.table_.every.h[vectors]
        groups = h if shared else y * self.table_.vector_of.shape[1] + h
        return np.tile(groups, self.n_inputs_ + bool(self.bias))

    def n_state_groups(self, shared: bool = False) -> int:
        """Return the number of these groups, those of states without weights included."""
        n_labels, n_states = self.vector_of_.shape
        return n_states if shared else n_labels * n_states

    def _rows(self, X: Any, check: bool = True) -> tuple[Any, Indices, bool]:
        """Return all rows of X as one matrix, the number of rows of each example, and whether states share rows.

        Values of an array (n, H, d) stay unchecked if so asked.
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
        if sparse.issparse(X) or has_one_row(X[0]):
            matrix = check_matrix(X, "X")
            if self.weights != "state" or n_states is None:
                raise InputError(
                    f"X has one row an example (shape {matrix.shape}), which needs weights='state' and n_states, "
                    f"found weights={show(self.weights)} and n_states={show(self.n_states)}: give these, or X of "
                    "shape (n, H, d)"
                )
            return matrix, np.ones(matrix.shape[0], dtype=np.int64), True
        same = n_states is not None or self.weights == "state"
        return *read_matrices(X, n_states, needed, same), False

    def prepare(self, X: Any, Y: Any = None) -> StateBatch:
        """Validate inputs, lay them out flat and number the classes."""
        check_examples(X, Y, rows=True)
        # An array's scores tell whether its values are finite; reading it twice would take as long as scoring it.
        checked = Y is not None or self.table_ is None or not (isinstance(X, np.ndarray) and X.ndim == 3)
        matrix, sizes, shared = self._rows(X, checked)
        if matrix.shape[1] != self.n_inputs_:
            raise InputError(
                f"X has {matrix.shape[1]} features but the model has {self.n_inputs_}: use the same features as in "
                "training"
            )
        place_of = None
        if self.table_ is not None:
            sizes, place_of = self._places(sizes, shared)
        elif shared != self.shared_:
            self._refuse_form(shared, sizes[0])
        self._check_latent_sizes(sizes)
        truth = None if Y is None else self.labels_.encode(Multiclass._labels(Y))
        inputs = InputRows(matrix, self.n_vectors_)
        return StateBatch(inputs, sizes, shared, truth, self._all_cells(sizes), place_of=place_of, checked=checked)

    def _all_cells(self, sizes: Indices) -> Cells:
        return Cells(sizes, len(self.labels_), None if self.table_ is None else self.table_.listed)

    def pack(self, batch: StateBatch) -> Arrays:
        """Return a batch as arrays that can be stored."""
        known = {} if batch.truth is None else {"truth": batch.truth}
        return {**batch.inputs.packed(self._unread_rows(batch)), "row_offsets": batch.offsets, **known}

    def _unread_rows(self, batch: StateBatch) -> NDArray[np.bool_] | None:
        """Mark the rows of states without weights, which may hold anything; None if there are no such rows."""
        if self.table_ is None or batch.shared or batch.place_of is not None:
            return None
        read = np.isin(np.arange(self.table_.vector_of.shape[1]), self.table_.needed)
        return None if read.all() else np.tile(~read, batch.n_examples)

    def unpack(self, arrays: Arrays) -> StateBatch:
        """Return the batch of stored arrays, which are checked and not copied."""
        found, place_of = PackedArrays(arrays), None
        inputs = InputRows.unpacked(found, self.n_inputs_, self.n_vectors_)
        sizes = np.diff(found.pointers("row_offsets", inputs.shape[0], least=1))
        if self.table_ is not None:
            if len(sizes) and (sizes != sizes[0]).any():
                raise InputError(
                    f"the packed examples have from {sizes.min()} to {sizes.max()} rows; expected equally many: {CURE}"
                )
            sizes, place_of = self._places(sizes, self.shared_)
        self._check_latent_sizes(sizes)
        truth = found.numbers("truth", 0, len(self.labels_), len(sizes)) if "truth" in found else None
        return StateBatch(inputs, sizes, self.shared_, truth, self._all_cells(sizes), place_of=place_of)

    def true_outputs(self, batch: StateBatch) -> NDArray:
        """Return the classes that a batch was prepared with."""
        require_labels(batch, "clamped")
        return self.labels_.decode(batch.truth)

    def _places(self, sizes: Indices, shared: bool) -> tuple[Indices, Indices | None]:
        """Return the number of states of each example, and the places of the states among its rows if some lack."""
        assert self.table_ is not None
        needed, n_states = self.table_.needed, self.table_.vector_of.shape[1]
        if shared != self.shared_ or (not shared and sizes[0] not in (n_states, len(needed))):
            self._refuse_form(shared, sizes[0])
        states = np.full(len(sizes), n_states)
        if shared or sizes[0] == n_states:
            return states, None
        place_of = np.full(n_states, -1)
        place_of[needed] = np.arange(len(needed))
        return states, place_of

    def _refuse_form(self, shared: bool, n_rows: int) -> None:
        found, wanted = (
            "one row an example" if one else f"{number} rows an example"
            for one, number in ((shared, n_rows), (self.shared_, self.n_states_ or "several"))
        )
        raise InputError(f"X has {found}, but the model was trained with {wanted}: give X in the same form")

    def work(self, batch: StateBatch, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each example takes, shape (n,)."""
        candidates = len(self.labels_) * batch.sizes.astype(np.float64)
        softness = 5.0 if temperature == Temperature() else 40.0
        return candidates * (softness + batch.inputs.product_time)

    def decode(self, batch: StateBatch, w: Vector, temperature: Temperature) -> StatePredictions:
        """Return the best class of each example (states pooled at ε_h), and its best state.

        Of several states that score 0 whatever their input is, the first is the one that is named.
        """
        y, h, values = self._best(batch, w, "free", Temperature(0.0, temperature.latent))
        return StatePredictions(self.labels_.decode(y), h, values)

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
        n = batch.n_examples
        try:
            states = np.asarray(latents)
        except ValueError as error:
            raise InputError(
                f"latents must be {n} state numbers, one for each example ({error}): give a list of whole numbers"
            ) from error
        if states.shape != (n,) or states.dtype.kind not in "iu":
            raise InputError(
                f"latents must be {n} state numbers, one for each example, found {states.dtype} of shape "
                f"{states.shape}: give a list of whole numbers, from 0"
            )
        beyond = np.flatnonzero((states < 0) | (states >= batch.sizes))
        if len(beyond):
            i = beyond[0]
            raise InputError(
                f"the latent of example {i} is {states[i]}; expected a state from 0 to {batch.sizes[i] - 1}: count the "
                "states from 0"
            )
        lost = np.zeros(n, bool) if self.table_ is None else self.table_.vector_of[batch.truth, states] == ABSENT
        if lost.any():
            i = np.flatnonzero(lost)[0]
            raise InputError(
                f"the latent of example {i} is {states[i]}, a state that class "
                f"{show(self.labels_.labels[batch.truth[i]])} of this model does not have: see vector_of_ of the task"
            )
        once = np.ones(n, dtype=np.int64)
        return self._planes_of(batch, np.arange(n), batch.truth, states.astype(np.int64), np.ones(n), once)

    def random_latents(self, batch: StateBatch, rng: np.random.Generator) -> list[int]:
        """Return a random state for each example, of those that its class has weights for if some are lacking."""
        return random_states(self.table_, batch, rng)

    def initial_latents(self, batch: StateBatch, rng: np.random.Generator, attempt: int) -> list[int]:
        """Return states to begin with: clusters of the inputs within each class where states share them, else random.

        The first attempt keeps the best of ten clusterings; later ones take the first they find, for variety.
        """
        if not batch.shared:
            return self.random_latents(batch, rng)
        assert self.table_ is not None
        return clustered_states(self.table_, batch, rng, attempt)

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return the costs Δ(y_i, ŷ_i); states cost nothing."""
        truth, predicted = (self.labels_.encode(Multiclass._labels(Y)) for Y in (Y_true, Y_pred))
        return self.costs_[truth, predicted]

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the accuracy."""
        truth, predicted = (self.labels_.encode(Multiclass._labels(Y)) for Y in (Y_true, Y_pred))
        return float(np.average(truth == predicted, weights=sample_weight))
