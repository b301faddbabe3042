"""Models on disk: what was saved comes back, and nothing else is ever believed."""

import json
import math
import os
import pickle
from copy import deepcopy
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import latentstruct
from command import fail, weights_file
from error_fields import raises
from latentstruct import (
    CRF,
    L2,
    LBFGS,
    BlockAscent,
    Bundle,
    CandidateTask,
    Chain,
    ConvergenceWarning,
    CuttingPlane,
    ExampleTask,
    FormatError,
    FrankWolfe,
    InputError,
    LatentMulticlass,
    LatentSSVM,
    ModLat,
    Multiclass,
    StructuralSVM,
    StructuredEstimator,
    StructuredPerceptron,
    Subgradient,
)
from latentstruct.persistence.models import FITTED, _checksum, save_model

RNG = np.random.default_rng(0)
Y = np.arange(30) % 3
X = RNG.normal(size=(30, 2)) + 2.0 * np.eye(3, 2)[Y]
SEQUENCES = [RNG.normal(size=(length, 2)) for length in (3, 0, 4, 1, 2)]
LABELS = [["N", "V", "V"], [], ["V", "N", "N", "V"], ["N"], ["V", "V"]]
# Model files may be damaged in any way: reading them ends in a model or in one of the library's errors.
FUZZED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return the bytes of a small model's two files."""
    folder = tmp_path_factory.mktemp("stored") / "model"
    StructuralSVM(Chain(start=True), solver=BlockAscent()).fit(SEQUENCES, LABELS).save(folder)
    return (folder / "model.json").read_bytes(), weights_file(folder).read_bytes()


FOLDER = "the folder of a latentstruct model"
DESCRIPTION = "the description of a model"


@pytest.fixture
def folder(tmp_path, stored):
    """Return a folder with that model, to be damaged."""
    path = tmp_path / "model"
    write(path, *stored)
    return path


def write(path, settings, weights):
    path.mkdir(exist_ok=True)
    (path / "model.json").write_bytes(settings)
    known = [*path.glob("weights*")]
    (known[0] if known else path / json.loads(settings)["weights"]).write_bytes(weights)


def refuse(path, parameter=None, *, task=None, error=FormatError, **fields):
    with raises(parameter, error=error, **fields):
        latentstruct.load(path, task=task)


def edit(path, change):
    """Change the settings as a dict."""
    file = json.loads((path / "model.json").read_bytes())
    change(file)
    (path / "model.json").write_bytes(json.dumps(file).encode())


def same(first, second):
    """Compare parameters, which may be objects with parameters and arrays."""
    if hasattr(first, "get_params"):
        return type(first) is type(second) and same(first.get_params(deep=False), second.get_params(deep=False))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    return first == second and (type(first) is type(second) or isinstance(second, np.generic))


# --- round trips ---

MODELS = {
    "svm": StructuralSVM(Multiclass()),
    "crf": CRF(Multiclass(bias=0.5), C=np.float64(2.0)),
    "perceptron": StructuredPerceptron(Multiclass(), average=False, random_state=3),
    "general": StructuredEstimator(Multiclass(), temperature=(0.5, 0.0), margin=False, regularizer=L2()),
    "slack": StructuredEstimator(Multiclass(), rescaling="slack", solver=CuttingPlane(tol=1e-4)),
    "block": StructuralSVM(Multiclass(), solver=BlockAscent(steps=2, max_seconds=math.inf)),
    "bundle": StructuralSVM(Multiclass(), solver=Bundle(cached_planes=3), tol=0.01),
    "frank-wolfe": StructuralSVM(Multiclass(), solver=FrankWolfe(step="away"), max_seconds=100.0),
    "lbfgs": StructuralSVM(Multiclass(), solver=LBFGS(memory=3), warm_start=True),
    "subgradient": StructuralSVM(Multiclass(), solver=Subgradient(max_iter=20, patience=5, tol=0.1)),
    "by-name": StructuralSVM(Multiclass(), solver="frank_wolfe", verbose=False),
    "matrix": StructuralSVM(Multiclass(costs=np.array([[0.0, 1, 2], [1, 0, 1], [3, 1, 0]]))),
    "lists": StructuralSVM(Multiclass(labels=[0, 1, 2], costs=[[0, 1, 2], [1, 0, 1], [3, 1, 0]])),
    "mapping": StructuralSVM(Multiclass(costs={0: 2.0, 1: 0.5})),
    "declared": StructuralSVM(Multiclass(labels=(2, 1, 0, 7))),
    "array": StructuralSVM(Multiclass(labels=np.array([2, 1, 0]))),
}


