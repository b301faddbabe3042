"""Cross-validation: folds of examples, scores per fold, and the choice of C by them."""

import math
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.callers import user_stacklevel
from latentstruct.core.formatting import short_repr
from latentstruct.core.parameters import Parametrized, clone
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import boolean, check_length, check_parameters, copied, function, integer, real
from latentstruct.estimators.identity import as_text, described
from latentstruct.estimators.stored import refuse_stored
from latentstruct.exceptions import InputError
from latentstruct.parallel.threads import effective_jobs, one_blas_thread, thread_map
from latentstruct.persistence.checkpoints import Checkpoint, probe, read_checkpoint, write_checkpoint
from latentstruct.persistence.fingerprint import digest
from latentstruct.progress.eta import describe_share
from latentstruct.tasks.base import by_rows, check_examples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from latentstruct.estimators.base import BaseStructuredEstimator, FitInputs

__all__ = ["AutoC", "FoldScores", "assign_folds", "compare_settings"]

FOLDS_SUFFIX = ".folds"
"""What the name of a checkpoint gets for the file with the scores of finished folds."""
SECONDS_BETWEEN_LINES = 2.0
WORSE_VALUES, CLEARLY = 3, 2.0
"""A path ends if this many values in a row are worse than the best by this many standard errors of the difference."""
FREE = ("C", "task", "verbose", "n_jobs", "executor", "warm_start")
"""Parameters that the scores do not depend on, or not by their names alone."""
PER_EXAMPLE = ("X", "Y", "sample_weight", "H", "latent_features")
UNDEFINED = "Use data for which the score is defined in each fold."
Score = Callable[[Any, Indices], float]
Scoring = Callable[[Any, Any, Any], float]
Say = Callable[[str], None]


def take(values: Any, rows: Any) -> Any:
    """Return some of the examples of a collection, None for None."""
    if values is None:
        return None
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return by_rows(values)[rows] if hasattr(values, "shape") else [values[i] for i in rows]


def assign_folds(
    n_examples: int, n_folds: int = 5, *, labels: Any = None, groups: Any = None, random_state: int | None = 0
) -> Indices:
    """Divide examples into folds of about equal size.

    Parameters
    ----------
    n_examples : int
        n.
    n_folds : int, default=5
        Number of folds, at least 2.
    labels : sequence of length n, optional
        Classes, which are divided evenly among the folds.
    groups : sequence of length n, optional
        Examples with equal values, such as those of one document, are in the same fold.
    random_state : int or None, default=0
        Seed of the order in which examples or groups are dealt out.

    Returns
    -------
    ndarray of shape (n,)
        The fold of each example, from 0 to n_folds − 1.

    Examples
    --------
    >>> from latentstruct import assign_folds
    >>> folds = assign_folds(6, 3, groups=["a", "a", "b", "b", "c", "c"])
    >>> (folds[::2] == folds[1::2]).tolist(), sorted(folds.tolist())
    ([True, True, True], [0, 0, 1, 1, 2, 2])
    """
    integer(2).check(n_folds, "n_folds")
    strata = np.zeros(n_examples, dtype=np.int64) if labels is None else _numbered(labels, n_examples, "labels")
    units = np.arange(n_examples) if groups is None else _numbered(groups, n_examples, "groups")
    n_units = int(units.max(initial=-1)) + 1
    if n_units < n_folds:
        what = "examples" if groups is None else "groups"
        raise InputError("n_folds", n_folds, f"at most {n_units}, the number of {what}")
    order = np.random.default_rng(random_state).permutation(n_units)
    folds = np.empty(n_units, dtype=np.int64)
    if groups is None:
        folds[order[np.argsort(strata[order], kind="stable")]] = np.arange(n_units) % n_folds
        return folds
    counts = np.zeros((n_units, int(strata.max()) + 1))
    np.add.at(counts, (units, strata), 1.0)
    shares, totals = counts / counts.sum(axis=0), np.zeros((n_folds, counts.shape[1]))
    # Large groups first, each into the fold that has the fewest examples of its classes.
    for unit in order[np.argsort(-counts[order].sum(axis=1), kind="stable")]:
        fold = np.lexsort((totals.sum(axis=1), totals @ shares[unit]))[0]
        folds[unit] = fold
        totals[fold] += counts[unit]
    return folds[units]


