"""Errors of the command line itself: unknown options, missing and superfluous arguments, values of the wrong type."""

from collections.abc import Sequence
from typing import Any

from latentstruct.cli.common import NOTHING
from latentstruct.cli.config import format_value, suggest
from latentstruct.cli.parameters import CHOICE, Parameter, describe_parameter, list_parameters
from latentstruct.exceptions import Description, FormatError, InputError


def usage_error(error: Any, context: Any, args: Sequence[str]) -> InputError:
    """Return the error of the library for an exception of typer; `args` are the arguments of the command."""
    name = type(error).__name__
    if name == "NoSuchOption":
        return _unknown_option(error.option_name, context)
    if name == "BadOptionUsage":
        return _option_usage(error, context)
    if name == "MissingParameter":
        missing = _parameter(error.param, context)
        form = usage_line(context) if missing.is_argument else missing.usage()
        given = f"given as {form}, or as {missing.key} = … in a file for --config"
        return InputError(missing.name, NOTHING, f"{given} ({missing.help.rstrip('.')})")
    if name == "BadParameter" and error.param is not None:
        return _bad_value(error, context, args)
    _, left_over, _ = context.command.make_parser(context).parse_args(args=list(args))
    found = f"also {' '.join(left_over)}" if left_over else error.format_message().rstrip(".")
    return FormatError(context.command_path, Description(found), usage_line(context), _hint(left_over, context))


def usage_line(context: Any) -> str:
    """Return how a command is called."""
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])


def _unknown_option(option: str, context: Any) -> FormatError:
    called, commands = context.command_path, getattr(context.command, "commands", {})
    owners = [name for name, one in commands.items() if any(option in param.opts for param in one.params)]
    if owners:
        hint = f"Write {called} {owners[0]} {option} …"
        return FormatError(called, option, f"a command before it ({', '.join(owners)})", hint)
    known = [one for param in context.command.params for one in (*param.opts, *param.secondary_opts)]
    near = suggest(option, [one for one in known if one.startswith("-")])
    return FormatError(called, option, f"an option that {called} --help lists", near)


def _hint(left_over: Sequence[str], context: Any) -> str | None:
    """Return what to do with superfluous arguments: some commands take files as options."""
    options = {option for param in context.command.params for option in param.opts}
    if left_over and "--data" in options:
        return f"Pass data as --data {left_over[0]}."
    if left_over and {"--positive", "--negative"} <= options:
        return "Pass one file per class as --positive FASTA --negative FASTA."
    return None


def _parameter(param: Any, context: Any) -> Parameter:
    found = {one.name: one for one in list_parameters(context.command)}
    return found.get(param.name) or describe_parameter(param, str)


def _option_usage(error: Any, context: Any) -> InputError:
    """Return the error of an option that lacks its value, or of a switch with one."""
    for one in list_parameters(context.command):
        if error.option_name in (*one.options, *one.opposites):
            if not one.metavar:
                return InputError(one.name, Description("a value"), "given without a value")
            return InputError(one.name, NOTHING, f"followed by {one.metavar}")
    return FormatError(context.command_path, error.option_name, usage_line(context))


def _bad_value(error: Any, context: Any, args: Sequence[str]) -> InputError:
    """Return the error of a value that its parameter does not take."""
    one, name = _parameter(error.param, context), error.param.name
    given, _, _ = context.command.make_parser(context).parse_args(args=list(args))
    found = given.get(name)
    if found is None:
        found = (context.default_map or {}).get(name)
    values = found if isinstance(found, list | tuple) else [found]
    wrong = [text for text in values if one.type == CHOICE and text not in one.choices]
    near = suggest(str(wrong[0]), one.choices) if wrong else None
    source = context.get_parameter_source(name)
    if source is not None and source.name == "DEFAULT_MAP":
        shown = Description(f"{one.key} = {format_value(found)}")
        return FormatError(context.meta.get("config", "the configuration"), shown, one.expected, near)
    return InputError(name, Description(" ".join(map(str, values))), one.expected, near)
