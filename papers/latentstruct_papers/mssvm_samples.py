"""Ping, Liu & Ihler (2014), figure 3: test error on simulated chains by the number of training examples."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct_papers.findings import Claim, Findings, Table, above
from latentstruct_papers.mssvm_simulation import (
    HCRF,
    LSSVM,
    MODELS,
    MSSVM,
    C,
    Scores,
    field_task,
    measure_ceiling,
    show_mean,
    train,
)
from latentstruct_papers.simulated import make_hidden_field
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = tuple(2**k for k in range(2, 11))
QUICK_SIZES = (4, 16, 64)
TRIALS, QUICK_TRIALS = 5, 2
N_NODES, N_TEST = 20, 500
TRUE = "true weights"


def measure(sizes: Sequence[int], trial: int, changes: dict[str, Any]) -> dict[str, list[float]]:
    """Train all models on growing parts of one field's examples and return their test errors.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of training examples, the last one the largest; smaller sets are the beginnings of larger ones.
    trial : int
        Seed of the field.
    changes : dict
        Other arguments of `make_hidden_field`.

    Returns
    -------
    dict
        The errors at all sizes by model, and the error of the field's own weights.
    """
    arguments = {"n_train": sizes[-1], "n_test": N_TEST, "n_nodes": N_NODES, "random_state": trial} | changes
    field = make_hidden_field("chain", **arguments)
    found = {TRUE: [1.0 - measure_ceiling(field)]}
    for model in MODELS:
        fitted = [
            train(model, field_task(), field.X_train[:size], field.Y_train[:size], "default", trial) for size in sizes
        ]
        found[model.name] = [1.0 - float(one.score(field.X_test, field.Y_test)) for one in fitted]
    return found


def collect(sizes: Sequence[int], measured: Sequence[dict[str, list[float]]]) -> Scores:
    """Return the errors of all trials under (size, model) and of the true weights."""
    scores = Scores()
    for found in measured:
        scores.add(found[TRUE][0], TRUE)
        for model in MODELS:
            for size, error in zip(sizes, found[model.name], strict=True):
                scores.add(error, size, model.name)
    return scores


class SampleSizes:
    """Test errors by size of the training set, as table and picture."""

    def __init__(self, scores: Scores, sizes: Sequence[int]) -> None:
        self.scores, self.sizes = scores, sizes

    def table(self) -> Table:
        """Return errors and their paired differences."""
        rows: list[list[object]] = []
        for size in self.sizes:
            errors = [self.scores.mean(size, model.name) for model in MODELS]
            apart = [self.scores.difference((size, other.name), (size, MSSVM.name)) for other in (LSSVM, HCRF)]
            rows.append([size, *errors, *apart])
        ceiling = self.scores.found[(TRUE,)]
        note = (
            f"Means ± standard errors over {len(ceiling)} trials; differences trial by trial. The field's own weights "
            f"err at {show_mean(ceiling)} %. The paper's figure has no readable values: its axis runs from 16 to 34 %, "
            "MSSVM lowest throughout, HCRF worse than LSSVM with few examples and better with many."
        )
        columns = ["examples", *(model.name for model in MODELS), "LSSVM − MSSVM", "HCRF − MSSVM"]
        return Table("Test error in %", columns, rows, note)

    def claims(self) -> list[Claim]:
        """Return the order of the models with few and with many examples."""
        small, large = self.sizes[: len(self.sizes) // 2], self.sizes[len(self.sizes) // 2 :]
        found = []
        for better, worse, sizes in (
            (MSSVM, LSSVM, self.sizes),
            (MSSVM, HCRF, small),
            (MSSVM, HCRF, large),
            (LSSVM, HCRF, small),
            (HCRF, LSSVM, large),
        ):
            ours, others = (
                np.mean([self.scores.found[size, model.name] for size in sizes], axis=0) for model in (better, worse)
            )
            means = ", ".join(f"{100 * errors.mean():.1f}" for errors in (ours, others))
            shown = f"{means}: {show_mean(others - ours, signed=True)} over {len(ours)} trials"
            what = f"error of {better.name} below {worse.name}, mean over {sizes[0]} to {sizes[-1]} examples"
            found.append(Claim(what, "below; no figures", shown, above(others - ours)))
        return found

    def draw(self, axes: "Axes") -> None:
        """Draw the errors against the number of examples."""
        axes.axhline(100 * float(np.mean(self.scores.found[(TRUE,)])), color="grey", linestyle=":", label=TRUE)
        axes.set(xlabel="training examples", ylabel="test error in %")
        axes.set_xscale("log", base=2)
        keys = {model.name: [(size, model.name) for size in self.sizes] for model in MODELS}
        self.scores.draw(axes, self.sizes, keys)


def _show(arguments: tuple[Any, ...], found: dict[str, list[float]]) -> str:
    last = ", ".join(f"{model.name} {100 * found[model.name][-1]:.1f} %" for model in MODELS)
    return f"errors with {arguments[0][-1]} examples {last}"


def run(setup: Setup) -> Findings:
    """Repeat figure 3: test error against the number of training examples."""
    sizes = QUICK_SIZES if setup.quick else SIZES
    n_trials = QUICK_TRIALS if setup.quick else TRIALS
    arguments: list[tuple[Any, ...]] = [(sizes, trial, {}) for trial in range(n_trials)]
    scores = collect(sizes, setup.trials.run(measure, arguments, setup.say, "trials", _show))
    results = SampleSizes(scores, sizes)
    return Findings(
        name="mssvm-samples",
        title="Ping, Liu & Ihler (2014), figure 3: test error against the size of the training set",
        data=f"simulated chains of {N_NODES} nodes, {N_TEST} test examples each",
        differs=[
            f"{n_trials} trials; the paper has 5.",
            "Spreads are read as variances.",
            "The paper trains by its CCCP; here each model has its default: L-BFGS for MSSVM and HCRF, CCCP for LSSVM.",
        ],
        tables=[results.table()],
        plots={"errors": results.draw},
        claims=results.claims(),
        settings={"C": C, "trials": n_trials, "sizes": list(sizes), "errors": scores.to_dict()},
    )
