"""Threads: oracle time of the same fit with one thread and with two, and the time of the whole fit."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.common import Line
from benchmarks.letters import split
from latentstruct import CRF, Chain, HiddenCRF, LatentSSVM, Motif, StructuralSVM, WindowFeatures
from latentstruct._native.vectors import exponentiate
from latentstruct.core.oracles import TaskOracle
from latentstruct.parallel.threads import thread_map
from latentstruct_papers.datasets import load_conll2000, load_ocr_letters, load_yeast_ars

# Two threads must be 1.7 times as fast as one.
AT_MOST = 1.0 / 1.7


@contextmanager
def timed_oracles() -> Iterator[list[float]]:
    """Note the wall clock time of each question to an oracle, in the order of the questions."""
    seconds: list[float] = []
    plain = {name: getattr(TaskOracle, name) for name in ("total", "planes")}

    def timed(ask: Callable[..., Any]) -> Callable[..., Any]:
        def requested(oracle: TaskOracle, *question: Any) -> Any:
            began = time.perf_counter()
            answer = ask(oracle, *question)
            seconds.append(time.perf_counter() - began)
            return answer

        return requested

    for name, ask in plain.items():
        setattr(TaskOracle, name, timed(ask))
    try:
        yield seconds
    finally:
        for name, ask in plain.items():
            setattr(TaskOracle, name, ask)


def compare(what: str, fit: Callable[[int], Any], repeats: int) -> list[Line]:
    """Fit with one and with two threads in turn.

    Both put the same questions in the same order, because weights are the same to the last bit. So the least time of
    each question over all repeats is added up: other processes delay some of them in each repeat, but seldom the same.
    """
    questions: dict[int, list[np.ndarray]] = {1: [], 2: []}
    whole: dict[int, list[float]] = {1: [], 2: []}
    weights = []
    for _ in range(repeats):
        for n_jobs in (1, 2):
            began = time.perf_counter()
            with timed_oracles() as seconds:
                model = fit(n_jobs)
            whole[n_jobs].append(time.perf_counter() - began)
            questions[n_jobs].append(np.array(seconds))
            weights.append(model.coef_.tobytes())
    same = len(set(weights)) == 1
    one, two = (float(np.min(questions[n_jobs], axis=0).sum()) for n_jobs in (1, 2))
    reached = f"{len(questions[1][0])} questions, {one / two:.2f} times as fast, same bits: {same}"
    return [
        Line(f"{what}: oracle time", two, one, "one thread", AT_MOST, reached),
        Line(f"{what}: whole fit", min(whole[2]), min(whole[1]), "one thread", None, f"best of {repeats}"),
    ]


def compute(size: int) -> None:
    """Take about a nanosecond per number."""
    values = np.linspace(-1.0, 1.0, size)
    exponentiate(values)


def bare(repeats: int) -> list[Line]:
    """Time arithmetic in calls of about 2 ms: no oracle can gain more from threads.

    On virtual machines it may be well below 2.
    """
    steps, questions = 500_000, 30
    seconds: dict[int, list[list[float]]] = {1: [], 2: []}
    for _ in range(repeats):
        for n_jobs in (1, 2):
            requested = []
            for _ in range(questions):
                began = time.perf_counter()
                thread_map(compute, [steps, steps], n_jobs)
                requested.append(time.perf_counter() - began)
            seconds[n_jobs].append(requested)
    one, two = (float(np.min(seconds[n_jobs], axis=0).sum()) for n_jobs in (1, 2))
    reached = f"{questions} questions, {one / two:.2f} times as fast"
    return [Line("arithmetic only, the most that threads could reach", two, one, "one thread", None, reached)]


def rounds(most: int) -> Callable[[Any], bool]:
    return lambda line: line.iteration >= most


def letters(repeats: int) -> list[Line]:
    data = load_ocr_letters()
    X, Y = split(data, data.folds != 0)
    lines = compare(
        f"letters, {len(X)} words: SVM",
        lambda n_jobs: StructuralSVM(Chain(), C=0.1, n_jobs=n_jobs).fit(X, Y, callback=rounds(4)),
        repeats,
    )
    return lines + compare(
        f"letters, {len(X)} words: CRF",
        lambda n_jobs: CRF(Chain(), C=0.5, n_jobs=n_jobs).fit(X, Y, callback=rounds(10)),
        repeats,
    )


def chunks(repeats: int) -> list[Line]:
    data = load_conll2000(subset="train")
    X = WindowFeatures(affixes=0, shape=False).fit_transform(data.tokens)
    lines = compare(
        "CoNLL-2000: SVM",
        lambda n_jobs: StructuralSVM(Chain(), C=0.1, n_jobs=n_jobs).fit(X, data.Y, callback=rounds(1)),
        repeats,
    )
    return lines + compare(
        "CoNLL-2000: CRF",
        lambda n_jobs: CRF(Chain(), C=0.5, n_jobs=n_jobs).fit(X, data.Y, callback=rounds(4)),
        repeats,
    )


def motifs(repeats: int) -> list[Line]:
    data = load_yeast_ars()
    positive, negative = data.positives.sequences, data.negatives.sequences
    X, Y = [*positive, *negative], [1] * len(positive) + [-1] * len(negative)
    weights = np.where(np.array(Y) > 0, 1.0, len(positive) / len(negative))
    lines = []
    for kind in (LatentSSVM, HiddenCRF):
        lines += compare(
            f"motif in {len(X)} sequences: {kind.__name__}",
            lambda n_jobs, kind=kind: kind(Motif(17), C=0.1, restarts=1, n_jobs=n_jobs).fit(
                X, Y, sample_weight=weights, callback=rounds(2)
            ),
            repeats,
        )
    return lines


def run(quick: bool = False) -> list[Line]:
    repeats = 3 if quick else 7
    return bare(repeats) + letters(repeats) + motifs(repeats) + chunks(repeats)
