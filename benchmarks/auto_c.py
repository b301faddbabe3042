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

SENTENCES = (500, 2000)
"""The grid search over 2 000 sentences takes about an hour of CPU time."""
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
    train = load_conll2000(subset="train")
    for n in SENTENCES[: 1 if quick else 2]:
        X, Y = WindowFeatures(affixes=0, shape=False).fit_transform(train.tokens[:n]), train.Y[:n]
        # Some labels are so rare that not all folds have them.
        labels = sorted({label for y in Y for label in y})
        yield f"CoNLL-2000, {n} sentences", StructuralSVM(Chain(labels=labels)), X, Y


def run(quick: bool = False) -> list[Line]:
    return [compare(*problem) for problem in problems(quick)]


def compare(name: str, estimator: Any, X: Any, Y: Any) -> Line:
    """Compare CPU times, and the score of the chosen C in the grid search with the best one."""
    auto = AutoC()
    estimator.set_params(n_jobs=1, C=auto)
    ours, model = cpu(lambda: estimator.fit(X, Y))
    values = np.geomspace(auto.C_min, auto.C_max, auto.n_values).tolist()
    labels = Y if estimator.task.tags.classifier else None
    folds = assign_folds(len(Y), auto.n_folds, labels=labels, random_state=auto.random_state)
    splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(auto.n_folds)]
    search = GridSearchCV(estimator, {"C": values}, cv=splits)
    with warnings.catch_warnings():
        # Small values of C leave some of these models at w = 0.
        warnings.simplefilter("ignore")
        peer, _ = cpu(lambda: search.fit(X, Y))
    found = search.cv_results_
    means, errors = found["mean_test_score"], found["std_test_score"] / np.sqrt(auto.n_folds - 1)
    best, chosen = int(np.argmax(means)), values.index(model.C_)
    inside = means[chosen] >= means[best] - errors[best]
    reached = (
        f"C {model.C_:.3g} with score {means[chosen]:.4f}, best of the grid {values[best]:.3g} with "
        f"{means[best]:.4f} ± {errors[best]:.4f}; within one standard error: {inside}"
    )
    return Line(f'C="auto", {name}', ours, peer, PEER, 0.3, reached)
