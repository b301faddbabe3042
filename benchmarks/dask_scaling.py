"""Iterations of training on Dask clusters of this machine against one process with the same shards, in wall-clock time.

One process has one thread here, as each worker has. Preparing and sending the data is reported apart.

In each iteration the weights go to every worker, and a slope of as many numbers comes back from each. With millions of
weights, as of CoNLL-2000, this takes longer on one machine than all the rest: there threads pay, and a cluster does
not. It is for data that one machine cannot hold or for oracles that take far longer than their slopes to send.
"""

import time
from statistics import median
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from benchmarks.common import Line
from latentstruct import CRF, Chain, WindowFeatures
from latentstruct.exceptions import InputError
from latentstruct_papers.datasets import load_conll2000

WORKERS = (1, 2)
ITERATIONS = 12


def run(quick: bool = False) -> list[Line]:
    problems = {"small chains (60 of 3 tokens)": chains(60, 3, 10), "chains (4,000 of 20 tokens)": chains(4000, 20, 50)}
    if not quick:
        problems["CoNLL-2000"] = conll()
    return [line for name, (X, Y) in problems.items() for line in compare(name, X, Y)]


def chains(n: int, length: int, n_inputs: int) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    Y = [rng.integers(0, 10, length) for _ in range(n)]
    means = rng.normal(size=(10, n_inputs))
    return [means[y] + rng.normal(size=(length, n_inputs)) for y in Y], Y


def conll() -> tuple[list[Any], list[Any]]:
    train = load_conll2000(subset="train")
    return WindowFeatures(affixes=0, shape=False).fit_transform(train.tokens), train.Y


def seconds_of_round(X: list[Any], Y: list[Any], executor: Any) -> tuple[float, float, CRF]:
    """Return the median time of an iteration, that of the rest, and the model."""
    ends: list[float] = []

    def stop(line: Any) -> bool:
        ends.append(time.perf_counter())
        return len(ends) >= ITERATIONS

    began = time.perf_counter()
    model = CRF(Chain(), C=0.5, tol=1e-12, n_jobs=1, executor=executor).fit(X, Y, callback=stop)
    total = time.perf_counter() - began
    iterations = median(np.diff(ends))
    return iterations, total - iterations * len(ends), model


def compare(name: str, X: list[Any], Y: list[Any]) -> list[Line]:
    seconds_of_round(X[:50], Y[:50], "local")
    alone, rest_alone, here = seconds_of_round(X, Y, "local")
    lines = []
    for n_workers in WORKERS:
        with (
            LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            # Workers import the library and load its kernels once.
            seconds_of_round(X[:50], Y[:50], client)
            seconds, rest, there = seconds_of_round(X, Y, client)
        difference = abs(there.objective_ / here.objective_ - 1.0)
        if difference > 1e-9:
            raise InputError(f"the objectives differ by {difference:.2g}, but at most 1e-9 is expected: look into it")
        reached = (
            f"{len(here.coef_):,} weights, {1e3 * alone:.0f} ms per iteration alone, {1e3 * seconds:.0f} ms on the "
            f"cluster, the rest {rest_alone:.1f} s and {rest:.1f} s, objectives differ by {difference:.1g}"
        )
        what = f"{name}, an iteration of a CRF, {n_workers} Dask worker{'s' if n_workers > 1 else ''}"
        lines.append(Line(what, seconds, alone, "one process, one thread", None, reached))
    return lines
