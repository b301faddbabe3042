"""Documents with mentions and clusters: CoNLL-2012 columns and LitBank's standoff files.

A mention is a span of one sentence; a cluster is the mentions of one thing. Every mention has exactly one cluster.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from latentstruct.data.documents import Document, Mention, OtherColumns
from latentstruct.exceptions import InputError
from latentstruct.io.text import STANDARD_STREAM, FilePath, Source, path_text, show, write_text

_BEGIN = re.compile(r"#begin document\s+(?P<name>.*)", re.ASCII)
_PART = re.compile(r";\s*part\s+(?P<part>[0-9]{1,9})", re.ASCII)
_POSITION = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_BRACKET = re.compile(r"(?P<open>\()?(?P<cluster>[^()|\s]+)(?P<close>\))?")
_SPACED = re.compile(r"(?P<before>\s*(?:\S+\s+){3})(?P<word>\S+)")
_BLANKS = " \t\n\r\f\v"
_NOTHING = frozenset({"", "-", "_", "*"})
_FEWEST_COLUMNS = 5
_FOLDERS_NAMED, _FOLDERS_VISITED = 3, 1000
_EMPTY_COLUMNS = 8


class _Open(NamedTuple):
    """A bracket that waits to be closed."""

    start: int
    line: int


class _Reader:
    """Collects the sentences and mentions of CoNLL-2012 documents, line by line."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.documents: list[Document] = []
        self.begun: tuple[str, int, int] | None = None
        self._clear()

    def _clear(self) -> None:
        self.sentences: list[list[str]] = []
        self.words: list[str] = []
        self.others = OtherColumns([], [])
        self.columns: tuple[list[str], list[str]] = [], []
        # Most lines of a document say the same beside the word: such texts are kept once.
        self.texts: dict[str, str] = {}
        self.found: list[tuple[Mention, int]] = []
        self.open: dict[str, list[_Open]] = {}

    def begin(self, text: str) -> None:
        self.end()
        name, part = _document_name(text)
        if not name:
            self.source.fail(
                f"found {show(text)}; expected a line like '#begin document (name); part 000': name the document"
            )
        self.begun = name, part, self.source.line

    def word(self, text: str) -> None:
        columns = text.split("\t") if "\t" in text else text.split()
        if self.begun is None:
            self.source.fail(
                f"found {show(text)} before any document; expected '#begin document (name); part 000' first: add the "
                "line, and check that this is a CoNLL-2012 file"
            )
        if len(columns) < _FEWEST_COLUMNS:
            self.source.fail(
                f"found {len(columns)} columns; expected at least {_FEWEST_COLUMNS}, with the word in the fourth and "
                "the clusters in the last: use the CoNLL-2012 columns"
            )
        if not columns[3].strip():
            self.source.fail("the word in the fourth column is empty; expected a word: correct the line")
        position = len(self.words)
        self.words.append(columns[3])
        for side, kept in zip(_beside_word(text, columns), self.columns, strict=True):
            kept.append(self.texts.setdefault(side, side))
        brackets = columns[-1].strip()
        if brackets not in _NOTHING:
            for bracket in brackets.split("|"):
                self._bracket(bracket, position)

    def _bracket(self, bracket: str, position: int) -> None:
        match = _BRACKET.fullmatch(bracket)
        if match is None or not (match["open"] or match["close"]):
            self.source.fail(
                f"found {show(bracket)} in the last column; expected brackets like '(3', '3)' or '(3)' separated by "
                "'|', or '-': correct the clusters"
            )
        waiting = self.open.setdefault(match["cluster"], [])
        if match["open"]:
            waiting.append(_Open(position, self.source.line))
        if match["close"]:
            if not waiting:
                self.source.fail(
                    f"{show(bracket)} closes a mention of cluster {match['cluster']} that was not opened in its "
                    "sentence; expected balanced brackets: correct the clusters"
                )
            opened = waiting.pop()
            mention = Mention(len(self.sentences), opened.start, position + 1, match["cluster"])
            self.found.append((mention, opened.line))

    def end_sentence(self) -> None:
        for cluster, waiting in self.open.items():
            if waiting:
                self.source.fail(
                    f"'({cluster}' opens a mention that is not closed in its sentence; expected balanced brackets: "
                    "correct the clusters",
                    line=waiting[-1].line,
                )
        if self.words:
            self.sentences.append(self.words)
            for rows, row in zip(self.others, self.columns, strict=True):
                rows.append(row)
        self.words, self.columns, self.open = [], ([], []), {}

    def end(self) -> None:
        self.end_sentence()
        if self.begun is not None:
            name, part, first = self.begun
            if not self.sentences:
                self.source.fail(f"document {show(name)} has no words; expected some: remove the document", line=first)
            mentions = _ordered(self.found, self.source)
            self.documents.append(Document(name, self.sentences, mentions, part, self.others))
        self.begun = None
        self._clear()


