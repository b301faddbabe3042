"""Estimators: a task, an objective and a solver put together the way scikit-learn users expect."""

from latentstruct.estimators.early_stopping import EarlyStopping
from latentstruct.estimators.general import StructuredEstimator
from latentstruct.estimators.kernel import KernelStructuralSVM
from latentstruct.estimators.latent import HiddenCRF, LatentSSVM, MarginalSSVM
from latentstruct.estimators.min_entropy import MinEntropySSVM
from latentstruct.estimators.observed import CRF, StructuralSVM
from latentstruct.estimators.perceptron import StructuredPerceptron
from latentstruct.estimators.uncertain import IterativeLSVM, ModLat
from latentstruct.solvers.selection import SOLVERS

__all__ = [
    "CRF",
    "SOLVERS",
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
]
