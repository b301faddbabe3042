"""What cannot fit into memory is refused before it is allocated, with the figures and the likely cause."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from command import fail
from error_fields import raises
from latentstruct import Chain, Measure, Motif, Multiclass, PairwiseRanking, ShardedData, StructuralSVM
from latentstruct.core import memory

SMALL = 2.0**30


@pytest.fixture
def small(monkeypatch):
    """Let a GiB be available, whatever the machine has."""
    monkeypatch.setattr(memory, "available", lambda: SMALL)


def wide(n, d=10**9):
    return sparse.csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, d))


@pytest.mark.parametrize(
    ("task", "X", "Y"),
    [
        (Multiclass(), wide(4), [0, 1, 0, 1]),
        (PairwiseRanking(), [wide(3)], [[0, 1, 2]]),
        (Measure("f1"), wide(4, 10**8), [0, 1, 0, 1]),
        (Chain(), [wide(3)], [["a", "b", "a"]]),
    ],
)
def test_weights_are_refused_before_they_are_allocated(small, task, X, Y):
    with raises("X", got="weights", expected="available memory (1.0 GiB)", hint="largest feature index"):
        StructuralSVM(task).fit(X, Y)


@pytest.mark.parametrize("task", [Chain(), Multiclass()])
def test_many_labels_ask_for_the_label_column(small, task):
    labels = [f"word{k}" for k in range(26_099)]
    X = sparse.csr_array((len(labels), 2))
    data = ([X], [labels]) if isinstance(task, Chain) else (X, labels)
    with raises("Y", got="26099 labels", hint="the right column"):
        StructuralSVM(task).fit(*data)


def test_a_long_sequence_is_refused(small):
    task = Motif(5)
    task.learn(["ACGTACGT", "TTTTTTTT"], [1, -1])
    with raises("X", got="30000000 of them in one sequence (1.2 GiB)", hint="Split long sequences"):
        task.prepare(["ACGT", "A" * 30_000_000])


def test_prepared_data_that_claim_many_inputs_are_refused(small, tmp_path):
    data = ShardedData.write(tmp_path, Multiclass(), [(wide(4, 5), [0, 1, 0, 1])])
    listed = (tmp_path / "data.json").read_text()
    assert listed.count('["n_inputs",5]') == 1
    (tmp_path / "data.json").write_text(listed.replace('["n_inputs",5]', f'["n_inputs",{2**31}]'))
    with raises("X", got="weights"):
        StructuralSVM(data.task).fit(ShardedData(tmp_path))


def test_a_large_shard_is_refused(tmp_path, monkeypatch):
    data = ShardedData.write(tmp_path, Multiclass(), [(np.ones((40_000, 4)), np.arange(40_000) % 2)])
    monkeypatch.setattr(memory, "available", lambda: 1000.0)
    with raises(hint="smaller `shard_mb`"):
        data.open(0)


def test_small_amounts_do_not_ask_the_system(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: pytest.fail("called"))
    memory.require(1000, "X", "this", "Use less.")


LIMITED = """
import resource
from latentstruct.core import memory
before = memory.available()
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 2**28, resource.RLIM_INFINITY))
print(before > 0, memory.available() <= 2**28)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sizes of the process are read from /proc")
def test_limits_of_the_process_count():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_the_lowest_limit_counts(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 4096 kB\nSwapFree: 1024 kB\n")
    (tmp_path / "limit").write_text("3000000\n")
    (tmp_path / "none").write_text("max\n")
    (tmp_path / "statm").write_text("500 100 0\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_STATM", tmp_path / "statm")
    monkeypatch.setattr(memory, "resource", None)
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (tmp_path / "none", tmp_path / "missing"))
    assert memory.available() == 5120 * 1024
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (tmp_path / "limit",))
    assert memory.available() < 3_000_000


def test_a_shard_that_is_cut_short_in_use_is_one_line_of_error(tmp_path):
    blocks = [(np.random.default_rng(k).normal(size=(300, 50)), np.arange(300) % 2) for k in range(4)]
    data = ShardedData.write(tmp_path, Multiclass(), blocks, shard_mb=0.1)
    data = ShardedData(tmp_path, open_mb=0)
    first, *_ = (data.batches[k] for k in range(len(data.sizes)))

    def cut(line):
        for path in tmp_path.glob("shard-*"):
            with open(path, "rb+") as file:
                file.truncate(1000)

    with raises(file=".safetensors", got="1000 bytes", expected=" bytes"):
        StructuralSVM(data.task).fit(data, callback=cut)
    # What was read before belongs to the process.
    assert np.isfinite(first.inputs.matrix).all()


def test_the_command_refuses_in_one_line(small, tmp_path):
    wide_file, tokens = tmp_path / "wide.svm", tmp_path / "tokens.txt"
    wide_file.write_text("1 1:1 1000000000:1\n-1 2:1\n")
    assert "2000000002 weights (89.4 GiB)" in fail("train", "classes", wide_file, "-o", tmp_path / "model")
    tokens.write_text("".join(f"word{k} A\n" for k in range(26_099)))
    refused = fail("train", "chain", tokens, "--label-column", 0, "-o", tmp_path / "model")
    assert "26099 labels" in refused
    assert "the right column" in refused
    assert not (tmp_path / "model").exists()
