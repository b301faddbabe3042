import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from command import fail, run
from error_fields import raises
from latentstruct import ModLat, load
from latentstruct.cli.answers import check_answers
from latentstruct.cli.kinds.detect.command import choose_cache
from latentstruct.cli.registry import KINDS
from latentstruct.cli.run import Training
from latentstruct.data.boxes import grid_boxes, overlaps
from latentstruct.data.images import ImageFiles
from latentstruct.features.objectness import object_boxes
from latentstruct.features.regions import segment_boxes
from latentstruct.io.boxes import ImageAnnotation, read_coco, write_coco
from latentstruct.viz.box_pictures import draw_boxes
from pictures import encode, pack

HEIGHT, WIDTH, SIDE = 48, 64, 30
OPTIONS = ("--quiet", "--no-cache", "--boxes", 60)


def photograph(rng, label):
    """Return noise with a bright shape somewhere, and the box of the shape."""
    pixels = rng.normal(128, 10, size=(HEIGHT, WIDTH))
    top, left = int(rng.integers(0, HEIGHT - SIDE + 1)), int(rng.integers(0, WIDTH - SIDE + 1))
    down, across = np.abs(np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2)
    shape = np.minimum(down, across) < SIDE / 6 if label == "cross" else down + across < SIDE / 2
    pixels[top : top + SIDE, left : left + SIDE] += 90 * shape
    return pixels.clip(0, 255).astype(np.uint8), [left, top, left + SIDE, top + SIDE]


def write_photographs(folder, n, seed):
    """Write photographs and tables of their labels and boxes; return the folder of images and the table."""
    rng = np.random.default_rng(seed)
    images = folder / "images"
    images.mkdir(parents=True)
    rows = []
    for k in range(n):
        label = ("cross", "diamond")[k % 2]
        pixels, box = photograph(rng, label)
        (images / f"p{k}.png").write_bytes(encode(pixels))
        rows.append([f"p{k}.png", label, *box])
    return images, write_table(folder / "labels.csv", rows)


def write_table(path, rows):
    lines = [["file", "label", "x0", "y0", "x1", "y1"], *rows]
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in lines))
    return path


def read_rows(path):
    return [line.split(",") for line in path.read_text().splitlines()[1:]]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_photographs(tmp_path_factory.mktemp("train"), 16, 0)


@pytest.fixture(scope="module")
def test_data(tmp_path_factory):
    return write_photographs(tmp_path_factory.mktemp("test"), 10, 1)


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    run("train", "detect", data[0], data[1], "-o", folder, *OPTIONS)
    return folder


@pytest.fixture
def copied(data, tmp_path):
    """Return images and labels that a test may spoil."""
    images = tmp_path / "copied"
    images.mkdir()
    for path in data[0].iterdir():
        (images / path.name).write_bytes(path.read_bytes())
    return images, write_table(tmp_path / "copied.csv", read_rows(data[1]))


def train(data, tmp_path, *options):
    return ("train", "detect", data[0], data[1], "-o", tmp_path / "model", *OPTIONS, *options)


def scores_of(model, images, labels, *options):
    return json.loads(run("evaluate", model, images, labels, "--json", *options).stdout)


def predictions(folder):
    return json.loads((folder / "predictions.json").read_text())["images"]


# The way through


