"""Values, planes and shares of candidates (y, h), pooled over states and classes at any temperature."""

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Mode, Prediction, Temperature
from latentstruct.exceptions import InputError
from latentstruct.kernels.candidates import pool_candidates, pool_renyi
from latentstruct.kernels.planes import Atoms
from latentstruct.planes import Plane, Planes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths, positions
from latentstruct.tasks.base import require_labels
from latentstruct.tasks.inputs import as_slice
from latentstruct.tasks.state_scores import StateScores, clamped_heights
from latentstruct.tasks.states import Cells, StateBatch


class StatePooling(StateScores):
    """What a task whose candidates are classes with states asks of them, hard or soft; see `LatentMulticlass`."""

    def _columns(self, y: Indices, h: Indices) -> Indices:
        """Return the weight vectors of candidates (y, h)."""
        return y if self.table_ is None else self.table_.vector_of[y, h]

    def _scores(self, batch: StateBatch, w: Vector, rows: Indices | None, cells: Cells) -> Vector:
        """Return s(y, h) of the candidates of the asked examples."""
        if self.table_ is not None:
            every = self.table_.every
            scores = np.empty((batch.n_examples if rows is None else len(rows), len(every.y)))
            for part, block in self._score_blocks(batch, w, rows, every):
                scores[part] = block.T
            return scores.ravel()
        matrix = w[: self.n_inputs_ * self.n_vectors_].reshape(-1, self.n_vectors_)
        asked, starts = (None, batch.offsets) if rows is None else positions(batch.offsets, rows)
        products = batch.inputs.times(matrix, asked)
        scores = products[starts[cells.example] + cells.h, cells.y]
        if self.bias_at_ >= 0:
            scores += self.bias * w[self.bias_at_ + cells.y]
        return scores

    def _pooled(
        self, batch: StateBatch, w: Vector, mode: Mode, temperature: Temperature, rows: Indices | None
    ) -> tuple[Cells, Vector, Vector]:
        """Return the candidates, the pooled value of each example and each candidate's share of it."""
        require_labels(batch, mode)
        cells = self._cells(batch, rows)
        scores = self._scores(batch, w, rows, cells)
        if mode == "augmented":
            scores += self._losses(batch, cells, rows)
        elif mode == "clamped":
            scores += self._by_class(clamped_heights(len(self.labels_)), batch, cells, rows)
        values, shares = np.empty(len(cells.examples) - 1), np.empty(len(scores))
        pool_candidates(scores, cells.groups, cells.examples, temperature.output, temperature.latent, values, shares)
        return cells, values, shares

    def _cells(self, batch: StateBatch, rows: Indices | None) -> Cells:
        return batch.cells if rows is None else batch.cells.take(rows)

    def _losses(self, batch: StateBatch, cells: Cells, rows: Indices | None) -> Vector:
        if batch.losses is not None:
            if rows is None:
                return batch.losses
            return batch.losses[positions(batch.cells.groups[batch.cells.examples], rows)[0]]
        return self._by_class(self.costs_, batch, cells, rows)

    def _by_class(self, heights: NDArray[np.float64], batch: StateBatch, cells: Cells, rows: Indices | None) -> Vector:
        """Return heights[y_i, y] of each candidate."""
        assert batch.truth is not None
        truth = batch.truth if rows is None else batch.truth[rows]
        if self.table_ is not None:
            return heights[:, self.table_.every.y][truth].ravel()
        return heights[truth[cells.example], cells.y]

    def _planes_of(
        self, batch: StateBatch, examples: Indices, y: Indices, h: Indices, shares: Vector, counts: Indices
    ) -> Planes:
        """Return planes through the origin from candidates; the first counts[0] make the first plane, and so on."""
        column, value, per_candidate = self._columns(y, h), shares, 1
        if self.table_ is not None and not self.table_.complete:
            weighted, planes = column >= 0, np.repeat(np.arange(len(counts)), counts)
            examples, h, column, shares = examples[weighted], h[weighted], column[weighted], shares[weighted]
            value, counts = shares, np.bincount(planes[weighted], minlength=len(counts))
        row, column = batch.row_numbers(examples, h).astype(np.int32), column.astype(np.int32)
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
        if self.table_ is not None and temperature == Temperature():
            return self._hard_planes(batch, w, mode, rows)
        cells, values, shares = self._pooled(batch, w, mode, temperature, rows)
        kept = shares > 0.0
        example, y, h = cells.example[kept], cells.y[kept], cells.h[kept]
        asked = example if rows is None else rows[example]
        counts = np.bincount(example, minlength=len(values))
        _require_candidates(counts)
        planes = self._planes_of(batch, asked, y, h, shares[kept], counts)
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
        cells = self._cells(batch, rows)
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
        states = [int(cells.h[a + scores[a:b].argmax()]) for a, b in zip(starts, ends, strict=True)]
        found = zip(self.labels_.decode(best), states, values.max(axis=1).tolist(), strict=True)
        return [Prediction(label, state, value) for label, state, value in found]

    def renyi_scores(self, batch: StateBatch, w: Vector, order: float) -> NDArray[np.float64]:
        """Return G_α(y) of all classes, shape (n, S)."""
        cells, n_groups = batch.cells, batch.n_examples * len(self.labels_)
        scores, values = self._scores(batch, w, None, cells), np.empty(n_groups)
        each = np.arange(n_groups + 1)
        pool_renyi(scores, np.zeros(n_groups), cells.groups, each, 0.0, order, values, np.empty(len(scores)))
        return values.reshape(-1, len(self.labels_))

    def total(
        self,
        batch: StateBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        weights: Vector,
        rows: Indices | None = None,
    ) -> Plane:
        """Return the weighted sum of the asked examples' planes."""
        if temperature == Temperature():
            if self.table_ is None:
                return self.planes(batch, w, mode, temperature, rows).total(weights)
            return self._hard_total(batch, w, mode, weights, rows)
        cells, values, shares = self._pooled(batch, w, mode, temperature, rows)
        shares *= cells.spread(weights)
        slope = self._weighted_features(batch, cells, shares, rows)
        offset = float(weights @ values) - float(slope @ w)
        loss = float(shares @ self._losses(batch, cells, rows)) if mode == "augmented" else 0.0
        return Plane(slope, offset, entropy=offset - loss)

    def _weighted_features(self, batch: StateBatch, cells: Cells, shares: Vector, rows: Indices | None) -> Vector:
        """Return the sum of the features of the asked examples' candidates, each times its share."""
        slope = np.zeros(self.n_features)
        block = slope[: self.n_inputs_ * self.n_vectors_].reshape(-1, self.n_vectors_)
        if self.table_ is None:
            inputs, offsets = (None, batch.offsets) if rows is None else positions(batch.offsets, rows)
            coefficients = np.empty((offsets[-1], self.n_vectors_))
            coefficients[offsets[cells.example] + cells.h, cells.y] = shares
            batch.inputs.transposed_times(coefficients, block, inputs)
            if self.bias_at_ >= 0:
                slope[self.bias_at_ :] = self.bias * np.bincount(cells.y, shares, minlength=self.n_vectors_)
            return slope
        every, by_candidate = self.table_.every, shares.reshape(len(cells.sizes), -1)
        asked = slice(0, batch.n_examples) if rows is None else as_slice(rows)
        for h, places in [(0, every.weighted)] if batch.shared else every.by_state:
            x = batch.rows_of_state(h, asked)
            block[:, every.vector[places]] = x.T @ by_candidate[:, places]
        if self.bias_at_ >= 0:
            slope[self.bias_at_ + every.vector[every.weighted]] = self.bias * by_candidate.sum(axis=0)[every.weighted]
        return slope

    def scores(self, batch: StateBatch, w: Vector, latent_temperature: float = 0.0) -> NDArray[np.float64]:
        """Return smax_{ε_h} over h of s(y, h) for all classes, shape (n, S)."""
        if self.table_ is not None and latent_temperature == 0:
            best, distinct = np.empty((batch.n_examples, len(self.labels_))), self.table_.distinct
            for part, block in self._score_blocks(batch, w, None, distinct):
                best[part] = np.maximum.reduceat(block, distinct.first_of_class, axis=0).T
            return best
        cells, n_groups = batch.cells, batch.n_examples * len(self.labels_)
        scores, values = self._scores(batch, w, None, cells), np.empty(n_groups)
        each, shares = np.arange(n_groups + 1), np.empty(len(scores))
        pool_candidates(scores, cells.groups, each, 0.0, latent_temperature, values, shares)
        return values.reshape(-1, len(self.labels_))

    def marginals(self, batch: StateBatch, w: Vector, temperature: Temperature) -> NDArray[np.float64]:
        """Return the class probabilities (n, S) at the given temperatures."""
        cells, _, shares = self._pooled(batch, w, "free", temperature, None)
        return np.add.reduceat(shares, cells.groups[:-1]).reshape(-1, len(self.labels_))

    def _best(
        self, batch: StateBatch, w: Vector, mode: Mode, temperature: Temperature
    ) -> tuple[Indices, Indices, Vector]:
        """Return the candidate with the largest share of each example, and the pooled value."""
        if self.table_ is not None and temperature == Temperature():
            candidates, places, values = self._winners(batch, w, mode, None)
            return candidates.y[places], candidates.h[places], values
        cells, values, shares = self._pooled(batch, w, mode, temperature, None)
        whole = cells.groups[cells.examples]
        winners = np.empty(len(shares))
        pool_candidates(shares, whole, np.arange(len(whole)), 0.0, 0.0, np.empty(len(values)), winners)
        best = np.flatnonzero(winners)
        _require_candidates(np.bincount(cells.example[best], minlength=len(values)))
        return cells.y[best], cells.h[best], values


def _require_candidates(counts: Indices) -> None:
    """Raise unless each example has a candidate: scores that are not numbers are larger than no other."""
    if not counts.all():
        raise InputError(
            f"no score of example {int(np.argmin(counts))} is a number, but each must be: its inputs or the weights "
            "are too large in scale; standardise the features"
        )
