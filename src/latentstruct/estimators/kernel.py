"""Structural SVMs with kernels for classes, classes with latent states, and measures of sets."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.objective import Objective
from latentstruct.core.parameters import available_if, clone
from latentstruct.core.protocols import Batch, Callback, LatentTask, Temperature
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import check_parameters, copied, function, instance, integer, options, real
from latentstruct.estimators.base import BaseStructuredEstimator, FitInputs
from latentstruct.estimators.folds import AutoC
from latentstruct.estimators.kernel_maps import (
    GAMMA,
    NAMES,
    FeatureRows,
    GramRows,
    Kernel,
    KernelRows,
    check_kernel,
    expand,
    factorize,
    resolve_gamma,
)
from latentstruct.estimators.predicting import USE_PREDICT_LATENT, check_weights, is_latent, require_outputs
from latentstruct.estimators.reports import IterationPrinter, begin_callback
from latentstruct.estimators.stored import refuse_stored
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Planes
from latentstruct.solvers.base import BaseSolver
from latentstruct.solvers.cccp import CCCP
from latentstruct.solvers.sampled_cuts import SampledCuts
from latentstruct.solvers.starts import LatentStarts
from latentstruct.tasks.base import BaseTask
from latentstruct.tasks.classes.latent_multiclass import LatentMulticlass
from latentstruct.tasks.classes.multiclass import Multiclass
from latentstruct.tasks.classes.states import StateBatch
from latentstruct.tasks.inputs import InputRows, check_matrix, with_own_indices
from latentstruct.tasks.measure.task import Measure

EXACT_ROWS = 8000
"""Rows up to which ``cuts="auto"`` trains exactly."""
EXACT_BYTES = 4e9
SAMPLE = 500
"""Default number of rows of a sampled cut."""
NEGLIGIBLE = 1e-9
"""Share of the largest coefficient below which rounding left a row that supports nothing."""


KernelTask = Multiclass | LatentMulticlass | Measure


@dataclass
class ScoreStarts:
    """Initial latents, whose planes are those of a task that reads scores."""

    starts: LatentStarts
    task: LatentMulticlass
    batch: StateBatch

    def planes(self, attempt: int) -> Planes:
        """Return the planes of the latents that a start begins with."""
        return self.task.completion_planes(self.batch, self.starts.latents(attempt))


@dataclass
class RowLayout:
    """All input rows of X as one matrix, and how values of them go back into the form of X."""

    matrix: Any  # (N, d)
    counts: Indices | None = None  # (n,) rows of each example, where X has a matrix for each

    def rebuilt(self, values: NDArray[np.float64]) -> Any:
        """Return values (N, k) of the rows in the form of X."""
        if self.counts is None:
            return values
        if (self.counts == self.counts[0]).all():
            return values.reshape(len(self.counts), self.counts[0], -1)
        return np.split(values, np.cumsum(self.counts)[:-1])


def n_vectors(task: KernelTask) -> int:
    """Return V: weight number f·V + v of a task that has learned belongs to input f and weight vector v."""
    return task.n_features // (task.n_inputs_ + task.biased_)


def with_inputs(task: KernelTask, n_inputs: int, **params: Any) -> Any:
    """Return a task that knows what another one has learned, for another number of inputs."""
    other = clone(task).set_params(**params)
    other.restore({**task.state(), "n_inputs": n_inputs})
    return other


@dataclass(eq=False, repr=False, kw_only=True)
class KernelStructuralSVM(BaseStructuredEstimator):
    """Structural SVM whose weights are functions w_v(x) = Σ_r a_rv κ(x_r, x) of the inputs.

    The objective is ½Σ_v‖w_v‖² + C Σ_i [max_y (Δ_i(y) + s(y)) − s(y_i)] of `StructuralSVM` (with latent states that
    of `LatentSSVM`, trained by CCCP), where each inner product w_v·x has become w_v(x) and ‖w_v‖² = Σ a_rv a_sv
    κ(x_r, x_s). A linear kernel gives the linear model.

    Parameters
    ----------
    task : Multiclass, LatentMulticlass or Measure
        The structure. Its bias stays a constant feature: it adds bias² to the kernel.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        exp(−γ‖x − x'‖²), x·x', (γ x·x' + c₀)^degree, tanh(γ x·x' + c₀), or a function of matrices (n, d) and (m, d)
        that returns (n, m). With "precomputed", X is the matrix (n, n) of the training rows in `fit` and
        (m, n) against the training rows afterwards; not for LatentMulticlass. Kernels that are found not to be positive
        semi-definite, as "sigmoid" often is not, are refused.
    gamma : {"scale", "auto"} or float, default="scale"
        γ: 1/(d·variance of X), 1/d or a number.
    degree : int, default=3
        Of "poly".
    coef0 : float, default=1.0
        c₀ of "poly" and "sigmoid".
    cuts : {"auto", "all"} or int, default="auto"
        "all" trains exactly: rows get explicit coordinates with the kernel's inner products, and any solver trains the
        linear model in these. A number trains by cuts of this many sampled rows (`SampledCuts`), without
        certificate, in memory that grows with n only. "auto" takes "all" up to 8000 rows or if max_basis is given, and
        500 beyond.
    basis_tol : float, default=1e-8
        What a row may lack in its coordinates, as a share of the largest κ(x, x).
    max_basis : int, optional
        Most coordinates, and so rows in the solution; the objective is then that of the best weights that these rows
        span, found in memory n · max_basis.
    C, solver, tol, max_iter, max_seconds
        See `StructuredEstimator`. Sampled cuts are a solver of their own (`solver` must stay "auto"); their tol is 0.01
        by default, and their gap an estimate.
    init, restarts, random_state
        Where training with latent states begins, as in `LatentSSVM`; random_state is also the seed of samples.
    verbose : bool, default=False
        Print one line per iteration.

    Attributes
    ----------
    support_ : ndarray of shape (B,)
        Numbers of the training rows in the solution; with latent states the rows of all states of all examples are
        counted one after the other.
    support_vectors_ : ndarray or csr_array of shape (B, d), or None
        These rows; None if the kernel is precomputed.
    dual_coef_ : ndarray of shape (B, V)
        a_rv.
    coef_ : ndarray of shape (B·V,) or (B·V + V,)
        The same as one vector, and the weights of the constant feature.
    n_basis_ : int
        B.
    kernel_error_ : float
        Trace of K − L Lᵀ for the coordinates L (n, rank); 0 with sampled cuts, which take K as it is. The objective
        is exact in any case; a bound holds for L Lᵀ, and is not called certified if max_basis cut the rank short.
    sampled_ : bool
        Whether cuts were sampled: then `lower_bound_`, `gap_` and "converged" are estimates, and never certified.
    gamma_ : float
        γ, 1 if the kernel is precomputed.

    Notes
    -----
    Time is N r² multiplications for coordinates of rank r, which is at most N. A cheaper way to the same kernel is a
    linear model on scikit-learn's approximate feature maps; it suits large data with small rank.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import Multiclass, StructuralSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> KernelStructuralSVM(Multiclass(), gamma=0.5, C=10.0).fit(X, y).score(X, y) > 0.97
    True

    The cheaper way, with 50 random rows as the basis (`RBFSampler` in the place of `Nystroem` takes random Fourier
    features instead):

    >>> from sklearn.kernel_approximation import Nystroem
    >>> from sklearn.pipeline import make_pipeline
    >>> rbf = Nystroem(gamma=0.5, n_components=50, random_state=0)
    >>> make_pipeline(rbf, StructuralSVM(Multiclass(), C=10.0)).fit(X, y).score(X, y) > 0.97
    True
    """

    warm_start = online = False
    task_: KernelTask = field(init=False)
    constraints: ClassVar = {
        "task": instance("a Multiclass, LatentMulticlass or Measure task", Multiclass, LatentMulticlass, Measure),
        "kernel": options(*NAMES) | function,
        "gamma": GAMMA,
        "degree": integer(1),
        "coef0": real(),
        "cuts": options("auto", "all") | integer(1),
        "basis_tol": real(0.0, closed="left"),
        "max_basis": integer(1) | None,
        "init": options("task", "random"),
    }

    task: BaseTask = field(kw_only=False)
    kernel: Any = field(default="rbf", kw_only=False)
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 1.0
    C: float | str | AutoC = 1.0
    cuts: Any = "auto"
    basis_tol: float = 1e-8
    max_basis: int | None = None
    solver: str | BaseSolver | None = "auto"
    init: str = "task"
    restarts: int | None = None
    random_state: int | None = 0
    tol: float | None = None
    max_iter: int | None = None
    max_seconds: float | None = None
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: folds of a precomputed kernel are cut both ways."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags

    @property
    def dual_coef_(self) -> NDArray[np.float64]:
        """Coefficients of the support rows, (B, V)."""
        return self.coef_[: len(self.support_) * n_vectors(self.task_)].reshape(len(self.support_), -1)

    @property
    def n_features_in_(self) -> int:
        """Number of features of each row of X, or of training rows if the kernel is precomputed."""
        if not hasattr(self, "_n_features"):
            raise AttributeError(f"this {type(self).__name__} has no n_features_in_: it is not fitted")
        return self._n_features

    @property
    def feature_weights_(self) -> NDArray[np.float64]:
        """Not defined: features have no weights of their own."""
        raise AttributeError("a kernel model has no feature_weights_: use StructuralSVM")

    @property
    def n_basis_(self) -> int:
        """Number of support rows."""
        return len(self.support_)

    @property
    def states_(self) -> NDArray[np.float64]:
        """Not defined: the states of a kernel model have no weights of their own to be measured."""
        raise AttributeError("a kernel model has no states_: use LatentSSVM to compare and prune states")

    def prune(self, *args: Any, **kwargs: Any) -> Self:
        """Not supported for kernels; raises InputError."""
        raise InputError("KernelStructuralSVM", self, "a linear model whose states can be pruned", "Use LatentSSVM.")

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        callback: Callback | None = None,
        H: Any = None,
        checkpoint: Any = None,
        groups: Any = None,
    ) -> Self:
        """Train on examples X with outputs y.

        Parameters
        ----------
        X, y : collections of length n
            As the task describes them, or X the kernel matrix (n, n) if it is precomputed.
        sample_weight, callback, H, checkpoint, groups
            As in the other estimators; no sample_weight for `Measure`, and no checkpoint for sampled cuts.

        Returns
        -------
        self
            Also after Ctrl-C, with the best weights so far.
        """
        refuse_stored(self, X)
        given = self._read(FitInputs(X, y, sample_weight, callback, H, checkpoint=checkpoint, groups=groups))
        n_jobs, task = self._check_fit(given)
        if isinstance(self.kernel, str) and self.kernel == "precomputed" and task.latent:
            raise InputError("kernel", self.kernel, "a function of two matrices of rows for LatentMulticlass")
        task.learn(given.X, given.Y)
        layout = self._layout(cast(KernelTask, task), given.X)
        rows = self._kernel_rows(layout.matrix)
        limited = self.max_basis is not None
        exact = self.cuts == "all" or (self.cuts == "auto" and (limited or rows.n_rows <= EXACT_ROWS))
        if exact:
            self._fit_exactly(layout, rows, given)
        elif checkpoint is not None:
            expected = f"None for sampled cuts (here {rows.n_rows} rows), whose state is not stored"
            raise InputError("checkpoint", checkpoint, expected, "Or set `cuts` to 'all'.")
        else:
            self._fit_sampled(layout, rows, given, n_jobs)
        self.gamma_ = rows.kernel.gamma if isinstance(rows, FeatureRows) else 1.0
        self._n_features = layout.matrix.shape[1]
        return self

    @staticmethod
    def _layout(task: KernelTask, X: Any) -> RowLayout:
        """Return the rows of X for a task that knows their number of inputs."""
        if not isinstance(task, LatentMulticlass):
            matrix = with_own_indices(check_matrix(X, "X"))
            task.prepare(matrix)
            return RowLayout(matrix)
        batch = task.prepare(X)
        matrix = check_matrix(batch.inputs.matrix, "X")
        return RowLayout(matrix, None if batch.shared else np.diff(batch.offsets))

    def _kernel_rows(self, matrix: Any) -> KernelRows:
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            return GramRows.checked(matrix)
        return FeatureRows(matrix, self._kernel(resolve_gamma(self.gamma, matrix)))

    def _kernel(self, gamma: float) -> Kernel:
        return Kernel(self.kernel, gamma, self.degree, self.coef0)

    def _fit_exactly(self, layout: RowLayout, rows: KernelRows, given: FitInputs) -> None:
        """Train the linear model in the coordinates of the kernel."""
        found = factorize(rows, self.basis_tol, self.max_basis, EXACT_BYTES)
        # A kernel that is zero everywhere leaves one coordinate, the same for all.
        inputs = found.rows if len(found.pivots) else np.zeros((rows.n_rows, 1))
        self._fit(given._replace(X=layout.rebuilt(inputs)))
        self.sampled_, self.kernel_error_ = False, found.error
        limited = self.max_basis is not None and len(found.pivots) == self.max_basis
        beyond = found.remainders.max() > self.basis_tol * rows.diagonal().max()
        self.certified_ = self.certified_ and not (limited and beyond)
        width = n_vectors(self.task_)
        weights, constants = np.split(self.coef_, [inputs.shape[1] * width])
        self._express(layout, found.pivots, found.expansion(weights.reshape(-1, width)), constants)

    def _fit_sampled(self, layout: RowLayout, rows: KernelRows, given: FitInputs, n_jobs: int) -> None:
        """Train by sampled cuts on the scores of all rows, which are the weights of a task with unit vectors for X."""
        if self.solver != "auto":
            raise InputError("solver", self.solver, "'auto' for sampled cuts", "Or set `cuts` to 'all'.")
        check_kernel(rows)
        task, objective, finalize = self._score_objective(layout, given)
        objective = objective.divided(n_jobs)
        biased = task.biased_
        solver: BaseSolver = SampledCuts(
            rows,
            SAMPLE if self.cuts == "auto" else int(self.cuts),
            float(task.bias) ** 2 if biased else 0.0,
            random_state=self.random_state,
        )
        limits = {"tol": self.tol, "max_iter": self.max_iter, "max_seconds": self.max_seconds}
        solver.set_params(**{name: value for name, value in limits.items() if value is not None})
        callback = IterationPrinter() if given.callback is None and self.verbose else given.callback
        if task.latent:
            solver = CCCP(solver, solver.tol, max_seconds=solver.max_seconds, restarts=self.restarts or 1)
        begin_callback(callback, solver, objective, several=True)
        result = solver.minimize(objective, callback=callback)
        function = result.state
        self.task_ = finalize(result.w)
        self._store_result(result)
        self.sampled_, self.kernel_error_ = True, 0.0
        constants = task.bias * function.coefficients.sum(axis=0) if biased else np.zeros(0)
        self._express(layout, np.arange(rows.n_rows), function.coefficients, constants)
        self._warn(result, solver)

    def _score_objective(
        self, layout: RowLayout, given: FitInputs
    ) -> tuple[KernelTask, Objective, Callable[[Vector], KernelTask]]:
        """Return the task, its objective as a function of all scores, and what makes the task out of final scores."""
        task, Y, H = cast(KernelTask, copied(self.task)), given.Y, given.H
        task.learn(given.X, Y)
        batch: Any = task.prepare(given.X, Y)
        unit = sparse.eye_array(layout.matrix.shape[0], format="csr")
        by_scores = with_inputs(task, unit.shape[0], bias=0.0)
        scored: Any
        if task.latent:
            scored = replace(batch, inputs=InputRows(unit, n_vectors(by_scores)))
        else:
            scored = by_scores.prepare(unit, Y)
        objective = self._objective(by_scores, scored, self._weights(batch.n_examples, given.sample_weight))
        if task.latent:
            latents = LatentStarts(cast(LatentTask, task), batch, self.init, H, self.random_state)
            objective = replace(objective, starts=ScoreStarts(latents, by_scores, scored))
        elif H is not None:
            raise InputError("H", H, f"None for {type(task).__name__}, which has no latent variables")

        def settled(scores: Vector) -> KernelTask:
            by_scores.finalize(scored, scores)
            return with_inputs(by_scores, task.n_inputs_, bias=task.bias)

        return task, objective, settled

    def _express(
        self, layout: RowLayout, pivots: Indices, coefficients: NDArray[np.float64], constants: Vector
    ) -> None:
        """Keep the rows that support the solution and their coefficients."""
        sizes = np.abs(coefficients).max(axis=1, initial=0.0)
        kept = np.flatnonzero(sizes > NEGLIGIBLE * sizes.max(initial=0.0))
        if len(kept) == 0:
            # Weights that are all zero still need a support row.
            pivots, coefficients, kept = np.zeros(1, dtype=np.int64), np.zeros((1, coefficients.shape[1])), np.arange(1)
        kept = kept[np.argsort(pivots[kept])]
        self.support_ = pivots[kept]
        self.support_vectors_ = None if self.kernel == "precomputed" else layout.matrix[self.support_]
        self.task_ = with_inputs(self.task_, len(kept))
        self.coef_ = np.concatenate([coefficients[kept].ravel(), constants])

    def _scoring(self, X: Any, Y: Any = None) -> tuple[BaseTask, Batch, Vector]:
        """Return a task that reads scores, a batch with those of X and the weights that pass them on."""
        check_weights(self)
        refuse_stored(self, X)
        layout = self._layout(with_inputs(self.task_, self.n_features_in_), self._read_rows(X))
        coefficients = self.dual_coef_
        if self.support_vectors_ is None:
            scores = layout.matrix[:, self.support_] @ coefficients
        else:
            scores = expand(self._kernel(self.gamma_), layout.matrix, self.support_vectors_, coefficients)
        width = coefficients.shape[1]
        reader = with_inputs(self.task_, width)
        weights = np.concatenate([np.eye(width).ravel(), self.coef_[coefficients.size :]])
        return reader, reader.prepare(layout.rebuilt(scores), Y), weights

    def _stored_batches(self, data: Any) -> Any:
        refuse_stored(self, data)

    def _decoded(self, X: Any) -> Any:
        reader, batch, weights = self._scoring(X)
        return reader.decode(batch, weights, Temperature())

    def _scores_of(self, X: Any) -> Any:
        reader, batch, weights = self._scoring(X)
        return reader.scores(batch, weights)

    @available_if(is_latent)
    def complete(self, X: Any, y: Any = None) -> list[Any]:
        """Return the best latent state of each example given its known class."""
        refuse_stored(self, X)
        require_outputs(y, USE_PREDICT_LATENT)
        reader, batch, weights = self._scoring(X, y)
        return list(reader.complete(batch, weights))

    def marginals(self, X: Any) -> Any:
        """Not supported; raises InputError."""
        self._soft_temperature()

    def calibrate(self, X: Any, y: Any) -> Self:
        """Not supported; raises InputError."""
        self._soft_temperature()
        return self

    def _saved_parts(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what a model file needs in addition to weights: arrays, and plain values."""
        arrays: dict[str, NDArray[Any]] = {"support": self.support_}
        vectors: Any = self.support_vectors_
        if issparse(vectors):
            arrays |= {"indptr": vectors.indptr, "indices": vectors.indices, "vectors": vectors.data}
        elif vectors is not None:
            arrays["vectors"] = vectors
        names = ("gamma_", "kernel_error_", "sampled_", "n_features_in_")
        return arrays, {name: getattr(self, name) for name in names}

    def _restore_parts(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Restore what `_saved_parts` returned; raise InputError unless it fits the weights."""
        check_parameters(self)
        self.gamma_, self.kernel_error_ = float(values["gamma_"]), float(values["kernel_error_"])
        self.sampled_, self._n_features = bool(values["sampled_"]), int(values["n_features_in_"])
        self.support_ = np.asarray(arrays["support"])
        real(0.0, closed="left").check(self.gamma_, "gamma_")
        n_support, shape = self.task_.n_inputs_, (self.task_.n_inputs_, self.n_features_in_)
        whole = self.support_.dtype.kind == "i" and self.support_.shape == (n_support,)
        self.support_vectors_ = None
        if self.kernel == "precomputed":
            whole = whole and self.support_.min() >= 0 and self.support_.max() < self.n_features_in_
        elif "indptr" in arrays:
            parts = (arrays["vectors"], arrays["indices"], arrays["indptr"])
            self.support_vectors_ = sparse.csr_array(parts, shape=shape)
            self.support_vectors_.check_format()
        else:
            self.support_vectors_ = arrays["vectors"]
            whole = whole and self.support_vectors_.shape == shape and self.support_vectors_.dtype == np.float64
        if not whole or not all(np.isfinite(array).all() for array in arrays.values()):
            got, expected = Description("other support rows"), f"the {n_support} finite rows that the weights refer to"
            raise InputError("support", got, expected)