@pytest.mark.parametrize("name", MODELS)
def test_classes(name, tmp_path):
    model = MODELS[name]
    if name == "subgradient":
        with pytest.warns(ConvergenceWarning):
            model.set_params(max_iter=3).fit(X, Y)
    else:
        model.fit(X, Y)
    model.save(tmp_path / "model")
    loaded = latentstruct.load(tmp_path / "model")
    assert same(loaded, model)
    assert np.array_equal(loaded.coef_, model.coef_)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert loaded.predict(X).dtype == model.predict(X).dtype
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    assert np.array_equal(loaded.loss(X, Y), model.loss(X, Y))
    for attribute in FITTED:
        assert getattr(loaded, attribute) == getattr(model, attribute)
    # A loaded model is an ordinary one: it can be trained again, also from where it stands, and saved again.
    loaded.save(tmp_path / "again")
    first, second = (tmp_path / folder / "model.json" for folder in ("model", "again"))
    assert first.read_bytes() == second.read_bytes()
    if name != "subgradient":
        loaded.set_params(warm_start=True).fit(X, Y)
        assert np.isfinite(loaded.objective_)


@pytest.mark.parametrize("estimator", [StructuralSVM, CRF, StructuredEstimator, StructuredPerceptron])
@pytest.mark.parametrize(
    "task",
    [
        Chain(),
        Chain(start=True, end=True, bias=True),
        Chain(labels=["V", "N", "X"]),
        Chain(labels=np.array(["V", "N"])),
        Chain(costs={"N": 2.0}),
    ],
)
def test_chains(estimator, task, tmp_path):
    model = estimator(task).fit(SEQUENCES, LABELS)
    model.save(tmp_path / "model")
    loaded = latentstruct.load(str(tmp_path / "model"))
    assert same(loaded, model)
    for y, y_loaded in zip(model.predict(SEQUENCES), loaded.predict(SEQUENCES), strict=True):
        assert np.array_equal(y, y_loaded)
    assert loaded.score(SEQUENCES, LABELS) == model.score(SEQUENCES, LABELS)
    if estimator is CRF:
        assert all(map(np.array_equal, model.marginals(SEQUENCES), loaded.marginals(SEQUENCES)))


@pytest.mark.parametrize(
    "labels",
    [
        [5, -3, 2**62],
        [2**63 + 1, -1, 2**70 + 1],
        ["a\0", "a", "\0"],
        ["a", "é", '日本\n"\\'],
        [(0, "x"), (1, "y"), (2, ("z", None))],
        [("a",), ("a", "b"), ()],
        [None, "a", 1.5],
        [0.1, math.inf, -math.inf],
        ["$float", "$tuple", "$object"],
        [np.int64(3), np.int64(4), np.int64(5)],
    ],
)
def test_labels(labels, tmp_path):
    outputs = [labels[k] for k in Y]
    model = StructuralSVM(Multiclass(labels=labels, costs={labels[0]: 3.0})).fit(X, outputs)
    model.save(tmp_path / "model")
    loaded = latentstruct.load(tmp_path / "model")
    predicted = loaded.predict(X)
    assert predicted.tolist() == model.predict(X).tolist()
    assert predicted.dtype == model.predict(X).dtype
    assert loaded.score(X, outputs) == model.score(X, outputs)
    assert np.array_equal(loaded.task_.costs_, model.task_.costs_)


