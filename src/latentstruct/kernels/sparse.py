"""Products of selected rows of a CSR matrix with feature-major weights, and their transposes.

No `data` means that all values are 1.
"""

import numpy as np

from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.planes import row_dot


@inlined
def row_times_weights(indptr, indices, data, row, weights, out):
    """Out = x_row W; weights is (d, S), out is (S,)."""
    n_labels = weights.shape[1]
    out[:] = 0.0
    for entry in range(indptr[row], indptr[row + 1]):
        value = data[entry] if len(data) else 1.0
        chosen = weights[indices[entry]]
        for label in range(n_labels):
            out[label] += value * chosen[label]


@njit
def rows_times_weights(indptr, indices, data, selected, weights, out):
    """out[k] = x_{selected[k]} W; weights is (d, S), out is (len(selected), S)."""
    sums = np.empty(weights.shape[1])
    for k in range(selected.shape[0]):
        row_times_weights(indptr, indices, data, selected[k], weights, sums)
        out[k] = sums


@njit
def rows_dot(rows, selected, vector, out):
    """out[k] = x_{selected[k]} · vector, for `Rows` that are not scaled to several labels."""
    for k in range(selected.shape[0]):
        out[k] = row_dot(rows.indptr, rows.places, rows.data, selected[k], 0, vector)


@njit
def add_rows_transposed(indptr, indices, data, selected, coefficients, out):
    """Out += Σ_k x_{selected[k]}ᵀ coefficients[k]; coefficients is (len(selected), S), out is (d, S)."""
    n_labels = out.shape[1]
    for k in range(selected.shape[0]):
        row = selected[k]
        for entry in range(indptr[row], indptr[row + 1]):
            value = data[entry] if len(data) else 1.0
            feature = indices[entry]
            for label in range(n_labels):
                out[feature, label] += value * coefficients[k, label]
