"""What the command for detection reads and writes: nothing is passed over, and nothing is lost, without a word."""

import json
import os
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_boxes import noise
from test_cli_detect import OPTIONS, predictions, read_rows, scores_of, train, write_photographs, write_table

from command import fail, run
from latentstruct.cli.kinds.detect import findings as detect
from latentstruct.data.images import ImageFiles
from pictures import encode, pack


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_photographs(tmp_path_factory.mktemp("data"), 10, 3)


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    run("train", "detect", data[0], data[1], "-o", folder, *OPTIONS, "--max-iter", 2)
    return folder


def contents(folder):
    """Return all files with their contents."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def some_of(images, folder, *numbers):
    folder.mkdir()
    for k in numbers:
        shutil.copy(images / f"p{k}.png", folder)
    return folder


@contextmanager
def interrupted_after(n, monkeypatch):
    """Send Ctrl-C when a number of pictures are drawn."""
    drawn, draw = [], detect.draw_finding

    def drawing(*args):
        draw(*args)
        drawn.append(args)
        if len(drawn) == n:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(detect, "draw_finding", drawing)
            yield
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("place", ["out", "new/out", "empty", "earlier"])
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_an_interrupt_leaves_what_was_there(command, place, model, data, tmp_path, monkeypatch):
    out = tmp_path / place
    args = ("predict", model, data[0], "-o", out) if command == "predict" else (
        "evaluate", model, *data, "--pictures", out
    )  # fmt: skip
    if place == "empty":
        out.mkdir()
    if place == "earlier":
        few = some_of(data[0], tmp_path / "few", 1, 2)
        labels = write_table(tmp_path / "few.csv", read_rows(data[1])[1:3])
        run(*(str(arg).replace(str(data[0]), str(few)).replace(str(data[1]), str(labels)) for arg in args))
    before, folders = contents(tmp_path), sorted(tmp_path.rglob("*"))
    with interrupted_after(3, monkeypatch):
        result = run(*args, code=130)
    assert result.stderr == "interrupted: nothing was written\n"
    assert contents(tmp_path) == before
    assert sorted(tmp_path.rglob("*")) == folders
    assert f"to {out}" in run(*args).stderr
    assert len(ImageFiles(out / "pictures" if command == "predict" else out)) == 10


def test_an_interrupt_does_not_part_the_results(model, data, tmp_path, monkeypatch):
    out, replace = tmp_path / "out", os.replace

    def replacing(source, target):
        # A result that is put in place, not a file that is written before.
        if not Path(source).name.startswith(".latentstruct-"):
            os.kill(os.getpid(), signal.SIGINT)
        replace(source, target)

    monkeypatch.setattr(detect.os, "replace", replacing)
    with interrupted_after(99, monkeypatch):
        run("predict", model, data[0], "-o", out)
    assert len(contents(out)) == 12


def test_a_failure_leaves_what_was_there(model, data, tmp_path, monkeypatch):
    out = tmp_path / "out"
    run("predict", model, some_of(data[0], tmp_path / "few", 1, 2), "-o", out)
    before = contents(out)
    monkeypatch.setattr(detect, "draw_finding", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    assert "No space left" in fail("predict", model, data[0], "-o", out)
    assert contents(out) == before


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_pictures_of_an_earlier_run_are_removed(command, model, data, tmp_path):
    out, few = tmp_path / "out", some_of(data[0], tmp_path / "few", 1, 2)
    labels = write_table(tmp_path / "few.csv", read_rows(data[1])[1:3])
    pictures = out / "pictures" if command == "predict" else out
    for images, table, n in ((*data, 10), (few, labels, 2)):
        args = (images, "-o", out) if command == "predict" else (images, table, "--pictures", out)
        assert f"of {n} images" in run(command, model, *args).stderr
        assert len(ImageFiles(pictures)) == n + (n == 2)
        (pictures / "mine.jpg").write_bytes(b"not of the command")
    assert {"p1.jpg", "p2.jpg", "mine.jpg"} <= set(os.listdir(pictures))


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b'{"images": 3}', b'{"images": [{"x": 1}]}', b'{"images": [{"file": "a\\u0000b"}]}',
     b'{"images": [{"file": "../../keep.png"}, {"file": "' + b"a" * 300 + b'"}]}'],
)  # fmt: skip
def test_odd_earlier_predictions(content, model, data, tmp_path):
    out = tmp_path / "out"
    (out / "pictures").mkdir(parents=True)
    (out / "predictions.json").write_bytes(content)
    (tmp_path / "keep.jpg").write_bytes(b"mine")
    run("predict", model, some_of(data[0], tmp_path / "few", 1), "-o", out)
    assert [one["file"] for one in predictions(out)] == ["p1.png"]
    assert (tmp_path / "keep.jpg").exists()


def test_a_file_in_the_place_of_the_pictures(model, data, tmp_path):
    run("predict", model, data[0] / "p1.png", "-o", tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "pictures")
    (tmp_path / "out" / "pictures").write_text("mine")
    message = fail("predict", model, data[0], "-o", tmp_path / "out")
    assert "--output must be a folder without a" in message
    assert "--output must be a folder without a" in message


# Images of other types


NOT_READ = "q.tif has an unsupported type"


@pytest.fixture(params=["folder", "zip"])
def with_others(request, data, tmp_path):
    """Return images of which one has no type that is read, and their labels."""
    images = tmp_path / "images"
    shutil.copytree(data[0], images)
    (images / "q.tif").write_bytes(encode(noise(), "TIFF"))
    (images / "notes.txt").write_text("not an image")
    (images / "p1.tif").write_bytes(encode(noise(), "TIFF"))
    labels = write_table(tmp_path / "labels.csv", [*read_rows(data[1]), ["q.tif", "cross", "", "", "", ""]])
    if request.param == "folder":
        return images, labels
    return pack(images, tmp_path / "images.zip"), labels


def test_labeled_images_of_other_types_are_bad(with_others, data, model, tmp_path):
    images, labels = with_others
    for table in (labels, data[1]):
        shown = run(*train((images, table), tmp_path), code=2).stderr
        assert NOT_READ in shown
        assert (f"{labels}:" in shown) == (table == labels)
        assert "--skip-bad" in shown.splitlines()[-1]
        result = run(*train((images, table), tmp_path, "--skip-bad", "--max-iter", 1, "--json"))
        assert result.stderr.startswith("left out: ")
        assert NOT_READ in result.stderr
        assert json.loads(result.stdout)["n_examples"] == 10
        assert scores_of(model, images, table, "--skip-bad")["n_left_out"] == 1


def test_images_of_other_types_are_told_of(with_others, model, tmp_path):
    said = run("predict", model, with_others[0], "-o", tmp_path / "out").stderr.splitlines()
    assert said[0].startswith("left out: ")
    assert NOT_READ in said[0]
    assert len(predictions(tmp_path / "out")) == 10


def test_several_images_of_other_types(data, model, tmp_path):
    images = some_of(data[0], tmp_path / "images", 1)
    for name in ("a.webp", "q.tif", "r.HEIC"):
        (images / name).write_bytes(b"")
    assert "a.webp has an unsupported type" in run("predict", model, images, "-o", tmp_path / "o").stderr
    assert "(the first of 3 such files)" in run("predict", model, images, "-o", tmp_path / "o").stderr
    (images / "p1.png").unlink()
    assert "expected images" in fail("predict", model, images, "-o", tmp_path / "none")
    message = fail("predict", model, images / "a.webp", "-o", tmp_path / "none")
    assert message.startswith(f"error: {images / 'a.webp'}: expected")
    for path in images.iterdir():
        path.unlink()
    some_of(data[0], images / "inner", 1)
    assert "subfolders are not read" in fail("predict", model, images, "-o", tmp_path / "none")


# Numbers


@pytest.mark.parametrize(
    "options",
    [("-C", 0), ("-C", "nan"), ("-C", "inf"), ("--tol", "nan"), ("--tol", 0), ("--max-iter", 0),
     ("--max-seconds", -1), ("--max-seconds", "nan")],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["detect", "segment", "rank", "coreference"])
def test_numbers_are_checked_before_anything_is_read(kind, options, tmp_path):
    # What is to be read is missing, which would give another error.
    files = [tmp_path / "none", *{"detect": ["none"], "segment": ["none"]}.get(kind, [])]
    message = fail("train", kind, *files, "-o", tmp_path / "model", *options)
    assert f"{options[0]} must be a" in message
    assert "above 0, got " in message