def test_training_prediction_and_evaluation(model, test_data, tmp_path):
    images, labels = test_data
    out, seen = tmp_path / "new" / "out", tmp_path / "seen"
    scores = scores_of(model, images, labels, "--pictures", seen)
    assert (scores["kind"], scores["data"], scores["labels"]) == ("detect", str(images), str(labels))
    assert scores["accuracy"] >= 0.9
    run("predict", model, images, "-o", out)
    found = predictions(out)
    rows = read_rows(labels)
    by_file = {row[0]: row for row in rows}
    assert sorted(by_file) == [one["file"] for one in found]
    # What was written is what was judged.
    met = {one["file"]: overlaps(one["box"], np.array(by_file[one["file"]][2:], dtype=float)).item() for one in found}
    anywhere = [overlaps(grid_boxes(WIDTH, HEIGHT, limit=60), np.array(row[2:], dtype=float)).mean() for row in rows]
    assert np.mean(list(met.values())) > np.mean(anywhere) + 0.1
    right = {one["file"]: one["label"] == by_file[one["file"]][1] for one in found}
    assert scores["accuracy"] == pytest.approx(np.mean(list(right.values())))
    assert scores["corloc"] == pytest.approx(np.mean([value >= 0.5 for value in met.values()]))
    assert scores["overlap"] == pytest.approx(np.mean([1 - met[file] if right[file] else 1 for file in met]))
    assert sum(scores["confusion"]["cross"].values()) == scores["classes"][0]["n_true"] == 5
    assert [one["mean_overlap"] for one in scores["classes"]] == pytest.approx(
        [np.mean([met[row[0]] for row in rows if row[1] == label]) for label in ("cross", "diamond")]
    )
    cases = [line.split("\t") for line in (seen / "cases.tsv").read_text().splitlines()]
    assert cases[0] == ["file", "label", "predicted", "score", "overlap"]
    overlap = [float(case[4]) for case in cases[1:]]
    assert overlap == sorted(overlap, reverse=True)
    assert overlap == pytest.approx([met[case[0]] for case in cases[1:]], abs=1e-4)
    for folder in (out / "pictures", seen):
        assert ImageFiles(folder).names == ImageFiles(images).names
        assert ImageFiles(folder).image("p0").shape == (HEIGHT, WIDTH, 3)


def test_predictions_are_those_of_the_model(model, test_data, tmp_path):
    from latentstruct.features.boxes import BoxFeatures

    run("predict", model, test_data[0], "-o", tmp_path / "out")
    features = BoxFeatures.from_state(json.loads((model / "model.json").read_text())["extra"]["features"])
    files, estimator = ImageFiles(test_data[0]), load(model).model_
    X = features.transform([files.image(name) for name in files])
    found = predictions(tmp_path / "out")
    assert [one["label"] for one in found] == list(estimator.predict(X))
    chosen = [x.boxes[h].tolist() for x, h in zip(X, estimator.predict_latent(X), strict=True)]
    assert [one["box"] for one in found] == chosen
    values = np.sort(estimator.class_scores(X), axis=1)
    np.testing.assert_allclose([one["score"] for one in found], values[:, -1] - values[:, -2])
    np.testing.assert_allclose(np.sort([list(one["scores"].values()) for one in found], axis=1), values)


def test_predictions_can_be_read_as_labels(model, test_data, tmp_path):
    images, _ = test_data
    run("predict", model, images, "-o", tmp_path / "out")
    scores = scores_of(model, images, tmp_path / "out" / "coco.json")
    assert [scores[name] for name in ("accuracy", "corloc", "zero_one")] == [1.0, 1.0, 0.0]
    assert scores["overlap"] == pytest.approx(0.0, abs=1e-12)
    for one, row in zip(read_coco(tmp_path / "out" / "coco.json"), predictions(tmp_path / "out"), strict=True):
        assert (one.file, one.label, one.size) == (row["file"], row["label"], (WIDTH, HEIGHT))
        np.testing.assert_allclose(one.boxes, [row["box"]])
    content = json.loads((tmp_path / "out" / "coco.json").read_text())
    assert [one["score"] for one in content["annotations"]] == [one["score"] for one in predictions(tmp_path / "out")]


def test_archives_single_images_and_a_second_time(model, test_data, tmp_path):
    images, labels = test_data
    archive = pack(images, tmp_path / "images.zip")
    assert scores_of(model, archive, labels)["overlap"] == scores_of(model, images, labels)["overlap"]
    run("predict", model, images / "p1.png", "-o", tmp_path / "out")
    (one,) = predictions(tmp_path / "out")
    run("predict", model, archive, "-o", tmp_path / "out")
    again = predictions(tmp_path / "out")[1]
    assert again["file"] == "inner/p1.png"
    assert {**again, "file": "p1.png"} == one


