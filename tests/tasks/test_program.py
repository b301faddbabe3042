"""Integer programs: against the list of all points, under limits, and as a user meets them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError

import reference
from error_fields import raises
from latentstruct import LatentSSVM, Program, ProgramInput, ProgramOutput, StructuralSVM, load
from latentstruct.core.protocols import HARD, Query
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.tasks.program import builders
from latentstruct.tasks.program.inputs import Constraints
from latentstruct.tasks.program.pooling import perturbed_outputs, sparse_marginals
from latentstruct.tasks.program.solving import AssignmentProgram, HighsProgram, Limits
from latentstruct.testing import check_task

MODES = ["free", "augmented", "clamped"]


def points(x):
    """List all points of a program with integer variables."""
    c = x.constraints
    every = product(*(range(int(a), int(b) + 1) for a, b in zip(c.lower, c.upper, strict=True)))
    A = c.A.toarray()
    return [p for p in map(np.array, every) if (A @ p >= c.lb - 1e-9).all() and (A @ p <= c.ub + 1e-9).all()]


def listed(x, y, weights):
    """List all outputs: those that agree with what is known share the number 0."""
    every, known = points(x), ~np.isnan(y)
    agree = [bool((p[known] == y[known]).all()) for p in every]
    return reference.Listed(
        np.array([p @ np.asarray(x.features) for p in every]),
        np.array([float((weights * np.abs(p - y))[known].sum()) for p in every]),
        np.array([0 if fits else 1 + k for k, fits in enumerate(agree)]),
        0,
        every,
    )


def programs(seed, latent, wide=True, n=4, d=3):
    """Draw programs with points, of which some values are unknown."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    while len(X) < n:
        size = int(rng.integers(1, 6))
        upper = rng.integers(1, 4, size) if wide and rng.random() < 0.5 else np.ones(size)
        lower = -rng.integers(0, 2, size) if wide and rng.random() < 0.3 else np.zeros(size)
        A = rng.integers(-2, 3, (int(rng.integers(0, 4)), size)).astype(float)
        x = ProgramInput(
            rng.normal(size=(size, d)), A, -rng.integers(0, 4, len(A)), rng.integers(0, 4, len(A)), lower, upper
        )
        found = points(x)
        if not found:
            continue
        y = found[rng.integers(len(found))].astype(float)
        if latent and X:
            y[rng.random(size) < 0.5] = np.nan
        X.append(x)
        Y.append(ProgramOutput(y, rng.integers(0, 4, size) / 2.0))
    return rng, X, Y


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), latent=st.booleans(), mode=st.sampled_from(MODES))
def test_maxima_are_those_of_the_enumeration(seed, latent, mode):
    rng, X, Y = programs(seed, latent)
    task = Program()
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    every = [listed(x, y.values, y.weights) for x, y in zip(X, Y, strict=True)]
    for _ in range(2):  # The second time from the last basis.
        w = rng.normal(size=3)
        planes = task.planes(batch, w, mode, HARD)
        slopes = planes.slopes().toarray()
        for k, one in enumerate(every):
            assert planes.values[k] == pytest.approx(reference.pool(one, w, mode).value, abs=1e-7)
            assert planes.offsets[k] + slopes[k] @ w == pytest.approx(planes.values[k], abs=1e-9)
            other = rng.normal(size=3)
            assert planes.offsets[k] + slopes[k] @ other <= reference.pool(one, other, mode).value + 1e-7
        assert planes.all_exact


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), latent=st.booleans())
def test_the_contract_of_tasks(seed, latent):
    _, X, Y = programs(seed, latent)
    check_task(Program(), X, Y)


