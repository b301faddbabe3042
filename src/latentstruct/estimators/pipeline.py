"""Features and an estimator as one model: fitted, used and saved together."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from numpy.typing import NDArray

from latentstruct.core.parameters import Parametrized, available_if, check_is_fitted, clone
from latentstruct.data.sharded import ShardedData
from latentstruct.estimators.base import BaseStructuredEstimator
from latentstruct.exceptions import InputError

Features = TypeVar("Features")


@runtime_checkable
class Extractor(Protocol):
    """Features that a pipeline computes."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn the features of X."""

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn the features of X, and return them."""

    def transform(self, X: Any) -> Any:
        """Return the features of X."""


@runtime_checkable
class SavedExtractor(Extractor, Protocol):
    """Features that can be saved with a model."""

    def to_state(self) -> dict[str, Any]:
        """Return the features as JSON values."""


@runtime_checkable
class ExtensibleExtractor(Extractor, Protocol):
    """Features that further examples can be added to."""

    def extended(self, X: Any) -> "ExtensibleExtractor":
        """Return features that also know those of X, after the own ones."""


def _has(name: str) -> Callable[["FeaturePipeline"], bool]:
    def check(pipeline: "FeaturePipeline") -> bool:
        return hasattr(vars(pipeline).get("model_", pipeline.model), name)

    return check


def _forwarded(method: Any) -> Any:
    """Return a method of estimators that is given the features of X."""

    @wraps(method)
    def forward(self: "FeaturePipeline", X: Any, *args: Any, **named: Any) -> Any:
        return getattr(self.fitted, method.__name__)(self.transform(X), *args, **named)

    return available_if(_has(method.__name__))(forward)


class FeaturePipeline(Parametrized):
    """Features and an estimator that is trained on them, as one model.

    It works like a `sklearn.pipeline.Pipeline` of these two steps. In addition, it has all methods of the estimator,
    such as `marginals` and `predict_topk`, and can be saved. `latentstruct.load` returns a pipeline for a model that
    was saved with its features, also for one that the command trained.

    Parameters
    ----------
    features : transformer
        Features, such as `WindowFeatures` or `DictFeatures`. To save the pipeline, they must be of this library.
    model : estimator
        The estimator, such as ``CRF(Chain())``.

    Attributes
    ----------
    features_, model_
        Features and estimator, fitted.
    classes_ : ndarray of shape (S,)
        The labels, in the order of the columns of `marginals`.

    Examples
    --------
    >>> from latentstruct import CRF, Chain, FeaturePipeline, WindowFeatures
    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"]]
    >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB"]]
    >>> tagger = FeaturePipeline(WindowFeatures(), CRF(Chain())).fit(X, y)
    >>> tagger.predict([["the", "cat", "barks"]])[0].tolist()
    ['DET', 'NOUN', 'VERB']
    >>> tagger.marginals([["the", "cat"]])[0].shape, tagger.classes_.tolist()
    ((2, 3), ['DET', 'NOUN', 'VERB'])
    """

    features_: Extractor
    model_: BaseStructuredEstimator

    def __init__(self, features: Extractor, model: BaseStructuredEstimator) -> None:
        self.features, self.model = features, model

    @classmethod
    def of_fitted(cls, features: Extractor, model: BaseStructuredEstimator) -> Self:
        """Return the pipeline of fitted features and an estimator that was trained on them."""
        pipeline = cls(features, model)
        pipeline.features_, pipeline.model_ = features, model
        return pipeline

    def fit(self, X: Any, y: Any = None, *, init: "FeaturePipeline | None" = None, **fit_params: Any) -> Self:
        """Learn features of X, and train the estimator on them.

        Parameters
        ----------
        X : sequence of length n
            The examples, as the features take them.
        y : sequence of length n
            The outputs, as the estimator takes them.
        init : FeaturePipeline, optional
            A trained pipeline with the same kind of features, such as `WindowFeatures`, to continue from: features of
            X are added to its features, and its weights are the initial ones.
        **fit_params
            Further arguments of the estimator's `fit`, such as `sample_weight`.

        Returns
        -------
        self
        """
        if not isinstance(self.features, Extractor):
            raise InputError("features", self.features, "features such as WindowFeatures()")
        if init is None:
            self.features_ = clone(self.features)
            inputs = self.features_.fit_transform(X, y)
        else:
            self.features_ = self._extended(init, X)
            inputs, fit_params = self.features_.transform(X), {**fit_params, "init": init.model_}
        self.model_ = clone(self.model).fit(inputs, y, **fit_params)
        return self

    @available_if(_has("partial_fit"))
    def partial_fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Add features of X, and make one pass over the examples; see `StructuredPerceptron.partial_fit`.

        Parameters
        ----------
        X, y
            Further examples and their outputs.
        **fit_params
            Further arguments of the estimator's `partial_fit`.

        Returns
        -------
        self
        """
        begun = "model_" in vars(self)
        features = self._extended(self, X) if begun else clone(self.features).fit(X, y)
        model = self.model_ if begun else clone(self.model)
        model.partial_fit(features.transform(X), y, **fit_params)
        self.features_, self.model_ = features, model
        return self

    def _extended(self, init: "FeaturePipeline", X: Any) -> Extractor:
        """Return the features of a pipeline to continue from, with those of X."""
        if not isinstance(init, FeaturePipeline):
            raise InputError("init", init, "a FeaturePipeline, whose features are known")
        check_is_fitted(init, "model_")
        features = init.features_
        if not isinstance(features, ExtensibleExtractor):
            raise InputError("init", init, "a pipeline with features that can be extended, such as WindowFeatures")
        if repr(clone(features)) != repr(self.features):
            raise InputError("init", init, f"a pipeline with the features {self.features!r}")
        return features.extended(X)

    @property
    def fitted(self) -> BaseStructuredEstimator:
        """The trained estimator."""
        check_is_fitted(self, "model_")
        return self.model_

    def transform(self, X: Any) -> Any:
        """Return the features of X; `ShardedData` are returned as they are, because they hold features."""
        check_is_fitted(self, "model_")
        return X if isinstance(X, ShardedData) else self.features_.transform(X)

    predict = _forwarded(BaseStructuredEstimator.predict)
    predict_latent = _forwarded(BaseStructuredEstimator.predict_latent)
    predict_topk = _forwarded(BaseStructuredEstimator.predict_topk)
    predict_proba = _forwarded(BaseStructuredEstimator.predict_proba)
    decision_function = _forwarded(BaseStructuredEstimator.decision_function)
    class_scores = _forwarded(BaseStructuredEstimator.class_scores)
    predict_min_risk = _forwarded(BaseStructuredEstimator.predict_min_risk)
    sample = _forwarded(BaseStructuredEstimator.sample)
    log_probability = _forwarded(BaseStructuredEstimator.log_probability)
    complete = _forwarded(BaseStructuredEstimator.complete)
    marginals = _forwarded(BaseStructuredEstimator.marginals)
    pair_marginals = _forwarded(BaseStructuredEstimator.pair_marginals)
    confidence = _forwarded(BaseStructuredEstimator.confidence)
    loss = _forwarded(BaseStructuredEstimator.loss)
    score = _forwarded(BaseStructuredEstimator.score)

    @available_if(_has("calibrate"))
    def calibrate(self, X: Any, y: Any) -> Self:
        """Fit the temperature of probabilities to held-out data; see `StructuralSVM.calibrate`."""
        self.fitted.calibrate(self.transform(X), y)
        return self

    @property
    def calibrated_temperature_(self) -> float | None:
        """The temperature of probabilities that `calibrate` found."""
        return self.fitted.calibrated_temperature_

    def with_task(self, **parameters: Any) -> Self:
        """Return a copy of the trained pipeline with other parameters of the task; see `StructuralSVM.with_task`."""
        return type(self).of_fitted(self.features_, self.fitted.with_task(**parameters))

    @property
    def classes_(self) -> NDArray:
        """The labels, in the order of the columns of `marginals`."""
        if "model_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return self.model_.classes_

    def save(self, path: str | Path, compact: bool = False) -> None:
        """Write features and estimator to a folder of JSON and safetensors (see `latentstruct.load`).

        Parameters
        ----------
        path : path
            The folder.
        compact : bool, default=False
            Whether to store only weights that are not zero, in single precision. Scores then change by rounding.
        """
        from latentstruct.persistence.models import save_model

        model = self.fitted
        if not isinstance(self.features_, SavedExtractor):
            raise InputError("features", self.features_, "features of the library such as WindowFeatures, to be saved")
        save_model(path, model, {"features": self.features_.to_state()}, compact)

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = self.model.__sklearn_tags__()
        tags.input_tags.two_d_array = tags.input_tags.sparse = False
        return tags
