"""Inputs of label × input models: a dense or CSR matrix of rows with feature-major weights (d, S)."""

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.rows import add_rows_transposed, compress_matrix, rows_dot, rows_times_weights
from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.types import Indices, offsets_from_lengths
from latentstruct.core.validation import Constraint, can_be_stacked, check_sparse, numbers_of
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Rows
from latentstruct.tasks.packing import Arrays, PackedArrays, all_finite

# Share of non-zeros below which adding up sparse rows is faster than a dense product (measured with 5375 rows).
SPARSE_BELOW = 0.28
# Share of non-zeros from which the values of a dense matrix are those of its CSR form, zeros included: no copy.
FULL_FROM = 0.8
# Number of weights that fit into a cache.
IN_CACHE = 2**19
Compressed = tuple[Indices, NDArray[np.int32], NDArray[np.float64]]
# Values between 1 / UNSCALED and UNSCALED are not changed by `rescaled`.
UNSCALED = 1e8


def is_finite_number(value: Any) -> bool:
    """Return whether a value is a real number that float64 can represent."""
    real = isinstance(value, int | float | np.integer | np.floating)
    return real and bool(abs(value) <= sys.float_info.max)


BIAS = Constraint(is_finite_number, "a finite number, 0 for none")


def check_matrix(X: Any, name: str) -> "NDArray[np.float64] | sparse.csr_array":
    """Return X as a finite two-dimensional float64 array or CSR array, or raise an error that names `name`."""
    if issparse(X):
        check_sparse(X, name)
        if X.dtype.kind == "c":
            raise InputError(name, Description("complex numbers"), "real numbers")
        matrix = X
        if type(X) is not sparse.csr_array or X.dtype != np.float64 or not _is_contiguous(X):
            matrix = sparse.csr_array(X, dtype=np.float64)
            # Views of the caller's arrays may have strides, which not all routines take.
            for part in ("data", "indices", "indptr"):
                setattr(matrix, part, np.ascontiguousarray(getattr(matrix, part)))
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        values = matrix.data
    else:
        values = matrix = np.ascontiguousarray(numbers_of(X, name, "a matrix of real numbers"))
    if matrix.ndim != 2:
        got = Description(f"shape {matrix.shape}")
        raise InputError(name, got, "two-dimensional (items, features)", "Use x.reshape(-1, 1) for a single feature.")
    if not all_finite(values):
        values = matrix.toarray() if issparse(matrix) else matrix
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InputError(name, Description(f"{values[row, column]} at row {row}, column {column}"), "finite")
    return matrix


def _is_contiguous(matrix: "sparse.csr_array") -> bool:
    return all(part.flags.c_contiguous for part in (matrix.data, matrix.indices, matrix.indptr))


def require_width(matrix: Any, n_features: int, name: str) -> None:
    """Raise unless rows have as many features as those of the training data."""
    if matrix.shape[1] != n_features:
        raise InputError(
            name, Description(f"{matrix.shape[1]} features"), f"rows with {n_features} features, as in training"
        )


def with_own_indices(matrix: Any) -> Any:
    """Return a matrix whose index arrays, if it is sparse, the caller cannot change later."""
    if not issparse(matrix):
        return matrix
    return sparse.csr_array((matrix.data, matrix.indices.copy(), matrix.indptr.copy()), matrix.shape)


def compress(matrix: Any) -> Compressed:
    """Return copies of row pointers, features and values of the CSR form; no values if all are 1."""
    if not issparse(matrix):
        return compress_matrix(matrix)
    pointers, features, data = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.copy()
    return pointers, features, np.zeros(0) if (data == 1.0).all() else data


