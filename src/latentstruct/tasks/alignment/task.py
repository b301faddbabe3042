"""Alignment of two sequences with learned substitution scores and affine gap costs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import alignment as kernels
from latentstruct.core.pooling import check_query, latent_planes, pool_known
from latentstruct.core.protocols import HARD, Cost, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, positions, split
from latentstruct.core.validation import Constraint, boolean, check_parameters, finite_of, integer, options, real
from latentstruct.data.sequences import AMINO_ACIDS, Matches, check_matches, check_pairs, count_hits, upper_letters
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Planes, Slopes
from latentstruct.tasks.alignment.features import (
    ORDERS,
    AlignmentFeatures,
    Pairs,
    Scoring,
    SequencePairs,
    TrackAlphabets,
    encode_letters,
    find_alphabets,
    sizes_of,
    with_derived,
)
from latentstruct.tasks.alignment.paths import all_paths
from latentstruct.tasks.base import BaseTask, check_examples, outputs_of, require_labels
from latentstruct.tasks.derived import Derivable, DerivedAnswers
from latentstruct.tasks.row_parts import require_latents

MOST_CELLS = 10**9
"""Largest product of the lengths of a pair, which is the number of bytes needed to trace the best path back."""
MOST_POOLED_CELLS = 10**8
"""The same for sums over all alignments, which take 24 bytes per cell, and for all marginals of a batch together."""
MOST_DERIVED_CELLS = 10**6
"""The same for the best alignments and for samples, which take about 1.7 kB per cell."""
LINEAR_DOMAIN_SPREAD = 100.0
"""Largest score of a step, in temperatures, for which sums over paths are not kept as logarithms."""


def _is_alphabet(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) == len(set(upper_letters(value)))


class GapCosts(NamedTuple):
    """Cost of a gap of k letters: open + (k − 1)·extend.

    Attributes
    ----------
    open, extend : float
        Cost of the first letter of a gap, and of each further one.
    """

    open: float
    extend: float


class AlignmentState(TypedDict):
    """What `Alignment` learns, as stored in files: alphabets of letters, structure and accessibility."""

    alphabets: tuple[str | None, str | None, str | None]
    n_profile: int


@dataclass
class AlignmentBatch:
    """Pairs of sequences in flat arrays; the reference of pair k, if known, is truth[pointers[k] : pointers[k + 1]]."""

    pairs: Pairs
    truth: Matches | None
    pointers: Indices
    known_slopes: Slopes | None = None  # features of the references

    def __post_init__(self) -> None:
        self.heights, self.widths = np.diff(self.pairs.first_a), np.diff(self.pairs.first_b)
        self.n_examples, self.labeled = len(self.heights), self.truth is not None
        self.sizes = list(zip(self.heights.tolist(), self.widths.tolist(), strict=True))
        # How much a hit lowers the loss, 1 / |y|: 0 if y has no matches.
        counts = np.diff(self.pointers)
        self.hit_gains = np.divide(1.0, counts, out=np.zeros(len(counts)), where=counts > 0)

    def references(self, chosen: Indices) -> tuple[Matches, Indices]:
        """Return the matches of the chosen references, one reference after the other, and their pointers."""
        assert self.truth is not None
        places, pointers = positions(self.pointers, chosen)
        return self.truth[places], pointers

    def gains(self, query: Query) -> Vector:
        """Return how much a hit lowers the loss in the function of a query: 0 outside augmented mode."""
        chosen = query.examples(self)
        return self.hit_gains[chosen] if query.augmented else np.zeros(len(chosen))


def check_each(alignments: Any, name: str, sizes: Iterable[tuple[int, int]]) -> list[Matches]:
    """Return the checked matches of each pair; `name` is a format string for the number of the pair."""
    both = zip(alignments, sizes, strict=True)
    return [check_matches(matches, name.format(k), size) for k, (matches, size) in enumerate(both)]


@dataclass(eq=False, repr=False)
class Alignment(DerivedAnswers, BaseTask):
    """Alignment of two sequences: s(y) = Σ_{(i,j)∈y} s(i, j) − open·(gaps) − extend·(further letters of gaps).

    Parameters
    ----------
    features : {"simple", "anova2", "tensor", "window", "profile"}, default="simple"
        Features of a match; each option includes all tables of those before it. With tracks (letters, and secondary
        structure and accessibility if the sequences have them)

        - *simple*: tables of one track against one track; with letters only, a substitution matrix;
        - *anova2*: of two tracks together against two; *tensor*: of all three against all three;
        - *window*: also tables of the neighborhood: which of five letters are hydrophobic, and the structure of three
          positions; anova2 and tensor if there are enough tracks;
        - *profile*: also products of the columns of profiles, one weight per column; and, if columns are letters
          (P = 20 in the order of PSI-BLAST, or the whole alphabet), the profile of one side at the letter of the other.
    mode : {"local", "global"}, default="local"
        Gaps at both ends cost nothing in local alignments, and as much as others in global ones.
    alphabet : str or None, default="ARNDCQEGHILKMFPSTWYVBZX"
        All letters that may occur; None for those of the training data.
    tolerance : int, default=4
        t of the loss: a match at most this far off still counts.
    symmetric : bool, default=True
        Whether s is the same if the sequences are swapped.
    derived : bool, default=False
        Whether missing tracks are estimated from the letters of a protein: helix, strand or turn by the propensities
        of the neighbors, buried to exposed by their hydropathy.
    partial : bool, default=False
        Whether Y has only the certain matches. The rest of the alignment is then latent.

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

    state_type = AlignmentState
    tags = TaskTags(
        latent="possible",
        soft=True,
        partial_outputs=True,
        threaded_decoding=True,
        reasons={
            "StructuralSVM, slack rescaling": "tables of paths by their number of hits would be larger by a factor |y|",
            **dict.fromkeys(
                ("MarginalSSVM", "MinEntropySSVM"),
                "which matches are certain is known of the true output only, so that other alignments have no latents",
            ),
        },
    )
    constraints: ClassVar = {
        "features": options(*ORDERS),
        "mode": options("local", "global"),
        "tolerance": integer(0, MOST_CELLS),
        "symmetric": boolean,
        "derived": boolean,
        "partial": boolean,
        "alphabet": Constraint(_is_alphabet, "a string of different letters") | None,
    }

    features: str = "simple"
    mode: str = "local"
    alphabet: str | None = AMINO_ACIDS
    tolerance: int = 4
    symmetric: bool = True
    derived: bool = False
    partial: bool = False

    def learn(self, X: Any, Y: Any) -> None:
        """Find the letters of the tracks and the width of the profiles."""
        check_examples(X, Y)
        check_parameters(self)
        pairs = self._pairs(X)
        every = [sequence for pair in pairs for sequence in pair]
        alphabets = find_alphabets(every)
        if self.alphabet is not None:
            alphabets[0] = upper_letters(self.alphabet)
        widths = {0 if sequence.profile is None else sequence.profile.shape[1] for sequence in every}
        self._set(alphabets, max(widths) if self.features == "profile" else 0)
        if self.features == "profile" and self.features_.n_profile == 0:
            raise InputError("features", self.features, "an option such as 'window' for sequences without profiles")
        if not any(map(len, check_each(Y, "Y[{}]", sizes_of(pairs)))):
            raise InputError("Y", Description("none"), "alignments with at least one match")

    def _pairs(self, X: Any) -> SequencePairs:
        """Return checked pairs, with derived tracks if these are used."""
        pairs = check_pairs(X)
        return [(with_derived(a), with_derived(b)) for a, b in pairs] if self.derived else pairs

    def _set(self, alphabets: Sequence[str | None], n_profile: int) -> None:
        check_parameters(self)
        letters, structure, accessibility = alphabets
        tracks = TrackAlphabets(letters or "", structure, accessibility)
        self.features_ = AlignmentFeatures(self.features, tracks, n_profile, bool(self.symmetric))
        self.latent = bool(self.partial)
        self.n_features = self.features_.n_weights

    def state(self) -> dict[str, Any]:
        return {"alphabets": list(self.features_.alphabets), "n_profile": self.features_.n_profile}

    def restore(self, state: dict[str, Any]) -> None:
        self._set(state["alphabets"], int(state["n_profile"]))

    def prepare(self, X: Any, Y: Any = None) -> AlignmentBatch:
        """Encode the sequences and lay pairs and references out in flat arrays."""
        check_examples(X, Y)
        pairs = self._pairs(X)
        for k, (height, width) in enumerate(sizes := sizes_of(pairs)):
            if height * width > MOST_CELLS:
                got = Description(f"{height} and {width} letters")
                raise InputError(f"X[{k}]", got, f"sequences with a product of lengths of at most {MOST_CELLS}")
        truth = [] if Y is None else check_each(Y, "Y[{}]", sizes)
        matches = None if Y is None else np.concatenate(truth)
        return AlignmentBatch(self.features_.lay_out(pairs, truth), matches, offsets_from_lengths(map(len, truth)))

    def _scoring(self, w: Vector, temperature: float = 1.0) -> Scoring:
        scaled, local = w / temperature, self.mode == "local"
        cells, dense = self.features_.cells(scaled), scaled[self.features_.numbering.dense]
        return Scoring(cells, dense, float(scaled[-2]), float(scaled[-1]), local, False, int(self.tolerance))

    def _sum_scoring(self, batch: AlignmentBatch, w: Vector, temperature: float, most_gain: float = 0.0) -> Scoring:
        """Return what paths score for sums over them; raise if these need too much memory."""
        largest = int(np.argmax(batch.heights * batch.widths))
        height, width = batch.heights[largest], batch.widths[largest]
        if height * width > MOST_POOLED_CELLS:
            raise InputError(
                f"X[{largest}]",
                Description(f"{height} and {width} letters"),
                f"sequences with a product of lengths of at most {MOST_POOLED_CELLS} for sums over alignments",
                "Split the sequences, or use StructuralSVM.",
            )
        scoring, cells = self._scoring(w, temperature), self.features_.numbering.cells
        most = sum(float(np.abs(scoring.tables[start:end]).max()) for start, end in pairwise(cells.tolist()))
        most += abs(scoring.open) + 2.0 * abs(scoring.extend) + most_gain
        if len(scoring.dense):
            left, right = np.abs(batch.pairs.left).max(axis=0), np.abs(batch.pairs.right).max(axis=1)
            most += float((np.abs(scoring.dense) * left * right).sum())
        return scoring._replace(linear=most <= LINEAR_DOMAIN_SPREAD)

    def pool_batch(self, batch: AlignmentBatch, query: Query) -> Pooled:
        chosen = query.examples(batch)
        if query.mode == "clamped" and not self.latent:
            return pool_known(batch, query, lambda _: self._path_slopes(batch, chosen, *batch.references(chosen)))
        temperature = query.temperature.output
        if temperature > 0:
            return self._sum(batch, query, temperature)
        gains, hits = batch.gains(query), np.empty(len(chosen))
        matches, pointers, values = self._best(batch, query, gains)
        kernels.count_hits(batch.pairs, chosen, matches, pointers, int(self.tolerance), hits)
        slopes = self._path_slopes(batch, chosen, matches, pointers)
        return Pooled(values + (gains > 0), slopes, (gains > 0) - hits * gains)

    def _best(self, batch: AlignmentBatch, query: Query, gains: Vector) -> tuple[Matches, Indices, Vector]:
        """Return the matches of the best paths, their pointers, and the scores less what hits gain."""
        chosen, clamped = query.examples(batch), query.mode == "clamped"
        matches = np.empty((int(np.minimum(batch.heights, batch.widths)[chosen].sum()), 2), dtype=np.int64)
        pointers, values = np.empty(len(chosen) + 1, dtype=np.int64), np.empty(len(chosen))
        kernels.best_paths(batch.pairs, self._scoring(query.w), chosen, gains, clamped, matches, pointers, values)
        return matches[: pointers[-1]], pointers, values

    def _path_slopes(self, batch: AlignmentBatch, chosen: Indices, matches: Matches, pointers: Indices) -> Slopes:
        """Return the features of given matches of the chosen pairs."""
        data = (batch.pairs, self.features_.numbering, chosen, matches, pointers, self.mode == "local")
        return self.features_.slopes(np.diff(pointers), lambda ends, atoms: kernels.path_atoms(*data, ends, *atoms))

    def _sum(self, batch: AlignmentBatch, query: Query, temperature: float) -> Pooled:
        """Sum over all alignments; the slopes of a query with weights are added up directly."""
        chosen, gains = query.examples(batch), batch.gains(query) / temperature
        scoring = self._sum_scoring(batch, query.w, temperature, float(gains.max(initial=0.0)))
        hits, values = np.empty(len(chosen)), np.empty(len(chosen))
        data = (batch.pairs, scoring, chosen, gains, query.mode == "clamped", hits, values)
        features: AlignmentFeatures = self.features_
        slopes: Slopes | Vector
        if query.weights is None:
            most, numbering = (batch.heights * batch.widths)[chosen], features.numbering
            slopes = features.slopes(most, lambda ends, atoms: kernels.pool_apart(*data, numbering, ends, *atoms))
        else:
            counts = features.no_counts()
            kernels.pool_together(*data, query.weights, *counts)
            slopes = features.pull_back(*counts)
        losses = (gains > 0) - hits * gains * temperature
        return Pooled(temperature * values + (gains > 0), slopes, losses, soft=True)

    def cost(self, batch: AlignmentBatch, mode: Mode, temperature: Temperature) -> Cost:
        tables = 5.0 * float(self.features_.numbering.cells[-1])
        if mode == "clamped" and not self.latent:
            return Cost(np.full(batch.n_examples, 100.0), tables)
        return Cost(batch.heights * batch.widths * (6.0 if temperature.output == 0 else 10.0), tables)

    def decode(self, batch: AlignmentBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best alignment of each pair: matches (m, 2)."""
        matches, pointers, values = self._best(batch, Query(w, "free"), np.zeros(batch.n_examples))
        return self._whole_predictions(split(matches, pointers), values.tolist())

    def derivations(self, batch: AlignmentBatch, w: Vector) -> Iterator[Derivable]:
        """Yield all alignments of each pair as derivations."""
        scoring, local = self._scoring(w), self.mode == "local"
        for k, (height, width) in enumerate(batch.sizes):
            if height * width > MOST_DERIVED_CELLS:
                got, expected = f"{height} and {width} letters", f"at most {MOST_DERIVED_CELLS}"
                raise InputError(f"X[{k}]", Description(got), f"sequences with a product of lengths of {expected}")
            scores, paths = np.empty((height, width)), all_paths(height, width, local)
            kernels.match_scores(batch.pairs, scoring, k, scores)
            matches, edges = paths.matches, np.array([-scoring.open, -scoring.extend, 0.0])[paths.gap]
            places = np.column_stack([paths.row, paths.column])[matches].astype(np.int64)
            edges[matches] = scores[*places.T]
            if batch.truth is not None:
                known = batch.truth[batch.pointers[k] : batch.pointers[k + 1]]
                edges[paths.contradicts(known, height, width)] = -np.inf

            def outputs(used: NDArray[np.uint8], matches: Indices = matches, places: Matches = places) -> list[Matches]:
                return [places[used[matches] > 0]]

            yield Derivable(paths.forest, edges, outputs)

    def align(self, pairs: Any, w: Vector) -> list[Matches]:
        """Return the best alignment of each pair of a batch, or of pairs of sequences."""
        batch = pairs if isinstance(pairs, AlignmentBatch) else self.prepare(pairs)
        return [found.y for found in self.decode(batch, w, HARD)]

    def align_scores(self, batch: AlignmentBatch, w: Vector) -> Vector:
        """Return the score of the best alignment of each pair, shape (n,), without tracing it back."""
        values = np.empty(batch.n_examples)
        kernels.best_scores(batch.pairs, self._scoring(w), np.arange(batch.n_examples), values)
        return values

    def complete(self, batch: AlignmentBatch, w: Vector) -> list[Matches]:
        """Return the best alignment of each pair among those that contain the certain matches."""
        require_labels(batch, "clamped")
        return split(*self._best(batch, Query(w, "clamped"), np.zeros(batch.n_examples))[:2])

    def completion_planes(self, batch: AlignmentBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of whole alignments, which must contain the certain matches, as planes."""
        require_latents(batch, latents)
        found, every = check_each(latents, "latents[{}]", batch.sizes), np.arange(batch.n_examples)
        assert batch.truth is not None
        for k, (h, y) in enumerate(zip(found, split(batch.truth, batch.pointers), strict=True)):
            missing = set(map(tuple, y.tolist())) - set(map(tuple, h.tolist()))
            if missing:
                got = Description(f"an alignment without {min(missing)}")
                raise InputError(f"latents[{k}]", got, f"an alignment with all matches of `Y[{k}]`")
        slopes = self._path_slopes(batch, every, np.concatenate(found), offsets_from_lengths(map(len, found)))
        return latent_planes(self, slopes)

    def random_latents(self, batch: AlignmentBatch, rng: np.random.Generator) -> list[Matches]:
        """Return alignments that contain the certain matches, best by substitution scores drawn at random."""
        return self.complete(batch, np.concatenate([rng.normal(size=self.n_features - 2), [1.0, 0.5]]))

    def _distribution(
        self, batch: AlignmentBatch, w: Vector, temperature: Temperature
    ) -> tuple[Pairs, Scoring, Indices]:
        """Return what the kernels need for the probabilities of matches of all pairs."""
        check_query(self, batch, "free", temperature)
        if temperature.output <= 0:
            raise InputError("temperature", temperature.output, "above 0 for marginals")
        return batch.pairs, self._sum_scoring(batch, w, temperature.output), np.arange(batch.n_examples)

    def marginals(self, batch: AlignmentBatch, w: Vector, temperature: Temperature) -> list[NDArray[np.float64]]:
        """Return the probability of each match, a list of arrays (length of a, length of b)."""
        pointers = offsets_from_lengths(batch.heights * batch.widths)
        if pointers[-1] > MOST_POOLED_CELLS:
            got, hint = Description(f"{pointers[-1]} marginals"), "Use fewer pairs, or compute confidences only."
            raise InputError("batch", got, f"pairs with at most {MOST_POOLED_CELLS} marginals", hint)
        out = np.empty(pointers[-1])
        kernels.pool_matches(*self._distribution(batch, w, temperature), out)
        return [part.reshape(size) for part, size in zip(split(out, pointers), batch.sizes, strict=True)]

    def confidence(
        self, batch: AlignmentBatch, w: Vector, temperature: Temperature, predictions: Sequence[Any]
    ) -> list[Vector]:
        """Return the probability of each predicted match, a list of arrays (m,)."""
        outputs = outputs_of(predictions)
        check_examples(outputs, batch.heights)
        found = check_each(outputs, "predictions[{}]", batch.sizes)
        pointers = offsets_from_lengths(map(len, found))
        shares = np.empty(pointers[-1])
        kernels.pool_given(*self._distribution(batch, w, temperature), np.concatenate(found), pointers, shares)
        return split(shares, pointers)

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return the share of each alignment's true matches that are more than the tolerance off, or missing."""
        check_examples(Y_pred, Y_true)
        losses = np.zeros(len(Y_true))
        for k, (truth, predicted) in enumerate(zip(Y_true, Y_pred, strict=True)):
            y, found = check_matches(truth, f"Y_true[{k}]"), check_matches(predicted, f"Y_pred[{k}]")
            if len(y):
                losses[k] = 1.0 - count_hits(y, found, self.tolerance) / len(y)
        return losses

    def substitution_matrix(self, w: Vector) -> tuple[str, NDArray[np.float64]]:
        """Return the alphabet and the scores (S, S) of its letters against each other; other tables are left out."""
        return self.features_.alphabets.letters, w[self.features_.letter_numbers()]

    def gap_costs(self, w: Vector) -> GapCosts:
        """Return the costs of opening a gap and of each further letter in it."""
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
        real().check(gap_open, "gap_open")
        real().check(gap_extend, "gap_extend")
        letters = matrix[0]
        scores = finite_of(matrix[1], "matrix[1]", (len(letters), len(letters)), "one score per pair of letters")
        alphabet = self.features_.alphabets.letters
        places = encode_letters(alphabet, letters, "alphabet", "Use a matrix with all letters of `alphabet`.")
        chosen = scores[np.ix_(places, places)]
        if self.symmetric and not np.array_equal(chosen, chosen.T):
            raise InputError("matrix[1]", scores, "symmetric because `symmetric` is True")
        w = np.zeros(self.n_features)
        w[self.features_.letter_numbers()] = chosen
        w[-2:] = gap_open, gap_extend
        return w
