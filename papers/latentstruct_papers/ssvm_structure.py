"""Joachims et al. (2009), section 3.2 and figure 6: the ladder of alignment models with true secondary structure."""

import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentstruct.core.types import Vector
from latentstruct.data.sequences import AlignmentInput, SequenceTracks
from latentstruct.estimators import StructuralSVM
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.io.ncbi_matrix import blosum62
from latentstruct.metrics.alignments import q_scores
from latentstruct.tasks.alignment.task import Alignment
from latentstruct_papers.alignment_tables import p_value, show_p
from latentstruct_papers.datasets import load_protein_structures
from latentstruct_papers.findings import Claim, Findings, Table, above
from latentstruct_papers.ssvm_alignment import TOLERANCE, find_families, split_families
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLOSUM = "BLOSUM62"
TRAIN, VALIDATION, TEST = range(3)


class Rung(NamedTuple):
    """One model of the ladder: its features, and whether it sees the secondary structure."""

    name: str
    features: str
    structure: bool = True


SIMPLE = Rung("Simple, letters alone", "simple", structure=False)
LADDER = (
    SIMPLE,
    Rung("Simple", "simple"),
    Rung("Anova2", "anova2"),
    Rung("Window", "window"),
)


class Setting(NamedTuple):
    """How much is done.

    Attributes
    ----------
    longest : int
        Longest sequences that are taken.
    most : int
        Most pairs of a family.
    cuts : tuple of float
        Identities, in per cent, below which training pairs are left out.
    strengths : tuple of float
        Values of C.
    opens, extends : tuples of float
        Costs of the first and of each further letter against a gap that are tried with BLOSUM62.
    rungs : tuple of Rung
        The models.
    tol : float
        Relative gap to which models are trained.
    """

    longest: int
    most: int
    cuts: tuple[float, ...]
    strengths: tuple[float, ...]
    opens: tuple[float, ...]
    extends: tuple[float, ...]
    rungs: tuple[Rung, ...]
    tol: float


