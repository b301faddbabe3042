"""The command on data that need not fit into memory: prepared part by part, then trained on as any other file."""

import json
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import latentstruct
from command import fail, run
from latentstruct.data.sharded import ShardedData
from latentstruct.features.windows import WindowFeatures
from latentstruct.io import read_conll, read_svmlight
from latentstruct.io.blocks import read_conll_blocks, read_svmlight_blocks, survey_svmlight

WORDS = {"D": ("the", "a"), "N": ("cat", "dog", "bird"), "V": ("sees", "bites")}


def sentence(rng):
    tags = [("D", "N", "V"), ("D", "N", "V", "D", "N"), ("N", "V")][rng.integers(3)]
    return "".join(f"{rng.choice(WORDS[tag])} {tag.lower()} {tag}\n" for tag in tags)


@pytest.fixture
def text(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "train.txt").write_text("\n".join(sentence(rng) for _ in range(60)))
    (tmp_path / "test.txt").write_text("\n".join(sentence(rng) for _ in range(20)))
    return tmp_path


@pytest.fixture
def small_parts(monkeypatch):
    """Let files be read in many parts."""
    monkeypatch.setattr("latentstruct.io.blocks.SAMPLES", 7)
    monkeypatch.setattr(read_conll_blocks, "__defaults__", (None, 20))


def test_parts_of_a_file_are_the_file(text, small_parts):
    path = text / "train.txt"
    parts = list(read_conll_blocks(path))
    assert len(parts) > 5
    whole = read_conll(path)
    assert [line for part in parts for line in part] == list(whole)
    template = WindowFeatures(min_count=3)
    assert template.fit_blocks(parts).to_state() == WindowFeatures(min_count=3).fit(whole).to_state()


def test_training_from_a_folder_is_training_on_the_file(text, small_parts):
    folder, solver = text / "folder", ("--solver", "lbfgs", "--tol", "1e-6", "-q", "--json")
    reported = json.loads(
        run("prepare", "chain", text / "train.txt", "-o", folder, "--shard-mb", "0.1", "--json").stdout
    )
    assert (reported["kind"], reported["n_examples"], reported["n_labels"]) == ("chain", 60, 3)
    assert json.loads(run("info", folder, "--json").stdout) == reported
    results = []
    for name, data in (("direct", text / "train.txt"), ("stored", folder)):
        done = run("train", "chain", data, "-o", text / name, "--valid", text / "test.txt", *solver)
        results.append(json.loads(done.stdout))
        run("predict", text / name, text / "test.txt", "-o", text / f"{name}.txt")
    direct, stored = (latentstruct.load(text / name).model_ for name in ("direct", "stored"))
    # Two points whose objectives are within gaps of the least one are no farther apart than this.
    assert max(stored.relative_gap_, direct.relative_gap_) <= 1e-6
    gaps = stored.objective_ - direct.lower_bound_, direct.objective_ - stored.lower_bound_
    apart = np.sqrt(2 * np.array(gaps)).sum()
    assert np.linalg.norm(stored.coef_ - direct.coef_) <= apart
    assert (text / "direct.txt").read_text() == (text / "stored.txt").read_text()
    assert results[0]["valid"] == results[1]["valid"]
    assert {key for key in results[0] if key.startswith("n_")} == {key for key in results[1] if key.startswith("n_")}
    assert stored.score(ShardedData(folder)) > 0.9
    judged = [evaluate(text / model, data) for model in ("direct", "stored") for data in (text / "train.txt", folder)]
    assert all(scores == judged[0] for scores in judged)


def test_unknown_labels_stay_unknown(text, small_parts):
    path = text / "train.txt"
    path.write_text(path.read_text().replace("bites v V", "bites v ?"))
    reported = json.loads(run("prepare", "chain", path, "-o", text / "half", "--unknown", "?", "--json").stdout)
    assert reported["n_labels"] == 3
    assert reported["n_unlabeled"] > 5
    data = ShardedData(text / "half")
    assert data.task.latent
    assert sum(int((batch.truth == -1).sum()) for batch in data.batches) == reported["n_unlabeled"]
    run("train", "chain", text / "half", "-o", text / "model", "--max-iter", "3", "-q")
    assert type(latentstruct.load(text / "model").model_).__name__ == "HiddenCRF"
    assert evaluate(text / "model", text / "half") == evaluate(text / "model", path)
    assert "--unknown must be a label of" in fail("prepare", "chain", path, "-o", text / "no", "--unknown", "§")


def test_samples_are_prepared_too(tmp_path, small_parts):
    rng = np.random.default_rng(0)
    lines = [f"{'ab'[k % 2]} {k % 2 + 1}:{rng.random():.3f} {rng.integers(3, 9)}:1" for k in range(40)]
    path = tmp_path / "train.svm"
    path.write_text("# samples\n" + "\n".join([*lines[:20], "a", "", *lines[20:]]))
    X, y = read_svmlight(path)
    n_features, labels, n_samples = survey_svmlight(path)
    assert (n_samples, n_features) == X.shape
    parts = list(read_svmlight_blocks(path, n_features, labels))
    assert_array_equal(np.concatenate([part.toarray() for part, _ in parts]), X.toarray())
    assert [label for _, some in parts for label in some] == y.tolist()
    run("prepare", "classes", path, "-o", tmp_path / "folder", "-q")
    for name, data in (("direct", path), ("stored", tmp_path / "folder")):
        run("train", "classes", data, "-o", tmp_path / name, "--solver", "bundle", "--tol", "1e-6", "-q")
    direct, stored = (latentstruct.load(tmp_path / name) for name in ("direct", "stored"))
    assert_allclose(stored.objective_, direct.objective_, rtol=1e-5)
    assert_array_equal(stored.predict(X), direct.predict(X))
    folder, model = tmp_path / "folder", tmp_path / "stored"
    assert run("predict", model, folder).stdout == run("predict", model, path).stdout
    assert evaluate(model, folder) == evaluate(model, path)
    (tmp_path / "other.svm").write_text(path.read_text().replace(" 8:", " 9:"))
    run("prepare", "classes", tmp_path / "other.svm", "-o", folder, "-q")
    for command in ("predict", "evaluate"):
        assert "DATA must be data prepared with the" in fail(command, model, folder)


