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
    "latentstruct.tasks": (
        "Alignment",
        "CandidateDocuments",
        "CandidateTask",
        "Chain",
        "Coreference",
        "CorrelationClustering",
        "Detection",
        "DetectionInput",
        "DiverseSubset",
        "ExampleTask",
        "GapCosts",
        "Graph",
        "GraphInput",
        "LatentMulticlass",
        "Measure",
        "Motif",
        "Multiclass",
        "PairwiseRanking",
        "Parsing",
        "PartsTask",
        "PrecisionAtK",
        "SemiMarkov",
        "grid_graph",
    ),
    "latentstruct.trees": ("Tree",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)

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
    from latentstruct.tasks import (
        Alignment,
        CandidateDocuments,
        CandidateTask,
        Chain,
        Coreference,
        CorrelationClustering,
        Detection,
        DetectionInput,
        DiverseSubset,
        ExampleTask,
        GapCosts,
        Graph,
        GraphInput,
        LatentMulticlass,
        Measure,
        Motif,
        Multiclass,
        PairwiseRanking,
        Parsing,
        PartsTask,
        PrecisionAtK,
        SemiMarkov,
        grid_graph,
    )
    from latentstruct.trees import Tree


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'latentstruct' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
