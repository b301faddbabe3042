"""Digits: files in the idx format, rotated views, and the parts of the experiments on digits."""

import gzip
import json
import os
import re
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from error_fields import raises
from latentstruct.core.objective import build_objective
from latentstruct.core.protocols import Temperature
from latentstruct.core.regularizers import GroupNorm
from latentstruct.estimators import LatentSSVM
from latentstruct.exceptions import FormatError
from latentstruct.features.rotated_views import ANGLES, RotatedViews, rotation_matrix
from latentstruct.solvers import SelfPaced
from latentstruct.tasks import LatentMulticlass
from latentstruct_papers import (
    digit_pairs,
    groupnorm_digits,
    groupnorm_mnist,
    groupnorm_tables,
    selfpaced_digits,
)
from latentstruct_papers.datasets import Mnist, load_mnist
from latentstruct_papers.datasets.idx import TYPES, read_idx
from latentstruct_papers.trials import Setup

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")


def pack(array, code=0x08):
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(TYPES[code]).tobytes()


# ---- the idx format --------------------------------------------------------------------------------------


@given(
    st.sampled_from(sorted(TYPES)),
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.booleans(),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40)
def test_arrays_come_back(tmp_path_factory, code, shape, compressed, random):
    array = np.array([random.randint(0, 100) for _ in range(int(np.prod(shape)))]).reshape(shape)
    path = tmp_path_factory.mktemp("idx") / "array"
    path.write_bytes(gzip.compress(pack(array, code)) if compressed else pack(array, code))
    found = read_idx(path)
    assert found.dtype == np.dtype(TYPES[code]).newbyteorder("=")
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)


@given(st.data())
@settings(max_examples=60)
def test_no_other_file_is_taken_for_one(tmp_path_factory, data):
    """Cut, lengthened, or with another byte in its header: an error that names the file, whatever is wrong."""
    whole = pack(np.arange(12).reshape(3, 4))
    change = data.draw(st.sampled_from(("cut", "lengthen", "alter")))
    if change == "cut":
        damaged = whole[: data.draw(st.integers(0, len(whole) - 1))]
    elif change == "lengthen":
        damaged = whole + data.draw(st.binary(min_size=1, max_size=9))
    else:
        place = data.draw(st.integers(0, 11))
        other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
        # The other type of one byte a value is as right as the first.
        damaged = whole[:place] + bytes([5 if (place, other) == (2, 0x09) else other]) + whole[place + 1 :]
    path = tmp_path_factory.mktemp("idx") / "damaged"
    path.write_bytes(gzip.compress(damaged) if data.draw(st.booleans()) else damaged)
    with raises(str(path), error=FormatError) as caught:
        read_idx(path)
    assert re.search(r"idx file|bytes|lengths of \d+ dimensions", caught.value.expected)


def test_announced_sizes_take_no_memory(tmp_path):
    path = tmp_path / "huge"
    path.write_bytes(bytes([0, 0, 0x0E, 3]) + struct.pack(">3I", 1 << 31, 1 << 31, 1 << 31))
    with raises(expected="an array of at most 2147483648 bytes", error=FormatError):
        read_idx(path)
    path.write_bytes(bytes([0, 0, 0x08, 1]) + struct.pack(">I", 1 << 30) + b"few")
    with raises(expected="1073741824 bytes, as the header states an array of shape (1073741824,)", error=FormatError):
        read_idx(path)
    path.write_bytes(gzip.compress(pack(np.zeros(5000))))
    with raises(got="shape (5000,) and 5000 bytes", expected="an array of at most 4999 bytes", error=FormatError):
        read_idx(path, max_bytes=4999)


def test_files_that_cannot_be_read(tmp_path):
    with raises(expected="a readable file"):
        read_idx(tmp_path / "absent")
    with raises(expected="a readable file"):
        read_idx(tmp_path)
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(pack(np.zeros(5000)))[:-9])
    with raises(expected="a complete gzip file", error=FormatError):
        read_idx(path)


