"""C chosen by folds, and out-of-fold scores, for every kind."""

import itertools
import json
import random
import re

import pytest

from command import fail, run
from error_fields import raises
from latentstruct import load
from latentstruct.cli.registry import KINDS
from latentstruct.exceptions import FormatError, InputError

QUICK = ["--max-iter", "3", "-q"]
IMAGES = ("segment", "detect")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folds")
    for name, kind in KINDS.items():
        if name not in IMAGES:
            (folder / kind.example_file).write_bytes(kind.example())
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in KINDS if name not in IMAGES])
def test_every_kind_has_out_of_fold_scores(name, data, tmp_path):
    kind = KINDS[name]
    file, model, written = data / kind.example_file, tmp_path / "model", tmp_path / "folds.jsonl"
    options = ["--folds", "2", "--fold-predictions", written, "--json", *QUICK]
    result = json.loads(run("train", name, file, "-o", model, *options).stdout)
    assert set(result["out_of_fold"]) > {"score"}
    for one in result["out_of_fold"].values():
        assert one["mean"] == pytest.approx(sum(one["folds"]) / 2)
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    assert [line["example"] for line in lines] == list(range(len(lines)))
    assert {line["fold"] for line in lines} == {0, 1}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["measure", "rank", "chain"])
def test_C_is_chosen_by_the_score_of_the_kind(name, data, tmp_path):
    result = json.loads(
        run("train", name, data / KINDS[name].example_file, "-o", tmp_path, "--C", "auto", "--json", *QUICK).stdout
    )
    chosen = result["chosen_C"]
    model = load(tmp_path)
    model = model.model if name == "chain" else model
    assert model.C == chosen["value"] == chosen["values"][chosen["means"].index(max(chosen["means"]))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "option"), [("parse", "--splits=auto"), ("graph", "--hidden=topic=auto")])
def test_numbers_of_latent_states_are_chosen_beside_a_baseline(name, option, data, tmp_path):
    file = data / KINDS[name].example_file
    if name == "graph":
        file = tmp_path / "topics.jsonl"
        graph = {"nodes": [{"type": "topic"}, *({"features": {"x": i % 2}, "label": "ab"[i % 2]} for i in range(4))]}
        graph["edges"] = [[0, i] for i in range(1, 5)]
        file.write_text(f"{json.dumps(graph)}\n" * 6)
    options = ("--model", "latent", option, "--folds", "2", "--json", *QUICK)
    result = json.loads(run("train", name, file, "-o", tmp_path / "model", *options).stdout)
    chosen = result[f"chosen_{option[2:].split('=')[0]}"]
    assert chosen["values"] == [2, 3, 4]
    task = load(tmp_path / "model").task_
    assert chosen["value"] == (task.splits if name == "parse" else task.hidden["topic"])
    best = max(chosen["means"])
    assert chosen["gain"][0] == pytest.approx(best - chosen["baseline"])
    assert "baseline" in chosen["description"]
    assert result["out_of_fold"]["score"]["folds"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["chain", "graph", "rank", "motif", "align"])
def test_reports_show_out_of_fold_scores_before_those_of_the_training_data(name, data, tmp_path):
    pytest.importorskip("matplotlib")
    report = tmp_path / "report.html"
    file = data / KINDS[name].example_file
    run("train", name, file, "-o", tmp_path / "model", "--folds", "2", "--report", report, *QUICK)
    page = report.read_text()
    assert 0 < page.index("out-of-fold ") < page.index("the training data")


@pytest.mark.filterwarnings("ignore")
def test_nested_folds_come_first_in_output_and_report(data, tmp_path):
    pytest.importorskip("matplotlib")
    groups = tmp_path / "groups.txt"
    n_samples = len((data / "classes.csv").read_text().splitlines()) - 1
    groups.write_text("".join(f"{i // 3}\n" for i in range(n_samples)))
    report = tmp_path / "report.html"
    shown = run(
        *("train", "classes", data / "classes.csv", "-o", tmp_path / "model", "-C", "auto", "--folds", "2", *QUICK),
        *("--one-standard-error", "--groups", groups, "--report", report),
    ).stdout
    assert shown.startswith("out-of-fold accuracy")
    assert "chosen by folds" in shown
    page = report.read_text()
    assert 0 < page.index("out-of-fold accuracy") < page.index("the training data")
    assert "Choice of C" in page


