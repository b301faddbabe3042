"""The command with several outputs of an example, outputs of least risk, fixed labels and rules in prediction."""

import json
import math
from collections import Counter

import pytest

from command import fail, run
from latentstruct import io, load

KINDS = {
    "chain": "chain.txt",
    "segments": "segments.jsonl",
    "graph": "graph.jsonl",
    "parse": "parse.mrg",
    "align": "align.fa",
}
TEXT = "Ann B-PER\nLee I-PER\nleft O\n\nin O\nOslo B-LOC\nBay I-LOC\n\n" * 4


def graphs():
    """Paths of nodes whose labels follow from their features, with some errors."""
    lines = []
    for k in range(20):
        nodes = [{"features": [(k * j) % 3, (k + j) % 4], "label": "xyz"[(k * j + k // 7) % 3]} for j in range(4)]
        lines.append(json.dumps({"nodes": nodes, "edges": [[0, 1], [1, 2], [2, 3]]}))
    return "\n".join(lines).encode()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of models and their data by the names of their kinds."""
    folder = tmp_path_factory.mktemp("answers")
    for kind, name in KINDS.items():
        (folder / name).write_bytes(graphs() if kind == "graph" else run("example", kind).stdout_bytes)
        options = ("--model", "crf", "--max-iter", "10", "--quiet", "-o", folder / kind)
        run("train", kind, folder / name, *options)
    # Samples of all examples would take long.
    pairs = io.read_alignments(folder / "align.fa")
    few = (pairs.names[:3], pairs.sequences[:3], pairs.matches[:3])
    io.write_alignments(folder / "align.fa", io.SequencePairs(*few))
    for name in ("parse.mrg", "segments.jsonl"):
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:12]))
    return folder


def outputs(kind, text):
    """The predictions of a file: (example, output, rank, probability) each."""
    if kind == "chain":
        blocks = [[line.split() for line in block.splitlines()] for block in text.strip().split("\n\n")]
        return [
            (tuple(t[0] for t in one), tuple(t[2] for t in one), int(one[0][3]), float(one[0][4])) for one in blocks
        ]
    if kind == "parse":
        rows = [line.split("\t") for line in text.splitlines()]
        return [(number, tree, int(rank), float(share)) for number, rank, share, tree in rows]
    if kind == "align":
        records = text[1:].split("\n>")
        found = []
        for first, second in zip(records[::2], records[1::2], strict=True):
            (name, rank, share), rows = (
                first.splitlines()[0].split(),
                (first.split("\n", 1)[1], second.split("\n", 1)[1]),
            )
            found.append((name, rows, int(rank.partition("=")[2]), float(share.partition("=")[2])))
        return found
    records = [json.loads(line) for line in text.splitlines()]
    if kind == "graph":
        made = [
            (str([node["features"] for node in one["nodes"]]), [n.get("label") for n in one["nodes"]])
            for one in records
        ]
    else:
        made = [(str(one["tokens"]), one["spans"]) for one in records]
    return [(x, str(y), one["rank"], one["probability"]) for (x, y), one in zip(made, records, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_outputs_are_ranked(kind, trained):
    found = outputs(kind, run("predict", trained / kind, trained / KINDS[kind], "--topk", "3").stdout)
    examples = Counter()
    last = 1.0
    for _, _, rank, share in found:
        examples[rank] += 1
        assert share <= (1 if rank == 1 else last) + 1e-9
        last = share
    assert examples[1] >= examples[2] >= examples[3] > 0
    assert len({(x, y) for x, y, *_ in found}) > examples[1]


@pytest.mark.parametrize("kind", KINDS)
def test_samples_and_least_risk(kind, trained, tmp_path):
    data = trained / KINDS[kind]
    drawn = run("predict", trained / kind, data, "--samples", "2").stdout
    assert drawn == run("predict", trained / kind, data, "--samples", "2", "--seed", "0").stdout
    assert drawn != run("predict", trained / kind, data, "--samples", "2", "--seed", "1").stdout
    run("predict", trained / kind, data, "--decode", "risk", "-o", tmp_path / "risk")
    if kind in ("chain", "segments", "parse"):
        run("predict", trained / kind, data, "--decode", "f1", "-o", tmp_path / "f1")
    else:
        message = fail("predict", trained / kind, data, "--decode", "f1")
        assert "--decode must be left out for a" in message
    assert "evaluate" not in run("evaluate", trained / kind, data, "--decode", "risk").stdout


def test_labels_are_fixed(trained, tmp_path):
    (tmp_path / "train.txt").write_text(TEXT)
    run("train", "chain", tmp_path / "train.txt", "--quiet", "-o", tmp_path / "tagger")
    text = "Ann ?\nLee B-LOC\nleft ?\n\n"
    lines = run("predict", tmp_path / "tagger", "-", "--pins", stdin=text).stdout.split("\n")
    assert lines[1].split() == ["Lee", "B-LOC", "B-LOC"]
    wrong = fail("predict", tmp_path / "tagger", "-", "--pins", stdin="Ann B-DOG\n\n")
    assert "B-DOG" in wrong
    shown = run("predict", tmp_path / "tagger", "-", "--pins", "--topk", "200", stdin=text).stdout
    blocks = [block.splitlines() for block in shown.strip().split("\n\n")]
    assert all(block[1].split()[2] == "B-LOC" for block in blocks)
    assert sum(float(block[0].split()[4]) for block in blocks) == pytest.approx(1, abs=1e-2)
    message = fail("predict", tmp_path / "tagger", "-", "--samples", "3", "--topk", "2", stdin=text)
    assert "must be left out with" in message
    assert "must be left out with" in fail(
        "predict", tmp_path / "tagger", "-", "--pins", "--decode", "risk", stdin=text
    )


def test_spans_and_nodes_are_fixed(trained):
    first = json.loads((trained / "segments.jsonl").read_text().splitlines()[0])
    label = first["spans"][0][2]
    fixed = {"tokens": first["tokens"], "spans": [[0, 1, label]]}
    found = json.loads(run("predict", trained / "segments", "-", "--pins", stdin=json.dumps(fixed)).stdout)
    assert [0, 1, label] in found["spans"]
    record = json.loads((trained / "graph.jsonl").read_text().splitlines()[0])
    known = sorted({node["label"] for node in record["nodes"]})
    for wanted in known:
        for k, node in enumerate(record["nodes"]):
            node["label"] = wanted if k == 0 else None
        found = json.loads(run("predict", trained / "graph", "-", "--pins", stdin=json.dumps(record)).stdout)
        assert found["nodes"][0]["label"] == wanted
        assert all(node["label"] in "xyz" for node in found["nodes"])


def test_matches_are_fixed(trained, tmp_path):
    pairs = io.read_alignments(trained / "align.fa")
    one = io.SequencePairs(pairs.names[:1], pairs.sequences[:1], [[[0, 2]]])
    # The other letters are in lower case, so that only this column is aligned.
    io.write_alignments(tmp_path / "pair.fa", one)
    text = (tmp_path / "pair.fa").read_text().split(">")[1:]
    rows = ["".join(part.splitlines()[1:]) for part in text]
    column = next(k for k, (a, b) in enumerate(zip(*rows, strict=True)) if "-" not in (a, b))
    shown = [row[:column].lower() + row[column] + row[column + 1 :].lower() for row in rows]
    (tmp_path / "pair.fa").write_text(f">a\n{shown[0]}\n>b\n{shown[1]}\n")
    run("predict", trained / "align", tmp_path / "pair.fa", "--pins", "-o", tmp_path / "out.fa")
    assert [0, 2] in io.read_alignments(tmp_path / "out.fa").matches[0].tolist()


def test_kinds_without_answers_refuse(tmp_path):
    (tmp_path / "classes.csv").write_bytes(run("example", "classes").stdout_bytes)
    run("train", "classes", tmp_path / "classes.csv", "--quiet", "-o", tmp_path / "model")
    for options in (("--topk", "2"), ("--samples", "2"), ("--decode", "risk"), ("--pins",), ("--rules", "BIO")):
        message = fail("predict", tmp_path / "model", tmp_path / "classes.csv", *options)
        assert f"{options[0]} must be left out for a classes model" in message
    (tmp_path / "chain.txt").write_text(TEXT)
    run("train", "chain", tmp_path / "chain.txt", "--model", "svm", "--quiet", "-o", tmp_path / "svm")
    assert "no probabilities" in fail("predict", tmp_path / "svm", tmp_path / "chain.txt", "--samples", "2")
    assert "no probabilities" in fail("predict", tmp_path / "svm", tmp_path / "chain.txt", "--decode", "risk")


# ---- rules ---------------------------------------------------------------------------------------------------


def test_forbidden_pairs_hold_in_training_and_prediction(tmp_path):
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "rules.txt").write_text("O O\n\n<s> O\nI-PER </s>\n")
    message = fail("train", "chain", tmp_path / "train.txt", "--rules", tmp_path / "rules.txt", "-o", tmp_path / "m")
    assert "token 1 of sentence 2: " in message
    (tmp_path / "rules.txt").write_text("I-PER </s>\nO I-LOC\n")
    run("train", "chain", tmp_path / "train.txt", "--rules", tmp_path / "rules.txt", "-q", "-o", tmp_path / "model")
    assert load(tmp_path / "model").model_.task_.rules == [("I-PER", None), ("O", "I-LOC")]
    run("train", "chain", tmp_path / "train.txt", "-q", "-o", tmp_path / "free")
    found = run("predict", tmp_path / "free", "-", "--rules", tmp_path / "rules.txt", stdin="left\nLee\n\n").stdout
    assert found.split()[-1] != "I-PER"
    assert run("predict", tmp_path / "free", "-", stdin="left\nLee\n\n").stdout.split()[-1] == "I-PER"
    (tmp_path / "rules.txt").write_text("B-PER\n")
    assert "line 1" in fail("predict", tmp_path / "free", "-", "--rules", tmp_path / "rules.txt", stdin="a\n\n")
    (tmp_path / "rules.txt").write_text("B-PER B-DOG\n")
    assert "B-DOG" in fail("predict", tmp_path / "free", "-", "--rules", tmp_path / "rules.txt", stdin="a\n\n")


# ---- calibration ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chain", "segments", "graph", "classes", "align"])
def test_probabilities_are_calibrated_and_compared(kind, trained, tmp_path):
    name = KINDS.get(kind, "classes.csv")
    data = trained / name
    if kind == "classes":
        data.write_bytes(run("example", kind).stdout_bytes)
    model = ("--model", "svm", "--max-iter", "10", "--valid", data, "--calibrate")
    result = json.loads(run("train", kind, data, *model, "--json", "-o", tmp_path / "model").stdout)
    found = load(tmp_path / "model")
    assert getattr(found, "model_", found).calibrated_temperature_ == result["calibrated_temperature"] > 0
    scores = json.loads(run("evaluate", tmp_path / "model", data, "--json").stdout)["calibration"]
    n = sum(one["n"] for one in scores["bins"])
    gaps = [one["n"] * abs(one["accuracy"] - one["confidence"]) for one in scores["bins"]]
    assert scores["error"] == pytest.approx(sum(gaps) / n)
    assert "calibration error" in run("evaluate", tmp_path / "model", data).stdout
    run("report", tmp_path / "model", "--data", data, "-o", tmp_path / "report.html")
    assert "Expected calibration error" in (tmp_path / "report.html").read_text()
    assert "--valid" in fail("train", kind, data, "--calibrate", "-o", tmp_path / "other")


def test_spans_have_their_probabilities(trained):
    data = trained / "segments.jsonl"
    lines = run("predict", trained / "segments", data, "--confidence").stdout.splitlines()
    records = list(map(json.loads, lines))
    model = load(trained / "segments")
    for one in records[:3]:
        spans = [[tuple(span)] for span in one["spans"]]
        shares = model.log_probability([one["tokens"]] * len(spans), spans)
        assert one["confidence"] == pytest.approx([math.exp(share) for share in shares], abs=1e-5)
    assert "left out with" in fail("predict", trained / "segments", data, "--confidence", "--topk", "2")
