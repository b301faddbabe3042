"""Completion in shells: names of commands, kinds, options, choices, experiments and tasks."""

import os
import subprocess
import sys
from typing import get_args

import pytest
from typer.testing import CliRunner

from latentstruct.cli import app
from latentstruct.cli.options import SolverName
from latentstruct.cli.registry import KINDS
from latentstruct_papers import EXPERIMENTS

PROGRAM = """#!{python}
import sys
from typing import get_args
sys.argv[0] = "latentstruct"
from latentstruct.cli import main
try:
    main()
finally:
    heavy = [name for name in ("numpy", "matplotlib") if name in sys.modules]
    assert not heavy, heavy
"""


def ask(instruction, **words):
    """Ask as the script of a shell does."""
    result = CliRunner().invoke(app, env={"_LATENTSTRUCT_COMPLETE": instruction, **words})
    assert result.exit_code == 0, result.output
    return result.stdout


def complete(line):
    """Return what bash is offered for the last word of a line."""
    words = line.split(" ")
    return ask("complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)).split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("latentstruct tr", ["train"]),
        ("latentstruct train ", list(KINDS)),
        ("latentstruct train c", [name for name in KINDS if name.startswith("c")]),
        ("latentstruct train chain data.txt --max-", ["--max-iter", "--max-seconds"]),
        ("latentstruct train chain --solver ", list(get_args(SolverName))),
        ("latentstruct train chain --model=p", ["perceptron"]),
        ("latentstruct train graph --model h", ["hidden-crf"]),
        ("latentstruct reproduce groupnorm", [name for name in EXPERIMENTS if name.startswith("groupnorm")]),
        ("latentstruct example mo", ["motif"]),
        ("latentstruct tasks inf", ["infer"]),
        ("latentstruct infer --task M", ["MAR", "MAP", "MMAP"]),
        ("latentstruct info --con", ["--config"]),
        ("latentstruct train chain no", []),  # the shell offers files
        ("latentstruct predict ", []),
        ("latentstruct train chain --config no", []),
    ],
)
def test_bash_is_offered_what_fits(line, expected):
    assert complete(line) == expected


def test_zsh_and_fish_are_offered_names_with_what_they_mean():
    assert '"lssvm-motif":"Latent SSVM, table 1' in ask(
        "complete_zsh", _TYPER_COMPLETE_ARGS="latentstruct reproduce ls"
    )
    fish = {"_TYPER_COMPLETE_ARGS": "latentstruct train mot", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    assert ask("complete_fish", **fish).startswith("motif\tFind a motif")


@pytest.mark.parametrize(
    ("shell", "mark"),
    [("bash", "complete -o default -F"), ("zsh", "#compdef latentstruct"), ("fish", "complete --command latentstruct")],
)
def test_scripts_for_shells(shell, mark):
    script = ask(f"source_{shell}")
    assert mark in script
    assert f"complete_{shell}" in script
    assert "_LATENTSTRUCT_COMPLETE" in script


def test_the_script_works_in_bash_and_loads_nothing_heavy(tmp_path):
    program = tmp_path / "latentstruct"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    shell = (
        f"{ask('source_bash')}\n"
        "COMP_WORDS=(latentstruct reproduce lssvm-p); COMP_CWORD=2\n"
        "_latentstruct_completion latentstruct\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, env=env, timeout=600)
    assert done.stdout == "lssvm-precision\n"
    assert done.stderr == ""
