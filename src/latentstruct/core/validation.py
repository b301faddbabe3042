"""Constraints of parameters, and checks of data that several modules share."""

import math
from collections.abc import Callable, Iterable, Mapping, Set
from copy import copy
from itertools import chain
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.lazy import issparse
from latentstruct.core.parameters import clone
from latentstruct.exceptions import Description, InputError

T = TypeVar("T")


class Constraint:
    """The values that a parameter may have.

    Two constraints joined by ``|`` allow the values of both, ``constraint | None`` also allows None.

    Parameters
    ----------
    accepts : callable
        Returns whether a value is allowed.
    *alternatives : str
        Description of the allowed values, such as "an integer of at least 1".
    """

    def __init__(self, accepts: Callable[[Any], bool], *alternatives: str) -> None:
        self.alternatives = alternatives
        self.tests: tuple[Callable[[Any], bool], ...] = (accepts,)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is allowed."""
        return any(test(value) for test in self.tests)

    @property
    def expected(self) -> str:
        """Description of all allowed values."""
        *others, last = self.alternatives
        return f"{', '.join(others)} or {last}" if others else last

    def __or__(self, other: "Constraint | None") -> "Constraint":
        added = NOTHING if other is None else other
        joined = copy(self)
        joined.tests, joined.alternatives = self.tests + added.tests, self.alternatives + added.alternatives
        return joined

    def check(self, value: Any, parameter: str, hint: str | None = None) -> None:
        """Raise InputError unless a value is allowed."""
        if not self.accepts(value):
            raise InputError(parameter, value, self.expected, hint)


def integer(low: int, high: int | None = None) -> Constraint:
    """Return the constraint to integers of at least `low` and, if given, at most `high`."""
    expected = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    return Constraint(lambda value: is_integer(value) and value >= low and (high is None or value <= high), expected)


def real(
    low: float = -math.inf, high: float = math.inf, closed: Literal["both", "left", "right", "neither"] = "neither"
) -> Constraint:
    """Return the constraint to real numbers in an interval; an open interval excludes infinity."""
    left, right = closed in ("left", "both"), closed in ("right", "both")

    def accepts(value: Any) -> bool:
        try:
            number = float(value) if is_real(value) else math.nan
        except OverflowError:
            return False
        return (low < number or (left and low == number)) and (number < high or (right and high == number))

    finite = "finite " if (high == math.inf and not right) or (low == -math.inf and not left) else ""
    bounds = []
    if low > -math.inf:
        bounds.append(f"{'of at least' if left else 'above'} {low:g}")
    if high < math.inf:
        bounds.append(f"{'at most' if right else 'below'} {high:g}")
    return Constraint(accepts, " ".join(filter(None, (f"a {finite}number", " and ".join(bounds)))))


def options(*names: str) -> Constraint:
    """Return the constraint to some strings; arrays and lists are not compared with them."""
    return Constraint(lambda value: isinstance(value, str) and value in names, *map(repr, names))


def instance(description: str, *types: type) -> Constraint:
    """Return the constraint to objects of some types, with a description such as "a solver"."""
    return Constraint(lambda value: isinstance(value, types), description)


NOTHING = Constraint(lambda value: value is None, "None")
boolean = Constraint(
    lambda value: isinstance(value, int | float | np.bool_ | np.number) and value in (0, 1), "True", "False"
)
function = Constraint(callable, "a function")


def check_parameters(owner: Any) -> None:
    """Raise InputError unless the parameters of an object satisfy the `constraints` of its class and its bases."""
    tables = (vars(base).get("constraints", {}) for base in reversed(type(owner).__mro__))
    for name, constraint in {name: one for table in tables for name, one in table.items()}.items():
        constraint.check(getattr(owner, name), name)


def check_shape(array: Any, shape: tuple[int, ...], name: str, meaning: str = "", hint: str | None = None) -> None:
    """Raise unless an array has a shape; `meaning` describes it, such as "one weight per example"."""
    if array.shape != shape:
        expected = f"an array of shape {shape}" + (f" ({meaning})" if meaning else "")
        raise InputError(name, Description(f"shape {array.shape}"), expected, hint)


def check_length(values: Any, length: int, name: str, items: str) -> None:
    """Raise unless a collection has a length; `items` names its items, such as "labels"."""
    if len(values) != length:
        raise InputError(name, Description(f"{len(values)} {items}"), f"a sequence of {length} {items}")


def is_integer(value: Any) -> bool:
    """Return whether a value is a single integer; bools are excluded."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Return whether a value is a single real number, which may be infinite; bools are excluded."""
    return is_integer(value) or (isinstance(value, float | np.floating) and bool(value == value))


