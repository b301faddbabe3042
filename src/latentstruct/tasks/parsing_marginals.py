"""Probabilities of the constituents of sentences, collected from the cells of charts."""

from collections.abc import Iterable, Sequence

import numpy as np

from latentstruct.ragged import Indices, Vector
from latentstruct.trees import Constituent

LEAST_TOLD = 1e-6
"""Probability up to which a constituent is left out."""


def spans_of_cells(cells: Indices, n_words: int) -> tuple[Indices, Indices]:
    """Return the first words and the ends of cells, which are numbered by first words and then by ends.

    Parameters
    ----------
    cells : ndarray of shape (m,)
        Numbers of cells, from 0 to n(n + 1)/2 − 1.
    n_words : int
        n.
    """
    sizes = np.arange(n_words, 0, -1)
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    starts = np.searchsorted(firsts, cells, side="right") - 1
    return starts, starts + cells - firsts[starts] + 1


def probable_constituents(
    labels: Sequence[str], n_words: int, found: tuple[Indices, Indices, Vector]
) -> dict[Constituent, float]:
    """Return probabilities by constituents, the first and then the longest ones first.

    Parameters
    ----------
    labels : sequence of L str
        What labels are called.
    n_words : int
        Words of the sentence.
    found : (cells, numbers of labels, probabilities), ndarrays of shape (m,)
        What is in the chart.
    """
    cells, numbers, probabilities = found
    starts, ends = spans_of_cells(cells, n_words)
    order = np.lexsort((-ends, starts))
    columns: Iterable[tuple[int, int, int, float]] = zip(
        *(column[order].tolist() for column in (numbers, starts, ends, np.minimum(probabilities, 1.0))), strict=True
    )
    return {Constituent(labels[number], start, end): share for number, start, end, share in columns}
