"""Model folders under faults: kills, concurrent savers, full disks, and settings that were tampered with."""

import errno
import itertools
import json
import os
import random
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

import latentstruct
from command import HANGS, fail, run, weights_file
from error_fields import raises
from latentstruct import (
    CRF,
    FormatError,
    HiddenCRF,
    InputError,
    KernelStructuralSVM,
    LatentSSVM,
    MarginalSSVM,
    MinEntropySSVM,
    ModLat,
    Multiclass,
    StructuralSVM,
    StructuredPerceptron,
)
from latentstruct.persistence import atomic_files
from latentstruct.persistence import models as persistence
from latentstruct.persistence.atomic_files import replace_files, write_output
from latentstruct.persistence.models import _checksum

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[2])
    from fuzz.mutations import VALUES
    from soak.problems import KINDS, Draw

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def classes(n=3, C=1.0):
    """Return a small model, whose weights tell n and C apart."""
    return StructuralSVM(Multiclass(), C=C).fit(np.eye(n), range(n))


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


# --- replacing a model ---


def test_kills_and_concurrent_savers_leave_one_complete_model(tmp_path):
    for name, n in zip("abcd", (2, 3, 4, 5), strict=True):
        classes(n, C=float(n)).save(tmp_path / name)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    script = Path(__file__).with_name("model_savers.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path], env={**os.environ, **one_thread}, stdout=subprocess.PIPE, check=True
    )
    found = json.loads(done.stdout)
    assert found["random"] == []
    assert found["first"] == []
    assert found["operations"]["wrong"] == []
    # Each of the two files is created, locked, synchronized and renamed.
    assert found["operations"]["n"] >= 8
    for together in found["together"].values():
        assert together.pop("reads") > 0
        assert together == {"wrong": [], "failed": 0, "left_over": []}


def test_a_reader_follows_a_saver(tmp_path, monkeypatch):
    first, second = classes(2), classes(4)
    first.save(tmp_path / "model")
    read = persistence._read_weights

    def late(path):
        monkeypatch.setattr(persistence, "_read_weights", read)
        second.save(tmp_path / "model")
        return read(path)

    monkeypatch.setattr(persistence, "_read_weights", late)
    np.testing.assert_array_equal(latentstruct.load(tmp_path / "model").coef_, second.coef_)


def test_models_of_earlier_versions_are_refused_and_replaced(tmp_path):
    classes().save(tmp_path)
    settings = json.loads((tmp_path / "model.json").read_bytes())
    (tmp_path / "model.json").write_text(json.dumps({**settings, "version": 2}))
    with raises(str(tmp_path), got="'latentstruct-model' version 2", error=FormatError):
        latentstruct.load(tmp_path)
    classes(4).save(tmp_path)
    assert len(latentstruct.load(tmp_path).coef_) == 16


def test_the_same_weights_have_the_same_file(tmp_path):
    for name in ("one", "two"):
        classes().save(tmp_path / name)
    classes().save(tmp_path / "two")
    one, two = (weights_file(tmp_path / name) for name in ("one", "two"))
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    "name", ["../other/weights-0123456789abcdef.safetensors", "/etc/passwd", "model.json", "weights.safetensors", ""]
)
def test_settings_name_only_weights_in_their_folder(name, tmp_path):
    classes().save(tmp_path)
    settings = json.loads((tmp_path / "model.json").read_bytes())
    (tmp_path / "model.json").write_text(json.dumps({**settings, "weights": name}))
    with raises(str(tmp_path / "model.json"), got=name, expected="a name of weights", error=FormatError):
        latentstruct.load(tmp_path)


