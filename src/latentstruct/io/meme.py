"""Motif matrices in the minimal MEME motif format, version 4."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import numbers_of
from latentstruct.data.alphabets import ALPHABETS, DNA, Alphabet, alphabet_of
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
    matrix : array of shape (width, 4) or (width, 20)
        Probabilities of A, C, G and T, or of the amino acids in alphabetical order of their letters, at each position.
    background : array of shape (4,) or (20,)
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
    def alphabet(self) -> Alphabet:
        """The letters of the columns."""
        return check_probabilities(self.matrix, "matrix")[1]

    @property
    def bits(self) -> NDArray[np.float64]:
        """Information content of each position relative to the background, in bits."""
        ratios = np.log2(np.maximum(self.matrix, 1e-300) / np.maximum(self.background, 1e-300))
        bits: NDArray[np.float64] = (self.matrix * ratios).sum(axis=1)
        return bits


def check_probabilities(values: Any, name: str) -> tuple[NDArray[np.float64], Alphabet]:
    """Return rows of letter probabilities (width, letters) and the alphabet, or raise an error that names `name`."""
    matrix = numbers_of(values, name)
    alphabet = alphabet_of(matrix.shape[1]) if matrix.ndim == 2 and len(matrix) else None
    if alphabet is None:
        shapes = " or ".join(f"(width, {one.size}) for {one.letters}" for one in ALPHABETS.values())
        raise InputError(name, Description(f"shape {matrix.shape}"), f"an array of shape {shapes}")
    if not np.isfinite(matrix).all() or (matrix < 0).any() or (np.abs(matrix.sum(axis=1) - 1) > 1e-6).any():
        raise InputError(name, values, "rows of probabilities that sum to 1")
    return matrix, alphabet


def check_background(values: Any, alphabet: Alphabet) -> NDArray[np.float64]:
    """Return frequencies of letters (letters,), or raise an error."""
    found = numbers_of(values, "background")
    if found.shape != (alphabet.size,):
        raise InputError(
            "background", Description(f"shape {found.shape}"), f"a frequency of each of {alphabet.letters}"
        )
    return check_probabilities(found[None], "background")[0][0]


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
    alphabet = motifs[0].alphabet
    letters = check_background(motifs[0].background, alphabet)
    frequencies = " ".join(f"{letter} {value:.6f}" for letter, value in zip(alphabet.letters, letters, strict=True))
    header = ["MEME version 4", "", f"ALPHABET= {alphabet.letters}", ""]
    if alphabet.strands == 2:
        header += ["strands: + -" if strands == 2 else "strands: +", ""]
    lines = [*header, "Background letter frequencies", frequencies, ""]
    for motif in motifs:
        rows, own = check_probabilities(motif.matrix, "matrix")
        if own is not alphabet:
            raise InputError("matrix", Description(f"{own.size} columns"), f"{alphabet.size}, as the first motif has")
        if not motif.name or len(motif.name.split()) != 1:
            raise InputError("name", motif.name, "one word")
        e_value = "" if motif.e_value is None else f" E= {show_significance(motif.e_value)}"
        lines.append(f"MOTIF {motif.name}")
        lines.append(f"{_MATRIX} alength= {alphabet.size} w= {len(rows)} nsites= {motif.n_sites}{e_value}")
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
    alphabet = DNA
    background = np.full(alphabet.size, 1 / alphabet.size)
    motifs: list[MemeMotif] = []
    title = ""
    for text in lines:
        if text.startswith("ALPHABET"):
            alphabet = _alphabet(source, text)
            background = np.full(alphabet.size, 1 / alphabet.size)
        elif text.startswith("Background letter frequencies"):
            background = _background(source, lines, alphabet)
        elif text.startswith("MOTIF"):
            title = text[len("MOTIF") :].strip()
            if not title:
                source.fail(text, "'MOTIF name'")
        elif text.startswith(_MATRIX):
            if not title:
                source.fail(text, "a line 'MOTIF name' before the matrix")
            stated = _E_VALUE.search(text)
            e_value = float(stated[1]) if stated and NUMBER.fullmatch(stated[1]) else None
            matrix, n_sites = _matrix(source, text, lines, alphabet)
            motifs.append(MemeMotif(title.split()[0], matrix, background, n_sites, e_value))
            title = ""
    if not motifs:
        raise FormatError(source.name, Description("no motif"), "'MOTIF name' and a matrix")
    return motifs


def _alphabet(source: Source, text: str) -> Alphabet:
    """Return the alphabet of a line such as ALPHABET= ACGU, given by its letters or its name."""
    stated = text.partition("=")[2].strip()
    for alphabet in ALPHABETS.values():
        # RNA is read as DNA.
        letters = "".join(alphabet.read_as.get(letter, letter) for letter in stated)
        if letters == alphabet.letters or stated.lower() == alphabet.name:
            return alphabet
    return source.fail(text, " or ".join(f"'ALPHABET= {alphabet.letters}'" for alphabet in ALPHABETS.values()))


def _numbers(source: Source, words: list[str], alphabet: Alphabet) -> NDArray[np.float64]:
    """Return frequencies of all letters, which sum to 1."""
    values = [float(word) for word in words if NUMBER.fullmatch(word)]
    n_letters = alphabet.size
    if len(words) != n_letters or len(values) != n_letters or min(values) < 0 or abs(sum(values) - 1) > _SUM_TOLERANCE:
        source.fail(" ".join(words), f"{n_letters} frequencies of {', '.join(alphabet.letters)} that sum to 1")
    return np.array(values) / sum(values)


def _background(source: Source, lines: Iterator[str], alphabet: Alphabet) -> NDArray[np.float64]:
    """Return the frequencies below the heading, in one or several lines."""
    words: list[str] = []
    while len(words) < 2 * alphabet.size and (text := next(lines, "")):
        words += text.split()
    letters = [alphabet.read_as.get(letter, letter) for letter in words[::2]]
    if letters != list(alphabet.letters):
        source.fail(" ".join(words), f"a frequency after each of {', '.join(alphabet.letters)}")
    return _numbers(source, words[1::2], alphabet)


def _matrix(source: Source, text: str, lines: Iterator[str], alphabet: Alphabet) -> tuple[NDArray[np.float64], int]:
    settings = dict(_SETTING.findall(text))
    for key, value in settings.items():
        if not value.isascii() or not value.isdigit() or len(value) > 9 or int(value) < 1:
            source.fail(value, f"a positive integer as {key}")
    if int(settings.get("alength", alphabet.size)) != alphabet.size:
        source.fail(settings["alength"], f"{alphabet.size} as alength, the number of letters of the alphabet")
    if "w" not in settings:
        source.fail(text, "'w= ' and the width of the matrix")
    rows = [_numbers(source, next(lines, "").split(), alphabet) for _ in range(int(settings["w"]))]
    return np.array(rows), int(settings.get("nsites", "20"))
