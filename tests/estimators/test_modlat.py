"""Losses that compare latents against enumeration; ModLat and iterative LSVM: gradients, descent, special cases."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from test_latent_multiclass import LABELS, MATRIX, list_states, state_data, task_of

import latentstruct.solvers.alternation as alternation_solver
import latentstruct.solvers.alternation as dissimilarity_solver
import reference
from error_fields import raises
from latentstruct import (
    CCCP,
    Bundle,
    CandidateTask,
    IterativeLSVM,
    LatentMulticlass,
    LatentSSVM,
    ModLat,
    Motif,
    Multiclass,
    SelfPaced,
    Temperature,
    load,
)
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.planes.store import PlaneStore
from latentstruct.solvers.dissimilarity import DissimilarityObjective, LatentModel

HARD = Temperature()
KINDS = ("views", "ragged", "own weights", "mixture")
LOSSES = (None, "zero_one", "matrix", "symmetric")
seeds = st.integers(0, 10**6)
cases = st.tuples(st.sampled_from(KINDS), st.sampled_from(LOSSES), seeds) | st.tuples(
    st.just("pairs"), st.none(), seeds
)


class Pairs(CandidateTask):
    """Candidates whose loss depends on all four of y, h, ŷ and ĥ, and is not symmetric."""

    def candidates(self, x):
        labels, states = np.divmod(np.arange(len(x)), 3)
        return labels.tolist(), [f"state {h}" for h in states], x

    def pair_loss(self, x, y, h, y_hat, h_hat):
        number = int(h[-1]) + 10 * int(h_hat[-1]) + 100 * y_hat
        return 0.0 if (y, h) == (y_hat, h_hat) else 1.0 + 0.1 * (number % 7)


class World:
    """One random problem with its enumeration: candidates, the loss of each pair, and the true states."""

    def __init__(self, kind, loss, seed, bias=1.5):
        self.rng = np.random.default_rng(seed)
        if kind == "pairs":
            self.X = [self.rng.normal(size=(3 * k, 4)) for k in (2, 3, 2, 1)]
            self.Y = [1, 0, 0, 0]
            self.task = Pairs()
            items = [[(c // 3, c % 3) for c in range(len(x))] for x in self.X]
            outputs = [np.array([y for y, _ in listed]) for listed in items]
            self.listed = [
                reference.Listed(x, np.zeros(len(x)), out, y, its)
                for x, out, y, its in zip(self.X, outputs, self.Y, items, strict=True)
            ]
            truth = self.Y
        else:
            _, self.X, truth = state_data(kind, seed, n=4)
            self.Y = [LABELS[y] for y in truth]
            K = np.triu(self.rng.random((4, 4)), 1) + np.tril(self.rng.random((4, 4)), -1)
            K = K[:3, :3] if kind == "mixture" else K
            K = K + K.T if loss == "symmetric" else K
            loss = "zero_one" if kind == "ragged" and loss is not None else loss
            self.K = {None: np.zeros((4, 4)), "zero_one": 1.0 - np.eye(4)}.get(loss, K)
            given_loss = K if loss in ("matrix", "symmetric") else loss
            costs = MATRIX
            self.task = task_of(kind, costs=costs, bias=bias, labels=LABELS, latent_loss=given_loss)
            self.listed = list_states(self.X, truth, costs, kind, bias)
        self.kind, self.truth = kind, list(truth)
        self.task.learn(self.X, self.Y)
        self.batch = self.task.prepare(self.X, self.Y)
        self.own = [np.flatnonzero(example.outputs == y) for example, y in zip(self.listed, self.truth, strict=True)]
        self.P, self.Q = (np.concatenate([self.rng.dirichlet(np.ones(len(own))) for own in self.own]) for _ in range(2))
        self.w, self.theta = (self.rng.normal(size=self.task.n_features) for _ in range(2))

    def split(self, flat):
        return np.split(flat, np.cumsum([len(own) for own in self.own])[:-1])

    def table(self, i):
        """Δ(y_i, h', y, h): a line for each true state, a column for each candidate."""
        items = self.listed[i].items
        return np.array([[self.delta(items[t], pair) for pair in items] for t in self.own[i]])

    def delta(self, true, found):
        (y, h), (y_hat, h_hat) = true, found
        if self.kind == "pairs":
            return self.task.pair_loss(None, y, f"state {h}", y_hat, f"state {h_hat}")
        return MATRIX[y, y_hat] if y != y_hat else self.K[h, h_hat]

    def distribution(self, theta):
        scores = [example.features[own] @ theta for example, own in zip(self.listed, self.own, strict=True)]
        return np.concatenate([reference.smax(s, 1.0)[1] for s in scores])

    def risks(self, w, P, beta):
        """ξ_i − β H_i of each example."""
        found = []
        for i, (example, own, p) in enumerate(zip(self.listed, self.own, self.split(P), strict=True)):
            scores, table = example.features @ w, self.table(i)
            found.append((scores + p @ table).max() - scores[own].max() - beta * p @ table[:, own] @ p)
        return np.array(found)

    def objective(self, weights=None, J=0.3, beta=0.2):
        weights = np.ones(len(self.X)) if weights is None else weights
        return DissimilarityObjective(LatentModel(self.task, self.batch), weights, J, beta)


@settings(max_examples=40, deadline=None)
@given(cases)
def test_losses_of_a_distribution_are_the_enumeration(case):
    world = World(*case)
    task, batch, P, w = world.task, world.batch, world.P, world.w
    expected = task.with_expected_loss(batch, P)
    diversity, by_P = task.diversity(batch, P)
    worst, worst_by_P = task.worst_losses(batch, w)(P)
    tables = [world.table(i) for i in range(len(world.X))]
    inside = [table[:, own] for table, own in zip(tables, world.own, strict=True)]
    parts = world.split(P)
    losses = np.concatenate([p @ table for p, table in zip(parts, tables, strict=True)])
    np.testing.assert_allclose(expected.losses, losses, atol=1e-12)
    np.testing.assert_allclose(diversity, [p @ K @ p for p, K in zip(parts, inside, strict=True)], atol=1e-12)
    derivatives = np.concatenate([(K + K.T) @ p for p, K in zip(parts, inside, strict=True)])
    np.testing.assert_allclose(by_P, derivatives, atol=1e-12)
    augmented = [e.features @ w + p @ table for e, p, table in zip(world.listed, parts, tables, strict=True)]
    np.testing.assert_allclose(worst, [a.max() for a in augmented], atol=1e-10)
    columns = [table[:, a.argmax()] for table, a in zip(tables, augmented, strict=True)]
    np.testing.assert_allclose(worst_by_P, np.concatenate(columns), atol=1e-12)
    rows = np.array([2, 0])
    planes = task.planes(expected, w, "augmented", HARD, rows)
    np.testing.assert_allclose(planes.values, worst[rows], atol=1e-10)
    np.testing.assert_allclose(planes.offsets + planes.dot(w), worst[rows], atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(cases)
def test_sites_scores_and_losses_of_known_latents_are_the_enumeration(case):
    world = World(*case)
    task, batch = world.task, world.batch
    sites = task.latent_sites(batch)
    assert sites.examples.tolist() == list(range(len(world.X)))
    assert np.diff(sites.offsets).tolist() == [len(own) for own in world.own]
    features = [example.features[own] for example, own in zip(world.listed, world.own, strict=True)]
    coefficients = world.rng.normal(size=len(world.P))
    np.testing.assert_allclose(task.latent_scores(batch, world.theta), np.concatenate(features) @ world.theta)
    pulled = np.concatenate(features).T @ coefficients
    np.testing.assert_allclose(task.latent_pull_back(batch, coefficients), pulled, atol=1e-12)
    true = [world.rng.choice(own) for own in world.own]
    found = [world.rng.integers(len(example.items)) for example in world.listed]
    pairs = [(e.items[a], e.items[b]) for e, a, b in zip(world.listed, true, found, strict=True)]
    # A predicted state must exist; those of the mixture and of the views are the same for all classes.
    name = (lambda h: f"state {h}") if world.kind == "pairs" else int
    label = int if world.kind == "pairs" else LABELS.__getitem__
    H_true, H_pred = ([name(pair[k][1]) for pair in pairs] for k in (0, 1))
    losses = task.latent_losses(batch, H_true, [label(pair[1][0]) for pair in pairs], H_pred)
    np.testing.assert_allclose(losses, [world.delta(*pair) for pair in pairs])
    point = world.split(task.point_distribution(batch, H_true))
    assert [int(p.argmax()) for p in point] == [
        int(np.flatnonzero(own == a)[0]) for own, a in zip(world.own, true, strict=True)
    ]
    assert all(p.sum() == p.max() == 1.0 for p in point)


@settings(max_examples=30, deadline=None)
@given(cases)
def test_objective_is_the_formula(case):
    world = World(*case)
    weights = world.rng.random(len(world.X)) + 0.5
    objective = world.objective(weights)
    w, theta = world.w, world.theta
    P = world.distribution(theta)
    np.testing.assert_allclose(objective.model.distribution(theta), P, atol=1e-12)
    expected = 0.5 * w @ w + 0.15 * theta @ theta + weights @ world.risks(w, P, 0.2)
    assert objective.value(w, theta) == pytest.approx(expected)
    assert objective.of_theta(w)(theta)[0] == pytest.approx(expected - 0.5 * w @ w)


@settings(max_examples=40, deadline=None)
@given(cases)
def test_gradient_of_theta_is_that_of_finite_differences(case):
    world = World(*case)
    augmented = []
    for i, (example, p) in enumerate(zip(world.listed, world.split(world.distribution(world.theta)), strict=True)):
        augmented.append(np.sort(example.features @ world.w + p @ world.table(i)))
    # Where two candidates are equally bad there is no gradient.
    assume(all(len(a) < 2 or a[-1] - a[-2] > 1e-3 for a in augmented))
    function = world.objective(world.rng.random(len(world.X)) + 0.5).of_theta(world.w)
    _, gradient = function(world.theta)
    direction = world.rng.normal(size=len(world.theta))
    step = 1e-5
    above, below = (function(world.theta + sign * step * direction)[0] for sign in (1, -1))
    assert (above - below) / (2 * step) == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-6)


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(KINDS), st.sampled_from(LOSSES[1:]), seeds, st.floats(-1e6, 1e6))
def test_a_constant_added_to_all_scores_does_not_stop_the_block_of_theta(kind, loss, seed, constant):
    world = World(kind, loss, seed)
    features = np.concatenate([example.features for example in world.listed])
    one = np.linalg.lstsq(features, np.ones(len(features)), rcond=None)[0]
    np.testing.assert_allclose(features @ one, 1.0)
    solver, objective = dissimilarity_solver.Dissimilarity(), world.objective(J=0.01)
    ends = []
    for w in (world.w, world.w + constant * one):
        value = objective.of_theta(w)(world.theta)[0] + 0.5 * w @ w
        at = dissimilarity_solver.Reached(w, solver._belief(objective, world.theta), value)
        ends.append(objective.of_theta(w)(solver._improve(objective, at, np.inf).belief.theta)[0])
    assert ends[1] == pytest.approx(ends[0], abs=2e-3)


