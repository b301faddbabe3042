"""Latent states of classes, their candidates (y, h), and the candidates as parts of examples."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.candidates import best_candidates
from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.levels import highest
from latentstruct.core.protocols import LinearMap, PartLoss, Query
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, positions
from latentstruct.core.validation import array_of
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Slopes
from latentstruct.tasks.classes.multiclass import MulticlassBatch
from latentstruct.tasks.inputs import as_slice, check_matrix
from latentstruct.tasks.latent_losses import TrueCandidates

if TYPE_CHECKING:
    from latentstruct.tasks.classes.latent_multiclass import LatentMulticlass

BLOCK = 2048
"""Examples scored together."""
CONSTANT, ABSENT = -1, -2
"""In place of the number of a weight vector: a state whose score is always 0, and one that does not exist."""


class Candidates:
    """The candidates (y, h) that every example has, class by class, states in their order.

    `y`, `h` and `vector`, all of shape (C,), are their classes, states and weight vectors (`CONSTANT` for none).
    """

    def __init__(self, y: Indices, h: Indices, vector: Indices) -> None:
        self.y, self.h, self.vector = y, h, vector
        # Places of the candidates that have a weight vector, of those that score 0, and of the first of each class.
        self.weighted, self.constant = np.flatnonzero(vector >= 0), np.flatnonzero(vector < 0)
        self.first_of_class = np.flatnonzero(np.diff(y, prepend=-1))

    @cached_property
    def by_state(self) -> list[tuple[int, Indices]]:
        """Each state with weights, and the places of its candidates that have them."""
        states = self.h[self.weighted]
        return [(int(h), self.weighted[states == h]) for h in np.unique(states)]


class StateTable:
    """The states of each class, where states have weights of their own.

    `kinds` (S, H) are 1 for states with weights, 0 for those whose score is always 0, −1 for absent ones.
    """

    def __init__(self, kinds: NDArray[np.int64]) -> None:
        # Number of the weight vector of each state (S, H), and which states exist; those whose inputs are read.
        self.vector_of, self.n_vectors, self.listed = kinds - 1, int((kinds > 0).sum()), kinds >= 0
        self.vector_of[kinds > 0] = np.arange(self.n_vectors)
        self.needed = np.flatnonzero((kinds > 0).any(axis=0))
        self.complete = self.n_vectors == kinds.size
        y, h = map(np.ascontiguousarray, np.nonzero(self.listed))
        vector = self.vector_of[y, h]
        self.every = Candidates(y, h, vector)
        # All states that a maximum distinguishes: those with weights, and the first of each class whose score is 0.
        constants = np.flatnonzero(vector == CONSTANT)
        repeated = constants[np.diff(y[constants], prepend=-1) == 0]
        self.distinct = Candidates(*(np.delete(each, repeated) for each in (y, h, vector)))

    @classmethod
    def checked(cls, kinds: Any, n_labels: int, n_states: int) -> "StateTable":
        """Return the checked table of S classes and H states; all states have weights if `kinds` is None."""
        if kinds is None:
            return cls(np.ones((n_labels, n_states), dtype=np.int64))
        table = array_of(kinds, "states")
        if table.shape != (n_labels, n_states) or table.dtype.kind not in "iu":
            expected = f"integers of shape ({n_labels}, {n_states}), one row per class and one column per state"
            raise InputError("states", Description(f"{table.dtype} of shape {table.shape}"), expected)
        table = table.astype(np.int64)
        for mark in table[(table < -1) | (table > 1)][:1]:
            raise InputError("states", mark, "1 (the state has weights), 0 (its score is 0) or -1 (it does not exist)")
        empty = np.flatnonzero((table < 0).all(axis=1))
        if len(empty):
            raise InputError(f"states[{empty[0]}]", table[empty[0]].tolist(), "a row with at least one state")
        if not (table > 0).any():
            raise InputError("states", Description("no 1"), "a table with at least one state with weights")
        return cls(table)

    @cached_property
    def choices(self) -> list[Indices]:
        """The states of each class that have weights, or all that it has if none does."""
        return [np.flatnonzero(line >= 0 if (line >= 0).any() else line != ABSENT) for line in self.vector_of]


class Cells:
    """Candidates (y, h) of some examples that have `sizes` states each, example by example and class by class.

    If all examples have the same states, `listed` (S, H) marks those that exist. Arrays are computed at first use,
    because those of large data take more memory than the inputs.
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

    @cached_property
    def bounds(self) -> Indices:
        """The candidates of example i are bounds[i] … bounds[i + 1]."""
        return np.ascontiguousarray(self.groups[:: self.n_labels])

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

    All rows x(h) have the stride of the number of weight vectors. If `shared`, all states of an example use one row;
    else state h of example i has the row offsets[i] + h, or offsets[i] + place_of[h].
    """

    shared: bool
    cells: Cells
    losses: Vector | None = None  # of all candidates, where they are not the costs of classes
    place_of: Indices | None = None  # (H,) place of each state among an example's rows, −1 for a state without a row
    checked: bool = True  # whether all needed values are known to be finite; if not, their scores are checked

    def __post_init__(self) -> None:
        super().__post_init__()
        # H_i, the number of states of each example, and the number of rows per example where it is the same for all.
        self.sizes, self.n_examples = self.cells.sizes, len(self.cells.sizes)
        self.per_example = self.inputs.shape[0] // max(1, self.n_examples)

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


class Chosen(NamedTuple):
    """One candidate per example: classes and states, both of shape (k,)."""

    y: Indices
    h: Indices


@dataclass
class StateParts(LinearMap, PartLoss):
    """The candidates of the examples of a query as parts: counts are shares (P,) of all, or a `Chosen` one each."""

    task: "LatentMulticlass"
    batch: StateBatch
    cells: Cells

    def scores(self, query: Query) -> Vector:
        task, cells = self.task, self.cells
        if task.table_ is not None:
            scores = np.empty((len(cells.sizes), len(task.table_.every.y)))
            for part, block in self.score_blocks(query, task.table_.every):
                scores[part] = block.T
            return scores.ravel()
        return task.products(self.batch.inputs, query.w, self._rows(query)).ravel()[cells.in_rows]

    def _rows(self, query: Query) -> Indices | None:
        """Return the input rows of the examples, None for all."""
        return None if query.rows is None else positions(self.batch.offsets, query.rows)[0]

    def score_blocks(self, query: Query, candidates: Candidates) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield s(y, h) block by block: the places of examples, and the scores (C, size of the block).

        Only for states with weights of their own: there is one product per state. The scores of a block stay in the
        cache, and its memory is reused for the next one.
        """
        task, batch, w = self.task, self.batch, query.w
        assert task.table_ is not None
        products = []
        for h, places in [(0, candidates.weighted)] if batch.shared else candidates.by_state:
            vectors = candidates.vector[places]
            constants = task.bias * w[task.bias_at_ + vectors] if task.bias_at_ >= 0 else np.zeros(len(vectors))
            products.append((h, places, np.ascontiguousarray(task.matrix_of(w)[:, vectors]), constants[:, None]))
        n, n_candidates = len(self.cells.sizes), len(candidates.y)
        size = min(n, BLOCK if batch.inputs.dense else n)
        memory = np.zeros(n_candidates * size)
        for start in range(0, n, max(size, 1)):
            part = slice(start, min(start + size, n))
            block = memory[: n_candidates * (part.stop - start)].reshape(n_candidates, -1)
            block[candidates.constant] = 0.0
            for h, places, weights, constants in products:
                x = batch.rows_of_state(h, part if query.rows is None else as_slice(query.rows[part]))
                block[places] = (x @ weights).T + constants
            if not batch.checked and not np.isfinite(block.sum()):
                batch.require_finite(task.table_.needed)
            yield part, block

    def heights(self, query: Query) -> tuple[NDArray[np.float64], Indices]:
        """Return what is added to the scores of all classes: lines (·, S), and the number of the line per example."""
        n_labels = len(self.task.labels_)
        if query.mode == "free":
            return np.zeros((1, n_labels)), np.zeros(len(self.cells.sizes), dtype=np.int64)
        lines = self.task.costs_ if query.augmented else np.where(np.eye(n_labels, dtype=bool), 0.0, -np.inf)
        return lines, self.batch.classes(query.rows)

    def by_candidate(self, lines: NDArray[np.float64], line: Indices) -> Vector:
        """Return values of classes (·, S), one row per example, for all candidates."""
        if self.task.table_ is not None:
            return lines[:, self.task.table_.every.y][line].ravel()
        return self.cells.by_class(lines[line].ravel())

    def best(self, query: Query) -> tuple[Vector, Chosen]:
        """Return the value and the candidate of the hard max of each example.

        Where states have weights of their own, there is no array of all candidates.
        """
        table, losses = self.task.table_, self.batch.losses if query.augmented else None
        lines, line = self.heights(query)
        if table is None:
            scores, cells = self.scores(query), self.cells
            scores += self.by_candidate(lines, line) if losses is None else self.losses(query)
            values, places = highest(scores, cells.bounds)
            return values, Chosen(cells.y[places], cells.h[places])
        candidates = table.distinct if losses is None else table.every
        winners, values = np.empty(len(line), dtype=np.int64), np.empty(len(line))
        if losses is not None:
            lines, line = np.zeros_like(lines[:1]), np.zeros_like(line)
        for part, block in self.score_blocks(query, candidates):
            if losses is not None:
                block += losses.reshape(self.batch.n_examples, -1)[part if query.rows is None else query.rows[part]].T
            best_candidates(block, candidates.y, lines, line[part], winners[part], values[part])
        return values, Chosen(candidates.y[winners], candidates.h[winners])

    def vectors(self, y: Indices, h: Indices) -> Indices:
        """Return the weight vectors of candidates, negative for those without."""
        return y if self.task.table_ is None else self.task.table_.vector_of[y, h]

    def slopes(self, counts: Vector | Chosen, query: Query) -> Slopes:
        """Return the features of the chosen candidates, or of all candidates times their shares."""
        table, cells = self.task.table_, self.cells
        if isinstance(counts, Chosen):
            (y, h), examples, pointers = counts, query.examples(self.batch), np.arange(len(cells.sizes) + 1)
            value = np.ones(len(y))
        else:
            kept = np.flatnonzero(counts)
            y, h, examples, value = cells.y[kept], cells.h[kept], cells.example[kept], counts[kept]
            examples = examples if query.rows is None else query.rows[examples]
            pointers = np.searchsorted(kept, cells.bounds)
        column = self.vectors(y, h)
        if table is not None and not table.complete:
            weighted = column >= 0
            h, examples, value, column = h[weighted], examples[weighted], value[weighted], column[weighted]
            pointers = offsets_from_lengths(weighted)[pointers]
        return self.task.slopes_of(self.batch.inputs, self.batch.row_numbers(examples, h), column, value, pointers)

    def pull_back(self, counts: Vector | Chosen, query: Query) -> Vector:
        assert query.weights is not None
        if isinstance(counts, Chosen):
            return self._sum_chosen(counts, query.weights, query.examples(self.batch))
        return self.sum(counts * self.cells.by_example(query.weights), query)

    def _sum_chosen(self, counts: Chosen, weights: Vector, examples: Indices) -> Vector:
        task, inputs, slope = self.task, self.batch.inputs, np.zeros(self.task.n_features)
        vectors = self.vectors(*counts)
        used = np.flatnonzero(vectors >= 0)
        vectors, factors = vectors[used], weights[used]
        rows = self.batch.row_numbers(examples[used], counts.h[used])
        by_vector = sparse.csr_array((factors, (vectors, rows)), (task.n_vectors_, inputs.shape[0])) @ inputs.matrix
        task.matrix_of(slope)[:] = by_vector.T if inputs.dense else by_vector.toarray().T
        if task.bias_at_ >= 0:
            slope[task.bias_at_ :] = task.bias * np.bincount(vectors, factors, minlength=task.n_vectors_)
        return slope

    def sum(self, shares: Vector, query: Query) -> Vector:
        """Return the sum of the features of all candidates, each times its share, shape (d,)."""
        task, batch, cells = self.task, self.batch, self.cells
        if task.table_ is None:
            counts = np.empty(len(shares))
            counts[cells.in_rows] = shares
            return task.sum_of(batch.inputs, counts.reshape(-1, task.n_vectors_), self._rows(query))
        slope, every, by_candidate = np.zeros(task.n_features), task.table_.every, shares.reshape(len(cells.sizes), -1)
        examples = slice(0, batch.n_examples) if query.rows is None else as_slice(query.rows)
        block = task.matrix_of(slope)
        for h, places in [(0, every.weighted)] if batch.shared else every.by_state:
            block[:, every.vector[places]] = batch.rows_of_state(h, examples).T @ by_candidate[:, places]
        if task.bias_at_ >= 0:
            slope[task.bias_at_ + every.vector[every.weighted]] = task.bias * by_candidate.sum(axis=0)[every.weighted]
        return slope

    def losses(self, query: Query) -> Vector:
        """Return the losses of all candidates."""
        given = self.batch.losses
        if given is None:
            return self.by_candidate(self.task.costs_, self.batch.classes(query.rows))
        return given if query.rows is None else given[positions(self.batch.cells.bounds, query.rows)[0]]

    def add_to(self, scores: Vector, query: Query) -> Vector:
        scores += self.losses(query)
        return scores

    def of(self, counts: Vector | Chosen, query: Query) -> Vector:
        """Return the expected loss of each example, or that of its chosen candidate."""
        if not isinstance(counts, Chosen):
            return np.add.reduceat(counts * self.losses(query), self.cells.bounds[:-1])
        if self.batch.losses is not None:
            return self.batch.losses[self.batch.cells.place(query.examples(self.batch), *counts)]
        return self.task.costs_[self.batch.classes(query.rows), counts.y]