def _document_name(text: str) -> tuple[str, int]:
    """Return name and part of the document that a line begins, no name if it has none."""
    match = _BEGIN.fullmatch(text)
    if match is None:
        return "", 0
    name = match["name"].rstrip(_BLANKS)
    head, semicolon, tail = name.rpartition(";")
    part = _PART.fullmatch(semicolon + tail)
    name = name.removeprefix("(") if part is None else head.removeprefix("(")
    return name.removesuffix(")"), int(part["part"]) if part else 0


def _beside_word(text: str, columns: list[str]) -> tuple[str, str]:
    """Return what stands before the word of a line, and between it and the clusters, with the separators."""
    if "\t" in text:
        return "\t".join([*columns[:3], ""]), "\t".join(["", *columns[4:-1], ""])
    match = _SPACED.match(text)
    assert match is not None, "the line has enough columns"
    return match["before"], text[match.end() : text.rindex(columns[-1])]


def _ordered(found: Sequence[tuple[Mention, int]], source: Source) -> list[Mention]:
    """Return mentions in the order of the text, the outer before the inner; raise if two have the same span."""
    ordered = sorted(found, key=lambda item: (item[0].sentence, item[0].start, -item[0].end))
    for (before, _), (mention, line) in pairwise(ordered):
        if before[:3] == mention[:3]:
            source.fail(
                f"the words {mention.start + 1} to {mention.end} of sentence {mention.sentence + 1} are a mention of "
                f"cluster {show(before.cluster)} and again of {show(mention.cluster)}; expected one cluster for each "
                "mention: remove one, or join the clusters",
                line=line,
            )
    return [mention for mention, _ in ordered]


def parse_conll_coreference(source: Source) -> list[Document]:
    """Read the lines of a CoNLL-2012 file."""
    reader = _Reader(source)
    for text in source.texts():
        if text.startswith("#begin"):
            reader.begin(text)
        elif text.startswith("#end"):
            reader.end()
        elif text.startswith("#") and "\t" not in text and len(text.split()) < _FEWEST_COLUMNS:
            continue
        elif text.strip():
            reader.word(text)
        else:
            reader.end_sentence()
    reader.end()
    if not reader.documents:
        source.fail(
            "found no document; expected a line like '#begin document (name); part 000': check that this is a "
            "CoNLL-2012 file",
            line=1,
        )
    return reader.documents


def _standoff_span(fields: list[str], sentences: list[list[str]], source: Source) -> tuple[int, int, int]:
    """Return sentence, start and end of a MENTION line."""
    if not all(_POSITION.fullmatch(field) for field in fields[2:6]):
        source.fail(f"found the span {show(fields[2:6])}; expected four whole numbers: correct the line")
    sentence, start, last_sentence, last = map(int, fields[2:6])
    if sentence != last_sentence:
        source.fail(
            f"the mention begins in sentence {sentence} and ends in {last_sentence}; expected a span of one sentence: "
            "cut the mention"
        )
    if not (0 <= sentence < len(sentences) and 0 <= start <= last < len(sentences[sentence])):
        source.fail(
            f"the text has no words {start} to {last} in a sentence {sentence}; expected positions counted from 0: "
            "check that text and annotation belong together"
        )
    return sentence, start, last + 1


