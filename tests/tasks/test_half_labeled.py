"""Chains of which some labels are unknown: enumeration at all temperatures, completions, training and refusals."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from test_tasks import FORMS, MATRIX, MODES, assert_kernels_agree, close, compare, fill, in_form

import reference
from error_fields import raises
from latentstruct import CCCP, CRF, Bundle, Chain, LatentSSVM, StructuralSVM, StructuredEstimator, load
from latentstruct.core.protocols import Query, Temperature
from latentstruct.tasks.chain import batch as chain_batch
from latentstruct.tasks.chain.task import UNKNOWN
from latentstruct.testing import check_task

HARD, SOFT = Temperature(), Temperature(1.0, 1.0)
EQUAL = [Temperature(value, value) for value in (0.0, 0.3, 1.0)]
PAIRS = [Temperature(output, latent) for output in (0.0, 0.3, 1.0) for latent in (0.0, 0.3, 1.0)]
MIXED = [temperature for temperature in PAIRS if temperature.output != temperature.latent]
LENGTHS = (3, 0, 1, 4, 0, 2, 4)


def half_data(seed=0, lengths=LENGTHS, d=2, n_labels=3, share=0.5):
    """Sequences of which the first keeps all labels and the last none; the others lose a share of them."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(t, d)) for t in lengths]
    Y = [rng.integers(0, n_labels, t) for t in lengths]
    for k, y in enumerate(Y[1:-1], 1):
        Y[k] = np.where(rng.random(len(y)) < share, UNKNOWN, y)
    Y[-1] = np.full(lengths[-1], UNKNOWN)
    return rng, X, [y.tolist() for y in Y]


def list_half(X, Y, n_labels, costs, **blocks):
    """All labelings of each sequence; those that agree on the known tokens are completions of one output."""
    listed = []
    for x, y_true in zip(X, Y, strict=True):
        known = [t for t, y in enumerate(y_true) if y != UNKNOWN]
        items = list(product(range(n_labels), repeat=len(y_true)))
        parts = [tuple(y[t] for t in known) for y in items]
        numbers = {part: number for number, part in enumerate(dict.fromkeys(parts))}
        features = np.array([reference.chain_features(x, y, n_labels, x.shape[1], **blocks) for y in items])
        losses = np.array([sum(costs[y_true[t]][y[t]] for t in known) for y in items], dtype=float)
        outputs = np.array([numbers[part] for part in parts])
        true_output = numbers[tuple(y_true[t] for t in known)]
        listed.append(reference.Listed(features, losses, outputs, true_output, items))
    return listed


def label_marginals(example, w):
    """P(y_t = y) at temperature 1, where it does not matter which labels are latent."""
    every_labeling_an_output = replace(example, outputs=np.arange(len(example.items)))
    return reference.label_marginals(every_labeling_an_output, w, 1.0, 3)


def learned(X, Y, n_labels=3, **parameters):
    task = Chain(labels=list(range(n_labels)), **parameters)
    task.learn(X, Y)
    return task, task.prepare(X, Y)


# ---- inference -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("costs", [None, MATRIX], ids=["hamming", "matrix"])
def test_half_labeled_chains_are_the_enumeration(form, ends, bias, costs):
    rng, X, Y = half_data()
    X = [fill(x, form, rng) for x in X]
    blocks = {"start": ends, "end": ends, "bias": bias}
    task, batch = learned([in_form(x, form) for x in X], Y, costs=costs, **blocks)
    assert task.latent
    listed = list_half(X, Y, 3, 1.0 - np.eye(3) if costs is None else costs, **blocks)
    w = rng.normal(size=task.n_features)
    for temperature in PAIRS:
        compare(task, batch, listed, w, temperature)
        compare(task, batch, listed, w, temperature, rows=np.array([3, 1, 6, 5, 0]))


TEMPERATURES = st.sampled_from((0.0, 0.1, 0.3, 1.0, 5.0))


