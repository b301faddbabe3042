"""Measures of a whole set: every loss against all labellings or rankings, and the classifier that comes of it."""

import pickle
import warnings
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning as NotConverged
from sklearn.metrics import average_precision_score, f1_score, fbeta_score, get_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import reference
from latentstruct import (
    Bundle,
    KernelStructuralSVM,
    StructuralSVM,
    StructuredEstimator,
    comparable_strength,
    load,
)
from latentstruct.exceptions import ConvergenceWarning, InputError
from latentstruct.kernels.measures import best_f_table
from latentstruct.protocols import Prediction, Temperature
from latentstruct.tasks import table_losses
from latentstruct.tasks.measure import MEASURES, Measure
from latentstruct.tasks.set_losses import TwoClasses, cuts_after
from latentstruct.tasks.table_losses import TableLoss
from latentstruct.testing import check_task

HARD = Temperature()
MODES = ("free", "augmented", "clamped")
RANKINGS = ("rocarea", "average_precision")


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def jaccard(a, b, c, d):
    return 1.0 - a / (a + b + c)


def uneven(a, b, c, d):
    """No function of arrays, and not monotone: the square of how many positives are too many."""
    return 0.1 * (a + b - (a + c)) ** 2 + max(c, 0.0) / 7 + min(b, 3.0) / 5


# ---- twins: all labellings and all rankings ---------------------------------------------------------------------


def wanted_size(loss, k, truth):
    """How many rows must be called positive; None if that is free."""
    if loss == "prbep":
        return int(truth.sum())
    if loss in ("precision@k", "recall@k"):
        return k if isinstance(k, int) else max(1, round(k * len(truth)))
    return None


def table_loss(loss, beta, k, table):
    a, b, c, d = table
    if callable(loss):
        return loss(*map(float, table))
    if loss == "error":
        return (b + c) / (a + b + c + d)
    if loss in ("f1", "fbeta"):
        square = 1.0 if loss == "f1" else beta**2
        return 1.0 - (1 + square) * a / ((1 + square) * a + b + square * c)
    best = min(a + b, a + c)
    return (best - a) / ((a + b) if loss == "precision@k" else (a + c))


def list_labellings(X, truth, loss, beta, k, bias):
    """All labellings that the loss allows. Outputs without loss have number 0: their mean is the clamped side."""
    n, size = len(X), wanted_size(loss, k, truth)
    rows = np.hstack([X, np.full((n, 1), bias)]) if bias and size is None else X
    items = np.array(list(product([False, True], repeat=n)))
    items = items if size is None else items[items.sum(axis=1) == size]
    features = np.where(items, 1.0, -1.0) @ rows / (2 * n)
    tables = np.stack([(truth & items), (~truth & items), (truth & ~items), (~truth & ~items)]).sum(axis=2).T
    known = {table: table_loss(loss, beta, k, table) for table in set(map(tuple, tables.tolist()))}
    losses = np.array([known[table] for table in map(tuple, tables.tolist())])
    return reference.Listed(features, losses, (losses > 1e-12).astype(int), 0, items)


def list_rankings(X, truth, loss):
    """All orders of the rows; Ψ and Δ by their pairs."""
    positives, negatives = np.flatnonzero(truth), np.flatnonzero(~truth)
    n_pairs = len(positives) * len(negatives)
    features, losses, items = [], [], []
    for order in permutations(range(len(X))):
        place = np.argsort(order)
        first = place[positives][:, None] < place[negatives][None, :]
        signs = np.where(first, 0.5, -0.5) / n_pairs
        features.append(signs.sum(axis=1) @ X[positives] - signs.sum(axis=0) @ X[negatives])
        hits = truth[list(order)]
        precisions = (np.cumsum(hits) / np.arange(1, len(X) + 1))[hits]
        losses.append((~first).sum() / n_pairs if loss == "rocarea" else 1.0 - precisions.mean())
        items.append(order)
    return reference.Listed(np.array(features), np.array(losses), (np.array(losses) > 1e-12).astype(int), 0, items)


@st.composite
def small_sets(draw, most):
    """2 to `most` rows of both classes, with small whole or quarter features, so that scores often tie."""
    n = draw(st.integers(2, most))
    step = draw(st.sampled_from([1.0, 0.25]))
    numbers = st.integers(-6, 6)
    X = step * np.array([[draw(numbers) for _ in range(2)] for _ in range(n)], dtype=float)
    truth = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    truth[draw(st.integers(0, n - 1))] = True
    if truth.all():
        truth[draw(st.integers(0, n - 1))] = False
    w = np.array([draw(st.floats(-8, 8)) for _ in range(3)])
    return X, truth, w


