"""Convex solvers on synthetic problems that are hard for at least one of them: passes over the data, CPU time and gap.

Each solver runs to a relative gap of 1 %, or to a limit of passes (oracle calls divided by examples) or of CPU time.
The subgradient method has no bound of its own, so its objective is compared with the best bound of the others. The
default solver is what ``solver="auto"`` selects.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import Line
from latentstruct import (
    BlockAscent,
    Bundle,
    Chain,
    CuttingPlane,
    FrankWolfe,
    Multiclass,
    Subgradient,
    Temperature,
    build_objective,
)
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Iteration
from latentstruct.solvers.selection import choose_solver

TOL = 0.01
MOST_PASSES, MOST_SECONDS = 500, 10.0
# Passes in which the default solver must reach the tolerance.
DEFAULT_PASSES = 150
DEFAULT, UNBOUNDED = "default", "Subgradient"
SOLVERS: dict[str, Callable[[Objective], Any]] = {
    DEFAULT: choose_solver,
    "BlockAscent": lambda objective: BlockAscent(),
    "Bundle": lambda objective: Bundle(),
    "CuttingPlane": lambda objective: CuttingPlane(),
    "FrankWolfe": lambda objective: FrankWolfe(),
    # Where its first steps are far too long it would stop at w = 0, by its rule for an objective that does not fall.
    UNBOUNDED: lambda objective: Subgradient(patience=MOST_PASSES),
}


@dataclass
class Run:
    """One solver on one problem."""

    lower_bound: float
    gap: float
    passes: float
    seconds: float
    reason: str

    def __str__(self) -> str:
        return f"{self.passes:.0f} passes, gap {100 * self.gap:.3g} % ({self.reason})"


def prepared(task: Any, X: Any, Y: Any, C: float) -> Objective:
    """Return the objective of a structural SVM."""
    task.learn(X, Y)
    return build_objective(task, task.prepare(X, Y), np.full(len(Y), C), Temperature())


def classes(
    n: int,
    C: float,
    copies: int = 1,
    scales: tuple[float, float] = (1.0, 1.0),
    distance: float = 0.3,
    n_classes: int = 5,
    n_inputs: int = 20,
) -> Objective:
    """Return classes around random means; they overlap at a distance of 0.3 and are separable at 1.

    Each example occurs `copies` times with weight C / copies. The features are scaled from the first to the second
    value of `scales`.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    means = distance * rng.normal(size=(n_classes, n_inputs))
    X = (means[y] + rng.normal(size=(n, n_inputs))) * np.geomspace(*scales, n_inputs)
    return prepared(Multiclass(), np.tile(X, (copies, 1)), np.tile(y, copies), C / copies)


def correlated(n: int, scale: float) -> Objective:
    """Return examples of a few large features, a fifth of them with a random label."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4))
    y = np.where(rng.random(n) < 0.2, rng.integers(0, 3, n), X[:, :3].argmax(axis=1))
    return prepared(Multiclass(), scale * X, y, 1.0)


def chains(lengths: np.ndarray, C: float, n_labels: int = 5, n_inputs: int = 20) -> Objective:
    """Return noisy chains whose labels persist."""
    rng = np.random.default_rng(2)
    means = 0.5 * rng.normal(size=(n_labels, n_inputs))
    n_tokens = int(lengths.sum())
    changes = rng.random(n_tokens) < 0.3
    labels = (np.cumsum(changes * rng.integers(1, n_labels, n_tokens))) % n_labels
    inputs = means[labels] + rng.normal(size=(n_tokens, n_inputs))
    ends = np.cumsum(lengths)[:-1]
    return prepared(Chain(), np.split(inputs, ends), np.split(labels, ends), C)


def short_chains(n: int) -> Objective:
    """Return chains of two or three tokens."""
    return chains(np.random.default_rng(3).integers(2, 4, n), 0.01)


def problems(quick: bool = False) -> dict[str, Callable[[], Objective]]:
    """Return the problems by name."""
    n = 100 if quick else 500
    return {
        f"overlapping classes, {n} examples, C = 1": partial(classes, n, 1.0),
        "the same, each example 10 times, C = 0.1": partial(classes, n, 1.0, 10),
        "the same classes, C = 100": partial(classes, n, 1e2),
        "the same classes, C = 10 000": partial(classes, n, 1e4),
        "separable classes, C = 10 000": partial(classes, n, 1e4, distance=1.0),
        "separable classes, features of scale 300, C = 1": partial(classes, n, 1.0, 1, (300.0, 300.0), 1.0),
        "separable classes, features of scale 1000, C = 1": partial(classes, n, 1.0, 1, (1e3, 1e3), 1.0),
        "features scaled from 0.001 to 1000, C = 1": partial(classes, n, 1.0, 1, (1e-3, 1e3)),
        f"one chain of {4 * n} tokens, C = 1": partial(chains, np.array([4 * n]), 1.0),
        f"{20 * n} chains of 2 or 3 tokens, C = 0.01": partial(short_chains, 20 * n),
        "correlated examples, scale 100": partial(correlated, 134, 1e2),
        "correlated examples, scale 1000": partial(correlated, 134, 1e3),
    }


def solve(name: str, objective: Objective, most_passes: float, bound: float = -math.inf) -> Run:
    """Run a solver to the tolerance, by its own bound or by a known one, or to a limit."""
    solver = SOLVERS[name](objective).set_params(tol=TOL, max_iter=10**6)
    most_calls, began = most_passes * objective.n_examples, time.process_time()

    def ends(line: Iteration) -> bool:
        reached = line.objective - bound <= TOL * abs(line.objective)
        return reached or line.oracle_calls >= most_calls or time.process_time() - began >= MOST_SECONDS

    found = solver.minimize(objective, callback=ends)
    seconds = time.process_time() - began
    gap = (found.objective - max(found.lower_bound, bound)) / abs(found.objective)
    return Run(found.lower_bound, gap, found.oracle_calls / objective.n_examples, seconds, found.reason)


def measure(objective: Objective) -> dict[str, Run]:
    """Return what each solver reaches."""
    found: dict[str, Run] = {}
    for name in SOLVERS:
        # The first call of a kernel compiles it.
        solve(name, objective, 3)
        bound = max(run.lower_bound for run in found.values()) if name == UNBOUNDED else -math.inf
        found[name] = solve(name, objective, MOST_PASSES, bound)
    return found


def run(quick: bool = False) -> list[Line]:
    lines: list[Line] = []
    for what, problem in problems(quick).items():
        found = measure(problem())
        default = found.pop(DEFAULT)
        passes = default.passes if default.gap <= TOL else math.inf
        lines.append(Line(f"{what}: passes of the default to 1 %", passes, DEFAULT_PASSES, "limit", 1.0, str(default)))
        for name, other in found.items():
            lines.append(Line(what, default.seconds, other.seconds, name, None, f"{name}: {other}"))
    return lines
