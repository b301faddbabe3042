import io
import os
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from error_fields import raises
from latentstruct.exceptions import FormatError
from latentstruct.features.images import single_patch_weights
from latentstruct.tasks import Graph, grid_graph
from latentstruct_papers import Setup, mssvm_msrc, snakes
from latentstruct_papers.datasets import load_msrc, load_snakes
from latentstruct_papers.ratios import difference, pooled_share
from pictures import encode

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")
CLASSES = "0 void\n1 building\n2 grass\n3 tree\n4 sky\n5 car\n"


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def photograph(rng, height=50, width=70):
    """Return an image and its labels: sky above, one other class below and a void column."""
    labels = np.full((height, width), 4, np.uint8)
    below = int(rng.choice([1, 2, 3, 5]))
    labels[height // 2 :] = below
    colors = np.array([[0, 0, 0], [150, 90, 60], [60, 170, 60], [20, 90, 30], [130, 170, 240], [180, 30, 40]])
    pixels = colors[labels] + rng.normal(scale=20, size=(height, width, 3))
    labels[:, :15] = 0
    return pixels.clip(0, 255).astype(np.uint8), labels


def write_msrc(home, names=("1_1_s", "2_1_s"), classes=CLASSES, **change):
    rng = np.random.default_rng(0)
    photographs = {name: photograph(rng) for name in names}
    files = {
        "images_jpg.zip": zipped({f"{name}.jpg": encode(one[0], "JPEG") for name, one in photographs.items()}),
        "labels_png.zip": zipped({f"{name}.png": encode(one[1]) for name, one in photographs.items()}),
        "classes.txt": classes.encode(),
    }
    folder = home / "msrc_v2"
    folder.mkdir(exist_ok=True)
    for name, data in (files | change).items():
        (folder / name).write_bytes(data)
    return photographs


def grids(**change):
    """Return the arrays of an archive with one training grid of 2 × 3 and one test grid of 2 × 2."""
    stored = {
        "train_shapes": [[2, 3]],
        "train_pixels": [[0, 0, 255]] * 3 + [[255, 0, 0]] * 3,
        "train_label_shapes": [[2, 3]],
        "train_labels": [0, 0, 0, 1, 2, 10],
        "test_shapes": [[2, 2]],
        "test_pixels": [[0, 0, 255]] * 4,
        "test_label_shapes": [[2, 2]],
        "test_labels": [0, 0, 0, 1],
    }
    return {name: np.array(value) for name, value in (stored | change).items() if value is not None}


def write_snakes(home, data):
    (home / "snakes").mkdir(exist_ok=True)
    if isinstance(data, dict):
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **data)
        data = buffer.getvalue()
    (home / "snakes" / "snakes.npz").write_bytes(data)
    return home


# Photographs


def test_msrc(tmp_path):
    written = write_msrc(tmp_path)
    data = load_msrc(tmp_path)
    assert data.names == ["1_1_s", "2_1_s"]
    assert data.classes == ["void", "building", "grass", "tree", "sky", "car"]
    assert len(data.images) == len(data.labels) == 2
    for name, image, labels in zip(data.names, data.images, data.labels, strict=True):
        np.testing.assert_array_equal(labels, written[name][1])
        assert image.dtype == np.uint8
        # JPEG is lossy, but keeps the mean color.
        assert np.abs(image.mean(axis=(0, 1)) - written[name][0].mean(axis=(0, 1))).max() < 3
    assert [one.shape for one in data.images[:1]] == [(50, 70, 3)]
    np.testing.assert_array_equal(data.labels[-1], written["2_1_s"][1])
    with pytest.raises(IndexError):
        data.images[2]


def test_msrc_that_is_missing(tmp_path):
    with raises(file="images_jpg.zip", got="no such file"):
        load_msrc(tmp_path)


@pytest.mark.parametrize(
    ("change", "file", "line", "got", "expected"),
    [
        ({"images_jpg.zip": b"PK"}, "images_jpg.zip", None, "BadZipFile: 'File is not a zip file'", ""),
        ({"labels_png.zip": zipped({"9_9_s.png": b""})}, "labels_png.zip", None, "", "an image 1_1_s"),
        ({"labels_png.zip": zipped({"readme.txt": b""})}, "labels_png.zip", None, "no images", ""),
        ({"classes.txt": b"0 void\n2 grass\n"}, "classes.txt", 2, "", "1"),
        ({"classes.txt": b"0 void\n"}, "classes.txt", None, "", "void and at least one"),
        ({"classes.txt": b"\xff"}, "classes.txt", 1, "", "UTF-8"),
    ],
)
def test_msrc_malformed(tmp_path, change, file, line, got, expected):
    write_msrc(tmp_path, **change)
    with raises(file=file, line=line, got=got, expected=expected):
        load_msrc(tmp_path)


