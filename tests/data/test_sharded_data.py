"""Prepared examples in files: what is written is what is read, training does not notice, and damage is refused."""

import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file, save_file
from scipy import sparse

from error_fields import raises
from latentstruct import (
    CRF,
    Chain,
    Coreference,
    CorrelationClustering,
    Detection,
    DetectionInput,
    Graph,
    KernelStructuralSVM,
    LatentMulticlass,
    LatentSSVM,
    ModLat,
    Motif,
    Multiclass,
    PairwiseRanking,
    PrecisionAtK,
    StructuralSVM,
    StructuredPerceptron,
)
from latentstruct.core.protocols import Temperature
from latentstruct.data.shard_files import MANIFEST
from latentstruct.data.shard_writing import locked
from latentstruct.data.sharded import ShardedData
from latentstruct.exceptions import FormatError
from latentstruct.parallel.dask_transport import WorkerHandle, stored_recipes
from latentstruct.tasks.base import BaseTask
from latentstruct.tasks.labels import LabelSet

BOXES = np.array([[0, 0, 8, 8], [8, 0, 16, 8], [0, 8, 8, 16.0]])


def chains(rng, n, kind="dense"):
    Y = [rng.integers(0, 3, rng.integers(0, 6)) for _ in range(n - 1)] + [np.arange(3)]
    X = [np.eye(3)[y] + 0.5 * rng.normal(size=(len(y), 3)) for y in Y]
    if kind == "sparse":
        X = [sparse.csr_array(np.round(x)) for x in X]
    if kind == "half":
        return X, [np.where(rng.random(len(y)) < 0.3, -1, y).tolist() for y in Y[:-1]] + [[0, 1, -1]]
    return X, Y


def classes(rng, n, kind="dense"):
    X, y = rng.normal(size=(n, 4)), np.append(rng.choice(["a", "b"], n - 2), ["a", "b"])
    X[:, 0] += 2.0 * (y == "a")
    return sparse.csr_array(np.where(rng.random(X.shape) < 0.2, 1.0, 0.0)) if kind == "sparse" else X, y


def sequences(rng, n):
    X = ["".join("ACGTN"[k] for k in rng.choice(5, 20, p=[0.24] * 4 + [0.04])) + "ACGT" for _ in range(n)]
    return X, np.append(rng.choice([-1, 1], n - 2), [-1, 1])


def views(rng, n):
    return rng.normal(size=(n, 3, 2)), np.append(rng.integers(0, 2, n - 2), [0, 1])


def ragged_views(rng, n):
    return [rng.normal(size=(rng.integers(1, 4), 2)) for _ in range(n)], views(rng, n)[1]


def images(rng, n):
    X, y = ragged_views(rng, n)
    return [DetectionInput(BOXES[: len(x)], x) for x in X], y


def queries(rng, n):
    X = [rng.normal(size=(rng.integers(2, 6), 3)) for _ in range(n)]
    return X, [np.arange(len(x)) % 2 for x in X]


