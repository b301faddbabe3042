"""Structured prediction with latent variables: certified structural SVMs and CRFs.

Public names are loaded when first used, so that the command answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "latentstruct.box_features": ("BoxFeatures",),
    "latentstruct.checkpoints": ("Checkpoint",),
    "latentstruct.digit_views": ("RotatedViews",),
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
    "latentstruct.features": ("WindowFeatures",),
    "latentstruct.hierarchies": ("tree_costs",),
    "latentstruct.core.objective": ("Objective", "build_objective"),
    "latentstruct.pairing": ("pair_feature_names", "pair_features"),
    "latentstruct.paths": ("GroupNormPath", "groupnorm_path"),
    "latentstruct.persistence": ("load",),
    "latentstruct.core.protocols": ("Result", "Round", "Temperature"),
    "latentstruct.core.regularizers": ("GroupNorm", "L2"),
    "latentstruct.sequences": ("AlignmentInput", "SequenceTracks"),
    "latentstruct.sharded_data": ("ShardedData",),
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
    "latentstruct.strengths": ("comparable_strength",),
    "latentstruct.tasks.graph_inputs": ("grid_graph",),
    "latentstruct.trees": ("Tree",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from latentstruct.box_features import BoxFeatures
    from latentstruct.checkpoints import Checkpoint
    from latentstruct.core.objective import Objective, build_objective
    from latentstruct.core.protocols import Result, Round, Temperature
    from latentstruct.core.regularizers import L2, GroupNorm
    from latentstruct.digit_views import RotatedViews
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
    from latentstruct.exceptions import CheckpointError, ConvergenceWarning, FormatError, InputError
    from latentstruct.features import WindowFeatures
    from latentstruct.hierarchies import tree_costs
    from latentstruct.pairing import pair_feature_names, pair_features
    from latentstruct.paths import GroupNormPath, groupnorm_path
    from latentstruct.persistence import load
    from latentstruct.sequences import AlignmentInput, SequenceTracks
    from latentstruct.sharded_data import ShardedData
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
    from latentstruct.strengths import comparable_strength
    from latentstruct.tasks import *  # noqa: F403
    from latentstruct.trees import Tree


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
