"""Tables and pictures of the detection experiment."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from latentstruct.core.types import Vector
from latentstruct.data.boxes import Boxes, overlaps
from latentstruct_papers.datasets import Photographs
from latentstruct_papers.findings import Claim, Table, above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LSVM, ILSVM, MODLAT, BLIND = "LSVM", "ILSVM", "ModLat", "LSSVM (class loss)"
METHODS = (LSVM, ILSVM, MODLAT, BLIND)
LOSSES = {"zero_one": "0/1", "overlap": "overlap"}
PUBLISHED = {
    ("zero_one", LSVM): "64.82 ± 4.96",
    ("zero_one", ILSVM): "68.53 ± 5.52",
    ("zero_one", MODLAT): "47.76 ± 2.53",
    ("overlap", LSVM): "44.93 ± 1.84",
    ("overlap", ILSVM): "47.26 ± 3.87",
    ("overlap", MODLAT): "42.27 ± 3.64",
}
PUBLISHED_ACTIONS = {
    ("zero_one", LSVM): "93.18 ± 1.95",
    ("zero_one", ILSVM): "92.89 ± 3.70",
    ("zero_one", MODLAT): "76.10 ± 0.71",
    ("overlap", LSVM): "70.66 ± 0.76",
    ("overlap", ILSVM): "71.33 ± 1.14",
    ("overlap", MODLAT): "67.16 ± 0.32",
}
TEST, HELD_OUT = "test", "held out"
N_SHOWN = 6


class Trial(NamedTuple):
    """One trained model and what it predicted.

    Attributes
    ----------
    data, loss, split, method, C
        What was trained; C is the paper's.
    part : {"test", "held out"}
        Which photographs were predicted.
    scores : dict of str to float
        See `box_scores`.
    photographs : list of int
        Numbers of the photographs in the data set.
    Y_pred : list of str
        The predicted classes.
    boxes : array of shape (n, 4)
        The predicted boxes.
    seconds : float
        CPU time of training and prediction.
    """

    data: str
    loss: str
    split: int
    method: str
    C: float
    part: str
    scores: dict[str, float]
    photographs: list[int]
    Y_pred: list[str]
    boxes: Boxes
    seconds: float


def losses_of(trials: Sequence[Trial], data: str, loss: str, method: str, part: str = TEST) -> dict[float, Vector]:
    """Return the losses over the splits at each C."""
    found: dict[float, list[float]] = {}
    for one in trials:
        if (one.data, one.loss, one.method, one.part) == (data, loss, method, part):
            found.setdefault(one.C, []).append(one.scores[loss])
    return {C: np.array(values) for C, values in sorted(found.items())}


def best_strength(trials: Sequence[Trial], data: str, loss: str, method: str) -> float:
    """Return the C with the lowest mean test loss, the smallest of several."""
    found = losses_of(trials, data, loss, method)
    return min(found, key=lambda C: float(found[C].mean()))


def held_out_trials(trials: Sequence[Trial], data: str, loss: str, method: str) -> list[Trial]:
    """Return the trial of each split on test photographs at the C whose loss was lowest on those held out."""
    own = [one for one in trials if (one.data, one.loss, one.method) == (data, loss, method)]
    found = []
    for split in sorted({one.split for one in own}):
        tried = {one.C: one.scores[loss] for one in own if one.split == split and one.part == HELD_OUT}
        C = min(sorted(tried), key=tried.__getitem__)
        found += [one for one in own if (one.split, one.part, one.C) == (split, TEST, C)]
    return found


def published(data: str) -> dict[tuple[str, str], str]:
    """Return the paper's figures by loss and method: on mammals, or on actions."""
    return PUBLISHED_ACTIONS if data.endswith("actions") else PUBLISHED


def claims(trials: Sequence[Trial]) -> list[Claim]:
    """Return whether ModLat's loss is below those of the others, with C chosen by photographs held out."""
    found = []
    for data, loss in _places(trials):
        figures = published(data)
        for other in (LSVM, ILSVM):
            ours, others = (
                np.array([one.scores[loss] for one in held_out_trials(trials, data, loss, method)])
                for method in (MODLAT, other)
            )
            best = [
                f"{100 * losses_of(trials, data, loss, method)[best_strength(trials, data, loss, method)].mean():.1f}"
                for method in (MODLAT, other)
            ]
            apart = others - ours
            error = _deviation(apart) / math.sqrt(len(apart))
            shown = f"{100 * ours.mean():.1f}, {100 * others.mean():.1f}: lower by {100 * apart.mean():.1f}"
            shown += f" ± {100 * error:.1f} over {len(apart)} splits; best over C on test {', '.join(best)}"
            paper = [figures[loss, method].partition(" ")[0] for method in (MODLAT, other)]
            verdict = above(apart, (float(paper[1]) - float(paper[0])) / 100)
            what = f"{data}, {LOSSES[loss]} loss: ModLat below {other}"
            found.append(Claim(what, ", ".join(paper), shown, verdict, other_data=True))
    return found


