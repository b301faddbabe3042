import json

import numpy as np
import pytest

from command import fail, run
from error_fields import raises
from latentstruct import load
from latentstruct.exceptions import FormatError
from latentstruct.io.diversity import read_diversity, split_words, write_choices

TOPICS = ("space", "medicine", "farming", "toys")


def write_queries(path, n_queries, seed=0, n_documents=10, subtopics=True):
    """Write queries where words that several documents share tell the subtopic, and rare words are noise."""
    rng = np.random.default_rng(seed)
    lines = []
    for q in range(n_queries):
        documents = []
        for j in range(n_documents):
            topic = TOPICS[rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])]
            text = f"{topic} {topic}A {topic}B " + " ".join(f"noise{j}x{v}" for v in range(rng.integers(0, 12)))
            document = {"id": f"q{q}d{j}", "text": text, "title": topic}
            documents.append(document | ({"subtopics": [topic]} if subtopics else {}))
        lines.append(json.dumps({"query": f"robots {q}", "documents": documents}) + "\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture
def model(tmp_path):
    train = write_queries(tmp_path / "train.jsonl", 20)
    run("train", "diverse", train, "--k", 3, "-C", 100, "-o", tmp_path / "model", "--quiet")
    return tmp_path / "model"


@pytest.mark.parametrize("options", [(), ("--greedy",), ("--exact", "--titles", "--levels", "0,2")])
def test_from_training_to_evaluation(options, tmp_path):
    train, test = write_queries(tmp_path / "train.jsonl", 20), write_queries(tmp_path / "test.jsonl", 20, seed=1)
    out = tmp_path / "model"
    args = ("train", "diverse", train, "--k", 3, "-C", 100, "--valid", test, "-o", out, *options)
    result = json.loads(run(*args, "--json").stdout)
    assert (result["kind"], result["n_examples"], result["n_documents"]) == ("diverse", 20, 200)
    assert result["certified"] == ("--greedy" not in options)
    scores = json.loads(run("evaluate", out, test, "--json").stdout)
    assert result["valid"].items() <= scores.items()
    assert scores["best_loss"] <= scores["loss"] < scores["unweighted_loss"]
    assert scores["loss"] < scores["random_loss"]
    known = json.loads(run("info", out, "--json").stdout)
    assert (known["k"], known["n_documents"], known["objective"]) == (3, 200, result["objective"])
    assert known["weights"][0]["feature"].startswith(("words", "title words"))
    assert known["n_weights"] == (33 if "--titles" in options else 11)
    shown = run("evaluate", out, test).stdout
    assert "most words" in shown
    assert "20, 0 without subtopics" in shown
    assert "strongest weights" in run("info", out).stdout
    assert "valid loss" in run(*args).stdout


def test_choices_are_those_of_the_model(model, tmp_path):
    test = write_queries(tmp_path / "test.jsonl", 5, seed=1, subtopics=False)
    queries = read_diversity(test)
    expected = load(model).predict([query.words for query in queries])
    lines = [json.loads(line) for line in run("predict", model, "-", stdin=test.read_text()).stdout.splitlines()]
    assert [line["query"] for line in lines] == [f"robots {q}" for q in range(5)]
    assert [line["chosen"] for line in lines] == [
        [f"q{q}d{j}" for j in chosen.tolist()] for q, chosen in enumerate(expected)
    ]


def test_words_and_names(tmp_path):
    path = tmp_path / "queries.jsonl"
    path.write_text(
        '\n{"documents": [{"text": "It\'s a Robot_arm, Ärger 2x"}, {"words": ["As It Is"], "id": "b"}]}\n'
        '{"query": 7, "documents": [{"words": [], "subtopics": [1, "a"]}, {"text": "", "title": "A b"}]}\n'
    )
    first, second = read_diversity(path)
    assert first.query == 2
    assert first.ids == [0, "b"]
    assert first.words == [["it", "s", "a", "robot", "arm", "ärger", "2x"], ["As It Is"]]
    assert first.subtopics is None
    assert (second.query, second.titles, second.subtopics) == (7, [[], ["a", "b"]], [[1, "a"], []])
    write_choices(tmp_path / "out.jsonl", [first, second], [np.array([1, 0]), [0]])
    assert (tmp_path / "out.jsonl").read_text() == '{"query":2,"chosen":["b",0]}\n{"query":7,"chosen":[0]}\n'
    with raises("choices", got="1 choices", expected="2 choices, one per query"):
        write_choices(tmp_path / "out.jsonl", [first, second], [[0]])


def test_words_of_a_text():
    assert split_words("") == []
    assert split_words("…—!") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ", line 1: expected one query per line, such as"),
        ("\n[1]\n", ", line 2: expected a query (object)"),
        ('{"documents": []}', ", line 1: expected at least one document"),
        ('{"documents": [{"id": 1}]}', ", line 1: expected either text or words of"),
        ('{"documents": [{"text": "a", "words": []}]}', ", line 1: expected either text or words of"),
        ('{"documents": [{"text": 3}]}', ", line 1: expected str | null at"),
        ('{"documents": [{"text": "a", "topics": []}]}', ", line 1: expected a query"),
        ('{"documents": [{"text": "a", "id": 1}, {"text": "b"}]}', ", line 1: expected distinct ids of documents"),
        ('{"documents": [{"text": "a"}]', ", line 1: expected a query as JSON on each line"),
        ("[" * 100000, ", line 1: expected a query (object)"),
        ('{"documents": ' + "[" * 100000, ", line 1: expected object at documents[0]"),
        ('{"query": "\\ud800", "documents": [{"text": "a"}]}', ", line 1: expected a query as JSON on each line"),
    ],
)
def test_bad_files(text, message, tmp_path):
    path = tmp_path / "queries.jsonl"
    path.write_text(text)
    with pytest.raises(FormatError) as error:
        read_diversity(path)
    assert message in str(error.value)


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "queries.jsonl"
    path.write_bytes(b'{"documents": [{"text": "\xff"}]}')
    with raises(expected="UTF-8 text", line=1, error=FormatError):
        read_diversity(path)