def _numbered(values: Any, n_examples: int, name: str) -> Indices:
    """Return the number of each value among the different ones, in the order of their first occurrences."""
    found = values.tolist() if hasattr(values, "tolist") else list(values)
    check_length(found, n_examples, name, name)
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in found], dtype=np.int64)


@dataclass(frozen=True)
class FoldScores:
    """Held-out scores for several values of a parameter; ``cv_results_`` of estimators with ``C="auto"``.

    Attributes
    ----------
    parameter : str
        The parameter, such as "C".
    values : sequence of length K
        Its values, simpler models first: of values that are equally good, the first is chosen.
    scores : ndarray of shape (K, F)
        The score of each value on each fold; higher is better.
    one_standard_error : bool
        Whether the first value within one standard error of the best mean is chosen, not the best itself.
    baseline : ndarray of shape (F,) or None
        Scores of a simpler model on the same folds, such as one without latent variables.
    tolerance : float
        Difference from the best mean that is ignored: the first value within it is chosen.
    """

    parameter: str
    values: Sequence[Any]
    scores: NDArray[np.float64]
    one_standard_error: bool = False
    baseline: Vector | None = None
    tolerance: float = 0.0

    __repr__ = short_repr

    @property
    def means(self) -> Vector:
        """Mean scores, (K,)."""
        return self.scores.mean(axis=1)

    @property
    def standard_errors(self) -> Vector:
        """Standard errors of the mean scores, (K,)."""
        return self.scores.std(axis=1, ddof=1) / math.sqrt(self.scores.shape[1])

    @property
    def best(self) -> int:
        """The index of the highest mean."""
        return int(np.argmax(self.means))

    @property
    def chosen(self) -> int:
        """The index of the value that is chosen."""
        ignored = self.standard_errors[self.best] if self.one_standard_error else self.tolerance
        return int(np.flatnonzero(self.means >= self.means[self.best] - ignored)[0])

    @property
    def value(self) -> Any:
        """The value that is chosen."""
        return self.values[self.chosen]

    @property
    def gain(self) -> tuple[float, float]:
        """Mean difference of the chosen value and the baseline on the same fold, and its standard error."""
        if self.baseline is None:
            raise InputError("baseline", None, "given, so that the chosen value can be compared with it")
        gains = self.scores[self.chosen] - self.baseline
        return float(gains.mean()), float(gains.std(ddof=1)) / math.sqrt(len(gains))

    def describe(self) -> str:
        """Return the chosen value with its mean score and standard error, compared with the baseline."""
        shown = f"{self.value:.4g}" if isinstance(self.value, float) else self.value
        mean, error = self.means[self.chosen], self.standard_errors[self.chosen]
        text = f"{self.parameter} {shown}: {mean:.4f} ± {error:.4f} on {self.scores.shape[1]} folds"
        if self.baseline is None:
            return text
        gain, error = self.gain
        clear = abs(gain) > CLEARLY * error
        verdict = ("clearly worse", "clearly better")[gain > 0] if clear else "no clear difference"
        return f"{text}; baseline {self.baseline.mean():.4f}, difference {gain:+.4f} ± {error:.4f}: {verdict}"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the mean scores with their standard errors.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        from latentstruct.viz.plots.training import plot_fold_scores

        return plot_fold_scores(self, ax)


def score_on_folds(
    candidates: Sequence[Any],
    folds: Indices,
    score: Callable[[Any, Indices, Indices], float],
    n_jobs: int,
    say: Say | None,
) -> NDArray[np.float64]:
    """Return the scores, (K, F), of candidates: `score` takes one and the rows to train and to test on."""
    parts = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(int(folds.max()) + 1)]
    began, found = time.perf_counter(), []
    with one_blas_thread():
        for one in candidates:
            row = thread_map(lambda part, one=one: score(one, *part), parts, n_jobs)  # type: ignore[misc]
            for value in row:
                real().check(value, "scoring", UNDEFINED)
            found.append([float(value) for value in row])
            if say is not None:
                seconds = time.perf_counter() - began
                say(f"{len(parts)} folds: {describe_share(len(found), len(candidates), 'settings', seconds)}")
    return np.array(found)


