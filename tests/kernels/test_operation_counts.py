"""The work of fixed small problems, by counts of operations instead of seconds."""

import importlib
from pathlib import Path

import pytest

from latentstruct import Chain, StructuralSVM


@pytest.fixture(scope="module")
def counts():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2])
        yield importlib.import_module("benchmarks.counts")


def test_no_problem_takes_twice_the_work_that_was_written_down(counts):
    """Solvers go another way when last digits differ, as between processors, so that only large growth tells."""
    expected, reported = counts.expected_counts(), []
    problems = counts.problems()
    assert problems.keys() == expected.keys()
    for name, fit in problems.items():
        reported += counts.differences(name, counts.count(fit), expected[name], growth=1.0, fall=1.0)
    assert not reported, "\n".join([*reported, "if that is meant: python -m benchmarks counts --write"])


def test_differences_tell_growth_and_decline(counts):
    expected = {"oracle calls": (900, 1000), "iterations": (45, 50)}
    assert not counts.differences("it", {"oracle calls": 1090, "iterations": 54}, expected)
    assert not counts.differences("it", {"oracle calls": 700, "iterations": 40}, expected)
    assert counts.differences("it", {"oracle calls": 1101, "iterations": 50}, expected) == [
        "it: oracle calls grew from 1000 to 1101"
    ]
    assert counts.differences("it", {"oracle calls": 600, "iterations": 50}, expected) == [
        "it: oracle calls fell from 900 to 600"
    ]
    # What was not counted before is new work, what is not counted any more is less.
    assert counts.differences("it", {"oracle calls": 1000, "iterations": 50, "messages": 3}, expected)
    assert counts.differences("it", {"iterations": 50}, expected)


def test_counts_are_those_of_the_model_and_of_its_data(counts):
    X, Y = counts.chains()
    model = StructuralSVM(Chain(), C=0.5, tol=counts.TOL)
    found = counts.count(lambda: model.fit(X, Y))
    assert found["oracle calls"] == model.n_oracle_calls_
    tokens = sum(map(len, Y))
    # The oracle is called equally often for all sequences: clamped once, and augmented in each iteration.
    assert found["tokens"] == tokens * (1 + model.n_oracle_calls_ / len(X))
    assert found["planes kept"] >= 2 * len(X)
    # Counting leaves nothing behind.
    calls = model.n_oracle_calls_
    assert StructuralSVM(Chain(), C=0.5, tol=counts.TOL).fit(X, Y).n_oracle_calls_ == calls
