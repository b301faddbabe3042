"""Brute-force twins of measures of a whole set: all labelings and all rankings, and makers of small sets."""

from itertools import permutations, product

import numpy as np
from hypothesis import strategies as st

import reference
from latentstruct.core.protocols import Temperature

HARD = Temperature()


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def jaccard(a, b, c, d):
    return 1.0 - a / (a + b + c)


def uneven(a, b, c, d):
    """No function of arrays, and not monotone: the square of how many positives are too many."""
    return 0.1 * (a + b - (a + c)) ** 2 + max(c, 0.0) / 7 + min(b, 3.0) / 5


def wanted_size(loss, k, truth):
    """How many rows must be called positive; None if that is free."""
    if loss == "prbep":
        return int(truth.sum())
    if loss in ("precision@k", "recall@k"):
        return k if isinstance(k, int) else max(1, round(k * len(truth)))
    return None


def table_loss(loss, beta, k, table):
    a, b, c, d = table
    if callable(loss):
        return loss(*map(float, table))
    if loss == "error":
        return (b + c) / (a + b + c + d)
    if loss in ("f1", "fbeta"):
        square = 1.0 if loss == "f1" else beta**2
        return 1.0 - (1 + square) * a / ((1 + square) * a + b + square * c)
    best = min(a + b, a + c)
    return (best - a) / ((a + b) if loss == "precision@k" else (a + c))


def list_labelings(X, truth, loss, beta, k, bias):
    """All labelings that the loss allows. Outputs without loss have number 0: their mean is the clamped side."""
    n, size = len(X), wanted_size(loss, k, truth)
    rows = np.hstack([X, np.full((n, 1), bias)]) if bias and size is None else X
    items = np.array(list(product([False, True], repeat=n)))
    items = items if size is None else items[items.sum(axis=1) == size]
    features = np.where(items, 1.0, -1.0) @ rows / (2 * n)
    tables = np.stack([(truth & items), (~truth & items), (truth & ~items), (~truth & ~items)]).sum(axis=2).T
    known = {table: table_loss(loss, beta, k, table) for table in set(map(tuple, tables.tolist()))}
    losses = np.array([known[table] for table in map(tuple, tables.tolist())])
    return reference.Listed(features, losses, (losses > 1e-12).astype(int), 0, items)


def list_rankings(X, truth, loss):
    """All orders of the rows; Ψ and Δ by their pairs."""
    positives, negatives = np.flatnonzero(truth), np.flatnonzero(~truth)
    n_pairs = len(positives) * len(negatives)
    features, losses, items = [], [], []
    for order in permutations(range(len(X))):
        place = np.argsort(order)
        first = place[positives][:, None] < place[negatives][None, :]
        signs = np.where(first, 0.5, -0.5) / n_pairs
        features.append(signs.sum(axis=1) @ X[positives] - signs.sum(axis=0) @ X[negatives])
        hits = truth[list(order)]
        precisions = (np.cumsum(hits) / np.arange(1, len(X) + 1))[hits]
        losses.append((~first).sum() / n_pairs if loss == "rocarea" else 1.0 - precisions.mean())
        items.append(order)
    return reference.Listed(np.array(features), np.array(losses), (np.array(losses) > 1e-12).astype(int), 0, items)


@st.composite
def small_sets(draw, most):
    """2 to `most` rows of both classes, with small whole or quarter features, so that scores often tie."""
    n = draw(st.integers(2, most))
    step = draw(st.sampled_from([1.0, 0.25]))
    numbers = st.integers(-6, 6)
    X = step * np.array([[draw(numbers) for _ in range(2)] for _ in range(n)], dtype=float)
    truth = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    truth[draw(st.integers(0, n - 1))] = True
    if truth.all():
        truth[draw(st.integers(0, n - 1))] = False
    w = np.array([draw(st.floats(-8, 8)) for _ in range(3)])
    return X, truth, w


def learned(task, X, truth):
    task.learn(X, truth)
    return task, task.prepare(X, truth)


def two_clouds(n=30, d=3, seed=0, apart=1.5, share=0.4):
    rng = np.random.default_rng(seed)
    y = (np.arange(n) < share * n).astype(int)
    X = rng.normal(size=(n, d))
    X[:, 0] += apart * y
    order = rng.permutation(n)
    return X[order], y[order]