@pytest.mark.parametrize(
    ("options", "estimator", "loss"),
    [
        (("--loss", "zero-one"), "ModLat", "zero_one"),
        (("--model", "iterative"), "IterativeLSVM", "overlap"),
        (("--model", "latent"), "LatentSSVM", None),
    ],
)
def test_models(options, estimator, loss, data, test_data, tmp_path):
    valid = ("--valid", test_data[0], "--valid-labels", test_data[1])
    result = json.loads(run(*train(data, tmp_path, *options, *valid, "--max-iter", 3, "--json")).stdout)
    assert (result["estimator"], result["n_examples"], result["n_labels"]) == (estimator, 16, 2)
    assert result["valid"]["accuracy"] >= 0.8
    assert load(tmp_path / "model").model_.task_.latent_loss == loss
    described = json.loads(run("info", tmp_path / "model", "--json").stdout)
    assert described["latent_loss"] == loss
    assert described["boxes"]["limit"] == 60
    assert described["n_boxes"] == result["n_boxes"] <= 60 * 16


def test_segments_are_candidates(data, test_data, tmp_path):
    run(*train(data, tmp_path, "--candidates", "segments", "--max-iter", 3))
    assert "--step must be left out" in fail(*train(data, tmp_path, "--candidates", "segments", "--step", 4))
    described = json.loads(run("info", tmp_path / "model", "--json").stdout)
    assert described["boxes"]["candidates"] == "segments"
    run("predict", tmp_path / "model", test_data[0], "-o", tmp_path / "found")
    files = ImageFiles(test_data[0])
    for name, one in zip(files, predictions(tmp_path / "found"), strict=True):
        assert one["box"] in segment_boxes(files.image(name), 60).tolist()
    assert scores_of(tmp_path / "model", *test_data)["corloc"] >= 0.5


def test_the_most_object_like_box_is_the_default_candidate_of_objects(data, test_data, tmp_path):
    run("train", "detect", data[0], data[1], "-o", tmp_path / "model", "--candidates", "objects", "--max-iter", 3)
    described = json.loads(run("info", tmp_path / "model", "--json").stdout)
    assert described["boxes"]["candidates"] == "objects"
    assert described["boxes"]["limit"] == 1
    assert described["n_boxes"] == described["n_examples"]
    run("predict", tmp_path / "model", test_data[0], "-o", tmp_path / "found")
    files = ImageFiles(test_data[0])
    for name, one in zip(files, predictions(tmp_path / "found"), strict=True):
        assert [one["box"]] == object_boxes(files.image(name), 1).tolist()


def test_training_begins_at_the_most_object_like_box(data, tmp_path, monkeypatch):
    calls = []
    fit_model = ModLat.fit

    def fit(self, X, Y, H=None, **further):
        calls.append(H)
        return fit_model(self, X, Y, H=H, **further)

    monkeypatch.setattr(ModLat, "fit", fit)
    run(*train(data, tmp_path, "--candidates", "objects", "--boxes", "4", "--max-iter", 2))
    assert calls == [[0] * len(calls[0])]


def test_boxes_are_not_learned_from(model, data, tmp_path):
    plain = tmp_path / "plain.csv"
    plain.write_text("file,label\n" + "".join(f"{row[0]},{row[1]}\n" for row in read_rows(data[1])))
    run(*train((data[0], plain), tmp_path))
    np.testing.assert_array_equal(load(tmp_path / "model").model_.coef_, load(model).model_.coef_)
    scores = scores_of(model, data[0], plain)
    assert (scores["n_with_boxes"], scores["corloc"], scores["overlap"]) == (0, None, None)
    assert [one["corloc"] for one in scores["classes"]] == [None, None]
    text = run("evaluate", model, data[0], plain).stdout
    assert "0 with true boxes" in text
    assert "overlap loss" not in text


def voc_folder(folder, rows, size=(WIDTH, HEIGHT)):
    folder.mkdir()
    for file, label, x0, y0, x1, y1 in rows:
        (folder / f"{file}.xml").write_text(
            f"<annotation><filename>{file}</filename><size><width>{size[0]}</width><height>{size[1]}</height></size>"
            f"<object><name>{label}</name><bndbox><xmin>{int(x0) + 1}</xmin><ymin>{int(y0) + 1}</ymin><xmax>{x1}</xmax>"
            f"<ymax>{y1}</ymax></bndbox></object></annotation>"
        )
    return folder


def coco_file(path, rows):
    write_coco(
        path,
        [ImageAnnotation(row[0], (row[1],), np.array([row[2:]], dtype=float), (row[1],)) for row in rows],
    )
    return path


