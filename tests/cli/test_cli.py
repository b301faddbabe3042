import json
import os
import re
import signal
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import HANGS, default_interrupts, fail, interrupt, run, start, watch, weights_file
from latentstruct import CRF, Chain, LatentSSVM, Motif, Multiclass, StructuralSVM, load
from latentstruct.cli.common import check_folder, list_labels
from latentstruct.cli.kinds.chain.command import ChainKind
from latentstruct.cli.options import SolverName
from latentstruct.cli.registry import KINDS
from latentstruct.persistence import models as persistence
from latentstruct.solvers.selection import SOLVERS

NOUNS, VERBS = ["cat", "dog", "bird", "fish"], ["sees", "hears", "likes"]


def sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        subject, other = rng.choice(NOUNS, 2)
        yield [
            ("the", "DT", "B-NP"),
            (subject, "NN", "I-NP"),
            (rng.choice(VERBS), "VB", "B-VP"),
            ("a", "DT", "B-NP"),
            (other, "NN", "I-NP"),
            (".", ".", "O"),
        ]


def write_columns(path, rows, columns=(0, 1, 2)):
    text = "\n".join("".join(" ".join(token[k] for k in columns) + "\n" for token in one) for one in rows)
    path.write_text(text)
    return path


@pytest.fixture
def chains(tmp_path):
    return write_columns(tmp_path / "train.txt", sentences(30))


@pytest.fixture
def chain_model(chains, tmp_path):
    run("train", "chain", chains, "-o", tmp_path / "chain", "--quiet")
    return tmp_path / "chain"


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 2)) * 0.3 + np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])[y]
    lines = [f"{a:.4f},{['red', 'green', 'blue'][k]},{b:.4f}" for (a, b), k in zip(X, y, strict=True)]
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["width,color,height", *lines]) + "\n")
    return path


@pytest.fixture
def class_model(table, tmp_path):
    run("train", "classes", table, "--label", "color", "-o", tmp_path / "classes", "--quiet")
    return tmp_path / "classes"


@pytest.fixture
def svmlight(tmp_path):
    path = tmp_path / "train.svm"
    path.write_text("1 1:1 2:0.5\n1 1:0.8\n-1 2:1 3:0.2\n-1 3:1\n" * 5)
    return path


# Starting


