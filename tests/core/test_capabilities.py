"""Every method that a structure claims to support, against enumeration; and what is claimed, as people read it."""

from itertools import permutations, product

import measure_reference
import numpy as np
import parsing_reference
import pytest
import test_alignment
import test_coreference
import test_graph
import test_half_labeled
import test_latent_multiclass
import test_marginal
import test_motif
import test_parts
import test_program
import test_ranking
import test_semi_markov
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from latentstruct import (
    CRF,
    Alignment,
    Chain,
    Coreference,
    CorrelationClustering,
    ExampleTask,
    Graph,
    GraphInput,
    HiddenCRF,
    LatentMulticlass,
    LatentSSVM,
    MarginalSSVM,
    Measure,
    MinEntropySSVM,
    ModLat,
    Motif,
    Multiclass,
    Parsing,
    PrecisionAtK,
    Program,
    SemiMarkov,
    StructuralSVM,
    StructuredEstimator,
    tasks,
)
from latentstruct.core.capabilities import capabilities, reasons, task_tags
from latentstruct.estimators.base import FitInputs

COSTS = np.array([[0.0, 2.0, 0.5], [1.5, 0.0, 0.25], [3.0, 1.0, 0.0]])
HAMMING = 1.0 - np.eye(3)


def classes(rng, latent):
    X, truth = rng.normal(size=(5, 2)), rng.integers(0, 3, 5)
    truth[:3] = range(3)
    return Multiclass(costs=COSTS, bias=0.5), X, truth, reference.list_classes(X, truth, 3, COSTS, 0.5)


def latent_classes(rng, latent):
    X, truth = rng.normal(size=(5, 4, 2)), np.arange(5) % 3
    listed = test_latent_multiclass.list_states(X, truth, COSTS, "own weights", 1.5)
    return LatentMulticlass(weights="state", costs=COSTS, bias=1.5), X, truth, listed


def chain(rng, latent):
    X = [rng.normal(size=(length, 2)) for length in (3, 0, 1, 4)]
    Y = [rng.integers(0, 3, len(x)) for x in X]
    Y = [np.where((rng.random(len(y)) < 0.5) & latent, -1, y).tolist() for y in Y]
    Y[0][0] = max(Y[0][0], 0)  # Learning needs one known label.
    listed = test_half_labeled.list_half(X, Y, 3, HAMMING)
    return Chain(labels=[0, 1, 2]), X, Y, listed


def graph(rng, latent):
    graphs, truth = [], []
    for size in (3, 2):
        edges = np.array([(v, v + 1) for v in range(size - 1)])
        graphs.append(GraphInput(rng.normal(size=(size, 2)), edges, None, np.full(size, "a"), np.full(size - 1, "e")))
        y = rng.integers(0, 3, size)
        y[0] = rng.integers(0, 3)
        truth.append(np.where((np.arange(size) > 0) & (rng.random(size) < 0.6) & latent, -1, y))
    listed = test_graph.list_assignments(graphs, truth, {"a": 3}, True, test_graph.hamming)
    return Graph(labels=[0, 1, 2]), graphs, truth, listed


def motif(rng, latent):
    X = ["".join(rng.choice(list("ACGT"), length)) for length in (5, 3, 7, 4)]
    Y = [1, -1, 1, -1]
    task = Motif(width=3, background_order=1, strands=2)
    return task, X, Y, test_motif.list_windows(task, X, Y)


def alignment(rng, latent):
    letters = test_alignment.LETTERS
    X = [tuple("".join(rng.choice(list(letters), length)) for length in lengths) for lengths in ((3, 2), (2, 3))]
    X.append((letters, letters))
    sets = [test_alignment.all_match_sets(len(a), len(b)) for a, b in X]
    Y = [np.array(every[rng.integers(1, len(every))], dtype=int).reshape(-1, 2) for every in sets]
    listed = test_alignment.list_alignments(X, Y, False, 0, partial=latent)
    task = Alignment(mode="global", alphabet=letters, tolerance=0, partial=latent)
    return task, X, Y, listed


def parsing(rng, latent):
    trees = [parsing_reference.tree_of(text) for text in ("(S (A a) (B b))", "(S (S (A a) (A a)) (B b))")]
    task = Parsing(splits=2 if latent else 1)
    world = parsing_reference.learned(task, trees, tagged=True)
    return task, world.X, world.Y, parsing_reference.list_trees(task, world.X, world.Y)


