"""Tasks against brute-force enumeration, and the public check of tasks against sound and broken ones."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import test_semi_markov
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import reference
from error_fields import raises
from latentstruct.core.oracles import RenyiOracle, SlackOracle
from latentstruct.core.protocols import Query, Temperature
from latentstruct.data.trees import Tree
from latentstruct.exceptions import InputError
from latentstruct.tasks import (
    Alignment,
    CandidateTask,
    Chain,
    ExampleTask,
    Graph,
    LatentMulticlass,
    Measure,
    Multiclass,
    Parsing,
    SemiMarkov,
)
from latentstruct.tasks.chain import batch as chain_batch
from latentstruct.tasks.graph.inputs import GraphInput
from latentstruct.testing import check_task

MODES = ("free", "augmented", "clamped")
TEMPERATURES = (0.0, 0.3, 1.0)
MATRIX = np.array([[0.0, 2.0, 0.5], [1.5, 0.0, 0.25], [3.0, 1.0, 0.0]])


def close(found, expected, precision=1e-8):
    np.testing.assert_allclose(found, expected, rtol=precision, atol=precision)


def compare(task, batch, listed, w, temperature, precision=1e-8, rows=None):
    """Values, offsets, slopes and totals of a task in all modes against the enumeration."""
    chosen = np.arange(len(listed)) if rows is None else rows
    weights = np.linspace(0.0, 2.0, len(listed))
    for mode in MODES:
        expected = [reference.pool(listed[i], w, mode, *temperature) for i in chosen]
        planes = task.planes(batch, w, mode, temperature, rows)
        close(planes.values, [e.value for e in expected], precision)
        close(planes.slopes().toarray(), [e.features for e in expected], precision)
        scale = 1.0 + max(abs(e.value) for e in expected)
        close(planes.offsets / scale, [e.offset(w) / scale for e in expected], precision)
        assert planes.all_exact
        if rows is None:
            total = task.total(batch, w, mode, temperature, weights)
            close(total.slope, weights @ np.array([e.features for e in expected]), precision)
            close(total.offset / scale, weights @ [e.offset(w) for e in expected] / scale, precision)
            entropy = weights @ [e.offset(w) - e.loss for e in expected]
            close(total.entropy / scale, entropy / scale, precision)


def compare_renyi(task, batch, listed, w, order, output_temperature, rows=None):
    """Compare planes of latents pooled by Rényi entropy with the enumeration."""
    for mode in ("free", "augmented", "clamped"):
        oracle = RenyiOracle(task, batch, np.ones(len(listed)), mode, Temperature(output_temperature, 1.0), order=order)
        planes = oracle.planes(w, rows)
        chosen = listed if rows is None else [listed[i] for i in rows]
        expected = [reference.renyi(example, w, mode, order, output_temperature) for example in chosen]
        close(planes.values, [value for value, _ in expected])
        close(planes.slopes().toarray(), [slope for _, slope in expected])
        close(planes.offsets + planes.dot(w), planes.values)
        assert not planes.exact


# ---- classes ---------------------------------------------------------------------------------------------


def class_data(seed=0, n=7, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return rng, X, np.arange(n) % 3


FORMS = ("dense", "mostly zero", "one-hot", "csr")


def fill(X, form, rng):
    """Zero most entries for the sparse forms, and make all others 1 for the one-hot one."""
    if form == "dense":
        return X
    X = X * (rng.random(X.shape) < 0.3)
    return 1.0 * (X != 0) if form == "one-hot" else X


def in_form(X, form):
    return sparse.csr_array(X) if form in ("csr", "one-hot") else X


COSTS = {
    "none": (None, 1.0 - np.eye(3)),
    "mapping": ({"b": 4.0}, np.array([[0.0, 1.0, 1.0], [4.0, 0.0, 4.0], [1.0, 1.0, 0.0]])),
    "matrix": (MATRIX, MATRIX),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_multiclass_is_the_enumeration(form, costs, bias):
    rng, X, truth = class_data()
    X = fill(X, form, rng)
    given_costs, matrix = COSTS[costs]
    task = Multiclass(costs=given_costs, bias=bias)
    Y = np.array(["a", "b", "c"])[truth]
    task.learn(in_form(X, form), Y)
    batch = task.prepare(in_form(X, form), Y)
    listed = reference.list_classes(X, truth, 3, matrix, bias)
    assert task.n_features == listed[0].features.shape[1]
    for scale in (0.0, 1.0, 1e3):
        w = scale * rng.normal(size=task.n_features)
        for output in TEMPERATURES:
            compare(task, batch, listed, w, Temperature(output))
            compare(task, batch, listed, w, Temperature(output), rows=np.array([5, 0, 2]))


def test_multiclass_predictions_marginals_and_loss():
    rng, X, truth = class_data()
    task = Multiclass(labels=["c", "a", "b"], costs=MATRIX)
    Y = np.array(["c", "a", "b"])[truth]
    task.learn(X, Y)
    batch = task.prepare(X)
    listed = reference.list_classes(X, truth, 3, MATRIX)
    w = rng.normal(size=task.n_features)
    best = [int(reference.pool(e, w, "free").shares.argmax()) for e in listed]
    decoded = task.decode(batch, w, Temperature())
    assert [p.y for p in decoded] == [["c", "a", "b"][y] for y in best]
    assert task.collect([p.y for p in decoded]).tolist() == [p.y for p in decoded]
    close([p.score for p in decoded], [reference.pool(e, w, "free").value for e in listed])
    close(task.loss(Y, [p.y for p in decoded]), MATRIX[truth, best])
    assert task.score(Y, [p.y for p in decoded]) == np.mean(truth == best)
    for output in (0.3, 1.0):
        shares = [reference.pool(e, w, "free", output).shares for e in listed]
        close(task.marginals(batch, w, Temperature(output)), shares)


def test_modes_that_need_the_truth_say_so():
    _, X, truth = class_data()
    task = Multiclass()
    task.learn(X, truth)
    with raises("mode", got="'augmented'", expected="'free' for a batch without true outputs"):
        task.planes(task.prepare(X), np.zeros(task.n_features), "augmented", Temperature())


# ---- chains ----------------------------------------------------------------------------------------------


def chain_data(seed=0, lengths=(3, 0, 1, 4, 0, 2), d=2, n_labels=3):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(t, d)) for t in lengths]
    truth = [rng.integers(0, n_labels, t).tolist() for t in lengths]
    return rng, X, truth


def learned_chain(X, Y, **parameters):
    task = Chain(labels=[0, 1, 2], **parameters)
    task.learn(X, Y)
    return task, task.prepare(X, Y)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_chain_is_the_enumeration(form, start, end, bias):
    rng, X, Y = chain_data()
    X = [fill(x, form, rng) for x in X]
    blocks = {"start": start, "end": end, "bias": bias}
    task, batch = learned_chain([in_form(x, form) for x in X], Y, **blocks)
    listed = reference.list_labelings(X, Y, 3, 2, 1.0 - np.eye(3), **blocks)
    assert task.n_features == listed[0].features.shape[1]
    w = rng.normal(size=task.n_features)
    for output in TEMPERATURES:
        compare(task, batch, listed, w, Temperature(output))
        compare(task, batch, listed, w, Temperature(output), rows=np.array([3, 1, 5, 0]))


@pytest.mark.parametrize("costs", [{1: 3.0}, MATRIX], ids=["mapping", "matrix"])
def test_chain_costs(costs):
    rng, X, Y = chain_data(seed=1)
    task, batch = learned_chain(X, Y, costs=costs, start=True)
    matrix = MATRIX if costs is MATRIX else np.array([[0.0, 1.0, 1.0], [3.0, 0.0, 3.0], [1.0, 1.0, 0.0]])
    listed = reference.list_labelings(X, Y, 3, 2, matrix, start=True)
    for output in TEMPERATURES:
        compare(task, batch, listed, rng.normal(size=task.n_features), Temperature(output))
    decoded = task.decode(batch, rng.normal(size=task.n_features), Temperature())
    expected = [sum(matrix[a, b] for a, b in zip(y, p.y, strict=True)) for y, p in zip(Y, decoded, strict=True)]
    close(task.loss(Y, [p.y for p in decoded]), expected)


def spread(scores):
    return float(np.ptp(scores, axis=1).max())


@pytest.mark.parametrize("scale", [1e3, 1e4, 1e5])
@pytest.mark.parametrize("output", [0.3, 1.0])
def test_chain_with_wide_score_ranges(scale, output):
    rng, X, Y = chain_data(seed=2, lengths=(4, 0, 1, 3))
    task, batch = learned_chain(X, Y, start=True, end=True, bias=True)
    listed = reference.list_labelings(X, Y, 3, 2, 1.0 - np.eye(3), start=True, end=True, bias=True)
    w = scale * rng.normal(size=task.n_features)
    chosen = task._select(batch, Query(w, "free"))
    assert spread(chosen.scores) >= chain_batch.LINEAR_DOMAIN_SPREAD * output
    compare(task, batch, listed, w, Temperature(output))


def test_chain_where_only_the_transitions_are_wide():
    rng, X, Y = chain_data(seed=3, lengths=(4, 3, 1))
    task, batch = learned_chain(X, Y)
    listed = reference.list_labelings(X, Y, 3, 2, 1.0 - np.eye(3))
    w = rng.normal(size=task.n_features)
    w[task.transitions_at_ :] *= 1e4
    compare(task, batch, listed, w, Temperature(1.0))


def test_chain_at_the_edge_of_the_linear_domain():
    """Long chains with scores as wide as the fast kernel accepts: both must agree, and nothing underflow."""
    rng, X, Y = chain_data(seed=4, lengths=(60, 1, 0, 35))
    task, batch = learned_chain(X, Y)
    w = rng.normal(size=task.n_features)
    chosen = task._select(batch, Query(w, "free"))
    wide = spread(chosen.scores) + np.ptp(task._transitions(w))
    w *= 0.999 * chain_batch.LINEAR_DOMAIN_SPREAD / wide
    assert_kernels_agree(task, batch, w, Temperature(1.0))


def assert_kernels_agree(task, batch, w, temperature):
    weights = np.linspace(0.5, 2.0, batch.n_examples)
    answers = []
    for limit in (np.inf, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chain_batch, "LINEAR_DOMAIN_SPREAD", limit)
            planes = task.planes(batch, w, "augmented", temperature)
            total = task.total(batch, w, "augmented", temperature, weights)
            marginals = np.concatenate(task.marginals(batch, w, temperature))
            # The entropy is a small difference of sums as large as the values.
            entropy = total.entropy / (1.0 + np.abs(planes.values).sum())
            answers.append((planes.values, planes.slopes().toarray(), total.slope, entropy, marginals))
    for fast, safe in zip(*answers, strict=True):
        close(fast, safe)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.0, 30.0), output=st.floats(0.1, 3.0))
def test_both_chain_kernels_agree(seed, scale, output):
    rng, X, Y = chain_data(seed=seed, lengths=(9, 0, 1, 4))
    task, batch = learned_chain(X, Y, start=True, bias=True)
    w = scale * rng.normal(size=task.n_features)
    wide = spread(task._select(batch, Query(w, "augmented")).scores) + np.ptp(task._transitions(w))
    # Wider scores never reach the linear kernel.
    assume(wide < chain_batch.LINEAR_DOMAIN_SPREAD * output)
    assert_kernels_agree(task, batch, w, Temperature(output))


def test_chain_marginals_and_decoding():
    rng, X, Y = chain_data(seed=5)
    task, batch = learned_chain(X, Y, end=True)
    listed = reference.list_labelings(X, Y, 3, 2, 1.0 - np.eye(3), end=True)
    w = rng.normal(size=task.n_features)
    for output in (0.3, 1.0):
        found = task.marginals(batch, w, Temperature(output))
        assert len(found) == len(listed)
        for marginals, example in zip(found, listed, strict=True):
            close(marginals, reference.label_marginals(example, w, output, 3))
    for prediction, example in zip(task.decode(batch, w, Temperature()), listed, strict=True):
        best = reference.pool(example, w, "free")
        assert tuple(prediction.y) == example.items[int(best.shares.argmax())]
        close(prediction.score, best.value)


def test_empty_sequences_alone_in_a_batch():
    rng, X, Y = chain_data()
    task, _ = learned_chain(X, Y, start=True, end=True, bias=True)
    batch = task.prepare([np.zeros((0, 2))] * 2, [[], []])
    w = rng.normal(size=task.n_features)
    for mode in MODES:
        for output in TEMPERATURES:
            planes = task.planes(batch, w, mode, Temperature(output))
            total = task.total(batch, w, mode, Temperature(output), np.ones(2))
            assert not planes.values.any()
            assert not planes.slopes().toarray().any()
            assert not total.slope.any()
            assert total.offset == 0.0
    assert [len(p.y) for p in task.decode(batch, w, Temperature())] == [0, 0]
    assert [len(m) for m in task.marginals(batch, w, Temperature(1.0))] == [0, 0]


def test_one_label_leaves_no_choice():
    X = [np.ones((2, 2)), np.ones((1, 2))]
    task = Chain(labels=["only"])
    task.learn(X, [["only"] * 2, ["only"]])
    batch = task.prepare(X, [["only"] * 2, ["only"]])
    w = np.array([1.0, 2.0, 0.5])
    for output in TEMPERATURES:
        for mode in MODES:
            close(task.planes(batch, w, mode, Temperature(output)).values, [6.5, 3.0])


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any),
    n_labels=st.integers(1, 3),
    blocks=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    output=st.sampled_from((0.0, 0.1, 1.0, 5.0)),
    scale=st.sampled_from((0.1, 1.0, 30.0, 1e4)),
)
def test_any_chain_is_the_enumeration(seed, lengths, n_labels, blocks, output, scale):
    rng, X, Y = chain_data(seed, lengths, n_labels=n_labels)
    named = dict(zip(("start", "end", "bias"), blocks, strict=True))
    task = Chain(labels=list(range(n_labels)), **named)
    task.learn(X, Y)
    listed = reference.list_labelings(X, Y, n_labels, 2, 1.0 - np.eye(n_labels), **named)
    w = scale * rng.normal(size=task.n_features)
    compare(task, task.prepare(X, Y), listed, w, Temperature(output))


def test_many_labels_use_all_branches_of_viterbi():
    """The kernel takes four sources at a time; these label counts reach every remainder."""
    for n_labels in range(2, 11):
        rng, X, Y = chain_data(n_labels, lengths=(3, 2), n_labels=n_labels)
        task = Chain(labels=list(range(n_labels)))
        task.learn(X, Y)
        listed = reference.list_labelings(X, Y, n_labels, 2, 1.0 - np.eye(n_labels))
        compare(task, task.prepare(X, Y), listed, rng.normal(size=task.n_features), Temperature())


# ---- candidates and examples -----------------------------------------------------------------------------


def candidate_table(seed, latent, n=6, d=4, longest=7):
    """Random candidates: for each example, outputs in mixed order, latents and features."""
    rng = np.random.default_rng(seed)
    table = []
    for _ in range(n):
        size = int(rng.integers(2, longest))
        outputs = rng.integers(0, 3, size).tolist() if latent else rng.permutation(size).tolist()
        table.append((outputs, list(range(size)) if latent else None, rng.normal(size=(size, d))))
    truth = [outputs[int(rng.integers(len(outputs)))] for outputs, _, _ in table]
    return rng, table, truth


class Table(CandidateTask):
    """Examples are the candidates themselves; the loss depends on the latent too."""

    def candidates(self, x):
        return x

    def output_loss(self, y, y_hat, h_hat):
        return abs(y - y_hat) * (1.0 + 0.1 * (h_hat or 0))


def list_candidates(table, truth):
    listed = []
    for (outputs, latents, features), y in zip(table, truth, strict=True):
        hs = latents or [0] * len(outputs)
        losses = [abs(y - y_hat) * (1.0 + 0.1 * h) for y_hat, h in zip(outputs, hs, strict=True)]
        listed.append(reference.Listed(features, np.array(losses), np.array(outputs), y, outputs))
    return listed


def learned(task, X, Y):
    task.learn(X, Y)
    return task.prepare(X, Y)


@pytest.mark.parametrize("output", TEMPERATURES)
@pytest.mark.parametrize("latent", TEMPERATURES)
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_candidates_with_latents_are_the_enumeration(output, latent, scale):
    rng, table, truth = candidate_table(0, latent=True)
    task, listed = Table(), list_candidates(table, truth)
    batch = learned(task, table, truth)
    assert task.latent
    w = scale * rng.normal(size=task.n_features)
    compare(task, batch, listed, w, Temperature(output, latent))
    compare(task, batch, listed, w, Temperature(output, latent), rows=np.array([4, 0, 3]))
    for prediction, example in zip(task.decode(batch, w, Temperature(output, latent)), listed, strict=True):
        best = reference.pool(example, w, "free", 0.0, latent)
        assert prediction.y == example.outputs[int(best.shares.argmax())]
        assert prediction.h == int(best.shares.argmax())
        close(prediction.score, best.value)


def test_candidates_without_latents_and_sparse_features():
    rng, table, truth = candidate_table(1, latent=False)
    listed = list_candidates(table, truth)
    compressed = [(outputs, None, sparse.csr_array(features)) for outputs, _, features in table]
    w = rng.normal(size=4)
    for examples in (table, compressed):
        task = Table()
        batch = learned(task, examples, truth)
        assert not task.latent
        for output in TEMPERATURES:
            compare(task, batch, listed, w, Temperature(output))


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    output=st.sampled_from((0.0, 0.05, 1.0, 4.0)),
    latent=st.sampled_from((0.0, 0.05, 1.0, 4.0)),
    mode=st.sampled_from(MODES),
)
def test_planes_of_candidates_support_the_pooled_function(seed, output, latent, mode):
    rng, table, truth = candidate_table(seed, latent=True, n=3)
    task = Table()
    batch = learned(task, table, truth)
    w, v = rng.normal(size=4), 3.0 * rng.normal(size=4)
    planes = task.planes(batch, w, mode, Temperature(output, latent))
    there = task.planes(batch, v, mode, Temperature(output, latent)).values
    assert (planes.offsets + planes.dot(v) <= there + 1e-9 * (1.0 + np.abs(there))).all()


class Digits(ExampleTask):
    """y in 0 … 3 with features x·y and y²: the four functions in plain Python."""

    def joint_feature(self, x, y):
        return np.concatenate([x * y, [y * y]])

    def output_loss(self, y, y_hat):
        return float(abs(y - y_hat))

    def argmax(self, x, w):
        return max(range(4), key=lambda y: float(self.joint_feature(x, y) @ w))

    def loss_augmented_argmax(self, x, y, w):
        return max(range(4), key=lambda z: self.output_loss(y, z) + float(self.joint_feature(x, z) @ w))


def list_digits(X, Y):
    listed = []
    for x, y in zip(X, Y, strict=True):
        features = np.array([[*(x * z), z * z] for z in range(4)])
        losses = np.array([abs(y - z) for z in range(4)], dtype=float)
        listed.append(reference.Listed(features, losses, np.arange(4), int(y), list(range(4))))
    return listed


def digit_data(seed=0, n=6):
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=(n, 3)), rng.integers(0, 4, n)


def test_example_task_is_the_enumeration():
    rng, X, Y = digit_data()
    task = Digits()
    batch = learned(task, X, Y)
    w = rng.normal(size=4)
    compare(task, batch, list_digits(X, Y), w, Temperature())
    compare(task, batch, list_digits(X, Y), w, Temperature(), rows=np.array([3, 1]))
    with raises("temperature", got="(1.0, 0.0)", expected="(0, 0) for Digits, which supports hard maxima only"):
        task.planes(batch, w, "free", Temperature(1.0))


def test_example_task_takes_sparse_features_and_may_be_inexact():
    class Sparse(Digits):
        exact = False

        def joint_feature(self, x, y):
            return sparse.csr_array(super().joint_feature(x, y)[None])

        def argmax(self, x, w):
            return Digits().argmax(x, w)

        def loss_augmented_argmax(self, x, y, w):
            return Digits().loss_augmented_argmax(x, y, w)

    rng, X, Y = digit_data()
    task, dense = Sparse(), Digits()
    w = rng.normal(size=4)
    found = task.planes(learned(task, X, Y), w, "augmented", Temperature())
    expected = dense.planes(learned(dense, X, Y), w, "augmented", Temperature())
    close(found.slopes().toarray(), expected.slopes().toarray())
    assert not found.exact
    assert not task.total(task.prepare(X, Y), w, "free", Temperature(), np.ones(6)).exact


# ---- slack rescaling -------------------------------------------------------------------------------------


def slack_classes():
    rng, X, truth = class_data(seed=6)
    task = Multiclass(costs=MATRIX, bias=0.5)
    return rng, task, learned(task, X, truth), reference.list_classes(X, truth, 3, MATRIX, 0.5)


def slack_chain():
    rng, X, Y = chain_data(seed=7)
    task, batch = learned_chain(X, Y, start=True)
    return rng, task, batch, reference.list_labelings(X, Y, 3, 2, 1.0 - np.eye(3), start=True)


def slack_chain_with_costs():
    rng, X, Y = chain_data(seed=7)
    task, batch = learned_chain(X, Y, costs=MULTIPLES)
    return rng, task, batch, reference.list_labelings(X, Y, 3, 2, MULTIPLES)


def slack_candidates():
    rng, table, truth = candidate_table(8, latent=False)
    task = Table()
    return rng, task, learned(task, table, truth), list_candidates(table, truth)


MULTIPLES = np.array([[0.0, 1.5, 0.5], [1.0, 0.0, 0.5], [2.0, 0.5, 0.0]])
SEGMENT_COSTS = np.array([[0.0, 2.0], [1.5, 0.0]])


def slack_graph():
    rng = np.random.default_rng(9)
    square = np.array([(0, 1), (1, 2), (2, 3), (3, 0)])
    graphs = [GraphInput(rng.normal(size=(4, 2)), square), GraphInput(rng.normal(size=(2, 2)), square[:1])] * 2
    truth = [rng.integers(0, 3, len(graph.features)) for graph in graphs]
    task = Graph(labels=[0, 1, 2], costs=MULTIPLES)
    batch = learned(task, graphs, truth)
    listed = []
    for graph, y in zip(graphs, truth, strict=True):
        items = list(product(range(3), repeat=len(y)))
        phi = np.zeros((len(items), task.n_features))
        numbers = np.arange(task.n_features)
        nodes, edges = task.node_weights(numbers), task.edge_weights(numbers)[0]
        for row, x in zip(phi, items, strict=True):
            for v, s in enumerate(x):
                row[nodes[:, s]] += graph.features[v]
            for a, b in graph.edges:
                row[edges[x[a], x[b]]] += 1.0
        losses = [sum(MULTIPLES[a, b] for a, b in zip(y, x, strict=True)) for x in items]
        listed.append(
            reference.Listed(phi, np.array(losses), np.arange(len(items)), items.index(tuple(y.tolist())), items)
        )
    return rng, task, batch, listed


def slack_segments():
    rng, X, Y = test_semi_markov.data(11, latent=False)
    task = SemiMarkov(test_semi_markov.LABELS, max_length=3, costs=SEGMENT_COSTS)
    batch = learned(task, X, Y)
    pairs = zip(X, Y, strict=True)
    listed = [test_semi_markov.listed(x, test_semi_markov.numbered(y), 3, SEGMENT_COSTS) for x, y in pairs]
    return rng, task, batch, listed


@pytest.mark.parametrize(
    "case",
    [slack_classes, slack_chain, slack_chain_with_costs, slack_candidates, slack_graph, slack_segments],
)
def test_slack_rescaling_is_the_enumeration(case):
    rng, task, batch, listed = case()
    weights = np.linspace(0.5, 2.0, len(listed))
    oracle = SlackOracle(task, batch, weights)
    for scale in (0.0, 0.3, 1.0, 10.0):
        w = scale * rng.normal(size=task.n_features)
        expected = [reference.slack(e, w) for e in listed]
        planes = oracle.planes(w)
        assert planes.all_exact
        close(planes.values, [value for value, _, _ in expected])
        close(planes.offsets + planes.dot(w), planes.values)
        close(oracle.total(w)(w), weights @ planes.values)
        rows = np.array([2, 0])
        close(oracle.planes(w, rows).slopes().toarray(), planes.take(rows).slopes().toarray())
        if scale:
            close(planes.slopes().toarray(), [loss * difference for _, difference, loss in expected])


def test_slack_rescaling_of_chains_with_costs_without_a_unit_is_searched_and_inexact():
    _, X, Y = chain_data()
    task, batch = learned_chain(X, Y, costs=np.pi ** np.arange(9).reshape(3, 3) * (1.0 - np.eye(3)))
    oracle = SlackOracle(task, batch, np.ones(len(X)))
    found = oracle.planes(np.full(task.n_features, 0.1))
    assert not found.exact
    assert (found.values >= 0).all()


def test_search_over_scaled_losses_is_below_slack_rescaling():
    rng, X, Y = digit_data(n=20)
    task, listed = Digits(), list_digits(X, Y)
    batch = learned(task, X, Y)
    oracle = SlackOracle(task, batch, np.ones(20))
    found_all = 0
    for scale in (0.1, 0.5, 2.0):
        w = scale * rng.normal(size=4)
        planes = oracle.planes(w)
        exact = np.array([reference.slack(e, w)[0] for e in listed])
        assert not planes.exact
        assert not oracle.total(w).exact
        assert (planes.values <= exact + 1e-9).all()
        close(planes.offsets + planes.dot(w), planes.values)
        found_all += int(np.isclose(planes.values, exact).sum())
        # Each plane is the one of some output: below the exact function everywhere.
        v = rng.normal(size=4)
        assert (planes.offsets + planes.dot(v) <= [reference.slack(e, v)[0] + 1e-9 for e in listed]).all()
    assert found_all > 30


class LargeLoss(ExampleTask):
    """Two outputs ±1 with the feature x·y, and a loss of 1000."""

    def joint_feature(self, x, y):
        return x * y

    def output_loss(self, y, y_hat):
        return 1000.0 * (y != y_hat)

    def argmax(self, x, w):
        return 1 if float(x @ w) > 0 else -1

    def loss_augmented_argmax(self, x, y, w):
        return max((1, -1), key=lambda z: self.output_loss(y, z) + float(self.joint_feature(x, z) @ w))


def test_searched_slack_rescaling_is_never_below_that_of_the_true_output():
    # The true output scores higher by 2, which no scaled loss is small enough for.
    task = LargeLoss()
    batch = learned(task, np.ones((1, 1)), [1])
    found = SlackOracle(task, batch, np.ones(1)).planes(np.ones(1))
    close(found.values, [0.0])
    close(found.offsets, [0.0])
    close(found.slopes().toarray(), [[0.0]])


# ---- check_task ------------------------------------------------------------------------------------------


def test_sound_tasks_pass():
    _, X, truth = class_data()
    check_task(Multiclass(costs=MATRIX, bias=1.0), X, truth)
    check_task(Multiclass(), sparse.csr_array(X), truth, seed=1)
    _, X, Y = chain_data(lengths=(3, 0, 1, 2))
    check_task(Chain(labels=[0, 1, 2], start=True, end=True, bias=True), X, Y)
    check_task(Chain(labels=[0, 1, 2], costs=MATRIX), X, Y)
    for latent in (False, True):
        _, table, truth = candidate_table(0, latent)
        check_task(Table(), table, truth)
    _, X, Y = digit_data()
    check_task(Digits(), X, Y)


def test_the_task_itself_is_left_alone():
    _, X, truth = class_data()
    task = Multiclass()
    check_task(task, X, truth)
    assert not hasattr(task, "n_features")


def scaled(found, factor):
    """Return an answer with other slopes, whose planes are tight all the same."""
    atoms = found.slopes.atoms._replace(value=factor * found.slopes.atoms.value)
    return replace(found, slopes=found.slopes._replace(atoms=atoms), soft=True)


class NotTight(Multiclass):
    def pool_batch(self, batch, query):
        found = super().pool_batch(batch, query)
        return replace(found, values=found.values + 0.1, soft=False)


class NotSupporting(Multiclass):
    """A slope that is off, with an offset that keeps it tight."""

    def pool_batch(self, batch, query):
        found = super().pool_batch(batch, replace(query, weights=None))
        return scaled(found, 1.1) if query.mode == "augmented" else found


class HalfLoss(Multiclass):
    def loss(self, Y_true, Y_pred):
        return 2.0 * super().loss(Y_true, Y_pred)


class NegativeLoss(Multiclass):
    def loss(self, Y_true, Y_pred):
        return -super().loss(Y_true, Y_pred)


class LossToItself(Multiclass):
    def loss(self, Y_true, Y_pred):
        return 1.0 + super().loss(Y_true, Y_pred)


class WrongRows(Multiclass):
    def pool_batch(self, batch, query):
        return super().pool_batch(batch, replace(query, rows=None if query.rows is None else np.sort(query.rows)))


class WrongTotal(Multiclass):
    def pool_batch(self, batch, query):
        weights = None if query.weights is None else np.ones_like(query.weights)
        return super().pool_batch(batch, replace(query, weights=weights))


class NoEntropy(Multiclass):
    """All of the offset of a sum counts as loss."""

    def pool_batch(self, batch, query):
        found = super().pool_batch(batch, query)
        if query.weights is not None and found.soft:
            found.losses = float(query.weights @ found.values - found.slopes @ query.w)
        return found


class WrongScore(Multiclass):
    def decode(self, batch, w, temperature):
        return [p._replace(score=p.score - 1.0) for p in super().decode(batch, w, temperature)]


class ChangesWeights(Multiclass):
    def pool_batch(self, batch, query):
        found = super().pool_batch(batch, query)
        query.w[:] += 1.0
        return found


class Forgetful(Multiclass):
    """Its answers depend on how often it was called."""

    def pool_batch(self, batch, query):
        batch.calls = getattr(batch, "calls", 0) + 1
        found = super().pool_batch(batch, query)
        extra = 1e-3 * batch.calls
        return replace(found, values=found.values + extra, losses=found.losses + extra)


class PeeksAtTruth(Multiclass):
    def pool_batch(self, batch, query):
        mode = "augmented" if query.mode == "free" and batch.labeled else query.mode
        return super().pool_batch(batch, replace(query, mode=mode))


class FreeIsNotClamped(Multiclass):
    """The free mode takes the worst output, consistently linear but below the clamped one."""

    def pool_batch(self, batch, query):
        if query.mode != "free":
            return super().pool_batch(batch, query)
        found = super().pool_batch(batch, replace(query, mode="clamped"))
        return replace(found, values=found.values - 1.0, losses=found.losses - 1.0)


class WrongShape(Multiclass):
    def pool_batch(self, batch, query):
        return super().pool_batch(batch, replace(query, rows=np.array([0])))


class NotFinite(Multiclass):
    def pool_batch(self, batch, query):
        found = super().pool_batch(batch, query)
        return replace(found, values=found.values + np.nan)


class RefusesHard(Multiclass):
    def pool_batch(self, batch, query):
        raise InputError("day", "today", "another day")


class PoorSlack(Multiclass):
    def loss_levels(self, batch, query):
        levels = super().loss_levels(batch, query)
        return replace(levels, scores=np.where(levels.losses > 0, -np.inf, levels.scores))


class FewPredictions(Multiclass):
    def decode(self, batch, w, temperature):
        return super().decode(batch, w, temperature)[1:]


class ScalarLoss(Multiclass):
    def loss(self, Y_true, Y_pred):
        return super().loss(Y_true, Y_pred).sum()


class Unlabeled(Multiclass):
    def prepare(self, X, Y=None):
        return SimpleNamespace(n_examples=X.shape[0], labeled=False)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (NotTight, "not tight"),
        (NotSupporting, "has height"),
        (HalfLoss, "together above the augmented value"),
        (NegativeLoss, "expected ≥ 0"),
        (LossToItself, "loss between equal outputs"),
        (WrongRows, "with rows= differs"),
        (WrongTotal, "of total"),
        (NoEntropy, "without its entropy"),
        (WrongScore, "decode.. scores example"),
        (ChangesWeights, "changed w in place"),
        (Forgetful, "different results for the same query"),
        (PeeksAtTruth, "without Y differ"),
        (FreeIsNotClamped, "the clamped value .* is above its free value"),
        (WrongShape, "must be 7 planes"),
        (NotFinite, "value nan"),
        (RefusesHard, "was rejected: `day` must be another day"),
        (PoorSlack, "loss_levels.. reaches"),
        (FewPredictions, "6 predictions for 7 examples"),
        (ScalarLoss, "shape .., expected .7,."),
        (Unlabeled, "not labeled"),
    ],
)
def test_broken_tasks_are_told_what_is_wrong(task, message):
    _, X, truth = class_data()
    with pytest.raises(AssertionError, match=message) as caught:
        check_task(task(), X, truth)
    assert "Look at: " in str(caught.value)
    assert str(caught.value).startswith(task.__name__)


def test_an_argmax_that_misses_the_best_is_found():
    class Lazy(Digits):
        def argmax(self, x, w):
            return max(range(3), key=lambda y: float(self.joint_feature(x, y) @ w))

    class Careless(Digits):
        def loss_augmented_argmax(self, x, y, w):
            return self.argmax(x, w)

    class Dreamy(Digits):
        def loss_augmented_argmax(self, x, y, w):
            return min(range(4), key=lambda z: float(self.joint_feature(x, z) @ w))

    _, X, Y = digit_data()
    for task in (Lazy(), Careless(), Dreamy()):
        with pytest.raises(AssertionError, match=r"has height|is above its|above the hard free value"):
            check_task(task, X, Y)


def test_an_inexact_task_need_not_give_bounds():
    class Approximate(Digits):
        exact = False

        def loss_augmented_argmax(self, x, y, w):
            return self.argmax(x, w)

    _, X, Y = digit_data()
    check_task(Approximate(), X, Y)


def test_a_hidden_latent_is_found():
    class Hidden(Table):
        def learn(self, X, Y):
            super().learn(X, Y)
            self.latent = False

        def prepare(self, X, Y=None):
            self.latent = True
            batch = super().prepare(X, Y)
            self.latent = False
            return batch

    _, table, truth = candidate_table(0, latent=True)
    with pytest.raises(AssertionError, match="`latent` is False"):
        check_task(Hidden(), table, truth)


def test_a_wrong_gradient_of_the_total_is_found():
    class WrongBothWays(Multiclass):
        """Planes and total agree with each other and are below the function, but not with its derivative."""

        def pool_batch(self, batch, query):
            found = super().pool_batch(batch, replace(query, weights=None))
            if not found.soft:
                return found
            return replace(scaled(found, 0.9), losses=np.full(len(found.values), -1e3), exact=False)

    _, X, truth = class_data()
    with pytest.raises(AssertionError, match="finite differences"):
        check_task(WrongBothWays(), X, truth)


TREE = Tree("S", (Tree("N", ("dogs",)), Tree("V", ("bark",))))


@pytest.mark.parametrize(
    ("task", "X", "Y"),
    [
        (Chain(), [np.eye(3), np.eye(3)[:2]], [["a", "b", "a"], ["b", "b"]]),
        (Graph(), [(np.eye(3), [(0, 1)]), (np.eye(3), [(1, 2)])], [["a", "b", "a"], ["b", "b", "a"]]),
        (Alignment(), [("ARND", "ARD"), ("AR", "RA")], [[(0, 0), (3, 2)], [(0, 1)]]),
        (Parsing(), [["dogs", "bark"]] * 2, [TREE] * 2),
    ],
)
def test_features_of_known_outputs_are_kept_but_not_their_scores(task, X, Y):
    task.learn(X, Y)
    batch, rng = task.prepare(X, Y), np.random.default_rng(0)
    features = task.planes(batch, np.zeros(task.n_features), "clamped", Temperature()).slopes().toarray()
    for rows in (None, np.array([1]), np.array([1, 0])):
        w = rng.normal(size=task.n_features)
        planes = task.planes(batch, w, "clamped", Temperature(), rows)
        chosen = features if rows is None else features[rows]
        close(planes.slopes().toarray(), chosen)
        close(planes.values, chosen @ w)
        total = task.total(batch, w, "clamped", Temperature(1.0, 1.0), np.arange(1.0, len(chosen) + 1.0), rows)
        close(total.slope, np.arange(1.0, len(chosen) + 1.0) @ chosen)


@pytest.mark.parametrize("task", [Multiclass, LatentMulticlass, Measure])
def test_none_is_no_class_unless_it_is_declared(task):
    X = np.eye(3)[:, :, None] if task is LatentMulticlass else np.eye(3)
    with raises("Y", got=None, expected="labels", hint="declare None"):
        task().learn(X, ["a", None, "a"])
    if task is not Measure:
        declared = task(labels=[None, "a"])
        declared.learn(X, ["a", None, "a"])
        assert declared.labels_.labels == [None, "a"]
