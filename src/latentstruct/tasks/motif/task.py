"""Motifs: a sequence is positive if it contains a motif, whose position is latent."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import motif as kernels
from latentstruct._native.rows import rows_dot
from latentstruct.core.formatting import repr_short
from latentstruct.core.memory import require
from latentstruct.core.pooling import latent_planes
from latentstruct.core.protocols import HARD, Cost, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, positions, sums_by
from latentstruct.core.validation import check_length, check_parameters, integer, options, real
from latentstruct.data.alphabets import ALPHABETS, DNA, Alphabet
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Atoms, Planes, Rows, Slopes, no_rows
from latentstruct.tasks.base import BaseTask, check_examples, require_labels, require_one_latent_each
from latentstruct.tasks.labels import as_list
from latentstruct.tasks.motif.layout import Layout, Tables
from latentstruct.tasks.motif.starts import InitialMotif, refined_motifs
from latentstruct.tasks.motif.words import GappedWords
from latentstruct.tasks.packing import Arrays, PackedArrays, optional

Window = tuple[int, int] | None
"""Start and strand of a window; None for a negative sequence."""
MOST_WIDTH = 1000
MOST_KMERS, MOST_GAPS, MOST_WORDS = 8, 8, 2**22
"""Letters and gaps of words, and their number."""
BYTES_OF_LETTER, BYTES_OF_LAYOUT = 40, 3
"""Bytes per letter of the scanned sequence for scores, and per letter of all sequences for indices."""
TABLES_COST = 5e4
"""Nanoseconds that the tables of scores take."""


@dataclass
class MotifBatch:
    """Sequences laid out flat, and which of them are positive."""

    layout: Layout
    positive: NDArray[np.bool_] | None
    rows: Rows = field(default_factory=no_rows, repr=False)
    starts: list[InitialMotif] | None = field(default=None, repr=False)
    """Initial windows, found at first use."""

    def __post_init__(self) -> None:
        self.n_examples, self.labeled = len(self.layout.offsets) - 1, self.positive is not None

    def truth(self) -> NDArray[np.bool_]:
        """Return which sequences are positive, or raise if that is not known."""
        require_labels(self, "clamped")
        assert self.positive is not None
        return self.positive


class MotifState(TypedDict):
    """What `Motif` learns, as stored in files: the negative and the positive label."""

    n_features: int
    labels: tuple[bool | int, bool | int]


@dataclass(eq=False, repr=False)
class Motif(BaseTask[MotifBatch]):
    """Motif finding: y = +1 if a sequence contains a motif, at a latent position h, else y = −1.

    With PSM_j the indicator of the letter at position j of the motif, and BG that of the (o+1)-mer which ends at a
    position (none before position o),

        φ(x, +1, h) = Σ_{0≤j<l} PSM_j(x_{h+j}) + Σ_{i outside the window} BG(x_{i−o} … x_i)
        φ(x, −1) = Σ_i BG(x_{i−o} … x_i)

    The background features of the whole sequence are common to all outputs and are left out, which changes no
    difference of scores and therefore neither training nor prediction:

        φ'(x, +1, h) = Σ_{0≤j<l} PSM_j(x_{h+j}) − Σ_{h≤i<h+l} BG(x_{i−o} … x_i),    φ'(x, −1) = 0

    Δ is the zero-one loss. All temperatures are exact.

    With `kmers`, the words of the whole sequence are features of the label +1 too, φ'(x, +1, h) + ψ(x), where ψ counts
    gapped words of both strands or one and is scaled to a constant norm, 4·kmer_weight. They improve the discrimination
    where much more than one motif distinguishes the classes; the motif is read as before.

    Parameters
    ----------
    width : int
        l, the number of letters of the motif.
    background_order : int from 0 to 5, or None, default=None
        o, the order of the Markov background, at most 2 for proteins. None is 3 for DNA and 0 for proteins.
    strands : 1 or 2, default=1
        2 if the motif may be on the other strand of DNA: the position-specific part then also reads the reverse
        complement of the window, while the background always reads the given strand.
    kmers : int from 0 to 8, default=0
        Number of letters of the words that are features beside the motif; 0 for none.
    gaps : int from 0 to 8, default=0
        Most letters that a word skips. Each way to place them is a pattern of its own.
    alphabet : "dna" or "protein", default="dna"
        The letters of the sequences.
    kmer_weight : float, default=1.0
        Scale of the words: with larger values more of the score is due to them. Choose it by cross-validation.

    Notes
    -----
    X is a collection of strings over A, C, G, T and N, or the letters of the 20 amino acids and X, in upper or lower
    case. Windows with the unknown letter N or X are no candidates, and an (o+1)-mer with it is no feature. Y has the
    labels +1 and −1, 1 and 0, or True and False; predictions use the same labels. A latent is a pair (start, strand)
    with the first letter of the window counted from 0 on the given strand and strand +1 or −1, and None for a negative
    sequence. With a letters in alphabetical order, weight aj + b belongs to letter b at position j; the a^(o+1)
    background weights follow, and then those of the words.

    Examples
    --------
    >>> from latentstruct import Motif
    >>> task = Motif(width=3, background_order=0)
    >>> task.learn(["ACGTTT", "CCCCC"], [1, -1])
    >>> task.n_features
    16
    """

    state_type = MotifState
    tags = TaskTags(
        latent="always",
        soft=True,
        two_temperatures=True,
        classifier=True,
        binary=True,
        threaded_decoding=True,
        refit_parameters=("width", "background_order", "strands", "kmers", "gaps", "kmer_weight"),
    )
    constraints: ClassVar = {
        "width": integer(1, MOST_WIDTH),
        "background_order": integer(0, DNA.most_order) | None,
        "strands": integer(1, 2),
        "kmers": integer(0, MOST_KMERS),
        "gaps": integer(0, MOST_GAPS),
        "alphabet": options(*ALPHABETS),
        "kmer_weight": real(0.0),
    }
    latent = True

    width: int
    background_order: int | None = None
    strands: int = 1
    kmers: int = 0
    gaps: int = 0
    alphabet: str = DNA.name
    kmer_weight: float = 1.0

    def learn_blocks(self, blocks: Iterable[tuple[Any, Any]]) -> None:
        """Check the parameters, and that there are sequences of both kinds in some of the blocks."""
        self._set()
        spelled: dict[tuple[bool, Any], None] = {}
        n_examples = 0
        for X, Y in blocks:
            check_examples(X, Y)
            _positive(Y)
            for y in as_list(Y):
                # True and 1 are different spellings, but equal.
                spelled[isinstance(y, bool | np.bool_), y] = None
            n_examples += len(Y)
        labels = [y for _, y in spelled]
        negative = {int(y) for y in labels if not y > 0}
        if len(negative) > 1:
            raise InputError("Y", Description("both"), "labels where negative ones are either 0 or -1")
        if not negative or max(labels) < 1:
            kind = "negative" if negative else "positive"
            hint = "Shuffled or random genomic sequences can be used as negative ones."
            raise InputError("Y", Description(f"{n_examples} {kind} sequences"), "positive and negative", hint)
        self.labels_ = (False, True) if all(flag for flag, _ in spelled) else (negative.pop(), 1)

    def _set(self) -> None:
        check_parameters(self)
        self.alphabet_ = alphabet = ALPHABETS[self.alphabet]
        self.order_ = alphabet.order if self.background_order is None else self.background_order
        for name, value, most in (
            ("background_order", self.order_, alphabet.most_order),
            ("strands", self.strands, alphabet.strands),
        ):
            if value > most:
                raise InputError(name, value, f"at most {most} with `alphabet` {alphabet.name}")
        self.n_states_ = alphabet.size ** (self.order_ + 1)
        self.words_ = GappedWords(self.kmers, self.gaps, self.strands, alphabet.letters, self.kmer_weight)
        if self.words_.n_features > MOST_WORDS:
            raise InputError(
                "gaps", self.gaps, f"such that there are at most {MOST_WORDS} words", "Or use smaller `kmers`."
            )
        self.first_background_ = alphabet.size * self.width
        self.first_word_ = self.first_background_ + self.n_states_
        self.n_features = self.first_word_ + self.words_.n_features

    def state(self) -> dict[str, Any]:
        return {"n_features": int(self.n_features), "labels": self.labels_}

    def restore(self, state: dict[str, Any]) -> None:
        self.adopt(state)
        if int(state["n_features"]) != self.n_features:
            expected = f"a state with {self.n_features} features, as given by `width` and `background_order`"
            raise InputError("state", Description(f"{state['n_features']} features"), expected)

    def adopt(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found with another width, order or number of strands."""
        self._set()
        self.labels_ = tuple(state["labels"])

    def prepare(self, X: Any, Y: Any = None) -> MotifBatch:
        check_examples(X, Y)
        if isinstance(X, str):
            raise InputError("X", X, "a list of strings")
        return self._batch(*numbered_letters(list(X), self.alphabet_), None if Y is None else _positive(Y))

    def _batch(self, bases: NDArray[np.uint8], offsets: Indices, positive: NDArray[np.bool_] | None) -> MotifBatch:
        layout = self._layout(bases, offsets)
        return MotifBatch(layout, positive, self.words_.rows(bases, offsets) if self.kmers else no_rows())

    def _layout(self, bases: NDArray[np.uint8], offsets: Indices) -> Layout:
        """Number the words and windows of sequences; raise if a sequence has no window."""
        longest = int(np.diff(offsets).max(initial=0))
        require(
            float(BYTES_OF_LETTER * longest + BYTES_OF_LAYOUT * len(bases)),
            "X",
            f"{len(bases)} letters, {longest} of them in one sequence",
            "Split long sequences.",
        )
        codes, contexts = np.empty(len(bases), dtype=np.uint8), np.empty(len(bases), dtype=np.uint16)
        kernels.number_letters(bases, offsets, self.alphabet_.size, self.order_, codes, contexts)
        layout = Layout(bases, codes, contexts, offsets, *_runs(bases, offsets, self.width, self.alphabet_.size))
        empty = np.flatnonzero(np.diff(layout.windows) == 0)
        if len(empty):
            i = int(empty[0])
            raise InputError(
                f"X[{i}]",
                Description(f"{offsets[i + 1] - offsets[i]} letters"),
                f"a sequence with at least {self.width} letters in a row without {self.alphabet_.unknown}",
                "Remove the sequence, or use a smaller `width`.",
            )
        return layout

    def pack(self, batch: MotifBatch) -> Arrays:
        """Return a batch as arrays that can be stored: letters, not windows, so that any width can be chosen later."""
        positive = None if batch.positive is None else batch.positive.view(np.uint8)
        return {"letters": batch.layout.bases, "offsets": batch.layout.offsets, **optional(positive=positive)}

    def unpack(self, arrays: Arrays) -> MotifBatch:
        found = PackedArrays(arrays)
        letters = found.numbers("letters", 0, self.alphabet_.size + 1, dtype=np.uint8)
        offsets = found.pointers("offsets", len(letters))
        positive = found.flags("positive", len(offsets) - 1) if "positive" in found else None
        return self._batch(letters, offsets, positive)

    def true_outputs(self, batch: MotifBatch) -> NDArray:
        return self.classes_[batch.truth().astype(np.int64)]

    def tables(self, w: Vector) -> Tables:
        """Return the weights in the form that windows are scanned with."""
        matrix = self.matrix(w)
        mirrored = matrix[::-1, ::-1].copy() if self.strands == 2 else matrix[:0]
        background = w[self.first_background_ : self.first_word_]
        return Tables(kernels.fold_matrix(matrix), kernels.fold_matrix(mirrored), np.append(background, 0.0))

    def matrix(self, w: Vector) -> NDArray[np.float64]:
        """Return the position-specific weights, shape (width, letters)."""
        return np.ascontiguousarray(w[: self.first_background_]).reshape(self.width, -1)

    def word_scores(self, batch: MotifBatch, w: Vector, rows: Indices | None = None) -> Vector:
        """Return the part of the scores that is due to words, shape (n,)."""
        rows = np.arange(batch.n_examples) if rows is None else rows
        found = np.zeros(len(rows))
        if self.kmers:
            rows_dot(batch.rows, rows, np.ascontiguousarray(w[self.first_word_ :]), found)
        return found

    def best_windows(
        self, batch: MotifBatch, w: Vector, rows: Indices | None = None
    ) -> tuple[Vector, Indices, Indices]:
        """Return score, start and strand of the highest window of each sequence, each of shape (n,), without words."""
        rows = np.arange(batch.n_examples) if rows is None else rows
        values, starts, strands = np.empty(len(rows)), np.empty_like(rows), np.empty_like(rows)
        kernels.best_windows(batch.layout, self.tables(w), self.width, rows, values, starts, strands)
        return values, starts - batch.layout.offsets[rows], strands

    def _window_slopes(self, batch: MotifBatch, starts: Indices, strands: Indices, factors: Vector) -> Slopes:
        """Return the features of one window per example, given by its flat start, times its factor."""
        most, windows = 2 * self.width * int(np.count_nonzero(factors)), (starts, strands, factors)
        atoms = pointers, column, value = np.empty(len(starts) + 1, np.int64), np.empty(most, np.int32), np.empty(most)
        end = kernels.window_atoms(batch.layout, self.width, self.n_states_, *windows, *atoms)
        return Slopes(batch.rows, pointers, Atoms(np.full(end, -1, dtype=np.int32), column[:end], value[:end]))

    def _with_words(self, slopes: Slopes, rows: Indices, factors: Vector) -> Slopes:
        """Add the words of sequences times factors to slopes, one per sequence."""
        if not self.kmers:
            return slopes
        used = np.flatnonzero(factors)
        places = slopes.pointers[used]
        pointers = slopes.pointers + np.concatenate([[0], np.cumsum(factors != 0)])
        added = rows[used], np.full(len(used), self.first_word_), factors[used]
        joined = (np.insert(part, places, more) for part, more in zip(slopes.atoms, added, strict=True))
        return Slopes(slopes.rows, pointers, Atoms(*joined))

    def _sum_of_words(self, batch: MotifBatch, rows: Indices, factors: Vector) -> Vector:
        """Return the sum of the words of sequences times factors."""
        flat, pointers = positions(batch.rows.indptr, rows)
        values = batch.rows.data[flat] * np.repeat(factors, np.diff(pointers))
        return sums_by(batch.rows.places[flat], values, self.words_.n_features)

    def pool_batch(self, batch: MotifBatch, query: Query, order: float = 0.0) -> Pooled:
        """Pool windows, by Rényi entropy if `order` is above 0, and labels of the sequences of a query."""
        rows, temperature = query.examples(batch), query.temperature
        scan, soft = (batch.layout, self.tables(query.w), self.width), order > 0 or temperature != HARD
        # Added to the scores of the negative and of the positive label.
        bonus, n = np.zeros((len(rows), 2)), len(rows)
        if query.mode != "free":
            assert batch.positive is not None
            truth = batch.positive[rows]
            bonus[np.arange(n), 1 - truth] = 1.0 if query.augmented else -np.inf
        bonus[:, 1] += self.word_scores(batch, query.w, rows)
        labels = values, positive = np.empty(n), np.empty(n)
        slopes: Slopes | Vector
        if query.weights is not None and soft and order == 0:
            total = np.zeros(self.first_word_ + 1)
            kernels.soft_total(*scan, rows, bonus, temperature, query.weights, *labels, total)
            words = self._sum_of_words(batch, rows, query.weights * positive) if self.kmers else total[:0]
            slopes = np.concatenate([total[:-1], words])
        elif temperature.latent == 0 and order == 0:
            starts, strands = np.empty((2, n), dtype=np.int64)

            def search(first: int, last: int) -> None:
                part = slice(first, last)
                at, added, tops, shares = rows[part], bonus[part], values[part], positive[part]
                windows = starts[part], strands[part]
                kernels.pool_best_windows(*scan, at, added, temperature.output, tops, shares, *windows)

            query.chunks.run(search, n)
            slopes = self._with_words(self._window_slopes(batch, starts, strands, positive), rows, positive)
        else:
            states = np.minimum(self.n_states_, np.diff(batch.layout.offsets)[rows])
            most = int(states.sum()) + self.first_background_ * n
            pointers, column, value = np.empty(n + 1, dtype=np.int64), np.empty(most, dtype=np.int32), np.empty(most)
            end = kernels.soft_atoms(*scan, rows, bonus, temperature, order, *labels, pointers, column, value)
            atoms = Atoms(np.full(end, -1, dtype=np.int32), column[:end].copy(), value[:end].copy())
            slopes = self._with_words(Slopes(batch.rows, pointers, atoms), rows, positive)
        losses = np.where(truth, 1.0 - positive, positive) if query.augmented else np.zeros(n)
        return Pooled(values, slopes, losses, soft, exact=order == 0)

    def renyi_pool(self, batch: MotifBatch, query: Query, order: float) -> Pooled:
        """Pool labels at ε_y by Δ_i(y) + G_α(y), where windows are pooled by Rényi entropy of order α; G_α(−1) = 0."""
        return self.pool_batch(batch, query, order)

    def cost(self, batch: MotifBatch, mode: Mode, temperature: Temperature) -> Cost:
        """Return the approximate cost per sequence; maxima over windows are split by `Query.chunks`."""
        hard = temperature.latent == 0
        scans = (
            (1.0 if hard else 4.0)
            * self.strands
            * (2.0 + self.width * math.log(self.alphabet_.size, 256))
            * np.diff(batch.layout.windows)
        )
        work = np.where(batch.truth(), scans, 10.0) if mode == "clamped" else scans
        return Cost(work, TABLES_COST, hard)

    def scores(self, batch: MotifBatch, w: Vector, latent_temperature: float = 0.0, order: float = 0.0) -> Vector:
        """Return smax_{ε_h} over h of w·φ'(x, +1, h), or G_α(+1), of each sequence, shape (n,); above 0 means +1."""
        words = self.word_scores(batch, w)
        if latent_temperature == 0:
            return self.best_windows(batch, w)[0] + words
        pooled, rows = np.empty(batch.n_examples), np.arange(batch.n_examples)
        kernels.pooled_windows(batch.layout, self.tables(w), self.width, rows, latent_temperature, order, pooled)
        return pooled + words

    def renyi_scores(self, batch: MotifBatch, w: Vector, order: float) -> Vector:
        """Return G_α(+1) of each sequence, shape (n,); above 0 means +1."""
        return self.scores(batch, w, 1.0, order)

    def window_scores(self, batch: MotifBatch, w: Vector) -> list[NDArray[np.float64]]:
        """Return the scores of all windows, for each sequence of shape (strands, length − width + 1).

        Windows with an unknown letter have the score −inf.
        """
        tables, layout, words, found = self.tables(w), batch.layout, self.word_scores(batch, w), []
        for i, length in enumerate(np.diff(layout.offsets)):
            starts = np.empty(layout.windows[i + 1] - layout.windows[i], dtype=np.int64)
            known = kernels.all_scores(layout, tables, self.width, i, starts)
            found.append(np.full((self.strands, length - self.width + 1), -np.inf))
            found[-1][:, starts - layout.offsets[i]] = known + words[i]
        return found

    def decode(self, batch: MotifBatch, w: Vector, temperature: Temperature, order: float = 0.0) -> list[Prediction]:
        """Return the label of each sequence and, if it is +1, the best window (windows pooled at ε_h)."""
        best, starts, strands = self.best_windows(batch, w)
        pooled = (
            self.scores(batch, w, temperature.latent, order)
            if temperature.latent
            else best + self.word_scores(batch, w)
        )
        negative, positive = self.labels_
        return [
            Prediction(positive, (start, strand), score) if score > 0 else Prediction(negative, None, 0.0)
            for score, start, strand in zip(pooled.tolist(), starts.tolist(), strands.tolist(), strict=True)
        ]

    def renyi_decode(self, batch: MotifBatch, w: Vector, order: float) -> list[Prediction]:
        """Return argmax_y G_α(y) of each sequence and, if it is +1, the best window."""
        return self.decode(batch, w, Temperature(0.0, 1.0), order)

    def collect(self, outputs: list[Any]) -> NDArray:
        """Return predicted labels as an array (n,), spelled as in training."""
        return np.array(outputs, dtype=self.classes_.dtype)

    @property
    def classes_(self) -> NDArray:
        """The negative and the positive label, as spelled in training."""
        return np.array(self.labels_)

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return 0 where the labels agree and 1 elsewhere, whatever the windows are."""
        true, predicted = _positive(Y_true, "Y_true"), _positive(Y_pred, "Y_pred")
        check_length(predicted, len(true), "Y_pred", "labels")
        return (true != predicted).astype(np.float64)

    def complete(self, batch: MotifBatch, w: Vector) -> list[Window]:
        """Return the best window of each positive sequence, and None for the negative ones."""
        rows = np.flatnonzero(batch.truth())
        _, starts, strands = self.best_windows(batch, w, rows)
        return self._latents(batch, rows, starts, strands)

    def _latents(self, batch: MotifBatch, rows: Indices, starts: Indices, strands: Indices) -> list[Window]:
        latents: list[Window] = [None] * batch.n_examples
        for i, start, strand in zip(rows.tolist(), starts.tolist(), strands.tolist(), strict=True):
            latents[i] = (start, strand)
        return latents

    def completion_planes(self, batch: MotifBatch, latents: Sequence[Any]) -> Planes:
        """Return the planes φ'(x_i, y_i, h_i)·w of given windows."""
        positive = batch.truth()
        require_one_latent_each(batch, latents)
        starts, strands = np.zeros(len(positive), dtype=np.int64), np.ones(len(positive), dtype=np.int64)
        for i, latent in enumerate(latents):
            if positive[i]:
                starts[i], strands[i] = self._checked_window(batch.layout, i, latent)
            elif latent is not None:
                raise InputError(f"latents[{i}]", latent, "None for a negative sequence")
        factors = positive.astype(np.float64)
        slopes = self._window_slopes(batch, starts, strands, factors)
        return latent_planes(self, self._with_words(slopes, np.arange(len(factors)), factors))

    def _checked_window(self, layout: Layout, i: int, latent: Any) -> tuple[int, int]:
        """Return flat start and strand of a window."""
        try:
            start, strand = map(int, latent)
            whole = start == latent[0] and strand == latent[1]
        except (TypeError, ValueError, IndexError, OverflowError):
            whole = False
        if not whole or strand not in ((1, -1) if self.strands == 2 else (1,)):
            expected = "1 or -1" if self.strands == 2 else "1"
            raise InputError(f"latents[{i}]", latent, f"two integers (start, strand) with strand {expected}")
        flat, runs = layout.offsets[i] + start, slice(layout.runs[i], layout.runs[i + 1])
        if not ((layout.first[runs] <= flat) & (flat < layout.stop[runs])).any():
            length = layout.offsets[i + 1] - layout.offsets[i]
            raise InputError(
                f"latents[{i}]",
                latent,
                f"a window without {self.alphabet_.unknown} that starts at a position from 0 to {length - self.width}",
            )
        return flat, strand

    def random_latents(self, batch: MotifBatch, rng: np.random.Generator) -> list[Window]:
        """Return a window for each positive sequence, drawn uniformly among all of its windows and strands."""
        rows, layout = np.flatnonzero(batch.truth()), batch.layout
        counts = layout.windows[rows + 1] - layout.windows[rows]
        drawn = (rng.random(len(rows)) * counts * self.strands).astype(np.int64)
        number = layout.windows[rows] + drawn % counts
        # Windows are numbered run by run, so a window's run is found by its number.
        before = offsets_from_lengths(layout.stop - layout.first)
        run = np.searchsorted(before, number, side="right") - 1
        starts = layout.first[run] + number - before[run] - layout.offsets[rows]
        return self._latents(batch, rows, starts, np.where(drawn < counts, 1, -1))

    def initial_latents(self, batch: MotifBatch, rng: np.random.Generator, attempt: int) -> list[Window]:
        """Return the windows of the `attempt`-th best of the motifs that grow from enriched words.

        Words that are enriched in positive sequences relative to the negative ones are refined to matrices by
        expectation maximization (see `latentstruct.tasks.motif.starts`). Further attempts use the same motifs in
        another phase: all windows are moved by one random distance of up to half the width. Windows are random if no
        word is enriched.
        """
        rows = np.flatnonzero(batch.truth())
        if batch.starts is None:
            batch.starts = refined_motifs(self, batch)
        if not batch.starts:
            return self.random_latents(batch, rng)
        starts, strands, _ = batch.starts[attempt % len(batch.starts)]
        if attempt >= len(batch.starts):
            reach = max(1, self.width // 2)
            starts = self.moved(batch, rows, starts, strands, int(rng.choice([-1, 1]) * rng.integers(1, reach + 1)))
        return self._latents(batch, rows, starts, strands)

    def moved(self, batch: MotifBatch, rows: Indices, starts: Indices, strands: Indices, distance: int) -> Indices:
        """Return the starts moved along their strands, unchanged where there is no such window."""
        layout = batch.layout
        flat = layout.offsets[rows] + starts + distance * strands
        run = np.searchsorted(layout.first, flat, side="right") - 1
        inside = (run >= layout.runs[rows]) & (run < layout.runs[rows + 1]) & (flat < layout.stop[run])
        return np.where(inside, flat - layout.offsets[rows], starts)


def _positive(Y: Any, name: str = "Y") -> NDArray[np.bool_]:
    """Return which labels are positive."""
    labels = as_list(Y)
    positive = np.empty(len(labels), dtype=bool)
    for i, y in enumerate(labels):
        if not (isinstance(y, Real | np.bool_) and y in (1, 0, -1)):
            raise InputError(f"{name}[{i}]", y, "a label: 1 or -1, 1 or 0, or True or False")
        positive[i] = y == 1
    return positive


def numbered_letters(X: list[Any], alphabet: Alphabet, name: str = "X") -> tuple[NDArray[np.uint8], Indices]:
    """Return the letters of all sequences as numbers, and the offsets of the sequences."""
    expected = f"a string of the letters {alphabet.letters}{alphabet.unknown}"
    for i, x in enumerate(X):
        if not isinstance(x, str):
            raise InputError(f"{name}[{i}]", x, expected)
    offsets = offsets_from_lengths(map(len, X))
    # One byte per character, whatever it is, so that positions in the text are positions in the array.
    text = "".join(X).encode("latin-1", errors="replace")
    bases = alphabet.numbers[np.frombuffer(text, dtype=np.uint8)]
    if len(bases) and bases.max() == 255:
        at = int(np.argmax(bases == 255))
        i = int(np.searchsorted(offsets, at, side="right")) - 1
        place = at - int(offsets[i])
        got = Description(f"{repr_short(X[i][place])} at position {place}")
        raise InputError(f"{name}[{i}]", got, expected, f"Replace other letters by {alphabet.unknown}.")
    return bases, offsets


def _runs(bases: NDArray[np.uint8], offsets: Indices, width: int, n_letters: int) -> tuple[Indices, ...]:
    """Return the runs of windows without unknown letters, as `Layout` has them from `runs` to `sizes`."""
    unknown = np.flatnonzero(bases == n_letters)
    # A run begins at the start of a sequence or after an unknown letter, and ends at the next of either.
    begins = np.concatenate([offsets[:-1], unknown + 1])
    owners = np.searchsorted(offsets, np.concatenate([offsets[:-1], unknown]), side="right") - 1
    owners[: len(offsets) - 1] = np.arange(len(offsets) - 1)
    order = np.lexsort((begins, owners))
    begins, owners = begins[order], owners[order]
    next_unknown = np.append(unknown, len(bases))[np.searchsorted(unknown, begins)]
    stops = np.minimum(offsets[owners + 1], next_unknown) - width + 1
    kept = stops > begins
    begins, stops, owners = begins[kept], stops[kept], owners[kept]
    n = len(offsets) - 1
    runs = offsets_from_lengths(np.bincount(owners, minlength=n))
    windows = offsets_from_lengths(np.bincount(owners, weights=stops - begins, minlength=n).astype(np.int64))
    sizes = np.array([(stops - begins).max(initial=0), np.diff(windows).max(), n_letters])
    return runs, begins, stops, windows, sizes
