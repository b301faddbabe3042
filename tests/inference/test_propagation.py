"""Belief propagation against enumeration and elimination: exact on forests, honest and bounded elsewhere."""

from itertools import product

import numpy as np
import pytest
from graph_reference import enumerate_beliefs, make_graphs, random_graphs, random_potentials
from hypothesis import example, given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.core.protocols import Temperature
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.propagation import Propagation, tree_shares

TEMPERATURES = [Temperature(*pair) for pair in product((0.0, 0.3, 1.0), repeat=2)]
FORESTS = ("chain", "tree", "ab_tree", "alternating")
LOOPY = ("loop", "grid", "ternary", "scattered")
SEEDS = st.integers(0, 2**32 - 1)
TIGHT = 1e-12


def parts(structure):
    """The graph of each unary entry and of each table entry."""
    graphs = np.arange(structure.n_graphs)
    return (
        np.repeat(graphs, np.diff(structure.state_at[structure.variables_at])),
        np.repeat(graphs, np.diff(structure.table_at[structure.factors_at])),
    )


def assert_exact_ones_agree(structure, hidden, found, expected, temperature):
    values, unary, tables, states = expected
    of_unary, of_tables = (found.exact[graphs] for graphs in parts(structure))
    np.testing.assert_allclose(found.values[found.exact], values[found.exact], rtol=1e-12, atol=1e-8)
    np.testing.assert_allclose(found.unary[of_unary], unary[of_unary], atol=1e-8)
    np.testing.assert_allclose(found.tables[of_tables], tables[of_tables], atol=1e-8)
    graphs = np.repeat(np.arange(structure.n_graphs), np.diff(structure.variables_at))
    possible = found.exact & (values > -np.inf)
    if temperature.output == 0:
        wanted = possible[graphs] & (~hidden if temperature.latent > 0 else True)
        assert np.array_equal(found.states[wanted], states[wanted])


def scores_of(structure, unary, tables, states):
    """Score of one assignment of each graph, written down from the documentation of `FactorGraphs`."""
    total = np.zeros(structure.n_graphs)
    for g in range(structure.n_graphs):
        for v in range(structure.variables_at[g], structure.variables_at[g + 1]):
            total[g] += unary[structure.state_at[v] + states[v]]
        for f in range(structure.factors_at[g], structure.factors_at[g + 1]):
            scope = structure.scopes[structure.scope_at[f] : structure.scope_at[f + 1]]
            shape = tuple(structure.cards[scope])
            table = tables[structure.table_at[f] : structure.table_at[f + 1]].reshape(shape)
            total[g] += table[tuple(states[scope])]
    return total


def grid(rows, columns, n_states):
    """A structure of one grid without hidden variables."""
    numbers = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([numbers[:, :-1].ravel(), numbers[:, 1:].ravel()], axis=1)
    down = np.stack([numbers[:-1].ravel(), numbers[1:].ravel()], axis=1)
    return make_graphs([([n_states] * numbers.size, np.concatenate([across, down]).tolist())])


# ---- where propagation is exact ----------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.sampled_from(TEMPERATURES), st.sampled_from((0.0, 0.15)), st.sampled_from((1.0, 300.0)))
@example(42, Temperature(1.0, 1.0), 0.0, 300.0)
def test_what_is_marked_exact_is_the_enumeration(seed, temperature, forbidden, scale):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, n_graphs=4)
    unary, tables = random_potentials(rng, structure, scale=scale, forbidden=forbidden)
    found = Propagation(structure, hidden, tol=TIGHT).run(unary, tables, temperature)
    for array in (found.values, found.unary, found.tables, found.messages):
        assert not np.isnan(array).any()
    if not forbidden:
        assert np.isfinite(found.messages).all()
    expected = enumerate_beliefs(structure, unary, tables, hidden, temperature)
    assert_exact_ones_agree(structure, hidden, found, expected, temperature)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([t for t in TEMPERATURES if t.output == t.latent]))
