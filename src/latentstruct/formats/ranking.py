"""Queries with graded documents: svmlight lines with ``qid:``, as LETOR and most tools for ranking write them."""

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from latentstruct.exceptions import FormatError, InputError
from latentstruct.formats.svmlight import check_n_features, parse_pairs
from latentstruct.formats.text import FilePath, decode_line, fail, numbered_lines, show, source_name, write_text
from latentstruct.short_repr import short_repr

__all__ = ["Queries", "read_queries", "write_scores"]

_GRADE = re.compile(r"[0-9]{1,9}", re.ASCII)
_DENSE_FROM = 0.25
"""Share of listed values from which documents become dense rows: memory stays within a few times the file's."""


@dataclass(frozen=True)
class Queries:
    """Queries with their documents.

    Parameters
    ----------
    ids : list of n str
        What stands after ``qid:``.
    X : list of n arrays or csr_arrays of shape (n_i, d)
        The features of each query's documents; all dense or all sparse.
    Y : list of n int arrays of shape (n_i,)
        Their grades, at least 0.
    documents : list of n lists of str
        The remark behind each document's ``#``, where many files name it; empty if there is none.
    """

    ids: list[str]
    X: list[NDArray[np.float64]] | list[csr_array]
    Y: list[NDArray[np.int64]]
    documents: list[list[str]]

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class _Collected:
    """What was read so far, flat."""

    ids: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    grades: array = field(default_factory=lambda: array("q"))
    documents: list[str] = field(default_factory=list)
    pointers: array = field(default_factory=lambda: array("q", [0]))
    indices: array = field(default_factory=lambda: array("q"))
    values: array = field(default_factory=lambda: array("d"))

    def queries(self, n_features: int) -> Queries:
        """Cut the flat arrays into queries."""
        n_documents = len(self.grades)
        X: Any = csr_array(
            (np.array(self.values), np.array(self.indices) - 1, np.array(self.pointers)),
            shape=(n_documents, n_features),
        )
        if len(self.values) >= _DENSE_FROM * n_documents * n_features:
            X = X.toarray()
        grades = np.array(self.grades, dtype=np.int64)
        spans = [slice(a, b) for a, b in zip(self.starts, [*self.starts[1:], n_documents], strict=True)]
        return Queries(
            self.ids,
            [X[span] for span in spans],
            [grades[span] for span in spans],
            [self.documents[span] for span in spans],
        )


def _parse_head(head: list[bytes], name: str, line: int) -> tuple[int, str]:
    """Read the grade and the query of a line."""
    grade = decode_line(head[0], name, line)
    if not _GRADE.fullmatch(grade):
        fail(
            name,
            line,
            f"found {show(grade)} where the grade should be; expected a whole number from 0 to 999999999: give every "
            "line a grade of its relevance",
        )
    query = decode_line(head[1], name, line) if len(head) > 1 else ""
    if not query.startswith("qid:") or query == "qid:":
        fail(
            name,
            line,
            f"found {show(query)} after the grade; expected the query such as qid:7: put qid: and the query's number "
            "second in every line",
        )
    return int(grade), query.removeprefix("qid:")


def read_queries(path: FilePath, n_features: int | None = None) -> Queries:
    """Read queries from svmlight lines: ``grade qid:query index:value … # remark``.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. The lines of a query must stand
        together; features are numbered from 1.
    n_features : int, optional
        The number of features; by default the largest index of the file decides.

    Returns
    -------
    Queries
        Dense if at least a quarter of all values are listed, else sparse.

    Raises
    ------
    InputError
        If there is no such file.
    FormatError
        If the file is not of this format.
    """
    name = source_name(path)
    check_n_features(n_features)
    found, seen, highest = _Collected(), set[str](), 0
    for number, raw in numbered_lines(path):
        content, _, remark = raw.partition(b"#")
        head = content.split(None, 2)
        if not head:
            continue
        grade, query = _parse_head(head, name, number)
        if not found.ids or query != found.ids[-1]:
            if query in seen:
                fail(
                    name,
                    number,
                    f"found query {show(query)} again after others; expected the lines of a query side by side: sort "
                    "the lines by query",
                )
            seen.add(query)
            found.ids.append(query)
            found.starts.append(len(found.grades))
        indices, values = parse_pairs(head[2] if len(head) > 2 else b"", name, number, 1, n_features)
        highest = max([highest, *indices[-1:]])
        found.grades.append(grade)
        found.documents.append(decode_line(remark, name, number).strip())
        found.indices.extend(indices)
        found.values.extend(values)
        found.pointers.append(len(found.indices))
    if not found.ids:
        raise FormatError(
            f"{name}:1: found no document; expected lines such as 2 qid:7 1:0.5: check that this is the right file"
        )
    if n_features is None and not highest:
        raise FormatError(
            f"{name}:1: found no feature in any line; expected index:value pairs: give the features, or n_features if "
            "all of them are zero"
        )
    return found.queries(highest if n_features is None else int(n_features))


def write_scores(path: FilePath, scores: Sequence[Any] | NDArray[Any]) -> None:
    """Write scores of documents, one a line, in the order of the documents' file.

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
        raise InputError(f"the scores must be numbers, an array for each query ({error}): convert them") from error
    write_text(path, "".join(f"{value!r}\n" for value in flat.tolist()))
