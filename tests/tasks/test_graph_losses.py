"""Losses on hidden nodes of graphs against sums over all assignments."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_graph import KINDS, PAIRS, STATES, hamming, in_labels, learned, list_assignments, missed, random_data
from test_tasks import close, compare

from error_fields import raises
from latentstruct import Graph, GraphInput, LatentSSVM, grid_graph, load
from latentstruct.core.protocols import Temperature
from latentstruct.core.unknown import UNKNOWN
from latentstruct.estimators.uncertain import IterativeLSVM, ModLat
from latentstruct.tasks.graph.batch import GraphBatch

GRAPHS = {
    "seed": st.integers(0, 10**6),
    "kind": st.sampled_from(KINDS),
    "shared": st.booleans(),
    "edge_features": st.integers(0, 2),
    "share": st.sampled_from((0.0, 0.3)),
    "gamma": st.sampled_from((0.0, 0.7, 2.0)),
}


def separated(graphs, truth, shared):
    """The graphs without the edges that join two nodes of unknown label, here or in a graph that must be the same."""
    kept = [~((y == UNKNOWN)[graph.edges]).all(axis=1) for graph, y in zip(graphs, truth, strict=True)]
    if not shared:
        kept = [np.all(kept, axis=0)] * len(kept)
    return [
        GraphInput(
            graph.features,
            graph.edges[keep],
            None if graph.edge_features is None else graph.edge_features[keep],
            graph.node_types,
            graph.edge_types[keep],
        )
        for graph, keep in zip(graphs, kept, strict=True)
    ]


class Twin:
    """Graphs with a random distribution over the states of their unknown nodes, and everything listed."""

    def __init__(self, seed, kind, shared, gamma, share, costs=None, **options):
        self.rng, graphs, self.truth = random_data(seed, kind, shared, share, **options)
        self.graphs, self.gamma = separated(graphs, self.truth, shared), gamma
        self.task, self.batch, _ = learned(self.graphs, self.truth, shared=shared, costs=costs, hidden_loss=gamma)
        self.listed = list_assignments(self.graphs, self.truth, STATES, shared, missed if costs else hamming)
        self.sites = self.task.latent_sites(self.batch)
        self.w = self.rng.normal(size=self.task.n_features)
        self.unknown = [np.flatnonzero(y == UNKNOWN) for y in self.truth]

    def distribution(self):
        """Random numbers that sum to 1 at each site."""
        sizes = np.diff(self.sites.offsets)
        return np.concatenate([np.zeros(0), *(self.rng.dirichlet(np.ones(size)) for size in sizes)])

    def per_graph(self, P):
        """The distribution of each graph as a list of vectors, one for each unknown node."""
        parts = np.split(P, self.sites.offsets[1:-1])
        return [[parts[g] for g in np.flatnonzero(self.sites.examples == i)] for i in range(len(self.graphs))]

    def completions(self, i):
        """The assignments that agree with what is known of graph i, as states."""
        y = self.truth[i]
        return [x for x in self.listed[i].items if all(s in (UNKNOWN, t) for s, t in zip(y, x, strict=True))]

    def chances(self, i, P):
        """P of each completion of graph i: the product over its unknown nodes."""
        own = self.per_graph(P)[i]
        pairs = [[p[x[v]] for p, v in zip(own, self.unknown[i], strict=True)] for x in self.completions(i)]
        return np.array([np.prod(row) for row in pairs])

    def hidden_cost(self, i, x, z):
        return self.gamma * sum(x[v] != z[v] for v in self.unknown[i])

    def with_expected(self, P):
        """The lists, with E[Δ] for losses."""
        found = []
        for i, example in enumerate(self.listed):
            chances, truths = self.chances(i, P), self.completions(i)
            extra = [
                sum(c * self.hidden_cost(i, z, x) for c, z in zip(chances, truths, strict=True)) for x in example.items
            ]
            found.append(replace(example, losses=example.losses + np.array(extra, dtype=float)))
        return found


@settings(deadline=None, max_examples=40)
@given(temperature=st.sampled_from(PAIRS), costs=st.sampled_from((None, {"z": 3.0})), **GRAPHS)
def test_expected_losses_are_the_enumeration(temperature, costs, **options):
    twin = Twin(costs=costs, **options)
    P = twin.distribution()
    batch = twin.task.with_expected_loss(twin.batch, P)
    compare(twin.task, batch, twin.with_expected(P), twin.w, temperature)
    again = twin.task.with_expected_loss(batch, P)
    close(again.losses, batch.losses)


@settings(deadline=None, max_examples=40)
@given(**GRAPHS)
def test_sites_are_independent_given_the_known_labels(**options):
    """The product of the sites' softmaxes is the softmax over all completions."""
    twin = Twin(**options)
    scores = twin.task.latent_scores(twin.batch, twin.w)
    P = np.concatenate([np.zeros(0), *(_softmax(part) for part in np.split(scores, twin.sites.offsets[1:-1]))])
    for i, example in enumerate(twin.listed):
        fits = example.outputs == example.true_output
        close(twin.chances(i, P), _softmax((example.features @ twin.w)[fits]))
    coefficients = twin.rng.normal(size=len(scores))
    pulled = twin.task.latent_pull_back(twin.batch, coefficients)
    assert pulled.shape == (twin.task.n_features,)
    assert pulled @ twin.w == pytest.approx(coefficients @ scores)


