"""Pairs of related proteins, aligned."""

import numpy as np

from latentstruct.cli.packing import lines_as_bytes

ALIKE = ("ILVM", "DEKR", "FWY", "STNQ", "AGPCH")
"""Groups of amino acids that substitute each other."""
N_PAIRS, LENGTH = 30, 60
CHANGED, GAPS_BEGUN, GAPS_CONTINUED = 0.5, 0.03, 0.7


def make_example(seed: int) -> bytes:
    """Return gapped FASTA: two records per pair, '-' for gaps."""
    rng = np.random.default_rng(seed)
    lines = []
    for pair in range(1, N_PAIRS + 1):
        first, second = make_pair(rng)
        lines += [f">protein{pair:02d}a", first, f">protein{pair:02d}b", second]
    return lines_as_bytes(lines)


def make_pair(rng: np.random.Generator) -> tuple[str, str]:
    """Return the rows of an alignment."""
    letters = "".join(ALIKE)
    like = {letter: group for group in ALIKE for letter in group}
    columns: list[tuple[str, str]] = []
    state = 0
    while len(columns) < LENGTH:
        draw = rng.random()
        if state:
            state = state if draw < GAPS_CONTINUED else 0
        else:
            state = int(rng.integers(1, 3)) if draw < GAPS_BEGUN else 0
        letter = letters[rng.integers(len(letters))]
        group = like[letter]
        other = group[rng.integers(len(group))] if rng.random() < CHANGED else letter
        columns.append((letter, other) if not state else (letter, "-") if state == 1 else ("-", letter))
    first, second = zip(*columns, strict=True)
    return "".join(first), "".join(second)
