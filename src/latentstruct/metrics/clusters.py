"""Scores of predicted clusterings of the same items, by the conventions of coreference resolution."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latentstruct.core.lazy import optimize
from latentstruct.core.validation import check_length, check_unmasked, is_ordered, numbers_of
from latentstruct.exceptions import Description, InputError

__all__ = ["ClusterScore", "ClusterScores", "cluster_scores"]


@dataclass(frozen=True)
class ClusterScore:
    """Precision, recall and F1 of one measure, each between 0 and 1.

    A ratio with denominator 0 is 1 if truth and prediction both have none (nothing was to be found and
    nothing was), otherwise 0.
    """

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class ClusterScores:
    """Scores of clusters, over all documents.

    Parameters
    ----------
    muc : ClusterScore
        Links (Vilain et al. 1995, the MITRE scorer): the fraction of correct links, of those that span the clusters.
    b_cubed : ClusterScore
        Items (Bagga and Baldwin 1998): the mean fraction of an item's cluster that is correct.
    ceaf_entity, ceaf_mention : ClusterScore
        Clusters matched one to one (Luo 2005) by φ4 = 2|K ∩ R| / (|K| + |R|) and by φ3 = |K ∩ R|.
    lea : ClusterScore
        Links of each cluster, weighted by its size (Moosavi and Strube 2016); a cluster of one item is correct if it is
        predicted as such.
    pairs : ClusterScore
        Pairs of items in one cluster.
    conll_f1 : float
        The mean F1 of MUC, B³ and CEAF by φ4, the measure of the CoNLL-2012 shared task.
    mitre_loss : float
        The mean over documents of 1 − the document's MUC F1.
    pair_loss : float
        The mean over documents of the fraction of the document's pairs that are wrong; 0 if there is no pair.
    n_documents, n_items : int
        Numbers of documents and items.
    """

    muc: ClusterScore
    b_cubed: ClusterScore
    ceaf_entity: ClusterScore
    ceaf_mention: ClusterScore
    lea: ClusterScore
    pairs: ClusterScore
    conll_f1: float
    mitre_loss: float
    pair_loss: float
    n_documents: int
    n_items: int


def number_clusters(y: Any, name: str) -> NDArray[np.int64]:
    """Return the cluster labels of a document's items as numbers from 0 by first appearance, shape (m,)."""
    check_unmasked(y, name)
    if isinstance(y, str) or not hasattr(y, "__len__") or getattr(y, "ndim", 1) != 1 or len(y) == 0:
        raise InputError(name, y, "a sequence of at least one cluster label, one per item")
    labels = y.tolist() if isinstance(y, np.ndarray) else list(y)
    try:
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    except TypeError as error:
        raise InputError(name, Description(str(error)), "hashable cluster labels such as numbers or strings") from error
    if any(label != label for label in numbers):
        raise InputError(name, Description("NaN"), "cluster labels that are equal to themselves")
    return np.fromiter((numbers[label] for label in labels), dtype=np.int64, count=len(labels))


