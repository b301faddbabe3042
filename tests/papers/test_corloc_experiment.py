"""Learned boxes beside fixed ones, on drawn photographs."""

import numpy as np
import pytest
from test_modlat_experiments import draw_photographs

from latentstruct_papers import modlat_corloc, run_experiment
from latentstruct_papers.modlat_corloc import BEST, CENTRAL, WHOLE, Results


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
    assert list(rows)[:4] == [CENTRAL, WHOLE, f"{BEST}, grid", f"{BEST}, segments"]
    assert len(rows) == 6
    overlap = {name: float(row[1].partition(" ")[0]) for name, row in rows.items()}
    assert overlap[f"{BEST}, segments"] > overlap[f"{BEST}, grid"] > overlap[WHOLE]
    assert all(row[2] is None for row in list(rows.values())[:4])
    assert findings.claims[-1].what == f"CorLoc: {BEST}, segments, against {BEST}, grid"
    findings.save(tmp_path)


def test_fixed_boxes():
    photographs = draw_photographs(1)
    found = modlat_corloc.fixed_boxes(photographs, 0)
    assert found[WHOLE].tolist() == [[0, 0, 64, 48]]
    assert found[CENTRAL].tolist() == [[8, 6, 56, 42]]


def test_learned_boxes_are_compared_with_the_better_fixed_box():
    results = Results()
    for name, values in {CENTRAL: (0.2, 0.4), WHOLE: (0.6, 0.4), "grid": (0.5, 0.5)}.items():
        results.found[name] = [{"corloc": value, "overlap": value} for value in values]
    for name in ("grid", "segments"):
        results.found[f"{BEST}, {name}"] = [{"corloc": 1.0, "overlap": 1.0}] * 2
    first, second = results.claims()
    assert first.found == "50.0, 50.0: +0.0 ± 10.0 over 2 splits"
    assert second.found == "100.0, 100.0: +0.0 ± 0.0 over 2 splits"
    assert np.isclose(results.values("grid", "corloc").mean(), 0.5)
