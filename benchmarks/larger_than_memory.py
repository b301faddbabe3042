"""A million tokens from files, trained by a process that may take 2 GB of address space, against one in memory."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import Line
from latentstruct import CRF, Chain
from latentstruct.data.sharded import ShardedData
from latentstruct.exceptions import InputError

LIMIT_MB, ITERATIONS = 2048, 10
N_LABELS, N_INPUTS, PER_TOKEN, LENGTH = 20, 50_000, 25, 20


def synthetic_block(seed: int, n_sentences: int = 1000) -> tuple[list[sparse.csr_array], list[np.ndarray]]:
    """Return sentences with features of which some tell of the label."""
    rng = np.random.default_rng(seed)
    n = n_sentences * LENGTH
    labels = rng.integers(0, N_LABELS, n)
    reported = (labels[:, None] * 97 + rng.integers(0, 40, (n, 3))) % N_INPUTS
    others = (N_INPUTS * rng.random((n, PER_TOKEN - 3)) ** 3).astype(np.int64)
    features = np.sort(np.concatenate([reported, others], axis=1), axis=1)
    pointers = np.arange(0, PER_TOKEN * n + 1, PER_TOKEN)
    matrix = sparse.csr_array((np.ones(features.size), features.ravel(), pointers), shape=(n, N_INPUTS))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    starts = range(0, n, LENGTH)
    return [matrix[k : k + LENGTH] for k in starts], [labels[k : k + LENGTH] for k in starts]


def synthetic(n_tokens: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield blocks of sentences with a given number of tokens in total."""
    return (synthetic_block(seed) for seed in range(n_tokens // (1000 * LENGTH)))


def repeated_chunking(n_tokens: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield the sentences of CoNLL-2000, block by block, repeated until the number of tokens is reached."""
    from latentstruct.features.windows import WindowFeatures
    from latentstruct_papers.datasets import load_conll2000

    known = load_conll2000()
    sentences, labels = known.tokens, known.Y
    template = WindowFeatures(min_count=2).fit(sentences)
    for _ in range(-(-n_tokens // sum(map(len, labels)))):
        for start in range(0, len(sentences), 1000):
            yield template.transform(sentences[start : start + 1000]), labels[start : start + 1000]


def measure(folder: str, in_memory: bool) -> dict[str, Any]:
    """Train on prepared data, from files or with all of them in memory; return times, sizes and the objective."""
    import resource

    if not in_memory:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_MB * 2**20, LIMIT_MB * 2**20))
    data = ShardedData(folder)
    model = CRF(data.task, C=1.0, solver="lbfgs", max_iter=ITERATIONS)
    model.fit(*loaded(data) if in_memory else (data,))
    first, last = model.history_[0], model.history_[-1]
    n_passes = (last.oracle_calls - first.oracle_calls) / data.n_examples
    return {
        "seconds_a_pass": (last.seconds - first.seconds) / n_passes,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "address_mb": _peak_address_mb(),
        "objective": model.objective_,
        "n_weights": len(model.coef_),
    }


def loaded(data: ShardedData) -> tuple[list[Any], list[Any]]:
    """Return all examples, in memory."""
    X, Y = [], []
    for batch in data.batches:
        matrix = sparse.csr_array(batch.inputs.matrix, copy=True)
        X += [matrix[start:stop] for start, stop in pairwise(batch.offsets.tolist())]
        Y += data.task.true_outputs(batch)
    return X, Y


def _peak_address_mb() -> float:
    """Return the most address space this process has had, where the system tells."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmPeak"))


def in_child(folder: str, how: str) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.larger_than_memory", folder, how]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"training {how} ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def compare(what: str, blocks: Any) -> list[Line]:
    """Write blocks to files, then train from them under the limit, and with all of them in memory."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        data = ShardedData.write(folder, Chain(), blocks)
        written = time.perf_counter() - began
        limited, whole = (in_child(folder, how) for how in ("files", "memory"))
    assert abs(limited["objective"] - whole["objective"]) <= 1e-9 * whole["objective"], "objectives differ"
    reached = (
        f"{data.n_bytes / 2**20:.0f} MB in {len(data.sizes)} files written in {written:.0f} s; {limited['n_weights']} "
        f"weights; at most {limited['rss_mb']:.0f} MB resident and {limited['address_mb']:.0f} of {LIMIT_MB} MB of "
        f"address space, against {whole['rss_mb']:.0f} and {whole['address_mb']:.0f} MB in memory"
    )
    return [Line(what, limited["seconds_a_pass"], whole["seconds_a_pass"], "all in memory", None, reached)]


def run(quick: bool = False) -> list[Line]:
    """Measure seconds of one pass over the data."""
    n_tokens = 100_000 if quick else 1_000_000
    lines = compare(f"CRF on {n_tokens} synthetic tokens, a pass", lambda: synthetic(n_tokens))
    try:
        what = f"CRF on {n_tokens} tokens of CoNLL-2000, repeated, a pass"
        lines += compare(what, lambda: repeated_chunking(n_tokens))
    except InputError as error:
        print(f"chunking is left out ({error})")
    return lines


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2] == "memory")))
