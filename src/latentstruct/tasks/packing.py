"""Prepared examples as named arrays, checked when they come back: kernels trust the numbers they are given."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import InputError
from latentstruct.ragged import Indices
from latentstruct.short_repr import show

CURE = "prepare the data again"
Arrays = dict[str, NDArray[Any]]


class PackedArrays:
    """The arrays of a packed batch; what a task takes from them is checked.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        As the `pack` of a task returned them.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.arrays = arrays

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def take(self, name: str, dtype: Any, n_axes: int = 1) -> NDArray[Any]:
        """Return an array of the given type and number of axes."""
        if name not in self.arrays:
            raise InputError(
                f"the packed examples have the arrays {sorted(self.arrays)}, but {show(name)} is missing; expected it: "
                f"{CURE}"
            )
        array = self.arrays[name]
        if array.dtype != np.dtype(dtype) or array.ndim != n_axes:
            raise InputError(
                f"the packed array {show(name)} is {array.dtype} with {array.ndim} axes; expected {np.dtype(dtype)} "
                f"with {n_axes}: {CURE}"
            )
        return array

    def numbers(self, name: str, low: int, high: int, size: int | None = None, dtype: Any = np.int64) -> NDArray[Any]:
        """Return whole numbers from `low` to `high` − 1, `size` of them if that is given."""
        array = self.take(name, dtype)
        if size is not None and len(array) != size:
            raise InputError(f"the packed array {show(name)} has {len(array)} values; expected {size}: {CURE}")
        if len(array) and not low <= array.min() <= array.max() < high:
            found = array.min() if array.min() < low else array.max()
            raise InputError(
                f"the packed array {show(name)} has the value {found}; expected whole numbers from {low} to "
                f"{high - 1}: {CURE}"
            )
        return array

    def flags(self, name: str, size: int) -> NDArray[np.bool_]:
        """Return `size` truth values."""
        array = self.take(name, np.uint8)
        if len(array) != size or array.max(initial=0) > 1:
            raise InputError(
                f"the packed array {show(name)} has {len(array)} values up to {array.max(initial=0)}; expected {size} "
                f"of 0 and 1: {CURE}"
            )
        return array.view(np.bool_)

    def pointers(self, name: str, n_values: int, least: int = 0) -> Indices:
        """Return offsets that ascend from 0 to `n_values`, by `least` or more at each step."""
        array = self.take(name, np.int64)
        # Differences of numbers within these bounds do not overflow.
        bounded = len(array) > 0 and array.min() == array[0] == 0 and array.max() == array[-1] == n_values
        if not bounded or (np.diff(array) < least).any():
            raise InputError(
                f"the packed array {show(name)} has {len(array)} offsets that do not lead from 0 to {n_values} in "
                f"steps of at least {least}; expected such: {CURE}"
            )
        return array

    def finite(self, name: str, n_axes: int = 1) -> NDArray[np.float64]:
        """Return numbers none of which is infinite or NaN."""
        array = self.take(name, np.float64, n_axes)
        # A finite sum proves all values finite in one pass; only an overflow needs the second look.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(array.sum()) or np.isfinite(array).all()
        if not finite:
            raise InputError(f"the packed array {show(name)} has a value that is not finite; expected numbers: {CURE}")
        return array