def test_help_is_answered_without_heavy_imports():
    code = (
        "import json, sys\n"
        "from latentstruct.cli import main\n"
        "for args in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['latentstruct', *args]\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code, args\n"
        "print([m for m in ('numpy', 'sklearn', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    trainings = [["train", name, "--help"] for name in KINDS]
    others = [[name, "--help"] for name in ("predict", "evaluate", "info", "reproduce", "demo")]
    requested = [["--help"], ["--version"], ["reproduce", "--list"], *trainings, *others]
    args = [sys.executable, "-c", code, json.dumps(requested)]
    shown = subprocess.run(args, capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown[-1] == "[]"
    assert sum("Usage: latentstruct" in line for line in shown) == len(requested) - 2


def test_version():
    assert run("--version").stdout.startswith("latentstruct 0.")


def test_all_solvers_are_offered():
    assert list(get_args(SolverName))[1:] == list(SOLVERS)


# Chains


@pytest.mark.parametrize("model", ["crf", "svm", "perceptron"])
def test_chain_from_training_to_evaluation(model, chains, tmp_path):
    test = write_columns(tmp_path / "test.txt", sentences(10, seed=1))
    out = tmp_path / "model"
    result = json.loads(run("train", "chain", chains, "-o", out, "--model", model, "--json").stdout)
    assert result["model"] == str(out)
    assert result["kind"] == "chain"
    assert (result["n_examples"], result["n_tokens"], result["n_labels"]) == (30, 180, 4)
    assert result["n_weights"] == result["n_features"] * 4 + 16
    assert result["seconds"] > 0
    assert result["iterations"] > 0
    assert result["oracle_calls"] > 0
    if model != "perceptron":
        assert result["certified"]
        assert result["relative_gap"] <= 1e-3
        assert result["stop_reason"] == "converged"
        assert result["lower_bound"] <= result["objective"]
    scores = json.loads(run("evaluate", out, test, "--json").stdout)
    assert scores["accuracy"] == scores["chunks"]["f1"] == scores["example_accuracy"] == 1.0
    assert set(scores["chunks"]["by_type"]) == {"NP", "VP"}
    known = json.loads(run("info", out, "--json", "--top", 5).stdout)
    assert known["labels"] == ["B-NP", "B-VP", "I-NP", "O"]
    assert known["stop_reason"] == result["stop_reason"]
    assert known["objective"] == result["objective"]
    assert len(known["weights"]) == 5
    assert {"from", "to", "weight"} == set(known["transitions"][0])
    sizes = [abs(one["weight"]) for one in known["weights"]]
    assert sizes == sorted(sizes, reverse=True)


def test_strongest_weights_are_those_of_the_model(chain_model):
    model = load(chain_model).model_
    settings = json.loads((chain_model / "model.json").read_text())
    names = settings["extra"]["features"]["names"]
    one = json.loads(run("info", chain_model, "--json").stdout)["weights"][0]
    label = model.task_.labels_.index[one["label"]]
    assert model.coef_[names.index(one["feature"]) * 4 + label] == one["weight"]
    assert abs(one["weight"]) == np.abs(model.coef_[: len(names) * 4]).max()


def test_texts_for_people(chain_model, chains, class_model, table):
    assert "strongest transitions" in run("info", chain_model).stdout
    text = run("evaluate", chain_model, chains).stdout
    assert "100.00 % correct" in text
    assert "precision" in text
    assert "height" in run("info", class_model).stdout
    assert "confused with" in run("evaluate", class_model, table).stdout


@pytest.mark.parametrize(("model", "estimator"), [("crf", "HiddenCRF"), ("svm", "MarginalSSVM")])
def test_half_labeled_chains(model, estimator, tmp_path):
    rng = np.random.default_rng(1)
    half = [[(a, b, "?" if rng.random() < 0.5 else c) for a, b, c in one] for one in sentences(30)]
    train = write_columns(tmp_path / "half.txt", half)
    whole = write_columns(tmp_path / "whole.txt", sentences(10, seed=3))
    folder = tmp_path / "model"
    options = ("--model", model, "--unknown", "?", "--valid", train, "-o", folder, "--json", "--quiet")
    result = json.loads(run("train", "chain", train, *options).stdout)
    assert result["estimator"] == estimator
    assert result["n_labels"] == 4
    known = sum(c != "?" for one in half for _, _, c in one)
    assert result["valid"]["n_tokens"] == known
    assert "chunks" not in result["valid"]
    scores = json.loads(run("evaluate", folder, whole, "--json").stdout)
    assert scores["accuracy"] > 0.95
    assert "chunks" in scores
    predicted = run("predict", folder, whole, "-o", "-").stdout
    assert "?" not in predicted


def test_half_labeled_chains_that_make_no_sense(chains, tmp_path):
    out = ("-o", tmp_path / "model")
    assert "--unknown must be a label of" in fail("train", "chain", chains, "--unknown", "?", *out)
    nothing = write_columns(tmp_path / "nothing.txt", [[("a", "DT", "?"), ("b", "NN", "?")]])
    assert "expected some labels" in fail("train", "chain", nothing, "--unknown", "?", *out)
    perceptron = ("--unknown", "O", "--model", "perceptron")
    assert "--model must be crf or svm if" in fail("train", "chain", chains, *perceptron, *out)
    slack = ("--unknown", "O", "--model", "svm", "--rescaling", "slack")
    assert "--rescaling must be left out if labels" in fail("train", "chain", chains, *slack, *out)
    assert not (tmp_path / "model").exists()
    run("train", "chain", chains, "--unknown", "O", *out, "--quiet")
    unlabeled = write_columns(tmp_path / "only.txt", [[("a", "DT", "O"), ("b", "NN", "O")]])
    assert "expected some labels" in fail("evaluate", tmp_path / "model", unlabeled)


def test_predict_takes_chains_with_and_without_labels(chain_model, tmp_path):
    rows = list(sentences(5, seed=2))
    whole = write_columns(tmp_path / "whole.txt", rows)
    bare = write_columns(tmp_path / "bare.txt", rows, columns=(0, 1))
    run("predict", chain_model, whole, "-o", tmp_path / "out.txt")
    with_labels = [line.split() for line in (tmp_path / "out.txt").read_text().splitlines()]
    assert with_labels[0] == ["the", "DT", "B-NP", "B-NP"]
    without = [line.split() for line in run("predict", chain_model, bare).stdout.splitlines()]
    assert [line[:2] + line[3:] for line in with_labels if line] == [line for line in without if line]
    piped = run("predict", chain_model, "-", "-o", "-", stdin=bare.read_text()).stdout
    assert [line.split() for line in piped.splitlines()] == without


def test_columns_are_chosen(tmp_path):
    rows = list(sentences(30))
    data = write_columns(tmp_path / "train.txt", rows, columns=(1, 2, 0, 0))
    out = tmp_path / "model"
    run("train", "chain", data, "-o", out, "--label-column", "1", "--columns", "-1,0", "--quiet")
    assert json.loads((out / "model.json").read_text())["extra"]["columns"] == [3, 0]
    bare = write_columns(tmp_path / "bare.txt", rows, columns=(1, 0, 0))
    first = run("predict", out, bare).stdout.splitlines()[:6]
    assert [line.split()[-1] for line in first] == [token[2] for token in rows[0]]
    assert "label column" in fail("train", "chain", data, "-o", out, "--columns", "0,3")
    assert "--label-column must be from 0 to 3" in fail("train", "chain", data, "-o", out, "--label-column", "4")
    assert "'a,b'" in fail("train", "chain", data, "-o", out, "--columns", "a,b")


def test_wrong_number_of_columns(chain_model, tmp_path):
    data = write_columns(tmp_path / "one.txt", sentences(2), columns=(0,))
    message = fail("predict", chain_model, data)
    assert "expected 3 columns as in training, or" in message
    bare = write_columns(tmp_path / "two.txt", sentences(2), columns=(0, 1))
    assert "expected 3 columns with the labels in" in fail("evaluate", chain_model, bare)
    assert "one column" in fail("train", "chain", data, "-o", tmp_path / "other")


def test_malformed_line_is_named(chain_model, tmp_path):
    data = tmp_path / "bad.txt"
    data.write_text("the DT B-NP\ncat NN I-NP\nsees\n")
    for args in (("train", "chain", data), ("predict", chain_model, data), ("evaluate", chain_model, data)):
        message = fail(*args)
        assert f"{data}, line 3: " in message
        assert message.endswith("got 1 column")


def test_a_column_with_one_label_is_reported(tmp_path):
    data = tmp_path / "train.txt"
    data.write_text("Anna PER 1\nleft O 1\n\nBerg PER 1\n")
    train = ("train", "chain", data, "-o", tmp_path / "model", "-q")
    assert f"warning: column 2 (from 0) of {data} is '1' at every token; use --label-column" in run(*train).stderr
    assert "warning" not in run(*train, "--label-column", "1").stderr


def test_a_table_with_commas_has_no_tokens(tmp_path):
    # Each line would be a word, and be labeled without a complaint.
    columns, data = tmp_path / "words.txt", tmp_path / "train.csv"
    columns.write_text("Anna PER\nleft O\n, O\n1,5 O\n")
    data.write_text("word,label\nAnna,PER\nleft,O\n")
    run("train", "chain", columns, "-o", tmp_path / "model", "-q")
    for args in (("train", "chain", data, "-o", tmp_path / "x"), ("predict", tmp_path / "model", data)):
        message = fail(*args)
        assert f"{data}: " in message
        assert "columns separated by spaces or tabs, got commas" in message
    words = tmp_path / "new.txt"
    words.write_text("Anna\n1,5\n,\n")
    assert len(run("predict", tmp_path / "model", words).stdout.splitlines()) == 4


def test_unknown_label_of_a_chain(chain_model, chains, tmp_path):
    data = tmp_path / "odd.txt"
    data.write_text("the DT B-NP\n\nthe DT B-NP\ncat NN I-PP\n")
    message = fail("evaluate", chain_model, data)
    assert "expected a label of the model" in message
    assert "'I-PP'" in fail("train", "chain", chains, "-o", tmp_path / "other", "--valid", data)
    assert not (tmp_path / "other").exists()
    run("predict", chain_model, data)
    scores = json.loads(run("evaluate", chain_model, data, "--allow-unknown", "--json").stdout)
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["chunks"]["by_type"]["PP"]["n_true"] == 1


def test_labels_that_are_no_chunks(tmp_path):
    data = write_columns(tmp_path / "train.txt", sentences(10), columns=(0, 1))
    run(
        "train",
        "chain",
        data,
        "-o",
        tmp_path / "model",
        "--quiet",
        "--window",
        1,
        "--no-bigrams",
        "--no-shape",
    )
    assert "chunks" not in json.loads(run("evaluate", tmp_path / "model", data, "--json").stdout)


def test_validation(chains, tmp_path):
    valid = write_columns(tmp_path / "valid.txt", sentences(5, seed=3))
    args = ("train", "chain", chains, "-o", tmp_path / "model", "--valid", valid)
    assert json.loads(run(*args, "--json").stdout)["valid"]["chunks"]["f1"] == 1.0
    assert "valid chunk F1" in run(*args).stdout


# Classes


def test_classes_from_a_table(table, tmp_path):
    out = tmp_path / "model"
    args = ("train", "classes", table, "--label", "color", "-o", out, "--valid", table, "--json")
    result = json.loads(run(*args).stdout)
    assert (result["n_examples"], result["n_features"], result["n_labels"]) == (60, 2, 3)
    assert result["valid"]["accuracy"] == 1.0
    predicted = run("predict", out, table).stdout.splitlines()
    assert predicted == [line.split(",")[1] for line in table.read_text().splitlines()[1:]]
    scores = json.loads(run("evaluate", out, table, "--json").stdout)
    assert scores["accuracy"] == 1.0
    assert [one["label"] for one in scores["classes"]] == ["blue", "green", "red"]
    assert {one["feature"] for one in json.loads(run("info", out, "--json").stdout)["weights"]} == {
        "width",
        "height",
    }


def test_confusions_are_counted(class_model, tmp_path):
    data = tmp_path / "test.csv"
    data.write_text("width,color,height\n0,red,0\n2,red,0\n2,red,0\n0,red,2\n2,green,0\n")
    scores = json.loads(run("evaluate", class_model, data, "--json").stdout)
    red = scores["classes"][2]
    assert scores["accuracy"] == pytest.approx(0.4)
    assert (red["recall"], red["precision"]) == (0.25, 1.0)
    assert (red["mostly_taken_for"], red["n_taken_for"]) == ("green", 2)


def test_tables_are_read_by_name(class_model, tmp_path):
    data = tmp_path / "new.csv"
    data.write_text("height,width\n0,2\n2,0\n")
    assert run("predict", class_model, data).stdout.split() == ["green", "blue"]
    data.write_text("height,width,depth\n0,2,1\n")
    assert "expected the 2 features of the" in fail("predict", class_model, data)
    data.write_text("height,width\n0,2\n2,wide\n")
    assert f"{data}, line 3: expected a finite number in column 'width'" in fail("predict", class_model, data)
    data.write_text("height,width\nhigh,2\n2,0\n")
    assert f"{data}, column 'height': expected numbers" in fail("predict", class_model, data)
    assert "'color'" in fail("evaluate", class_model, data)
    assert "No such file" in fail("predict", class_model, tmp_path / "none.csv")


def test_last_column_is_the_label_by_default(tmp_path):
    data = tmp_path / "train.csv"
    data.write_text("a,b,y\n" + "1,0,no\n0,1,yes\n" * 10)
    run("train", "classes", data, "-o", tmp_path / "model", "--quiet")
    data.write_text("b,a\n1,0\n0,1\n")
    assert run("predict", tmp_path / "model", data).stdout.split() == ["yes", "no"]


def test_classes_from_svmlight(svmlight, tmp_path):
    out = tmp_path / "model"
    run("train", "classes", svmlight, "-o", out, "--model", "crf", "--quiet")
    assert run("predict", out, "-", stdin="0 1:1\n0 3:1\n").stdout.split() == ["1", "-1"]
    assert json.loads(run("evaluate", out, svmlight, "--json").stdout)["accuracy"] == 1.0
    assert "feature 1" in run("info", out).stdout
    assert "at most 3" in fail("predict", out, "-", stdin="0 1:1\n0 4:1\n")
    assert "at least 1" in fail("train", "classes", "-", "-o", tmp_path / "new", stdin="0 0:1\n1 1:1\n")
    assert "label" in fail("train", "classes", svmlight, "--label", "x", "-o", tmp_path / "new")
    assert "expected a label of the model" in fail("evaluate", out, "-", stdin="1 1:1\n2 3:1\n")
    scores = json.loads(run("evaluate", out, "-", "--allow-unknown", "--json", stdin="1 1:1\n2 3:1\n").stdout)
    assert scores["accuracy"] == 0.5
    assert scores["classes"][-1]["mostly_taken_for"] == -1


def test_numbers_among_text_labels(tmp_path):
    data = tmp_path / "train.csv"
    data.write_text("a,b,y\n" + "1,0,1\n0,1,one\n" * 10)
    run("train", "classes", data, "-o", tmp_path / "model", "--quiet")
    data.write_text("a,b,y\n1,0,1\n")
    assert json.loads(run("evaluate", tmp_path / "model", data, "--json").stdout)["accuracy"] == 1.0


# What is shown


def test_progress_lines_without_a_terminal(chains, tmp_path):
    result = run("train", "chain", chains, "-o", tmp_path / "model")
    lines = result.stderr.splitlines()
    assert lines[0] == f"read 30 sentences, 180 tokens from {chains}"
    shown = [line for line in lines if line.startswith("iter ")]
    form = r"iter 1  objective \S+  bound \S+  gap \S+%  \d+ oracle calls  \d+\.\d s"
    assert re.fullmatch(form, shown[0])
    assert "\x1b" not in result.stderr
    assert "iter " not in result.stdout
    assert f"converged after {shown[-1].split()[1]} iterations" in result.stdout


def test_quiet_is_silent(chains, tmp_path):
    result = run("train", "chain", chains, "-o", tmp_path / "model", "--quiet", "--json")
    assert result.stderr == ""
    assert json.loads(result.stdout)["stop_reason"] == "converged"


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_live_table_on_a_terminal(chains, tmp_path):
    out, text = watch("train", "chain", chains, "-o", tmp_path / "model", "--model", "svm", "--json")
    assert json.loads(out)["certified"]
    assert "oracle calls" in text
    assert "\x1b[" in text


def test_early_stop_is_one_warning_line(chains, tmp_path):
    result = run("train", "chain", chains, "-o", tmp_path / "model", "--max-iter", 2)
    warned = [line for line in result.stderr.splitlines() if line.lower().startswith("warning")]
    assert "Warning:" not in result.stderr
    assert len(warned) == 1
    assert warned[0].startswith("warning: training stopped early (max_iter) after 2")
    assert warned[0].endswith("C.")


def test_no_bound_is_null(chains, tmp_path):
    args = ("train", "chain", chains, "-o", tmp_path / "model", "--model", "svm", "--solver", "subgradient")
    result = json.loads(run(*args, "--max-iter", 3, "--quiet", "--json").stdout)
    assert result["lower_bound"] is None
    assert result["relative_gap"] is None
    assert "lower bound   –" in run("info", tmp_path / "model").stdout


def test_seed_changes_the_path_and_not_the_result(chains, tmp_path):
    args = ("train", "chain", chains, "-o", tmp_path / "model", "--model", "svm", "--json", "--seed")
    results = [json.loads(run(*args, seed).stdout) for seed in (0, 7, 7)]
    assert results[1]["objective"] == results[2]["objective"] != results[0]["objective"]
    assert results[1]["objective"] == pytest.approx(results[0]["objective"], rel=2e-3)


# Mistakes


def test_place_of_the_model_is_checked_before_reading(tmp_path):
    file, foreign = tmp_path / "file", tmp_path / "foreign"
    file.write_text("mine")
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    for kind in KINDS:
        assert "is a file" in fail("train", kind, "missing", "-o", file)
        assert "is a file" in fail("train", kind, "missing", "-o", file / "model")
        assert "--output must be a new or empty folder" in fail("train", kind, "missing", "-o", foreign)
    (foreign / "model.json").write_text('{"learner": {}}')
    for kind in ("chain", "graph", "motif"):
        assert "--output must be a new or empty folder" in fail("train", kind, "missing", "-o", foreign)
    assert (foreign / "model.json").read_text() == '{"learner": {}}'
    assert file.read_text() == "mine"
    assert "missing: expected a readable" in fail("train", "chain", "missing", "-o", tmp_path / "new")


def test_models_are_replaced(chain_model, chains):
    run("train", "chain", chains, "-o", chain_model, "--quiet", "-C", "0.5")
    assert json.loads(run("info", chain_model, "--json").stdout)["params"]["C"] == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "perceptron", "-C", "2"], "-C must be left out for --model"),
        (["--model", "perceptron", "--tol", "0.1"], "--tol must be left out for --model"),
        (["--model", "perceptron", "--solver", "lbfgs"], "--solver must be left out for --model"),
        (["--model", "crf", "--rescaling", "slack"], "--rescaling must be left out for --model"),
        (["-C", "0"], "error: --C must be"),
        (["--tol", "-1"], "error: --tol must be"),
        (["--max-iter", "0"], "error: --max-iter must be"),
        (["--max-seconds", "0"], "error: --max-seconds must be"),
        (["--window", "-1"], "window"),
        (["--min-count", "1000"], "180"),
    ],
)
def test_options_that_do_not_fit(options, message, chains, tmp_path):
    assert message in fail("train", "chain", chains, "-o", tmp_path / "model", *options)
    assert not (tmp_path / "model").exists()