def listed_with(world, P):
    """Return number, candidates and part of a distribution of each example."""
    return enumerate(zip(world.listed, world.split(P), strict=True))


@settings(max_examples=25, deadline=None)
@given(cases)
def test_planes_kept_for_another_distribution_are_bounds_and_tight(case):
    world = World(*case)
    task, batch, rng = world.task, world.batch, world.rng
    before, after = task.with_expected_loss(batch, world.P), task.with_expected_loss(batch, world.Q)
    every = np.arange(len(world.X))
    store = PlaneStore(task.planes(batch, world.w, "clamped", HARD), np.ones(len(every)))
    points = [rng.normal(size=task.n_features) for _ in range(6)]
    for w in points:
        store.append(every, task.planes(before, w, "augmented", HARD), np.zeros(task.n_features))
    store.change_offsets(task.plane_losses(after))
    kept = [set() for _ in every]
    for requested, mode in [(world.w, "clamped"), *((w, "augmented") for w in points)]:
        for i, (example, own) in enumerate(zip(world.listed, world.own, strict=True)):
            heights = example.features @ requested
            if mode == "augmented":
                heights += world.split(world.P)[i] @ world.table(i)
            kept[i].add(int(heights.argmax()) if mode == "augmented" else int(own[heights[own].argmax()]))
    for w in [*points, world.w]:
        heights = [e.features @ w + q @ world.table(i) for i, (e, q) in listed_with(world, world.Q)]
        expected = [h[sorted(candidates)].max() for h, candidates in zip(heights, kept, strict=True)]
        np.testing.assert_allclose(store.highest(w)[1], expected, atol=1e-9)
    fresh = PlaneStore(task.planes(after, world.w, "augmented", HARD), np.ones(len(every)))
    for w in points:
        store.append(every, task.planes(after, w, "augmented", HARD), np.zeros(task.n_features))
        fresh.append(every, task.planes(after, w, "augmented", HARD), np.zeros(task.n_features))
    for w in [*points, world.w]:
        true = task.planes(after, w, "augmented", HARD).values
        assert (store.highest(w)[1] <= true + 1e-9).all()
    np.testing.assert_allclose(store.highest(points[0])[1], fresh.highest(points[0])[1], atol=1e-9)