def test_every_format_of_labels_says_the_same(model, data, test_data, tmp_path):
    images, labels = test_data
    rows = read_rows(labels)
    expected = scores_of(model, images, labels)
    others = voc_folder(tmp_path / "voc", rows), coco_file(tmp_path / "coco.json", rows)
    for other in others:
        found = scores_of(model, images, other)
        assert {**found, "labels": str(labels)} == expected
    for k, other in enumerate((voc_folder(tmp_path / "train", read_rows(data[1])), data[1])):
        (tmp_path / str(k)).mkdir()
        run(*train((data[0], other), tmp_path / str(k), "--max-iter", 2))
    first, second = (load(tmp_path / str(k) / "model").model_.coef_ for k in range(2))
    np.testing.assert_array_equal(first, second)


def test_several_objects_of_one_class(model, test_data, tmp_path):
    images, labels = test_data
    rows = read_rows(labels)
    more = [[*row[:2], 0, 0, 3, 3] for row in rows]
    both = write_table(tmp_path / "both.csv", rows + more)
    assert scores_of(model, images, both)["corloc"] == scores_of(model, images, labels)["corloc"]


def test_boxes_are_compared_with_the_middle(model, test_data, tmp_path):
    images, labels = test_data
    share = 0.75
    middle = [[(1 - share) / 2 * WIDTH, (1 - share) / 2 * HEIGHT, (1 + share) / 2 * WIDTH, (1 + share) / 2 * HEIGHT]]
    truth = np.array([row[2:] for row in read_rows(labels)], dtype=float)
    expected = overlaps(np.array(middle), truth)[0]
    scores = scores_of(model, images, labels)
    assert scores["middle"] == pytest.approx({"corloc": (expected >= 0.5).mean(), "mean_overlap": expected.mean()})
    assert scores["mean_overlap"] == pytest.approx(np.mean([one["mean_overlap"] for one in scores["classes"]]))
    assert scores["commonest"] == 0.5
    assert "the predictions are not better" not in run("evaluate", model, images, labels).stdout
    in_middle = write_table(tmp_path / "middle.csv", [[*row[:2], *middle[0]] for row in read_rows(labels)])
    assert "the predictions are not better" in run("evaluate", model, images, in_middle).stdout


def test_info_and_scores_as_text(model, test_data):
    text = run("info", model).stdout
    for shown in (
        "ModLat on Detection",
        "2 labels",
        "cross, diamond",
        "at most 60 per image",
        "loss of boxes  overlap",
    ):
        assert shown in text
    text = run("evaluate", model, *test_data).stdout
    for shown in ("10, 10 with true boxes", "label accuracy", "CorLoc", "0/1 loss", "overlap loss", "confusion matrix"):
        assert shown in text


# Features that are kept


def test_features_are_kept_where_asked(data, tmp_path, monkeypatch):
    from latentstruct.features.boxes import BoxFeatures

    args = ("train", "detect", data[0], data[1], "-o", tmp_path / "model", "--quiet", "--boxes", 60)
    limits = ("--max-iter", 1)
    run(*args, *limits, "--cache", tmp_path / "kept")
    assert len(list((tmp_path / "kept").rglob("*.*"))) == 16
    first = load(tmp_path / "model").model_.coef_
    monkeypatch.setattr(BoxFeatures, "_features", lambda *_: pytest.fail("computed again"))
    run(*args, *limits, "--cache", tmp_path / "kept")
    np.testing.assert_array_equal(load(tmp_path / "model").model_.coef_, first)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    run(*args, *limits)
    assert len(list((tmp_path / "user" / "latentstruct" / "boxes").rglob("*.*"))) == 16
    run(*args, *limits, "--no-cache")
    assert "--no-cache must be left out with --cache" in fail(*args, "--no-cache", "--cache", tmp_path / "kept")
    (tmp_path / "file").write_text("mine")
    assert "--cache must be a folder" in fail(*args, "--cache", tmp_path / "file")


def test_place_of_the_cache(monkeypatch, tmp_path):
    for reported in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", reported)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert choose_cache(None, no_cache=False) == tmp_path / ".cache" / "latentstruct" / "boxes"
    assert choose_cache(None, no_cache=True) is None


