"""The simplex quadratic program against piqp, on problems as bundle methods make them and on worse ones."""

import numpy as np
import piqp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from latentstruct._native.simplex_qp import solve_simplex_qp

MAX_STEPS = 100_000


def objective(H, b, alpha):
    return 0.5 * alpha @ H @ alpha - b @ alpha


def gap_of(H, b, alpha):
    gradient = H @ alpha - b
    return alpha @ gradient - gradient.min()


def scale_of(H, b, alpha):
    """The scale that the kernel's docstring recommends for the tolerance."""
    return max(abs(objective(H, b, alpha)), np.abs(b).max(), alpha @ np.diag(H))


def rounding_of(H, b, alpha):
    """A bound on the rounding of the gap: 1e-13 of the largest terms in the gradient."""
    root = np.sqrt(np.diag(H))
    return 1e-13 * (np.abs(b).max() + root.max() * (alpha @ root))


def reference(H, b):
    """Piqp's solution, projected onto the simplex so that its objective is one of a feasible point."""
    solver = piqp.DenseSolver()
    for name in ("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"):
        setattr(solver.settings, name, 1e-10)
    solver.setup(
        np.asfortranarray(H),
        -b,
        A=np.ones((1, b.size), order="F"),
        b=np.ones(1),
        x_l=np.zeros(b.size),
    )
    status = solver.solve()
    alpha = np.maximum(solver.result.x, 0.0)
    return alpha / alpha.sum(), status == piqp.PIQP_SOLVED


def gram(planes):
    H = planes @ planes.T
    return np.ascontiguousarray((H + H.T) / 2.0)


def solve_checked(H, b, start, relative=1e-9):
    """Solve and check all that holds for every problem; return the solution and its gap."""
    alpha = start.copy()
    tolerance = relative * np.abs(b).max()
    gap = solve_simplex_qp(H, b, alpha, tolerance, MAX_STEPS)
    scale = scale_of(H, b, alpha)
    assert np.isfinite(alpha).all()
    assert (alpha >= 0.0).all()
    assert abs(alpha.sum() - 1.0) <= 1e-12
    assert 0.0 <= gap <= 1e-6 * scale
    assert gap == pytest.approx(gap_of(H, b, alpha), rel=1e-9, abs=rounding_of(H, b, alpha))
    started = objective(H, b, start)
    assert objective(H, b, alpha) <= started + 1e-13 * max(scale, abs(started), start @ np.diag(H))
    return alpha, gap


def compare_with_reference(H, b, start):
    """Compare with piqp, whose own point is the less accurate one when H is badly scaled: use its gap too."""
    alpha, _ = solve_checked(H, b, start)
    other, _ = reference(H, b)
    ours, theirs = objective(H, b, alpha), objective(H, b, other)
    # Where the solution is exact and 0, that of piqp differs from it by rounding alone.
    margin = 1e-6 * scale_of(H, b, alpha) + rounding_of(H, b, other)
    assert theirs - max(margin, gap_of(H, b, other)) <= ours <= theirs + margin


def random_start(rng, k):
    if rng.random() < 0.5:
        return np.eye(k)[rng.integers(k)]
    return rng.dirichlet(np.ones(k))


