import json
import warnings

import numpy as np
import pytest
from PIL import Image

from command import fail, run
from latentstruct import MarginalSSVM, load
from latentstruct.cli.run import Training
from latentstruct.data.images import ImageFiles
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.features.images import spread_patches
from pictures import COLORS, encode, pack, write_pictures

OPTIONS = ("--words", 20, "--patch", 16, "--step", 8, "--quiet")


def colorful(labels):
    """Return a label image with colors; unknown pixels are white."""
    table = np.vstack([[255, 255, 255], COLORS]).astype(np.uint8)
    return encode(table[labels])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("train"), 14, 0)


@pytest.fixture(scope="module")
def test_data(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("test"), 5, 1, share=0.1)


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    names = folder / "names.txt"
    names.write_text("1 ground\n\n2\tthe sky\n3 box\n9 nothing\n")
    run("train", "segment", *data, "-o", folder / "model", "--names", names, *OPTIONS)
    return folder / "model"


def scores_of(model, images, labels, *options):
    return json.loads(run("evaluate", model, images, labels, "--json", *options).stdout)


def test_training_prediction_and_evaluation(model, test_data, tmp_path):
    images, labels = test_data
    scores = scores_of(model, images, labels)
    assert (scores["kind"], scores["data"], scores["labels"]) == ("segment", str(images), str(labels))
    assert [one["name"] for one in scores["classes"]] == ["ground", "the sky", "box"]
    assert scores["accuracy"] > 0.75
    out = tmp_path / "new" / "out"
    run("predict", model, images, "-o", out)
    files, truths, guesses = ImageFiles(images), ImageFiles(labels), ImageFiles(out)
    assert guesses.names == files.names == ImageFiles(out / "overlays").names
    counts = np.zeros((4, 4), int)
    for name in files:
        truth, guess = truths.labels(name), guesses.labels(name)
        assert guess.shape == files.image(name).shape[:2]
        np.add.at(counts, (truth, guess), 1)
        picture = ImageFiles(out / "overlays").image(name)
        assert picture.shape[0] > guess.shape[0]
        assert picture.shape[1] == guess.shape[1]
    # What was written is what was judged.
    known = counts[1:]
    assert known[:, 0].sum() == 0
    right = np.diagonal(counts)[1:]
    assert scores["n_pixels"] == known.sum()
    assert scores["n_unknown_pixels"] == counts[0].sum()
    assert scores["accuracy"] == pytest.approx(right.sum() / known.sum())
    union = known.sum(axis=1) + known[:, 1:].sum(axis=0) - right
    assert [one["iou"] for one in scores["classes"]] == pytest.approx((right / union).tolist())
    assert [one["accuracy"] for one in scores["classes"]] == pytest.approx((right / known.sum(axis=1)).tolist())
    assert scores["mean_iou"] == pytest.approx((right / union).mean())
    legend = [line.split("\t") for line in (out / "legend.tsv").read_text().splitlines()]
    assert [line[:2] for line in legend[1:]] == [["1", "ground"], ["2", "the sky"], ["3", "box"]]
    assert [int(line[3]) for line in legend[1:]] == counts[:, 1:].sum(axis=0).tolist()
    with Image.open(out / "p0.png") as image:
        assert image.mode == "P"
        palette = np.array(image.getpalette()).reshape(-1, 3)
    for label, _, color, _ in legend[1:]:
        assert "#{:02x}{:02x}{:02x}".format(*palette[int(label)]) == color


def test_predictions_are_those_of_the_model(model, test_data, tmp_path):
    from latentstruct.cli.kinds.segment.files import make_graphs
    from latentstruct.features.images import PatchFeatures

    run("predict", model, test_data[0], "-o", tmp_path / "out")
    features = PatchFeatures.from_state(json.loads((model / "model.json").read_text())["extra"]["features"])
    files = ImageFiles(test_data[0])
    pictures = [files.image(name) for name in files]
    predicted = load(model).predict(make_graphs(features.transform(pictures)))
    for name, picture, labels in zip(files, pictures, predicted, strict=True):
        expected = spread_patches(labels, picture.shape[:2], 16, 8)
        np.testing.assert_array_equal(ImageFiles(tmp_path / "out").labels(name), expected)


