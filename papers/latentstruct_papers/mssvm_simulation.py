"""What the experiments on simulated fields share: the compared models, their training, and paired accuracies."""

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Vector
from latentstruct.estimators import HiddenCRF, LatentSSVM, MarginalSSVM, MinEntropySSVM
from latentstruct.estimators.uncertain import ModLat
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.solvers import CCCP, Subgradient
from latentstruct.tasks import Graph
from latentstruct_papers.findings import Claim, above
from latentstruct_papers.simulated import HiddenField

if TYPE_CHECKING:
    from matplotlib.axes import Axes

C = 1.0
"""Weight of each example, as in the paper."""
DESCENT_ITERATIONS = 250
"""Steps of plain subgradient descent: the paper saw its slowest model converge after about as many."""


class Model(NamedTuple):
    """One of the compared models.

    Attributes
    ----------
    name : str
        Its name in tables.
    make : callable
        The estimator.
    rate : float or None
        A rate for plain descent, the paper's where it has one; None for a model that is not trained so.
    hidden_loss : float
        What a wrong state of a hidden node costs, beside 1 for a wrong output.
    """

    name: str
    make: Callable[..., Any]
    rate: float | None
    hidden_loss: float = 0.0


MSSVM = Model("MSSVM", MarginalSSVM, 0.02)
LSSVM = Model("LSSVM", LatentSSVM, 0.001)
HCRF = Model("HCRF", HiddenCRF, 0.02)
MODELS = (MSSVM, LSSVM, HCRF)
MODLAT = Model("ModLat", ModLat, None, 1.0)


def min_entropy(alpha: float) -> Model:
    """Return M3E at a given order of the Rényi entropy."""
    return Model(f"M3E, α = {alpha:g}", partial(MinEntropySSVM, alpha=alpha), 0.001)


def field_task(hidden_loss: float = 0.0) -> Graph:
    """Return the task of a simulated field: a weight for each state of each node and each pair of each edge."""
    return Graph(labels=[0, 1, 2, 3], hidden={"h": 4}, shared=False, hidden_loss=hidden_loss)


def true_coefficients(field: HiddenField) -> Vector:
    """Return the weights of the field itself in the layout of the task; what depends on x alone is left out."""
    nodes = field.weights.emissions + field.weights.states[:, None, :]
    return np.concatenate([nodes.ravel(), field.weights.pairs.ravel()])


def solver_options(training: str, model: Model, n_examples: int) -> dict[str, Any]:
    """Return the solver of a way of training: "SGD" and "CCCP" are the paper's two algorithms, "default" is ours.

    The paper's descent takes the whole training set at each step and keeps its rate fixed.
    """
    if training == "SGD":
        assert model.rate is not None
        descent = Subgradient(
            max_iter=DESCENT_ITERATIONS,
            step="fixed",
            learning_rate=model.rate,
            batch_size=n_examples,
            average=False,
            patience=DESCENT_ITERATIONS,
        )
        return {"solver": descent}
    return {"CCCP": {"solver": CCCP()}, "default": {}}[training]


def train(model: Model, task: Any, X: Sequence[Any], Y: Sequence[Any], training: str, seed: int, **options: Any) -> Any:
    """Return the fitted estimator; limits of iterations are part of the setting, so that nothing is said of them.

    Options go to its `fit`.
    """
    estimator = model.make(task, C=C, random_state=seed, **solver_options(training, model, len(X)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, Y, **options)


def measure_fall(fitted: Any) -> float:
    """Return by how much the last third of the iterations lowered the objective of an estimator, relative to it."""
    lowest = np.minimum.accumulate([one.objective for one in fitted.history_])
    return float(1.0 - lowest[-1] / lowest[(2 * len(lowest)) // 3 - (len(lowest) > 1)])


def measure_accuracy(model: Model, field: HiddenField, training: str, seed: int) -> float:
    """Return the share of right outputs on the test examples of a field."""
    fitted = train(model, field_task(model.hidden_loss), field.X_train, field.Y_train, training, seed)
    return float(fitted.score(field.X_test, field.Y_test))


def measure_ceiling(field: HiddenField) -> float:
    """Return the accuracy of the field's own weights by marginal MAP on the test examples."""
    task = field_task()
    task.learn(field.X_train, field.Y_train)
    found = task.decode(task.prepare(field.X_test), true_coefficients(field), Temperature(0.0, 1.0))
    return float(task.score(field.Y_test, [prediction.y for prediction in found]))


def show_mean(values: Sequence[float] | Vector, signed: bool = False) -> str:
    """Return mean ± standard error of shares, in per cent."""
    percent = 100.0 * np.asarray(values, dtype=np.float64)
    error = percent.std(ddof=1) / math.sqrt(len(percent)) if len(percent) > 1 else math.nan
    return f"{percent.mean():+.1f} ± {error:.1f}" if signed else f"{percent.mean():.1f} ± {error:.1f}"


def claim_above(
    scores: "Scores",
    what: str,
    paper: tuple[float, float],
    first: tuple[Hashable, ...],
    second: tuple[Hashable, ...],
) -> Claim:
    """Return the claim that one method's accuracy is above another's, decided by `above` trial by trial.

    Parameters
    ----------
    scores : Scores
        The accuracies.
    what : str
        What is compared.
    paper : (float, float)
        The published accuracies of both in per cent.
    first, second : tuples
        Their keys.
    """
    ours, others = (np.array(scores.found[key]) for key in (first, second))
    return compare(what, paper, ours, others)


def compare(what: str, paper: tuple[float, float], ours: Vector, others: Vector, trials: str = "trials") -> Claim:
    """Return the claim that the accuracies of one method are above those of another on the same trials."""
    apart = ours - others
    found = f"{100 * ours.mean():.1f}, {100 * others.mean():.1f}: {show_mean(apart, signed=True)}"
    verdict = above(apart, (paper[0] - paper[1]) / 100)
    return Claim(what, f"{paper[0]:.1f}, {paper[1]:.1f}", f"{found} over {len(apart)} {trials}", verdict)


class Scores:
    """Accuracies of several methods on the same trials, kept in the order of the trials."""

    def __init__(self) -> None:
        self.found: dict[tuple[Hashable, ...], list[float]] = {}

    def add(self, value: float, *key: Hashable) -> None:
        """Record the accuracy of one trial."""
        self.found.setdefault(key, []).append(value)

    def mean(self, *key: Hashable) -> str | None:
        """Return mean ± standard error over the trials, None without one."""
        return show_mean(self.found[key]) if key in self.found else None

    def difference(self, first: tuple[Hashable, ...], second: tuple[Hashable, ...]) -> str | None:
        """Return mean ± standard error of the differences, trial by trial."""
        if first not in self.found or second not in self.found:
            return None
        return show_mean(np.subtract(self.found[first], self.found[second]), signed=True)

    def draw(self, axes: "Axes", at: Sequence[float], keys: Mapping[str, Sequence[tuple[Hashable, ...]]]) -> None:
        """Draw the mean with its standard error against `at`; `keys` are those of each method."""
        for marker, (name, ours) in zip(cycle("osd^vx"), keys.items(), strict=False):
            found = 100 * np.array([self.found[key] for key in ours])
            errors = found.std(axis=1, ddof=1) / np.sqrt(found.shape[1])
            axes.errorbar(at, found.mean(axis=1), errors, marker=marker, capsize=2, label=name)
        axes.legend()

    def to_dict(self) -> dict[str, list[float]]:
        """Return all accuracies by the names of their keys."""
        return {", ".join(map(str, key)): [round(value, 6) for value in found] for key, found in self.found.items()}