def check_against(listed, task, batch, w):
    clamped = listed.features[listed.outputs == 0].mean(axis=0)
    for mode in MODES:
        planes = task.planes(batch, w, mode, HARD)
        assert len(planes) == batch.n_examples == 1
        slope, offset = planes.slopes().toarray()[0], planes.offsets[0]
        close(planes.values[0], offset + slope @ w)
        if mode == "clamped":
            close(slope, clamped)
            assert offset == 0.0
        else:
            expected = reference.pool(listed, w, mode)
            close(planes.values[0], expected.value)
            # Ties may be decided differently, but what was chosen must be an output with its own loss.
            same = np.abs(listed.features - slope).max(axis=1) < 1e-9
            if mode == "augmented":
                same &= np.abs(listed.losses - offset) < 1e-9
            assert same.any()
        total = task.total(batch, w, mode, HARD, np.array([2.5]))
        close(total.slope, 2.5 * slope)
        close(total.offset, 2.5 * offset)
        assert len(task.planes(batch, w, mode, HARD, np.array([], dtype=np.int64))) == 0


def learned(task, X, truth):
    task.learn(X, truth)
    return task, task.prepare(X, truth)


@settings(max_examples=200, deadline=None)
@given(
    small_sets(12),
    st.sampled_from(["f1", "fbeta", "error", "prbep", "precision@k", "recall@k", jaccard, uneven]),
    st.sampled_from([0.3, 1.0, 2.0]),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.one_of(st.integers(1, 12), st.sampled_from([0.1, 0.5, 0.9])),
    st.booleans(),
)
def test_contingency_losses_against_all_labellings(data, loss, beta, bias, k, as_sparse):
    X, truth, w = data
    k = min(k, len(X))
    listed = list_labellings(X, truth, loss, beta, k, bias)
    task, batch = learned(Measure(loss, beta, k, bias=bias), sparse.csr_array(X) if as_sparse else X, truth)
    check_against(listed, task, batch, w[: task.n_features])


@settings(max_examples=40, deadline=None)
@given(small_sets(6), st.sampled_from(RANKINGS), st.booleans())
def test_rankings_against_all_orders(data, loss, as_sparse):
    X, truth, w = data
    task, batch = learned(Measure(loss), sparse.csr_array(X) if as_sparse else X, truth)
    check_against(list_rankings(X, truth, loss), task, batch, w[:2])


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 10_000), st.sampled_from([0.3, 3.0, 30.0]))
def test_average_precision_places_each_negative_best(p, q, seed, scale):
    """Against dynamic programming over all interleavings, where scores of both classes descend."""
    rng = np.random.default_rng(seed)
    scores = scale * np.round(rng.normal(size=p + q), 1)
    truth = rng.permutation(np.arange(p + q) < p)
    task, batch = learned(Measure("average_precision"), scores[:, None], truth)
    positives, negatives = -np.sort(-scores[truth]), -np.sort(-scores[~truth])
    best = np.full((p + 1, q + 1), -np.inf)
    best[0, 0] = 0.0
    for i, j in product(range(p + 1), range(q + 1)):
        if i:
            # The i-th positive comes behind j negatives.
            swapped = (negatives[:j] - positives[i - 1]).sum() / (p * q)
            best[i, j] = best[i - 1, j] + 1.0 / p - i / (i + j) / p + swapped
        if j:
            best[i, j] = max(best[i, j], best[i, j - 1])
    plus, minus = (task.planes(batch, np.ones(1), mode, HARD).values[0] for mode in ("augmented", "clamped"))
    close(plus - minus, best[p, q])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 4.0]))
