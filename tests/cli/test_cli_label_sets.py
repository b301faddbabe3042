"""The command with what is known of labels: rules of tagging schemes, label sets, and the best labelings."""

import json
from itertools import pairwise

import pytest

from command import fail, run
from latentstruct import load
from latentstruct.cli.kinds.chain.files import parse_label
from latentstruct.exceptions import InputError

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
    assert load(tmp_path / "model").model_.task_.rules == "BIO"
    found = predicted(tmp_path / "model", "Lee\nBay\nLee\nBay\n\nBay\n\n")
    assert all(label[0] != "I" for label in (found[0], found[4]))
    assert all(b[0] != "I" or a[1:] == b[1:] for a, b in pairwise(found[:4]))
    run("prepare", "chain", sentences, "--rules", "BIO", "-q", "-o", tmp_path / "data")
    run("train", "chain", tmp_path / "data", *TRAIN, "-o", tmp_path / "stored")
    assert load(tmp_path / "stored").model_.task_.rules == "BIO"
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


PARTLY = "Ann B-PER|B-ORG\nLee I-PER\nleft O\n\nAnn B-PER\nsaw O\nBay ?\n\nin O\nBay B-LOC:0.7|B-PER:0.3\n\n" * 4
SETS = ("--label-sets", "--unknown", "?", *TRAIN)


@pytest.fixture
def partly(tmp_path):
    (tmp_path / "partly.txt").write_text(PARTLY)
    return tmp_path / "partly.txt"


@pytest.mark.parametrize("model", ["crf", "svm"])
def test_sets_of_labels_are_trained_and_scored(model, partly, tmp_path):
    out = tmp_path / "model"
    shown = run("train", "chain", partly, *SETS, "--model", model, "--valid", partly, "--json", "-o", out)
    result = json.loads(shown.stdout)
    assert result["estimator"] == {"crf": "HiddenCRF", "svm": "MarginalSSVM"}[model]
    assert (result["n_labels"], result["n_unlabeled"]) == (5, 4)
    assert load(out).model_.task_.labels_.labels == ["B-LOC", "B-ORG", "B-PER", "I-PER", "O"]
    assert predicted(out, "Ann\nLee\n")[0] == "B-PER"
    assert result["valid"]["accuracy"] == 1.0
    assert "chunks" not in result["valid"]
    wrong = "Ann B-LOC|O\nLee I-PER|O\nleft O\n"
    scores = json.loads(run("evaluate", out, "-", "--json", stdin=wrong).stdout)
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["confusions"] == [{"label": "B-LOC|O", "taken_for": "B-PER", "n": 1, "share": 1.0}]
    assert "token 2 of sentence 1: expected a label of the model" in fail("evaluate", out, "-", stdin="a O\nb O|X\n")


def test_sets_are_prepared(partly, tmp_path):
    run("prepare", "chain", partly, "--label-sets", "--unknown", "?", "-q", "-o", tmp_path / "data")
    objectives = []
    for data, options in ((partly, SETS), (tmp_path / "data", TRAIN)):
        shown = run("train", "chain", data, *options, "--json", "-o", tmp_path / "model")
        objectives.append(json.loads(shown.stdout)["objective"])
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-3)
    run("prepare", "chain", partly, "--like", tmp_path / "model", "-q", "-o", tmp_path / "held")
    assert json.loads(run("evaluate", tmp_path / "model", tmp_path / "held", "--json").stdout)["accuracy"] == 1.0
    (tmp_path / "bad.txt").write_text(PARTLY + "a O|X\n")
    message = fail("prepare", "chain", tmp_path / "bad.txt", "--like", tmp_path / "model", "-o", tmp_path / "held")
    assert "token 1 of sentence 13: " in message


def test_tokens_with_sets_are_left_out(partly, tmp_path):
    shown = run("train", "chain", partly, *SETS, "--labeled-only", "--json", "-o", tmp_path / "model")
    result = json.loads(shown.stdout)
    assert (result["estimator"], result["n_tokens"], result["n_labels"]) == ("CRF", 20, 3)
    message = fail("prepare", "chain", partly, "--like", tmp_path / "model", "-o", tmp_path / "held")
    assert "several labels" in message


