"""Latent states with weights of their own: tables of states, norms, pruning and what predictions read."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from test_latent_multiclass import LABELS, MATRIX
from test_tasks import close, compare, compare_renyi

import reference
from error_fields import raises
from latentstruct import (
    ConvergenceWarning,
    LatentMulticlass,
    LatentSSVM,
    MarginalSSVM,
    MinEntropySSVM,
    Multiclass,
    StructuralSVM,
    Temperature,
    load,
)
from latentstruct.core.objective import build_objective
from latentstruct.core.regularizers import L2, GroupNorm
from latentstruct.estimators.paths import groupnorm_path, largest_strength
from latentstruct.solvers.proximal import Proximal
from latentstruct.tasks.classes.states import StateTable
from latentstruct.testing import check_task
from latentstruct.viz.plots import plot_path, plot_states

HARD = Temperature()
S, H, D = 3, 4, 2
FORMS = ("all rows", "needed rows", "list", "sparse", "one row")


def draw_kinds(rng):
    """A random table of states: 1 with weights, 0 constant, −1 absent; each class has one, and some have weights."""
    kinds = rng.integers(-1, 2, (S, H))
    kinds[np.arange(S), rng.integers(0, H, S)] = rng.integers(0, 2, S)
    kinds[0, rng.integers(H)] = 1
    return kinds


def list_table(X, truth, kinds, bias):
    """All candidates that exist: a state with weights has the vector of its place among those, the others φ = 0."""
    vector_of = np.cumsum(kinds.ravel() == 1).reshape(kinds.shape) - 1
    B = int((kinds == 1).sum())
    items = [(y, h) for y in range(S) for h in range(H) if kinds[y, h] >= 0]
    listed = []
    for x, y_true in zip(X, truth, strict=True):
        features = np.zeros((len(items), (D + bool(bias)) * B))
        for line, (y, h) in zip(features, items, strict=True):
            if kinds[y, h] == 1:
                row = x if x.ndim == 1 else x[h]
                line[: D * B].reshape(D, B)[:, vector_of[y, h]] = row
                if bias:
                    line[D * B + vector_of[y, h]] = bias
        outputs = np.array([y for y, _ in items])
        listed.append(reference.Listed(features, MATRIX[y_true][outputs], outputs, int(y_true), items))
    return listed


def table_data(seed, form, bias, n=6):
    rng = np.random.default_rng(seed)
    kinds, truth = draw_kinds(rng), np.arange(n) % S
    X = rng.normal(size=(n, D) if form == "one row" else (n, H, D))
    if form == "sparse":
        X = X * (rng.random(X.shape) < 0.5)
    listed = list_table(X, truth, kinds, bias)
    given_X = X
    if form == "needed rows":
        given_X = X[:, (kinds == 1).any(axis=0)]
    elif form in ("list", "sparse"):
        given_X = [sparse.csr_array(x) if form == "sparse" else x for x in X]
    task = LatentMulticlass(weights="state", costs=MATRIX, bias=bias, states=kinds, labels=LABELS)
    Y = [LABELS[y] for y in truth]
    task.learn(given_X, Y)
    return rng, task, task.prepare(given_X, Y), listed, given_X, Y


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(FORMS), st.sampled_from([0.0, 1.5]), st.sampled_from([0.0, 1.0, 1e3]))
def test_a_table_of_states_is_the_enumeration(seed, form, bias, scale):
    rng, task, batch, listed, _, _ = table_data(seed, form, bias)
    assert task.n_features == listed[0].features.shape[1]
    w = scale * rng.normal(size=task.n_features)
    for output in (0.0, 0.3, 1.0):
        for latent in (0.0, 0.3, 1.0):
            compare(task, batch, listed, w, Temperature(output, latent))
            compare(task, batch, listed, w, Temperature(output, latent), rows=np.array([4, 0, 5]))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(FORMS), st.sampled_from([0.0, 0.7]), st.sampled_from([0.0, 0.5, 1.0]))
def test_answers_of_a_table_of_states(seed, form, bias, latent):
    rng, task, batch, listed, X, _ = table_data(seed, form, bias)
    w = rng.normal(size=task.n_features)
    decoded = task.decode(task.prepare(X), w, Temperature(0.0, latent))
    for example, prediction in zip(listed, decoded, strict=True):
        pooled = reference.pool(example, w, "free", 0.0, latent)
        y, h = example.items[int(pooled.shares.argmax())]
        assert (prediction.y, prediction.h) == (LABELS[y], h)
        close(prediction.score, pooled.value)
    best = [reference.pool(example, w, "clamped") for example in listed]
    states = [example.items[int(p.shares.argmax())][1] for example, p in zip(listed, best, strict=True)]
    assert task.complete(batch, w) == states
    close(task.completion_planes(batch, states).dot(w), [p.value for p in best])
    pooled = [[reference.smax(e.features[e.outputs == y] @ w, latent)[0] for y in range(S)] for e in listed]
    close(task.scores(batch, w, latent), pooled)
    shares = [reference.pool(e, w, "free", 0.5, latent).shares for e in listed]
    expected = [[s[e.outputs == y].sum() for y in range(S)] for e, s in zip(listed, shares, strict=True)]
    close(task.marginals(batch, w, Temperature(0.5, latent)), expected)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(FORMS), st.sampled_from([0.5, 1.0, 2.0]))
def test_renyi_pooling_of_a_table_of_states(seed, form, order):
    rng, task, batch, listed, X, _ = table_data(seed, form, 1.0)
    w = rng.normal(size=task.n_features)
    for example, values, prediction in zip(
        listed, task.renyi_scores(batch, w, order), task.renyi_decode(task.prepare(X), w, order), strict=True
    ):
        scores = example.features @ w
        for y in range(S):
            s = scores[example.outputs == y]
            p = np.exp(s) / np.exp(s).sum()
            pooled = p @ s if order == 1 else np.log((np.exp(order * s)).sum() / np.exp(s).sum()) / (order - 1)
            close(values[y], pooled)
        y = int(values.argmax())
        places = np.flatnonzero(example.outputs == y)
        assert prediction[:2] == (LABELS[y], example.items[places[scores[places].argmax()]][1])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(FORMS), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.0, 0.3]))
def test_renyi_planes_of_a_table_of_states_are_the_enumeration(seed, form, order, output):
    rng, task, batch, listed, _, _ = table_data(seed, form, 1.0)
    w = rng.normal(size=task.n_features)
    compare_renyi(task, batch, listed, w, order, output)
    compare_renyi(task, batch, listed, w, order, output, rows=np.array([4, 0, 5]))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(FORMS), st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.5]))
def test_totals_of_some_examples_are_the_sums_of_their_planes(seed, form, bias, temperature):
    rng, task, batch, _, _, _ = table_data(seed, form, bias)
    w, rows, weights = rng.normal(size=task.n_features), np.array([4, 0, 5]), rng.random(3)
    for mode in ("free", "augmented", "clamped"):
        pooling = batch, w, mode, Temperature(temperature, temperature)
        total, planes = task.total(*pooling, weights, rows), task.planes(*pooling, rows).total(weights)
        close(total.slope, planes.slope)
        close(total.offset, planes.offset)


@pytest.mark.parametrize("form", ["all rows", "one row"])
def test_a_table_of_states_keeps_the_contract(form):
    _, task, _, _, X, Y = table_data(3, form, 1.0)
    check_task(clone(task), X, Y)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(FORMS))
def test_starts_have_weights(seed, form):
    rng, task, batch, _, _, _ = table_data(seed, form, 0.0, n=12)
    for start in (task.random_latents(batch, rng), task.initial_latents(batch, rng, 0)):
        task.completion_planes(batch, start)
        with_weights = (task.vector_of_ >= 0)[batch.truth]
        assert (with_weights[np.arange(12), start] | ~with_weights.any(axis=1)).all()


def trained(seed, zeroed=0.5, bias=1.0, n=12, kind=LatentSSVM, n_states=5):
    """An estimator with random weights, of which some states' are zero; the largest of a class are never."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, n_states, D)), [LABELS[i % S] for i in range(n)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(LatentMulticlass(weights="state", bias=bias), C=0.1, solver="subgradient", max_iter=1).fit(X, Y)
    by_state = rng.normal(size=(D + bool(bias), S, n_states)) * (rng.random((S, n_states)) >= zeroed)
    model.coef_ = by_state.ravel()
    return rng, model, X, Y, np.sqrt((by_state**2).sum(axis=0))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([0.2, 0.6, 1.0]),
    st.sampled_from([LatentSSVM, MarginalSSVM, MinEntropySSVM]),
)
def test_without_zero_states_predictions_are_the_same(seed, bias, zeroed, kind):
    _, model, X, Y, norms = trained(seed, zeroed, bias, kind=kind)
    close(model.states_, norms)
    pruned = model.prune()
    assert int((pruned.task_.vector_of_ >= 0).sum()) == np.maximum((norms > 0).sum(axis=1), 1).sum()
    needed = pruned.task_.needed_states_
    unread = X.copy()
    unread[:, np.setdiff1d(np.arange(X.shape[1]), needed)] = np.nan
    for given_X in (X, X[:, needed], np.asfortranarray(X), list(X)) + ((unread,) if len(needed) < X.shape[1] else ()):
        assert pruned.predict(given_X).tolist() == model.predict(X).tolist()
        assert pruned.predict_latent(given_X) == model.predict_latent(X)
        assert pruned.complete(given_X, Y) == model.complete(X, Y)
        close(pruned.decision_function(given_X), model.decision_function(X))
    close(pruned.states_, model.states_)
    close(model.states_, norms)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_what_pruning_keeps(seed, data):
    _, model, X, _, norms = trained(seed)
    zeros, per_class = data.draw(st.sampled_from(["keep", "drop"])), data.draw(st.booleans())
    largest = norms.max(axis=1)
    if data.draw(st.booleans()):
        count = data.draw(st.integers(1 if per_class else S, norms.shape[1] if per_class else norms.size))
        pruned = model.prune(n_states=count, per_class=per_class, zeros=zeros)
        kept = pruned.task_.vector_of_ >= 0
        for group in range(S) if per_class else [slice(None)]:
            mine, there = kept[group], norms[group]
            assert mine.sum() <= count or not per_class
            spare = there[~mine].max(initial=0.0)
            if spare > 0:
                assert mine.sum() == count
                others = mine & (there < largest[group] if per_class else there < largest[:, None])
                assert there[others].min(initial=np.inf) >= spare
    else:
        share = data.draw(st.floats(0, 0.99))
        pruned = model.prune(tolerance=share, per_class=per_class, zeros=zeros)
        kept = pruned.task_.vector_of_ >= 0
        above = norms > share * (largest[:, None] if per_class else norms.max())
        best = np.arange(norms.shape[1]) == norms.argmax(axis=1)[:, None]
        assert (kept == above | best).all()
    assert kept.any(axis=1).all()
    assert ((pruned.task_.vector_of_ == -1) == ((norms == 0) & ~kept & (zeros == "keep"))).all()
    np.testing.assert_array_equal(pruned.task_.needed_states_, np.flatnonzero(kept.any(axis=0)))
    # The smaller model is the larger one with the other states forbidden.
    scores = np.einsum("nhd,dyh->nyh", np.insert(X, D, 1.0, axis=2), model.coef_.reshape(D + 1, S, -1))
    scores[:, pruned.task_.vector_of_ == -2] = -np.inf
    close(pruned.decision_function(X), scores.max(axis=2))
    close(pruned.states_, np.where(kept, norms, 0.0))


