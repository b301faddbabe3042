"""Initial latents: the rules, what they refuse, and that training begins where they say."""

import numpy as np
import pytest

from error_fields import raises
from latentstruct import Chain, Coreference, LatentMulticlass, LatentSSVM, Motif
from latentstruct.core.objective import build_objective
from latentstruct.core.protocols import Temperature
from latentstruct.datasets import make_planted_motif
from latentstruct.solvers.starts import INITS, GivenPlanes, LatentStarts, OneStart

RNG = np.random.default_rng(0)
VIEWS, CLASSES = RNG.normal(size=(40, 5, 3)), np.arange(40) % 2
VIEWS[np.arange(40), RNG.integers(0, 5, 40)] += 3.0 * (2 * CLASSES[:, None] - 1)
LABELS = [RNG.integers(0, 3, 6) for _ in range(20)]
TOKENS = [np.eye(3)[y] + RNG.normal(size=(6, 3)) for y in LABELS]
HALF = [np.where(RNG.random(6) < 0.6, -1, y) for y in LABELS]
MOTIFS = make_planted_motif(15, 15, length=30, width=5, random_state=0)
PROBLEMS = {
    "views": (LatentMulticlass(), VIEWS, CLASSES),
    "mixture": (LatentMulticlass(2, weights="state"), VIEWS[:, 0], CLASSES),
    "chain": (Chain(), TOKENS, HALF),
    "motif": (Motif(5), MOTIFS.X, MOTIFS.Y),
}


def prepared(name):
    task, X, Y = PROBLEMS[name]
    task.learn(X, Y)
    return task, task.prepare(X, Y)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("init", INITS)
def test_initial_planes_are_below_the_clamped_side(name, init):
    task, batch = prepared(name)
    starts = LatentStarts(task, batch, init, weights=np.full(batch.n_examples, 0.3))
    objective = build_objective(task, batch, np.full(batch.n_examples, 0.3), Temperature())
    for attempt in range(2):
        planes = starts.planes(attempt)
        for w in np.random.default_rng(attempt).normal(size=(3, task.n_features)):
            assert (planes.dot(w) <= objective.minus.planes(w).values + 1e-9).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_marginal_latents_are_best_at_weights_that_lower_the_soft_objective(name):
    task, batch = prepared(name)
    weights = np.full(batch.n_examples, 0.3)
    starts = LatentStarts(task, batch, "marginal", weights=weights)
    w = starts._marginal_weights(task.initial_latents(batch, np.random.default_rng([0, 0]), 0))
    soft = build_objective(task, batch, weights, Temperature(1.0, 1.0))
    assert soft.value(w) < soft.value(np.zeros_like(w))
    hard = build_objective(task, batch, weights, Temperature())
    np.testing.assert_allclose(starts.planes(0).dot(w), hard.minus.planes(w).values, atol=1e-9)


def test_structures_without_soft_inference_refuse_marginal_starts():
    X, Y = [np.ones((3, 2))] * 4, [[0, 0, 1]] * 4
    with raises("init", got="marginal", expected="'task' or 'random' for Coreference"):
        LatentSSVM(Coreference(), init="marginal").fit(X, Y)


def test_latents_of_the_user_are_completed_once():
    completed = []

    class Watched(LatentMulticlass):
        def completion_planes(self, batch, latents):
            completed.append(list(latents))
            return super().completion_planes(batch, latents)

    LatentSSVM(Watched(), init="marginal", C=0.3).fit(VIEWS, CLASSES, H=[1] * 40)
    assert completed == [[1] * 40]


def test_one_start_stands_for_all():
    task, batch = prepared("views")
    starts = LatentStarts(task, batch, "random", seed=4)
    w = np.ones(task.n_features)
    for attempt in range(3):
        np.testing.assert_array_equal(OneStart(starts, 2).planes(attempt).dot(w), starts.planes(2).dot(w))
        assert GivenPlanes(starts.planes(1)).planes(attempt).dot(w) == pytest.approx(starts.planes(1).dot(w))
    assert starts.latents(0) != starts.latents(1)


def test_training_with_marginal_starts_depends_on_the_seed_only():
    fits = [LatentSSVM(LatentMulticlass(), C=0.3, init="marginal", restarts=2).fit(VIEWS, CLASSES) for _ in range(2)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert len(fits[0].restart_objectives_) == 2
