"""Boxes of objects of any class, on drawn photographs."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import check_grad
from test_modlat_experiments import draw_photographs

from latentstruct.features.objectness import N_CUES, SCORED, WEIGHTS, object_boxes
from latentstruct_papers import objectness, run_experiment
from latentstruct_papers.objectness import BEST, CENTRAL, OBJECT, SALIENT, WHOLE

RESULTS = Path(__file__).parents[2] / "papers" / "results" / "object-boxes.json"


def test_object_like_segments_fit_drawn_objects(monkeypatch, tmp_path):
    monkeypatch.setattr(objectness, "load_voc_mammals", lambda home: draw_photographs(6))
    monkeypatch.setattr(objectness, "BLOCK", 5)
    findings = run_experiment("object-boxes", quick=True, say=lambda line: None)
    (table,) = findings.tables
    overlap = {row[0]: float(row[2].partition(" ")[0]) for row in table.rows}
    assert list(overlap) == [CENTRAL, WHOLE, SALIENT, OBJECT, BEST]
    assert overlap[BEST] >= overlap[OBJECT] > overlap[WHOLE]
    assert [claim.what for claim in findings.claims] == [
        f"CorLoc: {OBJECT}, against {x}" for x in (CENTRAL, WHOLE, SALIENT)
    ]
    assert all(claim.found.endswith("over 12 photographs") for claim in findings.claims)
    findings.save(tmp_path)


def test_blocks_measure_the_boxes_of_the_library(monkeypatch):
    data = draw_photographs(2)
    monkeypatch.setattr(objectness, "load_voc_mammals", lambda home: data)
    found = objectness.measure(None, 0, None)
    boxes = [object_boxes(image, 1) for image in data.images]
    expected = [objectness.overlaps(box, true).max() for box, true in zip(boxes, data.boxes, strict=True)]
    np.testing.assert_allclose(found[OBJECT], expected)
    whole = np.array([[0.0, 0.0, 64.0, 48.0]])
    np.testing.assert_allclose(found[WHOLE], [objectness.overlaps(whole, true).max() for true in data.boxes])


def test_weights_maximize_the_expected_worth():
    rng = np.random.default_rng(0)
    cues = rng.normal(size=(30, SCORED, N_CUES))
    met = 1.0 / (1.0 + np.exp(-3.0 * cues[:, :, 5]))
    met[:, 90:] = -1.0
    data = objectness.Described(cues, met)
    w = objectness.learn([data, data])
    assert abs(w).argmax() == 5
    assert objectness.corloc(data, w) == 1.0

    def value(v):
        return objectness._loss([data], 0.1, v)[0]

    assert check_grad(value, lambda v: objectness._loss([data], 0.1, v)[1], w / 10) < 1e-4


def test_weights_are_learned_from_other_photographs(monkeypatch):
    drawn = {name: lambda home, seed=seed: draw_photographs(2, seed) for seed, name in enumerate(objectness.SETS)}
    monkeypatch.setattr(objectness, "SETS", drawn)
    w = objectness.learned_weights()
    described = objectness.describe(draw_photographs(3, 9))
    assert objectness.corloc(described, w) > objectness.corloc(described, -w)


@pytest.mark.skipif(not RESULTS.exists(), reason="no results of a full run")
def test_results_are_those_of_the_weights_of_the_library():
    saved = json.loads(RESULTS.read_text(encoding="utf-8"))["settings"]
    np.testing.assert_allclose(WEIGHTS, saved["weights"])
