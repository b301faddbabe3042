"""Rankings: the first k documents of a query as a latent, and pairs of documents (Ranking SVM)."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.measures import select_first, violated_pairs
from latentstruct.core.lazy import sklearn
from latentstruct.core.pooling import latent_planes
from latentstruct.core.protocols import Cost, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, split
from latentstruct.core.validation import boolean, check_parameters, finite_of, integer, numbers_of
from latentstruct.exceptions import Description, InputError
from latentstruct.metrics.ranking import precision_at_k
from latentstruct.planes.plane import Atoms, Planes, Slopes
from latentstruct.tasks.base import check_examples, require_hard_max, require_labels
from latentstruct.tasks.inputs import InputRows, rescaled
from latentstruct.tasks.packing import Arrays, PackedArrays, optional
from latentstruct.tasks.row_parts import FlatBatch, RowParts, require_latents, stack_examples
from latentstruct.tasks.rows import RowTask

START_STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Values of C among which the classification model that training starts from is chosen."""
MOST_CHOSEN = 2**31 - 1


def graded_pairs(grades: Sequence[Vector]) -> tuple[Indices, Vector]:
    """Return grades as 0 … G_i−1 within each query, and the number of pairs of different grades of each query."""
    ranks = [np.unique(y, return_inverse=True)[1] for y in grades]
    counts = [(len(r) ** 2 - int((np.bincount(r) ** 2).sum())) / 2.0 for r in ranks]
    return np.concatenate(ranks), np.array(counts)


@dataclass
class QueryBatch(FlatBatch):
    """Documents of all queries, flat; the truth are their grades."""

    inputs: InputRows

    @cached_property
    def relevant(self) -> NDArray[np.bool_]:
        """Whether each document is relevant."""
        return self.truth > 0

    @cached_property
    def n_relevant(self) -> Indices:
        """Number of relevant documents of each query."""
        return np.add.reduceat(self.relevant.astype(np.int64), self.offsets[:-1])

    @cached_property
    def pairs(self) -> tuple[Indices, Vector]:
        """The pairs of documents with different grades; see `graded_pairs`."""
        return graded_pairs(split(self.truth, self.offsets))

    def documents(self, query: Query) -> RowParts:
        """Return the documents of the queries."""
        return RowParts.of(self.inputs, self.offsets, query.rows)


def check_grades(Y: Any, name: str = "Y", sizes: Any = None) -> list[Vector]:
    """Return the finite numbers of the documents of all queries; `sizes` are the numbers of documents if given."""
    found = []
    for i, y in enumerate(Y):
        values = numbers_of(y, f"{name}[{i}]")
        size = values.size if sizes is None else sizes[i]
        found.append(finite_of(values, f"{name}[{i}]", (size,), "one number per document"))
    return found


def check_both(Y_true: Any, Y_pred: Any) -> tuple[list[Vector], list[Vector]]:
    """Return the grades of the documents of all queries, and as many predicted numbers."""
    check_examples(Y_true, Y_pred)
    truth = check_grades(Y_true, "Y_true")
    return truth, check_grades(Y_pred, "Y_pred", [len(y) for y in truth])


class QueryTask(RowTask):
    """What tasks over queries share: documents with features, grades, scores w·x_j."""

    def cost(self, batch: QueryBatch, mode: Mode, temperature: Temperature) -> Cost:
        return Cost((50.0 + batch.inputs.product_time) * np.diff(batch.offsets))

    def _learn_outputs(self, Y: Any) -> list[Vector]:
        return check_grades(Y)

    def _set(self, n_features: int) -> None:
        self.n_inputs_ = n_features
        super()._set(n_features)

    def prepare(self, X: Any, Y: Any = None) -> QueryBatch:
        check_examples(X, Y)
        inputs, offsets = stack_examples(X, self.n_features, 1)
        sizes = np.diff(offsets).tolist()
        if 0 in sizes:
            raise InputError(f"X[{sizes.index(0)}]", Description("none"), "at least one document")
        grades = None if Y is None else np.concatenate(check_grades(Y, sizes=sizes))
        return QueryBatch(offsets, grades, inputs)

    def pack(self, batch: QueryBatch) -> Arrays:
        return {**batch.inputs.packed(), "offsets": batch.offsets, **optional(grades=batch.truth)}

    def unpack(self, arrays: Arrays) -> QueryBatch:
        found = PackedArrays(arrays)
        inputs = InputRows.unpacked(found, self.n_inputs_, 1)
        grades = found.finite("grades") if "grades" in found else None
        if grades is not None and len(grades) != inputs.shape[0]:
            raise found.error("grades", f"{len(grades)} grades", f"{inputs.shape[0]} grades")
        return QueryBatch(found.pointers("offsets", inputs.shape[0], least=1), grades, inputs)

    def true_outputs(self, batch: QueryBatch) -> list[Vector]:
        """Return the grades that a batch was prepared with, an array for each query."""
        require_labels(batch, "clamped")
        return split(batch.truth, batch.offsets)

    def scores(self, batch: QueryBatch, w: Vector) -> list[Vector]:
        """Return w·x_j of the documents of each query."""
        query = Query(w, "free")
        return split(batch.documents(query).scores(query), batch.offsets)


