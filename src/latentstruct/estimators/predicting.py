"""What trained estimators predict: outputs, latents, probabilities, losses and scores."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any, Self, cast

import numpy as np

from latentstruct.core.lazy import optimize
from latentstruct.core.parameters import available_if, check_is_fitted
from latentstruct.core.protocols import ArrayPredictions, Batch, LatentTask, Prediction, TaskTags, Temperature
from latentstruct.core.types import Vector
from latentstruct.core.validation import check_shape, integer
from latentstruct.data.sharded import ShardedData
from latentstruct.estimators.risk import Losses, least_risk
from latentstruct.estimators.rows import class_probabilities
from latentstruct.estimators.stored import StoredExamples, StoredPart, by_parts, joined, require_stored_outputs
from latentstruct.exceptions import InputError
from latentstruct.parallel.threads import effective_jobs, one_blas_thread, thread_map
from latentstruct.progress.heartbeat import each
from latentstruct.tasks.base import BaseTask, check_examples

DECODED_TOGETHER, BLOCKS_OF_THREAD = 256, 8
MOST_CALIBRATION = 1e4
"""Largest temperature of probabilities, and inverse of the smallest."""
USE_PREDICT_LATENT = "Use predict_latent if the outputs are unknown."


def is_latent(estimator: "Predicting") -> bool:
    """Return whether an estimator has latents, or may have them if it is not fitted."""
    return estimator.task_.latent if hasattr(estimator, "task_") else estimator.task.tags.latent != "never"


def _tags(estimator: "Predicting") -> TaskTags:
    """Return what the trained task can do, or that of the parameter if there is none."""
    return getattr(estimator, "task_", estimator.task).tags


def is_completable(estimator: "Predicting") -> bool:
    """Return whether known parts of outputs or latents can be completed."""
    return is_latent(estimator) or _tags(estimator).partial_outputs


def _is_soft(estimator: "Predicting") -> bool:
    return _can_calibrate(estimator) and (estimator.calibrated_temperature_ or max(estimator._temperature())) > 0


def _can_calibrate(estimator: "Predicting") -> bool:
    return _tags(estimator).soft


def _can_minimize_risk(estimator: "Predicting") -> bool:
    tags = _tags(estimator)
    return _is_soft(estimator) and (tags.sample or tags.min_risk)


def _has(name: str) -> Any:
    return available_if(lambda self: getattr(_tags(self), name))


def check_weights(estimator: Any) -> None:
    """Raise unless an estimator is fitted and its weights, which users may set, suit its task."""
    check_is_fitted(estimator, "coef_")
    check_shape(np.asarray(estimator.coef_), (estimator.task_.n_features,), "coef_", "one number per weight")


def _has_class_scores(estimator: "Predicting") -> bool:
    """Return whether a classifier has one score per class; a binary task has only that of its second class."""
    tags = _tags(estimator)
    return tags.classifier and tags.scores and not tags.binary


def _has_probabilities(estimator: "Predicting") -> bool:
    """Return whether a classifier sums over its classes, so that scores are logarithms of probabilities."""
    tags = _tags(estimator)
    return (
        tags.classifier and tags.scores and (estimator.calibrated_temperature_ or estimator._temperature().output) > 0
    )


def require_outputs(y: Any, hint: str = "Training requires y to be passed, but the target y is None.") -> None:
    """Raise if the true outputs are not given."""
    if y is None:
        raise InputError("y", None, "the true outputs, one per example", hint)


class Predicting(StoredExamples):
    """The part of estimators that needs weights and a task only."""

    task: BaseTask
    coef_: Vector
    calibrated_temperature_: float | None = None

    def _temperature(self) -> Temperature:
        return Temperature()

    def _decoded(self, X: Any) -> Sequence[Prediction]:
        check_weights(self)
        if isinstance(X, ShardedData):
            return [found for block in self._stored_answers(X, self._decode_block) for found in block]
        if isinstance(X, StoredPart) or hasattr(X, "shape") or not hasattr(X, "__len__") or len(X) <= DECODED_TOGETHER:
            return self._decode_block(X)
        # Laid out block by block, the inputs stay in the cache between copying, checking and scoring.
        blocks = [X[start : start + DECODED_TOGETHER] for start in range(0, len(X), DECODED_TOGETHER)]
        threaded = self.task_.tags.threaded_decoding
        n_jobs = effective_jobs(self.n_jobs) if threaded else 1
        # Some blocks per thread at a time, so that progress can be reported.
        together = BLOCKS_OF_THREAD * n_jobs if threaded else 1
        parts = (blocks[start : start + together] for start in range(0, len(blocks), together))
        decoded = chain.from_iterable(thread_map(self._decode_block, part, n_jobs) for part in parts)
        try:
            with one_blas_thread() if threaded else nullcontext():
                found = list(each(decoded, len(X), "examples decoded", DECODED_TOGETHER))
        except InputError:
            # With all examples in one batch, the error names the example by its place in X.
            self._prepared(X)
            raise
        return [prediction for block in found for prediction in block]

    def _decode_block(self, X: Any) -> Sequence[Prediction]:
        return self.task_.decode(self._prepared(X), self.coef_, self._temperature())

    def predict(self, X: Any) -> Any:
        """Return the best output of each example."""
        check_weights(self)
        if isinstance(X, ShardedData):
            return joined(self._stored_answers(X, lambda part: self._outputs(self._decode_block(part))))
        return self._outputs(self._decoded(X))

    def _outputs(self, decoded: Any) -> Any:
        """Return the outputs of predictions."""
        if isinstance(decoded, ArrayPredictions):
            return decoded.outputs
        return self.task_.collect([prediction.y for prediction in decoded])

    @available_if(is_latent)
    def predict_latent(self, X: Any) -> list[Any]:
        """Return the latent h that goes with the predicted output of each example."""
        return [prediction.h for prediction in self._decoded(X)]

    @_has("topk")
    def predict_topk(self, X: Any, k: int = 5, y: Any = None) -> list[list[Prediction]]:
        """Return the k best outputs of each example with their scores, the best first; fewer if there are not as many.

        Parameters
        ----------
        X : sequence of length n
            The examples.
        k : int, default=5
            Number of outputs.
        y : sequence of length n, optional
            What is fixed in the outputs, as in `complete`.

        Returns
        -------
        list of list of Prediction
            Outputs `y` with their `score`.
        """
        check_weights(self)
        integer(1).check(k, "k")
        return self.task_.topk(self._fixed(X, y), self.coef_, k)

    @_has("sample")
    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None, y: Any = None) -> list[list[Any]]:
        """Return outputs of each example, drawn from the P(y, h | x) of `marginals`.

        Parameters
        ----------
        X : sequence of length n
            The examples.
        n_samples : int, default=1
            Number of outputs per example.
        random_state : int or None, default=None
            Seed; None draws other outputs each time.
        y : sequence of length n, optional
            What is fixed in the outputs, as in `complete`; the others are drawn given these parts.

        Returns
        -------
        list of list
            The outputs of each example.
        """
        check_weights(self)
        integer(1).check(n_samples, "n_samples")
        temperature, rng = self._soft_temperature(), np.random.default_rng(random_state)
        return self.task_.sample(self._fixed(X, y), self.coef_, temperature, n_samples, rng)

    def _fixed(self, X: Any, y: Any) -> Batch:
        """Return the batch of examples, labeled if parts of their outputs are fixed."""
        if y is not None and not self.task_.tags.partial_outputs:
            raise InputError("y", y, f"None for {type(self.task_).__name__}, whose outputs cannot be fixed in part")
        return self._prepared(X, y)

    @available_if(_is_soft)
    def log_probability(self, X: Any, y: Any) -> Vector:
        """Return log P(y | x) of an output of each example, by the P(y, h | x) of `marginals`.

        Latents are summed out. Of an output that is partly unknown (-1 for some tokens or nodes) it is the probability
        of all outputs that agree with what is known, such as those that have a span.

        Parameters
        ----------
        X, y : sequences of length n
            Examples and outputs.

        Returns
        -------
        ndarray of shape (n,)
            The log-probabilities.
        """
        check_weights(self)
        require_outputs(y, "The probability of an output was requested.")
        batch, temperature = self._prepared(X, y), self._soft_temperature()
        # Unknown parts are summed out as latents are.
        alike = Temperature(temperature.output, temperature.output)
        known, every = (self.task_.planes(batch, self.coef_, mode, alike).values for mode in ("clamped", "free"))
        return (known - every) / temperature.output

    @available_if(_can_minimize_risk)
    def predict_min_risk(
        self, X: Any, loss: Losses | None = None, n_samples: int = 100, random_state: Any = 0
    ) -> list[Any]:
        """Return the output of least expected loss, argmin_ŷ E[Δ(y, ŷ)] under the P(y, h | x) of `marginals`.

        For the loss of the task it is exact where labels of tokens or nodes have marginals: the label of least expected
        cost of each one, for `Chain` among the labelings that its `rules` allow. Otherwise it is approximated: the best
        among distinct samples and the output of `predict`, by its mean loss over the samples.

        Parameters
        ----------
        X : sequence of length n
            The examples.
        loss : callable, optional
            Returns the losses of sequences of true and of predicted outputs, an array, such as `metrics.chunk_f1_loss`;
            by default that of the task.
        n_samples : int, default=100
            Number of samples per example, where they are needed.
        random_state : int or None, default=0
            Seed of the samples; None draws others each time.

        Returns
        -------
        list
            The outputs.
        """
        check_weights(self)
        task = self.task_
        if loss is None and task.tags.min_risk:
            return list(task.min_risk(self._prepared(X), self.coef_, self._soft_temperature()))
        if not task.tags.sample:
            raise InputError("loss", loss, f"None for {type(task).__name__}, which has no samples")
        drawn = self.sample(X, n_samples, random_state)
        losses = task.loss if loss is None else loss
        return [least_risk(*both, losses) for both in zip(drawn, self.predict(X), strict=True)]

    @available_if(_can_calibrate)
    def calibrate(self, X: Any, y: Any) -> Self:
        """Fit the temperature of probabilities to held-out data; predictions stay as they are.

        Probabilities are then P(y | x) ∝ Σ_h exp(s(y, h)/τ), where τ minimizes the mean of −log P(y_i | x_i). They are
        those of all methods, such as `marginals`, `confidence`, `sample` and `predict_proba`, until the next `fit`, and
        saved with the model. Models that maximize over outputs have probabilities after this.

        Parameters
        ----------
        X, y : sequences of length n
            Examples and outputs that were not used for training. Unknown labels are summed out.

        Returns
        -------
        self
            With τ as `calibrated_temperature_`.
        """
        check_weights(self)
        require_outputs(y, "Calibration needs the outputs of held-out data.")
        batch, weights = self._prepared(X, y), np.ones(len(y))

        def surprise(exponent: float) -> float:
            tau = Temperature(math.exp(exponent), math.exp(exponent))
            known, every = (
                self.task_.total(batch, self.coef_, mode, tau, weights)(self.coef_) for mode in ("clamped", "free")
            )
            return (every - known) / tau.output

        limit = math.log(MOST_CALIBRATION)
        found = optimize.minimize_scalar(surprise, bounds=(-limit, limit), method="bounded", options={"xatol": 1e-4})
        self.calibrated_temperature_ = math.exp(float(found.x))
        return self

    @available_if(is_completable)
    def complete(self, X: Any, y: Any = None) -> list[Any]:
        """Return the best latent h of each example given its known output; `ShardedData` include their outputs.

        Of outputs that may be partly unknown it returns the best output that agrees with what is known: labels of
        tokens and nodes are fixed in `y`, and -1 elsewhere; some segments or matches are given.
        """
        check_weights(self)
        if isinstance(X, ShardedData):
            require_stored_outputs(X, y)
            return joined([list(self.task_.complete(batch, self.coef_)) for batch in self._stored_batches(X)])
        require_outputs(y, USE_PREDICT_LATENT)
        return list(self.task_.complete(self._prepared(X, y), self.coef_))

    @_has("scores")
    @by_parts
    def decision_function(self, X: Any) -> Any:
        """Return the scores by which the task decides, in its own shape.

        Classifiers have shape (n, S) for S classes, in the order of `classes_`, and (n,) for two classes: the score of
        the second minus that of the first. Latents are maximized or summed out as in `predict`.
        """
        check_weights(self)
        scores = self._scores_of(X)
        two_classes = self.task_.tags.classifier and scores.shape[1:] == (2,)
        return scores[:, 1] - scores[:, 0] if two_classes else scores

    @available_if(_has_class_scores)
    @by_parts
    def class_scores(self, X: Any) -> Any:
        """Return the scores of all classes, shape (n, S), also if there are two; see `decision_function`."""
        check_weights(self)
        return self._scores_of(X)

    @available_if(_has_probabilities)
    @by_parts
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, shape (n, S), in the order of `classes_`.

        It is P(y | x) at the model's temperatures, with latents summed out. Models that maximize over outputs, such as
        `StructuralSVM`, do not have this method.
        """
        check_weights(self)
        if self.calibrated_temperature_ is None:
            return class_probabilities(self._scores_of(X), self._temperature().output)
        tau = self._soft_temperature()
        return class_probabilities(self._pooled_scores(self._prepared(X), tau.latent), tau.output)

    def _scores_of(self, X: Any) -> Any:
        return self._scores(self._prepared(X))

    def _scores(self, batch: Batch) -> Any:
        return self._pooled_scores(batch, self._temperature().latent)

    def _pooled_scores(self, batch: Batch, latent: float) -> Any:
        latent = latent if self.task_.latent else 0.0
        pooling = {"latent_temperature": latent} if latent else {}
        return self.task_.scores(batch, self.coef_, **pooling)

    @_has("marginals")
    @by_parts
    def marginals(self, X: Any) -> Any:
        """Return the probabilities of the labels or parts of outputs, in the form of the task.

        They are those of P(y, h | x) at the model's temperatures. Where outputs are maximized but latents summed out at
        ε_h, as in `MarginalSSVM`, both are taken at ε_h; where both are maximized there are no probabilities.
        """
        check_weights(self)
        return self.task_.marginals(self._prepared(X), self.coef_, self._soft_temperature())

    @_has("pair_marginals")
    @by_parts
    def pair_marginals(self, X: Any) -> Any:
        """Return the probabilities of the labels of neighbors, by the same P(y, h | x) as `marginals`."""
        check_weights(self)
        return self.task_.pair_marginals(self._prepared(X), self.coef_, self._soft_temperature())

    @_has("confidence")
    @by_parts
    def confidence(self, X: Any) -> list[Vector]:
        """Return the probability of each predicted label, segment or match, by the same P(y, h | x) as `marginals`."""
        check_weights(self)
        predictions, temperature = self._decoded(X), self._soft_temperature()
        return self.task_.confidence(self._prepared(X), self.coef_, temperature, predictions)

    def _soft_temperature(self) -> Temperature:
        if self.calibrated_temperature_ is not None:
            return Temperature(self.calibrated_temperature_, self.calibrated_temperature_)
        temperature = self._temperature()
        if temperature.output > 0:
            return temperature
        if temperature.latent > 0:
            return Temperature(temperature.latent, temperature.latent)
        raise InputError(
            "temperature",
            tuple(temperature),
            "above 0 for probabilities",
            f"{type(self).__name__} maximizes over outputs. Use CRF, MarginalSSVM, StructuredEstimator or `calibrate`.",
        )

    def loss(self, X: Any, y: Any = None) -> Vector:
        """Return the loss Δ(y_i, ŷ_i[, ĥ_i]) of each example's prediction; `ShardedData` include their outputs."""
        check_weights(self)
        truth = self._truth(X, y)
        if not self.task_.latent:
            return self.task_.loss(truth, self._judged(X))
        decoded = self._decoded(X)
        task = cast(LatentTask, self.task_)
        return task.loss(truth, [found.y for found in decoded], [found.h for found in decoded])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the task's quality measure of the predictions (accuracy for labels).

        `ShardedData` include their outputs, and `y` must be None.
        """
        check_weights(self)
        return self.task_.score(self._truth(X, y), self._judged(X), sample_weight)

    def _truth(self, X: Any, y: Any) -> Any:
        """Return the outputs that predictions are compared with."""
        if isinstance(X, ShardedData):
            return self._stored_outputs(X, y)
        require_outputs(y)
        check_examples(X, y, rows=True)
        return y

    def _judged(self, X: Any) -> Any:
        """Return what losses and scores are taken from: the predictions, or the scores of a task that ranks."""
        check_weights(self)
        return self.decision_function(X) if self.task_.scores_ranking else self.predict(X)
