"""Queries with candidate documents and their subtopics as JSON lines: one query per line.

.. code-block:: json

    {"query": "392",
     "documents": [{"id": "d1", "text": "Robots in space …", "title": "Robots", "subtopics": ["space"]},
                   {"id": "d2", "words": ["robot", "surgery"], "subtopics": ["medicine", "nanorobots"]}]}

(on several lines here; in a file each query is one line.) A document has a ``text``, which is split into words, or a
list of ``words``; all other fields are optional. Words of a text are runs of letters and digits in lower case; listed
words are used unchanged. A ``title`` is split in the same way. A subtopic is a text or an integer.

Choices are also written as JSON lines: the query and the ids of the chosen documents, best first; the id of a document
without one is its number, from 0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from latentstruct.core.formatting import repr_short, short_repr
from latentstruct.exceptions import Description, InputError
from latentstruct.io.json_lines import read_records, write_records
from latentstruct.io.text import FilePath, Source

_WORD = re.compile(r"[^\W_]+")


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    """A candidate of a file."""

    id: str | int | None = None
    text: str | None = None
    words: list[str] | None = None
    title: str = ""
    subtopics: list[str | int] | None = None


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file."""

    documents: list[_Document]
    query: str | int | None = None


@dataclass(frozen=True)
class DiversityQuery:
    """A query with its candidate documents.

    Parameters
    ----------
    query : str or int
        Its name; the number of its line if it has none.
    ids : list of n str or int
        The names of the documents; their numbers from 0 if they have none.
    words, titles : lists of n lists of str
        The words of the documents and of their titles, in order.
    subtopics : list of n lists of str or int, or None
        The subtopics of the documents; None if no document has any.
    """

    query: str | int
    ids: list[str | int]
    words: list[list[str]]
    titles: list[list[str]]
    subtopics: list[list[str | int]] | None

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.ids)


def split_words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text in lower case."""
    return _WORD.findall(text.lower())


def read_diversity(path: FilePath) -> list[DiversityQuery]:
    """Read queries, one per line.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. Empty lines are skipped.

    Returns
    -------
    list of DiversityQuery
        The queries, each with at least one document.
    """
    source = Source.open(path)
    records = read_records(source, _Record, "a query")
    queries = [_query(record, source) for record in records]
    if not queries:
        example = '{"query": "robots", "documents": [{"text": "robots in space", "subtopics": ["space"]}]}'
        source.fail(Description("no query"), f"one query per line, such as {example}", line=1)
    return queries


def _query(record: _Record, source: Source) -> DiversityQuery:
    if not record.documents:
        source.fail(Description("none"), "at least one document")
    ids: dict[str | int, None] = {}
    for k, document in enumerate(record.documents):
        if (document.text is None) == (document.words is None):
            got = Description("neither" if document.text is None else "both")
            source.fail(got, f"either text or words of documents[{k}]")
        own = k if document.id is None else document.id
        if own in ids:
            hint = "The id of a document without one is its number, from 0."
            source.fail(Description(f"{repr_short(own)} twice"), "distinct ids of documents", hint)
        ids[own] = None
    known = any(document.subtopics is not None for document in record.documents)
    return DiversityQuery(
        source.line if record.query is None else record.query,
        list(ids),
        [split_words(d.text or "") if d.words is None else d.words for d in record.documents],
        [split_words(d.title) for d in record.documents],
        [d.subtopics or [] for d in record.documents] if known else None,
    )


def write_choices(path: FilePath, queries: Sequence[DiversityQuery], choices: Sequence[Any]) -> None:
    """Write the chosen documents as JSON lines: ``{"query": "392", "chosen": ["d2", "d1"]}``.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    queries : sequence of n DiversityQuery
        The queries.
    choices : sequence of n integer arrays of shape (k,)
        Documents of each query, from 0, best first.
    """
    if len(queries) != len(choices):
        raise InputError("choices", Description(f"{len(choices)} choices"), f"{len(queries)} choices, one per query")
    write_records(
        path,
        (
            {"query": query.query, "chosen": [query.ids[int(j)] for j in chosen]}
            for query, chosen in zip(queries, choices, strict=True)
        ),
    )
