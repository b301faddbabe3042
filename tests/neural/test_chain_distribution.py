"""Distributions of labelings against enumeration."""

from itertools import product

import pytest
import torch
from chain_reference import labeling_score, tokens_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from error_fields import raises
from latentstruct.torch import ChainDistribution


def scores_of(seed, B=2, T=4, S=3, forbid=0.0):
    generator = torch.Generator().manual_seed(seed)
    shapes = (B, T, S), (S, S), (S,), (S,)
    blocks = [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]
    closed = torch.rand(S, S, generator=generator) < forbid
    closed[0] = False
    blocks[1][closed] = -torch.inf
    mask = torch.rand(B, T, generator=generator) < 0.8
    mask[:, 1] = True
    return [block.requires_grad_() for block in blocks], mask


def enumerated(blocks, mask, k):
    """Return the labelings (with −100 where there is no token) of a sequence and their scores."""
    emissions, *others = blocks
    places = tokens_of(mask, emissions, k)
    labelings, scores = [], []
    for labels in product(range(emissions.shape[2]), repeat=len(places)):
        row = [-100] * emissions.shape[1]
        for t, y in zip(places, labels, strict=True):
            row[t] = y
        labelings.append(row)
        scores.append(labeling_score(emissions, others, k, places, labels))
    return torch.tensor(labelings), torch.stack(scores)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), forbid=st.sampled_from([0.0, 0.4]), S=st.integers(1, 3), T=st.integers(2, 4))
def test_by_enumeration(seed, forbid, S, T):
    blocks, mask = scores_of(seed, T=T, S=S, forbid=forbid)
    others, _ = scores_of(seed + 1, T=T, S=S)
    p, q = ChainDistribution(*blocks, mask=mask), ChainDistribution(*others, mask=mask)
    best = p.topk(5)
    for k in range(2):
        labelings, scores = enumerated(blocks, mask, k)
        _, other = enumerated(others, mask, k)
        log_p, log_q = torch.log_softmax(scores, 0), torch.log_softmax(other, 0)
        shares, reachable = log_p.exp(), torch.isfinite(log_p)
        close(p.log_partition[k], torch.logsumexp(scores, 0))
        marginals = torch.stack([(shares[:, None] * (labelings == y)).sum(0) for y in range(S)], -1)
        close(p.marginals[k], marginals)
        close(p.entropy[k], -(shares * log_p)[reachable].sum())
        close(p.kl(q)[k], (shares * (log_p - log_q))[reachable].sum())
        values, order = log_p.sort(descending=True, stable=True)
        assert p.argmax[k].tolist() == labelings[order[0]].tolist()
        wanted = min(5, int(reachable.sum()))
        close(best.log_probs[:wanted, k], values[:wanted])
        assert best.outputs[:wanted, k].tolist() == labelings[order[:wanted]].tolist()
        assert (best.log_probs[wanted:, k] == -torch.inf).all()
        unknown = labelings[order[:1]].clone()
        unknown[0, 1] = -1
        agreeing = ((labelings == unknown) | (unknown == -1)).all(1)
        given_labels = torch.full(mask.shape, -1).masked_fill(~mask, -100)
        given_labels[k] = unknown[0]
        close(p.log_prob(given_labels)[k], torch.logsumexp(log_p[agreeing], 0))


@pytest.mark.parametrize("forbid", [0.0, 0.4])
def test_derivatives(forbid):
    blocks, mask = scores_of(5, forbid=forbid)
    others, _ = scores_of(6)
    finite = torch.isfinite(blocks[1])
    close_off = torch.where(finite, 0.0, -torch.inf)
    inputs = [blocks[0], blocks[1].detach().masked_fill(~finite, 0.0).requires_grad_(), *blocks[2:]]

    def distribution(emissions, transitions, start, end):
        return ChainDistribution(emissions, transitions + close_off, start, end, mask)

    q = ChainDistribution(*others, mask=mask)
    assert gradcheck(lambda *some: distribution(*some).marginals, inputs)
    assert gradcheck(lambda *some: distribution(*some).entropy, inputs)
    assert gradcheck(lambda *some: distribution(*some).kl(q), inputs)
    p = distribution(*inputs)
    assert gradcheck(lambda *some: p.kl(ChainDistribution(*some, mask=mask)), others)


def test_samples_have_the_probabilities_of_labelings():
    blocks, mask = scores_of(9, T=3, S=2, forbid=0.5)
    p = ChainDistribution(*blocks, mask=mask)
    drawn = p.sample(20000, torch.Generator().manual_seed(0))
    assert drawn.shape == (20000, 2, 3)
    for k in range(2):
        labelings, scores = enumerated(blocks, mask, k)
        found = torch.stack([(drawn[:, k] == one).all(1).double().mean() for one in labelings])
        # Five standard deviations.
        torch.testing.assert_close(found, torch.softmax(scores, 0).detach(), rtol=0, atol=5 * 0.5 / 20000**0.5)
    assert torch.equal(drawn[:5], p.sample(20000, torch.Generator().manual_seed(0))[:5])
    assert p.sample(0).shape == (0, 2, 3)


def test_bad_input():
    blocks, mask = scores_of(0)
    mask[0, 0] = False
    p = ChainDistribution(*blocks, mask=mask)
    with raises("k", got=0):
        p.topk(0)
    with raises("n", got=-1):
        p.sample(-1)
    with raises("transitions", expected="(3, 3)"):
        ChainDistribution(blocks[0], blocks[1][:2])
    with raises("labels", got="(1, 4)"):
        p.log_prob(torch.zeros(1, 4, dtype=torch.int64))
    with raises("labels", got="−100"):
        p.log_prob(torch.full((2, 4), -100))
    with raises("other", expected="same mask"):
        p.kl(ChainDistribution(*blocks))
    with raises("emissions", got="sequence 0"):
        _ = ChainDistribution(torch.zeros(1, 2, 2), torch.full((2, 2), -torch.inf)).argmax
    with raises("tags", got="sequence 0"):
        _ = ChainDistribution(torch.zeros(1, 2, 2), torch.full((2, 2), -torch.inf)).log_partition
