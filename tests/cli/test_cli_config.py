"""Options in files: --config and --save-config."""

import json
import re
import tempfile
import tomllib
from enum import Enum
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from command import fail, run, weights_file
from error_fields import raises
from latentstruct.cli import app
from latentstruct.cli.config import format_value, read_options, suggest
from latentstruct.cli.grammar import describe_commands

TEXT = "the D\ndog N\nbarks V\n\na D\ncat N\nsleeps V\n\n"
QUICK = 'max-iter = 3\nquiet = true\njson = true\noutput = "model"\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text(TEXT)
    Path("half.txt").write_text(TEXT.replace("cat N", "cat ?"))
    return tmp_path


def write(text, name="run.toml"):
    Path(name).write_text(text)
    return name


def train(*args):
    return json.loads(run("train", "chain", *args).stdout)


def model_settings(folder="model"):
    return json.loads(Path(folder, "model.json").read_text())


def test_a_file_says_everything_options_and_arguments_can(folder):
    config = write(QUICK + 'data = "train.txt"\nC = 2\nmodel = "svm"\nshape = false\ncolumns = 0\nmin_count = 1\n')
    result = train("--config", config)
    assert (result["estimator"], result["iterations"]) == ("StructuralSVM", 3)
    settings = json.dumps(model_settings())
    assert '"C": 2.0' in settings
    assert '"shape": false' in settings


def test_the_command_line_wins_over_the_file(folder):
    config = write(QUICK + 'data = "none.txt"\nmodel = "svm"\nshape = false\n')
    assert train("train.txt", "--config", config, "--model", "crf", "--shape")["estimator"] == "CRF"
    assert '"shape": true' in json.dumps(model_settings())


def test_a_file_serves_several_commands_and_the_longest_name_wins(folder):
    config = write(
        '[train]\noutput = "model"\nmax-iter = 5\nquiet = true\n[train.chain]\nmax-iter = 2\njson = true\n'
        '[train.motif]\nwidth = 7\n[predict]\nmodel = "model"\noutput = "out.txt"\n[evaluate]\njson = true\n'
    )
    assert train("train.txt", "--config", config)["iterations"] == 2
    run("predict", "model", "train.txt", "--config", config)
    assert Path("out.txt").read_text().startswith("the\tD\tD") or Path("out.txt").read_text().startswith("the D D")
    scores = json.loads(run("evaluate", "model", "train.txt", "--config", config).stdout)
    assert "accuracy" in scores
    assert fail("predict", "--config", config).startswith("error: DATA must be given as latentstruct predict")


def test_required_options_count_when_the_file_has_them(folder):
    config = write('task = "PR"\n')
    Path("m.uai").write_text("MARKOV\n1\n2\n1\n1 0\n2\n1 3\n")
    assert run("infer", "m.uai", "--config", config).stdout.splitlines()[0] == "PR"


def test_lists_are_for_options_that_take_several_values():
    words = ("train", "graph")
    assert values('hidden = ["a=2", "b=3"]', *words) == {"hidden": ["a=2", "b=3"]}
    with raises(file="run.toml", got='hidden = "a=2"', expected="hidden = […, …], a list of values, each text"):
        values('hidden = "a=2"', *words)


def values(text, *words):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.toml")
        path.write_text(text, encoding="utf-8")
        return read_options(path, words, typer.main.get_command(app))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "windw = 3",
            "expected an option of latentstruct train.*Did you mean window",
        ),
        ("c = 3", "expected an option of latentstruct train.*Did you mean C"),
        ("[train.chain]\nwindw = 3", "expected an option of latentstruct train.*Did you mean window"),
        (
            "[train.chian]\nC = 3",
            r"expected one of \[train\.chain\], \[train\.segments\], \[train\.classes\].*Did you mean chain",
        ),
        (
            "[chain]\nC = 3",
            r"expected one of \[train\], \[prepare\], \[curve\], \[predict\].*Did you mean \[train\.chain\]",
        ),
        ("[train.chain.window]\nx = 3", r"expected no table in \[train\.chain\]"),
        ('train = "train.txt"', r"expected the table \[train\], as train.*got train = 'train\.txt'"),
        ("no-shape = true", "expected shape = false.*got no-shape"),
        ("config = 'a'", "expected an option of latentstruct train.*got config"),
        ("window = 'x'", 'expected an integer.*got window = "x"'),
        ("window = 2.5", r"expected an integer.*got window = 2\.5"),
        ("window = true", "expected an integer.*got window = true"),
        ("shape = 1", "expected true or false.*got shape = 1"),
        ("C = 'much'", 'expected a number.*got C = "much"'),
        ("unknown = 1.5", r"expected text.*got unknown = 1\.5"),
        ("unknown = [1]", r"expected text.*got unknown = \[1\]"),
        ("unknown = 1979-05-27", "expected text.*got unknown = 1979-05-27"),
        ("min-count = 0", "expected an integer of at least 1.*got min-count = 0"),
        ("model = 'crff'", "expected one of svm, crf, perceptron.*Did you mean crf"),
        ("model = 3", "expected one of svm, crf, perceptron.*got model = 3"),
        ("window 3", "expected lines such as max-iter ="),
        ("window = 1\nwindow = 2", "expected lines such as max-iter ="),
    ],
)
def test_mistakes_in_files_are_told(text, message, folder):
    assert re.search(message, fail("train", "chain", "train.txt", "--config", write(text)))
    assert not Path("model").exists()


