"""Files that are read in blocks, because they may not fit into memory."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from latentstruct.core.lazy import sparse
from latentstruct.exceptions import Description, InputError
from latentstruct.io.columns import ColumnSentences, ends_sentence, form_of, parse_conll
from latentstruct.io.delimited import typed_labels
from latentstruct.io.svmlight import MAX_INDEX, parse_svmlight
from latentstruct.io.text import STANDARD_STREAM, FilePath, Source, numbered_lines, path_text, source_name

TOKENS, SAMPLES = 20_000, 5_000
"""Tokens, or samples, per block."""


def refuse_stream(path: FilePath) -> None:
    """Raise if a file that is read twice is standard input or a pipe."""
    text = path_text(path)
    seekable = text != STANDARD_STREAM and (not os.path.exists(text) or os.path.isfile(text) or os.path.isdir(text))
    if not seekable:
        raise InputError("path", Description(source_name(path)), "a file, as it is read twice")


def read_conll_blocks(
    path: FilePath, blank: Mapping[int, str] | None = None, n_tokens: int = TOKENS
) -> Iterator[ColumnSentences]:
    """Read the sentences of `read_conll` in blocks; a block ends with the sentence that reaches `n_tokens`."""
    name, form = source_name(path), None
    waiting: list[tuple[int, bytes]] = []
    for number, raw in numbered_lines(path):
        ends = ends_sentence(raw)
        if not ends:
            form = form or form_of(raw, blank)
            waiting.append((number, raw))
        elif waiting:
            waiting.append((number, raw))
            if len(waiting) >= n_tokens:
                yield parse_conll(waiting, name, None, blank, form)
                waiting = []
    if waiting or form is None:
        # If there is nothing at all, the reader raises the error.
        yield parse_conll(waiting, name, None, blank, form)


def survey_svmlight(path: FilePath, zero_based: bool = False) -> tuple[int, dict[str, Any], int]:
    """Return the number of features of an svmlight file, its labels and the number of samples, read in blocks.

    The labels map the text in the file to the value that `read_svmlight` returns for it.
    """
    name, n_features, n_samples = source_name(path), 0, 0
    written: dict[str, int] = {}
    for lines in _parts(path, SAMPLES):
        # The largest possible number of features, as a block without features is valid.
        X, labels, numbers = parse_svmlight(Source(lines, name), MAX_INDEX, zero_based)
        n_features, n_samples = max(n_features, int(X.indices.max(initial=-1)) + 1), n_samples + X.shape[0]
        for label, number in zip(labels, numbers, strict=True):
            written.setdefault(label, number)
    if not n_features:
        # The reader raises the error of such a file.
        parse_svmlight(Source(next(_parts(path, 1), []), name))
    typed = typed_labels(list(written), list(written.values()), Source((), name))
    return n_features, dict(zip(written, typed.tolist(), strict=True)), n_samples


def read_svmlight_blocks(
    path: FilePath, n_features: int, labels: Mapping[str, Any], zero_based: bool = False
) -> "Iterator[tuple[sparse.csr_array, list[Any]]]":
    """Read features and labels of an svmlight file in blocks, given what `survey_svmlight` returned."""
    for lines in _parts(path, SAMPLES):
        X, written, _ = parse_svmlight(Source(lines, source_name(path)), n_features, zero_based)
        yield X, [labels[label] for label in written]


def _parts(path: FilePath, size: int) -> Iterator[list[tuple[int, bytes]]]:
    """Yield lists of `size` numbered lines that are not empty."""
    waiting: list[tuple[int, bytes]] = []
    for number, raw in numbered_lines(path):
        if raw.partition(b"#")[0].strip():
            waiting.append((number, raw))
        if len(waiting) >= size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting
