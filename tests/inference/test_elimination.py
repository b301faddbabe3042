"""Exact elimination and conditioning against lists of all assignments."""

import numpy as np
import pytest
from graph_reference import (
    KINDS,
    enumerate_beliefs,
    enumerate_renyi,
    make_graphs,
    random_graphs,
    random_part,
    random_potentials,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct._native.vectors import exponentiate, take_logarithms
from latentstruct.core.protocols import Temperature
from latentstruct.inference.conditioning import Conditioned
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.engine import Inference
from latentstruct.inference.structure import FactorGraphs, pairwise_graphs

TEMPERATURES = [Temperature(a, b) for a in (0.0, 0.3, 1.0) for b in (0.0, 0.3, 1.0)]
seeds = st.integers(0, 2**32 - 1)


def close(found, wanted, tolerance=1e-8):
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def grid_scopes(rows, columns):
    across = [[i, i + 1] for i in range(rows * columns) if (i + 1) % columns]
    return across + [[i, i + columns] for i in range((rows - 1) * columns)]


def cut(structure, unary, tables, graphs):
    """Potentials of some graphs one after the other."""
    states, entries = structure.state_at[structure.variables_at], structure.table_at[structure.factors_at]
    parts = [np.zeros(0)], [np.zeros(0)]
    for g in graphs:
        parts[0].append(unary[states[g] : states[g + 1]])
        parts[1].append(tables[entries[g] : entries[g + 1]])
    return np.concatenate(parts[0]), np.concatenate(parts[1])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50, deadline=None)
@given(seed=seeds, forbidden=st.sampled_from([0.0, 0.1, 0.4]))
def test_equals_enumeration_at_all_temperatures(kind, seed, forbidden):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, (kind,), n_graphs=2)
    unary, tables = random_potentials(rng, structure, forbidden=forbidden)
    elimination = Elimination(structure, hidden)
    assert elimination.feasible.all()
    for temperature in TEMPERATURES:
        values, by_unary, by_tables, states = enumerate_beliefs(structure, unary, tables, hidden, temperature)
        found = elimination.run(unary, tables, temperature)
        close(found.values, values)
        close(found.unary, by_unary)
        close(found.tables, by_tables)
        assert found.exact.all()
        assert found.converged.all()
        if not forbidden:
            np.testing.assert_array_equal(found.states, states)
        impossible = np.repeat(values == -np.inf, np.diff(structure.variables_at))
        np.testing.assert_array_equal(found.states[impossible], 0)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, alpha=st.sampled_from([0.3, 0.9, 1.5, 2.0, 7.0]), output=st.sampled_from([0.0, 0.3, 1.0]))
def test_renyi_equals_enumeration(seed, alpha, output):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, n_graphs=3)
    unary, tables = random_potentials(rng, structure, forbidden=0.1)
    values, by_unary, by_tables = enumerate_renyi(structure, unary, tables, hidden, alpha, output)
    elimination = Elimination(structure, hidden)
    found = elimination.run_renyi(unary, tables, alpha, output)
    close(found.values, values)
    close(found.unary, by_unary)
    close(found.tables, by_tables)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, alpha=st.sampled_from([0.5, 3.0]))
def test_renyi_decodes_outputs_of_the_best_score_and_their_most_probable_latents(seed, alpha):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, n_graphs=2)
    unary, tables = random_potentials(rng, structure)
    found = Elimination(structure, hidden).run_renyi(unary, tables, alpha, 0.0)
    conditioned = Conditioned(structure, ~hidden)
    rest_unary, rest_tables, constants = conditioned.reduce(unary, tables, found.states)
    given_outputs = Elimination(conditioned.rest, np.ones(hidden.sum(), dtype=bool))
    close(given_outputs.run_renyi(rest_unary, rest_tables, alpha, 0.0).values + constants, found.values)
    latents = given_outputs.run(rest_unary, rest_tables, Temperature(0.0, 1.0)).states
    np.testing.assert_array_equal(found.states[hidden], latents)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, output=st.sampled_from([0.0, 0.3, 1.0]))
