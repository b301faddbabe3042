"""Substitution matrices in the NCBI format, which BLAST, EMBOSS and Biopython read."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.validation import numbers_of
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.text import NUMBER, FilePath, Source, write_text

LARGEST = 100
"""Largest absolute value in a written matrix: three digits, so that rounding errors are small."""


class SubstitutionMatrix(NamedTuple):
    """Scores of substituting one letter for another.

    Parameters
    ----------
    letters : str
        The K letters.
    scores : array of shape (K, K)
        The score of each letter of the first sequence (row) against each of the second (column).
    """

    letters: str
    scores: NDArray[np.float64]

    def __repr__(self) -> str:
        return short_repr(self)

    def restricted(self, letters: str) -> "SubstitutionMatrix":
        """Return the scores of the given letters, in their order."""
        missing = [letter for letter in letters if letter not in self.letters]
        if missing:
            raise InputError("letters", missing[0], f"letters of the matrix ({self.letters})")
        order = [self.letters.index(letter) for letter in letters]
        return SubstitutionMatrix(letters, self.scores[np.ix_(order, order)])


def _parse_header(cells: list[str], source: Source) -> str:
    for cell in cells:
        if len(cell) != 1 or NUMBER.fullmatch(cell):
            source.fail(cell, "single letters in the first row")
    for k, cell in enumerate(cells):
        if cell in cells[:k]:
            source.fail(cell, "distinct letters of columns")
    return "".join(cells)


def _parse_row(cells: list[str], letters: str, source: Source) -> list[float]:
    if cells[0] not in list(letters):
        source.fail(cells[0], f"a row that starts with one of the letters {letters}")
    if len(cells) != len(letters) + 1:
        source.fail(Description(f"{len(cells) - 1} scores"), f"{len(letters)} scores, one per letter")
    wrong = [cell for cell in cells[1:] if not NUMBER.fullmatch(cell) or not math.isfinite(float(cell))]
    if wrong:
        source.fail(wrong[0], "finite numbers as scores")
    return [float(cell) for cell in cells[1:]]


def read_ncbi_matrix(path: FilePath) -> SubstitutionMatrix:
    """Read a substitution matrix: remarks after ``#``, a row of letters, then one row of scores per letter.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.

    Returns
    -------
    SubstitutionMatrix
        The letters in the order of the columns, and the scores.
    """
    return _parse(Source.open(path))


def _parse(source: Source) -> SubstitutionMatrix:
    letters: str | None = None
    rows: dict[str, list[float]] = {}
    for line in source.texts():
        cells = line.partition("#")[0].split()
        if not cells:
            continue
        if letters is None:
            letters = _parse_header(cells, source)
            continue
        if cells[0] in rows:
            source.fail(Description(f"a second row of {cells[0]}"), "one row per letter")
        rows[cells[0]] = _parse_row(cells, letters, source)
    missing = ["any letter"] if letters is None else [letter for letter in letters if letter not in rows]
    if letters is None or missing:
        got = Description(f"no row of {missing[0]}")
        raise FormatError(source.name, got, "a row of letters and one row of scores per letter")
    return SubstitutionMatrix(letters, np.array([rows[letter] for letter in letters]))


def write_ncbi_matrix(
    path: FilePath,
    letters: str,
    scores: Any,
    gap_open: float | None = None,
    gap_extend: float | None = None,
    scale: float | None = None,
    remark: str = "",
) -> float:
    """Write a substitution matrix of integers, as most programs expect.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    letters : str
        The K letters.
    scores : array of shape (K, K)
        The scores.
    gap_open, gap_extend : float, optional
        Costs of the first and of each further letter aligned with a gap; written as remarks, scaled like the scores, in
        the terms of Biopython and, as integers, of BLAST.
    scale : float, optional
        Factor of the scores before rounding; by default the largest absolute value becomes 100.
    remark : str, default=""
        Further remarks.

    Returns
    -------
    float
        The scale.

    Raises
    ------
    InputError
        If the letters are not distinct visible characters, the scores are not finite or have another shape, or the file
        cannot be written.
    """
    values = _check_scores(letters, scores)
    gaps = [] if gap_open is None or gap_extend is None else [float(gap_open), float(gap_extend)]
    if scale is None:
        largest = max([float(np.abs(values).max()), *map(abs, gaps)])
        scale = LARGEST / largest if largest > 0 else 1.0
    if not 0 < scale < math.inf:
        raise InputError("scale", scale, "a finite number above 0 or None")
    lines = [f"# Scores of a model, multiplied by {scale:.6g} and rounded."]
    lines += [f"# {line}" for line in remark.splitlines()]
    lines += _gap_remarks(*(cost * scale for cost in gaps)) if gaps else []
    whole = np.rint(values * scale).astype(np.int64).tolist()
    width = max(2, *(len(str(number)) for row in whole for number in row))
    lines.append(" " + "".join(f" {letter:>{width}}" for letter in letters))
    for letter, row in zip(letters, whole, strict=True):
        lines.append(letter + "".join(f" {number:>{width}}" for number in row))
    write_text(path, "\n".join([*lines, ""]))
    return float(scale)


def _gap_remarks(first: float, further: float) -> list[str]:
    """Return the costs of gaps, for programs that accept fractions and for those that accept integers."""
    whole_first, whole_further = round(first), round(further)
    blast = f"gapopen {whole_first - whole_further}, gapextend {whole_further}."
    if not 0 <= whole_further <= whole_first:
        blast = "gaps that gain are not possible."
    return [
        f"# Gaps: the first letter costs {first:.6g}, each further one {further:.6g}.",
        f"# Biopython: open_gap_score = {-first:.6g}, extend_gap_score = {-further:.6g}. BLAST, rounded: {blast}",
    ]


def _check_scores(letters: str, scores: Any) -> NDArray[np.float64]:
    """Return the scores of distinct visible letters."""
    if not letters or len(set(letters)) < len(letters) or "#" in letters or letters.split() != [letters]:
        raise InputError("letters", letters, "distinct visible characters other than #")
    values, shape = numbers_of(scores, "scores"), (len(letters), len(letters))
    if values.shape != shape or not np.isfinite(values).all():
        raise InputError("scores", scores, f"finite numbers of shape {shape}, a row and a column per letter")
    return values


def blosum62() -> SubstitutionMatrix:
    """Return BLOSUM62 (Henikoff & Henikoff 1992) in half bits, as published by NCBI.

    Returns
    -------
    SubstitutionMatrix
        For the 20 amino acids, B, Z, X and the stop ``*``.
    """
    return _parse(Source.of(_BLOSUM62.encode(), "BLOSUM62"))


_BLOSUM62 = """\
   A  R  N  D  C  Q  E  G  H  I  L  K  M  F  P  S  T  W  Y  V  B  Z  X  *
