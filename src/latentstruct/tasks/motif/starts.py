"""Initial motifs: words that are enriched in positive sequences, refined to matrices.

1. For words of six to eight letters, three or four of proteins, the number of positive sequences with the word is
   compared with the number expected from its frequency in the negative sequences.
2. Each of the best words that are no shifts or neighbors of better ones becomes a matrix of the motif's width, which
   expectation maximization refines: at most one site in each positive sequence against a Markov background, all phases
   of the window tried in each iteration.
3. The matrices are ordered by how well they distinguish positive from negative sequences at their best threshold.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import motif as kernels
from latentstruct.core.types import Indices, Vector
from latentstruct.tasks.motif.layout import Layout

if TYPE_CHECKING:
    from latentstruct.tasks.motif.task import Motif, MotifBatch

WORDS_CONSIDERED, MOST_SEEDS = 400, 8
ITERATIONS = 15
MOST_WINDOWS = 300_000
"""Maximum number of positive windows used for refinement: initial matrices need not be more precise."""
NEGATIVES_PER_POSITIVE = 3
LEAST_SHARE, MOST_SHARE = 0.02, 0.98
"""Limits of the share of positive sequences with a site."""
SAME = 0.8
"""Share of equal windows from which two starts count as the same."""


class InitialMotif(NamedTuple):
    """Starts and strands of the positive sequences' windows, and which of these sequences probably have a site."""

    starts: Indices
    strands: Indices
    carriers: NDArray[np.bool_]


def refined_motifs(task: "Motif", batch: "MotifBatch") -> list[InitialMotif]:
    """Return the windows of the positive sequences under each refined matrix, the best first."""
    layout, truth = batch.layout, batch.truth()
    positive, negative = np.flatnonzero(truth), np.flatnonzero(~truth)
    if len(positive) == 0:
        return []
    if len(negative) == 0:
        negative = positive
    grower = MotifGrower(task, layout, positive, negative)
    grown = list(map(grower.grow, enriched_words(task, layout, positive, negative)))
    kept: list[InitialMotif] = []
    for k in np.argsort([-grower.surprise(batch, one) for one in grown], kind="stable"):
        _, starts, strands = task.best_windows(batch, grown[k].weights, positive)
        # Mostly the same windows, on either strand, would be the same start.
        if all(np.mean(starts == other.starts) < SAME for other in kept):
            carriers = grower.ratios(grown[k].weights, positive) + grown[k].log_odds > 0
            kept.append(InitialMotif(starts, strands, carriers))
    return kept


def enriched_words(task: "Motif", layout: Layout, positive: Indices, negative: Indices) -> list[NDArray[np.int64]]:
    """Return the letters of the most enriched words that are not alike."""
    ranked: list[tuple[float, int, int]] = []
    n_letters = task.alphabet_.size
    for length in sorted({*np.minimum(task.alphabet_.word_lengths, task.width).tolist()}):
        scores = word_enrichment(layout, positive, negative, length, task.strands)
        best = np.argsort(-scores, kind="stable")[:WORDS_CONSIDERED]
        best = best[scores[best] > -np.inf]
        ranked += zip(scores[best].tolist(), best.tolist(), [length] * len(best), strict=True)
    ranked.sort(reverse=True)
    seeds: list[NDArray[np.int64]] = []
    for _, code, length in ranked:
        word = letters_of(np.array([code]), length, n_letters)[0]
        mirrors = [word, n_letters - 1 - word[::-1]] if task.strands == 2 else [word]
        if not any(_alike(one, seed) for one in mirrors for seed in seeds):
            seeds.append(word)
        if len(seeds) == MOST_SEEDS:
            break
    return seeds


def letters_of(codes: NDArray[np.int64], length: int, n_letters: int) -> NDArray[np.int64]:
    """Return the letters (n, length) of words by their numbers."""
    return codes[:, None] // n_letters ** np.arange(length - 1, -1, -1) % n_letters


