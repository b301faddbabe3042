"""Peak memory of training against the number of sequences and the megabytes allowed for kept planes.

Each fit has a process of its own, whose largest resident size the system reports. What was resident before training,
the data among it, is subtracted.
"""

import json
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Line
from benchmarks.sweeps import N_LABELS, text

LENGTH, N_FEATURES = 25, 3_000
# Sequences, and the bounds tried for each, in megabytes; the unbounded fit comes first, 0 stands for no planes at all.
BOUNDS: dict[int, tuple[float | None, ...]] = {
    1000: (None, 0, 16, 8),
    4000: (None, 0, 64, 32),
    16000: (None, 0, 256, 128),
}
# Bytes from which memory that is freed counts as free; the system's own rule is to keep up to 32 MB of it.
FREED_AT_ONCE = 65536
C, TOL, MAX_ITER = 0.1, 0.01, 400


def labeled(n: int) -> tuple[list[Any], list[Any]]:
    """Return sequences whose labels follow from their features and from chance."""
    X, _ = text(n * LENGTH, N_FEATURES, LENGTH)
    rng = np.random.default_rng(2)
    truth = rng.normal(size=(N_FEATURES, N_LABELS))
    return X, [(x @ truth + 3.0 * rng.normal(size=(LENGTH, N_LABELS))).argmax(axis=1) for x in X]


def resident() -> float:
    """Return the present resident size of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def fit(n: int, cache_mb: float | None) -> dict[str, Any]:
    """Train, and return the megabytes it took and what it reached."""
    from latentstruct import Chain, StructuralSVM

    X, Y = labeled(n)
    # Kernels are compiled or loaded, and all but the planes is there, before anything is measured.
    StructuralSVM(Chain(), C=C, tol=0.5).fit(X[:50], Y[:50])
    # A solver that keeps no planes tells what all the rest takes.
    settings = {"solver": "subgradient", "max_iter": 1} if cache_mb == 0 else {"cache_mb": cache_mb}
    model = StructuralSVM(Chain(), C=C, tol=TOL, **{"max_iter": MAX_ITER, **settings})
    before = resident()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {
        "megabytes": peak - before,
        "objective": model.objective_,
        "gap": model.relative_gap_,
        "calls": model.n_oracle_calls_ / n,
    }


def in_process(n: int, cache_mb: float | None) -> dict[str, Any]:
    """Return the same from a new process, whose freed arrays go back to the system at once."""
    command = [sys.executable, "-m", "benchmarks.memory_curves", str(n), "none" if cache_mb is None else str(cache_mb)]
    settings = {
        **os.environ,
        "MALLOC_MMAP_THRESHOLD_": str(FREED_AT_ONCE),
        "MALLOC_TRIM_THRESHOLD_": str(FREED_AT_ONCE),
    }
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=settings)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(quick: bool = False) -> list[Line]:
    lines: list[Line] = []
    for n, bounds in list(BOUNDS.items())[: 1 if quick else None]:
        base = None
        for cache_mb in bounds:
            found = in_process(n, cache_mb)
            base = base or found["megabytes"]
            bound = "any number of" if cache_mb is None else f"at most {cache_mb:g}"
            reached = (
                f"{found['megabytes']:.0f} MB while training; objective {found['objective']:.6g}, gap "
                f"{found['gap']:.2g}, {found['calls']:.0f} calls an example"
            )
            what = f"{n} sequences, {bound} MB of planes"
            lines.append(Line(what, found["megabytes"], base, "MB without a bound", None, reached))
    return lines


if __name__ == "__main__":
    number, bound = sys.argv[1:]
    print(json.dumps(fit(int(number), None if bound == "none" else float(bound))))
