"""The rule of error messages, read from the source: the value found, what was expected, and the cure."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import latentstruct

SOURCE = Path(latentstruct.__file__).parent
# What makes a message, and which of its arguments is the text.
MAKERS = {"InputError": 0, "FormatError": 0, "fail": -1, "warnings.warn": 0}

# Said of what was found: a value that is filled in, or that something is absent, where there is no value to show.
FOUND = re.compile(r"\{|\b(empty|missing|no|none|neither|not|without|-1|both|twice|one string|is given|there is)\b")
# Said of what should have been there; a "but" sets what was found against it.
EXPECTED = re.compile(r"\b(expected|must|needs?|needed|but|cannot|unknown|not|no|none)\b|\{expected\}|\{wanted\}")
# A cure begins with what to do, after a stop, a colon or a comma, or is filled in under that name.
VERBS = """
    add align annotate ask begin break bring call change check choose clean code compare complete convert copy correct
    count cut declare define draw drop exchange export fetch fill fix form free give keep label leave let link look
    lower make map mark name normalise number order pip predict prepare put raise read relabel remove rename renumber
    replace reshape resize restore say scale score see separate set shorten sort split standardise subtract swap take
    train try unpack use wrap write
"""
CURE = re.compile(rf"[:;.,] (?:if need be |or |even |for )?(?:{'|'.join(VERBS.split())})\b|\{{\w*cure\w*\}}", re.IGNORECASE)


class Message(NamedTuple):
    """A message in the source."""

    place: str
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
    """Return the name of what is filled in, or a dot for an expression."""
    value = part.value if isinstance(part, ast.FormattedValue) else part
    return value.id if isinstance(value, ast.Name) else "."


def messages(source: str, name: str) -> Iterator[Message]:
    """Yield the messages that a module makes."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in MAKERS:
            continue
        argument = node.args[MAKERS[ast.unparse(node.func)]]
        text = written(argument)
        if text is not None:
            parts = [part for part in ast.walk(argument) if isinstance(part, ast.FormattedValue)]
            yield Message(f"{name}:{node.lineno}", text, any(part.conversion == ord("r") for part in parts))


def faults(message: Message) -> list[str]:
    """Return what a message lacks."""
    checks = {
        "does not say what was found": FOUND.search(message.text),
        "does not say what was expected": EXPECTED.search(message.text),
        "has no cure": CURE.search(message.text),
        "shows a value by !r, however long; use show()": not message.raw,
    }
    return [fault for fault, passed in checks.items() if not passed]