def test_renyi_of_large_order_is_the_maximum(seed, output):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, n_graphs=2)
    unary, tables = random_potentials(rng, structure)
    elimination = Elimination(structure, hidden)
    found = elimination.run_renyi(unary, tables, 1e7, output)
    wanted = elimination.run(unary, tables, Temperature(output, 0.0))
    close(found.values, wanted.values, 1e-4)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, temperature=st.sampled_from(TEMPERATURES), renyi=st.booleans())
def test_derivatives_are_those_of_the_values(seed, temperature, renyi):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng)
    unary, tables = random_potentials(rng, structure)
    elimination = Elimination(structure, hidden)

    def run(step):
        u, t = unary + step * direction[: len(unary)], tables + step * direction[len(unary) :]
        return elimination.run_renyi(u, t, 3.0, temperature.output) if renyi else elimination.run(u, t, temperature)

    direction = rng.standard_normal(len(unary) + len(tables))
    before, here, after = run(-1e-5), run(0.0), run(1e-5)
    slope = direction @ np.concatenate([here.unary, here.tables])
    assume(np.array_equal(before.states, after.states))
    close(after.values[0] - before.values[0], 2e-5 * slope, 1e-7)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, temperature=st.sampled_from(TEMPERATURES))
def test_small_temperatures_approach_zero_and_values_are_bounded(seed, temperature):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng)
    unary, tables = random_potentials(rng, structure)
    elimination = Elimination(structure, hidden)
    best = elimination.run(unary, tables, Temperature(0.0, 0.0))
    soft = elimination.run(unary, tables, temperature)
    bits = np.log(structure.cards)
    allowance = temperature.output * bits[~hidden].sum() + temperature.latent * bits[hidden].sum()
    assert best.values[0] - 1e-9 <= soft.values[0] <= best.values[0] + allowance + 1e-9
    cold = elimination.run(unary, tables, Temperature(1e-6, 1e-6))
    close(cold.values, best.values, 1e-4)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, temperature=st.sampled_from(TEMPERATURES))
def test_potentials_of_a_thousand_are_no_harm(seed, temperature):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, n_graphs=2)
    unary, tables = random_potentials(rng, structure, scale=1000.0, forbidden=0.05)
    values, by_unary, by_tables, _ = enumerate_beliefs(structure, unary, tables, hidden, temperature)
    found = Elimination(structure, hidden).run(unary, tables, temperature)
    close(found.values, values)
    close(found.unary, by_unary)
    close(found.tables, by_tables)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, temperature=st.sampled_from(TEMPERATURES))
def test_asked_graphs_in_any_order(seed, temperature):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, n_graphs=5)
    unary, tables = random_potentials(rng, structure)
    elimination = Elimination(structure, hidden)
    whole = elimination.run(unary, tables, temperature)
    requested = rng.integers(0, 5, size=rng.integers(0, 7))
    found = elimination.run(*cut(structure, unary, tables, requested), temperature, requested)
    by_unary, by_tables = cut(structure, whole.unary, whole.tables, requested)
    np.testing.assert_array_equal(found.values, whole.values[requested])
    np.testing.assert_array_equal(found.unary, by_unary)
    np.testing.assert_array_equal(found.tables, by_tables)
    wanted = [whole.states[structure.variables_at[g] : structure.variables_at[g + 1]] for g in requested]
    np.testing.assert_array_equal(found.states, np.concatenate([np.zeros(0, dtype=np.int64), *wanted]))


