"""Clusters of a document's items: joined by a latent spanning forest of strong links, or by all their pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import clustering as kernels
from latentstruct._native.pairs import distinct_rows
from latentstruct.core.pooling import latent_planes
from latentstruct.core.protocols import MODES, Cost, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, positions, split
from latentstruct.core.validation import check_length, check_parameters, real
from latentstruct.exceptions import Description, InputError
from latentstruct.metrics.clusters import align_clusters, cluster_scores, number_clusters, wrong_pairs
from latentstruct.planes.plane import Atoms, Planes, Rows, Slopes, empty_atoms
from latentstruct.tasks.base import check_examples, require_hard_max, require_labels
from latentstruct.tasks.inputs import InputRows, compress
from latentstruct.tasks.packing import Arrays, PackedArrays, optional
from latentstruct.tasks.row_parts import FlatBatch, join_compressed, require_latents
from latentstruct.tasks.rows import RowTask, check_rows

Problem = tuple[Rows, NDArray[np.int32], Vector, Vector, Indices, Indices, Indices, Indices, int]
"""Arguments of kernels; see `PairBatch.problem`."""


@dataclass
class PairBatch(FlatBatch):
    """The items and pairs of all documents, flat.

    Document t has the items offsets[t] … offsets[t+1], whose clusters `truth` numbers from 0 by first appearance, and
    the pairs pairs[t] … pairs[t+1], in condensed order. Pair p has the row of features row_of[p].
    """

    inputs: InputRows
    row_of: NDArray[np.int32]
    pairs: Indices

    def problem(self, query: Query) -> "Problem":
        """Return the pairs, weights, documents and mode of a query as kernels take them.

        The scores of all distinct rows are among them, or none if the documents have fewer pairs.
        """
        documents, w, rows = query.examples(self), np.ascontiguousarray(query.w), self.inputs.rows
        n_rows, n_pairs = self.inputs.shape[0], int((self.pairs[documents + 1] - self.pairs[documents]).sum())
        scores = self.inputs.times(w[:, None])[:, 0] if n_rows <= n_pairs else np.zeros(0)
        labels = self.truth if self.labeled else np.zeros(0, dtype=np.int64)
        return rows, self.row_of, scores, w, documents, self.pairs, self.offsets, labels, MODES[query.mode]

    def n_items(self, documents: Indices) -> Indices:
        """Return the number of items of some documents."""
        return self.offsets[documents + 1] - self.offsets[documents]

    def clusters(self) -> list[NDArray[np.int64]]:
        """Return the numbers of the true clusters of the items of each document."""
        require_labels(self, "clamped")
        return split(self.truth, self.offsets)


def items_of_pairs(n_pairs: int, name: str) -> int:
    """Return the number of items m with n_pairs = m(m − 1)/2."""
    n_items = (1 + isqrt(1 + 8 * n_pairs)) // 2
    if n_items * (n_items - 1) // 2 != n_pairs:
        got = Description(f"{n_pairs} rows")
        raise InputError(name, got, "m(m − 1)/2 rows, one per pair of m items in the order (0,1), (0,2), …, (1,2), …")
    return n_items


def pair_numbers(edges: NDArray[np.int64], n_items: int) -> Indices:
    """Return the condensed numbers of edges (E, 2)."""
    i, j = edges.min(axis=1), edges.max(axis=1)
    return i * n_items - i * (i + 1) // 2 + j - i - 1


def edges_at(pairs: Indices, n_items: int) -> NDArray[np.int64]:
    """Return the edges (E, 2), the smaller item first, of pairs by their condensed numbers."""
    i = np.arange(n_items)
    starts = i * n_items - i * (i + 1) // 2
    first = np.searchsorted(starts[: max(1, n_items - 1)], pairs, side="right") - 1
    return np.stack([first, pairs - starts[first] + first + 1], axis=1)


def chronological_forest(clusters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the edges (E, 2) that link each item to the one before it in its cluster."""
    order = np.argsort(clusters, kind="stable")
    same = clusters[order[1:]] == clusters[order[:-1]]
    edges = np.stack([order[:-1][same], order[1:][same]], axis=1)
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))]


