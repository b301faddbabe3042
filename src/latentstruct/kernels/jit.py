"""The one decorator through which every kernel is compiled."""

from collections.abc import Callable
from typing import Any

import numba

# Fused multiply-add is exact enough everywhere and keeps infinities; division follows IEEE rules instead of raising,
# which would put a branch into every loop that divides.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


def njit(function: Callable[..., Any]) -> Any:
    """Compile `function` without Python objects, releasing the GIL, with the machine code cached on disk.

    numba chooses the cache folder when the decorator runs and raises where neither the package's folder nor
    the user's cache folder can be written. A read-only installation must still work, so the kernel is then
    compiled anew in each process.
    """
    return _compile(function, OPTIONS)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` into its callers: for short inner loops, where a call costs as much as the work.

    An array is seven machine words to pass.
    """
    return _compile(function, {**OPTIONS, "forceinline": True})


def _compile(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        return numba.njit(**options)(function)
