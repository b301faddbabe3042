"""Trees, alignments and graphs against enumeration."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from error_fields import raises
from latentstruct import Temperature
from latentstruct.torch import (
    AlignmentDistribution,
    AlignmentLoss,
    GraphDistribution,
    GraphLoss,
    ParsingLoss,
    TreeDistribution,
)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def smax(values, temperature):
    return values.max() if temperature == 0 else temperature * torch.logsumexp(values / temperature, 0)


class Trees:
    """Two sentences of three and two words, two labels."""

    shape, lengths = (2, 3, 3, 2), (3, 2)

    def spans(self, i, j):
        if i == j:
            yield [(i, j)]
        for k in range(i, j):
            for left, right in product(self.spans(i, k), self.spans(k + 1, j)):
                yield [(i, j), *left, *right]

    def outputs(self, b):
        found = []
        for spans in self.spans(0, self.lengths[b] - 1):
            for labels in product(range(2), repeat=len(spans)):
                tree = torch.full((3, 3), -2)
                for (i, j), label in zip(spans, labels, strict=True):
                    tree[i, j] = label
                found.append(tree)
        return torch.stack(found)

    def inputs(self, seed):
        generator = torch.Generator().manual_seed(seed)
        return [torch.randn(self.shape, dtype=torch.float64, generator=generator, requires_grad=True)]

    def make(self, scores):
        return TreeDistribution(scores, torch.tensor(self.lengths))

    def score(self, inputs, b, tree):
        return sum(inputs[0][b, i, j, tree[i, j]] for i, j in (tree >= 0).nonzero().tolist())

    def loss(self, inputs, loss, known, **more):
        return ParsingLoss(loss)(inputs[0], known, torch.tensor(self.lengths), **more)

    def cost(self, known, tree):
        inside = tree >= 0
        return ((known != -1) & (known != tree) & inside).sum()

    def agrees(self, known, tree):
        return bool(((known == -1) | (known == tree)).all())

    def hide(self, outputs, generator):
        return outputs.masked_fill(torch.rand(outputs.shape, generator=generator) < 0.5, -1)


class Alignments:
    """Two pairs of sequences of 3 and 2, and of 2 and 3 positions."""

    first, second = (3, 2), (2, 3)

    def outputs(self, b):
        found = []
        for partners in product([-2, *range(self.second[b])], repeat=self.first[b]):
            matched = [j for j in partners if j >= 0]
            if matched == sorted(set(matched)):
                found.append([*partners, *[-100] * (3 - self.first[b])])
        return torch.tensor(found)

    def inputs(self, seed):
        generator = torch.Generator().manual_seed(seed)
        shapes = (2, 3, 3), (), (2,)
        return [torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True) for shape in shapes]

    def make(self, scores, gap_open, gap_extend):
        return AlignmentDistribution(scores, gap_open, gap_extend, *map(torch.tensor, (self.first, self.second)))

    def score(self, inputs, b, partners):
        scores, gap_open, gap_extend = inputs[0][b], inputs[1], inputs[2][b]
        matches = [(i, j) for i, j in enumerate(partners.tolist()) if j >= 0]
        total, before = scores[0, 0] * 0.0, (-1, -1)
        for i, j in [*matches, (self.first[b], self.second[b])]:
            for size in (i - before[0] - 1, j - before[1] - 1):
                total = total + (gap_open + (size - 1) * gap_extend if size else 0.0)
            before = (i, j)
        return total + sum(scores[i, j] for i, j in matches)

    def loss(self, inputs, loss, known, **more):
        module = AlignmentLoss(loss).double()
        module.gap_open, module.gap_extend = (torch.nn.Parameter(one.detach()) for one in inputs[1:])
        return module(inputs[0], known, *map(torch.tensor, (self.first, self.second)), **more)

    def cost(self, known, partners):
        return ((known >= -2) & (known != -1) & (known != partners)).sum()

    agrees, hide = Trees.agrees, Trees.hide


class Graphs:
    """A triangle with a tail and an edge, two labels; edges are not in the order of their graphs."""

    edges = torch.tensor([[4, 0, 1, 2, 2], [5, 1, 2, 0, 3]])
    batch = torch.tensor([0, 0, 0, 0, 1, 1])
    nodes = (range(4), range(4, 6))

    def outputs(self, b):
        found = []
        for labels in product(range(2), repeat=len(self.nodes[b])):
            row = torch.full((6,), -1)
            row[list(self.nodes[b])] = torch.tensor(labels)
            found.append(row)
        return torch.stack(found)

    def inputs(self, seed):
        generator = torch.Generator().manual_seed(seed)
        shapes = (6, 2), (5, 2, 2)
        return [torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True) for shape in shapes]

    def make(self, nodes, pairwise):
        return GraphDistribution(nodes, self.edges, pairwise, self.batch)

    def score(self, inputs, b, labels):
        nodes, pairwise = inputs
        own = sum(nodes[v, labels[v]] for v in self.nodes[b])
        pairs = enumerate(self.edges.T.tolist())
        return own + sum(pairwise[e, labels[u], labels[v]] for e, (u, v) in pairs if u in self.nodes[b])

    def loss(self, inputs, loss, known, **more):
        return GraphLoss(2, loss).double()(inputs[0], self.edges, known, inputs[1], self.batch, **more)

    def cost(self, known, labels):
        return ((known != -1) & (labels != -1) & (known != labels)).sum()

    def agrees(self, known, labels):
        return bool(((known == -1) | (labels == -1) | (known == labels)).all())

    def hide(self, outputs, generator):
        return outputs.masked_fill(torch.rand(outputs.shape, generator=generator) < 0.5, -1)


CASES = [Trees(), Alignments(), Graphs()]


def joined(case, chosen):
    """Return one output of each example as one tensor."""
    if isinstance(case, Graphs):
        return torch.where(chosen[0] >= 0, chosen[0], chosen[1])
    return torch.stack(chosen)


def own(case, outputs, b):
    """Return the part of an example of a tensor of outputs."""
    if not isinstance(case, Graphs):
        return outputs[..., b, :, :] if isinstance(case, Trees) else outputs[..., b, :]
    return torch.where(case.batch == b, outputs, -1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case).__name__)
@settings(deadline=None, max_examples=6)
@given(seed=st.integers(0, 10**6))
def test_distributions_by_enumeration(case, seed):
    inputs, others = case.inputs(seed), case.inputs(seed + 1)
    p, q = case.make(*inputs), case.make(*others)
    best, marginals = p.topk(5), p.marginals
    slope = torch.autograd.grad(p.log_partition.sum(), inputs[0])[0]
    close(marginals.reshape(slope.shape), slope)
    for b in range(2):
        outputs = case.outputs(b)
        scores = torch.stack([case.score(inputs, b, one) for one in outputs])
        other = torch.stack([case.score(others, b, one) for one in outputs])
        log_p, log_q = torch.log_softmax(scores, 0), torch.log_softmax(other, 0)
        close(p.log_partition[b], torch.logsumexp(scores, 0))
        close(p.entropy[b], -(log_p.exp() * log_p).sum())
        close(p.kl(q)[b], (log_p.exp() * (log_p - log_q)).sum())
        values, order = log_p.sort(descending=True)
        wanted = min(5, len(outputs))
        close(best.log_probs[:wanted, b], values[:wanted])
        assert torch.equal(own(case, best.outputs, b)[:wanted], outputs[order[:wanted]])
        assert (best.log_probs[wanted:, b] == -torch.inf).all()
        assert torch.equal(own(case, p.argmax, b), outputs[order[0]])
        expected = torch.autograd.grad(torch.logsumexp(scores, 0), inputs, retain_graph=True)
        found = torch.autograd.grad(p.log_partition[b], inputs)
        for pair in zip(found, expected, strict=True):
            close(*pair)


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case).__name__)
def test_samples(case):
    p = case.make(*case.inputs(3))
    drawn = p.sample(4000, torch.Generator().manual_seed(0))
    for b in range(2):
        outputs = case.outputs(b)
        scores = torch.stack([case.score(case.inputs(3), b, one) for one in outputs]).detach()
        rows = own(case, drawn, b).reshape(4000, -1)
        found = torch.stack([(rows == one.reshape(-1)).all(1).double().mean() for one in outputs])
        torch.testing.assert_close(found, torch.softmax(scores, 0), rtol=0, atol=5 * 0.5 / 4000**0.5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case).__name__)
@pytest.mark.parametrize("loss", ["crf", "hinge", "latent_hinge", Temperature(0.5, 0.5)])
@pytest.mark.parametrize("seed", range(3))
def test_losses_by_enumeration(case, loss, seed):
    generator, inputs = torch.Generator().manual_seed(seed), case.inputs(seed)
    lists = [case.outputs(b) for b in range(2)]
    known = joined(case, [some[int(torch.randint(len(some), (), generator=generator))] for some in lists])
    if loss != "hinge":
        known = case.hide(known, generator)
    epsilon, margin = {"crf": (1, 0), "hinge": (0, 1), "latent_hinge": (0, 1)}.get(loss, (0.5, 1))
    losses = case.loss(inputs, loss, known, reduction="none")
    for b, outputs in enumerate(lists):
        mine = own(case, known, b)
        scores = torch.stack([case.score(inputs, b, one) for one in outputs])
        costs = torch.tensor([float(case.cost(mine, one)) for one in outputs], dtype=torch.float64)
        agreeing = torch.tensor([case.agrees(mine.masked_fill(mine == -100, -1), one) for one in outputs])
        expected = smax(scores + margin * costs, epsilon) - smax(scores[agreeing], epsilon)
        close(losses[b], expected)
        found = torch.autograd.grad(losses[b], inputs[0], retain_graph=True)[0]
        close(found, torch.autograd.grad(expected, inputs[0])[0])


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case).__name__)
def test_derivatives(case):
    inputs = case.inputs(11)
    known = case.hide(joined(case, [case.outputs(b)[1] for b in range(2)]), torch.Generator().manual_seed(1))
    assert gradcheck(lambda *some: case.make(*some).marginals, inputs)
    assert gradcheck(lambda *some: case.make(*some).entropy, inputs)
    assert gradcheck(lambda *some: case.make(*some).kl(case.make(*case.inputs(12))), inputs)
    assert gradcheck(lambda *some: case.make(*some).log_prob(known), inputs)
    assert gradgradcheck(lambda *some: case.make(*some).log_prob(known), inputs)
    for loss in ("crf", Temperature(0.5, 0.5)):
        assert gradcheck(lambda first: case.loss([first, *inputs[1:]], loss, known), inputs[:1])  # noqa: B023
        assert gradgradcheck(lambda first: case.loss([first, *inputs[1:]], loss, known), inputs[:1])  # noqa: B023
    slope = torch.autograd.grad(case.loss(inputs, "latent_hinge", known), inputs[0], create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="above 0"):
        slope.square().sum().backward()


def test_marginal_loss_of_graphs():
    """Unknown labels are summed out, known ones maximized."""
    case, inputs = CASES[2], CASES[2].inputs(5)
    known = torch.tensor([0, -1, 1, -1, -1, 1])
    losses = case.loss(inputs, "marginal", known, reduction="none")
    for b in range(2):
        groups, agreeing = {}, []
        for labels in case.outputs(b):
            score = case.score(inputs, b, labels)
            key = tuple(labels[v].item() for v in case.nodes[b] if known[v] >= 0)
            groups.setdefault(key, []).append(score)
            if case.agrees(own(case, known, b), labels):
                agreeing.append(score)
        truth = [known[v].item() for v in case.nodes[b] if known[v] >= 0]
        pooled = [
            torch.logsumexp(torch.stack(scores), 0) + sum(y != z for y, z in zip(key, truth, strict=True))
            for key, scores in groups.items()
        ]
        close(losses[b], torch.stack(pooled).max() - torch.logsumexp(torch.stack(agreeing), 0))


def test_wide_graphs_are_approximated():
    size = 24
    index = torch.arange(size * size).reshape(size, size)
    edges = torch.cat(
        [
            torch.stack([index[:-1].flatten(), index[1:].flatten()]),
            torch.stack([index[:, :-1].flatten(), index[:, 1:].flatten()]),
        ],
        dim=1,
    )
    nodes = torch.randn(size * size, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    module = GraphLoss(2)
    loss = module(nodes, edges, (nodes[:, 1] > 0).long())
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(nodes.grad).all()
    assert torch.equal(module.decode(nodes, edges), nodes.argmax(1))
    with raises("edges", got="too wide", hint="GraphLoss"):
        GraphDistribution(nodes, edges, module.pairwise)


def test_bad_input():
    scores = torch.zeros(1, 3, 3, 2)
    with raises("scores", expected="(B, T, T, S)"):
        TreeDistribution(torch.zeros(1, 3, 4, 2))
    with raises("scores", got="NaN"):
        _ = TreeDistribution(scores * torch.nan).log_partition
    with raises("lengths", got=4, expected="from 1 to 3"):
        TreeDistribution(scores, torch.tensor([4]))
    with raises("lengths", got=0):
        TreeDistribution(scores, torch.tensor([0]))
    crossing = torch.full((1, 3, 3), -1)
    crossing[0, 0, 1] = crossing[0, 1, 2] = 0
    with raises("spans[0]", got="crosses"):
        ParsingLoss()(scores, crossing)
    with raises("spans", got=2):
        ParsingLoss()(scores, torch.full((1, 3, 3), 2))
    with raises("spans", hint="latent_hinge"):
        ParsingLoss("hinge")(scores, torch.full((1, 3, 3), -1))
    with raises("scores", got="no output of example 0"):
        ParsingLoss()(scores, torch.full((1, 3, 3), -2))
    with raises("loss", got="marginal"):
        ParsingLoss("marginal")
    with raises("loss", expected="same"):
        ParsingLoss(Temperature(0.0, 1.0))
    with raises("margin"):
        AlignmentLoss(margin=-1.0)
    with raises("partners", got=3):
        AlignmentLoss()(torch.zeros(1, 2, 3), torch.tensor([[0, 3]]))
    with raises("partners", got=-3):
        AlignmentLoss()(torch.zeros(1, 2, 3), torch.tensor([[0, -3]]))
    with raises("scores", got="no output of example 0"):
        AlignmentLoss()(torch.zeros(1, 2, 3), torch.tensor([[1, 0]]))
    with raises("gap_open"):
        AlignmentDistribution(torch.zeros(1, 2, 3), torch.zeros(3), torch.tensor(0.0))
    nodes, edges = torch.zeros(3, 2), torch.tensor([[0, 1], [1, 2]])
    with raises("batch", expected="ascending"):
        GraphLoss(2)(nodes, edges, torch.zeros(3, dtype=torch.int64), batch=torch.tensor([0, 2, 2]))
    with raises("edges", got="different graphs"):
        GraphLoss(2)(nodes, edges, torch.zeros(3, dtype=torch.int64), batch=torch.tensor([0, 0, 1]))
    with raises("edges", got=3):
        GraphLoss(2)(nodes, torch.tensor([[0], [3]]), torch.zeros(3, dtype=torch.int64))
    with raises("labels", got=2):
        GraphLoss(2)(nodes, edges, torch.tensor([0, 1, 2]))
    with raises("pairwise", expected="(2, 2)"):
        GraphDistribution(nodes, edges, torch.zeros(3, 3))
    with raises("k", got=0):
        GraphDistribution(nodes, edges, torch.zeros(2, 2)).topk(0)
    with raises("other", expected="same outputs"):
        TreeDistribution(scores).kl(TreeDistribution(torch.zeros(1, 2, 2, 2)))
    half = torch.zeros(1, 3, 3, 2, dtype=torch.float16, requires_grad=True)
    loss = ParsingLoss()(half, torch.full((1, 3, 3), -1))
    loss.backward()
    assert (loss.dtype, half.grad.dtype) == (torch.float32, torch.float16)
    assert np.isfinite(loss.item())