def test_pruned_models_are_saved_pruned_and_trained_again(tmp_path):
    _, model, X, Y, _ = trained(5, zeroed=0.4, n=30)
    pruned = model.prune(n_states=6)
    pruned.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for given_X in (X, X[:, pruned.task_.needed_states_]):
        assert again.predict(given_X).tolist() == pruned.predict(given_X).tolist()
        assert again.predict_latent(given_X) == pruned.predict_latent(given_X)
    np.testing.assert_array_equal(again.task_.vector_of_, pruned.task_.vector_of_)
    # What was forgotten stays so, and what scores 0 goes on to.
    twice = again.prune(n_states=4)
    assert ((pruned.task_.vector_of_ == -2) <= (twice.task_.vector_of_ == -2)).all()
    assert ((pruned.task_.vector_of_ == -1) == (twice.task_.vector_of_ == -1)).all()
    table = pruned.task_.vector_of_.copy()
    trained_again = pruned.set_params(solver="auto", max_iter=None, C=1.0).fit(X, Y)
    np.testing.assert_array_equal(trained_again.task_.vector_of_, table)
    assert len(trained_again.coef_) == int((table >= 0).sum()) * (D + 1)
    listed = table != -2
    latents = np.array(trained_again.complete(X, Y))
    assert listed[[LABELS.index(y) for y in Y], latents].all()
    # The same states in other places are another structure, whose weights nobody should start from.
    other = clone(trained_again).set_params(warm_start=True).fit(X, Y)
    earlier = other.objective_
    other.task = clone(other.task).set_params(states=np.roll(np.asarray(other.task.states), 1, axis=1))
    cold = clone(other).fit(X, Y)
    assert other.fit(X, Y).objective_ == cold.objective_ != earlier