def candidates(rng, latent):
    X, Y = test_marginal.listed_examples(int(rng.integers(10**6)))
    if not latent:
        X = [{"y": list(range(len(x["y"]))), "h": None, "features": x["features"]} for x in X]
        Y = [int(rng.integers(len(x["y"]))) for x in X]
    listed = [
        reference.Listed(x["features"], 0.7 * np.abs(y - np.array(x["y"])), np.array(x["y"]), y, x["y"])
        for x, y in zip(X, Y, strict=True)
    ]
    return test_marginal.Listed(), X, Y, listed


def matchings(rng, latent):
    if latent:
        X = [rng.normal(size=(n, 2, 3)) for n in (2, 3)]
        Y = [tuple(rng.integers(0, 2, len(x)).tolist()) for x in X]
        return test_parts.Sides(), X, Y, [list_sides(x, y) for x, y in zip(X, Y, strict=True)]
    X, Y = test_parts.matchings(4, int(rng.integers(10**6)))
    listed = []
    for x, y in zip(X, Y, strict=True):
        outputs, _, features = test_parts.ListedMatching().candidates(x)
        losses = [sum(a != b for a, b in zip(y, found, strict=True)) for found in outputs]
        numbers = np.arange(len(outputs))
        listed.append(reference.Listed(features, np.array(losses, dtype=float), numbers, outputs.index(y), outputs))
    return test_parts.Matching(), X, Y, listed


class ListedSides(test_parts.Sides):
    def outputs(self, x):
        return list(product((0, 1), repeat=len(x)))


class ListedMatching(test_parts.Matching):
    def outputs(self, x):
        return list(permutations(range(len(x))))


def listed_parts(rng, latent):
    _, X, Y, listed = matchings(rng, latent)
    return ListedSides() if latent else ListedMatching(), X, Y, listed


def list_sides(x, y):
    """All (taken, side) of the items of one example."""
    items = [
        (taken, sides)
        for taken in product((0, 1), repeat=len(x))
        for sides in product((0, 1), repeat=len(x))
        if all(t or not s for t, s in zip(taken, sides, strict=True))
    ]
    features = np.array([sum(t * x[k, s] for k, (t, s) in enumerate(zip(*item, strict=True))) for item in items])
    losses = np.array([sum(a != b for a, b in zip(y, taken, strict=True)) for taken, _ in items], dtype=float)
    outputs = np.array([int("".join(map(str, taken)), 2) for taken, _ in items])
    return reference.Listed(features, losses, outputs, int("".join(map(str, y)), 2), items)


class Digits(ExampleTask):
    """One of three classes, by a search of the user's own."""

    def learn(self, X, Y):
        self.n_features = 3 * len(X[0])

    def joint_feature(self, x, y):
        return np.kron(np.eye(3)[y], x)

    def output_loss(self, y, y_hat):
        return float(COSTS[y, y_hat])

    def argmax(self, x, w):
        return int(np.argmax([w @ self.joint_feature(x, y) for y in range(3)]))

    def loss_augmented_argmax(self, x, y, w):
        return int(np.argmax([w @ self.joint_feature(x, k) + self.output_loss(y, k) for k in range(3)]))


def own(rng, latent):
    X, truth = rng.normal(size=(4, 2)), rng.integers(0, 3, 4)
    listed = []
    for x, y in zip(X, truth, strict=True):
        features = np.array([np.kron(np.eye(3)[k], x) for k in range(3)])
        listed.append(reference.Listed(features, COSTS[y], np.arange(3), int(y), [0, 1, 2]))
    return Digits(), X, truth.tolist(), listed


def semi_markov(rng, latent):
    _, X, Y = test_semi_markov.data(int(rng.integers(10**6)), latent)
    listed = [
        test_semi_markov.listed(x, test_semi_markov.numbered(y), 3, 1 - np.eye(2)) for x, y in zip(X, Y, strict=True)
    ]
    return SemiMarkov(test_semi_markov.LABELS, max_length=3), X, Y, listed


def coreference(rng, latent):
    _, X, Y, _ = test_coreference.documents(int(rng.integers(10**6)), sizes=(3, 1, 4))
    return Coreference(penalty=0.7), X, Y, test_coreference.list_forests(X, Y, 0.7)


def clusters(rng, latent):
    _, X, Y, _ = test_coreference.documents(int(rng.integers(10**6)), sizes=(3, 2, 4))
    return CorrelationClustering(), X, Y, test_coreference.list_partitions(X, Y)


def precision(rng, latent):
    X = [rng.normal(size=(n, 2)) for n in (4, 2, 5)]
    Y = [rng.integers(0, 2, len(x)) for x in X]
    Y[0][:2] = 1, 0
    return PrecisionAtK(2), X, Y, test_ranking.list_choices(X, Y, 2)


