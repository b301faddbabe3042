"""Spans of tokens: labeled, half-labeled and broken files."""

import json
import re

import pytest

from command import fail, run
from latentstruct import load

NAMES = {"PER": [["Anna", "Berg"], ["Otto"]], "LOC": [["New", "Haven"], ["Oslo"]]}


def sentence(k):
    """Return the tokens and spans of a sentence with a person and a place."""
    person, place = NAMES["PER"][k % 2], NAMES["LOC"][k // 2 % 2]
    tokens = [*person, "moved", "to", *place, "."]
    first = len(person) + 2
    return {"tokens": tokens, "spans": [[0, len(person), "PER"], [first, first + len(place), "LOC"]]}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "train.jsonl", map(sentence, range(12)))


def train(data, out, *options):
    return json.loads(run("train", "segments", data, "-o", out, "-q", "--json", "-C", "10", *options).stdout)


@pytest.mark.parametrize(("model", "estimator"), [("crf", "CRF"), ("svm", "StructuralSVM")])
def test_spans_that_are_all_known_are_found(data, tmp_path, model, estimator):
    reported = train(data, tmp_path / "model", "--model", model, "--valid", data)
    assert (reported["estimator"], reported["n_examples"], reported["n_spans"], reported["n_labels"]) == (
        estimator,
        12,
        24,
        2,
    )
    assert reported["valid"]["f1"] == 1.0
    assert set(reported["valid"]["by_label"]) == {"LOC", "PER"}
    plain = write(tmp_path / "plain.jsonl", [{"tokens": sentence(k)["tokens"]} for k in range(4)])
    run("predict", tmp_path / "model", plain, "-o", tmp_path / "out.jsonl")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert found == [sentence(k) for k in range(4)]


@pytest.mark.parametrize(("model", "estimator"), [("crf", "HiddenCRF"), ("svm", "LatentSSVM")])
def test_what_is_unknown_is_latent(tmp_path, model, estimator):
    rows = [sentence(k) for k in range(12)]
    for row in rows[::3]:
        row["spans"][0][2] = None
    reported = train(write(tmp_path / "half.jsonl", rows), tmp_path / "model", "--model", model)
    assert reported["estimator"] == estimator
    assert reported["latent"]
    test = write(tmp_path / "test.jsonl", map(sentence, range(4)))
    scores = json.loads(run("evaluate", tmp_path / "model", test, "--json").stdout)
    assert scores["recall"] == 1.0


def test_tokens_outside_may_be_unknown(tmp_path):
    rows = [sentence(k) for k in range(12)]
    for row in rows[::2]:
        del row["spans"][1]
    partial = write(tmp_path / "partial.jsonl", rows)
    assert not train(partial, tmp_path / "whole", "--max-iter", "3")["latent"]
    assert train(partial, tmp_path / "model", "--partial", "--max-iter", "3")["latent"]


def test_the_longest_span_is_a_limit(data, tmp_path):
    assert "segments of at most 1 tokens" in fail(
        "train", "segments", data, "-o", tmp_path / "model", "-q", "--longest", "1"
    )
    train(data, tmp_path / "model", "--longest", "4", "--max-iter", "1")
    assert load(tmp_path / "model").model_.task_.longest_ == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"tokens": []}', "expected tokens.*got none"),
        ('{"tokens": ["a"]}', "expected a list of spans, which.*got none"),
        ('{"tokens": ["a"], "spans": [[0, 2, "X"]]}', "expected spans that do not overlap.*got the span from 0 to 2"),
        (
            '{"tokens": ["a"], "spans": [[0, 1, "X"], [0, 1, "Y"]]}',
            "expected spans that do not overlap.*got the span from 0 to 1",
        ),
        (
            '{"tokens": ["a"], "spans": [[0, 1, "O"]]}',
            "expected another label, as this one.*got a span with the label 'O'",
        ),
        ('{"tokens": ["a"], "spans": [[0, 1, null]]}', "expected some spans with labels.*got none"),
        ('{"tokens": "a", "spans": []}', "expected array . null at tokens"),
        ('{"tokens": ["a"]', "as JSON on each line"),
        ("", "expected sentences, one per line.*got none"),
    ],
)
def test_broken_files_are_refused(line, message, tmp_path):
    (tmp_path / "bad.jsonl").write_text(line + "\n")
    found = fail("train", "segments", tmp_path / "bad.jsonl", "-o", tmp_path / "model")
    assert re.search(message, found)
    assert not (tmp_path / "model").exists()


def test_labels_to_judge_by_must_be_known(data, tmp_path):
    train(data, tmp_path / "model", "--max-iter", "2")
    row = sentence(0)
    row["spans"][0][2] = "ORG"
    other = write(tmp_path / "other.jsonl", [row])
    assert "expected a label of the model" in fail("evaluate", tmp_path / "model", other)
    run("evaluate", tmp_path / "model", other, "--allow-unknown")
    row["spans"][0][2] = None
    assert "expected a label" in fail("evaluate", tmp_path / "model", write(other, [row]))
