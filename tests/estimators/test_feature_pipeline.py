import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import FunctionTransformer

from command import run
from error_fields import raises
from latentstruct import (
    CRF,
    Chain,
    DictFeatures,
    FeaturePipeline,
    Multiclass,
    StructuralSVM,
    WindowFeatures,
    load,
)
from latentstruct.estimators.predicting import Predicting
from latentstruct.exceptions import ConvergenceWarning, FormatError
from latentstruct.io import read_conll, read_coreference
from latentstruct.metrics import chunk_f1_scorer, chunk_scores
from latentstruct.viz.report import write_report

WORDS = [["Mara", "Silva", "left"], ["she", "saw", "Oslo"], ["Mara", "left"], ["Oslo"]] * 3
TAGS = [["B-PER", "I-PER", "O"], ["O", "O", "B-LOC"], ["B-PER", "O"], ["B-LOC"]] * 3


def as_dicts(sentences):
    return [[{"word": word, "title": word.istitle()} for word in words] for words in sentences]


def word_lengths(sentences):
    return [np.array([[float(len(word))] for word in words]) for words in sentences]


@pytest.fixture(scope="module")
def tagger():
    return FeaturePipeline(WindowFeatures(window=1), CRF(Chain())).fit(WORDS, TAGS)


def test_methods_are_those_of_the_model_on_the_features(tagger):
    X = tagger.features_.transform(WORDS)
    model = CRF(Chain()).fit(X, TAGS)
    np.testing.assert_allclose(tagger.model_.coef_, model.coef_)
    assert tagger.classes_.tolist() == model.classes_.tolist() == ["B-LOC", "B-PER", "I-PER", "O"]
    for name, further in (
        *(("predict", ()), ("marginals", ()), ("pair_marginals", ()), ("confidence", ()), ("predict_topk", (2,))),
        *(("sample", (2, 0)), ("log_probability", (TAGS,)), ("complete", (TAGS,)), ("loss", (TAGS,))),
    ):
        ours, expected = getattr(tagger, name)(WORDS, *further), getattr(model, name)(X, *further)
        assert repr(ours) == repr(expected), name
        assert getattr(tagger, name).__name__ == name
    assert tagger.score(WORDS, TAGS) == model.score(X, TAGS) == 1.0
    for row, probabilities in zip(TAGS[0], tagger.marginals(WORDS[:1])[0], strict=True):
        assert tagger.classes_[probabilities.argmax()] == row


def test_methods_that_the_model_lacks(tagger):
    assert not hasattr(tagger, "predict_proba")
    assert not hasattr(FeaturePipeline(WindowFeatures(), StructuralSVM(Multiclass())), "predict_topk")
    unfitted = FeaturePipeline(WindowFeatures(), CRF(Chain()))
    assert not hasattr(unfitted, "classes_")
    for method in (unfitted.predict, unfitted.transform):
        with pytest.raises(NotFittedError):
            method(WORDS)


def test_saved_and_loaded(tagger, tmp_path):
    tagger.save(tmp_path / "tagger")
    again = load(tmp_path / "tagger")
    assert isinstance(again, FeaturePipeline)
    assert again.features.window == 1
    np.testing.assert_array_equal(again.marginals(WORDS)[0], tagger.marginals(WORDS)[0])
    assert again.classes_.tolist() == tagger.classes_.tolist()
    again.save(tmp_path / "again")
    assert (tmp_path / "again" / "model.json").read_bytes() == (tmp_path / "tagger" / "model.json").read_bytes()
    write_report(again, tmp_path / "report.html", WORDS, TAGS)
    assert "B-PER" in (tmp_path / "report.html").read_text()
    other = FeaturePipeline(FunctionTransformer(WindowFeatures().fit(WORDS).transform), CRF(Chain())).fit(WORDS, TAGS)
    with raises("features", expected="features of the library"):
        other.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    "change", [{"names": ["a"]}, {"names": ["a", "a"]}, {"n_columns": 0}, {"window": "x"}, {"names": 3}]
)
def test_damaged_features(tagger, tmp_path, change):
    tagger.save(tmp_path / "tagger")
    file = tmp_path / "tagger" / "model.json"
    content = json.loads(file.read_text())
    content["extra"]["features"] |= change
    file.write_text(json.dumps(content))
    with raises(error=FormatError):
        load(tmp_path / "tagger")


def test_selection_and_cloning():
    tagger = FeaturePipeline(DictFeatures(), CRF(Chain()))
    grid = {"model__C": [1e-6, 1.0], "features__min_count": [1, 2]}
    X = as_dicts(WORDS)
    search = GridSearchCV(tagger, grid, scoring=chunk_f1_scorer, cv=3).fit(X, TAGS)
    assert search.best_params_["model__C"] == 1.0
    assert search.best_score_ == 1.0
    assert chunk_f1_scorer(search, X, TAGS) == chunk_scores(TAGS, search.predict(X)).f1
    copied = clone(search.best_estimator_)
    assert not hasattr(copied, "classes_")
    assert copied.model.C == 1.0


def test_weights_reach_the_model():
    tagger = FeaturePipeline(WindowFeatures(), CRF(Chain()))
    weighted = tagger.fit([*WORDS, ["Mara"]], [*TAGS, ["O"]], sample_weight=[1.0] * len(WORDS) + [0.0])
    assert weighted.predict([["Mara"]])[0].tolist() == ["B-PER"]


