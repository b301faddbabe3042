"""Boxes, their features and scores, and the photographs that come with boxes."""

import os
import pickle
import zipfile
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.feature import hog
from skimage.transform import resize

from error_fields import raises
from latentstruct.data.boxes import check_boxes, grid_boxes, nearest_box, overlaps
from latentstruct.exceptions import FormatError, InputError
from latentstruct.features.boxes import (
    BoxFeatures,
    cell_histograms,
    describe_cells,
    normalized_blocks,
    oriented_gradients,
)
from latentstruct.features.geometry import box_geometry
from latentstruct.metrics.boxes import box_scores
from latentstruct.persistence import atomic_files
from latentstruct_papers.datasets import (
    load_caltech_animals,
    load_mammals,
    load_msrc_animals,
    load_voc_actions,
    load_voc_mammals,
)
from pictures import encode

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")

SIDE = 12


@st.composite
def box_lists(draw, most=5):
    """Return boxes of whole pixels within SIDE × SIDE."""
    ends = st.lists(st.integers(0, SIDE), min_size=2, max_size=2, unique=True).map(sorted)
    pairs = draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=most))
    return np.array([(x0, y0, x1, y1) for (x0, x1), (y0, y1) in pairs], dtype=float)


def counted_overlap(a, b):
    """The overlap of two boxes of whole pixels by counting these."""
    masks = []
    for x0, y0, x1, y1 in (a.astype(int), b.astype(int)):
        mask = np.zeros((SIDE, SIDE), dtype=bool)
        mask[y0:y1, x0:x1] = True
        masks.append(mask)
    return (masks[0] & masks[1]).sum() / (masks[0] | masks[1]).sum()


def noise(seed=0, height=40, width=60):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


# Overlaps


@given(box_lists(), box_lists())
@settings(max_examples=50, deadline=None)
def test_overlaps_count_pixels(A, B):
    table = overlaps(A, B)
    np.testing.assert_allclose(table, [[counted_overlap(a, b) for b in B] for a in A], atol=1e-15)
    np.testing.assert_array_equal(table, overlaps(B, A).T)
    assert (np.diag(overlaps(A, A)) == 1.0).all()


@given(box_lists(), box_lists(), st.floats(-1e3, 1e3), st.floats(0.01, 100.0))
@settings(max_examples=50, deadline=None)
def test_overlaps_do_not_depend_on_place_and_unit(A, B, shift, scale):
    np.testing.assert_allclose(overlaps(scale * A + shift, scale * B + shift), overlaps(A, B), atol=1e-8)


@given(box_lists(8), box_lists(3))
@settings(max_examples=50, deadline=None)
def test_the_nearest_box_overlaps_most(boxes, truth):
    chosen = nearest_box(boxes, truth)
    best = [max(counted_overlap(a, b) for b in truth) for a in boxes]
    if max(best) > 0:
        assert best[chosen] == max(best)
        assert chosen == best.index(max(best))
    else:
        gaps = [min(np.hypot(*(a[:2] + a[2:] - b[:2] - b[2:])) for b in truth) for a in boxes]
        assert gaps[chosen] == min(gaps)


@pytest.mark.parametrize(
    ("boxes", "parameter", "got", "expected"),
    [
        ([[0, 0, 2]], "boxes", "shape (1, 3)", "at least one box of four numbers"),
        (np.zeros((0, 4)), "boxes", "shape (0, 4)", "at least one box"),
        ([], "boxes", "", "at least one box"),
        ([[0, 0, 1, 1], [3, 0, 3, 1]], "boxes[1]", "", "a box with finite x0 < x1"),
        ([[0, 2, 1, 1]], "boxes[0]", "", "a box with finite x0 < x1"),
        ([[0, 0, np.nan, 1]], "boxes[0]", "", "a box with finite x0 < x1"),
        ([[0, 0, 1, np.inf]], "boxes[0]", "", "a box with finite x0 < x1"),
        ([["a", 0, 1, 1]], "boxes", "", "at least one box of four numbers x0, y0, x1, y1"),
        ([[0, 0, 1, 1], [0, 1]], "boxes", "", "at least one box of four numbers x0, y0, x1, y1"),
        (np.ones((2, 2, 4)), "boxes", "shape (2, 2, 4)", "at least one box of four numbers x0, y0, x1, y1"),
    ],
)
def test_bad_boxes(boxes, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        check_boxes(boxes, "boxes")


# Candidates


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 30), st.integers(1, 60), st.data())
@settings(max_examples=150, deadline=None)
def test_candidates_are_a_grid(width, height, step, limit, data):
    sizes = data.draw(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4))
    aspects = data.draw(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=3))
    boxes = grid_boxes(width, height, step, sizes, aspects, limit)
    assert 1 <= len(boxes) <= limit
    assert boxes[0].tolist() == [0, 0, width, height]
    assert (boxes == boxes.round()).all()
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= [width, height]).all()
    assert (boxes[:, :2] < boxes[:, 2:]).all()
    assert len(np.unique(boxes, axis=0)) == len(boxes)
    shapes = [tuple(shape) for shape in boxes[:, 2:] - boxes[:, :2]]
    for shape in set(shapes):
        members = boxes[[s == shape for s in shapes]]
        for axis, end in ((0, width), (1, height)):
            places = np.unique(members[:, axis])
            assert (np.diff(places) >= step).all()
            if len(places) > 1:
                assert places[0] == 0
                assert members[:, axis + 2].max() == end
            else:
                assert abs(places[0] - (end - shape[axis]) / 2) <= 0.5


