"""Sequences divided into labeled segments, with weights for the lengths of segments."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.levels import LossLevels, loss_steps
from latentstruct.core.pooling import PooledParts, pool_linear, pool_scores, require_labels
from latentstruct.core.protocols import (
    HARD,
    Cost,
    LinearMap,
    Mode,
    PartLoss,
    Pooled,
    Prediction,
    Query,
    TaskTags,
    Temperature,
)
from latentstruct.core.types import Indices, Vector, locate, offsets_from_lengths, split
from latentstruct.core.unknown import UNKNOWN, is_unknown
from latentstruct.core.validation import check_parameters, integer
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Atoms, Planes, Slopes
from latentstruct.tasks.base import BaseTask, LikelyLatents, check_examples, outputs_of
from latentstruct.tasks.derived import Derivable, DerivedAnswers
from latentstruct.tasks.inputs import InputRows, check_matrix
from latentstruct.tasks.item_labels import known_accuracy
from latentstruct.tasks.labels import LabelSet, LearnedLabels
from latentstruct.tasks.row_parts import FlatBatch, RowParts, require_latents, stack_examples
from latentstruct.tasks.semi_markov import kernels
from latentstruct.tasks.semi_markov.forests import SegmentForests
from latentstruct.tasks.semi_markov.kernels import SegmentCounts, SegmentScores

Segmentation = list[tuple[int, int, Any]]
"""First token, token after the last, and label of each segment."""


class Known(NamedTuple):
    """What is known of each token: its label, and whether a segment begins there (1 or 0); −1 where unknown."""

    label: NDArray[np.int64]
    begin: NDArray[np.int64]

    @classmethod
    def of(cls, segments: Sequence[Segmentation], offsets: Indices) -> "Known":
        """Return what is known from segments with numbers of labels, which need not cover their sequence."""
        label = np.full(offsets[-1], UNKNOWN, dtype=np.int64)
        begin = label.copy()
        begin[offsets[:-1][np.diff(offsets) > 0]] = 1
        for found, start, end in zip(segments, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            for first, stop, number in found:
                label[start + first : start + stop] = number
                begin[start + first + 1 : start + stop] = 0
                begin[start + first] = 1
                if start + stop < end:
                    begin[start + stop] = 1
        return cls(label, begin)

    @property
    def partial(self) -> bool:
        """Whether something is unknown."""
        return bool((self.label == UNKNOWN).any() or (self.begin == UNKNOWN).any())


@dataclass
class SegmentBatch(FlatBatch):
    """All tokens of all sequences, flat; the truth is `Known`."""

    inputs: InputRows


@dataclass
class SegmentParts(LinearMap, PartLoss):
    """Parts of the segmentations of a query: labels of tokens, beginnings, neighbors and lengths of segments.

    Weights are n·S of the tokens, S² of transitions (from, to) and L·S of lengths. Losses are costs of wrong labels
    (S + 1, S), and 1 for each token at which a segment begins wrongly or fails to begin.
    """

    tokens: RowParts
    known: Known | None
    longest: int
    costs: NDArray[np.float64]

    def blocks(self, w: Vector) -> list[NDArray[np.float64]]:
        """Return the weights of tokens (n, S), transitions (S, S) and lengths (L, S), not copied."""
        n_inputs, n = self.tokens.inputs.shape[1], self.costs.shape[1]
        return [part.reshape(-1, n) for part in np.split(w, [n_inputs * n, (n_inputs + n) * n])]

    def scores(self, query: Query) -> SegmentScores:
        """Return the scores of all parts, −∞ in clamped mode for everything that contradicts what is known."""
        weights, transition, length = self.blocks(query.w)
        token = self.tokens.inputs.times(weights, self.tokens.chosen)
        if query.mode != "clamped":
            return SegmentScores(token, np.zeros(len(token)), np.zeros(len(token)), transition, length)
        assert self.known is not None
        label = self.known.label[:, None]
        other = (label != UNKNOWN) & (label != np.arange(token.shape[1]))
        begin, inside = (np.where(self.known.begin == wrong, -np.inf, 0.0) for wrong in (0, 1))
        return SegmentScores(np.where(other, -np.inf, token), begin, inside, transition, length)

    def slopes(self, counts: SegmentCounts, query: Query) -> Slopes:
        offsets, inputs = self.tokens.offsets, self.tokens.inputs
        direct = np.hstack([part.reshape(len(part), -1) for part in counts[2:]])
        (token, label), (owner, place) = np.nonzero(counts.token), np.nonzero(direct)
        examples = np.concatenate([np.searchsorted(offsets, token, side="right") - 1, owner])
        order = np.argsort(examples, kind="stable")
        rows = token if self.tokens.chosen is None else self.tokens.chosen[token]
        atoms = Atoms(
            np.append(rows, np.full(len(place), -1)).astype(np.int32)[order],
            np.append(label, inputs.shape[1] * self.costs.shape[1] + place).astype(np.int32)[order],
            np.append(counts.token[token, label], direct[owner, place])[order],
        )
        return Slopes(inputs.rows, offsets_from_lengths(np.bincount(examples, minlength=len(offsets) - 1)), atoms)

    def pull_back(self, counts: SegmentCounts, query: Query) -> Vector:
        """Return the sum of the features, for counts that are weighted already."""
        slope = np.zeros(len(query.w))
        tokens, transition, length = self.blocks(slope)
        self.tokens.inputs.transposed_times(counts.token, tokens, self.tokens.chosen)
        transition[:], length[:] = counts.transition[0], counts.length[0]
        return slope

    def add_to(self, scores: SegmentScores, query: Query) -> SegmentScores:
        assert self.known is not None
        begin, inside = (1.0 * (self.known.begin == right) for right in (0, 1))
        return scores._replace(token=scores.token + self.costs[self.known.label], begin=begin, inside=inside)

    def of(self, counts: SegmentCounts, query: Query) -> Vector | float:
        assert self.known is not None
        by_token = np.einsum("ty,ty->t", counts.token, self.costs[self.known.label])
        # A token is the first of its segment or not; both counts carry the weight of the sequence.
        by_token += np.where(self.known.begin == 0, counts.begin, 0.0)
        by_token += np.where(self.known.begin == 1, counts.token.sum(axis=1) - counts.begin, 0.0)
        return float(by_token.sum()) if query.weights is not None else sums_between(by_token, self.tokens.offsets)


def sums_between(values: Vector, offsets: Indices) -> Vector:
    """Return the sum of each sequence's values."""
    return np.diff(np.append(0.0, np.cumsum(values))[offsets])


