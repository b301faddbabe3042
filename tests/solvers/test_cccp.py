import warnings
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from error_fields import raises
from latentstruct import (
    CCCP,
    LBFGS,
    BlockAscent,
    Bundle,
    CandidateTask,
    ConvergenceWarning,
    CuttingPlane,
    ExampleTask,
    FrankWolfe,
    LatentMulticlass,
    LatentSSVM,
    Multiclass,
    SelfPaced,
    StructuralSVM,
    StructuredEstimator,
    Subgradient,
    Temperature,
    build_objective,
    load,
)
from latentstruct.solvers import self_paced
from latentstruct.solvers.starts import LatentStarts
from latentstruct.testing import check_solver, check_task

INNER = {
    "auto": None,
    "block_ascent": BlockAscent(),
    "bundle": Bundle(),
    "cached bundle": Bundle(cached_planes=10),
    "frank_wolfe": FrankWolfe(),
    "cutting_plane": CuttingPlane(),
    "lbfgs": LBFGS(),
}


class States(CandidateTask):
    """Two classes, states given as rows of x; the loss may depend on the state that was chosen."""

    def __init__(self, state_cost=0.0):
        self.state_cost = state_cost

    def candidates(self, x):
        n_states, d = x.shape
        features = np.zeros((2 * n_states, 2 * d))
        features[:n_states, :d] = x
        features[n_states:, d:] = x
        return [0] * n_states + [1] * n_states, list(range(n_states)) * 2, features

    def output_loss(self, y, y_hat, h_hat):
        return float(y != y_hat) * (1.0 + self.state_cost * (h_hat or 0))


class SlowStates(ExampleTask):
    """The same, one example at a time."""

    latent = True

    def joint_feature(self, x, y, h):
        phi = np.zeros(2 * x.shape[1])
        phi[y * x.shape[1] :][: x.shape[1]] = x[h]
        return phi

    def output_loss(self, y, y_hat, h_hat):
        return float(y != y_hat)

    def best(self, x, w, gain):
        pairs = [(y, h) for y in range(2) for h in range(len(x))]
        return max(pairs, key=lambda pair: self.joint_feature(x, *pair) @ w + gain(pair[0]))

    def argmax(self, x, w):
        return self.best(x, w, lambda y: 0.0)

    def loss_augmented_argmax(self, x, y, w):
        return self.best(x, w, lambda y_hat: y != y_hat)

    def best_latent(self, x, y, w):
        return self.best(x, w, lambda y_hat: -np.inf if y != y_hat else 0.0)[1]

    def random_latent(self, x, y, rng):
        return int(rng.integers(len(x)))


def hidden_data(seed=0, n=40, n_states=4, d=5, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_states, d))
    y = rng.integers(0, 2, n)
    X[np.arange(n), rng.integers(0, n_states, n)] += 1.5 * (2 * y[:, None] - 1)
    return list(X), np.where(rng.random(n) < noise, 1 - y, y).tolist()


def latent_objective(seed=0, C=0.3, temperature=(0.0, 0.0), state_cost=0.0, **data):
    X, Y = hidden_data(seed, **data)
    task = States(state_cost)
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    return task, batch, build_objective(task, batch, np.full(len(X), C), Temperature(*temperature))


def with_first(objective, task, batch, seed):
    objective.starts = LatentStarts(task, batch, "random", seed=seed)
    return objective


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    inner=st.sampled_from(list(INNER)),
    C=st.sampled_from([0.01, 0.3, 3.0]),
    state_cost=st.sampled_from([0.0, 0.5]),
    from_weights=st.booleans(),
)
def test_the_objective_never_rises(seed, inner, C, state_cost, from_weights):
    task, batch, objective = latent_objective(seed, C, state_cost=state_cost, n=15)
    with_first(objective, task, batch, seed)
    w0 = np.random.default_rng(seed).normal(size=task.n_features) if from_weights else None
    result = CCCP(INNER[inner], restarts=2).minimize(objective, w0)
    for start in {line.start for line in result.history}:
        values = [line.objective for line in result.history if line.start == start]
        assert all(np.diff(values) <= 1e-9 * abs(values[0]))
    assert result.objective == pytest.approx(objective.value(result.w), rel=1e-9)
    assert result.objective == pytest.approx(min(result.start_objectives), rel=1e-12)
    if from_weights:
        assert result.objective <= objective.value(w0) * (1 + 1e-12)


