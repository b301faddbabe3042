"""The command with votes of annotators, weights of tokens, skipped tokens, and entities alone."""

import json

import numpy as np
import pytest

from command import fail, run
from latentstruct import AnnotatorCRF, HiddenCRF, load

TRAIN = ("--max-iter", "60", "--quiet")
VOTED = (
    "Ann B-PER B-PER O\nLee I-PER I-PER ?\nleft O O O\n\nin O O ?\nOslo B-LOC B-PER B-LOC\nBay I-LOC I-LOC I-LOC\n\n"
    * 4
)


@pytest.fixture
def write(tmp_path):
    def written(text, name="data.txt"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


def test_votes_train_a_model_of_their_annotators(write, tmp_path):
    held = write("Ann B-PER\nleft O\n\nin O\nOslo B-LOC\n", "held.txt")
    options = ("--annotators", "1,2,-1", "--unknown", "?", "--valid", held, "--json")
    found = json.loads(run("train", "chain", write(VOTED), *options, *TRAIN, "-o", tmp_path / "model").stdout)
    assert (found["n_annotators"], found["n_votes"], found["n_missing"]) == (3, 64, 8)
    assert len(found["annotator_recall"]) == 3
    assert found["valid"]["n_tokens"] == 4
    model = load(tmp_path / "model").model
    assert isinstance(model, AnnotatorCRF)
    assert model.confusions_.shape == (3, 5, 5)
    labeled = run("predict", tmp_path / "model", "-", stdin="Ann\nleft\n\n").stdout
    assert [line.split()[0] for line in labeled.splitlines() if line] == ["Ann", "left"]
    text = run("train", "chain", tmp_path / "data.txt", *options[:4], *TRAIN, "-o", tmp_path / "again").stdout
    assert "mean recall" in text
    run("report", tmp_path / "model", "--data", held, "-o", tmp_path / "page.html")
    assert "Most frequent errors of annotators" in (tmp_path / "page.html").read_text()
    described = json.loads(run("info", tmp_path / "model", "--top", "2", "--json").stdout)
    assert described["annotator_recall"] == found["annotator_recall"]
    labels = model.task_.labels_.labels
    shares = [
        model.confusions_[one["annotator"] - 1, labels.index(one["label"]), labels.index(one["given"])]
        for one in described["confusions"]
    ]
    assert shares == [one["share"] for one in described["confusions"]]
    wrong = model.confusions_[:, ~np.eye(5, dtype=bool)]
    assert shares == sorted(wrong.ravel(), reverse=True)[:2]
    assert "most frequent errors of annotators" in run("info", tmp_path / "model").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--annotators", "1,x"), "--annotators must be integers"),
        (("--annotators", "1,9"), "--annotators must be from -4 to 3"),
        (("--annotators", "1,1"), "--annotators must be different"),
        (("--annotators", "1,2", "--label-sets"), "--label-sets must be left out with --annotators"),
        (("--annotators", "1,2", "--folds", "3"), "--folds must be left out with --annotators"),
        (("--annotators", "1,2", "--columns", "3"), "--columns must be from 0 to 1"),
        (("--annotators", "1,2", "--init", "first"), "--init must be left out with --annotators, got 'first'"),
        (("--annotators", "0,1,2,3"), "--annotators must be some columns"),
        (("--weight-column", "1"), "expected a weight of at least 0"),
        (("--labels", "O,B-PER"), "--labels must be with "),
        (("--entity-ratio", "0.2"), "--entity-ratio must be left out without --unknown"),
        (("--entity-ratio", "2", "--unknown", "?"), "--entity-ratio must be a share"),
    ],
)
def test_mistakes(write, options, message):
    assert message in fail("train", "chain", write(VOTED), *options)


def test_weights_of_tokens(write, tmp_path):
    data = write("Ann 1 B-PER\nleft 0.5 O\n\nin 1 O\nOslo 0 B-LOC\n\n" * 4)
    run("train", "chain", data, "--weight-column", "1", *TRAIN, "-o", tmp_path / "model")
    model = load(tmp_path / "model").model
    assert isinstance(model, HiddenCRF)
    # The label of weight 0 is not learned from, and held-out files have no weights.
    assert "B-LOC" in model.task_.labels_.labels
    assert "tokens" in run("evaluate", tmp_path / "model", write("Ann B-PER\nOslo O\n", "held.txt")).stdout


