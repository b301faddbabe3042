"""Trials: resumed from a file, run in several processes, refused where they belong to something else."""

import json
import sys
import time
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from error_fields import raises
from latentstruct.cli import app
from latentstruct.exceptions import FormatError, InputError
from latentstruct_papers import EXPERIMENTS, Experiment, Findings, Trials, run_experiment

CALLS = []


def square(k, shift=0):
    """A trial; works hard enough to be seen by the clock of the processor."""
    CALLS.append(k)
    if k == "fail":
        raise RuntimeError("interrupted")
    until = time.process_time() + 0.005
    while time.process_time() < until:
        pass
    return {"value": k * k + shift}


def quiet(line):
    pass


def show(arguments, result):
    return f"{arguments[0]} gives {result['value']}"


def run(trials, arguments, say=quiet):
    return trials.run(square, arguments, say, "squares", show)


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


def test_results_have_the_order_of_the_arguments():
    said = []
    assert [one["value"] for one in run(Trials(), [(3,), (1, 4), (2,)], said.append)] == [9, 5, 4]
    assert [line.split(": ")[1] for line in said] == ["3 gives 9", "1 gives 5", "2 gives 4"]


@given(st.lists(st.integers(-9, 9), unique=True, min_size=1, max_size=6), st.data())
def test_finished_trials_are_not_run_again(tmp_path_factory, numbers, data):
    path = tmp_path_factory.mktemp("trials") / "file"
    CALLS.clear()
    n_first = data.draw(st.integers(0, len(numbers)))
    first = Trials("squares", path)
    with pytest.raises(RuntimeError):
        run(first, [*((k,) for k in numbers[:n_first]), ("fail",)])
    assert [*numbers[:n_first], "fail"] == CALLS
    # A line that was cut off is run again.
    with path.open("a") as file:
        file.write('{"trial": ["squa')
    CALLS.clear()
    second = Trials("squares", path)
    assert [one["value"] for one in run(second, [(k,) for k in numbers])] == [k * k for k in numbers]
    assert numbers[n_first:] == CALLS
    assert second.cpu_seconds >= 0.005 * len(numbers)
    assert second.own_seconds <= second.cpu_seconds
    CALLS.clear()
    assert len(run(Trials("squares", path), [(k,) for k in numbers])) == len(numbers)
    assert CALLS == []


def test_several_processes_give_the_same(tmp_path):
    arguments = [(k,) for k in range(6)]
    trials = Trials("squares", tmp_path / "file", jobs=2)
    assert run(trials, arguments) == run(Trials(), arguments)
    assert trials.own_seconds == 0
    assert trials.cpu_seconds >= 0.005 * 6
    assert len((tmp_path / "file").read_text().splitlines()) == 7


def test_numbers_of_numpy_are_kept(tmp_path):
    for _ in range(2):
        assert run(Trials("squares", tmp_path / "file"), [(np.int64(3),)]) == [{"value": 9}]
    assert len(CALLS) == 1


def test_a_file_of_other_trials_is_refused(tmp_path):
    path = tmp_path / "file"
    run(Trials("squares", path), [(1,)])
    with pytest.raises(InputError) as caught:
        Trials("cubes", path)
    assert (caught.value.parameter, caught.value.got) == ("checkpoint", "squares")
    path.write_text("something else\n")
    with raises(file="file", expected="finished trials"):
        Trials("squares", path)
    assert path.read_text() == "something else\n"
    with pytest.raises(FormatError):
        Trials("squares", tmp_path / "none" / "file")
    for jobs in (0, 1.5, True):
        with raises("jobs", expected="a positive integer"):
            Trials(jobs=jobs)


@pytest.fixture
def in_trials(monkeypatch):
    """Register an experiment in trials."""
    module = ModuleType("square_experiment")

    def run_squares(setup):
        found = run(setup.trials, [(k,) for k in range(2 if setup.quick else 4)], setup.say)
        return Findings("squares", "Squares", f"{len(found)} numbers")

    module.run = run_squares
    monkeypatch.setitem(sys.modules, "square_experiment", module)
    monkeypatch.setitem(EXPERIMENTS, "squares", Experiment("square_experiment", "squares", (), in_trials=True))


def test_an_experiment_resumes(in_trials, tmp_path):
    args = ["reproduce", "squares", "-o", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "file")]
    for n_calls in (4, 0):
        CALLS.clear()
        result = CliRunner().invoke(app, args)
        assert result.exit_code == 0, result.stderr
        assert len(CALLS) == n_calls
        found = json.loads((tmp_path / "out" / "squares.json").read_text())
        # The time of trials that were run earlier counts too.
        assert found["cpu_seconds"] >= 0.02
        assert (found["command"], found["quick"]) == ("latentstruct reproduce squares", False)
    result = CliRunner().invoke(app, [*args, "--quick"])
    assert result.exit_code == 2
    assert "--checkpoint must be a file of 'squares, quick', got 'squares'" in result.stderr


def test_other_experiments_refuse_options_of_trials(tmp_path):
    for option, value in (("checkpoint", str(tmp_path / "file")), ("jobs", 2)):
        with pytest.raises(InputError) as caught:
            run_experiment("snakes", say=quiet, **{option: value})
        assert caught.value.parameter == option
        assert "mssvm-table2" in caught.value.hint
    assert not (tmp_path / "file").exists()