def show_spread(values: Sequence[float] | Vector) -> str:
    """Return mean ± standard deviation of shares, in per cent as the paper has them."""
    percent = 100.0 * np.asarray(values, dtype=np.float64)
    return f"{percent.mean():.2f} ± {_deviation(percent):.2f}"


def _deviation(values: Vector) -> float:
    """Return the standard deviation over splits, NaN if there is one only."""
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def _places(trials: Sequence[Trial]) -> list[tuple[str, str]]:
    return [(data, loss) for data in dict.fromkeys(one.data for one in trials) for loss in LOSSES]


def best_table(trials: Sequence[Trial]) -> Table:
    """Return the lowest test losses over C, the paper's beside those of the mammals."""
    rows: list[list[Any]] = []
    for data, loss in _places(trials):
        row: list[Any] = [data, LOSSES[loss]]
        for method in METHODS:
            C = best_strength(trials, data, loss, method)
            row.append(f"{show_spread(losses_of(trials, data, loss, method)[C])} (C {C:g})")
        rows.append([*row, *(published(data)[loss, method] for method in METHODS[:3])])
    columns = ["data", "loss", *METHODS, *(f"paper {method}" for method in METHODS[:3])]
    note = "C is chosen by the test loss itself, as the paper does. The paper's photographs are others."
    return Table("Best test loss over C in %, mean ± standard deviation over splits", columns, rows, note)


def held_out_table(trials: Sequence[Trial]) -> Table:
    """Return the test losses at a C that was chosen without test photographs."""
    rows: list[list[Any]] = []
    for data, loss in _places(trials):
        row: list[Any] = [data, LOSSES[loss]]
        for method in METHODS:
            found = held_out_trials(trials, data, loss, method)
            chosen = ", ".join(f"{C:g}" for C in sorted({one.C for one in found}))
            row.append(f"{show_spread([one.scores[loss] for one in found])} (C {chosen})")
        rows.append(row)
    note = "C has the lowest loss on training photographs that were held out, in each split on its own."
    return Table("Test loss at the held-out choice of C in %", ["data", "loss", *METHODS], rows, note)


def paired_test(ours: Vector, others: Vector) -> list[Any]:
    """Return the mean difference in points and the p of a paired t-test, None where all differences are equal."""
    apart = ours - others
    if len(apart) < 2 or np.ptp(apart) < 1e-12:
        return [f"{100 * apart.mean():+.2f}", None]
    return [f"{100 * apart.mean():+.2f}", f"{stats.ttest_rel(ours, others).pvalue:.2g}"]


def test_table(trials: Sequence[Trial]) -> Table:
    """Return paired tests of ModLat against the others over the splits."""
    rows: list[list[Any]] = []
    for data, loss in _places(trials):
        for other in (LSVM, ILSVM, BLIND):
            best = [
                losses_of(trials, data, loss, method)[best_strength(trials, data, loss, method)]
                for method in (MODLAT, other)
            ]
            chosen = [
                np.array([one.scores[loss] for one in held_out_trials(trials, data, loss, method)])
                for method in (MODLAT, other)
            ]
            rows.append([data, LOSSES[loss], other, *paired_test(*best), *paired_test(*chosen)])
    columns = ["data", "loss", "ModLat minus", "best over C", "p", "held-out C", "p (held-out)"]
    note = "Negative: ModLat's loss is the lower one. Splits overlap, so that p is too small."
    return Table("Differences of test losses in points, paired t-tests over splits", columns, rows, note)


def quality_table(trials: Sequence[Trial]) -> Table:
    """Return boxes found and classes right at the held-out choice of C."""
    rows: list[list[Any]] = []
    for data, loss in _places(trials):
        for name, shown in (("corloc", "CorLoc"), ("accuracy", "class accuracy")):
            values = [
                show_spread([one.scores[name] for one in held_out_trials(trials, data, loss, method)])
                for method in METHODS
            ]
            rows.append([data, LOSSES[loss], shown, *values])
    note = "CorLoc: test photographs whose box overlaps a true one by at least 0.5, whatever the class."
    return Table("Boxes and classes at the held-out choice of C in %", ["data", "loss", "what", *METHODS], rows, note)


def curve_table(trials: Sequence[Trial]) -> Table:
    """Return the mean test losses at each C."""
    rows: list[list[Any]] = []
    for data, loss in _places(trials):
        found = [losses_of(trials, data, loss, method) for method in METHODS]
        rows += [[data, LOSSES[loss], f"{C:g}", *(show_spread(one[C]) for one in found)] for C in found[0]]
    return Table("Figure 1: test loss in % against C", ["data", "loss", "C", *METHODS], rows)


def data_table(rows: Sequence[Sequence[Any]]) -> Table:
    """Return what the data sets have, and what their candidates allow."""
    columns = ["data", "photographs", "boxes each", "best overlap %", "best ≥ 0.5 %", "whole image %"]
    note = "Overlap of true boxes with the best candidate, and with the whole photograph."
    return Table("Data", columns, [list(row) for row in rows], note)