def hard_knapsacks(seed, n=3, size=16):
    """Programs whose relaxations are fractional and whose search takes many nodes."""
    rng = np.random.default_rng(seed)
    X = []
    for _ in range(n):
        sizes = rng.integers(20, 100, (4, size))
        X.append(builders.knapsack(rng.random((size, 4)) + 0.5, sizes, sizes.sum(axis=1) // 3))
    full = [HighsProgram(x.constraints, Limits()).maximize(x.features @ np.ones(4)).x for x in X]
    return rng, X, full


@pytest.mark.parametrize("limits", [{"max_nodes": 0}, {"max_seconds": 1e-4}, {"gap": 0.3}])
def test_values_and_bounds_enclose_the_maximum_under_limits(limits):
    rng, X, Y = hard_knapsacks(0)
    exact, limited = Program(), Program(**limits)
    batches = []
    for task in (exact, limited):
        task.learn(X, Y)
        batches.append(task.prepare(X, Y))
    inexact = 0
    for _ in range(3):
        query = Query(rng.random(4) + 0.2, "augmented")
        true, found = (task.pool_batch(batch, query) for task, batch in zip((exact, limited), batches, strict=True))
        assert true.all_exact
        assert (found.values <= true.values + 1e-7).all()
        assert (found.values + found.excess >= true.values - 1e-7).all()
        np.testing.assert_allclose(found.slopes.dot(query.w) + found.losses, found.values)
        inexact += int((~found.exact).sum())
    assert inexact


def test_a_gap_stays_a_proof_under_limits():
    _, X, Y = hard_knapsacks(1, n=6, size=10)
    exact = StructuralSVM(Program(), C=0.1, tol=1e-3).fit(X, Y)
    with pytest.warns(ConvergenceWarning):
        limited = StructuralSVM(Program(max_nodes=0), C=0.1, tol=1e-3).fit(X, Y)
    assert exact.certified_
    assert limited.certified_
    assert limited.lower_bound_ <= exact.objective_ + 1e-9
    assert limited.objective_ >= exact.lower_bound_ - 1e-9


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 4), m=st.integers(1, 4), optional=st.booleans(), latent=st.booleans()
)
def test_assignments_are_recognized_and_agree_with_linear_programs(seed, n, m, optional, latent):
    rng = np.random.default_rng(seed)
    x = builders.assignment(rng.normal(size=(n, m, 2)), optional)
    assert isinstance(AssignmentProgram.of(x.constraints), AssignmentProgram)
    every = points(x)
    y = every[rng.integers(len(every))].astype(float)
    if latent:
        y[rng.random(n * m) < 0.6] = np.nan
    if np.isnan(y).all():
        y[0] = every[0][0]
    task, w = Program(), rng.normal(size=2)
    task.learn([x], [y])
    batch, one = task.prepare([x], [y]), listed(x, y, np.ones(n * m))
    for mode in MODES:
        assert task.planes(batch, w, mode, HARD).values[0] == pytest.approx(reference.pool(one, w, mode).value)


def test_other_tables_are_not_assignments():
    x = builders.assignment(np.ones((2, 2, 1)))
    parallel = ProgramInput(np.ones((5, 1)), sparse.hstack([x.A, x.A[:, :1]]), 1.0, 1.0)
    odd = ProgramInput(np.ones((3, 1)), np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), 0.0, 1.0)
    assert AssignmentProgram.of(parallel.constraints) is None
    assert AssignmentProgram.of(odd.constraints) is None


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), mode=st.sampled_from(MODES))
def test_relaxed_maxima_are_above_and_their_planes_below(seed, mode):
    rng, X, Y = programs(seed, latent=True, wide=False)
    exact, relaxed = Program(), Program(relaxation="lp")
    batches = []
    for task in (exact, relaxed):
        task.learn(X, Y)
        batches.append(task.prepare(X, Y))
    w, other = rng.normal(size=(2, 3))
    below, above = (task.planes(batch, w, mode, HARD) for task, batch in zip((exact, relaxed), batches, strict=True))
    assert (above.values >= below.values - 1e-7).all()
    assert (above.offsets + above.dot(other) <= relaxed.planes(batches[1], other, mode, HARD).values + 1e-7).all()
    for x, found in zip(X, relaxed.decode(batches[1], w, HARD), strict=True):
        assert any((found.y == p).all() for p in points(x))


def test_fractional_predictions_are_counted():
    odd = ProgramInput(np.ones((3, 1)), np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), 0.0, 1.0)
    model = StructuralSVM(Program(relaxation="lp"), C=1.0).fit([odd, odd], [[1, 0, 0], [0, 1, 0]])
    assert model.certified_
    task = model.task_
    assert [found.y.sum() for found in task.decode(task.prepare([odd, odd]), np.ones(1), HARD)] == [1, 1]
    assert task.n_fractional_ == 2