@dataclass(eq=False, repr=False)
class PrecisionAtK(QueryTask):
    """Precision of the first k documents of a query; which they are is latent (Yu & Joachims 2009, §5.3).

    φ(x, y, h) = (1/k) Σ_{j∈h} x_j and Δ(y, ŷ, ĥ) = min(1, n(y)/k) − (1/k)·|{j ∈ ĥ relevant}|, where h are the first k
    documents in their order and n(y) is the number of relevant ones. Known grades leave all h open that put relevant
    documents before the others.

    Parameters
    ----------
    k : int, default=5
        Number of documents that count. All documents of a shorter list are chosen, still divided by k; their loss is 0.

    Notes
    -----
    X is a sequence of matrices (n_i, d), dense or sparse, with one row per document. Y is a sequence of grades (n_i,);
    a document is relevant if its grade is above 0. The loss of a query without relevant documents is 0. Ties are broken
    by the place in the list. Only the hard max is available.

    Predicted outputs mark the chosen documents with 1 and all others with 0; latents are the positions of the chosen
    documents, best first.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import LatentSSVM, PrecisionAtK
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(10, 3)) for _ in range(30)]  # ten documents for each query
    >>> Y = [(x[:, 0] > 0.5).astype(int) for x in X]
    >>> model = LatentSSVM(PrecisionAtK(k=2), C=1.0).fit(X, Y)
    >>> model.score(X, Y) > 0.8
    True
    """

    tags = TaskTags(latent="always", refit_parameters=("k",))
    constraints: ClassVar = {"k": integer(1, MOST_CHOSEN)}
    latent = True

    k: int = 5

    def _check_training(self, outputs: list[Vector]) -> None:
        if not any((y > 0).any() for y in outputs):
            raise InputError("Y", Description("none"), "grades with at least one relevant document")

    def _chosen(self, batch: QueryBatch, documents: RowParts, mode: Mode, scores: Vector) -> Indices:
        """Return the first documents of each query in their order, as positions in all, −1 after a short list."""
        preferred = np.zeros(len(scores), dtype=np.bool_)
        if mode == "augmented":
            scores = scores - documents.of_all(batch.relevant)
        elif mode == "clamped":
            preferred = documents.of_all(batch.relevant)
        most = int(np.diff(documents.offsets).max(initial=0))
        chosen = np.empty((len(documents.offsets) - 1, min(self.k, most)), dtype=np.int64)
        select_first(scores, preferred, documents.offsets, chosen)
        return chosen

    def pool_batch(self, batch: QueryBatch, query: Query) -> Pooled:
        documents = batch.documents(query)
        scores = documents.scores(query)
        # In the order of the list, the same documents always make the same plane.
        chosen = np.sort(self._chosen(batch, documents, query.mode, scores), axis=1)
        kept, losses = chosen >= 0, np.zeros(len(chosen))
        if query.augmented:
            hits = (documents.of_all(batch.relevant)[chosen] & kept).sum(axis=1)
            losses = self._losses(batch.n_relevant[query.examples(batch)], hits)
        first = chosen[kept] if documents.chosen is None else documents.chosen[chosen[kept]]
        atoms = Atoms(first.astype(np.int32), np.zeros(len(first), dtype=np.int32), np.full(len(first), 1.0 / self.k))
        slopes = Slopes(batch.inputs.rows, offsets_from_lengths(kept.sum(axis=1)), atoms)
        return Pooled(self._values(scores, chosen) + losses, slopes, losses)

    def _values(self, scores: Vector, chosen: Indices) -> Vector:
        """Return the value of the chosen documents of each query."""
        return np.where(chosen >= 0, scores[chosen], 0.0).sum(axis=1) / self.k

    def _losses(self, n_relevant: Indices, hits: Indices) -> Vector:
        """Return (min(k, n(y)) − hits) / k; more than k hits are no better than k."""
        return np.maximum(np.minimum(n_relevant, self.k) - hits, 0) / self.k

    def _first(self, batch: QueryBatch, query: Query, scores: Vector) -> tuple[list[Indices], Vector]:
        """Return the first documents of each query by their place in its list, and the value of the choice."""
        chosen = self._chosen(batch, batch.documents(query), query.mode, scores)
        sizes, starts = (chosen >= 0).sum(axis=1).tolist(), batch.offsets[:-1].tolist()
        found = [line[:size] - start for line, size, start in zip(chosen, sizes, starts, strict=True)]
        return found, self._values(scores, chosen)

    def decode(self, batch: QueryBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the chosen documents of each query: marks (n_i,) as y, positions (≤ k,) as h."""
        require_hard_max(self, temperature)
        query = Query(w, "free")
        latents, values = self._first(batch, query, batch.documents(query).scores(query))
        predictions = []
        for h, value, size in zip(latents, values.tolist(), np.diff(batch.offsets).tolist(), strict=True):
            marks = np.zeros(size, dtype=np.int64)
            marks[h] = 1
            predictions.append(Prediction(marks, h, value))
        return predictions

    def complete(self, batch: QueryBatch, w: Vector) -> list[Indices]:
        """Return the first documents of each query when relevant ones come before all others."""
        require_labels(batch, "clamped")
        query = Query(w, "clamped")
        return self._first(batch, query, batch.documents(query).scores(query))[0]

    def completion_planes(self, batch: QueryBatch, latents: Sequence[Any]) -> Planes:
        """Return the planes φ(x_i, y_i, h_i)·w of given latents."""
        require_latents(batch, latents)
        query, counts = Query(np.zeros(self.n_features), "clamped"), np.zeros(len(batch.truth))
        parts = zip(latents, split(counts, batch.offsets), split(batch.relevant, batch.offsets), strict=True)
        for i, (h, own, relevant) in enumerate(parts):
            own[self._check_latent(h, relevant, i)] = 1.0 / self.k
        return latent_planes(self, batch.documents(query).slopes(counts, query))

    def _check_latent(self, h: Any, relevant: NDArray[np.bool_], i: int) -> Indices:
        size, places = min(self.k, len(relevant)), np.asarray(h)
        fits = places.shape == (size,) and places.dtype.kind in "iu" and len(np.unique(places)) == size
        if not fits or places.min() < 0 or places.max() >= len(relevant):
            raise InputError(f"latents[{i}]", h, f"{size} different positions from 0 to {len(relevant) - 1}")
        hits = relevant[places]
        if hits.sum() < min(size, relevant.sum()) or (np.diff(hits.astype(np.int8)) > 0).any():
            raise InputError(f"latents[{i}]", h, "positions of relevant documents before all others")
        return places.astype(np.int64)

    def random_latents(self, batch: QueryBatch, rng: np.random.Generator) -> list[Indices]:
        """Return a random order of each query's documents, relevant ones first, cut after k."""
        require_labels(batch, "clamped")
        return self._first(batch, Query(np.zeros(self.n_features), "clamped"), rng.random(len(batch.truth)))[0]

    def initial_weights(self, batch: QueryBatch, attempt: int = 0) -> Vector:
        """Return the weights of a linear classification of documents into relevant and other ones, without its bias.

        The weight of a document is 1 / (number of documents of its query). Among several strengths of regularization,
        the one with the highest precision at k on this batch is used, the next best at later attempts. Without both
        kinds of documents the weights are 0.
        """
        require_labels(batch, "clamped")
        if batch.relevant.all() or not batch.relevant.any():
            return np.zeros(self.n_features)
        sizes = np.diff(batch.offsets)
        weights = np.repeat(1.0 / sizes, sizes) * (sizes.sum() / len(sizes))
        found, matrix, relevant = [], rescaled(batch.inputs.matrix), split(batch.relevant, batch.offsets)
        for strength in START_STRENGTHS:
            model = sklearn.svm.LinearSVC(C=strength, dual=False)
            with warnings.catch_warnings():
                # Any model is good enough to start from.
                warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
                model.fit(matrix, batch.relevant, weights)
            w = model.coef_[0].astype(np.float64)
            precisions = [precision_at_k(y, s, self.k) for y, s in zip(relevant, self.scores(batch, w), strict=True)]
            found.append((float(np.mean(precisions)), w))
        best_first = sorted(found, key=lambda item: -item[0])
        return best_first[attempt % len(best_first)][1]

    def initial_latents(self, batch: QueryBatch, rng: np.random.Generator, attempt: int) -> list[Indices]:
        """Return the completions at the weights of a classification (see `initial_weights`)."""
        return self.complete(batch, self.initial_weights(batch, attempt))

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return min(1, n(y)/k) − (1/k)·(relevant documents among the chosen) for each query.

        Y_true are grades (n_i,). Y_pred marks the chosen documents; where more than k are marked, relevant ones are
        assumed to come first. H_pred are the positions of the chosen documents, used instead of Y_pred if given.
        """
        return self._losses(*self._hits(Y_true, Y_pred, H_pred))

    @staticmethod
    def _hits(Y_true: Any, Y_pred: Any, H_pred: Any) -> tuple[Indices, Indices]:
        """Return the numbers of relevant documents, and of those among them that are chosen."""
        counts = []
        for i, (y, marks) in enumerate(zip(*check_both(Y_true, Y_pred), strict=True)):
            counts.append(((y > 0).sum(), (y[marks > 0 if H_pred is None else np.asarray(H_pred[i])] > 0).sum()))
        n_relevant, hits = np.array(counts, dtype=np.int64).T
        return n_relevant, hits

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the mean precision at k of the marked documents."""
        _, hits = self._hits(Y_true, Y_pred, None)
        return float(np.average(np.minimum(hits, self.k) / self.k, weights=sample_weight))


@dataclass(eq=False, repr=False)
class PairwiseRanking(QueryTask):
    """Ranking SVM: f_i(w) = c_i Σ_{(a,b): y_a > y_b} max(0, 1 − w·(x_a − x_b)) over the pairs of one query.

    Parameters
    ----------
    normalize : bool, default=False
        Whether to use the mean over the P_i pairs of a query (c_i = 1/P_i) instead of their sum (c_i = 1).

    Notes
    -----
    X is a sequence of matrices (n_i, d), dense or sparse, with one row per document. Y is a sequence of grades (n_i,),
    any finite numbers; equal grades make no pair. Predicted outputs are the scores w·x_j of the documents. Only the
    hard max is available.

    An output of the structure says of each pair whether it is swapped: φ = c_i Σ (x_b − x_a) and Δ = c_i Σ 1 over the
    swapped pairs. All modes need a batch with grades, which define the pairs; scores and predictions do not.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import PairwiseRanking, StructuralSVM
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(10, 3)) for _ in range(30)]  # ten documents for each query
    >>> Y = [np.digitize(x[:, 0], [0.0, 1.0]) for x in X]  # grades 0, 1, 2
    >>> model = StructuralSVM(PairwiseRanking(), C=0.1).fit(X, Y)
    >>> int(model.coef_.argmax())
    0
    """

    tags = TaskTags(refit_parameters=("normalize",))
    constraints: ClassVar = {"normalize": boolean}

    normalize: bool = False

    def _check_training(self, outputs: list[Vector]) -> None:
        if all(len(np.unique(y)) < 2 for y in outputs):
            raise InputError("Y", Description("no pairs to order"), "grades that differ in at least one query")

    def pool_batch(self, batch: QueryBatch, query: Query) -> Pooled:
        check_parameters(self)
        if not batch.labeled:
            raise InputError(
                "batch", Description("none"), "a batch with grades, which define pairs", "Prepare it with `Y`."
            )
        documents = batch.documents(query)
        offsets = documents.offsets
        coefficients, counts = np.zeros(offsets[-1]), np.zeros(len(offsets) - 1)
        margin, (ranks, n_pairs) = 1.0 if query.augmented else 0.0, batch.pairs
        if query.mode != "clamped":
            violated_pairs(documents.scores(query), documents.of_all(ranks), offsets, margin, coefficients, counts)
        if self.normalize:
            shares = 1.0 / np.maximum(n_pairs[query.examples(batch)], 1.0)
            coefficients *= np.repeat(shares, np.diff(offsets))
            counts *= shares
        slopes = documents.slopes(coefficients, query)
        return Pooled(margin * counts + slopes.dot(query.w), slopes, margin * counts)

    def decode(self, batch: QueryBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the scores (n_i,) of each query's documents; the score of the prediction is the highest of them."""
        return [Prediction(scores, None, float(scores.max())) for scores in self.scores(batch, w)]

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return the share of pairs of grades Y_true that the scores Y_pred have in the wrong order, ties as half."""
        truth, scores = check_both(Y_true, Y_pred)
        (ranks, n_pairs), flat = graded_pairs(truth), np.concatenate(scores)
        offsets = offsets_from_lengths(map(len, truth))
        (swapped, right), unused = np.zeros((2, len(truth))), np.empty(len(flat))
        violated_pairs(flat, ranks, offsets, 0.0, unused, swapped)
        violated_pairs(-flat, ranks, offsets, 0.0, unused, right)
        return (swapped + 0.5 * (n_pairs - swapped - right)) / np.maximum(n_pairs, 1.0)