def test_f_table_against_all_tables(p, q, seed, square):
    rng = np.random.default_rng(seed)
    sums = [np.append(0.0, np.cumsum(-np.sort(-np.round(rng.normal(size=m), 1)))) / (p + q) for m in (p, q)]
    a, b = np.meshgrid(np.arange(p + 1), np.arange(q + 1), indexing="ij")
    values = 1.0 - (1 + square) * a / (square * p + a + b) + sums[0][a] + sums[1][b]
    found = best_f_table(*sums, square)
    close(values[found], values.max())


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 20.0]))
def test_bounded_rectangles_find_the_worst_table(p, q, seed, scale):
    rng = np.random.default_rng(seed)
    scores = scale * np.round(rng.normal(size=p + q), 1)
    classes = TwoClasses(np.arange(p), np.arange(p, p + q))
    for loss in (TableLoss(jaccard), TableLoss(lambda a, b, c, d: np.sqrt(c) + (b > 3))):
        listed = loss.augmented(loss.prepared(classes), scores)
        searched = loss.augmented(classes, scores)
        close(searched[1] + searched[0] @ scores, listed[1] + listed[0] @ scores)


def test_a_large_set_has_its_worst_table_found_by_bounds():
    rng = np.random.default_rng(0)
    truth = np.arange(100_000) < 10_000
    scores = rng.normal(size=100_000) + 3.0 * truth
    asked = []

    def same(a, b, c, d):
        asked.append(a.size)
        return 1.0 - 2 * a / (2 * a + b + c)

    classes = TableLoss(same).prepared(TwoClasses.of(truth))
    assert classes.listed is None
    coefficients, loss = TableLoss(same).augmented(classes, scores)
    expected, expected_loss = Measure("f1")._make_loss().augmented(classes, scores)
    close(loss + coefficients @ scores, expected_loss + expected @ scores)
    assert sum(asked) < 3_000_000


# ---- the contract of a task -------------------------------------------------------------------------------------


class SetTask(Measure):
    """`Measure` with collections of one set, so that an example of the batch is an example of X."""

    def learn(self, X, Y):
        super().learn(X[0], Y[0])

    def prepare(self, X, Y=None):
        return super().prepare(X[0], None if Y is None else Y[0])

    def decode(self, batch, w, temperature):
        scores = self.row_scores(batch, w)
        coefficients, _ = self.answer(batch, scores, "free")
        found = scores if self.judges_scores else self.labels_.decode((coefficients > 0).astype(int))
        return [Prediction(found, None, float(coefficients @ scores))]

    def loss(self, Y_true, Y_pred):
        truth, found = np.asarray(Y_true[0]), np.asarray(Y_pred[0])
        if self.judges_scores and not np.isin(truth, self.classes_).all():
            # Scores compared with themselves: the order is the true one.
            truth = self.labels_.decode((truth > np.median(truth)).astype(int))
        return super().loss(truth, found)


def two_clouds(n=30, d=3, seed=0, apart=1.5, share=0.4):
    rng = np.random.default_rng(seed)
    y = (np.arange(n) < share * n).astype(int)
    X = rng.normal(size=(n, d))
    X[:, 0] += apart * y
    order = rng.permutation(n)
    return X[order], y[order]


# The free side of a ranking is known from the classes only, so it is compared with enumeration above.
@pytest.mark.parametrize("loss", ["f1", "fbeta", "error", jaccard, "precision@k", "recall@k"])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_measures_keep_the_contract(loss, as_sparse):
    X, y = two_clouds(n=14)
    check_task(SetTask(loss, beta=2.0, k=7), [sparse.csr_array(X) if as_sparse else X], [y])


@pytest.mark.parametrize("loss", [*MEASURES, jaccard])
def test_planes_are_below_at_all_weights(loss):
    X, y = two_clouds(n=200, d=5)
    task, batch = learned(Measure(loss, k=20), X, y)
    rng = np.random.default_rng(1)
    points = [scale * rng.normal(size=task.n_features) for scale in (0.0, 0.1, 1.0, 10.0, 100.0)]
    planes = [task.planes(batch, w, "augmented", HARD) for w in points]
    truth = task.planes(batch, points[0], "clamped", HARD)
    for w, found in zip(points, planes, strict=True):
        heights = np.array([plane.offsets[0] + plane.dot(w)[0] for plane in planes])
        assert (heights <= found.values[0] * (1 + 1e-12) + 1e-9).all()
        # The slack is never negative, and no plane is worse than the true output.
        assert found.values[0] >= truth.dot(w)[0] - 1e-9


