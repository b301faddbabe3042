"""Damaged sparse matrices and index arrays through fit and predict: ``python -m fuzz.matrices [--mutants N]``.

The problems run in another process, under a limit of memory. A mutant may be refused by an error of the library
or be used; a signal, another exception or too much memory is a finding. The end is 1 if there is any finding.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from latentstruct import (
    Alignment,
    CandidateTask,
    Chain,
    Coreference,
    CorrelationClustering,
    Detection,
    DetectionInput,
    DiverseSubset,
    ExampleTask,
    Graph,
    GraphInput,
    KernelStructuralSVM,
    LatentMulticlass,
    LatentSSVM,
    Measure,
    ModLat,
    Multiclass,
    PairwiseRanking,
    PartsTask,
    PrecisionAtK,
    ShardedData,
    StructuralSVM,
    pair_features,
)
from latentstruct.core.protocols import Pooled
from latentstruct.exceptions import InputError
from latentstruct.planes.plane import Atoms, Planes, Rows, Slopes
from latentstruct.tasks.base import BaseTask

MUTANTS = 20_000
MEMORY = 4 << 30
"""Bytes beyond those of the process at its start."""
FORMATS = ("csr",) * 8 + ("csc", "coo", "bsr", "lil", "dia", "dok")
TYPES = ("float64", "int64", "int8", "uint64", "object", "str", "complex")


@dataclass
class Problem:
    """Arrays that are damaged, and what is done with them."""

    leaves: list[Any]
    run: Callable[[list[Any]], Any]
    share: float = 1.0
    """Part of the mutants of other problems that this one gets, if it is slow."""


# Damage


def odd_number(rng: np.random.Generator, size: int) -> int:
    """Return a number that may be no index."""
    return int(rng.choice([-1, -2, 0, size - 1, size, size + 1, 10**9, 2**31 - 1, -(2**31), int(rng.integers(0, 99))]))


def damaged_array(array: Any, rng: np.random.Generator) -> Any:
    """Return an array with one thing wrong, or only different."""
    array = np.array(array)
    kind = rng.integers(12)
    flat = array.reshape(-1)
    if kind < 5 and len(flat):
        with np.errstate(all="ignore"):
            flat[rng.integers(len(flat))] = np.int64(odd_number(rng, 6)).astype(array.dtype)
    elif kind == 5:
        array = array[: rng.integers(len(array) + 1)]
    elif kind == 6:
        array = np.concatenate([array, array[: rng.integers(1, 4)]])
    elif kind == 7:
        array = array.astype(str(rng.choice(TYPES[:2] if array.dtype == object else TYPES)))
    elif kind == 8:
        array = array[None] if rng.random() < 0.5 else array.reshape(-1)
    elif kind == 9:
        array = array[::-1] if rng.random() < 0.5 else rng.permutation(array)
    elif kind == 10:
        array = np.ma.array(array, mask=rng.random(array.shape) < 0.3)
    elif len(flat):
        flat[:] = flat[rng.integers(len(flat))]
    return array


def damaged_matrix(matrix: Any, rng: np.random.Generator) -> Any:
    """Return a sparse matrix in some format with damaged arrays."""
    kind = str(rng.choice(FORMATS))
    found = matrix.asformat(kind, copy=True)
    for _ in range(rng.integers(1, 3)):
        if kind == "coo":
            coords = list(found.coords)
            place = rng.integers(3)
            if place == 2:
                found.data = damaged_array(found.data, rng)
            else:
                coords[place] = damaged_array(coords[place], rng)
                found.coords = tuple(coords)
        elif kind == "dok":
            found._dict[tuple(odd_number(rng, size) if rng.random() < 0.2 else 0 for size in found.shape)] = 1.0
        elif kind == "lil":
            row = rng.integers(len(found.rows))
            if rng.random() < 0.5 and found.rows[row]:
                found.rows[row][0] = odd_number(rng, found.shape[1])
            else:
                getattr(found, str(rng.choice(["rows", "data"])))[row].append(odd_number(rng, found.shape[1]))
        else:
            names = ("data", "offsets") if kind == "dia" else ("data", "indices", "indices", "indptr", "indptr")
            name = str(rng.choice(names))
            setattr(found, name, damaged_array(getattr(found, name), rng))
    return found


def damaged(leaves: list[Any], rng: np.random.Generator) -> list[Any]:
    """Return the leaves with one of them damaged."""
    place = rng.integers(len(leaves))
    one = leaves[place]
    change = damaged_matrix if sparse.issparse(one) else damaged_array
    return [*leaves[:place], change(one, rng), *leaves[place + 1 :]]


# Problems


def rows(seed: int, n: int, d: int) -> Any:
    """Return a sparse matrix with some values in every row."""
    rng = np.random.default_rng(seed)
    return sparse.csr_array(np.where(rng.random((n, d)) < 0.6, rng.normal(size=(n, d)), 0.0) + np.eye(n, d))


def trained(model: Any, fit: Callable[[list[Any]], tuple[Any, ...]], leaves: list[Any], share: float = 1.0) -> Problem:
    """Return the problem of a model: `fit` makes X, Y and perhaps named arguments of the leaves."""

    def pieces(parts: list[Any]) -> tuple[Any, Any, dict[str, Any]]:
        X, Y, *named = fit(parts)
        return X, Y, named[0] if named else {}

    X, Y, named = pieces(leaves)
    ready = model.__sklearn_clone__().fit(X, Y, **named)

    def run(parts: list[Any]) -> None:
        X, Y, named = pieces(parts)
        try:
            model.__sklearn_clone__().fit(X, Y, **named)
        except InputError:
            ready.predict(X)
            raise
        ready.predict(X)

    return Problem(leaves, run, share)


class Listed(CandidateTask):
    def candidates(self, x):
        return list(range(x.shape[0])), None, x


class Pick(PartsTask):
    def parts(self, x):
        return x

    def counts(self, x, y):
        return np.isin(np.arange(x.shape[0]), list(y)).astype(float)

    def best(self, x, scores):
        return (scores > 0).astype(float)

    def output(self, x, counts):
        return frozenset(np.flatnonzero(counts).tolist())

    def output_loss(self, y, y_hat):
        return len(y ^ y_hat)

    def part_losses(self, x, y):
        return len(y), np.where(self.counts(x, y) > 0, -1.0, 1.0)


class Signs(ExampleTask):
    def joint_feature(self, x, y):
        x = x.reshape(1, -1) if x.ndim == 1 else x
        return x

    def argmax(self, x, w):
        return 1 if w.sum() > 0 else -1

    def loss_augmented_argmax(self, x, y, w):
        return -y

    def output_loss(self, y, y_hat):
        return float(y != y_hat)


class OwnPlanes(BaseTask):
    """A task of a user that makes planes of arrays, which are damaged."""

    n_features = 6

    def __init__(self, leaves=None):
        self.leaves = leaves

    def learn(self, X, Y):
        pass

    def prepare(self, X, Y=None):
        return self

    labeled, n_examples = True, 3

    def pool_batch(self, batch, query):
        indptr, places, pointers, row, column = self.leaves
        clamped = query.mode == "clamped"
        atoms = Atoms(row, column, np.full(len(row), 1.0 if clamped else -1.0))
        slopes, losses = Slopes(Rows(indptr, places, np.zeros(0)), pointers, atoms), np.full(3, 0.0 if clamped else 1.0)
        try:
            found = Planes(*slopes, losses, np.zeros(3), 6)
            found = found if query.rows is None else found.take(query.rows)
        except (IndexError, TypeError, ValueError) as error:
            raise InputError("leaves", self.leaves, "arrays of planes") from error
        return Pooled(found.values, Slopes(found.rows, found.pointers, found.atoms), found.offsets)

    def decode(self, batch, w, temperature):
        return []


def own_planes() -> Problem:
    leaves = [
        np.array([0, 2, 3], dtype=np.int64),
        np.array([0, 2, 4], dtype=np.uint32),
        np.array([0, 1, 2, 4], dtype=np.int64),
        np.array([0, -1, 1, -1], dtype=np.int32),
        np.array([1, 5, 0, 2], dtype=np.int32),
    ]

    def run(parts: list[Any]) -> None:
        StructuralSVM(OwnPlanes(parts), max_iter=1, solver="cutting_plane").fit([0, 1, 2], [0, 1, 2])

    return Problem(leaves, run)


def multiclass() -> Problem:
    y = np.arange(9) % 3
    return trained(StructuralSVM(Multiclass(), max_iter=1), lambda parts: (parts[0], y), [rows(0, 9, 5)])


def latent_rows() -> Problem:
    model = LatentSSVM(LatentMulticlass(n_states=2, weights="state"), max_iter=1)
    y = np.arange(8) % 2
    return trained(model, lambda parts: (parts[0], y, {"H": parts[1]}), [rows(0, 8, 4), np.arange(8) % 2])


def latent_matrices() -> Problem:
    model = LatentSSVM(LatentMulticlass(n_states=2), max_iter=1)
    leaves = [*(rows(k, 2, 4) for k in range(4)), np.arange(4) % 2]
    return trained(model, lambda parts: (parts[:4], [0, 1, 0, 1], {"H": parts[4]}), leaves)


def chain() -> Problem:
    Y = [["a", "b", "a"], ["b"], ["a", "b"]]
    return trained(
        StructuralSVM(Chain(), max_iter=1), lambda parts: (parts, Y), [rows(k, len(y), 4) for k, y in enumerate(Y)]
    )


def graph() -> Problem:
    edges = np.array([[0, 1], [1, 2]])
    leaves = [rows(0, 3, 3), edges, rows(1, 2, 2), rows(2, 3, 3), edges.copy(), rows(3, 2, 2)]

    def pieces(parts: list[Any]) -> tuple[Any, Any]:
        return [GraphInput(*parts[:3]), GraphInput(*parts[3:])], [[0, 1, 0], [1, 0, 1]]

    return trained(StructuralSVM(Graph(), max_iter=1), pieces, leaves)


def precision() -> Problem:
    Y = [[1, 0, 1], [0, 1]]
    leaves = [rows(0, 3, 3), rows(1, 2, 3), np.array([0]), np.array([1])]
    model = LatentSSVM(PrecisionAtK(1), max_iter=1)
    return trained(model, lambda parts: (parts[:2], Y, {"H": parts[2:]}), leaves)


def ranking() -> Problem:
    Y = [[1, 0, 1], [0, 1]]
    model = StructuralSVM(PairwiseRanking(), max_iter=1)
    return trained(model, lambda parts: (parts, Y), [rows(0, 3, 3), rows(1, 2, 3)])


def measure() -> Problem:
    y = np.arange(8) % 2
    return trained(StructuralSVM(Measure("f1"), max_iter=1), lambda parts: (parts[0], y), [rows(0, 8, 4)])


def coreference() -> Problem:
    Y = [[0, 1, 0], [0, 0, 1]]
    leaves = [rows(0, 3, 3), rows(1, 3, 3), np.array([[0, 2]]), np.array([[0, 1]])]
    model = LatentSSVM(Coreference(), max_iter=1)
    return trained(model, lambda parts: (parts[:2], Y, {"H": parts[2:]}), leaves)


def clustering() -> Problem:
    Y = [[0, 1, 0], [0, 0, 1]]
    model = StructuralSVM(CorrelationClustering(), max_iter=1)
    return trained(model, lambda parts: (parts, Y), [rows(0, 3, 3), rows(1, 3, 3)])


def detection() -> Problem:
    boxes = np.array([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 4.0, 4.0]])
    leaves = [boxes, rows(0, 2, 3), boxes + 1.0, rows(1, 2, 3), np.array([0, 1])]

    def pieces(parts: list[Any]) -> tuple[Any, Any, dict[str, Any]]:
        return [DetectionInput(*parts[:2]), DetectionInput(*parts[2:4])], [0, 1], {"H": parts[4]}

    return trained(LatentSSVM(Detection(), max_iter=1), pieces, leaves)


def diversity() -> Problem:
    leaves = [abs(rows(0, 4, 5)), abs(rows(1, 4, 5)), abs(rows(2, 4, 3)), abs(rows(3, 4, 3))]
    model = StructuralSVM(DiverseSubset(k=2), max_iter=1)
    return trained(model, lambda parts: (parts[:2], parts[2:]), leaves)


def candidates() -> Problem:
    return trained(StructuralSVM(Listed(), max_iter=1), lambda parts: (parts, [0, 1]), [rows(0, 3, 3), rows(1, 3, 3)])


def parts_task() -> Problem:
    Y = [frozenset({0}), frozenset({1, 2})]
    return trained(StructuralSVM(Pick(), max_iter=1), lambda parts: (parts, Y), [rows(0, 3, 3), rows(1, 3, 3)])


def examples() -> Problem:
    model = StructuralSVM(Signs(), max_iter=1)
    return trained(model, lambda parts: (parts, [1, -1]), [rows(0, 1, 4), rows(1, 1, 4)])


def matrix_of_examples() -> Problem:
    """A task of the user whose examples are the rows of one sparse matrix."""
    model = StructuralSVM(Signs(), max_iter=1)
    return trained(model, lambda parts: (parts[0], [1, -1, 1]), [rows(0, 3, 4)])


def kernel() -> Problem:
    model = KernelStructuralSVM(Multiclass(), max_iter=1)
    return trained(model, lambda parts: (parts[0], np.arange(8) % 2), [rows(0, 8, 4)], share=0.3)


def modlat() -> Problem:
    model = ModLat(LatentMulticlass(n_states=2, latent_loss="zero_one"), max_iter=1)

    def pieces(parts: list[Any]) -> tuple[Any, Any, dict[str, Any]]:
        return parts[:2], [0, 1], {"latent_features": parts[2:]}

    return trained(model, pieces, [*(rows(k, 2, 3) for k in range(2)), *(rows(k, 2, 2) for k in range(2))], share=0.3)


def alignment() -> Problem:
    model = StructuralSVM(Alignment(alphabet="ARND"), max_iter=1)
    leaves = [np.array([[0, 0], [1, 1], [2, 2]]), np.array([[0, 1], [2, 2]])]
    return trained(model, lambda parts: ([("ARN", "ARD"), ("DNR", "ADR")], parts), leaves)


def pairs() -> Problem:
    return Problem([rows(0, 4, 5)], lambda parts: pair_features(parts[0]))


def shards() -> Problem:
    """Blocks of examples that are put together and written to files."""

    def run(parts: list[Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            data = ShardedData.write(folder, Multiclass(), [(part, [0, 1, 0]) for part in parts], shard_mb=0.001)
            StructuralSVM(Multiclass(), max_iter=1).fit(data)

    return Problem([rows(0, 3, 4), rows(1, 3, 4)], run, share=0.2)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    function.__name__: function
    for function in (
        *(multiclass, latent_rows, latent_matrices, chain, graph, precision, ranking, measure, coreference, clustering),
        *(detection, diversity, candidates, parts_task, examples, matrix_of_examples, own_planes, kernel, modlat),
        *(alignment, pairs, shards),
    )
}


# Processes


def child(names: list[str], mutants: int, seed: int, last: Path) -> None:
    """Run the mutants of some problems; each is named in a file before it runs, results are printed by problem."""
    warnings.simplefilter("ignore")
    with open(last, "wb", buffering=0) as file:
        for name in names:
            outcomes: Counter[str] = Counter()
            findings: Counter[str] = Counter()
            os.pwrite(file.fileno(), f"{name} 0        \n".encode(), 0)
            problem = PROBLEMS[name]()
            limit = 4096 * int(Path("/proc/self/statm").read_text().split()[0]) + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
            for number in range(max(1, round(problem.share * mutants))):
                os.pwrite(file.fileno(), f"{name} {number:9d}\n".encode(), 0)
                try:
                    problem.run(damaged(problem.leaves, np.random.default_rng([seed, number])))
                    outcomes["used"] += 1
                except InputError:
                    outcomes["refused"] += 1
                except Exception as error:
                    trace = error.__traceback__
                    while trace is not None and trace.tb_next is not None:
                        trace = trace.tb_next
                    place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "?"
                    findings[f"{name}: {type(error).__name__} at {place}: {str(error)[:120]} (first: {number})"] += 1
            print(json.dumps({"name": name, "outcomes": outcomes, "findings": findings}), flush=True)


def campaign(names: list[str], mutants: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Run problems in a process of their own; return the numbers of outcomes, and the findings.

    After a crash the problems that are left go on in a new process.
    """
    outcomes: Counter[str] = Counter()
    findings: list[str] = []
    left = list(names)
    while left:
        with tempfile.TemporaryDirectory() as folder:
            last = Path(folder) / "last"
            options = ["--mutants", str(mutants), "--seed", str(seed), "--child", str(last)]
            command = [sys.executable, "-m", "fuzz.matrices", *options, *(f"--problem={name}" for name in left)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            for line in done.stdout.splitlines():
                reported = json.loads(line)
                left.remove(reported["name"])
                outcomes.update(reported["outcomes"])
                findings += [f"{times} × {text}" for text, times in reported["findings"].items()]
            if done.returncode:
                place = last.read_text().strip() if last.exists() else "the start"
                findings.append(f"ended with {done.returncode} at mutant {place}: {done.stderr[-500:]}")
                del left[:1]
    return outcomes, findings


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz.matrices", description=__doc__)
    parser.add_argument("--mutants", type=int, default=MUTANTS, help=f"in all (default: {MUTANTS})")
    parser.add_argument("--problem", action="append", choices=list(PROBLEMS), metavar="NAME", help=", ".join(PROBLEMS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.problem or list(PROBLEMS)
    if arguments.child is not None:
        child(names, arguments.mutants, arguments.seed, arguments.child)
        return
    began = time.perf_counter()
    # Slow problems get fewer, the others more.
    each = -(-arguments.mutants // (len(names) - min(3, len(names) - 1)))
    outcomes, findings = campaign(names, each, arguments.seed)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{sum(outcomes.values())} mutants: {outcomes['used']} used, {outcomes['refused']} refused; ", end="")
    cpu = used.ru_utime + used.ru_stime
    print(f"{len(findings)} kinds of findings; {cpu:.0f} CPU s, {time.perf_counter() - began:.0f} s")
    print("\n".join(findings))
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
