import json
import shutil

import numpy as np
import pytest

from command import fail, run, run_interrupted, weights_file
from latentstruct import load
from latentstruct.io.alignments import (
    SequencePairs,
    gapped_rows,
    read_alignments,
    read_sequence_pairs,
    write_alignments,
)
from latentstruct.io.ncbi_matrix import read_ncbi_matrix
from latentstruct.metrics.alignments import q_scores

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


def draw_pairs(n_pairs, seed=0, length=18, changed=0.25):
    """Draw pairs of descendants of one sequence each: letters change, and a few of them are left out."""
    rng = np.random.default_rng(seed)
    names, sequences, matches = [], [], []
    for k in range(n_pairs):
        parent = rng.integers(0, len(LETTERS), length)
        rows, kept = [], []
        for _ in range(2):
            child = np.where(rng.random(length) < changed, rng.integers(0, len(LETTERS), length), parent)
            gap = int(rng.integers(0, length - 3))
            keep = np.ones(length, dtype=bool)
            keep[gap : gap + int(rng.integers(0, 4))] = False
            rows.append("".join(LETTERS[letter] for letter in child[keep]))
            kept.append(keep)
        both = kept[0] & kept[1]
        matches.append(np.stack([np.cumsum(keep)[both] - 1 for keep in kept], axis=1))
        sequences.append(tuple(rows))
        names.append((f"p{k}a", f"p{k}b"))
    return SequencePairs(names, sequences, matches)


def write_pairs(path, n_pairs, seed=0, **options):
    write_alignments(path, draw_pairs(n_pairs, seed, **options))
    return path


def write_tracks(path, pairs):
    """Write a state for each letter: whether it is one of the first ten."""
    lines = {}
    for names, sequences in zip(pairs.names, pairs.sequences, strict=True):
        for name, letters in zip(names, sequences, strict=True):
            lines[name] = "".join("HE"[LETTERS.index(letter) >= 10] for letter in letters)
    path.write_text("".join(f">{name}\n{states}\n" for name, states in lines.items()))


@pytest.fixture
def train(tmp_path):
    return write_pairs(tmp_path / "train.fa", 12)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    train = write_pairs(folder / "train.fa", 12)
    run("train", "align", train, "-C", 0.1, "-o", folder / "model", "--quiet")
    return folder / "model"


@pytest.fixture
def model(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "mode", "features"), [("svm", "local", "simple"), ("crf", "global", "simple"), ("svm", "global", "window")]
)
def test_from_training_to_evaluation(name, mode, features, train, tmp_path):
    test, out = write_pairs(tmp_path / "test.fa", 8, seed=1), tmp_path / "model"
    choice = ("--model", name, "--mode", mode, "--features", features, "--tolerance", 1)
    args = ("train", "align", train, "-C", 1, *choice, "--valid", test, "-o", out)
    result = json.loads(run(*args, "--json").stdout)
    assert (result["kind"], result["latent"], result["n_examples"]) == ("align", False, 12)
    assert result["n_matches"] == sum(map(len, read_alignments(train).matches))
    assert result["gap_open"] > 0
    scores = json.loads(run("evaluate", out, test, "--json").stdout)
    assert scores["q"] == result["valid"]["q"]
    assert set(scores["q"]) == {"0", "1", "4"}
    assert 0.7 < scores["q"]["0"] <= scores["q"]["1"] <= scores["q"]["4"] <= 1
    assert 0.7 < scores["modeler"] <= 1
    known = json.loads(run("info", out, "--json").stdout)
    assert (known["mode"], known["features"], known["n_examples"]) == (mode, features, 12)
    assert (known["gap_open"], known["objective"]) == (result["gap_open"], result["objective"])
    assert known["substitutions"][0]["score"] > 0
    assert ("not in this matrix" in (out / "matrix.txt").read_text()) == (features != "simple")
    shown = [run("evaluate", out, test).stdout, run("info", out).stdout]
    assert "Q4" in shown[0]
    assert "strongest substitutions" in shown[1]


def test_training_tells_and_writes_the_matrix(train, tmp_path):
    out = tmp_path / "model"
    args = ("train", "align", train, "--valid", train, "-o", out)
    shown = run(*args).stdout
    assert "valid Q4" in shown
    assert "gaps" in shown
    assert "matrix.txt" in shown
    estimator = load(out)
    assert estimator.C == 0.01
    letters, scores = estimator.task_.substitution_matrix(estimator.coef_)
    written = read_ncbi_matrix(out / "matrix.txt")
    assert written.letters == letters
    scale = 100 / max(np.abs(scores).max(), *map(abs, estimator.task_.gap_costs(estimator.coef_)))
    assert np.abs(written.scores - scale * scores).max() <= 0.5 + 1e-9
    assert (out / "matrix.png").read_bytes().startswith(b"\x89PNG")


def test_another_training_removes_the_matrix(model, tmp_path):
    data = tmp_path / "rank.txt"
    data.write_text("1 qid:1 1:1\n0 qid:1 1:0\n0 qid:1 1:0\n")
    run("train", "rank", data, "--k", 1, "-o", model, "--quiet")
    assert sorted(path.name for path in model.iterdir()) == ["model.json", weights_file(model).name]


