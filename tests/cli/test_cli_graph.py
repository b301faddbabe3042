import json
from collections import Counter

import numpy as np
import pytest

from command import fail, run, weights_file
from latentstruct import load
from latentstruct.io import GraphFeatures, read_graphs

LABELS = ["cat", "dog", "owl"]


def make_graph(rng, size=6, unknown=0.0, topic=False, named=True):
    """A chain of nodes whose neighbors mostly share their label, which the features show with noise."""
    labels = [int(rng.integers(3))]
    for _ in range(size - 1):
        labels.append(labels[-1] if rng.random() < 0.8 else int(rng.integers(3)))
    nodes = []
    for label in labels:
        seen = label if rng.random() < 0.7 else int(rng.integers(3))
        features = {"seen": LABELS[seen], "noise": round(rng.normal(), 3)} if named else np.eye(3)[seen].tolist()
        nodes.append({"features": features, "label": None if rng.random() < unknown else LABELS[label]})
    edges = [[k, k + 1] for k in range(size - 1)]
    if topic:
        nodes.append({"type": "topic"})
        edges += [{"between": [k, size], "type": "about"} for k in range(size)]
    return {"nodes": nodes, "edges": edges}


def write_data(path, n, seed=0, **options):
    rng = np.random.default_rng(seed)
    graphs = [{"id": f"g{k}", **make_graph(rng, **options)} for k in range(n)]
    path.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    return path


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def train(tmp_path):
    return write_data(tmp_path / "train.jsonl", 30)


@pytest.mark.parametrize(
    ("model", "estimator", "options", "confident"),
    [
        ("svm", "StructuralSVM", {}, False),
        ("crf", "CRF", {}, True),
        ("latent", "StructuralSVM", {"named": False}, False),
        ("latent", "LatentSSVM", {"unknown": 0.4}, False),
        ("marginal", "MarginalSSVM", {}, True),
        ("marginal", "MarginalSSVM", {"unknown": 0.4, "topic": True}, True),
        ("hidden-crf", "HiddenCRF", {"topic": True, "named": False}, True),
    ],
)
def test_from_training_to_evaluation(model, estimator, options, confident, tmp_path):
    train = write_data(tmp_path / "train.jsonl", 30, **options)
    test = write_data(tmp_path / "test.jsonl", 20, seed=1, **{**options, "unknown": 0.0})
    out = tmp_path / "model"
    hidden = ["--hidden", "topic=2"] if options.get("topic") else []
    args = ("train", "graph", train, "--model", model, *hidden, "--valid", test, "-o", out)
    result = json.loads(run(*args, "--json").stdout)
    assert (result["kind"], result["estimator"]) == ("graph", estimator)
    assert result["inference"] == "exact"
    assert result["n_nodes"] == 30 * (6 + bool(hidden))
    assert result["latent"] == bool(options.get("unknown") or hidden)
    scores = json.loads(run("evaluate", out, test, "--json").stdout)
    assert (scores["n_examples"], scores["n_nodes"]) == (20, 120)
    assert scores["accuracy"] == result["valid"]["accuracy"] > 0.7
    assert sum(one["n_true"] for one in scores["classes"]) == 120
    known = json.loads(run("info", out, "--json").stdout)
    assert (known["n_examples"], known["n_edges"], known["objective"]) == (30, result["n_edges"], result["objective"])
    assert known["weights"]
    assert known["edge_weights"]
    run("predict", out, test, "-o", tmp_path / "predicted.jsonl")
    right, guessed = [], Counter()
    for given, found in zip(read_lines(test), read_lines(tmp_path / "predicted.jsonl"), strict=True):
        assert (found["id"], found["edges"]) == (given["id"], given["edges"])
        for before, after in zip(given["nodes"], found["nodes"], strict=True):
            if before.get("type") == "topic":
                assert after["state"] in (0, 1)
                assert "label" not in after
                continue
            right.append(before["label"] == after["label"])
            guessed[after["label"]] += 1
            assert ("confidence" in after) == confident
            assert not confident or 0 < after["confidence"] <= 1
    assert np.mean(right) == pytest.approx(scores["accuracy"])
    assert {one["label"]: one["n_predicted"] for one in scores["classes"]} == guessed
    found = [one["precision"] * one["n_predicted"] for one in scores["classes"] if one["n_predicted"]]
    assert sum(found) == pytest.approx(sum(right))


