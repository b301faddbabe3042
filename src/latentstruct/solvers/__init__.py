"""Minimizers of objectives, one module each; all names are public in `latentstruct`."""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
    from latentstruct.solvers.alternation import Dissimilarity, Imputation
    from latentstruct.solvers.block_ascent import BlockAscent
    from latentstruct.solvers.bundle import Bundle
    from latentstruct.solvers.cccp import CCCP
    from latentstruct.solvers.cutting_plane import CuttingPlane
    from latentstruct.solvers.frank_wolfe import FrankWolfe
    from latentstruct.solvers.hinge import HingeSolver
    from latentstruct.solvers.lbfgs import LBFGS
    from latentstruct.solvers.orthant import OWLQN
    from latentstruct.solvers.proximal import Proximal
    from latentstruct.solvers.self_paced import SelfPaced
    from latentstruct.solvers.stochastic import AlternatingSubgradient, Perceptron, Subgradient

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