@settings(max_examples=80, deadline=None)
@given(small_sets(12), st.sampled_from([*MEASURES, jaccard]), st.one_of(st.integers(1, 12), st.just(0.4)))
def test_the_slack_bounds_the_loss_of_the_scores(data, loss, k):
    X, truth, w = data
    task, batch = learned(Measure(loss, k=min(k, len(X))), X, truth)
    w = w[: task.n_features]
    scores = task.row_scores(batch, w)
    slack = task.planes(batch, w, "augmented", HARD).values[0] - task.planes(batch, w, "clamped", HARD).values[0]
    found = scores if task.judges_scores else scores > 0
    lost = task.loss(truth, found)
    assert lost.shape == (1,)
    assert 0.0 <= lost[0] <= slack + 1e-9
    perfect = truth.astype(float) if task.judges_scores else truth
    close(task.loss(truth, perfect), [0.0])


def test_rows_that_agree_with_the_truth_are_left_out_of_products():
    X, y = two_clouds(n=400, d=6, apart=6.0)
    task, batch = learned(Measure("f1"), X, y)
    _, thin = learned(Measure("f1"), sparse.csr_array(X), y)
    w = StructuralSVM(Measure("f1"), C=1e4).fit(X, y).coef_
    coefficients, _ = task.answer(batch, task.row_scores(batch, w), "augmented")
    assert 0 < np.count_nonzero(coefficients != batch.truth[0]) < 0.5 * len(y)
    close(batch.transposed_times(coefficients), X.T @ coefficients)
    close(thin.transposed_times(coefficients), X.T @ coefficients)
    close(batch.transposed_times(-coefficients), -X.T @ coefficients)
    close(
        task.total(batch, w, "augmented", HARD, np.ones(1)).slope,
        task.total(thin, w, "augmented", HARD, np.ones(1)).slope,
    )


# ---- training ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [10.0, 1000.0])
def test_error_is_the_linear_svm(C):
    X, y = two_clouds(n=200, d=4)
    ours = StructuralSVM(Measure("error"), C=C, tol=1e-4).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        peer = LinearSVC(loss="hinge", C=C / len(y), tol=1e-6, max_iter=200_000, dual=True).fit(X, y)
    w, b = peer.coef_[0], peer.intercept_[0]
    hinge = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * (X @ w + b))
    expected = 0.5 * (w @ w + b * b) + C * hinge.mean()
    assert ours.certified_
    assert ours.objective_ == pytest.approx(expected, rel=1e-3)
    assert ours.lower_bound_ <= expected * (1 + 1e-9)


@pytest.mark.parametrize("loss", [*MEASURES, jaccard])
def test_training_is_certified_and_sparse_equals_dense(loss):
    X, y = two_clouds(n=120, d=4, apart=2.5)
    model = StructuralSVM(Measure(loss, k=30), C=100.0).fit(X, y)
    assert model.stop_reason_ == "converged"
    assert model.certified_
    assert model.n_oracle_calls_ == model.n_rounds_
    thin = StructuralSVM(Measure(loss, k=30), C=100.0).fit(sparse.csr_array(X), y)
    assert thin.objective_ == pytest.approx(model.objective_, rel=2e-3)
    close(model.decision_function(sparse.csr_array(X)), model.decision_function(X))
    assert model.loss(X, y)[0] <= min(0.25, model.objective_ / 100.0 + 1e-9)


def test_each_measure_is_best_on_itself():
    """With labels turned round at random, a trained table differs by what it was trained for."""
    rng = np.random.default_rng(3)
    X, y = two_clouds(n=600, d=5, apart=3.0, share=0.15)
    y = np.where(rng.random(600) < 0.03, 1 - y, y)
    recall = StructuralSVM(Measure("fbeta", beta=4.0), C=1e3).fit(X, y)
    precision = StructuralSVM(Measure("fbeta", beta=0.25), C=1e3).fit(X, y)
    assert recall.predict(X).sum() > precision.predict(X).sum()
    assert recall.score(X, y) > fbeta_score(y, precision.predict(X), beta=4.0)


def test_score_is_the_measure():
    X, y = two_clouds(n=150, d=3)
    for loss, expected in (
        ("f1", lambda m: f1_score(y, m.predict(X))),
        ("error", lambda m: (m.predict(X) == y).mean()),
        ("rocarea", lambda m: roc_auc_score(y, m.decision_function(X))),
        ("average_precision", lambda m: average_precision_score(y, m.decision_function(X))),
        ("prbep", lambda m: y[np.argsort(-m.decision_function(X))[: y.sum()]].mean()),
        ("precision@k", lambda m: y[np.argsort(-m.decision_function(X))[:50]].mean()),
        ("recall@k", lambda m: y[np.argsort(-m.decision_function(X))[:50]].sum() / y.sum()),
        (jaccard, lambda m: (y & m.predict(X)).sum() / (y | m.predict(X)).sum()),
    ):
        model = StructuralSVM(Measure(loss, k=50), C=1e3).fit(X, y)
        assert model.coef_.any()
        assert model.score(X, y) == pytest.approx(expected(model))


