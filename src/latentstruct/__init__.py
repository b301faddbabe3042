"""Structured prediction with latent variables: certified structural SVMs and CRFs.

Public names are loaded when first used, so that the command answers at once.
"""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
    from latentstruct.core.objective import Objective, build_objective
    from latentstruct.core.protocols import Iteration, Result, Temperature
    from latentstruct.core.ratios import EntityRatio
    from latentstruct.core.regularizers import L2, ElasticNet, GroupNorm
    from latentstruct.data.sequences import AlignmentInput, SequenceTracks
    from latentstruct.data.sharded import ShardedData
    from latentstruct.data.trees import Tree
    from latentstruct.estimators import *  # noqa: F403
    from latentstruct.estimators.folds import AutoC, FoldScores, assign_folds, compare_settings
    from latentstruct.estimators.paths import GroupNormPath, groupnorm_path
    from latentstruct.estimators.regularization import RegularizationPath, regularization_path
    from latentstruct.exceptions import CheckpointError, ConvergenceWarning, FormatError, InputError
    from latentstruct.features.boxes import BoxFeatures
    from latentstruct.features.dicts import DictFeatures
    from latentstruct.features.pairs import pair_feature_names, pair_features
    from latentstruct.features.rotated_views import RotatedViews
    from latentstruct.features.similar_sequences import similar_pairs, similar_sequences
    from latentstruct.features.windows import WindowFeatures
    from latentstruct.metrics.hierarchies import tree_costs
    from latentstruct.metrics.strengths import suggest_C
    from latentstruct.persistence.checkpoints import Checkpoint
    from latentstruct.persistence.models import load
    from latentstruct.solvers import *  # noqa: F403
    from latentstruct.tasks import *  # noqa: F403
    from latentstruct.tasks import (
        CandidateDocuments,
        DetectionInput,
        GapCosts,
        GraphInput,
        ProgramInput,
        ProgramOutput,
        TransitionRules,
        grid_graph,
        tagging_rules,
    )

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
