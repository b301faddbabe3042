"""Ping, Liu & Ihler (2014), figure 3: test error on simulated chains by the number of training examples."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.progress.eta import Steps
from latentstruct_papers.findings import Findings, Table
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = tuple(2**k for k in range(2, 11))
QUICK_SIZES = (4, 16, 64)
TRIALS, QUICK_TRIALS = 5, 2
N_NODES, N_TEST = 20, 500
TRUE = "true weights"


def measure(scores: Scores, sizes: Sequence[int], trial: int, **changes: Any) -> None:
    """Train all models on growing parts of one field's examples and record test errors under (size, model).

    Parameters
    ----------
    scores : Scores
        Takes the errors.
    sizes : sequence of int
        Numbers of training examples, the last one the largest; smaller sets are the beginnings of larger ones.
    trial : int
        Seed of the field.
    **changes
        Other arguments of `make_hidden_field`.
    """
    arguments = {"n_train": sizes[-1], "n_test": N_TEST, "n_nodes": N_NODES, "random_state": trial} | changes
    field = make_hidden_field("chain", **arguments)
    scores.add(1.0 - measure_ceiling(field), TRUE)
    for size in sizes:
        for model in MODELS:
            fitted = train(model, field_task(), field.X_train[:size], field.Y_train[:size], "default", trial)
            scores.add(1.0 - fitted.score(field.X_test, field.Y_test), size, model.name)


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

    def draw(self, axes: "Axes") -> None:
        """Draw the errors against the number of examples."""
        for marker, model in zip("osd", MODELS, strict=True):
            found = 100 * np.array([self.scores.found[size, model.name] for size in self.sizes])
            errors = found.std(axis=1, ddof=1) / np.sqrt(found.shape[1])
            axes.errorbar(self.sizes, found.mean(axis=1), errors, marker=marker, capsize=2, label=model.name)
        axes.axhline(100 * float(np.mean(self.scores.found[(TRUE,)])), color="grey", linestyle=":", label=TRUE)
        axes.set(xlabel="training examples", ylabel="test error in %")
        axes.set_xscale("log", base=2)
        axes.legend()


def run(data_home: str | Path | None = None, quick: bool = False, say: Callable[[str], None] = print) -> Findings:
    """Repeat figure 3: test error against the number of training examples.

    Parameters
    ----------
    data_home : path, optional
        Not needed: the data are simulated.
    quick : bool, default=False
        Whether to take few trials and small training sets.
    say : function of str, default=print
        Called with lines of progress.

    Returns
    -------
    Findings
        Test errors of the three models at each size.
    """
    sizes = QUICK_SIZES if quick else SIZES
    n_trials = QUICK_TRIALS if quick else TRIALS
    scores = Scores()
    steps = Steps(say, n_trials, "trials")
    for trial in range(n_trials):
        measure(scores, sizes, trial)
        last = ", ".join(f"{model.name} {100 * scores.found[sizes[-1], model.name][-1]:.1f} %" for model in MODELS)
        steps.done(f"errors with {sizes[-1]} examples {last}")
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
        settings={"C": C, "trials": n_trials, "sizes": list(sizes), "errors": scores.to_dict()},
    )
