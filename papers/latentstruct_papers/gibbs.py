"""A Gibbs sampler that finds motifs without looking at negatives: the classical method to compare with."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import motif as kernels
from latentstruct.core.types import Vector
from latentstruct.tasks.motif.starts import MotifGrower
from latentstruct.tasks.motif.task import Motif

__all__ = ["GibbsSampler"]

PHASE_EVERY = 10


@dataclass
class GibbsSampler:
    """Site sampler with one site in each positive sequence and a Markov background (Lawrence et al. 1993).

    Each sweep takes the sequences in turn and draws a window with probability proportional to
    exp(Σ_j ln p_j(x_{h+j}) − Σ_i ln b(x_i | the letters before)), where the matrix p counts the windows of all
    other sequences and the background b all negative ones. Every tenth sweep may shift all windows by one distance.
    The windows of highest likelihood are kept over all sweeps and starts.

    Parameters
    ----------
    task : Motif
        Width, background order and strands.
    sweeps, starts : int
        Sweeps of each start, and number of random starts.
    random_state : int, default=0
        Seed.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Logarithms of matrix and background as weights of the task, so that a window's score is its likelihood ratio.
    """

    task: Motif
    sweeps: int = 100
    starts: int = 3
    random_state: int = 0

    def fit(self, X: Any, Y: Any) -> "GibbsSampler":
        """Sample windows of the positive sequences; negative ones give the background only."""
        rng = np.random.default_rng(self.random_state)
        self.task.learn(X, Y)
        batch = self.task.prepare(X, Y)
        truth = batch.truth()
        self.grower = MotifGrower(self.task, batch.layout, np.flatnonzero(truth), np.flatnonzero(~truth))
        best = -np.inf
        for _ in range(self.starts):
            height, counts = self._sample(batch, rng)
            if height > best:
                best, self.coef_ = height, self.grower.weights(self.grower.matrix(counts))
        return self

    def _sample(self, batch: Any, rng: np.random.Generator) -> tuple[float, NDArray[np.float64]]:
        """Run one start; return the highest likelihood and the letter counts it had."""
        task, layout, rows = self.task, batch.layout, self.grower.sites
        background = np.append(self.grower.background, 0.0)
        latents = task.random_latents(batch, rng)
        starts = np.array([latents[i][0] for i in rows]) + layout.offsets[rows]
        strands = np.array([latents[i][1] for i in rows])
        best, kept = -np.inf, np.zeros((task.width, 4))
        for sweep in range(self.sweeps):
            if sweep % PHASE_EVERY == PHASE_EVERY - 1:
                starts = self._shifted(batch, starts, strands)
            counts = self._counts(layout, starts, strands, 0)
            height = kernels.gibbs_sweep(
                layout,
                background,
                task.width,
                task.strands == 2,
                rows,
                self.grower.pseudo_counts(counts),
                rng.random(len(rows)),
                starts,
                strands,
                counts,
            )
            if height > best:
                best, kept = height, counts
        return best, kept

    def _counts(self, layout: Any, starts: Any, strands: Any, margin: int) -> NDArray[np.float64]:
        """Return the letters of the windows and `margin` places around them, shape (l + 2·margin, 4)."""
        rows = self.grower.sites
        along = np.arange(-margin, self.task.width + margin)
        forward = starts[:, None] + along
        places = np.where(strands[:, None] > 0, forward, starts[:, None] + self.task.width - 1 - along)
        inside = (places >= layout.offsets[rows][:, None]) & (places < layout.offsets[rows + 1][:, None])
        letters = layout.bases[np.where(inside, places, 0)].astype(np.int64)
        known = inside & (letters < self.task.alphabet_.size)
        letters = np.where(strands[:, None] > 0, letters, 3 - letters)
        line = np.broadcast_to(along + margin, letters.shape)
        counts = np.zeros((len(along), 4))
        np.add.at(counts, (line[known], letters[known]), 1.0)
        return counts

    def _shifted(self, batch: Any, starts: Any, strands: Any) -> NDArray[np.int64]:
        """Return the windows in the phase that explains their letters best."""
        margin = max(1, self.task.width // 2)
        shift = self.grower.phase(self._counts(batch.layout, starts, strands, margin), margin) - margin
        rows = self.grower.sites
        local = self.task.moved(batch, rows, starts - batch.layout.offsets[rows], strands, shift)
        return local + batch.layout.offsets[rows]

    def scores(self, X: Any) -> Vector:
        """Return the log likelihood ratio of the best window of each sequence."""
        return self.task.scores(self.task.prepare(X), self.coef_)
