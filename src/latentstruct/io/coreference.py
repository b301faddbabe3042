"""Documents with mentions and clusters: CoNLL-2012 columns and LitBank standoff files.

A mention is a span of one sentence; a cluster is a set of mentions of one entity. A mention has exactly one cluster.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from latentstruct.core.formatting import counted, repr_short
from latentstruct.data.documents import Document, Mention, OtherColumns
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.text import STANDARD_STREAM, FilePath, Source, path_text, write_text

_BEGIN = re.compile(r"# ?begin document\s+(?P<name>.*)", re.ASCII)
_PART = re.compile(r";\s*part\s+(?P<part>[0-9]{1,9})", re.ASCII)
_POSITION = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_BRACKET = re.compile(r"(?P<open>\()?(?P<cluster>[^()|\s]+)(?P<close>\))?")
_BRACKETS = re.compile(r"\(?[^()|\s]+\)?")
_BLANKS = " \t\n\r\f\v"
_NOTHING = frozenset({"", "-", "_", "*"})
_SHORT_COLUMNS = 3
"""Columns of files with the word in the second; it is the fourth of five and more."""
_FEWEST_COLUMNS = 5
_FOLDERS_NAMED, _FOLDERS_VISITED = 3, 1000
_EMPTY_COLUMNS = 8
_FIRST_LINE = "a line such as '#begin document (name); part 000'"


class _Open(NamedTuple):
    """An open bracket."""

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
        # Most lines of a document have the same columns next to the word: such texts are stored once.
        self.texts: dict[str, str] = {}
        self.found: list[tuple[Mention, int]] = []
        self.open: dict[str, list[_Open]] = {}

    def begin(self, text: str) -> None:
        self.end()
        name, part = _document_name(text)
        if not name:
            self.source.fail(text, _FIRST_LINE)
        self.begun = name, part, self.source.line

    def leave_out(self) -> None:
        """Forget the document that has been begun."""
        self.begun = None
        self._clear()

    def word(self, text: str) -> None:
        columns = text.split("\t") if "\t" in text else text.split()
        if self.begun is None:
            self.source.fail(text, f"{_FIRST_LINE} first")
        at = _word_column(columns)
        if at is None:
            expected = f"at least {_FEWEST_COLUMNS} columns, with the word in the fourth and the clusters in the last"
            hint = "Files of three columns have the word in the second."
            self.source.fail(Description(counted(len(columns), "column")), expected, hint)
        if not columns[at].strip():
            self.source.fail(Description("an empty field"), f"a word in column {at + 1}")
        position = len(self.words)
        self.words.append(columns[at])
        for side, kept in zip(_beside_word(text, columns), self.columns, strict=True):
            kept.append(self.texts.setdefault(side, side))
        brackets = columns[-1].strip()
        if brackets not in _NOTHING:
            # Some files join the brackets of a word, as "(1(2", others separate them, as "(1|(2".
            parts = _BRACKETS.findall(brackets)
            if "".join(parts) != brackets.replace("|", ""):
                parts = brackets.split("|")
            for bracket in parts:
                self._bracket(bracket, position)

    def _bracket(self, bracket: str, position: int) -> None:
        match = _BRACKET.fullmatch(bracket)
        if match is None or not (match["open"] or match["close"]):
            self.source.fail(bracket, "'(3', '3)' or '(3)' separated by '|', or '-', in the last column")
        waiting = self.open.setdefault(match["cluster"], [])
        if match["open"]:
            waiting.append(_Open(position, self.source.line))
        if match["close"]:
            if not waiting:
                self.source.fail(bracket, "balanced brackets within a sentence")
            opened = waiting.pop()
            mention = Mention(len(self.sentences), opened.start, position + 1, match["cluster"])
            self.found.append((mention, opened.line))

    def end_sentence(self) -> None:
        for cluster, waiting in self.open.items():
            if waiting:
                self.source.fail(f"({cluster}", "balanced brackets within a sentence", line=waiting[-1].line)
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
                self.source.fail(Description("none"), f"words of document {repr_short(name)}", line=first)
            mentions = _ordered(self.found, self.source)
            self.documents.append(Document(name, self.sentences, mentions, part, self.others))
        self.begun = None
        self._clear()


def _document_name(text: str) -> tuple[str, int]:
    """Return name and part of the document that starts with a line; the name is empty if there is none."""
    match = _BEGIN.fullmatch(text)
    if match is None:
        return "", 0
    name = match["name"].rstrip(_BLANKS)
    head, semicolon, tail = name.rpartition(";")
    part = _PART.fullmatch(semicolon + tail)
    name = name.removeprefix("(") if part is None else head.removeprefix("(")
    return name.removesuffix(")"), int(part["part"]) if part else 0


def _word_column(columns: list[str]) -> int | None:
    return 3 if len(columns) >= _FEWEST_COLUMNS else (1 if len(columns) == _SHORT_COLUMNS else None)


def _beside_word(text: str, columns: list[str]) -> tuple[str, str]:
    """Return the text before the word of a line, and between it and the clusters, with the separators."""
    at = _word_column(columns)
    assert at is not None, "the line has enough columns"
    if "\t" in text:
        return "\t".join([*columns[:at], ""]), "\t".join(["", *columns[at + 1 : -1], ""])
    start = 0
    for column in columns[:at]:
        start = text.index(column, start) + len(column)
    start = text.index(columns[at], start)
    return text[:start], text[start + len(columns[at]) : text.rindex(columns[-1])]


def _ordered(found: Sequence[tuple[Mention, int]], source: Source) -> list[Mention]:
    """Return mentions in the order of the text, the outer before the inner; raise if two have the same span."""
    ordered = sorted(found, key=lambda item: (item[0].sentence, item[0].start, -item[0].end))
    for (before, _), (mention, line) in pairwise(ordered):
        if before[:3] == mention[:3]:
            span = f"words {mention.start + 1} to {mention.end} of sentence {mention.sentence + 1}"
            got = Description(f"{repr_short(before.cluster)} and {repr_short(mention.cluster)}")
            source.fail(got, f"one cluster of the mention of {span}", line=line)
    return [mention for mention, _ in ordered]


def parse_conll_coreference(source: Source, problems: list[FormatError] | None = None) -> list[Document]:
    """Read the lines of a CoNLL-2012 file; see `read_coreference`."""
    reader, left_out = _Reader(source), False

    def read(text: str | None, again: bool = False) -> None:
        nonlocal left_out
        try:
            _read_line(reader, text, left_out)
            left_out = left_out and not _begins(text)
        except FormatError as error:
            if problems is None:
                raise
            if not again or str(error) != str(problems[-1]):
                problems.append(error)
            reader.leave_out()
            left_out = True
            if _begins(text) and not again:
                # The error may be of the document before, which ends here.
                read(text, again=True)

    for text in source.texts():
        read(text)
    read(None)
    if not reader.documents and not problems:
        source.fail(Description("no document"), _FIRST_LINE, line=1)
    return reader.documents


def _begins(text: str | None) -> bool:
    return text is not None and text.startswith(("#begin", "# begin"))


def _read_line(reader: _Reader, text: str | None, left_out: bool) -> None:
    """Pass a line of a file, or its end, to a reader; lines of a document that is left out are not read."""
    if text is None or text.startswith(("#end", "# end")):
        reader.end()
    elif _begins(text):
        reader.begin(text)
    elif left_out or (text.startswith("#") and "\t" not in text and len(text.split()) < _FEWEST_COLUMNS):
        return
    elif text.strip():
        reader.word(text)
    else:
        reader.end_sentence()


def _standoff_span(fields: list[str], sentences: list[list[str]], source: Source) -> tuple[int, int, int]:
    """Return sentence, start and end of a MENTION line."""
    if not all(_POSITION.fullmatch(field) for field in fields[2:6]):
        source.fail(fields[2:6], "a span of four integers")
    sentence, start, last_sentence, last = map(int, fields[2:6])
    if sentence != last_sentence:
        source.fail(fields[2:6], "a span within one sentence")
    if not (0 <= sentence < len(sentences) and 0 <= start <= last < len(sentences[sentence])):
        source.fail(fields[2:6], "a span of words in the text, from 0", "Check that text and annotation match.")
    return sentence, start, last + 1


class _Standoff:
    """Collects the mentions and clusters of a LitBank annotation."""

    def __init__(self, sentences: list[list[str]], source: Source) -> None:
        self.sentences = sentences
        self.source = source
        self.spans: dict[str, tuple[tuple[int, int, int], str | None, int]] = {}
        self.clusters: dict[str, tuple[str, int]] = {}

    def line(self, fields: list[str]) -> None:
        number = self.source.line
        if fields[0] == "MENTION" and len(fields) >= 6:
            if fields[1] in self.spans:
                self.source.fail(fields[1], "distinct names of mentions")
            kind = fields[7] if len(fields) > 7 and fields[7] else None
            self.spans[fields[1]] = _standoff_span(fields, self.sentences, self.source), kind, number
        elif fields[0] == "COREF" and len(fields) >= 3:
            before, _ = self.clusters.setdefault(fields[1], (fields[2], number))
            if before != fields[2]:
                got = Description(f"{repr_short(before)} and {repr_short(fields[2])}")
                self.source.fail(got, f"one cluster of the mention {repr_short(fields[1])}")
        elif fields[0] not in ("APPOS", "COP"):
            expected = "MENTION with a name and a span, or COREF with a mention and a cluster, separated by tabs"
            self.source.fail(" ".join(fields), expected)

    def mentions(self) -> list[Mention]:
        for key, (_, number) in self.clusters.items():
            if key not in self.spans:
                self.source.fail(key, "the name of a MENTION line", line=number)
        if not self.spans:
            self.source.fail(Description("none"), "at least one MENTION line", line=1)
        found = []
        for key, (span, kind, number) in self.spans.items():
            cluster, _ = self.clusters.get(key, (f"#{key}", number))
            found.append((Mention(*span, cluster, kind), number))
        return _ordered(found, self.source)


def parse_litbank(annotation: Source, text: Source, name: str) -> Document:
    """Read LitBank's tab-separated annotation (MENTION and COREF lines) of a text with one sentence per line.

    Mentions without a COREF line, such as appositions and predicates (APPOS and COP lines, which are not clusters), are
    singleton clusters, as in LitBank's CoNLL files.
    """
    collected = _Standoff([line.split(" ") for line in text.texts() if line.strip()], annotation)
    for line in annotation.texts():
        if line.strip():
            collected.line(line.split("\t"))
    return Document(name, collected.sentences, collected.mentions())


def _is_conll(name: str) -> bool:
    """Return whether a file has the name of a CoNLL-2012 file."""
    stem = name.lower().removesuffix(".gz")
    return stem.endswith((".conll", "_conll"))


def _read_standoff(path: Path) -> Document:
    return parse_litbank(Source.open(path), Source.open(path.with_suffix(".txt")), path.stem)


def coreference_files(path: FilePath) -> list[str | Path]:
    """Return the files that `read_coreference` reads, annotations without texts; raise if there are none."""
    text = path_text(path)
    if text == STANDARD_STREAM or not os.path.isdir(text):
        return [text]
    columns, standoff = _documents_in(os.listdir(text))
    if bool(columns) == bool(standoff):
        filled, hint = [] if columns else _filled_folders(text), None
        if filled:
            listed = ", ".join(filled[:_FOLDERS_NAMED]) + (", …" if len(filled) > _FOLDERS_NAMED else "")
            hint = f"Subfolders are not read. Folders with documents: {listed}."
        got = Description(f"{len(columns)} and {len(standoff)} of them")
        raise FormatError(text, got, "either CoNLL-2012 files (.conll, _conll) or annotations (.ann)", hint)
    return [Path(text, name) for name in columns or standoff]


def _documents_in(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of CoNLL-2012 files and of annotations in order."""
    ordered = sorted(names)
    return [name for name in ordered if _is_conll(name)], [name for name in ordered if name.lower().endswith(".ann")]


