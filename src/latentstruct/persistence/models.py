"""Models on disk: a folder with model.json and one file of weights, which it names; no executable content."""

import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Annotated, Any, cast

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from latentstruct import estimators, solvers, tasks
from latentstruct.core import ratios, regularizers
from latentstruct.core.formatting import repr_short
from latentstruct.core.protocols import ITERATION_COLUMNS, Iteration, StateWeights
from latentstruct.estimators import folds
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.persistence.atomic_files import (
    PREFIX,
    check_regular,
    file_lock,
    is_at,
    output_error,
    remove_left_over,
    replace_files,
    require_own_folder,
)
from latentstruct.persistence.saved_features import restore_features
from latentstruct.tasks.base import BaseTask, defines

FORMAT, VERSION = "latentstruct-model", 4
SETTINGS = "model.json"
WEIGHTS_NAME = re.compile(r"weights-[0-9a-f]{16}\.safetensors")
LOCK = f"{PREFIX}lock"
"""Lock that is held while a model is written to its folder."""
MOST_ITERATIONS = 2000
"""Number of iterations above which a history is thinned out to keep the file small."""
COEF, PART = "coef", "part."
"""Name of the weights in their file, and prefix of the names of further arrays: see `_saved_parts` of estimators."""
PLACES, SIZE, MOST_WEIGHTS = "coef_places", "coef_size", 2**36
"""Names of the places of weights that are not zero and of the number of all, in compact files; and a limit of it."""
MOST_LETTERS = 2**26
"""Maximum characters of an array of texts, where each takes as much memory as the longest."""
NOT_KEPT = ("executor", "n_jobs")
"""Parameters that are neither written to a file nor read from one: executor and number of threads do not belong
to a model, and a connection cannot be stored."""

MODEL_FOLDER = "the folder of a latentstruct model"
OWN_FOLDER = "a new or empty folder, or one with a latentstruct model"
COPY_AGAIN = "Copy the model again, or train again."
ESTIMATORS = (
    "AnnotatorCRF",
    "CRF",
    "HiddenCRF",
    "IterativeLSVM",
    "KernelStructuralSVM",
    "LatentSSVM",
    "MarginalSSVM",
    "MinEntropySSVM",
    "ModLat",
    "StructuralSVM",
    "StructuredEstimator",
    "StructuredPerceptron",
)
PARTS = {
    name: module
    for module, names in (
        (tasks, [name for name in tasks.__all__ if name not in ("CandidateTask", "ExampleTask", "PartsTask")]),
        (solvers, solvers.__all__),
        (regularizers, ("ElasticNet", "GroupNorm", "L2", "NoRegularizer")),
        (ratios, ("EntityRatio",)),
        (folds, ("AutoC",)),
        (estimators, ESTIMATORS),
    )
    for name in names
}
"""Classes that files may name, with their modules; a class is imported when it is needed."""


def library_class(name: Any) -> Any:
    """Return the class that a file names; raise KeyError or TypeError if there is none."""
    return getattr(PARTS[name], name)


def in_library(value: Any) -> bool:
    """Return whether files may name the class of an object."""
    kind = type(value).__name__
    return kind in PARTS and library_class(kind) is type(value)


class ModelFile(msgspec.Struct, forbid_unknown_fields=True):
    """Contents of model.json."""

    format: str
    version: int
    library: str
    estimator: str
    params: dict[str, Any]
    task: str
    state: Any
    fitted: dict[str, Any]
    weights_sha256: str
    extra: Any = None
    weights: str = ""


_Number = int | float
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=sys.float_info.max)]
_KINDS: dict[Any, Any] = {int: list[_Count], float: list[_Number], bool: list[bool]}
_COLUMNS = {one.name: _KINDS[one.type] for one in ITERATION_COLUMNS} | {"seconds": list[_Seconds]}
_History: Any = msgspec.defstruct("_History", _COLUMNS.items(), forbid_unknown_fields=True)
"""The iterations of a training in columns."""


