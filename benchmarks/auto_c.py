"""``C="auto"`` against `GridSearchCV` over the same values of C and the same folds."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from benchmarks.common import Line, cpu
from latentstruct import (
    AutoC,
    Chain,
    LatentSSVM,
    Motif,
    Multiclass,
    PairwiseRanking,
    StructuralSVM,
    WindowFeatures,
    assign_folds,
)
from latentstruct_papers.datasets import load_conll2000, load_letor_mq2008, load_ocr_letters, load_uci_promoters

SENTENCES = 2000
PEER = "GridSearchCV"


def problems(quick: bool) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield names, estimators and data; each is read when it is needed."""
    letters = load_ocr_letters()
    rows = np.flatnonzero(letters.folds == 1)
    yield "letters, 704 words", StructuralSVM(Chain()), [letters.X[i] for i in rows], [letters.Y[i] for i in rows]
    digits = load_digits()
    yield "digits", StructuralSVM(Multiclass(bias=1.0)), digits.data / 16.0, digits.target
    promoters = load_uci_promoters()
    yield "uci_promoters", LatentSSVM(Motif(12)), promoters.X, promoters.Y
    queries = load_letor_mq2008(1, "train")
    yield "MQ2008", StructuralSVM(PairwiseRanking()), queries.X, queries.Y
    if not quick:
        train = load_conll2000(subset="train")
        X = WindowFeatures(affixes=0, shape=False).fit_transform(train.tokens[:SENTENCES])
        # Some labels are so rare that not all folds have them.
        labels = sorted({label for y in train.Y[:SENTENCES] for label in y})
        yield "CoNLL-2000, 2 000 sentences", StructuralSVM(Chain(labels=labels)), X, train.Y[:SENTENCES]


def run(quick: bool = False) -> list[Line]:
    lines, auto = [], AutoC()
    for name, estimator, X, Y in problems(quick):
        estimator.set_params(n_jobs=1, C=auto)
        ours, model = cpu(lambda: estimator.fit(X, Y))  # noqa: B023 - called at once
        values = np.geomspace(auto.C_min, auto.C_max, auto.n_values).tolist()
        labels = Y if estimator.task.tags.classifier else None
        folds = assign_folds(len(Y), auto.n_folds, labels=labels, random_state=auto.random_state)
        splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(auto.n_folds)]
        search = GridSearchCV(estimator, {"C": values}, cv=splits)
        with warnings.catch_warnings():
            # Small values of C leave some of these models at w = 0.
            warnings.simplefilter("ignore")
            peer, _ = cpu(lambda: search.fit(X, Y))  # noqa: B023
        found = search.cv_results_
        errors = found["std_test_score"] * np.sqrt(auto.n_folds / (auto.n_folds - 1)) / np.sqrt(auto.n_folds)
        best, chosen = int(np.argmax(found["mean_test_score"])), values.index(model.C_)
        means = found["mean_test_score"]
        inside = means[chosen] >= means[best] - errors[best]
        reached = (
            f"C {model.C_:.3g} with score {means[chosen]:.4f}, best of the grid {values[best]:.3g} with "
            f"{means[best]:.4f} ± {errors[best]:.4f}; within one standard error: {inside}"
        )
        lines.append(Line(f'C="auto", {name}', ours, peer, PEER, 0.3, reached))
    return lines
