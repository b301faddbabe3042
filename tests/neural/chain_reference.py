"""Losses of chains by enumeration, from operations of torch alone."""

from itertools import pairwise, product

import torch


def smax(values, temperature):
    """Return the maximum at a temperature over the last dimension."""
    return values.max(-1).values if temperature == 0 else temperature * torch.logsumexp(values / temperature, -1)


def tokens_of(mask, tags, k):
    return [t for t in range(mask.shape[1]) if mask[k, t] and not (tags.dim() == 2 and tags[k, t] == -100)]


def allowed_labels(tags, k, t, n):
    if tags.dim() == 3:
        return [y for y in range(n) if tags[k, t, y]]
    return list(range(n)) if tags[k, t] == -1 else [int(tags[k, t])]


def labeling_score(emissions, blocks, k, places, labels):
    transitions, start, end = blocks
    score = emissions[k, 0, 0] * 0.0
    for t, y in zip(places, labels, strict=True):
        score = score + emissions[k, t, y]
    for before, here in pairwise(labels):
        score = score + transitions[before, here]
    return score + start[labels[0]] + end[labels[-1]] if labels else score


def costs_of(tags, k, places, labels, costs, weights, n):
    cost = 0.0
    for t, y in zip(places, labels, strict=True):
        if tags.is_floating_point():
            own = sum(float(tags[k, t, z]) * costs[z][y] for z in range(n))
        else:
            known = allowed_labels(tags, k, t, n)
            own = 0.0 if tags.dim() == 2 and len(known) == n and tags[k, t] == -1 else min(costs[z][y] for z in known)
        cost += own * (1.0 if weights is None else float(weights[k, t]))
    return cost


def is_hidden(tags, k, t, n):
    if tags.is_floating_point():
        return False
    return bool(tags[k, t] == -1) if tags.dim() == 2 else len(allowed_labels(tags, k, t, n)) != 1


def two_level_pool(pairs, temperature):
    """Pool scores by hidden labels at ε_h, then by output labels at ε_y; `pairs` are (output labels, score)."""
    groups = {}
    for key, score in pairs:
        groups.setdefault(key, []).append(score)
    inner = [smax(torch.stack(scores), temperature[1]) for scores in groups.values()]
    return smax(torch.stack(inner), temperature[0])


def chain_losses(emissions, blocks, tags, mask, temperature, costs, weights=None, allowed=None):
    """Return the loss of each sequence; `allowed` are rules (transitions, start, end)."""
    n, losses = emissions.shape[2], []

    def fits(labels):
        if allowed is None or not labels:
            return True
        transitions, start, end = allowed
        steps = all(transitions[a, b] for a, b in pairwise(labels))
        return bool(steps and start[labels[0]] and end[labels[-1]])

    for k in range(len(emissions)):
        places = tokens_of(mask, tags, k)
        hidden = [is_hidden(tags, k, t, n) for t in places]
        everything, agreeing, expected = [], [], emissions[k, 0, 0] * 0.0
        for labels in product(range(n), repeat=len(places)):
            if not fits(labels):
                continue
            score = labeling_score(emissions, blocks, k, places, labels)
            key = tuple(y for y, h in zip(labels, hidden, strict=True) if not h)
            cost = costs_of(tags, k, places, labels, costs, weights, n)
            everything.append((key, score + cost))
            if tags.is_floating_point():
                share = 1.0
                for t, y in zip(places, labels, strict=True):
                    share = share * tags[k, t, y]
                expected = expected + share * score
            elif all(y in allowed_labels(tags, k, t, n) for t, y in zip(places, labels, strict=True)):
                agreeing.append((key, score))
        known = expected if tags.is_floating_point() else two_level_pool(agreeing, temperature)
        losses.append(two_level_pool(everything, temperature) - known)
    return torch.stack(losses)


def weighted_losses(emissions, blocks, tags, mask, weights):
    """Return −Σ_t w_t log p(y_t | known labels before t) of each sequence."""
    losses = []
    for k in range(len(emissions)):
        places, loss = tokens_of(mask, tags, k), emissions[k, 0, 0] * 0.0
        n = emissions.shape[2]
        for j, t in enumerate(places):
            sums = []
            for known in (j, j + 1):
                scores = [
                    labeling_score(emissions, blocks, k, places, labels)
                    for labels in product(range(n), repeat=len(places))
                    if all(y in allowed_labels(tags, k, u, n) for u, y in zip(places[:known], labels, strict=False))
                ]
                sums.append(torch.logsumexp(torch.stack(scores), 0))
            loss = loss + weights[k, t] * (sums[0] - sums[1])
        losses.append(loss)
    return torch.stack(losses)
