"""Prepared examples as named arrays, checked when they are read: kernels do not check their arguments."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.types import Indices
from latentstruct.exceptions import Description, InputError

Arrays = dict[str, NDArray[Any]]


class PackedArrays:
    """The arrays of a packed batch, as returned by the `pack` of a task; each is checked when a task reads it."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.arrays = arrays

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def error(self, name: str, got: str, expected: str) -> InputError:
        """Return the error of an array; `got` describes it."""
        return InputError(f"arrays[{name!r}]", Description(got), expected, "Prepare the data again.")

    def take(self, name: str, dtype: Any, n_axes: int = 1) -> NDArray[Any]:
        """Return an array of the given type and number of axes."""
        if name not in self.arrays:
            raise self.error(name, f"the arrays {sorted(self.arrays)}", "present")
        array = self.arrays[name]
        if array.dtype != np.dtype(dtype) or array.ndim != n_axes:
            raise self.error(name, f"{array.dtype} with {array.ndim} axes", f"{np.dtype(dtype)} with {n_axes} axes")
        return array

    def numbers(self, name: str, low: int, high: int, size: int | None = None, dtype: Any = np.int64) -> NDArray[Any]:
        """Return integers from `low` to `high` − 1, `size` of them if that is given."""
        array = self.take(name, dtype)
        if size is not None and len(array) != size:
            raise self.error(name, f"{len(array)} values", f"{size} values")
        if len(array) and not low <= array.min() <= array.max() < high:
            found = array.min() if array.min() < low else array.max()
            raise self.error(name, str(found), f"integers from {low} to {high - 1}")
        return array

    def optional(self, name: str, low: int, high: int, size: int) -> NDArray[Any] | None:
        """Return the integers of an array that may be missing."""
        return self.numbers(name, low, high, size) if name in self.arrays else None

    def flags(self, name: str, size: int) -> NDArray[np.bool_]:
        """Return `size` truth values."""
        array = self.take(name, np.uint8)
        if len(array) != size or array.max(initial=0) > 1:
            raise self.error(name, f"{len(array)} values up to {array.max(initial=0)}", f"{size} values of 0 or 1")
        return array.view(np.bool_)

    def pointers(self, name: str, n_values: int, least: int = 0) -> Indices:
        """Return offsets that ascend from 0 to `n_values`, by `least` or more at each step."""
        array = self.take(name, np.int64)
        # Differences of numbers within these bounds do not overflow.
        bounded = len(array) > 0 and array.min() == array[0] == 0 and array.max() == array[-1] == n_values
        if not bounded or (np.diff(array) < least).any():
            raise self.error(
                name, f"{len(array)} other values", f"offsets from 0 to {n_values} in steps of at least {least}"
            )
        return array

    def finite(self, name: str, n_axes: int = 1) -> NDArray[np.float64]:
        """Return numbers that are neither infinite nor NaN."""
        array = self.take(name, np.float64, n_axes)
        if not all_finite(array):
            raise self.error(name, "NaN or infinity", "finite")
        return array


def all_finite(values: NDArray[np.float64]) -> bool:
    """Return whether all values are finite: a finite sum proves it in one pass, an overflow needs a second one."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def optional(**arrays: NDArray[Any] | None) -> Arrays:
    """Return the arrays that are not None."""
    return {name: array for name, array in arrays.items() if array is not None}
