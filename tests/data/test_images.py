import io
import struct
import sys
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from error_fields import raises
from latentstruct.data import images
from latentstruct.data.images import (
    ImageFiles,
    draw_overlay,
    label_code,
    label_colors,
    label_name,
    parse_image,
    parse_label_image,
    write_label_image,
)
from latentstruct.exceptions import FormatError
from latentstruct.features.images import (
    PatchFeatures,
    color_histograms,
    patch_labels,
    patch_shape,
    spread_patches,
    texture_descriptors,
)
from pictures import encode, make_picture

PIXELS = arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)))
CODES = st.one_of(
    st.lists(st.integers(0, 255), min_size=1, max_size=40, unique=True),
    st.lists(st.integers(256, 256 + 0xFFFFFF), min_size=1, max_size=40, unique=True),
)
SIZES = st.sampled_from([(4, 1), (4, 2), (4, 4), (8, 2), (8, 6), (8, 12), (12, 3), (20, 10), (20, 15)])


def header_only(width, height):
    """Return a PNG that announces a size and has hardly any pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 10)) + chunk(b"IEND", b"")
    )


# Reading


@given(PIXELS, st.sampled_from(["PNG", "BMP", "PPM"]))
def test_lossless_images_are_read_back(pixels, kind):
    np.testing.assert_array_equal(parse_image(encode(pixels, kind)), pixels)


def test_every_kind_of_pixel_becomes_red_green_blue():
    gray = np.arange(12, dtype=np.uint8).reshape(3, 4)
    np.testing.assert_array_equal(parse_image(encode(gray)), np.repeat(gray[..., None], 3, axis=2))
    deep = gray.astype(np.uint16) * 256 + 200
    np.testing.assert_array_equal(parse_image(encode(deep))[..., 1], gray)
    clear = np.dstack([np.full((3, 4, 3), 70, np.uint8), np.zeros((3, 4), np.uint8)])
    assert (parse_image(encode(clear)) == 70).all()
    palette = encode(gray % 2, palette=[1, 2, 3, 4, 5, 6])
    assert parse_image(palette)[0, :2].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_turned_photographs_are_turned_back():
    # As a camera stores a photograph that is bright on top when it is held on its side.
    stored = np.zeros((32, 48, 3), np.uint8)
    stored[:, :24] = 255
    marks = Image.Exif()
    marks[0x0112] = 6
    buffer = io.BytesIO()
    Image.fromarray(stored).save(buffer, format="JPEG", exif=marks)
    found = parse_image(buffer.getvalue())
    assert found.shape == (48, 32, 3)
    assert found[:20].min() > 200
    assert found[28:].max() < 50


@pytest.mark.parametrize(
    ("raw", "got", "expected"),
    [
        (b"", "UnidentifiedImageError: 'cannot identify image file'", "a complete PNG"),
        (b"GIF89a" + bytes(30), "", "a complete PNG"),
        (encode(np.zeros((40, 40, 3), np.uint8))[:60], "", "a complete PNG"),
        (header_only(20_000, 5_000), "20000 × 5000 pixels", "at most 50000000 pixels"),
        (header_only(60_000, 60_000), "", "an image of at most 50000000 pixels"),
        (header_only(100, 100), "", "a complete PNG"),
    ],
)
def test_images_that_cannot_be_read(raw, got, expected):
    with raises(file="x.png", got=got, expected=expected):
        parse_image(raw, "x.png")


@settings(deadline=None, max_examples=150)
@given(
    kind=st.sampled_from(["PNG", "BMP", "PPM", "JPEG"]),
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=4),
    cut=st.one_of(st.none(), st.integers(0, 400)),
)
def test_hostile_images(kind, flips, cut):
    damaged = bytearray(encode(np.arange(300, dtype=np.uint8).reshape(10, 10, 3), kind))
    for position, flip in flips:
        damaged[position % len(damaged)] ^= flip
    for parse in (parse_image, parse_label_image):
        try:
            found = parse(bytes(damaged[:cut]), "hostile")
        except FormatError as error:
            assert error.path == "hostile"  # noqa: PT017
        else:
            assert found.shape[0] * found.shape[1] <= images.MAX_PIXELS


@given(CODES, st.data())
def test_label_images_are_read_back(tmp_path_factory, codes, data):
    codes = sorted(codes)
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    places = data.draw(arrays.arrays(np.int64, shape, elements=st.integers(0, len(codes) - 1)))
    path = tmp_path_factory.mktemp("labels") / "a.png"
    write_label_image(path, places, codes)
    colors = codes[0] >= 256
    read = parse_label_image(path.read_bytes(), colors=colors)
    np.testing.assert_array_equal(read, np.array(codes)[places])


@given(st.integers(0, 256 + 0xFFFFFF))
def test_labels_have_names(code):
    assert label_code(label_name(code)) == code


@pytest.mark.parametrize("name", ["", "256", "-1", "#12345", "#12345g", "red", "١"])
def test_names_that_are_no_labels(name):
    with raises("label", expected="a number from 0 to 255 or a color such as #000000"):
        label_code(name)


def test_labels_by_number_and_by_color():
    gray = np.array([[0, 7], [255, 7]], np.uint8)
    np.testing.assert_array_equal(parse_label_image(encode(gray)), gray)
    palette = encode(np.array([[0, 1]], np.uint8), palette=[0, 0, 0, 255, 128, 0])
    assert parse_label_image(palette).tolist() == [[0, 1]]
    assert [label_name(code) for code in parse_label_image(palette, colors=True)[0].tolist()] == ["#000000", "#ff8000"]
    colors = encode(np.array([[[255, 128, 0], [0, 0, 1]]], np.uint8))
    assert [label_name(code) for code in parse_label_image(colors)[0].tolist()] == ["#ff8000", "#000001"]


def test_label_images_of_the_wrong_kind():
    gray, color = encode(np.zeros((2, 2), np.uint8)), encode(np.zeros((2, 2, 3), np.uint8))
    with raises("x", got="colors", expected="a palette or grays", error=FormatError):
        parse_label_image(color, "x", colors=False)
    with raises("x", got="grays", expected="colors", error=FormatError):
        parse_label_image(gray, "x", colors=True)
    with raises("x", got="a JPEG, which blurs labels", error=FormatError):
        parse_label_image(encode(np.zeros((2, 2), np.uint8), "JPEG"), "x")
    with raises("x", got="'I;16'", expected="a palette, 8-bit grays or RGB", error=FormatError):
        parse_label_image(encode(np.zeros((2, 2), np.uint16)), "x")


def test_folders_archives_and_single_images(tmp_path):
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    (tmp_path / "deeper").mkdir()
    for name in ("b.PNG", "a.bmp", ".hidden.png", "deeper/c.png"):
        (tmp_path / name).write_bytes(encode(pixels, "BMP" if name == "a.bmp" else "PNG"))
    (tmp_path / "notes.txt").write_text("mine")
    files = ImageFiles(tmp_path)
    assert (files.names, len(files), "a" in files, "c" in files) == (["a", "b"], 2, True, False)
    np.testing.assert_array_equal(files.image("a"), pixels)
    assert ImageFiles(tmp_path / "a.bmp").names == ["a"]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(tmp_path / "a.bmp", "x/a.bmp")
        archive.write(tmp_path / "b.PNG", "b.PNG")
        archive.write(tmp_path / "b.PNG", "__MACOSX/b.PNG")
    packed = ImageFiles(tmp_path / "all.zip")
    assert packed.names == ["a", "b"]
    np.testing.assert_array_equal(packed.image("b"), pixels)
    assert packed.file("a").endswith("all.zip:x/a.bmp")


def test_folders_and_archives_that_cannot_be_used(tmp_path, monkeypatch):
    with raises(expected="a folder or zip archive of images"):
        ImageFiles(tmp_path / "none")
    with raises(str(tmp_path), got="no images", expected="files that end in .png", error=FormatError):
        ImageFiles(tmp_path)
    (tmp_path / "a.zip").write_bytes(b"PK nothing")
    with raises(expected="a complete zip archive of images", error=FormatError):
        ImageFiles(tmp_path / "a.zip")
    for name in ("a.png", "a.bmp"):
        (tmp_path / name).write_bytes(encode(np.zeros((30, 30, 3), np.uint8)))
    with raises(str(tmp_path), got="a.bmp and a.png", expected="one image per name", error=FormatError):
        ImageFiles(tmp_path)
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", bytes(5000))
    monkeypatch.setattr(images, "MAX_BYTES", 1000)
    with raises(got="a larger one", expected="a file of at most 1000 bytes", error=FormatError):
        ImageFiles(tmp_path / "b.zip").image("a")


@settings(deadline=None, max_examples=60)
@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=4))
def test_hostile_archives(tmp_path_factory, flips):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", encode(np.zeros((5, 5, 3), np.uint8)))
    damaged = bytearray(buffer.getvalue())
    for position, flip in flips:
        damaged[position % len(damaged)] ^= flip
    path = tmp_path_factory.mktemp("hostile") / "a.zip"
    path.write_bytes(bytes(damaged))
    try:
        files = ImageFiles(path)
        for name in files:
            files.image(name)
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017


@pytest.mark.parametrize("module", ["PIL", "skimage"])
def test_missing_packages_are_named(monkeypatch, module):
    monkeypatch.setattr(images, "find_spec", lambda name: None if name == module else object())
    monkeypatch.setitem(sys.modules, module, None)
    with raises(expected="installed to read images", hint="latentstruct[vision]"):
        parse_image(b"")


# Pictures


@given(st.data())
def test_overlays_mix_colors_and_name_what_is_there(data):
    pixels = data.draw(PIXELS)
    places = data.draw(arrays.arrays(np.int64, pixels.shape[:2], elements=st.integers(-1, 2)))
    colors = label_colors([0, 1, 2])
    opacity = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
    picture = draw_overlay(pixels, places, ["a", "b", "c"], colors, opacity)
    height = len(pixels)
    assert picture.shape[1:] == pixels.shape[1:]
    assert picture.shape[0] > height
    border = np.zeros(places.shape, bool)
    border[1:] |= places[1:] != places[:-1]
    border[:, 1:] |= places[:, 1:] != places[:, :-1]
    assert (picture[:height][border] == 255).all()
    plain = (places < 0) & ~border
    np.testing.assert_array_equal(picture[:height][plain], pixels[plain])
    shown = (places >= 0) & ~border
    mixed = (1 - opacity) * pixels[shown] + opacity * np.array(colors)[places[shown]]
    np.testing.assert_allclose(picture[:height][shown], mixed, atol=0.5)


def test_legends_show_only_what_is_there():
    colors = label_colors([0, 1])
    picture = draw_overlay(np.zeros((4, 120, 3), np.uint8), np.ones((4, 120), int), ["first", "second"], colors)
    legend = picture[4:].reshape(-1, 3).tolist()
    assert list(colors[1]) in legend
    assert list(colors[0]) not in legend


@given(st.integers(1, 200))
def test_colors_of_labels_differ(n):
    assert len(set(label_colors(range(min(n, 60))))) == min(n, 60)


# Patches


def windows(values, patch, step):
    rows, columns = patch_shape(values.shape[:2], patch, step)
    return [
        values[i * step : i * step + patch, j * step : j * step + patch] for i in range(rows) for j in range(columns)
    ]


@given(SIZES, st.integers(0, 30), st.integers(0, 30), st.integers(1, 4), st.data())
def test_patches_have_the_label_of_most_pixels(sizes, more_rows, more_columns, n_labels, data):
    patch, step = sizes
    shape = (patch + more_rows, patch + more_columns)
    labels = data.draw(arrays.arrays(np.int64, shape, elements=st.integers(-1, n_labels - 1)))
    found = patch_labels(labels, n_labels, patch, step)
    for window, label in zip(windows(labels, patch, step), found.tolist(), strict=True):
        counts = [(window == k).sum() for k in range(n_labels)]
        best = int(np.argmax(counts))
        assert label == (best if counts[best] >= (window == -1).sum() else -1)


@given(SIZES, st.integers(0, 30), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_color_histograms(sizes, more_rows, more_columns, seed):
    patch, step = sizes
    shape = (patch + more_rows, patch + more_columns, 3)
    image = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    found = color_histograms(image, patch, step)
    for window, row in zip(windows(image, patch, step), found, strict=True):
        expected = [np.bincount(window[..., c].ravel() // 16, minlength=16) for c in range(3)]
        np.testing.assert_array_equal(row, np.concatenate(expected) / patch**2)


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from([(8, 4), (8, 2), (12, 6), (20, 10)]), st.integers(0, 25), st.integers(0, 25), st.integers(0, 2**31)
)
def test_textures_are_unit_vectors_of_each_patch(sizes, more_rows, more_columns, seed):
    patch, step = sizes
    shape = (patch + more_rows, patch + more_columns, 3)
    image = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    found = texture_descriptors(image, patch, step)
    rows, columns = patch_shape(shape[:2], patch, step)
    assert found.shape == (rows * columns, 128)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-4)
    # A change well inside the last patch is seen by it and not by the first if they do not overlap.
    changed = image.copy()
    top, left = (rows - 1) * step, (columns - 1) * step
    changed[top + 2 : top + patch - 2, left + 2 : left + patch - 2] = 0
    other = texture_descriptors(changed, patch, step)
    assert not np.allclose(found[-1], other[-1])
    if max(top, left) >= patch:
        np.testing.assert_array_equal(found[0], other[0])


@given(SIZES, st.integers(0, 30), st.integers(0, 30))
def test_pixels_take_the_nearest_patch(sizes, more_rows, more_columns):
    patch, step = sizes
    size = (patch + more_rows, patch + more_columns)
    rows, columns = patch_shape(size, patch, step)
    found = spread_patches(np.arange(rows * columns), size, patch, step)
    assert found.shape == size
    middle = (patch - 1) / 2
    for axis, count, places in ((0, rows, found // columns), (1, columns, found % columns)):
        pixels = np.arange(size[axis])
        distances = np.abs(pixels[:, None] - (np.arange(count) * step + middle))
        chosen = places[:, 0] if axis == 0 else places[0]
        # A pixel halfway between two centers may go to either.
        assert (distances[pixels, chosen] <= distances.min(axis=1) + 0.5 + 1e-9).all()


def test_the_grid_of_the_paper():
    assert patch_shape((213, 320), 20, 10) == (20, 31)


def test_features_of_pictures():
    rng = np.random.default_rng(0)
    pictures = [make_picture(rng)[0] for _ in range(6)]
    features = PatchFeatures(words=12)
    grids = features.fit_transform(pictures)
    assert features.n_features_ == 60
    again = PatchFeatures(words=12).fit(iter(pictures)).transform(pictures)
    for grid, other, picture in zip(grids, again, pictures, strict=True):
        rows, columns = grid.shape
        assert (rows, columns) == patch_shape(picture.shape[:2], 20, 10)
        dense = grid.features.toarray()
        np.testing.assert_array_equal(dense, other.features.toarray())
        assert (dense[:, :12].sum(axis=1) == 1).all()
        np.testing.assert_allclose(dense[:, 12:].reshape(-1, 3, 16).sum(axis=2), 1.0)
        distances = ((texture_descriptors(picture, 20, 10)[:, None] - features.codebook_) ** 2).sum(axis=2)
        chosen = dense[:, :12].argmax(axis=1)
        assert (distances[np.arange(len(chosen)), chosen] <= distances.min(axis=1) + 1e-5).all()
    assert features.feature_name(3) == "texture word 3"
    assert features.feature_name(12 + 16) == "green 0–15"


def test_features_are_restored():
    pictures = [make_picture(np.random.default_rng(k))[0] for k in range(3)]
    features = PatchFeatures(patch=16, step=8, words=7).fit(pictures)
    restored = PatchFeatures.from_state(features.to_state())
    assert (restored.patch, restored.step, restored.words) == (16, 8, 7)
    for one, other in zip(features.transform(pictures), restored.transform(pictures), strict=True):
        assert one.shape == other.shape
        assert (one.features != other.features).nnz == 0


def test_plain_images_have_one_word():
    plain = np.full((40, 40, 3), 90, np.uint8)
    features = PatchFeatures(words=50)
    grid = features.fit_transform([plain])[0]
    assert len(features.codebook_) == 1
    assert (grid.features.toarray()[:, 0] == 1).all()


@pytest.mark.parametrize(
    ("change", "parameter", "got"),
    [
        ({"codebook": "AAAA"}, "state", "buffer size"),
        ({"codebook": "?"}, "state", "base64"),
        ({"format": "other"}, "state", "Invalid value 'other' - at $.format"),
        ({"version": 2}, "state", "unknown field version"),
        ({"n_words": 0, "codebook": ""}, "state", "0 words"),
        ({"extra": 1}, "state", "unknown field extra"),
        ({"words": "many"}, "state", "Expected int, got str - at $.words"),
        ({"patch": 6}, "patch", "6"),
    ],
)
def test_states_that_cannot_be_restored(change, parameter, got):
    state = PatchFeatures(words=3).fit([make_picture(np.random.default_rng(0))[0]]).to_state()
    expected = {"state": "a state of format 'latentstruct.PatchFeatures 1'"}.get(parameter, "a multiple of 4")
    with raises(parameter, got=got, expected=expected):
        PatchFeatures.from_state(state | change)


def test_codebooks_that_are_not_finite():
    features = PatchFeatures(words=3).fit([make_picture(np.random.default_rng(0))[0]])
    features.codebook_[1, 5] = np.nan
    with raises("state", got="NaN or infinity in the codebook"):
        PatchFeatures.from_state(features.to_state())


@pytest.mark.parametrize(
    ("params", "parameter", "got", "expected"),
    [
        ({"patch": 18}, "patch", "18", "a multiple of 4"),
        ({"patch": 0}, "patch", "0", "an integer of at least 4"),
        ({"step": 7}, "step", "7", "a multiple of 5, a quarter of"),
        ({"step": 10.0}, "step", "10.0", "an integer of at least 1"),
        ({"words": True}, "words", "True", "an integer of at least 1"),
    ],
)
def test_bad_parameters(params, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        PatchFeatures(**params).fit([np.zeros((30, 30, 3), np.uint8)])


def test_bad_images():
    with raises("images[1]", got="uint8 of shape (30, 30)", expected="uint8 of shape (height, width, 3)"):
        PatchFeatures().fit([np.zeros((30, 30, 3), np.uint8), np.zeros((30, 30), np.uint8)])
    with raises("images[0]", got="float64 of shape (30, 30, 3)", expected="uint8 of shape (height, width, 3)"):
        PatchFeatures().fit([np.zeros((30, 30, 3))])
    with raises("size", expected="at least 20 pixels, the size of a patch, on each side of an image"):
        PatchFeatures().fit([np.zeros((10, 30, 3), np.uint8)])
    with raises("images", expected="at least one image"):
        PatchFeatures().fit([])
    with raises("labels", got="0 to 3", expected="labels from −1 to 2, as `n_labels` is 3"):
        patch_labels(np.arange(400).reshape(20, 20) % 4, 3)