def test_groups_of_weights():
    _, model, *_ = trained(1)
    task = model.task_
    weights = np.arange(task.n_features).reshape(D + 1, S, 5)
    for shared in (False, True):
        groups = task.state_groups(shared)
        assert groups.shape == (task.n_features,)
        for y in range(S):
            for h in range(5):
                assert set(groups[weights[:, y, h]]) == {h if shared else y * 5 + h}
    pruned = model.prune(n_states=4).task_
    y, h = np.nonzero(pruned.vector_of_ >= 0)
    np.testing.assert_array_equal(pruned.state_groups(), np.tile(5 * y + h, D + 1))
    views = LatentMulticlass()
    views.learn(np.ones((2, 3, 2)), [0, 1])
    with raises("weights", got="'class'", expected="'state' for groups of states"):
        views.state_groups()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"n_states": 0}, "an integer from 3 to 15"),
        ({"n_states": 2}, "an integer from 3 to 15"),
        ({"n_states": 16}, "an integer from 3 to 15"),
        ({"n_states": 4.0}, "an integer"),
        ({"n_states": True}, "an integer"),
        ({"n_states": 0, "per_class": True}, "an integer from 1 to 5"),
        ({"n_states": 6, "per_class": True}, "an integer from 1 to 5"),
        ({"tolerance": 0.1, "n_states": 4}, "None if `n_states` is given"),
        ({"tolerance": -0.1}, "a number of at least 0 and below 1"),
        ({"tolerance": np.nan}, "a number"),
        ({"tolerance": 1.0}, "below 1"),
        ({"tolerance": "small"}, "a number"),
        ({"zeros": "forget"}, "'keep' or 'drop'"),
    ],
)
def test_bad_pruning(settings, expected):
    _, model, *_ = trained(1)
    with raises(next(iter(settings)), expected=expected):
        model.prune(**settings)