class _Fitted(msgspec.Struct):
    """What training reached; classes of estimators may add more. A missing history or name was not saved."""

    C_: _Number
    objective_: _Number
    lower_bound_: _Number
    gap_: _Number
    relative_gap_: _Number
    certified_: bool
    n_iter_: _Count
    n_oracle_calls_: _Count
    stop_reason_: str
    restart_objectives_: Annotated[list[_Number], msgspec.Meta(min_length=1)]
    history_: Any = None
    calibrated_temperature_: Annotated[float, msgspec.Meta(gt=0.0, le=sys.float_info.max)] | None = None
    feature_names_in_: list[str] | None = None


FITTED = _Fitted.__struct_fields__[: -len(_Fitted.__struct_defaults__)]
HISTORY, CALIBRATED, FEATURE_NAMES = _Fitted.__struct_fields__[len(FITTED) :]


class _Named(msgspec.Struct):
    """The name of the weights in model.json."""

    weights: Any = None


def encode(value: Any, name: str) -> Any:
    """Convert a parameter to JSON, tagging types that JSON does not have."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return {"$array": encode(value.tolist(), name)}
    if isinstance(value, list):
        return [encode(item, name) for item in value]
    if isinstance(value, tuple):
        return {"$tuple": [encode(item, name) for item in value]}
    if isinstance(value, dict):
        return {"$dict": [[encode(key, name), encode(item, name)] for key, item in value.items()]}
    if in_library(value):
        params = value.get_params(deep=False)
        return {"$object": type(value).__name__, "params": {key: encode(item, key) for key, item in params.items()}}
    expected = "one of number, string, array, list, tuple, dict, or a task or solver of the library, to be saved"
    raise InputError(name, value, expected, "Loading a model never runs code.")


def decode(value: Any) -> Any:
    """Undo `encode`; raise KeyError, TypeError or ValueError on anything else."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$float" in value:
        return float(value["$float"])
    if "$array" in value:
        return _array_of(decode(value["$array"]))
    if "$tuple" in value:
        return tuple(decode(item) for item in value["$tuple"])
    if "$dict" in value:
        return {decode(key): decode(item) for key, item in value["$dict"]}
    return library_class(value["$object"])(**{key: decode(item) for key, item in value["params"].items()})


def _array_of(nested: Any) -> np.ndarray:
    """Return nested lists as an array; raise ValueError if one long text would make all entries large."""
    longest, n_texts, waiting = 0, 0, [nested]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, str):
            longest, n_texts = max(longest, len(one)), n_texts + 1
    if longest * n_texts > MOST_LETTERS:
        raise ValueError(f"an array of {n_texts} texts of up to {longest} letters")
    return np.array(nested)


def require_own(folder: Path) -> None:
    """Raise unless a folder holds a model of this library, of any version, or nothing that a model would overwrite."""
    require_own_folder(folder, "path", SETTINGS, FORMAT, WEIGHTS_NAME, OWN_FOLDER)


def _stored_weights(w: np.ndarray, compact: bool) -> dict[str, np.ndarray]:
    """Return the arrays that weights are stored as: all of them, or in single precision those that are not zero.

    If most weights are not zero, all are stored, because the places would take more space than the zeros.
    """
    if not compact:
        return {COEF: w}
    if np.abs(w).max(initial=0.0) > np.finfo(np.float32).max:
        raise InputError("compact", True, "False for weights beyond single precision")
    rounded, size = w.astype(np.float32), np.array([len(w)])
    places = np.flatnonzero(rounded)
    if 2 * len(places) > len(w):
        return {COEF: rounded, SIZE: size}
    return {COEF: rounded[places], PLACES: places.astype(np.int32 if len(w) < 2**31 else np.int64), SIZE: size}


def _weights_of(vectors: dict[str, np.ndarray]) -> np.ndarray:
    """Return all weights, given the arrays that they are stored as."""
    if PLACES not in vectors:
        return vectors[COEF].astype(np.float64, copy=False)
    weights = np.zeros(int(vectors[SIZE][0]))
    weights[vectors[PLACES]] = vectors[COEF]
    return weights