def test_from_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path / "train.jsonl", 20, unknown=0.3)
    write_data(tmp_path / "test.jsonl", 5, seed=1)
    run("train", "graph", "train.jsonl", "--quiet")
    run("predict", "model", "test.jsonl", "-o", "predicted.jsonl.gz")
    assert json.loads(run("evaluate", "model", "predicted.jsonl.gz", "--json").stdout)["accuracy"] == 1
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    model = {"model/model.json", f"model/{weights_file('model').name}"}
    assert found == model | {"train.jsonl", "test.jsonl", "predicted.jsonl.gz"}


def test_texts_for_people(train, tmp_path):
    out = tmp_path / "model"
    test = write_data(tmp_path / "test.jsonl", 5, seed=1)
    shown = run("train", "graph", train, "--valid", test, "-o", out)
    assert "read 30 graphs, 180 nodes and 150 edges" in shown.stderr
    assert "valid accuracy" in shown.stdout
    assert "with known labels" in run("evaluate", out, test).stdout
    reported = run("info", out).stdout
    assert "seen=cat" in reported
    assert "edge (node – node)" in reported
    assert "cat, dog, owl" in reported


def test_predictions_are_those_of_the_model(train, tmp_path):
    out = tmp_path / "model"
    run("train", "graph", train, "--model", "crf", "-o", out, "--quiet")
    test = write_data(tmp_path / "test.jsonl", 5, seed=1)
    piped = [json.loads(line) for line in run("predict", out, "-", stdin=test.read_text()).stdout.splitlines()]
    features = GraphFeatures().fit(read_graphs(train))
    X = features.transform(read_graphs(test))
    expected = load(out).predict(X)
    shares = load(out).confidence(X)
    for graph, labels, confidences in zip(piped, expected, shares, strict=True):
        assert [node["label"] for node in graph["nodes"]] == labels.tolist()
        np.testing.assert_allclose([node["confidence"] for node in graph["nodes"]], confidences, atol=1e-6)
    (tmp_path / "again.jsonl").write_text("".join(json.dumps(graph) + "\n" for graph in piped))
    assert json.loads(run("evaluate", out, tmp_path / "again.jsonl", "--json").stdout)["accuracy"] == 1


def test_types_with_labels_of_their_own(tmp_path):
    data, out = tmp_path / "typed.jsonl", tmp_path / "model"
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(20):
        kind, size = int(rng.integers(2)), int(rng.integers(3))
        nodes = [
            {"name": "n", "type": "animal", "features": {f"k{kind}": 1}, "label": LABELS[kind]},
            {"type": "size", "features": {f"s{size}": 1}, "label": "SML"[size]},
        ]
        lines.append(json.dumps({"nodes": nodes, "edges": [{"between": ["n", 1], "features": {"near": 1}}]}) + "\n")
    data.write_text("".join(lines))
    result = json.loads(run("train", "graph", data, "--labels-by-type", "-C", 10, "-o", out, "--json").stdout)
    known = json.loads(run("info", out, "--json").stdout)
    states = {one["type"]: one["states"] for one in known["node_types"]}
    assert states == {"animal": ["cat", "dog"], "size": ["L", "M", "S"]}
    assert result["n_weights"] == 5 * 2 + 5 * 3 + 2 * 2 * 3 + 2 + 3
    assert json.loads(run("evaluate", out, data, "--json").stdout)["accuracy"] == 1


def test_weights_of_each_node_and_edge(tmp_path, train):
    shared, own = tmp_path / "shared", tmp_path / "own"
    run("train", "graph", train, "-o", shared, "--quiet")
    run("train", "graph", train, "--unshared", "-o", own, "--quiet")
    sizes = [json.loads(run("info", one, "--json").stdout)["n_weights"] for one in (shared, own)]
    assert sizes == [5 * 3 + 9, 6 * 5 * 3 + 5 * 9]
    reported = json.loads(run("info", own, "--json").stdout)
    assert reported["weights"][0]["type"].startswith("node ")
    assert reported["edge_weights"][0]["type"].startswith("node ")
    short = write_data(tmp_path / "short.jsonl", 2, size=4)
    assert f"{short}, graph 1: " in fail("predict", own, short)


