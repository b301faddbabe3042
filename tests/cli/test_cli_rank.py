import json

import numpy as np
import pytest

from command import fail, run, run_interrupted
from latentstruct import load
from latentstruct.io import read_queries
from latentstruct.metrics import precision_at_k

WEIGHTS = np.array([2.0, -1.0, 0.5])


def write_queries(path, n_queries, seed=0, size=6, noise=0.1):
    """Write queries whose two best documents by `WEIGHTS` are relevant, but for noise."""
    rng = np.random.default_rng(seed)
    lines = []
    for q in range(n_queries):
        X = rng.normal(size=(size, len(WEIGHTS))).round(3)
        scores = X @ WEIGHTS + noise * rng.normal(size=size)
        relevant = scores >= np.sort(scores)[-2]
        for j in range(size):
            pairs = " ".join(f"{k}:{value}" for k, value in enumerate(X[j], 1))
            lines.append(f"{int(relevant[j])} qid:{q} {pairs} # document {q}/{j}\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture
def train(tmp_path):
    return write_queries(tmp_path / "train.txt", 30)


@pytest.fixture
def model(train, tmp_path):
    run("train", "rank", train, "--k", 2, "-C", 10, "-o", tmp_path / "model", "--quiet")
    return tmp_path / "model"


@pytest.mark.parametrize(("name", "latent"), [("precision", True), ("pairwise", False)])
def test_from_training_to_evaluation(name, latent, train, tmp_path):
    test, out = write_queries(tmp_path / "test.txt", 20, seed=1), tmp_path / "model"
    args = ("train", "rank", train, "--k", 2, "-C", 10, "--model", name, "--valid", test, "-o", out)
    result = json.loads(run(*args, "--json").stdout)
    assert (result["kind"], result["latent"]) == ("rank", latent)
    assert (result["n_examples"], result["n_documents"], result["n_features"]) == (30, 180, 3)
    assert result["stop_reason"] == "converged"
    scores = json.loads(run("evaluate", out, test, "--json").stdout)
    assert scores["precision"] == result["valid"]["precision"]
    assert set(scores["precision"]) == set(scores["ndcg"]) == {"1", "2", "3", "5", "10"}
    assert scores["precision"]["2"] > 0.8
    assert scores["average_precision"] > 0.8
    known = json.loads(run("info", out, "--json").stdout)
    assert (known["k"], known["n_examples"], known["objective"]) == (2, 30, result["objective"])
    assert known["weights"][0]["feature"] == "feature 1"
    for text in (run(*args).stdout, run("evaluate", out, test).stdout, run("info", out).stdout):
        assert text
    assert "valid P@2" in run(*args).stdout


def test_scores_are_those_of_the_model(model, tmp_path):
    test = write_queries(tmp_path / "test.txt", 5, seed=1)
    queries = read_queries(test)
    expected = np.concatenate([x @ load(model).coef_ for x in queries.X])
    piped = run("predict", model, "-", stdin=test.read_text()).stdout.splitlines()
    assert np.allclose(np.array(piped, dtype=float), expected, rtol=1e-12)
    run("predict", model, test, "-o", tmp_path / "scores.tsv")
    header, *rows = [line.split("\t") for line in (tmp_path / "scores.tsv").read_text().splitlines()]
    assert header == ["query", "document", "score"]
    assert rows[7] == ["1", "document 1/1", piped[7]]
    scores = json.loads(run("evaluate", model, test, "--json").stdout)
    found = np.split(expected, 5)
    mean = np.mean([precision_at_k(y, s, 3) for y, s in zip(queries.Y, found, strict=True)])
    assert scores["precision"]["3"] == pytest.approx(mean)


@pytest.mark.parametrize(
    ("remark", "shown"),
    [
        ("docid = GX000-00 inc = 1 prob = 0.07", "GX000-00"),
        ("inc=1 docid=GX1", "GX1"),
        ("plain  text", "plain text"),
        ("mydocid = 3", "mydocid = 3"),
    ],
)
def test_documents_are_named_by_their_docid(remark, shown, model, tmp_path):
    data = tmp_path / "test.txt"
    data.write_text(f"0 qid:7 1:1 # {remark}\n")
    run("predict", model, data, "-o", tmp_path / "scores.tsv")
    assert (tmp_path / "scores.tsv").read_text().splitlines()[1].split("\t")[:2] == ["7", shown]


def test_queries_without_relevant_documents(train, tmp_path):
    mixed = tmp_path / "mixed.txt"
    mixed.write_text(train.read_text() + "0 qid:x 1:1\n0 qid:x 2:1\n0 qid:x 3:1\n")
    result = run("train", "rank", mixed, "--k", 3, "-o", tmp_path / "model")
    assert "1 of 31 queries have at most 3 documents" in result.stderr
    scores = json.loads(run("evaluate", tmp_path / "model", mixed, "--json").stdout)
    assert (scores["n_examples"], scores["n_without_relevant"]) == (31, 1)
    assert "31, 1 without a relevant document" in run("evaluate", tmp_path / "model", mixed).stdout


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("0 qid:1 1:1\n0 qid:1 1:2\n", ["--k", 1], "at least one relevant document"),
        ("1 qid:1 1:1\n0 qid:1 1:2\n", ["--k", 2], "--k must be less than 2"),
        ("1 qid:1 1:1\n0 1:2\n", [], "{data}, line 2: expected the query after the grade"),
        ("1 qid:1 1:1\n0 qid:2 1:1\n1 qid:1 1:1\n", [], "{data}, line 3: expected adjacent lines of each query"),
        ("-1 qid:1 1:1\n", [], "{data}, line 1: expected a grade, an integer from 0"),
        ("1 qid:1 1:nan\n", [], "{data}, line 1: expected a finite number"),
        ("1 qid:1 2:1 1:1\n", [], ", line 1: expected an index above 2, as"),
        ("", [], ", line 1: expected lines such as 2 qid:7 1:0.5"),
        ("1 qid:1\n", [], ", line 1: expected index:value pairs"),
        ("1 qid:1 0:1\n", [], "at least 1"),
        ("1 qid:1 1:1\n0 qid:1 1:2\n", ["--k", 1, "-C", 0], "C must be"),
        ("1 qid:1 1:1\n1 qid:1 1:2\n", ["--model", "pairwise"], "pair"),
    ],
)
def test_bad_training_data(text, options, message, tmp_path):
    data = tmp_path / "bad.txt"
    data.write_text(text)
    assert message.format(data=data) in fail("train", "rank", data, "-o", tmp_path / "model", *options)
    assert not (tmp_path / "model").exists()


