"""Parts of the benchmarks that no other test runs."""

import csv
import importlib
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def benchmarks_found(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1])


@pytest.mark.parametrize("linear", [True, False])
def test_messages_of_the_benchmark_are_sent(linear, monkeypatch):
    """The benchmark calls a kernel as `Propagation` does, and must follow when that changes."""
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


def test_rows_that_are_not_measured_again_stay_in_the_table(tmp_path):
    page, path = importlib.import_module("benchmarks.page"), tmp_path / "speed.csv"

    def suite(day, *lines):
        names = ("what", "peer_name", "ratio", "reached")
        return {"measured": f"{day}T10:00", "lines": [dict(zip(names, line, strict=True)) for line in lines]}

    earlier = {"letters": suite("2026-01-01", ("few", "peer", 0.5, "a"), ("many", "peer", 0.25, "b"))}
    page.write_table(earlier, ("digits", "letters"), path)
    later = {
        "letters": suite("2026-01-02", ("few", "peer", 0.75, "c"), ("few", "limit", 2.0, "d")),
        "digits": suite("2026-01-02", ("all", "target", 1.0, "5 a second")),
    }
    page.write_table(later, ("digits", "letters"), path)
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    assert rows == [
        ["all", "–", "–", "5 a second", "digits, 2026-01-02"],
        ["few", "peer", "0.75", "c", "letters, 2026-01-02"],
        ["many", "peer", "0.25", "b", "letters, 2026-01-01"],
    ]
