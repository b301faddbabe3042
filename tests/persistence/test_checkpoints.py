"""Checkpoints: a training that is stopped at any iteration goes on to the same bits, and no file can lead it astray."""

import fcntl
import json
import multiprocessing
import os
import resource
import time
from collections import deque
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.numpy import load_file, save_file
from scipy import sparse

from error_fields import raises
from latentstruct import (
    CCCP,
    CRF,
    LBFGS,
    BlockAscent,
    Bundle,
    CuttingPlane,
    FrankWolfe,
    Graph,
    GroupNorm,
    HingeSolver,
    InputError,
    IterativeLSVM,
    KernelStructuralSVM,
    LatentMulticlass,
    LatentSSVM,
    ModLat,
    Multiclass,
    Perceptron,
    Proximal,
    SelfPaced,
    StructuralSVM,
    StructuredEstimator,
    Subgradient,
)
from latentstruct.core.objective import build_objective
from latentstruct.core.oracles import FixedOracle
from latentstruct.core.protocols import Iteration, Temperature
from latentstruct.core.types import Weights
from latentstruct.exceptions import CheckpointError, ConvergenceWarning, FormatError
from latentstruct.persistence import atomic_files
from latentstruct.persistence import checkpoints as module
from latentstruct.persistence.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from latentstruct.persistence.fingerprint import digest
from latentstruct.persistence.state_trees import CONTEXT, Range, from_state_dict, join_tree, split_tree, state_dict
from latentstruct.solvers import hinge
from latentstruct.solvers.lbfgs import Descent, evaluate
from latentstruct.solvers.stochastic import AlternatingSubgradient

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3))
Y = RNG.integers(0, 3, 24)
STATES = RNG.normal(size=(16, 3, 2))
KINDS = np.arange(16) % 2
STATES[np.arange(16), RNG.integers(0, 3, 16)] += 1.5 * (2 * KINDS[:, None] - 1)


def svm(solver):
    return StructuralSVM(Multiclass(bias=1.0), C=1.0, solver=solver)


def latent(solver="auto", restarts=None, **more):
    return LatentSSVM(LatentMulticlass(), C=1.0, solver=solver, restarts=restarts, **more)


def losses_of_latents(kind, **more):
    return kind(LatentMulticlass(latent_loss="zero_one"), C=1.0, **more)


MODELS = {
    "block ascent": (svm(BlockAscent(tol=1e-5)), X, Y),
    "Frank-Wolfe": (svm(FrankWolfe(tol=1e-2)), X, Y),
    "Frank-Wolfe, averaged": (svm(FrankWolfe(tol=0.05, average=True, gap_sampling=True, step="plain")), X, Y),
    "cutting planes": (svm(CuttingPlane()), X, Y),
    "bundle": (svm(Bundle()), X, Y),
    "bundle with cached planes": (svm(Bundle(cached_planes=4)), X, Y),
    "block ascent, then bundle": (svm(HingeSolver(tol=1e-6, patience=4, hopeless=0.0)), X, Y),
    "block ascent, then precise": (svm(HingeSolver(tol=1e-7, patience=2, hopeless=1e-6)), X, Y),
    "block ascent, bundle, block ascent": (svm(HingeSolver(tol=1e-9, patience=3, hopeless=0.0)), X, Y),
    "L-BFGS on a CRF": (CRF(Multiclass(bias=1.0), tol=1e-6), X, Y),
    "L-BFGS on a hinge": (svm(LBFGS(tol=0.02)), X, Y),
    "subgradient": (svm(Subgradient(max_iter=12)), X, Y),
    "subgradient, alternating": (latent(AlternatingSubgradient(max_iter=12)), STATES, KINDS),
    "perceptron": (StructuredEstimator(Multiclass(), margin=False, solver=Perceptron(max_iter=8)), X, Y),
    "CCCP": (latent(restarts=2), STATES, KINDS),
    "CCCP with a bundle": (latent(CCCP(Bundle(cached_planes=4))), STATES, KINDS),
    "self-paced": (latent(SelfPaced(CCCP(restarts=2), tol=0.2, max_iter=2)), STATES, KINDS),
    "L-BFGS, hidden and annealed": (
        StructuredEstimator(LatentMulticlass(), temperature=(0.0, 1.0), solver=LBFGS(restarts=2, tol=0.05)),
        STATES,
        KINDS,
    ),
    "proximal": (
        StructuredEstimator(
            LatentMulticlass(weights="state"),
            C=0.3,
            regularizer=GroupNorm(),
            solver=Proximal(tol=0.9, smoothing=(0.01,), restarts=2),
        ),
        STATES,
        KINDS,
    ),
    "proximal, smooth": (
        StructuredEstimator(Multiclass(), temperature=(1.0, 0.0), margin=False, solver=Proximal(tol=1e-6)),
        X,
        Y,
    ),
    "ModLat": (losses_of_latents(ModLat, restarts=2, tol=0.02), STATES, KINDS),
    "iterative LSVM": (losses_of_latents(IterativeLSVM, inner="convex"), STATES, KINDS),
}