@pytest.mark.parametrize("latent_temperature", [0.5, 2.0])
def test_latents_may_be_summed_out(latent_temperature):
    task, batch, objective = latent_objective(3, temperature=(0.0, latent_temperature))
    result = CCCP(restarts=2).minimize(with_first(objective, task, batch, 3))
    values = [line.objective for line in result.history if line.start == 0]
    assert all(np.diff(values) <= 1e-9)
    assert result.objective == pytest.approx(objective.value(result.w), rel=1e-9)
    assert result.objective < 0.9 * objective.value(np.zeros(task.n_features))


@pytest.mark.parametrize("inner", INNER)
def test_the_end_is_stationary(inner):
    # The convex problem that touches the objective at the result cannot be lowered by much more than the tolerance.
    task, batch, objective = latent_objective(1, C=0.5)
    with_first(objective, task, batch, 1)
    result = CCCP(INNER[inner], tol=1e-3).minimize(objective)
    assert result.reason == "converged"
    touching = objective.linearized_at(result.w)
    assert touching.value(result.w) == pytest.approx(result.objective, rel=1e-9)
    lowest = BlockAscent(tol=1e-6).minimize(touching).lower_bound
    assert result.objective - lowest <= 3e-3 * result.objective


def test_planes_are_kept_and_save_oracle_calls():
    task, batch, objective = latent_objective(5, C=0.3, n=80)
    with_first(objective, task, batch, 5)
    calls = {keep: CCCP(keep_planes=keep).minimize(objective).oracle_calls for keep in (True, False)}
    assert calls[True] < 0.6 * calls[False]


def test_a_precise_first_round_is_not_the_last():
    task, batch, objective = latent_objective(5, C=0.3, n=40)
    result = CCCP(first_tol=1e-4, tol=1e-3).minimize(with_first(objective, task, batch, 5))
    assert result.n_iter > 1
    assert result.history[0].objective - result.objective > 1e-3 * result.objective


def informative_start(seed):
    rng = np.random.default_rng(seed)
    X, y, h = rng.normal(size=(80, 4, 6)), rng.integers(0, 2, 80), rng.integers(0, 4, 80)
    X[np.arange(80), h, 0] += 1.0 * (2 * y - 1)
    return list(X), y.tolist(), h.tolist()


@cache
def tempting_problems():
    """Return two problems whose first minimum is within a tenth of its value at w = 0: a loose solver might stay."""
    found = []
    for seed in range(40):
        X, Y, H = informative_start(seed)
        task = States()
        task.learn(X, Y)
        batch = task.prepare(X, Y)
        objective = build_objective(task, batch, np.ones(80), Temperature())
        first = objective.linearized_with(task.completion_planes(batch, H))
        if 0.9 * 80 < BlockAscent(tol=1e-5).minimize(first).objective < 0.995 * 80:
            found.append((X, Y, H))
        if len(found) == 2:
            return found
    raise AssertionError(f"only {len(found)} problems were found")


@pytest.mark.parametrize("inner", ["auto", "bundle", "frank_wolfe"])
def test_what_the_first_latents_tell_is_not_lost(inner):
    for X, Y, H in tempting_problems():
        model = LatentSSVM(States(), C=1.0, solver=CCCP(INNER[inner])).fit(X, Y, H=H)
        assert model.objective_ < 0.98 * 80


@pytest.mark.parametrize("inner", [FrankWolfe(max_iter=1), LBFGS(max_iter=2), Bundle(max_iter=2)])
def test_a_problem_that_was_not_solved_is_no_convergence(inner):
    X, Y = hidden_data(5)
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        model = LatentSSVM(States(), C=10.0, solver=CCCP(inner)).fit(X, Y)
    assert model.stop_reason_ in ("max_iter", "stalled")


