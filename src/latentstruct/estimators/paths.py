"""Models over a range of group-norm strengths: which latent states stay as the regularizer grows."""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import issparse
from latentstruct.core.parameters import clone
from latentstruct.core.regularizers import GroupNorm
from latentstruct.core.types import Vector
from latentstruct.core.validation import check_parameters, function, integer, numbers_of, real
from latentstruct.estimators.latent import LatentSSVM
from latentstruct.estimators.rows import are_rows, as_classes, as_rows
from latentstruct.exceptions import ConvergenceWarning, Description, InputError
from latentstruct.solvers.base import ENDINGS
from latentstruct.tasks.classes.latent_multiclass import LatentMulticlass
from latentstruct.tasks.classes.states import ABSENT

__all__ = ["GroupNormPath", "groupnorm_path", "largest_strength"]


@dataclass(frozen=True)
class GroupNormPath:
    """Trained models for strengths λ_1 < … < λ_K of a group norm.

    Attributes
    ----------
    strengths : ndarray of shape (K,)
        λ, ascending.
    models : list of LatentSSVM
        The fitted estimators.
    """

    strengths: Vector
    models: list[LatentSSVM]

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.models)

    def model(self, k: int) -> LatentSSVM:
        """Return the fitted estimator of strength number k."""
        return self.models[k]

    @property
    def coefs(self) -> NDArray[np.float64]:
        """Weights, (K, d)."""
        return np.stack([model.coef_ for model in self.models])

    @property
    def norms(self) -> NDArray[np.float64]:
        """Norm of the weights of each class and state, (K, S, H)."""
        return np.stack([model.states_ for model in self.models])

    @property
    def objectives(self) -> Vector:
        """Objectives, (K,)."""
        return np.array([model.objective_ for model in self.models])

    @property
    def n_states(self) -> NDArray[np.int64]:
        """Number of states whose weights are not zero, all classes together, (K,)."""
        return (self.norms > 0).sum(axis=(1, 2))


def groupnorm_path(
    estimator: LatentSSVM,
    X: Any,
    Y: Any,
    *,
    strengths: Any = None,
    n_strengths: int = 12,
    ratio: float = 1e-4,
    H: Any = None,
    callback: Callable[[float, LatentSSVM], bool | None] | None = None,
    verbose: bool = False,
    max_seconds: float | None = None,
) -> GroupNormPath:
    """Train λ Σ_p a_p‖w^p‖ + C Σ_i (f⁺_i(w) − f⁻_i(w)) for a range of strengths λ.

    Parameters
    ----------
    estimator : LatentSSVM
        What to train: a `LatentMulticlass` with weights "state". Its regularizer is a `GroupNorm` with the groups
        "states" or "shared_states" and weights a_p, by default ``GroupNorm("states")``.
    X, Y : collections of length n
        As the task describes them.
    strengths : array of shape (K,), optional
        Values of λ above 0, in any order; by default `n_strengths` between `largest_strength` and `ratio` times that,
        evenly in their logarithms.
    n_strengths, ratio : number
        How many, and how far down.
    H : sequence of length n, optional
        Initial latent values of the first model, that of the smallest λ; by default those of the estimator.
    callback : callable, optional
        Called with λ and the fitted model after each complete training. If it returns True, the path ends there.
    verbose : bool, default=False
        Whether to print a line for each model.
    max_seconds : float, optional
        Limit of the whole path.

    Returns
    -------
    GroupNormPath
        The models, λ ascending. Also after Ctrl-C or `max_seconds`, with a `ConvergenceWarning` and the models up to
        then: the last may be one whose training was cut short (its ``stop_reason_`` is "interrupted" or "callback"),
        with the best weights it had.

    Notes
    -----
    The path goes from the smallest λ up, each model beginning with the weights of the one before, so that none is
    higher than those weights are at its own λ. The opposite way begins near w = 0, where states are alike, and keeps
    what it takes up first: on three pairs of digits (11 strengths each) it never gave an objective below that of a
    single training, while the way up did so in two cases of three.

    ``solver=Proximal(direct=False)`` saves time: used after the first model, a tenth to a third of that of the path.
    On five pairs of digits (6 strengths each) no objective changed by more than 0.01 %, with all ten digits one of six
    rose by 5 %. Soft descents are not what to save: without them objectives were up to 1.7 times as high.
    """
    (function | None).check(callback, "callback")
    (real(0.0, closed="right") | None).check(max_seconds, "max_seconds")
    norm = _group_norm(estimator)
    clock = _Clock(math.inf if max_seconds is None else max_seconds)
    if strengths is None:
        strengths = _spread(largest_strength(estimator, X, Y), n_strengths, ratio)
    walk = _Walk(_check_strengths(strengths), clock)

    def untrained(strength: float) -> LatentSSVM:
        scaled = GroupNorm(norm.groups, strength * np.asarray(norm.weights))
        return clone(estimator).set_params(regularizer=scaled)

    walk.go(untrained, X, Y, H, callback, verbose)
    if walk.cause:
        walk.warn()
    return GroupNormPath(walk.strengths[: len(walk.models)], walk.models)


