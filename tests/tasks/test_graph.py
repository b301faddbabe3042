"""Graphs against enumeration in all modes and temperatures, training, answers for people and refusals."""

from itertools import product

import numpy as np
import pytest
from graph_reference import random_part
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from test_tasks import MATRIX, MODES, close, compare

import reference
from error_fields import raises
from latentstruct import CRF, HiddenCRF, LatentSSVM, MarginalSSVM, MinEntropySSVM, StructuralSVM, load
from latentstruct.core.pooling import as_planes
from latentstruct.core.protocols import Query, Temperature
from latentstruct.tasks import Chain
from latentstruct.tasks.chain.task import UNKNOWN
from latentstruct.tasks.graph.inputs import grid_edges
from latentstruct.tasks.graph.task import Graph, GraphInput, grid_graph
from latentstruct.testing import check_task

TEMPERATURES = (0.0, 0.3, 1.0)
PAIRS = [Temperature(output, latent) for output in TEMPERATURES for latent in TEMPERATURES]
KINDS = ("chain", "alternating", "tree", "ab_tree", "loop", "grid")
STATES = {"a": 3, "b": 2, "h": 2}
LABELS = {"a": ["x", "y", "z"], "b": ["z", "x"]}


# ---- the brute-force twin --------------------------------------------------------------------------------


def twin_blocks(graphs, cards, shared):
    """Name of the block of each node and edge of each graph, and the first weight of each block."""
    nodes, edges = [], []
    for graph in graphs:
        types = graph.node_types
        nodes.append(list(types) if shared else list(range(len(types))))
        triples = [(t, types[p], types[q]) for t, (p, q) in zip(graph.edge_types, graph.edges, strict=True)]
        edges.append(triples if shared else [(e, types[p], types[q]) for e, (p, q) in enumerate(graph.edges)])
    d = graphs[0].features.shape[1]
    d_e = next((g.edge_features.shape[1] for g in graphs if g.edge_features is not None), 1)
    first, at = {}, 0
    for name in sorted({name for names in nodes for name in names}):
        first[name] = at
        at += d * cards[name if shared else graphs[0].node_types[name]]
    for triple in sorted({triple for triples in edges for triple in triples}):
        first[triple] = at
        at += d_e * cards[triple[1]] * cards[triple[2]]
    return nodes, edges, first, at


def twin_features(graph, states, cards, nodes, edges, first, size):
    """Features of one assignment, from the documented layout of the weights."""
    phi = np.zeros(size)
    for v, (name, s) in enumerate(zip(nodes, states, strict=True)):
        for f, value in enumerate(graph.features[v]):
            phi[first[name] + f * cards[graph.node_types[v]] + s] += value
    for e, (triple, (p, q)) in enumerate(zip(edges, graph.edges, strict=True)):
        n_first, n_second = cards[triple[1]], cards[triple[2]]
        values = [1.0] if graph.edge_features is None else graph.edge_features[e]
        for f, value in enumerate(values):
            phi[first[triple] + (f * n_first + states[p]) * n_second + states[q]] += value
    return phi


def list_assignments(graphs, truth, cards, shared, costs, outputs=None):
    """All assignments of each graph; those that agree on the output nodes are completions of one output.

    `outputs` tells them apart for each graph; by default they are the nodes with a known label. `costs` is a function
    of (type, true state, state).
    """
    nodes, edges, first, size = twin_blocks(graphs, cards, shared)
    listed = []
    for k, (graph, y) in enumerate(zip(graphs, truth, strict=True)):
        types = graph.node_types
        chosen = [v for v in range(len(y)) if (y[v] != UNKNOWN if outputs is None else outputs[k][v])]
        known = [v for v in range(len(y)) if y[v] != UNKNOWN]
        items = list(product(*(range(cards[t]) for t in types)))
        parts = [tuple(x[v] for v in chosen) for x in items]
        numbers = {part: number for number, part in enumerate(dict.fromkeys(parts))}
        features = np.array([twin_features(graph, x, cards, nodes[k], edges[k], first, size) for x in items])
        losses = np.array([sum(costs(types[v], y[v], x[v]) for v in known) for x in items], dtype=float)
        true_output = numbers.get(tuple(y[v] for v in chosen), -1)
        listed.append(
            reference.Listed(
                features.reshape(len(items), size), losses, np.array([numbers[p] for p in parts]), true_output, items
            )
        )
    return listed


def hamming(_, true, state):
    return float(true != state)


def missed(kind, true, state):
    """Missing a true "z" costs 3, whatever type the node has."""
    return 0.0 if true == state else 3.0 if LABELS[kind][true] == "z" else 1.0


def random_graph(rng, kind, edge_features=0, edge_types=1, hidden=True, second_type=True, max_size=4):
    """A small graph with two features a node and types a, b (outputs) and h (hidden)."""
    cards, edges, is_hidden = random_part(rng, kind, max_size)
    n = len(cards)
    types = np.where(is_hidden & hidden, "h", np.where((rng.random(n) < 0.5) & second_type, "b", "a"))
    edges = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return GraphInput(
        rng.normal(size=(n, 2)),
        edges,
        rng.normal(size=(len(edges), edge_features)) if edge_features else None,
        types,
        rng.integers(0, edge_types, len(edges)),
    )


def other_features(rng, graph):
    """The same graph with other numbers."""
    edge_features = None if graph.edge_features is None else rng.normal(size=graph.edge_features.shape)
    return GraphInput(
        rng.normal(size=graph.features.shape), graph.edges, edge_features, graph.node_types, graph.edge_types
    )


def random_truth(rng, graph, share):
    """States of output nodes; a share of them, and all nodes of hidden types, are unknown."""
    y = np.array([rng.integers(STATES[t]) for t in graph.node_types], dtype=np.int64)
    lost = (graph.node_types == "h") | (rng.random(len(y)) < share)
    return np.where(lost, UNKNOWN, y)


def in_labels(graph, states):
    """States as the labels that people give."""
    return [UNKNOWN if s == UNKNOWN else LABELS[t][s] for t, s in zip(graph.node_types.tolist(), states, strict=True)]


def learned(graphs, truth, **parameters):
    """A task with labels declared for the output types that occur, and the batch."""
    seen = {t for graph in graphs for t in graph.node_types.tolist()}
    labels = {t: LABELS[t] for t in ("a", "b") if t in seen}
    hidden = {"h": STATES["h"]} if "h" in seen else None
    task = Graph(labels=labels, hidden=hidden, **parameters)
    Y = [in_labels(graph, y) for graph, y in zip(graphs, truth, strict=True)]
    task.learn(graphs, Y)
    return task, task.prepare(graphs, Y), Y


