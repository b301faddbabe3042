"""The tutorials: their form, the names they use, and that they run."""

import ast
import os
import re
import runpy
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from latentstruct import CRF, Chain, FeaturePipeline, WindowFeatures
from latentstruct.cli.registry import KINDS
from latentstruct_papers import EXPERIMENTS, datasets

FOLDER = Path(__file__).parent.parent / "examples"
START, APPLICATIONS = (sorted((FOLDER / part).glob("*.py")) for part in ("start", "applications"))
QUICK = ("plot_yeast_motif", "plot_protein_alignment")
needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")
every_script = pytest.mark.parametrize("path", START + APPLICATIONS, ids=lambda path: path.stem)


def imported(path):
    """Return (module, name) of all that a script takes from the library."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("latentstruct", "latentstruct_papers"):
            found += [(node.module, name.name) for name in node.names]
    return found


def run(path, monkeypatch):
    """Run a script and return the titles of its pictures, one list a picture."""
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    pyplot.close("all")
    titles = []

    def show():
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            # Drawing is what finds letters that no font has, and layouts that do not fit.
            figure.canvas.draw()
            above = [figure.get_suptitle(), *(ax.get_title() for ax in figure.axes)]
            titles.append([text for text in above if text])
        pyplot.close("all")

    monkeypatch.setattr(pyplot, "show", show)
    runpy.run_path(str(path))
    assert not pyplot.get_fignums(), "a picture is made but not shown"
    return titles


UNSHOWN_LOADERS = {
    "load_adult",
    "load_caltech_animals",
    "load_letor_ohsumed",
    "load_msrc_animals",
    "load_optdigits",
    "load_protein_structures",
    "load_uci_promoters",
    "load_voc_actions",
    "load_voc_mammals",
}
"""Data sets of the published experiments that are of the same kind as those of a tutorial."""


def test_every_application_has_a_tutorial():
    """A new task is to have one too."""
    used = {name for path in START + APPLICATIONS for module, name in imported(path) if module == "latentstruct"}
    tasks = set(import_module("latentstruct.tasks").__all__) - {"ExampleTask", "PartsTask"}
    assert not tasks - used
    assert (
        not {name for name in datasets.__all__ if name.startswith("load_")}
        - {name for path in APPLICATIONS for _, name in imported(path)}
        - UNSHOWN_LOADERS
    )


@every_script
def test_form(path):
    text = path.read_text()
    _, title, rule, blank, *story = ast.get_docstring(ast.parse(text), clean=False).split("\n")
    assert (path.stem[:5], rule, blank) == ("plot_", "=" * len(title), "")
    assert any(story)
    for above, line in pairwise(line.removeprefix("# ") for line in text.split("\n")):
        assert not re.fullmatch("-{3,}", line) or len(line) == len(above), f"{above!r} needs a rule of its length"
    assert text.count("# %%") >= 4
    assert "plt.show()" in text
    for target in re.findall(r":ref:`sphx_glr_auto_examples_(\w+)_(plot_\w+\.py)`", text):
        assert FOLDER.joinpath(*target).is_file(), target


@every_script
def test_names_exist_and_are_public(path):
    """Code in tutorials is copied: it must not reach into experiments, the command or private parts."""
    names = imported(path)
    assert names
    for module, name in names:
        assert not re.search(r"\._|\.(experiments|cli|kernels)\b", f"{module}.{name}")
        assert hasattr(import_module(module), name), (module, name)


@every_script
def test_commands_it_names_exist(path):
    text = re.sub(r"\n# ", " ", path.read_text())
    assert set(re.findall(r"latentstruct reproduce ([\w-]+)", text)) <= set(EXPERIMENTS)
    assert set(re.findall(r"latentstruct train (\w+)", text)) <= set(KINDS)


@pytest.mark.parametrize("path", APPLICATIONS, ids=lambda path: path.stem)
def test_applications_load_real_data(path):
    assert [name for module, name in imported(path) if module == "latentstruct_papers.datasets"]


@pytest.mark.parametrize("path", START, ids=lambda path: path.stem)
def test_first_steps_run(path, monkeypatch, capsys):
    titles = run(path, monkeypatch)
    assert titles
    assert all(titles), "each picture has a title that says what it shows"
    assert capsys.readouterr().out


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", QUICK)
def test_quick_applications_run(name, monkeypatch, capsys):
    titles = run(FOLDER / "applications" / f"{name}.py", monkeypatch)
    assert titles
    assert all(titles)
    assert capsys.readouterr().out


def test_the_service_labels_texts(tmp_path, monkeypatch):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    X, y = [["Mara", "left", "."]] * 4, [["B-PER", "O", "O"]] * 4
    FeaturePipeline(WindowFeatures(), CRF(Chain())).fit(X, y).save(tmp_path / "tagger")
    monkeypatch.setenv("MODEL", str(tmp_path / "tagger"))
    namespace = runpy.run_path(str(FOLDER / "serving" / "service.py"))
    (found, nothing) = TestClient(namespace["app"]).post("/labels", json={"texts": ["Mara left.", ""]}).json()
    assert [(one["text"], one["start"], one["label"]) for one in found] == [
        ("Mara", 0, "B-PER"),
        ("left", 5, "O"),
        (".", 9, "O"),
    ]
    assert nothing == []
