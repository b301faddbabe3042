"""Estimators: a task, an objective and a solver put together the way scikit-learn users expect."""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
    from latentstruct.estimators.annotators import AnnotatorCRF, DawidSkene, majority_vote
    from latentstruct.estimators.early_stopping import EarlyStopping
    from latentstruct.estimators.general import StructuredEstimator
    from latentstruct.estimators.kernel import KernelStructuralSVM
    from latentstruct.estimators.latent import HiddenCRF, LatentSSVM, MarginalSSVM
    from latentstruct.estimators.min_entropy import MinEntropySSVM
    from latentstruct.estimators.observed import CRF, StructuralSVM
    from latentstruct.estimators.perceptron import StructuredPerceptron
    from latentstruct.estimators.pipeline import FeaturePipeline
    from latentstruct.estimators.uncertain import IterativeLSVM, ModLat

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