@pytest.mark.parametrize(
    ("label", "parameter", "got", "expected"),
    [
        (frozenset({1}), "state", "frozenset({1})", "one of number, string, array, list"),
        (b"bytes", "state", "b'bytes'", "one of number, string, array, list"),
        (1 + 2j, "state", "(1+2j)", "one of number, string, array, list"),
        ("\ud800", "estimator", "can't encode character", "made of labels and parameters that JSON"),
    ],
)
def test_labels_that_no_file_can_hold(label, parameter, got, expected, tmp_path):
    model = StructuralSVM(Multiclass()).fit(X, [label if k == 0 else str(k) for k in Y])
    with raises(parameter, got=got, expected=expected):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_no_bound_and_interrupted_training(tmp_path):
    with pytest.warns(ConvergenceWarning):
        model = StructuralSVM(Multiclass(), solver=Subgradient(), max_iter=2).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = latentstruct.load(tmp_path / "model")
    assert (loaded.lower_bound_, loaded.gap_) == (-math.inf, math.inf)
    assert loaded.stop_reason_ == "max_iter"


def test_extra(tmp_path):
    from latentstruct.persistence.models import read_settings

    model = StructuralSVM(Multiclass()).fit(X, Y)
    save_model(tmp_path / "model", model, extra={"words": ["a", "b"], "width": 3})
    assert read_settings(tmp_path / "model").extra == {"words": ["a", "b"], "width": 3}
    assert np.array_equal(latentstruct.load(tmp_path / "model").coef_, model.coef_)
    with raises("estimator", expected="JSON"):
        save_model(tmp_path / "other", model, extra=object())


# --- tasks of one's own ---


class Signs(CandidateTask):
    def candidates(self, x):
        return [-1, 1], None, np.array([-x, x])


class Product(ExampleTask):
    def joint_feature(self, x, y):
        return y * x

    def output_loss(self, y, y_hat):
        return float(y != y_hat)

    def argmax(self, x, w):
        return max((-1, 1), key=lambda y: y * (w @ x))

    def loss_augmented_argmax(self, x, y, w):
        return max((-1, 1), key=lambda v: v * (w @ x) + (v != y))


@pytest.mark.parametrize("kind", [Signs, Product])
def test_own_tasks(kind, tmp_path):
    signs = [1 if x[0] > 0 else -1 for x in X]
    model = StructuralSVM(kind()).fit(X, signs)
    model.save(tmp_path / "model")
    refuse(tmp_path / "model", "task", expected=f"the task '{kind.__name__}' of ", error=InputError)
    loaded = latentstruct.load(tmp_path / "model", task=kind())
    assert loaded.predict(X) == model.predict(X)


@pytest.mark.parametrize("kind", [Signs, Product])
def test_own_tasks_that_learn_more_must_have_learned(kind, tmp_path):
    class Learning(kind):
        def learn(self, X, Y):
            super().learn(X, Y)
            self.seen = len(X)

    signs = [1 if x[0] > 0 else -1 for x in X]
    model = StructuralSVM(Learning()).fit(X, signs)
    model.save(tmp_path / "model")
    refuse(tmp_path / "model", "task", expected="`task.learn`", error=InputError, task=Learning())
    task = Learning()
    task.learn(X, signs)
    assert latentstruct.load(tmp_path / "model", task=task).predict(X) == model.predict(X)
    task.learn(np.ones((2, 5)), [-1, 1])
    refuse(tmp_path / "model", got="2 weights", expected="5 weights", task=task)


def test_files_have_the_permissions_of_the_folder(tmp_path):
    model = StructuralSVM(Multiclass()).fit(np.eye(2), [0, 1])
    model.save(tmp_path / "model")
    plain = tmp_path / "plain"
    plain.touch()
    modes = {path.stat().st_mode for path in [plain, *(tmp_path / "model").iterdir()]}
    assert len(modes) == 1


def test_own_task_that_restores_itself(tmp_path):
    class Remembering(Signs):
        def state(self):
            return {"n": self.n_features}

        def restore(self, state):
            self.n_features = state["n"]

    signs = [1 if x[0] > 0 else -1 for x in X]
    model = StructuralSVM(Remembering()).fit(X, signs)
    model.save(tmp_path / "model")
    assert latentstruct.load(tmp_path / "model", task=Remembering()).predict(X) == model.predict(X)


def test_a_task_with_a_name_of_the_library_is_not_taken_for_it(tmp_path):
    class Impostor(Multiclass):
        pass

    Impostor.__name__ = "Multiclass"
    model = StructuralSVM(Impostor()).fit(X, Y)
    model.save(tmp_path / "model")
    refuse(tmp_path / "model", "task", got=None, expected="not part of the library", error=InputError)


