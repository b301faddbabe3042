"""The choice between elimination and belief propagation, and results merged in the requested order."""

import numpy as np
import pytest
from graph_reference import enumerate_beliefs, make_graphs, random_graphs, random_potentials
from hypothesis import given, settings
from hypothesis import strategies as st
from test_propagation import SEEDS, TEMPERATURES, parts

from error_fields import raises
from latentstruct.core.protocols import Temperature
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.engine import Inference
from latentstruct.inference.propagation import Propagation


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from(TEMPERATURES))
def test_graphs_within_the_limit_are_exact(seed, temperature):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, n_graphs=3)
    unary, tables = random_potentials(rng, structure)
    inference = Inference(structure, hidden)
    found = inference.run(unary, tables, temperature)
    values, in_unary, in_tables, _ = enumerate_beliefs(structure, unary, tables, hidden, temperature)
    assert inference.exact.all()
    assert found.exact.all()
    assert found.converged.all()
    assert found.messages.size == 0
    np.testing.assert_allclose(found.values, values, atol=1e-8)
    np.testing.assert_allclose(found.unary, in_unary, atol=1e-8)
    np.testing.assert_allclose(found.tables, in_tables, atol=1e-8)


def chosen_part(structure, graphs, unary, tables):
    of_unary, of_tables = parts(structure)
    return (
        np.concatenate([unary[of_unary == g] for g in graphs]),
        np.concatenate([tables[of_tables == g] for g in graphs]),
    )


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from(TEMPERATURES))
def test_each_graph_is_pooled_its_own_way_and_comes_back_in_order(seed, temperature):
    rng = np.random.default_rng(seed)
    chain, loop = [[i, i + 1] for i in range(3)], [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]
    structure = make_graphs([([3] * 4, scopes) for scopes in (chain, loop, chain, loop, loop)])
    hidden = rng.random(20) < 0.5
    # Hidden inner nodes of a chain leave tables over two outputs; three variables are over the limit.
    unary, tables = random_potentials(rng, structure)
    inference = Inference(structure, hidden, max_entries=20)
    expected = Elimination(structure, hidden, max_entries=20).feasible
    assert np.array_equal(inference.exact, expected)
    order = rng.permutation(5)[:4]
    found = inference.run(*chosen_part(structure, order, unary, tables), temperature, graphs=order)
    assert np.array_equal(found.exact[inference.exact[order]], np.ones(inference.exact[order].sum(), dtype=bool))
    at_u, at_t, at_v = 0, 0, 0
    for k, g in enumerate(order):
        potentials = chosen_part(structure, [g], unary, tables)
        way = Elimination(structure, hidden) if inference.exact[g] else Propagation(structure, hidden, max_entries=20)
        alone = way.run(*potentials, temperature, graphs=[g])
        assert found.values[k] == alone.values[0]
        assert found.exact[k] == alone.exact[0]
        assert found.converged[k] == alone.converged[0]
        assert np.array_equal(found.unary[at_u : at_u + len(alone.unary)], alone.unary)
        assert np.array_equal(found.tables[at_t : at_t + len(alone.tables)], alone.tables)
        assert np.array_equal(found.states[at_v : at_v + len(alone.states)], alone.states)
        at_u, at_t, at_v = at_u + len(alone.unary), at_t + len(alone.tables), at_v + len(alone.states)


def test_messages_belong_to_the_graphs_that_are_not_exact():
    rng = np.random.default_rng(0)
    loop = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]
    structure = make_graphs([([3] * 4, [[0, 1]]), ([3] * 4, loop), ([3] * 4, [[2, 3]]), ([3] * 4, loop)])
    hidden = np.zeros(16, dtype=bool)
    unary, tables = random_potentials(rng, structure, scale=0.5)
    inference = Inference(structure, hidden, max_entries=20)
    assert np.array_equal(inference.exact, [True, False, True, False])
    assert np.array_equal(inference.message_at, [0, 0, 30, 30, 60])
    temperature = Temperature(1.0, 1.0)
    first = inference.run(unary, tables, temperature)
    again = inference.run(unary, tables, temperature, warm=first.messages)
    assert again.sweeps.max() < first.sweeps.max()
    assert again.values == pytest.approx(first.values, abs=1e-8)
    part = inference.run(
        *chosen_part(structure, [3, 0], unary, tables), temperature, graphs=[3, 0], warm=first.messages[30:60]
    )
    assert np.array_equal(part.sweeps, again.sweeps[[3, 0]])
    with raises("messages"):
        inference.run(unary, tables, temperature, warm=np.zeros(3))


def test_users_are_told_how_a_graph_is_pooled():
    loop = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]
    structure = make_graphs([([3] * 4, [[0, 1]]), ([3] * 4, loop)])
    inference = Inference(structure, np.zeros(8, dtype=bool), max_entries=20)
    assert inference.describe(0) == "exact, width 1"
    wide = "belief propagation: the best order found reaches width 2 and a table of 27 entries, and max_entries is 20"
    assert inference.describe(1) == wide
    with raises("graphs", got=2):
        inference.describe(2)