@pytest.fixture
def kept(monkeypatch):
    """All checkpoints that are written, as bytes."""
    write, files = module.write_checkpoint, []

    def noted(path, *more):
        write(path, *more)
        files.append(path.read_bytes())

    monkeypatch.setattr(module, "write_checkpoint", noted)
    # No disk can fail here, and waiting for it takes most of the time.
    monkeypatch.setattr(atomic_files.os, "fsync", lambda file: None)
    return files


def fresh(model):
    return type(model)(**model.get_params(deep=False))


def outcome(model):
    """Return all that training reached, but for the time it took."""
    history = [replace(line, seconds=0.0) for line in model.history_]
    facts = (model.objective_, model.lower_bound_, model.n_iter_, model.n_oracle_calls_, model.stop_reason_)
    theta = getattr(model, "theta_", np.zeros(0)).tobytes()
    return model.coef_.tobytes(), theta, facts, tuple(model.restart_objectives_), history


@pytest.mark.filterwarnings("ignore::latentstruct.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_training_that_was_stopped_ends_with_the_same_bits(name, tmp_path, kept, monkeypatch):
    # Any bundle then falls behind soon.
    monkeypatch.setattr(hinge, "LAG", 1e3 if name.endswith("bundle, block ascent") else hinge.LAG)
    model, inputs, outputs = MODELS[name]
    path, requested = tmp_path / "run", []
    undisturbed = outcome(fresh(model).fit(inputs, outputs, checkpoint=path))
    assert len(kept) == 1
    assert outcome(fresh(model).fit(inputs, outputs, checkpoint=path, callback=requested.append)) == undisturbed
    assert not requested
    path.unlink()
    kept.clear()
    assert outcome(fresh(model).fit(inputs, outputs, checkpoint=Checkpoint(path, every=0))) == undisturbed
    assert len(kept) >= 4
    for place in (0, len(kept) // 2, -2):
        path.write_bytes(kept[place])
        assert outcome(fresh(model).fit(inputs, outputs, checkpoint=path)) == undisturbed, place


def test_the_messages_of_loopy_graphs_are_kept(tmp_path, kept):
    rng = np.random.default_rng(3)
    edges = np.array([(i, j) for i in range(5) for j in range(i)])
    graphs = [(rng.normal(size=(5, 2)), edges) for _ in range(4)]
    labels = [rng.integers(0, 3, 5) for _ in graphs]
    # So near to the minimum the weights change little, and messages of the iteration before are gone on from.
    model, path = CRF(Graph(max_entries=4), C=0.1, tol=1e-9), tmp_path / "run"
    undisturbed = outcome(fresh(model).fit(graphs, labels, checkpoint=Checkpoint(path, every=0)))
    assert outcome(fresh(model).fit(graphs, labels)) == undisturbed
    for place in (-4, -3, -2):
        path.write_bytes(kept[place])
        assert outcome(fresh(model).fit(graphs, labels, checkpoint=path)) == undisturbed


def small(**more):
    return StructuralSVM(Multiclass(bias=1.0), C=1.0, solver=BlockAscent(tol=1e-3), **more)


@pytest.fixture(scope="module")
def three_iterations(tmp_path_factory):
    """The bytes of a checkpoint after three iterations."""
    found = tmp_path_factory.mktemp("three") / "run"
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        small(max_iter=3).fit(X, Y, checkpoint=found)
    return found.read_bytes()


@pytest.fixture
def path(tmp_path, three_iterations):
    """A checkpoint after three iterations."""
    found = tmp_path / "run.checkpoint"
    found.write_bytes(three_iterations)
    return found


def test_larger_limits_go_on_and_equal_ones_return_at_once(path):
    requested = []

    def count(line):
        requested.append(line.iteration)

    with pytest.warns(ConvergenceWarning, match="max_iter"):
        again = small(max_iter=3).fit(X, Y, checkpoint=path, callback=count)
    assert (again.n_iter_, requested) == (3, [])
    further = small(max_iter=1000).fit(X, Y, checkpoint=path, callback=count)
    assert outcome(further) == outcome(small().fit(X, Y))
    assert requested == list(range(4, further.n_iter_ + 1))
    done = path.read_bytes()
    assert outcome(small().fit(X, Y, checkpoint=path)) == outcome(further)
    assert path.read_bytes() == done


def test_the_time_of_all_runs_counts_together(path):
    tree = read_checkpoint(path, json.loads(metadata(path)["identity"]))
    with pytest.warns(ConvergenceWarning, match="max_seconds"):
        found = small(max_seconds=tree["seconds"]).fit(X, Y, checkpoint=path)
    assert found.n_iter_ in (3, 4)


@pytest.mark.parametrize("stop", ["callback", "interrupt"])
@pytest.mark.parametrize("number", range(1, 12))
def test_a_training_that_the_user_stops_goes_on_later(tmp_path, stop, number):
    """Whichever call it is, also one in which the convex problem is solved."""
    path = Checkpoint(tmp_path / "run", every=0)
    model = latent(restarts=2)
    undisturbed = outcome(fresh(model).fit(STATES, KINDS))
    calls = iter(range(10**6))

    def end(line):
        if next(calls) != number:
            return False
        if stop == "interrupt":
            raise KeyboardInterrupt
        return True

    if stop == "interrupt":
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            fresh(model).fit(STATES, KINDS, checkpoint=path, callback=end)
    else:
        assert fresh(model).fit(STATES, KINDS, checkpoint=path, callback=end).stop_reason_ == "callback"
    assert outcome(fresh(model).fit(STATES, KINDS, checkpoint=path)) == undisturbed


def test_a_checkpoint_is_the_start_whatever_warm_start_would_be(path):
    model = small(warm_start=True).fit(X[:12], Y[:12])
    assert outcome(model.fit(X, Y, checkpoint=path)) == outcome(small().fit(X, Y))
    # A start that is given counts among the data.
    with raises("checkpoint", got="coef_init of the data"):
        small().fit(X, Y, checkpoint=path, coef_init=np.zeros(12))
    begun = path.with_name("begun")
    first = outcome(small().fit(X, Y, checkpoint=begun, coef_init=np.ones(12)))
    assert outcome(small().fit(X, Y, checkpoint=begun, coef_init=np.ones(12))) == first


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda path: small().fit(X + 1.0, Y, checkpoint=path), "X of the data"),
        (lambda path: small().fit(X, Y[::-1], checkpoint=path), "Y of the data"),
        (lambda path: small().fit(X, Y, np.ones(24), checkpoint=path), "sample_weight of the data"),
        (lambda path: small().set_params(C=2.0).fit(X, Y, checkpoint=path), "C of the estimator (was 1.0, is 2.0)"),
        (lambda path: small().set_params(task__bias=2.0).fit(X, Y, checkpoint=path), "bias of the task (was 1.0"),
        (lambda path: small().set_params(tol=0.1).fit(X, Y, checkpoint=path), "tol of the solver (was 0.001"),
        (lambda path: small().set_params(solver=Bundle()).fit(X, Y, checkpoint=path), "kind of the solver"),
        (lambda path: CRF(Multiclass()).fit(X, Y, checkpoint=path), "kind of the estimator"),
    ],
)
def test_another_training_is_refused_with_what_differs(path, change, named):
    before = path.read_bytes()
    with raises("checkpoint", got=named, expected="a checkpoint of this training"):
        change(path)
    assert path.read_bytes() == before


