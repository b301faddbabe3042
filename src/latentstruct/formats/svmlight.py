"""Sparse features of samples: an svmlight file has a label and index:value pairs a line."""

import operator
import re
from array import array
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from latentstruct.exceptions import FormatError, InputError
from latentstruct.formats.class_labels import typed_labels
from latentstruct.formats.text import (
    NOT_FINITE,
    NUMBER,
    FilePath,
    decode_line,
    fail,
    numbered_lines,
    show,
    source_name,
)

MAX_INDEX = 2**31 - 1
MAX_KEY = 100
"""Digits of an index, zeros before it included."""
_PAIRS = re.compile(rb"(?:\s*[0-9]{1,100}:[-+0-9.eE]+(?=\s|$))*\s*")


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