def test_training_goes_on_where_no_cache_can_be_made(data, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    args = ("train", "detect", data[0], data[1], "-o", tmp_path / "model", "--boxes", 60)
    result = run(*args, "--max-iter", 1)
    assert "features are not stored for the next training: " in result.stderr
    assert "--cache must be a folder" in result.stderr


# Mistakes


@pytest.fixture
def untrained(monkeypatch):
    """Let a test fail that gets as far as training."""
    monkeypatch.setattr(Training, "run", lambda *_: pytest.fail("trained before the data were checked"))


def last(*args):
    """Return all that was said and the error."""
    result = run(*args, code=2)
    lines = result.stderr.splitlines()
    assert lines[-1].startswith("error: ")
    return lines[:-1], lines[-1]


def spoil_image(images, labels):
    (images / "p3.png").write_bytes((images / "p3.png").read_bytes()[:60])


def remove_image(images, labels):
    (images / "p3.png").unlink()


def remove_label(images, labels):
    write_table(labels, [row for row in read_rows(labels) if row[0] != "p3.png"])


def add_second_label(images, labels):
    write_table(labels, [*read_rows(labels), ["p3.png", "cross", 1, 2, 10, 20]])


def move_box(images, labels):
    write_table(labels, [[*row[:2], 30, 10, 90, 20] if row[0] == "p3.png" else row for row in read_rows(labels)])


def empty_box(images, labels):
    write_table(labels, [[*row[:2], 30, 10, 30, 20] if row[0] == "p3.png" else row for row in read_rows(labels)])


BAD = (spoil_image, remove_image, remove_label, add_second_label, move_box, empty_box)


@pytest.mark.parametrize("spoil", BAD)
def test_one_bad_image_stops_the_work(spoil, copied, tmp_path, untrained):
    spoil(*copied)
    (said,), message = last(*train(copied, tmp_path))
    assert said.startswith("bad: ")
    assert "p3.png" in said
    assert message.endswith("--skip-bad.")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("spoil", BAD)
def test_one_bad_image_is_left_out(spoil, copied, model, tmp_path):
    spoil(*copied)
    result = run(*train(copied, tmp_path, "--skip-bad", "--max-iter", 1, "--json"))
    assert f"left out: {copied[0] if spoil in (spoil_image, remove_label) else copied[1]}" in result.stderr
    assert "p3.png" in result.stderr
    assert json.loads(result.stdout)["n_examples"] == 15
    assert json.loads(run("info", tmp_path / "model", "--json").stdout)["n_left_out"] == 1
    assert "p3.png" in last("evaluate", model, *copied)[0][0]
    scores = scores_of(model, *copied, "--skip-bad")
    assert (scores["n_examples"], scores["n_left_out"]) == (15, 1)


def test_many_bad_images_are_all_told(copied, tmp_path, untrained):
    images, labels = copied
    spoil_image(images, labels)
    (images / "p5.png").unlink()
    (images / "p7.png").write_bytes(b"no image")
    said, message = last(*train(copied, tmp_path))
    assert [line.split(":")[0] for line in said] == ["bad"] * 3
    assert "got 3 that cannot be used" in message
    assert "and 13 that can" in message
    for path in images.iterdir():
        path.write_bytes(b"")
    said, message = last(*train(copied, tmp_path, "--skip-bad"))
    assert len(said) == 16
    assert "expected images that can be used, got none" in message


def test_a_long_list_is_cut(data, tmp_path, untrained):
    extra = [[f"q{k}.png", "cross", "", "", "", ""] for k in range(30)]
    labels = write_table(tmp_path / "more.csv", read_rows(data[1]) + extra)
    said, message = last(*train((data[0], labels), tmp_path))
    assert len(said) == 21
    assert said[-1] == "… and 10 more"
    assert "got 30 that cannot be used" in message


def test_bad_images_in_predictions(model, copied, tmp_path):
    spoil_image(*copied)
    assert "p3.png" in last("predict", model, copied[0], "-o", tmp_path / "out")[0][0]
    assert not (tmp_path / "out").exists()
    result = run("predict", model, copied[0], "-o", tmp_path / "out", "--skip-bad")
    assert result.stderr.startswith("left out: ")
    assert len(predictions(tmp_path / "out")) == 15


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"coreference", "detect", "motif"}))
def test_other_kinds_leave_nothing_out(name):
    with raises("skip_bad", expected=f"left out for a {name} model"):
        check_answers({"skip_bad": True}, KINDS[name].answers, name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected the header file,label"),
        ("file;label\np0.png;cross\n", "expected commas"),
        ("name,label\np0.png,cross\n", "got 'name'"),
    ],
)
def test_tables_with_mistakes(content, message, data, tmp_path, untrained):
    labels = tmp_path / "labels.csv"
    labels.write_text(content)
    assert message in fail(*train((data[0], labels), tmp_path))