def compare_settings(
    estimator: Any,
    X: Any,
    y: Any,
    parameter: str,
    values: Sequence[Any],
    *,
    baseline: Any = None,
    n_folds: int = 5,
    groups: Any = None,
    scoring: Scoring | None = None,
    one_standard_error: bool = False,
    random_state: int | None = 0,
    verbose: bool = False,
) -> FoldScores:
    """Compare values of a parameter by cross-validation, such as numbers of latent states, beside a baseline.

    Each value is trained on all folds but one and scored on that one. A baseline without latent variables, trained on
    the same folds, shows whether the latent part is worth its cost.

    Parameters
    ----------
    estimator : estimator
        What to train. With ``C="auto"``, C is chosen for each value in each fold, from its training examples alone.
    X, y : collections of length n
        As the task describes them.
    parameter : str
        The parameter, such as ``"task__n_states"``, ``"task__splits"`` or ``"regularizer"``.
    values : sequence of length K
        Its values, simpler models first: of values that are equally good, the first is chosen.
    baseline : estimator, optional
        A simpler model.
    n_folds : int, default=5
        Number of folds.
    groups : sequence of length n, optional
        Examples with equal values stay in one fold.
    scoring : callable, optional
        Called with a fitted model, X and y; returns a score, higher is better. By default the `score` of the estimator.
    one_standard_error : bool, default=False
        Choose the first value whose mean is within one standard error of the best.
    random_state : int or None, default=0
        Seed of the folds.
    verbose : bool, default=False
        Whether to print a line per value.

    Returns
    -------
    FoldScores
        The scores; ``value`` is the chosen value, ``gain`` its difference from the baseline, ``describe()`` says both.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import LatentMulticlass, LatentSSVM, Multiclass, StructuralSVM, compare_settings
    >>> rng = np.random.default_rng(0)
    >>> center = rng.integers(0, 4, 200)  # four clusters in a row, whose classes alternate
    >>> X, y = (2.0 * center + 0.3 * rng.normal(size=200))[:, None], center % 2
    >>> model = LatentSSVM(LatentMulticlass(weights="state", n_states=2, bias=1.0), C=10.0)
    >>> plain = StructuralSVM(Multiclass(bias=1.0), C=10.0)
    >>> found = compare_settings(model, X, y, "task__n_states", [1, 2], baseline=plain, n_folds=3)
    >>> found.value, found.gain[0] > 0.1
    (2, True)
    """
    if isinstance(values, str) or not hasattr(values, "__iter__") or not (values := list(values)):
        raise InputError("values", values, "a sequence of at least one value")
    every = [clone(estimator).set_params(**{parameter: value}) for value in values]
    every += [] if baseline is None else [baseline]
    for one in [estimator, *every]:
        refuse_stored(one, X)
    check_examples(X, y, rows=True)
    labels = y if estimator.task.tags.classifier else None
    folds = assign_folds(len(y), n_folds, labels=labels, groups=groups, random_state=random_state)
    n_jobs = effective_jobs(estimator.n_jobs) if estimator.executor is None else 1
    scores = score_on_folds(every, folds, partial(_held_out_score, X, y, scoring), n_jobs, print if verbose else None)
    name = parameter.rpartition("__")[2]
    rest = None if baseline is None else scores[-1]
    return FoldScores(name, values, scores[: len(values)], bool(one_standard_error), rest)


def _held_out_score(X: Any, y: Any, scoring: Scoring | None, model: Any, train: Indices, test: Indices) -> float:
    """Return the score of a model that is trained on some examples and judged by others."""
    fitted = clone(model).fit(take(X, train), take(y, train))
    data = take(X, test), take(y, test)
    return fitted.score(*data) if scoring is None else scoring(fitted, *data)


