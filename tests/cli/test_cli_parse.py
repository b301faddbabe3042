import json

import numpy as np
import pytest

from command import fail, run, run_interrupted
from latentstruct import load
from latentstruct.cli.kinds.parse.command import name_weight
from latentstruct.data.trees import Tree, tagged_words, words
from latentstruct.io.brackets import format_tree, read_trees
from latentstruct.metrics.parses import parse_scores
from latentstruct.tasks.parsing.task import Parsing

LEXICON = {
    "D": ["the", "a"],
    "N": ["dog", "cat", "park", "saw"],
    "V": ["saw", "fed"],
    "P": ["in", "with"],
    ".": ["."],
}


def leaf(rng, tag):
    return Tree(tag, (str(rng.choice(LEXICON[tag])),))


def noun_phrase(rng, depth=0):
    children = [leaf(rng, "D"), leaf(rng, "N")]
    if depth < 2 and rng.random() < 0.3:
        children.append(Tree("PP", (leaf(rng, "P"), noun_phrase(rng, depth + 1))))
    return Tree("NP", tuple(children))


def sentence(rng):
    verb_phrase = [leaf(rng, "V"), noun_phrase(rng)]
    if rng.random() < 0.3:
        verb_phrase.append(Tree("PP", (leaf(rng, "P"), noun_phrase(rng))))
    return Tree("S", (noun_phrase(rng), Tree("VP", tuple(verb_phrase)), leaf(rng, ".")))


def write_treebank(path, n, seed=0):
    rng = np.random.default_rng(seed)
    path.write_text("".join(f"( {format_tree(sentence(rng))})\n" for _ in range(n)))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parse")


@pytest.fixture(scope="module")
def train(folder):
    return write_treebank(folder / "train.mrg", 25)


@pytest.fixture(scope="module")
def test(folder):
    return write_treebank(folder / "test.mrg", 10, seed=1)


@pytest.fixture(scope="module")
def model(folder, train):
    run("train", "parse", train, "-o", folder / "model", "--quiet")
    return folder / "model"


@pytest.mark.parametrize(
    ("options", "estimator"),
    [
        (["--model", "svm", "--punctuation", "."], "StructuralSVM"),
        (["--model", "svm", "--features", "spans", "--tags", "--loss", "f1", "--tol", 0.05], "StructuralSVM"),
        (["--model", "crf", "--tags"], "CRF"),
        (["--model", "latent", "--tags", "--max-length", 9, "--tol", 0.1], "LatentSSVM"),
        (["--model", "hidden-crf", "--tags", "--max-length", 9, "--tol", 0.01, "--splits", 3], "HiddenCRF"),
    ],
)
def test_from_training_to_evaluation(options, estimator, train, test, tmp_path):
    out = tmp_path / "model"
    result = json.loads(run("train", "parse", train, *options, "--valid", test, "-o", out, "--json").stdout)
    assert (result["kind"], result["estimator"]) == ("parse", estimator)
    assert result["latent"] == (estimator in ("LatentSSVM", "HiddenCRF"))
    scores = json.loads(run("evaluate", out, test, "--json").stdout)
    assert scores["f1"] == result["valid"]["f1"]
    assert scores["f1"] > 0.7
    tagged = "--tags" in options
    sentences = tmp_path / "sentences.txt"
    trees = read_trees(test)
    tokens = [[f"{word}/{tag}" for word, tag in tagged_words(tree)] if tagged else words(tree) for tree in trees]
    sentences.write_text("".join(" ".join(line) + "\n" for line in tokens))
    run("predict", out, sentences, "-o", tmp_path / "parsed.mrg")
    parsed = read_trees(tmp_path / "parsed.mrg")
    ignored = ["."] if "--punctuation" in options else []
    assert parse_scores(trees, parsed, ignored_tags=ignored).f1 == scores["f1"]
    assert [words(tree) for tree in parsed] == [words(tree) for tree in trees]
    if tagged:
        assert scores["tag_accuracy"] == 1.0
    # The words of trees are taken if the file's name says that it holds such.
    assert run("predict", out, test).stdout == (tmp_path / "parsed.mrg").read_text()


def test_scores_and_model_in_words(model, test):
    shown = run("evaluate", model, test).stdout
    for text in ("10, ", "fully correct", "with the correct tag", "constituents per sentence", "all, unlabeled", "NP"):
        assert text in shown
    described = run("info", model, "--top", 5).stdout
    assert "strongest rules" in described
    assert "words" in described
    result = json.loads(run("info", model, "--top", 5, "--json").stdout)
    assert len(result["weights"]) == 5
    weights = [abs(one["weight"]) for one in result["weights"]]
    assert weights == sorted(weights, reverse=True)
    assert result["tagged"] is False
    assert result["n_examples"] == 25


