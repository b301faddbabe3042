"""The gaps of weights between two minimizers of a regularization path."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latentstruct.planes.plane import Plane
from latentstruct.solvers.path import PathPoint, Segment


@given(seed=st.integers(0, 2**32 - 1), tol=st.sampled_from([1e-3, 0.3]))
def test_bounds_and_the_largest_excess_of_a_segment(seed, tol):
    rng = np.random.default_rng(seed)
    Cs, risks, scale = np.sort(rng.uniform(0.1, 10.0, 2)), -np.sort(-rng.uniform(0.1, 3.0, 2)), rng.uniform(0.0, 1.0)
    ws, slopes = (rng.normal(size=4) + scale * rng.normal(size=(2, 4)) for _ in range(2))
    low, high = (
        PathPoint(C, w, risk, Plane(slope, rng.uniform(-1.0, 3.0)), None)
        for C, w, risk, slope in zip(Cs, ws, risks, slopes, strict=True)
    )
    segment = Segment.between(low, high)
    ts = np.linspace(0.0, 1.0, 9)
    uppers, lowers = np.empty_like(ts), np.empty_like(ts)
    for k, t in enumerate(ts):
        C, w, risk, slope, offset = (
            (1 - t) * first + t * last
            for first, last in (
                (low.C, high.C),
                (low.w, high.w),
                (low.risk, high.risk),
                (low.bound.slope, high.bound.slope),
                (low.bound.offset, high.bound.offset),
            )
        )
        found, uppers[k], lowers[k] = segment.at(C)
        np.testing.assert_allclose(found, w, atol=1e-9)
        assert uppers[k] == pytest.approx(0.5 * w @ w + C * risk)
        assert lowers[k] == pytest.approx(offset - 0.5 * slope @ slope)
    # U − L − tol·U is quadratic along a segment: its largest value is at an end, in the middle or at the vertex.
    values = (1.0 - tol) * uppers - lowers
    quadratic = np.polynomial.Polynomial.fit(ts, values, 2)
    (vertex,) = quadratic.deriv().roots()
    ratios = list((values / uppers)[[0, 4, 8]])
    if quadratic.deriv(2)(0.0) < 0 and 0.0 < vertex < 1.0:
        ratios.append(quadratic(vertex) / uppers[[0, 4, 8]].min())
    assert segment.excess(tol) == pytest.approx(max(ratios), rel=1e-6, abs=1e-9)
