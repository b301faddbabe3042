"""Measures of a whole set: every loss against all labelings or rankings, and the contract of a task."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measure_reference import (
    HARD,
    close,
    jaccard,
    learned,
    list_labelings,
    list_rankings,
    small_sets,
    two_clouds,
    uneven,
)
from scipy import sparse

import reference
from latentstruct import (
    StructuralSVM,
)
from latentstruct._native.measures import best_f_table
from latentstruct.core.protocols import Prediction
from latentstruct.tasks.measure.set_losses import TableLoss, TwoClasses
from latentstruct.tasks.measure.task import MEASURES, Measure
from latentstruct.testing import check_task

MODES = ("free", "augmented", "clamped")
RANKINGS = ("rocarea", "average_precision")


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


@settings(max_examples=200, deadline=None)
@given(
    small_sets(12),
    st.sampled_from(["f1", "fbeta", "error", "prbep", "precision@k", "recall@k", jaccard, uneven]),
    st.sampled_from([0.3, 1.0, 2.0]),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.one_of(st.integers(1, 12), st.sampled_from([0.1, 0.5, 0.9])),
    st.booleans(),
)
def test_contingency_losses_against_all_labelings(data, loss, beta, bias, k, as_sparse):
    X, truth, w = data
    k = min(k, len(X))
    listed = list_labelings(X, truth, loss, beta, k, bias)
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
    requested = []

    def same(a, b, c, d):
        requested.append(a.size)
        return 1.0 - 2 * a / (2 * a + b + c)

    classes = TableLoss(same).prepared(TwoClasses.of(truth))
    assert classes.listed is None
    coefficients, loss = TableLoss(same).augmented(classes, scores)
    expected, expected_loss = Measure("f1")._make_loss().augmented(classes, scores)
    close(loss + coefficients @ scores, expected_loss + expected @ scores)
    assert sum(requested) < 3_000_000


class SetTask(Measure):
    """`Measure` with collections of one set, so that an example of the batch is an example of X."""

    def learn(self, X, Y):
        super().learn(X[0], Y[0])

    def prepare(self, X, Y=None):
        return super().prepare(X[0], None if Y is None else Y[0])

    def decode(self, batch, w, temperature):
        scores = self.row_scores(batch, w)
        coefficients, _ = self.answer(batch, scores, "free")
        found = scores if self.scores_ranking else self.labels_.decode((coefficients > 0).astype(int))
        return [Prediction(found, None, float(coefficients @ scores))]

    def loss(self, Y_true, Y_pred):
        truth, found = np.asarray(Y_true[0]), np.asarray(Y_pred[0])
        if self.scores_ranking and not np.isin(truth, self.classes_).all():
            # Scores compared with themselves: the order is the true one.
            truth = self.labels_.decode((truth > np.median(truth)).astype(int))
        return super().loss(truth, found)


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
    found = scores if task.scores_ranking else scores > 0
    lost = task.loss(truth, found)
    assert lost.shape == (1,)
    assert 0.0 <= lost[0] <= slack + 1e-9
    perfect = truth.astype(float) if task.scores_ranking else truth
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