@settings(deadline=None, max_examples=120)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(0, 4), min_size=2, max_size=4).map(lambda lengths: [2, *lengths]),
    n_labels=st.sampled_from((1, 2, 3, 5)),
    share=st.floats(0.0, 1.0),
    blocks=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    temperature=st.builds(Temperature, TEMPERATURES, TEMPERATURES),
    scale=st.sampled_from((0.1, 1.0, 30.0, 1e3)),
)
def test_any_half_labeled_chain_is_the_enumeration(seed, lengths, n_labels, share, blocks, temperature, scale):
    rng, X, Y = half_data(seed, lengths, n_labels=n_labels, share=share)
    named = dict(zip(("start", "end", "bias"), blocks, strict=True))
    task, batch = learned(X, Y, n_labels, **named)
    assert task.latent == batch.half_labeled == any(UNKNOWN in y for y in Y)
    listed = list_half(X, Y, n_labels, 1.0 - np.eye(n_labels), **named)
    w = scale * rng.normal(size=task.n_features)
    compare(task, batch, listed, w, temperature)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    length=st.integers(1, 5),
    temperature=st.sampled_from(MIXED),
    scale=st.sampled_from((1.0, 1e3)),
)
def test_unknown_tokens_at_any_places(seed, length, temperature, scale):
    """Every pattern of known and unknown tokens of one length: at the ends, in runs, all and none."""
    rng = np.random.default_rng(seed)
    masks = list(product((False, True), repeat=length))
    X = [rng.normal(size=(length, 2)) for _ in masks]
    Y = [np.where(mask, UNKNOWN, rng.integers(0, 4 if length < 4 else 2, length)).tolist() for mask in masks]
    n_labels = 4 if length < 4 else 2
    task, batch = learned(X, Y, n_labels, start=True, end=True)
    listed = list_half(X, Y, n_labels, 1.0 - np.eye(n_labels), start=True, end=True)
    compare(task, batch, listed, scale * rng.normal(size=task.n_features), temperature)


