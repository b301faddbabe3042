"""The best derivations of each loss against enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latentstruct._native.forests import best_by_loss, trace_losses
from latentstruct.core.levels import loss_steps
from latentstruct.inference.forests import Forests, GraphForests
from latentstruct.inference.structure import pairwise_graphs


def random_graphs(rng):
    sizes = rng.integers(0, 5, 3)
    cards, first = rng.integers(1, 4, sizes.sum()), np.append(0, np.cumsum(sizes))
    pairs = [[(a, b) for a in range(n) for b in range(a + 1, n) if rng.random() < 0.5] for n in sizes]
    edges = np.array([(first[g] + a, first[g] + b) for g, some in enumerate(pairs) for a, b in some]).reshape(-1, 2)
    return pairwise_graphs(cards, edges.astype(int), first, np.append(0, np.cumsum([len(some) for some in pairs])))


def score_of(graphs, g, x, unary, tables):
    first = graphs.variables_at[g]
    score = sum(unary[graphs.state_at[first + v] + s] for v, s in enumerate(x))
    for f in range(graphs.factors_at[g], graphs.factors_at[g + 1]):
        a, b = graphs.scopes[2 * f : 2 * f + 2]
        score += tables[graphs.table_at[f] + x[a - first] * graphs.cards[b] + x[b - first]]
    return score


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_best_assignments_of_each_loss_are_those_of_the_enumeration(seed):
    rng = np.random.default_rng(seed)
    graphs, rows = random_graphs(rng), np.array([2, 0, 1, 2])
    losses = 0.5 * rng.integers(0, 4, graphs.state_at[-1])
    unary, tables = rng.normal(size=graphs.state_at[-1]), rng.normal(size=graphs.table_at[-1])
    starts = graphs.state_at[graphs.variables_at], graphs.table_at[graphs.factors_at]
    compact = tuple(
        np.concatenate([part[at[g] : at[g + 1]] for g in rows])
        for part, at in zip((unary, tables), starts, strict=True)
    )
    used = []
    levels = GraphForests.of(graphs, losses, 1000).levels(rows, compact, used.append)
    for k, g in enumerate(rows):
        first, last = graphs.variables_at[g : g + 2]
        best = {}
        for x in product(*(range(card) for card in graphs.cards[first:last])):
            loss = sum(losses[graphs.state_at[first + v] + s] for v, s in enumerate(x))
            best[loss] = max(best.get(loss, -np.inf), score_of(graphs, g, x, unary, tables))
        own = slice(*levels.offsets[k : k + 2])
        found = {a: b for a, b in zip(levels.losses[own], levels.scores[own], strict=True) if b > -np.inf}
        assert found == pytest.approx(best)
    values, _, _ = levels.best(np.zeros(len(rows)))
    counts = used[0]
    assert counts[0] @ compact[0] + counts[1] @ compact[1] == pytest.approx(values.sum())


def test_graphs_that_are_too_wide_are_not_laid_out():
    edges = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    complete = pairwise_graphs(np.full(4, 3), edges, [0, 4], [0, len(edges)])
    assert GraphForests.of(complete, np.zeros(12), max_entries=20) is None
    assert GraphForests.of(complete, np.append(np.zeros(11), np.pi), max_entries=100) is not None
    assert GraphForests.of(complete, np.append(np.ones(11), np.pi), max_entries=100) is None


def test_edges_may_have_several_tails():
    # Items 0 and 1 have two edges each; the root joins both, at a loss of 1 or with item 0 alone.
    forests = Forests(*map(np.array, ([0, 3], [0, 2, 4, 6], [0, 0, 0, 0, 0, 2, 3], [0, 1, 0], [0, 1, 0, 2, 1, 0])))
    scores, rows, values, used = np.array([1.0, 4.0, 2.0, 8.0, 0.5, -1.0]), np.array([0]), np.empty(5), np.empty(6)
    best_by_loss(forests, rows, scores, np.array([0, 5]), values)
    assert values.tolist() == [0.0, 3.5, 6.5, 9.5, 12.5]
    trace_losses(forests, rows, scores, np.array([3]), used)
    assert used.tolist() == [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="tails must come before"):
        best_by_loss(forests._replace(tails=np.array([0, 2, 0])), rows, scores, np.array([0, 5]), values)
    with pytest.raises(ValueError, match="places for all losses"):
        best_by_loss(forests, rows, scores, np.array([0, 4]), values[:4])


@pytest.mark.parametrize(
    ("costs", "unit"),
    [([0.0, 1.0], 1.0), ([0.0, 0.5, 1.5], 0.5), ([2.0, 3.0], 1.0), ([0.0], 1.0), ([1.0, np.pi], None)],
)
def test_costs_have_a_unit_if_all_are_multiples_of_it(costs, unit):
    steps = loss_steps(np.array(costs))
    assert (steps is None) == (unit is None)
    if steps is not None:
        assert steps[0] == pytest.approx(unit)
        np.testing.assert_allclose(steps[0] * steps[1], costs)