def measure(rng, latent):
    X, truth = rng.normal(size=(5, 2)), np.array([True, False, True, False, False])
    return Measure("f1", bias=0.0), X, truth, [measure_reference.list_labelings(X, truth, "f1", 1.0, None, 0.0)]


def program(rng, latent):
    _, X, Y = test_program.programs(int(rng.integers(10**6)), latent)
    listed = [test_program.listed(x, y.values, y.weights) for x, y in zip(X, Y, strict=True)]
    return Program(), X, Y, listed


PROBLEMS = {
    "Multiclass": classes,
    "LatentMulticlass": latent_classes,
    "Chain": chain,
    "SemiMarkov": semi_markov,
    "Graph": graph,
    "Motif": motif,
    "Alignment": alignment,
    "Parsing": parsing,
    "CandidateTask": candidates,
    "PartsTask": matchings,
    "PartsTask with outputs": listed_parts,
    "ExampleTask": own,
    "Coreference": coreference,
    "CorrelationClustering": clusters,
    "PrecisionAtK": precision,
    "Measure": measure,
    "Program": program,
}
# Their enumeration is in the tests of the structure itself.
ELSEWHERE = {"Detection", "DiverseSubset", "PairwiseRanking"}
TEMPERATURES = [(0.0, 0.5), (0.5, 0.5), (1.0, 0.3), (0.5, 0.0)]


def expected(listed, w, C, temperature, margin=True):
    """½‖w‖² + C Σ (f⁺ − f⁻), by lists."""
    value = 0.5 * w @ w
    for one in listed:
        plus = reference.pool(one, w, "augmented" if margin else "free", *temperature).value
        value += C * (plus - reference.pool(one, w, "clamped", *temperature).value)
    return value


def expected_slack(listed, w, C):
    return 0.5 * w @ w + C * sum(reference.slack(one, w)[0] for one in listed)


def expected_renyi(listed, w, C, order):
    value = 0.5 * w @ w
    for one in listed:
        scores = one.features @ w
        heights = {
            y: test_marginal.renyi(scores[one.outputs == y], order) + one.losses[one.outputs == y][0]
            for y in np.unique(one.outputs)
        }
        value += C * (max(heights.values()) - heights[one.true_output])
    return value


class PairedCandidates(test_marginal.Listed):
    def pair_loss(self, x, y, h, y_hat, h_hat):
        return 0.7 * abs(y - y_hat) + 0.2 * (h != h_hat)


def compared(name, rng):
    """A problem whose loss compares latents too: task, X, Y, listed, and Δ(y_i, h', y, h) by numbers of candidates."""
    if name == "LatentMulticlass":
        _, X, Y, listed = latent_classes(rng, True)
        items = [one.items for one in listed]

        def loss(i, t, c):
            (y, h), (y_hat, h_hat) = items[i][t], items[i][c]
            return COSTS[y, y_hat] if y != y_hat else float(h != h_hat)

        return LatentMulticlass(weights="state", costs=COSTS, bias=1.5, latent_loss="zero_one"), X, Y, listed, loss
    if name == "CandidateTask":
        _, X, Y, listed = candidates(rng, True)
        return (
            PairedCandidates(),
            X,
            Y,
            listed,
            lambda i, t, c: listed[i].losses[c] + 0.2 * (X[i]["h"][t] != X[i]["h"][c]),
        )
    assert name == "Graph"
    graphs = [GraphInput(rng.normal(size=(3, 2)), np.array([(0, 1), (1, 2)]), None, np.full(3, "a"), np.full(2, "e"))]
    truth = [np.array([-1, rng.integers(0, 3), -1])]
    listed = test_graph.list_assignments(graphs, truth, {"a": 3}, True, test_graph.hamming)

    def different(i, t, c):
        pairs = zip(truth[i], listed[i].items[t], listed[i].items[c], strict=True)
        return listed[i].losses[c] + 0.7 * sum(a != b for y, a, b in pairs if y == -1)

    return Graph(labels=[0, 1, 2], hidden_loss=0.7), graphs, truth, listed, different


def expected_modlat(listed, loss, w, theta, C, J, beta):
    """½‖w‖² + J/2 ‖θ‖² + C Σ (ξ − β H), by lists."""
    value = 0.5 * w @ w + 0.5 * J * theta @ theta
    for i, one in enumerate(listed):
        own, scores = np.flatnonzero(one.outputs == one.true_output), one.features @ w
        table = np.array([[loss(i, t, c) for c in range(len(scores))] for t in own])
        P = reference.smax(one.features[own] @ theta, 1.0)[1]
        value += C * ((scores + P @ table).max() - scores[own].max() - beta * P @ table[:, own] @ P)
    return value


