"""Motif matrices in the minimal MEME motif format, version 4."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import numbers_of
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.text import NUMBER, FilePath, Source, write_text

_VERSION = re.compile(r"MEME\s+version\s+(\d+)")
_MATRIX = "letter-probability matrix:"
_SETTING = re.compile(r"(alength|w|nsites)=\s*(\S+)")
_E_VALUE = re.compile(r"\bE=\s*(\S+)")
_SUM_TOLERANCE = 0.02


@dataclass(frozen=True, eq=False)
class MemeMotif:
    """A motif of a MEME file.

    Parameters
    ----------
    name : str
        Its name.
    matrix : array of shape (width, 4)
        Probabilities of A, C, G and T at each position.
    background : array of shape (4,)
        Background frequencies of the file; uniform if it states none.
    n_sites : int
        Number of sites from which the matrix was estimated; 20 if the file does not state it, as the format defines.
    e_value : float or None, default=None
        Expected number of motifs that are as significant by chance; None if the file does not state it.
    """

    name: str
    matrix: NDArray[np.float64]
    background: NDArray[np.float64]
    n_sites: int = 20
    e_value: float | None = None

    @property
    def bits(self) -> NDArray[np.float64]:
        """Information content of each position relative to the background, in bits."""
        ratios = np.log2(np.maximum(self.matrix, 1e-300) / np.maximum(self.background, 1e-300))
        bits: NDArray[np.float64] = (self.matrix * ratios).sum(axis=1)
        return bits


def check_probabilities(values: Any, name: str, width: int | None = None) -> NDArray[np.float64]:
    """Return rows of letter probabilities (width, 4), or raise an error that names `name`."""
    matrix = numbers_of(values, name)
    if matrix.ndim != 2 or matrix.shape[1] != 4 or len(matrix) == 0 or width not in (None, len(matrix)):
        expected = f"an array of shape ({'width' if width is None else width}, 4) for the letters A, C, G, T"
        raise InputError(name, Description(f"shape {matrix.shape}"), expected)
    if not np.isfinite(matrix).all() or (matrix < 0).any() or (np.abs(matrix.sum(axis=1) - 1) > 1e-6).any():
        raise InputError(name, values, "rows of probabilities that sum to 1")
    return matrix


def show_significance(value: float) -> str:
    """Return a p-value or E-value as MEME prints it, such as 1.3e-007."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent):+04d}"


def write_meme(path: FilePath, motifs: Sequence[MemeMotif], strands: int = 1) -> None:
    """Write motifs in the minimal MEME format, which MAST, FIMO, TOMTOM and many others read.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    motifs : sequence of MemeMotif
        At least one motif; the background of the first one is written.
    strands : 1 or 2, default=1
        Number of strands on which sites were searched.
    """
    if not len(motifs):
        raise InputError("motifs", Description("none"), "at least one motif")
    letters = check_probabilities(np.asarray(motifs[0].background)[None], "background", 1)[0]
    frequencies = " ".join(f"{letter} {value:.6f}" for letter, value in zip("ACGT", letters, strict=True))
    header = ["MEME version 4", "", "ALPHABET= ACGT", "", "strands: + -" if strands == 2 else "strands: +", ""]
    lines = [*header, "Background letter frequencies", frequencies, ""]
    for motif in motifs:
        rows = check_probabilities(motif.matrix, "matrix")
        if not motif.name or len(motif.name.split()) != 1:
            raise InputError("name", motif.name, "one word")
        e_value = "" if motif.e_value is None else f" E= {show_significance(motif.e_value)}"
        lines += [f"MOTIF {motif.name}", f"{_MATRIX} alength= 4 w= {len(rows)} nsites= {motif.n_sites}{e_value}"]
        lines += [" ".join(f"{value:.6f}" for value in row) for row in rows]
        lines.append("")
    write_text(path, "\n".join(lines))


def read_meme(path: FilePath) -> list[MemeMotif]:
    """Read the motifs of a file in the minimal MEME format.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.

    Returns
    -------
    list of MemeMotif
        The motifs in the order of the file.
    """
    source = Source.open(path)
    lines = (text for line in source.texts() if (text := line.strip()))
    version = next(lines, "")
    if not _VERSION.match(version):
        source.fail(version, "'MEME version 4'")
    background = np.full(4, 0.25)
    motifs: list[MemeMotif] = []
    title = ""
    for text in lines:
        if text.startswith("ALPHABET") and text.partition("=")[2].strip() not in ("ACGT", "DNA"):
            source.fail(text, "'ALPHABET= ACGT', as only DNA motifs are supported")
        elif text.startswith("Background letter frequencies"):
            background = _background(source, next(lines, ""))
        elif text.startswith("MOTIF"):
            title = text[len("MOTIF") :].strip()
            if not title:
                source.fail(text, "'MOTIF name'")
        elif text.startswith(_MATRIX):
            if not title:
                source.fail(text, "a line 'MOTIF name' before the matrix")
            stated = _E_VALUE.search(text)
            e_value = float(stated[1]) if stated and NUMBER.fullmatch(stated[1]) else None
            matrix, n_sites = _matrix(source, text, lines)
            motifs.append(MemeMotif(title.split()[0], matrix, background, n_sites, e_value))
            title = ""
    if not motifs:
        raise FormatError(source.name, Description("no motif"), "'MOTIF name' and a matrix")
    return motifs


def _numbers(source: Source, words: list[str]) -> NDArray[np.float64]:
    """Return four frequencies that sum to 1."""
    values = [float(word) for word in words if NUMBER.fullmatch(word)]
    if len(words) != 4 or len(values) != 4 or min(values) < 0 or abs(sum(values) - 1) > _SUM_TOLERANCE:
        source.fail(" ".join(words), "frequencies of A, C, G, T that sum to 1")
    return np.array(values) / sum(values)


def _background(source: Source, text: str) -> NDArray[np.float64]:
    words = text.split()
    if words[::2] != ["A", "C", "G", "T"]:
        source.fail(text, "'A 0.25 C 0.25 G 0.25 T 0.25'")
    return _numbers(source, words[1::2])


def _matrix(source: Source, text: str, lines: Iterator[str]) -> tuple[NDArray[np.float64], int]:
    settings = dict(_SETTING.findall(text))
    for key, value in settings.items():
        if not value.isascii() or not value.isdigit() or len(value) > 9 or int(value) < 1:
            source.fail(value, f"a positive integer as {key}")
    if settings.get("alength", "4") != "4":
        source.fail(settings["alength"], "4 as alength, as only DNA motifs are supported")
    if "w" not in settings:
        source.fail(text, "'w= ' and the width of the matrix")
    rows = [_numbers(source, next(lines, "").split()) for _ in range(int(settings["w"]))]
    return np.array(rows), int(settings.get("nsites", "20"))
