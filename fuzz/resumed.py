"""Readers of what a training writes for itself: checkpoints and prepared data."""

import hashlib
import json
import struct
import tempfile
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from fuzz.mutations import change_json
from fuzz.registry import Reader
from latentstruct import (
    CRF,
    BlockAscent,
    Bundle,
    Chain,
    LatentMulticlass,
    LatentSSVM,
    Motif,
    Multiclass,
    PairwiseRanking,
    StructuralSVM,
)
from latentstruct.data.shard_files import MANIFEST
from latentstruct.data.sharded import ShardedData
from latentstruct.persistence.checkpoints import Checkpoint, write_checkpoint
from latentstruct.persistence.state_trees import join_tree

RNG = np.random.default_rng(0)
ITEMS, CLASSES = RNG.normal(size=(12, 3)), np.arange(12) % 3
SENTENCES = [RNG.normal(size=(length, 2)) for length in (3, 4, 1, 2)]
TAGS = [["N", "V", "V"], ["V", "N", "N", "V"], ["N"], ["V", "V"]]
ITERATIONS = 3
EXTREMES = (0.0, -1.0, 1.0, 1e308, np.inf, np.nan, 2.0**31, -(2.0**63))

RUNS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "ascent": lambda: (StructuralSVM(Multiclass(), solver=BlockAscent()), ITEMS, CLASSES),
    "bundle": lambda: (StructuralSVM(Chain(), solver=Bundle()), SENTENCES, TAGS),
    "crf": lambda: (CRF(Chain()), SENTENCES, TAGS),
    "cccp": lambda: (
        LatentSSVM(LatentMulticlass(n_states=2)),
        [np.stack([x, x[::-1]]) for x in ITEMS],
        CLASSES,
    ),
}
"""Trainings whose checkpoints are damaged."""


def train(name: str, path: Path, max_iter: int) -> Any:
    """Train a little, with a checkpoint."""
    estimator, X, Y = RUNS[name]()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return estimator.set_params(max_iter=max_iter).fit(X, Y, checkpoint=Checkpoint(path, every=0.0))


@cache
def checkpoint(name: str) -> bytes:
    """Return the checkpoint of a training that was stopped."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "run.checkpoint")
        train(name, path, ITERATIONS)
        return path.read_bytes()


def go_on(name: str, folder: Path, data: bytes) -> Any:
    """Go on from a damaged checkpoint."""
    path = folder / "run.checkpoint"
    path.write_bytes(data)
    return train(name, path, ITERATIONS + 1)


def change_state(name: str, data: bytes, rng: Random) -> bytes:
    """Change the state in place of the bytes, in most cases, and let the checksum fit: solvers must see it."""
    if rng.random() < 0.2:
        return data
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "run.checkpoint")
        path.write_bytes(data if rng.random() < 0.2 else checkpoint(name))
        try:
            with safe_open(path, "np") as file:
                facts = dict(file.metadata() or {})
                arrays = {key: file.get_tensor(key).copy() for key in file.keys()}  # noqa: SIM118 - no mapping
            tree = json.loads(change_json(facts["tree"].encode(), (b"{}",), (b"0",), rng))
            change_array(arrays, rng)
            write_checkpoint(path, join_tree(tree, arrays), json.loads(facts["identity"]))
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            return data
        return path.read_bytes()


def change_array(arrays: dict[str, Any], rng: Random) -> None:
    """Set a value of an array to another one, cut the array, or change its type."""
    if not arrays or rng.random() < 0.3:
        return
    name = rng.choice(sorted(arrays))
    array, kind = arrays[name], rng.random()
    if kind < 0.2:
        arrays[name] = array[: len(array) // 2] if array.ndim else array.reshape(1)
    elif kind < 0.3:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(rng.choice((np.float32, np.int64, np.uint8, np.float64)))
    elif array.size:
        with np.errstate(all="ignore"):
            value = np.float64(rng.choice(EXTREMES)).astype(array.dtype)
        array.reshape(-1)[rng.randrange(array.size)] = value


TASKS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "chain": lambda: (Chain(), SENTENCES, TAGS),
    "multiclass": lambda: (Multiclass(), ITEMS, CLASSES),
    "latent": lambda: (LatentMulticlass(n_states=2), [np.stack([x, x[::-1]]) for x in ITEMS], CLASSES),
    "ranking": lambda: (PairwiseRanking(), [ITEMS[:5], ITEMS[5:]], [[0, 1, 0, 2, 1], [1, 0, 0, 1, 0, 1, 2]]),
    "motif": lambda: (Motif(width=3), ["ACGTAC", "TTTACG", "GGGGG", "CCCTT"], [1, 1, -1, -1]),
}


@cache
def prepared(name: str) -> dict[str, bytes]:
    """Return the files of prepared data."""
    task, X, Y = TASKS[name]()
    with tempfile.TemporaryDirectory() as place:
        ShardedData.write(Path(place, "data"), task, [(X, Y)])
        return {f"data/{path.name}": path.read_bytes() for path in Path(place, "data").iterdir()}


def shard(name: str) -> str:
    """Return the name of the one file of examples."""
    return next(path for path in prepared(name) if path.endswith(".safetensors"))


def use_prepared(folder: Path) -> Any:
    """Open prepared data, look at all of them and train a little."""
    data = ShardedData(folder / "data")
    data.verify()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        kind = LatentSSVM if data.task.latent else StructuralSVM
        return kind(data.task, max_iter=1).fit(data)


def read_manifest(folder: Path, data: bytes) -> Any:
    """Use data whose list is damaged."""
    (folder / "data" / MANIFEST).write_bytes(data)
    return use_prepared(folder)


def read_shard(folder: Path, data: bytes) -> Any:
    """Use data of which one file is damaged; its checksum is made to fit."""
    kept = folder / "manifest"
    if not kept.exists():
        kept.write_bytes((folder / "data" / MANIFEST).read_bytes())
    manifest = json.loads(kept.read_bytes())
    manifest["shards"][0] |= {"n_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "data" / MANIFEST).write_text(json.dumps(manifest))
    (folder / "data" / manifest["shards"][0]["file"]).write_bytes(data)
    return use_prepared(folder)


def change_values(data: bytes, rng: Random) -> bytes:
    """Set integers among the arrays to extreme ones, in half of the files."""
    if len(data) < 8 or rng.random() < 0.5:
        return data
    begin = 8 + int.from_bytes(data[:8], "little")
    if begin + 8 > len(data):
        return data
    found = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = begin + 8 * rng.randrange((len(data) - begin) // 8)
        value = rng.choice((-1, 1, 2, 5, 1 << 20, (1 << 63) - 1, -(1 << 63), 1 << 31))
        found[at : at + 8] = struct.pack("<q", value)
    return bytes(found)


READERS = (
    *(
        Reader(
            f"checkpoint-{name}",
            lambda name=name: [checkpoint(name)],
            partial(go_on, name),
            (b'"$array"', b"null", b"I64", b"F32"),
            partial(change_state, name),
        )
        for name in RUNS
    ),
    *(
        Reader(
            f"prepared-{name}",
            lambda name=name: [prepared(name)[f"data/{MANIFEST}"]],
            read_manifest,
            (b"../", b"null", b"-1"),
            beside=partial(prepared, name),
        )
        for name in TASKS
    ),
    *(
        Reader(
            f"shard-{name}",
            lambda name=name: [prepared(name)[shard(name)]],
            read_shard,
            (b'"I64"', b'"shape":[', b'"data_offsets":[0,', b"18446744073709551615"),
            change_values,
            partial(prepared, name),
        )
        for name in TASKS
    ),
)