def test_tables_of_other_programs(data, tmp_path):
    rows = [f'"{row[0]}","{row[1]}"' for row in read_rows(data[1])]
    labels = tmp_path / "labels.csv"
    labels.write_bytes("\r\n".join(["\ufefffile,label", *rows, ""]).encode())
    result = run(*train((data[0], labels), tmp_path, "--max-iter", 1, "--json"))
    assert json.loads(result.stdout)["n_examples"] == 16


@pytest.mark.parametrize("wrong", ["Diamond", "diamnod"])
def test_labels_that_may_be_misspelt_are_told_of(wrong, data, tmp_path):
    rows = [[*row[:2], "", "", "", ""] for row in read_rows(data[1])]
    rows[1][1] = wrong
    labels = write_table(tmp_path / "l.csv", rows)
    options = [option for option in OPTIONS if option != "--quiet"]
    reported = run("train", "detect", data[0], labels, "-o", tmp_path / "m", *options, "--max-iter", 1).stderr
    assert f"of 3 labels: {wrong} 1, diamond 7, cross 8" in reported
    assert reported.count("misspelled?") == 1
    assert f"the label '{wrong}' for 1 image and 'diamond' for 7" in reported
    result = run("train", "detect", *data, "-o", tmp_path / "m", *OPTIONS, "--max-iter", 1)
    assert "misspelled" not in result.stderr


def test_labels_in_the_place_of_images(data, tmp_path, untrained):
    message = fail(*train((data[1], data[0]), tmp_path))
    assert "labels.csv: expected a folder or zip archive of images" in message
    assert "Labels come after" in message


def test_one_class_only(data, tmp_path, untrained):
    labels = write_table(tmp_path / "l.csv", [[row[0], "cross", "", "", "", ""] for row in read_rows(data[1])])
    message = fail(*train((data[0], labels), tmp_path))
    assert "expected at least 2 labels" in message
    assert "expected at least 2 labels" in message


def test_annotations_of_other_images(data, tmp_path, untrained):
    folder = voc_folder(tmp_path / "voc", read_rows(data[1]), size=(640, 480))
    said, _ = last(*train((data[0], folder), tmp_path))
    assert "got (640, 480)" in said[0]


def test_hostile_labels(data, tmp_path, untrained):
    (tmp_path / "voc").mkdir()
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><annotation><filename>&c;</filename></annotation>'
    (tmp_path / "voc" / "p0.xml").write_text(bomb)
    assert "p0.xml, line 1: " in fail(*train((data[0], tmp_path / "voc"), tmp_path))
    (tmp_path / "deep.json").write_text('{"images": ' + "[" * 100_000)
    assert "expected COCO JSON" in fail(*train((data[0], tmp_path / "deep.json"), tmp_path))


def test_places_that_do_not_exist(data, tmp_path, untrained):
    assert "none: expected" in fail(*train((tmp_path / "none", data[1]), tmp_path))
    assert "none.csv: expected" in fail(*train((data[0], tmp_path / "none.csv"), tmp_path))
    assert "got no images" in fail(*train((tmp_path, data[1]), tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-C", 0), "-C must be"),
        (("--model", "latent", "--loss", "overlap"), "--loss must be left out for --model"),
    ],
)
def test_bad_options(data, tmp_path, options, message):
    assert message in fail(*train(data, tmp_path, *options))
    assert not (tmp_path / "model").exists()


def test_held_out_data_are_checked_before_training(data, copied, tmp_path, untrained):
    images, labels = copied
    write_table(labels, [[row[0], "stars", *row[2:]] if row[0] == "p3.png" else row for row in read_rows(labels)])
    assert "expected a label of the model" in fail(
        *train(data, tmp_path, "--valid", copied[0], "--valid-labels", copied[1])
    )
    spoil_image(images, labels)
    assert "expected images and labels" in fail(
        *train(data, tmp_path, "--valid", copied[0], "--valid-labels", copied[1])
    )