def random_data(seed, kind, shared=True, share=0.3, n=3, **options):
    """Several graphs with at least one known label."""
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng, kind, **options) for _ in range(n)]
    if not shared:
        graphs = [other_features(rng, graphs[0]) for _ in graphs]
    # A node that is always known, in a graph of its own or as an isolated node of the one graph.
    anchor = GraphInput(
        np.ones((1, 2)), np.zeros((0, 2), dtype=np.int64), None, np.array(["a"]), np.zeros(0, dtype=int)
    )
    truth = [random_truth(rng, graph, share) for graph in graphs]
    if shared:
        return rng, [*graphs, anchor], [*truth, np.array([1])]
    for graph in graphs:
        graph.features = np.vstack([graph.features, rng.normal(size=(1, 2))])
        graph.node_types = np.append(graph.node_types, "a")
    return rng, graphs, [np.append(y, 1) for y in truth]


# ---- inference -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "unshared"])
@pytest.mark.parametrize("edge_features", [0, 2])
def test_graphs_are_the_enumeration(kind, shared, edge_features):
    rng, graphs, truth = random_data(3, kind, shared, edge_features=edge_features, edge_types=2)
    task, batch, _ = learned(graphs, truth, shared=shared, costs={"z": 3.0})
    listed = list_assignments(graphs, truth, STATES, shared, missed)
    assert task.n_features == listed[0].features.shape[1]
    w = rng.normal(size=task.n_features)
    for temperature in PAIRS:
        compare(task, batch, listed, w, temperature)
    compare(task, batch, listed, w, Temperature(0.3, 1.0), rows=np.array([2, 0]))
    compare(task, batch, listed, w, Temperature(), rows=np.array([1]))


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    shared=st.booleans(),
    edge_features=st.integers(0, 2),
    edge_types=st.integers(1, 2),
    hidden=st.booleans(),
    second_type=st.booleans(),
    share=st.sampled_from((0.0, 0.4, 1.0)),
    temperature=st.sampled_from(PAIRS),
    scale=st.sampled_from((0.1, 1.0, 30.0)),
)
def test_any_graph_is_the_enumeration(seed, kind, shared, share, temperature, scale, **options):
    rng, graphs, truth = random_data(seed, kind, shared, share, **options)
    task, batch, _ = learned(graphs, truth, shared=shared)
    assert task.latent == batch.half_labeled == any(UNKNOWN in y for y in truth)
    listed = list_assignments(graphs, truth, STATES, shared, hamming)
    w = scale * rng.normal(size=task.n_features)
    compare(task, batch, listed, w, temperature)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), latent=st.sampled_from(TEMPERATURES))
def test_prediction_maximises_outputs_and_sums_out_hidden_types_only(seed, kind, latent):
    rng, graphs, truth = random_data(seed, kind, share=0.5)
    task, batch, _ = learned(graphs, truth)
    roles = task.roles(graphs)
    outputs = [graph.node_types != "h" for graph in graphs]
    assert [(r == "maximized").tolist() for r in roles] == [o.tolist() for o in outputs]
    assert [(r == "summed out").tolist() for r in roles] == [(~o).tolist() for o in outputs]
    listed = list_assignments(graphs, truth, STATES, True, hamming, outputs)
    w = rng.normal(size=task.n_features)
    pooled = [reference.pool(example, w, "free", 0.0, latent) for example in listed]
    close(task.planes(task.prepare(graphs), w, "free", Temperature(0.0, latent)).values, [p.value for p in pooled])
    for requested in (batch, task.prepare(graphs)):
        decoded = task.decode(requested, w, Temperature(0.5, latent))
        close([prediction.score for prediction in decoded], [p.value for p in pooled])
        for graph, example, p, found, is_output in zip(graphs, listed, pooled, decoded, outputs, strict=True):
            best = example.items[int(p.shares.argmax())]
            wanted = in_labels(graph, [s if o else UNKNOWN for s, o in zip(best, is_output, strict=True)])
            assert found.y.tolist() == wanted
            if not task.latent:
                assert found.h is None
                continue
            assert found.h[is_output].tolist() == found.y[is_output].tolist()
            for v in np.flatnonzero(~is_output):
                sums = np.bincount([x[v] for x in example.items], weights=p.shares)
                assert found.h[v] == sums.argmax()


@pytest.mark.parametrize(("output", "latent"), [(1.0, 1.0), (0.3, 1.0), (1.0, 0.0)])
def test_marginals_and_confidence_are_the_enumeration(output, latent):
    rng, graphs, truth = random_data(5, "loop", share=0.0)
    task, batch, _ = learned(graphs, truth)
    outputs = [graph.node_types != "h" for graph in graphs]
    listed = list_assignments(graphs, truth, STATES, True, hamming, outputs)
    w = rng.normal(size=task.n_features)
    temperature = Temperature(output, latent)
    decoded = task.decode(batch, w, temperature)
    confidence = task.confidence(batch, w, temperature, decoded)
    for k, (graph, example, found) in enumerate(
        zip(graphs, listed, task.marginals(batch, w, temperature), strict=True)
    ):
        shares = reference.pool(example, w, "free", output, latent).shares
        assert len(found.nodes) == len(graph.features)
        assert len(found.edges) == len(graph.edges)
        for v, t in enumerate(graph.node_types):
            wanted = np.bincount([x[v] for x in example.items], weights=shares, minlength=STATES[t])
            close(found.nodes[v], wanted)
            if t == "h":
                assert np.isnan(confidence[k][v])
            else:
                close(confidence[k][v], wanted[LABELS[t].index(decoded[k].y[v])])
        for e, (p, q) in enumerate(graph.edges):
            wanted = np.zeros((STATES[graph.node_types[p]], STATES[graph.node_types[q]]))
            for share, x in zip(shares, example.items, strict=True):
                wanted[x[p], x[q]] += share
            close(found.edges[e], wanted)


