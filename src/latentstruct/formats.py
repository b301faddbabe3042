"""Readers and writers of the files people have: token columns, svmlight and delimited tables.

Every reader takes plain or gzip-compressed UTF-8 text and answers a malformed file with a `FormatError` that
names the file, the line, what was found, what was expected and the cure.
"""

import csv
import gzip
import operator
import os
import re
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from latentstruct.exceptions import FormatError, InputError

__all__ = [
    "ClassData",
    "ColumnSentences",
    "parse_conll",
    "read_classes",
    "read_conll",
    "read_csv",
    "read_svmlight",
    "write_conll",
]

STANDARD_STREAM = "-"
MAX_INDEX = 2**31 - 1

_BOM = b"\xef\xbb\xbf"
_DOCUMENT_START = "-DOCSTART-"
_TABLE_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PAIRS = re.compile(rb"(?:\s*[0-9]+:[-+0-9.eE]+(?=\s|$))*\s*")
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII)

FilePath = str | os.PathLike[str]


def _show(value: object, limit: int = 60) -> str:
    """Represent a value in a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _fail(name: str, line: int, problem: str) -> NoReturn:
    """Raise the error of one line of a file."""
    raise FormatError(f"{name}:{line}: {problem}")


def _path_text(path: object) -> str:
    """Return the path as text, refusing what `open` would take for a file descriptor."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"the path is {_show(path)}; expected a string or a path: give the file's name")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"the path is {_show(text)}; expected text without null characters: give the file's name")
    return text


def _source_name(path: FilePath) -> str:
    """Name the source of the text as messages show it."""
    text = _path_text(path)
    return "<stdin>" if text == STANDARD_STREAM else text


def _extension(path: FilePath) -> str:
    """Return the lower-case extension of a path, that of the compression left out."""
    text = _path_text(path).lower()
    return Path(text.removesuffix(".gz")).suffix


def _numbered_lines(path: FilePath) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, of its decompressed content or of standard input, counted from 1."""
    text = _path_text(path)
    if text == STANDARD_STREAM:
        for number, line in enumerate(sys.stdin.buffer, 1):
            yield number, line.removeprefix(_BOM) if number == 1 else line
        return
    if os.path.isdir(text):
        raise InputError(f"{text} is a directory; expected a file: give the path of one file in it")
    number = 0
    try:
        with gzip.open(text, "rb") if text.lower().endswith(".gz") else open(text, "rb") as handle:
            for number, line in enumerate(handle, 1):
                yield number, line.removeprefix(_BOM) if number == 1 else line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(
            f"{text}:{number + 1}: the gzip data cannot be read ({error}); expected a complete gzip file: "
            "fetch the file again, or drop .gz from the name if the file is not compressed"
        ) from error
    except FileNotFoundError as error:
        raise InputError(f"{text} does not exist; expected a readable file: check the path") from error
    except OSError as error:
        raise InputError(
            f"{text} cannot be read ({error.strerror or error}); expected a readable file: "
            "check its permissions and the disk"
        ) from error


def _decode(raw: bytes, name: str, line: int) -> str:
    """Decode one line or field."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        _fail(
            name,
            line,
            f"found the byte 0x{raw[error.start]:02x}, which is not UTF-8; expected UTF-8 text: convert the "
            "file to UTF-8, or let its name end in .gz if it is compressed",
        )


