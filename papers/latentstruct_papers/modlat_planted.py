"""Planted boxes: when modeling the uncertainty of latent boxes pays (Kumar, Packer & Koller, 2012).

Each example is a grid of boxes. The features of the true box show the class of the example, with noise added. Those of
the boxes around it show the class less, the farther away they are. The range of this signal controls how uncertain the
box is.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.core.types import Vector
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.metrics.boxes import box_scores
from latentstruct.tasks.detection import DetectionInput, chosen_boxes
from latentstruct_papers.findings import Claim, Findings, Table, above
from latentstruct_papers.modlat_detection import make_model
from latentstruct_papers.modlat_tables import ILSVM, LOSSES, LSVM, MODLAT
from latentstruct_papers.mssvm_simulation import show_mean
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_CLASSES, N_FEATURES, SIDE = 4, 16, 6
STEP, SIZE = 8.0, 24.0
"""Distance and side of the boxes: neighbors overlap by half."""
RANGES, QUICK_RANGES = (0.3, 1.0, 2.0, 3.0), (0.3, 2.0)
NOISES, QUICK_NOISES = (0.2, 0.4, 0.6), (0.2,)
STRENGTHS, QUICK_STRENGTHS = (1.0, 10.0, 100.0), (10.0,)
TRIALS, QUICK_TRIALS = 8, 4
N_TRAIN, N_VALIDATION, N_TEST = 60, 60, 240
METHODS = (LSVM, ILSVM, MODLAT)

Examples = tuple[list[DetectionInput], list[str], list[Vector]]


def draw(n: int, range_: float, noise: float, rng: np.random.Generator) -> Examples:
    """Return candidates, classes and true boxes of examples.

    The features of the box at (i, j) are exp(−r²/2 range²) e_y + noise ε, where r is its distance from the true box in
    steps of the grid, e_y the y-th unit vector, and ε is normal.
    """
    rows, columns = np.divmod(np.arange(SIDE**2), SIDE)
    boxes = np.stack([STEP * columns, STEP * rows, STEP * columns + SIZE, STEP * rows + SIZE], axis=1)
    X, Y, truth = [], [], []
    for _ in range(n):
        label, place = int(rng.integers(N_CLASSES)), int(rng.integers(SIDE**2))
        apart = (rows - rows[place]) ** 2 + (columns - columns[place]) ** 2
        features = noise * rng.standard_normal((SIDE**2, N_FEATURES))
        features[:, label] += np.exp(-apart / (2 * range_**2))
        X.append(DetectionInput(boxes, features))
        Y.append(f"class {label}")
        truth.append(boxes[place])
    return X, Y, truth


def measure(range_: float, noise: float, trial: int, strengths: Sequence[float]) -> dict[str, dict[str, Any]]:
    """Return the test loss of each method by loss and method, with C chosen on validation examples, and that C."""
    rng = np.random.default_rng(trial)
    train, validation, test = (draw(n, range_, noise, rng) for n in (N_TRAIN, N_VALIDATION, N_TEST))
    found: dict[str, dict[str, Any]] = {}
    for loss in LOSSES:
        for method in METHODS:
            tried = []
            for C in strengths:
                model = make_model(method, loss, C, N_TRAIN, trial)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(train[0], train[1])
                tried.append((*(_loss(model, part, loss) for part in (validation, test)), C))
            _, value, C = min(tried)
            found.setdefault(loss, {})[method] = [value, C]
    return found


def _loss(model: Any, part: Examples, loss: str) -> float:
    X, Y, truth = part
    boxes = chosen_boxes(X, model.predict_latent(X))
    return box_scores(Y, truth, model.predict(X), list(boxes))[loss]


class Grid:
    """Losses by range of the signal and noise."""

    def __init__(self, ranges: Sequence[float], noises: Sequence[float]) -> None:
        self.ranges, self.noises = ranges, noises
        self.found: dict[tuple[float, float, str, str], list[float]] = {}

    def add(self, range_: float, noise: float, found: dict[str, dict[str, Any]]) -> None:
        """Record one trial."""
        for loss, values in found.items():
            for method, (value, _) in values.items():
                self.found.setdefault((range_, noise, loss, method), []).append(value)

    def gains(self, range_: float, noise: float, loss: str, other: str) -> Vector:
        """Return the loss of another method minus that of ModLat, trial by trial."""
        ours, others = (np.array(self.found[range_, noise, loss, method]) for method in (MODLAT, other))
        return others - ours

    def table(self, loss: str) -> Table:
        """Return losses and gains at all settings."""
        rows: list[list[Any]] = []
        for range_ in self.ranges:
            for noise in self.noises:
                means = [show_mean(self.found[range_, noise, loss, method]) for method in METHODS]
                gains = [show_mean(self.gains(range_, noise, loss, other), signed=True) for other in (LSVM, ILSVM)]
                rows.append([f"{range_:g}", f"{noise:g}", *means, *gains])
        columns = ["range", "noise", *METHODS, f"{LSVM} − {MODLAT}", f"{ILSVM} − {MODLAT}"]
        note = (
            "Range: distance in steps over which boxes around the true one show the class. Positive: ModLat is better."
        )
        return Table(f"Test loss in %, {LOSSES[loss]}, mean ± standard error", columns, rows, note)

    def claims(self) -> list[Claim]:
        """Return for each range and loss whether ModLat is better than the better of the other two."""
        found = []
        for loss, shown in LOSSES.items():
            for range_ in self.ranges:
                gains = np.mean(
                    [
                        np.minimum(*(self.gains(range_, noise, loss, other) for other in (LSVM, ILSVM)))
                        for noise in self.noises
                    ],
                    axis=0,
                )
                each = ", ".join(
                    f"{100 * np.minimum(*(self.gains(range_, noise, loss, o).mean() for o in (LSVM, ILSVM))):+.1f}"
                    for noise in self.noises
                )
                text = f"lower by {show_mean(gains, signed=True)} over {len(gains)} trials; by noise {each}"
                what = f"range {range_:g}, {shown} loss: ModLat below both {LSVM} and {ILSVM}"
                found.append(Claim(what, "below; no figures", text, above(gains), other_data=True))
        return found

    def plot(self, loss: str) -> "Callable[[Axes], None]":
        """Return a map of the gains over ILSVM."""

        def draw_map(axes: "Axes") -> None:
            values = 100 * np.array(
                [[self.gains(r, noise, loss, ILSVM).mean() for noise in self.noises] for r in self.ranges]
            )
            limit = max(float(np.abs(values).max()), 1e-9)
            axes.imshow(values, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
            axes.set_xticks(range(len(self.noises)), [f"{noise:g}" for noise in self.noises])
            axes.set_yticks(range(len(self.ranges)), [f"{r:g}" for r in self.ranges])
            axes.set(xlabel="noise", ylabel="range of the signal", title=f"{ILSVM} − {MODLAT}, {LOSSES[loss]} loss")
            for (row, column), value in np.ndenumerate(values):
                axes.text(column, row, f"{value:+.1f}", ha="center", va="center")

        return draw_map


def _show(arguments: tuple[Any, ...], found: dict[str, dict[str, Any]]) -> str:
    shown = "; ".join(
        f"{LOSSES[loss]} " + ", ".join(f"{method} {100 * value:.1f}" for method, (value, _) in values.items())
        for loss, values in found.items()
    )
    return f"range {arguments[0]:g}, noise {arguments[1]:g}, trial {arguments[2]}: {shown}"


def run(setup: Setup) -> Findings:
    """Compare LSVM, ILSVM and ModLat where the uncertainty of the box is controlled."""
    ranges, noises = (QUICK_RANGES, QUICK_NOISES) if setup.quick else (RANGES, NOISES)
    strengths, n_trials = (QUICK_STRENGTHS, QUICK_TRIALS) if setup.quick else (STRENGTHS, TRIALS)
    arguments: list[tuple[Any, ...]] = [
        (range_, noise, trial, strengths) for trial in range(n_trials) for range_ in ranges for noise in noises
    ]
    results = Grid(ranges, noises)
    measured = setup.trials.run(measure, arguments, setup.say, "trials", _show)
    for (range_, noise, *_), found in zip(arguments, measured, strict=True):
        results.add(range_, noise, found)
    return Findings(
        name="modlat-planted",
        title="Kumar, Packer & Koller (2012): planted boxes of controlled uncertainty",
        data=f"{N_TRAIN} training and {N_TEST} test examples of {N_CLASSES} classes, {SIDE} × {SIDE} boxes each",
        differs=[
            "The paper has no such data.",
            f"C (the paper's) is chosen by {N_VALIDATION} examples whose boxes are known, for each method and loss, "
            f"among {', '.join(f'{C:g}' for C in strengths)}. The range was set from 0.3 (the true box alone) to 3 "
            "(half of the grid) before any result was seen.",
            "The better of LSVM and ILSVM is taken trial by trial, which favors them.",
        ],
        tables=[results.table(loss) for loss in LOSSES],
        plots={loss.replace("_", "-"): results.plot(loss) for loss in LOSSES},
        claims=results.claims(),
        settings={"ranges": list(ranges), "noises": list(noises), "strengths": list(strengths), "trials": n_trials},
    )
