import numpy as np
from numpy.typing import NDArray

from latentstruct.tasks.diversity import Coverage

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]

def choose(
    coverage: Coverage,
    queries: Indices,
    table: Vector,
    loss_factor: float,
    most_nodes: int,
    known: Indices,
    chosen: Indices,
    proven: NDArray[np.bool_],
    /,
) -> None:
    """Choose documents of each listed query, best first in the order of greedy choice.

    Parameters
    ----------
    coverage : Coverage
        All queries.
    queries : ndarray of shape (m,)
        Their numbers.
    table : ndarray of shape (B, T + 1)
        Benefit of a word in block b whose fraction of documents reaches t thresholds.
    loss_factor : float
        Benefit of covering a subtopic, times its weight.
    most_nodes : int
        Maximum nodes of branch and bound per query; 0 for the greedy choice.
    known : ndarray of shape (n, k) or (0, k)
        A choice per query; the result is at least as good.
    chosen : ndarray of shape (m, k)
        Receives the documents, counted from 0 in their query.
    proven : ndarray of shape (m,)
        Receives whether no choice is better.
    """

def search_to_the_end(
    coverage: Coverage, query: int, table: Vector, loss_factor: float, portion: int, chosen: Indices, /
) -> None:
    """Replace `chosen` (k,) by the best choice of a query; Ctrl-C is checked every `portion` nodes."""

def choice_features(coverage: Coverage, queries: Indices, chosen: Indices, slopes: Vector, covered: Vector, /) -> None:
    """Write Ψ(x, y) of each choice into slopes (m, d), and the weight of its subtopics into covered (m,)."""
