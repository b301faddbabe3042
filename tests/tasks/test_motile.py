"""Costs of motile solvers, with objects that have their interface."""

from types import SimpleNamespace

import numpy as np
import pytest

from error_fields import raises
from latentstruct.integrations.motile import fit_weights, labels_of, program_of
from latentstruct.tasks.program.solving import HighsProgram, Limits


class NodeSelected(dict):
    pass


class EdgeSelected(dict):
    pass


class NodeAppear(dict):
    pass


class Constraint:
    def __init__(self, terms, relation, value, quadratic=()):
        self.terms, self.relation, self.value, self.quadratic = terms, relation, value, quadratic

    def get_coefficients(self):
        return self.terms

    def get_relation(self):
        return SimpleNamespace(name=self.relation)

    def get_value(self):
        return self.value

    def get_quadratic_coefficients(self):
        return self.quadratic


class Weights:
    def __init__(self, values):
        self.values = values

    def to_ndarray(self):
        return self.values

    def from_ndarray(self, values):
        self.values = values


def track(keep, n=12):
    """Return a solver for one object and one false detection per frame: nodes, edges to the next frame, appearances."""
    rng = np.random.default_rng(0)
    nodes = {k: {"gt": 1 - k % 2, "cost": -1.0 + 2 * (k % 2) + 0.3 * rng.normal()} for k in range(2 * n)}
    pairs = [(a, b) for a in nodes for b in (a + 2 - a % 2, a + 3 - a % 2) if b in nodes]
    edges = {(a, b): {"gt": int(a % 2 == b % 2 == 0), "cost": (a % 2 or b % 2) + 0.3 * rng.normal()} for a, b in pairs}
    for one in (*nodes.values(), *edges.values()):
        if rng.random() >= keep:
            one["gt"] = None
    N, E = len(nodes), len(edges)
    number = {edge: N + k for k, edge in enumerate(edges)}
    constraints = []
    for v in nodes:
        into = {number[e]: 1.0 for e in edges if e[1] == v}
        out = {number[e]: 1.0 for e in edges if e[0] == v}
        constraints.append(Constraint({**into, N + E + v: 1.0, v: -1.0}, "Equal", 0.0))
        constraints.append(Constraint({**out, v: -1.0}, "LessEqual", 0.0))
        constraints.append(Constraint({v: 1.0}, "GreaterEqual", 0.0))
    features = np.zeros((2 * N + E, 5))
    features[:N, 0], features[:N, 1] = [one["cost"] for one in nodes.values()], 1.0
    features[N : N + E, 2], features[N : N + E, 3] = [one["cost"] for one in edges.values()], 1.0
    features[N + E :, 4] = 1.0
    variables = {
        NodeSelected: NodeSelected((v, v) for v in nodes),
        EdgeSelected: EdgeSelected(number),
        NodeAppear: NodeAppear((v, N + E + v) for v in nodes),
    }
    return SimpleNamespace(
        graph=SimpleNamespace(nodes=nodes, edges=edges),
        constraints=constraints,
        variables=variables,
        num_variables=2 * N + E,
        features=SimpleNamespace(to_ndarray=lambda: features),
        weights=Weights(np.array([1.0, 0.0, 1.0, -1.0, 1.0])),
    )


@pytest.mark.parametrize(("keep", "start"), [(1.0, False), (0.4, False), (0.4, True)])
def test_weights_are_learned_from_all_labels_and_from_some(keep, start):
    solver = track(keep)
    weights = fit_weights(solver, "gt", start=start)
    np.testing.assert_array_equal(solver.weights.values, weights)
    truth, x = labels_of(track(1.0), "gt").values, program_of(solver)
    found = HighsProgram(x.constraints, Limits()).maximize(x.features @ weights).x
    assert not np.isnan(truth).any()
    assert np.mean(found == truth) > 0.9


def test_appearances_follow_from_labels_where_these_decide():
    full, some = labels_of(track(1.0), "gt"), labels_of(track(0.5), "gt")
    solver = track(1.0)
    assert program_of(solver).constraints.violation(full.values) is None
    N, E = len(solver.graph.nodes), len(solver.graph.edges)
    np.testing.assert_array_equal(full.weights, np.repeat([1.0, 0.0], [N + E, N]))
    known = ~np.isnan(some.values)
    assert 0 < known[N + E :].sum() < N
    np.testing.assert_array_equal(some.values[known], full.values[known])
    for v in np.flatnonzero(~known[N + E :]).tolist():
        labels = [some.values[N + e] for e, edge in enumerate(solver.graph.edges) if edge[1] == v]
        assert 1.0 not in labels
        assert some.values[v] != 0.0
        assert np.isnan([some.values[v], *labels]).any()


def test_quadratic_constraints_are_refused():
    solver = track(1.0)
    solver.constraints[0].quadratic = {(0, 1): 1.0}
    with raises("solver", got="a quadratic constraint"):
        program_of(solver)
