"""Objectives, oracles and pooling, on their own."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from latentstruct import Alignment, Graph, LatentMulticlass, Multiclass, build_objective
from latentstruct.core import oracles
from latentstruct.core.oracles import SlackOracle, TaskOracle
from latentstruct.core.pooling import planes_of, pool_known
from latentstruct.core.protocols import Query, Temperature
from latentstruct.planes.plane import Slopes
from latentstruct.tasks.graph.inputs import GraphInput

SOFT = [(False, False), (False, True), (True, False), (True, True)]
"""Whether outputs and latents are pooled softly."""


def problem(n=12):
    """Return an objective of three classes, and weights."""
    rng = np.random.default_rng(0)
    task, X, Y = Multiclass(), rng.normal(size=(n, 2)), rng.integers(0, 3, n)
    Y[:3] = np.arange(3)
    task.learn(X, Y)
    return build_objective(task, task.prepare(X, Y), np.ones(n), Temperature()), rng.normal(size=task.n_features)


def test_calls_of_a_smoothed_objective_are_counted():
    objective, w = problem()
    objective.smoothed(0.5).value(w)
    objective.value(w)
    assert objective.plus.tally.calls == 2 * objective.n_examples


def test_known_outputs_have_the_values_of_their_planes():
    objective, w = problem()
    side = objective.plus
    clamped = planes_of(side.task, side.batch, Query(w, "clamped"))
    np.testing.assert_allclose(objective.minus.planes(w).values, clamped.values)
    np.testing.assert_allclose(objective.minus.planes(w, np.array([3, 1])).values, clamped.values[[3, 1]])


def test_features_of_known_outputs_are_computed_once():
    matrix, calls = np.arange(8.0).reshape(4, 2), []

    def slopes_of(rows):
        calls.append(rows)
        return Slopes.from_matrix(matrix if rows is None else matrix[rows])

    batch, w = SimpleNamespace(known_slopes=None), np.array([1.0, 10.0])
    some = np.array([2, 0])
    for rows in (some, None, None, some):
        found = pool_known(batch, Query(w, "clamped", Temperature(), rows), slopes_of)
        np.testing.assert_array_equal(found.values, (matrix if rows is None else matrix[rows]) @ w)
    # Those of some examples are not kept.
    assert [rows is None for rows in calls] == [False, True, False]


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("mode", ["augmented", "free", "clamped"])
@pytest.mark.parametrize("soft", SOFT, ids=str)
def test_a_side_is_smooth_if_all_of_its_maxima_are_soft(latent, mode, soft):
    task, X = (LatentMulticlass() if latent else Multiclass()), np.random.default_rng(0).normal(size=(6, 2, 3))
    X, Y = X if latent else X[:, 0], [0, 1, 2, 0, 1, 2]
    task.learn(X, Y)
    side = TaskOracle(task, task.prepare(X, Y), np.ones(6), mode, Temperature(*map(float, soft)))
    taken = [soft[0]] * (mode != "clamped") + [soft[1]] * latent
    assert side.smooth == all(taken)
    assert side.half_smooth == (latent and soft[0] != soft[1])


@pytest.mark.parametrize("mode", ["augmented", "free", "clamped"])
@pytest.mark.parametrize("soft", SOFT, ids=str)
def test_upper_bounds_are_those_of_maxima_alone(mode, soft):
    # The second node has no label, so that there are latents.
    x, task = GraphInput(np.eye(2), np.array([[0, 1]])), Graph([0, 1], wide="bounds")
    task.learn([x], [[0, -1]])
    side = TaskOracle(task, task.prepare([x], [[0, -1]]), np.ones(1), mode, Temperature(*map(float, soft)))
    assert task.latent
    assert side.bounded_above == (not soft[1] and (mode == "clamped" or not soft[0]))


def alignments():
    """Return a task whose best outputs for slack rescaling are found by search, and its batch of three pairs."""
    X = [("ACDEFGH", "ACDFGH"), ("KLMNPQR", "KLNPQRS"), ("WYACDE", "WACDEE")]
    Y = [np.stack([np.arange(n), np.arange(n)], axis=1) for n in (4, 5, 3)]
    task = Alignment()
    task.learn(X, Y)
    return task, task.prepare(X, Y)


def test_the_value_is_that_of_the_outputs_found_where_upper_bounds_are_unknown():
    task, batch = alignments()
    objective = build_objective(task, batch, np.ones(3), Temperature(), rescaling="slack")
    w = np.full(task.n_features, 0.1)
    value, bound, exact = objective.evaluate_with_bound(w)
    assert (bound, exact) == (np.inf, False)
    assert objective.value(w) == value == pytest.approx(0.5 * w @ w + objective.plus.planes(w).values.sum())


def test_the_search_for_slack_keeps_the_largest_product_of_all_scales():
    task, batch = alignments()
    side = SlackOracle(task, batch, np.ones(3))
    best_scales = set()
    for w in np.random.default_rng(0).normal(scale=0.3, size=(20, task.n_features)):
        products = []
        for scale in side.scales:
            found = planes_of(task, side.batch, Query(w / scale, "augmented"))
            products.append(found.offsets * (1.0 + found.dot(w) - side.truth.dot(w)))
        best_scales |= set(np.argmax(products, axis=0).tolist())
        np.testing.assert_allclose(side.planes(w).values, np.maximum(np.max(products, axis=0), 0.0), atol=1e-9)
    assert len(best_scales) > 1


def test_true_outputs_replace_worse_ones_and_keep_upper_bounds(monkeypatch):
    task, X, Y = Multiclass(), np.eye(3), [0, 1, 2]
    task.learn(X, Y)
    side, w = TaskOracle(task, task.prepare(X, Y), np.ones(3), "augmented", Temperature()), np.ones(task.n_features)
    truth = planes_of(task, side.batch, Query(w, "clamped"))
    # The planes of a search that fails: 1 and 3 below the true outputs at two examples, above it at the third.
    below, slack = np.array([1.0, 3.0, -1.0]), np.array([2.5, 2.0, 0.5])
    found = replace(truth, offsets=truth.offsets - below, values=truth.values - below, exact=False, excess=slack)
    monkeypatch.setattr(oracles, "as_planes", lambda *_: found)
    planes = side.planes(w)
    np.testing.assert_allclose(planes.values, truth.values + np.array([0.0, 0.0, 1.0]))
    assert not planes.each_exact.any()
    np.testing.assert_allclose(planes.each_slack, [1.5, 0.0, 0.5])
