import numpy as np
from numpy.typing import NDArray

from latentstruct.planes.plane import Rows

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Rows of a CSR matrix are `indptr`, `features` and `data`; no data means that all values are 1.

def compress_matrix(matrix: Matrix, /) -> tuple[Indices, NDArray[np.int32], Vector]:
    """Return row pointers, features and values of the nonzero entries of a matrix; no values if all are 1."""

def rows_times_weights(
    indptr: Indices, features: NDArray[np.int32], data: Vector, selected: Indices, weights: Matrix, out: Matrix, /
) -> None:
    """out[k] = x_{selected[k]} W; weights is (d, S), out is (len(selected), S)."""

def add_rows_transposed(
    indptr: Indices, features: NDArray[np.int32], data: Vector, selected: Indices, coefficients: Matrix, out: Matrix, /
) -> None:
    """Out += Σ_k x_{selected[k]}ᵀ coefficients[k]; coefficients is (len(selected), S), out is (d, S)."""

def rows_dot(rows: Rows, selected: Indices, vector: Vector, out: Vector, /) -> None:
    """out[k] = x_{selected[k]} · vector, for rows that are not scaled to several labels."""
