"""When a margin after summing hidden nodes out beats likelihood: size of the training set, and mismatch of the model.

Ping, Liu & Ihler (2014), section 7.1: the paper finds MSSVM above HCRF throughout; these experiments look for the
reason.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentstruct.core.types import Vector
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.tasks import Graph
from latentstruct_papers.findings import Claim, Findings, Table, above
from latentstruct_papers.mssvm_simulation import HCRF, MSSVM, Model, show_mean, solver_options
from latentstruct_papers.simulated import N_STATES, HiddenField, make_hidden_field
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES, QUICK_SIZES = (5, 20, 80, 240), (5, 40)
STRENGTHS = (0.1, 1.0, 10.0)
TRIALS, QUICK_TRIALS = 6, 6
N_NODES, N_TEST, N_VALIDATION = 20, 300, 100


class Mismatch(NamedTuple):
    """A way in which the model differs from the field that the examples were drawn from.

    Attributes
    ----------
    name : str
        What differs.
    states : int
        States of hidden nodes in the model; the field has 4.
    shared : bool
        Whether all nodes, and all edges, share their weights; those of the field differ.
    edges : float
        Share of edges that the model has, from the start of the chain.
    noise : float
        Share of training outputs that are replaced by random ones.
    """

    name: str
    states: int = N_STATES
    shared: bool = False
    edges: float = 1.0
    noise: float = 0.0


RIGHT = Mismatch("right model")
MISMATCHES = (
    RIGHT,
    Mismatch("2 hidden states of 4", states=2),
    Mismatch("half of the edges", edges=0.5),
    Mismatch("20 % of the labels random", noise=0.2),
    Mismatch("shared weights", shared=True),
)


def spoil(field: HiddenField, mismatch: Mismatch, n_train: int, seed: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Return training inputs, training outputs and test inputs as the model sees them."""
    kept = field.edges[: round(mismatch.edges * len(field.edges))]
    X_train, X_test = ([replace(x, edges=kept) for x in part] for part in (field.X_train[:n_train], field.X_test))
    rng = np.random.default_rng(seed)
    Y = []
    for y in field.Y_train[:n_train]:
        replaced = ~field.hidden & (rng.random(len(y)) < mismatch.noise)
        Y.append(np.where(replaced, rng.integers(0, N_STATES, len(y)), y))
    return X_train, Y, X_test


def measure(mismatch: Sequence[Any], n_train: int, trial: int, strengths: Sequence[float]) -> dict[str, Any]:
    """Return the test accuracy of both models, with C chosen by further examples of the field.

    Returns
    -------
    dict
        (accuracy, C) by model.
    """
    how = Mismatch(*mismatch)
    n_drawn = N_TEST + N_VALIDATION
    field = make_hidden_field("chain", n_train=n_train, n_test=n_drawn, n_nodes=N_NODES, random_state=trial)
    X, Y, X_test = spoil(field, how, n_train, trial)
    found = {}
    for model in (MSSVM, HCRF):
        scores = []
        for C in strengths:
            fitted = _fit(model, how, C, X, Y, trial)
            predicted = [np.asarray(y) for y in fitted.predict(X_test)]
            outputs = ~field.hidden
            right = [np.mean(y[outputs] == t[outputs]) for y, t in zip(predicted, field.states_test, strict=True)]
            scores.append((float(np.mean(right[:N_VALIDATION])), float(np.mean(right[N_VALIDATION:])), C))
        _, accuracy, C = max(scores)
        found[model.name] = [accuracy, C]
    return found


