"""Memory limits of planes that solvers keep."""

from typing import Any, NamedTuple

from latentstruct.core.objective import Objective
from latentstruct.exceptions import InputError

MEGABYTE = 1e6
BUNDLE_BYTES, MOST_PLANES = 1e9, 200
# Minimum number of dense planes of a bundle: two combinations of earlier ones, for steps and bound, and a new one.
LEAST_PLANES = 3


class Shares(NamedTuple):
    """Limits of a bundle: dense planes, and megabytes of the planes of single examples (None: no limit)."""

    planes: int
    store_mb: float | None


def plane_bytes(n_features: int, most: int) -> int:
    """Return the bytes of one of `most` dense planes, with its row of the Gram matrix and its numbers."""
    return 8 * (n_features + most + 4)


def affordable_planes(objective: Objective) -> int:
    """Return the number of dense planes that a bundle may keep by default."""
    return int(min(MOST_PLANES, max(10, BUNDLE_BYTES / (8 * objective.n_features))))


def dense_planes(cache_mb: float | None, n_features: int, most: int, least: int = LEAST_PLANES, copies: int = 1) -> int:
    """Return the number of dense planes that fit, at most `most`, or raise if too few fit.

    `copies` is the number of simultaneous arrays of them.
    """
    if cache_mb is None:
        return most
    one = copies * plane_bytes(n_features, most)
    least = min(least, most)
    if cache_mb * MEGABYTE < least * one:
        raise InputError(
            "cache_mb",
            cache_mb,
            f"at least {least * one / MEGABYTE:.3g}, for {least} planes of {n_features} weights",
            "Or use a solver that keeps no planes, such as Subgradient.",
        )
    return min(most, int(cache_mb * MEGABYTE / one))


def shared_out(cache_mb: float | None, n_features: int, most: int) -> Shares:
    """Divide the memory between dense planes, up to half of it, and planes of single examples."""
    if cache_mb is None:
        return Shares(most, None)
    one = plane_bytes(n_features, most)
    fewest = min(LEAST_PLANES, most)
    planes = min(dense_planes(cache_mb, n_features, most), max(fewest, int(0.5 * cache_mb * MEGABYTE / one)))
    return Shares(planes, cache_mb - planes * one / MEGABYTE)


def bounded(solver: Any, cache_mb: float | None) -> Any:
    """Set the memory limit of a solver that keeps planes, in place, and return it."""
    if cache_mb is not None and "cache_mb" in solver.get_params(deep=False):
        solver.set_params(cache_mb=cache_mb)
    return solver