def test_own_estimators_and_solvers_are_not_saved(tmp_path):
    class Mine(StructuralSVM):
        pass

    class Slower(BlockAscent):
        pass

    with raises("estimator", got="Mine", expected="of the library"):
        Mine(Multiclass()).fit(X, Y).save(tmp_path / "model")
    with raises("solver", got="Slower()", expected="to be saved"):
        StructuralSVM(Multiclass(), solver=Slower()).fit(X, Y).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


# --- where to save ---


def test_saving_again_replaces(tmp_path):
    path = tmp_path / "deep" / "model"
    StructuralSVM(Multiclass()).fit(X, Y).save(path)
    model = CRF(Chain()).fit(SEQUENCES, LABELS)
    model.save(path)
    loaded = latentstruct.load(path)
    assert isinstance(loaded, CRF)
    assert np.array_equal(loaded.coef_, model.coef_)
    assert sorted(file.name for file in path.iterdir()) == ["model.json", weights_file(path).name]


def test_saving_over_other_things_is_refused(tmp_path):
    model = StructuralSVM(Multiclass()).fit(X, Y)
    file = tmp_path / "file"
    file.write_text("precious")
    with raises("path", got="the file", expected="a folder"):
        model.save(file)
    assert file.read_text() == "precious"
    with raises("path", got="other files", expected="a new or empty folder"):
        model.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "content",
    [
        b'{"learner": {"gradient_booster": {}}, "version": [2, 1, 0]}',
        b'{"format": "layers-model", "modelTopology": {}}',
        b'{"format": ["latentstruct-model"]}',
        b'["latentstruct-model"]',
        b'{"format": "latentstruct-model", ',
        b"latentstruct-model",
        b"[" * 10**5,
        b"\xff\xfe\x00",
        b"",
    ],
)
def test_a_model_of_another_program_is_kept(tmp_path, content):
    (tmp_path / "model.json").write_bytes(content)
    (tmp_path / "weights.safetensors").write_bytes(b"precious")
    with raises("path", got="another model.json", expected="a new or empty folder"):
        StructuralSVM(Multiclass()).fit(X, Y).save(tmp_path)
    assert (tmp_path / "model.json").read_bytes() == content
    assert (tmp_path / "weights.safetensors").read_bytes() == b"precious"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_no_file_is_no_model_to_replace(tmp_path):
    model = StructuralSVM(Multiclass()).fit(X, Y)
    for name, make in (("pipe", os.mkfifo), ("folder", Path.mkdir), ("link", lambda path: path.symlink_to("nowhere"))):
        (tmp_path / name).mkdir()
        make(tmp_path / name / "model.json")
        with raises("path", got="another model.json"):
            model.save(tmp_path / name)
        assert [file.name for file in (tmp_path / name).iterdir()] == ["model.json"]


def test_our_own_models_are_replaced_whatever_they_hold(folder):
    """Another version, or damage that leaves the mark, makes it nobody else's."""
    path = folder / "model.json"
    file = json.loads(path.read_bytes())
    path.write_text(json.dumps({**file, "version": 99, "later": True}, indent=1))
    model = StructuralSVM(Multiclass()).fit(X, Y)
    model.save(folder)
    assert np.array_equal(latentstruct.load(folder).coef_, model.coef_)


def test_the_command_keeps_a_model_of_another_program(tmp_path):
    (tmp_path / "train.svm").write_text("a 1:1\nb 2:1\n")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "model.json").write_text('{"learner": {}}')
    assert "with another model.json" in fail("train", "classes", tmp_path / "train.svm", "-o", foreign, "-q")
    assert [(file.name, file.read_text()) for file in foreign.iterdir()] == [("model.json", '{"learner": {}}')]


