"""Correlation clustering: every pair inside a cluster counts (SVM-cluster)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Mode, Prediction, Temperature
from latentstruct.kernels import clustering as kernels
from latentstruct.kernels.modes import MODES
from latentstruct.kernels.planes import Atoms
from latentstruct.metrics.clusters import align_clusters, wrong_pairs
from latentstruct.planes import Planes
from latentstruct.ragged import Indices, Vector, positions
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

    def __init__(self) -> None:
        """Take no parameters."""

    def _clusterings(
        self, batch: PairBatch, w: Vector, mode: Mode, asked: Indices
    ) -> tuple[NDArray[np.int64], Vector, Vector]:
        """Return the labels of the asked documents' items, one after the other, with values and losses."""
        labels = np.empty(int((batch.items[asked + 1] - batch.items[asked]).sum()), dtype=np.int64)
        values, losses = np.empty(len(asked)), np.empty(len(asked))
        w = np.ascontiguousarray(w)
        kernels.clusterings(
            batch.rows,
            batch.row_of,
            batch.row_scores(w, asked),
            w,
            asked,
            batch.pairs,
            batch.items,
            batch.labels(),
            MODES[mode],
            labels,
            values,
            losses,
        )
        return labels, values, losses

    def _planes_of(
        self, batch: PairBatch, asked: Indices, labels: NDArray[np.int64], offsets: Vector, values: Vector
    ) -> Planes:
        counts = np.empty(len(asked), dtype=np.int64)
        kernels.inside_pairs(asked, batch.items, labels, counts)
        room = int(np.minimum(counts, self.n_features).sum())
        atoms = Atoms(np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32), np.empty(room))
        pointers = np.empty(len(asked) + 1, dtype=np.int64)
        kernels.partition_atoms(
            batch.rows, batch.row_of, asked, batch.pairs, batch.items, labels, counts, self.n_features, pointers, atoms
        )
        atoms = Atoms(*(part[: pointers[-1]] for part in atoms))
        return Planes(batch.rows, pointers, atoms, offsets, values, self.n_features)

    nanoseconds = 100.0

    def planes(
        self,
        batch: PairBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        rows: Indices | None = None,
    ) -> Planes:
        """Return one plane for each asked document; exact only if all of them are small, or clamped."""
        self._check_request(batch, mode, temperature)
        asked = np.arange(batch.n_examples) if rows is None else rows
        if mode == "clamped":
            items, _ = positions(batch.items, asked)
            planes = self._planes_of(batch, asked, batch.labels()[items], np.zeros(len(asked)), np.zeros(len(asked)))
            planes.values = planes.dot(w)
            return planes
        labels, values, losses = self._clusterings(batch, w, mode, asked)
        planes = self._planes_of(batch, asked, labels, losses, values)
        planes.exact = bool((batch.items[asked + 1] - batch.items[asked] <= kernels.EXACT_ITEMS).all())
        return planes

    def decode(self, batch: PairBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the clusters of each document, numbered by first appearance."""
        self._check_request(batch, "free", temperature)
        labels, values, _ = self._clusterings(batch, w, "free", np.arange(batch.n_examples))
        parts = np.split(labels, batch.items[1:-1])
        return [Prediction(clusters, None, float(value)) for clusters, value in zip(parts, values, strict=True)]

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return the share of wrong pairs of each document."""
        return np.array([wrong_pairs(clusters, found) for clusters, found in align_clusters(Y_true, Y_pred)])
