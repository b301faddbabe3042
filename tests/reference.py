"""Brute-force twins of the tasks: every output listed, its features written down from the documentation.

Nothing here uses the library. An example is a `Listed`: all its candidates with features φ, losses Δ and the
number of their output; everything pooled is then a sum or a maximum over that list.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np


@dataclass
class Listed:
    """All candidates (y, h) of one example."""

    features: np.ndarray  # (K, d)
    losses: np.ndarray  # (K,)
    outputs: np.ndarray  # (K,) number of y; equal numbers are latent completions of one output
    true_output: int
    items: list  # (K,) what each candidate stands for


@dataclass
class Pooled:
    """Pooled value with the mean of what was pooled."""

    value: float
    features: np.ndarray
    loss: float
    shares: np.ndarray

    def offset(self, w):
        return self.value - self.features @ w


def smax(scores, temperature):
    """smax_ε and each item's share of it; at 0 the first maximum has it all."""
    if temperature == 0:
        shares = np.zeros(len(scores))
        shares[np.argmax(scores)] = 1.0
        return scores.max(), shares
    top = scores.max()
    if top == -np.inf:
        return top, np.zeros(len(scores))
    shares = np.exp((scores - top) / temperature)
    return top + temperature * np.log(shares.sum()), shares / shares.sum()


def pool(example, w, mode, output_temperature=0.0, latent_temperature=0.0):
    """Free, augmented or clamped value of one example: smax over y of smax over h."""
    scores = example.features @ w
    if mode == "augmented":
        scores = scores + example.losses
    if mode == "clamped":
        scores = np.where(example.outputs == example.true_output, scores, -np.inf)
    groups = [np.flatnonzero(example.outputs == y) for y in dict.fromkeys(example.outputs.tolist())]
    inner = [smax(scores[group], latent_temperature) for group in groups]
    value, outer = smax(np.array([top for top, _ in inner]), output_temperature)
    shares = np.zeros(len(scores))
    for group, (_, within), share in zip(groups, inner, outer, strict=True):
        shares[group] = share * within
    loss = float(shares @ example.losses) if mode == "augmented" else 0.0
    return Pooled(float(value), shares @ example.features, loss, shares)


def renyi(example, w, mode, order, output_temperature=0.0):
    """Value and gradient of smax over y of Δ(y) + G_α(y), latents pooled by Rényi entropy of order α."""
    scores, tops, slopes = example.features @ w, [], []
    for y in dict.fromkeys(example.outputs.tolist()):
        group = np.flatnonzero(example.outputs == y)
        plain, p = smax(scores[group], 1.0)
        if order == 1:
            pooled, shares = p @ scores[group], p * (1.0 + scores[group] - p @ scores[group])
        else:
            sharp, q = smax(order * scores[group], 1.0)
            pooled, shares = (sharp - plain) / (order - 1.0), (order * q - p) / (order - 1.0)
        loss = example.losses[group[0]] if mode == "augmented" else 0.0
        tops.append(pooled + loss if mode != "clamped" or y == example.true_output else -np.inf)
        slopes.append(shares @ example.features[group])
    value, shares = smax(np.array(tops), output_temperature)
    return value, shares @ np.array(slopes)


def slack(example, w):
    """max_y Δ(y)·(1 + s(y) − s(y_i)) and the feature difference and loss of its maximizer."""
    scores = example.features @ w
    truth = int(np.flatnonzero(example.outputs == example.true_output)[0])
    products = example.losses * (1.0 + scores - scores[truth])
    best = int(products.argmax())
    return products[best], example.features[best] - example.features[truth], example.losses[best]


def check_slack_planes(found, listed, w):
    """Raise unless each plane is Δ(y)·(1 + s(y) − s(y_i)) of one output y, and at least that of the true output, 0."""
    for example, slope, offset, value in zip(
        listed, found.slopes().toarray(), found.offsets, found.values, strict=True
    ):
        truth = int(np.flatnonzero(example.outputs == example.true_output)[0])
        slopes = example.losses[:, None] * (example.features - example.features[truth])
        assert (np.isclose(example.losses, offset) & np.isclose(slopes, slope).all(axis=1)).any()
        np.testing.assert_allclose(value, offset + slope @ w, atol=1e-9)
        assert -1e-9 <= value <= slack(example, w)[0] + 1e-9


def list_classes(X, truth, n_labels, costs, bias=0.0):
    """Multiclass: weight f·S + y belongs to feature f and class y; the S bias weights come last."""
    n_inputs = X.shape[1]
    listed = []
    for x, y_true in zip(X, truth, strict=True):
        features = np.zeros((n_labels, (n_inputs + bool(bias)) * n_labels))
        for y in range(n_labels):
            for f in range(n_inputs):
                features[y, f * n_labels + y] = x[f]
            if bias:
                features[y, n_inputs * n_labels + y] = bias
        losses = np.array([costs[y_true][y] for y in range(n_labels)], dtype=float)
        listed.append(Listed(features, losses, np.arange(n_labels), int(y_true), list(range(n_labels))))
    return listed


def chain_features(x, labels, n_labels, n_inputs, start=False, end=False, bias=False):
    """Weight f·S + y, then S² transitions (from, to), then start, end and bias weights where wanted."""
    size = n_inputs * n_labels + n_labels**2
    first = {}
    for name, wanted in (("start", start), ("end", end), ("bias", bias)):
        if wanted:
            first[name] = size
            size += n_labels
    phi = np.zeros(size)
    for t, y in enumerate(labels):
        for f in range(n_inputs):
            phi[f * n_labels + y] += x[t][f]
        if t > 0:
            phi[n_inputs * n_labels + labels[t - 1] * n_labels + y] += 1.0
        if bias:
            phi[first["bias"] + y] += 1.0
    if start and len(labels):
        phi[first["start"] + labels[0]] += 1.0
    if end and len(labels):
        phi[first["end"] + labels[-1]] += 1.0
    return phi


def list_labelings(X, truth, n_labels, n_inputs, costs, **blocks):
    """Chain: all labelings of each sequence."""
    listed = []
    for x, y_true in zip(X, truth, strict=True):
        items = list(product(range(n_labels), repeat=len(y_true)))
        features = np.array([chain_features(x, y, n_labels, n_inputs, **blocks) for y in items])
        losses = [sum(costs[a][b] for a, b in zip(y_true, y, strict=True)) for y in items]
        number = items.index(tuple(y_true))
        listed.append(Listed(features, np.array(losses, dtype=float), np.arange(len(items)), number, items))
    return listed


def label_marginals(example, w, temperature, n_labels):
    """P(y_t = y) by summing the shares of all labelings, shape (T, S)."""
    shares = pool(example, w, "free", temperature).shares
    marginals = np.zeros((len(example.items[0]), n_labels))
    for share, labels in zip(shares, example.items, strict=True):
        for t, y in enumerate(labels):
            marginals[t, y] += share
    return marginals
