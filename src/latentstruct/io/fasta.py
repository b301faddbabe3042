"""DNA sequences as FASTA, and tables of the sites found in them."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from latentstruct.core.formatting import repr_short, short_repr
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.text import NUMBER, FilePath, Source, source_name, write_text

if TYPE_CHECKING:
    from latentstruct.tasks.motif.sites import Site

LETTERS = "ACGTN"
PROTEIN_ONLY = "EFIJLOPQZ*"
AMBIGUOUS = "BDHKMRSVWY"

LABEL_TEXTS = {"1": 1, "+1": 1, "positive": 1, "-1": -1, "negative": -1}
_LABEL_MARK = "label="

_LETTER_BYTES = (LETTERS + LETTERS.lower()).encode()
_PLACE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_SITES_HEADER = "sequence\tstart\tend\tstrand\tscore\tsite"


@dataclass(frozen=True)
class Sequences:
    """Named DNA sequences.

    Parameters
    ----------
    names : list of str
        The first word of each header.
    descriptions : list of str
        The rest of each header, empty if there is none.
    sequences : list of str
        The letters A, C, G, T and N, in upper case.

    Notes
    -----
    A collection of the letters, as `Motif` expects it for X. Two of them are concatenated by +.
    """

    names: list[str]
    descriptions: list[str]
    sequences: list[str]

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.sequences)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sequences)

    def __getitem__(self, index: int) -> str:
        return self.sequences[index]

    def __add__(self, other: "Sequences") -> "Sequences":
        if not isinstance(other, Sequences):
            return NotImplemented
        return Sequences(
            self.names + other.names, self.descriptions + other.descriptions, self.sequences + other.sequences
        )

    def choose(self, wanted: Sequence[bool]) -> "Sequences":
        """Return those that are wanted."""
        return Sequences(*(list(compress(part, wanted)) for part in (self.names, self.descriptions, self.sequences)))


def read_fasta(path: FilePath) -> Sequences:
    """Read DNA sequences from a FASTA file.

    A header line ``>name description`` precedes the lines of each sequence. Letters are A, C, G, T and N of either
    case; empty lines are skipped.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.

    Returns
    -------
    Sequences
        Names, descriptions and sequences in upper case.
    """
    return _collected(each_sequence(path))


def read_labeled_fasta(path: FilePath) -> tuple[Sequences, list[int]]:
    """Read DNA sequences whose headers state whether they contain a motif, as in ``>name label=1`` or ``label=-1``.

    The label may be anywhere after the name, written as 1, +1 or positive, or as -1 or negative. Return the sequences,
    whose descriptions include the labels, and the labels +1 and −1.
    """
    found = list(each_labeled_sequence(path))
    return _collected(one for one, _ in found), [label for _, label in found]


def _collected(found: "Iterable[FoundSequence]") -> Sequences:
    """Return sequences that were read one by one."""
    sequences = Sequences([], [], [])
    for one in found:
        sequences.names.append(one.name)
        sequences.descriptions.append(one.description)
        sequences.sequences.append(one.letters)
    return sequences


def _label(description: str, title: str, source: Source) -> int:
    """Return the label in a header."""
    found = [word.partition("=")[2] for word in description.split() if word.lower().startswith(_LABEL_MARK)]
    if len(found) != 1:
        hint = None if found else "Sequences of each label may also be in a file of their own."
        got = Description(f"{len(found)} labels in the header of {repr_short(title)}")
        source.fail(got, "label=1 or label=-1 once after the name", hint)
    if found[0].lower() not in LABEL_TEXTS:
        source.fail(f"{_LABEL_MARK}{found[0]}", f"a label of {', '.join(LABEL_TEXTS)}")
    return LABEL_TEXTS[found[0].lower()]


class FoundSequence(NamedTuple):
    """A sequence of a file: the line and the words of its header, and its letters in upper case."""

    line: int
    name: str
    description: str
    letters: str


def each_sequence(path: FilePath) -> Iterator[FoundSequence]:
    """Read the sequences of a FASTA file one by one; see `read_fasta`."""
    source = Source.open(path)
    header_lines: dict[str, int] = {}
    for line, header, lines in fasta_records(source):
        title, _, description = header.partition(" ")
        joined = join_letters(lines, source, _LETTER_BYTES, f"the letters {LETTERS} of either case", _hint)
        letters = joined.upper().decode("ascii")
        if title in header_lines:
            source.fail(title, f"another name than that in line {header_lines[title]}", line=line)
        if not letters:
            source.fail(Description("none"), f"letters of the sequence {repr_short(title)}", line=line)
        header_lines[title] = line
        yield FoundSequence(line, title, description.strip(), letters)
    if not header_lines:
        raise no_sequences(source)


def no_sequences(source: Source) -> FormatError:
    """Return the error of a file without sequences."""
    return FormatError(source.name, Description("no sequences"), "lines '>name' followed by letters")


def each_labeled_sequence(path: FilePath) -> Iterator[tuple[FoundSequence, int]]:
    """Read sequences and their labels +1 and −1 one by one; see `read_labeled_fasta`."""
    source = Source((), source_name(path))
    for found in each_sequence(path):
        source.line = found.line
        yield found, _label(found.description, found.name, source)


class Record(NamedTuple):
    """A record of a file: the line and the words of its header, and the numbered lines below it."""

    line: int
    header: str
    lines: list[tuple[int, bytes]]


def fasta_records(source: Source) -> Iterator[Record]:
    """Yield the records of FASTA text: white space at line ends is removed, empty lines are kept."""
    begun: Record | None = None
    for raw in source:
        content = raw.rstrip()
        if content.startswith(b">"):
            if begun is not None:
                yield begun
            header = " ".join(source.decode(content[1:]).split())
            if not header:
                source.fail(Description("no name"), "'>name description'")
            begun = Record(source.line, header, [])
        elif begun is not None:
            begun.lines.append((source.line, content))
        elif content:
            got = content[:40].decode("utf-8", "backslashreplace")
            source.fail(got, "a first line that starts with '>'", "The name of a compressed file must end in .gz.")
    if begun is not None:
        yield begun


def join_letters(
    lines: Sequence[tuple[int, bytes]], source: Source, allowed: bytes, expected: str, hint: Callable[[str], str]
) -> bytes:
    """Return the joined lines of a record; raise if they have other letters than the allowed ones."""
    joined = b"".join([content for _, content in lines])
    if joined.translate(None, allowed):
        source.line, content = next((n, content) for n, content in lines if content.translate(None, allowed))
        column = next(i for i, byte in enumerate(content) if byte not in allowed)
        found = source.decode(content[column:])[0]
        source.fail(Description(f"{repr_short(found)} in column {column + 1}"), expected, hint(found))
    return joined


def _hint(letter: str) -> str:
    """Return what to do about a letter that is not allowed in DNA."""
    letter = letter.upper()
    if letter in PROTEIN_ONLY:
        return "Only DNA is supported, not protein."
    if letter == "U":
        return "Convert RNA to DNA: replace U with T."
    if letter in AMBIGUOUS:
        return f"Replace ambiguous letters such as {letter} with N. Protein is not supported."
    return "Replace other letters with N."


def wrapped(letters: str, line_width: int) -> list[str]:
    """Cut letters into lines."""
    if line_width < 1:
        raise InputError("line_width", line_width, "at least 1")
    return [letters[start : start + line_width] for start in range(0, len(letters), line_width)]


def write_fasta(path: FilePath, sequences: Sequences, line_width: int = 60) -> None:
    """Write sequences to a FASTA file.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    sequences : Sequences
        Names, descriptions and sequences.
    line_width : int, default=60
        Letters per line.
    """
    lines = []
    for title, description, letters in zip(sequences.names, sequences.descriptions, sequences.sequences, strict=True):
        lines.append(f">{title} {description}".rstrip())
        lines += wrapped(letters, line_width)
    write_text(path, "\n".join([*lines, ""]))


def write_sites(path: FilePath, sites: "Iterable[Site]") -> None:
    """Write sites as a table: tab-separated columns sequence, start, end, strand, score and site, with a header.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    sites : iterable of Site
        The sites; start is 0-based and end is one past the last letter, as in BED files.
    """
    lines = [_SITES_HEADER]
    for found in sites:
        if any(mark in found.sequence for mark in "\t\r\n"):
            raise InputError("sites", found.sequence, "sites of sequences whose names have no tabs and line breaks")
        strand = "+" if found.strand > 0 else "-"
        lines.append(f"{found.sequence}\t{found.start}\t{found.end}\t{strand}\t{found.score:.6g}\t{found.site}")
    write_text(path, "\n".join([*lines, ""]))


def read_sites(path: FilePath) -> "list[Site]":
    """Read a table of sites as written by `write_sites`, with at least one."""
    from latentstruct.tasks.motif.sites import Site

    source, sites = Source.open(path), []
    for text in source.texts():
        if source.line == 1:
            if text != _SITES_HEADER:
                source.fail(text, f"the header {repr_short(_SITES_HEADER)}")
            continue
        cells = text.split("\t")
        numbers = zip((_PLACE, _PLACE, NUMBER), (*cells[1:3], *cells[4:5]), strict=False)
        if len(cells) != 6 or not all(pattern.fullmatch(cell) for pattern, cell in numbers):
            source.fail(text, "the six columns of the header")
        sequence, start, end, strand, score, letters = cells
        sites.append(Site(sequence, int(start), int(end), 1 if strand == "+" else -1, float(score), letters))
    if not sites:
        raise FormatError(source.name, Description("none"), "at least one site below the header")
    return sites
