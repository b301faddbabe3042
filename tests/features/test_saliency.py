"""Saliency of pixels and boxes, and features of boxes that are given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_regions import paint

from error_fields import raises
from latentstruct.data.boxes import overlaps
from latentstruct.features.boxes import BoxFeatures, map_features
from latentstruct.features.saliency import N_SALIENCY, box_saliency, saliency_map

BOXES = np.array([[0.0, 0, 60, 40], [10, 5, 40, 35], [0, 0, 12, 9], [30, 20, 60, 40]])


@given(st.tuples(*[st.integers(5, 45)] * 2), st.tuples(*[st.integers(25, 50)] * 2), st.integers(0, 9))
@settings(max_examples=10)
def test_what_differs_from_the_border_is_salient(corner, size, seed):
    x0, y0, x1, y1 = box = (*corner, corner[0] + size[0], corner[1] + size[1])
    image = paint(120, 110, [(box, (220, 40, 40))], seed)
    found = saliency_map(image)
    assert found.shape == image.shape[:2]
    assert found.min() == 0.0
    assert found.max() == 1.0
    inside = np.zeros(found.shape, dtype=bool)
    inside[y0:y1, x0:x1] = True
    assert found[inside].mean() > 4 * found[~inside].mean()


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 99))
@settings(max_examples=20)
def test_any_image_has_finite_saliency(width, height, seed):
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, size=(height, width, 3)).astype(np.uint8)
    for pixels in (image, np.full_like(image, 77)):
        found = saliency_map(pixels)
        assert found.shape == (height, width)
        assert ((found >= 0) & (found <= 1)).all()


def test_large_images_are_shrunk():
    found = saliency_map(paint(400, 200, [((50, 50, 150, 150), (200, 0, 0))]))
    assert found.shape == (80, 160)
    inside = np.zeros(found.shape, dtype=bool)
    inside[20:60, 20:60] = True
    assert found[inside].mean() > 2 * found[~inside].mean()


def values_of_boxes(saliency, boxes):
    """Return the documented values of boxes of whole pixels, by loops."""
    rows, columns = saliency.shape
    y, x = np.mgrid[:rows, :columns]
    central = saliency * np.exp(-((x / columns - 0.5) ** 2 + (y / rows - 0.5) ** 2) / (2 * 0.25**2))
    central = central - 0.3 * central.mean()
    total, found = saliency.sum(), []
    for x0, y0, x1, y1 in boxes.astype(int):
        area, s = (x1 - x0) * (y1 - y0), saliency[y0:y1, x0:x1].sum()
        cx, cy, w, h = (x0 + x1) / 2, (y0 + y1) / 2, 0.7 * (x1 - x0), 0.7 * (y1 - y0)
        ends = np.round([cx - w, cy - h, cx + w, cy + h]).clip(0, [columns, rows, columns, rows]).astype(int)
        a0, b0, a1, b1 = ends
        around = saliency[b0:b1, a0:a1].sum() - s
        shared = [s / (total + q * (area - s)) for q in (0.1, 0.2, 0.3, 0.5)]
        near = around / max((a1 - a0) * (b1 - b0) - area, 1)
        found.append([s / area, near, s / total, *shared, central[y0:y1, x0:x1].sum()])
    return np.array(found)


@given(st.integers(0, 99))
def test_values_of_boxes(seed):
    saliency = np.random.default_rng(seed).random((40, 60))
    values = values_of_boxes(saliency, BOXES)
    expected = (values - values.mean(axis=0)) / values.std(axis=0) / np.sqrt(8)
    np.testing.assert_allclose(box_saliency(saliency, BOXES, 60, 40), expected, atol=1e-9)
    # The same image at twice the size.
    np.testing.assert_allclose(box_saliency(saliency, 2 * BOXES, 120, 80), expected, atol=1e-9)


def test_one_box_and_a_plain_image():
    assert not box_saliency(np.random.default_rng(0).random((40, 60)), BOXES[:1], 60, 40).any()
    assert np.isfinite(box_saliency(np.zeros((40, 60)), BOXES, 60, 40)).all()


def test_features_end_with_saliency():
    image = paint(100, 80, [((20, 10, 70, 60), (40, 200, 60))])
    plain, double = (BoxFeatures(candidates="segments", saliency=weight) for weight in (0.0, 2.0))
    found = double.describe(image)
    assert found.features.shape[1] == double.n_features_ == plain.n_features_ + N_SALIENCY
    np.testing.assert_array_equal(found.features[:, :-N_SALIENCY], plain.describe(image).features)
    expected = 2.0 * box_saliency(saliency_map(image), found.boxes, 100, 80)
    np.testing.assert_allclose(found.features[:, -N_SALIENCY:], expected, rtol=1e-6)
    (best,) = double.most_salient([found])
    assert overlaps(found.boxes[[best]], np.array([[20.0, 10, 70, 60]])).item() > 0.8
    assert BoxFeatures.from_state(double.to_state()).get_params() == double.get_params()
    with raises("saliency", got="0.0", expected="a number above 0"):
        plain.most_salient([plain.describe(image)])


def test_given_rows_replace_gradients():
    image, rows = paint(60, 40, []), np.arange(8.0).reshape(4, 2)
    features = BoxFeatures(n_given=2, geometry=0.5)
    found = features.describe(image, BOXES, given=rows)
    assert found.features.shape == (4, features.n_features_) == (4, 16)
    np.testing.assert_array_equal(found.features[:, :2], rows)
    plain = BoxFeatures(geometry=0.5).describe(image, BOXES)
    np.testing.assert_array_equal(found.features[:, 2:], plain.features[:, -14:])
    (again,) = BoxFeatures.from_state(features.to_state()).transform([image], [BOXES], given=[rows])
    np.testing.assert_array_equal(again.features, found.features)


@given(st.integers(0, 99))
def test_maps_are_averaged_in_boxes(seed):
    """A map of one cell per 10 pixels; the box counts parts of cells."""
    values = np.random.default_rng(seed).normal(size=(4, 6, 3))
    large = np.repeat(np.repeat(values, 10, axis=0), 10, axis=1)
    means = np.array([large[y0:y1, x0:x1].mean(axis=(0, 1)) for x0, y0, x1, y1 in BOXES.astype(int)])
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(map_features(values, BOXES, 60, 40), expected, atol=1e-5)
    found = BoxFeatures(n_given=3, geometry=0).describe(paint(60, 40, []), BOXES, given=values)
    np.testing.assert_allclose(found.features, expected, atol=1e-5)


def test_a_map_of_zeros():
    assert not map_features(np.zeros((2, 2, 3)), BOXES, 60, 40).any()


@pytest.mark.parametrize(
    "wrong",
    [None, np.zeros((4, 3)), np.zeros((3, 2)), np.zeros((2, 2, 3)), np.zeros((0, 2, 2)), np.full((4, 2), np.nan), "ab"],
)
def test_given_features_are_checked(wrong):
    with raises("given of bear.png", expected="finite numbers of shape (4, 2), one row per box, or (h, w, 2)"):
        BoxFeatures(n_given=2).describe(paint(60, 40, []), BOXES, "bear.png", wrong)


def test_features_that_are_not_wanted():
    with raises("given of image", expected="None, as `n_given` is 0"):
        BoxFeatures().describe(paint(60, 40, []), BOXES, given=np.zeros((4, 2)))
    with raises("given", got="given of 0 images", expected="given of 1 images"):
        BoxFeatures(n_given=2).transform([paint(60, 40, [])], [BOXES], given=[])
    for name, expected in (("saliency", "a finite number of at least 0"), ("n_given", "an integer of at least 0")):
        with raises(name, got="-1", expected=expected):
            BoxFeatures(**{name: -1}).describe(paint(60, 40, []))