def test_damaged_photographs_fail_when_they_are_asked_for(tmp_path):
    bad = {"images_jpg.zip": zipped({"1_1_s.jpg": b"\xff\xd8", "2_1_s.jpg": b""}), "classes.txt": b"0 void\n1 a\n"}
    write_msrc(tmp_path, **bad)
    data = load_msrc(tmp_path)
    with raises(file="images_jpg.zip:1_1_s.jpg"):
        data.images[0]
    with raises(file="labels_png.zip:1_1_s.png", expected="labels of at most 1"):
        data.labels[0]


@given(st.lists(st.integers(1, 30), min_size=2, max_size=60, unique=True), st.integers(0, 5))
def test_folds_share_out_each_series(numbers, seed):
    names = [f"{1 + number % 3}_{number}_s" for number in numbers]
    folds = mssvm_msrc.split(names, seed)
    assert sorted(k for fold in folds for k in fold) == list(range(len(names)))
    for number in (1, 2, 3):
        sizes = [sum(mssvm_msrc.series(names[k]) == number for k in fold) for fold in folds]
        assert abs(sizes[0] - sizes[1]) <= 1


def test_photographs_without_the_classes_are_left_out(tmp_path):
    names = [f"{series}_{k}_s" for series in (1, 2, 9) for k in range(3)]
    rng = np.random.default_rng(1)
    void = {f"{name}.png": encode(np.zeros((50, 70), np.uint8)) for name in names[:1]}
    labels = {f"{name}.png": encode(photograph(rng)[1]) for name in names[1:]}
    write_msrc(tmp_path, names, **{"labels_png.zip": zipped(void | labels)})
    chosen, counts, n_seen = mssvm_msrc.choose_photographs(load_msrc(tmp_path), None)
    assert n_seen == 6
    assert chosen.names == names[1:6]
    assert counts[:, 0].sum() == 6 * 4 * 6
    assert counts[4].tolist() == [sum((y == 2).sum() for y in chosen.Y), 5]
    fewer, _, n_seen = mssvm_msrc.choose_photographs(load_msrc(tmp_path), 2)
    assert (n_seen, fewer.names) == (4, [names[1], names[3], names[4]])


# Snakes


def test_snakes(tmp_path):
    data = load_snakes(write_snakes(tmp_path, grids()))
    assert data.X_train[0].shape == (2, 3, 3)
    assert data.X_train[0].dtype == np.uint8
    assert data.Y_train[0].tolist() == [[0, 0, 0], [1, 2, 10]]
    assert data.X_test[0].tolist() == [[[0, 0, 255]] * 2] * 2


def test_borders_are_dropped(tmp_path):
    pixels = np.arange(4 * 5 * 3).reshape(20, 3)
    change = {"train_shapes": [[4, 5]], "train_pixels": pixels}
    data = load_snakes(write_snakes(tmp_path, grids(**change)))
    np.testing.assert_array_equal(data.X_train[0], pixels.reshape(4, 5, 3)[1:3, 1:4])


@pytest.mark.parametrize(
    ("change", "got", "expected"),
    [
        ({"test_labels": None}, "KeyError", ""),
        ({"train_labels": [0.5] * 6}, "train_labels has the type float64", ""),
        ({"train_labels": [[0] * 6]}, "", "1 dimensions of train_labels"),
        ({"train_labels": [0] * 5}, "", "5 cells in train_label_shapes"),
        ({"train_labels": [11] * 6}, "", "train_labels from 0 to 10"),
        ({"test_pixels": [[0, 0, 256]] * 4}, "", "test_pixels from 0 to 255"),
        ({"test_pixels": [[0, 0]] * 4}, "", "3 channels of test_pixels"),
        ({"test_shapes": [[4, 0]]}, "", "heights and widths in test_shapes"),
        ({"test_shapes": [[4]]}, "", "heights and widths in test_shapes"),
        ({"test_shapes": [[4, 1]]}, "", "test_shapes equal to test_label_shapes"),
        ({"test_shapes": [[1, 2], [1, 2]]}, "", "test_shapes equal to test_label_shapes"),
        ({"test_shapes": [[3, 2]], "test_pixels": [[0, 0, 255]] * 6}, "", "test_shapes equal to test_label_shapes"),
    ],
)
def test_snakes_malformed(tmp_path, change, got, expected):
    with raises(file="snakes.npz", got=got, expected=expected):
        load_snakes(write_snakes(tmp_path, grids(**change)))


