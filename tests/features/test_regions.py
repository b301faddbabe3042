"""Candidate boxes from segments."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.data.boxes import overlaps
from latentstruct.features.boxes import BoxFeatures
from latentstruct.features.regions import segment_boxes


def paint(width, height, rectangles, seed=0):
    """Return rectangles of one color each on gray, with a little noise."""
    image = np.full((height, width, 3), 128.0)
    for (x0, y0, x1, y1), color in rectangles:
        image[y0:y1, x0:x1] = color
    noise = np.random.default_rng(seed).normal(scale=3.0, size=image.shape)
    return (image + noise).clip(0, 255).astype(np.uint8)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.integers(0, 99))
@settings(max_examples=30)
def test_boxes_are_distinct_and_inside(width, height, limit, seed):
    image = np.random.default_rng(seed).integers(0, 256, size=(height, width, 3)).astype(np.uint8)
    boxes = segment_boxes(image, limit)
    assert boxes[0].tolist() == [0, 0, width, height]
    assert 1 <= len(boxes) <= limit
    assert len(np.unique(boxes, axis=0)) == len(boxes)
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, :2] < boxes[:, 2:]).all()
    assert (boxes[:, 2:] <= [width, height]).all()
    assert (boxes == np.round(boxes)).all()
    np.testing.assert_array_equal(boxes[:3], segment_boxes(image, 3)[:limit])


@given(st.tuples(*[st.integers(0, 70)] * 2), st.tuples(*[st.integers(25, 60)] * 2), st.integers(0, 9))
@settings(max_examples=15)
def test_an_object_of_one_color_is_found(corner, size, seed):
    """A box of any place and size that a coarse grid would miss."""
    box = (*corner, corner[0] + size[0], corner[1] + size[1])
    boxes = segment_boxes(paint(140, 135, [(box, (220, 40, 40))], seed))
    assert overlaps(boxes, np.array([box], dtype=float)).max() > 0.85


def test_an_object_of_two_colors_is_found():
    parts = [((30, 30, 60, 70), (220, 40, 40)), ((60, 30, 90, 70), (230, 90, 40))]
    boxes = segment_boxes(paint(160, 120, parts))
    for box in ((30, 30, 60, 70), (30, 30, 90, 70)):
        assert overlaps(boxes, np.array([box], dtype=float)).max() > 0.85


def test_features_take_segments():
    image = paint(100, 80, [((20, 10, 70, 60), (40, 200, 60))])
    features = BoxFeatures(candidates="segments", limit=9)
    found = features.describe(image)
    np.testing.assert_array_equal(found.boxes, segment_boxes(image, 9))
    again = BoxFeatures.from_state(features.to_state())
    np.testing.assert_array_equal(again.describe(image).features, found.features)
    # States that were saved before there was a choice.
    state = {key: value for key, value in BoxFeatures().to_state().items() if key != "candidates"}
    assert BoxFeatures.from_state(state).candidates == "grid"


def test_bad_parameters():
    with raises("candidates", got="boxes", expected="'grid', 'segments' or 'objects'"):
        BoxFeatures(candidates="boxes").check()
    with raises("limit"):
        segment_boxes(np.zeros((5, 5, 3), dtype=np.uint8), 0)
