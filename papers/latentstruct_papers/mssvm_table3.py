"""Ping, Liu & Ihler (2014), table 3: accuracy on simulated chains by the uncertainty of the hidden nodes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.core.types import Vector
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.mssvm_simulation import (
    MODELS,
    MODLAT,
    MSSVM,
    C,
    Model,
    Scores,
    compare,
    measure_accuracy,
    min_entropy,
    show_mean,
)
from latentstruct_papers.simulated import make_hidden_field
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPREADS = (10.0, 1.0, 0.5, 0.1, 0.01, 0.001)
QUICK_SPREADS = (10.0, 0.1)
TRIALS, QUICK_TRIALS = 20, 2
COMPARED = (*MODELS, min_entropy(2.0), min_entropy(10.0), MODLAT)
PUBLISHED = ("MSSVM", "LSSVM", "HCRF", "M3E", "ModLat")
PAPER = {
    10.0: (79.30, 79.46, 78.68, 79.04, 77.16),
    1.0: (70.00, 70.07, 69.88, 68.53, 67.91),
    0.5: (67.24, 65.98, 66.66, 66.05, 65.15),
    0.1: (69.63, 67.91, 69.03, 65.19, 67.96),
    0.01: (73.88, 71.38, 72.58, 67.21, 71.52),
    0.001: (72.08, 69.24, 70.88, 65.48, 66.54),
}
"""Accuracies of the models in `PUBLISHED`."""


def measure(spread: float, trial: int, sizes: dict[str, Any]) -> dict[str, float]:
    """Train all models on one field and return their accuracies.

    A seed gives the same random numbers at all spreads, so that fields of one trial differ in σ_h only.
    """
    field = make_hidden_field(sigma_h=spread, random_state=trial, **sizes)
    return {model.name: measure_accuracy(model, field, "default", trial) for model in COMPARED}


def _show(arguments: tuple[Any, ...], found: dict[str, float]) -> str:
    accuracies = ", ".join(f"{model} {100 * accuracy:.1f}" for model, accuracy in found.items())
    return f"σ_h = {arguments[0]:g}, trial {arguments[1]}: {accuracies}"


class Uncertainty:
    """The accuracies at each σ_h, as tables and picture."""

    def __init__(self, scores: Scores, spreads: Sequence[float]) -> None:
        self.scores, self.spreads = scores, spreads

    def over_spreads(self, model: Model) -> Vector:
        """Return a model's accuracy in each trial, averaged over the spreads."""
        return np.mean([self.scores.found[spread, model.name] for spread in self.spreads], axis=0)

    def table(self) -> Table:
        """Return accuracies, the paper's beside them."""
        rows: list[list[object]] = [
            [f"{spread:g}", *(self.scores.mean(spread, model.name) for model in COMPARED), *PAPER[spread]]
            for spread in self.spreads
        ]
        averages = [show_mean(self.over_spreads(model)) for model in COMPARED]
        paper = [round(sum(column) / len(column), 2) for column in zip(*(PAPER[s] for s in self.spreads), strict=True)]
        rows.append(["mean", *averages, *paper])
        columns = ["σ_h", *(model.name for model in COMPARED)]
        columns += [f"paper {name}" for name in PUBLISHED]
        return Table("Test accuracy in %, mean ± standard error", columns, rows)

    def difference_table(self) -> Table:
        """Return the paired differences of MSSVM to the others, the paper's differences of means beside them."""
        rows: list[list[object]] = []
        for spread in self.spreads:
            found = [self.scores.difference((spread, MSSVM.name), (spread, other.name)) for other in COMPARED[1:]]
            apart = [round(PAPER[spread][0] - other, 2) for other in PAPER[spread][1:]]
            rows.append([f"{spread:g}", *found, *apart])
        ours = self.over_spreads(MSSVM)
        rows.append(["mean", *(show_mean(ours - self.over_spreads(other), signed=True) for other in COMPARED[1:])])
        rows[-1] += [None] * len(PUBLISHED[1:])
        columns = ["σ_h", *(f"− {model.name}" for model in COMPARED[1:])]
        columns += [f"paper − {name}" for name in PUBLISHED[1:]]
        return Table("MSSVM minus others in points, trial by trial, mean ± standard error", columns, rows)

    def claims(self) -> list[Claim]:
        """Return whether MSSVM is above each other model in the mean over the spreads."""
        found = []
        ours = self.over_spreads(MSSVM)
        means = {name: sum(PAPER[s][k] for s in self.spreads) / len(self.spreads) for k, name in enumerate(PUBLISHED)}
        for model in COMPARED[1:]:
            paper = means["MSSVM"], means[model.name.partition(",")[0]]
            what = f"mean over {len(self.spreads)} values of σ_h, accuracy of MSSVM above {model.name}"
            found.append(compare(what, paper, ours, self.over_spreads(model)))
        return found

    def draw(self, axes: "Axes") -> None:
        """Draw accuracy against σ_h."""
        axes.set(xscale="log", xlabel="spread σ_h of the weights of hidden nodes", ylabel="test accuracy in %")
        keys = {model.name: [(spread, model.name) for spread in self.spreads] for model in COMPARED}
        self.scores.draw(axes, self.spreads, keys)


def run(setup: Setup) -> Findings:
    """Repeat table 3: accuracy against the spread of the hidden nodes' weights."""
    spreads = QUICK_SPREADS if setup.quick else SPREADS
    n_trials = QUICK_TRIALS if setup.quick else TRIALS
    arguments: list[tuple[Any, ...]] = [(spread, trial, {}) for trial in range(n_trials) for spread in spreads]
    scores = Scores()
    measured = setup.trials.run(measure, arguments, setup.say, "trials", _show)
    for (spread, *_), found in zip(arguments, measured, strict=True):
        for model, accuracy in found.items():
            scores.add(accuracy, spread, model)
    results = Uncertainty(scores, spreads)
    return Findings(
        name="mssvm-table3",
        title="Ping, Liu & Ihler (2014), table 3: accuracy against the uncertainty of hidden variables",
        data="simulated chains of 40 nodes, 20 training and 100 test examples each",
        differs=[
            "Spreads are read as variances: σ_h = 10 is a standard deviation of √10.",
            "The paper trains all models by its CCCP; here each has its default: CCCP for LSSVM, CCCP and L-BFGS in "
            "turn for ModLat, L-BFGS for the others (the objective of M3E is no difference of convex functions).",
            "The paper does not say at which order α it ran M3E: two are shown, chosen before any was tried.",
            "The paper does not tell the loss of ModLat. With one that ignores hidden nodes ModLat is LSSVM, so a "
            "wrong state of a hidden node costs as much as a wrong output here; J = β = 0.1 are its own paper's.",
        ],
        tables=[results.table(), results.difference_table()],
        plots={"accuracy": results.draw},
        claims=results.claims(),
        settings={"C": C, "trials": n_trials, "spreads": list(spreads), "accuracies": scores.to_dict()},
    )
