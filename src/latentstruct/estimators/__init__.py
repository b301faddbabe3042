"""Estimators: a task, an objective and a solver put together the way scikit-learn users expect."""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
    from latentstruct.estimators.early_stopping import EarlyStopping as EarlyStopping
    from latentstruct.estimators.general import StructuredEstimator as StructuredEstimator
    from latentstruct.estimators.kernel import KernelStructuralSVM as KernelStructuralSVM
    from latentstruct.estimators.latent import HiddenCRF as HiddenCRF
    from latentstruct.estimators.latent import LatentSSVM as LatentSSVM
    from latentstruct.estimators.latent import MarginalSSVM as MarginalSSVM
    from latentstruct.estimators.min_entropy import MinEntropySSVM as MinEntropySSVM
    from latentstruct.estimators.observed import CRF as CRF
    from latentstruct.estimators.observed import StructuralSVM as StructuralSVM
    from latentstruct.estimators.perceptron import StructuredPerceptron as StructuredPerceptron
    from latentstruct.estimators.uncertain import IterativeLSVM as IterativeLSVM
    from latentstruct.estimators.uncertain import ModLat as ModLat

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "early_stopping": ("EarlyStopping",),
        "general": ("StructuredEstimator",),
        "kernel": ("KernelStructuralSVM",),
        "latent": ("HiddenCRF", "LatentSSVM", "MarginalSSVM"),
        "min_entropy": ("MinEntropySSVM",),
        "observed": ("CRF", "StructuralSVM"),
        "perceptron": ("StructuredPerceptron",),
        "uncertain": ("IterativeLSVM", "ModLat"),
    },
)
