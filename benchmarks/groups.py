"""Group norms on pairs of rotated digits: objectives after equal oracle passes, against the published algorithm."""

import numpy as np

from benchmarks.common import Line, cpu
from latentstruct import LatentMulticlass, Temperature, build_objective
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Result
from latentstruct.core.regularizers import GroupNorm
from latentstruct.solvers.proximal import Proximal
from latentstruct.solvers.stochastic import AlternatingSubgradient
from latentstruct_papers.datasets import load_mnist
from latentstruct_papers.digit_pairs import PAIRS, DigitPair, make_pair

# Passes over the data after which objectives are compared, by C.
PASSES = {1.0: (100,), 10.0: (100, 300, 1000), 100.0: (100, 300, 1000)}
# With features of pixels in [0, 1] weights of this size are where the published algorithm does best.
START = 1.0


def objective_of(pair: DigitPair, C: float) -> Objective:
    """Return the objective with a group for each digit and angle; C is divided by n as in the paper."""
    task = LatentMulticlass(weights="state")
    task.learn(pair.X, pair.y)
    batch, n = task.prepare(pair.X, pair.y), len(pair.y)
    return build_objective(task, batch, np.full(n, C / n), Temperature(), regularizer=GroupNorm())


def after(result: Result, calls: int) -> float:
    """Return the best objective after a number of oracle calls."""
    return min((line.objective for line in result.history if line.oracle_calls <= calls), default=np.inf)


def passes_to(result: Result, value: float, n: int) -> float:
    """Return how many passes over the data it took to get as low as a value."""
    return min((line.oracle_calls / n for line in result.history if line.objective <= value), default=np.inf)


def compare(pair: DigitPair, C: float, passes: tuple[int, ...], seed: int = 0) -> list[Line]:
    """Start both from the same random weights."""
    objective = objective_of(pair, C)
    n, w0 = objective.n_examples, START * np.random.default_rng(seed).normal(size=objective.n_features)
    seconds, ours = cpu(lambda: Proximal().minimize(objective, w0))
    # The published algorithm is not to stop before the passes are used up.
    peer = AlternatingSubgradient(tol=1e-12, max_iter=max(passes)).minimize(objective, w0)
    assert isinstance(objective.regularizer, GroupNorm)
    kept = int((objective.regularizer.norms(ours.w) > 0).sum())
    lines = []
    for count in passes:
        value, rival = after(ours, count * n), after(peer, count * n)
        reached = (
            f"{passes_to(ours, rival, n):.0f} passes to the peer's objective, {ours.oracle_calls / n:.0f} in all, "
            f"{seconds:.1f} CPU s, {kept} states kept"
        )
        what = f"group norm, digits {pair.name}, C = {C:g}: objective after {count} passes"
        lines.append(Line(what, value, rival, "alternating subgradient", 1.0, reached))
    return lines


def run(quick: bool = False) -> list[Line]:
    data = load_mnist()
    lines = []
    for digits in PAIRS[:1] if quick else PAIRS:
        pair = make_pair(data, digits, n_train=2000 if quick else None)
        for C, passes in PASSES.items():
            lines += compare(pair, C, passes)
    return lines
