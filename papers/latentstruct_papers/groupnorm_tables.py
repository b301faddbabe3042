"""Tables and pictures of the pairs of digits whose rotations a group norm chooses."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.features.rotated_views import ANGLES
from latentstruct_papers.digit_pairs import N_ANGLES
from latentstruct_papers.findings import Claim, Table, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEPARATE_C = 100.0
MAIN_SCALE = 100.0
TOLERANCE = 0.003
"""How far below that of all angles an accuracy may lie to count as equal."""
THRESHOLDS = (1e-3, 1e-2, 1e-1)
PAPER_KEPT = {"1-7": 5, "2-7": 8, "3-8": 7, "8-9": 9}
PAPER_BUDGET = {"1-7": 3, "2-7": 4, "3-8": 3, "8-9": 4}
PASSES = (30, 100, 300)
BUDGETS = range(1, N_ANGLES + 1)
GROUP, SHARED, SEPARATE, UPRIGHT = "group norm", "L2, shared weights", "L2, separate weights", "L2, 0° alone"


class Sparse(NamedTuple):
    """A model trained with the group norm, on features of some scale and from some start.

    Attributes
    ----------
    pair, scale, start
        What was trained.
    norms : list of lists
        Norms of the weights of each digit and angle.
    accuracy : float
        Share of right test images.
    dropped : str
        Change of the accuracy if states of weight zero may not be chosen.
    objective, passes : float
        The objective, and passes of the oracle over the data.
    """

    pair: str
    scale: float
    start: int
    norms: list[list[float]]
    accuracy: float
    dropped: str
    objective: float
    passes: float

    @property
    def kept(self) -> int:
        """States whose weights are not exactly zero."""
        return int(np.count_nonzero(self.norms))


class Compared(NamedTuple):
    """Accuracy of the best start at the main scale, and of models with ½‖w‖².

    Attributes
    ----------
    pair : str
        The digits.
    kept : int
        States that are not exactly zero.
    own : str
        Accuracy.
    rivals : dict of str to str
        Accuracies of the others.
    apart : dict of str to [float, float]
        Paired differences and their standard errors, as shares.
    """

    pair: str
    kept: int
    own: str
    rivals: dict[str, str]
    apart: dict[str, list[float]]


class Descended(NamedTuple):
    """A model trained by the algorithm of the paper; objectives of ours and of it after `PASSES`, None before any."""

    pair: str
    scale: float
    norms: list[list[float]]
    accuracy: float
    objectives: list[list[float | None]]

    def above(self, threshold: float) -> int:
        """Return how many states have a norm above this share of the largest."""
        norms = np.array(self.norms)
        return int((norms > threshold * norms.max()).sum())


class Budget(NamedTuple):
    """What a model costs if each digit may have a limited number of angles: their number, and CPU seconds of images."""

    pair: str
    budget: int
    angles: int
    pairs: int
    rotating: float
    folded: float
    predicting: float
    images: int

    @property
    def microseconds(self) -> tuple[float, float]:
        """CPU time from the pixels of an image to its digit: by rotating, and by one matrix of each angle."""
        return tuple(1e6 * (one + self.predicting) / self.images for one in (self.rotating, self.folded))  # type: ignore[return-value]


class Selection(NamedTuple):
    """Accuracy on one pair at each budget of angles a digit, by norm and at random."""

    pair: str
    by_norm: list[float]
    shared: list[list[float]]
    separate: list[list[float]]

    def needed(self, curve: Sequence[float]) -> int:
        """Return the smallest budget from which on a curve stays as good as all angles."""
        low = [k for k, value in zip(BUDGETS, curve, strict=True) if value < curve[-1] - TOLERANCE]
        return max(low, default=0) + 1


def path_table(sparse: Sequence[Sparse]) -> Table:
    """Return how many states stay at each scale of the features."""
    rows: list[list[object]] = []
    for pair, scale in dict.fromkeys((one.pair, one.scale) for one in sparse):
        starts = [one for one in sparse if (one.pair, one.scale) == (pair, scale)]
        best = min(starts, key=lambda one: one.objective)
        rows.append(
            [
                pair,
                f"×{scale:g}",
                f"{1 / scale:.3g}",
                ", ".join(str(one.kept) for one in starts),
                PAPER_KEPT.get(pair),
                ", ".join(f"{100 * one.accuracy:.2f}" for one in starts),
                best.dropped,
                best.objective,
                best.passes,
            ]
        )
    return Table(
        f"States kept of {2 * N_ANGLES} (not exactly zero) at C = 1 over the scale of the features, or λ at scale 1",
        [
            "pair",
            "scale",
            "λ",
            "kept, by start",
            "paper",
            "accuracy %, by start",
            "zeros dropped",
            "objective",
            "passes",
        ],
        rows,
        "The scale s is a factor of features of pixels from 0 to 1, at λ = 1. With u = s w the objective λ Σ ‖w‖ + C Σ "
        "slack is that of scale 1 with λ = 1 / s, so the path over scales is one over λ too. Zeros dropped: "
        "change of the accuracy in points when states of weight zero, which score 0, may no longer be chosen. "
        "Objective and passes of the oracle are those of the best start.",
    )


def accuracy_table(compared: Sequence[Compared]) -> Table:
    """Return accuracies of the group norm and of models with ½‖w‖²."""
    rivals = (SEPARATE, SHARED, UPRIGHT)
    rows = [
        [
            one.pair,
            one.kept,
            one.own,
            *(one.rivals[kind] for kind in rivals),
            *(f"{100 * one.apart[kind][0]:+.2f} ± {100 * one.apart[kind][1]:.2f}" for kind in rivals),
        ]
        for one in compared
    ]
    columns = ["pair", "kept", GROUP, SEPARATE, SHARED, UPRIGHT, "− separate", "− shared", "− 0° alone"]
    return Table(
        "Test accuracy in % ± standard error over test images, and paired differences in points",
        columns,
        rows,
        f"Group norm at scale ×{MAIN_SCALE:g} and C = 1, the start with the best objective; ½‖w‖² at C = "
        f"{SEPARATE_C:g} on pixels from 0 to 1.",
    )


def budget_table(selections: Sequence[Selection]) -> Table:
    """Return accuracy against the number of angles a digit may have (figure 2, left)."""
    rows: list[list[object]] = []
    for one in selections:
        rows.append([one.pair, "by norm", *(f"{100 * value:.2f}" for value in one.by_norm), one.needed(one.by_norm)])
        for name, draws in (("random, shared", one.shared), ("random, separate", one.separate)):
            cells = [f"{100 * np.mean(found):.1f} ± {100 * np.std(found, ddof=1):.1f}" for found in draws]
            rows.append([one.pair, name, *cells, one.needed([float(np.mean(found)) for found in draws])])
        rows[-3][-1] = f"{rows[-3][-1]} (paper {PAPER_BUDGET.get(one.pair, '–')})"
    return Table(
        "Test accuracy in % by angles a digit",
        ["pair", "angles", *map(str, BUDGETS), "needed"],
        rows,
        "By norm: the states of the group-norm model with the largest weights. Random: subsets of the angles of models "
        "with ½‖w‖², mean ± standard deviation over draws. Needed: from how many angles on the accuracy stays within "
        f"{100 * TOLERANCE:.1f} points of that with all.",
    )


def curve_table(selections: Sequence[Selection]) -> Table:
    """Return the same one budget a row, as figure 2 shows it."""
    rows: list[list[object]] = []
    for one in selections:
        for k, budget in enumerate(BUDGETS):
            drawn = [f"{100 * np.mean(kind[k]):.2f} ± {100 * np.std(kind[k], ddof=1):.2f}" for kind in one[2:]]
            rows.append([one.pair, budget, f"{100 * one.by_norm[k]:.2f}", *drawn])
    columns = ["pair", "angles", "by norm", "random, shared", "random, separate"]
    return Table("Figure 2: test accuracy in % against angles a digit", columns, rows)


def time_table(budgets: Sequence[Budget]) -> Table:
    """Return CPU milliseconds against the number of angles a digit may have (figure 2, right), summed over pairs."""
    rows: list[list[object]] = []
    sums = [_sum_of([one for one in budgets if one.budget == k]) for k in BUDGETS]
    whole = sums[-1]
    for budget, found in zip(BUDGETS, sums, strict=True):
        angles, states, rotating, folded, predicting, images = found
        rows.append([budget, int(angles), int(states), 1e3 * rotating, 1e3 * folded, 1e3 * predicting])
        rows[-1] += [1e6 * (rotating + predicting) / images, 1e6 * (folded + predicting) / images]
        # Clocks may be too coarse for few images.
        shares = (angles, whole[0]), (rotating, whole[2]), (folded, whole[3])
        rows[-1] += [f"{100 * part / total:.0f} %" if total else "–" for part, total in shares]
    columns = ["angles a digit", "angles in all", "states", "rotating ms", "folded ms", "predicting ms"]
    columns += ["µs an image", "µs, folded", "angles", "rotating", "folded"]
    return Table(
        "CPU time on the test images of all pairs, and shares of that of all kept states",
        columns,
        rows,
        "Angles in all: those that any digit of a pair needs, since both use the same features; states of weight zero "
        "need none. Rotating: each angle by rotation and projection, as in the paper. Folded: one matrix an angle for "
        "both. Predicting: from features to digits by the pruned model. µs an image: from its pixels to the digit.",
    )


def _sum_of(budgets: Sequence[Budget]) -> NDArray[np.float64]:
    return np.sum([one[2:] for one in budgets], axis=0)


def descent_table(descended: Sequence[Descended]) -> Table:
    """Return what the algorithm of the paper reaches."""
    rows: list[list[object]] = []
    for one in descended:
        compared = []
        for passes in PASSES:
            ours, theirs = one.objectives[PASSES.index(passes)]
            compared.append(None if ours is None or theirs is None else f"{ours:.4g} / {theirs:.4g}")
        accuracy = f"{100 * one.accuracy:.2f}"
        rows.append([one.pair, f"×{one.scale:g}", *map(one.above, (0.0, *THRESHOLDS)), accuracy, *compared])
    columns = ["pair", "scale", "not zero", *(f"> {100 * t:g} %" for t in THRESHOLDS), "accuracy %"]
    columns += [f"objective, {passes} passes" for passes in PASSES]
    return Table(
        "The algorithm of the paper: states by their share of the largest norm, and objectives of ours / its",
        columns,
        rows,
        "Alternating coordinate and subgradient descent never makes a weight exactly zero, so that states are counted "
        "above thresholds. Both algorithms begin with the same random weights; its own works on features of scale 1 "
        "with C times the scale, since its steps do not follow the scale.",
    )


def claims(
    sparse: Sequence[Sparse],
    compared: Sequence[Compared],
    selections: Sequence[Selection],
    budgets: Sequence[Budget],
    all_angles: Sequence[Sequence[float]],
) -> list[Claim]:
    """Return what the paper says of states, accuracy, angles and time."""
    names = [one.pair for one in compared]
    paths = []
    for scale in dict.fromkeys(one.scale for one in sparse):
        kept = [[str(one.kept) for one in sparse if (one.pair, one.scale) == (pair, scale)] for pair in names]
        paths.append(f"×{scale:g} " + "; ".join(", ".join(starts) for starts in kept))
    few = all(one.kept < N_ANGLES for one in compared)
    apart = np.array([one.apart[SEPARATE] for one in compared])
    mean, error = float(apart[:, 0].mean()), float(np.sqrt((apart[:, 1] ** 2).sum()) / len(apart))
    equal: Verdict = "reproduced" if mean - 2 * error > -TOLERANCE else "undecided"
    if mean + 2 * error < -TOLERANCE:
        equal = "not reproduced"
    chosen = [one.needed(one.by_norm) for one in selections]
    drawn = [one.needed([float(np.mean(draw)) for draw in one.separate]) for one in selections]
    fewer = all(ours < others for ours, others in zip(chosen, drawn, strict=True))
    pruned = [next(one for one in budgets if (one.pair, one.budget) == at) for at in zip(names, chosen, strict=True)]
    ours = np.mean([one.microseconds for one in pruned], axis=0)
    whole = 1e6 * np.mean(all_angles, axis=0)
    return [
        Claim(
            f"states kept of {2 * N_ANGLES} in the pairs {', '.join(names)}: fewer than half",
            ", ".join(str(PAPER_KEPT.get(pair, "–")) for pair in names) + "; the scale of the features is not given",
            f"{', '.join(str(one.kept) for one in compared)} by the lowest objective at ×{MAIN_SCALE:g}; by pair and "
            f"start at {', at '.join(paths)}",
            "reproduced" if few else "not reproduced",
        ),
        Claim(
            "accuracy with these is that with all angles",
            "as with all angles",
            f"{'; '.join(one.own for one in compared)} %, ½‖w‖² with all {2 * N_ANGLES} "
            f"{'; '.join(one.rivals[SEPARATE] for one in compared)} %: mean difference {100 * mean:+.2f} ± "
            f"{100 * error:.2f}, reproduced if surely above -{100 * TOLERANCE:.1f}",
            equal,
        ),
        Claim(
            "angles of each digit that reach it: fewer if chosen by the norm than at random",
            ", ".join(str(PAPER_BUDGET.get(pair, "–")) for pair in names),
            f"{', '.join(map(str, chosen))} by the norm; {', '.join(map(str, drawn))} random ones",
            "reproduced" if fewer else "not reproduced",
        ),
        Claim(
            f"CPU time from the pixels of an image to its digit with these angles, below that of all {N_ANGLES}",
            "below; no figures",
            f"{ours[0]:.1f} µs with {', '.join(str(one.angles) for one in pruned)} angles for both digits, features of "
            f"all {whole[0]:.1f} µs; with one matrix of each angle {ours[1]:.1f} and {whole[1]:.1f} µs",
            "reproduced" if ours[0] < whole[0] else "not reproduced",
        ),
    ]


def norm_plot(one: Sparse) -> "Callable[[Axes], None]":
    """Return figure 1 for one pair: norms of the weights of each angle."""

    def draw(axes: "Axes") -> None:
        places, width = np.arange(N_ANGLES), 0.4
        for k, digit in enumerate(one.pair.split("-")):
            axes.bar(places + (k - 0.5) * width, one.norms[k], width, label=f"digit {digit}")
        axes.set_xticks(places, [f"{angle:g}°" for angle in ANGLES])
        axes.set(xlabel="angle", ylabel="norm of the weights", title=f"{one.pair}: {one.kept} states kept")
        axes.legend()

    return draw


def selection_plot(one: Selection) -> "Callable[[Axes], None]":
    """Return figure 2 for one pair: accuracy against angles a digit."""

    def draw(axes: "Axes") -> None:
        axes.plot(BUDGETS, 100 * np.array(one.by_norm), marker="o", label="group norm, by norm")
        for name, draws in (("random, shared weights", one.shared), ("random, separate weights", one.separate)):
            found = 100 * np.array(draws)
            axes.errorbar(BUDGETS, found.mean(axis=1), found.std(axis=1, ddof=1), marker="s", capsize=2, label=name)
        axes.set(xlabel="angles a digit", ylabel="test accuracy, %", title=one.pair)
        axes.legend()

    return draw


def time_plot(budgets: Sequence[Budget]) -> "Callable[[Axes], None]":
    """Return figure 2, right: time of features against angles a digit."""

    def draw(axes: "Axes") -> None:
        for pair in dict.fromkeys(one.pair for one in budgets):
            chosen = [one for one in budgets if one.pair == pair]
            axes.plot([one.budget for one in chosen], [one.rotating for one in chosen], marker="o", label=pair)
        axes.set(xlabel="angles a digit", ylabel="CPU seconds of rotation and projection", ylim=(0, None))
        axes.legend()

    return draw


def path_plot(sparse: Sequence[Sparse]) -> "Callable[[Axes], None]":
    """Return a plot of the states kept against the scale of the features."""

    def draw(axes: "Axes") -> None:
        for pair in dict.fromkeys(one.pair for one in sparse):
            chosen = [one for one in sparse if one.pair == pair]
            scales = sorted({one.scale for one in chosen})
            kept = [np.mean([one.kept for one in chosen if one.scale == scale]) for scale in scales]
            axes.plot(scales, kept, marker="o", label=pair)
        axes.set(xscale="log", xlabel="scale of the features", ylabel=f"states kept of {2 * N_ANGLES}", ylim=(0, None))
        axes.legend()

    return draw