@pytest.mark.parametrize("C", [1e-6, 1e4, 1e6])
def test_extreme_weights_end_well_or_say_so(C):
    X, Y = hidden_data(5, n=20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LatentSSVM(States(), C=C, max_seconds=20).fit(X, Y)
    assert np.isfinite(model.coef_).all()
    reported = [str(item.message) for item in caught]
    assert model.stop_reason_ == "converged" or any("stopped early" in text for text in reported)


@pytest.mark.parametrize(("first", "second"), [("bundle", "block_ascent"), ("auto", "bundle"), ("frank_wolfe", "auto")])
def test_a_warm_start_may_change_the_solver(first, second):
    X, Y = hidden_data(5)
    model = LatentSSVM(States(), C=0.3, solver=first, warm_start=True).fit(X, Y)
    before = model.objective_
    model.set_params(solver=second).fit(X, Y)
    assert model.objective_ <= before * (1 + 1e-9)


def test_given_latents_win_over_a_warm_start():
    X, Y = hidden_data(5)
    model = LatentSSVM(States(), C=0.3, warm_start=True, restarts=3).fit(X, Y)
    model.fit(X, Y, H=[0] * len(X))
    assert len(model.restart_objectives_) == 3


@pytest.mark.parametrize("seed", [-1, 1.5, "a", np.random.RandomState(0)])
def test_seeds_are_checked(seed):
    X, Y = hidden_data(5, n=6)
    with raises("random_state"):
        LatentSSVM(States(), random_state=seed).fit(X, Y)


def test_no_seed_is_a_new_one_each_time():
    X, Y = hidden_data(5)
    models = [LatentSSVM(States(), C=0.3, init="random", restarts=3, random_state=None).fit(X, Y) for _ in range(2)]
    assert models[0].restart_objectives_ != models[1].restart_objectives_


def test_pacing_goes_on_where_most_losses_are_zero():
    task, batch, objective = latent_objective(8, C=0.3, noise=0.2)
    weights = np.full(batch.n_examples, 0.3)
    weights[: batch.n_examples * 2 // 3] = 0.0
    with_first(objective.reweighted(weights), task, batch, 8)
    sizes = []

    class Watched(CCCP):
        def minimize(self, objective, w0=None, **rest):
            sizes.append(np.count_nonzero(objective.plus.weights))
            return super().minimize(objective, w0, **rest)

    result = SelfPaced(Watched()).minimize(with_first(objective.reweighted(weights), task, batch, 8))
    assert result.reason == "converged"
    assert len(sizes) < 40
    assert sizes[-1] == np.count_nonzero(weights)


def test_an_interrupt_while_planes_are_moved_leaves_them_whole(monkeypatch):
    from latentstruct.planes import memory

    X, Y = hidden_data(5, n=60)
    compact = memory.kernels.compact
    calls = []

    def interrupted(*arguments):
        compact(*arguments)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(memory.kernels, "compact", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = LatentSSVM(States(), C=3.0, solver="block_ascent").fit(X, Y)
    assert len(calls) >= 2
    assert np.isfinite(model.objective_)


def test_linearised_with_planes_of_other_weights_is_above():
    task, _, objective = latent_objective(2)
    rng = np.random.default_rng(0)
    for _ in range(5):
        v, w = rng.normal(size=(2, task.n_features))
        assert objective.linearized_at(v).value(w) >= objective.value(w) - 1e-9


def test_weights_of_examples_can_be_changed():
    task, batch, objective = latent_objective(2)
    weights = np.random.default_rng(0).uniform(size=batch.n_examples)
    w = np.random.default_rng(1).normal(size=task.n_features)
    expected = build_objective(task, batch, weights, Temperature()).value(w)
    assert objective.reweighted(weights).value(w) == pytest.approx(expected, rel=1e-12)
    by_sum = objective.linearized_with(objective.minus.total(w))
    with raises("weights", expected="only the sum over all examples"):
        by_sum.reweighted(weights)


@pytest.mark.parametrize("solver", ["auto", "block_ascent", "bundle"])
def test_without_latents_it_is_the_structural_svm(solver):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 4)), rng.integers(0, 3, 50)
    plain = StructuralSVM(Multiclass(), C=0.1, solver=solver).fit(X, y)
    latent = LatentSSVM(Multiclass(), C=0.1, solver=solver, restarts=3).fit(X, y)
    np.testing.assert_array_equal(plain.coef_, latent.coef_)
    by_cccp = LatentSSVM(Multiclass(), C=0.1, solver=CCCP()).fit(X, y)
    assert by_cccp.objective_ == pytest.approx(plain.objective_, rel=2e-3)
    assert by_cccp.certified_
    assert by_cccp.relative_gap_ <= 1e-3


def test_one_state_is_the_structural_svm():
    X, Y = hidden_data(n_states=1)
    latent = LatentSSVM(States(), C=0.1, tol=1e-4).fit(X, Y)
    plain = StructuralSVM(Multiclass(), C=0.1, tol=1e-4).fit(np.stack([x[0] for x in X]), Y)
    assert latent.objective_ == pytest.approx(plain.objective_, rel=1e-3)


def test_restarts_are_reported_and_reproducible():
    X, Y = hidden_data(4)
    first, again, other = (
        LatentSSVM(States(), C=0.3, init="random", restarts=4, random_state=seed).fit(X, Y) for seed in (0, 0, 1)
    )
    assert len(first.restart_objectives_) == 4
    assert first.objective_ == min(first.restart_objectives_)
    assert first.restart_objectives_ == again.restart_objectives_
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert first.restart_objectives_ != other.restart_objectives_
    assert {line.start for line in first.history_} == {0, 1, 2, 3}


def test_latents_of_the_user_are_the_first_start():
    X, Y = hidden_data(4)
    chosen = [2] * len(X)
    seen = []
    task = States()

    class Watching(States):
        def completion_planes(self, batch, latents):
            seen.append(list(latents))
            return super().completion_planes(batch, latents)

    LatentSSVM(Watching(), C=0.3, restarts=2).fit(X, Y, H=chosen)
    assert seen[0] == chosen
    assert seen[1] != chosen
    assert len(seen) == 2
    task.learn(X, Y)
    with raises("latents[0]", expected="a latent of the candidates with the output"):
        LatentSSVM(States()).fit(X, Y, H=[9] * len(X))
    with raises("latents", got="3 latents", expected="a sequence of 40 latents"):
        LatentSSVM(States()).fit(X, Y, H=[0] * 3)
    with raises("H", expected="Multiclass, which has no latent variables"):
        LatentSSVM(Multiclass()).fit(np.eye(2), [0, 1], H=[0, 0])


def test_weights_of_the_user_are_the_start():
    X, Y = hidden_data(4)
    model = LatentSSVM(States(), C=0.3, restarts=3).fit(X, Y)
    again = LatentSSVM(States(), C=0.3).fit(X, Y, coef_init=model.coef_)
    assert again.objective_ <= model.objective_ * (1 + 1e-12)
    assert again.n_iter_ <= 6
    with raises("coef_init", got="shape (3,)", expected="shape (10,)"):
        LatentSSVM(States()).fit(X, Y, coef_init=np.zeros(3))
    with raises("coef_init", expected="None if `H` or `restarts` are given"):
        LatentSSVM(States(), restarts=2).fit(X, Y, coef_init=np.zeros(10))
    with raises("coef_init", got="nan at row 0, column 0", expected="finite"):
        LatentSSVM(States()).fit(X, Y, coef_init=np.full(10, np.nan))


def test_predictions_and_completions_are_the_enumeration():
    X, Y = hidden_data(6, n=10)
    model = LatentSSVM(States(0.5), C=0.3).fit(X, Y)
    latents, completed = model.predict_latent(X), model.complete(X, Y)
    for i, x in enumerate(X):
        outputs, states, features = States().candidates(x)
        scores = features @ model.coef_
        best = int(scores.argmax())
        assert (model.predict(X)[i], latents[i]) == (outputs[best], states[best])
        fitting = [c for c in range(len(outputs)) if outputs[c] == Y[i]]
        assert completed[i] == states[max(fitting, key=lambda c: scores[c])]
    expected = [States(0.5).output_loss(y, y_hat, h) for y, y_hat, h in zip(Y, model.predict(X), latents, strict=True)]
    np.testing.assert_allclose(model.loss(X, Y), expected)
    with raises("y", hint="predict_latent"):
        model.complete(X, None)


def test_no_latent_answers_without_latents():
    model = StructuralSVM(Multiclass()).fit(np.eye(2), [0, 1])
    assert not hasattr(model, "predict_latent")
    assert not hasattr(model, "complete")


def test_weighted_examples_are_repeated_examples():
    X, Y = hidden_data(7, n=12)
    weights = np.array([1, 2, 0] * 4)
    repeated = [i for i, times in enumerate(weights) for _ in range(times)]
    weighted = LatentSSVM(States(), C=0.3).fit(X, Y, sample_weight=weights)
    X, Y = [X[i] for i in repeated], [Y[i] for i in repeated]
    plain = LatentSSVM(States(), C=0.3).fit(X, Y)
    objective = build_objective(plain.task_, plain.task_.prepare(X, Y), np.full(len(X), 0.3), Temperature())
    assert weighted.objective_ == pytest.approx(objective.value(weighted.coef_), rel=1e-9)
    # Beginning where the other ended, neither goes on.
    again = LatentSSVM(States(), C=0.3).fit(X, Y, coef_init=weighted.coef_)
    assert again.objective_ == pytest.approx(weighted.objective_, rel=3e-3)


def test_self_paced_learning_ends_with_all_examples():
    task, batch, objective = latent_objective(8, C=0.3, noise=0.2)
    with_first(objective, task, batch, 8)
    result = SelfPaced(CCCP(restarts=2)).minimize(objective)
    assert result.objective == pytest.approx(objective.value(result.w), rel=1e-9)
    assert len(result.start_objectives) == 2
    assert result.reason == "converged"
    assert {line.start for line in result.history} == {0, 1}
    assert result.objective < 0.9 * objective.value(np.zeros(task.n_features))
    calls = [line.oracle_calls for line in result.history]
    assert all(np.diff(calls) > 0)
    assert result.oracle_calls >= calls[-1]
    X, Y = hidden_data(8, noise=0.2)
    model = LatentSSVM(States(), C=0.3, solver=SelfPaced(), restarts=2).fit(X, Y)
    assert len(model.restart_objectives_) == 2


def test_self_paced_learning_may_be_ended_before_its_first_round(monkeypatch):
    task, batch, objective = latent_objective(8, C=0.3)
    requested = []

    def interrupted(*arguments, **rest):
        requested.append(1)
        if len(requested) == 1:
            raise KeyboardInterrupt
        return pool_batch(*arguments, **rest)

    pool_batch = task.pool_batch
    monkeypatch.setattr(task, "pool_batch", interrupted)
    result = SelfPaced().minimize(with_first(objective, task, batch, 8))
    assert (result.reason, result.history) == ("interrupted", [])
    assert np.isfinite(result.objective)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_interrupt_between_two_runs_of_cccp_keeps_the_weights(monkeypatch, at):
    task, batch, objective = latent_objective(8, C=0.3, noise=0.2)
    measured, measure = [], self_paced._Pacing._measure

    def interrupted(run):
        measured.append(1)
        if len(measured) == at:
            raise KeyboardInterrupt
        measure(run)

    monkeypatch.setattr(self_paced._Pacing, "_measure", interrupted)
    result = SelfPaced().minimize(with_first(objective, task, batch, 8))
    assert len(measured) == at
    assert result.reason == "interrupted"
    assert result.w.any()
    assert result.objective == pytest.approx(objective.value(result.w), rel=1e-9)


def test_self_paced_learning_leaves_hard_examples_out_at_first():
    task, batch, objective = latent_objective(8, C=0.3, noise=0.2)
    with_first(objective, task, batch, 8)
    seen = []

    class Watched(CCCP):
        def minimize(self, objective, w0=None, **rest):
            seen.append(np.count_nonzero(objective.plus.weights))
            return super().minimize(objective, w0, **rest)

    SelfPaced(Watched()).minimize(objective)
    n = batch.n_examples
    assert seen[0] == n
    assert seen[-1] == n
    assert n / 2 <= seen[1] < n


@pytest.mark.parametrize(
    ("solver", "parameter"),
    [
        (CCCP(inner="bundle"), "inner"),
        (CCCP(inner=Bundle), "inner"),
        (CCCP(restarts=0), "restarts"),
        (CCCP(first_tol=2.0), "first_tol"),
        (CCCP(tol=-1.0), "tol"),
        (SelfPaced(Bundle()), "inner"),
        (SelfPaced(growth=1.0), "growth"),
        (SelfPaced(first_share=0.0), "first_share"),
    ],
)
def test_parameters_are_checked(solver, parameter):
    X, Y = hidden_data(0, n=6)
    with raises(parameter):
        LatentSSVM(States(), solver=solver).fit(X, Y)


def test_starts_are_checked():
    X, Y = hidden_data(0, n=6)
    with raises("init", got="best"):
        LatentSSVM(States(), init="best").fit(X, Y)
    with raises("restarts", got=2, expected="None for Subgradient"):
        LatentSSVM(States(), solver=Subgradient(), restarts=2).fit(X, Y)


@pytest.mark.parametrize("solver", [CCCP(), SelfPaced(), CCCP(Bundle())])
@pytest.mark.parametrize("at", [1, 3, 6])
def test_an_interrupt_keeps_the_best_so_far(solver, at):
    X, Y = hidden_data(9)
    shown = []

    def interrupt(line):
        shown.append(line)
        if len(shown) == at:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = LatentSSVM(States(), C=0.3, solver=solver, restarts=3).fit(X, Y, callback=interrupt)
    assert model.stop_reason_ == "interrupted"
    # At w = 0 each loss is C.
    assert 0 < model.objective_ <= 0.3 * len(X) * (1 + 1e-9)
    assert len(model.predict(X)) == len(X)


@pytest.mark.parametrize("at", [1, 2, 5, 9])
def test_a_callback_stops_all_starts(at):
    X, Y = hidden_data(9)
    shown = []

    def stop(line):
        shown.append(line)
        return len(shown) >= at

    model = LatentSSVM(States(), C=0.3, restarts=5).fit(X, Y, callback=stop)
    assert model.stop_reason_ == "callback"
    assert len(shown) <= at + 2
    assert model.objective_ == min(model.restart_objectives_)


def test_limits_are_kept():
    X, Y = hidden_data(9)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = LatentSSVM(States(), C=0.3, max_iter=1).fit(X, Y)
    assert model.n_iter_ == 1
    with pytest.warns(ConvergenceWarning, match="max_seconds"):
        LatentSSVM(States(), C=0.3, max_seconds=1e-9).fit(X, Y)


def test_the_zero_vector_is_called_out():
    rng = np.random.default_rng(0)
    X, Y = list(rng.normal(size=(20, 30, 2))), rng.integers(0, 2, 20).tolist()
    with pytest.warns(ConvergenceWarning, match="w = 0"):
        LatentSSVM(States(), C=1e-3, solver=CCCP(Bundle(tol=1e-9), first_tol=1e-6), init="random").fit(X, Y)


def test_a_bound_of_the_convex_problem_certifies_nothing():
    X, Y = hidden_data(3, n=12)
    model = LatentSSVM(States(), C=0.3).fit(X, Y)
    assert not model.certified_
    assert model.lower_bound_ <= model.objective_


def test_one_example_at_a_time_is_the_same():
    X, Y = hidden_data(3, n=12)
    check_task(SlowStates(), X, Y)
    slow, fast = LatentSSVM(SlowStates(), C=0.3).fit(X, Y), LatentSSVM(States(), C=0.3).fit(X, Y)
    at_slow, at_fast = (
        build_objective(model.task_, model.task_.prepare(X, Y), np.full(12, 0.3), Temperature()).value(slow.coef_)
        for model in (slow, fast)
    )
    assert slow.objective_ == pytest.approx(at_slow, rel=1e-9)
    assert at_slow == pytest.approx(at_fast, rel=1e-9)
    slow.coef_ = fast.coef_
    assert slow.predict(X) == fast.predict(X)
    assert slow.predict_latent(X) == fast.predict_latent(X)
    assert slow.complete(X, Y) == fast.complete(X, Y)


def test_first_latents_are_for_cccp():
    X, Y = hidden_data(3, n=12)
    with raises("H", expected="None for Subgradient"):
        LatentSSVM(States(), solver="subgradient").fit(X, Y, H=[0] * 12)
    with raises("latents", got="3", expected="a sequence such as a list"):
        LatentSSVM(States()).fit(X, Y, H=3)
    with raises("callback", got=3):
        LatentSSVM(States()).fit(X, Y, callback=3)
    with raises("y", got=None):
        LatentSSVM(States()).fit(X, Y).score(X, None)


def test_lists_of_latents_must_fit_the_outputs():
    class TooMany(States):
        def candidates(self, x):
            outputs, latents, features = super().candidates(x)
            return outputs, [*latents, 9], features

    X, Y = hidden_data(3, n=12)
    with raises("latents of example 0", expected="a list of 8 latents, one per output"):
        LatentSSVM(TooMany()).fit(X, Y)


def test_scikit_learn_stratifies_where_outputs_are_labels():
    from sklearn.base import is_classifier
    from sklearn.model_selection import cross_val_score

    assert is_classifier(LatentSSVM(LatentMulticlass()))
    assert is_classifier(StructuralSVM(Multiclass()))
    assert not is_classifier(LatentSSVM(States()))
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 12)
    X = np.eye(3)[y] + 0.1 * rng.normal(size=(36, 3))
    assert cross_val_score(StructuralSVM(Multiclass()), X, y, cv=3).min() > 0.9
    model = StructuralSVM(Multiclass()).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert not hasattr(StructuralSVM(Multiclass()), "classes_")


