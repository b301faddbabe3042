"""Samples with a class each: delimited tables, and the choice of the reader by the name of the file."""

import csv
import io
import re
from array import array
from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from latentstruct.exceptions import FormatError, InputError
from latentstruct.formats.class_labels import typed_labels
from latentstruct.formats.svmlight import read_svmlight
from latentstruct.formats.text import (
    BOM,
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

_TABLE_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PAIR = re.compile(rb"(?:^|\s)(?:[0-9]+|qid):")


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


def _read_header(cells: list[str], name: str, line: int, delimiter: str, label: str | None) -> tuple[int, list[str]]:
    """Return the position of the label column, and the names of the others."""
    header = [cell.strip() for cell in cells]
    _check_header(header, name, line, delimiter)
    if label is not None and label not in header:
        raise InputError(
            f"{name}:{line}: there is no column {show(label)} for the label; expected one of "
            f"{show(header, 200)}: choose one of these"
        )
    position = len(header) - 1 if label is None else header.index(label)
    return position, header[:position] + header[position + 1 :]


def _take_label(cells: list[str], position: int, width: int, name: str, line: int) -> str:
    """Take the label out of a row, which has as many cells as the header."""
    if len(cells) != width:
        fail(
            name,
            line,
            f"found {len(cells)} cells; expected {width} as in the header: complete or correct the row",
        )
    text = cells.pop(position).strip()
    if not text:
        fail(name, line, "the label is empty; expected a label: give the row a label or remove the row")
    return text


def _read_numbers(cells: list[str], feature_names: list[str], name: str, line: int) -> list[float]:
    """Return the features of a row."""
    try:
        numbers = list(map(float, cells))
    except ValueError:
        _explain_row(name, line, cells, feature_names)
    if not all(map(isfinite, numbers)) or any("_" in cell for cell in cells):
        _explain_row(name, line, cells, feature_names)
    return numbers


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
    rows = (cells for cells in reader if any(cells) or len(cells) > 1)
    position = -1
    feature_names: list[str] = []
    labels: list[str] = []
    lines = array("q")
    values = array("d")
    try:
        if (header := next(rows, None)) is not None:
            position, feature_names = _read_header(header, name, reader.line_num, delimiter, label)
        for cells in rows:
            labels.append(_take_label(cells, position, len(feature_names) + 1, name, reader.line_num))
            lines.append(reader.line_num)
            values.extend(_read_numbers(cells, feature_names, name, reader.line_num))
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
    X = np.array(values, dtype=np.float64).reshape(len(labels), len(feature_names))
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
