"""The default SVM solver at four strengths C on five data sets, against CRFsuite's CRF on the same data.

Every line must reach a certified gap of 0.1 %. The peer is CRFsuite's default L-BFGS training with c1 = 0 and c2 = 0.5,
with weights for observed pairs of feature and label only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.common import Line, cpu, crfsuite_train
from benchmarks.letters import pixel_names
from latentstruct import Chain, Multiclass, StructuralSVM, WindowFeatures
from latentstruct.core.protocols import Iteration
from latentstruct.metrics import chunk_scores
from latentstruct.progress.eta import StoppingRule, TrainingTime
from latentstruct_papers.datasets import load_conll2000, load_ocr_letters

STRENGTHS = (0.01, 0.1, 1.0, 10.0)
GOAL = 1e-3
PEER = "CRFsuite L-BFGS"
# All of CoNLL-2000 at C = 1 must take no longer than the peer; elsewhere the ratio is reported only.
LIMITS = {("CoNLL-2000", 1.0): 1.0}


@dataclass
class Problem:
    """A data set: a task, training data with names of its features, and a score of a model on held-out data."""

    name: str
    task: Any
    X: Any
    Y: Any
    names: Callable[[Any], list[Any]]
    score: Callable[[StructuralSVM], str]


def attributes(names: np.ndarray) -> Callable[[Any], list[list[str]]]:
    """Return what gives the peer the names of the features of each token."""
    return lambda x: [names[x.indices[a:b]].tolist() for a, b in zip(x.indptr[:-1], x.indptr[1:], strict=True)]


def chunks(n: int | None) -> Problem:
    """CoNLL-2000 chunking, its first n sentences or all, with the template of the command."""
    train, test = load_conll2000(subset="train"), load_conll2000(subset="test")
    features = WindowFeatures()
    X, held_out = features.fit_transform(train.tokens[:n]), features.transform(test.tokens)
    names = np.array(features.get_feature_names_out(), dtype=object)
    name = "CoNLL-2000" if n is None else f"CoNLL-2000, {n} sentences"

    def score(model: StructuralSVM) -> str:
        return f"F1 {100 * chunk_scores(test.Y, model.predict(held_out)).f1:.2f}"

    return Problem(name, Chain(), X, train.Y[:n], attributes(names), score)


def long_sentences(n: int = 28) -> Problem:
    """The longest sentences of CoNLL-2000 with their part-of-speech tags."""
    train = load_conll2000(subset="train")
    longest = sorted(train.tokens, key=len, reverse=True)
    words = [[(token[0],) for token in sentence] for sentence in longest[: 2 * n]]
    tags = [[token[1] for token in sentence] for sentence in longest[: 2 * n]]
    features = WindowFeatures()
    X = features.fit_transform(words[:n])
    names = np.array(features.get_feature_names_out(), dtype=object)
    known = {tag for sentence in tags[:n] for tag in sentence}
    held_out = features.transform(words[n:])

    def score(model: StructuralSVM) -> str:
        pairs = [
            (a, b) for y, z in zip(tags[n:], model.predict(held_out), strict=True) for a, b in zip(y, z, strict=True)
        ]
        return f"accuracy {np.mean([a == b for a, b in pairs if a in known]):.4f}"

    return Problem(f"{n} long sentences, {len(known)} tags", Chain(), X, tags[:n], attributes(names), score)


def letters() -> Problem:
    """Handwritten words, one fold."""
    data = load_ocr_letters()
    train, rest = np.flatnonzero(data.folds == 1), np.flatnonzero(data.folds != 1)
    X, Y = ([part[i] for i in train] for part in (data.X, data.Y))
    others = [[part[i] for i in rest] for part in (data.X, data.Y)]
    return Problem(
        "letters, 704 words", Chain(), X, Y, pixel_names, lambda model: f"accuracy {model.score(*others):.4f}"
    )


def digits() -> Problem:
    """scikit-learn's digits; for the peer, sequences of one."""
    X, y = load_digits(return_X_y=True)
    X, n = X / 16.0, 1200

    def names(x: np.ndarray) -> list[dict[str, float]]:
        return [{str(k): float(x[k]) for k in np.flatnonzero(x)}]

    def score(model: StructuralSVM) -> str:
        return f"accuracy {model.score(X[n:], y[n:]):.4f}"

    return Problem("digits, 1200", Multiclass(), X[:n], y[:n], names, score)


def times_left(history: list[Iteration]) -> str:
    """Return how often the time left was estimated within a factor of 3 in the later half of a training."""
    training, end = TrainingTime(StoppingRule("gap", GOAL)), history[-1].seconds
    right, given = 0, 0
    for line in history[:-1]:
        training.add(line)
        left = training.estimate()
        if left is not None and line.seconds >= 0.5 * end:
            given += 1
            # Times are shown by fives of seconds.
            shown, true = (max(seconds, 5.0) for seconds in (left.seconds, end - line.seconds))
            right += max(shown, true) <= 3.0 * min(shown, true)
    return f"time left right {right} of {given} times" if given else "too short for a time left"


def problems(quick: bool) -> Iterator[Problem]:
    yield digits()
    yield letters()
    yield long_sentences()
    yield chunks(2000)
    if not quick:
        yield chunks(None)


def run(quick: bool = False) -> list[Line]:
    lines = []
    for problem in problems(quick):
        few = slice(12)
        StructuralSVM(problem.task, tol=0.9).fit(problem.X[few], problem.Y[few])
        observed = [[y] for y in problem.Y] if isinstance(problem.task, Multiclass) else problem.Y
        peer, _ = crfsuite_train(problem.X, observed, problem.names, {"c2": 0.5})
        for C in STRENGTHS:
            ours, model = cpu(
                lambda C=C, problem=problem: StructuralSVM(problem.task, C=C, tol=GOAL).fit(problem.X, problem.Y)
            )
            passes = model.n_oracle_calls_ / len(problem.Y)
            facts = (f"gap {100 * model.relative_gap_:.3f} %", f"{passes:.0f} passes", problem.score(model))
            reached = ", ".join((*facts, times_left(model.history_)))
            limit = LIMITS.get((problem.name, C))
            lines.append(Line(f"{problem.name}: SVM C={C:g} to 0.1 %", ours, peer, PEER, limit, reached))
            print(lines[-1].what, f"{ours:.2f} / {peer:.2f} = {lines[-1].ratio:.3f}", reached, flush=True)
    return lines