@settings(deadline=None, max_examples=60)
@given(
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=4),
    cut=st.one_of(st.none(), st.integers(0, 3000)),
)
def test_hostile_snakes(tmp_path_factory, flips, cut):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **grids())
    damaged = bytearray(buffer.getvalue())
    for position, flip in flips:
        damaged[position % len(damaged)] ^= flip
    home = tmp_path_factory.mktemp("hostile")
    try:
        load_snakes(write_snakes(home, bytes(damaged[:cut])))
    except FormatError as error:
        assert str(home) in str(error)  # noqa: PT017


def test_features_of_cells():
    grid = np.array([[[0, 0, 255], [255, 0, 0]], [[0, 255, 0], [0, 255, 255]]], np.uint8)
    features = snakes.cell_features(grid).reshape(2, 2, 9, 5)
    assert (features.sum(axis=3) == 1).all()
    shown = features.argmax(axis=3)
    # Color 0 is the background, which also surrounds the grid.
    assert shown[0, 0].tolist() == [0, 0, 0, 0, 0, 3, 0, 1, 2]
    assert shown[1, 1].tolist() == [0, 3, 0, 1, 2, 0, 0, 0, 0]
    graph = snakes.make_graph(grid, edge_features=True)
    for (first, second), row in zip(graph.edges.tolist(), graph.edge_features, strict=True):
        np.testing.assert_array_equal(row, np.concatenate([graph.features[first], graph.features[second]]))
    assert snakes.make_graph(grid, edge_features=False).edge_features is None


def crawl(rng, height=6, width=6):
    """Return a grid with a snake of ten cells that does not meet itself, each colored by the way to the next."""
    steps = {(0, 1): 1, (0, -1): 2, (1, 0): 3, (-1, 0): 4}
    while True:
        labels, colors = np.zeros((height, width), int), np.zeros((height, width), int)
        place = (int(rng.integers(height)), int(rng.integers(width)))
        for number in range(1, 11):
            labels[place] = number
            ways = [(place[0] + i, place[1] + j, color) for (i, j), color in steps.items()]
            free = [one for one in ways if 0 <= one[0] < height and 0 <= one[1] < width and not labels[one[:2]]]
            if not free:
                break
            *following, colors[place] = free[rng.integers(len(free))]
            place = tuple(following)
        else:
            return np.array(snakes.COLORS, np.uint8)[colors], labels