def test_equal_data_have_equal_checksums_whichever_objects_they_share():
    pair, rows = ("a", 1), sparse.csr_array(np.eye(3))
    rows.has_canonical_format  # noqa: B018 - scipy notes the answer in the matrix
    mixed = np.array([rows, None, "x"], dtype=object)
    for one, other in (
        ([pair, pair], [pair, ("a", 1)]),
        ([X, X], [X, np.asfortranarray(X)]),
        ([rows, {"x": rows}], [sparse.coo_array(np.eye(3)), {"x": sparse.csc_array(np.eye(3))}]),
        (mixed, np.array([sparse.csr_array(np.eye(3)), None, "".join(["x"])], dtype=object)),
        ({"b": 1, "a": {2, 3}}, {"a": {3, 2}, "b": np.int64(1)}),
        (Iteration(1, 0.5, 0.0, 0.5, 3, 0.1, False), Iteration(1, float("0.5"), 0.0, 0.5, 3, 0.1, False)),
    ):
        assert digest(one) == digest(other)
    different = [
        ["ab", "c"],
        ["a", "bc"],
        ("ab", "c"),
        [["ab"], "c"],
        [1],
        [1.0],
        [True],
        [None],
        ["1"],
        b"1",
        {},
        [],
        1,
    ]
    different += [
        np.zeros(2),
        np.zeros((2, 1)),
        np.zeros(2, dtype=np.float32),
        np.zeros(4, dtype=np.int32),
        X,
        X.T,
        rows,
    ]
    different += [digest, len, Iteration, sparse.csr_array(np.eye(4))]
    assert len(set(map(digest, different))) == len(different)
    around = Checkpoint("run")
    object.__setattr__(around, "path", [around])
    assert digest(around) == digest(around)


