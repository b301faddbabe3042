"""Every kind of model: from its example to predictions, and files that it cannot use."""

import os
import re

import pytest

from command import fail, run
from latentstruct.cli.registry import KINDS
from latentstruct.cli.tasks import find_guide

IMAGES = ("segment", "detect")


def run_guide(name, tmp_path):
    """Run the commands that `tasks` lists, with a short training and without the report; return the model."""
    if name in IMAGES:
        pytest.importorskip("PIL")
    example, train, predict, evaluate, _ = (command.split()[1:] for command in find_guide(name).commands)
    place = {word: tmp_path / word for word in (KINDS[name].example_file, KINDS[name].prediction_file, "model")}
    run(*example[:2], "-o", place[example[-1]])
    limits = ["--max-iter", "2"] if name != "detect" else ["--max-iter", "1", "--boxes", "20", "--no-cache"]
    run(*(place.get(word, word) for word in train), "-q", *limits)
    for words in (predict, evaluate):
        run(*(place.get(word, word) for word in words))
    assert place[predict[-1]].exists()
    return place["model"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KINDS)
def test_examples_and_unusable_files(name, tmp_path):
    model, file = run_guide(name, tmp_path), KINDS[name].example_file
    shown = run("info", model).stdout
    assert not re.search(r"^(features|examples) +0$", shown, re.MULTILINE)
    empty, other = tmp_path / f"empty{os.path.splitext(file)[1]}", tmp_path / "other.jsonl"
    empty.touch()
    other.write_text('{"nodes": {}, "variables": {}}\n{"tokens": ["a b"], "documents": {}}\n')
    for data in (empty, other, tmp_path / "missing"):
        for words in (("train", name, data, "-o", tmp_path / "none"), ("evaluate", model, data)):
            message = fail(*words)
            assert str(data) in message or "LABELS must be given" in message
    assert not (tmp_path / "none").exists()