def test_other_models_have_no_states():
    plain = StructuralSVM(Multiclass()).fit(np.eye(3), [0, 1, 2])
    views = LatentSSVM(LatentMulticlass()).fit(np.random.default_rng(0).normal(size=(9, 2, 2)), np.arange(9) % 3)
    for model in (plain, views, LatentSSVM(LatentMulticlass(weights="state"))):
        assert not hasattr(model, "states_")
        with pytest.raises(AttributeError, match=r"has no states_: it is not fitted, or its task.*weights='state'"):
            model.states_  # noqa: B018
    for model, name in ((plain, "Multiclass"), (views, "LatentMulticlass")):
        with raises("task", got=f"{name}()", expected="LatentMulticlass(weights='state')"):
            model.prune()
    with pytest.raises(AttributeError, match="vector_of_ is only available"):
        views.task_.vector_of_  # noqa: B018


def test_pruned_inputs_in_the_wrong_form():
    _, model, X, Y, _ = trained(0)
    pruned = model.prune(n_states=3, zeros="drop")
    needed = pruned.task_.needed_states_
    assert len(needed) < 4
    with raises("X[0]", got="4 rows", expected=f"5 rows, or {len(needed)} rows"):
        pruned.predict(X[:, :4])
    with raises("X[1]", got="4 rows", expected="5 rows, or 3 rows for the states [1, 3, 4]"):
        pruned.predict([X[0], X[1, :4]])
    broken = X.copy()
    broken[7, needed[-1], 1] = np.inf
    for given_X, place in ((broken, needed[-1]), (broken[:, needed], len(needed) - 1)):
        for method, data in ((pruned.predict, (given_X,)), (pruned.complete, (given_X, Y))):
            with raises("X[7]", got=f"inf at row {place}, column 1", expected="finite"):
                method(*data)
    lost = np.flatnonzero(pruned.task_.vector_of_[0] == -2)[0]
    with raises("latents[0]", got=str(lost), expected="a state that class 'a' has"):
        pruned.task_.completion_planes(pruned.task_.prepare(X, Y), np.full(len(X), lost))