def align_clusters(Y_true: Any, Y_pred: Any) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return true and predicted cluster numbers of each document, or raise if they do not match."""
    for name, documents in (("Y_true", Y_true), ("Y_pred", Y_pred)):
        if not is_ordered(documents) or isinstance(documents, str):
            raise InputError(name, documents, "a sequence of documents")
    true, predicted = list(Y_true), list(Y_pred)
    check_length(predicted, len(true), "Y_pred", "documents")
    pairs = []
    for t, (y, y_hat) in enumerate(zip(true, predicted, strict=True)):
        clusters, found = number_clusters(y, f"Y_true[{t}]"), number_clusters(y_hat, f"Y_pred[{t}]")
        check_length(found, len(clusters), f"Y_pred[{t}]", "labels")
        pairs.append((clusters, found))
    return pairs


def _pairs_in(sizes: NDArray[np.int64]) -> int:
    """Return the number of pairs inside groups of the given sizes."""
    return int((sizes * (sizes - 1)).sum()) // 2


def wrong_pairs(clusters: NDArray[np.int64], found: NDArray[np.int64]) -> float:
    """Return the fraction of the pairs that are together in one of two clusterings only; 0 if there is no pair."""
    n_pairs = len(clusters) * (len(clusters) - 1) // 2
    both = _pairs_in(np.bincount(clusters * (found.max() + 1) + found))
    wrong = _pairs_in(np.bincount(clusters)) + _pairs_in(np.bincount(found)) - 2 * both
    return wrong / n_pairs if n_pairs else 0.0


# Rows of a document's counts: the numerators and denominators of precision and of recall.
_MEASURES = ("muc", "b_cubed", "ceaf_entity", "ceaf_mention", "lea", "pairs")


def _counts(clusters: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (numerator, denominator) of precision and recall per measure of one document, shape (6, 4)."""
    n_items, n_true, n_found = len(clusters), int(clusters.max()) + 1, int(found.max()) + 1
    table = np.bincount(clusters * n_found + found, minlength=n_true * n_found).reshape(n_true, n_found)
    true_sizes, found_sizes = table.sum(axis=1), table.sum(axis=0)
    # Each true cluster is split into as many parts as its row has entries, each predicted one as its column has.
    links = n_items - np.count_nonzero(table)
    squares = table.astype(np.float64) ** 2
    similarity = 2.0 * table / (true_sizes[:, None] + found_sizes)
    entity = float(similarity[optimize.linear_sum_assignment(similarity, maximize=True)].sum())
    mention = float(table[optimize.linear_sum_assignment(table, maximize=True)].sum())
    together = _pairs_in(table.ravel())
    return np.array(
        [
            (links, n_items - n_found, links, n_items - n_true),
            ((squares / found_sizes).sum(), n_items, (squares / true_sizes[:, None]).sum(), n_items),
            (entity, n_found, entity, n_true),
            (mention, n_items, mention, n_items),
            (_resolved(table.T), n_items, _resolved(table), n_items),
            (together, _pairs_in(found_sizes), together, _pairs_in(true_sizes)),
        ],
        dtype=np.float64,
    )


def _resolved(table: NDArray[np.int64]) -> float:
    """Return the size of each cluster of the rows times the fraction of its links that the columns have, summed."""
    sizes, alone = table.sum(axis=1), table.sum(axis=0) == 1
    links = (table * (table - 1)).sum(axis=1) / np.maximum(sizes - 1, 1)
    return float(np.where(sizes == 1, (table * alone).sum(axis=1), links).sum())


def _score(counts: Sequence[float] | NDArray[np.float64]) -> ClusterScore:
    hits, predicted, found, true = (float(count) for count in counts)
    if predicted == true == 0.0:
        return ClusterScore(1.0, 1.0, 1.0)
    precision = hits / predicted if predicted else 0.0
    recall = found / true if true else 0.0
    return ClusterScore(
        precision, recall, 2.0 * precision * recall / (precision + recall) if precision * recall else 0.0
    )


def cluster_scores(
    Y_true: Iterable[Any], Y_pred: Iterable[Any], sample_weight: ArrayLike | None = None
) -> ClusterScores:
    """Compare predicted clusters with the true ones of the same items.

    Numerators and denominators are added up over all documents before they are divided, as by the official scorer of
    coreference resolution; only the two losses are means over documents. Clusters of one item count as any other.

    Parameters
    ----------
    Y_true, Y_pred : collections of n sequences of labels
        The true and the predicted cluster of each item of each document; any hashable labels.
    sample_weight : array of shape (n,), optional
        Weight of each document.

    Returns
    -------
    ClusterScores
        The scores.

    Raises
    ------
    InputError
        If documents or items do not match.

    Examples
    --------
    >>> scores = cluster_scores([[1, 1, 2, 2]], [[1, 1, 1, 1]])
    >>> scores.muc.recall, round(scores.muc.precision, 3), scores.b_cubed.precision
    (1.0, 0.667, 0.5)
    """
    documents = align_clusters(Y_true, Y_pred)
    if not documents:
        raise InputError("Y_true", Y_true, "at least one document")
    weights = np.ones(len(documents)) if sample_weight is None else numbers_of(sample_weight, "sample_weight")
    if weights.shape != (len(documents),) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        expected = f"{len(documents)} finite weights ≥ 0 (one per document), not all 0"
        raise InputError("sample_weight", sample_weight, expected)
    counts = np.stack([_counts(clusters, found) for clusters, found in documents])
    scores = {name: _score(row) for name, row in zip(_MEASURES, np.tensordot(weights, counts, axes=1), strict=True)}
    return ClusterScores(
        **scores,
        conll_f1=float(np.mean([scores[name].f1 for name in ("muc", "b_cubed", "ceaf_entity")])),
        mitre_loss=float(np.average([1.0 - _score(rows[0]).f1 for rows in counts], weights=weights)),
        pair_loss=float(np.average([wrong_pairs(*pair) for pair in documents], weights=weights)),
        n_documents=len(documents),
        n_items=sum(len(clusters) for clusters, _ in documents),
    )
