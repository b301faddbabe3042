"""Modules of SciPy and scikit-learn that take long to import: each is imported when an attribute of it is first used.

All other modules take them from here, so that commands and programs load only what they use.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sklearn
    from scipy import linalg, ndimage, optimize, sparse
    from scipy.sparse import csgraph
    from sklearn.utils import metadata_routing

__all__ = ["csgraph", "issparse", "linalg", "metadata_routing", "ndimage", "optimize", "sklearn", "sparse"]


class LazyModule(ModuleType):
    """Stands for a module until an attribute or a submodule of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Doctest and inspect look for these on every object of a module.
            raise AttributeError(name)
        module = import_module(self.__name__)
        value = getattr(module, name) if hasattr(module, name) else import_module(f"{self.__name__}.{name}")
        # Found at once from now on.
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    linalg, ndimage, optimize, sparse = map(
        LazyModule, ("scipy.linalg", "scipy.ndimage", "scipy.optimize", "scipy.sparse")
    )
    csgraph = LazyModule("scipy.sparse.csgraph")
    sklearn, metadata_routing = LazyModule("sklearn"), LazyModule("sklearn.utils.metadata_routing")


def issparse(values: Any) -> bool:
    """Return whether values are a sparse matrix or array of SciPy, without importing it."""
    # The class is looked at, as an instance may answer for any name, such as that of a column.
    return hasattr(type(values), "tocsr")
