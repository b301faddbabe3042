"""The experiments with integer programs and bounds of graphs: small runs on the real data."""

import os

import pytest

from latentstruct_papers import EXPERIMENTS, Setup, certified_graphs, topics

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")


@needs_data
def test_pairs_of_topics():
    lines = []
    findings = topics.run(Setup(quick=True, say=lines.append))
    assert findings.name in EXPERIMENTS
    assert len(lines) == 2
    assert [row[0] for row in findings.tables[0].rows] == [topics.PAIRS, topics.SINGLE]
    assert min(float(row[2]) for row in findings.tables[0].rows) > 0.7


@needs_data
@pytest.mark.parametrize("name", [certified_graphs.SNAKES, certified_graphs.PHOTOGRAPHS])
def test_gaps_are_proved_with_bounds_alone(name):
    found = {way: certified_graphs.measure(name, way, None, quick=True) for way in certified_graphs.WAYS}
    assert {way: one["certified"] for way, one in found.items()} == {"propagation": False, "bounds": True}
    assert 0 <= found["bounds"]["gap"] < 0.3
    chance = 1.0 / 11 if name == certified_graphs.SNAKES else 1.0 / 6
    assert sum(found["bounds"]["right"]) > 1.5 * chance * sum(found["bounds"]["sizes"])
    assert certified_graphs.result_table({(name, way): one for way, one in found.items()}).rows