def test_all_of_a_grid_is_used_where_it_fits():
    boxes = grid_boxes(64, 48, step=8, sizes=[0.5], aspects=[1.0], limit=1000)
    side = round(0.5 * np.sqrt(64 * 48))
    assert len(boxes) == 1 + ((64 - side) // 8 + 1) * ((48 - side) // 8 + 1)
    fewer = grid_boxes(64, 48, step=8, sizes=[0.5], aspects=[1.0], limit=10)
    assert 2 < len(fewer) <= 10


@given(st.integers(150, 300), st.integers(150, 300), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_candidates_meet_most_boxes(width, height, seed):
    rng = np.random.default_rng(seed)
    side, shape = (np.exp(rng.uniform(np.log(low), np.log(high), 100)) for low, high in ((0.3, 1.0), (0.5, 2.0)))
    sides = np.sqrt(width * height) * np.stack([side * np.sqrt(shape), side / np.sqrt(shape)], axis=1)
    sides = sides[(sides <= [width, height]).all(axis=1)]
    corners = rng.uniform(size=sides.shape) * ([width, height] - sides)
    met = overlaps(np.hstack([corners, corners + sides]), grid_boxes(width, height)).max(axis=1)
    assert met.mean() > 0.6
    assert np.mean(met >= 0.5) > 0.8


@pytest.mark.parametrize(
    ("more", "parameter", "got", "expected"),
    [
        ({"width": 0}, "width", "0", "an integer of at least 1"),
        ({"height": 2.5}, "height", "2.5", "an integer of at least 1"),
        ({"step": True}, "step", "True", "an integer of at least 1"),
        ({"limit": 0}, "limit", "0", "an integer of at least 1"),
        ({"sizes": []}, "sizes", "", "at least one number, all above 0 and at most 1"),
        ({"sizes": [1.5]}, "sizes", "", "at least one number, all above 0 and at most 1"),
        ({"aspects": [0.0]}, "aspects", "", "at least one number, all finite and above 0"),
        ({"aspects": [np.inf]}, "aspects", "", "at least one number, all finite and above 0"),
        ({"aspects": "wide"}, "aspects", "", "at least one number, all finite and above 0"),
    ],
)
def test_bad_grids(more, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        grid_boxes(**({"width": 40, "height": 30} | more))


# Features


@given(st.integers(0, 10**6), st.integers(0, 2), st.integers(0, 1), st.sampled_from([2, 3, 4]))
@settings(max_examples=30, deadline=None)
def test_cells_that_fit_are_those_of_scikit_image(seed, right, down, n_cells):
    image = noise(seed, 8 * 5, 8 * 6) / 255.0
    box = 8.0 * np.array([[right, down, right + n_cells, down + n_cells]])
    blocks = normalized_blocks(cell_histograms(oriented_gradients(image), box, n_cells))[0]
    whole = hog(image, 9, (8, 8), (2, 2), "L2-Hys", feature_vector=False, channel_axis=-1)
    last = n_cells - 1
    np.testing.assert_allclose(blocks, whole[down : down + last, right : right + last], atol=1e-6)


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(0, 20), st.integers(0, 20), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_cells_cut_pixels(seed, n_cells, right, down, side):
    planes = np.random.default_rng(seed).random((15, 15, 9))
    # Cells of `side` quarters of a pixel.
    reach = n_cells * side
    box = np.array([[right, down, right + reach, down + reach]]) / 4.0
    fine = planes.repeat(4, axis=0).repeat(4, axis=1)[down : down + reach, right : right + reach]
    expected = fine.reshape(n_cells, side, n_cells, side, 9).mean(axis=(1, 3))
    np.testing.assert_allclose(cell_histograms(planes, box, n_cells)[0], expected, atol=1e-9)


def test_cells_are_means_over_their_blocks():
    histograms = np.random.default_rng(0).random((3, 4, 4, 9))
    blocks = normalized_blocks(histograms)
    expected = np.zeros_like(histograms)
    for j in range(4):
        for k in range(4):
            inside = [
                blocks[:, a, b, j - a, k - b]
                for a in range(max(0, j - 1), min(j, 2) + 1)
                for b in range(max(0, k - 1), min(k, 2) + 1)
            ]
            expected[:, j, k] = np.mean(inside, axis=0)
    rows = expected.reshape(3, -1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(describe_cells(histograms), rows, atol=1e-6)


def test_features_are_of_the_box_and_not_of_its_size():
    features = BoxFeatures(geometry=0)
    assert features.n_features_ == 324
    rng, box = np.random.default_rng(0), np.array([[50, 30, 110, 90]])
    page, large, other = (np.full((k * 120, k * 160, 3), 128, np.uint8) for k in (1, 2, 1))
    pattern, second = rng.random((2, 6, 6, 3))
    page[30:90, 50:110] = 255 * resize(pattern, (60, 60))
    large[60:180, 100:220] = 255 * resize(pattern, (120, 120))
    other[30:90, 50:110] = 255 * resize(second, (60, 60))
    one, double, different = (features.describe(*pair) for pair in ((page, box), (large, 2 * box), (other, box)))
    assert one.features.dtype == np.float32
    assert float(one.features[0] @ double.features[0]) > 0.9
    assert float(one.features[0] @ different.features[0]) < 0.8
    moved = features.describe(np.roll(page, (7, -11), axis=(0, 1)), [39, 37, 99, 97])
    assert float(one.features[0] @ moved.features[0]) > 0.97


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (3, 2), (17, 200), (90, 70)])
def test_images_of_any_size(shape):
    found = BoxFeatures(limit=20).describe(noise(0, *shape))
    assert found.boxes[0].tolist() == [0, 0, shape[1], shape[0]]
    assert found.features.shape == (len(found.boxes), 324 + 14)
    assert np.isfinite(found.features).all()
    gradients = found.features[:, :324]
    lengths = np.linalg.norm(gradients, axis=1)
    assert (np.isclose(lengths, 1.0, atol=1e-5) | (lengths == 0.0)).all()
    assert (gradients >= 0.0).all()
    plain = BoxFeatures(limit=20).describe(np.full((*shape, 3), 77, np.uint8))
    assert not plain.features[:, :324].any()
    np.testing.assert_array_equal(plain.features[:, 324:], found.features[:, 324:])


@given(box_lists(), st.floats(0.01, 100.0))
@settings(max_examples=50, deadline=None)
def test_geometry_is_relative_to_the_image(boxes, scale):
    rows = box_geometry(boxes, SIDE, SIDE)
    np.testing.assert_allclose(box_geometry(scale * boxes, scale * SIDE, scale * SIDE), rows, atol=1e-9)
    for row, (x0, y0, x1, y1) in zip(np.sqrt(14.0) * rows, boxes, strict=True):
        single = [
            (x0 + x1 - SIDE) / SIDE,
            (y0 + y1 - SIDE) / SIDE,
            np.log2(np.sqrt((x1 - x0) * (y1 - y0)) / SIDE),
            np.log2((x1 - x0) / (y1 - y0)),
        ]
        np.testing.assert_allclose(row[:4], single, atol=1e-12)
        np.testing.assert_allclose(row[4:], [a * b for k, a in enumerate(single) for b in single[k:]], atol=1e-12)
    mirrored = box_geometry(
        np.column_stack([SIDE - boxes[:, 2], boxes[:, 1], SIDE - boxes[:, 0], boxes[:, 3]]), *[SIDE] * 2
    )
    # Of the features of the place across, the first of four, those change sign that have it once.
    signs = np.where(np.isin(np.arange(14), [0, 5, 6, 7]), -1.0, 1.0)
    np.testing.assert_allclose(mirrored, signs * rows, atol=1e-12)


@given(st.integers(200, 400), st.integers(200, 400))
@settings(max_examples=30, deadline=None)
def test_geometry_is_about_as_long_as_the_gradients(width, height):
    lengths = np.linalg.norm(box_geometry(grid_boxes(width, height), width, height), axis=1)
    assert 0.5 < np.sqrt(np.mean(lengths**2)) < 2.0


def test_weights_of_geometry_can_choose_any_place_size_and_shape():
    boxes = grid_boxes(120, 90)
    single = 2 * np.sqrt(14.0) * BoxFeatures(geometry=0.5).describe(noise(0, 90, 120)).features[:, -14:-10]
    for k in (0, 7, 100, 200):
        # −|g − g_k|², but for a constant, is linear in the rows.
        weights = np.zeros(14)
        weights[:4] = 2 * single[k]
        weights[[4, 8, 11, 13]] = -1.0
        assert np.argmax(box_geometry(boxes, 120, 90) @ weights) == k


def test_geometry_follows_the_gradients(tmp_path):
    image = noise()
    plain, half, double = (BoxFeatures(limit=12, geometry=g, cache=tmp_path) for g in (0, 0.5, 2.0))
    gradients = plain.describe(image).features
    assert gradients.shape == (12, plain.n_features_)
    expected = box_geometry(plain.describe(image).boxes, 60, 40)
    for features in (half, double):
        found = features.describe(image).features
        assert found.dtype == np.float32
        assert found.shape == (12, features.n_features_)
        np.testing.assert_array_equal(found[:, :-14], gradients)
        np.testing.assert_allclose(found[:, -14:], features.geometry * expected, atol=1e-6)
    assert len(list(tmp_path.iterdir())) == 1


def test_images_of_a_generator_with_boxes_and_progress():
    images = [noise(k) for k in range(3)]
    own = [[[0, 0, 20, 20]], [[1, 2, 30, 40], [0, 0, 60, 40]], [5, 5, 25, 30]]
    features, seen = BoxFeatures(limit=5), []
    found = features.transform(iter(images), own, progress=lambda *step: seen.append(step))
    assert seen == [(1, None), (2, None), (3, None)]
    assert [len(one.boxes) for one in found] == [1, 2, 1]
    for one, image, boxes in zip(found, images, own, strict=True):
        np.testing.assert_array_equal(one.features, features.describe(image, boxes).features)
    seen.clear()
    assert len(features.transform(images, progress=lambda *step: seen.append(step))) == 3
    assert seen == [(1, 3), (2, 3), (3, 3)]


# The cache


def test_features_are_computed_once(tmp_path, monkeypatch):
    cache = tmp_path / "deep" / "cache"
    features, image = BoxFeatures(limit=12, cache=cache), noise()
    fresh = BoxFeatures(limit=12).describe(image)
    np.testing.assert_array_equal(features.describe(image).features, fresh.features)
    files = list(cache.iterdir())
    assert len(files) == 1
    changed = image.copy()
    changed[5, 5, 0] ^= 1
    for other in (
        lambda: features.describe(changed),
        lambda: features.describe(image.transpose(1, 0, 2)),
        lambda: features.describe(image, [[0, 0, 9, 9]]),
        lambda: BoxFeatures(limit=12, window=32, cache=cache).describe(image),
        lambda: BoxFeatures(limit=12, window=24, cell=4, cache=cache).describe(image),
    ):
        before = len(list(cache.iterdir()))
        other()
        assert len(list(cache.iterdir())) == before + 1
    assert {path.suffix for path in cache.iterdir()} == {".npz"}
    monkeypatch.setattr(BoxFeatures, "_features", lambda *_: pytest.fail("computed again"))
    np.testing.assert_array_equal(features.describe(image).features, fresh.features)
    np.testing.assert_array_equal(features.describe(image, key="another name").boxes, fresh.boxes)


def rot(raw):
    """Change one byte in the middle of a file."""
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 255]) + raw[middle + 1 :]


