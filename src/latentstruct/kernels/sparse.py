"""Products of a CSR row with feature-major weights, for kernels that are not compiled ahead of time."""

from latentstruct.kernels.jit import inlined


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