def test_marginals_of_equal_cardinalities_are_arrays():
    rng = np.random.default_rng(0)
    graphs = [grid_graph(rng.normal(size=(2, 3, 2))), grid_graph(rng.normal(size=(1, 1, 2)))]
    task = Graph()
    task.learn(graphs, [[0, 1, 2, 0, 1, 2], [0]])
    first, second = task.marginals(task.prepare(graphs), rng.normal(size=task.n_features), Temperature(1.0, 0.0))
    assert first.nodes.shape == (6, 3)
    assert first.edges.shape == (7, 3, 3)
    assert second.nodes.shape == (1, 3)
    assert second.edges.shape == (0, 3, 3)
    close(first.nodes.sum(axis=1), 1.0)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    alpha=st.sampled_from((0.5, 2.0, 10.0)),
    output=st.sampled_from(TEMPERATURES),
)
def test_renyi_planes_are_the_enumeration(seed, kind, alpha, output):
    rng, graphs, truth = random_data(seed, kind, share=0.3)
    task, batch, _ = learned(graphs, truth)
    listed = list_assignments(graphs, truth, STATES, True, hamming)
    w = rng.normal(size=task.n_features)

    def pooled(example, mode, temperature):
        scores = example.features @ w
        tops, slopes = [], []
        for y in dict.fromkeys(example.outputs.tolist()):
            group = np.flatnonzero(example.outputs == y)
            sharp, p_sharp = reference.smax(alpha * scores[group], 1.0)
            plain, p_plain = reference.smax(scores[group], 1.0)
            loss = example.losses[group[0]] if mode == "augmented" else 0.0
            allowed = mode != "clamped" or y == example.true_output
            tops.append((sharp - plain) / (alpha - 1.0) + loss if allowed else -np.inf)
            slopes.append((alpha * p_sharp - p_plain) @ example.features[group] / (alpha - 1.0))
        value, shares = reference.smax(np.array(tops), temperature)
        return value, shares @ np.array(slopes)

    for mode in MODES:
        for rows in (None, np.array([2, 0])):
            query = Query(w, mode, Temperature(output), rows)
            planes = as_planes(task, batch, query, task.renyi_pool(batch, query, alpha), "renyi_pool")
            expected = [pooled(listed[i], mode, output) for i in (range(len(listed)) if rows is None else rows)]
            close(planes.values, [value for value, _ in expected])
            close(planes.slopes().toarray(), [slope for _, slope in expected])
            close(planes.offsets + planes.dot(w), planes.values)
            assert not planes.all_exact
    outputs = [graph.node_types != "h" for graph in graphs]
    predicted = list_assignments(graphs, truth, STATES, True, hamming, outputs)
    decoded = task.renyi_decode(task.prepare(graphs), w, alpha)
    close([prediction.score for prediction in decoded], [pooled(example, "free", 0.0)[0] for example in predicted])