def test_a_failed_save_keeps_the_old_model(folder):
    model = StructuralSVM(Multiclass()).fit(X, [frozenset({int(k)}) for k in Y])
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with raises(expected="to be saved"):
        model.save(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_nothing_is_pickled(folder, monkeypatch):
    def forbidden(*arguments, **options):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "dump", "dumps", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    latentstruct.load(folder).save(folder.parent / "copy")
    for file in (folder.parent / "copy").iterdir():
        assert not file.read_bytes().startswith(b"\x80")
    json.loads((folder.parent / "copy" / "model.json").read_bytes())


# --- damaged and foreign files ---


def test_nothing_there(tmp_path):
    refuse(tmp_path / "nowhere", str(tmp_path / "nowhere"), got="a path that does not exist", expected=FOLDER)
    refuse(tmp_path, str(tmp_path), expected=FOLDER)
    (tmp_path / "file").write_text("{}")
    refuse(tmp_path / "file", str(tmp_path / "file"), got="a file", expected=FOLDER)


def test_truncated(tmp_path, stored):
    settings, weights = stored
    path = tmp_path / "model"
    write(path, *stored)
    for end in range(0, len(settings), 7):
        write(path, settings[:end], weights)
        refuse(path, str(path), expected=FOLDER)
    for end in range(0, len(weights), 3):
        write(path, settings, weights[:end])
        refuse(path, file=".safetensors", expected="an undamaged file of weights")
    write(path, settings, weights)
    assert latentstruct.load(path).score(SEQUENCES, LABELS) >= 0.5


def test_missing_weights(folder):
    weights_file(folder).unlink()
    refuse(folder, file=".safetensors", expected="an undamaged file of weights")


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", "3", '"model"', '{"a": 1}', "\xff", "[" * 100_000, '{"a":' * 100_000]
)
def test_foreign_json(folder, text):
    (folder / "model.json").write_bytes(text.encode("latin-1"))
    refuse(folder, str(folder), expected=FOLDER)


@pytest.mark.parametrize(
    ("key", "value", "got", "expected"),
    [
        ("format", "other-model", "'other-model' version 4", "format 'latentstruct-model' version 4"),
        ("version", 5, "'latentstruct-model' version 5", "format 'latentstruct-model' version 4"),
        ("version", "1", "", FOLDER),
        ("estimator", "os.system", "unknown estimator 'os.system'", DESCRIPTION),
        ("estimator", "Chain", "unknown estimator 'Chain'", DESCRIPTION),
        ("estimator", "BaseEstimator", "unknown estimator", DESCRIPTION),
        ("params", [], "", FOLDER),
        ("state", {"$dict": [["labels", ["a"]]]}, "", DESCRIPTION),
        ("state", {"$dict": [["labels", ["N", "N"]], ["n_inputs", 2]]}, "`labels` must be distinct", DESCRIPTION),
        ("state", {"$dict": [["labels", [["N"]]], ["n_inputs", 2]]}, "", DESCRIPTION),
        ("state", {"$dict": [["labels", ["N", "V"]], ["n_inputs", "two"]]}, "", DESCRIPTION),
        ("state", {"$dict": [["labels", ["N", "V"]], ["n_inputs", {"$float": "inf"}]]}, "", DESCRIPTION),
        (
            "state",
            {"$dict": [["labels", ["N", "V", "X"]], ["n_inputs", 2]]},
            "10 weights",
            "18 weights as its task has",
        ),
        (
            "state",
            {"$dict": [["labels", ["N", "V"]], ["n_inputs", 10**15]]},
            "do not belong together",
            DESCRIPTION,
        ),
        ("state", 5, "", DESCRIPTION),
        ("fitted", {}, "", DESCRIPTION),
        ("task", 3, "", FOLDER),
    ],
)
def test_other_values(folder, key, value, got, expected):
    edit(folder, lambda file: file.update({key: value}))
    refuse(folder, got=got, expected=expected)


def test_states_are_counted_before_tables_are_made(tmp_path):
    model = LatentSSVM(LatentMulticlass(2, "state"), max_iter=1, restarts=1)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, Y)
    model.save(tmp_path)
    known = dict(json.loads((tmp_path / "model.json").read_bytes())["state"]["$dict"])
    for n_states in (10**6, 10**9):
        state = {"$dict": [*(known | {"n_states": n_states}).items()]}
        edit(tmp_path, lambda file, state=state: file.update(state=state))
        refuse(tmp_path, file="model.json", got="do not belong together", expected=DESCRIPTION)


class Connection:
    """Stands for what belongs to this process."""

    def __reduce__(self):
        raise TypeError("a connection cannot be sent")


