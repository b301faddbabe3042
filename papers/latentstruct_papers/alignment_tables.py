"""Tables and pictures of the alignment experiment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel

from latentstruct.core.types import Vector
from latentstruct.viz.plots import plot_substitutions
from latentstruct_papers.findings import Claim, Table, above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BASELINE, RAISED, CRF_MARK = "BLOSUM62", "BLOSUM62, raised", ", CRF"
GAINS = ("gain Q", "p pairs", "p families", "gain Q4", "p pairs", "p families")
FIXED = ("matrix", "mode", "gaps")
IDENTITY_BINS = (0.0, 15.0, 20.0, 25.0, 40.0, 100.1)

_LADDER_NOTE = (
    "Settings by the validation Q. Cut: training pairs of lower identity are left out. The gaps of BLOSUM62 are the "
    "costs of the first and of each further letter. Q: the share of aligned letters that are found exactly, Q4: up to "
    "a shift of four, which the models are trained for; modeler: the share of predicted matches that are true. Gain: "
    "over BLOSUM62 in the better mode; p: paired t-tests over pairs, and over the means of families, as pairs of one "
    "family are not independent. Tracks: structure and accessibility as guessed from letters. The paper shows bars "
    "whose figures its text does not give: Window and Profile beat SSALN, Profile is the best, BLAST the baseline; "
    "TM-align has a Q4 of 85.45 on these other data."
)


@dataclass(frozen=True)
class Pairs:
    """Pairs of one part: what the task takes, and what is known of them."""

    X: list[tuple[str, str]]
    Y: list[NDArray[np.int64]]
    families: NDArray[np.int64]
    identities: Vector

    def __len__(self) -> int:
        return len(self.X)

    def at_least(self, identity: float) -> "Pairs":
        """Return the pairs with at least this share of equal letters, in per cent."""
        kept = np.flatnonzero(self.identities >= identity)
        return Pairs([self.X[k] for k in kept], [self.Y[k] for k in kept], self.families[kept], self.identities[kept])


@dataclass(frozen=True)
class Measured:
    """One model: how it was set, and the scores of each pair of validation and test."""

    model: str
    mode: str
    setting: str
    n_weights: int
    validation: dict[str, Vector]
    test: dict[str, Vector]
    seconds: float
    cut: float | None = None
    iterations: int = 0
    gaps: tuple[float, float] = (0.0, 0.0)
    matrix: tuple[str, Any] | None = None

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Measured":
        """Return what a trial found from plain values."""
        scores = {
            part: {name: np.array(values) for name, values in plain[part].items()} for part in ("validation", "test")
        }
        letters, matrix = plain["matrix"]
        return cls(**{**plain, **scores, "gaps": tuple(plain["gaps"]), "matrix": (letters, np.array(matrix))})

    @property
    def chosen_by(self) -> float:
        """The mean Q-score on the validation pairs."""
        return float(self.validation["Q"].mean())


class Results:
    """All models, of which each is chosen by the validation pairs."""

    def __init__(self, measured: Sequence[Measured], test: Pairs) -> None:
        self.measured, self.test_pairs = list(measured), test

    def best(self, model: str, mode: str | None = None) -> Measured:
        """Return a model in the mode, or in any, with the setting that is best on the validation pairs."""
        fitting = [m for m in self.measured if m.model == model and mode in (None, m.mode)]
        return max(fitting, key=lambda m: m.chosen_by)

    def chosen(self) -> list[Measured]:
        """Return the best setting of each model and mode, in the order of the ladder."""
        tried = dict.fromkeys((m.model, m.mode) for m in self.measured)
        return [self.best(*key) for key in tried]

    def gain(self, one: Measured, base: Measured, name: str) -> tuple[float | None, float | None, float | None]:
        """Return the gain over another model, and its p-values over pairs and over the means of families."""
        if one is base:
            return None, None, None
        ours, theirs = one.test[name], base.test[name]
        return 100 * float((ours - theirs).mean()), p_value(ours, theirs), p_value(*map(self._means, (ours, theirs)))

    def gain_cells(self, one: Measured, base: Measured) -> list[str | None]:
        """Return the gains of Q and Q₄ with their p-values for a table."""
        cells: list[str | None] = []
        for name in ("Q", "Q4"):
            gain, by_pairs, by_families = self.gain(one, base, name)
            cells += [None if gain is None else f"{gain:+.2f}", show_p(by_pairs), show_p(by_families)]
        return cells

    def family_means(self, one: Measured, name: str) -> Vector:
        """Return the mean score of each family of test pairs."""
        return self._means(one.test[name])

    def _means(self, scores: Vector) -> Vector:
        """Return the mean of each family."""
        families = self.test_pairs.families
        return np.array([scores[families == family].mean() for family in np.unique(families)])


def p_value(ours: Vector, theirs: Vector) -> float | None:
    """Return the p-value of a paired t-test, None if nothing varies."""
    if len(ours) < 2 or np.ptp(ours - theirs) == 0:
        return None
    return float(ttest_rel(ours, theirs).pvalue)


def percent(scores: Vector) -> float | None:
    """Return a mean as a percentage with two decimals, None of nothing."""
    return round(100 * float(scores.mean()), 2) if len(scores) else None


def show_p(p: float | None) -> str | None:
    """Return a p-value for a table."""
    return None if p is None else f"{p:.2g}"


def ladder_table(results: Results) -> Table:
    """Return the scores of all models on the test pairs."""
    rows: list[list[Any]] = []
    for one in results.chosen():
        rows.append(
            [
                one.model,
                one.mode,
                str(one.n_weights),
                None if one.cut is None else f"{one.cut:g} %",
                one.setting,
                percent(one.validation["Q"]),
                *(percent(one.test[name]) for name in ("Q", "Q4", "modeler")),
                *results.gain_cells(one, results.best(BASELINE)),
            ]
        )
    columns = ["model", "mode", "weights", "cut", "C or gaps", "valid. Q", "Q", "Q4", "modeler"]
    columns += GAINS
    return Table(f"Test pairs ({len(results.test_pairs)}), per cent, means over pairs", columns, rows, _LADDER_NOTE)


def claims(results: Results, simple: str) -> list[Claim]:
    """Return whether learned weights are above BLOSUM62, and models of tracks above letters, by the Q₄ of families.

    A CRF, which the paper does not have, is compared with a structural SVM of the same features.
    """
    found = []
    names = list(dict.fromkeys(one.model for one in results.measured))
    learned = [name for name in names if name not in (BASELINE, RAISED, simple)]
    for ours, other in [(simple, BASELINE), *((name, simple) for name in learned)]:
        best, base = results.best(ours), results.best(other)
        first, second = (results.family_means(one, "Q4") for one in (best, base))
        apart = first - second
        error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.nan
        means = ", ".join(f"{100 * values.mean():.1f}" for values in (first, second))
        shown = f"{means}: {100 * apart.mean():+.1f} ± {100 * error:.1f} over {len(apart)} families"
        gain, p, _ = results.gain(best, base, "Q4")
        shown += "" if gain is None else f"; {gain:+.1f} over {len(results.test_pairs)} pairs (p = {show_p(p)})"
        if ours.endswith(CRF_MARK):
            found.append(Claim(f"Q4 of {ours} against {other}", "", shown, "no published figure", True))
        else:
            found.append(Claim(f"Q4 of {ours} above {other}", "no figures in the text", shown, above(apart), True))
    return found


def fixed_table(results: Results, learned: Measured) -> Table:
    """Return the gains of a learned model over each form of BLOSUM62."""
    fixed = [one for one in results.chosen() if one.model in (BASELINE, RAISED)]
    rows = [[one.model, one.mode, one.setting, *results.gain_cells(learned, one)] for one in fixed]
    note = (
        "Raised: a number is added to all scores, so that local alignments reach as far as global ones but leave the "
        "ends out for nothing, as learned ones do; it is tuned with the gaps on the validation pairs."
    )
    return Table(f"{learned.model}, {learned.mode}, against fixed matrices", [*FIXED, *GAINS], rows, note)


def identity_table(results: Results) -> Table:
    """Return the Q-scores by the share of equal letters."""
    identities = results.test_pairs.identities
    rows: list[list[Any]] = []
    chosen = results.chosen()
    for low, high in pairwise(IDENTITY_BINS):
        within = (identities >= low) & (identities < high)
        if within.any():
            share = f"{low:g}–{min(high, 100.0):g} %"
            rows.append([share, int(within.sum()), *(percent(one.test["Q"][within]) for one in chosen)])
    columns = ["identity", "pairs", *(f"{one.model}, {one.mode}" for one in chosen)]
    note = "Identity: the share of equal letters among the aligned ones, as PREFAB lists it."
    return Table("Q on the test pairs by identity, per cent", columns, rows, note)


def settings_table(results: Results) -> Table:
    """Return what every setting of the learned models gave on the validation pairs."""
    rows = [
        [
            one.model,
            one.mode,
            f"{one.cut:g} %",
            one.setting,
            *(percent(one.validation[name]) for name in ("Q", "Q4")),
            *one.gaps,
            one.iterations,
            one.seconds,
        ]
        for one in results.measured
        if one.model not in (BASELINE, RAISED)
    ]
    columns = ["model", "mode", "cut", "C", "valid. Q", "valid. Q4", "gap open", "gap extend", "iterations", "seconds"]
    return Table("All settings on the validation pairs", columns, rows, "Seconds: of training.")


def ladder_plot(results: Results) -> "Callable[[Axes], None]":
    """Return a plot of the Q-scores of all models."""

    def draw(axes: "Axes") -> None:
        chosen = results.chosen()
        places = np.arange(len(chosen))
        for shift, name in ((-0.2, "Q"), (0.2, "Q4")):
            axes.bar(places + shift, [100 * one.test[name].mean() for one in chosen], 0.4, label=name)
        names = [f"{one.model}, {one.mode}".replace(", ", "\n") for one in chosen]
        axes.set_xticks(places, names, fontsize=7)
        axes.set_ylabel("score on the test pairs (%)")
        axes.legend()

    return draw


def matrix_plot(one: Measured) -> "Callable[[Axes], None]":
    """Return a picture of a learned substitution matrix."""

    def draw(axes: "Axes") -> None:
        assert one.matrix is not None
        letters, scores = one.matrix
        plot_substitutions(scores, letters, axes)

    return draw
