"""Learned boxes beside fixed ones, on drawn photographs."""

import numpy as np
import pytest
from test_modlat_experiments import draw_photographs

from latentstruct.tasks.detection import DetectionInput
from latentstruct_papers import modlat_corloc, run_experiment
from latentstruct_papers.modlat_corloc import BEST, CENTRAL, SALIENCY, SALIENT, WHOLE, Results, larger_boxes, train


@pytest.fixture
def findings(monkeypatch, tmp_path):
    monkeypatch.setattr(modlat_corloc, "load_voc_mammals", lambda home: draw_photographs(6))
    monkeypatch.setattr(modlat_corloc, "QUICK", modlat_corloc.QUICK._replace(n_boxes=30))
    for cached in (modlat_corloc.load, modlat_corloc.describe):
        cached.cache_clear()
    found = run_experiment("modlat-corloc", quick=True, say=lambda line: None)
    for cached in (modlat_corloc.load, modlat_corloc.describe):
        cached.cache_clear()
    return found


def test_segments_fit_objects_more_closely_than_a_grid(findings, tmp_path):
    (table,) = findings.tables
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows)[:5] == [CENTRAL, WHOLE, SALIENT, f"{BEST}, grid", f"{BEST}, segments"]
    assert len(rows) == 7
    overlap = {name: float(row[1].partition(" ")[0]) for name, row in rows.items()}
    assert overlap[f"{BEST}, segments"] > overlap[f"{BEST}, grid"] > overlap[WHOLE]
    assert overlap[SALIENT] > overlap[WHOLE], "drawn objects stand out"
    assert overlap[SALIENCY.name] > overlap[WHOLE]
    assert all(row[2] is row[3] is None for row in list(rows.values())[:5])
    assert findings.claims[-1].what == f"CorLoc: {BEST}, segments, against {BEST}, grid"
    findings.save(tmp_path)


def test_fixed_boxes():
    photographs = draw_photographs(1)
    found = modlat_corloc.fixed_boxes(photographs, 0)
    assert found[WHOLE].tolist() == [[0, 0, 64, 48]]
    assert found[CENTRAL].tolist() == [[8, 6, 56, 42]]


def test_learned_boxes_are_compared_with_the_better_fixed_box():
    results = Results()
    for name, values in {CENTRAL: (0.2, 0.4), WHOLE: (0.6, 0.4), SALIENT: (0.5, 0.3), "grid": (0.5, 0.5)}.items():
        results.found[name] = [{"corloc": value, "overlap": value} for value in values]
    for name in ("grid", "segments"):
        results.found[f"{BEST}, {name}"] = [{"corloc": 1.0, "overlap": 1.0}] * 2
    salient, first, second = results.claims()
    assert salient.found == "40.0, 50.0: -10.0 ± 0.0 over 2 splits"
    assert first.found == "50.0, 50.0: +0.0 ± 10.0 over 2 splits"
    assert second.found == "100.0, 100.0: +0.0 ± 0.0 over 2 splits"
    assert np.isclose(results.values("grid", "corloc").mean(), 0.5)


def test_larger_boxes_stay_inside():
    boxes = np.array([[10.0, 10, 20, 30], [0, 0, 64, 48]])
    np.testing.assert_allclose(larger_boxes(boxes, 64, 48), [[8, 6, 22, 34], [0, 0, 64, 48]])


def test_folds_leave_wrong_first_boxes():
    """The model of the other folds finds the box that shows the class, although training was to begin at the other."""
    boxes = np.array([[0.0, 0, 8, 8], [8, 0, 16, 8]])
    X, Y = [], []
    for k in range(20):
        features = np.zeros((2, 2))
        features[0, k % 2] = 3.0
        X.append(DetectionInput(boxes, features))
        Y.append("ab"[k % 2])
    model = train(X, Y, [1] * 20, 1.0, 0, 5)
    assert list(model.complete(X, Y)) == [0] * 20