def test_where_and_how_to_work_is_not_kept(tmp_path):
    model = StructuralSVM(Multiclass(), n_jobs=2).fit(X, Y)
    model.executor = Connection()
    for copied in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        assert copied.executor is None
        assert np.array_equal(copied.predict(X), model.predict(X))
    assert isinstance(model.executor, Connection)
    with pytest.raises(TypeError, match="cannot be sent"):
        # One that is to be trained elsewhere must not do so in silence without it.
        pickle.dumps(StructuralSVM(Multiclass(), executor=Connection()))
    model.save(tmp_path)
    assert not {"n_jobs", "executor"} & json.loads((tmp_path / "model.json").read_bytes())["params"].keys()
    edit(tmp_path, lambda file: file["params"].update(n_jobs=10**6, executor="dask"))
    loaded = latentstruct.load(tmp_path)
    assert (loaded.n_jobs, loaded.executor) == (None, None)


def test_no_state(folder):
    edit(folder, lambda file: file.update(state=None))
    refuse(folder, "task", expected="a task that has learned", error=InputError)


@pytest.mark.parametrize(
    "task",
    [
        {"$object": "os.system", "params": {"command": "true"}},
        {"$object": "StructuralSVM", "params": {"task": 3}},
        {"$object": "BlockAscent", "params": {}},
        {"$object": "Chain", "params": {"color": "red"}},
        {"$object": "Chain"},
        {"$object": ["Chain"], "params": {}},
        {"$object": "Chain", "params": {"costs": {"$array": [[0, 1], [2]]}}},
        {"$object": "Chain", "params": {"costs": {"$array": [[0, -1], [1, 0]]}}},
        {"$object": "Chain", "params": {"costs": "none"}},
        {"$float": "wide"},
        {"$float": []},
        {"$tuple": 3},
        {"$dict": [[1]]},
        {"$dict": [[[1], 2]]},
        {"other": 1},
        [1, 2],
        "Chain",
        7,
    ],
)
def test_other_tasks(folder, task):
    edit(folder, lambda file: file["params"].update(task=task))
    refuse(folder, file="model.json", expected=DESCRIPTION)


def test_other_parameters(folder):
    edit(folder, lambda file: file["params"].update(color="red"))
    refuse(folder, file="model.json", expected=DESCRIPTION)


def test_more_fields(folder):
    edit(folder, lambda file: file.update(command="true"))
    refuse(folder, str(folder), got="unknown field", expected=FOLDER)


def test_deep_nesting(folder):
    edit(folder, lambda file: file["params"].update(solver="deep"))
    raw = (folder / "model.json").read_bytes()
    for depth in (10, 100, 300, 1000, 10_000):
        nest = b'{"$tuple":[' * depth + b"]}" * depth
        (folder / "model.json").write_bytes(raw.replace(b'"deep"', nest))
        if depth < 200:
            # A nest that can be read is no solver; it is refused when used.
            with raises("solver"):
                latentstruct.load(folder).fit(SEQUENCES, LABELS)
        elif depth > 500:
            refuse(folder)


@pytest.mark.parametrize(
    ("weights", "got", "expected"),
    [
        (np.full(10, np.nan), "nan at index 0 in 'coef'", "a vector of finite float64 weights"),
        (np.append(np.zeros(9), np.inf), "inf at index 9 in 'coef'", "a vector of finite float64 weights"),
        (np.zeros((5, 2)), "float64 of shape (5, 2)", "a vector of finite float64 weights"),
        (np.zeros(10, dtype=np.float32), "float32", "a vector of finite float64 weights"),
        (np.zeros(10, dtype=np.int64), "int64", "a vector of finite float64 weights"),
        (np.zeros(9), "9 weights", "10 weights as its task has"),
        (np.zeros(0), "0 weights", "10 weights as its task has"),
    ],
)
def test_other_weights(folder, weights, got, expected):
    save_file({"coef": weights}, weights_file(folder))
    refuse(folder, got=got, expected=expected)


def uncertain(path, **fit):
    """Save a small model that has weights θ of its latents."""
    model = ModLat(LatentMulticlass(latent_loss="zero_one"))
    model.fit(np.random.default_rng(1).normal(size=(6, 3, 2)), np.arange(6) % 2, **fit).save(path)
    return model


def signed(path, **vectors):
    """Write weights, and their checksum beside the settings."""
    kept = {name: vector for name, vector in vectors.items() if vector is not None}
    save_file(kept, weights_file(path))
    edit(path, lambda file: file.update(weights_sha256=_checksum(kept)))