def _fit(model: Model, how: Mismatch, C: float, X: list[Any], Y: list[Any], seed: int) -> Any:
    task = Graph(labels=list(range(N_STATES)), hidden={"h": how.states}, shared=how.shared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.make(task, C=C, random_state=seed, **solver_options("default", model, len(X))).fit(X, Y)


class Map:
    """Accuracies of both models by mismatch and size."""

    def __init__(self, mismatches: Sequence[Mismatch], sizes: Sequence[int]) -> None:
        self.mismatches, self.sizes = mismatches, sizes
        self.found: dict[tuple[str, int, str], list[float]] = {}

    def add(self, mismatch: str, size: int, found: dict[str, Any]) -> None:
        """Record one trial."""
        for model, (accuracy, _) in found.items():
            self.found.setdefault((mismatch, size, model), []).append(accuracy)

    def gains(self, mismatch: str, size: int) -> Vector:
        """Return the accuracy of MSSVM minus that of HCRF, trial by trial."""
        ours, others = (np.array(self.found[mismatch, size, model.name]) for model in (MSSVM, HCRF))
        return ours - others

    def table(self) -> Table:
        """Return the differences."""
        rows = [
            [one.name, *(show_mean(self.gains(one.name, size), signed=True) for size in self.sizes)]
            for one in self.mismatches
        ]
        columns = ["model", *(f"{size} examples" for size in self.sizes)]
        note = f"Positive: MSSVM is better. C by {N_VALIDATION} further examples with true outputs."
        return Table("Accuracy of MSSVM minus HCRF in points, mean ± standard error", columns, rows, note)

    def accuracy_table(self) -> Table:
        """Return the accuracies."""
        rows = [
            [
                one.name,
                model.name,
                *(show_mean(self.found[one.name, size, model.name]) for size in self.sizes),
            ]
            for one in self.mismatches
            for model in (MSSVM, HCRF)
        ]
        return Table("Accuracy in %", ["model", "trained as", *(f"{size} examples" for size in self.sizes)], rows)

    def claims(self) -> list[Claim]:
        """Return for each mismatch whether MSSVM is better in the mean over the sizes."""
        found = []
        for one in self.mismatches:
            gains = np.mean([self.gains(one.name, size) for size in self.sizes], axis=0)
            each = ", ".join(f"{100 * self.gains(one.name, size).mean():+.1f}" for size in self.sizes)
            shown = f"{show_mean(gains, signed=True)} over {len(gains)} trials; by size {each}"
            sizes = ", ".join(map(str, self.sizes))
            what = f"{one.name}: accuracy of MSSVM above HCRF with {sizes} examples, C tuned for each"
            found.append(Claim(what, "above at all sizes; no figures", shown, above(gains)))
        return found

    def draw(self, axes: "Axes") -> None:
        """Draw the map of differences."""
        values = 100 * np.array([[self.gains(one.name, size).mean() for size in self.sizes] for one in self.mismatches])
        limit = max(float(np.abs(values).max()), 1e-9)
        picture = axes.imshow(values, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
        axes.set_xticks(range(len(self.sizes)), [str(size) for size in self.sizes])
        axes.set_yticks(range(len(self.mismatches)), [one.name for one in self.mismatches])
        axes.set(xlabel="training examples", title="accuracy of MSSVM minus HCRF in points")
        for (row, column), value in np.ndenumerate(values):
            axes.text(column, row, f"{value:+.1f}", ha="center", va="center")
        assert axes.figure is not None
        axes.figure.colorbar(picture, ax=axes)


def _show(arguments: tuple[Any, ...], found: dict[str, Any]) -> str:
    shown = ", ".join(f"{model} {100 * accuracy:.1f} (C {C:g})" for model, (accuracy, C) in found.items())
    return f"{arguments[0][0]}, {arguments[1]} examples, trial {arguments[2]}: {shown}"


def run(setup: Setup) -> Findings:
    """Compare MSSVM with HCRF by size of the training set and mismatch of the model."""
    mismatches, sizes = ((RIGHT, MISMATCHES[-1]), QUICK_SIZES) if setup.quick else (MISMATCHES, SIZES)
    n_trials = QUICK_TRIALS if setup.quick else TRIALS
    arguments: list[tuple[Any, ...]] = [
        (tuple(one), size, trial, STRENGTHS) for trial in range(n_trials) for one in mismatches for size in sizes
    ]
    results = Map(mismatches, sizes)
    measured = setup.trials.run(measure, arguments, setup.say, "trials", _show)
    for (mismatch, size, *_), found in zip(arguments, measured, strict=True):
        results.add(mismatch[0], size, found)
    return Findings(
        name="mssvm-map",
        title="Ping, Liu & Ihler (2014), section 7.1: margins against likelihood by size and mismatch",
        data=f"simulated chains of {N_NODES} nodes with hidden ones, {N_TEST} test examples",
        differs=[
            "The paper varies the size of the training set only, with C = 1; here C is chosen for each model, size and "
            "trial among " + ", ".join(f"{C:g}" for C in STRENGTHS) + ".",
            "Spreads are read as variances.",
            "The mismatches are ours. Test outputs are never spoiled.",
        ],
        tables=[results.table(), results.accuracy_table()],
        plots={"map": results.draw},
        claims=results.claims(),
        settings={"strengths": list(STRENGTHS), "trials": n_trials, "sizes": list(sizes)},
    )
