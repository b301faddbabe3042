"""CoNLL-U files, which keep comments, multiword tokens and empty nodes when they are written with other labels."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from latentstruct.core.formatting import counted, short_repr
from latentstruct.core.validation import check_length, integer
from latentstruct.exceptions import Description, InputError
from latentstruct.io.columns import ColumnSentences, written_field
from latentstruct.io.text import FilePath, Source, write_text

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
FORM, UPOS, MISC = (COLUMNS.index(name) for name in ("FORM", "UPOS", "MISC"))
CONFIDENCE = "Confidence="
_WORD, _OTHER = re.compile(r"[1-9][0-9]*", re.ASCII), re.compile(r"[0-9]+(-[0-9]+|\.[0-9]+)", re.ASCII)
_DOCUMENT = re.compile(r"#\s*newdoc\b")
_BEGIN = re.compile(rb"\s*(#|1(-[0-9]+)?\t([^\t\n]*\t){8}[^\t\n]*(\n|$)|0\.1\t)")


@dataclass(frozen=True, eq=False)
class ConlluSentences(ColumnSentences):
    """The words of a CoNLL-U file in its ten columns, and its other lines.

    Parameters
    ----------
    columns : tuple of list of str
        The ten columns of all words.
    offsets : array of shape (n_sentences + 1,)
        Sentence `i` has the words `offsets[i]` to `offsets[i + 1]`.
    separator : str
        What separates the columns.
    documents : array of shape (n_sentences,), optional
        The number of the document of each sentence; None without comments ``# newdoc``.
    others : sequence of (int, str)
        The lines of comments, multiword tokens and empty nodes, and empty lines, with the number of words before each.
    newline : str
        How lines end.
    """

    others: Sequence[tuple[int, str]] = ()
    newline: str = "\n"

    __repr__ = short_repr


def looks_like_conllu(content: bytes) -> bool:
    """Return whether a text begins as CoNLL-U files do: with a comment or a first word of ten columns."""
    return _BEGIN.match(content) is not None


def read_conllu(path: FilePath) -> ConlluSentences:
    r"""Read the words of a CoNLL-U file.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.

    Returns
    -------
    ConlluSentences
        The sentences. Multiword tokens and empty nodes are no words; they are kept for `write_conllu`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with open(f"{folder}/a.conllu", "w") as file:
    ...         _ = file.write("# text = Go!\n1\tGo\tgo" + "\t_" * 7 + "\n2\t!\t!" + "\t_" * 7 + "\n\n")
    ...     read_conllu(f"{folder}/a.conllu").column(1)
    [['Go', '!']]
    """
    source = Source.open(path)
    values: list[list[str]] = [[] for _ in COLUMNS]
    others: list[tuple[int, str]] = []
    offsets, words, newline = [0], values[0], "\n"
    for raw in source:
        text = source.decode(raw)
        line = text.rstrip("\r\n")
        if line.strip() and not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != len(COLUMNS):
                source.fail(Description(counted(len(fields), "column")), "the 10 columns of CoNLL-U, separated by tabs")
            if _WORD.fullmatch(fields[0]):
                if not all(map(str.strip, fields)):
                    k = next(k for k, field in enumerate(fields) if not field.strip())
                    source.fail(Description("an empty field"), f"a value of {COLUMNS[k]}, such as _")
                newline = newline if words else text[len(line) :] or newline
                for column, field in zip(values, fields, strict=True):
                    column.append(field)
                continue
            if not _OTHER.fullmatch(fields[0]):
                source.fail(fields[0], "an ID such as 1, 1-2 or 1.1")
        others.append((len(words), f"{line}{text[len(line) :] or newline}"))
        if not line.strip() and len(words) > offsets[-1]:
            offsets.append(len(words))
    if not words:
        source.fail(Description("no word"), "a word per line and an empty line after each sentence", line=1)
    if len(words) > offsets[-1]:
        offsets.append(len(words))
    begins = [n_words for n_words, text in others if _DOCUMENT.match(text)]
    documents = np.searchsorted(begins, offsets[:-1], side="right") if begins else None
    return ConlluSentences(tuple(values), np.asarray(offsets, dtype=np.int64), "\t", documents, others, newline)


def write_conllu(
    path: FilePath,
    sentences: ConlluSentences,
    column: int,
    predicted: Iterable[Sequence[object]],
    confidence: Iterable[Sequence[float]] | None = None,
) -> None:
    """Write a CoNLL-U file with other values in one column; all other columns and lines stay as they are.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    sentences : ConlluSentences
        The sentences, as `read_conllu` returned them.
    column : int
        The column to replace, counted from 0, other than that of IDs: 3 is UPOS.
    predicted : iterable of sequences
        Its values, one per word of each sentence.
    confidence : iterable of sequences of float, optional
        Probabilities of the values, which are added to MISC as ``Confidence=0.98``.
    """
    integer(1, len(COLUMNS) - 1).check(column, "column")
    columns = list(sentences.columns)
    columns[column] = [written_field(value, "predicted") for value in _flat(sentences, predicted, "predicted")]
    if confidence is not None:
        given = _flat(sentences, confidence, "confidence")
        columns[MISC] = [_with_confidence(misc, value) for misc, value in zip(columns[MISC], given, strict=True)]
    written: list[str] = []
    at = 0
    lines = ["\t".join(fields) + sentences.newline for fields in zip(*columns, strict=True)]
    for before, other in sentences.others:
        written += [*lines[at:before], other]
        at = before
    write_text(path, "".join([*written, *lines[at:]]))


def _flat(sentences: ConlluSentences, values: Iterable[Sequence[object]], name: str) -> list[object]:
    """Return one value per word; raise unless there are as many."""
    given = list(values)
    check_length(given, len(sentences), name, "sentences")
    for k, (value, length) in enumerate(zip(given, np.diff(sentences.offsets).tolist(), strict=True)):
        check_length(value, length, f"{name}[{k}]", "values")
    return list(chain.from_iterable(given))


def _with_confidence(misc: str, value: object) -> str:
    if not isinstance(value, float | np.floating):
        raise InputError("confidence", value, "a probability")
    kept = [] if misc == "_" else [part for part in misc.split("|") if not part.startswith(CONFIDENCE)]
    return "|".join([*kept, f"{CONFIDENCE}{value:.4f}"])