def test_forests_are_exact_at_equal_temperatures(seed, temperature):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, kinds=FORESTS, n_graphs=4, size=6)
    unary, tables = random_potentials(rng, structure, scale=3.0)
    propagation = Propagation(structure, hidden)
    found = propagation.run(unary, tables, temperature)
    assert propagation.forest.all()
    assert found.exact.all()
    assert found.converged.all()
    assert found.sweeps.max() <= 1
    expected = enumerate_beliefs(structure, unary, tables, hidden, temperature)
    assert_exact_ones_agree(structure, hidden, found, expected, temperature)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([t for t in TEMPERATURES if t.latent > 0 or t.output == 0]))
def test_hidden_branches_of_output_trees_are_exact_at_all_temperatures(seed, temperature):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, kinds=("ab_tree",), n_graphs=4, size=6)
    unary, tables = random_potentials(rng, structure)
    found = Propagation(structure, hidden, tol=TIGHT).run(unary, tables, temperature)
    assert found.exact.all()
    expected = enumerate_beliefs(structure, unary, tables, hidden, temperature)
    assert_exact_ones_agree(structure, hidden, found, expected, temperature)


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.sampled_from((0.3, 1.0)))
def test_hidden_maxima_under_soft_outputs_are_near_and_not_called_exact(seed, output):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, kinds=("ab_tree",), n_graphs=3)
    unary, tables = random_potentials(rng, structure)
    temperature = Temperature(output, 0.0)
    found = Propagation(structure, hidden).run(unary, tables, temperature)
    values, *_ = enumerate_beliefs(structure, unary, tables, hidden, temperature)
    if hidden.any() and not hidden.all():
        assert not found.exact.any()
    # Five hidden variables of three states differ by at most ε_h·log 3⁵.
    settled = found.converged
    np.testing.assert_allclose(found.values[settled], values[settled], atol=1e-3 * output * np.log(3.0) * 5 + 1e-6)


def test_an_alternating_chain_is_not_called_exact_where_it_is_not():
    rng = np.random.default_rng(1)
    structure = make_graphs([([3] * 5, [[i, i + 1] for i in range(4)])])
    hidden = np.arange(5) % 2 == 1
    unary, tables = random_potentials(rng, structure, scale=2.0)
    temperature = Temperature(1.0, 0.3)
    found = Propagation(structure, hidden, tol=TIGHT).run(unary, tables, temperature)
    values, *_ = enumerate_beliefs(structure, unary, tables, hidden, temperature)
    assert found.converged.all()
    assert not found.exact.any()
    assert abs(found.values[0] - values[0]) > 1e-6


@pytest.mark.parametrize("arity", [2, 3])
def test_ties_do_not_spoil_the_best_assignment_of_a_tree(arity):
    # Neighbors gain by being different and nothing tells their states apart: every belief ties.
    rng = np.random.default_rng(0)
    scopes = [[0, 1], [1, 2], [1, 3], [3, 4]] if arity == 2 else [[0, 1, 2], [2, 3, 4]]
    structure = make_graphs([([2] * 5, scopes)])
    tables = np.concatenate([(rng.permutation(2**arity) == 0).astype(float) for _ in scopes])
    if arity == 2:
        tables = np.tile([0.0, 1.0, 1.0, 0.0], len(scopes))
    unary, hidden = np.zeros(10), np.zeros(5, dtype=bool)
    found = Propagation(structure, hidden).run(unary, tables, Temperature())
    values, *_ = enumerate_beliefs(structure, unary, tables, hidden, Temperature())
    assert found.values == pytest.approx(values)
    assert scores_of(structure, unary, tables, found.states) == pytest.approx(values)


@pytest.mark.parametrize("range_of_table", [10.0, 250.0, 400.0, 1e4])
def test_tables_of_any_range_are_summed(range_of_table):
    structure = make_graphs([([1, 2], [[0, 1]])])
    tables = np.array([range_of_table, 0.0])
    unary = np.array([0.5, 0.0, range_of_table])
    found = Propagation(structure, np.zeros(2, dtype=bool)).run(unary, tables, Temperature(1.0, 1.0))
    assert found.values[0] == pytest.approx(0.5 + range_of_table + np.log(2.0), rel=1e-12)
    np.testing.assert_allclose(found.unary, [1.0, 0.5, 0.5], atol=1e-10)


