"""Losses of chains against enumeration, finite differences and pytorch-crf."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import torch
from chain_reference import chain_losses, weighted_losses
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from error_fields import raises
from latentstruct import Temperature, TransitionRules, tagging_rules
from latentstruct.torch import CRF, ChainLoss

KINDS = ["labels", "sets", "shares"]
LOSSES = ["crf", "hinge", "latent_hinge", "marginal", Temperature(0.5, 0.5), Temperature(0.5, 2.0), Temperature(1, 0)]


def problem(seed, loss, kind="labels", B=3, T=4, S=3, margin=None, rules=None):
    """Return a module and random inputs; labels are unknown, skipped and masked in all places."""
    generator = torch.Generator().manual_seed(seed)
    random = {"generator": generator}
    module = ChainLoss(S, loss, margin=margin, rules=rules).double()
    for parameter in module.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, **random))
    emissions = torch.randn(B, T, S, dtype=torch.float64, requires_grad=True, **random)
    mask = torch.rand(B, T, **random) < 0.8
    if kind == "labels":
        tags = torch.randint(S, (B, T), **random)
        if loss != "hinge":
            tags[torch.rand(B, T, **random) < 0.3] = -1
        tags[torch.rand(B, T, **random) < 0.2] = -100
    elif kind == "sets":
        tags = torch.rand(B, T, S, **random) < 0.5
        tags[..., 0] |= ~tags.any(-1)
    else:
        tags = torch.rand(B, T, S, dtype=torch.float64, **random)
        tags[tags < 0.3] = 0.0
        tags[..., 0] += 0.1
        tags /= tags.sum(-1, keepdim=True)
    return module, emissions, tags, mask


def blocks_of(module):
    return module.transitions, module.start_transitions, module.end_transitions


def reference(module, emissions, tags, mask, weights=None, allowed=None):
    costs = np.zeros((module.n_labels,) * 2) if module.costs is None else module.costs
    return chain_losses(emissions, blocks_of(module), tags, mask, module.temperature, costs, weights, allowed)


def assert_same(found, expected, module, emissions):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    inputs, weights = (emissions, *module.parameters()), torch.linspace(0.5, 2.0, len(found), dtype=torch.float64)
    # Short sequences do not depend on transitions.
    slopes = [torch.autograd.grad(one @ weights, inputs, materialize_grads=True) for one in (found, expected)]
    for own, other in zip(*slopes, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-10)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(LOSSES),
    kind=st.sampled_from(KINDS),
    S=st.integers(1, 3),
    T=st.integers(1, 4),
)
def test_losses_and_gradients_by_enumeration(seed, loss, kind, S, T):
    if loss == "hinge" and kind == "sets":
        kind = "labels"
    margin = None if seed % 2 else np.random.default_rng(seed).random((S, S)) * (1 - np.eye(S))
    module, emissions, tags, mask = problem(seed, loss, kind, S=S, T=T, margin=margin)
    found = module(emissions, tags, mask, reduction="none")
    assert_same(found, reference(module, emissions, tags, mask), module, emissions)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), loss=st.sampled_from(["hinge", "latent_hinge", "marginal", Temperature(1, 1)]))
def test_weights_of_tokens_with_a_margin(seed, loss):
    module, emissions, tags, mask = problem(seed, loss)
    weights = torch.rand(tags.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = module(emissions, tags, mask, weights, reduction="none")
    assert_same(found, reference(module, emissions, tags, mask, weights), module, emissions)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(("labels", "sets")))
def test_weights_of_tokens_of_a_crf(seed, kind):
    module, emissions, tags, mask = problem(seed, "crf", kind, T=3)
    weights = torch.rand(tags.shape[:2], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = module(emissions, tags, mask, weights, reduction="none")
    assert_same(found, weighted_losses(emissions, blocks_of(module), tags, mask, weights), module, emissions)
    ones = module(emissions, tags, mask, torch.ones_like(weights), reduction="none")
    torch.testing.assert_close(ones, module(emissions, tags, mask, reduction="none"), rtol=1e-10, atol=1e-10)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), loss=st.sampled_from(["crf", "latent_hinge", "marginal", Temperature(0.5, 2.0)]))
def test_forbidden_transitions(seed, loss):
    generator = torch.Generator().manual_seed(seed)
    allowed = TransitionRules(
        torch.rand(3, 3, generator=generator) < 0.7,
        torch.rand(3, generator=generator) < 0.7,
        torch.rand(3, generator=generator) < 0.7,
    )
    # One label is allowed everywhere, so that each sequence has a labeling.
    allowed.transitions[0, 0] = allowed.start[0] = allowed.end[0] = True
    module, emissions, tags, mask = problem(seed, loss, rules=allowed)
    tags[tags > 0] = -1
    found = module(emissions, tags, mask, reduction="none")
    assert_same(found, reference(module, emissions, tags, mask, allowed=allowed), module, emissions)


@pytest.mark.parametrize(("loss", "kind"), [pair for pair in product(LOSSES, KINDS) if pair != ("hinge", "sets")])
def test_finite_differences(loss, kind):
    module, emissions, tags, mask = problem(3, loss, kind)
    names = [name for name, _ in module.named_parameters()]

    def values(emissions, *parameters):
        arguments = emissions, tags, mask, None, "none"
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), arguments)

    inputs = emissions, *(parameter.detach().requires_grad_() for parameter in module.parameters())
    assert gradcheck(values, inputs)
    output, latent = module.temperature
    if output > 0 and (output == latent or kind == "shares"):
        assert gradgradcheck(values, inputs)
    else:
        slope = torch.autograd.grad(values(*inputs).sum(), emissions, create_graph=True)[0]
        with pytest.raises(NotImplementedError, match="single temperature above 0"):
            slope.square().sum().backward()


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), batch_first=st.booleans(), reduction=st.sampled_from(["sum", "mean", "token_mean"]))
def test_equal_to_pytorch_crf(seed, batch_first, reduction):
    peer_module = pytest.importorskip("torchcrf")
    generator = torch.Generator().manual_seed(seed)
    B, T, S = 4, 7, 5
    peer, own = peer_module.CRF(S, batch_first=batch_first), CRF(S, batch_first=batch_first)
    own.load_state_dict(peer.state_dict())
    lengths = torch.randint(1, T + 1, (B,), generator=generator)
    mask, emissions = torch.arange(T) < lengths[:, None], torch.randn(B, T, S, generator=generator)
    tags = torch.randint(S, (B, T), generator=generator)
    if not batch_first:
        mask, emissions, tags = (tensor.transpose(0, 1) for tensor in (mask, emissions, tags))
    losses, slopes = [], []
    for value in (own, lambda *arguments, reduction: -peer(*arguments, reduction)):
        scores = emissions.detach().clone().requires_grad_()
        losses.append(value(scores, tags, mask, reduction=reduction))
        losses[-1].backward()
        slopes.append(scores.grad)
    torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(*slopes, rtol=1e-5, atol=1e-5)
    for name, theirs in peer.named_parameters():
        torch.testing.assert_close(own.get_parameter(name).grad, theirs.grad, rtol=1e-5, atol=1e-5)
    decoded = own.decode(emissions, mask)
    decoded = decoded if batch_first else decoded.T
    assert [[y for y in row if y != -100] for row in decoded.tolist()] == peer.decode(emissions, mask)


def test_rules_of_tagging_schemes():
    labels = ["O", "B-A", "I-A", "B-B", "I-B"]
    rules = tagging_rules(labels)
    assert rules.start.tolist() == [True, True, False, True, False]
    assert rules.end.all()
    assert rules.transitions[:, 2].tolist() == [False, True, True, False, False]
    assert rules.transitions[:, 1].all()
    closed = tagging_rules(["O", "B-A", "I-A", "E-A", "S-A"], "BIOES")
    assert closed.transitions.tolist() == [
        [True, True, False, False, True],
        [False, False, True, True, False],
        [False, False, True, True, False],
        [True, True, False, False, True],
        [True, True, False, False, True],
    ]
    assert closed.end.tolist() == [True, False, False, True, True]
    with raises("labels[1]", got="X-A"):
        tagging_rules(["O", "X-A"])
    with raises("scheme", got="IOB"):
        tagging_rules(["O"], "IOB")


def test_decoding_follows_rules_masks_and_known_labels():
    rules = tagging_rules(["O", "B-A", "I-A"])
    module = ChainLoss(3, rules=rules).double()
    emissions = torch.zeros(2, 5, 3, dtype=torch.float64)
    emissions[..., 1:] = torch.tensor([2.0, 5.0])
    mask = torch.tensor([[True, False, True, True, False], [False, True, True, True, True]])
    labels = module.decode(emissions, mask)
    assert labels.tolist() == [[1, -100, 2, 2, -100], [-100, 1, 2, 2, 2]]
    known = torch.full((2, 5), -1)
    known[1, 3] = 0
    assert module.decode(emissions, mask, known).tolist() == [[1, -100, 2, 2, -100], [-100, 1, 2, 0, 1]]


def test_long_sequences_with_forbidden_transitions():
    """Labels that are never left differ by more than a linear message can hold."""
    rules = TransitionRules(torch.eye(2, dtype=torch.bool), torch.tensor([True, True]), torch.tensor([False, True]))
    module = ChainLoss(2, rules=rules).double()
    emissions = torch.zeros(1, 2000, 2, dtype=torch.float64)
    emissions[..., 0] = 3.0
    tags = torch.full((1, 2000), 1)
    assert module(emissions, tags).item() == pytest.approx(0.0, abs=1e-9)
    assert module.distribution(emissions).marginals[0, :, 1].min().item() == pytest.approx(1.0)


def test_infeasible_labels_are_named():
    module = ChainLoss(3, rules=tagging_rules(["O", "B-A", "I-A"]))
    emissions = torch.zeros(2, 2, 3)
    with raises("tags", got="sequence 1"):
        module(emissions, torch.tensor([[0, 0], [0, 2]]))
    with raises("emissions", got="sequence 0"):
        module.decode(emissions, tags=torch.tensor([[2, -1], [0, 0]]))
    with raises("tags", got="forbid"):
        module(emissions, torch.tensor([[0, 0], [0, 2]]), weights=torch.ones(2, 2))


def test_tensors_of_other_types():
    module, tags = ChainLoss(4), torch.randint(4, (2, 3))
    wide = torch.randn(2, 4, 3).transpose(1, 2)
    assert not wide.is_contiguous()
    loss = module(wide, tags)
    torch.testing.assert_close(loss, module(wide.contiguous(), tags))
    for dtype in (torch.float16, torch.bfloat16):
        half = wide.to(dtype).requires_grad_()
        value = module(half, tags)
        value.backward()
        assert (value.dtype, half.grad.dtype) == (torch.float32, dtype)
        torch.testing.assert_close(value, module(half.float(), tags))
    assert ChainLoss(4).double()(wide, tags).dtype == torch.float64
    torch.testing.assert_close(module(wide, tags, torch.ones(2, 3, dtype=torch.uint8)), loss)


def test_unknown_labels_only_and_no_tokens():
    module, emissions = ChainLoss(4), torch.randn(2, 3, 4, requires_grad=True)
    for loss in ("crf", "latent_hinge", "marginal"):
        assert ChainLoss(4, loss)(emissions, torch.full((2, 3), -1)).item() == pytest.approx(0.0, abs=1e-5)
    mask = torch.tensor([[False] * 3, [True] * 3])
    losses = module(emissions, torch.zeros(2, 3, dtype=torch.int64), mask, reduction="none")
    losses.sum().backward()
    assert losses[0] == 0
    assert (emissions.grad[0] == 0).all()
    assert losses[1] > 0
    assert module.decode(emissions, mask)[0].tolist() == [-100] * 3
    assert module(torch.randn(0, 3, 4), torch.zeros(0, 3, dtype=torch.int64), reduction="sum") == 0
    with raises("emissions", got="an empty batch"):
        module(torch.randn(0, 3, 4), torch.zeros(0, 3, dtype=torch.int64))
    with raises("emissions", got="without tokens"):
        module(emissions, torch.full((2, 3), -100), reduction="token_mean")


def test_bad_input():
    module, emissions, tags = ChainLoss(4), torch.randn(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64)
    with raises("tags[1, 2]", got=4, expected="from 0 to 3"):
        module(emissions, torch.tensor([[0, 0, 0], [0, 0, 4]]))
    with raises("tags[2, 1]", got=-2):
        ChainLoss(4, batch_first=False)(emissions.transpose(0, 1), torch.tensor([[0, 0], [0, 0], [0, -2]]))
    for bad, got in ((torch.nan, "NaN"), (torch.inf, "infinite")):
        wrong = emissions.clone()
        wrong[0, 1, 2] = bad
        with raises("emissions", got=got):
            module(wrong, tags)
        with raises("emissions", got=got):
            module.decode(wrong)
    with raises("emissions", expected="S = 4"):
        module(torch.randn(2, 3, 5), tags)
    with raises("emissions", expected="floating-point"):
        module(torch.zeros(2, 3, 4, dtype=torch.int64), tags)
    with raises("tags", expected="(2, 3)"):
        module(emissions, tags[:, :2])
    with raises("tags", got="float32"):
        module(emissions, tags.float())
    with raises("tags", got="without a possible label"):
        module(emissions, torch.zeros(2, 3, 4, dtype=torch.bool))
    with raises("tags", got="not 1 in sum"):
        module(emissions, torch.zeros(2, 3, 4))
    with raises("mask", expected="(2, 3)"):
        module(emissions, tags, torch.ones(2, 4, dtype=torch.bool))
    with raises("mask", got="float32"):
        module(emissions, tags, torch.ones(2, 3))
    with raises("weights", got="negative"):
        module(emissions, tags, weights=-torch.ones(2, 3))
    with raises("weights", expected="margin"):
        ChainLoss(4, Temperature(2.0, 2.0), margin=0.0)(emissions, tags, weights=torch.ones(2, 3))
    with raises("reduction", got="average"):
        module(emissions, tags, reduction="average")
    with raises("tags", hint="latent_hinge"):
        ChainLoss(4, "hinge")(emissions, torch.full((2, 3), -1))
    with raises("loss", got="logistic"):
        ChainLoss(4, "logistic")
    with raises("loss"):
        ChainLoss(4, Temperature(-1.0, 1.0))
    with raises("n_labels", got=0):
        ChainLoss(0)
    with raises("margin", expected="diagonal"):
        ChainLoss(2, "hinge", margin=[[1.0, 0.0], [0.0, 1.0]])
    with raises("margin", got="-1"):
        ChainLoss(2, "hinge", margin=-1.0)
    with raises("rules.start", expected="(2,)"):
        ChainLoss(2, rules=tagging_rules(["O", "B-A", "I-A"])._replace(transitions=torch.ones(2, 2, dtype=torch.bool)))


def test_log_likelihood_is_that_of_a_crf_for_all_losses():
    emissions, tags = torch.randn(2, 3, 4), torch.randint(4, (2, 3))
    crf, hinge = ChainLoss(4), ChainLoss(4, "hinge")
    hinge.load_state_dict(crf.state_dict())
    torch.testing.assert_close(hinge.log_likelihood(emissions, tags), -crf(emissions, tags, reduction="sum"))


def test_the_number_of_threads_does_not_change_losses():
    module, emissions, tags = ChainLoss(30), torch.randn(40, 60, 30), torch.randint(30, (40, 60))
    before, losses = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            losses.append(module(emissions, tags, reduction="none"))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*losses)


def test_the_library_does_not_import_torch():
    program = (
        "import sys, latentstruct, latentstruct.cli\n"
        "for name in latentstruct.__all__: getattr(latentstruct, name)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_equal_to_pytorch_partial_crf(seed):
    peer_module = pytest.importorskip("pytorch_partial_crf", reason="its released versions need torch 1")
    generator = torch.Generator().manual_seed(seed)
    emissions = torch.randn(4, 6, 5, generator=generator)
    tags = torch.randint(5, (4, 6), generator=generator)
    tags[torch.rand(4, 6, generator=generator) < 0.5] = -1
    peer, module = peer_module.PartialCRF(5), CRF(5)
    module.load_state_dict(peer.state_dict())
    losses, slopes = [], []
    for value in (lambda scores: module(scores, tags, reduction="sum"), lambda scores: peer(scores, tags)):
        scores = emissions.clone().requires_grad_()
        losses.append(value(scores))
        losses[-1].backward()
        slopes.append(scores.grad)
    torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(*slopes, rtol=1e-5, atol=1e-5)
