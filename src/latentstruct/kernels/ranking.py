"""Selection of the first documents of ranked lists, and the pairs that a ranking has in the wrong order.

Documents are flat; query i holds the documents offsets[i] … offsets[i+1].
"""

import numpy as np

from latentstruct.kernels.jit import inlined, njit


@inlined
def comes_before(scores, preferred, new, old):
    """Tell whether document `new` ranks before `old`, which was seen earlier and so wins ties."""
    if preferred[new] != preferred[old]:
        return preferred[new] > preferred[old]
    return scores[new] > scores[old]


@njit
def select_first(scores, preferred, offsets, chosen):
    """chosen[i] = the first documents of query i in their order, as flat positions; −1 behind a short list.

    Preferred documents come before all others, then the higher score decides, then the place in the list.
    chosen is (n, k).
    """
    k = chosen.shape[1]
    for i in range(offsets.shape[0] - 1):
        filled = 0
        for j in range(offsets[i], offsets[i + 1]):
            if filled == k and not comes_before(scores, preferred, j, chosen[i, k - 1]):
                continue
            place = min(filled, k - 1)
            while place > 0 and comes_before(scores, preferred, j, chosen[i, place - 1]):
                chosen[i, place] = chosen[i, place - 1]
                place -= 1
            chosen[i, place] = j
            filled = min(filled + 1, k)
        for place in range(filled, k):
            chosen[i, place] = -1


@njit
def violated_pairs(scores, grades, offsets, margin, coefficients, counts):
    """Sum up the pairs (a, b) of each query with grade_a > grade_b and s_a − s_b < margin.

    coefficients[j] = how often document j is the b minus how often it is the a of such a pair; counts[i] = number of
    such pairs. Grades are 0 … G_i−1 within each query; the work is O(n log n + n·G_i).

    Both sweeps decide by the same difference, which rounding leaves monotone in both scores: no pair is counted for
    one of its documents only.
    """
    for i in range(offsets.shape[0] - 1):
        start, stop = offsets[i], offsets[i + 1]
        n = stop - start
        order = start + np.argsort(scores[start:stop])
        n_grades = 0
        for j in range(start, stop):
            n_grades = max(n_grades, grades[j] + 1)
        seen = np.zeros(n_grades, dtype=np.int64)
        total, nearest = 0, 0
        for place in range(n):
            b = order[place]
            while nearest < n and scores[order[nearest]] - scores[b] < margin:
                seen[grades[order[nearest]]] += 1
                nearest += 1
            above = 0
            for grade in range(grades[b] + 1, n_grades):
                above += seen[grade]
            coefficients[b] = above
            total += above
        seen[:] = 0
        nearest = n - 1
        for place in range(n - 1, -1, -1):
            a = order[place]
            while nearest >= 0 and scores[a] - scores[order[nearest]] < margin:
                seen[grades[order[nearest]]] += 1
                nearest -= 1
            for grade in range(grades[a]):
                coefficients[a] -= seen[grade]
        counts[i] = total
