"""Estimators: a task, an objective and a solver put together the way scikit-learn users expect."""

from latentstruct.estimators.base import SOLVERS
from latentstruct.estimators.kernel import KernelStructuralSVM
from latentstruct.estimators.models import (
    CRF,
    HiddenCRF,
    LatentSSVM,
    MarginalSSVM,
    MinEntropySSVM,
    StructuralSVM,
    StructuredEstimator,
    StructuredPerceptron,
)
from latentstruct.estimators.uncertain import IterativeLSVM, ModLat

__all__ = [
    "CRF",
    "SOLVERS",
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
]