def test_data_that_do_not_fit_the_model(model, train, tmp_path):
    wide = tmp_path / "wide.txt"
    wide.write_text("1 qid:1 4:1\n")
    for command in ("predict", "evaluate"):
        message = fail(command, model, wide)
        assert f"{wide}, line 1: " in message
        assert "at most 3" in message
    assert "--positive must be left out for a" in fail("evaluate", model, train, "--positive", train)
    assert "DATA must be given" in fail("evaluate", model)
    assert "a writable path" in fail("predict", model, train, "-o", tmp_path / "none" / "scores.txt")


@pytest.mark.parametrize(("field", "value"), [("k", 3), ("k", "two"), ("n_features", 4), ("kind", "motif")])
def test_damaged_record(field, value, model, train):
    settings = model / "model.json"
    content = json.loads(settings.read_text())
    content["extra"][field] = value
    settings.write_text(json.dumps(content))
    for args in (("predict", model, train), ("evaluate", model, train), ("info", model)):
        assert "expected a complete model" in fail(*args)


def test_weights_that_stay_zero_are_told(tmp_path):
    data = tmp_path / "same.txt"
    data.write_text("".join(f"{grade} qid:{query} 1:1\n" for query in range(3) for grade in (1, 0, 0)))
    reported = run("train", "rank", data, "--k", 1, "-o", tmp_path / "model", "--quiet").stderr
    assert reported.startswith("warning: training ended at w = 0")
    assert reported.endswith("or a larger C\n")


def test_interrupted_training_is_saved(tmp_path):
    data = write_queries(tmp_path / "queries.txt", 20, noise=3.0)
    out = tmp_path / "model"
    args = ("train", "rank", data, "--k", 3, "-C", 100, "--tol", 1e-9, "-o", out, "--json")
    result = run_interrupted(*args, at=lambda line: line.iteration == 1)
    assert f"interrupted: saving the best weights so far to {out}" in result.stderr
    assert json.loads(result.stdout)["stop_reason"] == load(out).stop_reason_ == "interrupted"
