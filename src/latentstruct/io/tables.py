"""Samples with one class each: delimited tables, and the choice of the reader by file name."""

import io
import re
from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short, short_repr
from latentstruct.core.lazy import sparse
from latentstruct.exceptions import Description, InputError
from latentstruct.io.delimited import DELIMITERS, SEPARATORS, Table, typed_labels
from latentstruct.io.svmlight import read_svmlight
from latentstruct.io.text import NUMBER, FilePath, extension, fail, kept_input, source_name

_PAIR = re.compile(rb"(?:^|\s)(?:[0-9]+|qid):")


def _check_header(table: Table) -> None:
    """Check the names of the columns."""
    header, source = table.header, table.source
    if len(header) < 2:
        hint = "Separate cells by commas in a .csv file and by tabs in a .tsv file."
        source.fail(header, f"at least one feature and the label, separated by {SEPARATORS[table.delimiter]}", hint)
    numbers = [column for column in header if NUMBER.fullmatch(column)]
    # Columns named 0, 1, 2, … are common next to a named label; values such as 0.84 are not names.
    is_data = len(numbers) == len(header) - 1 and not all(column.isdigit() for column in numbers)
    if len(numbers) == len(header) or is_data:
        source.fail(header, "a header row with the names of the columns")
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
            raise InputError("label", label, f"a column of {source.name}: {repr_short(header, 200)}")
        label = header[-1] if label is None else label
        for texts, numbers in table.split({header.index(label): "label"}):
            labels += texts
            lines.append(source.line)
            values.extend(numbers)
    if not labels:
        source.fail(Description("no row of data"), "a header row and at least one row of data")
    X = np.array(values, dtype=np.float64).reshape(len(labels), len(header) - 1)
    return X, typed_labels(labels, lines, source), [column for column in header if column != label]


class ClassData(NamedTuple):
    """Samples with one class each.

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
    """Read standard input, with an extension determined from its first line; return any other path unchanged.

    A first line with commas or tabs and without pairs such as ``3:0.5`` is the header of a table.
    """
    return kept_input(path, _suffix)


def _suffix(content: bytes) -> str:
    lines = (line.strip() for line in io.BytesIO(content))
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    if _PAIR.search(first):
        return ""
    return ".csv" if b"," in first else ".tsv" if b"\t" in first else ""


def read_classes(
    path: FilePath, *, label: str | None = None, n_features: int | None = None, zero_based: bool = False
) -> ClassData:
    """Read samples with classes; the reader is chosen by the extension of the file.

    Parameters
    ----------
    path : str or path
        A ``.csv`` or ``.tsv`` file is read by `read_csv`, any other by `read_svmlight`; ``.gz`` may follow. ``-`` is
        standard input, whose first line determines the reader.
    label : str, optional
        The name of the label column of a table; the last column by default.
    n_features : int, optional
        The number of features of a table, or the largest allowed number of an svmlight file.
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
            hint = "The name of a table must end in .csv or .tsv."
            raise InputError("label", label, f"None for {name}, which is read as svmlight without column names", hint)
        X, y = read_svmlight(path, n_features, zero_based=zero_based)
        return ClassData(X, y, None)
    if zero_based:
        raise InputError("zero_based", zero_based, f"False for {name}, which is a table without indices")
    table, y, feature_names = read_csv(path, label)
    if n_features is not None and table.shape[1] != n_features:
        fail(name, 1, Description(f"{table.shape[1]} features"), f"{n_features} features")
    return ClassData(table, y, feature_names)
