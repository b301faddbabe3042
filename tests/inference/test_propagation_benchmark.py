"""The benchmark of messages calls a kernel as `Propagation` does, and must follow when that changes."""

import importlib
from pathlib import Path

import numpy as np
import pytest


@pytest.mark.parametrize("linear", [True, False])
def test_messages_of_the_benchmark_are_sent(linear, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    benchmark = importlib.import_module("benchmarks.propagation")
    monkeypatch.setattr(benchmark, "SIDE", 3)
    sent, inner = [], benchmark.run_pairwise

    def run_pairwise(wiring, selected, wanted, unary, tables, messages, *rest):
        inner(wiring, selected, wanted, unary, tables, messages, *rest)
        sent.append(np.abs(messages).max())

    monkeypatch.setattr(benchmark, "run_pairwise", run_pairwise)
    structure, rng = benchmark.grid(), np.random.default_rng(0)
    unary, tables = rng.normal(size=structure.state_at[-1]), rng.normal(size=structure.table_at[-1])
    assert np.isfinite(benchmark.seconds_a_message(structure, unary, tables, linear, repeats=1))
    assert min(sent) > 0.0