def test_archives_and_single_images(model, test_data, tmp_path):
    images, labels = (pack(folder, tmp_path / f"{folder.name}.zip") for folder in test_data)
    assert scores_of(model, images, labels)["accuracy"] == scores_of(model, *test_data)["accuracy"]
    run("predict", model, test_data[0] / "p1.png", "-o", tmp_path / "one")
    run("predict", model, images, "-o", tmp_path / "all")
    assert (tmp_path / "one" / "p1.png").read_bytes() == (tmp_path / "all" / "p1.png").read_bytes()
    # A folder that holds earlier predictions may be written again.
    run("predict", model, images, "-o", tmp_path / "one")
    assert ImageFiles(tmp_path / "one").names == ImageFiles(tmp_path / "all").names


@pytest.mark.parametrize("kind", ["marginal", "latent", "crf"])
def test_labels_as_colors(kind, tmp_path, test_data):
    images, labels = write_pictures(tmp_path, 6, 3, as_labels=colorful)
    out, estimators = tmp_path / "model", {"marginal": "MarginalSSVM", "latent": "LatentSSVM", "crf": "HiddenCRF"}
    args = ("train", "segment", images, labels, "--unknown", "#FFFFFF", "-o", out, "--model", kind, "--max-iter", 4)
    result = json.loads(run(*args, *OPTIONS, "--json", "--valid", images, "--valid-labels", labels).stdout)
    assert result["estimator"] == estimators[kind]
    assert result["latent"]
    names = ["#{:02x}{:02x}{:02x}".format(*color) for color in COLORS]
    assert sorted(one["label"] for one in result["valid"]["classes"]) == sorted(names)
    assert result["valid"]["accuracy"] > 0.7
    run("predict", out, images, "-o", tmp_path / "out")
    # Predictions can be read as labels, and the model agrees with itself.
    assert scores_of(out, images, tmp_path / "out")["accuracy"] == 1.0
    assert "expected colors, as in the other label images, got grays" in fail("evaluate", out, *test_data)


def test_all_pixels_known(tmp_path):
    images, labels = write_pictures(tmp_path, 4, 5, share=0.0)
    for unknown in (("--unknown", "none"), ()):
        args = ("train", "segment", images, labels, "-o", tmp_path / "m", *unknown, "--max-iter", 2)
        assert json.loads(run(*args, *OPTIONS, "--json").stdout)["latent"] is False


def test_info(model):
    text = run("info", model, "--top", 3).stdout
    for shown in ("MarginalSSVM on Graph", "16 × 16 pixels every 8, 20 texture words", "ground, the sky, box"):
        assert shown in text
    result = json.loads(run("info", model, "--json").stdout)
    assert (result["patch"], result["step"], result["n_words"], result["n_features"]) == (16, 8, 20, 68)
    assert len(result["weights"]) == 10
    task_weights = load(model).task_.node_weights(load(model).coef_)
    assert abs(result["weights"][0]["weight"]) == pytest.approx(np.abs(task_weights).max())


def test_scores_as_text(model, test_data):
    text = run("evaluate", model, *test_data).stdout
    for shown in ("known, ", "standard error", "intersection over union", "the sky", "overlap"):
        assert shown in text


# Mistakes


def copy(data, tmp_path):
    folders = []
    for folder in data:
        target = tmp_path / folder.name
        target.mkdir()
        for path in folder.iterdir():
            (target / path.name).write_bytes(path.read_bytes())
        folders.append(target)
    return folders


def test_pictures_that_do_not_fit(data, tmp_path):
    images, labels = copy(data, tmp_path)
    args = ("train", "segment", images, labels, "-o", tmp_path / "model", *OPTIONS)
    whole = (labels / "p3.png").read_bytes()
    (labels / "p3.png").write_bytes(whole[:50])
    assert "p3.png: expected a complete PNG" in fail(*args)
    (labels / "p3.png").write_bytes(encode(np.ones((20, 30), np.uint8)))
    message = fail(*args)
    assert "expected 64 × 48 as" in message
    (labels / "p3.png").write_bytes(colorful(np.zeros((48, 64), int)))
    assert "p3.png: expected a palette or grays" in fail(*args)
    (labels / "p3.png").unlink()
    assert "expected a label image 'p3' in" in fail(*args)
    (images / "p3.png").unlink()
    (labels / "other.png").write_bytes(whole)
    assert "expected an image 'other' in" in fail(*args)
    (labels / "other.png").unlink()
    for folder in (images, labels):
        (folder / "small.png").write_bytes(encode(np.ones((10, 30) + ((3,) if folder == images else ()), np.uint8)))
    assert "expected at least 16 on each" in fail(*args)
    assert not (tmp_path / "model").exists()