@pytest.mark.parametrize(
    ("theta", "got"),
    [
        (None, "KeyError('theta')"),
        (np.zeros(3), "got float64 of shape (3,)"),
        (np.full(4, np.nan), "4 finite weights, unless"),
    ],
)
def test_weights_of_latents_are_missed(theta, got, tmp_path):
    model = uncertain(tmp_path / "model")
    signed(tmp_path / "model", **{"coef": model.coef_, "part.theta": theta})
    refuse(tmp_path / "model", got=got, expected="the parts of ModLat other than its weights")


def test_weights_of_features_of_ones_own_may_be_any_number(tmp_path):
    model = uncertain(tmp_path / "model", latent_features=RNG.normal(size=(6, 3, 5)))
    np.testing.assert_array_equal(latentstruct.load(tmp_path / "model").theta_, model.theta_)
    assert len(model.theta_) == 5


def test_weights_under_another_name(folder):
    coef = load_file(weights_file(folder))["coef"]
    save_file({"weights": coef}, weights_file(folder))
    refuse(folder, file=".safetensors", expected="an undamaged file of weights")


def survives(path):
    """Load; only the library's errors may come out, and what loads must predict."""
    try:
        model = latentstruct.load(path)
    except InputError:
        return
    try:
        # One flipped bit may make a weight huge.
        with np.errstate(over="ignore", invalid="ignore"):
            assert len(model.predict(SEQUENCES)) == len(SEQUENCES)
    except InputError:
        return


@given(raw=st.binary(max_size=200))
@FUZZED
def test_arbitrary_bytes(folder, stored, raw):
    for settings_file, weights in ((raw, stored[1]), (stored[0], raw)):
        write(folder, settings_file, weights)
        refuse(folder)


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), weights=st.booleans())
@FUZZED
def test_one_other_byte(folder, stored, place, byte, weights):
    files = [bytearray(part) for part in stored]
    part = files[weights]
    part[place % len(part)] = byte
    write(folder, *map(bytes, files))
    survives(folder)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**63) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$float", "$array", "$tuple", "$dict", "$object", "params", "labels", "x"]),
            inner,
            max_size=3,
        )
        | st.builds(
            lambda name, value: {"$object": name, "params": {"task": value}},
            st.sampled_from(["Chain", "Multiclass", "L2", "CRF", "eval"]),
            inner,
        )
    ),
    max_leaves=8,
)


@given(key=st.sampled_from(["params", "state", "fitted", "extra", "task", "solver", "C"]), value=json_values)
@FUZZED
def test_arbitrary_values(folder, stored, key, value):
    file = msgspec.json.decode(stored[0])
    inner = file["params"] if key in ("task", "solver", "C") else file
    inner[key] = value
    write(folder, msgspec.json.encode(file), stored[1])
    survives(folder)


def test_weights_of_another_model_are_refused(tmp_path):
    for name, C in (("one", 0.1), ("two", 1.0)):
        StructuralSVM(Multiclass(), C=C).fit(X, [0, 1] * (len(X) // 2)).save(tmp_path / name)
    weights_file(tmp_path / "two").replace(weights_file(tmp_path / "one"))
    refuse(tmp_path / "one", got="another checksum", expected="the file that model.json was written with")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("restart_objectives_", []),
        ("restart_objectives_", 7),
        ("objective_", "x"),
        ("lower_bound_", None),
        ("n_oracle_calls_", "<b>"),
        ("n_iter_", -1),
        ("certified_", 1),
        ("stop_reason_", 3),
    ],
)
def test_what_training_reached_must_be_of_its_kind(name, value, tmp_path):
    StructuralSVM(Multiclass()).fit(np.eye(3), [0, 1, 2]).save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    settings = json.loads(path.read_text())
    settings["fitted"][name] = value
    path.write_text(json.dumps(settings))
    refuse(path.parent, str(path), got=f"$.{name}", expected=DESCRIPTION)


def test_a_field_with_a_long_name_is_told_in_short(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps({"x" * 20_000: 1}))
    with raises(str(tmp_path), expected=FOLDER, error=FormatError) as reported:
        latentstruct.load(tmp_path)
    assert len(str(reported.value)) < 600