def joined_units(matrices: "Sequence[sparse.csr_array]", name: str) -> Compressed | None:
    """Return the rows of CSR matrices of equal width if all their values are 1; None if another one is among them.

    Only index arrays are copied, and those of `joined_views` not even.
    """
    if not all(can_be_stacked(x) and x.indices.dtype == np.int32 and (x.data == 1.0).all() for x in matrices):
        return None
    pointers = offsets_from_lengths(np.concatenate([np.diff(matrix.indptr) for matrix in matrices]))
    features, shape = joined_views([x.indices for x in matrices]), (len(pointers) - 1, matrices[0].shape[1])
    # SciPy keeps both index arrays in the wider of their types.
    narrow = pointers.astype(np.int32) if pointers[-1] < 2**31 else pointers
    units = sparse.csr_array((np.ones(len(features), dtype=np.int8), features, narrow), shape)
    check_sparse(units, name)
    return (pointers, features, np.zeros(0)) if units.has_canonical_format else None


def joined_views(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays one after the other: a copy, unless they are all parts of one read-only array in their order."""
    # NumPy does not say where an empty part begins.
    filled = [x for x in arrays if len(x)]
    whole = filled[0].base if filled else None
    if isinstance(whole, np.ndarray) and not whole.flags.writeable and whole.flags.c_contiguous:
        ends = whole.ctypes.data + whole.itemsize * offsets_from_lengths(map(len, filled))
        own = [x.base is whole and x.flags.c_contiguous and x.__array_interface__["data"][0] for x in filled]
        if own == ends[:-1].tolist() and len(whole) == sum(map(len, filled)):
            return whole
    return np.concatenate(arrays)


def rescaled(matrix: Any) -> Any:
    """Return rows rescaled to ordinary size, for models that do not depend on scale but fail with values of 1e150."""
    largest = float(abs(matrix).max()) if matrix.shape[0] and matrix.shape[1] else 0.0
    return matrix if largest == 0 or 1.0 / UNSCALED <= largest <= UNSCALED else matrix / largest


def share_of_nonzeros(matrix: NDArray[np.float64]) -> float:
    """Estimate the density from about a thousand rows: a wrong estimate affects speed only."""
    sample = matrix[:: max(1, len(matrix) // 1000)]
    return np.count_nonzero(sample) / max(1, sample.size)


def as_slice(selected: Indices) -> Indices | slice:
    """Return consecutive numbers as a slice, which needs no copy of the rows, and others as they are."""
    if len(selected) and selected[-1] - selected[0] == len(selected) - 1 and (np.diff(selected) == 1).all():
        return slice(int(selected[0]), int(selected[-1]) + 1)
    return selected


class InputRows:
    """All input rows (N, d) of a batch: dense where that is faster, and as CSR for planes and sparse products.

    Weight (feature f, label y) of `n_labels` S is number f·S + y.
    """

    def __init__(self, matrix: "NDArray[np.float64] | sparse.csr_array", n_labels: int) -> None:
        self.n_labels = n_labels
        self.shape = matrix.shape
        if (self.shape[1] + n_labels + 3) * n_labels >= 2**31:
            got = Description(f"{self.shape[1]} features and {n_labels} labels")
            raise InputError("X", got, "features and labels with fewer than 2**31 weights", "Use fewer features.")
        share = 0.0 if issparse(matrix) else share_of_nonzeros(matrix)
        self.dense, self.full = share >= SPARSE_BELOW, share >= FULL_FROM
        if self.dense:
            self.matrix = matrix
        else:
            # Copied now: the caller may change the index arrays of X later, which kernels do not check.
            self.compressed = compress(matrix)

    @classmethod
    def unpacked(cls, found: PackedArrays, n_inputs: int, n_labels: int) -> "InputRows":
        """Return rows on packed arrays, which are not copied; raise if they are not such rows."""
        if "inputs" in found:
            matrix = found.finite("inputs", 2)
            if matrix.shape[1] != n_inputs:
                raise found.error("inputs", f"{matrix.shape[1]} columns", f"an array with {n_inputs} columns")
            return cls(matrix, n_labels)
        features = found.numbers("input_features", 0, n_inputs, dtype=np.int32)
        pointers, values = found.pointers("input_pointers", len(features)), found.finite("input_values")
        if len(values) not in (0, len(features)):
            raise found.error("input_values", f"{len(values)} values", f"{len(features)} values or none")
        return cls.of_compressed((pointers, features, values), n_inputs, n_labels)

    @classmethod
    def of_compressed(cls, compressed: Compressed, n_inputs: int, n_labels: int) -> "InputRows":
        """Return rows on the arrays of a CSR form, which are not copied."""
        rows = cls(np.zeros((0, n_inputs)), n_labels)
        rows.shape = (len(compressed[0]) - 1, n_inputs)
        rows.compressed = compressed
        return rows

    def packed(self, unread: NDArray[np.bool_] | None = None) -> Arrays:
        """Return the rows as arrays, for `unpacked`; those that are never read are stored as zeros."""
        if self.dense:
            matrix = np.asarray(self.matrix)
            return {"inputs": matrix if unread is None else np.where(unread[:, None], 0.0, matrix)}
        pointers, features, values = self.compressed
        if unread is not None and len(values):
            values = np.where(np.repeat(unread, np.diff(pointers)), 0.0, values)
        return {"input_pointers": pointers, "input_features": features, "input_values": values}

    @cached_property
    def matrix(self) -> Any:
        """The rows as an array, or as a CSR array if that is faster."""
        pointers, features, values = self.compressed
        if pointers[-1] < 2**31:
            # SciPy keeps both index arrays in the wider of their types, and scikit-learn takes 32 bits only.
            pointers = pointers.astype(np.int32)
        return sparse.csr_array((values if len(values) else np.ones(len(features)), features, pointers), self.shape)

    @cached_property
    def compressed(self) -> Compressed:
        """Row pointers, features and values of the CSR form; no values if all are 1."""
        if self.full:
            n, d = self.shape
            return d * np.arange(n + 1), np.tile(np.arange(d, dtype=np.int32), n), np.ravel(self.matrix)
        return compress(self.matrix)

    @cached_property
    def rows(self) -> Rows:
        """The rows as planes refer to them."""
        indptr, indices, data = self.compressed
        return Rows(indptr, indices.astype(np.uint32) * np.uint32(self.n_labels), data)

    def times(
        self, weights: NDArray[np.float64], selected: Indices | None = None, out: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the products x_r W of the selected rows, shape (len(selected), S), in `out` if given."""
        if self.dense:
            return np.matmul(self.matrix if selected is None else self.matrix[as_slice(selected)], weights, out=out)
        selected = np.arange(self.shape[0]) if selected is None else selected
        out = np.empty((len(selected), self.n_labels)) if out is None else out
        if self.n_labels == 1:
            rows_dot(self.rows, selected, weights[:, 0], out[:, 0])
        else:
            rows_times_weights(self.compressed, selected, weights, out)
        return out

    def transposed_times(
        self, coefficients: NDArray[np.float64], out: NDArray[np.float64], selected: Indices | None = None
    ) -> None:
        """Write Xᵀ coefficients of the selected rows, coefficients (len(selected), S), into `out` (d, S), all zero."""
        if self.dense:
            matrix = self.matrix if selected is None else self.matrix[as_slice(selected)]
            np.matmul(matrix.T, coefficients, out=out)
        else:
            selected = np.arange(self.shape[0]) if selected is None else selected
            add_rows_transposed(self.compressed, selected, coefficients, out)

    @cached_property
    def product_time(self) -> float:
        """About how many nanoseconds the product of a row with the weights of one label takes."""
        n, d = self.shape
        if self.dense:
            return 0.2 * d
        # Weights that do not fit into a cache take longer to load.
        return (0.3 if d * self.n_labels < IN_CACHE else 1.0) * float(self.compressed[0][-1]) / max(1, n)
