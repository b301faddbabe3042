"""Kills checkpointed trainings at random moments, and compares what they end with: ``python -m benchmarks.kills``.

Each training runs in a process of its own with a checkpoint after every iteration. It is killed by SIGKILL at a random
moment, sometimes a second time when it goes on, and may then end. Its weights must be those of an undisturbed training,
bit for bit. As root, a training on a file system that is too small is looked at too.
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

FULL = 3
"""Exit code of a training whose checkpoint could not be written."""


def words(n: int) -> tuple[list[Any], list[Any]]:
    """Return sequences whose labels follow from noisy inputs and from their neighbors."""
    rng = np.random.default_rng(0)
    labels = [np.cumsum(rng.integers(0, 2, rng.integers(4, 12))) % 5 for _ in range(n)]
    return [np.eye(5)[one] + 0.8 * rng.normal(size=(len(one), 5)) for one in labels], [one.tolist() for one in labels]


def sequences(n: int) -> tuple[list[str], list[int]]:
    """Return strings of which every other one has a motif."""
    rng = np.random.default_rng(1)
    texts = ["".join(rng.choice(list("ACGT"), 40)) for _ in range(n)]
    places = rng.integers(0, 34, n)
    found = [
        text[:place] + "TATAAT" + text[place + 6 :] if i % 2 else text
        for i, (text, place) in enumerate(zip(texts, places, strict=True))
    ]
    return found, [i % 2 for i in range(n)]


def trainings() -> dict[str, tuple[Any, Callable[[], tuple[Any, Any]]]]:
    """Return the estimators by name, with what makes their data."""
    from latentstruct import CRF, BlockAscent, Bundle, Chain, LatentSSVM, Motif, StructuralSVM

    return {
        "block ascent": (StructuralSVM(Chain(), C=1.0, solver=BlockAscent(tol=1e-6)), lambda: words(200)),
        "bundle": (StructuralSVM(Chain(), C=0.1, solver=Bundle(tol=1e-5)), lambda: words(600)),
        "L-BFGS": (CRF(Chain(), C=10.0, tol=1e-10), lambda: words(2000)),
        "CCCP": (LatentSSVM(Motif(6), C=1.0, restarts=2, tol=1e-4), lambda: sequences(200)),
    }


def train(name: str, path: Path, reported: Connection) -> None:
    """Train with a checkpoint after every iteration; tell the checksum of the weights, or why there are none."""
    from latentstruct.exceptions import CheckpointError
    from latentstruct.persistence.checkpoints import Checkpoint

    model, make = trainings()[name]
    X, Y = make()
    reported.send("ready")
    try:
        model.fit(X, Y, checkpoint=Checkpoint(path, every=0.0))
    except CheckpointError as error:
        reported.send(str(error))
        sys.exit(FULL)
    reported.send(f"sha256 {hashlib.sha256(model.coef_.tobytes()).hexdigest()}, {model.n_iter_} iterations")


class Training:
    """A training in a process of its own, which is about to begin."""

    def __init__(self, name: str, path: Path) -> None:
        # A copy of this process has the library loaded already.
        context = get_context("fork")
        self.reported, other = context.Pipe(duplex=False)
        self.process = context.Process(target=train, args=(name, path, other))
        self.process.start()
        other.close()
        assert self.reported.recv() == "ready"

    def ended(self) -> tuple[int | None, str]:
        """Wait for the end; return the exit code and the output."""
        reported = self.reported.recv()
        self.process.join()
        return self.process.exitcode, reported

    def killed(self, seconds: float) -> bool:
        """Kill the process after some seconds; return whether it was still running."""
        self.process.join(seconds)
        if self.process.exitcode is not None:
            return False
        self.process.kill()
        self.process.join()
        return self.process.exitcode == -signal.SIGKILL


def kill_and_resume(name: str, n_kills: int, folder: Path, rng: random.Random) -> bool:
    """Kill a training several times; return whether it ended as an undisturbed one."""
    training = Training(name, folder / "undisturbed")
    began = time.perf_counter()
    undisturbed = training.ended()
    seconds = time.perf_counter() - began
    kills = ends = wrong = 0
    path = folder / "killed"
    while ends < n_kills:
        path.unlink(missing_ok=True)
        if not Training(name, path).killed(rng.uniform(0.0, seconds)):
            # It ended before its kill.
            continue
        kills += 1 + (rng.random() < 0.3 and Training(name, path).killed(rng.uniform(0.0, 0.5 * seconds)))
        ends += 1
        wrong += Training(name, path).ended() != undisturbed
    print(
        f"{name}: {kills} kills, {ends} ends, {wrong} of them with other weights ({undisturbed[1]}, "
        f"{seconds:.1f} s undisturbed)",
        flush=True,
    )
    return wrong == 0


def fill_disk(name: str, folder: Path, size: int) -> bool:
    """Train on a file system of limited size; return whether the last good checkpoint is left and can be resumed."""
    place = folder / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        code, reported = Training(name, place / "run").ended()
        left = sorted(file.name for file in place.iterdir())
        print(f"{name} on {size} bytes: exit code {code}, {left} left, output: {reported}", flush=True)
        fine = code == FULL and left == ["run"]
        if fine:
            subprocess.run(["mount", "-o", f"remount,size={64 * size}", str(place)], check=True)
            same = Training(name, place / "run").ended() == Training(name, folder / "whole").ended()
            print(f"{name} with more space: {'the same' if same else 'OTHER'} weights", flush=True)
            fine = same
    finally:
        subprocess.run(["umount", str(place)], check=True)
    return fine


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="trainings of each kind that are killed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="names of trainings")
    given = parser.parse_args()
    fine = True
    with tempfile.TemporaryDirectory() as name:
        for number, training in enumerate(given.only or trainings()):
            folder = Path(name) / str(number)
            folder.mkdir()
            fine &= kill_and_resume(training, given.kills, folder, random.Random(given.seed + number))
        if os.geteuid() == 0:
            fine &= fill_disk("block ascent", Path(name), 1 << 19)
        else:
            print("a full disk is not tried: only root can mount a small one", flush=True)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
