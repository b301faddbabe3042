"""How a training is run: threads, memory, checkpoints, other machines."""

import tomllib

import numpy as np
import pytest

import latentstruct
from command import fail, run


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Return a file of labeled sentences."""
    path = tmp_path_factory.mktemp("running") / "chain.txt"
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(30):
        labels = rng.choice(["N", "V"], size=6)
        lines += [f"{label.lower()}{rng.integers(3)} {label}\n" for label in labels] + ["\n"]
    path.write_text("".join(lines))
    return path


def weights(folder):
    return latentstruct.load(folder).model_.coef_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jobs", "0"], "--jobs must be a positive integer, or"),
        (["--cache-mb", "-1"], "--cache-mb must be a number above 0"),
        (["--checkpoint-every", "5"], "--checkpoint must be given with --checkpoint-every"),
        (["--checkpoint", "x", "--checkpoint-every", "nan"], "--checkpoint-every must be a number of at"),
        (["--scheduler", "tcp://localhost:1"], "--executor must be given with --scheduler"),
        (["--executor", "spark"], "dask"),
        (["--model", "perceptron", "--cache-mb", "5"], "--cache-mb must be left out for StructuredPerceptron"),
        (["--checkpoint", "missing/x.ckpt"], "missing"),
    ],
)
def test_options_that_make_no_sense_are_refused(words, tmp_path, options, message):
    assert message in fail("train", "chain", words, "-o", tmp_path / "model", "-q", *options)
    assert not (tmp_path / "model").exists()


def test_threads_and_memory_change_no_weight(words, tmp_path):
    for name, options in {"one": ["--jobs", "1"], "two": ["--jobs", "2", "--cache-mb", "500"]}.items():
        run("train", "chain", words, "-o", tmp_path / name, "-q", *options)
    assert np.array_equal(weights(tmp_path / "one"), weights(tmp_path / "two"))


def test_a_training_goes_on_from_its_checkpoint(words, tmp_path):
    common = ["train", "chain", words, "--tol", "1e-6"]
    run(*common, "-o", tmp_path / "whole", "-q")
    checkpoint = ["--checkpoint", tmp_path / "run.ckpt", "--checkpoint-every", "0"]
    run(*common, "-o", tmp_path / "half", "-q", "--max-iter", "2", *checkpoint)
    assert not np.array_equal(weights(tmp_path / "half"), weights(tmp_path / "whole"))
    reported = run(*common, "-o", tmp_path / "rest", *checkpoint).stderr
    assert f"resuming from {tmp_path / 'run.ckpt'}" in " ".join(reported.split())
    assert np.array_equal(weights(tmp_path / "rest"), weights(tmp_path / "whole"))
    refused = fail(*common, "-o", tmp_path / "other", "-q", "-C", "2", *checkpoint)
    assert "run.ckpt" in refused
    assert "C" in refused


def test_options_of_running_are_saved_with_the_others(words, tmp_path):
    saved = tmp_path / "options.toml"
    run("train", "chain", words, "-o", tmp_path / "model", "-q", "--jobs", "2", "--save-config", saved)
    assert tomllib.loads(saved.read_text())["train"]["chain"]["jobs"] == 2
