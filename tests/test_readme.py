"""What the README says is run."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from latentstruct.cli import app

README = Path(__file__).parents[1] / "README.md"


def test_the_python_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 2
    for code in examples:
        exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "model" / "model.json").exists()
    shown = capsys.readouterr().out
    assert "was planted" in shown
    assert "accuracy 0.9" in shown or "accuracy 1.0" in shown


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentence = "the DT B-NP\ncat NN I-NP\nsat VBD B-VP\n\na DT B-NP\ndog NN I-NP\nran VBD B-VP\n\n"
    (tmp_path / "train.txt").write_text(sentence * 5)
    (tmp_path / "test.txt").write_text(sentence)
    (tmp_path / "untagged.txt").write_text(re.sub(r" \S+$", "", sentence, flags=re.MULTILINE))
    rng = np.random.default_rng(0)
    random_dna = ["".join(rng.choice(list("ACGT"), 40)) for _ in range(24)]
    bound = [x[:10] + "GATTACAG" + x[10:] for x in random_dna[:12]]
    for name, sequences in (("bound", bound), ("unbound", random_dna[12:]), ("new", bound[:3])):
        (tmp_path / f"{name}.fa").write_text("".join(f">{name}{i}\n{x}\n" for i, x in enumerate(sequences)))
    document = (
        "#begin document (d); part 000\n"
        "d 0 0 Anna x (0)\nd 0 1 met x -\nd 0 2 Bob x (1)\n\nd 0 0 She x (0)\nd 0 1 saw x -\nd 0 2 him x (1)\n\n"
        "#end document\n"
    )
    for name in ("train.conll", "new.conll"):
        (tmp_path / name).write_text(document)
    queries = [
        f"{int(value > 0.5)} qid:{q} 1:{value:.3f} 2:{rng.random():.3f}\n"
        for q in range(1, 7)
        for value in rng.random(8)
    ]
    (tmp_path / "queries.txt").write_text("".join(queries))
    (tmp_path / "data.svm").write_text("1 1:1.0 2:0.5\n2 1:-1.0\n1 1:0.8 2:0.1\n2 1:-0.7 2:0.2\n")


def test_the_commands_run(files):
    text = README.read_text(encoding="utf-8")
    commands = re.findall(r"^    latentstruct (.+)$", text, re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, (command, result.output)