def test_numbers_as_labels(tmp_path):
    rng = np.random.default_rng(0)
    data, out = tmp_path / "numbers.jsonl", tmp_path / "model"
    graphs = [make_graph(rng, unknown=0.3, topic=True) for _ in range(20)]
    for graph in graphs:
        for node in graph["nodes"][:-1]:
            node["label"] = -1 if node["label"] is None else LABELS.index(node["label"])
        graph["edges"].append([0, 1])
    data.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    run("train", "graph", data, "--hidden", "topic=4", "--restarts", 2, "-o", out, "--quiet")
    found = [json.loads(line) for line in run("predict", out, data).stdout.splitlines()]
    assert {node.get("label") for graph in found for node in graph["nodes"]} <= {0, 1, 2, None}
    assert all("label" not in graph["nodes"][-1] and graph["nodes"][-1]["state"] < 4 for graph in found)
    assert json.loads(run("evaluate", out, data, "--json").stdout)["accuracy"] > 0.7


def test_a_type_without_labels_is_warned_of(tmp_path):
    data = write_data(tmp_path / "topics.jsonl", 5, topic=True)
    args = ("train", "graph", data, "--max-iter", 2, "-o", tmp_path / "model", "--quiet")
    warned = run(*args).stderr
    assert f"warning: all nodes of the type 'topic' of {data} are unlabeled" in warned
    assert "--hidden topic=K" in warned
    assert "all nodes of the type" not in run(*args, "--hidden", "topic=2").stderr


def test_many_labels_are_cut_visibly(tmp_path):
    data, out = tmp_path / "many.jsonl", tmp_path / "model"
    nodes = [{"features": {f"f{k}": 1}, "label": k} for k in range(31)]
    data.write_text(json.dumps({"nodes": nodes}) + "\n")
    run("train", "graph", data, "--max-iter", 2, "-o", out, "--quiet")
    assert "29, …" in " ".join(run("info", out).stdout.split())
    data.write_text(json.dumps({"nodes": nodes[:30]}) + "\n")
    run("train", "graph", data, "--max-iter", 2, "-o", out, "--quiet")
    assert "…" not in run("info", out).stdout


def test_loopy_graphs_train(tmp_path):
    rng = np.random.default_rng(0)
    graphs = [make_graph(rng, size=8) for _ in range(5)]
    for graph in graphs:
        graph["edges"] += [[k, k + 3] for k in range(5)]
    data, out = tmp_path / "loops.jsonl", tmp_path / "model"
    data.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    limits = ("--max-entries", 9, "--max-iter", 5)
    result = json.loads(run("train", "graph", data, *limits, "-o", out, "--quiet", "--json").stdout)
    assert not result["certified"]
    estimates = "belief propagation (not exact) for 5 of 5 graphs, whose width is too large"
    assert result["inference"] == estimates
    assert run("predict", out, data).stderr.strip() == estimates
    assert json.loads(run("evaluate", out, data, "--json").stdout)["accuracy"] > 0.5
    bounded = run("train", "graph", data, *limits, "--wide", "bounds", "-o", out, "--quiet", "--json").stdout
    assert json.loads(bounded)["inference"].startswith("maxima with upper bounds, sums by belief propagation")


NODE = {"features": {"a": 1}, "label": "cat"}