@pytest.mark.parametrize(
    ("more", "parameter", "got", "expected"),
    [
        ({"states": np.ones((2, 5), dtype=int)}, "states", "", "integers of shape (3, 5), one row per class"),
        ({"states": np.ones((3, 5))}, "states", "", "integers of shape (3, 5), one row per class"),
        ({"states": np.full((3, 5), 2)}, "states", "", "1 (the state has weights), 0"),
        ({"states": np.full((3, 5), -2)}, "states", "", "1 (the state has weights), 0"),
        ({"states": np.array([[1] * 5, [-1] * 5, [1] * 5])}, "states[1]", "", "a row with at least one state"),
        ({"states": np.zeros((3, 5), dtype=int)}, "states", "", "a table with at least one state with weights"),
        ({"states": np.ones(5, dtype=int)}, "states", "shape (5,)", "an array of shape (S, H)"),
        ({"states": np.ones((3, 5), dtype=int), "weights": "class"}, "states", "", "None unless `weights` is"),
        ({"states": np.ones((3, 5), dtype=int), "n_states": 4}, "states", "", "an array of shape (S, 4)"),
    ],
)
def test_bad_tables_of_states(more, parameter, got, expected):
    X = np.random.default_rng(0).normal(size=(6, 5, 2))
    with raises(parameter, got=got, expected=expected):
        LatentMulticlass(**{"weights": "state", **more}).learn(X, [0, 1, 2, 0, 1, 2])


def test_blocks_of_examples_join(monkeypatch):
    """Examples are scored in blocks, whose size changes nothing."""
    rng, model, X, Y, _ = trained(2, n=23)
    task, w, weights = model.task_, model.coef_, rng.random(23)
    batch = task.prepare(X, Y)
    for mode in ("free", "augmented", "clamped"):
        monkeypatch.setattr("latentstruct.tasks.classes.states.BLOCK", 2048)
        whole, planes = task.total(batch, w, mode, HARD, weights), task.planes(batch, w, mode, HARD)
        predicted = model.predict_latent(X)
        monkeypatch.setattr("latentstruct.tasks.classes.states.BLOCK", 5)
        parts = task.total(batch, w, mode, HARD, weights)
        close(parts.slope, whole.slope, 1e-12)
        close(parts.slope, planes.total(weights).slope, 1e-12)
        close(parts.offset, whole.offset, 1e-12)
        assert model.predict_latent(X) == predicted


def test_rows_of_states_of_different_lengths():
    with raises("states", got="rows of different lengths", expected="an array"):
        StateTable.checked([[1], [1, 1]], 2, 2)


