"""What training makes of sequences with skipped tokens and with weights of tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentstruct.core.types import Vector
from latentstruct.core.unknown import SKIPPED, UNKNOWN
from latentstruct.core.validation import check_length, is_ordered, numbers_of
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.base import check_examples
from latentstruct.tasks.item_labels import label_lists


def without_skipped(X: Any, Y: Any, weights: Any, item: str) -> tuple[Any, Any, Any]:
    """Return sequences, labels and weights without the tokens whose label is `SKIPPED`, the same objects if none is."""
    lists = list(label_lists(Y, "Y", item))
    # Comparing a list with a number is fast, unlike looking at every label.
    cut = [k for k, y in enumerate(lists) if SKIPPED in y]
    if not cut:
        return X, Y, weights
    X, Y = list(X), lists
    nested = is_nested(weights)
    weights = list(weights) if nested else weights
    for k in cut:
        x = X[k] if hasattr(X[k], "shape") else np.asarray(X[k])
        check_length(Y[k], x.shape[0], f"Y[{k}]", "labels")
        kept = [t for t, label in enumerate(Y[k]) if label != SKIPPED]
        X[k], Y[k] = x[kept], [Y[k][t] for t in kept]
        if nested:
            weights[k] = np.asarray(weights[k])[kept]
    return X, Y, weights


def by_token_weights(X: Any, Y: Any, weights: Sequence[Any], item: str) -> tuple[Any, Any, Vector]:
    """Return examples with one weight each, whose sum is what weights of tokens mean.

    With the different positive weights a_1 < a_2 < … of the tokens of a sequence, and a_0 = 0, it becomes one example
    per j: its tokens of at least a_j keep their labels, the others are unknown, and its weight is a_j − a_{j−1}.
    """
    check_examples(X, Y)
    check_length(weights, len(Y), "sample_weight", "sequences")
    examples, labels, found = [], [], []
    for k, y in enumerate(label_lists(Y, "Y", item)):
        own = numbers_of(weights[k], f"sample_weight[{k}]")
        if own.shape != (len(y),):
            raise InputError(f"sample_weight[{k}]", Description(f"shape {own.shape}"), f"{len(y)} weights of tokens")
        if not (np.isfinite(own) & (own >= 0)).all():
            raise InputError(f"sample_weight[{k}]", own, "finite weights ≥ 0")
        levels = np.unique(own[own > 0])
        for level, below in zip(levels.tolist(), [0.0, *levels.tolist()], strict=False):
            examples.append(X[k])
            labels.append(
                [label if weight >= level else UNKNOWN for label, weight in zip(y, own.tolist(), strict=True)]
            )
            found.append(level - below)
    if not examples:
        raise InputError("sample_weight", 0.0, "at least one weight that is not zero")
    return examples, labels, np.array(found)


def is_nested(weights: Any) -> bool:
    """Return whether weights are those of tokens: one sequence of numbers per example."""
    return is_ordered(weights) and len(weights) > 0 and np.ndim(weights[0]) > 0