def test_a_graph_without_a_possible_state_has_value_minus_infinity():
    structure = make_graphs([([2, 2], [[0, 1]]), ([2, 2], [[0, 1]]), ([2], [[]])])
    tables = np.concatenate([np.full(4, -np.inf), np.zeros(4), [-np.inf]])
    hidden = np.array([False, True, False, True, False])
    for temperature in TEMPERATURES:
        found = Propagation(structure, hidden).run(np.zeros(10), tables, temperature)
        assert np.array_equal(found.values > -np.inf, [False, True, False])
        of_unary, of_tables = parts(structure)
        assert not found.unary[of_unary != 1].any()
        assert not found.tables[of_tables != 1].any()
        assert found.unary[of_unary == 1].sum() == pytest.approx(2.0)


def test_many_neighbors_and_large_scores_stay_in_range():
    # A star: Σ over the center of Π over leaves has a closed form.
    rng = np.random.default_rng(0)
    n_leaves = 1500
    structure = make_graphs([([3] * (n_leaves + 1), [[0, i + 1] for i in range(n_leaves)])])
    hidden = np.zeros(n_leaves + 1, dtype=bool)
    for scale in (1.0, 1e3):
        unary, tables = random_potentials(rng, structure, scale=scale)
        joint = tables.reshape(n_leaves, 3, 3) + unary[3:].reshape(n_leaves, 1, 3)
        center = unary[:3] + np.logaddexp.reduce(joint, axis=2).sum(axis=0)
        found = Propagation(structure, hidden).run(unary, tables, Temperature(1.0, 1.0))
        assert found.values[0] == pytest.approx(np.logaddexp.reduce(center), rel=1e-10)
        assert found.exact.all()


# ---- loopy graphs ------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([t for t in TEMPERATURES if t.output == t.latent > 0]))
def test_weak_couplings_have_small_errors(seed, temperature):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, kinds=LOOPY, n_graphs=4)
    unary, tables = random_potentials(rng, structure)
    tables *= 0.1 * temperature.output
    found = Propagation(structure, hidden).run(unary, tables, temperature)
    truth = Elimination(structure, hidden).run(unary, tables, temperature)
    assert found.converged.all()
    np.testing.assert_allclose(found.values, truth.values, atol=0.02 * temperature.output)
    np.testing.assert_allclose(found.unary, truth.unary, atol=0.05)
    np.testing.assert_allclose(found.tables, truth.tables, atol=0.05)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from([t for t in TEMPERATURES if t.output == 0]), st.sampled_from((0.0, 0.1)))
def test_decoded_outputs_are_scored_and_never_above_the_maximum(seed, temperature, forbidden):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, kinds=(*LOOPY, "alternating", "tree"), n_graphs=4)
    unary, tables = random_potentials(rng, structure, scale=2.0, forbidden=forbidden)
    found = Propagation(structure, hidden).run(unary, tables, temperature)
    values, *_ = enumerate_beliefs(structure, unary, tables, hidden, temperature)
    assert (found.values <= values + 1e-9).all()
    clamped = unary.copy()
    for v in np.flatnonzero(~hidden if temperature.latent > 0 else np.ones_like(hidden)):
        for x in range(structure.cards[v]):
            if x != found.states[v]:
                clamped[structure.state_at[v] + x] = -np.inf
    reached, *marginals, _ = enumerate_beliefs(structure, clamped, tables, hidden, temperature)
    np.testing.assert_allclose(found.values, reached, atol=1e-9)
    np.testing.assert_allclose(found.unary, marginals[0], atol=1e-9)
    np.testing.assert_allclose(found.tables, marginals[1], atol=1e-9)


def test_decoding_seldom_misses_the_maximum_of_small_loops():
    rng = np.random.default_rng(0)
    structure, hidden = random_graphs(rng, kinds=LOOPY, n_graphs=60)
    unary, tables = random_potentials(rng, structure)
    for temperature in (Temperature(), Temperature(0.0, 1.0)):
        found = Propagation(structure, hidden).run(unary, tables, temperature)
        truth = Elimination(structure, hidden).run(unary, tables, temperature)
        assert (found.values < truth.values - 1e-9).sum() <= 3


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.sampled_from([Temperature(1.0, 1.0), Temperature(0.5, 1.0), Temperature(1.0, 0.5)]))
def test_beliefs_are_the_derivatives_of_the_bethe_value(seed, temperature):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, kinds=("loop", "grid", "ternary"), n_graphs=2)
    unary, tables = random_potentials(rng, structure, scale=0.4)
    propagation = Propagation(structure, hidden, tol=1e-11, max_iterations=1000)
    found = propagation.run(unary, tables, temperature)
    assert found.converged.all()
    step_u, step_t = rng.standard_normal(len(unary)), rng.standard_normal(len(tables))
    ends = [
        propagation.run(unary + size * step_u, tables + size * step_t, temperature).values.sum()
        for size in (1e-5, -1e-5)
    ]
    slope = found.unary @ step_u + found.tables @ step_t
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, abs=1e-5)


