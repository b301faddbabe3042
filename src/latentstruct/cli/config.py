"""Options in files: `--config` reads them, `--save-config` writes those of a run.

A key is a long option without its dashes, or an argument: `max-rounds = 5`, `C = 0.1`, `shape = false`,
`data = "train.txt"`. Keys at the top of the file are for the command that reads it; those in a table such as `[train]`
or `[train.chain]` for the commands of that name, and the longer name wins. What the command line says wins over all.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any

from latentstruct.cli.parameters import (
    NUMBER,
    SHARED,
    SWITCH,
    TEXT,
    WHOLE_NUMBER,
    Parameter,
    list_parameters,
    walk_commands,
)
from latentstruct.exceptions import FormatError, InputError
from latentstruct.persistence.atomic_files import write_output

SUFFIX = ".toml"
MAX_BYTES, MAX_DOTS, MAX_DEPTH = 2**18, 200, 10
SIGNATURE = "# Run again: latentstruct"


def read_options(path: Path, words: Sequence[str], root: Any) -> dict[str, Any]:
    """Return what a file says for a command: values by the names its function has for them.

    Parameters
    ----------
    path : Path
        The file.
    words : sequence of str
        The command, such as ("train", "chain").
    root : group
        All commands.
    """
    tables = read_tables(path)
    check_tables(path, tables, root, ())
    command, rest = root, tables
    keys = plain_keys(tables, root)
    where = dict.fromkeys(keys, str(path))
    for k, word in enumerate(words):
        command, rest = command.commands[word], rest.get(word, {})
        place = f"[{'.'.join(words[: k + 1])}] of {path}"
        found = plain_keys(rest, command)
        keys |= found
        where |= dict.fromkeys(found, place)
    known = {one.key: one for one in list_parameters(command) if one.name not in SHARED}
    values = {}
    for key, value in keys.items():
        parameter = find_parameter(key, known, where[key], " ".join(words))
        values[parameter.name] = fitting(value, parameter, key, where[key])
    return values


def read_tables(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{path} cannot be read ({why}); expected a TOML file of options: give another one") from error
    if len(raw) > MAX_BYTES:
        raise FormatError(f"{path} has more than {MAX_BYTES} bytes; expected a TOML file of options: choose another")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 ({error}); expected a TOML file of options: save it as such") from error
    for number, line in enumerate(text.split("\n"), 1):
        # The time to read a name such as a.b.c grows with the square of its parts.
        if line.count(".") > MAX_DOTS:
            raise FormatError(
                f"{path}:{number}: found {line.count('.')} dots in one line; expected at most {MAX_DOTS}: write the "
                "entries of a long list on lines of their own"
            )
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits and deep brackets are mistakes of the file too.
        raise FormatError(
            f'{path} is no TOML ({error}); expected lines such as max-rounds = 5 and data = "train.txt": correct it'
        ) from error
    check_depth(path, tables)
    return tables


def check_depth(path: Path, tables: dict[str, Any]) -> None:
    """Raise if a file has lists in lists, or tables in tables, deeper than any command has them."""
    level: list[Any] = [tables]
    for _ in range(MAX_DEPTH):
        level = [
            below
            for one in level
            for below in (one.values() if isinstance(one, dict) else one)
            if isinstance(below, dict | list)
        ]
    if level:
        raise FormatError(
            f"{path} has lists or tables that are nested more than {MAX_DEPTH} deep; expected options and lists of "
            "values: correct it"
        )


def plain_keys(table: Mapping[str, Any], command: Any) -> dict[str, Any]:
    """Return the entries of a table that are options, with dashes in their names."""
    below = getattr(command, "commands", {})
    plain: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name in plain:
            raise FormatError(f"{name} is given twice, with dashes and underscores; expected it once: remove one")
        if key not in below:
            plain[name] = value
    return plain


def check_tables(path: Path, table: Mapping[str, Any], command: Any, words: tuple[str, ...]) -> None:
    """Raise if a table of the file is that of no command, or a command is no table."""
    below = getattr(command, "commands", {})
    for key, value in table.items():
        name = ".".join((*words, key))
        if key in below and not isinstance(value, dict):
            raise FormatError(
                f"{path} has {name} = {value!r}; expected the table [{name}], as {name} is a command: write its "
                "options below that line"
            )
        if isinstance(value, dict) and key not in below:
            raise unknown_table(path, key, command, words)
        if isinstance(value, dict):
            check_tables(path, value, below[key], (*words, key))


def unknown_table(path: Path, key: str, command: Any, words: tuple[str, ...]) -> FormatError:
    """Return the error of a table that is that of no command."""

    def named(*rest: str) -> str:
        return f"[{'.'.join((*words, *rest))}]"

    if not hasattr(command, "commands"):
        return FormatError(f"{path} has the table {named(key)}; expected none in {named()}: write its keys there")
    below = command.list_commands(None)
    deeper = next((named(*further) for further, _ in walk_commands(command) if further[-1] == key), None)
    near = suggest(key, below) if deeper is None else f" (did you mean {deeper}?)"
    return FormatError(
        f"{path} has the table {named(key)}; expected one of {', '.join(map(named, below))}: correct its name{near}"
    )


def find_parameter(key: str, known: Mapping[str, Parameter], where: str, command: str) -> Parameter:
    """Return the parameter a key names; raise if there is none."""
    if key in known:
        return known[key]
    for one in known.values():
        if f"--{key}" in one.opposites:
            raise FormatError(f"{where} has {key}, which turns {one.key} off; expected that: write {one.key} = false")
    raise FormatError(
        f"{where} has {key}, which latentstruct {command} does not have; expected one of {', '.join(known)}: correct "
        f"or remove it, or put it into the table of another command{suggest(key, known)}"
    )


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the nearest of the known names as a question, "" if none is near."""
    names = list(known)
    folded = [one for one in names if one.casefold() == name.casefold()]
    near = folded or get_close_matches(name, names, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def fitting(value: Any, parameter: Parameter, key: str, where: str) -> Any:
    """Return a value of the file as the command line would have it; raise if its type is another.

    Limits and choices are checked with the values of the command line.
    """
    if parameter.size == 1:
        return fitting_one(value, parameter, key, where)
    length = "" if parameter.size is None else f"{parameter.size} "
    wrong = not isinstance(value, list) or (parameter.size is not None and len(value) != parameter.size)
    if wrong:
        raise FormatError(
            f"{where} has {key} = {show(value)}; expected a list of {length}values, each {parameter.expected}: write "
            f"{key} = […, …]"
        )
    return [fitting_one(one, parameter, key, where) for one in value]


def fitting_one(value: Any, parameter: Parameter, key: str, where: str) -> Any:
    """Return one value of the file as the command line would have it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        SWITCH: isinstance(value, bool),
        WHOLE_NUMBER: is_number and isinstance(value, int),
        NUMBER: is_number,
        TEXT: isinstance(value, str) or (is_number and isinstance(value, int)),
    }.get(parameter.type, isinstance(value, str))
    if not fits:
        raise FormatError(f"{where} has {key} = {show(value)}; expected {parameter.expected}: correct it")
    return str(value) if parameter.type == TEXT else value


def show(value: Any) -> str:
    """Return a value of a file for a message, as TOML has it where that is simple."""
    return format_value(value) if isinstance(value, bool | int | float | str | list) else str(value)


def format_value(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and not isinstance(value, Enum):
        return repr(value)
    # JSON escapes what TOML must have escaped, except for one sign.
    text = str(value.value if isinstance(value, Enum) else value)
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def check_saving(path: Path, config: Path | None) -> None:
    """Raise unless options can be written to a file later on."""
    from latentstruct.cli.common import check_folder, check_output

    if path.suffix.lower() != SUFFIX:
        raise InputError(f"the options are to be saved in {path}; expected a name that ends in {SUFFIX}: add it")
    if path.is_dir():
        raise InputError(f"{path} is a folder; expected a file to save options in: choose another name")
    check_folder(path.parent, None, "the options are to be saved in it")
    check_output(str(path), [] if config is None else [config])
    if path.exists() and path.stat().st_size and not path.read_bytes().startswith(SIGNATURE.encode()):
        raise InputError(
            f"{path} is there and was not written by --save-config, and would be lost; expected a new name: choose one"
        )


def write_options(path: Path, words: Sequence[str], command: Any, values: Mapping[str, Any]) -> None:
    """Write the options of a run, so that `--config` repeats it."""
    name = " ".join(words)
    lines = [f"{SIGNATURE} {name} --config {path.name}", f"[{'.'.join(words)}]"]
    for parameter in list_parameters(command):
        value = values.get(parameter.name)
        if value is not None and not (parameter.size is None and not value):
            lines.append(f"{parameter.key} = {format_value(value)}")
    try:
        text = "\n".join([*lines, ""]).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the options of this run hold {error.object[error.start : error.end]!r}, which is not UTF-8; expected "
            "names that can be saved: rename the file, or leave --save-config out"
        ) from error
    write_output(path, text)