def save_model(path: str | Path, estimator: Any, extra: Any = None, compact: bool = False) -> None:
    """Write a trained estimator to the folder `path`, which is made if needed.

    An earlier model there is replaced, a model.json of another program is not. A custom task is named, not stored: pass
    it to `load` again. `extra` is stored with the model, for instance the state of a feature extractor. If `compact`,
    only weights that are not zero are stored, in single precision.
    """
    from latentstruct import __version__

    folder = Path(path)
    require_own(folder)
    if not in_library(estimator):
        raise InputError("estimator", estimator, f"an estimator of the library ({', '.join(ESTIMATORS)}), to be saved")
    params = estimator.get_params(deep=False)
    arrays, values = estimator._saved_parts()
    vectors = {
        **_stored_weights(estimator.coef_, compact),
        **{PART + name: np.ascontiguousarray(part) for name, part in arrays.items()},
    }
    task = params.pop("task")
    own = in_library(task)
    weights = save(vectors)
    file = ModelFile(
        FORMAT,
        VERSION,
        __version__,
        type(estimator).__name__,
        {
            **{key: encode(item, key) for key, item in params.items() if key not in NOT_KEPT},
            "task": encode(task, "task") if own else None,
        },
        type(task).__name__,
        encode(estimator.task_.state(), "state") if defines(estimator.task_, "state") else None,
        {**_encode_fitted(estimator), **{name: encode(value, name) for name, value in values.items()}},
        _checksum(vectors),
        extra,
        f"weights-{hashlib.sha256(weights).hexdigest()[:16]}.safetensors",
    )
    try:
        raw = msgspec.json.encode(file)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            "estimator", Description(str(error)), "made of labels and parameters that JSON can hold"
        ) from error
    is_new, earlier = not folder.exists(), _settings_bytes(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace_model(folder, file.weights, weights, raw)
    except OSError as error:
        kept = earlier is not None and _settings_bytes(folder) == earlier
        raise output_error(folder, error, ", and the earlier model there is unchanged" if kept else "") from error
    finally:
        # Only an empty folder can be removed, so never a model.
        if is_new:
            with suppress(OSError):
                folder.rmdir()


def _replace_model(folder: Path, name: str, weights: bytes, settings: bytes) -> None:
    """Write both files of a model and remove those of the earlier one.

    The weights have a name of their own, so that replacing the settings is what replaces the model. Files are removed
    only under the lock, when no other process is about to name them.
    """
    with file_lock(folder / LOCK, wait=True) as alone:
        try:
            replace_files({folder / name: [weights], folder / SETTINGS: [settings]})
        finally:
            # The settings determine whether the model was replaced. A file that cannot be removed does no harm.
            with suppress(OSError):
                remove_left_over(folder)
                current = _named_weights(folder)
                for entry in folder.iterdir() if alone else ():
                    if WEIGHTS_NAME.fullmatch(entry.name) and entry.name != current:
                        entry.unlink()


def _named_weights(folder: Path) -> Any:
    """Return the name of the weights of the model in a folder, or None without a model."""
    raw = _settings_bytes(folder)
    return None if raw is None else msgspec.json.decode(raw, type=_Named).weights


def _settings_bytes(folder: Path) -> bytes | None:
    path = folder / SETTINGS
    return path.read_bytes() if path.exists() else None


def _encode_fitted(estimator: Any) -> dict[str, Any]:
    """Return what training reached as JSON values, without what is not known."""
    found = {name: encode(getattr(estimator, name), name) for name in FITTED}
    found[HISTORY] = _encode_history(estimator.history_)
    if estimator.calibrated_temperature_ is not None:
        found[CALIBRATED] = estimator.calibrated_temperature_
    if hasattr(estimator, FEATURE_NAMES):
        found[FEATURE_NAMES] = list(estimator.feature_names_in_)
    return found


def _encode_history(history: Sequence[Iteration]) -> Any:
    """Return the iterations in columns; of many, an even selection with the first and the last of each start."""
    kept = np.arange(len(history))
    if len(history) > MOST_ITERATIONS:
        changes = np.flatnonzero(np.diff([line.start for line in history]))
        ends = np.concatenate(([0, len(history) - 1], changes, changes + 1))
        spread = np.linspace(0, len(history) - 1, max(MOST_ITERATIONS - len(ends), 0)).astype(int)
        kept = np.union1d(ends, spread)
    lines = [history[k] for k in kept.tolist()]
    return encode({one.name: [getattr(line, one.name) for line in lines] for one in ITERATION_COLUMNS}, HISTORY)


def _decode_history(value: Any) -> list[Iteration]:
    """Undo `_encode_history`; raise KeyError, TypeError or ValueError on anything else."""
    columns = msgspec.structs.astuple(msgspec.convert(decode(value), _History))
    return [Iteration(*line) for line in zip(*columns, strict=True)]


def _checksum(vectors: dict[str, np.ndarray]) -> str:
    sums = hashlib.sha256()
    for name in (COEF, *sorted(vectors.keys() - {COEF})):
        sums.update(np.ascontiguousarray(vectors[name]).data)
    return sums.hexdigest()


def read_settings(path: str | Path) -> ModelFile:
    """Read and check model.json of a model folder."""
    with _opened_settings(path) as (file, _):
        return file


@contextmanager
def _opened_settings(path: str | Path) -> Iterator[tuple[ModelFile, IO[bytes]]]:
    """Yield the checked contents of model.json and the open file."""
    if not isinstance(path, str | PathLike):
        raise InputError("path", path, MODEL_FOLDER)
    folder = Path(path)
    if not folder.exists():
        raise FormatError(folder, Description("a path that does not exist"), MODEL_FOLDER)
    if folder.is_file():
        raise FormatError(folder, Description("a file"), MODEL_FOLDER)
    with ExitStack() as stack:
        try:
            check_regular(folder / SETTINGS)
            opened = stack.enter_context(open(folder / SETTINGS, "rb"))
            file = msgspec.json.decode(opened.read(), type=ModelFile)
        except FileNotFoundError as error:
            raise FormatError(folder, Description(f"a folder without {SETTINGS}"), MODEL_FOLDER) from error
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(folder, Description(repr_short(error, 160)), MODEL_FOLDER) from error
        if file.format != FORMAT or file.version != VERSION:
            got = Description(f"{repr_short(file.format)} version {file.version}")
            hint = f"Train again, or use latentstruct {file.library}, which wrote it."
            raise FormatError(folder, got, f"format {FORMAT!r} version {VERSION}", hint)
        if not WEIGHTS_NAME.fullmatch(file.weights):
            expected = "a name of weights such as weights-0123456789abcdef.safetensors"
            raise FormatError(folder / SETTINGS, file.weights, expected, COPY_AGAIN)
        yield file, opened


@dataclass(frozen=True)
class ModelFiles:
    """Contents of the files of a model, all from the same save."""

    folder: Path
    settings: ModelFile
    vectors: dict[str, np.ndarray]


def read_files(path: str | Path) -> ModelFiles:
    """Read the files of a model folder, also while other processes replace the model."""
    while True:
        with _opened_settings(path) as (file, opened):
            folder = Path(path)
            try:
                return ModelFiles(folder, file, _read_weights(folder / file.weights))
            except FormatError:
                # A newer model may have replaced this one, and removed its weights: read the newer one.
                if is_at(opened, folder / SETTINGS):
                    raise


def _check_places(vectors: dict[str, np.ndarray]) -> None:
    """Raise ValueError unless the places of weights, if they are stored, are those of some weights."""
    if PLACES not in vectors and SIZE not in vectors:
        return
    n, size = len(vectors[COEF]), vectors[SIZE]
    places = vectors.get(PLACES, np.arange(n))
    whole = [n] if PLACES not in vectors else size
    valid = places.dtype in (np.int32, np.int64) and size.dtype == np.int64 and places.shape == (n,)
    valid &= size.shape == (1,) and 0 <= size[0] < MOST_WEIGHTS and size[0] == whole[0]
    if not valid or (np.diff(places, prepend=-1, append=size[0]) <= 0).any():
        raise ValueError("places of weights that do not ascend below their number")


def _read_weights(path: Path) -> dict[str, np.ndarray]:
    """Return the weights of a model and the parts that it has."""
    try:
        check_regular(path)
        found = load_file(path)
        weights = found[COEF]
        known = {COEF, PLACES, SIZE}
        vectors = {name: array for name, array in found.items() if name in known or name.startswith(PART)}
        _check_places(vectors)
    except (OSError, SafetensorError, LookupError, TypeError, ValueError, AttributeError, MemoryError) as error:
        # NumPy lacks some of the types that such a file can have.
        raise FormatError(
            path, Description(repr_short(error, 160)), "an undamaged file of weights", COPY_AGAIN
        ) from error
    shown = f"{weights.dtype} of shape {weights.shape}"
    if weights.ndim == 1 and weights.dtype == (np.float32 if SIZE in vectors else np.float64):
        wrong = np.flatnonzero(~np.isfinite(weights))
        if not len(wrong):
            return vectors
        shown = f"{weights[wrong[0]]} at index {wrong[0]}"
    raise FormatError(path, Description(f"{shown} in {COEF!r}"), "a vector of finite float64 weights", COPY_AGAIN)


COUNTS = ("n_inputs", "n_features", "n_edge_inputs", "n_profile")
"""Numbers of features in a state; there is at least one weight per feature."""
MOST_STATES, HARMLESS = 2**31, 1000
"""Number of states for tasks without states, small enough for any array; it is checked later."""


MOST_LABELS, MOST_CELLS = 2**14, 2**20
"""Labels, and states of all labels together, that prepared data may have. Tables of pairs of labels take up to
2 GiB; with more states, the number of weights exceeds the index type."""


def check_state(state: Any, n_weights: int, task: BaseTask) -> None:
    """Raise ValueError unless the numbers that a task of the library is restored from match its weights.

    Kernels do not check them, and they determine the size of arrays.
    """
    try:
        msgspec.convert(state, task.state_type)
    except msgspec.ValidationError as error:
        raise ValueError(f"the state of the task is damaged: {error}") from error
    for name in (*COUNTS, "n_states"):
        value = state.get(name)
        highest = MOST_STATES if name == "n_states" else max(n_weights, HARMLESS)
        left_open = name not in state or (name == "n_states" and value is None)
        if not left_open and (type(value) is not int or not 0 <= value <= highest):
            raise ValueError(f"{name} is {repr_short(value)} and {n_weights} weights, which do not belong together")
    labels = state.get("labels", (0, 1))
    if not isinstance(labels, list | tuple) or not 1 <= len(labels) <= max(n_weights, HARMLESS):
        raise ValueError(f"the labels are {repr_short(labels)} and there are {n_weights} weights")
    n_states = state.get("n_states") or 0
    # A given table of states is as large as the file that contains it, and is checked against these numbers.
    pruned = task.tags.state_weights and cast(StateWeights, task).states is not None
    if not pruned and len(labels) * n_states > max(n_weights, HARMLESS):
        raise ValueError(f"{len(labels)} labels with {n_states} states and {n_weights} weights do not belong together")


def check_tables(state: Any) -> None:
    """Raise ValueError if a task that is restored from this state would make tables too large for any data."""
    if not isinstance(state, dict):
        return
    n_labels, n_states = len(state.get("labels", ())), state.get("n_states") or 0
    if n_labels > MOST_LABELS or n_labels * n_states > MOST_CELLS:
        raise ValueError(
            f"{n_labels} labels with {n_states} states each are more than the {MOST_LABELS} labels, or {MOST_CELLS} "
            "states of all labels, that data in files may have"
        )


def _rebuild(file: ModelFile, task: BaseTask | None, n_weights: int) -> Any:
    """Return the estimator of a model file without its weights; raise errors of many types if it is invalid."""
    if file.estimator not in ESTIMATORS:
        raise ValueError(f"unknown estimator {repr_short(file.estimator)}")
    params = {key: decode(item) for key, item in file.params.items() if key not in NOT_KEPT}
    params["task"] = params["task"] if task is None else task
    estimator = library_class(file.estimator)(**params)
    if file.state is not None:
        state = decode(file.state)
        if task is None:
            check_state(state, n_weights, estimator.task)
        estimator.task.restore(state)
    known = {name: decode(file.fitted[name]) for name in _Fitted.__struct_fields__ if name in file.fitted}
    fitted = msgspec.convert({**known, HISTORY: None}, _Fitted)
    for name in (*FITTED, CALIBRATED):
        setattr(estimator, name, getattr(fitted, name))
    estimator.cv_results_ = None
    history = file.fitted.get(HISTORY)
    estimator.history_ = [] if history is None else _decode_history(history)
    if fitted.feature_names_in_ is not None:
        estimator.feature_names_in_ = np.array(fitted.feature_names_in_, dtype=object)
    return estimator


def load(path: str | Path, task: BaseTask | None = None) -> Any:
    """Read a model that `save` wrote. Nothing in the files is executed.

    Parameters
    ----------
    path : path
        The model's folder.
    task : Task, optional
        Needed for a model with a custom task: an equal task that has learned (``task.learn``) or that
        defines ``restore``.

    Returns
    -------
    estimator or FeaturePipeline
        Ready to predict: an estimator, or a pipeline if its features are saved with it, as those of models of tokens
        that the command trained.
    """
    from latentstruct.estimators.pipeline import FeaturePipeline

    files = read_files(path)
    estimator, extra = restore_model(files, task), files.settings.extra
    try:
        features = restore_features(extra.get("features")) if isinstance(extra, dict) else None
    except InputError as error:
        raise FormatError(files.folder, Description(str(error)), MODEL_FOLDER, COPY_AGAIN) from error
    if features is None:
        return estimator
    # Tasks of pairs have one weight per feature, and no inputs.
    if features.n_features_ != (estimator.task_.n_inputs_ or estimator.task_.n_features):
        raise FormatError(files.folder, Description("features of other weights"), MODEL_FOLDER, COPY_AGAIN)
    return FeaturePipeline.of_fitted(features, estimator)


def restore_model(files: ModelFiles, task: BaseTask | None = None) -> Any:
    """Return the estimator that was saved (see `load`)."""
    folder, file, vectors = files.folder, files.settings, files.vectors
    weights = _weights_of(vectors)
    if task is None and file.params.get("task") is None:
        expected = f"the task {repr_short(file.task)} of {folder}, which is not part of the library"
        raise InputError("task", None, expected)
    try:
        estimator = _rebuild(file, task, len(weights))
        n_features = getattr(estimator.task, "n_features", None)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        got, expected = Description(repr_short(error, 160)), "the description of a model of this library"
        raise FormatError(folder / SETTINGS, got, expected, COPY_AGAIN) from error
    if n_features is None:
        expected = "a task that has learned (`task.learn`) or defines `restore`"
        raise InputError("task", estimator.task, expected)
    if len(weights) != n_features:
        raise FormatError(
            folder, Description(f"{len(weights)} weights"), f"{n_features} weights as its task has", COPY_AGAIN
        )
    if _checksum(vectors) != file.weights_sha256:
        got, expected = Description("another checksum"), f"the file that {SETTINGS} was written with"
        raise FormatError(folder / file.weights, got, expected, COPY_AGAIN)
    estimator.task_, estimator.coef_ = estimator.task, weights
    arrays = {name.removeprefix(PART): array for name, array in vectors.items() if name.startswith(PART)}
    try:
        estimator._restore_parts(arrays, {name: decode(value) for name, value in file.fitted.items()})
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        got, expected = Description(repr_short(error, 160)), f"the parts of {file.estimator} other than its weights"
        raise FormatError(folder, got, expected, COPY_AGAIN) from error
    return estimator