def documents(rng, n):
    Y = [rng.integers(0, 2, rng.integers(1, 5)) for _ in range(n)]
    sizes = [len(y) * (len(y) - 1) // 2 for y in Y]
    return [np.round(rng.normal(size=(size, 3))) for size in sizes], Y


CASES = {
    "chain": (Chain(start=True, bias=True), chains),
    "sparse chain": (Chain(), lambda rng, n: chains(rng, n, "sparse")),
    "half-labeled chain": (Chain(), lambda rng, n: chains(rng, n, "half")),
    "classes": (Multiclass(bias=1.0), classes),
    "sparse classes": (Multiclass(), lambda rng, n: classes(rng, n, "sparse")),
    "motif": (Motif(4, 1, 2), sequences),
    "views": (LatentMulticlass(), ragged_views),
    "states": (LatentMulticlass(weights="state", bias=1.0), views),
    "shared rows": (LatentMulticlass(2, "state"), lambda rng, n: (rng.normal(size=(n, 3)), views(rng, n)[1])),
    "detection": (Detection(), images),
    "coreference": (Coreference(), documents),
    "clusters": (CorrelationClustering(), documents),
    "precision": (PrecisionAtK(2), queries),
    "pairs": (PairwiseRanking(), queries),
}


def answers(task, batch, w):
    planes = [task.planes(batch, w, mode, Temperature()) for mode in ("free", "augmented", "clamped")]
    total = task.total(batch, w, "augmented", Temperature(), np.ones(batch.n_examples))
    return [total.slope, total.offset, *(plane.values for plane in planes), *(plane.offsets for plane in planes)]


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(3, 8))
def test_a_batch_is_the_same_from_its_arrays(name, seed, n):
    task, draw = CASES[name]
    rng = np.random.default_rng(seed)
    X, Y = draw(rng, n)
    task.learn(X, Y)
    w = rng.normal(size=task.n_features)
    for outputs in (Y, None):
        batch = task.prepare(X, outputs)
        again = task.unpack({key: array.copy() for key, array in task.pack(batch).items()})
        assert (again.n_examples, again.labeled) == (n, outputs is not None)
        for found, wanted in zip(
            task.decode(again, w, Temperature()), task.decode(batch, w, Temperature()), strict=True
        ):
            assert_array_equal(found.y, wanted.y)
    again = task.unpack(task.pack(task.prepare(X, Y)))
    for found, wanted in zip(answers(task, again, w), answers(task, task.prepare(X, Y), w), strict=True):
        assert_array_equal(found, wanted)
    for found, wanted in zip(task.true_outputs(again), Y, strict=True):
        # Clusters are the same whatever they are called.
        same = found if draw is not documents else np.unique(found, return_inverse=True)[1]
        assert_array_equal(np.equal.outer(same, same), np.equal.outer(wanted, wanted))
        assert draw is documents or np.array_equal(found, wanted)


@pytest.mark.parametrize("name", CASES)
def test_numbers_out_of_range_are_refused(name):
    task, draw = CASES[name]
    X, Y = draw(np.random.default_rng(0), 5)
    task.learn(X, Y)
    arrays = task.pack(task.prepare(X, Y))
    for key, array in arrays.items():
        wrong = [arrays | {key: array[:-1]}, arrays | {key: array.astype(np.float32)}, arrays | {key: array[None]}]
        # Grades and features may be any numbers, if they are finite.
        extremes = (np.nan, np.inf) if array.dtype.kind == "f" else (np.iinfo(array.dtype).max, -2)
        for place in (0, len(array) - 1):
            for value in extremes if len(array) else ():
                changed = array.copy()
                changed[place] = np.array(value).astype(array.dtype)
                wrong.append(arrays | {key: changed})
        optional = key in ("truth", "grades", "positive")
        wrong += [] if optional else [{other: arrays[other] for other in arrays if other != key}]
        for damaged in wrong[1:] if len(array) == 0 else wrong:
            with raises(hint="Prepare the data again") as caught:
                task.unpack(damaged)
            assert caught.value.parameter.startswith("arrays['")


def blocks_of(draw, sizes):
    def blocks():
        for seed, size in enumerate(sizes):
            yield draw(np.random.default_rng(seed), size)

    return blocks


def whole(blocks):
    X, Y = zip(*blocks(), strict=True)
    if isinstance(X[0], np.ndarray):
        return np.concatenate(X), np.concatenate(Y)
    return [x for part in X for x in part], [y for part in Y for y in part]


