"""Classes with latent states against enumeration, their starts, training and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from test_tasks import close, compare

import reference
from error_fields import raises
from latentstruct import LatentMulticlass, LatentSSVM, Multiclass, StructuralSVM, Temperature, load
from latentstruct.testing import check_task

HARD = Temperature()
LABELS = ["a", "b", "c"]
MATRIX = np.array([[0.0, 2.0, 0.5], [1.5, 0.0, 0.25], [3.0, 1.0, 0.0]])
KINDS = ("views", "ragged", "own weights", "mixture")


def list_states(X, truth, costs, kind, bias=0.0):
    """All (y, h): weight f·B + b belongs to feature f and vector b = y, or y·H + h; the B bias weights come last."""
    n_labels, d = len(costs), X[0].shape[-1]
    listed = []
    for x, y_true in zip(X, truth, strict=True):
        n_states = 3 if kind == "mixture" else len(x)
        B = n_labels * (n_states if kind in ("own weights", "mixture") else 1)
        items = [(y, h) for y in range(n_labels) for h in range(n_states)]
        features = np.zeros((len(items), (d + bool(bias)) * B))
        for line, (y, h) in zip(features, items, strict=True):
            b = y if kind in ("views", "ragged") else y * n_states + h
            for f in range(d):
                line[f * B + b] = x[f] if kind == "mixture" else x[h][f]
            if bias:
                line[d * B + b] = bias
        outputs = np.array([y for y, _ in items])
        listed.append(reference.Listed(features, np.array(costs)[y_true][outputs], outputs, int(y_true), items))
    return listed


def state_data(kind, seed=0, n=6, d=2):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    if kind == "mixture":
        return rng, rng.normal(size=(n, d)), truth
    if kind == "ragged":
        return rng, [rng.normal(size=(h, d)) for h in rng.integers(1, 5, n)], truth
    return rng, rng.normal(size=(n, 4, d)), truth


def task_of(kind, **more):
    return {
        "views": LatentMulticlass(**more),
        "ragged": LatentMulticlass(**more),
        "own weights": LatentMulticlass(weights="state", **more),
        "mixture": LatentMulticlass(n_states=3, weights="state", **more),
    }[kind]


def learned(kind, X, truth, **more):
    task = task_of(kind, **more)
    Y = [LABELS[y] for y in truth]
    task.learn(X, Y)
    return task, task.prepare(X, Y), Y


def as_sparse(X, kind):
    return sparse.csr_array(X) if kind == "mixture" else [sparse.csr_array(x) for x in X]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [0.0, 1.5])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_states_are_the_enumeration(kind, bias, form):
    rng, X, truth = state_data(kind)
    if form == "sparse":
        X = [x * (rng.random(x.shape) < 0.5) for x in X]
    listed = list_states(X, truth, MATRIX, kind, bias)
    given_X = as_sparse(np.array(X) if kind == "mixture" else X, kind) if form == "sparse" else X
    task, batch, _ = learned(kind, given_X, truth, costs=MATRIX, bias=bias)
    assert task.n_features == listed[0].features.shape[1]
    for scale in (0.0, 1.0, 1e4):
        w = scale * rng.normal(size=task.n_features)
        for output in (0.0, 0.3, 1.0):
            for latent in (0.0, 0.3, 1.0):
                compare(task, batch, listed, w, Temperature(output, latent))
        compare(task, batch, listed, w, HARD, rows=np.array([4, 0, 5]))
        compare(task, batch, listed, w, Temperature(0.3, 1.0), rows=np.array([4, 0, 5]))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.sampled_from([0.0, 0.7]), st.sampled_from([0.0, 0.5, 1.0]))
def test_predictions_and_completions(kind, seed, bias, latent):
    rng, X, truth = state_data(kind, seed)
    listed = list_states(X, truth, MATRIX, kind, bias)
    task, batch, Y = learned(kind, X, truth, costs=MATRIX, bias=bias)
    w = rng.normal(size=task.n_features)
    decoded = task.decode(task.prepare(X), w, Temperature(1.0, latent))
    for example, prediction in zip(listed, decoded, strict=True):
        pooled = reference.pool(example, w, "free", 0.0, latent)
        y, h = example.items[int(pooled.shares.argmax())]
        assert (prediction.y, prediction.h) == (LABELS[y], h)
        close(prediction.score, pooled.value)
    outputs = [p.y for p in decoded]
    assert task.collect(outputs).tolist() == outputs
    close(task.loss(Y, outputs), [MATRIX[LABELS.index(y), LABELS.index(o)] for y, o in zip(Y, outputs, strict=True)])
    assert task.score(Y, outputs) == np.mean([y == o for y, o in zip(Y, outputs, strict=True)])
    completed = task.complete(batch, w)
    best = [reference.pool(example, w, "clamped") for example in listed]
    assert completed == [example.items[int(p.shares.argmax())][1] for example, p in zip(listed, best, strict=True)]
    planes, clamped = task.completion_planes(batch, completed), task.planes(batch, w, "clamped", HARD)
    close(planes.slopes().toarray(), clamped.slopes().toarray())
    assert planes.rows is clamped.rows
    scores = [[max(e.features[e.outputs == y] @ w) for y in range(3)] for e in listed]
    close(task.scores(batch, w), scores)
    soft = [reference.pool(e, w, "free", 0.5, latent).shares for e in listed]
    expected = [[s[e.outputs == y].sum() for y in range(3)] for e, s in zip(listed, soft, strict=True)]
    close(task.marginals(batch, w, Temperature(0.5, latent)), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_states_keep_the_contract(kind):
    _, X, truth = state_data(kind)
    check_task(task_of(kind, bias=1.0), X, [LABELS[y] for y in truth])


@pytest.mark.parametrize("kind", KINDS)
def test_starts_fit_and_differ(kind):
    _, X, truth = state_data(kind, n=30)
    task, batch, _ = learned(kind, X, truth)
    w = np.random.default_rng(3).normal(size=task.n_features)
    values = task.planes(batch, w, "clamped", HARD).values
    starts = []
    for attempt in range(3):
        for start in (task.random_latents, lambda b, rng, a=attempt: task.initial_latents(b, rng, a)):
            latents = start(batch, np.random.default_rng(attempt))
            assert (task.completion_planes(batch, latents).dot(w) <= values + 1e-9).all()
            assert latents == start(batch, np.random.default_rng(attempt))
        starts.append(tuple(latents))
    assert len(set(starts)) > 1


def test_clusters_within_classes_are_the_start_of_a_mixture():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
    part = rng.integers(0, 4, 60)
    X, y = centers[part] + rng.normal(size=(60, 2)), np.isin(part, [1, 2]).astype(int)
    task = LatentMulticlass(n_states=2, weights="state", bias=1.0)
    task.learn(X, y)
    states = np.array(task.initial_latents(task.prepare(X, y), rng, 0))
    for a, b in ((0, 3), (1, 2)):
        assert len(set(states[part == a])) == len(set(states[part == b])) == 1
        assert states[part == a][0] != states[part == b][0]
    # Exclusive or, which no single weight vector a class can do.
    model = LatentSSVM(LatentMulticlass(n_states=2, weights="state", bias=5.0), C=1.0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert StructuralSVM(Multiclass(bias=5.0), C=1.0).fit(X, y).score(X, y) < 0.9
    # Equal inputs and small classes leave fewer clusters than states.
    X[y == 0] = 1.0
    assert set(task.initial_latents(task.prepare(X, y), rng, 1)) <= {0, 1}
    assert task.initial_latents(task.prepare(X[:1], y[:1]), rng, 0) == [0]


def test_one_state_is_multiclass():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % 3
    plain = StructuralSVM(Multiclass(bias=1.0), C=0.5, tol=1e-7).fit(X, y)
    for task, given_X in (
        (LatentMulticlass(bias=1.0), X[:, None]),
        (LatentMulticlass(n_states=1, weights="state", bias=1.0), X),
    ):
        model = LatentSSVM(task, C=0.5, solver="block_ascent", tol=1e-7).fit(given_X, y)
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-3)
        assert model.objective_ == pytest.approx(plain.objective_, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_models_are_saved(kind, tmp_path):
    _, X, truth = state_data(kind, n=12)
    Y = [LABELS[y] for y in truth]
    model = LatentSSVM(task_of(kind, costs=MATRIX, bias=1.0), C=1.0).fit(X, Y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.predict_latent(X) == model.predict_latent(X)
    assert again.complete(X, Y) == model.complete(X, Y)


ROWS = np.ones((2, 3))


@pytest.mark.parametrize(
    ("task", "X", "parameter", "got", "expected"),
    [
        (LatentMulticlass(), ROWS, "X", "", "an array of shape (n, H, d), one row per"),
        (LatentMulticlass(weights="state"), ROWS, "X", "", "an array of shape (n, H, d), one row per"),
        (LatentMulticlass(n_states=2), ROWS, "X", "", "an array of shape (n, H, d), one row per"),
        (LatentMulticlass(), sparse.csr_array(ROWS), "X", "", "an array of shape (n, H, d), one row per"),
        (LatentMulticlass(), [np.ones((2, 3)), np.ones((0, 3))], "X[1]", "0 rows", "at least one row"),
        (LatentMulticlass(), [np.ones((2, 3)), np.ones((2, 4))], "X[1]", "", "rows with 3 features"),
        (LatentMulticlass(), [[[1.0], [1.0, 2.0]], [[1.0]]], "X[0]", "", "a matrix of real numbers"),
        (LatentMulticlass(weights="state", states=[[1], [1, 1]]), np.ones((2, 2, 3)), "states", "", "an array"),
        (LatentMulticlass(n_states=3), np.ones((2, 4, 3)), "X[0]", "4 rows", "3 rows, one per state"),
        (LatentMulticlass(weights="state"), [np.ones((2, 3)), np.ones((3, 3))], "X[1]", "", "2 rows, one per"),
        (LatentMulticlass(), np.full((2, 4, 3), np.nan), "X[0]", "nan at row 0, column 0", "finite"),
        (LatentMulticlass(), np.ones((2, 2, 2, 2)), "X[0]", "", "two-dimensional (items, features)"),
        (LatentMulticlass(weights="both"), np.ones((2, 4, 3)), "weights", "'both'", "'class' or 'state'"),
        (LatentMulticlass(n_states=0), np.ones((2, 4, 3)), "n_states", "", "an integer from 1 to 1000000"),
        (LatentMulticlass(n_states=2.5), np.ones((2, 4, 3)), "n_states", "", "an integer from 1 to 1000000"),
        (LatentMulticlass(bias=np.inf), np.ones((2, 4, 3)), "bias", "inf", "a finite number, 0 for none"),
        (LatentMulticlass(labels=["a"]), np.ones((2, 4, 3)), "label", "", "one of the known labels 'a'"),
        (LatentMulticlass(costs=np.ones((3, 3))), np.ones((2, 4, 3)), "costs", "", "an array of shape (2, 2)"),
    ],
)
def test_bad_data(task, X, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        task.learn(X, ["a", "b"])


def test_prediction_needs_the_form_of_training():
    task = LatentMulticlass(weights="state")
    task.learn(np.ones((2, 4, 3)), ["a", "b"])
    with raises("X", got="5 features", expected="rows with 3 features, as in training"):
        task.prepare(np.ones((2, 4, 5)))
    with raises("X", got="2 rows per example", expected="an input with 4 rows per example, as in training"):
        task.prepare(np.ones((2, 2, 3)))
    with raises("label", got="'z'", expected="one of the known labels 'a', 'b'"):
        task.prepare(np.ones((2, 4, 3)), ["a", "z"])
    mixture = LatentMulticlass(n_states=4, weights="state")
    mixture.learn(np.ones((2, 3)), ["a", "b"])
    with raises("X", got="4 rows per example", expected="an input with one row per example, as in training"):
        mixture.prepare(np.ones((2, 4, 3)))
    views = LatentMulticlass()
    views.learn(np.ones((2, 4, 3)), ["a", "b"])
    assert views.prepare(np.ones((5, 2, 3))).sizes.tolist() == [2] * 5


@pytest.mark.parametrize(
    ("latents", "parameter", "got", "expected"),
    [
        ([0], "latents", "1 latents", "a sequence of 2 latents"),
        ([0, 4], "latents[1]", "4", "a state from 0 to 3"),
        ([-1, 0], "latents[0]", "-1", "a state from 0 to 3"),
        ([0.0, 1.0], "latents", "", "2 integers, the index of a state per example"),
        ([[0], [1]], "latents", "", "2 integers, the index of a state per example"),
    ],
)
def test_bad_states(latents, parameter, got, expected):
    task = LatentMulticlass()
    task.learn(np.ones((2, 4, 3)), ["a", "b"])
    with raises(parameter, got=got, expected=expected):
        task.completion_planes(task.prepare(np.ones((2, 4, 3)), ["a", "b"]), latents)
