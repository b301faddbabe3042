"""Tokens in columns, one per line, as in the CoNLL shared tasks."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import counted, short_repr
from latentstruct.core.validation import options
from latentstruct.exceptions import Description, InputError
from latentstruct.io.text import FilePath, Source, numbered_lines, source_name, write_text

_DOCUMENT_START = "-DOCSTART-"
_DOCUMENT_BYTES = _DOCUMENT_START.encode()


@dataclass(frozen=True, eq=False)
class ColumnSentences:
    """Sentences of tokens with columns, kept as one flat list per column.

    Iterating yields each sentence as a list of token tuples.

    Parameters
    ----------
    columns : tuple of list of str
        For each column, the values of all tokens of all sentences.
    offsets : array of shape (n_sentences + 1,)
        Sentence `i` has the tokens `offsets[i]` to `offsets[i + 1]`.
    separator : str, default=" "
        What separates the columns in the file: a space or a tab.
    documents : array of shape (n_sentences,), optional
        The number of the document of each sentence; None if no line of the file begins with ``-DOCSTART-``.
    """

    columns: tuple[list[str], ...]
    offsets: NDArray[np.int64]
    separator: str = " "
    documents: NDArray[np.int64] | None = None

    __repr__ = short_repr

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all sentences."""
        return int(self.offsets[-1])

    @property
    def n_columns(self) -> int:
        """The number of columns of each token."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[list[tuple[str, ...]]]:
        return iter(_split(list(zip(*self.columns, strict=True)), self.offsets))

    def __getitem__(self, index: int) -> list[tuple[str, ...]]:
        position = range(len(self))[index]
        start, stop = int(self.offsets[position]), int(self.offsets[position + 1])
        return list(zip(*(column[start:stop] for column in self.columns), strict=True))

    def column(self, index: int) -> list[list[str]]:
        """Return one column as a list of values per sentence.

        Parameters
        ----------
        index : int
            The column, from 0; a negative one counts from the last.

        Returns
        -------
        list of list of str
            The values, sentence by sentence.
        """
        return _split(self.columns[_column_position(index, self.n_columns, "index")], self.offsets)

    def split_labels(self, label: int = -1) -> tuple[list[list[tuple[str, ...]]], list[list[str]]]:
        """Separate the column of labels from the others.

        Parameters
        ----------
        label : int, default=-1
            The column of the labels.

        Returns
        -------
        tokens : list of list of tuple of str
            The sentences without the labels.
        labels : list of list of str
            The labels, sentence by sentence.
        """
        position = _column_position(label, self.n_columns, "label")
        if self.n_columns < 2:
            raise InputError("columns", Description("a single column"), "a label column and at least one more")
        rest = [column for k, column in enumerate(self.columns) if k != position]
        return _split(list(zip(*rest, strict=True)), self.offsets), _split(self.columns[position], self.offsets)


def _split(values: list[Any], offsets: NDArray[np.int64]) -> list[list[Any]]:
    """Cut a flat list at the offsets."""
    bounds = offsets.tolist()
    return [values[start:stop] for start, stop in pairwise(bounds)]


def _column_position(index: int, n_columns: int, name: str) -> int:
    """Return the position of a column whose number may be negative; `name` is the parameter."""
    try:
        return range(n_columns)[index]
    except (IndexError, TypeError) as error:
        raise InputError(name, index, f"a column from {-n_columns} to {n_columns - 1}") from error


class _Decoder(dict[bytes, str]):
    """Decodes each distinct field once, so that equal fields share one string."""

    def __missing__(self, raw: bytes) -> str:
        text = self[raw] = raw.decode("utf-8")
        return text


def parse_conll(
    lines: Iterable[tuple[int, bytes]],
    name: str,
    columns: Sequence[int] | None = None,
    blank: Mapping[int, str] | None = None,
    form: tuple[int, bool] | None = None,
) -> ColumnSentences:
    """Parse the numbered lines of a token-column text.

    Parameters
    ----------
    lines : iterable of (int, bytes)
        The lines with their numbers.
    name : str
        The name of the file in messages.
    columns : sequence of int, optional
        The columns to keep, in this order; all by default.
    blank : mapping of int to str, optional
        The values of empty fields by column; by default no field may be empty.
    form : pair of int and bool, optional
        The number of columns and whether tabs separate them; by default as in the first line with a token.

    Returns
    -------
    ColumnSentences
        The sentences.
    """
    decoded = _Decoder()
    values: list[list[str]] = []
    offsets, documents = [0], list[int]()
    n_tokens = n_documents = 0
    width, by_tab = (0, False) if form is None else form
    values = [[] for _ in range(width)]
    source, comment = Source(lines, name), False
    for raw in source:
        if ends_sentence(raw):
            if n_tokens > offsets[-1]:
                offsets.append(n_tokens)
                documents.append(n_documents)
            n_documents += raw.startswith(_DOCUMENT_BYTES)
            continue
        if not width:
            width, by_tab = form_of(raw, blank)
            comment = raw.startswith(b"#")
            values = [[] for _ in range(width)]
        fields = _fields(raw, by_tab)
        if len(fields) != width:
            hint = None
            if comment or raw.startswith(b"#"):
                hint = "Comments are not supported. If this is CoNLL-U, train on a file whose name ends in .conllu."
            separator = "tabs" if by_tab else "whitespace"
            expected = f"{counted(width, 'column')} separated by {separator} as in the first line"
            source.fail(Description(counted(len(fields), "column")), expected, hint)
        if b"" in fields:
            fields = _fill(fields, blank or {}, source)
        try:
            for column, field in zip(values, fields, strict=True):
                column.append(decoded[field])
        except UnicodeDecodeError:
            source.decode(raw)
        n_tokens += 1
    if n_tokens > offsets[-1]:
        offsets.append(n_tokens)
        documents.append(n_documents)
    if not n_tokens:
        source.fail(Description("no token"), "one token per line and a blank line after each sentence", line=1)
    kept = values if columns is None else [values[_column_position(k, width, "columns")] for k in columns]
    if not kept:
        raise InputError("columns", columns, "at least one column or None")
    found = np.array(documents) if n_documents else None
    return ColumnSentences(tuple(kept), np.asarray(offsets, dtype=np.int64), "\t" if by_tab else " ", found)


def _fields(raw: bytes, by_tab: bool) -> list[bytes]:
    """Return the fields of a line."""
    return [field.strip() for field in raw.rstrip(b"\r\n").split(b"\t")] if by_tab else raw.split()


def form_of(raw: bytes, blank: Mapping[int, str] | None) -> tuple[int, bool]:
    """Return the number of columns of a first line with a token, and whether tabs separate them."""
    # The first token may end in the only tab if its label is empty.
    by_tab = b"\t" in (raw if blank else raw.strip())
    return len(_fields(raw, by_tab)), by_tab


def ends_sentence(raw: bytes) -> bool:
    """Return whether a line has no token."""
    return not raw.strip() or raw.startswith(_DOCUMENT_BYTES)


def _fill(fields: list[bytes], blank: Mapping[int, str], source: Source) -> list[bytes]:
    """Return the fields of a line with the values of empty ones."""
    width = len(fields)
    filled = {column % width: text.encode() for column, text in blank.items() if -width <= column < width}
    fields = [field or filled.get(k, b"") for k, field in enumerate(fields)]
    if b"" in fields:
        k = fields.index(b"")
        unknown = "Set `blank` to mark unknown labels." if k == width - 1 > 0 else None
        source.fail(Description("an empty field"), f"a value in column {k + 1}, such as _", unknown)
    return fields


def read_conll(
    path: FilePath, columns: Sequence[int] | None = None, blank: Mapping[int, str] | None = None
) -> ColumnSentences:
    """Read a CoNLL-style file: one token per line, columns, a blank line after each sentence.

    Columns are separated by tabs if the first line with a token has a tab, else by whitespace. Lines that start with
    ``-DOCSTART-`` end a sentence and begin a document; they are skipped, and no other line is.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.
    columns : sequence of int, optional
        The columns to keep, in this order; negative ones count from the last. All by default.
    blank : mapping of int to str, optional
        The values of empty fields by column, such as ``{-1: "?"}`` for unknown labels; only for columns separated by
        tabs. By default no field may be empty.

    Returns
    -------
    ColumnSentences
        The sentences.
    """
    return parse_conll(numbered_lines(path), source_name(path), columns, blank)


def written_field(value: object, name: str) -> str:
    """Return a field as text that is read back unchanged."""
    text = str(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(name, text, "text without lone surrogates") from error
    if not text or text.strip(" \t\n\r\x0b\x0c") != text or "\t" in text or "\n" in text:
        expected = "text without tabs, line breaks and surrounding spaces"
        raise InputError(name, text, expected, "Use _ for an empty value.")
    return text


def write_conll(
    path_or_file: FilePath | TextIO,
    sentences: ColumnSentences | Iterable[Sequence[Sequence[str]]],
    predicted: Iterable[Sequence[object]],
    separator: str | None = None,
) -> None:
    r"""Write sentences in columns with a last column of predicted labels.

    Parameters
    ----------
    path_or_file : str, path or text file
        Where to write; compressed if the name ends in ``.gz``; ``-`` is standard output.
    sentences : ColumnSentences or iterable of sequences of token tuples
        The sentences.
    predicted : iterable of sequences
        One label per token of each sentence.
    separator : {" ", "\t"}, optional
        What separates the columns, by default what did so in the file that the sentences were read from, else a space;
        always a tab if any field contains a space.

    Raises
    ------
    InputError
        If labels and tokens do not match, a field cannot be written, or the file cannot be opened. In this case
        nothing is written.
    """
    if separator is None:
        separator = sentences.separator if isinstance(sentences, ColumnSentences) else " "
    options(" ", "\t").check(separator, "separator")
    given = list(sentences)
    labels = list(predicted)
    if len(given) != len(labels):
        got = Description(f"labels of {len(labels)} sentences")
        raise InputError("predicted", got, f"labels of {len(given)} sentences")
    rows: list[list[str]] = []
    width = 0
    for i, (tokens, tags) in enumerate(zip(given, labels, strict=True)):
        if len(tokens) != len(tags) or len(tokens) == 0:
            got = Description(f"{len(tags)} labels for {len(tokens)} tokens")
            raise InputError(f"predicted[{i}]", got, "one label per token, and at least one token")
        for j, (token, tag) in enumerate(zip(tokens, tags, strict=True)):
            name = f"sentences[{i}][{j}]"
            if isinstance(token, str):
                raise InputError(name, token, "a tuple of columns")
            row = [*(written_field(value, name) for value in token), written_field(tag, f"predicted[{i}][{j}]")]
            width = width or len(row)
            if len(row) != width or width < 2:
                expected = f"{max(width - 1, 1)} columns as in the first token"
                raise InputError(name, Description(f"{len(row) - 1} columns"), expected)
            if row[0].startswith(_DOCUMENT_START):
                raise InputError(name, row[0], f"a word other than {_DOCUMENT_START}, which starts a document")
            rows.append(row)
        rows.append([])
    if any(re.search(r"[ \r\x0b\x0c]", value) for row in rows for value in row):
        separator = "\t"
    content = "".join(f"{separator.join(row)}\n" for row in rows)
    if isinstance(path_or_file, str | os.PathLike):
        write_text(path_or_file, content)
    else:
        path_or_file.write(content)
