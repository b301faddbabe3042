"""Pruning keeps every possible assignment, and only shrinks graphs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bounds import random_graph, random_potentials

from latentstruct.core.protocols import Temperature
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.pruning import Pruned
from latentstruct.inference.structure import pairwise_graphs


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), temperature=st.sampled_from([0.0, 1.0]), zeros=st.sampled_from([0.2, 0.5, 0.8]))
def test_beliefs_are_those_of_the_whole_graph(seed, temperature, zeros):
    rng = np.random.default_rng(seed)
    structure = random_graph(rng, int(rng.integers(1, 7)), int(rng.integers(0, 9)))
    unary, tables = random_potentials(rng, structure, zeros)
    pruned = Pruned(structure, unary, tables)
    both = Temperature(temperature, temperature)
    rest, whole = (
        Elimination(graph, np.zeros(len(graph.cards), dtype=bool)).run(*potentials, both)
        for graph, potentials in ((pruned.rest, (pruned.unary, pruned.tables)), (structure, (unary, tables)))
    )
    found = pruned.spread(rest)
    np.testing.assert_allclose(found.values, whole.values, atol=1e-9)
    np.testing.assert_allclose(found.unary, whole.unary, atol=1e-9)
    np.testing.assert_allclose(found.tables, whole.tables, atol=1e-9)
    if temperature == 0:
        np.testing.assert_array_equal(found.states, whole.states)


def test_zeros_spread_along_a_chain():
    """Each variable equals the one before, and the first one is known."""
    equal = np.where(np.eye(3) > 0, 0.0, -np.inf).ravel()
    structure = pairwise_graphs([3] * 4, [[0, 1], [1, 2], [2, 3]], [0, 4], [0, 3])
    unary = np.zeros(12)
    unary[[0, 2]] = -np.inf
    pruned = Pruned(structure, unary, np.tile(equal, 3))
    assert pruned.rest.cards.tolist() == [1, 1, 1, 1]
    assert len(pruned.tables) == 3


def test_impossible_graphs_stay_as_they_are():
    structure = pairwise_graphs([2, 2], [[0, 1]], [0, 2], [0, 1])
    assert Pruned(structure, np.zeros(4), np.full(4, -np.inf)).rest.cards.tolist() == [2, 2]