def test_restless_messages_are_not_called_converged():
    # Three neighbors that all want to differ cannot: max-product turns iteration and iteration.
    structure = make_graphs([([2] * 3, [[0, 1], [1, 2], [2, 0]])])
    rng = np.random.default_rng(3)
    unary, tables = 0.1 * rng.standard_normal(6), np.tile([0.0, 5.0, 5.0, 0.0], 3)
    hidden = np.zeros(3, dtype=bool)
    short = Propagation(structure, hidden, max_iterations=2, damping=0.0).run(unary, tables, Temperature(0.3, 0.3))
    assert not short.converged.any()
    assert not short.exact.any()
    long = Propagation(structure, hidden, max_iterations=2000).run(unary, tables, Temperature(0.3, 0.3))
    assert long.converged.all()
    assert not long.exact.any()
    assert long.sweeps[0] > 2


def test_both_kinds_of_kernel_send_the_same_messages():
    rng = np.random.default_rng(0)
    structure, hidden = random_graphs(rng, kinds=("loop", "grid", "tree", "alternating"), n_graphs=12)
    for forbidden in (0.0, 0.1):
        unary, tables = random_potentials(rng, structure, scale=0.5, forbidden=forbidden)
        for temperature in TEMPERATURES:
            if temperature.output == 0 or temperature.latent == 0:
                continue
            pairs, factors = (Propagation(structure, hidden, tol=TIGHT, max_iterations=500) for _ in range(2))
            factors._pairwise[:] = False
            ours, theirs = (p.run(unary, tables, temperature) for p in (pairs, factors))
            settled = ours.converged & theirs.converged
            assert settled.mean() > 0.8
            np.testing.assert_allclose(ours.values[settled], theirs.values[settled], atol=1e-7)


def test_potentials_too_wide_for_the_linear_domain_give_the_same_answer():
    rng = np.random.default_rng(0)
    structure = grid(4, 4, 3)
    hidden = np.zeros(16, dtype=bool)
    unary, tables = random_potentials(rng, structure, scale=0.3)
    propagation = Propagation(structure, hidden, tol=1e-11, max_iterations=500)
    plain = propagation.run(unary, tables, Temperature(1.0, 1.0))
    # A state that is all but impossible sends everything at its variable to the log domain.
    wide = unary.copy()
    wide[0] = -700.0
    impossible = unary.copy()
    impossible[0] = -np.inf
    found = [propagation.run(u, tables, Temperature(1.0, 1.0)) for u in (wide, impossible)]
    assert all(run.converged.all() for run in (plain, *found))
    assert found[0].values == pytest.approx(found[1].values, abs=1e-9)
    np.testing.assert_allclose(found[0].unary, found[1].unary, atol=1e-9)
    assert found[0].values < plain.values


# ---- messages, batches, input ------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [Temperature(1.0, 1.0), Temperature(0.4, 1.0)])
def test_a_warm_start_gives_the_same_answer_in_fewer_sweeps(temperature):
    rng = np.random.default_rng(0)
    structure = grid(6, 6, 3)
    hidden = np.arange(36) % 3 == 1
    unary, tables = random_potentials(rng, structure, scale=0.6)
    propagation = Propagation(structure, hidden)
    first = propagation.run(unary, tables, temperature)
    moved = unary + 1e-4 * rng.standard_normal(len(unary)), tables
    cold = propagation.run(*moved, temperature)
    warm = propagation.run(*moved, temperature, messages=first.messages)
    assert cold.converged.all()
    assert warm.converged.all()
    assert warm.sweeps[0] < cold.sweeps[0]
    assert warm.values == pytest.approx(cold.values, abs=1e-8)
    np.testing.assert_allclose(warm.tables, cold.tables, atol=1e-6)


