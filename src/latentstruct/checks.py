"""Checks of what callers hand in that several modules share."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone

from latentstruct.exceptions import InputError
from latentstruct.short_repr import show


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


def is_real(value: Any) -> bool:
    """Tell whether a value is a single real number, infinity among them."""
    return isinstance(value, int | float | np.integer | np.floating) and bool(value == value)


def is_ordered(values: Any) -> bool:
    """Tell whether something has items that can be counted and have an order."""
    counted = hasattr(values, "__len__") and getattr(values, "ndim", 1) > 0 and not issparse(values)
    return counted and not isinstance(values, Mapping | Set)


def copied(task: Any) -> Any:
    """Return a task or solver of its own with the same parameters, or raise if one of them cannot be copied."""
    try:
        return clone(task)
    except TypeError as error:
        raise InputError(
            f"the {type(task).__name__} cannot be copied ({error}); expected parameters that can: give lists, arrays, "
            "names and numbers"
        ) from error


def as_reals(values: Any) -> NDArray[np.float64]:
    """Return numbers as float64; raise TypeError or ValueError for others, complex ones among them."""
    found = np.asarray(values)
    if found.dtype.kind == "c":
        raise TypeError("complex numbers")
    return np.asarray(found, dtype=np.float64)


def numbers_of(values: Any, name: str) -> NDArray[np.float64]:
    """Return numbers as float64, or raise an error that names `name`."""
    try:
        return as_reals(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers ({error}): give an array of them") from error


def array_of(values: Any, name: str) -> NDArray[Any]:
    """Return an array, or raise if its rows have different lengths."""
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