def test_labels_a_model_does_not_know(model, copied):
    images, labels = copied
    write_table(labels, [[row[0], "stars", *row[2:]] if row[0] == "p3.png" else row for row in read_rows(labels)])
    assert "expected a label of the model" in fail("evaluate", model, images, labels)
    scores = scores_of(model, images, labels, "--allow-unknown")
    (stars,) = (one for one in scores["classes"] if one["label"] == "stars")
    assert (stars["n_true"], stars["n_predicted"], stars["accuracy"]) == (1, 0, 0.0)


def test_places_of_predictions_are_checked(model, test_data, tmp_path):
    images, labels = test_data
    assert "--output must be a folder" in fail("predict", model, images)
    assert "--output must be a new or empty" in fail("predict", model, images, "-o", images)
    assert "--pictures must be a new or empty" in fail("evaluate", model, images, labels, "--pictures", images)
    (tmp_path / "file").write_text("mine")
    assert "is a file" in fail("predict", model, images, "-o", tmp_path / "file")
    assert "LABELS must be given if DATA" in fail("evaluate", model, images)
    assert "--sites must be left out for a" in fail("evaluate", model, images, labels, "--sites", "x")


@pytest.mark.parametrize(
    ("field", "value"), [("features", {}), ("n_boxes", "x"), ("kind", "segment"), ("features", {"window": 3})]
)
def test_damaged_record(field, value, model, test_data, tmp_path):
    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = json.loads((tmp_path / "model.json").read_text())
    content["extra"][field] = value
    (tmp_path / "model.json").write_text(json.dumps(content))
    message = fail("evaluate", tmp_path, *test_data)
    assert "expected a complete model" in message
    assert message.count("Train again") == 1


def test_features_of_another_model(model, test_data, tmp_path):
    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = json.loads((tmp_path / "model.json").read_text())
    content["extra"]["features"]["window"] *= 2
    (tmp_path / "model.json").write_text(json.dumps(content))
    assert "its features do not belong to its weights" in fail("evaluate", tmp_path, *test_data)


# Pictures


@given(st.data())
def test_frames_stay_inside_their_boxes(data):
    height, width = data.draw(st.tuples(st.integers(1, 60), st.integers(1, 60)))
    x0, y0 = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    x1, y1 = data.draw(st.integers(x0 + 1, width)), data.draw(st.integers(y0 + 1, height))
    image = np.full((height, width, 3), 7, np.uint8)
    picture = draw_boxes(image, [[x0, y0, x1, y1]], colors=[(200, 0, 0)], true_boxes=np.empty((0, 4)))
    assert picture.shape == image.shape
    changed = np.argwhere((picture != 7).any(axis=2))
    assert changed.min(axis=0).tolist() == [y0, x0]
    assert changed.max(axis=0).tolist() == [y1 - 1, x1 - 1]
    assert (image == 7).all()


def test_colors_and_captions():
    image = np.full((150, 200, 3), 90, np.uint8)
    box, truth = [20, 40, 90, 120], [100, 10, 180, 80]
    picture = draw_boxes(image, [box], ["raccoon 1.2"], [(200, 30, 30)], [truth])
    assert picture[80, 21].tolist() == [200, 30, 30]
    assert picture[40, 101].tolist() == [255, 255, 255]
    assert (picture[:40] == (200, 30, 30)).all(axis=2).any()
    # At the upper border the caption goes inside, and at the right one to the left.
    inside = draw_boxes(image, [[150, 0, 200, 100]], ["a long caption"], [(200, 30, 30)])
    assert (inside[:10, 100:150] == (200, 30, 30)).all(axis=2).any()
    np.testing.assert_array_equal(draw_boxes(image, np.empty((0, 4))), image)


def test_pictures_of_what_cannot_be_drawn():
    image = np.zeros((10, 10, 3), np.uint8)
    with raises("image", got="float64 of shape (10, 10, 3)", expected="uint8 of shape (height, width, 3)"):
        draw_boxes(image.astype(float), [[0, 0, 5, 5]])
    with raises("captions", got="2 captions", expected="a sequence of 1 captions"):
        draw_boxes(image, [[0, 0, 5, 5]], ["a", "b"])


