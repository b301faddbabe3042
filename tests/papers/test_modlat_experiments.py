"""The detection experiment: its splits, tables and pictures, and a small run on drawn photographs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latentstruct.data.boxes import nearest_box, overlaps
from latentstruct.estimators import LatentSSVM
from latentstruct.estimators.uncertain import IterativeLSVM, ModLat
from latentstruct_papers import Setup, modlat_action, modlat_detection, modlat_one_size, modlat_tables
from latentstruct_papers.datasets import Photographs
from latentstruct_papers.modlat_detection import (
    SEVERAL_SIZES,
    Setting,
    describe,
    first_of_each,
    jittered_boxes,
    make_model,
    make_splits,
    one_size_boxes,
    shrink,
)
from latentstruct_papers.modlat_tables import (
    BLIND,
    HELD_OUT,
    ILSVM,
    LSVM,
    METHODS,
    MODLAT,
    TEST,
    Trial,
    held_out_trials,
    losses_of,
    montage,
    paired_test,
)

SMALL = Setting(SEVERAL_SIZES, None, 2, (10.0,), 8)


def draw_photographs(n_each, seed=0):
    """Stripes that lie or stand in a box somewhere on noise: two classes that gradients tell apart."""
    rng = np.random.default_rng(seed)
    images, labels, boxes = [], [], []
    for k in range(2 * n_each):
        image = rng.integers(100, 110, size=(48, 64, 3)).astype(np.uint8)
        left, top = int(rng.integers(0, 34)), int(rng.integers(0, 18))
        part = image[top : top + 30, left : left + 30]
        stripes = np.arange(30) // 3 % 2 * 200
        part[:] = (stripes[:, None, None] if k % 2 else stripes[None, :, None]) + np.zeros((30, 30, 3), dtype=np.int64)
        images.append(image)
        labels.append("lying" if k % 2 else "standing")
        boxes.append(np.array([[left, top, left + 30, top + 30]], dtype=np.float64))
    return Photographs([f"{k}" for k in range(2 * n_each)], images, labels, boxes)


@pytest.fixture(scope="module")
def findings():
    """A whole run on drawn photographs in the place of both data sets."""
    return run_on_drawn(modlat_detection, SMALL, ("mammals", "msrc animals"))


def run_on_drawn(experiment, setting, names):
    """Run an experiment on drawn photographs; return its findings and what it said."""
    drawn = {name: lambda home, seed=seed: draw_photographs(6, seed) for seed, name in enumerate(names)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "QUICK", setting)
        patch.setattr(modlat_detection, "SOURCES", drawn)
        modlat_detection.load_scenes.cache_clear()
        said = []
        found = experiment.run(Setup(quick=True, say=said.append))
        modlat_detection.load_scenes.cache_clear()
    return found, said


def make_trial(split=0, method=MODLAT, C=1.0, part=TEST, loss="overlap", value=0.5):
    scores = {"zero_one": 1.0, "overlap": value, "corloc": 0.25, "accuracy": 0.75}
    box = np.array([[0.0, 0.0, 2.0, 2.0]])
    return Trial("mammals", loss, split, method, C, part, scores, [0], ["cat"], box, 1.0)


# ---- splits and models -----------------------------------------------------------------------------------


@given(sizes=st.lists(st.integers(10, 30), min_size=2, max_size=5))
def test_splits_keep_classes_and_never_mix_parts(sizes):
    Y = [f"class {c}" for c, size in enumerate(sizes) for _ in range(size)]
    splits = make_splits(Y, 3)
    assert splits == make_splits(Y, 3)
    assert len({tuple(split.test) for split in splits}) == 3
    for split in splits:
        assert sorted(split.train + split.test) == list(range(len(Y)))
        assert sorted(split.inner + split.held_out) == split.train
        for c, size in enumerate(sizes):
            held = [sum(Y[k] == f"class {c}" for k in part) for part in (split.test, split.held_out)]
            assert abs(held[0] - 0.4 * size) <= 1
            assert abs(held[1] - 0.15 * size) <= 1.5


def test_models_are_those_of_the_paper():
    models = {method: make_model(method, "zero_one", C=6.0, n_images=3, seed=7) for method in METHODS}
    assert [type(model) for model in models.values()] == [IterativeLSVM, IterativeLSVM, ModLat, LatentSSVM]
    assert (models[LSVM].inner, models[ILSVM].inner) == ("convex", "cccp")
    assert (models[MODLAT].J, models[MODLAT].beta, models[MODLAT].tol) == (0.1, 0.1, 1e-3)
    assert {model.C for model in models.values()} == {2.0}
    assert [model.task.latent_loss for model in models.values()] == ["zero_one", "zero_one", "zero_one", None]


def test_the_first_of_each_class_are_taken():
    photographs = draw_photographs(4)
    few = first_of_each(photographs, 2)
    assert few.names == ["0", "1", "2", "3"]
    assert [len(part) for part in (few.images, few.labels, few.boxes)] == [4, 4, 4]
    assert first_of_each(photographs, None) is photographs


def test_scores_take_the_nearest_candidate_for_the_truth():
    scenes = describe("drawn", draw_photographs(2), 20)
    np.testing.assert_allclose([np.linalg.norm(x.features, axis=1).max() for x in scenes.X], 5.0, rtol=1e-5)
    chosen = [0, 3]
    best = [nearest_box(scenes.X[k].boxes, scenes.photographs.boxes[k]) for k in chosen]
    boxes = [scenes.X[k].boxes[h] for k, h in zip(chosen, best, strict=True)]
    found = scenes.scores(chosen, ["standing", "lying"], boxes)
    assert found["zero_one"] == 0.0
    missed = [1 - overlaps(box, scenes.photographs.boxes[k]).max() for k, box in zip(chosen, boxes, strict=True)]
    assert found["overlap"] == pytest.approx(np.mean(missed))
    assert scenes.scores(chosen, ["standing", "standing"], boxes)["zero_one"] == 0.5
    mean, share = modlat_detection.best_possible(scenes)
    assert mean >= 1 - np.mean(missed) - 0.5
    assert 0 <= share <= 1
    assert modlat_detection.whole_image(scenes) == pytest.approx(900 / (48 * 64))


@given(
    width=st.integers(20, 90),
    height=st.integers(20, 90),
    corners=st.tuples(*[st.floats(0.0, 1.0)] * 4),
    most=st.integers(1, 60),
)
def test_boxes_of_one_size(width, height, corners, most):
    (x0, x1), (y0, y1) = sorted(corners[:2]), sorted(corners[2:])
    box = np.array([x0 * (width - 8), y0 * (height - 8), x1 * (width - 8) + 8, y1 * (height - 8) + 8])
    found = one_size_boxes(width, height, box, most)
    sizes = found[:, 2:] - found[:, :2]
    assert 1 <= len(found) <= most
    assert (sizes == np.round(box[2:] - box[:2])).all()
    assert (found[:, :2] >= 0).all()
    assert (found[:, 2:] <= [width, height]).all()
    assert len(np.unique(found, axis=0)) == len(found)
    # Some candidate lies within half a step of the true box, unless the border or `most` is in the way.
    if most == 60 and len(found) > 1:
        steps = np.diff(np.unique(found[:, 0]))
        assert (steps >= 8).all()
        assert (steps == steps[:1]).all()


@given(st.integers(0, 99), st.integers(1, 12))
def test_jittered_boxes_hold_the_true_one(seed, n_boxes):
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 40, 2)
    box = np.concatenate([corner, corner + rng.uniform(10, 50, 2)])
    found = jittered_boxes(100, 90, box, n_boxes, rng)
    assert found.shape == (n_boxes, 4)
    assert (found == box).all(axis=1).sum() == 1
    assert (found[:, :2] >= 0).all()
    assert (found[:, 2:] <= [100 + 1e-9, 90 + 1e-9]).all()
    areas = np.prod(found[:, 2:] - found[:, :2], axis=1) / np.prod(box[2:] - box[:2])
    assert areas.max() <= 2 + 1e-9


def test_truth_is_a_candidate_in_protocols_of_the_paper():
    photographs = draw_photographs(2)
    for protocol, exact in ((modlat_detection.ONE_SIZE, False), (modlat_detection.JITTER, True)):
        kept, X = modlat_detection.candidates(photographs, protocol, 20)
        assert len(X) == len(kept.images) == 4
        for x, truth, drawn in zip(X, kept.boxes, photographs.boxes, strict=True):
            assert (x.boxes == truth[0]).all(axis=1).sum() == 1
            assert overlaps(truth, drawn)[0, 0] == (1.0 if exact else pytest.approx(1.0, abs=0.5))


def test_shrunk_photographs_keep_their_boxes():
    image = np.zeros((100, 400, 3), dtype=np.uint8)
    image[20:60, 100:300] = 255
    small, boxes = shrink(image, np.array([[100.0, 20.0, 300.0, 60.0]]), 200)
    assert small.shape == (50, 200, 3)
    assert boxes.tolist() == [[50, 10, 150, 30]]
    assert small[12:28, 52:148].min() > 250
    assert small[:8].max() < 5


# ---- tables ----------------------------------------------------------------------------------------------


def test_strengths_are_chosen_by_photographs_held_out():
    trials = [
        make_trial(split=split, C=C, part=part, value=value)
        for split, C, part, value in (
            (0, 1.0, TEST, 0.2),
            (0, 10.0, TEST, 0.6),
            (0, 1.0, HELD_OUT, 0.9),
            (0, 10.0, HELD_OUT, 0.5),
            (1, 1.0, TEST, 0.3),
            (1, 10.0, TEST, 0.5),
            (1, 1.0, HELD_OUT, 0.4),
            (1, 10.0, HELD_OUT, 0.4),
        )
    ]
    assert [one.C for one in held_out_trials(trials, "mammals", "overlap", MODLAT)] == [10.0, 1.0]
    assert modlat_tables.best_strength(trials, "mammals", "overlap", MODLAT) == 1.0
    assert losses_of(trials, "mammals", "overlap", MODLAT)[10.0].tolist() == [0.6, 0.5]
    assert losses_of(trials, "mammals", "zero_one", MODLAT) == {}


def test_spreads_are_standard_deviations_over_splits():
    assert modlat_tables.show_spread([0.5, 0.7]) == "60.00 ± 14.14"
    assert modlat_tables.show_spread([0.5]) == "50.00 ± nan"


def test_paired_tests():
    ours, others = np.array([0.5, 0.4, 0.6]), np.array([0.6, 0.6, 0.65])
    apart = others - ours
    t = apart.mean() / (apart.std(ddof=1) / np.sqrt(3))
    # The share of a t with 2 degrees of freedom beyond ± t.
    p = 1 - t / np.sqrt(2 + t**2)
    assert paired_test(ours, others) == ["-11.67", f"{p:.2g}"]
    assert paired_test(ours, ours - 0.1) == ["+10.00", None]
    assert paired_test(ours[:1], others[:1]) == ["-10.00", None]


@given(sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=7), n=st.integers(1, 4))
def test_montages_hold_all_pictures(sizes, n):
    pictures = [np.full((*size, 3), k + 1, dtype=np.uint8) for k, size in enumerate(sizes)]
    sheet = montage(pictures, n)
    for k, (height, width) in enumerate(sizes):
        assert np.count_nonzero(sheet[:, :, 0] == k + 1) == height * width


# ---- a whole run -----------------------------------------------------------------------------------------


def test_a_run_has_all_tables(findings):
    found, said = findings
    best, held_out, tests, quality, curve, data, seconds = found.tables
    places = [["mammals", "0/1"], ["mammals", "overlap"], ["msrc animals", "0/1"], ["msrc animals", "overlap"]]
    assert [row[:2] for row in best.rows] == [row[:2] for row in held_out.rows] == places
    assert best.rows[0][-3:] == ["64.82 ± 4.96", "68.53 ± 5.52", "47.76 ± 2.53"]
    assert best.rows[3][-1] == "42.27 ± 3.64"
    assert [row[2] for row in tests.rows] == [LSVM, ILSVM, BLIND] * 4
    assert len(quality.rows) == 8
    assert [row[2] for row in curve.rows] == ["10"] * 4
    assert [row[:2] for row in data.rows] == [[name, "lying 6, standing 6"] for name in ("mammals", "msrc animals")]
    # Two data sets, two losses, splits, and parts.
    assert [row[:2] for row in seconds.rows] == [[method, 16] for method in METHODS]
    assert len([line for line in said if ": mammals, split 1, C = 10, test: LSSVM" in line]) == 1
    # Two data sets, two splits, and two parts.
    assert said[-1].startswith("8 of 8 trials: ")
    assert [claim.what for claim in found.claims[:2]] == [
        f"mammals, 0/1 loss: ModLat below {other}" for other in (LSVM, ILSVM)
    ]
    assert len(found.claims) == 8
    losses = found.settings["losses"]
    assert len(losses) == 2 * 2 * len(METHODS) * 2
    assert all(np.shape(values) == (1, 2) for values in losses.values())
    means = [100 * np.mean(losses[f"mammals, 0/1, {method}, test"]) for method in METHODS]
    assert [cell.partition(" ")[0] for cell in curve.rows[0][3:]] == [f"{mean:.2f}" for mean in means]


def accuracies(found):
    """Return the accuracies of classes by data set, loss and method."""
    rows = [row for row in found.tables[3].rows if row[2] == "class accuracy"]
    return {
        (*row[:2], method): float(cell.partition(" ")[0])
        for row in rows
        for method, cell in zip(METHODS, row[3:], strict=True)
    }


def test_stripes_are_learned(findings):
    """All methods tell lying stripes from standing ones."""
    assert min(accuracies(findings[0]).values()) >= 80


def test_stripes_of_known_size_and_among_boxes_at_random_places_are_learned():
    """Boxes with the true stripes are found too where they differ in place only, or the true one is a candidate."""
    for experiment, protocol in (
        (modlat_one_size, modlat_detection.ONE_SIZE),
        (modlat_action, modlat_detection.JITTER),
    ):
        data = "caltech animals" if experiment is modlat_one_size else "voc actions"
        found, _ = run_on_drawn(experiment, SMALL._replace(protocol=protocol, n_boxes=20), (data,))
        assert min(accuracies(found).values()) >= 80
        assert len(found.claims) == 4
        ((_, _, _, best, near, _),) = found.tables[5].rows
        assert best == near == 100
        assert found.claims[0].paper == ("76.10, 93.18" if data == "voc actions" else "47.76, 64.82")


def test_pictures_are_saved(findings, tmp_path):
    names = {path.name for path in findings[0].save(tmp_path)}
    for data in ("mammals", "msrc-animals"):
        for plot in ("zero-one", "overlap", "best", "worst"):
            assert f"modlat-detection-{data}-{plot}.png" in names