def has_one_row(x: Any) -> bool:
    """Return whether an example is one row of inputs, not a matrix with one row per state."""
    try:
        return not issparse(x) and np.ndim(x) < 2
    except ValueError:
        # Rows of different lengths are reported when they are read as a matrix.
        return False


def read_array(X: NDArray, needed: Indices | None) -> NDArray[np.float64]:
    """Return the rows of an array (n, R, d) as one matrix, unchecked and not copied if it is laid out as such.

    Otherwise it may have the rows of needed states only.
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
        for i, place, column in np.argwhere(~np.isfinite(X[start : start + 1000, places]))[:1]:
            got = Description(f"{X[start + i, places[place], column]} at row {places[place]}, column {column}")
            raise InputError(f"X[{start + i}]", got, "finite")


def read_matrices(X: Any, n_states: int | None, needed: Indices | None, same: bool) -> tuple[Any, Indices]:
    """Return the rows of a sequence of matrices (H_i, d) as one matrix, and their numbers (n,).

    All must have `n_states` rows, or one per `needed` state; if neither is given, any number, the same for all if
    `same`.
    """
    matrices = [check_matrix(x, f"X[{i}]") for i, x in enumerate(X)]
    sizes = np.array([matrix.shape[0] for matrix in matrices])
    expected, width = n_states, matrices[0].shape[1]
    if same and (n_states is None or (needed is not None and sizes[0] == len(needed))):
        expected = sizes[0]
    for i, matrix in enumerate(matrices):
        if matrix.shape[0] == 0 or (expected is not None and matrix.shape[0] != expected):
            wanted = "at least one row" if expected is None else f"{expected} rows, one per state"
            if needed is not None and len(needed) != n_states:
                wanted = f"{n_states} rows, or {len(needed)} rows for the states {needed.tolist()}"
            raise InputError(f"X[{i}]", Description(f"{matrix.shape[0]} rows"), wanted)
        if matrix.shape[1] != width:
            raise InputError(f"X[{i}]", Description(f"{matrix.shape[1]} features"), f"rows with {width} features")
    any_sparse = any(issparse(matrix) for matrix in matrices)
    return sparse.vstack(matrices, format="csr") if any_sparse else np.concatenate(matrices), sizes