A  4 -1 -2 -2  0 -1 -1  0 -2 -1 -1 -1 -1 -2 -1  1  0 -3 -2  0 -2 -1  0 -4
R -1  5  0 -2 -3  1  0 -2  0 -3 -2  2 -1 -3 -2 -1 -1 -3 -2 -3 -1  0 -1 -4
N -2  0  6  1 -3  0  0  0  1 -3 -3  0 -2 -3 -2  1  0 -4 -2 -3  3  0 -1 -4
D -2 -2  1  6 -3  0  2 -1 -1 -3 -4 -1 -3 -3 -1  0 -1 -4 -3 -3  4  1 -1 -4
C  0 -3 -3 -3  9 -3 -4 -3 -3 -1 -1 -3 -1 -2 -3 -1 -1 -2 -2 -1 -3 -3 -2 -4
Q -1  1  0  0 -3  5  2 -2  0 -3 -2  1  0 -3 -1  0 -1 -2 -1 -2  0  3 -1 -4
E -1  0  0  2 -4  2  5 -2  0 -3 -3  1 -2 -3 -1  0 -1 -3 -2 -2  1  4 -1 -4
G  0 -2  0 -1 -3 -2 -2  6 -2 -4 -4 -2 -3 -3 -2  0 -2 -2 -3 -3 -1 -2 -1 -4
H -2  0  1 -1 -3  0  0 -2  8 -3 -3 -1 -2 -1 -2 -1 -2 -2  2 -3  0  0 -1 -4
I -1 -3 -3 -3 -1 -3 -3 -4 -3  4  2 -3  1  0 -3 -2 -1 -3 -1  3 -3 -3 -1 -4
L -1 -2 -3 -4 -1 -2 -3 -4 -3  2  4 -2  2  0 -3 -2 -1 -2 -1  1 -4 -3 -1 -4
K -1  2  0 -1 -3  1  1 -2 -1 -3 -2  5 -1 -3 -1  0 -1 -3 -2 -2  0  1 -1 -4
M -1 -1 -2 -3 -1  0 -2 -3 -2  1  2 -1  5  0 -2 -1 -1 -1 -1  1 -3 -1 -1 -4
F -2 -3 -3 -3 -2 -3 -3 -3 -1  0  0 -3  0  6 -4 -2 -2  1  3 -1 -3 -3 -1 -4
P -1 -2 -2 -1 -3 -1 -1 -2 -2 -3 -3 -1 -2 -4  7 -1 -1 -4 -3 -2 -2 -1 -2 -4
S  1 -1  1  0 -1  0  0  0 -1 -2 -2  0 -1 -2 -1  4  1 -3 -2 -2  0  0  0 -4
T  0 -1  0 -1 -1 -1 -1 -2 -2 -1 -1 -1 -1 -2 -1  1  5 -2 -2  0 -1 -1  0 -4
W -3 -3 -4 -4 -2 -2 -3 -2 -2 -3 -2 -3 -1  1 -4 -3 -2 11  2 -3 -4 -3 -2 -4
Y -2 -2 -2 -3 -2 -1 -2 -3  2 -1 -1 -2 -1  3 -3 -2 -2  2  7 -1 -3 -2 -1 -4
V  0 -3 -3 -3 -1 -2 -2 -3 -3  3  1 -2  1 -1 -2 -2  0 -3 -1  4 -3 -2 -1 -4
B -2 -1  3  4 -3  0  1 -1  0 -3 -4  0 -3 -3 -2  0 -1 -4 -3 -3  4  1 -1 -4
Z -1  0  0  1 -3  3  4 -2  0 -3 -3  1 -1 -3 -1  0 -1 -3 -2 -2  1  4 -1 -4
X  0 -1 -1 -1 -2 -1 -1 -1 -1 -1 -1 -1 -1 -1 -2  0  0 -2 -1 -1 -1 -1 -1 -4
* -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4  1
"""
