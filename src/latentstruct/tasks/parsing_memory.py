"""Memory of the charts of parsing: warnings and errors before and after it is too much."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from latentstruct.exceptions import InputError
from latentstruct.ragged import Indices, Vector

LARGE_CHART = 2**30
"""Bytes of one sentence's chart above which there is a warning."""
LARGEST_COUNTS = 2**32
"""Bytes of one sentence's chart of counts above which it is refused."""


def warn_of_size(longest: int, n_symbols: int) -> None:
    """Warn if the chart of the longest sentence is large."""
    size = 20 * longest**2 * n_symbols
    if size > LARGE_CHART:
        warnings.warn(
            f"a sentence has {longest} words, whose chart takes {size / 2**30:.1f} GiB with the grammar's {n_symbols} "
            "symbols, and sums over trees nearly three times that: leave out or cut sentences of that length if memory "
            "is short",
            stacklevel=4,
        )


@contextmanager
def memory_errors(lengths: Indices, n_symbols: int) -> Iterator[None]:
    """Raise InputError instead of MemoryError."""
    try:
        yield
    except MemoryError as error:
        raise InputError(
            f"there is no memory for the chart of a sentence of {lengths.max()} words with the grammar's {n_symbols} "
            "symbols; expected shorter sentences: leave them out, or choose a smaller markov or fewer splits"
        ) from error


def check_counts(lengths: Indices, n_gold: Vector, n_symbols: int, most_steps: int, exact_words: int) -> None:
    """Raise InputError if the charts of counts that exact_words asks for are too large.

    Parameters
    ----------
    lengths, n_gold : ndarrays of shape (k,)
        Words and gold constituents of the sentences.
    n_symbols, most_steps : int
        Symbols of the grammar, and steps of its longest chain.
    exact_words : int
        What was asked for.
    """
    n = lengths.astype(np.float64)
    sizes = 16.0 * (n * (n + 1) / 2) * n_symbols * (n_gold + 1) * (n + (2 * n - 1) * most_steps)
    worst = int(sizes.argmax())
    if sizes[worst] > LARGEST_COUNTS:
        raise InputError(
            f"exact_words is {exact_words}, but a sentence of {lengths[worst]} words takes {sizes[worst] / 2**30:.1f} "
            f"GiB then; expected at most {LARGEST_COUNTS // 2**30}: choose a smaller exact_words"
        )