def test_labels_that_tell_nothing(tmp_path):
    images, labels = write_pictures(tmp_path, 3, 0, as_labels=lambda labels: encode(np.zeros_like(labels)))
    args = ("train", "segment", images, labels, "-o", tmp_path / "model", *OPTIONS)
    assert "expected at least 2 different labels" in fail(*args)
    assert "expected at least 2 different labels" in fail(*args, "--unknown", "none")
    noise = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    for path in labels.iterdir():
        path.write_bytes(encode(noise))
    assert "expected few different labels, each of" in fail(*args)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--unknown", "#000000"),
            "--unknown must be an integer from 0 to 255, as are the labels of {labels}",
        ),
        (("--unknown", "red"), "--unknown must be an integer from 0"),
        (("--patch", 18), "patch"),
        (("--step", 3), "step"),
        (("-C", 0), "-C must be"),
    ],
)
def test_bad_options(data, tmp_path, options, message):
    args = ("train", "segment", *data, "-o", tmp_path / "model", *OPTIONS, *options)
    assert message.format(labels=data[1]) in fail(*args)
    assert not (tmp_path / "model").exists()


def test_bad_names(data, tmp_path):
    names = tmp_path / "names.txt"
    for text, message in (("1 a\nx b\n", "names.txt, line 2: "), ("1\n", "names.txt, line 1: ")):
        names.write_text(text)
        assert message in fail("train", "segment", *data, "-o", tmp_path / "model", "--names", names, *OPTIONS)