def _softmax(scores):
    shares = np.exp(scores - scores.max(initial=-np.inf))
    return shares / shares.sum()


@settings(deadline=None, max_examples=40)
@given(**GRAPHS)
def test_diversity_is_the_enumeration(**options):
    twin = Twin(**options)
    P, step = twin.distribution(), 1e-6
    values, slopes = twin.task.diversity(twin.batch, P)
    for i in range(len(twin.graphs)):
        chances, truths = twin.chances(i, P), twin.completions(i)
        pairs = [[twin.hidden_cost(i, x, z) for z in truths] for x in truths]
        assert values[i] == pytest.approx(chances @ np.array(pairs) @ chances)
    for m in range(len(P)):
        moved = step * np.eye(1, len(P), m)[0]
        high, low = (twin.task.diversity(twin.batch, Q)[0].sum() for Q in (P + moved, P - moved))
        assert (high - low) / (2.0 * step) == pytest.approx(slopes[m], abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(**GRAPHS)
def test_worst_losses_are_the_enumeration(**options):
    twin = Twin(**options)
    worst = twin.task.worst_losses(twin.batch, twin.w)
    P, other = twin.distribution(), twin.distribution()
    values, slopes = worst(P)
    close(values, [(example.features @ twin.w + example.losses).max() for example in twin.with_expected(P)])
    # Each value is convex in P, and no plane of another graph's states enters it.
    graphs = np.repeat(twin.sites.examples, np.diff(twin.sites.offsets))
    changes = np.bincount(graphs, weights=slopes * (other - P), minlength=len(values))
    assert np.all(worst(other)[0] >= values + changes - 1e-9)
    near = P + 1e-7 * (other - P)
    close((worst(near)[0] - values) / 1e-7, changes, 1e-5)


@settings(deadline=None, max_examples=30)
@given(**GRAPHS)
def test_latent_loss_counts_outputs_and_hidden_nodes(**options):
    twin = Twin(costs={"z": 3.0}, **options)
    H_true = twin.task.random_latents(twin.batch, twin.rng)
    predictions = twin.task.decode(twin.batch, twin.w, Temperature())
    H_pred = [p.h if twin.task.latent else H for p, H in zip(predictions, H_true, strict=True)]
    Y_pred = [p.y for p in predictions]
    Y_true = [in_labels(graph, y) for graph, y in zip(twin.graphs, twin.truth, strict=True)]
    found = twin.task.latent_losses(twin.batch, H_true, Y_pred, H_pred)
    wrong = [np.sum(np.not_equal(a, b)[u]) for a, b, u in zip(H_true, H_pred, twin.unknown, strict=True)]
    close(found, twin.task.loss(Y_true, Y_pred) + twin.gamma * np.array(wrong))
    P = twin.task.point_distribution(twin.batch, H_true)
    sure = twin.task.planes(twin.task.with_expected_loss(twin.batch, P), twin.w, "augmented", Temperature()).offsets
    worst = twin.task.worst_losses(twin.batch, twin.w)(P)[0]
    assert np.all(worst >= found + [prediction.score for prediction in predictions] - 1e-9)
    assert np.all(sure >= -1e-9)


def test_approximate_planes_are_tight_under_expected_losses(monkeypatch):
    """Inference that ends below the known labels is replaced by these, with their expected loss."""
    rng = np.random.default_rng(4)
    graph = grid_graph(rng.normal(size=(4, 4, 2)))
    truth = rng.integers(0, 3, 16)
    truth[[0, 2, 5, 7, 8, 10]] = UNKNOWN
    task = Graph(labels=[0, 1, 2], hidden_loss=5.0, max_entries=3)
    task.learn([graph], [truth])
    batch = task.prepare([graph], [truth])
    P = np.concatenate([rng.dirichlet(np.ones(size)) for size in np.diff(task.latent_sites(batch).offsets)])
    expected = task.with_expected_loss(batch, P)
    run = GraphBatch._run

    def poor(self, name, scores, query, temperature):
        found = run(self, name, scores, query, temperature)
        if query.mode != "clamped":
            found.values -= 1000.0
        return found

    monkeypatch.setattr(GraphBatch, "_run", poor)
    w = rng.normal(size=task.n_features)
    planes = task.planes(expected, w, "augmented", Temperature())
    assert not planes.all_exact
    close(planes.offsets + planes.dot(w), planes.values)
    completed = task.complete(batch, w)
    cost = task.point_distribution(batch, completed) @ (5.0 * (1.0 - P))
    close(planes.values, task.completion_planes(batch, completed).dot(w) + cost)


def test_without_a_loss_on_hidden_nodes_nothing_is_expected():
    rng, graphs, truth = random_data(0, "alternating", share=0.0)
    task, batch, _ = learned(graphs, truth)
    sites = task.latent_sites(batch)
    P = np.concatenate([rng.dirichlet(np.ones(size)) for size in np.diff(sites.offsets)])
    close(task.with_expected_loss(batch, P).losses, batch.losses)
    assert not task.diversity(batch, P)[0].any()


# ---- refusals and files ----------------------------------------------------------------------------------


def pair_of_hidden_nodes():
    features = np.ones((3, 1))
    return GraphInput(features, np.array([[0, 1], [1, 2]]), None, np.array(["y", "h", "h"]))


def test_hidden_nodes_must_not_touch():
    X, Y = [pair_of_hidden_nodes()], [["a", -1, -1]]
    task = Graph(labels=["a", "b"], hidden={"h": 2}, hidden_loss=1.0)
    task.learn(X, Y)
    with raises("X[0].edges", expected="edges with at least one known label for a loss on hidden nodes"):
        task.latent_sites(task.prepare(X, Y))
    known = GraphInput(np.ones((3, 1)), np.array([[0, 1], [1, 2]]))
    task = Graph(labels=["a", "b"], hidden_loss=1.0)
    task.learn([known, known], [["a", "b", -1], ["a", -1, -1]])
    batch = task.prepare([known, known], [["a", "b", -1], ["a", -1, -1]])
    with raises("X[1].edges", expected="edges with at least one known label for a loss on hidden nodes"):
        task.latent_sites(batch)
    assert task.latent_sites(task.prepare([known], [["a", -1, "b"]])).offsets.tolist() == [0, 2]


def test_sites_need_labels():
    X, Y = [pair_of_hidden_nodes()], [["a", -1, -1]]
    task = Graph(labels=["a", "b"], hidden={"h": 2})
    task.learn(X, Y)
    with raises("mode", got="'clamped'", expected="'free' for a batch without true outputs"):
        task.latent_sites(task.prepare(X))


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf, "1", None])
def test_wrong_hidden_losses_are_refused(wrong):
    with raises("hidden_loss", expected="a finite number of at least 0"):
        Graph(hidden_loss=wrong).learn([pair_of_hidden_nodes()], [["a", "b", "a"]])


