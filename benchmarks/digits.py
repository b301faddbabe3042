"""Multiclass SVM on scikit-learn's digits against liblinear's Crammer-Singer solver."""

import warnings

from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from benchmarks.common import Line, cpu
from latentstruct import Multiclass, StructuralSVM


def run(quick: bool = False) -> list[Line]:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    C = 10.0 / len(X)
    StructuralSVM(Multiclass(), C=C, tol=0.9).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer, _ = cpu(
            lambda: LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, tol=1e-3, max_iter=100_000).fit(
                X, y
            ),
            5,
        )
    ours, model = cpu(lambda: StructuralSVM(Multiclass(), C=C).fit(X, y), 5)
    reached = f"objective {model.objective_:.4f} (optimum 6.4434), gap {model.relative_gap_:.1e}"
    return [Line("digits, 10 classes: SVM to 0.1 %", ours, peer, "liblinear Crammer-Singer", 4.0, reached)]
