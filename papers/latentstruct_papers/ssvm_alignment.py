"""Joachims et al. (2009), figure 6: learned models of protein alignment beside BLOSUM62 with tuned gaps."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from latentstruct.core.types import Vector
from latentstruct.estimators import CRF, StructuralSVM
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.io.ncbi_matrix import blosum62
from latentstruct.metrics.alignments import modeler_scores, q_scores
from latentstruct.tasks.alignment.task import Alignment
from latentstruct_papers.alignment_tables import (
    BASELINE,
    CRF_MARK,
    RAISED,
    Measured,
    Pairs,
    Results,
    claims,
    fixed_table,
    identity_table,
    ladder_plot,
    ladder_table,
    matrix_plot,
    percent,
    settings_table,
)
from latentstruct_papers.datasets import Prefab, load_prefab
from latentstruct_papers.findings import Findings
from latentstruct_papers.trials import Setup

PARTS = ("training", "validation", "test")
SHARES = (0.5, 0.2, 0.3)
TOLERANCE = 4
MODES = ("local", "global")


class Rung(NamedTuple):
    """One model of the ladder: its name, the features, whether tracks are derived, and what trains it."""

    name: str
    features: str
    derived: bool = False
    crf: bool = False


SIMPLE = Rung("Simple", "simple")
RUNGS = (
    SIMPLE,
    Rung("Simple, tracks", "simple", derived=True),
    Rung("Anova2, tracks", "anova2", derived=True),
    Rung("Tensor, tracks", "tensor", derived=True),
    Rung("Window, tracks", "window", derived=True),
    Rung(f"Simple{CRF_MARK}", "simple", crf=True),
)


class Setting(NamedTuple):
    """How much of everything is taken.

    Attributes
    ----------
    most : tuple of int or None
        The most pairs of training, validation and test; None for all.
    longest : int or None
        The longest sequences of pairs that are taken.
    cuts : tuple of float
        Identities, in per cent, below which training pairs are left out, that are tried with Simple.
    opens, extends : tuple of float
        Costs of the first and of each further letter against a gap that are tried with BLOSUM62.
    raises : tuple of float
        What is added to all scores of BLOSUM62 in the row where it is raised.
    strengths, track_strengths, crf_strengths : tuple of float
        Values of C that are tried with Simple, with the models of tracks and with the CRF.
    rungs : tuple of Rung
        The models.
    tol : float
        Relative gap to which models are trained.
    """

    most: tuple[int, int, int] | None
    longest: int | None
    cuts: tuple[float, ...]
    opens: tuple[float, ...]
    extends: tuple[float, ...]
    raises: tuple[float, ...]
    strengths: tuple[float, ...]
    track_strengths: tuple[float, ...]
    crf_strengths: tuple[float, ...]
    rungs: tuple[Rung, ...]
    tol: float


FULL = Setting(
    most=None,
    longest=None,
    cuts=(0.0, 15.0, 20.0),
    opens=(6, 8, 10, 12, 14, 16, 18, 20),
    extends=(0.25, 0.5, 1, 2),
    raises=(1, 2, 3),
    strengths=(0.001, 0.003, 0.01),
    track_strengths=(0.00003, 0.0001, 0.0003, 0.001),
    crf_strengths=(0.1, 1.0),
    rungs=RUNGS,
    tol=0.03,
)
QUICK = Setting(
    most=(80, 60, 120),
    longest=250,
    cuts=(0.0, 20.0),
    opens=(10, 12, 14, 16),
    extends=(1, 2),
    raises=(2,),
    strengths=(0.03,),
    track_strengths=(0.003,),
    crf_strengths=(0.1,),
    rungs=(SIMPLE, RUNGS[2]),
    tol=0.05,
)


def find_families(names: Sequence[tuple[str, str]], sequences: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
    """Return the number of the family of each pair: pairs that share a name or a sequence are of one family.

    Parameters
    ----------
    names, sequences : sequences of n (str, str)
        The names and the letters of both proteins of each pair.

    Returns
    -------
    int array of shape (n,)
        Pairs that are linked directly or through others have the same number.
    """
    numbers: dict[tuple[str, str], int] = {}

    def number(kind: str, text: str) -> int:
        return numbers.setdefault((kind, text), len(numbers))

    links: list[tuple[int, int]] = []
    for pair, letters in zip(names, sequences, strict=True):
        nodes = [number("name", name) for name in pair] + [number("letters", text) for text in letters]
        links += [(nodes[0], node) for node in nodes]
    rows, columns = np.array(links, dtype=np.int64).T
    size = len(numbers)
    _, labels = connected_components(coo_array((np.ones(len(rows)), (rows, columns)), (size, size)), directed=False)
    first = [numbers["name", pair[0]] for pair in names]
    return np.asarray(labels, dtype=np.int64)[first]


def split_families(families: NDArray[np.int64], seed: int = 0) -> list[NDArray[np.int64]]:
    """Return the pairs of each part, whole families in each, the shares of pairs near `SHARES`."""
    order = np.random.default_rng(seed).permutation(np.unique(families))
    sizes = {family: int((families == family).sum()) for family in order.tolist()}
    wanted = np.array(SHARES) * len(families)
    held = np.zeros(len(SHARES))
    part_of = {}
    # Large families first, each to the part that lacks most, so that none is overfilled.
    for family in sorted(sizes, key=lambda family: -sizes[family]):
        part = int(np.argmax((wanted - held) / wanted))
        part_of[family] = part
        held[part] += sizes[family]
    parts = np.array([part_of[family] for family in families.tolist()])
    return [np.flatnonzero(parts == part) for part in range(len(SHARES))]


def make_parts(data: Prefab, setting: Setting, seed: int = 0) -> list[Pairs]:
    """Return training, validation and test pairs."""
    families = find_families(data.names, data.sequences)
    matches, identities = data.matches or [], data.identities
    assert identities is not None
    rng = np.random.default_rng(seed)
    parts = []
    for number, chosen in enumerate(split_families(families, seed)):
        if setting.longest is not None:
            lengths = np.array([max(map(len, data.sequences[k])) for k in chosen])
            chosen = chosen[lengths <= setting.longest]
        if setting.most is not None:
            chosen = np.sort(rng.permutation(chosen)[: setting.most[number]])
        parts.append(
            Pairs(
                [data.sequences[k] for k in chosen], [matches[k] for k in chosen], families[chosen], identities[chosen]
            )
        )
    return parts


def measure(part: Pairs, predicted: Sequence[Any]) -> dict[str, Vector]:
    """Return the scores of each pair."""
    return {
        "Q": q_scores(part.Y, predicted),
        "Q4": q_scores(part.Y, predicted, TOLERANCE),
        "modeler": modeler_scores(part.Y, predicted),
    }


def measure_blosum(parts: Sequence[Pairs], mode: str, setting: Setting, raises: Sequence[float] = ()) -> list[Measured]:
    """Align by BLOSUM62 with all costs of gaps; the test pairs only by those that are best on the validation pairs."""
    train, validation, test = parts
    task = Alignment(features="simple", mode=mode, tolerance=TOLERANCE)
    task.learn(train.X, train.Y)
    letters = task.substitution_matrix(np.zeros(task.n_features))[0]
    model, scores = (RAISED if raises else BASELINE), blosum62().restricted(letters).scores
    found, weights = [], []
    for raised, gap_open, gap_extend in product(raises or [0.0], setting.opens, setting.extends):
        began = time.perf_counter()
        matrix = (letters, scores + raised)
        w = task.fixed_weights(matrix, gap_open, gap_extend)
        shares = measure(validation, task.align(validation.X, w))
        shown = f"{gap_open:g}, {gap_extend:g}" + (f", +{raised:g}" if raised else "")
        seconds, gaps = time.perf_counter() - began, (gap_open, gap_extend)
        found.append(Measured(model, mode, shown, len(w), shares, {}, seconds, gaps=gaps, matrix=matrix))
        weights.append(w)
    best = max(range(len(found)), key=lambda k: found[k].chosen_by)
    found[best] = replace(found[best], test=measure(test, task.align(test.X, weights[best])))
    return found


@lru_cache(maxsize=1)
def load(quick: bool, data_home: str | None) -> list[Pairs]:
    """Return training, validation and test pairs."""
    return make_parts(load_prefab(data_home), QUICK if quick else FULL)


def measure_learned(name: str, mode: str, cut: float, C: float, quick: bool, data_home: str | None) -> dict[str, Any]:
    """Train a model of the ladder on the training pairs of at least the identity `cut`; return plain values."""
    parts, tol = load(quick, data_home), (QUICK if quick else FULL).tol
    rung = next(one for one in RUNGS if one.name == name)
    train, validation, test = parts[0].at_least(cut), *parts[1:]
    task = Alignment(features=rung.features, mode=mode, tolerance=TOLERANCE, derived=rung.derived)
    model: Any = (CRF if rung.crf else StructuralSVM)(task, C=C, tol=tol)
    began = time.process_time()
    with warnings.catch_warnings():
        # A model that is not trained to the end is judged by the validation pairs like the others.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(train.X, train.Y)
    seconds = time.process_time() - began
    first, further = model.task_.gap_costs(model.coef_)
    measured = Measured(
        rung.name,
        mode,
        f"{C:g}",
        len(model.coef_),
        measure(validation, model.predict(validation.X)),
        measure(test, model.predict(test.X)),
        seconds,
        cut,
        model.n_iter_,
        (float(first), float(further)),
        model.task_.substitution_matrix(model.coef_),
    )
    return asdict(measured)


def describe(one: Measured) -> str:
    """Return one line about a model."""
    cut = "" if one.cut is None else f", cut {one.cut:g} %"
    return (
        f"{one.model}, {one.mode}{cut}, {one.setting}: validation Q {percent(one.validation['Q'])} "
        f"({one.seconds:.0f} s, {one.iterations} iterations)"
    )


def measure_all(parts: Sequence[Pairs], setting: Setting, setup: Setup) -> Results:
    """Tune BLOSUM62 and train all models: Simple in both modes with all cuts, the others with what suits it best."""
    measured: list[Measured] = []
    for mode in MODES:
        measured += measure_blosum(parts, mode, setting)
    measured += measure_blosum(parts, "local", setting, setting.raises)
    results = Results(measured, parts[2])
    for one in results.chosen():
        setup.say(describe(one))
    for rungs in ([SIMPLE], [rung for rung in setting.rungs if rung is not SIMPLE]):
        plan = [
            (rung.name, mode, cut, C, setup.quick, setup.data_home)
            for rung in rungs
            for mode, cut, C in product(*_training(rung, results, setting), _strengths(rung, setting))
        ]
        found = setup.trials.run(
            measure_learned, plan, setup.say, "trainings", lambda _, one: describe(Measured.of(one))
        )
        results.measured += [Measured.of(one) for one in found]
    return results


def _strengths(rung: Rung, setting: Setting) -> Sequence[float]:
    """Return the values of C to train a model with."""
    if rung.crf:
        return setting.crf_strengths
    return setting.track_strengths if rung.derived else setting.strengths


def _training(rung: Rung, results: Results, setting: Setting) -> tuple[Sequence[str], Sequence[float]]:
    """Return the modes and cuts to train a model with: all for Simple, for others those that were best for it."""
    if rung is SIMPLE:
        return MODES, setting.cuts
    best = results.best(SIMPLE.name)
    return [best.mode], [best.cut or 0.0]


def run(setup: Setup) -> Findings:
    """Repeat the ladder of figure 6 on the reference pairs of PREFAB 4."""
    setting = QUICK if setup.quick else FULL
    parts = load(setup.quick, setup.data_home)
    sizes = ", ".join(f"{len(part)} {name}" for name, part in zip(PARTS, parts, strict=True))
    setup.say(f"pairs: {sizes}")
    results = measure_all(parts, setting, setup)
    return Findings(
        name="ssvm-alignment",
        title="Joachims et al. (2009), figure 6: protein alignment with structural SVMs",
        data=f"PREFAB 4 reference pairs: {sizes}; no protein in two parts",
        differs=_differences(setup.quick),
        tables=[
            ladder_table(results),
            fixed_table(results, results.best(SIMPLE.name)),
            identity_table(results),
            settings_table(results),
        ],
        claims=claims(results, SIMPLE.name),
        plots={"ladder": ladder_plot(results), "matrix": matrix_plot(results.best(SIMPLE.name))},
        settings={
            "shares": SHARES,
            "tolerance": TOLERANCE,
            **{key: value for key, value in setting._asdict().items() if key != "rungs"},
            "families": [len(np.unique(part.families)) for part in parts],
            "measured": [_summary(one) for one in results.measured],
        },
    )


def _summary(one: Measured) -> dict[str, Any]:
    """Return one model with means instead of the scores of pairs."""
    return {
        "model": one.model,
        "mode": one.mode,
        "cut": one.cut,
        "setting": one.setting,
        "n_weights": one.n_weights,
        "gaps": list(one.gaps),
        "iterations": one.iterations,
        "seconds": one.seconds,
        **{f"validation {name}": float(scores.mean()) for name, scores in one.validation.items()},
        **{f"test {name}": float(scores.mean()) for name, scores in one.test.items()},
    }


def _differences(quick: bool) -> list[str]:
    differences = [
        "The paper trains on 4542 pairs aligned by CE and tests on 29345 others; these are pairs of PREFAB 4, half of "
        "them to train on. Pairs that share a protein, by name or by letters, directly or through others, are of one "
        "family, and families are never divided.",
        "There is no secondary structure and no accessibility in these data: the rows with tracks use guesses from the "
        "letters around, by propensities and hydropathy, which hold no more than the letters do.",
        "There are no PSI-BLAST profiles, hence no model Profile.",
        "The comparison is BLOSUM62 with exact alignment and tuned costs of gaps instead of BLAST; SSALN was not run.",
        "Only upper-case columns of the reference count, in training and test.",
        "Training pairs below an identity that the validation pairs choose are left out: of the most remote ones "
        "letters tell so little that their hinge losses, which no weights make small, outweigh what the others teach. "
        "Validation and test have all pairs.",
        "C weighs each pair against ½‖w‖².",
    ]
    quickly = "Quick: few pairs of sequences of at most 250 letters, one C, two models and a loose tolerance."
    return [*differences, quickly] if quick else differences
