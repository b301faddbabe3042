"""`latentstruct tasks`, `latentstruct example`, and data of several kinds in one file or on standard input."""

import io
import json
import os
import re
import subprocess
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import HANGS, fail, run, start
from error_fields import raises
from latentstruct.cli.registry import KINDS
from latentstruct.cli.tasks import find_guide, list_guides, make_example
from latentstruct.data.images import ImageFiles
from latentstruct.exceptions import FormatError
from latentstruct.io import file_sources, read_classes
from latentstruct.io.boxes import parse_label_table, read_label_table
from latentstruct.io.fasta import LABEL_TEXTS, read_labeled_fasta
from latentstruct.io.file_sources import FileSource
from pictures import encode

NAMES = [*KINDS, "infer"]
PIXELS = np.zeros((24, 30, 3), np.uint8)


# The commands


def test_tasks_are_listed_with_files_to_try_them():
    files = [guide.example_file for guide in list_guides()]
    assert [file.partition(".")[0] for file in files] == NAMES
    text = run("tasks").stdout
    reported = json.loads(run("tasks", "--json").stdout)["tasks"]
    assert [one["name"] for one in reported] == NAMES
    for one in reported:
        assert all(one[key] for key in ("summary", "latent", "reads"))
        assert text.count(f"latentstruct example {one['name']} > {one['example_file']}\n") >= 1
        assert one["commands"][1] in text
    assert json.loads(run("tasks", "motif", "--json").stdout) == reported[NAMES.index("motif")]


@pytest.mark.parametrize("name", NAMES)
def test_one_task_is_shown_in_full(name):
    text, guide = run("tasks", name).stdout, find_guide(name)
    assert all(f"  {command}\n" in text for command in guide.commands)
    begins = text.partition(f"{guide.example_file} {'holds' if guide.packed else 'begins'}:\n")[2].splitlines()
    assert 2 <= len(begins) <= 9
    if not guide.packed:
        first = make_example(name).decode().partition("\n")[0].expandtabs(4)
        assert begins[0] == f"  {first}" or (begins[0].endswith("…") and first.startswith(begins[0][2:-1]))


@pytest.mark.parametrize("name", NAMES)
def test_examples_depend_on_the_seed_only(name, tmp_path):
    run("example", name, "-o", tmp_path / "file")
    first = (tmp_path / "file").read_bytes()
    assert first == run("example", name, "--seed", 0).stdout_bytes
    other = run("example", name, "--seed", 1).stdout_bytes
    assert other != first
    assert 0.5 < len(other) / len(first) < 2


def test_the_example_of_inference_can_be_answered(tmp_path):
    for command in find_guide("infer").commands[1:]:
        words = command.replace("infer.uai", str(tmp_path / "infer.uai")).replace("infer.MAR", str(tmp_path / "MAR"))
        run("example", "infer", "-o", tmp_path / "infer.uai")
        run(*words.split()[1:])
    chances = [float(word) for word in (tmp_path / "MAR").read_text().split()[2:]]
    assert len(chances) == 48
    assert min(chances) > 0


def test_mistakes_are_explained(tmp_path):
    for command in ("tasks", "example"):
        assert "TASK must be one of chain, segments" in fail(command, "motive")
    assert "--output must be a file" in fail("example", "chain", "-o", tmp_path)
    assert "No such file" in fail("example", "chain", "-o", tmp_path / "no" / "file")


def test_an_archive_is_not_shown_on_a_terminal():
    terminal, child = os.openpty()
    process = start("example", "detect", stdout=child, stderr=subprocess.PIPE, text=True)
    os.close(child)
    _, reported = process.communicate(timeout=HANGS)
    os.close(terminal)
    assert process.returncode == 2
    assert "latentstruct example detect > detect.zip" in reported


# Labels in the headers of FASTA


def fasta(*headers):
    return "".join(f">{header}\nACGTTGCAACGTTT\n" for header in headers)


@given(st.lists(st.tuples(st.sampled_from(sorted(LABEL_TEXTS)), st.booleans(), st.booleans()), min_size=1))
def test_labels_are_read_wherever_they_stand(tmp_path_factory, drawn):
    path = tmp_path_factory.mktemp("fasta") / "data.fa"
    words = [f"{'of yeast ' if before else ''}label={text}{' chr 1' if after else ''}" for text, before, after in drawn]
    path.write_text(fasta(*(f"s{k} {word}" for k, word in enumerate(words))))
    sequences, labels = read_labeled_fasta(path)
    assert sequences.names == [f"s{k}" for k in range(len(drawn))]
    assert labels == [-1 if text.startswith(("-", "neg")) else 1 for text, _, _ in drawn]


