"""The command with text of which some labels are missing: marks, empty columns, what unknown tokens add, confidence."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import fail, run
from error_fields import raises
from latentstruct import load
from latentstruct.cli.kinds.chain.files import labeled_runs
from latentstruct.io import read_conll
from latentstruct.progress.display import fit_facts

WORDS = {"the": "D", "a": "D", "cat": "N", "dog": "N", "sees": "V", "hears": "V"}


def write_half(path, mark, n=20, seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    for k in range(n):
        words = [str(rng.choice(group)) for group in (["the", "a"], ["cat", "dog"], ["sees", "hears"])]
        labels = [mark if rng.random() < share else WORDS[word] for word in words]
        # The first token of the file has no label: the tab is then the last sign of its line.
        labels[0] = mark if k == 0 and share else labels[0]
        text = "".join(f"{word}\t{label}\n" for word, label in zip(words, labels, strict=True))
        with open(path, "a") as file:
            file.write(text + "\n")
    return path


@pytest.fixture
def half(tmp_path):
    return write_half(tmp_path / "half.txt", "?")


@pytest.fixture
def whole(tmp_path):
    return write_half(tmp_path / "whole.txt", "?", seed=1, share=0.0)


@pytest.fixture
def tagger(half, tmp_path):
    run("train", "chain", half, "--unknown", "?", "-o", tmp_path / "tagger", "--quiet")
    return tmp_path / "tagger"


@pytest.mark.parametrize("mark", ["?", "_", "UNK"])
def test_a_forgotten_mark_is_told(mark, whole, tmp_path):
    data = write_half(tmp_path / "marked.txt", mark)
    n = sum(labels.count(mark) for labels in read_conll(data).column(-1))
    shown = run("train", "chain", data, "-o", tmp_path / "model", "--quiet").stderr
    assert f"warning: {n} of 60 tokens of {data} have the label {mark!r}" in shown
    assert f"use --unknown '{mark}'" in shown
    for args in ((data, "--unknown", mark), (whole,)):
        assert "warning" not in run("train", "chain", *args, "-o", tmp_path / "model", "--quiet").stderr


def test_a_wrong_mark_is_answered_with_the_frequent_labels(tmp_path):
    data = write_half(tmp_path / "marked.txt", "_", share=0.8)
    message = fail("train", "chain", data, "--unknown", "?", "-o", tmp_path / "model")
    assert "--unknown must be a label of" in message


def test_empty_labels_are_unknown_ones(half, tmp_path):
    data = write_half(tmp_path / "empty.txt", "")
    results = {}
    for name, mark in ((data, ""), (half, "?")):
        out = tmp_path / f"model{len(results)}"
        args = ("--unknown", mark, "--valid", name, "-o", out, "--quiet", "--json")
        results[mark] = json.loads(run("train", "chain", name, *args).stdout)
    assert results[""]["objective"] == results["?"]["objective"]
    assert results[""]["valid"]["n_unlabeled"] == results["?"]["valid"]["n_unlabeled"] > 0
    predicted = run("predict", tmp_path / "model0", data).stdout.splitlines()
    assert predicted[0].split()[1:] == ["_", "D"]
    assert "tokens, not counted" in run("evaluate", tmp_path / "model0", data).stdout


def test_empty_labels_without_a_mark(whole, tmp_path):
    data = tmp_path / "late.txt"
    data.write_text(whole.read_text() + "cat\t\n")
    message = fail("train", "chain", data, "-o", tmp_path / "model")
    assert "expected a value in column 2" in message
    assert "--unknown" in message


def test_only_the_named_column_may_be_empty(tmp_path):
    data = tmp_path / "columns.txt"
    data.write_text("a\t\tx\n\tN\t\n")
    with raises(file="columns.txt", line=1):
        read_conll(data, blank={-1: "?"})
    with raises(file="columns.txt", line=2):
        read_conll(data, blank={-1: "?", 1: "_", 7: "-"})
    assert read_conll(data, blank={0: "w", 1: "_", 2: "?"}).columns == (["a", "w"], ["_", "N"], ["x", "?"])


def test_training_without_the_unknown_tokens(half, whole, tmp_path):
    args = ("--unknown", "?", "--valid", whole, "--quiet", "--json", "-o", tmp_path / "model")
    result = json.loads(run("train", "chain", half, "--labeled-only", *args).stdout)
    labels = read_conll(half).column(-1)
    assert result["estimator"] == "CRF"
    assert result["n_tokens"] == sum(label != "?" for one in labels for label in one)
    assert result["n_examples"] == sum(len("".join(one).replace("?", " ").split()) for one in labels)
    assert result["certified"]
    assert "?" not in load(tmp_path / "model").model_.task_.labels_.labels
    assert "--labeled-only must be left out without --unknown" in fail(
        "train", "chain", half, "--labeled-only", "-o", tmp_path / "model"
    )


@given(st.lists(st.lists(st.sampled_from([-1, 0, 1]), max_size=6), max_size=4))
def test_runs_are_the_known_tokens_in_order(Y):
    X = [np.array([(i, t) for t in range(len(y))]).reshape(-1, 2) for i, y in enumerate(Y)]
    runs, labels, origins = labeled_runs(X, Y)
    expected = [(i, t, label) for i, y in enumerate(Y) for t, label in enumerate(y) if label != -1]
    found = [
        (*map(int, x), label) for run, one in zip(runs, labels, strict=True) for x, label in zip(run, one, strict=True)
    ]
    assert found == expected
    joined = {(i, t) for i, y in enumerate(Y) for t in range(len(y) - 1) if -1 not in y[t : t + 2]}
    assert len(runs) == len(expected) - len(joined)
    assert origins == [int(run[0][0]) for run in runs]


def test_confidence_of_each_label(tagger, whole, tmp_path):
    plain = [line.split() for line in run("predict", tagger, whole).stdout.splitlines()]
    reported = [line.split() for line in run("predict", tagger, whole, "--confidence").stdout.splitlines()]
    assert [row[:-1] for row in reported] == plain
    values = [float(row[-1]) for row in reported if row]
    assert all(0 < value <= 1 for value in values)
    assert len(set(values)) > 1
    assert "--skip-bad must be left out for a" in fail("predict", tagger, whole, "--confidence", "--skip-bad")


def test_confidence_where_there_is_none(whole, tmp_path):
    run("train", "chain", whole, "--model", "svm", "-o", tmp_path / "svm", "--quiet")
    assert "--confidence must be left out for a" in fail("predict", tmp_path / "svm", whole, "--confidence")
    table = tmp_path / "table.csv"
    table.write_text("x,label\n" + "0,a\n1,b\n" * 3)
    run("train", "classes", table, "-o", tmp_path / "classes", "--quiet")
    assert "--confidence must be left out for a" in fail("predict", tmp_path / "classes", table, "--confidence")


def test_labels_that_are_taken_for_others(tagger, whole, tmp_path):
    wrong = tmp_path / "wrong.txt"
    wrong.write_text(whole.read_text().replace("cat\tN", "cat\tV"))
    n = wrong.read_text().count("cat\tV")
    scores = json.loads(run("evaluate", tagger, wrong, "--json").stdout)
    n_true = wrong.read_text().count("\tV")
    assert scores["confusions"] == [{"label": "V", "taken_for": "N", "n": n, "share": n / n_true}]
    assert "confused labels" in run("evaluate", tagger, wrong).stdout
    assert "confused labels" not in run("evaluate", tagger, whole).stdout


def test_other_marks_and_missing_columns_are_answered(tagger, whole, tmp_path):
    other = write_half(tmp_path / "other.txt", "_")
    assert "expected a label of the model" in fail("evaluate", tagger, other)
    words = "".join(f"{line.split()[0]}\n" if line else "\n" for line in whole.read_text().splitlines())
    assert "expected 2 columns with the labels in" in fail("evaluate", tagger, "-", stdin=words)
    assert "expected 2 columns as in training, or" in fail("predict", tagger, "-", stdin="the cat sees a dog\n")
    assert "as in the first line" in fail("predict", tagger, "-", stdin="the cat sees\na dog\n")


@pytest.mark.parametrize(
    ("gap", "reported"), [(0.5, "0.5 (certified)"), (3.3, "3.3 (too large to prove anything)"), (float("nan"), "–")]
)
def test_a_gap_that_proves_nothing(gap, reported):
    result = {
        "relative_gap": gap,
        "certified": True,
        "latent": False,
        "objective": 2.0,
        "lower_bound": -4.6,
        "restart_objectives": [],
        "oracle_calls": 1,
        "stop_reason": "max_iter",
        "iterations": 1,
    }
    assert dict(fit_facts(result))["relative gap"] == reported


def test_sentences_without_a_known_label_are_not_called_right(tmp_path):
    known, none = "a X\nb Y\n\n", "a ?\nb ?\n\n"
    (tmp_path / "train.txt").write_text(known * 6 + none)
    (tmp_path / "test.txt").write_text("a Y\nb X\n\n" + none * 3)
    run("train", "chain", tmp_path / "train.txt", "--unknown", "?", "-o", tmp_path / "model", "-q")
    found = json.loads(run("evaluate", tmp_path / "model", tmp_path / "test.txt", "--json").stdout)
    assert found["example_accuracy"] == 0.0