def test_damaged_models(chain_model, chains):
    weights, settings = weights_file(chain_model), chain_model / "model.json"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    for args in (("predict", chain_model, chains), ("evaluate", chain_model, chains), ("info", chain_model)):
        assert f"{weights}: expected" in fail(*args)
    weights.write_bytes(whole)
    text = settings.read_text()
    settings.write_text(text[: len(text) // 2])
    assert "expected the folder of a latentstruct model" in fail("info", chain_model)
    assert "does not exist" in fail("info", chain_model / "none")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_columns", "three"),
        ("n_columns", 1),
        ("label_column", 0),
        ("columns", []),
        ("columns", [0, 9]),
        ("columns", [0]),
        ("features", {}),
        ("kind", "classes"),
        ("kind", ["chain"]),
        ("kind", None),
    ],
)
def test_damaged_record(field, value, chain_model, chains):
    settings = chain_model / "model.json"
    content = json.loads(settings.read_text())
    content["extra"][field] = value
    settings.write_text(json.dumps(content))
    fail("predict", chain_model, chains)
    fail("evaluate", chain_model, chains)


def test_models_of_the_library_are_described(tmp_path):
    X, Y = [np.eye(2)] * 5, [[0, 1]] * 5
    CRF(Chain()).fit(X, Y).save(tmp_path / "chain")
    StructuralSVM(Multiclass()).fit(np.eye(4), [(0, 1), "x", 3, 4]).save(tmp_path / "classes")
    LatentSSVM(Motif(3, background_order=0)).fit(["ACGT", "TTTT"], [1, -1]).save(tmp_path / "motif")
    assert "LatentSSVM on Motif" in run("info", tmp_path / "motif").stdout
    assert "CRF on Chain" in run("info", tmp_path / "chain").stdout
    assert json.loads(run("info", tmp_path / "classes", "--json").stdout)["n_labels"] == 4
    assert "MODEL must be a model of latentstruct" in fail("predict", tmp_path / "chain", "missing")