@pytest.mark.parametrize(
    ("headers", "line", "expected"),
    [
        (("a label=1", "b"), 3, "label=1 or label=-1 once after the name"),
        (("a label=1 label=1",), 1, "label=1 or label=-1 once after the name"),
        (("a label=1", "b label=0"), 3, "a label of 1, +1, positive, -1, negative"),
        (("a label=",), 1, "a label of 1, +1, positive, -1, negative"),
    ],
)
def test_odd_labels_are_named_with_their_line(headers, line, expected, tmp_path):
    (tmp_path / "data.fa").write_text(fasta(*headers))
    with raises(file="data.fa", line=line, expected=expected):
        read_labeled_fasta(tmp_path / "data.fa")


def test_motifs_from_one_file_or_from_several(tmp_path):
    text = make_example("motif").decode()
    (tmp_path / "both.fa").write_text(text)
    records = [f">{record}" for record in text.split(">")[1:]]
    for name, label in (("positive", "label=+1"), ("negative", "label=-1")):
        (tmp_path / f"{name}.fa").write_text("".join(record for record in records if label in record))
    both, positive, negative = (tmp_path / f"{name}.fa" for name in ("both", "positive", "negative"))
    options = ("--restarts", 1, "--quiet", "--json", "-o")
    separate = ("--positive", positive, "--negative", negative)
    one, other, mixed = (tmp_path / name for name in ("one", "other", "mixed"))
    found = [json.loads(run("train", "motif", both, *options, one).stdout)]
    found += [json.loads(run("train", "motif", *separate, *options, other).stdout)]
    assert found[0]["objective"] == found[1]["objective"]
    assert [result["n_negative"] for result in found] == [60, 60]
    scores = [json.loads(run("evaluate", one, *args, "--json").stdout) for args in ((both,), separate)]
    assert scores[0]["auc"] == scores[1]["auc"]
    # Background goes with labels, also where all of these are positive.
    with_background = run("train", "motif", positive, "--background", negative, *options, mixed)
    assert json.loads(with_background.stdout)["n_background"] == 60

    assert "expected sequences with label=-1" in fail("train", "motif", positive)
    assert "expected sequences with label=1" in fail("train", "motif", negative)
    assert "expected sequences with label=-1" in fail("evaluate", one, positive)
    assert "--positive must be left out with DATA" in fail("train", "motif", both, *separate)
    assert "--negative must be left out with DATA" in fail("evaluate", one, both, "--negative", negative)
    assert "--positive must be given if there is" in fail("train", "motif")
    assert "--positive must be given if there is" in fail("train", "motif", "--negative", negative)
    assert "DATA must be given" in fail("evaluate", one)
    assert "--negative must be given" in fail("evaluate", one, "--positive", positive)
    assert "--positive must be given" in fail("evaluate", one, "--negative", negative)


# Folders and archives