def put_mnist(home, compressed=True, **change):
    rng = np.random.default_rng(0)
    files = {}
    for part, n in (("train", 5), ("t10k", 3)):
        files[f"{part}-images-idx3-ubyte"] = pack(rng.integers(0, 256, (n, 28, 28)))
        files[f"{part}-labels-idx1-ubyte"] = pack(rng.integers(0, 10, n))
    files |= {f"{name.replace('_', '-')}-ubyte": data for name, data in change.items()}
    (home / "mnist").mkdir(exist_ok=True)
    for name, data in files.items():
        (home / "mnist" / (f"{name}.gz" if compressed else name)).write_bytes(
            gzip.compress(data) if compressed else data
        )
    return home


@pytest.mark.parametrize("compressed", [True, False])
def test_mnist_is_loaded(tmp_path, compressed):
    found = load_mnist(put_mnist(tmp_path, compressed))
    assert found.train_images.shape == (5, 28, 28)
    assert found.test_images.shape == (3, 28, 28)
    assert found.train_images.dtype == np.uint8
    assert found.test_labels.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "file", "got", "expected"),
    [
        (
            {"train_images_idx3": pack(np.zeros((5, 27, 28)))},
            "train-images-idx3-ubyte.gz",
            "uint8 of shape (5, 27, 28)",
            "",
        ),
        (
            {"train_images_idx3": pack(np.zeros((5, 28, 28)), 0x0D)},
            "train-images-idx3-ubyte.gz",
            "",
            "uint8 of shape (5, 28, 28)",
        ),
        ({"t10k_labels_idx1": pack(np.zeros(4))}, "t10k-labels-idx1-ubyte.gz", "", "uint8 of shape (3,)"),
        ({"t10k_labels_idx1": pack(np.array([0, 10, 9]))}, "t10k-labels-idx1-ubyte.gz", "", "labels from 0 to 9"),
    ],
)
def test_mnist_that_does_not_fit(tmp_path, change, file, got, expected):
    with raises(file=file, got=got, expected=expected):
        load_mnist(put_mnist(tmp_path, **change))


