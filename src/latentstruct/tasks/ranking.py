"""Rankings: the first k documents of a query as a latent, and pairs of documents (Ranking SVM)."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning as NotConverged

from latentstruct.checks import as_reals, check_flag
from latentstruct.core.protocols import Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.exceptions import InputError
from latentstruct.kernels.planes import Atoms
from latentstruct.kernels.ranking import select_first, violated_pairs
from latentstruct.metrics.ranking import precision_at_k
from latentstruct.planes import Planes, Slopes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths, positions
from latentstruct.short_repr import show
from latentstruct.tasks.base import check_examples, require_hard_max, require_labels, require_one_latent_each
from latentstruct.tasks.inputs import InputRows, tamed
from latentstruct.tasks.packing import CURE, Arrays, PackedArrays
from latentstruct.tasks.rows import RowTask, check_rows

START_STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Values of C among which the classification model that training starts from is chosen."""
MOST_CHOSEN = 2**31 - 1


@dataclass
class Pairs:
    """Pairs of documents with different grades: grades as 0 … G_i−1 within each query, and pairs of each query."""

    ranks: Indices
    counts: Vector

    @classmethod
    def of(cls, grades: Sequence[Vector]) -> "Pairs":
        """Count the pairs of each query."""
        ranks = [np.unique(y, return_inverse=True)[1] for y in grades]
        counts = [(len(r) ** 2 - int((np.bincount(r) ** 2).sum())) / 2.0 for r in ranks]
        return cls(np.concatenate(ranks), np.array(counts))