def assert_same(answers):
    for found, expected in zip(*answers, strict=True):
        close(found, expected)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 1.0),
    n_labels=st.sampled_from((2, 6)),
    temperature=st.sampled_from((0.0, 0.3, 1.0)),
    scale=st.sampled_from((1.0, 30.0)),
)
def test_latents_first_is_all_at_once_at_equal_temperatures(seed, share, n_labels, temperature, scale):
    """Long runs and chains, for which there are other kernels at equal temperatures."""
    rng, X, Y = half_data(seed, (9, 60, 0, 1, 30), n_labels=n_labels, share=share)
    task, batch = learned(X, Y, n_labels, start=True)
    w = scale * rng.normal(size=task.n_features)
    equal, weights = Temperature(temperature, temperature), np.linspace(0.0, 2.0, 5)
    total = task.total(batch, w, "augmented", equal, weights)
    expected = (task.planes(batch, w, "augmented", equal).values, total.slope[task.transitions_at_ :][: n_labels**2])
    chosen = task._select(batch, Query(w, "augmented"))
    # Latents are pooled first where the temperatures differ, by however little.
    unequal = equal._replace(output=np.nextafter(temperature, 1.0))
    pooled = chain_batch.pool(chosen, task._transitions(w), unequal, weights, chain_batch.TOGETHER)
    assert_same([(pooled.values, pooled.pairs[0].ravel()), expected])
    slope = np.zeros((2, n_labels))
    batch.inputs.transposed_times(pooled.marginals, out=slope)
    close(slope.ravel(), total.slope[: task.transitions_at_])


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 1.0),
    n_labels=st.sampled_from((2, 6)),
    temperature=st.tuples(st.sampled_from((0.0, 0.1, 2.0)), st.floats(0.2, 3.0)).map(lambda pair: Temperature(*pair)),
)
def test_scores_as_wide_as_they_may_be(seed, share, n_labels, temperature):
    """Exponentials of messages serve long chains up to the widest scores they are used for."""
    rng, X, Y = half_data(seed, (9, 60, 0, 1, 30), n_labels=n_labels, share=share)
    task, batch = learned(X, Y, n_labels, start=True, bias=True)
    w = rng.normal(size=task.n_features)
    widest = np.ptp(task._transitions(w)) + 1.0
    widest += np.ptp(task._select(batch, Query(w, "free")).scores, axis=1).max()
    # Sequences without hidden tokens are pooled at ε_y alone.
    coldest = min(one for one in temperature if one > 0)
    w *= 0.99 * chain_batch.LINEAR_DOMAIN_SPREAD * coldest / widest
    assert_kernels_agree(task, batch, w, temperature)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 1.0),
    n_labels=st.sampled_from((2, 5)),
    output=st.floats(0.2, 2.0),
    latent=st.floats(0.2, 2.0),
    mode=st.sampled_from(MODES),
)
def test_slopes_are_derivatives(seed, share, n_labels, output, latent, mode):
    rng, X, Y = half_data(seed, (9, 20, 0, 1, 12), n_labels=n_labels, share=share)
    task, batch = learned(X, Y, n_labels, end=True, bias=True)
    w, direction = rng.normal(size=(2, task.n_features))
    temperature, weights = Temperature(output, latent), rng.uniform(0.0, 2.0, 5)

    def value(step):
        return weights @ task.planes(batch, w + step * direction, mode, temperature).values

    slope = task.total(batch, w, mode, temperature, weights).slope
    np.testing.assert_allclose(slope @ direction, (value(1e-5) - value(-1e-5)) / 2e-5, rtol=1e-6, atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    rows=st.lists(st.integers(0, len(LENGTHS) - 1), min_size=1, max_size=9).map(np.array),
    temperature=st.sampled_from(PAIRS),
    mode=st.sampled_from(MODES),
)
def test_sums_and_losses_of_any_sequences(seed, rows, temperature, mode):
    """Sequences in any order, some of them twice, with their expected losses."""
    rng, X, Y = half_data(seed)
    task, batch = learned(X, Y, start=True, bias=True, costs=MATRIX)
    listed = list_half(X, Y, 3, MATRIX, start=True, bias=True)
    w, weights = rng.normal(size=task.n_features), rng.uniform(0.0, 2.0, len(rows))
    expected = [reference.pool(listed[i], w, mode, *temperature) for i in rows]
    found = task.pool_batch(batch, Query(w, mode, temperature, rows))
    close(found.losses, [one.loss for one in expected])
    total = task.total(batch, w, mode, temperature, weights, rows)
    close(total.slope, weights @ [one.features for one in expected])
    close(total(w), weights @ [one.value for one in expected])
    if found.soft:
        close(total.offset - total.entropy, weights @ found.losses)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0), temperature=st.sampled_from(PAIRS))
def test_pairs_of_neighbors_and_confidence(seed, share, temperature):
    rng, X, Y = half_data(seed, share=share)
    task, batch = learned(X, Y)
    listed = list_half(X, Y, 3, 1.0 - np.eye(3))
    w = rng.normal(size=task.n_features)
    marginals, pairs = task.marginals(batch, w, temperature), task.pair_marginals(batch, w, temperature)
    decoded = task.decode(batch, w, temperature)
    confidence = task.confidence(batch, w, temperature, decoded)
    for k, example in enumerate(listed):
        length, found = len(X[k]), reference.pool(example, w, "free", *temperature)
        expected = np.zeros((max(length - 1, 0), 3, 3))
        nodes = np.zeros((length, 3))
        for share_of_item, labels in zip(found.shares, example.items, strict=True):
            nodes[np.arange(length), list(labels)] += share_of_item
            for t in range(length - 1):
                expected[t, labels[t], labels[t + 1]] += share_of_item
        close(marginals[k], nodes)
        assert pairs[k].shape == expected.shape
        close(pairs[k], expected)
        close(confidence[k], nodes[np.arange(length), decoded[k].y])
    for one, other in zip(confidence, task.confidence(batch, w, temperature, [p.y for p in decoded]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_labels_all_tokens_are_outputs():
    rng, X, Y = half_data()
    task, _ = learned(X, Y)
    w, batch = rng.normal(size=task.n_features), task.prepare(X)
    for temperature in MIXED:
        alike = Temperature(temperature.output, temperature.output)
        planes, expected = (task.planes(batch, w, "free", each) for each in (temperature, alike))
        np.testing.assert_array_equal(planes.values, expected.values)
        for found, other in zip(task.marginals(batch, w, temperature), task.marginals(batch, w, alike), strict=True):
            np.testing.assert_array_equal(found, other)


def test_planes_of_one_labeling_are_compact():
    """Where outputs are maximized, an atom for each known token and no more."""
    rng, X, Y = half_data(lengths=(40, 40, 3), share=0.0)
    task, batch = learned(X, Y)
    planes = task.planes(batch, rng.normal(size=task.n_features), "augmented", Temperature(0.0, 1.0))
    rows = planes.atoms.row[: planes.pointers[2]]
    np.testing.assert_array_equal(np.sort(rows[rows >= 0]), np.arange(80))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0), temperature=st.floats(0.1, 3.0))
