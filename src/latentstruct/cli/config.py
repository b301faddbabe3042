"""Options in files: `--config` reads them, `--save-config` writes those of a run.

A key is a long option without its dashes, or an argument: `max-iter = 5`, `C = 0.1`, `shape = false`,
`data = "train.txt"`. Keys at the top of the file are for the command that reads it; those in a table such as `[train]`
or `[train.chain]` are for the commands of that name, and the longer name wins. The command line wins over the file.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any

from latentstruct.cli.parameters import (
    AUTO,
    INTEGER,
    NUMBER,
    SHARED,
    SWITCH,
    TEXT,
    Parameter,
    list_parameters,
    walk_commands,
)
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.persistence.atomic_files import write_output

SUFFIX = ".toml"
MAX_BYTES, MAX_DOTS, MAX_DEPTH = 2**18, 200, 10
SIGNATURE = "# Run again: latentstruct"
EXAMPLE = 'lines such as max-iter = 5 and data = "train.txt"'


def read_options(path: Path, words: Sequence[str], root: Any) -> dict[str, Any]:
    """Return the values of a file for a command such as ("train", "chain"), by the names of its fields.

    `root` has all commands.
    """
    tables = read_tables(path)
    _check_tables(path, tables, root, ())
    command, rest = root, tables
    keys = _plain_keys(path, tables, root)
    where = dict.fromkeys(keys, str(path))
    for k, word in enumerate(words):
        command, rest = command.commands[word], rest.get(word, {})
        found = _plain_keys(path, rest, command)
        keys |= found
        where |= dict.fromkeys(found, f"{path}, [{'.'.join(words[: k + 1])}]")
    known = {one.key: one for one in list_parameters(command) if one.name not in SHARED}
    values = {}
    for key, value in keys.items():
        parameter = _find_parameter(key, known, where[key], " ".join(words))
        values[parameter.name] = _checked(value, parameter, where[key])
    return values


def read_tables(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError("config", str(path), "a readable file", f"{error.strerror or error}.") from error
    if len(raw) > MAX_BYTES:
        raise FormatError(path, Description(f"more than {MAX_BYTES} bytes"), "a TOML file of options")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(path, Description(f"text that is not UTF-8 ({error})"), "a TOML file in UTF-8") from error
    for number, line in enumerate(text.split("\n"), 1):
        # The time to read a name such as a.b.c grows with the square of its parts.
        if line.count(".") > MAX_DOTS:
            hint = "Write the entries of a long list on lines of their own."
            raise FormatError(
                path, Description(f"{line.count('.')} dots in one line"), f"at most {MAX_DOTS}", hint, line=number
            )
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits and deep brackets are errors of the file too.
        raise FormatError(path, Description(f"text that is not TOML ({error})"), EXAMPLE) from error
    _check_depth(path, tables)
    return tables


def _check_depth(path: Path, tables: dict[str, Any]) -> None:
    """Raise if lists or tables are nested deeper than in any command."""
    level: list[Any] = [tables]
    for _ in range(MAX_DEPTH):
        entries = (below for one in level for below in (one.values() if isinstance(one, dict) else one))
        level = [below for below in entries if isinstance(below, dict | list)]
    if level:
        found = Description(f"lists or tables nested more than {MAX_DEPTH} deep")
        raise FormatError(path, found, "options and lists of values")


def _plain_keys(path: Path, table: Mapping[str, Any], command: Any) -> dict[str, Any]:
    """Return the entries of a table that are options, with dashes in their names."""
    below = getattr(command, "commands", {})
    plain: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name in plain:
            raise FormatError(path, Description(f"{name} twice, with dashes and underscores"), "each option once")
        if key not in below:
            plain[name] = value
    return plain


def _check_tables(path: Path, table: Mapping[str, Any], command: Any, words: tuple[str, ...]) -> None:
    """Raise if a table of the file is that of no command, or a command is no table."""
    below = getattr(command, "commands", {})
    for key, value in table.items():
        name = ".".join((*words, key))
        if key in below and not isinstance(value, dict):
            raise FormatError(path, Description(f"{name} = {value!r}"), f"the table [{name}], as {name} is a command")
        if isinstance(value, dict) and key not in below:
            raise _unknown_table(path, key, command, words)
        if isinstance(value, dict):
            _check_tables(path, value, below[key], (*words, key))


def _unknown_table(path: Path, key: str, command: Any, words: tuple[str, ...]) -> FormatError:
    def named(*rest: str) -> str:
        return f"[{'.'.join((*words, *rest))}]"

    found = Description(f"the table {named(key)}")
    if not hasattr(command, "commands"):
        return FormatError(path, found, f"no table in {named()}")
    below = command.list_commands(None)
    deeper = next((named(*further) for further, _ in walk_commands(command) if further[-1] == key), None)
    near = suggest(key, below) if deeper is None else f"Did you mean {deeper}?"
    return FormatError(path, found, f"one of {', '.join(map(named, below))}", near)


def _find_parameter(key: str, known: Mapping[str, Parameter], where: str, command: str) -> Parameter:
    """Return the parameter of a key; raise if there is none."""
    if key in known:
        return known[key]
    for one in known.values():
        if f"--{key}" in one.opposites:
            raise FormatError(where, Description(key), f"{one.key} = false")
    expected = f"an option of latentstruct {command} ({', '.join(known)})"
    raise FormatError(where, Description(key), expected, suggest(key, known))


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return the nearest of the known names as a question, None if none is near."""
    names = list(known)
    folded = [one for one in names if one.casefold() == name.casefold()]
    near = folded or get_close_matches(name, names, 1, cutoff=0.7)
    return f"Did you mean {near[0]}?" if near else None


