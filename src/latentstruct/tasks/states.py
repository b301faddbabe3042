"""Which latent states the classes of a model have, the candidates (y, h) these make, and examples laid out for them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.core.protocols import Prediction
from latentstruct.exceptions import InputError
from latentstruct.ragged import Indices, Vector, offsets_from_lengths
from latentstruct.tasks.inputs import check_matrix
from latentstruct.tasks.latent_losses import TrueCandidates
from latentstruct.tasks.multiclass import MulticlassBatch

CONSTANT, ABSENT = -1, -2
"""Instead of a weight vector's number: a state that scores 0 whatever its input is, and one that does not exist."""


@dataclass(frozen=True)
class Candidates:
    """The candidates (y, h) that every example has, class by class, states in their order.

    Attributes
    ----------
    y, h, vector : ndarray of shape (C,)
        Class, state and weight vector (`CONSTANT` for none) of each candidate.
    """

    y: Indices
    h: Indices
    vector: Indices

    @cached_property
    def weighted(self) -> Indices:
        """Places of the candidates that have a weight vector."""
        return np.flatnonzero(self.vector >= 0)

    @cached_property
    def constant(self) -> Indices:
        """Places of the candidates that score 0."""
        return np.flatnonzero(self.vector < 0)

    @cached_property
    def by_state(self) -> list[tuple[int, Indices]]:
        """Each state with weights, and the places of its candidates that have them."""
        states = self.h[self.weighted]
        return [(int(h), self.weighted[states == h]) for h in np.unique(states)]

    @cached_property
    def first_of_class(self) -> Indices:
        """Place of the first candidate of each class."""
        return np.flatnonzero(np.diff(self.y, prepend=-1))


def as_table(kinds: Any) -> NDArray[Any]:
    """Return a table of states as an array, if all its rows have the same length."""
    try:
        return np.asarray(kinds)
    except ValueError as error:
        raise InputError(
            f"states must be an array (S, H), one row a class and one column a state, found rows of different lengths: "
            f"give all rows one number for each state ({error})"
        ) from error


class StateTable:
    """The states of each class, where states have weights of their own.

    Parameters
    ----------
    kinds : array of shape (S, H)
        For each class and state: 1 if it has weights, 0 if it scores 0 whatever its input is, −1 if it does not exist.

    Attributes
    ----------
    vector_of : ndarray of shape (S, H)
        Number of the weight vector of each state, `CONSTANT` or `ABSENT`.
    n_vectors : int
        Number of weight vectors.
    needed : ndarray of int
        The states whose inputs are read, ascending: those with weights in some class.
    """

    def __init__(self, kinds: NDArray[np.int64]) -> None:
        self.vector_of = kinds - 1
        self.n_vectors = int((kinds > 0).sum())
        self.vector_of[kinds > 0] = np.arange(self.n_vectors)
        self.needed = np.flatnonzero((kinds > 0).any(axis=0))

    @classmethod
    def checked(cls, kinds: Any, n_labels: int, n_states: int) -> "StateTable":
        """Make the table of S classes and H states from what a user gave, all states if None."""
        if kinds is None:
            return cls(np.ones((n_labels, n_states), dtype=np.int64))
        table = as_table(kinds)
        if table.shape != (n_labels, n_states) or table.dtype.kind not in "iu":
            raise InputError(
                f"states must be whole numbers of shape ({n_labels}, {n_states}), one row a class and one column a "
                f"state, found {table.dtype} of shape {table.shape}: give such an array"
            )
        table = table.astype(np.int64)
        if table.min() < -1 or table.max() > 1:
            raise InputError(
                f"states holds {table.min() if table.min() < -1 else table.max()}; expected 1 (the state has "
                "weights), 0 (it scores 0) or −1 (it does not exist): use these marks only"
            )
        empty = np.flatnonzero((table < 0).all(axis=1))
        if len(empty) or not (table > 0).any():
            what = f"class number {empty[0]} without any state" if len(empty) else "no state with weights"
            raise InputError(f"states leaves {what}; expected some: mark with 1 the states that have weights")
        return cls(table)

    @property
    def complete(self) -> bool:
        """Whether all states of all classes have weights."""
        return self.n_vectors == self.vector_of.size

    @cached_property
    def choices(self) -> list[Indices]:
        """The states of each class that have weights, or all that it has if none does."""
        return [np.flatnonzero(line >= 0 if (line >= 0).any() else line != ABSENT) for line in self.vector_of]

    @cached_property
    def listed(self) -> NDArray[np.bool_]:
        """Which states exist, (S, H)."""
        return self.vector_of != ABSENT

    @cached_property
    def every(self) -> Candidates:
        """All states that exist."""
        y, h = np.nonzero(self.listed)
        return Candidates(y, h, self.vector_of[y, h])

    @cached_property
    def distinct(self) -> Candidates:
        """All states with weights, and the first of each class's states that score 0: all a maximum can tell apart."""
        y, h, vector = self.every.y, self.every.h, self.every.vector
        constants = np.flatnonzero(vector == CONSTANT)
        repeated = constants[np.diff(y[constants], prepend=-1) == 0]
        kept = np.delete(np.arange(len(y)), repeated)
        return Candidates(y[kept], h[kept], vector[kept])


