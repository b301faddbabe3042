"""Losses of bags, minibatches and programs."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.autograd import gradcheck, gradgradcheck

from error_fields import raises
from latentstruct import Measure, Temperature
from latentstruct.torch import LatentClassLoss, MeasureLoss, ProgramLoss


def smax(values, temperature):
    return values.max() if temperature == 0 else temperature * torch.logsumexp(values / temperature, 0)


@pytest.mark.parametrize("loss", ["crf", "latent_hinge", "marginal", Temperature(1.0, 0.0), Temperature(0.5, 2.0)])
def test_bags_of_instances(loss):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(7, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    bags, classes = torch.tensor([1, 0, 2, 1, 1, 0, 2]), torch.tensor([2, 0, 1])
    module = LatentClassLoss(loss)
    output, latent = module.temperature
    found = module(scores, bags, classes, reduction="none")
    for b in range(3):
        pooled = torch.stack([smax(scores[bags == b, c], latent) for c in range(3)])
        costs = module.margin * (torch.arange(3) != classes[b])
        torch.testing.assert_close(found[b], smax(pooled + costs, output) - pooled[classes[b]])
    assert gradcheck(lambda some: module(some, bags, classes), [scores])
    if output > 0 and latent > 0:
        assert gradgradcheck(lambda some: module(some, bags, classes), [scores])
    excluded = scores.detach().clone()
    excluded[1] = -torch.inf
    excluded.requires_grad_()
    module(excluded, bags, classes).backward()
    assert torch.isfinite(excluded.grad).all()


def test_bad_bags():
    module, scores, classes = LatentClassLoss(), torch.zeros(3, 2), torch.tensor([0, 1])
    with raises("bags", got="no instance of bag 1"):
        module(scores, torch.tensor([0, 0, 0]), classes)
    with raises("bags", got=2):
        module(scores, torch.tensor([0, 1, 2]), classes)
    with raises("classes", got=2):
        module(scores, torch.tensor([0, 1, 1]), torch.tensor([0, 2]))
    with raises("scores", got="NaN"):
        module(scores * torch.nan, torch.tensor([0, 1, 1]), classes)
    with raises("scores", got="no instance for the class"):
        module(torch.full((3, 2), -torch.inf), torch.tensor([0, 1, 1]), classes)
    with raises("loss", hint="latent_hinge"):
        LatentClassLoss("hinge")
    with raises("emissions", got="an empty batch"):
        module(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))


@pytest.mark.parametrize("measure", ["f1", "rocarea", "average_precision", "prbep", "error"])
def test_measures_equal_those_of_the_task(measure):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), rng.integers(2, size=30)
    task = Measure(loss=measure, bias=0.0)
    task.learn(X, y)
    batch, w = task.prepare(X, y), rng.normal(size=4)
    upper, lower = (task.planes(batch, w, mode, Temperature()).values[0] for mode in ("augmented", "clamped"))
    weights = torch.from_numpy(w).requires_grad_()
    module = MeasureLoss(measure)
    loss = module(torch.from_numpy(X) @ weights, torch.from_numpy(y))
    assert loss.item() == pytest.approx(upper - lower)
    assert gradcheck(lambda some: module(torch.from_numpy(X) @ some, torch.from_numpy(y)), [weights])
    slope = torch.autograd.grad(loss, weights, create_graph=True)[0]
    with pytest.raises(RuntimeError):
        slope.sum().backward()


def test_bad_minibatches():
    scores = torch.zeros(4)
    with raises("measure", got="accuracy"):
        MeasureLoss("accuracy")
    with raises("k", got=None):
        MeasureLoss("precision@k")
    with raises("targets", got="one class", hint="larger"):
        MeasureLoss()(scores, torch.ones(4, dtype=torch.bool))
    with raises("targets", got="other numbers"):
        MeasureLoss()(scores, torch.tensor([0, 1, 2, 0]))
    with raises("targets", expected="(4,)"):
        MeasureLoss()(scores, torch.tensor([0, 1]))
    with raises("scores", got="NaN"):
        MeasureLoss()(scores * torch.nan, torch.tensor([0, 1, 1, 0]))


OUTPUTS = np.array([[float(k in chosen) for k in range(5)] for chosen in combinations(range(5), 2)])


def two_highest(scores):
    return OUTPUTS[(OUTPUTS @ scores).argmax()]


def problem(seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    return scores, torch.from_numpy(OUTPUTS[[0, 4, 7]])


def test_sparsemap_by_another_solver():
    scores, targets = problem()
    losses = ProgramLoss(two_highest, tolerance=1e-10)(scores, targets, reduction="none")
    slopes = torch.autograd.grad(losses.sum(), scores)[0]
    for row, truth, loss, slope in zip(
        *(one.detach().numpy() for one in (scores, targets, losses, slopes)), strict=True
    ):

        def objective(shares, row=row):
            point = shares @ OUTPUTS
            return 0.5 * point @ point - row @ point

        simplex = {"type": "eq", "fun": lambda shares: shares.sum() - 1.0}
        start = np.full(len(OUTPUTS), 1.0 / len(OUTPUTS))
        found = minimize(objective, start, bounds=[(0, 1)] * len(start), constraints=simplex, tol=1e-12)
        assert loss == pytest.approx(-found.fun + objective(np.zeros(10)) - row @ truth + 0.5 * truth @ truth, abs=1e-6)
        np.testing.assert_allclose(slope + truth, found.x @ OUTPUTS, atol=1e-4)
    assert gradcheck(lambda some: ProgramLoss(two_highest, tolerance=1e-12)(some, targets), [scores], atol=1e-4)


def test_other_losses_of_programs():
    scores, targets = problem(1)
    spo = ProgramLoss(two_highest, "spo+")
    true_scores = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    losses = spo(scores, true_scores, reduction="none")
    for row, truth, loss in zip(*(one.detach().numpy() for one in (scores, true_scores, losses)), strict=True):
        regret = truth @ (two_highest(truth) - two_highest(row))
        assert loss >= regret - 1e-12
        assert loss == pytest.approx((OUTPUTS @ (2 * row - truth)).max() - (2 * row - truth) @ two_highest(truth))
    assert gradcheck(lambda some: spo(some, true_scores), [scores])
    assert spo(true_scores, true_scores).item() == 0.0

    perturbed = ProgramLoss(two_highest, "perturbed", sigma=0.5, n_samples=8)

    def fixed(some):
        return perturbed(some, targets, generator=torch.Generator().manual_seed(3))

    assert gradcheck(fixed, [scores])

    blackbox = ProgramLoss(two_highest, "blackbox", strength=20.0)
    wrong = torch.tensor([[3.0, 2.0, 1.0, 0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[0.0, 0.0, 0.0, 1.0, 1.0]], dtype=torch.float64)
    assert blackbox(wrong, target).item() == 2.0
    for _ in range(20):
        slope = torch.autograd.grad(blackbox(wrong, target), wrong)[0]
        wrong = (wrong - 2.0 * slope).detach().requires_grad_()
    assert torch.equal(blackbox.predict(wrong), target)


def test_bad_programs():
    scores, targets = problem()
    with raises("method", got="newton"):
        ProgramLoss(two_highest, "newton")
    with raises("program"):
        ProgramLoss(None)
    with raises("sigma", got=0.0):
        ProgramLoss(two_highest, sigma=0.0)
    with raises("n_samples", got=0):
        ProgramLoss(two_highest, n_samples=0)
    with raises("program", got="(1,)"):
        ProgramLoss(lambda scores: scores[:1])(scores, targets)
    with raises("targets", expected="(3, 5)"):
        ProgramLoss(two_highest)(scores, targets[:2])
    with raises("scores", got="NaN"):
        ProgramLoss(two_highest)(scores * torch.nan, targets)
