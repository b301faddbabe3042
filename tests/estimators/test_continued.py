"""Training that continues from a model: new data, labels and features."""

import numpy as np
import pytest

from error_fields import raises
from latentstruct import CRF, Chain, HiddenCRF, Multiclass, StructuralSVM


def draw(seed, n=12, n_labels=3, n_inputs=4):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, n_labels, 5).tolist() for _ in range(n)]
    return [np.eye(n_inputs)[y] + 0.3 * rng.normal(size=(5, n_inputs)) for y in Y], Y


def test_training_on_the_same_data_continues_where_it_ended():
    X, Y = draw(0)
    first = CRF(Chain(start=True, bias=True), tol=1e-6).fit(X, Y)
    again = CRF(Chain(start=True, bias=True), tol=1e-6).fit(X, Y, init=first)
    assert again.n_iter_ <= 2
    assert again.objective_ == pytest.approx(first.objective_, rel=1e-5)


def test_new_labels_and_columns_begin_at_zero_and_old_ones_are_kept():
    X, Y = draw(1)
    names = [["a", "b", "c"][label] for label in range(3)]
    first = CRF(Chain(end=True)).fit(X, [[names[label] for label in y] for y in Y])
    wider = [np.column_stack([x, np.ones(5)]) for x in X]
    new = [["d" if label == 0 else names[label] for label in y] for y in Y]
    limited = CRF(Chain(start=True, end=True), max_iter=1)
    with pytest.warns(match="max_iter"):
        limited.fit(wider, new, init=first)
    task = limited.task_
    assert task.labels_.labels == ["a", "b", "c", "d"]
    w = task.weights_from(first.task_, first.coef_)
    scores = task.planes(task.prepare(wider), w, "free", first._temperature()).values
    assert np.isfinite(scores).all()
    for known in ([names[label] for label in y] for y in Y[:3]):
        old = first.task_.planes(first.task_.prepare(X[:1], [known]), first.coef_, "clamped", first._temperature())
        now = task.planes(task.prepare(wider[:1], [known]), w, "clamped", first._temperature())
        assert now.values == pytest.approx(old.values)


def test_models_of_other_kinds_continue_too():
    X, Y = draw(2)
    first = CRF(Chain()).fit(X, Y)
    half = [[-1, *y[1:]] for y in Y]
    assert HiddenCRF(Chain()).fit(X, half, init=first).score(X, Y) > 0.8
    rows, classes = np.concatenate(X), np.concatenate(Y)
    start = StructuralSVM(Multiclass()).fit(rows, classes)
    assert StructuralSVM(Multiclass()).fit(rows, classes, init=start).n_iter_ <= start.n_iter_


def test_refusals():
    X, Y = draw(3)
    first = CRF(Chain()).fit(X, Y)
    with raises("X"):
        CRF(Chain()).fit([x[:, :2] for x in X], Y, init=first)
    with raises("labels"):
        CRF(Chain(labels=[2, 1])).fit(X[:1], [[1, 2, 1, 2, 1]], init=first)
    with raises("init"):
        CRF(Chain()).fit(X, Y, init=first, coef_init=first.coef_)
    with raises("init"):
        CRF(Multiclass()).fit(np.eye(3), [0, 1, 2], init=first)
    start = CRF(Multiclass()).fit(np.eye(3), [0, 1, 2])
    with raises("init"):
        CRF(Multiclass()).fit(np.eye(4), [0, 1, 2, 3], init=start)