FULL = Setting(
    longest=400,
    most=20,
    cuts=(0.0, 20.0, 30.0, 40.0, 50.0),
    strengths=(1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
    opens=(6, 8, 10, 12, 14, 16),
    extends=(0.5, 1, 2),
    rungs=LADDER,
    tol=0.02,
)
QUICK = Setting(200, 20, (30.0, 50.0), (1e-3, 1e-2), (8, 12), (1,), LADDER[:3], 0.05)


class Pairs(NamedTuple):
    """Pairs of one part: with structure, letters alone, the true matches, and their families."""

    X: list[AlignmentInput]
    letters: list[AlignmentInput]
    Y: list[Any]
    families: Vector
    identities: Vector

    def at_least(self, identity: float) -> "Pairs":
        """Return the pairs with at least this percentage of equal letters."""
        kept = np.flatnonzero(self.identities >= identity).tolist()
        X, letters, Y = ([values[k] for k in kept] for values in (self.X, self.letters, self.Y))
        return Pairs(X, letters, Y, self.families[kept], self.identities[kept])

    def inputs(self, rung: Rung) -> list[AlignmentInput]:
        """Return what a model sees."""
        return self.X if rung.structure else self.letters


@lru_cache(maxsize=1)
def load_parts(data_home: str | None, longest: int, most: int, seed: int = 0) -> list[Pairs]:
    """Return training, validation and test pairs, no family in two of them.

    Pairs of one reference set, or with a common sequence, directly or through others, are of one family.
    """
    data = load_protein_structures(data_home)
    families = find_families([(name, name) for name in data.sets], data.sequences)
    rng = np.random.default_rng(seed)
    taken: dict[int, int] = {}
    kept = []
    for k in rng.permutation(len(data)).tolist():
        family = int(families[k])
        if max(map(len, data.sequences[k])) <= longest and taken.get(family, 0) < most:
            taken[family] = taken.get(family, 0) + 1
            kept.append(k)
    chosen = np.array(sorted(kept))
    parts = []
    assert data.matches is not None
    assert data.identities is not None
    for part in split_families(families[chosen], seed):
        numbers = chosen[part].tolist()
        tracks = [
            AlignmentInput(*(SequenceTracks(*one) for one in zip(data.sequences[k], data.structures[k], strict=True)))
            for k in numbers
        ]
        letters = [AlignmentInput(*data.sequences[k]) for k in numbers]
        parts.append(
            Pairs(tracks, letters, [data.matches[k] for k in numbers], families[numbers], data.identities[numbers])
        )
    return parts


def _scores(part: Pairs, predicted: Sequence[Any]) -> dict[str, list[float]]:
    return {"Q": q_scores(part.Y, predicted).tolist(), "Q4": q_scores(part.Y, predicted, TOLERANCE).tolist()}


def measure_blosum(
    longest: int, most: int, mode: str, opens: Sequence[float], extends: Sequence[float], data_home: str | None
) -> list[dict[str, Any]]:
    """Align by BLOSUM62 with all costs of gaps."""
    parts = load_parts(data_home, longest, most)
    task = Alignment(features="simple", mode=mode, tolerance=TOLERANCE)
    task.learn(parts[TRAIN].letters, parts[TRAIN].Y)
    letters = task.substitution_matrix(np.zeros(task.n_features))[0]
    matrix = (letters, blosum62().restricted(letters).scores)
    found = []
    for gap_open in opens:
        for gap_extend in extends:
            w = task.fixed_weights(matrix, gap_open, gap_extend)
            found.append(
                {
                    "model": BLOSUM,
                    "mode": mode,
                    "setting": f"gaps {gap_open:g}, {gap_extend:g}",
                    "n_weights": len(w),
                    "validation": _scores(parts[VALIDATION], task.align(parts[VALIDATION].letters, w)),
                    "test": _scores(parts[TEST], task.align(parts[TEST].letters, w)),
                }
            )
    return found


def measure_learned(
    longest: int, most: int, rung: Sequence[Any], mode: str, cut: float, C: float, tol: float, data_home: str | None
) -> dict[str, Any]:
    """Train one model on the training pairs of at least the identity `cut`."""
    parts, one = load_parts(data_home, longest, most), Rung(*rung)
    train = parts[TRAIN].at_least(cut)
    model = StructuralSVM(Alignment(features=one.features, mode=mode, tolerance=TOLERANCE), C=C, tol=tol)
    with warnings.catch_warnings():
        # A model that is not trained to the end is judged by the validation pairs like the others.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(train.inputs(one), train.Y)
    predicted = [model.predict(parts[k].inputs(one)) for k in (VALIDATION, TEST)]
    return {
        "model": one.name,
        "mode": mode,
        "setting": f"C {C:g}, cut {cut:g} %",
        "n_weights": len(model.coef_),
        "gap": float(model.relative_gap_),
        "validation": _scores(parts[VALIDATION], predicted[0]),
        "test": _scores(parts[TEST], predicted[1]),
    }


class Results:
    """All models, each chosen by the mean Q on the validation pairs."""

    def __init__(self, measured: Sequence[dict[str, Any]], families: Vector) -> None:
        self.measured, self.families = list(measured), np.asarray(families)

    def best(self, model: str) -> dict[str, Any]:
        """Return the chosen setting of a model."""
        return max((m for m in self.measured if m["model"] == model), key=lambda m: np.mean(m["validation"]["Q"]))

    def models(self) -> list[str]:
        """Return the names of the models in the order of the ladder."""
        return list(dict.fromkeys(m["model"] for m in self.measured))

    def family_means(self, model: str, score: str) -> Vector:
        """Return the mean score of each test family."""
        values = np.array(self.best(model)["test"][score])
        return np.array([values[self.families == family].mean() for family in np.unique(self.families)])

    def table(self) -> Table:
        """Return the scores on the test pairs, and the gains over the model before."""
        rows: list[list[Any]] = []
        for place, name in enumerate(self.models()):
            one = self.best(name)
            means = [round(100 * float(np.mean(one["test"][score])), 2) for score in ("Q", "Q4")]
            by_family = [round(100 * float(self.family_means(name, score).mean()), 2) for score in ("Q", "Q4")]
            gains: list[Any] = [None, None]
            if place:
                ours, others = (self.family_means(other, "Q") for other in (name, self.models()[place - 1]))
                gains = [f"{100 * (ours - others).mean():+.2f}", show_p(p_value(ours, others))]
            rows.append([name, one["mode"], one["setting"], str(one["n_weights"]), *means, *by_family, *gains])
        columns = ["model", "mode", "setting", "weights", "Q", "Q4", "Q, families", "Q4, families", "gain Q", "p"]
        note = (
            "Means over pairs, and over the means of families, to which gain (over the row above) and p (paired "
            "t-test) belong. Cut: training pairs of lower identity are left out. Settings have the best Q on the "
            f"validation pairs. Q4: up to a shift of {TOLERANCE}."
        )
        n_families = len(np.unique(self.families))
        return Table(f"{len(self.families)} test pairs of {n_families} families, %", columns, rows, note)

    def claims(self) -> list[Claim]:
        """Return whether structure helps, and whether richer features do, by the Q of families."""
        steps = [
            (SIMPLE.name, BLOSUM, "learned weights above BLOSUM62 with tuned gaps"),
            *((b.name, a.name, f"{b.name} above {a.name}") for a, b in pairwise(LADDER)),
        ]
        found = []
        for ours, other, what in steps:
            if {ours, other} <= set(self.models()):
                apart = self.family_means(ours, "Q") - self.family_means(other, "Q")
                error = apart.std(ddof=1) / np.sqrt(len(apart))
                means = ", ".join(f"{100 * self.family_means(name, 'Q').mean():.1f}" for name in (ours, other))
                shown = f"{means}: {100 * apart.mean():+.1f} ± {100 * error:.1f} over {len(apart)} families"
                found.append(Claim(f"Q, {what}", "no figures in the text", shown, above(apart), other_data=True))
        return found

    def draw(self, axes: "Axes") -> None:
        """Draw the scores of the ladder."""
        places = np.arange(len(self.models()))
        for shift, score in ((-0.2, "Q"), (0.2, "Q4")):
            means = [100 * self.family_means(name, score).mean() for name in self.models()]
            axes.bar(places + shift, means, 0.4, label=score)
        axes.set_xticks(places, [name.replace(", ", "\n") for name in self.models()], fontsize=8)
        axes.set_ylabel("mean over test families (%)")
        axes.legend()


def _show(arguments: tuple[Any, ...], found: Any) -> str:
    shown = found if isinstance(found, list) else [found]
    best = max(shown, key=lambda one: np.mean(one["validation"]["Q"]))
    return f"{best['model']}, {best['mode']}, {best['setting']}: validation Q {np.mean(best['validation']['Q']):.3f}"


def run(setup: Setup) -> Findings:
    """Train alignment models from letters alone to windows of letters and structure."""
    setting = QUICK if setup.quick else FULL
    home = setup.data_home
    sizes = (setting.longest, setting.most)
    parts = load_parts(home, *sizes)
    fixed = [(*sizes, mode, setting.opens, setting.extends, home) for mode in ("local", "global")]
    measured = [
        one for found in setup.trials.run(measure_blosum, fixed, setup.say, "modes of BLOSUM62", _show) for one in found
    ]

    def learn(rungs: Sequence[Rung], modes: Sequence[str]) -> list[dict[str, Any]]:
        arguments = [
            (*sizes, tuple(rung), mode, cut, C, setting.tol, home)
            for rung in rungs
            for mode in modes
            for cut in setting.cuts
            for C in setting.strengths
        ]
        return setup.trials.run(measure_learned, arguments, setup.say, "trainings", _show)

    measured += learn([SIMPLE], ("local", "global"))
    mode = Results(measured, parts[TEST].families).best(SIMPLE.name)["mode"]
    measured += learn([rung for rung in setting.rungs if rung is not SIMPLE], (mode,))
    results = Results(measured, parts[TEST].families)
    counts = ", ".join(
        f"{len(part.Y)} {name} of {len(np.unique(part.families))} families"
        for name, part in zip(("training", "validation", "test"), parts, strict=True)
    )
    return Findings(
        name="ssvm-structure",
        title="Joachims et al. (2009), figure 6: the ladder of alignment models with secondary structure",
        data=f"pairs of BAliBASE, OXBench, SABmark and PREFAB with structure by DSSP: {counts}",
        differs=_differences(setting, setup.quick),
        tables=[results.table()],
        plots={"ladder": results.draw},
        claims=results.claims(),
        settings={
            **{key: value for key, value in setting._asdict().items() if key != "rungs"},
            "chosen": {name: [results.best(name)["mode"], results.best(name)["setting"]] for name in results.models()},
            "gaps": {f"{m['model']}, {m['mode']}, {m['setting']}": m["gap"] for m in measured if "gap" in m},
        },
    )


def _differences(setting: Setting, quick: bool) -> list[str]:
    differences = [
        "The paper trains on 4542 pairs aligned by CE and tests on 29345 others. It has predicted structure and "
        "accessibility; here the structure is the true one, and there is no accessibility.",
        "There are no PSI-BLAST profiles, hence no model Profile; of two tracks, letters and structure, the model "
        "Tensor is Anova2.",
        f"Sequences have at most {setting.longest} letters, and at most {setting.most} pairs of a family are taken, "
        "because one family has 406 of the 953 pairs; no result was looked at before.",
        "Training pairs below an identity that the validation pairs choose are left out: of the most remote ones "
        "letters tell so little that their losses outweigh what the others teach. This was added after a first run in "
        "which weights were near zero on validation and test pairs. Validation and test have all pairs.",
        "The mode, local or global, is the one that suits Simple with letters alone, by the validation pairs.",
    ]
    return [*differences, "Quick: few short pairs and half of the models."] if quick else differences