def test_skipped_tokens(write, tmp_path):
    data = write("Ann B-PER\n## X\nleft O\n\nin O\n## X\n\n" * 4)
    found = run("train", "chain", data, "--skipped", "X", "--valid", data, "--json", *TRAIN, "-o", tmp_path / "model")
    scores = json.loads(found.stdout)["valid"]
    assert (scores["n_tokens"], scores["n_unlabeled"]) == (12, 8)
    assert load(tmp_path / "model").model.task_.labels_.labels == ["B-PER", "O"]


ENTITIES = "Ann B-PER\nLee ?\nleft ?\n\nin ?\nOslo B-LOC\n\n" * 4


def test_labels_that_never_occur_are_declared_and_their_share_is_given(write, tmp_path):
    data, held = write(ENTITIES), write("Ann B-PER\nleft O\n\n", "held.txt")
    unknown = ("--unknown", "?", *TRAIN, "-o", tmp_path / "model")
    warned = run("train", "chain", data, *unknown).stderr
    assert "no token has the label O" in warned
    assert "--entity-ratio" in warned
    assert "with O" in fail("train", "chain", data, "--entity-ratio", "0.4", *unknown)
    declared = ("--labels", "O,B-PER,B-LOC", "--entity-ratio", "0.4", "--valid", held)
    found = run("train", "chain", data, *declared, *unknown)
    assert "no token" not in found.stderr
    model = load(tmp_path / "model").model
    assert model.entity_ratio.ratio == 0.4
    outside = np.concatenate([table[:, 0] for table in model.marginals([np.zeros((3, model.task_.n_inputs_))])])
    assert (outside > 0).all()


def test_labels_that_are_not_missing_at_random_are_warned_of(write, tmp_path):
    data = write(ENTITIES + "Ann B-PER\nleft O\n\n" * 4)
    found = run("train", "chain", data, "--unknown", "?", *TRAIN, "-o", tmp_path / "model").stderr
    assert "in sequences with unknown labels no token is labeled O" in found
    at_random = write("Ann B-PER\nleft ?\nin O\n\nin O\nOslo ?\n\n" * 4)
    assert (
        "at random" not in run("train", "chain", at_random, "--unknown", "?", *TRAIN, "-o", tmp_path / "model").stderr
    )


def test_sentences_without_labels_are_left_out_with_a_message(write, tmp_path):
    text = "Ann B-PER\nleft O\nin ?\n\n" * 4
    options = ("--unknown", "?", "--max-iter", "60")
    more = run("train", "chain", write("in ?\nOslo ?\n\n" + text), *options, "-o", tmp_path / "more")
    assert "left out 1 sentences" in more.stderr
    fewer = run("train", "chain", write(text), *options, "-o", tmp_path / "fewer")
    assert "left out" not in fewer.stderr
    weights = [np.sort(load(tmp_path / name).model.coef_) for name in ("more", "fewer")]
    # Features of the first sentence exist in one model only, and have no weights there.
    assert np.allclose(*(one[one != 0] for one in weights))


def test_compact_models_are_small_and_predict_alike(write, tmp_path):
    data = write("Ann B-PER\nLee I-PER\nleft O\n\nin O\nOslo B-LOC\n\n" * 4)
    for name, options in (("whole", ()), ("small", ("--compact",))):
        sparse = ("--l1", "2", "--seen-only", *TRAIN, *options)
        run("train", "chain", data, *sparse, "--valid", data, "-o", tmp_path / name)
    whole, small = (load(tmp_path / name).model_ for name in ("whole", "small"))
    assert small.task_.n_inputs_ < whole.task_.n_inputs_
    assert (small.coef_ != 0).sum() == (whole.coef_ != 0).sum()
    predicted = [run("predict", tmp_path / name, data, "--confidence").stdout for name in ("whole", "small")]
    assert predicted[0] == predicted[1]