class Cells:
    """Candidates (y, h) of some examples, example by example and class by class.

    Arrays are computed at first use, because those of large data take more memory than the inputs.

    Parameters
    ----------
    sizes : ndarray of shape (n,)
        H_i, the number of states of each example.
    n_labels : int
        S.
    listed : ndarray of shape (S, H), optional
        Which of the states exist, where all examples have the same; all by default.
    """

    def __init__(self, sizes: Indices, n_labels: int, listed: NDArray[np.bool_] | None = None) -> None:
        self.sizes, self.n_labels = sizes, n_labels
        self.listed = None if listed is None or listed.all() else listed

    @cached_property
    def _group_sizes(self) -> Indices:
        if self.listed is None:
            return np.repeat(self.sizes, self.n_labels)
        return np.tile(self.listed.sum(axis=1), len(self.sizes))

    @cached_property
    def groups(self) -> Indices:
        """The candidates of class y of example i are groups[i·S + y] … groups[i·S + y + 1]."""
        return offsets_from_lengths(self._group_sizes)

    @cached_property
    def examples(self) -> Indices:
        """The groups of example i are examples[i] … examples[i + 1]."""
        return self.n_labels * np.arange(len(self.sizes) + 1)

    @property
    def bounds(self) -> Indices:
        """The candidates of example i are bounds[i] … bounds[i + 1]."""
        return self.groups[:: self.n_labels]

    @cached_property
    def y(self) -> Indices:
        """Class of each candidate."""
        return self.by_class(np.tile(np.arange(self.n_labels), len(self.sizes)))

    @cached_property
    def h(self) -> Indices:
        """State of each candidate."""
        if self.listed is None:
            return np.arange(self.groups[-1]) - self.by_class(self.groups[:-1])
        return np.tile(np.nonzero(self.listed)[1], len(self.sizes))

    @cached_property
    def example(self) -> Indices:
        """Example of each candidate."""
        return self.by_example(np.arange(len(self.sizes)))

    def take(self, rows: Indices | None) -> "Cells":
        """Return the candidates of chosen examples, by default of all."""
        return self if rows is None else Cells(self.sizes[rows], self.n_labels, self.listed)

    def by_example(self, values: NDArray) -> NDArray:
        """Return a value of each example (n,) for each of its candidates."""
        return np.repeat(values, np.diff(self.bounds))

    def by_class(self, values: NDArray) -> NDArray:
        """Return a value of each class of each example (n·S,) for each of its candidates."""
        return np.repeat(values, self._group_sizes)

    @cached_property
    def in_rows(self) -> Indices:
        """Flat place of each candidate in an array (number of rows, S), where each state has a row."""
        n_labels, rows = self.n_labels, np.repeat(offsets_from_lengths(self.sizes)[:-1], self.n_labels)
        first = n_labels * (rows - self.groups[:-1]) + np.tile(np.arange(n_labels), len(self.sizes))
        return n_labels * np.arange(self.groups[-1]) + self.by_class(first)

    def place(self, example: Indices, y: Indices, h: Indices) -> Indices:
        """Return the places of candidates."""
        within = h if self.listed is None else (np.cumsum(self.listed, axis=1) - 1)[y, h]
        return self.groups[self.n_labels * example + y] + within