@dataclass
class _Clock:
    """Time since it was made, and whether that is too much."""

    limit: float
    began: float = field(default_factory=time.perf_counter)

    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def is_late(self, line: Any = None) -> bool:
        """Return whether the time is up; also a callback of solvers."""
        return self.seconds() >= self.limit


@dataclass
class _Walk:
    """The way up the strengths: the models so far, and what ended it before the last of them was trained, if so."""

    strengths: Vector
    clock: _Clock
    models: list[LatentSSVM] = field(default_factory=list)
    cause: str = ""

    def go(
        self,
        untrained: Callable[[float], LatentSSVM],
        X: Any,
        Y: Any,
        H: Any,
        callback: Callable[[float, LatentSSVM], bool | None] | None,
        verbose: bool,
    ) -> None:
        """Train a model for each strength; Ctrl-C ends that where there are models to keep."""
        try:
            for strength in self.strengths:
                start = {"coef_init": self.models[-1].coef_} if self.models else {"H": H}
                model = _fit(untrained(strength), X, Y, callback=self.clock.is_late, **start)
                self.models.append(model)
                self.cause = self._cause_to_stop()
                if verbose:
                    print(self._line(), flush=True)
                if model.stop_reason_ not in ENDINGS and callback is not None and callback(float(strength), model):
                    break
                if self.cause:
                    break
        except KeyboardInterrupt:
            if not self.models:
                raise
            self.cause = "interrupted"

    def _cause_to_stop(self) -> str:
        """Return why the path is to end before its last model is trained, or nothing."""
        reason = self.models[-1].stop_reason_
        if reason == "interrupted":
            return "interrupted"
        unfinished = reason == "callback" or len(self.models) < len(self.strengths)
        return "max_seconds" if unfinished and self.clock.is_late() else ""

    def _line(self) -> str:
        n, model = len(self.models), self.models[-1]
        return (
            f"strength {n:3d} of {len(self.strengths)}  λ {self.strengths[n - 1]:.4g}  "
            f"objective {model.objective_:.6g}  {(model.states_ > 0).sum()} of {model.states_.size} states  "
            f"{self.clock.seconds():.1f} s"
        )

    def warn(self) -> None:
        """Warn that the path ended early."""
        done = f"{len(self.models)} of {len(self.strengths)} strengths"
        cure = " Raise the limit, or give fewer strengths." if self.cause == "max_seconds" else ""
        warnings.warn(
            f"the path stopped early ({self.cause}) after {done}; those that are done are kept.{cure}",
            ConvergenceWarning,
            stacklevel=3,
        )


def _fit(model: LatentSSVM, X: Any, Y: Any, **start: Any) -> LatentSSVM:
    with warnings.catch_warnings():
        # At the end of the path weights of zero are what is wanted.
        warnings.filterwarnings("ignore", "training ended at w = 0", ConvergenceWarning)
        return model.fit(X, Y, **start)