@settings(max_examples=30, deadline=None)
@given(seed=seeds, temperature=st.sampled_from(TEMPERATURES))
def test_names_of_variables_and_order_of_factors_do_not_matter(seed, temperature):
    rng = np.random.default_rng(seed)
    cards, scopes, hidden = random_part(rng, KINDS[seed % len(KINDS)])
    tables = [rng.standard_normal([cards[v] for v in scope]) for scope in scopes]
    unary = [rng.standard_normal(card) for card in cards]
    name, order = rng.permutation(len(cards)), rng.permutation(len(scopes))
    turned = [rng.permutation(len(scope)) for scope in scopes]
    new_scopes = [[int(name[scopes[f][i]]) for i in turned[f]] for f in order]
    new_tables = [tables[f].transpose(turned[f]) for f in order]
    old_of = np.argsort(name)

    def run(cards, scopes, hidden, unary, tables):
        flat = np.concatenate([np.zeros(0)] + [table.ravel() for table in tables])
        return Elimination(make_graphs([(cards, scopes)]), hidden).run(np.concatenate(unary), flat, temperature)

    before = run(cards, scopes, hidden, unary, tables)
    after = run(cards[old_of], new_scopes, hidden[old_of], [unary[v] for v in old_of], new_tables)
    close(after.values, before.values)
    np.testing.assert_array_equal(after.states, before.states[old_of])
    pieces = np.split(before.unary, np.cumsum(cards)[:-1])
    close(after.unary, np.concatenate([pieces[v] for v in old_of]))


@settings(max_examples=40, deadline=None)
@given(seed=seeds, temperature=st.sampled_from(TEMPERATURES), share=st.sampled_from([0.0, 0.5, 1.0]))
def test_conditioning_equals_forbidding_all_other_states(seed, temperature, share):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, n_graphs=4)
    unary, tables = random_potentials(rng, structure, forbidden=0.05)
    fixed = rng.random(len(structure.cards)) < share
    states = np.where(fixed, rng.integers(0, structure.cards), -1)
    masked = unary.copy()
    for v in np.flatnonzero(fixed):
        masked[structure.state_at[v] : structure.state_at[v + 1]] = -np.inf
        masked[structure.state_at[v] + states[v]] = unary[structure.state_at[v] + states[v]]
    values, by_unary, by_tables, _ = enumerate_beliefs(structure, masked, tables, hidden, temperature)

    conditioned = Conditioned(structure, fixed)
    conditioned.rest.check()
    elimination = Elimination(conditioned.rest, hidden[conditioned.free])
    for requested in (None, rng.permutation(4)[:3], np.array([1, 1])):
        graphs = range(4) if requested is None else requested
        own_states = [states[structure.variables_at[g] : structure.variables_at[g + 1]] for g in graphs]
        given_states = np.concatenate(own_states)
        rest_unary, rest_tables, constants = conditioned.reduce(
            *cut(structure, unary, tables, graphs), given_states, requested
        )
        beliefs = elimination.run(rest_unary, rest_tables, temperature, requested)
        found = conditioned.spread(beliefs, given_states, requested, constants)
        close(found.values, values[list(graphs)])
        wanted_unary, wanted_tables = cut(structure, by_unary, by_tables, graphs)
        close(found.unary, wanted_unary)
        close(found.tables, wanted_tables)
        known = given_states >= 0
        np.testing.assert_array_equal(found.states[known], given_states[known])
        np.testing.assert_array_equal(found.states[~known], beliefs.states)