@pytest.mark.parametrize(
    ("loss", "k", "count"),
    [
        ("rocarea", None, 24),
        ("average_precision", None, 24),
        ("prbep", None, 24),
        ("precision@k", 7, 7),
        ("recall@k", 0.5, 30),
        ("precision@k", 60, 60),
    ],
)
def test_rankings_get_a_threshold(loss, k, count):
    X, y = two_clouds(n=60, d=3)
    model = StructuralSVM(Measure(loss, k=k), C=100.0).fit(X + 100.0, y)
    assert model.coef_.shape == (3,)
    assert (model.predict(X + 100.0) == 1).sum() == count
    np.testing.assert_array_equal(model.predict(X + 100.0) == 1, model.decision_function(X + 100.0) > 0)


def test_a_threshold_among_ties():
    X, y = np.zeros((6, 2)), np.array([0, 1, 0, 1, 0, 0])
    for loss in MEASURES:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "training ended at w = 0", ConvergenceWarning)
            model = StructuralSVM(Measure(loss, k=2), C=1.0).fit(X, y)
        assert not model.coef_[:2].any()
        assert set(model.predict(X).tolist()) <= {0, 1}


@settings(max_examples=80, deadline=None)
@given(small_sets(10), st.sampled_from(["f1", "fbeta", jaccard, uneven]))
def test_tables_get_the_threshold_of_the_lowest_loss(data, loss):
    X, truth, w = data
    task, batch = learned(Measure(loss, beta=2.0), X, truth)
    scores = task.row_scores(batch, w)
    task.settle(batch, w)
    lost = task.loss(truth, scores > task.threshold_)[0]
    values = np.unique(np.append(scores, [scores.min() - 1.0, 0.0]))
    others = [task.loss(truth, scores > value)[0] for value in values]
    close(lost, min(others))
    if task.loss(truth, scores > 0)[0] <= min(others):
        assert task.threshold_ == 0.0


def test_rows_without_positives_lose_nothing():
    X, y = two_clouds(n=40, d=3)
    for loss in ("f1", "average_precision", "prbep", jaccard):
        model = StructuralSVM(Measure(loss, threshold=1e6), C=100.0).fit(X, y)
        assert model.loss(X[:5], np.zeros(5, dtype=int))[0] == 0.0


def test_a_threshold_may_be_given():
    X, y = two_clouds(n=100, d=3, apart=2.0, share=0.1)
    for loss in ("f1", "rocarea", "error"):
        model = StructuralSVM(Measure(loss, threshold=0.0), C=100.0).fit(X, y)
        close(model.decision_function(X), model.task_.row_scores(model.task_.prepare(X), model.coef_))
    own = StructuralSVM(Measure("f1"), C=100.0).fit(X, y)
    assert own.task_.threshold_ > 0.0
    assert own.score(X, y) > StructuralSVM(Measure("f1", threshold=0.0), C=100.0).fit(X, y).score(X, y)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=8),
    st.sampled_from([1e-310, 1e-9, 1.0, 1e9, 1e307]),
    st.sampled_from(["steps", "neighbours"]),
)
def test_cuts_take_as_many_scores_as_asked(numbers, scale, kind):
    """Also where nothing lies between two scores, and where none or all are to be taken."""
    scores = np.array(numbers) * scale
    if kind == "neighbours":
        for _ in range(3):
            scores = np.where(scores > scores.mean(), np.nextafter(scores[0], np.inf), scores[0])
    descending = -np.sort(-scores)
    counts = np.arange(len(scores) + 1)
    cuts = cuts_after(descending, counts)
    for count, cut in zip(counts, cuts, strict=True):
        assert cuts_after(descending, int(count)) == cut
        tied = 0 < count < len(scores) and descending[count - 1] == descending[count]
        expected = (scores > descending[count]).sum() if tied else count
        assert (scores > cut).sum() == expected
    if abs(scale) >= 1e-9 and np.any(scores):
        # All and none are taken whatever the rounding of scores that are computed again.
        again = scores * (1 + 1e-12)
        assert ((again > cuts[0]).sum(), (again > cuts[-1]).sum()) == (0, len(scores))