def path_data(seed, n=40, n_states=3):
    """Two classes that differ in the first feature of one state each, unlike from example to example."""
    rng = np.random.default_rng(seed)
    X, Y = 0.5 * rng.normal(size=(n, n_states, D)), np.arange(n) % 2
    X[np.arange(n), rng.integers(0, 2, n), 0] += 2.0 * (2 * Y - 1)
    return rng, X, Y


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["states", "shared_states"]), st.booleans(), st.sampled_from([0.0, 2.0]))
def test_no_weights_are_better_than_zero_at_the_largest_strength(seed, groups, weighted, bias):
    rng = np.random.default_rng(seed)
    kinds, X, truth = draw_kinds(rng), rng.normal(size=(8, H, D)), rng.integers(0, S, 8)
    truth[:S] = np.arange(S)
    task = LatentMulticlass(weights="state", costs=MATRIX, bias=bias, states=kinds)
    task.learn(X, truth)
    n_groups = task.n_state_groups(groups == "shared_states")
    factors = rng.uniform(0.5, 2.0, n_groups) if weighted else 1.0
    model = LatentSSVM(task, C=0.7, regularizer=GroupNorm(groups, factors))
    norm = GroupNorm(groups, largest_strength(model, X, truth) * factors)
    batch = task.prepare(X, truth)
    objective = build_objective(task, batch, np.full(8, 0.7), HARD, regularizer=norm)
    at_zero = objective.value(np.zeros(task.n_features))
    gradient = objective.value_and_gradient(np.zeros(task.n_features))[1]
    for scale in (1e-3, 0.1, 1.0, 10.0):
        sparse_w = rng.normal(size=task.n_features) * (task.state_groups() == rng.choice(task.state_groups()))
        for w in (rng.normal(size=task.n_features), sparse_w, -gradient):
            assert objective.value(scale * w) >= at_zero - 1e-9


def test_a_path_of_strengths():
    _, X, Y = path_data(0)
    seen = []
    task = LatentMulticlass(weights="state", bias=1.0)
    path = groupnorm_path(
        LatentSSVM(task, C=0.5), X, Y, n_strengths=4, ratio=5e-2, callback=lambda *found: seen.append(found)
    )
    assert len(path) == len(seen) == 4
    assert [strength for strength, _ in seen] == path.strengths.tolist() == sorted(path.strengths)
    close(path.strengths[0], 5e-2 * path.strengths[-1])
    assert path.coefs.shape == (4, 2 * 3 * (D + 1))
    assert path.norms.shape == (4, 2, 3)
    for k in range(4):
        model = path.model(k)
        assert model is seen[k][1]
        close(model.regularizer.weights, path.strengths[k])
        close(path.norms[k], np.linalg.norm(path.coefs[k].reshape(D + 1, 2, 3), axis=0))
        close(path.objectives[k], model.objective_)
        assert path.n_states[k] == (path.norms[k] > 0).sum()
        batch = model.task_.prepare(X, Y)
        norm = GroupNorm("states", path.strengths[k])
        objective = build_objective(model.task_, batch, np.full(40, 0.5), HARD, regularizer=norm)
        close(model.objective_, objective.value(path.coefs[k]))
        if k:
            assert model.objective_ <= objective.value(path.coefs[k - 1]) + 1e-9
    assert path.n_states[0] > 0
    assert path.n_states[-1] == 0
    close(path.objectives[-1], 0.5 * 40)
    assert path.model(0).score(X, Y) > 0.8
    pruned = path.model(0).prune()
    assert pruned.predict(X).tolist() == path.model(0).predict(X).tolist()


