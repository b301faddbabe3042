import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from command import fail, run
from latentstruct import load, metrics
from latentstruct.cli.kinds.coreference.command import PENALTIES
from latentstruct.io import read_coreference
from latentstruct.metrics import cluster_scores

NAMES, VERBS = ["Anna", "Bruno", "Clara", "David"], ["sees", "likes", "hears"]


def write_documents(path, n_documents, seed=0, first=0):
    """Write documents in which the same name is the same person; the words between are no mentions."""
    rng = np.random.default_rng(seed)
    lines = []
    for d in range(first, first + n_documents):
        lines.append(f"#begin document (text{d}); part 000")
        for _ in range(5):
            subject, other = rng.choice(4, 2, replace=False)
            words = [(NAMES[subject], f"({subject})"), (str(rng.choice(VERBS)), "-"), ("old", f"({other}")]
            words += [(NAMES[other], f"{other})"), (".", "-")]
            lines += [f"text{d}\t0\t{k}\t{word}\tX\t{bracket}" for k, (word, bracket) in enumerate(words)]
            lines.append("")
        lines.append("#end document")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def data(tmp_path):
    return write_documents(tmp_path / "train.conll", 8)


@pytest.fixture
def model(data, tmp_path):
    run("train", "coreference", data, "-C", 1, "--penalty", 1, "-o", tmp_path / "model", "--quiet")
    return tmp_path / "model"


@pytest.mark.parametrize(("name", "latent"), [("latent", True), ("correlation", False)])
def test_from_training_to_evaluation(name, latent, data, tmp_path):
    test, out = write_documents(tmp_path / "test.conll", 4, seed=1, first=8), tmp_path / "model"
    args = ("train", "coreference", data, "--model", name, "-C", 10, "--valid", test, "-o", out)
    result = json.loads(run(*args, "--json").stdout)
    assert (result["kind"], result["latent"]) == ("coreference", latent)
    assert (result["n_examples"], result["n_mentions"], result["n_pairs"]) == (8, 80, 8 * 45)
    scores = json.loads(run("evaluate", out, test, "--json").stdout)
    assert scores["conll_f1"] == result["valid"]["conll_f1"] == 1.0
    assert (scores["pair_loss"], scores["n_examples"], scores["n_mentions"]) == (0.0, 4, 40)
    assert all(scores[measure]["f1"] == 1.0 for measure in ("muc", "b_cubed", "ceaf_entity", "ceaf_mention", "lea"))
    # A name is one person, so that heads suffice; "old Anna" is not written as "Anna" is.
    assert (
        scores["baselines"]["same head"] == 1.0 > scores["baselines"]["same words"] > scores["baselines"]["singletons"]
    )
    text = run("evaluate", out, test).stdout
    assert all(
        measure in text for measure in ("MUC", "B³", "CEAF-e", "CEAF-m", "LEA", "same head", "pair loss", "CoNLL F1")
    )
    known = json.loads(run("info", out, "--json", "--top", 3).stdout)
    assert (known["penalty"] in PENALTIES) == latent
    assert len(known["weights"]) == 3
    assert "strongest weights" in run("info", out).stdout
    assert "valid CoNLL F1" in run(*args).stdout


def test_predicted_clusters_are_written_in_brackets(model, tmp_path):
    test = write_documents(tmp_path / "test.conll", 3, seed=2)
    # Clusters of the input are not looked at: every mention may as well be alone.
    alone = iter(range(1000))
    text = re.sub(
        r"\((\d)\)$|\((\d)$", lambda m: m[0].replace(m[1] or m[2], f"x{next(alone)}"), test.read_text(), flags=re.M
    )
    text = re.sub(r"\(x(\d+)(\n.*\t)\d\)$", r"(x\1\2x\1)", text, flags=re.M)
    given = tmp_path / "given.conll"
    given.write_text(text)
    assert all(len(set(one.clusters)) == 10 for one in read_coreference(given))
    run("predict", model, given, "-o", tmp_path / "out.conll")
    truth, found = read_coreference(test), read_coreference(tmp_path / "out.conll")
    assert [one.sentences for one in found] == [one.sentences for one in truth]
    spans = [[mention[:3] for mention in one.mentions] for one in truth]
    assert [[mention[:3] for mention in one.mentions] for one in found] == spans
    assert cluster_scores([one.clusters for one in truth], [one.clusters for one in found]).conll_f1 == 1.0
    piped = run("predict", model, "-", stdin=text).stdout
    assert piped == (tmp_path / "out.conll").read_text()


