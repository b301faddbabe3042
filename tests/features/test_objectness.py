"""Boxes that most likely enclose an object."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_regions import paint

from error_fields import raises
from latentstruct.data.boxes import overlaps
from latentstruct.features.boxes import BoxFeatures
from latentstruct.features.geometry import box_geometry
from latentstruct.features.objectness import N_CUES, WEIGHTS, box_cues, object_boxes
from latentstruct.features.regions import segment_boxes
from latentstruct.features.saliency import box_saliency, saliency_map

BOXES = np.array([[0.0, 0, 60, 40], [10, 5, 40, 35], [0, 0, 12, 9], [30, 20, 60, 40], [12, 5, 40, 36]])


def test_cues_are_those_that_are_documented():
    saliency = np.random.default_rng(0).random((40, 60))
    table = np.array([[overlaps(a[None], b[None])[0, 0] for b in BOXES] for a in BOXES])
    rows = []
    for k, (x0, y0, x1, y1) in enumerate(BOXES):
        touching = [x0 <= 0.6, y0 <= 0.4, x1 >= 59.4, y1 >= 39.6]
        rows.append([*touching, table[k].mean(), (table[k] >= 0.5).mean(), (table[k] >= 0.7).mean()])
    places = [box_saliency(saliency, BOXES, 60, 40), box_geometry(BOXES, 60, 40)]
    values = np.hstack([*places, np.array(rows, dtype=float)])
    found = box_cues(saliency, BOXES, 60, 40)
    assert found.shape == (len(BOXES), N_CUES) == (len(BOXES), len(WEIGHTS))
    np.testing.assert_allclose(found, (values - values.mean(axis=0)) / values.std(axis=0), atol=1e-9)


def test_equal_boxes_have_no_cues():
    assert not box_cues(np.ones((4, 6)), np.array([[0.0, 0, 60, 40]]), 60, 40).any()


@given(st.floats(0.5, 4.0))
@settings(max_examples=10)
def test_cues_do_not_depend_on_the_scale(scale):
    saliency = np.random.default_rng(1).random((40, 60))
    expected = box_cues(saliency, BOXES, 60, 40)
    np.testing.assert_allclose(box_cues(saliency, scale * BOXES, scale * 60, scale * 40), expected, atol=1e-6)


@given(st.tuples(st.integers(30, 80), st.integers(25, 60)), st.integers(0, 9))
@settings(max_examples=10)
def test_an_object_within_the_image_is_the_first_candidate(corner, seed):
    box = (*corner, corner[0] + 70, corner[1] + 50)
    image = paint(200, 150, [(box, (220, 40, 40))], seed)
    assert overlaps(object_boxes(image, 1), np.array([box], dtype=float))[0, 0] > 0.5


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.integers(0, 99))
@settings(max_examples=20)
def test_candidates_are_the_best_segments_in_order(width, height, limit, seed):
    image = np.random.default_rng(seed).integers(0, 256, size=(height, width, 3)).astype(np.uint8)
    boxes, found = segment_boxes(image, 100), object_boxes(image, limit)
    scores = box_cues(saliency_map(image), boxes, width, height) @ WEIGHTS
    assert len(found) == min(limit, len(boxes))
    by_box = {tuple(box): score for box, score in zip(boxes.tolist(), scores, strict=True)}
    chosen = [by_box[tuple(box)] for box in found.tolist()]
    assert chosen == sorted(scores, reverse=True)[:limit]


def test_features_take_objects():
    image = paint(100, 80, [((20, 10, 70, 60), (40, 200, 60))])
    features = BoxFeatures(candidates="objects", limit=4)
    found = features.describe(image)
    np.testing.assert_array_equal(found.boxes, object_boxes(image, 4))
    assert BoxFeatures.from_state(features.to_state()).candidates == "objects"
    assert features.initial_latents([found] * 3) == [0, 0, 0]


def test_initial_latents():
    image = paint(100, 80, [((20, 10, 70, 60), (40, 200, 60))])
    salient = BoxFeatures(candidates="segments", saliency=1.0)
    X = salient.transform([image])
    assert salient.initial_latents(X) == salient.most_salient(X)
    assert BoxFeatures(candidates="segments").initial_latents(X) is None


@pytest.mark.parametrize("limit", [0, -1, 2.5])
def test_the_limit_is_checked(limit):
    with raises("limit"):
        object_boxes(paint(20, 20, []), limit)