def test_sets_where_there_are_none(sentences, partly, tmp_path):
    for command in ("train", "prepare"):
        message = fail(command, "chain", sentences, "--label-sets", "-o", tmp_path / command)
        assert "--label-sets must be left out for" in message
    assert "--model must be crf or svm" in fail("train", "chain", partly, *SETS, "--model", "perceptron")


def test_folds_write_sets(partly, tmp_path):
    found = tmp_path / "folds.jsonl"
    options = ("--folds", "2", "--fold-predictions", found, "-o", tmp_path / "model", "--report", tmp_path / "a.html")
    run("train", "chain", partly, *SETS, *options)
    assert json.loads(found.read_text().splitlines()[0])["true"] == [["B-ORG", "B-PER"], "I-PER", "O"]


@pytest.mark.parametrize(
    ("text", "label"),
    [("A", "A"), ("A|B", {"A", "B"}), ("A:0.5|B:2", {"A": 0.5, "B": 2.0}), ("A:1|B:0", "A"), ("A:3", "A")],
)
def test_labels_of_sets(text, label):
    assert parse_label(text, "?") == label


@pytest.mark.parametrize("text", ["A|", "|", "A|A", "A|?", "A:1|B", "A:x", "A:nan", "A:-1|B:1", "A:0", "A:B:1", ":1"])
def test_bad_sets_are_located(text, tmp_path):
    with pytest.raises(InputError):
        parse_label(text, "?")
    (tmp_path / "bad.txt").write_text(f"a A|B\n\nb A\nc {text}\nd ?\n")
    for command in ("train", "prepare"):
        options = ("--label-sets", "--unknown", "?", "-o", tmp_path / command)
        assert "token 2 of sentence 2: " in fail(command, "chain", tmp_path / "bad.txt", *options)


def test_rules_and_sets(tmp_path):
    (tmp_path / "ok.txt").write_text("a B-PER|B-ORG\nb I-PER|I-ORG\nc I-ORG\n\nd O\n")
    (tmp_path / "bad.txt").write_text("a B-PER|B-ORG\nb O|I-PER\nc I-ORG\n\nd O\n")
    options = ("--label-sets", "--rules", "BIO", *TRAIN, "-o", tmp_path / "model")
    run("train", "chain", tmp_path / "ok.txt", *options)
    assert "token 3 of sentence 1: " in fail("train", "chain", tmp_path / "bad.txt", *options)


@pytest.mark.parametrize("model", ["crf", "svm"])
def test_the_best_labelings(model, sentences, tmp_path):
    run("train", "chain", sentences, "--model", model, *TRAIN, "-o", tmp_path / "model")
    text = "Ann\nLee\n\nOslo\n\n"
    shown = run("predict", tmp_path / "model", "-", "--topk", "40", stdin=text).stdout
    blocks = [[line.split() for line in block.splitlines()] for block in shown.strip().split("\n\n")]
    by_sentence = [[one for one in blocks if len(one) == n] for n in (2, 1)]
    # Five labels: all labelings of both sentences.
    assert [len(ones) for ones in by_sentence] == [25, 5]
    for ones in by_sentence:
        assert [one[0][2] for one in ones] == [str(rank) for rank in range(1, len(ones) + 1)]
        assert len({tuple(token[1] for token in one) for one in ones}) == len(ones)
        values = [float(one[0][3]) for one in ones]
        assert values == sorted(values, reverse=True)
        assert model == "svm" or sum(values) == pytest.approx(1, abs=1e-3)
    first = [token[1] for ones in by_sentence for token in ones[0]]
    assert first == predicted(tmp_path / "model", text)
    if model == "crf":
        message = fail("predict", tmp_path / "model", sentences, "--topk", "2", "--confidence")
        assert "--confidence must be left out with --topk" in message
