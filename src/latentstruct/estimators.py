"""Estimators: a task, an objective and a solver put together the way scikit-learn users expect."""

import math
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from latentstruct.exceptions import ConvergenceWarning, InputError
from latentstruct.objective import Objective, Rescaling, build_objective
from latentstruct.protocols import Callback, Prediction, Regularizer, Result, Round, Temperature
from latentstruct.ragged import Vector
from latentstruct.regularizers import L2, NoRegularizer
from latentstruct.solvers import (
    LBFGS,
    BlockAscent,
    Bundle,
    CuttingPlane,
    FrankWolfe,
    HingeSolver,
    Perceptron,
    Subgradient,
)
from latentstruct.solvers.base import BaseSolver

SOLVERS: dict[str, type[BaseSolver]] = {
    "block_ascent": BlockAscent,
    "bundle": Bundle,
    "cutting_plane": CuttingPlane,
    "frank_wolfe": FrankWolfe,
    "subgradient": Subgradient,
    "lbfgs": LBFGS,
}


# Parameters that change nothing in the planes of single examples.
STATE_FREE = ("C", "solver", "tol", "max_rounds", "max_seconds", "warm_start", "verbose")


DECODED_TOGETHER = 256


def choose_solver(objective: Objective) -> BaseSolver:
    """Return the solver that was fastest in measurements for objectives of this kind.

    L-BFGS where everything is smooth; block ascent for the hinge (with the bundle in reserve); the bundle where there
    is one example only, so that blocks mean nothing.
    """
    if "smooth" in objective.properties:
        return LBFGS()
    if "convex" not in objective.properties:
        raise InputError(
            "this task has latent variables, so its objective with a hard max is not convex and no solver here fits; "
            "give all temperatures a value above 0, or use a task without latents"
        )
    if objective.n_examples == 1 or "planes" not in objective.properties:
        return Bundle()
    return HingeSolver()


def print_round(line: Round) -> None:
    """Print one round of a solver."""
    about = "~" if line.estimate else " "
    print(
        f"round {line.round:4d}  objective {about}{line.objective:.6g}  bound {line.lower_bound:.6g}  "
        f"gap {line.gap:.3g}  oracle calls {line.oracle_calls}  {line.seconds:.1f} s",
        flush=True,
    )


def _has(name: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "task_", self.task), name))