@settings(max_examples=5, deadline=None)
@given(sizes=st.lists(st.integers(3, 30), min_size=1, max_size=6), kilobytes=st.floats(1.5, 20.0))
def test_blocks_are_joined_and_divided_in_their_order(sizes, kilobytes, tmp_path_factory):
    blocks = blocks_of(classes, sizes)
    data = ShardedData.write(tmp_path_factory.mktemp("data"), Multiclass(), blocks, shard_mb=kilobytes / 1024)
    X, y = whole(blocks)
    assert sum(data.sizes) == len(y) == len(data)
    # 40 bytes an example and some hundred for each file.
    assert max(data.sizes) * 40 <= 2 * 1024 * kilobytes
    assert_array_equal(np.concatenate([batch.inputs.matrix for batch in data.batches]), X)
    assert_array_equal(np.concatenate([data.task.true_outputs(batch) for batch in data.batches]), y)


FITS = {
    "chain": (CRF(Chain(), tol=1e-6), chains),
    "classes": (StructuralSVM(Multiclass(bias=1.0), solver="bundle", tol=1e-8), classes),
    "motif": (LatentSSVM(Motif(4, 1), C=0.1, solver="bundle", random_state=1), sequences),
}


@pytest.mark.parametrize("name", FITS)
def test_training_from_files_is_training_in_memory(name, tmp_path):
    model, draw = FITS[name]
    blocks = blocks_of(draw, [60, 30, 90])
    data = ShardedData.write(tmp_path, model.task, blocks, shard_mb=0.001)
    assert len(data.sizes) >= 3
    X, Y = whole(blocks)
    weights = np.linspace(0.5, 1.5, len(Y))
    rng = np.random.default_rng(0)
    start = {"coef_init": rng.normal(size=data.task.n_features)} if name == "motif" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        direct, stored = (
            pickle.loads(pickle.dumps(model)).fit(*given, sample_weight=weights, **start) for given in ((X, Y), (data,))
        )
    assert_allclose(stored.objective_, direct.objective_, rtol=1e-7)
    for found, wanted in zip(stored.predict(data), stored.predict(X), strict=True):
        assert_array_equal(found, wanted)
    assert stored.score(data) == pytest.approx(stored.score(X, Y))
    assert_allclose(stored.loss(data), stored.loss(X, Y))
    if hasattr(stored, "decision_function"):
        assert_allclose(stored.decision_function(data), stored.decision_function(X), rtol=1e-9)
    if name == "chain":
        assert_allclose(np.concatenate(stored.marginals(data)), np.concatenate(stored.marginals(X)), atol=1e-12)


def test_costs_and_widths_are_chosen_after_preparing(tmp_path):
    blocks = blocks_of(sequences, [10, 10])
    data = ShardedData.write(tmp_path, Motif(4, 1), blocks)
    found = LatentSSVM(Motif(3, 0, 2), C=0.1, max_iter=1, init="random", solver="bundle")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.fit(data)
    assert (found.task_.width, found.task_.n_features) == (3, len(found.coef_))
    assert_allclose(found.decision_function(data), found.decision_function(whole(blocks)[0]), rtol=1e-9)


@pytest.fixture
def stored(tmp_path):
    return ShardedData.write(tmp_path / "data", Multiclass(), blocks_of(classes, [20, 20]), shard_mb=0.001)


class ForgetfulTask(Multiclass):
    restore = BaseTask.restore


def many_classes():
    """Return a task whose table of costs would take 3 GB, without the table."""
    task = Multiclass()
    task.labels_, task.n_inputs_, task.n_features = LabelSet(list(range(20_000))), 4, 80_000
    return task


