"""Helpers of both checks."""

from typing import Any, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Mode, Temperature

MODES: tuple[Mode, ...] = get_args(Mode)
HARD = Temperature()
PRECISION = 1e-8
"""Relative difference attributed to rounding."""
SCALES = (0.0, 0.1, 1.0, 1.0, 3.0)
"""Standard deviations of the random weights of the queries."""


def fail(who: object, what: str, look: str) -> NoReturn:
    """Raise with the failure and a hint."""
    raise AssertionError(f"{type(who).__name__}: {what}. Look at: {look}")


def first_beyond(difference: NDArray, allowed: NDArray | float) -> list[int]:
    """Return the index of the first entry that exceeds its limit (or is not a number), if there is one."""
    return np.flatnonzero(~(difference <= allowed))[:1].tolist()


def rounding(*values: Any) -> Any:
    """Return the difference that rounding may cause between values of this size, entry by entry."""
    return PRECISION * (1.0 + sum(np.abs(value) for value in values))