class PairTask(RowTask):
    """What tasks on the pairs of a document's items share: inputs and labels."""

    nanoseconds = 25.0
    """Approximate time per pair."""

    def prepare(self, X: Any, Y: Any = None) -> PairBatch:
        check_examples(X, Y)
        parts = [compress(check_rows(x, self.n_features, f"X[{t}]")) for t, x in enumerate(X)]
        n_pairs = [len(pointers) - 1 for pointers, *_ in parts]
        n_items = [items_of_pairs(size, f"X[{t}]") for t, size in enumerate(n_pairs)]
        if sum(n_pairs) >= 2**31:
            raise InputError("X", Description(f"{sum(n_pairs)} pairs"), "fewer than 2**31 pairs")
        truth = None if Y is None else self._encode(Y, n_items)
        inputs, row_of = merge_rows(InputRows.of_compressed(join_compressed(parts), self.n_features, 1))
        return PairBatch(offsets_from_lengths(n_items), truth, inputs, row_of, offsets_from_lengths(n_pairs))

    def pack(self, batch: PairBatch) -> Arrays:
        known = optional(truth=batch.truth)
        return {**batch.inputs.packed(), "row_of_pair": batch.row_of, "items": batch.offsets, **known}

    def unpack(self, arrays: Arrays) -> PairBatch:
        found = PackedArrays(arrays)
        inputs = InputRows.unpacked(found, self.n_features, 1)
        row_of = found.numbers("row_of_pair", 0, inputs.shape[0], dtype=np.int32)
        items = found.take("items", np.int64)
        # A document of m items has m − 1 pairs or more.
        items = found.pointers("items", min(int(items[-1]), len(row_of) + len(items)) if len(items) else 0, least=1)
        pairs = offsets_from_lengths(np.diff(items) * (np.diff(items) - 1) // 2)
        if pairs[-1] != len(row_of):
            raise found.error("row_of_pair", f"{len(row_of)} pairs", f"{pairs[-1]} pairs")
        truth = found.numbers("truth", 0, max(1, items[-1]), items[-1]) if "truth" in found else None
        if truth is not None and (truth > np.arange(items[-1]) - np.repeat(items[:-1], np.diff(items))).any():
            raise found.error("truth", "larger numbers", "clusters numbered by first appearance")
        return PairBatch(items, truth, inputs, row_of, pairs)

    def true_outputs(self, batch: PairBatch) -> list[NDArray[np.int64]]:
        """Return the clusters that a batch was prepared with, numbered by first appearance in each document."""
        return batch.clusters()

    @staticmethod
    def _encode(Y: Any, items: list[int]) -> NDArray[np.int64]:
        numbered = [number_clusters(y, f"Y[{t}]") for t, y in enumerate(Y)]
        for t, (clusters, n_items) in enumerate(zip(numbered, items, strict=True)):
            check_length(clusters, n_items, f"Y[{t}]", "labels")
        return np.concatenate(numbered)

    def cost(self, batch: PairBatch, mode: Mode, temperature: Temperature) -> Cost:
        """Return the approximate cost per document; distinct rows are scored first where they are few."""
        few = 2 * batch.inputs.shape[0] <= batch.pairs[-1]
        return Cost(self.nanoseconds * np.diff(batch.pairs), float(batch.inputs.compressed[0][-1]) if few else 0.0)


def merge_rows(inputs: InputRows) -> tuple[InputRows, NDArray[np.int32]]:
    """Return the distinct rows and the number of each row among them."""
    row_of, first = np.empty((2, inputs.shape[0]), dtype=np.int32)
    indptr, features, data = inputs.compressed
    n_distinct = distinct_rows(indptr, features.view(np.uint32), data.view(np.uint64), row_of, first)
    entries, pointers = positions(indptr, first[:n_distinct].astype(np.int64))
    merged = pointers, features[entries], data[entries] if len(data) else data
    return InputRows.of_compressed(merged, inputs.shape[1], 1), row_of


@dataclass(eq=False, repr=False)
class Coreference(PairTask):
    """Clusters joined by a latent spanning forest h: s(y, h) = Σ_{(i,j) ∈ h} w·x_ij.

    A clustering is as good as its best spanning forest: a cluster needs one strong link for each further item. The
    prediction is the maximum spanning forest of the pairs with a positive score. The loss is
    Δ(y, ĥ) = n(y) − k(y) − Σ_{(i,j) ∈ ĥ} l(y, (i, j)), with n items, k clusters, and l = 1 inside a true cluster and −r
    across: it is 0 if and only if ĥ spans the true clusters.

    Parameters
    ----------
    penalty : float, default=1.0
        r > 0, what a link between two true clusters costs. Below 1 more links are made: recall over precision.

    Notes
    -----
    X is a list of arrays or CSR arrays (m(m − 1)/2, d), the features of all pairs of a document's m items in the order
    (0,1), (0,2), …, (1,2), …; Y a list of sequences of m cluster labels; a latent is an integer array of edges (E, 2).
    A document with one item has shape (0, d).

    References
    ----------
    C.-N. Yu and T. Joachims, Learning structural SVMs with latent variables, ICML 2009, section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import Coreference, LatentSSVM, pair_features
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 3, 6) for _ in range(30)]  # clusters of six items
    >>> X = [pair_features(np.eye(3)[y] + 0.1 * rng.normal(size=(6, 3))) for y in Y]
    >>> model = LatentSSVM(Coreference(), C=1.0).fit(X, Y)
    >>> model.score(X, Y) > 0.9
    True
    >>> model.predict_latent(X[:1])[0].shape[1]  # links between two items each
    2
    """

    tags = TaskTags(latent="always", refit_parameters=("penalty",))
    constraints: ClassVar = {"penalty": real(0.0)}
    latent = True

    penalty: float = 1.0

    def _forests(self, batch: PairBatch, query: Query) -> tuple[Indices, Indices, Vector, Vector]:
        """Return pointers, edges (as pairs of the batch), values and losses of the best forests."""
        sizes = batch.n_items(query.examples(batch))
        pointers, edges = np.empty(len(sizes) + 1, dtype=np.int64), np.empty(int(sizes.sum()), dtype=np.int64)
        values, losses = np.empty(len(sizes)), np.empty(len(sizes))
        check_parameters(self)
        kernels.forests(*batch.problem(query), float(self.penalty), pointers, edges, values, losses)
        return pointers, edges[: pointers[-1]], values, losses

    @staticmethod
    def _slopes(batch: PairBatch, pointers: Indices, edges: Indices) -> Slopes:
        """Return the features of forests: an atom for each edge."""
        atoms = Atoms(batch.row_of[edges], np.zeros(len(edges), dtype=np.int32), np.ones(len(edges)))
        return Slopes(batch.inputs.rows, pointers, atoms)

    def pool_batch(self, batch: PairBatch, query: Query) -> Pooled:
        pointers, edges, values, losses = self._forests(batch, query)
        return Pooled(values, self._slopes(batch, pointers, edges), losses)

    def _best_edges(self, batch: PairBatch, w: Vector, mode: Mode) -> tuple[list[NDArray[np.int64]], Vector]:
        pointers, edges, values, _ = self._forests(batch, Query(w, mode))
        parts = zip(split(edges, pointers), batch.pairs[:-1], np.diff(batch.offsets).tolist(), strict=True)
        return [edges_at(part - start, size) for part, start, size in parts], values

    def decode(self, batch: PairBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the clusters of each document, numbered by first appearance, with their forest."""
        require_hard_max(self, temperature)
        predictions = []
        for edges, value, size in zip(*self._best_edges(batch, w, "free"), np.diff(batch.offsets), strict=True):
            clusters = np.empty(size, dtype=np.int64)
            kernels.component_labels(edges, clusters)
            predictions.append(Prediction(clusters, edges, float(value)))
        return predictions

    def complete(self, batch: PairBatch, w: Vector) -> list[NDArray[np.int64]]:
        """Return the maximum spanning forest of each document's true clusters."""
        require_labels(batch, "clamped")
        return self._best_edges(batch, w, "clamped")[0]

    def completion_planes(self, batch: PairBatch, latents: Sequence[Any]) -> Planes:
        """Return the planes Σ_{(i,j) ∈ h} w·x_ij of given forests; raise if one does not span its true clusters."""
        require_latents(batch, latents)
        pairs = []
        for t, (latent, clusters) in enumerate(zip(latents, batch.clusters(), strict=True)):
            edges = self._checked_forest(latent, clusters, f"latents[{t}]")
            pairs.append(batch.pairs[t] + np.sort(pair_numbers(edges, len(clusters))))
        return latent_planes(self, self._slopes(batch, offsets_from_lengths(map(len, pairs)), np.concatenate(pairs)))

    @staticmethod
    def _edges(latent: Any, n_items: int, name: str) -> NDArray[np.int64]:
        edges = np.asarray(latent)
        if edges.size == 0:
            return np.zeros((0, 2), dtype=np.int64)
        if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
            raise InputError(
                name, Description(f"{edges.dtype} of shape {edges.shape}"), "an integer array of shape (E, 2)"
            )
        if edges.min() < 0 or edges.max() >= n_items or (edges[:, 0] == edges[:, 1]).any():
            raise InputError(name, edges.tolist(), f"pairs of different items from 0 to {n_items - 1}")
        return edges.astype(np.int64)

    def _checked_forest(self, latent: Any, clusters: NDArray[np.int64], name: str) -> NDArray[np.int64]:
        edges = self._edges(latent, len(clusters), name)
        across = np.flatnonzero(clusters[edges[:, 0]] != clusters[edges[:, 1]])
        if len(across):
            raise InputError(name, edges[across[0]].tolist(), "edges between items of the same cluster")
        expected = len(clusters) - int(clusters.max()) - 1
        if len(edges) != expected or kernels.component_labels(edges, np.empty_like(clusters)):
            got = Description(f"{len(edges)} edges" + (" with a cycle" if len(edges) == expected else ""))
            raise InputError(name, got, f"{expected} edges, a spanning tree of each cluster")
        return edges

    def random_latents(self, batch: PairBatch, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """Return a spanning tree of each true cluster, drawn uniformly (from uniform Prüfer codes)."""
        return [self._random_forest(clusters, rng) for clusters in batch.clusters()]

    @staticmethod
    def _random_forest(clusters: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        order = np.argsort(clusters, kind="stable")
        parts = [np.zeros((0, 2), dtype=np.int64)]
        for members in np.split(order, np.cumsum(np.bincount(clusters))[:-1]):
            if len(members) > 1:
                edges = np.empty((len(members) - 1, 2), dtype=np.int64)
                kernels.tree_of_code(rng.integers(0, len(members), len(members) - 2), edges)
                parts.append(members[edges])
        return np.concatenate(parts)

    def initial_latents(self, batch: PairBatch, rng: np.random.Generator, attempt: int) -> list[NDArray[np.int64]]:
        """Return chains that link each item to the one before it in its cluster; random trees for later attempts."""
        if attempt > 0:
            return self.random_latents(batch, rng)
        return [chronological_forest(clusters) for clusters in batch.clusters()]

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ĥ_i) for each document by true and predicted clusters and predicted forests (E, 2).

        By default each item is linked to the one before it in its predicted cluster. For other forests of the same
        clusters the loss may differ, as other links cross the true clusters.
        """
        check_parameters(self)
        pairs = align_clusters(Y_true, Y_pred)
        forests = [None] * len(pairs) if H_pred is None else list(H_pred)
        check_length(forests, len(pairs), "H_pred", "forests")
        losses = np.empty(len(pairs))
        for t, ((clusters, found), latent) in enumerate(zip(pairs, forests, strict=True)):
            if latent is None:
                edges = chronological_forest(found)
            else:
                edges = self._checked_forest(latent, found, f"H_pred[{t}]")
            inside = int((clusters[edges[:, 0]] == clusters[edges[:, 1]]).sum())
            needed = len(clusters) - int(clusters.max()) - 1
            losses[t] = needed - inside + self.penalty * (len(edges) - inside)
        return losses

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the MUC (MITRE) F1 over all documents."""
        return cluster_scores(Y_true, Y_pred, sample_weight).muc.f1


@dataclass(eq=False, repr=False)
class CorrelationClustering(PairTask):
    """Clusters by all their pairs: s(y) = (1/P) Σ_{(i,j) inside a cluster of y} w·x_ij, P = m(m − 1)/2 pairs.

    The loss is the share of the P pairs that are together in one of y, ŷ only, 0 for a document with a single item.

    Notes
    -----
    X and Y are as in `Coreference`; nothing is latent. The best clustering is NP-hard to find. It is found exactly for
    documents of up to 10 items; longer ones are clustered by greedy merging and moves of single items, and planes
    and certificates are marked inexact. In training the true clusters are a second start of the search, so that the
    augmented value is never below the true output's.

    References
    ----------
    T. Finley and T. Joachims, Supervised clustering with support vector machines, ICML 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import CorrelationClustering, StructuralSVM, pair_features
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 3, 6) for _ in range(30)]  # clusters of six items
    >>> X = [pair_features(np.eye(3)[y] + 0.1 * rng.normal(size=(6, 3))) for y in Y]
    >>> StructuralSVM(CorrelationClustering(), C=10.0).fit(X, Y).score(X, Y) > 0.9
    True
    """

    tags = TaskTags(exact=False, above_truth=True)

    nanoseconds = 100.0

    @staticmethod
    def _clusterings(batch: PairBatch, query: Query) -> tuple[NDArray[np.int64], Vector, Vector]:
        """Return the labels of the documents' items, one after the other, with values and losses."""
        sizes = batch.n_items(query.examples(batch))
        labels, (values, losses) = np.empty(int(sizes.sum()), dtype=np.int64), np.empty((2, len(sizes)))
        kernels.clusterings(*batch.problem(query), labels, values, losses)
        return labels, values, losses

    def _slopes(self, batch: PairBatch, documents: Indices, labels: NDArray[np.int64]) -> Slopes:
        """Return the features of clusterings."""
        counts, pointers = np.empty(len(documents), dtype=np.int64), np.empty(len(documents) + 1, dtype=np.int64)
        kernels.inside_pairs(documents, batch.offsets, labels, counts)
        atoms = empty_atoms(int(np.minimum(counts, self.n_features).sum()))
        layout = batch.inputs.rows, batch.row_of, documents, batch.pairs, batch.offsets
        kernels.partition_atoms(*layout, labels, counts, self.n_features, pointers, atoms)
        return Slopes(batch.inputs.rows, pointers, Atoms(*(part[: pointers[-1]] for part in atoms)))

    def pool_batch(self, batch: PairBatch, query: Query) -> Pooled:
        """Find good clusterings of the documents of a query; answers of small documents are exact."""
        documents = query.examples(batch)
        if query.mode == "clamped":
            slopes = self._slopes(batch, documents, batch.truth[positions(batch.offsets, documents)[0]])
            return Pooled(slopes.dot(query.w), slopes, np.zeros(len(documents)))
        labels, values, losses = self._clusterings(batch, query)
        exact = batch.n_items(documents) <= kernels.EXACT_ITEMS
        return Pooled(values, self._slopes(batch, documents, labels), losses, exact=exact)

    def decode(self, batch: PairBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the clusters of each document, numbered by first appearance."""
        require_hard_max(self, temperature)
        labels, values, _ = self._clusterings(batch, Query(w, "free"))
        parts = split(labels, batch.offsets)
        return [Prediction(clusters, None, float(value)) for clusters, value in zip(parts, values, strict=True)]

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return the share of wrong pairs of each document."""
        return np.array([wrong_pairs(clusters, found) for clusters, found in align_clusters(Y_true, Y_pred)])
