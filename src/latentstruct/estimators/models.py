"""The estimators people type: each fixes temperatures, margin and regulariser of the one objective."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from latentstruct.checks import check_choice, check_flag
from latentstruct.estimators.base import BaseStructuredEstimator
from latentstruct.exceptions import InputError
from latentstruct.objective import Objective, Rescaling, build_objective
from latentstruct.oracles import RenyiOracle
from latentstruct.protocols import Mode, Prediction, Regularizer, Result, Temperature
from latentstruct.ragged import Vector
from latentstruct.regularizers import L2, NoRegularizer
from latentstruct.short_repr import show
from latentstruct.solvers import (
    Perceptron,
)
from latentstruct.solvers.base import BaseSolver

SIDES: tuple[Mode, Mode] = ("augmented", "clamped")


def _refuse_latents(estimator: Any, task: Any, cure: str) -> None:
    if task.latent:
        raise InputError(
            f"{type(task).__name__} has latent variables, for which {type(estimator).__name__} is not defined: "
            f"use {cure}"
        )


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
        "auto" picks by what was measured; names are block_ascent, bundle, cutting_plane, frank_wolfe, subgradient,
        lbfgs and proximal.
    init, restarts, random_state
        Where training with latent variables begins; see `LatentSSVM`.
    tol, max_rounds, max_seconds : number, optional
        Override the solver's own.
    warm_start : bool, default=False
        Start from the previous fit.
    verbose : bool, default=False
        Print a line for each round.
    n_jobs : int, optional
        Threads that ask the oracle and decode, by default one for each core; results do not depend on their number.
    executor : "dask", "local" or distributed.Client, optional
        Where examples are put to the oracle: on the workers of a Dask cluster, or here but divided as on a cluster; by
        default here, all together. See :doc:`/scale`.
    cache_mb : float, optional
        Megabytes that a solver may keep planes in; by default its own limit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import Multiclass, StructuredEstimator
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuredEstimator(Multiclass(bias=1.0), temperature=(0.5, 0)).fit(X, y)  # between an SVM and a CRF
    >>> model.score(X, y) > 0.95
    True
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
        init: str = "task",
        restarts: int | None = None,
        random_state: int | None = 0,
        tol: float | None = None,
        max_rounds: int | None = None,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: bool = False,
        n_jobs: int | None = None,
        executor: Any = None,
        cache_mb: float | None = None,
    ) -> None:
        self.task = task
        self.C = C
        self.temperature = temperature
        self.margin = margin
        self.rescaling = rescaling
        self.regularizer = regularizer
        self.solver = solver
        self.init = init
        self.restarts = restarts
        self.random_state = random_state
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.executor = executor
        self.cache_mb = cache_mb

    def _temperature(self) -> Temperature:
        try:
            output, latent = self.temperature
            temperature = Temperature(float(output), float(latent))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"temperature must be a pair (output, latent), found {show(self.temperature)}: give two numbers such "
                "as (1, 0)"
            ) from error
        if not all(math.isfinite(value) and value >= 0 for value in temperature):
            raise InputError(
                f"temperatures must be finite and ≥ 0, found {show(self.temperature)}: choose a pair such as (1, 0)"
            )
        return temperature

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        check_choice(self.rescaling, ("margin", "slack"), "rescaling")
        check_flag(self.margin, "margin")
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
    n_jobs : int, optional
        Threads that ask the oracle and decode, by default one for each core; results do not depend on their number.
    executor : "dask", "local" or distributed.Client, optional
        Where examples are put to the oracle: on the workers of a Dask cluster, or here but divided as on a cluster; by
        default here, all together. See :doc:`/scale`.
    cache_mb : float, optional
        Megabytes that a solver may keep planes in; by default its own limit.

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
        n_jobs: int | None = None,
        executor: Any = None,
        cache_mb: float | None = None,
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
        self.n_jobs = n_jobs
        self.executor = executor
        self.cache_mb = cache_mb

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        check_choice(self.rescaling, ("margin", "slack"), "rescaling")
        _refuse_latents(self, task, "LatentSSVM or MarginalSSVM")
        return build_objective(task, batch, weights, Temperature(), rescaling=self.rescaling)


class LatentEstimator(BaseStructuredEstimator):
    """What estimators with latent variables are given: see `LatentSSVM`."""

    def __init__(
        self,
        task: Any,
        C: float = 1.0,
        init: str = "task",
        restarts: int | None = None,
        random_state: int | None = 0,
        solver: Any = "auto",
        tol: float | None = None,
        max_rounds: int | None = None,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: bool = False,
        regularizer: Regularizer | None = None,
        n_jobs: int | None = None,
        executor: Any = None,
        cache_mb: float | None = None,
    ) -> None:
        self.task = task
        self.C = C
        self.init = init
        self.restarts = restarts
        self.random_state = random_state
        self.solver = solver
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose
        self.regularizer = regularizer
        self.n_jobs = n_jobs
        self.executor = executor
        self.cache_mb = cache_mb

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        return build_objective(task, batch, weights, self._temperature(), regularizer=self.regularizer)


class LatentSSVM(LatentEstimator):
    """Latent structural SVM: ½‖w‖² + C Σ_i (max_{y,h} [Δ(y_i, y, h) + s_i(y, h)] − max_h s_i(y_i, h)).

    s_i(y, h) = w·φ(x_i, y, h). Trained by CCCP: complete each example with its best latent, solve the convex rest,
    repeat; the objective never rises. Without latent variables this is `StructuralSVM`.

    Parameters
    ----------
    task : Task
        The structure, such as `Motif`, `Coreference`, `PrecisionAtK` or `LatentMulticlass`.
    C : float, default=1.0
        Weight of each example (there is no 1/n).
    init : {"task", "random"}, default="task"
        First latents: by the task's own rule (enriched k-mers for motifs, chronological chains for coreference, a
        weighted classifier for precision at k), which is random where it has none, or at random. `fit` takes latents
        (``H``) or weights (``coef_init``) of your own.
    restarts : int, optional
        Number of starts, 1 by default; the best objective is kept, all are in ``restart_objectives_``.
    random_state : int or None, default=0
        Seed of the first latents; None for other ones at each fit.
    solver : "auto", name or solver, default="auto"
        `CCCP` or `SelfPaced`, or what is to solve the convex problems inside CCCP: a solver, or its name (block_ascent,
        bundle, cutting_plane, frank_wolfe, lbfgs). "subgradient" does without CCCP.
    tol, max_rounds, max_seconds : number, optional
        Override those of CCCP; tol is the relative decrease at which it stops.
    warm_start : bool, default=False
        Make one start, from the weights of the previous fit (unless ``H`` is given); on the same data keep its planes.
    verbose : bool, default=False
        Print a line for each round.
    regularizer : Regularizer, optional
        Ω, by default ½‖w‖². `GroupNorm` chooses latent states; "auto" then trains by `Proximal`.
    n_jobs : int, optional
        Threads that ask the oracle and decode, by default one for each core; results do not depend on their number.
    executor : "dask", "local" or distributed.Client, optional
        Where examples are put to the oracle: on the workers of a Dask cluster, or here but divided as on a cluster; by
        default here, all together. See :doc:`/scale`.
    cache_mb : float, optional
        Megabytes that a solver may keep planes in; by default its own limit.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import LatentMulticlass, LatentSSVM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 2))  # 60 examples with 5 latent states each
    >>> y = rng.integers(0, 2, 60)
    >>> X[np.arange(60), rng.integers(0, 5, 60)] += 6.0 * (2 * y[:, None] - 1)  # one of them tells the class
    >>> model = LatentSSVM(LatentMulticlass(), C=1.0, restarts=3).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """


class MarginalSSVM(LatentEstimator):
    """Marginal structured SVM: latents are summed out, not maximised, before outputs are compared.

    ½‖w‖² + C Σ_i (max_y [Δ(y_i, y) + log Σ_h exp s_i(y, h)] − log Σ_h exp s_i(y_i, h)), s_i(y, h) = w·φ(x_i, y, h).
    Predictions are marginal MAP: argmax_y log Σ_h exp s(y, h). Better than `LatentSSVM` where latents stay uncertain,
    as missing labels do. Without latent variables both are `StructuralSVM`.

    Parameters
    ----------
    task : Task
        A structure with soft inference, such as `Graph`, `Chain` with unknown labels, `LatentMulticlass` or `Motif`.
    C : float, default=1.0
        Weight of each example (there is no 1/n).
    init, restarts, random_state
        Where training begins; see `LatentSSVM`. w = 0, where all latents are alike, is a saddle.
    solver : "auto", name or solver, default="auto"
        "auto" is `LBFGS` on the difference itself, outputs pooled softly at a temperature that is lowered bit by bit,
        and `CCCP` where inference is approximate. `CCCP` solves convex problems in turn, "subgradient" takes plain
        steps (Algorithms 2 and 1 of the paper).
    tol, max_rounds, max_seconds : number, optional
        Override the solver's own.
    warm_start : bool, default=False
        Start from the weights of the previous fit; CCCP also keeps its planes on the same data.
    verbose : bool, default=False
        Print a line for each round.
    regularizer : Regularizer, optional
        Ω, by default ½‖w‖²; see `LatentSSVM`.
    n_jobs : int, optional
        Threads that ask the oracle and decode, by default one for each core; results do not depend on their number.
    executor : "dask", "local" or distributed.Client, optional
        Where examples are put to the oracle: on the workers of a Dask cluster, or here but divided as on a cluster; by
        default here, all together. See :doc:`/scale`.
    cache_mb : float, optional
        Megabytes that a solver may keep planes in; by default its own limit.

    Notes
    -----
    Ping, Liu & Ihler (2014). `marginals` are those of P(y, h | x) ∝ exp s(y, h), the model behind the prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import Chain, MarginalSSVM
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 3, 10) for _ in range(40)]
    >>> X = [np.eye(3)[y] + rng.normal(size=(10, 3)) for y in Y]
    >>> half = [np.where(rng.random(10) < 0.5, -1, y) for y in Y]  # −1: the label is unknown
    >>> model = MarginalSSVM(Chain(), C=0.1).fit(X, half)
    >>> model.score(X, Y) > 0.6
    True
    """

    def _temperature(self) -> Temperature:
        return Temperature(0.0, 1.0)


class HiddenCRF(LatentEstimator):
    """Hidden conditional random field: ½‖w‖² − C Σ_i log Σ_h P(y_i, h | x_i), P(y, h | x) ∝ exp w·φ(x, y, h).

    Predictions are marginal MAP: argmax_y Σ_h P(y, h | x). Without latent variables this is `CRF`.

    Parameters
    ----------
    task : Task
        A structure with soft inference, such as `Graph`, `Chain` with unknown labels, `LatentMulticlass` or `Motif`.
    C : float, default=1.0
        Weight of each example (there is no 1/n).
    init, restarts, random_state
        Where training begins; see `LatentSSVM`. w = 0, where all latents are alike, is a saddle.
    solver : "auto", name or solver, default="auto"
        "auto" is `LBFGS` on the difference itself; `CCCP` and "subgradient" serve too.
    tol, max_rounds, max_seconds : number, optional
        Override the solver's own.
    warm_start : bool, default=False
        Start from the previous fit.
    verbose : bool, default=False
        Print a line for each round.
    regularizer : Regularizer, optional
        Ω, by default ½‖w‖²; see `LatentSSVM`.
    n_jobs : int, optional
        Threads that ask the oracle and decode, by default one for each core; results do not depend on their number.
    executor : "dask", "local" or distributed.Client, optional
        Where examples are put to the oracle: on the workers of a Dask cluster, or here but divided as on a cluster; by
        default here, all together. See :doc:`/scale`.
    cache_mb : float, optional
        Megabytes that a solver may keep planes in; by default its own limit.

    Notes
    -----
    Quattoni, Wang, Morency, Collins & Darrell (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import Chain, HiddenCRF
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 3, 5).repeat(2) for _ in range(40)]  # labels that come in pairs
    >>> X = [np.eye(3)[y] + rng.normal(size=(10, 3)) for y in Y]
    >>> half = [np.where(rng.random(10) < 0.5, -1, y) for y in Y]  # −1: the label is unknown
    >>> model = HiddenCRF(Chain(), C=0.1).fit(X, half)
    >>> model.score(X, Y) > 0.6
    True
    """

    def _temperature(self) -> Temperature:
        return Temperature(1.0, 1.0)

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        return build_objective(task, batch, weights, self._temperature(), margin=False, regularizer=self.regularizer)


class MinEntropySSVM(LatentEstimator):
    """Max-margin min-entropy model (M3E): latents are pooled by Rényi entropy, which favours certain ones.

    ½‖w‖² + C Σ_i (max_y [Δ(y_i, y) + G_α(y)] − G_α(y_i)),
    G_α(y) = [log Σ_h exp α s(y, h) − log Σ_h exp s(y, h)]/(α − 1).
    Predictions are argmax_y G_α(y). α → ∞ is `LatentSSVM`; α = 1 is the limit E[s(y, h)] under P(h | y) ∝ exp s(y, h).

    Parameters
    ----------
    task : Task
        `Graph` with exact inference, `LatentMulticlass` or a `CandidateTask`.
    C : float, default=1.0
        Weight of each example (there is no 1/n).
    alpha : float, default=2.0
        Order of the entropy, above 0; for `Graph` not 1.
    init, restarts, random_state
        Where training begins; see `LatentSSVM`.
    solver : "auto", name or solver, default="auto"
        "auto" is `LBFGS` with outputs pooled softly at a temperature that is lowered bit by bit. The objective is no
        difference of convex functions, so only it and "subgradient" serve.
    tol, max_rounds, max_seconds : number, optional
        Override the solver's own.
    warm_start : bool, default=False
        Start from the weights of the previous fit.
    verbose : bool, default=False
        Print a line for each round.
    n_jobs : int, optional
        Threads that ask the oracle and decode, by default one for each core; results do not depend on their number.
    executor : "dask", "local" or distributed.Client, optional
        Where examples are put to the oracle: on the workers of a Dask cluster, or here but divided as on a cluster; by
        default here, all together. See :doc:`/scale`.
    cache_mb : float, optional
        Megabytes that a solver may keep planes in; by default its own limit.

    Notes
    -----
    Miller, Kumar, Packer, Goodman & Koller (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import LatentMulticlass, MinEntropySSVM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 2))  # 60 examples with 5 latent states each
    >>> y = rng.integers(0, 2, 60)
    >>> X[np.arange(60), rng.integers(0, 5, 60)] += 6.0 * (2 * y[:, None] - 1)  # one of them tells the class
    >>> model = MinEntropySSVM(LatentMulticlass(), C=1.0, alpha=2.0, restarts=3).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        task: Any,
        C: float = 1.0,
        alpha: float = 2.0,
        init: str = "task",
        restarts: int | None = None,
        random_state: int | None = 0,
        solver: Any = "auto",
        tol: float | None = None,
        max_rounds: int | None = None,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: bool = False,
        n_jobs: int | None = None,
        executor: Any = None,
        cache_mb: float | None = None,
    ) -> None:
        super().__init__(
            task,
            C,
            init,
            restarts,
            random_state,
            solver,
            tol,
            max_rounds,
            max_seconds,
            warm_start,
            verbose,
            n_jobs=n_jobs,
            executor=executor,
            cache_mb=cache_mb,
        )
        self.alpha = alpha

    trains_in_shards = False

    def _order(self) -> float:
        if not (isinstance(self.alpha, (int, float, np.number)) and math.isfinite(self.alpha) and self.alpha > 0):
            raise InputError(
                f"alpha must be a finite number above 0, found {show(self.alpha)}: choose such a number, or use "
                "LatentSSVM for infinity"
            )
        return float(self.alpha)

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        order = self._order()
        if not task.latent:
            return build_objective(task, batch, weights, Temperature())
        if not hasattr(task, "renyi_planes"):
            raise InputError(
                f"{type(task).__name__} cannot pool latents by Rényi entropy: use MarginalSSVM, or write the structure "
                "as a CandidateTask"
            )
        plus, minus = (RenyiOracle(task, batch, weights, mode, order) for mode in SIDES)
        return Objective(L2(), plus, minus)

    def _scores(self, batch: Any) -> Any:
        if not self.task_.latent:
            return super()._scores(batch)
        return self.task_.renyi_scores(batch, self.coef_, self._order())

    def _decode_block(self, X: Any) -> Sequence[Prediction]:
        if not self.task_.latent:
            return super()._decode_block(X)
        return list(self.task_.renyi_decode(self._prepared(X), self.coef_, self._order()))


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
    n_jobs : int, optional
        Threads that ask the oracle and decode, by default one for each core; results do not depend on their number.
    executor : "dask", "local" or distributed.Client, optional
        Where examples are put to the oracle: on the workers of a Dask cluster, or here but divided as on a cluster; by
        default here, all together. See :doc:`/scale`.
    cache_mb : float, optional
        Megabytes that a solver may keep planes in; by default its own limit.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import CRF, Chain
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 3, 5).repeat(2) for _ in range(40)]  # labels that come in pairs
    >>> X = [np.eye(3)[y] + rng.normal(size=(10, 3)) for y in Y]
    >>> model = CRF(Chain(), C=1.0).fit(X, Y)
    >>> model.marginals(X[:1])[0].shape  # the probability of each label of each token
    (10, 3)
    >>> model.certified_
    True
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
        n_jobs: int | None = None,
        executor: Any = None,
        cache_mb: float | None = None,
    ) -> None:
        self.task = task
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.executor = executor
        self.cache_mb = cache_mb

    def _temperature(self) -> Temperature:
        return Temperature(1.0, 0.0)

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        _refuse_latents(self, task, "HiddenCRF")
        return build_objective(task, batch, weights, self._temperature(), margin=False)