def _alike(word: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Whether two words agree where they overlap, in a shift that leaves most of them to overlap.

    One of four and more letters may differ.
    """
    shorter = min(len(word), len(other))
    least = shorter - shorter // 3
    for shift in range(least - len(word), len(other) - least + 1):
        low, high = max(0, shift), min(len(other), shift + len(word))
        if np.count_nonzero(other[low:high] != word[low - shift : high - shift]) <= min(1, (high - low) // 4):
            return True
    return False


def word_enrichment(layout: Layout, positive: Indices, negative: Indices, length: int, strands: int) -> Vector:
    """Return how surprising each word's presence in positive sequences is, shape (a^length,), with a letters.

    With q the share of positive sequences that have the word and p the share expected from its frequency in negative
    windows, the score is n KL(q ‖ p), a bound of −ln P(q or more), minus length·ln a for the number of words tried;
    −inf if q ≤ p. The frequency is shrunk to that of a Markov chain, which counts as much as 2·a^length windows.
    """
    both, n_letters = strands == 2, int(layout.sizes[-1])
    n_words = n_letters**length
    present, frequency = np.zeros(n_words, dtype=np.int64), np.zeros(n_words, dtype=np.int64)
    kernels.word_counts(layout.bases, layout.offsets, positive, n_letters, length, both, True, present)
    kernels.word_counts(layout.bases, layout.offsets, negative, n_letters, length, both, False, frequency)
    words = letters_of(np.arange(n_words), length, n_letters)
    expected = _chain_probability(layout, negative, words)
    if both:
        mirror = (n_letters - 1 - words[:, ::-1]) @ (n_letters ** np.arange(length - 1, -1, -1))
        expected = np.where(mirror == np.arange(n_words), expected, expected + expected[mirror])
    prior = 2.0 * n_words
    rate = (frequency + prior * expected) / (frequency.sum() + prior)
    lengths = layout.offsets[positive + 1] - layout.offsets[positive] - length + 1
    typical = np.quantile(lengths, (np.arange(8) + 0.5) / 8)
    p = np.clip(-np.expm1(-np.outer(rate, typical)).mean(axis=1), 1e-12, 1 - 1e-12)
    q = present / len(positive)
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(q > 0, q * np.log(q / p), 0.0) + np.where(q < 1, (1 - q) * np.log((1 - q) / (1 - p)), 0.0)
    return np.where(q > p, len(positive) * kept - length * np.log(n_letters), -np.inf)


def _chain_probability(layout: Layout, rows: Indices, words: NDArray[np.int64]) -> Vector:
    """Return the probabilities of words under a first-order Markov chain of the rows' letters, shape (n,)."""
    n_letters = int(layout.sizes[-1])
    pairs = np.zeros(n_letters**2, dtype=np.int64)
    kernels.word_counts(layout.bases, layout.offsets, rows, n_letters, 2, False, False, pairs)
    joint = (pairs.reshape(n_letters, n_letters) + 1.0) / (pairs.sum() + len(pairs))
    first = joint.sum(axis=1)
    steps = joint / first[:, None]
    probability = first[words[:, 0]]
    for t in range(words.shape[1] - 1):
        probability = probability * steps[words[:, t], words[:, t + 1]]
    return probability


class GrownMotif(NamedTuple):
    """Log probabilities of letters and background as weights (d,), expected letters of the sites, odds of a site."""

    weights: Vector
    counts: NDArray[np.float64]
    log_odds: float


class MotifGrower:
    """Expectation maximization of motifs with at most one site in each positive sequence."""

    def __init__(self, task: "Motif", layout: Layout, positive: Indices, negative: Indices) -> None:
        self.task, self.layout = task, layout
        thinning = -(-int(np.diff(layout.windows)[positive].sum()) // MOST_WINDOWS)
        # Kernels take contiguous rows.
        self.sites = positive[::thinning].copy()
        some = negative[:: max(1, len(negative) // (NEGATIVES_PER_POSITIVE * len(self.sites)))]
        self.judged = np.concatenate([self.sites, some])
        counts = np.zeros(task.n_states_, dtype=np.int64)
        # Of both classes: a background of the negative sequences alone would fit these better than others.
        n_letters = task.alphabet_.size
        scanned = layout.bases, layout.offsets, np.concatenate([positive, negative]), n_letters
        kernels.word_counts(*scanned, task.order_ + 1, False, False, counts)
        # An unseen context must not make a letter impossible; one pseudo-count does not hide a seen one.
        smoothed = counts.reshape(-1, n_letters) + 1.0
        # ln P(letter | the o letters before) of all (o+1)-mers.
        self.background = np.log(smoothed / smoothed.sum(axis=1, keepdims=True)).ravel()
        letters = np.zeros(n_letters, dtype=np.int64)
        kernels.word_counts(*scanned, 1, False, False, letters)
        if task.strands == 2:
            letters = letters + letters[::-1]
        self.letters = (letters + 1.0) / (letters.sum() + n_letters)

    def weights(self, matrix: NDArray[np.float64]) -> Vector:
        """Return the weights (d,) of a matrix of letter probabilities against the background."""
        return np.concatenate([np.log(matrix).ravel(), self.background])

    def matrix(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return letter probabilities from counts (…, letters), shrunk towards the letters of the background."""
        smoothed = counts + self.pseudo_counts(counts)
        return smoothed / smoothed.sum(axis=1, keepdims=True)

    def pseudo_counts(self, counts: NDArray[np.float64]) -> Vector:
        """Return the letters that are added to each position, shape (letters,)."""
        return 0.5 * self.letters * np.sqrt(counts.sum(axis=1).max())

    def phase(self, counts: NDArray[np.float64], margin: int) -> int:
        """Return the first row of the window of `counts` that explains the letters best; ties keep the phase."""
        gain = (counts * np.log(self.matrix(counts) / self.letters)).sum(axis=1)
        sums = np.concatenate([[0.0], np.cumsum(gain)])
        windows = sums[self.task.width :] - sums[: -self.task.width]
        best = int(np.argmax(windows))
        return best if windows[best] > windows[margin] + 1e-9 else margin

    def grow(self, word: NDArray[np.int64]) -> GrownMotif:
        """Return the motif that grows from a word."""
        width, n = self.task.width, len(self.sites)
        matrix = np.tile(self.letters, (width, 1))
        first = (width - len(word)) // 2
        matrix[first : first + len(word)] *= 0.35
        matrix[first + np.arange(len(word)), word] += 0.65
        margin, before, log_odds = max(1, width // 2), -np.inf, 0.0
        carriers = np.empty(n)
        for _ in range(ITERATIONS):
            counts = np.zeros((width + 2 * margin, len(self.letters)))
            given = self.layout, self.task.tables(self.weights(matrix)), width, self.sites, log_odds, margin
            # Σ_k ln(1 − γ + γ · mean_h exp(score)), γ being the share of sequences with a site.
            likelihood = kernels.flank_counts(*given, counts, carriers) - n * np.logaddexp(0.0, log_odds)
            shift = self.phase(counts, margin)
            counts = counts[shift : shift + width]
            matrix = self.matrix(counts)
            share = np.clip(carriers.mean(), LEAST_SHARE, MOST_SHARE)
            log_odds = float(np.log(share / (1.0 - share)))
            if shift == margin and likelihood - before < 2e-3 * n:
                break
            before = likelihood if shift == margin else -np.inf
        return GrownMotif(self.weights(matrix), counts, log_odds)

    def ratios(self, w: Vector, rows: Indices) -> Vector:
        """Return the logarithm of the mean likelihood ratio of each row's windows, shape (k,).

        It is a mean, so that length alone distinguishes nothing.
        """
        pooled = np.empty(len(rows))
        kernels.pooled_windows(self.layout, self.task.tables(w), self.task.width, rows, 1.0, 0.0, pooled)
        windows: Vector = np.log(self.task.strands * np.diff(self.layout.windows)[rows])
        return pooled - windows

    def surprise(self, batch: "MotifBatch", motif: GrownMotif) -> float:
        """Return how surprising the positive sequences above a threshold are, at the best threshold.

        With q the share of positive sequences among the m above the threshold and p that of all, it is m KL(q ‖ p), a
        bound of −ln P(q or more).
        """
        ratios = self.ratios(motif.weights, self.judged)
        ratios[: len(self.sites)] -= self.own_share(batch, motif, ratios[: len(self.sites)])
        hits = np.cumsum(np.argsort(-ratios, kind="stable") < len(self.sites))
        above, p = np.arange(1, len(ratios) + 1), len(self.sites) / len(ratios)
        q = np.maximum(hits / above, p)
        with np.errstate(divide="ignore", invalid="ignore"):
            missing = np.where(q < 1, (1 - q) * np.log((1 - q) / (1 - p)), 0.0)
        return float((above * (q * np.log(q / p) + missing)).max())

    def own_share(self, batch: "MotifBatch", motif: GrownMotif, ratios: Vector) -> Vector:
        """Return how much each positive sequence's own site adds to its ratio, shape (k,).

        Without this, a matrix of random words that is fitted to few sequences seems to distinguish them.
        """
        task, layout = self.task, self.layout
        best, starts, strands = task.best_windows(batch, motif.weights, self.sites)
        n_windows = np.log(task.strands * np.diff(layout.windows)[self.sites])
        share = np.minimum(1.0, np.exp(best - n_windows - ratios))
        weight = share / (1.0 + np.exp(-ratios - motif.log_odds))
        places = (layout.offsets[self.sites] + starts)[:, None] + np.arange(task.width)
        letters = layout.bases[places].astype(np.int64)
        letters = np.where(strands[:, None] > 0, letters, len(self.letters) - 1 - letters[:, ::-1])
        smoothed = motif.counts + self.pseudo_counts(motif.counts)
        with_own = smoothed[np.arange(task.width), letters]
        without = np.maximum(with_own - weight[:, None], 0.1 * with_own)
        total = smoothed.sum(axis=1)
        gain = (np.log(with_own / without) + np.log((total - weight[:, None]) / total)).sum(axis=1)
        # Only the best window's part of the ratio changes.
        left = (1.0 - share) + share * np.exp(-np.maximum(gain, 0.0))
        return -np.log(np.maximum(left, np.finfo(np.float64).tiny))