@dataclass
class QueryBatch:
    """Documents of all queries, flat, and their grades."""

    inputs: InputRows
    offsets: Indices
    grades: Vector | None

    @property
    def n_examples(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def labelled(self) -> bool:
        """Whether the grades are known."""
        return self.grades is not None

    @cached_property
    def relevant(self) -> NDArray[np.bool_]:
        """Whether each document is relevant."""
        assert self.grades is not None
        return self.grades > 0

    @cached_property
    def n_relevant(self) -> Indices:
        """Number of relevant documents of each query."""
        return np.add.reduceat(self.relevant.astype(np.int64), self.offsets[:-1])

    @cached_property
    def pairs(self) -> "Pairs":
        """The pairs of documents with different grades."""
        assert self.grades is not None
        return Pairs.of(self.split(self.grades))

    def split(self, flat: NDArray) -> list[NDArray]:
        """Cut a flat array into those of the queries."""
        return np.split(flat, self.offsets[1:-1])

    def select(self, rows: Indices | None) -> tuple[Indices, Indices]:
        """Return the documents of the chosen queries, and the offsets among them."""
        if rows is None:
            return np.arange(self.offsets[-1]), self.offsets
        return positions(self.offsets, rows)

    def document_scores(self, w: Vector, documents: Indices | None = None) -> Vector:
        """Return w·x_j of the chosen documents."""
        return self.inputs.times(w[:, None], documents)[:, 0]

    def slopes(self, documents: Indices, counts: Any, coefficients: Vector) -> Slopes:
        """Return sums of documents times coefficients, counts[i] of them for the i-th query."""
        atoms = Atoms(documents.astype(np.int32), np.zeros(len(documents), dtype=np.int32), coefficients)
        return Slopes(self.inputs.rows, offsets_from_lengths(counts), atoms)


def check_grades(y: Any, name: str) -> Vector:
    """Return grades as a finite array, or raise an error that names `name`."""
    try:
        grades = as_reals(y)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, one grade for each document ({error}): convert them") from error
    if grades.ndim != 1:
        raise InputError(
            f"{name} must have one dimension, one grade for each document, found shape {grades.shape}: give a list of "
            "numbers for each query"
        )
    if not np.isfinite(grades).all():
        raise InputError(
            f"{name} contain NaN or infinity; expected finite numbers: give every document a grade or remove it"
        )
    return grades


def check_all_grades(Y: Any) -> list[Vector]:
    """Return the grades of all queries."""
    return [check_grades(y, f"the grades of query {i}") for i, y in enumerate(Y)]


class QueryTask(RowTask):
    """What tasks over queries share: documents with features, grades, scores w·x_j."""

    def work(self, batch: QueryBatch, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each query takes, shape (n,)."""
        return (50.0 + batch.inputs.product_time) * np.diff(batch.offsets)

    def _learn_outputs(self, Y: Any) -> list[Vector]:
        return check_all_grades(Y)

    def _set(self, n_features: int) -> None:
        self.n_inputs_ = n_features
        super()._set(n_features)

    def prepare(self, X: Any, Y: Any = None) -> QueryBatch:
        """Validate documents and grades and lay them out query after query."""
        check_examples(X, Y)
        matrices = [check_rows(x, self.n_features, f"X[{i}]") for i, x in enumerate(X)]
        empty = next((i for i, matrix in enumerate(matrices) if matrix.shape[0] == 0), None)
        if empty is not None:
            raise InputError(f"X[{empty}] must have at least one document, got none: remove the query")
        any_sparse = any(sparse.issparse(matrix) for matrix in matrices)
        stacked = sparse.vstack(matrices, format="csr") if any_sparse else np.concatenate(matrices)
        offsets = offsets_from_lengths(matrix.shape[0] for matrix in matrices)
        grades = None if Y is None else self._all_grades(Y, np.diff(offsets))
        return QueryBatch(InputRows(stacked, 1), offsets, grades)

    def pack(self, batch: QueryBatch) -> Arrays:
        """Return a batch as arrays that can be stored."""
        known = {} if batch.grades is None else {"grades": batch.grades}
        return {**batch.inputs.packed(), "offsets": batch.offsets, **known}

    def unpack(self, arrays: Arrays) -> QueryBatch:
        """Return the batch of stored arrays, which are checked and not copied."""
        found = PackedArrays(arrays)
        inputs = InputRows.unpacked(found, self.n_inputs_, 1)
        grades = found.finite("grades") if "grades" in found else None
        if grades is not None and len(grades) != inputs.shape[0]:
            raise InputError(f"there are {len(grades)} packed grades; expected {inputs.shape[0]}: {CURE}")
        return QueryBatch(inputs, found.pointers("offsets", inputs.shape[0], least=1), grades)

    def true_outputs(self, batch: QueryBatch) -> list[Vector]:
        """Return the grades that a batch was prepared with, an array for each query."""
        require_labels(batch, "clamped")
        assert batch.grades is not None
        return batch.split(batch.grades)

    @staticmethod
    def _all_grades(Y: Any, sizes: Indices) -> Vector:
        found = check_all_grades(Y)
        for i, (grades, size) in enumerate(zip(found, sizes, strict=True)):
            if len(grades) != size:
                raise InputError(
                    f"query {i} has {size} documents but {len(grades)} grades: give one grade for each document"
                )
        return np.concatenate(found)

    def scores(self, batch: QueryBatch, w: Vector) -> list[Vector]:
        """Return w·x_j of the documents of each query."""
        return batch.split(batch.document_scores(w))


class PrecisionAtK(QueryTask):
    """Precision of the first k documents of a query; which they are is latent (Yu & Joachims 2009, §5.3).

    φ(x, y, h) = (1/k) Σ_{j∈h} x_j and Δ(y, ŷ, ĥ) = min(1, n(y)/k) − (1/k)·|{j ∈ ĥ relevant}|, where h are the first k
    documents in their order and n(y) is the number of relevant ones. Known grades leave all h open that put relevant
    documents before the others.

    Parameters
    ----------
    k : int, default=5
        How many documents count. Of a shorter list all are chosen, still divided by k, so that nothing can be lost.

    Notes
    -----
    X is a sequence of matrices (n_i, d), dense or sparse, one row a document. Y is a sequence of grades (n_i,); a
    document is relevant if its grade is above 0. A query without relevant documents is allowed and changes nothing: its
    loss is 0 whatever is chosen. Equal scores are decided by the place in the list.

    Predicted outputs mark the chosen documents with 1 and all others with 0; latents are the positions of the chosen
    documents, best first. Weight f belongs to feature f. Only the hard max is available.

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
    latent = True

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _set(self, n_features: int) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or not 1 <= self.k <= MOST_CHOSEN:
            raise InputError(
                f"k is {show(self.k)}; expected a whole number of at least 1 and at most {MOST_CHOSEN}: choose how "
                "many documents count"
            )
        super()._set(n_features)

    def _check_training(self, outputs: list[Vector]) -> None:
        if not any((y > 0).any() for y in outputs):
            raise InputError(
                f"none of the {sum(map(len, outputs))} documents in Y is relevant; expected grades above 0 for "
                "relevant ones: check the grades"
            )

    def _chosen(self, batch: QueryBatch, scores: Vector, mode: Mode, documents: Indices, offsets: Indices) -> Indices:
        """Return the first documents of each query as numbers into `documents`, −1 behind a short list."""
        preferred = np.zeros(len(scores), dtype=np.bool_)
        if mode == "augmented":
            scores = scores - batch.relevant[documents]
        elif mode == "clamped":
            preferred = batch.relevant[documents]
        chosen = np.empty((len(offsets) - 1, min(self.k, int(np.diff(offsets).max(initial=0)))), dtype=np.int64)
        select_first(scores, preferred, offsets, chosen)
        return chosen

    def pool_batch(self, batch: QueryBatch, query: Query) -> Pooled:
        """Choose the first documents of the queries."""
        rows = query.rows
        documents, offsets = batch.select(rows)
        scores = batch.document_scores(query.w, None if rows is None else documents)
        # In the order of the list, the same documents always make the same plane.
        chosen = np.sort(self._chosen(batch, scores, query.mode, documents, offsets), axis=1)
        kept = chosen >= 0
        losses = np.zeros(len(chosen))
        if query.augmented:
            hits = (batch.relevant[documents[chosen]] & kept).sum(axis=1)
            losses = self._losses(batch.n_relevant if rows is None else batch.n_relevant[rows], hits)
        first = documents[chosen[kept]]
        slopes = batch.slopes(first, kept.sum(axis=1), np.full(len(first), 1.0 / self.k))
        return Pooled(np.where(kept, scores[chosen], 0.0).sum(axis=1) / self.k + losses, slopes, losses)

    def _losses(self, n_relevant: Indices, hits: Indices) -> Vector:
        """Return (min(k, n(y)) − hits) / k; more than k hits are no better than k."""
        return np.maximum(np.minimum(n_relevant, self.k) - hits, 0) / self.k

    def _first(self, batch: QueryBatch, w: Vector, mode: Mode) -> tuple[list[Indices], Vector]:
        """Return the first documents of each query by their place in its list, and the value of the choice."""
        documents, offsets = batch.select(None)
        scores = batch.document_scores(w)
        chosen = self._chosen(batch, scores, mode, documents, offsets)
        sizes = (chosen >= 0).sum(axis=1)
        values = np.where(chosen >= 0, scores[chosen], 0.0).sum(axis=1) / self.k
        starts = offsets[:-1].tolist()
        return [line[:size] - start for line, size, start in zip(chosen, sizes, starts, strict=True)], values

    def decode(self, batch: QueryBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the chosen documents of each query: marks (n_i,) as y, positions (≤ k,) as h."""
        require_hard_max(self, temperature)
        latents, values = self._first(batch, w, "free")
        predictions = []
        for h, value, size in zip(latents, values.tolist(), np.diff(batch.offsets).tolist(), strict=True):
            marks = np.zeros(size, dtype=np.int64)
            marks[h] = 1
            predictions.append(Prediction(marks, h, value))
        return predictions

    def complete(self, batch: QueryBatch, w: Vector) -> list[Indices]:
        """Return the first documents of each query when relevant ones come before all others."""
        require_labels(batch, "clamped")
        return self._first(batch, w, "clamped")[0]

    def completion_planes(self, batch: QueryBatch, latents: Sequence[Any]) -> Planes:
        """Return the planes φ(x_i, y_i, h_i)·w of given latents."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        known = batch.split(batch.relevant)
        found = [np.sort(self._check_latent(h, known[i], i)) for i, h in enumerate(latents)]
        documents = np.concatenate([h + start for h, start in zip(found, batch.offsets[:-1], strict=True)])
        slopes = batch.slopes(documents, map(len, found), np.full(len(documents), 1.0 / self.k))
        return Planes(*slopes, np.zeros(len(found)), np.zeros(len(found)), self.n_features)

    def _check_latent(self, h: Any, relevant: NDArray[np.bool_], i: int) -> Indices:
        size = min(self.k, len(relevant))
        places = np.asarray(h)
        fits = places.shape == (size,) and places.dtype.kind in "iu" and len(np.unique(places)) == size
        if not fits or places.min() < 0 or places.max() >= len(relevant):
            raise InputError(
                f"the latent of query {i} is {show(h)}; expected {size} different positions from 0 to "
                f"{len(relevant) - 1}: give the first documents in their order"
            )
        hits = relevant[places]
        if hits.sum() < min(size, relevant.sum()) or (np.diff(hits.astype(np.int8)) > 0).any():
            raise InputError(
                f"the latent of query {i} is {show(h)}, which puts an irrelevant document before a relevant one; "
                "expected all relevant documents first: order them by their grades"
            )
        return places.astype(np.int64)

    def random_latents(self, batch: QueryBatch, rng: np.random.Generator) -> list[Indices]:
        """Return a random order of each query's documents, relevant ones first, cut after k."""
        require_labels(batch, "clamped")
        documents, offsets = batch.select(None)
        chosen = self._chosen(batch, rng.random(len(documents)), "clamped", documents, offsets)
        return [line[line >= 0] - start for line, start in zip(chosen, offsets[:-1], strict=True)]

    def initial_weights(self, batch: QueryBatch, attempt: int = 0) -> Vector:
        """Return the weights of a linear classification of documents into relevant and other ones.

        Each document weighs 1 / (number of documents of its query). Of several strengths of regularisation the one with
        the highest precision at k on this batch is taken, the next best at later attempts. Without both kinds of
        documents there is nothing to tell apart and the weights are 0.

        Parameters
        ----------
        batch : QueryBatch
            Queries with grades.
        attempt : int, default=0
            0 for the best model, 1 for the second best, … (from the beginning after the last).

        Returns
        -------
        ndarray of shape (d,)
            w; the bias of the classification is left out, as it changes no order.
        """
        # Loading it takes longer than most predictions.
        from sklearn.svm import LinearSVC

        require_labels(batch, "clamped")
        if batch.relevant.all() or not batch.relevant.any():
            return np.zeros(self.n_features)
        sizes = np.diff(batch.offsets)
        weights = np.repeat(1.0 / sizes, sizes) * (sizes.sum() / len(sizes))
        found, matrix = [], tamed(batch.inputs.matrix)
        for strength in START_STRENGTHS:
            model = LinearSVC(C=strength, dual=False)
            with warnings.catch_warnings():
                # Any model will do to start from.
                warnings.simplefilter("ignore", NotConverged)
                model.fit(matrix, batch.relevant, weights)
            w = model.coef_[0].astype(np.float64)
            relevant = batch.split(batch.relevant)
            precisions = [precision_at_k(y, s, self.k) for y, s in zip(relevant, self.scores(batch, w), strict=True)]
            found.append((float(np.mean(precisions)), w))
        best_first = sorted(found, key=lambda item: -item[0])
        return best_first[attempt % len(best_first)][1]

    def initial_latents(self, batch: QueryBatch, rng: np.random.Generator, attempt: int) -> list[Indices]:
        """Return the completions at the weights of a classification (see `initial_weights`)."""
        return self.complete(batch, self.initial_weights(batch, attempt))

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return min(1, n(y)/k) − (1/k)·(relevant documents among the chosen) for each query.

        Parameters
        ----------
        Y_true : sequence of arrays (n_i,)
            Grades.
        Y_pred : sequence of arrays (n_i,)
            Marks of the chosen documents. Where more than k are marked, relevant ones are taken to come first.
        H_pred : sequence of arrays, optional
            Positions of the chosen documents; they decide if given.
        """
        n_relevant, hits = self._hits(Y_true, Y_pred, H_pred)
        return self._losses(n_relevant, hits)

    @staticmethod
    def _hits(Y_true: Any, Y_pred: Any, H_pred: Any) -> tuple[Indices, Indices]:
        check_examples(Y_true, Y_pred)
        n_relevant, hits = [], []
        for i, (y, marks) in enumerate(zip(Y_true, Y_pred, strict=True)):
            relevant = check_grades(y, f"the grades of query {i}") > 0
            chosen = check_grades(marks, f"the marks of query {i}") > 0
            if len(relevant) != len(chosen):
                raise InputError(
                    f"query {i} has {len(relevant)} grades but {len(chosen)} marks: give one of both a document"
                )
            n_relevant.append(relevant.sum())
            hits.append((relevant & chosen).sum() if H_pred is None else relevant[np.asarray(H_pred[i])].sum())
        return np.array(n_relevant, dtype=np.int64), np.array(hits, dtype=np.int64)

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the mean precision at k of the marked documents."""
        _, hits = self._hits(Y_true, Y_pred, None)
        return float(np.average(np.minimum(hits, self.k) / self.k, weights=sample_weight))


class PairwiseRanking(QueryTask):
    """Ranking SVM: f_i(w) = c_i Σ_{(a,b): y_a > y_b} max(0, 1 − w·(x_a − x_b)) over the pairs of one query.

    Parameters
    ----------
    normalize : bool, default=False
        Whether each query counts by the mean over its P_i pairs (c_i = 1/P_i) and not by their sum (c_i = 1).

    Notes
    -----
    X is a sequence of matrices (n_i, d), dense or sparse, one row a document. Y is a sequence of grades (n_i,), any
    finite numbers; equal grades make no pair. Predicted outputs are the scores w·x_j of the documents. Weight f belongs
    to feature f. Only the hard max is available.

    An output of the structure says of each pair whether it is swapped: φ = c_i Σ (x_b − x_a) and Δ = c_i Σ 1 over the
    swapped pairs. Which pairs there are is known from the grades only, so that all modes, the free one too, need a
    batch with grades; scores and predictions do not.

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

    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize

    def _check_training(self, outputs: list[Vector]) -> None:
        if all(len(np.unique(y)) < 2 for y in outputs):
            raise InputError(
                "no query in Y has documents with different grades, so there are no pairs to order; expected at least "
                "one: check the grades"
            )

    def pool_batch(self, batch: QueryBatch, query: Query) -> Pooled:
        """Sum the violated pairs of the queries."""
        check_flag(self.normalize, "normalize")
        if not batch.labelled:
            raise InputError(
                "the batch has no grades, but the pairs of documents are known from them only: prepare the batch with Y"
            )
        rows = query.rows
        documents, offsets = batch.select(rows)
        coefficients, counts = np.zeros(len(documents)), np.zeros(len(offsets) - 1)
        scores = batch.document_scores(query.w, None if rows is None else documents)
        margin = 1.0 if query.augmented else 0.0
        if query.mode != "clamped":
            violated_pairs(scores, batch.pairs.ranks[documents], offsets, margin, coefficients, counts)
        if self.normalize:
            shares = 1.0 / np.maximum(batch.pairs.counts if rows is None else batch.pairs.counts[rows], 1.0)
            coefficients *= np.repeat(shares, np.diff(offsets))
            counts *= shares
        kept = coefficients != 0.0
        slopes = batch.slopes(documents[kept], np.diff(np.append(0, np.cumsum(kept))[offsets]), coefficients[kept])
        return Pooled(margin * counts + slopes.dot(query.w), slopes, margin * counts)

    def decode(self, batch: QueryBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the scores (n_i,) of each query's documents; the score of the prediction is the highest of them."""
        return [Prediction(scores, None, float(scores.max())) for scores in self.scores(batch, w)]

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return the share of pairs that the scores have in the wrong order; equal scores count half.

        Parameters
        ----------
        Y_true : sequence of arrays (n_i,)
            Grades.
        Y_pred : sequence of arrays (n_i,)
            Scores.
        """
        check_examples(Y_true, Y_pred)
        truth = check_all_grades(Y_true)
        scores = [check_grades(s, f"the scores of query {i}") for i, s in enumerate(Y_pred)]
        for i, (y, s) in enumerate(zip(truth, scores, strict=True)):
            if len(y) != len(s):
                raise InputError(f"query {i} has {len(y)} grades but {len(s)} scores: give one of both a document")
        flat, offsets, pairs = np.concatenate(scores), offsets_from_lengths(map(len, truth)), Pairs.of(truth)
        swapped, right, unused = np.zeros(len(truth)), np.zeros(len(truth)), np.empty(len(flat))
        violated_pairs(flat, pairs.ranks, offsets, 0.0, unused, swapped)
        violated_pairs(-flat, pairs.ranks, offsets, 0.0, unused, right)
        tied = pairs.counts - swapped - right
        return (swapped + 0.5 * tied) / np.maximum(pairs.counts, 1.0)
