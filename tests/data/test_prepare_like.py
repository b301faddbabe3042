"""The command on new data that are prepared with the labels and features of a trained model."""

import json
import os
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import latentstruct
from command import fail, run
from latentstruct.cli import app
from latentstruct.data.sharded import ShardedData
from latentstruct.io.blocks import read_conll_blocks

WORDS = {"D": ("the", "a"), "N": ("cat", "dog", "bird"), "V": ("sees", "bites")}


def sentence(rng):
    tags = [("D", "N", "V"), ("D", "N", "V", "D", "N"), ("N", "V")][rng.integers(3)]
    return "".join(f"{rng.choice(WORDS[tag])}\t{tag.lower()}\t{tag}\n" for tag in tags)


def sentences(seed, n):
    rng = np.random.default_rng(seed)
    return "\n".join(sentence(rng) for _ in range(n))


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """Return a folder with text, and a model whose options are not the usual ones."""
    folder = tmp_path_factory.mktemp("tagger")
    (folder / "train.txt").write_text(sentences(0, 40))
    # Words and a neighborhood that training has not seen, and labels in the order of another file.
    (folder / "test.txt").write_text("zebra\tn\tN\nbites\tv\tV\n\n" + sentences(1, 20))
    run("prepare", "chain", folder / "train.txt", "-o", folder / "prepared", "--window", "1", "--columns", "0", "-q")
    run("train", "chain", folder / "prepared", "-o", folder / "model", "--max-iter", "30", "-q")
    return folder


@pytest.fixture
def small_parts(monkeypatch):
    """Let files be read in many parts."""
    monkeypatch.setattr("latentstruct.io.blocks.SAMPLES", 7)
    monkeypatch.setattr(read_conll_blocks, "__defaults__", (None, 20))


def evaluate(model, data, *more):
    scores = json.loads(run("evaluate", model, data, *more, "--json").stdout)
    return {name: value for name, value in scores.items() if name not in ("model", "data")}


def test_sentences_for_a_model_are_judged_as_the_file_is(tagger, tmp_path, small_parts):
    model, path, folder = tagger / "model", tagger / "test.txt", tmp_path / "test"
    run("prepare", "chain", path, "-o", folder, "-q")
    assert f"--like {model}" in fail("evaluate", model, folder)
    reported = json.loads(run("prepare", "chain", path, "--like", model, "-o", folder, "--json").stdout)
    assert (reported["n_examples"], reported["n_labels"], reported["labeled"]) == (21, 3, True)
    assert json.loads(run("info", folder, "--json").stdout) == reported
    assert evaluate(model, folder) == evaluate(model, path)
    # One may train on them too, and what was trained on them is as the model is.
    run("train", "chain", folder, "-o", tmp_path / "again", "--max-iter", "3", "-q")
    assert evaluate(tmp_path / "again", folder) == evaluate(tmp_path / "again", path)


def test_sentences_without_labels_are_prepared_for_python(tagger, tmp_path, small_parts):
    model, folder, bare = tagger / "model", tmp_path / "bare", tmp_path / "bare.txt"
    lines = (tagger / "test.txt").read_text().splitlines()
    bare.write_text("".join(line.rpartition("\t")[0] + "\n" for line in lines))
    assert "expected 3 columns with the labels in" in fail("prepare", "chain", bare, "--like", model, "-o", folder)
    assert not folder.exists()
    predicted = []
    for path in (bare, tagger / "test.txt"):
        run("prepare", "chain", path, "--like", model, "--unlabeled", "-o", folder, "-q")
        predicted.append(
            [label for labels in latentstruct.load(model).predict(ShardedData(folder)) for label in labels]
        )
    written = run("predict", model, bare).stdout.split("\n")
    assert predicted[0] == predicted[1] == [line.split()[-1] for line in written if line]
    assert "DATA must be prepared data with labels" in fail("evaluate", model, folder)
    assert "DATA must be prepared data with labels" in fail("train", "chain", folder, "-o", tmp_path / "no")