def test_mnist_that_is_missing(tmp_path):
    (put_mnist(tmp_path) / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with raises(got="no such file", expected="a file of the data set"):
        load_mnist(tmp_path)


@needs_data
@pytest.mark.data
def test_real_mnist():
    found = load_mnist()
    assert found.train_images.shape == (60000, 28, 28)
    assert np.bincount(found.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert found.test_labels[:5].tolist() == [7, 2, 1, 0, 4]
    # Digits lie in the middle of their images.
    assert found.train_images[:, 13:15].mean() > 50 * found.train_images[:, :2].mean()


# ---- rotated views ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.images / 16.0, data.target


@given(st.integers(1, 9), st.integers(1, 9), st.floats(-400, 400), st.integers(0, 2**32))
@settings(max_examples=60)
def test_rotation_is_that_of_scipy(height, width, angle, seed):
    image = np.random.default_rng(seed).random((height, width))
    found = (rotation_matrix(height, width, angle) @ image.ravel()).reshape(height, width)
    expected = ndimage.rotate(image, angle, reshape=False, order=1, mode="grid-constant")
    np.testing.assert_allclose(found, expected, atol=1e-6)


@given(st.integers(1, 7), st.integers(0, 2**32))
def test_whole_turns_change_nothing(side, seed):
    image = np.random.default_rng(seed).random((side, side))
    for angle, expected in ((0, image), (360, image), (90, np.rot90(image)), (-180, image[::-1, ::-1])):
        found = (rotation_matrix(side, side, angle) @ image.ravel()).reshape(side, side)
        np.testing.assert_array_equal(found, expected)


@given(
    st.lists(st.floats(-90, 90), min_size=1, max_size=4),
    st.integers(1, 6),
    st.floats(0.1, 300),
    st.sampled_from([0.0, 1.0, 0.3]),
    st.integers(0, 1000),
)
@settings(max_examples=25, deadline=None)
def test_views_are_components_of_all_rotated_copies(digits, angles, n_components, scale, constant, first):
    """Compare with scikit-learn's PCA of the copies themselves."""
    images = digits[0][first : first + 60]
    views = RotatedViews(angles, n_components, scale, constant).fit(images)
    copies = np.stack(
        [ndimage.rotate(images, a, axes=(1, 2), reshape=False, order=1, mode="grid-constant") for a in angles], axis=1
    )
    rows = copies.reshape(-1, 64)
    pca = PCA(n_components, svd_solver="full").fit(rows)
    np.testing.assert_allclose(views.mean_, rows.mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(views.explained_variance_ratio_, pca.explained_variance_ratio_, atol=1e-7)
    found = views.transform(images)
    assert found.shape == (60, len(angles), n_components + bool(constant))
    np.testing.assert_array_equal(found[:, :, n_components:], scale * constant)
    # Components of equal variance may be turned into each other: distances within the space they span are the same.
    direct = (rows - rows.mean(axis=0)) @ views.components_.T
    np.testing.assert_allclose(found[:, :, :n_components].reshape(-1, n_components), scale * direct, atol=scale * 1e-6)
    np.testing.assert_allclose(views.components_ @ views.components_.T, np.eye(n_components), atol=1e-9)


def test_folded_views_are_those_of_both_steps(digits):
    images = (digits[0][:50] * 255).astype(np.uint8)
    views = RotatedViews(n_components=5, scale=30.0).fit(images)
    found = views.transform(images)
    assert found.shape == (50, 11, 6)
    for state in (0, 4, 10):
        np.testing.assert_allclose(views.project(views.rotate(images, state)), found[:, state], atol=1e-9)
    np.testing.assert_allclose(views.transform(images, [7, 2]), found[:, [7, 2]], atol=1e-9)
    assert views.transform(images, []).shape == (50, 0, 6)
    np.testing.assert_allclose(views.transform(images / 255.0), found, atol=1e-9)
    np.testing.assert_allclose(views.rotate(images, ANGLES.index(0.0)), images / 255.0)


def test_views_do_not_depend_on_blocks(digits, monkeypatch):
    images = digits[0][:100]
    views = RotatedViews(n_components=3).fit(images)
    monkeypatch.setattr("latentstruct.features.rotated_views.CHUNK", 7)
    small = clone(views).fit(images)
    np.testing.assert_allclose(small.components_, views.components_, atol=1e-9)
    np.testing.assert_allclose(small.transform(images), views.transform(images), atol=1e-9)


@pytest.mark.parametrize(
    ("change", "parameter", "got", "expected"),
    [
        ({"angles": ()}, "angles", "", "at least one finite number"),
        ({"angles": (0.0, np.nan)}, "angles", "", "at least one finite number"),
        ({"angles": "a"}, "angles", "", "real numbers"),
        ({"angles": [[0.0], [1.0, 2.0]]}, "angles", "", "real numbers"),
        ({"n_components": 65}, "n_components", "65", "an integer from 1 to 64"),
        ({"n_components": 2.0}, "n_components", "2.0", "an integer from 1 to 64"),
        ({"scale": 0.0}, "scale", "0.0", "a finite number above 0"),
        ({"scale": "a"}, "scale", "'a'", "a finite number above 0"),
        ({"scale": None}, "scale", "None", "a finite number above 0"),
        ({"constant": np.inf}, "constant", "inf", "a finite number"),
        ({"constant": "a"}, "constant", "'a'", "a finite number"),
        ({"constant": None}, "constant", "None", "a finite number"),
    ],
)
def test_parameters_that_make_no_sense(digits, change, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        RotatedViews(**change).fit(digits[0][:10])


def test_images_of_other_types_become_views_as_the_message_says(digits):
    grey = (255 * digits[0][:20]).astype(np.int64)
    expected = RotatedViews(n_components=3).fit_transform(grey / 255.0)
    np.testing.assert_allclose(RotatedViews(n_components=3).fit_transform(grey.astype("uint8")), expected, atol=1e-9)
    np.testing.assert_allclose(RotatedViews(n_components=3).fit_transform(grey / grey.max()), expected, atol=1e-9)


def test_images_that_make_no_sense(digits):
    views = RotatedViews(n_components=3).fit(digits[0][:20])
    for images, expected in (
        (digits[0][0], "images of shape (n, height"),
        (digits[0][:0], "none of them 0"),
        (digits[0][:3, :7], "images of shape (8, 8) as in"),
        (np.full((2, 8, 8), np.nan), "finite"),
        (np.ones((2, 8, 8), dtype=int), "uint8 from 0 to 255 or"),
        (np.ones((2, 8, 8), dtype=bool), "uint8 from 0 to 255 or"),
        ([np.ones((8, 8)), np.ones((8, 7))], "an array"),
    ):
        with raises("images", expected=expected):
            views.transform(images)
    for states in ([11], [-1], [0.5], [[0]]):
        with raises("states", expected="integers from 0 to 10"):
            views.transform(digits[0][:3], states)


# ---- experiments, on digits of 8 × 8 pixels --------------------------------------------------------------


@pytest.fixture(scope="module")
def small(digits):
    """Return digits in the form of MNIST, half of them to test with."""
    images, labels = (digits[0] * 255).astype(np.uint8), digits[1]
    return Mnist(images[::2], labels[::2], images[1::2], labels[1::2])


@pytest.fixture
def in_place_of_mnist(monkeypatch, small):
    for module in (digit_pairs, groupnorm_mnist):
        monkeypatch.setattr(module, "load_mnist", lambda data_home: small)
    selfpaced_digits.load.cache_clear()
    yield
    selfpaced_digits.load.cache_clear()


def draw(plot):
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    plot(axes)
    return axes


def quiet(line):
    pass


@pytest.mark.parametrize("weights", ["class", "state"])
def test_scores_of_states_are_those_of_the_model(small, weights):
    pair = digit_pairs.make_pair(small, (3, 8), 60, 50, 4)
    assert pair.name == "3-8"
    assert len(pair.y) == 60
    assert pair.X_test.shape == (50, 11, 5)
    model = LatentSSVM(LatentMulticlass(weights=weights), C=0.1, init="random").fit(pair.X, pair.y)
    scores = digit_pairs.scores_of_states(model, pair.X_test)
    np.testing.assert_allclose(scores.max(axis=2), model.class_scores(pair.X_test), atol=1e-9)
    right = digit_pairs.hits(model, scores, pair.y_test)
    assert right.mean() == model.score(pair.X_test, pair.y_test)
    alone = np.zeros((2, 11), dtype=bool)
    alone[:, 4] = True
    expected = model.classes_[scores[:, :, 4].argmax(axis=1)] == pair.y_test
    np.testing.assert_array_equal(digit_pairs.hits(model, scores, pair.y_test, alone), expected)


def test_scaled_pair_is_that_of_scaled_views(small):
    pair = digit_pairs.make_pair(small, (1, 7), 40, 30, 3)
    scaled = pair.scaled(30.0)
    np.testing.assert_allclose(scaled.views.transform(pair.test_images), scaled.X_test)
    np.testing.assert_allclose(scaled.X, 30.0 * pair.X)
    assert pair.views.scale == 1.0


@given(st.integers(1, 11), st.integers(0, 2**32), st.integers(0, 5))
def test_selections_have_the_budget(budget, seed, n_zero):
    rng = np.random.default_rng(seed)
    drawn = digit_pairs.random_selection(3, budget, rng)
    assert drawn.shape == (3, 11)
    assert (drawn.sum(axis=1) == budget).all()
    norms = rng.random((3, 11)) + 0.1
    norms[:, rng.permutation(11)[:n_zero]] = 0.0
    strongest = digit_pairs.strongest_selection(norms, budget)
    assert (strongest.sum(axis=1) == budget).all()
    for chosen, row in zip(strongest, norms, strict=True):
        assert row[chosen].min() >= row[~chosen].max(initial=0.0)


def test_paired_differences():
    right, other = np.array([1, 1, 0, 1], dtype=bool), np.array([1, 0, 0, 1], dtype=bool)
    assert digit_pairs.show_share(right) == "75.00 ± 25.00"
    assert digit_pairs.show_difference(right, other) == "+25.00 ± 25.00"
    assert digit_pairs.show_difference(right, right) == "+0.00 ± 0.00"


def test_self_paced_experiment(in_place_of_mnist):
    sizes = selfpaced_digits.Sizes(((3, 8),), (1.0, 10.0), 2, 40, 80)
    said = []
    found = selfpaced_digits.run(Setup(say=said.append), sizes)
    assert len(said) == 4
    assert "3-8: 40 training and 80 test images" in found.data
    table, overall, cost = found.tables
    assert [row[:2] for row in table.rows] == [["3-8", "1"], ["3-8", "10"]]
    assert [row[:2] for row in cost.rows][:2] == [["CCCP", "1"], ["self-paced", "1"]]
    by = {(one["C"], one["start"], one["solver"]): one["test_error"] for one in found.settings["trained"]}
    assert len(by) == 8
    # By chance half of the digits are wrong.
    assert np.mean(list(by.values())) < 0.4
    apart = [np.mean([by[C, s, "CCCP"] - by[C, s, "self-paced"] for s in range(2)]) * 100 for C in (1.0, 10.0)]
    assert float(overall.rows[2][1].split(" ± ")[0]) == pytest.approx(np.mean(apart), abs=0.006)
    assert len(draw(found.plots["errors"]).collections) == 1


def test_self_paced_training_is_that_of_the_estimator(small):
    pair = digit_pairs.make_pair(small, (2, 7), 60, 50)
    found = selfpaced_digits.train(pair, 5.0, 1, selfpaced_digits.PACED)
    task = LatentMulticlass()
    model = LatentSSVM(task, C=5.0 / 60, init="random", random_state=1, solver=SelfPaced()).fit(pair.X, pair.y)
    assert found.objective == pytest.approx(model.objective_)
    assert found.test_error == pytest.approx(1 - model.score(pair.X_test, pair.y_test))
    assert found.train_error == pytest.approx(1 - model.score(pair.X, pair.y))


@pytest.fixture(scope="module")
def sparse_pair(small):
    """Return a pair with a group-norm model of it, at a scale that leaves some states but not all."""
    pair = digit_pairs.make_pair(small, (3, 8), 60, 60)
    return pair, groupnorm_digits.fit_sparse(pair, 100.0, 0, 20.0)


def test_sparse_model_drops_states_exactly(sparse_pair):
    pair, sparse = sparse_pair
    assert 2 <= sparse.found.kept < 22
    assert sparse.norms.shape == (2, 11)
    model = sparse.model
    assert sparse.found.objective == pytest.approx(model.objective_)
    assert sparse.found.accuracy == sparse.right.mean() == model.score(pair.scaled(100.0).X_test, pair.y_test)
    kept, dropped = (model.prune(zeros=z).score(pair.scaled(100.0).X_test, pair.y_test) for z in ("keep", "drop"))
    assert kept == sparse.found.accuracy
    assert sparse.found.dropped.startswith(f"{100 * (dropped - kept):+.2f} ± ")


@given(st.floats(0.5, 300), st.floats(0.01, 10), st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_scale_is_exchangeable_for_C(small, scale, C, seed):
    """With features times s the objective at w/s is that of s·C at w, divided by s."""
    pair = digit_pairs.make_pair(small, (3, 8), 20, 5, 3)
    w = np.random.default_rng(seed).normal(size=22 * 4)

    def objective(X, C, w):
        task = groupnorm_digits.state_task()
        task.learn(X, pair.y)
        penalty = GroupNorm("states").bind(task)
        batch = task.prepare(X, pair.y)
        return build_objective(task, batch, np.full(20, C), Temperature(), regularizer=penalty).value(w)

    expected = objective(pair.X, scale * C, w) / scale
    assert objective(pair.scaled(scale).X, C, w / scale) == pytest.approx(expected)


def test_paper_algorithm_has_no_zeros(sparse_pair):
    pair, sparse = sparse_pair
    found = groupnorm_digits.descend(pair, sparse, 40)
    assert found.above(0.0) == 22
    assert found.above(0.0) >= found.above(1e-3) >= found.above(1e-1) >= 1
    ours, theirs = found.objectives[-1]
    assert 0 < ours < np.inf
    assert 0 < theirs < np.inf


def test_budgets_use_the_strongest_states(sparse_pair):
    pair, sparse = sparse_pair
    one, five, all_of_them = (groupnorm_digits.measure_budget(pair, sparse, k) for k in (1, 5, 11))
    assert one.pairs == 2
    assert one.angles <= five.angles <= all_of_them.angles
    assert all_of_them.pairs == sparse.found.kept
    assert all_of_them.images == 60
    assert one.microseconds[0] >= 1e6 * one.predicting / 60
    assert all_of_them.angles == (sparse.norms > 0).any(axis=0).sum()


@given(st.lists(st.floats(0, 1), min_size=11, max_size=11))
def test_needed_budget_is_as_good_as_all(curve):
    selection = groupnorm_digits.Selection("3-8", curve, [], [])
    needed = selection.needed(curve)
    assert all(value >= curve[-1] - groupnorm_tables.TOLERANCE for value in curve[needed - 1 :])
    assert needed == 1 or curve[needed - 2] < curve[-1] - groupnorm_tables.TOLERANCE


def test_lowest_objective_within_calls(sparse_pair):
    model = sparse_pair[1].model
    assert groupnorm_digits.reached(model, -1) == np.inf
    assert groupnorm_digits.reached(model, model.n_oracle_calls_) == pytest.approx(model.objective_)


def test_groupnorm_experiment(in_place_of_mnist):
    sizes = groupnorm_digits.Sizes(((1, 7),), (100.0,), 2, 3, 20, 40, 40, 20.0)
    said = []
    found = groupnorm_digits.run(Setup(say=said.append), sizes)
    assert len(said) == 2
    path, accuracy, budgets, times, descent, curve = found.tables
    assert [row[:3] for row in path.rows] == [["1-7", "×100", "0.01"]]
    assert len(path.rows[0][3].split(", ")) == 2
    assert path.rows[0][4] == 5
    assert accuracy.rows[0][0] == "1-7"
    assert [row[1] for row in budgets.rows] == ["by norm", "random, shared", "random, separate"]
    assert budgets.rows[0][-1].endswith("(paper 3)")
    # With all angles nothing is left to chance.
    assert budgets.rows[1][-2].endswith("± 0.0")
    assert [row[0] for row in times.rows] == list(range(1, 12))
    # Pixels of all angles cost more than those of one, and prediction comes on top.
    assert all(row[6] >= 1e3 * row[5] / 40 for row in times.rows)
    assert [row[1] for row in descent.rows] == ["×100"]
    assert [row[:2] for row in curve.rows] == [["1-7", budget] for budget in range(1, 12)]
    assert curve.rows[0][2] == budgets.rows[0][2]
    kept, equal, angles, seconds = found.claims
    assert kept.found.startswith(f"{accuracy.rows[0][1]} by the lowest objective")
    assert accuracy.rows[0][2] in equal.found
    assert angles.paper == "3"
    # The row of the budget that the claim is about.
    row = times.rows[int(angles.found.partition(" ")[0]) - 1]
    assert seconds.found.startswith(f"{row[6]:.1f} µs with {row[1]} angles")
    for plot in ("kept", "time", "norms-1-7", "accuracy-1-7"):
        assert draw(found.plots[plot]).get_ylabel()
    json.dumps(found.to_dict())


def test_experiment_with_many_digits(in_place_of_mnist, monkeypatch):
    monkeypatch.setattr(groupnorm_mnist, "DIGITS", (3, 8, 9))
    sizes = groupnorm_mnist.Sizes(60, 80, 4, (3.0, 0.3), 60, 0.03)
    said = []
    found = groupnorm_mnist.run(Setup(say=said.append), sizes)
    assert len(said) == 8
    accuracy, angles = found.tables
    assert [row[0] for row in accuracy.rows][2:] == [
        groupnorm_mnist.SEPARATE,
        groupnorm_mnist.SHARED,
        groupnorm_mnist.UPRIGHT,
    ]
    kept = [row[1] for row in accuracy.rows[:2]]
    assert all(1 <= number < 33 for number in kept)
    assert [sum(row[1:]) for row in angles.rows] == kept
    assert found.settings["accuracies"][groupnorm_mnist.SEPARATE] > 0.3
    (claim,) = found.claims
    assert claim.found.startswith(f"{accuracy.rows[0][0]}: {kept[0]} states, {accuracy.rows[0][3]} %, ")
    for plot in found.plots.values():
        assert draw(plot).get_xlabel()
