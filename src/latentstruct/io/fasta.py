"""Sequences of DNA, RNA or proteins as FASTA, and tables of the sites found in them."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short, short_repr
from latentstruct.data.alphabets import ALPHABETS, DNA, Alphabet
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.text import NUMBER, FilePath, Source, opened_stream, source_name, write_text

if TYPE_CHECKING:
    from latentstruct.tasks.motif.sites import Site

LABEL_TEXTS = {"1": 1, "+1": 1, "positive": 1, "-1": -1, "negative": -1}
_LABEL_MARK = "label="

_ANY_LETTER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz*-."
BLOCK_BYTES = 1 << 22
"""Bytes of FASTA that are read at a time."""
STRANDS = {1: "+", -1: "-", 0: "."}
"""Strands in files; proteins have none."""
_BLANK = b"\r\n\t "
_PLACE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_SITES_HEADER = "#sequence\tstart\tend\tmotif\tscore\tstrand\tsite"


@dataclass(frozen=True)
class Sequences:
    """Named sequences of DNA or proteins.

    Parameters
    ----------
    names : list of str
        The first word of each header.
    descriptions : list of str
        The rest of each header, empty if there is none.
    sequences : list of str
        The letters of DNA with N, or of proteins with X, in upper case.

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


@dataclass(frozen=True)
class FastaRules:
    """How sequences are read.

    Parameters
    ----------
    skip_bad : bool, default=False
        Leave out records without letters or with other letters than those of the alphabet, with a warning, instead of
        raising an error.
    mask_repeats : bool, default=False
        Read letters in lower case, such as masked repeats, as unknown.
    alphabet : Alphabet
        The letters, by default those of DNA and RNA.
    """

    skip_bad: bool = False
    mask_repeats: bool = False
    alphabet: Alphabet = DNA


STRICT = FastaRules()


def read_fasta(path: FilePath, rules: FastaRules = STRICT) -> Sequences:
    """Read sequences of DNA, RNA or proteins from a FASTA file.

    A header line ``>name description`` precedes the lines of each sequence. U is read as T in RNA. Letters that stand
    for several, such as R of DNA or B of proteins, are read as N or X, with a warning that counts them. Empty lines are
    skipped. Names that occur more than once are numbered, as in ``peak``, ``peak_2``, with a warning.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.
    rules : FastaRules
        The alphabet, DNA by default, whether bad records are left out, and whether repeats are masked.

    Returns
    -------
    Sequences
        Names, descriptions and sequences in upper case.
    """
    return _collected(each_sequence(path, rules))


def read_labeled_fasta(path: FilePath, rules: FastaRules = STRICT) -> tuple[Sequences, list[int]]:
    """Read sequences whose headers state whether they contain a motif, as in ``>name label=1`` or ``label=-1``.

    The label may be anywhere after the name, written as 1, +1 or positive, or as -1 or negative. Return the sequences,
    whose descriptions include the labels, and the labels +1 and −1.
    """
    found = list(each_labeled_sequence(path, rules))
    return _collected(one for one, _ in found), [label for _, label in found]


def read_aligned_fasta(path: FilePath, labeled: bool = True) -> tuple[Sequences, list[str]]:
    """Read DNA, RNA or protein sequences of equal length, with any class in their headers, as in ``>name label=donor``.

    Letters may be in either case; gaps are - or a dot. Return the sequences as they are, and the labels unless
    `labeled` is false.
    """
    source = Source.open(path)
    sequences, labels = Sequences([], [], []), []
    for line, header, lines in fasta_records(source):
        title, _, description = header.partition(" ")
        letters = join_letters(lines, source, _ANY_LETTER, "letters, - or .", lambda letter: "")
        first = sequences.sequences[0] if len(sequences) else None
        if not letters or (first is not None and len(letters) != len(first)):
            expected = "letters" if first is None else f"{len(first)} letters, as the first sequence has"
            source.fail(Description(f"{len(letters)} letters in {repr_short(title)}"), expected, line=line)
        if labeled:
            found = [word[len(_LABEL_MARK) :] for word in description.split() if word.lower().startswith(_LABEL_MARK)]
            if len(found) != 1 or not found[0]:
                source.fail(Description(f"{len(found)} labels in {repr_short(title)}"), "one label=CLASS", line=line)
            labels.append(found[0])
        sequences.names.append(title)
        sequences.descriptions.append(description.strip())
        sequences.sequences.append(letters.decode("ascii"))
    if not len(sequences):
        raise no_sequences(source)
    return sequences, labels


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


