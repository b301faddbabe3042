"""Fair comparisons on DNA: negatives cut to look like positives, and folds that keep related sequences together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import Description, InputError

__all__ = ["Matched", "fold_groups", "gc_content", "match_negatives", "related_groups"]


def gc_content(sequence: str) -> float:
    """Return the share of G and C among the known letters of a sequence."""
    upper = sequence.upper()
    strong = upper.count("G") + upper.count("C")
    known = strong + upper.count("A") + upper.count("T")
    return strong / known if known else 0.0


class Matched(NamedTuple):
    """Negatives cut from a pool: their letters, and the numbers of the pool's sequences they were cut from."""

    sequences: list[str]
    sources: list[int]


def match_negatives(
    positives: Sequence[str], pool: Sequence[str], match_gc: bool, rng: np.random.Generator, tried: int = 50
) -> Matched:
    """Cut one negative for each positive from a pool of sequences, no sequence used twice.

    Parameters
    ----------
    positives : list of str
        The sequences to be like. One longer than all of the pool gets a negative as long as the longest left.
    pool : list of str
        The sequences to cut from.
    match_gc : bool
        Whether the G and C content is to be alike too: of all places in `tried` random sequences of the pool the one
        nearest in G and C content is taken; otherwise the place is random.
    rng : numpy.random.Generator
        Source of the choices.
    tried : int, default=50
        Sequences of the pool looked at for one positive.

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
        chosen = rng.permutation(candidates)[: tried if match_gc else 1]
        if match_gc:
            source, start = _nearest_gc(pool, chosen, size, gc_content(positives[i]))
        else:
            source = int(chosen[0])
            start = int(rng.integers(0, lengths[source] - size + 1))
        free[source] = False
        sequences[i], sources[i] = pool[source][start : start + size], source
    return Matched(sequences, sources)


def _nearest_gc(pool: Sequence[str], chosen: NDArray[np.int64], size: int, wanted: float) -> tuple[int, int]:
    """Return the sequence and the start of the part whose G and C content is nearest to what is wanted."""
    best = (np.inf, 0, 0)
    for source in chosen.tolist():
        strong = np.isin(np.frombuffer(pool[source].upper().encode("ascii"), dtype=np.uint8), list(b"GC"))
        sums = np.concatenate([[0], np.cumsum(strong)])
        away = np.abs((sums[size:] - sums[:-size]) / size - wanted)
        start = int(away.argmin())
        best = min(best, (float(away[start]), source, start))
    return best[1], best[2]


def related_groups(sequences: Sequence[str], shared: int = 20) -> NDArray[np.int64]:
    """Return a group number for each sequence, equal for those that share a word on either strand, or a chain of such.

    Parameters
    ----------
    sequences : list of str
        The sequences.
    shared : int from 1 to 31, default=20
        Length of the word.

    Returns
    -------
    array of shape (n,)
        The groups, numbered from 0 in the order of their first sequence.
    """
    parents = list(range(len(sequences)))

    def root(i: int) -> int:
        while parents[i] != i:
            parents[i] = parents[parents[i]]
            i = parents[i]
        return i

    words, owners = _words(sequences, shared)
    order = np.argsort(words, kind="stable")
    words, owners = words[order], owners[order]
    same = (words[1:] == words[:-1]) & (owners[1:] != owners[:-1])
    links = np.unique(np.column_stack([owners[:-1][same], owners[1:][same]]), axis=0)
    for a, b in links.tolist():
        low, high = sorted((root(a), root(b)))
        parents[high] = low
    return np.unique([root(i) for i in range(len(sequences))], return_inverse=True)[1]


def _words(sequences: Sequence[str], length: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the numbers of all words of a length without N, strands taken together, and whose they are."""
    found, owners = [], []
    for i, sequence in enumerate(sequences):
        numbers = _NUMBERS[np.frombuffer(sequence.upper().encode("ascii"), dtype=np.uint8)]
        count = len(numbers) - length + 1
        if count < 1:
            continue
        forward, reverse, known = (np.zeros(count, dtype=np.uint64) for _ in range(3))
        for t in range(length):
            letters = numbers[t : t + count]
            forward = (forward << np.uint64(2)) | (letters & np.uint64(3))
            reverse |= (np.uint64(3) - (letters & np.uint64(3))) << np.uint64(2 * t)
            known += letters < 4
        whole = known == length
        found.append(np.minimum(forward, reverse)[whole])
        owners.append(np.full(int(whole.sum()), i))
    if not found:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    return np.concatenate(found), np.concatenate(owners)


_NUMBERS = np.full(256, 4, dtype=np.uint64)
_NUMBERS[list(b"ACGT")] = range(4)


def fold_groups(
    groups: NDArray[np.int64], labels: NDArray[np.int64], n_folds: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return a fold for each sequence such that groups stay whole and both labels are spread evenly.

    Groups are dealt out from the largest to the smallest, each to the fold that has the fewest of the group's labels so
    far; equal ones are drawn at random.
    """
    kinds = np.unique(labels)
    held = np.zeros((n_folds, len(kinds)))
    folds = np.empty(len(groups), dtype=np.int64)
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    for k in sorted(rng.permutation(len(members)).tolist(), key=lambda k: -len(members[k])):
        counts = (labels[members[k], None] == kinds).sum(axis=0)
        alike = held @ counts
        fold = int(rng.choice(np.flatnonzero(alike == alike.min())))
        held[fold] += counts
        folds[members[k]] = fold
    return folds
