"""Random DNA with a planted motif."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.exceptions import InputError

_LETTERS = np.frombuffer(b"ACGT", dtype=np.uint8)


@dataclass(frozen=True)
class PlantedMotif:
    """Random sequences; the positive ones contain a mutated copy of the consensus.

    Parameters
    ----------
    X : list of str
        The sequences, positive ones first.
    Y : array of shape (n,)
        +1 and −1.
    sites : list of (int, int) or None
        Start and strand of the planted copy in each sequence, None in negative ones.
    consensus : str
        The motif before mutation.
    """

    X: list[str]
    Y: NDArray[np.int64]
    sites: list[tuple[int, int] | None]
    consensus: str

    __repr__ = short_repr


def make_planted_motif(
    n_positive: int = 200,
    n_negative: int = 200,
    length: int = 500,
    width: int = 17,
    mutation: float = 0.2,
    strands: int = 1,
    random_state: int = 0,
) -> PlantedMotif:
    """Make uniformly random sequences and plant one mutated copy of a random motif in each positive one.

    Parameters
    ----------
    n_positive, n_negative : int
        Numbers of sequences with and without the motif.
    length : int, default=500
        Letters of each sequence.
    width : int, default=17
        Letters of the motif.
    mutation : float, default=0.2
        Probability that a letter of a copy is replaced by another one.
    strands : 1 or 2, default=1
        2 if half of the copies are planted reversed and complemented.
    random_state : int, default=0
        Seed.

    Returns
    -------
    PlantedMotif
        The sequences, their labels and the positions of the motif.
    """
    least = (
        ("n_positive", n_positive, 1),
        ("n_negative", n_negative, 0),
        ("width", width, 1),
        ("length", length, width),
    )
    for name, value, low in least:
        if value < low:
            raise InputError(name, value, f"at least {low}" + (", the width" if name == "length" else ""))
    if not 0 <= mutation <= 1:
        raise InputError("mutation", mutation, "a probability")
    if strands not in (1, 2):
        raise InputError("strands", strands, "1 or 2")
    rng = np.random.default_rng(random_state)
    bases = rng.integers(0, 4, size=(n_positive + n_negative, length), dtype=np.uint8)
    consensus = rng.integers(0, 4, size=width, dtype=np.uint8)
    changed = rng.random((n_positive, width)) < mutation
    copies = (consensus + changed * rng.integers(1, 4, size=changed.shape, dtype=np.uint8)) % 4
    mirrored = (rng.random(n_positive) < 0.5) & (strands == 2)
    copies[mirrored] = 3 - copies[mirrored, ::-1]
    starts = rng.integers(0, length - width + 1, size=n_positive)
    bases[np.arange(n_positive)[:, None], starts[:, None] + np.arange(width)] = copies
    sites: list[tuple[int, int] | None] = [
        (start, -1 if mirror else 1) for start, mirror in zip(starts.tolist(), mirrored.tolist(), strict=True)
    ]
    return PlantedMotif(
        [line.tobytes().decode("ascii") for line in _LETTERS[bases]],
        np.repeat([1, -1], [n_positive, n_negative]),
        sites + [None] * n_negative,
        _LETTERS[consensus].tobytes().decode("ascii"),
    )