def _checked(value: Any, parameter: Parameter, where: str) -> Any:
    """Return a value of the file as the command line would have it; raise if its type is another.

    Limits and choices are checked together with the values of the command line.
    """
    if not parameter.repeated:
        return _checked_one(value, parameter, where)
    if not isinstance(value, list):
        expected = f"{parameter.key} = […, …], a list of values, each {parameter.expected}"
        raise FormatError(where, _entry(parameter, value), expected)
    return [_checked_one(one, parameter, where) for one in value]


def _checked_one(value: Any, parameter: Parameter, where: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        SWITCH: isinstance(value, bool),
        INTEGER: is_number and isinstance(value, int),
        NUMBER: is_number,
        TEXT: isinstance(value, str) or (is_number and isinstance(value, int)),
    }.get(parameter.type, isinstance(value, str)) or (parameter.auto and value == AUTO)
    if not fits:
        raise FormatError(where, _entry(parameter, value), parameter.expected)
    return str(value) if parameter.type == TEXT else value


def _entry(parameter: Parameter, value: Any) -> Description:
    shown = format_value(value) if isinstance(value, bool | int | float | str | list) else str(value)
    return Description(f"{parameter.key} = {shown}")


def format_value(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and not isinstance(value, Enum):
        return repr(value)
    # JSON escapes what TOML must have escaped, except for one character.
    text = str(value.value if isinstance(value, Enum) else value)
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def check_saving(path: Path, config: Path | None) -> None:
    """Raise unless options can be written to a file later on."""
    from latentstruct.cli.common import check_folder, check_output

    if path.suffix.lower() != SUFFIX or path.is_dir():
        raise InputError("save_config", str(path), f"a file whose name ends in {SUFFIX}")
    check_folder(path.parent, parameter="save_config")
    check_output(str(path), [] if config is None else [config], "save_config")
    if path.exists() and path.stat().st_size and not path.read_bytes().startswith(SIGNATURE.encode()):
        expected = "a new file, or one written by `save_config`"
        raise InputError("save_config", str(path), expected, "Its contents would be lost.")


def write_options(path: Path, words: Sequence[str], command: Any, values: Mapping[str, Any]) -> None:
    """Write the options of a run, so that `--config` repeats it."""
    name = " ".join(words)
    lines = [f"{SIGNATURE} {name} --config {path.name}", f"[{'.'.join(words)}]"]
    for parameter in list_parameters(command):
        value = values.get(parameter.name)
        if value is not None and (value or not parameter.repeated):
            lines.append(f"{parameter.key} = {format_value(value)}")
    try:
        text = "\n".join([*lines, ""]).encode()
    except UnicodeEncodeError as error:
        found, expected = error.object[error.start : error.end], "left out if a file name is not UTF-8"
        raise InputError("save_config", found, expected, "Rename the file.") from error
    write_output(path, text)
