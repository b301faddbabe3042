"""Reweighted messages: bounds enclose the exact maxima, assignments have their values, and narrow graphs are exact."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bounds import exact_value, grid, random_graph, random_potentials, score

from latentstruct._native.ascent import ascend
from latentstruct.inference.ascent import Ascent, Rest, is_proved
from latentstruct.inference.propagation import Propagation
from latentstruct.inference.structure import FactorGraphs


def ascent_of(structure, **options):
    return Ascent(Propagation(structure, np.zeros(len(structure.cards), dtype=bool)), **options)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    zeros=st.sampled_from([0.0, 0.2, 0.4]),
    max_entries=st.sampled_from([1, 2**16]),
    warm=st.booleans(),
)
def test_bounds_enclose_the_maximum(seed, zeros, max_entries, warm):
    rng = np.random.default_rng(seed)
    structure = random_graph(rng, int(rng.integers(1, 9)), int(rng.integers(0, 14)))
    unary, tables = random_potentials(rng, structure, zeros)
    ascent = ascent_of(structure, max_entries=max_entries)
    messages = None
    if warm:
        messages = 5.0 * rng.normal(size=int(ascent.propagation.message_at[-1]))
    found = ascent.run(unary, tables, messages=messages)
    value, exact = float(found.values[0]), exact_value(structure, unary, tables, 0.0)
    if exact == -np.inf:
        assert value == -np.inf
        return
    slack = 1e-8 * max(1.0, abs(exact))
    assert not found.exact[0] or value == pytest.approx(exact, abs=slack)
    assert value <= exact + slack
    assert value + found.excess[0] >= exact - slack
    if value > -np.inf:
        assert score(structure, unary, tables, found.states) == pytest.approx(value, abs=1e-8)
    if max_entries > 1:
        # Elimination of all that remains is feasible.
        assert value == pytest.approx(exact, abs=1e-8)
        assert found.exact[0]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_each_state_has_a_bound_of_all_assignments_with_it(seed):
    rng = np.random.default_rng(seed)
    structure = random_graph(rng, int(rng.integers(2, 7)), int(rng.integers(1, 9)))
    unary, tables = random_potentials(rng, structure)
    owner = Propagation(structure, np.zeros(len(structure.cards), dtype=bool))
    work = owner.begin(unary, tables, np.zeros(1, dtype=np.int64), None)
    uppers, reach = np.zeros(1), np.zeros(len(unary))
    wanted = np.ones(1, dtype=bool)
    bounds = []
    for _ in range(3):
        ascend(owner.wiring, work.selected, wanted, work.folded, work.tables, work.messages, 1, uppers, reach)
        bounds.append(float(uppers[0]))
    assert all(after <= before + 1e-9 for before, after in pairwise(bounds))
    for v, card in enumerate(structure.cards):
        for x in range(card):
            at = structure.state_at[v] + x
            alone = np.full(len(unary), -np.inf)
            alone[at] = unary[at]
            others = np.arange(len(unary))
            others = (others < structure.state_at[v]) | (others >= structure.state_at[v + 1])
            alone[others] = unary[others]
            exact = exact_value(structure, alone, tables, 0.0)
            assert reach[at] + work.constants[0] >= exact - 1e-8


def test_several_graphs_are_searched_together_and_any_of_them_alone():
    rng = np.random.default_rng(0)
    one = grid(4, 3)
    n, m = len(one.cards), len(one.scope_at) - 1
    both = FactorGraphs(
        np.tile(one.cards, 2),
        np.concatenate([one.scope_at, one.scope_at[1:] + one.scope_at[-1]]),
        np.concatenate([one.scopes, one.scopes + n]),
        np.array([0, n, 2 * n]),
        np.array([0, m, 2 * m]),
    ).check()
    unary, tables = random_potentials(rng, both)
    ascent = ascent_of(both)
    together = ascent.run(unary, tables)
    alone = ascent.run(unary[3 * n :], tables[9 * m :], graphs=[1])
    assert together.exact.all()
    assert alone.values[0] == pytest.approx(together.values[1])
    parts = [exact_value(one, unary[k * 3 * n :][: 3 * n], tables[k * 9 * m :][: 9 * m], 0.0) for k in range(2)]
    np.testing.assert_allclose(together.values, parts)


def test_nothing_found_proves_nothing():
    np.testing.assert_array_equal(is_proved([-np.inf, -np.inf, 0.0], [np.inf, 0.0, 1e-12]), [False, True, True])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.3]), max_entries=st.sampled_from([4, 8, 2**16]))
def test_searches_above_values_enclose_the_maximum(seed, zeros, max_entries):
    rng = np.random.default_rng(seed)
    structure = random_graph(rng, int(rng.integers(2, 8)), int(rng.integers(1, 12)))
    unary, tables = random_potentials(rng, structure, zeros)
    owner = np.repeat(np.arange(len(structure.cards)), structure.cards)
    others = (owner[:, None] == owner) & ~np.eye(len(owner), dtype=bool)
    with_state = np.array([exact_value(structure, np.where(hid, -np.inf, unary), tables, 0.0) for hid in others])
    exact = with_state.max()
    reach = np.where(np.isfinite(with_state), with_state, -50.0) + rng.exponential(0.5, len(unary))
    upper = float(max(reach.max(), -40.0))
    start = np.zeros(len(structure.cards), dtype=np.int64)
    first = score(structure, unary, tables, start)
    value, states, upper = Rest(structure, unary, tables, max_entries, 1e-9).search(reach, first, start, upper)
    assert first <= value
    assert value - 1e-9 <= exact <= upper + 1e-9
    assert value == -np.inf or score(structure, unary, tables, states) == pytest.approx(value, abs=1e-9)
    if max_entries > 8:
        assert value == pytest.approx(exact, abs=1e-9)
