"""scikit-build-core as the build backend; where no C++ compiler is installed, the package ziglang serves as one."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

from scikit_build_core import build
from scikit_build_core.build import (  # noqa: F401
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

Settings = dict[str, Any] | None


def compiler_missing() -> bool:
    """Return whether CMake would find no C++ compiler."""
    return not os.environ.get("CXX") and not any(map(shutil.which, ("c++", "g++", "clang++")))


def use_ziglang() -> None:
    """Let CMake use the compiler of ziglang if there is no other."""
    found = importlib.util.find_spec("ziglang") if compiler_missing() else None
    if found is not None and found.origin is not None:
        os.environ["CXX"] = f"{Path(found.origin).with_name('zig')} c++"


def get_requires_for_build_wheel(settings: Settings = None) -> list[str]:
    """Return what the build of a wheel needs."""
    return [*build.get_requires_for_build_wheel(settings), *(["ziglang"] if compiler_missing() else [])]


def get_requires_for_build_editable(settings: Settings = None) -> list[str]:
    """Return what an editable install needs."""
    return [*build.get_requires_for_build_editable(settings), *(["ziglang"] if compiler_missing() else [])]


def build_wheel(folder: str, settings: Settings = None, metadata: str | None = None) -> str:
    """Build a wheel."""
    use_ziglang()
    return build.build_wheel(folder, settings, metadata)


def build_editable(folder: str, settings: Settings = None, metadata: str | None = None) -> str:
    """Build an editable install."""
    use_ziglang()
    return build.build_editable(folder, settings, metadata)