def each_sequence(path: FilePath, rules: FastaRules = STRICT) -> Iterator[FoundSequence]:
    """Read the sequences of a FASTA file one by one; see `read_fasta`."""
    source = Source.open(path)
    names = _UniqueNames()
    alphabet = rules.alphabet
    table, ambiguous = alphabet.reading(rules.mask_repeats), (alphabet.ambiguous + alphabet.ambiguous.lower()).encode()
    expected = f"the letters of {alphabet.kinds} in either case"
    bad: list[FormatError] = []
    n_ambiguous = 0
    for line, header, lines in fasta_records(source):
        title, _, description = header.partition(" ")
        try:
            joined = join_letters(lines, source, alphabet.spelled, expected, lambda letter: _hint(letter, alphabet))
            if not joined:
                source.fail(Description("none"), f"letters of the sequence {repr_short(title)}", line=line)
        except FormatError as error:
            if not rules.skip_bad:
                raise
            bad.append(error)
            continue
        n_ambiguous += len(joined) - len(joined.translate(None, ambiguous))
        yield FoundSequence(line, names.unique(title), description.strip(), joined.translate(table).decode("ascii"))
    if not names.found and not bad:
        raise no_sequences(source)
    if not names.found:
        raise bad[0]
    _warn_of_letters(source.name, names.n_changed, n_ambiguous, alphabet)
    if bad:
        warnings.warn(f"{source.name}: {len(bad)} records left out; the first one: {bad[0]}", stacklevel=2)


class SequenceBlock(NamedTuple):
    """A part of a sequence.

    It begins at `begin`, shares its first `overlap` letters with the part before, and has letters as numbers in the
    order of the alphabet, whose size stands for all others.
    """

    name: str
    begin: int
    overlap: int
    letters: NDArray[np.uint8]


def sequence_blocks(
    path: FilePath, overlap: int, rules: FastaRules = STRICT, size: int = BLOCK_BYTES
) -> Iterator[SequenceBlock]:
    """Read FASTA in blocks of about `size` bytes, for files that do not fit into memory.

    Consecutive blocks of a sequence have `overlap` letters in common. U is read as T in RNA; letters that are not those
    of the alphabet are unknown, but those of another alphabet raise an error.
    """
    table, foreign = rules.alphabet.numbering(rules.mask_repeats), rules.alphabet.foreign
    names = _UniqueNames()
    name, begin, kept = "", 0, b""
    for at_start, piece in _pieces(path, size):
        if at_start:
            title = " ".join(piece.decode("utf-8", "replace").split()) or "sequence"
            name, begin, kept = names.unique(title.partition(" ")[0]), 0, b""
            continue
        letters = kept + piece.translate(table, _BLANK)
        if not name:
            if letters:
                raise FormatError(source_name(path), Description("letters"), "a first line that starts with '>'")
            continue
        # A few kinds of letters are left, so that this is one fast pass.
        odd = set(piece.translate(None, rules.alphabet.spelled + _BLANK)) & set(foreign)
        if odd:
            place, expected = f"{source_name(path)}, sequence {name!r}", f"the letters of {rules.alphabet.kinds}"
            raise FormatError(place, chr(min(odd)), expected, "It is a letter of other sequences.")
        yield SequenceBlock(name, begin, len(kept), np.frombuffer(letters, dtype=np.uint8))
        kept = letters[max(0, len(letters) - overlap) :]
        begin += len(letters) - len(kept)
    if not names.found:
        raise no_sequences(Source((), source_name(path)))


def _pieces(path: FilePath, size: int) -> Iterator[tuple[bool, bytes]]:
    """Yield headers, with True, and parts of the lines below them."""
    with opened_stream(path) as handle:
        # A header may be cut at the end of what is read.
        rest = b""
        while True:
            read = handle.read(size)
            text = rest + read
            rest = b""
            while text:
                if not text.startswith(b">"):
                    letters, mark, after = text.partition(b"\n>")
                    yield False, letters
                    text = mark[1:] + after
                    continue
                header, end, after = text.partition(b"\n")
                if not end and read:
                    rest = text
                    break
                yield True, header[1:]
                text = after
            if not read:
                return


