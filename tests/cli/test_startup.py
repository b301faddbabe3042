"""What is loaded before it is needed: nothing."""

import json
import subprocess
import sys

import numpy as np
import pytest

from command import run
from latentstruct import Multiclass, StructuralSVM
from latentstruct.cli.registry import KINDS

NEVER = ("matplotlib", "skimage", "torch", "dask", "jinja2", "PIL", "playwright", "sphinx", "IPython")
HEAVY = ("numpy", "scipy", "sklearn")
SLOW = ("sklearn", "scipy.stats", "scipy.optimize", "scipy.linalg", "scipy.ndimage")
COMMAND = (
    "sys.argv = ['latentstruct', {}]\nfrom latentstruct.cli import main\ntry: main()\nexcept SystemExit as end:\n"
    "    assert not end.code, end.code\n"
)
HELP = COMMAND.format("'--help'")


def loaded_by(code):
    """Return the modules that a new process loads for some code."""
    code = f"import json, sys\n{code}\nprint()\nprint(json.dumps(list(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(shown.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import latentstruct", NEVER + HEAVY),
        (HELP, NEVER + HEAVY),
        (HELP.replace("'--help'", "'train', '--help'"), NEVER + HEAVY),
        (COMMAND.format("'tasks'"), NEVER + HEAVY),
        ("from latentstruct import *", (*NEVER, "scipy", "sklearn")),
        ("import latentstruct.viz.plots, latentstruct_papers.datasets, latentstruct.datasets, latentstruct.io", NEVER),
    ],
    ids=["library", "help", "help of trainings", "tasks", "all names", "rooms"],
)
def test_nothing_is_loaded_before_it_is_needed(code, unwanted):
    assert loaded_by(code) & set(unwanted) == set()


def test_loading_and_predicting_need_neither_scipy_nor_scikit_learn(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    StructuralSVM(Multiclass(), tol=0.1).fit(rng.normal(size=(60, 4)) + np.eye(4)[y], y).save(tmp_path / "model")
    code = f"import numpy, latentstruct\nlatentstruct.load({str(tmp_path / 'model')!r}).predict(numpy.zeros((2, 4)))"
    loaded = loaded_by(code)
    assert loaded & {*NEVER, "scipy", "sklearn"} == set()
    # Neither are other structures and solvers.
    assert loaded & {"latentstruct.tasks.chain.task", "latentstruct.solvers.bundle", "latentstruct.io.fasta"} == set()


def test_training_needs_neither_scipy_nor_scikit_learn():
    code = (
        "import numpy as np\nfrom latentstruct import CRF, Multiclass, StructuralSVM\n"
        "X = np.random.default_rng(0).normal(size=(60, 4)); y = np.arange(60) % 3; X[np.arange(60), y] += 2.0\n"
        "for estimator in (StructuralSVM, CRF): estimator(Multiclass(), tol=0.1).fit(X, y)"
    )
    assert loaded_by(code) & {*NEVER, "scipy", "sklearn"} == set()


@pytest.mark.parametrize("kind", ["chain", "classes", "motif"])
def test_commands_that_use_a_model_load_neither_scikit_learn_nor_large_parts_of_scipy(kind, tmp_path):
    data, model = str(tmp_path / KINDS[kind].example_file), str(tmp_path / "model")
    run("example", kind, "-o", data)
    run("train", kind, data, "-o", model, "--tol", "0.1", "--quiet")
    for command in (
        ["predict", model, data, "-o", str(tmp_path / "found")],
        ["evaluate", model, data],
        ["info", model],
    ):
        loaded = loaded_by(COMMAND.format(", ".join(map(repr, command))))
        assert loaded & {*NEVER, *SLOW} == set(), command


def test_inference_loads_neither_scikit_learn_nor_large_parts_of_scipy(tmp_path):
    data = str(tmp_path / "model.uai")
    run("example", "infer", "-o", data)
    assert loaded_by(COMMAND.format(f"'infer', {data!r}, '--task', 'MAR'")) & {*NEVER, *SLOW} == set()
