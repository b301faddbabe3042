"""Measures of a whole set: training beside an ordinary linear SVM, and beside published times of SVM^perf."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks.common import Line, cpu
from latentstruct import Measure, StructuralSVM

# CPU seconds of SVM^perf (C) on a set of this size, at C = 20, e = 0.1: its losses are in per cent, so that our C is
# 100 times as large, and its gap is C·0.001 in ours.
PERF_C, PERF_GAP = 2000.0, 2.0
PERF_SECONDS = {"error": (1.0, None), "prbep": (5.1, None), "rocarea": (6.4, 1 / 3), "f1": (23.0, 0.1)}
LINEAR_LIMITS = {"error": None, "f1": 2.0, "rocarea": 5.0, "average_precision": None}


def two_classes(n: int, d: int, share: float = 0.1, noise: float = 0.3) -> tuple[NDArray, NDArray]:
    """Draw rows whose class depends on a direction and noise."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d) / np.sqrt(d)
    scores = X @ w + noise * rng.normal(size=n)
    return X, (scores > np.quantile(scores, 1.0 - share)).astype(int)


def train(loss: Any, C: float, X: NDArray, y: NDArray) -> tuple[float, StructuralSVM, str]:
    """Return CPU seconds, the model, and what was reached."""
    # What is compiled or imported at first use is no part of training.
    StructuralSVM(Measure(loss), C=1.0).fit(X[:500], y[:500])
    seconds, model = cpu(lambda: StructuralSVM(Measure(loss), C=C).fit(X, y))
    reached = (
        f"objective {model.objective_:.5g}, gap {model.relative_gap_:.1e}, {model.n_iter_} iterations, measure "
        f"{model.score(X, y):.4f} in training"
    )
    return seconds, model, reached


def beside_linear_svm(n: int, d: int, C: float) -> list[Line]:
    """Compare with LinearSVC on the same rows, whose C is that of one row."""
    X, y = two_classes(n, d)
    with warnings.catch_warnings():
        # It stops at 1000 passes on such data; more would only take longer.
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer, _ = cpu(lambda: LinearSVC(loss="hinge", dual=True, C=C / n).fit(X, y))
    lines = []
    for loss, limit in LINEAR_LIMITS.items():
        ours, _, reached = train(loss, C, X, y)
        lines.append(Line(f"{loss} on {n} × {d}, C = {C:g}", ours, peer, "LinearSVC, hinge", limit, reached))
    return lines


def beside_svm_perf() -> list[Line]:
    """Compare with the times of SVM^perf, which were taken elsewhere, at its precision or a better one."""
    X, y = two_classes(20_000, 50)
    lines = []
    for loss, (seconds, limit) in PERF_SECONDS.items():
        ours, model, reached = train(loss, PERF_C, X, y)
        assert model.gap_ <= PERF_GAP
        lines.append(Line(f"{loss} on 20000 × 50, C = {PERF_C:g}", ours, seconds, "SVM^perf, given", limit, reached))
    return lines


def run(quick: bool = False) -> list[Line]:
    if quick:
        return [*beside_svm_perf(), *beside_linear_svm(20_000, 50, 2000.0)]
    return [*beside_svm_perf(), *beside_linear_svm(100_000, 100, 1e4), *beside_linear_svm(100_000, 100, 1e5)]
