"""Prepared examples as named arrays, checked when they come back: kernels trust the numbers they are given."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import show
from latentstruct.core.types import Indices
from latentstruct.exceptions import InputError

CURE = "prepare the data again"
Arrays = dict[str, NDArray[Any]]


class PackedArrays:
    """The arrays of a packed batch, as the `pack` of a task returned them; what a task takes from them is checked."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.arrays = arrays

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def _refused(self, name: str, found: str, expected: str) -> InputError:
        return InputError(f"the packed array {show(name)} {found}; expected {expected}: {CURE}")

    def take(self, name: str, dtype: Any, n_axes: int = 1) -> NDArray[Any]:
        """Return an array of the given type and number of axes."""
        if name not in self.arrays:
            raise InputError(
                f"the packed examples have the arrays {sorted(self.arrays)}, but {show(name)} is missing; expected it: "
                f"{CURE}"
            )
        array = self.arrays[name]
        if array.dtype != np.dtype(dtype) or array.ndim != n_axes:
            found = f"is {array.dtype} with {array.ndim} axes"
            raise self._refused(name, found, f"{np.dtype(dtype)} with {n_axes}")
        return array

    def numbers(self, name: str, low: int, high: int, size: int | None = None, dtype: Any = np.int64) -> NDArray[Any]:
        """Return integers from `low` to `high` − 1, `size` of them if that is given."""
        array = self.take(name, dtype)
        if size is not None and len(array) != size:
            raise self._refused(name, f"has {len(array)} values", str(size))
        if len(array) and not low <= array.min() <= array.max() < high:
            found = array.min() if array.min() < low else array.max()
            raise self._refused(name, f"has the value {found}", f"whole numbers from {low} to {high - 1}")
        return array

    def optional(self, name: str, low: int, high: int, size: int) -> NDArray[Any] | None:
        """Return the integers of an array that may be missing."""
        return self.numbers(name, low, high, size) if name in self.arrays else None

    def flags(self, name: str, size: int) -> NDArray[np.bool_]:
        """Return `size` truth values."""
        array = self.take(name, np.uint8)
        if len(array) != size or array.max(initial=0) > 1:
            raise self._refused(name, f"has {len(array)} values up to {array.max(initial=0)}", f"{size} of 0 and 1")
        return array.view(np.bool_)

    def pointers(self, name: str, n_values: int, least: int = 0) -> Indices:
        """Return offsets that ascend from 0 to `n_values`, by `least` or more at each step."""
        array = self.take(name, np.int64)
        # Differences of numbers within these bounds do not overflow.
        bounded = len(array) > 0 and array.min() == array[0] == 0 and array.max() == array[-1] == n_values
        if not bounded or (np.diff(array) < least).any():
            found = f"has {len(array)} offsets that do not lead from 0 to {n_values} in steps of at least {least}"
            raise self._refused(name, found, "such")
        return array

    def finite(self, name: str, n_axes: int = 1) -> NDArray[np.float64]:
        """Return numbers none of which is infinite or NaN."""
        array = self.take(name, np.float64, n_axes)
        if not all_finite(array):
            raise self._refused(name, "has a value that is not finite", "numbers")
        return array


def all_finite(values: NDArray[np.float64]) -> bool:
    """Return whether all values are finite: a finite sum proves it in one pass, only an overflow needs a second one."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def optional(**arrays: NDArray[Any] | None) -> Arrays:
    """Return the arrays that there are."""
    return {name: array for name, array in arrays.items() if array is not None}