def is_ordered(values: Any) -> bool:
    """Return whether a value is a sized and ordered collection."""
    counted = hasattr(values, "__len__") and getattr(values, "ndim", 1) > 0 and not issparse(values)
    return counted and not isinstance(values, Mapping | Set)


def copied(task: T) -> T:
    """Return a copy of a task or solver with the same parameters, or raise if one of them cannot be copied."""
    try:
        return clone(task)
    except TypeError as error:
        got, hint = Description(str(error)), "Use lists, arrays, strings and numbers as parameters."
        raise InputError(type(task).__name__, got, "an object whose parameters can be copied", hint) from error


def check_unmasked(values: Any, name: str) -> None:
    """Raise if an array, or an array in a list, has masked values."""
    if _is_masked(values):
        raise InputError(
            name, Description("masked values"), "free of masked values", "Fill them, or remove their examples."
        )


def _is_masked(values: Any) -> bool:
    if isinstance(values, list | tuple):
        some = any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, values)))
        return some and any(isinstance(item, np.ma.MaskedArray) and np.ma.is_masked(item) for item in values)
    return bool(np.ma.is_masked(values))


def as_reals(values: Any) -> NDArray[np.float64]:
    """Return numbers as float64; raise TypeError, which describes the values, if they are not real numbers."""
    if values is None or _is_masked(values):
        raise TypeError("None" if values is None else "masked values")
    try:
        found = np.asarray(values)
    except ValueError as error:
        raise TypeError("rows of different lengths") from error
    if found.dtype.kind == "c":
        raise TypeError("complex numbers")
    if found.dtype.kind in "OSTU":
        text = next((value for value in found.flat if isinstance(value, str | bytes)), None)
        if text is not None:
            raise TypeError(f"text such as {repr_short(text)}")
    try:
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(repr_short(values)) from error


def numbers_of(values: Any, name: str, expected: str = "real numbers") -> NDArray[np.float64]:
    """Return numbers as float64, or raise an error that names `name`."""
    try:
        return as_reals(values)
    except TypeError as error:
        raise InputError(name, Description(str(error)), expected) from error


def finite_of(values: Any, name: str, shape: tuple[int, ...], meaning: str = "") -> NDArray[np.float64]:
    """Return finite numbers of a shape as float64, or raise an error that names `name`; see `check_shape`."""
    found = numbers_of(values, name)
    check_shape(found, shape, name, meaning)
    if not np.isfinite(found).all():
        raise InputError(name, Description("NaN or infinity"), "finite")
    return found


def array_of(values: Any, name: str) -> NDArray[Any]:
    """Return an array, or raise if its rows have different lengths or values are masked."""
    check_unmasked(values, name)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(name, Description("rows of different lengths"), "an array") from error


def integers_of(values: Any, name: str) -> NDArray[np.int64]:
    """Return integers as int64, including floats with integer values; raise an error that names `name` for others."""
    found = array_of(values, name)
    if found.size == 0:
        return np.zeros(found.shape, dtype=np.int64)
    if found.dtype.kind in "iuf" and np.isfinite(found).all():
        with np.errstate(invalid="ignore"):
            converted = found.astype(np.int64)
        if (converted == found).all():
            return converted
    raise InputError(name, values, "integers")


def check_lists(**collections: Any) -> None:
    """Raise unless each argument is an ordered collection; messages name it as the argument."""
    for name, values in collections.items():
        if not is_ordered(values):
            raise InputError(name, values, "a sequence such as a list")


def listed(values: Any, name: str) -> list[Any]:
    """Return the items of an iterable, or raise an error that names `name`."""
    if not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0 or issparse(values):
        raise InputError(name, values, "a sequence such as a list")
    return list(values)


def names_of(values: Any, name: str) -> frozenset[Any]:
    """Return a set of names, or raise an error that names `name`."""
    try:
        return frozenset(listed(values, name))
    except TypeError as error:
        raise InputError(name, Description(str(error)), "hashable values such as strings") from error


def check_sparse(matrix: Any, name: str) -> None:
    """Raise unless the index arrays of a sparse matrix are valid: SciPy and the kernels do not check them.

    The matrix is neither modified nor converted. The check takes time linear in the number of stored values.
    """
    if matrix.ndim != 2:
        raise InputError(name, Description(f"shape {matrix.shape}"), "two-dimensional")
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
        raise InputError(name, Description(fault), "a valid sparse matrix")


def can_be_stacked(matrix: Any) -> bool:
    """Return in constant time whether a CSR matrix has arrays of consistent types, lengths and ends.

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


_SPARSE_FAULTS = {
    **dict.fromkeys(("csr", "csc", "bsr"), _compressed_fault),
    "coo": _coordinate_fault,
    "dia": _diagonal_fault,
    "lil": _list_fault,
    "dok": lambda matrix: _coordinate_fault(matrix.tocoo()),
}