TWO = '{"documents": [{"text": "a", "subtopics": [1]}, {"text": "b", "subtopics": []}]}\n'


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TWO, ["--k", 3], "{data}, query 1: expected at least 3, got 2 documents"),
        ('{"documents": [{"text": "a"}]}', ["--k", 1], "expected subtopics of the documents, which"),
        ('{"documents": [{"text": "a", "subtopics": []}]}', ["--k", 1], "subtopic"),
        (TWO, ["--k", 1, "--levels", "a"], "--levels must be increasing numbers of at"),
        (TWO, ["--k", 1, "--levels", "2,1"], "--levels must be increasing numbers of at"),
        (TWO, ["--k", 1, "--levels", "0,nan"], "--levels must be increasing numbers of at"),
        (TWO, ["--k", 1, "--levels", "0,inf"], "--levels must be increasing numbers of at"),
        (TWO, ["--k", 1, "--levels=-1,2"], "--levels must be increasing numbers of at"),
        (
            TWO.replace('"text": "a"', '"id": 1, "text": "a"'),
            ["--k", 1],
            ", line 1: expected distinct ids of documents",
        ),
        (TWO, ["--k", 1, "-C", 0], "-C must be a finite number above 0"),
    ],
)
def test_bad_training(text, options, message, tmp_path):
    data = tmp_path / "train.jsonl"
    data.write_text(text)
    assert message.format(data=data) in fail("train", "diverse", data, "-o", tmp_path / "model", *options)
    assert not (tmp_path / "model").exists()


def test_prediction_needs_enough_documents(model, tmp_path):
    short = tmp_path / "short.jsonl"
    short.write_text(TWO)
    assert "expected at least 3" in fail("predict", model, short)
    assert "expected at least 3" in fail("evaluate", model, short)