def test_both_kernels_forbid_labels(seed, share, temperature):
    """The fast kernel serves long chains with scores as wide as it accepts, forbidden labels or not."""
    rng, X, Y = half_data(seed, (9, 60, 0, 1, 30), share=share)
    task, batch = learned(X, Y, start=True, bias=True)
    w = rng.normal(size=task.n_features)
    widest = np.ptp(task._transitions(w)) + 1.0
    widest += np.ptp(task._select(batch, Query(w, "free")).scores, axis=1).max()
    w *= 0.99 * temperature * chain_batch.LINEAR_DOMAIN_SPREAD / widest
    assert_kernels_agree(task, batch, w, Temperature(temperature, temperature))
    answers = []
    for limit in (np.inf, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chain_batch, "LINEAR_DOMAIN_SPREAD", limit)
            planes = task.planes(batch, w, "clamped", Temperature(temperature, temperature))
            total = task.total(batch, w, "clamped", Temperature(temperature, temperature), np.ones(5))
            answers.append((planes.values, planes.slopes().toarray(), total.slope))
    for fast, slow in zip(*answers, strict=True):
        close(fast, slow)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("parameters", [{}, {"start": True, "end": True, "bias": True, "costs": MATRIX}])
def test_half_labeled_chains_keep_the_contract(seed, parameters):
    _, X, Y = half_data(seed)
    check_task(Chain(labels=[0, 1, 2], **parameters), X, Y)


def test_nothing_missing_is_as_ever():
    rng, X, Y = half_data(share=0.0)
    half, _ = learned(X, Y)
    X, Y = X[:-1], Y[:-1]
    plain, batch = learned(X, Y)
    assert not plain.latent
    assert half.latent
    w = rng.normal(size=plain.n_features)
    for mode in MODES:
        for temperature in EQUAL:
            found = half.planes(half.prepare(X, Y), w, mode, temperature)
            for latent in (0.0, 0.5, temperature.latent):
                expected = plain.planes(batch, w, mode, Temperature(temperature.output, latent))
                for name in ("pointers", "offsets", "values"):
                    np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
                for part, other in zip(found.atoms, expected.atoms, strict=True):
                    np.testing.assert_array_equal(part, other)
    assert [p.h for p in plain.decode(batch, w, HARD)] == [None] * len(X)
    with raises("H", expected="None for Chain, which has no latent variables"):
        LatentSSVM(Chain()).fit(X, Y, H=Y)


