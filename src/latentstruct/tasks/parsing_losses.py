"""Losses of trees, and the tree that maximises s + 1 − F1, searched among the answers for linear losses."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.ragged import Indices, Vector
from latentstruct.tasks.base import check_examples
from latentstruct.trees import check_tree, constituents, without_unary_cycles

ROUNDS = 4
"""Linearisations at the best tree so far, after the first three."""

Answer = tuple[sparse.csr_array, Vector, Vector]
Ask = Callable[[Indices, Vector, Vector], Answer]


def f1_loss(predicted: Vector, right: Vector, gold: Vector) -> NDArray[np.float64]:
    """Return Δ = 1 − 2h/(p + g), 0 where neither tree has a constituent."""
    both = predicted + gold
    return np.where(both > 0, 1.0 - 2.0 * right / np.maximum(both, 1.0), 0.0)


def search_f1(ask: Ask, truth: sparse.csr_array, gold: Vector, w: Vector) -> tuple[sparse.csr_array, Vector]:
    """Return features (k, d) and losses (k,) of good answers to max s + Δ for each of k sentences.

    Δ = 1 − 2h/(p + g) falls by gain = 2/(p + g) with each right constituent and rises by cost = 2h/(p + g)² with each
    predicted one. It is linearised where all, half and none of the constituents are right, and then repeatedly at the
    best tree so far; the known tree is among the answers compared.

    Parameters
    ----------
    ask : callable
        Features, p and h of the trees that maximise s + cost·p − gain·h, for some of the sentences (places, costs,
        gains).
    truth : CSR array of shape (k, d)
        Features of the known trees.
    gold : ndarray of shape (k,)
        g.
    w : ndarray of shape (d,)
        Weights.
    """
    found, places = [truth], np.arange(len(gold))
    best, losses, values = places.copy(), np.zeros(len(gold)), truth @ w
    predicted, right = gold.copy(), gold.copy()
    size = len(gold)
    asked: list[tuple[Vector, Vector]] = []
    for attempt in range(3 + ROUNDS):
        if attempt < 3:
            point, among = (gold, gold * (1.0 - attempt / 2.0)), places
        else:
            point = (predicted.copy(), right.copy())
            seen = np.zeros(len(gold), dtype=bool)
            for earlier in asked:
                seen |= (earlier[0] == point[0]) & (earlier[1] == point[1])
            among = np.flatnonzero(~seen)
        if len(among) == 0:
            break
        asked.append(point)
        both = np.maximum(point[0] + gold, 1.0)[among]
        features, p, h = ask(among, 2.0 * point[1][among] / both**2, 2.0 / both)
        loss = f1_loss(p, h, gold[among])
        value = features @ w + loss
        better = value > values[among]
        chosen = among[better]
        best[chosen] = size + np.flatnonzero(better)
        losses[chosen], values[chosen] = loss[better], value[better]
        predicted[chosen], right[chosen] = p[better], h[better]
        found.append(features)
        size += len(among)
    return sparse.vstack(found, format="csr")[best], losses


def compare_trees(Y_true: Any, Y_pred: Any) -> tuple[Vector, Vector, Vector]:
    """Return the numbers of true, predicted and right constituents, each of shape (n,), unary cycles cut short."""
    check_examples(Y_true, Y_pred)
    numbers = []
    for k, pair in enumerate(zip(Y_true, Y_pred, strict=True)):
        for name, tree in zip(("Y_true", "Y_pred"), pair, strict=True):
            check_tree(tree, f"{name}[{k}]")
        true, found = (set(constituents(without_unary_cycles(tree))) for tree in pair)
        numbers.append((len(true), len(found), len(true & found)))
    gold, predicted, right = np.array(numbers, dtype=np.float64).T
    return gold, predicted, right