@dataclass(frozen=True, eq=False)
class ColumnSentences:
    """Sentences of tokens with columns, kept as one flat list per column.

    Iterating yields each sentence as a list of token tuples.

    Parameters
    ----------
    columns : tuple of list of str
        For each column, its values for all tokens of all sentences.
    offsets : array of shape (n_sentences + 1,)
        Sentence `i` holds the tokens `offsets[i]` to `offsets[i + 1]`.
    """

    columns: tuple[list[str], ...]
    offsets: NDArray[np.int64]

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
            The column, counted from 0; a negative one counts from the last.

        Returns
        -------
        list of list of str
            The values, sentence by sentence.
        """
        return _split(self.columns[_column_position(index, self.n_columns, "the sentences")], self.offsets)

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
        position = _column_position(label, self.n_columns, "the sentences")
        if self.n_columns < 2:
            raise InputError(
                "the sentences have 1 column; expected a label column and at least one more: "
                "give a file whose lines hold the word and its label"
            )
        rest = [column for k, column in enumerate(self.columns) if k != position]
        return _split(list(zip(*rest, strict=True)), self.offsets), _split(self.columns[position], self.offsets)


def _split(values: list[Any], offsets: NDArray[np.int64]) -> list[list[Any]]:
    """Cut a flat list at the offsets."""
    bounds = offsets.tolist()
    return [values[start:stop] for start, stop in pairwise(bounds)]


def _column_position(index: int, n_columns: int, name: str) -> int:
    """Resolve a possibly negative column number."""
    try:
        return range(n_columns)[index]
    except (IndexError, TypeError) as error:
        raise InputError(
            f"{name}: column {_show(index)} was asked for; expected a whole number from {-n_columns} to "
            f"{n_columns - 1}, as there are {n_columns} columns: choose one of these"
        ) from error


class _Decoder(dict[bytes, str]):
    """Decodes each distinct field once, so that equal fields share one string."""

    def __missing__(self, raw: bytes) -> str:
        text = self[raw] = raw.decode("utf-8")
        return text


def parse_conll(lines: Iterable[tuple[int, bytes]], name: str, columns: Sequence[int] | None = None) -> ColumnSentences:
    """Parse the numbered lines of a token-column text.

    Parameters
    ----------
    lines : iterable of (int, bytes)
        The lines with their numbers.
    name : str
        The name of the source in messages.
    columns : sequence of int, optional
        The columns to keep, in this order; all by default.

    Returns
    -------
    ColumnSentences
        The sentences.
    """
    decoded = _Decoder()
    values: list[list[str]] = []
    offsets = [0]
    n_tokens = 0
    width = 0
    by_tab = False
    for number, raw in lines:
        stripped = raw.strip()
        if not stripped or raw.startswith(_DOCUMENT_START.encode()):
            if n_tokens > offsets[-1]:
                offsets.append(n_tokens)
            continue
        if not width:
            by_tab = b"\t" in stripped
        fields = [field.strip() for field in raw.rstrip(b"\r\n").split(b"\t")] if by_tab else raw.split()
        if not width:
            width = len(fields)
            values = [[] for _ in fields]
        if len(fields) != width:
            cure = (
                "comment lines are not skipped, so remove them"
                if raw.startswith(b"#")
                else "correct the line, or put a blank line where a sentence ends"
            )
            _fail(
                name,
                number,
                f"found {len(fields)} columns separated by {'tabs' if by_tab else 'whitespace'}; expected "
                f"{width} as in the first line: {cure}",
            )
        if b"" in fields:
            _fail(
                name,
                number,
                f"column {fields.index(b'') + 1} is empty; expected a value: write _ for a missing one",
            )
        try:
            for column, field in zip(values, fields, strict=True):
                column.append(decoded[field])
        except UnicodeDecodeError:
            _decode(raw, name, number)
        n_tokens += 1
    if n_tokens > offsets[-1]:
        offsets.append(n_tokens)
    if not n_tokens:
        raise FormatError(
            f"{name}:1: found no token; expected one token a line with its columns and a blank line after "
            "each sentence: check that this is the right file"
        )
    kept = values if columns is None else [values[_column_position(k, width, name)] for k in columns]
    if not kept:
        raise InputError("columns is empty; expected at least one column number: leave it out to keep all")
    return ColumnSentences(tuple(kept), np.asarray(offsets, dtype=np.int64))


def read_conll(path: FilePath, columns: Sequence[int] | None = None) -> ColumnSentences:
    """Read a CoNLL-style file: one token a line, columns, a blank line after each sentence.

    The columns are separated by tabs if the first token line holds a tab, else by whitespace. Lines that
    start with ``-DOCSTART-`` end a sentence and are left out; no other line is.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.
    columns : sequence of int, optional
        The columns to keep, in this order; negative ones count from the last. All by default.

    Returns
    -------
    ColumnSentences
        The sentences.

    Raises
    ------
    InputError
        If there is no such file or no such column.
    FormatError
        If the file is not of this format.
    """
    return parse_conll(_numbered_lines(path), _source_name(path), columns)


def _written_field(value: object, sentence: int, token: int) -> str:
    """Return a field as text that reads back as itself."""
    text = str(value)
    if not text or text.strip(" \t\n\r\x0b\x0c") != text or "\t" in text or "\n" in text:
        raise InputError(
            f"token {token} of sentence {sentence} has the field {_show(text)}; expected text without tabs, "
            "line breaks and surrounding spaces: write _ for an empty value and clean the others"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"token {token} of sentence {sentence} has the field {_show(text)}, which has no UTF-8 form; "
            "expected Unicode text: remove the lone surrogates"
        ) from error
    return text


def write_conll(
    path_or_file: FilePath | TextIO,
    sentences: ColumnSentences | Iterable[Sequence[Sequence[str]]],
    predicted: Iterable[Sequence[object]],
) -> None:
    """Write sentences in columns with a last column of predicted labels.

    The columns are separated by a space, or by tabs if any field holds a space.

    Parameters
    ----------
    path_or_file : str, path or text file
        Where to write; compressed if the name ends in ``.gz``; ``-`` is standard output.
    sentences : ColumnSentences or iterable of sequences of token tuples
        The sentences.
    predicted : iterable of sequences
        A label for each token of each sentence.

    Raises
    ------
    InputError
        If labels and tokens do not match, a field cannot be written, or the file cannot be opened. Nothing is
        written then.
    """
    given = list(sentences)
    labels = list(predicted)
    if len(given) != len(labels):
        raise InputError(
            f"there are labels for {len(labels)} sentences; expected {len(given)}: predict the same sentences"
        )
    rows: list[list[str]] = []
    width = 0
    for i, (tokens, tags) in enumerate(zip(given, labels, strict=True)):
        if len(tokens) != len(tags) or len(tokens) == 0:
            raise InputError(
                f"sentence {i} has {len(tokens)} tokens and {len(tags)} labels; expected equally many, at "
                "least one: predict the same sentences"
            )
        for j, (token, tag) in enumerate(zip(tokens, tags, strict=True)):
            if isinstance(token, str):
                raise InputError(
                    f"token {j} of sentence {i} is the string {_show(token)}; expected a tuple of columns: "
                    f"write ({_show(token)},)"
                )
            row = [_written_field(value, i, j) for value in (*token, tag)]
            width = width or len(row)
            if len(row) != width or width < 2:
                raise InputError(
                    f"token {j} of sentence {i} has {len(row) - 1} columns; expected {max(width - 1, 1)} as "
                    "in the first token: give every token the same columns"
                )
            if row[0].startswith(_DOCUMENT_START):
                raise InputError(
                    f"token {j} of sentence {i} starts with {_DOCUMENT_START}; expected a word, as such a "
                    "line is read as the start of a document: leave the token out"
                )
            rows.append(row)
        rows.append([])
    separator = "\t" if any(re.search(r"[ \r\x0b\x0c]", value) for row in rows for value in row) else " "
    content = "".join(f"{separator.join(row)}\n" for row in rows)
    if isinstance(path_or_file, str | os.PathLike):
        _write_text(path_or_file, content)
    else:
        path_or_file.write(content)


def _write_text(path: FilePath, content: str) -> None:
    """Write text to a file, a compressed file or standard output."""
    text = _path_text(path)
    if text == STANDARD_STREAM:
        sys.stdout.write(content)
        return
    data = content.encode("utf-8")
    try:
        with open(text, "wb") as handle:
            handle.write(gzip.compress(data, mtime=0) if text.lower().endswith(".gz") else data)
    except OSError as error:
        raise InputError(
            f"{text} cannot be written ({error.strerror or error}); expected a file in an existing, writable "
            "folder: check the path"
        ) from error


def _typed_labels(labels: list[str], lines: Sequence[int], name: str) -> NDArray[Any]:
    """Make an array of the labels: integers if all are, else numbers if all are, else text."""
    distinct = set(labels)
    if all(_INTEGER.fullmatch(label) for label in distinct):
        # Longer than the longest 64-bit integer, or outside the range: text keeps such labels apart.
        integers = {label: int(label) for label in distinct if len(label) <= 20}
        if len(integers) == len(distinct) and all(-(2**63) <= value < 2**63 for value in integers.values()):
            return np.array([integers[label] for label in labels], dtype=np.int64)
    elif any(_NUMBER.fullmatch(label) for label in distinct) and all(
        _NUMBER.fullmatch(label) or _NOT_FINITE.fullmatch(label) for label in distinct
    ):
        numbers = {label: float(label) for label in distinct}
        for label, line in zip(labels, lines, strict=True):
            if not isfinite(numbers[label]):
                _fail(
                    name,
                    line,
                    f"the label is {_show(label)}; expected a finite number as in the other lines: give the "
                    "row a label or remove it",
                )
        return np.array([numbers[label] for label in labels], dtype=np.float64)
    return np.array(labels, dtype=np.str_)


def _explain_pairs(name: str, line: int, pairs: list[bytes], first: int, last: int | None) -> NoReturn:
    """Find what is wrong with the pairs of a line that could not be used, and raise the error."""
    largest = MAX_INDEX - 1 + first if last is None else last
    previous = first - 1
    for pair in pairs:
        key, colon, value = pair.partition(b":")
        shown = _show(pair.decode("utf-8", "backslashreplace"))
        if key == b"qid":
            _fail(name, line, f"found {shown}; expected index:value pairs only: remove the query identifiers")
        if not colon or not re.fullmatch(rb"-?[0-9]+", key):
            _fail(name, line, f"found {shown}; expected index:value such as 3:0.5: correct the pair")
        digits = key.lstrip(b"-0") or b"0"
        index = MAX_INDEX + 1 if len(digits) > 10 else int(digits)
        if key.startswith(b"-") or index < first:
            cure = "number the features from 1, or ask for zero_based=True" if first else "number them from 0"
            _fail(name, line, f"found the index in {shown}; expected at least {first}: {cure}")
        if index > largest:
            cure = "renumber the features" if last is None else "give a larger n_features or remove the feature"
            _fail(name, line, f"found the index in {shown}; expected at most {largest}: {cure}")
        if index <= previous:
            _fail(
                name,
                line,
                f"found {shown} after the index {previous}; expected increasing indices: sort the pairs of "
                "the line and remove repeated ones",
            )
        previous = index
        text = value.decode("utf-8", "backslashreplace")
        if _NOT_FINITE.fullmatch(text) or (_NUMBER.fullmatch(text) and not isfinite(float(text))):
            _fail(name, line, f"found the value in {shown}; expected a finite number: replace or remove it")
        if not _NUMBER.fullmatch(text):
            _fail(name, line, f"found the value in {shown}; expected a number such as 0.5: correct the pair")
    raise AssertionError(f"{name}:{line}: the pairs are well formed")


def read_svmlight(
    path: FilePath, n_features: int | None = None, *, zero_based: bool = False
) -> tuple[csr_array, NDArray[Any]]:
    """Read an svmlight (libsvm) file: a label and ``index:value`` pairs a line.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.
    n_features : int, optional
        The number of features; by default the largest index of the file decides.
    zero_based : bool, default=False
        Whether the first feature has the index 0 and not 1.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        The features.
    y : array of shape (n_samples,)
        The labels: integers if all are, else numbers if all are, else text.

    Raises
    ------
    InputError
        If there is no such file.
    FormatError
        If the file is not of this format.
    """
    name = _source_name(path)
    if n_features is not None and (
        isinstance(n_features, bool) or not isinstance(n_features, int | np.integer) or not 1 <= n_features <= MAX_INDEX
    ):
        raise InputError(
            f"n_features is {_show(n_features)}; expected a whole number from 1 to {MAX_INDEX}: "
            "leave it out to take the largest index of the file"
        )
    first = 0 if zero_based else 1
    last = None if n_features is None else int(n_features) - 1 + first
    largest = MAX_INDEX - 1 + first if last is None else last
    labels: list[str] = []
    lines = array("q")
    pointers = array("q", [0])
    indices = array("q")
    values = array("d")
    highest = first - 1
    for number, raw in _numbered_lines(path):
        content = raw.partition(b"#")[0].strip()
        if not content:
            continue
        head, *tail = content.split(None, 1)
        label = _decode(head, name, number)
        if ":" in label:
            _fail(
                name,
                number,
                f"found {_show(label)} where the label should be; expected a label before the pairs: "
                "give every line a label",
            )
        labels.append(label)
        lines.append(number)
        if tail:
            rest = tail[0]
            parts = rest.replace(b":", b" ").split()
            try:
                if not _PAIRS.fullmatch(rest):
                    raise ValueError
                line_indices = list(map(int, parts[::2]))
                line_values = list(map(float, parts[1::2]))
            except ValueError:
                _explain_pairs(name, number, rest.split(), first, last)
            if (
                line_indices[0] < first
                or line_indices[-1] > largest
                or not all(map(operator.lt, line_indices, line_indices[1:]))
                or not all(map(isfinite, line_values))
            ):
                _explain_pairs(name, number, rest.split(), first, last)
            highest = max(highest, line_indices[-1])
            indices.extend(line_indices)
            values.extend(line_values)
        pointers.append(len(indices))
    if not labels:
        raise FormatError(
            f"{name}:1: found no line with a label; expected a label and index:value pairs a line: "
            "check that this is the right file"
        )
    if n_features is None:
        if not indices:
            raise FormatError(
                f"{name}:{lines[0]}: found no feature in any line; expected index:value pairs: give the "
                "features, or n_features if all of them are zero"
            )
        n_features = highest + 1 - first
    index_type = np.int32 if len(indices) <= MAX_INDEX else np.int64
    X = csr_array(
        (
            np.array(values, dtype=np.float64),
            (np.array(indices, dtype=np.int64) - first).astype(index_type),
            np.array(pointers, dtype=index_type),
        ),
        shape=(len(labels), int(n_features)),
    )
    return X, _typed_labels(labels, lines, name)


def _decoded_lines(path: FilePath, name: str) -> Iterator[str]:
    """Yield the lines of a file as text."""
    for number, raw in _numbered_lines(path):
        yield _decode(raw, name, number)


def _check_header(header: list[str], name: str, line: int, delimiter: str) -> None:
    """Check the names of the columns."""
    separator = "tabs" if delimiter == "\t" else "commas"
    if len(header) < 2:
        _fail(
            name,
            line,
            f"found {len(header)} column separated by {separator} in the header {_show(header[0])}; expected "
            "at least one feature and the label: use commas in a .csv file and tabs in a .tsv file",
        )
    numbers = [column for column in header if _NUMBER.fullmatch(column)]
    # Columns named 0, 1, 2, … are common beside a named label; values such as 0.84 are no names.
    is_data = len(numbers) == len(header) - 1 and not all(column.isdigit() for column in numbers)
    if len(numbers) == len(header) or is_data:
        _fail(
            name,
            line,
            f"found numbers in the first row, which starts with {_show(header[0])}; expected the names "
            "of the columns: put a header row first",
        )
    seen: set[str] = set()
    for position, column in enumerate(header, 1):
        if not column:
            _fail(
                name,
                line,
                f"column {position} has no name; expected a name for each column: name it, or remove the "
                "column if it only numbers the rows",
            )
        if column in seen:
            _fail(name, line, f"column name {_show(column)} is repeated; expected distinct names: rename one")
        seen.add(column)


def _explain_row(name: str, line: int, cells: list[str], feature_names: list[str]) -> NoReturn:
    """Find the cell that is not a finite number, and raise the error."""
    for cell, feature in zip(cells, feature_names, strict=True):
        text = cell.strip()
        where = f"the value of {_show(feature)} is {_show(text)}"
        if not text:
            _fail(name, line, f"{where}; expected a number: fill in the missing value or remove the row")
        try:
            value = float(text)
        except ValueError:
            _fail(name, line, f"{where}; expected a number: code the feature as numbers or remove the column")
        if "_" in text:
            _fail(name, line, f"{where}; expected a number without underscores: remove them")
        if not isfinite(value):
            _fail(name, line, f"{where}; expected a finite number: fill in the value or remove the row")
    raise AssertionError(f"{name}:{line}: the row is well formed")


def read_csv(path: FilePath, label: str | None = None) -> tuple[NDArray[np.float64], NDArray[Any], list[str]]:
    """Read a table with a header row, numeric features and one label column.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. The cells are separated
        by tabs if the name ends in ``.tsv``, else by commas.
    label : str, optional
        The name of the label column; the last column by default.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        The features.
    y : array of shape (n_samples,)
        The labels: integers if all are, else numbers if all are, else text.
    feature_names : list of str
        The names of the features.

    Raises
    ------
    InputError
        If there is no such file or no such label column.
    FormatError
        If the file is not of this format.
    """
    name = _source_name(path)
    delimiter = _TABLE_DELIMITERS.get(_extension(path), ",")
    reader = csv.reader(_decoded_lines(path, name), delimiter=delimiter, strict=True)
    feature_names: list[str] = []
    labels: list[str] = []
    lines = array("q")
    values = array("d")
    width = 0
    position = -1
    try:
        for cells in reader:
            number = reader.line_num
            if not any(cells) and len(cells) < 2:
                continue
            if not width:
                header = [cell.strip() for cell in cells]
                _check_header(header, name, number, delimiter)
                width = len(header)
                if label is not None and label not in header:
                    raise InputError(
                        f"{name}:{number}: there is no column {_show(label)} for the label; expected one of "
                        f"{_show(header, 200)}: choose one of these"
                    )
                position = width - 1 if label is None else header.index(label)
                feature_names = header[:position] + header[position + 1 :]
                continue
            if len(cells) != width:
                _fail(
                    name,
                    number,
                    f"found {len(cells)} cells; expected {width} as in the header: complete or correct the row",
                )
            text = cells.pop(position).strip()
            if not text:
                _fail(
                    name,
                    number,
                    "the label is empty; expected a label: give the row a label or remove the row",
                )
            try:
                numbers = list(map(float, cells))
            except ValueError:
                _explain_row(name, number, cells, feature_names)
            if not all(map(isfinite, numbers)) or any("_" in cell for cell in cells):
                _explain_row(name, number, cells, feature_names)
            labels.append(text)
            lines.append(number)
            values.extend(numbers)
    except csv.Error as error:
        raise FormatError(
            f"{name}:{reader.line_num}: the row cannot be read ({error}); expected cells separated by "
            f"{_show(delimiter)}, with quotes doubled inside quoted cells: correct the row"
        ) from error
    if not labels:
        raise FormatError(
            f"{name}:{max(reader.line_num, 1)}: found no row of data; expected a header row and at least one "
            "more: check that this is the right file"
        )
    X = np.array(values, dtype=np.float64).reshape(len(labels), width - 1)
    return X, _typed_labels(labels, lines, name), feature_names


class ClassData(NamedTuple):
    """Samples with a class each.

    Parameters
    ----------
    X : array or csr_array of shape (n_samples, n_features)
        The features: sparse from an svmlight file, dense from a table.
    y : array of shape (n_samples,)
        The labels.
    feature_names : list of str or None
        The names of the features, if the file has them.
    """

    X: NDArray[np.float64] | csr_array
    y: NDArray[Any]
    feature_names: list[str] | None


def read_classes(
    path: FilePath,
    *,
    label: str | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
) -> ClassData:
    """Read samples with classes, choosing the reader by the file's extension.

    Parameters
    ----------
    path : str or path
        A ``.csv`` or ``.tsv`` file is read by `read_csv`, any other by `read_svmlight`; ``.gz`` may follow.
    label : str, optional
        The name of the label column of a table; the last column by default.
    n_features : int, optional
        The number of features the file must have (a table) or fit in (svmlight).
    zero_based : bool, default=False
        Whether the first feature of an svmlight file has the index 0.

    Returns
    -------
    ClassData
        The features, the labels and the names of the features.

    Raises
    ------
    InputError
        If there is no such file, or an option does not suit it.
    FormatError
        If the file is not of this format.
    """
    name = _source_name(path)
    if _extension(path) not in _TABLE_DELIMITERS:
        if label is not None:
            raise InputError(
                f"label is {_show(label)}, but {name} is read as svmlight, which has no column names; "
                "expected no label: leave it out, or let the name end in .csv or .tsv"
            )
        X, y = read_svmlight(path, n_features, zero_based=zero_based)
        return ClassData(X, y, None)
    if zero_based:
        raise InputError(
            f"zero_based was asked for, but {name} is read as a table, which has no indices; expected no "
            "such option: leave it out"
        )
    table, y, feature_names = read_csv(path, label)
    if n_features is not None and table.shape[1] != n_features:
        raise FormatError(
            f"{name}:1: found {table.shape[1]} features; expected {n_features}: "
            "give a file with the columns the model was trained on"
        )
    return ClassData(table, y, feature_names)