def planted(seed=0, n=60, n_states=5, clutter=1.0):
    """Inputs with one state that tells the class, beside one that looks alike in all classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_states, 4))
    y, h = rng.integers(0, 2, n), rng.integers(0, n_states, n)
    X[np.arange(n), h, :2] += 4.0 * np.array([[1.0, 0.5], [-0.5, -1.0]])[y]
    X[np.arange(n), (h + 1) % n_states, 2] += clutter
    return X, y, h


def comparing(loss="zero_one", **more):
    return LatentMulticlass(latent_loss=loss, bias=1.0, **more)


def objective_of(model, X, Y, weights=None, latent_features=None):
    """The objective of a fitted ModLat, computed afresh."""
    batch = model.task_.prepare(X, Y)
    weights = model.C * (np.ones(batch.n_examples) if weights is None else np.asarray(weights))
    latent = ModLat._model(model.task_, batch, latent_features)
    return DissimilarityObjective(latent, weights, model.J, model.beta).value(model.coef_, model.theta_)


@pytest.mark.parametrize("kind", ["views", "mixture", "pairs"])
@pytest.mark.parametrize("C", [0.05, 2.0])
def test_a_loss_that_ignores_latents_gives_the_latent_svm(kind, C):
    X, y, _ = planted()
    if kind == "pairs":

        class Plain(CandidateTask):
            def candidates(self, x):
                features = np.zeros((10, 8))
                features[:5, :4], features[5:, 4:] = x, x
                return [0] * 5 + [1] * 5, list(range(5)) * 2, features

        first, second = Plain(), Plain()
    elif kind == "mixture":
        X = X[:, 0]
        first, second = (LatentMulticlass(n_states=3, weights="state") for _ in range(2))
    else:
        first, second = LatentMulticlass(bias=1.0), comparing(None)
    plain = LatentSSVM(first, C=C, tol=1e-3).fit(X, y)
    both = ModLat(second, C=C).fit(X, y)
    np.testing.assert_array_equal(both.coef_, plain.coef_)
    assert both.objective_ == pytest.approx(plain.objective_, rel=1e-12)
    assert not both.theta_.any()
    assert list(both.predict(X)) == list(plain.predict(X))
    assert np.allclose(np.concatenate(both.latent_distribution(X, y)), 1 / (3 if kind == "mixture" else 5))


@settings(max_examples=20, deadline=None)
@given(cases)
def test_certain_distributions_give_the_objective_of_iterative_lsvm(case):
    world = World(*case)
    chosen = [world.rng.integers(len(own)) for own in world.own]
    marks = [np.eye(len(own))[:, [k]] for own, k in zip(world.own, chosen, strict=True)]
    model = ModLat._model(world.task, world.batch, marks)
    objective = DissimilarityObjective(model, np.ones(len(world.X)), 0.3, 0.2)
    theta = np.array([800.0])
    latents = [world.listed[i].items[own[k]][1] for i, (own, k) in enumerate(zip(world.own, chosen, strict=True))]
    latents = [f"state {h}" for h in latents] if world.kind == "pairs" else latents
    P = world.task.point_distribution(world.batch, latents)
    np.testing.assert_array_equal(objective.model.distribution(theta), P)
    imputed = objective.given(P).value(world.w)
    assert objective.value(world.w, theta) - 0.15 * 800.0**2 == pytest.approx(imputed, abs=1e-8)
    assert imputed == pytest.approx(0.5 * world.w @ world.w + world.risks(world.w, P, 0.0).sum())


@pytest.mark.parametrize("inner", ["cccp", "convex"])
def test_iterative_lsvm_reports_the_objective_of_the_latents_it_imputed(inner):
    X, y, h = planted()
    model = IterativeLSVM(comparing(), C=0.5, inner=inner).fit(X, y, H=h)
    assert model.stop_reason_ == "converged"
    batch = model.task_.prepare(X, y)
    P = model.task_.point_distribution(batch, model.complete(X, y))
    objective = DissimilarityObjective(LatentModel(model.task_, batch), np.full(len(y), 0.5))
    assert model.objective_ == pytest.approx(objective.given(P).value(model.coef_))
    np.testing.assert_array_equal(objective.model.imputed(model.coef_), P)


@pytest.mark.parametrize(
    ("latent_solver", "solver", "C"),
    [
        ("lbfgs", None, 0.1),
        ("lbfgs", None, 1.0),
        ("subgradient", None, 0.1),
        ("subgradient", None, 1.0),
        ("lbfgs", SelfPaced(growth=2.0), 0.1),
        ("lbfgs", CCCP(Bundle()), 0.1),
    ],
)
def test_the_objective_never_rises_over_blocks(monkeypatch, latent_solver, solver, C):
    X, y, _ = planted(seed=3, n=30)
    values = []
    offer = alternation_solver._Run._offer

    def watched(run, at):
        values.append(at.value)
        offer(run, at)

    monkeypatch.setattr(alternation_solver._Run, "_offer", watched)
    model = ModLat(comparing(), C=C, latent_solver=latent_solver, solver=solver).fit(X, y)
    assert len(values) >= 4
    assert (np.diff(values) <= 1e-9 * np.abs(values[0])).all()
    assert model.objective_ == pytest.approx(values[-1])
    assert model.objective_ == pytest.approx(objective_of(model, X, y))
    assert [line.objective for line in model.history_] == sorted((r.objective for r in model.history_), reverse=True)
    assert model.theta_.any()


def test_one_more_round_hardly_improves_what_training_ended_with():
    X, y, _ = planted(seed=1)
    model = ModLat(comparing(), C=0.5).fit(X, y)
    again = ModLat(comparing(), C=0.5, warm_start=True).fit(X, y)
    first = again.objective_
    again.fit(X, y, callback=lambda line: not line.estimate)
    assert len(again.history_) == 1
    assert first == model.objective_
    assert first - 2e-3 * 0.5 * len(y) <= again.objective_ <= first + 1e-9


def test_a_planted_latent_is_found():
    X, y, h = planted()
    new, new_y, new_h = planted(seed=7, n=80)
    modelled, imputed = (make(comparing(), C=0.1, restarts=3) for make in (ModLat, IterativeLSVM))
    for model in (modelled, imputed):
        model.fit(X, y)
        assert model.score(new, new_y) > 0.9
        assert np.mean(np.array(model.predict_latent(new)) == new_h) > 0.5
        assert len(model.restart_objectives_) == 3
        assert model.objective_ == min(model.restart_objectives_)
    believed = [p.argmax() for p in modelled.latent_distribution(X, y)]
    assert np.mean(np.array(believed) == h) > 0.9
    assert np.mean(np.array(modelled.predict_latent(new)) == new_h) > 0.9


@pytest.mark.parametrize("make", [ModLat, IterativeLSVM, partial(IterativeLSVM, inner="convex")])
def test_first_latents_that_are_all_alike_are_left(make):
    # With a loss by distance, w would learn to choose the middle, and the belief would stay there.
    X, y, h = planted(n=80)
    distance = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) / 4.0
    model = make(comparing(distance), C=0.1).fit(X, y, H=[2] * 80)
    # How many are right depends on the minimum that is found; a fifth would be by chance.
    assert np.mean(np.array(model.predict_latent(X)) == h) > 0.5


def test_sample_weights_count_examples():
    X, y, _ = planted(n=30)
    weights = np.arange(30) % 3
    model = ModLat(comparing(), C=0.5).fit(X, y, sample_weight=weights)
    repeated = np.repeat(np.arange(30), weights)
    assert model.objective_ == pytest.approx(objective_of(model, X, y, weights))
    assert model.objective_ == pytest.approx(objective_of(model, X[repeated], y[repeated]))
    other = np.where(weights[:, None, None] == 0, 100.0 - X, X)
    np.testing.assert_array_equal(
        ModLat(comparing(), C=0.1).fit(other, y, sample_weight=weights, H=np.zeros(30, dtype=int)).coef_,
        ModLat(comparing(), C=0.1).fit(X, y, sample_weight=weights, H=np.zeros(30, dtype=int)).coef_,
    )


def test_features_of_their_own_for_the_distribution():
    X, y, h = planted()
    hints = [np.stack([np.arange(5) == state, np.ones(5)], axis=1) for state in h]
    model = ModLat(comparing(), C=1.0).fit(X, y, latent_features=hints)
    assert model.theta_.shape == (2,)
    assert model.objective_ == pytest.approx(objective_of(model, X, y, latent_features=hints))
    found = model.latent_distribution(X, y, hints)
    assert np.mean([p.argmax() == state for p, state in zip(found, h, strict=True)]) > 0.9
    assert all(p.shape == (5,) and p.sum() == pytest.approx(1.0) for p in found)
    with raises("latent_features", expected="those of training, with 2 features"):
        model.latent_distribution(X, y)
    again = ModLat(comparing(), C=1.0, latent_solver="subgradient").fit(X, y, latent_features=hints)
    assert again.theta_.shape == (2,)


def test_ragged_states_have_distributions_of_their_own_length():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(k, 3)) for k in rng.integers(1, 6, 20)]
    y = np.arange(20) % 2
    model = ModLat(comparing(), C=0.5).fit(X, y)
    assert [len(p) for p in model.latent_distribution(X, y)] == [len(x) for x in X]


def test_models_come_back_from_disk(tmp_path):
    X, y, h = planted(n=30)
    matrix = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    for model in (ModLat(comparing(matrix), C=1.0), IterativeLSVM(comparing(), C=1.0, inner="convex")):
        path = tmp_path / type(model).__name__
        model.fit(X, y, H=h).save(path)
        back = load(path)
        np.testing.assert_array_equal(back.coef_, model.coef_)
        assert list(back.predict(X)) == list(model.predict(X))
        if isinstance(model, ModLat):
            np.testing.assert_array_equal(back.theta_, model.theta_)
            for p, q in zip(back.latent_distribution(X, y), model.latent_distribution(X, y), strict=True):
                np.testing.assert_array_equal(p, q)


@pytest.mark.parametrize("make", [ModLat, IterativeLSVM])
@pytest.mark.parametrize("ending", ["callback", "interrupted", "max_seconds", "max_iter"])
def test_training_that_is_stopped_keeps_the_best_so_far(make, ending):
    X, y, _ = planted()

    def callback(line):
        if ending == "interrupted" and not line.estimate:
            raise KeyboardInterrupt
        return ending == "callback" and not line.estimate

    limits = {"max_seconds": {"max_seconds": 1e-9}, "max_iter": {"max_iter": 1}}.get(ending, {})
    model = make(comparing(), C=1.0, **limits)
    if ending == "callback":
        model.fit(X, y, callback=callback)
    else:
        with pytest.warns(ConvergenceWarning, match="training stopped early"):
            model.fit(X, y, callback=callback)
    assert model.stop_reason_ == ending
    assert len(model.history_) == model.n_iter_ == 1
    assert np.isfinite(model.objective_)
    if make is ModLat:
        assert model.objective_ == pytest.approx(objective_of(model, X, y))


def test_an_interrupt_inside_either_block_keeps_what_was_reached(monkeypatch):
    X, y, _ = planted()
    for name in ("worst_losses", "with_expected_loss"):
        calls, original = [], getattr(LatentMulticlass, name)

        def interrupting(task, *given, calls=calls, original=original):
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return original(task, *given)

        monkeypatch.setattr(LatentMulticlass, name, interrupting)
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            model = ModLat(comparing(), C=1.0).fit(X, y)
        monkeypatch.setattr(LatentMulticlass, name, original)
        assert model.stop_reason_ == "interrupted"
        assert model.objective_ == pytest.approx(objective_of(model, X, y))


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (ModLat(comparing(), C=1.0), "diversity"),
        (IterativeLSVM(comparing(), C=1.0), "point_distribution"),
    ],
)
@pytest.mark.parametrize("at", [0, 1])
def test_an_interrupt_before_a_start_has_begun_keeps_the_starts_before(monkeypatch, model, method, at):
    X, y, _ = planted()
    begin, original, armed = alternation_solver._Run._begun, getattr(LatentMulticlass, method), []
    attempts = []

    def begun(run):
        attempts.append(run.start)
        if len(attempts) == at + 1:
            armed.append(1)
        return begin(run)

    def interrupting(task, *given):
        if armed:
            armed.pop()
            raise KeyboardInterrupt
        return original(task, *given)

    alone = clone(model).fit(X, y)
    monkeypatch.setattr(alternation_solver._Run, "_begun", begun)
    monkeypatch.setattr(LatentMulticlass, method, interrupting)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = clone(model).set_params(restarts=3).fit(X, y)
    monkeypatch.undo()
    assert model.stop_reason_ == "interrupted"
    assert model.restart_objectives_ == [model.objective_]
    if at:
        assert model.objective_ == alone.objective_
        np.testing.assert_array_equal(model.coef_, alone.coef_)
    else:
        assert not model.coef_.any()
        assert np.isfinite(model.objective_)
    if isinstance(model, ModLat):
        assert model.objective_ == pytest.approx(objective_of(model, X, y))


@pytest.mark.parametrize("make", [ModLat, IterativeLSVM])
def test_the_reason_is_that_of_the_best_start(monkeypatch, make):
    X, y, _ = planted(n=30)
    starts, original = [], alternation_solver._Run._found

    def remembered(run, reason):
        starts.append(replace(original(run, reason), reason=f"reason {run.start}"))
        return starts[-1]

    monkeypatch.setattr(alternation_solver._Run, "_found", remembered)
    for seed in range(30):
        starts.clear()
        model = make(comparing(), C=0.3, restarts=3, random_state=seed).fit(X, y)
        values = [start.objective for start in starts]
        best = starts[int(np.argmin(values))]
        assert model.restart_objectives_ == values
        assert (model.objective_, model.n_iter_, model.stop_reason_) == (best.objective, best.n_iter, best.reason)
        if best is not starts[-1]:
            return
    pytest.fail("the last start was always the best one")


@pytest.mark.parametrize(
    ("model", "solver"),
    [
        (ModLat(comparing(), C=0.5), CCCP(Bundle())),
        (ModLat(comparing(), C=0.5), SelfPaced(CCCP(Bundle()))),
        (ModLat(comparing(), C=0.5, solver=CCCP(Bundle())), None),
        (IterativeLSVM(comparing(), C=0.5), CCCP(Bundle())),
        (IterativeLSVM(comparing(), C=0.5, inner="convex"), Bundle()),
    ],
)
def test_a_warm_start_may_have_another_solver(model, solver):
    X, y, _ = planted(n=30)
    model = clone(model).set_params(warm_start=True).fit(X, y)
    before = model.objective_
    model.set_params(solver=solver).fit(X, y)
    assert model.objective_ <= before + 1e-9


@pytest.mark.parametrize("make", [ModLat, IterativeLSVM, partial(IterativeLSVM, inner="convex")])
def test_a_callback_stops_training_whenever_it_asks(make):
    X, y, _ = planted(n=30)
    lines = []
    make(comparing(), C=0.5, restarts=2).fit(X, y, callback=lines.append)
    # In the last iteration of a search for w, which then ends by itself.
    for at in [k for k, line in enumerate(lines[1:]) if lines[k].estimate and not line.estimate]:
        seen = []

        def stop(line, seen=seen, at=at):
            seen.append(line)
            return len(seen) == at + 1

        model = make(comparing(), C=0.5, restarts=2).fit(X, y, callback=stop)
        assert model.stop_reason_ == "callback"


@pytest.mark.parametrize("model", [ModLat(comparing(), C=0.5), IterativeLSVM(comparing(), C=0.5, inner="convex")])
def test_lines_are_consistent(model):
    X, y, h = planted(n=30)
    lines = []
    clone(model).set_params(restarts=2).fit(X, y, H=h, callback=lines.append)
    assert any(line.estimate for line in lines)
    assert any(line.iteration > 1 for line in lines)
    for line in lines:
        assert line.gap == pytest.approx(line.objective - line.lower_bound, abs=1e-9)
        assert line.gap >= 0.0
    assert (np.diff([line.oracle_calls for line in lines]) >= 0).all()


def test_the_stochastic_subgradient_prepares_each_example_once(monkeypatch):
    X, y, _ = planted(seed=3, n=30)
    sizes, original = [], LatentMulticlass.prepare

    def counting(task, X, Y=None):
        sizes.append(len(X))
        return original(task, X, Y)

    monkeypatch.setattr(LatentMulticlass, "prepare", counting)
    model = ModLat(comparing(), C=1.0, latent_solver="subgradient").fit(X, y)
    assert model.n_iter_ > 1
    assert sizes == [30] + 30 * [1]


@pytest.mark.parametrize(
    ("loss", "products"), [("zero_one", 1), (1.0 - np.eye(5), 1), (np.triu(np.ones((5, 5)), 1), 2)]
)
def test_symmetric_losses_need_one_product(monkeypatch, loss, products):
    X, y, _ = planted(n=10)
    task = comparing(loss)
    task.learn(X, y)
    batch, requested, original = task.prepare(X, y), [], LatentMulticlass._latent_products

    def counting(*given, **more):
        requested.append(1)
        return original(*given, **more)

    monkeypatch.setattr(LatentMulticlass, "_latent_products", counting)
    task.diversity(batch, np.full(50, 0.2))
    assert len(requested) == products


def test_predictions_of_a_pruned_model_have_states_of_the_predicted_class():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4, 3, 2)), [0, 0, 1, 1]
    task = LatentMulticlass(weights="state", latent_loss="zero_one", states=[[1, 1, -1], [1, 1, 1]])
    task.learn(X, y)
    batch = task.prepare(X, y)
    np.testing.assert_array_equal(task.latent_losses(batch, [0, 1, 2, 2], [1, 0, 1, 1], [2, 0, 2, 1]), [1, 1, 0, 1])
    with raises("latents[2]", expected="a state that class 0 has, see `vector_of_`"):
        task.latent_losses(batch, [0, 1, 2, 2], [1, 0, 0, 1], [2, 0, 2, 1])
    with raises("latents[1]", expected="a state that class 0 has, see `vector_of_`"):
        task.latent_losses(batch, [0, 2, 2, 2], [1, 1, 1, 1], [2, 2, 2, 1])


def test_starts_can_be_given():
    X, y, h = planted()
    known = LatentSSVM(comparing(), C=1.0).fit(X, y, H=h).coef_
    for make in (ModLat, IterativeLSVM):
        at_truth = make(comparing(), C=1.0).fit(X, y, H=h)
        at_weights = make(comparing(), C=1.0).fit(X, y, coef_init=known)
        for model in (at_truth, at_weights):
            assert np.mean(np.array(model.predict_latent(X)) == h) > 0.9
    lines = []
    ModLat(comparing(), C=1.0, verbose=False).fit(X, y, callback=lines.append)
    assert any(line.estimate for line in lines)
    assert not lines[-1].estimate


SQUARE = np.ones((5, 5)) - np.eye(5)


@pytest.mark.parametrize(
    ("make", "parameter", "got", "expected"),
    [
        (lambda: ModLat(comparing(), J=0.0), "J", "0.0", "a finite number above 0"),
        (lambda: ModLat(comparing(), J=float("inf")), "J", "inf", "a finite number above 0"),
        (lambda: ModLat(comparing(), J="much"), "J", "'much'", "a finite number above 0"),
        (lambda: ModLat(comparing(), beta=0.0), "beta", "0.0", "a number above 0 and below 1"),
        (lambda: ModLat(comparing(), beta=1.0), "beta", "1.0", "a number above 0 and below 1"),
        (lambda: ModLat(comparing(), latent_solver="newton"), "latent_solver", "", "'lbfgs' or 'subgradient'"),
        (lambda: ModLat(comparing(), solver=Bundle()), "solver", "", "a CCCP solver"),
        (lambda: ModLat(comparing(), solver="auto"), "solver", "", "a CCCP solver"),
        (lambda: ModLat(comparing(), restarts=0), "restarts", "", "an integer of at least 1"),
        (lambda: ModLat(comparing(), tol=0.0), "tol", "", "a number above 0"),
        (lambda: IterativeLSVM(comparing(), inner="exact"), "inner", "'exact'", "'cccp' or 'convex'"),
        (lambda: IterativeLSVM(comparing(), inner="convex", solver=CCCP()), "solver", "", "a convex solver"),
        (lambda: IterativeLSVM(comparing(), inner="convex", solver=Bundle), "solver", "", "a convex solver"),
        (lambda: IterativeLSVM(comparing(), solver=Bundle()), "solver", "", "a CCCP solver"),
        (lambda: ModLat(comparing("overlap")), "latent_loss", "", "None, 'zero_one' or a matrix (H, H) of"),
        (lambda: ModLat(comparing(np.zeros((5, 4)))), "latent_loss", "", "None, 'zero_one' or a matrix"),
        (lambda: ModLat(comparing([["a"]])), "latent_loss", "", "None, 'zero_one' or a matrix (H, H) of"),
        (lambda: ModLat(comparing(SQUARE + np.eye(5))), "latent_loss", "", "finite and non-negative with zeros"),
        (lambda: ModLat(comparing(-SQUARE)), "latent_loss", "", "finite and non-negative with zeros on the"),
        (lambda: ModLat(comparing(SQUARE * np.nan)), "latent_loss", "", "finite and non-negative with zeros on the"),
        (lambda: ModLat(comparing(SQUARE[:4, :4])), "X[0]", "", "4 rows, one per row of `latent_loss`"),
        (lambda: ModLat(Multiclass()), "task", "", "one with latent variables"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(make, parameter, got, expected):
    X, y, _ = planted(n=10)
    model = make()
    with raises(parameter, got=got, expected=expected):
        model.fit(X[:, 0] if isinstance(model.task, Multiclass) else X, y)


@pytest.mark.parametrize("make", [ModLat, IterativeLSVM])
def test_tasks_without_a_loss_on_latents_are_refused(make):
    with raises("task", got="Motif", expected="one whose loss compares latents", hint="LatentSSVM"):
        make(Motif(width=3)).fit(["ACGTACGT", "TTGACCAA"], [1, -1])


@pytest.mark.parametrize(
    ("features", "parameter", "got"),
    [
        ([np.ones((5, 2))] * 9, "latent_features", "9"),
        (3.0, "latent_features", "3.0"),
        ([np.ones((5, 2))] * 9 + [np.ones((4, 2))], "latent_features[9]", "shape (4, 2)"),
        ([np.ones((5, 2))] * 9 + [np.ones((5, 3))], "latent_features[9]", "shape (5, 3)"),
    ],
)
def test_latent_features_that_do_not_fit_are_refused(features, parameter, got):
    X, y, _ = planted(n=10)
    with raises(parameter, got=got):
        ModLat(comparing(), C=1.0).fit(X, y, latent_features=features)


def test_latent_features_that_are_not_finite_are_refused():
    X, y, _ = planted(n=10)
    with raises("latent_features[0]", got="nan at row 0, column 0", expected="finite"):
        ModLat(comparing(), C=1.0).fit(X, y, latent_features=[np.full((5, 2), np.nan)] * 10)


def test_pair_losses_that_make_no_sense_are_refused():
    X, Y = [np.ones((6, 2))] * 2, [0, 1]
    for wrong, parameter, expected in (
        (
            lambda *pair: -1.0,
            "pair_loss of example 0 for the output 0 with the latent 'state 0' against 0 with 'state 0'",
            "",
        ),
        (lambda *pair: 1.0, "pair_loss of example 0", "0 for equal pairs such as the output 0 with"),
    ):
        task = type("Wrong", (Pairs,), {"pair_loss": lambda self, *pair, wrong=wrong: wrong(*pair)})()
        with raises(parameter, expected=expected):
            ModLat(task).fit(X, Y)


def test_questions_that_need_outputs_or_latents_say_so():
    X, y, h = planted(n=10)
    model = ModLat(comparing(), C=1.0).fit(X, y)
    batch = model.task_.prepare(X, y)
    with raises("y", got=None):
        model.latent_distribution(X, None)
    with raises("mode", hint="Prepare the batch with `Y`"):
        model.task_.latent_sites(model.task_.prepare(X))
    with raises("latents[0]", got="5", expected="a state from 0 to 4"):
        model.task_.point_distribution(batch, [5] * 10)
    with raises("Y_pred", got="9 items", expected="a sequence of 10 items"):
        model.task_.latent_losses(batch, h, y[:9], h)
    pairs = Pairs()
    pairs.learn(X := [np.ones((6, 2))] * 2, [0, 1])
    with raises("H_pred", got="1 items", expected="a sequence of 2 items"):
        pairs.latent_losses(pairs.prepare(X, [0, 1]), ["state 0"] * 2, [0, 1], ["state 0"])
    with raises("split"):
        dissimilarity_solver.Dissimilarity(latent_solver="subgradient").minimize(
            DissimilarityObjective(LatentModel(model.task_, batch), np.ones(10))
        )