def test_experiment_with_snakes(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    parts = {"train": [crawl(rng, 4, 5) for _ in range(16)], "test": [crawl(rng, 4, 5) for _ in range(6)]}
    stored = {}
    for part, examples in parts.items():
        shapes = [labels.shape for _, labels in examples]
        stored |= {f"{part}_shapes": shapes, f"{part}_label_shapes": shapes}
        stored[f"{part}_pixels"] = np.concatenate([pixels.reshape(-1, 3) for pixels, _ in examples])
        stored[f"{part}_labels"] = np.concatenate([labels.ravel() for _, labels in examples])
    write_snakes(tmp_path, grids(**stored))
    monkeypatch.setattr(snakes, "MAX_ITER", 40)
    reported = []
    found = snakes.run(Setup(str(tmp_path), True, reported.append))
    assert [row[0] for row in found.tables[0].rows[:3]] == [snakes.CELLS, snakes.DIRECTIONS, snakes.FEATURES]
    assert len(reported) == 3
    shares = [float(row[2].split()[0]) for row in found.tables[0].rows]
    assert shares[3] == 76.8
    # More edges can only help on the training grids; that they are used shows in the training share.
    training = [float(row[5]) for row in found.tables[0].rows[:3]]
    assert training[2] > training[0]
    assert [path.name for path in found.save(tmp_path / "out")] == [
        "snakes.json",
        "snakes.txt",
        "snakes.html",
        "snakes-labels.png",
    ]


def test_experiment_with_photographs(tmp_path, monkeypatch):
    names = [f"{series}_{k}_s" for series in (1, 2) for k in range(6)]
    write_msrc(tmp_path, names)
    for limit in ("CRF_ITER", "MARGINAL_ITER", "ROUNDS", "INNER"):
        monkeypatch.setattr(mssvm_msrc, limit, 3)
    monkeypatch.setattr(mssvm_msrc, "QUICK_SPLITS", 2)
    found = mssvm_msrc.run(Setup(str(tmp_path), True, lambda text: None))
    accuracies, differences, classes, splits, training = found.tables
    assert [row[0] for row in splits.rows] == [1, 2, "mean"]
    # The first split is that of the other tables.
    assert float(splits.rows[0][1]) == pytest.approx(float(accuracies.rows[-2][-1]), abs=0.06)
    assert [claim.paper for claim in found.claims] == ["78.6, 77.1", "78.6, 77.7"]
    assert all("over 2 random splits; objectives fell by " in claim.found for claim in found.claims)
    assert [row[0] for row in accuracies.rows] == [*mssvm_msrc.FIVE, "mean of classes", "all patches"]
    assert accuracies.rows[2][1::2] != accuracies.rows[2][2::2]
    assert [row[2] for row in accuracies.rows[:5]] == list(mssvm_msrc.PUBLISHED["MSSVM"])
    # The colors of these classes tell them apart.
    assert all(float(accuracies.rows[-1][k].split()[0]) > 80 for k in (1, 3, 5, 7))
    assert len(differences.rows) == 3
    assert sum(row[1] for row in classes.rows) == 12 * 4 * 6
    assert len(training.rows) == 16
    falls = [float(row[6]) for row in training.rows if row[0] in mssvm_msrc.PUBLISHED]
    assert len(falls) == 12
    assert all(0 <= fall < 100 for fall in falls)
    assert "car is number" in " ".join(found.differs)
    files = [path.name for path in found.save(tmp_path / "out")]
    assert files == [
        "mssvm-msrc.json",
        "mssvm-msrc.txt",
        "mssvm-msrc.html",
        "mssvm-msrc-accuracy.png",
        "mssvm-msrc-examples.png",
    ]


# Shares


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=30),
    st.integers(2, 5),
)
def test_shares(counts, times):
    right, other = (np.array([min(one[k], one[2]) for one in counts]) for k in (0, 1))
    sizes = np.array([one[2] for one in counts])
    share = pooled_share(right, sizes)
    if not sizes.any():
        assert np.isnan(share.value)
        return
    assert share.value == pytest.approx(right.sum() / sizes.sum())
    gain = difference(right, other, sizes)
    assert gain.value == pytest.approx(share.value - pooled_share(other, sizes).value)
    used = sizes > 0
    if used.sum() < 2:
        assert share.error is None
        return
    assert difference(right, right, sizes) == (0.0, 0.0)
    # More images of the same kind lower the error as √n does, up to the one that the mean costs.
    many = pooled_share(np.tile(right, times), np.tile(sizes, times))
    n = int(used.sum())
    factor = np.sqrt((n - 1) / (n * times - 1))
    assert many.error == pytest.approx(share.error * factor, abs=1e-12)


def test_error_of_equal_sizes_is_that_of_a_mean():
    rng = np.random.default_rng(0)
    right = rng.integers(0, 11, 40)
    share = pooled_share(right, np.full(40, 10))
    assert share.error == pytest.approx(np.std(right / 10, ddof=1) / np.sqrt(40))


# Real data


@pytest.mark.data
@needs_data
def test_real_msrc():
    data = load_msrc()
    assert len(data.names) == len(data.images) == len(data.labels) == 591
    assert len(data.classes) == 24
    assert data.images[0].shape[:2] == data.labels[0].shape
    assert sum(mssvm_msrc.series(name) <= mssvm_msrc.N_SERIES for name in data.names) == 240


@pytest.mark.data
@needs_data
def test_real_snakes():
    data = load_snakes()
    assert [len(part) for part in (data.X_train, data.Y_train, data.X_test, data.Y_test)] == [200, 200, 100, 100]
    for X, Y in ((data.X_train, data.Y_train), (data.X_test, data.Y_test)):
        for x, y in zip(X, Y, strict=True):
            assert x.shape[:2] == y.shape
            assert sorted(y[y > 0].tolist()) == list(range(1, 11))
            background = (x == snakes.COLORS[0]).all(axis=2)
            np.testing.assert_array_equal(background, y == 0)
            assert (snakes.cell_colors(x).sum(axis=2) == 1).all()


def test_first_weights_of_dense_and_sparse_features_are_the_same():
    rng = np.random.default_rng(0)
    values = [np.stack([rng.normal(size=(3, 4)), np.ones((3, 4))], axis=-1) for _ in range(3)]
    dense = [grid_graph(one, edge_types=None) for one in values]
    compact = [replace(graph, features=sparse.csr_array(graph.features)) for graph in dense]
    Y = [rng.integers(0, 3, 12) for _ in dense]
    found = [single_patch_weights(Graph(), X, Y) for X in (dense, compact)]
    assert np.abs(found[0]).max() > 0.01
    np.testing.assert_allclose(*found, atol=1e-3)
