import io
import json
import os
import signal
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from error_fields import raises
from latentstruct import InputError, Multiclass, StructuralSVM
from latentstruct.cli import app
from latentstruct_papers import EXPERIMENTS, Experiment, Findings, Table, run_experiment

CELLS = st.one_of(st.none(), st.floats(), st.integers(-(10**9), 10**9), st.text("ab[/]9 ", max_size=5), st.booleans())
PNG = b"\x89PNG"


def draw_line(axes):
    axes.plot([0, 1], [1, 0])


def draw_nothing(axes):
    raise InputError("line", None, "a plot that can be drawn")


def some_findings(**changes):
    table = Table(
        "Table 1",
        ["method", "paper", "found"],
        [["Gibbs", "32.5 %", np.float64(0.30147)], ["ours", None, np.int64(12)]],
        note="ours is better",
    )
    values = {
        "name": "small",
        "title": "Table 1 of nothing",
        "data": "ten points",
        "differs": ["no paper has these figures"],
        "tables": [table],
        "plots": {"line": draw_line},
        "settings": {"C": np.array([1.0, np.inf]), "seed": np.int64(3)},
    }
    return Findings(**(values | changes))


@pytest.fixture
def small(monkeypatch):
    """Register an experiment that is done at once; `run` of the module can be changed."""
    module = ModuleType("small_experiment")

    def run_small(setup):
        setup.say(f"quick is {setup.quick}, data home is {setup.data_home}")
        return some_findings()

    module.run = run_small
    monkeypatch.setitem(sys.modules, "small_experiment", module)
    monkeypatch.setitem(EXPERIMENTS, "small", Experiment("small_experiment", "a small one", ("points",)))
    return module


def reproduce(*args, code=0):
    result = CliRunner().invoke(app, ["reproduce", *map(str, args)])
    assert result.exit_code == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result


def test_findings_are_saved_with_everything(tmp_path):
    files = some_findings().save(tmp_path / "results")
    assert [path.name for path in files] == ["small.json", "small.txt", "small.html", "small-line.png"]
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == sorted(path.name for path in files)
    saved = json.loads(files[0].read_text())
    assert saved["tables"][0]["rows"] == [["Gibbs", "32.5 %", 0.30147], ["ours", None, 12]]
    assert saved["settings"] == {"C": [1.0, None], "seed": 3}
    assert saved["plots"] == ["small-line.png"]
    assert {"python", "latentstruct", "numpy"} <= set(saved["versions"])
    text = files[1].read_text()
    for shown in ("Table 1 of nothing", "ten points", "no paper has these figures", "32.5 %", "0.3015", "–", "better"):
        assert shown in text
    assert files[2].read_bytes().startswith(b"<!doctype html>")
    assert files[3].read_bytes().startswith(PNG)


def test_a_plot_that_fails_leaves_earlier_files(tmp_path):
    some_findings().save(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with raises("line", expected="can be drawn"):
        some_findings(title="Another", plots={"line": draw_nothing}).save(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=4))
def test_tables_show_and_keep_any_cell(rows):
    table = Table("a [title]", ["a", "b", "c"], rows)
    stream = io.StringIO()
    table.show(Console(width=20, file=stream))
    assert "a [title]" in stream.getvalue()
    kept = json.loads(json.dumps(table.to_dict(), allow_nan=False))["rows"]
    for row, found in zip(rows, kept, strict=True):
        for cell, value in zip(row, found, strict=True):
            finite = not isinstance(cell, float) or np.isfinite(cell)
            assert value == (cell if finite else None)


def test_table_with_a_missing_cell():
    with raises("rows", got="row 2 with 1 cells in 'odd'"):
        Table("odd", ["a", "b"], [[1, 2], [3]])


def test_experiments_are_run_by_name(small, capsys):
    findings = run_experiment("small", quick=True)
    assert findings.seconds > 0
    assert capsys.readouterr().out == "quick is True, data home is None\n"
    with raises("name", expected="one of lssvm-motif"):
        run_experiment("large")


def test_reproduce_writes_and_shows(small, tmp_path):
    result = reproduce("small", "--quick", "--data-home", tmp_path, "-o", tmp_path / "out")
    assert f"quick is True, data home is {tmp_path}" in result.stderr
    assert f"wrote {tmp_path / 'out' / 'small.json'}" in result.stderr
    assert "Table 1 of nothing" in result.stdout
    assert (tmp_path / "out" / "small-line.png").read_bytes().startswith(PNG)


def test_reproduce_as_json(small, tmp_path):
    result = reproduce("small", "-o", tmp_path / "out", "--json", "-q")
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert found["name"] == "small"
    assert found["seconds"] > 0
    assert found["files"][0] == str(tmp_path / "out" / "small.json")


def test_experiments_are_listed(small):
    text = reproduce("--list").stdout
    assert all(name in text for name in EXPERIMENTS)
    listed = json.loads(reproduce("--list", "--json").stdout)["experiments"]
    assert [one["name"] for one in listed] == list(EXPERIMENTS)
    assert listed[-1]["data"] == ["points"]


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "latentstruct_papers", "--list", "--json"], capture_output=True, text=True, timeout=600
    )
    assert [one["name"] for one in json.loads(done.stdout)["experiments"]] == list(EXPERIMENTS)


def test_missing_experiments_say_how_to_get_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "latentstruct_papers", None)
    result = reproduce("small", code=2)
    assert "latentstruct-papers" in result.stderr
    assert "pip install ./papers" in result.stderr


def test_mistakes_are_named_before_anything_runs(small, tmp_path):
    assert "got 'large'" in reproduce("large", code=2).stderr
    assert "got nothing" in reproduce(code=2).stderr
    file = tmp_path / "file"
    file.write_text("mine")
    assert "is a file" in reproduce("small", "-o", file, code=2).stderr


@pytest.mark.parametrize("name", ["lssvm-motif", "lssvm-coref", "lssvm-precision", "lssvm-iterations"])
def test_missing_data_is_one_line(name, tmp_path):
    result = reproduce(name, "--data-home", tmp_path, "-o", tmp_path / "out", "-q", code=2)
    assert len(result.stderr.splitlines()) == 1
    assert "a file of the data set" in result.stderr
    assert not (tmp_path / "out").exists()


def test_interrupted_experiment_writes_nothing(small, tmp_path):
    went_on = []

    def train(setup):
        model = StructuralSVM(Multiclass(), tol=1e-12)
        model.fit(np.eye(3), [0, 1, 2], callback=lambda _: os.kill(os.getpid(), signal.SIGINT))
        went_on.append(model)
        return some_findings()

    small.run = train
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = reproduce("small", "-o", tmp_path / "out", code=130)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.stderr == "interrupted: nothing was written\n"
    assert not went_on
    assert not (tmp_path / "out").exists()


def test_tables_are_not_cut_where_no_terminal_limits_them():
    stream = io.StringIO()
    columns = ["model", *(f"column {k}" for k in range(12))]
    Table("wide", columns, [["a long name of a model", *[0.125] * 12]]).show(Console(file=stream, width=80))
    assert "a long name of a model" in stream.getvalue()
    assert "column 11" in stream.getvalue()