@pytest.mark.parametrize("splits", [1, 2])
def test_every_weight_has_a_name_of_its_own(splits, train):
    trees = read_trees(train)
    task = Parsing(features="spans", splits=splits)
    task.learn([tagged_words(tree) for tree in trees], trees)
    names = [name_weight(task, k) for k in range(task.n_features)]
    assert len(set(names)) == len(names)
    if splits == 1:
        assert {"S → NP (S NP …)", "S NP … → VP .", "V → “fed”", "root → S", "NP → D N"} <= set(names)
        assert {"NP, first: “the”", "NP, first tag: D", "S, after: edge of the sentence"} <= set(names)
        assert {"NP, up to 2 words"} <= set(names)
    else:
        assert {"S#1 → NP#0 (S NP …#1)", "root → S#0", "V#1 → “fed”"} <= set(names)


def test_tags_spelled_like_constituents_are_told_from_them():
    tree = Tree("S", (Tree("P", (Tree("P", ("in",)),)), Tree("P", ("on",))))
    task = Parsing()
    task.learn([words(tree)], [tree])
    names = {name_weight(task, k) for k in range(task.n_features)}
    assert {"S → P (tag P)", "P → (tag P)"} <= names


def test_sentences_from_standard_input(model):
    reported = run("predict", model, "-", stdin="the dog saw a cat .\n\na ( fed the zebra .\n").stdout.splitlines()
    assert len(reported) == 2
    assert "-LRB-" in reported[1]
    assert "zebra" in reported[1]


def test_sentences_that_no_rule_derives(model, tmp_path):
    odd = tmp_path / "odd.txt"
    odd.write_text(". . .\nin\n")
    first, second = run("predict", model, odd).stdout.splitlines()
    assert first.count(" .)") == 3
    assert second.count("in)") == 1


def test_rarer_labels_are_told_of(tmp_path):
    data = tmp_path / "many.mrg"
    data.write_text("".join(f"(S (L{k} (N a) (N b)) (M{k} (V c) (V d)))\n" for k in range(12)))
    run("train", "parse", data, "-o", tmp_path / "model", "--quiet", "--max-iter", 3)
    assert "rarer labels are not shown" in run("evaluate", tmp_path / "model", data).stderr


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("(S (N a)\n", [], "{data}, line 1: expected balanced brackets"),
        ("(S (N a))\n(S (N a)))\n", [], "{data}, line 2: expected balanced brackets"),
        ("(S (N a a))\n", [], "{data}, line 1: expected one word in a bracket"),
        ("a dog\n", [], "{data}, line 1: expected '('"),
        ("", [], "{data}, line 1: expected brackets such as (S (NP (NN"),
        ("(S (N a) (N b))", ["--max-length", 1], "--max-length must be at least 2, the shortest sentence of {data}"),
        ("(S (N a) (N b))", ["--splits", 2], "--splits must be left out for --model"),
        ("(S (N a) (N b))", ["--restarts", 2, "--model", "crf"], "--restarts must be left out for --model"),
        ("(S (N a) (N b))", ["--loss", "f1", "--model", "crf"], "--loss must be left out for --model"),
        ("(S (N a) (N b))", ["--splits", 9, "--model", "latent"], "splits must be an integer from 1 to 8, got 9"),
        ("(S (N a) (N b))", ["-C", 0], "-C must be a finite number above 0"),
    ],
)
def test_bad_training_data(text, options, message, tmp_path):
    data = tmp_path / "bad.mrg"
    data.write_text(text)
    assert message.format(data=data) in fail("train", "parse", data, "-o", tmp_path / "model", *options)
    assert not (tmp_path / "model").exists()


def test_lemmas_and_latin_1(tmp_path):
    data = tmp_path / "old.tbf"
    data.write_bytes("(S (N él él) (V ve ver))\n(S (N ella él) (V ve ver))\n".encode("latin-1"))
    out = tmp_path / "model"
    run("train", "parse", data, "--lemmas", "--encoding", "latin-1", "-o", out, "--quiet")
    assert json.loads(run("evaluate", out, data, "--json").stdout)["f1"] == 1.0
    assert run("predict", out, data).stdout.splitlines()[0] == "(S (N él) (V ve))"
    assert ", line 1: expected UTF-8 text" in fail("train", "parse", data, "--lemmas", "-o", tmp_path / "other")
    unasked = fail("train", "parse", data, "--encoding", "latin-1", "-o", tmp_path / "other")
    assert "lemmas" in unasked