def test_slopes_are_finite_differences_where_temperatures_differ():
    rng, graphs, truth = random_data(8, "grid", share=0.4)
    task, batch, _ = learned(graphs, truth)
    w, weights, step = rng.normal(size=task.n_features), rng.uniform(0.5, 2.0, len(graphs)), 1e-6
    for mode in MODES:
        for temperature in (Temperature(0.3, 1.0), Temperature(1.0, 0.3)):
            slope = task.total(batch, w, mode, temperature, weights).slope
            for f in range(task.n_features):
                v = step * np.eye(1, task.n_features, f)[0]
                high, low = (task.total(batch, u, mode, temperature, weights)(u) for u in (w + v, w - v))
                assert (high - low) / (2.0 * step) == pytest.approx(slope[f], abs=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize("edge_features", [0, 1])
def test_graphs_keep_the_contract(share, edge_features):
    _, graphs, truth = random_data(1, "loop", share=share, hidden=share == 0.0, edge_features=edge_features)
    task, _, Y = learned(graphs, truth)
    check_task(task, graphs, Y)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_graph_that_is_a_chain_is_the_chain(share):
    rng = np.random.default_rng(2)
    lengths = (3, 1, 6, 4)
    X = [rng.normal(size=(t, 2)) for t in lengths]
    Y = [np.where(rng.random(t) < share, UNKNOWN, rng.integers(0, 3, t)) for t in lengths]
    graphs = [(x, [(t, t + 1) for t in range(len(x) - 1)]) for x in X]
    chain, graph = Chain(labels=[0, 1, 2], costs=MATRIX), Graph(labels=[0, 1, 2], costs=MATRIX)
    chain.learn(X, Y)
    graph.learn(graphs, Y)
    assert graph.n_features == chain.n_features
    assert graph.latent == chain.latent
    w, weights = rng.normal(size=graph.n_features), rng.uniform(size=len(X))
    batches = chain.prepare(X, Y), graph.prepare(graphs, Y)
    for equal in TEMPERATURES:
        temperature = Temperature(equal, equal)
        for mode in MODES:
            one, other = (task.planes(b, w, mode, temperature) for task, b in zip((chain, graph), batches, strict=True))
            close(other.values, one.values)
            close(other.slopes().toarray(), one.slopes().toarray())
            one, other = (
                task.total(b, w, mode, temperature, weights) for task, b in zip((chain, graph), batches, strict=True)
            )
            close(other.slope, one.slope)
            close([other.offset, other.entropy], [one.offset, one.entropy])
    for one, other in zip(
        chain.decode(batches[0], w, Temperature()), graph.decode(batches[1], w, Temperature()), strict=True
    ):
        assert one.y.tolist() == other.y.tolist()
    rng_one, rng_other = (np.random.default_rng(0) for _ in range(2))
    for attempt in (0, 1) if share else ():
        one = chain.initial_latents(batches[0], rng_one, attempt)
        other = graph.initial_latents(batches[1], rng_other, attempt)
        if attempt == 0:
            assert [h.tolist() for h in one] == [h.tolist() for h in other]


def test_all_forms_of_an_example_are_alike():
    rng = np.random.default_rng(4)
    features, edges, edge_features = rng.normal(size=(4, 3)), [(0, 1), (2, 1), (3, 0)], rng.normal(size=(3, 2))
    features[1] = 0.0
    forms = [
        GraphInput(features, edges, edge_features),
        GraphInput(sparse.csr_array(features), np.array(edges), sparse.csr_array(edge_features), ["node"] * 4),
        (features.tolist(), edges, edge_features),
        {"features": features, "edges": edges, "edge_features": edge_features, "edge_types": ["edge"] * 3},
    ]
    task = Graph()
    task.learn(forms, [[0, 1, 0, 1]] * 4)
    w = rng.normal(size=task.n_features)
    planes = task.planes(task.prepare(forms), w, "free", Temperature(1.0))
    for value, slope in zip(planes.values, planes.slopes().toarray(), strict=True):
        close(value, planes.values[0])
        close(slope, planes.slopes().toarray()[0])


def test_graphs_without_nodes_or_edges_work():
    rng = np.random.default_rng(0)
    graphs = [(rng.normal(size=(n, 2)), []) for n in (2, 0, 1)]
    task = Graph(labels=[0, 1, 2])
    Y = [[0, 1], [], [2]]
    task.learn(graphs, Y)
    assert task.n_features == 6
    batch, w = task.prepare(graphs, Y), rng.normal(size=6)
    for temperature in PAIRS:
        for mode in MODES:
            planes = task.planes(batch, w, mode, temperature)
            assert planes.values[1] == 0.0
            assert planes.offsets[1] == 0.0
            assert np.isfinite(planes.values).all()
    assert [len(prediction.y) for prediction in task.decode(batch, w, Temperature())] == [2, 0, 1]
    assert task.loss(Y, Y).tolist() == [0.0, 0.0, 0.0]
    check_task(Graph(labels=[0, 1, 2]), graphs, Y)


def test_two_edges_between_the_same_nodes_add_up():
    features = np.eye(2)
    task = Graph()
    task.learn([GraphInput(features, [(0, 1), (0, 1)], None, None, ["s", "t"])], [[0, 1]])
    w = np.arange(task.n_features, dtype=float)
    batch = task.prepare([GraphInput(features, [(0, 1), (0, 1)], None, None, ["s", "t"])])
    table = task.edge_weights(w, "s")[0] + task.edge_weights(w, "t")[0]
    scores = task.node_weights(w)[0][:, None] + task.node_weights(w)[1] + table
    close(task.planes(batch, w, "free", Temperature()).values, [scores.max()])


# ---- weights ---------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), edge_features=st.integers(0, 2))
def test_weights_can_be_read_by_type(seed, edge_features):
    rng = np.random.default_rng(seed)
    types, edges = np.array(["a", "b", "h", "a"]), np.array([(0, 1), (1, 2), (3, 2), (1, 3)])
    values = rng.normal(size=(4, edge_features)) if edge_features else None
    graph = GraphInput(rng.normal(size=(4, 2)), edges, values, types, rng.integers(0, 2, 4))
    task, _, _ = learned([graph], [np.array([2, 0, UNKNOWN, 1])])
    w = rng.normal(size=task.n_features)
    x = [int(rng.integers(STATES[t])) for t in types]
    score = sum(graph.features[v] @ task.node_weights(w, str(t))[:, x[v]] for v, t in enumerate(types))
    for e, (p, q) in enumerate(edges):
        block = task.edge_weights(w, (int(graph.edge_types[e]), str(types[p]), str(types[q])))
        assert block.shape == (max(1, edge_features), STATES[types[p]], STATES[types[q]])
        score += (graph.edge_features[e] if edge_features else np.ones(1)) @ block[:, x[p], x[q]]
    nodes, triples, first, size = twin_blocks([graph], STATES, True)
    assert score == pytest.approx(twin_features(graph, x, STATES, nodes[0], triples[0], first, size) @ w)


def test_weights_of_nodes_and_edges_of_their_own():
    rng = np.random.default_rng(0)
    X = [(rng.normal(size=(3, 2)), [(0, 1), (2, 1)]) for _ in range(2)]
    task = Graph(shared=False)
    task.learn(X, [[0, 1, 1], [1, 0, 1]])
    assert task.n_features == 3 * 2 * 2 + 2 * 4
    w = np.arange(task.n_features, dtype=float)
    assert task.node_weights(w, 1).tolist() == [[4.0, 5.0], [6.0, 7.0]]
    assert task.edge_weights(w, 1).tolist() == [[[16.0, 17.0], [18.0, 19.0]]]
    with raises("type", got="3", expected="one of the node types [0, 1, 2]"):
        task.node_weights(w, 3)


# ---- grids -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", [4, 8])
@pytest.mark.parametrize("shape", [(3, 4), (1, 3), (3, 1), (1, 1), (0, 2)])
def test_grids_join_neighbors_once(neighbors, shape):
    height, width = shape
    edges, directions = grid_edges(height, width, neighbors)
    cells = list(product(range(height), range(width)))
    reach = 1 if neighbors == 4 else 2
    wanted = {
        (i, j)
        for i, (a, b) in enumerate(cells)
        for j, (c, d) in enumerate(cells)
        if i < j and max(abs(a - c), abs(b - d)) == 1 and abs(a - c) + abs(b - d) <= reach
    }
    assert {tuple(edge) for edge in edges.tolist()} == wanted
    assert len(edges) == len(wanted)
    steps = {"right": (0, 1), "down": (1, 0), "down-right": (1, 1), "down-left": (1, -1)}
    for (i, j), direction in zip(edges.tolist(), directions.tolist(), strict=True):
        assert (cells[j][0] - cells[i][0], cells[j][1] - cells[i][1]) == steps[direction]


def test_grids_have_types_of_edges():
    features = np.arange(12.0).reshape(2, 3, 2)
    assert grid_graph(features).edge_types is None
    assert set(grid_graph(features, 8, "direction").edge_types) == {"right", "down", "down-right", "down-left"}
    assert set(grid_graph(features, 8, "axis").edge_types) == {"horizontal", "vertical", "diagonal"}
    assert grid_graph(features).features.tolist() == features.reshape(6, 2).tolist()
    flat = grid_graph(sparse.csr_array(features.reshape(6, 2)), shape=(2, 3))
    assert flat.edges.tolist() == grid_graph(features).edges.tolist()


# ---- latents ---------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), share=st.sampled_from((0.0, 0.5, 1.0)))
def test_completions_agree_with_what_is_known(seed, kind, share):
    rng, graphs, truth = random_data(seed, kind, share=share)
    task, batch, Y = learned(graphs, truth)
    listed = list_assignments(graphs, truth, STATES, True, hamming)
    w = rng.normal(size=task.n_features)
    best = task.completion_planes(batch, task.complete(batch, w))
    close(best.dot(w), [reference.pool(example, w, "clamped").value for example in listed])
    for latents in (
        task.random_latents(batch, rng),
        task.initial_latents(batch, rng, 0),
        task.initial_latents(batch, rng, 1),
    ):
        planes = task.completion_planes(batch, latents)
        assert not planes.offsets.any()
        for h, y, graph, example, slope in zip(latents, Y, graphs, listed, planes.slopes().toarray(), strict=True):
            known = [v for v, label in enumerate(y) if label != UNKNOWN]
            assert [h[v] for v in known] == [y[v] for v in known]
            states = [
                int(s) if t == "h" else LABELS[t].index(s) for s, t in zip(h, graph.node_types.tolist(), strict=True)
            ]
            close(slope, example.features[example.items.index(tuple(states))])


def test_first_latents_follow_the_known_labels():
    """A feature that gives the label away completes the unknown ones rightly from the first iteration on."""
    rng = np.random.default_rng(0)
    full = [rng.integers(0, 3, 12) for _ in range(10)]
    X = [grid_graph(np.eye(3)[y].reshape(3, 4, 3)) for y in full]
    half = [np.where(rng.random(12) < 0.5, UNKNOWN, y) for y in full]
    task = Graph()
    task.learn(X, half)
    found = task.initial_latents(task.prepare(X, half), rng, 0)
    assert np.mean(np.concatenate(found) == np.concatenate(full)) > 0.9


def test_first_hidden_states_are_drawn():
    """Hidden states are alike at w = 0, beside unknown labels too: were all the first one, they would stay alike."""
    rng = np.random.default_rng(0)
    X = [GraphInput(rng.normal(size=(3, 1)), [(0, 1), (1, 2)], None, ["y", "h", "y"]) for _ in range(200)]
    Y = [[k % 2, UNKNOWN, UNKNOWN] for k in range(200)]
    task = Graph(hidden={"h": 4})
    task.learn(X, Y)
    drawn = np.array(task.initial_latents(task.prepare(X, Y), rng, 0))
    assert np.bincount(drawn[:, 1], minlength=4).min() > 25
    assert drawn[:, 0].tolist() == [y[0] for y in Y]


def test_random_latents_are_uniform():
    X = [GraphInput(np.ones((2, 1)), [(0, 1)], None, ["y", "h"])] * 3000
    task = Graph(labels=[0, 1], hidden={"h": 3})
    Y = [[0, UNKNOWN]] * 1500 + [[UNKNOWN, UNKNOWN]] * 1500
    task.learn(X, Y)
    drawn = np.array(task.random_latents(task.prepare(X, Y), np.random.default_rng(0)))
    assert (drawn[:1500, 0] == 0).all()
    assert np.abs(np.bincount(drawn[:, 1], minlength=3) / 3000 - 1 / 3).max() < 0.04
    assert abs(drawn[1500:, 0].mean() - 0.5) < 0.06


@pytest.mark.parametrize(
    ("latents", "parameter", "got", "expected"),
    [
        ([["x", 0, "x"]], "latents[0][0]", "", "known label 'y'"),
        ([["y", 0, UNKNOWN]], "latents[0][2]", "", "one of the labels"),
        ([["y", 2, "x"]], "latents[0][1]", "", "state from 0 to 1"),
        ([["y", UNKNOWN, "x"]], "latents[0][1]", "", "state from 0 to 1"),
        ([["y", 0]], "latents[0]", "", "3 labels, one per node"),
        ([["y", 0, "q"]], "latents[0][2]", "", "one of the known labels 'x', 'y'"),
        ([], "latents", "0 latents", ""),
    ],
)
def test_latents_that_do_not_fit_are_refused(latents, parameter, got, expected):
    X, Y = [GraphInput(np.ones((3, 1)), [(0, 1)], None, ["a", "h", "a"])], [["y", UNKNOWN, UNKNOWN]]
    task = Graph(labels=["x", "y"], hidden={"h": 2})
    task.learn(X, Y)
    with raises(parameter, got=got, expected=expected):
        task.completion_planes(task.prepare(X, Y), latents)


# ---- quality ---------------------------------------------------------------------------------------------


def test_loss_and_score_count_known_output_nodes():
    X = [GraphInput(np.ones((n, 1)), [], None, ["y"] * (n - 1) + ["h"]) for n in (4, 3)]
    Y = [["p", "q", UNKNOWN, UNKNOWN], ["r", "r", UNKNOWN]]
    task = Graph(hidden={"h": 2}, labels=["p", "q", "r"], costs=MATRIX)
    task.learn(X, Y)
    predicted = [["q", "q", "r", UNKNOWN], ["r", "p", UNKNOWN]]
    assert task.loss(Y, predicted).tolist() == [MATRIX[0, 1], MATRIX[2, 0]]
    assert task.score(Y, predicted) == 2 / 4
    assert task.score(Y, predicted, np.array([1.0, 3.0])) == 4 / 8
    with raises("Y_pred[1][0]", got="-1 (unknown)", expected="a label where the true label is known"):
        task.loss(Y, [predicted[0], [UNKNOWN, "p", UNKNOWN]])
    with raises("Y_true", got="unknown labels only", expected="at least one known label"):
        task.score([[UNKNOWN] * 3], [["p", "p", UNKNOWN]])


# ---- training --------------------------------------------------------------------------------------------


def segmented(rng, n=6, shape=(3, 4), n_labels=3, noise=0.5):
    """Grids whose left, middle and right columns have different labels, seen through noise."""
    columns = np.arange(shape[1]) * n_labels // shape[1]
    Y = [np.tile(columns, (shape[0], 1)).ravel() for _ in range(n)]
    X = [grid_graph((np.eye(n_labels)[y] + noise * rng.normal(size=(len(y), n_labels))).reshape(*shape, -1)) for y in Y]
    return X, Y


@pytest.mark.parametrize("estimator", [StructuralSVM, CRF])
def test_training_is_certified_where_inference_is_exact(estimator):
    X, Y = segmented(np.random.default_rng(0))
    model = estimator(Graph(), C=1.0, tol=1e-3).fit(X, Y)
    assert model.certified_
    assert model.stop_reason_ == "converged"
    assert model.score(X, Y) > 0.9
    assert [y.shape for y in model.predict(X)] == [(12,)] * 6


@pytest.mark.parametrize("estimator", [LatentSSVM, MarginalSSVM, HiddenCRF])
def test_training_with_unknown_labels_and_hidden_nodes(estimator):
    rng = np.random.default_rng(1)
    X, Y = segmented(rng)
    half = [np.where(rng.random(len(y)) < 0.5, UNKNOWN, y) for y in Y]
    model = estimator(Graph(), C=1.0).fit(X, half)
    assert model.score(X, Y) > 0.85
    for x in X:
        # A hidden node beside each column of cells.
        x.features = np.vstack([x.features, np.zeros((4, 3))])
        x.edges = np.vstack([x.edges, [(v, 12 + v % 4) for v in range(12)]])
        x.node_types = ["cell"] * 12 + ["column"] * 4
    Y = [np.append(y, [UNKNOWN] * 4) for y in Y]
    model = estimator(Graph(hidden={"column": 2}), C=1.0).fit(X, Y)
    assert model.score(X, Y) > 0.85
    latents = model.predict_latent(X)
    assert all(
        set(h[12:]) <= {0, 1} and (h[:12] == y[:12]).all() for h, y in zip(latents, model.predict(X), strict=True)
    )


def test_hidden_nodes_learn_what_outputs_alone_cannot():
    """The label is the product of two signs: no linear function tells it, a hidden node with four states can."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(40, 2))
    Y = [[int(a * b > 0), UNKNOWN] for a, b in signs]
    X = [GraphInput([(0.0, 0.0), pair], [(0, 1)], None, ["y", "h"]) for pair in signs]
    model = MarginalSSVM(Graph(hidden={"h": 4}), C=10.0, restarts=5).fit(X, Y)
    assert model.score(X, Y) == 1.0
    linear, outputs = [(pair[None], []) for pair in signs], [y[:1] for y in Y]
    assert StructuralSVM(Graph(), C=10.0).fit(linear, outputs).score(linear, outputs) < 0.9


@pytest.mark.parametrize(
    "parameters",
    [
        {"labels": {"a": ["x", "y", "z"], "b": ["z", "x"]}, "hidden": {"h": 2}},
        {"labels": {"a": ["x", "y", "z"], "b": ["z", "x"]}, "hidden": {"h": 2}, "shared": False, "costs": {"z": 2.0}},
    ],
)
def test_models_are_saved(tmp_path, parameters):
    rng = np.random.default_rng(0)
    first = GraphInput(rng.normal(size=(4, 2)), [(0, 1), (1, 2), (2, 3)], rng.normal(size=(3, 1)), ["a", "h", "b", "a"])
    X = [other_features(rng, first) for _ in range(5)]
    Y = [["x", UNKNOWN, "z", UNKNOWN], ["y", UNKNOWN, "x", "z"], *[["z", UNKNOWN, "z", "z"]] * 3]
    model = MarginalSSVM(Graph(**parameters), C=1.0).fit(X, Y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.task_.state() == model.task_.state()
    assert again.task_.latent
    for one, other in zip(model.predict_latent(X), again.predict_latent(X), strict=True):
        assert one.tolist() == other.tolist()
    assert again.score(X, Y) == model.score(X, Y)
    for one, other in zip(model.marginals(X), again.marginals(X), strict=True):
        close(np.concatenate(other.nodes), np.concatenate(one.nodes))
    assert [np.isnan(c).tolist() for c in again.confidence(X)] == [[False, True, False, False]] * 5


# ---- beyond exact inference ------------------------------------------------------------------------------


def wide_grids(rng, n=2, size=12):
    Y = [(np.add.outer(np.arange(size), np.arange(size)) * 4 // (2 * size - 1)).ravel() for _ in range(n)]
    return [grid_graph((np.eye(4)[y] + rng.normal(size=(len(y), 4))).reshape(size, size, 4)) for y in Y], Y


def test_wide_grids_train_and_are_not_certified():
    X, Y = wide_grids(np.random.default_rng(0))
    model = StructuralSVM(Graph(), C=0.1, tol=0.05).fit(X, Y)
    assert not model.certified_
    assert model.score(X, Y) > 0.85


@pytest.mark.parametrize("temperature", PAIRS)
def test_wide_grids_give_planes_of_what_was_reached(temperature):
    rng = np.random.default_rng(1)
    X, Y = wide_grids(rng)
    half = [np.where(rng.random(len(y)) < 0.3, UNKNOWN, y) for y in Y]
    task = Graph()
    task.learn(X, half)
    batch = task.prepare(X, half)
    w = 0.3 * rng.normal(size=task.n_features)
    planes = task.planes(batch, w, "augmented", temperature)
    assert not planes.all_exact
    close(planes.offsets + planes.dot(w), planes.values)
    total = task.total(batch, w, "augmented", temperature, np.ones(2))
    assert not total.exact
    if temperature == Temperature():
        decoded = task.decode(batch, w, temperature)
        reached = task.completion_planes(task.prepare(X, [p.y for p in decoded]), [p.y for p in decoded])
        close(reached.dot(w), [p.score for p in decoded])
        assert (planes.offsets == np.round(planes.offsets)).all()
        assert (planes.offsets >= 0).all()


@pytest.mark.parametrize("temperature", [Temperature(), Temperature(0.0, 1.0), Temperature(1.0, 1.0)])
def test_messages_are_kept_for_nearby_weights_only(temperature):
    rng = np.random.default_rng(2)
    X, Y = wide_grids(rng, 3)
    Y = [np.where(rng.random(len(y)) < 0.3, UNKNOWN, y) for y in Y]
    task = Graph()
    task.learn(X, Y)
    batch, rows = task.prepare(X, Y), np.array([2, 0])
    w = 0.2 * rng.normal(size=task.n_features)
    first = batch.beliefs(Query(w, "augmented", temperature, rows))
    again = batch.beliefs(Query(w * (1.0 + 1e-6), "augmented", temperature, rows))
    assert (again.sweeps < first.sweeps)[first.converged].all()
    np.testing.assert_allclose(again.values, first.values, rtol=1e-4)
    everything = batch.beliefs(Query(w, "augmented", temperature))
    assert everything.sweeps[1] > again.sweeps[first.converged].max(initial=0)
    far = w + 0.1 * rng.normal(size=len(w))
    found, fresh = (b.beliefs(Query(far, "augmented", temperature)) for b in (batch, task.prepare(X, Y)))
    assert (found.values == fresh.values).all()
    assert (found.sweeps == fresh.sweeps).all()


def test_small_limits_make_narrow_graphs_approximate():
    rng, graphs, truth = random_data(3, "loop", share=0.0, hidden=False, second_type=False)
    task, batch, _Y = learned(graphs, truth)
    limited, limited_batch, _ = learned(graphs, truth, max_entries=3)
    w = 0.1 * rng.normal(size=task.n_features)
    exact, found = (t.planes(b, w, "free", Temperature(1.0)) for t, b in ((task, batch), (limited, limited_batch)))
    assert exact.all_exact
    assert not found.all_exact
    np.testing.assert_allclose(found.values, exact.values, atol=0.05)
    with raises(
        "max_entries",
        expected="at least 27 for graph 0",
        hint="For elimination the best order found reaches width 2 and a table of",
    ):
        limited.renyi_pool(limited_batch, Query(w, "free"), 2.0)


def test_exactness_and_expected_losses_are_told_graph_by_graph():
    rng = np.random.default_rng(0)
    X = [grid_graph(rng.normal(size=(rows, 3, 2))) for rows in (1, 3)]
    Y = [rng.integers(0, 3, 3 * rows) for rows in (1, 3)]
    task = Graph(labels=[0, 1, 2], max_entries=9)
    task.learn(X, Y)
    batch, w = task.prepare(X, Y), 0.1 * rng.normal(size=task.n_features)
    for temperature in (Temperature(), Temperature(1.0, 1.0)):
        for rows in (np.array([0, 1]), np.array([1, 0, 1])):
            found = task.pool_batch(batch, Query(w, "augmented", temperature, rows))
            assert found.exact.tolist() == (rows == 0).tolist()
            unary = batch.beliefs(Query(w, "augmented", temperature, rows)).unary.reshape(-1, 3)
            right = unary[np.arange(len(unary)), np.concatenate([Y[i] for i in rows])]
            close(
                found.losses,
                [np.sum(1.0 - part) for part in np.split(right, np.cumsum([len(Y[i]) for i in rows])[:-1])],
            )


# ---- refusals --------------------------------------------------------------------------------------------

NODES = np.ones((3, 2))
GOOD = GraphInput(NODES, [(0, 1)], None, ["a", "a", "b"], ["e"])
GOOD_Y = ["x", "y", "x"]


@pytest.mark.parametrize(
    ("X", "Y", "parameters", "parameter", "got", "expected"),
    [
        ([(NODES, [(0, 3)])], [GOOD_Y], {}, "X[0].edges[0]", "", "two different nodes from 0 to 2"),
        ([GOOD, (NODES, [(0, 1), (-1, 1)])], [GOOD_Y] * 2, {}, "X[1].edges[1]", "", "two different"),
        ([(NODES, [(0, 1), (2, 2)])], [GOOD_Y], {}, "X[0].edges[1]", "", "two different nodes from 0 to 2"),
        ([(NODES, [0, 1])], [GOOD_Y], {}, "X[0].edges", "", "integers of shape (E, 2)"),
        ([(NODES, [(0.0, 1.0)])], [GOOD_Y], {}, "X[0].edges", "float64 of shape (1, 2)", "integers of shape (E, 2)"),
        ([(NODES, [(0, 1), (1,)])], [GOOD_Y], {}, "X[0].edges", "", "an array"),
        ([(NODES * np.nan, [])], [GOOD_Y], {}, "X[0].features", "nan at row 0, column 0", "finite"),
        ([(NODES[0], [])], [GOOD_Y], {}, "X[0].features", "", "two-dimensional (items, features)"),
        ([(NODES, []), (NODES[:, :1], [])], [GOOD_Y] * 2, {}, "X[1].features", "", "a matrix with 2 columns"),
        ([(NODES, [(0, 1)], [[np.inf]])], [GOOD_Y], {}, "X[0].edge_features", "", "finite"),
        ([(NODES, [(0, 1)], np.ones((2, 1)))], [GOOD_Y], {}, "X[0].edge_features", "", "a matrix with 1"),
        ([(NODES, [(0, 1)], [[1]]), (NODES, [(0, 1)])], [GOOD_Y] * 2, {}, "X[1].edge_features", "", ""),
        ([GraphInput(NODES, [], None, ["a"])], [GOOD_Y], {}, "X[0].node_types", "", "a sequence of 3"),
        ([GraphInput(NODES, [(0, 1)], None, None, [])], [GOOD_Y], {}, "X[0].edge_types", "", "a sequence of 1"),
        ([GraphInput(NODES, [], None, ["a", 1.5, "b"])], [GOOD_Y], {}, "X[0].node_types[1]", "", "an integer"),
        ([GraphInput(NODES, [], None, "abc")], [GOOD_Y], {}, "X[0].node_types", "", "a list of integers or"),
        ([NODES], [GOOD_Y], {}, "X[0]", "", "a GraphInput, a tuple"),
        ([(NODES,)], [GOOD_Y], {}, "X[0]", "", "a GraphInput, a tuple"),
        ([{"features": NODES}], [GOOD_Y], {}, "X[0]", "", "a dict with the keys features and edges, and"),
        (
            [{"features": NODES, "edges": [], "color": 1}],
            [GOOD_Y],
            {},
            "X[0]",
            "['features', 'edges', 'color']",
            "a dict with the keys features and edges, and",
        ),
        ([], [], {}, "X", "none", "at least one example"),
        ([GOOD], [GOOD_Y] * 2, {}, "Y", "2 outputs", "a sequence of 1 outputs"),
        ([GOOD], [GOOD_Y[:2]], {}, "Y[0]", "", "3 labels, one per node"),
        ([GOOD], ["xyx"], {}, "Y[0]", "'xyx'", "a list of labels, one per node"),
        ([GOOD], [[UNKNOWN] * 3], {}, "Y", "", "labels with at least one known output"),
        ([(np.zeros((0, 2)), [])], [[]], {}, "X", "empty graphs only", "graphs with at least one node"),
        ([GOOD], [["x", "y", "z"]], {"labels": ["x", "y"]}, "Y[0][2]", "", "one of the known labels 'x', 'y'"),
        ([GOOD], [["x", "y", float("nan")]], {}, "Y[0][2]", "", "a label, or the integer -1 if unknown"),
        ([GOOD], [["x", None, "y"]], {}, "Y[0][1]", "", "a label, or the integer -1 if unknown"),
        ([GOOD], [np.array(["x", UNKNOWN, "y"])], {}, "Y[0][1]", "", "a label, or the integer -1 if unknown"),
        ([GOOD] * 2, [[0, 1, 0], [0, 1, -2]], {}, "Y[1][2]", "", "a label, or the integer -1 if unknown"),
        ([GOOD], [np.array([0.5, -3.0, 1.0])], {}, "Y[0][1]", "", "a label, or the integer -1 if unknown"),
        ([GOOD], [["x", UNKNOWN, None]], {"hidden": {"b": 2}}, "Y[0][2]", "", "a label, or the integer -1 if"),
        ([GOOD], [GOOD_Y], {"labels": ["x", "y", "-1"]}, "labels", "", "labels without None, NaN and negative"),
        ([GOOD], [[0, 1, 0]], {"labels": [-2, 0, 1]}, "labels", "", "labels without None, NaN and negative"),
        ([GOOD], [GOOD_Y], {"labels": {"a": ["x", "y"], "b": list(range(11))}}, "Y[0][2]", "", "one of [0"),
        (
            [GraphInput(NODES, [(0, 2)], None, ["a", "a", "b"])],
            [["x", "y", UNKNOWN]],
            {"hidden": {"b": 6_000_000}},
            "X",
            "",
            "graphs with at most 10000000 pairs of states",
        ),
        ([GOOD], [["x", "y", UNKNOWN]], {"hidden": {"b": 10**30}}, "hidden['b']", "", "an integer from 1 to"),
        ([GOOD], [["x", "y", ["x"]]], {}, "Y[0][2]", "", "hashable, such as numbers, strings or tuples"),
        ([GOOD], [GOOD_Y], {"labels": ["x", "y", UNKNOWN]}, "labels", "", "labels without None, NaN and negative"),
        ([GOOD], [GOOD_Y], {"labels": {"a": ["x", "y"]}}, "labels", "", "a mapping of the output types"),
        (
            [GOOD],
            [GOOD_Y],
            {"labels": {"a": ["x", "y"], "b": ["y"]}},
            "Y[0][2]",
            "",
            "one of ['y'] for nodes of the type 'b'",
        ),
        ([GOOD], [GOOD_Y], {"labels": {"a": ["x", "y"], "b": ["x"], "c": []}}, "labels", "", "a mapping of the"),
        ([GOOD], [GOOD_Y], {"labels": {"a": ["x", "y"], "b": ["x"]}, "costs": np.eye(2)}, "costs", "", "None or a"),
        ([GOOD], [GOOD_Y], {"hidden": {"b": 2}}, "Y[0][2]", "", "-1 for nodes of the hidden type 'b'"),
        ([GOOD], [GOOD_Y], {"hidden": {"h": 2}}, "hidden", "", "a mapping of the node types ['a', 'b']"),
        ([GOOD], [GOOD_Y], {"hidden": {"b": 0}}, "hidden['b']", "0", "an integer from 1 to 10000000"),
        ([GOOD], [GOOD_Y], {"hidden": ["b"]}, "hidden", "", "a mapping of node types to numbers of states"),
        ([GOOD, (NODES, [(0, 1)])], [GOOD_Y] * 2, {"shared": False}, "X[1]", "", "the graph of training with"),
        ([GOOD], [GOOD_Y], {"costs": np.ones((3, 3))}, "costs", "", "an array of shape (2, 2)"),
        ([GOOD], [GOOD_Y], {"max_entries": 0}, "max_entries", "", "an integer of at least 1"),
        ([GOOD], [GOOD_Y], {"max_iterations": 0}, "max_iterations", "", "an integer of at least 1"),
        ([GOOD], [GOOD_Y], {"damping": 1.0}, "damping", "", "a number of at least 0 and below 1"),
    ],
)
def test_training_data_that_do_not_fit_are_refused(X, Y, parameters, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        Graph(**parameters).learn(X, Y)


@pytest.mark.parametrize(
    ("x", "y", "parameter", "expected"),
    [
        ((np.ones((3, 1)), []), None, "X[1].features", "a matrix with 2 columns, as `X[0].features`"),
        (GraphInput(NODES, [], None, ["a", "a", "c"]), None, "X[1].node_types[2]", "one of the types"),
        ((NODES, []), None, "X[1].node_types[0]", "one of the types ['a', 'b'] of the training"),
        (GraphInput(NODES, [(0, 1)], None, ["a", "a", "b"], ["f"]), None, "X[1].edges[0]", "of an edge"),
        (GraphInput(NODES, [(1, 2)], None, ["a", "a", "b"], ["e"]), None, "X[1].edges[0]", "of an edge"),
        (GraphInput(NODES, [(0, 1)], [[1.0]], ["a", "a", "b"], ["e"]), None, "X[0].edge_features", ""),
        (GOOD, ["x", "y", "q"], "Y[1][2]", "one of the known labels 'x', 'y'"),
        (GOOD, ["x", [], "x"], "Y[1][1]", "hashable, such as numbers, strings or tuples"),
    ],
)
def test_examples_that_do_not_fit_the_model_are_refused(x, y, parameter, expected):
    task = Graph()
    task.learn([GOOD], [GOOD_Y])
    with raises(parameter, expected=expected):
        task.prepare([GOOD, x], None if y is None else [GOOD_Y, y])


@pytest.mark.parametrize("odd", [None, float("nan"), "-1", -2])
def test_labels_that_are_none_are_refused_everywhere(odd):
    task = Graph()
    task.learn([GOOD], [GOOD_Y])
    with raises("Y[0][1]", expected="a label, or the integer -1 if unknown"):
        task.prepare([GOOD], [["x", odd, "x"]])
    with raises("Y_true[0][0]", expected="a label, or the integer -1 if unknown"):
        task.score([[odd, "x"]], [["x", "y"]])


@pytest.mark.parametrize(
    "labels", [[1.5, -0.5, 2.0], [True, False, True], [(0, -2), "−2", "-2"], [float("-inf"), 0, 1]]
)
def test_any_other_labels_are_taken(labels):
    task = Graph()
    task.learn([GOOD], [labels])
    assert set(task.layout_.vocabulary.labels) == set(labels)


def test_one_graph_is_no_collection_of_graphs():
    task = Graph()
    task.learn([GOOD], [GOOD_Y])
    for ask in (task.prepare, task.roles):
        with raises("X", expected="a list or an array of examples"):
            ask(GOOD)


def test_a_model_of_entropies_names_the_cures_for_wide_graphs():
    rng = np.random.default_rng(0)
    X, Y = wide_grids(rng, size=6)
    Y = [[UNKNOWN if k % 3 == 0 else label for k, label in enumerate(np.asarray(y).tolist())] for y in Y]
    with raises("max_entries", got=50, hint="use MarginalSSVM"):
        MinEntropySSVM(Graph(max_entries=50)).fit(X, Y)


def test_features_that_training_did_not_have_are_refused():
    task = Graph()
    task.learn([GOOD], [GOOD_Y])
    types = {"node_types": ["a", "a", "b"], "edge_types": ["e"]}
    with raises("X", expected="graphs with 2 features of nodes and 0 of edges, as in training"):
        task.prepare([GraphInput(NODES[:, :1], [(0, 1)], **types)])
    with raises("X", expected="graphs with 2 features of nodes and 0 of edges, as in training"):
        task.prepare([GraphInput(NODES, [(0, 1)], np.ones((1, 3)), **types)])


def test_questions_that_need_the_truth_say_so():
    task = Graph()
    task.learn([GOOD], [GOOD_Y])
    batch, w = task.prepare([GOOD]), np.zeros(task.n_features)
    for mode in ("augmented", "clamped"):
        with raises("mode", got=repr(mode), expected="'free' for a batch without true outputs"):
            task.planes(batch, w, mode, Temperature())
    with raises("mode", got="'clamped'", expected="'free' for a batch without true outputs"):
        task.random_latents(batch, np.random.default_rng(0))


def test_types_that_are_not_there_cannot_be_read():
    task = Graph()
    task.learn([GraphInput(NODES, [(0, 1), (0, 2)], None, ["a", "a", "b"])], [GOOD_Y])
    w = np.zeros(task.n_features)
    with raises("type", got="'c'", expected="one of the node types ['a', 'b']"):
        task.node_weights(w, "c")
    with raises("type", got="'edge'", expected="one of the edge types [('edge', 'a', 'a'), ('edge', 'a', 'b')]"):
        task.edge_weights(w, "edge")
    assert task.edge_weights(w, ("edge", "a", "b")).shape == (1, 2, 2)


@pytest.mark.parametrize(
    ("arguments", "parameter", "got", "expected"),
    [
        ({"features": np.ones((2, 2))}, "features", "", "an array of shape (H, W, d)"),
        ({"features": np.ones((2, 2)), "shape": (2, 2)}, "features", "", "a matrix with 4 rows, one per cell in"),
        ({"features": np.ones((2, 2, 1)), "neighbors": 6}, "neighbors", "6", "4 or 8"),
        ({"features": np.ones((2, 2, 1)), "edge_types": "color"}, "edge_types", "'color'", "'direction' or 'axis'"),
    ],
)
def test_grids_that_do_not_fit_are_refused(arguments, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        grid_graph(**arguments)
