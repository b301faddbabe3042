"""Correlation clustering: every pair inside a cluster counts (SVM-cluster)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.kernels import clustering as kernels
from latentstruct.kernels.planes import Atoms
from latentstruct.metrics.clusters import align_clusters, wrong_pairs
from latentstruct.planes import Slopes
from latentstruct.ragged import Indices, Vector, positions
from latentstruct.tasks.base import require_hard_max
from latentstruct.tasks.coreference import PairBatch, PairTask


class CorrelationClustering(PairTask):
    """Clusters by all their pairs: s(y) = (1/P) Σ_{(i,j) inside a cluster of y} w·x_ij, P = m(m − 1)/2 pairs.

    The loss is the share of the P pairs that are together in one of y, ŷ only: at most 1 for any document, and 0
    for one with a single item. Score and loss have the same factor 1/P, so that each pair has the same margin
    in short and in long documents.

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

    def __init__(self) -> None:
        """Take no parameters."""

    nanoseconds = 100.0

    @staticmethod
    def _clusterings(batch: PairBatch, query: Query) -> tuple[NDArray[np.int64], Vector, Vector]:
        """Return the labels of the documents' items, one after the other, with values and losses."""
        sizes = batch.n_items(query.examples(batch))
        labels, values, losses = np.empty(int(sizes.sum()), dtype=np.int64), np.empty(len(sizes)), np.empty(len(sizes))
        kernels.clusterings(*batch.problem(query), labels, values, losses)
        return labels, values, losses

    def _slopes(self, batch: PairBatch, documents: Indices, labels: NDArray[np.int64]) -> Slopes:
        """Return the features of clusterings."""
        counts, pointers = np.empty(len(documents), dtype=np.int64), np.empty(len(documents) + 1, dtype=np.int64)
        kernels.inside_pairs(documents, batch.items, labels, counts)
        n_atoms, layout = int(np.minimum(counts, self.n_features).sum()), (documents, batch.pairs, batch.items)
        atoms = Atoms(np.empty(n_atoms, dtype=np.int32), np.empty(n_atoms, dtype=np.int32), np.empty(n_atoms))
        kernels.partition_atoms(batch.rows, batch.row_of, *layout, labels, counts, self.n_features, pointers, atoms)
        return Slopes(batch.rows, pointers, Atoms(*(part[: pointers[-1]] for part in atoms)))

    def pool_batch(self, batch: PairBatch, query: Query) -> Pooled:
        """Find good clusterings of the documents of a query; answers of small documents are exact."""
        documents = query.examples(batch)
        if query.mode == "clamped":
            slopes = self._slopes(batch, documents, batch.labels()[positions(batch.items, documents)[0]])
            return Pooled(slopes.dot(query.w), slopes, np.zeros(len(documents)))
        labels, values, losses = self._clusterings(batch, query)
        exact = batch.n_items(documents) <= kernels.EXACT_ITEMS
        return Pooled(values, self._slopes(batch, documents, labels), losses, exact=exact)

    def decode(self, batch: PairBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the clusters of each document, numbered by first appearance."""
        require_hard_max(self, temperature)
        labels, values, _ = self._clusterings(batch, Query(w, "free"))
        parts = np.split(labels, batch.items[1:-1])
        return [Prediction(clusters, None, float(value)) for clusters, value in zip(parts, values, strict=True)]

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return the share of wrong pairs of each document."""
        return np.array([wrong_pairs(clusters, found) for clusters, found in align_clusters(Y_true, Y_pred)])
