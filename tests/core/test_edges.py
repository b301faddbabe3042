"""Numbers at the edges: 1e±150, weights that overflow exp, ties, C from 1e-8 to 1e8, data with next to nothing in it.

Answers must be finite and right, or one clear error. Correctness follows from laws that need no second program: a plane
supports its function wherever it was evaluated, and scaling features by c, and C by 1/c², scales the objective by 1/c².
"""

import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from error_fields import check_fields, raises
from latentstruct import (
    CRF,
    Alignment,
    CandidateTask,
    Chain,
    ConvergenceWarning,
    Coreference,
    CorrelationClustering,
    Detection,
    DetectionInput,
    DiverseSubset,
    Graph,
    GroupNorm,
    HiddenCRF,
    InputError,
    KernelStructuralSVM,
    LatentMulticlass,
    LatentSSVM,
    MarginalSSVM,
    Measure,
    Motif,
    Multiclass,
    PairwiseRanking,
    Parsing,
    PrecisionAtK,
    StructuralSVM,
    Temperature,
    build_objective,
    grid_graph,
)
from latentstruct.data.trees import Tree
from latentstruct.solvers.base import Monitor
from latentstruct.solvers.lbfgs import evaluate, search_line

TREES = [
    Tree("S", (Tree("N", ("dogs",)), Tree("V", ("bark",)))),
    Tree("S", (Tree("N", ("cats",)), Tree("VP", (Tree("V", ("see",)), Tree("N", ("dogs",)))))),
]
WORDS = [["dogs", "bark"], ["cats", "see", "dogs"]]
PAIRS, MATCHES = [("HEAG", "HEA"), ("A", "AW")], [[(0, 0), (1, 1)], [(0, 0)]]


class Views(CandidateTask):
    """Two classes with two views each."""

    latent = True

    def candidates(self, x):
        return [0, 0, 1, 1], [0, 1, 0, 1], np.kron(np.eye(2), x)


