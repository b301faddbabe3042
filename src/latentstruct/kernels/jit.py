"""The one decorator through which every kernel is compiled."""

import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba

HERE = Path(__file__).parent
IMPORTED = re.compile(r"^from latentstruct\.kernels\.(\w+) import", re.MULTILINE)

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
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        return numba.njit(**options)(function)
    _bind_to_sources(compiled, function)
    return compiled


def _bind_to_sources(compiled: Any, function: Callable[..., Any]) -> None:
    """Let machine code on disk serve only those sources that it was made of.

    numba looks at the file of a kernel, but not at those of the kernels that it calls, whose old code would be run
    after an upgrade; and it fails on an index that names a class which has moved since. It asks for the version of an
    index first, so that the sources' digest becomes part of that.
    """
    kept: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(kept, "_version"):
        kept._version = f"{kept._version} {sources_digest(function.__code__.co_filename)}"


@cache
def sources_digest(path: str) -> str:
    """Return a digest of a module and of all kernels' modules that it imports, wherever these are imported."""
    found: dict[Path, str] = {}
    left = [Path(path)]
    while left:
        file = left.pop()
        if file not in found:
            found[file] = file.read_text(encoding="utf-8") if file.is_file() else ""
            left += [HERE / f"{name}.py" for name in IMPORTED.findall(found[file])]
    return sha256("\0".join(found[file] for file in sorted(found)).encode()).hexdigest()
