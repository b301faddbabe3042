"""Costs of tracks that are learned from some of the labels, beside motile, on simulated objects.

Objects move at random through a square; detections miss some of them and add false ones. Weights are learned on one
video and judged by the F1 of links on another. The peer is motile 1.0.1 with structsvm and SCIP (``pip install motile
pyscipopt==5.5.0``); without it the lines are left out. With weaker regularization SCIP did not end, and with 40 objects
its first training did not end within six minutes of CPU time.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.common import Line, cpu
from benchmarks.propagation import installed
from latentstruct.integrations.motile import fit_weights

OBJECTS = (10, 25)
"""Objects in 100 × 100 pixels."""
KEPT = (1.0, 0.2, 0.1)
"""Fractions of labels that are known."""
FRAMES, RADIUS = 15, 12.0
HAND = np.array([-4.0, 1.0, 0.25, -2.0, 1.0])
"""Weights by hand, not tuned: score and constant of detections, distance and constant of links, appearance."""
REGULARIZER, PRECISION = 1.0, 1e-3


def simulate(n_objects: int, kept: float, rng: np.random.Generator) -> Any:
    """Return a motile graph of detections and links, whose attribute `gt` is known for some of them."""
    import networkx as nx
    from motile import TrackGraph

    graph, before, number = nx.DiGraph(), [], 0
    places = rng.uniform(0, 100, (n_objects, 2))
    for t in range(FRAMES):
        places = places + rng.normal(0, 3, places.shape)
        seen = np.flatnonzero(rng.random(n_objects) < 0.95)
        clutter = rng.uniform(0, 100, (rng.poisson(0.4 * n_objects), 2))
        found = np.concatenate([places[seen] + rng.normal(0, 1, (len(seen), 2)), clutter])
        owner = np.append(seen, np.full(len(clutter), -1))
        now = []
        for (x, y), object_ in zip(found, owner.tolist(), strict=True):
            score = rng.normal(0.6 if object_ >= 0 else 0.4, 0.15)
            graph.add_node(number, t=t, x=x, y=y, score=score, gt=int(object_ >= 0))
            now.append((number, x, y, object_))
            number += 1
        for a, x, y, first in before:
            for b, u, v, second in now:
                distance = float(np.hypot(x - u, y - v))
                if distance <= RADIUS:
                    graph.add_edge(a, b, distance=distance, gt=int(first == second >= 0))
        before = now
    for item in (*graph.nodes.values(), *graph.edges.values()):
        item["true"] = item["gt"]
        if rng.random() >= kept:
            item["gt"] = None
    return TrackGraph(graph, frame_attribute="t")


def make_solver(graph: Any) -> Any:
    """Return a motile solver with the weights by hand."""
    from motile import Solver
    from motile.constraints import MaxChildren, MaxParents
    from motile.costs import EdgeSelectedCost, NodeAppearCost, NodeSelectedCost

    solver = Solver(graph)
    solver.add_cost(NodeSelectedCost(weight=HAND[0], attribute="score", constant=HAND[1]))
    solver.add_cost(EdgeSelectedCost(weight=HAND[2], attribute="distance", constant=HAND[3]))
    solver.add_cost(NodeAppearCost(constant=HAND[4]))
    solver.add_constraint(MaxParents(1))
    solver.add_constraint(MaxChildren(1))
    return solver


def f1(solver: Any) -> float:
    """Return the F1 of the links that a solver selects by its weights."""
    solver.solve()
    chosen = set(solver.get_selected_subgraph().edges)
    true = {edge for edge, item in solver.graph.edges.items() if item["true"]}
    return 2 * len(chosen & true) / max(1, len(chosen) + len(true))


def objective(solver: Any, weights: np.ndarray) -> float:
    """Return what motile minimizes, where all labels are known."""
    from motile.variables import EdgeSelected, NodeSelected
    from structsvm import HammingCosts, SoftMarginLoss

    truth, mask = np.zeros((2, solver.num_variables), dtype=np.float32)
    for kind, items in ((NodeSelected, solver.graph.nodes), (EdgeSelected, solver.graph.edges)):
        for key, index in solver.get_variables(kind).items():
            if items[key]["gt"] is not None:
                truth[index], mask[index] = items[key]["gt"], 1.0
    loss = SoftMarginLoss(solver.constraints, solver.features.to_ndarray().T, truth, HammingCosts(truth, mask))
    return float(loss.value_and_gradient(weights)[0] + 0.5 * REGULARIZER * weights @ weights)


def measure(n_objects: int, kept: float, seed: int) -> Iterator[float]:
    """Yield CPU seconds and F1 of ours, of ours that begins with the weights by hand, and of motile, and F1 by hand."""
    graphs = [simulate(n_objects, share, np.random.default_rng([seed, k])) for k, share in enumerate((kept, 1.0))]
    test, precision = make_solver(graphs[1]), np.inf
    by_hand = f1(test)
    for begin in ("zero", "hand", "motile"):
        solver = make_solver(graphs[0])
        if begin == "motile":
            seconds, _ = cpu(lambda one=solver, eps=precision: one.fit_weights("gt", REGULARIZER, 1000, eps))
        else:
            options = {"regularizer_weight": REGULARIZER, "eps": PRECISION, "start": begin == "hand"}
            seconds, weights = cpu(lambda one=solver, options=options: fit_weights(one, "gt", **options))
            # The precision of motile is absolute.
            precision = PRECISION * objective(solver, weights)
        test.weights.from_ndarray(solver.weights.to_ndarray())
        yield from (seconds, f1(test))
    yield by_hand


def run(quick: bool = False) -> list[Line]:
    if not (installed("motile") and installed("pyscipopt")):
        print("motile is not installed: its lines are left out")
        return []
    lines = []
    for n_objects in OBJECTS[: 1 if quick else None]:
        for kept in KEPT:
            found = np.array([list(measure(n_objects, kept, seed)) for seed in range(2 if quick else 10)])
            zero, zero_f1, hand, hand_f1, peer, peer_f1, by_hand = found.mean(axis=0)
            reached = f"F1 {zero_f1:.3f}, from weights by hand {hand_f1:.3f} ({hand:.2g} CPU s); motile {peer_f1:.3f}"
            what = f"tracks of {n_objects} objects, {kept:.0%} of the labels"
            at_most = 0.1 if kept == 1.0 else None
            lines.append(Line(what, zero, peer, "motile", at_most, f"{reached}, untrained {by_hand:.3f}"))
    return lines