def test_folders_are_read(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    write_documents(folder / "a.conll", 3)
    write_documents(folder / "b.conll", 2, seed=1, first=3)
    result = json.loads(run("train", "coreference", folder, "-o", tmp_path / "model", "--json").stdout)
    assert result["n_examples"] == 5


def test_documents_without_mentions(model, data, tmp_path):
    mixed = tmp_path / "mixed.conll"
    empty = "#begin document (empty); part 000\nempty\t0\t0\tRain\tX\t-\n\n#end document\n"
    mixed.write_text(empty + data.read_text())
    run("predict", model, mixed, "-o", tmp_path / "out.conll")
    found = read_coreference(tmp_path / "out.conll")
    assert [len(one.mentions) for one in found] == [0] + [10] * 8
    assert json.loads(run("evaluate", model, mixed, "--json").stdout)["n_examples"] == 8
    mixed.write_text(empty)
    assert "expected mentions, marked as (3 …" in fail("train", "coreference", mixed, "-o", tmp_path / "new")
    assert "expected mentions, marked as (3 …" in fail("evaluate", model, mixed)
    run("predict", model, mixed, "-o", tmp_path / "out.conll")
    assert read_coreference(tmp_path / "out.conll")[0].sentences == [["Rain"]]


BEGIN = "#begin document (a); part 000\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bad.conll"),
        ("a\t0\t0\tAnna\tX\t(1)\n", ", line 1: expected a line such as '#begin"),
        (BEGIN + "a\t0\t0\tAnna\tX\t(1\n\n#end document\n", ", line 2: expected balanced brackets"),
        (BEGIN + "a\t0\t0\tAnna\tX\t1)\n\n#end document\n", ", line 2: expected balanced brackets"),
        (BEGIN + "a\t0\t0\tAnna\tX\t(1)|(2)\n\n#end document\n", ", line 2: expected one cluster of the mention"),
        (BEGIN + "Anna (1)\n\n#end document\n", ", line 2: expected at least 5 columns, with"),
    ],
)
def test_bad_documents(text, message, model, tmp_path):
    bad = tmp_path / "bad.conll"
    bad.write_text(text)
    for args in (
        ("train", "coreference", bad, "-o", tmp_path / "new"),
        ("predict", model, bad),
        ("evaluate", model, bad),
    ):
        assert message in fail(*args)
    assert not (tmp_path / "new").exists()


def test_options_that_do_not_fit(model, data, tmp_path):
    new = ("-o", tmp_path / "new")
    assert "--penalty must be left out for --model" in fail(
        "train", "coreference", data, "--model", "correlation", "--penalty", 1, *new
    )
    assert "penalty must be" in fail("train", "coreference", data, "--penalty", 0, *new)
    assert "--sites must be left out for a" in fail("evaluate", model, data, "--sites", data)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("features", [{}, {"n_features": 3, "entity_types": True}, "none"])
def test_damaged_record(features, model, data):
    settings = model / "model.json"
    content = json.loads(settings.read_text())
    content["extra"]["features"] = features
    settings.write_text(json.dumps(content))
    for args in (("predict", model, data), ("evaluate", model, data), ("info", model)):
        fail(*args)


def test_model_is_an_ordinary_one(model):
    assert load(model).model_.task_.penalty == 1.0


@pytest.mark.parametrize(("name", "C"), [("latent", 0.01), ("correlation", 100.0)])
def test_help_tells_the_defaults(name, C, data, tmp_path):
    run("train", "coreference", data, "--model", name, "-o", tmp_path / "new", "--quiet")
    model = load(tmp_path / "new").model_
    assert model.C == C
    shown = " ".join(run("train", "coreference", "--help").stdout.replace("│", " ").split())
    assert "[default: 0.01; correlation 100]" in shown
    assert "[default: chosen by folds]" in shown
    assert not model.task_.latent or model.task_.penalty in PENALTIES


def test_the_penalty_is_chosen_by_held_out_documents(data, tmp_path, monkeypatch):
    seen = []

    def scores(truth, found):
        seen.append((len(truth), len(found)))
        # As if the third penalty were the best.
        return SimpleNamespace(conll_f1=[0.2, 0.3, 0.5, 0.4, 0.1][len(seen) - 1])

    monkeypatch.setattr(metrics, "cluster_scores", scores)
    shown = run("train", "coreference", data, "-o", tmp_path / "model").stderr
    assert seen == [(8, 8)] * 5
    assert "penalty 0.1: CoNLL F1 50.00 % of held-out training documents" in shown
    assert load(tmp_path / "model").model_.task_.penalty == 0.1
    few = write_documents(tmp_path / "few.conll", 3)
    shown = run("train", "coreference", few, "-o", tmp_path / "model").stderr
    assert "penalty 1, as 3 documents are too few to choose it" in shown
    run("train", "coreference", data, "--penalty", 0.3, "-o", tmp_path / "model", "--quiet")
    assert load(tmp_path / "model").model_.task_.penalty == 0.3
    assert len(seen) == 5