def test_latent_loss_wants_labels_and_whole_assignments():
    graph = GraphInput(np.ones((2, 1)), np.array([[0, 1]]), None, np.array(["y", "h"]))
    task = Graph(labels=["a", "b"], hidden={"h": 2}, hidden_loss=0.5)
    task.learn([graph], [["a", -1]])
    batch = task.prepare([graph], [["a", -1]])
    assert task.latent_losses(batch, [["a", 1]], [["b", -1]], [["b", 0]]).tolist() == [1.5]
    with raises("Y_pred[0][0]", got="-1 (unknown)", expected="a label where the true label is known"):
        task.latent_losses(batch, [["a", 1]], [[-1, -1]], [["b", 0]])
    with raises("H_true[0][1]", got="2", expected="a state from 0 to 1 for a hidden node"):
        task.latent_losses(batch, [["a", 2]], [["a", -1]], [["b", 0]])
    with raises("latents[0][1]", got="5", expected="a state from 0 to 1 for a hidden node"):
        task.point_distribution(batch, [["a", 5]])
    with raises("latents", got="0 latents", expected="a sequence of 1 latents"):
        task.latent_losses(batch, [], [["a", -1]], [["b", 0]])


def test_hidden_loss_is_saved(tmp_path):
    _, graphs, truth = random_data(1, "alternating", share=0.0)
    task, _, Y = learned(graphs, truth, hidden_loss=0.25)
    model = LatentSSVM(task, random_state=0).fit(graphs, Y)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").task.hidden_loss == 0.25


