"""Sparse features of samples: an svmlight file has a label and index:value pairs per line."""

import operator
import re
from array import array
from collections.abc import Sequence
from math import isfinite
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import sparse
from latentstruct.exceptions import Description, InputError
from latentstruct.io.delimited import typed_labels
from latentstruct.io.text import NOT_FINITE, NUMBER, FilePath, Source

MAX_INDEX = 2**31 - 1
MAX_KEY = 100
"""Most digits of an index, including leading zeros."""
_PAIRS = re.compile(rb"(?:\s*[0-9]{1,100}:[-+0-9.eE]+(?=\s|$))*\s*")


def _explain_pairs(source: Source, pairs: list[bytes], first: int, last: int | None) -> NoReturn:
    """Find the first invalid pair of a line, and raise the error."""
    largest = MAX_INDEX - 1 + first if last is None else last
    previous = first - 1
    for pair in pairs:
        key, colon, value = pair.partition(b":")
        shown = pair.decode("utf-8", "backslashreplace")
        if key == b"qid":
            source.fail(shown, "index:value pairs only", "Remove the query identifiers.")
        if not colon or not re.fullmatch(rb"-?[0-9]+", key):
            source.fail(shown, "index:value such as 3:0.5")
        digits = key.lstrip(b"-0") or b"0"
        index = MAX_INDEX + 1 if len(digits) > 10 else int(digits)
        if key.startswith(b"-") or index < first:
            hint = "Set `zero_based` if the first feature has the index 0." if first else None
            source.fail(shown, f"an index of at least {first}", hint)
        if index > largest:
            source.fail(shown, f"an index of at most {largest}")
        if len(key) > MAX_KEY:
            source.fail(shown, f"an index of at most {MAX_KEY} digits")
        if index <= previous:
            source.fail(shown, f"an index above {previous}, as indices increase")
        previous = index
        text = value.decode("utf-8", "backslashreplace")
        if NOT_FINITE.fullmatch(text) or not NUMBER.fullmatch(text) or not isfinite(float(text)):
            source.fail(shown, "a finite number as value")
    raise AssertionError("the pairs are well formed")


def parse_pairs(text: bytes, source: Source, first: int, last: int | None) -> tuple[list[int], list[float]]:
    """Return the increasing indices and the finite values of pairs ``index:value`` separated by spaces.

    Indices are at least `first` and at most `last`; None means the largest that readers support.
    """
    parts = text.replace(b":", b" ").split()
    try:
        if not _PAIRS.fullmatch(text):
            raise ValueError
        indices = list(map(int, parts[::2]))
        values = list(map(float, parts[1::2]))
    except ValueError:
        _explain_pairs(source, text.split(), first, last)
    largest = MAX_INDEX - 1 + first if last is None else last
    in_range = not indices or (indices[0] >= first and indices[-1] <= largest)
    if not in_range or not all(map(operator.lt, indices, indices[1:])) or not all(map(isfinite, values)):
        _explain_pairs(source, text.split(), first, last)
    return indices, values


class SparseRows:
    """Rows of ``index:value`` pairs, collected line by line.

    `n_features` is by default determined by the largest index; `first` is the smallest one.
    """

    def __init__(self, source: Source, n_features: int | None = None, first: int = 1) -> None:
        check_n_features(n_features)
        self.source, self.n_features, self.first = source, n_features, first
        self.last = None if n_features is None else int(n_features) - 1 + first
        self.pointers, self.indices, self.values = array("q", [0]), array("q"), array("d")
        self.highest = first - 1

    def add(self, pairs: bytes) -> None:
        """Add the row of the current line."""
        if pairs:
            indices, values = parse_pairs(pairs, self.source, self.first, self.last)
            self.indices.extend(indices)
            self.values.extend(values)
            if indices and indices[-1] > self.highest:
                self.highest = indices[-1]
        self.pointers.append(len(self.indices))

    def matrix(self, line: int = 1) -> "sparse.csr_array":
        """Return the rows; raise, with a line, if there are no features and their number is unknown."""
        if self.n_features is None and not self.indices:
            hint = "Set `n_features` if all features are zero."
            self.source.fail(Description("no features in any line"), "index:value pairs", hint, line=line)
        n_features = self.highest + 1 - self.first if self.n_features is None else int(self.n_features)
        index_type = np.int32 if len(self.indices) <= MAX_INDEX else np.int64
        return sparse.csr_array(
            (
                np.array(self.values, dtype=np.float64),
                (np.array(self.indices, dtype=np.int64) - self.first).astype(index_type),
                np.array(self.pointers, dtype=index_type),
            ),
            shape=(len(self.pointers) - 1, n_features),
        )


def check_n_features(n_features: Any) -> None:
    """Raise unless the number of features is None or one that readers support."""
    if n_features is not None and (
        isinstance(n_features, bool) or not isinstance(n_features, int | np.integer) or not 1 <= n_features <= MAX_INDEX
    ):
        raise InputError("n_features", n_features, f"an integer from 1 to {MAX_INDEX} or None")


def read_svmlight(
    path: FilePath, n_features: int | None = None, *, zero_based: bool = False
) -> "tuple[sparse.csr_array, NDArray[Any]]":
    """Read an svmlight (libsvm) file: a label and ``index:value`` pairs per line.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.
    n_features : int, optional
        The number of features; by default determined by the largest index of the file.
    zero_based : bool, default=False
        Whether the first feature has the index 0 instead of 1.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        The features.
    y : array of shape (n_samples,)
        The labels: integers if all are, else numbers if all are, else text.
    """
    source = Source.open(path)
    X, labels, lines = parse_svmlight(source, n_features, zero_based)
    return X, typed_labels(labels, lines, source)


def parse_svmlight(
    source: Source, n_features: int | None = None, zero_based: bool = False
) -> "tuple[sparse.csr_array, list[str], Sequence[int]]":
    """Return the features, the labels as written and the numbers of their lines; see `read_svmlight`."""
    rows = SparseRows(source, n_features, 0 if zero_based else 1)
    labels: list[str] = []
    lines = array("q")
    for raw in source:
        content = raw.partition(b"#")[0].strip()
        if not content:
            continue
        head, *tail = content.split(None, 1)
        label = source.decode(head)
        if ":" in label:
            source.fail(label, "a label before the pairs")
        labels.append(label)
        lines.append(source.line)
        rows.add(tail[0] if tail else b"")
    if not labels:
        source.fail(Description("no label"), "a label and index:value pairs per line", line=1)
    if not rows.indices and "," in labels[0]:
        hint = "The name of a table must end in .csv or .tsv."
        source.fail(labels[0], "a label and index:value pairs", hint, line=lines[0])
    return rows.matrix(lines[0]), labels, lines
