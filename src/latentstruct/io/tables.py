"""Samples with a class each: delimited tables, and the choice of the reader by the name of the file."""

import io
import re
from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import sparse
from latentstruct.exceptions import InputError
from latentstruct.io.delimited import DELIMITERS, SEPARATORS, Table, typed_labels
from latentstruct.io.svmlight import read_svmlight
from latentstruct.io.text import NUMBER, FilePath, extension, fail, kept_input, show, source_name

_PAIR = re.compile(rb"(?:^|\s)(?:[0-9]+|qid):")


def _check_header(table: Table) -> None:
    """Check the names of the columns."""
    header, source = table.header, table.source
    if len(header) < 2:
        source.fail(
            f"found {len(header)} column separated by {SEPARATORS[table.delimiter]} in the header {show(header[0])}; "
            "expected at least one feature and the label: use commas in a .csv file and tabs in a .tsv file"
        )
    numbers = [column for column in header if NUMBER.fullmatch(column)]
    # Columns named 0, 1, 2, … are common beside a named label; values such as 0.84 are no names.
    is_data = len(numbers) == len(header) - 1 and not all(column.isdigit() for column in numbers)
    if len(numbers) == len(header) or is_data:
        source.fail(
            f"found numbers in the first row, which starts with {show(header[0])}; expected the names of the columns: "
            "put a header row first"
        )
    table.check_names()


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
    """
    table = Table.open(path)
    header, source = table.header, table.source
    labels: list[str] = []
    lines, values = array("q"), array("d")
    if header:
        _check_header(table)
        if label is not None and label not in header:
            raise InputError(
                f"{source.name}:{source.line}: there is no column {show(label)} for the label; expected one of "
                f"{show(header, 200)}: choose one of these"
            )
        label = header[-1] if label is None else label
        for texts, numbers in table.split({header.index(label): "label"}):
            labels += texts
            lines.append(source.line)
            values.extend(numbers)
    if not labels:
        source.fail("found no row of data; expected a header row and at least one more: check the file")
    X = np.array(values, dtype=np.float64).reshape(len(labels), len(header) - 1)
    return X, typed_labels(labels, lines, source), [column for column in header if column != label]


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

    X: "NDArray[np.float64] | sparse.csr_array"
    y: NDArray[Any]
    feature_names: list[str] | None

    def __repr__(self) -> str:
        return short_repr(self)


def keep_samples(path: FilePath) -> FilePath:
    """Return standard input read whole, with the extension that its first line calls for; any other path as it is.

    A line without pairs such as ``3:0.5`` in which there are commas or tabs is the header of a table.
    """
    return kept_input(path, _suffix)


def _suffix(content: bytes) -> str:
    lines = (line.strip() for line in io.BytesIO(content))
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    if _PAIR.search(first):
        return ""
    return ".csv" if b"," in first else ".tsv" if b"\t" in first else ""


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
    """
    path = keep_samples(path)
    name = source_name(path)
    if extension(path) not in DELIMITERS:
        if label is not None:
            raise InputError(
                f"label is {show(label)}, but {name} is read as svmlight, which has no column names; expected no "
                "label: leave it out, or let the name end in .csv or .tsv"
            )
        X, y = read_svmlight(path, n_features, zero_based=zero_based)
        return ClassData(X, y, None)
    if zero_based:
        raise InputError(
            f"zero_based was asked for, but {name} is read as a table, which has no indices; expected no such option: "
            "leave it out"
        )
    table, y, feature_names = read_csv(path, label)
    if n_features is not None and table.shape[1] != n_features:
        cure = "give a file with the columns the model was trained on"
        fail(name, 1, f"found {table.shape[1]} features; expected {n_features}: {cure}")
    return ClassData(table, y, feature_names)