class _UniqueNames:
    """Names with numbers added to those that occur again."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}
        self.n_changed = 0

    def unique(self, name: str) -> str:
        """Return a name that has not been used."""
        if name not in self.found:
            self.found[name] = 1
            return name
        self.n_changed += 1
        while (other := f"{name}_{self.found[name] + 1}") in self.found:
            self.found[name] += 1
        self.found[name] += 1
        self.found[other] = 1
        return other


def _warn_of_letters(name: str, n_renamed: int, n_ambiguous: int, alphabet: Alphabet) -> None:
    """Warn of names and letters that were changed."""
    if n_renamed:
        warnings.warn(f"{name}: {n_renamed} names occur again and were numbered, as in name_2", stacklevel=3)
    if n_ambiguous:
        example, unknown = alphabet.ambiguous[0], alphabet.unknown
        warnings.warn(f"{name}: {n_ambiguous} ambiguous letters such as {example} are read as {unknown}", stacklevel=3)


def no_sequences(source: Source) -> FormatError:
    """Return the error of a file without sequences."""
    return FormatError(source.name, Description("no sequences"), "lines '>name' followed by letters")


def each_labeled_sequence(path: FilePath, rules: FastaRules = STRICT) -> Iterator[tuple[FoundSequence, int]]:
    """Read sequences and their labels +1 and −1 one by one; see `read_labeled_fasta`."""
    source = Source((), source_name(path))
    for found in each_sequence(path, rules):
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


def _hint(letter: str, alphabet: Alphabet) -> str:
    """Return what to do about a letter that is not allowed."""
    for other in ALPHABETS.values():
        if letter.upper() in other.known:
            return f"It is a letter of the `alphabet` {other.name}."
    return f"Replace other letters with {alphabet.unknown}, or leave such records out."


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


def write_sites(path: FilePath, sites: "Iterable[Site]", motif: str = "motif") -> None:
    """Write sites as BED with a comment line and a further column: the letters of the site.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    sites : iterable of Site
        The sites; start is 0-based and end is one past the last letter.
    motif : str, default="motif"
        Name of the motif, the fourth column.
    """
    write_site_groups(path, {motif: sites})


def write_site_groups(path: FilePath, groups: "Mapping[str, Iterable[Site]]") -> None:
    """Write the sites of several motifs, given by their names; see `write_sites`."""
    lines = [_SITES_HEADER]
    for motif, sites in groups.items():
        for found in sites:
            if any(mark in found.sequence for mark in "\t\r\n"):
                raise InputError("sites", found.sequence, "sites of sequences whose names have no tabs and line breaks")
            place = (found.sequence, found.start, found.end, motif)
            cells = (*place, f"{found.score:.6g}", found.sign, found.site)
            lines.append("\t".join(map(str, cells)))
    write_text(path, "\n".join([*lines, ""]))


def read_sites(path: FilePath) -> "list[Site]":
    """Read a table of sites as written by `write_sites`."""
    return [site for _, site in read_named_sites(path)]


def read_named_sites(path: FilePath) -> "list[tuple[str, Site]]":
    """Read a table of sites as written by `write_sites`, with the names of their motifs."""
    from latentstruct.tasks.motif.sites import Site

    source = Source.open(path)
    sites: list[tuple[str, Site]] = []
    strands = {sign: strand for strand, sign in STRANDS.items()}
    for text in source.texts():
        if source.line == 1:
            if text != _SITES_HEADER:
                source.fail(text, f"the header {repr_short(_SITES_HEADER)}")
            continue
        cells = text.split("\t")
        numbers = zip((_PLACE, _PLACE, NUMBER), (*cells[1:3], *cells[4:5]), strict=False)
        if len(cells) != 7 or cells[5] not in strands or not all(pattern.fullmatch(cell) for pattern, cell in numbers):
            source.fail(text, "the seven columns of the header")
        sequence, start, end, motif, score, strand, letters = cells
        sites.append((motif, Site(sequence, int(start), int(end), strands[strand], float(score), letters)))
    return sites
