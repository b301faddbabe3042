"""Sequences to compare positive ones with: shuffled, or chosen from many to have the same length and GC content."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import motif as kernels
from latentstruct.core.validation import integer
from latentstruct.data.alphabets import DNA, Alphabet
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.motif.task import numbered_letters

__all__ = ["Matched", "describe_differences", "match_negatives", "repeat_content", "shuffle_sequences"]

LONGEST_WORD = 6
CANDIDATES = 50
"""Background sequences that are compared with each positive one by their letters."""
MOST_SHARE, MOST_LENGTH, MOST_REPEATS = 0.03, 0.1, 0.1
"""Differences of the classes that are reported: of the mean share of letters such as G and C, of the median length
relative to the larger, and of the share of letters in repeats."""


def shuffle_sequences(
    sequences: Sequence[str], k: int = 2, random_state: int = 0, alphabet: Alphabet = DNA
) -> list[str]:
    """Shuffle each sequence such that it keeps the number of each word of k letters.

    The result is drawn uniformly among all sequences with the same words (Altschul and Erickson 1985), so that it has
    the same composition but, apart from chance, no motif. Its first and last k − 1 letters are those of the original.
    The unknown letter counts as a letter.

    Parameters
    ----------
    sequences : sequence of str
        The sequences.
    k : int from 1 to 6, default=2
        Length of the words: 1 keeps letters, 2 keeps dinucleotides.
    random_state : int, default=0
        Random seed.
    alphabet : Alphabet
        The letters of the sequences, by default those of DNA.

    Returns
    -------
    list of str
        The shuffled sequences, in upper case and in the same order.

    Examples
    --------
    >>> from latentstruct.tasks.motif.background import shuffle_sequences
    >>> sorted(shuffle_sequences(["AACCGGTT"], k=1)[0])
    ['A', 'A', 'C', 'C', 'G', 'G', 'T', 'T']
    """
    integer(1, LONGEST_WORD).check(k, "k")
    integer(0).check(random_state, "random_state")
    bases, offsets = numbered_letters(list(sequences), alphabet, "sequences")
    shuffled = np.empty_like(bases)
    kernels.shuffle_words(bases, offsets, alphabet.size, k, random_state, shuffled)
    text = alphabet.text(shuffled)
    return [text[begin:end] for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def repeat_content(sequences: Sequence[str], alphabet: Alphabet = DNA) -> float:
    """Return the share of letters in runs of six or more that repeat one, two or three letters (microsatellites)."""
    bases, _ = numbered_letters(list(sequences), alphabet, "sequences")
    repeated = np.zeros(len(bases), dtype=bool)
    for period, least in ((1, 6), (2, 8), (3, 9)):
        same = (bases[period:] == bases[:-period]) & (bases[period:] != alphabet.size)
        # A run of matches at this distance, extended by one period, is a repeat.
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if end - begin + period >= least:
                repeated[begin : end + period] = True
    return float(repeated.mean()) if len(bases) else 0.0


def describe_differences(positive: Sequence[str], negative: Sequence[str], alphabet: Alphabet = DNA) -> list[str]:
    """Return how positive and negative sequences differ in letters, length and repeats, in words with figures.

    A model separates such classes without any motif. The list is empty if they are alike.
    """
    found = []
    parts = positive, negative
    for what, group in alphabet.contrasts.items():
        share, other = (float(np.mean([alphabet.share(sequence, group) for sequence in part])) for part in parts)
        if abs(share - other) > MOST_SHARE:
            found.append(f"{what} ({100 * share:.0f} % against {100 * other:.0f} %)")
    length, other_length = (float(np.median([len(sequence) for sequence in part])) for part in parts)
    if abs(length - other_length) > MOST_LENGTH * max(length, other_length):
        found.append(f"length (median {length:g} against {other_length:g})")
    repeats, other_repeats = (repeat_content(part, alphabet) for part in parts)
    if abs(repeats - other_repeats) > MOST_REPEATS:
        found.append(f"simple repeats ({100 * repeats:.0f} % against {100 * other_repeats:.0f} % of the letters)")
    return found


class Matched(NamedTuple):
    """Negatives cut from a pool: their letters, and the numbers of the pool's sequences they were cut from."""

    sequences: list[str]
    sources: list[int]


def match_negatives(
    positives: Sequence[str],
    pool: Sequence[str],
    group: str | None,
    rng: np.random.Generator,
    tried: int = CANDIDATES,
) -> Matched:
    """Cut one negative for each positive from a pool of sequences, no sequence used twice.

    Parameters
    ----------
    positives : list of str
        The sequences to be like. One longer than all of the pool gets a negative as long as the longest left.
    pool : list of str
        The sequences to cut from.
    group : str or None
        Letters whose share is matched too, such as "CG": of all positions in `tried` random sequences of the pool the
        one nearest in that share is taken; otherwise the position is random.
    rng : numpy.random.Generator
        Source of the choices.
    tried : int, default=50
        Sequences of the pool that are considered for one positive.

    Returns
    -------
    Matched
        Negatives in the order of the positives.
    """
    if len(pool) < len(positives):
        raise InputError(
            "pool", Description(f"{len(pool)} sequences"), f"at least {len(positives)} sequences, one per positive"
        )
    lengths = np.array([len(sequence) for sequence in pool])
    free = np.ones(len(pool), dtype=bool)
    sequences, sources = [""] * len(positives), [0] * len(positives)
    # The longest first, while there are long sequences left for them.
    for i in sorted(range(len(positives)), key=lambda i: -len(positives[i])):
        size = min(len(positives[i]), int(lengths[free].max()))
        candidates = np.flatnonzero(free & (lengths >= size))
        chosen = rng.permutation(candidates)[: 1 if group is None else tried]
        if group is None:
            source = int(chosen[0])
            start = int(rng.integers(0, lengths[source] - size + 1))
        else:
            source, start = _nearest(pool, chosen, size, group, positives[i])
        free[source] = False
        sequences[i], sources[i] = pool[source][start : start + size], source
    return Matched(sequences, sources)


def _nearest(pool: Sequence[str], chosen: NDArray[Any], size: int, group: str, positive: str) -> tuple[int, int]:
    """Return the sequence and the start of the part with the share of a group of letters nearest to that of another."""
    best = (np.inf, 0, 0)
    wanted = sum(map(positive.upper().count, group)) / len(positive)
    for source in chosen.tolist():
        inside = np.isin(np.frombuffer(pool[source].upper().encode("ascii"), dtype=np.uint8), list(group.encode()))
        sums = np.concatenate([[0], np.cumsum(inside)])
        away = np.abs((sums[size:] - sums[:-size]) / size - wanted)
        start = int(away.argmin())
        best = min(best, (float(away[start]), source, start))
    return best[1], best[2]