def pack(files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def unpack(name, folder):
    with zipfile.ZipFile(io.BytesIO(make_example(name))) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("name", ["detect", "segment"])
def test_an_unpacked_archive_and_one_within_a_folder_say_the_same(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = unpack(name, tmp_path / "data")
    files = {f"mine/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (tmp_path / "nested.zip").write_bytes(pack({**files, "__MACOSX/mine/._labels.csv": b"", "mine/.DS_Store": b""}))
    given = {"folder": folder, "nested": tmp_path / "nested.zip"}
    reported = {}
    for form, data in given.items():
        options = ("--max-iter", 1, "--quiet", "--json", "-o", tmp_path / form)
        reported[form] = json.loads(run("train", name, data, *options).stdout)["objective"]
        scores = json.loads(run("evaluate", tmp_path / form, data, "--json").stdout)
        reported[form] = (reported[form], scores["accuracy"])
    assert reported["folder"] == reported["nested"]
    if name == "segment":
        assert [one["name"] for one in scores["classes"]] == ["grass", "sky", "house"]
    labels = folder / ("labels.csv" if name == "detect" else "labels")
    images = folder if name == "detect" else folder / "images"
    apart = json.loads(run("evaluate", tmp_path / "folder", images, labels, "--json").stdout)
    assert apart["accuracy"] == reported["folder"][1]


def test_missing_labels_are_asked_for(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(encode(PIXELS))
    assert "LABELS must be given if DATA" in fail("train", "detect", tmp_path / "images")
    assert "LABELS must be given if DATA" in fail("train", "segment", tmp_path)
    (tmp_path / "two.zip").write_bytes(pack({"x/labels.csv": b"", "y/labels.csv": b"", "x/a.png": encode(PIXELS)}))
    assert "expected one file labels.csv" in fail("train", "detect", tmp_path / "two.zip")
    files = {f"{place}/{part}/a.png": encode(PIXELS) for place in "xy" for part in ("images", "labels")}
    (tmp_path / "four.zip").write_bytes(pack(files))
    assert "expected one folder labels" in fail("train", "segment", tmp_path / "four.zip")
    (tmp_path / "bad.zip").write_bytes(pack({"labels.csv": b"file,label\na.png\n", "a.png": encode(PIXELS)}))
    assert "bad.zip:labels.csv, line 2: " in fail("train", "detect", tmp_path / "bad.zip")


def test_standard_input_is_a_complete_archive_of_moderate_size(monkeypatch):
    images = {"a.png": encode(PIXELS), "labels.csv": b"file,label\na.png,x\n"}
    assert "expected at least 2 labels" in fail("train", "detect", "-", stdin=pack(images))
    assert "<stdin>: expected a zip archive" in fail("train", "detect", "-", stdin=b"")
    assert "<stdin>: expected" in fail("train", "segment", "-", stdin=b"no archive")
    assert "LABELS must be a file" in fail("train", "detect", "-", "-", stdin=pack(images))
    monkeypatch.setattr(file_sources, "MAX_STREAM_BYTES", 100)
    assert "at most 100 bytes" in fail("train", "detect", "-", stdin=pack(images))


def test_hostile_members_of_archives_harm_nobody(tmp_path, monkeypatch):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("labels.csv", b"file,label\n" + bytes(10**6))
        archive.writestr("a.png", encode(PIXELS))
        archive.writestr("inner.zip", pack({"b.png": encode(PIXELS)}))
    path = tmp_path / "a" / "hostile.zip"
    path.parent.mkdir()
    path.write_bytes(bomb.getvalue())
    source = FileSource(path)
    assert ImageFiles(source).names == ["a"]
    with raises(got="a larger one", expected="a file of at most 1000 bytes", error=FormatError):
        source.read(source.find("labels.csv"), 1000)
    path.write_bytes(pack({"../evil.png": encode(PIXELS)}))
    with raises(expected="file names within the archive", error=FormatError):
        FileSource(path)
    assert [file.name for file in tmp_path.rglob("*")] == ["a", "hostile.zip"]
    encrypted = bytearray(pack({"a.png": encode(PIXELS)}))
    for place in (encrypted.index(b"PK\3\4") + 6, encrypted.index(b"PK\1\2") + 8):
        encrypted[place] |= 1
    path.write_bytes(encrypted)
    with raises(expected="a complete zip archive of images", error=FormatError):
        ImageFiles(path).image("a")


@given(st.data())
def test_tables_are_read_alike_from_files_and_from_bytes(tmp_path_factory, data):
    rows = data.draw(st.lists(st.sampled_from(["a.png,x", "b.png,y", "", "c.png,z\r", "d.png"]), unique=True))
    raw = "\n".join(["file,label", *rows]).encode()
    path = tmp_path_factory.mktemp("table") / "labels.csv"
    path.write_bytes(raw)
    results = []
    for read in (lambda: read_label_table(path), lambda: parse_label_table(raw, str(path))):
        try:
            results.append([(one.file, one.labels, one.place) for one in read()])
        except FormatError as error:
            results.append(str(error))
    assert results[0] == results[1]


# Tables on standard input


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b,label\n1,2,x\n3,4,y\n", ["a", "b"]),
        ("a\tb\tlabel\n1\t2\tx\n3\t4\ty\n", ["a", "b"]),
        ("# a, b\n\nx 1:1 2:2\ny\t1:3\t2:4\n", None),
        ("x\t1:1\t2:2\ny\t1:3\t2:4\n", None),
    ],
)
def test_the_first_line_of_standard_input_tells_tables_from_svmlight(text, names, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    samples = read_classes("-")
    assert samples.feature_names == names
    assert samples.y.tolist() == ["x", "y"]
    X = samples.X if names else samples.X.toarray()
    assert X.tolist() == [[1, 2], [3, 4]]


def test_a_table_without_labels_is_read_from_standard_input(tmp_path):
    text = make_example("classes").decode()
    run("train", "classes", "-", "-o", tmp_path / "model", "--max-iter", 5, "--quiet", stdin=text)
    bare = re.sub(r",[^,\n]*\n", "\n", text)
    labeled, unlabeled = (run("predict", tmp_path / "model", "-", stdin=table).stdout for table in (text, bare))
    assert labeled == unlabeled
    (tmp_path / "bare.csv").write_text(bare)
    assert run("predict", tmp_path / "model", tmp_path / "bare.csv").stdout == labeled
    assert "expected the 5 features of the" in fail("evaluate", tmp_path / "model", "-", stdin=bare)


def test_labels_are_left_out_where_asked():
    whole = run("example", "chain").stdout.splitlines()
    half = run("example", "chain", "--missing", "0.5").stdout.splitlines()
    changed = [line for line, before in zip(half, whole, strict=True) if line != before]
    assert all(line.endswith(" ?") for line in changed)
    assert 0.45 < len(changed) / sum(map(bool, whole)) < 0.55
    assert "--missing must be left out for rank" in fail("example", "rank", "--missing", "0.5")
    assert "--missing must be left out for infer" in fail("example", "infer", "--missing", "0.5")
