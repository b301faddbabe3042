"""Compilation where nothing can be written, and after sources have changed."""

import os
import subprocess
import sys

import numba
import pytest

from latentstruct.kernels import jit


def add_one(x):
    return x + 1


@pytest.mark.parametrize("decorator", [jit.njit, jit.inlined])
def test_a_read_only_installation_still_works(decorator, monkeypatch):
    ordinary = numba.njit
    ordinary(add_one)(1)  # what numba itself compiles when first used must not meet the stand-in

    def refuse_cache(**options):
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function 'add_one': no locator available for file")
        return ordinary(**options)

    monkeypatch.setattr(jit.numba, "njit", refuse_cache)
    assert decorator(add_one)(1) == 2


def test_other_failures_are_not_hidden(monkeypatch):
    def fail(**options):
        raise RuntimeError("out of registers")

    monkeypatch.setattr(jit.numba, "njit", fail)
    with pytest.raises(RuntimeError, match="registers"):
        jit.njit(add_one)


CALLER = """
from latentstruct.kernels.jit import njit
from latentstruct.kernels.{callee} import step


@njit
def climb(x):
    return step(x)
"""
CALLEE = """
from latentstruct.kernels.jit import njit


@njit
def step(x):
    return x + {height}
"""


def test_machine_code_is_made_anew_where_a_called_kernel_has_changed(tmp_path):
    """With the times of files as an upgrade may leave them: those of the caller are the same."""
    script = (
        "import sys; import latentstruct.kernels as k; k.__path__.append(sys.argv[1]);"
        "import latentstruct.kernels.jit as jit; from pathlib import Path; jit.HERE = Path(sys.argv[1]);"
        "from latentstruct.kernels.caller import climb; print(climb(1.0), sum(climb.stats.cache_hits.values()))"
    )
    (tmp_path / "caller.py").write_text(CALLER.format(callee="callee"))
    found = []
    for height in (1.0, 1.0, 20.0):
        (tmp_path / "callee.py").write_text(CALLEE.format(height=height))
        os.utime(tmp_path / "callee.py", (height, height))
        run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
        found.append(run.stdout.split())
    assert found == [["2.0", "0"], ["2.0", "1"], ["21.0", "0"]]


def test_digest_follows_imports(tmp_path):
    (tmp_path / "own.py").write_text("from latentstruct.kernels.forest import forests\n")
    (tmp_path / "alone.py").write_text("import numpy\n")
    digests = [jit.sources_digest(str(tmp_path / name)) for name in ("own.py", "alone.py", "none.py")]
    assert len(set(digests)) == 3
    assert jit.IMPORTED.findall((jit.HERE / "sparse.py").read_text()) == ["jit", "planes"]