def test_what_a_killed_first_save_left_is_replaced(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("weights-0123456789abcdef.safetensors", ".latentstruct-lock", ".latentstruct-0123456789abcdef.part"):
        (folder / name).touch()
    (tmp_path / "train.svm").write_text("a 1:1\nb 2:1\n")
    run("train", "classes", tmp_path / "train.svm", "-o", folder, "-q")
    assert sorted(contents(folder)) == ["model.json", weights_file(folder).name]


def test_other_files_are_kept(tmp_path):
    classes().save(tmp_path)
    others = {"weights-mine.safetensors", "notes.part", "weights-0123456789abcdef.safetensors.bak"}
    for name in others:
        (tmp_path / name).touch()
    classes(4).save(tmp_path)
    assert others < contents(tmp_path).keys()
    assert len(contents(tmp_path)) == 5


# --- full disks ---


class FullAt:
    """Let the k-th operation on files fail, as on a full disk."""

    def __init__(self, monkeypatch, k):
        self.left = k
        for module, name in ((os, "fsync"), (os, "replace"), (Path, "mkdir")):
            monkeypatch.setattr(module, name, self.counted(getattr(module, name)))
        monkeypatch.setattr(Path, "open", self.opening(Path.open))

    def counted(self, function):
        def counting(*args, **options):
            self.count()
            return function(*args, **options)

        return counting

    def opening(self, function):
        def opened(path, mode="r", *args, **options):
            if mode != "xb":
                return function(path, mode, *args, **options)
            self.count()
            return Writing(function(path, mode), self.count)

        return opened

    def count(self):
        if not self.left:
            raise FULL
        self.left -= 1


class Writing:
    """A file whose writes are counted."""

    def __init__(self, file, count):
        self.file, self.count = file, count

    def write(self, data):
        # Half of it fits.
        self.file.write(data[: len(data) // 2])
        self.count()
        self.file.write(data[len(data) // 2 :])

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


@pytest.mark.parametrize("earlier", [True, False])
def test_a_full_disk_keeps_the_earlier_model(tmp_path, earlier):
    old, new = classes(2), classes(4)
    for k in itertools.count():
        folder = tmp_path / str(k)
        if earlier:
            old.save(folder)
        before = contents(folder) if earlier else None
        reported = save_when_full(new, folder, k)
        if reported is None:
            break
        assert "No space left on device" in reported
        if folder.exists() and len(latentstruct.load(folder).coef_) == len(new.coef_):
            # Only the last operation fails when the new model is in place.
            assert len(contents(folder)) == 2
            assert "unchanged" not in reported
            continue
        assert folder.exists() == earlier
        if earlier:
            assert contents(folder) == before
            assert "the earlier model there is unchanged" in reported
    # Two files are opened, written, synchronized and renamed, and their folder is synchronized.
    assert k > 8
    assert len(contents(folder)) == 2


def save_when_full(model, folder, k):
    """Save while the k-th operation on files fails; return the message, or None if there were fewer operations."""
    with pytest.MonkeyPatch.context() as context:
        FullAt(context, k)
        try:
            model.save(folder)
        except InputError as error:
            return str(error)
    return None


def test_a_full_disk_is_one_line_of_the_command(tmp_path, monkeypatch):
    (tmp_path / "train.svm").write_text("a 1:1\nb 2:1\n")
    train = ("train", "classes", tmp_path / "train.svm", "-o", tmp_path / "model", "-q")
    run(*train)
    before = contents(tmp_path / "model")

    def full(_):
        raise FULL

    with monkeypatch.context() as context:
        context.setattr(persistence, "replace_files", full)
        first, second = run(*train, code=2).stderr.splitlines()
    assert "its model was not saved" in first
    assert "--checkpoint" in first
    assert "No space left on device" in second
    assert contents(tmp_path / "model") == before
    with monkeypatch.context() as context:
        # Before training, where a small file cannot be written either.
        context.setattr(atomic_files.os, "fsync", full)
        assert "--output must be a place that can be written" in fail(*train)
    with monkeypatch.context() as context:
        context.setattr(atomic_files, "replace_files", full)
        shown = fail("predict", tmp_path / "model", tmp_path / "train.svm", "-o", tmp_path / "out")
        assert str(tmp_path / "out") in shown
        assert "a writable path on a disk with free space, got No space left on device" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "train.svm"]


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on a disk of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.decode()}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_real_full_disk(small_disk):
    folder = small_disk / "model"
    classes(2).save(folder)
    before = contents(folder)
    (small_disk / "filling").write_bytes(bytes(200 * 1024))
    large = classes(2)
    large.coef_, large.task_ = np.zeros(20_000), Multiclass()
    large.task_.restore({"labels": [0, 1], "n_inputs": 10_000})
    with raises(file="model", got="No space left on device"):
        large.save(folder)
    assert contents(folder) == before
    (small_disk / "filling").unlink()
    large.save(folder)
    assert len(latentstruct.load(folder).coef_) == 20_000
    assert sorted(contents(folder)) == ["model.json", weights_file(folder).name]


# --- single files ---


def test_outputs_are_replaced_as_a_whole(tmp_path):
    path, link = tmp_path / "out", tmp_path / "link"
    link.symlink_to(path)
    write_output(link, b"first")
    path.chmod(0o600)
    with pytest.raises(ValueError, match="half"):
        replace_files({path: halves()})
    assert path.read_bytes() == b"first"
    write_output(link, b"second")
    assert link.is_symlink()
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "out"]
    with raises(str(tmp_path / "none" / "out"), expected="a writable path"):
        write_output(tmp_path / "none" / "out", b"")


def halves():
    yield b"half of "
    raise ValueError("half")


def test_pipes_are_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    write_output(tmp_path / "pipe", b"content")
    assert reader.communicate(timeout=HANGS)[0] == b"content"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


# --- settings that were tampered with ---

WITH_LATENTS = (LatentSSVM, MarginalSSVM, HiddenCRF, MinEntropySSVM, ModLat)
SAVED = {
    **{name: (name, StructuralSVM) for name in KINDS},
    **{f"LatentMulticlass-{kind.__name__}": ("LatentMulticlass", kind) for kind in WITH_LATENTS},
    "Chain-CRF": ("Chain", CRF),
    "Graph-CRF": ("Graph", CRF),
    "Parsing-CRF": ("Parsing", CRF),
    "Multiclass-Perceptron": ("Multiclass", StructuredPerceptron),
    "Multiclass-Kernel": ("Multiclass", KernelStructuralSVM),
}
# A task of the user is not restored from a file.
del SAVED["Options"]
UNCHECKED = ("format", "version", "library", "weights", "weights_sha256")
N_MUTANTS = 120


def places(tree, path=()):
    """Return the paths of all values in a tree, of long lists those of the first ones."""
    if path:
        yield path
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree[:5]) if isinstance(tree, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def mutant(raw, rng):
    """Return settings with one change, and the change."""
    tree = json.loads(raw)
    # Each level is as likely as the next: most values are deep in lists.
    by_depth = {}
    for path in places(tree):
        if path[0] not in UNCHECKED:
            by_depth.setdefault((path[0], len(path)), []).append(path)
    path = rng.choice(by_depth[rng.choice(sorted(by_depth))])
    node = tree
    for key in path[:-1]:
        node = node[key]
    old, kind = node[path[-1]], rng.random()
    if kind < 0.15:
        del node[path[-1]]
        return tree, (path, "removed")
    if kind < 0.35 and isinstance(old, list) and old:
        new = old[: rng.randrange(len(old))]
    elif kind < 0.45 and isinstance(old, list):
        new = [*old, *old[:1]]
    elif kind < 0.45 and isinstance(old, int) and not isinstance(old, bool):
        new = old + rng.choice((-1, 1))
    else:
        new = rng.choice(VALUES)
    node[path[-1]] = new
    return tree, (path, new)


def trained(kind, estimator):
    """Return a small problem and a model of it, which has latents if the problem has them."""
    problem = KINDS[kind](Draw(np.random.default_rng(5), 6, 1.0, False))
    if problem.latent and estimator in (StructuralSVM, CRF):
        estimator = LatentSSVM if estimator is StructuralSVM else HiddenCRF
    options = {"max_iter": 2} if estimator is not KernelStructuralSVM else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return problem, estimator(problem.task, **options).fit(problem.X, problem.Y)


@pytest.mark.parametrize("name", SAVED)
def test_tampered_settings_are_refused_or_used(name, tmp_path):
    problem, model = trained(*SAVED[name])
    model.save(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw, rng, n_refused = (tmp_path / "model.json").read_bytes(), random.Random(name), 0
        assert len(latentstruct.load(tmp_path).predict(problem.X)) == len(problem.Y)
        for _ in range(N_MUTANTS):
            tree, change = mutant(raw, rng)
            (tmp_path / "model.json").write_text(json.dumps(tree))
            try:
                model = latentstruct.load(tmp_path)
                # Weights of any size are weights: scores may overflow.
                with np.errstate(all="ignore"):
                    assert len(model.predict(problem.X)) == len(problem.Y)
            except InputError:
                n_refused += 1
            except Exception as error:
                raise AssertionError(f"{change} led to {error!r}") from error
    assert 0 < n_refused < N_MUTANTS


@pytest.mark.parametrize("name", SAVED)
def test_weights_of_another_length_are_refused(name, tmp_path):
    problem, model = trained(*SAVED[name])
    model.save(tmp_path)
    path, settings = weights_file(tmp_path), json.loads((tmp_path / "model.json").read_bytes())
    vectors = load(path.read_bytes())
    for coef in (vectors["coef"][:-1], np.append(vectors["coef"], 0.0), vectors["coef"][:0]):
        changed = {**vectors, "coef": np.ascontiguousarray(coef)}
        path.write_bytes(save(changed))
        (tmp_path / "model.json").write_text(json.dumps({**settings, "weights_sha256": _checksum(changed)}))
        with pytest.raises(FormatError):
            latentstruct.load(tmp_path)
        # The same weights set by the user.
        model.coef_ = coef
        for use in (model.predict, lambda _: model.save(tmp_path / "copy")):
            with raises("coef_", got="shape"):
                use(problem.X)
