"""Sequences divided into labeled segments, with weights for the lengths of segments."""

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.core.pooling import PooledParts, pool_linear, require_labels
from latentstruct.core.protocols import HARD, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.exceptions import InputError
from latentstruct.planes import Planes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths
from latentstruct.short_repr import show
from latentstruct.tasks.base import BaseTask, check_examples, require_one_latent_each
from latentstruct.tasks.inputs import InputRows, check_matrix
from latentstruct.tasks.labels import LabelSet
from latentstruct.tasks.semi_markov import kernels
from latentstruct.tasks.semi_markov.batch import Known, Segment, SegmentBatch, SegmentLoss, SegmentParts, restricted
from latentstruct.unknown import UNKNOWN, is_unknown

Segmentation = list[tuple[int, int, Any]]


class SemiMarkov(BaseTask):
    """Segmentation of sequences: s(y) = Σ_segments [Σ_t w_label·x_t + l(label, length)] + Σ A[label before, label].

    Parameters
    ----------
    labels : sequence of hashable, optional
        All labels that may occur, in the order of the model; by default those of the training data.
    max_length : int, optional
        Tokens of the longest segment; by default those of the longest one in the training data.
    costs : None, mapping or array of shape (S, S), default=None
        Cost of a token with a wrong label: 1 each, the cost of missing each true label, or a matrix (true, predicted).

    Notes
    -----
    X is a list of arrays or CSR arrays (T, d). Y has a list of segments (first, stop, label) for each sequence: tokens
    first … stop − 1 are one segment. The loss is the cost of all wrong labels, and 1 for each token at which a segment
    begins wrongly or fails to begin.

    What is not known is latent. A label −1 marks a segment whose label is unknown. Tokens in no segment may be divided
    and labeled in any way; known segments are never extended into them. Latents are whole segmentations, and `decode`
    returns its segmentation both as y and as h.

    Weight number f·S + y belongs to input f and label y; then come the S² transitions (from, to) and the weights of
    lengths, of which (length − 1)·S + y belongs to a length and label y. Inference is exact in time
    O(T·(S² + S·max_length)), at one temperature for outputs and latents.

    See Also
    --------
    Chain : One label per token, without weights for lengths.

    Examples
    --------
    Runs of equal tokens, of which no run of "b" is longer than two tokens:

    >>> import numpy as np
    >>> from latentstruct import SemiMarkov, StructuralSVM
    >>> Y = [[(0, 3, "a"), (3, 5, "b")], [(0, 2, "b"), (2, 6, "a")]] * 5
    >>> X = [np.array([[float(label == "a")] for a, b, label in y for _ in range(a, b)]) for y in Y]
    >>> StructuralSVM(SemiMarkov(), C=1.0).fit(X, Y).predict(X[:1])
    [[(0, 3, 'a'), (3, 5, 'b')]]
    """

    tags = TaskTags(latent="possible", soft=True, threaded_decoding=True)

    def __init__(
        self, labels: Sequence[Hashable] | None = None, max_length: int | None = None, costs: Any = None
    ) -> None:
        self.labels = labels
        self.max_length = max_length
        self.costs = costs

    def learn(self, X: Any, Y: Any) -> None:
        """Find the labels, the longest segment and the number of inputs."""
        check_examples(X, Y)
        longest = self.max_length
        if longest is not None and (isinstance(longest, bool) or not isinstance(longest, int) or longest < 1):
            raise InputError(f"max_length must be an integer of at least 1, found {show(longest)}: choose one, or None")
        segments = [segment for k, y in enumerate(Y) for segment in self._segments(y, f"Y[{k}]")]
        known = [label for *_, label in segments if not is_unknown(label)]
        if not known:
            raise InputError("Y has no segment with a known label; expected at least one: label some of the segments")
        n_inputs = check_matrix(X[0], "X[0]").shape[1]
        found = max(stop - first for first, stop, _ in segments)
        covered = [sum(stop - first for first, stop, _ in y) for y in Y]
        latent = len(known) < len(segments) or any(len_of(x) > size for x, size in zip(X, covered, strict=True))
        self._set(LabelSet.learn(known, self.labels), n_inputs, found if longest is None else longest, latent)

    def _set(self, labels: LabelSet, n_inputs: int, longest: int, latent: bool) -> None:
        self.labels_, self.n_inputs_, self.longest_, self.latent = labels, n_inputs, longest, latent
        self.costs_ = labels.costs(self.costs)
        self.n_features = n_inputs * len(labels) + len(labels) ** 2 + longest * len(labels)

    def state(self) -> dict[str, Any]:
        """Return what `learn` found, for saving."""
        sizes = {"n_inputs": self.n_inputs_, "longest": self.longest_, "latent": self.latent}
        return {"labels": self.labels_.labels, **sizes}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        sizes = int(state["n_inputs"]), int(state["longest"]), bool(state["latent"])
        self._set(LabelSet(state["labels"]), *sizes)

    @staticmethod
    def _segments(y: Any, name: str) -> Segmentation:
        """Return segments in order, checked not to overlap."""
        try:
            found = sorted(((int(first), int(stop), label) for first, stop, label in y), key=lambda one: one[:2])
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{name} must be a list of segments (first, stop, label), found {show(y)}: correct it ({error})"
            ) from error
        for first, stop, _ in found:
            if not 0 <= first < stop:
                raise InputError(f"{name} has the segment {(first, stop)}; expected 0 ≤ first < stop: correct it")
        for before, after in pairwise(found):
            if after[0] < before[1]:
                raise InputError(
                    f"{name} has the segments {before[:2]} and {after[:2]}; expected segments that do not overlap: "
                    "correct one of them"
                )
        return found

    def _encode(self, Y: Any, offsets: Indices, name: str) -> list[list[Segment]]:
        """Return segments with numbers of labels, checked against the lengths of the sequences."""
        encoded = []
        for k, (y, length) in enumerate(zip(Y, np.diff(offsets).tolist(), strict=True)):
            found = self._segments(y, f"{name}[{k}]")
            if found and found[-1][1] > length:
                raise InputError(
                    f"{name}[{k}] has the segment {found[-1][:2]}, but the sequence has {length} tokens: correct it"
                )
            longest = max((stop - first for first, stop, _ in found), default=0)
            if longest > self.longest_:
                raise InputError(
                    f"{name}[{k}] has a segment of {longest} tokens; expected at most {self.longest_}: set max_length, "
                    "or divide it"
                )
            number = self.labels_.number
            encoded.append([(a, b, UNKNOWN if is_unknown(label) else number(label)) for a, b, label in found])
        return encoded

    def prepare(self, X: Any, Y: Any = None) -> SegmentBatch:
        """Validate sequences and lay all tokens out in one matrix."""
        check_examples(X, Y)
        matrices = [check_matrix(x, f"X[{k}]") for k, x in enumerate(X)]
        for k, matrix in enumerate(matrices):
            if matrix.shape[1] != self.n_inputs_:
                raise InputError(
                    f"X[{k}] has {matrix.shape[1]} features but the model has {self.n_inputs_}: use the same features "
                    "as in training"
                )
        stack = sparse.vstack if any(map(sparse.issparse, matrices)) else np.concatenate
        offsets = offsets_from_lengths(matrix.shape[0] for matrix in matrices)
        known = None if Y is None else Known.of(self._encode(Y, offsets, "Y"), offsets)
        return SegmentBatch(InputRows(check_matrix(stack(matrices), "X"), len(self.labels_)), offsets, known)

    def _parts(self, batch: SegmentBatch) -> SegmentParts:
        return SegmentParts(batch, self.n_inputs_, len(self.labels_), self.longest_)

    def _temperature(self, query: Query) -> float:
        """Return the one temperature of the pool."""
        output, latent = query.temperature
        if self.latent and output != latent:
            raise InputError(
                f"SemiMarkov pools outputs and latents at one temperature, but temperature is {(output, latent)}: use "
                "LatentSSVM or HiddenCRF"
            )
        return 0.0 if query.mode == "clamped" and not self.latent else output

    def _pool(self, batch: SegmentBatch, query: Query, scores: kernels.SegmentScores) -> PooledParts:
        """Pool the segmentations of the sequences of a query."""
        _, offsets = batch.tokens(query)
        temperature, counts = self._temperature(query), self._parts(batch).empty_counts(query)
        if query.mode == "clamped":
            scores = restricted(scores, batch.known_of(query))
        together, values = query.weights is not None, np.empty(len(offsets) - 1)
        weights = np.ones(len(values)) if query.weights is None else query.weights
        if temperature == 0:
            kernels.pool_hard(offsets, scores, weights, together, values, counts)
        else:
            kernels.pool_soft(offsets, scores, temperature, weights, together, values, counts)
        return PooledParts(values, counts, soft=temperature > 0, weighted=together)

    def pool_batch(self, batch: SegmentBatch, query: Query) -> Pooled:
        """Pool the segmentations of the sequences of a query."""
        loss = SegmentLoss(batch, self.costs_)
        return pool_linear(self._parts(batch), loss, query, lambda scores: self._pool(batch, query, scores))

    def work(self, batch: SegmentBatch, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each sequence takes, shape (n,)."""
        n, softness = len(self.labels_), 1.0 if temperature.output == 0 else 20.0
        return n * (softness * (n + self.longest_) + batch.inputs.product_time) * np.diff(batch.offsets)

    def _best(self, batch: SegmentBatch, w: Vector, mode: Mode) -> tuple[list[Segmentation], Vector]:
        """Return the best segmentations and their scores."""
        query = Query(w, mode)
        values, counts, *_ = self._pool(batch, query, self._parts(batch).scores(query))
        return self._segmentations(batch, counts), values

    def _segmentations(self, batch: SegmentBatch, counts: kernels.SegmentCounts) -> list[Segmentation]:
        """Return the segmentations of all sequences with given counts of one segmentation each."""
        labels = self.labels_.decode(counts.token.argmax(axis=1)).tolist()
        found: list[Segmentation] = []
        for start, end in pairwise(batch.offsets.tolist()):
            begins = [*np.flatnonzero(counts.begin[start:end]).tolist(), end - start]
            found.append([(first, stop, labels[start + first]) for first, stop in pairwise(begins)])
        return found

    def decode(self, batch: SegmentBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best segmentation of each sequence: y, and h too if something was unknown in training."""
        found, values = self._best(batch, w, "free")
        return [
            Prediction(y, y if self.latent else None, value) for y, value in zip(found, values.tolist(), strict=True)
        ]

    def marginals(self, batch: SegmentBatch, w: Vector, temperature: Temperature) -> list[NDArray[np.float64]]:
        """Return the label probabilities of each token, a list of arrays (T, S)."""
        query = Query(w, "free", Temperature(temperature.output, temperature.output))
        counts = self._pool(batch, query, self._parts(batch).scores(query)).counts
        return np.split(counts.token, batch.offsets[1:-1])

    def complete(self, batch: SegmentBatch, w: Vector) -> list[Segmentation]:
        """Return the best segmentation of each sequence among those that agree with what is known."""
        require_labels(batch, "clamped")
        return self._best(batch, w, "clamped")[0]

    def completion_planes(self, batch: SegmentBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of whole segmentations, which must agree with what is known, as planes."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        assert batch.known is not None
        found = Known.of(self._encode(latents, batch.offsets, "latents"), batch.offsets)
        for name, known, given in zip(Known._fields, batch.known, found, strict=True):
            wrong = np.flatnonzero((given == UNKNOWN) | ((known != UNKNOWN) & (known != given)))
            if len(wrong):
                k = int(np.searchsorted(batch.offsets, wrong[0], side="right")) - 1
                raise InputError(
                    f"latents[{k}] does not agree with Y in the {name} of token {wrong[0] - batch.offsets[k]}; "
                    "expected segments that cover the sequence and contain those of Y: correct it"
                )
        filled = SegmentBatch(batch.inputs, batch.offsets, found)
        return self.planes(filled, np.zeros(self.n_features), "clamped", HARD)

    def random_latents(self, batch: SegmentBatch, rng: np.random.Generator) -> list[Segmentation]:
        """Return the segmentations that agree with what is known and are best by random scores."""
        require_labels(batch, "clamped")
        query = Query(np.zeros(self.n_features), "clamped")
        scores = self._parts(batch).scores(query)
        drawn = scores._replace(token=rng.normal(size=scores.token.shape), length=rng.normal(size=scores.length.shape))
        return self._segmentations(batch, self._pool(batch, query, drawn).counts)

    def initial_latents(self, batch: SegmentBatch, rng: np.random.Generator, attempt: int) -> list[Segmentation]:
        """Return the completions by weights that are the first gradient, at w = 0, of the log-likelihood of Y.

        Later attempts weight the sequences at random.
        """
        weights = rng.exponential(size=batch.n_examples) if attempt else np.ones(batch.n_examples)
        nothing, soft = np.zeros(self.n_features), Temperature(1.0, 1.0)
        known, uniform = (self.total(batch, nothing, mode, soft, weights).slope for mode in ("clamped", "free"))
        return self.complete(batch, known - uniform)

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return the cost of wrong labels and boundaries of each sequence; what is unknown costs nothing."""
        truth, predicted, offsets = self._aligned(Y_true, Y_pred)
        costs = np.vstack([self.costs_, np.zeros(len(self.labels_))])[truth.label, predicted.label]
        costs = costs + ((truth.begin != UNKNOWN) & (truth.begin != predicted.begin))
        return np.diff(np.concatenate([[0.0], np.cumsum(costs)])[offsets])

    def _aligned(self, Y_true: Any, Y_pred: Any) -> tuple[Known, Known, Indices]:
        check_examples(Y_pred, Y_true)
        both = zip(Y_true, Y_pred, strict=True)
        offsets = offsets_from_lengths([max((stop for y in pair for _, stop, _ in y), default=0) for pair in both])
        truth, predicted = (Known.of(self._encode(Y, offsets, "Y"), offsets) for Y in (Y_true, Y_pred))
        if ((predicted.label == UNKNOWN) & (truth.label != UNKNOWN)).any():
            raise InputError("Y_pred has no label for a token whose true label is known: predict whole segmentations")
        return truth, predicted, offsets

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the share of tokens with the right label among those whose label is known."""
        truth, predicted, offsets = self._aligned(Y_true, Y_pred)
        known = truth.label != UNKNOWN
        weights = None if sample_weight is None else np.repeat(sample_weight, np.diff(offsets))[known]
        return float(np.average((truth.label == predicted.label)[known], weights=weights))


def len_of(x: Any) -> int:
    """Return the number of tokens of a sequence."""
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)
