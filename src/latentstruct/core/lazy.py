"""Imports at first use, so that commands and programs load only what they use.

All modules import SciPy and scikit-learn, which are slow to import, from here, and commands NumPy as well.
"""

import ast
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import sklearn
    from scipy import linalg, ndimage, optimize, sparse
    from scipy.sparse import csgraph
    from sklearn.utils import metadata_routing

__all__ = [
    "csgraph",
    "issparse",
    "lazy_names",
    "linalg",
    "metadata_routing",
    "ndimage",
    "np",
    "optimize",
    "sklearn",
    "sparse",
]


class LazyModule(ModuleType):
    """A module that is imported when an attribute or a submodule of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Doctest and inspect look for these on every object of a module.
            raise AttributeError(name)
        module = import_module(self.__name__)
        value = getattr(module, name) if hasattr(module, name) else import_module(f"{self.__name__}.{name}")
        # Later uses do not call __getattr__.
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    np = LazyModule("numpy")
    linalg, ndimage, optimize, sparse = map(
        LazyModule, ("scipy.linalg", "scipy.ndimage", "scipy.optimize", "scipy.sparse")
    )
    csgraph = LazyModule("scipy.sparse.csgraph")
    sklearn, metadata_routing = LazyModule("sklearn"), LazyModule("sklearn.utils.metadata_routing")


def issparse(values: Any) -> bool:
    """Return whether values are a sparse matrix or array of SciPy, without importing it."""
    # The class is inspected, as an instance may have any attribute, such as the name of a column.
    return hasattr(type(values), "tocsr")


def lazy_names(
    package: str, file: str, helpers: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose names are imported when they are first used.

    They are the names that the package imports for type checkers, below ``if TYPE_CHECKING:``.

    Parameters
    ----------
    package, file : str
        Name and file of the package, ``__name__`` and ``__file__``.
    helpers : names
        What is not in `__all__`.
    """
    home_of: dict[str, str] = {}
    with open(file, encoding="utf-8") as source:
        [declared] = [one.body for one in ast.parse(source.read()).body if isinstance(one, ast.If)]
    for line in declared:
        assert isinstance(line, ast.ImportFrom)
        assert line.module is not None
        names = [alias.name for alias in line.names]
        home_of |= dict.fromkeys(import_module(line.module).__all__ if names == ["*"] else names, line.module)

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        # Later uses do not call this function.
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(home_of), sorted(home_of.keys() - set(helpers))
