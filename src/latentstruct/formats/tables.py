"""Inputs with a class each: svmlight and delimited tables."""

import csv
import io
import operator
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from latentstruct.exceptions import FormatError, InputError
from latentstruct.formats.text import (
    BOM,
    INTEGER,
    NOT_FINITE,
    NUMBER,
    STANDARD_STREAM,
    FilePath,
    KeptInput,
    decode_line,
    extension,
    fail,
    numbered_lines,
    path_text,
    read_standard_input,
    show,
    source_name,
)
from latentstruct.short_repr import short_repr

MAX_INDEX = 2**31 - 1
MAX_LABEL = 1000
"""Letters above which a label is refused: an array of labels has room for the longest in each row."""

_TABLE_DELIMITERS = {".csv": ",", ".tsv": "\t"}
MAX_KEY = 100
"""Digits of an index, zeros before it included."""
_PAIR = re.compile(rb"(?:^|\s)(?:[0-9]+|qid):")
_PAIRS = re.compile(rb"(?:\s*[0-9]{1,100}:[-+0-9.eE]+(?=\s|$))*\s*")


def typed_labels(labels: list[str], lines: Sequence[int], name: str) -> NDArray[Any]:
    """Make an array of the labels: integers if all are, else numbers if all are, else text."""
    distinct = set(labels)
    if all(INTEGER.fullmatch(label) for label in distinct):
        # Longer than the longest 64-bit integer, or outside the range: text keeps such labels apart.
        integers = {label: int(label) for label in distinct if len(label) <= 20}
        if len(integers) == len(distinct) and all(-(2**63) <= value < 2**63 for value in integers.values()):
            return np.array([integers[label] for label in labels], dtype=np.int64)
    elif any(NUMBER.fullmatch(label) for label in distinct) and all(
        NUMBER.fullmatch(label) or NOT_FINITE.fullmatch(label) for label in distinct
    ):
        numbers = {label: float(label) for label in distinct}
        for label, line in zip(labels, lines, strict=True):
            if not isfinite(numbers[label]):
                fail(
                    name,
                    line,
                    f"the label is {show(label)}; expected a finite number as in the other lines: give the "
                    "row a label or remove it",
                )
        return np.array([numbers[label] for label in labels], dtype=np.float64)
    for label, line in zip(labels, lines, strict=True):
        if len(label) > MAX_LABEL:
            fail(
                name,
                line,
                f"the label {show(label)} has {len(label)} letters; expected at most {MAX_LABEL}: shorten it, and "
                "check that quotes are closed",
            )
    return np.array(labels, dtype=np.str_)


def _explain_pairs(name: str, line: int, pairs: list[bytes], first: int, last: int | None) -> NoReturn:
    """Find what is wrong with the pairs of a line that could not be used, and raise the error."""
    largest = MAX_INDEX - 1 + first if last is None else last
    previous = first - 1
    for pair in pairs:
        key, colon, value = pair.partition(b":")
        shown = show(pair.decode("utf-8", "backslashreplace"))
        if key == b"qid":
            fail(name, line, f"found {shown}; expected index:value pairs only: remove the query identifiers")
        if not colon or not re.fullmatch(rb"-?[0-9]+", key):
            fail(name, line, f"found {shown}; expected index:value such as 3:0.5: correct the pair")
        digits = key.lstrip(b"-0") or b"0"
        index = MAX_INDEX + 1 if len(digits) > 10 else int(digits)
        if key.startswith(b"-") or index < first:
            cure = "number the features from 1, or ask for zero_based=True" if first else "number them from 0"
            fail(name, line, f"found the index in {shown}; expected at least {first}: {cure}")
        if index > largest:
            cure = "renumber the features" if last is None else "give a larger n_features or remove the feature"
            fail(name, line, f"found the index in {shown}; expected at most {largest}: {cure}")
        if len(key) > MAX_KEY:
            fail(name, line, f"the index in {shown} has {len(key)} digits; expected at most {MAX_KEY}: drop the zeros")
        if index <= previous:
            fail(
                name,
                line,
                f"found {shown} after the index {previous}; expected increasing indices: sort the pairs of "
                "the line and remove repeated ones",
            )
        previous = index
        text = value.decode("utf-8", "backslashreplace")
        if NOT_FINITE.fullmatch(text) or (NUMBER.fullmatch(text) and not isfinite(float(text))):
            fail(name, line, f"found the value in {shown}; expected a finite number: replace or remove it")
        if not NUMBER.fullmatch(text):
            fail(name, line, f"found the value in {shown}; expected a number such as 0.5: correct the pair")
    raise AssertionError(f"{name}:{line}: the pairs are well formed")