# ---- training --------------------------------------------------------------------------------------------


def hidden_chain(n=12, seed=0):
    """Chains of outputs and hidden nodes in turn; the features of a hidden node tell its neighbors' label."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        y = rng.integers(0, 2)
        features = rng.normal(size=(5, 2))
        features[1::2, y] += 2.0
        X.append(GraphInput(features, np.array([[0, 1], [1, 2], [2, 3], [3, 4]]), None, np.array([*"yhyhy"])))
        Y.append(np.array([y, UNKNOWN, y, UNKNOWN, y]))
    return X, Y


def test_modlat_is_the_latent_ssvm_where_hidden_nodes_cost_nothing():
    X, Y = hidden_chain()
    latent = LatentSSVM(Graph(hidden={"h": 2}), C=0.5, random_state=3, tol=1e-6).fit(X, Y)
    blind = ModLat(Graph(hidden={"h": 2}), C=0.5, random_state=3, tol=1e-6).fit(X, Y)
    assert blind.objective_ == pytest.approx(latent.objective_, rel=1e-3)
    assert not blind.theta_.any()
    assert [y.tolist() for y in blind.predict(X)] == [y.tolist() for y in latent.predict(X)]


@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_modlat_never_raises_its_objective(gamma):
    X, Y = hidden_chain()
    model = ModLat(Graph(hidden={"h": 2}, hidden_loss=gamma), C=0.5, random_state=0).fit(X, Y)
    objectives = [line.objective for line in model.history_]
    assert np.all(np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1]))
    task, batch = model.task_, model.task_.prepare(X, Y)
    P = np.concatenate(model.latent_distribution(X, Y))
    close(np.add.reduceat(P, task.latent_sites(batch).offsets[:-1]), 1.0)
    # The objective from its definition, at the weights that were found.
    worst = task.worst_losses(batch, model.coef_)(P)[0]
    completed = task.completion_planes(batch, task.complete(batch, model.coef_)).dot(model.coef_)
    diversity = task.diversity(batch, P)[0]
    penalty = 0.5 * model.coef_ @ model.coef_ + 0.05 * model.theta_ @ model.theta_
    assert model.objective_ == pytest.approx(penalty + 0.5 * np.sum(worst - completed - 0.1 * diversity), rel=1e-6)


def test_iterative_lsvm_trains_on_graphs():
    X, Y = hidden_chain()
    model = IterativeLSVM(Graph(hidden={"h": 2}, hidden_loss=1.0), C=0.5, random_state=0).fit(X, Y)
    assert model.score(X, Y) > 0.9
