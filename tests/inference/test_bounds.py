"""Bounds enclose the exact values of random graphs, and assignments have the values that are stated."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from latentstruct.core.protocols import Temperature
from latentstruct.exceptions import InputError
from latentstruct.inference.bounds import BoundedInference, _Division, _Pieces
from latentstruct.inference.covers import Cover, find_layers, partition
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.pruning import Pruned
from latentstruct.inference.structure import FactorGraphs, pairwise_graphs


def random_graph(rng, n_variables, n_factors, most_states=3, largest=3):
    cards = rng.integers(1, most_states + 1, n_variables)
    arities = rng.integers(0, min(largest, n_variables) + 1, n_factors)
    scopes = [rng.permutation(n_variables)[:a] for a in arities]
    at = np.concatenate([[0], np.cumsum(arities)]).astype(np.int64)
    flat = np.concatenate([np.zeros(0, dtype=np.int64), *scopes]).astype(np.int64)
    return FactorGraphs(cards, at, flat, np.array([0, n_variables]), np.array([0, n_factors])).check()


def random_potentials(rng, structure, zeros=0.0):
    unary = rng.normal(size=int(structure.state_at[-1]))
    tables = 2.0 * rng.normal(size=int(structure.table_at[-1]))
    for values in (unary, tables):
        values[rng.random(len(values)) < zeros] = -np.inf
    return unary, tables


def grid(n, n_states):
    number = np.arange(n * n).reshape(n, n)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs])
    return pairwise_graphs([n_states] * (n * n), edges, [0, n * n], [0, len(edges)])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.3]))
def test_toulbar2_finds_the_maximum(seed, zeros):
    pytest.importorskip("pytoulbar2")
    from latentstruct.inference.toulbar2 import maximize

    rng = np.random.default_rng(seed)
    structure = random_graph(rng, int(rng.integers(1, 8)), int(rng.integers(0, 10)))
    unary, tables = random_potentials(rng, structure, zeros)
    bounds = maximize(structure, unary, tables)
    value = exact_value(structure, unary, tables, 0.0)
    assert_encloses(bounds, value)
    if value > -np.inf:
        assert bounds.gap <= 1e-4
        assert score(structure, unary, tables, bounds.states) == pytest.approx(bounds.lower, abs=1e-9)


def score(structure, unary, tables, states):
    total = sum(unary[structure.state_at[v] + x] for v, x in enumerate(states))
    for f in range(len(structure.scope_at) - 1):
        scope = structure.scopes[structure.scope_at[f] : structure.scope_at[f + 1]]
        table = tables[structure.table_at[f] : structure.table_at[f + 1]].reshape(structure.cards[scope])
        total += table[tuple(states[v] for v in scope)]
    return float(total)


def exact_value(structure, unary, tables, temperature):
    engine = Elimination(structure, np.zeros(len(structure.cards), dtype=bool), 2**20)
    return float(engine.run(unary, tables, Temperature(temperature, temperature)).values[0])


def assert_encloses(bounds, value):
    slack = 1e-8 * max(1.0, abs(value)) if math.isfinite(value) else 0.0
    assert bounds.lower <= value + slack
    assert bounds.upper >= value - slack


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_variables=st.integers(1, 9),
    n_factors=st.integers(0, 14),
    temperature=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    zeros=st.sampled_from([0.0, 0.0, 0.2]),
    max_entries=st.sampled_from([1, 9, 27]),
)
def test_bounds_enclose_the_exact_value(seed, n_variables, n_factors, temperature, zeros, max_entries):
    rng = np.random.default_rng(seed)
    structure = random_graph(rng, n_variables, n_factors)
    unary, tables = random_potentials(rng, structure, zeros)
    bounds = BoundedInference(structure, max_entries, max_iter=10).run(unary, tables, temperature)
    assert bounds.lower <= bounds.upper
    assert_encloses(bounds, exact_value(structure, unary, tables, temperature))
    if temperature == 0 and bounds.lower > -np.inf:
        assert score(structure, unary, tables, bounds.states) == pytest.approx(bounds.lower, abs=1e-8)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_forests_have_no_gap(temperature):
    rng = np.random.default_rng(0)
    edges = [(rng.integers(0, v), v) for v in range(1, 12)]
    structure = pairwise_graphs([3] * 12, edges, [0, 12], [0, 11])
    unary, tables = random_potentials(rng, structure)
    bounds = BoundedInference(structure, 9, max_iter=200).run(unary, tables, temperature)
    value = exact_value(structure, unary, tables, temperature)
    assert_encloses(bounds, value)
    assert bounds.upper == pytest.approx(value, abs=1e-6)
    if temperature == 0:
        assert bounds.lower == pytest.approx(value, abs=1e-6)


def test_maxima_of_attractive_grids_are_proved():
    rng = np.random.default_rng(1)
    structure = grid(8, 3)
    strengths = rng.uniform(0.2, 1.0, len(structure.scope_at) - 1)
    tables = (strengths[:, None, None] * np.eye(3)).ravel()
    unary = rng.normal(size=8 * 8 * 3)
    bounds = BoundedInference(structure, 27).run(unary, tables)
    assert bounds.gap <= 1e-3 * abs(bounds.lower)
    assert_encloses(bounds, exact_value(structure, unary, tables, 0.0))


def test_larger_tables_tighten_the_upper_bound():
    rng = np.random.default_rng(2)
    structure = grid(8, 2)
    unary, tables = random_potentials(rng, structure)
    uppers = [BoundedInference(structure, limit, max_iter=300).run(unary, tables, 1.0).upper for limit in (4, 64)]
    assert uppers[1] < uppers[0]


def test_impossible_graphs_have_no_possible_assignment():
    structure = pairwise_graphs([2, 2], [[0, 1]], [0, 2], [0, 1])
    bounds = BoundedInference(structure).run(np.zeros(4), np.full(4, -np.inf))
    assert bounds.lower == bounds.upper == -np.inf
    assert bounds.gap == 0.0


def test_given_assignments_are_never_made_worse():
    rng = np.random.default_rng(3)
    structure = grid(5, 2)
    unary, tables = random_potentials(rng, structure)
    start = rng.integers(0, 2, 25)
    bounds = BoundedInference(structure, 4, max_iter=1).run(unary, tables, starts=[start])
    assert bounds.lower >= score(structure, unary, tables, start) - 1e-9


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), max_entries=st.sampled_from([1, 4, 64]))
def test_covers_have_all_factors_and_partitions_all_variables_once(seed, max_entries):
    rng = np.random.default_rng(seed)
    structure = random_graph(rng, int(rng.integers(1, 12)), int(rng.integers(0, 16)))
    cover = Cover.of(structure, max_entries)
    assert set(cover.tables) == set(range(int(structure.table_at[-1])))
    assert cover.elimination.feasible.all()
    blocks = partition(structure, max_entries)
    assert sorted(np.concatenate([block.variables for block in blocks])) == list(range(len(structure.cards)))
    assert all(block.elimination.feasible.all() for block in blocks)


def test_layers_are_distances():
    chain = pairwise_graphs([2] * 6, [[k, k + 1] for k in range(4)], [0, 6], [0, 4])
    assert find_layers(chain, 0).tolist() == [0, 1, 2, 3, 4, 0]
    assert find_layers(chain).max() == 4


def test_bad_parameters_are_named():
    with pytest.raises(InputError) as error:
        BoundedInference(pairwise_graphs([2, 2], [[0, 1]], [0, 2], [0, 1]), max_entries=0)
    assert error.value.parameter == "max_entries"
    with pytest.raises(InputError) as error:
        BoundedInference(pairwise_graphs([2], np.zeros((0, 2), dtype=int), [0, 1], [0, 0])).run([0.0, 1.0], [], -1.0)
    assert error.value.parameter == "temperature"


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), temperature=st.sampled_from([0.01, 0.3, 2.0]))
def test_divisions_bound_all_assignments_with_a_state(seed, temperature):
    rng = np.random.default_rng(seed)
    structure = random_graph(rng, int(rng.integers(2, 7)), int(rng.integers(2, 10)))
    unary, tables = random_potentials(rng, structure, 0.1)
    largest = int(max(np.diff(structure.table_at).max(initial=1), structure.cards.max()))
    division = _Division(_Pieces(structure, largest), unary, tables)
    assume(division.upper(0.0) > -np.inf)
    division.minimize(temperature, 5)
    reach = division.reach(temperature)
    for i, v in enumerate(np.repeat(np.arange(len(structure.cards)), structure.cards)):
        others = np.arange(len(unary)) != i
        others &= np.repeat(np.arange(len(structure.cards)), structure.cards) == v
        best = exact_value(structure, np.where(others, -np.inf, unary), tables, 0.0)
        assert best <= reach[i] + 1e-9


def test_wide_pedigrees_have_possible_genotypes():
    from benchmarks.wide_graphs import pedigree

    graph = Pruned(*pedigree(1, 6, 12, 3, 0.3))
    bounds = BoundedInference(graph.rest, 2**10, max_rest_entries=2**10).run(graph.unary, graph.tables)
    exact = exact_value(graph.rest, graph.unary, graph.tables, 0.0)
    assert -np.inf < bounds.lower <= exact + 1e-9 <= bounds.upper + 2e-9