def test_contradictions_are_refused(data, tmp_path):
    file = data / "classes.csv"
    assert "--fold-predictions must be left out without --folds" in fail(
        "train", "classes", file, "--fold-predictions", tmp_path / "f"
    )
    assert "--one-standard-error" in fail("train", "classes", file, "--one-standard-error")
    assert "a number, or auto" in fail("train", "classes", file, "-C", "best")
    (tmp_path / "groups").write_text("a\nb\n")
    assert "one per example" in fail(
        "train", "classes", file, "-o", tmp_path / "m", "--folds", "2", "--groups", tmp_path / "groups", "-q"
    )


@pytest.mark.filterwarnings("ignore")
def test_parts_of_one_text_stay_in_one_fold(tmp_path):
    text = KINDS["coreference"].example().decode()
    numbers = itertools.count()

    def shared(match):
        # Two documents each are parts of one text.
        return f"#begin document (text{next(numbers) // 2}); part 000"

    file, written = tmp_path / "texts.conll", tmp_path / "folds.jsonl"
    file.write_text(re.sub("#begin document .*", shared, text))
    options = ("--folds", "2", "--fold-predictions", written, "--max-iter", "2")
    found = run("train", "coreference", file, "-o", tmp_path / "model", *options)
    folds = [json.loads(line)["fold"] for line in written.read_text().splitlines()]
    assert folds[::2] == folds[1::2]
    assert "examples of one text stay in one fold" in found.stderr


@pytest.mark.filterwarnings("ignore")
def test_sentences_of_one_document_stay_in_one_fold(tmp_path):
    sentence = "a X\nb Y\n\n"
    file, written = tmp_path / "documents.txt", tmp_path / "folds.jsonl"
    file.write_text("".join(f"-DOCSTART- O\n\n{sentence}{sentence}" for _ in range(6)))
    options = ("--folds", "2", "--fold-predictions", written, "--max-iter", "2")
    found = run("train", "chain", file, "-o", tmp_path / "model", *options)
    folds = [json.loads(line)["fold"] for line in written.read_text().splitlines()]
    assert folds[::2] == folds[1::2]
    assert "examples of one document stay in one fold: 12 in 6 documents" in found.stderr


@pytest.mark.filterwarnings("ignore")
def test_similar_sequences_stay_in_one_fold(tmp_path):
    rng = random.Random(0)
    file, written = tmp_path / "pairs.fa", tmp_path / "folds.jsonl"
    lines = []
    for k in range(12):
        text = "".join(rng.choices("ACGT", k=60))
        label = f"label={1 - 2 * (k % 2)}"
        lines += [f">a{k} {label}", text, f">b{k} {label}", f"{text[5:]}ACGTA"]
    file.write_text("\n".join(lines) + "\n")
    options = ("--width", "5", "--folds", "2", "--fold-predictions", written, "--max-iter", "2")
    found = run("train", "motif", file, "-o", tmp_path / "model", *options)
    folds = [json.loads(line)["fold"] for line in written.read_text().splitlines()]
    assert folds[::2] == folds[1::2]
    assert "examples of one family stay in one fold: 24 in 12 families" in found.stderr


@pytest.mark.filterwarnings("ignore")
def test_pairs_with_a_common_sequence_stay_in_one_fold(tmp_path):
    rng = random.Random(0)
    file, written = tmp_path / "pairs.fa", tmp_path / "folds.jsonl"
    lines = []
    for k in range(6):
        text = "".join(rng.choices("ACDEFGHIKLMNPQRSTVWY", k=40))
        for name in "ab":
            other = "".join(rng.choices("ACDEFGHIKLMNPQRSTVWY", k=40))
            lines += [f">center{k}", text, f">{name}{k}", other]
    file.write_text("\n".join(lines) + "\n")
    options = ("--folds", "2", "--fold-predictions", written, "--max-iter", "2")
    found = run("train", "align", file, "-o", tmp_path / "model", *options)
    folds = [json.loads(line)["fold"] for line in written.read_text().splitlines()]
    assert folds[::2] == folds[1::2]
    assert "examples of one family stay in one fold: 12 in 6 families" in found.stderr


def test_errors_about_examples_name_their_number_in_the_file():
    kind = KINDS["chain"]
    for number, origins in ((4, None), (8, [5, 6, 7, 7])):
        with raises(f"data.txt, sentence {number}", got="a", expected="b"), kind.naming("data.txt", origins):
            raise InputError("Y[3][1]", "a", "b")
    # Other errors, and those that name a place in a file already, are not changed.
    for error in (InputError("C", 1, "2"), FormatError("X[3].txt", "a", "b")):
        with pytest.raises(InputError) as caught, kind.naming("data.txt"):
            raise error
        assert caught.value is error
