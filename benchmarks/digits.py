"""Multiclass SVM on scikit-learn's digits against liblinear's Crammer-Singer solver."""

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from benchmarks.common import Line, cpu
from latentstruct import Multiclass, StructuralSVM


def crammer_singer_objective(W: np.ndarray, X: np.ndarray, y: np.ndarray, C: float) -> float:
    scores = X @ W.T
    every = np.arange(len(y))
    margins = scores + 1.0 - scores[every, y][:, None]
    margins[every, y] -= 1.0
    return 0.5 * float((W * W).sum()) + C * float(margins.max(axis=1).sum())


def run(quick: bool = False) -> list[Line]:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    # ½‖w‖² + 10 · mean slack.
    C = 10.0 / len(X)
    StructuralSVM(Multiclass(), C=C, tol=0.9).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        peer_model = LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, tol=1e-3, max_iter=100_000)
        peer, _ = cpu(lambda: peer_model.fit(X, y), 50)
    ours, model = cpu(lambda: StructuralSVM(Multiclass(), C=C).fit(X, y), 50)
    theirs = crammer_singer_objective(peer_model.coef_, X, y, C)
    reached = f"objective {model.objective_:.4f} (liblinear's {theirs:.4f}), gap {model.relative_gap_:.1e}"
    return [Line("digits, 10 classes: SVM to 0.1 %", ours, peer, "liblinear Crammer-Singer", 4.0, reached)]