def test_what_does_not_go_together_is_refused(stored, tmp_path):
    X, y = classes(np.random.default_rng(0), 5)
    model = CRF(Multiclass()).fit(X, y)
    other = CRF(Multiclass()).fit(X[:, :3], y)
    free = ShardedData.write(tmp_path / "free", model.task_, [(X, None)])
    assert_array_equal(model.predict(free), model.predict(X))
    for call, parameter, got, expected, hint in (
        (lambda: CRF(Multiclass()).fit(stored, y), "y", "", "None for stored examples", ""),
        (lambda: CRF(Multiclass()).fit(free), "X", "", "prepared with outputs", ""),
        (lambda: model.score(free), "X", "", "prepared with outputs", ""),
        (lambda: model.score(stored, y), "y", "", "None for stored examples", ""),
        (lambda: CRF(Chain()).fit(stored), "task", "", "Multiclass", "task=data.task"),
        (lambda: CRF(Multiclass(labels=["b", "a"])).fit(stored), "labels", "", "None", ""),
        (lambda: other.predict(stored), "X", "", "", "model.task_"),
        (
            lambda: StructuralSVM(Multiclass(), solver="block_ascent").fit(stored),
            "solver",
            "",
            "one plane per example",
            "",
        ),
        (lambda: StructuredPerceptron(Multiclass()).fit(stored), "solver", "", "", ""),
        (lambda: KernelStructuralSVM(Multiclass()).fit(stored), "X", "", "examples in memory", ""),
        (lambda: KernelStructuralSVM(Multiclass()).fit(X, y).score(stored), "X", "", "examples in memory", ""),
        (lambda: ModLat(LatentMulticlass(2, "state")).fit(stored), "X", "", "examples in memory", ""),
        (
            lambda: ShardedData.write(tmp_path / "no", ForgetfulTask(), [(X, y)]),
            "task",
            "",
            "defines both state and restore",
            "",
        ),
        (lambda: ShardedData.write(tmp_path / "no", Multiclass(), [(X[:0], y[:0])]), "X", "", "at least one", ""),
        (lambda: ShardedData.write(tmp_path / "no", many_classes(), [(X, None)]), "task", "20000 labels", "", ""),
        (lambda: ShardedData.write(tmp_path / "no", Multiclass(), [(X, y)], extra=print), "task", "", "JSON", ""),
        (
            lambda: ShardedData.write(tmp_path / "no", Graph(), [(X, y)]),
            "task",
            "",
            "Chain, Coreference, CorrelationClustering, Detection, LatentMulticlass, Motif",
            "",
        ),
        (lambda: ShardedData.write(tmp_path / "no", Multiclass(), iter([(X, y)])), "blocks", "", "", "twice"),
        (lambda: ShardedData.write(tmp_path / "no", Multiclass(), []), "blocks", "", "at least one pair", ""),
        (lambda: ShardedData.write(tmp_path / "no", Multiclass(), [X]), "blocks[0]", "", "a pair", ""),
        (lambda: ShardedData.write(tmp_path / "no", Multiclass(), [(X, None)]), "blocks[0]", "no outputs", "", ""),
        (
            lambda: ShardedData.write(tmp_path / "no", model.task_, [(X, y), (X, None)]),
            "blocks",
            "",
            "all have outputs, or none",
            "",
        ),
        (lambda: ShardedData.write(tmp_path / "no", Multiclass(), [(X, y)], shard_mb=0), "shard_mb", "", "", ""),
        (lambda: ShardedData(tmp_path), "folder", "", "a folder of prepared data", ""),
        (lambda: ShardedData(3), "folder", "", "the path of a folder", ""),
    ):
        with raises(parameter, got=got, expected=expected, hint=hint):
            call()


