"""Coreference: clusters of a document's items, held together by a latent spanning forest of strong links."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.core.protocols import Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.exceptions import InputError
from latentstruct.kernels import forest as kernels
from latentstruct.kernels import pairs as pair_kernels
from latentstruct.kernels.modes import MODES
from latentstruct.kernels.planes import Atoms, Rows
from latentstruct.metrics.clusters import align_clusters, cluster_scores, number_clusters
from latentstruct.planes import Planes, Slopes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths, positions
from latentstruct.short_repr import show
from latentstruct.tasks.base import check_examples, require_hard_max, require_labels, require_one_latent_each
from latentstruct.tasks.packing import CURE, Arrays, PackedArrays
from latentstruct.tasks.rows import RowTask, check_rows


@dataclass
class PairBatch:
    """The pairs and items of all documents, flat.

    Attributes
    ----------
    rows : Rows
        The distinct features of pairs.
    row_of : ndarray of shape (pairs[-1],)
        The row of each pair.
    pairs : ndarray of shape (n + 1,)
        Document t has the pairs pairs[t] … pairs[t+1], in condensed order.
    items : ndarray of shape (n + 1,)
        Document t has the items items[t] … items[t+1].
    truth : ndarray of shape (items[-1],) or None
        Number of each item's cluster, from 0 by first appearance in its document.
    """

    rows: Rows
    row_of: NDArray[np.int32]
    pairs: Indices
    items: Indices
    truth: NDArray[np.int64] | None

    @property
    def n_examples(self) -> int:
        """Number of documents."""
        return len(self.items) - 1

    @property
    def labelled(self) -> bool:
        """Whether the true clusters are known."""
        return self.truth is not None

    def problem(self, query: Query) -> tuple[Any, ...]:
        """Return the pairs, weights, documents and mode of a query as kernels take them.

        The scores of all distinct rows are among them, or none if the documents have fewer pairs.
        """
        documents, w = query.examples(self), np.ascontiguousarray(query.w)
        n_rows, n_pairs = len(self.rows.indptr) - 1, int((self.pairs[documents + 1] - self.pairs[documents]).sum())
        scores = np.empty(n_rows if n_rows <= n_pairs else 0)
        pair_kernels.score_rows(self.rows, w, scores)
        layout = (documents, self.pairs, self.items, self.labels())
        return (self.rows, self.row_of, scores, w, *layout, MODES[query.mode])

    def n_items(self, documents: Indices) -> Indices:
        """Return the number of items of some documents."""
        return self.items[documents + 1] - self.items[documents]

    def labels(self) -> NDArray[np.int64]:
        """Return the true clusters' numbers, or nothing where they are unknown."""
        return np.zeros(0, dtype=np.int64) if self.truth is None else self.truth

    def clusters(self, t: int) -> NDArray[np.int64]:
        """Return the true clusters' numbers of the items of document t."""
        return self.labels()[self.items[t] : self.items[t + 1]]