def cells():
    """List the claimed cells: structure, method and how it is supported."""
    for name in PROBLEMS:
        claimed = capabilities(ListedSides.tags if name == "PartsTask with outputs" else getattr(tasks, name).tags)
        yield from ((name, method, support) for method, support in claimed.items() if support)


def evaluate(model, task, X, Y, w):
    """Return the objective, and whether it is marked as exact."""
    batch = task.prepare(X, Y)
    return model._objective(task, batch, np.full(batch.n_examples, float(model.C))).evaluate(w)


@pytest.mark.parametrize(("name", "method", "support"), list(cells()))
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_claimed_method_has_the_objective_of_the_enumeration(name, method, support, seed):
    rng = np.random.default_rng(seed)
    if method == "ModLat":
        task, X, Y, listed, loss = compared(name, rng)
        task.learn(X, Y)
        w, theta = rng.normal(size=(2, task.n_features))
        batch = task.prepare(X, Y)
        weights = np.full(batch.n_examples, 0.3)
        objective = ModLat(task, C=0.3, J=0.4, beta=0.2)._dissimilarity(FitInputs(X, Y), task, batch, weights)
        wanted = expected_modlat(listed, loss, w, theta, 0.3, 0.4, 0.2)
        assert objective.value(w, theta) == pytest.approx(wanted, rel=1e-8, abs=1e-8)
        return
    latent = method in ("LatentSSVM", "MarginalSSVM", "HiddenCRF", "MinEntropySSVM", "StructuredEstimator, soft")
    task, X, Y, listed = PROBLEMS[name](rng, latent)
    task.learn(X, Y)
    w, C = rng.normal(size=task.n_features), 0.3
    if method == "StructuralSVM":
        found, wanted = StructuralSVM(task, C=C), expected(listed, w, C, (0.0, 0.0))
    elif method == "StructuralSVM, slack rescaling":
        found, wanted = StructuralSVM(task, C=C, rescaling="slack"), expected_slack(listed, w, C)
    elif method == "CRF":
        found, wanted = CRF(task, C=C), expected(listed, w, C, (1.0, 1.0), margin=False)
    elif method == "LatentSSVM":
        found, wanted = LatentSSVM(task, C=C), expected(listed, w, C, (0.0, 0.0))
    elif method == "HiddenCRF":
        found, wanted = HiddenCRF(task, C=C), expected(listed, w, C, (1.0, 1.0), margin=False)
    elif method == "MinEntropySSVM":
        found, wanted = MinEntropySSVM(task, C=C, alpha=2.0), expected_renyi(listed, w, C, 2.0)
    elif method == "MarginalSSVM":
        found, wanted = MarginalSSVM(task, C=C), expected(listed, w, C, (0.0, 1.0))
    else:
        for temperature in TEMPERATURES if support == "any ε" else [(0.5, 0.5), (1.0, 1.0)]:
            found = StructuredEstimator(task, C=C, temperature=temperature)
            wanted = expected(listed, w, C, temperature)
            assert evaluate(found, task, X, Y, w)[0] == pytest.approx(wanted, rel=1e-8, abs=1e-8), temperature
        return
    if method == "MinEntropySSVM":
        batch = task.prepare(X, Y)
        gradient = found._objective(task, batch, np.full(batch.n_examples, C)).value_and_gradient(w)[1]
        slopes = [[reference.renyi(one, w, mode, 2.0)[1] for mode in ("augmented", "clamped")] for one in listed]
        np.testing.assert_allclose(gradient, w + C * sum(above - below for above, below in slopes), atol=1e-8)
    value, exact = evaluate(found, task, X, Y, w)
    if support == "search":
        # The search sees the convex hull of losses and scores only: a lower bound, and never below the true output.
        assert 0.5 * w @ w - 1e-9 <= value <= wanted + 1e-8
        assert not exact
    else:
        assert exact or method == "MinEntropySSVM"
        assert value == pytest.approx(wanted, rel=1e-8, abs=1e-8)


def test_every_structure_is_among_the_problems():
    assert set(tasks.__all__) == (set(PROBLEMS) | ELSEWHERE) - {"PartsTask with outputs"}


def test_holes_and_searches_have_reasons():
    for tags in task_tags().values():
        wanting = {method for method, support in capabilities(tags).items() if support in ("", "search")}
        assert set(reasons(tags)) == wanting
        assert set(tags.reasons) <= wanting