def test_training_continues_with_further_words(tagger):
    new = FeaturePipeline(WindowFeatures(window=1), CRF(Chain()))
    further = [["Bergen", "is", "cold"]]
    again = clone(new).fit(further, [["B-LOC", "O", "O"]], init=tagger)
    known = list(tagger.features_.vocabulary_)
    assert list(again.features_.vocabulary_)[: len(known)] == known
    assert len(again.features_.vocabulary_) > len(known)
    assert again.classes_.tolist() == tagger.classes_.tolist()
    assert again.predict(further)[0].tolist() == ["B-LOC", "O", "O"]
    short = clone(new).set_params(model__max_iter=1)
    with pytest.warns(ConvergenceWarning):
        cold = clone(short).fit(WORDS, TAGS).model_.objective_
    assert clone(new).fit(WORDS, TAGS, init=tagger).model_.history_[0].objective < cold
    with raises("init", expected="a FeaturePipeline"):
        new.fit(WORDS, TAGS, init=tagger.model_)
    with raises("init", expected="affixes=2"):
        FeaturePipeline(WindowFeatures(window=2, affixes=2), CRF(Chain())).fit(WORDS, TAGS, init=tagger)
    dicts = FeaturePipeline(DictFeatures(), CRF(Chain())).fit(as_dicts(WORDS), TAGS)
    longer = clone(dicts).fit(as_dicts(further), [["B-LOC", "O", "O"]], init=dicts)
    assert longer.features_.vocabulary_.items() > dicts.features_.vocabulary_.items()
    lengths = FeaturePipeline(FunctionTransformer(word_lengths), CRF(Chain())).fit(WORDS, TAGS)
    with raises("init", expected="can be extended"):
        clone(lengths).fit(WORDS, TAGS, init=lengths)


def test_mistaken_parts():
    with raises("features", expected="WindowFeatures()"):
        FeaturePipeline(CRF(Chain()), WindowFeatures()).fit(WORDS, TAGS)
    with raises("features"):
        FeaturePipeline(None, CRF(Chain())).fit(WORDS, TAGS)


@pytest.mark.parametrize("l1", [0.0, 0.3])
def test_compact_files_are_smaller_and_predict_the_same(l1, tmp_path):
    tagger = FeaturePipeline(WindowFeatures(window=1), CRF(Chain(), l1=l1)).fit(WORDS, TAGS)
    tagger.save(tmp_path / "whole")
    tagger.save(tmp_path / "small", compact=True)
    sizes = [sum(file.stat().st_size for file in (tmp_path / name).iterdir()) for name in ("whole", "small")]
    assert sizes[1] < sizes[0]
    assert [row.tolist() for row in load(tmp_path / "small").predict(WORDS)] == TAGS


def test_a_tagger_of_the_command_takes_words(tmp_path):
    file = tmp_path / "train.txt"
    file.write_bytes(run("example", "chain").stdout_bytes)
    run("train", "chain", file, "-o", tmp_path / "tagger", "--quiet")
    tagger = load(tmp_path / "tagger")
    words, _ = read_conll(file).split_labels()
    run("predict", tmp_path / "tagger", file, "-o", tmp_path / "out.txt")
    found = tagger.predict([[word for (word,) in sentence] for sentence in words])
    assert [y.tolist() for y in found] == read_conll(tmp_path / "out.txt").column(-1)
    assert tagger.marginals(words[:1])[0].shape == (len(words[0]), len(tagger.classes_))


def test_a_tagger_of_several_columns_takes_tuples(tmp_path):
    file = tmp_path / "train.txt"
    file.write_text("the DT x B-NP\ncat NN y I-NP\n\nruns VB z O\n\n")
    run("train", "chain", file, "--columns", "0,1", "-o", tmp_path / "tagger", "--quiet")
    tagger = load(tmp_path / "tagger")
    assert tagger.predict([[("the", "DT"), ("cat", "NN")]])[0].tolist() == ["B-NP", "I-NP"]
    with raises("sentences[0][0]", expected="a tuple of the 2 columns of training"):
        tagger.predict([["the", "cat"]])


def test_models_of_spans_and_documents_of_the_command(tmp_path):
    spans = tmp_path / "train.jsonl"
    spans.write_bytes(run("example", "segments").stdout_bytes)
    run("train", "segments", spans, "-o", tmp_path / "spans", "--quiet")
    model = load(tmp_path / "spans")
    first = json.loads(spans.read_text().splitlines()[0])
    found = model.predict([first["tokens"]])[0]
    assert [list(one) for one in found if one[2] != "O"] == first["spans"]
    assert model.marginals([first["tokens"]])[0].shape == (len(first["tokens"]), len(model.classes_))

    documents = tmp_path / "train.conll"
    documents.write_bytes(run("example", "coreference").stdout_bytes)
    run("train", "coreference", documents, "-o", tmp_path / "clusters", "--quiet")
    data = read_coreference(documents)[:2]
    assert [len(y) for y in load(tmp_path / "clusters").predict(data)] == [len(one.mentions) for one in data]


def test_all_methods_of_estimators_are_forwarded():
    public = {name for name in vars(Predicting) if not name.startswith("_")}
    assert public <= vars(FeaturePipeline).keys()