def change_manifest(folder, change):
    manifest = json.loads((folder / MANIFEST).read_text())
    change(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def first_file(folder):
    return folder / json.loads((folder / MANIFEST).read_text())["shards"][0]["file"]


def rewrite(folder, change):
    """Change the arrays of a file and let the manifest know, as somebody with intent would."""
    import hashlib

    path = first_file(folder)
    arrays = {name: array.copy() for name, array in load_file(path).items()}
    change(arrays)
    save_file(arrays, path)
    raw = path.read_bytes()
    new = {"n_bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    change_manifest(folder, lambda manifest: manifest["shards"][0].update(new))


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)


def link(path):
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def set_state(manifest, name, value):
    known = dict(manifest["state"]["$dict"])
    manifest["state"]["$dict"] = [*(known | {name: value}).items()]


DAMAGE = {
    "truncated": lambda folder: os.truncate(first_file(folder), 100),
    "flipped": lambda folder: flip(first_file(folder)),
    "missing": lambda folder: first_file(folder).unlink(),
    "linked": lambda folder: link(first_file(folder)),
    "no json": lambda folder: (folder / MANIFEST).write_text("{"),
    "foreign": lambda folder: change_manifest(folder, lambda m: m.update(format="other")),
    "newer": lambda folder: change_manifest(folder, lambda m: m.update(version=2)),
    "escaping": lambda folder: change_manifest(folder, lambda m: m["shards"][0].update(file="../x.safetensors")),
    "twice": lambda folder: change_manifest(folder, lambda m: m["shards"].append(m["shards"][0])),
    "nothing": lambda folder: change_manifest(folder, lambda m: m["shards"].clear()),
    "other task": lambda folder: change_manifest(folder, lambda m: m.update(task="Chain")),
    "code": lambda folder: change_manifest(folder, lambda m: m.update(params={"$object": "os.system", "params": {}})),
    "negative": lambda folder: change_manifest(folder, lambda m: m["shards"][0].update(n_examples=-1)),
    "miscounted": lambda folder: change_manifest(folder, lambda m: m["shards"][0].update(n_examples=1)),
    "unlabeled": lambda folder: change_manifest(folder, lambda m: m.update(labeled=False)),
    "huge labels": lambda folder: change_manifest(folder, lambda m: set_state(m, "labels", list(range(40_000)))),
    "huge states": lambda folder: change_manifest(folder, lambda m: set_state(m, "n_states", 10**9)),
    "hostile label": lambda folder: rewrite(folder, lambda arrays: arrays["truth"].fill(2**40)),
    "nan": lambda folder: rewrite(folder, lambda arrays: arrays["inputs"].fill(np.nan)),
    "half an array": lambda folder: rewrite(folder, lambda arrays: arrays.update(truth=arrays["truth"][:1])),
    "other types": lambda folder: rewrite(folder, lambda arrays: arrays.update(truth=arrays["truth"].astype(np.int8))),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_refused_with_the_file_and_a_cure(stored, name):
    folder = stored.folder
    DAMAGE[name](folder)
    with raises(hint="Prepare the data again, or", error=FormatError) as caught:
        ShardedData(folder).verify()
    assert Path(caught.value.path).parent == folder


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_headers_are_checked_before_anything_is_mapped(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    ShardedData.write(folder, Multiclass(), blocks_of(classes, [5]))
    path = first_file(folder)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, min(len(raw), 260) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    import hashlib

    change_manifest(folder, lambda m: m["shards"][0].update(sha256=hashlib.sha256(raw).hexdigest()))
    try:
        batch = ShardedData(folder).batches[0]
    except FormatError:
        return
    assert batch.inputs.shape == (5, 4)
    assert set(batch.truth.tolist()) <= {0, 1}


def test_an_earlier_data_set_stays_whole_until_the_new_one_is(stored):
    folder, X, y = stored.folder, *classes(np.random.default_rng(7), 6)

    def broken():
        yield X, y
        raise RuntimeError

    before = ShardedData(folder)
    with pytest.raises(RuntimeError):
        ShardedData.write(folder, before.task, broken, shard_mb=0.001)
    after = ShardedData(folder)
    after.verify()
    assert after.digest == before.digest
    new = ShardedData.write(folder, before.task, [(X, y)])
    assert new.digest != before.digest
    assert len(new) == 6
    assert {path.name for path in folder.iterdir()} == {MANIFEST, *(shard.file for shard in new._shards)}
    # Written again the same, it is the same; a copy elsewhere too.
    assert ShardedData.write(folder.parent / "copy", before.task, [(X, y)]).digest == new.digest
    (folder / "other.txt").write_text("")
    (folder / MANIFEST).unlink()
    with raises("folder", expected="a new or empty folder, or one with prepared data"):
        ShardedData.write(folder, before.task, [(X, y)])


class Table:
    """Rows as a data frame has them: iterated it gives the names of its columns."""

    def __init__(self, rows):
        self.rows, self.shape = rows, rows.shape

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter("abcd")

    def __getitem__(self, place):
        return Table(self.rows[place])

    def __array__(self, dtype=None, copy=None):
        return self.rows


@pytest.mark.parametrize("form", [Table, sparse.coo_matrix])
def test_tables_of_other_libraries_are_blocks_and_empty_ones_are_passed_over(form, tmp_path):
    X, y = classes(np.random.default_rng(0), 40)
    blocks = [(form(X[start:stop]), y[start:stop]) for start, stop in ((0, 0), (0, 25), (25, 25), (25, 40))]
    data = ShardedData.write(tmp_path / "some", Multiclass(), blocks, shard_mb=0.001)
    assert len(data.sizes) > 1
    rows = [batch.inputs.matrix for batch in data.batches]
    assert_array_equal(np.concatenate([part.toarray() if sparse.issparse(part) else part for part in rows]), X)


def test_files_of_others_are_not_overwritten(tmp_path):
    (tmp_path / MANIFEST).write_text('{"mine": 1}')
    with raises("folder", expected="a new or empty folder, or one with prepared data"):
        ShardedData.write(tmp_path, Multiclass(), blocks_of(classes, [5]))
    assert (tmp_path / MANIFEST).read_text() == '{"mine": 1}'


@pytest.mark.parametrize("calls", [1, 2])
def test_an_interrupt_leaves_the_old_data_set_or_the_new_one(stored, monkeypatch, calls):
    left = [calls]

    def interrupted(folder):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr("latentstruct.persistence.atomic_files._sync_folder", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ShardedData.write(stored.folder, stored.task, blocks_of(classes, [7]))
    found = ShardedData(stored.folder)
    found.verify()
    assert len(found) == (40 if calls == 1 else 7)
    assert {path.name for path in stored.folder.iterdir()} == {MANIFEST, *(shard.file for shard in found._shards)}


def test_one_writes_at_a_time(stored):
    with locked(stored.folder), raises("folder", expected="a folder to which no other process is writing"):
        ShardedData.write(stored.folder, stored.task, blocks_of(classes, [7]))
    ShardedData(stored.folder).verify()
    ShardedData.write(stored.folder, stored.task, blocks_of(classes, [7])).verify()


def test_a_name_stands_for_the_data_it_was_made_from(stored, monkeypatch):
    monkeypatch.chdir(stored.folder.parent)
    named = ShardedData(stored.folder.name)
    monkeypatch.chdir("/")
    sent = pickle.dumps(named)
    assert pickle.loads(sent).batches[0].n_examples == stored.sizes[0]
    ShardedData.write(stored.folder, stored.task, blocks_of(classes, [7]))
    with raises(
        expected="the checksum",
        hint="Other data were written there. Open ShardedData(folder) again.",
        error=FormatError,
    ):
        pickle.loads(sent)


def test_states_of_stored_data(tmp_path):
    rng = np.random.default_rng(0)
    X, y = views(rng, 30)
    X[np.arange(30), y, 0] += 3.0
    task = LatentMulticlass(n_states=np.int64(3), weights="state", labels=(0, 1))
    data = ShardedData.write(tmp_path / "all", task, [(X, y)], shard_mb=0.001)
    model = LatentSSVM(task, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data)
    assert model.complete(data) == model.complete(X, y)
    with raises("y", expected="None for stored examples"):
        model.complete(data, y)
    pruned = model.prune(n_states=2, zeros="drop")
    with raises("X", expected="prepared for the states of the model, states=<ndarray of int64, shape (2, 3)>"):
        pruned.predict(data)
    # Inputs of states that are not there are never read, whatever they are.
    unread = np.setdiff1d(np.arange(3), pruned.task_.needed_states_)
    assert len(unread)
    X[:, unread] = np.nan
    kept = ShardedData.write(tmp_path / "kept", pruned.task_, [(X, y)])
    assert_array_equal(pruned.predict(kept), pruned.predict(X))


@pytest.mark.parametrize("name", FITS)
def test_predictions_do_not_depend_on_the_number_of_threads(name, tmp_path):
    model, draw = FITS[name]
    data = ShardedData.write(tmp_path, model.task, blocks_of(draw, [40, 40]), shard_mb=0.001)
    assert len(data.sizes) > 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pickle.loads(pickle.dumps(model)).set_params(max_iter=2).fit(data)
    one, three = (model.set_params(n_jobs=n_jobs).predict(data) for n_jobs in (1, 3))
    assert type(one) is type(three)
    for found, wanted in zip(three, one, strict=True):
        assert_array_equal(found, wanted)


def test_few_files_stay_open(stored):
    X, y = classes(np.random.default_rng(1), 100)
    stored = ShardedData.write(stored.folder, stored.task, [(X, y)], shard_mb=0.001)
    data = ShardedData(stored.folder, open_mb=2.5 * os.stat(first_file(stored.folder)).st_size / 2**20)
    opened = []
    data.batches._open = lambda number: opened.append(number) or stored.open(number)
    assert len(data.batches) > 3
    for _ in range(2):
        list(data.batches)
    assert opened == 2 * list(range(len(data.batches)))
    assert data.batches[len(data.batches) - 1] is data.batches[-1]
    assert pickle.loads(pickle.dumps(data)).digest == data.digest


def test_workers_keep_few_batches_open(stored):
    for open_mb, kept in ((1.0, True), (0.0, False)):
        task = WorkerHandle(stored.task)
        sent = pickle.dumps(
            [WorkerHandle(recipe) for recipe in stored_recipes(ShardedData(stored.folder, open_mb=open_mb))]
        )
        first, second = (held.value for held in pickle.loads(sent)[:2])
        batch = first.batch_for(task)
        assert batch.n_examples == stored.sizes[0]
        second.batch_for(task)
        assert (first.batch_for(task) is batch) == kept


def test_what_cannot_be_opened_is_handed_on_until_it_is_asked_for(stored):
    sent = pickle.dumps(WorkerHandle((stored, np.arange(5.0))))
    (stored.folder / MANIFEST).unlink()
    for protocol in (4, 5):
        arrived = pickle.loads(pickle.dumps(pickle.loads(sent), protocol))
        with raises("folder", got="without data.json", expected="a folder of prepared data"):
            arrived.value  # noqa: B018


LIMITED = """
import resource, sys, warnings
import numpy as np
from latentstruct import CRF, InputError, Multiclass
from latentstruct.data.sharded import ShardedData

warnings.simplefilter("ignore")
data = ShardedData(sys.argv[1], open_mb=2)
model = CRF(data.task, C=1e-3, max_iter=2, n_jobs=1)
few = data.batches[0].inputs.matrix[:50]
CRF(Multiclass(), C=1e-3, max_iter=2, n_jobs=1).fit(few, np.arange(50) % 2)
model.fit(ShardedData(sys.argv[2]))
now = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize"))
limit = 1024 * now + int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
model.fit(data)
print(len(model.predict(data)))
try:
    np.concatenate([batch.inputs.matrix for batch in data.batches])
except (InputError, MemoryError):
    print("more than memory")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the system does not tell how much is in use")
def test_data_need_not_fit_into_memory(tmp_path):
    def blocks():
        for seed in range(16):
            yield np.random.default_rng(seed).normal(size=(2500, 100)), np.arange(2500) % 2

    task = Multiclass()
    data = ShardedData.write(tmp_path / "large", task, blocks, shard_mb=1)
    ShardedData.write(tmp_path / "small", task, [next(blocks())], shard_mb=1)
    allowance = data.n_bytes // 3
    command = [sys.executable, "-c", LIMITED, str(data.folder), str(tmp_path / "small"), str(allowance)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=600)
    assert done.stdout.split("\n")[:2] == [str(len(data)), "more than memory"], done.stderr
