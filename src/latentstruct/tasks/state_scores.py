"""Scores and the best candidates of models whose latent states have weights of their own, block by block."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.core.protocols import Mode
from latentstruct.kernels.states import best_candidates
from latentstruct.planes import Plane, Planes
from latentstruct.ragged import Indices, Vector
from latentstruct.tasks.base import require_labels
from latentstruct.tasks.inputs import as_slice
from latentstruct.tasks.states import Candidates, StateBatch, StateTable

BLOCK = 2048
"""Examples scored together."""


def clamped_heights(n_labels: int) -> NDArray[np.float64]:
    """Return what forbids all classes (columns) but the true one (rows): 0 for that, −∞ for the others."""
    return np.where(np.eye(n_labels, dtype=bool), 0.0, -np.inf)


class StateScores:
    """What a task with a `StateTable` asks of its inputs; its hard max needs no array with all candidates."""

    table_: StateTable | None
    labels_: Any
    costs_: NDArray[np.float64]
    bias: float
    bias_at_: int
    n_inputs_: int
    n_vectors_: int
    n_features: int
    _planes_of: Callable[..., Planes]

    def _score_blocks(
        self, batch: StateBatch, w: Vector, rows: Indices | None, candidates: Candidates
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield s(y, h) block by block of the asked examples: their places, and the scores (C, size of the block).

        Only the weight vectors of its own state meet a row: one product a state with weights. A block's scores stay in
        the cache, and its memory serves the next one.
        """
        assert self.table_ is not None
        matrix = w[: self.n_inputs_ * self.n_vectors_].reshape(-1, self.n_vectors_)
        products = [(0, candidates.weighted)] if batch.shared else candidates.by_state
        parts = []
        for h, places in products:
            vectors = candidates.vector[places]
            constants = self.bias * w[self.bias_at_ + vectors] if self.bias_at_ >= 0 else np.zeros(len(vectors))
            parts.append((h, places, np.ascontiguousarray(matrix[:, vectors]), constants[:, None]))
        n = batch.n_examples if rows is None else len(rows)
        size, n_candidates = min(n, BLOCK if batch.inputs.dense else n), len(candidates.y)
        memory = np.zeros(n_candidates * size)
        for start in range(0, n, max(size, 1)):
            part = slice(start, min(start + size, n))
            block = memory[: n_candidates * (part.stop - start)].reshape(n_candidates, -1)
            block[candidates.constant] = 0.0
            for h, places, weights, constants in parts:
                x = batch.rows_of_state(h, part if rows is None else as_slice(rows[part]))
                block[places] = (x @ weights).T + constants
            if not batch.checked and not np.isfinite(block.sum()):
                batch.require_finite(self.table_.needed)
            yield part, block

    def _winners(
        self, batch: StateBatch, w: Vector, mode: Mode, rows: Indices | None
    ) -> tuple[Candidates, Indices, Vector]:
        """Return the candidates of a model whose states have weights, the best one of each asked example, its value."""
        require_labels(batch, mode)
        assert self.table_ is not None
        n, n_labels = batch.n_examples if rows is None else len(rows), len(self.labels_)
        losses = batch.losses if mode == "augmented" else None
        candidates = self.table_.distinct if losses is None else self.table_.every
        extra, truth = np.zeros((1, n_labels)), np.zeros(n, dtype=np.int64)
        if mode != "free" and losses is None:
            assert batch.truth is not None
            truth = batch.truth if rows is None else batch.truth[rows]
            extra = self.costs_ if mode == "augmented" else clamped_heights(n_labels)
        winners, values = np.empty(n, dtype=np.int64), np.empty(n)
        for part, block in self._score_blocks(batch, w, rows, candidates):
            if losses is not None:
                by_example = losses.reshape(batch.n_examples, -1)
                block += by_example[part if rows is None else rows[part]].T
            best_candidates(block, candidates.y, extra, truth[part], winners[part], values[part])
        return candidates, winners, values

    def _winner_losses(
        self, batch: StateBatch, candidates: Candidates, winners: Indices, rows: Indices | None
    ) -> Vector:
        asked: Any = slice(None) if rows is None else rows
        if batch.losses is not None:
            by_example = batch.losses.reshape(batch.n_examples, -1)
            return by_example[np.arange(batch.n_examples)[asked], winners]
        assert batch.truth is not None
        return self.costs_[batch.truth[asked], candidates.y[winners]]

    def _hard_planes(self, batch: StateBatch, w: Vector, mode: Mode, rows: Indices | None) -> Planes:
        candidates, winners, values = self._winners(batch, w, mode, rows)
        asked, ones = np.arange(batch.n_examples) if rows is None else rows, np.ones(len(winners))
        y, h = candidates.y[winners], candidates.h[winners]
        planes = self._planes_of(batch, asked, y, h, ones, ones.astype(np.int64))
        planes.values = values
        if mode == "augmented":
            planes.offsets = self._winner_losses(batch, candidates, winners, rows)
        return planes

    def _hard_total(self, batch: StateBatch, w: Vector, mode: Mode, weights: Vector, rows: Indices | None) -> Plane:
        """Return the weighted sum of the features of the best candidates, with no plane for each example."""
        candidates, winners, _ = self._winners(batch, w, mode, rows)
        vectors, used = candidates.vector[winners], np.flatnonzero(candidates.vector[winners] >= 0)
        vectors, factors = vectors[used], weights[used]
        inputs = batch.row_numbers(used if rows is None else rows[used], candidates.h[winners[used]])
        chosen = sparse.csr_array((factors, (vectors, inputs)), shape=(self.n_vectors_, batch.inputs.shape[0]))
        by_vector = chosen @ batch.inputs.matrix
        slope = np.zeros(self.n_features)
        block = slope[: self.n_inputs_ * self.n_vectors_].reshape(-1, self.n_vectors_)
        block[:] = by_vector.T if batch.inputs.dense else by_vector.toarray().T
        if self.bias_at_ >= 0:
            slope[self.bias_at_ :] = self.bias * np.bincount(vectors, factors, minlength=self.n_vectors_)
        loss = 0.0
        if mode == "augmented":
            loss = float(weights @ self._winner_losses(batch, candidates, winners, rows))
        return Plane(slope, loss)
