"""Models for all strengths C of an interval: certified regularization paths."""

import math
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Result
from latentstruct.core.types import Vector
from latentstruct.core.validation import as_reals, copied, is_real
from latentstruct.estimators.base import FitInputs, RegularizedEstimator
from latentstruct.exceptions import ConvergenceWarning, InputError
from latentstruct.planes.store import PlaneStore
from latentstruct.solvers.base import ENDINGS
from latentstruct.solvers.block_ascent import BlockAscent
from latentstruct.solvers.bundle import MOST_PLANES
from latentstruct.solvers.hinge import HingeSolver
from latentstruct.solvers.path import PathPoint, Segment, bounding_plane, follow, risk_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RegularizationPath", "regularization_path"]

CERTIFIED = {"convex", "l2"}
# Models per factor of 10 in C where the path between them is not certified.
PER_DECADE = 5
# Iterations of block ascent before its progress is checked. Most values of C need few more, from those of another C.
PATIENCE = 20
Score = Callable[[Any], float]


@dataclass(frozen=True)
class RegularizationPath:
    """Models over a range of C; made by `regularization_path`.

    Attributes
    ----------
    Cs : ndarray of shape (K,)
        Values of C at which models were trained, ascending.
    objectives, lower_bounds : ndarray of shape (K,)
        Their objectives, and lower bounds of the minima (−inf where there is none).
    scores : ndarray of shape (K,)
        Their held-out scores, NaN without `score`.
    spreads : ndarray of shape (K,)
        Relative difference between the objectives that several starts reached; 0 where the objective is convex.
    segment_gaps : ndarray of shape (K - 1,)
        Upper bound of the relative gap of interpolated weights between neighbors, NaN where it is not known.
    certified : bool
        Whether the relative gap is at most `tol` for every C from Cs[0] to Cs[-1]; see `model`.
    tol : float
        The tolerance.
    n_oracle_calls : int
        Number of calls of the augmented oracle for one example.

    See Also
    --------
    regularization_path : Computes it.
    """

    Cs: Vector
    objectives: Vector
    lower_bounds: Vector
    scores: Vector
    spreads: Vector
    segment_gaps: Vector
    certified: bool
    tol: float
    n_oracle_calls: int
    _models: "Models" = field(repr=False)
    _weights: Sequence[Vector] = field(repr=False)
    _segments: Sequence[Segment] = field(repr=False)
    _has_bounds: bool = field(repr=False)

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.Cs)

    @property
    def coefs(self) -> NDArray[np.float64]:
        """Weights of the trained models, (K, d); a new array."""
        return np.stack(self._weights)

    @property
    def gaps(self) -> Vector:
        """Relative gaps of the trained models, (K,)."""
        return (self.objectives - self.lower_bounds) / np.maximum(np.abs(self.objectives), 1e-300)

    @property
    def best_C(self) -> float:
        """The C of the highest held-out score, the smallest of several."""
        if np.isnan(self.scores).all():
            raise InputError("score", None, "given to `regularization_path`, so that models can be compared")
        return float(self.Cs[np.nanargmax(self.scores)])

    def model(self, C: float) -> RegularizedEstimator:
        """Return the fitted estimator for any C of the interval.

        Between trained models the weights are interpolated. ``objective_`` is then an upper bound of their objective.
        Without certificates, only the trained values of C are possible.
        """
        if not (is_real(C) and self.Cs[0] <= C <= self.Cs[-1]):
            raise InputError("C", C, f"between {self.Cs[0]:g} and {self.Cs[-1]:g}")
        k = min(bisect_right(self.Cs, C) - 1, max(len(self) - 2, 0))
        nearest = k + int(len(self) > 1 and self.Cs[k + 1] == C)
        if self.Cs[nearest] == C:
            objective, bound = float(self.objectives[nearest]), float(self.lower_bounds[nearest])
            return self._models(C, _result(self._weights[nearest].copy(), objective, bound, self._has_bounds))
        if not self._has_bounds:
            raise InputError("C", C, "one of `Cs`, as models of latent variables are not interpolated")
        return self._models(C, _result(*self._segments[k].at(C), True))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw objective and lower bound over C, with the held-out scores on a second axis if there are some.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
            The axes of the objective.
        """
        from latentstruct.viz.plots.training import plot_regularization_path

        return plot_regularization_path(self, ax)


def _result(w: Vector, objective: float, lower_bound: float, certified: bool) -> Result:
    return Result(w, objective, min(lower_bound, objective), 0, 0, "converged", certified, [])


def regularization_path(
    estimator: RegularizedEstimator,
    X: Any,
    Y: Any = None,
    *,
    Cs: Any = None,
    C_min: float = 1e-3,
    C_max: float = 1e2,
    tol: float = 1e-3,
    sample_weight: Any = None,
    score: Score | None = None,
    callback: Callable[[float, RegularizedEstimator], bool | None] | None = None,
    verbose: bool = False,
    max_seconds: float | None = None,
) -> RegularizationPath:
    """Train an estimator for all C of an interval.

    For the hinge without latent variables (`StructuralSVM`), values of C are chosen so that interpolated weights have a
    relative gap of at most `tol` for every C of the interval. Planes and dual variables found at one C are kept for the
    next, since they are valid at every C. For other convex objectives (`CRF`), the gap is at most `tol` at each trained
    C, and each model starts from the weights of the one before.

    With latent variables each model is trained from the weights of the one before, with its planes, and from its own
    initial latents; the lower objective is kept, and the difference is in ``spreads``.

    Parameters
    ----------
    estimator : estimator
        What to train; its own `C` is not used.
    X, Y : collections of length n
        As the task describes them.
    Cs : array of shape (K,), optional
        Train at these values only. By default they are chosen between `C_min` and `C_max`: as the certificate needs
        them, or five per factor of 10.
    C_min, C_max : float, default=1e-3 and 1e2
        The interval.
    tol : float, default=1e-3
        Relative gap to certify at every C.
    sample_weight : array of shape (n,), optional
        Factors of C for the examples.
    score : callable, optional
        Takes a fitted model and returns its held-out score; higher is better.
    callback : callable, optional
        Called with C and the model after each training. If it returns True, the path ends there.
    verbose : bool, default=False
        Whether to print a line per model.
    max_seconds : float, optional
        Limit of the whole path.

    Returns
    -------
    RegularizationPath
        The models. Also after Ctrl-C or `max_seconds`, with a `ConvergenceWarning` and the models up to then.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import Multiclass, StructuralSVM, regularization_path
    >>> X, y = load_iris(return_X_y=True)
    >>> held_out = lambda model: model.score(X[::3], y[::3])
    >>> path = regularization_path(StructuralSVM(Multiclass(bias=1.0)), X[1::3], y[1::3], C_max=10.0, score=held_out)
    >>> path.certified, bool(path.model(0.5).relative_gap_ <= 1e-3)
    (True, True)
    """
    wanted = _check(estimator, Cs, C_min, C_max, tol, max_seconds)
    limit = math.inf if max_seconds is None else max_seconds
    with _walk(estimator, FitInputs(X, Y, sample_weight), tol, limit) as walk:
        walk.go(walk.found(wanted, Cs is None), score, callback, verbose)
    return walk.path(float(wanted[-1]))


@contextmanager
def _walk(estimator: RegularizedEstimator, given: FitInputs, tol: float, limit: float = math.inf) -> Iterator["_Walk"]:
    """Prepare the objective for C = 1."""
    unit = copied(estimator).set_params(C=1.0)
    given = unit._read(given)
    with unit._composed(given) as (task, data, objective):
        yield _Walk(unit, given, objective, tol, limit, Models(partial(unit._model_at, task, data.batch)))


def path_models(
    estimator: RegularizedEstimator, given: FitInputs, Cs: Sequence[float], tol: float
) -> Iterator[RegularizedEstimator]:
    """Yield the models of ascending values of C, one at a time.

    A convex objective is minimized to the relative gap `tol`, from the planes of the values before. With latent
    variables there is one start for all values: each model is trained from the weights of the one before.
    """
    with _walk(copied(estimator).set_params(tol=tol), given, tol) as walk:
        results: Iterator[Result]
        if walk.has_bounds:
            results = (point.result for point in walk.at_each(np.array(Cs)))
        else:
            results = walk.from_one_start(Cs)
        for C, result in zip(Cs, results, strict=True):
            if result.reason == "interrupted":
                raise KeyboardInterrupt
            yield walk.model(C, result)


class _Trained(NamedTuple):
    """What was reached at one C; `point` is None without a certificate."""

    C: float
    result: Result
    spread: float = 0.0
    point: PathPoint | None = None


@dataclass(frozen=True)
class Models:
    """Makes the estimators of results."""

    fitted: Callable[[Vector], RegularizedEstimator]
    separate: dict[float, Result] = field(default_factory=dict)
    """Results of non-convex objectives, which may have more than weights, such as θ of `ModLat`."""

    def __call__(self, C: float, result: Result) -> RegularizedEstimator:
        """Return the fitted estimator of a result."""
        model = self.fitted(result.w)
        model.C = model.C_ = C
        model._store_result(self.separate.get(C, result))
        return model


@dataclass
class _Walk:
    """The way up the values of C."""

    unit: RegularizedEstimator
    given: FitInputs
    objective: Objective
    tol: float
    limit: float
    model: Models
    trained: list[_Trained] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    calls: int = 0
    cause: str = ""
    state: Any = None
    began: float = field(default_factory=time.perf_counter)

    @property
    def has_bounds(self) -> bool:
        """Whether planes bound the minimum from below."""
        return self.objective.properties >= CERTIFIED and not self.objective.plus.approximate

    def found(self, wanted: Vector, chooses: bool) -> Iterator[_Trained]:
        """Return the results at the wanted values of C, or at chosen ones between the first and the last."""
        low, high = float(wanted[0]), float(wanted[-1])
        Cs = _grid(low, high) if chooses else wanted
        if not self.has_bounds:
            return self.fits(Cs)
        # Risks that are smooth bend between neighbors, so that few interpolated weights would meet the tolerance.
        if not chooses or "smooth" in self.objective.properties:
            return self.certified(self.at_each(Cs))
        return self.certified(follow(self.solve, low, high, self.tol))

    def is_late(self, line: Any = None) -> bool:
        """Return whether the time is up; also a callback of solvers."""
        return time.perf_counter() - self.began >= self.limit

    def solve(self, C: float, w0: Vector | None, precision: float) -> PathPoint:
        """Minimize at C from the planes found so far."""
        objective = self.objective.reweighted(C * self.objective.weights)
        solver = self.unit._solver(objective).set_params(tol=precision)
        if isinstance(solver, BlockAscent | HingeSolver):
            # The dual variables of a near C are good ones.
            solver.set_params(settle=False)
        if isinstance(solver, HingeSolver):
            # A bundle of few weights is complete after few planes, which hold at every C. For many weights, the next C
            # had better start from dual variables of single examples, which a bundle does not have.
            few = objective.n_features <= MOST_PLANES
            solver.set_params(bundle=few, **({} if self.state is None else {"patience": PATIENCE}))
        result = self._minimized(solver, objective, w0, self.state)
        self.state = result.state
        masses = result.state.masses() if isinstance(result.state, PlaneStore) else None
        return PathPoint(C, result.w, risk_of(result, C), bounding_plane(objective, result), result, masses)

    def certified(self, points: Iterator[PathPoint]) -> Iterator[_Trained]:
        """Yield what was reached at points of a certified path."""
        for point in points:
            yield _Trained(point.C, point.result, point=point)

    def at_each(self, Cs: Vector) -> Iterator[PathPoint]:
        """Yield minimizers at given values of C."""
        last: PathPoint | None = None
        for C in map(float, Cs):
            last = self.solve(C, None if last is None else last.w, self.tol)
            yield last

    def from_one_start(self, Cs: Sequence[float]) -> Iterator[Result]:
        """Yield results of a non-convex objective, each found from the weights of the one before."""
        last: Result | None = None
        for C in Cs:
            objective = self.objective.reweighted(C * self.objective.weights)
            solver = self.unit._solver(objective)
            last = solver.minimize(objective) if last is None else solver.minimize(objective, last.w, state=last.state)
            yield last
            self.unit.restarts = None

    def fits(self, Cs: Vector) -> Iterator[_Trained]:
        """Yield results of a non-convex objective, for each C the better one of two starts."""
        last: Result | None = None
        for C in map(float, Cs):
            objective = self.objective.reweighted(C * self.objective.weights)
            solver = self.unit._solver(objective)
            starts = [self._minimized(solver, objective)]
            if last is not None:
                starts.append(self._minimized(solver, objective, last.w, state=last.state))
            values = [result.objective for result in starts]
            last = min(starts, key=lambda result: result.objective)
            self.model.separate[C] = replace(last, state=None)
            self.model(C, last)._warn(last, solver)
            spread = (max(values) - min(values)) / max(abs(min(values)), 1e-300)
            yield _Trained(C, last, spread)

    def _minimized(self, solver: Any, objective: Objective, w0: Vector | None = None, state: Any = None) -> Result:
        """Minimize in the remaining time."""
        result = solver.minimize(objective, w0, state=state, callback=self.is_late)
        self.calls += result.oracle_calls
        self._stop_at(result.reason)
        return cast(Result, result)

    def _stop_at(self, reason: str) -> None:
        """Leave the path where a training was cut short, unless it is the first, which is kept."""
        if reason in ENDINGS or self.is_late():
            self.cause = "interrupted" if reason == "interrupted" else "max_seconds"
            if self.trained:
                raise _Stopped

    def go(self, found: Iterator[_Trained], score: Score | None, callback: Any, verbose: bool) -> None:
        """Train one model after the other."""
        try:
            for one in found:
                model = self.model(one.C, one.result)
                self.scores.append(math.nan if score is None else float(score(model)))
                self._keep(one)
                if verbose:
                    print(self._line(), flush=True)
                if self.cause or (callback is not None and callback(one.C, model)):
                    return
        except _Stopped:
            return
        except KeyboardInterrupt:
            if not self.trained:
                raise
            self.cause = "interrupted"

    def _keep(self, one: _Trained) -> None:
        """Keep what was reached at one C; of the C before, no planes and dual variables are needed further."""
        if self.trained and one.point is not None:
            before = self.trained[-1]
            assert before.point is not None
            self.segments.append(Segment.between(before.point, one.point))
            self.trained[-1] = before._replace(result=replace(before.result, state=None), point=None)
        self.trained.append(one)

    def _line(self) -> str:
        one, seconds = self.trained[-1], time.perf_counter() - self.began
        score = "" if math.isnan(self.scores[-1]) else f"  score {self.scores[-1]:.4f}"
        return f"C {one.C:.4g}  objective {one.result.objective:.6g}{score}  {self.calls} oracle calls  {seconds:.1f} s"

    def path(self, last: float) -> RegularizationPath:
        """Return the models so far, with a warning if there are not all."""
        gaps = [segment.excess(self.tol) + self.tol for segment in self.segments]
        results = [one.result for one in self.trained]
        own = [result.gap <= self.tol * abs(result.objective) for result in results]
        certified = self.has_bounds and all(own) and all(result.certified for result in results)
        certified = certified and max(gaps, default=0.0) <= self.tol
        Cs = np.array([one.C for one in self.trained])
        if self.cause:
            warnings.warn(
                f"the path stopped early ({self.cause}) at C = {Cs[-1]:.4g} of {last:.4g}; the models up to there are "
                "kept",
                ConvergenceWarning,
                stacklevel=3,
            )
        return RegularizationPath(
            Cs,
            np.array([result.objective for result in results]),
            np.array([result.lower_bound for result in results]),
            np.array(self.scores),
            np.array([one.spread for one in self.trained]),
            np.array(gaps) if self.has_bounds else np.full(len(Cs) - 1, math.nan),
            certified,
            self.tol,
            self.calls,
            self.model,
            [result.w for result in results],
            self.segments,
            self.has_bounds,
        )


def _grid(low: float, high: float) -> Vector:
    return np.geomspace(low, high, max(2, 1 + round(PER_DECADE * math.log10(high / low))))


class _Stopped(Exception):
    """A training was cut short."""


def _check(estimator: Any, Cs: Any, C_min: Any, C_max: Any, tol: Any, max_seconds: Any) -> Vector:
    """Check the arguments; return the values of C, or the ends of their interval."""
    if not isinstance(estimator, RegularizedEstimator):
        raise InputError("estimator", estimator, "an estimator such as StructuralSVM(Chain())")
    for name, value in (("C_min", C_min), ("C_max", C_max), ("tol", tol)):
        if not (is_real(value) and 0 < value < math.inf):
            raise InputError(name, value, "a finite number above 0")
    if max_seconds is not None and not (is_real(max_seconds) and max_seconds > 0):
        raise InputError("max_seconds", max_seconds, "a number above 0, or None for no limit")
    if Cs is None:
        if C_min >= C_max:
            raise InputError("C_min", C_min, f"below `C_max`={C_max}")
        return np.array([C_min, C_max], dtype=np.float64)
    try:
        values = np.unique(as_reals(Cs).ravel())
    except (TypeError, ValueError) as error:
        raise InputError("Cs", Cs, "numbers") from error
    if len(values) == 0 or not (values[0] > 0 and math.isfinite(values[-1])):
        raise InputError("Cs", Cs, "at least one finite number, all above 0")
    return values
