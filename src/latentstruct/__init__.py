"""Structured prediction with latent variables: certified structural SVMs and CRFs.

Public names are loaded when first used, so that the command answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "latentstruct.features.boxes": ("BoxFeatures",),
    "latentstruct.persistence.checkpoints": ("Checkpoint",),
    "latentstruct.features.rotated_views": ("RotatedViews",),
    "latentstruct.estimators": (
        "CRF",
        "EarlyStopping",
        "HiddenCRF",
        "IterativeLSVM",
        "KernelStructuralSVM",
        "LatentSSVM",
        "MarginalSSVM",
        "MinEntropySSVM",
        "ModLat",
        "StructuralSVM",
        "StructuredEstimator",
        "StructuredPerceptron",
    ),
    "latentstruct.exceptions": ("CheckpointError", "ConvergenceWarning", "FormatError", "InputError"),
    "latentstruct.features.windows": ("WindowFeatures",),
    "latentstruct.metrics.hierarchies": ("tree_costs",),
    "latentstruct.core.objective": ("Objective", "build_objective"),
    "latentstruct.features.pairs": ("pair_feature_names", "pair_features"),
    "latentstruct.estimators.paths": ("GroupNormPath", "groupnorm_path"),
    "latentstruct.estimators.regularization": ("RegularizationPath", "regularization_path"),
    "latentstruct.persistence.models": ("load",),
    "latentstruct.core.protocols": ("Result", "Round", "Temperature"),
    "latentstruct.core.regularizers": ("GroupNorm", "L2"),
    "latentstruct.data.sequences": ("AlignmentInput", "SequenceTracks"),
    "latentstruct.data.sharded": ("ShardedData",),
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
    "latentstruct.metrics.strengths": ("comparable_strength",),
    "latentstruct.tasks.graph.inputs": ("grid_graph",),
    "latentstruct.data.trees": ("Tree",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from latentstruct.core.objective import Objective, build_objective
    from latentstruct.core.protocols import Result, Round, Temperature
    from latentstruct.core.regularizers import L2, GroupNorm
    from latentstruct.data.sequences import AlignmentInput, SequenceTracks
    from latentstruct.data.sharded import ShardedData
    from latentstruct.data.trees import Tree
    from latentstruct.estimators import (
        CRF,
        EarlyStopping,
        HiddenCRF,
        IterativeLSVM,
        KernelStructuralSVM,
        LatentSSVM,
        MarginalSSVM,
        MinEntropySSVM,
        ModLat,
        StructuralSVM,
        StructuredEstimator,
        StructuredPerceptron,
    )
    from latentstruct.estimators.paths import GroupNormPath, groupnorm_path
    from latentstruct.estimators.regularization import RegularizationPath, regularization_path
    from latentstruct.exceptions import CheckpointError, ConvergenceWarning, FormatError, InputError
    from latentstruct.features.boxes import BoxFeatures
    from latentstruct.features.pairs import pair_feature_names, pair_features
    from latentstruct.features.rotated_views import RotatedViews
    from latentstruct.features.windows import WindowFeatures
    from latentstruct.metrics.hierarchies import tree_costs
    from latentstruct.metrics.strengths import comparable_strength
    from latentstruct.persistence.checkpoints import Checkpoint
    from latentstruct.persistence.models import load
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
    from latentstruct.tasks import *  # noqa: F403


def _structures() -> dict[str, Any]:
    """Return the structures and their inputs, which are the classes that `latentstruct.tasks` imports."""
    found = vars(import_module("latentstruct.tasks"))
    return {name: value for name, value in found.items() if name[0] != "_" and isinstance(value, type)}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name == "__all__":
        return __dir__()
    # Names of modules are in small letters, and need no structures to be loaded.
    if name[0].isupper() and name in (structures := _structures()):
        return structures[name]
    raise AttributeError(f"module 'latentstruct' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOME_OF, *_structures()])