class StructuredPerceptron(BaseStructuredEstimator):
    """Averaged structured perceptron: online, no margin, no regulariser; its only bound is 0.

    That bound is reached where all training examples are predicted rightly, and says nothing elsewhere.

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
    n_jobs : int, optional
        Threads that decode, by default one for each core; training is online and has one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import Multiclass, StructuredPerceptron
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuredPerceptron(Multiclass(bias=1.0)).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    C = 1.0
    solver: Any = None
    tol: float | None = None

    random_state: int

    def __init__(
        self,
        task: Any,
        max_rounds: int = 20,
        average: bool = True,
        max_seconds: float | None = None,
        random_state: int = 0,
        warm_start: bool = False,
        verbose: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.task = task
        self.max_rounds = max_rounds
        self.average = average
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs

    def _objective(self, task: Any, batch: Any, weights: Vector) -> Objective:
        return build_objective(task, batch, weights, Temperature(), margin=False, regularizer=NoRegularizer())

    def _solver(self, objective: Objective) -> BaseSolver:
        seconds = math.inf if self.max_seconds is None else self.max_seconds
        rounds = 20 if self.max_rounds is None else self.max_rounds
        return Perceptron(rounds, seconds, self.average, random_state=self.random_state)

    def _warn(self, result: Result, solver: BaseSolver) -> None:
        # Ending at max_rounds is the ordinary way for a perceptron.
        if result.reason != "max_rounds":
            super()._warn(result, solver)