def test_unknown_labels_of_sentences_are_those_of_evaluation(tagger, tmp_path):
    half, folder = tmp_path / "half.txt", tmp_path / "folder"
    half.write_text((tagger / "train.txt").read_text().replace("bites\tv\tV", "bites\tv\t?"))
    for name, more in (("summed", ()), ("pieces", ("--labeled-only",))):
        run("train", "chain", half, "-o", tmp_path / name, "--unknown", "?", *more, "--max-iter", "5", "-q")
    summed, pieces = tmp_path / "summed", tmp_path / "pieces"
    # Empty labels are unknown too, and a file may have no unknown ones.
    empty = tmp_path / "empty.txt"
    empty.write_text(half.read_text().replace("\t?\n", "\t\n"))
    for path in (half, empty, tagger / "test.txt"):
        run("prepare", "chain", path, "--like", summed, "-o", folder, "-q")
        assert evaluate(summed, folder) == evaluate(summed, path)
    run("prepare", "chain", tagger / "test.txt", "--like", pieces, "-o", folder, "-q")
    assert evaluate(pieces, folder) == evaluate(pieces, tagger / "test.txt")
    assert "trained with --labeled-only" in fail("prepare", "chain", half, "--like", pieces, "-o", tmp_path / "no")
    all_unknown = tmp_path / "all.txt"
    all_unknown.write_text("the\td\t?\n")
    assert "expected some labels" in fail("prepare", "chain", all_unknown, "--like", summed, "-o", tmp_path / "no")
    assert "--unknown must be left out with --like" in fail(
        "prepare", "chain", half, "--like", summed, "--unknown", "!", "-o", folder
    )
    assert not (tmp_path / "no").exists()


def test_options_that_the_model_settles_may_be_repeated_and_not_changed(tagger, tmp_path):
    like = ("prepare", "chain", tagger / "test.txt", "--like", tagger / "model", "-o", tmp_path / "folder")
    same = ("--window", "1", "--columns", "-3", "--label-column", "2", "--shape")
    run(*like, *same, "-q")
    for changed, reported in (
        # The usual value counts as given too.
        (("--window", "2"), "--window must be left out with --like.*got 2"),
        (("--no-shape",), "--shape must be left out with --like.*got False"),
        (("--columns", "0,1"), "--columns must be left out with --like.*got '0,1'"),
        (("--label-column", "1"), "--label-column must be left out with --like.*got 1"),
        (("--unknown", "?"), r"--unknown must be left out with --like.*got '\?'"),
    ):
        assert re.search(reported, fail(*like, *changed))
    (tmp_path / "options.toml").write_text("[prepare.chain]\nmin-count = 2\n")
    assert "--min-count must be left out with --like" in fail(*like, "--config", tmp_path / "options.toml")


def samples(seed, n, labels="abc"):
    """Return lines of svmlight, and the same samples as a table."""
    rng = np.random.default_rng(seed)
    rows = [(labels[k % len(labels)], rng.normal(k % len(labels), 0.6, 4).round(3)) for k in range(n)]
    svm = "".join(f"{y} " + " ".join(f"{j}:{v}" for j, v in enumerate(x, 1)) + "\n" for y, x in rows)
    table = "w,x,y,z,class\n" + "".join(",".join(map(str, x)) + f",{y}\n" for y, x in rows)
    return svm, table


@pytest.fixture
def classes(tmp_path):
    for name, seed in (("train", 0), ("test", 1)):
        svm, table = samples(seed, 40)
        (tmp_path / f"{name}.svm").write_text(svm)
        (tmp_path / f"{name}.csv").write_text(table)
    return tmp_path


@pytest.mark.parametrize("form", ["svm", "csv"])
def test_samples_for_a_model_are_judged_as_the_file_is(classes, form, small_parts):
    run("prepare", "classes", classes / f"train.{form}", "-o", classes / "prepared", "-q")
    model, folder = classes / "model", classes / "test"
    run("train", "classes", classes / "prepared", "-o", model, "-q")
    for path in (classes / "test.svm", classes / "test.csv"):
        run("prepare", "classes", path, "--like", model, "-o", folder, "-q")
        assert evaluate(model, folder) == evaluate(model, path)
        assert run("predict", model, folder).stdout == run("predict", model, path).stdout
    # Labels that are placeholders, as predict takes them, need no meaning.
    odd = classes / "odd.svm"
    odd.write_text((classes / "test.svm").read_text().replace("b ", "? "))
    assert "expected a label of" in fail("prepare", "classes", odd, "--like", model, "-o", classes / "no")
    run("prepare", "classes", odd, "--like", model, "--unlabeled", "-o", folder, "-q")
    assert run("predict", model, folder).stdout == run("predict", model, odd).stdout
    assert "DATA must be prepared data with labels" in fail("evaluate", model, folder)
    assert "DATA must be prepared data with labels" in fail("train", "classes", folder, "-o", classes / "no")
    wide = classes / "wide.svm"
    wide.write_text((classes / "test.svm").read_text() + "a 1:1 9:1\n")
    for more in ((), ("--unlabeled",)):
        reported = fail("prepare", "classes", wide, "--like", model, *more, "-o", classes / "no")
        assert reported == fail("evaluate", model, wide)
        assert ", line 41: expected an index of at most 4" in reported
    assert not (classes / "no").exists()


