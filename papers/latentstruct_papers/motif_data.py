"""Fair comparisons on DNA: folds that keep related sequences together."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["fold_groups", "related_groups"]


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
