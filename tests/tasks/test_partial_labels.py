"""Chains with sets of labels and soft labels: enumeration, training, scores, storage and refusals."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tasks import MATRIX, MODES, close

import reference
from error_fields import raises
from latentstruct import CRF, Chain, HiddenCRF, LatentSSVM, MarginalSSVM, load
from latentstruct.core.protocols import Temperature
from latentstruct.testing import check_task

LABELS = ["a", "b", "c"]


def draw_label(rng):
    """Draw a known label, an unknown one, a set or a soft label."""
    some = [label for label in LABELS if rng.random() < 0.6] or ["b"]
    soft = dict(zip(some, rng.uniform(0.1, 1.0, len(some)), strict=True))
    return [str(rng.choice(LABELS)), -1, set(some), soft][rng.integers(4)]


def draw(seed, lengths=(3, 0, 2, 4, 1)):
    rng = np.random.default_rng(seed)
    return rng, [rng.normal(size=(t, 2)) for t in lengths], [[draw_label(rng) for _ in range(t)] for t in lengths]


def evidence_of(label, other):
    """What a true label adds to the score of a label in clamped mode."""
    if label == -1:
        return 0.0
    if isinstance(label, dict):
        return np.log(label[other] / sum(label.values())) if other in label else -np.inf
    return 0.0 if other in (label if isinstance(label, set) else {label}) else -np.inf


def cost_of(label, number, costs):
    if label == -1:
        return 0.0
    allowed = {label} if isinstance(label, str) else label
    return min(costs[LABELS.index(one)][number] for one in allowed)


def soft_max(values, temperature):
    """The maximum at a temperature, and its derivatives."""
    shares = np.exp((values - values.max()) / temperature) if temperature else values == values.max()
    shares = shares / shares.sum() if temperature else np.eye(len(values))[np.argmax(values)]
    used = shares > 0
    entropy = -(shares[used] * np.log(shares[used])).sum()
    return shares[used] @ values[used] + temperature * entropy, shares


def enumerate_pool(x, y, w, mode, temperature, costs, blocks):
    """Value, expected features and expected constant of all labelings of a sequence: latents first, then outputs."""
    known = [t for t, label in enumerate(y) if isinstance(label, str)]
    items = list(product(range(3), repeat=len(y)))
    features = np.array([reference.chain_features(x, item, 3, x.shape[1], **blocks) for item in items])
    constants = np.zeros(len(items))
    if mode == "augmented":
        constants = np.array([sum(cost_of(y[t], item[t], costs) for t in range(len(y))) for item in items])
    elif mode == "clamped":
        constants = np.array([sum(evidence_of(y[t], LABELS[item[t]]) for t in range(len(y))) for item in items])
    scores, groups = features @ w + constants, {}
    for number, item in enumerate(items):
        groups.setdefault(tuple(item[t] for t in known), []).append(number)
    inner = [soft_max(scores[group], temperature.latent) if np.isfinite(scores[group]).any() else None
             for group in groups.values()]  # fmt: skip
    value, outer = soft_max(np.array([-np.inf if one is None else one[0] for one in inner]), temperature.output)
    shares = np.zeros(len(items))
    for group, one, share in zip(groups.values(), inner, outer, strict=True):
        if one is not None:
            shares[group] = share * one[1]
    used = shares > 0
    return value, shares @ features, shares[used] @ constants[used]


TEMPERATURES = st.sampled_from((0.0, 0.4, 1.0))


@settings(deadline=None, max_examples=120)
@given(
    seed=st.integers(0, 10**6),
    output=TEMPERATURES,
    latent=TEMPERATURES,
    costs=st.sampled_from((None, MATRIX)),
    ends=st.booleans(),
    scale=st.sampled_from((0.3, 1.0, 30.0)),
)
def test_planes_are_the_enumeration(seed, output, latent, costs, ends, scale):
    rng, X, Y = draw(seed)
    Y[0][0] = {"a", "c"}
    temperature, blocks = Temperature(output, latent), {"start": ends, "end": ends, "bias": False}
    task = Chain(labels=LABELS, costs=costs, start=ends, end=ends)
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    assert task.latent
    assert batch.half_labeled
    w, weights = scale * rng.normal(size=task.n_features), rng.random(len(X))
    table = 1.0 - np.eye(3) if costs is None else costs
    for mode in MODES:
        expected = [enumerate_pool(x, y, w, mode, temperature, table, blocks) for x, y in zip(X, Y, strict=True)]
        values, features, constants = (np.array(part) for part in zip(*expected, strict=True))
        planes = task.planes(batch, w, mode, temperature)
        close(planes.values, values)
        close(planes.slopes().toarray(), features)
        close(planes.offsets + planes.dot(w), values)
        total = task.total(batch, w, mode, temperature, weights)
        close(total.slope, weights @ features)
        close(total.entropy, weights @ (values - features @ w - constants), 1e-6)
        some = task.planes(batch, w, mode, temperature, np.array([3, 0]))
        close(some.values, values[[3, 0]])


@pytest.mark.parametrize("seed", range(4))
def test_the_contract_holds(seed):
    _, X, Y = draw(seed)
    Y[0][0], Y[3][0] = {"a", "c"}, {"a": 0.2, "b": 0.8}
    check_task(Chain(labels=LABELS), X, Y)


def test_sets_of_one_label_and_of_all_are_known_and_unknown_labels():
    _, X, Y = draw(3)
    plain = [[-1 if not isinstance(one, str) else one for one in y] for y in Y]
    as_sets = [[set(LABELS) if one == -1 else {one: 2.0} for one in y] for y in plain]
    models = [HiddenCRF(Chain(labels=LABELS), C=1.0, tol=1e-8).fit(X, given) for given in (plain, as_sets)]
    close(models[0].coef_, models[1].coef_, 1e-3)
    sets = Chain(labels=LABELS)
    sets.learn(X, as_sets)
    assert sets.loss(as_sets, [["a"] * len(y) for y in Y]).tolist() == [
        sum(one not in ("a", -1) for one in y) for y in plain
    ]


@pytest.mark.parametrize("estimator", [HiddenCRF, LatentSSVM, MarginalSSVM])
def test_sets_help_where_labels_are_confused(estimator):
    """Which of two labels holds follows from tokens whose label is known."""
    rng = np.random.default_rng(0)
    Y = [list(rng.choice(LABELS, 6)) for _ in range(60)]
    X = [np.eye(3)[[LABELS.index(label) for label in y]] + 0.3 * rng.normal(size=(6, 3)) for y in Y]
    given = [[str(one) if rng.random() < 0.2 else {str(one), "a"} for one in y] for y in Y]
    model = estimator(Chain(), C=1.0).fit(X, given)
    assert model.score(X, Y) > 0.9
    assert model.score(X, given) >= model.score(X, Y)


def test_hidden_labels_of_soft_ones_follow_their_weights():
    X = [np.ones((1, 1))] * 40
    Y = [[{"a": 0.9, "b": 0.1}] for _ in X]
    model = HiddenCRF(Chain(), C=10.0).fit(X, Y)
    assert model.predict(X[:1])[0].tolist() == ["a"]


def test_sets_are_stored_with_shards_and_returned(tmp_path):
    _, X, Y = draw(5)
    Y[0][0], Y[3][0] = {"a", "c"}, {"a": 0.25, "b": 0.75}
    task = Chain(labels=LABELS)
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    again = task.unpack(task.pack(batch))
    for y, truth in zip(Y, task.true_outputs(again), strict=True):
        for one, other in zip(y, truth, strict=True):
            expected = {k: v / sum(one.values()) for k, v in one.items()} if isinstance(one, dict) else one
            assert other == (pytest.approx(expected) if isinstance(expected, dict) and len(expected) > 1 else other)
            assert isinstance(other, dict | set) == isinstance(one, dict | set)
    damaged = {**task.pack(batch), "partial": np.full_like(batch.partial, 0.5)}
    with raises("arrays['partial']"):
        task.unpack(damaged)
    model = HiddenCRF(Chain(labels=LABELS)).fit(X, Y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").coef_, model.coef_)


@pytest.mark.parametrize(
    ("label", "got"),
    [(set(), "set()"), ({"a": 0.0}, "{'a': 0.0}"), ({"a": -1.0}, "{'a': -1.0}"), ({"a": "x"}, "{'a': 'x'}"),
     ({"z"}, "'z'"), ({"a": float("nan")}, "{'a': nan}")],
)  # fmt: skip
def test_bad_sets_are_named(label, got):
    X, Y = [np.eye(3), np.eye(3)], [["a", "b", "c"], ["a", label, "c"]]
    with raises("Y[1][1]" if label != {"z"} else "label", got=got):
        HiddenCRF(Chain(labels=LABELS)).fit(X, Y)


def test_models_without_latents_say_so():
    _, X, Y = draw(1)
    Y[0][0] = {"a", "b"}
    with raises("task", hint="HiddenCRF"):
        CRF(Chain(labels=LABELS)).fit(X, Y)