def test_unknown_values_are_learned_by_latent_models(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = [], []
    for _ in range(30):
        truth = np.eye(4)[rng.permutation(4)].ravel()
        X.append(builders.assignment((truth[:, None] + rng.normal(size=(16, 2))).reshape(4, 4, 2)))
        Y.append(truth)
    masked = [np.where(rng.random(16) < 0.7, -1, y) for y in Y]
    model = LatentSSVM(Program(), C=0.1, random_state=0).fit(X, masked)
    assert model.score(X, Y) > 0.85
    model.save(tmp_path / "model")
    for a, b in zip(model.predict(X), load(tmp_path / "model").predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_unknown_variables_without_features_are_no_latents():
    rng = np.random.default_rng(0)
    edges = np.array([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)])
    X, Y = [], []
    for _ in range(15):
        cost = rng.normal(size=5)
        chosen = tree_of(cost, edges, 4)
        X.append(builders.spanning_tree(np.stack([cost, rng.normal(size=5)], axis=1), edges, 4))
        Y.append(builders.spanning_tree_output(chosen, 4))
    model = StructuralSVM(Program(), C=10.0).fit(X, Y)
    assert model.certified_
    assert model.score(X, Y) == 1.0


def tree_of(score, edges, n):
    """Kruskal's algorithm."""
    part, chosen = list(range(n)), np.zeros(len(edges))
    for e in np.argsort(-score):
        a, b = (part[v] for v in edges[e])
        if a != b:
            chosen[e] = 1
            part = [a if p == b else p for p in part]
    return chosen


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_spanning_trees_by_linear_programs_are_those_of_kruskal(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    edges = np.array([(a, b) for a in range(n) for b in range(a + 1, n)])
    score = rng.normal(size=len(edges))
    c = builders.spanning_tree(score[:, None], edges, n).constraints
    relaxed = HighsProgram(c, Limits(relaxed=True)).maximize(np.append(score, np.zeros(len(c.lower) - len(score))))
    np.testing.assert_allclose(relaxed.x[: len(edges)], tree_of(score, edges, n), atol=1e-6)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), divisions=st.booleans())
def test_every_point_of_a_tracking_program_is_a_set_of_tracks(seed, divisions):
    rng = np.random.default_rng(seed)
    edges = np.array([(0, 1), (0, 2), (1, 3), (2, 3)])[: int(rng.integers(1, 5))]
    x = builders.tracking(np.ones((4, 1)), edges, np.ones((len(edges), 2)), divisions=divisions)
    found = {tuple(p) for p in points_by_search(x)}
    wanted = set()
    for nodes in product((0, 1), repeat=4):
        for chosen in product((0, 1), repeat=len(edges)):
            ends = [(a, b) for (a, b), on in zip(edges.tolist(), chosen, strict=True) if on]
            starts, stops = [a for a, _ in ends], [b for _, b in ends]
            if not all(nodes[v] for v in starts + stops) or len(set(stops)) < len(stops):
                continue
            if max(map(starts.count, starts), default=0) > 1 + divisions:
                continue
            wanted.add(tuple(builders.tracking_output(nodes, edges, chosen, divisions).astype(int)))
    assert found == wanted


def points_by_search(x):
    """Enumerate by fixing one variable after the other, for programs with many variables."""
    c = x.constraints
    A, found = c.A.toarray(), [[]]
    for _ in range(A.shape[1]):
        found = [[*p, v] for p in found for v in (0, 1)]
        rest = A[:, len(found[0]) :]
        low, high = np.minimum(rest, 0).sum(axis=1), np.maximum(rest, 0).sum(axis=1)
        found = [
            p
            for p in found
            if ((s := A[:, : len(p)] @ p) + high >= c.lb - 1e-9).all() and (s + low <= c.ub + 1e-9).all()
        ]
    return found


def test_unknown_links_leave_ends_of_tracks_unknown():
    y = builders.tracking_output([1, 1, 0], [(0, 1), (0, 2)], [-1, 0])
    np.testing.assert_array_equal(y, [1, 1, 0, np.nan, 0, 1, np.nan, 0, np.nan, 1, 0])