def test_a_table_is_prepared_as_it_is_trained_on(classes, small_parts):
    table = classes / "table.tsv"
    # The labels stand in the middle; of the text of one of them a reader of numbers would make a number.
    rows = [line.split(",") for line in (classes / "train.csv").read_text().split()]
    rows = [[w, x, {"a": "01", "b": "two"}.get(label, label), y, z] for w, x, y, z, label in rows]
    table.write_text("".join("\t".join(row) + "\n" for row in rows))
    reported = json.loads(
        run("prepare", "classes", table, "--label", "class", "-o", classes / "folder", "--json").stdout
    )
    assert (reported["n_examples"], reported["n_features"], reported["n_labels"]) == (40, 4, 3)
    results = []
    for name, data, more in (("direct", table, ("--label", "class")), ("stored", classes / "folder", ())):
        how = ("--solver", "bundle", "--tol", "1e-6", "--valid", table, "-q", "--json")
        results.append(json.loads(run("train", "classes", data, "-o", classes / name, *more, *how).stdout))
    assert results[0]["objective"] == pytest.approx(results[1]["objective"], rel=1e-5)
    assert results[0]["valid"] == results[1]["valid"]
    for name in ("direct", "stored"):
        assert evaluate(classes / name, classes / "folder") == evaluate(classes / name, table)
    settled = ("prepare", "classes", table, "--like", classes / "direct", "-o", classes / "no")
    assert "--label must be left out with --like" in fail(*settled, "--label", "w")
    assert "--zero-based must be left out with --like" in fail(*settled, "--zero-based")
    # Without its labels a table is for predict.
    bare = classes / "bare.tsv"
    bare.write_text("".join("\t".join(row[:2] + row[3:]) + "\n" for row in rows))
    reported = fail("prepare", "classes", bare, "--like", classes / "direct", "-o", classes / "no")
    assert "expected a column of labels, as" in reported
    assert "--unlabeled" in reported
    other = classes / "other.tsv"
    other.write_text("".join("\t".join(row[1:]) + "\n" for row in rows))
    for command, more in (("evaluate", ()), ("predict", ("--unlabeled",))):
        reported = fail("prepare", "classes", other, "--like", classes / "direct", *more, "-o", classes / "no")
        assert reported == fail(command, classes / "direct", other)
    run("prepare", "classes", bare, "--like", classes / "direct", "--unlabeled", "-o", classes / "bare", "-q")
    assert (
        run("predict", classes / "direct", classes / "bare").stdout == run("predict", classes / "direct", bare).stdout
    )


def test_mistakes_in_tables_are_those_of_training(classes):
    bad = classes / "bad.csv"
    for text, more, reported in (
        ("a,b\n", (), ", line 1: expected a header row and at least"),
        ("a,b\n1,x\n,y\n", (), ", line 3: expected a finite number in column"),
        ("a,b\n1,x\n2\n", (), "bad.csv, line 3: expected 2 cells"),
        ("a,b\n1,x\n", ("--label", "c"), "--label must be a column of"),
        ("a,b\n1,x\n", ("--zero-based",), "zero"),
        ("1,2\n3,4\n", (), "line 1: expected a header row"),
    ):
        bad.write_text(text)
        message = fail("prepare", "classes", bad, "-o", classes / "no", *more)
        assert reported in message
        assert message == fail("train", "classes", bad, "-o", classes / "no", *more)
    assert "without column names" in fail("prepare", "classes", classes / "train.svm", "--label", "b")
    assert not (classes / "no").exists()