class _Standoff:
    """Collects the mentions and clusters of a LitBank annotation, line by line."""

    def __init__(self, sentences: list[list[str]], source: Source) -> None:
        self.sentences = sentences
        self.source = source
        self.spans: dict[str, tuple[tuple[int, int, int], str | None, int]] = {}
        self.clusters: dict[str, tuple[str, int]] = {}

    def line(self, fields: list[str]) -> None:
        number = self.source.line
        if fields[0] == "MENTION" and len(fields) >= 6:
            if fields[1] in self.spans:
                self.source.fail(f"mention {show(fields[1])} is repeated; expected distinct names: rename one")
            kind = fields[7] if len(fields) > 7 and fields[7] else None
            self.spans[fields[1]] = _standoff_span(fields, self.sentences, self.source), kind, number
        elif fields[0] == "COREF" and len(fields) >= 3:
            before, _ = self.clusters.setdefault(fields[1], (fields[2], number))
            if before != fields[2]:
                self.source.fail(
                    f"mention {show(fields[1])} has the clusters {show(before)} and {show(fields[2])}; expected one "
                    "for each mention: remove one, or join the clusters"
                )
        elif fields[0] not in ("APPOS", "COP"):
            self.source.fail(
                f"found {show(' '.join(fields))}; expected MENTION with a name and a span, or COREF with a mention's "
                "name and a cluster, separated by tabs: give LitBank's annotation"
            )

    def mentions(self) -> list[Mention]:
        for key, (_, number) in self.clusters.items():
            if key not in self.spans:
                self.source.fail(
                    f"no mention is named {show(key)}; expected a MENTION line for it: add it", line=number
                )
        if not self.spans:
            self.source.fail("found no MENTION line; expected at least one: give LitBank's annotation", line=1)
        found = []
        for key, (span, kind, number) in self.spans.items():
            cluster, _ = self.clusters.get(key, (f"#{key}", number))
            found.append((Mention(*span, cluster, kind), number))
        return _ordered(found, self.source)


def parse_litbank(annotation: Source, text: Source, name: str) -> Document:
    """Read LitBank's tab-separated annotation (MENTION and COREF lines) of a text with one sentence a line.

    Mentions without a COREF line, such as appositions and predicates (APPOS and COP lines, which are not clusters), are
    clusters of their own, as in LitBank's CoNLL files.
    """
    collected = _Standoff([line.split(" ") for line in text.texts() if line.strip()], annotation)
    for line in annotation.texts():
        if line.strip():
            collected.line(line.split("\t"))
    return Document(name, collected.sentences, collected.mentions())


def _is_conll(name: str) -> bool:
    """Tell whether a file is named as CoNLL-2012 files are."""
    stem = name.lower().removesuffix(".gz")
    return stem.endswith((".conll", "_conll"))


def _read_standoff(path: Path) -> Document:
    return parse_litbank(Source.open(path), Source.open(path.with_suffix(".txt")), path.stem)


def coreference_files(path: FilePath) -> list[str | Path]:
    """Return the files that `read_coreference` reads, annotations without their texts; raise if there are none."""
    text = path_text(path)
    if text == STANDARD_STREAM or not os.path.isdir(text):
        return [text]
    columns, standoff = _documents_in(os.listdir(text))
    if bool(columns) == bool(standoff):
        filled = [] if columns else _filled_folders(text)
        cure = "give the right folder, or one file"
        if filled:
            listed = ", ".join(filled[:_FOLDERS_NAMED]) + (", …" if len(filled) > _FOLDERS_NAMED else "")
            cure = f"sub-folders are not read, so give one that holds some: {listed}"
        raise InputError(
            f"{text} holds {len(columns)} CoNLL-2012 files (.conll, _conll) and {len(standoff)} annotations (.ann); "
            f"expected files of one of these kinds: {cure}"
        )
    return [Path(text, name) for name in columns or standoff]


