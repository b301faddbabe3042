"""One grammar for all commands: the same names for the same things, help, and messages about mistakes."""

import re
import shlex
from collections import defaultdict

import pytest
import typer

from command import fail, run
from latentstruct.cli import app
from latentstruct.cli.grammar import Group, describe_commands
from latentstruct.cli.parameters import SHARED, SWITCH
from latentstruct.cli.registry import KINDS

COMMANDS = {" ".join(command.words): command for command in describe_commands()}
TRAININGS = [name for name in COMMANDS if name.startswith("train ")]
USERS_OF_MODELS = ("predict", "evaluate", "report", "info")

# What differs though it has one name, and why.
DIFFERENT_HELP = {
    "wide": "of graphs to train on, or of one model",
    "max-seconds": "limits another program in infer, which has no iterations",
    "C": "tells what an example is",
    "model": "names the models of the kind; an argument elsewhere",
    "data": "tells the form of the file",
    "labels": "tells the form of the labels",
    "features": "names the features of the kind",
    "loss": "names the losses of the kind",
    "k": "documents that count, or are chosen",
    "step": "of patches, or of boxes",
    "min-count": "of tokens, or of nodes and edges",
    "output": "a model, a file, a page or a folder",
    "unknown": "a mark in text, or a label of pixels",
    "exact": "of inference, or of a search",
    "max-entries": "replaces a limit of memory in infer",
    "checkpoint": "of a training, or of trials",
    "jobs": "threads, or processes",
    "negative": "sequences to learn from, or to judge by",
    "positive": "sequences to learn from, or to judge by",
    "task": "one of those that can be tried, or of inference",
    "folds": "of scores beside a training, or of a curve",
}
DIFFERENT_FORM = {
    "C": "the usual value is a number of its own",
    "model": "an option of trainings, an argument of others",
    "data": "an option of reports, which may do without",
    "labels": "an argument where data are one",
    "features": "choices of the kind",
    "loss": "choices of the kind",
    "task": "an argument of example and tasks, an option of infer",
    "output": "what is written",
    "jobs": "one process is usual, as many threads as cores are",
    "exact": "the opposite of an estimate, or of a greedy search",
    "wide": "the usual one comes first",
}


def named(command):
    return {one.key: one for one in COMMANDS[command].parameters}


def usages():
    found = defaultdict(list)
    for command in COMMANDS.values():
        for one in command.parameters:
            found[one.key].append(one)
    return found


@pytest.mark.parametrize("key", sorted(key for key, ones in usages().items() if len(ones) > 1))
def test_an_option_means_the_same_everywhere(key):
    ones = usages()[key]
    forms = {
        (one.options, one.opposites, one.metavar, one.type, one.choices, one.repeated, one.minimum) for one in ones
    }
    assert (len(forms) == 1) or key in DIFFERENT_FORM, forms
    helps = {one.help for one in ones}
    assert (len(helps) == 1) or key in DIFFERENT_HELP, helps


def test_no_difference_is_excused_that_is_none():
    ones = usages()
    assert {key for key in DIFFERENT_HELP if len({one.help for one in ones[key]}) == 1} == set()
    forms = {
        key: {(one.options, one.metavar, one.choices, one.repeated) for one in ones[key]} for key in DIFFERENT_FORM
    }
    assert {key for key, found in forms.items() if len(found) == 1} <= {"C", "exact"}


@pytest.mark.parametrize("name", TRAININGS)
def test_every_training_has_the_same_frame(name):
    keys = named(name)
    frame = {"data", "output", "C", "tol", "max-iter", "max-seconds", "seed", "valid", "report", "quiet", "json"}
    frame |= {"jobs", "cache-mb", "checkpoint", "checkpoint-every", "executor", "scheduler"}
    assert frame <= set(keys)
    assert keys["data"].is_argument
    assert keys["output"].options == ("-o", "--output")
    assert keys["quiet"].options == ("-q", "--quiet")


def test_every_kind_is_trained_by_its_name():
    assert [f"train {name}" for name in KINDS] == TRAININGS
    assert [f"curve {name}" for name in KINDS] == [name for name in COMMANDS if name.startswith("curve ")]


@pytest.mark.parametrize("name", USERS_OF_MODELS)
def test_models_come_first(name):
    first = COMMANDS[name].parameters[0]
    assert (first.metavar, first.is_argument, first.required) == ("MODEL", True, True)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_every_command_has(name):
    keys = named(name)
    assert {"config", "save-config"} <= set(keys)
    if name not in ("predict", "example", "scan"):  # these write nothing but data
        assert "json" in keys
    if name not in ("info", "evaluate", "tasks"):  # these write nothing
        assert keys["output"].options == ("-o", "--output")
    if name.startswith(("train ", "curve ")) or name in ("reproduce", "demo", "report"):
        assert keys["quiet"].options == ("-q", "--quiet")


