"""Detection against enumeration, losses between boxes, its starts, training and refusals."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from test_boxes import counted_overlap
from test_latent_multiclass import LABELS, MATRIX, list_states
from test_tasks import close, compare

from error_fields import raises
from latentstruct import CandidateTask, LatentMulticlass, LatentSSVM, ModLat, Temperature, load
from latentstruct.data.boxes import overlaps
from latentstruct.features.boxes import BoxFeatures
from latentstruct.metrics.boxes import box_scores
from latentstruct.solvers.dissimilarity import DissimilarityObjective, LatentModel
from latentstruct.tasks import detection
from latentstruct.tasks.detection import Detection, DetectionInput, chosen_boxes
from latentstruct.testing import check_task

LOSSES = ("overlap", "zero_one", None)


def images(seed=0, n=6, d=2, most=5):
    """Return images with boxes of whole pixels within 12 × 12, some with the same ones, and true classes."""
    rng = np.random.default_rng(seed)
    X = []
    for i in range(n):
        corners = rng.integers(0, 8, (int(rng.integers(1, most + 1)), 2))
        boxes = np.hstack([corners, corners + rng.integers(1, 5, corners.shape)])
        boxes = X[0].boxes if i % 3 == 1 else boxes
        X.append(DetectionInput(boxes, rng.normal(size=(len(boxes), d)).astype(np.float32)))
    return rng, X, np.arange(n) % 3


def learned(X, truth, **more):
    task, Y = Detection(**more), [LABELS[y] for y in truth]
    task.learn(X, Y)
    return task, task.prepare(X, Y), Y


def box_loss(kind, boxes, h, h_hat):
    """K(h, ĥ) between candidates of one image."""
    if kind == "overlap":
        return 1.0 - counted_overlap(boxes[h], boxes[h_hat])
    return 0.0 if kind is None else float(h != h_hat)


def distribution(rng, X):
    parts = [rng.random(len(x.boxes)) for x in X]
    return [part / part.sum() for part in parts]


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_detection_is_the_enumeration(bias):
    rng, X, truth = images()
    listed = list_states([x.features for x in X], truth, MATRIX, "ragged", bias)
    task, batch, _ = learned(X, truth, costs=MATRIX, bias=bias)
    assert task.n_features == listed[0].features.shape[1]
    for scale in (0.0, 1.0, 1e4):
        w = scale * rng.normal(size=task.n_features)
        for output in (0.0, 0.3, 1.0):
            for latent in (0.0, 0.3, 1.0):
                compare(task, batch, listed, w, Temperature(output, latent))
        compare(task, batch, listed, w, Temperature(0.3, 1.0), rows=np.array([4, 0, 5]))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(LOSSES), st.integers(0, 10**6))
def test_expected_losses_are_the_enumeration(kind, seed):
    rng, X, truth = images(seed)
    task, batch, _ = learned(X, truth, latent_loss=kind, costs=MATRIX, bias=0.0)
    P, w = distribution(rng, X), rng.normal(size=task.n_features)
    listed = list_states([x.features for x in X], truth, MATRIX, "ragged")
    diversity, slopes = [], []
    for x, p, example in zip(X, P, listed, strict=True):
        table = np.array([[box_loss(kind, x.boxes, h, k) for k in range(len(p))] for h in range(len(p))])
        diversity.append(p @ table @ p)
        slopes.append((table + table.T) @ p)
        for c, (y, h) in enumerate(example.items):
            if y == example.true_output:
                example.losses[c] = p @ table[:, h]
    expected = task.with_expected_loss(batch, np.concatenate(P))
    for temperature in (Temperature(), Temperature(0.3, 1.0)):
        compare(task, expected, listed, w, temperature)
    values, derivatives = task.diversity(batch, np.concatenate(P))
    close(values, diversity)
    close(derivatives, np.concatenate(slopes))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(LOSSES), st.integers(0, 10**6))
def test_worst_losses_and_losses_between_boxes(kind, seed):
    rng, X, truth = images(seed)
    task, batch, _ = learned(X, truth, latent_loss=kind, costs=MATRIX)
    P, w = np.concatenate(distribution(rng, X)), rng.normal(size=task.n_features)
    worst = task.worst_losses(batch, w)
    values, derivatives = worst(P)
    augmented = task.planes(task.with_expected_loss(batch, P), w, "augmented", Temperature())
    close(values, augmented.values)
    # The worst candidate's loss is linear in P: from below at any other distribution.
    other = np.concatenate(distribution(rng, X))
    above, starts = worst(other)[0], batch.offsets[:-1]
    assert (above >= values + np.add.reduceat(derivatives * (other - P), starts) - 1e-9).all()
    true, found = (task.random_latents(batch, rng) for _ in range(2))
    predicted = rng.integers(0, 3, len(X))
    expected = [
        box_loss(kind, x.boxes, h, k) if y == o else MATRIX[y, o]
        for x, y, o, h, k in zip(X, truth, predicted, true, found, strict=True)
    ]
    close(task.latent_losses(batch, true, [LABELS[y] for y in predicted], found), expected)


@pytest.mark.parametrize("most", [0, 10, 30, 2**26])
def test_overlaps_are_kept_only_as_far_as_there_is_room(most, monkeypatch):
    monkeypatch.setattr(detection, "MOST_KEPT", most)
    rng, X, truth = images(3, n=12)
    _, batch, _ = learned(X, truth)
    copy = dataclasses.replace(batch, losses=np.zeros(1))
    for one in (batch, copy, batch):
        P = distribution(rng, X)
        found = one.tables.products(np.concatenate(P))
        close(found, np.concatenate([p @ overlaps(x.boxes, x.boxes) for x, p in zip(X, P, strict=True)]))
    assert sum(table.size for table in batch.tables._kept) <= most
    assert copy.tables is batch.tables


@pytest.mark.parametrize("form", ["float32", "csr", "pairs"])
def test_detection_keeps_the_contract(form):
    _, X, truth = images()
    if form == "csr":
        X = [DetectionInput(x.boxes, sparse.csr_array(x.features)) for x in X]
    if form == "pairs":
        X = [(x.boxes.tolist(), x.features.tolist()) for x in X]
    check_task(Detection(), X, [LABELS[y] for y in truth])


def test_starts():
    _, X, truth = images(n=30)
    task, batch, _ = learned(X, truth)
    first = [task.initial_latents(batch, np.random.default_rng(seed), 0) for seed in (0, 1)]
    assert first[0] == first[1]
    later = [task.initial_latents(batch, np.random.default_rng(seed), 1) for seed in (0, 1)]
    assert later[0] != later[1]
    for latents in (*first, *later):
        assert all(0 <= h < len(x.boxes) for h, x in zip(latents, X, strict=True))


def test_the_first_start_is_central():
    around = [[0, 0, 100, 100], [0, 0, 70, 70], [14, 16, 84, 85], [40, 40, 60, 60], [30, 30, 100, 100]]
    X = [DetectionInput(around, np.eye(5)), DetectionInput([[50, 50, 60, 60]], np.eye(1, 5))]
    task, batch, _ = learned(X, [0, 1])
    assert task.initial_latents(batch, np.random.default_rng(0), 0) == [2, 0]


def striped(rng, upright):
    """Return an image of noise with a striped square somewhere, and the square."""
    image = rng.integers(100, 156, (48, 64, 3))
    x, y = int(rng.integers(0, 40)), int(rng.integers(0, 24))
    stripes = 100 * (np.arange(24) % 8 < 4)
    image[y : y + 24, x : x + 24] += stripes[None, :, None] if upright else stripes[:, None, None]
    return image.clip(0, 255).astype(np.uint8), np.array([x, y, x + 24, y + 24])


def test_objects_are_found_from_classes_alone(tmp_path):
    rng = np.random.default_rng(0)
    Y = ["upright", "lying"] * 12
    pictures, truth = zip(*(striped(rng, y == "upright") for y in Y), strict=True)
    features = BoxFeatures(sizes=(24 / np.sqrt(48 * 64),), aspects=(1.0,), limit=60, window=24)
    X = features.transform(pictures)
    model = LatentSSVM(Detection(), C=10.0, random_state=0).fit(X[:16], Y[:16])
    found = model.predict(X[16:])
    scores = box_scores(Y[16:], truth[16:], found, chosen_boxes(X[16:], model.predict_latent(X[16:])))
    assert scores["accuracy"] == 1.0
    # A box at random overlaps by half in one image of ten.
    assert scores["corloc"] >= 0.5
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.predict_latent(X) == model.predict_latent(X)
    assert again.complete(X, Y) == model.complete(X, Y)


def test_features_and_model_in_a_pipeline():
    rng = np.random.default_rng(2)
    Y = ["upright", "lying"] * 6
    pictures = [striped(rng, y == "upright")[0] for y in Y]
    features = BoxFeatures(limit=20, window=24)
    steps = [("boxes", features), ("model", LatentSSVM(Detection(), C=0.1))]
    found = Pipeline(steps).fit(pictures, Y).predict(pictures)
    X = features.transform(pictures)
    assert found.tolist() == clone(steps[1][1]).fit(X, Y).predict(X).tolist()
    search = GridSearchCV(Pipeline(steps), {"boxes__limit": [5, 20], "boxes__window": [16, 24]}, cv=2)
    search.fit(pictures, Y)
    assert len(search.cv_results_["params"]) == 4
    assert search.predict(pictures).shape == (12,)


@pytest.mark.parametrize("kind", ["overlap", "zero_one"])
def test_models_that_compare_boxes_are_trained_and_come_back_from_disk(kind, tmp_path):
    rng = np.random.default_rng(1)
    corners = np.stack(np.meshgrid(range(0, 10, 2), range(0, 6, 2)), axis=-1).reshape(-1, 2)
    boxes = np.hstack([corners, corners + 4])
    Y, true = np.arange(40) % 2, rng.integers(0, len(boxes), 40)
    looks = np.array([[4.0, 0.0], [0.0, 4.0]])
    X = []
    for y, h in zip(Y, true, strict=True):
        covered = np.array([counted_overlap(box, boxes[h]) for box in boxes])
        X.append(DetectionInput(boxes, covered[:, None] * looks[y] + 0.3 * rng.normal(size=(len(boxes), 2))))
    model = ModLat(Detection(kind), C=1.0, restarts=2).fit(X[:30], Y[:30])
    assert model.score(X[30:], Y[30:]) > 0.9
    assert np.mean(np.array(model.predict_latent(X[30:])) == true[30:]) > 0.7
    batch = model.task_.prepare(X[:30], Y[:30])
    objective = DissimilarityObjective(LatentModel(model.task_, batch), np.ones(30), model.J, model.beta)
    assert model.objective_ == pytest.approx(objective.value(model.coef_, model.theta_))
    assert all(len(p) == len(boxes) for p in model.latent_distribution(X, Y))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert (type(again), again.task_.latent_loss) == (ModLat, kind)
    assert again.predict_latent(X) == model.predict_latent(X)
    np.testing.assert_array_equal(again.theta_, model.theta_)
    for p, q in zip(again.latent_distribution(X, Y), model.latent_distribution(X, Y), strict=True):
        np.testing.assert_array_equal(p, q)


def test_parameters_and_state_are_kept():
    _, X, truth = images()
    task, batch, _ = learned(X, truth, latent_loss="zero_one", costs=MATRIX, bias=2.0)
    assert set(task.get_params()) == {"latent_loss", "labels", "costs", "bias"}
    again = clone(task)
    again.restore(task.state())
    w = np.random.default_rng(0).normal(size=task.n_features)
    close(again.scores(again.prepare(X), w), task.scores(batch, w))
    P = np.concatenate(distribution(np.random.default_rng(1), X))
    close(again.diversity(again.prepare(X, [LABELS[y] for y in truth]), P)[0], task.diversity(batch, P)[0])


BOX = [[0, 0, 4, 4]]


@pytest.mark.parametrize(
    ("task", "X", "parameter", "got", "expected"),
    [
        (Detection(), [np.ones((2, 3)), np.ones((2, 3))], "X[0]", "", "a DetectionInput or another pair"),
        (Detection(), [(BOX, np.ones((1, 3))), BOX], "X[1]", "", "a DetectionInput or another pair"),
        (
            Detection(),
            [(BOX, np.ones((1, 3))), (np.zeros((0, 4)), np.ones((0, 3)))],
            "X[1].boxes",
            "",
            "at least one box",
        ),
        (Detection(), [(BOX, np.ones((2, 3)))] * 2, "X[0].features", "", "1 rows, one per box"),
        (Detection(), [(BOX, 3.0)] * 2, "X[0].features", "shape ()", "1 rows, one per box"),
        (Detection(), [(BOX, None)] * 2, "X[0].features", "shape ()", "1 rows, one per box"),
        (Detection(), [(BOX, [1.0])] * 2, "X", "", "an array of shape (n, H, d), one row per"),
        (
            Detection(),
            [([[0, 4, 4, 4]], np.ones((1, 3)))] * 2,
            "X[0].boxes[0]",
            "",
            "a box with finite x0 < x1 and y0 < y1",
        ),
        (Detection(), [(BOX, np.ones((1, 3))), (BOX, np.ones((1, 4)))], "X[1]", "", "rows with 3 features"),
        (Detection(), [(BOX, [[np.nan]])] * 2, "X[0]", "nan at row 0, column 0", "finite"),
        (Detection(), [], "X", "none", "at least one example"),
        (Detection("iou"), [(BOX, np.ones((1, 3)))] * 2, "latent_loss", "'iou'", "'overlap', 'zero_one' or None"),
        (Detection(np.ones((2, 2))), [(BOX, np.ones((1, 3)))] * 2, "latent_loss", "", "'overlap'"),
        (Detection(["overlap"]), [(BOX, np.ones((1, 3)))] * 2, "latent_loss", "", "'overlap'"),
        (Detection(), [(2 * BOX, [[1.0], [1.0, 2.0]])] * 2, "X[0].features", "", "an array"),
        (Detection(np.zeros((1, 1))), [(BOX, np.ones((1, 3)))] * 2, "latent_loss", "", "'overlap'"),
        (Detection(bias=np.nan), [(BOX, np.ones((1, 3)))] * 2, "bias", "nan", "a finite number, 0 for none"),
        (Detection(labels=["a"]), [(BOX, np.ones((1, 3)))] * 2, "label", "", "one of the known labels 'a'"),
    ],
)
def test_bad_images(task, X, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        task.learn(X, ["a", "b"][: len(X)])


def test_bad_predictions():
    _, X, truth = images()
    task, batch, Y = learned(X, truth)
    with raises("X", got="5 features", expected="rows with 2 features, as in training"):
        task.prepare([DetectionInput(BOX, np.ones((1, 5)))])
    with raises("X[0].boxes", got="shape (0, 4)", expected="at least one box of four numbers x0, y0, x1, y1"):
        task.prepare([DetectionInput(np.zeros((0, 4)), np.ones((0, 2)))])
    with raises("Y", got="5 outputs", expected="a sequence of 6 outputs"):
        task.prepare(X, Y[:-1])
    with raises("latents[0]", got="99", expected="a state from 0 to 4"):
        task.completion_planes(batch, [99] * 6)
    with raises("latents", got="1 latents", expected="a sequence of 6 latents"):
        chosen_boxes(X, [0])
    with raises("latents", got="None", expected="a sequence such as a list"):
        chosen_boxes(X, None)
    with raises("X", got="None", expected="a sequence such as a list"):
        chosen_boxes(None, [0])
    for wrong in (9, -1, 0.5, "0", None):
        with raises("latents[2]", expected="the index of a candidate from 0 to 1"):
            chosen_boxes(X, [0, 0, wrong, 0, 0, 0])
    close(chosen_boxes(X, np.zeros(6, dtype=np.int32)), [x.boxes[0] for x in X])
    close(chosen_boxes(X, [0] * 6), [x.boxes[0] for x in X])


# Losses between latents


class Differ(CandidateTask):
    """Two outputs with two latents each, and one loss wherever they differ."""

    def __init__(self, loss=None):
        self.loss = loss

    def candidates(self, x):
        return [0, 0, 1, 1], list("abab"), x * np.eye(4)

    def pair_loss(self, x, y, h, y_hat, h_hat):
        return 0.0 if (y, h) == (y_hat, h_hat) else self.loss


@pytest.mark.parametrize("wrong", [None, "much", np.nan, np.inf, -1.0, [1.0], np.ones(2), 1j])
def test_losses_of_latents_that_are_none_name_their_place(wrong):
    name = "pair_loss of example 0 for the output 0 with the latent 'a' against 0 with 'b'"
    with raises(name, expected="a finite number of at least 0"):
        ModLat(Differ(wrong)).fit([1.0, 2.0], [0, 1])
    task = Differ(wrong)
    task.learn([1.0, 2.0], [0, 1])
    with raises(name, expected="a finite number of at least 0"):
        task.latent_losses(task.prepare([1.0, 2.0], [0, 1]), ["a", "a"], [0, 1], ["b", "a"])


@pytest.mark.parametrize("right", [1, True, np.True_, np.float32(1), np.int8(1), np.array(1.0)])
def test_losses_of_latents_are_numbers_of_any_kind(right):
    one, other = (ModLat(Differ(loss)).fit([1.0, 2.0], [0, 1]) for loss in (right, 1.0))
    np.testing.assert_array_equal(one.theta_, other.theta_)


@pytest.mark.parametrize(("place", "value"), [((1, 1), 0.5), ((0, 2), -1.0), ((2, 0), np.nan)])
def test_matrices_of_losses_name_the_wrong_entry(place, value):
    matrix = 1.0 - np.eye(3)
    matrix[place] = value
    with raises("latent_loss", got=f"{value} at [{place[0]}, {place[1]}]", expected="zeros on the diagonal"):
        ModLat(LatentMulticlass(latent_loss=matrix)).fit(np.ones((4, 3, 2)), [0, 1, 0, 1])