def test_a_latent_example_task_must_answer_pairs():
    class OnlyOutputs(SlowStates):
        def argmax(self, x, w):
            return super().argmax(x, w)[0]

    X, Y = hidden_data(3, n=12)
    model = LatentSSVM(OnlyOutputs(), C=0.3).fit(X, Y)
    with raises("OnlyOutputs.argmax of example 0", expected="a pair (y, h) because"):
        model.predict(X)


def test_the_general_estimator_trains_with_latents():
    X, Y = hidden_data(5)
    general = StructuredEstimator(States(), C=0.3, restarts=2, random_state=3).fit(X, Y)
    preset = LatentSSVM(States(), C=0.3, restarts=2, random_state=3).fit(X, Y)
    np.testing.assert_array_equal(general.coef_, preset.coef_)


def test_saved_models_know_their_starts(tmp_path):
    X, Y = hidden_data(5)
    model = LatentSSVM(States(), C=0.3, restarts=2, solver=CCCP(Bundle())).fit(X, Y)
    model.save(tmp_path / "model")
    task = States()
    task.learn(X, Y)
    again = load(tmp_path / "model", task=task)
    assert again.restart_objectives_ == model.restart_objectives_
    assert isinstance(again.solver, CCCP)
    assert isinstance(again.solver.inner, Bundle)
    assert again.predict_latent(X) == model.predict_latent(X)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_completions_of_candidates_are_below_the_clamped_side(seed):
    rng = np.random.default_rng(seed)
    X, Y = hidden_data(seed, n=5)
    task = States()
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    planes = task.completion_planes(batch, task.random_latents(batch, rng))
    assert planes.all_exact
    w = rng.normal(size=task.n_features)
    clamped = task.planes(batch, w, "clamped", Temperature())
    assert (planes.dot(w) <= clamped.values + 1e-9).all()
    best = task.completion_planes(batch, task.complete(batch, w))
    np.testing.assert_allclose(best.dot(w), clamped.values)