BAD_DOCUMENTS = [
    "a\t0\t0\tAnna\tX\t(1\n",  # ends in an open bracket
    "a\t0\t0\tAnna\tX\t(1)|(2)\na\t0\t0\tBea\tX\t(1)\n\n",  # a span in two clusters
    "a\t0\t0\t\tX\t(1)\n\n",  # an empty word
    "Anna (1)\n\n",  # too few columns
]


@pytest.mark.parametrize("bad", BAD_DOCUMENTS)
@pytest.mark.parametrize("ended", [True, False])
def test_bad_documents_may_be_left_out(bad, ended, model, data, tmp_path):
    file, out = tmp_path / "some.conll", tmp_path / "out.conll"
    one = BEGIN + bad + "#end document\n" * ended
    file.write_text(one + data.read_text() + one)
    problems = []
    assert read_coreference(file, problems) == read_coreference(data)
    assert len(problems) == 2
    for args in (("train", "coreference", file, "-o", tmp_path / "new"), ("evaluate", model, file)):
        fail(*args)
        shown = run(*args, "--skip-bad").stderr
        assert shown.count("left out: ") == 2
        assert f"left out: {file}, line 2: expected " in shown
    run("predict", model, file, "-o", out, "--skip-bad")
    assert len(read_coreference(out)) == 8
    file.write_text(one)
    assert "expected mentions" in fail("evaluate", model, file, "--skip-bad")


def test_a_begin_line_without_a_name_is_left_out(data, tmp_path):
    file = tmp_path / "some.conll"
    file.write_text("#begin nothing\nx\n" + data.read_text())
    problems = []
    assert read_coreference(file, problems) == read_coreference(data)
    assert [problem.line for problem in problems] == [1]


def test_several_spans_of_one_token_and_names_of_clusters(model, tmp_path):
    file, out = tmp_path / "gum.conll", tmp_path / "out.conll"
    rows = [("Otto", "(person-1(place-2)"), ("Berg", "person-1)"), ("left", "_"), ("him", "(person-1)(event-3")]
    lines = [f"{k}\t{word}\t{clusters}" for k, (word, clusters) in enumerate([*rows, ("then", "event-3)")])]
    file.write_text("\n".join(["# begin document one", *lines, "", "# end document", ""]))
    (document,) = read_coreference(file)
    spans = [(mention.start, mention.end, mention.cluster) for mention in document.mentions]
    assert spans == [(0, 2, "person-1"), (0, 1, "place-2"), (3, 5, "event-3"), (3, 4, "person-1")]
    run("predict", model, file, "-o", out)
    assert [mention[:3] for mention in read_coreference(out)[0].mentions] == [one[:3] for one in document.mentions]


def test_other_columns_are_kept(model, tmp_path):
    lines = ["#begin document (a); part 000"]
    lines += [f"a   0  {k}   {name}  NNP  (S*)   -  1  Speaker#{k}  *  ({k})" for k, name in enumerate(NAMES)]
    given, out = tmp_path / "given.conll", tmp_path / "out.conll"
    given.write_text("\n".join([*lines, "", "#end document", ""]))
    run("predict", model, given, "-o", out)
    kept = [[line.rpartition("(")[0] for line in path.read_text().splitlines()] for path in (given, out)]
    assert kept[0] == kept[1]
    assert [word for one in read_coreference(out) for word in one.sentences[0]] == NAMES


def test_output_must_not_be_an_input(model, data, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    text = write_documents(folder / "a.conll", 1).read_text()
    assert "--output must be another file than the" in fail("predict", model, folder, "-o", folder / "a.conll")
    assert (folder / "a.conll").read_text() == text
    run("predict", model, folder, "-o", folder / "b.txt")
    run("predict", model, folder, "-o", folder / "b.txt")
    annotation = tmp_path / "a.ann"
    annotation.write_text("MENTION\tT0\t0\t0\t0\t0\tRain\n")
    annotation.with_suffix(".txt").write_text("Rain\n")
    for name in (annotation, annotation.with_suffix(".txt")):
        assert f"{name} would be overwritten" in fail("predict", model, annotation, "-o", name)


def test_sub_folders_are_named(model, tmp_path):
    folder = tmp_path / "corpus" / "en" / "train"
    folder.mkdir(parents=True)
    write_documents(folder / "a.conll", 1)
    for args in (("train", "coreference"), ("predict", model), ("evaluate", model)):
        message = fail(*args, tmp_path / "corpus")
        assert message.endswith(f"Folders with documents: {folder}.")
