"""Products of CSR rows with vectors, for kernels that are not compiled ahead of time."""

import numpy as np

from latentstruct.kernels.jit import inlined

# Inner loops run over unsigned positions: a signed index costs a check for negative values at each access.
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@inlined
def row_dot(indptr, places, data, row, column, vector):
    """Return x_row · vector at the weights of `column`.

    Four sums at a time: one alone would wait for each addition to finish before the next.
    """
    shift = np.uint64(column)
    k, last = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
    a = b = c = d = 0.0
    if len(data) == 0:
        while k + FOUR <= last:
            a += vector[shift + places[k]]
            b += vector[shift + places[k + ONE]]
            c += vector[shift + places[k + TWO]]
            d += vector[shift + places[k + THREE]]
            k += FOUR
        while k < last:
            a += vector[shift + places[k]]
            k += ONE
        return (a + b) + (c + d)
    while k + FOUR <= last:
        a += data[k] * vector[shift + places[k]]
        b += data[k + ONE] * vector[shift + places[k + ONE]]
        c += data[k + TWO] * vector[shift + places[k + TWO]]
        d += data[k + THREE] * vector[shift + places[k + THREE]]
        k += FOUR
    while k < last:
        a += data[k] * vector[shift + places[k]]
        k += ONE
    return (a + b) + (c + d)


@inlined
def row_add(indptr, places, data, row, column, coefficient, vector):
    """Add coefficient · x_row to `vector` at the weights of `column`."""
    shift = np.uint64(column)
    k, last = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
    if len(data) == 0:
        while k < last:
            vector[shift + places[k]] += coefficient
            k += ONE
        return
    while k < last:
        vector[shift + places[k]] += coefficient * data[k]
        k += ONE