def numeric(c=1.0):
    """Tasks whose features are numbers, all of them of size c."""
    rng = np.random.default_rng(0)

    def rows(*shape):
        return c * rng.normal(size=shape)

    y, queries = np.array([0, 1, 2, 0, 1, 2]), [rows(n, 3) for n in (1, 3, 5)]
    boxes = np.array([[0, 0, 8, 8], [8, 0, 16, 8], [0, 8, 8, 16]])
    items = [rows(n * (n - 1) // 2, 2) for n in (1, 2, 4)]
    return {
        "classes": (Multiclass(), rows(6, 3), y),
        "views": (LatentMulticlass(), rows(6, 4, 3), y),
        "states": (LatentMulticlass(weights="state"), rows(6, 4, 3), y),
        "clusters": (CorrelationClustering(), items, [[0], [0, 0], [0, 1, 0, 1]]),
        "links": (Coreference(), items, [[0], [0, 0], [0, 1, 0, 1]]),
        "first two": (PrecisionAtK(2), queries, [[1], [0, 1, 0], [1, 0, 0, 1, 1]]),
        "ranking": (PairwiseRanking(), queries, [[1], [0, 1, 0], [1, 0, 0, 1, 2]]),
        "f1": (Measure("f1", bias=0.0), rows(6, 3), y > 0),
        "rocarea": (Measure("rocarea"), rows(6, 3), y > 0),
        "boxes": (Detection(bias=0.0), [DetectionInput(boxes, rows(3, 3)) for _ in range(4)], [0, 1, 0, 1]),
        "candidates": (Views(), [rows(2, 2) for _ in range(4)], [0, 1, 0, 1]),
    }


def structures():
    """Tasks with features that no scale of the inputs changes."""
    rng = np.random.default_rng(1)
    sequences, labels = [rng.normal(size=(t, 2)) for t in (3, 0, 1, 4)], [[0, 1, 2], [], [1], [2, 2, 0, 1]]
    half = [[0, -1, 2], [], [-1], [2, -1, -1, 1]]
    grid, pixels = [grid_graph(rng.normal(size=(3, 3, 2)))], [[0, 1, 2, 1, 0, 2, 2, 1, 0]]
    known = [[0, -1, 2, -1, 0, -1, 2, -1, 0]]
    return {
        "chain": (Chain(labels=[0, 1, 2], start=True, end=True), sequences, labels),
        "half-labeled chain": (Chain(labels=[0, 1, 2]), sequences, half),
        "grid": (Graph(labels=[0, 1, 2]), grid, known),
        "propagation": (Graph(labels=[0, 1, 2], max_entries=8), grid, known),
        "wide grid": (Graph(labels=[0, 1, 2], max_entries=8), grid, pixels),
        "motif": (Motif(width=3, background_order=1), ["ACGTTTAC", "CCCCC", "ACG"], [1, -1, 1]),
        "local alignment": (Alignment(), PAIRS, MATCHES),
        "global alignment": (Alignment(mode="global"), PAIRS, MATCHES),
        "sure matches": (Alignment(partial=True), PAIRS, MATCHES),
        "trees": (Parsing(), WORDS, TREES),
        "spans": (Parsing("spans"), WORDS, TREES),
        "sub-symbols": (Parsing(splits=2), WORDS, TREES),
        "subsets": (DiverseSubset(k=2), [[["a", "b"], ["a"], ["b", "c"]]], [[["x"], ["y"], ["y"]]]),
    }


ALL = [*numeric(), *structures()]
NUMERIC = [*numeric()]


def case(name, c=1.0):
    task, X, Y = (numeric(c) if name in NUMERIC else structures())[name]
    return SimpleNamespace(task=task, X=X, Y=Y)


def learned(name):
    found = case(name)
    found.task.learn(found.X, found.Y)
    return found.task, found.task.prepare(found.X, found.Y)


@pytest.mark.parametrize("name", ALL)
def test_planes_support_at_all_scales_and_ties(name):
    """Equal weights tie most scores; large ones overflow exp, and hide what pooling adds to the maximum."""
    task, batch = learned(name)
    rng = np.random.default_rng(2)
    random, ones = rng.normal(size=task.n_features), np.ones(task.n_features)
    for scale in (1.0, 1e10, 1e100):
        points = [scale * w for w in (random, ones, -ones, 2.0 * random, 0.0 * ones)]
        for temperature in (Temperature(), Temperature(1.0, 1.0), Temperature(1e-8, 1e-8), Temperature(1.0, 0.3)):
            for mode in ("free", "augmented", "clamped"):
                try:
                    requested = [task.planes(batch, w, mode, temperature) for w in points]
                except InputError:
                    continue
                values = np.array([planes.values for planes in requested])
                assert np.isfinite(values).all()
                for planes in requested:
                    heights = np.array([planes.offsets + planes.dot(w) for w in points])
                    assert np.isfinite(heights).all()
                    rounding = 1e-9 * (1.0 + 10.0 * scale + np.abs(heights) + np.abs(values))
                    assert not planes.all_exact or (heights <= values + rounding).all(), (scale, temperature, mode)


@pytest.mark.parametrize("name", ["classes", "chain", "global alignment", "spans"])
def test_sums_agree_with_planes_where_exp_overflows(name):
    task, batch = learned(name)
    w = 1e50 * np.random.default_rng(3).normal(size=task.n_features)
    for mode in ("free", "augmented", "clamped"):
        planes = task.planes(batch, w, mode, Temperature(1.0, 1.0)).total(np.ones(batch.n_examples))
        total = task.total(batch, w, mode, Temperature(1.0, 1.0), np.ones(batch.n_examples))
        np.testing.assert_allclose(total.slope, planes.slope, atol=1e-9)


def test_tied_classes_share_alike_however_large_their_scores():
    X = np.array([[1e20], [1e20]])
    model = CRF(Multiclass(), C=1e-40).fit(X, [0, 1])
    np.testing.assert_allclose(model.marginals(X), 0.5)


def quiet_fit(model, found):
    """Fit, where warnings of training itself are the only ones that are allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(found.X, found.Y)


def estimator_of(task, X, Y, soft=False):
    task.learn(X, Y)
    return LatentSSVM if task.latent else CRF if soft else StructuralSVM


def value_at_zero(name, C):
    """C times the sum of the largest losses."""
    task, batch = learned(name)
    zero = np.zeros(task.n_features)
    values = [task.planes(batch, zero, mode, Temperature()).values for mode in ("augmented", "clamped")]
    return C * float((values[0] - values[1]).sum())


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("c", [1e-150, 1e150, 1e160])
def test_features_of_any_size_train_or_are_refused(name, c):
    found = case(name, c)
    kind = estimator_of(*case(name, c).__dict__.values())
    try:
        model = quiet_fit(kind(found.task, max_iter=3), found)
    except InputError as refusal:
        assert c > 1e150
        check_fields(refusal, "X", hint="Standardize the features")
    else:
        assert np.isfinite(model.coef_).all()
        assert model.lower_bound_ - 1e-9 <= model.objective_ <= value_at_zero(name, 1.0) * (1.0 + 1e-9)
        assert len(model.predict(found.X)) == len(found.Y)


@pytest.mark.parametrize("name", ["views", "candidates", "boxes"])
@pytest.mark.parametrize("kind", [MarginalSSVM, HiddenCRF])
def test_tiny_features_leave_a_direct_descent_near_zero(name, kind):
    found = case(name, 1e-150)
    model = quiet_fit(kind(found.task), found)
    assert model.objective_ <= value_at_zero(name, 2.0)
    assert np.abs(model.coef_).max() < 1e3


SOLVERS = [(CRF, "auto"), *((StructuralSVM, name) for name in ("auto", "bundle", "cutting_plane", "frank_wolfe"))]


@pytest.mark.parametrize(("kind", "solver"), SOLVERS)
@pytest.mark.parametrize("c", [1e-140, 1e8, 1e140])
def test_scaling_the_features_scales_the_objective(kind, solver, c):
    plain, scaled = case("classes"), case("classes", c)
    expected = kind(plain.task, solver=solver, C=1.0).fit(plain.X, plain.Y)
    model = kind(scaled.task, solver=solver, C=1.0 / c / c).fit(scaled.X, scaled.Y)
    assert model.certified_
    assert model.stop_reason_ == "converged"
    assert -1e-9 <= model.relative_gap_ <= 1e-3
    assert model.objective_ * c * c == pytest.approx(expected.objective_, rel=2e-3)


@pytest.mark.parametrize("name", ["views", "links", "first two"])
@pytest.mark.parametrize("c", [1e-140, 1e140])
def test_scaling_the_features_changes_no_latents(name, c):
    plain, scaled = case(name), case(name, c)
    expected = quiet_fit(LatentSSVM(plain.task), plain)
    model = LatentSSVM(scaled.task, C=1.0 / c / c).fit(scaled.X, scaled.Y)
    assert model.objective_ * c * c == pytest.approx(expected.objective_, rel=2e-3)
    for one, other in zip(model.predict_latent(scaled.X), expected.predict_latent(plain.X), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("C", [1e-8, 1e8])
def test_strengths_from_tiny_to_large(name, C):
    found = case(name)
    kind = estimator_of(*case(name).__dict__.values())
    model = quiet_fit(kind(found.task, C=C, max_iter=3), found)
    most = value_at_zero(name, C)
    assert model.lower_bound_ <= model.objective_ + 1e-9 * C <= most * (1.0 + 1e-6) + 2e-9 * C
    if C < 1:
        # Weights are of the order of C, and change the objective by C².
        assert model.objective_ == pytest.approx(most, rel=1e-5)


def take(values, places):
    return values[places] if isinstance(values, np.ndarray) else [values[place] for place in places]


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("f1", "rocarea", "motif")])
def test_one_example_and_copies_of_it(name):
    """Copies weigh as much as C does."""
    found = case(name)
    kind = estimator_of(*case(name).__dict__.values())
    reached = []
    last = len(found.Y) - 1
    for places, C in (([last], 0.3), ([last] * 3, 0.1)):
        part = SimpleNamespace(X=take(found.X, places), Y=take(found.Y, places))
        model = quiet_fit(kind(case(name).task, C=C, max_iter=10), part)
        assert np.isfinite(model.objective_)
        reached.append((model.lower_bound_, model.objective_))
    if model.certified_:
        assert max(low for low, _ in reached) <= min(high for _, high in reached) * (1.0 + 1e-9) + 1e-12


@given(st.floats(-120.0, 120.0), st.floats(-5.0, 5.0))
@example(118.0, 0.0)
@settings(max_examples=30, deadline=None)
def test_line_search_finds_steps_of_any_order(power, further):
    """½ a (v − u)² falls most at v = u, wherever that is."""
    a, u = 10.0**further, 10.0**power

    def total(w):
        return SimpleNamespace(slope=a * (w - u), offset=0.5 * a * float(u * u - w @ w), entropy=0.0, exact=True)

    nothing = SimpleNamespace(slope=np.zeros(1), offset=0.0, entropy=0.0, exact=True)
    parabola = SimpleNamespace(
        plus=SimpleNamespace(total=total),
        minus=SimpleNamespace(total=lambda w: nothing),
        regularizer=SimpleNamespace(value=lambda w: 0.0, gradient=lambda w: 0.0 * w),
    )
    with np.errstate(over="ignore", invalid="ignore"):
        found = search_line(parabola, evaluate(parabola, np.zeros(1)), np.ones(1), 1.0)
    assert found is not None
    assert abs(found.w[0] - u) < u


def test_group_norms_of_weights_whose_squares_overflow():
    norm = GroupNorm([0, 0, 1]).bind(SimpleNamespace(n_features=3))
    for scale in (1e-200, 1.0, 1e200):
        w = scale * np.array([3.0, 4.0, 2.0])
        np.testing.assert_allclose(norm.norms(w), [5.0 * scale, 2.0 * scale])
        np.testing.assert_allclose(norm.prox(w, scale), scale * np.array([2.4, 3.2, 1.0]))


def test_kernels_refuse_inputs_whose_squares_overflow():
    found = case("classes", 1e160)
    with raises("X", hint="Standardize the features"):
        KernelStructuralSVM(found.task).fit(found.X, found.Y)


def test_an_objective_below_zero_is_refused():
    """All that is left of an objective may be rounding, as with C = 1e150."""
    task, batch = learned("classes")
    objective = build_objective(task, batch, np.ones(batch.n_examples), Temperature())
    for value, refused in ((-1e-12, False), (-1.0, True)):
        monitor = Monitor(objective, 1e-3, 10, 10.0)
        monitor.offer(np.zeros(task.n_features), value, True)
        monitor.bound(value - 1.0)
        with raises("X", got="cannot be negative") if refused else nullcontext():
            monitor.result()
