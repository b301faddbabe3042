"""Structured prediction with latent variables: certified structural SVMs and CRFs.

Public names are loaded when first used, so that the command answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "latentstruct.box_features": ("BoxFeatures",),
    "latentstruct.digit_views": ("RotatedViews",),
    "latentstruct.estimators": (
        "CRF",
        "HiddenCRF",
        "IterativeLSVM",
        "LatentSSVM",
        "MarginalSSVM",
        "MinEntropySSVM",
        "ModLat",
        "StructuralSVM",
        "StructuredEstimator",
        "StructuredPerceptron",
    ),
    "latentstruct.exceptions": ("ConvergenceWarning", "FormatError", "InputError"),
    "latentstruct.features": ("WindowFeatures",),
    "latentstruct.objective": ("Objective", "build_objective"),
    "latentstruct.paths": ("GroupNormPath", "groupnorm_path"),
    "latentstruct.persistence": ("load",),
    "latentstruct.protocols": ("Result", "Round", "Temperature"),
    "latentstruct.regularizers": ("GroupNorm", "L2"),
    "latentstruct.solvers": (
        "CCCP",
        "LBFGS",
        "AlternatingSubgradient",
        "BlockAscent",
        "Bundle",
        "CuttingPlane",
        "Dissimilarity",
        "FrankWolfe",
        "HingeSolver",
        "Imputation",
        "Perceptron",
        "Proximal",
        "SelfPaced",
        "Subgradient",
    ),
    "latentstruct.tasks": (
        "CandidateTask",
        "Chain",
        "Coreference",
        "CorrelationClustering",
        "Detection",
        "DetectionInput",
        "ExampleTask",
        "Graph",
        "GraphInput",
        "LatentMulticlass",
        "Motif",
        "Multiclass",
        "PairwiseRanking",
        "PrecisionAtK",
        "grid_graph",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)

if TYPE_CHECKING:
    from latentstruct.box_features import BoxFeatures
    from latentstruct.digit_views import RotatedViews
    from latentstruct.estimators import (
        CRF,
        HiddenCRF,
        IterativeLSVM,
        LatentSSVM,
        MarginalSSVM,
        MinEntropySSVM,
        ModLat,
        StructuralSVM,
        StructuredEstimator,
        StructuredPerceptron,
    )
    from latentstruct.exceptions import ConvergenceWarning, FormatError, InputError
    from latentstruct.features import WindowFeatures
    from latentstruct.objective import Objective, build_objective
    from latentstruct.paths import GroupNormPath, groupnorm_path
    from latentstruct.persistence import load
    from latentstruct.protocols import Result, Round, Temperature
    from latentstruct.regularizers import L2, GroupNorm
    from latentstruct.solvers import (
        CCCP,
        LBFGS,
        AlternatingSubgradient,
        BlockAscent,
        Bundle,
        CuttingPlane,
        Dissimilarity,
        FrankWolfe,
        HingeSolver,
        Imputation,
        Perceptron,
        Proximal,
        SelfPaced,
        Subgradient,
    )
    from latentstruct.tasks import (
        CandidateTask,
        Chain,
        Coreference,
        CorrelationClustering,
        Detection,
        DetectionInput,
        ExampleTask,
        Graph,
        GraphInput,
        LatentMulticlass,
        Motif,
        Multiclass,
        PairwiseRanking,
        PrecisionAtK,
        grid_graph,
    )


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'latentstruct' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
