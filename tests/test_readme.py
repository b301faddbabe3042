"""What the README says is run."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from latentstruct.cli import app

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "model" / "model.json").exists()
    assert "0.9" in capsys.readouterr().out


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentence = "the DT B-NP\ncat NN I-NP\nsat VBD B-VP\n\na DT B-NP\ndog NN I-NP\nran VBD B-VP\n\n"
    (tmp_path / "train.txt").write_text(sentence * 5)
    (tmp_path / "test.txt").write_text(sentence)
    (tmp_path / "new.txt").write_text(re.sub(r" \S+$", "", sentence, flags=re.MULTILINE))
    (tmp_path / "data.svm").write_text("1 1:1.0 2:0.5\n2 1:-1.0\n1 1:0.8 2:0.1\n2 1:-0.7 2:0.2\n")


def test_the_commands_run(files):
    text = README.read_text(encoding="utf-8")
    commands = re.findall(r"^    latentstruct (.+)$", text, re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, (command, result.output)