@pytest.mark.parametrize("dimension", [1, 3, 30, 300])
@pytest.mark.parametrize("k", [1, 2, 3, 10, 40, 120])
def test_agrees_with_piqp_on_random_planes(k, dimension):
    for seed in range(5):
        rng = np.random.default_rng([k, dimension, seed])
        H, b = gram(rng.standard_normal((k, dimension))), rng.standard_normal(k)
        alpha, _ = solve_checked(H, b, random_start(rng, k))
        other, solved = reference(H, b)
        assert solved
        assert objective(H, b, alpha) == pytest.approx(objective(H, b, other), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("k", [6, 30, 150])
def test_duplicated_planes(k):
    for seed in range(10):
        rng = np.random.default_rng([k, seed])
        planes = rng.standard_normal((k, 8))[rng.integers(0, k // 3, k)]
        for b in (rng.standard_normal(k), np.zeros(k), rng.integers(0, 2, k).astype(float)):
            compare_with_reference(gram(planes), b, random_start(rng, k))


@pytest.mark.parametrize("k", [5, 40, 120])
def test_planes_of_very_different_size(k):
    for seed in range(10):
        rng = np.random.default_rng([k, seed])
        planes = rng.standard_normal((k, 10)) * 10.0 ** rng.uniform(-4.0, 4.0, (k, 1))
        compare_with_reference(gram(planes), rng.standard_normal(k), random_start(rng, k))


@pytest.mark.parametrize("k", [5, 40, 120])
def test_coordinates_of_very_different_size(k):
    """The Gram matrix is then singular to rounding though the planes are independent."""
    for seed in range(10):
        rng = np.random.default_rng([k, seed])
        planes = rng.standard_normal((k, 20)) * 10.0 ** rng.uniform(-4.0, 4.0, 20)
        compare_with_reference(gram(planes), np.full(k, rng.normal()), random_start(rng, k))


def test_nearly_parallel_planes():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        planes = 1e3 * rng.standard_normal(12) + 10.0 ** rng.uniform(-5.0, 0.0) * rng.standard_normal((50, 12))
        compare_with_reference(gram(planes), rng.standard_normal(50), random_start(rng, 50))


def test_one_plane():
    alpha = np.ones(1)
    assert solve_simplex_qp(np.array([[3.0]]), np.array([2.0]), alpha, 0.0, 10) == 0.0
    np.testing.assert_array_equal(alpha, [1.0])


def test_closed_form_of_two_planes():
    """With H = diag(1, 3) and b = 0 the weights are inverse to the diagonal."""
    alpha = np.array([0.0, 1.0])
    gap = solve_simplex_qp(np.diag([1.0, 3.0]), np.zeros(2), alpha, 1e-12, 100)
    assert gap <= 1e-12
    np.testing.assert_allclose(alpha, [0.75, 0.25], rtol=1e-12)


def test_zero_matrix_is_a_linear_program():
    rng = np.random.default_rng(0)
    b = rng.standard_normal(30)
    alpha, gap = solve_checked(np.zeros((30, 30)), b, np.full(30, 1.0 / 30.0))
    assert gap <= 1e-12
    assert b @ alpha == pytest.approx(b.max(), rel=1e-9)


def test_all_zero():
    alpha = np.full(4, 0.25)
    assert solve_simplex_qp(np.zeros((4, 4)), np.zeros(4), alpha, 0.0, 100) == 0.0
    np.testing.assert_array_equal(alpha, np.full(4, 0.25))


def test_equal_planes_choose_the_highest_offset():
    b = np.array([0.1, 0.7, 0.3])
    alpha, _ = solve_checked(np.full((3, 3), 5.0), b, np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(alpha, [0.0, 1.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("offset", [0.0, -3.0, 1e6])
def test_equal_offsets_do_not_matter(offset):
    rng = np.random.default_rng(7)
    H = gram(rng.standard_normal((25, 40)))
    start = np.full(25, 1.0 / 25.0)
    plain, shifted = start.copy(), start.copy()
    solve_simplex_qp(H, np.zeros(25), plain, 1e-12, MAX_STEPS)
    solve_simplex_qp(H, np.full(25, offset), shifted, 1e-12, MAX_STEPS)
    np.testing.assert_allclose(shifted, plain, atol=1e-7)


@pytest.mark.parametrize("exponent", [-300, -150, -60, -8, 0, 8, 60, 150, 300])
def test_solution_does_not_depend_on_the_scale(exponent):
    rng = np.random.default_rng(3)
    H, b = gram(rng.standard_normal((30, 60))), rng.standard_normal(30)
    factor = 10.0**exponent
    expected, alpha = np.full(30, 1.0 / 30.0), np.full(30, 1.0 / 30.0)
    solve_simplex_qp(H, b, expected, 1e-10, MAX_STEPS)
    gap = solve_simplex_qp(H * factor, b * factor, alpha, 1e-10 * factor, MAX_STEPS)
    assert 0.0 <= gap <= 1e-10 * factor
    np.testing.assert_allclose(alpha, expected, atol=1e-8)


@pytest.mark.parametrize(("h_exponent", "b_exponent"), [(-300, 0), (0, -300), (300, 0), (0, 300), (300, -300)])
def test_extreme_ratios_stay_finite(h_exponent, b_exponent):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        H = gram(rng.standard_normal((15, 6))) * 10.0**h_exponent
        b = rng.standard_normal(15) * 10.0**b_exponent
        alpha = random_start(rng, 15)
        gap = solve_simplex_qp(H, b, alpha, 0.0, MAX_STEPS)
        assert np.isfinite(gap)
        assert gap <= 1e-6 * scale_of(H, b, alpha)
        assert (alpha >= 0.0).all()
        assert abs(alpha.sum() - 1.0) <= 1e-12


def test_indefinite_matrix_stays_finite_and_feasible():
    """Outside the contract, yet rounding can come near it; the gap is still that of the returned point."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        H = rng.standard_normal((12, 12))
        H, b = H + H.T, rng.standard_normal(12)
        start = random_start(rng, 12)
        alpha = start.copy()
        gap = solve_simplex_qp(H, b, alpha, 1e-9, 1000)
        assert gap == pytest.approx(gap_of(H, b, alpha), abs=1e-10)
        assert (alpha >= 0.0).all()
        assert abs(alpha.sum() - 1.0) <= 1e-12
        assert objective(H, b, alpha) <= objective(H, b, start) + 1e-12


def test_drift_of_the_start_is_removed():
    rng = np.random.default_rng(1)
    H, b = gram(rng.standard_normal((20, 5))), rng.standard_normal(20)
    alpha = rng.dirichlet(np.ones(20)) * (1.0 + 1e-9)
    alpha[3] = -1e-12
    solve_simplex_qp(H, b, alpha, np.inf, 0)
    assert (alpha >= 0.0).all()
    assert abs(alpha.sum() - 1.0) <= 1e-12


@pytest.mark.parametrize("max_steps", [0, 1, 2, 5, 20])
def test_few_steps_never_raise_the_objective(max_steps):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        H, b = gram(rng.standard_normal((40, 10))), rng.standard_normal(40)
        start = random_start(rng, 40)
        alpha = start.copy()
        gap = solve_simplex_qp(H, b, alpha, 1e-9, max_steps)
        assert gap == pytest.approx(gap_of(H, b, alpha), rel=1e-9, abs=1e-12)
        assert objective(H, b, alpha) <= objective(H, b, start) + 1e-12


def test_solved_start_is_left_alone():
    rng = np.random.default_rng(5)
    H, b = gram(rng.standard_normal((40, 10))), rng.standard_normal(40)
    alpha, gap = solve_checked(H, b, np.full(40, 1.0 / 40.0))
    again = alpha.copy()
    assert solve_simplex_qp(H, b, again, 2.0 * gap + 1e-12, MAX_STEPS) <= 2.0 * gap + 1e-12
    np.testing.assert_allclose(again, alpha, rtol=1e-14)


@pytest.mark.parametrize("regularization", [1.0, 1e-2, 1e-5])
def test_cutting_planes_of_a_hinge_loss(regularization):
    """Each plane is added to the last solution, as a bundle method does, until the method has converged."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((300, 30))
    y = np.sign(X @ rng.standard_normal(30) + rng.standard_normal(300))
    planes, offsets, w, alpha = np.empty((0, 30)), np.empty(0), np.zeros(30), np.empty(0)
    for k in range(1, 81):
        wrong = y * (X @ w) < 1.0
        planes = np.vstack([planes, -(y[wrong, None] * X[wrong]).sum(axis=0) / 300.0])
        offsets = np.append(offsets, wrong.mean())
        alpha = np.append(alpha, 0.0) if k > 1 else np.ones(1)
        H = gram(planes / np.sqrt(regularization))
        alpha, _ = solve_checked(H, offsets, alpha)
        w = -planes.T @ alpha / regularization
        if k % 20 == 0:
            other, _ = reference(H, offsets)
            ours = objective(H, offsets, alpha)
            assert ours == pytest.approx(objective(H, offsets, other), rel=1e-6, abs=1e-9)


def test_warm_start_takes_fewer_steps_than_a_cold_one():
    rng = np.random.default_rng(2)
    planes, offsets = rng.standard_normal((121, 80)), 0.1 * rng.standard_normal(121)
    old = gram(planes[:120])
    warm, _ = solve_checked(old, offsets[:120], np.full(120, 1.0 / 120.0))
    warm = np.append(warm, 0.0)
    cold = np.eye(121)[0]
    H = gram(planes)
    tolerance = 1e-9 * np.diag(H).max()
    assert solve_simplex_qp(H, offsets, warm, tolerance, 25) <= tolerance
    assert solve_simplex_qp(H, offsets, cold, tolerance, 25) > tolerance


def test_large_plane_enters_a_support_of_small_ones():
    """A support that is solved only roughly gives the large plane a weight below 0; it must not stall."""
    H, b, start = np.zeros((4, 4)), np.array([0.0, 0.0, 1e-6, 1e-6]), np.array([0.5, 0.0, 0.0, 0.5])
    H[:3, :3] = gram(np.array([[-1e-4, 0.0], [1.0, 2.0], [-1e-2, -2e-2]]))
    alpha, _ = solve_checked(H, b, start)
    np.testing.assert_allclose(alpha, [0.0, 0.0, 0.0, 1.0], atol=1e-9)


def test_unreachable_tolerance_ends():
    """Zero is a convex combination of the planes, so the gap at the solution is all rounding.

    With the seeds listed one by one, points that differ by rounding alone once took turns without end.
    """
    for seed in (2010, 2359, 3469, 3790, 5058, *range(100)):
        rng = np.random.default_rng(seed)
        planes = rng.standard_normal((16, 3))[rng.integers(0, 16, 30)]
        H = gram(planes * 10.0 ** rng.uniform(-4.0, 4.0, (30, 1)))
        alpha = np.full(30, 1.0 / 30.0)
        gap = solve_simplex_qp(H, np.zeros(30), alpha, 0.0, 10**12)
        assert gap <= 1e-6 * scale_of(H, np.zeros(30), alpha)


entries = st.integers(min_value=-3, max_value=3)


@st.composite
def problems(draw):
    """Planes with small integer entries, so that ties and exact dependence are common, then scaled."""
    k = draw(st.integers(1, 12))
    dimension = draw(st.integers(1, 5))
    planes = np.array(draw(st.lists(entries, min_size=k * dimension, max_size=k * dimension)), dtype=float)
    sizes = draw(st.lists(st.sampled_from([1e-4, 1e-2, 1.0, 1.0, 1e2, 1e4]), min_size=k, max_size=k))
    b = np.array(draw(st.lists(entries, min_size=k, max_size=k)), dtype=float)
    b *= draw(st.sampled_from([1e-6, 1.0, 1.0, 1e6]))
    weights = np.array(draw(st.lists(st.integers(0, 3), min_size=k, max_size=k)), dtype=float)
    weights[draw(st.integers(0, k - 1))] += 1.0
    return gram(planes.reshape(k, dimension) * np.array(sizes)[:, None]), b, weights / weights.sum()


@settings(deadline=None, max_examples=300)
@given(problems())
@example((gram(np.array([[0.0], [1e-4], [0.0], [0.0], [-1e2]])), np.zeros(5), np.eye(5)[0]))
def test_degenerate_problems_agree_with_piqp(problem):
    compare_with_reference(*problem)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 60), st.floats(-4.0, 4.0))
def test_scaled_problems_agree_with_piqp(seed, k, dimension, exponent):
    rng = np.random.default_rng(seed)
    H = gram(10.0**exponent * rng.standard_normal((k, dimension)))
    compare_with_reference(H, rng.standard_normal(k), random_start(rng, k))
