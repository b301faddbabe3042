"""Alphabets of biological sequences: DNA and proteins."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALPHABETS", "DNA", "PROTEIN", "Alphabet", "alphabet_of"]


@dataclass(frozen=True, eq=False)
class Alphabet:
    """The letters of sequences and what is usual for them.

    Attributes
    ----------
    name : str
        Name of the alphabet, a value of `alphabet` in `Motif`.
    kinds : str
        What the sequences may be.
    letters : str
        The letters in the order of the columns of matrices. With two strands, letter k from the end is the complement
        of letter k.
    unknown : str
        The letter that stands for any.
    ambiguous : str
        Letters that are read as unknown, with a warning.
    read_as : mapping from str to str
        Letters that are read as others.
    pairs : mapping from str to str
        Letters that stand for two, by these two in alphabetical order.
    strands : 1 or 2
        Number of strands.
    order, most_order : int
        Usual and largest order of a Markov background.
    shuffled : int
        Number of letters of the words that a shuffled sequence usually keeps.
    word_lengths : tuple of int
        Lengths of the words that motifs grow from.
    contrasts : mapping from str to str
        Groups of letters whose shares are compared between classes of sequences, by their descriptions.
    colors : mapping from str to str
        Colors in logos, with the letters that have them.
    """

    name: str
    kinds: str
    letters: str
    unknown: str
    ambiguous: str
    read_as: Mapping[str, str]
    pairs: Mapping[str, str]
    strands: int
    order: int
    most_order: int
    shuffled: int
    word_lengths: tuple[int, ...]
    contrasts: Mapping[str, str]
    colors: Mapping[str, str]
    known: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "known", frozenset(self.letters + self.unknown + self.ambiguous + "".join(self.read_as))
        )

    def __repr__(self) -> str:
        return f"<alphabet {self.name}>"

    @property
    def size(self) -> int:
        """Number of letters."""
        return len(self.letters)

    @cached_property
    def spelled(self) -> bytes:
        """All letters that sequences may have, in either case."""
        upper = "".join(sorted(self.known))
        return (upper + upper.lower()).encode()

    @cached_property
    def foreign(self) -> bytes:
        """Letters of other alphabets that this one lacks, in either case."""
        found = "".join(sorted(set().union(*(other.letters for other in ALPHABETS.values())) - self.known))
        return (found + found.lower()).encode()

    @cached_property
    def numbers(self) -> NDArray[np.uint8]:
        """Numbers of letters by their bytes in either case: `size` for the unknown letter, 255 for others."""
        table = np.full(256, 255, dtype=np.uint8)
        for number, letter in enumerate(self.letters + self.unknown):
            table[[ord(letter), ord(letter.lower())]] = number
        return table

    def reading(self, masked: bool) -> bytes:
        """Return the upper-case letter, or the unknown one, by the byte that is read; `masked` hides lower case."""
        table = bytearray(self.unknown.encode() * 256)
        for letter in self.known - set(self.ambiguous):
            table[ord(letter)] = ord(self.read_as.get(letter, letter))
            if not masked:
                table[ord(letter.lower())] = table[ord(letter)]
        return bytes(table)

    def numbering(self, masked: bool) -> bytes:
        """Return the number of the letter that a byte is read as."""
        return self.numbers[np.frombuffer(self.reading(masked), dtype=np.uint8)].tobytes()

    def text(self, numbers: NDArray[np.uint8]) -> str:
        """Return numbers of letters as a string."""
        letters = np.frombuffer((self.letters + self.unknown).encode(), dtype=np.uint8)
        return letters[numbers].tobytes().decode("ascii")

    def longest_known(self, sequence: str) -> int:
        """Return the length of the longest part of a sequence without unknown letters."""
        return max(map(len, sequence.upper().split(self.unknown)))

    def share(self, sequence: str, group: str) -> float:
        """Return the share of a group of letters among the known letters of a sequence."""
        upper = sequence.upper()
        known = sum(map(upper.count, self.letters))
        return sum(map(upper.count, group)) / known if known else 0.0


DNA = Alphabet(
    "dna",
    "DNA or RNA",
    "ACGT",
    "N",
    ambiguous="RYSWKMBDHV",
    read_as={"U": "T"},
    pairs={"AC": "M", "AG": "R", "AT": "W", "CG": "S", "CT": "Y", "GT": "K"},
    strands=2,
    order=3,
    most_order=5,
    shuffled=2,
    word_lengths=(6, 7, 8),
    contrasts={"GC content": "CG"},
    colors={"#2a9d3f": "A", "#2464c4": "C", "#e8a317": "G", "#cc2b2b": "T"},
)
PROTEIN = Alphabet(
    "protein",
    "proteins",
    "ACDEFGHIKLMNPQRSTVWY",
    "X",
    ambiguous="BJOUZ*",
    read_as={},
    pairs={"DN": "B", "EQ": "Z", "IL": "J"},
    strands=1,
    order=0,
    most_order=2,
    shuffled=1,
    word_lengths=(3, 4),
    contrasts={"hydrophobic residues": "AFILMVW", "charged residues": "DEKR"},
    colors={
        "#2464c4": "AFILMVW",
        "#cc2b2b": "DE",
        "#8a3ab9": "KR",
        "#2a9d3f": "NQST",
        "#e8a317": "CGP",
        "#17889c": "HY",
    },
)
ALPHABETS = {alphabet.name: alphabet for alphabet in (DNA, PROTEIN)}


def alphabet_of(n_letters: int) -> Alphabet | None:
    """Return the alphabet with a number of letters, such as the columns of a matrix; None if there is none."""
    return next((alphabet for alphabet in ALPHABETS.values() if alphabet.size == n_letters), None)