def test_predictions_are_those_of_the_model(model, tmp_path):
    test = write_pairs(tmp_path / "test.fa", 5, seed=1)
    pairs = read_alignments(test)
    expected = load(model).predict(pairs.sequences)
    run("predict", model, test, "-o", tmp_path / "out.fa")
    found = read_alignments(tmp_path / "out.fa")
    assert (found.names, found.sequences) == (pairs.names, pairs.sequences)
    assert all(np.array_equal(one, other) for one, other in zip(found.matches, expected, strict=True))
    bare = "".join(f">{n}\n{s.lower()}\n" for n, s in zip(sum(pairs.names, ()), sum(pairs.sequences, ()), strict=True))
    assert run("predict", model, "-", stdin=bare).stdout == (tmp_path / "out.fa").read_text()
    scores = json.loads(run("evaluate", model, test, "--json").stdout)
    assert scores["q"]["4"] == pytest.approx(q_scores(pairs.matches, expected, 4).mean())


def test_lower_case_counts_if_asked(tmp_path):
    data = tmp_path / "pairs.fa"
    pairs = draw_pairs(4)
    rows = [row.lower() for pair in zip(pairs.sequences, pairs.matches, strict=True) for row in gapped_rows(*pair)]
    data.write_text("".join(f">s{k}\n{row}\n" for k, row in enumerate(rows)))
    out = tmp_path / "model"
    assert ": expected a column with two" in fail("train", "align", data, "-o", out)
    run("train", "align", data, "--lower-case", "-C", 1, "-o", out, "--quiet")
    assert json.loads(run("evaluate", out, data, "--json").stdout)["q"]["0"] > 0.5


def test_tracks_beside_the_data(train, tmp_path):
    pairs, out = read_sequence_pairs(train), tmp_path / "model"
    states = tmp_path / "states.fa"
    write_tracks(states, pairs)
    args = ("train", "align", train, "-C", 1, "--features", "anova2", "-o", out)
    assert "--derived" not in run(*args, "--structure", states).stderr
    assert json.loads(run("info", out, "--json").stdout)["tracks"] == ["structure"]
    assert f"{train}.structure" in fail("evaluate", out, train)
    assert "DATA must be a file with the" in fail("predict", out, "-", stdin=train.read_text())
    assert "--structure must be a file" in fail(
        "train", "align", "-", "--structure", "-", "-o", out, stdin=train.read_text()
    )
    beside = tmp_path / "train.fa.structure"
    states.rename(beside)
    assert f"read structure from {beside}" in run(*args).stderr
    assert json.loads(run("evaluate", out, train, "--json").stdout)["q"]["0"] > 0.5
    assert "--output must be another file than the" in fail("predict", out, train, "-o", beside)
    beside.write_text(beside.read_text().replace(">p3b\n", ">p3b\nH", 1))
    assert "expected 15, one per letter of" in fail("predict", out, train)
    beside.write_text(">p0a\nHH\n")
    assert "expected 17, one per letter of" in fail(*args)
    beside.write_text(">other\nHH\n")
    assert "expected a record 'p0a', the structure" in fail(*args)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (">a\nAC\n>b\nA\n", [], "{data}, line 3: expected 2 columns as in the row of"),
        (">a\nAC\n", [], "{data}, line 1: expected an even number of records"),
        (">a\nAU\n>b\nAU\n", [], "{data}, letter 2 of the sequence 'a': expected an amino acid"),
        ("", [], "{data}: expected lines '>name' followed by"),
        (">a\nAC\n>b\nAC\n", ["-C", 0], "-C must be"),
        (">a\nAC\n>b\nAC\n", ["--features", "anova2"], "anova2"),
    ],
)
def test_bad_training_data(text, options, message, tmp_path):
    data = tmp_path / "bad.fa"
    data.write_text(text)
    assert message.format(data=data) in fail("train", "align", data, "-o", tmp_path / "model", *options)
    assert not (tmp_path / "model").exists()


def test_data_that_do_not_fit_the_model(model, train, tmp_path):
    strange = tmp_path / "strange.fa"
    strange.write_text(">a\nAC\n>b\nAO\n")
    for command in ("predict", "evaluate"):
        assert f"{strange}, letter 2 of the sequence 'b': expected an amino acid" in fail(command, model, strange)
    assert "DATA must be given" in fail("evaluate", model)
    assert "a writable path" in fail("predict", model, train, "-o", tmp_path / "none" / "out.fa")


@pytest.mark.parametrize(("field", "value"), [("tracks", ["color"]), ("tracks", 3), ("kind", "rank")])
def test_damaged_record(field, value, model, train):
    settings = model / "model.json"
    content = json.loads(settings.read_text())
    content["extra"][field] = value
    settings.write_text(json.dumps(content))
    for args in (("predict", model, train), ("evaluate", model, train), ("info", model)):
        assert "expected a complete model" in fail(*args)


def test_interrupted_training_is_saved(tmp_path):
    data, out = write_pairs(tmp_path / "pairs.fa", 20, length=30, changed=0.6), tmp_path / "model"
    args = ("train", "align", data, "-C", 100, "--tol", 1e-9, "-o", out, "--json")
    result = run_interrupted(*args, at=lambda line: line.iteration == 1)
    assert f"interrupted: saving the best weights so far to {out}" in result.stderr
    assert json.loads(result.stdout)["stop_reason"] == load(out).stop_reason_ == "interrupted"
    assert (out / "matrix.txt").exists()
