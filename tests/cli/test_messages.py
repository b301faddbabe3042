"""The rule of error messages, read from the source: the value found, what was expected, and the cure."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

import latentstruct
from latentstruct.core.formatting import show

SOURCE = Path(latentstruct.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
# What makes a message, and which of its arguments is the text. `fail` of latentstruct.testing speaks to authors of
# tasks and solvers, and says where to look in place of a cure.
MAKERS = {"InputError": 0, "FormatError": 0, "fail": -1, "warnings.warn": 0}
LEFT_OUT = ("testing/",)
# The command's values come from its options and files, most of them names.
RAW_VALUES_ALLOWED = ("cli/", "report/")

# Said of what was found: a value that is filled in, or that something is absent, where there is no value to show.
FOUND = re.compile(
    r"\{|\b(empty|missing|no|none|neither|not|without|nothing|twice|given|maximised|NaN)\b"
    r"|one string|all labels|-1|is -|--\w+ is"
)
# Said of what should have been there; "but" and "only" set what was found against it.
EXPECTED = re.compile(
    r"\b(expected|must|needs?|needed|but|only|cannot|unknown|not|no|none|missing|damaged|known|lost)\b"
    r"|more than|stands for|\{expected\}|\{wanted\}"
)
# A cure begins with what to do, after a stop, a colon or a comma, or is filled in under that name, or asks back.
VERBS = """
    add align annotate ask begin break bring call change check choose clean code compare complete convert copy
    correct count cut declare define draw drop exchange export fetch fill fit fix form free give go keep label
    latentstruct leave let link look lower make map mark mend name normalise number order pip predict prepare put
    raise read relabel remove rename renumber replace reshape resize restore save say scale score see separate set
    shorten sort split standardise subtract swap take tag train try unpack use wrap write
"""
CURE = re.compile(
    rf"[:;.,] (?:if need be |or |even |for )?(?:{'|'.join(VERBS.split())})\b|\{{\w*(?:cure|hint)\w*\}}|\?$",
    re.IGNORECASE,
)
# Messages that pass on another one, which is judged where it is made, and say its place only.
PASSED_ON = {
    "token {.} of sentence {sentence} {problem}",
    "{name}:{line}: {problem}",
    "{folder}: {error}",
    "{path}: {error}",
    "{name}[{k}], {item} {at}: {error}",
    "{.}{error}",
    "{name}: {message}",
    "{.} has no images that can be read: {why}",
    "{explain}: correct it",
    "training ended at w = 0: {_cause_of_zero}",
    "the model is saved in {.}, but {undone}: {why}",
    "{option_usage} ({more})",
    "{.}, or go on without it with --skip-bad",
    "--unknown is {unknown}, but the labels of {.} are {kinds}, or none",
}


class Message(NamedTuple):
    """A message in the source."""

    place: str
    maker: str
    text: str
    """With ``{name}`` for what is filled in."""
    raw: bool
    """Whether a value is filled in by ``!r``, however long it is."""


def written(node: ast.expr) -> str | None:
    """Return the text of a string, None for what is none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(written(part) or f"{{{filled_in(part)}}}" for part in node.values)
    if isinstance(node, ast.IfExp):
        return written(node.body)
    return None


def filled_in(part: ast.expr) -> str:
    """Return the name of what is filled in, or of the function that makes it, or a dot."""
    value = part.value if isinstance(part, ast.FormattedValue) else part
    value = value.func if isinstance(value, ast.Call) and ast.unparse(value.func) != "show" else value
    return value.id if isinstance(value, ast.Name) else "."


def messages(source: str, name: str) -> Iterator[Message]:
    """Yield the messages that a module makes."""
    for node in ast.walk(ast.parse(source)):
        maker = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        maker = "fail" if maker.endswith(".fail") else maker
        if maker in MAKERS:
            argument = node.args[MAKERS[maker]]
            text = written(argument)
            parts = [part for part in ast.walk(argument) if isinstance(part, ast.FormattedValue)]
            raw = any(part.conversion == ord("r") for part in parts)
            if text is not None:
                yield Message(f"{name}:{node.lineno}", maker, text, raw)


def faults(message: Message) -> list[str]:
    """Return what a message lacks."""
    if message.text in PASSED_ON:
        return []
    checks = {
        "does not say what was found": FOUND.search(message.text),
        # A warning tells what happened.
        "does not say what was expected": message.maker == "warnings.warn" or EXPECTED.search(message.text),
        "has no cure": CURE.search(message.text),
        "shows a value by !r, however long: use show()": not message.raw
        or message.place.startswith(RAW_VALUES_ALLOWED),
    }
    return [fault for fault, passed in checks.items() if not passed]


def all_messages() -> list[Message]:
    found = []
    for path in MODULES:
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(LEFT_OUT):
            found.extend(messages(path.read_text(encoding="utf-8"), name))
    return found


def test_every_message_says_what_was_found_what_was_expected_and_what_to_do():
    found = all_messages()
    wrong = [f"{one.place} {fault}: {one.text}" for one in found for fault in faults(one)]
    assert len(found) > 900
    assert not wrong, "\n".join(wrong)


def test_messages_that_are_passed_on_are_still_there():
    assert {one.text for one in all_messages()} >= PASSED_ON


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ('InputError(f"C is {C}: choose a number above 0")', "does not say what was expected"),
        ('InputError(f"C must be above 0, found {C}")', "has no cure"),
        ('InputError(f"C must be a number: {error}")', "has no cure"),
        ('InputError("C must be above 0: choose a larger one")', "does not say what was found"),
        ('FormatError("bad file")', "has no cure"),
        ('fail(name, 3, f"found {cell}; expected a number")', "has no cure"),
        ('InputError(f"C is {C!r}; expected a number: correct it")', "shows a value by !r"),
        ('warnings.warn("training stopped", UserWarning)', "does not say what was found"),
    ],
)
def test_a_bad_message_is_seen(call, fault):
    [message] = messages(f"raise {call}" if call.startswith("I") else call, "tasks/some.py")
    assert any(found.startswith(fault) for found in faults(message))


@pytest.mark.parametrize(
    "call",
    [
        'InputError(f"C must be a number above 0, found {show(C)}: choose one such as 1")',
        'InputError("Y is missing, but a score needs it: give the true outputs")',
        'fail(name, 3, f"found {show(cell)}; expected a number: {cure}")',
        'InputError("this " "is " f"{C}, but must be {D}: correct it")',
        "InputError(message)",
    ],
)
def test_a_good_message_passes(call):
    assert not [fault for one in messages(call, "tasks/some.py") for fault in faults(one)]


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**7,
        b"x" * 10**7,
        list(range(10**6)),
        {"key" * 100: "value" * 100},
        [["x" * 1000] * 1000] * 1000,
        np.zeros((1000, 1000)),
        np.full(3, "x" * 1000),
        sparse.eye(1000).tocsr(),
        10**10000,
        range(10**9),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_shown_value_is_short_and_in_one_line(value):
    assert len(show(value)) <= 61
    assert "\n" not in show(value)


def test_a_shown_value_is_the_value():
    assert [show(value) for value in ("a  b", 1.5, [1, "a"], None, ("x",))] == [
        "'a  b'",
        "1.5",
        "[1, 'a']",
        "None",
        "('x',)",
    ]
    assert [show(value) for value in (np.float64(2), np.str_("a"), np.int64(-1), [np.int64(3)])] == [
        "2.0",
        "'a'",
        "-1",
        "[3]",
    ]
    assert show(np.zeros((2, 3))) == "<ndarray of float64, shape (2, 3)>"