def _documents_in(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of CoNLL-2012 files and of annotations in order."""
    ordered = sorted(names)
    return [name for name in ordered if _is_conll(name)], [name for name in ordered if name.lower().endswith(".ann")]


def _filled_folders(folder: str) -> list[str]:
    """Return the first folders below a folder that hold documents, at most one more than are named."""
    filled: list[str] = []
    for parent, folders, names in islice(os.walk(folder), _FOLDERS_VISITED):
        folders.sort()
        if any(_documents_in(names)):
            filled.append(parent)
        if len(filled) > _FOLDERS_NAMED:
            break
    return filled


def read_coreference(path: FilePath) -> list[Document]:
    """Read documents with their mentions and clusters.

    Parameters
    ----------
    path : str or path
        A CoNLL-2012 file (decompressed if its name ends in ``.gz``; ``-`` is standard input), a LitBank annotation
        ``.ann`` with its text ``.txt`` beside it, or a folder of files of one of these kinds, read in the order of
        their names.

    Returns
    -------
    list of Document
        The documents; the parts of a CoNLL-2012 file are documents of their own.
    """
    documents: list[Document] = []
    for name in coreference_files(path):
        if str(name).lower().endswith(".ann"):
            documents.append(_read_standoff(Path(name)))
        else:
            documents += parse_conll_coreference(Source.open(name))
    return documents


def _check_texts(document: Document) -> None:
    """Raise if names, words or other columns would not be read as they are written."""
    for value in (document.name, *(word for words in document.sentences for word in words)):
        if not value.strip() or any(character in value for character in "\t\r\n"):
            raise InputError(
                f"document {show(document.name)} has the name or word {show(value)}; expected text without tabs and "
                "line ends: replace it"
            )
    if document.others is None:
        return
    for words, *sides in zip(document.sentences, *document.others, strict=True):
        for word, before, after in zip(words, *sides, strict=True):
            line = f"{before}{word}{after}-"
            columns = line.split("\t") if "\t" in line else line.split()
            whole = "\n" not in line and len(columns) >= _FEWEST_COLUMNS and columns[3] == word
            if not whole or _beside_word(line, columns) != (before, after):
                raise InputError(
                    f"document {show(document.name)} has the word {show(word)} between {show(before)} and "
                    f"{show(after)}; expected a CoNLL-2012 line with the word in the fourth column: leave out the "
                    "other columns"
                )


def _brackets(mentions: Sequence[Mention], clusters: Sequence[int], n_words: int, name: str) -> list[str]:
    """Return the last column of one sentence.

    On each word mentions are closed before others are opened, so that spans of one cluster that share only one word
    are read back as they were. Spans that share more are read as nested, as the notation has it: if they are not, it
    cannot say so.
    """
    parts: list[list[str]] = [[] for _ in range(n_words)]
    items = sorted(zip(mentions, clusters, strict=True), key=lambda item: (item[0].start, -item[0].end))
    for mention, cluster in reversed(items):
        if mention.end - mention.start > 1:
            parts[mention.end - 1].append(f"{cluster})")
    for mention, cluster in items:
        single = mention.end - mention.start == 1
        parts[mention.start].append(f"({cluster})" if single else f"({cluster}")
    for (before, cluster), (mention, other) in combinations(items, 2):
        crossing = before.start < mention.start < before.end - 1 and mention.end > before.end
        if crossing and cluster == other:
            raise InputError(
                f"document {show(name)}: the spans {before.start}–{before.end} and {mention.start}–{mention.end} of "
                f"sentence {mention.sentence} cross and have one cluster, {cluster}, which CoNLL-2012 brackets cannot "
                "say: give one of the mentions another cluster or span"
            )
    return ["|".join(part) or "-" for part in parts]


def _document_lines(document: Document, numbers: Sequence[int]) -> Iterator[str]:
    yield f"#begin document ({document.name}); part {document.part:03d}"
    of_sentence: list[list[int]] = [[] for _ in document.sentences]
    for k, mention in enumerate(document.mentions):
        of_sentence[mention.sentence].append(k)
    for s, (words, chosen) in enumerate(zip(document.sentences, of_sentence, strict=True)):
        column = _brackets(
            [document.mentions[k] for k in chosen], [numbers[k] for k in chosen], len(words), document.name
        )
        for position, (word, brackets) in enumerate(zip(words, column, strict=True)):
            if document.others is not None:
                yield f"{document.others.before[s][position]}{word}{document.others.after[s][position]}{brackets}"
            else:
                before = (document.name, str(document.part), str(position))
                yield "\t".join([*before, word, *"_" * _EMPTY_COLUMNS, brackets])
        yield ""
    yield "#end document"


def write_coreference(path: FilePath, documents: Sequence[Document], clusters: Sequence[Any] | None = None) -> None:
    """Write documents with clusters as a CoNLL-2012 file.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    documents : sequence of Document
        The documents. The other columns of those that were read from CoNLL-2012 files are written as they were; those
        of others are ``_``.
    clusters : sequence of sequences of labels, optional
        The cluster of each mention of each document, such as `predict` returns; by default the documents' own.
        They are numbered from 0 by first appearance.

    Raises
    ------
    InputError
        If clusters and mentions do not match, or spans of one cluster cross in more than one word.
    """
    labels = [[mention.cluster for mention in document.mentions] for document in documents]
    given = labels if clusters is None else [list(y) for y in clusters]
    if [len(y) for y in given] != [len(y) for y in labels]:
        raise InputError(
            f"clusters hold {show([len(y) for y in given])} labels a document; expected "
            f"{show([len(y) for y in labels])}, one for each mention: predict the same documents"
        )
    lines: list[str] = []
    for document, y in zip(documents, given, strict=True):
        _check_texts(document)
        numbers: dict[Any, int] = {}
        lines.extend(_document_lines(document, [numbers.setdefault(label, len(numbers)) for label in y]))
    write_text(path, "".join(f"{line}\n" for line in lines))
