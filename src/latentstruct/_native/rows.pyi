import numpy as np
from numpy.typing import NDArray

from latentstruct.planes.plane import Rows

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Row pointers, features and values of a CSR matrix; no values means that all are 1.
Compressed = tuple[Indices, NDArray[np.int32], Vector]

# Start of the labels of each feature, and these labels, ascending.
Pairs = tuple[Indices, NDArray[np.int32]]

def compress_matrix(matrix: Matrix, /) -> Compressed:
    """Return row pointers, features and values of the nonzero entries of a matrix; no values if all are 1."""

def rows_times_weights(rows: Compressed, selected: Indices, weights: Matrix, out: Matrix, /) -> None:
    """out[k] = x_{selected[k]} W; weights is (d, S), out is (len(selected), S)."""

def add_rows_transposed(rows: Compressed, selected: Indices, coefficients: Matrix, out: Matrix, /) -> None:
    """Out += Σ_k x_{selected[k]}ᵀ coefficients[k]; coefficients is (len(selected), S), out is (d, S)."""

def rows_dot(rows: Rows, selected: Indices, vector: Vector, out: Vector, /) -> None:
    """out[k] = x_{selected[k]} · vector, for rows that are not scaled to several labels."""

def rows_times_pairs(rows: Compressed, selected: Indices, pairs: Pairs, weights: Vector, out: Matrix, /) -> None:
    """out[k] = x_{selected[k]} W for weights of some pairs of a feature and a label."""

def add_pairs_transposed(
    rows: Compressed, selected: Indices, pairs: Pairs, coefficients: Matrix, out: Vector, /
) -> None:
    """Out += the entries of Σ_k x_{selected[k]}ᵀ coefficients[k] of these pairs."""
