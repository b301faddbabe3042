import numpy as np
from numpy.typing import NDArray

from latentstruct.tasks.parsing.grammar import GoldTrees, Layout

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]

def best_annotations(
    trees: GoldTrees, rows: Indices, k: int, layout: Layout, w: Vector, values: Vector, chosen: Indices, /
) -> None:
    """Write the best sub-symbol of each node of the rows' trees, at the positions of the trees, and the scores."""

def pool_annotations(
    trees: GoldTrees,
    rows: Indices,
    k: int,
    layout: Layout,
    w: Vector,
    temperature: float,
    weights: Vector,
    together: bool,
    values: Vector,
    slopes: NDArray[np.float64],
    /,
) -> None:
    """Pool all sub-symbols of the rows' trees at ε > 0; add weights times expected features to slopes.

    Expected features are added to slopes[at], or all to slopes[0] if `together`; spans' features, which do not depend
    on sub-symbols, are omitted.
    """