def time_table(trials: Sequence[Trial]) -> Table:
    """Return how much CPU time models took."""
    rows: list[list[Any]] = []
    for method in METHODS:
        seconds = np.array([one.seconds for one in trials if one.method == method])
        rows.append([method, len(seconds), float(np.median(seconds)), float(seconds.max())])
    note = f"The others begin with the weights of {BLIND}, whose time is not part of theirs."
    return Table("CPU seconds to train and test a model", ["method", "models", "median", "most"], rows, note)


def to_plain(trials: Sequence[Trial]) -> dict[str, list[list[float]]]:
    """Return the losses of all models: for each data set, loss, method and part a list for each C over the splits."""
    return {
        f"{data}, {LOSSES[loss]}, {method}, {part}": [
            np.round(values, 4).tolist() for values in losses_of(trials, data, loss, method, part).values()
        ]
        for data, loss in _places(trials)
        for method in METHODS
        for part in (TEST, HELD_OUT)
    }


# ---- pictures --------------------------------------------------------------------------------------------


def loss_plots(trials: Sequence[Trial]) -> "dict[str, Callable[[Axes], None]]":
    """Return a picture of test loss against C for each data set and loss."""
    return {
        f"{data.replace(' ', '-')}-{loss.replace('_', '-')}": _loss_plot(trials, data, loss)
        for data, loss in _places(trials)
    }


def _loss_plot(trials: Sequence[Trial], data: str, loss: str) -> "Callable[[Axes], None]":
    def draw(axes: "Axes") -> None:
        for marker, method in zip("sdox", METHODS, strict=True):
            found = losses_of(trials, data, loss, method)
            means = [100 * values.mean() for values in found.values()]
            spreads = [100 * _deviation(values) / math.sqrt(len(values)) for values in found.values()]
            axes.errorbar(list(found), means, spreads, marker=marker, capsize=2, label=method)
        axes.set(xscale="log", xlabel="C", ylabel=f"test loss in %, {LOSSES[loss]}", title=data)
        axes.legend(fontsize=8)

    return draw


def case_losses(trial: Trial, photographs: Photographs) -> Vector:
    """Return 1 − overlap of each prediction with the truth, 1 where the class is wrong."""
    met = [overlaps(box, photographs.boxes[k]).max() for k, box in zip(trial.photographs, trial.boxes, strict=True)]
    right = [photographs.labels[k] == y for k, y in zip(trial.photographs, trial.Y_pred, strict=True)]
    return np.where(right, 1.0 - np.array(met), 1.0)


def case_plots(data: str, photographs: Photographs, trials: Sequence[Trial]) -> "dict[str, Callable[[Axes], None]]":
    """Return the best and the worst test cases of ModLat with the overlap loss in the first split, at the chosen C.

    Of cases with a wrong class those that miss the object most come last.
    """
    trial = held_out_trials(trials, data, "overlap", MODLAT)[0]
    missed = [
        1 - overlaps(box, photographs.boxes[k]).max() for k, box in zip(trial.photographs, trial.boxes, strict=True)
    ]
    order = np.lexsort((missed, case_losses(trial, photographs))).tolist()
    name = data.replace(" ", "-")
    return {
        f"{name}-best": _case_plot(photographs, trial, order[:N_SHOWN], f"{data}: the best test cases of ModLat"),
        f"{name}-worst": _case_plot(photographs, trial, order[-N_SHOWN:][::-1], f"{data}: the worst test cases"),
    }


def _case_plot(photographs: Photographs, trial: Trial, cases: Sequence[int], title: str) -> "Callable[[Axes], None]":
    def draw(axes: "Axes") -> None:
        from latentstruct.viz.box_pictures import draw_boxes

        pictures = []
        for case in cases:
            k = trial.photographs[case]
            caption = trial.Y_pred[case]
            if caption != photographs.labels[k]:
                caption += f", not {photographs.labels[k]}"
            picture = draw_boxes(
                photographs.images[k], trial.boxes[case][None], [caption], true_boxes=photographs.boxes[k]
            )
            pictures.append(picture)
        axes.imshow(montage(pictures, (len(pictures) + 1) // 2))
        axes.set_title(f"{title} (true boxes white)", fontsize=9)
        axes.axis("off")

    return draw


def montage(pictures: Sequence[NDArray[np.uint8]], n_columns: int, gap: int = 6) -> NDArray[np.uint8]:
    """Return pictures side by side in rows, on white; each has the size of the largest."""
    height, width = (max(picture.shape[axis] for picture in pictures) + gap for axis in (0, 1))
    n_rows = -(-len(pictures) // n_columns)
    sheet = np.full((n_rows * height, n_columns * width, 3), 255, dtype=np.uint8)
    for number, picture in enumerate(pictures):
        top, left = height * (number // n_columns), width * (number % n_columns)
        sheet[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return sheet