def test_weights_that_stay_zero_are_warned_of(tmp_path):
    X, y = two_clouds(n=200, d=4)
    for model in (StructuralSVM(Measure("prbep"), C=1e-6), KernelStructuralSVM(Measure("f1"), C=1e-6, cuts=10)):
        with pytest.warns(ConvergenceWarning, match="ended at w = 0: C=1e-06 is too small for a loss of all rows"):
            model.fit(X, y)
    strength = comparable_strength("prbep", len(y), int(y.sum()))
    assert StructuralSVM(Measure("prbep"), C=strength).fit(X, y).coef_.any()
    # There is nothing to learn if all rows are selected.
    assert StructuralSVM(Measure("precision@k", k=len(y)), C=1.0).fit(X, y).objective_ == 0.0


def test_overlapping_classes_leave_nothing_but_an_order():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = (X[:, 0] + 2.0 * rng.normal(size=1500) > 3.3).astype(int)
    for loss in ("f1", "prbep"):
        with pytest.warns(ConvergenceWarning, match="or the classes overlap too much for this loss"):
            model = StructuralSVM(Measure(loss), C=1e8).fit(X, y)
        assert model.objective_ == pytest.approx(1e8)
        assert model.certified_
    assert StructuralSVM(Measure("rocarea"), C=1e2).fit(X, y).score(X, y) > 0.7


def test_the_positive_class_may_be_the_first():
    X, y = two_clouds(n=120, d=3, apart=2.5, share=0.2)
    names = np.where(y == 1, "good", "zero")
    for loss in MEASURES:
        one = StructuralSVM(Measure(loss, k=20), C=100.0).fit(X, y)
        two = StructuralSVM(Measure(loss, k=20, positive="good"), C=100.0).fit(X, names)
        assert two.classes_.tolist() == ["good", "zero"]
        close(two.coef_, one.coef_)
        close(two.decision_function(X), -one.decision_function(X))
        np.testing.assert_array_equal(two.predict(X) == "good", one.predict(X) == 1)
        assert two.score(X, names) == one.score(X, y)
        assert two.loss(X, names) == one.loss(X, y)


@pytest.mark.parametrize("loss", ["f1", "average_precision", "recall@k"])
def test_solvers_agree(loss):
    X, y = two_clouds(n=80, d=3)
    found = [
        StructuralSVM(Measure(loss, k=20), C=100.0, solver=solver).fit(X, y)
        for solver in ("auto", "cutting_plane", "block_ascent", "frank_wolfe")
    ]
    for model in found[1:]:
        assert model.objective_ == pytest.approx(found[0].objective_, rel=2e-3)
        assert model.lower_bound_ <= found[0].objective_


@pytest.mark.parametrize(("loss", "rounds"), [("f1", 0.7), ("rocarea", 0.5), ("error", 0.7)])
def test_an_adaptive_bundle_needs_fewer_rounds(loss, rounds):
    X, y = two_clouds(n=1500, d=25, apart=2.0, share=0.15)
    chosen = StructuralSVM(Measure(loss), C=3e4).fit(X, y)
    fixed = StructuralSVM(Measure(loss), C=3e4, solver=Bundle(adaptive=False)).fit(X, y)
    assert chosen.objective_ == pytest.approx(fixed.objective_, rel=2e-3)
    assert chosen.n_rounds_ < rounds * fixed.n_rounds_
    plain = Bundle(proximity=0.0)
    counts = [
        StructuralSVM(Measure(loss), C=30.0, solver=clone(plain).set_params(adaptive=adaptive)).fit(X, y).n_rounds_
        for adaptive in (False, True)
    ]
    assert counts[0] == counts[1]


# ---- scikit-learn -----------------------------------------------------------------------------------------------


def test_pipelines_and_searches():
    X, y = two_clouds(n=120, d=4, share=0.25, apart=2.5)
    names = np.where(y == 1, "yes", "no")
    model = make_pipeline(StandardScaler(), StructuralSVM(Measure("f1"), C=100.0))
    assert is_classifier(model)
    search = GridSearchCV(
        model, {"structuralsvm__C": [1.0, 100.0], "structuralsvm__task__loss": ["f1", "rocarea", "error"]}, cv=3
    )
    search.fit(X, names)
    assert search.best_estimator_[-1].classes_.tolist() == ["no", "yes"]
    assert search.predict(X).dtype == names.dtype
    assert len(cross_val_score(model, X, names, cv=4)) == 4
    scores = cross_val_predict(model, X, names, method="decision_function", cv=4)
    assert scores.shape == (120,)
    assert roc_auc_score(names, scores) > 0.8
    fitted = model.fit(X, names)
    assert get_scorer("roc_auc")(fitted, X, names) == pytest.approx(roc_auc_score(names, fitted.decision_function(X)))
    flipped = StructuralSVM(Measure("rocarea", positive="no"), C=100.0).fit(X, names)
    assert get_scorer("roc_auc")(flipped, X, names) == pytest.approx(flipped.score(X, names))