def test_hashed_features_are_not_stored(write, tmp_path):
    data = write("Ann B-PER\nLee I-PER\nleft O\n\nin O\nOslo B-LOC\n\n" * 4)
    run("train", "chain", data, "--hashed", "500", "--compact", *TRAIN, "-o", tmp_path / "first")
    model = load(tmp_path / "first")
    assert (model.features_.hashed, model.model_.task_.n_inputs_) == (500, 500)
    assert [list(y) for y in model.predict([["Ann", "Lee", "left"]])] == [["B-PER", "I-PER", "O"]]
    assert "Oslo" not in "".join(path.read_text() for path in (tmp_path / "first").glob("*.json"))
    assert "hashed[" in run("info", tmp_path / "first").stdout
    run("prepare", "chain", data, "--hashed", "500", "-q", "-o", tmp_path / "data")
    run("train", "chain", tmp_path / "data", *TRAIN, "-o", tmp_path / "stored")
    assert load(tmp_path / "stored").features_.hashed == 500
    more = write("Bo B-NEW\n\n", "more.txt")
    run("train", "chain", more, "--hashed", "500", "--init", tmp_path / "first", *TRAIN, "-o", tmp_path / "more")
    assert load(tmp_path / "more").model_.task_.n_inputs_ == 500
    options = ("--init", tmp_path / "first", "--hashed", "50", "-o", tmp_path / "other")
    assert "--hashed must be 500" in fail("train", "chain", more, *options)
    assert "--min-count must be 1 with --hashed" in fail("train", "chain", data, "--hashed", "9", "--min-count", "2")


def test_training_continues_from_a_model_with_new_labels_and_words(write, tmp_path):
    first = write("Ann B-PER\nLee I-PER\nleft O\n\n" * 4, "first.txt")
    run("train", "chain", first, *TRAIN, "-o", tmp_path / "first")
    second = write("in O\nOslo B-LOC\n\n" * 4, "second.txt")
    run("train", "chain", second, "--init", tmp_path / "first", *TRAIN, "-o", tmp_path / "second")
    models = [load(tmp_path / name) for name in ("first", "second")]
    assert models[1].model_.task_.labels_.labels == ["B-PER", "I-PER", "O", "B-LOC"]
    names = [list(model.features_.vocabulary_) for model in models]
    assert names[1][: len(names[0])] == names[0]
    assert len(names[1]) > len(names[0])
    chosen = ("--folds", "2", "--C", "auto", "--label-column", "1", "--json")
    found = run("train", "chain", second, "--init", tmp_path / "first", *chosen, "-o", tmp_path / "chosen").stdout
    assert set(json.loads(found)) >= {"out_of_fold", "chosen_C"}
    assert models[1].model_.get_params()["C"] == models[0].model_.get_params()["C"]
    options = ("--init", tmp_path / "first", "-o", tmp_path / "third")
    assert "--window must be 2" in fail("train", "chain", second, "--window", "1", *options)
    assert "--columns" in fail("train", "chain", write("in IN O\n\nOslo NN B-LOC\n\n"), *options)


def test_training_continues_with_the_options_of_the_model_unless_others_are_given(write, tmp_path):
    data = write("Ann B-PER\nLee I-PER\nleft O\n\nin O\nOslo B-LOC\n\n" * 4)
    first = ("--C", "0.3", "--l1", "0.01", "--seen-only", "--rules", "BIO")
    run("train", "chain", data, *first, *TRAIN, "-o", tmp_path / "first")
    again = ("train", "chain", data, "--init", tmp_path / "first", "--max-iter", "60")
    said = run(*again, "-o", tmp_path / "second").stderr
    assert "its model crf, rules BIO, C 0.3, l1 0.01, seen-only True" in said
    second = load(tmp_path / "second").model
    assert (second.C, second.l1, second.seen_only, second.task.rules) == (0.3, 0.01, True, "BIO")
    run(*again, "--C", "2", "--l1", "0", "-o", tmp_path / "third")
    third = load(tmp_path / "third").model
    assert (third.C, third.l1, third.seen_only) == (2.0, 0.0, True)
    run(*again, "--model", "svm", "-o", tmp_path / "fourth")
    assert (type(load(tmp_path / "fourth").model).__name__, load(tmp_path / "fourth").model.C) == ("StructuralSVM", 0.3)


def test_trainings_that_alternate_with_the_errors_of_annotators_are_numbered(write, tmp_path):
    said = run(
        "train", "chain", write(VOTED), "--annotators", "1,2,-1", "--unknown", "?", "-o", tmp_path / "model"
    ).stderr
    shown = [line for line in said.splitlines() if "  objective " in line]
    assert shown[0].startswith("iter 1  ")
    assert all(line.startswith("training ") for line in shown[1:])