def parse_pairs(text: bytes, name: str, line: int, first: int, last: int | None) -> tuple[list[int], list[float]]:
    """Read the ``index:value`` pairs of a line.

    Parameters
    ----------
    text : bytes
        The pairs, separated by spaces.
    name, line : str and int
        Where they stand, for messages.
    first, last : int and int or None
        The smallest and the largest index that is allowed; None for the largest that any reader takes.

    Returns
    -------
    indices : list of int
        Increasing.
    values : list of float
        Finite.

    Raises
    ------
    FormatError
        If the text is anything else.
    """
    parts = text.replace(b":", b" ").split()
    try:
        if not _PAIRS.fullmatch(text):
            raise ValueError
        indices = list(map(int, parts[::2]))
        values = list(map(float, parts[1::2]))
    except ValueError:
        _explain_pairs(name, line, text.split(), first, last)
    largest = MAX_INDEX - 1 + first if last is None else last
    in_range = not indices or (indices[0] >= first and indices[-1] <= largest)
    if not in_range or not all(map(operator.lt, indices, indices[1:])) or not all(map(isfinite, values)):
        _explain_pairs(name, line, text.split(), first, last)
    return indices, values


def check_n_features(n_features: Any) -> None:
    """Raise unless the number of features is left open or one that a reader can have."""
    if n_features is not None and (
        isinstance(n_features, bool) or not isinstance(n_features, int | np.integer) or not 1 <= n_features <= MAX_INDEX
    ):
        raise InputError(
            f"n_features is {show(n_features)}; expected a whole number from 1 to {MAX_INDEX}: "
            "leave it out to take the largest index of the file"
        )


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
    name = source_name(path)
    X, labels, lines = parse_svmlight(numbered_lines(path), name, n_features, zero_based)
    return X, typed_labels(labels, lines, name)


def parse_svmlight(
    lines_of_file: Iterable[tuple[int, bytes]], name: str, n_features: int | None = None, zero_based: bool = False
) -> tuple[csr_array, list[str], Sequence[int]]:
    """Parse numbered lines of svmlight: features, labels as they are written, and the numbers of their lines.

    See `read_svmlight` for what a line is.
    """
    check_n_features(n_features)
    first = 0 if zero_based else 1
    last = None if n_features is None else int(n_features) - 1 + first
    labels: list[str] = []
    lines = array("q")
    pointers = array("q", [0])
    indices = array("q")
    values = array("d")
    highest = first - 1
    for number, raw in lines_of_file:
        content = raw.partition(b"#")[0].strip()
        if not content:
            continue
        head, *tail = content.split(None, 1)
        label = decode_line(head, name, number)
        if ":" in label:
            fail(
                name,
                number,
                f"found {show(label)} where the label should be; expected a label before the pairs: "
                "give every line a label",
            )
        labels.append(label)
        lines.append(number)
        if tail:
            line_indices, line_values = parse_pairs(tail[0], name, number, first, last)
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
    return X, labels, lines


def _decoded_lines(path: FilePath, name: str) -> Iterator[str]:
    """Yield the lines of a file as text."""
    for number, raw in numbered_lines(path):
        yield decode_line(raw, name, number)