def test_parameters_and_clones():
    task = Measure("fbeta", beta=2.0)
    assert task.get_params() == {
        "loss": "fbeta",
        "beta": 2.0,
        "k": None,
        "positive": None,
        "bias": 1.0,
        "threshold": None,
    }
    assert clone(task).get_params() == task.get_params()
    assert task.set_params(loss="f1", bias=0.0).chosen_loss == "f1"
    assert "loss='prbep'" in repr(Measure("prbep"))
    model = StructuralSVM(Measure("f1")).set_params(task__loss="rocarea")
    assert clone(model).task.chosen_loss == "rocarea"
    X, y = two_clouds()
    fitted = pickle.loads(pickle.dumps(model.fit(X, y)))
    close(fitted.decision_function(X), model.decision_function(X))


def test_lists_of_rows_are_predicted_in_blocks():
    X, y = two_clouds(n=700)
    model = StructuralSVM(Measure("prbep"), C=10.0).fit(X.tolist(), y.tolist())
    np.testing.assert_array_equal(model.predict(X.tolist()), model.predict(X))
    assert model.n_features_in_ == 3
    decoded = model.task_.decode(model.task_.prepare(X), model.coef_, HARD)
    assert [p.y for p in decoded[3:5]] == model.predict(X)[3:5].tolist()
    assert decoded[3].score == pytest.approx(model.decision_function(X)[3])


@pytest.mark.parametrize("loss", ["f1", "rocarea"])
def test_a_path_over_c_keeps_the_planes(loss):
    X, y = two_clouds(n=300, d=8, apart=2.0)
    kept = StructuralSVM(Measure(loss), C=100.0, warm_start=True).fit(X, y)
    kept.set_params(C=200.0).fit(X, y)
    fresh = StructuralSVM(Measure(loss), C=200.0).fit(X, y)
    assert kept.objective_ == pytest.approx(fresh.objective_, rel=2e-3)
    assert kept.n_oracle_calls_ < fresh.n_oracle_calls_


@pytest.mark.parametrize("loss", ["f1", "rocarea", "precision@k"])
def test_models_are_saved_with_their_threshold(loss, tmp_path):
    X, y = two_clouds()
    names = np.where(y == 1, "yes", "no")
    model = StructuralSVM(Measure(loss, k=5), C=10.0, solver=Bundle()).fit(X + 3.0, names)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    close(again.decision_function(X + 3.0), model.decision_function(X + 3.0))
    assert again.predict(X + 3.0).tolist() == model.predict(X + 3.0).tolist()
    assert again.score(X + 3.0, names) == model.score(X + 3.0, names)


# ---- what is refused --------------------------------------------------------------------------------------------


