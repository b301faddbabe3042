"""Queries with graded documents: svmlight lines with ``qid:``, as in LETOR and most ranking tools."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import sparse
from latentstruct.exceptions import Description, InputError
from latentstruct.io.svmlight import SparseRows
from latentstruct.io.text import FilePath, Source, write_text

_GRADE = re.compile(r"[0-9]{1,9}", re.ASCII)
_DENSE_FROM = 0.25
"""Fraction of listed values above which rows are dense: memory remains within a few times the size of the file."""


@dataclass(frozen=True)
class Queries:
    """Queries with their documents.

    Parameters
    ----------
    ids : list of n str
        The values of ``qid:``.
    X : list of n arrays or csr_arrays of shape (n_i, d)
        The features of each query's documents; all dense or all sparse.
    Y : list of n int arrays of shape (n_i,)
        Their grades, at least 0.
    documents : list of n lists of str
        The remark after ``#`` of each document, often its name; empty if there is none.
    """

    ids: list[str]
    X: "list[NDArray[np.float64]] | list[sparse.csr_array]"
    Y: list[NDArray[np.int64]]
    documents: list[list[str]]

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.ids)


def _parse_head(head: list[bytes], source: Source) -> tuple[int, str]:
    """Read the grade and the query of a line."""
    grade = source.decode(head[0])
    if not _GRADE.fullmatch(grade):
        source.fail(grade, "a grade, an integer from 0 to 999999999")
    query = source.decode(head[1]) if len(head) > 1 else ""
    if not query.startswith("qid:") or query == "qid:":
        source.fail(query, "the query after the grade, such as qid:7")
    return int(grade), query.removeprefix("qid:")


def read_queries(path: FilePath, n_features: int | None = None) -> Queries:
    """Read queries from svmlight lines: ``grade qid:query index:value … # remark``.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. The lines of a query must be
        adjacent; features are numbered from 1.
    n_features : int, optional
        The number of features; by default determined by the largest index of the file.

    Returns
    -------
    Queries
        Dense if at least a quarter of all values are listed, else sparse.
    """
    source = Source.open(path)
    rows = SparseRows(source, n_features)
    starts: dict[str, int] = {}
    grades: list[int] = []
    documents: list[str] = []
    query = None
    for raw in source:
        content, _, remark = raw.partition(b"#")
        head = content.split(None, 2)
        if not head:
            continue
        before, (grade, query) = query, _parse_head(head, source)
        if starts.setdefault(query, len(grades)) != len(grades) and query != before:
            source.fail(f"qid:{query}", "adjacent lines of each query", "Sort the lines by query.")
        rows.add(head[2] if len(head) > 2 else b"")
        grades.append(grade)
        documents.append(source.decode(remark).strip())
    if not grades:
        source.fail(Description("no document"), "lines such as 2 qid:7 1:0.5", line=1)
    X: Any = rows.matrix()
    if X.nnz >= _DENSE_FROM * X.shape[0] * X.shape[1]:
        X = X.toarray()
    Y = np.array(grades, dtype=np.int64)
    spans = [slice(*ends) for ends in pairwise([*starts.values(), len(grades)])]
    return Queries(
        list(starts), [X[span] for span in spans], [Y[span] for span in spans], [documents[span] for span in spans]
    )


def write_scores(path: FilePath, scores: Sequence[Any] | NDArray[Any]) -> None:
    """Write scores of documents, one per line, in the order of the file of documents.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    scores : sequence of arrays, or array of shape (N,)
        The scores of each query's documents, or of all documents.
    """
    try:
        flat = np.concatenate([np.zeros(0), *(np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in scores)])
    except (TypeError, ValueError) as error:
        raise InputError("scores", Description(str(error)), "one array of numbers per query") from error
    write_text(path, "".join(f"{value!r}\n" for value in flat.tolist()))