def test_smoothing_softens_latents_too():
    task, _, objective = latent_objective(0, n=6)
    w = np.random.default_rng(0).normal(size=task.n_features)
    X, Y = hidden_data(0, n=6)
    expected = 0.0
    for x, y in zip(X, Y, strict=True):
        outputs, _, features = task.candidates(x)
        losses = np.array([float(y != y_hat) for y_hat in outputs])
        listed = reference.Listed(features, losses, np.array(outputs), y, [])
        expected += 0.3 * reference.pool(listed, w, "augmented", 0.2, 0.2).value
    assert objective.plus.smoothed(0.2).total(w)(w) == pytest.approx(expected, rel=1e-9)


def test_random_starts_without_warnings_are_the_rule():
    X, Y = hidden_data(11)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LatentSSVM(States(), C=0.3, restarts=2).fit(X, Y)


class WrongCompletion(States):
    def complete(self, batch, w):
        return super().complete(batch, -w)


class ForeignLatents(States):
    def random_latents(self, batch, rng):
        return [9] * batch.n_examples


class HighCompletion(States):
    def completion_planes(self, batch, latents):
        planes = super().completion_planes(batch, latents)
        planes.offsets = planes.offsets + 1.0
        return planes


@pytest.mark.parametrize(
    ("task", "message"),
    [(WrongCompletion(), "the completion of example"), (HighCompletion(), "the completion of example")],
)
def test_broken_completions_are_told_what_is_wrong(task, message):
    X, Y = hidden_data(3, n=6)
    check_task(States(), X, Y)
    with pytest.raises(AssertionError, match=message):
        check_task(task, X, Y)