def fit(task, X=None, y=None, **more):
    if X is None:
        X, y = two_clouds()
    return StructuralSVM(task, C=1.0).fit(X, y, **more)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Measure("f2"), "loss is 'f2'; expected one of f1, fbeta, prbep"),
        (Measure(None), "loss is None; expected one of"),
        (Measure(["f1"]), r"loss is \['f1'\]; expected one of"),
        (Measure("fbeta", beta=0.0), "beta is 0.0; expected a positive"),
        (Measure("precision@k"), "loss='precision@k' needs k, found None"),
        (Measure("precision@k", k=31), "k is 31, but there are 30 examples only"),
        (Measure("recall@k", k=0), "k is 0; expected a whole number of at least 1, or a share"),
        (Measure("recall@k", k=1.0), "k is 1.0; expected a whole number"),
        (Measure("recall@k", k=True), "k is True; expected a whole number"),
        (Measure("f1", bias=np.inf), "bias must be a finite number, found inf"),
        (Measure("f1", bias="1"), "bias must be a finite number, found '1'"),
        (Measure("f1", bias=None), "bias must be a finite number, found None"),
        (Measure("f1", threshold="0"), "threshold must be a finite number or None, found '0'"),
        (Measure("f1", threshold=np.nan), "threshold must be a finite number or None, found nan"),
        (Measure("f1", positive="spam"), "positive is 'spam', an unknown label; expected 0 or 1: name one of them"),
        (Measure("f1", positive=[1]), r"positive is \[1\], an unknown label"),
        (Measure(lambda a, b, c, d: a), r"true labels \(a=12, b=0, c=0, d=18\) is 12; expected 0"),
        (Measure(lambda a, b, c, d: c - 3 * b), r"\(a=12, b=18, c=0, d=0\) is -54; expected at least 0"),
        (Measure(lambda a, b, c, d: 1 - a / (a + b)), r"\(a=0, b=0, c=12, d=18\) is nan; expected a finite"),
        (Measure(lambda a, b, c, d: 1 - (a if a > 0 else 1 / (a + b)) / 12), r"\(a=0, b=0, c=12, d=18\) is nan"),
        (Measure(lambda a, b, c, d: "no"), "cannot be asked for a table"),
        (Measure(lambda a, b: 0.0), "cannot be asked for a table"),
    ],
)
def test_parameters_that_are_refused(task, message):
    with pytest.raises(InputError, match=message):
        fit(task)


def test_data_that_are_refused():
    X, y = two_clouds()
    broken = X.copy()
    broken[3, 1] = np.nan
    cases = [
        (X, np.zeros(30), r"Y has the class 0.0 only; expected two classes"),
        (X, np.arange(30) % 3, r"Y has 3 classes, \[0, 1, 2\] among them; expected two"),
        (broken, y, "not finite at row 3, column 1"),
        (X, y[:20], "X has 30 examples but Y has 20 outputs"),
        (X, np.stack([y, y], axis=1), r"Y must have one dimension.* found shape \(30, 2\)"),
        (X, np.where(y == 1, np.nan, 0.0), "labels contain NaN"),
        (X[:0], y[:0], "X is empty"),
        (X[:, :0], y, "X has no features; expected at least one"),
        (X[:, 0], y, "X must have two dimensions"),
        (sparse.csr_array((30, 100_000_001)), y, "X has 100000001 features, each with a weight; expected at most"),
    ]
    for inputs, outputs, message in cases:
        with pytest.raises(InputError, match=message):
            fit(Measure("f1"), inputs, outputs)
    with pytest.raises(InputError, match="sample_weight is given, but Measure takes the whole set for one example"):
        fit(Measure("f1"), X, y, sample_weight=np.ones(30))
    model = fit(Measure("f1"))
    with pytest.raises(InputError, match="sample_weight is given, but Measure judges the whole set"):
        model.score(X, y, sample_weight=np.ones(30))
    with pytest.raises(InputError, match="X has 2 features but the model has 3"):
        model.predict(X[:, :2])
    with pytest.raises(InputError, match="unknown label 7"):
        model.score(X, np.full(30, 7))
    chosen = fit(Measure("precision@k", k=10))
    for judge in (chosen.score, chosen.loss):
        with pytest.raises(InputError, match="k is 10, but there are 9 examples only"):
            judge(X[:9], y[:9])
    with pytest.raises(InputError, match="all 30 rows are of one class"):
        model.task_.prepare(X, np.ones(30, dtype=int))


def test_modes_that_are_refused():
    X, y = two_clouds()
    with pytest.raises(InputError, match="knows the hard max only"):
        StructuredEstimator(Measure("f1"), temperature=(1.0, 0.0)).fit(X, y)
    for loss in ("rocarea", "average_precision", "prbep"):
        task, _ = learned(Measure(loss), X, y)
        with pytest.raises(InputError, match="known from their classes only: prepare the batch with Y"):
            task.planes(task.prepare(X), np.zeros(3), "free", HARD)


def test_functions_of_tables_are_not_saved(tmp_path):
    with pytest.raises(InputError, match="cannot save loss=<function jaccard"):
        fit(Measure(jaccard)).save(tmp_path / "model")


def test_a_function_must_be_monotone_where_not_all_tables_are_tried(monkeypatch):
    monkeypatch.setattr(table_losses, "LISTED_TABLES", 100)
    with pytest.raises(InputError, match="rises with true positives or falls with false positives somewhere"):
        fit(Measure(uneven))
    assert fit(Measure(jaccard)).certified_
