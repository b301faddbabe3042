"""Checks of what callers hand in that several modules share."""

from collections.abc import Mapping, Sequence, Set
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import show
from latentstruct.core.lazy import issparse
from latentstruct.core.parameters import clone
from latentstruct.exceptions import InputError

T = TypeVar("T")


def check_choice(value: Any, choices: Sequence[str], name: str) -> None:
    """Raise unless a value is one of some names; an array or a list is compared with none of them."""
    if not (isinstance(value, str) and value in choices):
        shown = [repr(choice) for choice in choices]
        wanted = " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
        raise InputError(f"{name} must be {wanted}, found {show(value)}: choose one of these")


def check_flag(value: Any, name: str) -> None:
    """Raise unless a value is True or False."""
    if not isinstance(value, int | float | np.bool_ | np.number) or value not in (0, 1):
        raise InputError(f"{name} must be True or False, found {show(value)}: choose one of these")


def check_integer(value: Any, name: str, low: int, high: int | None = None) -> None:
    """Raise unless a value is an integer of at least `low` and, if given, at most `high`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        wanted = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise InputError(f"{name} must be an integer {wanted}, got {show(value)}: choose one of these")


def is_real(value: Any) -> bool:
    """Tell whether a value is a single real number, infinity among them."""
    return isinstance(value, int | float | np.integer | np.floating) and bool(value == value)


def is_ordered(values: Any) -> bool:
    """Tell whether something has items that can be counted and have an order."""
    counted = hasattr(values, "__len__") and getattr(values, "ndim", 1) > 0 and not issparse(values)
    return counted and not isinstance(values, Mapping | Set)


def copied(task: T) -> T:
    """Return a task or solver of its own with the same parameters, or raise if one of them cannot be copied."""
    try:
        return clone(task)
    except TypeError as error:
        raise InputError(
            f"the {type(task).__name__} cannot be copied ({error}); expected parameters that can: give lists, arrays, "
            "names and numbers"
        ) from error


def check_unmasked(values: Any, name: str) -> None:
    """Raise if an array, or an array in a list, has masked values."""
    if _is_masked(values):
        raise InputError(f"{name} must not have masked values, got some: fill them, or drop their examples")


def _is_masked(values: Any) -> bool:
    if isinstance(values, list | tuple):
        return any(isinstance(item, np.ma.MaskedArray) and np.ma.is_masked(item) for item in values)
    return bool(np.ma.is_masked(values))


def as_reals(values: Any) -> NDArray[np.float64]:
    """Return numbers as float64; raise TypeError or ValueError for None, complex numbers, text and masked values."""
    if values is None or _is_masked(values):
        raise TypeError("None" if values is None else "masked values")
    found = np.asarray(values)
    if found.dtype.kind == "c":
        raise TypeError("complex numbers")
    if found.dtype.kind in "OSTU":
        text = next((value for value in found.flat if isinstance(value, str | bytes)), None)
        if text is not None:
            raise TypeError(f"text such as {show(text)}")
    return np.asarray(found, dtype=np.float64)


def numbers_of(values: Any, name: str) -> NDArray[np.float64]:
    """Return numbers as float64, or raise an error that names `name`."""
    try:
        return as_reals(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers ({error}): give an array of them") from error


def array_of(values: Any, name: str) -> NDArray[Any]:
    """Return an array, or raise if its rows have different lengths or values are masked."""
    check_unmasked(values, name)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} must be an array ({error}): give rows of the same length") from error


def check_lists(**collections: Any) -> None:
    """Raise unless each argument is a collection in an order; messages name it as the argument."""
    for name, values in collections.items():
        if not is_ordered(values):
            raise InputError(f"{name} is {show(values)}; expected a sequence: give a list")


def listed(values: Any, name: str) -> list[Any]:
    """Return the items of something that can be gone through, or raise an error that names `name`."""
    if not hasattr(values, "__iter__") or getattr(values, "ndim", 1) == 0 or issparse(values):
        raise InputError(f"{name} is {show(values)}; expected a sequence: give a list")
    return list(values)


def names_of(values: Any, name: str) -> frozenset[Any]:
    """Return a set of names, or raise an error that names `name`."""
    try:
        return frozenset(listed(values, name))
    except TypeError as error:
        raise InputError(f"{name} must be hashable ({error}): use strings") from error


def check_sparse(matrix: Any, name: str) -> None:
    """Raise unless the index arrays of a sparse matrix are valid: SciPy and the kernels do not check them.

    The matrix is neither changed nor converted. The check takes time linear in the number of stored values.
    """
    if matrix.ndim != 2:
        raise InputError(f"{name} must have two dimensions, got shape {matrix.shape}: reshape it")
    try:
        if matrix.format != "dok" and _is_masked(matrix.data):
            fault = "masked values"
        elif matrix.dtype.kind not in "biufc":
            fault = f"values of type {matrix.dtype}"
        else:
            fault = _SPARSE_FAULTS[matrix.format](matrix)
    except (AttributeError, IndexError, OverflowError, TypeError, ValueError) as error:
        fault = f"arrays that cannot be read ({error})"
    if fault:
        raise InputError(f"{name} must be a valid sparse matrix, got {fault}: check its index arrays")


def can_be_stacked(matrix: Any) -> bool:
    """Tell in constant time whether a CSR matrix has arrays of fitting types, lengths and ends.

    SciPy stacks such matrices by joining their arrays, so that one check of the stack finds what else is invalid. All
    others need `check_sparse` first.
    """
    if not issparse(matrix) or matrix.format != "csr" or matrix.ndim != 2:
        return False
    arrays = (matrix.indptr, matrix.indices, matrix.data)
    if not all(type(array) is np.ndarray and array.ndim == 1 for array in arrays):
        return False
    indptr, indices, data = arrays
    if indptr.dtype.kind + indices.dtype.kind != "ii" or data.dtype.kind not in "biuf":
        return False
    return len(indptr) == matrix.shape[0] + 1 and indptr[0] == 0 and indptr[-1] == len(indices) == len(data)


def _are_flat_integers(array: Any) -> bool:
    plain = isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)
    return plain and array.ndim == 1 and array.dtype in (np.int32, np.int64)


def _index_fault(indices: Any, size: int, n_values: int, name: str) -> str:
    """Return what is wrong with the indices of `n_values` values along an axis of length `size`; "" if nothing is."""
    if not _are_flat_integers(indices):
        return f"{name} that are not a flat array of integers"
    if len(indices) != n_values:
        return f"{len(indices)} {name} for {n_values} values"
    low, high = (int(indices.min()), int(indices.max())) if len(indices) else (0, -1)
    return "" if low >= 0 and high < size else f"{name} from {low} to {high} where 0 to {size - 1} are allowed"


def _compressed_fault(matrix: Any) -> str:
    shape, block = matrix.shape, (1, 1)
    data = matrix.data
    if matrix.format == "bsr":
        block = data.shape[1:]
        if len(block) != 2 or not all(block) or shape[0] % block[0] or shape[1] % block[1]:
            return f"blocks of shape {block}"
    elif data.ndim != 1:
        return f"values of shape {data.shape}"
    n_major, n_minor = shape[0] // block[0], shape[1] // block[1]
    if matrix.format == "csc":
        n_major, n_minor = n_minor, n_major
    indptr = matrix.indptr
    if not _are_flat_integers(indptr):
        return "an indptr that is not a flat array of integers"
    if len(indptr) != n_major + 1:
        return f"an indptr of length {len(indptr)} where {n_major + 1} is expected"
    if indptr[0] != 0 or indptr[-1] != len(data) or (indptr[1:] < indptr[:-1]).any():
        return f"an indptr that does not ascend from 0 to {len(data)}"
    fault = _index_fault(matrix.indices, n_minor, len(data), "indices")
    if not fault and matrix.indices.dtype != indptr.dtype:
        return f"indices of type {matrix.indices.dtype} and an indptr of type {indptr.dtype}"
    return fault


def _coordinate_fault(matrix: Any) -> str:
    if matrix.data.ndim != 1:
        return f"values of shape {matrix.data.shape}"
    parts = zip(matrix.coords, matrix.shape, ("row indices", "column indices"), strict=True)
    return next(filter(None, (_index_fault(part, size, len(matrix.data), name) for part, size, name in parts)), "")


def _diagonal_fault(matrix: Any) -> str:
    offsets, data = matrix.offsets, matrix.data
    if data.ndim != 2 or not _are_flat_integers(offsets) or len(offsets) != len(data):
        return f"offsets of shape {offsets.shape} for values of shape {data.shape}"
    if len(np.unique(offsets)) != len(offsets):
        return "repeated offsets"
    if len(offsets) and not -matrix.shape[0] <= offsets.min() <= offsets.max() <= matrix.shape[1]:
        return f"offsets from {offsets.min()} to {offsets.max()} in a matrix of shape {matrix.shape}"
    return ""


def _list_fault(matrix: Any) -> str:
    rows, data = matrix.rows, matrix.data
    if rows.shape != matrix.shape[:1] or data.shape != rows.shape:
        return f"{len(rows)} lists of indices and {len(data)} of values"
    lengths = [len(row) for row in rows]
    if lengths != [len(values) for values in data]:
        return "rows with more indices than values, or fewer"
    indices = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=sum(lengths))
    return _index_fault(indices, matrix.shape[1], len(indices), "indices")


def _keyed_fault(matrix: Any) -> str:
    return _coordinate_fault(matrix.tocoo())


_SPARSE_FAULTS = {
    **dict.fromkeys(("csr", "csc", "bsr"), _compressed_fault),
    "coo": _coordinate_fault,
    "dia": _diagonal_fault,
    "lil": _list_fault,
    "dok": _keyed_fault,
}