@pytest.mark.parametrize("name", COMMANDS)
def test_parameters_are_told_in_full(name):
    for one in COMMANDS[name].parameters:
        assert one.help.endswith("."), one
        metavar = one.metavar.removesuffix("|auto")
        assert metavar == metavar.upper() or one.choices or metavar == "FILE.html", one
        assert one.metavar or one.type == SWITCH
        assert len(one.usage()) <= 40
        assert not one.metavar.startswith(("DIR", "PATH", "<")), one


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_valid_commands(name):
    examples = COMMANDS[name].examples
    assert any(example.startswith(f"latentstruct {name}") for example in examples)
    for example in examples:
        assert parse(example).params


def parse(line):
    """Read a command line as the command would, without running it."""
    first, *args = shlex.split(line.partition(" > ")[0])
    assert first == "latentstruct"
    context = typer.Context(typer.main.get_command(app), info_name=first)
    while isinstance(context.command, Group):
        word, command, args = context.command.resolve_command(context, args)
        if not isinstance(command, Group):
            return command.make_context(word, args, parent=context)
        context = typer.Context(command, info_name=word, parent=context)


@pytest.mark.parametrize("name", ["", "train", *COMMANDS])
def test_help_fits_a_terminal_and_is_whole(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(*name.split(), "--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    for command in COMMANDS.values() if name == "" else ():
        assert len(command.words) > 1 or f"{command.words[0]} {command.summary}" in words
    for one in COMMANDS[name].parameters if name in COMMANDS else ():
        assert one.usage() in words
        assert " ".join(one.explanation().split()) in words


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["trian"],
            r"expected a command \(train, prepare, curve, predict.*Did you mean train",
        ),
        (["train", "chian"], r"expected a command \(chain, segments, classes.*Did you mean chain"),
        (["motif", "a"], r"expected a command \(train, prepare, curve, predict.*Did you mean latentstruct train motif"),
        (
            ["train", "--positive", "a"],
            r"expected a command before it \(motif\).*got '--positive'",
        ),
        (["--versoin"], "expected an option that latentstruct --help.*Did you mean --version"),
        (
            ["train", "chain"],
            "DATA must be given as latentstruct train.*got nothing",
        ),
        (["infer", "m"], "--task must be given as --task NAME.*got nothing"),
        (
            ["train", "chain", "a", "b", "c"],
            r"expected latentstruct train chain \[OPTIONS\] DATA.*got also b c",
        ),
        (["train", "chain", "a", "--windw", "3"], "expected an option that latentstruct train.*Did you mean --window"),
        (["train", "chain", "a", "-Z"], "expected an option that latentstruct train.*got '-Z'"),
        (
            ["train", "chain", "a", "--window", "x"],
            "--window must be an integer.*got x",
        ),
        (["train", "rank", "a", "--k", "0"], "--k must be an integer of at least.*got 0"),
        (["train", "motif", "a", "--strands", "3"], "--strands must be an integer from 1.*got 3"),
        (
            ["train", "chain", "a", "--model", "crff"],
            "--model must be one of svm, crf.*Did you mean crf",
        ),
        (["train", "chain", "a", "-C", "much"], "-C must be a number.*got much"),
        (["train", "chain", "a", "--tol"], "--tol must be followed by NUMBER.*got nothing"),
        (["train", "chain", "a", "--json=3"], "--json must be given without a value.*got a value"),
        (["info", "m", "--top", "-1"], "--top must be an integer of at least.*got -1"),
    ],
)
def test_mistakes_are_told_in_one_line(args, message):
    assert re.search(message, fail(*args))


def test_nothing_at_all_shows_the_help():
    for args in ((), ("train",)):
        assert "Commands:" in run(*args, code=2).stderr


def test_the_description_leaves_nothing_out():
    chain = COMMANDS["train chain"]
    assert chain.usage == "latentstruct train chain [OPTIONS] DATA"
    assert chain.summary.startswith("Train on sentences")
    shape = named("train chain")["shape"]
    assert (shape.usage(), shape.default, shape.type) == ("--shape / --no-shape", "on", "switch")
    expected = "Order of the Markov background. [default: 3, 0 for proteins; from 0 to 5]"
    assert named("train motif")["order"].explanation() == expected
    assert named("train graph")["hidden"].repeated
    assert [one.name for one in chain.parameters[-2:]] == list(SHARED)