def test_sequences_for_a_model(tmp_path):
    path, bare, folder = tmp_path / "both.fa", tmp_path / "bare.fa", tmp_path / "folder"
    path.write_bytes(run("example", "motif").stdout_bytes)
    bare.write_text("".join(line.split()[0] + "\n" for line in path.read_text().splitlines()))
    model = tmp_path / "model"
    run("train", "motif", path, "-o", model, "--width", "9", "--restarts", "1", "--max-iter", "3", "-q")
    run("prepare", "motif", path, "--like", model, "-o", folder, "-q")
    assert evaluate(model, folder) == evaluate(model, path)
    like = ("prepare", "motif", bare, "--like", model, "--unlabeled")
    reported = json.loads(run(*like, "-o", folder, "--json").stdout)
    assert not reported["labeled"]
    assert "n_positive" not in reported
    assert run("predict", model, folder).stdout == run("predict", model, bare).stdout
    assert "DATA must be prepared data with labels" in fail("evaluate", model, folder)
    assert "DATA must be prepared data with labels" in fail(
        "train", "motif", folder, "-o", tmp_path / "no", "--width", "9"
    )
    bare.write_text(bare.read_text() + ">short\nACGTNACGTACGT\n")
    reported = fail(*like, "-o", tmp_path / "no")
    # Only predict can leave out a sequence.
    assert fail("predict", model, bare) == f"{reported}. Or leave it out with --skip-bad."
    assert "expected at least 9 consecutive letters" in reported
    assert "--background" in fail(*like, "--background", path, "-o", tmp_path / "no")
    assert ", line 1: expected label=1 or label=-1 once" in fail(
        "prepare", "motif", bare, "--like", model, "-o", tmp_path / "no"
    )
    assert not (tmp_path / "no").exists()


def test_models_that_are_none_are_refused_before_anything_is_written(tagger, classes, tmp_path):
    run("train", "classes", classes / "train.svm", "-o", tmp_path / "classifier", "--max-iter", "2", "-q")
    latentstruct.load(tmp_path / "classifier").save(tmp_path / "own")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "model.json").write_bytes((tagger / "model" / "model.json").read_bytes()[:-100])
    os.mkfifo(tmp_path / "pipe")
    for like, reported in (
        (tmp_path / "missing", "does not exist"),
        (tagger / "test.txt", "--like must be the folder of a"),
        (tagger / "prepared", "--like must be the folder of a"),
        (tmp_path, "expected the folder of a latentstruct model"),
        (tmp_path / "pipe", "expected the folder of a latentstruct model"),
        (damaged, "expected the folder of a latentstruct model"),
        (tmp_path / "own", "--like must be a model of latentstruct"),
        (tmp_path / "classifier", "--like must be a chain model"),
    ):
        assert reported in fail("prepare", "chain", tagger / "test.txt", "--like", like, "-o", tmp_path / "no")
    model = tagger / "model"
    assert "with other files" in fail("prepare", "chain", tagger / "test.txt", "--like", model, "-o", model)
    assert "--like must be given with --unlabeled" in fail(
        "prepare", "chain", tagger / "test.txt", "--unlabeled", "-o", tmp_path / "no"
    )
    assert not (tmp_path / "no").exists()


LINES = ("the\td\tD", "cat\tn\tN", "sees\tv\tV", "é\tn\tN", "", "-DOCSTART-", "odd\tx\tX", "two\tn", "sees\tv\t", "one")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(LINES[:6]), max_size=9), st.sampled_from(LINES))
def test_any_text_is_prepared_as_it_is_evaluated(tagger, tmp_path, lines, last):
    """What evaluation refuses is refused, with nothing written; what it takes is judged the same."""
    path, folder, model = tmp_path / "any.txt", tmp_path / "any", tagger / "model"
    path.write_text("\n".join([*lines, last, ""]), encoding="utf-8")
    before = {file.name: file.read_bytes() for file in folder.iterdir()} if folder.exists() else {}
    plain = run_any("evaluate", model, path, "--json")
    made = run_any("prepare", "chain", path, "--like", model, "-o", folder, "-q")
    assert plain.exit_code == made.exit_code
    if made.exit_code == 0:
        assert evaluate(model, folder) == evaluate(model, path)
    else:
        assert before == ({file.name: file.read_bytes() for file in folder.iterdir()} if folder.exists() else {})


def run_any(*args):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.exit_code in (0, 2)
    return result