@dataclass(eq=False, repr=False, kw_only=True)
class AutoC(Parametrized):
    """Choose C by cross-validation; passed to estimators as `C`. ``C="auto"`` is short for ``C=AutoC()``.

    In each fold, a regularization path is trained on the other folds (see `regularization_path`), so that the models of
    all values cost little more than that of the largest. The C with the highest mean held-out score is chosen, and
    `fit` trains with it on all examples. Classes are divided evenly among the folds. ``fit(..., groups=...)`` keeps
    examples of one document, query or family of sequences in one fold.

    Parameters
    ----------
    n_folds : int, default=5
        Number of folds.
    C_min, C_max : float, default=1e-3 and 1e2
        The interval of C. For `Measure`, whose loss is that of all examples together, in units of `suggest_C`.
    n_values : int, default=16
        Number of values, evenly spaced in their logarithms.
    one_standard_error : bool, default=False
        Choose the smallest C whose mean score is within one standard error of the best.
    scoring : callable, optional
        Called with a fitted model, X and y; returns a score, higher is better. By default the `score` of the estimator.
    tol : float, default=1e-2
        Tolerance of the models in the folds; the final model has that of the estimator.
    random_state : int or None, default=0
        Seed of the folds.

    Notes
    -----
    The paths of all folds go up the values of C together, in the `n_jobs` threads of the estimator. They end early once
    three values in a row are worse than the best so far by two standard errors of the difference. With latent
    variables, each model is trained from the weights of the one before, from a single start.

    With ``fit(..., checkpoint=path)``, scores are stored in a file next to the checkpoint (`path` with ``.folds``), and
    values of C that are finished are not trained again. `coef_init` is used by the final training only.

    See Also
    --------
    regularization_path : Models for all C of an interval.
    FoldScores : What ``cv_results_`` is.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentstruct import AutoC, Multiclass, StructuralSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuralSVM(Multiclass(bias=1.0), C=AutoC(n_values=6)).fit(X, y)
    >>> model.C_ in model.cv_results_.values
    True
    >>> model.cv_results_.scores.shape
    (6, 5)
    """

    constraints: ClassVar = {
        "n_folds": integer(2),
        "C_min": real(0.0),
        "C_max": real(0.0),
        "n_values": integer(2),
        "one_standard_error": boolean,
        "scoring": function | None,
        "tol": real(0.0),
        "random_state": integer(0) | None,
    }

    n_folds: int = 5
    C_min: float = 1e-3
    C_max: float = 1e2
    n_values: int = 16
    one_standard_error: bool = False
    scoring: Scoring | None = None
    tol: float = 1e-2
    random_state: int | None = 0

    def choose(
        self,
        estimator: "BaseStructuredEstimator",
        given: "FitInputs",
        score: Score | None = None,
        say: Say | None = None,
    ) -> FoldScores:
        """Return the held-out scores of all values of C.

        Parameters
        ----------
        estimator : estimator
            What to train; its own `C` is not used.
        given : FitInputs
            What it is trained on.
        score : callable, optional
            Called with a fitted model and the indices of the held-out examples, instead of `scoring`.
        say : callable, optional
            Called with a line of progress every two seconds.
        """
        check_parameters(self)
        if self.C_min >= self.C_max:
            raise InputError("C_min", self.C_min, f"below `C_max`={self.C_max}")
        refuse_stored(estimator, given.X)
        check_examples(given.X, given.Y, rows=True)
        task, n = copied(estimator.task), len(given.Y)
        labels = given.Y if task.tags.classifier else None
        folds = assign_folds(n, self.n_folds, labels=labels, groups=given.groups, random_state=self.random_state)
        scale = task.comparable_C(given.Y)
        Cs = np.geomspace(scale * self.C_min, scale * self.C_max, self.n_values).tolist()
        scores = _FoldPaths(self, copied(estimator).set_params(verbose=False), given, folds, Cs, score, say).scores()
        result = FoldScores("C", Cs[: len(scores)], scores, bool(self.one_standard_error))
        for end, beside, what in ((0, 1, "smallest"), (self.n_values - 1, self.n_values - 2, "largest")):
            if result.best == end and _exceeds(scores[end], scores[[beside]]):
                message = f"the {what} value C = {Cs[end]:.4g} had the best score; widen the interval of `AutoC`"
                warnings.warn(message, UserWarning, stacklevel=user_stacklevel())
        return result