@dataclass
class StateBatch(MulticlassBatch):
    """Inputs x(h) of all examples, flat, and class numbers (n,).

    Attributes
    ----------
    inputs : InputRows
        All rows x(h); the stride of the weights is the number of weight vectors.
    truth : ndarray of shape (n,) or None
        Numbers of the true classes.
    shared : bool
        Whether all states of an example see one row; else state h of example i has the row offsets[i] + h, or
        offsets[i] + place_of[h].
    cells : Cells
        All candidates.
    losses : ndarray of shape (number of candidates,), optional
        The loss of each candidate, where it is not the cost of its class.
    place_of : ndarray of shape (H,), optional
        The place of each state among an example's rows, −1 for a state without a row; by default all have one.
    checked : bool
        Whether all values that are needed are known to be finite; if not, their scores must tell.
    """

    shared: bool
    cells: Cells
    losses: Vector | None = None
    place_of: Indices | None = None
    checked: bool = True

    @property
    def sizes(self) -> Indices:
        """H_i, the number of states of each example, shape (n,)."""
        return self.cells.sizes

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.sizes)

    @property
    def per_example(self) -> int:
        """Number of rows of an example, where all have equally many."""
        return self.inputs.shape[0] // len(self.sizes)

    @cached_property
    def offsets(self) -> Indices:
        """First row of each example."""
        if self.shared or self.place_of is not None:
            return self.per_example * np.arange(len(self.sizes) + 1)
        return offsets_from_lengths(self.sizes)

    @cached_property
    def true_candidates(self) -> TrueCandidates:
        """The candidates of the true classes."""
        cells = self.cells
        return TrueCandidates.of(cells.y == cells.by_example(self.classes()), cells.example, self.n_examples)

    def row_numbers(self, examples: Indices, h: Indices) -> Indices:
        """Return the input rows of states h of the given examples."""
        if self.shared:
            return self.offsets[examples]
        return self.offsets[examples] + (h if self.place_of is None else self.place_of[h])

    def require_finite(self, needed: Indices) -> None:
        """Raise unless the inputs of the needed states are finite numbers."""
        matrix = self.inputs.matrix if self.inputs.dense else self.inputs.matrix.toarray()
        require_finite(matrix, self.per_example, needed if self.place_of is None else self.place_of[needed])
        self.checked = True

    def rows_of_state(self, h: int, examples: slice | Indices) -> Any:
        """Return the rows of one state of some examples, where all examples have the same states."""
        place = 0 if self.shared else h if self.place_of is None else int(self.place_of[h])
        if isinstance(examples, slice):
            start, stop = examples.start * self.per_example + place, examples.stop * self.per_example
            return self.inputs.matrix[start : stop : self.per_example]
        return self.inputs.matrix[examples * self.per_example + place]


def has_one_row(x: Any) -> bool:
    """Tell whether an example is one row of inputs, not a matrix with a row for each state."""
    try:
        return not sparse.issparse(x) and np.ndim(x) < 2
    except ValueError:
        # Rows of different lengths: reading them as a matrix tells of it.
        return False


def read_array(X: NDArray, needed: Indices | None) -> NDArray[np.float64]:
    """Return the rows of an array (n, R, d) as one matrix, with R rows an example or only those of needed states.

    Where X is laid out as the matrix is, nothing is copied. Whether values are finite is not looked at.
    """
    if X.dtype == np.float64 and X.flags.c_contiguous:
        return X.reshape(-1, X.shape[2])
    fewer = needed is not None and len(needed) < X.shape[1]
    return np.ascontiguousarray(X[:, needed] if fewer else X, dtype=np.float64).reshape(-1, X.shape[2])


