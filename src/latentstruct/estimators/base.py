"""Base classes of estimators: fitting, and the fitted attributes."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.callers import user_stacklevel
from latentstruct.core.lazy import sklearn
from latentstruct.core.objective import Objective, Rescaling, build_objective
from latentstruct.core.parameters import available_if, clone
from latentstruct.core.protocols import (
    Batch,
    Callback,
    Checkpointer,
    Classifier,
    LatentTask,
    Result,
    Starts,
    WeightedInputs,
)
from latentstruct.core.regularizers import BaseRegularizer, ElasticNet
from latentstruct.core.selected import with_seen_weights
from latentstruct.core.types import Vector
from latentstruct.core.validation import (
    Constraint,
    boolean,
    check_parameters,
    check_shape,
    copied,
    function,
    instance,
    integer,
    numbers_of,
    options,
    real,
)
from latentstruct.data.sharded import ShardedData
from latentstruct.estimators.data_placement import DataPlacement, data_placement
from latentstruct.estimators.early_stopping import EarlyStopping, Validation, check_early_stopping
from latentstruct.estimators.folds import AutoC, FoldScores
from latentstruct.estimators.identity import training_identity
from latentstruct.estimators.metadata import MetadataRequests
from latentstruct.estimators.notebook import FittedRepr
from latentstruct.estimators.predicting import Predicting, check_weights, require_outputs
from latentstruct.estimators.reports import IterationPrinter, begin_callback, warn_about_training
from latentstruct.estimators.rows import are_rows, as_classes, as_rows, check_feature_names
from latentstruct.estimators.states import StateSelection
from latentstruct.exceptions import Description, InputError
from latentstruct.parallel.shards import Shards
from latentstruct.parallel.threads import N_JOBS, effective_jobs, one_blas_thread
from latentstruct.persistence.checkpoints import Checkpoint, FileCheckpointer
from latentstruct.persistence.fingerprint import digest
from latentstruct.solvers.base import BaseSolver
from latentstruct.solvers.selection import named_solver, select_solver
from latentstruct.solvers.starts import INITS, LatentStarts, SampledStarts, SummedStarts
from latentstruct.tasks.base import BaseTask
from latentstruct.tasks.inputs import check_matrix

# Parameters that change nothing in the planes of single examples.
STATE_FREE = (
    *("C", "solver", "tol", "max_iter", "max_seconds", "warm_start", "verbose"),
    *("n_jobs", "executor", "cache_mb"),
)
CALLBACK = function | None
Compose = Callable[[BaseTask, Any, Vector], Any]


class FitInputs(NamedTuple):
    """The arguments of `fit`."""

    X: Any
    Y: Any = None
    sample_weight: Any = None
    callback: Callback | None = None
    H: Any = None
    coef_init: Any = None
    checkpoint: Any = None
    early_stopping: EarlyStopping | None = None
    latent_features: Any = None
    groups: Any = None
    init: Any = None


class TrainingRun(NamedTuple):
    """Arguments of a solver, and what its result is stored with."""

    solver: BaseSolver
    w0: Vector | None
    state: Any
    watching: Callback | None
    checkpointer: Checkpointer | None
    validation: Validation | None
    fingerprint: str


class BaseStructuredEstimator(FittedRepr, StateSelection, Predicting, MetadataRequests):
    """Common part of all estimators; subclasses fix temperature, margin and regularizer.

    Fitted attributes
    -----------------
    task_ : Task
        The task with what it learned from the data.
    coef_ : ndarray of shape (d,)
        w.
    C_ : float
        The C of the training: `C`, or what was chosen by folds.
    cv_results_ : FoldScores or None
        The held-out scores that `C_` was chosen by; None if `C` is a number. Not kept in model files.
    feature_weights_ : ndarray of shape (V, n_features_in_)
        The weights of the features, one row per class, or per class and state, without those of a constant feature;
        where examples are the rows of a matrix. The importances of `sklearn.feature_selection.RFE`.
    classes_ : ndarray of shape (S,)
        The labels, where an output is one label per example, token or node, in the order of the columns of `marginals`.
    n_features_in_ : int
        Number of features, where X has rows of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the features, if X was a data frame with string names. Other names are refused in prediction.
    objective_, lower_bound_ : float
        The objective at w, and a lower bound of its minimum (−inf if the solver has none). With latent variables the
        bound is that of the last convex problem, which lies above the objective, and the gap measures how precisely it
        was solved. If inference may have missed maxima, `objective_` is a lower bound of the objective at w; if it
        approximated sums, both are estimates.
    gap_, relative_gap_ : float
        Their difference, absolute and divided by the objective. Never negative.
    certified_ : bool
        Whether the minimum is proven to lie between both: the objective is convex, inference at w was exact, and the
        bound follows from planes below the objective.
    n_iter_, n_oracle_calls_ : int
        Number of iterations of the solver, and of calls of the augmented oracle for one example.
    stop_reason_ : str
        Why training stopped.
    history_ : list of Iteration
        One entry per iteration.
    validation_scores_ : list of (int, float)
        Iteration, counted within its start, and validation score of each evaluation by `EarlyStopping`; empty without
        it. Not kept in model files.
    restart_objectives_ : list of float
        The objective of each start. The best start was kept.
    calibrated_temperature_ : float or None
        The temperature of probabilities that `calibrate` found.
    states_ : ndarray of shape (S, H)
        Norm of the weights of each class and latent state, where states have weights of their own; see `prune`.
    """

    task: BaseTask
    task_: BaseTask
    C: float | str | AutoC
    C_: float
    cv_results_: FoldScores | None
    solver: str | BaseSolver | None
    margin: bool = True
    rescaling: Rescaling = "margin"
    regularizer: BaseRegularizer | None = None
    init: str = "task"
    restarts: int | None = None
    random_state: int | None = 0
    tol: float | None
    max_iter: int | None
    max_seconds: float | None
    warm_start: bool
    verbose: bool
    n_jobs: int | None = None
    executor: Any = None
    cache_mb: float | None = None
    seen_only: bool = False
    validation_scores_: list[tuple[int, float]]
    _state: tuple[str, Any] | None = None
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "task": instance("a task such as Chain()", BaseTask),
        "C": real(0.0) | options("auto") | instance("an AutoC object", AutoC),
        "margin": boolean,
        "rescaling": options("margin", "slack"),
        "init": options(*INITS),
        "restarts": integer(1) | None,
        "random_state": integer(0) | None,
        "tol": real(0.0, closed="right") | None,
        "max_iter": real(0.0, closed="right") | None,
        "max_seconds": real(0.0, closed="right") | None,
        "warm_start": boolean,
        "n_jobs": N_JOBS,
        "cache_mb": real(0.0) | None,
    }
    """The values that parameters may have, in addition to those that base classes declare."""
    online: ClassVar[bool] = True
    """Whether `partial_fit` is available with solvers that take single steps."""
    _online: tuple[Any, int] | None = None
    """The state of `partial_fit`, and the number of its examples so far."""
    trains_in_shards: ClassVar[bool] = True
    """Whether examples may be in shards, which give sums of planes only."""

    def __sklearn_clone__(self) -> Self:
        """Return an estimator with the same parameters; a client of a cluster is shared, as there is no copy of it."""
        if self.executor is None or isinstance(self.executor, str):
            return super().__sklearn_clone__()
        alike = copy(self)
        alike.executor = None
        cloned = super(BaseStructuredEstimator, alike).__sklearn_clone__()
        cloned.executor = self.executor
        return cloned

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles; a trained model keeps no client, which belongs to this process."""
        state = vars(self).copy()
        connected = not (self.executor is None or isinstance(self.executor, str))
        return {**state, "executor": None} if connected and hasattr(self, "coef_") else state

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: classifiers get stratified folds, and X is a matrix only for some tasks."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        rows = isinstance(self.task, BaseTask) and self.task.tags.row_examples
        tags.input_tags.two_d_array = tags.input_tags.sparse = rows
        if isinstance(self.task, BaseTask) and self.task.tags.classifier:
            tags.estimator_type = "classifier"
            tags.classifier_tags = sklearn.utils.ClassifierTags(multi_class=not self.task.tags.binary)
        return tags

    @property
    def classes_(self) -> NDArray:
        """The labels of a task with one label per example, token or node."""
        task = vars(self).get("task_")
        if not isinstance(task, Classifier):
            raise AttributeError(f"{type(self).__name__} has no classes_: it is not fitted, or gives no labels")
        return task.classes_

    @property
    def feature_weights_(self) -> NDArray[np.float64]:
        """The weights of the features, (V, n_features_in_), one row per weight vector of the task."""
        if not (hasattr(self, "task_") and self.task_.tags.row_examples):
            raise AttributeError(f"{type(self).__name__} has no feature_weights_: it is not fitted, or X is no matrix")
        task = cast(WeightedInputs, self.task_)
        width = len(self.coef_) // (task.n_inputs_ + task.biased_)
        return self.coef_[: task.n_inputs_ * width].reshape(task.n_inputs_, width).T

    def _objective(self, task: BaseTask, batch: Batch, weights: Vector) -> Objective:
        loss = self.margin, self.rescaling
        return build_objective(task, batch, weights, self._temperature(), *loss, self.regularizer)

    def _solver(self, objective: Objective) -> BaseSolver:
        limits = {name: getattr(self, name) for name in ("tol", "max_iter", "max_seconds", "cache_mb")}
        return select_solver(self.solver, objective, self.restarts, **limits)

    def _starts(self, task: BaseTask, data: DataPlacement, H: Any, objective: Objective, compose: Compose) -> Starts:
        """Return the initial values of the starts."""
        latent_task = cast(LatentTask, task)

        def of_sample() -> Objective:
            """Return the objective of the first shard."""
            assert data.sample is not None
            batch = data.sample()
            sampled = compose(task, batch, objective.plus.weights[: batch.n_examples])
            starts = LatentStarts(latent_task, batch, self.init, None, self.random_state, sampled.weights)
            return replace(sampled, starts=starts)

        if data.whole is None:
            return SampledStarts(objective, of_sample)
        starts = LatentStarts(latent_task, data.whole, self.init, H, self.random_state, objective.weights)
        found = starts if data.batch is data.whole else SummedStarts(starts, objective.minus)
        if H is not None:
            # Invalid latents raise before training begins.
            found.planes(0)
        return found

    def _weights(self, n_examples: int, sample_weight: Any) -> Vector:
        if sample_weight is None:
            return np.full(n_examples, self.C_)
        weights = numbers_of(sample_weight, "sample_weight")
        check_shape(weights, (n_examples,), "sample_weight", "one weight per example")
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            found = next((value for value in weights.tolist() if not 0 <= value < math.inf), 0.0)
            raise InputError("sample_weight", found, "finite and ≥ 0, with at least one weight that is not zero")
        return self.C_ * weights

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        callback: Callback | None = None,
        H: Any = None,
        coef_init: Any = None,
        checkpoint: Any = None,
        early_stopping: EarlyStopping | None = None,
        groups: Any = None,
        init: Any = None,
    ) -> Self:
        """Train on examples X with outputs y.

        Parameters
        ----------
        X : collection of length n
            The examples, as the task describes them. Where they are the rows of a matrix, X may be an array, a sparse
            matrix or a data frame. `ShardedData` include their outputs.
        y : collection of length n
            The outputs, as the task describes them: one label, or one structure such as a list of labels, per example.
        sample_weight : array of shape (n,), optional
            Factors of C for the examples. `Chain` also takes an array per sequence, with one weight per token.
        callback : callable, optional
            Called with an `Iteration` after each iteration. If it returns True, training stops and the best weights so
            far are kept.
        H : sequence of length n, optional
            Initial latent values, for training by CCCP; further restarts follow `init`.
        coef_init : array of shape (d,), optional
            Initial weights. Initial latent values are inferred from them.
        checkpoint : path or Checkpoint, optional
            File that the state of the training is written to. If it exists, training resumes from it, and `warm_start`
            has no effect.
        early_stopping : EarlyStopping, optional
            Stops training when a validation score no longer improves. The weights with the best validation score are
            then kept, and `objective_`, `gap_` and `relative_gap_` are those of these weights.
        groups : sequence of length n, optional
            Groups of examples that are not divided by the folds of ``C="auto"``, such as documents.
        init : estimator, optional
            A fitted estimator whose training is continued on these data: training starts from its weights. It must have
            learned the same labels and features; those of `Chain` may have new ones, where new features are further
            columns of X. Labels that no longer occur are kept.

        Returns
        -------
        self
            Also after Ctrl-C, with the best weights so far.
        """
        given = FitInputs(X, y, sample_weight, callback, H, coef_init, checkpoint, early_stopping, groups=groups)
        given = given._replace(init=init)
        examples = self._read(given)
        if examples.Y is not None:
            self._warn_about_labels(y)
        return self._fit(examples)

    @available_if(lambda estimator: estimator.online and estimator._online_solver() is not None)
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Make one pass over further examples, from what training has reached so far.

        Available for `StructuredPerceptron`, and with ``solver="subgradient"`` or a `Subgradient`. Steps and averages
        continue from call to call, and each example counts as a new one: C weighs the sum over the examples of all
        calls. `objective_` is that of the examples of the last call. There are no warnings about convergence.

        Pickles keep what this needs: the current weights and their mean, the number of steps, the random
        generator and the number of examples. `save` keeps the model only, so after `load`, as after `fit`, its weights
        are initial values: steps, averages and the number of examples begin at zero. `Subgradient` then needs `step`
        'plain' or 'fixed'.

        Parameters
        ----------
        X : collection of length n
            The examples; see `fit`.
        y : collection of length n
            The outputs. Chains may have new labels and further columns of X, whose weights begin at zero.
        classes : sequence, optional
            In the first call, all labels, for tasks with the parameter `labels`.
        sample_weight : array of shape (n,), optional
            Factors of C for the examples.

        Returns
        -------
        self
        """
        from latentstruct.estimators.online import train_further

        train_further(self, FitInputs(X, y, sample_weight), classes)
        return self

    def _online_solver(self) -> Any:
        """Return the solver if it takes single steps."""
        from latentstruct.solvers.stochastic import OnlineSolver

        found = named_solver(self.solver)
        return copied(found) if isinstance(found, OnlineSolver) else None

    def _read(self, given: FitInputs) -> FitInputs:
        """Return what `fit` was given with X as an array or a sparse matrix, where examples are the rows of a matrix.

        Sets `C_`, and `feature_names_in_` if X is a data frame with names.
        """
        check_parameters(self)
        if are_rows(self.task, given.X):
            require_outputs(given.Y)
            check_feature_names(self, given.X, reset=True)
            given = given._replace(X=as_rows(given.X, type(self).__name__), Y=as_classes(self.task, given.Y))
        if isinstance(self.C, str | AutoC):
            require_outputs(given.Y)
            auto = AutoC() if isinstance(self.C, str) else self.C
            self.cv_results_ = auto.choose(self, given, say=print if self.verbose else None)
            self.C_ = float(self.cv_results_.value)
        elif given.groups is not None:
            raise InputError("groups", given.groups, "None unless `C` is chosen by folds")
        else:
            self.C_, self.cv_results_ = float(self.C), None
        if given.Y is None or isinstance(given.X, ShardedData):
            return given
        # What the task makes of the examples, such as sequences without skipped tokens.
        X, Y, sample_weight = self.task.training_examples(given.X, given.Y, given.sample_weight)
        if Y is not given.Y and given.H is not None:
            raise InputError("H", given.H, "None if tokens are skipped or have weights")
        return given._replace(X=X, Y=Y, sample_weight=sample_weight)

    def _path_models(self, given: FitInputs, Cs: Sequence[float], tol: float) -> Iterator[Self]:
        """Yield models for ascending values of C."""
        for C in Cs:
            yield copied(self).set_params(C=C, tol=tol).fit(given.X, given.Y, given.sample_weight, H=given.H)

    def _composer(self, given: FitInputs) -> Compose:
        """Return what makes the objective of a task, a batch and the examples' weights c_i."""
        return self._objective

    def _fit(self, given: FitInputs) -> Self:
        """Train on what `_read` returned; see `fit`."""
        with self._composed(given) as (task, data, objective):
            run = self._prepare_run(task, data, objective, given)
            result = run.solver.minimize(
                objective, run.w0, state=run.state, callback=run.watching, checkpointer=run.checkpointer
            )
            self._keep(task, data, run, result)
        return self

    def _warn_about_labels(self, Y: Any) -> None:
        """Warn if unknown labels are visibly no random sample."""
        for text in self.task.label_warnings(Y):
            warnings.warn(text, UserWarning, stacklevel=user_stacklevel())

    @contextmanager
    def _composed(self, given: FitInputs) -> Iterator[tuple[BaseTask, DataPlacement, Objective]]:
        """Yield the task that has learned the data, the placement of the data, and their objective."""
        compose = self._composer(given)
        n_jobs, task = self._check_fit(given)
        with one_blas_thread(), data_placement(self, task, given) as data:
            weights = self._weights(data.batch.n_examples, given.sample_weight)
            objective = compose(task, data.batch, weights).divided(n_jobs, data.chunk_bounds)
            if task.latent:
                objective = replace(objective, starts=self._starts(task, data, given.H, objective, compose))
            # Planes of the other weights are not kept.
            yield task, data, with_seen_weights(objective) if self.seen_only else objective

    def _check_fit(self, given: FitInputs) -> tuple[int, BaseTask]:
        """Check what `fit` is given; return the number of threads and the task to train."""
        stored, task = isinstance(given.X, ShardedData), copied(self.task)
        if given.init is not None:
            self._check_init(given)
            task.follow(given.init.task_)
        if not stored:
            require_outputs(given.Y)
        CALLBACK.check(given.callback, "callback")
        if given.sample_weight is not None and task.tags.single_example:
            expected = f"None for {type(task).__name__}, which treats the whole data set as one example"
            raise InputError("sample_weight", given.sample_weight, expected)
        if given.H is not None and stored:
            raise InputError("H", given.H, "None for stored examples", "Pass initial weights as `coef_init`.")
        return effective_jobs(self.n_jobs), task

    def _check_init(self, given: FitInputs) -> None:
        """Raise unless training can continue from the model that `fit` is given."""
        check_weights(given.init)
        if type(given.init.task_) is not type(self.task):
            expected = f"a fitted estimator with the task {type(self.task).__name__}"
            raise InputError("init", given.init, expected)
        if given.coef_init is not None or given.H is not None or isinstance(given.X, ShardedData):
            raise InputError("init", given.init, "None if `coef_init` or `H` are given, and for stored examples")

    def _prepare_run(self, task: BaseTask, data: DataPlacement, objective: Objective, given: FitInputs) -> TrainingRun:
        """Choose the solver and what it is called with."""
        if given.H is not None and not task.latent:
            raise InputError("H", given.H, f"None for {type(task).__name__}, which has no latent variables")
        solver = self._solver(objective)
        if given.H is not None and not solver.takes_latents:
            expected = f"None for {type(solver).__name__}, which starts from weights"
            raise InputError("H", given.H, expected, "Pass initial weights as `coef_init`, or use CCCP.")
        callback = IterationPrinter() if given.callback is None and self.verbose else given.callback
        validation = None
        if given.early_stopping is not None:
            check_early_stopping(given.early_stopping, given.checkpoint, solver)
            validation = Validation(given.early_stopping, partial(self._model_at, task, data.batch), callback)
        fingerprint = self._fingerprint(solver, given.X, given.Y) if self.warm_start else ""
        w0, state = self._initial_weights(task, fingerprint, given)
        checkpointer = None
        if given.checkpoint is not None:
            file = given.checkpoint if isinstance(given.checkpoint, Checkpoint) else Checkpoint(given.checkpoint)
            identity = training_identity(self, solver, task, given, data.batch is not data.whole)
            checkpointer = FileCheckpointer(file, identity)
        if callback is not None:
            begin_callback(callback, solver, objective, several=w0 is None, checkpointer=checkpointer)
        return TrainingRun(solver, w0, state, validation or callback, checkpointer, validation, fingerprint)

    def _keep(self, task: BaseTask, data: DataPlacement, run: TrainingRun, result: Result) -> None:
        """Store the result of training, and warn about it."""
        validation = run.validation
        chosen = result if validation is None else validation.chosen(result)
        task.finalize(data.batch, chosen.w)
        self.task_ = task
        # Warnings are about the training, not about the choice among its weights.
        reached = replace(result, reason=chosen.reason)
        self._store_result(reached)
        self._state = (run.fingerprint, result.state) if self.warm_start else None
        self._warn(reached, run.solver)
        if validation is not None:
            self._store_result(chosen)
            self.validation_scores_ = validation.scores

    def _model_at(self, task: BaseTask, batch: Batch | Shards, w: Vector) -> Self:
        """Return a fitted model with the weights that training has reached so far."""
        model = copy(self)
        model.task_, model.coef_ = copy(task), w
        model.task_.finalize(batch, w)
        return model

    def _initial_weights(self, task: BaseTask, fingerprint: str, given: FitInputs) -> tuple[Vector | None, Any]:
        """Return initial weights and solver state: those given, or those of an earlier fit if they still fit."""
        w0, state = (
            self._warm_weights(task, fingerprint) if self.warm_start and hasattr(self, "coef_") else (None, None)
        )
        if given.init is not None:
            return task.weights_from(given.init.task_, given.init.coef_), None
        if given.coef_init is None:
            return None if given.H is not None else w0, state
        w0 = numbers_of(given.coef_init, "coef_init")
        check_shape(w0, (task.n_features,), "coef_init", "one number per weight, such as `coef_` of a fitted model")
        w0 = check_matrix(w0[None], "coef_init")[0]
        if given.H is not None or (self.restarts or 1) > 1:
            raise InputError("coef_init", given.coef_init, "None if `H` or `restarts` are given")
        return w0, state

    def _warm_weights(self, task: BaseTask, fingerprint: str) -> tuple[Vector | None, Any]:
        """Return weights and solver state of the earlier fit if they fit the task and the data."""
        if len(self.coef_) != task.n_features or self.task_.learned_state() != task.learned_state():
            return None, None
        # Planes are valid only for the data and settings that they were computed with, unlike weights.
        earlier, state = self._state or ("", None)
        return self.coef_, state if earlier == fingerprint else None

    def _fingerprint(self, solver: BaseSolver, X: Any, Y: Any) -> str:
        """Return a checksum of all that a solver's state depends on: data, solver and parameters that change planes."""
        settings = {
            name: value
            for name, value in self.get_params().items()
            if name.split("__")[0] not in STATE_FREE and not hasattr(value, "get_params")
        }
        parts = (_solver_names(solver), digest(X), digest(Y), digest(settings))
        return ":".join(map(str, parts))

    def _store_result(self, result: Result) -> None:
        self.coef_ = result.w
        self.objective_, self.lower_bound_, self.gap_ = result.objective, result.lower_bound, result.gap
        self.relative_gap_ = result.gap / max(abs(result.objective), 1e-12 * min(1.0, self.C_))
        self.certified_ = result.certified
        self.n_iter_, self.n_oracle_calls_ = result.n_iter, result.oracle_calls
        self.stop_reason_, self.history_ = result.reason, result.history
        self.restart_objectives_ = result.start_objectives or [result.objective]
        self.validation_scores_, self.calibrated_temperature_, self._online = [], None, None

    _warn = warn_about_training

    def with_task(self, **parameters: Any) -> Self:
        """Return a copy of the trained model with other parameters of the task that weights do not depend on.

        For example, ``model.with_task(rules="BIO")`` predicts by other rules of `Chain`.

        Parameters
        ----------
        **parameters
            The parameters; those in ``task.tags.refit_parameters`` that do not change the number of weights.
        """
        check_weights(self)
        found, task = copy(self), copied(self.task_)
        free = task.tags.refit_parameters
        for name, value in parameters.items():
            if name not in free:
                raise InputError(name, value, f"left out: only {', '.join(free) or 'no parameters'} may be changed")
        state = self.task_.state() or {}
        found.task, found.task_ = (one.set_params(**parameters) for one in (clone(self.task), task))
        found.task_.adopt(state)
        if found.task_.n_features != self.task_.n_features:
            raise InputError("parameters", parameters, "such that the number of weights stays the same")
        return found

    def _saved_parts(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what a model file needs in addition to weights: arrays, and plain values."""
        return {}, {}

    def _restore_parts(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Restore what `_saved_parts` returned; raise InputError unless it fits the weights."""

    def save(self, path: str | Path, compact: bool = False) -> None:
        """Write the trained model to a folder of JSON and safetensors (see `latentstruct.load`).

        Parameters
        ----------
        path : path
            The folder.
        compact : bool, default=False
            Whether to store only weights that are not zero, in single precision. Scores then change by rounding.
        """
        from latentstruct.persistence.models import save_model

        check_weights(self)
        save_model(path, self, compact=compact)


@dataclass(eq=False, repr=False, kw_only=True)
class RegularizedEstimator(BaseStructuredEstimator):
    """Parameters of estimators that minimize a regularized risk; see `StructuredEstimator`."""

    task: BaseTask = field(kw_only=False)
    C: float | str | AutoC = 1.0
    solver: str | BaseSolver | None = "auto"
    tol: float | None = None
    max_iter: int | None = None
    max_seconds: float | None = None
    warm_start: bool = False
    verbose: bool = False
    n_jobs: int | None = None
    executor: Any = None
    cache_mb: float | None = None

    def _path_models(self, given: FitInputs, Cs: Sequence[float], tol: float) -> Iterator[Self]:
        """Yield models for ascending values of C, each found from the one before; convex ones to a relative gap."""
        from latentstruct.estimators.regularization import path_models

        return cast("Iterator[Self]", path_models(self, given, Cs, tol))


def _solver_names(solver: BaseSolver) -> str:
    """Return the names of a solver and of those inside it."""
    inside = [part for part in solver.get_params(deep=False).values() if isinstance(part, BaseSolver)]
    names = ", ".join(map(_solver_names, inside))
    return type(solver).__name__ + (f"({names})" if names else "")


@dataclass(eq=False, repr=False, kw_only=True)
class SparseEstimator(RegularizedEstimator):
    """Parameters of estimators whose weights may be sparse; see `CRF`."""

    l1: float = 0.0
    seen_only: bool = False
    constraints: ClassVar = {"l1": real(0.0, closed="left"), "seen_only": boolean}

    def _objective(self, task: BaseTask, batch: Batch, weights: Vector) -> Objective:
        objective = super()._objective(task, batch, weights)
        if self.l1:
            if self.regularizer is not None:
                raise InputError("l1", self.l1, "0 with a `regularizer`", "ElasticNet has both.")
            objective = replace(objective, regularizer=ElasticNet(self.l1).bind(task))
        return objective

    def drop_weights(self, X: Any, y: Any, sample_weight: Any = None, max_increase: float = 1e-3) -> Self:
        """Return a fitted copy in which the smallest weights are zero.

        The number of dropped weights is the largest at which the objective on the training data increases by at most
        the given fraction. `objective_` is evaluated again; `lower_bound_` stays valid, so that the gap of a certified
        model remains a certificate.

        Parameters
        ----------
        X, y, sample_weight
            What the model was trained on.
        max_increase : float, default=0.001
            Largest increase of the objective, as a fraction of it.

        Returns
        -------
        estimator
            The copy. This estimator is not changed.
        """
        check_weights(self)
        real(0.0, closed="left").check(max_increase, "max_increase")
        given = copied(self)._read(FitInputs(X, y, sample_weight))
        unit = copy(self)
        with unit._composed(given) as (task, _, objective):
            if task.learned_state() != self.task_.learned_state():
                raise InputError("X", Description("other data"), "the data that the model was trained on")
            places = slice(None) if objective.places is None else objective.places
            w = self.coef_[places]
            sizes = np.sort(np.abs(w))
            limit = objective.value(w) + max_increase * abs(self.objective_)
            low, high = 0, len(w)
            while low < high:
                middle = (low + high + 1) // 2
                fits = objective.value(np.where(np.abs(w) <= sizes[middle - 1], 0.0, w)) <= limit
                low, high = (middle, high) if fits else (low, middle - 1)
            found = np.where(np.abs(w) <= (sizes[low - 1] if low else -1.0), 0.0, w)
            unit.coef_, unit.objective_ = objective.in_full(found), objective.value(found)
        unit.gap_ = unit.objective_ - self.lower_bound_
        unit.relative_gap_ = unit.gap_ / max(abs(unit.objective_), 1e-300)
        return unit
