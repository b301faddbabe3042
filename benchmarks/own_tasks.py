"""Tasks of users in Python against the same built-in task: microseconds per example without the user's own code.

The problem is ten digits with 64 pixels. An oracle pass asks for the planes of all examples in eight random parts, as
solvers do at first. The user's own methods are timed in a loop of their own and subtracted.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.common import Line, cpu
from latentstruct import CandidateTask, ExampleTask, Multiclass, PartsTask, StructuralSVM
from latentstruct.core.protocols import Temperature

N_LABELS, N_PIXELS = 10, 64
MICRO = 1e6
EYE = np.eye(N_LABELS)


def blocks(x: np.ndarray) -> np.ndarray:
    """Return the features of all classes, shape (S, S·d)."""
    features = np.zeros((N_LABELS, N_LABELS, N_PIXELS))
    features[np.arange(N_LABELS), np.arange(N_LABELS)] = x
    return features.reshape(N_LABELS, -1)


class Listed(CandidateTask):
    def candidates(self, x: Any) -> Any:
        return range(N_LABELS), None, blocks(x)


class Parts(PartsTask):
    def parts(self, x: Any) -> Any:
        return blocks(x)

    def counts(self, x: Any, y: Any, *h: Any) -> Any:
        return EYE[y]

    def best(self, x: Any, scores: Any) -> Any:
        return EYE[scores.argmax()]

    def output(self, x: Any, counts: Any) -> Any:
        return int(counts.argmax())

    def output_loss(self, y: Any, y_hat: Any, *h_hat: Any) -> float:
        return float(y != y_hat)

    def part_losses(self, x: Any, y: Any) -> Any:
        return 1.0, -EYE[y]


class Examples(ExampleTask):
    def joint_feature(self, x: Any, y: Any, *h: Any) -> Any:
        features = np.zeros((N_LABELS, N_PIXELS))
        features[y] = x
        return features.ravel()

    def output_loss(self, y: Any, y_hat: Any, *h_hat: Any) -> float:
        return float(y != y_hat)

    def argmax(self, x: Any, w: Any) -> Any:
        return (w.reshape(N_LABELS, -1) @ x).argmax()

    def loss_augmented_argmax(self, x: Any, y: Any, w: Any) -> Any:
        scores = w.reshape(N_LABELS, -1) @ x
        scores[y] -= 1.0
        return scores.argmax()


class Batches(ExampleTask):
    def joint_feature_batch(self, X: Any, Y: Any, *H: Any) -> Any:
        features = np.zeros((len(X), N_LABELS, N_PIXELS))
        features[np.arange(len(X)), Y] = X
        return features.reshape(len(X), -1)

    def output_loss_batch(self, Y: Any, Y_hat: Any, *H_hat: Any) -> Any:
        return Y_hat != Y

    def argmax_batch(self, X: Any, w: Any) -> Any:
        return (X @ w.reshape(N_LABELS, -1).T).argmax(axis=1)

    def loss_augmented_argmax_batch(self, X: Any, Y: Any, w: Any) -> Any:
        scores = X @ w.reshape(N_LABELS, -1).T
        scores[np.arange(len(X)), Y] -= 1.0
        return scores.argmax(axis=1)


def own_code(task: Any, X: Any, Y: Any, w: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return what the methods of a task do to prepare all examples, and in one oracle pass."""

    def nothing() -> None:
        return None

    def search_all() -> None:
        for x, y in zip(X, Y, strict=True):
            y_hat = task.loss_augmented_argmax(x, y, w)
            task.output_loss(y, y_hat)
            task.joint_feature(x, y_hat)

    def search_batch() -> None:
        found = task.loss_augmented_argmax_batch(X, Y, w)
        task.output_loss_batch(Y, found)
        task.joint_feature_batch(X, found)

    if isinstance(task, Listed):
        return lambda: [
            task.output_loss(y, k, None) for x, y in zip(X, Y, strict=True) for k in task.candidates(x)[0]
        ], nothing
    if isinstance(task, Parts):
        scores = np.arange(10.0)
        return lambda: [(task.parts(x), task.part_losses(x, y)) for x, y in zip(X, Y, strict=True)], lambda: [
            task.best(x, scores) for x in X
        ]
    if isinstance(task, Examples):
        return nothing, search_all
    return nothing, search_batch if isinstance(task, Batches) else nothing


def measure(task: Any, X: Any, Y: Any, repeats: int) -> dict[str, float]:
    """Return CPU seconds per example to prepare, in an oracle pass and in training, and the own code subtracted."""
    n = len(X)
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    w = np.random.default_rng(0).normal(size=task.n_features)
    parts = np.array_split(np.random.default_rng(1).permutation(n), 8)
    own_prepare, own_pass = (cpu(work, repeats)[0] / n for work in own_code(task, X, Y, w))

    def ask() -> None:
        for rows in parts:
            task.planes(batch, w, "augmented", Temperature(), rows)

    train, model = cpu(lambda: StructuralSVM(type(task)(), C=1.0).fit(X, Y), repeats)
    calls = model.n_oracle_calls_
    own_training = n * own_prepare / calls + own_pass
    return {
        "prepare": cpu(lambda: task.prepare(X, Y), repeats)[0] / n - own_prepare,
        "pass": cpu(ask, repeats)[0] / n - own_pass,
        "training": train / calls - own_training,
        "own": own_training,
    }


def run(quick: bool = False) -> list[Line]:
    X, Y = load_digits(return_X_y=True)
    n = 300 if quick else 1000
    X, Y, repeats = X[:n] / 16.0, Y[:n], 2 if quick else 5
    StructuralSVM(Multiclass(), C=1.0).fit(X, Y)
    peer = measure(Multiclass(), X, Y, repeats)
    lines = []
    # Targets in microseconds per example and oracle call.
    for task, target in ((Listed(), 10), (Parts(), 20), (Examples(), 30), (Batches(), 30)):
        ours = measure(task, X, Y, repeats)
        for what in ("pass", "training"):
            lines.append(
                Line(
                    f"{type(task).__bases__[0].__name__} ({type(task).__name__}), {what}",
                    ours[what],
                    peer[what],
                    "Multiclass",
                    target / (peer[what] * MICRO) if what == "training" else None,
                    f"{ours[what] * MICRO:.1f} µs per example against {peer[what] * MICRO:.1f}; own code of "
                    f"{ours['own'] * MICRO:.1f} µs subtracted; prepare {ours['prepare'] * MICRO:.1f} µs",
                )
            )
    return lines