def require_finite(matrix: NDArray[np.float64], per_example: int, places: Indices | None = None) -> None:
    """Raise unless the rows at these places of each example, by default all, are finite numbers."""
    if places is None and np.isfinite(matrix.sum()):
        return
    X = matrix.reshape(-1, per_example, matrix.shape[1])
    places = np.arange(per_example) if places is None else places
    for start in range(0, len(X), 1000):
        wrong = np.argwhere(~np.isfinite(X[start : start + 1000, places]))
        if len(wrong):
            i, place, column = wrong[0]
            raise InputError(
                f"example {start + i} of X has a value that is not finite at row {places[place]}, column {column}: "
                "remove or impute it"
            )


def read_matrices(X: Any, n_states: int | None, needed: Indices | None, same: bool) -> tuple[Any, Indices]:
    """Return the rows of a sequence of matrices (H_i, d) as one matrix, and their numbers (n,).

    Parameters
    ----------
    X : sequence of n matrices
        Inputs x_i(h).
    n_states : int, optional
        The number of rows that all must have.
    needed : ndarray, optional
        States that need a row: as many rows will do.
    same : bool
        Whether all must have the same number of rows.
    """
    matrices = [check_matrix(x, f"example {i} of X") for i, x in enumerate(X)]
    sizes = np.array([matrix.shape[0] for matrix in matrices])
    expected = n_states
    if same and (n_states is None or (needed is not None and sizes[0] == len(needed))):
        expected = sizes[0]
    for i, matrix in enumerate(matrices):
        if matrix.shape[0] == 0 or (expected is not None and matrix.shape[0] != expected):
            wanted = "at least one" if expected is None else f"{expected} as n_states or the first example says"
            if needed is not None and len(needed) != n_states:
                wanted = f"{n_states}, or the {len(needed)} that are needed ({needed.tolist()})"
            raise InputError(
                f"example {i} of X has {matrix.shape[0]} states, expected {wanted}: give one row for each state"
            )
        if matrix.shape[1] != matrices[0].shape[1]:
            raise InputError(
                f"example {i} of X has {matrix.shape[1]} features, but example 0 has {matrices[0].shape[1]}: use "
                "the same features for all"
            )
    any_sparse = any(sparse.issparse(matrix) for matrix in matrices)
    return sparse.vstack(matrices, format="csr") if any_sparse else np.concatenate(matrices), sizes


class StatePredictions(Sequence[Prediction]):
    """Predictions of many examples as three arrays; single ones are made when asked for.

    Parameters
    ----------
    outputs : ndarray of shape (n,)
        Classes.
    states : ndarray of shape (n,)
        The best state of each class.
    scores : ndarray of shape (n,)
        Their scores.
    """

    def __init__(self, outputs: NDArray, states: Indices, scores: Vector) -> None:
        self.outputs, self.states, self.scores = outputs, states, scores

    @property
    def latents(self) -> list[int]:
        """The states as plain numbers."""
        return self.states.tolist()

    def __len__(self) -> int:
        return len(self.states)

    @overload
    def __getitem__(self, place: int) -> Prediction: ...
    @overload
    def __getitem__(self, place: slice) -> "StatePredictions": ...
    def __getitem__(self, place: int | slice) -> "Prediction | StatePredictions":
        if isinstance(place, slice):
            return StatePredictions(self.outputs[place], self.states[place], self.scores[place])
        return Prediction(self.outputs[place], int(self.states[place]), float(self.scores[place]))

    def __iter__(self) -> Iterator[Prediction]:
        found = zip(self.outputs, self.states.tolist(), self.scores.tolist(), strict=True)
        return (Prediction(output, state, score) for output, state, score in found)
