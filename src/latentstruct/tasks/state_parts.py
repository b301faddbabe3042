"""Candidates (y, h) of classes with latent states as parts: scores, features and losses."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.core.protocols import Query
from latentstruct.kernels.states import best_candidates
from latentstruct.planes import Slopes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths, positions
from latentstruct.tasks.inputs import as_slice
from latentstruct.tasks.latent_losses import highest
from latentstruct.tasks.states import Candidates, Cells, StateBatch

if TYPE_CHECKING:
    from latentstruct.tasks.latent_multiclass import LatentMulticlass

BLOCK = 2048
"""Examples scored together."""


class Chosen(NamedTuple):
    """One candidate per example: classes and states, both of shape (k,)."""

    y: Indices
    h: Indices


@dataclass
class StateParts:
    """The candidates of the examples of a query as parts: counts are shares (P,) of all, or a `Chosen` one each."""

    task: "LatentMulticlass"
    batch: StateBatch
    cells: Cells

    def scores(self, query: Query) -> Vector:
        """Return s(y, h) of all candidates."""
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
        """Return the numbers of classes (·, S), of which each example has one line, for all candidates."""
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
        """Return the features of candidates times counts and the weights of the query, summed over the examples."""
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
        for h, places in [(0, every.weighted)] if batch.shared else every.by_state:
            rows_of_state = batch.rows_of_state(h, examples)
            task.matrix_of(slope)[:, every.vector[places]] = rows_of_state.T @ by_candidate[:, places]
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
        """Add the losses of all candidates."""
        scores += self.losses(query)
        return scores

    def of(self, counts: Vector | Chosen, query: Query) -> Vector:
        """Return the expected loss of each example, or that of its chosen candidate."""
        if not isinstance(counts, Chosen):
            return np.add.reduceat(counts * self.losses(query), self.cells.bounds[:-1])
        if self.batch.losses is not None:
            return self.batch.losses[self.batch.cells.place(query.examples(self.batch), *counts)]
        return self.task.costs_[self.batch.classes(query.rows), counts.y]