def metadata(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(size))["__metadata__"]


def rewrite(path, change):
    """Write a checkpoint again whose tree was changed, with a checksum that is right."""
    identity = json.loads(metadata(path)["identity"])
    tree = read_checkpoint(path, identity)
    change(tree)
    write_checkpoint(path, tree, identity)


def test_settings_that_change_no_weights_may_differ(path):
    undisturbed = outcome(small().fit(X, Y))
    assert outcome(small(n_jobs=2, verbose=False, max_iter=999, max_seconds=1e6).fit(X, Y, checkpoint=path)) == (
        undisturbed
    )


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_no_damaged_file_is_taken_for_a_checkpoint(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged", numbered=True)
    path = folder / "run"
    identity = {"data": {"X": "1"}}
    write_checkpoint(path, {"w": np.arange(5.0), "n": [1, None, "x"], "inf": float("inf")}, identity)
    raw = bytearray(path.read_bytes())
    how = data.draw(st.sampled_from(["cut", "flip", "fill", "extend"]))
    place = data.draw(st.integers(0, len(raw) - 1))
    if how == "cut":
        raw = raw[:place]
    elif how == "flip":
        raw[place] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "fill":
        raw[place:] = bytes(data.draw(st.binary(min_size=1, max_size=64)))
    else:
        raw += bytes(data.draw(st.integers(1, 64)))
    path.write_bytes(bytes(raw))
    with raises(str(path), error=FormatError) as caught:
        read_checkpoint(path, identity)
    assert caught.value.hint.endswith(("Remove the file to start again.", "Use another file."))


def test_foreign_files_and_other_versions_are_refused(path, tmp_path):
    foreign = tmp_path / "weights"
    save_file({"coef": np.zeros(3)}, foreign)
    with raises(str(foreign), expected="of checkpoints", error=FormatError):
        small().fit(X, Y, checkpoint=foreign)
    assert list(load_file(foreign)) == ["coef"]
    facts = metadata(path)
    save_file(load_file(path), path, {**facts, "version": "2"})
    with raises(str(path), got="2", expected="version 1 of checkpoints", error=FormatError):
        small().fit(X, Y, checkpoint=path)
    save_file(load_file(path) | {"solver.point.w": np.zeros(12)}, path, facts)
    with raises(str(path), got="the checksum differs", error=FormatError):
        small().fit(X, Y, checkpoint=path)
    path.unlink()
    assert outcome(small().fit(X, Y, checkpoint=path)) == outcome(small().fit(X, Y))


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.pop("solver"),
        lambda tree: tree.update(best=np.full(12, np.nan)),
        lambda tree: tree.update(best=np.zeros(5)),
        lambda tree: tree.update(best=None, objective=-1.0),
        lambda tree: tree.update(calls=True),
        lambda tree: tree["history"].update(iteration=np.zeros(2)),
        lambda tree: tree["solver"].update(w=np.zeros(12, dtype=np.float32)),
        lambda tree: tree["solver"].update(offset="x"),
        lambda tree: tree["solver"]["store"]["planes"].update(rows=np.full(3, 10**6, dtype=np.int32)),
        lambda tree: tree["solver"].update(rng={"bit_generator": "MT19937"}),
        lambda tree: tree["solver"].update(rng=None),
        lambda tree: tree.update(memory=[{}]),
        lambda tree: tree.update(earlier={"objective": 1.0}),
        lambda tree: tree.update(proven=-2147483649.0),
        lambda tree: tree.update(best=None),
    ],
)
def test_a_file_that_holds_something_else_is_refused(path, change):
    rewrite(path, change)
    with raises(expected="a state of this solver", hint="Remove the file", error=FormatError):
        small().fit(X, Y, checkpoint=path)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**130), 2**130),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    arrays_of.arrays(
        st.sampled_from([np.float64, np.int64, np.int32, np.uint32, np.uint8, np.bool_]),
        arrays_of.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3),
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=4), parts, max_size=3),
    max_leaves=8,
)


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(tree=TREES)
@settings(max_examples=40, deadline=None)
def test_trees_come_back_as_they_were(tree, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "tree"
    write_checkpoint(path, {"tree": tree}, {})
    assert same(read_checkpoint(path, {}), {"tree": tree})


def test_what_is_no_tree_is_refused():
    for wrong in (object(), {1: 2}, {"a": {"$array": 1}}, np.array(["x"]), (1, 2)):
        with pytest.raises(TypeError):
            split_tree({"part": wrong})
    assert join_tree(*split_tree({"a": np.float64(0.5), "b": [np.int32(3)]})) == {"a": 0.5, "b": [3]}


def test_a_full_disk_leaves_the_last_good_checkpoint(path):
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        # The probe at the start is a first sign.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with raises("checkpoint", got="the last good one is intact", hint="Free disk space", error=CheckpointError):
            small().fit(X, Y, checkpoint=Checkpoint(path, every=0))
        assert path.read_bytes() == before
        # A disk that fills up later.
        resource.setrlimit(resource.RLIMIT_FSIZE, (atomic_files.PROBE_BYTES, limits[1]))
        inputs = np.random.default_rng(0).normal(size=(1000, 3))
        outputs = np.arange(1000) % 3
        larger = path.with_name("larger")
        lost = "the iterations so far are lost"
        with raises("checkpoint", got=lost, hint="Free disk space", error=CheckpointError) as found:
            small().fit(inputs, outputs, checkpoint=Checkpoint(larger, every=0))
        assert isinstance(found.value, OSError)
        reported = "training has ended, but its last state was not written: `checkpoint` must be"
        with pytest.warns(ConvergenceWarning, match="max_iter"), pytest.warns(UserWarning, match=reported) as caught:
            model = small(max_iter=1).fit(inputs, outputs, checkpoint=Checkpoint(larger, every=1e9))
        assert model.n_iter_ == 1
        assert {one.filename for one in caught} == {__file__}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name]
    assert outcome(small().fit(X, Y, checkpoint=path)) == outcome(small().fit(X, Y))


