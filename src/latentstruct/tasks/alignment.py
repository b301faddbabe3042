"""Alignment of two sequences with learned substitution scores and affine gap costs."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from latentstruct.checks import check_flag, numbers_of
from latentstruct.core.protocols import Mode, Prediction, Temperature
from latentstruct.exceptions import InputError
from latentstruct.kernels import alignment as kernels
from latentstruct.kernels import alignment_sums as sums
from latentstruct.planes import Plane, Planes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths
from latentstruct.sequences import (
    AMINO_ACIDS,
    Matches,
    SequenceTracks,
    check_matches,
    check_pairs,
    count_hits,
    upper_letters,
)
from latentstruct.short_repr import show
from latentstruct.tasks.alignment_batch import AlignmentBatch, empty_atoms, made_planes
from latentstruct.tasks.alignment_features import (
    ORDERS,
    TRACK_NAMES,
    AlignmentFeatures,
    SequencePairs,
    TrackAlphabets,
    derived_accessibility,
    derived_structure,
    encode_letters,
)
from latentstruct.tasks.base import BaseTask, check_examples, require_labels, require_one_latent_each

MOST_CELLS = 10**9
"""Largest product of the lengths of a pair: so many bytes are needed to trace the best path back."""
MOST_POOLED_CELLS = 10**8
"""The same for sums over all alignments, which take 24 bytes a cell, and for all marginals of a batch together."""
LINEAR_DOMAIN_SPREAD = 100.0
"""Largest score of a step, in temperatures, for which sums over paths are not kept as logarithms."""


class GapCosts(NamedTuple):
    """What a gap of k letters costs: open + (k − 1)·extend.

    Attributes
    ----------
    open, extend : float
        Cost of the first letter of a gap, and of each further one.
    """

    open: float
    extend: float


class AlignmentState(TypedDict):
    """What `Alignment` learns as plain lists, as files have it: letters, structure and accessibility."""

    alphabets: tuple[str | None, str | None, str | None]
    n_profile: int


class Alignment(BaseTask):
    """Alignment of two sequences: s(y) = Σ_{(i,j)∈y} s(i, j) − open·(gaps) − extend·(further letters of gaps).

    Parameters
    ----------
    features : {"simple", "anova2", "tensor", "window", "profile"}, default="simple"
        What a match is scored by; each has all tables of those before it. With tracks (letters, secondary structure,
        accessibility, as far as the sequences have them)

        - *simple*: tables of one track against one track; with letters only, a substitution matrix;
        - *anova2*: of two tracks together against two;
        - *tensor*: of all three against all three;
        - *window*: tables of the neighbourhood too: which of five letters are hydrophobic, and the structure of three
          positions; anova2 and tensor as far as there are tracks;
        - *profile*: products of the profiles' columns too, one weight a column; and, if columns are letters (P = 20 in
          the order of PSI-BLAST, or all of the alphabet), the profile of one side at the letter of the other.
    mode : {"local", "global"}, default="local"
        Local alignments leave both ends out for nothing; global ones pay for gaps there too.
    alphabet : str or None, default="ARNDCQEGHILKMFPSTWYVBZX"
        All letters that may occur; None for those of the training data.
    tolerance : int, default=4
        t of the loss: so far off may a match be and still count.
    symmetric : bool, default=True
        Whether s does not change when the sequences change places.
    derived : bool, default=False
        Whether tracks that are not given are guessed from the letters of a protein: helix, strand or turn by the
        propensities of the neighbours, buried to exposed by their hydropathy.
    partial : bool, default=False
        Whether Y has only the matches that are sure. What the alignment does elsewhere is then latent.

    Notes
    -----
    X is a sequence of pairs (a, b), each a string or `SequenceTracks`. Y is a sequence of arrays (m, 2) of matched
    positions (i, j) from 0, both strictly increasing; predictions have the same form. Where letters of both sequences
    are left out between two matches, those of a come first, so that a set of matches has exactly one path.

    The loss is Δ(y, ŷ) = 1 − |{(i, j) ∈ ŷ : |j − y(i)| ≤ t}| / |y|, the share of true matches whose i is matched more
    than t positions off or not at all (Q-loss for t = 0, Q4-loss for t = 4); it is 0 if y has no matches.

    Weights are those of the tables, of the profile, and the costs of opening a gap and of each further letter in it,
    whose features are negative counts: see `substitution_matrix` and `gap_costs`. With ``partial=True`` soft
    temperatures must be equal for outputs and latents.

    Examples
    --------
    >>> from latentstruct import Alignment, StructuralSVM
    >>> pairs = [("HEAGAW", "HEAAW"), ("PAWHEA", "PAWEA")]  # the G of the first and the H of the second are lost
    >>> matches = [[(0, 0), (1, 1), (2, 2), (4, 3), (5, 4)], [(0, 0), (1, 1), (2, 2), (4, 3), (5, 4)]]
    >>> model = StructuralSVM(Alignment(mode="global", tolerance=0), C=10.0).fit(pairs, matches)
    >>> model.loss(pairs, matches).tolist()
    [0.0, 0.0]
    """

    decodes_in_threads = True

    def __init__(
        self,
        features: str = "simple",
        mode: str = "local",
        alphabet: str | None = AMINO_ACIDS,
        tolerance: int = 4,
        symmetric: bool = True,
        derived: bool = False,
        partial: bool = False,
    ) -> None:
        self.features = features
        self.mode = mode
        self.alphabet = alphabet
        self.tolerance = tolerance
        self.symmetric = symmetric
        self.derived = derived
        self.partial = partial

    def learn(self, X: Any, Y: Any) -> None:
        """Find the letters of the tracks and the width of the profiles."""
        check_examples(X, Y)
        self._check_parameters()
        pairs = self._with_derived(check_pairs(X))
        every = [sequence for pair in pairs for sequence in pair]
        alphabets = [self._alphabet(every, track) for track in TRACK_NAMES]
        if self.alphabet is not None:
            alphabets[0] = upper_letters(self.alphabet)
        widths = {0 if sequence.profile is None else sequence.profile.shape[1] for sequence in every}
        self._set(alphabets, max(widths) if self.features == "profile" else 0)
        if self.features == "profile" and self.features_.n_profile == 0:
            raise InputError("features='profile' needs a profile of each sequence, found none: choose 'window'")
        if not any(len(y) for y in self._truths(Y, pairs)):
            raise InputError(
                f"none of the {len(pairs)} alignments in Y has a match; expected some to learn from: give the matched "
                "positions of each pair"
            )

    def _check_parameters(self) -> None:
        for name, found, known in (("features", self.features, ORDERS), ("mode", self.mode, ("local", "global"))):
            if not (isinstance(found, str) and found in known):
                raise InputError(
                    f"{name} is {show(found)}, expected one of {', '.join(map(repr, known))}: choose one of these"
                )
        for name in ("symmetric", "derived", "partial"):
            check_flag(getattr(self, name), name)
        whole = isinstance(self.tolerance, int | np.integer) and not isinstance(self.tolerance, bool)
        if not whole or not 0 <= self.tolerance <= MOST_CELLS:
            raise InputError(
                f"tolerance is {show(self.tolerance)}, expected a whole number from 0 to {MOST_CELLS}: choose 4 for Q4"
            )
        if self.alphabet is not None and not isinstance(self.alphabet, str):
            raise InputError(
                f"alphabet is {show(self.alphabet)}, expected a string of letters or None: give the letters, or None "
                "for those of the sequences"
            )
        if self.alphabet is not None and not 0 < len(self.alphabet) == len(set(upper_letters(self.alphabet))):
            raise InputError(
                f"alphabet is {show(self.alphabet)}, expected at least one letter and each of them once: remove the "
                "repeated ones"
            )

    @staticmethod
    def _alphabet(sequences: Sequence[SequenceTracks], track: str) -> str | None:
        """Return the letters of a track in alphabetical order, None if no sequence has it."""
        texts = [text for sequence in sequences if (text := getattr(sequence, track)) is not None]
        return "".join(sorted(set().union(*texts))) if texts else None

    def _with_derived(self, pairs: SequencePairs) -> SequencePairs:
        """Guess the tracks that are not given, if that is wanted."""
        if not self.derived:
            return pairs

        def completed(sequence: SequenceTracks) -> SequenceTracks:
            given, letters = sequence, sequence.letters
            return sequence._replace(
                structure=derived_structure(letters) if given.structure is None else given.structure,
                accessibility=derived_accessibility(letters) if given.accessibility is None else given.accessibility,
            )

        return [(completed(a), completed(b)) for a, b in pairs]

    def _set(self, alphabets: Sequence[str | None], n_profile: int) -> None:
        self._check_parameters()
        letters, structure, accessibility = alphabets
        tracks = TrackAlphabets(letters or "", structure, accessibility)
        self.features_ = AlignmentFeatures(self.features, tracks, n_profile, bool(self.symmetric))
        self.latent = bool(self.partial)
        self.n_features = self.features_.n_weights

    def state(self) -> dict[str, Any]:
        """Return what `learn` found, for saving."""
        return {"alphabets": list(self.features_.alphabets), "n_profile": self.features_.n_profile}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        self._set(state["alphabets"], int(state["n_profile"]))

    def _truths(self, Y: Any, pairs: SequencePairs) -> list[Matches]:
        return [
            check_matches(y, f"alignment {k} of Y", (len(a.letters), len(b.letters)))
            for k, (y, (a, b)) in enumerate(zip(Y, pairs, strict=True))
        ]

    def prepare(self, X: Any, Y: Any = None) -> AlignmentBatch:
        """Encode the sequences and lay pairs and references out in flat arrays."""
        check_examples(X, Y)
        pairs = self._with_derived(check_pairs(X))
        for k, (a, b) in enumerate(pairs):
            if len(a.letters) * len(b.letters) > MOST_CELLS:
                raise InputError(
                    f"pair {k} has {len(a.letters)} and {len(b.letters)} letters, expected a product of at most "
                    f"{MOST_CELLS}: cut the sequences"
                )
        truth = None if Y is None else self._truths(Y, pairs)
        starts = offsets_from_lengths(len(a.letters) for a, _ in pairs)
        partner = np.full(starts[-1], -1, dtype=np.int64)
        for start, matches in zip(starts[:-1], truth or (), strict=truth is not None):
            partner[start + matches[:, 0]] = matches[:, 1]
        return AlignmentBatch(self.features_.lay_out(pairs, partner), truth, self.features_, self.mode == "local")

    def _scoring(self, w: Vector, temperature: float = 1.0) -> kernels.Scoring:
        scaled = w / temperature
        numbering = self.features_.numbering
        floor = 0.0 if self.mode == "local" else -np.inf
        costs = float(scaled[-2]), float(scaled[-1])
        tables = self.features_.cells(scaled)
        return kernels.Scoring(tables, scaled[numbering.dense], *costs, floor, int(self.tolerance))

    def _linear(self, batch: AlignmentBatch, scoring: kernels.Scoring, gains: Vector) -> sums.Linear:
        """Return the weights of steps in the linear domain, where they fit; raise if sums need too much room."""
        heights, widths = np.diff(batch.pairs.first_a), np.diff(batch.pairs.first_b)
        largest = int(np.argmax(heights * widths))
        if heights[largest] * widths[largest] > MOST_POOLED_CELLS:
            raise InputError(
                f"pair {largest} has {heights[largest]} and {widths[largest]} letters; expected a product of at most "
                f"{MOST_POOLED_CELLS} for sums over alignments, which take 24 bytes a cell: cut the sequences, or use "
                "StructuralSVM, which needs the best alignment only"
            )
        cells, local = self.features_.numbering.cells, self.mode == "local"
        most = sum(float(np.abs(scoring.tables[start:end]).max()) for start, end in pairwise(cells.tolist()))
        most += abs(scoring.open) + 2.0 * abs(scoring.extend) + float(gains.max(initial=0.0))
        if len(scoring.dense):
            left, right = np.abs(batch.pairs.left).max(axis=0), np.abs(batch.pairs.right).max(axis=1)
            most += float((np.abs(scoring.dense) * left * right).sum())
        if most > LINEAR_DOMAIN_SPREAD:
            return sums.Linear(np.zeros(0), 0.0, 0.0, 0.0, 0.0, False)
        extra = 0.0 if local else scoring.extend
        tables = np.exp(scoring.tables)
        tables[: cells[1]] *= np.exp(2.0 * extra)
        gap, more = np.exp(extra - scoring.open), np.exp(extra - scoring.extend)
        return sums.Linear(tables, float(gap), float(more), float(local), float(extra), True)

    def _effective(self, temperature: Temperature) -> float:
        """Return the one temperature that all paths are pooled at."""
        if self.latent and temperature.output != temperature.latent:
            raise InputError(
                f"Alignment with partial=True pools outputs and latents at one temperature, but {tuple(temperature)} "
                "was asked: use LatentSSVM or HiddenCRF"
            )
        return temperature.output

    def _gains(self, batch: AlignmentBatch, mode: Mode, chosen: Indices) -> Vector:
        return batch.gains[chosen] if mode == "augmented" else np.zeros(len(chosen))

    def _best(
        self, batch: AlignmentBatch, w: Vector, mode: Mode, chosen: Indices
    ) -> tuple[Matches, Indices, Vector, Vector]:
        """Return the matches of the best paths, their pointers, the losses they have and the values."""
        gains, scoring = self._gains(batch, mode, chosen), self._scoring(w)
        matches = np.empty((batch.longest(chosen), 2), dtype=np.int64)
        pointers, values = np.empty(len(chosen) + 1, dtype=np.int64), np.empty(len(chosen))
        clamped = mode == "clamped"
        kernels.best_paths(batch.pairs, scoring, chosen, gains, clamped, matches, pointers, values)
        hits = np.empty(len(chosen))
        kernels.count_hits(batch.pairs, chosen, matches, pointers, scoring.tolerance, hits)
        losses = (gains > 0) - hits * gains
        return matches[: pointers[-1]], pointers, losses, values + (gains > 0)

    def planes(
        self, batch: AlignmentBatch, w: Vector, mode: Mode, temperature: Temperature, rows: Indices | None = None
    ) -> Planes:
        """Return one supporting plane for each asked pair."""
        require_labels(batch, mode)
        chosen = np.arange(batch.n_examples) if rows is None else np.asarray(rows, dtype=np.int64)
        if mode == "clamped" and not self.latent:
            planes = batch.true_planes.take(chosen)
            planes.values = planes.dot(w)
            return planes
        effective = self._effective(temperature)
        if effective > 0:
            return self._soft_planes(batch, w, mode, effective, chosen)
        matches, pointers, losses, values = self._best(batch, w, mode, chosen)
        return batch.path_planes(chosen, matches, pointers, losses, values)

    def _soft_planes(self, batch: AlignmentBatch, w: Vector, mode: Mode, temperature: float, chosen: Indices) -> Planes:
        scoring, gains = self._scoring(w, temperature), self._gains(batch, mode, chosen) / temperature
        numbering = self.features_.numbering
        each = int(numbering.each.sum())
        lengths_a, lengths_b = (np.diff(first)[chosen] for first in (batch.pairs.first_a, batch.pairs.first_b))
        most = np.minimum(lengths_a * lengths_b * each + len(numbering.dense) + 2, numbering.n_weights)
        atoms, ends, values = (
            empty_atoms(int(most.sum())),
            np.empty(len(chosen) + 1, dtype=np.int64),
            np.empty(len(chosen)),
        )
        linear, clamped = self._linear(batch, scoring, gains), mode == "clamped"
        sums.pool_apart(batch.pairs, scoring, linear, numbering, chosen, gains, clamped, values, ends, atoms)
        values = temperature * values + (gains > 0)
        planes = made_planes(ends, atoms, np.zeros(len(chosen)), values, self.n_features)
        planes.offsets = values - planes.dot(w)
        return planes

    def work(self, batch: AlignmentBatch, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each pair takes, shape (n,)."""
        cells = np.diff(batch.pairs.first_a) * np.diff(batch.pairs.first_b)
        if mode == "clamped" and not self.latent:
            return np.full(len(cells), 100.0)
        return cells * (6.0 if temperature.output == 0 else 10.0)

    def overhead(self, batch: AlignmentBatch) -> float:
        """Return about how many nanoseconds the tables of scores take."""
        return 5.0 * float(self.features_.numbering.cells[-1])

    def total(
        self,
        batch: AlignmentBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        weights: Vector,
        rows: Indices | None = None,
    ) -> Plane:
        """Return the weighted sum of the asked pairs' planes."""
        require_labels(batch, mode)
        alone = mode == "clamped" and not self.latent
        effective = 0.0 if alone else self._effective(temperature)
        if effective == 0:
            return super().total(batch, w, mode, temperature, weights, rows)
        chosen = np.arange(batch.n_examples) if rows is None else rows
        scoring, gains = self._scoring(w, effective), self._gains(batch, mode, chosen) / effective
        numbering = self.features_.numbering
        cells, dense, gaps = np.zeros(numbering.cells[-1]), np.zeros(len(numbering.dense)), np.zeros(2)
        hits, values = np.empty(len(chosen)), np.empty(len(chosen))
        linear, clamped = self._linear(batch, scoring, gains), mode == "clamped"
        sums.pool_together(
            batch.pairs, scoring, linear, chosen, gains, clamped, weights, cells, dense, gaps, hits, values
        )
        slope = np.zeros(self.n_features)
        self.features_.pull_back(cells, slope)
        np.add.at(slope, numbering.dense, dense)
        slope[-2:] = -gaps
        values = effective * values + (gains > 0)
        offset = float(weights @ values) - float(slope @ w)
        loss = float(weights @ ((gains > 0) - hits * gains * effective))
        return Plane(slope, offset, entropy=offset - loss)

    def _decoded(self, batch: AlignmentBatch, w: Vector, mode: Mode) -> tuple[list[Matches], Vector]:
        matches, pointers, _, values = self._best(batch, w, mode, np.arange(batch.n_examples))
        return [matches[start:end] for start, end in pairwise(pointers.tolist())], values

    def decode(self, batch: AlignmentBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best alignment of each pair: matches (m, 2)."""
        found, values = self._decoded(batch, w, "free")
        return [
            Prediction(matches, matches if self.latent else None, value)
            for matches, value in zip(found, values.tolist(), strict=True)
        ]

    def align(self, pairs: Any, w: Vector) -> list[Matches]:
        """Return the best alignment of each pair of a batch, or of pairs of sequences."""
        batch = pairs if isinstance(pairs, AlignmentBatch) else self.prepare(pairs)
        return self._decoded(batch, w, "free")[0]

    def align_scores(self, batch: AlignmentBatch, w: Vector) -> Vector:
        """Return the score of the best alignment of each pair, shape (n,), without tracing it back."""
        values = np.empty(batch.n_examples)
        kernels.best_scores(batch.pairs, self._scoring(w), np.arange(batch.n_examples), values)
        return values

    def complete(self, batch: AlignmentBatch, w: Vector) -> list[Matches]:
        """Return the best alignment of each pair among those that contain the sure matches."""
        require_labels(batch, "clamped")
        return self._decoded(batch, w, "clamped")[0]

    def completion_planes(self, batch: AlignmentBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of whole alignments, which must contain the sure matches, as planes."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        assert batch.truth is not None
        both = enumerate(zip(latents, batch.sizes, strict=True))
        found = [check_matches(h, f"latent {k}", size) for k, (h, size) in both]
        for k, (h, y) in enumerate(zip(found, batch.truth, strict=True)):
            missing = set(map(tuple, y.tolist())) - set(map(tuple, h.tolist()))
            if missing:
                raise InputError(
                    f"latent {k} lacks the match {min(missing)} of its alignment in Y, expected all of them: add it"
                )
        nothing, pointers = np.zeros(len(found)), offsets_from_lengths(map(len, found))
        return batch.path_planes(np.arange(len(found)), np.concatenate(found), pointers, nothing, nothing.copy())

    def random_latents(self, batch: AlignmentBatch, rng: np.random.Generator) -> list[Matches]:
        """Return alignments that contain the sure matches, best by substitution scores drawn at random."""
        w = np.concatenate([rng.normal(size=self.n_features - 2), [1.0, 0.5]])
        return self.complete(batch, w)

    def initial_latents(self, batch: AlignmentBatch, rng: np.random.Generator, attempt: int) -> list[Matches]:
        """Return the sure matches alone; at later attempts they are completed at random."""
        require_labels(batch, "clamped")
        assert batch.truth is not None
        return self.random_latents(batch, rng) if attempt else list(batch.truth)

    def _pooled_scoring(self, w: Vector, temperature: Temperature) -> kernels.Scoring:
        effective = self._effective(temperature)
        if effective <= 0:
            raise InputError(f"marginals need a temperature above 0, found {effective}: use decode for the best one")
        return self._scoring(w, effective)

    def marginals(self, batch: AlignmentBatch, w: Vector, temperature: Temperature) -> list[NDArray[np.float64]]:
        """Return the probability of each match, a list of arrays (length of a, length of b)."""
        chosen, scoring = np.arange(batch.n_examples), self._pooled_scoring(w, temperature)
        heights, widths = np.diff(batch.pairs.first_a), np.diff(batch.pairs.first_b)
        pointers = offsets_from_lengths(heights * widths)
        if pointers[-1] > MOST_POOLED_CELLS:
            raise InputError(
                f"the marginals of {batch.n_examples} pairs have {pointers[-1]} numbers, expected at most "
                f"{MOST_POOLED_CELLS}: ask for fewer pairs at a time, or for the confidence of the predicted matches"
            )
        out = np.empty(pointers[-1])
        linear = self._linear(batch, scoring, np.zeros(0))
        sums.pool_matches(batch.pairs, scoring, linear, chosen, pointers, out)
        shapes = zip(heights.tolist(), widths.tolist(), strict=True)
        return [part.reshape(shape) for part, shape in zip(np.split(out, pointers[1:-1]), shapes, strict=True)]

    def confidence(
        self, batch: AlignmentBatch, w: Vector, temperature: Temperature, predictions: Sequence[Any]
    ) -> list[Vector]:
        """Return the probability of each predicted match, a list of arrays (m,)."""
        outputs = [found.y if isinstance(found, Prediction) else found for found in predictions]
        check_examples(outputs, batch.pairs.first_a[1:])
        found = [
            check_matches(y, f"prediction {k}", size)
            for k, (y, size) in enumerate(zip(outputs, batch.sizes, strict=True))
        ]
        scoring, pointers = self._pooled_scoring(w, temperature), offsets_from_lengths(map(len, found))
        linear, chosen = self._linear(batch, scoring, np.zeros(0)), np.arange(batch.n_examples)
        shares = np.empty(pointers[-1])
        sums.pool_given(batch.pairs, scoring, linear, chosen, np.concatenate(found), pointers, shares)
        return np.split(shares, pointers[1:-1])

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return the share of each alignment's true matches that are more than the tolerance off, or missing."""
        check_examples(Y_pred, Y_true)
        losses = np.zeros(len(Y_true))
        for k, (truth, predicted) in enumerate(zip(Y_true, Y_pred, strict=True)):
            y, found = check_matches(truth, f"alignment {k} of Y_true"), check_matches(predicted, f"alignment {k}")
            if len(y):
                losses[k] = 1.0 - count_hits(y, found, self.tolerance) / len(y)
        return losses

    def substitution_matrix(self, w: Vector) -> tuple[str, NDArray[np.float64]]:
        """Return the alphabet and the scores (S, S) of its letters against each other; other tables are left out."""
        letters = self.features_.alphabets.letters
        numbers = self.features_.letter_numbers()
        return letters, w[numbers]

    def gap_costs(self, w: Vector) -> GapCosts:
        """Return what opening a gap and each further letter in it cost."""
        return GapCosts(float(w[-2]), float(w[-1]))

    def fixed_weights(self, matrix: tuple[str, Any], gap_open: float, gap_extend: float) -> Vector:
        """Return the weights (d,) that align by a given substitution matrix.

        Parameters
        ----------
        matrix : (str, array of shape (K, K))
            Letters, among them all of the alphabet, and their scores.
        gap_open, gap_extend : float
            Cost of the first letter of a gap, and of each further one. BLAST's "existence 11, extension 1" is 12 and 1.
        """
        letters, scores = matrix[0], numbers_of(matrix[1], "the scores of the matrix")
        if scores.shape != (len(letters), len(letters)) or not np.isfinite(scores).all():
            raise InputError(
                f"the matrix has shape {scores.shape} for {len(letters)} letters, expected finite scores of shape "
                f"({len(letters)}, {len(letters)}): give one score for each pair of letters"
            )
        alphabet = self.features_.alphabets.letters
        places = encode_letters(alphabet, letters, "the alphabet", "give a matrix with all letters of the alphabet")
        chosen = scores[np.ix_(places, places)]
        if self.symmetric and not np.array_equal(chosen, chosen.T):
            raise InputError("the matrix is not symmetric, but the task has symmetric=True: use symmetric=False")
        w = np.zeros(self.n_features)
        w[self.features_.letter_numbers()] = chosen
        w[-2:] = gap_open, gap_extend
        if not np.isfinite(w).all():
            raise InputError(
                f"gap costs must be finite numbers, found {show(gap_open)} and {show(gap_extend)}: give numbers such "
                "as 10 and 1"
            )
        return w
