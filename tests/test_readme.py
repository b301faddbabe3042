"""What the README says is run."""

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
