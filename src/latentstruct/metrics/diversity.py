"""Quality of diverse subsets: coverage of the subtopics of a query's documents."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.types import Indices
from latentstruct.core.validation import check_length, check_lists, check_sparse, check_unmasked, integer, is_ordered
from latentstruct.exceptions import Description, InputError

__all__ = ["DiversityScores", "diversity_scores", "expected_random_loss", "subtopic_loss", "subtopic_recall"]

Holders = dict[Hashable, list[int]]


def is_choice(y: Any) -> bool:
    """Return whether an output names documents, as predictions do, instead of listing subtopics."""
    return isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "iu"


def subtopic_holders(y: Any, name: str) -> Holders:
    """Return the documents of each subtopic; `name` is the parameter in errors.

    `y` has a collection of subtopics per document, or is an array or sparse array (n, S), in which entries are nonzero.
    """
    if issparse(y) or (isinstance(y, np.ndarray) and y.ndim == 2 and y.dtype.kind in "biuf"):
        if issparse(y):
            check_sparse(y, name)
        matrix = sparse.csr_array(y, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if np.isnan(matrix.data).any():
            raise InputError(name, Description("NaN"), "a matrix of numbers, 0 for absent subtopics")
        matrix = matrix.tocoo()
        held: Holders = {}
        for document, subtopic in sorted(zip(*(c.tolist() for c in matrix.coords), strict=True)):
            held.setdefault(subtopic, []).append(document)
        return held
    if isinstance(y, str | bytes | Mapping) or not (is_ordered(y) and hasattr(y, "__iter__")):
        raise InputError(name, y, "a list with a collection of subtopics per document")
    holders: Holders = {}
    for document, subtopics in enumerate(y):
        if (
            isinstance(subtopics, str | bytes)
            or not hasattr(subtopics, "__iter__")
            or not getattr(subtopics, "ndim", 1)
        ):
            raise InputError(f"{name}[{document}]", subtopics, "a list of subtopics such as ['space', 'medicine']")
        try:
            for subtopic in dict.fromkeys(subtopics):
                holders.setdefault(subtopic, []).append(document)
        except TypeError as error:
            got, expected = Description(str(error)), "hashable subtopics such as numbers or strings"
            raise InputError(f"{name}[{document}]", got, expected) from error
    return holders


def count_documents(y: Any) -> int:
    """Return the number of documents that an output lists subtopics for."""
    return int(y.shape[0]) if hasattr(y, "shape") else len(y)


def check_chosen(chosen: Any, n_documents: int | None, name: str) -> Indices:
    """Return chosen documents as an array of distinct indices."""
    check_unmasked(chosen, name)
    try:
        documents: NDArray = np.asarray(chosen)
    except ValueError:
        # Lists of different lengths.
        documents = np.array([None])
    if documents.size == 0:
        return np.zeros(0, dtype=np.int64)
    if documents.ndim != 1 or documents.dtype.kind not in "iu":
        raise InputError(name, chosen, "the indices of the chosen documents")
    documents = documents.astype(np.int64)
    if documents.min() < 0 or (n_documents is not None and documents.max() >= n_documents):
        wrong = documents[(documents < 0) | (documents >= (np.inf if n_documents is None else n_documents))][0]
        expected = "of at least 0" if n_documents is None else f"from 0 to {n_documents - 1}"
        raise InputError(name, wrong, f"indices of documents {expected}")
    if len(np.unique(documents)) != len(documents):
        raise InputError(name, documents.tolist(), "indices of different documents")
    return documents


def _shares_covered(y: Any, chosen: Any, weighted: bool) -> float:
    """Return the covered fraction of the subtopics, 1 if there are none."""
    holders = subtopic_holders(y, "y")
    documents = set(check_chosen(chosen, count_documents(y), "chosen").tolist())
    total = covered = 0
    for held in holders.values():
        weight = len(held) if weighted else 1
        total += weight
        covered += weight * (not documents.isdisjoint(held))
    return covered / total if total else 1.0


def subtopic_loss(y: Any, chosen: Any) -> float:
    """Return the weighted fraction of subtopics that no chosen document contains.

    Parameters
    ----------
    y : sequence of n collections of hashables, or array of shape (n, S)
        The subtopics of each candidate document.
    chosen : array of shape (k,)
        Distinct documents, counted from 0.

    Returns
    -------
    float
        In [0, 1]; the weight of a subtopic is the number of candidates that contain it. 0 if there are no subtopics.
    """
    return 1.0 - _shares_covered(y, chosen, weighted=True)


def subtopic_recall(y: Any, chosen: Any) -> float:
    """Return the fraction of subtopics that a chosen document contains, each counted once; 1 if there are none.

    This is the subtopic recall of Zhai, Cohen and Lafferty (2003); `y` and `chosen` as in `subtopic_loss`.
    """
    return _shares_covered(y, chosen, weighted=False)


def expected_random_loss(y: Any, k: int) -> float:
    """Return the mean of `subtopic_loss` over all choices of k documents.

    A subtopic of m among n documents is missed with probability C(n − m, k)/C(n, k).

    Parameters
    ----------
    y : sequence of n collections of hashables, or array of shape (n, S)
        The subtopics of each candidate document.
    k : int
        Number of chosen documents; all of them if there are fewer.
    """
    sizes = np.array([len(held) for held in subtopic_holders(y, "y").values()], dtype=np.float64)
    if not len(sizes):
        return 0.0
    integer(1).check(k, "k")
    n = count_documents(y)
    steps = np.arange(min(k, n))[:, None]
    missed = np.prod(np.maximum(n - sizes - steps, 0.0) / (n - steps), axis=0)
    return float(sizes @ missed / sizes.sum())


@dataclass(frozen=True)
class DiversityScores:
    """Means over queries.

    Attributes
    ----------
    n_queries, n_without_subtopics : int
        Numbers of queries, and of queries without subtopics, whose loss is 0 and recall 1.
    loss, recall : float
        Of the choices; see `subtopic_loss` and `subtopic_recall`.
    random_loss : float
        The expected loss of the same number of documents chosen at random.
    """

    n_queries: int
    n_without_subtopics: int
    loss: float
    recall: float
    random_loss: float


def diversity_scores(Y: Sequence[Any], choices: Sequence[Any]) -> DiversityScores:
    """Return the mean quality of chosen subsets.

    Parameters
    ----------
    Y : sequence of n outputs
        Subtopics of each query's documents.
    choices : sequence of n arrays of shape (k,)
        The chosen documents of each query.
    """
    check_lists(Y=Y, choices=choices)
    if not len(Y):
        raise InputError("Y", Y, "at least one query")
    check_length(choices, len(Y), "choices", "choices")
    pairs = list(zip(Y, choices, strict=True))
    return DiversityScores(
        len(Y),
        sum(not subtopic_holders(y, "Y") for y in Y),
        float(np.mean([subtopic_loss(y, chosen) for y, chosen in pairs])),
        float(np.mean([subtopic_recall(y, chosen) for y, chosen in pairs])),
        float(np.mean([expected_random_loss(y, len(chosen)) for y, chosen in pairs])),
    )