def items_of_pairs(n_pairs: int, name: str) -> int:
    """Return the number of items m with n_pairs = m(m − 1)/2."""
    n_items = (1 + isqrt(1 + 8 * n_pairs)) // 2
    if n_items * (n_items - 1) // 2 != n_pairs:
        raise InputError(
            f"{name} has {n_pairs} rows, which is no number m(m − 1)/2 of pairs; expected a row for each pair of "
            "items in the order (0,1), (0,2), …, (1,2), …: give all pairs"
        )
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
        """Validate documents and lay all pairs out in one sparse matrix."""
        check_examples(X, Y)
        parts = [self._compressed(x, f"X[{t}]") for t, x in enumerate(X)]
        n_pairs = [len(indptr) - 1 for indptr, _, _ in parts]
        items = [items_of_pairs(size, f"X[{t}]") for t, size in enumerate(n_pairs)]
        if sum(n_pairs) >= 2**31:
            raise InputError(f"X has {sum(n_pairs)} pairs; expected fewer than 2**31: give fewer documents at a time")
        truth = None if Y is None else self._encode(Y, items)
        rows, row_of = merge_rows(stack_rows(parts))
        return PairBatch(rows, row_of, offsets_from_lengths(n_pairs), offsets_from_lengths(items), truth)

    def pack(self, batch: PairBatch) -> Arrays:
        """Return a batch as arrays that can be stored."""
        known = {} if batch.truth is None else {"truth": batch.truth}
        indptr, places, data = batch.rows
        rows = {"row_pointers": indptr.astype(np.int64, copy=False), "row_features": places, "row_values": data}
        return {**rows, "row_of_pair": batch.row_of, "items": batch.items, **known}

    def unpack(self, arrays: Arrays) -> PairBatch:
        """Return the batch of stored arrays, which are checked and not copied."""
        found = PackedArrays(arrays)
        features = found.numbers("row_features", 0, self.n_features, dtype=np.uint32)
        pointers, values = found.pointers("row_pointers", len(features)), found.finite("row_values")
        row_of = found.numbers("row_of_pair", 0, len(pointers) - 1, dtype=np.int32)
        items = found.take("items", np.int64)
        # A document of m items has m − 1 pairs or more.
        items = found.pointers("items", min(int(items[-1]), len(row_of) + len(items)) if len(items) else 0, least=1)
        pairs = offsets_from_lengths(np.diff(items) * (np.diff(items) - 1) // 2)
        if pairs[-1] != len(row_of) or len(values) not in (0, len(features)):
            raise InputError(
                f"there are {len(row_of)} packed pairs and {len(values)} values; expected {pairs[-1]} and "
                f"{len(features)} or none: {CURE}"
            )
        truth = found.numbers("truth", 0, max(1, items[-1]), items[-1]) if "truth" in found else None
        if truth is not None and (truth > np.arange(items[-1]) - np.repeat(items[:-1], np.diff(items))).any():
            raise InputError(f"packed clusters have larger numbers than items; expected them from 0: {CURE}")
        return PairBatch(Rows(pointers, features, values), row_of, pairs, items, truth)

    def true_outputs(self, batch: PairBatch) -> list[NDArray[np.int64]]:
        """Return the clusters that a batch was prepared with, numbered by first appearance in each document."""
        require_labels(batch, "clamped")
        return np.split(batch.labels(), batch.items[1:-1])

    def _compressed(self, x: Any, name: str) -> tuple[NDArray, NDArray[np.uint32], Vector | None]:
        """Return row pointers, features and values (None if all are 1) of one document."""
        matrix = sparse.csr_array(check_rows(x, self.n_features, name))
        data = None if (matrix.data == 1.0).all() else matrix.data
        return matrix.indptr, matrix.indices.astype(np.uint32, copy=False), data

    @staticmethod
    def _encode(Y: Any, items: list[int]) -> NDArray[np.int64]:
        numbered = [number_clusters(y, f"Y[{t}]") for t, y in enumerate(Y)]
        for t, (clusters, n_items) in enumerate(zip(numbered, items, strict=True)):
            if len(clusters) != n_items:
                raise InputError(
                    f"Y[{t}] has {len(clusters)} labels, which make {len(clusters) * (len(clusters) - 1) // 2} pairs, "
                    f"but X[{t}] has {n_items * (n_items - 1) // 2} rows: give one label for each item and one row "
                    "for each pair of items"
                )
        return np.concatenate(numbered)

    def work(self, batch: PairBatch, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each document takes, shape (n,)."""
        return self.nanoseconds * np.diff(batch.pairs)

    def overhead(self, batch: PairBatch) -> float:
        """Return about how many nanoseconds the scores of all distinct rows take, where they are few."""
        few = 2 * (len(batch.rows.indptr) - 1) <= batch.pairs[-1]
        return float(batch.rows.indptr[-1]) if few else 0.0


def stack_rows(parts: Sequence[tuple[NDArray, NDArray[np.uint32], Vector | None]]) -> Rows:
    """Put the compressed rows of all documents one after the other; values only where some are not 1."""
    starts = offsets_from_lengths(indptr[-1] for indptr, _, _ in parts)
    indptr = np.concatenate([[0], *(indptr[1:] + start for (indptr, _, _), start in zip(parts, starts, strict=False))])
    places = np.concatenate([indices for _, indices, _ in parts])
    if all(data is None for _, _, data in parts):
        return Rows(indptr.astype(np.int64), places, np.zeros(0))
    data = np.ones(starts[-1])
    for (_, _, values), start in zip(parts, starts, strict=False):
        if values is not None:
            data[start : start + len(values)] = values
    return Rows(indptr.astype(np.int64), places, data)


def merge_rows(rows: Rows) -> tuple[Rows, NDArray[np.int32]]:
    """Return the distinct rows and the number of each row among them."""
    n_rows = len(rows.indptr) - 1
    row_of, first = np.empty(n_rows, dtype=np.int32), np.empty(n_rows, dtype=np.int32)
    n_distinct = pair_kernels.distinct_rows(rows.indptr, rows.places, rows.data.view(np.uint64), row_of, first)
    entries, indptr = positions(rows.indptr, first[:n_distinct].astype(np.int64))
    data = rows.data[entries] if len(rows.data) else rows.data
    return Rows(indptr, rows.places[entries], data), row_of


class Coreference(PairTask):
    """Clusters joined by a latent spanning forest h: s(y, h) = Σ_{(i,j) ∈ h} w·x_ij.

    A clustering is as good as its best spanning forest, so that a cluster needs one strong link for each further item
    and not strong links throughout. Prediction is the maximum spanning forest of the pairs with a positive
    score. The loss is Δ(y, ĥ) = n(y) − k(y) − Σ_{(i,j) ∈ ĥ} l(y, (i, j)), with n items, k clusters, and l = 1 inside a
    true cluster and −r across: it is 0 if and only if ĥ spans the true clusters.

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
    latent = True

    def __init__(self, penalty: float = 1.0) -> None:
        self.penalty = penalty

    def _set(self, n_features: int) -> None:
        self._checked_penalty()
        super()._set(n_features)

    def _checked_penalty(self) -> float:
        if isinstance(self.penalty, bool) or not isinstance(self.penalty, int | float | np.number):
            raise InputError(f"penalty must be a number, found {show(self.penalty)}: give one such as 1.0 or 0.01")
        if not 0.0 < self.penalty < np.inf:
            raise InputError(
                f"penalty must be finite and above 0, found {show(self.penalty)}: without it a wrong link costs "
                "nothing; give one such as 1.0 or 0.01"
            )
        return float(self.penalty)

    def _forests(self, batch: PairBatch, query: Query) -> tuple[Indices, Indices, Vector, Vector]:
        """Return pointers, edges (as pairs of the batch), values and losses of the best forests."""
        sizes = batch.n_items(query.examples(batch))
        pointers, edges = np.empty(len(sizes) + 1, dtype=np.int64), np.empty(int(sizes.sum()), dtype=np.int64)
        values, losses = np.empty(len(sizes)), np.empty(len(sizes))
        kernels.forests(*batch.problem(query), self._checked_penalty(), pointers, edges, values, losses)
        return pointers, edges[: pointers[-1]], values, losses

    @staticmethod
    def _slopes(batch: PairBatch, pointers: Indices, edges: Indices) -> Slopes:
        """Return the features of forests: an atom for each edge."""
        atoms = Atoms(batch.row_of[edges], np.zeros(len(edges), dtype=np.int32), np.ones(len(edges)))
        return Slopes(batch.rows, pointers, atoms)

    def pool_batch(self, batch: PairBatch, query: Query) -> Pooled:
        """Find the best forests of the documents of a query."""
        pointers, edges, values, losses = self._forests(batch, query)
        return Pooled(values, self._slopes(batch, pointers, edges), losses)

    def _best_edges(self, batch: PairBatch, w: Vector, mode: Mode) -> tuple[list[NDArray[np.int64]], Vector]:
        pointers, edges, values, _ = self._forests(batch, Query(w, mode))
        sizes = np.diff(batch.items)
        found = [
            edges_at(part - batch.pairs[t], int(sizes[t])) for t, part in enumerate(np.split(edges, pointers[1:-1]))
        ]
        return found, values

    def decode(self, batch: PairBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the clusters of each document, numbered by first appearance, with their forest."""
        require_hard_max(self, temperature)
        predictions = []
        for t, (edges, value) in enumerate(zip(*self._best_edges(batch, w, "free"), strict=True)):
            clusters = np.empty(batch.items[t + 1] - batch.items[t], dtype=np.int64)
            kernels.component_labels(edges, clusters)
            predictions.append(Prediction(clusters, edges, float(value)))
        return predictions

    def complete(self, batch: PairBatch, w: Vector) -> list[NDArray[np.int64]]:
        """Return the maximum spanning forest of each document's true clusters."""
        require_labels(batch, "clamped")
        return self._best_edges(batch, w, "clamped")[0]

    def completion_planes(self, batch: PairBatch, latents: Sequence[Any]) -> Planes:
        """Return the planes Σ_{(i,j) ∈ h} w·x_ij of given forests; raise if one does not span its true clusters."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        rows = []
        for t, latent in enumerate(latents):
            edges = self._checked_forest(latent, batch.clusters(t), f"the forest of document {t}")
            n_items = int(batch.items[t + 1] - batch.items[t])
            rows.append(batch.pairs[t] + np.sort(pair_numbers(edges, n_items)))
        slopes = self._slopes(batch, offsets_from_lengths(len(part) for part in rows), np.concatenate(rows))
        return Planes(*slopes, np.zeros(len(rows)), np.zeros(len(rows)), self.n_features)

    @staticmethod
    def _edges(latent: Any, n_items: int, name: str) -> NDArray[np.int64]:
        edges = np.asarray(latent)
        if edges.size == 0:
            return np.zeros((0, 2), dtype=np.int64)
        if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
            raise InputError(
                f"{name} has shape {edges.shape} and type {edges.dtype}; expected an integer array (E, 2): give each "
                "edge as the positions of its two items"
            )
        if edges.min() < 0 or edges.max() >= n_items or (edges[:, 0] == edges[:, 1]).any():
            raise InputError(
                f"{name} has an edge that is no pair of different items from 0 to {n_items - 1}: correct it"
            )
        return edges.astype(np.int64)

    def _checked_forest(self, latent: Any, clusters: NDArray[np.int64], name: str) -> NDArray[np.int64]:
        edges = self._edges(latent, len(clusters), name)
        across = np.flatnonzero(clusters[edges[:, 0]] != clusters[edges[:, 1]])
        if len(across):
            i, j = edges[across[0]]
            raise InputError(
                f"{name} links the items {i} and {j} of different clusters; expected items of one: link inside "
                "clusters only"
            )
        expected = len(clusters) - int(clusters.max()) - 1
        if len(edges) != expected or kernels.component_labels(edges, np.empty_like(clusters)):
            raise InputError(
                f"{name} has {len(edges)} edges or a circle; expected {expected} edges that connect all items of each "
                "cluster without a circle: give a spanning tree of each cluster"
            )
        return edges

    def random_latents(self, batch: PairBatch, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """Return a spanning tree of each true cluster, drawn uniformly (from uniform Prüfer codes)."""
        require_labels(batch, "clamped")
        return [self._random_forest(batch.clusters(t), rng) for t in range(batch.n_examples)]

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
        require_labels(batch, "clamped")
        if attempt > 0:
            return self.random_latents(batch, rng)
        return [chronological_forest(batch.clusters(t)) for t in range(batch.n_examples)]

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ĥ_i) for each document.

        Parameters
        ----------
        Y_true, Y_pred : lists of n sequences of labels
            The true and the predicted clusters.
        H_pred : list of n arrays (E, 2), optional
            The predicted forests; by default each item is linked to the one before it in its predicted cluster.
            For other forests of the same clusters the loss may differ, as other links cross the true clusters.
        """
        penalty = self._checked_penalty()
        pairs = align_clusters(Y_true, Y_pred)
        forests = [None] * len(pairs) if H_pred is None else list(H_pred)
        if len(forests) != len(pairs):
            raise InputError(
                f"H_pred has {len(forests)} forests; expected {len(pairs)}, one for each document: give as many"
            )
        losses = np.empty(len(pairs))
        for t, ((clusters, found), latent) in enumerate(zip(pairs, forests, strict=True)):
            edges = (
                chronological_forest(found) if latent is None else self._checked_forest(latent, found, f"H_pred[{t}]")
            )
            inside = int((clusters[edges[:, 0]] == clusters[edges[:, 1]]).sum())
            needed = len(clusters) - int(clusters.max()) - 1
            losses[t] = needed - inside + penalty * (len(edges) - inside)
        return losses

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the MUC (MITRE) F1 over all documents."""
        return cluster_scores(Y_true, Y_pred, sample_weight).muc.f1
