"""Initial latents: which objective training reaches from which starts, and what the starts cost.

``python -m benchmarks.starts [--quick]`` prints the table of the page on starts: for each problem, the objective of
`LatentSSVM` above the lowest one known, in percent and on average over seeds, and CPU time against one start by the
rule of the task.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax
from threadpoolctl import threadpool_limits

from benchmarks.common import Line
from latentstruct import (
    Alignment,
    CandidateTask,
    Chain,
    ConvergenceWarning,
    Coreference,
    Graph,
    LatentMulticlass,
    LatentSSVM,
    Motif,
    Parsing,
    PartsTask,
    PrecisionAtK,
    SemiMarkov,
)
from latentstruct.core.protocols import Iteration
from latentstruct.data.trees import Tree, words
from latentstruct.datasets import make_planted_motif
from latentstruct.tasks.graph.task import grid_graph

STARTS = {"task": 10, "random": 10, "marginal": 3}
HARD_ONLY = ("coreference", "precision at k")
Rng = np.random.Generator


class Problem(NamedTuple):
    """A task with examples and a strength."""

    task: Any
    X: Any
    Y: Any
    C: float


class Views(CandidateTask):
    """Two classes; one row of x, which is not known, tells the class."""

    def candidates(self, x: Any) -> tuple[list[int], list[int], Any]:
        n, d = x.shape
        features = np.zeros((2 * n, 2 * d))
        features[:n, :d], features[n:, d:] = x, x
        return [0] * n + [1] * n, list(range(n)) * 2, features


def rows_with_signal(rng: Rng, n: int, n_views: int, shift: float) -> tuple[Any, Any]:
    X, y = rng.normal(size=(n, n_views, 5)), rng.integers(0, 2, n)
    X[np.arange(n), rng.integers(0, n_views, n)] += shift * (2 * y[:, None] - 1)
    return X, y


def views(rng: Rng) -> Problem:
    return Problem(LatentMulticlass(), *rows_with_signal(rng, 80, 6, 1.0), C=0.3)


def candidates(rng: Rng) -> Problem:
    X, y = rows_with_signal(rng, 60, 8, 1.2)
    return Problem(Views(), list(X), y.tolist(), C=0.3)


def states(rng: Rng) -> Problem:
    X, y = rng.normal(size=(80, 4, 5)), rng.integers(0, 3, 80)
    X[np.arange(80), rng.choice([1, 3], 80), y] += 2.0
    return Problem(LatentMulticlass(weights="state"), X, y, C=0.3)


def mixture(rng: Rng) -> Problem:
    centers = 2.0 * rng.normal(size=(9, 6))
    parts = rng.integers(0, 9, 150)
    return Problem(LatentMulticlass(3, weights="state"), centers[parts] + rng.normal(size=(150, 6)), parts % 3, C=0.1)


def chain(share: float) -> Callable[[Rng], Problem]:
    def make(rng: Rng) -> Problem:
        Y = [rng.integers(0, 4, 5).repeat(2) for _ in range(60)]
        X = [np.eye(4)[y] + rng.normal(size=(10, 4)) for y in Y]
        return Problem(Chain(), X, [np.where(rng.random(10) < share, -1, y) for y in Y], C=0.3)

    return make


def graph(share: float) -> Callable[[Rng], Problem]:
    def make(rng: Rng) -> Problem:
        Y = [np.kron(rng.integers(0, 3, (2, 2)), np.ones((2, 2), dtype=int)) for _ in range(40)]
        X = [grid_graph(np.eye(3)[y] + rng.normal(size=(4, 4, 3))) for y in Y]
        return Problem(Graph(), X, [np.where(rng.random(16) < share, -1, y.ravel()) for y in Y], C=0.1)

    return make


def segments(rng: Rng) -> Problem:
    X, Y = [], []
    for _ in range(40):
        sizes = rng.integers(1, 5, 5)
        ends = np.cumsum(sizes).tolist()
        labels = rng.integers(0, 3, 5)
        X.append(np.eye(3)[np.repeat(labels, sizes)] + rng.normal(size=(ends[-1], 3)))
        whole = list(zip([0, *ends[:-1]], ends, labels.tolist(), strict=True))
        Y.append([one for one in whole if rng.random() < 0.5])
    return Problem(SemiMarkov([0, 1, 2], max_length=4), X, Y, C=0.3)


class Items(PartsTask):
    """Which items are taken; one of several rows of an item, which is not known, tells."""

    latent = True

    def parts(self, x: Any) -> Any:
        return x.reshape(-1, x.shape[2])

    def counts(self, x: Any, y: Any, *h: Any) -> Any:
        return (np.eye(x.shape[1])[list(h[0])] * np.array(y)[:, None]).ravel()

    def best(self, x: Any, scores: Any) -> Any:
        table = scores.reshape(x.shape[:2])
        return self.counts(x, table.max(axis=1) > 0, table.argmax(axis=1))

    def best_completion(self, x: Any, y: Any, scores: Any) -> Any:
        return self.counts(x, y, scores.reshape(x.shape[:2]).argmax(axis=1))

    def output(self, x: Any, counts: Any) -> Any:
        table = np.asarray(counts).reshape(x.shape[:2])
        return tuple(table.sum(axis=1).astype(int).tolist()), tuple(table.argmax(axis=1).tolist())

    def output_loss(self, y: Any, y_hat: Any, *h_hat: Any) -> float:
        return float(np.sum(np.array(y) != np.array(y_hat)))

    def part_losses(self, x: Any, y: Any) -> Any:
        return float(sum(y)), np.repeat(1.0 - 2.0 * np.array(y), x.shape[1])

    def random_latent(self, x: Any, y: Any, rng: Rng) -> Any:
        return tuple(rng.integers(0, x.shape[1], len(y)).tolist())

    def pool(self, x: Any, scores: Any, temperature: float) -> Any:
        heights = np.hstack([np.zeros((len(x), 1)), scores.reshape(x.shape[:2])]) / temperature
        return temperature * logsumexp(heights, axis=1).sum(), softmax(heights, axis=1)[:, 1:].ravel()

    def pool_completion(self, x: Any, y: Any, scores: Any, temperature: float) -> Any:
        heights, taken = scores.reshape(x.shape[:2]) / temperature, np.array(y)
        return temperature * (logsumexp(heights, axis=1) @ taken), (softmax(heights, axis=1) * taken[:, None]).ravel()


def parts(rng: Rng) -> Problem:
    X, Y = [], []
    for _ in range(40):
        x, y = rows_with_signal(rng, 4, 5, 1.0)
        X.append(np.concatenate([x, np.ones((4, 5, 1))], axis=2))
        Y.append(tuple(y.tolist()))
    return Problem(Items(), X, Y, C=0.3)


def motif(length: int, width: int) -> Callable[[Rng], Problem]:
    def make(rng: Rng) -> Problem:
        data = make_planted_motif(40, 40, length=length, width=width, random_state=int(rng.integers(10**6)))
        return Problem(Motif(width), data.X, data.Y, C=0.1)

    return make


def alignment(rng: Rng) -> Problem:
    X, Y = [], []
    for _ in range(15):
        a, b, matches = [], [], []
        while len(a) < 25:
            letter, chance = int(rng.integers(0, 6)), rng.random()
            if chance < 0.16:
                (a if chance < 0.08 else b).extend(rng.integers(0, 6, rng.integers(1, 5)).tolist())
            else:
                matches.append((len(a), len(b)))
                a.append(letter)
                b.append(letter // 3 * 3 + int(rng.integers(0, 3)) if rng.random() < 0.6 else letter)
        X.append(tuple("".join("ACDEFG"[k] for k in word) for word in (a, b)))
        Y.append(np.array(matches)[::3])
    return Problem(Alignment(alphabet="ACDEFG", tolerance=1, partial=True), X, Y, C=0.5)


def parsing(rng: Rng) -> Problem:
    nouns, verbs = ["dog", "cat", "man", "saw"], ["sees", "likes", "saw"]

    def phrase(depth: int) -> Tree:
        noun = Tree("NP", (Tree("D", ("the",)), Tree("N", (nouns[rng.integers(4)],))))
        if depth and rng.random() < 0.5:
            return Tree("NP", (noun, Tree("PP", (Tree("P", ("with",)), phrase(depth - 1)))))
        return noun

    def sentence() -> Tree:
        verb = Tree("V", (verbs[rng.integers(3)],))
        parts = (
            (verb, phrase(1))
            if rng.random() < 0.7
            else (verb, phrase(0), Tree("PP", (Tree("P", ("with",)), phrase(0))))
        )
        return Tree("S", (phrase(1), Tree("VP", parts)))

    bank = [sentence() for _ in range(30)]
    return Problem(Parsing(rare=0, splits=2), [words(tree) for tree in bank], bank, C=0.3)


def coreference(rng: Rng) -> Problem:
    X, Y = [], []
    for _ in range(30):
        size = int(rng.integers(3, 9))
        y = rng.integers(0, 3, size)
        i, j = np.triu_indices(size, 1)
        same = (y[i] == y[j]).astype(float)
        X.append(
            np.column_stack([same + 0.7 * rng.normal(size=len(same)), rng.normal(size=len(same)), np.ones(len(same))])
        )
        Y.append(y.tolist())
    return Problem(Coreference(), X, Y, C=0.3)


def precision(rng: Rng) -> Problem:
    X = [rng.normal(size=(int(rng.integers(4, 12)), 4)) for _ in range(40)]
    return Problem(PrecisionAtK(2), X, [(x[:, 0] + rng.normal(size=len(x)) > 0.3).astype(int) for x in X], C=0.3)


PROBLEMS: dict[str, Callable[[Rng], Problem]] = {
    "views": views,
    "candidates": candidates,
    "views with weights per state": states,
    "mixture of states": mixture,
    "chain, 40 % unlabeled": chain(0.4),
    "chain, 80 % unlabeled": chain(0.8),
    "grid, 40 % unlabeled": graph(0.4),
    "grid, 80 % unlabeled": graph(0.8),
    "segments, half unknown": segments,
    "parts": parts,
    "motif of 6 in 60": motif(60, 6),
    "motif of 10 in 100": motif(100, 10),
    "partial alignment": alignment,
    "grammar with 2 splits": parsing,
    "coreference": coreference,
    "precision at k": precision,
}


class Reached(NamedTuple):
    """Objectives of the starts of one fit, and the CPU seconds after each."""

    objectives: list[float]
    seconds: list[float]


def fit(problem: Problem, init: str, n_starts: int, seed: int) -> Reached:
    """Train from several starts."""
    ends: dict[int, float] = {}

    def watch(line: Iteration) -> None:
        ends[line.start] = time.process_time() - began

    model = LatentSSVM(problem.task, C=problem.C, init=init, restarts=n_starts, random_state=seed, tol=1e-3, n_jobs=1)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(problem.X, problem.Y, callback=watch)
    return Reached(model.restart_objectives_, [ends[start] for start in range(n_starts)])


COLUMNS: dict[str, list[tuple[str, int]]] = {
    "task": [("task", 1)],
    "random": [("random", 1)],
    "marginal": [("marginal", 1)],
    "3 × task": [("task", 3)],
    "3 × random": [("random", 3)],
    "3 × marginal": [("marginal", 3)],
    "task, marginal": [("task", 1), ("marginal", 1)],
}
"""Which starts of which rules are compared, the best of each column counting."""


def measure(name: str, seeds: int) -> dict[str, tuple[float, float]]:
    """Return, by column, the mean excess over the lowest known objective in percent, and the relative CPU time."""
    found: dict[str, list[tuple[float, float]]] = {column: [] for column in COLUMNS}
    for seed in range(seeds):
        problem = PROBLEMS[name](np.random.default_rng(seed))
        # Kernels are compiled at their first use.
        fit(problem, "task", 1, seed)
        inits = [init for init in STARTS if init != "marginal" or name not in HARD_ONLY]
        runs = {init: fit(problem, init, STARTS[init], seed) for init in inits}
        lowest = min(min(run.objectives) for run in runs.values())
        for column, parts in COLUMNS.items():
            if all(init in runs for init, _ in parts):
                best = min(min(runs[init].objectives[:count]) for init, count in parts)
                seconds = sum(runs[init].seconds[count - 1] for init, count in parts)
                found[column].append((100 * (best / lowest - 1), seconds / runs["task"].seconds[0]))
    return {column: tuple(np.mean(pairs, axis=0)) for column, pairs in found.items() if pairs}


def run(quick: bool = False) -> list[Line]:
    """Return the comparison of one start by latents summed out with one by the rule of the task."""
    lines = []
    for name in PROBLEMS:
        if name not in HARD_ONLY:
            found = measure(name, 1 if quick else 5)
            (ours, cost), (peer, _) = found["marginal"], found["task"]
            reached = f"{ours:.2f} % and {peer:.2f} % above the lowest objective known"
            lines.append(
                Line(f"{name}: CPU time of one start, init='marginal'", cost, 1.0, "init='task'", None, reached)
            )
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed in place of five")
    seeds = 1 if parser.parse_args().quick else 5
    print("problem", *COLUMNS, sep=" | ")
    with threadpool_limits(limits=1):
        for name in PROBLEMS:
            found = measure(name, seeds)
            cells = [
                f"{found[column][0]:.2f} % ({found[column][1]:.1f})" if column in found else "–" for column in COLUMNS
            ]
            print(name, *cells, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
