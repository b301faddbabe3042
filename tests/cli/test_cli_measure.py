import json

import numpy as np
import pytest

from command import fail, run
from latentstruct import load
from latentstruct.cli.kinds.measure.command import Wish, parse_wish
from latentstruct.exceptions import InputError
from latentstruct.io import read_svmlight
from latentstruct.metrics import measure_scores
from latentstruct.metrics.strengths import suggest_C

WEIGHTS = np.array([2.0, -1.0, 0.5])
NAMES = ("error", "precision", "recall", "f1", "prbep", "rocarea", "average_precision")


def draw(n, seed=0, noise=0.3):
    """Return rows of which about a quarter are positive by `WEIGHTS`, but for noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(WEIGHTS))).round(3)
    return X, X @ WEIGHTS + noise * rng.normal(size=n) > 1.5


def write_svmlight(path, n, seed=0, labels=("-1", "+1")):
    X, truth = draw(n, seed)
    lines = []
    for row, positive in zip(X, truth, strict=True):
        pairs = " ".join(f"{k}:{value}" for k, value in enumerate(row, 1))
        lines.append(f"{labels[int(positive)]} {pairs}\n")
    path.write_text("".join(lines))
    return path


def write_table(path, n, seed=0, columns=("a", "b", "c", "class")):
    X, truth = draw(n, seed)
    cells = {**dict(zip("abc", X.T.astype(str), strict=True)), "class": np.where(truth, "spam", "ham")}
    rows = [",".join(row) for row in zip(*(cells[name] for name in columns), strict=True)]
    path.write_text("\n".join([",".join(columns), *rows]) + "\n")
    return path


@pytest.fixture
def train(tmp_path):
    return write_svmlight(tmp_path / "train.svm", 120)


@pytest.fixture
def model(train, tmp_path):
    run("train", "measure", train, "-o", tmp_path / "model", "--quiet")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("optimize", "measure", "shown"),
    [
        ("f1", "f1", "F1"),
        ("F2", "fbeta", "F2"),
        ("prbep", "prbep", "PRBEP"),
        ("rocarea", "rocarea", "ROC area"),
        ("average_precision", "average_precision", "average precision"),
        ("precision@10", "precision@10", "precision@10"),
        ("recall@20", "recall@20", "recall@20"),
        ("error", "error", "error rate"),
    ],
)
def test_from_training_to_evaluation(optimize, measure, shown, train, tmp_path):
    test, out = write_svmlight(tmp_path / "test.svm", 80, seed=1), tmp_path / "model"
    args = ("train", "measure", train, "--optimize", optimize, "--valid", test, "-o", out)
    result = json.loads(run(*args, "--json").stdout)
    assert (result["kind"], result["optimized"], result["stop_reason"]) == ("measure", measure, "converged")
    assert (result["n_examples"], result["n_features"]) == (120, 3)
    assert (result["positive"], result["negative"], result["n_positive"]) == (1, -1, draw(120)[1].sum())
    scores = json.loads(run("evaluate", out, test, "--json").stdout)
    assert result["valid"].items() <= scores.items()
    assert scores[measure] > 0.7 or (measure == "error" and scores["error"] < 0.2)
    known = json.loads(run("info", out, "--json").stdout)
    assert (known["optimized"], known["C"], known["n_examples"]) == (measure, result["C"], 120)
    assert known["weights"][0]["feature"] == "feature 1"
    text = run(*args).stdout
    assert f"valid {shown}" in text
    assert f"{shown}, C " in text
    assert f"{shown}, C " in run("info", out).stdout
    lines = run("evaluate", out, test).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines if line.endswith("(trained for)")] == [shown]


def test_figures_are_those_of_the_model(model, tmp_path):
    test = write_svmlight(tmp_path / "test.svm", 50, seed=1)
    X, y = read_svmlight(test)
    estimator = load(model)
    values = estimator.decision_function(X)
    piped = [line.split("\t") for line in run("predict", model, "-", stdin=test.read_text()).stdout.splitlines()]
    assert [float(value) for _, value in piped] == pytest.approx(values.tolist(), rel=1e-12)
    assert [int(label) for label, _ in piped] == np.where(values > 0, 1, -1).tolist()
    run("predict", model, test, "-o", tmp_path / "found.tsv")
    header, *rows = [line.split("\t") for line in (tmp_path / "found.tsv").read_text().splitlines()]
    assert (header, rows) == (["label", "score"], piped)
    scores = json.loads(run("evaluate", model, test, "--json").stdout)
    expected = measure_scores(y == 1, values)
    assert scores["contingency"] == expected["contingency"]
    for name in NAMES:
        assert scores[name] == pytest.approx(expected[name])
    threshold = json.loads(run("info", model, "--json").stdout)["threshold"]
    assert X @ estimator.coef_[:3] - threshold == pytest.approx(values)
    table = scores["contingency"]
    lines = [line.split() for line in run("evaluate", model, test).stdout.splitlines()]
    assert ["1", str(table["a"]), str(table["b"])] in lines
    assert ["-1", str(table["c"]), str(table["d"])] in lines


def test_positive_may_be_the_smaller_label(train, tmp_path):
    result = run("train", "measure", train, "--positive-label", "-1.0", "-o", tmp_path / "model")
    n = len(draw(120)[1]) - draw(120)[1].sum()
    assert f"{n} positive (-1), {120 - n} 1" in result.stderr
    scores = json.loads(run("evaluate", tmp_path / "model", train, "--json").stdout)
    assert scores["contingency"]["a"] + scores["contingency"]["c"] == n
    assert scores["rocarea"] > 0.8
    assert scores["f1"] > 0.8
    for line in run("predict", tmp_path / "model", train).stdout.splitlines():
        label, value = line.split("\t")
        assert (label == "-1") == (float(value) > 0)


def test_one_label_against_all_others(tmp_path):
    data, other = tmp_path / "train.svm", tmp_path / "test.svm"
    lines = write_svmlight(data, 90, labels=("0", "7")).read_text().splitlines(keepends=True)
    data.write_text("".join(line if line[0] == "7" else f"{k % 3}{line[1:]}" for k, line in enumerate(lines)))
    assert "--positive-label must be one of the 4" in fail("train", "measure", data, "-o", tmp_path / "model")
    result = json.loads(run("train", "measure", data, "--positive-label", 7, "-o", tmp_path / "model", "--json").stdout)
    assert (result["positive"], result["negative"], result["n_positive"]) == ("7", "not 7", draw(90)[1].sum())
    other.write_text("7.0 1:3\n5.5 1:-3\n")
    table = json.loads(run("evaluate", tmp_path / "model", other, "--json").stdout)["contingency"]
    assert table == {"a": 1, "b": 0, "c": 0, "d": 1}
    lines = run("predict", tmp_path / "model", other).stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["7", "not 7"]


def test_tables(tmp_path):
    train, out = write_table(tmp_path / "train.csv", 100), tmp_path / "model"
    run("train", "measure", train, "-o", out)
    known = json.loads(run("info", out, "--json").stdout)
    assert (known["positive"], known["negative"], known["weights"][0]["feature"]) == ("spam", "ham", "a")
    turned = write_table(tmp_path / "turned.csv", 100, columns=("c", "a", "b", "class"))
    found = [json.loads(run("evaluate", out, data, "--json").stdout) for data in (train, turned)]
    assert [scores["f1"] for scores in found] == [found[0]["f1"]] * 2
    assert found[0]["f1"] > 0.8
    unlabeled = write_table(tmp_path / "unlabeled.csv", 100, columns=("a", "b", "c"))
    assert run("predict", out, unlabeled).stdout == run("predict", out, train).stdout


def test_held_out_data_without_positives(model, tmp_path):
    test = tmp_path / "test.svm"
    test.write_text("-1 1:1\n-1 1:-1\n")
    scores = json.loads(run("evaluate", model, test, "--json").stdout)
    assert (scores["f1"], scores["prbep"], scores["rocarea"], scores["average_precision"]) == (None,) * 4
    assert "–" in run("evaluate", model, test).stdout


def test_fewer_held_out_samples_than_k(train, tmp_path):
    test = tmp_path / "test.svm"
    test.write_text("1 1:1\n-1 1:-1\n")
    args = ("train", "measure", train, "--optimize", "precision@3", "--valid", test, "-o", tmp_path / "model")
    shown = run(*args).stdout
    assert next(line for line in shown.splitlines() if line.startswith("valid precision@3")).endswith("–")
    assert "precision@3" not in json.loads(run("evaluate", tmp_path / "model", test, "--json").stdout)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("1 1:1\n1 1:2\n", [], "{data}: expected samples of two classes"),
        ("1 1:1\n2 1:2\n3 1:1\n", [], "--positive-label must be one of the 3 labels of {data} (1, 2, 3)"),
        (
            "1 1:1\n2 1:2\n",
            ["--positive-label", "3"],
            "--positive-label must be a label of {data} (1, 2), got '3'",
        ),
        ("1 1:1\n2 1:2\n", ["--optimize", "precision@3"], "--optimize must be a measure of at most 2 samples"),
        ("1 1:1\n2 1:nan\n", [], "{data}, line 2: "),
        ("1 1:1\n2 2:1 1:1\n", [], "{data}, line 2: "),
        ("1 1:1\n2 0:1\n", [], "{data}, line 2: "),
        ("1:1\n", [], "{data}, line 1: expected a label before the pairs"),
        ("", [], ", line 1: expected a label and index:value"),
        ("1 1:1\n2 1:2\n", ["-C", 0], "-C must be a finite number above 0"),
        ("1 1:1\n2 1:2\n", ["--tol", -1], "--tol must be"),
        ("1 1:1\n2 1:2\n", ["--bias", "nan"], "bias must be a finite number"),
        ("1 1:1\n2 1:2\n", ["--label", "x"], "label"),
    ],
)
def test_bad_training_data(text, options, message, tmp_path):
    data = tmp_path / "bad.svm"
    data.write_text(text)
    assert message.format(data=data) in fail("train", "measure", data, "-o", tmp_path / "model", *options)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("text", ["", "f", "f0", "f-1", "fnan", "f1e9", "precision", "precision@0", "recall@-1", "auc"])
def test_unknown_measures(text, train, tmp_path):
    message = fail("train", "measure", train, "--optimize", text, "-o", tmp_path / "model")
    assert message.startswith("error: --optimize must be f1, prbep")
    assert message.endswith(f"got {text!r}")


def test_names_of_measures():
    assert parse_wish(" F1.0 ") == parse_wish("f1") == Wish("f1")
    assert parse_wish("f0.5") == Wish("fbeta", 0.5)
    assert parse_wish("Recall@10") == Wish("recall@k", k=10)
    assert parse_wish("recall@10").measure == "recall@10"


def test_data_that_do_not_fit_the_model(model, train, tmp_path):
    wide, strange = tmp_path / "wide.svm", tmp_path / "strange.svm"
    wide.write_text("1 4:1\n")
    for command in ("predict", "evaluate"):
        assert f"{wide}, line 1: " in fail(command, model, wide)
    strange.write_text("1 1:1\n2 1:1\n")
    assert "expected the label 1 or -1" in fail("evaluate", model, strange)
    assert "--positive must be left out for a" in fail("evaluate", model, train, "--positive", train)
    assert "DATA must be given" in fail("evaluate", model)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("optimized", "prbep"),
        ("optimized", 3),
        ("positive", 2),
        ("negative", None),
        ("feature_names", ["a"]),
        ("kind", "classes"),
    ],
)
def test_damaged_record(field, value, model, train):
    settings = model / "model.json"
    content = json.loads(settings.read_text())
    content["extra"][field] = value
    settings.write_text(json.dumps(content))
    for args in (("predict", model, train), ("evaluate", model, train), ("info", model)):
        assert "expected a complete model" in fail(*args)


def test_usual_strength(train, tmp_path):
    _, truth = draw(120)
    for optimize, expected in {
        "error": 120,
        "rocarea": truth.sum(),
        "average_precision": truth.sum(),
        "f1": 120**2 / truth.sum(),
        "recall@9": 120**2 / truth.sum(),
        "precision@10": 120**2 / 10,
    }.items():
        args = ("train", "measure", train, "--optimize", optimize, "-o", tmp_path / "model", "--json")
        assert json.loads(run(*args).stdout)["C"] == pytest.approx(expected)
    for arguments, named in {
        ("f1", 5, 0): ("n_positive", 0),
        ("f1", 5, 6): ("n_positive", 6),
        ("f1", "5", 2): ("n_examples", "5"),
        ("f2", 5, 2): ("loss", "f2"),
        ("precision@k", 5, 2): ("k", None),
        ("precision@k", 5, 2, 0.4): ("k", 0.4),
        ("precision@k", 5, 2, 6): ("k", 6),
    }.items():
        with pytest.raises(InputError) as caught:
            suggest_C(*arguments)
        assert (caught.value.parameter, caught.value.got) == named
