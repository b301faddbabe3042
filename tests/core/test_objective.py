"""Objectives, oracles and pooling, on their own."""

from types import SimpleNamespace

import numpy as np

from latentstruct import Multiclass, build_objective
from latentstruct.core.pooling import pool_known
from latentstruct.core.protocols import Query, Temperature
from latentstruct.planes.plane import Slopes


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
