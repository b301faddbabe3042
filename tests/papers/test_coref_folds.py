"""Coreference by folds, on generated texts."""

import pytest

from latentstruct.cli.kinds.coreference.sample import make_example
from latentstruct.io.coreference import read_coreference
from latentstruct.metrics import cluster_scores
from latentstruct_papers import coref_folds, run_experiment


@pytest.fixture
def documents(monkeypatch, tmp_path):
    path = tmp_path / "texts.conll"
    path.write_bytes(make_example(0))
    found = read_coreference(path)
    monkeypatch.setattr(coref_folds, "load_litbank", lambda home: found[::-1])
    coref_folds.load.cache_clear()
    yield sorted(found, key=lambda document: document.name)
    coref_folds.load.cache_clear()


def test_learned_clusters_are_better_than_rules(documents):
    findings = run_experiment("coref-folds", quick=True, say=lambda line: None)
    (table,) = findings.tables
    by_name = {row[0]: [float(cell) for cell in row[1:]] for row in table.rows}
    assert by_name["penalty 0.1"][0] > max(by_name["singletons"][0], by_name["same words"][0])
    assert len(findings.claims) == len(by_name) - 1
    truth = [document.clusters for document in documents[:8]]
    singletons = [list(range(len(clusters))) for clusters in truth]
    assert by_name["singletons"][0] == pytest.approx(100 * cluster_scores(truth, singletons).conll_f1, abs=0.051)


def test_each_document_is_predicted_by_a_model_of_the_others(documents, monkeypatch):
    seen = []
    fit = coref_folds.LatentSSVM.fit
    monkeypatch.setattr(coref_folds.LatentSSVM, "fit", lambda self, X, Y: seen.append(len(Y)) or fit(self, X, Y))
    parts = [coref_folds.measure(7, 3, 0.1, fold, None) for fold in range(3)]
    assert [list(part) for part in parts] == [["0", "3", "6"], ["1", "4"], ["2", "5"]]
    assert seen == [4, 5, 5]
