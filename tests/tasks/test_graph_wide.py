"""Wide graphs with bounded or exact maxima: bounds enclose the exact values, and gaps after training are proven."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latentstruct import Graph, LatentSSVM, StructuralSVM, grid_graph
from latentstruct.core.protocols import HARD, Query
from latentstruct.inference import engine
from latentstruct.inference.bounds import Bounds

WIDE = ("bounds", "toulbar2")


def make_data(seed, n=4, side=4, missing=0.0):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, 3, (2, 2)).repeat(side // 2, 0).repeat(side // 2, 1).ravel() for _ in range(n)]
    X = [grid_graph(np.eye(3)[y].reshape(side, side, 3) + rng.normal(size=(side, side, 3))) for y in Y]
    return X, [np.where(rng.random(len(y)) < missing, -1, y).tolist() for y in Y]


@pytest.fixture(params=WIDE, scope="module")
def wide(request):
    if request.param == "toulbar2":
        pytest.importorskip("pytoulbar2")
    return request.param


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), mode=st.sampled_from(["free", "augmented"]))
def test_values_and_bounds_enclose_the_maxima(wide, seed, mode):
    X, Y = make_data(seed, missing=0.2)
    exact, bounded = Graph(), Graph(max_entries=9, wide=wide)
    answers = []
    for task in (exact, bounded):
        task.learn(X, Y)
        w = np.random.default_rng(seed).normal(size=task.n_features)
        batch = task.prepare(X, Y)
        answers.append(task.pool_batch(batch, Query(w, mode, HARD)))
    maxima, found = answers
    assert np.all(maxima.exact)
    scale = 1e-6 * np.abs(maxima.values).max()
    assert np.all(found.values <= maxima.values + scale)
    assert np.all(found.values + found.excess >= maxima.values - scale)
    # The plane of the assignment is below, and tight where its value says.
    heights = found.slopes.dot(w) + found.losses
    np.testing.assert_allclose(heights, found.values, atol=1e-8)


def test_the_gap_of_training_is_proven(wide):
    X, Y = make_data(0)
    exact = StructuralSVM(Graph(), C=1.0, tol=1e-2).fit(X, Y)
    model = StructuralSVM(Graph(max_entries=9, wide=wide), C=1.0, tol=1e-2).fit(X, Y)
    assert exact.certified_
    assert model.certified_
    assert model.relative_gap_ >= 0.0
    # Both intervals have the same minimum.
    assert model.lower_bound_ <= exact.objective_ * (1 + 1e-9)
    assert exact.lower_bound_ <= model.objective_ * (1 + 1e-9)


def test_propagation_has_no_certificate():
    X, Y = make_data(0)
    model = StructuralSVM(Graph(max_entries=9), C=1.0, tol=1e-2).fit(X, Y)
    assert not model.certified_
    assert model.relative_gap_ >= 0.0


def test_unknown_labels_are_completed(wide):
    X, Y = make_data(1, missing=0.3)
    model = LatentSSVM(Graph(max_entries=9, wide=wide), C=1.0, tol=1e-2).fit(X, Y)
    labels = model.predict(X)
    assert all(set(y) <= {0, 1, 2} for y in labels)
    assert model.relative_gap_ >= 0.0


def test_bounds_are_relative_to_the_value_that_is_returned(monkeypatch):
    X, Y = make_data(2)
    task = Graph(max_entries=9, wide="toulbar2")
    task.learn(X, Y)
    w = np.random.default_rng(0).normal(size=task.n_features)
    batch = task.prepare(X, Y)
    upper = 1e3
    nothing = Bounds(-np.inf, upper, np.zeros(16, dtype=np.int64))
    monkeypatch.setattr(engine, "maximize", lambda *_: nothing)
    found = task.pool_batch(batch, Query(w, "free", HARD))
    np.testing.assert_allclose(found.values + found.excess, upper)
    assert not np.any(found.exact)


def test_messages_of_other_weights_do_not_loosen_bounds_of_later_ones():
    X, Y = make_data(3)
    exact, bounded = Graph(), Graph(max_entries=9, wide="bounds")
    rng = np.random.default_rng(0)
    for task in (exact, bounded):
        task.learn(X, Y)
    batches = [task.prepare(X, Y) for task in (exact, bounded)]
    for _ in range(5):
        w = rng.normal(size=exact.n_features)
        maxima, found = (
            task.pool_batch(batch, Query(w, "augmented", HARD))
            for task, batch in zip((exact, bounded), batches, strict=True)
        )
        assert np.all(found.values <= maxima.values + 1e-8)
        assert np.all(found.values + found.excess >= maxima.values - 1e-8)
