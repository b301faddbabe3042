"""Report of classes: the strongest features of each, and the contributions to predictions."""

from typing import Any

import numpy as np

from latentstruct.cli.answers import has_probabilities
from latentstruct.cli.blocks import (
    confusion_table,
    contribution_table,
    label_table,
    label_weights,
    name_with_constant,
    outcome,
    row_of,
)
from latentstruct.cli.kind import Trained
from latentstruct.core.formatting import counted
from latentstruct.viz.plots.features import shorten
from latentstruct.viz.report.blocks import Block, Examples, FactList

TOP_CLASSES = 5


def weight_blocks(model: Trained) -> list[Block]:
    """Return the strongest features of each class."""
    task = model.estimator.task_
    name_of = name_with_constant(model.record.feature_name, task.n_inputs_)
    return [label_table(list(task.labels_.labels), label_weights(model.estimator), name_of)]


def examples(model: Trained, data: tuple[Any, list[Any]], predicted: list[Any]) -> Examples:
    """Return predicted classes of samples, with the contributions of features."""
    X, y = data
    losses = np.array([truth != guess for truth, guess in zip(y, predicted, strict=True)], dtype=np.float64)
    return Examples(
        [f"sample {i}" for i in range(1, len(y) + 1)],
        losses,
        "0/1 loss",
        [outcome(truth, guess) for truth, guess in zip(y, predicted, strict=True)],
        lambda i: _draw(model, X, i, y[i], predicted[i]),
        confusion_table(list(zip(y, predicted, strict=True)), "classes"),
    )


def _draw(model: Trained, X: Any, i: int, truth: Any, guess: Any) -> list[Block]:
    """Return the scores of the classes, and the contributions to the best against the true or second one."""
    estimator, labels = model.estimator, list(model.estimator.task_.labels_.labels)
    scores = estimator.class_scores(X[[i]])[0]
    shown: list[Block] = [_scores_of_classes(estimator, X[[i]], labels, scores, truth)]
    if len(labels) == 1:
        return shown
    best = labels.index(guess)
    # A class that was not in the training data has no weights to compare with.
    rival = labels.index(truth) if truth != guess and truth in labels else int(np.argsort(-scores, kind="stable")[1])
    weights, task = label_weights(estimator), estimator.task_
    columns, values = row_of(X, i)
    if len(weights) > task.n_inputs_:
        columns, values = np.append(columns, task.n_inputs_), np.append(values, float(task.bias))
    difference = weights[columns, best] - weights[columns, rival]
    name_of = name_with_constant(model.record.feature_name, task.n_inputs_)
    title = f"Contributions for {shorten(guess)} (positive) and for {shorten(labels[rival])} (negative)"
    table = contribution_table(title, [name_of(k) for k in columns.tolist()], values, difference, "")
    return [*shown, table]


def _scores_of_classes(estimator: Any, row: Any, labels: list[Any], scores: Any, truth: Any) -> Block:
    order = np.argsort(-scores, kind="stable")[:TOP_CLASSES].tolist()
    shares = estimator.marginals(row)[0] if has_probabilities(estimator) else None
    facts = []
    for place, k in enumerate(order):
        parts = [f"score {scores[k]:.4g}"] + ([] if shares is None else [f"probability {shares[k]:.3f}"])
        parts += ["predicted"] * (place == 0) + ["true"] * (labels[k] == truth)
        facts.append((shorten(labels[k]), ", ".join(parts)))
    if truth not in [labels[k] for k in order]:
        facts.append((shorten(truth), "true" if truth in labels else "true, unknown to the model"))
    if len(labels) > len(order):
        facts.append((counted(len(labels) - len(order), "other"), "lower scores"))
    return FactList(facts)
