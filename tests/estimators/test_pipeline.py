"""From an empty folder to a page with predictions: the same five lines for every task."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from command import COMMAND, run
from latentstruct.cli.registry import KINDS
from latentstruct.cli.tasks import guide_to_kind
from latentstruct.viz.report import page, pictures

SECTIONS = ("Summary", "Predictions", "Weights", "Timing", "Training")

# A figure of each task's evaluation, and a value that guessing stays far below.
MEASURES = {
    "chain": (lambda scores: scores["chunks"]["f1"], 0.6),
    "segments": (lambda scores: scores["f1"], 0.8),
    "classes": (lambda scores: scores["accuracy"], 0.7),
    "motif": (lambda scores: scores["auc"], 0.9),
    "coreference": (lambda scores: scores["muc"]["f1"], 0.7),
    "rank": (lambda scores: scores["average_precision"], 0.7),
    "segment": (lambda scores: scores["mean_iou"], 0.7),
    "detect": (lambda scores: scores["corloc"], 0.6),
    "graph": (lambda scores: scores["accuracy"], 0.7),
    "measure": (lambda scores: scores["f1"], 0.7),
    "align": (lambda scores: scores["q"]["0"], 0.8),
    "parse": (lambda scores: scores["f1"], 0.8),
    "diverse": (lambda scores: scores["random_loss"] - scores["loss"], 0.05),
    "cluster": (lambda scores: scores["pairs"]["f1"], 0.7),
    "program": (lambda scores: scores["f1"], 0.7),
}


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def contents(path):
    """Return the bytes of a file, or of all files of a folder by their names."""
    if path.is_file():
        return path.read_bytes()
    return {file.relative_to(path): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("task", KINDS)
def test_five_lines_lead_from_nothing_to_a_page(task, empty, monkeypatch):
    guide = guide_to_kind(task)
    example, train, predict, evaluate, report = (line.split()[1:] for line in guide.commands)
    assert example[-2:] == [">", guide.example_file]
    data = run(*example[:-2]).stdout_bytes
    (empty / guide.example_file).write_bytes(data)

    with monkeypatch.context() as patch:
        # The plots of both pages are the same, and take longer than all the rest.
        patch.setattr(page, "draw_svg", lambda drawing, prefix: pictures.Picture(("<svg></svg>",), True))
        assert "warning" not in run(*train, "--report", "training.html").stderr
    run(*predict)
    assert contents(empty / predict[-1])
    scores = json.loads(run(*evaluate, "--json").stdout)
    figure, guessing = MEASURES[task]
    assert figure(scores) > guessing
    run(*report)
    for name in ("training.html", "report.html"):
        text = (empty / name).read_text(encoding="utf-8")
        assert [title for title in SECTIONS if f">{title}</h2>" not in text] == []
        assert guide.example_file in text

    # Standard input says the same as the file.
    again = empty / f"again{Path(predict[-1]).suffix}"
    run("predict", "model", "-", "-o", again, stdin=data)
    assert contents(again) == contents(empty / predict[-1])
    piped = json.loads(run("evaluate", "model", "-", "--json", stdin=data).stdout)
    assert {**piped, "data": None} == {**scores, "data": None}


def test_an_archive_goes_through_a_pipe(empty):
    # Standard input has no name that could tell what it is.
    latentstruct = shlex.join([sys.executable, "-c", COMMAND])
    line = f"{latentstruct} example segment | {latentstruct} train segment - -o model --max-iter 1 --quiet --json"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "segment"
    assert (empty / "model" / "model.json").exists()