def test_files_that_cannot_be_read_are_told(folder):
    assert "--config must be a readable file" in fail("train", "chain", "train.txt", "--config", "none.toml")
    assert "--config must be a readable file" in fail("train", "chain", "train.txt", "--config", ".")
    Path("latin.toml").write_bytes(b'unknown = "\xe9"\n')
    assert "expected a TOML file in UTF-8" in fail("train", "chain", "train.txt", "--config", "latin.toml")


def test_every_command_reads_a_file(folder):
    config = write("no-such-key = 1\n")
    for command in describe_commands():
        assert f"expected an option of latentstruct {' '.join(command.words)}" in fail(
            *command.words, "--config", config
        )


# Saving


def test_a_saved_run_can_be_repeated(folder):
    first = train(
        "half.txt", "--save-config", "run.toml", "--model", "svm", "-C", 0.3, "--no-shape", "--unknown", "?",
        "--max-iter", 4, "--columns", "0", "-q", "--json", "-o", "model"
    )  # fmt: skip
    weights = weights_file("model").read_bytes()
    again = train("--config", "run.toml", "-o", "model2")
    assert again["objective"] == first["objective"]
    assert weights_file("model2").read_bytes() == weights
    train("--config", "run.toml", "--save-config", "more.toml")
    assert Path("more.toml").read_text().splitlines()[1:] == Path("run.toml").read_text().splitlines()[1:]
    saved = tomllib.loads(Path("run.toml").read_text())["train"]["chain"]
    assert (saved["C"], saved["shape"], saved["unknown"], saved["data"]) == (0.3, False, "?", "half.txt")
    assert "tol" not in saved


def test_options_are_saved_only_where_that_loses_nothing(folder):
    config = write(QUICK)
    line = ("train", "chain", "train.txt")
    assert "--save-config must be a file whose name" in fail(*line, "--save-config", "train.txt")
    assert "--save-config must be another file than the" in fail(*line, "--config", config, "--save-config", config)
    Path("folder.toml").mkdir()
    assert "--save-config must be a file whose name" in fail(*line, "--save-config", "folder.toml")
    assert "is a file" in fail(*line, "--save-config", "train.txt/run.toml")
    assert "No such file" in fail("train", "chain", "none.txt", "--save-config", "new.toml")
    assert not Path("new.toml").exists()
    assert Path("train.txt").read_text() == TEXT


class Color(Enum):
    red = "rot"


plain = (
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(st.characters(exclude_categories=["Cs"]))
)


@given(plain | st.lists(plain))
def test_values_are_written_as_toml_reads_them(value):
    found = tomllib.loads(f"x = {format_value(value)}")["x"]
    assert repr(found) == repr(value)


def test_names_and_choices_are_written_as_text():
    assert format_value(Path("a b") / "c") == '"a b/c"'
    assert format_value(Color.red) == '"rot"'
    assert format_value(("a", 1)) == '["a", 1]'


def test_names_that_no_file_can_hold_are_refused(folder):
    name = b"train\xff.txt".decode(errors="surrogateescape")
    Path(name).write_text(TEXT)
    line = fail("train", "chain", name, "-q", "--max-iter", "1", "--save-config", "run.toml")
    assert "--save-config must be left out if a" in line


def test_the_nearest_name_is_suggested():
    assert suggest("max-iteration", ["max-iter", "window"]) == "Did you mean max-iter?"
    assert suggest("zzz", ["max-iter"]) is None


def test_keys_are_unique_in_every_command():
    for command in describe_commands():
        keys = [one.key for one in command.parameters]
        assert len(set(keys)) == len(keys)
        assert not {"train", "predict", "evaluate"} & set(keys)


def test_no_other_file_is_lost_to_saved_options(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text("[project]\n")
    assert "--save-config must be a new file, or" in fail("tasks", "chain", "--save-config", mine)
    assert mine.read_text() == "[project]\n"
    saved = tmp_path / "saved.toml"
    run("tasks", "chain", "--save-config", saved)
    run("tasks", "chain", "--save-config", saved)


@pytest.mark.parametrize("text", ["seed = " + "9" * 5000, "seed = " + "[" * 5000, "max-iter = 5\nmax_iter = 7"])
def test_files_that_only_look_like_options(text, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(text)
    assert "expected" in fail("train", "chain", "x.txt", "--config", file)