def test_strengths_first_latents_and_the_end_are_the_users():
    rng, X, Y = path_data(1)
    task = LatentMulticlass(weights="state", bias=1.0)
    first, quick = rng.integers(0, 3, len(Y)), Proximal(smoothing=())
    path = groupnorm_path(
        LatentSSVM(task, C=1.0, solver=quick),
        X,
        Y,
        strengths=[5.0, 1.0, 2.0],
        H=first,
        callback=lambda strength, model: strength >= 2.0,
    )
    assert path.strengths.tolist() == [1.0, 2.0]
    alone = LatentSSVM(task, C=1.0, regularizer=GroupNorm("states", 1.0), solver=quick).fit(X, Y, H=first)
    close(path.coefs[0], alone.coef_)
    solver = Proximal(smoothing=(), max_iter=500)
    model = LatentSSVM(task, C=1.0, solver=solver, regularizer=GroupNorm("shared_states"))
    solved = groupnorm_path(model, X, Y, strengths=[2.0])
    assert solved.model(0).solver.max_iter == 500
    assert solved.model(0).regularizer.groups == "shared_states"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"task": LatentMulticlass()}, "LatentMulticlass(weights='state')"),
        ({"task": Multiclass()}, "LatentMulticlass(weights='state')"),
        ({"n_strengths": 0}, "an integer of at least 1"),
        ({"n_strengths": 2.5}, "an integer of at least 1"),
        ({"ratio": 0}, "a number above 0 and below 1"),
        ({"ratio": 1.5}, "a number above 0 and below 1"),
        ({"strengths": []}, "at least one finite number"),
        ({"strengths": [1.0, 0.0]}, "at least one finite number, all above 0"),
        ({"strengths": [np.nan]}, "at least one finite number"),
        ({"strengths": "strong"}, "real numbers"),
        ({"X": np.zeros((40, 3, D))}, "different from 0"),
        ({"C": "a"}, "a finite number above 0"),
        ({"C": 0}, "a finite number above 0"),
        ({"C": np.nan}, "a finite number above 0"),
        ({"C": 0, "strengths": [1.0]}, "a finite number above 0"),
        ({"regularizer": GroupNorm([[0, 1]])}, "a GroupNorm of the groups 'states' or 'shared_states'"),
        ({"regularizer": L2()}, "a GroupNorm of the groups 'states' or 'shared_states'"),
        ({"solver": Proximal}, "a solver such as"),
        ({"solver": 3}, "a solver such as"),
        ({"solver": "best"}, "'auto', 'block_ascent'"),
        ({"callback": 3}, "a function or None"),
        ({"max_seconds": 0}, "a number above 0 or None"),
        ({"max_seconds": "long"}, "a number above 0 or None"),
    ],
)
def test_bad_paths(settings, expected):
    _, X, Y = path_data(0)
    with raises(next(iter(settings)), expected=expected):
        of_path = {"n_strengths", "ratio", "strengths", "callback", "max_seconds", "X"} & settings.keys()
        of_model = {name: value for name, value in settings.items() if name not in of_path}
        model = LatentSSVM(**{"task": LatentMulticlass(weights="state"), "C": 1.0, **of_model})
        groupnorm_path(model, **{"X": X, "Y": Y, **{name: settings[name] for name in of_path}})


def test_weights_of_a_path_are_one_per_group():
    _, X, Y = path_data(0)
    task = LatentMulticlass(weights="state")
    with raises("weights", got="shape (5,)", expected="shape (6,)"):
        groupnorm_path(LatentSSVM(task, regularizer=GroupNorm(weights=np.ones(5))), X, Y)
    with raises("weights", expected="above 0"):
        groupnorm_path(LatentSSVM(task, regularizer=GroupNorm(weights=np.zeros(6))), X, Y)
    with raises("groups", got="'angles'", expected="'states', 'shared_states', an array of shape (d,)"):
        groupnorm_path(LatentSSVM(task, regularizer=GroupNorm("angles")), X, Y)
    with raises("estimator", expected="a LatentSSVM"):
        groupnorm_path(task, X, Y)


def test_solvers_of_a_path_have_names_too():
    _, X, Y = path_data(2)
    task = LatentMulticlass(weights="state")
    solvers = ("auto", "proximal", Proximal())
    named = [groupnorm_path(LatentSSVM(task, C=1.0, solver=one), X, Y, strengths=[5.0]) for one in solvers]
    for path in named[1:]:
        np.testing.assert_array_equal(path.coefs, named[0].coefs)


