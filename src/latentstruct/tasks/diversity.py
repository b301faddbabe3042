"""Diverse subsets: k documents of a query that together cover as many of its subtopics as possible."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import diversity as kernels
from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.protocols import HARD, Cost, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, offsets_from_lengths
from latentstruct.core.validation import (
    boolean,
    check_parameters,
    finite_of,
    integer,
    numbers_of,
    options,
)
from latentstruct.exceptions import Description, InputError
from latentstruct.metrics.diversity import (
    check_chosen,
    count_documents,
    is_choice,
    subtopic_holders,
    subtopic_loss,
)
from latentstruct.planes.plane import Slopes
from latentstruct.tasks.base import BaseTask, check_examples, require_hard_max
from latentstruct.tasks.inputs import check_matrix
from latentstruct.tasks.row_parts import FlatBatch

SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8)
PORTION = 1000
"""Number of nodes that branch and bound visits for one query at a time; Ctrl-C is handled in between."""
SEARCHED = {"auto": PORTION, True: 2**62, False: 0}
"""Maximum number of visited nodes per query."""
TIE = 1e-9
"""Weight of words relative to subtopics in the choice of y*: too small to outweigh a subtopic."""
LOSS_FACTORS = {"free": 0.0, "augmented": -1.0}


class CandidateDocuments(NamedTuple):
    """Candidates of a query with separate features of their titles.

    Attributes
    ----------
    words, titles : array, sparse array or list
        Words of the documents and of their titles, each in one of the forms that `DiverseSubset` accepts.
    """

    words: Any
    titles: Any

    def __repr__(self) -> str:
        return short_repr(self)


def document_words(x: Any, name: str) -> "sparse.csc_array":
    """Return the counts of words in documents, (n, V), from a matrix or lists of words."""
    if issparse(x) or isinstance(x, np.ndarray):
        matrix = sparse.csc_array(check_matrix(x, name))
    else:
        matrix = _counted(x, name)
    if matrix.nnz and matrix.data.min() < 0.0:
        raise InputError(name, matrix.data.min(), "counts of at least 0")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _counted(x: Any, name: str) -> "sparse.csc_array":
    if isinstance(x, str | bytes | Mapping) or not isinstance(x, Iterable):
        raise InputError(name, x, "a matrix or a list with the words of each document")
    vocabulary: dict[Any, int] = {}
    sizes, columns, values = [], [], []
    for j, document in enumerate(x):
        if isinstance(document, str | bytes) or not isinstance(document, Iterable):
            raise InputError(f"{name}[{j}]", document, "words or counts", "Split texts into words.")
        try:
            counts = document if isinstance(document, Mapping) else Counter(document)
            columns += [vocabulary.setdefault(word, len(vocabulary)) for word in counts]
            values += [float(count) for count in counts.values()]
        except (TypeError, ValueError) as error:
            raise InputError(f"{name}[{j}]", Description(str(error)), "hashable words or numeric counts") from error
        sizes.append(len(counts))
    if not np.isfinite(values).all():
        raise InputError(name, Description("NaN or infinity"), "finite counts")
    arrays = np.array(values, dtype=np.float64), np.array(columns, dtype=np.int64), offsets_from_lengths(sizes)
    return sparse.csr_array(arrays, (len(sizes), max(1, len(vocabulary)))).tocsc()


class Coverage(NamedTuple):
    """Elements of the documents of all queries, one query after the other.

    An element is a set of documents: all words that occur in the same documents are one element, with their number; a
    subtopic is an element of its own. The benefit of element e is Σ_b counts[e, b]·v[b, bins[e]] for a table v, plus a
    part that comes from `losses`.
    """

    documents: np.ndarray  # (n + 1,) query i has the documents documents[i] … documents[i + 1]
    elements: np.ndarray  # (n + 1,) and the elements elements[i] … elements[i + 1]
    covers_at: np.ndarray  # (N + 1,)
    covers: np.ndarray  # elements of document j: covers[covers_at[j]] … covers[covers_at[j + 1]]
    holders_at: np.ndarray  # (E + 1,)
    holders: np.ndarray  # documents of element e: holders[holders_at[e]] … holders[holders_at[e + 1]]
    counts: np.ndarray  # (E, B) normalized number of words in each block of features, 0 for subtopics
    bins: np.ndarray  # (E,) number of thresholds that the element's share of documents reaches
    losses: np.ndarray  # (E,) weight of a subtopic, 0 for words


@dataclass
class DiverseBatch(FlatBatch):
    """Candidates of all queries as a coverage problem; `truth` are the best choices (n, k)."""

    coverage: Coverage
    totals: Vector
    most_nodes: int

    def is_approximate(self, temperature: Temperature) -> bool:
        """Return whether all queries are answered greedily."""
        return self.most_nodes == 0


Elements = tuple[int, list[NDArray[np.int64]], NDArray[np.float64], Indices, Vector]
"""Number of documents of a query, and its elements: holders (documents of each), counts (E, B), bins and losses."""


def stack_elements(parts: Sequence[Elements]) -> Coverage:
    """Lay the elements of all queries out one after the other, and transpose them."""
    sizes, held_by, *values = zip(*parts, strict=True)
    documents, elements = offsets_from_lengths(sizes), offsets_from_lengths(map(len, held_by))
    shifted = [held + start for part, start in zip(held_by, documents, strict=False) for held in part]
    holders = np.concatenate([np.zeros(0, dtype=np.int64), *shifted])
    holders_at = offsets_from_lengths(map(len, shifted))
    by_document = np.argsort(holders, kind="stable")
    covers = np.repeat(np.arange(len(shifted)), np.diff(holders_at))[by_document]
    covers_at = offsets_from_lengths(np.bincount(holders, minlength=int(documents[-1])))
    return Coverage(documents, elements, covers_at, covers, holders_at, holders, *map(np.concatenate, values))


@dataclass(eq=False, repr=False)
class DiverseSubset(BaseTask):
    """Choose k documents that cover the subtopics of a query: s(y) = Σ_{v ∈ V(y)} w·φ(v, x) / |V(x)|.

    V(y) are the words of the chosen documents, each counted once, and V(x) those of all candidates: the score is the
    mean benefit of the candidates' words, where uncovered ones have none. φ(v, x) says how common a word is among the
    candidates, so that no vocabulary is learned: φ_t(v, x) = 1 if at least a share t of them hold v. With several
    `levels`, a word that a document holds more of is also covered at those levels, with weights of their own; titles,
    where given, are one more level.

    The loss is the share of subtopics that no chosen document holds, each weighted by the number of candidates that
    hold it: Δ(y) = Σ_{t not covered} n_t / Σ_t n_t; 0 if there are none.

    Parameters
    ----------
    k : int, default=5
        Number of documents to choose. A query with fewer candidates is an error.
    shares : sequence of float, default=(0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8)
        Ascending thresholds t of the share of candidates that hold a word; 0 is a feature that every word has.
    levels : sequence of float, default=(0,)
        A document covers a word at a level if it holds more of it than that: at level 0 any word it has, at level 2
        with counts only words that it has three times.
    titles : bool, default=False
        Whether candidates are given as `CandidateDocuments`, whose titles are a level of their own; else titles are
        ignored.
    exact : {"auto", True, False}, default="auto"
        Whether to prove by branch and bound that no subset is better. True may take (n choose k) steps for every query
        in every iteration; ``max_seconds`` is only checked between iterations. "auto" gives up after 1000 nodes for a
        query, which is enough for some tens of documents; then and with False the answer is marked inexact. False
        takes the greedy choice, which has at least a share 1 − 1/e of the best score if no benefit is negative.

    Notes
    -----
    X is a sequence of queries, each an array or sparse array (n_i, V_i) of counts or weights ≥ 0, or a list with the
    words of each document (any hashables), or a mapping from words to counts for each. Columns need not mean the same
    in two queries. Y is a sequence of subtopics: a list with a collection of hashables for each document, or an
    indicator matrix (n_i, S_i); an integer array (m,) names documents that should be chosen instead, each then a
    subtopic of its own. Outputs are integer arrays (k,) of documents in the order of greedy choice.

    The true output y* is the choice of k documents with the smallest loss, found as predictions are; among equal ones
    that with the most words, then the first in the list. Δ(y*) may be above 0; C·Δ(y*) is then a constant part of the
    objective. In training y* is a second start of the search, so that the augmented value is never below the true
    output's. ``loss(Y, Y)`` is Δ(y*).

    Weight number b·T + t belongs to threshold t and level b, the title being the last level.

    References
    ----------
    Y. Yue and T. Joachims, Predicting diverse subsets using structural SVMs, ICML 2008.

    Examples
    --------
    >>> from latentstruct import StructuralSVM
    >>> X = [[["robot", "space"], ["robot", "space", "mars"], ["robot", "surgery"], ["robot", "surgery", "doctor"]]]
    >>> Y = [[["space"], ["space"], ["medicine"], ["medicine"]]]
    >>> model = StructuralSVM(DiverseSubset(k=2), C=10.0).fit(X, Y)
    >>> sorted(model.predict(X)[0].tolist())
    [1, 3]
    >>> model.score(X, Y)
    1.0
    """

    tags = TaskTags(exact=False, above_truth=True)
    constraints: ClassVar = {"k": integer(1), "titles": boolean, "exact": options("auto") | boolean}

    k: int = 5
    shares: Sequence[float] = SHARES
    levels: Sequence[float] = (0.0,)
    titles: bool = False
    exact: Any = "auto"

    def _set(self) -> None:
        check_parameters(self)
        self.shares_ = self._ascending(self.shares, "shares", 1.0)
        self.levels_ = self._ascending(self.levels, "levels", np.inf)
        self.n_blocks_ = len(self.levels_) + bool(self.titles)
        self.n_features = self.n_blocks_ * len(self.shares_)

    @staticmethod
    def _ascending(values: Any, name: str, most: float) -> Vector:
        found = numbers_of(values, name)
        inside = found.ndim == 1 and len(found) and ((found >= 0) & (found <= most) & np.isfinite(found)).all()
        if not inside or (np.diff(found) <= 0).any():
            raise InputError(name, values, f"ascending finite numbers from 0 to {most:g}")
        return found

    def learn(self, X: Any, Y: Any) -> None:
        """Check the parameters, and that there is a subtopic to cover; nothing is learned from the data."""
        check_examples(X, Y)
        self._set()
        if not any(len(y) if is_choice(y) else subtopic_holders(y, f"Y[{i}]") for i, y in enumerate(Y)):
            raise InputError("Y", Description("none"), "at least one document with a subtopic")

    def state(self) -> dict[str, Any]:
        return {"n_features": self.n_features}

    def restore(self, state: dict[str, Any]) -> None:
        self._set()
        if int(state["n_features"]) != self.n_features:
            raise InputError(
                "state", Description(f"{state['n_features']} features"), f"a model with {self.n_features} features"
            )

    def feature_names(self) -> list[str]:
        """Return what each weight is for."""
        blocks = ["words" if level == 0 else f"words above {level:g}" for level in self.levels_]
        blocks += ["title words"] if self.titles else []
        return [f"{block} in at least {100 * t:g} % of the documents" for block in blocks for t in self.shares_]

    def prepare(self, X: Any, Y: Any = None) -> DiverseBatch:
        check_examples(X, Y)
        truths = [None] * len(X) if Y is None else list(Y)
        parts = [self._elements(x, y, i) for i, (x, y) in enumerate(zip(X, truths, strict=True))]
        totals = np.array([float(part[-1].any()) for part in parts])
        coverage = stack_elements(parts)
        batch = DiverseBatch(coverage.documents, None, coverage, totals, SEARCHED[self.exact])
        if Y is not None:
            ties = np.zeros((self.n_blocks_, len(self.shares_) + 1))
            ties[0] = TIE
            batch.truth, _ = self._choose(batch, ties, 1.0, np.arange(len(parts)))
        return batch

    def _layers(self, x: Any, name: str) -> "tuple[list[sparse.csc_array], int]":
        """Return which documents cover which words, (n, V), at each level, and the number of words."""
        given = isinstance(x, CandidateDocuments)
        if self.titles and not given:
            raise InputError(name, x, "CandidateDocuments(words, titles) because `titles` is True")
        words = document_words(x.words if given else x, name)
        layers = [words > level if level else words for level in self.levels_.tolist()]
        if self.titles:
            layers.append(document_words(x.titles, f"{name}.titles"))
            if layers[-1].shape[0] != words.shape[0]:
                got = Description(f"{layers[-1].shape[0]} titles")
                raise InputError(f"{name}.titles", got, f"{words.shape[0]} titles, one per document")
        if words.shape[0] < self.k:
            raise InputError(name, Description(f"{words.shape[0]} documents"), f"at least `k`={self.k} documents")
        return [sparse.csc_array(layer) for layer in layers], int(np.count_nonzero(np.diff(words.indptr)))

    def _elements(self, x: Any, y: Any, i: int) -> Elements:
        layers, n_words = self._layers(x, f"X[{i}]")
        n_documents = int(layers[0].shape[0])
        groups: dict[bytes, NDArray[np.float64]] = {}
        for b, layer in enumerate(layers):
            indices, indptr = np.ascontiguousarray(layer.indices, dtype=np.int64), layer.indptr.tolist()
            for start, stop in pairwise(indptr):
                if stop > start:
                    held = indices[start:stop].tobytes()
                    groups.setdefault(held, np.zeros(self.n_blocks_))[b] += 1.0
        subtopics = [] if y is None else self._subtopics(y, n_documents, i)
        holders = [np.frombuffer(held, dtype=np.int64) for held in groups]
        sizes = np.array([len(held) for held in holders], dtype=np.float64)
        bins = np.searchsorted(n_documents * self.shares_ - 1e-9, sizes, side="right")
        weights = np.array([len(held) for held in subtopics], dtype=np.float64)
        nothing = np.zeros((len(subtopics), self.n_blocks_))
        return (
            n_documents,
            holders + [np.array(held, dtype=np.int64) for held in subtopics],
            np.concatenate([np.reshape(list(groups.values()), (-1, self.n_blocks_)) / max(1, n_words), nothing]),
            np.concatenate([bins, np.zeros(len(subtopics), dtype=np.int64)]),
            np.concatenate([np.zeros(len(holders)), weights / max(1.0, weights.sum())]),
        )

    @staticmethod
    def _subtopics(y: Any, n_documents: int, i: int) -> list[list[int]]:
        """Return the documents of each subtopic."""
        if is_choice(y):
            return [[j] for j in check_chosen(y, n_documents, f"Y[{i}]").tolist()]
        holders = subtopic_holders(y, f"Y[{i}]")
        if count_documents(y) != n_documents:
            got = Description(f"subtopics of {count_documents(y)} documents")
            raise InputError(f"Y[{i}]", got, f"the subtopics of {n_documents} documents")
        return list(holders.values())

    def _table(self, w: Vector) -> NDArray[np.float64]:
        """Return the benefit of a word by level and number of thresholds reached, shape (B, T + 1)."""
        table = np.zeros((self.n_blocks_, len(self.shares_) + 1))
        np.cumsum(w.reshape(self.n_blocks_, -1), axis=1, out=table[:, 1:])
        return table

    def _choose(
        self, batch: DiverseBatch, table: NDArray[np.float64], loss_factor: float, rows: Indices
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the chosen documents of the queries `rows`, shape (m, k), and whether each choice is proven best."""
        chosen, proven = np.empty((len(rows), self.k), dtype=np.int64), np.empty(len(rows), dtype=np.bool_)
        known = batch.truth if batch.labeled and loss_factor < 0 else np.zeros((0, self.k), dtype=np.int64)
        first = min(batch.most_nodes, PORTION)
        kernels.choose(batch.coverage, rows, table, loss_factor, first, known, chosen, proven)
        if batch.most_nodes > first:
            for row in np.flatnonzero(~proven).tolist():
                kernels.search_to_the_end(batch.coverage, int(rows[row]), table, loss_factor, PORTION, chosen[row])
            proven[:] = True
        return chosen, proven

    def pool_batch(self, batch: DiverseBatch, query: Query) -> Pooled:
        """Choose documents of the queries; an answer is exact if its choice is proven best, or clamped."""
        return self._pool(batch, query)[0]

    def _pool(self, batch: DiverseBatch, query: Query) -> tuple[Pooled, NDArray[np.int64]]:
        """Return the answer to a query, and the chosen documents."""
        rows = query.examples(batch)
        if query.mode == "clamped":
            chosen, proven = batch.truth[rows], np.ones(len(rows), dtype=np.bool_)
        else:
            chosen, proven = self._choose(batch, self._table(query.w), LOSS_FACTORS[query.mode], rows)
        covered, slopes = np.empty(len(rows)), np.empty((len(rows), self.n_features))
        kernels.choice_features(batch.coverage, rows, chosen, slopes, covered)
        losses = np.maximum(batch.totals[rows] - covered, 0.0) if query.augmented else np.zeros(len(rows))
        found = query.weights @ slopes if query.weights is not None else Slopes.from_matrix(slopes)
        return Pooled(losses + slopes @ query.w, found, losses, exact=proven), chosen

    def cost(self, batch: DiverseBatch, mode: Mode, temperature: Temperature) -> Cost:
        """Return the approximate cost per query; to search for the best may take longer."""
        covers = np.diff(batch.coverage.covers_at[batch.coverage.documents])
        return Cost(5.0 * covers if mode == "clamped" else 10.0 * self.k * covers)

    def decode(self, batch: DiverseBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the chosen documents of each query, best first."""
        require_hard_max(self, temperature)
        found, chosen = self._pool(batch, Query(w, "free"))
        return [Prediction(y, None, score) for y, score in zip(chosen, found.values.tolist(), strict=True)]

    def choose_by(self, X: Any, benefit: Callable[[Vector], Any]) -> list[NDArray[np.int64]]:
        """Choose documents by a fixed benefit of words, as baselines do, in place of learned weights.

        Parameters
        ----------
        X : sequence of queries
            As in training.
        benefit : function of array (m,) returning array (m,)
            The benefit of words by the share of candidates that hold them; 1 for all is the number of distinct words.

        Returns
        -------
        list of integer arrays of shape (k,)
            The chosen documents of each query, best first.
        """
        task, batch = self._prepared_plain(X)
        coverage = batch.coverage
        sizes = np.diff(coverage.documents)[np.repeat(np.arange(len(X)), np.diff(coverage.elements))]
        value = finite_of(benefit(np.diff(coverage.holders_at) / sizes), "result of benefit", sizes.shape)
        batch.coverage = coverage._replace(counts=coverage.counts * value[:, None])
        return [prediction.y for prediction in task.decode(batch, np.ones(1), HARD)]

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return the weighted share of subtopics that each choice misses; subtopics as Y_pred stand for y*."""
        check_examples(Y_true, Y_pred)
        losses = np.empty(len(Y_true))
        for i, (y, chosen) in enumerate(zip(Y_true, Y_pred, strict=True)):
            if is_choice(y):
                wanted = check_chosen(y, None, f"Y_true[{i}]").tolist()
                found = check_chosen(chosen, None, f"Y_pred[{i}]").tolist()
                losses[i] = len(set(wanted) - set(found)) / max(1, len(wanted))
            else:
                losses[i] = subtopic_loss(y, chosen if is_choice(chosen) else self._best_choice(chosen, i))
        return losses

    def _best_choice(self, y: Any, i: int) -> NDArray[np.int64]:
        """Return a choice of documents with the smallest loss."""
        return self._prepared_plain([sparse.csr_array((count_documents(y), 1))], [y])[1].truth[0]

    def _prepared_plain(self, X: Any, Y: Any = None) -> tuple["DiverseSubset", DiverseBatch]:
        """Return a task with one feature that every word has, and its batch."""
        task = DiverseSubset(self.k, (0.0,), exact=self.exact)
        task._set()
        return task, task.prepare(X, Y)
