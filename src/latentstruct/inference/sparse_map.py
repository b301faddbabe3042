"""SparseMAP: mixtures of a few outputs instead of a distribution over all, by maximization alone."""

from collections.abc import Callable

import numpy as np

from latentstruct._native.simplex_qp import solve_simplex_qp
from latentstruct.core.types import Vector

QP_STEPS = 10_000


def sparse_mixture(maximize: Callable[[Vector], Vector], scores: Vector, tolerance: float, max_outputs: int) -> Vector:
    """Return the point y of the convex hull of all outputs that maximizes ⟨s, y⟩ − ½|y|² (SparseMAP).

    An active set of at most `max_outputs` outputs grows by the best one at the present point, which `maximize` returns,
    until the relative gap is below `tolerance`; the best mixture of the set is a quadratic program over the simplex.
    """
    outputs, shares = maximize(scores)[None], np.ones(1)
    for _ in range(max_outputs):
        point = shares @ outputs
        slope = scores - point
        best = maximize(slope)
        if slope @ (best - point) <= tolerance * (1.0 + abs(scores @ point)):
            break
        kept = shares > 0
        outputs, shares = np.vstack([outputs[kept], best]), np.append(shares[kept], 0.0)
        solve_simplex_qp(outputs @ outputs.T, outputs @ scores, shares, 1e-3 * tolerance, QP_STEPS)
    return shares @ outputs
