"""Structural SVMs on graphs with loops, whose maxima are approximate, with and without upper bounds of these."""

import time
import warnings
from typing import Any, Literal, NamedTuple

import numpy as np

from latentstruct.estimators import StructuralSVM
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.features.images import PatchFeatures
from latentstruct.tasks import Graph
from latentstruct_papers import mssvm_msrc, snakes
from latentstruct_papers.datasets import load_msrc, load_snakes
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.ratios import pooled_share
from latentstruct_papers.trials import Setup

SNAKES, PHOTOGRAPHS = "snakes", "photographs"
WAYS: tuple[Literal["propagation", "bounds"], ...] = ("propagation", "bounds")
STRENGTHS = {SNAKES: 0.1, PHOTOGRAPHS: 0.01}
"""C, not tuned."""
N_SNAKES, N_EACH, WORDS = (200, 20), (6, 2), (100, 50)
"""Training grids, photographs of each series, and kinds of patches; in full and quick."""
MAX_ENTRIES, MAX_ITER, TOL = 2**12, 100, 1e-2


class Problem(NamedTuple):
    """Graphs and labels to train on and to test on."""

    X: list[Any]
    Y: list[Any]
    test_X: list[Any]
    test_Y: list[Any]


def load_problem(name: str, data_home: str | None, quick: bool) -> Problem:
    """Return the grids of snakes, or grids of patches of photographs, in which all other classes are one."""
    if name == SNAKES:
        data, n = load_snakes(data_home), N_SNAKES[quick]
        X, test_X = ([snakes.make_graph(x, True) for x in some] for some in (data.X_train[:n], data.X_test))
        return Problem(X, [y.ravel() for y in data.Y_train[:n]], test_X, [y.ravel() for y in data.Y_test])
    photographs, _, _ = mssvm_msrc.choose_photographs(load_msrc(data_home), N_EACH[quick])
    folds = mssvm_msrc.split(photographs.names)
    train, test = (photographs.part(fold) for fold in folds)
    features = PatchFeatures(words=WORDS[quick])
    X = mssvm_msrc.make_graphs(features.fit_transform(train.images))
    test_X = mssvm_msrc.make_graphs(features.transform(test.images))
    Y, test_Y = ([np.where(y < 0, len(mssvm_msrc.FIVE), y) for y in some.Y] for some in (train, test))
    return Problem(X, Y, test_X, test_Y)


def measure(name: str, way: Literal["propagation", "bounds"], data_home: str | None, quick: bool) -> dict[str, Any]:
    """Train with maxima found in one way, and return what is proved, what it cost, and the right labels in the test."""
    problem = load_problem(name, data_home, quick)
    model = StructuralSVM(Graph(wide=way, max_entries=MAX_ENTRIES), C=STRENGTHS[name], max_iter=MAX_ITER, tol=TOL)
    began = time.process_time()
    with warnings.catch_warnings():
        # The table has the number of iterations.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(problem.X, problem.Y)
    seconds = time.process_time() - began
    predicted = model.predict(problem.test_X)
    return {
        "graphs": len(problem.X),
        "largest": max(len(y) for y in problem.Y),
        "certified": bool(model.certified_),
        "gap": float(model.relative_gap_),
        "iterations": int(model.n_iter_),
        "seconds": seconds,
        "right": [int(np.sum(y == found)) for y, found in zip(problem.test_Y, predicted, strict=True)],
        "sizes": [len(y) for y in problem.test_Y],
    }


def result_table(found: dict[tuple[str, str], dict[str, Any]]) -> Table:
    """Return what was proved, at which cost."""
    rows: list[list[Any]] = []
    for (name, way), one in found.items():
        share = pooled_share(one["right"], one["sizes"]).percent()
        gap = f"{one['gap']:.4f}" if one["certified"] else "not proved"
        rows.append([name, one["graphs"], one["largest"], way, gap, one["iterations"], f"{one['seconds']:.1f}", share])
    columns = ["data", "graphs", "largest", "maxima by", "gap", "iterations", "CPU s", "test labels right %"]
    return Table("Training on graphs with loops", columns, rows, "Largest: variables of the largest graph.")


def claims(found: dict[tuple[str, str], dict[str, Any]]) -> list[Claim]:
    """Return the gaps that bounds prove, and the CPU time beside that of propagation."""
    shown = []
    for name in STRENGTHS:
        loose, proved = (found[name, way] for way in WAYS)
        text = f"{proved['gap']:.4f}" if proved["certified"] else "not proved"
        cost = f"{proved['seconds'] / loose['seconds']:.1f}"
        shown.append(
            Claim(f"proved gap, {name}", "", f"{text}, in {cost} × the CPU time of propagation", "no published figure")
        )
    return shown


def run(setup: Setup) -> Findings:
    """Train on snakes and on photographs with approximate maxima, and with upper bounds of maxima."""
    names: list[tuple[str, str]] = [(name, way) for name in STRENGTHS for way in WAYS]
    arguments = [(*one, setup.data_home, setup.quick) for one in names]
    results = setup.trials.run(measure, arguments, setup.say, "trainings", _show)
    found = dict(zip(names, results, strict=True))
    differs = [
        "No paper has these figures. Elimination is limited to tables of 4096 entries, so that graphs are wide.",
        f"Photographs: the first {N_EACH[setup.quick]} of each series of MSRC that have one of five classes, half of "
        "them to train on; all other patches are a sixth class.",
        f"C is {STRENGTHS[SNAKES]:g} and {STRENGTHS[PHOTOGRAPHS]:g} and was not chosen. Training ends at a gap of "
        f"{TOL:g} or after {MAX_ITER} iterations.",
    ]
    return Findings(
        name="certified-graphs",
        title="Proved gaps of training on graphs with loops",
        data=f"snakes, {N_SNAKES[setup.quick]} training grids; MSRC version 2",
        differs=[*differs, "Quick: fewer graphs."] if setup.quick else differs,
        tables=[result_table(found)],
        claims=claims(found),
        settings={"strengths": STRENGTHS, "max_entries": MAX_ENTRIES, "max_iter": MAX_ITER, "tol": TOL},
    )


def _show(arguments: tuple[Any, ...], one: dict[str, Any]) -> str:
    name, way = arguments[:2]
    return f"{name}, {way}: gap {one['gap']:.4f}, certified {one['certified']}, {one['seconds']:.0f} s"