def test_impossible_states_of_warm_messages_come_back():
    structure = make_graphs([([2, 2, 2], [[0, 1], [1, 2], [2, 0]])])
    hidden = np.zeros(3, dtype=bool)
    propagation = Propagation(structure, hidden)
    closed, opened = np.full(12, 0.1), np.full(12, 0.1)
    closed[[0, 1]] = -np.inf
    warm = propagation.run(np.zeros(6), closed, Temperature(1.0, 1.0)).messages
    assert np.isinf(warm).any()
    found = propagation.run(np.zeros(6), opened, Temperature(1.0, 1.0), messages=warm)
    np.testing.assert_allclose(found.unary, 0.5, atol=1e-6)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from(TEMPERATURES))
def test_batches_are_their_graphs_one_by_one_in_any_order(seed, temperature):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, n_graphs=4)
    unary, tables = random_potentials(rng, structure)
    propagation = Propagation(structure, hidden)
    of_unary, of_tables = parts(structure)
    of_states = np.repeat(np.arange(4), np.diff(structure.variables_at))
    order = rng.permutation(4)[: int(rng.integers(1, 5))]
    whole = propagation.run(unary, tables, temperature)
    chosen = propagation.run(
        np.concatenate([unary[of_unary == g] for g in order]),
        np.concatenate([tables[of_tables == g] for g in order]),
        temperature,
        graphs=order,
    )
    assert np.array_equal(chosen.values, whole.values[order])
    assert np.array_equal(chosen.exact, whole.exact[order])
    assert np.array_equal(chosen.converged, whole.converged[order])
    assert np.array_equal(chosen.unary, np.concatenate([whole.unary[of_unary == g] for g in order]))
    assert np.array_equal(chosen.tables, np.concatenate([whole.tables[of_tables == g] for g in order]))
    assert np.array_equal(chosen.states, np.concatenate([whole.states[of_states == g] for g in order]))
    at = propagation.message_at
    assert np.array_equal(chosen.messages, np.concatenate([whole.messages[at[g] : at[g + 1]] for g in order]))


def test_hidden_variables_too_wide_to_sum_exactly_are_propagated():
    rng = np.random.default_rng(0)
    structure = grid(3, 4, 3)
    hidden = np.arange(12) != 5
    unary, tables = random_potentials(rng, structure, scale=0.3)
    temperature = Temperature(0.0, 1.0)
    found = Propagation(structure, hidden, max_entries=9).run(unary, tables, temperature)
    truth = Elimination(structure, hidden).run(unary, tables, temperature)
    assert found.values == pytest.approx(truth.values, abs=0.05)
    assert not found.exact.any()
    assert found.converged.all()


@pytest.mark.parametrize(
    "parameters",
    [{"max_iterations": 0}, {"damping": 1.0}, {"tol": 0.0}, {"anneal": (1.0, 0.0)}, {"hidden": [True]}],
)
def test_settings_that_cannot_be_used_are_refused(parameters):
    structure = make_graphs([([2, 2], [[0, 1]])])
    with raises(*parameters):
        Propagation(structure, **{"hidden": np.zeros(2, dtype=bool), **parameters})


def test_arguments_of_a_run_are_checked():
    structure = make_graphs([([2, 2], [[0, 1]])])
    propagation = Propagation(structure, np.zeros(2, dtype=bool))
    with raises("messages"):
        propagation.run(np.zeros(4), np.zeros(4), Temperature(), messages=np.zeros(3))
    with raises("unary"):
        propagation.run(np.zeros(3), np.zeros(4), Temperature())
    with raises("temperature", got=-1.0):
        propagation.run(np.zeros(4), np.zeros(4), Temperature(-1.0, 0.0))
    with raises("graphs", got=1):
        propagation.run(np.zeros(4), np.zeros(4), Temperature(), graphs=[1])


