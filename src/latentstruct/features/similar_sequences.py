"""Groups of similar sequences, such as homologous ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentstruct.core.lazy import sparse
from latentstruct.core.types import Indices
from latentstruct.core.validation import integer, real

# Words in more sequences than this are repeats or a motif that all have; they say nothing of common descent.
COMMON = 100


def similar_sequences(sequences: Sequence[str], word: int = 10, share: float = 0.3) -> Indices:
    """Return the group of each sequence: those of a group are linked by pairs with many words in common.

    Parameters
    ----------
    sequences : sequence of n str
        Sequences of letters, such as DNA.
    word : int, default=10
        Length of the words; 4 may be better for proteins.
    share : float, default=0.3
        Fraction of the different words of the shorter sequence that two sequences must share to be linked. Two that
        have 90 % equal letters share about 0.9^`word` of them, which is 0.35.

    Returns
    -------
    ndarray of shape (n,)
        Numbers of groups, from 0 in the order of their first sequences.

    Examples
    --------
    >>> from latentstruct import similar_sequences
    >>> similar_sequences(["ACGTTGCATTAGC", "CCCATGACCTGAA", "TACGTTGCATTAG"]).tolist()
    [0, 1, 0]
    """
    integer(1).check(word, "word")
    real(0.0, 1.0).check(share, "share")
    n = len(sequences)
    numbers: dict[str, int] = {}
    rows: list[int] = []
    columns: list[int] = []
    for i, text in enumerate(sequences):
        found = {text[k : k + word] for k in range(len(text) - word + 1)}
        rows += [i] * len(found)
        columns += [numbers.setdefault(one, len(numbers)) for one in found]
    shape = (n, max(len(numbers), 1))
    has: Any = sparse.csr_array((np.ones(len(rows)), (np.array(rows, int), np.array(columns, int))), shape=shape)
    sizes, usual = has.sum(axis=1), np.asarray(has.sum(axis=0)).ravel() <= COMMON
    pairs = sparse.coo_array(has[:, np.flatnonzero(usual)] @ has[:, np.flatnonzero(usual)].T)
    linked = pairs.data >= share * np.minimum(sizes[pairs.row], sizes[pairs.col])
    return _connected(n, pairs.row[linked], pairs.col[linked])


def similar_pairs(pairs: Sequence[tuple[str, str]], word: int = 4, share: float = 0.3) -> Indices:
    """Return the group of each pair of sequences: pairs with equal or similar sequences are linked.

    Parameters
    ----------
    pairs : sequence of n (str, str)
        The letters of both sequences, such as proteins.
    word, share : int and float, default=4 and 0.3
        See `similar_sequences`.

    Returns
    -------
    ndarray of shape (n,)
        Numbers of groups, from 0.

    Examples
    --------
    >>> from latentstruct import similar_pairs
    >>> similar_pairs([("MKVLAAGIV", "MRVLSAGLV"), ("PQWNDFEYH", "PQWQDFDYH"), ("GLTKCRSNE", "MKVLAAGI")]).tolist()
    [0, 1, 0]
    """
    # Words of a sequence that is in many pairs must not count as common ones.
    places = {sequence: k for k, sequence in enumerate(dict.fromkeys(one for pair in pairs for one in pair))}
    groups = similar_sequences(list(places), word, share)
    first, second = (groups[[places[pair[k]] for pair in pairs]] for k in (0, 1))
    return np.unique(_connected(len(groups), first, second)[first], return_inverse=True)[1].astype(np.int64)


def _connected(n: int, first: Indices, second: Indices) -> Indices:
    """Return the number of the connected component of each of n nodes."""
    parent = list(range(n))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        low, high = sorted((root(i), root(j)))
        parent[high] = low
    roots = np.array([root(i) for i in range(n)], dtype=np.int64)
    return np.unique(roots, return_inverse=True)[1].astype(np.int64)
