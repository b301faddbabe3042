"""Checks that data fit into memory, before anything is allocated."""

import os
from pathlib import Path

from latentstruct.exceptions import Description, InputError

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

GIB = 2**30
SMALL = 2**20
"""Bytes below which the available memory is not checked."""
WEIGHT_COPIES = 6
"""Vectors of d floats that training needs at least: measured 6 with block ascent, 7 by subgradients, 10 with L-BFGS."""
_MEMINFO = Path("/proc/meminfo")
_STATM = Path("/proc/self/statm")
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def available() -> float:
    """Return approximately how many bytes this process can still allocate; infinity if unknown."""
    size, resident = _own_sizes()
    limits = [_system()]
    limits += [limit - resident for limit in map(_number, _CGROUP_LIMITS) if limit is not None]
    if resource is not None:
        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            limits.append(soft - size)
    return max(0.0, min(limits))


def require(n_bytes: float, parameter: str, what: str, hint: str) -> None:
    """Raise InputError about a parameter if the `n_bytes` of the data `what` cannot fit into memory."""
    if n_bytes < SMALL:
        return
    left = available()
    if n_bytes > left:
        got, expected = f"{what} ({_size(n_bytes)})", f"small enough for the available memory ({_size(left)})"
        raise InputError(parameter, Description(got), expected, hint)


def _size(n_bytes: float) -> str:
    return f"{n_bytes / GIB:.1f} GiB" if n_bytes >= GIB / 10 else f"{n_bytes / 2**20:.1f} MiB"


def require_weights(n_features: int) -> None:
    """Raise InputError if the weights of a model, and the vectors of their size in training, cannot fit into memory."""
    require(
        8.0 * WEIGHT_COPIES * n_features,
        "X",
        f"{n_features} weights",
        "Check the number of labels and the largest feature index, or use fewer features.",
    )


def require_label_pairs(n_labels: int, n_tables: int) -> None:
    """Raise InputError if tables with one float per pair of labels cannot fit into memory."""
    require(
        8.0 * n_tables * n_labels**2,
        "Y",
        f"{n_labels} labels with {n_labels**2} pairs",
        "Check that labels are read from the right column, or use fewer labels.",
    )


def _system() -> float:
    """Return the available memory of the system, including swap."""
    try:
        found = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return 1024.0 * sum(float(found[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return float("inf")


def _own_sizes() -> tuple[float, float]:
    """Return the address space and the resident memory of this process."""
    try:
        pages = _STATM.read_text().split()
        page = os.sysconf("SC_PAGE_SIZE")
        return float(pages[0]) * page, float(pages[1]) * page
    except (AttributeError, OSError, ValueError, IndexError):
        return 0.0, 0.0


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None