# ---- tree-reweighted counting ----------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, temperature=st.sampled_from([0.3, 1.0]))
def test_counting_by_trees_bounds_from_above_and_is_the_derivative(seed, temperature):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, ("loop", "grid", "chain"))
    unary, tables = random_potentials(rng, structure)
    equal = Temperature(temperature, temperature)
    solver = Propagation(structure, hidden, 3000, tol=1e-10, counting="trees")
    found = solver.run(unary, tables, equal)
    exact = Elimination(structure, hidden).run(unary, tables, equal)
    rested = found.converged
    assert (found.values >= exact.values - 1e-6)[rested].all()
    np.testing.assert_allclose(found.values[solver.forest], exact.values[solver.forest], atol=1e-8)
    direction, step = rng.normal(size=len(tables)), 1e-5
    ahead, behind = (solver.run(unary, tables + s * step * direction, equal) for s in (1, -1))
    slopes = np.bincount(parts(structure)[1], found.tables * direction, minlength=structure.n_graphs)
    rested &= ahead.converged & behind.converged
    np.testing.assert_allclose(((ahead.values - behind.values) / (2 * step))[rested], slopes[rested], atol=1e-4)


def test_counting_by_trees_converges_where_bethe_jumps():
    # A grid of strong attraction: ordinary propagation falls into one of two states that depends on where it began.
    size = 8
    number = np.arange(size * size).reshape(size, size)
    edges = np.concatenate([np.stack([number[:, :-1], number[:, 1:]], -1).reshape(-1, 2),
                            np.stack([number[:-1], number[1:]], -1).reshape(-1, 2)])  # fmt: skip
    structure = make_graphs([([2] * size**2, [tuple(edge) for edge in edges])])
    nothing = np.zeros(size**2, dtype=bool)
    tables, unary = np.tile((2.0 * np.eye(2)).ravel(), len(edges)), np.zeros(2 * size**2)
    begins = [np.tile(end, 2 * len(edges)) for end in ([0.0, -2.0], [-2.0, 0.0])]
    by = {}
    for counting in ("bethe", "trees"):
        solver = Propagation(structure, nothing, 2000, counting=counting)
        by[counting] = [solver.run(unary, tables, Temperature(1.0, 1.0), messages=begin) for begin in begins]
        assert all(found.converged.all() for found in by[counting])
    assert np.abs(by["bethe"][0].unary - by["bethe"][1].unary).max() > 0.9
    np.testing.assert_allclose(by["trees"][0].unary, by["trees"][1].unary, atol=1e-3)
    np.testing.assert_allclose(by["trees"][0].values, by["trees"][1].values, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_counting_by_trees_at_zero_finds_what_can_be_reached(seed):
    rng = np.random.default_rng(seed)
    structure, hidden = random_graphs(rng, ("loop", "grid"))
    hidden[0] = False
    unary, tables = random_potentials(rng, structure)
    for latent in (0.0, 1.0):
        temperature = Temperature(0.0, latent)
        found = Propagation(structure, hidden, counting="trees").run(unary, tables, temperature)
        assert (found.values <= Elimination(structure, hidden).run(unary, tables, temperature).values + 1e-8).all()


def test_automatic_counting_is_by_trees_only_for_soft_outputs():
    rng = np.random.default_rng(0)
    structure, hidden = random_graphs(rng, ("grid",), n_graphs=3)
    unary, tables = random_potentials(rng, structure)
    cases = (Temperature(1.0, 1.0), "trees"), (Temperature(0.0, 0.0), "bethe"), (Temperature(0.0, 1.0), "bethe")
    for temperature, other in cases:
        found, same = (
            Propagation(structure, hidden, max_entries=1, counting=counting).run(unary, tables, temperature)
            for counting in ("auto", other)
        )
        np.testing.assert_array_equal(found.values, same.values)
        np.testing.assert_array_equal(found.messages, same.messages)


def test_shares_of_trees():
    # A triangle with one edge doubled, and a bridge.
    structure = make_graphs([([2] * 4, [(0, 1), (0, 1), (1, 2), (0, 2), (2, 3)])])
    shares = tree_shares(structure)
    assert shares[4] == 1.0
    assert shares.sum() == pytest.approx(3.0)
    assert (shares > 0).all()
    assert shares[0] + shares[1] < 1.0
    with raises("counting", got="forests"):
        Propagation(structure, np.zeros(4, dtype=bool), counting="forests")
