"""What the README says is run."""

import csv
import re
from pathlib import Path

import pytest

from command import run_line

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_it_is_short():
    assert len(README.splitlines()) <= 120


def test_the_python_example_runs(tmp_path, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "model" / "model.json").exists()
    accuracy = re.search(r"^accuracy (\S+)", capsys.readouterr().out, re.MULTILINE)
    # One of three labels by chance is a third.
    assert float(accuracy[1]) >= 0.6


def test_the_commands_run_in_an_empty_folder(tmp_path):
    commands = re.findall(r"^    (latentstruct .+)$", README, re.MULTILINE)
    assert len(commands) >= 7
    for command in commands:
        run_line(command)
    assert (tmp_path / "motif.html").exists()


def test_what_it_links_to_is_there():
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(linked) >= 4
    assert [name for name in linked if not (ROOT / name).exists()] == []


def test_its_ratios_and_those_of_the_comparison_are_measured_ones():
    """They stand in the results of the benchmarks, or in the row of CoNLL-2000 of the page about speed."""
    with (ROOT / "docs" / "speed.csv").open(encoding="utf-8", newline="") as file:
        measured = [(row["peer"], row["ratio"]) for row in csv.DictReader(file)]
    speed = (ROOT / "docs" / "speed.rst").read_text(encoding="utf-8")
    tables = re.findall(r"- (\d\.\d+);", speed.partition("   * - CoNLL-2000 (")[2].partition("   * - ")[0])
    comparison = (ROOT / "docs" / "comparison.rst").read_text(encoding="utf-8")
    shown = re.findall(r"^\| .+ \| (\w+)[^|]* \| (\d\.\d+) \|$", README, re.MULTILINE)
    # Ranges are those of runs of their own; the page says which rows are single runs.
    shown += re.findall(r"^     - (CRFsuite|torch-struct|liblinear)[^\n]*\n     - (\d\.\d+)$", comparison, re.MULTILINE)
    assert len(shown) >= 6
    for peer, ratio in shown:
        found = [value for other, value in measured if other.startswith(peer)]
        assert ratio in found + tables, (peer, ratio)
