"""Tightened constraints have the same integer points, a relaxation within the given one, and integral tracks."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from latentstruct.core.lazy import sparse
from latentstruct.tasks.program.builders import tracking, tracking_output
from latentstruct.tasks.program.inputs import Constraints, ProgramInput
from latentstruct.tasks.program.solving import HighsProgram, Limits
from latentstruct.tasks.program.tightening import tightened


def random_rows(rng, n):
    """Return rows of the kinds that indicator variables make, and any others."""
    rows = []
    for _ in range(int(rng.integers(1, 7))):
        size = int(rng.integers(2, n + 1))
        at, row = rng.permutation(n)[:size], np.zeros(n)
        kind = rng.integers(4)
        if kind == 0:
            row[at] = 1.0
            rows.append((row, -np.inf, 1.0))
        elif kind == 1:
            row[at[0]], row[at[1:]] = size - 1, rng.choice([-1.0, 1.0])
            bound = float(rng.integers(-1, size))
            rows.append((row, -np.inf, bound) if rng.random() < 0.5 else (row, bound - size, np.inf))
        elif kind == 2:
            row[at] = rng.integers(-3, 4, size)
            rows.append((row, -np.inf, float(rng.integers(-2, 5))))
        else:
            row[at] = rng.normal(size=size)
            rows.append((row, -np.inf, float(rng.normal())))
    return rows


def points(c, n):
    return {y for y in product((0.0, 1.0), repeat=n) if c.violation(np.array(y)) is None}


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_integer_points_stay_and_relaxations_do_not_grow(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    rows, lb, ub = (np.array(part) for part in zip(*random_rows(rng, n), strict=True))
    c = ProgramInput(np.ones((n, 1)), rows, lb, ub).constraints
    tight = tightened(c)
    found = points(c, n)
    assert points(tight, n) == found
    if found:
        scores = rng.normal(size=n)
        values = [scores @ HighsProgram(one, Limits(relaxed=True)).maximize(scores).x for one in (c, tight)]
        best = max(scores @ np.array(y) for y in found)
        assert best - 1e-7 <= values[1] <= values[0] + 1e-7


def indicator_tracks(n):
    """Return tracks of 2·n detections in n frames with the constraints of motile: large coefficients and pairs."""
    nodes, rows = 2 * n, []
    edges = [(a, b) for a in range(nodes) for b in (a + 2 - a % 2, a + 3 - a % 2) if b < nodes]
    width = 2 * nodes + len(edges)

    def row(terms, bound):
        made = np.zeros(width)
        for j, value in terms:
            made[j] += value
        rows.append((made, bound))

    for e, (a, b) in enumerate(edges):
        row([(nodes + e, 2.0), (a, -1.0), (b, -1.0)], 0.0)
    for v in range(nodes):
        into, out = ([nodes + e for e, edge in enumerate(edges) if edge[side] == v] for side in (1, 0))
        appear, several = nodes + len(edges) + v, max(1, len(into))
        row([(v, several), *((e, -1.0) for e in into), (appear, -1.0)], several - 1.0)
        row([(v, -several), *((e, 1.0) for e in into), (appear, 1.0)], 0.0)
        for side in (into, out):
            row([(e, 1.0) for e in side], 1.0)
    A, ub = (np.array(part) for part in zip(*rows, strict=True))
    zeros, ones = np.zeros(width), np.ones(width)
    return Constraints(sparse.csc_array(A), np.full(len(ub), -np.inf), ub, zeros, ones, ones > 0)


def test_relaxations_of_tracks_are_integral():
    c, rng = indicator_tracks(5), np.random.default_rng(0)
    relaxed = [HighsProgram(one, Limits(relaxed=True)) for one in (c, tightened(c))]
    fractions = np.zeros(2)
    for _ in range(20):
        scores = rng.normal(size=len(c.lower))
        # Appearances have costs.
        scores[-10:] = -np.abs(scores[-10:])
        for k, one in enumerate(relaxed):
            x = one.maximize(scores).x
            fractions[k] += (x != np.round(x)).any()
    assert fractions[0] > 0
    assert fractions[1] == 0


def test_no_track_is_half_divided():
    x = tracking(np.zeros((2, 1)), [[0, 1]], np.zeros((1, 1)), divisions=True)
    y = tracking_output(np.ones(2), [[0, 1]], np.ones(1), divisions=True)
    # With a division of ½ and an end of ½ the first node would go on.
    scores = 1.0 - 2.0 * y
    scores[:3] = 2.0
    found = [HighsProgram(x.constraints, Limits(relaxed=relaxed)).maximize(scores).x for relaxed in (True, False)]
    assert scores @ found[0] == scores @ found[1]