def other_archive(**arrays):
    def write(path, raw):
        np.savez(path, **arrays)

    return write


@pytest.mark.parametrize(
    "damage",
    [
        lambda path, raw: path.write_bytes(raw[: len(raw) // 2]),
        lambda path, raw: path.write_bytes(rot(raw)),
        lambda path, raw: path.write_bytes(b""),
        lambda path, raw: path.write_bytes(b"no archive at all"),
        other_archive(features=np.zeros((3, 324), np.float32)),
        other_archive(features=np.zeros((12, 324))),
        other_archive(features=np.full((12, 324), np.nan, np.float32)),
        other_archive(something=np.zeros(3)),
    ],
)
def test_damaged_features_are_made_again(damage, tmp_path):
    features, image = BoxFeatures(limit=12, geometry=0, cache=tmp_path), noise()
    first = features.describe(image)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    damage(path, whole)
    np.testing.assert_array_equal(features.describe(image).features, first.features)
    assert list(tmp_path.iterdir()) == [path]
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["features"], first.features)


def test_a_cache_that_is_a_file(tmp_path):
    (tmp_path / "cache").write_bytes(b"")
    with raises("cache", got="[Errno 17] File exists", expected="a folder that can be created, or None"):
        BoxFeatures(cache=tmp_path / "cache").describe(noise())


def test_a_cache_without_room(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files.os, "fsync", full)
    with raises("cache", expected="a writable folder on a disk with free space, or None"):
        BoxFeatures(limit=3, cache=tmp_path).describe(noise())
    assert not list(tmp_path.iterdir())


def test_settings_are_saved():
    features = BoxFeatures(
        step=4, sizes=(0.5,), aspects=[1.0, 2.0], limit=7, window=24, cell=6, geometry=0.75, cache="elsewhere"
    )
    state = msgspec.json.decode(msgspec.json.encode(features.to_state()))
    again = BoxFeatures.from_state(state)
    assert again.cache is None
    assert again.to_state() == features.to_state()
    assert again.geometry == 0.75
    one, other = (f.describe(noise()) for f in (again, features.set_params(cache=None)))
    np.testing.assert_array_equal(one.boxes, other.boxes)
    np.testing.assert_array_equal(one.features, other.features)
    assert BoxFeatures.from_state(state, cache="here").cache == "here"


@pytest.mark.parametrize(
    ("change", "parameter", "got"),
    [
        ({"window": "48"}, "state", "Expected int, got str - at $.window"),
        ({"version": 2}, "state", "unknown field version"),
        ({"format": "other"}, "state", "Invalid value 'other' - at $.format"),
        ({"window": 50}, "window", "50"),
        ({"sizes": []}, "sizes", "()"),
        ({"geometry": None}, "state", "Expected float, got null - at $.geometry"),
        ({"geometry": -1.0}, "geometry", "-1.0"),
    ],
)
def test_bad_settings_files(change, parameter, got):
    with raises(parameter, got=got, expected="a state of format" if parameter == "state" else ""):
        BoxFeatures.from_state(BoxFeatures().to_state() | change)
    with raises("state", got="got null", expected="a state of format 'latentstruct.BoxFeatures 1'"):
        BoxFeatures.from_state(None)


@pytest.mark.parametrize(
    ("more", "parameter", "got", "expected"),
    [
        ({"window": 8}, "window", "8", "a multiple of `cell` (8), at least 2 times"),
        ({"cell": 0}, "cell", "0", "an integer of at least 1"),
        ({"window": 48.0}, "window", "48.0", "an integer of at least 1"),
        ({"limit": -1}, "limit", "-1", "an integer of at least 1"),
        ({"geometry": -0.5}, "geometry", "-0.5", "a finite number of at least 0"),
        ({"geometry": np.inf}, "geometry", "inf", "a finite number of at least 0"),
        ({"geometry": np.nan}, "geometry", "nan", "a finite number of at least 0"),
        ({"geometry": True}, "geometry", "True", "a finite number of at least 0"),
        ({"geometry": "much"}, "geometry", "'much'", "a finite number of at least 0"),
        ({"cache": 3}, "cache", "3", "the path of a folder or None"),
        ({"cache": ""}, "cache", "''", "the path of a folder or None"),
    ],
)
def test_bad_settings(more, parameter, got, expected):
    for use in (lambda features: features.describe(noise()), lambda features: features.fit([noise()])):
        with raises(parameter, got=got, expected=expected):
            use(BoxFeatures(**more))


@pytest.mark.parametrize(
    ("image", "boxes", "parameter", "expected"),
    [
        (noise(), [[0, 0, 10, 10], [0, 0, 61, 40]], "boxes of bear.png", "boxes within the image, 0, 0"),
        (noise(), [[-1, 0, 10, 10]], "boxes of bear.png", "boxes within the image, 0, 0"),
        (noise(), np.zeros((0, 4)), "boxes of bear.png", "at least one box"),
        (noise(), [[5, 5, 5, 9]], "boxes of bear.png[0]", "a box with finite x0 < x1 and y0 < y1"),
        (noise()[..., 0], None, "bear.png", "uint8 of shape (height"),
        (noise() / 255.0, None, "bear.png", "uint8 of shape (height"),
        (noise()[:0], None, "bear.png", "uint8 of shape (height"),
        (None, None, "bear.png", "uint8 of shape (height"),
    ],
)
def test_bad_images(image, boxes, parameter, expected):
    with raises(parameter, expected=expected):
        BoxFeatures().describe(image, boxes, key="bear.png")


def test_boxes_for_each_image():
    features = BoxFeatures(limit=2)
    for images in ([noise()] * 2, iter([noise()] * 2)):
        with raises("boxes", got="boxes of 1 images", expected="boxes of "):
            features.transform(images, [[[0, 0, 9, 9]]])
    with raises("images", got="None", expected="a sequence of images"):
        features.transform(None)
    with raises("boxes", got="3", expected="a sequence such as a list"):
        features.transform([noise()], 3)
    with raises("boxes of image 1", expected="boxes within the image, 0, 0, 60, 40"):
        features.transform([noise()] * 2, [[[0, 0, 9, 9]], [[0, 0, 99, 9]]])


# Scores


@st.composite
def predictions(draw):
    n = draw(st.integers(1, 5))
    classes = st.lists(st.sampled_from("ab"), min_size=n, max_size=n)
    true = [draw(box_lists(2)) for _ in range(n)]
    candidates = [draw(box_lists(5)) for _ in range(n)]
    chosen = [draw(st.integers(0, len(boxes) - 1)) for boxes in candidates]
    return draw(classes), true, draw(classes), candidates, chosen


@given(predictions())
@settings(max_examples=50, deadline=None)
def test_scores_are_their_definition(data):
    Y, true, found, candidates, chosen = data
    predicted = [boxes[h] for boxes, h in zip(candidates, chosen, strict=True)]
    losses, wrong, hits = [], [], []
    for y, boxes, y_hat, listed, box in zip(Y, true, found, candidates, predicted, strict=True):
        met = [counted_overlap(box, t) for t in boxes]
        best = [max(counted_overlap(c, t) for c in listed) for t in boxes]
        losses.append(1 - max(met) if y == y_hat else 1.0)
        wrong.append(y != y_hat or all(a < b for a, b in zip(met, best, strict=True)))
        hits.append(max(met) >= 0.5)
    scores = box_scores(Y, true, found, np.array(predicted), candidates)
    expected = {
        "zero_one": np.mean(wrong),
        "overlap": np.mean(losses),
        "corloc": np.mean(hits),
        "accuracy": np.mean([a == b for a, b in zip(Y, found, strict=True)]),
    }
    assert scores == pytest.approx(expected)
    assert box_scores(Y, true, Y, [boxes[-1] for boxes in true])["zero_one"] == 0.0


def test_without_candidates_a_box_must_be_equal():
    scores = box_scores(["a", "a"], [[0, 0, 4, 4]] * 2, ["a", "a"], [[0, 0, 4, 4], [0, 0, 4, 3]])
    assert scores == {"zero_one": 0.5, "overlap": 0.125, "corloc": 1.0, "accuracy": 1.0}


@pytest.mark.parametrize(
    ("arguments", "parameter", "got", "expected"),
    [
        (([], [], [], []), "Y_true", "", "at least one class"),
        ((None, [], [], []), "Y_true", "None", "a sequence such as a list"),
        ((["a"], [[0, 0, 1, 1]], ["a"], None), "predicted_boxes", "None", "a sequence such as a list"),
        ((["a"], [], ["a"], [[0, 0, 1, 1]]), "true_boxes", "", "a sequence of 1 items"),
        ((["a"], [[0, 0, 1, 1]], [], [[0, 0, 1, 1]]), "Y_pred", "", "a sequence of 1 items"),
        ((["a"], [[0, 0, 1, 1]], ["a"], []), "predicted_boxes", "", "a sequence of 1 items"),
        ((["a"], [[0, 0, 1, 1]], ["a"], [[0, 0, 1, 1]], []), "candidate_boxes", "", "a sequence of 1 items"),
        ((["a"], [[]], ["a"], [[0, 0, 1, 1]]), "true_boxes[0]", "", "at least one box"),
        (
            (["a"], [[0, 0, 1, 1]], ["a"], [[0, 0, -1, 1]]),
            "predicted_boxes[0][0]",
            "",
            "a box with finite x0 < x1 and y0 < y1",
        ),
        ((["a"], [[0, 0, 1, 1]], ["a"], [[[0, 0, 1, 1], [0, 0, 2, 2]]]), "predicted_boxes[0]", "", "one box"),
    ],
)
def test_bad_scores(arguments, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        box_scores(*arguments)


# Photographs

NOTES = [
    {"file": "k1.jpg", "cls": "kangaroo", "size": [60, 40], "boxes": [[1, 2, 30, 40.4]]},
    {"file": "r1.jpg", "cls": "raccoon", "size": [50, 45], "boxes": [[0, 0, 9, 9], [5, 5, 50, 45]]},
    {"file": "r2.jpg", "cls": "raccoon", "size": [30, 30], "boxes": [[3, 3, 20, 25]]},
]


def write_mammals(home, notes=None):
    folder = home / "mammals_boxes"
    folder.mkdir()
    with zipfile.ZipFile(folder / "images_max400.zip", "w") as archive:
        for k, one in enumerate(NOTES):
            width, height = one["size"]
            archive.writestr(one["file"], encode(noise(k, height, width)))
    raw = notes if isinstance(notes, bytes) else msgspec.json.encode(NOTES if notes is None else notes)
    (folder / "boxes.json").write_bytes(raw)
    return home


def same_images(one, other):
    assert (one.names, one.labels) == (other.names, other.labels)
    for a, b in zip(one.images, other.images, strict=True):
        np.testing.assert_array_equal(a, b)


def test_mammals(tmp_path):
    home = write_mammals(tmp_path)
    one = load_mammals(home)
    assert (one.names, one.labels) == (["k1", "r2"], ["kangaroo", "raccoon"])
    assert [boxes.tolist() for boxes in one.boxes] == [[[1, 2, 30, 40]], [[3, 3, 20, 25]]]
    assert [image.shape for image in one.images] == [(40, 60, 3), (30, 30, 3)]
    np.testing.assert_array_equal(one.images[1:][0], noise(2, 30, 30))
    every = load_mammals(home, several=True)
    assert len(every.images) == 3
    assert every.boxes[1].tolist() == [[5, 5, 50, 45], [0, 0, 9, 9]]
    same_images(pickle.loads(pickle.dumps(one)), one)


@pytest.mark.parametrize(
    ("notes", "file", "expected"),
    [
        (b"{", "boxes.json", "a list of photographs with"),
        (b"\xff", "boxes.json", "a list of photographs with"),
        ([{"file": "k1.jpg"}], "boxes.json", "a list of photographs with file, cls, size and boxes"),
        ([], "boxes.json", "photographs of one animal"),
        ([NOTES[0] | {"file": "x.jpg"}], "images_max400.zip", "an image x as in"),
        ([NOTES[0] | {"boxes": [[5, 5, 1, 9]]}], "boxes.json", "boxes within the image k1.jpg"),
        ([NOTES[0] | {"boxes": [[70, 5, 80, 9]]}], "boxes.json", "boxes within the image k1.jpg"),
    ],
)
def test_bad_mammals(notes, file, expected, tmp_path):
    with raises(file=file, expected=expected):
        load_mammals(write_mammals(tmp_path, notes))


OBJECTS = [
    {"file": "cat/1.jpg", "label": "cat", "size": [60, 40], "box": [1, 2, 30, 40.4], "truncated": False},
    {"file": "dog/1.jpg", "label": "dog", "size": [50, 45], "box": [0, 0, 9, 9]},
    {"file": "cow/2.jpg", "label": "cow", "size": [30, 30], "box": [3, 3, 20, 25]},
]


def write_objects(home, folder, notes, file="boxes.json"):
    (home / folder).mkdir()
    with zipfile.ZipFile(home / folder / "images.zip", "w") as archive:
        for k, one in enumerate(OBJECTS):
            width, height = one["size"]
            archive.writestr(one["file"], encode(noise(k, height, width)))
    raw = notes if isinstance(notes, bytes) else msgspec.json.encode({"box_format": "any", "images": notes})
    (home / folder / file).write_bytes(raw)
    return home


@pytest.mark.parametrize(
    ("load", "folder", "file"),
    [
        (load_voc_mammals, "voc2012_mammals", "boxes.json"),
        (load_caltech_animals, "caltech_animals", "boxes.json"),
        (load_voc_actions, "voc2012_actions", "actions.json"),
    ],
)
def test_photographs_of_objects(load, folder, file, tmp_path):
    found = load(write_objects(tmp_path, folder, OBJECTS, file))
    assert (found.names, found.labels) == ([one["file"] for one in OBJECTS], ["cat", "dog", "cow"])
    assert [boxes.tolist() for boxes in found.boxes] == [[[1, 2, 30, 40]], [[0, 0, 9, 9]], [[3, 3, 20, 25]]]
    for k, image in enumerate(found.images):
        np.testing.assert_array_equal(image, noise(k, *image.shape[:2]))
    same_images(pickle.loads(pickle.dumps(found)), found)


def test_classes_of_photographs_are_chosen(tmp_path):
    home = write_objects(tmp_path, "caltech_animals", OBJECTS)
    found = load_caltech_animals(home, classes=["cow", "cat"])
    assert found.labels == ["cat", "cow"]
    for classes in (["cat", "horse"], []):
        with pytest.raises(InputError) as caught:
            load_caltech_animals(home, classes=classes)
        assert (caught.value.parameter, caught.value.expected) == ("classes", "some of cat, cow, dog")


@pytest.mark.parametrize(
    ("notes", "file", "expected"),
    [
        (b"{", "boxes.json", "images with file, label, size and box"),
        ([{"file": "cat/1.jpg"}], "boxes.json", "images with file, label, size and box"),
        ([OBJECTS[0] | {"file": "x.jpg"}], "images.zip", "an image x.jpg as in"),
        ([OBJECTS[0] | {"box": [5, 5, 1, 9]}], "boxes.json", "a box within the image cat/1.jpg"),
    ],
)
def test_bad_photographs_of_objects(notes, file, expected, tmp_path):
    with raises(file=file, expected=expected):
        load_voc_mammals(write_objects(tmp_path, "voc2012_mammals", notes))


@needs_data
def test_real_photographs_of_objects():
    counts = Counter(load_voc_mammals().labels)
    assert counts == dict.fromkeys(["cat", "cow", "dog", "horse", "sheep"], 60)
    assert len(load_caltech_animals(classes=["elephant", "panda"]).images) == 97
    actions = load_voc_actions()
    assert len(set(actions.labels)) == 10
    assert len(actions.images) == 784


def write_animals(home, masks, classes="void grass bird cat cow dog sheep"):
    folder = home / "msrc_v2"
    folder.mkdir()
    for file, as_image in (("images_jpg.zip", lambda m: noise(0, *m.shape)), ("labels_png.zip", np.uint8)):
        with zipfile.ZipFile(folder / file, "w") as archive:
            for k, mask in enumerate(masks):
                archive.writestr(f"{k}_s.png", encode(as_image(mask)))
    (folder / "classes.txt").write_text("".join(f"{k} {name}\n" for k, name in enumerate(classes.split())))
    return home


def test_animals(tmp_path):
    masks = np.ones((4, 30, 40), dtype=int)
    masks[0, 5:15, 6:20] = 4
    masks[0, 20:30, 0:4] = 4
    masks[0, 0:2, 38:40] = 4
    masks[1, 2:9, 3:5] = 2
    masks[1, 20:25, 3:5] = 3
    masks[3, 4:9, 10:12] = 6
    masks[3, 9:12, 12:14] = 6
    found = load_msrc_animals(write_animals(tmp_path, masks))
    assert (found.names, found.labels) == (["0_s", "3_s"], ["cow", "sheep"])
    # The corner of four pixels is too small for a cow; two sheep that touch are one.
    assert found.boxes[0].tolist() == [[6, 5, 20, 15], [0, 20, 4, 30]]
    assert found.boxes[1].tolist() == [[10, 4, 14, 12]]
    assert [image.shape for image in found.images] == [(30, 40, 3)] * 2
    same_images(pickle.loads(pickle.dumps(found)), found)


def test_animals_that_are_not_there(tmp_path):
    (tmp_path / "a").mkdir()
    with raises("MSRC", got="none", expected="photographs of animals of one class", error=FormatError):
        load_msrc_animals(write_animals(tmp_path / "a", np.ones((2, 8, 8), dtype=int)))
    (tmp_path / "b").mkdir()
    with raises("classes.txt", got="no cat", expected="the classes bird, cat, cow, dog, sheep", error=FormatError):
        load_msrc_animals(write_animals(tmp_path / "b", np.ones((2, 8, 8), dtype=int), "void grass bird"))


@needs_data
def test_real_mammals():
    one, every = load_mammals(), load_mammals(several=True)
    assert Counter(one.labels) == {"raccoon": 184, "kangaroo": 107}
    assert Counter(every.labels) == {"raccoon": 200, "kangaroo": 163}
    assert sum(map(len, every.boxes)) == 480
    height, width, _ = one.images[0].shape
    assert max(height, width) == 400


@needs_data
def test_real_animals():
    found = load_msrc_animals()
    assert Counter(found.labels) == {"cow": 45, "bird": 38, "sheep": 35, "dog": 30, "cat": 24}
    assert all((boxes[:, 2:] <= [320, 320]).all() for boxes in found.boxes)
    assert sum(len(boxes) > 1 for boxes in found.boxes) == 31
    # A series of one kind.
    assert {label for name, label in zip(found.names, found.labels, strict=True) if name.startswith("5_")} == {"cow"}