def test_conditioning_again_at_other_states_is_not_the_first_answer():
    structure = make_graphs([([3, 2], [[0, 1]])])
    conditioned = Conditioned(structure, [True, False])
    tables = np.arange(6.0)
    for state in (2, 0, 1):
        unary, rest_tables, constants = conditioned.reduce(np.arange(5.0), tables, [state, 0])
        np.testing.assert_array_equal(unary, [3.0 + tables[2 * state], 4.0 + tables[2 * state + 1]])
        np.testing.assert_array_equal(constants, [float(state)])
        assert len(rest_tables) == 0


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_loops_with_tables_of_several_blocks(temperature):
    rng = np.random.default_rng(0)
    cards = np.array([3, 5, 2, 4, 3, 4, 2, 5])
    scopes = [[0, 1, 2], [2, 3], [3, 4], [4, 0], [5, 1], [5, 6], [6, 7], [7, 3], [0, 7], [7, 1, 3, 5]]
    hidden = np.array([False, True, False, False, True, False, True, False])
    structure = make_graphs([(cards, scopes)])
    unary, tables = random_potentials(rng, structure)
    values, by_unary, by_tables, states = enumerate_beliefs(structure, unary, tables, hidden, temperature)
    elimination = Elimination(structure, hidden)
    assert elimination.entries[0] > 1000
    found = elimination.run(unary, tables, temperature)
    close(found.values, values)
    close(found.unary, by_unary)
    close(found.tables, by_tables)
    np.testing.assert_array_equal(found.states, states)


def test_long_chains_keep_width_one_and_states_pass_on():
    n = 300
    structure = pairwise_graphs(np.full(n, 3), [(i, i + 1) for i in range(n - 1)], [0, n], [0, n - 1])
    unary, tables = np.zeros(3 * n), np.tile(np.where(np.eye(3) > 0, 0.0, -np.inf).ravel(), n - 1)
    unary[3 * 150 + 2] = 1.0
    elimination = Elimination(structure, np.zeros(n, dtype=bool))
    assert elimination.widths[0] == 1
    assert elimination.entries[0] == 9
    np.testing.assert_array_equal(elimination.run(unary, tables, Temperature(0, 0)).states, 2)
    close(elimination.run(unary, tables, Temperature(1, 1)).values, [np.log(2 + np.e)])


def test_hidden_variables_need_not_come_first_at_equal_temperatures():
    """Outputs hang on a hidden chain: summing the chain first joins all outputs in one table."""
    n, rng = 12, np.random.default_rng(1)
    edges = [(i, i + 1) for i in range(n - 1)] + [(i, n + i) for i in range(n)]
    structure = pairwise_graphs(np.full(2 * n, 2), edges, [0, 2 * n], [0, len(edges)])
    hidden = np.arange(2 * n) < n
    unary, tables = random_potentials(rng, structure)
    narrow, wide = Elimination(structure, hidden, max_entries=64), Elimination(structure, hidden)
    assert not narrow.feasible[0]
    assert wide.feasible[0]
    with raises("max_entries", got=64):
        narrow.run(unary, tables, Temperature(0, 1))
    for epsilon in (0.0, 0.3, 1.0):
        found = narrow.run(unary, tables, Temperature(epsilon, epsilon))
        # A slightly different ε_h keeps the other order; the limit is the same.
        wanted = wide.run(unary, tables, Temperature(epsilon, epsilon + 1e-12 if epsilon else 0.0))
        close(found.values, wanted.values)
        close(found.unary, wanted.unary)
        close(found.tables, wanted.tables)
        np.testing.assert_array_equal(found.states, wanted.states)


def test_a_wide_graph_is_refused_with_the_way_out():
    structure = make_graphs([([5] * 800, grid_scopes(20, 40)), ([2, 2], [[0, 1]])])
    elimination = Elimination(structure, np.zeros(802, dtype=bool))
    np.testing.assert_array_equal(elimination.feasible, [False, True])
    unary, tables = np.zeros(structure.state_at[-1]), np.zeros(structure.table_at[-1])
    needed, reached = f"at least {elimination.entries[0]}", f"best order found reaches width {elimination.widths[0]}"
    with raises("max_entries", expected=needed, hint=reached):
        elimination.run(unary, tables, Temperature())
    found = elimination.run(np.zeros(4), np.zeros(4), Temperature(1, 1), [1])
    close(found.values, [np.log(4)])


