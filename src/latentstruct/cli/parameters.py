"""Options and arguments as plain data, for the help, configuration files, error messages and the documentation."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

SWITCH = "switch"
INTEGER = "integer"
NUMBER = "number"
TEXT = "text"
CHOICE = "choice"
EXPECTED = {SWITCH: "true or false", INTEGER: "an integer", NUMBER: "a number", TEXT: "text"}

AUTO = "auto"
"""The value of options that are chosen by folds."""

SHARED = ("config", "save_config")
"""What `Command` adds to every command; these are no options of its function."""


@dataclass(frozen=True)
class Parameter:
    """One option or argument of a command.

    `key` is its name in a configuration file; `options` is empty for an argument; `opposites` turn a switch off;
    `repeated` is whether it may be given several times; `default` describes what holds without it.
    """

    name: str
    key: str
    options: tuple[str, ...]
    opposites: tuple[str, ...]
    metavar: str
    help: str
    type: str
    choices: tuple[str, ...]
    minimum: float | None
    maximum: float | None
    repeated: bool
    required: bool
    default: str

    @property
    def is_argument(self) -> bool:
        """Whether it is given by its position."""
        return not self.options

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return self.metavar if self.is_argument else self.options[-1]

    @property
    def limits(self) -> str:
        """The limits of a number, "" if there are none."""
        if self.minimum is not None and self.maximum is not None:
            return f"from {self.minimum:g} to {self.maximum:g}"
        if self.minimum is not None:
            return f"at least {self.minimum:g}"
        return "" if self.maximum is None else f"at most {self.maximum:g}"

    @property
    def expected(self) -> str:
        """The values it may have."""
        if self.type == CHOICE:
            return f"one of {', '.join(self.choices)}"
        of = "" if self.minimum is None or self.maximum is not None else "of "
        return f"{EXPECTED[self.type]} {of}{self.limits}".rstrip() + f", or {AUTO}" * self.auto

    @property
    def auto(self) -> bool:
        """Whether it may be chosen by folds."""
        return self.metavar.endswith(AUTO)

    def usage(self) -> str:
        """Return how it is written: `-o, --output MODEL`."""
        if self.is_argument:
            return self.metavar
        opposite = f" / {', '.join(self.opposites)}" if self.opposites else ""
        return f"{', '.join(self.options)}{opposite} {self.metavar}".rstrip()

    def explanation(self) -> str:
        """Return its help with default and limits."""
        facts = [f"default: {self.default}"] if self.default else []
        facts += [self.limits] if self.limits else []
        facts += ["required"] if self.required and not self.is_argument else []
        return f"{self.help} [{'; '.join(facts)}]" if facts else self.help


def list_parameters(command: Any) -> list[Parameter]:
    """Return the arguments and options of a command, without those of the help."""
    hints = get_type_hints(command.callback) if command.callback else {}
    return [
        describe_parameter(param, hints.get(param.name, Path if param.name in SHARED else bool))
        for param in command.params
    ]


def describe_parameter(param: Any, annotation: Any) -> Parameter:
    """Return a parameter of typer, whose type in Python is `annotation`."""
    one, repeated = split_annotation(annotation)
    is_choice = inspect.isclass(one) and issubclass(one, Enum)
    kind = CHOICE if is_choice else {bool: SWITCH, int: INTEGER, float: NUMBER}.get(one, TEXT)
    is_argument = param.param_type_name == "argument"
    options = () if is_argument else tuple(sorted(param.opts, key=lambda name: name.startswith("--")))
    choices = tuple(str(member.value) for member in one) if is_choice else ()
    if kind == SWITCH and not is_argument:
        metavar = ""
    elif param.metavar or is_argument:
        metavar = str(param.metavar or param.name.upper())
    else:
        metavar = {INTEGER: "NUMBER", NUMBER: "NUMBER", TEXT: "TEXT"}.get(kind, "|".join(choices))
    return Parameter(
        name=param.name,
        key=options[-1].lstrip("-") if options else metavar.lower(),
        options=options,
        opposites=tuple(param.secondary_opts),
        metavar=metavar,
        help=" ".join((param.help or "").split()),
        type=kind,
        choices=choices,
        minimum=param.min,
        maximum=param.max,
        repeated=repeated,
        required=param.required,
        default=_default(param),
    )


def split_annotation(annotation: Any) -> tuple[Any, bool]:
    """Return the type of one value, and whether there may be several."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (one for one in get_args(annotation) if one is not NoneType)
    repeated = get_origin(annotation) is list
    return get_args(annotation)[0] if repeated else annotation, repeated


def _default(param: Any) -> str:
    if isinstance(param.show_default, str):
        return param.show_default
    default = param.default.value if isinstance(param.default, Enum) else param.default
    if isinstance(default, bool):
        return ("on" if default else "off") if param.secondary_opts else ""
    return "" if default is None else str(default)


def walk_commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the commands below a group with the words that call them, in the order of the help."""
    for name in command.list_commands(None):
        below = command.commands[name]
        if hasattr(below, "commands"):
            yield from walk_commands(below, (*path, name))
        else:
            yield (*path, name), below