def _filled_folders(folder: str) -> list[str]:
    """Return the first folders below a folder that contain documents, at most one more than are named."""
    filled: list[str] = []
    for parent, folders, names in islice(os.walk(folder), _FOLDERS_VISITED):
        folders.sort()
        if any(_documents_in(names)):
            filled.append(parent)
        if len(filled) > _FOLDERS_NAMED:
            break
    return filled


def read_coreference(path: FilePath, problems: list[FormatError] | None = None) -> list[Document]:
    """Read documents with their mentions and clusters.

    Parameters
    ----------
    path : str or path
        A CoNLL-2012 file (decompressed if its name ends in ``.gz``; ``-`` is standard input), a LitBank annotation
        ``.ann`` next to its text ``.txt``, or a folder of files of one of these kinds, read in the order of
        their names.
    problems : list, optional
        Documents that cannot be read are left out, and their errors are added to this list. By default the first one
        is raised.

    Returns
    -------
    list of Document
        The documents; each part of a CoNLL-2012 file is a document.
    """
    documents: list[Document] = []
    for name in coreference_files(path):
        if not str(name).lower().endswith(".ann"):
            documents += parse_conll_coreference(Source.open(name), problems)
            continue
        try:
            documents.append(_read_standoff(Path(name)))
        except FormatError as error:
            if problems is None:
                raise
            problems.append(error)
    return documents


