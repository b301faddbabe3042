"""Readers of what the library wrote: models, with the records that the command keeps beside them."""

import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from fuzz.registry import Reader
from latentstruct import KernelStructuralSVM, LatentMulticlass, LatentSSVM, ModLat, Multiclass
from latentstruct.cli import app
from latentstruct.cli.registry import KINDS, load_trained
from latentstruct.persistence.models import SETTINGS, _checksum
from latentstruct.persistence.models import load as load_model

OPTIONS: dict[str, tuple[str, ...]] = {
    "chain": (),
    "classes": (),
    "motif": ("--width", "4"),
    "coreference": (),
    "rank": (),
    "graph": (),
    "measure": (),
    "align": (),
    "parse": (),
    "diverse": (),
    "program": (),
    "cluster": (),
    "segments": (),
    "segment": (),
    "detect": (),
}
"""Kinds of models with options of their training, which is kept short."""
LINES = {"graph": 3, "program": 3, "diverse": 3, "parse": 20, "motif": 39}
SHORT = 40
END = {"coreference": b"#end document\n"}
"""Where a file is cut, if not after a number of lines."""
WEIGHED = ("chain", "classes", "graph")
WEIGHTS = "weights-0123456789abcdef.safetensors"
MARKS = (b'{"coef":{"dtype":"F64"', b'"BF16"', b'"F32"', b'"shape":[', b'"data_offsets":[0,', b"theta", b"\x80\x04c")


@cache
def trained(kind: str) -> dict[str, bytes]:
    """Return the files of a small model and of data to use it on."""
    from typer.testing import CliRunner

    found = KINDS[kind]
    with tempfile.TemporaryDirectory() as place:
        data, folder = Path(place, found.example_file), Path(place, "model")
        data.write_bytes(found.example())
        arguments = ["train", kind, str(data), "-o", str(folder), "--max-iter", "2", "-q", *OPTIONS[kind]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, arguments)
        if result.exit_code:
            raise RuntimeError(f"{' '.join(arguments)}: {result.output}")
        return {**files_of(folder), found.example_file: cut(kind, data.read_bytes())}


def cut(kind: str, data: bytes) -> bytes:
    """Return the beginning of a file of data; archives are left as they are."""
    if data.startswith(b"PK"):
        return data
    if kind in END:
        return b"".join(data.partition(END[kind])[:2])
    return b"".join(data.splitlines(keepends=True)[: LINES.get(kind, SHORT)])


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a model, its weights under one name for all models."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    settings = json.loads(files[SETTINGS])
    files[WEIGHTS] = files.pop(settings["weights"])
    files[SETTINGS] = json.dumps({**settings, "weights": WEIGHTS}).encode()
    return {f"model/{name}": content for name, content in files.items()}


ITEMS = np.random.default_rng(0).normal(size=(12, 3)) + 3.0 * np.eye(3)[np.arange(12) % 3]
CLASSES = np.arange(12) % 3
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "kernel": lambda: KernelStructuralSVM(Multiclass(), kernel="rbf"),
    "latent": lambda: LatentSSVM(LatentMulticlass(n_states=2), max_iter=2),
    "modlat": lambda: ModLat(LatentMulticlass(n_states=2), max_iter=2),
}


@cache
def fitted(name: str) -> dict[str, bytes]:
    """Return the files of a small model that the command does not make."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ESTIMATORS[name]().fit(items_of(name), CLASSES).save(Path(place, "model"))
        return files_of(Path(place, "model"))


def items_of(name: str) -> Any:
    """Return what an estimator takes: with latents a matrix of a row for each state."""
    return ITEMS if name == "kernel" else [np.stack([x, x[::-1]]) for x in ITEMS]


def read_settings(kind: str, folder: Path, data: bytes) -> Any:
    """Load a model whose settings are damaged, and use it."""
    (folder / "model" / SETTINGS).write_bytes(data)
    return use(kind, folder)


def read_weights(kind: str, folder: Path, data: bytes) -> Any:
    """Load a model whose weights are damaged, and use it."""
    write_weights(folder, data)
    return use(kind, folder)


def write_weights(folder: Path, data: bytes) -> None:
    """Put damaged weights into a model; the checksum in its settings is made to fit."""
    settings = json.loads(trained_settings(folder))
    # What is no weights file has no checksum.
    with suppress(SafetensorError, ValueError, KeyError, TypeError, AttributeError, MemoryError):
        settings["weights_sha256"] = _checksum(load(data))
    (folder / "model" / SETTINGS).write_text(json.dumps(settings))
    (folder / "model" / WEIGHTS).write_bytes(data)


def read_fitted(name: str, file: str, folder: Path, data: bytes) -> Any:
    """Load a model of which one file is damaged, and use it; a checksum is made to fit."""
    if file == WEIGHTS:
        write_weights(folder, data)
    else:
        (folder / "model" / SETTINGS).write_bytes(data)
    with np.errstate(all="ignore"):
        return load_model(folder / "model").predict(items_of(name))


def trained_settings(folder: Path) -> bytes:
    """Return the settings as they were, which are kept after the first call."""
    kept = folder / "settings"
    if not kept.exists():
        shutil.copy(folder / "model" / SETTINGS, kept)
    return kept.read_bytes()


def use(kind: str, folder: Path) -> Any:
    """Load a model as the command does, and predict."""
    found, model = load_trained(folder / "model")
    # Weights of any size are weights; overflowing scores give a warning.
    with np.errstate(all="ignore"):
        found.predict(model, str(folder / KINDS[kind].example_file), str(folder / found.prediction_file))
    return model


READERS = (
    *(
        Reader(
            f"model-{kind}",
            lambda kind=kind: [trained(kind)[f"model/{SETTINGS}"]],
            partial(read_settings, kind),
            (b'"$object": "Chain"', b'"$array": [', b"null", b"-1", b"1e999"),
            beside=partial(trained, kind),
        )
        for kind in OPTIONS
    ),
    *(
        Reader(
            f"weights-{kind}",
            lambda kind=kind: [trained(kind)[f"model/{WEIGHTS}"]],
            partial(read_weights, kind),
            MARKS,
            beside=partial(trained, kind),
        )
        for kind in WEIGHED
    ),
    *(
        Reader(
            f"{'weights' if file == WEIGHTS else 'model'}-{name}",
            lambda name=name, file=file: [fitted(name)[f"model/{file}"]],
            partial(read_fitted, name, file),
            MARKS,
            beside=partial(fitted, name),
        )
        for name in ESTIMATORS
        for file in (SETTINGS, WEIGHTS)
    ),
)