# ---- outputs and latents ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0))
def test_predictions_and_completions_are_the_best(seed, share):
    rng, X, Y = half_data(seed, share=share)
    task, batch = learned(X, Y, costs=MATRIX, end=True)
    listed = list_half(X, Y, 3, MATRIX, end=True)
    w = rng.normal(size=task.n_features)
    decoded = task.decode(batch, w, HARD)
    completed = task.complete(batch, w)
    best = {mode: [reference.pool(e, w, mode).shares.argmax() for e in listed] for mode in ("free", "clamped")}
    expected = {mode: [e.items[k] for e, k in zip(listed, best[mode], strict=True)] for mode in best}
    assert [tuple(p.y) for p in decoded] == [tuple(p.h) for p in decoded] == expected["free"]
    assert [tuple(h) for h in completed] == expected["clamped"]
    outputs = [p.y for p in decoded]
    losses = task.loss(Y, outputs, [p.h for p in decoded])
    close(losses, [e.losses[k] for e, k in zip(listed, best["free"], strict=True)])
    assert not task.loss(Y, completed).any()
    right = [a == b for y, o in zip(Y, outputs, strict=True) for a, b in zip(y, o, strict=True) if a != UNKNOWN]
    assert task.score(Y, outputs) == np.mean(right)
    weights = rng.uniform(1.0, 2.0, len(Y))
    shares = np.repeat(weights, [sum(label != UNKNOWN for label in y) for y in Y])
    close(task.score(Y, outputs, weights), np.average(right, weights=shares))
    planes, clamped = task.completion_planes(batch, completed), task.planes(batch, w, "clamped", HARD)
    close(planes.slopes().toarray(), clamped.slopes().toarray())
    assert planes.rows is clamped.rows
    for marginals, example in zip(task.marginals(batch, w, SOFT), listed, strict=True):
        close(marginals, label_marginals(example, w))


def test_starts_fit_and_differ():
    _, X, Y = half_data(lengths=(30, 40, 0, 200))
    task, batch = learned(X, Y)
    starts = []
    for attempt in range(3):
        for rule in (task.random_latents, lambda b, rng, a=attempt: task.initial_latents(b, rng, a)):
            latents = rule(batch, np.random.default_rng(attempt))
            for y, h, again in zip(Y, latents, rule(batch, np.random.default_rng(attempt)), strict=True):
                assert h.tolist() == again.tolist()
                assert all(a in (UNKNOWN, b) for a, b in zip(y, h.tolist(), strict=True))
            starts.append(np.concatenate(latents).tobytes())
    assert len(set(starts)) == 6
    drawn = np.concatenate([task.random_latents(batch, np.random.default_rng(k))[-1] for k in range(20)])
    np.testing.assert_allclose(np.bincount(drawn) / len(drawn), 1 / 3, atol=0.03)


@pytest.mark.parametrize("names", [("N", "V"), (0.0, 1.0), (("a", 1), "b"), (False, True)])
def test_the_marker_goes_with_any_labels(names):
    X = [np.ones((3, 2)), np.ones((2, 2))]
    Y = [[names[0], UNKNOWN, names[1]], [UNKNOWN, names[0]]]
    task = Chain()
    task.learn(X, Y)
    assert task.latent
    assert set(task.labels_.labels) == set(names)
    assert task.prepare(X, Y).truth.tolist().count(UNKNOWN) == 2
    for y, h in zip(Y, task.complete(task.prepare(X, Y), np.zeros(task.n_features)), strict=True):
        assert all(label in names and known in (UNKNOWN, label) for known, label in zip(y, h, strict=True))
    assert task.prepare(X, [np.array([-1.0, -1, -1]), [np.int64(-1), -1]]).half_labeled


# ---- training --------------------------------------------------------------------------------------------


