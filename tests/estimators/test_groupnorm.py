"""Group norms, and the solvers that train with them."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize

from error_fields import raises
from latentstruct import (
    CCCP,
    BlockAscent,
    ConvergenceWarning,
    HiddenCRF,
    LatentMulticlass,
    LatentSSVM,
    Multiclass,
    SelfPaced,
    StructuredEstimator,
    Subgradient,
    Temperature,
    build_objective,
)
from latentstruct.core.regularizers import L2, GroupNorm
from latentstruct.planes.plane import Plane
from latentstruct.solvers.base import initial_weights
from latentstruct.solvers.plane_model import PlaneModel, project_to_simplex
from latentstruct.solvers.proximal import Proximal
from latentstruct.solvers.starts import LatentStarts
from latentstruct.solvers.stochastic import AlternatingSubgradient
from latentstruct.tasks.base import BaseTask
from latentstruct.testing import check_solver

HARD, SOFT = Temperature(), Temperature(1.0, 1.0)
seeds = st.integers(0, 10_000)


class Weights(BaseTask):
    """What a norm needs to know of a task: the number of weights."""

    def __init__(self, n_features):
        self.n_features = n_features


def random_norm(rng, d=7):
    groups = rng.integers(-1, 3, d)
    weights = rng.random(max(int(groups.max()) + 1, 0)) * 2.0
    return GroupNorm(groups, weights).bind(Weights(d))


def classes(rng, n=30, d=4, n_classes=3):
    X, y = rng.normal(size=(n, d)), rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    X[:, 0] += y
    return X, y


def convex(rng, temperature=HARD, margin=True, C=0.3, regularizer=None):
    """Multiclass with one group for each input."""
    X, y = classes(rng)
    task = Multiclass()
    task.learn(X, y)
    groups = np.arange(task.n_features) // 3
    norm = GroupNorm(groups) if regularizer is None else regularizer
    return build_objective(task, task.prepare(X, y), np.full(len(y), C), temperature, margin, regularizer=norm)


def views(rng, n=40, n_states=4, d=3):
    """Examples one of whose states tells the class."""
    X, y = rng.normal(size=(n, n_states, d)), np.arange(n) % 2
    X[np.arange(n), rng.integers(0, 2, n)] += 2.0 * (2 * y[:, None] - 1)
    return X, y


def latent(rng, temperature=HARD, C=0.3):
    X, y = views(rng)
    task = LatentMulticlass(weights="state", bias=1.0)
    task.learn(X, y)
    batch = task.prepare(X, y)
    objective = build_objective(task, batch, np.full(len(y), C), temperature, regularizer=GroupNorm())
    return replace(objective, starts=LatentStarts(task, batch, "random", seed=0))


class TestGroupNorm:
    @given(seeds, st.floats(0.01, 3.0))
    @settings(max_examples=25, deadline=None)
    def test_prox_minimises(self, seed, step):
        rng = np.random.default_rng(seed)
        norm, w = random_norm(rng), rng.normal(size=7)
        v = norm.prox(w, step)

        def value(u):
            return 0.5 * float((u - w) @ (u - w)) + step * norm.value(u)

        found = minimize(value, w, method="Powell", options={"xtol": 1e-9, "ftol": 1e-12})
        assert value(v) <= found.fun + 1e-9
        for _ in range(20):
            assert value(v) <= value(v + 0.1 * rng.normal(size=7)) + 1e-12

    @given(seeds)
    @settings(max_examples=25, deadline=None)
    def test_gradient(self, seed):
        rng = np.random.default_rng(seed)
        norm, w = random_norm(rng), rng.normal(size=7)
        assert np.allclose(norm.gradient(w), approx_fprime(w, norm.value, 1e-7), atol=1e-5)
        assert not norm.gradient(np.zeros(7)).any()

    @given(seeds)
    @settings(max_examples=25, deadline=None)
    def test_gradient_supports(self, seed):
        rng = np.random.default_rng(seed)
        norm, w, v = random_norm(rng), rng.normal(size=7), rng.normal(size=7)
        w[norm.index_ == 0] = 0.0
        assert norm.value(v) >= norm.value(w) + norm.gradient(w) @ (v - w) - 1e-12

    @pytest.mark.parametrize("kind", ["L2", "GroupNorm"])
    @given(seed=seeds)
    @settings(max_examples=25, deadline=None)
    def test_lower_bound(self, kind, seed):
        rng = np.random.default_rng(seed)
        norm = L2() if kind == "L2" else random_norm(rng)
        slope, offset = rng.normal(size=7), rng.normal() + 1.0
        bound = norm.lower_bound(slope, offset)
        for scale in (0.0, 0.1, 1.0, 10.0):
            w = scale * rng.normal(size=7)
            assert bound <= norm.value(w) + max(0.0, offset + slope @ w) + 1e-12

    def test_lower_bound_is_tight_for_a_plane_that_the_norm_outweighs(self):
        norm = GroupNorm([0, 0, 1]).bind(Weights(3))
        assert norm.lower_bound(np.array([0.6, 0.8, -1.0]), 2.0) == pytest.approx(2.0)
        assert norm.lower_bound(np.array([1.2, 1.6, 0.0]), 2.0) == pytest.approx(1.0)

    def test_groups_in_all_forms(self):
        w = np.arange(6.0)
        as_array = GroupNorm([0, 0, 1, -1, 1, -1], [1.0, 2.0]).bind(Weights(6))
        as_lists = GroupNorm([[0, 1], np.array([2, 4])], np.array([1.0, 2.0])).bind(Weights(6))
        assert np.array_equal(as_array.index_, as_lists.index_)
        assert as_lists.norms(w) == pytest.approx([1.0, np.sqrt(20.0)])
        assert as_lists.value(w) == pytest.approx(1.0 + 2.0 * np.sqrt(20.0))
        assert as_lists.n_groups == 2

    def test_names_follow_the_states(self):
        rng = np.random.default_rng(0)
        X, y = views(rng)
        task = LatentMulticlass(weights="state", bias=1.0)
        task.learn(X, y)
        w = rng.normal(size=task.n_features)
        vectors = w.reshape(-1, 2, 4)
        each, shared = (GroupNorm(name).bind(task) for name in ("states", "shared_states"))
        assert each.norms(w) == pytest.approx(np.sqrt((vectors**2).sum(axis=0)).ravel())
        assert shared.norms(w) == pytest.approx(np.sqrt((vectors**2).sum(axis=(0, 1))))

    @pytest.mark.parametrize(
        ("norm", "parameter", "got"),
        [
            (GroupNorm([[0, 1], [1, 2]]), "groups", "weight 1 in groups 0 and 1"),
            (GroupNorm([[0, 1, 1]]), "groups", "weight 1 in groups 0 and 0"),
            (GroupNorm([[0, 9]]), "groups[0]", "9"),
            (GroupNorm([0, 1]), "groups", "shape (2,)"),
            (GroupNorm([0, 1, 1, 0, -2]), "groups", "-2"),
            (GroupNorm([0, 1, 1, 0, 0.5]), "groups", "0.5"),
            (GroupNorm([0, 1, 1, 0, np.nan]), "groups", "nan"),
            (GroupNorm("angles"), "groups", "'angles'"),
            (GroupNorm("states"), "groups", "'states'"),
            (GroupNorm([0, 0, 1, 1, 1], -1.0), "weights", "-1.0"),
            (GroupNorm([0, 0, 1, 1, 1], [1.0, np.nan]), "weights", "nan"),
            (GroupNorm([0, 0, 1, 1, 1], [1.0]), "weights", "shape (1,)"),
            (GroupNorm([0, 0, 1, 1, 1], "much"), "weights", "'much'"),
            (GroupNorm([0, 0, 1, 1, 1], None), "weights", "None"),
            (GroupNorm([0, 0, 1, 1, 1], [1.0, None]), "weights", "nan"),
            (GroupNorm([0, 0, 1, 1, 1], [[1.0], [1.0, 2.0]]), "weights", "rows of different lengths"),
            (GroupNorm(np.arange(5) * 10**9), "groups", "1000000000"),
            (GroupNorm([0, 0, 1, 1, 5]), "groups", "5"),
            (GroupNorm([0, 0, 1, 1, 1e300]), "groups", "1e+300"),
        ],
    )
    def test_bad_input(self, norm, parameter, got):
        with raises(parameter, got=got):
            norm.bind(Weights(5))

    def test_unbound(self):
        with raises("GroupNorm", hint="bind"):
            GroupNorm([0, 1]).value(np.zeros(2))


class TestProximal:
    @given(seeds)
    @settings(max_examples=30, deadline=None)
    def test_projection(self, seed):
        rng = np.random.default_rng(seed)
        point = 2.0 * rng.normal(size=6)
        found = project_to_simplex(point)
        np.testing.assert_allclose(project_to_simplex(point + 1e9), found, atol=1e-5)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1.0)
        for _ in range(20):
            other = rng.dirichlet(np.ones(6))
            assert (point - found) @ (other - found) <= 1e-12

    @given(seeds, st.sampled_from([1e20, 1e100, 1e290]))
    @settings(max_examples=30, deadline=None)
    def test_projection_of_large_numbers(self, seed, scale):
        point = scale * np.random.default_rng(seed).normal(size=6)
        np.testing.assert_array_equal(project_to_simplex(point), np.arange(6) == point.argmax())

    @given(seeds)
    @settings(max_examples=15, deadline=None)
    def test_level_planes(self, seed):
        rng = np.random.default_rng(seed)
        model, offsets = PlaneModel(10, np.ones(3), np.empty((0, 7))), rng.normal(size=4)
        for offset in offsets:
            model.add(Plane(np.zeros(7), float(offset)))
        center, linear, norm = rng.normal(size=7), rng.normal(size=7), random_norm(rng)
        w = model.step(norm, linear, center, 0.5, 1e-9)
        np.testing.assert_array_equal(model.alpha, np.arange(4) == offsets.argmax())
        np.testing.assert_allclose(w, norm.prox(center + 2.0 * linear, 2.0))

    @pytest.mark.parametrize("strength", [1e-3, 1.0, 1e3, 1e6])
    def test_most_states_without_weights(self, strength):
        X, y = views(np.random.default_rng(0))
        states = np.zeros((2, 4), dtype=int)
        states[:, 1] = 1
        task = LatentMulticlass(weights="state", states=states)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "training ended at w = 0", ConvergenceWarning)
            model = LatentSSVM(task, regularizer=GroupNorm(weights=strength)).fit(X, y)
        assert model.objective_ <= len(y) + 1e-9
        assert model.coef_.any() == (strength < 1e3)

    @pytest.mark.parametrize("groups", [[[0, 1]], np.full(24, -1)], ids=["two weights", "none"])
    def test_unpenalized_latent_weights(self, groups):
        X, y = views(np.random.default_rng(0))
        model = LatentSSVM(LatentMulticlass(weights="state"), regularizer=GroupNorm(groups)).fit(X, y)
        assert model.objective_ <= 1.0
        assert model.score(X, y) > 0.9

    def test_without_the_direct_descent(self):
        objective = latent(np.random.default_rng(1))
        start = np.random.default_rng(2).normal(size=objective.n_features)
        every, fewer = (Proximal(1e-2, direct=direct).minimize(objective, start) for direct in (True, False))
        assert fewer.n_iter < every.n_iter
        assert every.objective <= fewer.objective <= objective.value(start)
        # Where there are no soft descents the direct one is all there is.
        alone, same = (Proximal(1e-2, smoothing=(), direct=given).minimize(objective, start) for given in (True, False))
        np.testing.assert_array_equal(alone.w, same.w)
        known = convex(np.random.default_rng(0))
        np.testing.assert_array_equal(Proximal(direct=False).minimize(known).w, Proximal().minimize(known).w)

    @given(seeds)
    @settings(max_examples=4, deadline=None)
    def test_convex_hinge(self, seed):
        objective = convex(np.random.default_rng(seed))
        result = Proximal(tol=1e-3).minimize(objective)
        assert result.reason == "converged"
        assert result.certified
        # Where the minimum is w = 0, bound and objective are equal but for rounding.
        assert -1e-12 * result.objective <= result.gap <= 1e-3 * result.objective
        rival = Subgradient(step="plain", learning_rate=0.1, max_iter=60).minimize(objective)
        assert result.lower_bound <= rival.objective * (1 + 1e-12)
        assert result.objective <= rival.objective * (1 + 1e-3)

    def test_agrees_with_block_ascent(self):
        for seed in range(3):
            objective = convex(np.random.default_rng(seed), regularizer=L2())
            ours, theirs = Proximal(tol=1e-4).minimize(objective), BlockAscent(tol=1e-6).minimize(objective)
            assert ours.objective == pytest.approx(theirs.objective, rel=2e-4)
            assert ours.lower_bound <= theirs.objective

    @given(seeds)
    @settings(max_examples=8, deadline=None)
    def test_smooth_objective_meets_optimality(self, seed):
        objective = convex(np.random.default_rng(seed), Temperature(1.0), margin=False)
        result = Proximal(tol=1e-7).minimize(objective)
        norm = objective.regularizer
        gradient = objective.plus.total(result.w).slope - objective.minus.total(result.w).slope
        norms = norm.norms(result.w)
        pulls = norm.norms(gradient)
        assert (pulls[norms == 0] <= 1.0 + 1e-6).all()
        alive = norms[norm.index_] > 0
        assert np.allclose(gradient[alive], -norm.gradient(result.w)[alive], atol=2e-2)
        assert result.gap <= 1e-7 * result.objective

    @pytest.mark.parametrize("temperature", [HARD, Temperature(0.0, 1.0), SOFT], ids=str)
    def test_latent(self, temperature):
        objective = latent(np.random.default_rng(1), temperature)
        result = Proximal().minimize(objective)
        norms = objective.regularizer.norms(result.w)
        assert result.reason == "converged"
        assert (norms == 0).any()
        assert (norms > 0).any()
        assert not result.w[objective.regularizer.index_ == int(np.flatnonzero(norms == 0)[0])].any()
        values = [line.objective for line in result.history]
        assert all(after <= before for before, after in pairwise(values))
        # It is a minimum: another method hardly gets on from there.
        peer = AlternatingSubgradient(max_iter=50, tol=1e-9).minimize(objective, result.w)
        assert peer.objective >= result.objective * (1 - 1e-2)

    def test_result_is_a_minimum_of_its_own_convex_problem(self):
        objective = latent(np.random.default_rng(3))
        result = Proximal(tol=1e-4).minimize(objective)
        around = objective.linearized_at(result.w)
        assert Proximal(tol=1e-4).minimize(around).objective >= result.objective * (1 - 1e-3)

    @pytest.mark.parametrize("make", [convex, latent])
    def test_little_data_gives_zero(self, make):
        objective = make(np.random.default_rng(0), C=1e-6)
        for w0 in (None, np.random.default_rng(1).normal(size=objective.n_features)):
            assert not Proximal().minimize(objective, w0).w.any()

    def test_restarts_keep_the_best(self):
        objective = latent(np.random.default_rng(4))
        result = Proximal(restarts=3, smoothing=()).minimize(objective)
        assert len(result.start_objectives) == 3
        assert result.objective == min(result.start_objectives)

    def test_interrupted(self):
        def stop(line):
            if line.iteration == 3:
                raise KeyboardInterrupt

        objective = latent(np.random.default_rng(0))
        result = Proximal().minimize(objective, callback=stop)
        assert result.reason == "interrupted"
        assert result.objective == pytest.approx(objective.value(result.w))

    def test_unpenalized_weights_leave_no_bound(self):
        rng = np.random.default_rng(0)
        objective = convex(rng, regularizer=GroupNorm(np.array([-1, -1, -1, 0, 0, 0, 1, 1, 1, 2, 2, 2])))
        result = Proximal().minimize(objective)
        assert result.lower_bound == -np.inf
        assert result.w[:3].any()
        rival = Subgradient(step="plain", learning_rate=0.1, max_iter=100).minimize(objective)
        assert result.objective <= rival.objective * (1 + 1e-3)

    @pytest.mark.parametrize("bad", [{"smoothing": 1.0}, {"smoothing": (0.0,)}, {"max_planes": 2}, {"restarts": 0}])
    def test_bad_parameters(self, bad):
        with raises(*bad):
            Proximal(**bad).minimize(convex(np.random.default_rng(0)))

    def test_contract(self):
        check_solver(Proximal())


class TestAlternatingSubgradient:
    def test_steps_are_those_of_the_paper(self):
        objective = latent(np.random.default_rng(0))
        w = np.random.default_rng(1).normal(size=objective.n_features)
        values, rises, v = [], 0, w
        for _ in range(15):
            value, gradient = objective.value_and_gradient(v)
            rises += bool(values) and value > values[-1]
            values.append(value)
            v = v - gradient / (rises + 1)
        result = AlternatingSubgradient(tol=1e-12, max_iter=15).minimize(objective, w)
        assert [line.objective for line in result.history] == pytest.approx(np.minimum.accumulate(values))
        assert result.oracle_calls == 15 * objective.n_examples

    def test_stops_where_the_objective_stands_still(self):
        objective = latent(np.random.default_rng(0))
        assert AlternatingSubgradient(tol=0.5).minimize(objective).reason == "converged"

    def test_contract(self):
        check_solver(AlternatingSubgradient(max_iter=50))

    @pytest.mark.parametrize("rate", ["a", None, 0.0, np.nan, np.inf])
    def test_bad_learning_rate(self, rate):
        with raises("learning_rate", got=repr(rate)):
            AlternatingSubgradient(learning_rate=rate).minimize(latent(np.random.default_rng(0)))


class TestEstimators:
    def test_auto_is_proximal(self):
        X, y = views(np.random.default_rng(0))
        task = LatentMulticlass(weights="state", bias=1.0)
        model = LatentSSVM(task, C=0.3, regularizer=GroupNorm()).fit(X, y)
        same = LatentSSVM(task, C=0.3, solver="proximal", regularizer=GroupNorm()).fit(X, y)
        assert np.array_equal(model.coef_, same.coef_)
        norms = GroupNorm().bind(model.task_).norms(model.coef_)
        assert 0 < (norms > 0).sum() < 8

    def test_convex_auto_is_proximal(self):
        X, y = classes(np.random.default_rng(0))
        norm = GroupNorm(np.arange(12) // 3)
        model = StructuredEstimator(Multiclass(), C=0.1, regularizer=norm).fit(X, y)
        assert model.certified_
        assert model.relative_gap_ <= 1e-3

    def test_solvers_of_another_norm_are_refused(self):
        X, y = classes(np.random.default_rng(0))
        with raises("solver", expected="½‖w‖²"):
            StructuredEstimator(Multiclass(), regularizer=GroupNorm(np.zeros(12)), solver="bundle").fit(X, y)

    @pytest.mark.parametrize("solver", [CCCP(), CCCP(Proximal()), SelfPaced(), "bundle"])
    def test_cccp_with_a_group_norm_is_refused(self, solver):
        X, y = views(np.random.default_rng(0))
        model = LatentSSVM(LatentMulticlass(weights="state"), solver=solver, regularizer=GroupNorm())
        with raises("solver", expected="'auto' for latent variables with GroupNorm", hint="½‖w‖²"):
            model.fit(X, y)

    @pytest.mark.parametrize("kind", [LatentSSVM, HiddenCRF])
    @pytest.mark.parametrize("regularizer", ["group", GroupNorm, 3], ids=str)
    def test_what_is_no_regularizer_is_refused(self, kind, regularizer):
        X, y = views(np.random.default_rng(0))
        model = kind(LatentMulticlass(weights="state"), regularizer=regularizer)
        with raises("regularizer", got=regularizer):
            model.fit(X, y)

    def test_the_warning_of_zero_weights_names_what_helps(self):
        X, y = views(np.random.default_rng(0))
        task = LatentMulticlass(weights="state")
        with pytest.warns(ConvergenceWarning, match="GroupNorm outweighs the examples.*smaller weights of the regular"):
            LatentSSVM(task, regularizer=GroupNorm(weights=1e4)).fit(X, y)
        with pytest.warns(ConvergenceWarning, match=r"w = 0: all examples are of one class \(7\)"):
            LatentSSVM(task).fit(X, np.full(len(y), 7))
        with pytest.warns(
            ConvergenceWarning, match="w = 0: the initial latents are unrelated to the outputs; try more"
        ):
            LatentSSVM(LatentMulticlass()).fit(np.zeros((4, 2, 2)), [0, 1, 0, 1])

    def test_task_without_states_is_refused(self):
        X, y = classes(np.random.default_rng(0))
        with raises("groups", got="states", hint="weights='state'"):
            StructuredEstimator(Multiclass(), regularizer=GroupNorm()).fit(X, y)


def test_starts_differ_where_the_norm_outweighs_every_first_step():
    X, y = views(np.random.default_rng(0))
    task = LatentMulticlass(weights="state")
    starts = []
    for seed in (0, 1):
        task.learn(X, y)
        batch = task.prepare(X, y)
        objective = build_objective(task, batch, np.full(len(y), 1e-3), HARD, regularizer=GroupNorm())
        latents = LatentStarts(task, batch, "random", seed=seed)
        starts.append(initial_weights(replace(objective, starts=latents)))
    assert all(start.any() for start in starts)
    assert (starts[0] != starts[1]).any()


def test_a_pruned_task_keeps_the_numbers_of_its_groups():
    rng = np.random.default_rng(1)
    X, y = views(rng)
    strengths = rng.uniform(0.1, 0.2, 2 * X.shape[1])
    model = LatentSSVM(LatentMulticlass(weights="state"), C=0.3, regularizer=GroupNorm(weights=strengths)).fit(X, y)
    pruned = model.prune(n_states=2)
    norm = pruned.regularizer.bind(pruned.task_)
    np.testing.assert_array_equal(norm.weights_, strengths)
    assert np.isclose(norm.value(pruned.coef_), float(strengths @ pruned.states_.ravel()))
    assert pruned.fit(X, y).states_.shape == model.states_.shape
