"""The best candidate of each example, where all examples have the same candidates (y, h).

Scores are laid out candidate by candidate, (C, n): the examples of one candidate lie side by side.
"""

import numpy as np

from latentstruct.kernels.jit import njit


@njit
def best_candidates(scores, labels, extra, truth, winners, values):
    """values[i] = max_c scores[c, i] + extra[truth[i], labels[c]]; winners[i] is the first c that reaches it."""
    n_candidates, n = scores.shape
    for i in range(n):
        winners[i] = 0
        values[i] = -np.inf
    for c in range(n_candidates):
        for i in range(n):
            height = scores[c, i] + extra[truth[i], labels[c]]
            # Stored whether it is better or not: a branch that nobody can foresee costs more.
            better = height > values[i]
            winners[i] = c if better else winners[i]
            values[i] = height if better else values[i]
