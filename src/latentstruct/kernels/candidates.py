"""Pooling over listed candidates (y, h): max or soft max over h inside a group of equal y, then over y.

Candidates are flat; group j holds the candidates groups[j] … groups[j+1] (one y), example i the groups
examples[i] … examples[i+1]. ε_h and ε_y are the temperatures; exactly 0 is the hard max.
"""

import math

import numpy as np

from latentstruct.kernels.jit import njit


@njit
def pool(scores, start, stop, temperature, shares):
    """Return smax_ε of scores[start:stop] and leave each candidate's share of it in `shares`.

    With ε = 0 the first of the highest gets the share 1. If nothing is allowed (all −inf) the value is −inf
    and all shares are 0.
    """
    best = start
    for j in range(start, stop):
        shares[j] = 0.0
        if scores[j] > scores[best]:
            best = j
    high = scores[best]
    if high == -np.inf:
        return high
    if temperature == 0.0:
        shares[best] = 1.0
        return high
    total = 0.0
    for j in range(start, stop):
        shares[j] = math.exp((scores[j] - high) / temperature)
        total += shares[j]
    for j in range(start, stop):
        shares[j] /= total
    return high + temperature * math.log(total)


@njit
def pool_candidates(scores, groups, examples, output_temperature, latent_temperature, values, shares):
    """values[i] = smax_{ε_y} over y of smax_{ε_h} over h; shares = the candidates' probabilities."""
    n_groups = groups.shape[0] - 1
    group_scores = np.empty(n_groups)
    group_shares = np.empty(n_groups)
    for j in range(n_groups):
        group_scores[j] = pool(scores, groups[j], groups[j + 1], latent_temperature, shares)
    for i in range(examples.shape[0] - 1):
        values[i] = pool(group_scores, examples[i], examples[i + 1], output_temperature, group_shares)
        for j in range(examples[i], examples[i + 1]):
            for c in range(groups[j], groups[j + 1]):
                shares[c] *= group_shares[j]


@njit
def pool_entropy(scores, start, stop, order, sharp, shares):
    """Return G_α of scores[start:stop] and leave its derivatives, which may be negative, in `shares`.

    G_α = [lse(α s) − lse(s)]/(α − 1), and its limit E_p[s], p ∝ exp s, at α = 1. `sharp` is overwritten.
    """
    soft = pool(scores, start, stop, 1.0, shares)
    if order == 1.0:
        mean = 0.0
        for c in range(start, stop):
            mean += shares[c] * scores[c]
        for c in range(start, stop):
            shares[c] *= 1.0 + scores[c] - mean
        return mean
    # smax at temperature 1/α is lse(α s)/α.
    cold = order * pool(scores, start, stop, 1.0 / order, sharp)
    for c in range(start, stop):
        shares[c] = (order * sharp[c] - shares[c]) / (order - 1.0)
    return (cold - soft) / (order - 1.0)


@njit
def pool_renyi(scores, losses, groups, examples, output_temperature, order, values, shares):
    """Pool latents by Rényi entropy of order α: values[i] = smax_{ε_y} over y of Δ(y) + G_α(y).

    `losses` has one Δ for each group (−inf forbids it); `shares` are the derivatives of values[i] by the scores, which
    may be negative.
    """
    n_groups = groups.shape[0] - 1
    group_values = np.empty(n_groups)
    group_shares = np.empty(n_groups)
    sharp = np.empty(scores.shape[0])
    for j in range(n_groups):
        group_values[j] = losses[j] + pool_entropy(scores, groups[j], groups[j + 1], order, sharp, shares)
    for i in range(examples.shape[0] - 1):
        values[i] = pool(group_values, examples[i], examples[i + 1], output_temperature, group_shares)
        for j in range(examples[i], examples[i + 1]):
            for c in range(groups[j], groups[j + 1]):
                shares[c] *= group_shares[j]
