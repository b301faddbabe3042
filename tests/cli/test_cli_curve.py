"""Learning curves of every kind."""

import json

import pytest

from command import fail, run
from latentstruct.cli.registry import KINDS

QUICK = ["--max-iter", "2", "-q"]
IMAGES = ("segment", "detect")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("curves")
    for name, kind in KINDS.items():
        if name not in IMAGES:
            (folder / kind.example_file).write_bytes(kind.example())
    return folder


def curve_of(*args):
    return json.loads(run("curve", *args, "--json", *QUICK).stdout)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in KINDS if name not in IMAGES])
def test_every_kind_has_a_curve(name, data):
    result = curve_of(name, data / KINDS[name].example_file, "--fractions", "0.4,1", "--folds", "2")
    first, last = result["points"]
    assert 0 < first["n_examples"] < last["n_examples"]
    folds = [[one["scores"]["score"]["folds"][k] for one in (first, last)] for k in range(2)]
    assert result["gain"]["folds"] == pytest.approx([after - before for before, after in folds])
    for one in last["scores"].values():
        assert one["mean"] == pytest.approx(sum(one["folds"]) / 2)
    assert f"from {first['n_examples']} to {last['n_examples']} training examples" in result["conclusion"]


@pytest.mark.filterwarnings("ignore")
def test_all_training_examples_give_the_out_of_fold_scores(data, tmp_path):
    file = data / "classes.csv"
    result = curve_of("classes", file, "--fractions", "0.05,1", "--folds", "3")
    trained = run("train", "classes", file, "-o", tmp_path, "--folds", "3", "--json", *QUICK).stdout
    last = result["points"][-1]["scores"]
    assert last["score"]["folds"] == pytest.approx(json.loads(trained)["out_of_fold"]["score"]["folds"])
    assert result["main"] == "accuracy"


def test_the_conclusion_follows_the_scores(data, tmp_path):
    (tmp_path / "constant.csv").write_text("\n".join(["label,x", *(f"{i % 2},1" for i in range(40))]) + "\n")
    for file, begin in ((data / "classes.csv", "More data still helps"), (tmp_path / "constant.csv", "No clear gain")):
        options = ["--label", "variety" if file.parent == data else "label", "--fractions", "0.05,1", "-q"]
        assert f"result  {begin}" in run("curve", "classes", file, *options).stdout


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_the_curve_is_drawn(suffix, data, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    file = tmp_path / f"curve.{suffix}"
    shown = run("curve", "chain", data / "chain.txt", "--fractions", "0.1,1", "--folds", "2", "-o", file, *QUICK).stdout
    assert "chunk F1" in shown
    assert str(file) in shown
    begin = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype html"}[suffix]
    assert file.read_bytes().lower().startswith(begin.lower())
    assert suffix != "html" or "training examples, chunk F1" in file.read_text()


@pytest.mark.filterwarnings("ignore")
def test_groups_stay_together_and_C_is_chosen(data, tmp_path):
    n_samples = len((data / "classes.csv").read_text().splitlines()) - 1
    groups = tmp_path / "groups.txt"
    groups.write_text("".join(f"{i // 20}\n" for i in range(n_samples)))
    fractions = ["--fractions", "0.4,1", "--folds", "2", "--groups", groups, "--C", "auto"]
    result = curve_of("classes", data / "classes.csv", *fractions)
    assert [one["n_examples"] % 20 for one in result["points"]] == [0, 0]


@pytest.mark.parametrize("text", ["1", "0.5,0.1", "0,1", "0.5,2", "0.1;1", "a,1", "0.1,,1", "nan,1", ""])
def test_fractions_are_checked(text, data):
    message = "--fractions must be at least two increasing numbers above 0 and at most 1"
    assert message in fail("curve", "classes", data / "classes.csv", "--fractions", text, "-q")


def test_contradictions_are_refused(data, tmp_path):
    file = data / "classes.csv"
    n_samples = len(file.read_text().splitlines()) - 1
    for fractions, message in {
        "0.0001,1": f"large enough for 1 of {n_samples // 2} training examples",
        "0.01,1": "of two classes",
        "0.5,0.50001": "Each fraction needs more",
    }.items():
        assert message in fail("curve", "classes", file, "--folds", "2", "--fractions", fractions, "-q")
    assert "--output must be a file whose name ends in .png" in fail("curve", "classes", file, "-o", tmp_path / "a.txt")
    assert "--valid" in fail("curve", "classes", file, "--valid", file)
    run("prepare", "classes", file, "-o", tmp_path / "prepared", "-q")
    assert "DATA must be a plain file" in fail("curve", "classes", tmp_path / "prepared")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["chain", "graph"])
def test_curves_over_the_share_of_labels(name, data, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "curve.html"
    file = data / KINDS[name].example_file
    result = curve_of(name, file, "--label-fractions", "0.2,1", "--folds", "2", "-o", page)
    first, last = result["points"]
    assert 0 < first["n_labels"] == pytest.approx(0.2 * last["n_labels"], rel=0.2)
    assert f"from {first['n_labels']} to {last['n_labels']} training labels" in result["conclusion"]
    assert "training labels" in page.read_text()
    again = curve_of(name, file, "--label-fractions", "0.2,1", "--folds", "2")
    assert again["points"] == result["points"]


def test_curves_over_labels_are_refused_where_all_labels_are_needed(data):
    classes, chain = data / "classes.csv", data / KINDS["chain"].example_file
    refused = fail("curve", "classes", classes, "--label-fractions", "0.1,1")
    assert "--label-fractions must be left out for classes" in refused
    assert "--fractions" in fail("curve", "chain", chain, "--label-fractions", "0.1,1", "--fractions", "0.5,1")
    auto = fail("curve", "chain", chain, "--label-fractions", "0.1,1", "-C", "auto")
    assert "must be a number with --label-fractions" in auto
    assert "increasing numbers" in fail("curve", "chain", chain, "--label-fractions", "1,0.1")