class Interrupting(Proximal):
    """Is interrupted in the second iteration where the norm is strong."""

    def minimize(self, objective, w0=None, *, state=None, callback=None, checkpointer=None):
        def interrupt(line):
            if objective.regularizer.weights_[0] >= 1.0 and line.iteration == 2:
                raise KeyboardInterrupt
            return callback is not None and callback(line)

        return super().minimize(objective, w0, state=state, callback=interrupt)


def test_an_interrupted_path_keeps_what_it_has():
    _, X, Y = path_data(1)
    task, called = LatentMulticlass(weights="state"), []
    with pytest.warns(ConvergenceWarning) as heard:
        path = groupnorm_path(
            LatentSSVM(task, C=1.0, solver=Interrupting()),
            X,
            Y,
            strengths=[0.1, 1.0, 5.0],
            callback=lambda *found: called.append(found[0]),
        )
    assert any(
        str(line.message).startswith("the path stopped early (interrupted) after 2 of 3 strengths;") for line in heard
    )
    assert path.strengths.tolist() == [0.1, 1.0]
    assert [model.stop_reason_ for model in path.models] == ["converged", "interrupted"]
    assert called == [0.1]

    def interrupt(strength, model):
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match=r"stopped early \(interrupted\) after 1 of 2 strengths"):
        assert len(groupnorm_path(LatentSSVM(task, C=1.0), X, Y, strengths=[0.1, 1.0], callback=interrupt)) == 1


def test_a_path_tells_of_its_progress_and_ends_in_time(capsys):
    _, X, Y = path_data(1)
    task = LatentMulticlass(weights="state")
    quick = LatentSSVM(task, C=1.0, solver=Proximal(smoothing=()))
    path = groupnorm_path(quick, X, Y, strengths=[2.0, 5.0], verbose=True, max_seconds=1e6)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(path) == 2
    assert lines[1].startswith(
        f"strength   2 of 2  λ 5  objective {path.objectives[1]:.6g}  {path.n_states[1]} of 6 st"
    )
    free = groupnorm_path(quick, X, Y, strengths=[2.0, 5.0])
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(free.coefs, path.coefs)
    with pytest.warns(ConvergenceWarning, match=r"the path stopped early \(max_seconds\) after 1 of 2 strengths"):
        short = groupnorm_path(quick, X, Y, strengths=[2.0, 5.0], max_seconds=1e-9)
    assert short.model(0).stop_reason_ == "callback"
    assert len(short) == len(short.strengths) == 1


def test_what_cannot_be_drawn():
    unfitted = LatentSSVM(LatentMulticlass(weights="state"))
    for model in (3, unfitted):
        with raises("model", expected="fitted with LatentMulticlass(weights='state')"):
            plot_states(model)
    with raises("path", got="[1]", expected="a GroupNormPath"):
        plot_path([1])


def test_pictures_of_states():
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    _, X, Y = path_data(0)
    path = groupnorm_path(LatentSSVM(LatentMulticlass(weights="state"), C=1.0), X, Y, strengths=[0.1, 1.0])
    model = path.model(0)
    bars = plot_states(model, [-12.0, 0.0, 12.0])
    np.testing.assert_allclose([bar.get_height() for bar in bars.patches], model.states_.ravel())
    assert [label.get_text() for label in bars.get_xticklabels()] == ["-12", "0", "12"]
    lines = plot_path(path, Figure().add_subplot())
    np.testing.assert_allclose([line.get_ydata() for line in lines.lines], path.norms.reshape(2, -1).T)
    assert [text.get_text() for text in lines.get_legend().get_texts()] == ["0", "1"]
    counts = next(ax for ax in lines.figure.axes if ax is not lines)
    np.testing.assert_array_equal(counts.lines[0].get_ydata(), path.n_states)
    with raises("names", got="2 names", expected="a sequence of 3 names"):
        plot_states(model, ["left", "right"])
    pyplot.close("all")