def test_builders_of_sets_and_intervals():
    pairs = [(0, 1), (1, 2)]
    x = builders.label_set(np.array([1.0, 2.0]), 3, pairs)
    wanted = {tuple(builders.label_set_output(y, 3, pairs).astype(int)) for y in product((0, 1), repeat=3)}
    assert {tuple(p) for p in points(x)} == wanted
    assert x.features.shape == (5, 8)
    np.testing.assert_array_equal(builders.label_set_output([0, -1, 1], 3, pairs), [0, np.nan, 1, 0, np.nan])
    spans = [(0, 2), (2, 3), (0, 3), (1, 2)]
    assert {tuple(p) for p in points(builders.intervals(np.ones((4, 1)), spans, cover=True))} == {
        (1, 1, 0, 0),
        (0, 0, 1, 0),
    }
    assert len(points(builders.intervals(np.ones((4, 1)), spans))) == 7
    assert {tuple(p) for p in points(builders.covering(np.ones((3, 1)), [[0], [1], [0, 1]], 2))} == {
        p for p in product((0, 1), repeat=3) if p[2] or (p[0] and p[1])
    }
    assert len(points(builders.knapsack(np.ones((3, 1)), [2, 3, 4], 5))) == 5


def test_a_resumed_batch_continues_from_its_bases():
    rng, X, Y = programs(3, latent=True)
    task = Program()
    task.learn(X, Y)
    first, second = task.prepare(X, Y), task.prepare(X, Y)
    w = rng.normal(size=3)
    for mode in MODES:
        task.planes(first, w, mode, HARD)
    second.recall(first.memory())
    for a, b in zip(first.memory(), second.memory(), strict=True):
        np.testing.assert_array_equal(a[2], b[2])
    np.testing.assert_allclose(task.planes(second, w, "free", HARD).values, task.planes(first, w, "free", HARD).values)
    with pytest.raises(ValueError, match="a basis of 1 statuses"):
        second.recall([[0, "free", np.zeros(1, dtype=np.int8)]])


def fit(x, y, task=None):
    return StructuralSVM(task or Program()).fit([x], [y])


def test_bad_programs_are_named_before_training():
    features = np.ones((2, 1))
    with raises(
        "X[0]", got="constraints that no output satisfies: constraint 'a', constraint 'b' cannot hold together"
    ):
        names = ["free", "a", "b"]
        x = ProgramInput(features, np.array([[1, 0], [1, 1], [1, 1]]), [0, 2, -9], [9, 9, 1], constraint_names=names)
        LatentSSVM(Program()).fit([x], [[1, -1]])
    with raises("Y[0]", got="2 in constraint 0, which violates it by 1"):
        fit(ProgramInput(features, np.ones((1, 2)), ub=1), [1, 1])
    with raises("Y[0]", got="known values that no output has"):
        LatentSSVM(Program()).fit([ProgramInput(features, np.ones((1, 2)), lb=2)], [[0, -1]])
    with raises("X[0]", got="variable 'b' without an upper bound"):
        fit(ProgramInput(features, upper=[1, np.inf], names=["a", "b"]), [1, 1])
    with raises("X[0].upper", got="1e+12"):
        fit(ProgramInput(features, upper=1e12), [1, 1])
    with raises("X[0].A", got="coefficients from 1 to 1e+12 in constraint 0"):
        fit(ProgramInput(features, np.array([[1e12, 1.0]]), ub=2), [0, 1])
    with raises("Y[0]", expected="the bounds 0 and 1"):
        fit(ProgramInput(features), [7, 1])
    with raises("X[0].features", got="none"):
        fit(ProgramInput(np.ones((0, 1))), [])
    with raises("X[0].A", got="3 columns"):
        fit(ProgramInput(features, np.ones((1, 3))), [1, 1])
    with raises("X[0].lb", got="bounds from 2 to 1"):
        fit(ProgramInput(features, np.ones((1, 2)), 2, 1), [1, 1])
    with raises("Y[0]", got="2 for variable 0"):
        fit(ProgramInput(features), [2, 1])
    with raises("Y[0]", got="0.5"):
        fit(ProgramInput(features), [0.5, 1])
    with raises("Y", got="none"):
        LatentSSVM(Program()).fit([ProgramInput(features)], [[-1, -1]])
    with raises("X[0]", expected="ProgramInput"):
        fit(features, [1, 1])
    with raises("Y[0]", got="between its bounds"):
        fit(ProgramInput(features, upper=2), [1, 1], Program(relaxation="lp"))
    with raises("Y[0].weights"):
        fit(ProgramInput(features), ProgramOutput([1, 1], [1, -1]))


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1.0, 1e16, 1e300])
@pytest.mark.parametrize("relaxed", [False, True])
def test_units_of_constraints_do_not_matter(unit, relaxed):
    rows = np.array([[1.0, 1.0, 0.0], [2.0, 1.0, 2.0]])
    x = ProgramInput(np.ones((3, 1)), unit * rows, ub=unit * np.array([1.0, 3.0]))
    scores = np.array([3.0, 2.5, 1.0])
    found = HighsProgram(x.constraints, Limits(relaxed=relaxed)).maximize(scores)
    np.testing.assert_allclose(found.x, [0.0, 1.0, 1.0], atol=1e-9)
    assert x.constraints.violation(found.x) is None
    assert x.constraints.violation(np.ones(3)) is not None