@pytest.mark.parametrize("backwards", [False, True])
def test_the_order_of_the_numbers_is_tried(backwards):
    """Greedy orders find width 8 on 60 rows of 6; row by row it is 6."""
    scopes = np.array(grid_scopes(60, 6))
    structure = make_graphs([([5] * 360, (359 - scopes if backwards else scopes).tolist())])
    elimination = Elimination(structure, np.zeros(360, dtype=bool))
    assert (elimination.widths[0], elimination.entries[0], elimination.feasible[0]) == (6, 5**7, True)


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_no_order_of_numbers_is_better_than_the_one_taken(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    scopes = [sorted(rng.choice(n, 2, replace=False).tolist()) for _ in range(2 * n)]
    cards, hidden = rng.integers(1, 5, n), rng.random(n) < 0.4
    elimination = Elimination(make_graphs([(cards, scopes)]), hidden)
    assert elimination.totals[0] >= elimination.entries[0]
    for way in (1, -1):
        order = sorted(range(n), key=lambda v: (not hidden[v], way * v))
        # An order of a forest is taken at once, though another one may have smaller tables.
        assert elimination.totals[0] <= sum(sizes_on_paper(cards, scopes, order)) or elimination.widths[0] <= 1


def sizes_on_paper(cards, scopes, order):
    """Sizes of the tables of an elimination."""
    tables, sizes = [set(scope) for scope in scopes], []
    for v in order:
        joined = set().union({v}, *(table for table in tables if v in table))
        sizes.append(int(np.prod(cards[list(joined)])))
        tables = [table for table in tables if v not in table] + [joined - {v}]
    return sizes


def test_tables_that_are_too_many_together_are_named_as_such():
    """No table of 200 × 6 cells is above the limit, but their sum is; the cure given is just enough."""
    structure = make_graphs([([5] * 1200, grid_scopes(200, 6))])
    nothing = np.zeros(1200, dtype=bool)
    elimination = Elimination(structure, nothing)
    assert elimination.entries[0] == 5**7 < elimination.max_entries
    assert elimination.totals[0] > 2**26
    assert not elimination.feasible[0]
    found, needed = elimination.excess(0)
    together = (
        f"tables of {elimination.totals[0]} entries together, and at most {2**26} are allowed where max_entries is"
    )
    assert f"the best order found has width 6 and {together} {2**20}" in found
    unary, tables = np.zeros(structure.state_at[-1]), np.zeros(structure.table_at[-1])
    with raises(
        "max_entries", expected=f"at least {needed}", hint=f"tables of {elimination.totals[0]} entries together"
    ):
        elimination.run(unary, tables, Temperature())
    assert together in Inference(structure, nothing).describe()
    assert Elimination(structure, nothing, max_entries=needed).feasible[0]
    assert not Elimination(structure, nothing, max_entries=needed - 1).feasible[0]


def test_renyi_pooling_of_a_wide_graph_names_the_parameter_and_the_other_model():
    structure = make_graphs([([5] * 100, grid_scopes(10, 10))])
    elimination = Elimination(structure, np.arange(100) < 5, max_entries=1000)
    unary, tables = np.zeros(structure.state_at[-1]), np.zeros(structure.table_at[-1])
    with raises("max_entries", hint="use MarginalSSVM"):
        elimination.run_renyi(unary, tables, 2.0, 0.0)


def test_a_batch_without_graphs_and_graphs_without_variables():
    nothing = make_graphs([])
    assert len(Elimination(nothing, np.zeros(0, dtype=bool)).run([], [], Temperature()).values) == 0
    constants = make_graphs([([], [[]]), ([2], [])])
    found = Elimination(constants, [True]).run([1.0, 0.0], [3.0], Temperature(1, 0))
    close(found.values, [3.0, 1.0])
    np.testing.assert_array_equal(found.tables, [1.0])


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats(-800, 0) | st.just(-np.inf), max_size=40))
def test_exponentials_and_logarithms(values):
    found = np.array(values)
    exponentiate(found)
    np.testing.assert_allclose(found, np.exp(values), rtol=1e-15, atol=1e-307)
    found = np.abs(values)
    take_logarithms(found)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(found, np.log(np.abs(values)), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize(
    ("change", "parameter", "expected"),
    [
        ({"cards": [2, 0, 2]}, "cards[1]", "at least 1"),
        ({"scopes": [0, 3]}, "scopes[1]", "its factor 0"),
        ({"scopes": [0, -1]}, "scopes[1]", "its factor 0"),
        ({"scopes": [1, 1]}, "scopes", "different variables"),
        ({"scope_at": [0, 1]}, "scope_at", "end with 2"),
        ({"variables_at": [0, 2, 1, 3]}, "variables_at", "do not decrease"),
        ({"variables_at": [0, 2, 3]}, "factors_at", "3 offsets for 2 graphs"),
        ({"cards": [2**32, 2**32, 2]}, "scopes", "2**62 entries"),
    ],
)
def test_unsound_structures_are_refused(change, parameter, expected):
    parts = {"cards": [2, 3, 2], "scope_at": [0, 2], "scopes": [0, 1], "variables_at": [0, 3], "factors_at": [0, 1]}
    arrays = {name: np.array(values) for name, values in parts.items()}
    FactorGraphs(**arrays).check()
    arrays |= {name: np.array(values) for name, values in change.items()}
    with raises(parameter, expected=expected):
        FactorGraphs(**arrays).check()


def test_an_edge_between_two_graphs_is_refused():
    with raises("scopes[1]", got=2, expected="graph 0 of its factor 0, from 0 to 1"):
        pairwise_graphs([2, 2, 2], [(0, 2)], [0, 2, 3], [0, 1, 1])
    with raises("edges", got="shape (1, 3)"):
        pairwise_graphs([2, 2, 2], [(0, 1, 2)], [0, 3], [0, 1])
    with raises("edges", got="float64", expected="integers"):
        pairwise_graphs([2, 2], [(0.5, 1)], [0, 2], [0, 1])


def test_table_positions_are_exact():
    cards = np.array([3**13, 3**13, 3**12])
    structure = FactorGraphs(cards, np.array([0, 3, 3]), np.array([0, 1, 2]), np.array([0, 3]), np.array([0, 2]))
    assert structure.table_at.tolist() == [0, 3**38, 3**38 + 1]


def fix_both(elimination, states):
    return Conditioned(elimination.structure, [True, True]).reduce(np.zeros(4), np.zeros(4), states)


@pytest.mark.parametrize(
    ("call", "parameter", "got"),
    [
        (lambda e: e.run(np.zeros(3), np.zeros(4), Temperature()), "unary", "shape (3,)"),
        (lambda e: e.run(np.zeros(4), np.zeros(5), Temperature()), "tables", "shape (5,)"),
        (lambda e: e.run(np.zeros(4), np.zeros(4), Temperature(-1, 0)), "temperature", "-1"),
        (lambda e: e.run(np.zeros(4), np.zeros(4), Temperature(0, np.nan)), "temperature", "nan"),
        (lambda e: e.run(np.zeros(4), np.zeros(4), Temperature(), [1]), "graphs", "1"),
        (lambda e: e.run_renyi(np.zeros(4), np.zeros(4), 1.0, 0.0), "alpha", "1.0"),
        (lambda e: e.run_renyi(np.zeros(4), np.zeros(4), -2.0, 0.0), "alpha", "-2.0"),
        (lambda e: Elimination(e.structure, [0, 1]), "hidden", "int64"),
        (lambda e: Elimination(e.structure, [True]), "hidden", "shape (1,)"),
        (lambda e: Elimination(e.structure, e.hidden, 0), "max_entries", "0"),
        (lambda e: fix_both(e, [0, 2]), "states[1]", "2"),
        (lambda e: fix_both(e, [0]), "states", "1 states"),
    ],
)
def test_bad_input_is_refused(call, parameter, got):
    elimination = Elimination(make_graphs([([2, 2], [[0, 1]])]), [False, True])
    with raises(parameter, got=got):
        call(elimination)