@pytest.mark.parametrize(
    ("graphs", "options", "message"),
    [
        ([{"nodes": [NODE], "edges": [[0, 1]]}], [], "{data}, line 1: expected a number from 0 to 0 as an"),
        ([{"nodes": [{}, {"label": None}]}], [], "{data}: expected some nodes with labels"),
        (
            [{"nodes": [NODE, {}]}],
            ["--model", "svm"],
            "1 of 2 nodes of {data} are unlabeled",
        ),
        ([{"nodes": [NODE, {}]}], ["--model", "crf"], "--model must be marginal, latent or hidden-crf"),
        ([{"nodes": [NODE]}], ["--hidden", "topic=3"], "--hidden must be a type of the nodes of {data}"),
        ([{"nodes": [NODE]}], ["--hidden", "topic"], "--hidden must be a type of nodes"),
        ([{"nodes": [NODE]}], ["--hidden", "topic=0"], "--hidden must be a type of nodes"),
        ([{"nodes": [NODE]}], ["--hidden", "a=2", "--hidden", "a=3"], "--hidden must be given once per type"),
        (
            [{"nodes": [NODE]}, {"id": "x", "nodes": [NODE, {"type": "t", "label": "cat"}]}],
            ["--hidden", "t=2"],
            "{data}, graph 2 (x), node 1: expected no label",
        ),
        (
            [{"nodes": [NODE, {"type": "t"}]}],
            ["--labels-by-type"],
            "--labels-by-type must be left out if all",
        ),
        (
            [{"nodes": [NODE]}, {"nodes": [NODE, {**NODE, "label": "dog"}]}],
            ["--unshared"],
            "{data}, graph 2: ",
        ),
        ([{"nodes": [NODE, {"label": "-1"}]}], [], "{data}, line 1: expected a label of node 1, or null"),
        (
            [{"nodes": [NODE, {**NODE, "label": "dog"}, {"type": "t"}], "edges": [[0, 2]]}],
            ["--hidden", "t=9000000"],
            "at most 10000000 pairs of states per edge",
        ),
        ([{"nodes": [NODE]}], ["--restarts", 2], "--restarts must be left out if every node"),
        ([{"nodes": [{"label": "cat"}]}], ["--no-bias"], "DATA must be graphs with features of"),
        ([{"nodes": [NODE, {**NODE, "label": "dog"}]}], ["-C", "0"], "C must be"),
    ],
)
def test_bad_training_data(graphs, options, message, tmp_path):
    data = tmp_path / "bad.jsonl"
    data.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    assert message.format(data=data) in fail("train", "graph", data, "-o", tmp_path / "model", *options)
    assert not (tmp_path / "model").exists()


def test_data_that_do_not_fit_the_model(train, tmp_path):
    out, data = tmp_path / "model", tmp_path / "new.jsonl"
    run("train", "graph", train, "-o", out, "--quiet")

    def refuse(command, graph):
        data.write_text(json.dumps(graph) + "\n")
        return fail(command, out, data)

    strange = refuse("evaluate", {"id": 3, "nodes": [{"label": "emu"}]})
    assert f"{data}, graph 1 (3), node 0: expected a label of the model (cat, dog, owl), got 'emu'" in strange
    allowed = json.loads(run("evaluate", out, data, "--allow-unknown", "--json").stdout)
    assert (allowed["accuracy"], allowed["n_nodes"]) == (0, 1)
    assert f"{data}: expected some nodes with labels" in refuse("evaluate", {"nodes": [{}]})
    for command in ("predict", "evaluate"):
        assert "graph 1" in refuse(command, {"nodes": [{"type": "bird", "label": "cat"}]})
        edges = {"nodes": [{"label": "cat"}, {}], "edges": [{"between": [0, 1], "type": "far"}]}
        assert f"{data}, graph 1: " in refuse(command, edges)
        assert "graph 1" in refuse(command, {"nodes": [{"features": [1], "label": "cat"}]})
    assert f"{tmp_path / 'none.jsonl'}: expected a readable file" in fail("predict", out, tmp_path / "none.jsonl")
    assert "--output must be another file than the" in fail("predict", out, train, "-o", train)
    assert "--positive must be left out for a" in fail("evaluate", out, train, "--positive", train)


@pytest.mark.parametrize(
    ("field", "value"),
    [("n_nodes", "many"), ("kind", "rank"), ("features", {}), ("features", {"nodes": None})],
)
def test_damaged_record(field, value, train, tmp_path):
    out = tmp_path / "model"
    run("train", "graph", train, "--max-iter", 1, "-o", out, "--quiet")
    content = json.loads((out / "model.json").read_text())
    content["extra"][field] = value
    (out / "model.json").write_text(json.dumps(content))
    for args in (("predict", out, train), ("evaluate", out, train), ("info", out)):
        assert "expected a complete model" in fail(*args)


def test_features_of_another_model(train, tmp_path):
    out = tmp_path / "model"
    run("train", "graph", train, "--max-iter", 1, "-o", out, "--quiet")
    content = json.loads((out / "model.json").read_text())
    content["extra"]["features"]["nodes"] |= {"names": ["noise"], "width": 1}
    (out / "model.json").write_text(json.dumps(content))
    assert "its features do not belong to its weights" in fail("predict", out, train)
