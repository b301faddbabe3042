"""Operations of fixed small problems, which do not depend on the machine: a guard against work that grows unseen.

``python -m benchmarks counts`` compares them with those kept in ``operation_counts.json``; ``--write`` renews these.
Some solvers go another way when the last digits of an input differ, as they do between libraries. So the least and the
largest count of several runs are kept, whose inputs differ in the last digits.
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.common import Line
from latentstruct import (
    CRF,
    Chain,
    Graph,
    GroupNorm,
    HiddenCRF,
    LatentMulticlass,
    LatentSSVM,
    MarginalSSVM,
    Motif,
    Multiclass,
    StructuralSVM,
    StructuredPerceptron,
    grid_graph,
)
from latentstruct.core.oracles import TaskOracle
from latentstruct.inference.propagation import Propagated, Propagation
from latentstruct.planes.store import PlaneStore
from latentstruct.solvers import CCCP, AlternatingSubgradient, Bundle, CuttingPlane, FrankWolfe, SelfPaced, Subgradient

KEPT = Path(__file__).with_name("operation_counts.json")
# A count that grew by more than this share is a regression; one that fell by more must be written again.
MOST_GROWTH, MOST_FALL = 0.10, 0.25
# Runs whose inputs differ in the last digits, and by how much.
RUNS, LAST_DIGITS = 8, 1e-13
TOL = 0.01
LIMIT_ITERATIONS = 12

Fit = Callable[[], Any]
Range = tuple[int, int]


def chains(n: int = 40, n_labels: int = 4, n_inputs: int = 8) -> tuple[list[np.ndarray], list[list[int]]]:
    """Return noisy sequences."""
    rng = np.random.default_rng(0)
    means = 0.7 * rng.normal(size=(n_labels, n_inputs))
    Y = [rng.integers(0, n_labels, rng.integers(3, 9)) for _ in range(n)]
    return [means[y] + rng.normal(size=(len(y), n_inputs)) for y in Y], [y.tolist() for y in Y]


def classes(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Return two classes, each of two clouds."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def grids(n: int = 6, side: int = 5, run: int = 0) -> tuple[list[Any], list[np.ndarray]]:
    """Return noisy images of two halves, as loopy graphs."""
    rng = np.random.default_rng(2)
    Y = [np.repeat([np.arange(side) >= rng.integers(1, side)], side, axis=0).astype(int) for _ in range(n)]
    images = [np.eye(2)[y] + 0.8 * rng.normal(size=(side, side, 2)) for y in Y]
    return [grid_graph(image) for image in nearly(images, run)], [y.ravel() for y in Y]


def sites(n: int = 24, length: int = 30) -> tuple[list[str], list[int]]:
    """Return sequences, half of them with a word planted."""
    rng = np.random.default_rng(3)
    X = []
    for i in range(n):
        letters = rng.choice(list("ACGT"), length)
        if i % 2:
            at = rng.integers(0, length - 6)
            letters[at : at + 6] = list("TATACG")
        X.append("".join(letters))
    return X, [1 if i % 2 else -1 for i in range(n)]


def nearly(inputs: Any, run: int) -> Any:
    """Return inputs whose last digits are changed, each run in another way; those of run 0 are left as they are."""
    rng = np.random.default_rng(run)
    if not isinstance(inputs, list):
        return inputs if run == 0 else inputs * (1.0 + LAST_DIGITS * rng.normal(size=inputs.shape))
    return [nearly(one, 0 if run == 0 else int(rng.integers(1, 2**31))) for one in inputs]


def problems(run: int = 0) -> dict[str, Fit]:
    """Return the fits that are counted, by name."""
    words, points = ((nearly(X, run), Y) for X, Y in (chains(), classes()))
    pictures, strings = grids(run=run), sites()
    states = LatentMulticlass(n_states=2, weights="state")
    # Graphs this small would otherwise be eliminated.
    loopy = Graph(max_entries=4, max_iterations=50)

    def svm(**settings: Any) -> Fit:
        return partial(StructuralSVM(Chain(), C=0.5, tol=TOL, **settings).fit, *words)

    def latent(kind: Any = LatentSSVM, **settings: Any) -> Fit:
        return partial(kind(states, tol=TOL, **settings).fit, *points)

    return {
        "chain, auto": svm(),
        "chain, block ascent": svm(solver="block_ascent"),
        "chain, block ascent in 0.08 MB": svm(solver="block_ascent", cache_mb=0.08),
        "chain, bundle": svm(solver=Bundle()),
        "chain, bundle with planes kept": svm(solver=Bundle(cached_planes=20)),
        "chain, cutting planes": svm(solver=CuttingPlane()),
        "chain, Frank-Wolfe": svm(solver=FrankWolfe()),
        "chain, subgradient": svm(solver=Subgradient(), max_iter=LIMIT_ITERATIONS),
        "chain, slack rescaling": svm(rescaling="slack"),
        "chain, perceptron": partial(StructuredPerceptron(Chain(), max_iter=5).fit, *words),
        "chain, CRF": partial(CRF(Chain(), tol=TOL).fit, *words),
        "classes, auto": partial(StructuralSVM(Multiclass(), tol=TOL).fit, *points),
        "latent classes, CCCP": latent(),
        "latent classes, self-paced": latent(solver=SelfPaced(CCCP())),
        "latent classes, summed out": latent(HiddenCRF),
        "latent classes, margin and sum": latent(MarginalSSVM),
        "latent classes, group norm": latent(regularizer=GroupNorm(), max_iter=60),
        "latent classes, subgradient": latent(MarginalSSVM, solver=AlternatingSubgradient(), max_iter=LIMIT_ITERATIONS),
        "motif, CCCP": partial(LatentSSVM(Motif(6, 1), tol=TOL).fit, *strings),
        "grid, CRF by messages": partial(CRF(loopy, tol=TOL, max_iter=LIMIT_ITERATIONS).fit, *pictures),
        "grid, SVM by messages": partial(StructuralSVM(loopy, tol=TOL, max_iter=LIMIT_ITERATIONS).fit, *pictures),
    }


@contextmanager
def counting(counts: Counter[str]) -> Iterator[None]:
    """Count the calls of oracles, stores and messages meanwhile."""
    kept: dict[int, PlaneStore] = {}

    def requested(self: Any, rows: Any) -> None:
        offsets = getattr(self.batch, "offsets", None)
        if isinstance(self.task, Chain) and offsets is not None:
            lengths = np.diff(offsets)
            counts["tokens"] += int(lengths.sum() if rows is None else lengths[rows].sum())

    def total(self: Any, w: Any) -> Any:
        requested(self, None)
        return original["total"](self, w)

    def planes(self: Any, w: Any, rows: Any = None) -> Any:
        requested(self, rows)
        return original["planes"](self, w, rows)

    def ascend(self: PlaneStore, examples: Any, *args: Any, **named: Any) -> Any:
        counts["block updates"] += len(examples)
        kept[0] = self
        return original["ascend"](self, examples, *args, **named)

    def run(self: Propagation, *args: Any, **named: Any) -> Propagated:
        found: Propagated = original["run"](self, *args, **named)
        counts["messages"] += int(found.updates.sum())
        return found

    places = {"total": TaskOracle, "planes": TaskOracle, "ascend": PlaneStore, "run": Propagation}
    original: dict[str, Any] = {name: getattr(kind, name) for name, kind in places.items()}
    with ExitStack() as stack:
        for counted in (total, planes, ascend, run):
            stack.enter_context(patch.object(places[counted.__name__], counted.__name__, counted))
        yield
    if kept:
        counts["planes kept"] = len(kept[0])


def count(fit: Fit) -> dict[str, int]:
    """Return the operations of one fit."""
    counts: Counter[str] = Counter()
    with counting(counts), warnings.catch_warnings():
        # Some problems are stopped after a few iterations.
        warnings.simplefilter("ignore")
        model = fit()
    counts["oracle calls"], counts["iterations"] = int(model.n_oracle_calls_), int(model.n_iter_)
    return {name: counts[name] for name in sorted(counts)}


def expected_counts() -> dict[str, dict[str, Range]]:
    """Return the counts that were written down, the least and the largest of each."""
    found: dict[str, dict[str, Range]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def differences(
    name: str, found: dict[str, int], expected: dict[str, Range], growth: float = MOST_GROWTH, fall: float = MOST_FALL
) -> list[str]:
    """Return what is more work than was written down, or so much less that it should be written again."""
    reported = []
    iterations = expected.get("iterations", (1, 1))[1]
    for what in sorted(found.keys() | expected.keys()):
        now, (least, most) = found.get(what, 0), expected.get(what, (0, 0))
        # An iteration more or less may be due to the last digits.
        grain = most / iterations
        if now > max((1 + growth) * most, most + grain):
            reported.append(f"{name}: {what} grew from {most} to {now}")
        elif now < min((1 - fall) * least, least - grain):
            reported.append(f"{name}: {what} fell from {least} to {now}")
    return reported


def write() -> None:
    """Write the present counts down."""
    ranges: dict[str, dict[str, Range]] = {}
    for run in range(RUNS):
        for name, fit in problems(run).items():
            ranges.setdefault(name, {})
            for what, number in count(fit).items():
                least, most = ranges[name].get(what, (number, number))
                ranges[name][what] = min(least, number), max(most, number)
    text = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in ranges.items())
    KEPT.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def run(quick: bool = False) -> list[Line]:
    """Return the present counts against those written down."""
    expected, lines = expected_counts(), []
    for name, fit in problems().items():
        found, before = count(fit), expected.get(name, {})
        differ = "; ".join(differences(name, found, before)) or ", ".join(f"{what} {n}" for what, n in found.items())
        calls, known = found["oracle calls"], before.get("oracle calls", (1, 1))[1]
        lines.append(Line(f"{name}: oracle calls", calls, known, "written down", 1 + MOST_GROWTH, differ))
    return lines