def test_places_where_no_file_can_be(tmp_path):
    for wrong, expected in (
        (tmp_path, "the path of a file"),
        (tmp_path / "none" / "run", "a file in an existing folder"),
        (3, "the path of a file"),
        ("", "the path of a file"),
    ):
        with raises("checkpoint", got=str(wrong), expected=expected):
            small().fit(X, Y, checkpoint=wrong)
    with raises("every", got=-1):
        Checkpoint("run", every=-1)
    # What a process left that was killed while it wrote, and what another one is writing.
    (tmp_path / ".latentstruct-dead.part").touch()
    with open(tmp_path / ".latentstruct-live.part", "xb") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        small().fit(X, Y, checkpoint=tmp_path / "run")
    assert sorted(one.name for one in tmp_path.iterdir()) == [".latentstruct-live.part", "run"]


def test_an_interrupt_while_a_checkpoint_is_written_leaves_the_last_one(path, monkeypatch):
    before = path.read_bytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic_files.os, "replace", interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        small().fit(X, Y, checkpoint=Checkpoint(path, every=0))
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "model",
    [
        StructuredEstimator(LatentMulticlass(), temperature=(1.0, 1.0), solver=LBFGS(restarts=2, tol=0.1)),
        latent(SelfPaced(CCCP(restarts=2), tol=0.2, max_iter=2)),
    ],
)
def test_a_disk_that_is_full_when_a_start_ends_is_told_at_once_unless_it_is_the_last(model, tmp_path, monkeypatch):
    reported = []

    def note(path, tree, identity, ended=False):
        reported.append(ended)

    monkeypatch.setattr(module, "write_checkpoint", note)
    fresh(model).fit(STATES, KINDS, checkpoint=Checkpoint(tmp_path / "run", every=0))
    assert reported == [False] * (len(reported) - 1) + [True]


