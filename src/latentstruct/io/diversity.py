"""Queries with candidate documents and their subtopics as JSON lines: one query a line.

.. code-block:: json

    {"query": "392",
     "documents": [{"id": "d1", "text": "Robots in space …", "title": "Robots", "subtopics": ["space"]},
                   {"id": "d2", "words": ["robot", "surgery"], "subtopics": ["medicine", "nanorobots"]}]}

(here on several lines to be read; in a file each query has one.) A document has a ``text``, which is cut into words, or
a list of ``words``; all else may be left out. Words of a text are runs of letters and digits, in small letters; listed
words are taken as they are. A ``title``, cut in the same way, is kept apart. A subtopic is a text or a whole number.

Choices are written as JSON lines too: the query and the identities of the chosen documents, best first; a document
without an ``id`` has its number, from 0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from latentstruct.core.formatting import short_repr
from latentstruct.exceptions import InputError
from latentstruct.io.json_lines import read_records, write_records
from latentstruct.io.text import FilePath, Source, show

_WORD = re.compile(r"[^\W_]+")


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    """A candidate as it stands in a file."""

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
        Its name, the number of its line if there is none.
    ids : list of n str or int
        The names of the documents, their numbers from 0 where there are none.
    words, titles : lists of n lists of str
        The words of the documents and of their titles, in their order.
    subtopics : list of n lists of str or int, or None
        The subtopics of the documents; None if no document says any.
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
    """Return the runs of letters and digits of a text, in small letters."""
    return _WORD.findall(text.lower())


def read_diversity(path: FilePath) -> list[DiversityQuery]:
    """Read queries, one a line.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. Empty lines are skipped.

    Returns
    -------
    list of DiversityQuery
        The queries; each has a document.
    """
    source = Source.open(path)
    records = read_records(source, _Record, "a whole query on each line", _explain)
    queries = [_query(record, source) for record in records]
    if not queries:
        source.fail(
            'found no query; expected one a line, such as {"query": "robots", "documents": [{"text": '
            '"robots in space", "subtopics": ["space"]}]}: check that this is the right file',
            line=1,
        )
    return queries


def _explain(raw: bytes, what: str, where: str) -> str:
    """Return the problem of a line that is JSON but no query."""
    return f"the query does not have the expected form{f' at {where}' if where else ''} ({what})"


def _query(record: _Record, source: Source) -> DiversityQuery:
    if not record.documents:
        source.fail("the query has no documents; expected at least one: remove the line or add documents")
    ids: dict[str | int, None] = {}
    for k, document in enumerate(record.documents):
        if (document.text is None) == (document.words is None):
            found = "neither a text nor words" if document.text is None else "both a text and words"
            source.fail(f"document {k} has {found}; expected one of them: give text, or words that are cut already")
        own = k if document.id is None else document.id
        if own in ids:
            source.fail(
                f"found the document {show(own)} twice; expected different ids (a document without one has its number, "
                "from 0): rename or remove one"
            )
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
        Documents of each query, counted from 0, best first.
    """
    if len(queries) != len(choices):
        raise InputError(f"{len(choices)} choices are given; expected {len(queries)}, one for each query: give as many")
    write_records(
        path,
        (
            {"query": query.query, "chosen": [query.ids[int(j)] for j in chosen]}
            for query, chosen in zip(queries, choices, strict=True)
        ),
    )