def test_places_of_predictions_are_checked(model, test_data, tmp_path):
    images, labels = test_data
    assert "--output must be a folder" in fail("predict", model, images)
    before = (labels / "p0.png").read_bytes()
    for folder in (labels, images):
        assert "--output must be a new or empty folder" in fail("predict", model, images, "-o", folder)
    assert (labels / "p0.png").read_bytes() == before
    (tmp_path / "file").write_text("mine")
    assert "is a file" in fail("predict", model, images, "-o", tmp_path / "file")
    assert "none: expected" in fail("predict", model, tmp_path / "none", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_evaluation_needs_labels(model, test_data, tmp_path):
    assert "LABELS must be given" in fail("evaluate", model, test_data[0])
    assert "--positive must be left out for a segment model" in fail("evaluate", model, *test_data, "--positive", "x")
    images, labels = write_pictures(tmp_path, 2, 0, as_labels=lambda labels: encode(labels * 2))
    assert "expected a label of the model (1, 2, 3), got '4'" in fail("evaluate", model, images, labels)
    scores = scores_of(model, images, labels, "--allow-unknown")
    new = {one["label"]: one for one in scores["classes"]}
    assert new["4"]["accuracy"] == 0.0
    assert new["4"]["n_true"] > 0
    for path in labels.iterdir():
        path.write_bytes(encode(np.zeros((48, 64), np.uint8)))
    assert "expected labeled pixels" in fail("evaluate", model, images, labels)


def test_unknown_label_that_is_nowhere(tmp_path):
    images, labels = write_pictures(tmp_path, 3, 0, as_labels=lambda labels: encode(labels * 5))
    message = fail("train", "segment", images, labels, "-o", tmp_path / "model", *OPTIONS, "--unknown", "7")
    assert f"--unknown must be a label of {labels} (0, 5, 10, 15)" in message
    assert not (tmp_path / "model").exists()


def test_color_of_a_palette_as_unknown(tmp_path):
    palette = [9, 9, 9, *(10, 20, 30), *(0, 0, 0), *(200, 0, 0), *(0, 0, 0)]
    images, labels = write_pictures(tmp_path, 3, 0, as_labels=lambda labels: encode(labels + 1, palette=palette))
    args = ("train", "segment", images, labels, "-o", tmp_path / "model", *OPTIONS, "--unknown")
    # Black is both 2 and 4; all of 1 to 4 occur.
    assert f"in the palette of {labels / 'p0.png'} is 2" in fail(*args, "#000000")
    assert f"#123456 is not in the palette of {labels / 'p0.png'}" in fail(*args, "#123456")
    assert "--unknown must be an integer from 0" in fail(*args, "#090909")


@pytest.mark.parametrize("case", ["unknown", "colors", "size", "label"])
def test_held_out_data_are_checked_before_training(case, data, tmp_path, monkeypatch):
    as_labels, message = {
        "unknown": (lambda labels: encode(np.zeros_like(labels)), "expected labeled pixels"),
        "colors": (colorful, "expected a palette or grays"),
        "size": (lambda labels: encode(labels[1:]), "expected 64 × 48 as"),
        "label": (lambda labels: encode(labels * 5), "expected a label of the model"),
    }[case]
    images, labels = write_pictures(tmp_path, 2, 1, as_labels=as_labels)
    monkeypatch.setattr(Training, "run", lambda *_: pytest.fail("trained before the held-out data were checked"))
    args = ("train", "segment", *data, "-o", tmp_path / "model", *OPTIONS, "--valid", images, "--valid-labels", labels)
    assert message in fail(*args)


def test_names_of_labels_the_model_does_not_know(data, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("1 ground\n10 tower\n5 sea\n")
    args = ("train", "segment", *data, "-o", tmp_path / "model", "--names", names, *OPTIONS, "--max-iter", 1)
    run(*args)
    table = np.array([0, 1, 10, 5], np.uint8)
    images, labels = write_pictures(tmp_path, 3, 1, as_labels=lambda labels: encode(table[labels]))
    shown = [
        (one["label"], one["name"])
        for one in scores_of(tmp_path / "model", images, labels, "--allow-unknown")["classes"]
    ]
    assert shown == [("1", "ground"), ("2", "2"), ("3", "3"), ("5", "sea"), ("10", "tower")]


def test_only_limits_that_were_asked_for_are_warned_of(data, tmp_path, monkeypatch):
    def fit(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self.stop_reason_ = "stalled"
        warnings.warn("training stopped early (stalled) after 1 iterations", ConvergenceWarning, stacklevel=2)

    args = ("train", "segment", *data, "-o", tmp_path / "model", *OPTIONS, "--max-iter", 1)
    assert "warning: training stopped early (max_iter) after 1" in run(*args).stderr
    original = MarginalSSVM.fit
    monkeypatch.setattr(MarginalSSVM, "fit", fit)
    result = run(*args)
    assert "(stalled)" not in result.stderr
    assert "no step decreases the objective further" in result.stdout


def test_default_training_ends_by_itself(model):
    assert load(model).stop_reason_ in ("converged", "stalled")


def test_seconds_are_checked_between_iterations():
    assert "checked between iterations" in " ".join(run("train", "segment", "--help").stdout.replace("│", " ").split())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("labels", [1, 2]),
        ("labels", []),
        ("names", ["a"]),
        ("features", {}),
        ("unknown", "x"),
        ("kind", "rank"),
    ],
)
def test_damaged_record(field, value, model, test_data, tmp_path):
    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = json.loads((tmp_path / "model.json").read_text())
    content["extra"][field] = value
    (tmp_path / "model.json").write_text(json.dumps(content))
    assert "expected a complete model" in fail("evaluate", tmp_path, *test_data)


def test_features_of_another_model(model, test_data, tmp_path):
    from latentstruct.features.images import PatchFeatures

    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = json.loads((tmp_path / "model.json").read_text())
    files = ImageFiles(test_data[0])
    content["extra"]["features"] = PatchFeatures(16, 8, 5).fit([files.image(name) for name in files]).to_state()
    (tmp_path / "model.json").write_text(json.dumps(content))
    assert "its features do not belong to its weights" in fail("evaluate", tmp_path, *test_data)