def test_data_home_is_named_as_an_option(tmp_path, monkeypatch):
    monkeypatch.delenv("LATENTSTRUCT_DATA", raising=False)
    args = ("reproduce", "lssvm-motif", "--quick", "-o", tmp_path / "results")
    assert "LATENTSTRUCT_DATA" in fail(*args)
    assert "--data-home must be a folder" in fail(*args, "--data-home", tmp_path / "none")


@pytest.mark.parametrize("name", ["C", "window", "data_home", "n_features"])
def test_files_are_not_taken_for_options(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fail("train", "chain", name).startswith(f"error: {name}: expected a readable file")
    (tmp_path / name).mkdir()
    assert fail("train", "chain", name).startswith(f"error: {name}: expected a readable file")


def test_output_must_not_be_an_input(chain_model, chains, class_model, table):
    for model, data in ((chain_model, chains), (class_model, table)):
        before = data.read_bytes()
        message = fail("predict", model, data, "-o", data)
        assert "--output must be another file" in message
        assert str(data) in message
        assert data.read_bytes() == before


def test_classes_need_two_labels(tmp_path):
    (tmp_path / "one.csv").write_text("a,b,y\n1,2,x\n3,4,x\n")
    assert "expected at least 2 labels" in fail("train", "classes", tmp_path / "one.csv", "-o", tmp_path / "model")


def test_unwritable_output(chain_model, chains, tmp_path):
    assert "a writable path" in fail("predict", chain_model, chains, "-o", tmp_path / "none" / "out.txt")


def test_output_of_classes_that_cannot_be_written(class_model, table, tmp_path):
    assert "No such file" in fail("predict", class_model, table, "-o", tmp_path / "none" / "out.txt")


def test_closed_pipe_is_no_error(chain_model, chains):
    process = start("predict", chain_model, chains, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    shown = process.stderr.read().decode()
    process.wait(timeout=HANGS)
    process.stderr.close()
    assert "Traceback" not in shown
    assert "error" not in shown


# Ctrl-C


def test_interrupted_training_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    lines = (f"w{a} {'ABCDEFGH'[b]}\n" for a, b in rng.integers([5000, 8], size=(40_000, 2)))
    data = tmp_path / "large.txt"
    data.write_text("".join(line + "\n" * (k % 20 == 19) for k, line in enumerate(lines)))
    out = tmp_path / "model"
    args = ("train", "chain", data, "-o", out, "--model", "svm", "--tol", "1e-9", "--json")
    process = start(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    text, shown = interrupt(process, "iter 1 ")
    assert process.returncode == 130, shown
    assert f"interrupted: saving the best weights so far to {out}" in shown
    assert "Traceback" not in shown
    result = json.loads(text)
    assert result["stop_reason"] == "interrupted"
    assert result["iterations"] >= 1
    model = load(out).model_
    assert model.stop_reason_ == "interrupted"
    # Every token is wrong at w = 0, and the best weights so far are never worse than that.
    assert model.objective_ <= 40_000
    assert 0 < model.lower_bound_ <= model.objective_


@pytest.mark.parametrize(
    "module", ["latentstruct.cli.commands", "typer", "numpy", "numpy._core.multiarray", "latentstruct.io.text"]
)
def test_interrupted_while_modules_are_loaded(module, tmp_path):
    """Ctrl-C at the moment a module is looked for, as an import may turn it into something else."""
    code = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from latentstruct.cli import main\n"
        "main()\n"
    )
    args = [sys.executable, "-c", code, "train", "chain", "missing", "-o", tmp_path / "model"]
    result = subprocess.run(args, capture_output=True, text=True, timeout=HANGS)
    assert (result.returncode, result.stdout) == (130, "")
    # A slow machine may report that it is still at work before.
    assert [line for line in result.stderr.splitlines() if not line.startswith("still at work")] == [
        "interrupted: nothing was written"
    ]


def test_second_interrupt_does_not_spoil_the_saving(chains, tmp_path, monkeypatch):
    def save(*args):
        os.kill(os.getpid(), signal.SIGINT)
        persistence_save(*args)

    persistence_save = persistence.save_model
    monkeypatch.setattr(persistence, "save_model", save)
    with default_interrupts():
        run("train", "chain", chains, "-o", tmp_path / "model", "--quiet")
    assert load(tmp_path / "model").model_.stop_reason_ == "converged"


def test_interrupted_evaluation_leaves_the_model(chains, tmp_path, monkeypatch):
    monkeypatch.setattr(ChainKind, "score", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with default_interrupts():
        result = run("train", "chain", chains, "--valid", chains, "-o", tmp_path / "model", "--quiet", code=130)
    assert result.stderr == f"interrupted: the model is saved in {tmp_path / 'model'}, but it was not evaluated\n"
    assert load(tmp_path / "model").model_.stop_reason_ == "converged"


def test_interrupted_while_reading(tmp_path):
    process = start(
        "train", "chain", "-", "-o", tmp_path / "model",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdin.write("a b\n" * 100_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert shown == "interrupted: nothing was written\n"
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("kind", ["no such folder", "file"])
def test_folder_that_cannot_be_made(kind, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise FileNotFoundError(2, "No such file or directory")

    # As in /proc, where root may write by the permissions but no folder can be made.
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    out = tmp_path / "a" / "b"
    if kind == "file":
        (tmp_path / "a").write_text("")
    message = fail("train", "chain", tmp_path / "missing.txt", "-o", out)
    assert message.startswith("error: --output must be ")
    assert (f"{tmp_path / 'a'} is a file" if kind == "file" else "No such file or directory") in message


def test_place_that_can_be_written_is_left_as_it_was(tmp_path):
    check_folder(tmp_path / "new" / "model", "model.json")
    assert list(tmp_path.iterdir()) == []


def test_failed_evaluation_tells_where_the_model_is(chains, tmp_path):
    only = write_columns(tmp_path / "only.txt", [[("a", "DT", "O"), ("b", "NN", "O")]])
    out = tmp_path / "model"
    shown = run("train", "chain", chains, "--unknown", "O", "--valid", only, "-o", out, "--quiet", code=2).stderr
    *_, first, second = shown.splitlines()
    assert first == f"the model is saved in {out}, but it was not evaluated"
    assert second.startswith("error: ")
    assert "expected some labels" in second
    assert load(out).model_.stop_reason_ == "converged"


@given(st.sets(st.one_of(st.integers(-50, 50), st.floats(-9, 9), st.text("ab1", min_size=1)), min_size=1, max_size=40))
def test_labels_are_listed_in_order(labels):
    shown = list_labels(labels).split(", ")[:30]
    texts = {str(label) for label in labels}
    try:
        ordered = sorted(texts, key=lambda text: (float(text), text))
    except ValueError:
        ordered = sorted(texts)
    assert shown[: len(ordered)] == ordered[:30]
