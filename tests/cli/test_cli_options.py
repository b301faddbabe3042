"""Options that several kinds of models share."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from command import fail, run
from error_fields import raises
from latentstruct.cli import kinds
from latentstruct.cli.commands import app
from latentstruct.cli.common import reported_errors, say_warnings
from latentstruct.cli.grammar import option_namer
from latentstruct.cli.kind import format_facts
from latentstruct.cli.options import HeldOut
from latentstruct.cli.registry import KINDS
from latentstruct.exceptions import FormatError, InputError

IMAGES = ("images", "-", "--valid", "images", "--valid-labels", "-")
OTHER_FILES = {"detect": IMAGES, "segment": IMAGES, "motif": ("--positive", "-", "--background", "-")}


def test_every_folder_of_kinds_is_registered_and_whole():
    folders = {path.parent.name for path in Path(kinds.__file__).parent.glob("*/command.py")}
    assert folders == set(KINDS)
    for name, kind in KINDS.items():
        assert kind.name == name
        for part in ("report", "sample"):
            assert find_spec(f"latentstruct.cli.kinds.{name}.{part}") is not None


@pytest.mark.parametrize("kind", KINDS)
def test_standard_input_is_refused_where_it_is_given_twice(kind, tmp_path):
    files = OTHER_FILES.get(kind, ("-", "--valid", "-"))
    line = fail("train", kind, *files, "-o", tmp_path / "model", stdin="")
    assert "must be a file, got '-'" in line
    assert not (tmp_path / "model").exists()


def test_evaluation_reads_standard_input_once():
    with raises("negative", got="'-'", expected="a file"):
        HeldOut(positive="-", negative="-").check(KINDS["motif"])
    HeldOut(positive="-", negative="some.fa").check(KINDS["motif"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_help_names_both_meanings_of_tol(kind):
    shown = " ".join(re.sub(r"[│|]", " ", run("train", kind, "--help").stdout).split())
    assert (
        "Relative gap to certify; latent: stop when an iteration lowers the objective by a smaller fraction." in shown
    )


def test_errors_and_warnings_name_the_option_that_sets_a_parameter(capsys):
    def option_name(parameter):
        return {"n_jobs": "--jobs", "k": "--k"}.get(parameter)

    with reported_errors(option_name):
        say_warnings(["lower `k` or `C`"])
    with pytest.raises(typer.Exit), reported_errors(option_name):
        raise InputError("n_jobs", 0, "positive, or `k`", "See `k[3]`.")
    warned, refused = capsys.readouterr().err.splitlines()
    assert warned == "warning: lower --k or `C`"
    assert refused == "error: --jobs must be positive, or --k, got 0. See --k[3]."


def test_library_parameters_are_mapped_to_the_options_that_set_them():
    trainings = typer.main.get_command(app).commands["train"].commands
    for name, parameter, option in (("chain", "n_jobs", "--jobs"), ("motif", "init", "--start"), ("rank", "k", "--k")):
        name_of = option_namer(trainings[name])
        assert name_of(parameter) == option
        assert name_of("no_such_parameter") is None
    assert option_namer(trainings["chain"])("data") == "DATA"


def test_declared_facts_are_formatted_and_left_out_where_nothing_is_known():
    declared = (
        ("share", "{share:%} of {n}"),
        ("levels", "{levels:g}{titles: and titles|}"),
        ("order", "{tagged:words with tags|words}"),
        ("limit", "{n}, at most {box[limit]} per image"),
        ("not known", "{nothing}"),
        ("missing", "{absent:.3f}"),
    )
    values = {"share": 0.25, "n": 4, "levels": (0.0, 2.0), "titles": True, "tagged": False, "box": {"limit": 9}}
    assert format_facts(declared, {**values, "nothing": None}) == [
        ("share", "25.00 % of 4"),
        ("levels", "0, 2 and titles"),
        ("order", "words"),
        ("limit", "4, at most 9 per image"),
    ]
    assert format_facts((("share", "{n} with {share:%}"),), {"n": 1, "share": None}) == [("share", "1 with –")]


@pytest.mark.parametrize(("kind", "item"), [("graph", "graph"), ("program", "program")])
def test_errors_about_examples_name_them_as_the_file_does(kind, item):
    with raises(f"data.jsonl, {item} 4", got=1, expected="two", error=FormatError), KINDS[kind].naming("data.jsonl"):
        raise InputError("X[3]", 1, "two")
    for other in ("k", "X"):
        with raises(other, got=1, expected="two"), KINDS[kind].naming("data.jsonl"):
            raise InputError(other, 1, "two")
