"""Motif matrices in the minimal MEME motif format, version 4."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import as_reals
from latentstruct.exceptions import FormatError, InputError
from latentstruct.io.text import NUMBER, FilePath, Source, show, write_text

_VERSION = re.compile(r"MEME\s+version\s+(\d+)")
_MATRIX = "letter-probability matrix:"
_SETTING = re.compile(r"(alength|w|nsites)=\s*(\S+)")
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
        Background frequencies of the file, uniform if it states none.
    n_sites : int
        Number of sites the matrix was made from; 20 if the file does not say, as the format has it.
    """

    name: str
    matrix: NDArray[np.float64]
    background: NDArray[np.float64]
    n_sites: int


def check_probabilities(values: Any, name: str, width: int | None = None) -> NDArray[np.float64]:
    """Return rows of letter probabilities (width, 4), or raise an error that names `name`."""
    try:
        matrix = as_reals(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers ({error}): give a row of four for each position") from error
    if matrix.ndim != 2 or matrix.shape[1] != 4 or len(matrix) == 0 or width not in (None, len(matrix)):
        raise InputError(f"{name} has shape {matrix.shape}; expected (width, 4), the letters A, C, G, T: reshape it")
    if not np.isfinite(matrix).all() or (matrix < 0).any() or (np.abs(matrix.sum(axis=1) - 1) > 1e-6).any():
        raise InputError(f"{name} has rows that are no probabilities; expected values ≥ 0 with the sum 1: normalise it")
    return matrix


def write_meme(
    path: FilePath,
    matrix: Any,
    background: Any = (0.25, 0.25, 0.25, 0.25),
    name: str = "motif",
    n_sites: int = 20,
    strands: int = 1,
) -> None:
    """Write one motif in the minimal MEME format, which MAST, FIMO, TOMTOM and many others read.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    matrix : array of shape (width, 4)
        Probabilities of A, C, G and T at each position.
    background : array of shape (4,)
        Background frequencies.
    name : str, default="motif"
        Name of the motif.
    n_sites : int, default=20
        Number of sites the matrix was made from.
    strands : 1 or 2, default=1
        Strands on which sites were looked for.
    """
    rows = check_probabilities(matrix, "matrix")
    letters = check_probabilities(np.asarray(background)[None], "background", 1)[0]
    if not name or len(name.split()) != 1:
        raise InputError(f"the motif is called {show(name)}; expected one word: choose a name without spaces")
    frequencies = " ".join(f"{letter} {value:.6f}" for letter, value in zip("ACGT", letters, strict=True))
    lines = [
        "MEME version 4",
        "",
        "ALPHABET= ACGT",
        "",
        "strands: + -" if strands == 2 else "strands: +",
        "",
        "Background letter frequencies",
        frequencies,
        "",
        f"MOTIF {name}",
        f"{_MATRIX} alength= 4 w= {len(rows)} nsites= {n_sites} E= 0",
        *(" ".join(f"{value:.6f}" for value in row) for row in rows),
        "",
    ]
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
        source.fail(f"found {show(version)}; expected 'MEME version 4': give a motif file of this format")
    background = np.full(4, 0.25)
    motifs: list[MemeMotif] = []
    title = ""
    for text in lines:
        if text.startswith("ALPHABET") and text.partition("=")[2].strip() not in ("ACGT", "DNA"):
            source.fail(
                f"found {show(text)}; expected 'ALPHABET= ACGT', as only DNA motifs are read: give a file of these"
            )
        elif text.startswith("Background letter frequencies"):
            background = _background(source, next(lines, ""))
        elif text.startswith("MOTIF"):
            title = text[len("MOTIF") :].strip()
            if not title:
                source.fail("the motif has no name; expected 'MOTIF name': name it")
        elif text.startswith(_MATRIX):
            if not title:
                source.fail("the matrix belongs to no motif; expected a line 'MOTIF name' before it: add one")
            matrix, n_sites = _matrix(source, text, lines)
            motifs.append(MemeMotif(title.split()[0], matrix, background, n_sites))
            title = ""
    if not motifs:
        raise FormatError(
            f"{source.name} holds no motif; expected 'MOTIF name' and a matrix: check that it is complete"
        )
    return motifs


def _numbers(source: Source, words: list[str]) -> NDArray[np.float64]:
    """Return four frequencies with the sum 1."""
    values = [float(word) for word in words if NUMBER.fullmatch(word)]
    if len(words) != 4 or len(values) != 4 or min(values) < 0 or abs(sum(values) - 1) > _SUM_TOLERANCE:
        source.fail(
            f"found {show(' '.join(words))}; expected the frequencies of A, C, G, T with the sum 1: correct the line"
        )
    return np.array(values) / sum(values)


def _background(source: Source, text: str) -> NDArray[np.float64]:
    words = text.split()
    if words[::2] != ["A", "C", "G", "T"]:
        source.fail(f"found {show(text)}; expected 'A 0.25 C 0.25 G 0.25 T 0.25': correct the line")
    return _numbers(source, words[1::2])


def _matrix(source: Source, text: str, lines: Iterator[str]) -> tuple[NDArray[np.float64], int]:
    settings = dict(_SETTING.findall(text))
    for key, value in settings.items():
        if not value.isascii() or not value.isdigit() or len(value) > 9 or int(value) < 1:
            source.fail(f"found {key}= {show(value)}; expected a positive whole number: correct the line")
    if settings.get("alength", "4") != "4":
        source.fail(f"found alength= {settings['alength']}; expected 4, as only DNA motifs are read: remove the motif")
    if "w" not in settings:
        source.fail("the matrix does not say its width; expected 'w= ' and a number: complete the line")
    rows = [_numbers(source, next(lines, "").split()) for _ in range(int(settings["w"]))]
    return np.array(rows), int(settings.get("nsites", "20"))