def simulate(seed, n=8, length=20, n_labels=4):
    """Hidden Markov chains: labels mostly stay or else count up, inputs are their indicators with noise."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        steps = rng.random(length) < 0.1
        y = (rng.integers(n_labels) + np.cumsum(steps)) % n_labels
        X.append(np.eye(n_labels)[y] + rng.normal(size=(length, n_labels)))
        Y.append(y)
    return rng, X, Y


def hide(rng, Y, share=0.5):
    return [np.where(rng.random(len(y)) < share, UNKNOWN, y) for y in Y]


def labeled_runs(X, Y):
    """Cut sequences into the runs of tokens whose labels are known."""
    runs = []
    for x, y in zip(X, Y, strict=True):
        known = np.flatnonzero(y != UNKNOWN)
        cuts = np.flatnonzero(np.diff(known) > 1) + 1
        runs += [(x[run], y[run]) for run in np.split(known, cuts) if len(run)]
    return [x for x, _ in runs], [y for _, y in runs]


def without_unknown_tokens(X, Y):
    return [x[y != UNKNOWN] for x, y in zip(X, Y, strict=True)], [y[y != UNKNOWN] for y in Y]


def accuracies(seed):
    """Test accuracies of a CRF and an SVM by what they were trained on."""
    rng, X, Y = simulate(seed)
    half = hide(rng, Y)
    test = simulate(1000 + seed, n=60)[1:]
    partial = StructuredEstimator(Chain(), temperature=(1, 1), margin=False)
    found = {"half": [partial.fit(X, half).score(*test), LatentSSVM(Chain(), C=0.1).fit(X, half).score(*test)]}
    known = {"runs": labeled_runs(X, half), "glued": without_unknown_tokens(X, half), "all": (X, Y)}
    for name, data in known.items():
        found[name] = [model.fit(*data).score(*test) for model in (CRF(Chain()), StructuralSVM(Chain(), C=0.1))]
    return found


def test_unknown_tokens_help_to_learn():
    """Half of the labels with all tokens: better than the labeled tokens alone, little worse than all labels.

    This is a setting chosen for a clear gain: few sequences, and labels that mostly stay, so that neighbors tell
    much. Where they tell little, the gain is within the noise.
    """
    found = [accuracies(seed) for seed in range(6)]
    half, runs, glued, full = (np.mean([f[name] for f in found], axis=0) for name in ("half", "runs", "glued", "all"))
    assert (half > runs + 0.05).all()
    assert (half > glued + 0.02).all()
    assert (half > full - 0.1).all()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_cccp_never_rises(form):
    rng, X, Y = simulate(2)
    X, half = [form(x) for x in X], hide(rng, Y, 0.7)
    for solver in (CCCP(), CCCP(Bundle()), CCCP(restarts=3)):
        model = LatentSSVM(Chain(start=True), C=0.3, solver=solver).fit(X, half)
        for start in range(solver.restarts):
            values = [line.objective for line in model.history_ if line.start == start]
            assert (np.diff(values) <= 1e-9 * np.abs(values[:-1])).all()
        assert model.objective_ < sum(np.sum(y != UNKNOWN) for y in half) * 0.3


def test_the_partial_likelihood_is_maximised():
    """½‖w‖² + Σ (log Z − log Z of what agrees) by enumeration, with a gradient of zero at the end."""
    _, X, Y = half_data(seed=4, share=0.4)
    model = StructuredEstimator(Chain(labels=[0, 1, 2]), temperature=(1, 1), margin=False, tol=1e-8).fit(X, Y)
    listed = list_half(X, Y, 3, np.zeros((3, 3)))
    w = model.coef_
    free, clamped = ([reference.pool(e, w, mode, 1.0, 1.0) for e in listed] for mode in ("free", "clamped"))
    close(model.objective_, 0.5 * w @ w + sum(a.value - b.value for a, b in zip(free, clamped, strict=True)))
    gradient = w + sum(a.features - b.features for a, b in zip(free, clamped, strict=True))
    np.testing.assert_allclose(gradient, 0.0, atol=1e-3)
    for found, example in zip(model.marginals(X), listed, strict=True):
        close(found, label_marginals(example, w))


def test_models_predict_complete_and_are_saved(tmp_path):
    rng, X, Y = simulate(3)
    half = [[UNKNOWN if y == UNKNOWN else "abcd"[y] for y in line] for line in hide(rng, Y)]
    model = LatentSSVM(Chain(), C=0.1).fit(X, half, H=[["abcd"[y] for y in line] for line in Y])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.task_.latent
    for estimator in (model, again):
        for predicted, latent, y, completed in zip(
            estimator.predict(X), estimator.predict_latent(X), half, estimator.complete(X, half), strict=True
        ):
            assert predicted.tolist() == latent.tolist()
            assert all(a in (UNKNOWN, b) for a, b in zip(y, completed.tolist(), strict=True))
    assert again.score(X, half) == model.score(X, half) > 0.6
    np.testing.assert_array_equal(again.loss(X, half), model.loss(X, half))


def test_models_saved_before_there_were_unknown_labels():
    task = Chain()
    task.restore({"labels": ["N", "V"], "n_inputs": 2})
    assert not task.latent
    assert task.state() == {"labels": ["N", "V"], "n_inputs": 2, "latent": False}


# ---- refusals --------------------------------------------------------------------------------------------

TOKENS = [np.ones((3, 2)), np.ones((1, 2))]
HALF = [["a", UNKNOWN, "b"], [UNKNOWN]]


def test_predictions_that_have_no_confidence():
    task = Chain()
    task.learn(TOKENS, HALF)
    batch, w = task.prepare(TOKENS), np.zeros(task.n_features)
    for predictions, parameter, got, expected in (
        ([["a", "a", "b"]], "predictions", "1 items", "a sequence of 2 items"),
        ([["a", "a"], ["b"]], "predictions[0]", "", "3 labels, one per token"),
        ([["a", UNKNOWN, "b"], ["b"]], "predictions", "-1 (unknown)", "a label per token"),
        ([["a", "c", "b"], ["b"]], "predictions[0][1]", "", "one of the known labels 'a', 'b'"),
    ):
        with raises(parameter, got=got, expected=expected):
            task.confidence(batch, w, SOFT, predictions)


@pytest.mark.parametrize(
    ("latents", "parameter", "got", "expected"),
    [
        ([["a", "b", "b"]], "latents", "1 latents", "a sequence of 2 latents"),
        ([["a", "b"], ["a"]], "latents[0]", "", "3 labels, one per token"),
        ([["a", "b", "a"], ["a"]], "latents[0][2]", "'a'", "the known label 'b'"),
        ([["a", "b", "b"], [UNKNOWN]], "latents[1][0]", "-1", "one of the labels"),
        ([[UNKNOWN, "b", "b"], ["a"]], "latents[0][0]", "-1", "the known label 'a'"),
        ([["a", "c", "b"], ["a"]], "latents[0][1]", "", "one of the known labels 'a', 'b'"),
        ([["a", "b", "b"], "a"], "latents[1]", "", "a list of labels, one per token"),
    ],
)
def test_latents_that_do_not_fit(latents, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        LatentSSVM(Chain()).fit(TOKENS, HALF, H=latents)


def test_labels_that_are_needed_or_wrong():
    for parameters in ({}, {"labels": ["a", "b"]}):
        with raises("Y", got="-1 (unknown) only", expected="labels with at least one known label"):
            LatentSSVM(Chain(**parameters)).fit(TOKENS, [[UNKNOWN] * 3, [UNKNOWN]])
    with raises("labels", got="['a', 'b', -1]", expected="different from -1"):
        Chain(labels=["a", "b", UNKNOWN]).learn(TOKENS, HALF)
    with raises("label", got="'b'", expected="one of the known labels 'a'"):
        Chain(labels=["a"]).learn(TOKENS, HALF)
    task = Chain()
    task.learn(TOKENS, HALF)
    for wrong, expected in (("c", "one of the known labels"), (["d"], "hashable")):
        with raises("Y[0][1]", expected=expected):
            task.prepare(TOKENS, [[UNKNOWN, wrong, "a"], ["a"]])
    for truth, predicted in (([[UNKNOWN]], [["a"]]), ([[]], [[]])):
        with raises("Y_true", expected="at least one known label"):
            task.score(truth, predicted)
    with raises("Y_pred[0][0]", got="-1", expected="a label"):
        task.score([["a"]], [[UNKNOWN]])
    for needs_labels in (task.complete, task.completion_planes, task.random_latents):
        with raises("mode", got="'clamped'", expected="'free' for a batch without true outputs"):
            needs_labels(task.prepare(TOKENS), np.zeros(task.n_features))


def test_estimators_without_latents_refuse_unknown_labels():
    for model in (CRF(Chain()), StructuralSVM(Chain()), StructuralSVM(Chain(), rescaling="slack")):
        with raises("task", got="Chain()", expected="without latent variables"):
            model.fit(TOKENS, HALF)
    with raises("rescaling", got="slack"):
        StructuredEstimator(Chain(), rescaling="slack").fit(TOKENS, HALF)
