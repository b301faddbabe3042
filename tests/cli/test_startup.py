"""What is loaded before it is needed: nothing."""

import json
import subprocess
import sys

import pytest

NEVER = ("matplotlib", "skimage", "torch", "dask", "jinja2", "PIL", "playwright", "sphinx", "IPython")
HEAVY = ("numpy", "scipy", "sklearn", "numba")
HELP = (
    "sys.argv = ['latentstruct', '--help']\nfrom latentstruct.cli import main\ntry: main()\nexcept SystemExit: pass\n"
)


def loaded_by(code):
    """Return the modules that a new process loads for some code."""
    code = f"import json, sys\n{code}\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(shown.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import latentstruct", NEVER + HEAVY),
        (HELP, NEVER + HEAVY),
        (HELP.replace("'--help'", "'train', '--help'"), NEVER + HEAVY),
        ("from latentstruct import *", NEVER),
        ("import latentstruct.viz.plots, latentstruct_papers, latentstruct.datasets, latentstruct.io", NEVER),
    ],
    ids=["library", "help", "help of trainings", "all names", "rooms"],
)
def test_nothing_is_loaded_before_it_is_needed(code, unwanted):
    assert loaded_by(code) & set(unwanted) == set()