def _check_header(header: list[str], name: str, line: int, delimiter: str) -> None:
    """Check the names of the columns."""
    separator = "tabs" if delimiter == "\t" else "commas"
    if len(header) < 2:
        fail(
            name,
            line,
            f"found {len(header)} column separated by {separator} in the header {show(header[0])}; expected "
            "at least one feature and the label: use commas in a .csv file and tabs in a .tsv file",
        )
    numbers = [column for column in header if NUMBER.fullmatch(column)]
    # Columns named 0, 1, 2, … are common beside a named label; values such as 0.84 are no names.
    is_data = len(numbers) == len(header) - 1 and not all(column.isdigit() for column in numbers)
    if len(numbers) == len(header) or is_data:
        fail(
            name,
            line,
            f"found numbers in the first row, which starts with {show(header[0])}; expected the names "
            "of the columns: put a header row first",
        )
    seen: set[str] = set()
    for position, column in enumerate(header, 1):
        if not column:
            fail(
                name,
                line,
                f"column {position} has no name; expected a name for each column: name it, or remove the "
                "column if it only numbers the rows",
            )
        if column in seen:
            fail(name, line, f"column name {show(column)} is repeated; expected distinct names: rename one")
        seen.add(column)


def _explain_row(name: str, line: int, cells: list[str], feature_names: list[str]) -> NoReturn:
    """Find the cell that is not a finite number, and raise the error."""
    for cell, feature in zip(cells, feature_names, strict=True):
        text = cell.strip(" \t\r\n")
        where = f"the value of {show(feature)} is {show(text)}"
        if not text:
            fail(name, line, f"{where}; expected a number: fill in the missing value or remove the row")
        try:
            value = float(text)
        except ValueError:
            fail(name, line, f"{where}; expected a number: code the feature as numbers or remove the column")
        if "_" in text:
            fail(name, line, f"{where}; expected a number without underscores: remove them")
        if not isfinite(value):
            fail(name, line, f"{where}; expected a finite number: fill in the value or remove the row")
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
    name = source_name(path)
    delimiter = _TABLE_DELIMITERS.get(extension(path), ",")
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
                        f"{name}:{number}: there is no column {show(label)} for the label; expected one of "
                        f"{show(header, 200)}: choose one of these"
                    )
                position = width - 1 if label is None else header.index(label)
                feature_names = header[:position] + header[position + 1 :]
                continue
            if len(cells) != width:
                fail(
                    name,
                    number,
                    f"found {len(cells)} cells; expected {width} as in the header: complete or correct the row",
                )
            text = cells.pop(position).strip()
            if not text:
                fail(
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
            f"{show(delimiter)}, with quotes doubled inside quoted cells: correct the row"
        ) from error
    if not labels:
        raise FormatError(
            f"{name}:{max(reader.line_num, 1)}: found no row of data; expected a header row and at least one "
            "more: check that this is the right file"
        )
    X = np.array(values, dtype=np.float64).reshape(len(labels), width - 1)
    return X, typed_labels(labels, lines, name), feature_names


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

    def __repr__(self) -> str:
        return short_repr(self)


def keep_samples(path: FilePath) -> FilePath:
    """Return standard input read whole, with the extension that its first line calls for; any other path as it is.

    A line without pairs such as ``3:0.5`` in which there are commas or tabs is the header of a table.
    """
    if isinstance(path, KeptInput) or path_text(path) != STANDARD_STREAM:
        return path
    content = read_standard_input()
    lines = (line.strip() for line in io.BytesIO(content.removeprefix(BOM)))
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    suffix = ""
    if not _PAIR.search(first):
        suffix = ".csv" if b"," in first else ".tsv" if b"\t" in first else ""
    return KeptInput(content, suffix)


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
        A ``.csv`` or ``.tsv`` file is read by `read_csv`, any other by `read_svmlight`; ``.gz`` may follow. ``-`` is
        standard input, whose first line tells which it is.
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
    path = keep_samples(path)
    name = source_name(path)
    if extension(path) not in _TABLE_DELIMITERS:
        if label is not None:
            raise InputError(
                f"label is {show(label)}, but {name} is read as svmlight, which has no column names; "
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