def test_rounds_of_self_pacing_are_no_limit(tmp_path):
    latent(SelfPaced(tol=0.2, max_iter=1)).fit(STATES, KINDS, checkpoint=tmp_path / "run")
    with raises("checkpoint", got="max_iter of the solver (was 1, is 2)"):
        latent(SelfPaced(tol=0.2, max_iter=2)).fit(STATES, KINDS, checkpoint=tmp_path / "run")


@pytest.mark.parametrize("change", [{"seconds": np.inf}, {"seconds": 1}, {"seconds": "1"}, {"start": 2}])
def test_a_crafted_place_in_the_outer_loop_is_refused(change, tmp_path):
    path = tmp_path / "run"
    model = latent(CCCP(restarts=2)).fit(STATES, KINDS, checkpoint=path, callback=lambda line: not line.estimate)
    assert model.stop_reason_ == "callback"
    rewrite(path, lambda tree: tree.update(change))
    with raises(str(path), got=next(iter(change)), error=FormatError):
        latent(CCCP(restarts=2)).fit(STATES, KINDS, checkpoint=path)


def test_errors_of_a_task_are_not_taken_for_those_of_the_file(path, monkeypatch):
    def broken(*question):
        raise ValueError("the task itself is broken")

    monkeypatch.setattr(FixedOracle, "planes", broken)
    with pytest.raises(ValueError, match="the task itself is broken") as found:
        small().fit(X, Y, checkpoint=path)
    assert not isinstance(found.value, FormatError)


def test_a_crafted_number_of_quiet_rounds_is_refused(tmp_path):
    model, inputs, outputs = MODELS["proximal"]
    path = tmp_path / "run"

    def stop(line):
        return line.iteration == 5

    model = fresh(model).set_params(solver=Proximal(tol=0.05, smoothing=()))
    model.fit(inputs, outputs, checkpoint=path, callback=stop)
    rewrite(path, lambda tree: tree["solver"]["bundle"].update(quiet=400))
    with raises(str(path), got="quiet is 400", error=FormatError):
        fresh(model).fit(inputs, outputs, checkpoint=path)


def test_solvers_that_keep_no_state_are_refused(tmp_path):
    class Own:
        needs = frozenset()
        limits = ()
        tol = 1e-3

        def minimize(self, objective, w0=None, *, state=None, callback=None, checkpointer=None):
            if checkpointer is not None:
                raise InputError("checkpoint", checkpointer, "None for Own")
            return BlockAscent().minimize(objective, w0, state=state, callback=callback)

    model = StructuralSVM(Multiclass(), solver="auto")
    model._solver = lambda objective: Own()
    with raises("checkpoint", expected="None for Own"):
        model.fit(X, Y, checkpoint=tmp_path / "run")
    with raises("checkpoint", expected="None for sampled cuts"):
        KernelStructuralSVM(Multiclass(), kernel="rbf", cuts=10).fit(X, Y, checkpoint=tmp_path / "run")
    exact = KernelStructuralSVM(Multiclass(), kernel="rbf")
    first = exact.fit(X, Y, checkpoint=tmp_path / "run").coef_
    assert np.array_equal(exact.fit(X, Y, checkpoint=tmp_path / "run").coef_, first)


@pytest.mark.parametrize("kind", [StructuralSVM, KernelStructuralSVM])
def test_warnings_point_to_the_line_that_fits(kind):
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        kind(Multiclass(), max_iter=1, tol=1e-9).fit(X, Y)
    assert [one.filename for one in caught] == [__file__]


def test_resuming_is_printed(path, capsys):
    small(verbose=True).fit(X, Y, checkpoint=path)
    assert f"resuming from {path}, 3 iterations are done" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["block ascent, then bundle", "self-paced"])
