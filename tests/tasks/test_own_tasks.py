"""Tasks of users: what check_task finds, what slips are answered with, batches, and how often a pool is computed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from error_fields import raises
from latentstruct import CRF, CandidateTask, ExampleTask, HiddenCRF, Multiclass, PartsTask, StructuralSVM
from latentstruct.core import levels
from latentstruct.core.protocols import Query, Temperature
from latentstruct.tasks import row_parts
from latentstruct.testing import check_task

N_LABELS = 3
HARD = Temperature()
COSTS = np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 2.0], [2.5, 1.5, 0.0]])


def block(x, y):
    """Features of class y: x at the weights of y."""
    features = np.zeros((N_LABELS, len(x)))
    features[y] = x
    return features.ravel()


class Listed(CandidateTask):
    """Three classes whose costs are not symmetric."""

    def candidates(self, x):
        return [0, 1, 2], None, np.array([block(x, y) for y in range(N_LABELS)])

    def output_loss(self, y, y_hat, h_hat):
        return COSTS[y, y_hat]


class Parts(PartsTask):
    """The same; the parts are the classes."""

    def parts(self, x):
        return np.array([block(x, y) for y in range(N_LABELS)])

    def counts(self, x, y):
        return np.eye(N_LABELS)[y]

    def best(self, x, scores):
        return np.eye(N_LABELS)[scores.argmax()]

    def output(self, x, counts):
        return int(np.argmax(counts))

    def output_loss(self, y, y_hat):
        return COSTS[y, y_hat]

    def part_losses(self, x, y):
        return 0.0, COSTS[y]

    def pool(self, x, scores, temperature):
        high = scores.max()
        shares = np.exp((scores - high) / temperature)
        return high + temperature * np.log(shares.sum()), shares / shares.sum()


class Examples(ExampleTask):
    """The same; one example at a time."""

    def joint_feature(self, x, y):
        return block(x, y)

    def output_loss(self, y, y_hat):
        return COSTS[y, y_hat]

    def argmax(self, x, w):
        return int(np.argmax(w.reshape(N_LABELS, -1) @ x))

    def loss_augmented_argmax(self, x, y, w):
        return int(np.argmax(w.reshape(N_LABELS, -1) @ x + COSTS[y]))


class Batches(ExampleTask):
    """The same; all examples at once."""

    def joint_feature_batch(self, X, Y):
        features = np.zeros((len(X), N_LABELS, X.shape[1]))
        features[np.arange(len(X)), Y] = X
        return features.reshape(len(X), -1)

    def output_loss_batch(self, Y, Y_hat):
        return COSTS[Y, Y_hat]

    def argmax_batch(self, X, w):
        return (X @ w.reshape(N_LABELS, -1).T).argmax(axis=1)

    def loss_augmented_argmax_batch(self, X, Y, w):
        return (X @ w.reshape(N_LABELS, -1).T + COSTS[Y]).argmax(axis=1)


KINDS = (Listed, Parts, Examples, Batches)
BASES = {Listed: CandidateTask, Parts: PartsTask, Examples: ExampleTask}


def data(seed=0, n=8, d=4):
    rng = np.random.default_rng(seed)
    Y = rng.integers(0, N_LABELS, n)
    return rng.normal(size=(n, d)) + np.eye(d)[Y], Y


def learned(task, X, Y):
    task.learn(X, Y)
    return task.prepare(X, Y)


# ---- the same structure four times -----------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    mode=st.sampled_from(["free", "augmented", "clamped"]),
    temperature=st.sampled_from([0.0, 0.4, 1.0]),
    rows=st.lists(st.integers(0, 7), min_size=1, max_size=8),
)
def test_all_answer_as_the_built_in_task(seed, mode, temperature, rows):
    X, Y = data(seed)
    rng = np.random.default_rng(seed)
    W, rows = rng.normal(size=(N_LABELS, 4)), np.array(rows)
    weights = rng.uniform(0.0, 2.0, len(rows))
    built_in = Multiclass(labels=[0, 1, 2], costs=COSTS)
    batch = learned(built_in, X, Y)
    pooling = Temperature(temperature)
    expected = built_in.planes(batch, W.T.ravel(), mode, pooling, rows)
    for kind in KINDS:
        if temperature and issubclass(kind, ExampleTask):
            continue
        task = kind()
        batch = learned(task, X, Y)
        planes = task.planes(batch, W.ravel(), mode, pooling, rows)
        total = task.total(batch, W.ravel(), mode, pooling, weights, rows)
        np.testing.assert_allclose(planes.values, expected.values, atol=1e-9)
        np.testing.assert_allclose(planes.offsets, expected.offsets, atol=1e-9)
        slopes = expected.slopes().toarray().reshape(len(rows), 4, N_LABELS).transpose(0, 2, 1).reshape(len(rows), -1)
        np.testing.assert_allclose(planes.slopes().toarray(), slopes, atol=1e-9)
        np.testing.assert_allclose(total.slope, weights @ slopes, atol=1e-9)
        assert total.offset == pytest.approx(weights @ expected.offsets, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_training_agrees_with_the_built_in_task(kind):
    X, Y = data(n=40)
    expected = StructuralSVM(Multiclass(labels=[0, 1, 2], costs=COSTS), C=0.5, tol=1e-6).fit(X, Y)
    model = StructuralSVM(kind(), C=0.5, tol=1e-6).fit(X, Y)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-5)
    assert all(type(y) is int for y in model.predict(X))


def test_batch_methods_get_lists_where_lists_were_given():
    kinds = set()

    class Recorded(Examples):
        def argmax_batch(self, X, w):
            kinds.add(type(X))
            return super().argmax_batch(X, w)

    X, Y = data()
    w = np.ones(12)
    for inputs in (X, list(X), sparse.csr_array(X)):
        task = Recorded()
        if sparse.issparse(inputs):
            task.joint_feature = lambda x, y: block(x.toarray().ravel(), y)
            task.argmax = lambda x, w: int(np.argmax(w.reshape(N_LABELS, -1) @ x.toarray().ravel()))
        batch = learned(task, inputs, list(Y))
        task.planes(batch, w, "free", HARD, np.array([2, 5]))
    assert kinds == {np.ndarray, list}


# ---- features --------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    density=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    forms=st.lists(st.sampled_from(["dense", "csr", "csc", "list", "float32", "int"]), min_size=1, max_size=12),
    small=st.booleans(),
)
def test_stacked_rows_are_those_that_were_given(seed, density, forms, small):
    """Whatever their forms and however many blocks they fill."""
    rng = np.random.default_rng(seed)
    expected = []
    before, row_parts.BLOCK = row_parts.BLOCK, 32 if small else row_parts.BLOCK
    try:
        stack = row_parts.RowStack(5, "features")
        for form in forms:
            matrix = rng.integers(-3, 4, (rng.integers(1, 5), 5)) * (rng.random((1, 5)) < density)
            matrix = matrix.astype({"float32": np.float32, "int": np.int64}.get(form, float))
            expected.append(matrix)
            given = {"csr": sparse.csr_array, "csc": sparse.csc_array, "list": np.ndarray.tolist}.get(form, np.array)
            rows = stack.rows(given(matrix))
            stack.append(rows)
            if form in ("dense", "float32", "int"):
                rows[:] = 7  # what the caller does later changes nothing
        inputs = stack.inputs()
    finally:
        row_parts.BLOCK = before
    assert stack.lengths == [len(matrix) for matrix in expected]
    stacked = np.concatenate(expected)
    w = rng.normal(size=5)
    selected = rng.integers(0, len(stacked), 4)
    np.testing.assert_allclose(inputs.times(w[:, None])[:, 0], stacked @ w, atol=1e-12)
    np.testing.assert_allclose(inputs.times(w[:, None], selected)[:, 0], stacked[selected] @ w, atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("position", [0, 1, 5])
def test_values_that_are_not_finite_are_named_by_their_example(form, position):
    class Wild(Listed):
        def candidates(self, x):
            outputs, latents, features = super().candidates(x)
            features[1, 2] = np.nan if x[0] == position else 1.0
            return outputs, latents, form(features)

    X, Y = data()
    X[:, 0] = np.arange(len(X))
    with raises(f"features of example {position}", got="nan at row 1, column 2", expected="finite"):
        StructuralSVM(Wild()).fit(X, Y)


@pytest.mark.parametrize(("array", "place", "value"), [("indices", 5, 10**6), ("indices", 0, -9), ("indptr", 1, 10**6)])
def test_invalid_sparse_features_are_named_by_their_example(array, place, value):
    class Invalid(Listed):
        def candidates(self, x):
            features = sparse.csr_array(np.ones((3, 4)))
            if x[0] == 3:
                getattr(features, array)[place] = value
            return [0, 1, 2], None, features

    X, Y = data()
    X[:, 0] = np.arange(len(X))
    with raises("features of example 3", expected="a valid sparse matrix"):
        StructuralSVM(Invalid()).fit(X, Y)


def test_features_in_a_buffer_that_is_used_again():
    class Reused(Examples):
        buffer = np.zeros(12)

        def joint_feature(self, x, y):
            self.buffer[:] = block(x, y)
            return self.buffer

    class ReusedParts(Parts):
        buffer = np.zeros(N_LABELS)

        def best(self, x, scores):
            self.buffer[:] = super().best(x, scores)
            scores[:] = np.nan
            return self.buffer

    X, Y = data()
    w = np.random.default_rng(0).normal(size=12)
    for kind, plain in ((Reused, Examples), (ReusedParts, Parts)):
        found, expected = (task.planes(learned(task, X, Y), w, "augmented", HARD) for task in (kind(), plain()))
        np.testing.assert_array_equal(found.slopes().toarray(), expected.slopes().toarray())
        np.testing.assert_array_equal(found.values, expected.values)


def test_examples_without_parts():
    class Pick(PartsTask):
        def parts(self, x):
            return x

        def counts(self, x, y):
            return np.isin(np.arange(len(x)), list(y))

        def best(self, x, scores):
            return scores > 0

        def output(self, x, counts):
            return frozenset(np.flatnonzero(counts).tolist())

        def output_loss(self, y, y_hat):
            return len(y ^ y_hat)

        def part_losses(self, x, y):
            return len(y), np.where(self.counts(x, y), -1.0, 1.0)

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (0, 3, 0, 0, 2, 0)]
    check_task(Pick(), X, [frozenset(), frozenset({1}), frozenset(), frozenset(), frozenset({0, 1}), frozenset()])


# ---- one pool per call, probabilities, score --------------------------------------------------------------


@pytest.mark.parametrize("mode", ["free", "augmented", "clamped"])
def test_a_total_pools_once(monkeypatch, mode):
    calls = []
    pool = levels.pool_candidates
    monkeypatch.setattr(levels, "pool_candidates", lambda *args: (calls.append(1), pool(*args)))
    X, Y = data()
    task = Listed()
    batch = learned(task, X, Y)
    task.total(batch, np.ones(12), mode, Temperature(0.5), np.ones(len(X)))
    assert len(calls) == 1


def test_marginals_are_the_probabilities_of_outputs():
    X, Y = data(n=30)
    model = CRF(Listed(), C=1.0).fit(X, Y)
    for x, found in zip(X, model.marginals(X), strict=True):
        scores = model.coef_.reshape(N_LABELS, -1) @ x
        shares = np.exp(scores - scores.max())
        assert list(found) == [0, 1, 2]
        np.testing.assert_allclose(list(found.values()), shares / shares.sum())


def test_marginals_sum_latents_out():
    class Views(CandidateTask):
        def candidates(self, x):
            # The candidates of an output need not stand side by side.
            return [0, 1, 0, 1, 1], [0, 0, 1, 1, 2], np.concatenate([np.outer([1, -1, 2, 0.5], x), np.ones((1, 4))])

    X, Y = data(n=20)
    Y = (Y > 0).astype(int)
    model = HiddenCRF(Views(), C=1.0).fit(X, Y)
    for x, found in zip(X, model.marginals(X), strict=True):
        outputs, _, features = Views().candidates(x)
        shares = np.exp(features @ model.coef_)
        for y in (0, 1):
            assert found[y] == pytest.approx(shares[np.array(outputs) == y].sum() / shares.sum())


@pytest.mark.parametrize("kind", KINDS)
def test_score_is_one_minus_the_mean_loss(kind):
    X, Y = data(n=30)
    model = StructuralSVM(kind(), C=1.0).fit(X, Y)
    assert model.score(X, Y) == pytest.approx(1.0 - COSTS[Y, model.predict(X)].mean())
    model.coef_ = -model.coef_
    assert model.score(X, Y) < 0


# ---- check_task --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_check_task_asks_in_all_modes(kind):
    requested = set()

    class Recorded(kind):
        def pool_batch(self, batch, query: Query):
            found = super().pool_batch(batch, query)
            requested.add((query.mode, query.temperature.output, query.weights is None, query.rows is None))
            return found

    Recorded.__name__ = kind.__name__
    check_task(Recorded(), *data())
    temperatures = {0.0} if issubclass(kind, ExampleTask) else {0.0, 0.3, 1.0}
    for mode in ("free", "augmented", "clamped"):
        for temperature in temperatures:
            assert {(mode, temperature, True, True), (mode, temperature, True, False)} <= requested
            assert (mode, temperature, False, True) in requested
    assert {one[1] for one in requested} == temperatures


class WrongSignParts(Parts):
    def part_losses(self, x, y):
        return 0.0, -COSTS[y]


class HalfParts(Parts):
    def part_losses(self, x, y):
        return 0.0, 0.5 * COSTS[y]


class DoubleParts(Parts):
    def part_losses(self, x, y):
        return 0.0, 2.0 * COSTS[y]


class SwappedParts(Parts):
    def output_loss(self, y, y_hat):
        return COSTS[y_hat, y]


class ForgotConstantParts(Parts):
    def part_losses(self, x, y):
        return 1.0, COSTS[y]


class WrongSignExamples(Examples):
    def loss_augmented_argmax(self, x, y, w):
        return int(np.argmax(w.reshape(N_LABELS, -1) @ x - COSTS[y]))


class HalfExamples(Examples):
    def loss_augmented_argmax(self, x, y, w):
        return int(np.argmax(w.reshape(N_LABELS, -1) @ x + 0.5 * COSTS[y]))


class DoubleExamples(Examples):
    def loss_augmented_argmax(self, x, y, w):
        return int(np.argmax(w.reshape(N_LABELS, -1) @ x + 2.0 * COSTS[y]))


class SwappedExamples(Examples):
    def output_loss(self, y, y_hat):
        return COSTS[y_hat, y]


class SwappedBatches(Batches):
    def output_loss_batch(self, Y, Y_hat):
        return COSTS[Y_hat, Y]


class OffsetListed(Listed):
    def output_loss(self, y, y_hat, h_hat):
        return 1.0 + COSTS[y, y_hat]


@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(
    "kind",
    [
        WrongSignParts,
        HalfParts,
        DoubleParts,
        SwappedParts,
        ForgotConstantParts,
        WrongSignExamples,
        HalfExamples,
        DoubleExamples,
        SwappedExamples,
        SwappedBatches,
        OffsetListed,
    ],
)
def test_a_loss_that_differs_from_the_search_is_found(kind, size):
    """At any size of features."""
    X, Y = data(n=12)
    with pytest.raises(AssertionError, match="loss"):
        check_task(kind(), size * X, Y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
def test_sound_tasks_pass(kind, size):
    X, Y = data(n=6)
    check_task(kind(), size * X, Y)


# ---- slips ---------------------------------------------------------------------------------------------------


def nothing(self, *args):
    """Do the work and forget to return it."""


SLIPS = [
    (Listed, "candidates", nothing, "Slip.candidates of example 0", "", "three values"),
    (Listed, "candidates", lambda self, x: np.eye(3), "Slip.candidates of example 0", "", "three values"),
    (
        Listed,
        "candidates",
        lambda self, x: ([0, 1, 2], np.eye(3)),
        "Slip.candidates of example 0",
        "",
        "three values",
    ),
    (
        Listed,
        "candidates",
        lambda self, x: (3, None, np.eye(3)),
        "Slip.candidates of example 0",
        "",
        "three values",
    ),
    (Listed, "candidates", lambda self, x: ([0, 1, 2], None, None), "features of example 0", "", "a matrix of real"),
    (Listed, "candidates", lambda self, x: ([0, 1, 2], None, x), "features of example 0", "", "two-dimensional"),
    (
        Listed,
        "candidates",
        lambda self, x: ([0, 1, 2], None, np.ones((2, 4))),
        "features of example 0",
        "",
        "an array of shape",
    ),
    (
        Listed,
        "candidates",
        lambda self, x: ([0, 1, 2], None, [[1.0], [2.0, 3.0], [4.0]]),
        "features of example 0",
        "",
        "a matrix of real numbers",
    ),
    (Listed, "candidates", lambda self, x: ([0, 1, 2], 5, np.eye(3)), "latents of example 0", "", "a list of 3"),
    (Listed, "candidates", lambda self, x: ([0, 1, 2], [1], np.eye(3)), "latents of example 0", "", "a list of 3"),
    (
        Listed,
        "candidates",
        lambda self, x: ([[0], [1], [2]], None, np.eye(3)),
        "outputs of example 0",
        "",
        "hashable",
    ),
    (Listed, "output_loss", nothing, "output_loss of example 0", "None", "a finite number of at least 0"),
    (Listed, "output_loss", lambda self, y, y_hat, h: "1", "output_loss of example 0", "", "a finite number of at"),
    (Listed, "output_loss", lambda self, y, y_hat, h: [0.0], "output_loss of example 0", "", "a finite number of"),
    (
        Listed,
        "output_loss",
        lambda self, y, y_hat, h: [0.0] * (1 + y_hat),
        "output_loss of example 0",
        "",
        "a finite number of at least 0",
    ),
    (Parts, "parts", nothing, "parts of example 0", "None", "a matrix of real numbers"),
    (Parts, "parts", lambda self, x: x, "parts of example 0", "", "two-dimensional (items, features)"),
    (Parts, "counts", nothing, "Slip.counts of example 0", "None", "3 numbers, one per part"),
    (Parts, "best", nothing, "Slip.best of example 0", "None", "3 numbers, one per part"),
    (Parts, "best", lambda self, x, scores: 1, "Slip.best of example 0", "", "an array of shape (3,)"),
    (Parts, "best", lambda self, x, scores: [[1.0, 0.0, 0.0]], "Slip.best of example 0", "", "an array of shape"),
    (Parts, "best", lambda self, x, scores: [[1.0], [0.0, 1.0]], "Slip.best of example 0", "", "3 numbers"),
    (Parts, "part_losses", nothing, "Slip.part_losses of example 0", "", "two values, a number and a vector"),
    (Parts, "part_losses", lambda self, x, y: COSTS[y], "Slip.part_losses of example 0", "", "two values, a"),
    (Parts, "part_losses", lambda self, x, y: (COSTS[y], 0.0), "Slip.part_losses of example 0", "", "two values"),
    (
        Parts,
        "part_losses",
        lambda self, x, y: (0.0, [[1.0] * 3]),
        "Slip.part_losses of example 0",
        "",
        "an array of shape (3,)",
    ),
    (Parts, "output", nothing, "Slip.output of example 0", "None", "an output"),
    (Parts, "output_loss", nothing, "output_loss of example 0", "None", "a finite number of at least 0"),
    (Examples, "joint_feature", nothing, "Slip.joint_feature of example 0", "", "a vector of shape (d,)"),
    (
        Examples,
        "joint_feature",
        lambda self, x, y: np.ones((2, 6)),
        "Slip.joint_feature of example 0",
        "",
        "a vector",
    ),
    (
        Examples,
        "joint_feature",
        lambda self, x, y: [[1.0], [2.0, 3.0]],
        "joint_feature of example 0",
        "",
        "a matrix of real numbers",
    ),
    (Examples, "joint_feature", lambda self, x, y: 1.0, "joint_feature of example 0", "", "two-dimensional"),
    (Examples, "argmax", nothing, "Slip.argmax of example 0", "None", "an output"),
    (Examples, "loss_augmented_argmax", nothing, "Slip.loss_augmented_argmax of example 0", "", "an output"),
    (Examples, "output_loss", nothing, "output_loss of example 0", "None", "a finite number of at least 0"),
    (Examples, "output_loss", lambda self, y, y_hat: -1.0, "output_loss of example 0", "", "a finite number of at"),
    (Batches, "argmax_batch", nothing, "Slip.argmax_batch", "None", "8 values, one per example"),
    (Batches, "argmax_batch", lambda self, X, w: [0], "Slip.argmax_batch", "", "8 values, one per example"),
    (
        Batches,
        "loss_augmented_argmax_batch",
        lambda self, X, Y, w: 1,
        "Slip.loss_augmented_argmax_batch",
        "",
        "8 values",
    ),
    (Batches, "joint_feature_batch", lambda self, X, Y: np.ones(12), "joint_feature_batch", "", "two-dimensional"),
    (
        Batches,
        "joint_feature_batch",
        lambda self, X, Y: np.ones((1, 12)),
        "joint_feature_batch",
        "shape (1, 12)",
        "an array of shape (8, 12)",
    ),
    (
        Listed,
        "candidates",
        lambda self, x: ([], None, np.zeros((0, 12))),
        "outputs of example 0",
        "",
        "at least one candidate",
    ),
    (Batches, "output_loss_batch", nothing, "Slip.output_loss_batch", "None", "8 values, one per example"),
    (Batches, "output_loss_batch", lambda self, Y, Z: 1.0, "Slip.output_loss_batch", "", "8 values, one per"),
    (Batches, "output_loss_batch", lambda self, Y, Z: COSTS[Y], "output_loss of example 0", "", "a finite"),
]


@pytest.mark.parametrize(
    ("kind", "name", "method", "parameter", "got", "expected"), SLIPS, ids=lambda value: getattr(value, "__name__", "")
)
def test_slips_are_answered_in_words(kind, name, method, parameter, got, expected):
    X, Y = data()
    task = type("Slip", (kind,), {name: method})()

    def use():
        model = StructuralSVM(task).fit(X, Y)
        model.predict(X)
        model.score(X, Y)

    with raises(parameter, got=got, expected=expected):
        use()


@pytest.mark.parametrize("value", [None, 1.0, np.ones(3), (np.ones(3), 1.0), (1.0, np.ones(2)), (1.0, [[1.0] * 3])])
def test_a_pool_that_returns_something_else(value):
    task = type("Slip", (Parts,), {"pool": lambda self, x, scores, temperature: value})()
    with raises("Slip.pool of example 0"):
        CRF(task).fit(*data())


REQUIRED = {
    Listed: ("candidates",),
    Parts: ("parts", "counts", "best", "output", "output_loss", "part_losses"),
    Examples: ("joint_feature", "output_loss", "argmax", "loss_augmented_argmax"),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in REQUIRED.items() for name in names])
def test_a_method_that_was_forgotten_is_named_before_training(kind, name):
    base = BASES[kind]
    written = {key: value for key, value in vars(kind).items() if key in REQUIRED[kind] and key != name}
    with pytest.raises(TypeError, match=rf"Slip does not define {name}\(\), which every {base.__name__} needs"):
        StructuralSVM(type("Slip", (base,), written)()).fit(*data())


@pytest.mark.parametrize("base", [PartsTask, ExampleTask])
@pytest.mark.parametrize("name", ["random_latent"])
def test_latents_need_more_methods(base, name):
    kind = {PartsTask: Parts, ExampleTask: Examples}[base]
    other = {PartsTask: "best_completion", ExampleTask: "best_latent"}[base]
    task = type("Slip", (kind,), {"latent": True, other: lambda self, *args: None})()
    with pytest.raises(TypeError, match=rf"Slip does not define {name}\(\)"):
        task.learn(*data())


@pytest.mark.parametrize(
    ("kind", "name", "method", "message"),
    [
        (Examples, "argmax", lambda self, x: 0, r"Slip.argmax\(x\) must take the arguments \(x, w\): too many"),
        (Examples, "joint_feature", lambda self, x, y, h: x, r"must take the arguments \(x, y\): missing .*'h'"),
        (
            Examples,
            "output_loss",
            lambda self, y_hat, y: 0.0,
            r"must take the arguments \(y, y_hat\): has them in another",
        ),
        (
            Parts,
            "pool",
            lambda self, scores, x, temperature: 0.0,
            r"\(x, scores, temperature\): has them in another order",
        ),
        (Listed, "output_loss", lambda self, y, h_hat, y_hat: 0.0, r"\(y, y_hat, h_hat\): has them in another order"),
        (Listed, "output_loss", lambda self, y, y_hat: 0.0, r"must take the arguments \(y, y_hat, h_hat\): too many"),
    ],
)
def test_wrong_arguments_of_methods_are_named_before_training(kind, name, method, message):
    with pytest.raises(TypeError, match=message):
        StructuralSVM(type("Slip", (kind,), {name: method})()).fit(*data())


@pytest.mark.parametrize(
    ("kind", "methods", "message"),
    [
        (Examples, {"argmax": lambda self, x, w: (0, None)}, r"returned the pair \(0, None\) for example"),
        (Parts, {"pool": lambda self, x, scores, temperature: 1.0}, r"was rejected: `Slip\.pool of example 0`"),
    ],
)
def test_slips_that_training_may_not_see_are_found_by_check_task(kind, methods, message):
    with pytest.raises(AssertionError, match=message):
        check_task(type("Slip", (kind,), methods)(), *data())


def test_a_pool_at_another_temperature_is_found():
    class Warm(Parts):
        def pool(self, x, scores, temperature):
            return super().pool(x, scores, 1.0)

    with pytest.raises(AssertionError, match="the use of the temperature"):
        check_task(Warm(), *data())
