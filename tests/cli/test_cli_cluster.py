import json

import numpy as np
import pytest

from command import fail, run
from error_fields import raises
from latentstruct import load
from latentstruct.exceptions import FormatError
from latentstruct.features.pairs import pair_features
from latentstruct.io.groups import read_groups, write_groups


def write_items(path, n_groups, seed=0, clusters=True, delimiter=","):
    """Write groups whose clusters lie apart in two of three features, the rows of all groups mixed."""
    rng = np.random.default_rng(seed)
    rows = []
    for group in range(n_groups):
        labels = rng.integers(0, 3, 8)
        places = 4 * rng.normal(size=(3, 2))[labels] + 0.2 * rng.normal(size=(8, 2))
        for label, (a, b) in zip(labels, places.round(3), strict=True):
            rows.append([f"g{group}", *([f"c{label}"] if clusters else []), a, b, round(rng.normal(), 3)])
    header = ["group", *(["cluster"] if clusters else []), "a", "b", "noise"]
    lines = [header, *(rows[j] for j in rng.permutation(len(rows)))]
    path.write_text("".join(delimiter.join(map(str, line)) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("name", ["correlation", "latent"])
def test_from_training_to_evaluation(name, tmp_path):
    train, test = write_items(tmp_path / "train.csv", 20), write_items(tmp_path / "test.tsv", 20, 1, delimiter="\t")
    out = tmp_path / "model"
    args = ("train", "cluster", train, "--model", name, "--valid", test, "-o", out)
    result = json.loads(run(*args, "--json").stdout)
    assert (result["kind"], result["latent"]) == ("cluster", name == "latent")
    assert (result["n_examples"], result["n_items"], result["n_pairs"], result["n_features"]) == (20, 160, 560, 5)
    scores = json.loads(run("evaluate", out, test, "--json").stdout)
    assert result["valid"].items() <= scores.items()
    assert scores["pairs"]["f1"] > 0.8
    known = json.loads(run("info", out, "--json").stdout)
    assert {one["feature"] for one in known["weights"]} >= {"difference of a", "difference of b"}
    assert "pair loss" in run("evaluate", out, test).stdout
    assert "strongest weights" in run("info", out).stdout
    assert "valid pair F1" in run(*args).stdout


def test_clusters_are_those_of_the_model(tmp_path):
    train = write_items(tmp_path / "train.csv", 20)
    run("train", "cluster", train, "--relations", "distance, cosine", "-o", tmp_path / "model", "--quiet")
    test = write_items(tmp_path / "test.csv", 3, 1, clusters=False)
    rows = [line.split(",") for line in run("predict", tmp_path / "model", "-", stdin=test.read_text()).stdout.split()]
    assert rows[0] == ["group", "cluster"]
    given = [line.split(",")[0] for line in test.read_text().split()]
    assert [row[0] for row in rows] == given
    groups = read_groups(test)
    found = load(tmp_path / "model").predict([pair_features(items, ["distance", "cosine"]) for items in groups.items])
    for name, labels in zip(groups.names, found, strict=True):
        assert [row[1] for row in rows if row[0] == name] == [str(label) for label in labels]


def test_tables_there_and_back(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text('x,group\n1,"a, ""b"""\n\n2,c\n3,"a, ""b"""\n')
    groups = read_groups(path)
    assert groups.names == ['a, "b"', "c"]
    assert [rows.tolist() for rows in groups.rows] == [[0, 2], [1]]
    assert [items.tolist() for items in groups.items] == [[[1.0], [3.0]], [[2.0]]]
    assert groups.clusters is None
    write_groups(tmp_path / "out.csv", groups, [[0, 1], ["z"]])
    assert (tmp_path / "out.csv").read_text() == 'group,cluster\n"a, ""b""",0\nc,z\n"a, ""b""",1\n'
    with raises("clusters", got="[1, 1] labels", expected="[2, 1] labels, one per item"):
        write_groups(tmp_path / "out.csv", groups, [[0], ["z"]])


def test_items_without_groups_are_one_group(tmp_path):
    path = tmp_path / "items.tsv"
    path.write_text("cluster\tx\nu\t1\nv\t2\n")
    groups = read_groups(path)
    assert (groups.names, groups.clusters, groups.feature_names) == ([""], [["u", "v"]], ["x"])
    write_groups(tmp_path / "out.tsv", groups, [[0, 1]])
    assert (tmp_path / "out.tsv").read_text() == "cluster\n0\n1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ", line 1: expected a header row and one row"),
        ("group,x\n", ", line 1: expected a header row and one row"),
        ("group,cluster\na,b\n", ", line 1: expected columns of features"),
        ("group,x,x\n", ", line 1: expected distinct column names"),
        ("Group,x\n1,2\n", ", line 1: expected the column name 'group' in"),
        ("group;cluster;x\na;1;2\n", ", line 1: expected columns separated by commas"),
        ("group,,x\n", ", line 1: expected a name per column"),
        ("group,x\na\n", ", line 2: expected 2 cells as in the header"),
        ("group,x\n,1\n", ", line 2: expected a group"),
        ("group,x\na,nan\n", ", line 2: expected a finite number in column"),
        ("group,x\na,b\n", ", line 2: expected a finite number in column"),
        ("group,x\na,1_0\n", ", line 2: expected a finite number in column"),
        ('group,x\n"a,1\n', ", line 2: expected cells separated by commas"),
    ],
)
def test_bad_files(text, message, tmp_path):
    path = tmp_path / "items.csv"
    path.write_text(text)
    with pytest.raises(FormatError) as error:
        read_groups(path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("group,x\na,1\n", [], "expected a column cluster"),
        (
            "group,cluster,x\na,1,1\na,2,2\n",
            ["--relations", "sum"],
            "--relations must be some of difference, product",
        ),
        (
            "group,cluster,x\na,1,1\na,2,2\n",
            ["--relations", "cosine,cosine"],
            "--relations must be some of difference, product",
        ),
        ("group,cluster,x\na,1,1\nb,2,2\n", [], "expected groups with pairs"),
        ("group,cluster,x\na,1,1e300\na,2,-1e300\n", [], ": expected small enough for finite"),
        ("group,cluster,x\na,1,1\na,2,2\n", ["-C", 0], "-C must be"),
    ],
)
def test_bad_training(text, options, message, tmp_path):
    data = tmp_path / "train.csv"
    data.write_text(text)
    assert message in fail("train", "cluster", data, "-o", tmp_path / "model", *options)


def test_prediction_needs_the_same_features(tmp_path):
    train, other = write_items(tmp_path / "train.csv", 3), tmp_path / "other.csv"
    run("train", "cluster", train, "-o", tmp_path / "model", "--quiet")
    other.write_text("group,x\na,1\n")
    assert "expected the features a, b, noise" in fail("predict", tmp_path / "model", other)