def evaluate(model, data, *more):
    scores = json.loads(run("evaluate", model, data, *more, "--json").stdout)
    return {name: value for name, value in scores.items() if name not in ("model", "data")}


@pytest.fixture
def sequences(tmp_path):
    """Return a labeled file of sequences, and one of background."""
    (tmp_path / "both.fa").write_bytes(run("example", "motif").stdout_bytes)
    rng = np.random.default_rng(1)
    many = "".join(f">b{k}\n{''.join(rng.choice(list('ACGT'), 90))}\n" for k in range(40))
    (tmp_path / "many.fa").write_text(many)
    return tmp_path / "both.fa", tmp_path / "many.fa"


def test_a_motif_is_found_in_a_folder_as_in_the_files(sequences, tmp_path, monkeypatch):
    # Files of kilobytes and blocks of few letters, so that there are many.
    monkeypatch.setattr("latentstruct.data.shard_files.MEGABYTE", 2**10)
    monkeypatch.setattr("latentstruct.cli.kinds.motif.prepare.LETTERS_TOGETHER", 1000)
    both, many = sequences
    folder, how = tmp_path / "folder", ("--width", "11", "--restarts", "1", "-q", "--json")
    reported = json.loads(
        run("prepare", "motif", both, "--background", many, "-o", folder, "--shard-mb", "9", "--json").stdout
    )
    assert (reported["n_positive"], reported["n_negative"], reported["n_background"], reported["n_files"]) == (
        60,
        60,
        40,
        3,
    )
    results = [
        json.loads(run("train", "motif", *data, "-o", tmp_path / name, "--held-out", 0, "--strands", 1, *how).stdout)
        for name, data in (("direct", (both, "--background", many)), ("stored", (folder,)))
    ]
    assert_allclose(results[0]["objective"], results[1]["objective"], rtol=0.05)
    for name in ("consensus", "background_weight", "n_examples", "n_positive", "n_negative", "n_background"):
        assert results[0][name] == results[1][name]
    assert results[0]["training"].keys() == results[1]["training"].keys()
    model = tmp_path / "direct"
    stored = run("predict", model, folder).stdout.splitlines()
    plain = [line for path in sequences for line in run("predict", model, path).stdout.splitlines()[1:]]
    assert sorted(stored[1:]) == sorted(plain)
    sites = [(tmp_path / name / "sites.bed").read_text().splitlines() for name in ("direct", "stored")]
    # Weights differ slightly, so that a site near the threshold may be in one table only.
    assert len(set.symmetric_difference(*({line.split("\t")[0] for line in one} for one in sites))) <= 2
    known = ("--sites", model / "sites.bed")
    run("prepare", "motif", both, "-o", tmp_path / "alone", "-q")
    assert evaluate(model, tmp_path / "alone", *known) == evaluate(model, both, *known)
    assert "at least 91 consecutive letters" in fail("train", "motif", folder, "--width", "91", "-o", tmp_path / "no")


def test_mistakes_are_answered(text):
    path, folder = text / "train.txt", text / "folder"
    run("prepare", "chain", path, "-o", folder, "-q")
    run("train", "chain", folder, "-o", text / "model", "--model", "svm", "--seed", "1", "--max-iter", "2", "-q")
    ShardedData.write(text / "own", ShardedData(folder).task, examples_of(folder))
    (text / "table.csv").write_text("a,b\n1,x\n")
    (text / "empty.svm").write_text("\n")
    for args, reported in (
        (("prepare", "chain", "-"), "read twice"),
        (("prepare", "classes", text / "table.csv", "-o", text), "with other files"),
        (("prepare", "classes", text / "empty.svm", "-o", text / "no"), ", line 1: expected a label and index:value"),
        (("prepare", "chain", path, "-o", text), "with other files"),
        (("prepare", "graph", path), "chain, classes, motif"),
        (("prepare", "chain", folder, "-o", text / "no"), "is a folder of prepared data"),
        (("prepare", "chain", "/dev/null", "-o", text / "no"), "`path` must be a file, as it is read twice"),
        (("prepare", "motif", "-"), "read twice"),
        (("train", "chain", path, "-o", text / "m", "--valid", folder), "is a folder of prepared data"),
        (("predict", text / "model", folder), "DATA must be a file of tokens"),
        (("report", text / "model", "--data", folder, "-o", text / "page.html"), "is a folder of prepared data"),
        (("train", "classes", folder, "-o", text / "m"), "DATA must be data of latentstruct prepare"),
        (("train", "chain", folder, "-o", text / "m", "--window", "1"), "--window must be left out if DATA"),
        (("train", "chain", folder, "-o", text / "m", "--unknown", "?"), "--unknown must be left out if DATA"),
        (("train", "chain", text / "own", "-o", text / "m"), "DATA must be data of latentstruct prepare"),
        (("train", "chain", folder, "-o", text / "m", "--model", "perceptron"), "one plane per example"),
    ):
        assert reported in fail(*args)


def examples_of(folder):
    data = ShardedData(folder)
    batch = data.batches[0]
    X = [batch.inputs.matrix[start:stop] for start, stop in pairwise(batch.offsets.tolist())]
    return [(X, data.task.true_outputs(batch))]