def test_constraints_that_only_integers_violate():
    x = ProgramInput(np.ones((1, 1)), np.array([[2.0]]), 1, 1, upper=3)
    with raises("X[1]", got="constraints that no output satisfies"):
        LatentSSVM(Program()).fit([ProgramInput(np.ones((1, 1))), x], [[1], [-1]])


def test_violations_ignore_rounding():
    c = Constraints(
        sparse.csc_array([[1e6]]), np.array([1e6]), np.array([1e6]), *np.zeros((2, 1)), np.ones(1, dtype=bool)
    )
    assert c.violation(np.array([1.0 + 1e-9])) is None
    assert c.violation(np.array([2.0])).amount == 1e6


def two_choices(scores):
    """Programs of which one of the first two and one of the others is chosen, whose features are the scores."""
    A = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    return [ProgramInput(np.asarray(s, dtype=float)[:, None], A, np.ones(2), np.ones(2)) for s in scores]


def test_sparse_mixtures_are_projections():
    """Of two choices, the mixture is the projection of the scores on two simplices."""
    X = two_choices([[1.0, 0.0, 0.2, 0.0], [3.0, 0.0, -1.0, 1.0]])
    model = StructuralSVM(Program(), C=1.0).fit(X, [[1, 0, 1, 0], [1, 0, 0, 1]])
    w = float(model.coef_[0])
    for temperature in (0.5, 2.0):
        for x, found in zip(X, sparse_marginals(model, X, temperature), strict=True):
            s = w * np.asarray(x.features)[:, 0] / temperature
            first = np.clip(0.5 + 0.5 * np.array([s[0] - s[1], s[2] - s[3]]), 0.0, 1.0)
            np.testing.assert_allclose(found, [first[0], 1 - first[0], first[1], 1 - first[1]], atol=1e-4)


def test_perturbed_outputs_of_independent_choices_have_the_right_frequencies():
    X = [ProgramInput(np.array([[1.0], [-0.5]]), np.zeros((0, 2)), np.zeros(0), np.zeros(0))]
    model = StructuralSVM(Program(), C=1.0).fit(X, [[1, 0]])
    drawn = np.array(perturbed_outputs(model, X, 4000, temperature=0.7, random_state=0)[0])
    expected = 1 / (1 + np.exp(-np.array([1.0, -0.5]) * model.coef_[0] / 0.7))
    np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=0.05)


def test_perturbed_outputs_are_points_of_the_program():
    _, X, Y = programs(3, latent=False)
    model = StructuralSVM(Program(), C=1.0).fit(X, Y)
    for x, some in zip(X, perturbed_outputs(model, X, 5, random_state=1), strict=True):
        allowed = {tuple(p) for p in points(x)}
        assert {tuple(np.round(y).astype(int)) for y in some} <= allowed


def test_uncertainty_needs_programs_and_a_temperature():
    X = two_choices([[1.0, 0.0, 0.0, 1.0]])
    model = StructuralSVM(Program(), C=1.0).fit(X, [[1, 0, 0, 1]])
    with raises("temperature"):
        sparse_marginals(model, X, 0.0)
    with pytest.raises(NotFittedError):
        sparse_marginals(StructuralSVM(Program()), X)
    with raises("n_samples"):
        perturbed_outputs(model, X, 0)