def _exceeds(scores: Vector, others: NDArray[np.float64]) -> bool:
    """Return whether scores (F,) of folds are clearly above all others (k, F), compared in pairs of the same fold."""
    gains = scores - others
    return bool((gains.mean(axis=1) > CLEARLY * gains.std(axis=1, ddof=1) / math.sqrt(len(scores))).all())


@dataclass
class _FoldPaths:
    """The regularization paths of all folds, which advance together from one C to the next."""

    auto: AutoC
    estimator: Any
    given: "FitInputs"
    folds: Indices
    Cs: Sequence[float]
    score: Score | None
    say: Say | None
    rows: list[Vector] = field(default_factory=list)
    """The scores of the folds, (F,), for each C so far."""

    def scores(self) -> NDArray[np.float64]:
        """Return the held-out scores, (k, F), of the values of C up to the last that is worth training."""
        self.rows = self._stored()
        began = said = time.perf_counter()
        first, n_jobs = len(self.rows), effective_jobs(self.estimator.n_jobs)
        paths = [self._path(k) for k in range(self.auto.n_folds)]
        # Limits of BLAS are those of the whole process: nested ones must not end before this one.
        with one_blas_thread():
            while len(self.rows) < len(self.Cs) and not self._has_passed_the_best():
                # A client of a cluster divides each training itself.
                found = thread_map(next, paths, n_jobs if self.estimator.executor is None else 1)
                self.rows.append(np.array(found))
                self._store()
                now = time.perf_counter()
                if self.say is not None and now - said >= SECONDS_BETWEEN_LINES:
                    said = now
                    done, total = len(self.rows) - first, len(self.Cs) - first
                    self.say(f"{self.auto.n_folds} folds: {describe_share(done, total, 'values of C', now - began)}")
            for path in paths:
                path.close()
        return np.stack(self.rows)

    def _path(self, k: int) -> Generator[float, None, None]:
        """Yield the scores of models that are trained on all folds but one, for the values of C still to be tried."""
        train, test = np.flatnonzero(self.folds != k), np.flatnonzero(self.folds == k)
        part = self.given._replace(
            **{name: take(getattr(self.given, name), train) for name in PER_EXAMPLE},
            **dict.fromkeys(("callback", "checkpoint", "coef_init", "early_stopping", "groups")),
        )
        X, Y = take(self.given.X, test), take(self.given.Y, test)
        if self.estimator.__sklearn_tags__().input_tags.pairwise:
            part, X = part._replace(X=part.X[:, train]), X[:, train]
        for model in self.estimator._path_models(part, self.Cs[len(self.rows) :], self.auto.tol):
            if self.score is not None:
                value = self.score(model, test)
            else:
                value = model.score(X, Y) if self.auto.scoring is None else self.auto.scoring(model, X, Y)
            real().check(value, "scoring", UNDEFINED)
            yield float(value)

    def _has_passed_the_best(self) -> bool:
        """Return whether the last values of C are all clearly worse than the best one, in pairs of folds."""
        scores = np.array(self.rows)
        if len(scores) <= WORSE_VALUES:
            return False
        return _exceeds(scores[np.argmax(scores.mean(axis=1))], scores[-WORSE_VALUES:])

    @property
    def _file(self) -> Path | None:
        checkpoint = self.given.checkpoint
        if checkpoint is None:
            return None
        path = Path((checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)).path)
        return path.with_name(path.name + FOLDS_SUFFIX)

    @cached_property
    def _identity(self) -> dict[str, dict[str, str]]:
        """All that the scores of the folds depend on."""
        params = self.estimator.get_params(deep=False)
        data = {name: digest(getattr(self.given, name)) for name in (*PER_EXAMPLE, "groups")}
        return {
            "data": data,
            "task": described(self.estimator.task),
            "estimator": {name: as_text(value) for name, value in params.items() if name not in FREE},
            "folds": {name: as_text(value) for name, value in self.auto.get_params().items()},
        }

    def _stored(self) -> list[Vector]:
        """Return the scores that an earlier run has found."""
        path = self._file
        if path is None:
            return []
        probe(path)
        return list(read_checkpoint(path, self._identity)["scores"]) if path.exists() else []

    def _store(self) -> None:
        if self._file is not None:
            write_checkpoint(self._file, {"scores": np.array(self.rows)}, self._identity)