def test_plain_labels_are_kept_for_later(tmp_path):
    data, out = tmp_path / "functions.mrg", tmp_path / "model"
    data.write_text(
        "(S-1 (NP-SBJ (N-X dogs)) (VP=2 (V see) (NP-OBJ (N-Y cats))))\n(S (NP-OBJ (N cats)) (VP (V see)))\n"
    )
    args = ("train", "parse", data, "--tags", "--plain-labels", "--valid", data, "-o", out, "--json")
    assert json.loads(run(*args).stdout)["valid"]["f1"] == 1.0
    scores = json.loads(run("evaluate", out, data, "--json").stdout)
    assert (scores["f1"], set(scores["by_label"])) == (1.0, {"S", "NP", "VP"})
    first = "(S (NP (N dogs)) (VP (V see) (NP (N cats))))"
    assert run("predict", out, data).stdout.splitlines()[0] == first
    assert run("predict", out, "-", stdin="dogs/N-Z see/V cats/N\n").stdout.splitlines() == [first]
    assert "NP-SBJ is NP" in run("info", out).stdout
    assert json.loads(run("info", out, "--json").stdout)["plain_labels"] is True


def test_models_without_a_word_on_labels_keep_these_whole(model, test, tmp_path):
    older = copied(model, tmp_path / "older", lambda record: record.pop("plain_labels"))
    assert run("evaluate", older, test).stdout == run("evaluate", model, test).stdout
    assert json.loads(run("info", older, "--json").stdout)["plain_labels"] is False


def test_large_charts_are_told_in_one_line(model, test, tmp_path, monkeypatch):
    monkeypatch.setattr("latentstruct.tasks.parsing.batch.LARGE_CHART", 100)
    monkeypatch.setattr("latentstruct.estimators.predicting.DECODED_TOGETHER", 4)
    sizes = {len(words(tree)) for tree in read_trees(test)}
    for args in (("predict", model, test), ("evaluate", model, test)):
        reported = run(*args).stderr.splitlines()
        # Sentences are parsed in blocks; a size is reported once.
        assert len(reported) == len(set(reported)) <= len(sizes)
        assert f"a sentence of {max(sizes)} words takes 0.0 GiB" in "\n".join(reported)
        assert all(line.startswith("warning: The chart of a sentence of ") for line in reported)
    reported = run("train", "parse", test, "-o", tmp_path / "model", "--quiet", "--max-iter", 200).stderr.splitlines()
    assert sum(line.startswith("warning: The chart of a sentence of ") for line in reported) == 1


def copied(model, folder, change):
    """Copy a model with its record changed."""
    folder.mkdir()
    for part in model.iterdir():
        (folder / part.name).write_bytes(part.read_bytes())
    settings = folder / "model.json"
    content = json.loads(settings.read_text())
    change(content["extra"])
    settings.write_text(json.dumps(content))
    return folder


def test_data_that_do_not_fit_the_model(folder, train, test, tmp_path):
    out = tmp_path / "tagged"
    run("train", "parse", train, "--tags", "-o", out, "--quiet", "--max-iter", 3)
    plain = tmp_path / "plain.txt"
    plain.write_text("the dog\n")
    assert f"{plain}, line 1: expected a word and its tag" in fail("predict", out, plain)
    assert "--positive must be left out for a" in fail("evaluate", out, test, "--positive", test)
    assert "DATA must be given" in fail("evaluate", out)
    mixed = "the/D dog/N\n(S (N a))\n"
    assert "<stdin>, line 2: expected a sentence" in fail("predict", out, "-", stdin=mixed)
    # Standard input has no name, so its first line tells trees from sentences.
    forms = ("(S (D the) (N dog))\n", "the/D dog/N\n")
    assert len({run("predict", out, "-", stdin=text).stdout for text in forms}) == 1
    unknown = tmp_path / "unknown.txt"
    unknown.write_text("the/D dog/QQ\n")
    assert run("predict", out, unknown).stdout.count("QQ") == 1


@pytest.mark.parametrize(
    ("field", "value"), [("tagged", 3), ("encoding", "utf-7"), ("kind", "motif"), ("plain_labels", 1)]
)
def test_damaged_record(field, value, model, test, tmp_path):
    copy = copied(model, tmp_path / "model", lambda record: record.update({field: value}))
    for args in (("predict", copy, test), ("evaluate", copy, test), ("info", copy)):
        assert "expected a complete model" in fail(*args)


def test_interrupted_training_is_saved(tmp_path):
    data = write_treebank(tmp_path / "trees.mrg", 20)
    out = tmp_path / "model"
    args = ("train", "parse", data, "-C", 100, "--tol", 1e-12, "-o", out, "--json")
    result = run_interrupted(*args, at=lambda line: line.iteration == 1)
    assert json.loads(result.stdout)["stop_reason"] == load(out).stop_reason_ == "interrupted"