def _check_texts(document: Document) -> None:
    """Raise if names, words or other columns would not be read back unchanged."""
    for value in (document.name, *(word for words in document.sentences for word in words)):
        if not value.strip() or any(character in value for character in "\t\r\n"):
            raise InputError("documents", value, "documents whose names and words have no tabs and line breaks")
    if document.others is None:
        return
    for words, *sides in zip(document.sentences, *document.others, strict=True):
        for word, before, after in zip(words, *sides, strict=True):
            line = f"{before}{word}{after}-"
            columns = line.split("\t") if "\t" in line else line.split()
            at = _word_column(columns)
            whole = "\n" not in line and at is not None and columns[at] == word
            if not whole or _beside_word(line, columns) != (before, after):
                got = Description(f"{repr_short(word)} between {repr_short(before)} and {repr_short(after)}")
                raise InputError("documents", got, "words in the fourth of the CoNLL-2012 columns")


def _brackets(mentions: Sequence[Mention], clusters: Sequence[int], n_words: int) -> list[str]:
    """Return the last column of one sentence.

    On each word mentions are closed before others are opened, so that spans of one cluster that share only one word
    are read back unchanged. Spans that share more words are read as nested; the notation cannot express others.
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
            spans = f"{before.start} to {before.end} and {mention.start} to {mention.end}"
            got = Description(f"the spans {spans} of sentence {mention.sentence} in one cluster")
            raise InputError("documents", got, "free of crossing mentions of one cluster")
    return ["|".join(part) or "-" for part in parts]


def _document_lines(document: Document, numbers: Sequence[int]) -> Iterator[str]:
    yield f"#begin document ({document.name}); part {document.part:03d}"
    of_sentence: list[list[int]] = [[] for _ in document.sentences]
    for k, mention in enumerate(document.mentions):
        of_sentence[mention.sentence].append(k)
    for s, (words, chosen) in enumerate(zip(document.sentences, of_sentence, strict=True)):
        column = _brackets([document.mentions[k] for k in chosen], [numbers[k] for k in chosen], len(words))
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
        The documents. The other columns of those read from CoNLL-2012 files are preserved; those of others are ``_``.
    clusters : sequence of sequences of labels, optional
        The cluster of each mention of each document, as returned by `predict`; by default those of the documents.
        They are numbered from 0 by first appearance.

    Raises
    ------
    InputError
        If clusters and mentions do not match, or spans of one cluster cross in more than one word.
    """
    labels = [[mention.cluster for mention in document.mentions] for document in documents]
    given = labels if clusters is None else [list(y) for y in clusters]
    if [len(y) for y in given] != [len(y) for y in labels]:
        got = Description(f"{repr_short([len(y) for y in given])} labels")
        raise InputError("clusters", got, f"{repr_short([len(y) for y in labels])} labels, one per mention")
    lines: list[str] = []
    for document, y in zip(documents, given, strict=True):
        _check_texts(document)
        numbers: dict[Any, int] = {}
        lines.extend(_document_lines(document, [numbers.setdefault(label, len(numbers)) for label in y]))
    write_text(path, "".join(f"{line}\n" for line in lines))
