"""Elastic nets, orthant-wise descent and weights of seen pairs: optimality, certificates, zeros, and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct import CRF, OWLQN, Chain, ElasticNet, HiddenCRF, Multiclass, StructuredEstimator, load
from latentstruct.core.protocols import Query, Temperature
from latentstruct.exceptions import FormatError


def draw(seed, lengths=(3, 0, 4, 2, 5), n_inputs=12, unknown=0.0, dense=False):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, 4, t) for t in lengths]
    X = [(rng.random((len(y), n_inputs)) < 0.2) * rng.normal(size=(len(y), n_inputs)) for y in Y]
    if dense:
        X = [x + 1.0 for x in X]
    Y[0][:] = [0, 1, 2]
    Y[2][:] = [3, 0, 1, 2]
    hidden = [np.where(rng.random(len(y)) < unknown, -1, y).tolist() for y in Y]
    hidden[2] = Y[2].tolist()
    return X, hidden


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=5), st.floats(0, 2), st.floats(0.1, 2), st.floats(-2, 2))
def test_the_elastic_net_agrees_with_a_search(numbers, l1, l2, offset):
    w, net = np.array(numbers), ElasticNet(l1, l2)
    assert net.value(w) == pytest.approx(l1 * np.abs(w).sum() + 0.5 * l2 * w @ w)
    grid = np.linspace(-40, 40, 16001)[:, None]
    proximal = 0.5 * (grid - w) ** 2 + 0.5 * (l1 * np.abs(grid) + 0.5 * l2 * grid**2)
    assert np.allclose(net.prox(w, 0.5), grid[proximal.argmin(axis=0), 0], atol=0.01)
    linear = l1 * np.abs(grid) + 0.5 * l2 * grid**2 + w * grid
    assert net.least(w) == pytest.approx(linear.min(axis=0).sum(), abs=1e-3)
    hinge = [net.value(v) + max(0.0, offset + w @ v) for v in -np.linspace(0, 3, 50)[:, None] * w]
    assert net.lower_bound(w, offset) <= min(hinge) + 1e-9


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_sparse_weights_are_optimal(seed, seen_only, dense):
    X, Y = draw(seed, dense=dense)
    model = CRF(Chain(bias=True), C=1.0, l1=0.3, tol=1e-8, seen_only=seen_only).fit(X, Y)
    assert model.certified_
    # Optimality: the slope of the loss is −w − l1 sign(w), and at most l1 where w = 0.
    batch = model.task_.prepare(X, Y)
    sides = [
        model.task_.total(batch, model.coef_, mode, Temperature(1.0, 0.0), np.ones(len(X))).slope
        for mode in ("free", "clamped")
    ]
    slope, w = sides[0] - sides[1], model.coef_
    inside = np.ones(len(w), dtype=bool)
    if seen_only:
        inside[:] = False
        inside[model.task_.seen_weights(batch).places] = True
        assert not w[~inside].any()
    active = w != 0
    assert np.allclose(slope[active], -w[active] - 0.3 * np.sign(w[active]), atol=1e-2)
    assert (np.abs(slope[inside & ~active]) <= 0.3 + 1e-2).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.sampled_from(["free", "clamped"]))
def test_sums_over_seen_pairs_are_parts_of_all_sums(seed, dense, blocks, mode):
    X, Y = draw(seed, unknown=0.3, dense=dense)
    task = Chain(start=blocks, end=blocks, bias=blocks, labels=[0, 1, 2, 3])
    task.learn(X, Y)
    batch, rng = task.prepare(X, Y), np.random.default_rng(seed)
    selection = task.seen_weights(batch)
    w = np.zeros(task.n_features)
    w[selection.places] = rng.normal(size=len(selection.places))
    for rows in (None, np.array([0, 3, 4])):
        weights = rng.uniform(0.5, 2.0, len(X) if rows is None else len(rows))
        soft = Temperature(1.0, 1.0)
        found = selection.total(batch, Query(w[selection.places], mode, soft, rows, weights))
        expected = task.total(batch, w, mode, soft, weights, rows)
        assert np.allclose(found.slope, expected.slope[selection.places])
        assert found.offset == pytest.approx(expected.offset)


def test_pairs_are_seen_if_a_labeling_that_agrees_has_them():
    X = [np.eye(5)[[0, 1]], np.eye(5)[[2, 3]]]
    labels, Y = list(range(6)), [[0, 1], [-1, {1, 2}]]
    task = Chain(labels)
    task.learn(X, Y)
    places = task.seen_weights(task.prepare(X, Y)).places
    # Feature 3 has two of six labels, and so all; feature 4 does not occur.
    assert sorted(places.tolist()) == [0, 7, *range(12, 24), *range(30, 66)]


@pytest.mark.parametrize("C", [0.1, 2.0])
def test_training_over_seen_pairs_has_the_objective_that_it_reports(C):
    X, Y = draw(3)
    model = CRF(Chain(), C=C, seen_only=True, tol=1e-6).fit(X, Y)
    assert model.certified_
    assert model.coef_.shape == (model.task_.n_features,)
    assert model.objective_ == pytest.approx(0.5 * model.coef_ @ model.coef_ - C * model.log_probability(X, Y).sum())
    assert model.objective_ >= CRF(Chain(), C=C, tol=1e-6).fit(X, Y).objective_ - 1e-9


def test_hidden_crfs_may_be_sparse():
    X, Y = draw(4, unknown=0.4)
    for options in ({"l1": 0.2}, {"seen_only": True}, {"l1": 0.2, "seen_only": True, "restarts": 2}):
        model = HiddenCRF(Chain(labels=[0, 1, 2, 3]), **options).fit(X, Y)
        net = ElasticNet(options.get("l1", 0.0))
        assert model.objective_ == pytest.approx(net.value(model.coef_) - model.log_probability(X, Y).sum())


def test_more_l1_gives_more_zeros_and_zeros_alone_at_the_end():
    X, Y = draw(5)
    counts = [np.count_nonzero(CRF(Chain(), l1=l1).fit(X, Y).coef_) for l1 in (0.05, 0.5)]
    assert counts[0] > counts[1] > 0


def test_other_structures_are_sparse_too(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 40)
    X = np.column_stack([np.eye(3)[y] + 0.5 * rng.normal(size=(40, 3)), rng.normal(size=(40, 10))])
    model = CRF(Multiclass(), l1=2.0).fit(X, y)
    assert (model.coef_ == 0).mean() > 0.3
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").l1 == 2.0
    general = StructuredEstimator(Multiclass(), temperature=(1, 0), margin=False, regularizer=ElasticNet(2.0)).fit(X, y)
    assert general.objective_ == pytest.approx(model.objective_, rel=2e-3)


def test_checkpoints_and_early_stopping_see_all_weights(tmp_path):
    X, Y = draw(6)
    sizes = []
    options = {"C": 1.0, "seen_only": True, "tol": 1e-5}
    model = CRF(Chain(), **options, max_iter=3)
    with pytest.warns(match="max_iter"):
        model.fit(X, Y, checkpoint=tmp_path / "state", callback=lambda line: sizes.append(line.w))
    resumed = CRF(Chain(), **options).fit(X, Y, checkpoint=tmp_path / "state")
    assert resumed.n_iter_ > 3
    assert resumed.objective_ == pytest.approx(CRF(Chain(), **options).fit(X, Y).objective_, rel=1e-4)
    again = CRF(Chain(), **options).fit(X, Y, coef_init=resumed.coef_)
    assert again.n_iter_ <= 2


def test_refusals():
    X, Y = draw(7)
    with raises("l1"):
        CRF(Chain(), l1=-1.0).fit(X, Y)
    with raises("l1"):
        HiddenCRF(Chain(), l1=1.0, regularizer=ElasticNet()).fit(X, Y)
    with raises("seen_only"):
        CRF(Multiclass(), seen_only=True).fit(np.eye(3), [0, 1, 2])
    with raises("solver"):
        CRF(Chain(), solver=OWLQN()).fit(X, Y)
    with raises("solver"):
        CRF(Chain(), l1=1.0, solver="lbfgs").fit(X, Y)


def test_compact_files_hold_the_weights_that_are_not_zero(tmp_path):
    X, Y = draw(8, n_inputs=200)
    model = CRF(Chain(), l1=0.3).fit(X, Y)
    model.save(tmp_path / "whole")
    model.save(tmp_path / "small", compact=True)
    again = load(tmp_path / "small")
    assert np.array_equal(again.coef_, model.coef_.astype(np.float32))
    sizes = [next((tmp_path / name).glob("weights-*")).stat().st_size for name in ("whole", "small")]
    assert sizes[1] < sizes[0]
    again.coef_ = 1e300 * model.coef_
    with raises("compact"):
        again.save(tmp_path / "large", compact=True)


@pytest.mark.parametrize(
    "wrong", [{"coef_places": [0, 0]}, {"coef_places": [5, 9]}, {"coef_size": [1]}, {"coef_size": None}]
)
@pytest.mark.parametrize("l1", [0.0, 0.3])
def test_damaged_compact_files_are_refused(tmp_path, wrong, l1):
    from safetensors.numpy import load_file, save_file

    X, Y = draw(8)
    CRF(Chain(), l1=l1).fit(X, Y).save(tmp_path / "model", compact=True)
    path = next((tmp_path / "model").glob("weights-*"))
    found = load_file(path)
    found |= {name: np.array([] if value is None else value) for name, value in wrong.items()}
    save_file(found, path)
    with raises(error=FormatError):
        load(tmp_path / "model")


@pytest.mark.parametrize("seen_only", [False, True])
def test_dropping_weights_keeps_the_certificate(seen_only):
    X, Y = draw(9)
    model = CRF(Chain(), C=1.0, tol=1e-5, seen_only=seen_only).fit(X, Y)
    small = model.drop_weights(X, Y, max_increase=0.02)
    assert np.count_nonzero(small.coef_) < np.count_nonzero(model.coef_)
    kept = small.coef_ != 0
    assert np.array_equal(small.coef_[kept], model.coef_[kept])
    assert np.abs(model.coef_[~kept]).max() <= np.abs(model.coef_[kept]).min()
    assert small.objective_ <= 1.02 * model.objective_ + 1e-9
    assert small.objective_ == pytest.approx(0.5 * small.coef_ @ small.coef_ - small.log_probability(X, Y).sum())
    assert small.lower_bound_ == model.lower_bound_
    assert np.array_equal(model.drop_weights(X, Y, max_increase=0.0).coef_, model.coef_)
    with raises("X"):
        model.drop_weights([x[:, :3] for x in X], Y)
