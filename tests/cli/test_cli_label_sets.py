"""The command with what is known of labels: rules of tagging schemes."""

from itertools import pairwise

import pytest

from command import fail, run
from latentstruct import load

BIO = "Ann B-PER\nLee I-PER\nleft O\n\nin O\nOslo B-LOC\nBay I-LOC\n\n" * 4
TRAIN = ("--max-iter", "30", "--quiet")


@pytest.fixture
def sentences(tmp_path):
    (tmp_path / "train.txt").write_text(BIO)
    return tmp_path / "train.txt"


def predicted(model, text):
    return [line.split()[-1] for line in run("predict", model, "-", stdin=text).stdout.splitlines() if line]


def test_rules_hold_in_predictions(sentences, tmp_path):
    run("train", "chain", sentences, "--rules", "bio", *TRAIN, "-o", tmp_path / "model")
    assert load(tmp_path / "model").task_.rules == "BIO"
    found = predicted(tmp_path / "model", "Lee\nBay\nLee\nBay\n\nBay\n\n")
    assert all(label[0] != "I" for label in (found[0], found[4]))
    assert all(b[0] != "I" or a[1:] == b[1:] for a, b in pairwise(found[:4]))
    run("prepare", "chain", sentences, "--rules", "BIO", "-q", "-o", tmp_path / "data")
    run("train", "chain", tmp_path / "data", *TRAIN, "-o", tmp_path / "stored")
    assert load(tmp_path / "stored").task_.rules == "BIO"
    again = run("prepare", "chain", sentences, "--like", tmp_path / "stored", "-q", "-o", tmp_path / "held")
    assert "8 examples" in again.stdout
    assert "fully correct" in run("evaluate", tmp_path / "stored", tmp_path / "held").stdout


@pytest.mark.parametrize(
    ("text", "options", "place"),
    [
        ("a O\n\nb O\nc I-PER\n\nd B-PER\n", ("--rules", "BIO"), "token 2 of sentence 2: expected a label that BIO"),
        ("a I-PER\nb B-PER\n", ("--rules", "BIO"), "token 1 of sentence 1: "),
        ("a ?\nb I-PER\n\nc O\nd ?\ne I-PER\n\nf ?\n", ("--rules", "BIO", "--unknown", "?"), "token 2 of sentence 1"),
        ("a B-PER\nb E-PER\n\na O\nb B-PER\n", ("--rules", "BIOES"), "token 2 of sentence 2"),
        ("a B-PER\nb X\n", ("--rules", "BILOU"), "expected 'O' or one of 'B-…', 'I-…', 'L-…', 'U-…' in the scheme"),
    ],
)
def test_labels_that_break_the_rules_are_located(text, options, place, tmp_path):
    (tmp_path / "bad.txt").write_text(text)
    for command in ("train", "prepare"):
        assert place in fail(command, "chain", tmp_path / "bad.txt", *options, "-o", tmp_path / command)


def test_rules_do_not_hold_in_runs(sentences, tmp_path):
    options = ("--rules", "BIO", "--unknown", "O", "--labeled-only")
    assert "--rules must be left out with --labeled-only" in fail("train", "chain", sentences, *options)