@dataclass(eq=False, repr=False)
class SemiMarkov(LearnedLabels, LikelyLatents[SegmentBatch], DerivedAnswers, BaseTask[SegmentBatch]):
    """Segmentation of sequences: s(y) = Σ_segments [Σ_t w_label·x_t + l(label, length)] + Σ A[label before, label].

    Parameters
    ----------
    labels : sequence of hashable, optional
        All labels that may occur, in the order of the model; by default those of the training data.
    max_length : int, optional
        Maximum number of tokens in a segment; by default that of the training data.
    costs : None, mapping or array of shape (S, S), default=None
        Cost of a token with a wrong label: 1, the cost of missing each true label, or a matrix (true, predicted).

    Notes
    -----
    X is a list of arrays or CSR arrays (T, d). Y has a list of segments (first, stop, label) for each sequence: tokens
    first … stop − 1 are one segment. The loss is the cost of all wrong labels, and 1 for each token at which a segment
    begins wrongly or fails to begin.

    What is not known is latent: segments with the label −1, and tokens in no segment, which may be divided and labeled
    in any way; known segments are never extended into them. Latents are whole segmentations.

    Weight number f·S + y belongs to input f and label y; then come the S² transitions (from, to) and the weights of
    lengths, where (length − 1)·S + y belongs to a length and label y. Inference is exact in time
    O(T·(S² + S·max_length)), at one temperature for outputs and latents.

    Two temperatures are not supported: the boundaries with the largest sum over the labels of their segments are
    NP-hard to find. Let a hidden Markov model emit symbols 1 … A. With a symbol a as two segments of lengths a and
    A + 1 − a, and labels for its states and for pairs of a state and a symbol, boundaries are outputs of the model, and
    its most probable output of a given length is NP-hard to find (Lyngsø & Pedersen 2002). The reverse, labels of
    tokens with the largest sum over boundaries, is not.

    See Also
    --------
    Chain : One label per token, without weights for lengths.

    Examples
    --------
    Runs of equal tokens, where no run of "b" is longer than two tokens:

    >>> import numpy as np
    >>> from latentstruct import SemiMarkov, StructuralSVM
    >>> Y = [[(0, 3, "a"), (3, 5, "b")], [(0, 2, "b"), (2, 6, "a")]] * 5
    >>> X = [np.array([[float(label == "a")] for a, b, label in y for _ in range(a, b)]) for y in Y]
    >>> StructuralSVM(SemiMarkov(), C=1.0).fit(X, Y).predict(X[:1])
    [[(0, 3, 'a'), (3, 5, 'b')]]
    """

    tags = TaskTags(
        latent="possible",
        soft=True,
        partial_outputs=True,
        threaded_decoding=True,
        reasons=dict.fromkeys(
            ("MarginalSSVM", "MinEntropySSVM"),
            "the boundaries with the largest sum over the labels of their segments are NP-hard to find",
        ),
    )
    constraints: ClassVar = {"max_length": integer(1) | None}

    labels: Sequence[Hashable] | None = None
    max_length: int | None = None
    costs: Any = None

    def learn(self, X: Any, Y: Any) -> None:
        """Find the labels, the longest segment and the number of inputs."""
        check_examples(X, Y)
        check_parameters(self)
        segments = [segment for k, y in enumerate(Y) for segment in self._segments(y, f"Y[{k}]")]
        known = [label for *_, label in segments if not is_unknown(label)]
        if not known:
            raise InputError("Y", Description("none"), "segments with at least one known label")
        longest = self.max_length or max(stop - first for first, stop, _ in segments)
        matrices = [check_matrix(x, f"X[{k}]") for k, x in enumerate(X)]
        covered = sum(stop - first for first, stop, _ in segments)
        latent = len(known) < len(segments) or sum(matrix.shape[0] for matrix in matrices) > covered
        self._set(LabelSet.learn(known, self.labels), matrices[0].shape[1], longest, latent)

    def _set(self, labels: LabelSet, n_inputs: int, longest: int, latent: bool) -> None:
        self.labels_, self.n_inputs_, self.longest_, self.latent = labels, n_inputs, longest, latent
        self.costs_ = np.vstack([labels.costs(self.costs), np.zeros(len(labels))])
        self.transitions_at_ = n_inputs * len(labels)
        self.n_features = (n_inputs + len(labels) + longest) * len(labels)

    def state(self) -> dict[str, Any]:
        sizes = {"n_inputs": self.n_inputs_, "longest": self.longest_, "latent": self.latent}
        return {"labels": self.labels_.labels, **sizes}

    def restore(self, state: dict[str, Any]) -> None:
        self._set(LabelSet(state["labels"]), int(state["n_inputs"]), int(state["longest"]), bool(state["latent"]))

    @staticmethod
    def _segments(y: Any, name: str) -> Segmentation:
        """Return segments in order, checked not to overlap."""
        try:
            found = sorted(((int(first), int(stop), label) for first, stop, label in y), key=lambda one: one[:2])
        except (TypeError, ValueError) as error:
            raise InputError(name, y, "a list of segments (first, stop, label)") from error
        for first, stop, _ in found:
            if not 0 <= first < stop:
                raise InputError(name, (first, stop), "segments with 0 ≤ first < stop")
        for before, after in pairwise(found):
            if after[0] < before[1]:
                raise InputError(name, [before[:2], after[:2]], "segments that do not overlap")
        return found

    def _encode(self, Y: Any, offsets: Indices, name: str) -> list[Segmentation]:
        """Return segments with numbers of labels, checked against the lengths of the sequences."""
        encoded = []
        for k, (y, length) in enumerate(zip(Y, np.diff(offsets).tolist(), strict=True)):
            found = self._segments(y, f"{name}[{k}]")
            if found and found[-1][1] > length:
                raise InputError(f"{name}[{k}]", found[-1][:2], f"segments within the {length} tokens of the sequence")
            longest = max((stop - first for first, stop, _ in found), default=0)
            if longest > self.longest_:
                got, hint = Description(f"a segment of {longest} tokens"), "Train with a larger `max_length`."
                raise InputError(f"{name}[{k}]", got, f"segments of at most {self.longest_} tokens", hint)
            number = self.labels_.number
            encoded.append([(a, b, UNKNOWN if is_unknown(label) else number(label)) for a, b, label in found])
        return encoded

    def prepare(self, X: Any, Y: Any = None) -> SegmentBatch:
        check_examples(X, Y)
        inputs, offsets = stack_examples(X, self.n_inputs_, len(self.labels_))
        known = None if Y is None else Known.of(self._encode(Y, offsets, "Y"), offsets)
        return SegmentBatch(offsets, known, inputs)

    def _parts(self, batch: SegmentBatch, query: Query) -> SegmentParts:
        tokens = RowParts.of(batch.inputs, batch.offsets, query.rows)
        known = Known(*map(tokens.of_all, batch.truth)) if query.mode != "free" else None
        return SegmentParts(tokens, known, self.longest_, self.costs_)

    def _pool(self, offsets: Indices, query: Query, scores: SegmentScores, known: bool = False) -> PooledParts:
        """Pool the segmentations of the sequences of a query; counts of a query with weights are summed over all.

        `known` is whether there is only one segmentation of each sequence.
        """
        temperature = 0.0 if known else query.temperature.output
        together, values, n = query.weights is not None, np.empty(len(offsets) - 1), len(self.labels_)
        weights, k = np.ones(len(values)) if query.weights is None else query.weights, 1 if together else len(values)
        pair, length = np.zeros((k, n, n)), np.zeros((k, self.longest_, n))
        counts = SegmentCounts(np.zeros_like(scores.token), np.zeros(len(scores.token)), pair, length)
        kernels.pool(offsets, scores, temperature, weights, together, values, counts)
        return PooledParts(values, counts, soft=temperature > 0, weighted=together)

    def _linear(self, batch: SegmentBatch, query: Query) -> tuple[SegmentParts, SegmentParts, Query, Any]:
        parts = self._parts(batch, query)
        truth = parts.known if query.mode == "clamped" else None
        known = truth is not None and not (self.latent or truth.partial)
        return parts, parts, query, lambda scores: self._pool(parts.tokens.offsets, query, scores, known)

    def pool_batch(self, batch: SegmentBatch, query: Query) -> Pooled:
        return pool_linear(*self._linear(batch, query))

    def loss_levels(self, batch: SegmentBatch, query: Query) -> LossLevels | None:
        """Return the best segmentations of each loss, for costs that are multiples of a unit."""
        steps = loss_steps(np.append(self.costs_, 1.0))
        if steps is None:
            return None
        parts, n, (unit, costs) = self._parts(batch, query), len(self.labels_), steps
        known, offsets = parts.known, parts.tokens.offsets
        assert known is not None
        forests, free = SegmentForests.of(offsets, n, self.longest_), replace(query, mode="free")
        token = costs[:-1].reshape(self.costs_.shape)[known.label].astype(np.float64)
        begin, inside = (1.0 * costs[-1] * (known.begin == right) for right in (0, 1))
        losses = SegmentScores(token, begin, inside, np.zeros((n, n)), np.zeros((self.longest_, n)))

        def slopes(used: Vector) -> Slopes:
            found = replace(parts, known=Known(*forests.tokens(used)))
            clamped = replace(query, mode="clamped", weights=None)
            counts = self._pool(offsets, clamped, found.scores(clamped), known=True).counts
            return found.slopes(counts, clamped)

        return forests.levels(parts.scores(free), losses, unit, slopes)

    def cost(self, batch: SegmentBatch, mode: Mode, temperature: Temperature) -> Cost:
        n, softness = len(self.labels_), 1.0 if temperature.output == 0 else 20.0
        return Cost(n * (softness * (n + self.longest_) + batch.inputs.product_time) * np.diff(batch.offsets))

    def _best(self, batch: SegmentBatch, w: Vector, mode: Mode) -> tuple[list[Segmentation], Vector]:
        """Return the best segmentations and their scores."""
        values, counts, *_ = pool_scores(*self._linear(batch, Query(w, mode)))
        return self._segmentations(batch, counts), values

    def _segmentations(self, batch: SegmentBatch, counts: SegmentCounts) -> list[Segmentation]:
        """Return the segmentations of all sequences with given counts of one segmentation each."""
        return self._divided(batch, counts.token.argmax(axis=1), counts.begin)

    def _divided(self, batch: SegmentBatch, label: Indices, begin: Any) -> list[Segmentation]:
        """Return the segmentations of all sequences by the labels of tokens and where segments begin."""
        labels = self.labels_.decode(label).tolist()
        found: list[Segmentation] = []
        for start, end in pairwise(batch.offsets.tolist()):
            begins = [*np.flatnonzero(begin[start:end]).tolist(), end - start]
            found.append([(first, stop, labels[start + first]) for first, stop in pairwise(begins)])
        return found

    def decode(self, batch: SegmentBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best segmentation of each sequence: y, and h too if something was unknown in training."""
        found, values = self._best(batch, w, "free")
        return self._whole_predictions(found, values.tolist())

    def derivations(self, batch: SegmentBatch, w: Vector) -> list[Derivable]:
        """Return all segmentations as derivations."""
        query = Query(w, "clamped" if batch.labeled else "free")
        forests = self._forests(batch)
        scores = forests.scores_of(self._parts(batch, query).scores(query))
        return [Derivable(forests.joined, scores, lambda used: self._divided(batch, *forests.tokens(used)))]

    def marginals(self, batch: SegmentBatch, w: Vector, temperature: Temperature) -> list[NDArray[np.float64]]:
        """Return the label probabilities of each token, a list of arrays (T, S)."""
        query = Query(w, "free", Temperature(temperature.output, temperature.output))
        return split(pool_scores(*self._linear(batch, query)).counts.token, batch.offsets)

    def confidence(
        self, batch: SegmentBatch, w: Vector, temperature: Temperature, predictions: Sequence[Any]
    ) -> list[Vector]:
        """Return the probability of each predicted segment, a list of arrays."""
        outputs = outputs_of(predictions)
        check_examples(outputs, batch.offsets[1:])
        forests, (some,) = self._forests(batch), self.derivations(batch, w)
        segments = self._encode(outputs, batch.offsets, "predictions")
        return forests.shares(some.forests.pool(some.scores, temperature.output)[1], segments)

    def _forests(self, batch: SegmentBatch) -> SegmentForests:
        return SegmentForests.of(batch.offsets, len(self.labels_), self.longest_)

    def complete(self, batch: SegmentBatch, w: Vector) -> list[Segmentation]:
        """Return the best segmentation of each sequence among those that agree with what is known."""
        require_labels(batch, "clamped")
        return self._best(batch, w, "clamped")[0]

    def completion_planes(self, batch: SegmentBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of whole segmentations, which must agree with what is known, as planes."""
        require_latents(batch, latents)
        found = Known.of(self._encode(latents, batch.offsets, "latents"), batch.offsets)
        for name, known, given in zip(Known._fields, batch.truth, found, strict=True):
            for wrong in np.flatnonzero((given == UNKNOWN) | ((known != UNKNOWN) & (known != given)))[:1]:
                k, at = locate(batch.offsets, wrong)
                got = Description(f"another {name} of token {at}")
                raise InputError(f"latents[{k}]", got, "segments that cover the sequence and contain those of `Y`")
        filled = SegmentBatch(batch.offsets, found, batch.inputs)
        return self.planes(filled, np.zeros(self.n_features), "clamped", HARD)

    def random_latents(self, batch: SegmentBatch, rng: np.random.Generator) -> list[Segmentation]:
        """Return the segmentations that agree with what is known and are best by random scores."""
        require_labels(batch, "clamped")
        query = Query(np.zeros(self.n_features), "clamped")
        scores = self._parts(batch, query).scores(query)
        token = np.where(np.isinf(scores.token), scores.token, rng.normal(size=scores.token.shape))
        drawn = scores._replace(token=token, length=rng.normal(size=scores.length.shape))
        return self._segmentations(batch, self._pool(batch.offsets, query, drawn).counts)

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return the cost of wrong labels and boundaries of each sequence; the cost of unknown ones is 0."""
        truth, predicted, offsets = self._aligned(Y_true, Y_pred)
        wrong = (truth.begin != UNKNOWN) & (truth.begin != predicted.begin)
        return sums_between(self.costs_[truth.label, predicted.label] + wrong, offsets)

    def _aligned(self, Y_true: Any, Y_pred: Any) -> tuple[Known, Known, Indices]:
        check_examples(Y_pred, Y_true)
        both = zip(Y_true, Y_pred, strict=True)
        offsets = offsets_from_lengths([max((stop for y in pair for _, stop, _ in y), default=0) for pair in both])
        given = {"Y_true": Y_true, "Y_pred": Y_pred}
        truth, predicted = (Known.of(self._encode(Y, offsets, name), offsets) for name, Y in given.items())
        for wrong in np.flatnonzero((predicted.label == UNKNOWN) & (truth.label != UNKNOWN))[:1]:
            k, at = locate(offsets, wrong)
            got = Description(f"no label of token {at}")
            raise InputError(f"Y_pred[{k}]", got, "segments that cover all tokens with known labels")
        return truth, predicted, offsets

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the share of tokens with the right label among those whose label is known."""
        truth, predicted, offsets = self._aligned(Y_true, Y_pred)
        return known_accuracy(truth.label, predicted.label, offsets, sample_weight, np.empty((0, 0)))