def test_latents_that_do_not_fit_are_named():
    X, Y = hidden_data(3, n=6)
    with raises("latents[0]", expected="a latent of the candidates with the output"):
        LatentSSVM(ForeignLatents()).fit(X, Y)


@pytest.mark.parametrize("solver", [CCCP(), CCCP(Bundle()), CCCP(FrankWolfe()), CCCP(LBFGS()), SelfPaced()], ids=str)
def test_the_solvers_keep_the_contract(solver):
    check_solver(solver)


class Noting(BlockAscent):
    """Notes the oracle calls of each run."""

    runs: ClassVar[list] = []

    def minimize(self, *arguments, **options):
        found = super().minimize(*arguments, **options)
        self.runs.append(found.oracle_calls)
        return found


def test_oracle_calls_are_those_of_the_inner_solvers():
    task, batch, objective = latent_objective(8, C=0.3, noise=0.2)
    with_first(objective, task, batch, 8)
    Noting.runs.clear()
    result = CCCP(Noting(), restarts=2).minimize(objective)
    assert len(Noting.runs) >= len(result.history)
    # Each start also evaluates its initial latents.
    assert result.oracle_calls == sum(Noting.runs) + 2 * objective.n_examples


@pytest.mark.parametrize("solver", [CCCP(restarts=2), SelfPaced(CCCP(restarts=2))])
def test_reported_calls_and_seconds_add_up_over_inner_solvers_and_starts(solver):
    task, batch, objective = latent_objective(8, C=0.3, noise=0.2)
    with_first(objective, task, batch, 8)
    lines = []
    result = solver.minimize(objective, callback=lines.append)
    assert {(line.start, line.estimate) for line in lines} == {(start, kind) for start in (0, 1) for kind in (0, 1)}
    calls, seconds = ([getattr(line, name) for line in lines] for name in ("oracle_calls", "seconds"))
    assert (np.diff(calls) >= 0).all()
    assert (np.diff(seconds) >= 0).all()
    assert result.oracle_calls >= calls[-1]


class Recorder:
    """A checkpointer that only notes why training ended, empty if it did not."""

    saved, name = None, "recorder"

    def __init__(self):
        self.ended = []

    def save(self, make_tree, ended=""):
        self.ended.append((make_tree()["start"], ended))


@pytest.mark.parametrize("restarts", [1, 3])
def test_a_checkpoint_is_final_only_after_the_last_start(restarts):
    task, batch, objective = latent_objective(8, C=0.3, noise=0.2)
    with_first(objective, task, batch, 8)
    recorder = Recorder()
    result = CCCP(restarts=restarts).minimize(objective, checkpointer=recorder)
    *earlier, (start, reason) = recorder.ended
    assert {ended for _, ended in earlier} == {""}
    assert {start for start, _ in recorder.ended} == set(range(restarts))
    assert (start, reason) == (restarts - 1, result.reason)