def test_the_rounds_of_all_parts_are_told(name, tmp_path):
    model, inputs, outputs = MODELS[name]
    path, reported = tmp_path / "run", []
    iterations = len(fresh(model).fit(inputs, outputs, checkpoint=path).history_)

    class Listener:
        def __call__(self, line):
            return None

        def go_on(self, name, n_iter):
            reported.append(n_iter)

    fresh(model).fit(inputs, outputs, checkpoint=path, callback=Listener())
    assert reported == [iterations]


def train_for_long(path):
    CRF(Multiclass(), C=100.0, tol=1e-13).fit(X, Y, checkpoint=Checkpoint(path, every=0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_killed_process_is_followed_by_one_that_goes_on_to_the_same_weights(tmp_path):
    path = tmp_path / "run"
    child = multiprocessing.get_context("fork").Process(target=train_for_long, args=(path,))
    child.start()
    while not path.exists() and child.is_alive():
        time.sleep(0.001)
    child.kill()
    child.join()
    assert path.exists()
    model = CRF(Multiclass(), C=100.0, tol=1e-13)
    undisturbed = outcome(fresh(model).fit(X, Y))
    assert outcome(fresh(model).fit(X, Y, checkpoint=path)) == undisturbed


def test_pairs_without_curvature_are_refused():
    """Of a file that was damaged: training would divide by zero."""
    task = Multiclass()
    task.learn(np.eye(3), [0, 1, 2])
    objective = build_objective(task, task.prepare(np.eye(3), [0, 1, 2]), np.ones(3), Temperature(1.0))
    descent = Descent(evaluate(objective, np.zeros(9)), 5)
    assert all(descent.advance(objective) for _ in range(3))
    assert len(from_state_dict(Descent, state_dict(descent), objective).pairs) == len(descent.pairs) > 0
    for change in ({"y": np.zeros(9)}, {"inverse": 0.0}, {"inverse": -1.0}):
        tree = state_dict(descent)
        tree["pairs"][-1] |= change
        with pytest.raises(ValueError, match="without curvature"):
            from_state_dict(Descent, tree, objective)


@dataclass
class Inner:
    value: float
    w: Weights | None


@dataclass
class Outer:
    inner: Inner | None
    parts: list[Inner]
    count: Annotated[int, Range(0, 5)]
    name: str
    flag: bool
    recent: deque[float]
    rng: np.random.Generator
    skipped: object = field(default=None, metadata=CONTEXT)


REALS = st.floats(allow_nan=False)
VECTORS = st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4).map(np.array)
INNERS = st.builds(Inner, REALS, st.none() | VECTORS)
OUTERS = st.builds(
    Outer,
    st.none() | INNERS,
    st.lists(INNERS, max_size=3),
    st.integers(0, 5),
    st.text(max_size=3),
    st.booleans(),
    st.lists(REALS, max_size=3).map(deque),
    st.integers(0, 99).map(np.random.default_rng),
)


@given(state=OUTERS)
@settings(max_examples=60, deadline=None)
def test_dataclasses_come_back_as_they_were(state):
    tree = join_tree(*split_tree(state_dict(state)))
    found = from_state_dict(Outer, tree, SimpleNamespace(n_features=4, n_examples=2))
    assert same(state_dict(found), state_dict(state))
    assert found.rng.random() == state.rng.random()
    assert "skipped" not in tree


@pytest.mark.parametrize(
    "change",
    [
        {"inner": 3},
        {"inner": {"value": 1.0}},
        {"inner": {"value": True, "w": None}},
        {"inner": {"value": float("nan"), "w": None}},
        {"inner": {"value": 1.0, "w": np.zeros(3)}},
        {"inner": {"value": 1.0, "w": np.zeros(4, dtype=np.float32)}},
        {"inner": {"value": 1.0, "w": np.full(4, np.inf)}},
        {"parts": {}},
        {"parts": [1]},
        {"count": 6},
        {"count": -1},
        {"count": True},
        {"count": 1.0},
        {"name": 1},
        {"flag": 1},
        {"recent": [1.0]},
        {"rng": {"bit_generator": "MT19937"}},
    ],
)
def test_fields_of_another_type_are_refused(change):
    tree = state_dict(Outer(None, [], 1, "x", True, deque([1.0]), np.random.default_rng(0)))
    with pytest.raises((LookupError, TypeError, ValueError)):
        from_state_dict(Outer, tree | change, SimpleNamespace(n_features=4, n_examples=2))