def test_pictures_are_small_files(model, tmp_path):
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (90, 120, 3), dtype=np.uint8)).save(tmp_path / "a.jpg")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("predict", model, tmp_path / "a.jpg", "-o", tmp_path / "out")
    assert os.listdir(tmp_path / "out" / "pictures") == ["a.jpg"]


def test_geometry_and_saliency_may_be_left_out(data, tmp_path):
    run(*train(data, tmp_path, "--geometry", "0", "--saliency", "0"))
    assert load(tmp_path / "model").model_.task_.n_inputs_ == 324
    for name in ("geometry", "saliency"):
        assert name in run(*train(data, tmp_path, f"--{name}", "-1"), code=2).stderr


def test_training_begins_at_salient_boxes(data, tmp_path, monkeypatch):
    calls = []

    def fit(self, X, Y, H=None, **further):
        calls.append((X, H))
        return fit_model(self, X, Y, H=H, **further)

    fit_model = ModLat.fit
    monkeypatch.setattr(ModLat, "fit", fit)
    run(*train(data, tmp_path, "--max-iter", 2))
    ((X, H),) = calls
    assert [int(x.features[:, -1].argmax()) for x in X] == H
    assert json.loads(run("info", tmp_path / "model", "--json").stdout)["boxes"]["saliency"] == 1.0
    run(*train(data, tmp_path, "--max-iter", 2, "--saliency", 0))
    assert calls[1][1] is None


# Features that are given


def give(images, labels, as_map):
    """Write features beside images that show the object: rows of four boxes, or a map of its place and label."""
    for name, label, *box in read_rows(labels):
        x0, y0, x1, y1 = map(int, box)
        shown = np.eye(2)[int(label == "cross")]
        if as_map:
            values = np.full((HEIGHT, WIDTH, 2), 0.01)
            values[y0:y1, x0:x1] = 1.0
            values[y0:y1, x0:x1] *= shown
            arrays = {"map": values}
        else:
            boxes = np.array([[0, 0, WIDTH, HEIGHT], [0, 0, 9, 9], [x0, y0, x1, y1], [9, 9, 20, 20]])
            arrays = {"boxes": boxes, "features": np.outer([0.1, 0, 2, 0], shown)}
        np.savez(images / f"{Path(name).stem}.npz", **arrays)


@pytest.mark.parametrize("as_map", [False, True])
def test_given_features(as_map, data, test_data, tmp_path):
    for folder in (data, test_data):
        give(*folder, as_map)
    try:
        run(*train(data, tmp_path, "--features", "given", "--report", tmp_path / "report.html"))
        model = tmp_path / "model"
        assert load(model).model_.task_.n_inputs_ == 2 + 14 + 8
        assert "2 given ones" in (tmp_path / "report.html").read_text()
        scores = scores_of(model, *test_data)
        assert scores["accuracy"] == 1.0
        assert scores["corloc"] == 1.0 or as_map
        run("predict", model, test_data[0], "-o", tmp_path / "found")
        assert len(predictions(tmp_path / "found")) == 10
    finally:
        for path in [*data[0].glob("*.npz"), *test_data[0].glob("*.npz")]:
            path.unlink()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (None, "no file p0.npz beside it"),
        ({"features": np.zeros((4, 2))}, "features of shape (4, 2)"),
        ({"boxes": np.zeros((4, 4))}, "boxes of shape (4, 4)"),
        ({"map": np.zeros((4, 4))}, "map of shape (4, 4)"),
        ({"map": np.zeros((4, 4, 0))}, "map of shape (4, 4, 0)"),
        ({"map": np.zeros((4, 4, 1)), "features": np.zeros((4, 2))}, "features of shape (4, 2)"),
        ({"other": np.zeros(3)}, "arrays of other names"),
        (b"PK no archive", "another file"),
    ],
)
def test_given_features_that_cannot_be_read(arrays, message, copied, tmp_path, untrained):
    if isinstance(arrays, bytes):
        (copied[0] / "p0.npz").write_bytes(arrays)
    elif arrays is not None:
        np.savez(copied[0] / "p0.npz", **arrays)
    failed = fail(*train(copied, tmp_path, "--features", "given"))
    assert message in failed
    assert "boxes and features, or map" in failed