class BaseStructuredEstimator(BaseEstimator):
    """Common part of all estimators; subclasses fix temperature, margin and regulariser.

    Fitted attributes
    -----------------
    task_ : Task
        The task with what it learned from the data.
    coef_ : ndarray of shape (d,)
        w.
    objective_, lower_bound_ : float
        The objective at w, and a value no weights can go below (−inf if the solver has none).
    gap_, relative_gap_ : float
        Their difference, absolute and divided by the objective.
    certified_ : bool
        Whether the bound is one (exact inference).
    n_rounds_, n_oracle_calls_ : int
        Rounds of the solver, and how many times an example was put to the augmented oracle.
    stop_reason_ : str
        Why training stopped.
    history_ : list of Round
        A line for each round.
    """

    task: Any
    C: float
    solver: Any
    tol: float | None
    max_rounds: int | None
    max_seconds: float | None
    warm_start: bool
    verbose: bool

    def _temperature(self) -> Temperature:
        return Temperature()

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        return build_objective(task, batch, weights, self._temperature())

    def _solver(self, objective: Objective) -> BaseSolver:
        if isinstance(self.solver, str):
            if self.solver == "auto":
                solver = choose_solver(objective)
            elif self.solver in SOLVERS:
                solver = SOLVERS[self.solver]()
            else:
                raise InputError(
                    f"unknown solver {self.solver!r}: choose 'auto', {', '.join(map(repr, SOLVERS))} or give a solver"
                )
        elif isinstance(self.solver, type) or not hasattr(self.solver, "minimize"):
            raise InputError(f"solver must be a name or a solver such as BlockAscent(), found {self.solver!r}")
        else:
            solver = clone(self.solver)
        limits = {"tol": self.tol, "max_rounds": self.max_rounds, "max_seconds": self.max_seconds}
        return solver.set_params(**{name: value for name, value in limits.items() if value is not None})

    def _weights(self, n_examples: int, sample_weight: Any) -> Vector:
        if not (isinstance(self.C, (int, float, np.number)) and math.isfinite(self.C) and self.C > 0):
            raise InputError(f"C must be a finite number above 0, found {self.C!r}")
        if sample_weight is None:
            return np.full(n_examples, float(self.C))
        try:
            weights = np.asarray(sample_weight, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"sample_weight must be numbers: {error}") from error
        if weights.shape != (n_examples,):
            raise InputError(f"sample_weight must have shape ({n_examples},), found {weights.shape}")
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise InputError("sample_weight must be finite and ≥ 0, with at least one value above 0")
        return float(self.C) * weights

    def fit(self, X: Any, Y: Any, sample_weight: Any = None, callback: Callback | None = None) -> Self:
        """Train on examples X with outputs Y.

        Parameters
        ----------
        X, Y : collections of length n
            As the task describes them.
        sample_weight : array of shape (n,), optional
            Factors of C for the examples.
        callback : callable, optional
            Called with a `Round` after each round; a true answer stops training with the best weights so far.

        Returns
        -------
        self
            Also after Ctrl-C, with the best weights so far.
        """
        if isinstance(self.task, type) or not hasattr(self.task, "learn"):
            raise InputError(f"task must be a task such as Chain(), found {self.task!r}")
        if Y is None:
            raise InputError("Y is missing: training needs one output for each example")
        task = clone(self.task)
        task.learn(X, Y)
        batch = task.prepare(X, Y)
        objective = self._objective(task, batch, self._weights(batch.n_examples, sample_weight))
        solver = self._solver(objective)
        fingerprint = self._fingerprint(solver, X, Y) if self.warm_start else ""
        w0, state = self._start(task, fingerprint)
        if callback is None and self.verbose:
            callback = print_round
        result = solver.minimize(objective, w0, state=state, callback=callback)
        self.task_ = task
        self._take(result)
        self._state = (fingerprint, result.state) if self.warm_start else None
        if hasattr(task, "n_inputs_"):
            self.n_features_in_ = task.n_inputs_
        self._warn(result, solver.tol)
        return self

    def _start(self, task: Any, fingerprint: str) -> tuple[Vector | None, Any]:
        """Return weights and solver state to start from: those of an earlier fit if they still fit."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None, None
        same_structure = len(self.coef_) == task.n_features and _state_of(self.task_) == _state_of(task)
        if not same_structure:
            return None, None
        # Planes belong to the data and settings they were found with; weights may serve for others too.
        earlier, state = getattr(self, "_state", None) or ("", None)
        return self.coef_, state if earlier == fingerprint else None

    def _fingerprint(self, solver: BaseSolver, X: Any, Y: Any) -> str:
        """Return a checksum of all that a solver's state depends on: data, solver and what shapes planes."""
        settings = {
            name: value
            for name, value in self.get_params().items()
            if name.split("__")[0] not in STATE_FREE and not hasattr(value, "get_params")
        }
        parts = (type(solver).__name__, joblib.hash(X), joblib.hash(Y), joblib.hash(settings))
        return ":".join(map(str, parts))

    def _take(self, result: Result) -> None:
        self.coef_ = result.w
        self.objective_, self.lower_bound_, self.gap_ = result.objective, result.lower_bound, result.gap
        self.relative_gap_ = result.gap / max(abs(result.objective), 1e-12)
        self.certified_ = result.certified
        self.n_rounds_, self.n_oracle_calls_ = result.n_rounds, result.oracle_calls
        self.stop_reason_, self.history_ = result.reason, result.history

    def _warn(self, result: Result, tol: float) -> None:
        unfinished = math.isfinite(result.gap) and self.relative_gap_ > tol and result.reason == "stalled"
        if unfinished or result.reason in ("max_rounds", "max_seconds", "interrupted"):
            gap = f"relative gap {self.relative_gap_:.2g}" if math.isfinite(result.gap) else "no bound"
            cure = "" if result.reason == "interrupted" else " Raise the limit, scale the features or lower C."
            warnings.warn(
                f"training stopped early ({result.reason}) after {result.n_rounds} rounds with {gap}; the best weights "
                f"so far are kept.{cure}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _decoded(self, X: Any) -> list[Prediction]:
        check_is_fitted(self, "coef_")
        if hasattr(X, "shape") or not hasattr(X, "__len__") or len(X) <= DECODED_TOGETHER:
            return self._decode_block(X)
        # Laid out block by block, the inputs stay in the cache between copying, checking and scoring.
        blocks = [X[start : start + DECODED_TOGETHER] for start in range(0, len(X), DECODED_TOGETHER)]
        try:
            if not getattr(self.task_, "decodes_in_threads", False):
                decoded = [self._decode_block(block) for block in blocks]
            else:
                with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as threads:
                    decoded = list(threads.map(self._decode_block, blocks))
        except InputError:
            # Asked for all at once, the error names the example by its place in X.
            self.task_.prepare(X)
            raise
        return [prediction for block in decoded for prediction in block]

    def _decode_block(self, X: Any) -> list[Prediction]:
        return list(self.task_.decode(self.task_.prepare(X), self.coef_, self._temperature()))

    def predict(self, X: Any) -> Any:
        """Return the best output of each example."""
        outputs = [prediction.y for prediction in self._decoded(X)]
        collect = getattr(self.task_, "collect", None)
        return outputs if collect is None else collect(outputs)

    @_has("scores")
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of all outputs, shape (n, S), where the task can list them."""
        check_is_fitted(self, "coef_")
        return self.task_.scores(self.task_.prepare(X), self.coef_)

    @_has("marginals")
    def marginals(self, X: Any) -> Any:
        """Return the probabilities of the labels at the model's output temperature (which must be above 0)."""
        check_is_fitted(self, "coef_")
        temperature = self._temperature()
        if temperature.output == 0:
            raise InputError(
                f"{type(self).__name__} maximises over outputs (output temperature 0) and has no probabilities: use "
                "CRF, or StructuredEstimator with a temperature above 0"
            )
        return self.task_.marginals(self.task_.prepare(X), self.coef_, temperature)

    def loss(self, X: Any, Y: Any) -> Vector:
        """Return the loss Δ(y_i, ŷ_i) of each example's prediction."""
        predicted = self.predict(X)
        return self.task_.loss(Y, predicted)

    def score(self, X: Any, Y: Any, sample_weight: Any = None) -> float:
        """Return the task's quality measure of the predictions (accuracy for labels)."""
        predicted = self.predict(X)
        return self.task_.score(Y, predicted, sample_weight)

    def save(self, path: str | Path) -> None:
        """Write the trained model to a folder of JSON and safetensors (see `latentstruct.load`)."""
        from latentstruct.persistence import save_model

        check_is_fitted(self, "coef_")
        save_model(path, self)


def _state_of(task: Any) -> Any:
    return task.state() if hasattr(task, "state") else None


class StructuredEstimator(BaseStructuredEstimator):
    """The general estimator: Ω(w) + C Σ_i [f⁺_i(w) − f⁻_i(w)] at any temperatures.

    f⁺_i pools s(y, h) + Δ_i(y, h) over y at ε_y and over h at ε_h; f⁻_i pools s(y_i, h) over h at ε_h.

    Parameters
    ----------
    task : Task
        The structure.
    C : float, default=1.0
        Weight of each example against the regulariser.
    temperature : tuple (ε_y, ε_h), default=(0, 0)
        Exactly 0 is the hard max.
    margin : bool, default=True
        Whether the loss enters.
    rescaling : {"margin", "slack"}, default="margin"
        How it enters.
    regularizer : Regularizer, optional
        Ω, by default ½‖w‖².
    solver : "auto", name or solver, default="auto"
        "auto" picks by what was measured; names are block_ascent, bundle, cutting_plane, frank_wolfe, subgradient
        and lbfgs.
    tol, max_rounds, max_seconds : number, optional
        Override the solver's own.
    warm_start : bool, default=False
        Start from the previous fit.
    verbose : bool, default=False
        Print a line for each round.
    """

    def __init__(
        self,
        task: Any,
        C: float = 1.0,
        temperature: tuple[float, float] = (0.0, 0.0),
        margin: bool = True,
        rescaling: Rescaling = "margin",
        regularizer: Regularizer | None = None,
        solver: Any = "auto",
        tol: float | None = None,
        max_rounds: int | None = None,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.task = task
        self.C = C
        self.temperature = temperature
        self.margin = margin
        self.rescaling = rescaling
        self.regularizer = regularizer
        self.solver = solver
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose

    def _temperature(self) -> Temperature:
        try:
            temperature = Temperature(*(float(value) for value in self.temperature))
        except (TypeError, ValueError) as error:
            raise InputError(f"temperature must be a pair (output, latent), found {self.temperature!r}") from error
        if not all(math.isfinite(value) and value >= 0 for value in temperature):
            raise InputError(f"temperatures must be finite and ≥ 0, found {self.temperature!r}")
        return temperature

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        if self.rescaling not in ("margin", "slack"):
            raise InputError(f"rescaling must be 'margin' or 'slack', found {self.rescaling!r}")
        regularizer = L2() if self.regularizer is None else self.regularizer
        return build_objective(task, batch, weights, self._temperature(), self.margin, self.rescaling, regularizer)


class StructuralSVM(BaseStructuredEstimator):
    """Structural SVM: ½‖w‖² + C Σ_i max_y [Δ(y_i, y) + w·φ(x_i, y) − w·φ(x_i, y_i)].

    Parameters
    ----------
    task : Task
        The structure.
    C : float, default=1.0
        Weight of each example (there is no 1/n).
    rescaling : {"margin", "slack"}, default="margin"
        Slack rescaling is C Σ_i max_y Δ(y_i, y)·[1 + w·φ(x_i, y) − w·φ(x_i, y_i)].
    solver : "auto", name or solver, default="auto"
        See `StructuredEstimator`.
    tol, max_rounds, max_seconds : number, optional
        Override the solver's own; tol is the relative duality gap to certify.
    warm_start : bool, default=False
        Start from the previous fit; on the same data its planes are kept, so that a path over C is cheap.
    verbose : bool, default=False
        Print a line for each round.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import Multiclass, StructuralSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuralSVM(Multiclass(bias=1.0), C=1.0).fit(X, y)
    >>> bool(model.relative_gap_ < 1e-3)
    True
    """

    def __init__(
        self,
        task: Any,
        C: float = 1.0,
        rescaling: Rescaling = "margin",
        solver: Any = "auto",
        tol: float | None = None,
        max_rounds: int | None = None,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.task = task
        self.C = C
        self.rescaling = rescaling
        self.solver = solver
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        if self.rescaling not in ("margin", "slack"):
            raise InputError(f"rescaling must be 'margin' or 'slack', found {self.rescaling!r}")
        return build_objective(task, batch, weights, Temperature(), rescaling=self.rescaling)


class CRF(BaseStructuredEstimator):
    """Conditional random field: ½‖w‖² − C Σ_i log P(y_i | x_i), P(y | x) ∝ exp w·φ(x, y).

    Parameters
    ----------
    task : Task
        A structure with soft inference, such as `Chain` or `Multiclass`.
    C : float, default=1.0
        Weight of each example (there is no 1/n).
    solver : "auto", name or solver, default="auto"
        See `StructuredEstimator`; "auto" is L-BFGS.
    tol, max_rounds, max_seconds : number, optional
        Override the solver's own; tol is the relative gap to certify.
    warm_start : bool, default=False
        Start from the previous fit.
    verbose : bool, default=False
        Print a line for each round.
    """

    def __init__(
        self,
        task: Any,
        C: float = 1.0,
        solver: Any = "auto",
        tol: float | None = None,
        max_rounds: int | None = None,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.task = task
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose

    def _temperature(self) -> Temperature:
        return Temperature(1.0, 0.0)

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        return build_objective(task, batch, weights, self._temperature(), margin=False)


class StructuredPerceptron(BaseStructuredEstimator):
    """Averaged structured perceptron: online, no margin, no regulariser, no bound.

    Parameters
    ----------
    task : Task
        The structure.
    max_rounds : int, default=20
        Passes over the data.
    average : bool, default=True
        Average the weights over all steps.
    max_seconds : float, optional
        Limit.
    random_state : int, default=0
        Seed of the order of examples.
    warm_start : bool, default=False
        Start from the previous fit's weights.
    verbose : bool, default=False
        Print a line for each pass.
    """

    C = 1.0
    solver: Any = None
    tol: float | None = None

    def __init__(
        self,
        task: Any,
        max_rounds: int = 20,
        average: bool = True,
        max_seconds: float | None = None,
        random_state: int = 0,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.task = task
        self.max_rounds = max_rounds
        self.average = average
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        return build_objective(task, batch, weights, Temperature(), margin=False, regularizer=NoRegularizer())

    def _solver(self, objective: Objective) -> BaseSolver:
        seconds = math.inf if self.max_seconds is None else self.max_seconds
        rounds = 20 if self.max_rounds is None else self.max_rounds
        return Perceptron(rounds, seconds, self.average, random_state=self.random_state)

    def _warn(self, result: Result, tol: float) -> None:
        # Ending at max_rounds is the ordinary way for a perceptron.
        if result.reason != "max_rounds":
            super()._warn(result, tol)
