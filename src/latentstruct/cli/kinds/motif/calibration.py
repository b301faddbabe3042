"""Scores of sequences of any length: the best of more windows scores higher by chance."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentstruct.io import Sequences
from latentstruct.tasks.motif.background import shuffle_sequences
from latentstruct.tasks.motif.significance import BestScores
from latentstruct.tasks.motif.sites import Site, find_sites

MOST_SHUFFLED = 500
"""Sequences whose shuffled copies show the scores without a motif."""


@dataclass(frozen=True)
class Calibration:
    """What the scores of a model are without a motif."""

    longest: int  # letters of the longest sequence that the model was trained on
    # The distribution of the best scores of shuffled negative sequences, see `BestScores`.
    decay: float
    offset: float

    @classmethod
    def of(cls, estimator: Any, negatives: Sequence[str], longest: int, seed: int) -> "Calibration | None":
        """Return the calibration of a model; None if there are not two different scores."""
        chosen = np.random.default_rng(seed).permutation(len(negatives))[:MOST_SHUFFLED]
        alphabet = estimator.task_.alphabet_
        shuffled = shuffle_sequences([negatives[i] for i in chosen], alphabet.shuffled, seed, alphabet)
        kept = [x for x in shuffled if alphabet.longest_known(x) >= estimator.task_.width]
        scores = estimator.decision_function(kept) if kept else np.zeros(1)
        if len(set(scores.tolist())) < 2:
            return None
        found = BestScores.fit(scores, count_windows(estimator, kept))
        return cls(longest, found.decay, found.offset)


def count_windows(estimator: Any, sequences: Sequence[str]) -> Any:
    """Return the number of windows of each sequence, those of both strands together."""
    task = estimator.task_
    return task.strands * np.diff(task.prepare(sequences).layout.windows)


@dataclass(frozen=True)
class ScoredSites:
    """The best site of each sequence, and the p-values of their scores; none for a model that is not calibrated."""

    sites: list[Site]
    p_values: list[float] | None
    n_longer: int = 0

    @property
    def scores(self) -> Any:
        """The scores, above 0 where a sequence is predicted positive."""
        return np.array([site.score for site in self.sites])


def score_sites(estimator: Any, calibration: Calibration | None, sequences: Sequences) -> ScoredSites:
    """Return the best sites; scores of sequences longer than those trained on are reduced by what is due to chance."""
    sites = find_sites(estimator, sequences)
    if calibration is None:
        return ScoredSites(sites, None)
    task = estimator.task_
    found = BestScores(calibration.decay, calibration.offset)
    n_windows, scores = count_windows(estimator, sequences.sequences), np.array([site.score for site in sites])
    usual = task.strands * (calibration.longest - task.width + 1)
    reduced = (scores - found.excess(n_windows, usual)).tolist()
    p_values = found.p_values(scores, n_windows).tolist()
    sites = [site._replace(score=score) for site, score in zip(sites, reduced, strict=True)]
    return ScoredSites(sites, p_values, int((n_windows > usual).sum()))


def warn_of_length(n_longer: int, n: int, calibration: Calibration | None) -> None:
    """Warn of sequences that are longer than those trained on."""
    if n_longer and calibration is not None:
        warnings.warn(
            f"{n_longer} of {n} sequences are longer than those trained on (at most {calibration.longest} letters). "
            "Their scores are reduced by what the best of more windows scores by chance. Use scan to find all sites.",
            stacklevel=2,
        )
