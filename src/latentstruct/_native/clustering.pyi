from typing import Final

import numpy as np
from numpy.typing import NDArray

from latentstruct.planes.plane import Atoms, Rows

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]

EXACT_ITEMS: Final[int]
"""Maximum number of items for optimal clusterings."""

# Layout and symbols as in native/clustering.cpp. `known` are the scores of all rows, or empty if too few pairs are
# needed; `truth` are the clusters of all items, or empty if free.

def forests(
    rows: Rows,
    row_of: NDArray[np.int32],
    known: Vector,
    w: Vector,
    documents: Indices,
    pairs: Indices,
    items: Indices,
    truth: Indices,
    mode: int,
    penalty: float,
    pointers: Indices,
    edges: Indices,
    values: Vector,
    losses: Vector,
    /,
) -> None:
    """Find the best forest of each listed document.

    The pairs that are edges of the forest are left, ascending, in edges[pointers[k]:pointers[k+1]]; values[k] is its
    score, with the loss if augmented, and losses[k] is Δ (0 in other modes). A free or augmented forest has edges of
    positive score only; a clamped one connects all of each true cluster.
    """

def spanning_tree(scores: Vector, link: Indices, height: Vector, /) -> None:
    """Grow a maximum spanning tree from item 0: v is linked to link[v], or to nothing (−1), by a score height[v]."""

def component_labels(edges: Indices, labels: Indices, /) -> int:
    """Number the components of the graph with the given edges (E, 2) by first appearance.

    Returns how many edges closed a circle: 0 for a forest.
    """

def tree_of_code(code: Indices, edges: Indices, /) -> None:
    """Turn a Prüfer code of length k − 2 into the edges (k − 1, 2) of a tree; uniform codes give uniform trees."""

def clusterings(
    rows: Rows,
    row_of: NDArray[np.int32],
    known: Vector,
    w: Vector,
    documents: Indices,
    pairs: Indices,
    items: Indices,
    truth: Indices,
    mode: int,
    labels: Indices,
    values: Vector,
    losses: Vector,
    /,
) -> None:
    """Cluster each listed document (modes free and augmented).

    The documents' labels are left one after the other in `labels`; values[k] = (1/P) Σ_{p inside} w·x_p + losses[k],
    where losses[k] is the fraction of the P pairs that are wrong (0 if free).
    """

def inside_pairs(documents: Indices, items: Indices, labels: Indices, out: Indices, /) -> None:
    """out[k] = number of pairs with equal labels in each listed document; labels as `clusterings` leaves them."""

def partition_atoms(
    rows: Rows,
    row_of: NDArray[np.int32],
    documents: Indices,
    pairs: Indices,
    items: Indices,
    labels: Indices,
    counts: Indices,
    n_features: int,
    pointers: Indices,
    atoms: Atoms,
    /,
) -> None:
    """Write the slopes (1/P) Σ_{p inside} x_p: one atom per pair, or per weight if these are fewer."""

def partition_value(scores: Vector, labels: Indices, /) -> float:
    """Return the sum of the scores of all pairs with equal labels."""

def partition_exactly(scores: Vector, labels: Indices, /) -> None:
    """Find the partition of up to 16 items with the largest value by dynamic programming over subsets."""

def merge_greedily(scores: Vector, labels: Indices, /) -> None:
    """Merge the two clusters with the largest positive sum between them, from single items until none is left."""

def move_items(scores: Vector, labels: Indices, /) -> None:
    """Move single items to the best cluster, or to a new one, while that increases the value."""