def _group_norm(estimator: object) -> GroupNorm:
    """Return the regularizer of an estimator; raise if the path of its strengths is not defined."""
    if not isinstance(estimator, LatentSSVM):
        raise InputError("estimator", estimator, "a LatentSSVM")
    if not isinstance(estimator.task, LatentMulticlass) or estimator.task.weights != "state":
        raise InputError("task", estimator.task, "LatentMulticlass(weights='state')")
    check_parameters(estimator)
    norm = GroupNorm() if estimator.regularizer is None else estimator.regularizer
    if not isinstance(norm, GroupNorm) or not isinstance(norm.groups, str):
        raise InputError("regularizer", norm, "a GroupNorm of the groups 'states' or 'shared_states'")
    check_parameters(norm)
    return norm


def _spread(highest: float, n_strengths: int, ratio: float) -> Vector:
    integer(1).check(n_strengths, "n_strengths")
    real(0.0, 1.0).check(ratio, "ratio")
    return np.geomspace(ratio * highest, highest, n_strengths) if n_strengths > 1 else np.array([highest])


def _check_strengths(strengths: Any) -> Vector:
    values = np.sort(numbers_of(strengths, "strengths").ravel())
    if len(values) == 0 or not (np.isfinite(values).all() and values[0] > 0):
        raise InputError("strengths", strengths, "at least one finite number, all above 0")
    return values


def largest_strength(estimator: LatentSSVM, X: Any, Y: Any) -> float:
    """Return a strength λ at which w = 0 is the best of all weights; smaller ones may do too.

    Let Δ_i be the largest cost of example i, and K_i the number of candidates that have it. From f⁺_i(w) ≥ Δ_i + (the
    mean score of these) and f⁻_i(w) ≤ Σ_h max(0, s(y_i, h)) follows that no w is better than 0 if λ a_p ≥ Σ_i
    c_i|v·x_i(h)| for each group (y, h) and unit vector v, where c_i is C for the examples of class y, C/K_i where y is
    a costliest class, else 0. By Cauchy's inequality √(Σ_i c_i · μ) suffices, μ the largest eigenvalue of Σ_i c_i
    x_i(h)x_i(h)ᵀ.
    """
    real(0.0).check(estimator.C, "C")
    norm, C = _group_norm(estimator), cast(float, estimator.C)
    task: Any = clone(estimator.task)
    if are_rows(task, X):
        X, Y = as_rows(X, type(task).__name__), as_classes(task, Y)
    task.learn(X, Y)
    batch, bound = task.prepare(X, Y), norm.bind(task)
    index, factors = bound.index_, bound.weights_
    pulls, costs = np.zeros(task.n_vectors_), task.costs_
    listed = (task.vector_of_ > ABSENT).sum(axis=1)
    costliest = (costs == costs.max(axis=1, keepdims=True)) & (costs > 0)
    shares = costliest / np.maximum(costliest @ listed, 1)[:, None] + np.eye(len(costs))
    members = [np.flatnonzero(batch.truth == y) for y in range(len(costs))]
    sizes = np.array([len(rows) for rows in members])
    for h in task.needed_states_:
        moments = np.stack([_second_moments(batch.rows_of_state(int(h), rows), task.bias) for rows in members])
        for y in np.flatnonzero(task.vector_of_[:, h] >= 0):
            moment = np.tensordot(shares[:, y], moments, axes=1)
            pulls[task.vector_of_[y, h]] = C * math.sqrt(shares[:, y] @ sizes * np.linalg.eigvalsh(moment)[-1])
    # The vectors of one group pull together.
    together = np.sqrt(np.bincount(index[: task.n_vectors_], pulls**2, minlength=len(factors)))
    needed = together > 0
    if not (needed.any() and (factors[needed] > 0).all()):
        hint = "Otherwise set `strengths`: there is no smallest one at which all weights are zero."
        if needed.any():
            raise InputError("weights", norm.weights, "above 0", hint)
        raise InputError("X", Description("zeros only"), "different from 0", hint)
    return float((together[needed] / factors[needed]).max())


def _second_moments(x: Any, bias: float) -> NDArray[np.float64]:
    """Return Σ_i x_i x_iᵀ of rows with the constant feature, if there is one."""
    rows = x.toarray() if issparse(x) else x
    if bias:
        rows = np.column_stack([rows, np.full(len(rows), bias)])
    return rows.T @ rows
