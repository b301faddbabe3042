"""Pairs of sequences, aligned or not: gapped FASTA and PIR, two records per pair."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import counted, repr_short, short_repr
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.fasta import Record, fasta_records, join_letters, no_sequences, wrapped
from latentstruct.io.text import FilePath, Source, write_text

GAPS = b"-."
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PIR_HEADER = re.compile(r"(?:P1|F1|DL|DC|RL|RC|N1|N3|XX);\s*(\S+)", re.ASCII)
_ROW_BYTES = LETTERS + LETTERS.lower() + GAPS
_SPACE = b" \t\v\f"


@dataclass(frozen=True)
class SequencePairs:
    """Pairs of sequences, with their alignments where these are known.

    Parameters
    ----------
    names : list of n (str, str)
        The names of both sequences of each pair.
    sequences : list of n (str, str)
        Their letters in upper case, without gaps.
    matches : list of n int arrays of shape (m_i, 2), optional
        The positions (i, j) in both sequences, from 0, that are aligned with each other, both increasing;
        None if the sequences were read without an alignment.
    """

    names: list[tuple[str, str]]
    sequences: list[tuple[str, str]]
    matches: list[NDArray[np.int64]] | None = None

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.sequences)


class _Row(NamedTuple):
    """A record: the line of its header, its name, and its letters and gaps in both cases."""

    line: int
    name: str
    row: bytes

    @property
    def letters(self) -> str:
        """The letters in upper case, without gaps."""
        return self.row.translate(None, GAPS).upper().decode("ascii")


def _row(lines: Sequence[tuple[int, bytes]], source: Source) -> bytes:
    """Return the letters and gaps of lines without white space."""
    expected = "letters of either case and the gaps '-' and '.'"
    return join_letters(lines, source, _ROW_BYTES + _SPACE, expected, _hint).translate(None, _SPACE)


def _hint(letter: str) -> str:
    return "Remove the star at the end of a FASTA sequence." if letter == "*" else "Use X for unknown letters."


def _parse_pir(record: Record, title: str, source: Source) -> _Row:
    """Read a PIR record, whose first line is a remark and whose letters end with a star."""
    heads = []
    for number, content in record.lines[1:]:
        head, star, _ = content.partition(b"*")
        heads.append((number, head))
        if star:
            return _Row(record.line, title, _row(heads, source))
    hint = "Remove 'P1;' from the name if this is FASTA."
    got = Description(f"no end of the PIR record {repr_short(title)}")
    source.fail(got, "a line of remarks, letters and a star '*'", hint, line=record.line)


def _rows(source: Source) -> Iterator[_Row]:
    """Yield the records of a FASTA or PIR file, which must have letters."""
    for record in fasta_records(source):
        pir = _PIR_HEADER.match(record.header)
        if pir is not None:
            row = _parse_pir(record, pir[1], source)
        else:
            row = _Row(record.line, record.header.partition(" ")[0], _row(record.lines, source))
        if not row.row.translate(None, GAPS):
            source.fail(Description("none"), f"letters of the sequence {repr_short(row.name)}", line=record.line)
        yield row


def _pairs(source: Source) -> Iterator[tuple[_Row, _Row]]:
    """Yield the records in pairs."""
    first: _Row | None = None
    n_records = 0
    for row in _rows(source):
        n_records += 1
        if first is None:
            first = row
        else:
            yield first, row
            first = None
    if first is not None:
        got = Description(f"{n_records} records, the last one {repr_short(first.name)}")
        source.fail(got, "an even number of records, two per pair", line=first.line)
    if not n_records:
        raise no_sequences(source)


def _match(first: _Row, second: _Row, source: Source, lower_case: bool) -> NDArray[np.int64]:
    """Return the positions (i, j) of the aligned columns."""
    a, b = (np.frombuffer(row.row, dtype=np.uint8) for row in (first, second))
    if len(a) != len(b):
        got = Description(f"{counted(len(b), 'column')} in the row of {repr_short(second.name)}")
        expected = f"{counted(len(a), 'column')} as in the row of {repr_short(first.name)} in line {first.line}"
        source.fail(got, expected, "Fill rows with gaps '-'.", line=second.line)
    letters = [(row != ord("-")) & (row != ord(".")) for row in (a, b)]
    aligned = letters[0] & letters[1]
    if not lower_case:
        aligned = aligned & (a < ord("a")) & (b < ord("a"))
    return np.stack([np.cumsum(seen)[aligned] - 1 for seen in letters], axis=1).astype(np.int64)


def parse_alignments(source: Source, lower_case: bool = False) -> SequencePairs:
    """Read aligned pairs from lines; see `read_alignments`."""
    names: list[tuple[str, str]] = []
    sequences: list[tuple[str, str]] = []
    matches: list[NDArray[np.int64]] = []
    for first, second in _pairs(source):
        names.append((first.name, second.name))
        sequences.append((first.letters, second.letters))
        matches.append(_match(first, second, source, lower_case))
    if not any(map(len, matches)):
        kind, hint = ("", None) if lower_case else ("upper-case ", "Set `lower_case` to use lower-case columns too.")
        raise FormatError(source.name, Description("none"), f"a column with two {kind}letters", hint)
    return SequencePairs(names, sequences, matches)


def read_alignments(path: FilePath, lower_case: bool = False) -> SequencePairs:
    """Read aligned pairs from a file of gapped FASTA or PIR records, two per pair.

    Both rows of a pair have the same number of columns; ``-`` and ``.`` are gaps. A column of two upper-case letters
    is aligned. The alignment of lower-case letters is unknown, as in the reference alignments of PREFAB, BAliBASE and
    others.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.
    lower_case : bool, default=False
        Whether columns with lower-case letters count as aligned too.

    Returns
    -------
    SequencePairs
        With matches.
    """
    return parse_alignments(Source.open(path), lower_case)


def read_sequence_pairs(path: FilePath) -> SequencePairs:
    """Read pairs of sequences that are to be aligned from a file of FASTA or PIR records, two per pair.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. Gaps are ignored, so an aligned
        file can be used.

    Returns
    -------
    SequencePairs
        Without matches.
    """
    found = list(_pairs(Source.open(path)))
    return SequencePairs([(a.name, b.name) for a, b in found], [(a.letters, b.letters) for a, b in found])


def read_tracks(path: FilePath) -> dict[str, str]:
    """Read one state per letter of named sequences, such as secondary structure, from a FASTA file.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. Each record has the name of a
        sequence and a visible ASCII character per letter; ``-`` and ``.`` are states like others.

    Returns
    -------
    dict of str to str
        The states by the name of the sequence.
    """
    source = Source.open(path)
    tracks: dict[str, str] = {}
    for record in fasta_records(source):
        title = record.header.partition(" ")[0]
        parts = []
        for number, content in record.lines:
            row = content.translate(None, _SPACE)
            if any(not 33 <= byte <= 126 for byte in row):
                source.fail(row, "visible ASCII characters, one per letter", line=number)
            parts.append(row)
        states = b"".join(parts).decode("ascii")
        if tracks.setdefault(title, states) != states:
            source.fail(title, "one record per sequence", line=record.line)
    if not tracks:
        raise FormatError(source.name, Description("no records"), "lines '>name' followed by states")
    return tracks


def gapped_rows(sequences: tuple[str, str], matches: Any) -> tuple[str, str]:
    """Return an alignment as two rows of the same length, with ``-`` for gaps.

    Between aligned letters, those of the first sequence that face gaps precede those of the second. The matches of
    shape (m, 2) are aligned positions, both columns strictly increasing; others raise an InputError.
    """
    found = np.asarray(matches, dtype=np.int64).reshape(-1, 2)
    ends = np.array([[len(sequence) for sequence in sequences]])
    path = np.concatenate([[[-1, -1]], found, ends])
    if (np.diff(path, axis=0) <= 0).any():
        lengths = f"{len(sequences[0])} and {len(sequences[1])}"
        raise InputError("matches", found.tolist(), f"positions below {lengths} that increase in both columns from 0")
    first, second = sequences
    rows: tuple[list[str], list[str]] = ([], [])
    for (i, j), (next_i, next_j) in zip(path[:-1].tolist(), path[1:].tolist(), strict=True):
        skipped = first[i + 1 : next_i], second[j + 1 : next_j]
        rows[0].append(skipped[0] + "-" * len(skipped[1]) + first[next_i : next_i + 1])
        rows[1].append("-" * len(skipped[0]) + skipped[1] + second[next_j : next_j + 1])
    return "".join(rows[0]), "".join(rows[1])


def write_alignments(
    path: FilePath, pairs: SequencePairs, line_width: int = 60, notes: Sequence[str] | None = None
) -> None:
    """Write aligned pairs as gapped FASTA, two records per pair.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    pairs : SequencePairs
        With matches.
    line_width : int, default=60
        Columns per line.
    notes : sequence of n str, optional
        What follows the names of the sequences of each pair.

    Raises
    ------
    InputError
        If there are no matches, or they do not fit the sequences.
    """
    if pairs.matches is None:
        raise InputError("pairs", Description("pairs without matches"), "aligned pairs")
    lines: list[str] = []
    shown = [""] * len(pairs) if notes is None else [f" {note}" for note in notes]
    for names, sequences, matches, note in zip(pairs.names, pairs.sequences, pairs.matches, shown, strict=True):
        lines += _records_of(names, gapped_rows(sequences, matches), line_width, note)
    write_text(path, "\n".join([*lines, ""]))


def _records_of(names: Sequence[str], rows: Sequence[str], line_width: int, note: str) -> Iterator[str]:
    """Yield the lines of the records of one pair."""
    for name, row in zip(names, rows, strict=True):
        if not name or name.split() != [name]:
            raise InputError("pairs", name, "pairs whose names have no white space")
        yield f">{name}{note}"
        yield from wrapped(row, line_width)
