"""Integer programs: assignments trained to 0.1 %, and topics of news stories with pairs of topics."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.common import Line, cpu
from latentstruct import Program, StructuralSVM
from latentstruct.tasks.program.builders import assignment, label_set, label_set_output
from latentstruct_papers.datasets import load_reuters

N_TOPICS, N_TRAIN, N_HELD_OUT, N_TEST = 10, 1500, 500, 1500
LEAST_PAIR = 10
"""Stories in training that have both topics of a pair."""
STRENGTHS = (0.3, 1.0, 3.0)


def matchings(n: int, size: int, seed: int = 0) -> tuple[list, list]:
    """Return assignments with ten features, three of which tell the true pairs."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        y = np.eye(size)[rng.permutation(size)].ravel()
        features = rng.normal(size=(size * size, 10))
        features[:, :3] += y[:, None] * np.array([1.5, 1.0, 0.5])
        X.append(assignment(features.reshape(size, size, 10)))
        Y.append(y)
    return X, Y


def stories(X, topics: list, names: list[str], n: int, rng: np.random.Generator) -> tuple:
    """Return the words of some stories with frequent topics, and a constant, and which of the topics they have."""
    Y = np.array([[float(name in some) for name in names] for some in topics])
    chosen = rng.permutation(np.flatnonzero(Y.any(axis=1)))[:n]
    words = X[chosen].toarray()
    return np.hstack([words, np.full((len(words), 1), 0.2)]), Y[chosen]


def quality(Y: np.ndarray, found: np.ndarray) -> tuple[float, float, float]:
    """Return F1 over all topics together, the mean of their F1, and the Hamming loss."""
    both, either = (Y * found).sum(axis=0), (Y + found).sum(axis=0)
    return (
        float(2 * both.sum() / either.sum()),
        float(np.mean(2 * both / np.maximum(either, 1))),
        float((found != Y).mean()),
    )


def topics() -> Line:
    """Return how well sets of topics are found with and without scores of pairs."""
    data, rng = load_reuters(), np.random.default_rng(0)
    counts: dict[str, int] = {}
    for some in data.train_topics:
        for name in some:
            counts[name] = counts.get(name, 0) + 1
    names = sorted(counts, key=lambda name: -counts[name])[:N_TOPICS]
    X, Y = stories(data.train_X, data.train_topics, names, N_TRAIN + N_HELD_OUT, rng)
    test_X, test_Y = stories(data.test_X, data.test_topics, names, N_TEST, rng)
    together = Y[:N_TRAIN].T @ Y[:N_TRAIN]
    pairs = np.argwhere(np.triu(together >= LEAST_PAIR, 1))

    def train(C: float, pairs: np.ndarray, n: int) -> StructuralSVM:
        programs = [label_set(x, N_TOPICS, pairs) for x in X[:n]]
        return StructuralSVM(Program(), C=C, tol=1e-2).fit(
            programs, [label_set_output(y, N_TOPICS, pairs) for y in Y[:n]]
        )

    def find(model: StructuralSVM, pairs: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.array([y[:N_TOPICS] for y in model.predict([label_set(x, N_TOPICS, pairs) for x in rows])])

    found, seconds = {}, {}
    for kind, some in (("pairs", pairs), ("single", pairs[:0])):
        held_out = {C: quality(Y[N_TRAIN:], find(train(C, some, N_TRAIN), some, X[N_TRAIN:]))[0] for C in STRENGTHS}
        C = max(held_out, key=lambda C, scores=held_out: scores[C])
        seconds[kind], model = cpu(lambda C=C, some=some: train(C, some, len(X)))
        found[kind] = quality(test_Y, find(model, some, test_X))
    shown = {kind: "F1 {:.3f}, mean of topics {:.3f}, Hamming loss {:.4f}".format(*one) for kind, one in found.items()}
    reached = f"{len(pairs)} pairs: {shown['pairs']}; without: {shown['single']}"
    return Line(
        f"{len(X)} stories of Reuters, {N_TOPICS} topics",
        seconds["pairs"],
        seconds["single"],
        "binary SVMs",
        None,
        reached,
    )


def run(quick: bool = False) -> list[Line]:
    X, Y = matchings(200, 20 if quick else 50)
    seconds, model = cpu(lambda: StructuralSVM(Program(), C=0.01, tol=1e-3).fit(X, Y))
    n = int(np.sqrt(len(Y[0])))
    costs = [x.features @ model.coef_ for x in X]
    peer, _ = cpu(lambda: [linear_sum_assignment(-cost.reshape(n, n)) for cost in costs])
    reached = f"gap {model.relative_gap_:.1e}, certified {model.certified_}"
    lines = [Line(f"200 assignments {n} × {n} to 0.1 %", seconds, peer, "one pass of SciPy", None, reached)]
    return lines if quick else [*lines, topics()]
